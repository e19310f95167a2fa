//! The drmemtrace format: instruction and memory traces of real applications.
//!
//! [`DRMEMTRACE`] is the format as the rest of Quipu sees it. Inside, each file has one subject:
//!
//! | file | what |
//! |---|---|
//! | [`record`] | the 12-byte entry, types, markers, file-type bits |
//! | [`decode`] | entries → the records that tools see: the reading rules |
//! | [`lens`] | records → columns |
//! | [`table`] | entries and records as tables; rows → bytes |
//! | `kernel` | which kernel code is open |
//! | [`trace`], [`reader`] | opening files, reading batches, jumping to windows |
//! | [`print`](mod@print) | records as text |
//! | [`edits`] | which entries of a trace are kept, and in what form |
//! | [`write`](mod@write) | entries → files: chunks, containers, folders; edits on the way |
//! | [`push`] | entries of a program that is being recorded → columns |
//! | `cores` | a trace arranged by the cores that its threads ran on |
//! | [`raw`] | the tracer's output before conversion: a format of its own, whose records are words |
//! | [`schedule`], [`funclist`], [`listing`] | the files beside the traces |
//! | [`check`] | the rules, and where a trace violates them |
//! | [`tools`] | analyses on native records |
//!
//! The format itself is described in docs/formats/drmemtrace.md.

mod asm;
pub mod check;
mod codes;
mod cores;
pub mod decode;
pub mod edits;
pub mod funclist;
pub mod header;
mod kernel;
pub mod lens;
pub mod listing;
pub mod print;
pub mod push;
pub mod raw;
pub mod reader;
pub mod record;
pub mod schedule;
mod seams;
pub mod table;
pub mod tools;
pub mod trace;
pub mod transforms;
mod widen;
mod window;
pub mod write;

use quipu_model::convert::RecordWriter;
use quipu_model::options::{Kind, OptionSpec};
use quipu_model::{Confidence, Format, FormatInfo, OpenOptions, Result, RuleInfo, Tool, Trace, Transform};
use quipu_source::Source;

/// Number of leading bytes that must look like entries if no header identifies the file as a trace.
const PROBED_BYTES: usize = 64 * record::ENTRY_BYTES;

pub use raw::RAW;

/// The format, as registered in the list of formats.
pub static DRMEMTRACE: Drmemtrace = Drmemtrace;

/// The type of [`DRMEMTRACE`].
#[derive(Debug)]
pub struct Drmemtrace;

/// Facts about the format that need no trace.
pub static INFO: FormatInfo = FormatInfo {
    name: "drmemtrace",
    title: "instruction and memory traces of real applications (versions 1 to 7)",
    extensions: &[
        "trace.zip",
        "trace.gz",
        "trace.lz4",
        "memtrace.zip",
        "memtrace.gz",
        "memtrace.sz",
        "trace",
    ],
    beyond_lenses: &["markers and entries that no lens shows"],
    doc: "docs/formats/drmemtrace.md",
    options: &[ENTRY_BYTES, CPU_SCHEDULE, ALSO],
    print_options: &[],
};

/// Option: length of entries.
pub(crate) const ENTRY_BYTES: OptionSpec = OptionSpec::new(
    "entry-bytes",
    Kind::Choice(&["12", "8"]),
    "12",
    "Bytes of an entry: 8 for traces that a 32-bit tracer wrote.",
)
.value("12|8");
/// Option: file that states which thread ran on which processor.
pub(crate) const CPU_SCHEDULE: OptionSpec = OptionSpec::new(
    "cpu-schedule",
    Kind::Path,
    "the trace's processor markers",
    "Schedule file: which thread ran on which processor, for `--order cores`; `cpu_schedule.bin.zip` next to the trace is used only for threads without processor markers.",
);
/// Option: further traces to read together with this one.
pub(crate) const ALSO: OptionSpec = OptionSpec::new(
    "also",
    Kind::Text,
    "nothing",
    "Additional traces, read with this one: each is a workload, whose number is printed with its threads: `W1.T5747`, `--thread 1:5747`, and in JSON `workload`.",
)
.value("PATH:…");

impl Format for Drmemtrace {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn probe(&self, source: &Source) -> Confidence {
        if source.is_folder() {
            return probe_folder(source);
        }
        if source.head(record::ENTRY_BYTES).is_ok_and(|head| listing::starts_like_a_trace(&head)) {
            return Confidence::Sure;
        }
        let name = listing::file_name(source);
        let head = source.head(PROBED_BYTES).unwrap_or_default();
        if listing::holds_entries(&head) || listing::has_chunks(source) {
            Confidence::Likely
        } else if listing::named_like_a_trace(name) && listing::looks_like_entries(&head) {
            Confidence::Maybe
        } else {
            Confidence::No
        }
    }

    fn open(&self, source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>> {
        Ok(Box::new(trace::open(source, options)?))
    }

    fn tools(&self) -> &'static [&'static dyn Tool] {
        tools::TOOLS
    }

    fn claims(&self, name: &str) -> bool {
        listing::named_like_a_trace(name)
    }

    fn folder_read(&self, folder: &Source) -> Source {
        // If a folder cannot be listed, opening it reports why.
        listing::folder_of_files(folder).unwrap_or_else(|_| folder.clone())
    }

    fn beside(&self, source: &Source) -> Result<Vec<Source>> {
        Ok(listing::list(source)?.functions.into_iter().collect())
    }

    fn transforms(&self) -> &'static [&'static dyn Transform] {
        transforms::TRANSFORMS
    }

    fn record_writer(&self) -> Option<&'static dyn RecordWriter> {
        Some(&write::import::FromOthers)
    }

    fn rules(&self) -> &'static [RuleInfo] {
        check::RULES
    }
}

fn probe_folder(source: &Source) -> Confidence {
    match listing::list(source) {
        Ok(found) if !found.files.is_empty() => Confidence::Sure,
        _ => Confidence::No,
    }
}
