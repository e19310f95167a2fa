//! `schedule-files`: the schedule files beside a trace, set against the trace.
//!
//! A trace of threads may come with `serial_schedule.bin` and `cpu_schedule.bin.zip`, which say which thread ran on which
//! processor from which instruction on. This tells of each file, and of each processor's member, how many *stretches* it
//! has, whether it is *full* or *collapsed* (neighbours of one thread taken together), and where it says otherwise than the
//! trace's own processor markers. Differences are those of the rules `serial-schedule-…` and `cpu-schedule-…` of
//! `quipu check`, and are errors. Files of cores have no such companions, and empty files are as good as none.
//!
//! `quipu analyze schedule` runs this as well where whole threads are read and such a file is there. Memory grows with the number of
//! processor markers, 32 bytes each; with more than four million of them nothing is compared.
//!
//! * **Needs** the bytes of drmemtrace traces.
//! * **JSON** [`ScheduleFiles`].

use crate::record::Entry;
use crate::schedule::compare::{Files, MAX_POINTS, Met};
use crate::schedule::{Recorder, Recording};
use crate::trace::DrmemTrace;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::pass::{Detail, Needs};
use quipu_model::{
    Args, Batch, Columns, DynPass, Finding, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace,
};
use serde::Serialize;
use std::any::Any;
use std::sync::Arc;

/// The tool, as lists name it.
pub static SCHEDULE_FILES: ScheduleFilesTool = ScheduleFilesTool;

/// The type of [`SCHEDULE_FILES`].
#[derive(Debug)]
pub struct ScheduleFilesTool;

static INFO: ToolInfo = ToolInfo {
    name: "schedule-files",
    summary: "schedule files beside the trace, set against it",
    needs: Needs { format: Some("drmemtrace"), required: Columns::RAW, optional: Columns::NONE },
    order: Order::Shards,
    options: &[],
    in_report: false,
};

/// Differences listed one by one; all are counted.
const N_LISTED: usize = 8;

impl Tool for ScheduleFilesTool {
    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    /// A part of a thread has a part of its stretches.
    fn wants_whole_traces(&self) -> bool {
        true
    }

    fn accompanies(&self, tool: &str, trace: &dyn Trace) -> bool {
        tool == "schedule" && native(trace).is_some_and(|trace| !Files::beside(trace).is_empty())
    }

    fn build(&self, _: &Args, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        // A trace of some of its threads cannot be compared with the schedule of all.
        let files = native(trace).map(Files::beside).unwrap_or_default();
        Ok(Box::new(Recorded { files: Arc::new(files), done: Vec::new(), at_work: None, n_points: 0 }))
    }
}

fn native(trace: &dyn Trace) -> Option<&DrmemTrace> {
    let trace = trace.as_any()?.downcast_ref::<DrmemTrace>()?;
    trace.is_whole().then_some(trace)
}

/// What the threads read so far say.
struct Recorded {
    files: Arc<Files>,
    done: Vec<Recording>,
    at_work: Option<Recorder>,
    /// Points of all that is done; recordings are dropped once there are too many.
    n_points: usize,
}

impl Recorded {
    fn settle(&mut self) {
        if let Some(recorder) = self.at_work.take() {
            let recording = recorder.finish();
            self.n_points += recording.len();
            self.done.push(recording);
        }
        if self.n_points > MAX_POINTS {
            self.done.clear();
        }
    }
}

impl Pass for Recorded {
    fn fork(&self, _: &Shard) -> Recorded {
        let at_work = (!self.files.is_empty()).then(Recorder::default);
        Recorded { files: self.files.clone(), done: Vec::new(), at_work, n_points: 0 }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        if let Some(recorder) = &mut self.at_work {
            recorder.take(Entry::slice(batch.raw()).0);
        }
        Ok(())
    }

