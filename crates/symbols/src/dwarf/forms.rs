//! The values of attributes in the bytes of a unit: their lengths, and the few kinds that the walk reads.

use super::units::MAX_NAME;
use gimli::{DwForm, Encoding, Endianity, RunTimeEndian};

/// Maximum number of indirections from one form to the next.
const MAX_INDIRECT: usize = 4;

/// The bytes of a unit, and the sections with its strings.
pub(super) struct Bytes<'a> {
    pub(super) unit: &'a [u8],
    pub(super) endian: RunTimeEndian,
    pub(super) encoding: Encoding,
    pub(super) strings: &'a [u8],
    pub(super) line_strings: &'a [u8],
    pub(super) string_offsets: &'a [u8],
    pub(super) strings_base: usize,
}

/// True for blocks, which state their own length.
pub(super) fn is_block(form: DwForm) -> bool {
    matches!(
        form,
        gimli::DW_FORM_exprloc
            | gimli::DW_FORM_block
            | gimli::DW_FORM_block1
            | gimli::DW_FORM_block2
            | gimli::DW_FORM_block4
    )
}

/// Size of a value in bytes, if it is the same for all values of the form.
pub(super) fn fixed(form: DwForm, encoding: Encoding) -> Option<u32> {
    let bytes: u8 = match form {
        gimli::DW_FORM_flag_present | gimli::DW_FORM_implicit_const => 0,
        gimli::DW_FORM_data1
        | gimli::DW_FORM_ref1
        | gimli::DW_FORM_flag
        | gimli::DW_FORM_strx1
        | gimli::DW_FORM_addrx1 => 1,
        gimli::DW_FORM_data2 | gimli::DW_FORM_ref2 | gimli::DW_FORM_strx2 | gimli::DW_FORM_addrx2 => 2,
        gimli::DW_FORM_strx3 | gimli::DW_FORM_addrx3 => 3,
        gimli::DW_FORM_data4
        | gimli::DW_FORM_ref4
        | gimli::DW_FORM_strx4
        | gimli::DW_FORM_addrx4
        | gimli::DW_FORM_ref_sup4 => 4,
        gimli::DW_FORM_data8 | gimli::DW_FORM_ref8 | gimli::DW_FORM_ref_sig8 | gimli::DW_FORM_ref_sup8 => 8,
        gimli::DW_FORM_data16 => 16,
        gimli::DW_FORM_addr => encoding.address_size,
        gimli::DW_FORM_ref_addr if encoding.version == 2 => encoding.address_size,
        gimli::DW_FORM_ref_addr
        | gimli::DW_FORM_sec_offset
        | gimli::DW_FORM_strp
        | gimli::DW_FORM_strp_sup
        | gimli::DW_FORM_line_strp
        | gimli::DW_FORM_GNU_ref_alt
        | gimli::DW_FORM_GNU_strp_alt => encoding.format.word_size(),
        _ => return None,
    };
    Some(bytes.into())
}

/// True for forms whose values determine their own length.
pub(super) fn is_variable(form: DwForm) -> bool {
    is_block(form) || is_number(form) || matches!(form, gimli::DW_FORM_string | gimli::DW_FORM_indirect)
}

/// True for forms whose values are LEB128 numbers.
fn is_number(form: DwForm) -> bool {
    matches!(
        form,
        gimli::DW_FORM_udata
            | gimli::DW_FORM_sdata
            | gimli::DW_FORM_ref_udata
            | gimli::DW_FORM_strx
            | gimli::DW_FORM_GNU_str_index
            | gimli::DW_FORM_addrx
            | gimli::DW_FORM_GNU_addr_index
            | gimli::DW_FORM_loclistx
            | gimli::DW_FORM_rnglistx
    )
}

/// Reads an unsigned LEB128 number at `at`, and advances `at`.
pub(super) fn leb(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let (mut value, mut shift) = (0_u64, 0_u32);
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if shift < 64 {
            value |= u64::from(byte & 0x7f) << shift;
        }
        if byte < 0x80 {
            return Some(value);
        }
        shift = shift.saturating_add(7);
    }
}

impl<'a> Bytes<'a> {
    /// A number of a fixed length in `bytes`.
    fn fixed_number(&self, bytes: &[u8], at: usize, len: usize) -> Option<u64> {
        let bytes = bytes.get(at..at.checked_add(len)?)?;
        Some(match len {
            1 => bytes[0].into(),
            2 => self.endian.read_u16(bytes).into(),
            3 => { self.endian }.read_uint(bytes),
            4 => self.endian.read_u32(bytes).into(),
            8 => self.endian.read_u64(bytes),
            _ => return None,
        })
    }

