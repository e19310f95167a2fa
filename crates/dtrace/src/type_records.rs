//! Types of `print()` as metadata records: a type that any reader of streams understands, and the full C type beside it.
//!
//! SPEC: dtrace.md#print

use crate::types::{Kind, Member, Type, Types};
use quipu_wire::record::TypeRecord;
use quipu_wire::types as wire;
use rustc_hash::FxHashMap;

/// Maximum size in bytes of a type that other readers get in detail.
const MAX_BYTES: u64 = 64 << 10;

/// Maximum nesting depth of such a type.
const MAX_DEPTH: u32 = 8;

/// A type whose record exists.
#[derive(Clone, Copy)]
struct Done {
    id: u32,
    size: u64,
    depth: u32,
}

/// Makes records in order, members before the types that contain them.
struct Maker<'t> {
    types: &'t Types,
    done: FxHashMap<&'t str, Option<Done>>,
    records: Vec<TypeRecord>,
}

/// The records that describe some types.
pub(crate) fn of(types: &Types) -> Vec<TypeRecord> {
    let mut maker = Maker { types, done: FxHashMap::default(), records: Vec::new() };
    for ty in types.sorted() {
        maker.make(ty, 0);
    }
    maker.records
}

impl<'t> Maker<'t> {
    /// The record of a type. It is `None` while the record is being made, so recursion ends at types that contain themselves.
    fn make(&mut self, ty: &'t Type, level: u32) -> Option<Done> {
        if let Some(known) = self.done.get(&*ty.id) {
            return *known;
        }
        if level > MAX_DEPTH {
            return None;
        }
        self.done.insert(&ty.id, None);
        let (shape, depth) = self.shape(ty, level);
        let id = self.records.len() as u32 + 1; // Records are counted in 32 bits.
        let name = (!ty.name.is_empty()).then(|| ty.name.clone());
        let native = serde_json::to_string(ty).ok();
        self.records.push(TypeRecord { id, name, ty: shape, native });
        let done = Done { id, size: ty.size, depth };
        self.done.insert(&ty.id, Some(done));
        Some(done)
    }

    /// The type that other readers see, and its nesting depth.
    fn shape(&mut self, ty: &'t Type, level: u32) -> (wire::Type, u32) {
        let bytes = match u32::try_from(ty.size) {
            Ok(n @ 1..) if u64::from(n) <= MAX_BYTES => wire::Type::Bytes(Some(n)),
            _ => wire::Type::Opaque(None),
        };
        let bits = 8 * u32::try_from(ty.size).unwrap_or(0).min(32);
        let flat = match &ty.kind {
            Kind::Int { char: true, .. } if bits == 8 => Some(wire::Type::Char(8)),
            Kind::Int { signed: true, .. } | Kind::Enum { .. } if matches!(bits, 8 | 16 | 32 | 64 | 128) => {
                Some(wire::Type::Sint(bits))
            }
            Kind::Int { .. } if matches!(bits, 8 | 16 | 32 | 64 | 128) => Some(wire::Type::Uint(bits)),
            Kind::Float if matches!(bits, 16 | 32 | 64) => Some(wire::Type::Float(bits)),
            Kind::Pointer { .. } if matches!(bits, 32 | 64) => {
                Some(wire::Type::Pointer { bits, target: None })
            }
            _ => None,
        };
        if let Some(flat) = flat {
            return (flat, 0);
        }
        let deep = match &ty.kind {
            Kind::Array { of, count } => self.array(ty, of, *count, level),
            Kind::Struct { members } => self.members(ty, members, level),
            Kind::Typedef { to } => {
                self.part(to, level).map(|inner| (wire::Type::Alias(inner.id), inner.depth))
            }
            _ => None,
        };
        deep.filter(|(_, depth)| *depth <= MAX_DEPTH).unwrap_or((bytes, 0))
    }

    fn part(&mut self, id: &str, level: u32) -> Option<Done> {
        let ty = self.types.get(id)?;
        self.make(ty, level + 1).filter(|done| (1..=MAX_BYTES).contains(&done.size))
    }

