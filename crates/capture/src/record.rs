//! What to record, and what came of it: the same for every front end.

use crate::limits::Limits;
use crate::program::Machine;
pub use crate::qemu::{Next, ProcessSummary};
use crate::{dynamorio, lackey, qemu, tsan};
use quipu_model::fresh::Replace;
use quipu_model::{Error, Finding, Result};
use quipu_source::PackOptions;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;

/// What to record.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The folder to write; `None` for a name of DynamoRIO's kind in the present one.
    pub output: Option<PathBuf>,
    /// Whether to write over something.
    pub replace: Replace,
    /// How much to record.
    pub limits: Limits,
    /// Whether children of `fork` are recorded, each into a folder of its own.
    pub follows_forks: bool,
    /// Container and level.
    pub pack: PackOptions,
}

/// What came of it.
#[derive(Debug)]
pub struct Summary {
    /// The folder that was written.
    pub path: PathBuf,
    /// Process by process, that of the program first.
    pub processes: Vec<ProcessSummary>,
    /// What is to be said of the trace.
    pub findings: Vec<Finding>,
    /// Threads that were not recorded because there were too many at a time.
    pub n_refused: u64,
    /// A limit ended the recording before the program ended.
    pub is_limited: bool,
    /// How the program ended.
    pub status: ExitStatus,
    /// What the program is made for.
    pub machine: Machine,
}

/// A way to record.
#[derive(Debug)]
pub struct FrontEnd {
    /// Its name, as users say it.
    pub name: &'static str,
    /// What its traces hold.
    pub gives: &'static str,
    /// Whether it can be used here; the error's advice is what to install.
    pub usable: fn() -> Result<()>,
    /// Records.
    pub record: fn(&Job) -> Result<Summary>,
    /// The options that record children as well.
    pub for_children: &'static str,
}

/// The ways to record, the best first.
pub const FRONT_ENDS: &[FrontEnd] = &[
    FrontEnd {
        name: "qemu",
        gives: "drmemtrace: every instruction and access, branches, system calls, signals",
        usable: qemu::usable,
        record: qemu::record,
        for_children: "--follow-fork",
    },
    FrontEnd {
        name: "tsan",
        gives: "cacheray: typed accesses of threads, for programs that `quipu cc` compiled",
        usable: tsan::record::usable,
        record: tsan::record::record,
        for_children: "--follow-fork",
    },
    FrontEnd {
        name: "dynamorio",
        gives: "drmemtrace: the same from the processor itself, by an installed DynamoRIO",
        usable: dynamorio::usable,
        record: dynamorio::record,
        for_children: "--follow-fork",
    },
    FrontEnd {
        name: "lackey",
        gives: "lackey: addresses of instructions and accesses, slowly, as if of one thread",
        usable: lackey::usable,
        record: lackey::record,
        for_children: "--with qemu --follow-fork",
    },
];

/// The front end of this name; for `auto` that of programs which were compiled for one, else the first that can be used here,
/// or else the first.
///
/// # Errors
/// `Usage` if there is none of this name.
pub fn front_end(name: &str, command: &[OsString]) -> Result<&'static FrontEnd> {
    if name == "auto" && tsan::record::is_instrumented(command) {
        return front_end("tsan", command);
    }
    if name == "auto" {
        // Any program can be recorded by the others.
        let others = FRONT_ENDS.iter().filter(|front_end| front_end.name != "tsan");
        let usable = others.clone().find(|front_end| (front_end.usable)().is_ok());
        return usable.or(FRONT_ENDS.first()).ok_or_else(|| Error::missing("there is no way to record"));
    }
    FRONT_ENDS.iter().find(|front_end| front_end.name == name).ok_or_else(|| {
        let names: Vec<&str> = FRONT_ENDS.iter().map(|front_end| front_end.name).collect();
        Error::usage(format!("`--with {name}`: expected auto or one of {}", names.join(", ")))
    })
}
