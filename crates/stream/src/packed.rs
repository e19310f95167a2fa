//! Variable-length integers: seven bits per byte, low bits first. Signed ones are zigzag-encoded, so that small magnitudes
//! stay short.

/// Reads packed values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { bytes, at }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Reads an unsigned 64-bit number of at most ten bytes.
    #[inline]
    pub(crate) fn uv(&mut self) -> Option<u64> {
        let first = *self.bytes.get(self.at)?;
        if first < 0x80 {
            self.at += 1;
            return Some(first.into());
        }
        self.wide(10)?.try_into().ok()
    }

    /// Reads an unsigned 128-bit number of at most 19 bytes.
    pub(crate) fn uv128(&mut self) -> Option<u128> {
        self.wide(19)
    }

    fn wide(&mut self, max_bytes: usize) -> Option<u128> {
        let mut n = 0_u128;
        for i in 0..max_bytes {
            let byte = *self.bytes.get(self.at + i)?;
            let bits = u128::from(byte & 0x7F);
            let shift = 7 * i as u32; // At most 126.
            if bits << shift >> shift != bits {
                return None;
            }
            n |= bits << shift;
            if byte < 0x80 {
                self.at += i + 1;
                return Some(n);
            }
        }
        None
    }

    /// Reads a signed 64-bit number.
    #[inline]
    pub(crate) fn sv(&mut self) -> Option<i64> {
        self.uv().map(|n| (n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// Reads a signed 128-bit number.
    pub(crate) fn sv128(&mut self) -> Option<i128> {
        self.uv128().map(|n| (n >> 1) as i128 ^ -((n & 1) as i128))
    }

    /// Reads `n` bytes.
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(bytes)
    }

    /// Reads a number of elements. Since each takes at least one byte, `None` if it exceeds the bytes left.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let n = usize::try_from(self.uv()?).ok()?;
        (n <= self.bytes.len() - self.at).then_some(n)
    }
}

/// Appends an unsigned number.
#[inline]
pub(crate) fn put_uv(mut n: u128, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8); // Seven bits are left.
}

/// Appends a signed number.
#[inline]
pub(crate) fn put_sv(n: i128, out: &mut Vec<u8>) {
    put_uv((n << 1 ^ n >> 127) as u128, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn folded_numbers_and_limits() {
        let folded = |n: i128| {
            let mut out = Vec::new();
            put_sv(n, &mut out);
            out
        };
        assert_eq!([0, -1, 1, -2].map(folded), [[0], [1], [2], [3]]);
        assert_eq!(Cursor::new(&[0xFF; 9], 0).uv(), None, "cut");
        let largest = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        assert_eq!(Cursor::new(&largest, 0).uv(), Some(u64::MAX));
        assert_eq!(Cursor::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02], 0).uv(), None);
    }

    proptest! {
        #[test]
        fn numbers_come_back(n in any::<i128>(), m in any::<u64>()) {
            let mut out = Vec::new();
            put_sv(n, &mut out);
            put_uv(m.into(), &mut out);
            let mut cursor = Cursor::new(&out, 0);
            prop_assert_eq!(cursor.sv128(), Some(n));
            prop_assert_eq!(cursor.uv(), Some(m));
            prop_assert!(cursor.is_at_end());
        }
    }
}
