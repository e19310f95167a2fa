//! Reads traces with progress and signals, and reports what was not read.

use crate::screen::{Outcome, Result, Screen, Stop};
use crate::{Common, input, terminal};
use quipu::engine::{self, Division, KeptAccesses, Planned, RunOptions, Watch, WindowOf};
use quipu::model::damaged::Reading;
use quipu::model::result;
use quipu::model::{Error, ErrorKind, Finding, Found, Lost, Scan, Severity, ThreadId, Trace, Window};
use quipu_view::{Progress, bytes_text, grouped, ticks_text};
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The watch that signals cancel. A process has one signal handler, so there is one such watch.
static WATCH: Watch = Watch::new();

/// Interval at which the progress line is updated.
const GLANCE: Duration = Duration::from_millis(100);

/// Time after which work that shares its terminal with a program says for the first time how far it is.
const FIRST_REPORT: Duration = Duration::from_secs(2);

/// Number of running pieces of work that check the watch.
static N_WATCHING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Watch that replaces the global one for work of this thread.
    static OWN_WATCH: RefCell<Option<Arc<Watch>>> = const { RefCell::new(None) };
}

/// Runs work for a program without a command line: [`watched`] calls inside use this watch, which signals do not reach, and
/// show no progress.
pub fn watched_by<T>(watch: &Arc<Watch>, work: impl FnOnce() -> T) -> T {
    let before = OWN_WATCH.replace(Some(watch.clone()));
    let done = work();
    OWN_WATCH.set(before);
    done
}

/// Installs the handler of SIGINT, SIGTERM and SIGHUP. Work that checks the watch is cancelled and returns partial results;
/// other work, or a second signal, ends the process at once by the signal, after removing unfinished files.
pub fn catch_signals() {
    // Without a handler, signals still end the program, but leave unfinished files.
    let _ = quipu_capture::signals::on_ending(|signal| {
        if N_WATCHING.load(Ordering::Relaxed) > 0 && !WATCH.is_cancelled() {
            WATCH.cancel();
            return;
        }
        quipu::source::remove_temporaries();
        quipu_capture::signals::end_by(signal);
    });
}

/// Runs work that updates its watch, with a progress line. A terminating signal cancels the watch.
pub fn watched<T>(screen: &Screen, work: impl FnOnce(&Watch) -> T) -> T {
    if let Some(own) = OWN_WATCH.with_borrow(Clone::clone) {
        return work(&own);
    }
    N_WATCHING.fetch_add(1, Ordering::Relaxed);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let painter = scope.spawn(|| {
            let mut line = if screen.is_quiet() { Progress::hidden() } else { Progress::on_terminal() };
            while !is_done.load(Ordering::Relaxed) {
                let progress = WATCH.progress();
                let share =
                    progress.total_packed_bytes.map(|total| progress.packed_bytes as f64 / total as f64);
                // Work that counts no records shows its own progress.
                if progress.records > 0 {
                    line.show(progress.records, share);
                }
                std::thread::park_timeout(GLANCE);
            }
        });
        let done = work(&WATCH);
        is_done.store(true, Ordering::Relaxed);
        N_WATCHING.fetch_sub(1, Ordering::Relaxed);
        painter.thread().unpark();
        done
    })
}

/// Runs work that a terminating signal cancels, without a progress line.
pub fn cancellable<T>(work: impl FnOnce(&Watch) -> T) -> T {
    if let Some(own) = OWN_WATCH.with_borrow(Clone::clone) {
        return work(&own);
    }
    N_WATCHING.fetch_add(1, Ordering::Relaxed);
    let done = work(&WATCH);
    N_WATCHING.fetch_sub(1, Ordering::Relaxed);
    done
}

