//! Running passes over a trace: chooses how to read, feeds the passes, merges their results.

use crate::feed::{Harvest, Losses, Seeds, refuse_oversized};
use crate::kept::KeptAccesses;
use crate::merge::Merge;
use crate::parts::{Division, Part, Parts};
use crate::plan::Planned;
use crate::rounds::PartOfRounds;
use crate::units::{Unit, pieces, share, strictest, whole_shards};
use crate::watch::{Tally, Watch};
use crate::window::{self, resolve};
use crate::work::{Work, catch};
use quipu_model::trace::settled;
use quipu_model::{
    Batch, Columns, Dispatched, DynPass, Error, Found, Order, Reader, Report, Result, Rounds, Scan, Severity,
    Shard, ShardId, ThreadId, Trace, Window,
};
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions<'a> {
    /// Number of threads to use; 0 for as many as there are cores.
    pub threads: usize,
    /// Whether the first fault of the trace ends the run. Otherwise faults are recorded, and reading continues.
    pub strict: bool,
    /// The part of the trace to read.
    pub window: Window,
    /// Whether the window applies to the sequence of all shards or to each shard, if there are several.
    pub window_of: WindowOf,
    /// Maximum number of records of the part to read.
    pub most_records: u64,
    /// Whether that number applies to each shard, or to all shards together: to the sequence, or to cores that run side by
    /// side, in turn.
    pub most_records_of: WindowOf,
    /// The threads to analyse; all if empty. Records of other threads are left out of shards that mix threads, but the window
    /// still counts them.
    pub threads_wanted: Vec<ThreadId>,
    /// The accesses to analyse; all if `None`.
    pub accesses_kept: Option<&'a KeptAccesses>,
    /// The parts of the trace that get results of their own.
    pub division: Division,
    /// Receives progress and carries the cancel flag.
    pub watch: &'a Watch,
}

impl<'a> RunOptions<'a> {
    /// The whole trace, on all cores, recording faults.
    pub fn new(watch: &'a Watch) -> RunOptions<'a> {
        RunOptions {
            threads: 0,
            strict: false,
            window: Window::All,
            window_of: WindowOf::Sequence,
            most_records: u64::MAX,
            most_records_of: WindowOf::EachShard,
            threads_wanted: Vec::new(),
            accesses_kept: None,
            division: Division::default(),
            watch,
        }
    }
}

/// The unit to which a window applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowOf {
    /// The sequence that [`Merge`] makes, along which records and instructions of all shards count.
    #[default]
    Sequence,
    /// Each shard separately.
    EachShard,
}

/// The result of a run.
pub struct Outcome {
    /// The results of the whole, in the order of the planned tools.
    pub reports: Vec<Box<dyn Report>>,
    /// The results of the parts, ordered by core, shard and interval; empty unless asked for.
    pub parts: Vec<Part>,
    /// Faults of the trace, in the trace's order. Those found when it was opened are in
    /// [`Meta::findings`](quipu_model::Meta::findings).
    pub findings: Found,
    /// Number of records read.
    pub records: u64,
    /// Number of instructions read.
    pub instrs: u64,
    /// Threads that were asked for and had no records.
    pub absent_threads: Vec<ThreadId>,
    /// Whether the run was cancelled; the results are then those of the part that was read.
    pub cancelled: bool,
    /// The statistics of a scheduler for each core, if there was one.
    pub dispatched: Vec<Dispatched>,
    /// The error of the first part of the trace that could not be read to its end. Further ones are findings of rule
    /// `engine/unreadable`.
    pub error: Option<Error>,
}

/// Feeds all passes from one read of the data.
///
/// The strictest order that a tool needs decides how to read: pieces and whole shards on many threads, a merged stream on
/// one. Even then, passes that do not need the stream are forked for each shard, so that they always see the same. For the
/// same trace and window, the outcome is independent of the number of threads.
///
/// # Errors
/// An error of a pass; wrong use; an internal error if a reader or a pass panics; in strict runs, the first fault of the
/// trace.
pub fn run(trace: &dyn Trace, planned: Vec<Planned>, options: &RunOptions<'_>) -> Result<Outcome> {
    // Workers catch their own panics; this is for work on the current thread.
    catch(|| run_here(trace, planned, options))
}

