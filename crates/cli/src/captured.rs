//! Recordings of instrumented programs: the parts that other traces have no columns for.
//!
//! Recordings are streams, which all verbs read. This module lists their events in the order of their stamps, with source
//! locations and callers, and counts them.

use quipu::engine::{Between, MarkName};
use quipu::model::doc::{Block, Cell, Document, Grid};
use quipu::model::number::counted;
use quipu::model::{Error, Finding, ThreadId};
use quipu_capture::tsan::file::lost_bytes;
use quipu_capture::tsan::merge::{Told, events};
use quipu_capture::tsan::show::{Detail, Row, Shower, family, has_row, kinds, mark_of};
use quipu_capture::tsan::sites::Spot;
use quipu_capture::tsan::{Capture, trace};
use quipu_console::screen::Result;
use quipu_console::session;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::ops::{ControlFlow, Range, RangeInclusive};
use std::path::Path;

pub(crate) use quipu_capture::tsan::is_capture;

/// Selection of the events to list.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    /// Number of events to skip, and to list.
    pub(crate) skip: u64,
    pub(crate) take: u64,
    /// Maximum number of the selected events to print.
    pub(crate) most_printed: u64,
    /// Kinds or families of kinds; empty for all.
    pub(crate) kinds: &'a [String],
    pub(crate) threads: &'a [ThreadId],
    pub(crate) pc: Option<&'a RangeInclusive<u64>>,
    pub(crate) addr: Option<&'a RangeInclusive<u64>>,
    /// Parts to list, as ranges of events counted from 0, in order; everything if there are none.
    pub(crate) parts: &'a [Range<u64>],
}

impl Choice<'_> {
    /// # Errors
    /// `Usage` for an unknown kind; the message lists the known ones.
    fn check(&self) -> Result<()> {
        let known = kinds();
        let is_known =
            |name: &&String| known.iter().any(|kind| kind == name || family(kind) == Some(name.as_str()));
        match self.kinds.iter().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => {
                let mut families: Vec<_> = known.iter().filter_map(|kind| family(kind)).collect();
                families.sort_unstable();
                families.dedup();
                Err(Error::usage(format!("recordings have no events of kind `{name}`"))
                    .hint(format!("kinds: {}; together: {}", known.join(", "), families.join(", ")))
                    .into())
            }
        }
    }

    /// Whether an event is in one of the parts.
    fn is_inside(&self, nth: u64) -> bool {
        let part = self.parts.get(self.parts.partition_point(|part| part.end <= nth));
        self.parts.is_empty() || part.is_some_and(|part| part.start <= nth)
    }

    fn wants(&self, row: &Row) -> bool {
        let is_kind = |name: &String| name == row.kind || family(row.kind) == Some(name.as_str());
        let touches = |range: &RangeInclusive<u64>| {
            row.addr.is_some_and(|addr| {
                let last = addr.saturating_add(row.size.unwrap_or(1).max(1) - 1);
                addr <= *range.end() && last >= *range.start()
            })
        };
        (self.kinds.is_empty() || self.kinds.iter().any(is_kind))
            && (self.threads.is_empty() || self.threads.contains(&row.tid.into()))
            && self.pc.is_none_or(|range| row.pc.is_some_and(|pc| range.contains(&pc)))
            && self.addr.is_none_or(touches)
    }
}

/// Output form of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

/// The parts of a recording between marks that the program set, as ranges of its events, counted from 0. `None` if it has no
/// such parts.
pub(crate) fn parts(path: &Path, wanted: &Between) -> Result<Option<Vec<Range<u64>>>> {
    let capture = Capture::open(path)?;
    let mut open = wanted.from.is_none().then_some(0);
    let (mut parts, mut n_events) = (Vec::new(), 0_u64);
    events(&capture, &mut |_, event| {
        if let Some(text) = mark_of(event) {
            let is = |name: &Option<MarkName>| name.as_ref().is_some_and(|name| name.name.as_bytes() == text);
            if is(&wanted.to)
                && let Some(start) = open.take()
            {
                parts.push(start..n_events);
            }
            if is(&wanted.from) && open.is_none() {
                open = Some(n_events);
            }
        }
        n_events += u64::from(has_row(event));
        Ok::<_, quipu_console::screen::Stop>(ControlFlow::Continue(()))
    })?;
    parts.extend(open.filter(|_| wanted.to.is_none()).map(|start| start..u64::MAX));
    Ok((!parts.is_empty()).then_some(parts))
}

