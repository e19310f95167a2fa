//! A machine as an analysis: takes batches in the order of time and returns a [`Simulated`](crate::Simulated).

mod answer;
mod modes;
mod settings;
pub(crate) mod sources;
mod step;

#[cfg(test)]
mod tests;

pub use settings::Setup;
pub(crate) use settings::{FUNCTIONS, OPTIONAL, columns};

use crate::extent::Extent;
use crate::fields::Fields;
use crate::lane::Lane;
use crate::machine::{Eviction, Machine, Miss, Purpose, Rows, Watch};
use crate::misses::{Strides, Teller};
use crate::over_time::OverTime;
use crate::physical::Translator;
use crate::place::{Placement, Placing, processors};
use crate::recording::Executed;
use crate::report::{self, ThreadCounts};
use crate::resets::{Resets, Stage};
use hashbrown::HashMap;
use modes::{InKernel, Mode};
use quipu_model::{Batch, Error, ErrorKind, Pass, Report, Result, Shard, ThreadId};
use rustc_hash::FxBuildHasher;
use sources::Sources;
use std::fmt;
use std::ops::Range;

/// Most lines, beyond the first of each access, that are requested from a machine at once. Batches of a thousand accesses of
/// common sizes have none; a thousand accesses of a megabyte have millions.
const MAX_LINES_AT_ONCE: u64 = 1 << 16;

/// Receives the misses of caches that have a miss file, and the lines that leave caches.
pub trait MissSink: Send {
    /// Receives one miss of a process.
    fn miss(&mut self, process: u64, miss: &Miss) -> Result<()>;

    /// Receives one line that left a cache during accesses of a process, if the settings name a file for these.
    fn evicted(&mut self, process: u64, eviction: &Eviction) -> Result<()> {
        let _ = (process, eviction);
        Ok(())
    }

    /// Ends the list.
    fn end(&mut self) -> Result<()>;
}

/// Event at which a batch is divided.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cut {
    /// A region is added or removed; this is the row in the regions lens.
    Region(usize),
    /// Statistics are reset at a mark.
    Mark,
    /// Statistics are reset after a number of instructions.
    Instr,
    /// The thread moves to this processor.
    Processor(u64),
}

/// A machine that simulates batches.
pub struct Simulation {
    settings: Setup,
    extent: Extent,
    machine: Machine,
    placement: Placement,
    /// Hits and misses of each cache at the end of the warm-up.
    warmup: Option<Vec<(u64, u64)>>,
    instrs: u64,
    accesses: u64,
    /// Misses by instruction, function and line.
    sources: Sources,
    threads: Vec<ThreadCounts>,
    in_kernel: InKernel,
    /// Hits and misses of each cache by kernel code.
    kernel: Vec<(u64, u64)>,
    thread_at: HashMap<ThreadId, usize, FxBuildHasher>,
    /// Numbers of address spaces, and the number of times that TLBs were emptied to reuse them.
    processes: HashMap<(u16, u64), u64, FxBuildHasher>,
    n_rollovers: u64,
    /// Which caches are last-level caches, and which have a miss file.
    is_last: Vec<bool>,
    has_file: Vec<bool>,
    sink: Option<Box<dyn MissSink>>,
    /// Passes on each miss of some caches as a row.
    teller: Option<Box<Teller>>,
    physical: Option<Translator>,
    strides: Strides,
    executed: Executed,
    /// Records other than markers, at least up to the beginning of the statistics.
    met: u64,
    resets: Resets,
    /// Statistics that resets have ended.
    stages: Vec<Stage>,
    /// Number of resets so far.
    epoch: u64,
    /// Positions at which a batch is divided, with the event at each.
    cuts: Vec<(u32, Cut)>,
    /// Counts misses, and accesses if requested, by field.
    fields: Option<Box<Fields>>,
    /// Misses along the trace, if requested.
    over_time: Option<Box<OverTime>>,
    /// Level of each cache that data goes through.
    levels: Vec<Option<usize>>,
    /// The thread that runs a batch, or those that run side by side.
    turns: Vec<Turn>,
}

