//! Sources of types: a program's debug information, a file of types, or both.

use crate::options::{BASE, BINARY, PLACES, TYPES};
use quipu_model::harmless::shell_word;
use quipu_model::{Error, ErrorKind, Module, Options, Placed, Result, Trace};
use quipu_symbols::FileError;
use quipu_symbols::attribute::Types;
use quipu_symbols::dwarf::{DebugError, DebugInfo};
use quipu_symbols::functions::loaded;
use quipu_symbols::places::Places;
use quipu_symbols::symbol_table::{DataSymbol, data_symbols};
use quipu_symbols::types_file::TypesFile;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// Types, and the addresses of the program's variables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeSource {
    /// The types.
    pub types: Types,
    /// Variables found only in the program's symbol table.
    pub symbols: Arc<[DataSymbol]>,
    /// Offset from addresses in the program's file to addresses in the trace.
    pub base: u64,
    /// Places where regions were allocated.
    pub places: Arc<Places>,
}

impl TypeSource {
    /// What the options `binary`, `types`, `base` and `places` ask for; `None` without any file.
    ///
    /// # Errors
    /// `Io` and `Malformed` if a file cannot be read or parsed.
    pub fn of(options: &Options) -> Result<Option<TypeSource>> {
        let (binary, file) = (options.path(&BINARY), options.path(&TYPES));
        let base = options.count(&BASE);
        let (mut types, mut symbols) = (Types::default(), Vec::new());
        if let Some(path) = binary {
            let wrong = |error: DebugError| Error::new(ErrorKind::Malformed, error.to_string());
            let info = DebugInfo::open(path);
            let is_absent = info.as_ref().is_err_and(DebugError::is_absent);
            // A broken symbol table does not make the types useless.
            symbols = data_symbols(path).unwrap_or_default();
            match info {
                Ok(info) => {
                    symbols.retain(|symbol| !info.variables().has_any_of(symbol.address, symbol.size));
                    types = Types::of_program(Arc::new(info));
                }
                // Without types, the names of variables are better than nothing.
                Err(_) if is_absent && !symbols.is_empty() => {}
                Err(error) => return Err(wrong(error)),
            }
        }
        if let Some(path) = file {
            let name = path.display().to_string();
            let bytes = std::fs::read(path).map_err(|cause| {
                let error = Error::new(ErrorKind::Io, "cannot read the file of types");
                error.in_file(name.clone()).because(cause)
            })?;
            let file = TypesFile::parse(&bytes)
                .map_err(|error| Error::new(ErrorKind::Malformed, error.to_string()).in_file(name))?;
            types = types.and_file(&file);
        }
        let places = options.path(&PLACES);
        let is_asked = binary.is_some() || file.is_some() || places.is_some();
        let places = places.map(places_of).transpose()?.unwrap_or_default().into();
        Ok(is_asked.then_some(TypeSource { types, symbols: symbols.into(), base, places }))
    }

    /// Whether memory without annotations may be known through variables.
    pub fn has_variables(&self) -> bool {
        self.types.program().is_some() || !self.symbols.is_empty()
    }
}

/// Reads a file of places.
fn places_of(path: &Path) -> Result<Places> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|cause| {
        let error = Error::new(ErrorKind::Io, "cannot read the file of places");
        error.in_file(name.clone()).because(cause)
    })?;
    let wrong = |error: FileError| {
        let error = Error::new(ErrorKind::Malformed, error.to_string()).in_file(name.clone());
        error.hint("without the file, types are reported without places; recording again writes it")
    };
    Places::read(BufReader::new(file)).map_err(wrong)
}

/// The error of a tool that finds neither regions in the trace nor variables in a program. Its hint says how to get both; it
/// names the program, if the trace says which was recorded.
#[cold]
pub(crate) fn missing_types(tool: &str, trace: &dyn Trace) -> Error {
    let program = trace.modules().iter().find_map(as_options);
    let program = program.unwrap_or_else(|| {
        "--binary PROGRAM, and --base ADDR if it was not loaded where its file says".to_owned()
    });
    Error::missing(format!(
        "tool `{tool}` needs regions with types, which this trace does not carry, or a program with variables"
    ))
    .hint(format!(
        "for types of allocations, compile the program with `quipu cc -g` or `quipu c++ -g` and record it again; \
         for its global variables only: {program}"
    ))
}

/// The options that name a module as the program; `None` if its file is gone.
fn as_options(module: &Module) -> Option<String> {
    // The trace names the path, which may be anything; only files are opened.
    let path = Some(&module.path).filter(|path| path.is_absolute() && path.is_file())?;
    let base = match module.placed {
        Placed::By(added) => added,
        Placed::From(start) => start.wrapping_sub(loaded(path)?.start),
    };
    let base = if base == 0 { String::new() } else { format!(" --base {base:#x}") };
    Some(format!("--binary {}{base}", shell_word(&path.to_string_lossy())))
}