/// Prints the events of a recording, one per line; returns findings about damage.
pub(crate) fn view(path: &Path, choice: &Choice<'_>, form: Form) -> Result<Vec<Finding>> {
    choice.check()?;
    let capture = Capture::open(path)?;
    let mut out = BufWriter::new(quipu_console::terminal::stdout());
    if form == Form::Text {
        writeln!(
            out,
            "{:>10}  {:>7}  {:<15}  {:>14}  {:>7}  place and more",
            "event", "thread", "kind", "address", "bytes"
        )?;
    }
    let mut shower = Shower::default();
    let (mut n_events, mut n_printed) = (0_u64, 0_u64);
    let end = choice.skip.saturating_add(choice.take);
    let told = events(&capture, &mut |who, event| {
        if n_events >= end || n_printed >= choice.most_printed {
            return Ok(ControlFlow::Break(()));
        }
        let mut is_event = false;
        let row = shower.row(who, event, |row| {
            is_event = true;
            n_events >= choice.skip && choice.is_inside(n_events) && choice.wants(row)
        });
        n_events += u64::from(is_event);
        n_printed += u64::from(row.is_some());
        match (row, form) {
            (None, _) => {}
            (Some(row), Form::Text) => writeln!(out, "{}", line(n_events, &row))?,
            (Some(row), Form::Json) => writeln!(out, "{}", object(n_events, &row))?,
        }
        Ok::<_, quipu_console::screen::Stop>(ControlFlow::Continue(()))
    })?;
    out.flush()?;
    Ok(capture.findings(&told.findings))
}

fn line(nth: u64, row: &Row) -> String {
    let addr = row.addr.map(|addr| format!("{addr:#x}")).unwrap_or_default();
    let size = row.size.map(|size| size.to_string()).unwrap_or_default();
    let mut line = format!("{nth:>10}  {:>7}  {:<15}  {addr:>14}  {size:>7}", row.tid, row.kind);
    let place = row.pc.filter(|pc| *pc != 0).map(|pc| row.spot.place(pc));
    let details = row.details.iter().map(|(name, detail)| match detail {
        Detail::Text(text) => format!("{name}={text}"),
        Detail::Count(count) => format!("{name}={count}"),
        Detail::Addr(addr) => format!("{name}={addr:#x}"),
        Detail::Yes => (*name).to_owned(),
    });
    for part in place.into_iter().chain(details) {
        line.push_str("  ");
        line.push_str(&part);
    }
    for (caller, spot) in &row.callers {
        line.push_str(" < ");
        line.push_str(&spot.place(*caller));
    }
    line.truncate(line.trim_end().len());
    line
}

fn object(nth: u64, row: &Row) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("event", nth.into());
    put("tid", row.tid.into());
    put("kind", row.kind.into());
    put("stamp", row.stamp.into());
    put("addr", row.addr.map(hex).into());
    put("bytes", row.size.into());
    put("pc", row.pc.map(hex).into());
    for (name, value) in spot_fields(&row.spot) {
        put(name, value);
    }
    for (name, detail) in &row.details {
        let value = match detail {
            Detail::Text(text) => text.as_str().into(),
            Detail::Count(count) => (*count).into(),
            Detail::Addr(addr) => hex(*addr).into(),
            Detail::Yes => true.into(),
        };
        put(&name.replace('-', "_"), value);
    }
    if row.kind == "alloc" {
        let callers = row.callers.iter().map(|(pc, spot)| {
            let mut caller = Map::from_iter([("pc".to_owned(), hex(*pc).into())]);
            caller.extend(spot_fields(spot).map(|(name, value)| (name.to_owned(), value)));
            Value::Object(caller)
        });
        put("callers", callers.collect());
    }
    object.into()
}

fn spot_fields(spot: &Spot) -> impl Iterator<Item = (&'static str, Value)> {
    let (file, line) = spot.source.clone().unzip();
    let (module, offset) = spot.module.clone().unzip();
    let inlined = spot.inlined.clone().map(|(function, source)| {
        let (file, line) = source.unzip();
        json!({ "function": function, "file": file, "line": line })
    });
    [
        ("module", module.map(|module| module.display().to_string()).into()),
        ("offset", offset.map(hex).into()),
        ("function", spot.function.clone().into()),
        ("file", file.into()),
        ("line", line.into()),
        ("inlined", inlined.into()),
    ]
    .into_iter()
}

fn hex(number: u64) -> String {
    format!("{number:#x}")
}

/// Description of a recording as a document and as JSON.
pub(crate) struct Info {
    pub(crate) document: Document,
    pub(crate) value: Value,
    /// Findings about damage.
    pub(crate) findings: Vec<Finding>,
}

/// A module of the program; sorted by address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Module {
    #[serde(serialize_with = "as_hex")]
    base: u64,
    bytes: u64,
    file: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn as_hex<S: Serializer>(number: &u64, out: S) -> std::result::Result<S::Ok, S::Error> {
    out.collect_str(&format_args!("{number:#x}"))
}

/// A thread of a recording.
#[derive(Default, Serialize)]
struct Thread {
    tid: u64,
    name: String,
    frames: u64,
    events: u64,
}

