//! Converts events to the records of a Cacheray trace. SPEC: stream.md#recordings.

use crate::tsan::callers::Callers;
use crate::tsan::file::{Capture, Ending, lost_bytes};
use crate::tsan::freed::Freed;
use crate::tsan::merge::{Told, Who, events};
use crate::tsan::sites::{Sites, Sort, Unknown};
use quipu_cacheray::record::{
    ADD, ATOMIC, Access, Add, Dialect, MARK_PREFIX, READ, REMOVE, Record, Remove, UNALIGNED, WRITE,
};
use quipu_cacheray::write::{TraceWriter, Written};
use quipu_cells::cell::{access, atomic, heap, sync, text};
use quipu_cells::event::{self, Event};
use quipu_model::damaged::{Damaged, Intake, SoFar};
use quipu_model::fresh::{Replace, cannot};
use quipu_model::lens::MAX_RANGE_BYTES;
use quipu_model::number::{counted, grouped};
use quipu_model::{Error, Finding, Result};
use quipu_source::{PackOptions, Pool};
use quipu_symbols::places::{MAX_NAMES, Places};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Format of the traces.
pub const MADE: &str = "cacheray";
/// Type name of memory whose type is unknown, as Cacheray writes it.
const UNTYPED: &[u8] = b"void*";
/// Maximum length of a mark's text; readers take longer names for damage.
const MAX_MARK_BYTES: usize = 4000;

/// Duration of the recording: up to its end if known, otherwise up to the last frame that a thread started.
pub fn duration(capture: &Capture, told: &Told) -> Duration {
    capture.duration().unwrap_or(Duration::from_nanos(told.last_ns))
}

/// Contents of a recording, and the result of its conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Path of the program, if known.
    pub program: Option<PathBuf>,
    /// Process id.
    pub pid: u64,
    /// Threads that recorded at least one event.
    pub n_threads: u64,
    /// Plain reads and writes reported by the compiler's instrumentation.
    pub n_accesses: u64,
    /// Atomic operations.
    pub n_atomics: u64,
    /// Allocations.
    pub n_allocations: u64,
    /// Allocations whose type is known and specific.
    pub n_typed: u64,
    /// Allocations of characters or bytes.
    pub n_bytes_typed: u64,
    /// Allocations whose type is unknown, by reason.
    pub unknown: BTreeMap<Unknown, Allocations>,
    /// Allocations by the program itself, not by libraries, and those of them whose types cannot be looked for, for want of
    /// debug information or source.
    pub n_own: [u64; 2],
    /// Allocations and annotated regions without a place, because there are more places than a file of them takes.
    pub n_unplaced: u64,
    /// Annotations by the program: starts and ends of regions.
    pub n_annotations: u64,
    /// Function calls.
    pub n_calls: u64,
    /// Interactions of threads.
    pub n_syncs: u64,
    /// How the recording ended.
    pub ending: Ending,
    /// Time from the start to the last known moment.
    pub duration: Duration,
    /// Events that were started but not completely written.
    pub n_holes: u64,
    /// Frames of threads that are missing or damaged.
    pub n_missing: u64,
    /// Bytes of the file that could not be converted.
    pub gap_bytes: u64,
    /// Findings about all of these losses.
    pub findings: Vec<Finding>,
    /// Number of records in the trace before the first damage in the file; `None` if the file is undamaged.
    pub doubtful_from: Option<u64>,
    /// Summary of the written trace.
    pub written: Written,
}

/// Number and size of some allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// Number of allocations.
    pub n_allocations: u64,
    /// Bytes of all allocations.
    pub n_bytes: u64,
}

/// Destination of a trace.
#[derive(Clone, Debug)]
pub struct Output<'a> {
    /// Path of the trace.
    pub path: &'a Path,
    /// Container and compression.
    pub packing: &'a PackOptions,
    /// What may be overwritten.
    pub replace: Replace,
    /// Pool of threads for compression.
    pub pool: &'a Arc<Pool>,
    /// Whether the result of a damaged recording is kept.
    pub damaged: Damaged,
    /// Whether a trace without records is written.
    pub may_be_empty: bool,
    /// Prefixes of source paths at compilation, each with its replacement, for sources that have moved.
    pub source_map: &'a [(String, String)],
}