    fn array(&mut self, ty: &Type, of: &str, count: u64, level: u32) -> Option<(wire::Type, u32)> {
        let inner = self.part(of, level)?;
        let is_whole = inner.size.checked_mul(count) == Some(ty.size) && (1..=MAX_BYTES).contains(&ty.size);
        let count = u32::try_from(count).ok().filter(|_| is_whole)?;
        Some((wire::Type::Array { element: inner.id, count }, inner.depth + 1))
    }

    /// The structure of members that ascend without overlap, begin at bytes and are no bit-fields; otherwise `None`.
    fn members(&mut self, ty: &Type, members: &[Member], level: u32) -> Option<(wire::Type, u32)> {
        let size = u32::try_from(ty.size).ok().filter(|size| u64::from(*size) <= MAX_BYTES)?;
        let (mut all, mut end, mut depth) = (Vec::new(), 0, 0);
        for member in members {
            let inner = self.part(&member.ty, level)?;
            let is_apart = member.bit >= end && member.bit.is_multiple_of(8) && member.bits.is_none();
            end = member.bit.checked_add(8 * inner.size).filter(|end| is_apart && *end <= 8 * ty.size)?;
            depth = depth.max(inner.depth);
            let offset = u32::try_from(member.bit / 8).ok()?;
            all.push(wire::Member { name: member.name.clone(), ty: inner.id, offset });
        }
        (!all.is_empty()).then_some((wire::Type::Struct { size, members: all }, depth + 1))
    }
}

/// Types that have been read from records.
#[derive(Debug, Default)]
pub(crate) struct Known {
    types: Vec<Type>,
    /// By number of a record: the id by which members refer to its type, and its size in bytes.
    names: FxHashMap<u32, (String, u64)>,
}

impl Known {
    /// Adds the type of a record.
    pub(crate) fn take(&mut self, record: &TypeRecord) {
        let native = record.native.as_deref().and_then(|text| serde_json::from_str::<Type>(text).ok());
        let Some(ty) = native.or_else(|| self.of_another(record)) else { return };
        self.names.insert(record.id, (ty.id.clone(), ty.size));
        self.types.push(ty);
    }

    /// The type of a record that another program wrote; formats refer to it by the record's number.
    fn of_another(&self, record: &TypeRecord) -> Option<Type> {
        let name_of = |id: &u32| self.names.get(id).cloned();
        let int = |bits: u32, signed, char| (Kind::Int { signed, char }, u64::from(bits / 8));
        let pointer = |bits: u32| (Kind::Pointer { function: false }, u64::from(bits / 8));
        let (kind, size) = match &record.ty {
            wire::Type::Uint(bits) => int(*bits, false, false),
            wire::Type::Sint(bits) => int(*bits, true, false),
            wire::Type::Bool => int(8, false, false),
            wire::Type::Char(bits) => int(*bits, false, true),
            wire::Type::Float(bits) => (Kind::Float, u64::from(bits / 8)),
            wire::Type::Pointer { bits, .. } | wire::Type::Address { bits, .. } => pointer(*bits),
            wire::Type::Enum { base, names } => {
                let values = names
                    .iter()
                    .filter_map(|(value, name)| Some((name.clone(), i64::try_from(*value).ok()?)));
                (Kind::Enum { values: values.collect() }, name_of(base)?.1)
            }
            wire::Type::Array { element, count } => {
                let (of, size) = name_of(element)?;
                (Kind::Array { of, count: u64::from(*count) }, size.saturating_mul(u64::from(*count)))
            }
            wire::Type::Struct { size, members } => {
                let member = |member: &wire::Member| {
                    let (ty, _) = name_of(&member.ty)?;
                    Some(Member {
                        name: member.name.clone(),
                        ty,
                        bit: 8 * u64::from(member.offset),
                        bits: None,
                    })
                };
                let members = members.iter().map(member).collect::<Option<_>>()?;
                (Kind::Struct { members }, u64::from(*size))
            }
            wire::Type::Alias(to) => {
                let (to, size) = name_of(to)?;
                (Kind::Typedef { to }, size)
            }
            _ => return None,
        };
        Some(Type { id: record.id.to_string(), name: record.name.clone().unwrap_or_default(), size, kind })
    }

