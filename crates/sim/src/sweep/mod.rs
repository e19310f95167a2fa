//! `sweep`: misses of caches of many sizes, ways, policies, line sizes and prefetchers, in one read of the trace.
//!
//! A sweep varies one level: the first caches of the cores for instructions (`l1i`), for data (`l1d`) or for both (`l1`),
//! or the last cache (`ll`) below fixed first caches. `sizes`, `ways`, `policies`, `line-sizes` and `prefetchers` are lists,
//! and every valid combination is simulated: the size must be a multiple of line size times ways, and `TREE_PLRU` wants a
//! power of two of ways. A range such as `16K..1M` doubles from its first number on. Each combination has the numbers that
//! `caches` would report for it. With `bound`, each is compared with Belady's optimal policy, which no other policy can
//! beat without prefetches: the difference could be saved by a better policy, the rest only by a larger cache.
//!
//! LRU caches without a prefetcher are not simulated one by one: stack distances give all sizes and ways at once. All others
//! are divided among `threads`; the result does not depend on their number.
//!
//! Threads are placed on cores as in `caches`; cores that a scheduler runs side by side take turns, record by record, at a
//! shared last cache. `quipu sim sweep` is the same analysis with its own flags, and takes files that describe the caches.
//!
//! Memory holds all caches together, and grows, for each cache that is simulated by itself, with the distinct lines that miss
//! (with `OPT`, all distinct lines), not with the length of the trace.
//!
//! * **Needs** `accesses`; `accesses.fetch` for `l1i`; `instrs` with `warmup-instrs`; `threads.cpu` with `cpu-scheduling`.

mod report;
mod space;
mod stacks;

pub use report::{PointCounts, Swept};
pub use space::{KEYS, Level, MAX_POINTS, Point, Space};

use crate::describe::each_level;
use crate::extent::{Extent, Warmup};
use crate::lane::{COUNTED, Lane, in_step};
use crate::machine::feed::{Block, Feed, Front, Lone, joins};
use crate::machine::{Counts, Machine, Watch};
use crate::options::{
    CORES, CPU_SCHEDULING, L1D_ASSOC, L1D_SIZE, L1I_ASSOC, L1I_SIZE, PREFETCHER, SIM_REFS, SKIP_REFS,
    WARMUP_REFS, in_options, is_by_core, option, placed, placing, recorded_line,
};
use crate::physical::{Translation, Translator};
use crate::place::{Placement, Placing, processors};
use crate::recording::{Executed, Recording};
use crate::simulate::{OPTIONAL, columns};
use crate::spec::{MachineSpec, Policy, Prefetch};
use quipu_model::number::counted;
use quipu_model::options::Kind;
use quipu_model::result::{self, Fields};
use quipu_model::trace::Recorded;
use quipu_model::{
    Batch, Columns, DynPass, Error, ErrorKind, Needs, OptionSpec, Options, Order, Pass, Report, Result,
    Shard, Tool, ToolInfo, Trace,
};
use stacks::{Shape, Stacks};
use std::ops::Range;

#[cfg(test)]
mod tests;

/// The tool `sweep`.
#[derive(Debug)]
pub struct SweepTool;

/// Heading of the options that select the caches to try.
const TRIED: &str = "Search space";

const WARMUP_INSTRS: OptionSpec = option(
    "warmup-instrs",
    Kind::Count,
    "0",
    "start the statistics after this many instructions",
    WARMUP_REFS.group,
);
const THREADS: OptionSpec = option("threads", Kind::Count, "all", "number of worker threads", "");

/// An option with a list of values; the lists of several such options are combined.
const fn list(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    option(name, Kind::Text, default, doc, TRIED).value("LIST")
}

