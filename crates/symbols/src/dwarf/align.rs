//! Alignment of types.
//!
//! Compilers only record explicitly requested alignments, so the rest is derived from members by the rules of C: a structure
//! has the largest alignment of its members, and is packed if a member is at an offset that its own type does not allow.

use super::read::{Reading, number};
use super::types::{Alignment, Encoding, Kind, Member, MemberKind, SourceLanguage};
use super::{DebugInfo, MAX_DEPTH, TypeId};
use std::collections::HashMap;

/// Maximum alignment of a type without an explicit request.
const MAX_NATURAL: u64 = 16;

impl DebugInfo {
    /// The alignment of a type.
    pub fn alignment_of(&self, id: TypeId) -> Alignment {
        let view = self.view();
        Aligning { info: Reading::new(self, &view), known: HashMap::new() }.of(id, 0)
    }

    /// The source language of a type's unit.
    pub fn language_of(&self, id: TypeId) -> SourceLanguage {
        match self.view().open(id.unit) {
            Ok(open) if open.is_c() => SourceLanguage::C,
            Ok(open) if open.is_rust() => SourceLanguage::Rust,
            Ok(open) if open.is_cpp() => SourceLanguage::Cpp,
            _ => SourceLanguage::Other,
        }
    }
}

struct Aligning<'b, 'a> {
    info: Reading<'b, 'a>,
    known: HashMap<TypeId, Alignment>,
}

/// The natural alignment of a number of this many bytes.
fn natural(bytes: u64) -> Alignment {
    let bytes = if bytes == 0 { 1 } else { (1 << bytes.trailing_zeros()).min(MAX_NATURAL) };
    Alignment { bytes, is_packed: false, asked: None }
}

impl Aligning<'_, '_> {
    fn of(&mut self, id: TypeId, depth: usize) -> Alignment {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let found = if depth > MAX_DEPTH { natural(1) } else { self.read(id, depth).unwrap_or(natural(1)) };
        self.known.insert(id, found);
        found
    }

    fn read(&mut self, id: TypeId, depth: usize) -> Option<Alignment> {
        let (open, die) = self.info.view.entry(id).ok()?;
        let asked = number(die.attr_value(gimli::DW_AT_alignment)).filter(|n| n.is_power_of_two());
        let kind = self.info.kind(id, &open, &die);
        let size = || self.info.size(id, 0).unwrap_or(1);
        let own = match kind {
            Kind::Struct | Kind::Class | Kind::Union | Kind::Variants => {
                let ty = self.info.defined(id).ok()?;
                let of = self.record(&ty.members, ty.size, depth);
                let asked = asked.or(ty.align.filter(|n| n.is_power_of_two()));
                return Some(Alignment { bytes: asked.unwrap_or(of.bytes), asked, ..of });
            }
            Kind::Array { element: Some(element), .. } => {
                let is_vector = die.attr(gimli::DW_AT_GNU_vector).is_some();
                if is_vector {
                    Alignment { bytes: size().checked_next_power_of_two().unwrap_or(1), ..natural(1) }
                } else {
                    self.of(element, depth + 1)
                }
            }
            Kind::Typedef(Some(target)) | Kind::Qualified(_, Some(target)) => self.of(target, depth + 1),
            // Two numbers side by side.
            Kind::Base(Encoding::Float) if is_complex(&die) => natural(size() / 2),
            // A pointer to a member function has the size of two pointers.
            Kind::Pointer(_) => natural(size().min(open.unit.encoding().address_size.into())),
            Kind::Base(_) | Kind::Enum(_) | Kind::Other(_) => natural(size()),
            _ => natural(1),
        };
        Some(Alignment { bytes: asked.unwrap_or(own.bytes), asked, ..own })
    }

    /// The alignment of a structure with these members.
    fn record(&mut self, members: &[Member], size: Option<u64>, depth: usize) -> Alignment {
        let (mut bytes, mut is_packed) = (1, false);
        for member in members {
            let Some(ty) = member.ty else { continue };
            let of = member.align.unwrap_or_else(|| self.of(ty, depth + 1).bytes).max(1);
            bytes = bytes.max(of);
            let is_whole = member.kind != MemberKind::BitField;
            is_packed |= is_whole && member.offset().is_some_and(|offset| offset % of != 0);
        }
        is_packed |= size.is_some_and(|size| size % bytes != 0);
        Alignment { bytes: if is_packed { 1 } else { bytes }, is_packed, asked: None }
    }
}

fn is_complex(die: &super::units::Die<'_>) -> bool {
    matches!(
        die.attr_value(gimli::DW_AT_encoding),
        Some(gimli::AttributeValue::Encoding(gimli::DW_ATE_complex_float))
    )
}
