//! Counts groups of entries that are all of the most common types, as vectors of bytes.
//! PERF: benches/counts.rs; docs/performance.md, "Tried".

use crate::record::{ENTRY_BYTES, Entry, Marker, Type};
use bytemuck::{cast, pod_read_unaligned};
use wide::{i16x8, i32x4, i32x8, u8x16};
use zerocopy::IntoBytes;

/// Number of entries that are checked together: one vector of bytes.
pub(super) const GROUP: usize = 16;

/// The lanes of a counter are bytes, to which each group adds at most one.
const MAX_GROUPS: usize = u8::MAX as usize;

/// Counts groups of entries up to the first group with any but the most common ones: instructions, iterations, loads, stores
/// and branch targets. Returns the number of entries, and the number of each of the first four kinds.
#[inline(never)]
pub(super) fn common_groups(entries: &[Entry]) -> (usize, [u64; 4]) {
    if cfg!(target_endian = "big") {
        return (0, [0; 4]); // The vectors are read as they lie in memory.
    }
    let mut sums = [0u64; 4];
    let mut n = 0;
    for groups in entries.chunks(MAX_GROUPS * GROUP) {
        let mut lanes = [u8x16::ZERO; 4];
        let n_before = n;
        for group in groups.as_bytes().chunks_exact(GROUP * ENTRY_BYTES) {
            let kinds = kinds_of_group(group);
            let from_instr = kinds - byte(Type::INSTR);
            let is_plain = from_instr.min(u8x16::splat(6)).simd_eq(from_instr);
            let is_branch = (kinds & u8x16::splat(!1)).simd_eq(byte(Type::INSTR_TAKEN_JUMP)); // And the type after it.
            let is_instr = is_plain | is_branch;
            let is_load = kinds.simd_eq(byte(Type::READ));
            let is_store = kinds.simd_eq(byte(Type::WRITE));
            let is_no_fetch = kinds.simd_eq(byte(Type::INSTR_NO_FETCH));
            let is_target = kinds.simd_eq(u8x16::ZERO);
            if !(is_instr | is_load | is_store | is_no_fetch | is_target).all() {
                break;
            }
            for (lane, is) in lanes.iter_mut().zip([is_instr, is_no_fetch, is_load, is_store]) {
                *lane -= is; // All ones is minus one.
            }
            n += GROUP;
        }
        for (sum, lane) in sums.iter_mut().zip(lanes) {
            *sum += lane.to_array().into_iter().map(u64::from).sum::<u64>();
        }
        if n - n_before < groups.len() {
            break;
        }
    }
    (n, sums)
}

/// Added to each type, so that 0 is free for a branch target, which is a marker, and the two types of conditional jumps
/// differ in the last bit only.
const SHIFT: u16 = 2;
/// The value for entries of size 0, which may be invisible: not a common type.
const EMPTY: i32 = 0x7f;

/// The value for a type, in all lanes.
fn byte(kind: Type) -> u8x16 {
    u8x16::splat((kind.0 + SHIFT) as u8) // The common types are small.
}

/// The values for the types of a group, in some order; those that do not fit into a byte become 255, which is no type.
#[inline]
fn kinds_of_group(bytes: &[u8]) -> u8x16 {
    let four = |index: usize| kinds_of_four(&bytes[index * 4 * ENTRY_BYTES..]);
    let eight =
        |index: usize| i16x8::from_i32x8_saturate(cast::<[i32x4; 2], i32x8>([four(index), four(index + 1)]));
    u8x16::narrow_i16x8(eight(0), eight(2))
}

/// The values for the types of four entries.
///
/// PERF: every third word, selected from three vectors by masks: loading them one by one costs more than checking them.
#[inline]
fn kinds_of_four(bytes: &[u8]) -> i32x4 {
    const TARGET: i32 = (Marker::BRANCH_TARGET.0 as i32) << 16 | Type::MARKER.0 as i32;
    let vector = |at: usize| pod_read_unaligned::<i32x4>(&bytes[at..at + 16]);
    let heads = (vector(0) & i32x4::new([-1, 0, 0, -1]))
        | (vector(16) & i32x4::new([0, 0, -1, 0]))
        | (vector(32) & i32x4::new([0, -1, 0, 0]));
    let kinds = heads & i32x4::splat(0xffff);
    let is_empty = kinds.simd_eq(heads) & i32x4::splat(EMPTY);
    let is_no_target = !heads.simd_eq(i32x4::splat(TARGET));
    ((kinds + i32x4::splat(i32::from(SHIFT))) & is_no_target) | is_empty
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The result of `common_groups`, computed entry by entry.
    fn by_entry(entries: &[Entry]) -> (usize, [u64; 4]) {
        let class = |entry: &Entry| match entry.kind() {
            _ if entry.size.get() == 0 => None,
            kind if kind.is_instr() && kind.0 < 17 => Some(0),
            Type::INSTR_TAKEN_JUMP | Type::INSTR_UNTAKEN_JUMP => Some(0),
            Type::INSTR_NO_FETCH => Some(1),
            Type::READ => Some(2),
            Type::WRITE => Some(3),
            Type::MARKER if entry.size.get() == Marker::BRANCH_TARGET.0 => Some(4),
            _ => None,
        };
        let n_groups =
            entries.chunks_exact(GROUP).take_while(|group| group.iter().all(|e| class(e).is_some())).count();
        let counted = &entries[..n_groups * GROUP];
        let count = |of: usize| counted.iter().filter(|entry| class(entry) == Some(of)).count() as u64;
        (counted.len(), [count(0), count(1), count(2), count(3)])
    }

    fn entry(kind: u16, size: u16) -> Entry {
        Entry { kind: kind.into(), size: size.into(), addr: u64::MAX.into() }
    }

    #[test]
    fn each_head_is_judged_as_by_itself() {
        let sizes = [0, 1, 4, 28, Marker::BRANCH_TARGET.0, 30, 0x7fff, 0x8000, 0xffff];
        for kind in (0..600).chain([0x7fff, 0x8000, 0x801d, 0xff00, 0xff0a, 0xffff]) {
            for size in sizes {
                for at in 0..GROUP {
                    let mut entries = vec![entry(Type::READ.0, 8); GROUP];
                    entries[at] = entry(kind, size);
                    assert_eq!(
                        common_groups(&entries),
                        by_entry(&entries),
                        "type {kind}, size {size}, at {at}"
                    );
                }
            }
        }
    }

    proptest! {
        #[test]
        fn long_runs_add_up(
            kinds in proptest::collection::vec(
                prop_oneof![4 => 10u16..17, 2 => 0u16..2, 1 => 48u16..50, 1 => Just(29u16), 1 => Just(28u16)],
                0..3 * MAX_GROUPS * GROUP,
            ),
            odd in proptest::option::of(0usize..3 * MAX_GROUPS * GROUP),
        ) {
            let mut entries: Vec<Entry> =
                kinds.iter().map(|kind| entry(*kind, Marker::BRANCH_TARGET.0)).collect();
            if let Some(entry) = odd.and_then(|at| entries.get_mut(at)) {
                entry.kind = Type::HEADER.0.into();
            }
            prop_assert_eq!(common_groups(&entries), by_entry(&entries));
        }
    }
}
