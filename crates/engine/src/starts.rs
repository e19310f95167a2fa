//! A view of a trace in which each shard begins at an instruction of its own.

use crate::units::is_empty;
use quipu_model::print::Printer;
use quipu_model::schema::Schema;
use quipu_model::trace::{CoreForm, PrintOptions};
use quipu_model::{Columns, Error, Meta, Reader, Result, Scan, Shard, Trace, Window};
use std::sync::Arc;

/// Leaves out the first instructions of each shard: as many as the shard's entry in `skips` says, and none in shards beyond
/// its end. Records come as after a skip of instructions.
///
/// Windows of such a trace count from where its shards begin; a window of records starts counting at the first record
/// delivered.
pub fn begin_at(trace: Box<dyn Trace>, skips: Vec<u64>) -> Box<dyn Trace> {
    // A piece does not know where in its shard it begins.
    let shards = trace.shards().iter().map(|shard| Shard { pieces: 1, ..shard.clone() }).collect();
    Box::new(LateTrace { trace, skips, shards })
}

/// A trace whose shards begin late.
struct LateTrace {
    trace: Box<dyn Trace>,
    skips: Vec<u64>,
    shards: Vec<Shard>,
}

impl Trace for LateTrace {
    fn meta(&self) -> &Meta {
        self.trace.meta()
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        self.trace.columns()
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        self.trace.tables()
    }

    fn learn(&self) -> Result<()> {
        self.trace.learn()
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        let skip = self.skips.get(scan.shard.0 as usize).copied().unwrap_or(0);
        if skip == 0 || is_empty(&scan.window) {
            return self.trace.scan(scan);
        }
        let (window, most) = match &scan.window {
            Window::All => (Window::Instrs(skip..u64::MAX), scan.most),
            Window::Instrs(range) => {
                (Window::Instrs(range.start.saturating_add(skip)..range.end.saturating_add(skip)), scan.most)
            }
            Window::Records(range) if range.start == 0 => {
                (Window::Instrs(skip..u64::MAX), scan.most.min(range.end))
            }
            Window::Records(_) | Window::Clock(_) => {
                return Err(Error::unsupported(
                    "a trace whose threads begin late is read from there on, or from an instruction on",
                ));
            }
        };
        self.trace.scan(&Scan { window, most, pieces: None, ..scan.clone() })
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        self.trace.printer(options)
    }

    fn origin(&self) -> Option<&dyn Trace> {
        Some(&*self.trace)
    }

    fn core_form(&self) -> Option<&'static dyn CoreForm> {
        self.trace.core_form()
    }
}
