//! A cursor over bytes that may end too early, with readers for the primitive types of the format.
//!
//! SPEC: apitrace.md#primitive-types.

use quipu_model::ErrorKind;

/// The reason why decoding stopped within an event.
#[derive(Debug)]
pub enum Stop {
    /// The bytes end; at least this many more are needed.
    More(u64),
    /// The bytes are malformed.
    Bad(Box<Fault>),
}

/// An error in the bytes, with its position.
#[derive(Debug)]
pub struct Fault {
    /// The sort of error.
    pub kind: ErrorKind,
    /// Offset in the bytes that the cursor was given.
    pub at: usize,
    /// Says what was expected and what was found.
    pub message: String,
}

/// A result of decoding.
pub type Decoded<T> = Result<T, Stop>;

/// A position in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at offset `at` of `bytes`, or at their end if `at` is beyond it.
    pub fn new(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { bytes, at: at.min(bytes.len()) }
    }

    /// Offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Number of bytes left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Reads the next byte.
    #[inline]
    pub fn byte(&mut self) -> Decoded<u8> {
        let Some(&byte) = self.bytes.get(self.at) else { return Err(Stop::More(1)) };
        self.at += 1;
        Ok(byte)
    }

    /// Returns the next byte without consuming it.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// All bytes, those before the position included.
    pub fn all(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads the next uint (variable length, at most 64 bits).
    #[inline]
    pub fn uint(&mut self) -> Decoded<u64> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_uint(),
        }
    }

    fn long_uint(&mut self) -> Decoded<u64> {
        let start = self.at;
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.byte()?;
            // The tenth byte has room for one bit.
            if shift == 63 && byte > 1 {
                return Err(self.bad_at(start, "a number has more than 64 bits".to_owned()));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    /// Reads the next `len` bytes.
    #[inline]
    pub fn bytes(&mut self, len: u64) -> Decoded<&'a [u8]> {
        let left = self.left() as u64;
        if len > left {
            return Err(Stop::More(len - left));
        }
        let bytes = &self.bytes[self.at..self.at + len as usize]; // At most `left`.
        self.at += bytes.len();
        Ok(bytes)
    }

    /// Reads the next string: its length, then its bytes.
    pub fn string(&mut self) -> Decoded<&'a [u8]> {
        let len = self.uint()?;
        self.bytes(len)
    }

    /// Reads the next string as a name; a `Limit` fault if it has more than `limit` bytes.
    pub fn name(&mut self, limit: u64) -> Decoded<Vec<u8>> {
        let at = self.at;
        let len = self.uint()?;
        if len > limit {
            let message = format!("too many bytes in a name: `{len}`, limit `{limit}`");
            return Err(Stop::Bad(Box::new(Fault { kind: ErrorKind::Limit, at, message })));
        }
        Ok(self.bytes(len)?.to_vec())
    }

    /// Reads the next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(array) => {
                self.at += N;
                Ok(*array)
            }
            None => Err(Stop::More((N - self.left()) as u64)),
        }
    }

    /// A `Malformed` fault at offset `at`.
    #[cold]
    pub fn bad_at(&self, at: usize, message: String) -> Stop {
        Stop::Bad(Box::new(Fault { kind: ErrorKind::Malformed, at, message }))
    }

    /// A `Limit` fault at offset `at`: `found` exceeds `limit`.
    #[cold]
    pub fn limit_at(&self, at: usize, what: &str, found: u64, limit: u64) -> Stop {
        let message = format!("too many {what}: `{found}`, limit `{limit}`");
        Stop::Bad(Box::new(Fault { kind: ErrorKind::Limit, at, message }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_seven_bits_a_byte_and_64_in_all() {
        let read = |bytes: &[u8]| Cursor::new(bytes, 0).uint();
        assert_eq!(read(&[0x7f]).unwrap(), 127);
        assert_eq!(read(&[0x80, 1]).unwrap(), 128);
        assert_eq!(read(&[0xff; 9].iter().copied().chain([1]).collect::<Vec<_>>()).unwrap(), u64::MAX);
        assert!(matches!(read(&[0xff; 10]), Err(Stop::Bad(_))));
        assert!(matches!(read(&[0x80; 12]), Err(Stop::Bad(_))));
        assert!(matches!(read(&[0x80]), Err(Stop::More(1))));
        assert!(matches!(read(&[]), Err(Stop::More(1))));
    }

    #[test]
    fn a_length_beyond_the_bytes_asks_for_the_rest() {
        let mut cursor = Cursor::new(&[5, b'a', b'b'], 0);
        assert!(matches!(cursor.string(), Err(Stop::More(3))));
        let mut cursor = Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 0);
        assert!(matches!(cursor.string(), Err(Stop::More(u64::MAX))));
    }
}
