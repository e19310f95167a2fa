//! SynchroTraceGen: traces for SynchroTrace, with computation split at the points where threads communicate or synchronize.
//!
//! | module | contents |
//! |---|---|
//! | [`ranges`] | sets of addresses |
//! | [`thread`] | the pending computation of a thread, and its statistics |
//! | [`log`] | the interface of a thread's file |
//! | [`text`], [`capnp`] | the two text formats; packed messages |
//! | [`statistics`] | the file of statistics, and the file of threads and barriers |
//!
//! Values are correct by default; with [`Options::has_quirks`], they are those of Prism's back end, including its defects.
//!
//! SPEC: prism.md#synchrotracegen

pub mod capnp;
pub mod log;
pub mod ranges;
pub mod statistics;
pub mod text;
pub mod thread;

use crate::batch::At;
use crate::detail::Detail;
use crate::event::{Compute, Context, Kind, Memory, Sync, access, context, format, sync};
use crate::fault::{Error, Result};
use crate::files::Files;
use crate::hooks::Hooks;
use crate::shadow::{self, Shadow};
use log::{Access, Log};
use quipu_records::write::usual_pool;
use quipu_source::Pool;
use ranges::Range;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use thread::{Pending, Thread};

/// Number of instructions between two markers.
const MARKER_INSTRUCTIONS: u64 = 4096;
/// Number of threads whose reads are noted in the cell of a byte. Prism's back end accepts no more threads.
const NEAR_THREADS: usize = 128;
/// Maximum number of threads.
const MAX_THREADS: usize = NO_WRITER as usize;
/// The first address outside Prism's shadow memory.
const QUIRK_LIMIT: u64 = 1 << 38;
/// No thread has written the byte.
const NO_WRITER: u16 = u16::MAX;

/// Format of the files of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// Text, version 1.
    #[default]
    Text,
    /// Text, version 2, which the replayer reads.
    TextV2,
    /// Packed Cap'n Proto messages.
    Capnp,
    /// No files.
    Null,
}

/// The options of the back end.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the files (`-o`).
    pub out: Files,
    /// Number of reads or writes after which a computation is written (`-c`); 1 writes each access.
    pub aggregation: u64,
    /// Format of the files of threads (`-l`).
    pub form: Form,
    /// Whether to reproduce the defects of Prism's back end.
    pub has_quirks: bool,
    /// Maximum number of pages of 4096 bytes; the shadow memory of each takes 96 KiB.
    pub max_pages: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            out: Files::each("."),
            aggregation: 100,
            form: Form::Text,
            has_quirks: false,
            max_pages: shadow::USUAL_PAGES,
        }
    }
}

/// The cell of a byte.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Threads that have read the byte since it was written, as bits.
    readers: [u64; 2],
    /// Number of the event that wrote it.
    event: u32,
    /// Index of the thread that wrote it.
    writer: u16,
    /// Whether threads outside the range of `readers` have read it.
    has_far_readers: bool,
}

impl Default for Cell {
    fn default() -> Cell {
        Cell { readers: [0; 2], event: 0, writer: NO_WRITER, has_far_readers: false }
    }
}

impl Cell {
    /// Notes that a thread reads the byte at `address`; returns whether it had read it before.
    #[inline]
    fn read(&mut self, thread: usize, address: u64, far: &mut FarReaders) -> bool {
        if thread >= NEAR_THREADS {
            return far.read(self, thread, address);
        }
        let (word, bit) = (&mut self.readers[(thread / 64) & 1], 1 << (thread % 64));
        let had = *word & bit != 0;
        *word |= bit;
        had
    }

    /// The thread and event that wrote the byte, if it was another thread.
    #[inline]
    fn edge(&self, thread: usize) -> Option<(usize, u32)> {
        let writer = usize::from(self.writer);
        (self.writer != NO_WRITER && writer != thread).then_some((writer, self.event))
    }
}

/// Readers outside the range of a cell's bits, by the byte that they have read since it was written.
#[derive(Default)]
struct FarReaders {
    by_byte: FxHashMap<u64, Vec<u16>>,
    /// Number of readers of all bytes.
    n_readers: usize,
}

impl FarReaders {
    #[cold]
    fn read(&mut self, cell: &mut Cell, thread: usize, address: u64) -> bool {
        cell.has_far_readers = true;
        let readers = self.by_byte.entry(address).or_default();
        let thread = thread as u16; // Below `MAX_THREADS`.
        // Sorted, so that the search is fast for many threads.
        let Err(place) = readers.binary_search(&thread) else { return true };
        readers.insert(place, thread);
        self.n_readers += 1;
        false
    }

