//! `schedule-files`: compares the schedule files beside a trace with the trace.
//!
//! A trace of threads may come with `serial_schedule.bin` and `cpu_schedule.bin.zip`, which record which thread ran on which
//! processor from which instruction on. For each file, and each processor's member, the tool reports the number of *time
//! slices*, whether it is *full* or *collapsed* (adjacent slices of one thread joined), and where it differs from the trace's
//! own processor markers. Differences are reported by the rules `serial-schedule-…` and `cpu-schedule-…` of `quipu check`, and
//! are errors; so is an unreadable file. If nothing is compared, the tool gives the reason: there is no file, it is *empty*
//! (which means the same), it is *unreadable*, the trace has *files of cores* (whose schedule comes from a scheduler), or only
//! a part of one trace is read.
//!
//! `quipu analyze schedule` also runs this tool if whole threads are read and such a file exists. Memory grows with the
//! number of processor markers, 32 bytes each; with more than four million of them, nothing is compared.
//!
//! * **Needs** the bytes of drmemtrace traces.

use crate::record::Entry;
use crate::schedule::compare::{Files, Met};
use crate::schedule::{MAX_POINTS, Recorder, Recording};
use crate::seams::Counter;
use crate::trace::{DrmemTrace, File};
use crate::write::Part;
use quipu_model::ReportBody;
use quipu_model::Text;
use quipu_model::batch::Span;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::pass::{Detail, Needs};
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Finding, Options, Order, Pass, Report, Result, Severity, Shard, ShardKind, Tool,
    ToolInfo, Trace,
};
use std::sync::Arc;

/// The tool, as registered in the list of tools.
pub static SCHEDULE_FILES: ScheduleFilesTool = ScheduleFilesTool;

/// The type of [`SCHEDULE_FILES`].
#[derive(Debug)]
pub struct ScheduleFilesTool;

static INFO: ToolInfo = ToolInfo {
    name: "schedule-files",
    summary: "compares the schedule files beside a trace with the trace",
    needs: Needs { format: Some("drmemtrace"), required: Columns::RAW, optional: Columns::NONE },
    order: Order::Shards,
    options: &[],
    in_report: false,
};

/// Number of differences that are listed individually; all are counted.
const N_LISTED: usize = 8;

impl Tool for ScheduleFilesTool {
    fn result(&self) -> Shape {
        ScheduleFiles::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    /// A part of a thread has only a part of its time slices.
    fn wants_whole_traces(&self) -> bool {
        true
    }

    fn accompanies(&self, tool: &str, trace: &dyn Trace) -> bool {
        let is_there = |files: Files| !files.is_empty() || !files.unreadable().is_empty();
        tool == "schedule" && native(trace).is_some_and(|trace| is_there(Files::beside(trace)))
    }

    fn build(&self, _: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let files = native(trace).map(Files::beside).unwrap_or_default();
        let missing = if files.is_empty() { Some(Missing::of(trace, &files)) } else { None };
        let threads = native(trace).map_or(&[][..], DrmemTrace::files).into();
        Ok(Box::new(Recorded::new(Arc::new(files), threads, missing)))
    }
}

/// The trace, if it can be compared: some of its threads cannot be compared with the schedule of all.
fn native(trace: &dyn Trace) -> Option<&DrmemTrace> {
    let trace = trace.as_any()?.downcast_ref::<DrmemTrace>()?;
    trace.is_whole().then_some(trace)
}

/// Reasons for comparing nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No file lies beside the trace.
    None,
    /// The file beside the trace is empty.
    Empty,
    /// The file beside the trace cannot be read.
    Unreadable,
    /// The trace has files of cores, or files that mix threads.
    Cores,
    /// Some threads or files are left out.
    SomeThreads,
    /// Several traces are read together.
    SeveralTraces,
}

