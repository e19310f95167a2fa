//! Plans and runs scans: many cores, many shards, one order, one result.
//!
//! The engine stands between traces and analyses and knows neither formats nor passes. It does four things:
//!
//! - [`run`] feeds passes: one read of the data for all of them, on as many threads as wanted. The result never depends on
//!   the number of threads, because the division into units is fixed and the results are merged in order.
//! - [`Merge`] delivers batches to converters and other sequential consumers: all shards as one sequence by time, or a
//!   window of it.
//! - [`rows()`] delivers rows of a table or lens to other programs: chosen columns and rows, read on many threads.
//! - [`print()`] writes rows of a table as text while reading continues on another thread.
//!
//! A caller that follows a run shares a [`Watch`] with it, which reports progress and carries a flag to cancel the run.
//!
//! ```
//! use quipu_engine::{RunOptions, Watch, plan, run};
//! # use quipu_model::{Given, Result, Tool, Trace};
//! # fn demo(trace: &dyn Trace, counts: &dyn Tool, opcodes: &dyn Tool) -> Result<()> {
//! let planned = vec![plan(counts, &Given::default(), trace)?, plan(opcodes, &Given::default(), trace)?];
//! let watch = Watch::new();
//! let outcome = run(trace, planned, &RunOptions::new(&watch))?;
//! for report in &outcome.reports {
//!     println!("{}", report.json());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `plan` | binding a tool to a trace |
//! | `run` | choosing how to read, and merging the results |
//! | `units` | dividing a trace, independent of the number of threads |
//! | `parts` | the same results for each interval and each core |
//! | `work` | threads that work through units, and merge in order |
//! | `merge` | many shards as one sequence |
//! | `rows` | rows of a table or lens for other programs |
//! | `print` | records as text |
//! | `relay` | passing batches from one thread to another |
//! | `window` | mapping a part of that sequence to parts of the shards |
//! | `share` | independent work inside a pass |
//! | `convert` | converting records from one format to another |
//! | `dispatch` | scheduling threads onto cores |
//! | `rounds` | a part of what cores do side by side |
//! | `starts` | a trace whose shards begin late |
//! | `between` | the parts of a trace between marks |
//! | `watch` | progress and cancellation |

#![warn(missing_docs)]

mod between;
mod convert;
mod dispatch;
mod feed;
mod kept;
mod merge;
mod parts;
mod plan;
mod print;
mod relay;
mod results;
mod rounds;
mod rows;
mod run;
mod share;
mod starts;
mod units;
mod watch;
mod window;
mod work;

pub use between::{Between, MarkName, between, ranges_between};
pub use convert::{ConversionPlan, Converted, convert, plan_conversion};
pub use dispatch::{CoreTime, DispatchOptions, MAX_DISPATCH_CORES, Quantum, dispatch, dispatch_in_sequence};
pub use kept::KeptAccesses;
pub use merge::{Merge, Merged};
pub use parts::{Division, Interval, Intervals, Part};
pub use plan::{Planned, plan};
pub use print::{Doubtful, PrintJob, Shown, Unprinted, or_own, print};
pub use results::tables;
pub use rows::{
    RowBatch, RowOrder, RowStream, Selection, find_table, refuse_part, row_names, row_schema, row_window,
    rows, rows_of_each,
};
pub use run::{Outcome, RunOptions, WindowOf, part_of_rounds, run};
pub use share::{share, side_by_side};
pub use starts::begin_at;
pub use watch::{Progress, Watch};
pub use window::{InTime, parts};
