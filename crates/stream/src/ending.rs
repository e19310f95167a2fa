//! Whether a producer has ended, for frames that arrive in any order.

use crate::frame::{Header, kind};

/// The highest sequence numbers in stream 0, which carries the END frame of a producer. A producer that continues after an
/// END has later frames there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending {
    end: Option<u64>,
    other: Option<u64>,
}

impl Ending {
    /// Takes a frame of the producer. Indexes, padding and open frames are ignored.
    pub fn add(&mut self, header: &Header) {
        match header.kind {
            kind::INDEX | kind::PAD | kind::OPEN => {}
            kind::END => self.end = self.end.max(Some(header.seq)),
            _ if header.stream == 0 => self.other = self.other.max(Some(header.seq)),
            _ => {}
        }
    }

    /// Whether the END frame comes after all other frames that count.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.end > self.other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_come_late_do_not_begin_a_producer_anew() {
        let mut ending = Ending::default();
        let mut is_ended_after = |kind, stream, seq| {
            ending.add(&Header { kind, stream, seq, ..Header::default() });
            ending.is_ended()
        };
        assert!(!is_ended_after(kind::META, 0, 0));
        assert!(is_ended_after(kind::END, 0, 5));
        assert!(is_ended_after(kind::META, 0, 4) && is_ended_after(kind::DATA, 1, 99));
        assert!(is_ended_after(kind::INDEX, 0, 6));
        assert!(!is_ended_after(kind::META, 0, 7));
        assert!(is_ended_after(kind::END, 0, 8));
    }
}
