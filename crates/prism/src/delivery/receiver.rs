//! Our own delivery, the side of the analysis: creates the shared memory, and gives a sink the events of all producers.
//!
//! Each producer has a ring. Producers with pending chunks take turns, so that none is starved; the batches of one producer
//! come in its order. Cells of the threads of a program come in the order of their stamps (`cells`). When no ring has a
//! chunk, the receiver sleeps until a producer wakes it, and periodically checks whether all producers are still alive.

mod cells;

use self::cells::Pending;
use super::chunk::{Chunks, Names, Stop};
use super::fault::{Fault, Place, Wrong};
use super::folder::Folder;
use crate::batch::Batch;
use crate::detail::Detail;
use crate::event::Kind;
use crate::fault::{Error, Result};
use crate::front::cells::FromCells;
use crate::hooks::Sink;
use quipu_model::ThreadId;
use quipu_ring::prism::{CELLS, Encoding, PROTOCOL, SETTLED, SHAPE, Said, Terms};
use quipu_ring::{BadName, Consumer, Shape, Shared, SlotState, life};
use quipu_source::BusGuard;
use rustc_hash::FxHashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum number of chunks that a producer delivers per turn.
const CHUNKS_IN_TURN: usize = 8;
/// Size of the cache of names in bytes, after which it is cleared.
const MAX_KNOWN_BYTES: usize = 64 << 20;
/// Interval at which the receiver checks whether producers are still alive.
const PATIENCE: Duration = Duration::from_millis(100);

/// The shared memory of a run.
#[derive(Debug)]
pub struct Receiver {
    folder: Folder,
    path: PathBuf,
    shared: Shared,
    asked: Detail,
}

/// Decision of the caller on how a run continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Continue; more producers may come.
    Wait,
    /// No more producers will come: the run ends when the present ones have ended.
    Drain,
    /// End the run now.
    End,
}

/// Numbers of producers so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Number of producers that have come.
    pub n_producers: usize,
    /// Number of these that have not ended.
    pub n_live: usize,
}

/// How a producer ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// It left after all its events were delivered.
    Left,
    /// Its thread or process ended without leaving. All events that it published were delivered.
    Died,
    /// It violated the protocol. Its events before the fault were delivered.
    Wrong(Fault),
    /// It was still open when the run ended.
    Open,
}

/// The record of a producer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Producer {
    /// Number of its ring.
    pub ring: u32,
    /// Its process id.
    pub process: u32,
    /// Its thread id in the system.
    pub thread_id: u32,
    /// The thread of its events until the first swap; for cells, that of all its events, 0 if it has none.
    pub thread: u64,
    /// The encoding of its events; `None` for cells, and if it is invalid or unknown.
    pub encoding: Option<Encoding>,
    /// Fields that its events had at the beginning. A kind that is off has no events.
    pub detail: Detail,
    /// Fields that the analysis asked for and the producer does not have, of the kinds of events that it has.
    pub missing: Detail,
    /// Number of events delivered.
    pub n_events: u64,
    /// Number of events that it reports as dropped.
    pub n_dropped: u64,
    /// Number of delivered events with an undefined type.
    pub n_unknown: u64,
    /// How it ended.
    pub end: End,
}

/// The outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The producers, in the order in which they ended.
    pub producers: Vec<Producer>,
    /// Number of further producers that found no free ring.
    pub n_refused: u64,
}

impl Producer {
    /// The kinds of events that were asked for and that the producer does not have.
    pub fn absent(&self, asked: Detail) -> impl Iterator<Item = Kind> {
        let [asked, given] = [fields(asked), fields(self.detail)];
        let kinds = [Kind::Memory, Kind::Compute, Kind::Control, Kind::Sync, Kind::Context];
        let is_absent = move |at: &usize| asked[*at] & Detail::OFF == 0 && given[*at] & Detail::OFF != 0;
        (0..kinds.len()).filter(is_absent).map(move |at| kinds[at])
    }
}

impl Receiver {
    /// Creates the shared memory in Prism's folder ([`Folder::base`]), for a sink that needs these fields.
    ///
    /// # Errors
    /// Returns an error if the folder or file cannot be made.
    pub fn create(asked: Detail) -> Result<Receiver> {
        Receiver::create_in(&Folder::base(), SHAPE, asked)
    }

