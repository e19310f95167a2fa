//! Actions that the consumer performs itself: `clear()`, `trunc()`, `setopt()` and the like.
//!
//! SPEC: dtrace.md#library-actions-and-options

use crate::aggregate::{Aggregates, Keep};
use crate::bytes::until_nul;
use crate::describe::{Capture, Rec};
use crate::options::Settings;

/// One of the consumer's own actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routine {
    Clear,
    Normalize,
    Denormalize,
    Trunc,
    Ftruncate,
    Setopt,
    Unknown,
}

/// The action with this number. In kernels, these numbers follow those of subroutines.
pub(crate) fn routine(capture: &Capture, number: u64) -> Routine {
    match number.checked_sub(capture.library_base) {
        Some(15) => Routine::Clear,
        Some(16) => Routine::Normalize,
        Some(17) => Routine::Denormalize,
        Some(18) => Routine::Trunc,
        Some(21) => Routine::Ftruncate,
        Some(28) => Routine::Setopt,
        _ => Routine::Unknown,
    }
}

/// Performs the action. False if it is unknown.
pub(crate) fn run(
    capture: &Capture,
    routine: Routine,
    recs: &[Rec],
    bytes: &[u8],
    aggregates: &mut Aggregates,
    settings: &mut Settings,
) -> bool {
    let part = |at: usize| recs.get(at).map_or(&[][..], |rec| rec.of(bytes));
    let variable = capture.order.number(part(0));
    match routine {
        Routine::Clear => aggregates.clear(variable),
        Routine::Normalize => aggregates.normalize(variable, Some(capture.order.number(part(1)))),
        Routine::Denormalize => aggregates.normalize(variable, None),
        Routine::Trunc => {
            let keep = match capture.order.signed(part(1)) {
                n @ 0.. => Keep::Largest(n.unsigned_abs()),
                n => Keep::Smallest(n.unsigned_abs()),
            };
            aggregates.truncate(variable, keep, capture.dialect);
        }
        // This program must not truncate its output, which may not be a file.
        Routine::Ftruncate => {}
        Routine::Setopt => {
            let name = String::from_utf8_lossy(until_nul(part(0)));
            let value = part(1);
            let value = if value.len() > 8 { until_nul(value) } else { b"" };
            let _ = settings.set(&name, &String::from_utf8_lossy(value));
        }
        Routine::Unknown => return false,
    }
    true
}