/// The thread that runs a batch. Reused for all batches to keep its buffers.
#[derive(Default)]
struct Turn {
    lane: Lane,
    thread: usize,
    /// The address space, for TLBs.
    space: u64,
    mode: Mode,
    /// Number of resets when hits and misses of the first caches were noted, and these counts.
    before: (u64, (u64, u64)),
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Simulation {
    /// Creates an empty machine.
    ///
    /// # Errors
    /// `Usage` if the description of the machine is inconsistent.
    pub fn new(settings: Setup, sink: Option<Box<dyn MissSink>>) -> Result<Simulation> {
        let watch = Watch {
            causes: settings.causes,
            log: true,
            all: settings.types.is_some(),
            evictions: settings.evictions.is_some(),
        };
        let machine = Machine::new(&settings.machine, watch)?;
        Ok(Simulation::with(settings, machine, sink))
    }

    /// This simulation, which also passes on misses row by row.
    pub(crate) fn telling(mut self, teller: Teller) -> Simulation {
        self.teller = Some(Box::new(teller));
        self
    }

    /// A simulation with this machine.
    fn with(settings: Setup, machine: Machine, sink: Option<Box<dyn MissSink>>) -> Simulation {
        let caches = &settings.machine.caches;
        let levels = report::data_levels(caches);
        let fields = settings.types.clone().map(|source| {
            let n_levels = levels.iter().flatten().max().map_or(0, |last| last + 1);
            let line_shift = settings.machine.line_bytes.trailing_zeros();
            let mut fields = Fields::new(source.types, line_shift, n_levels);
            fields.add_symbols(&source.symbols, source.base);
            fields.add_variables(source.base);
            fields.set_places(source.places);
            Box::new(fields)
        });
        Simulation {
            extent: settings.extent,
            placement: Placement::new(settings.placing, settings.machine.cores)
                .with_shards(settings.processors.clone())
                .with_neighbours(machine.neighbours()),
            warmup: None,
            instrs: 0,
            accesses: 0,
            sources: Sources::default(),
            threads: Vec::new(),
            in_kernel: InKernel::default(),
            kernel: vec![(0, 0); caches.len()],
            thread_at: HashMap::default(),
            processes: HashMap::default(),
            n_rollovers: 0,
            is_last: caches.iter().map(|cache| cache.parent.is_none()).collect(),
            has_file: caches.iter().map(|cache| cache.miss_file.is_some()).collect(),
            sink,
            teller: None,
            physical: settings.physical.clone(),
            strides: Strides::default(),
            executed: Executed::default(),
            met: 0,
            resets: settings.resets.clone(),
            stages: Vec::new(),
            epoch: 0,
            cuts: Vec::new(),
            fields,
            over_time: settings.over_time.then(|| Box::new(OverTime::new(caches.len()))),
            levels,
            turns: Vec::new(),
            machine,
            settings,
        }
    }

    /// Simulates a batch; batches must come in the order of time.
    ///
    /// # Errors
    /// Those of [`Placement::core_of`] and of the miss file's writer.
    pub fn take(&mut self, batch: &Batch) -> Result<()> {
        if batch.span.records == 0 || self.extent.is_over() {
            self.pass_regions(batch);
            return Ok(());
        }
        let mut turns = std::mem::take(&mut self.turns);
        if turns.is_empty() {
            turns.push(Turn::default());
        }
        let result = self.take_alone(batch, &mut turns[0]);
        self.turns = turns;
        result
    }

    fn take_alone(&mut self, batch: &Batch, turn: &mut Turn) -> Result<()> {
        self.resets.begin(batch);
        self.follow(batch);
        turn.mode = Mode::begin(batch, self.in_kernel.follow(batch));
        // The trace may also list pages before its first access and among skipped records.
        turn.lane.begin(batch, !self.extent.is_all() || self.resets.is_near(), &mut self.physical);
        self.met += turn.lane.n_refs();
        let Some(begin) = self.extent.leave_out(batch, turn.lane.refs()) else {
            self.resets.pass_over();
            self.pass_regions(batch);
            return Ok(());
        };
        let core = self.placement.enter(batch, begin)?;
        let Some(core) = core.filter(|_| !self.is_rest(batch)) else {
            self.pass_regions(batch);
            return Ok(());
        };
        if !self.processes.contains_key(&(batch.span.thread.workload, batch.span.process)) {
            self.make_room(1);
        }
        self.assign(batch, core, turn)?;
        let mut cuts = std::mem::take(&mut self.cuts);
        cuts.clear();
        self.resets.cuts(batch, &mut cuts);
        cuts.extend(processors(batch).map(|(at, processor)| (at, Cut::Processor(processor))));
        if self.fields.is_some() {
            cuts.extend((0..).zip(&batch.regions.at).map(|(row, at)| (*at, Cut::Region(row))));
        }
        cuts.sort_by_key(|(at, _)| *at);
        let mut at = 0;
        // The part between two moves to a processor runs on one core, and the part between two resets is one stage.
        for (i, &(cut, what)) in cuts.iter().enumerate() {
            // Skipped records at the start change nothing except regions.
            if cut < begin && !matches!(what, Cut::Region(_)) {
                self.resets.leave_out(what);
                continue;
            }
            self.run_part(batch, at..cut, turn)?;
            at = cut;
            if self.extent.is_over() {
                self.resets.end(&cuts[i..]);
                break;
            }
            match what {
                Cut::Processor(processor) => {
                    turn.lane.core = self.placement.runs_on(batch, processor).unwrap_or(turn.lane.core);
                }
                Cut::Mark | Cut::Instr => self.end_stage(what),
                Cut::Region(row) => {
                    if let Some(fields) = &mut self.fields {
                        fields.event(batch, row);
                    }
                }
            }
        }
        self.cuts = cuts;
        self.run_part(batch, at..batch.span.records, turn)?;
        self.placement.stopped(batch);
        Ok(())
    }

    /// Counts executed instructions of a batch, whether it is simulated or not.
    fn follow(&mut self, batch: &Batch) {
        if let Some(kind) = self.settings.recording.count_kind {
            self.executed.follow(batch, kind);
        }
    }

    /// Assigns a batch to a core; `turn` is at the beginning of the batch.
    fn assign(&mut self, batch: &Batch, core: usize, turn: &mut Turn) -> Result<()> {
        turn.lane.core = core;
        turn.thread = self.thread(batch);
        if self.settings.is_tlb {
            turn.space = self.space(batch)?;
        }
        if self.settings.top > 0 {
            self.sources.follow(batch, turn.thread);
        }
        if !turn.lane.counts() {
            self.instrs += u64::from(batch.span.instrs);
        }
        Ok(())
    }

    /// Applies the region changes of a batch that does not count.
    fn pass_regions(&mut self, batch: &Batch) {
        if let Some(fields) = &mut self.fields {
            fields.events(batch);
        }
    }

    /// Whether a core does nothing in a batch; otherwise the core's processor is set to that of the batch.
    fn is_rest(&mut self, batch: &Batch) -> bool {
        if batch.span.thread.is_idle() && batch.accesses.is_empty() {
            return true;
        }
        if let Some(processor) = batch.span.cpu.filter(|_| self.placement.placing() == Placing::Shards) {
            self.placement.runs_on(batch, processor);
        }
        false
    }

    /// Number of the batch's address space.
    fn space(&mut self, batch: &Batch) -> Result<u64> {
        let next = self.processes.len() as u64;
        let space = *self.processes.entry((batch.span.thread.workload, batch.span.process)).or_insert(next);
        let limit = self.machine.n_spaces();
        if space >= limit {
            return Err(Error::limit("processes on cores side by side", space + 1, limit));
        }
        Ok(space)
    }

    /// Makes room for the address spaces of `n_processes` more processes. When the numbers run out, TLBs are emptied and
    /// numbers are reused, as operating systems do on processors with few of them.
    fn make_room(&mut self, n_processes: usize) {
        if self.settings.is_tlb
            && !self.processes.is_empty()
            && (self.processes.len() + n_processes) as u64 > self.machine.n_spaces()
        {
            self.processes.clear();
            self.n_rollovers += 1;
            self.machine.empty();
        }
    }

    /// Index of the batch's thread among those met.
    fn thread(&mut self, batch: &Batch) -> usize {
        let span = &batch.span;
        *self.thread_at.entry(span.thread).or_insert_with(|| {
            self.threads.push(ThreadCounts { thread: span.thread, ..ThreadCounts::default() });
            self.threads.len() - 1
        })
    }

    /// Simulates the next records, `range`, of one thread on one core.
    fn run_part(&mut self, batch: &Batch, range: Range<u32>, turn: &mut Turn) -> Result<()> {
        self.note_hits(turn);
        self.run(batch, range, turn)?;
        self.add_hits(turn);
        Ok(())
    }

    /// Simulates the next records, `range`, in runs that are treated alike.
    fn run(&mut self, batch: &Batch, mut range: Range<u32>, turn: &mut Turn) -> Result<()> {
        while let Some((stretch, rows)) = turn.lane.next(batch, &mut range, &self.extent) {
            if stretch.is_simulated {
                if self.extent.is_warm() {
                    self.accesses += rows.len() as u64;
                    self.instrs += stretch.instrs;
                }
                self.run_rows(batch, rows, turn)?;
            }
            if self.extent.advance(&stretch, |share| self.machine.is_filled(share)) {
                self.end_warmup();
            }
        }
        Ok(())
    }

    /// Simulates accesses in groups small enough that few misses have to be buffered.
    fn run_rows(&mut self, batch: &Batch, mut rows: Range<usize>, turn: &mut Turn) -> Result<()> {
        while !rows.is_empty() {
            let (same, is_kernel) = turn.mode.first(batch, &rows);
            let mut part = rows.start..same;
            rows.start = same;
            while !part.is_empty() {
                let end = part.start + self.n_at_once(batch.accesses.size.get(part.clone()).unwrap_or(&[]));
                let few = part.start..end.min(part.end);
                part.start = few.end;
                if is_kernel {
                    self.run_in_kernel(batch, few, turn)?;
                } else {
                    self.run_few(batch, few, turn)?;
                }
            }
        }
        Ok(())
    }

    /// Simulates accesses by kernel code.
    fn run_in_kernel(&mut self, batch: &Batch, rows: Range<usize>, turn: &Turn) -> Result<()> {
        // The counts are sums of differences, so those before are subtracted first.
        for (cache, of) in self.kernel.iter_mut().enumerate() {
            let (hits, misses) = self.machine.hits_and_misses(cache);
            *of = (of.0.wrapping_sub(hits), of.1.wrapping_sub(misses));
        }
        self.run_few(batch, rows, turn)?;
        for (cache, of) in self.kernel.iter_mut().enumerate() {
            let (hits, misses) = self.machine.hits_and_misses(cache);
            *of = (of.0.wrapping_add(hits), of.1.wrapping_add(misses));
        }
        Ok(())
    }

    /// Number of accesses of these sizes to simulate at once: at least one, and all of them unless they are absurdly large.
    fn n_at_once(&self, sizes: &[u32]) -> usize {
        let n_lines = |size: &u32| u64::from(*size) >> self.machine.shift();
        // PERF: no size exceeds the bitwise or of all sizes, which takes a fraction of an instruction per size.
        let bits = sizes.iter().fold(0, |bits, size| bits | size);
        if n_lines(&bits).saturating_mul(sizes.len() as u64) <= MAX_LINES_AT_ONCE {
            return sizes.len().max(1);
        }
        let mut sum = 0;
        let fits = |size: &&u32| {
            sum += n_lines(size);
            sum <= MAX_LINES_AT_ONCE
        };
        sizes.iter().take_while(fits).count().max(1)
    }

    fn run_few(&mut self, batch: &Batch, rows: Range<usize>, turn: &Turn) -> Result<()> {
        if self.settings.tells_types.is_some()
            && let Some(fields) = &mut self.fields
        {
            fields.accesses(batch, rows.clone(), turn.thread);
        }
        let is_demand_only = self.settings.is_tlb;
        if is_demand_only {
            self.machine.set_space(turn.space);
        }
        self.machine.run(turn.lane.core, Rows { is_demand_only, ..turn.lane.accesses(batch, rows.clone()) });
        self.take_misses(batch, rows, turn.thread)
    }

    /// Notes the counts of a core's first caches.
    fn note_hits(&self, turn: &mut Turn) {
        turn.before = (self.epoch, self.machine.first_hits_and_misses(turn.lane.core));
    }

    /// Adds the hits and misses of a core's first caches since they were noted to the thread.
    fn add_hits(&mut self, turn: &Turn) {
        let (epoch, before) = turn.before;
        // After a reset of the statistics, the earlier counts are gone.
        let before = if epoch == self.epoch { before } else { (0, 0) };
        let after = self.machine.first_hits_and_misses(turn.lane.core);
        let counts = &mut self.threads[turn.thread];
        counts.hits += after.0 - before.0;
        counts.misses += after.1 - before.1;
    }

    /// Attributes the misses logged so far, which belong to one thread's accesses at these rows.
    fn take_misses(&mut self, batch: &Batch, rows: Range<usize>, thread: usize) -> Result<()> {
        let counts = &mut self.threads[thread];
        let shift = self.machine.shift();
        let n_rows = rows.len() as u64;
        let misses = self.machine.take_misses();
        if let Some(fields) = &mut self.fields {
            fields.misses(misses.as_slice(), &self.levels, thread);
        }
        if let Some(teller) = &mut self.teller
            && self.extent.is_warm()
        {
            teller.tell(batch, rows, misses.as_slice())?;
        }
        for miss in misses {
            if !miss.purpose.is_prefetch() {
                if let Some(over_time) = &mut self.over_time {
                    over_time.miss(miss.cache, miss.row);
                }
                let is_last = self.is_last[miss.cache as usize];
                if self.settings.top > 0 {
                    if !batch.accesses.pc.is_empty() {
                        self.sources.pcs.entry(miss.pc).or_default()[usize::from(is_last)] += 1;
                    }
                    self.sources.miss(miss.addr >> shift, u64::from(miss.size) >> shift, is_last);
                }
                counts.last_level_misses += u64::from(is_last);
                if is_last && miss.purpose == Purpose::Read && self.settings.strides.is_some() {
                    self.strides.add(miss.pc, miss.addr >> shift);
                }
            }
            if miss.purpose != Purpose::OwnPrefetch
                && self.has_file[miss.cache as usize]
                && let Some(sink) = &mut self.sink
            {
                sink.miss(batch.span.process, &miss)?;
            }
        }
        for eviction in self.machine.take_evictions() {
            if let Some(sink) = &mut self.sink {
                sink.evicted(batch.span.process, &eviction)?;
            }
        }
        if let Some(over_time) = &mut self.over_time {
            over_time.advance(n_rows);
        }
        Ok(())
    }

    fn end_warmup(&mut self) {
        let n_caches = self.settings.machine.caches.len();
        self.warmup = Some((0..n_caches).map(|cache| self.machine.hits_and_misses(cache)).collect());
        self.reset();
    }

    /// Stores the current statistics as a stage and resets them.
    fn end_stage(&mut self, why: Cut) {
        if self.extent.is_warm() {
            self.stages.push(self.stage());
            self.reset();
        } else {
            self.resets.leave_out(why);
        }
    }

    /// Statistics since the last reset.
    fn stage(&self) -> Stage {
        let n_caches = self.settings.machine.caches.len();
        let counts = (0..n_caches).map(|cache| self.machine.hits_and_misses(cache)).collect();
        Stage { instrs: self.instrs, accesses: self.accesses, counts }
    }

    /// Resets the statistics; lines stay.
    fn reset(&mut self) {
        self.epoch += 1;
        (self.instrs, self.accesses) = (0, 0);
        self.machine.reset_counts();
        self.sources.reset();
        self.kernel.fill((0, 0));
        if let Some(fields) = &mut self.fields {
            fields.reset();
        }
        if let Some(over_time) = &mut self.over_time {
            **over_time = OverTime::new(self.settings.machine.caches.len());
        }
        self.strides = Strides::default();
        for of in &mut self.threads {
            *of = ThreadCounts { thread: of.thread, ..ThreadCounts::default() };
        }
    }
}

/// A [`Simulation`] as a pass. It reads a single stream, so there is only one instance and nothing to merge.
impl Pass for Simulation {
    fn fork(&self, _shard: &Shard) -> Simulation {
        let mut machine = self.machine.clone();
        machine.reset_counts();
        let teller = self.teller.clone();
        Simulation { teller, ..Simulation::with(self.settings.clone(), machine, None) }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        self.take(batch)
    }

    fn consume_in_step(&mut self, batches: &[Batch]) -> Result<()> {
        self.take_in_step(batches)
    }

    fn has_enough(&self) -> bool {
        self.extent.is_over() || self.teller.as_ref().is_some_and(|teller| teller.is_over)
    }

    fn merge(&mut self, _later: Simulation) -> Result<()> {
        Err(Error::new(ErrorKind::Internal, "a machine that has run cannot take in another"))
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        self.answer()
    }
}
