//! The metadata of a trace: what its headers, or a survey of its records, say about it.

use crate::error::Error;
use crate::finding::Finding;
use crate::result;
use crate::schema::Text;
use crate::thread::ThreadId;
use quipu_isa::Arch;
use serde::Serialize;
use std::collections::BTreeMap;

/// The metadata of a trace.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// Name of the format.
    pub format: Text,
    /// One line for people that says what kind of trace it is.
    pub title: String,
    /// Version of the format, in the format's own notation.
    pub version: Option<String>,
    /// Architecture of the instructions, if known.
    pub arch: Option<Arch>,
    /// The clock of the trace, if it has one.
    pub clock: Option<Clock>,
    /// Bytes in a cache line of the traced machine.
    pub line_bytes: Option<u64>,
    /// Bytes in a page of the traced machine.
    pub page_bytes: Option<u64>,
    /// Number of files.
    pub n_files: u64,
    /// Size of the container in bytes, by which progress is measured; `None` if unknown.
    pub packed_bytes: Option<u64>,
    /// Size on disk in bytes, if it is known and differs from `packed_bytes`: for a trace inside a stream, the size of its
    /// frames.
    pub disk_bytes: Option<u64>,
    /// Size of the inflated streams in bytes, if the containers state it.
    pub inflated_bytes: Option<u64>,
    /// Traced functions and system calls with their names.
    pub functions: Vec<Function>,
    /// The threads that were arranged onto cores, in the order of their files; empty if the shards are files themselves.
    pub arranged: Vec<ThreadId>,
    /// Further facts, in the format's own words.
    pub facts: Vec<Fact>,
    /// The kinds of information that the trace carries or lacks.
    pub carries: Vec<Carries>,
    /// The share of the executed instructions that the trace contains.
    pub instrs: Recorded,
    /// The share of the data accesses that the trace contains.
    pub data: Recorded,
    /// Whether its writer has finished it, for formats that mark the end; `false` if it may still be growing.
    pub is_ended: Option<bool>,
    /// Findings from opening the trace.
    pub findings: Vec<Finding>,
}

/// The result of surveying a whole trace.
#[derive(Debug, Default)]
pub struct Surveyed {
    /// Facts, in the format's own words.
    pub facts: Vec<Fact>,
    /// Findings from the survey.
    pub findings: Vec<Finding>,
    /// The error that ended the survey early, if any; the facts are about the part before it.
    pub error: Option<Error>,
}

/// The clock of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Clock {
    /// Ticks per second.
    pub per_second: u64,
    /// The clock's value at the start of 1970 UTC, if it measures the time of day.
    pub unix_epoch: Option<u64>,
    /// Whether clock readings surround each system call, so that its latency is known.
    #[serde(skip)]
    pub frames_calls: bool,
}

/// A traced function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Function {
    /// Id of the function in the trace.
    pub id: u64,
    /// Names of the function, sorted; more than one if there are aliases.
    pub names: Vec<String>,
    /// Number of recorded arguments.
    #[serde(rename = "args")]
    pub n_args: u64,
    /// Whether the function never returns.
    pub noret: bool,
    /// The trace that names the function, counted from 0 among those opened together: each has ids of its own.
    #[serde(skip_serializing_if = "is_first")]
    pub workload: u16,
}

/// Whether a workload is the first one, which JSON omits.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_first(workload: &u16) -> bool {
    *workload == 0
}

/// One fact about a trace.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Stable name, as in JSON.
    pub key: Text,
    /// Label for people.
    pub label: Text,
    /// The value, as JSON.
    pub value: serde_json::Value,
    /// Whether the value is a lower bound: counting ended there, and there may be more.
    pub is_least: bool,
    /// Whether it is one of the most important numbers of such a trace, which a page shows at its top.
    pub is_headline: bool,
}

impl Fact {
    /// A fact whose value is exact.
    pub fn new(key: impl Into<Text>, label: impl Into<Text>, value: impl Serialize) -> Fact {
        let (key, label, value) = (key.into(), label.into(), result::json(&value));
        Fact { key, label, value, is_least: false, is_headline: false }
    }

    /// The same fact as one of the most important numbers.
    #[must_use]
    pub fn headline(self) -> Fact {
        Fact { is_headline: true, ..self }
    }

    /// A count; it is a lower bound if counting ended at `limit`.
    pub fn counted_up_to(key: impl Into<Text>, label: impl Into<Text>, n: u64, limit: u64) -> Fact {
        Fact { is_least: n >= limit, ..Fact::new(key, label, n) }
    }

    /// The value for programs; a lower bound is an object with the key `at_least`.
    pub fn json(&self) -> serde_json::Value {
        if self.is_least {
            result::json(&BTreeMap::from([("at_least", &self.value)]))
        } else {
            self.value.clone()
        }
    }
}

/// How much of the execution a trace contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recorded {
    /// Everything.
    #[default]
    All,
    /// Only what missed a small cache that was simulated while tracing.
    Filtered,
    /// Nothing.
    Nothing,
}

impl Recorded {
    /// The stable name, as output uses it.
    pub const fn name(self) -> &'static str {
        match self {
            Recorded::All => "all",
            Recorded::Filtered => "filtered",
            Recorded::Nothing => "nothing",
        }
    }
}

crate::result_names!(Recorded);

/// A clause that says what was filtered out while tracing; `None` if nothing was.
pub fn filtered_sentence(fetches: Recorded, data: Recorded) -> Option<String> {
    let what = match (fetches, data) {
        (Recorded::Filtered, Recorded::Filtered) => "fetches and accesses to data",
        (Recorded::Filtered, _) => "fetches",
        (_, Recorded::Filtered) => "accesses to data",
        _ => return None,
    };
    Some(format!("filtered while it was traced: {what} that a small cache had are not in it"))
}

/// One kind of information that a trace may carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Carries {
    /// Stable name: `data-accesses`, `encodings`, …
    pub what: Text,
    /// Whether this trace has it.
    pub has: bool,
    /// A few words on how or why, or empty.
    pub note: Text,
}

impl Carries {
    /// Creates an entry: the kind of information, whether the trace has it, and a note.
    pub fn new(what: impl Into<Text>, has: bool, note: impl Into<Text>) -> Carries {
        Carries { what: what.into(), has, note: note.into() }
    }
}
