//! A machine as an analysis: batches go in, in the order of time, and a [`Simulated`] comes out.

pub(crate) mod sources;
pub(crate) mod step;

use crate::extent::{Extent, Warmup};
use crate::fields::{Around, Fields, TypeSource};
use crate::machine::{Machine, Miss, Purpose, Rows, Watch};
use crate::misses::{Limits, Strides};
use crate::options::placed;
use crate::physical::{Translation, Translator};
use crate::place::{Placement, Placing};
use crate::recording::{Executed, Recording};
use crate::report::{self, Simulated, ThreadCounts};
use crate::resets::{Resets, Stage};
use crate::spec::MachineSpec;
use hashbrown::HashMap;
use quipu_model::lens::{ThreadEvent, instr_flags};
use quipu_model::{Args, Batch, Columns, DynPass, Error, ErrorKind, Pass, Report, Result, Shard, Trace};
use rustc_hash::FxBuildHasher;
use sources::Sources;
use std::fmt;
use std::ops::Range;

/// Receives the misses of caches that have a miss file.
pub trait MissSink: Send {
    /// One miss, of a process.
    fn miss(&mut self, process: u64, miss: &Miss) -> Result<()>;

    /// There are no more.
    fn end(&mut self) -> Result<()>;
}

/// What to simulate, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The machine.
    pub machine: MachineSpec,
    /// Whether its caches are TLBs: pages of processes, without prefetches and flushes.
    pub is_tlb: bool,
    /// Which records count.
    pub extent: Extent,
    /// Where statistics begin anew.
    pub resets: Resets,
    /// How threads come to cores.
    pub placing: Placing,
    /// Whether misses are divided by cause.
    pub causes: bool,
    /// How many instructions, functions and lines to list that miss most; with 0, nobody looks where misses come from.
    pub top: usize,
    /// Whether loads that miss at a steady distance are what is asked for, and from where on they are listed.
    pub strides: Option<Limits>,
    /// How addresses become physical; `None` for virtual ones.
    pub physical: Option<Translator>,
    /// What the trace has.
    pub recording: Recording,
    /// Whether what a warm-up that does not end has counted stands for the statistics, as in the original, instead of nothing.
    pub counts_cold: bool,
    /// Where types come from, if misses are told by field.
    pub types: Option<TypeSource>,
    /// Whether types and fields are what is asked for, and how many to list.
    pub tells_types: Option<usize>,
}

impl Settings {
    /// The columns to ask of `trace` for the tool called `tool`.
    ///
    /// # Errors
    /// `Missing` with what the trace does not carry, and why it is needed.
    pub fn columns(&self, tool: &str, trace: &dyn Trace) -> Result<Columns> {
        let mut needs = vec![(Columns::ACCESSES, "simulates memory accesses")];
        if self.placing == Placing::Processors {
            needs.push((
                Columns::THREADS | Columns::THREAD_CPU,
                "puts threads on the processors of the trace",
            ));
        }
        if !self.resets.is_empty() {
            needs.push((Columns::INSTRS, "counts instructions up to a reset"));
        }
        if self.resets.reads_marks() {
            needs.push((Columns::MARKS, "resets its statistics at marks"));
        }
        if self.physical.as_ref().is_some_and(Translator::reads_marks) {
            needs.push((Columns::MARKS, "translates addresses"));
        }
        let optional = if self.top > 0 { OPTIONAL.or(FUNCTIONS) } else { OPTIONAL };
        let optional = optional.or(self.recording.columns());
        let optional = if self.extent.is_all() { optional } else { optional.or(COUNTED) };
        let optional = if self.types.is_some() { optional.or(Columns::REGIONS) } else { optional };
        if self.types.is_some() && self.physical.is_some() {
            return Err(Error::unsupported(
                "regions have virtual addresses, so types do not go with physical ones",
            ));
        }
        columns(tool, &needs, optional, trace)
    }

    /// The settings for `trace`: where its shards are cores, each is a core of the machine; marks that options name are
    /// those of the trace; and results leave out what it does not have. Files of types that options name are read.
    ///
    /// # Errors
    /// See [`Resets::new`] and [`TypeSource::of`]; and if accesses cannot be placed on cores as is asked for.
    pub fn fitted(mut self, args: &Args, trace: &dyn Trace) -> Result<Settings> {
        self.placing = placed(self.placing, trace)?;
        self.resets = Resets::new(args, trace)?;
        self.recording = Recording::of(trace);
        if self.types.is_none() {
            self.types = TypeSource::of(args)?;
        }
        Ok(self)
    }

