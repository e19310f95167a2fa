//! An instruction table that many concurrent reads share.

use super::Code;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Number of instructions in the first segment, as a power of two; each further segment is twice as long as the previous one.
const FIRST_LOG2: u32 = 10;
/// Number of segments that 2^32 instructions need.
const N_SEGMENTS: usize = 33 - FIRST_LOG2 as usize;

/// One table for many reads: the files of one program hold mostly the same instructions, and the table stores each once.
///
/// Append-only. Reading takes no lock; adding does.
#[derive(Debug)]
pub struct SharedCodes {
    segments: [OnceLock<Box<[OnceLock<Code>]>>; N_SEGMENTS],
    len: AtomicU32,
    index: Mutex<Index>,
}

/// Finds the number of an instruction.
#[derive(Debug, Default)]
struct Index {
    /// The first instruction that any read added at each address.
    first: HashMap<u64, u32>,
    /// Further instructions at these addresses.
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
    /// Adds an instruction if it is new. Returns its number, and whether it is the first that any read added at its address.
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
            // No other thread can have this number, because the lock is held.
            let _ = segment[at].set(code);
            self.len.store(next + 1, Ordering::Release); // Readers stop long before 2^32 distinct instructions.
        }
        (number, number == first)
    }

    /// The number of the first instruction that any read added at `pc`.
    pub fn first_at(&self, pc: u64) -> Option<u32> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).first.get(&pc).copied()
    }

    /// The instruction with this number.
    pub fn get(&self, number: u32) -> Option<&Code> {
        let (segment, at) = place(number);
        self.segments.get(segment)?.get()?.get(at)?.get()
    }

    /// Number of instructions so far.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire) as usize
    }

    /// True if there are no instructions yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The segment that holds a number, and the position in that segment.
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
