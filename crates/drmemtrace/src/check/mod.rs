//! `check`: every rule that a trace must follow, and where it does not.
//!
//! The whole trace is read, whatever is found. A violation has a rule with a stable name and severity (docs/checks.md lists
//! them), and a place: file, member, byte offset, record and instruction ordinal. The first few violations of each rule are
//! listed individually, the rest are counted.
//!
//! The pass walks raw entries. If the trace has encodings, each distinct instruction is decoded once, and its possible
//! reads, writes and successors are compared with the entries that follow. Schedule files beside the trace are compared with
//! it at the end. Memory grows with the number of distinct instructions (about 100 bytes each) and, if there are schedule
//! files, of processor markers (32 bytes each, up to four million).

mod calls;
mod checker;
mod chunks;
mod codes;
mod data;
mod facts;
mod flow;
mod headers;
mod kernel;
mod log;
mod markers;
mod range;
mod report;
mod rules;
mod schedules;
mod signals;
mod telling;
mod time;
mod turns;

pub use log::Violation;
pub use report::CheckReport;
pub use rules::RULES;

use crate::cores::CoreTrace;
use crate::record::FileType;
use crate::schedule::Recording;
use crate::schedule::compare::Files;
use crate::trace::{DrmemTrace, File};
use checker::{About, Checker};
use log::{Log, Wanted};
use quipu_model::OptionSpec;
use quipu_model::ThreadId;
use quipu_model::check::{self, WantedRules};
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Finding, Options, Pass, Report, Result, Shard, ShardKind, Tool, ToolInfo, Trace,
};
use range::Part;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The tool, as registered in the list of tools.
pub static CHECK: CheckTool = CheckTool;

/// The type of [`CHECK`].
#[derive(Debug)]
pub struct CheckTool;

static CHECK_INFO: ToolInfo = check::info("drmemtrace", Columns::RAW, Columns::NONE, &OPTIONS);

/// The options that all tools called `check` have, and those that select a part.
const OPTIONS: [OptionSpec; 9] = {
    let [max, only, without, decode] = check::options("skip the rules that need encodings, which is faster");
    let [skip_instrs, skip_records, from_clock, take_instrs, take_records] = range::OPTIONS;
    [max, only, without, decode, skip_instrs, skip_records, from_clock, take_instrs, take_records]
};

impl Tool for CheckTool {
    fn result(&self) -> Shape {
        CheckReport::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &CHECK_INFO
    }

    /// A part has no header, no exit, and calls without their returns.
    fn wants_whole_traces(&self) -> bool {
        true
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let wanted = WantedRules::of(options, RULES)?;
        let native = trace.as_any().and_then(|trace| trace.downcast_ref::<DrmemTrace>());
        // Arranged cores hold chunks of many files, in pieces, with threads that start in the middle.
        let has_chunks = native.is_some();
        let wanted = Wanted {
            rules: RULES
                .iter()
                .map(|rule| wanted.wants(rule.name) && (has_chunks || !rules::is_of_chunks(rule.name)))
                .collect(),
            max_per_rule: options.count(&check::MAX_PER_RULE),
        };
        let decode = !options.flag(&check::NO_DECODE);
        let part = Part::of(options);
        // Some threads of a trace, or a part of them, cannot be compared with the schedule of all.
        let files =
            native.filter(|trace| trace.is_whole() && part.is_none()).map(Files::beside).unwrap_or_default();
        let cut_files = if native.is_some() { None } else { files_of(trace) }.unwrap_or(&[]);
        let (cut, of_threads) = (cut_files.first(), Arc::new(headers_of_threads(cut_files)));
        let abouts = trace.shards().iter().enumerate().map(|(i, shard)| {
            let file = native.and_then(|trace| trace.files().get(i));
            // Values of headers that belong to other cores, or lie before the beginning.
            let header = file.or(cut).map(|file| &file.header);
            let members = file.map_or_else(Vec::new, |file| {
                file.container.members().iter().map(|member| member.name.clone()).collect()
            });
            Arc::new(About {
                id: shard.id.0,
                name: shard.name.clone(),
                kind: shard.kind,
                thread: shard.thread.map(ThreadId::packed),
                stated: file.and_then(|file| file.header.stated),
                version: header.map_or(0, |header| header.version),
                filetype: header.map(|header| header.filetype).unwrap_or_default(),
                chunk_instrs: header.map_or(0, |header| header.chunk_instrs),
                is_cut: cut.is_some(),
                of_threads: Arc::clone(&of_threads),
                first_thread: file.map_or(shard.thread.map_or(0, ThreadId::packed), |file| file.header.tid),
                is_archive: file.is_some_and(|file| file.container.codec() == quipu_source::Codec::Zip),
                members,
                entry_bytes: file.map_or(crate::record::ENTRY_BYTES, |file| file.entry_bytes) as u64,
                decode,
                schedule: !files.is_empty(),
                part,
                file: file.cloned(),
            })
        });
        Ok(Box::new(CheckPass {
            abouts: abouts.collect(),
            at_work: None,
            log: Log::new(wanted),
            opening: trace.meta().findings.as_slice().into(),
            records: 0,
            instrs: 0,
            recordings: Vec::new(),
            is_too_long: false,
            files: Arc::new(files),
        }))
    }
}