fn run_here(trace: &dyn Trace, planned: Vec<Planned>, options: &RunOptions<'_>) -> Result<Outcome> {
    if options.strict
        && let Some(finding) = trace.meta().findings.iter().find(|found| found.severity == Severity::Error)
    {
        return Err(finding.to_error());
    }
    let kept = options.accesses_kept;
    let of_condition = kept.map_or(Columns::NONE, KeptAccesses::columns);
    let run = Run {
        trace,
        columns: planned.iter().fold(of_condition, |all, planned| all | planned.reads.columns),
        tables: tables(&planned),
        threads: n_threads(options.threads),
        met: options.threads_wanted.iter().map(|_| AtomicBool::new(false)).collect(),
        options,
    };
    let order = strictest(planned.iter().map(|planned| planned.reads.order));
    if let Some(rounds) = run.rounds()? {
        return run.side_by_side(planned, rounds);
    }
    let whole = options.window == Window::All && options.most_records == u64::MAX;
    let mut part = run.sound(|| match options.window_of {
        WindowOf::Sequence => resolve(trace, &options.window, options.watch),
        WindowOf::EachShard => {
            let of_all = options.most_records_of == WindowOf::Sequence && trace.shards().len() > 1;
            let most = if of_all { options.most_records } else { u64::MAX };
            window::first_of(trace, &options.window, most, options.watch)
        }
    })?;
    let mut losses = Losses::default();
    for error in part.errors.drain(..) {
        losses.lose(error, options.strict)?;
    }
    let harvest = match order {
        _ if part.cancelled => Seeds::new(planned).into_harvest(),
        Order::Time => run.stream(planned, part)?,
        // A piece does not know where in an interval it begins, or how many records come before it.
        Order::Pieces
            if whole && options.division.is_none() && !kept.is_some_and(KeptAccesses::has_positions) =>
        {
            run.units(planned, &pieces(trace.shards()))?
        }
        Order::Pieces | Order::Shards => run.units(planned, &whole_shards(trace.shards(), &part))?,
    };
    losses.merge(harvest.losses);
    Ok(Outcome {
        parts: harvest.parts.map_or(Ok(Vec::new()), Parts::finish)?,
        reports: harvest.passes.into_iter().map(|pass| pass.finish()).collect::<Result<_>>()?,
        findings: losses.found,
        records: harvest.records,
        instrs: harvest.instrs,
        absent_threads: run.absent_threads(),
        cancelled: options.watch.is_cancelled(),
        dispatched: Vec::new(),
        error: losses.error,
    })
}

/// The tables that any of these tools reads, each once.
fn tables(planned: &[Planned]) -> Vec<usize> {
    let mut tables: Vec<usize> = planned.iter().flat_map(|planned| &planned.reads.tables).copied().collect();
    tables.sort_unstable();
    tables.dedup();
    tables
}

pub(crate) fn n_threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        wanted => wanted,
    }
}

/// State that all ways of reading share.
struct Run<'r> {
    trace: &'r dyn Trace,
    columns: Columns,
    tables: Vec<usize>,
    threads: usize,
    /// Whether each of the wanted threads has had records.
    met: Vec<AtomicBool>,
    options: &'r RunOptions<'r>,
}