    /// Creates the shared memory in a folder of `base`.
    ///
    /// # Errors
    /// Returns an error if the folder or file cannot be made.
    pub fn create_in(base: &Path, shape: Shape, asked: Detail) -> Result<Receiver> {
        let folder = Folder::create(base)?;
        let path = folder.path().join("events");
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let encodings = Encoding::Fixed as u8 | Encoding::Variable as u8 | CELLS;
        let terms = Terms { version: PROTOCOL, encodings, fields: fields(asked) };
        let shared = file
            .and_then(|file| Shared::create_in(file.into(), shape, [terms.pack(), 0, 0, 0]))
            .map_err(|error| Error::io(&path, error))?;
        Ok(Receiver { folder, path, shared, asked })
    }

    /// The file that producers open; pass it to them in [`ENVIRONMENT`](quipu_ring::prism::ENVIRONMENT).
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the file.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Gives the sink the events of all producers, from start to finish. `wish` is called after each sleep of the receiver,
    /// and periodically if it does not sleep.
    ///
    /// # Errors
    /// Returns an error if the file is truncated, or the sink ends the run. A fault of a producer ends only that producer:
    /// see [`Outcome`].
    pub fn run(&mut self, sink: &mut dyn Sink, wish: &mut dyn FnMut(Seen) -> Wish) -> Result<Outcome> {
        let memory = Memory { shared: &self.shared, path: &self.path };
        let mut run = Run {
            memory,
            asked: self.asked,
            lanes: Vec::new(),
            n_producers: 0,
            bell: None,
            outcome: Outcome::default(),
            heap: Heap { memory, known: FxHashMap::default(), n_bytes: 0 },
            cells: FromCells::new(self.asked),
            programs: FxHashMap::default(),
            n_programs: 0,
            batch: Batch::default(),
            words: Vec::new(),
        };
        let done = run.all(sink, wish);
        // Producers continue without a receiver.
        let closed = memory.look(Shared::close);
        done.and(closed)?;
        Ok(run.outcome)
    }
}

/// The fields of a level of detail, in the order of the protocol's terms.
fn fields(detail: Detail) -> [u8; 5] {
    [detail.memory, detail.compute, detail.control, detail.sync, detail.context]
}

fn detail([memory, compute, control, sync, context]: [u8; 5]) -> Detail {
    Detail { memory, compute, control, sync, context }
}

/// The shared memory, which any process of the user can truncate while it is mapped.
#[derive(Clone, Copy, Debug)]
struct Memory<'s> {
    shared: &'s Shared,
    path: &'s Path,
}

impl<'s> Memory<'s> {
    /// Accesses the memory. If it has been truncated, returns an error instead of the result.
    #[inline]
    fn look<T>(&self, look: impl FnOnce(&'s Shared) -> T) -> Result<T> {
        let addresses = self.shared.addresses();
        let guard = BusGuard::over(addresses.start, addresses.end.addr() - addresses.start.addr());
        let seen = look(self.shared);
        match guard.end() {
            Ok(()) => Ok(seen),
            Err(_) => Err(Fault { place: Place::File(self.path.to_owned()), what: Wrong::Cut }.into()),
        }
    }
}

/// Cache of names of the heap.
#[derive(Debug)]
struct Heap<'s> {
    memory: Memory<'s>,
    known: FxHashMap<u32, Box<[u8]>>,
    /// Total size of the cached names in bytes.
    n_bytes: usize,
}

impl Names for Heap<'_> {
    fn name(&mut self, number: u32, out: &mut Vec<u8>) -> Result<std::result::Result<(), BadName>> {
        if let Some(name) = self.known.get(&number) {
            out.extend_from_slice(name);
            return Ok(Ok(()));
        }
        let mut name = Vec::new();
        let found = self.memory.look(|shared| match shared.heap() {
            Some(heap) => heap.get(number, &mut name),
            None => Err(BadName::Number { n_words: 0 }),
        })?;
        if found.is_ok() {
            out.extend_from_slice(&name);
            // A producer may refer to positions inside names, and there are many more of those, so the cache is bounded.
            self.n_bytes += name.len();
            if self.n_bytes > MAX_KNOWN_BYTES {
                self.known.clear();
                self.n_bytes = name.len();
            }
            self.known.insert(number, name.into());
        }
        Ok(found)
    }
}

/// One producer.
#[derive(Debug)]
struct Lane<'s> {
    consumer: Consumer<'s>,
    start: u64,
    is_dead: bool,
    /// `None` if the producer violated the protocol: its further chunks are skipped.
    reading: Option<Reading>,
    told: Producer,
}

/// The reader of a producer's chunks.
#[derive(Debug)]
enum Reading {
    /// They have events.
    Events(Box<Chunks>),
    /// They have cells.
    Cells(Box<Pending>),
}