/// Runs work that shares its terminal with another program, which may print at any time, so that no line can be drawn over.
/// Instead, `now` is printed as a line of its own, at intervals that double; only if standard error is a terminal.
pub fn reported<T>(screen: &Screen, now: impl Fn(Duration) -> String + Sync, work: impl FnOnce() -> T) -> T {
    if screen.is_quiet() || !terminal::stderr().is_terminal() {
        return work();
    }
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let speaker = scope.spawn(|| {
            let (started, mut next) = (Instant::now(), FIRST_REPORT);
            while !is_done.load(Ordering::Relaxed) {
                let elapsed = started.elapsed();
                match next.checked_sub(elapsed) {
                    Some(left) if !left.is_zero() => std::thread::park_timeout(left),
                    _ => {
                        screen.say(format_args!("{}", now(elapsed)));
                        next *= 2;
                    }
                }
            }
        });
        let done = work();
        is_done.store(true, Ordering::Relaxed);
        speaker.thread().unpark();
        done
    })
}

/// The part of a trace to analyse, and how strictly.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The window of records to read.
    pub window: Window,
    /// The sequence along which the window counts.
    pub window_of: WindowOf,
    /// Maximum number of records to read of each shard.
    pub most_records: u64,
    /// Whether `most_records` applies to each core or to all cores in turn, if cores run side by side.
    pub most_records_of: WindowOf,
    /// Whether to stop at the first error.
    pub strict: bool,
    /// Whether the trace itself leaves out records, those not between marks.
    pub is_part: bool,
    /// The threads to select if shards mix threads; all if empty.
    pub threads: Vec<ThreadId>,
    /// The accesses to analyse; all if `None`.
    pub accesses_kept: Option<Arc<KeptAccesses>>,
    /// The parts with results of their own.
    pub division: Division,
}

impl Default for Extent {
    fn default() -> Extent {
        Extent {
            window: Window::All,
            window_of: WindowOf::Sequence,
            most_records: u64::MAX,
            most_records_of: WindowOf::EachShard,
            strict: false,
            is_part: false,
            threads: Vec::new(),
            accesses_kept: None,
            division: Division::default(),
        }
    }
}

/// Runs all analyses over a trace in one pass.
pub fn analyse(
    trace: &dyn Trace,
    planned: Vec<Planned>,
    extent: &Extent,
    common: &Common,
    screen: &Screen,
) -> Result<engine::Outcome> {
    let started = Instant::now();
    let outcome = watched(screen, |watch| {
        let threads = common.threads.map_or(0, usize::from);
        engine::run(
            trace,
            planned,
            &RunOptions {
                threads,
                strict: extent.strict,
                window: extent.window.clone(),
                window_of: extent.window_of,
                most_records: extent.most_records,
                most_records_of: extent.most_records_of,
                threads_wanted: extent.threads.clone(),
                accesses_kept: extent.accesses_kept.as_deref(),
                division: extent.division,
                watch,
            },
        )
    })?;
    if outcome.error.is_none() && !outcome.cancelled {
        let is_part = extent.is_part || extent.window != Window::All || extent.most_records != u64::MAX;
        input::check_present(trace, &extent.threads, &outcome.absent_threads, is_part)?;
    }
    if common.verbose {
        say_speed(outcome.records, trace.meta().inflated_bytes, started.elapsed(), screen);
    }
    Ok(outcome)
}

/// Prints how much was read, and how fast.
pub fn say_speed(records: u64, inflated_bytes: Option<u64>, elapsed: Duration, screen: &Screen) {
    let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    let rate = (records as f64 / elapsed.as_secs_f64().max(1e-9)) as u64; // Three digits suffice.
    let inflated =
        inflated_bytes.map(|bytes| format!(" ({} inflated)", bytes_text(bytes))).unwrap_or_default();
    screen.say(format_args!(
        "read {} records{inflated} in {}: {} records/s",
        grouped(records),
        ticks_text(micros, 1_000_000),
        grouped(rate)
    ));
}

/// The consequence of a loss for numbers, as part of a message.
const OF_NUMBERS: &str = "the numbers below are about the rest";
/// The consequence of a loss for a written file.
pub const OF_A_FILE: &str = "what was written is the rest";
/// The consequence of a loss for printed records.
pub const OF_RECORDS: &str = "what was printed is the rest";

