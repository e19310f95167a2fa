//! Small caches in front of a trace: accesses that hit them are left out (spec 17, spec 6.11).

use crate::record::{Entry, Marker, Type};
use quipu_model::{Error, Result};

/// Size of a line as a power of two, as in DynamoRIO: 64 bytes.
const LINE_SHIFT: u32 = 6;

/// A direct-mapped cache.
#[derive(Clone, Debug)]
pub struct DirectMapped {
    tags: Vec<u64>,
    mask: u64,
}

impl DirectMapped {
    /// Size of the largest cache, in bytes.
    pub const MAX_BYTES: u64 = 1 << 30;

    /// An empty cache of this many bytes, in lines of 64.
    ///
    /// # Errors
    /// `Usage` if that is not a power of two from 64 to [`DirectMapped::MAX_BYTES`].
    pub fn new(bytes: u64) -> Result<DirectMapped> {
        if !bytes.is_power_of_two() || !(1 << LINE_SHIFT..=DirectMapped::MAX_BYTES).contains(&bytes) {
            return Err(Error::usage(format!(
                "a cache has 64 bytes to 1 GiB, a power of two, found `{bytes}`"
            )));
        }
        let n_lines = bytes >> LINE_SHIFT;
        // No line has this number: lines are addresses without their last six bits.
        Ok(DirectMapped { tags: vec![u64::MAX; n_lines as usize], mask: n_lines - 1 })
    }

    /// Looks a line up and inserts it; true if it was there.
    fn hits(&mut self, line: u64) -> bool {
        let slot = &mut self.tags[(line & self.mask) as usize]; // The mask has as many bits as there are slots.
        std::mem::replace(slot, line) == line
    }

    /// Touches all lines of an access; true if the last of them was present. `None` for an access without a size, which
    /// touches none.
    fn touch(&mut self, addr: u64, bytes: u16) -> Option<bool> {
        let last = addr.wrapping_add(u64::from(bytes.checked_sub(1)?));
        let (first, last) = (addr >> LINE_SHIFT, last >> LINE_SHIFT);
        // At the end of the address space an access wraps around: it has two lines, like any that crosses one border.
        let lines = if first <= last { first..=last } else { last..=last };
        let mut hit = false;
        for line in lines {
            hit = self.hits(line);
        }
        Some(hit)
    }
}

/// A data cache: loads, stores and prefetches that hit are left out.
#[derive(Clone, Debug)]
pub struct DataCache {
    cache: DirectMapped,
    /// QUIRK: an access without a size has the outcome of the one before it.
    hit: bool,
}

impl DataCache {
    /// An empty cache of this many bytes.
    ///
    /// # Errors
    /// As [`DirectMapped::new`].
    pub fn new(bytes: u64) -> Result<DataCache> {
        Ok(DataCache { cache: DirectMapped::new(bytes)?, hit: false })
    }

    /// True if the entry is kept.
    pub(super) fn keeps(&mut self, entry: &Entry) -> bool {
        let kind = entry.kind();
        if !(kind == Type::READ || kind == Type::WRITE || kind.is_prefetch()) {
            return true;
        }
        if let Some(hit) = self.cache.touch(entry.addr.get(), entry.size.get()) {
            self.hit = hit;
        }
        !self.hit
    }
}

/// An instruction cache: instructions that hit are left out, and all are counted.
///
/// The result is a trace as a tracer with such a filter writes it: conditional branches without their outcome, no targets,
/// an entry of size 0 that names the instruction where data is kept but its instruction is not, and markers with the number
/// of executed instructions: 0 after the first processor, and before each later clock reading and each exit.
#[derive(Clone, Debug)]
pub struct InstrCache {
    cache: DirectMapped,
    n_executed: u64,
    /// The instruction that was left out last, until an entry for its data names it.
    unnamed: Option<Entry>,
    has_begun: bool,
}

impl InstrCache {
    /// An empty cache of this many bytes.
    ///
    /// # Errors
    /// As [`DirectMapped::new`].
    pub fn new(bytes: u64) -> Result<InstrCache> {
        let cache = DirectMapped::new(bytes)?;
        Ok(InstrCache { cache, n_executed: 0, unnamed: None, has_begun: false })
    }

    /// True if the entry is kept; entries that must precede it are added to `before`. `stays_otherwise`: the other filters
    /// keep it, so it may need an entry that names its instruction.
    pub(super) fn keeps(
        &mut self,
        entry: &mut Entry,
        stays_otherwise: bool,
        before: &mut Vec<Entry>,
    ) -> bool {
        let kind = entry.kind();
        let count = Entry::marker(Marker::INSTRUCTION_COUNT, self.n_executed);
        if kind.is_any_instr() {
            if entry.size.get() == 0 {
                return true;
            }
            self.n_executed += u64::from(kind != Type::INSTR_NO_FETCH);
            if matches!(kind, Type::INSTR_TAKEN_JUMP | Type::INSTR_UNTAKEN_JUMP) {
                entry.kind.set(Type::INSTR_CONDITIONAL_JUMP.0);
            }
            let is_left_out = self.cache.touch(entry.addr.get(), entry.size.get()).unwrap_or(true);
            self.unnamed = is_left_out.then(|| Entry::new(entry.kind(), 0, entry.addr.get()));
            return !is_left_out;
        }
        match kind {
            Type::MARKER => match Marker(entry.size.get()) {
                Marker::INSTRUCTION_COUNT => return false,
                Marker::TIMESTAMP if self.has_begun => before.push(count),
                _ => {}
            },
            Type::THREAD_EXIT => before.push(count),
            _ => {
                if stays_otherwise && has_instr(kind) {
                    before.extend(self.unnamed.take());
                }
            }
        }
        true
    }

    /// Continues the count after the end of filtering: the file type requires a count in each thread, also in those that
    /// were not filtered any more; there it precedes the exit.
    pub(super) fn last_count(&mut self, entry: &Entry) -> Option<Entry> {
        let kind = entry.kind();
        let is_executed = kind.is_any_instr() && entry.size.get() > 0 && kind != Type::INSTR_NO_FETCH;
        self.n_executed += u64::from(is_executed);
        (kind == Type::THREAD_EXIT).then(|| Entry::marker(Marker::INSTRUCTION_COUNT, self.n_executed))
    }

    /// The count that follows the first processor, once that is written; `None` afterwards.
    pub(super) fn first_count(&mut self) -> Option<Entry> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        is_first.then(|| Entry::marker(Marker::INSTRUCTION_COUNT, 0))
    }
}

/// True for data, which belongs to the instruction before it.
fn has_instr(kind: Type) -> bool {
    matches!(kind.0, 0..=9 | 18..=21 | 27 | 32..=46)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_a_power_of_two() {
        assert!(DirectMapped::new(4096).is_ok());
        for bytes in [0, 32, 100, 1 << 31, u64::MAX] {
            assert!(DirectMapped::new(bytes).is_err(), "{bytes}");
        }
    }

    #[test]
    fn the_last_line_of_an_access_decides() {
        let mut cache = DataCache::new(4096).unwrap();
        let read = |addr, size| Entry::new(Type::READ, size, addr);
        assert!(cache.keeps(&read(0x1040, 8)));
        assert!(!cache.keeps(&read(0x103c, 8)), "the first line is new, the last is not");
        assert!(!cache.keeps(&read(0x9000, 0)), "without a size: as the one before");
        assert!(cache.keeps(&read(0x2040, 8)), "another line takes the slot");
        assert!(cache.keeps(&read(0x1040, 8)));
        assert!(cache.keeps(&read(u64::MAX, 8)), "round the end of the address space");
    }
}
