//! Damage: a good input is cut and changed in many ways; a reader must survive each with a typed answer.
//!
//! Asserted for each case: no panic; an end within a time limit; errors that are not bugs and have a place; a bounded number
//! of findings. Asserted for a cut input: the loss is reported, and records before the cut are kept. Asserted for all cases
//! together: the process never took much more memory than before.

use crate::memory_use::PeakMemory;
use crate::reading::{Depth, Reading, ReadingOptions};
use crate::rng::Rng;
use quipu_model::{Error, ErrorKind, Format, OpenOptions, Result, Scan, Trace};
use quipu_source::Source;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The damage to try, and the limits for the reader.
#[derive(Clone, Debug)]
pub struct Damage {
    /// Number of places to cut at, spread evenly from the first byte to the last.
    pub truncations: usize,
    /// Number of inputs with one changed byte to try.
    pub changes: usize,
    /// Seed of the random places and values.
    pub seed: u64,
    /// Whether the records of a cut input must equal those of the whole one, as far as they go. Not for inputs whose later
    /// bytes determine how to read earlier ones.
    pub keeps_prefix: bool,
    /// Whether the format has no end marker, so that an input cut between two records is valid.
    pub has_open_end: bool,
    /// Time limit for one case; after it, the process is aborted, because a loop cannot be stopped otherwise.
    pub time_limit: Duration,
    /// Number of bytes by which all cases together may raise the process's peak of resident memory, if the system reports it.
    /// Other tests of the same process count too, so this is generous.
    pub max_growth_bytes: u64,
    /// Maximum number of findings for one shard.
    pub max_findings: usize,
    /// Number of records after which a reading is stopped.
    pub max_records: usize,
    /// Interval of cases in which tables are also read and records printed, which takes several times as long; 0 for never.
    pub everything_each: usize,
}

impl Default for Damage {
    fn default() -> Damage {
        Damage {
            truncations: 200,
            changes: 2000,
            seed: 1,
            keeps_prefix: true,
            has_open_end: false,
            time_limit: Duration::from_secs(20),
            max_growth_bytes: 256 << 20,
            max_findings: 1000,
            max_records: 4 << 20,
            everything_each: 10,
        }
    }
}

/// Counts of outcomes, for a test that checks that its damage had an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survived {
    /// Number of inputs tried.
    pub cases: usize,
    /// Number of inputs that could not even be opened.
    pub refused: usize,
    /// Number of inputs that were read with an error or findings.
    pub complained: usize,
    /// Number of inputs without any complaint: a changed address is as valid as another.
    pub unnoticed: usize,
}

/// Damages a file of a format in all these ways.
///
/// # Panics
/// If a case does not end properly; the message says how to repeat it.
pub fn format(format: &dyn Format, name: &str, bytes: &[u8], damage: &Damage) -> Survived {
    run(bytes, damage, |bytes| format.open(&Source::from_bytes(name, bytes), &OpenOptions::default()))
}

/// Damages an input for which `open` returns a trace.
///
/// # Panics
/// Those of [`format()`].
pub fn run(bytes: &[u8], damage: &Damage, open: impl Fn(&[u8]) -> Result<Box<dyn Trace>>) -> Survived {
    let trial = Trial { damage, open: &open };
    let whole = match trial.read(bytes, Depth::Everything) {
        Ok(readings) => readings,
        Err(error) => panic!("the undamaged input cannot be opened: {error}"),
    };
    let peak = PeakMemory::start();
    let mut survived = Survived::default();
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| watch(told, damage.time_limit));
        for i in 0..damage.truncations {
            let length = bytes.len() * i / damage.truncations;
            let case = format!("the first {length} of {} bytes", bytes.len());
            trial.case(&case, &bytes[..length], Some(&whole), &tell, &mut survived);
        }
        let mut rng = Rng::new(damage.seed);
        let mut changed = bytes.to_vec();
        for _ in 0..if bytes.is_empty() { 0 } else { damage.changes } {
            let at = rng.below(bytes.len() as u64) as usize; // Below the length.
            // Any other value: adds a number other than 0, modulo 256.
            let value = bytes[at].wrapping_add(1 + rng.below(255) as u8);
            changed[at] = value;
            trial.case(&format!("byte {at:#x} set to {value:#04x}"), &changed, None, &tell, &mut survived);
            changed[at] = bytes[at];
        }
        drop(tell);
    });
    if let Some(growth) = peak.growth_bytes() {
        let limit = damage.max_growth_bytes;
        assert!(growth <= limit, "the peak of memory grew by {growth} bytes, limit {limit}");
    }
    survived
}

