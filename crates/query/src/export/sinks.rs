//! Files of several tables that are written at the same time.

use quipu_arrow::{Encoder, Form, Packing, Sink};
use quipu_engine::RowBatch;
use quipu_model::fresh::Folder;
use quipu_model::{Error, ErrorKind, Result, Table};
use quipu_source::OutputFile;
use std::io::Write;
use std::path::Path;

/// Approximate limit on the bytes of rows, over all tables, that wait until their row groups are full.
const WAITING_BYTES: usize = 256 << 20;
/// Minimum share of that limit for each table.
const LEAST_BYTES: usize = 8 << 20;
/// Number of batches that may wait for each thread that compresses them.
pub(super) const WAITING_BATCHES: usize = 4;

/// Compression settings if files of this many tables are written together. A row group ends at a size of its own rows, so the
/// bytes do not depend on the number of threads.
pub(super) fn packing_of(packing: Packing, n_tables: usize) -> Packing {
    let share = (WAITING_BYTES / n_tables.max(1)).max(LEAST_BYTES);
    Packing { group_bytes: packing.group_bytes.min(share), ..packing }
}

/// Encodes the rows of a table and writes them to a file.
pub(super) struct Sinking<W: Write + Send> {
    encoder: Encoder,
    form: Form,
    packing: Packing,
    sink: Option<Sink<W>>,
    /// The output, until writing starts.
    out: Option<W>,
    pub(super) n_rows: u64,
}

impl<W: Write + Send> Sinking<W> {
    /// Prepares a file. A Parquet file is started with its first rows, other forms right away, so that they are complete even
    /// without rows.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn new(encoder: Encoder, form: Form, packing: Packing, out: W) -> Result<Sinking<W>> {
        let mut sinking = Sinking { encoder, form, packing, sink: None, out: Some(out), n_rows: 0 };
        if form != Form::Parquet {
            sinking.sink()?;
        }
        Ok(sinking)
    }

    /// Appends rows.
    ///
    /// # Errors
    /// Those of the encoder and of the output.
    pub(super) fn take(&mut self, batch: RowBatch) -> Result<()> {
        self.n_rows += batch.n_rows() as u64;
        let batch = self.encoder.encode(Box::new(batch))?;
        self.sink()?.write(&batch)
    }

    /// The writer of the file, which is started at the first call.
    fn sink(&mut self) -> Result<&mut Sink<W>> {
        if let Some(out) = self.out.take() {
            self.sink = Some(Sink::new(self.form, self.encoder.schema(), self.packing, out)?);
        }
        let gone = || Error::new(ErrorKind::Internal, "an output that could not begin is written to");
        self.sink.as_mut().ok_or_else(gone)
    }

    /// Completes the file and returns the output; `None` if nothing was written.
    ///
    /// # Errors
    /// Those of the output.
    pub(super) fn finish(self) -> Result<Option<W>> {
        self.sink.map(Sink::finish).transpose()
    }
}

/// A file in a folder that is created when its first byte is written.
pub(super) struct Late<'a> {
    pub(super) folder: &'a Folder,
    pub(super) path: &'a Path,
    pub(super) file: Option<OutputFile>,
}

impl Write for Late<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.file.is_none() {
            let made = self.folder.create(self.path);
            self.file = Some(made.map_err(|error| std::io::Error::other(error.to_string()))?);
        }
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}
