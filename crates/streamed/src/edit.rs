//! Edits streams of rows: cuts out a part, drops kinds of records, splits by stream, merges in the order of clocks.
//!
//! Frames that are kept whole are copied with their compression; the remaining records of other frames are packed anew. A
//! frame without remaining records becomes padding, since a missing frame number would count as a loss.

use crate::bytes::{FRAME_READ_BYTES, SourceInput, unreadable};
use crate::copy::{all_findings, apart, unseen};
use crate::look;
use crate::parts::Part;
use crate::reader::is_wanted;
use crate::rules;
use crate::trace::{self, StreamTrace};
use quipu_model::damaged::{Intake, SoFar};
use quipu_model::fresh::{Folder, Fresh, cannot};
use quipu_model::options::Kind;
use quipu_model::trace::Fact;
use quipu_model::transform::{
    Progress, Transform, TransformInfo, TransformJob, Transformed, refuse_container,
};
use quipu_model::{Error, Finding, OptionSpec, Result, Trace, Window};
use quipu_stream::frame::{Header, kind};
use quipu_stream::scan::{FrameAt, Scanner};
use quipu_stream::select::{Choice, Row, Select};
use quipu_stream::slice::{Sliced, select_lossy};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Options that do not count in records.
const NOT_RECORDS: &[&str] = &["since", "until"];
const PART: &str = "Range";
const SKIP: OptionSpec = OptionSpec::new("skip", Kind::Count, "0", "skip this many records at the start")
    .group(PART)
    .excludes(NOT_RECORDS);
const TAKE: OptionSpec =
    OptionSpec::new("take", Kind::Count, "", "keep this many records").group(PART).excludes(NOT_RECORDS);
const SINCE: OptionSpec =
    OptionSpec::new("since", Kind::Count, "", "start at this timestamp").value("CLOCK").group(PART);
const UNTIL: OptionSpec =
    OptionSpec::new("until", Kind::Count, "", "end before this timestamp").value("CLOCK").group(PART);
const DROP: OptionSpec =
    OptionSpec::new("drop", Kind::Text, "", "remove records of these kinds, by schema name")
        .value("KIND")
        .listed()
        .group("Removal");

/// `trim`: keeps the records of a range.
#[derive(Debug)]
pub struct Trim;

static TRIM: TransformInfo = TransformInfo {
    name: "trim",
    title: "the records of a part, with all that describes them",
    options: &[SKIP, TAKE, SINCE, UNTIL],
};

impl Transform for Trim {
    fn info(&self) -> &'static TransformInfo {
        &TRIM
    }

    fn lacks(&self, option: &str) -> Option<&'static str> {
        (option.contains("instr") || matches!(option, "calls" | "frames" | "setup"))
            .then_some("there are records here, and no instructions or calls of graphics")
    }

    fn run(&self, job: &TransformJob<'_>, _: &dyn Progress) -> Result<Transformed> {
        let options = job.options;
        let window = if options.has(&SKIP) || options.has(&TAKE) {
            let start = options.count(&SKIP);
            let end = options.number(&TAKE).map_or(u64::MAX, |take| start.saturating_add(take));
            Window::Records(start..end)
        } else if options.has(&SINCE) || options.has(&UNTIL) {
            Window::Clock(options.count(&SINCE)..options.number(&UNTIL).unwrap_or(u64::MAX))
        } else {
            let error = Error::usage("no part is named");
            return Err(error.hint("say --skip or --take, or --since or --until"));
        };
        let work = Work::open(job)?;
        let windows = match (&window, work.parts().len()) {
            (Window::Records(_), 2..) => work.with_lost(job.sequence.parts(&work.trace, &window)?)?,
            (_, n) => vec![window; n],
        };
        work.write_file(job, &mut PartOf { places: work.places(), parts: work.parts(), windows })
    }
}

/// Keeps the records in one window for each stream.
struct PartOf<'w> {
    places: Places,
    parts: &'w [Part],
    windows: Vec<Window>,
}

