//! Printing of records to a stream: one thread reads, another selects rows and prints them into large buffers, a third one
//! writes.
//!
//! All verbs and output forms print records in this way: with the trace's own [`Printer`], or with another one that is passed
//! to [`PrintJob::new`], such as that for JSON lines or CSV of any table.
//!
//! Writing to a pipe waits for its reader; because a separate thread writes, printing need not wait.

use crate::feed::is_misuse;
use crate::merge::Merge;
use crate::relay::{Arrivals, relay};
use crate::watch::Watch;
use quipu_model::trace::PrintOptions;
use quipu_model::{
    Error, ErrorKind, Finding, Found, Paint, Printer, Scan, Severity, ShardId, Sieve, ThreadId, Trace, Window,
};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Size at which a buffer is handed to the writer.
const BUFFER_BYTES: usize = 256 << 10;

/// Maximum number of full buffers that wait for the writer.
const MAX_WAITING: usize = 2;

/// A request to print: rows, window and form.
pub struct PrintJob<'p> {
    /// The table whose rows are printed, by position.
    pub table: usize,
    /// Selects the rows.
    pub sieve: Sieve,
    /// The part of the trace to print.
    pub window: Window,
    /// Writes the rows.
    pub printer: Box<dyn Printer>,
    /// Colour sequences for records.
    pub paint: Paint,
    /// Whether the first error in the trace ends printing.
    pub strict: bool,
    /// Whether people are watching the output, so that no line may wait for others.
    pub is_prompt: bool,
    /// Maximum number of records to read. Those that a skip invents do not count.
    pub limit: Option<u64>,
    /// Maximum number of rows to print, of those that are selected.
    pub most_rows: Option<u64>,
    /// Threads that were asked for and should have records.
    pub awaited: &'p [ThreadId],
}

/// The given printer, or else the trace's own with these options.
///
/// # Errors
/// `Usage` for options that the trace's printer does not have.
pub fn or_own(
    printer: Option<Box<dyn Printer>>,
    trace: &dyn Trace,
    options: &PrintOptions,
) -> quipu_model::Result<Box<dyn Printer>> {
    printer.map_or_else(|| trace.printer(options), Ok)
}

impl PrintJob<'_> {
    /// Prints all rows of a table with this printer, or with the trace's own and these options if it is `None`.
    ///
    /// # Errors
    /// `Usage` for options that the trace's printer does not have.
    pub fn new(
        trace: &dyn Trace,
        table: usize,
        options: &PrintOptions,
        printer: Option<Box<dyn Printer>>,
    ) -> quipu_model::Result<Self> {
        Ok(PrintJob {
            table,
            sieve: Sieve::default(),
            window: Window::All,
            printer: or_own(printer, trace, options)?,
            paint: Paint::PLAIN,
            strict: false,
            is_prompt: false,
            limit: None,
            most_rows: None,
            awaited: &[],
        })
    }

    /// The read that the job needs.
    pub fn scan(&self) -> Scan {
        let tables = std::iter::once(self.table).chain(self.sieve.tables()).collect();
        Scan { tables, window: self.window.clone(), ahead: true, ..Scan::new(ShardId(0)) }
    }
}

/// The place from which printed records are doubtful.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubtful {
    /// The damaged file; `None` if records of all files are counted.
    pub file: Option<String>,
    /// Number of records in the file (or in all) before the damage.
    pub from: u64,
}

/// The result of printing.
#[derive(Debug, Default)]
pub struct Shown {
    /// Number of records read.
    pub records: u64,
    /// Whether any of them was printed.
    pub has_printed: bool,
    /// Number of selected rows that are only printed on request.
    pub left_out: u64,
    /// Findings about the trace.
    pub found: Found,
    /// The error of the first shard that could not be read to its end.
    pub error: Option<Error>,
    /// Whether printing was cancelled, for example by a signal.
    pub cancelled: bool,
    /// Whether printing stopped where bytes of the container proved damaged.
    pub is_stopped: bool,
    /// The place of the first damage; `None` if there is none, or if its place is unknown.
    pub doubtful: Option<Doubtful>,
    /// Expected threads without records; empty if the consumer of the output stopped reading.
    pub absent: Vec<ThreadId>,
    /// Text that the printer ends with, for the caller to write.
    pub end: Vec<u8>,
}

