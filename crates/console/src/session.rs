//! Reading a trace while people watch: progress, signals, and a clear word at the end on what was not read.

use crate::screen::{Outcome, Result, Screen, Stop};
use crate::{Common, input};
use quipu::engine::{self, Division, Planned, RunOptions, Watch, WindowOf};
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

/// What a signal that asks the process to end reaches. There is one handler in a process, so there is one of these.
static WATCH: Watch = Watch::new();

/// How often the progress line looks at the watch.
const GLANCE: Duration = Duration::from_millis(100);

/// How much work looks at the watch.
static N_WATCHING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What watches work of this thread instead.
    static OWN_WATCH: RefCell<Option<Arc<Watch>>> = const { RefCell::new(None) };
}

/// Does some work of a program that is no command line: what of it is [`watched`] keeps this watch informed, which no signal
/// reaches, and shows no progress.
pub fn watched_by<T>(watch: &Arc<Watch>, work: impl FnOnce() -> T) -> T {
    let before = OWN_WATCH.replace(Some(watch.clone()));
    let done = work();
    OWN_WATCH.set(before);
    done
}

/// From here on SIGINT, SIGTERM and SIGHUP end the process cleanly: work that looks at the watch is cancelled and tells what
/// it has; other work, or a second signal, ends at once, by the signal, without leaving unfinished files.
pub fn catch_signals() {
    // Without a handler signals still end the program, only less cleanly.
    let _ = quipu_capture::signals::on_ending(|signal| {
        if N_WATCHING.load(Ordering::Relaxed) > 0 && !WATCH.is_cancelled() {
            WATCH.cancel();
            return;
        }
        quipu::source::remove_temporaries();
        quipu_capture::signals::end_by(signal);
    });
}

/// Does some work that keeps its watch informed. A signal that asks the process to end cancels it.
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
                // Work that counts nothing here has its own way to show where it is.
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

/// What of a trace is analysed, and how strictly.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The part of the trace that is read.
    pub window: Window,
    /// What the window counts along.
    pub window_of: WindowOf,
    /// How many records of each shard to read at most.
    pub most_records: u64,
    /// Whether those are records of each core or of all in turn, where cores run side by side.
    pub most_records_of: WindowOf,
    /// Whether the first error ends reading.
    pub strict: bool,
    /// Only these threads, where shards mix them; all if empty.
    pub threads: Vec<ThreadId>,
    /// The parts that have results of their own.
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
            threads: Vec::new(),
            division: Division::default(),
        }
    }
}

/// Runs analyses over a trace, all in one read.
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
                division: extent.division,
                watch,
            },
        )
    })?;
    if outcome.error.is_none() && !outcome.cancelled {
        let is_part = extent.window != Window::All || extent.most_records != u64::MAX;
        input::check_present(trace, &extent.threads, &outcome.absent_threads, is_part)?;
    }
    if common.verbose {
        say_speed(outcome.records, trace.meta().inflated_bytes, started.elapsed(), screen);
    }
    Ok(outcome)
}

/// Says how much was read and how fast.
pub fn say_speed(records: u64, inflated_bytes: Option<u64>, elapsed: Duration, screen: &Screen) {
    let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    let rate = (records as f64 / elapsed.as_secs_f64().max(1e-9)) as u64; // Three digits matter.
    let inflated =
        inflated_bytes.map(|bytes| format!(" ({} inflated)", bytes_text(bytes))).unwrap_or_default();
    screen.say(format_args!(
        "read {} records{inflated} in {}: {} records/s",
        grouped(records),
        ticks_text(micros, 1_000_000),
        grouped(rate)
    ));
}

/// What a loss means for numbers.
const OF_NUMBERS: &str = "the numbers below are about the rest";
/// What it means for a file.
pub const OF_A_FILE: &str = "what was written is the rest";
/// What it means for records that were printed.
pub const OF_RECORDS: &str = "what was printed is the rest";

/// How reading a trace went: what it did wrong, and whether all of it was read. The one place that says so, for every verb.
#[derive(Debug)]
pub struct Verdict {
    /// What was found wrong with the trace.
    pub findings: Vec<Finding>,
    /// Why reading ended early.
    pub error: Option<Arc<Error>>,
    /// Whether a signal ended it.
    pub cancelled: bool,
    /// What a loss means for the answer.
    pub meaning: &'static str,
    /// What is lost was said.
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
    /// How reading for an output went.
    fn from(reading: Reading) -> Verdict {
        let Reading { findings, error, .. } = reading;
        Verdict { findings, error, meaning: OF_A_FILE, ..Verdict::default() }
    }
}

impl Verdict {
    /// What was found when opening `trace` and when reading it.
    pub fn new(trace: &dyn Trace, found: Found, error: Option<Error>, cancelled: bool) -> Verdict {
        let mut all = Found::default();
        // What carries a trace is looked at when that is opened, and who reads the trace may meet the same fault.
        let is_met = |finding: &&Finding| {
            found.as_slice().iter().any(|known| known.is_same_fault(finding))
                || error.as_ref().is_some_and(|error| error.is_same_fault(finding))
        };
        let opening = trace.meta().findings.iter().filter(|finding| !is_met(finding));
        opening.cloned().for_each(|finding| all.push(finding));
        found.into_vec().into_iter().for_each(|finding| all.push(finding));
        Verdict { findings: all.into_vec(), error: error.map(Arc::new), cancelled, ..Verdict::default() }
    }

    /// The same, where a loss means this for the answer.
    pub fn meaning(self, meaning: &'static str) -> Verdict {
        Verdict { meaning, ..self }
    }

