//! The types file of Cacheray's extractor, with its faults.
//!
//! QUIRK: only entries at the top level of a unit are seen, and no classes; of several types with one name the first is
//! kept, even if it is a declaration; an array has the size of its first dimension, and of one element if the compiler
//! recorded the last index instead of the number; pointers have 8 bytes; an unnamed member is taken for the first anonymous
//! structure of the program if there is one. Where Cacheray ends with an exception, this returns an error: at bit fields and
//! static members without an offset in bytes, and at aliases of nothing.

use super::{MemberDef, StructDef, TypedefDef, TypesFile, UnionDef, UnionMemberDef};
use crate::dwarf::index::children;
use crate::dwarf::read::number;
use crate::dwarf::units::{Die, Open, View};
use crate::dwarf::{DebugError, DebugInfo, MAX_DEPTH, TypeId};
use gimli::DwAt;
use std::collections::HashSet;

/// Maximum nesting depth of unnamed structures.
const MAX_ANONYMOUS: usize = 32;

pub(super) fn types_file(info: &DebugInfo) -> Result<TypesFile, DebugError> {
    let view = info.view();
    let mut extractor = Extractor { info, view: &view, file: TypesFile::default(), names: HashSet::new() };
    for unit in 0..info.n_units() {
        let Ok(unit) = u32::try_from(unit) else { break };
        let open = view.open(unit)?;
        let root = open.unit.header.root_offset();
        let id = TypeId { unit, offset: u32::try_from(root.0).unwrap_or(u32::MAX) };
        let (_, die) = view.entry(id)?;
        if die.tag() == gimli::DW_TAG_compile_unit {
            for (child, die) in extractor.children(&open, id)? {
                extractor.top_level(child, &die, &open)?;
            }
        }
    }
    Ok(extractor.file)
}

struct Extractor<'b, 'a> {
    info: &'b DebugInfo,
    view: &'b View<'a>,
    file: TypesFile,
    names: HashSet<String>,
}

type Child<'a> = (TypeId, Die<'a>);