impl Select for PartOf<'_> {
    fn frame(&mut self, frame: &FrameAt) -> Choice {
        let Some((part, before)) = self.places.get(&frame.offset) else { return Choice::Whole };
        let Some(window) = self.windows.get(*part) else { return Choice::Padding };
        let header = &frame.header;
        if header.kind == kind::OPEN {
            return Choice::Rows;
        }
        let part = &self.parts[*part];
        let (first, last) = match window {
            Window::Clock(_) => (part.clock(header.ts_first), part.clock(header.ts_last)),
            _ => (*before, before + u64::from(header.records).saturating_sub(1)),
        };
        let is_in = |at: u64| is_wanted(window, at, at);
        match window {
            Window::Records(range) | Window::Clock(range) if last < range.start || first >= range.end => {
                Choice::Padding
            }
            _ if is_in(first) && is_in(last) => Choice::Whole,
            _ => Choice::Rows,
        }
    }

    fn row(&mut self, frame: &FrameAt, row: &Row) -> bool {
        let Some((part, before)) = self.places.get(&frame.offset) else { return true };
        let time = self.parts[*part].clock(row.time);
        self.windows.get(*part).is_some_and(|window| is_wanted(window, before + u64::from(row.ordinal), time))
    }
}

/// `filter`: drops records of some kinds.
#[derive(Debug)]
pub struct Filter;

static FILTER: TransformInfo = TransformInfo {
    name: "filter",
    title: "without the records of some kinds; what describes them stays",
    options: &[DROP],
};

impl Transform for Filter {
    fn info(&self) -> &'static TransformInfo {
        &FILTER
    }

    fn run(&self, job: &TransformJob<'_>, _: &dyn Progress) -> Result<Transformed> {
        let names: FxHashSet<&str> = job.options.texts(&DROP).collect();
        if names.is_empty() {
            return Err(Error::usage("nothing is left out").hint("say --drop"));
        }
        let work = Work::open(job)?;
        let mut schemas = Vec::new();
        for (epoch, metadata) in work.trace.epochs() {
            let own = metadata.schemas();
            schemas.extend(own.iter().map(|schema| (*epoch, schema.id(), schema.name().to_owned())));
        }
        if let Some(name) = names.iter().find(|name| !schemas.iter().any(|(_, _, known)| known == *name)) {
            let mut known: Vec<&str> = schemas.iter().map(|(_, _, name)| &**name).collect();
            known.sort_unstable();
            known.dedup();
            let error = Error::usage(format!("no records of the stream are called `{name}`"));
            return Err(error.hint(format!("there are: {}", known.join(", "))));
        }
        let dropped = schemas.into_iter().filter(|(_, _, name)| names.contains(&**name));
        let dropped = dropped.map(|(epoch, id, _)| (epoch, id)).collect();
        work.write_file(job, &mut Without { places: work.places(), dropped })
    }
}

/// Keeps all records except those of some schemas.
struct Without {
    places: Places,
    dropped: FxHashSet<((u64, u32), u32)>,
}

impl Select for Without {
    fn frame(&mut self, frame: &FrameAt) -> Choice {
        if self.places.contains_key(&frame.offset) { Choice::Rows } else { Choice::Whole }
    }

    fn row(&mut self, frame: &FrameAt, row: &Row) -> bool {
        !self.dropped.contains(&((frame.header.producer, frame.header.epoch), row.schema))
    }
}

/// `split`: writes one file for each stream.
#[derive(Debug)]
pub struct Split;

static SPLIT: TransformInfo = TransformInfo {
    name: "split",
    title: "a folder with a file for each stream of each producer, each with all that describes it",
    options: &[],
};

impl Transform for Split {
    fn info(&self) -> &'static TransformInfo {
        &SPLIT
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let work = Work::open(job)?;
        let mut intake = Intake::new(job.damaged).strict(job.strict);
        let (mut damage, notes) = work.findings()?;
        intake.take(&mut damage, SoFar::default())?;
        let streams = work.streams()?;
        if streams.is_empty() {
            let error =
                Error::unsupported("no stream here has records or bodies, so there is nothing to split");
            return Err(error.in_file(job.source.name()));
        }
        let (fresh, folder) = Fresh::folder(job.output, job.replace.into(), &is_part)?;
        let producers: BTreeSet<u64> = streams.iter().map(|(producer, _)| *producer).collect();
        let mut sum = Sliced::default();
        for &(producer, stream) in &streams {
            progress.go_on()?;
            let name = match producers.len() == 1 {
                true => format!("{ONLY}-{stream}.quipu"),
                false => format!("{producer:016x}-{stream}.quipu"),
            };
            let path = folder.join(&name);
            let written = work.write_to(&folder, &path, &mut Only { producer, stream })?;
            sum = Sliced { frames: sum.frames + written.frames, records: sum.records + written.records };
        }
        folder.judge()?;
        fresh.commit()?;
        let mut facts = facts(sum);
        facts.insert(0, Fact::new("files", "files", streams.len()));
        Ok(Transformed { facts, notes, reading: intake.finish(), ..Transformed::default() })
    }
}

