//! `trim`, `filter` and `split`: write parts of the events with their original bytes.
//!
//! Events depend on state set by earlier ones: the thread they belong to, and the fields they have. A part begins with
//! events that set both.

use crate::batch::Batch;
use crate::codec::{Codec, Encoding, EventBytes};
use crate::detail::Detail;
use crate::drive::{Job, each_batch};
use crate::event::{Context, Event, Kind, Sync, context, sync};
use crate::file::{EventFile, Target};
use crate::rewrite::PLAIN;
use crate::table::{code, code_of, codes_named, names_of_types};
use crate::trace::{self, PrismTrace};
use crate::turns::{Turn, Whole};
use quipu_model::damaged::Reading;
use quipu_model::fresh::{Folder, Fresh, Replace};
use quipu_model::options::Kind as OptionKind;
use quipu_model::trace::Fact;
use quipu_model::transform::{
    Progress, Transform, TransformInfo, TransformJob, Transformed, refuse_container,
};
use quipu_model::{Error, OptionSpec, Options, Result, Window};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::RangeInclusive;
use std::path::Path;

const PART: &str = "Range";
const NOT_RECORDS: &[&str] = &["skip-instrs", "take-instrs"];

const SKIP: OptionSpec =
    OptionSpec::new("skip", OptionKind::Count, "0", "skip this many records at the start")
        .group(PART)
        .excludes(NOT_RECORDS);
const TAKE: OptionSpec = OptionSpec::new("take", OptionKind::Count, "", "keep this many records")
    .group(PART)
    .excludes(NOT_RECORDS);
const SKIP_INSTRS: OptionSpec =
    OptionSpec::new("skip-instrs", OptionKind::Count, "0", "skip this many instructions at the start")
        .group(PART);
const TAKE_INSTRS: OptionSpec =
    OptionSpec::new("take-instrs", OptionKind::Count, "", "keep this many instructions").group(PART);

const LEFT_OUT: &str = "Removal";
const DROP: OptionSpec = OptionSpec::new(
    "drop",
    OptionKind::Text,
    "",
    "remove records of these kinds, such as read, prefetch, data, flush",
)
.value("KIND")
.listed()
.group(LEFT_OUT);
const ADDR: OptionSpec =
    OptionSpec::new("addr", OptionKind::Range, "", "keep only accesses that touch one of these addresses")
        .listed()
        .group(LEFT_OUT);

/// Number of files of threads written at a time; more threads need further passes over the events.
const FILES_AT_ONCE: usize = 64;

/// The fields in effect at an event, and whether earlier events set or used them.
#[derive(Clone, Copy, Debug)]
struct Now {
    detail: Detail,
    has_begun: bool,
    /// Whether fields changed after the first event other than a configuration.
    has_changed: bool,
}

impl Now {
    fn of(codec: &Codec) -> Now {
        Now { detail: codec.detail, has_begun: false, has_changed: false }
    }

    fn pass(&mut self, event: &Event) {
        match event {
            Event::Config(config) => {
                self.detail.configure(*config);
                self.has_changed |= self.has_begun;
            }
            _ => self.has_begun = true,
        }
    }
}

/// A file that is created when it gets its first event.
struct Lazy<'j> {
    target: Target<'j>,
    codec: Codec,
    file: Option<EventFile>,
}

impl<'j> Lazy<'j> {
    fn new(target: Target<'j>, codec: Codec) -> Lazy<'j> {
        Lazy { target, codec, file: None }
    }

    fn n_events(&self) -> u64 {
        self.file.as_ref().map_or(0, EventFile::n_events)
    }

    /// The file. When it is created, writes the thread and fields that the left-out events have set.
    fn begun(&mut self, now: &Now, thread: Option<u64>, next: &Event) -> Result<&mut EventFile> {
        match &mut self.file {
            Some(file) => Ok(file),
            place => {
                let is_said = self.codec.is_configured && !now.has_begun && now.detail == Detail::NONE;
                let mut file = EventFile::create(self.target, self.codec.encoding, now.detail, is_said)?;
                file.set_dialect(self.codec.dialect);
                let is_known = !now.has_begun || next.swap().is_some();
                if let Some(thread) = thread.filter(|_| !is_known) {
                    let swap = Event::Sync(Sync { kind: sync::SWAP, data: thread, second: None });
                    file.put(&Batch { events: vec![swap], ..Batch::default() }, 0)?;
                }
                Ok(place.insert(file))
            }
        }
    }

    fn finish(self, reading: Reading, what: &str) -> Result<Transformed> {
        match self.file {
            Some(file) => Ok(Transformed { facts: file.finish()?, reading, ..Transformed::default() }),
            None => Err(reading.nothing_left().unwrap_or_else(|| Error::missing(what.to_owned()))),
        }
    }
}

/// `trim`: the events of a part.
#[derive(Debug)]
pub(crate) struct Trim;

static TRIM: TransformInfo = TransformInfo {
    name: "trim",
    title: "the events of a part, which says their thread and fields first",
    options: &[SKIP, TAKE, SKIP_INSTRS, TAKE_INSTRS, PLAIN],
};

impl Transform for Trim {
    fn info(&self) -> &'static TransformInfo {
        &TRIM
    }

