//! Hands out undecoded entries, for callers that interpret them.

use super::{EntryReader, NOWHERE};
use crate::record::{ENTRY_BYTES, Entry, N_TYPES};
use bytemuck::pod_read_unaligned;
use quipu_model::{Result, Severity};
use wide::u16x8;
use zerocopy::IntoBytes;

/// Bytes of a raw batch: 24 KiB, half of a level-1 cache.
const RAW_BYTES: usize = 2048 * ENTRY_BYTES;

const UNKNOWN_TYPE: &str = "drmemtrace/unknown-type";

impl EntryReader {
    /// Hands out parts of blocks as they are; only properties of the bytes are checked. PERF: a part fits into the level-1
    /// cache, so checking it here brings it there for the caller.
    pub(super) fn read_raw(&mut self) -> Result<bool> {
        if self.done || (self.used >= self.batch.block.len() && !self.next_block()?) {
            return Ok(self.finish_without_records());
        }
        let start = self.used;
        self.used = self.batch.block.len().min(start + RAW_BYTES);
        let entries = Entry::slice(&self.batch.block[start..self.used]).0;
        self.batch.span.records = entries.len() as u32; // A part holds far fewer.
        if has_unknown_type(entries) {
            self.tell_unknown_types(start);
        }
        self.batch.raw = start..self.used;
        self.batch.span.shard = self.shard;
        self.batch.span.piece = self.piece;
        let narrow_at = (start / ENTRY_BYTES * self.file.entry_bytes) as u64;
        self.batch.span.offset = self.block.map_or(0, |block| block.offset) + narrow_at;
        self.batch.span.member = self.block.map_or(0, |block| block.member);
        self.hand_out_findings();
        Ok(true)
    }

    #[cold]
    fn tell_unknown_types(&mut self, start: usize) {
        let bad: Vec<(usize, u16)> = Entry::slice(&self.batch.block[start..self.used])
            .0
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.kind.get() >= N_TYPES)
            .map(|(index, entry)| (start + index * ENTRY_BYTES, entry.kind.get()))
            .collect();
        for (at, kind) in bad {
            // Counting takes another read, which is done for the first finding only.
            let is_first = !self.found.as_slice().iter().any(|found| found.rule == UNKNOWN_TYPE);
            let place = match is_first {
                true => self.place(at),
                false => {
                    let narrow_at = (at / ENTRY_BYTES * self.file.entry_bytes) as u64;
                    let block = self.block.unwrap_or(NOWHERE);
                    self.place_of_bytes(block.member, block.offset + narrow_at)
                }
            };
            let message = format!("entry type `{kind}` is unknown; the types end at {}", N_TYPES - 1);
            self.tell(UNKNOWN_TYPE, Severity::Error, place, message);
        }
    }
}

/// True if any entry has a type outside of spec 2.1.
///
/// PERF: four entries fill three vectors, all of whose words are processed; those that hold types are selected at the end.
/// The loop takes sixteen entries at a time, as it would spend a third of its instructions on loop overhead with four.
fn has_unknown_type(entries: &[Entry]) -> bool {
    const SIXTEEN: usize = 16 * ENTRY_BYTES;
    const VECTOR: usize = size_of::<u16x8>();
    /// Added with saturation, this sets the highest bit of exactly the unknown types.
    const REACH: u16 = (1 << 15) - N_TYPES;
    /// The words of each of three vectors that hold types.
    const TYPES: [[usize; 2]; 3] = [[0, 6], [4, 4], [2, 2]];
    let is_unknown = |entry: &Entry| entry.kind.get() >= N_TYPES;
    if cfg!(target_endian = "big") {
        return entries.iter().any(is_unknown); // The vectors are read as they lie in memory.
    }
    let mut all = [u16x8::ZERO; 3];
    let (sixteens, _) = entries.as_bytes().as_chunks::<SIXTEEN>();
    for sixteen in sixteens {
        for (index, vector) in sixteen.as_chunks::<VECTOR>().0.iter().enumerate() {
            all[index % 3] |= pod_read_unaligned::<u16x8>(vector).saturating_add(u16x8::splat(REACH));
        }
    }
    let reached =
        all.iter().zip(TYPES).any(|(all, words)| words.iter().any(|word| all.to_array()[*word] >> 15 != 0));
    reached || entries[16 * sixteens.len()..].iter().any(is_unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_type_is_seen_wherever_it_stands() {
        for kind in (0..u16::MAX).step_by(3).chain([N_TYPES - 1, N_TYPES, 0x7fff, 0x8000, u16::MAX]) {
            for at in 0..45 {
                // Everything except the types has the largest value.
                let known = Entry { kind: 28.into(), size: u16::MAX.into(), addr: u64::MAX.into() };
                let mut entries = vec![known; 45];
                entries[at].kind = kind.into();
                assert_eq!(has_unknown_type(&entries), kind >= N_TYPES, "type {kind}, at {at}");
            }
        }
    }
}
