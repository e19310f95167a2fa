//! Flags for sources of types, for verbs that attribute accesses to fields.

use quipu::model::{Given, OptionSpec, ToolInfo};
use quipu::sim::{BASE, BINARY, TYPES};
use quipu_console::flags::{Flagged, Flags};

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
