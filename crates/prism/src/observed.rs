//! Programs that are observed from outside while they run: a front end delivers rows of lenses, from which events are made at
//! once, for back ends or for a file.
//!
//! Programs that send events themselves are in [`live`](crate::live).

use crate::codec::Encoding;
use crate::detail::Detail;
use crate::file::{EVENTS, Target};
use crate::front::{Front, columns_for, detail_of};
pub use crate::front::{Functions, Module, NamedCode};
use crate::import::Written;
use crate::live::Done;
use crate::run::{Backends, OPTIONS};
use quipu_isa::Arch;
use quipu_model::code::CodeTable;
use quipu_model::convert::{Ledger, LedgerLine, Outcome};
use quipu_model::{Batch, Columns, Error, ErrorKind, Given, Options, Result};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// The level of detail to store, as its name or fields in hexadecimal.
///
/// # Errors
/// `Usage` for an unknown name.
pub fn level(text: &str) -> Result<Detail> {
    // Without a hint, as an option's parser shows the message alone.
    Detail::parse(text).ok_or_else(|| {
        Error::usage(format!(
            "`{text}` is no level of detail; levels: all, communication, fixed, none, sigrind, valgrind, or fields of \
             accesses, computations and control flow in hexadecimal, such as e0:90:80"
        ))
    })
}

/// The destination of events.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// Back ends and tools.
    Backends {
        /// The options of `run`.
        given: &'a Given,
        /// The folder to write; if empty, tools print.
        output: &'a Path,
        /// Whether an existing folder of that name may be replaced.
        replace: bool,
    },
    /// A file of events.
    File {
        /// Its path.
        path: &'a Path,
        /// Whether an existing file of that name may be replaced.
        replace: bool,
        /// Compression level; the usual one if `None`.
        level: Option<u32>,
        /// The fields that events have at most.
        detail: Detail,
    },
}

impl Destination<'_> {
    /// Starts back ends or begins the file, for rows of a program with this instruction set, which can have these columns.
    ///
    /// # Errors
    /// `Usage` for invalid options, or a place that may not be written to; errors of back ends and of the system.
    pub fn begin(&self, arch: Option<Arch>, has: Columns) -> Result<Observed> {
        let (to, asked) = match *self {
            Destination::Backends { given, output, replace } => {
                let mut backends =
                    Backends::begin(&Options::parse("`run`", OPTIONS, given)?, output, replace)?;
                let asked = backends.detail();
                (To::Backends(backends), asked)
            }
            Destination::File { path, replace, level, detail } => {
                let target = Target { path, replace, container: None, level, is_plain: false, name: EVENTS };
                let fields = of_both(detail_of(has, arch), detail);
                (To::File(Box::new(Written::create(target, Encoding::Variable, fields)?)), detail)
            }
        };
        let columns = columns_for(asked).and(has);
        let front = Front::of_program(arch, columns, asked);
        let is_wanted = |fields: u8| fields & Detail::OFF == 0;
        let wants_functions = is_wanted(asked.sync) || is_wanted(asked.context);
        Observed::begin(columns, wants_functions, Worker { front, to, ledger: Ledger::default() })
    }
}

/// The fields that both levels have. Kinds that are off have none.
fn of_both(one: Detail, other: Detail) -> Detail {
    let both = |one: u8, other: u8| if (one | other) & Detail::OFF != 0 { 0 } else { one & other };
    Detail {
        memory: both(one.memory, other.memory),
        compute: both(one.compute, other.compute),
        control: both(one.control, other.control),
        sync: 0,
        context: 0,
    }
}

enum To {
    Backends(Backends),
    File(Box<Written>),
}

/// Number of batches that may wait to become events.
const MOST_WAITING: usize = 4;

/// What happens to a program, in order.
enum Happened {
    Rows(Box<Batch>),
    Module(u16, Module),
    Fork { from: u16, to: u16 },
}

/// Makes the events on a thread of its own, because reading the rows of a program takes as long.
struct Worker {
    front: Front,
    to: To,
    /// Counts of the rows by outcome; losses are reported.
    ledger: Ledger,
}