    fn lacks(&self, option: &str) -> Option<&'static str> {
        match option {
            "since" | "until" => Some("events have no clock"),
            "calls" | "frames" | "setup" => Some("there are events here, and no calls of graphics"),
            "instrs" | "per-thread" | "chunk-instrs" => Some("a part of events is one, of all threads"),
            _ => None,
        }
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let trace = trace::open(job.source, job.opening)?;
        let options = job.options;
        let has = |specs: [&OptionSpec; 2]| specs.into_iter().any(|spec| options.has(spec));
        let (by_instrs, skip, take) = match (has([&SKIP, &TAKE]), has([&SKIP_INSTRS, &TAKE_INSTRS])) {
            (true, false) => (false, &SKIP, &TAKE),
            (false, true) => (true, &SKIP_INSTRS, &TAKE_INSTRS),
            _ => {
                let hint = "say --skip or --take, or --skip-instrs or --take-instrs";
                return Err(Error::usage("no part is named").hint(hint));
            }
        };
        let start = options.count(skip);
        let end = options.number(take).map_or(u64::MAX, |take| start.saturating_add(take));
        let window = if by_instrs { Window::Instrs(0..end) } else { Window::Records(0..end) };
        let reading = Job { window, keeps_bytes: true, ..Job::of(job) };
        let mut now = Now::of(trace.codec());
        let mut out = Lazy::new(Target::of(job, options.flag(&PLAIN)), *trace.codec());
        let mut n_instrs = 0;
        let reading = each_batch(&trace, reading, progress, |batch, bytes| {
            for (index, event) in batch.events.iter().enumerate() {
                let is_instr = matches!(event, Event::Context(Context { kind: context::INSTRUCTION, .. }));
                n_instrs += u64::from(is_instr);
                // A part begins right before its first instruction.
                let at = if by_instrs { n_instrs.saturating_sub(1) } else { batch.at(index).ordinal };
                let is_in = start == 0 || at >= start && (!by_instrs || n_instrs > 0);
                if is_in {
                    out.begun(&now, batch.thread, event)?.copy(batch, index, bytes.get(index))?;
                }
                now.pass(event);
            }
            Ok(out.n_events())
        })
        .map_err(|error| error.in_file(job.source.name()))?;
        out.finish(reading, "the trace has fewer records than are left out")
    }
}

/// `filter`: all events except those of some types.
#[derive(Debug)]
pub(crate) struct Filter;

static FILTER: TransformInfo = TransformInfo {
    name: "filter",
    title: "without the events of some types or addresses; swaps and configurations stay",
    options: &[DROP, ADDR, PLAIN],
};

impl Transform for Filter {
    fn info(&self) -> &'static TransformInfo {
        &FILTER
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let trace = trace::open(job.source, job.opening)?;
        let dropped = dropped(job.options)?;
        let addrs: Vec<RangeInclusive<u64>> = job.options.ranges(&ADDR).collect();
        if dropped.is_empty() && addrs.is_empty() {
            return Err(Error::usage("nothing is left out").hint("say --drop or --addr"));
        }
        let is_kept = |event: &Event| match event {
            // The other events depend on these.
            Event::Config(_) => true,
            event if event.swap().is_some() => true,
            event if dropped.contains(&code_of(event)) => false,
            Event::Memory(memory) if !addrs.is_empty() => memory.address.is_some_and(|first| {
                let last = first.saturating_add(u64::from(memory.size.unwrap_or(1).max(1)) - 1);
                addrs.iter().any(|range| *range.start() <= last && first <= *range.end())
            }),
            _ => true,
        };
        let mut now = Now::of(trace.codec());
        let mut out = Lazy::new(Target::of(job, job.options.flag(&PLAIN)), *trace.codec());
        let reading = Job { keeps_bytes: true, ..Job::of(job) };
        let reading = each_batch(&trace, reading, progress, |batch, bytes| {
            for (index, event) in batch.events.iter().enumerate() {
                if is_kept(event) {
                    out.begun(&now, batch.thread, event)?.copy(batch, index, bytes.get(index))?;
                }
                now.pass(event);
            }
            Ok(out.n_events())
        })
        .map_err(|error| error.in_file(job.source.name()))?;
        out.finish(reading, "nothing is left of the events")
    }
}

