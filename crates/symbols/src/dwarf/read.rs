//! Converts entries to types.
//!
//! A type is read from its entry and the children of that entry; references are only followed if sizes and texts require it,
//! and up to a maximum depth.

use super::index::{children, definition, path_of};
use super::spell::spell;
use super::types::{Encoding, Kind, Member, MemberKind, Place, Type, TypeId};
use super::units::{Die, Open, Value, View};
use super::{DebugError, DebugInfo, MAX_DEPTH};
use gimli::{AttributeValue, DwAt, Operation};

/// Maximum number of members of a type.
const MAX_MEMBERS: usize = 1 << 16;

impl DebugInfo {
    /// The type at an entry.
    ///
    /// If the type is only declared there, its definition elsewhere is read.
    ///
    /// # Errors
    /// If its entry is damaged; the error has the place.
    pub fn read(&self, id: TypeId) -> Result<Type, DebugError> {
        Reading::new(self, &self.view()).defined(id)
    }

    /// The size of a type in bytes, if it is known.
    pub fn size_of(&self, id: TypeId) -> Option<u64> {
        Reading::new(self, &self.view()).size(id, 0)
    }

    /// The text of a type.
    pub fn text_of(&self, id: TypeId) -> String {
        Reading::new(self, &self.view()).text(id)
    }

    /// The element type of an array, through arrays of arrays; for any other type, the result of
    /// [`DebugInfo::behind_names`].
    pub fn behind_arrays(&self, id: TypeId) -> TypeId {
        let view = self.view();
        let reading = Reading::new(self, &view);
        let mut id = reading.behind_names(id);
        for _ in 0..MAX_DEPTH {
            let Ok((open, die)) = view.entry(id) else { break };
            let Kind::Array { element: Some(element), .. } = reading.kind(id, &open, &die) else { break };
            id = reading.behind_names(element);
        }
        id
    }

    /// The type without aliases and qualifiers such as `const`.
    pub fn behind_names(&self, id: TypeId) -> TypeId {
        Reading::new(self, &self.view()).behind_names(id)
    }
}

/// The reader of types, with the units opened so far.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'b, 'a> {
    pub(crate) info: &'b DebugInfo,
    pub(crate) view: &'b View<'a>,
}

/// The value of an attribute as an unsigned number.
pub(crate) fn number(value: Option<Value<'_>>) -> Option<u64> {
    match value? {
        AttributeValue::Sdata(number) => u64::try_from(number).ok(),
        value => value.udata_value(),
    }
}

/// The value of an attribute as a signed number.
fn signed(value: Option<Value<'_>>) -> Option<i128> {
    match value? {
        AttributeValue::Sdata(number) => Some(number.into()),
        AttributeValue::Data16(number) => i128::try_from(number).ok(),
        value => value.udata_value().map(i128::from),
    }
}

/// Counts of the dimensions of an array, the outermost first.
pub(crate) fn counts<'a>(view: &View<'a>, open: &Open<'a>, id: TypeId) -> Vec<Option<u64>> {
    let mut counts = Vec::new();
    // Damage after the dimensions only loses those that were not read.
    let _ = children(view, open, id, |die| {
        if die.depth() != 1 || counts.len() >= MAX_DEPTH {
            return;
        }
        if die.tag() == gimli::DW_TAG_subrange_type {
            counts.push(count(open, die));
        } else if die.tag() == gimli::DW_TAG_enumeration_type {
            counts.push(None);
        }
    });
    counts
}

fn count(open: &Open<'_>, die: &Die<'_>) -> Option<u64> {
    if let Some(count) = number(die.attr_value(gimli::DW_AT_count)) {
        return Some(count);
    }
    let first = match open.language {
        gimli::DW_LANG_Fortran77
        | gimli::DW_LANG_Fortran90
        | gimli::DW_LANG_Fortran95
        | gimli::DW_LANG_Pascal83 => 1,
        _ => 0,
    };
    let lower = signed(die.attr_value(gimli::DW_AT_lower_bound)).unwrap_or(first);
    let upper = die.attr_value(gimli::DW_AT_upper_bound)?;
    // The upper bound of an empty array is less than the lower one, and compilers write that -1 in various sizes.
    let upper = match (upper, lower) {
        (AttributeValue::Udata(u64::MAX) | AttributeValue::Data8(u64::MAX), 0) => -1,
        (AttributeValue::Data4(u32::MAX), 0) => -1,
        (upper, _) => signed(Some(upper))?,
    };
    u64::try_from(upper.checked_sub(lower)?.checked_add(1)?).ok()
}

