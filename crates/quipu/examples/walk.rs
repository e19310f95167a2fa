//! Walks over instructions with their data: two lenses side by side.
//!
//! ```text
//! cargo run -p quipu --example walk -- traces/drmemtrace/allasm
//! ```

use quipu::isa::{Decoder, Syntax};
use quipu::model::lens::NO_CODE;
use quipu::model::{Batch, Columns, Error, OpenOptions, Result, Scan, Trace};
use std::path::Path;

/// Number of instructions that the program prints.
const SHOWN: usize = 20;

/// Calls `visit` with the row and text of each instruction and the addresses of its accesses, shard by shard. `visit` returns
/// false to stop.
pub fn walk(trace: &dyn Trace, mut visit: impl FnMut(u64, &str, &[u64]) -> bool) -> Result<()> {
    let arch = trace.meta().arch.ok_or_else(|| Error::missing("the trace does not say its architecture"))?;
    let mut decoder =
        Decoder::new(arch, Syntax::Att).map_err(|error| Error::unsupported(error.to_string()))?;
    let columns = Columns::INSTRS | Columns::INSTR_CODE | Columns::ACCESSES;
    let mut text = String::new();
    for shard in trace.shards() {
        let mut reader = trace.scan(&Scan::new(shard.id).columns(columns))?;
        while let Some(batch) = reader.read()? {
            for (row, accesses) in instrs_with_accesses(batch) {
                text.clear();
                let code = batch.instrs.code.get(row).copied().unwrap_or(NO_CODE);
                if let Some(code) = batch.codes.get(code) {
                    decoder.text(code.pc, code.bytes(), &mut text);
                }
                if !visit(batch.instrs.pc[row], &text, accesses) {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// The instructions of a batch, each with its accesses: those after it and before the next instruction.
///
/// Lenses are ordered by `at`, the record that a row comes from. The accesses of the last instruction in a batch may continue
/// in the next batch; a program that must not miss them keeps that instruction until it has seen the next one.
fn instrs_with_accesses(batch: &Batch) -> impl Iterator<Item = (usize, &[u64])> {
    let (instrs, accesses) = (&batch.instrs, &batch.accesses);
    let mut start = accesses.at.partition_point(|at| Some(at) < instrs.at.first());
    (0..instrs.len()).map(move |row| {
        let next = instrs.at.get(row + 1).copied().unwrap_or(u32::MAX);
        let n = accesses.at[start..].partition_point(|at| *at < next);
        let own = &accesses.addr[start..start + n];
        start += n;
        (row, own)
    })
}

fn main() -> Result<()> {
    let Some(path) = std::env::args().nth(1) else { return Err(Error::usage("usage: walk TRACE")) };
    let trace = quipu::open_path(Path::new(&path), &OpenOptions::default())?;
    let mut n_shown = 0;
    walk(&*trace, |pc, text, accesses| {
        println!("{pc:#x}  {text:40}  {accesses:#x?}");
        n_shown += 1;
        n_shown < SHOWN
    })
}