/// The event types named by `--drop`.
fn dropped(options: &Options) -> Result<FxHashSet<u16>> {
    let mut all = FxHashSet::default();
    for word in options.texts(&DROP) {
        let Some(codes) = codes_named(word) else {
            return Err(Error::usage(format!("`--drop`: there are no records of kind `{word}`"))
                .hint(format!("kinds are the types of events, and {}", names_of_types().join(", "))));
        };
        all.extend(codes);
    }
    let is_state =
        |of: &&u16| **of == code(Kind::Sync, sync::SWAP) || **of >> 8 == u16::from(Kind::Config as u8);
    match all.iter().find(is_state) {
        Some(_) if all.iter().all(|of| is_state(&of)) => {
            let what = "`--drop`: swaps and configurations say what the other events mean, and stay";
            Err(Error::usage(what))
        }
        _ => Ok(all),
    }
}

/// `split`: a file for each thread.
#[derive(Debug)]
pub(crate) struct Split;

static SPLIT: TransformInfo = TransformInfo {
    name: "split",
    title: "a folder with a file for each thread, which is one trace",
    options: &[],
};

impl Transform for Split {
    fn info(&self) -> &'static TransformInfo {
        &SPLIT
    }

    fn reads_again(&self, _: &Options) -> bool {
        true
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let trace = trace::open(job.source, job.opening)?;
        refuse_container(job.container)?;
        let (fresh, folder) = Fresh::folder(job.output, Replace::from(job.replace), &is_of_split)?;
        let mut done = FxHashSet::default();
        let mut n_events = 0;
        // Each file has a summary of the turns of the whole trace, which is computed before the first file ends.
        let whole = whole_of(&trace, job, progress)?;
        let reading = loop {
            let mut pass = Pass::new(job, (&folder, &whole), *trace.codec(), &done);
            let read =
                each_batch(&trace, Job { keeps_bytes: true, ..Job::of(job) }, progress, |batch, bytes| {
                    pass.take(batch, bytes)?;
                    Ok(n_events + pass.n_events)
                });
            let reading = read.map_err(|error| error.in_file(job.source.name()))?;
            let has_more = pass.has_more;
            n_events += pass.n_events;
            for (thread, file) in pass.finish()? {
                done.insert(thread);
                file.finish()?;
            }
            if !has_more {
                break reading;
            }
        };
        if done.is_empty() {
            let nothing = || Error::missing("there is no event, so there is nothing to split");
            return Err(reading.nothing_left().unwrap_or_else(nothing));
        }
        folder.judge()?;
        fresh.commit()?;
        let facts = vec![Fact::new("files", "files", done.len()), Fact::new("records", "events", n_events)];
        Ok(Transformed { facts, reading, ..Transformed::default() })
    }
}

/// Whether a file has a name that `split` writes.
fn is_of_split(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.strip_prefix("thread-").is_some_and(|rest| rest.ends_with(".prism"))
}

/// Finds the beginnings of threads' turns.
#[derive(Default)]
struct Turns {
    current: Option<u64>,
}

impl Turns {
    /// The thread of a batch, and whether the batch begins a turn. `None` for configurations before the first selected
    /// thread; the files account for these themselves.
    fn begins(&mut self, batch: &Batch) -> Option<(u64, bool)> {
        let is_config = |event: &Event| matches!(event, Event::Config(_));
        if self.current.is_none() && batch.thread.is_none() && batch.events.iter().all(is_config) {
            return None;
        }
        let thread = batch.thread.unwrap_or(0);
        let begins = self.current != Some(thread);
        self.current = Some(thread);
        Some((thread, begins))
    }
}

