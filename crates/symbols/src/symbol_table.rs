//! What an ELF file's own tables say of its variables: a name, an address and a size, but no type.
//!
//! Programs without debug information have them unless they were stripped, and libraries always have those that others use.

use crate::dwarf::DebugError;
use object::read::{Object, ObjectSymbol, ReadCache, SymbolKind};
use std::path::Path;

/// The most variables that are read of one file.
const MAX_SYMBOLS: usize = 1 << 20;

/// A variable of unknown type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSymbol {
    /// Its name, as linkers know it.
    pub name: String,
    /// Its address in the file.
    pub address: u64,
    /// Its bytes; more than 0.
    pub size: u64,
}

/// The variables that a program's or library's tables of symbols name, by address; of several at one address the largest, and of
/// those the first by name.
///
/// # Errors
/// If the file cannot be read or is no ELF file.
pub fn data_symbols(path: &Path) -> Result<Vec<DataSymbol>, DebugError> {
    let file = std::fs::File::open(path)
        .map_err(|error| DebugError::new(format!("cannot read the file: {error}")).in_file(path))?;
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache)
        .map_err(|error| DebugError::new(format!("no ELF file: {error}")).at(0).in_file(path))?;
    let mut found: Vec<DataSymbol> = elf
        .symbols()
        .chain(elf.dynamic_symbols())
        .filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.is_definition() && symbol.size() > 0)
        .filter_map(|symbol| {
            let name = String::from_utf8_lossy(symbol.name_bytes().ok()?).into_owned();
            Some(DataSymbol { name, address: symbol.address(), size: symbol.size() })
        })
        .take(MAX_SYMBOLS)
        .collect();
    found.sort_by(|a, b| (a.address, b.size, &a.name).cmp(&(b.address, a.size, &b.name)));
    found.dedup_by_key(|symbol| symbol.address);
    Ok(found)
}
