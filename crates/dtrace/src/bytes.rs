//! Words of a buffer, in the byte order of the traced host.

/// The byte order of the traced host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// x86-64, AArch64, RISC-V.
    #[default]
    Little,
    /// SPARC, POWER.
    Big,
}

impl ByteOrder {
    /// Reads an unsigned number of 1 to 8 bytes.
    #[inline]
    pub fn number(self, bytes: &[u8]) -> u64 {
        match (bytes.len(), self) {
            (8, ByteOrder::Little) => u64::from_le_bytes(fixed(bytes)),
            (8, ByteOrder::Big) => u64::from_be_bytes(fixed(bytes)),
            (4, ByteOrder::Little) => u64::from(u32::from_le_bytes(fixed(bytes))),
            (4, ByteOrder::Big) => u64::from(u32::from_be_bytes(fixed(bytes))),
            (_, ByteOrder::Little) => {
                bytes.iter().take(8).rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            }
            (_, ByteOrder::Big) => bytes.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        }
    }

    /// Reads a signed number of 1, 2, 4 or 8 bytes.
    #[inline]
    pub fn signed(self, bytes: &[u8]) -> i64 {
        let unsigned = self.number(bytes);
        let shift = 64 - 8 * bytes.len().clamp(1, 8);
        ((unsigned << shift) as i64) >> shift // Sign extension.
    }

    /// The 4-byte word at `at`; `None` if it reaches beyond the end.
    #[inline]
    pub fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = bytes.get(at..at.checked_add(4)?)?;
        Some(match self {
            ByteOrder::Little => u32::from_le_bytes(fixed(word)),
            ByteOrder::Big => u32::from_be_bytes(fixed(word)),
        })
    }

    /// The 8-byte word at `at`; `None` if it reaches beyond the end.
    #[inline]
    pub fn u64_at(self, bytes: &[u8], at: usize) -> Option<u64> {
        Some(self.number(bytes.get(at..at.checked_add(8)?)?))
    }

    /// Appends the lowest `size` bytes of a number.
    pub fn put(self, out: &mut Vec<u8>, value: u64, size: usize) {
        let size = size.min(8);
        match self {
            ByteOrder::Little => out.extend_from_slice(&value.to_le_bytes()[..size]),
            ByteOrder::Big => out.extend_from_slice(&value.to_be_bytes()[8 - size..]),
        }
    }
}

/// Converts a slice of known length.
#[inline]
fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all.copy_from_slice(bytes);
    all
}

/// The bytes before the first NUL, or all bytes.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// Decodes hexadecimal digits; `None` if the text is malformed.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_sizes_come_back_in_both_orders() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for size in [1usize, 2, 4, 8] {
                let mut bytes = Vec::new();
                order.put(&mut bytes, -3i64 as u64, size);
                assert_eq!(order.signed(&bytes), -3, "{order:?} {size}");
                assert_eq!(order.number(&bytes), u64::MAX >> (64 - 8 * size) & -3i64 as u64);
            }
        }
        assert_eq!(ByteOrder::Big.u32_at(&[0, 0, 1, 2, 3], 1), Some(0x01_0203));
        assert_eq!(ByteOrder::Little.u32_at(&[1, 2, 3], 0), None);
    }
}
