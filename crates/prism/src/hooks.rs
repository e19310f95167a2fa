//! Hooks, and functions that run whole streams through them.

use crate::batch::Batch;
use crate::detail::Detail;
use crate::fault::Result;
pub use quipu_hooks::hooks::{Hooks, Sink};

/// Reads a dump of the fixed encoding into a sink, from start to finish. Events with an invalid name are skipped.
///
/// # Errors
/// Returns an error if the sink ends the run, or the first fault of the dump after all readable events were delivered.
pub fn run_dump(bytes: &[u8], detail: Detail, sink: &mut dyn Sink) -> Result<()> {
    let mut reader = crate::dump::Reader::new(bytes, detail);
    let mut batch = Batch::default();
    let mut wrong = None;
    sink.start()?;
    loop {
        match reader.read(&mut batch) {
            Ok(true) => sink.take(&batch)?,
            Ok(false) => break,
            Err(fault) => {
                wrong.get_or_insert(fault);
            }
        }
    }
    sink.finish()?;
    wrong.map_or(Ok(()), |fault| Err(fault.into()))
}

/// Reads a stream of the variable encoding into a sink, from start to finish.
///
/// # Errors
/// Returns an error if the stream is malformed, or the sink ends the run.
pub fn run_variable(
    bytes: &[u8],
    detail: Detail,
    dialect: crate::variable::Dialect,
    sink: &mut dyn Sink,
) -> Result<()> {
    let mut decoder = crate::variable::Decoder::new(detail, dialect);
    let (mut batch, mut used, mut has_ended) = (Batch::default(), 0, false);
    sink.start()?;
    while used < bytes.len() && !has_ended {
        let progress = decoder.decode(&bytes[used..], &mut batch)?;
        (used, has_ended) = (used + progress.used, progress.has_ended);
        sink.take(&batch)?;
    }
    sink.finish()
}
