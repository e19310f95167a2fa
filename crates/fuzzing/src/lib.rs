//! Fuzz targets for every reader, one function for each.
//!
//! A target must return for any bytes, unless a promise is broken: then it panics. It may use memory and time in proportion
//! to its input. [`TARGETS`] lists the handwritten targets; a test compares that list with the programs in
//! `fuzz/fuzz_targets`. Every other format that Quipu knows is a target, too: [`run`] reads any bytes as its traces.
//!
//! | file | readers |
//! |---|---|
//! | [`traces`] | traces of each format, their conversions and analyses |
//! | [`beside`] | auxiliary files of traces: schedules, lists, indexes |
//! | [`captures`] | output of instrumented programs |
//! | [`dtrace`] | captures of DTrace, in each dialect and form |
//! | [`events`] | workload events, in memory shared by other processes and in files of threads |
//! | [`network`] | both sides of the protocol that transfers streams |
//! | [`streams`] | Quipu's own streams and their parts: CBOR, types, rows |
//! | [`texts`] | configurations, sets of calls, expressions, types, debug information, instructions |

#![warn(missing_docs)]

pub mod beside;
pub mod captures;
pub mod dtrace;
pub mod events;
mod folder;
pub mod network;
pub mod streams;
pub mod texts;
pub mod traces;

pub use quipu_testkit::fuzz::source;

use std::sync::LazyLock;

/// The function of a target, which accepts any bytes.
pub type Body = fn(&[u8]);

/// The program for formats without a program of their own; [`FORMAT`] names the format.
pub const PROGRAM: &str = "format";

/// The environment variable that names the format for [`PROGRAM`].
pub const FORMAT: &str = "QUIPU_FORMAT";

/// All handwritten targets: the name, which is also that of its program and of its folder of seeds, and the function.
pub const TARGETS: &[(&str, Body)] = &[
    ("source", source),
    ("check", traces::check),
    ("rewrite", traces::rewrite),
    ("apitrace_text", traces::apitrace_text),
    ("simulate", traces::simulate),
    ("convert", traces::convert),
    ("lists", beside::lists),
    ("schedule", beside::schedule),
    ("index", beside::index),
    ("cells", captures::cells),
    ("dtrace", dtrace::any),
    ("dtrace_classic", dtrace::classic),
    ("dtrace_classic_v0", dtrace::classic_v0),
    ("dtrace_linux", dtrace::linux),
    ("dtrace_buffer", dtrace::buffer),
    ("dtrace_stream", dtrace::stream),
    ("prism", traces::prism),
    ("prism_delivery", events::delivery),
    ("prism_threads", events::threads),
    ("stream", streams::stream),
    ("cbor", streams::cbor),
    ("stream_types", streams::types),
    ("packed_rows", streams::packed_rows),
    ("network_collector", network::collector),
    ("network_sender", network::sender),
    ("configuration", texts::configuration),
    ("call_set", texts::call_set),
    ("expression", texts::expression),
    ("instructions", texts::instructions),
    ("types_file", texts::types_file),
    ("dwarf", texts::dwarf),
];

/// The names of all targets: the handwritten ones, and the remaining formats.
pub fn targets() -> Vec<&'static str> {
    let own = |name: &&str| TARGETS.iter().any(|(target, _)| target == name);
    let formats = quipu::FORMATS.iter().map(|format| format.info().name).filter(|name| !own(name));
    TARGETS.iter().map(|(target, _)| *target).chain(formats).collect()
}

/// Runs a target on any bytes. If it is a format, they are read as its trace, with the same records and findings however that
/// is done.
///
/// # Panics
/// If a promise is broken, or there is no such target.
pub fn run(target: &str, bytes: &[u8]) {
    if let Some((_, body)) = TARGETS.iter().find(|(name, _)| *name == target) {
        return body(bytes);
    }
    match quipu::format_named(target) {
        Ok(format) => quipu_testkit::fuzz::format(format, bytes),
        Err(error) => panic!("no target: {error}"),
    }
}

/// Runs the target that the environment names on any bytes.
///
/// # Panics
/// As for [`run`]; also if the environment names no target.
pub fn run_format(bytes: &[u8]) {
    static NAME: LazyLock<String> = LazyLock::new(|| match std::env::var(FORMAT) {
        Ok(name) => name,
        Err(_) => panic!("`{FORMAT}` names no format"),
    });
    run(&NAME, bytes);
}