impl Worker {
    /// Makes the events of all that happens, until the sender is dropped. Returns used batches through `spare`.
    fn run(&mut self, happened: &Receiver<Happened>, spare: &SyncSender<Box<Batch>>) -> Result<()> {
        for what in happened {
            match what {
                Happened::Rows(batch) => {
                    self.take(&batch)?;
                    // It is freed if enough are there.
                    let _ = spare.try_send(batch);
                }
                Happened::Module(program, module) => self.front.add_module(program, module),
                Happened::Fork { from, to } => self.front.fork(from, to),
            }
        }
        Ok(())
    }

    fn take(&mut self, batch: &Batch) -> Result<()> {
        let events = self.front.take(batch, &mut self.ledger);
        if events.events.is_empty() {
            return Ok(());
        }
        match &mut self.to {
            To::Backends(backends) => backends.take(events).map(drop),
            To::File(file) => file.put(events, &mut self.ledger),
        }
    }

    fn finish(self) -> Result<Done> {
        let facts = match self.to {
            To::Backends(mut backends) => {
                backends.end()?;
                backends.commit()?
            }
            To::File(file) => file.finish()?,
        };
        let lines = self.ledger.lines();
        let changed = lines.iter().filter(|line| matches!(line.outcome, Outcome::Changed | Outcome::Dropped));
        let note = |line: &LedgerLine| format!("{}: {} {}", line.outcome.name(), line.count, line.what);
        Ok(Done { facts, losses: Vec::new(), notes: changed.map(note).collect() })
    }
}

/// A worker at work: what happens, used batches, and the worker itself when it has ended.
struct Work {
    happened: SyncSender<Happened>,
    spare: Receiver<Box<Batch>>,
    worker: JoinHandle<(Worker, Result<()>)>,
}

impl Work {
    /// Ends the worker when it has made all events.
    fn end(self) -> Result<Worker> {
        let Work { happened, worker, .. } = self;
        drop(happened);
        let (worker, done) = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.map(|()| worker)
    }
}

/// Takes the rows of a program, and passes on the events that are made of them.
pub struct Observed {
    columns: Columns,
    wants_functions: bool,
    n_batches: u64,
    /// `None` after an error.
    work: Option<Work>,
}

impl Observed {
    fn begin(columns: Columns, wants_functions: bool, mut worker: Worker) -> Result<Observed> {
        let (happened, receiver) = sync_channel(MOST_WAITING);
        let (sender, spare) = sync_channel(MOST_WAITING);
        let run = move || {
            let done = worker.run(&receiver, &sender);
            (worker, done)
        };
        let worker = std::thread::Builder::new()
            .name("events".into())
            .spawn(run)
            .map_err(|cause| Error::new(ErrorKind::Io, "cannot start a thread").because(cause))?;
        Ok(Observed { columns, wants_functions, n_batches: 0, work: Some(Work { happened, spare, worker }) })
    }

    /// The columns that are of use: rows without others cost least.
    #[must_use]
    pub fn columns(&self) -> Columns {
        self.columns
    }

    /// Whether the functions of programs are of use.
    #[must_use]
    pub fn wants_functions(&self) -> bool {
        self.wants_functions
    }

    /// Adds code to a program, before any of it is executed. Threads of the program have its number as their workload.
    pub fn add_module(&mut self, program: u16, module: Module) {
        self.tell(Happened::Module(program, module));
    }

    /// A program begins as a copy of another one, with its code.
    pub fn fork(&mut self, from: u16, to: u16) {
        self.tell(Happened::Fork { from, to });
    }

    /// Number of batches so far.
    #[must_use]
    pub fn n_batches(&self) -> u64 {
        self.n_batches
    }

