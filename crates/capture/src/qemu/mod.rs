//! Records under QEMU's user-mode emulators, with our own plugin: every instruction and access of an unmodified program, for
//! any architecture that both Debian's `qemu-user` and this crate support.
//!
//! ```text
//! emulator with plugin ─▶ ring of each thread ─▶ Words: blocks, accesses, calls ─▶ Stream: entries ─▶ a file each
//!                      └▶ ring of the process ─▶ Blocks: their instructions, decoded once
//! ```
//!
//! | file | what |
//! |---|---|
//! | `drain` | one thread of the recorder for each ring |
//! | `code` | blocks and their instructions |
//! | `words` | the sequence of blocks and system calls |
//! | `stream` | entries: instructions, accesses, outcomes, clock readings |
//! | `pieces` | joins accesses that the emulator splits |
//! | `events` | signals, and entries that wait for the end of their handlers |
//! | `functions` | the function at which recording starts |
//! | `modules` | the files of code, listed beside the trace |
//! | `process`, `session`, `target` | state shared by threads; the files of their entries |
//! | `syscalls` | system calls that matter to a trace |

mod code;
mod drain;
mod events;
mod functions;
mod modules;
mod pieces;
mod process;
mod session;
mod stream;
mod syscalls;
mod target;
mod words;

pub use session::{Next, ProcessSummary};

use crate::child::Child;
use crate::limits::{Gate, Limits};
use crate::program::{Machine, Program, find_in_path};
use crate::{library, record::Job, record::Summary};
use functions::Functions;
use quipu_drmemtrace::write::threads::is_recorded;
use quipu_model::fresh::Fresh;
use quipu_model::{Error, ErrorKind, Result};
use quipu_ring::{Consumer, Shape, Shared, SlotState};
use quipu_source::Pool;
use session::Session;
use std::ffi::OsString;
use std::iter::repeat_n;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
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

/// Records a program.
///
/// # Errors
/// `Missing` without emulator or plugin, `Usage` for a place that may not be written to, `Io` for errors of the system, and
/// those of [`Program::find`].
pub fn record(job: &Job) -> Result<Summary> {
    let program = Program::find(&job.command)?;
    let emulator = emulator(program.machine).ok_or_else(|| {
        Error::missing(format!(
            "there is no emulator `qemu-{}` to run the program under",
            program.machine.qemu_name()
        ))
        .hint("install it, on Debian with: sudo apt-get install -y qemu-user")
    })?;
    let plugin = plugin()?;
    let start_at = job.limits.start_at.as_deref().map(|name| Functions::new(&program, name)).transpose()?;
    let system = |what: &str, cause| Error::new(ErrorKind::Io, what.to_owned()).because(cause);
    let shared = Shared::create(Shape::default()).map_err(|cause| system("cannot share memory", cause))?;
    let ring =
        shared.path().ok_or_else(|| Error::new(ErrorKind::Internal, "shared memory without a path"))?;
    let path = job.output.clone().unwrap_or_else(|| default_name(&program.name));
    let (fresh, folder) = Fresh::folder(&path, job.replace, &is_recorded)?;
    let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = Pool::new(n_cores)?;
    let gate = Gate::new(&job.limits, job.n_bytes.clone());
    let mut session = Session::new(program.machine, &program.name, folder, pool, job.pack, gate);
    let command = command(&emulator, &plugin, &ring, &program, job);
    (session.is_split, session.start_at) = (job.follows_forks, start_at);
    let mut child = Child::start(command, job.prints)?;
    session.main_pid = child.pid();
    let status = drain_all(&session, &shared, &mut child)?;
    let (processes, findings) = session.finish()?;
    if processes.is_empty() {
        return Err(nothing_recorded(&session, &job.limits));
    }
    fresh.commit()?;
    let processes = processes.into_iter().map(|process| process.lies_in(&path)).collect();
    Ok(Summary {
        path,
        program: program.path,
        processes,
        findings,
        n_refused: shared.n_refused(),
        is_limited: session.gate.is_over(),
        status,
        machine: program.machine,
    })
}

fn nothing_recorded(session: &Session, limits: &Limits) -> Error {
    let error = Error::missing("nothing was recorded");
    if !session.gate.has_begun() {
        return error.hint(format!(
            "the program never came to the function `{}`",
            limits.start_at.as_deref().unwrap_or_default()
        ));
    }
    match limits.start_after {
        Some(after) => error.hint(format!("the program executed no more than `{after}` instructions")),
        None => error.hint("the program was not started; what was said above may tell why"),
    }
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

fn command(emulator: &Path, plugin: &Path, ring: &str, program: &Program, job: &Job) -> Command {
    // The emulator splits options at commas; doubled commas stand for themselves.
    let escaped = |path: &Path| {
        let commas = path.as_os_str().as_bytes().iter();
        OsString::from_vec(
            commas.flat_map(|byte| repeat_n(*byte, if *byte == b',' { 2 } else { 1 })).collect(),
        )
    };
    let mut plugged = escaped(plugin);
    plugged.push(format!(",ring={ring}"));
    if job.follows_forks {
        plugged.push(",follow=1");
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
    command
}

/// Reads all rings until the program and all of its recorded processes have ended; returns the program's exit status.
fn drain_all(session: &Session, shared: &Shared, child: &mut Child) -> Result<std::process::ExitStatus> {
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
