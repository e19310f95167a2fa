//! Which function has the code at an address: by debug information, else by the tables of symbols of the file itself.

use crate::dwarf::DebugInfo;
use crate::symbol_table::{CodeSymbol, code_symbols};
use std::path::Path;

/// The functions of a program or library.
#[derive(Debug, Default)]
pub struct Functions {
    info: Option<Box<DebugInfo>>,
    symbols: Vec<CodeSymbol>,
}

impl Functions {
    /// Reads a file. One that cannot be read, or that is not there, has no functions.
    #[must_use]
    pub fn open(path: &Path) -> Functions {
        // What opens for ever is no program.
        if !std::fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
            return Functions::default();
        }
        let info = DebugInfo::open(path).ok().map(Box::new);
        Functions { info, symbols: code_symbols(path).unwrap_or_default() }
    }

    /// Where the function begins that has the code at an address of the file, and its name.
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
}
