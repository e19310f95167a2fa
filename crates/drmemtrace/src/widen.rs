//! Converts the entries of 32-bit tracers (8 bytes, with an `addr` of four) to ordinary entries before anything else.

use crate::record::{ENTRY_BYTES, ENTRY_BYTES_32};

/// Appends the entries of `narrow` to `wide` as entries of 12 bytes; returns the number of bytes of `narrow` left over.
pub(crate) fn widen(narrow: &[u8], wide: &mut Vec<u8>) -> usize {
    wide.reserve(narrow.len() / ENTRY_BYTES_32 * ENTRY_BYTES);
    let entries = narrow.chunks_exact(ENTRY_BYTES_32);
    let rest = entries.remainder().len();
    for entry in entries {
        wide.extend_from_slice(entry);
        wide.extend_from_slice(&[0; ENTRY_BYTES - ENTRY_BYTES_32]);
    }
    rest
}

/// The entries of `narrow` as entries of 12 bytes; an incomplete entry at the end is dropped.
pub(crate) fn widened(narrow: &[u8]) -> Vec<u8> {
    let mut wide = Vec::new();
    widen(narrow, &mut wide);
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_entry_gets_four_zero_bytes() {
        let mut wide = Vec::new();
        let rest = widen(&[25, 0, 0, 0, 7, 0, 0, 0, 1, 2], &mut wide);
        assert_eq!(wide, [25, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(rest, 2);
    }
}