    /// Memory use, expressed in pages of shadow memory.
    fn pages(&self) -> usize {
        /// Memory per byte, with its entry in the table, and per reader, with spare capacity.
        const BYTES: [usize; 2] = [64, 4];
        let n_bytes = BYTES[0] * self.by_byte.len() + BYTES[1] * self.n_readers;
        n_bytes / (shadow::PAGE_BYTES * size_of::<Cell>())
    }

    /// Forgets the readers of bytes that are written.
    #[inline]
    fn forget(&mut self, address: u64, cells: &[Cell]) {
        if self.by_byte.is_empty() {
            return;
        }
        for (nth, _) in (0..).zip(cells).filter(|(_, cell)| cell.has_far_readers) {
            self.n_readers -=
                self.by_byte.remove(&address.wrapping_add(nth)).map_or(0, |readers| readers.len());
        }
    }
}

/// The back end SynchroTraceGen.
pub struct Stgen {
    options: Options,
    shadow: Shadow<Cell>,
    far: FarReaders,
    /// Threads that compress files.
    pool: Option<Arc<Pool>>,
    /// Threads in order of first appearance.
    threads: Vec<Thread>,
    by_number: FxHashMap<u64, usize>,
    current: Option<usize>,
    /// Creations of threads: the creating thread and the handle.
    creates: Vec<(u64, u64)>,
    /// Barriers in order of first appearance, with the threads that arrived at them.
    barriers: Vec<(u64, Vec<u64>)>,
    /// Number of accesses without an address or size, which are counted but touch no memory.
    unplaced: u64,
}

impl Stgen {
    /// A back end with these options.
    #[must_use]
    pub fn new(options: Options) -> Stgen {
        Stgen {
            options,
            shadow: Shadow::default(),
            far: FarReaders::default(),
            pool: None,
            threads: Vec::new(),
            by_number: FxHashMap::default(),
            current: None,
            creates: Vec::new(),
            barriers: Vec::new(),
            unplaced: 0,
        }
    }