impl Run<'_> {
    /// Repeats a read until it leaves out everything that proved damaged.
    fn sound<T>(&self, read: impl FnMut() -> Result<T>) -> Result<T> {
        settled(self.trace, || self.options.watch.is_cancelled(), read)
    }

    fn template(&self) -> Scan {
        let mut cut = self.options.division.cut();
        cut.threads |= !self.options.threads_wanted.is_empty();
        let tables = self.tables.clone();
        Scan { cut, tables, most: self.options.most_records, ..Scan::new(ShardId(0)).columns(self.columns) }
    }

    /// Prepares a batch for passes. True if its records are wanted; otherwise only its region changes and findings remain.
    fn wants(&self, batch: &mut Batch) -> Result<bool> {
        let wanted = &self.options.threads_wanted;
        if !wanted.is_empty() {
            let Some(at) = wanted.iter().position(|thread| *thread == batch.span.thread) else {
                refuse_oversized(batch, self.trace.shards());
                batch.leave_regions();
                return Ok(!batch.regions.is_empty());
            };
            if batch.span.records > 0 {
                self.met[at].store(true, Ordering::Relaxed);
            }
        }
        self.leave_wanted(batch)?;
        Ok(true)
    }

    /// Removes accesses that are not to be analysed.
    fn leave_wanted(&self, batch: &mut Batch) -> Result<()> {
        refuse_oversized(batch, self.trace.shards());
        self.options.accesses_kept.map_or(Ok(()), |kept| kept.leave(batch))
    }

    /// Reading has stopped before the end: threads that were missing may have come later.
    fn stop_looking(&self) {
        self.met.iter().for_each(|met| met.store(true, Ordering::Relaxed));
    }

    fn absent_threads(&self) -> Vec<ThreadId> {
        let all = self.options.threads_wanted.iter().zip(&self.met);
        all.filter(|(_, met)| !met.load(Ordering::Relaxed)).map(|(thread, _)| *thread).collect()
    }

    fn parts(&self) -> Option<Parts> {
        (!self.options.division.is_none()).then(|| Parts::new(self.options.division))
    }

    /// Reads units on many threads, each into passes of its own, which are merged in order.
    fn units(&self, planned: Vec<Planned>, units: &[Unit]) -> Result<Harvest> {
        let seeds = Seeds::new(planned);
        // If each thread has a unit of its own, additional threads that inflate ahead would only be in the way.
        let template = Scan { ahead: units.len() < self.threads, ..self.template() };
        self.expect(units.iter().map(|unit| unit.packed_bytes));
        let merged = self.sound(|| {
            let work = Work {
                n_units: units.len(),
                threads: self.threads,
                unit: &|i, gate| self.unit(&seeds, &template, &units[i], &|| gate.is_shut(i)),
                merge: &|merged: &mut Harvest, later| merged.merge(later),
                is_stopped: &|| self.options.watch.is_cancelled(),
            };
            work.run()
        })?;
        Ok(merged.unwrap_or_else(|| seeds.into_harvest()))
    }

    /// Reads one unit, until its end, an error, or the moment when its result is no longer wanted.
    fn unit(
        &self,
        seeds: &Seeds,
        template: &Scan,
        unit: &Unit,
        is_unwanted: &dyn Fn() -> bool,
    ) -> Result<Harvest> {
        let shard = &self.trace.shards()[unit.shard as usize];
        let mut harvest = Harvest { parts: self.parts(), ..seeds.fork(shard) };
        let mut tally = Tally::new(self.options.watch);
        let strict = self.options.strict;
        let mut reader = match self.trace.scan(&unit.scan(self.trace, template)) {
            Ok(reader) => reader,
            Err(error) => {
                harvest.losses.lose(error, strict)?;
                return Ok(harvest);
            }
        };
        while !self.options.watch.is_cancelled() && !is_unwanted() {
            let batch = match reader.read() {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(error) => {
                    harvest.losses.lose(error, strict)?;
                    break;
                }
            };
            if self.wants(batch)? {
                harvest.feed(batch)?;
                if let Some(parts) = &mut harvest.parts {
                    parts.feed(batch, shard, || seeds.fork(shard).passes)?;
                }
            }
            harvest.losses.take(batch, strict)?;
            let (records, piece) = (batch.span.records, batch.span.piece);
            if tally.batch(records) {
                tally.flush(so_far(&*reader, shard, unit, piece));
            }
            if harvest.has_enough() {
                self.stop_looking();
                break;
            }
        }
        tally.flush(unit.packed_bytes);
        Ok(harvest)
    }

    /// Reads all shards as one stream, merged by time.
    fn stream(&self, planned: Vec<Planned>, part: window::Part) -> Result<Harvest> {
        let shards = self.trace.shards();
        self.expect(shards.iter().map(|shard| shard.packed_bytes.unwrap_or(0)));
        let template = Scan { ahead: self.threads > 1, ..self.template() };
        // The passes themselves read the stream, so a repeated read needs forks of them.
        let first = shards.first().cloned().unwrap_or_default();
        let seeds: Vec<_> = planned.iter().map(|planned| planned.pass.fork(&first)).collect();
        let mut sinks = Sinks::new(planned, shards.len());
        let harvest = self.sound(|| {
            sinks.begin(&seeds, &first);
            self.stream_once(&template, part.again(), &seeds, &mut sinks)
        })?;
        Ok(Harvest { passes: sinks.into_passes()?, ..harvest })
    }

    /// One read of the stream; the harvest has everything but the passes.
    fn stream_once(
        &self,
        template: &Scan,
        part: window::Part,
        seeds: &[Box<dyn DynPass>],
        sinks: &mut Sinks,
    ) -> Result<Harvest> {
        let RunOptions { strict, watch, .. } = *self.options;
        let shards = self.trace.shards();
        let mut merge = Merge::over(self.trace, template, part)?;
        let mut parts = self.parts();
        let mut losses = Losses::default();
        let (mut records, mut instrs) = (0, 0);
        let mut tally = Tally::new(watch);
        while !watch.is_cancelled() {
            let batch = match merge.read() {
                Ok(Some(merged)) => merged.batch,
                Ok(None) => break,
                Err(error) => {
                    losses.lose(error, strict)?;
                    continue;
                }
            };
            if self.wants(batch)? {
                records += u64::from(batch.span.records);
                instrs += u64::from(batch.span.instrs);
                sinks.feed(shards, batch)?;
                if let Some(parts) = &mut parts {
                    let shard = &shards[batch.span.shard as usize];
                    parts.feed(batch, shard, || seeds.iter().map(|seed| seed.fork(shard)).collect())?;
                }
            }
            losses.take(batch, strict)?;
            if tally.batch(batch.span.records) {
                tally.flush(merge.packed_bytes());
            }
            if parts.is_none() && sinks.have_enough() {
                self.stop_looking();
                break;
            }
        }
        tally.flush(merge.packed_bytes());
        Ok(Harvest { losses, records, instrs, parts, ..Harvest::new(Vec::new()) })
    }

    /// Reads cores side by side, as their scheduler runs them.
    fn side_by_side<'t>(&'t self, planned: Vec<Planned>, rounds: Box<dyn Rounds + 't>) -> Result<Outcome> {
        let shards = self.trace.shards();
        let first = shards.first().cloned().unwrap_or_default();
        let seeds: Vec<_> = planned.iter().map(|planned| planned.pass.fork(&first)).collect();
        let mut sinks = Sinks::new(planned, shards.len());
        let mut rounds = Some(rounds);
        let outcome = self.sound(|| {
            sinks.begin(&seeds, &first);
            let mut rounds = match rounds.take() {
                Some(rounds) => rounds,
                None => self.rounds()?.ok_or_else(|| Error::usage("the trace is not read side by side"))?,
            };
            self.rounds_once(&mut *rounds, &mut sinks)
        })?;
        let reports = sinks.into_passes()?.into_iter().map(|pass| pass.finish()).collect::<Result<_>>()?;
        Ok(Outcome { reports, ..outcome })
    }

    /// One read of cores side by side; the outcome has everything but the reports.
    fn rounds_once(&self, rounds: &mut dyn Rounds, sinks: &mut Sinks) -> Result<Outcome> {
        let RunOptions { strict, watch, .. } = *self.options;
        let shards = self.trace.shards();
        let mut losses = Losses::default();
        let (mut records, mut instrs) = (0, 0);
        let mut tally = Tally::new(watch);
        while !watch.is_cancelled() {
            let batches = match rounds.read() {
                Ok(Some(batches)) => batches,
                Ok(None) => break,
                Err(error) => {
                    losses.lose(error, strict)?;
                    continue;
                }
            };
            batches.iter_mut().try_for_each(|batch| self.leave_wanted(batch))?;
            sinks.feed_in_step(shards, batches)?;
            let mut is_due = false;
            for batch in batches {
                records += u64::from(batch.span.records);
                instrs += u64::from(batch.span.instrs);
                losses.take(batch, strict)?;
                is_due |= tally.batch(batch.span.records);
            }
            if is_due {
                tally.flush(rounds.packed_bytes());
            }
            if sinks.have_enough() {
                break;
            }
        }
        tally.flush(rounds.packed_bytes());
        Ok(Outcome {
            parts: Vec::new(),
            reports: Vec::new(),
            findings: losses.found,
            records,
            instrs,
            absent_threads: Vec::new(),
            cancelled: watch.is_cancelled(),
            dispatched: rounds.dispatched(),
            error: losses.error,
        })
    }

    /// The trace as cores side by side, if it is read that way.
    ///
    /// # Errors
    /// `Unsupported` if parts should have results of their own, if only some threads are wanted, or for a window of
    /// instructions or time that applies to all cores together.
    fn rounds(&self) -> Result<Option<Box<dyn Rounds + '_>>> {
        let template = Scan { ahead: self.threads > 1, ..self.template() };
        let RunOptions { window, window_of, most_records, most_records_of, threads_wanted, division, .. } =
            self.options;
        let most = (*most_records, *most_records_of);
        let Some(rounds) = part_of_rounds(self.trace, template, (window, *window_of), most)? else {
            return Ok(None);
        };
        if !threads_wanted.is_empty() || !division.is_none() {
            return Err(Error::unsupported(
                "threads that are scheduled onto cores are analysed together, without intervals",
            ));
        }
        self.expect(self.trace.meta().packed_bytes.into_iter());
        Ok(Some(rounds))
    }

    /// Passes the amount of work to the watch, if it is known for every part.
    fn expect(&self, packed_bytes: impl Iterator<Item = u64>) {
        let sum = packed_bytes.map(|bytes| (bytes > 0).then_some(bytes)).sum();
        self.options.watch.expect(if self.options.window == Window::All { sum } else { None });
    }
}

