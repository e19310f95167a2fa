//! One line on standard error with the progress of a long read, on terminals only.

use crate::value::{cut, grouped, ticks_text};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A read that ends within this time shows nothing.
const PATIENCE: Duration = Duration::from_millis(400);

/// Minimum time between two drawings of the line.
const REDRAW: Duration = Duration::from_millis(100);

/// Draws the line. Call [`show`](Progress::show) as often as convenient.
#[derive(Debug)]
pub struct Progress {
    started: Instant,
    drawn: Option<Instant>,
    visible: bool,
}

impl Progress {
    /// A line that is visible if standard error is a terminal.
    pub fn on_terminal() -> Progress {
        Progress { started: Instant::now(), drawn: None, visible: std::io::stderr().is_terminal() }
    }

    /// A line that is never visible.
    pub fn hidden() -> Progress {
        Progress { started: Instant::now(), drawn: None, visible: false }
    }

    /// Draws the line if enough time has passed. `records` is the number of records read, `share` their share of the whole,
    /// if known.
    pub fn show(&mut self, records: u64, share: Option<f64>) {
        let due = match self.drawn {
            Some(drawn) => drawn.elapsed() >= REDRAW,
            None => self.started.elapsed() >= PATIENCE,
        };
        if self.visible && due {
            let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| width.0);
            let text = progress_text(records, share, self.started.elapsed());
            draw(&format!("\r\x1b[K{}", cut(&text, usize::from(width).saturating_sub(1))));
            self.drawn = Some(Instant::now());
        }
    }

    /// Removes the line, so that other text can follow.
    pub fn clear(&mut self) {
        if self.drawn.take().is_some() {
            draw("\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Ignores errors: a terminal that is gone is no reason to stop.
fn draw(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// The text of the line: share, records, rate, and time left if known.
///
/// ```
/// use std::time::Duration;
/// let text = quipu_view::progress_text(1_500_000, Some(0.25), Duration::from_secs(3));
/// assert_eq!(text, " 25 %  1,500,000 records  500,000/s  9.00 s left");
/// ```
pub fn progress_text(records: u64, share: Option<f64>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { (records as f64 / seconds) as u64 } else { 0 }; // Only displayed.
    let counts = format!("{} records  {}/s", grouped(records), grouped(rate));
    match share {
        Some(share) if share > 0.0 => {
            let share = share.min(1.0);
            let left = seconds / share - seconds;
            format!("{:3.0} %  {counts}  {} left", share * 100.0, ticks_text((left * 1e3) as u64, 1000))
        }
        _ => counts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_whole_gives_counts_only() {
        assert_eq!(progress_text(10, None, Duration::from_secs(2)), "10 records  5/s");
        assert_eq!(progress_text(0, Some(0.0), Duration::ZERO), "0 records  0/s");
    }
}