impl<'b, 'a> Reading<'b, 'a> {
    pub(crate) fn new(info: &'b DebugInfo, view: &'b View<'a>) -> Reading<'b, 'a> {
        Reading { info, view }
    }

    /// The type, or its definition if it is only declared here.
    pub(crate) fn defined(self, id: TypeId) -> Result<Type, DebugError> {
        self.read(definition(self.info, self.view, id).unwrap_or(id))
    }

    pub(crate) fn text(self, id: TypeId) -> String {
        spell(self.view, self.info, Some(id), 0)
    }

    pub(crate) fn behind_names(self, id: TypeId) -> TypeId {
        self.behind(id, |tag| {
            matches!(
                tag,
                gimli::DW_TAG_typedef
                    | gimli::DW_TAG_const_type
                    | gimli::DW_TAG_volatile_type
                    | gimli::DW_TAG_restrict_type
                    | gimli::DW_TAG_atomic_type
            )
        })
    }

    /// Follows entries for which `is_other_name` holds to the entry that they lead to.
    pub(crate) fn behind(self, id: TypeId, is_other_name: impl Fn(gimli::DwTag) -> bool) -> TypeId {
        let mut at = id;
        for _ in 0..MAX_DEPTH {
            let Ok((_, die)) = self.view.entry(at) else { break };
            if !is_other_name(die.tag()) {
                break;
            }
            match self.view.reference(at.unit, &die, gimli::DW_AT_type) {
                Some(next) => at = next,
                None => break,
            }
        }
        at
    }

    pub(crate) fn read(self, id: TypeId) -> Result<Type, DebugError> {
        let (open, die) = self.view.entry(id)?;
        let mut kind = self.kind(id, &open, &die);
        let mut members = Vec::new();
        match &mut kind {
            Kind::Struct | Kind::Class | Kind::Union => {
                members = self.members(id, &open)?;
                if members.iter().any(|member| matches!(member.kind, MemberKind::Variant(_))) {
                    kind = Kind::Variants;
                }
            }
            Kind::Enum(names) => {
                children(self.view, &open, id, |die| {
                    if die.depth() == 1 && die.tag() == gimli::DW_TAG_enumerator && names.len() < MAX_MEMBERS
                    {
                        let value = signed(die.attr_value(gimli::DW_AT_const_value)).unwrap_or(0);
                        names.push((
                            open.name(die).unwrap_or_default(),
                            i64::try_from(value).unwrap_or(i64::MAX),
                        ));
                    }
                })?;
            }
            _ => {}
        }
        let name = open.name(&die);
        let has_path =
            name.is_some() || !matches!(kind, Kind::Array { .. } | Kind::Pointer(_) | Kind::Qualified(..));
        let path = match has_path {
            true => path_of(self.info, self.view, id)?,
            false => spell(self.view, self.info, Some(id), 0),
        };
        Ok(Type {
            id,
            kind,
            name,
            path,
            size: self.size(id, 0),
            align: number(die.attr_value(gimli::DW_AT_alignment)),
            members,
            place: place(&open, &die),
            is_declaration: die.attr(gimli::DW_AT_declaration).is_some(),
        })
    }

    pub(crate) fn kind(self, id: TypeId, open: &Open<'a>, die: &Die<'a>) -> Kind {
        let target = self.view.reference(id.unit, die, gimli::DW_AT_type);
        match die.tag() {
            gimli::DW_TAG_structure_type => Kind::Struct,
            gimli::DW_TAG_class_type | gimli::DW_TAG_interface_type => Kind::Class,
            gimli::DW_TAG_union_type => Kind::Union,
            gimli::DW_TAG_enumeration_type => Kind::Enum(Vec::new()),
            gimli::DW_TAG_array_type => Kind::Array { element: target, counts: counts(self.view, open, id) },
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type
            | gimli::DW_TAG_ptr_to_member_type => Kind::Pointer(target),
            gimli::DW_TAG_typedef => Kind::Typedef(target),
            gimli::DW_TAG_const_type => Kind::Qualified("const", target),
            gimli::DW_TAG_volatile_type => Kind::Qualified("volatile", target),
            gimli::DW_TAG_restrict_type => Kind::Qualified("restrict", target),
            gimli::DW_TAG_atomic_type => Kind::Qualified("_Atomic", target),
            gimli::DW_TAG_base_type => Kind::Base(encoding(die)),
            gimli::DW_TAG_subroutine_type => Kind::Function,
            other => Kind::Other(other.0),
        }
    }