/// A part of a trace as cores side by side, if it is read that way: records of each core, or of all in turn, and instructions
/// or time of each thread.
///
/// # Errors
/// `Unsupported` for a window of instructions or time that applies to all cores together.
pub fn part_of_rounds<'t>(
    trace: &'t dyn Trace,
    template: Scan,
    (window, window_of): (&Window, WindowOf),
    (most_records, most_records_of): (u64, WindowOf),
) -> Result<Option<Box<dyn Rounds + 't>>> {
    let (window, records, records_of) = match window {
        Window::Records(range) => (Window::All, range.clone(), window_of),
        window => (window.clone(), 0..u64::MAX, most_records_of),
    };
    let records = records.start..records.end.min(records.start.saturating_add(most_records));
    let is_whole = records == (0..u64::MAX);
    // If some records do not count, events of their thread distinguish them.
    let columns = if is_whole { template.columns } else { template.columns | Columns::THREADS };
    let is_of_threads = window == Window::All || window_of == WindowOf::EachShard;
    let scan = Scan { window, most: u64::MAX, columns, ..template };
    let Some(rounds) = trace.rounds(&scan)? else { return Ok(None) };
    if !is_of_threads {
        return Err(Error::unsupported(
            "threads that are scheduled onto cores are skipped one by one, not along what the cores do",
        ));
    }
    Ok(Some(match is_whole {
        true => rounds,
        false => Box::new(PartOfRounds::new(rounds, records, records_of, trace.shards().len())),
    }))
}

