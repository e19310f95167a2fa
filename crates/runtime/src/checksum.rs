//! CRC-32C of payloads, with the processor's instruction if it has one.

use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
use quipu_cells::checksum::{after_zeros, of as without_instruction, zeros};

/// Bytes of a part. The instruction has a latency of three times its issue interval, so three parts are processed
/// side by side.
const PART_BYTES: usize = 2048;
/// The effect of a part of zeros on a checksum.
static AFTER_PART: [[u32; 256]; 4] = zeros(PART_BYTES);

/// The checksum of bytes.
pub(crate) fn of(bytes: &[u8]) -> u32 {
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        unsafe { with_instruction(bytes) }
    } else {
        without_instruction(bytes)
    }
}

#[target_feature(enable = "sse4.2")]
fn with_instruction(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    let mut parts = bytes.chunks_exact(3 * PART_BYTES);
    for part in &mut parts {
        let (words, _) = part.as_chunks::<8>();
        let (first, rest) = words.split_at(PART_BYTES / 8);
        let (second, third) = rest.split_at(PART_BYTES / 8);
        let mut sums = [u64::from(crc), 0, 0];
        for ((first, second), third) in first.iter().zip(second).zip(third) {
            sums[0] = _mm_crc32_u64(sums[0], u64::from_le_bytes(*first));
            sums[1] = _mm_crc32_u64(sums[1], u64::from_le_bytes(*second));
            sums[2] = _mm_crc32_u64(sums[2], u64::from_le_bytes(*third));
        }
        crc = after_zeros(&AFTER_PART, sums[0] as u32) ^ sums[1] as u32;
        crc = after_zeros(&AFTER_PART, crc) ^ sums[2] as u32;
    }
    let (words, rest) = parts.remainder().as_chunks::<8>();
    let mut sum = u64::from(crc);
    for word in words {
        sum = _mm_crc32_u64(sum, u64::from_le_bytes(*word));
    }
    !rest.iter().fold(sum as u32, |crc, byte| _mm_crc32_u8(crc, *byte))
}