/// Prefix of file names if there is only one producer.
const ONLY: &str = "stream";

/// True for file names that `split` writes, which it may replace.
fn is_part(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let parts = name.and_then(|name| name.strip_suffix(".quipu")?.split_once('-'));
    parts.is_some_and(|(of, stream)| {
        let is_producer = of.len() == 16 && of.bytes().all(|byte| byte.is_ascii_hexdigit());
        (of == ONLY || is_producer) && stream.parse::<u32>().is_ok()
    })
}

/// Keeps the frames of one stream and those that concern the whole.
struct Only {
    producer: u64,
    stream: u32,
}

impl Select for Only {
    fn frame(&mut self, frame: &FrameAt) -> Choice {
        let Header { producer, stream, kind, .. } = frame.header;
        let is_about_all =
            matches!(kind, kind::META | kind::CLOCK | kind::BLOB | kind::INDEX | kind::PAD | kind::END);
        match (producer == self.producer, stream == self.stream) {
            // The header of an open buffer does not say which stream its rows belong to.
            (true, _) if kind == kind::OPEN => Choice::Rows,
            (true, true) => Choice::Whole,
            // A loss record names its stream itself.
            (true, false) if stream == 0 && (is_about_all || kind == kind::LOSS) => Choice::Whole,
            // Padding keeps the numbers of the producer-wide stream 0 without gaps.
            (true, false) if stream == 0 => Choice::Padding,
            _ => Choice::Nothing,
        }
    }

    fn row(&mut self, frame: &FrameAt, _: &Row) -> bool {
        frame.header.stream == self.stream
    }

    fn has_stream(&self, stream: u32) -> bool {
        stream == 0 || stream == self.stream
    }

    fn loss(&mut self, producer: u64, stream: Option<u32>) -> bool {
        producer == self.producer && stream.is_none_or(|stream| stream == self.stream)
    }
}

/// `merge`: writes all producers to one file, in the order of their clocks.
#[derive(Debug)]
pub struct Merge;

static MERGE: TransformInfo = TransformInfo {
    name: "merge",
    title: "one file with the frames of all producers in the order of their clocks",
    options: &[],
};

impl Transform for Merge {
    fn info(&self) -> &'static TransformInfo {
        &MERGE
    }

    fn run(&self, job: &TransformJob<'_>, _: &dyn Progress) -> Result<Transformed> {
        let work = Work::open(job)?;
        let mut done = work.write_file(job, &mut InTime { places: work.places(), parts: work.parts() })?;
        // Notes where the clocks leave the order open.
        let findings = work.trace.meta().findings.iter();
        let order = findings.filter(|finding| finding.rule == rules::ORDER.name);
        done.notes.extend(order.map(|finding| finding.message.clone()));
        Ok(done)
    }
}

/// Sorts frames by their first times.
struct InTime<'w> {
    places: Places,
    parts: &'w [Part],
}

impl Select for InTime<'_> {
    // Open buffers are moved as they are; a stream may have them anywhere.
    fn order(&mut self, frames: &mut Vec<FrameAt>) {
        // A frame without a time stays after the previous frame of its producer.
        let mut now: FxHashMap<u64, u64> = FxHashMap::default();
        let mut timed: Vec<(u64, FrameAt)> = Vec::with_capacity(frames.len());
        for frame in frames.drain(..) {
            let now = now.entry(frame.header.producer).or_default();
            if let Some((part, _)) =
                self.places.get(&frame.offset).filter(|_| frame.header.kind != kind::OPEN)
            {
                *now = self.parts[*part].clock(frame.header.ts_first).max(*now);
            }
            timed.push((*now, frame));
        }
        timed.sort_by_key(|(time, _)| *time);
        frames.extend(timed.into_iter().map(|(_, frame)| frame));
    }
}

/// By offset of a frame with rows: the index of its stream, and the number of records before it.
type Places = FxHashMap<u64, (usize, u64)>;

/// A stream that is being rewritten.
struct Work<'j> {
    job: &'j TransformJob<'j>,
    trace: StreamTrace,
    /// Findings, computed on first use.
    found: OnceCell<Vec<Finding>>,
}

