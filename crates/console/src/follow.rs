//! Prints the records of a trace while it is being written.
//!
//! The trace is opened again and again. A trace inside a carrier has no index, so each look reads everything that was printed
//! before, too. Pauses are therefore at least as long as the looks, and a trace that has not grown is looked at less often.

use crate::screen::Result;
use quipu::engine::Watch;
use quipu::model::print::Ordinals;
use quipu::model::{Error, Found, Paint, Predicate, Printer, Scan, Shard, ShardId, Sieve, Trace, Window};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Shortest pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Number of pauses after which a trace is looked at even if its files seem unchanged.
const IDLE_PAUSES: u32 = 10;

/// Returns the number of the table to print, and a printer for its rows.
pub type PrinterOf<'j> = dyn Fn(&dyn Trace) -> Result<(usize, Box<dyn Printer>)> + 'j;

/// A growing trace in its current state.
pub struct Grown {
    /// The trace.
    pub trace: Box<dyn Trace>,
    /// Whether the carrier of the trace has ended; `None` if the trace has no carrier.
    pub carrier_has_ended: Option<bool>,
}

/// How to print the records of a growing trace.
pub struct FollowJob<'j> {
    /// Path of the trace.
    pub path: &'j Path,
    /// Opens the trace in its current state; `None` until something has been written.
    pub open: &'j dyn Fn() -> Result<Option<Grown>>,
    /// Chooses the table to print, and its printer.
    pub printer: &'j PrinterOf<'j>,
    /// Selects rows.
    pub predicate: Predicate,
    /// Colours of records.
    pub paint: Paint,
}

/// Result of following a trace.
#[derive(Default)]
pub struct Followed {
    /// Number of records read.
    pub records: u64,
    /// Number of instructions read.
    pub instrs: u64,
    /// Findings about the trace.
    pub found: Found,
    /// Error of the first part that could not be read to its end.
    pub error: Option<Error>,
    /// True if a signal ended it.
    pub cancelled: bool,
    /// Number of records that the user's options select, but that are only printed on request; 0 unless the trace ended.
    pub n_left_out: u64,
    /// The trace in its last state.
    pub trace: Option<Box<dyn Trace>>,
}

/// Identifies a shard across looks; its index may change when other shards appear.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Which {
    /// Key of a stream of rows.
    Keyed(u128),
    /// Name of a file.
    Named(String),
}

impl Which {
    fn of(shard: &Shard) -> Which {
        shard.key.map_or_else(|| Which::Named(shard.name.clone()), Which::Keyed)
    }
}

/// Changes when something is written: number of files, sum of their sizes, and time of the last modification.
type Stamp = (usize, u64, Option<SystemTime>);

fn stamp(path: &Path) -> Stamp {
    let mut stamp: Stamp = (0, 0, None);
    let mut add = |meta: fs::Metadata| {
        stamp = (stamp.0 + 1, stamp.1.saturating_add(meta.len()), stamp.2.max(meta.modified().ok()));
    };
    match fs::read_dir(path) {
        Ok(entries) => {
            entries.filter_map(|entry| entry.and_then(|entry| entry.metadata()).ok()).for_each(&mut add)
        }
        Err(_) => fs::metadata(path).into_iter().for_each(&mut add),
    }
    stamp
}

