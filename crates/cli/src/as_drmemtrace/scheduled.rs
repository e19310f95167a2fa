//! `basic_counts` of threads that a scheduler puts onto cores.
//!
//! A scheduler hands out no entries, which is what is counted. So its schedule is written down first, a stretch for each
//! time that a core turns to a thread, and the entries are read again in that arrangement.

use crate::Common;
use crate::screen::Screen;
use crate::session;
use quipu::drmemtrace::schedule::Stretch;
use quipu::drmemtrace::tools::counts::{Counts, CountsReport, PartReport};
use quipu::drmemtrace::trace::DrmemTrace;
use quipu::engine::plan;
use quipu::model::lens::ThreadEvent;
use quipu::model::{Args, Columns, Error, ErrorKind, Result, Scan, ShardId, ThreadId, Trace};
use std::collections::{BTreeMap, HashMap};

/// What a scheduler did with a trace.
pub(super) struct Cores {
    /// The trace in the scheduler's arrangement.
    trace: Box<dyn Trace>,
    /// How often each core rested: idle and wait records.
    rests: Vec<[u64; 2]>,
}

impl Cores {
    /// Lets the scheduler of `dispatched` go through all of `trace`.
    ///
    /// # Errors
    /// What reading says; `Unsupported` for a trace of another format.
    pub(super) fn of(trace: &dyn Trace, dispatched: Box<dyn Trace>) -> Result<Cores> {
        let of_format = trace.as_any().and_then(|trace| trace.downcast_ref::<DrmemTrace>());
        let threads = of_format.ok_or_else(|| {
            Error::unsupported("only a whole drmemtrace trace has entries to count by scheduled core")
        })?;
        let scan = Scan::new(ShardId(0)).columns(Columns::INSTRS | Columns::THREADS);
        let mut rounds = dispatched
            .rounds(&scan)?
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a scheduler has no rounds"))?;
        let n_cores = dispatched.shards().len();
        let mut rests = vec![[0; 2]; n_cores];
        let mut running: Vec<Option<ThreadId>> = vec![None; n_cores];
        let mut done: HashMap<ThreadId, u64> = HashMap::new();
        let mut stretches = Vec::new();
        let mut round = 0;
        while let Some(batches) = rounds.read()? {
            for batch in batches {
                let (core, thread) = (batch.span.shard as usize, batch.span.thread);
                for what in &batch.threads.what {
                    match what {
                        ThreadEvent::Idle => rests[core][0] += 1,
                        ThreadEvent::Wait => rests[core][1] += 1,
                        _ => {}
                    }
                }
                if batch.span.records == 0 || thread.is_idle() {
                    continue;
                }
                let instrs = done.entry(thread).or_default();
                if running[core] != Some(thread) {
                    running[core] = Some(thread);
                    stretches.push(Stretch::new(thread.packed(), round, core as u64, *instrs));
                }
                *instrs += u64::from(batch.span.instrs);
            }
            round += 1;
        }
        Ok(Cores { trace: threads.arranged(stretches)?, rests })
    }

    /// The counts of all cores, their rests included.
    pub(super) fn counts(&self, common: &Common, screen: &Screen) -> crate::screen::Result<CountsReport> {
        let tool = quipu::tool("counts", self.trace.meta().format)?;
        let planned = vec![plan(tool, &Args::default(), &*self.trace)?];
        let outcome = session::analyse(&*self.trace, planned, &session::Extent::default(), common, screen)?;
        let report =
            outcome.reports.first().and_then(|report| report.as_any().downcast_ref::<CountsReport>());
        let mut report = report
            .cloned()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "tool `counts` left another report"))?;
        let mut parts: BTreeMap<u64, PartReport> =
            report.shards.drain(..).map(|part| (part.core.unwrap_or_default(), part)).collect();
        for (core, [idles, waits]) in self.rests.iter().enumerate() {
            let part = parts.entry(core as u64).or_insert_with(|| PartReport {
                name: format!("core {core}"),
                shard: core as u32, // At most as many as a scheduler has.
                thread: None,
                core: Some(core as u64),
                counts: Counts::default(),
                executed_instructions: None,
                windows: Vec::new(),
            });
            for counts in [&mut part.counts, &mut report.total] {
                counts.idle_markers += idles;
                counts.wait_markers += waits;
            }
        }
        report.shards = parts.into_values().collect();
        Ok(report)
    }
}