/// How reading a trace went: findings, and whether all of it was read. All verbs report this through here.
#[derive(Debug)]
pub struct Verdict {
    /// Findings about the trace.
    pub findings: Vec<Finding>,
    /// Why reading ended early, if it did.
    pub error: Option<Arc<Error>>,
    /// Whether a signal ended reading.
    pub cancelled: bool,
    /// The consequence of a loss for the answer, as part of a message.
    pub meaning: &'static str,
    /// Whether the loss was reported.
    pub is_lost_said: Cell<bool>,
}

impl Default for Verdict {
    fn default() -> Verdict {
        Verdict {
            findings: Vec::new(),
            error: None,
            cancelled: false,
            meaning: OF_NUMBERS,
            is_lost_said: Cell::new(false),
        }
    }
}

impl From<Reading> for Verdict {
    /// The verdict on reading for an output.
    fn from(reading: Reading) -> Verdict {
        let Reading { findings, error, .. } = reading;
        Verdict { findings, error, meaning: OF_A_FILE, ..Verdict::default() }
    }
}

impl Verdict {
    /// Combines the findings from opening `trace` with those from reading it.
    pub fn new(trace: &dyn Trace, found: Found, error: Option<Error>, cancelled: bool) -> Verdict {
        let mut all = Found::default();
        // The carrier of a trace is examined when the trace is opened, and reading may run into the same fault.
        let is_met = |finding: &&Finding| {
            found.as_slice().iter().any(|known| known.is_same_fault(finding))
                || error.as_ref().is_some_and(|error| error.is_same_fault(finding))
        };
        let opening = trace.meta().findings.iter().filter(|finding| !is_met(finding));
        opening.cloned().for_each(|finding| all.push(finding));
        found.into_vec().into_iter().for_each(|finding| all.push(finding));
        Verdict { findings: all.into_vec(), error: error.map(Arc::new), cancelled, ..Verdict::default() }
    }

    /// Sets the consequence of a loss for the answer.
    pub fn meaning(self, meaning: &'static str) -> Verdict {
        Verdict { meaning, ..self }
    }

    /// The verdict on a completed read.
    pub fn of(found: Found) -> Verdict {
        Verdict { findings: found.into_vec(), ..Verdict::default() }
    }

    /// Combines the verdicts on two reads of the same trace, without duplicate findings.
    pub fn and(mut self, other: Verdict) -> Verdict {
        let lost = self.lost();
        let new = other.findings.into_iter().filter(|finding| !self.findings.contains(finding));
        let new: Vec<Finding> = new.collect();
        self.findings.extend(new);
        let both = Verdict {
            findings: self.findings,
            error: self.error.or(other.error),
            cancelled: self.cancelled || other.cancelled,
            ..self
        };
        // A loss that only the later read found was not reported yet.
        both.is_lost_said.set(both.is_lost_said.get() && both.lost() == lost);
        both
    }

    /// True if all records were read.
    pub fn is_complete(&self) -> bool {
        !self.cancelled && self.error.is_none()
    }

    /// True if the answer covers the whole trace, and no error affects it.
    pub fn is_of_whole(&self) -> bool {
        let is_error = |finding: &Finding| finding.severity == Severity::Error;
        self.is_complete() && !self.findings.iter().any(is_error)
    }

    /// The part of the trace that is missing in the answer.
    pub fn lost(&self) -> Lost {
        Lost::of(&self.findings, self.error.as_deref())
    }

    /// Reports the loss on standard error, once. It precedes the answer, because it says what the answer covers.
    pub fn say_lost(&self, screen: &Screen) {
        let lost = self.lost();
        if !lost.is_nothing() && !self.is_lost_said.replace(true) {
            say_lost(&lost, self.needs_newer(), self.meaning, screen);
        }
    }

    /// True if a newer program could continue where reading stopped.
    fn needs_newer(&self) -> bool {
        let of_error = self.error.as_ref().is_some_and(|error| error.needs_newer());
        of_error || self.findings.iter().any(Finding::needs_newer)
    }

