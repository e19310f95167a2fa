//! Building blocks of trace descriptions: canonical CBOR, metadata records, types with their layouts, CRC-32C.
//!
//! | module | contents |
//! |---|---|
//! | [`cbor`] | values, their canonical encoding, and a decoder that also accepts other encodings and reports them |
//! | [`record`] | metadata records of all defined kinds, from and to CBOR |
//! | [`types`] | descriptions of types, as in metadata records |
//! | [`layout`] | resolved types: size, alignment, shape |
//!
//! This crate knows no frames, files or streams: `quipu-stream` puts these records into frames, and other carriers may store
//! them without. `docs/formats/stream.md` describes the format.

pub mod cbor;
pub mod layout;
pub mod record;
pub mod types;

/// Computes the CRC-32C (Castagnoli) of bytes.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Continues a CRC-32C: the checksum of two concatenated byte strings is `crc32c_append(crc32c(first), second)`.
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// The value of an IEEE 754 half-precision number.
#[must_use]
pub fn f16_value(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f64::from(bits & 1023);
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_castagnoli_s() {
        assert_eq!(super::crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(super::crc32c_append(super::crc32c(b"1234"), b"56789"), 0xE306_9283);
    }

    #[test]
    fn half_precision_numbers_have_their_values() {
        let values = [(0x3C00, 1.0), (0xC000, -2.0), (0x0001, 2f64.powi(-24)), (0x7BFF, 65504.0)];
        assert!(values.iter().all(|(bits, value)| super::f16_value(*bits) == *value));
        assert!(super::f16_value(0x7C00).is_infinite() && super::f16_value(0x7C01).is_nan());
    }
}
