//! Creates self-signed certificates: X.509 version 3 with an Ed25519 key, and only the required fields.
//!
//! Certificates are identified by their fingerprints, so the names in them have no meaning.

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// A key and its certificate.
#[derive(Clone)]
pub struct Made {
    /// The key, as PKCS #8.
    pub key: Vec<u8>,
    /// The certificate, as DER.
    pub certificate: Vec<u8>,
}

/// Validity of a certificate, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// First valid second.
    pub from: u64,
    /// Last valid second.
    pub until: u64,
}

const DAY: u64 = 86_400;

impl Validity {
    /// Valid for ten years, from yesterday because clocks of machines differ.
    #[must_use]
    pub fn ten_years() -> Validity {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Validity { from: now.saturating_sub(DAY), until: now + 3653 * DAY }
    }
}

/// OID 1.3.101.112, Ed25519.
const ED25519: [u8; 3] = [0x2B, 0x65, 0x70];
/// OID 2.5.4.3, a common name.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// OID 2.5.29.17, alternative names of the subject.
const ALTERNATIVE_NAME: [u8; 3] = [0x55, 0x1D, 0x11];

mod tag {
    pub(super) const INTEGER: u8 = 0x02;
    pub(super) const BITS: u8 = 0x03;
    pub(super) const BYTES: u8 = 0x04;
    pub(super) const OID: u8 = 0x06;
    pub(super) const UTF8: u8 = 0x0C;
    pub(super) const TIME: u8 = 0x18;
    pub(super) const SEQUENCE: u8 = 0x30;
    pub(super) const SET: u8 = 0x31;
    pub(super) const DNS_NAME: u8 = 0x82;
    pub(super) const VERSION: u8 = 0xA0;
    pub(super) const EXTENSIONS: u8 = 0xA3;
}

/// Encodes a DER value: tag, length, contents.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    match len {
        0..128 => out.push(len as u8),
        128..256 => out.extend([0x81, len as u8]),
        // Certificates made here have a few hundred bytes.
        _ => out.extend([0x82, (len >> 8) as u8, len as u8]),
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// Encodes a time as DER.
fn time(seconds: u64) -> Vec<u8> {
    let (days, of_day) = (seconds / DAY, seconds % DAY);
    // Years begin in March here, so that a leap day is the last day; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + u64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    let text =
        format!("{year:04}{month:02}{day:02}{:02}{:02}{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60);
    der(tag::TIME, &[text.as_bytes()])
}

/// Creates a key, and a certificate with this name.
///
/// # Errors
/// If the system provides no random numbers.
pub fn make(name: &str, validity: Validity) -> io::Result<Made> {
    let random = SystemRandom::new();
    let failed = |_| io::Error::other("the system gives no random numbers");
    let key = Ed25519KeyPair::generate_pkcs8(&random).map_err(failed)?;
    let pair =
        Ed25519KeyPair::from_pkcs8(key.as_ref()).map_err(|error| io::Error::other(error.to_string()))?;
    let mut serial = [0; 16];
    random.fill(&mut serial).map_err(failed)?;
    // A positive number without leading zero bytes, as DER requires.
    serial[0] = serial[0] & 0x7F | 0x40;
    let algorithm = der(tag::SEQUENCE, &[&der(tag::OID, &[&ED25519])]);
    let common = [der(tag::OID, &[&COMMON_NAME]), der(tag::UTF8, &[name.as_bytes()])].concat();
    let name_of = der(tag::SEQUENCE, &[&der(tag::SET, &[&der(tag::SEQUENCE, &[&common])])]);
    let validity = der(tag::SEQUENCE, &[&time(validity.from), &time(validity.until)]);
    let public = der(tag::SEQUENCE, &[&algorithm, &der(tag::BITS, &[&[0], pair.public_key().as_ref()])]);
    let names = der(tag::SEQUENCE, &[&der(tag::DNS_NAME, &[b"quipu.invalid"])]);
    let extension = der(tag::SEQUENCE, &[&der(tag::OID, &[&ALTERNATIVE_NAME]), &der(tag::BYTES, &[&names])]);
    let body = der(
        tag::SEQUENCE,
        &[
            &der(tag::VERSION, &[&der(tag::INTEGER, &[&[2]])]),
            &der(tag::INTEGER, &[&serial]),
            &algorithm,
            &name_of,
            &validity,
            &name_of,
            &public,
            &der(tag::EXTENSIONS, &[&der(tag::SEQUENCE, &[&extension])]),
        ],
    );
    let signature = der(tag::BITS, &[&[0], pair.sign(&body).as_ref()]);
    Ok(Made { key: key.as_ref().to_vec(), certificate: der(tag::SEQUENCE, &[&body, &algorithm, &signature]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let text = |seconds| String::from_utf8(time(seconds)[2..].to_vec()).unwrap();
        assert_eq!(text(0), "19700101000000Z");
        assert_eq!(text(951_782_399), "20000228235959Z");
        assert_eq!(text(951_782_400), "20000229000000Z");
        assert_eq!(text(4_107_542_399), "21000228235959Z");
        assert_eq!(text(4_107_542_400), "21000301000000Z");
        assert_eq!(text(1_798_761_599), "20261231235959Z");
    }
}
