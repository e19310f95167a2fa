//! Inlined functions: the functions from which the code of an instruction comes, in addition to the one that contains it.

use super::index::{children, path_of};
use super::read::file_name;
use super::types::Place;
use super::units::{Die, Open, View};
use super::{DebugInfo, TypeId};
use gimli::AttributeValue;

/// Maximum depth of inlined functions in each other.
const MAX_INLINED: usize = 64;

/// A function whose code was inlined into another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// Its qualified name.
    pub name: String,
    /// The place of the call in the other one.
    pub call: Option<Place>,
}

/// An inlined function, before its name is looked up.
pub(super) struct Found {
    depth: isize,
    pub(super) origin: TypeId,
    pub(super) call: Option<Place>,
}

impl DebugInfo {
    /// The inlined functions that contain an address, the innermost first.
    pub fn inlined_at(&self, address: u64) -> Vec<Inlined> {
        let view = self.view();
        let inlined = self.origins_at(&view, address).into_iter().map(|found| Inlined {
            name: path_of(self, &view, found.origin).unwrap_or_default(),
            call: found.call,
        });
        inlined.collect()
    }

    /// The entries of those functions, the innermost first.
    pub(super) fn origins_at(&self, view: &View<'_>, address: u64) -> Vec<Found> {
        let Some(function) = self.objects().function_at(address) else { return Vec::new() };
        let unit = function.id.unit;
        let Ok(open) = view.open(unit) else { return Vec::new() };
        let mut found: Vec<Found> = Vec::new();
        // Entries after damage are lost.
        let _ = children(view, &open, function.id, |die| {
            // Functions inlined into one that contains the address are deeper; of two siblings only one contains it.
            let is_within = found.last().is_none_or(|outer| outer.depth < die.depth());
            if die.tag() == gimli::DW_TAG_inlined_subroutine
                && is_within
                && found.len() < MAX_INLINED
                && holds(&open, die, address)
                && let Some(origin) = view.reference(unit, die, gimli::DW_AT_abstract_origin)
            {
                found.push(Found { depth: die.depth(), origin, call: call_of(&open, die) });
            }
        });
        found.reverse();
        found
    }
}

/// True if the code of an entry contains the address.
fn holds<'a>(open: &Open<'a>, die: &Die<'a>, address: u64) -> bool {
    let Some(mut ranges) = open.ranges(die) else { return false };
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