/// Static description of the tool.
pub static INFO: ToolInfo = ToolInfo {
    name: "sweep",
    summary: "misses of caches of many sizes, ways and policies, in one read",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: OPTIONAL.or(Columns::INSTRS) },
    order: Order::Time,
    options: &[
        option("level", Kind::Text, "l1d", "caches to vary: l1i, l1d, l1 (one for both) or ll", TRIED),
        list("sizes", "4K..1M", "sizes in bytes, with K, M or G; a range doubles"),
        list("ways", "1..16", "associativities"),
        list(
            "policies",
            "LRU",
            "replacement policies: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM, OPT",
        ),
        list("line-sizes", "64", "line sizes in bytes, powers of two"),
        list("prefetchers", "none", "prefetchers of these caches: none, nextline, stride, stream"),
        OptionSpec::flag("bound", "compare each with Belady's optimal policy").group(TRIED),
        CORES,
        L1I_SIZE.doc("with `ll`: size of each L1 instruction cache"),
        L1I_ASSOC,
        L1D_SIZE.doc("with `ll`: size of each L1 data cache"),
        L1D_ASSOC,
        PREFETCHER.doc("with `ll`: prefetcher of L1 data caches"),
        WARMUP_INSTRS,
        SKIP_REFS,
        WARMUP_REFS,
        SIM_REFS,
        CPU_SCHEDULING,
        THREADS,
    ],
    in_report: false,
};

impl Tool for SweepTool {
    fn result(&self) -> result::Shape {
        Swept::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let threads = options.length(&THREADS);
        let sweep = Sweep::new(Space::default().with_options(options)?, trace, threads)?;
        sweep.columns(trace)?;
        Ok(Box::new(sweep))
    }
}

/// Many caches that simulate the same batches.
#[derive(Clone, Debug)]
pub struct Sweep {
    space: Space,
    points: Vec<Point>,
    n_impossible: u64,
    groups: Vec<Group>,
    placing: Placing,
    placement: Placement,
    threads: usize,
    /// The range of records that counts, and the part of it that remains.
    wanted: Extent,
    extent: Extent,
    /// Records other than markers met so far, where they are counted.
    met: u64,
    /// Instructions and accesses that the statistics cover.
    instrs: u64,
    accesses: u64,
    recording: Recording,
    executed: Executed,
    physical: Option<Translator>,
    /// Progress of the thread that runs a batch, or of those that run side by side.
    lanes: Vec<Lane>,
}

/// Caches that receive the same requests.
#[derive(Clone, Debug)]
struct Group {
    line_size: u64,
    joins: bool,
    feed: Feed,
    tasks: Vec<Task>,
}

/// Unit of work for one thread.
#[derive(Clone, Debug)]
enum Task {
    /// Caches whose counts follow from stack distances, and whose numbers of sets have the same odd factor.
    Stacks(Stacks),
    Lone(Point, Lone),
}

impl Sweep {
    /// Creates empty caches.
    ///
    /// # Errors
    /// Those of [`Space::points`], and `Usage` for first caches that cannot be built.
    pub fn new(mut space: Space, trace: &dyn Trace, threads: usize) -> Result<Sweep> {
        let wanted = space.counted()?;
        let placing = placed(placing(space.cpu_scheduling), trace)?;
        if is_by_core(trace) && !space.has_cores {
            space.usual.cores = trace.shards().len();
        }
        if let Some(recorded) = recorded_line(trace).filter(|_| !space.has_line_sizes) {
            space.line_sizes = vec![recorded];
        }
        let (points, n_impossible) = space.points()?;
        let mut tried = points.clone();
        if space.bound {
            // Each geometry once, regardless of policies.
            for point in &points {
                let best = bound_of(*point);
                if !tried.contains(&best) {
                    tried.push(best);
                }
            }
        }
        let mut groups: Vec<Group> = Vec::new();
        for point in &tried {
            let joins = joins(&point.cache(), point.line_size);
            let is_same = |group: &&mut Group| group.line_size == point.line_size && group.joins == joins;
            let at = match groups.iter_mut().position(|group| is_same(&group)) {
                Some(at) => at,
                None => {
                    let feed = Feed::new(front(&space, point.line_size)?, point.line_size, joins);
                    groups.push(Group { line_size: point.line_size, joins, feed, tasks: Vec::new() });
                    groups.len() - 1
                }
            };
            if !in_stacks(point) {
                let lone = Lone::new(&point.cache(), point.line_size, space.copies(), space.seed())?;
                groups[at].tasks.push(Task::Lone(*point, lone));
            }
        }
        for group in &mut groups {
            let mut shapes: Vec<Shape> = Vec::new();
            for point in points.iter().filter(|point| in_stacks(point) && point.line_size == group.line_size)
            {
                let ways = point.ways as usize; // There are fewer lines than that.
                match shapes.iter_mut().find(|shape| shape.sets == point.sets()) {
                    Some(shape) => shape.ways = shape.ways.max(ways),
                    None => shapes.push(Shape { sets: point.sets(), ways }),
                }
            }
            if group.joins && !shapes.is_empty() {
                // These tasks take longest, so they come first.
                let stacks = Stacks::of(shapes, space.copies()).into_iter().map(Task::Stacks);
                group.tasks.splice(..0, stacks);
            }
        }
        let placement = Placement::new(placing, space.usual.cores);
        Ok(Sweep {
            wanted,
            extent: wanted,
            physical: None,
            lanes: Vec::new(),
            points,
            n_impossible,
            groups,
            placing,
            placement,
            threads,
            met: 0,
            instrs: 0,
            accesses: 0,
            recording: Recording::of(trace),
            executed: Executed::default(),
            space,
        })
    }