    /// Number of accesses without an address or size so far.
    #[must_use]
    pub fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// Pages of shadow memory so far, plus the memory for far readers, expressed in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.shadow.pages() + self.far.pages()
    }

    fn is_plain(&self) -> bool {
        self.options.aggregation <= 1
    }

    /// Makes a thread the current one.
    fn swap(&mut self, number: u64) -> Result<()> {
        let next = self.by_number.get(&number).copied();
        if next.is_some() && next == self.current {
            return Ok(());
        }
        self.flush()?;
        let next = match next {
            Some(next) => next,
            None => self.create(number)?,
        };
        self.current = Some(next);
        Ok(())
    }

    fn create(&mut self, number: u64) -> Result<usize> {
        // QUIRK: Prism's back end has room for this many threads.
        let most = if self.options.has_quirks { NEAR_THREADS } else { MAX_THREADS };
        if self.threads.len() == most {
            return Err(Error::Stop(format!("SynchroTraceGen takes at most {most} threads")));
        }
        let pool = match &self.pool {
            Some(pool) => pool,
            None => self.pool.insert(usual_pool().map_err(Error::other)?),
        };
        let options = &self.options;
        let log: Box<dyn Log + Send> = match options.form {
            Form::Text => Box::new(text::Text::create(options, pool, number, text::Version::One)?),
            Form::TextV2 => Box::new(text::Text::create(options, pool, number, text::Version::Two)?),
            Form::Capnp => Box::new(capnp::Messages::create(options, pool, number)?),
            Form::Null => Box::new(log::Nothing),
        };
        let index = self.threads.len();
        self.threads.push(Thread::new(number, log));
        self.by_number.insert(number, index);
        Ok(index)
    }

    /// Returns the thread of an event: the one given by its stream, since several producers deliver in turn without swaps
    /// between them. Before the first swap the thread is unknown, and called 0.
    #[inline]
    fn current(&mut self, at: At) -> Result<usize> {
        match (self.current, at.thread) {
            (Some(current), None) => Ok(current),
            (Some(current), Some(number)) if self.threads[current].number == number => Ok(current),
            _ => self.enter(at.thread),
        }
    }

    /// Makes the thread of an event the current one.
    #[cold]
    fn enter(&mut self, thread: Option<u64>) -> Result<usize> {
        if let Some(number) = thread {
            self.swap(number)?;
        }
        match self.current {
            Some(current) => Ok(current),
            None if self.options.has_quirks => Err(Error::Stop(
                "an event before the first swap, at which Prism's back end crashes".to_owned(),
            )),
            None => {
                self.swap(0)?;
                Ok(0)
            }
        }
    }

    /// Writes the pending computation of the current thread.
    fn flush(&mut self) -> Result<()> {
        let Some(current) = self.current else { return Ok(()) };
        if self.is_plain() {
            self.threads[current].flush_plain()
        } else {
            self.threads[current].flush_compute()?;
            self.threads[current].flush_edges()
        }
    }

    fn read(&mut self, current: usize, place: Option<Range>) -> Result<()> {
        if self.is_plain() {
            return self.read_plain(current, place);
        }
        let limit = self.limit();
        let (shadow, far, threads) = (&mut self.shadow, &mut self.far, &mut self.threads);
        let numbers = |index: usize, threads: &[Thread]| threads[index].number;
        let mut has_edge = false;
        if let Some(place) = place {
            let local = place.below(limit);
            // Consecutive bytes of one kind are added to ranges together.
            let mut run: Option<(Option<(usize, u32)>, Range)> = None;
            let mut finish = |run: Option<(Option<(usize, u32)>, Range)>, threads: &mut Vec<Thread>| match run
            {
                Some((Some((writer, event)), range)) => {
                    has_edge = true;
                    let writer = numbers(writer, threads);
                    threads[current].pending.edge(writer, event, range);
                }
                Some((None, range)) => threads[current].pending.reads_range(range),
                None => {}
            };
            if let Some(local) = local {
                shadow.visit(local.start, local.len(), |mut address, cells| {
                    for cell in cells {
                        let had = cell.read(current, address, far);
                        let edge = if had { None } else { cell.edge(current) };
                        match &mut run {
                            Some((kind, range)) if *kind == edge => range.end = address,
                            _ => {
                                finish(run.take(), threads);
                                run = Some((edge, Range { start: address, end: address }));
                            }
                        }
                        address = address.wrapping_add(1);
                    }
                });
            }
            finish(run, threads);
            // QUIRK: bytes outside the shadow memory count as local.
            if let Some(beyond) = place.from(limit) {
                threads[current].pending.reads_range(beyond);
            }
        }
        let thread = &mut threads[current];
        thread.counts.read(has_edge, self.options.has_quirks, false);
        if has_edge {
            thread.flush_compute()?;
        } else {
            thread.flush_edges()?;
            thread.pending.reads += 1;
            thread.pending.is_active = true;
        }
        thread.flush_at(self.options.aggregation)
    }

    fn read_plain(&mut self, current: usize, place: Option<Range>) -> Result<()> {
        let limit = self.limit();
        let mut edge = None;
        if let Some(local) = place.and_then(|place| place.below(limit)) {
            let far = &mut self.far;
            self.shadow.visit(local.start, local.len(), |address, cells| {
                for (nth, cell) in (0..).zip(cells) {
                    let address = address.wrapping_add(nth);
                    if edge.is_some() {
                        return;
                    }
                    edge = if cell.read(current, address, far) { None } else { cell.edge(current) };
                }
            });
        }
        let writer = edge.map(|(writer, event)| (self.threads[writer].number, event));
        let thread = &mut self.threads[current];
        thread.counts.read(edge.is_some(), self.options.has_quirks, true);
        match (writer, place) {
            (Some((writer, event)), Some(place)) => thread.plain_edge(writer, event, place),
            (_, Some(place)) => thread.plain(Access::Read(place)),
            (_, None) => Ok(()),
        }
    }

    fn write(&mut self, current: usize, place: Option<Range>) -> Result<()> {
        let limit = self.limit();
        let is_plain = self.is_plain();
        let thread = &mut self.threads[current];
        thread.counts.write();
        if is_plain {
            if let Some(place) = place {
                thread.plain(Access::Write(place))?;
            }
        } else {
            thread.pending.writes += 1;
            thread.pending.is_active = true;
            if let Some(place) = place {
                thread.pending.written.insert(place);
            }
        }
        let writer = current as u16; // Below `MAX_THREADS`.
        let written = Cell { event: thread.event as u32, writer, ..Cell::default() };
        if let Some(local) = place.and_then(|place| place.below(limit)) {
            let far = &mut self.far;
            self.shadow.visit(local.start, local.len(), |address, cells| {
                far.forget(address, cells);
                cells.fill(written);
            });
        }
        if is_plain { Ok(()) } else { self.threads[current].flush_at(self.options.aggregation) }
    }

    /// The last address of shadow memory.
    fn limit(&self) -> u64 {
        if self.options.has_quirks { QUIRK_LIMIT - 1 } else { u64::MAX }
    }

    fn note(&mut self, number: u64, event: &Sync) {
        match event.kind {
            sync::CREATE => self.creates.push((number, event.data)),
            sync::BARRIER => match self.barriers.iter_mut().find(|(object, _)| *object == event.data) {
                Some((_, threads)) if threads.contains(&number) => {}
                Some((_, threads)) => threads.push(number),
                None => self.barriers.push((event.data, vec![number])),
            },
            _ => {}
        }
    }
}

