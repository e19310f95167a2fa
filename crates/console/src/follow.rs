//! Printing a trace that is still being written: its records as they come.

use crate::screen::Result;
use quipu::engine::Watch;
use quipu::model::print::Ordinals;
use quipu::model::{Error, Found, Paint, Predicate, Printer, Scan, ShardId, Sieve, Trace, Window};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// How long to wait before the trace is looked at again.
const PAUSE: Duration = Duration::from_millis(200);

/// Gives the number of the table that is printed, and a printer of its rows.
pub type PrinterOf<'j> = dyn Fn(&dyn Trace) -> Result<(usize, Box<dyn Printer>)> + 'j;

/// How records of a growing trace are printed.
pub struct FollowJob<'j> {
    /// Opens the trace as it is now; `None` while nothing of it was written.
    pub open: &'j dyn Fn() -> Result<Option<Box<dyn Trace>>>,
    /// The table whose rows are printed, and what prints them.
    pub printer: &'j PrinterOf<'j>,
    /// Which rows.
    pub predicate: Predicate,
    /// Whether records have colours.
    pub paint: Paint,
}

/// What came of following.
#[derive(Default)]
pub struct Followed {
    /// How many records were read.
    pub records: u64,
    /// What was found wrong with the trace.
    pub found: Found,
    /// The first part that could not be read to its end.
    pub error: Option<Error>,
    /// A signal ended it.
    pub cancelled: bool,
    /// The trace as it was at the end.
    pub trace: Option<Box<dyn Trace>>,
}

/// Prints the records of a trace as they are written, those of each shard in their order, until its writer has ended it or the
/// watch is cancelled.
///
/// # Errors
/// `Unsupported` if traces of its format do not say where they end; what opening, printing and `out` say.
pub fn follow(job: &FollowJob<'_>, watch: &Watch, out: &mut dyn Write) -> Result<Followed> {
    let mut seen: BTreeMap<ShardId, u64> = BTreeMap::new();
    let mut followed = Followed::default();
    let mut buffer = Vec::new();
    let mut is_begun = false;
    loop {
        // What was written before the signal is printed.
        let is_cancelled = watch.is_cancelled();
        let trace = (job.open)()?;
        let is_over = match &trace {
            None => is_cancelled,
            Some(trace) => {
                let Some(is_ended) = trace.meta().is_ended else {
                    let what = format!("traces of format {} do not say where they end", trace.meta().format);
                    return Err(Error::unsupported(what).into());
                };
                let (table, mut printer) = (job.printer)(&**trace)?;
                if !std::mem::replace(&mut is_begun, true) {
                    printer.begin(&mut buffer);
                }
                let stops = || !is_cancelled && watch.is_cancelled();
                let mut output = Output { out: &mut *out, buffer: &mut buffer, stops: &stops };
                let is_stopped =
                    print_new(job, &**trace, (table, &mut *printer), &mut seen, &mut followed, &mut output)?;
                if is_ended || is_cancelled || is_stopped {
                    printer.end(&mut buffer);
                }
                followed.cancelled = is_stopped || is_cancelled && !is_ended;
                is_ended || is_cancelled || is_stopped
            }
        };
        out.write_all(&buffer)?;
        out.flush()?;
        buffer.clear();
        if is_over {
            followed.trace = trace;
            return Ok(followed);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Where records are printed to.
struct Output<'o> {
    out: &'o mut dyn Write,
    buffer: &'o mut Vec<u8>,
    /// Whether no more is to be printed.
    stops: &'o dyn Fn() -> bool,
}

/// Prints the records that were not there before; true if a signal ended it. What is printed of a batch is written before the
/// next is read: the first look finds all that was written so far, which may be very much.
fn print_new(
    job: &FollowJob<'_>,
    trace: &dyn Trace,
    (table, printer): (usize, &mut dyn Printer),
    seen: &mut BTreeMap<ShardId, u64>,
    followed: &mut Followed,
    output: &mut Output<'_>,
) -> Result<bool> {
    let mut sieve = Sieve::new(&job.predicate, trace, table)?;
    let tables: Vec<usize> = std::iter::once(table).chain(sieve.tables()).collect();
    let mut rows = Vec::new();
    for shard in trace.shards() {
        let n_seen = seen.entry(shard.id).or_default();
        let window = Window::Records(*n_seen..u64::MAX);
        let mut reader = trace.scan(&Scan { tables: tables.clone(), window, ..Scan::new(shard.id) })?;
        loop {
            if (output.stops)() {
                return Ok(true);
            }
            let batch = match reader.read() {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(error) => {
                    followed.error.get_or_insert(error);
                    break;
                }
            };
            if !batch.tables.is_empty() {
                // Records are numbered in the order in which they are printed.
                let ordinals = Ordinals {
                    records: followed.records.wrapping_sub(batch.span.first_record),
                    ..Ordinals::default()
                };
                sieve.choose(batch, ordinals, &mut rows)?;
                printer.print(batch, &rows, ordinals, &job.paint, output.buffer);
            }
            batch.findings.drain(..).for_each(|finding| followed.found.push(finding));
            *n_seen += u64::from(batch.span.records);
            followed.records += u64::from(batch.span.records);
            output.out.write_all(output.buffer)?;
            output.buffer.clear();
        }
    }
    Ok(false)
}
