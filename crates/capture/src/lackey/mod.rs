//! Records with Valgrind's `lackey`: one line of text per instruction and access, stored unchanged, or made into events.
//!
//! It is slow, and reports no threads, code or system calls, but it runs wherever Valgrind does. The text comes through a
//! pipe and is compressed on the fly; the format `lackey` reads it. Forked children are silent. Valgrind's lines about
//! system calls are used to count children, and left out of the file.

use crate::child::{Child, Prints};
use crate::limits::Limits;
use crate::program::{Program, find_in_path};
use crate::record::{Job, Next, Observation, ProcessSummary, Summary};
use crate::switch::{Switch, Turn};
use quipu_drmemtrace::write::threads::Counted;
use quipu_model::fresh::{Fresh, cannot};
use quipu_model::{Columns, Error, ErrorKind, Result};
use quipu_plaintext::lackey::arriving;
use quipu_prism::live::Done;
use quipu_source::{Packer, Packing, Pool};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, BufWriter, PipeReader, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes read from the pipe, and passed to the file, at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Longest line; longer ones are cut. Lines of lackey are short, but the program may write to its log.
const MAX_LINE_BYTES: usize = 4096;

fn valgrind() -> Result<PathBuf> {
    find_in_path(OsStr::new("valgrind"))
        .ok_or_else(|| Error::missing("there is no Valgrind").hint("sudo apt-get install -y valgrind"))
}

/// Checks whether this front end can be used here.
///
/// # Errors
/// `Missing` without Valgrind.
pub fn usable() -> Result<()> {
    valgrind().map(|_| ())
}

/// Records a program into one file.
///
/// # Errors
/// `Missing` without Valgrind; `Usage` for limits that lackey does not support, or a place that may not be written to; `Io`
/// for errors of the system; those of [`Program::find`].
pub fn record(job: &Job) -> Result<Summary> {
    refuse(&job.limits, job.follows_forks)?;
    let program = Program::find(&job.command)?;
    let valgrind = valgrind()?;
    let path = job.output.clone().unwrap_or_else(|| default_name(&program.name, job.pack.packing));
    let (fresh, file) = Fresh::file(&path, job.replace)?;
    let pool = Pool::new(std::thread::available_parallelism().map_or(1, usize::from))?;
    let counted = Counted::new(file, job.n_bytes.clone());
    let mut packer = Packer::new(BufWriter::with_capacity(BUFFER_BYTES, counted), &pool, &job.pack);
    packer.member("lackey.txt")?;
    let write = |line: &[u8]| {
        packer.write(line)?;
        Ok(())
    };
    let (pid, status, copied) = run(&valgrind, &program, job.prints, &job.limits, &job.n_bytes, write)?;
    let (mut out, packed) = packer.finish()?;
    out.flush().map_err(|cause| cannot("write", &path, cause))?;
    copied.refuse_nothing(&job.limits)?;
    drop(out);
    fresh.commit()?;
    let process = ProcessSummary {
        pid,
        name: program.name.clone(),
        path: path.clone(),
        threads: 1,
        instrs: copied.n_instrs,
        records: copied.n_instrs + copied.n_accesses,
        bytes: packed.packed_bytes,
        next: if copied.has_left(status) { Next::Unrecorded } else { Next::Nothing },
        children_left_out: copied.n_children,
    };
    Ok(Summary {
        path,
        program: program.path,
        processes: vec![process],
        findings: Vec::new(),
        warnings: Vec::new(),
        n_refused: 0,
        is_limited: copied.is_limited,
        status,
        machine: program.machine,
    })
}

/// Makes events of what a program does while it runs.
///
/// # Errors
/// `Missing` without Valgrind, or if the program executed nothing; `Usage` for options that lackey does not support; errors
/// of the destination and the system; those of [`Program::find`].
pub fn observe(observation: &Observation<'_>) -> Result<(Done, ExitStatus)> {
    let Observation { command, limits, follows_forks, drops, prints, to } = *observation;
    refuse(limits, follows_forks)?;
    if drops {
        return Err(Error::usage("`--drop`: not with valgrind, which writes its text to a pipe")
            .hint("use --with qemu"));
    }
    let program = Program::find(command)?;
    let valgrind = valgrind()?;
    let mut observed =
        to.begin(program.machine.arch(), Columns::ACCESSES | Columns::INSTRS | Columns::THREADS)?;
    let mut lines = arriving(observed.columns())?;
    let mut waiting = Vec::with_capacity(BUFFER_BYTES);
    let (pid, status, copied) = run(&valgrind, &program, prints, limits, &AtomicU64::new(0), |line| {
        waiting.extend_from_slice(line);
        if waiting.len() >= BUFFER_BYTES - MAX_LINE_BYTES {
            let mut batches = lines.feed(&waiting);
            while let Some(batch) = batches.next()? {
                observed.take(batch)?;
            }
            waiting.clear();
        }
        Ok(())
    })?;
    // Batches that the last bytes complete come first, then the rest.
    let mut batches = lines.feed(&waiting);
    while let Some(batch) = batches.next()? {
        observed.take(batch)?;
    }
    let mut batches = lines.close();
    while let Some(batch) = batches.next()? {
        observed.take(batch)?;
    }
    copied.refuse_nothing(limits)?;
    let mut done = observed.finish()?;
    if copied.has_left(status) {
        let what = format!("process {pid} continued as another program, which was not observed");
        done.losses.push(what);
    }
    if copied.n_children > 0 {
        done.notes.push(format!(
            "children that were not observed: {}; `--with qemu --follow-fork` observes them",
            copied.n_children
        ));
    }
    Ok((done, status))
}