/// Converts a recording to a trace.
///
/// # Errors
/// `Unsupported` if it is not a recording; `Damaged` if it is damaged, unless the output is kept; `Missing` if nothing was
/// recorded and the trace may not be empty; `Usage` if an existing file of that name must stay; `Io` if a file cannot be
/// read or written.
pub fn collect(capture: &Path, output: &Output<'_>) -> Result<Summary> {
    let capture = Capture::open(capture)?;
    let writer =
        TraceWriter::create(output.path, Dialect::Le64, output.packing, output.replace, output.pool)?;
    let mut maker = Maker {
        writer,
        threads: Vec::new(),
        callers: Callers::default(),
        live: BTreeMap::new(),
        // Only threads of the program's get stacks where memory was before.
        freed: (capture.threads().len() > 1).then(Freed::default),
        blocks: FxHashMap::default(),
        sites: Sites::default(),
        places: Places::default(),
        place_of: FxHashMap::default(),
        place_named: FxHashMap::default(),
        summary: Summary::of(&capture),
    };
    for (from, to) in output.source_map {
        maker.sites.map_sources(from, to);
    }
    let told = events(&capture, &mut |who, event| {
        maker.event(who, event)?;
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    // The last allocation of each thread has no later event that would write it.
    for (index, thread) in capture.threads().iter().enumerate().take(maker.threads.len()) {
        let who = Who { index, tid: thread.tid };
        maker.settle(who)?;
        maker.end_stack(who)?;
    }
    let Maker { writer, sites, mut places, mut summary, .. } = maker;
    summary.program = sites.program();
    let mut findings = capture.findings(&told.findings);
    summary.duration = duration(&capture, &told);
    summary.n_missing = summary.n_missing.saturating_add(told.n_damaged());
    summary.gap_bytes = lost_bytes(&findings);
    let mut intake = Intake::new(output.damaged);
    // Events of threads are merged by time, so lost ones may belong anywhere.
    intake.take(&mut findings, SoFar::default())?;
    let reading = intake.finish();
    if writer.n_records() == 0 && !output.may_be_empty {
        let nothing = || Error::missing("nothing was recorded, so there is no trace");
        return Err(reading.nothing_left().unwrap_or_else(nothing).in_file(capture.name.clone()));
    }
    (summary.findings, summary.doubtful_from) = (reading.findings, reading.doubtful_from);
    summary.written = writer.finish()?;
    places.set_trace_bytes(summary.written.packed_bytes);
    keep_places(&places, output.path)?;
    Ok(summary)
}

/// Writes the places of a trace beside it; removes those of an earlier one. A file of that name that is something else stays,
/// and devices and pipes have none.
fn keep_places(places: &Places, trace: &Path) -> Result<()> {
    let path = Places::path_beside(trace);
    let is_other = match Places::trace_bytes_in(&path) {
        Ok(found) => found.is_none(),
        Err(cause) => cause.kind() != io::ErrorKind::NotFound,
    };
    if is_other || !trace.is_file() {
        return Ok(());
    }
    if places.is_empty() {
        let _ = fs::remove_file(&path);
        return Ok(());
    }
    let written = File::create(&path).and_then(|file| {
        let mut out = BufWriter::new(file);
        places.write(&mut out)?;
        out.flush()
    });
    written.map_err(|cause| cannot("write", &path, cause))
}

impl Summary {
    /// The facts known before reading events.
    fn of(capture: &Capture) -> Summary {
        Summary {
            program: None,
            pid: capture.pid(),
            n_threads: capture.threads().len() as u64,
            n_accesses: 0,
            n_atomics: 0,
            n_allocations: 0,
            n_typed: 0,
            n_bytes_typed: 0,
            unknown: BTreeMap::new(),
            n_own: [0; 2],
            n_unplaced: 0,
            n_annotations: 0,
            n_calls: 0,
            n_syncs: 0,
            ending: capture.ending(),
            duration: Duration::ZERO,
            n_holes: 0,
            n_missing: capture.n_missing(),
            gap_bytes: 0,
            findings: Vec::new(),
            doubtful_from: None,
            written: Written::default(),
        }
    }

    /// Sentences for people if the trace shows little of the program, or its places are not all there.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.warning().map(str::to_owned).into_iter().collect();
        if self.n_unplaced > 0 {
            warnings.push(format!(
                "without a place, because there are more than {} of them: {}",
                grouped(MAX_NAMES as u64),
                counted(self.n_unplaced, "region")
            ));
        }
        warnings
    }

    fn warning(&self) -> Option<&'static str> {
        let [n_own, n_unread] = self.n_own;
        // Libraries may be instrumented where the program is not.
        let n_known = self.n_typed + self.n_bytes_typed;
        if self.n_accesses + self.n_atomics == 0 {
            Some(
                "nothing was accessed: is all of the program compiled with `quipu cc` or `quipu c++`, and is recording not paused from the start?",
            )
        } else if n_known == 0 && n_own > 0 && n_own == n_unread {
            Some(
                "no allocation has a type: compile with `-g`, keep sources where they were (or convert the recording with `--source-map FROM=TO`), and `.dwo` files beside what was made of them",
            )
        } else {
            None
        }
    }
}

