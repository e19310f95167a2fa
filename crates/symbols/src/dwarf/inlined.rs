//! Functions that were put into others: whose code an instruction is besides that of the function that has it.

use super::index::path_of;
use super::objects::is_scope;
use super::read::file_name;
use super::types::Place;
use super::units::{Die, Open, View};
use super::{DebugInfo, TypeId};
use gimli::{AttributeValue, DwTag};
use std::collections::HashMap;

/// How deep blocks are nested.
const MAX_NESTING: usize = 512;
/// Functions within each other.
const MAX_INLINED: usize = 64;

/// A function whose code was put into another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// Its name with everything around it.
    pub name: String,
    /// Where the other one calls it.
    pub call: Option<Place>,
}

/// One that was found, before it is asked for its name.
struct Found {
    depth: usize,
    origin: TypeId,
    call: Option<Place>,
}

impl DebugInfo {
    /// The functions that an address is in because they were put into the function that has it; the innermost first.
    pub fn inlined_at(&self, address: u64) -> Vec<Inlined> {
        let view = self.view();
        for unit in self.objects().units_at(address) {
            let Ok(open) = view.open(unit) else { continue };
            let mut scopes = HashMap::new();
            let mut found = Vec::new();
            // What stands behind damage in a unit is lost.
            let _ = walk(&view, &open, unit, address, &mut scopes, &mut found);
            if !found.is_empty() {
                let inlined = found.into_iter().rev().map(|found| Inlined {
                    name: self.path_of_function(&view, found.origin, &scopes),
                    call: found.call,
                });
                return inlined.collect();
            }
        }
        Vec::new()
    }

    /// The name of a function, with the class or namespace where it is declared.
    fn path_of_function(&self, view: &View<'_>, id: TypeId, scopes: &HashMap<u32, TypeId>) -> String {
        let (mut name, mut scope, mut at) = (None, None, Some(id));
        for _ in 0..4 {
            let Some(id) = at else { break };
            let Ok((open, die)) = view.entry(id) else { break };
            name = name.or_else(|| open.name(&die));
            // The declaration is what stands in the class.
            scope = scopes.get(&id.offset).copied().or(scope);
            at = [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin]
                .into_iter()
                .find_map(|attribute| view.reference(id.unit, &die, attribute));
        }
        let name = name.unwrap_or_default();
        match scope.and_then(|scope| path_of(self, view, scope).ok()) {
            Some(path) => format!("{path}::{name}"),
            None => name,
        }
    }
}

/// Finds what was put where the address is, the outermost first, and what functions of the unit stand in.
fn walk<'a>(
    view: &View<'a>,
    open: &Open<'a>,
    unit: u32,
    address: u64,
    scopes: &mut HashMap<u32, TypeId>,
    found: &mut Vec<Found>,
) -> Result<(), gimli::Error> {
    let mut raw = open.unit.entries_raw(None)?;
    let mut frames: Vec<(TypeId, DwTag)> = Vec::new();
    let mut die = Die::null();
    while !raw.is_empty() {
        let offset = raw.next_offset();
        let depth = usize::try_from(raw.next_depth()).unwrap_or(0);
        let Some(abbreviation) = raw.read_abbreviation()? else { continue };
        let tag = abbreviation.tag();
        frames.truncate(depth);
        let id = TypeId { unit, offset: u32::try_from(offset.0).unwrap_or(u32::MAX) };
        match tag {
            gimli::DW_TAG_inlined_subroutine => {
                (die.tag, die.offset) = (tag, offset);
                raw.read_attributes(abbreviation.attributes(), &mut die.attrs)?;
                // Those within one that has the address are deeper than it; of two beside each other one has it.
                let is_within = found.last().is_none_or(|outer| outer.depth < depth);
                if is_within
                    && found.len() < MAX_INLINED
                    && holds(open, &die, address)
                    && let Some(origin) = view.reference(unit, &die, gimli::DW_AT_abstract_origin)
                {
                    found.push(Found { depth, origin, call: call_of(open, &die) });
                }
            }
            gimli::DW_TAG_subprogram => {
                raw.skip_attributes(abbreviation.attributes())?;
                if let Some((scope, _)) = frames.iter().rev().find(|(_, tag)| is_scope(*tag)) {
                    scopes.insert(id.offset, *scope);
                }
            }
            _ => raw.skip_attributes(abbreviation.attributes())?,
        }
        if abbreviation.has_children() && depth == frames.len() && depth < MAX_NESTING {
            frames.push((id, tag));
        }
    }
    Ok(())
}

/// True if the code of an entry has the address.
fn holds<'a>(open: &Open<'a>, die: &Die<'a>, address: u64) -> bool {
    let Ok(mut ranges) = open.dwarf.die_ranges(&open.unit, die) else { return false };
    while let Ok(Some(range)) = ranges.next() {
        if (range.begin..range.end).contains(&address) {
            return true;
        }
    }
    false
}

fn call_of<'a>(open: &Open<'a>, die: &Die<'a>) -> Option<Place> {
    let file = match die.attr_value(gimli::DW_AT_call_file)? {
        AttributeValue::FileIndex(file) => file,
        other => other.udata_value()?,
    };
    let line = die.attr_value(gimli::DW_AT_call_line)?.udata_value()?;
    Some(Place { file: file_name(open, file)?, line })
}