/// Describes a recording. With `is_quick`, reads only its frames; otherwise also counts all events.
pub(crate) fn info(path: &Path, is_quick: bool) -> Result<Info> {
    let capture = Capture::open(path)?;
    let mut threads: Vec<Thread> = capture
        .threads()
        .iter()
        .map(|thread| Thread { tid: thread.tid, frames: thread.parts, ..Thread::default() })
        .collect();
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut modules: Vec<Module> = Vec::new();
    let (mut program, mut told) = (None, Told::default());
    if !is_quick {
        let mut shower = Shower::default();
        told = events(&capture, &mut |who, event| {
            shower.row(who, event, |row| {
                *counts.entry(row.kind).or_default() += 1;
                let Some(thread) = threads.get_mut(who.index) else { return false };
                thread.events += 1;
                match (row.kind, row.details.first()) {
                    ("thread-name", Some((_, Detail::Text(name)))) => thread.name.clone_from(name),
                    ("module", Some((_, Detail::Text(file)))) => {
                        // The program itself is the first module.
                        program.get_or_insert_with(|| file.clone());
                        let (base, bytes) = (row.addr.unwrap_or(0), row.size.unwrap_or(0));
                        modules.push(Module { base, bytes, file: file.clone() });
                    }
                    _ => {}
                }
                false
            });
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
    }
    let n_missing = capture.n_missing().saturating_add(told.n_damaged());
    let findings = capture.findings(&told.findings);
    let unread_bytes = lost_bytes(&findings);
    // The constructor of each library reports the library, and those loaded before it.
    modules.sort();
    modules.dedup();
    let n_bytes = capture.size_bytes();
    let (parent, started) = (capture.parent(), capture.started());
    let seconds = trace::duration(&capture, &told).as_secs_f64();
    let ending = crate::recording::ending(capture.ending());
    let mut value = json!({
        "recording": path.display().to_string(),
        "format": "stream",
        "version": capture.version(),
        "program": program,
        "pid": capture.pid(),
        "parent": parent,
        "started": started,
        "seconds": seconds,
        "ending": ending.0,
        "bytes": n_bytes,
        "missing_frames": n_missing,
        "unread_bytes": unread_bytes,
        "events": counts,
        "threads": threads,
        "modules": modules,
    });
    if let Value::Object(value) = &mut value {
        session::add_reading(&findings, None, value);
    }
    let words = |text: String| vec![Cell::Text(text)];
    let mut facts = vec![
        (
            "format".to_owned(),
            words(format!(
                "stream of cells, version {}: what an instrumented program did, as it was recorded",
                capture.version()
            )),
        ),
        ("process".to_owned(), words(capture.pid().to_string())),
        ("recorded".to_owned(), words(format!("{}, for {seconds:.3} s", quipu_view::date_text(started)))),
        ("ending".to_owned(), words(format!("the program {}", ending.1))),
        ("size".to_owned(), vec![Cell::Bytes(n_bytes)]),
    ];
    if let Some(parent) = parent {
        facts.insert(2, ("forked from".to_owned(), words(parent.to_string())));
    }
    if let Some(program) = &program {
        facts.insert(1, ("program".to_owned(), words(program.clone())));
    }
    if n_missing > 0 || unread_bytes > 0 {
        let what = format!(
            "{} of threads, {} that could not be read",
            counted(n_missing, "frame"),
            counted(unread_bytes, "byte")
        );
        facts.push(("missing".to_owned(), words(what)));
    }
    let mut document = Document::new(path.display().to_string()).with(Block::Facts(facts));
    let grid = |title: &str, head: &[&str], rows: Vec<Vec<Cell>>| {
        let head = head.iter().map(|name| (*name).to_owned()).collect();
        Block::Grid(Grid { title: title.to_owned(), head, rows, more: 0 })
    };
    if !is_quick {
        let rows = counts.iter().map(|(kind, count)| vec![Cell::from(*kind), Cell::Count(*count)]).collect();
        document.blocks.push(grid("Events", &["kind", "events"], rows));
        let rows = threads.iter().map(|thread| {
            vec![
                Cell::Text(thread.tid.to_string()),
                Cell::from(thread.name.clone()),
                Cell::Count(thread.frames),
                Cell::Count(thread.events),
            ]
        });
        document.blocks.push(grid("Threads", &["thread", "name", "frames", "events"], rows.collect()));
        let rows = modules.iter().map(|module| {
            vec![Cell::Addr(module.base), Cell::Bytes(module.bytes), Cell::from(module.file.clone())]
        });
        document.blocks.push(grid("Program and libraries", &["base", "bytes", "file"], rows.collect()));
    }
    document.blocks.push(Block::Note(format!(
        "`quipu view` lists its events, with places and callers; `quipu report` reads it; `quipu convert --to {}` makes a trace of it",
        quipu_capture::tsan::MADE
    )));
    Ok(Info { document, value, findings })
}
