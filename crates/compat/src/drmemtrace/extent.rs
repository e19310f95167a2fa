//! Which part of the trace the launcher's skips and limits mean.
//!
//! Instructions are skipped and counted in each thread, also where threads are shown interleaved (spec 7.4). Records are
//! counted along what the launcher reads in one go: all threads if any of the tools wants them interleaved, else each
//! thread. (The launcher says "each of its workers", so that its answer depends on `-jobs`; with a worker for each thread
//! both are the same.) Of threads that are scheduled onto cores it is the cores whose records count: each core's, or those
//! of all cores in turn if one worker plays them all.

use super::args::Request;
use quipu::engine::{Merge, Watch, WindowOf, part_of_rounds};
use quipu::model::{Error, Result, Rounds, Scan, Shard, Trace, Window};

/// The part of the trace to read.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) window: Window,
    pub(super) window_of: WindowOf,
    /// How many records to read at most, from the start of the window on.
    pub(super) limit: Option<u64>,
    /// Whether these are records of each thread or core, or of all in turn.
    pub(super) limit_of: WindowOf,
    /// Whether threads are scheduled onto cores.
    pub(super) is_scheduled: bool,
}

impl Extent {
    /// What the request asks for.
    ///
    /// # Errors
    /// `Unsupported` for options that the launcher does not take together either, or ignores; `Missing` where it does not
    /// start, since a thread is shorter than what is to be skipped in each.
    pub(super) fn of(request: &Request, trace: &dyn Trace, is_scheduled: bool) -> Result<Extent> {
        let until = |start: u64, n: Option<u64>| n.map_or(u64::MAX, |n| start.saturating_add(n));
        let is_lone = trace.shards().len() <= 1 && !is_scheduled;
        let counts_instrs = request.skip_instrs > 0 || request.instrs.is_some();
        if counts_instrs && request.skip_records > 0 {
            return Err(Error::unsupported("`-skip_records` does not go with `-exit_after_instrs`"));
        }
        if counts_instrs && request.skip_to_timestamp > 0 {
            return Err(Error::unsupported(
                "`-skip_to_timestamp` does not go with `-exit_after_instrs`, for which drmemtrace ignores it",
            ));
        }
        let of_each = if is_lone { WindowOf::Sequence } else { WindowOf::EachShard };
        let limit_of = if request.is_one_stream() { WindowOf::Sequence } else { WindowOf::EachShard };
        let extent = if counts_instrs {
            let end = until(request.skip_instrs, request.instrs);
            if !is_lone && request.skip_instrs > 0 {
                trace.shards().iter().try_for_each(|shard| reaches(trace, shard, request.skip_instrs))?;
            }
            let window = Window::Instrs(request.skip_instrs..end);
            Extent { window, window_of: of_each, limit: request.records, limit_of, is_scheduled }
        } else if request.skip_to_timestamp > 0 {
            let window = Window::Clock(request.skip_to_timestamp..u64::MAX);
            Extent { window, window_of: of_each, limit: request.records, limit_of, is_scheduled }
        } else if request.skip_records > 0 || request.records.is_some() {
            let window = Window::Records(request.skip_records..until(request.skip_records, request.records));
            let window_of = if request.is_one_stream() { WindowOf::Sequence } else { of_each };
            Extent { window, window_of, limit: None, limit_of, is_scheduled }
        } else {
            Extent { window: Window::All, window_of: WindowOf::Sequence, limit: None, limit_of, is_scheduled }
        };
        Ok(extent)
    }

    /// How many records are read at most.
    pub(super) fn most_records(&self) -> u64 {
        self.limit.unwrap_or(u64::MAX)
    }

    /// True if what is left out is known thread by thread, before threads are scheduled onto cores.
    pub(super) fn is_of_threads(&self) -> bool {
        matches!(self.window, Window::Instrs(_) | Window::Clock(_))
    }

    /// True if all of the trace is read.
    pub(super) fn is_whole(&self) -> bool {
        self.window == Window::All && self.limit.is_none()
    }