    /// An empty machine as the pass of the tool called `tool`.
    ///
    /// # Errors
    /// See [`Settings::fitted`], [`Settings::columns`] and [`Simulation::new`].
    pub(crate) fn pass(self, args: &Args, tool: &str, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let settings = self.fitted(args, trace)?;
        settings.columns(tool, trace)?;
        Ok(Box::new(Simulation::new(settings, None)?))
    }
}

/// The columns to ask of `trace` for the tool called `tool`: what it needs, each with what for, and what it uses if it is there.
///
/// # Errors
/// `Missing` with what the trace does not carry, and why it is needed.
pub(crate) fn columns(
    tool: &str,
    needs: &[(Columns, &str)],
    optional: Columns,
    trace: &dyn Trace,
) -> Result<Columns> {
    let mut columns = optional.and(trace.columns());
    for (column, why) in needs {
        let missing = column.minus(trace.columns());
        if !missing.is_empty() {
            return Err(Error::missing(format!(
                "tool `{tool}` {why}, which needs {missing}; this trace does not carry that"
            )));
        }
        columns |= *column;
    }
    Ok(columns)
}

/// What records are besides accesses, where they are counted.
pub(crate) const COUNTED: Columns = Columns::INSTRS.or(Columns::THREADS);

/// What is used where a trace has it.
pub(crate) const OPTIONAL: Columns =
    Columns::ACCESS_FETCH.or(Columns::ACCESS_PC).or(Columns::THREADS).or(Columns::THREAD_CPU);

/// What tells where functions begin.
pub(crate) const FUNCTIONS: Columns = Columns::INSTRS.or(Columns::INSTR_CLASS);

/// What a record is, where records are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ref {
    /// A marker, which never counts.
    No,
    /// Anything else but an instruction.
    Yes,
    /// An instruction that was fetched.
    Instr,
}

/// What a batch is divided for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cut {
    /// A region is added or removed: a row of the lens.
    Region(usize),
    /// Statistics begin anew, at a mark.
    Mark,
    /// The same behind so many instructions.
    Instr,
    /// The thread runs on this processor from here on.
    Processor(u64),
}

/// The pseudo-thread of a core without work.
const IDLE_THREAD: u64 = u64::MAX;

/// A thread, within its workload.
type Key = (u16, u64);

/// A machine at work on batches.
pub struct Simulation {
    settings: Settings,
    extent: Extent,
    machine: Machine,
    placement: Placement,
    /// Hits and misses of each cache up to the end of the warm-up.
    warmup: Option<Vec<(u64, u64)>>,
    instrs: u64,
    accesses: u64,
    /// Where misses come from.
    sources: Sources,
    threads: Vec<ThreadCounts>,
    thread_at: HashMap<Key, usize, FxBuildHasher>,
    processes: HashMap<(u16, u64), u64, FxBuildHasher>,
    /// Which caches are last ones, and which have a miss file.
    is_last: Vec<bool>,
    has_file: Vec<bool>,
    sink: Option<Box<dyn MissSink>>,
    /// What each record of a batch is.
    refs: Vec<Ref>,
    physical: Option<Translator>,
    strides: Strides,
    executed: Executed,
    /// Records that are no markers, up to the beginning of the statistics at least.
    met: u64,
    resets: Resets,
    /// What a reset has ended.
    stages: Vec<Stage>,
    /// How often the statistics began anew.
    epoch: u64,
    /// Where a batch is divided, and for what.
    cuts: Vec<(u32, Cut)>,
    /// Which fields misses, and perhaps accesses, go to.
    fields: Option<Box<Fields>>,
    /// The level of each cache that data goes through.
    levels: Vec<Option<usize>>,
    /// Cores that run side by side.
    lanes: Vec<step::Lane>,
}

