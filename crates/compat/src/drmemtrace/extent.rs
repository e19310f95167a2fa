//! The part of the trace that the launcher's skips and limits select.
//!
//! Instructions are skipped and counted in each thread, even if threads are shown interleaved (spec 7.4). Records are
//! counted along each stream that the launcher reads: all threads together if any of the tools needs them interleaved,
//! otherwise each thread. (In the launcher it is each of its workers, so its result depends on `-jobs`; with one worker per
//! thread, both are the same.) If threads are scheduled onto cores, records are counted per core, or over all cores in turn
//! if one worker simulates all of them.

use super::args::Request;
use quipu::engine::{Merge, Watch, WindowOf, part_of_rounds};
use quipu::model::{Error, Result, Rounds, Scan, Shard, Trace, Window};

/// The part of the trace to read.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) window: Window,
    pub(super) window_of: WindowOf,
    /// Most records to read, from the start of the window.
    pub(super) limit: Option<u64>,
    /// Whether `limit` applies to each thread or core, or to all of them in sequence.
    pub(super) limit_of: WindowOf,
    /// Whether threads are scheduled onto cores.
    pub(super) is_scheduled: bool,
}

impl Extent {
    /// The part that the request selects.
    ///
    /// # Errors
    /// `Unsupported` for combinations of options that the launcher rejects or ignores; `Missing` where the launcher would
    /// not start because a thread is shorter than the part to skip in each.
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

    /// Most records to read; `u64::MAX` without a limit.
    pub(super) fn most_records(&self) -> u64 {
        self.limit.unwrap_or(u64::MAX)
    }

    /// Whether the skipped part is determined per thread, before threads are scheduled onto cores.
    pub(super) fn is_of_threads(&self) -> bool {
        matches!(self.window, Window::Instrs(_) | Window::Clock(_))
    }

    /// Whether the whole trace is read.
    pub(super) fn is_whole(&self) -> bool {
        self.window == Window::All && self.limit.is_none()
    }

    /// The same part of each shard, as options of the tool `check`; empty for the whole trace.
    ///
    /// # Errors
    /// `Unsupported` for a part of a sequence of several threads.
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

    /// The selected part of cores that run side by side.
    ///
    /// # Errors
    /// `Unsupported` unless threads are scheduled onto cores.
    pub(super) fn rounds<'t>(&self, trace: &'t dyn Trace, scan: Scan) -> Result<Box<dyn Rounds + 't>> {
        self.rounds_of(trace, scan)?
            .ok_or_else(|| Error::unsupported("these threads are not scheduled onto cores"))
    }

    /// The same; `None` if shards are read independently.
    pub(super) fn rounds_of<'t>(
        &self,
        trace: &'t dyn Trace,
        scan: Scan,
    ) -> Result<Option<Box<dyn Rounds + 't>>> {
        let most = (self.most_records(), self.limit_of);
        part_of_rounds(trace, scan, (&self.window, self.window_of), most)
    }

    /// A merged reader of the part, up to the limit of records.
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

    /// A merged reader of the part, in the trace's own order.
    pub(super) fn merge<'t>(&self, trace: &'t dyn Trace, scan: Scan, watch: &Watch) -> Result<Merge<'t>> {
        let scan = Scan { window: self.window.clone(), ..scan };
        match self.window_of {
            WindowOf::Sequence => Merge::new(trace, &scan, watch),
            WindowOf::EachShard => Merge::of_each_shard(trace, &scan),
        }
    }
}

/// Checks that a shard has an instruction after the first `n`.
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
