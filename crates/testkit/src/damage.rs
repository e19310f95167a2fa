//! Damage: a good input cut and changed in many ways; a reader must survive each with a typed answer.
//!
//! What is asserted of each case: no panic; an end within a time limit; errors that are not bugs and carry a place;
//! a bounded number of findings; of a cut input, that what was lost is complained about and what stands before the cut
//! is kept. Of all cases together: that the process never took much more memory than before.

use crate::memory_use::PeakMemory;
use crate::reading::{Depth, Reading, ReadingOptions};
use crate::rng::Rng;
use quipu_model::{Error, ErrorKind, Format, OpenOptions, Result, Scan, Trace};
use quipu_source::Source;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What to try, and what to hold the reader to.
#[derive(Clone, Debug)]
pub struct Damage {
    /// How many places to cut at, spread evenly from the first byte to the last.
    pub truncations: usize,
    /// How many inputs with one byte changed to try.
    pub changes: usize,
    /// Where the random places and values come from.
    pub seed: u64,
    /// Whether the records of a cut input must be those of the whole one, as far as they go. Not for inputs whose
    /// later bytes say how to read earlier ones.
    pub keeps_prefix: bool,
    /// Whether nothing marks the end of an input, so that one that is cut between two records is as good as any.
    pub has_open_end: bool,
    /// How long one case may take; then the process is aborted, for a loop cannot be stopped otherwise.
    pub time_limit: Duration,
    /// By how many bytes all of it may raise the process's peak of resident memory, where the system tells. Other tests
    /// of the same process count as well, so this is generous.
    pub max_growth_bytes: u64,
    /// How many findings one shard may have.
    pub max_findings: usize,
    /// After how many records a reading is stopped.
    pub max_records: usize,
    /// Every how many cases tables are read and records are printed too, which takes several times as long; 0 for
    /// never.
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

/// What came of it, for a test that wants to know that its damage did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survived {
    /// Inputs tried.
    pub cases: usize,
    /// Of them, those that could not even be opened.
    pub refused: usize,
    /// Those that were read with an error or findings.
    pub complained: usize,
    /// Those in which nothing seemed wrong: a changed address is as good as any.
    pub unnoticed: usize,
}

/// Damages a file of a format.
///
/// # Panics
/// If a case does not end as it should; the message says how to repeat it.
pub fn format(format: &dyn Format, name: &str, bytes: &[u8], damage: &Damage) -> Survived {
    run(bytes, damage, |bytes| format.open(&Source::from_bytes(name, bytes), &OpenOptions::default()))
}

/// Damages any input that `open` makes a trace of.
///
/// # Panics
/// As [`format()`].
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
            // Any other value: adding something that is not 0, modulo 256.
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
    /// Runs one case; panics with its name if anything is wrong.
    fn case(
        &self,
        case: &str,
        bytes: &[u8],
        whole: Option<&[Reading]>,
        tell: &Sender<String>,
        survived: &mut Survived,
    ) {
        let _ = tell.send(case.to_owned());
        // A panic is reported by its own hook; here only the case is added.
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

    /// Reads all shards. What was odd when opening counts as findings of the first.
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
                // The last record may lack what only the one after it tells.
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

/// Aborts the process if no new case begins in time. The last thing that it says is which case it was.
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
