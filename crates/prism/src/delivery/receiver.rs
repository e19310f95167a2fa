//! Our own delivery, the analysis's side: makes the memory, and gives a sink what all producers send.
//!
//! Each producer has a ring. Those that have chunks take turns, so that none waits for another one; batches of one producer
//! come in its order. When no ring has a chunk, the receiver sleeps until a producer wakes it, and now and then looks whether
//! all producers still live.

use super::chunk::{Chunks, Names, Stop};
use super::fault::{Fault, Place, Wrong};
use super::folder::Folder;
use crate::batch::Batch;
use crate::detail::Detail;
use crate::fault::{Error, Result};
use crate::hooks::Sink;
use quipu_ring::prism::{Encoding, PROTOCOL, SHAPE, Said, Terms};
use quipu_ring::{BadName, Consumer, Shape, Shared, SlotState, life};
use quipu_source::BusGuard;
use rustc_hash::FxHashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Chunks that a producer may have delivered before it is another one's turn.
const CHUNKS_IN_TURN: usize = 8;
/// Bytes of names that are copied before all are copied anew.
const MAX_KNOWN_BYTES: usize = 64 << 20;
/// How long the receiver sleeps before it looks whether producers still live.
const PATIENCE: Duration = Duration::from_millis(100);

/// The memory of a run.
#[derive(Debug)]
pub struct Receiver {
    folder: Folder,
    path: PathBuf,
    shared: Shared,
    asked: Detail,
}

/// What a run waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Producers may still come.
    Wait,
    /// No further producers come: the run ends when those that are there have ended.
    Drain,
    /// The run ends now.
    End,
}

/// What there is of producers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// How many have come.
    pub n_producers: usize,
    /// How many of these have not ended.
    pub n_live: usize,
}

/// How a producer ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// It left, after all that it sent.
    Left,
    /// Its thread or process ended without leaving: all that it published was delivered.
    Died,
    /// It did something wrong: what it sent before was delivered.
    Wrong(Fault),
    /// It was there when the run ended.
    Open,
}

/// What a producer was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Producer {
    /// Its ring.
    pub ring: u32,
    /// Its process, as the system numbers it.
    pub process: u32,
    /// Its thread, as the system numbers it.
    pub thread_id: u32,
    /// The thread that its events belonged to, until a swap.
    pub thread: u64,
    /// The encoding of its events; none if it has none that is known.
    pub encoding: Option<Encoding>,
    /// Fields that its events had at first.
    pub detail: Detail,
    /// Fields that were asked for and that it has not.
    pub missing: Detail,
    /// How many events were delivered.
    pub n_events: u64,
    /// How many events it says that it could not send.
    pub n_dropped: u64,
    /// How many of the delivered events are of types that mean nothing.
    pub n_unknown: u64,
    /// How it ended.
    pub end: End,
}

/// What came of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The producers, in the order in which they ended.
    pub producers: Vec<Producer>,
    /// How many more there were that found no ring.
    pub n_refused: u64,
}

impl Receiver {
    /// Makes the memory where Prism has its own ([`Folder::base`]), for a sink that wants these fields.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(asked: Detail) -> Result<Receiver> {
        Receiver::create_in(&Folder::base(), SHAPE, asked)
    }

    /// Makes the memory in a folder of `base`.
    ///
    /// # Errors
    /// What the system says.
    pub fn create_in(base: &Path, shape: Shape, asked: Detail) -> Result<Receiver> {
        let folder = Folder::create(base)?;
        let path = folder.path().join("events");
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let encodings = Encoding::Fixed as u8 | Encoding::Variable as u8;
        let terms = Terms { version: PROTOCOL, encodings, fields: fields(asked) };
        let shared = file
            .and_then(|file| Shared::create_in(file.into(), shape, [terms.pack(), 0, 0, 0]))
            .map_err(|error| Error::io(&path, error))?;
        Ok(Receiver { folder, path, shared, asked })
    }

    /// The file that producers open; [`ENVIRONMENT`](quipu_ring::prism::ENVIRONMENT) names it for them.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that it is in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Gives the sink all that producers send, from start to finish. `wish` is asked whenever the receiver has slept, and
    /// now and then when it has not.
    ///
    /// # Errors
    /// If the file is cut, or the sink ends the run. What a producer does wrong ends that producer only: see [`Outcome`].
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
            batch: Batch::default(),
            words: Vec::new(),
        };
        let done = run.all(sink, wish);
        // Producers go on without a receiver.
        let closed = memory.look(Shared::close);
        done.and(closed)?;
        Ok(run.outcome)
    }
}

/// The fields of a detail in the order of terms.
fn fields(detail: Detail) -> [u8; 5] {
    [detail.memory, detail.compute, detail.control, detail.sync, detail.context]
}

