//! CRC-32C (Castagnoli), the checksum of frames. SPEC: stream.md#frames.
//!
//! The runtime uses the processor's instruction for long payloads. These functions are for headers, for constants, and for
//! processors without that instruction.

/// The polynomial with its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The effect of a byte on the checksum, for 8 bytes at a time: table `k` is for a byte that is followed by `k` others.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = shift(crc);
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// Advances a checksum by one bit.
const fn shift(crc: u32) -> u32 {
    if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ POLYNOMIAL }
}

/// Computes the checksum of bytes at compile time.
#[must_use]
pub const fn of_constant(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    let mut at = 0;
    while at < bytes.len() {
        crc ^= bytes[at] as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = shift(crc);
            bit += 1;
        }
        at += 1;
    }
    !crc
}

/// Computes the checksum of bytes.
#[must_use]
pub fn of(bytes: &[u8]) -> u32 {
    !more(u32::MAX, bytes)
}

/// Updates a checksum in progress, whose bits are still inverted.
#[must_use]
pub fn more(mut crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(crc);
        crc = 0;
        for (byte, table) in word.to_le_bytes().iter().zip(TABLES.iter().rev()) {
            crc ^= table[usize::from(*byte)];
        }
    }
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][(crc as u8 ^ byte) as usize];
    }
    crc
}

/// The effect of `n_bytes` zeros on a checksum in progress (with inverted bits), as a table for each of its bytes. It
/// combines checksums of parts that were computed in parallel.
#[must_use]
pub const fn zeros(n_bytes: usize) -> [[u32; 256]; 4] {
    // The operation is linear, so its effect on each bit determines it: a matrix, which is squared for each bit of `n_bytes`.
    let mut power = [0_u32; 32];
    let mut bit = 0;
    while bit < 32 {
        let mut crc = 1 << bit;
        let mut step = 0;
        while step < 8 {
            crc = shift(crc);
            step += 1;
        }
        power[bit] = crc;
        bit += 1;
    }
    let mut all = [0_u32; 32];
    let mut bit = 0;
    while bit < 32 {
        all[bit] = 1 << bit;
        bit += 1;
    }
    let mut left = n_bytes;
    while left > 0 {
        if left & 1 != 0 {
            all = product(&power, &all);
        }
        power = product(&power, &power);
        left >>= 1;
    }
    let mut tables = [[0; 256]; 4];
    let mut place = 0;
    while place < 4 {
        let mut byte = 0;
        while byte < 256 {
            tables[place][byte] = times(&all, (byte as u32) << (8 * place));
            byte += 1;
        }
        place += 1;
    }
    tables
}

/// Multiplies a matrix, stored by columns, by a bit vector.
const fn times(matrix: &[u32; 32], vector: u32) -> u32 {
    let (mut sum, mut left) = (0, vector);
    while left != 0 {
        sum ^= matrix[left.trailing_zeros() as usize];
        left &= left - 1;
    }
    sum
}

/// Multiplies matrices: the result applies `second`, then `first`.
const fn product(first: &[u32; 32], second: &[u32; 32]) -> [u32; 32] {
    let mut both = [0; 32];
    let mut column = 0;
    while column < 32 {
        both[column] = times(first, second[column]);
        column += 1;
    }
    both
}

/// Applies a table from [`zeros`].
#[must_use]
#[inline]
pub fn after_zeros(tables: &[[u32; 256]; 4], crc: u32) -> u32 {
    let bytes = crc.to_le_bytes();
    tables[0][usize::from(bytes[0])]
        ^ tables[1][usize::from(bytes[1])]
        ^ tables[2][usize::from(bytes[2])]
        ^ tables[3][usize::from(bytes[3])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_castagnoli_s() {
        assert_eq!(of(b"123456789"), 0xe306_9283);
        assert_eq!(of_constant(b"123456789"), 0xe306_9283);
        let bytes: Vec<u8> = (0..1000_u32).map(|nth| ((nth * nth) >> 3) as u8).collect();
        for n_bytes in [0, 1, 7, 8, 9, 63, 999] {
            assert_eq!(of(&bytes[..n_bytes]), of_constant(&bytes[..n_bytes]), "{n_bytes}");
        }
    }

    #[test]
    fn zeros_are_applied_at_once() {
        for n_bytes in [0, 1, 5, 1024, 4096] {
            let tables = zeros(n_bytes);
            for crc in [0, 1, 0x8000_0000, u32::MAX, 0x1234_5678] {
                assert_eq!(after_zeros(&tables, crc), more(crc, &vec![0; n_bytes]), "{n_bytes}");
            }
        }
    }
}