    /// What was found in a read that came to its end.
    pub fn of(found: Found) -> Verdict {
        Verdict { findings: found.into_vec(), ..Verdict::default() }
    }

    /// That of two reads of one trace: what both found is there once.
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
        // A loss that only the later read met was not said yet.
        both.is_lost_said.set(both.is_lost_said.get() && both.lost() == lost);
        both
    }

    /// True if every record was read.
    pub fn is_complete(&self) -> bool {
        !self.cancelled && self.error.is_none()
    }

    /// True if nothing is wrong that makes the answer one about a part of the trace, or about something else.
    pub fn is_of_whole(&self) -> bool {
        let is_error = |finding: &Finding| finding.severity == Severity::Error;
        self.is_complete() && !self.findings.iter().any(is_error)
    }

    /// What of the trace is not in the answer.
    pub fn lost(&self) -> Lost {
        Lost::of(&self.findings, self.error.as_deref())
    }

    /// Says on standard error what is lost, once. It comes before the answer, because it says what the answer is about.
    pub fn say_lost(&self, screen: &Screen) {
        let lost = self.lost();
        if !lost.is_nothing() && !self.is_lost_said.replace(true) {
            say_lost(&lost, self.needs_newer(), self.meaning, screen);
        }
    }

    /// True if a newer program could read on where reading stopped.
    fn needs_newer(&self) -> bool {
        let of_error = self.error.as_ref().is_some_and(|error| error.needs_newer());
        of_error || self.findings.iter().any(Finding::needs_newer)
    }

    /// True if nothing would be new of what another one says.
    pub fn says_the_same_as(&self, other: &Verdict) -> bool {
        let text = |verdict: &Verdict| verdict.error.as_ref().map(|error| error.to_string());
        self.findings == other.findings && text(self) == text(other) && self.lost() == other.lost()
    }

    /// Tells people, on standard error: what is lost, unless that was said before the answer, and what is wrong.
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

    /// The part that could not be read, `null` if there is none.
    pub fn error_json(&self) -> Value {
        self.error.as_deref().map(error_json).into()
    }

    /// Adds the keys `complete`, `error` (`null` if there is none), `findings` and `lost` to an answer.
    pub fn add_to(&self, answer: &mut serde_json::Map<String, Value>) {
        answer.insert("complete".into(), self.is_complete().into());
        add_reading(&self.findings, self.error.as_deref(), answer);
    }
}

/// What ends a verb that is not for a trace: if damage was found when that was opened, it may be why, and is said first.
#[cold]
pub fn not_for(error: Error, found: &[Finding]) -> Stop {
    let damage: Vec<Finding> = found.iter().filter(|finding| finding.is_damage()).cloned().collect();
    match damage.is_empty() || !is_about_trace(&error) {
        true => error.into(),
        false => Stop::Damage(error.after(damage), "there is no answer"),
    }
}

/// The same of one trace. Where something was odd when that was opened, it is read for damage, too: what describes its
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

/// True for what damage of a trace may be the reason of.
fn is_about_trace(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Missing | ErrorKind::Unsupported | ErrorKind::Usage)
}

/// Says why damage lets a verb end without an answer: what is lost, what was found, the error. Programs get an object where they
/// asked for one: `answer` has what the verb puts before how reading went.
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

/// Says on standard error what is lost, why if only a newer program can read on, and what that means for the answer.
fn say_lost(lost: &Lost, needs_newer: bool, meaning: &str, screen: &Screen) {
    if !lost.is_nothing() {
        let why = if needs_newer { WHY_NEWER } else { "" };
        screen.say_error(format_args!("{lost}{why}; {meaning}"));
    }
}

/// Why the rest is lost where only a newer program can read on. The first loss may be another, so no place is named.
const WHY_NEWER: &str = "; reading stops where only a newer program understands what follows";

/// Says on standard error what is lost of each of several traces, in one line. `names` stand before that.
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

/// What of a trace is lost, `null` if nothing is. Keys: `records`, `instrs`, `bytes` (a number, an object with `at_least`, or
/// `null` where it is unknown), and `gaps`, a list of objects with these keys and the places `stopped` and `resumed`; the
/// latter is `null` where reading did not continue.
pub fn lost_json(lost: &Lost) -> Value {
    let Some(sum) = lost.sum() else { return Value::Null };
    json!({ "records": sum.records, "instrs": sum.instrs, "bytes": sum.bytes, "gaps": lost.gaps })
}

/// Adds how reading went to an answer: the keys `error`, `findings` and `lost`.
pub fn add_reading(findings: &[Finding], error: Option<&Error>, answer: &mut serde_json::Map<String, Value>) {
    answer.insert("error".into(), error.map(error_json).into());
    answer.insert("findings".into(), result::json(findings));
    answer.insert("lost".into(), lost_json(&Lost::of(findings, error)));
}

/// The same where nothing was done: the findings are those before the error.
pub fn add_undone(error: &Error, answer: &mut serde_json::Map<String, Value>) {
    answer.insert("error".into(), error_json(error));
    answer.insert("findings".into(), result::json(error.findings()));
    answer.insert("lost".into(), lost_json(&Lost::of(&[], Some(error))));
}

/// Keys: `kind`, `message`, `place`.
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
        // What is lost is said again only if more is.
        let losing = |rule| Verdict {
            findings: vec![finding(rule).losing(Loss::default())],
            is_lost_said: Cell::new(true),
            ..Verdict::default()
        };
        assert!(losing("demo/a").and(losing("demo/a")).is_lost_said.get());
        assert!(!losing("demo/a").and(losing("demo/b")).is_lost_said.get());
    }
}