impl Hooks for Stgen {
    fn needs(&self) -> Detail {
        Detail::COMMUNICATION.without(Kind::Control)
    }

    #[inline]
    fn on_compute(&mut self, at: At, event: &Compute) -> Result<()> {
        let (iops, flops) = match event.format {
            Some(format::INTEGER) => (1, 0),
            Some(format::FLOAT) => (0, 1),
            _ => return Ok(()),
        };
        let current = self.current(at)?;
        let is_plain = self.is_plain();
        let thread = &mut self.threads[current];
        if !is_plain {
            thread.flush_edges()?;
        }
        thread.counts.operations(iops, flops);
        thread.pending.iops += iops;
        thread.pending.flops += flops;
        thread.pending.is_active = true;
        Ok(())
    }

    #[inline]
    fn on_memory(&mut self, at: At, event: &Memory) -> Result<()> {
        let place = match (event.address, event.size) {
            (Some(address), Some(size)) => Range::of(address, u64::from(size)),
            _ => None,
        };
        let current = self.current(at)?;
        let is_known = matches!(event.access, Some(access::LOAD | access::STORE));
        self.unplaced += u64::from(place.is_none() || !is_known);
        match event.access {
            Some(access::LOAD) => self.read(current, place)?,
            Some(access::STORE) => self.write(current, place)?,
            _ => {}
        }
        let most = self.options.max_pages;
        if self.pages() > most {
            let more = ", or threads beyond the first 128 read as much";
            return Err(shadow::too_many_pages::<Cell>("SynchroTraceGen", most, more));
        }
        Ok(())
    }

    fn on_sync(&mut self, at: At, event: &Sync) -> Result<()> {
        if event.kind == sync::SWAP {
            return self.swap(event.data);
        }
        if log::text_code(event.kind).is_none() {
            return Ok(());
        }
        let current = self.current(at)?;
        self.flush()?;
        let number = self.threads[current].number;
        self.note(number, event);
        self.threads[current].sync(event, self.options.has_quirks)
    }

    #[inline]
    fn on_context(&mut self, at: At, event: &Context, _: &[u8]) -> Result<()> {
        if event.kind != context::INSTRUCTION {
            return Ok(());
        }
        let current = self.current(at)?;
        let thread = &mut self.threads[current];
        thread.counts.instruction();
        if thread.counts.total.instructions.is_multiple_of(MARKER_INSTRUCTIONS) {
            thread.log.marker(MARKER_INSTRUCTIONS)?;
        }
        Ok(())
    }

    fn on_finish(&mut self) -> Result<()> {
        self.flush()?;
        for thread in &mut self.threads {
            thread.log.finish()?;
        }
        statistics::write(self)
    }
}

/// Collecting the pending computation of a [`Thread`].
impl Pending {
    /// Adds bytes that another thread wrote.
    fn edge(&mut self, writer: u64, event: u32, range: Range) {
        match self.edges.iter_mut().find(|edge| (edge.writer, edge.event) == (writer, event)) {
            Some(edge) => edge.ranges.insert(range),
            None => {
                let mut ranges = ranges::Ranges::default();
                ranges.insert(range);
                self.edges.push(log::Edge { writer, event, ranges });
            }
        }
    }

    /// Adds bytes that were read and not written by another thread.
    fn reads_range(&mut self, range: Range) {
        self.read.insert(range);
        self.is_active = true;
    }
}