/// State of a thread.
#[derive(Debug, Default)]
struct Thread {
    /// An allocation that is not written yet, because an annotation of its type may follow.
    allocated: Option<Allocated>,
    /// Address of the memory freed by the last event, if that was a release.
    released: Option<u64>,
}

/// An allocation.
#[derive(Clone, Debug)]
struct Allocated {
    addr: u64,
    element_bytes: u64,
    n_elements: u64,
    name: Vec<u8>,
    /// Number of the place that allocated it, or gave it its type.
    place: Option<u32>,
    /// The part that the program uses, if a layer of allocators has a header before it.
    inner: Option<Box<Allocated>>,
}

struct Maker {
    writer: TraceWriter,
    threads: Vec<Thread>,
    callers: Callers,
    /// Live regions by address: those that a failed `realloc` restores, and those whose end has to be written.
    live: BTreeMap<u64, Allocated>,
    /// Size in bytes of heap blocks, by address.
    blocks: FxHashMap<u64, u64>,
    /// Memory that was freed; `None` in a program with one thread.
    freed: Option<Freed>,
    sites: Sites,
    places: Places,
    /// Numbers of places by the return address of the call, and that of the function that makes it; 0 without a caller.
    place_of: FxHashMap<(u64, u64), Option<u32>>,
    place_named: FxHashMap<String, Option<u32>>,
    summary: Summary,
}