    /// Makes events of a batch of one thread and passes them on; waits while too many batches do. The batch is replaced by an
    /// empty one with the same shared instructions. Shards must differ in their numbers where they differ in their encodings.
    ///
    /// # Errors
    /// Errors of back ends and of writing, for this batch or an earlier one.
    pub fn take(&mut self, batch: &mut Batch) -> Result<()> {
        self.n_batches += 1;
        let spare = self.work.as_ref().and_then(|work| work.spare.try_recv().ok());
        let mut next = spare.unwrap_or_else(|| {
            Box::new(Batch { codes: CodeTable::sharing(batch.codes.shared().cloned()), ..Batch::default() })
        });
        std::mem::swap(&mut *next, batch);
        batch.clear();
        if self.tell(Happened::Rows(next)) {
            return Ok(());
        }
        match self.work.take() {
            Some(work) => work.end().map(drop),
            None => Err(Error::usage("the events have ended with an error")),
        }
    }

    /// False if the worker has ended, which it does on its own only after an error. The next batch returns that error.
    fn tell(&mut self, what: Happened) -> bool {
        self.work.as_ref().is_some_and(|work| work.happened.send(what).is_ok())
    }

    /// Finishes back ends, and gives the output its name.
    ///
    /// # Errors
    /// Errors of back ends and of the system; nothing is written then.
    pub fn finish(mut self) -> Result<Done> {
        match self.work.take() {
            Some(work) => work.end()?.finish(),
            None => Err(Error::usage("the events have ended with an error")),
        }
    }
}

impl Drop for Observed {
    /// Waits for the worker, which removes what it has written.
    fn drop(&mut self) {
        if let Some(Work { happened, worker, .. }) = self.work.take() {
            drop(happened);
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Kind;
    use crate::run::SIMPLECOUNT_FILE;
    use quipu_model::ThreadId;
    use quipu_model::lens::AccessKind;

    fn batch() -> Batch {
        let mut batch = Batch::default();
        batch.span.records = 2;
        batch.span.thread = ThreadId { workload: 0, tid: 7 };
        batch.instrs.at.push(0);
        batch.instrs.pc.push(0x1000);
        batch.instrs.size.push(4);
        batch.instrs.flags.push(0);
        batch.accesses.at.push(1);
        batch.accesses.addr.push(0x2000);
        batch.accesses.size.push(8);
        batch.accesses.kind.push(AccessKind::Write);
        batch
    }

    #[test]
    fn rows_are_counted_as_events_and_only_wanted_columns_are_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let mut given = Given::default();
        given.add("backend", "simplecount");
        let to = Destination::Backends { given: &given, output: &output, replace: false };
        let mut observed = to.begin(None, Columns::INSTRS | Columns::ACCESSES).unwrap();
        assert_eq!(observed.columns(), Columns::INSTRS | Columns::ACCESSES);
        observed.take(&mut batch()).unwrap();
        let done = observed.finish().unwrap();
        // A swap, the thread, the instruction and the store.
        let events = done.facts.iter().find(|fact| fact.key == "events").unwrap();
        assert_eq!(events.value.as_u64(), Some(4));
        let counts = std::fs::read_to_string(output.join(SIMPLECOUNT_FILE)).unwrap();
        assert!(counts.lines().any(|line| line.contains("WriteMem") && line.ends_with(" 1")), "{counts}");
    }

    #[test]
    fn a_file_has_the_fields_of_its_level() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("few.prism");
        for text in ["all", "none", "80:00:00"] {
            let detail = level(text).unwrap();
            let to = Destination::File { path: &path, replace: true, level: None, detail };
            let mut observed = to.begin(None, Columns::INSTRS | Columns::ACCESSES).unwrap();
            observed.take(&mut batch()).unwrap();
            let done = observed.finish().unwrap();
            assert!(done.losses.is_empty(), "{text}: {done:?}");
        }
        assert!(level("much").is_err());
    }

    #[test]
    fn kinds_that_no_tool_wants_need_no_columns() {
        let only_memory = Detail { memory: Detail::ALL.memory, ..Detail::NOTHING };
        let columns = columns_for(only_memory);
        assert!(columns.has(Columns::ACCESSES) && !columns.any(Columns::INSTRS | Columns::INSTR_CODE));
        let neither = Detail::ALL.without(Kind::Memory).without(Kind::Sync);
        assert!(
            !columns_for(neither).any(Columns::ACCESSES),
            "synchronization needs accesses for its objects"
        );
    }
}
