//! Messages of verbs that compare two traces, about reading them.

use crate::screen::{Outcome, Screen};
use crate::session::{self, Verdict};
use quipu::model::damaged::Reading;

/// Names of the two traces in messages.
pub const SIDES: [&str; 2] = ["old", "new"];

/// The consequence of a loss for a comparison, as part of a message.
pub const COMPARED: &str = "the rest was compared";

/// Reports what was lost of each trace, in a single line that names the trace, and then the faults of each. A trace compared
/// with itself is reported once.
pub fn tell(readings: [Reading; 2], meaning: &'static str, screen: &Screen) -> Outcome {
    let [old, new] = readings.map(|reading| Verdict { meaning, ..Verdict::from(reading) });
    if old.says_the_same_as(&new) {
        return old.tell(screen);
    }
    session::say_lost_of(&SIDES.map(|side| format!("{side} trace: ")), [&old, &new], meaning, screen);
    let told = old.tell(screen);
    told.and(new.tell(screen))
}
