//! `diff`: compares the records of two streams.
//!
//! Streams are matched by number, and producers by the order in which they begin, because each run of a program has a new
//! producer id. Records are equal if their schemas and texts are equal, regardless of their times. There are three passes:
//! the records of each trace are hashed to 8 bytes each; the hashes are aligned; then both streams are read again for the
//! output.

use crate::print::RecordPrinter;
use crate::schema::{N_OWN, RECORDS};
use crate::trace::{self, StreamTrace};
use quipu_model::align::{Run, align, forget_end};
use quipu_model::damaged::Reading;
use quipu_model::options::{Kind, OptionSpec};
use quipu_model::print::Ordinals;
use quipu_model::transform::{CompareJob, Compared, Comparison, Progress, TransformInfo};
use quipu_model::{Batch, Error, ErrorKind, Found, Paint, Printer, Reader, Result, Scan, ShardId, Trace};
use rustc_hash::FxHasher;
use serde_json::json;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};

/// The comparison for the list of formats.
#[derive(Debug)]
pub struct Diff;

const CONTEXT: OptionSpec =
    OptionSpec::new("context", Kind::Count, "3", "Number of equal records to show around differences.")
        .short('U');

static INFO: TransformInfo = TransformInfo {
    name: "diff",
    title: "which records of two streams differ, stream by stream",
    options: &[CONTEXT],
};

impl Comparison for Diff {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn run(&self, job: &CompareJob<'_>, progress: &dyn Progress, out: &mut dyn Write) -> Result<Compared> {
        let old = Side::open(trace::open(job.old, job.opening)?, progress)?;
        let new = Side::open(trace::open(job.new, job.opening)?, progress)?;
        let context = job.options.count(&CONTEXT);
        let mut show = Show { out, is_json: job.json, paint: job.paint, line: Vec::new() };
        if !job.json {
            show.write(format!("--- {}\n+++ {}\n", job.old.name(), job.new.name()).as_bytes())?;
        }
        let mut sum = Sum::default();
        let names: std::collections::BTreeSet<_> = old.streams.keys().chain(new.streams.keys()).collect();
        for name in names {
            progress.go_on()?;
            let nothing = Stream { shard: None, keys: Vec::new(), is_cut: false };
            let (a, b) =
                (old.streams.get(name).unwrap_or(&nothing), new.streams.get(name).unwrap_or(&nothing));
            let mut runs = align(&a.keys, &b.keys);
            forget_end(&mut runs, a.is_cut, b.is_cut);
            show.stream((&old.trace, a), (&new.trace, b), &runs, context, &mut sum)?;
        }
        show.summary(&sum)?;
        let is_same = sum.deleted == 0 && sum.inserted == 0;
        Ok(Compared { is_same, readings: [old.reading, new.reading] })
    }
}

/// Identifies a stream: the rank of its producer, and its number.
type Name = (usize, u32);

/// A stream of one of the traces.
struct Stream {
    /// `None` if the trace does not have this stream.
    shard: Option<ShardId>,
    /// A hash of the content of each record.
    keys: Vec<u64>,
    /// True if the stream could not be read to its end.
    is_cut: bool,
}

/// One of the two traces.
struct Side {
    trace: StreamTrace,
    streams: BTreeMap<Name, Stream>,
    reading: Reading,
}

impl Side {
    /// Reads and hashes all records of a trace.
    fn open(trace: StreamTrace, progress: &dyn Progress) -> Result<Side> {
        let mut found = Found::default();
        trace.meta().findings.iter().cloned().for_each(|finding| found.push(finding));
        let mut producers: Vec<u64> = Vec::new();
        let mut streams = BTreeMap::new();
        let mut error = None;
        for (shard, part) in trace.shards().iter().zip(trace.parts()) {
            let place = producers.iter().position(|known| *known == part.producer);
            let place = place.unwrap_or_else(|| {
                producers.push(part.producer);
                producers.len() - 1
            });
            let mut keys = Vec::new();
            let n_losses = found.as_slice().iter().filter(|finding| finding.loss.is_some()).count();
            let mut reader = reader(&trace, shard.id)?;
            let failed = loop {
                let batch = match reader.read() {
                    Ok(Some(batch)) => batch,
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                };
                progress.go_on()?;
                progress.advance(batch.span.records.into(), 0);
                batch.findings.drain(..).for_each(|finding| found.push(finding));
                if let Some(table) = batch.tables.first() {
                    keys.extend((0..table.n_rows()).map(|row| key(batch, row)));
                }
            };
            let n_more = found.as_slice().iter().filter(|finding| finding.loss.is_some()).count();
            let is_cut = failed.is_some() || n_more > n_losses;
            error = error.or(failed);
            streams.insert((place, part.stream), Stream { shard: Some(shard.id), keys, is_cut });
        }
        let reading =
            Reading { findings: found.into_vec(), error: error.map(Into::into), doubtful_from: None };
        Ok(Side { trace, streams, reading })
    }
}

