//! Saying where types come from, for verbs that tell accesses by field.

use quipu::model::{Given, OptionSpec, ToolInfo};
use quipu::sim::{BASE, BINARY, TYPES};
use quipu_console::flags::{Flagged, Flags};

/// The options that say where types come from.
pub(crate) struct TypeOptions;

impl Flagged for TypeOptions {
    fn specs() -> Vec<OptionSpec> {
        vec![BINARY, TYPES, BASE]
    }
}

/// Where types come from.
pub(crate) type Typing = Flags<TypeOptions>;

/// Gives an analysis those of the options that it has.
pub(crate) fn give(typing: &Typing, info: &ToolInfo, given: &mut Given) {
    let has = |name: &str| info.options.iter().any(|option| option.name == name);
    given.extend(typing.given().iter().filter(|(name, _)| has(name)));
}