    pub(crate) fn finish(self) -> Types {
        Types::new(self.types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Type> {
        let text = r#"[
            {"id": "a`1", "name": "int", "size": 4, "kind": "int", "signed": true},
            {"id": "a`2", "name": "char", "size": 1, "kind": "int", "signed": true, "char": true},
            {"id": "a`3", "name": "char [8]", "size": 8, "kind": "array", "of": "a`2", "count": 8},
            {"id": "a`0", "name": "struct s", "size": 16, "kind": "struct", "members": [
                {"name": "n", "type": "a`1", "bit": 0}, {"name": "t", "type": "a`3", "bit": 64}]},
            {"id": "a`4", "name": "union u", "size": 8, "kind": "union", "members": [
                {"name": "n", "type": "a`1", "bit": 0}, {"name": "t", "type": "a`3", "bit": 0}]},
            {"id": "a`5", "name": "struct b", "size": 4, "kind": "struct", "members": [
                {"name": "low", "type": "a`1", "bit": 0, "bits": 3}, {"name": "high", "type": "a`1", "bit": 3, "bits": 29}]},
            {"id": "a`6", "name": "enum e", "size": 4, "kind": "enum", "values": [["ONE", 1]]},
            {"id": "a`7", "name": "long double", "size": 16, "kind": "float"},
            {"id": "a`8", "name": "void (*)()", "size": 8, "kind": "pointer", "function": true},
            {"id": "a`9", "name": "s_t", "size": 16, "kind": "typedef", "to": "a`0"},
            {"id": "b", "name": "struct empty", "size": 88, "kind": "struct", "members": []},
            {"id": "c", "name": "struct self", "size": 8, "kind": "struct", "members": [{"name": "me", "type": "c", "bit": 0}]},
            {"id": "d", "name": "", "size": 0, "kind": "struct", "members": []}
        ]"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn types_become_records_and_come_back() {
        let types = Types::new(all());
        let records = of(&types);
        assert_eq!(records.len(), types.len());
        let mut known = Known::default();
        records.iter().for_each(|record| known.take(record));
        assert_eq!(known.finish(), types);
        // A stream accepts all of them, and other readers know their members.
        let mut metadata = quipu_stream::meta::Metadata::default();
        let mut findings = Vec::new();
        for (ordinal, record) in (0u32..).zip(&records) {
            let bytes = quipu_wire::record::Record::from(record.clone()).to_bytes();
            metadata.add(ordinal, quipu_wire::cbor::decode(&bytes), &mut findings);
        }
        metadata.resolve(&mut findings);
        assert!(findings.is_empty(), "{findings:?}");
        let named = |name: &str| records.iter().find(|record| record.name.as_deref() == Some(name)).unwrap();
        assert!(
            matches!(&named("struct s").ty, wire::Type::Struct { size: 16, members } if members.len() == 2)
        );
        assert!(matches!(named("s_t").ty, wire::Type::Alias(_)));
        assert!(matches!(named("struct b").ty, wire::Type::Bytes(Some(4))));
    }

    #[test]
    fn types_of_other_programs_are_called_by_their_numbers() {
        let mut known = Known::default();
        let record = |id, name: &str, ty| TypeRecord { id, name: Some(name.to_owned()), ty, native: None };
        let members = vec![wire::Member { name: "n".to_owned(), ty: 7, offset: 4 }];
        known.take(&record(7, "int", wire::Type::Sint(32)));
        known.take(&record(42, "struct s", wire::Type::Struct { size: 8, members }));
        let types = known.finish();
        let Some(Type { kind: Kind::Struct { members }, size: 8, .. }) = types.get("42") else {
            panic!("{types:?}")
        };
        assert_eq!((members[0].ty.as_str(), members[0].bit), ("7", 32));
    }
}
