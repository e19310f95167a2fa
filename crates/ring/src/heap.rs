//! A heap of names that all sides share: each name has one number, whichever process interned it.
//!
//! ```text
//! word 0                     words in use after the table
//! words 1 …                  unused, up to a cache line
//! then n / 8 words           the table: hash << 32 | number, 0 if free
//! then                       the names: length in bytes, the bytes, filled up with zeros to a word
//! ```
//!
//! A name is written before its number appears in the table, and never changes after that; a process that is killed in
//! between leaves words that nothing refers to. A number is the position of the name's length word after the table, counted
//! in words from 1.

use crate::sync::{AtomicU64, Ordering};

/// Minimum number of words of a heap: a table of eight cache lines, and names.
#[cfg(not(loom))]
pub(crate) const MIN_HEAP_WORDS: u64 = 512;
/// Number of words before the table.
const HEAD_WORDS: usize = 8;
/// Number of entries that are probed before the table counts as full.
const MAX_PROBES: usize = 64;
/// Maximum length of a name in bytes.
pub const MAX_NAME: usize = 4095;

/// A view of the heap, for either side.
#[derive(Clone, Copy, Debug)]
pub struct Heap<'s> {
    used: &'s AtomicU64,
    table: &'s [AtomicU64],
    names: &'s [AtomicU64],
}

/// The reason why a number has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// The number is beyond the last name.
    Number {
        /// Number of words that names occupy.
        n_words: u64,
    },
    /// The length of the name exceeds the maximum, or the heap. The value is that length.
    Length(u64),
}

impl<'s> Heap<'s> {
    /// Splits the words of a heap into its parts; `None` if there are too few.
    pub(crate) fn new(words: &'s [AtomicU64]) -> Option<Heap<'s>> {
        // A heap in a model has only a few words.
        let n_entries = (words.len() / 8).next_power_of_two().min(1 << 24);
        let (head, rest) = words.split_at_checked(HEAD_WORDS)?;
        let (table, names) = rest.split_at_checked(n_entries)?;
        Some(Heap { used: head.first()?, table, names })
    }

    /// Returns the number of a name, which is added if no process has interned it; `None` if there is no room, or it is
    /// longer than [`MAX_NAME`].
    pub fn intern(&self, name: &[u8]) -> Option<u32> {
        if name.len() > MAX_NAME {
            return None;
        }
        let hash = hash(name);
        let tag = hash >> 32;
        let mut ours = None;
        for probe in 0..MAX_PROBES.min(self.table.len()) {
            let entry = &self.table[(hash as usize).wrapping_add(probe) & (self.table.len() - 1)];
            let mut found = entry.load(Ordering::Acquire);
            if found == 0 {
                let number = match ours {
                    Some(number) => number,
                    None => *ours.insert(self.write(name)?),
                };
                let new = tag << 32 | u64::from(number);
                match entry.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return Some(number),
                    // Another producer was faster, perhaps with the same name.
                    Err(other) => found = other,
                }
            }
            if found >> 32 == tag && self.is(found as u32, name) {
                return Some(found as u32);
            }
        }
        None
    }

