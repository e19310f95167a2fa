//! Flags for sources of types, for verbs that attribute accesses to fields.

use quipu::model::{Given, OptionSpec, ToolInfo};
use quipu::sim::{BASE, BINARY, PLACES, TYPES};
use quipu::symbols::places::Places;
use quipu_console::flags::{Flagged, Flags};
use std::path::Path;

/// Options that name sources of types.
pub(crate) struct TypeOptions;

impl Flagged for TypeOptions {
    fn specs() -> Vec<OptionSpec> {
        vec![BINARY, TYPES, BASE]
    }
}

/// Flags for these options.
pub(crate) type Typing = Flags<TypeOptions>;

/// Passes on the options that an analysis has.
pub(crate) fn give(typing: &Typing, info: &ToolInfo, given: &mut Given) {
    let has = |name: &str| info.options.iter().any(|option| option.name == name);
    given.extend(typing.given().iter().filter(|(name, _)| has(name)));
}

/// Passes the file of places beside a trace on to an analysis that has an option for one, unless the user names another, or
/// the file is of another trace that had this name.
pub(crate) fn give_places(trace: &Path, info: &ToolInfo, given: &mut Given) {
    let path = Places::path_beside(trace);
    let has_option = info.options.iter().any(|option| option.name == PLACES.name);
    if !has_option || given.last(PLACES.name).is_some() || !path.is_file() {
        return;
    }
    let n_bytes = trace.metadata().ok().map(|meta| meta.len());
    let is_its_own = n_bytes.is_some() && Places::trace_bytes_in(&path).is_ok_and(|found| found == n_bytes);
    if let Some(name) = path.to_str().filter(|_| is_its_own) {
        given.add(PLACES.name, name);
    }
}
