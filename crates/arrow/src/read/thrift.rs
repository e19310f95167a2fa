//! A walk over structures of Thrift's compact protocol, so that no library allocates by a length that they only claim.
//!
//! SPEC: columnar.md#limits

use super::limits;
use quipu_model::{Error, Result};

/// Maximum nesting of structures, and of lists and maps.
const MAX_DEPTH: usize = 24;
/// Minimum bytes of a structure in a list: a shorter one lacks required fields.
const MIN_STRUCT_BYTES: usize = 3;

mod ty {
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const I8: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const MAP: u8 = 11;
    pub(super) const STRUCT: u8 = 12;
}

/// A value met on the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen<'b> {
    /// A structure begins.
    Begin,
    Number(i64),
    Bytes(&'b [u8]),
    Truth(bool),
}

/// Called with the path of field numbers to a value, and the value. All items of a list share the list's field. At the
/// beginning of a structure it is called with a field 0 of that structure.
type Visit<'v> = dyn FnMut(&[i16], Seen<'_>) + 'v;

struct Walk<'b, 'v> {
    bytes: &'b [u8],
    at: usize,
    path: Vec<i16>,
    /// Number of open lists and maps.
    n_lists: usize,
    visit: &'v mut Visit<'v>,
}

/// Walks through a structure; returns its length in bytes, or `None` if it does not end within the bytes.
///
/// # Errors
/// `Malformed` or `Limit` for content that no writer produces.
pub(super) fn walk<'v>(bytes: &[u8], visit: &'v mut Visit<'v>) -> Result<Option<usize>> {
    let mut walk = Walk { bytes, at: 0, path: Vec::new(), n_lists: 0, visit };
    match walk.structure() {
        Ok(()) => Ok(Some(walk.at)),
        Err(Stop::Ended) => Ok(None),
        Err(Stop::Wrong(error)) => Err(error),
    }
}

enum Stop {
    Ended,
    Wrong(Error),
}

fn wrong(what: &str) -> Stop {
    Stop::Wrong(Error::malformed(what))
}

impl<'b> Walk<'b, '_> {
    fn byte(&mut self) -> Result<u8, Stop> {
        let byte = *self.bytes.get(self.at).ok_or(Stop::Ended)?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, Stop> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(wrong("a number of the footer has too many bytes"))
    }

    fn zigzag(&mut self) -> Result<i64, Stop> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Skips bytes and returns them.
    fn skip(&mut self, n: u64) -> Result<&'b [u8], Stop> {
        let left = &self.bytes[self.at..];
        let bytes = usize::try_from(n).ok().and_then(|n| left.get(..n)).ok_or(Stop::Ended)?;
        self.at += bytes.len();
        Ok(bytes)
    }

    fn structure(&mut self) -> Result<(), Stop> {
        if self.path.len() >= MAX_DEPTH {
            return Err(wrong("structures of the footer stand too deep in each other"));
        }
        self.path.push(0);
        (self.visit)(&self.path, Seen::Begin);
        let mut field = 0_i16;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0f;
            if kind == 0 {
                break;
            }
            field = match head >> 4 {
                0 => self.zigzag()? as i16, // As the protocol has it.
                delta => field.wrapping_add(i16::from(delta)),
            };
            if let Some(last) = self.path.last_mut() {
                *last = field;
            }
            self.value(kind, true)?;
        }
        self.path.pop();
        Ok(())
    }

    fn value(&mut self, kind: u8, is_field: bool) -> Result<(), Stop> {
        if !matches!(kind, ty::LIST | ty::SET | ty::MAP) {
            return self.single(kind, is_field);
        }
        // Each level takes stack and costs a file only one byte.
        if self.n_lists >= MAX_DEPTH {
            return Err(wrong("lists of the footer stand too deep in each other"));
        }
        self.n_lists += 1;
        let read = self.collection(kind);
        self.n_lists -= 1;
        read
    }

    fn single(&mut self, kind: u8, is_field: bool) -> Result<(), Stop> {
        match kind {
            // The type of a boolean field holds its value.
            ty::TRUE | ty::FALSE if is_field => {
                (self.visit)(&self.path, Seen::Truth(kind == ty::TRUE));
                Ok(())
            }
            ty::TRUE | ty::FALSE => {
                let truth = self.byte()? == ty::TRUE;
                (self.visit)(&self.path, Seen::Truth(truth));
                Ok(())
            }
            ty::I8 => self.skip(1).map(drop),
            ty::I16 | ty::I32 | ty::I64 => {
                let value = self.zigzag()?;
                (self.visit)(&self.path, Seen::Number(value));
                Ok(())
            }
            ty::DOUBLE => self.skip(8).map(drop),
            ty::BINARY => {
                let n = self.varint()?;
                let bytes = self.skip(n)?;
                (self.visit)(&self.path, Seen::Bytes(bytes));
                Ok(())
            }
            ty::STRUCT => self.structure(),
            _ => Err(wrong("a field of the footer has a type that there is not")),
        }
    }

    fn collection(&mut self, kind: u8) -> Result<(), Stop> {
        if kind == ty::MAP {
            let n = self.varint()?;
            if n == 0 {
                return Ok(());
            }
            let kinds = self.byte()?;
            for _ in 0..n {
                self.value(kinds >> 4, false)?;
                self.value(kinds & 0x0f, false)?;
            }
            return Ok(());
        }
        let head = self.byte()?;
        let n = match head >> 4 {
            15 => self.varint()?,
            n => n.into(),
        };
        self.items(n, head & 0x0f)
    }

    fn items(&mut self, n: u64, kind: u8) -> Result<(), Stop> {
        let start = self.at;
        for _ in 0..n {
            self.value(kind, false)?;
        }
        let is_short = kind == ty::STRUCT && ((self.at - start) as u64) < n * MIN_STRUCT_BYTES as u64;
        if is_short {
            return Err(wrong("a list of the footer has items without their fields"));
        }
        Ok(())
    }
}

