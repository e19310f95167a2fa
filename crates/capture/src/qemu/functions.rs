//! Functions of the program and of its libraries, which are known once code of them is translated: the one at which recording
//! starts, and all of them for events.

use super::modules::Mapping;
use crate::limits::Code;
use crate::program::Program;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use quipu_model::fresh::cannot;
use quipu_model::{Error, ErrorKind, Result};
use quipu_prism::observed::{Functions as NamedFunctions, NamedCode};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The function to find.
#[derive(Debug)]
pub(crate) struct Functions {
    name: String,
    /// The only file to search, if the program itself defines the function.
    only: Option<PathBuf>,
}

impl Functions {
    /// Prepares the search for a function with this name.
    ///
    /// # Errors
    /// `Missing` if the program loads no libraries and does not define the function; `Io` if it cannot be read.
    pub(crate) fn new(program: &Program, name: &str) -> Result<Functions> {
        let shown = || program.path.display().to_string();
        let bytes = std::fs::read(&program.path).map_err(|cause| cannot("read", &program.path, cause))?;
        let object = object::File::parse(&*bytes)
            .map_err(|cause| Error::new(ErrorKind::Malformed, cause.to_string()).in_file(shown()))?;
        if offset_of(&object, name).is_some() {
            let path = program.path.canonicalize().unwrap_or_else(|_| program.path.clone());
            return Ok(Functions { name: name.to_owned(), only: Some(path) });
        }
        let loads = object.section_by_name(".interp").is_some();
        if !loads {
            return Err(Error::missing(format!("the program has no function `{name}`"))
                .in_file(shown())
                .hint("it must not be stripped"));
        }
        Ok(Functions { name: name.to_owned(), only: None })
    }

    /// Address of the function, if it is in this code.
    pub(crate) fn find(&self, mapping: &Mapping) -> Option<u64> {
        let Mapping { start, end, offset, path } = mapping;
        if self.only.as_ref().is_some_and(|only| only != path) {
            return None;
        }
        let at = self.offset_in(path)?.checked_sub(*offset)?;
        (at < end.wrapping_sub(*start)).then(|| start.wrapping_add(at))
    }

    fn offset_in(&self, path: &Path) -> Option<u64> {
        let bytes = std::fs::read(path).ok()?;
        offset_of(&object::File::parse(&*bytes).ok()?, &self.name)
    }
}

/// The addresses of some code in a mapping: all functions of a name, as each file of a program's source may have one.
pub(crate) fn addresses_of(code: &Code, mapping: &Mapping) -> Vec<Range<u64>> {
    let Mapping { start, end, offset, path } = mapping;
    let name = match code {
        Code::Module(name) => {
            return is_called(path, name).then_some(*start..*end).into_iter().collect();
        }
        Code::Function(name) => name,
    };
    let bytes = std::fs::read(path).unwrap_or_default();
    let Ok(object) = object::File::parse(&*bytes) else { return Vec::new() };
    let range_of = |symbol: object::Symbol<'_, '_>| {
        let at = offset_at(&object, symbol.address())?.checked_sub(*offset)?;
        let first = start.wrapping_add(at);
        (at < end.wrapping_sub(*start)).then(|| first..first.saturating_add(symbol.size().max(1)))
    };
    symbols_of(&object, name).filter_map(range_of).collect()
}

/// Whether a program or library is called so: by its path, its file name, or that without `.so` and what follows.
fn is_called(path: &Path, name: &str) -> bool {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let is_library = file.strip_prefix(name).is_some_and(|rest| rest == ".so" || rest.starts_with(".so."));
    path == Path::new(name) || file == name || is_library
}

/// All functions of a file; none if it cannot be read.
pub(crate) fn functions_of(path: &Path) -> NamedFunctions {
    let bytes = std::fs::read(path).unwrap_or_default();
    let Ok(object) = object::File::parse(&*bytes) else { return NamedFunctions::default() };
    let is_function =
        |symbol: &object::Symbol<'_, '_>| symbol.is_definition() && symbol.kind() == SymbolKind::Text;
    let symbols = object.symbols().chain(object.dynamic_symbols()).filter(is_function);
    let functions = symbols.filter_map(|symbol| {
        let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?.into();
        Some(NamedCode { offset: offset_at(&object, symbol.address())?, size: symbol.size(), name })
    });
    NamedFunctions::new(functions.collect())
}

/// Offset of a function in its file; of several with this name, that of the first.
fn offset_of(object: &object::File<'_>, name: &str) -> Option<u64> {
    offset_at(object, symbols_of(object, name).next()?.address())
}

/// The symbols of all functions with a name.
fn symbols_of<'d, 'f>(
    object: &'f object::File<'d>,
    name: &'f str,
) -> impl Iterator<Item = object::Symbol<'d, 'f>> {
    object.symbols().chain(object.dynamic_symbols()).filter(move |symbol| {
        symbol.is_definition() && symbol.name() == Ok(name) && symbol.kind() == SymbolKind::Text
    })
}

/// Offset in a file of the function with this symbol's address.
fn offset_at(object: &object::File<'_>, addr: u64) -> Option<u64> {
    // On 32-bit Arm, the lowest bit marks Thumb code.
    let is_arm = object.architecture() == object::Architecture::Arm;
    let addr = addr & !u64::from(is_arm);
    object.segments().find_map(|segment| {
        let at = addr.checked_sub(segment.address())?;
        let (offset, len) = segment.file_range();
        (at < len).then_some(offset + at)
    })
}