impl Shown {
    /// Keeps the first damage, unless a later one reaches further back in the same file: a wrong checksum makes everything it
    /// covers doubtful, including earlier oddities there.
    fn doubt(&mut self, here: Doubtful) {
        let is_before = |first: &Doubtful| here.file == first.file && here.from < first.from;
        if self.doubtful.as_ref().is_none_or(is_before) {
            self.doubtful = Some(here);
        }
    }
}

/// The reason why printing failed.
#[derive(Debug)]
pub enum Unprinted {
    /// Reading failed, or something that was asked for does not exist.
    Trace(Error),
    /// Writing to the output failed.
    Output(io::Error),
}

impl From<Error> for Unprinted {
    fn from(error: Error) -> Unprinted {
        Unprinted::Trace(error)
    }
}

impl From<io::Error> for Unprinted {
    fn from(error: io::Error) -> Unprinted {
        Unprinted::Output(error)
    }
}

/// Prints the selected rows of a merge, which reads the [scan](PrintJob::scan) of the job, to `out`. After each batch, calls
/// `progress` with the number of records so far and the share of the whole, if known.
///
/// # Errors
/// An error that ends reading, or an error of writing to `out`.
pub fn print(
    mut job: PrintJob<'_>,
    merge: Merge<'_>,
    watch: &Watch,
    out: impl Write + Send,
    progress: &mut dyn FnMut(u64, Option<f64>),
) -> Result<Shown, Unprinted> {
    std::thread::scope(|scope| {
        let (full, to_write) = sync_channel(MAX_WAITING);
        let (written, free) = channel();
        let writer = scope.spawn(move || write_all(out, &to_write, &written));
        let (departures, arrivals) = relay(None);
        let reader = scope.spawn(move || departures.read_all(merge));
        let mut buffers = Buffers { current: Vec::new(), full, free, is_prompt: job.is_prompt };
        let shown = fill(arrivals, &mut job, watch, &mut buffers, progress);
        buffers.send();
        drop(buffers);
        let died = |what: &str| Error::new(ErrorKind::Internal, format!("the {what} thread died"));
        reader.join().map_err(|_| died("reading"))?;
        writer.join().map_err(|_| died("writing"))??;
        let mut shown = shown?;
        shown.left_out = job.printer.n_left_out();
        job.printer.end(&mut shown.end);
        shown.error = shown.error.or(job.printer.failure());
        Ok(shown)
    })
}

/// Buffers that circulate between the printing and the writing thread.
struct Buffers {
    current: Vec<u8>,
    full: SyncSender<Vec<u8>>,
    free: Receiver<Vec<u8>>,
    /// Whether people are watching the output, so that lines must not wait.
    is_prompt: bool,
}

impl Buffers {
    /// Hands the current buffer to the writer if it is due; false if the writer accepts no more.
    fn pass_on(&mut self) -> bool {
        let is_due = self.current.len() >= BUFFER_BYTES || self.is_prompt;
        !is_due || self.send()
    }

    fn send(&mut self) -> bool {
        let mut next = self.free.try_recv().unwrap_or_default();
        next.clear();
        let full = std::mem::replace(&mut self.current, next);
        full.is_empty() || self.full.send(full).is_ok()
    }
}

fn write_all(mut out: impl Write, full: &Receiver<Vec<u8>>, written: &Sender<Vec<u8>>) -> io::Result<()> {
    for buffer in full {
        out.write_all(&buffer)?;
        out.flush()?;
        // The last buffers are not taken back.
        let _ = written.send(buffer);
    }
    Ok(())
}

/// True if reading continues within the same file or member, because only the file that carries it has lost a part.
fn is_lost_within(finding: &Finding) -> bool {
    let resumed = finding.loss.as_ref().and_then(|loss| loss.resumed.as_ref());
    resumed.is_some_and(|resumed| {
        resumed.offset.is_some()
            && (&resumed.file, &resumed.member) == (&finding.place.file, &finding.place.member)
    })
}