/// Runs a program under Valgrind and passes on the lines of instructions and accesses within the limits; returns the process
/// id and the exit status, too.
fn run(
    valgrind: &Path,
    program: &Program,
    prints: Prints,
    limits: &Limits,
    n_bytes: &AtomicU64,
    write: impl FnMut(&[u8]) -> Result<()> + Send,
) -> Result<(u32, ExitStatus, Copied)> {
    let failed = |cause| Error::new(ErrorKind::Io, "cannot make a pipe").because(cause);
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    let mut log = OsString::from("--log-file=");
    // Valgrind opens the pipe by a path that exists as long as this process runs.
    log.push(format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd()));
    let mut command = Command::new(valgrind);
    // The counts are printed last, so they show whether the program ended under Valgrind.
    command.args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=yes"]);
    // Children would write to the same text. Lines about system calls are the only sign that there were any.
    command.args(["--child-silent-after-fork=yes", "--trace-syscalls=yes"]).arg(log);
    command.arg(&program.path).args(program.args.iter().skip(1));
    let switch = Switch::new(limits);
    let mut child = Child::start(command, prints)?;
    let pid = child.pid();
    let (status, copied) = std::thread::scope(|scope| {
        let copier = scope.spawn(|| copy(reader, limits, &switch, n_bytes, write));
        let status = child.wait();
        // The text ends when the last writer is closed.
        drop(writer);
        let failed = |_| Err(Error::new(ErrorKind::Internal, "the text was not copied"));
        (status, copier.join().unwrap_or_else(failed))
    });
    Ok((pid, status?, copied?))
}

/// Refuses options that need more information than lackey reports.
fn refuse(limits: &Limits, follows_forks: bool) -> Result<()> {
    let refused = [
        (limits.windows.is_some(), "--windows"),
        (limits.start_at.is_some(), "--start-at-function"),
        (limits.stop_at.is_some(), "--stop-at-function"),
        (!limits.only.is_empty(), "--only-module and --only-function"),
        (!limits.skip.is_empty(), "--skip-module and --skip-function"),
        (follows_forks, "--follow-fork"),
    ];
    match refused.into_iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((_, option)) => {
            Err(Error::usage(format!("`{option}`: not with valgrind, whose text does not tell enough"))
                .hint("use --with qemu"))
        }
    }
}

fn default_name(app: &str, packing: Packing) -> PathBuf {
    let name = format!("lackey.{app}.{}.trace", std::process::id());
    PathBuf::from(match packing.extension() {
        "" => name,
        extension => format!("{name}.{extension}"),
    })
}

/// Result of copying the text.
#[derive(Debug, Default)]
struct Copied {
    /// Instructions that were executed.
    n_seen: u64,
    /// Instructions that were passed on.
    n_instrs: u64,
    n_accesses: u64,
    n_children: u64,
    is_limited: bool,
    /// Whether the text shows that the program ended under Valgrind.
    is_ended: bool,
}

impl Copied {
    /// Whether the program continued as another one: after `exec`, that runs without Valgrind. A signal may end the text,
    /// too.
    fn has_left(&self, status: ExitStatus) -> bool {
        !self.is_ended && status.code().is_some()
    }

    fn refuse_nothing(&self, limits: &Limits) -> Result<()> {
        let error = || Error::missing("nothing was recorded");
        match (self.n_instrs, self.n_seen) {
            (0, 0) => {
                Err(error().hint("Valgrind could not run the program; what was said above may tell why"))
            }
            (0, _) => {
                let is_late = self.is_limited && limits.stop_after_time.is_some();
                let why = limits.prevented(is_late);
                Err(error().hint(why.unwrap_or_else(|| "the limits left nothing to record".to_owned())))
            }
            _ => Ok(()),
        }
    }
}