/// Who runs the records of a batch that come next.
struct Turn {
    core: usize,
    thread: usize,
    /// The row of their first access.
    row: usize,
    /// Whether the records of this batch are counted.
    counts: bool,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Simulation {
    /// An empty machine, ready to run.
    ///
    /// # Errors
    /// `Usage` if the machine does not hold together.
    pub fn new(settings: Settings, sink: Option<Box<dyn MissSink>>) -> Result<Simulation> {
        let watch = Watch { causes: settings.causes, log: true, all: settings.types.is_some() };
        let machine = Machine::new(&settings.machine, watch)?;
        Ok(Simulation::with(settings, machine, sink))
    }

    /// This machine, ready to run.
    fn with(settings: Settings, machine: Machine, sink: Option<Box<dyn MissSink>>) -> Simulation {
        let caches = &settings.machine.caches;
        let levels = report::data_levels(caches);
        let fields = settings.types.clone().map(|source| {
            let n_levels = levels.iter().flatten().max().map_or(0, |last| last + 1);
            let line_shift = settings.machine.line_bytes.trailing_zeros();
            let mut fields = Fields::new(source.types, line_shift, n_levels);
            fields.add_variables(source.base);
            Box::new(fields)
        });
        Simulation {
            extent: settings.extent,
            placement: Placement::new(settings.placing, settings.machine.cores),
            warmup: None,
            instrs: 0,
            accesses: 0,
            sources: Sources::default(),
            threads: Vec::new(),
            thread_at: HashMap::default(),
            processes: HashMap::default(),
            is_last: caches.iter().map(|cache| cache.parent.is_none()).collect(),
            has_file: caches.iter().map(|cache| cache.miss_file.is_some()).collect(),
            sink,
            refs: Vec::new(),
            physical: settings.physical.clone(),
            strides: Strides::default(),
            executed: Executed::default(),
            met: 0,
            resets: settings.resets.clone(),
            stages: Vec::new(),
            epoch: 0,
            cuts: Vec::new(),
            fields,
            levels,
            lanes: Vec::new(),
            machine,
            settings,
        }
    }

    /// Takes in a batch; batches come in the order in which they happened.
    ///
    /// # Errors
    /// What [`Placement::core_of`] says, what the miss file's writer says, and `Limit` if there are more processes than a
    /// page number leaves room for.
    pub fn take(&mut self, batch: &Batch) -> Result<()> {
        if batch.span.records == 0 || self.extent.is_over() {
            return Ok(());
        }
        self.resets.begin(batch);
        if let Some(kind) = self.settings.recording.count_kind {
            self.executed.follow(batch, kind);
        }
        // Ahead of the first access, and among what is left out, the trace tells pages as well.
        if let Some(physical) = &mut self.physical {
            physical.translate(batch);
        }
        // A warm-up may end in the middle: what is counted at the beginning of a batch is counted up to its end.
        let counts = !self.extent.is_all() || self.resets.is_near();
        let begin = if counts { self.leave_out(batch) } else { Some(0) };
        let Some(begin) = begin else {
            self.resets.pass_over();
            self.pass_regions(batch);
            return Ok(());
        };
        if self.settings.is_tlb {
            self.enter(batch)?;
        }
        let Some(core) = self.placement.core_of(batch)? else {
            for (_, processor) in processors(batch).filter(|(at, _)| *at >= begin) {
                self.placement.runs_on(batch, processor);
            }
            self.pass_regions(batch);
            return Ok(());
        };
        if !counts {
            self.instrs += u64::from(batch.span.instrs);
        }
        if self.is_rest(batch) {
            self.pass_regions(batch);
            return Ok(());
        }
        let thread = self.thread(batch);
        if self.settings.top > 0 {
            self.sources.follow(batch, thread);
        }
        let mut cuts = std::mem::take(&mut self.cuts);
        cuts.clear();
        self.resets.cuts(batch, &mut cuts);
        cuts.extend(processors(batch).map(|(at, processor)| (at, Cut::Processor(processor))));
        if self.fields.is_some() {
            cuts.extend((0..).zip(&batch.regions.at).map(|(row, at)| (*at, Cut::Region(row))));
        }
        cuts.sort_by_key(|(at, _)| *at);
        let mut at = 0;
        let mut turn = Turn { core, thread, row: 0, counts };
        // What stands between two changes of the processor runs on one core, and what stands between two resets is one stage.
        for (i, &(cut, what)) in cuts.iter().enumerate() {
            // What is left out at the start changes nothing but the regions.
            if cut < begin && !matches!(what, Cut::Region(_)) {
                self.resets.leave_out(what);
                continue;
            }
            self.run(batch, at..cut, &mut turn)?;
            at = cut;
            if self.extent.is_over() {
                self.resets.end(&cuts[i..]);
                break;
            }
            match what {
                Cut::Processor(processor) => {
                    turn.core = self.placement.runs_on(batch, processor).unwrap_or(turn.core);
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
        self.run(batch, at..batch.span.records, &mut turn)?;
        if batch.threads.what.contains(&ThreadEvent::Stop) {
            self.placement.stopped(batch);
        }
        Ok(())
    }

    /// Takes over what a batch that does not count says of regions.
    fn pass_regions(&mut self, batch: &Batch) {
        if let Some(fields) = &mut self.fields {
            fields.events(batch);
        }
    }

    /// Counts accesses of a thread by field, if that is asked for.
    fn tell_accesses(&mut self, batch: &Batch, rows: Range<usize>, thread: usize) {
        if self.settings.tells_types.is_some()
            && let Some(fields) = &mut self.fields
        {
            fields.accesses(batch, rows, thread);
        }
    }

    /// True if a core does nothing in a batch; one that does something runs on the processor that the batch names.
    fn is_rest(&mut self, batch: &Batch) -> bool {
        if batch.span.thread == IDLE_THREAD && batch.accesses.is_empty() {
            return true;
        }
        if let Some(processor) = batch.span.cpu.filter(|_| self.placement.placing() == Placing::Shards) {
            self.placement.runs_on(batch, processor);
        }
        false
    }

    /// Notes which records are no markers; the first one that is not left out at the start, if there is one.
    fn leave_out(&mut self, batch: &Batch) -> Option<u32> {
        note_refs(batch, &mut self.refs);
        self.met += self.refs.iter().filter(|of| **of != Ref::No).count() as u64;
        self.extent.leave_out(batch, &self.refs)
    }

    /// Goes to the address space of the batch.
    fn enter(&mut self, batch: &Batch) -> Result<()> {
        let space = self.space(batch)?;
        self.machine.set_space(space);
        Ok(())
    }

    /// The number of the batch's address space.
    fn space(&mut self, batch: &Batch) -> Result<u64> {
        let next = self.processes.len() as u64;
        let space = *self.processes.entry((batch.span.workload, batch.span.process)).or_insert(next);
        // All ones is no space, so that no page has the number that stands for none.
        let limit = (1 << self.machine.shift().min(32)) - 1;
        if space >= limit {
            return Err(Error::limit("processes that share TLBs", space + 1, limit));
        }
        Ok(space)
    }

    /// Position of the batch's thread among those met.
    fn thread(&mut self, batch: &Batch) -> usize {
        let span = &batch.span;
        *self.thread_at.entry((span.workload, span.thread)).or_insert_with(|| {
            self.threads.push(ThreadCounts {
                thread: span.thread,
                workload: span.workload,
                ..ThreadCounts::default()
            });
            self.threads.len() - 1
        })
    }

    /// Runs the records at `range`, and goes on to the row behind them.
    fn run(&mut self, batch: &Batch, range: Range<u32>, turn: &mut Turn) -> Result<()> {
        let Turn { core, thread, row, counts } = *turn;
        let end = row + batch.accesses.at[row..].partition_point(|at| *at < range.end);
        turn.row = end;
        let firsts = self.machine.first_caches(core);
        let before = firsts.map(|cache| self.machine.hits_and_misses(cache));
        let epoch = self.epoch;
        if counts {
            self.run_counted(batch, range, row, core);
        } else {
            self.accesses += (end - row) as u64;
            self.tell_accesses(batch, row..end, thread);
            self.run_rows(batch, row..end, core);
        }
        let before = if self.epoch == epoch { before } else { [(0, 0); 2] };
        self.add_hits(core, thread, before);
        self.take_misses(batch, thread)
    }

    /// Adds to a thread what the first caches of its core have counted since `before`.
    fn add_hits(&mut self, core: usize, thread: usize, before: [(u64, u64); 2]) {
        let firsts = self.machine.first_caches(core);
        let counts = &mut self.threads[thread];
        let n_sides = if firsts[0] == firsts[1] { 1 } else { 2 };
        for (cache, before) in firsts.into_iter().zip(before).take(n_sides) {
            let after = self.machine.hits_and_misses(cache);
            counts.hits += after.0 - before.0;
            counts.misses += after.1 - before.1;
        }
    }

    /// Divides the misses logged so far among what they are counted by; they are those of one thread.
    fn take_misses(&mut self, batch: &Batch, thread: usize) -> Result<()> {
        let counts = &mut self.threads[thread];
        let shift = self.machine.shift();
        for miss in self.machine.take_misses() {
            if !miss.purpose.is_prefetch() {
                if let Some(fields) = &mut self.fields
                    && let Some(level) = self.levels[miss.cache as usize]
                {
                    fields.miss(&miss, level, thread);
                }
                let is_last = self.is_last[miss.cache as usize];
                if self.settings.top > 0 {
                    if !batch.accesses.pc.is_empty() {
                        self.sources.pcs.entry(miss.pc).or_default()[usize::from(is_last)] += 1;
                    }
                    self.sources.lines.entry(miss.addr >> shift).or_default()[usize::from(is_last)] += 1;
                }
                counts.last_misses += u64::from(is_last);
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
        Ok(())
    }

    /// Runs accesses as they stand.
    fn run_rows(&mut self, batch: &Batch, rows: Range<usize>, core: usize) {
        let accesses = &batch.accesses;
        let (kinds, sizes) = (&accesses.kind[rows.clone()], &accesses.size[rows.clone()]);
        let (addrs, pcs) = match &self.physical {
            Some(physical) => physical.translated(),
            None => (&accesses.addr[..], &accesses.pc[..]),
        };
        let (addrs, pcs) = (&addrs[rows.clone()], pcs.get(rows).unwrap_or(&[]));
        let is_demand_only = self.settings.is_tlb;
        self.machine.run(core, Rows { kind: kinds, addr: addrs, size: sizes, pc: pcs, is_demand_only });
    }

    /// Runs records stretch by stretch, as long as records are counted.
    fn run_counted(&mut self, batch: &Batch, range: Range<u32>, mut row: usize, core: usize) {
        let mut at = range.start;
        while at < range.end {
            let (limit, is_simulated) = self.extent.stretch();
            let (mut n, mut instrs, start) = (0, 0, row);
            while at < range.end && n < limit {
                let of = self.refs.get(at as usize).copied().unwrap_or(Ref::No);
                n += u64::from(of != Ref::No);
                instrs += u64::from(of == Ref::Instr);
                while batch.accesses.at.get(row) == Some(&at) {
                    row += 1;
                }
                at += 1;
            }
            if is_simulated {
                if self.extent.is_warm() {
                    self.accesses += (row - start) as u64;
                    self.instrs += instrs;
                }
                self.run_rows(batch, start..row, core);
            }
            if self.extent.advance(n, |share| self.machine.is_filled(share)) {
                self.end_warmup();
            }
        }
    }

    fn end_warmup(&mut self) {
        let n_caches = self.settings.machine.caches.len();
        self.warmup = Some((0..n_caches).map(|cache| self.machine.hits_and_misses(cache)).collect());
        self.reset();
    }

    /// Puts the statistics so far aside, as a stage, and begins new ones.
    fn end_stage(&mut self, why: Cut) {
        if self.extent.is_warm() {
            self.stages.push(self.stage());
            self.reset();
        } else {
            self.resets.leave_out(why);
        }
    }

    /// The statistics since the last reset.
    fn stage(&self) -> Stage {
        let n_caches = self.settings.machine.caches.len();
        let counts = (0..n_caches).map(|cache| self.machine.hits_and_misses(cache)).collect();
        Stage { instrs: self.instrs, accesses: self.accesses, counts }
    }

    /// Begins the statistics anew; lines stay where they are.
    fn reset(&mut self) {
        self.epoch += 1;
        (self.instrs, self.accesses) = (0, 0);
        self.machine.reset_counts();
        self.sources.reset();
        if let Some(fields) = &mut self.fields {
            fields.reset();
        }
        self.strides = Strides::default();
        for of in &mut self.threads {
            *of = ThreadCounts { thread: of.thread, workload: of.workload, ..ThreadCounts::default() };
        }
    }

    /// Why the answer is not what was asked for.
    fn incomplete(&self) -> Vec<String> {
        let mut all: Vec<String> = self.shortfall().into_iter().collect();
        all.extend(self.resets.missed(self.extent.is_over()));
        let translation = self.physical.as_ref().map(Translator::translation);
        all.extend(translation.and_then(Translation::shortfall));
        all
    }

    /// Why there are no statistics, though something was asked for.
    fn shortfall(&self) -> Option<String> {
        let wanted = self.settings.extent;
        let is_empty = self.accesses == 0 && self.warmup.is_some();
        wanted.shortfall(self.extent, self.met, is_empty, || self.machine.filled())
    }

    /// Ends a warm-up that goes on to the end: there are no statistics behind it.
    fn settle(&mut self) {
        if !self.extent.is_warm() && self.warmup.is_none() && !self.settings.counts_cold {
            self.end_warmup();
        }
    }

    /// The result so far.
    pub fn report(mut self) -> Simulated {
        self.settle();
        let last = (!self.settings.resets.is_empty()).then(|| self.stage());
        let is_whole = self.settings.extent.is_all() && self.settings.resets.is_empty();
        let executed = self.executed.total().filter(|_| is_whole);
        let translation = self.physical.as_ref().map(Translator::translation);
        let incomplete = self.incomplete();
        let Simulation { settings, machine, placement, warmup, instrs, accesses, sources, threads, .. } =
            self;
        let is_cold = settings.extent.warmup != Warmup::None && warmup.is_none();
        let warmup = if is_cold { Some(vec![(0, 0); settings.machine.caches.len()]) } else { warmup };
        let stages = self.stages.into_iter().chain(last).collect();
        let fields = self.fields.map(|fields| fields.missing(settings.top));
        let told = report::Told {
            warmup,
            instrs,
            executed,
            accesses,
            translation,
            incomplete,
            sources,
            threads,
            stages,
            fields,
        };
        report::make(&settings, &machine, &placement, told)
    }
}

/// Notes which records of a batch are no markers.
pub(crate) fn note_refs(batch: &Batch, refs: &mut Vec<Ref>) {
    refs.clear();
    refs.resize(batch.span.records as usize, Ref::No);
    let stops = batch.threads.at.iter().zip(&batch.threads.what);
    let stops = stops.filter(|(_, what)| **what == ThreadEvent::Stop).map(|(at, _)| at);
    for at in batch.accesses.at.iter().chain(&batch.instrs.at).chain(stops) {
        if let Some(of) = refs.get_mut(*at as usize) {
            *of = Ref::Yes;
        }
    }
    for (at, flags) in batch.instrs.at.iter().zip(&batch.instrs.flags) {
        if flags & instr_flags::NO_FETCH == 0
            && let Some(of) = refs.get_mut(*at as usize)
        {
            *of = Ref::Instr;
        }
    }
}

/// The changes of the processor in a batch: where, and to which.
pub(crate) fn processors(batch: &Batch) -> impl Iterator<Item = (u32, u64)> {
    let threads = &batch.threads;
    let events = threads.at.iter().zip(&threads.what).zip(&threads.value);
    events.filter(|((_, what), _)| **what == ThreadEvent::Cpu).map(|((at, _), value)| (*at, *value))
}

/// A [`Simulation`] as a pass. It reads one stream, so there is one of it and nothing to merge.
impl Pass for Simulation {
    fn fork(&self, _shard: &Shard) -> Simulation {
        let mut machine = self.machine.clone();
        machine.reset_counts();
        Simulation::with(self.settings.clone(), machine, None)
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        self.take(batch)
    }

    fn consume_in_step(&mut self, batches: &[Batch]) -> Result<()> {
        self.take_in_step(batches)
    }

    fn has_enough(&self) -> bool {
        self.extent.is_over()
    }

    fn merge(&mut self, _later: Simulation) -> Result<()> {
        Err(Error::new(ErrorKind::Internal, "a machine that has run cannot take in another"))
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        if let Some(sink) = &mut self.sink {
            sink.end()?;
        }
        self.settle();
        if let Some(limits) = self.settings.strides {
            let line_bytes = self.settings.machine.line_bytes;
            return Ok(Box::new(self.strides.report(limits, line_bytes)));
        }
        if let Some(top) = self.settings.tells_types
            && let Some(fields) = self.fields
        {
            let around = Around {
                line_size: self.settings.machine.line_bytes,
                levels: report::data_level_names(&self.settings.machine.caches),
                threads: &self.threads,
                top,
            };
            return Ok(Box::new(fields.report(&around)));
        }
        Ok(Box::new(self.report()))
    }
}