    /// The size of a type in bytes.
    pub(crate) fn size(self, id: TypeId, depth: usize) -> Option<u64> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (open, die) = self.view.entry(id).ok()?;
        if let Some(size) = number(die.attr_value(gimli::DW_AT_byte_size)) {
            return Some(size);
        }
        if let Some(bits) = number(die.attr_value(gimli::DW_AT_bit_size)) {
            return Some(bits.div_ceil(8));
        }
        if let Some(other) = self.view.reference(id.unit, &die, gimli::DW_AT_signature) {
            return self.size(other, depth + 1);
        }
        let target = self.view.reference(id.unit, &die, gimli::DW_AT_type);
        match die.tag() {
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Some(open.unit.encoding().address_size.into()),
            // The type of `nullptr` is as large as a pointer; that of `void` has no size.
            gimli::DW_TAG_unspecified_type => {
                let is_null = open.name(&die).is_some_and(|name| name.contains("nullptr"));
                is_null.then(|| open.unit.encoding().address_size.into())
            }
            gimli::DW_TAG_ptr_to_member_type => {
                // For a function: an address or an index into a table, and an adjustment of `this`.
                let is_function = self.view.entry(target?).ok()?.1.tag() == gimli::DW_TAG_subroutine_type;
                Some(u64::from(open.unit.encoding().address_size) * if is_function { 2 } else { 1 })
            }
            gimli::DW_TAG_array_type => {
                let stride = number(die.attr_value(gimli::DW_AT_byte_stride));
                let element = stride.or_else(|| self.size(target?, depth + 1))?;
                let counts = counts(self.view, &open, id);
                counts.into_iter().try_fold(element, |size, count| size.checked_mul(count?))
            }
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let other = definition(self.info, self.view, id).filter(|other| *other != id)?;
                self.size(other, depth + 1)
            }
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type
            | gimli::DW_TAG_enumeration_type => self.size(target?, depth + 1),
            _ => None,
        }
    }

    fn members(self, id: TypeId, open: &Open<'a>) -> Result<Vec<Member>, DebugError> {
        let mut members: Vec<Member> = Vec::new();
        // The discriminant values of the variant that the following members belong to, and the enclosing tags.
        let mut values = Vec::new();
        let mut around = Vec::new();
        children(self.view, open, id, |die| {
            let depth = usize::try_from(die.depth()).unwrap_or(0);
            around.truncate(depth.saturating_sub(1));
            around.push(die.tag());
            if members.len() >= MAX_MEMBERS {
                return;
            }
            match around.as_slice() {
                [gimli::DW_TAG_member] | [gimli::DW_TAG_inheritance] => {
                    members.extend(self.member(id, open, die, None));
                }
                [gimli::DW_TAG_variant_part, gimli::DW_TAG_member] => {
                    members.extend(self.member(id, open, die, Some(MemberKind::Discriminant)));
                }
                [gimli::DW_TAG_variant_part, gimli::DW_TAG_variant] => {
                    values = signed(die.attr_value(gimli::DW_AT_discr_value)).into_iter().collect();
                }
                [gimli::DW_TAG_variant_part, gimli::DW_TAG_variant, gimli::DW_TAG_member] => {
                    let kind = MemberKind::Variant(values.clone());
                    members.extend(self.member(id, open, die, Some(kind)));
                }
                _ => {}
            }
        })?;
        Ok(members)
    }

    /// A member; `None` for one that is stored elsewhere, like static members.
    fn member(self, id: TypeId, open: &Open<'a>, die: &Die<'a>, kind: Option<MemberKind>) -> Option<Member> {
        let flag = |name: DwAt| die.attr(name).is_some();
        if flag(gimli::DW_AT_external) || flag(gimli::DW_AT_declaration) {
            return None;
        }
        let is_base = die.tag() == gimli::DW_TAG_inheritance;
        let ty = self.view.reference(id.unit, die, gimli::DW_AT_type);
        let type_size = ty.and_then(|ty| self.size(ty, 0));
        let bits = number(die.attr_value(gimli::DW_AT_bit_size));
        let byte_size = number(die.attr_value(gimli::DW_AT_byte_size)).or(type_size);
        let bit_size =
            bits.or_else(|| byte_size?.checked_mul(8)).or_else(|| self.is_flexible(ty).then_some(0));
        let start = match die.attr_value(gimli::DW_AT_data_bit_offset) {
            Some(offset) => number(Some(offset)),
            None => self.storage(open, die).and_then(|bytes| bytes.checked_mul(8)).and_then(|start| {
                // The old encoding counts from the highest bit of the storage unit. In packed structures the field may be
                // above it: then the count is negative, and clang writes it as an unsigned number.
                let Some(from_top) = signed(die.attr_value(gimli::DW_AT_bit_offset)) else {
                    return Some(start);
                };
                let from_top = i128::from(from_top as i64);
                let start = i128::from(start);
                let first = if is_big_endian(open) {
                    start + from_top
                } else {
                    start + i128::from(byte_size?.checked_mul(8)?) - from_top - i128::from(bits?)
                };
                u64::try_from(first).ok()
            }),
        };
        let kind = kind.unwrap_or(match (is_base, bits) {
            (true, _) => MemberKind::Base,
            (false, Some(_)) => MemberKind::BitField,
            (false, None) => MemberKind::Field,
        });
        Some(Member {
            kind,
            name: open.name(die),
            ty,
            text: spell(self.view, self.info, ty, 0),
            bit_offset: start,
            bit_size,
            align: number(die.attr_value(gimli::DW_AT_alignment)),
            place: place(open, die),
        })
    }

    /// Offset of a member in bytes.
    fn storage(self, open: &Open<'a>, die: &Die<'a>) -> Option<u64> {
        match die.attr_value(gimli::DW_AT_data_member_location) {
            // Members of unions have no offset.
            None => Some(0),
            Some(AttributeValue::Exprloc(expression)) => {
                let mut operations = expression.operations(open.unit.encoding());
                match (operations.next().ok()??, operations.next().ok()?) {
                    (Operation::PlusConstant { value }, None) => Some(value),
                    (Operation::UnsignedConstant { value }, None) => Some(value),
                    _ => None,
                }
            }
            value => number(value),
        }
    }

    /// True for an array without a length, which ends a structure and has no size.
    fn is_flexible(self, ty: Option<TypeId>) -> bool {
        let Some(id) = ty else { return false };
        let Ok((open, die)) = self.view.entry(id) else { return false };
        die.tag() == gimli::DW_TAG_array_type
            && counts(self.view, &open, id).first().is_none_or(Option::is_none)
    }
}

