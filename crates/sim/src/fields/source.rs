//! Where types come from: a program's debug information, a file of types, or both.

use quipu_model::{Args, Error, ErrorKind, Result};
use quipu_symbols::attribute::Types;
use quipu_symbols::dwarf::DebugInfo;
use quipu_symbols::types_file::TypesFile;
use std::path::Path;
use std::sync::Arc;

/// Types, and where the program's variables are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeSource {
    /// The types.
    pub types: Types,
    /// What is added to the addresses of the program's file to get those of the trace.
    pub base: u64,
}

impl TypeSource {
    /// What the options `binary`, `types` and `base` ask for; `None` without the first two.
    ///
    /// # Errors
    /// `Usage` for a base that is no number, `Io` and `Malformed` for what is wrong with the files.
    pub fn of(args: &Args) -> Result<Option<TypeSource>> {
        let path = |name: &str| args.get(name).filter(|path| !matches!(*path, "" | "none")).map(Path::new);
        let (binary, file) = (path("binary"), path("types"));
        let base = args.number("base", 0)?;
        let mut types = match binary {
            Some(path) => {
                let info = DebugInfo::open(path)
                    .map_err(|error| Error::new(ErrorKind::Malformed, error.to_string()))?;
                Types::of_program(Arc::new(info))
            }
            None => Types::default(),
        };
        if let Some(path) = file {
            let name = path.display().to_string();
            let bytes = std::fs::read(path)
                .map_err(|error| Error::new(ErrorKind::Io, error.to_string()).in_file(name.clone()))?;
            let file = TypesFile::parse(&bytes)
                .map_err(|error| Error::new(ErrorKind::Malformed, error.to_string()).in_file(name))?;
            types = types.and_file(&file);
        }
        Ok((binary.is_some() || file.is_some()).then_some(TypeSource { types, base }))
    }
}

/// The text of a small file.
///
/// # Errors
/// `Io` with the file.
pub(super) fn text_of(path: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Error::new(ErrorKind::Io, error.to_string()).in_file(path))
}