impl<'j> Work<'j> {
    fn open(job: &'j TransformJob<'j>) -> Result<Work<'j>> {
        refuse_container(job.container)?;
        if job.level.is_some() || !job.opening.threads.is_empty() {
            return Err(Error::usage("frames of a stream that stay whole are copied as they are"));
        }
        Ok(Work { job, trace: trace::open(job.source, job.opening)?, found: OnceCell::new() })
    }

    fn parts(&self) -> &[Part] {
        self.trace.parts()
    }

    /// Extends record windows over the unreadable frames that directly follow: their losses lie between records that were
    /// counted.
    fn with_lost(&self, windows: Vec<Window>) -> Result<Vec<Window>> {
        let lost = self.all()?.iter().filter(|finding| finding.loss.is_some());
        let lost: FxHashSet<u64> =
            lost.filter_map(|finding| self.trace.opened().look.offset_of(&finding.place)).collect();
        let extended = |(part, window): (&Part, Window)| {
            let Window::Records(mut range) = window else { return window };
            for (piece, before) in part.pieces.iter().zip(&part.before) {
                if *before == range.end && lost.contains(&piece.frame.offset) {
                    let n = piece.open.map_or(piece.frame.header.records.into(), |_| u64::MAX);
                    range.end = before.saturating_add(n);
                }
            }
            Window::Records(range)
        };
        Ok(self.parts().iter().zip(windows).map(extended).collect())
    }

    fn places(&self) -> Places {
        let parts = self.parts().iter().enumerate();
        let places = parts.flat_map(|(number, part)| {
            let pieces = part.pieces.iter().zip(&part.before);
            pieces.map(move |(piece, before)| (piece.frame.offset, (number, *before)))
        });
        places.collect()
    }

    /// The streams with records, aggregations or bodies, by producer and number, including those with bodies of unknown
    /// formats.
    fn streams(&self) -> Result<BTreeSet<(u64, u32)>> {
        let look = look::at(self.job.source)?;
        let mut input = SourceInput::new(&look.container, FRAME_READ_BYTES, &look.n_read)?;
        // A trace without records has one empty part.
        let parts = self.parts().iter().filter(|part| !part.pieces.is_empty());
        let mut streams: BTreeSet<_> = parts.map(|part| (part.producer, part.stream)).collect();
        let mut scanner = Scanner::new();
        let unreadable = |cause| unreadable(self.job.source.name(), cause);
        while let Some(FrameAt { offset, header }) = scanner.next(&mut input).map_err(unreadable)? {
            if offset >= look.end() {
                break;
            }
            if matches!(header.kind, kind::DATA | kind::AGG) {
                streams.insert((header.producer, header.stream));
            }
        }
        Ok(streams)
    }

    /// All findings of the stream.
    fn all(&self) -> Result<&[Finding]> {
        if let Some(known) = self.found.get() {
            return Ok(known);
        }
        let found = all_findings(&self.trace)?;
        Ok(self.found.get_or_init(|| found))
    }

    /// Damage, and notes on what the output states again. Frames are copied unchanged, even those with wrong checksums, so
    /// the stream is checked first.
    fn findings(&self) -> Result<(Vec<Finding>, Vec<String>)> {
        Ok(apart(self.all()?.to_vec()))
    }

    fn write_file(&self, job: &TransformJob<'_>, choose: &mut impl Select) -> Result<Transformed> {
        let mut intake = Intake::new(job.damaged).strict(job.strict);
        let (mut damage, notes) = self.findings()?;
        intake.take(&mut damage, SoFar::default())?;
        let (fresh, file) = Fresh::file(job.output, job.replace.into())?;
        let written = self.write(BufWriter::new(file), job.output, choose)?;
        fresh.commit()?;
        Ok(Transformed { facts: facts(written), notes, reading: intake.finish(), ..Transformed::default() })
    }

    fn write_to(&self, folder: &Folder, path: &Path, choose: &mut impl Select) -> Result<Sliced> {
        self.write(BufWriter::new(folder.create(path)?), path, choose)
    }

    fn write(&self, mut out: impl Write, path: &Path, choose: &mut impl Select) -> Result<Sliced> {
        let look = look::at(self.job.source)?;
        let mut input = SourceInput::new(&look.container, FRAME_READ_BYTES, &look.n_read)?;
        quipu_stream::input::Input::get(&mut input, 0, 1)
            .map_err(|cause| unreadable(self.job.source.name(), cause))?;
        let failed = |cause| cannot("write", path, cause);
        let written =
            select_lossy(&mut input, 0..look.end(), &unseen(&look), choose, &mut out).map_err(failed)?;
        out.flush().map_err(failed)?;
        Ok(written)
    }
}

fn facts(written: Sliced) -> Vec<Fact> {
    vec![Fact::new("frames", "frames", written.frames), Fact::new("records", "records", written.records)]
}
