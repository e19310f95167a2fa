//! Recording jobs and their summaries, shared by all front ends; what each front end gives as a trace and as events.

pub use crate::child::Prints;
use crate::limits::Limits;
use crate::program::Machine;
pub use crate::qemu::{Next, ProcessSummary};
use crate::{dynamorio, lackey, qemu, tsan};
use object::{Object, ReadCache};
use quipu_model::fresh::Replace;
use quipu_model::{Error, Finding, Result};
use quipu_prism::live::Done;
pub use quipu_prism::observed::Destination;
use quipu_source::PackOptions;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A recording job.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The folder to write; `None` for a name in DynamoRIO's style in the working directory.
    pub output: Option<PathBuf>,
    /// Whether to overwrite existing files.
    pub replace: Replace,
    /// Where the program's standard output goes.
    pub prints: Prints,
    /// The part of the execution to record.
    pub limits: Limits,
    /// Whether children created by `fork` are recorded, each into a folder of its own.
    pub follows_forks: bool,
    /// Container and compression level.
    pub pack: PackOptions,
    /// Bytes of all files so far, counted while the program runs; stays 0 with front ends that only see files afterwards.
    pub n_bytes: Arc<AtomicU64>,
}

/// Result of a recording.
#[derive(Debug)]
pub struct Summary {
    /// The folder that was written.
    pub path: PathBuf,
    /// The executed file; for a script, its interpreter.
    pub program: PathBuf,
    /// One summary per process, that of the program first.
    pub processes: Vec<ProcessSummary>,
    /// Findings about the trace.
    pub findings: Vec<Finding>,
    /// Sentences for people: why the trace shows little of the program that was started, or not what was asked for.
    pub warnings: Vec<String>,
    /// Threads that were not recorded because too many ran at the same time.
    pub n_refused: u64,
    /// Whether a limit ended the recording before the program ended.
    pub is_limited: bool,
    /// Exit status of the program.
    pub status: ExitStatus,
    /// Architecture of the program.
    pub machine: Machine,
}

/// Stands for the program in the commands of [`FrontEnd::next`].
pub const PROGRAM: &str = "PROGRAM";
/// Stands for the trace in these commands.
pub const TRACE: &str = "TRACE";
/// The command for a trace of any kind.
pub const REPORT: &str = "quipu report TRACE";

impl Summary {
    /// The words of the command to continue with. The front end's own commands are for the trace of the program that was
    /// started, so not after it was replaced by another one.
    pub fn next_command(&self, front_end: &FrontEnd) -> impl Iterator<Item = &'static str> + use<> {
        let is_started = self.processes.iter().all(|process| process.next == Next::Nothing);
        let own = front_end.next.iter().filter(|_| is_started);
        let fitting =
            own.copied().find(|command| !command.contains(PROGRAM) || has_debug_info(&self.program));
        fitting.unwrap_or(REPORT).split(' ')
    }
}

/// Whether a program has debug information of its own.
fn has_debug_info(program: &Path) -> bool {
    let Ok(file) = File::open(program) else { return false };
    let cache = ReadCache::new(file);
    object::File::parse(&cache).is_ok_and(|file| file.section_by_name(".debug_info").is_some())
}

/// A program whose events are made while it runs.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// The part of the execution to observe.
    pub limits: &'a Limits,
    /// Whether children created by `fork` are observed, too.
    pub follows_forks: bool,
    /// Whether events are lost, and counted, where the destination is slower than the program. Otherwise the program waits.
    pub drops: bool,
    /// Where the program's standard output goes.
    pub prints: Prints,
    /// The destination of the events.
    pub to: Destination<'a>,
}

/// The way in which a front end makes events.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// The program sends them itself.
    Sent,
    /// While the program runs. The function also returns the program's exit status.
    Observed(fn(&Observation<'_>) -> Result<(Done, ExitStatus)>),
    /// From the recording, when the program has ended.
    Stored,
}

/// The events of a front end.
#[derive(Debug)]
pub struct EventsOf {
    /// The events that it makes.
    pub gives: &'static str,
    /// The events that it cannot make.
    pub lacks: &'static str,
    /// The way in which it makes them.
    pub way: Way,
}

/// A front end: one way to record programs.
#[derive(Debug)]
pub struct FrontEnd {
    /// Name that users select it by.
    pub name: &'static str,
    /// Another name for it; empty if there is none.
    pub alias: &'static str,
    /// Contents of its traces.
    pub gives: &'static str,
    /// Checks whether it can be used here; the hint of the error says what to install.
    pub usable: fn() -> Result<()>,
    /// Records a program.
    pub record: fn(&Job) -> Result<Summary>,
    /// The options that also record children.
    pub for_children: &'static str,
    /// Commands to continue with, the best first. One with [`PROGRAM`] needs debug information.
    pub next: &'static [&'static str],
    /// Its workload events.
    pub events: EventsOf,
}

