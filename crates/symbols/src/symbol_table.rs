//! Variables and functions in an ELF file's symbol tables: a name, an address and a size, but no type.
//!
//! Programs without debug information have these unless they were stripped, and libraries always have the symbols that they
//! export.

use crate::dwarf::DebugError;
use object::read::{Object, ObjectSymbol, ReadCache, SymbolKind};
use std::path::Path;

/// Maximum number of variables, and of functions, that are read from one file.
const MAX_SYMBOLS: usize = 1 << 20;

/// A variable of unknown type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSymbol {
    /// Its linker name.
    pub name: String,
    /// Its address in the file.
    pub address: u64,
    /// Its size in bytes; more than 0.
    pub size: u64,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeSymbol {
    /// Its linker name.
    pub name: String,
    /// The start of its code in the file.
    pub address: u64,
    /// Size of its code in bytes; more than 0.
    pub size: u64,
}

/// The variables in the symbol tables of a program or library, by address; of several at one address, the largest, and among
/// those the first by name.
///
/// # Errors
/// If the file cannot be read or is not an ELF file.
pub fn data_symbols(path: &Path) -> Result<Vec<DataSymbol>, DebugError> {
    let variable = |(name, address, size)| DataSymbol { name, address, size };
    Ok(symbols(path, SymbolKind::Data)?.into_iter().map(variable).collect())
}

/// The functions in the same tables, in the same order.
///
/// # Errors
/// If the file cannot be read or is not an ELF file.
pub fn code_symbols(path: &Path) -> Result<Vec<CodeSymbol>, DebugError> {
    let function = |(name, address, size)| CodeSymbol { name, address, size };
    Ok(symbols(path, SymbolKind::Text)?.into_iter().map(function).collect())
}

/// Names, addresses and sizes of the symbols of a kind.
fn symbols(path: &Path, kind: SymbolKind) -> Result<Vec<(String, u64, u64)>, DebugError> {
    let file = std::fs::File::open(path)
        .map_err(|error| DebugError::new(format!("cannot read the file: {error}")).in_file(path))?;
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache)
        .map_err(|error| DebugError::new(format!("no ELF file: {error}")).at(0).in_file(path))?;
    let mut found: Vec<(String, u64, u64)> = elf
        .symbols()
        .chain(elf.dynamic_symbols())
        .filter(|symbol| symbol.kind() == kind && symbol.is_definition() && symbol.size() > 0)
        .filter_map(|symbol| {
            let name = String::from_utf8_lossy(symbol.name_bytes().ok()?).into_owned();
            Some((name, symbol.address(), symbol.size()))
        })
        .take(MAX_SYMBOLS)
        .collect();
    found.sort_by(|a, b| (a.1, b.2, &a.0).cmp(&(b.1, a.2, &b.0)));
    found.dedup_by_key(|symbol| symbol.1);
    Ok(found)
}
