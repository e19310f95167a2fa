//! Finds the function that contains an address, and the line of the source: from debug information, otherwise from the
//! symbol tables of the file.

use crate::dwarf::DebugInfo;
use crate::dwarf::types::Place;
use crate::symbol_table::{CodeSymbol, code_symbols};
use object::read::{Object, ObjectSegment, ReadCache};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The functions of a program or library.
#[derive(Debug, Default)]
pub struct Functions {
    info: Option<Box<DebugInfo>>,
    symbols: Vec<CodeSymbol>,
}

impl Functions {
    /// Reads a file. A file that is missing or cannot be read has no functions.
    #[must_use]
    pub fn open(path: &Path) -> Functions {
        // Opening a pipe or device could block forever; it is not a program anyway.
        if !std::fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
            return Functions::default();
        }
        let info = DebugInfo::open(path).ok().map(Box::new);
        Functions { info, symbols: code_symbols(path).unwrap_or_default() }
    }

    /// The start address and the name of the function that contains the code at an address of the file.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<(u64, &str)> {
        let known = self.info.as_ref().and_then(|info| info.objects().function_at(address));
        if let Some(function) = known
            && let Some(first) = function.ranges.first()
        {
            return Some((first.start, &function.name));
        }
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols.get(behind.checked_sub(1)?)?;
        (address - symbol.address < symbol.size).then_some((symbol.address, &*symbol.name))
    }

    /// The line of the source for the code at an address of the file.
    #[must_use]
    pub fn source_at(&self, address: u64) -> Option<Place> {
        self.info.as_ref()?.line_of(address)
    }
}

/// The build id of a program or library, bytes that differ between builds; `None` if its linker has given it none.
#[must_use]
pub fn build_id(path: &Path) -> Option<Vec<u8>> {
    let cache = ReadCache::new(std::fs::File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    file.build_id().ok().flatten().map(<[u8]>::to_vec)
}

/// A program or library in the memory of a process. Its file is read when the first function is looked up.
#[derive(Debug)]
pub struct Mapped {
    addresses: Range<u64>,
    path: PathBuf,
    functions: OnceLock<Functions>,
}

impl Mapped {
    /// A file whose address 0 is at the first of these addresses.
    #[must_use]
    pub fn new(addresses: Range<u64>, path: PathBuf) -> Mapped {
        Mapped { addresses, path, functions: OnceLock::new() }
    }

    /// The addresses that it covers.
    #[must_use]
    pub fn addresses(&self) -> &Range<u64> {
        &self.addresses
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The start address and the name of the function at an address of memory, which is a function's start or a return
    /// address after a call.
    #[must_use]
    pub fn function(&self, address: u64) -> Option<(u64, &str)> {
        let base = self.addresses.start;
        let functions = self.functions.get_or_init(|| Functions::open(&self.path));
        let at = address.checked_sub(base)?;
        let begun = functions.at(at).filter(|(start, _)| *start == at);
        let (start, name) = begun.or_else(|| functions.at(at.checked_sub(1)?))?;
        Some((base.checked_add(start)?, name))
    }
}

/// The range from the lowest to the highest loaded address of a file; `None` if it is not a program or library.
#[must_use]
pub fn loaded(path: &Path) -> Option<Range<u64>> {
    let cache = ReadCache::new(std::fs::File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let parts = file.segments().map(|part| part.address()..part.address().saturating_add(part.size()));
    let all = parts.reduce(|all, part| all.start.min(part.start)..all.end.max(part.end))?;
    // Segments begin at page boundaries.
    Some(all.start & !0xfff..all.end)
}