    /// The same part of each shard as options of the tool `check`; none for all of the trace.
    ///
    /// # Errors
    /// `Unsupported` for a part of what several threads make together.
    pub(super) fn part_options(&self, trace: &dyn Trace) -> Result<Vec<(&'static str, u64)>> {
        let is_scheduled = self.is_scheduled;
        let records_of = if self.limit.is_some() { self.limit_of } else { self.window_of };
        if !self.is_whole() && records_of == WindowOf::Sequence && trace.shards().len() > 1 {
            return Err(Error::unsupported(
                "invariant_checker checks each thread or core by itself, and this skip or limit is of all of them together",
            ));
        }
        if is_scheduled && self.is_of_threads() {
            return Ok(self.limit.map(|limit| ("take-records", limit)).into_iter().collect());
        }
        let (skip, take, range) = match &self.window {
            Window::All => ("skip-records", "take-records", &(0..u64::MAX)),
            Window::Records(range) => ("skip-records", "take-records", range),
            Window::Instrs(range) => ("skip-instrs", "take-instrs", range),
            Window::Clock(range) => ("from-clock", "take-records", &(range.start..u64::MAX)),
        };
        let mut options = Vec::new();
        if range.start > 0 {
            options.push((skip, range.start));
        }
        if range.end < u64::MAX {
            options.push((take, range.end - range.start));
        }
        options.extend(self.limit.map(|limit| ("take-records", limit)));
        Ok(options)
    }

    /// The part of what cores do side by side.
    ///
    /// # Errors
    /// `Unsupported` unless threads are scheduled onto cores.
    pub(super) fn rounds<'t>(&self, trace: &'t dyn Trace, scan: Scan) -> Result<Box<dyn Rounds + 't>> {
        self.rounds_of(trace, scan)?
            .ok_or_else(|| Error::unsupported("these threads are not scheduled onto cores"))
    }

    /// The same; `None` if shards are read by themselves.
    pub(super) fn rounds_of<'t>(
        &self,
        trace: &'t dyn Trace,
        scan: Scan,
    ) -> Result<Option<Box<dyn Rounds + 't>>> {
        let most = (self.most_records(), self.limit_of);
        part_of_rounds(trace, scan, (&self.window, self.window_of), most)
    }

    /// The same up to the limit of records.
    pub(super) fn limited_merge<'t>(
        &self,
        trace: &'t dyn Trace,
        scan: Scan,
        watch: &Watch,
    ) -> Result<Merge<'t>> {
        match (self.limit, self.window_of, self.limit_of) {
            (Some(most), WindowOf::EachShard, WindowOf::Sequence) => {
                let scan = Scan { window: self.window.clone(), ..scan };
                Merge::first_of_each_shard(trace, &scan, most, watch)
            }
            _ => self.merge(trace, Scan { most: self.most_records(), ..scan }, watch),
        }
    }

    /// The records of the part, in the trace's own order.
    pub(super) fn merge<'t>(&self, trace: &'t dyn Trace, scan: Scan, watch: &Watch) -> Result<Merge<'t>> {
        let scan = Scan { window: self.window.clone(), ..scan };
        match self.window_of {
            WindowOf::Sequence => Merge::new(trace, &scan, watch),
            WindowOf::EachShard => Merge::of_each_shard(trace, &scan),
        }
    }
}

/// Makes sure that a shard has an instruction after the first `n`.
fn reaches(trace: &dyn Trace, shard: &Shard, n: u64) -> Result<()> {
    let window = Window::Instrs(n..n.saturating_add(1));
    let mut reader = trace.scan(&Scan { window, ..Scan::new(shard.id) })?;
    while let Some(batch) = reader.read()? {
        if batch.span.instrs > 0 {
            return Ok(());
        }
    }
    let name = shard.thread.map_or_else(|| shard.name.clone(), |thread| format!("thread {thread}"));
    Err(Error::missing(format!("{name} has no instruction after the first `{n}`, which are to be skipped"))
        .hint(
            "drmemtrace skips instructions in each thread; -only_threads chooses those that are long enough",
        ))
}