/// Prints the records of a trace as they are written, shard by shard in order, until its writer ends it or `watch` is
/// cancelled. For a trace with a carrier, findings are reported at the end.
///
/// # Errors
/// `Unsupported` if the format does not say where a trace ends; also errors of opening, printing and writing to `out`.
pub fn follow(job: &FollowJob<'_>, watch: &Watch, out: &mut dyn Write) -> Result<Followed> {
    let mut seen: BTreeMap<Which, u64> = BTreeMap::new();
    let mut followed = Followed::default();
    let mut buffer = Vec::new();
    let mut is_begun = false;
    // State of a carried trace at the last look.
    let mut known: Option<Stamp> = None;
    let mut n_idle = 0;
    loop {
        // Records written before the signal are still printed.
        let is_cancelled = watch.is_cancelled();
        let stamp = stamp(job.path);
        n_idle += 1;
        if known == Some(stamp) && n_idle < IDLE_PAUSES && !is_cancelled {
            std::thread::sleep(PAUSE);
            continue;
        }
        n_idle = 0;
        let look = Instant::now();
        let grown = (job.open)()?;
        known = grown.as_ref().and_then(|grown| grown.carrier_has_ended).map(|_| stamp);
        let is_over = match &grown {
            None => is_cancelled,
            Some(Grown { trace, carrier_has_ended }) => {
                let is_carried = carrier_has_ended.is_some();
                let Some(is_ended) = carrier_has_ended.or(trace.meta().is_ended) else {
                    return Err(cannot_follow(&**trace).into());
                };
                let (table, mut printer) = (job.printer)(&**trace)?;
                let is_last = is_ended || is_cancelled;
                let stops = || !is_cancelled && watch.is_cancelled();
                let mut look = Look {
                    job,
                    trace: &**trace,
                    table,
                    printer: &mut *printer,
                    is_continued: is_begun,
                    is_begun: &mut is_begun,
                    out: &mut *out,
                    buffer: &mut buffer,
                    stops: &stops,
                };
                let is_first = seen.is_empty();
                let is_stopped = match is_carried {
                    true => look.print_carried(&mut seen, is_last, is_ended, &mut followed)?,
                    false => look.print_rows(&mut seen, &mut followed)?,
                };
                look.begin_if(is_last || is_stopped);
                // Printers accumulate their own totals, so the summary at the end needs one that has seen all records.
                let is_told = match is_carried && !is_first {
                    true if is_ended && !is_stopped => {
                        let (_, mut anew) = (job.printer)(&**trace)?;
                        let is_told = look.tell(&mut *anew, &mut followed)?;
                        printer = anew;
                        is_told
                    }
                    is_later => !is_later && (is_last || is_stopped),
                };
                if is_told {
                    printer.end(&mut buffer);
                    followed.n_left_out = printer.n_left_out();
                }
                let is_stopped = is_stopped || is_ended && !is_told;
                followed.cancelled = is_stopped || is_cancelled && !is_ended;
                is_last || is_stopped
            }
        };
        out.write_all(&buffer)?;
        out.flush()?;
        buffer.clear();
        if is_over {
            followed.trace = grown.map(|grown| grown.trace);
            return Ok(followed);
        }
        let pause = if known.is_some() { PAUSE.max(look.elapsed()) } else { PAUSE };
        let begun = Instant::now();
        while begun.elapsed() < pause && !watch.is_cancelled() {
            std::thread::sleep(PAUSE.min(pause.saturating_sub(begun.elapsed())));
        }
    }
}

fn cannot_follow(trace: &dyn Trace) -> Error {
    let format = &trace.meta().format;
    let names = quipu::names_in_streams();
    Error::unsupported(format!("traces of format {format} do not say where they end"))
        .hint(format!("streams are followed: their rows, and traces of {} that stand in them; `quipu view` without --follow prints what is there so far", names.join(", ")))
}

/// One look at the trace, and the output for its records.
struct Look<'o> {
    job: &'o FollowJob<'o>,
    trace: &'o dyn Trace,
    table: usize,
    printer: &'o mut dyn Printer,
    /// Whether the header was printed: it is printed only once the format of the first record is known.
    is_begun: &'o mut bool,
    /// Whether an earlier printer has printed what this one would print before its first record.
    is_continued: bool,
    out: &'o mut dyn Write,
    buffer: &'o mut Vec<u8>,
    /// Whether to stop printing.
    stops: &'o dyn Fn() -> bool,
}