impl Missing {
    /// The reason why a trace is not compared.
    fn of(trace: &dyn Trace, files: &Files) -> Missing {
        let Some(trace) = trace.as_any().and_then(|trace| trace.downcast_ref::<DrmemTrace>()) else {
            return Missing::None;
        };
        if trace.check_lone().is_err() {
            Missing::SeveralTraces
        } else if trace.serial_schedule().is_none() && trace.cpu_schedule().is_none() {
            Missing::None
        } else if !trace.is_whole() {
            Missing::SomeThreads
        } else if trace.shards().iter().any(|shard| shard.kind != ShardKind::Thread) {
            Missing::Cores
        } else if files.unreadable().is_empty() {
            Missing::Empty
        } else {
            Missing::Unreadable
        }
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Missing::None => "none",
            Missing::Empty => "empty",
            Missing::Unreadable => "unreadable",
            Missing::Cores => "cores",
            Missing::SomeThreads => "some-threads",
            Missing::SeveralTraces => "several-traces",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Missing::None => "no schedule file lies beside the trace",
            Missing::Empty => "the schedule files beside the trace are empty, which is as good as none",
            Missing::Unreadable => "not compared: the schedule files beside the trace cannot be read",
            Missing::Cores => "not compared: the schedule files are those of files of cores",
            Missing::SomeThreads => "not compared: only some threads are read, the schedule files are of all",
            Missing::SeveralTraces => "not compared: several traces are read together",
        }
    }
}

quipu_model::result_names!(Missing);

/// The recordings of the threads so far.
struct Recorded {
    files: Arc<Files>,
    /// The files of the trace, by shard.
    threads: Arc<[Arc<File>]>,
    missing: Option<Missing>,
    done: Vec<Recording>,
    at_work: Option<Recorder>,
    /// The current file, whose chunks are compared with the counts.
    counted: Option<(Arc<File>, Counter)>,
    /// Points of all finished recordings.
    n_points: usize,
    /// True if there are too many points; recordings are dropped.
    is_too_long: bool,
}

impl Recorded {
    fn new(files: Arc<Files>, threads: Arc<[Arc<File>]>, missing: Option<Missing>) -> Recorded {
        Recorded {
            files,
            threads,
            missing,
            done: Vec::new(),
            at_work: None,
            counted: None,
            n_points: 0,
            is_too_long: false,
        }
    }

    fn settle(&mut self) {
        if let Some(recorder) = self.at_work.take() {
            let recording = recorder.finish();
            self.n_points += recording.len();
            self.is_too_long |= recording.is_full();
            self.done.push(recording);
        }
        self.is_too_long |= self.n_points > MAX_POINTS;
        if self.is_too_long {
            self.done.clear();
        }
    }
}

impl Pass for Recorded {
    fn fork(&self, shard: &Shard) -> Recorded {
        let at_work = (!self.files.is_empty()).then(Recorder::default);
        let file = self.threads.get(shard.id.0 as usize);
        let counted = file.map(|file| (file.clone(), Counter::of(file)));
        let new = Recorded::new(self.files.clone(), self.threads.clone(), self.missing);
        Recorded { at_work, counted, ..new }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        let entries = Entry::slice(batch.raw()).0;
        if let Some(recorder) = &mut self.at_work {
            recorder.take(entries);
        }
        if let Some((file, counter)) = &mut self.counted {
            let is_after_damage = batch.findings.iter().any(|finding| finding.severity == Severity::Error);
            let Span { member, offset, .. } = batch.span;
            counter.take(&Part { entries, member, offset, is_after_damage }, file);
        }
        Ok(())
    }

    fn merge(&mut self, mut later: Recorded) -> Result<()> {
        self.settle();
        later.settle();
        self.n_points += later.n_points;
        self.is_too_long |= later.is_too_long;
        self.done.append(&mut later.done);
        self.settle();
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        self.settle();
        let mut report = ScheduleFiles {
            missing: self.missing,
            unreadable: self.files.unreadable().to_vec(),
            members: Vec::new(),
            differing: 0,
            differences: Vec::new(),
            is_too_long: self.is_too_long,
            findings: Vec::new(),
        };
        if !self.is_too_long {
            self.files.compare(self.done, |which, place, met| {
                let finding = met.finding(which, place);
                if let Met::Member { in_file, full, collapsed, form } = met {
                    report.members.push(ScheduleMember {
                        file: place.file.clone().unwrap_or_default(),
                        member: place.member.clone(),
                        slices: in_file as u64,
                        in_trace: full as u64,
                        in_trace_collapsed: collapsed as u64,
                        form: form.map(|form| form.name()),
                        differing: 0,
                    });
                } else if let Met::Stretch { .. } = met
                    && let Some(last) = report.members.last_mut()
                {
                    last.differing += 1;
                }
                report.differing += u64::from(finding.is_some());
                let room = report.findings.len() < N_LISTED;
                report.findings.extend(finding.filter(|_| room));
            });
        }
        report.differences = report.findings.iter().map(Difference::of).collect();
        Ok(Box::new(report))
    }
}