/// The number of a unit's bytes on disk that have been read, as the reader reports it, or else estimated from pieces.
fn so_far(reader: &dyn Reader, shard: &Shard, unit: &Unit, piece: u32) -> u64 {
    let first = unit.pieces.as_ref().map_or(0, |pieces| pieces.start);
    let by_piece = || share(shard.packed_bytes.unwrap_or(0), piece.saturating_sub(first), shard.pieces);
    reader.packed_bytes().unwrap_or_else(by_piece).min(unit.packed_bytes)
}

/// The passes that read a merged stream.
struct Sinks {
    sinks: Vec<Sink>,
    /// Whether records have been fed to them.
    is_used: bool,
}

enum Sink {
    /// Takes the stream as it comes.
    Stream(Box<dyn DynPass>),
    /// Has a fork for each shard seen so far.
    Shards { seed: Box<dyn DynPass>, forks: Vec<Option<Box<dyn DynPass>>> },
}

impl Sinks {
    /// Prepares the sinks for a read. After an earlier read, forks of `seeds` replace the passes that read the stream.
    fn begin(&mut self, seeds: &[Box<dyn DynPass>], first: &Shard) {
        let is_again = std::mem::replace(&mut self.is_used, true);
        if !is_again {
            return;
        }
        for (sink, seed) in self.sinks.iter_mut().zip(seeds) {
            match sink {
                Sink::Stream(pass) => *pass = seed.fork(first),
                Sink::Shards { forks, .. } => forks.iter_mut().for_each(|fork| *fork = None),
            }
        }
    }