/// Passes on lines from the first instruction after `start_after` until a limit is reached, while the switch is on, then
/// discards the rest, so that the program is not blocked. The same happens after an error of `write`, which is returned at
/// the end.
fn copy(
    reader: PipeReader,
    limits: &Limits,
    switch: &Switch,
    n_bytes: &AtomicU64,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Copied> {
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
    let mut line = Vec::new();
    let (mut copied, mut failure) = (Copied::default(), None);
    let (after, most) = (limits.start_after.unwrap_or(0), limits.most_instrs.unwrap_or(u64::MAX));
    let most_bytes = limits.most_bytes.unwrap_or(u64::MAX);
    let mut is_on = true;
    loop {
        line.clear();
        let failed = |cause| Error::new(ErrorKind::Io, "cannot read what Valgrind writes").because(cause);
        let n = (&mut reader).take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line).map_err(failed)?;
        if n == 0 {
            return failure.map_or(Ok(copied), Err);
        }
        copied.n_children += u64::from(tells_of_child(&line));
        let line = after_syscall(&line);
        let is_instr = line.starts_with(b"I  ");
        copied.n_seen += u64::from(is_instr);
        let is_access = matches!(line.first_chunk(), Some(b" L " | b" S " | b" M "));
        copied.is_ended |= is_end(line);
        if is_instr && switch.is_needed() {
            let turn = switch.now();
            is_on = turn == Turn::On;
            copied.is_limited |= turn == Turn::Over;
        }
        let is_wanted = is_on && copied.n_seen > after && (is_instr || is_access);
        if failure.is_some() || copied.is_limited || !is_wanted {
            continue;
        }
        if is_instr && (copied.n_instrs == most || n_bytes.load(Ordering::Relaxed) >= most_bytes) {
            copied.is_limited = true;
            continue;
        }
        copied.n_instrs += u64::from(is_instr);
        copied.n_accesses += u64::from(is_access);
        failure = write(line).err();
    }
}

/// Whether a line is lackey's final message: `==PID== Exit code:       0`.
fn is_end(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"==") else { return false };
    let n_digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[n_digits..].starts_with(b"== Exit code:")
}

/// Prefix of Valgrind's lines about system calls.
const SYSCALL: &[u8] = b"SYSCALL[";

/// Whether a line reports a call that created a process: `SYSCALL[4711,1](57) sys_fork ( )   fork: process 4711 created
/// child 4712`.
fn tells_of_child(line: &[u8]) -> bool {
    const CREATED: &[u8] = b" created child ";
    let is_number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let Some(at) = line.windows(CREATED.len()).rposition(|words| words == CREATED) else { return false };
    let (before, child) = (&line[..at], line[at + CREATED.len()..].trim_ascii_end());
    let mut words = before.rsplit(|byte| *byte == b' ');
    line.starts_with(SYSCALL)
        && is_number(child)
        && words.next().is_some_and(is_number)
        && words.next() == Some(b"process")
}

/// The rest of a line after a system call at its start, because Valgrind does not end the line of a new thread; otherwise
/// the whole line.
fn after_syscall(line: &[u8]) -> &[u8] {
    match line.starts_with(SYSCALL) {
        true => line.windows(2).rposition(|two| two == b") ").map_or(&[], |at| &line[at + 2..]),
        false => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_makes_a_process_is_told_from_others() {
        for (line, is_one) in [
            ("SYSCALL[7,1](57) sys_fork ( )   fork: process 7 created child 8\n", true),
            ("SYSCALL[7,2](56) sys_clone ( 4111, 0x0 )   clone(fork): process 7 created child 8\n", true),
            ("SYSCALL[7,1](56) sys_clone ( 3d0f00, 0x1 ) --> [pre-success] Success(0x8) \n", false),
            ("SYSCALL[7,1](2) sys_open ( 0x1(a created child 8), 0 ) --> [async] ... \n", false),
            ("==7== process 7 created child 8\n", false),
            ("I  04001000,3\n", false),
        ] {
            assert_eq!(tells_of_child(line.as_bytes()), is_one, "{line}");
        }
    }

    #[test]
    fn a_recording_of_nothing_says_why() {
        let advice = |copied: Copied, limits: &Limits| {
            copied.refuse_nothing(limits).err().and_then(|error| error.advice().map(str::to_owned))
        };
        let seen = |is_limited| Copied { n_seen: 9, is_limited, ..Copied::default() };
        let second = Some(std::time::Duration::from_secs(1));
        let late = Limits { start_after_time: second, ..Limits::default() };
        let short = Limits { stop_after_time: second, ..Limits::default() };
        let said = |copied, limits, part: &str| {
            let advice = advice(copied, limits);
            assert!(advice.as_ref().is_some_and(|advice| advice.contains(part)), "{advice:?}");
        };
        said(Copied::default(), &late, "could not run");
        said(seen(false), &late, "before recording was started");
        said(seen(true), &short, "the time to stop recording came");
        assert_eq!(advice(Copied { n_instrs: 1, ..seen(true) }, &short), None);
    }

    #[test]
    fn an_instruction_after_a_system_call_is_found() {
        for (line, rest) in [
            (
                "SYSCALL[7,1](56) sys_clone ( 3d0f00 ) --> [pre-success] Success(0x8) I  0494db42,3\n",
                "I  0494db42,3\n",
            ),
            (
                "SYSCALL[7,1](56) sys_clone ( 3d0f00 ) --> [pre-success] Success(0x8)  L 1ffe,8\n",
                " L 1ffe,8\n",
            ),
            ("SYSCALL[7,1](3) sys_close ( 3 )[sync] --> Success(0x0) \n", "\n"),
            ("SYSCALL[7,1](3", ""),
            ("I  04001000,3\n", "I  04001000,3\n"),
        ] {
            assert_eq!(after_syscall(line.as_bytes()), rest.as_bytes(), "{line}");
        }
    }
}