/// The files that the records of a trace come from, however it arranges them.
fn files_of(trace: &dyn Trace) -> Option<&[Arc<File>]> {
    let own = trace.as_any().and_then(|trace| {
        let cores = trace.downcast_ref::<CoreTrace>().map(CoreTrace::files);
        trace.downcast_ref::<DrmemTrace>().map(DrmemTrace::files).or(cores)
    });
    own.or_else(|| files_of(trace.origin()?))
}

/// Version and file type of the thread of each file, if they differ: on cores, a thread's header may be on another core.
fn headers_of_threads(files: &[Arc<File>]) -> FxHashMap<u64, (u64, FileType)> {
    let of = |file: &Arc<File>| {
        let filetype = FileType(file.header.filetype.0 | FileType::CORE_SHARDED.0);
        (file.header.version, filetype)
    };
    let is_one = files.windows(2).all(|pair| of(&pair[0]) == of(&pair[1]));
    files.iter().filter(|_| !is_one).map(|file| (file.header.tid, of(file))).collect()
}

/// The pass that checks a trace.
struct CheckPass {
    abouts: Vec<Arc<About>>,
    /// The checker of the current shard.
    at_work: Option<Box<Checker>>,
    log: Log,
    /// Findings from opening the trace. Every fork carries them; the pass that finishes reports them once.
    opening: Arc<[Finding]>,
    records: u64,
    instrs: u64,
    /// The schedule recordings of the files so far.
    recordings: Vec<Recording>,
    is_too_long: bool,
    files: Arc<Files>,
}

impl CheckPass {
    /// Ends the current shard and keeps its violations.
    fn settle(&mut self) {
        let Some(mut checker) = self.at_work.take() else { return };
        // Records after the part are unknown.
        if !checker.progress.is_over {
            checker.end_trace();
        }
        self.records += checker.records.saturating_sub(checker.lost.0);
        self.instrs += checker.instrs.saturating_sub(checker.lost.1);
        if checker.about.kind == ShardKind::Thread && checker.about.schedule {
            self.is_too_long |= checker.time.is_too_long;
            let points = std::mem::take(&mut checker.time.points);
            let thread = checker.about.thread.unwrap_or(0);
            self.recordings.push(Recording::of_thread(thread, points, checker.instrs));
        }
        self.log.append(checker.into_log());
    }
}

impl Pass for CheckPass {
    fn fork(&self, shard: &Shard) -> CheckPass {
        let about = self.abouts.iter().find(|about| about.id == shard.id.0).cloned();
        let about = about.unwrap_or_else(|| {
            Arc::new(About { id: shard.id.0, name: shard.name.clone(), ..About::default() })
        });
        CheckPass {
            abouts: Vec::new(),
            at_work: Some(Box::new(Checker::new(about, self.log.fork()))),
            log: self.log.fork(),
            opening: self.opening.clone(),
            records: 0,
            instrs: 0,
            recordings: Vec::new(),
            is_too_long: false,
            files: self.files.clone(),
        }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        if let Some(checker) = &mut self.at_work {
            checker.consume(batch);
        }
        Ok(())
    }

    fn has_enough(&self) -> bool {
        self.at_work.as_ref().is_some_and(|checker| checker.progress.is_over)
    }

    fn merge(&mut self, mut later: CheckPass) -> Result<()> {
        self.settle();
        later.settle();
        self.records += later.records;
        self.instrs += later.instrs;
        self.log.append(later.log);
        self.is_too_long |= later.is_too_long;
        self.recordings.append(&mut later.recordings);
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        self.settle();
        let recordings = std::mem::take(&mut self.recordings);
        let mut log = self.log.fork();
        self.opening.iter().for_each(|finding| log.take(finding, 0, 0));
        log.append(self.log);
        schedules::judge(&self.files, recordings, self.is_too_long, &mut log);
        Ok(Box::new(CheckReport::new(log, self.records, self.instrs)))
    }
}
