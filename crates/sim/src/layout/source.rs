//! How the members of a type are declared: what a shape leaves out, because it knows bytes only.

use quipu_model::{Error, ErrorKind, Result};
use quipu_symbols::dwarf::types::{Kind, MemberKind};
use quipu_symbols::dwarf::{DebugInfo, TypeId};
use quipu_symbols::types_file::TypesFile;
use std::path::Path;

/// A member as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) name: String,
    /// Its type; of an array, that of its elements.
    pub(super) text: String,
    /// Elements in each dimension; none if it is no array.
    pub(super) dimensions: Vec<u64>,
}

/// The members of a type of a program.
pub(super) fn of_program(info: &DebugInfo, id: TypeId) -> Vec<Declared> {
    let Ok(ty) = info.read(info.definition(id).unwrap_or(id)) else { return Vec::new() };
    let member = |member: &quipu_symbols::dwarf::types::Member| {
        let name = match (&member.name, &member.kind) {
            (_, MemberKind::Base) => format!("{}::", member.text),
            (Some(name), _) => name.clone(),
            (None, _) => return None,
        };
        let array =
            member.ty.and_then(|id| info.read(info.behind_names(id)).ok()).and_then(|ty| match ty.kind {
                Kind::Array { element: Some(element), counts } => {
                    let counts = counts.into_iter().collect::<Option<Vec<u64>>>()?;
                    Some((info.text_of(element), counts))
                }
                _ => None,
            });
        let (text, dimensions) = array.unwrap_or_else(|| (member.text.clone(), Vec::new()));
        Some(Declared { name, text, dimensions })
    };
    ty.members.iter().filter_map(member).collect()
}

/// The members of a structure of a file of types.
pub(super) fn of_file(file: &TypesFile, name: &str) -> Vec<Declared> {
    let is_named = |of: &str| of == name || of.strip_prefix("struct ").is_some_and(|of| of == name);
    let found = file.structs.iter().find(|of| is_named(&of.name) && !of.members.is_empty());
    let member = |member: &quipu_symbols::types_file::MemberDef| Declared {
        name: member.member.clone(),
        text: member.name.trim_end_matches("[]").to_owned(),
        dimensions: Vec::new(),
    };
    found.map_or_else(Vec::new, |of| of.members.iter().map(member).collect())
}

/// The text of a small file.
///
/// # Errors
/// `Io` with the file.
pub(super) fn text_of(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    std::fs::read_to_string(path).map_err(|error| Error::new(ErrorKind::Io, error.to_string()).in_file(name))
}
