//! System calls as text and tables.

use super::{SyscallCount, SyscallCounts};
use crate::filtered::Filtered;
use crate::split::Answer;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::pass::Detail;

/// Number of calls in a brief document.
const BRIEF_ROWS: usize = 6;

impl SyscallCount {
    /// The call's name, or its number if it has none.
    pub fn label(&self) -> String {
        self.name.map_or_else(|| format!("#{}", self.number), str::to_owned)
    }
}

impl Answer for SyscallCounts {
    fn document(&self, detail: Detail, _: Filtered) -> Document {
        let document = Document::new("System calls");
        if self.calls == 0 && self.syscalls.is_empty() {
            return match detail {
                Detail::Brief => document,
                Detail::Full => document.with(Block::Note("No system call occurs.".into())),
            };
        }
        let facts = vec![
            ("calls".to_owned(), vec![Cell::Count(self.calls)]),
            ("failed".to_owned(), vec![Cell::Count(self.failed)]),
        ];
        let shown = if detail == Detail::Brief { BRIEF_ROWS } else { usize::MAX };
        let mut document = document.with(Block::Facts(facts)).with(Block::Grid(self.calls_grid(shown)));
        if detail == Detail::Full && !self.errors_rows().is_empty() {
            document.blocks.push(Block::Grid(Grid {
                title: "failures".to_owned(),
                head: ["call", "error", "count"].map(str::to_owned).into(),
                rows: self.errors_rows(),
                more: 0,
            }));
        }
        document
    }
}

impl SyscallCounts {
    /// A row for each call; columns without any values are left out.
    fn calls_grid(&self, shown: usize) -> Grid {
        let is_timed = self.syscalls.iter().any(|call| call.latency.is_some());
        // Means cover the calls that have a latency.
        let timed = |call: &SyscallCount| call.latency.as_ref().map_or(0, |latency| latency.timed);
        let is_partly_timed = is_timed && self.syscalls.iter().any(|call| timed(call) != call.calls);
        let is_switched = self.syscalls.iter().any(|call| call.switched > 0);
        let has_kernel = self.syscalls.iter().any(|call| call.kernel.is_some());
        let mut head = vec!["call", "number", "calls", "failed", "may block"];
        head.extend(is_switched.then_some("switched"));
        head.extend(is_partly_timed.then_some("timed"));
        head.extend(if is_timed { &["mean", "longest", "together"][..] } else { &[] });
        head.extend(has_kernel.then_some("kernel instrs"));
        let row = |call: &SyscallCount| {
            let mut row = vec![
                Cell::Text(call.label()),
                Cell::Text(call.number.to_string()),
                Cell::Count(call.calls),
                Cell::Count(call.failed),
                Cell::Count(call.may_block),
            ];
            row.extend(is_switched.then_some(Cell::Count(call.switched)));
            row.extend(is_partly_timed.then(|| Cell::Count(timed(call))));
            if is_timed {
                let time = |ticks: Option<u64>| ticks.map_or(Cell::Empty, |ticks| self.time(ticks));
                let latency = call.latency.as_ref();
                row.push(time(latency.map(|latency| latency.mean_ticks.round() as u64)));
                row.push(time(latency.map(|latency| latency.max_ticks)));
                row.push(time(latency.map(|latency| latency.total_ticks)));
            }
            if has_kernel {
                row.push(call.kernel.map_or(Cell::Empty, |kernel| Cell::Count(kernel.instructions)));
            }
            row
        };
        Grid {
            title: String::new(),
            head: head.into_iter().map(str::to_owned).collect(),
            rows: self.syscalls.iter().take(shown).map(row).collect(),
            more: self.syscalls.len().saturating_sub(shown) as u64,
        }
    }

    fn errors_rows(&self) -> Vec<Vec<Cell>> {
        let known = self.syscalls.iter().map(|call| (call.label(), &call.errors));
        let all = known.chain([("not known".to_owned(), &self.unknown_errors)]);
        let row = |call: &str, error: &super::ErrorCount| {
            let name = error.name.map_or_else(|| error.error.to_string(), str::to_owned);
            vec![Cell::Text(call.to_owned()), Cell::Text(name), Cell::Count(error.count)]
        };
        all.flat_map(|(call, errors)| errors.iter().map(move |error| row(&call, error)).collect::<Vec<_>>())
            .collect()
    }

    fn time(&self, ticks: u64) -> Cell {
        match self.clock_per_second.filter(|per_second| *per_second > 0) {
            Some(per_second) => {
                let micros = u128::from(ticks) * 1_000_000 / u128::from(per_second);
                Cell::Micros(u64::try_from(micros).unwrap_or(u64::MAX))
            }
            None => Cell::Count(ticks),
        }
    }
}