fn is_big_endian(open: &Open<'_>) -> bool {
    use gimli::{Reader, Section};
    gimli::Endianity::is_big_endian(open.dwarf.debug_info.reader().endian())
}

pub(crate) fn encoding(die: &Die<'_>) -> Encoding {
    match die.attr_value(gimli::DW_AT_encoding) {
        Some(AttributeValue::Encoding(encoding)) => match encoding {
            gimli::DW_ATE_signed => Encoding::Signed,
            gimli::DW_ATE_unsigned => Encoding::Unsigned,
            gimli::DW_ATE_signed_char
            | gimli::DW_ATE_unsigned_char
            | gimli::DW_ATE_UTF
            | gimli::DW_ATE_UCS
            | gimli::DW_ATE_ASCII => Encoding::Char,
            gimli::DW_ATE_boolean => Encoding::Bool,
            gimli::DW_ATE_float | gimli::DW_ATE_complex_float | gimli::DW_ATE_decimal_float => {
                Encoding::Float
            }
            _ => Encoding::Other,
        },
        _ => Encoding::Other,
    }
}

/// The place of an entry's declaration.
pub(crate) fn place<'a>(open: &Open<'a>, die: &Die<'a>) -> Option<Place> {
    let line = number(die.attr_value(gimli::DW_AT_decl_line))?;
    let file = match die.attr_value(gimli::DW_AT_decl_file)? {
        AttributeValue::FileIndex(file) => file,
        other => number(Some(other))?,
    };
    Some(Place { file: file_name(open, file)?, line })
}

/// The name of a file of a unit.
pub(crate) fn file_name<'a>(open: &Open<'a>, number: u64) -> Option<String> {
    let header = open.unit.line_program.as_ref()?.header();
    let file = header.file(number)?;
    let text = |value: Value<'a>| open.bytes(value).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let name = text(file.path_name())?;
    if name.starts_with('/') {
        return Some(name);
    }
    let mut path = std::path::PathBuf::new();
    // The first folder is the compiler's working directory; others may be relative to it.
    if let Some(folder) = open.unit.comp_dir {
        path.push(String::from_utf8_lossy(folder.slice()).as_ref());
    }
    let is_first = file.directory_index() == 0;
    if let Some(folder) = file.directory(header).and_then(text).filter(|_| !is_first) {
        path.push(folder);
    }
    path.push(name);
    Some(path.to_string_lossy().into_owned())
}
