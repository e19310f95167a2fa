//! A walk over structures of Thrift's compact protocol, so that no library allocates by a length that they only claim.
//!
//! SPEC: columnar.md#limits

use super::limits;
use quipu_model::{Error, Result};

/// Levels that structures may have.
const MAX_DEPTH: usize = 24;
/// Bytes that a structure in a list has at least: what is shorter has not the fields that each of them must have.
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

/// Called with the fields that lead to a number, and the number; a list has one field for all of its items. Where a structure
/// begins, it is called with a field 0 of it.
type Visit<'v> = dyn FnMut(&[i16], i64) + 'v;

struct Walk<'b, 'v> {
    bytes: &'b [u8],
    at: usize,
    path: Vec<i16>,
    visit: &'v mut Visit<'v>,
}

/// Goes through a structure; the result is how many bytes it has. `None` if it does not end within the bytes.
///
/// # Errors
/// `Malformed` or `Limit` for what no honest file has.
pub(super) fn walk<'v>(bytes: &[u8], visit: &'v mut Visit<'v>) -> Result<Option<usize>> {
    let mut walk = Walk { bytes, at: 0, path: Vec::new(), visit };
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

impl Walk<'_, '_> {
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

    fn skip(&mut self, n: u64) -> Result<(), Stop> {
        let left = (self.bytes.len() - self.at) as u64;
        if n > left {
            return Err(Stop::Ended);
        }
        self.at += n as usize; // At most what is left.
        Ok(())
    }

    fn structure(&mut self) -> Result<(), Stop> {
        if self.path.len() >= MAX_DEPTH {
            return Err(wrong("structures of the footer stand too deep in each other"));
        }
        self.path.push(0);
        (self.visit)(&self.path, 0);
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
        match kind {
            // A field has its truth in the kind.
            ty::TRUE | ty::FALSE if is_field => Ok(()),
            ty::TRUE | ty::FALSE | ty::I8 => self.skip(1),
            ty::I16 | ty::I32 | ty::I64 => {
                let value = self.zigzag()?;
                (self.visit)(&self.path, value);
                Ok(())
            }
            ty::DOUBLE => self.skip(8),
            ty::BINARY => {
                let n = self.varint()?;
                self.skip(n)
            }
            ty::LIST | ty::SET => {
                let head = self.byte()?;
                let n = match head >> 4 {
                    15 => self.varint()?,
                    n => n.into(),
                };
                self.items(n, head & 0x0f)
            }
            ty::MAP => {
                let n = self.varint()?;
                if n == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                for _ in 0..n {
                    self.value(kinds >> 4, false)?;
                    self.value(kinds & 0x0f, false)?;
                }
                Ok(())
            }
            ty::STRUCT => self.structure(),
            _ => Err(wrong("a field of the footer has a type that there is not")),
        }
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

/// Makes sure that a footer is one that a library may read.
///
/// # Errors
/// `Malformed`, `Truncated` or `Limit`.
pub(super) fn check_footer(bytes: &[u8]) -> Result<()> {
    // Field 2 has the columns, each followed by those within it, whose number is in field 5.
    let mut children: Vec<i64> = Vec::new();
    let mut visit = |path: &[i16], value: i64| match path {
        [2, 0] => children.push(0),
        [2, 5] => children.iter_mut().last().into_iter().for_each(|n| *n = value),
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

/// What the head of a page says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageHead {
    /// Bytes of the head itself.
    pub(super) len: usize,
    pub(super) unpacked: i64,
    pub(super) packed: i64,
    pub(super) is_dictionary: bool,
    /// Bytes at the beginning of the page that are never packed.
    pub(super) bare: i64,
}

/// The head of a page at the beginning of these bytes; `None` if it does not end within them.
///
/// # Errors
/// `Malformed` if it is none.
pub(super) fn page_head(bytes: &[u8]) -> Result<Option<PageHead>> {
    let mut head = PageHead::default();
    let mut visit = |path: &[i16], value: i64| match path {
        [1] => head.is_dictionary = value == 2,
        [2] => head.unpacked = value,
        [3] => head.packed = value,
        // Levels of pages of version 2.
        [8, 5 | 6] => head.bare = head.bare.saturating_add(value),
        _ => {}
    };
    let len = walk(bytes, &mut visit)?;
    Ok(len.map(|len| PageHead { len, ..head }))
}

/// The bytes of a page's head and those of its packed body, of a page at the beginning of these bytes; `None` if the head does
/// not end within them.
///
/// # Errors
/// `Malformed` if it is none.
pub(crate) fn page_at(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(head) = page_head(bytes)? else { return Ok(None) };
    Ok(usize::try_from(head.packed).ok().map(|packed| (head.len, packed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_claim_more_than_their_bytes_are_refused() {
        // Field 2, a list of two thousand million structures.
        let bomb = [0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0];
        assert!(check_footer(&bomb).is_err());
        // As many as there are bytes, but each of them empty.
        let empty: Vec<u8> = [0x29, 0xfc, 200, 1].into_iter().chain([0; 201]).collect();
        assert!(check_footer(&empty).unwrap_err().to_string().contains("without their fields"));
        assert!(check_footer(&[0x1c; 1000]).unwrap_err().to_string().contains("too deep"));
    }

    #[test]
    fn the_head_of_a_page_says_its_sizes() {
        // A dictionary of 300 bytes, packed into 100.
        let head = [0x15, 4, 0x15, 0xd8, 4, 0x15, 0xc8, 1, 0];
        let page = page_head(&head).unwrap().unwrap();
        assert_eq!((page.len, page.unpacked, page.packed, page.is_dictionary), (9, 300, 100, true));
        assert!(page_head(&head[..5]).unwrap().is_none());
    }
}
