//! Names of functions and lines of the source for addresses of code in results, from the programs that a trace names.
//!
//! Only the texts and pages for people have them: names in the results for programs would depend on files beside the trace. A
//! program that was built anew since has other addresses, so its build id has to be that of the recorded one.

use quipu::model::doc::{Block, Cell, Document, Grid};
use quipu::model::{Module, Placed, Trace};
use quipu::symbols::functions::{Functions, build_id, loaded};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Heads of first columns that hold addresses of code.
const CODE: &[&str] = &["pc", "site", "instruction", "load"];
/// Head of the column with names.
const FUNCTION: &str = "function";

/// Adds names to the tables of these documents whose first column holds addresses of code, as far as names are known.
pub(crate) fn name_code(documents: &mut [Document], trace: &dyn Trace) {
    let blocks = documents.iter_mut().flat_map(|document| &mut document.blocks);
    let grids = blocks.filter_map(|block| match block {
        Block::Grid(grid) if is_of_code(grid) => Some(grid),
        _ => None,
    });
    // Most results have no such table, and the list of programs may take a while to read.
    let mut files = None;
    for grid in grids {
        let files = files.get_or_insert_with(|| Files::of(trace));
        let names: Vec<Option<String>> =
            grid.rows.iter().map(|row| address_of(row).and_then(|address| files.name(address))).collect();
        if names.iter().any(Option::is_some) {
            grid.head.push(FUNCTION.to_owned());
            for (row, name) in grid.rows.iter_mut().zip(names) {
                row.push(name.map_or(Cell::Empty, Cell::Code));
            }
        }
    }
}

fn is_of_code(grid: &Grid) -> bool {
    grid.head.first().is_some_and(|head| CODE.contains(&head.as_str()))
}

fn address_of(row: &[Cell]) -> Option<u64> {
    match row.first()? {
        Cell::Addr(address) => Some(*address),
        _ => None,
    }
}

/// The programs and libraries that a trace names.
struct Files {
    modules: Vec<Module>,
    /// Those that were opened; `None` for files that are gone or were built anew.
    opened: HashMap<PathBuf, Option<Opened>>,
}

struct Opened {
    functions: Functions,
    /// Its lowest loaded address.
    lowest: u64,
}

impl Files {
    fn of(trace: &dyn Trace) -> Files {
        Files { modules: trace.modules(), opened: HashMap::new() }
    }

    /// The function at an address, and the file and line if they are known.
    fn name(&mut self, address: u64) -> Option<String> {
        let module = self.modules.iter().find(|module| module.addresses.contains(&address))?;
        let opened = self.opened.entry(module.path.clone()).or_insert_with(|| open(module)).as_ref()?;
        let in_file = match module.placed {
            Placed::By(added) => address.wrapping_sub(added),
            Placed::From(start) => address.wrapping_sub(start).wrapping_add(opened.lowest),
        };
        let (_, name) = opened.functions.at(in_file)?;
        let source = opened.functions.source_at(in_file).map(|place| {
            let file = Path::new(&place.file).file_name().map(|name| name.to_string_lossy().into_owned());
            format!(" {}:{}", file.unwrap_or(place.file), place.line)
        });
        Some(format!("{name}{}", source.unwrap_or_default()))
    }
}

/// Opens the file of a module; `None` unless it is of the recorded build.
fn open(module: &Module) -> Option<Opened> {
    // The trace names the path, which may be anything; only files are opened.
    let path = Some(&module.path).filter(|path| path.is_absolute() && path.is_file())?;
    if build_id(path)? != *module.build_id.as_ref()? {
        return None;
    }
    Some(Opened { functions: Functions::open(path), lowest: loaded(path)?.start })
}
