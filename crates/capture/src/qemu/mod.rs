//! Records under QEMU's user-mode emulators, with our own plugin: every instruction and access of an unmodified program, for
//! any architecture that both Debian's `qemu-user` and this crate support.
//!
//! ```text
//! emulator with plugin ─▶ ring of each thread ─▶ Words: blocks, accesses, calls ─▶ Stream: entries ─▶ a file each
//!                      └▶ ring of the process ─▶ Blocks: their instructions, decoded once          └▶ events, at once
//! ```
//!
//! A full ring blocks the thread that fills it, so a program waits for a destination that is slower.
//!
//! | file | what |
//! |---|---|
//! | `drain` | one thread of the recorder for each ring |
//! | `code` | blocks and their instructions |
//! | `words` | the sequence of blocks and system calls |
//! | `stream` | entries: instructions, accesses, outcomes, clock readings |
//! | `pieces` | joins accesses that the emulator splits |
//! | `events` | signals, and entries that wait for the end of their handlers |
//! | `functions` | functions of programs by address; those at which recording starts and stops; code that is named |
//! | `modules` | the files of code, listed beside the trace |
//! | `order` | entries of threads in the order of the clock, as events |
//! | `process`, `session`, `target` | state shared by threads; the files of their entries |
//! | `syscalls` | system calls that matter to a trace |

mod code;
mod drain;
mod events;
mod functions;
mod modules;
mod order;
mod pieces;
mod process;
mod session;
mod stream;
mod syscalls;
mod target;
mod words;

pub use session::{Next, ProcessSummary};

use crate::child::{Child, Prints};
use crate::limits::{Gate, Limits};
use crate::program::{Machine, Program, find_in_path};
use crate::{library, record::Job, record::Observation, record::Summary};
use functions::Functions;
use order::Order;
use quipu_drmemtrace::write::threads::is_recorded;
use quipu_model::fresh::Fresh;
use quipu_model::number::counted;
use quipu_model::trace::Fact;
use quipu_model::{Columns, Error, ErrorKind, Result};
use quipu_prism::live::Done;
use quipu_ring::{Consumer, Shape, Shared, SlotState};
use quipu_source::Pool;
use session::{Session, Store};
use std::ffi::OsString;
use std::iter::repeat_n;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// File name of the plugin.
const PLUGIN: &str = "libquipu_qemu.so";
/// Time to wait for news of the program.
const NAP: Duration = Duration::from_millis(50);

/// The emulator for a machine, if it is installed.
pub fn emulator(machine: Machine) -> Option<PathBuf> {
    find_in_path(&OsString::from(format!("qemu-{}", machine.qemu_name())))
}

/// Path of the plugin.
///
/// # Errors
/// `Missing` if it is not found, with a hint.
pub fn plugin() -> Result<PathBuf> {
    library::find(PLUGIN, "quipu-qemu")
}

/// Checks whether programs of this machine can be recorded.
///
/// # Errors
/// `Missing` if the emulator or the plugin is missing; the hint says what to install.
pub fn usable() -> Result<()> {
    if !Machine::ALL.into_iter().any(|machine| machine.is_native() && emulator(machine).is_some()) {
        return Err(Error::missing("there is no emulator").hint("sudo apt-get install -y qemu-user"));
    }
    plugin().map(|_| ())
}

/// Everything that is needed to run a program.
struct Tools {
    program: Program,
    emulator: PathBuf,
    plugin: PathBuf,
}

impl Tools {
    /// Finds the program of a command line, its emulator and the plugin.
    fn find(command: &[OsString]) -> Result<Tools> {
        let program = Program::find(command)?;
        let emulator = emulator(program.machine).ok_or_else(|| {
            Error::missing(format!(
                "there is no emulator `qemu-{}` to run the program under",
                program.machine.qemu_name()
            ))
            .hint("install it, on Debian with: sudo apt-get install -y qemu-user")
        })?;
        Ok(Tools { program, emulator, plugin: plugin()? })
    }

    /// The functions at which recording starts and stops, if the limits name some.
    fn ends_of(&self, limits: &Limits) -> Result<[Option<Functions>; 2]> {
        let find = |name: &Option<String>| {
            name.as_deref().map(|name| Functions::new(&self.program, name)).transpose()
        };
        Ok([find(&limits.start_at)?, find(&limits.stop_at)?])
    }
}

/// The options of the plugin.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Forked children.
    children: bool,
    /// Accesses.
    accesses: bool,
    /// The clock before each block with an atomic operation.
    clocks: bool,
    /// To leave out blocks of instructions while the ring is full, instead of waiting.
    drops: bool,
}