fn reader(trace: &StreamTrace, shard: ShardId) -> Result<Box<dyn Reader>> {
    trace.scan(&Scan { tables: vec![RECORDS], ..Scan::new(shard) })
}

/// Hashes the content of a record: its schema and its text.
fn key(batch: &Batch, row: usize) -> u64 {
    let mut hasher = FxHasher::default();
    if let Some(table) = batch.tables.first() {
        for column in [N_OWN + 2, N_OWN + 3] {
            table.column(column).bytes(row).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Numbers of equal, deleted and inserted records.
#[derive(Default)]
struct Sum {
    same: u64,
    deleted: u64,
    inserted: u64,
}

#[cold]
fn failed(cause: io::Error) -> Error {
    Error::new(ErrorKind::Io, "cannot write the differences").because(cause)
}

/// Reads the records of a stream one by one.
struct Records {
    reader: Option<Box<dyn Reader>>,
    row: usize,
    n_rows: usize,
}

impl Records {
    fn new(trace: &StreamTrace, stream: &Stream) -> Result<Records> {
        let reader = stream.shard.map(|shard| reader(trace, shard)).transpose()?;
        Ok(Records { reader, row: 0, n_rows: 0 })
    }

    /// Passes the next record to `take`: its batch, and its row there.
    fn next(&mut self, take: impl FnOnce(&Batch, usize) -> Result<()>) -> Result<()> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        while self.row >= self.n_rows {
            // The first pass has reported read errors already.
            let Ok(Some(batch)) = reader.read() else { return Ok(()) };
            self.n_rows = batch.tables.first().map_or(0, |table| table.n_rows());
            self.row = 0;
        }
        self.row += 1;
        take(reader.batch(), self.row - 1)
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        (0..n).try_for_each(|_| self.next(|_, _| Ok(())))
    }
}

/// Writes differences as they are found.
struct Show<'o> {
    out: &'o mut dyn Write,
    is_json: bool,
    paint: Paint,
    line: Vec<u8>,
}

impl Show<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(failed)
    }

    /// Writes where two streams differ, with `context` equal records around each difference.
    fn stream(
        &mut self,
        (old_trace, old): (&StreamTrace, &Stream),
        (new_trace, new): (&StreamTrace, &Stream),
        runs: &[Run],
        context: u64,
        sum: &mut Sum,
    ) -> Result<()> {
        let (mut olds, mut news) = (Records::new(old_trace, old)?, Records::new(new_trace, new)?);
        for (at, run) in runs.iter().enumerate() {
            match *run {
                Run::Equal(n) => {
                    sum.same += n;
                    // JSON has no context records; text has none before the first run and after the last.
                    let after = if at > 0 && !self.is_json { context.min(n) } else { 0 };
                    let before =
                        if at + 1 < runs.len() && !self.is_json { context.min(n - after) } else { 0 };
                    let hidden = n - after - before;
                    (0..after).try_for_each(|_| olds.next(|batch, row| self.record(' ', batch, row)))?;
                    if hidden > 0 && !self.is_json && runs.len() > 1 {
                        self.write(format!("  … {hidden} equal\n").as_bytes())?;
                    }
                    olds.skip(hidden)?;
                    (0..before).try_for_each(|_| olds.next(|batch, row| self.record(' ', batch, row)))?;
                    news.skip(n)?;
                }
                Run::Delete(n) => {
                    sum.deleted += n;
                    (0..n).try_for_each(|_| olds.next(|batch, row| self.record('-', batch, row)))?;
                }
                Run::Insert(n) => {
                    sum.inserted += n;
                    (0..n).try_for_each(|_| news.next(|batch, row| self.record('+', batch, row)))?;
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, sign: char, batch: &Batch, row: usize) -> Result<()> {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        if let (true, Some(table)) = (self.is_json, batch.tables.first()) {
            let text = |column: usize| String::from_utf8_lossy(table.column(column).bytes(row));
            let number = |column: usize| table.column(column).number(row);
            let op = if sign == '-' { "deleted" } else { "inserted" };
            let object = json!({
                "op": op, "record": number(0), "time": number(1), "stream": number(N_OWN),
                "schema": text(N_OWN + 2), "text": text(N_OWN + 3),
            });
            line.extend_from_slice(format!("{object}\n").as_bytes());
        } else {
            line.extend_from_slice(format!("{sign} ").as_bytes());
            let row = [u32::try_from(row).unwrap_or(u32::MAX)];
            RecordPrinter.print(batch, &row, Ordinals::default(), &self.paint, &mut line);
        }
        let written = self.write(&line);
        self.line = line;
        written
    }

    fn summary(&mut self, sum: &Sum) -> Result<()> {
        let Sum { same, deleted, inserted } = sum;
        let text = match self.is_json {
            true => {
                let object =
                    json!({ "op": "summary", "same": same, "deleted": deleted, "inserted": inserted });
                format!("{object}\n")
            }
            false => format!("{same} equal, {deleted} only in the old, {inserted} only in the new\n"),
        };
        self.write(text.as_bytes())
    }
}