    fn new(planned: Vec<Planned>, n_shards: usize) -> Sinks {
        let sinks = planned.into_iter().map(|planned| match planned.reads.order {
            Order::Time => Sink::Stream(planned.pass),
            Order::Pieces | Order::Shards => {
                Sink::Shards { seed: planned.pass, forks: (0..n_shards).map(|_| None).collect() }
            }
        });
        Sinks { sinks: sinks.collect(), is_used: false }
    }

    fn feed(&mut self, shards: &[Shard], batch: &Batch) -> Result<()> {
        let shard = batch.span.shard as usize;
        for sink in &mut self.sinks {
            match sink {
                Sink::Stream(pass) => pass.consume(batch)?,
                Sink::Shards { seed, forks } => {
                    forks[shard].get_or_insert_with(|| seed.fork(&shards[shard])).consume(batch)?;
                }
            }
        }
        Ok(())
    }

    /// Feeds batches of cores that ran side by side; passes that do not need the stream see each core alone.
    fn feed_in_step(&mut self, shards: &[Shard], batches: &[Batch]) -> Result<()> {
        for sink in &mut self.sinks {
            match sink {
                Sink::Stream(pass) => pass.consume_in_step(batches)?,
                Sink::Shards { seed, forks } => {
                    for batch in batches {
                        let shard = batch.span.shard as usize;
                        forks[shard].get_or_insert_with(|| seed.fork(&shards[shard])).consume(batch)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// True if no pass wants more records. For passes with a fork for each shard this is unknown, as further shards may come.
    fn have_enough(&self) -> bool {
        let has_enough = |sink: &Sink| matches!(sink, Sink::Stream(pass) if pass.has_enough());
        !self.sinks.is_empty() && self.sinks.iter().all(has_enough)
    }

    /// The pass of each sink; forks are merged in the order of the shards.
    fn into_passes(self) -> Result<Vec<Box<dyn DynPass>>> {
        let passes = self.sinks.into_iter().map(|sink| match sink {
            Sink::Stream(pass) => Ok(pass),
            Sink::Shards { seed, forks } => {
                let mut forks = forks.into_iter().flatten();
                let mut merged = forks.next().unwrap_or(seed);
                forks.try_for_each(|later| merged.merge(later))?;
                Ok(merged)
            }
        });
        passes.collect()
    }
}
