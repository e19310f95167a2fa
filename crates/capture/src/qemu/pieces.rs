//! Joins split accesses to operands: the emulator accesses at most 8 bytes at once.

use super::code::Op;
use quipu_drmemtrace::record::{Entry, Type};
use quipu_ring::qemu::Access;

/// Writes the accesses of one instruction by operand: first reads, then writes.
#[cold]
pub(super) fn join(out: &mut Vec<Entry>, op: &Op, accesses: &[Access]) {
    let Some(operands) = &op.operands else { return };
    for (bit, kind, sizes) in [(1, Type::READ, &operands.reads), (2, Type::WRITE, &operands.writes)] {
        let pieces = accesses.iter().filter(|access| access.direction & op.directions & bit != 0);
        match sizes[..] {
            [bytes] => whole(out, kind, bytes, pieces),
            _ => in_turn(out, kind, sizes, pieces),
        }
    }
}

/// Joins all pieces into a single operand; a saved state has gaps, which belong to it.
fn whole<'a>(out: &mut Vec<Entry>, kind: Type, bytes: u16, pieces: impl Iterator<Item = &'a Access>) {
    let mut range: Option<(u64, u64)> = None;
    let mut first = None;
    for piece in pieces {
        // After the instruction, the emulator may have accessed memory itself, for example to deliver a signal.
        let first = *first.get_or_insert(piece.addr);
        if bytes != 0 && piece.addr.wrapping_sub(first) >= u64::from(bytes) {
            continue;
        }
        let end = piece.addr.wrapping_add(u64::from(piece.size));
        range = Some(range.map_or((piece.addr, end), |(from, to)| (from.min(piece.addr), to.max(end))));
    }
    if let Some((from, to)) = range {
        let extent = u16::try_from(to.wrapping_sub(from)).unwrap_or(u16::MAX);
        out.push(Entry::new(kind, if bytes == 0 { extent } else { bytes }, from));
    }
}

/// Joins adjacent pieces as long as they fit into the current operand.
fn in_turn<'a>(out: &mut Vec<Entry>, kind: Type, sizes: &[u16], pieces: impl Iterator<Item = &'a Access>) {
    let mut index = 0;
    let mut open: Option<(u64, u16)> = None;
    for piece in pieces {
        let Some(&most) = sizes.get(index) else { return };
        open = Some(match open {
            Some((from, bytes))
                if from.wrapping_add(u64::from(bytes)) == piece.addr && bytes + piece.size <= most =>
            {
                (from, bytes + piece.size)
            }
            Some((from, bytes)) => {
                out.push(Entry::new(kind, bytes, from));
                index += 1;
                if index == sizes.len() {
                    return;
                }
                (piece.addr, piece.size)
            }
            None => (piece.addr, piece.size),
        });
    }
    out.extend(open.map(|(from, bytes)| Entry::new(kind, bytes, from)));
}

#[cfg(test)]
mod tests {
    use super::super::code::tests::block;
    use super::*;

    fn joined(code: &[u8], pieces: &[(u8, u16, u64)]) -> Vec<Entry> {
        let block = block(0x1000, &[code]);
        let accesses: Vec<Access> = pieces
            .iter()
            .map(|(direction, size, addr)| Access {
                instr: 0,
                direction: *direction,
                size: *size,
                addr: *addr,
            })
            .collect();
        let mut out = Vec::new();
        join(&mut out, &block.ops[0], &accesses);
        out
    }

    #[test]
    fn halves_of_a_vector_are_one_access() {
        // movups (%rdi),%xmm0
        let out = joined(&[0x0f, 0x10, 0x07], &[(1, 8, 0x100), (1, 8, 0x108)]);
        assert_eq!(out, [Entry::new(Type::READ, 16, 0x100)]);
    }

    #[test]
    fn a_read_and_a_write_of_both_halves_are_two() {
        // lock cmpxchg16b (%rdi)
        let pieces = [(1, 8, 0x100), (1, 8, 0x108), (2, 8, 0x100), (2, 8, 0x108)];
        let out = joined(&[0xf0, 0x48, 0x0f, 0xc7, 0x0f], &pieces);
        assert_eq!(out, [Entry::new(Type::READ, 16, 0x100), Entry::new(Type::WRITE, 16, 0x100)]);
    }

    #[test]
    fn two_operands_stay_two() {
        // cmpsq: both sides are read.
        let out = joined(&[0x48, 0xa7], &[(1, 8, 0x100), (1, 8, 0x108)]);
        assert_eq!(out, [Entry::new(Type::READ, 8, 0x100), Entry::new(Type::READ, 8, 0x108)]);
    }

    #[test]
    fn a_state_with_gaps_is_one_access() {
        // fxsave (%rdi)
        let out = joined(&[0x0f, 0xae, 0x07], &[(2, 2, 0x100), (2, 4, 0x118), (2, 8, 0x1a0)]);
        assert_eq!(out, [Entry::new(Type::WRITE, 512, 0x100)]);
    }
}