    /// The same sweep with physical addresses.
    #[must_use]
    pub fn with_physical(self, physical: Translator) -> Sweep {
        Sweep { physical: Some(physical), ..self }
    }

    /// Columns of `trace` that the sweep reads.
    ///
    /// # Errors
    /// `Missing` with the columns that the trace lacks and the reason why they are needed.
    pub fn columns(&self, trace: &dyn Trace) -> Result<Columns> {
        let mut needs = vec![(Columns::ACCESSES, "simulates memory accesses")];
        if self.space.level == Level::Instr {
            needs.push((Columns::ACCESS_FETCH, "tries caches for instructions"));
        }
        if self.space.warmup > 0 {
            needs.push((Columns::INSTRS, "counts the instructions of the warm-up"));
        }
        needs.extend(self.physical.as_ref().and_then(Translator::needs));
        if self.placing == Placing::Processors {
            needs.push((
                Columns::THREADS | Columns::THREAD_CPU,
                "puts threads on the processors of the trace",
            ));
        }
        if self.space.level == Level::Data && self.recording.data == Recorded::Nothing {
            return Err(Error::missing(format!(
                "tool `{}` tries caches for data, and this trace has no accesses to data",
                INFO.name
            ))
            .hint("--level l1i tries caches for instructions"));
        }
        let optional = OPTIONAL.or(self.recording.columns());
        let optional = if self.wanted.is_all() { optional } else { optional.or(COUNTED) };
        columns(INFO.name, &needs, optional, trace)
    }

    /// Processes a batch; batches must come in the order of time.
    ///
    /// # Errors
    /// Those of [`Placement::core_of`].
    pub fn take(&mut self, batch: &Batch) -> Result<()> {
        if batch.span.records == 0 || self.extent.is_over() {
            return Ok(());
        }
        let mut lanes = std::mem::take(&mut self.lanes);
        if lanes.is_empty() {
            lanes.push(Lane::default());
        }
        let result = self.take_alone(batch, &mut lanes[0]);
        self.lanes = lanes;
        result
    }

    fn take_alone(&mut self, batch: &Batch, lane: &mut Lane) -> Result<()> {
        self.begin(batch, lane);
        let Some(begin) = self.extent.leave_out(batch, lane.refs()) else { return Ok(()) };
        let Some(core) = self.placement.enter(batch, begin)? else { return Ok(()) };
        lane.core = core;
        let mut at = 0;
        for (cut, processor) in processors(batch).filter(|(at, _)| *at >= begin) {
            self.run(batch, at..cut, lane);
            at = cut;
            if self.extent.is_over() {
                break;
            }
            lane.core = self.placement.runs_on(batch, processor).unwrap_or(lane.core);
        }
        self.run(batch, at..batch.span.records, lane);
        self.placement.stopped(batch);
        Ok(())
    }

