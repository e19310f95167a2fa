//! Hostile bytes for every reader: one function for each fuzz target.
//!
//! A function returns, whatever the bytes are, or panics because a promise is broken. It may use memory and time in proportion to
//! what it is given. [`TARGETS`] names all of them; a test compares that list with the programs in `fuzz/fuzz_targets` and
//! with the formats that Quipu knows, so none can be forgotten.
//!
//! | file | readers |
//! |---|---|
//! | [`traces`] | traces of each format, and what is made of them |
//! | [`beside`] | files that lie beside traces: schedules, lists, indexes |
//! | [`captures`] | what instrumented programs leave |
//! | [`streams`] | streams of our own, and their parts: CBOR, types, rows |
//! | [`texts`] | configurations, sets of calls, types, debug information, instructions |

#![warn(missing_docs)]

pub mod beside;
pub mod captures;
mod folder;
pub mod streams;
pub mod texts;
pub mod traces;

pub use quipu_testkit::fuzz::source;

/// A function that takes any bytes.
pub type Body = fn(&[u8]);

/// Every target: its name, which is that of its program and of its folder of seeds, and what it calls.
pub const TARGETS: &[(&str, Body)] = &[
    ("source", source),
    ("drmemtrace", traces::drmemtrace),
    ("check", traces::check),
    ("rewrite", traces::rewrite),
    ("apitrace", traces::apitrace),
    ("apitrace_text", traces::apitrace_text),
    ("cacheray", traces::cacheray),
    ("lackey", traces::lackey),
    ("din", traces::din),
    ("simulate", traces::simulate),
    ("convert", traces::convert),
    ("raw", beside::raw),
    ("lists", beside::lists),
    ("schedule", beside::schedule),
    ("index", beside::index),
    ("capture", captures::file),
    ("cells", captures::cells),
    ("dtrace", traces::dtrace),
    ("stream", streams::stream),
    ("cbor", streams::cbor),
    ("stream_types", streams::types),
    ("packed_rows", streams::packed_rows),
    ("configuration", texts::configuration),
    ("call_set", texts::call_set),
    ("instructions", texts::instructions),
    ("types_file", texts::types_file),
    ("dwarf", texts::dwarf),
];
