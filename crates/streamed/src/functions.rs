//! Names the functions of recorded programs: calls have addresses inside functions, and the stream says where files were
//! mapped.
//!
//! A table `module` with the fields `base`, `bytes` and `file` lists programs and libraries. If a call has a code address,
//! the file mapped there determines the function, which is then identified by its start address, so that entering and leaving
//! it name the same function. Addresses that no file resolves stay as they are.
//!
//! On the first call, modules are read from the first frame of every stream. The other frames are read only if an address
//! lies in none of those modules.
//!
//! SPEC: stream.md#what-verbs-make-of-it.

use crate::reader::RowReader;
use crate::schema::N_OWN;
use crate::trace::Opened;
use quipu_model::schema::{Schema, Type};
use quipu_model::{Columns, Reader, Result, Scan, ShardId};
use quipu_symbols::functions::Mapped;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Name of the table that lists programs and libraries, and its fields.
const TABLE: (&str, [&str; 3]) = ("module", ["base", "bytes", "file"]);
/// Maximum number of modules kept.
const MAX_MODULES: usize = 1 << 14;

/// Modules of all producers: those in the first frames of the streams, and the rest.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    first: OnceLock<Vec<Module>>,
    rest: OnceLock<Vec<Module>>,
}

/// A program or library of a producer.
#[derive(Debug)]
struct Module {
    producer: u64,
    mapped: Mapped,
}

impl Module {
    fn has(&self, producer: u64, address: u64) -> bool {
        self.producer == producer && self.mapped.addresses().contains(&address)
    }
}

/// The function that contains a code address of a producer: its start address and name.
pub(crate) fn at(opened: &Arc<Opened>, producer: u64, address: u64) -> Option<(u64, &str)> {
    let Modules { first, rest } = &opened.modules;
    let known = first.get_or_init(|| modules(opened, |n| 0..n.min(1)));
    if let Some(module) = known.iter().find(|module| module.has(producer, address)) {
        return module.mapped.function(address);
    }
    let later = rest.get_or_init(|| modules(opened, |n| n.min(1)..n));
    later.iter().find(|module| module.has(producer, address))?.mapped.function(address)
}

/// All modules that the streams list, from all frames.
pub(crate) fn all(opened: &Arc<Opened>) -> Vec<quipu_model::Module> {
    let Modules { first, rest } = &opened.modules;
    let known = first.get_or_init(|| modules(opened, |n| 0..n.min(1)));
    let later = rest.get_or_init(|| modules(opened, |n| n.min(1)..n));
    let module = |module: &Module| quipu_model::Module {
        addresses: module.mapped.addresses().clone(),
        placed: quipu_model::Placed::By(module.mapped.addresses().start),
        path: module.mapped.path().to_owned(),
        build_id: None,
    };
    known.iter().chain(later).map(module).collect()
}

/// The modules that the `wanted` frames of each stream list. Damage is left to the readers of the frames.
fn modules(opened: &Arc<Opened>, wanted: impl Fn(u32) -> Range<u32>) -> Vec<Module> {
    let mut all = Vec::new();
    let tables: Vec<(usize, [usize; 3])> = (0..opened.tables.schemas.len())
        .filter_map(|table| Some((table, fields(&opened.tables.schemas[table])?)))
        .collect();
    for (shard, part) in (0..).zip(&opened.parts) {
        let pieces = wanted(u32::try_from(part.pieces.len()).unwrap_or(u32::MAX));
        for (table, fields) in tables.iter().filter(|_| !pieces.is_empty()) {
            let scan = Scan {
                columns: Columns::NONE,
                tables: vec![*table],
                pieces: Some(pieces.clone()),
                ..Scan::new(ShardId(shard))
            };
            // Reading stops at an error; modules found so far are kept.
            let _ = read(opened, &scan, part.producer, *fields, &mut all);
        }
    }
    all
}

fn read(
    opened: &Arc<Opened>,
    scan: &Scan,
    producer: u64,
    [base, bytes, file]: [usize; 3],
    all: &mut Vec<Module>,
) -> Result<()> {
    let mut reader = RowReader::new(opened, scan)?;
    while let Some(batch) = reader.read()? {
        let Some(table) = batch.tables.first() else { continue };
        for row in 0..table.n_rows() {
            let start = table.column(base).number(row);
            let addresses = start..start.saturating_add(table.column(bytes).number(row));
            let path = PathBuf::from(OsStr::from_bytes(table.column(file).bytes(row)));
            let is_known = |known: &Module| {
                let Module { producer: of, mapped } = known;
                *of == producer && *mapped.addresses() == addresses && mapped.path() == path
            };
            if all.len() < MAX_MODULES && !all.iter().any(is_known) {
                all.push(Module { producer, mapped: Mapped::new(addresses, path) });
            }
        }
    }
    Ok(())
}

/// Positions of the fields, if this is a table of modules.
fn fields(schema: &Schema) -> Option<[usize; 3]> {
    let (name, names) = TABLE;
    if schema.name.split('@').next() != Some(name) {
        return None;
    }
    let [base, bytes, file] = names.map(|name| schema.position(name).filter(|at| *at >= N_OWN));
    let (base, bytes, file) = (base?, bytes?, file?);
    let is = |at: usize, ty: &Type| schema.fields[at].ty == *ty;
    (is(base, &Type::Address) && is(bytes, &Type::U64) && is(file, &Type::Text))
        .then_some([base, bytes, file])
}
