//! Prints records to standard output or standard error.

use crate::screen::Result;
use crate::terminal::Stream;
use quipu::engine::{self, Merge, PrintJob, Shown, Unprinted, Watch};
use quipu_view::Progress;
use std::io::Write;

/// Prints the chosen rows of a merge to `out`. On a terminal, rows are written at once; otherwise a line on standard error
/// shows progress unless `is_quiet`.
///
/// # Errors
/// Errors of reading, and of writing to `out`.
pub fn print(
    job: PrintJob<'_>,
    merge: Merge<'_>,
    watch: &Watch,
    out: Stream<impl Write + Send>,
    is_quiet: bool,
) -> Result<Shown> {
    let is_prompt = out.is_terminal();
    let mut progress = if is_prompt || is_quiet { Progress::hidden() } else { Progress::on_terminal() };
    let job = PrintJob { is_prompt, ..job };
    engine::print(job, merge, watch, out, &mut |records, share| progress.show(records, share)).map_err(
        |error| match error {
            Unprinted::Trace(error) => error.into(),
            Unprinted::Output(error) => error.into(),
        },
    )
}