impl<'a> Extractor<'_, 'a> {
    fn children(&self, open: &Open<'a>, id: TypeId) -> Result<Vec<Child<'a>>, DebugError> {
        let mut found = Vec::new();
        children(self.view, open, id, |die| {
            if die.depth() == 1 {
                let offset = u32::try_from(die.offset().0).unwrap_or(u32::MAX);
                found.push((TypeId { unit: id.unit, offset }, die.clone()));
            }
        })?;
        Ok(found)
    }

    fn top_level(&mut self, id: TypeId, die: &Die<'a>, open: &Open<'a>) -> Result<(), DebugError> {
        match die.tag() {
            gimli::DW_TAG_structure_type => {
                let found = self.structure(id, die, open, 0)?;
                if self.names.insert(found.name.clone()) {
                    self.file.structs.push(found);
                }
            }
            gimli::DW_TAG_union_type => {
                let found = self.union(id, die, open, 0)?;
                if self.names.insert(found.name.clone()) {
                    self.file.unions.push(found);
                }
            }
            gimli::DW_TAG_typedef => {
                let target = self.required(id, die, gimli::DW_AT_type)?;
                let alias = open.name(die).unwrap_or_default();
                self.file.typedefs.push(TypedefDef { def: self.text(target, 0), alias });
            }
            _ => {}
        }
        Ok(())
    }

    /// The target of an attribute that Cacheray requires.
    fn required(&self, id: TypeId, die: &Die<'a>, name: DwAt) -> Result<TypeId, DebugError> {
        self.view.reference(id.unit, die, name).ok_or_else(|| self.missing(id, name))
    }

    #[cold]
    fn missing(&self, id: TypeId, name: DwAt) -> DebugError {
        let what = format!("Cacheray's extractor gives up at an entry without `{name}`");
        DebugError::new(what).in_section(".debug_info").at(self.info.section_offset(id))
    }

    fn structure(
        &self,
        id: TypeId,
        die: &Die<'a>,
        open: &Open<'a>,
        depth: usize,
    ) -> Result<StructDef, DebugError> {
        let name = open.name(die).map_or_else(|| "<anon_struct>".to_owned(), |name| format!("struct {name}"));
        if let Some(known) = self.file.structs.iter().find(|known| known.name == name) {
            return Ok(known.clone());
        }
        let mut members = Vec::new();
        for (child, die) in self.children(open, id)? {
            if die.tag() != gimli::DW_TAG_member {
                continue;
            }
            let ty = self.required(child, &die, gimli::DW_AT_type)?;
            let offset = number(die.attr_value(gimli::DW_AT_data_member_location))
                .and_then(|offset| i64::try_from(offset).ok())
                .ok_or_else(|| self.missing(child, gimli::DW_AT_data_member_location))?;
            let (name, member, id, size) = match open.name(&die) {
                Some(member) => (self.text(ty, 0), member, self.info.section_offset(ty), self.size(ty, 0)),
                None => {
                    let (name, id, size) = self.anonymous(ty, depth)?;
                    (name.clone(), name, id, size)
                }
            };
            members.push(MemberDef { id, member, name, offset, size });
        }
        Ok(StructDef { id: self.info.section_offset(id), members, name })
    }

    fn union(
        &self,
        id: TypeId,
        die: &Die<'a>,
        open: &Open<'a>,
        depth: usize,
    ) -> Result<UnionDef, DebugError> {
        let name = open.name(die).unwrap_or_else(|| "<anon_union>".to_owned());
        if let Some(known) = self.file.unions.iter().find(|known| known.name == name) {
            return Ok(known.clone());
        }
        let mut members = Vec::new();
        let children = self.children(open, id)?;
        for (at, (child, die)) in children.iter().enumerate() {
            if die.tag() != gimli::DW_TAG_member {
                continue;
            }
            let (name, member, id, size) = match open.name(die) {
                Some(member) => {
                    let ty = self.required(*child, die, gimli::DW_AT_type)?;
                    (self.text(ty, 0), member, self.info.section_offset(ty), self.size(ty, 0))
                }
                None => {
                    // QUIRK: here the type of an unnamed member is taken to be the next entry, where clang puts it.
                    let next = children.get(at + 1).map(|(next, _)| *next);
                    let next = next.ok_or_else(|| self.missing(*child, gimli::DW_AT_name))?;
                    let (name, id, size) = self.anonymous(next, depth)?;
                    (name.clone(), name, id, size)
                }
            };
            members.push(UnionMemberDef { id, member, name, size });
        }
        Ok(UnionDef { id: self.info.section_offset(id), members, name })
    }

    /// Name, id and size of the structure or union of an unnamed member.
    fn anonymous(&self, ty: TypeId, depth: usize) -> Result<(String, u64, i64), DebugError> {
        if depth > MAX_ANONYMOUS {
            return Err(DebugError::new("unnamed structures are nested too deep"));
        }
        let (open, die) = self.view.entry(ty)?;
        let size = size_attribute(&die);
        match die.tag() {
            gimli::DW_TAG_structure_type => {
                let found = self.structure(ty, &die, &open, depth + 1)?;
                Ok((found.name, found.id, size))
            }
            gimli::DW_TAG_union_type => {
                let found = self.union(ty, &die, &open, depth + 1)?;
                Ok((found.name, found.id, size))
            }
            // Cacheray writes an empty member, which its own reader rejects.
            _ => Err(self.missing(ty, gimli::DW_AT_name)),
        }
    }

    fn text(&self, id: TypeId, depth: usize) -> String {
        if depth > MAX_DEPTH {
            return "<unsupported type>".to_owned();
        }
        let Ok((open, die)) = self.view.entry(id) else { return "<unknown type>".to_owned() };
        let target = self.view.reference(id.unit, &die, gimli::DW_AT_type);
        let next = || target.map(|target| self.text(target, depth + 1));
        match die.tag() {
            gimli::DW_TAG_pointer_type => next().unwrap_or_else(|| "void".to_owned()) + "*",
            gimli::DW_TAG_array_type => next().unwrap_or_else(|| "<unknown type>".to_owned()) + "[]",
            gimli::DW_TAG_base_type => open.name(&die).unwrap_or_default(),
            gimli::DW_TAG_typedef => next().unwrap_or_else(|| "void".to_owned()),
            gimli::DW_TAG_const_type => format!("const {}", next().unwrap_or_else(|| "void".to_owned())),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
                format!("struct {}", open.name(&die).unwrap_or_else(|| "<anon>".to_owned()))
            }
            _ => "<unsupported type>".to_owned(),
        }
    }

    fn size(&self, id: TypeId, depth: usize) -> i64 {
        let Ok((open, die)) = self.view.entry(id) else { return -1 };
        if depth > MAX_DEPTH {
            return -1;
        }
        let target = self.view.reference(id.unit, &die, gimli::DW_AT_type);
        let next = || target.map(|target| self.size(target, depth + 1));
        match (die.tag(), next()) {
            (gimli::DW_TAG_pointer_type, _) => 8,
            (gimli::DW_TAG_array_type, Some(element)) => {
                let first = self.children(&open, id).ok().and_then(|children| children.into_iter().next());
                let count = first.and_then(|(_, die)| number(die.attr_value(gimli::DW_AT_count)));
                match count.and_then(|count| i64::try_from(count).ok()) {
                    Some(count) => count.saturating_mul(element),
                    None => element,
                }
            }
            (_, Some(size)) => size,
            (_, None) => size_attribute(&die),
        }
    }
}

fn size_attribute(die: &Die<'_>) -> i64 {
    let size = number(die.attr_value(gimli::DW_AT_byte_size));
    size.and_then(|size| i64::try_from(size).ok()).unwrap_or(-1)
}