    /// Processes one batch of each core, side by side.
    ///
    /// # Errors
    /// Those of [`take`](Sweep::take).
    pub fn take_in_step(&mut self, batches: &[Batch]) -> Result<()> {
        if self.extent.is_over() {
            return Ok(());
        }
        // Caches of one core do not depend on what other cores do in between; neither does the last cache if those do
        // nothing.
        let n_busy = || batches.iter().filter(|batch| !batch.accesses.is_empty()).count();
        if self.extent.is_all() && (self.space.level != Level::Last || n_busy() < 2) {
            return batches.iter().try_for_each(|batch| self.take(batch));
        }
        let mut lanes = std::mem::take(&mut self.lanes);
        let result = self.take_lanes(batches, &mut lanes);
        self.lanes = lanes;
        result
    }

    fn take_lanes(&mut self, batches: &[Batch], lanes: &mut Vec<Lane>) -> Result<()> {
        let mut busy: Vec<&Batch> = Vec::with_capacity(batches.len());
        for batch in batches.iter().filter(|batch| batch.span.records > 0) {
            let core = self.placement.core_of(batch)?;
            for (_, processor) in processors(batch) {
                self.placement.runs_on(batch, processor);
            }
            if lanes.len() == busy.len() {
                lanes.push(Lane::default());
            }
            let lane = &mut lanes[busy.len()];
            self.begin(batch, lane);
            if let Some(core) = core {
                lane.core = core;
                busy.push(batch);
            }
        }
        in_step(&busy, &mut lanes[..busy.len()], |batch, lane, at| {
            self.run(batch, at..at + 1, lane);
            Ok(())
        })
    }

    /// Starts a batch.
    fn begin(&mut self, batch: &Batch, lane: &mut Lane) {
        if let Some(kind) = self.recording.count_kind {
            self.executed.follow(batch, kind);
        }
        lane.begin(batch, !self.extent.is_all(), &mut self.physical);
        self.met += lane.n_refs();
        if !lane.counts() {
            self.instrs += u64::from(batch.span.instrs);
        }
    }

    /// Simulates the next records, `range`, in runs that are treated alike.
    fn run(&mut self, batch: &Batch, mut range: Range<u32>, lane: &mut Lane) {
        while let Some((stretch, rows)) = lane.next(batch, &mut range, &self.extent) {
            if stretch.is_simulated && self.extent.is_warm() {
                self.accesses += rows.len() as u64;
                self.instrs += stretch.instrs;
            }
            if stretch.is_simulated && !rows.is_empty() {
                let (core, rows, threads) = (lane.core, lane.accesses(batch, rows), self.threads);
                for Group { feed, tasks, .. } in &mut self.groups {
                    feed.run(core, rows, &mut |block: &Block| work(threads, tasks, block));
                }
            }
            if self.extent.advance(&stretch, |_| false) {
                self.begin_statistics();
            }
        }
    }

    fn begin_statistics(&mut self) {
        self.groups.iter_mut().for_each(|group| group.feed.begin());
    }

    /// Processes the requests that are still buffered. If the warm-up has not ended, nothing is counted.
    fn settle(&mut self) {
        if !self.extent.is_warm() {
            self.begin_statistics();
        }
        for Group { feed, tasks, .. } in &mut self.groups {
            feed.flush(&mut |block: &Block| work(self.threads, tasks, block));
        }
    }

    /// The result.
    pub fn report(mut self) -> Swept {
        self.settle();
        let instructions = (self.recording.instrs != Recorded::Nothing).then_some(self.instrs);
        let executed = match self.recording.instrs {
            Recorded::All => instructions,
            _ => self.executed.total().filter(|_| self.wanted.is_all()),
        };
        let translation = self.physical.as_ref().map(Translator::translation);
        let is_empty = self.accesses == 0 && self.wanted.warmup != Warmup::None;
        let shortfall = self.wanted.shortfall(self.extent, self.met, is_empty, || 0.0);
        let untranslated = translation.and_then(Translation::shortfall);
        let counts = |point: &Point| self.counts(point);
        let bound = |point: &Point| self.space.bound.then(|| counts(&bound_of(*point)).misses);
        let points =
            self.points.iter().map(|point| PointCounts::new(point, counts(point), bound(point), executed));
        Swept {
            level: self.space.level.name(),
            cores: self.space.usual.cores as u64,
            machine: self.machine(),
            recorded: self.recording,
            instructions,
            executed,
            accesses: self.accesses,
            incomplete: shortfall.into_iter().chain(untranslated).collect(),
            translation,
            impossible: self.n_impossible,
            points: points.collect(),
        }
    }