/// Records a program.
///
/// # Errors
/// `Missing` without emulator or plugin, `Usage` for a place that may not be written to, `Io` for errors of the system, and
/// those of [`Program::find`].
pub fn record(job: &Job) -> Result<Summary> {
    let tools = Tools::find(&job.command)?;
    let [start_at, stop_at] = tools.ends_of(&job.limits)?;
    let shared = share()?;
    let path = job.output.clone().unwrap_or_else(|| default_name(&tools.program.name));
    let (fresh, folder) = Fresh::folder(&path, job.replace, &is_recorded)?;
    let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
    let store = Store::Files { folder, pool: Pool::new(n_cores)?, pack: job.pack };
    let (machine, gate) = (tools.program.machine, Gate::new(&job.limits, job.n_bytes.clone()));
    let mut session = Session::new(machine, &tools.program.name, store, gate);
    let asked = Asked { children: job.follows_forks, accesses: true, clocks: false, drops: false };
    let command = tools.command(&shared, asked)?;
    (session.is_split, session.start_at, session.stop_at) = (job.follows_forks, start_at, stop_at);
    let status = drain_all(&mut session, &shared, command, job.prints)?;
    let (processes, findings) = session.finish()?;
    if processes.is_empty() {
        return Err(nothing_recorded(&session, &job.limits));
    }
    fresh.commit()?;
    let processes = processes.into_iter().map(|process| process.lies_in(&path)).collect();
    Ok(Summary {
        path,
        program: tools.program.path,
        processes,
        findings,
        warnings: session.gate.unknown(),
        n_refused: shared.n_refused(),
        is_limited: session.gate.is_over(),
        status,
        machine,
    })
}

/// The columns that can be filled for events.
const COLUMNS: Columns = Columns::ACCESSES
    .or(Columns::INSTRS)
    .or(Columns::INSTR_CLASS)
    .or(Columns::INSTR_TAKEN)
    .or(Columns::INSTR_TARGET)
    .or(Columns::INSTR_CODE)
    .or(Columns::CALLS)
    .or(Columns::THREADS);

/// Makes events of what a program does while it runs.
///
/// # Errors
/// `Missing` without emulator or plugin, or if the program executed nothing; `Usage` for a limit on files; errors of the
/// destination and the system; those of [`Program::find`].
pub fn observe(observation: &Observation<'_>) -> Result<(Done, ExitStatus)> {
    let Observation { command, limits, follows_forks, drops, prints, to } = *observation;
    if limits.most_bytes.is_some() {
        return Err(Error::usage("`--max-size`: not for events, whose files are compressed as a whole")
            .hint("use --max-instrs"));
    }
    let tools = Tools::find(command)?;
    let [start_at, stop_at] = tools.ends_of(limits)?;
    let shared = share()?;
    let machine = tools.program.machine;
    let observed = to.begin(machine.arch(), COLUMNS)?;
    let (columns, wants_functions) = (observed.columns(), observed.wants_functions());
    let store = Store::Events { order: Box::new(Order::new(observed)), columns, wants_functions };
    let mut session = Session::new(machine, &tools.program.name, store, Gate::new(limits, Arc::default()));
    let asked = Asked {
        children: follows_forks,
        accesses: columns.has(Columns::ACCESSES),
        clocks: wants_functions,
        drops,
    };
    let command = tools.command(&shared, asked)?;
    (session.is_split, session.start_at, session.stop_at) = (follows_forks, start_at, stop_at);
    let status = drain_all(&mut session, &shared, command, prints)?;
    let (processes, _) = session.finish()?;
    if processes.is_empty() {
        return Err(nothing_recorded(&session, limits));
    }
    let n_dropped = session.n_dropped();
    let unknown = session.gate.unknown();
    let missing = || Error::new(ErrorKind::Internal, "the events of a recording are missing");
    let mut done = session.into_observed()?.ok_or_else(missing)?.finish()?;
    let n_threads: u64 = processes.iter().map(|process| process.threads).sum();
    done.facts.push(Fact::new("threads", "threads", n_threads));
    done.facts.push(Fact::new("processes", "processes", processes.len() as u64));
    done.notes.extend(unknown);
    let lost = &mut done.losses;
    if n_dropped > 0 {
        lost.push(format!(
            "{} were left out, because back ends were slower",
            counted(n_dropped, "instruction")
        ));
    }
    if shared.n_refused() > 0 {
        let n = counted(shared.n_refused(), "thread");
        lost.push(format!("not observed, because more ran at a time than can be: {n}"));
    }
    for process in processes.iter().filter(|process| process.next == Next::Unrecorded) {
        lost.push(format!("process {} continued as another program, which was not observed", process.pid));
    }
    let n_left_out: u64 = processes.iter().map(|process| process.children_left_out).sum();
    if n_left_out > 0 {
        let n = counted(n_left_out, "process");
        done.notes
            .push(format!("started by the program and not observed: {n}; `--follow-fork` observes them"));
    }
    Ok((done, status))
}