/// Checks that a footer is safe for the library to read.
///
/// # Errors
/// `Malformed`, `Truncated` or `Limit`.
pub(super) fn check_footer(bytes: &[u8]) -> Result<()> {
    // Field 2 lists the columns, each followed by its children; their number is in field 5.
    let mut children: Vec<i64> = Vec::new();
    let mut visit = |path: &[i16], value: Seen<'_>| match (path, value) {
        ([2, 0], _) => children.push(0),
        ([2, 5], Seen::Number(value)) => children.iter_mut().last().into_iter().for_each(|n| *n = value),
        _ => {}
    };
    if walk(bytes, &mut visit)?.is_none() {
        return Err(Error::truncated("the footer ends in the middle"));
    }
    if children.len() > limits::COLUMNS {
        return Err(Error::limit("columns of a file", children.len() as u64, limits::COLUMNS as u64));
    }
    let (mut open, mut deepest): (Vec<i64>, usize) = (Vec::new(), 0);
    for n in children {
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        if n > 0 {
            open.push(n);
            deepest = deepest.max(open.len());
        }
        while open.last().is_some_and(|left| *left <= 0) {
            open.pop();
        }
    }
    // A list takes two levels.
    let most = 2 * limits::DEPTH as usize;
    if deepest > most {
        return Err(Error::limit("levels of columns", deepest as u64, most as u64));
    }
    Ok(())
}

/// Contents of a page header.
#[derive(Clone, Debug, Default)]
pub(super) struct PageHead {
    /// Bytes of the header itself.
    pub(super) len: usize,
    pub(super) unpacked: i64,
    pub(super) packed: i64,
    pub(super) is_dictionary: bool,
    /// Number of values in a data page, nulls included.
    pub(super) n_values: Option<i64>,
    /// Number of rows; only version 2 pages state it.
    pub(super) n_rows: Option<i64>,
    /// Minimum and maximum value in their stored form.
    pub(super) least: Option<Vec<u8>>,
    pub(super) largest: Option<Vec<u8>>,
    /// Bytes at the beginning of the page that are never compressed.
    pub(super) bare: i64,
}

/// Parses the page header at the beginning of these bytes; `None` if it does not end within them.
///
/// # Errors
/// `Malformed` if there is no page header.
pub(super) fn page_head(bytes: &[u8]) -> Result<Option<PageHead>> {
    let mut head = PageHead::default();
    let (mut kind, mut values, mut rows) = (None, [None; 2], None);
    let mut visit = |path: &[i16], value: Seen<'_>| match (path, value) {
        ([1], Seen::Number(value)) => kind = Some(value),
        ([2], Seen::Number(value)) => head.unpacked = value,
        ([3], Seen::Number(value)) => head.packed = value,
        ([5, 1], Seen::Number(value)) => values[0] = Some(value),
        ([8, 1], Seen::Number(value)) => values[1] = Some(value),
        ([8, 3], Seen::Number(value)) => rows = Some(value),
        // Repetition and definition levels of version 2 pages.
        ([8, 5 | 6], Seen::Number(value)) => head.bare = head.bare.saturating_add(value),
        // Longer values are not numbers.
        ([5, 5, 5] | [8, 8, 5], Seen::Bytes(bytes)) if bytes.len() <= 8 => {
            head.largest = Some(bytes.to_vec())
        }
        ([5, 5, 6] | [8, 8, 6], Seen::Bytes(bytes)) if bytes.len() <= 8 => head.least = Some(bytes.to_vec()),
        _ => {}
    };
    let len = walk(bytes, &mut visit)?;
    head.is_dictionary = kind == Some(2);
    (head.n_values, head.n_rows) = match kind {
        Some(0) => (values[0], None),
        Some(3) => (values[1], rows),
        _ => (None, None),
    };
    Ok(len.map(|len| PageHead { len, ..head }))
}

/// Returns the lengths of the header and of the compressed body of the page at the beginning of these bytes; `None` if the
/// header does not end within them.
///
/// # Errors
/// `Malformed` if there is no page header.
pub(crate) fn page_at(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(head) = page_head(bytes)? else { return Ok(None) };
    Ok(usize::try_from(head.packed).ok().map(|packed| (head.len, packed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_claim_more_than_their_bytes_are_refused() {
        // Field 2, a list of two billion structures.
        let bomb = [0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0];
        assert!(check_footer(&bomb).is_err());
        // As many structures as bytes, but all of them empty.
        let empty: Vec<u8> = [0x29, 0xfc, 200, 1].into_iter().chain([0; 201]).collect();
        assert!(check_footer(&empty).unwrap_err().to_string().contains("without their fields"));
        // Structures, lists, sets and maps nested in each other.
        for byte in [0x1c, 0x19, 0x1a] {
            assert!(
                check_footer(&[byte; 1_000_000]).unwrap_err().to_string().contains("too deep"),
                "{byte:x}"
            );
        }
        let maps = [&[0x1b][..], &[0x01, 0xbb].repeat(500_000)].concat();
        assert!(check_footer(&maps).unwrap_err().to_string().contains("too deep"));
    }

    #[test]
    fn the_head_of_a_page_says_its_sizes() {
        // A dictionary of 300 bytes, compressed to 100.
        let head = [0x15, 4, 0x15, 0xd8, 4, 0x15, 0xc8, 1, 0];
        let page = page_head(&head).unwrap().unwrap();
        assert_eq!((page.len, page.unpacked, page.packed, page.is_dictionary), (9, 300, 100, true));
        assert!(page_head(&head[..5]).unwrap().is_none());
    }
}
