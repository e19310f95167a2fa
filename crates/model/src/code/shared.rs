//! Instructions that thousands of reads keep in one place.

use super::Code;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Instructions of the first segment, as a power of two; each further segment is twice as long as the one before.
const FIRST_LOG2: u32 = 10;
/// Segments up to 2^32 instructions.
const N_SEGMENTS: usize = 33 - FIRST_LOG2 as usize;

/// One table for many reads: files of one program hold mostly the same instructions, each of which stands here once.
///
/// Append-only. Reading needs no lock, learning does.
#[derive(Debug)]
pub struct SharedCodes {
    segments: [OnceLock<Box<[OnceLock<Code>]>>; N_SEGMENTS],
    len: AtomicU32,
    index: Mutex<Index>,
}

/// Where instructions stand.
#[derive(Debug, Default)]
struct Index {
    /// The first instruction that any read gave at an address.
    first: HashMap<u64, u32>,
    /// Others at these addresses.
    more: HashMap<Code, u32>,
}

impl Default for SharedCodes {
    fn default() -> SharedCodes {
        SharedCodes {
            segments: std::array::from_fn(|_| OnceLock::new()),
            len: AtomicU32::new(0),
            index: Mutex::default(),
        }
    }
}

impl SharedCodes {
    /// The number of an instruction, and whether it is the first that any read gave at its address.
    pub fn learn(&self, code: Code) -> (u32, bool) {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.len.load(Ordering::Relaxed);
        let first = *index.first.entry(code.pc).or_insert(next);
        let number = match first == next || self.get(first) == Some(&code) {
            true => first,
            false => *index.more.entry(code).or_insert(next),
        };
        if number == next {
            let (segment, at) = place(next);
            let segment = self.segments[segment].get_or_init(|| {
                (0..1_usize << (FIRST_LOG2 as usize + segment)).map(|_| OnceLock::new()).collect()
            });
            // No other thread has this number, because the lock is held.
            let _ = segment[at].set(code);
            self.len.store(next + 1, Ordering::Release); // Readers stop long before 2^32 distinct instructions.
        }
        (number, number == first)
    }

    /// The number of the first instruction that any read gave at `pc`.
    pub fn first_at(&self, pc: u64) -> Option<u32> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).first.get(&pc).copied()
    }

    /// The instruction with a number.
    pub fn get(&self, number: u32) -> Option<&Code> {
        let (segment, at) = place(number);
        self.segments.get(segment)?.get()?.get(at)?.get()
    }

    /// How many there are so far.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire) as usize
    }

    /// True if there is none yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The segment of a number, and where it stands there.
fn place(number: u32) -> (usize, usize) {
    let shifted = u64::from(number) + (1 << FIRST_LOG2);
    let log2 = shifted.ilog2();
    ((log2 - FIRST_LOG2) as usize, (shifted - (1 << log2)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instruction_stands_once_and_the_first_of_an_address_is_known() {
        let shared = SharedCodes::default();
        for round in 0..2 {
            for pc in 0..5000_u32 {
                assert_eq!(shared.learn(Code::new(u64::from(pc), 1, &[0x90])), (pc, true), "{round}");
            }
        }
        assert_eq!(shared.learn(Code::new(7, 1, &[0xc3])), (5000, false));
        assert_eq!(shared.learn(Code::new(7, 1, &[0xc3])), (5000, false));
        assert_eq!((shared.len(), shared.first_at(7), shared.first_at(9000)), (5001, Some(7), None));
        assert_eq!(shared.get(5000), Some(&Code::new(7, 1, &[0xc3])));
        assert_eq!(shared.get(4999).map(|code| code.pc), Some(4999));
        assert_eq!(shared.get(5001), None);
        assert_eq!(shared.get(u32::MAX), None);
    }
}