/// Summarizes the turns of a trace.
fn whole_of(trace: &PrismTrace, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Whole> {
    let (mut whole, mut turns, mut latest) = (Whole::default(), Turns::default(), (0, Turn::default()));
    let mut n_events = 0;
    each_batch(trace, Job { keeps_bytes: true, ..Job::of(job) }, progress, |batch, bytes| {
        let Some((thread, begins)) = turns.begins(batch) else { return Ok(n_events) };
        if begins && n_events > 0 {
            whole.add(latest.0, &latest.1)?;
        }
        if begins {
            latest = (thread, Turn { ordinal: n_events, ..Turn::default() });
        }
        latest.1.n_events += batch.events.len() as u64;
        for index in 0..batch.events.len() {
            latest.1.len += bytes.get(index).len() as u64;
            whole.event(bytes.get(index));
        }
        n_events += batch.events.len() as u64;
        Ok(n_events)
    })
    .map_err(|error| error.in_file(job.source.name()))?;
    whole.add(latest.0, &latest.1)?;
    Ok(whole)
}

/// One pass over the events, for some of the threads.
struct Pass<'p> {
    job: &'p TransformJob<'p>,
    folder: &'p Folder,
    /// The summary of all turns, for every file.
    whole: &'p Whole,
    codec: Codec,
    /// Threads whose files are finished.
    done: &'p FxHashSet<u64>,
    files: FxHashMap<u64, EventFile>,
    turns: Turns,
    now: Now,
    /// The current thread, if its file is written in this pass.
    open: Option<u64>,
    ordinal: u64,
    n_events: u64,
    has_more: bool,
}

impl<'p> Pass<'p> {
    fn new(
        job: &'p TransformJob<'p>,
        (folder, whole): (&'p Folder, &'p Whole),
        codec: Codec,
        done: &'p FxHashSet<u64>,
    ) -> Pass<'p> {
        Pass {
            job,
            folder,
            whole,
            codec,
            done,
            files: FxHashMap::default(),
            turns: Turns::default(),
            now: Now::of(&codec),
            open: None,
            ordinal: 0,
            n_events: 0,
            has_more: false,
        }
    }

    fn take(&mut self, batch: &Batch, bytes: &EventBytes) -> Result<()> {
        let Some((thread, begins)) = self.turns.begins(batch) else {
            batch.events.iter().for_each(|event| self.now.pass(event));
            return Ok(());
        };
        if begins {
            self.end_turn()?;
            self.begin_turn(thread)?;
        }
        let mut file = match self.open {
            Some(thread) => self.files.get_mut(&thread),
            None => None,
        };
        for (index, event) in batch.events.iter().enumerate() {
            if let Some(file) = &mut file {
                file.copy(batch, index, bytes.get(index))?;
                self.n_events += 1;
            }
            self.now.pass(event);
        }
        self.ordinal += batch.events.len() as u64;
        Ok(())
    }

    fn begin_turn(&mut self, thread: u64) -> Result<()> {
        if self.done.contains(&thread) {
            return Ok(());
        }
        if !self.files.contains_key(&thread) {
            if self.files.len() >= FILES_AT_ONCE {
                self.has_more = true;
                return Ok(());
            }
            let file = self.create(thread)?;
            self.files.insert(thread, file);
        }
        let Some(file) = self.files.get_mut(&thread) else { return Ok(()) };
        // Configurations made by other threads have to be repeated in this thread's file.
        let configs = match self.codec.encoding == Encoding::Variable && self.now.has_changed {
            true => self.now.detail.events().map(Event::Config).to_vec(),
            false => Vec::new(),
        };
        file.begin_turn(self.ordinal, &configs)?;
        self.open = Some(thread);
        Ok(())
    }

    fn create(&self, thread: u64) -> Result<EventFile> {
        let name = format!("thread-{thread}");
        let path = self.folder.join(format!("{name}.prism"));
        let target = Target {
            path: &path,
            replace: false,
            container: None,
            level: self.job.level,
            is_plain: false,
            name: &name,
        };
        // The first events may configure the fields themselves.
        let is_said = self.codec.is_configured && !self.now.has_begun && self.now.detail == Detail::NONE;
        let mut file = EventFile::create(target, self.codec.encoding, self.now.detail, is_said)?;
        file.set_dialect(self.codec.dialect);
        self.whole.settings().into_iter().for_each(|(name, value)| file.say(name, value));
        file.take_turns();
        Ok(file)
    }

    fn end_turn(&mut self) -> Result<()> {
        match self.open.take().and_then(|thread| self.files.get_mut(&thread)) {
            Some(file) => file.end_turn(),
            None => Ok(()),
        }
    }

    fn finish(mut self) -> Result<Vec<(u64, EventFile)>> {
        self.end_turn()?;
        let mut files: Vec<_> = self.files.into_iter().collect();
        files.sort_unstable_by_key(|(thread, _)| *thread);
        Ok(files)
    }
}
