//! Counts the accesses to one page of memory: a plain loop over one lens.
//!
//! ```text
//! cargo run -p quipu --example page_accesses -- traces/drmemtrace/allasm 0x402000
//! ```

use quipu::model::lens::AccessKind;
use quipu::model::{Columns, Error, OpenOptions, Result, Scan, Trace};
use std::path::Path;

/// Bytes in a page.
const PAGE: u64 = 4096;

/// Loads from and stores to a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PageAccesses {
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
}

/// Counts the accesses that begin in the page at `page`.
pub fn page_accesses(trace: &dyn Trace, page: u64) -> Result<PageAccesses> {
    let mut found = PageAccesses::default();
    for shard in trace.shards() {
        // Only the columns asked for are filled; everything else costs nothing.
        let mut reader = trace.scan(&Scan::new(shard.id).columns(Columns::ACCESSES))?;
        while let Some(batch) = reader.read()? {
            let accesses = &batch.accesses;
            for (addr, kind) in accesses.addr.iter().zip(&accesses.kind) {
                if addr & !(PAGE - 1) == page {
                    match kind {
                        AccessKind::Read => found.reads += 1,
                        AccessKind::Write => found.writes += 1,
                        _ => {}
                    }
                }
            }
        }
    }
    Ok(found)
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(page)) = (args.next(), args.next()) else {
        return Err(Error::usage("usage: page_accesses TRACE PAGE"));
    };
    let page = u64::from_str_radix(page.trim_start_matches("0x"), 16)
        .map_err(|_| Error::usage(format!("expected an address in hex, found `{page}`")))?;
    let trace = quipu::open_path(Path::new(&path), &OpenOptions::default())?;
    let found = page_accesses(&*trace, page & !(PAGE - 1))?;
    println!("{} loads, {} stores", found.reads, found.writes);
    Ok(())
}