result! {
    /// Contents of the schedule files, and their differences from the trace.
    #[derive(Clone, Debug)]
    pub struct ScheduleFiles {
        pub missing: Option<Missing>, named("not_compared") =>
            "Reason why nothing was compared: `none` if there is no file, `empty`, `unreadable`, `cores`, \
             `some-threads`, `several-traces`.";
        pub unreadable: Vec<String> => "Files that cannot be read.";
        pub members: Vec<ScheduleMember> => "The serial file, and each member of the other file.";
        pub differing: u64 => "Number of differences.";
        pub differences: Vec<Difference> => "First eight differences.";
        pub is_too_long: bool => "Whether the trace has too many processor markers to compare.";
    } beside {
        pub findings: Vec<Finding> => "Differences as findings.";
    }
}

result! {
    /// A place where a file and the trace differ.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Difference {
        pub rule: Text => "Name of the rule.";
        pub file: Option<String> => "Name of the schedule file.";
        pub member: Option<String> => "Member of the file.";
        pub offset: Option<u64> => "Byte offset in the file or member.";
        pub message: String => "Expected and actual content, in words.";
    }
}

impl Difference {
    fn of(finding: &Finding) -> Difference {
        let Finding { rule, place, message, .. } = finding;
        let (file, member) = (place.file.clone(), place.member.clone());
        Difference { rule: rule.clone(), file, member, offset: place.offset, message: message.clone() }
    }
}

result! {
    /// One file, or one processor's member of one.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ScheduleMember {
        pub file: String => "Name of the file.";
        pub member: Option<String> => "Name of the member: the processor's number.";
        pub slices: u64 => "Number of time slices in it.";
        pub in_trace: u64 => "Number of time slices according to the trace.";
        pub in_trace_collapsed: u64 => "The same number with adjacent slices of one thread joined.";
        pub form: Option<&'static str> => "Form of the file, if its number equals one of these: full or collapsed.";
        pub differing: u64 => "Number of its time slices that the trace does not have.";
    }
}

impl ReportBody for ScheduleFiles {
    fn document(&self, _: Detail) -> Document {
        let document = Document::new("Schedule files");
        if self.is_too_long {
            return document.with(Block::Note("too many processor markers to compare".to_owned()));
        }
        if let Some(missing) = self.missing {
            return document.with(Block::Note(missing.sentence().to_owned()));
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
                Cell::Count(member.slices),
                Cell::from(member.form.unwrap_or("")),
                Cell::Text(verdict),
            ]
        };
        let grid = |title: &str, head: &[&str], rows, more| {
            let head = head.iter().map(|name| (*name).to_owned()).collect();
            Block::Grid(Grid { title: title.to_owned(), head, rows, more })
        };
        let rows = self.members.iter().map(row).collect();
        let mut document =
            document.with(grid("", &["file", "processor", "slices", "form", "compared"], rows, 0));
        for name in &self.unreadable {
            document = document.with(Block::Note(format!("not compared: `{name}` cannot be read")));
        }
        if self.differences.is_empty() {
            return document;
        }
        let row = |finding: &Finding| {
            vec![
                Cell::from(&*finding.rule),
                Cell::Text(finding.place.to_string()),
                Cell::Text(finding.message.clone()),
            ]
        };
        let rows = self.findings.iter().map(row).collect();
        let more = self.differing - self.differences.len() as u64;
        document.with(grid("differences", &["rule", "place", "what"], rows, more))
    }

    fn findings(&self) -> Vec<Finding> {
        self.findings.clone()
    }

    fn is_flawed(&self) -> bool {
        self.differing > 0 || !self.unreadable.is_empty()
    }
}