/// All front ends, the best first.
pub const FRONT_ENDS: &[FrontEnd] = &[
    FrontEnd {
        name: "qemu",
        alias: "",
        gives: "drmemtrace: every instruction and access, branches, system calls, signals",
        usable: qemu::usable,
        record: qemu::record,
        for_children: "--follow-fork",
        next: &[REPORT],
        events: EventsOf {
            gives: "instructions, computations, accesses, control flow, threads, functions by their symbols, calls of \
                    pthread and C11 threads, futexes",
            lacks: "accesses of system calls; outcomes of attempts such as `pthread_mutex_trylock`; synchronization on \
                    i386, arm and riscv64; computations on arm and riscv64",
            way: Way::Observed(qemu::observe),
        },
    },
    FrontEnd {
        name: "tsan",
        alias: "",
        gives: "cacheray: typed accesses of threads, for programs and libraries that `quipu cc` compiled",
        usable: tsan::record::usable,
        record: tsan::record::record,
        for_children: "--follow-fork",
        next: &["quipu analyze types --binary PROGRAM TRACE", "quipu analyze types TRACE"],
        events: EventsOf {
            gives: "accesses, functions, threads, locks, barriers and condition variables of compiled code",
            lacks: "computations, control flow, code that was not compiled with `quipu cc`",
            way: Way::Sent,
        },
    },
    FrontEnd {
        name: "dynamorio",
        alias: "",
        gives: "drmemtrace: the same from the processor itself, by an installed DynamoRIO",
        usable: dynamorio::usable,
        record: dynamorio::record,
        for_children: "--follow-fork",
        next: &[REPORT],
        events: EventsOf {
            gives: "instructions, computations, accesses, control flow, threads, when the program has ended",
            lacks: "functions, synchronization, accesses of system calls",
            way: Way::Stored,
        },
    },
    FrontEnd {
        name: "valgrind",
        alias: "lackey",
        gives: "lackey: addresses of instructions and accesses, slowly, as if of one thread",
        usable: lackey::usable,
        record: lackey::record,
        for_children: "--with qemu --follow-fork",
        next: &[REPORT],
        events: EventsOf {
            gives: "instructions and accesses",
            lacks: "threads, which are unknown, so that all events are of one; computations, control flow, functions, \
                    synchronization, accesses of system calls",
            way: Way::Observed(lackey::observe),
        },
    },
];

impl FrontEnd {
    /// One sentence about the events that it cannot make.
    #[must_use]
    pub fn events_missing(&self) -> String {
        format!("{} gives no events of: {}", self.name, self.events.lacks)
    }
}

/// The front end of this name. `auto` selects `tsan` for programs that were compiled for it, otherwise the first front end
/// that can be used here, or the first one if none can.
///
/// # Errors
/// `Usage` if there is none of this name.
pub fn front_end(name: &str, command: &[OsString]) -> Result<&'static FrontEnd> {
    if name == "auto" && tsan::runtime::is_instrumented(command) {
        return front_end("tsan", command);
    }
    if name == "auto" {
        // The others can record any program.
        let others = FRONT_ENDS.iter().filter(|front_end| front_end.name != "tsan");
        let usable = others.clone().find(|front_end| (front_end.usable)().is_ok());
        return usable.or(FRONT_ENDS.first()).ok_or_else(|| Error::missing("there is no way to record"));
    }
    let is_named =
        |front_end: &&FrontEnd| front_end.name == name || (!name.is_empty() && front_end.alias == name);
    FRONT_ENDS.iter().find(is_named).ok_or_else(|| {
        let names: Vec<&str> = FRONT_ENDS.iter().map(|front_end| front_end.name).collect();
        Error::usage(format!("`--with {name}`: expected auto or one of {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_command_names_the_program_if_that_helps() {
        let summary = |program: PathBuf| Summary {
            path: "out".into(),
            program,
            processes: Vec::new(),
            findings: Vec::new(),
            warnings: Vec::new(),
            n_refused: 0,
            is_limited: false,
            status: ExitStatus::default(),
            machine: Machine::X86_64,
        };
        let own = summary(std::env::current_exe().unwrap());
        let words = |summary: &Summary, name: &str| {
            summary.next_command(front_end(name, &[]).unwrap()).collect::<Vec<_>>().join(" ")
        };
        let with_program = "quipu analyze types --binary PROGRAM TRACE";
        if has_debug_info(&own.program) {
            assert_eq!(words(&own, "tsan"), with_program);
        }
        assert_eq!(words(&own, "qemu"), REPORT);
        assert_eq!(words(&summary("/nowhere".into()), "tsan"), "quipu analyze types TRACE");
    }
}