/// Memory to share with the plugin.
fn share() -> Result<Shared> {
    Shared::create(Shape::default())
        .map_err(|cause| Error::new(ErrorKind::Io, "cannot share memory").because(cause))
}

fn nothing_recorded(session: &Session, limits: &Limits) -> Error {
    let error = Error::missing("nothing was recorded");
    let is_late = session.gate.is_late();
    if let Some(why) = limits.prevented(is_late).filter(|_| is_late) {
        return error.hint(why);
    }
    if !session.gate.has_begun() {
        return error.hint(format!(
            "the program never came to the function `{}`",
            limits.start_at.as_deref().unwrap_or_default()
        ));
    }
    if session.gate.has_names() {
        let unknown = session.gate.unknown();
        return match unknown.is_empty() {
            true => error.hint("the program executed no code of these names"),
            false => error.hint(unknown.join("; ")),
        };
    }
    let not_started = || "the program was not started; what was said above may tell why".to_owned();
    error.hint(limits.prevented(false).unwrap_or_else(not_started))
}

/// An unused name in the style of DynamoRIO's folders.
fn default_name(app: &str) -> PathBuf {
    let pid = std::process::id();
    let names = (0..10_000).map(|n| PathBuf::from(format!("drmemtrace.{app}.{pid}.{n:04}.dir")));
    names
        .clone()
        .find(|path| !path.exists())
        .unwrap_or_else(|| PathBuf::from(format!("drmemtrace.{app}.{pid}.dir")))
}

impl Tools {
    /// The command that runs the program under the emulator.
    fn command(&self, shared: &Shared, asked: Asked) -> Result<Command> {
        let Tools { program, emulator, plugin } = self;
        let ring =
            shared.path().ok_or_else(|| Error::new(ErrorKind::Internal, "shared memory without a path"))?;
        // The emulator splits options at commas; doubled commas stand for themselves.
        let escaped = |path: &Path| {
            let commas = path.as_os_str().as_bytes().iter();
            OsString::from_vec(
                commas.flat_map(|byte| repeat_n(*byte, if *byte == b',' { 2 } else { 1 })).collect(),
            )
        };
        let mut plugged = escaped(plugin);
        plugged.push(format!(",ring={ring}"));
        for (is_asked, argument) in [
            (asked.children, ",follow=1"),
            (!asked.accesses, ",accesses=0"),
            (asked.clocks, ",clocks=1"),
            (asked.drops, ",drop=1"),
        ] {
            if is_asked {
                plugged.push(argument);
            }
        }
        let prefix = program.prefix().filter(|_| std::env::var_os("QEMU_LD_PREFIX").is_none());
        if let Some(prefix) = prefix {
            plugged.push(",prefix=");
            plugged.push(escaped(prefix));
        }
        let mut command = Command::new(emulator);
        command.arg("-plugin").arg(plugged);
        if let Some(prefix) = prefix {
            command.arg("-L").arg(prefix);
        }
        if let Some((name, rest)) = program.args.split_first() {
            command.arg("-0").arg(name).arg(&program.path).args(rest);
        }
        Ok(command)
    }
}

/// Starts the program and reads all rings until it and all of its recorded processes have ended; returns the program's exit
/// status.
fn drain_all(session: &mut Session, shared: &Shared, command: Command, prints: Prints) -> Result<ExitStatus> {
    let mut child = Child::start(command, prints)?;
    session.main_pid = child.pid();
    let session = &*session;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let status = child.wait();
            session.is_done.store(true, Ordering::Release);
            shared.ring_bell();
            status
        });
        let mut readers: Vec<Option<std::thread::ScopedJoinHandle<'_, Result<()>>>> = Vec::new();
        readers.resize_with(shared.shape().n_slots as usize, || None);
        let mut failed = None;
        loop {
            session.gate.tick();
            let bell = shared.bell();
            let is_done = session.is_done.load(Ordering::Acquire);
            let mut n_busy = 0;
            for (index, reader) in readers.iter_mut().enumerate() {
                if let Some(done) = reader.take_if(|reader| reader.is_finished()) {
                    // Readers do not panic; if one did, its thread's file would be incomplete.
                    let result = done
                        .join()
                        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a reader failed")));
                    failed = failed.or(result.err());
                }
                if reader.is_none()
                    && let Some(consumer) = Consumer::new(shared, index as u32) // There are fewer than 2^16.
                    && matches!(consumer.state(), SlotState::Live | SlotState::Left)
                {
                    *reader = Some(scope.spawn(move || drain::drain(session, consumer)));
                }
                n_busy += usize::from(reader.is_some());
            }
            if failed.is_some() || session.gate.is_over() {
                shared.close();
            }
            if is_done && n_busy == 0 {
                break;
            }
            shared.wait_for_bell(bell, NAP);
        }
        shared.close();
        let status =
            waiter.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "the wait failed")))?;
        failed.map_or(Ok(status), Err)
    })
}