/// Prints to the end, or until the consumer of the output stops reading. The writer reports failed writes.
fn fill(
    mut arrivals: Arrivals,
    job: &mut PrintJob<'_>,
    watch: &Watch,
    buffers: &mut Buffers,
    progress: &mut dyn FnMut(u64, Option<f64>),
) -> quipu_model::Result<Shown> {
    let mut shown = Shown::default();
    let mut absent = job.awaited.to_vec();
    let mut rows = Vec::new();
    let mut left = job.limit.unwrap_or(u64::MAX);
    // Number of rows that may still be printed.
    let mut room = job.most_rows.unwrap_or(u64::MAX);
    job.printer.begin(&mut buffers.current);
    while left > 0 && room > 0 && !job.printer.is_done() && !watch.is_cancelled() && !shown.is_stopped {
        let mut parcel = match arrivals.next() {
            Ok(Some(parcel)) => parcel,
            Ok(None) => break,
            Err(error) if job.strict || is_misuse(&error) => return Err(error),
            Err(error) => {
                if error.is_damage() {
                    let place = error.place();
                    let of_file = |from| Doubtful { file: place.file.clone(), from };
                    shown.doubt(match place.record {
                        _ if error.is_of_container() => of_file(0),
                        Some(n_good) => of_file(n_good),
                        None => Doubtful { file: None, from: shown.records },
                    });
                }
                shown.error.get_or_insert(error);
                continue;
            }
        };
        let (batch, records, share) = (&parcel.batch, parcel.records.clone(), parcel.share);
        if batch.span.records > 0 {
            absent.retain(|thread| *thread != batch.span.thread);
        }
        // The container's checksum is wrong, or its bytes cannot be inflated, right before this batch. Verbs that only count
        // may read what follows, but one whose output is consumed while it is written must not. A loss in a file that carries
        // the trace is different: the records before and after it are sound.
        let is_damage = |finding: &Finding| {
            finding.is_of_container() && finding.severity == Severity::Error && !is_lost_within(finding)
        };
        shown.is_stopped = batch.findings.iter().any(is_damage);
        if let Some(table) = batch.tables.first().filter(|_| !shown.is_stopped) {
            // Conditions on positions refer to the ordinals that are printed.
            job.sieve.choose(batch, parcel.ordinals, &mut rows)?;
            let is_part = records != (0..batch.span.records) || job.limit.is_some();
            // A skip invents rows, so there are more of them than records in the batch, and none of them counts.
            if is_part && table.n_rows() <= batch.span.records as usize {
                let end = u64::from(records.end).min(u64::from(records.start).saturating_add(left));
                rows.retain(|&row| row >= records.start && u64::from(row) < end);
                left -= end - u64::from(records.start);
            }
            if job.most_rows.is_some() {
                job.printer.choose(batch, &mut rows, usize::try_from(room).unwrap_or(usize::MAX));
                room = room.saturating_sub(rows.len() as u64);
            }
            let n_bytes = buffers.current.len();
            job.printer.print(batch, &rows, parcel.ordinals, &job.paint, &mut buffers.current);
            // The printer may leave rows out, such as calls of other frames.
            shown.has_printed |= buffers.current.len() > n_bytes;
            if let Some(error) = job.printer.failure() {
                return Err(error);
            }
        }
        for finding in parcel.batch.findings.drain(..) {
            if job.strict && finding.severity == Severity::Error {
                return Err(finding.to_error());
            }
            if finding.severity == Severity::Error {
                let place = &finding.place;
                let from = finding.doubtful_from.or(place.record);
                if let Some(from) = from {
                    shown.doubt(Doubtful { file: place.file.clone(), from });
                }
            }
            shown.found.push(finding);
        }
        arrivals.give_back(parcel);
        shown.records += if shown.is_stopped { 0 } else { records.len() as u64 };
        // If only a few records of a large trace were asked for, those few are the whole.
        let of_limit = job.limit.filter(|limit| *limit > 0).map(|limit| shown.records as f64 / limit as f64);
        progress(shown.records, share.into_iter().chain(of_limit).reduce(f64::max));
        if !buffers.pass_on() {
            return Ok(shown);
        }
    }
    shown.cancelled = watch.is_cancelled();
    // Without room for more rows, the rest was not read, and may have what is missing.
    let is_read = room > 0 && !job.printer.is_done();
    if !shown.cancelled && shown.error.is_none() && !shown.is_stopped && is_read {
        shown.absent = absent;
    }
    Ok(shown)
}