    /// True if reporting `other` would add nothing.
    pub fn says_the_same_as(&self, other: &Verdict) -> bool {
        let text = |verdict: &Verdict| verdict.error.as_ref().map(|error| error.to_string());
        self.findings == other.findings && text(self) == text(other) && self.lost() == other.lost()
    }

    /// Reports on standard error: the loss, unless it was reported before the answer, and all findings and errors.
    pub fn tell(&self, screen: &Screen) -> Outcome {
        self.say_lost(screen);
        let mut outcome = screen.findings(&self.findings);
        if let Some(error) = &self.error {
            screen.complain(error);
            outcome = outcome.and(Outcome::of_flaw(error.needs_newer()));
        }
        if self.cancelled {
            screen.say(format_args!("interrupted: the answer is about the part that was read"));
            outcome = outcome.and(Outcome::Flawed);
        }
        outcome
    }

    /// The error that ended reading as JSON; `null` if there is none.
    pub fn error_json(&self) -> Value {
        self.error.as_deref().map(error_json).into()
    }

    /// Adds the keys `complete`, `error` (or `null`), `findings` and `lost` to an answer.
    pub fn add_to(&self, answer: &mut serde_json::Map<String, Value>) {
        answer.insert("complete".into(), self.is_complete().into());
        add_reading(&self.findings, self.error.as_deref(), answer);
    }
}

/// The stop of a verb that does not apply to a trace. If damage was found when the trace was opened, it may be the reason,
/// and is reported first.
#[cold]
pub fn not_for(error: Error, found: &[Finding]) -> Stop {
    let damage: Vec<Finding> = found.iter().filter(|finding| finding.is_damage()).cloned().collect();
    match damage.is_empty() || !is_about_trace(&error) {
        true => error.into(),
        false => Stop::Damage(error.after(damage), "there is no answer"),
    }
}

/// Does the same with an open trace. If opening had warnings, the trace is also read for damage, since descriptions of its
/// records may be lost.
#[cold]
pub fn not_for_trace(error: Error, trace: &dyn Trace, screen: &Screen) -> Stop {
    let opening = &trace.meta().findings;
    let is_odd = opening.iter().any(|finding| finding.severity >= Severity::Warning);
    if !is_odd || !is_about_trace(&error) {
        return not_for(error, opening);
    }
    let (mut found, mut ends) = (Found::default(), Vec::new());
    watched(screen, |watch| {
        for shard in trace.shards() {
            let scan = Scan::new(shard.id).columns(trace.columns());
            let read = trace
                .scan(&scan)
                .and_then(|mut reader| found.read_until(&mut *reader, &|| watch.is_cancelled(), |_| Ok(())));
            ends.extend(read.err().filter(Error::is_damage));
        }
    });
    ends.iter().map(Finding::of_end).for_each(|end| found.push(end));
    not_for(error, &Verdict::new(trace, found, None, false).findings)
}

/// True for errors that damage to a trace may cause.
fn is_about_trace(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Missing | ErrorKind::Unsupported | ErrorKind::Usage)
}

/// Reports that a verb ended without an answer because of damage: the loss, the findings and the error. With `answer`,
/// programs get a JSON object: the keys of `answer`, and how reading went.
pub fn tell_undone(
    error: &Error,
    meaning: &str,
    answer: Option<Map<String, Value>>,
    screen: &Screen,
) -> ExitCode {
    let needs_newer = error.needs_newer();
    say_lost(&Lost::of(&[], Some(error)), needs_newer, meaning, screen);
    screen.complain(error);
    if let Some(mut answer) = answer {
        answer.insert("complete".into(), false.into());
        add_undone(error, &mut answer);
        if let Err(Stop::Fault(error)) = screen.json(&answer.into()) {
            screen.complain(&error);
            return ExitCode::from(2);
        }
    }
    Outcome::of_flaw(needs_newer).code()
}