    /// Appends the name with this number to `out`.
    ///
    /// # Errors
    /// If a producer gave a number without a name, or corrupted the heap.
    pub fn get(&self, number: u32, out: &mut Vec<u8>) -> Result<(), BadName> {
        let n_words = self.used.load(Ordering::Relaxed).min(self.names.len() as u64);
        let at = (number as usize).checked_sub(1).filter(|at| (*at as u64) < n_words);
        let Some((length, words)) = at.and_then(|at| self.names[at..].split_first()) else {
            return Err(BadName::Number { n_words });
        };
        let length = length.load(Ordering::Relaxed);
        if length > MAX_NAME as u64 || length.div_ceil(8) > words.len() as u64 {
            return Err(BadName::Length(length));
        }
        let end = out.len() + length as usize;
        for word in &words[..length.div_ceil(8) as usize] {
            out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        out.truncate(end);
        Ok(())
    }

    /// The length of the name with this number in bytes, as stored in the heap; `None` if there is no such number.
    pub fn name_bytes(&self, number: u32) -> Option<u64> {
        let n_words = self.used.load(Ordering::Relaxed).min(self.names.len() as u64);
        let at = (number as usize).checked_sub(1).filter(|at| (*at as u64) < n_words)?;
        Some(self.names[at].load(Ordering::Relaxed))
    }

    /// Whether a number belongs to this name.
    fn is(&self, number: u32, name: &[u8]) -> bool {
        let at = (number as usize).wrapping_sub(1);
        let Some((length, words)) = self.names.get(at..).and_then(<[_]>::split_first) else { return false };
        length.load(Ordering::Relaxed) == name.len() as u64
            && words.len() >= name.len().div_ceil(8)
            && name.chunks(8).zip(words).all(|(bytes, word)| word.load(Ordering::Relaxed) == pack(bytes))
    }

    /// Writes a name and returns its number; `None` if there is no room.
    fn write(&self, name: &[u8]) -> Option<u32> {
        let n_words = 1 + name.len().div_ceil(8) as u64;
        let room = self.names.len() as u64;
        if self.used.load(Ordering::Relaxed).saturating_add(n_words) > room {
            return None;
        }
        let at = self.used.fetch_add(n_words, Ordering::Relaxed);
        if at.saturating_add(n_words) > room {
            return None;
        }
        let (length, words) = self.names[at as usize..].split_first()?;
        length.store(name.len() as u64, Ordering::Relaxed);
        for (bytes, word) in name.chunks(8).zip(words) {
            word.store(pack(bytes), Ordering::Relaxed);
        }
        u32::try_from(at + 1).ok()
    }
}

/// Packs up to eight bytes into a word.
fn pack(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// FNV-1a with mixed bits, so that the upper half distinguishes the entries of a probe sequence.
fn hash(name: &[u8]) -> u64 {
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash ^ hash >> 29
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    fn words(n: usize) -> Vec<AtomicU64> {
        (0..n).map(|_| AtomicU64::new(0)).collect()
    }

    fn name(heap: &Heap<'_>, number: u32) -> Result<Vec<u8>, BadName> {
        let mut out = Vec::new();
        heap.get(number, &mut out).map(|()| out)
    }

    #[test]
    fn a_name_has_one_number_until_the_heap_is_full() {
        let words = words(512);
        let heap = Heap::new(&words).unwrap();
        let long = [b'x'; 1000];
        let names: [&[u8]; 4] = [b"", b"main", b"mainly", &long];
        let numbers = names.map(|name| heap.intern(name).unwrap());
        for (wanted, number) in names.iter().zip(numbers) {
            assert_eq!(heap.intern(wanted), Some(number));
            assert_eq!(name(&heap, number).unwrap(), *wanted);
        }
        assert_eq!(heap.intern(&[0; MAX_NAME + 1]), None);
        let more: Vec<_> = (0..1000).map_while(|n: u32| heap.intern(&n.to_le_bytes())).collect();
        assert!(more.len() > 50 && more.len() < 1000, "{}", more.len());
        assert_eq!(heap.intern(b"main"), Some(numbers[1]), "a full heap still knows its names");
    }

    #[test]
    fn numbers_and_lengths_that_cannot_be_are_refused() {
        let words = words(512);
        let heap = Heap::new(&words).unwrap();
        let number = heap.intern(b"main").unwrap();
        assert_eq!(name(&heap, 0), Err(BadName::Number { n_words: 2 }));
        assert_eq!(name(&heap, 3), Err(BadName::Number { n_words: 2 }));
        heap.names[number as usize - 1].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(name(&heap, number), Err(BadName::Length(u64::MAX)));
        heap.used.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(name(&heap, u32::MAX), Err(BadName::Number { n_words: heap.names.len() as u64 }));
        assert_eq!(heap.intern(b"other"), None);
    }
}