    /// The value of an attribute that is a number.
    pub(super) fn number(&self, form: DwForm, at: usize) -> Option<usize> {
        if is_number(form) {
            return usize::try_from(leb(self.unit, &mut { at })?).ok();
        }
        let len = usize::try_from(fixed(form, self.encoding)?).ok()?;
        usize::try_from(self.fixed_number(self.unit, at, len)?).ok()
    }

    /// The target of a reference within the unit.
    pub(super) fn reference(&self, form: DwForm, at: usize) -> Option<usize> {
        let is_inside = matches!(
            form,
            gimli::DW_FORM_ref1
                | gimli::DW_FORM_ref2
                | gimli::DW_FORM_ref4
                | gimli::DW_FORM_ref8
                | gimli::DW_FORM_ref_udata
        );
        is_inside.then(|| self.number(form, at)).flatten()
    }

    /// Start and end of a block.
    fn block(&self, form: DwForm, at: usize) -> Option<(usize, usize)> {
        let mut start = at;
        let len = match form {
            gimli::DW_FORM_exprloc | gimli::DW_FORM_block => leb(self.unit, &mut start)?,
            gimli::DW_FORM_block1 | gimli::DW_FORM_block2 | gimli::DW_FORM_block4 => {
                let n = match form {
                    gimli::DW_FORM_block1 => 1,
                    gimli::DW_FORM_block2 => 2,
                    _ => 4,
                };
                start = at.checked_add(n)?;
                self.fixed_number(self.unit, at, n)?
            }
            _ => return None,
        };
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        (end <= self.unit.len()).then_some((start, end))
    }

    /// The end of a value.
    pub(super) fn behind(&self, form: DwForm, at: usize, depth: usize) -> Option<usize> {
        if is_block(form) {
            return Some(self.block(form, at)?.1);
        }
        if is_number(form) {
            let mut at = at;
            leb(self.unit, &mut at)?;
            return Some(at);
        }
        match form {
            gimli::DW_FORM_string => {
                let rest = self.unit.get(at..)?;
                Some(at + memchr::memchr(0, rest)? + 1)
            }
            gimli::DW_FORM_indirect if depth < MAX_INDIRECT => {
                let mut at = at;
                let form = DwForm(u16::try_from(leb(self.unit, &mut at)?).ok()?);
                self.behind(form, at, depth + 1)
            }
            _ => at.checked_add(usize::try_from(fixed(form, self.encoding)?).ok()?),
        }
    }

    /// The value of an attribute that is text.
    pub(super) fn text(&self, form: DwForm, at: usize) -> Option<&'a [u8]> {
        let from = match form {
            gimli::DW_FORM_string => self.unit.get(at..)?,
            gimli::DW_FORM_strp => self.strings.get(self.number(form, at)?..)?,
            gimli::DW_FORM_line_strp => self.line_strings.get(self.number(form, at)?..)?,
            gimli::DW_FORM_strx
            | gimli::DW_FORM_strx1
            | gimli::DW_FORM_strx2
            | gimli::DW_FORM_strx3
            | gimli::DW_FORM_strx4
            | gimli::DW_FORM_GNU_str_index => {
                let word = usize::from(self.encoding.format.word_size());
                let place = self.number(form, at)?.checked_mul(word)?.checked_add(self.strings_base)?;
                let offset = self.fixed_number(self.string_offsets, place, word)?;
                self.strings.get(usize::try_from(offset).ok()?..)?
            }
            gimli::DW_FORM_indirect => {
                let mut at = at;
                let form = DwForm(u16::try_from(leb(self.unit, &mut at)?).ok()?);
                // An indirect form that leads to another indirect one is not a name.
                return if form == gimli::DW_FORM_indirect { None } else { self.text(form, at) };
            }
            _ => return None,
        };
        let len = memchr::memchr(0, from)?;
        Some(&from[..len.min(MAX_NAME)])
    }

    /// True if a variable's location begins with an address other than zero, which linkers write for removed parts.
    pub(super) fn has_address(&self, form: DwForm, at: usize) -> bool {
        let Some((start, end)) = self.block(form, at) else { return false };
        match self.unit[start..end].split_first() {
            Some((&op, rest)) if op == gimli::DW_OP_addr.0 => {
                let len = rest.len().min(self.encoding.address_size.into());
                rest[..len].iter().any(|byte| *byte != 0)
            }
            Some((&op, _)) => op == gimli::DW_OP_addrx.0 || op == gimli::DW_OP_GNU_addr_index.0,
            None => false,
        }
    }
}