/// Reports the loss on standard error, with its consequence for the answer, and why if a newer program is needed.
fn say_lost(lost: &Lost, needs_newer: bool, meaning: &str, screen: &Screen) {
    if !lost.is_nothing() {
        let why = if needs_newer { WHY_NEWER } else { "" };
        screen.say_error(format_args!("{lost}{why}; {meaning}"));
    }
}

/// The reason for a loss if a newer program is needed. It names no place, since the first loss may have another reason.
const WHY_NEWER: &str = "; reading stops where only a newer program understands what follows";

/// Reports the losses of several traces in one line on standard error, each after its name.
pub fn say_lost_of<const N: usize>(
    names: &[String; N],
    verdicts: [&Verdict; N],
    meaning: &str,
    screen: &Screen,
) {
    let each = names.iter().zip(verdicts).filter(|(_, verdict)| !verdict.is_lost_said.replace(true));
    let why = |verdict: &Verdict| if verdict.needs_newer() { WHY_NEWER } else { "" };
    let lost = each.map(|(name, verdict)| (name, verdict.lost(), why(verdict)));
    let lost = lost.filter(|(_, lost, _)| !lost.is_nothing());
    let lost: Vec<String> = lost.map(|(name, lost, why)| format!("{name}{lost}{why}")).collect();
    if !lost.is_empty() {
        screen.say_error(format_args!("{}; {meaning}", lost.join("; ")));
    }
}

/// The loss as JSON, `null` if nothing is lost. Keys: `records`, `instrs`, `bytes` (a number, an object with `at_least`, or
/// `null` if unknown), and `gaps`, a list of objects with these keys and the places `stopped` and `resumed`; `resumed` is
/// `null` if reading did not continue.
pub fn lost_json(lost: &Lost) -> Value {
    let Some(sum) = lost.sum() else { return Value::Null };
    json!({ "records": sum.records, "instrs": sum.instrs, "bytes": sum.bytes, "gaps": lost.gaps })
}

/// Adds the keys `error`, `findings` and `lost` to an answer.
pub fn add_reading(findings: &[Finding], error: Option<&Error>, answer: &mut serde_json::Map<String, Value>) {
    answer.insert("error".into(), error.map(error_json).into());
    answer.insert("findings".into(), result::json(findings));
    answer.insert("lost".into(), lost_json(&Lost::of(findings, error)));
}

/// Adds the same keys if nothing was done: the findings are those that the error carries.
pub fn add_undone(error: &Error, answer: &mut serde_json::Map<String, Value>) {
    answer.insert("error".into(), error_json(error));
    answer.insert("findings".into(), result::json(error.findings()));
    answer.insert("lost".into(), lost_json(&Lost::of(&[], Some(error))));
}

/// An error as JSON, with the keys `kind`, `message` and `place`.
fn error_json(error: &Error) -> Value {
    json!({ "kind": error.kind().name(), "message": error.message(), "place": error.place() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu::model::{Loss, Place};

    #[test]
    fn a_verdict_of_two_reads_has_what_either_found_once() {
        let finding = |rule| Finding::new(rule, Severity::Error, Place::default(), "odd".into());
        let first =
            Verdict { findings: vec![finding("demo/opening"), finding("demo/a")], ..Verdict::default() };
        let error = Some(Arc::new(Error::usage("cut")));
        let second = Verdict {
            findings: vec![finding("demo/opening"), finding("demo/b")],
            error,
            cancelled: true,
            ..Verdict::default()
        };
        let both = first.and(second);
        let rules: Vec<_> = both.findings.iter().map(|finding| &*finding.rule).collect();
        assert_eq!(rules, ["demo/opening", "demo/a", "demo/b"]);
        assert!(both.cancelled && both.error.is_some());
        // The loss is reported again only if it has grown.
        let losing = |rule| Verdict {
            findings: vec![finding(rule).losing(Loss::default())],
            is_lost_said: Cell::new(true),
            ..Verdict::default()
        };
        assert!(losing("demo/a").and(losing("demo/a")).is_lost_said.get());
        assert!(!losing("demo/a").and(losing("demo/b")).is_lost_said.get());
    }
}
