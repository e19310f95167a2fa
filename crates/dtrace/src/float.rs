//! Floating-point numbers of records.

pub use quipu_stream::float::digits;

/// Reads 4, 8 or 16 little-endian bytes; 16 bytes are an 80-bit number of x86, which loses its last digits.
pub fn of_bytes(bytes: &[u8]) -> Option<f64> {
    match bytes.len() {
        4 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        8 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        16 => {
            let mantissa = u64::from_le_bytes(bytes[..8].try_into().ok()?);
            let head = u16::from_le_bytes(bytes[8..10].try_into().ok()?);
            let exponent = i32::from(head & 0x7fff);
            let sign = if head & 0x8000 == 0 { 1.0 } else { -1.0 };
            Some(match exponent {
                0x7fff if mantissa << 1 == 0 => sign * f64::INFINITY,
                0x7fff => f64::NAN,
                _ => {
                    // In two steps, because the power alone may underflow even if the result does not.
                    let power = exponent - 16_383 - 63;
                    let half = power / 2;
                    sign * (mantissa as f64) * 2f64.powi(half) * 2f64.powi(power - half)
                }
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_80_bits_are_read() {
        let mut bytes = [0u8; 16];
        bytes[7] = 0xc0;
        bytes[8..10].copy_from_slice(&0xc000u16.to_le_bytes());
        assert_eq!(of_bytes(&bytes), Some(-3.0));
        assert_eq!(of_bytes(&1.5f32.to_le_bytes()), Some(1.5));
        assert_eq!(of_bytes(&[1, 2]), None);
    }
}