fn detail([memory, compute, control, sync, context]: [u8; 5]) -> Detail {
    Detail { memory, compute, control, sync, context }
}

/// The memory, which any process of the user can cut while it is mapped.
#[derive(Clone, Copy, Debug)]
struct Memory<'s> {
    shared: &'s Shared,
    path: &'s Path,
}

impl<'s> Memory<'s> {
    /// Looks at the memory. If it was cut, what the look gave means nothing.
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

/// Names of the heap, each copied once.
#[derive(Debug)]
struct Heap<'s> {
    memory: Memory<'s>,
    known: FxHashMap<u32, Box<[u8]>>,
    /// Bytes of these.
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
            // A producer may give numbers in the middle of names, which are many more.
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
    /// None if the producer did something wrong: what it sends then is passed over.
    chunks: Option<Chunks>,
    told: Producer,
}

/// A run.
struct Run<'s> {
    memory: Memory<'s>,
    asked: Detail,
    /// By slot.
    lanes: Vec<Option<Lane<'s>>>,
    n_producers: usize,
    bell: Option<u32>,
    outcome: Outcome,
    heap: Heap<'s>,
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
            // The bell is read before states are: a slot that changes afterwards rings it again.
            let bell = self.memory.look(Shared::bell)?;
            if self.bell != Some(bell) {
                self.bell = Some(bell);
                (0..n_slots).try_for_each(|slot| self.open(slot))?;
            }
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
            self.end(slot, End::Open)?;
        }
        sink.finish()
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

    /// Takes the producer of a slot, if there is a new one.
    fn open(&mut self, slot: u32) -> Result<()> {
        let place = &mut self.lanes[slot as usize];
        if place.is_some() {
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
                if asked & Detail::OFF != 0 { 0 } else { asked & !terms.fields[at] }
            })),
            n_events: 0,
            n_dropped: 0,
            n_unknown: 0,
            end: End::Open,
        };
        let wrong = match encoding {
            _ if terms.version != PROTOCOL => Some(Wrong::Version(terms.version)),
            None => Some(Wrong::Encoding(terms.encodings)),
            Some(_) => None,
        };
        let chunks = encoding.map(|encoding| Chunks::new(encoding, told.detail, said.thread));
        let chunks = chunks.filter(|_| wrong.is_none());
        if let Some(what) = wrong {
            told.end = End::Wrong(Fault { place: Place::Ring { ring: slot, word: 0 }, what });
        }
        *place = Some(Lane { consumer, start, is_dead: false, chunks, told });
        self.n_producers += 1;
        Ok(())
    }

    /// Delivers some chunks of a producer; says whether there were any.
    fn turn(&mut self, slot: usize, sink: &mut dyn Sink) -> Result<bool> {
        let Some(lane) = &mut self.lanes[slot] else { return Ok(false) };
        for n in 0..CHUNKS_IN_TURN {
            let words = &mut self.words;
            let consumer = &mut lane.consumer;
            // The end is read before chunks are: what is published before it is seen.
            let (has_left, at, taken) = self.memory.look(|_| {
                (consumer.state() == SlotState::Left, consumer.position(), consumer.take_group(words))
            })?;
            let wrong = match (taken, &mut lane.chunks) {
                (Ok(false), _) => {
                    if has_left || lane.is_dead {
                        self.end(slot, if has_left { End::Left } else { End::Died })?;
                    }
                    return Ok(n > 0);
                }
                (_, None) => {
                    self.memory.look(|_| consumer.pass_over())?;
                    continue;
                }
                (Ok(true), Some(chunks)) => {
                    match chunks.deliver(words, &mut self.heap, &mut self.batch, sink) {
                        Ok(()) => continue,
                        Err(Stop::Run(error)) => return Err(error),
                        Err(Stop::Producer(wrong)) => wrong,
                    }
                }
                (Err(bad), Some(_)) => Wrong::Group(bad),
            };
            let ring = lane.told.ring;
            lane.told.end = End::Wrong(Fault { place: Place::Ring { ring, word: at }, what: wrong });
            (lane.told.n_events, lane.told.n_unknown) =
                lane.chunks.take().map_or((0, 0), |chunks| (chunks.n_events(), chunks.n_unknown()));
        }
        Ok(true)
    }

    /// Notes producers whose threads are no more. What they published is read at their next turns.
    /// Slots that were claimed and not used by then are free again.
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
        if let Some(chunks) = &lane.chunks {
            (lane.told.n_events, lane.told.n_unknown) = (chunks.n_events(), chunks.n_unknown());
        }
        lane.told.n_dropped = self.memory.look(|_| lane.consumer.n_dropped())?;
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