impl Reading {
    /// Number of events delivered so far, and of those of undefined types.
    fn n_events(&self) -> (u64, u64) {
        match self {
            Reading::Events(chunks) => (chunks.n_events(), chunks.n_unknown()),
            Reading::Cells(pending) => (pending.n_events, 0),
        }
    }
}

impl Lane<'_> {
    /// Ends reading after a fault of the producer.
    fn stop(&mut self, word: u64, what: Wrong) {
        let ring = self.told.ring;
        self.told.end = End::Wrong(Fault { place: Place::Ring { ring, word }, what });
        if let Some(reading) = self.reading.take() {
            (self.told.n_events, self.told.n_unknown) = reading.n_events();
        }
    }
}

/// A run in progress.
struct Run<'s> {
    memory: Memory<'s>,
    asked: Detail,
    /// Producers by slot.
    lanes: Vec<Option<Lane<'s>>>,
    n_producers: usize,
    bell: Option<u32>,
    outcome: Outcome,
    heap: Heap<'s>,
    cells: FromCells,
    /// Numbers of programs that send cells, by process and the number that its threads share.
    programs: FxHashMap<(u32, u64), u16>,
    n_programs: u16,
    batch: Batch,
    words: Vec<u64>,
}

impl Run<'_> {
    fn all(&mut self, sink: &mut dyn Sink, wish: &mut dyn FnMut(Seen) -> Wish) -> Result<()> {
        sink.start()?;
        let n_slots = self.memory.shared.shape().n_slots;
        self.lanes.resize_with(n_slots as usize, || None);
        let mut looked = Instant::now();
        loop {
            // The bell is read before the states: a slot that changes afterwards rings it again.
            let bell = self.memory.look(Shared::bell)?;
            self.open_new(bell)?;
            let mut has_work = false;
            for slot in 0..self.lanes.len() {
                has_work |= self.turn(slot, sink)?;
            }
            if has_work && looked.elapsed() < PATIENCE {
                continue;
            }
            if looked.elapsed() >= PATIENCE {
                self.look_for_dead()?;
                looked = Instant::now();
            }
            let n_live = self.lanes.iter().flatten().count();
            match wish(Seen { n_producers: self.n_producers, n_live }) {
                Wish::End => break,
                Wish::Drain if !has_work && n_live == 0 && self.is_quiet(bell)? => break,
                _ if has_work => {}
                _ => self.sleep(bell)?,
            }
        }
        self.outcome.n_refused = self.memory.look(Shared::n_refused)?;
        for slot in 0..self.lanes.len() {
            self.deliver_cells(slot, sink)?;
            self.end(slot, End::Open)?;
        }
        sink.finish()
    }

    /// Accepts new producers, if the bell has been rung since the last ones were.
    fn open_new(&mut self, bell: u32) -> Result<()> {
        if self.bell == Some(bell) {
            return Ok(());
        }
        self.bell = Some(bell);
        let n_slots = self.lanes.len() as u32; // As many as the shape has.
        (0..n_slots).try_for_each(|slot| self.open(slot))
    }

    fn is_quiet(&self, bell: u32) -> Result<bool> {
        self.memory.look(|shared| shared.bell() == bell)
    }

    fn sleep(&self, bell: u32) -> Result<()> {
        let lanes = &self.lanes;
        self.memory.look(|shared| {
            shared.sleep(PATIENCE, || {
                shared.bell() != bell || lanes.iter().flatten().any(|lane| lane.consumer.has_words())
            });
        })
    }

    /// Accepts the producer of a slot, if there is a new one.
    fn open(&mut self, slot: u32) -> Result<()> {
        if self.lanes[slot as usize].is_some() {
            return Ok(());
        }
        let found = self.memory.look(|shared| {
            let consumer = Consumer::new(shared, slot)?;
            let is_there = matches!(consumer.state(), SlotState::Live | SlotState::Left);
            let (owner, start, note) = (consumer.owner(), consumer.start(), consumer.note());
            is_there.then_some((consumer, owner, start, Said::unpack(note)))
        })?;
        let Some((consumer, (process, thread_id), start, said)) = found else { return Ok(()) };
        let terms = said.terms;
        let encoding =
            [Encoding::Fixed, Encoding::Variable].into_iter().find(|known| *known as u8 == terms.encodings);
        let mut told = Producer {
            ring: slot,
            process,
            thread_id,
            thread: said.thread,
            encoding,
            detail: detail(terms.fields),
            missing: detail(std::array::from_fn(|at| {
                let asked = fields(self.asked)[at];
                let is_off = (asked | terms.fields[at]) & Detail::OFF != 0;
                if is_off { 0 } else { asked & !terms.fields[at] }
            })),
            n_events: 0,
            n_dropped: 0,
            n_unknown: 0,
            end: End::Open,
        };
        let is_cells = terms.encodings == CELLS;
        let wrong = match encoding {
            _ if terms.version != PROTOCOL => Some(Wrong::Version(terms.version)),
            None if !is_cells => Some(Wrong::Encoding(terms.encodings)),
            _ => None,
        };
        let reading = match encoding {
            _ if wrong.is_some() => None,
            Some(encoding) => {
                Some(Reading::Events(Box::new(Chunks::new(encoding, told.detail, said.thread))))
            }
            None => {
                let workload = self.program(process, said.thread);
                let thread = ThreadId { workload, tid: thread_id.into() };
                Some(Reading::Cells(Box::new(Pending::new(thread))))
            }
        };
        if let Some(what) = wrong {
            told.end = End::Wrong(Fault { place: Place::Ring { ring: slot, word: 0 }, what });
        }
        self.lanes[slot as usize] = Some(Lane { consumer, start, is_dead: false, reading, told });
        self.n_producers += 1;
        Ok(())
    }

    /// Delivers some chunks of a producer; returns whether there were any.
    fn turn(&mut self, slot: usize, sink: &mut dyn Sink) -> Result<bool> {
        let Some(lane) = &mut self.lanes[slot] else { return Ok(false) };
        if lane.pending().is_some() {
            return self.turn_of_cells(slot, sink);
        }
        for n in 0..CHUNKS_IN_TURN {
            let words = &mut self.words;
            let consumer = &mut lane.consumer;
            // The state is read before the chunks, so that chunks published before the producer left are seen.
            let (has_left, at, taken) = self.memory.look(|_| {
                (consumer.state() == SlotState::Left, consumer.position(), consumer.take_group(words))
            })?;
            let wrong = match (taken, &mut lane.reading) {
                (Ok(false), _) => {
                    if has_left || lane.is_dead {
                        self.end(slot, if has_left { End::Left } else { End::Died })?;
                    }
                    return Ok(n > 0);
                }
                (_, None | Some(Reading::Cells(_))) => {
                    self.memory.look(|_| consumer.pass_over())?;
                    continue;
                }
                (Ok(true), Some(Reading::Events(chunks))) => {
                    match chunks.deliver(words, &mut self.heap, &mut self.batch, sink) {
                        Ok(()) => continue,
                        Err(Stop::Run(error)) => return Err(error),
                        Err(Stop::Producer(wrong)) => wrong,
                    }
                }
                (Err(bad), Some(Reading::Events(_))) => Wrong::Group(bad),
            };
            lane.stop(at, wrong);
        }
        Ok(true)
    }

    /// Notes producers whose threads have ended; their published chunks are read at their next turns. Frees slots that a
    /// dead process had claimed and not used.
    fn look_for_dead(&mut self) -> Result<()> {
        for (slot, lane) in self.lanes.iter_mut().enumerate() {
            let Some(lane) = lane else {
                let slot = slot as u32; // As many as slots.
                self.memory.look(|shared| {
                    let consumer = Consumer::new(shared, slot);
                    consumer.map(|consumer| consumer.free_if_claimed_by_dead(|pid| life::is_alive(pid, 0)))
                })?;
                continue;
            };
            let (process, thread) = (lane.told.process, lane.told.thread_id);
            lane.is_dead = lane.is_dead || !life::is_thread_alive(process, thread, lane.start);
        }
        Ok(())
    }

    /// Ends a producer and frees its ring.
    fn end(&mut self, slot: usize, end: End) -> Result<()> {
        let Some(mut lane) = self.lanes[slot].take() else { return Ok(()) };
        if let Some(reading) = &lane.reading {
            (lane.told.n_events, lane.told.n_unknown) = reading.n_events();
        }
        if let Some(Reading::Cells(pending)) = &lane.reading {
            lane.told.thread = pending.number;
        }
        let consumer = &lane.consumer;
        let (n_dropped, note) = self.memory.look(|_| (consumer.n_dropped(), consumer.note()))?;
        lane.told.n_dropped = n_dropped;
        // Its program was replaced by another one, or ended on purpose.
        let is_settled = note[SETTLED] == consumer.position() && consumer.position() > 0;
        let end = if end == End::Died && is_settled { End::Left } else { end };
        if !matches!(lane.told.end, End::Wrong(_)) {
            lane.told.end = end.clone();
        }
        self.outcome.producers.push(lane.told);
        if end != End::Open {
            self.memory.look(|_| lane.consumer.free())?;
        }
        Ok(())
    }
}
