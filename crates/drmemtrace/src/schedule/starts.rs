//! Position of each thread of a trace at a given time, from a schedule file.
//!
//! SPEC: drmemtrace.md#schedule-files.

use super::Stretch;
use crate::cores::Counted;
use crate::trace::File;
use std::collections::BTreeMap;

/// Number of instructions of `file` before `time`, according to its `stretches`, which are in order of time; `None` if the
/// last of them begins no later than `time`, or there are none. Between two stretches, all instructions are taken to last
/// equally long.
///
/// QUIRK: no stretch states when a thread ends, so DynamoRIO treats a thread in its last stretch as finished. Its ordinals
/// count from 1, and it rounds down, so the instruction being executed at `time` is still to come.
pub(crate) fn instrs_before(file: &File, stretches: &[Stretch], time: u64) -> Option<u64> {
    let mut counted = Counted::default();
    // Of two stretches at one time, the later one counts.
    let starts: BTreeMap<u64, u64> =
        stretches.iter().map(|stretch| (stretch.timestamp.get(), counted.start(file, stretch).0)).collect();
    let (later, upper) =
        starts.range((std::ops::Bound::Excluded(time), std::ops::Bound::Unbounded)).next()?;
    let Some((earlier, lower)) = starts.range(..=time).next_back() else { return Some(0) };
    let share = (time - earlier) as f64 / (later - earlier) as f64;
    let ordinal = *lower as f64 + share * upper.saturating_sub(*lower) as f64;
    Some((ordinal as u64).saturating_sub(1)) // Saturates.
}