impl Maker {
    fn event(&mut self, who: Who, event: &Event<'_>) -> Result<()> {
        if self.threads.len() <= who.index {
            self.threads.resize_with(who.index + 1, Thread::default);
        }
        self.callers.follow(who, event);
        // Calls and returns may come between an allocation and its annotation.
        match event {
            Event::Enter { .. } => {
                self.summary.n_calls += 1;
                return Ok(());
            }
            Event::Leave { .. } => return Ok(()),
            Event::Typed(region) => return self.typed(who, region),
            Event::Untyped(heap) => return self.untyped(who, heap.addr),
            _ => {}
        }
        let released = self.threads[who.index].released;
        self.settle(who)?;
        match event {
            Event::Access(access) => self.access(who, access),
            Event::Atomic(atomic) => self.atomic(who, atomic),
            Event::Alloc(region) => self.allocated(who, region, released),
            Event::Release(heap) => self.released(who, heap),
            Event::Sync(event) => self.synchronized(who, event),
            Event::Module { base, bytes, path } => {
                self.sites.module(*base, *bytes, path);
                // Other code may be at these addresses from now on.
                self.place_of.clear();
                Ok(())
            }
            Event::Text { object, which: text::MARK, text: name } => self.mark(who, *object, name),
            Event::Hole => {
                self.summary.n_holes += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn synchronized(&mut self, who: Who, event: &event::Sync) -> Result<()> {
        match event.what {
            sync::START => self.begin_stack(who, event.values[1], event.object),
            sync::END => self.end_stack(who),
            // What a thread does with its own stacks.
            sync::CONTEXT_SAVE | sync::CONTEXT_RESTORE | sync::CONTEXT_MAKE => Ok(()),
            _ => {
                self.summary.n_syncs += 1;
                Ok(())
            }
        }
    }

    /// The memory of a thread's stack begins. Where memory was freed before, that is written, so that the stack is not taken
    /// for what was there.
    fn begin_stack(&mut self, who: Who, lowest: u64, end: u64) -> Result<()> {
        let Some(freed) = &mut self.freed else { return Ok(()) };
        let ends = |(addr, region): (&u64, &Allocated)| {
            addr.saturating_add(region.element_bytes.saturating_mul(region.n_elements))
        };
        // A stack in memory of the program's own is a part of that.
        let is_inside = self.live.range(..end).next_back().is_some_and(|region| ends(region) > lowest);
        if lowest == 0 || is_inside || !freed.begin_stack(who.index, lowest, end) {
            return Ok(());
        }
        let (name, n_bytes) = (UNTYPED.to_vec(), end - lowest);
        let stack =
            Allocated { addr: lowest, element_bytes: n_bytes, n_elements: 1, name, inner: None, place: None };
        self.put_add(who, &stack)
    }

    fn end_stack(&mut self, who: Who) -> Result<()> {
        match self.freed.as_mut().and_then(|freed| freed.end_stack(who.index)) {
            Some(lowest) => self.put_remove(who, lowest),
            None => Ok(()),
        }
    }

    fn access(&mut self, who: Who, access: &event::Access) -> Result<()> {
        // The reader of the cells has reported it. The records of such a range would fill the disk.
        if access.size > MAX_RANGE_BYTES {
            return Ok(());
        }
        self.summary.n_accesses += 1;
        let tag = if access.is_write() { WRITE } else { READ };
        let is_said = access.flags & access::UNALIGNED != 0;
        for (addr, size) in pieces(access.addr, access.size) {
            let flag = if is_said || addr % size != 0 { UNALIGNED } else { 0 };
            self.put_access(who, tag | flag, addr, size)?;
        }
        Ok(())
    }

    fn put_access(&mut self, who: Who, tag: u8, addr: u64, size: u64) -> Result<()> {
        let size = u8::try_from(size).unwrap_or(u8::MAX);
        self.writer.record(&Record::Access(Access { tag, addr, size, thread: who.tid }))
    }

    /// As Cacheray logs them. SPEC: cacheray.md#what-the-values-mean.
    fn atomic(&mut self, who: Who, atomic: &event::Atomic) -> Result<()> {
        self.summary.n_atomics += 1;
        let (read, write) = (READ | ATOMIC, WRITE | ATOMIC);
        let size = atomic.size;
        if atomic.operation != atomic::STORE {
            self.put_access(who, read, atomic.addr, size)?;
        }
        match atomic.operation {
            atomic::LOAD => Ok(()),
            atomic::COMPARE_VAL if !atomic.succeeded => Ok(()),
            atomic::COMPARE => {
                self.put_access(who, read, atomic.expected, size)?;
                let changed = if atomic.succeeded { atomic.addr } else { atomic.expected };
                self.put_access(who, write, changed, size)
            }
            _ => self.put_access(who, write, atomic.addr, size),
        }
    }

    fn allocated(&mut self, who: Who, region: &event::Region<'_>, released: Option<u64>) -> Result<()> {
        let n_bytes = region.element_bytes.saturating_mul(region.n_elements);
        if let Some(freed) = &mut self.freed {
            freed.allocated(region.addr, n_bytes);
        }
        if region.call == heap::REALLOC_FAILED {
            // The recording announced the release of the old memory, which then did not happen.
            if let Some(old) = self.live.get(&region.addr).cloned() {
                return self.begin(who, old);
            }
            return Ok(());
        }
        if let Some(old) = released.filter(|_| region.call == heap::REALLOC) {
            self.live.remove(&old);
        }
        self.summary.n_allocations += 1;
        let is_own = u64::from(self.sites.is_in_program(region.pc));
        self.summary.n_own[0] += is_own;
        self.blocks.insert(region.addr, n_bytes);
        let (element_bytes, n_elements) = (region.element_bytes, region.n_elements);
        let callers = self.callers.of(who).iter().rev().copied();
        let kind = self.sites.type_of(region.pc, callers, element_bytes, n_elements);
        let place = self.place(who, region.pc);
        let name = UNTYPED.to_vec();
        let mut allocated =
            Allocated { addr: region.addr, element_bytes, n_elements, name, place, inner: None };
        match kind {
            Ok(kind) => {
                match kind.sort {
                    Sort::Bytes => self.summary.n_bytes_typed += 1,
                    Sort::Record | Sort::Pointer | Sort::Number => self.summary.n_typed += 1,
                }
                let typed = Allocated {
                    addr: region.addr + kind.header,
                    element_bytes: kind.size,
                    n_elements: (n_bytes - kind.header) / kind.size.max(1),
                    name: kind.name.into_bytes(),
                    place,
                    inner: None,
                };
                if kind.header == 0 {
                    allocated = typed;
                } else {
                    allocated.inner = Some(Box::new(typed));
                }
            }
            Err(why) => {
                if matches!(why, Unknown::NoDebugInfo | Unknown::NoSource) {
                    self.summary.n_own[1] += is_own;
                }
                let unknown = self.summary.unknown.entry(why).or_default();
                unknown.n_allocations += 1;
                unknown.n_bytes = unknown.n_bytes.saturating_add(n_bytes);
            }
        }
        self.threads[who.index].allocated = Some(allocated);
        Ok(())
    }

    /// The number of the place of a call: where it is, and where the function that makes it is called. `None` if there are too
    /// many places.
    fn place(&mut self, who: Who, pc: u64) -> Option<u32> {
        let place = self.known_place(who, pc);
        self.summary.n_unplaced += u64::from(place.is_none());
        place
    }

    fn known_place(&mut self, who: Who, pc: u64) -> Option<u32> {
        let caller = self.callers.of(who).last().copied().unwrap_or(0);
        if let Some(known) = self.place_of.get(&(pc, caller)) {
            return *known;
        }
        let mut words = self.sites.spot(pc).place(pc);
        if caller != 0 {
            words.push_str(" < ");
            words.push_str(&self.sites.spot(caller).place(caller));
        }
        let known = self.place_named.get(&words).copied();
        let number = known.unwrap_or_else(|| self.places.add_name(&words));
        self.place_named.insert(words, number);
        self.place_of.insert((pc, caller), number);
        number
    }

    /// Writes the pending allocation, which no annotation has replaced.
    fn settle(&mut self, who: Who) -> Result<()> {
        let thread = &mut self.threads[who.index];
        thread.released = None;
        match thread.allocated.take() {
            Some(allocated) => self.begin(who, allocated),
            None => Ok(()),
        }
    }

    /// Writes the start of a region, and of the one within it.
    fn begin(&mut self, who: Who, region: Allocated) -> Result<()> {
        self.put_add(who, &region)?;
        if let Some(inner) = region.inner.as_deref().cloned() {
            self.put_add(who, &inner)?;
            self.live.insert(inner.addr, inner);
        }
        self.live.insert(region.addr, region);
        Ok(())
    }

    fn released(&mut self, who: Who, heap: &event::Heap) -> Result<()> {
        self.threads[who.index].released = Some(heap.addr);
        // The old region is kept until the outcome of `realloc` is known.
        let was_live = match heap.call {
            heap::REALLOC => self.live.contains_key(&heap.addr),
            _ => self.live.remove(&heap.addr).is_some(),
        };
        if was_live {
            self.put_remove(who, heap.addr)?;
        }
        let n_bytes = self.blocks.remove(&heap.addr).unwrap_or(0);
        if let Some(freed) = &mut self.freed {
            freed.released(heap.addr, n_bytes);
        }
        // Annotated parts of the block end with it.
        let end = heap.addr.saturating_add(n_bytes);
        let inside = (Bound::Excluded(heap.addr), Bound::Excluded(end.max(heap.addr + 1)));
        let inside: Vec<u64> = self.live.range(inside).map(|(addr, _)| *addr).collect();
        for addr in inside {
            self.live.remove(&addr);
            self.put_remove(who, addr)?;
        }
        Ok(())
    }

    fn typed(&mut self, who: Who, region: &event::Region<'_>) -> Result<()> {
        self.summary.n_annotations += 1;
        let is_new =
            self.threads[who.index].allocated.take_if(|allocated| allocated.addr == region.addr).is_some();
        self.settle(who)?;
        if !is_new && self.live.remove(&region.addr).is_some() {
            self.put_remove(who, region.addr)?;
        }
        let allocated = Allocated {
            addr: region.addr,
            element_bytes: region.element_bytes,
            n_elements: region.n_elements,
            name: region.name.to_vec(),
            place: self.place(who, region.pc),
            inner: None,
        };
        self.begin(who, allocated)
    }

    fn untyped(&mut self, who: Who, addr: u64) -> Result<()> {
        self.summary.n_annotations += 1;
        let was_released = self.threads[who.index].released == Some(addr);
        self.settle(who)?;
        if was_released {
            return Ok(());
        }
        self.live.remove(&addr);
        self.put_remove(who, addr)
    }

    /// Writes a mark at the place that set it. SPEC: cacheray.md#marks.
    fn mark(&mut self, who: Who, pc: u64, name: &[u8]) -> Result<()> {
        // Readers take names with other characters for damage.
        let written = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { *byte } else { b'?' };
        let name: Vec<u8> =
            MARK_PREFIX.iter().copied().chain(name.iter().take(MAX_MARK_BYTES).map(written)).collect();
        self.writer.record(&Record::Add(Add {
            tag: ADD,
            addr: pc,
            thread: who.tid,
            element_bytes: 0,
            n_elements: 0,
            name: &name,
        }))
    }

    fn put_add(&mut self, who: Who, region: &Allocated) -> Result<()> {
        let (mut element_bytes, mut n_elements) = (region.element_bytes, region.n_elements);
        // The format has 32 bits for each.
        while element_bytes > u32::MAX.into() {
            element_bytes = element_bytes.div_ceil(2);
            n_elements = n_elements.saturating_mul(2);
        }
        if let Some(place) = region.place {
            self.places.add_region(self.writer.n_records(), place);
        }
        self.writer.record(&Record::Add(Add {
            tag: ADD,
            addr: region.addr,
            thread: who.tid,
            element_bytes: element_bytes as u32,
            n_elements: u32::try_from(n_elements).unwrap_or(u32::MAX),
            name: &region.name,
        }))
    }

    fn put_remove(&mut self, who: Who, addr: u64) -> Result<()> {
        self.writer.record(&Record::Remove(Remove { tag: REMOVE, addr, thread: who.tid }))
    }
}

/// Splits a range into pieces of sizes that processors access, the largest first.
fn pieces(mut addr: u64, mut size: u64) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        let piece = if size >= 16 { 16 } else { 1 << size.checked_ilog2()? };
        let at = addr;
        addr = addr.wrapping_add(piece);
        size -= piece;
        Some((at, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_model::ErrorKind;
    use quipu_model::batch::OVERSIZED;

    #[test]
    fn a_range_is_split_into_sizes_of_accesses() {
        let split = |addr, size| pieces(addr, size).collect::<Vec<_>>();
        assert_eq!(split(0x1000, 0), []);
        assert_eq!(split(0x1000, 8), [(0x1000, 8)]);
        assert_eq!(split(0x1001, 39), [(0x1001, 16), (0x1011, 16), (0x1021, 4), (0x1025, 2), (0x1027, 1)]);
    }

    #[test]
    fn regions_without_places_are_counted() {
        let folder = tempfile::TempDir::new().unwrap();
        let (from, to) = (folder.path().join("a.quipu"), folder.path().join("a.cacheray"));
        let head = (u64::from(quipu_cells::cell::kind::ALLOC) << 56) | (2 << 48);
        let n_regions = MAX_NAMES as u64 + 3;
        // Each is allocated by other code, and the last two by the same.
        let cells: Vec<[u64; 2]> = (0..n_regions)
            .flat_map(|at| {
                let pc = 0x1000 + at.min(n_regions - 2);
                [[head | (0x10_0000 + 16 * at), pc], [at + 1, heap::MALLOC], [16, 1]]
            })
            .collect();
        let frames: Vec<&[[u64; 2]]> = cells.chunks(3 * 1024).collect();
        std::fs::write(&from, quipu_cells::whole::recording(&[(1, &frames)])).unwrap();
        let (packing, pool) = (PackOptions::new(quipu_source::Packing::Plain), Pool::new(1).unwrap());
        let output = Output {
            path: &to,
            packing: &packing,
            replace: Replace::Never,
            damaged: Damaged::Refuse,
            may_be_empty: false,
            pool: &pool,
            source_map: &[],
        };
        let summary = collect(&from, &output).unwrap();
        assert_eq!((summary.n_allocations, summary.n_unplaced), (n_regions, 3));
        let warnings = summary.warnings();
        assert!(warnings.last().unwrap().ends_with("more than 65,536 of them: 3 regions"), "{warnings:?}");
    }

    #[test]
    fn a_range_that_is_too_large_is_damage_at_its_event() {
        let folder = tempfile::TempDir::new().unwrap();
        let (from, to) = (folder.path().join("a.quipu"), folder.path().join("a.cacheray"));
        let head = |n_following: u64| (u64::from(quipu_cells::cell::kind::RANGE) << 56) | n_following << 48;
        let range = |size: u64| [[head(1) | 0x1000, 0x40], [size, 0]];
        let cells = [range(48), range(u64::MAX), range(1 << 40), range(MAX_RANGE_BYTES + 1)].concat();
        std::fs::write(&from, quipu_cells::whole::recording(&[(1, &[&cells])])).unwrap();
        let (packing, pool) = (PackOptions::new(quipu_source::Packing::Plain), Pool::new(1).unwrap());
        let (replace, damaged) = (Replace::Never, Damaged::Keep);
        let output = Output {
            path: &to,
            packing: &packing,
            replace,
            damaged,
            may_be_empty: false,
            pool: &pool,
            source_map: &[],
        };
        let summary = collect(&from, &output).unwrap();
        assert_eq!((summary.n_holes, summary.n_missing, summary.n_accesses), (0, 0, 1));
        assert_eq!((summary.written.records, summary.doubtful_from), (3, Some(0)));
        let found: Vec<_> = summary.findings.iter().filter(|found| &*found.rule == OVERSIZED).collect();
        let records: Vec<_> = found.iter().map(|found| found.place.record).collect();
        assert_eq!(records, [Some(1), Some(2), Some(3)]);
        assert!(found[0].message.contains(&format!("an access of {} bytes", u64::MAX)), "{found:?}");
        assert!(found.iter().all(|found| found.place.offset.is_some() && found.loss.is_some()), "{found:?}");
        let refusing = Output { damaged: Damaged::Refuse, replace: Replace::Allowed, ..output };
        assert_eq!(collect(&from, &refusing).unwrap_err().kind(), ErrorKind::Damaged);
    }
}