impl Look<'_> {
    fn begin_if(&mut self, is_time: bool) {
        if is_time && !std::mem::replace(self.is_begun, true) {
            self.printer.begin(self.buffer);
        }
    }

    fn scan(&self, shard: ShardId, tables: &[usize], records: Range<u64>) -> Scan {
        Scan { tables: tables.to_vec(), window: Window::Records(records), ..Scan::new(shard) }
    }

    /// Prints the rows that are new; true if a signal ended it.
    fn print_rows(&mut self, seen: &mut BTreeMap<Which, u64>, followed: &mut Followed) -> Result<bool> {
        for shard in self.trace.shards() {
            let n_seen = seen.entry(Which::of(shard)).or_default();
            let (n, is_stopped) = self.print(shard.id, *n_seen..u64::MAX, true, followed)?;
            *n_seen += n;
            if is_stopped {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Prints the records of a carried trace that are new, except those that may still change when more is written; true if a
    /// signal ended it.
    fn print_carried(
        &mut self,
        seen: &mut BTreeMap<Which, u64>,
        is_last: bool,
        is_ended: bool,
        followed: &mut Followed,
    ) -> Result<bool> {
        let is_first = seen.is_empty();
        for shard in self.trace.shards() {
            let n_seen = seen.entry(Which::of(shard)).or_default();
            let end = match is_last {
                true => u64::MAX,
                false => match self.settled(shard.id, *n_seen)? {
                    Some(n) => *n_seen + n,
                    None => return Ok(true),
                },
            };
            if end == *n_seen {
                continue;
            }
            // If there is only this look, it reports all findings.
            let (n, is_stopped) = self.print(shard.id, *n_seen..end, is_first && is_ended, followed)?;
            *n_seen += n;
            if is_stopped {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Number of records of a shard, counted from record `from`, that will not change whatever follows; `None` if a signal
    /// ended it.
    fn settled(&self, shard: ShardId, from: u64) -> Result<Option<u64>> {
        let mut reader = self.trace.scan(&self.scan(shard, &[self.table], from..u64::MAX))?;
        let (mut n, mut settled) = (0, 0);
        // An error at the current end may only be due to unwritten data.
        while let Ok(Some(batch)) = reader.read() {
            if (self.stops)() {
                return Ok(None);
            }
            let records = u64::from(batch.span.records);
            let calls = &batch.values.calls;
            settled = match calls.iter().rposition(|call| call.stream_bytes > 0) {
                // Calls that have not returned yet come last.
                Some(last) => n + last as u64 + 1,
                None if calls.is_empty() && records > 0 => n + records - 1,
                None => settled,
            };
            n += records;
        }
        Ok(Some(settled))
    }

    /// Reads the whole trace again, for all findings and for a printer that needs all records for its summary; false if a
    /// signal ended it.
    fn tell(&mut self, printer: &mut dyn Printer, followed: &mut Followed) -> Result<bool> {
        let (mut all, mut out, mut buffer, mut is_begun) =
            (Followed::default(), std::io::sink(), Vec::new(), true);
        let mut again = Look {
            printer,
            is_begun: &mut is_begun,
            is_continued: false,
            out: &mut out,
            buffer: &mut buffer,
            job: self.job,
            trace: self.trace,
            table: self.table,
            stops: self.stops,
        };
        for shard in self.trace.shards() {
            if again.print(shard.id, 0..u64::MAX, true, &mut all)?.1 {
                return Ok(false);
            }
        }
        (followed.found, followed.error) = (all.found, all.error);
        Ok(true)
    }

    /// Prints records of a shard; returns their number, and whether a signal ended it. The output of each batch is written
    /// before the next is read, since the first look may find a great many records.
    fn print(
        &mut self,
        shard: ShardId,
        records: Range<u64>,
        tells: bool,
        followed: &mut Followed,
    ) -> Result<(u64, bool)> {
        let mut sieve = Sieve::new(&self.job.predicate, self.trace, self.table)?;
        let tables: Vec<usize> = std::iter::once(self.table).chain(sieve.tables()).collect();
        let mut reader = self.trace.scan(&self.scan(shard, &tables, records))?;
        let (mut rows, mut n) = (Vec::new(), 0);
        loop {
            if (self.stops)() {
                return Ok((n, true));
            }
            let batch = match reader.read() {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(error) => {
                    if tells {
                        followed.error.get_or_insert(error);
                    }
                    break;
                }
            };
            if !batch.tables.is_empty() {
                self.begin_if(batch.span.records > 0);
                if std::mem::take(&mut self.is_continued) {
                    let mut known = Vec::new();
                    self.printer.print(batch, &[], Ordinals::default(), &self.job.paint, &mut known);
                }
                // Records are numbered in the order of printing.
                let ordinals = Ordinals {
                    records: followed.records.wrapping_sub(batch.span.first_record),
                    instrs: followed.instrs.wrapping_sub(batch.span.first_instr),
                };
                sieve.choose(batch, ordinals, &mut rows)?;
                self.printer.print(batch, &rows, ordinals, &self.job.paint, self.buffer);
            }
            if tells {
                batch.findings.drain(..).for_each(|finding| followed.found.push(finding));
            }
            n += u64::from(batch.span.records);
            followed.records += u64::from(batch.span.records);
            followed.instrs += u64::from(batch.span.instrs);
            self.out.write_all(self.buffer)?;
            self.buffer.clear();
        }
        Ok((n, false))
    }
}