    /// The machine around the caches that were varied, in words.
    fn machine(&self) -> String {
        let cores = counted(self.space.usual.cores as u64, "core");
        match self.space.level {
            Level::Instr => format!("{cores}, each with one of these L1 instruction caches"),
            Level::Data => format!("{cores}, each with one of these L1 data caches"),
            Level::First => format!("{cores}, each with one of these caches for instructions and data"),
            Level::Last => {
                // The first caches have lines as long as those of the caches tried.
                let mut lines: Vec<u64> = self.points.iter().map(|point| point.line_size).collect();
                lines.sort_unstable();
                lines.dedup();
                let mut spec = self.space.usual.spec();
                spec.line_bytes = lines.first().copied().unwrap_or(spec.line_bytes);
                spec.caches.retain(|cache| cache.core.is_some());
                spec.caches.iter_mut().for_each(|cache| cache.parent = None);
                let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
                let (first, lines) = (each_level(&spec, false).join("; "), lines.join(" or "));
                format!(
                    "{cores}; {first}; lines of {lines} bytes; and one of these caches, shared by all cores"
                )
            }
        }
    }

    fn counts(&self, wanted: &Point) -> Counts {
        let tasks = self.groups.iter().filter(|group| group.line_size == wanted.line_size);
        for task in tasks.flat_map(|group| &group.tasks) {
            match task {
                Task::Stacks(stacks) if in_stacks(wanted) => {
                    if let Some(counts) = stacks.counts(wanted.sets(), wanted.ways as usize) {
                        return counts;
                    }
                }
                Task::Lone(point, lone) if point == wanted => return lone.counts(),
                _ => {}
            }
        }
        Counts::default()
    }
}

fn work(threads: usize, tasks: &mut [Task], block: &Block) {
    quipu_engine::share(threads, tasks, |task| match task {
        Task::Stacks(stacks) => stacks.take(block),
        Task::Lone(_, lone) => lone.take(block),
    });
}

/// Whether the counts of a cache follow from stack distances.
fn in_stacks(point: &Point) -> bool {
    point.policy == Policy::Lru && point.prefetch == Prefetch::None
}

/// The cache with Belady's policy to compare a cache with.
fn bound_of(point: Point) -> Point {
    Point { policy: Policy::Opt, prefetch: Prefetch::None, ..point }
}

/// Source of the requests to the caches that are tried.
fn front(space: &Space, line_bytes: u64) -> Result<Front> {
    Ok(match space.level {
        Level::Instr => Front::Instr,
        Level::Data => Front::Data,
        Level::First => Front::Both,
        Level::Last => {
            let mut spec = crate::Usual { line_bytes, ..space.usual.clone() }.spec();
            spec.caches.retain(|cache| cache.core.is_some());
            spec.caches.iter_mut().for_each(|cache| cache.parent = None);
            let spec = MachineSpec { coherent: false, ..spec };
            let machine = Machine::new(&spec, Watch::default()).map_err(|error| in_options(&error))?;
            Front::Behind(Box::new(machine))
        }
    })
}

/// A [`Sweep`] as a pass. It reads a single stream, so there is only one instance and nothing to merge.
impl Pass for Sweep {
    fn fork(&self, _shard: &Shard) -> Sweep {
        self.clone()
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

    fn merge(&mut self, _later: Sweep) -> Result<()> {
        Err(Error::new(ErrorKind::Internal, "caches that have run cannot take in others"))
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(self.report()))
    }
}