struct Trial<'t, F> {
    damage: &'t Damage,
    open: &'t F,
}

impl<F: Fn(&[u8]) -> Result<Box<dyn Trace>>> Trial<'_, F> {
    /// Runs one case; panics with its name if an assertion fails.
    fn case(
        &self,
        case: &str,
        bytes: &[u8],
        whole: Option<&[Reading]>,
        tell: &Sender<String>,
        survived: &mut Survived,
    ) {
        let _ = tell.send(case.to_owned());
        // The panic hook reports the panic; here, only the case is added.
        let result = catch_unwind(AssertUnwindSafe(|| {
            let result = self.read(bytes, self.depth(survived.cases));
            match &result {
                Ok(readings) => self.judge(readings, whole),
                Err(error) => judge_error(error),
            }
            result
        }));
        survived.cases += 1;
        match result {
            Err(_) => panic!("damage does not end well: {case}"),
            Ok(Err(_)) => survived.refused += 1,
            Ok(Ok(readings)) if readings.iter().any(Reading::complains) => survived.complained += 1,
            Ok(Ok(_)) => survived.unnoticed += 1,
        }
    }

    fn depth(&self, case: usize) -> Depth {
        match case.checked_rem(self.damage.everything_each) {
            Some(0) => Depth::Everything,
            _ => Depth::Lenses,
        }
    }

    /// Reads all shards. Findings of opening count as findings of the first.
    fn read(&self, bytes: &[u8], depth: Depth) -> Result<Vec<Reading>> {
        let trace = (self.open)(bytes)?;
        let mut readings = trace
            .shards()
            .iter()
            .map(|shard| {
                let scan = Scan::new(shard.id);
                let options = ReadingOptions { scan, max_records: self.damage.max_records, depth };
                Reading::of(&*trace, &options)
                    .or_else(|error| Ok(Reading { error: Some(error), ..Reading::default() }))
            })
            .collect::<Result<Vec<_>>>()?;
        if let Some(first) = readings.first_mut() {
            first.findings.extend(trace.meta().findings.iter().map(ToString::to_string));
        }
        Ok(readings)
    }

    fn judge(&self, readings: &[Reading], whole: Option<&[Reading]>) {
        for reading in readings {
            reading.error.iter().for_each(judge_error);
            let (found, limit) = (reading.findings.len(), self.damage.max_findings);
            assert!(found <= limit, "{found} findings of one shard, limit {limit}");
        }
        let Some(whole) = whole else { return };
        let count =
            |readings: &[Reading]| readings.iter().map(|reading| reading.records.len()).sum::<usize>();
        let (kept, all) = (count(readings), count(whole));
        if kept < all && !self.damage.has_open_end {
            let complains = readings.iter().any(Reading::complains);
            assert!(complains, "{kept} of {all} records are read, and nothing is said of the others");
        }
        if self.damage.keeps_prefix {
            for (reading, whole) in readings.iter().zip(whole) {
                // The last record may lack information that only the next one contains.
                let sure = reading.records.len().saturating_sub(1);
                let first = (0..sure).find(|i| whole.records.get(*i) != reading.records.get(*i));
                assert_eq!(first, None, "this record before the cut is not that of the whole input");
            }
        }
    }
}

fn judge_error(error: &Error) {
    assert!(!error.message().is_empty(), "an error says what is wrong");
    let misplaced = matches!(error.kind(), ErrorKind::Internal | ErrorKind::Usage);
    assert!(!misplaced, "damage is no fault of ours or of the caller: {error:?}");
    let place = error.place();
    assert!(place.file.is_some() || place.offset.is_some(), "an error says where: {error:?}");
}

/// Aborts the process if no new case begins in time, after printing which case it was.
fn watch(told: Receiver<String>, limit: Duration) {
    let mut case = String::from("nothing yet");
    loop {
        match told.recv_timeout(limit) {
            Ok(next) => case = next,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                eprintln!("damage takes longer than {limit:?}: {case}");
                std::process::abort();
            }
        }
    }
}