    fn merge(&mut self, mut later: Recorded) -> Result<()> {
        self.settle();
        later.settle();
        self.n_points += later.n_points;
        self.done.append(&mut later.done);
        self.settle();
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        self.settle();
        let is_too_long = self.n_points > MAX_POINTS;
        let mut report =
            ScheduleFiles { members: Vec::new(), differing: 0, differences: Vec::new(), is_too_long };
        if !is_too_long {
            self.files.compare(self.done, |which, place, met| {
                let finding = met.finding(which, place);
                if let Met::Member { in_file, full, collapsed, form } = met {
                    report.members.push(ScheduleMember {
                        file: place.file.clone().unwrap_or_default(),
                        member: place.member.clone(),
                        stretches: in_file as u64,
                        in_trace: full as u64,
                        in_trace_collapsed: collapsed as u64,
                        form: form.map(|form| form.name()),
                        differing: 0,
                    });
                } else if let Some(last) = report.members.last_mut() {
                    last.differing += 1;
                }
                report.differing += u64::from(finding.is_some());
                let room = report.differences.len() < N_LISTED;
                report.differences.extend(finding.filter(|_| room));
            });
        }
        Ok(Box::new(report))
    }
}

/// What the schedule files say, and whether the trace says the same.
///
/// JSON: `members` (list of [`ScheduleMember`]), `differing`, `differences` (the first eight; each with `rule`, `file`, `member`,
/// `offset` and `message`), `is_too_long`.
#[derive(Clone, Debug)]
pub struct ScheduleFiles {
    /// The serial file, and each member of the other one.
    pub members: Vec<ScheduleMember>,
    /// How many differences there are.
    pub differing: u64,
    /// The first of them.
    pub differences: Vec<Finding>,
    /// True if the trace has too many processor markers to compare.
    pub is_too_long: bool,
}

/// One file, or one processor's member of one.
///
/// JSON: `file`, `member` (null in a file that is no archive), `stretches`, `in_trace`, `in_trace_collapsed`, `form` (`full`,
/// `collapsed`, or null if it has as many as neither), `differing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScheduleMember {
    /// Name of the file.
    pub file: String,
    /// Name of the member: the processor's number.
    pub member: Option<String>,
    /// How many stretches it has.
    pub stretches: u64,
    /// How many the trace tells.
    pub in_trace: u64,
    /// The same with neighbours of one thread taken together.
    pub in_trace_collapsed: u64,
    /// Which of these two it has, if it has as many.
    pub form: Option<&'static str>,
    /// How many of its stretches the trace has not.
    pub differing: u64,
}

impl Report for ScheduleFiles {
    fn json(&self) -> serde_json::Value {
        let difference = |finding: &Finding| {
            serde_json::json!({
                "rule": finding.rule,
                "file": finding.place.file,
                "member": finding.place.member,
                "offset": finding.place.offset,
                "message": finding.message,
            })
        };
        serde_json::json!({
            "members": self.members,
            "differing": self.differing,
            "differences": self.differences.iter().map(difference).collect::<Vec<_>>(),
            "is_too_long": self.is_too_long,
        })
    }

    fn document(&self, _: Detail) -> Document {
        let document = Document::new("Schedule files");
        if self.is_too_long {
            return document.with(Block::Note("too many processor markers to compare".to_owned()));
        }
        if self.members.is_empty() {
            return document.with(Block::Note("no schedule file lies beside the trace".to_owned()));
        }
        let row = |member: &ScheduleMember| {
            let verdict = match (member.form, member.differing) {
                (None, _) => format!("the trace has {}", member.in_trace),
                (Some(_), 0) => "as the trace".to_owned(),
                (Some(_), n) => format!("{n} differ"),
            };
            vec![
                Cell::Text(member.file.clone()),
                Cell::Text(member.member.clone().unwrap_or_default()),
                Cell::Count(member.stretches),
                Cell::from(member.form.unwrap_or("")),
                Cell::Text(verdict),
            ]
        };
        let grid = |title: &str, head: &[&str], rows, more| {
            let head = head.iter().map(|name| (*name).to_owned()).collect();
            Block::Grid(Grid { title: title.to_owned(), head, rows, more })
        };
        let rows = self.members.iter().map(row).collect();
        let document =
            document.with(grid("", &["file", "processor", "stretches", "form", "compared"], rows, 0));
        if self.differences.is_empty() {
            return document;
        }
        let row = |finding: &Finding| {
            vec![
                Cell::from(finding.rule),
                Cell::Text(finding.place.to_string()),
                Cell::Text(finding.message.clone()),
            ]
        };
        let rows = self.differences.iter().map(row).collect();
        let more = self.differing - self.differences.len() as u64;
        document.with(grid("differences", &["rule", "place", "what"], rows, more))
    }

    fn findings(&self) -> Vec<Finding> {
        self.differences.clone()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
