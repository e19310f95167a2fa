//! Texts and byte strings of any length, in one buffer.

use std::ops::Range;

/// Texts, or arbitrary bytes, end to end in one buffer: the layout of Arrow, so that conversion to Arrow copies nothing.
///
/// Offsets have 31 bits; readers end a batch long before its texts have 2 GiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    /// Start of each text in `bytes`, followed by the end of the last; empty if there are no texts.
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl Strings {
    /// Number of texts.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// True if there are no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Total length of all texts, in bytes.
    pub fn n_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of a row; empty past the end.
    pub fn get(&self, row: usize) -> &[u8] {
        match self.offsets.get(row..row.saturating_add(2)) {
            Some([start, end]) => self.bytes.get(*start as usize..*end as usize).unwrap_or(&[]),
            _ => &[],
        }
    }

    /// The text of a row; bytes that are not UTF-8 are replaced by U+FFFD.
    pub fn text(&self, row: usize) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.get(row))
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Appends arbitrary bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.end_row(1);
    }

    /// Appends a text; bytes that are not UTF-8 are replaced by U+FFFD, so that a column of texts holds valid UTF-8 only.
    pub fn push_text(&mut self, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(_) => self.push(bytes),
            Err(_) => self.push(String::from_utf8_lossy(bytes).as_bytes()),
        }
    }

    /// Appends `times` empty texts.
    pub fn push_empty(&mut self, times: usize) {
        if times > 0 {
            self.end_row(times);
        }
    }

    fn end_row(&mut self, times: usize) {
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        // Readers end a batch long before this overflows.
        let end = i32::try_from(self.bytes.len()).unwrap_or(i32::MAX);
        self.offsets.extend(std::iter::repeat_n(end, times));
    }

    /// Appends rows of other strings; rows past their end are ignored.
    pub fn extend_rows(&mut self, from: &Strings, rows: Range<usize>) {
        (rows.start..rows.end.min(from.len())).for_each(|row| self.push(from.get(row)));
    }

    /// Keeps the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        if rows < self.len() {
            self.offsets.truncate(rows + 1);
            self.bytes.truncate(self.offsets.last().map_or(0, |end| *end as usize));
        }
    }

    /// Removes all rows but keeps the buffers.
    pub fn clear(&mut self) {
        self.offsets.clear();
        self.bytes.clear();
    }

    /// The offsets (one more than there are rows, or none at all) and the bytes, in Arrow's layout.
    pub fn into_parts(self) -> (Vec<i32>, Vec<u8>) {
        (self.offsets, self.bytes)
    }
}

impl<'a> FromIterator<&'a str> for Strings {
    fn from_iter<I: IntoIterator<Item = &'a str>>(texts: I) -> Strings {
        let mut strings = Strings::default();
        texts.into_iter().for_each(|text| strings.push(text.as_bytes()));
        strings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_after_each_change() {
        let mut strings: Strings = ["a", "", "ccc"].into_iter().collect();
        strings.push_empty(2);
        strings.push_text(b"\xff!");
        assert_eq!(strings.iter().map(<[u8]>::len).collect::<Vec<_>>(), [1, 0, 3, 0, 0, 4]);
        assert_eq!((strings.text(5), strings.get(6)), ("\u{fffd}!".into(), &b""[..]));
        let mut some = Strings::default();
        some.extend_rows(&strings, 2..9);
        assert_eq!((some.len(), some.get(0)), (4, &b"ccc"[..]));
        some.truncate(1);
        some.push(b"d");
        assert_eq!(some.into_parts(), (vec![0, 3, 4], b"cccd".to_vec()));
    }
}
