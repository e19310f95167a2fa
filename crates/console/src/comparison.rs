//! What verbs that compare two traces say of reading them.

use crate::screen::{Outcome, Screen};
use crate::session::{self, Verdict};
use quipu::model::damaged::Reading;

/// Which of two traces, in words.
pub const SIDES: [&str; 2] = ["old", "new"];

/// What a loss means for a comparison.
pub const COMPARED: &str = "the rest was compared";

/// Says what of either trace is lost, in one line that says which, and what is wrong with it. A trace that is compared with
/// itself says everything once.
pub fn tell(readings: [Reading; 2], meaning: &'static str, screen: &Screen) -> Outcome {
    let [old, new] = readings.map(|reading| Verdict { meaning, ..Verdict::from(reading) });
    if old.says_the_same_as(&new) {
        return old.tell(screen);
    }
    session::say_lost_of(&SIDES.map(|side| format!("{side} trace: ")), [&old, &new], meaning, screen);
    let told = old.tell(screen);
    told.and(new.tell(screen))
}
