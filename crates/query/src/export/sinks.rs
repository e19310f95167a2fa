//! Files of tables that are written side by side.

use quipu_arrow::{Encoder, Form, Packing, Sink};
use quipu_engine::RowBatch;
use quipu_model::fresh::Folder;
use quipu_model::{Error, ErrorKind, Result, Table};
use quipu_source::OutputFile;
use std::io::Write;
use std::path::Path;

/// Approximate limit on the bytes of rows, over all tables, that wait until their row groups are full.
const WAITING_BYTES: usize = 256 << 20;
/// The share of that limit that each table has at least.
const LEAST_BYTES: usize = 8 << 20;
/// Number of batches that wait for each thread that packs them.
pub(super) const WAITING_BATCHES: usize = 4;

/// How files of this many tables are packed together. Where a group ends depends on its own rows only, so that the bytes are the
/// same whatever the threads.
pub(super) fn packing_of(packing: Packing, n_tables: usize) -> Packing {
    let share = (WAITING_BYTES / n_tables.max(1)).max(LEAST_BYTES);
    Packing { group_bytes: packing.group_bytes.min(share), ..packing }
}

/// Rows on their way into a file.
pub(super) struct Sinking<W: Write + Send> {
    encoder: Encoder,
    form: Form,
    packing: Packing,
    sink: Option<Sink<W>>,
    /// Where they go, as long as nothing is written.
    out: Option<W>,
    pub(super) n_rows: u64,
}

impl<W: Write + Send> Sinking<W> {
    /// Nothing is written of no rows, but for a single file.
    ///
    /// # Errors
    /// What the output says.
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
    /// What the output says.
    pub(super) fn take(&mut self, batch: RowBatch) -> Result<()> {
        self.n_rows += batch.n_rows() as u64;
        let batch = self.encoder.encode(Box::new(batch))?;
        self.sink()?.write(&batch)
    }

    /// The file, which begins with the first rows.
    fn sink(&mut self) -> Result<&mut Sink<W>> {
        if let Some(out) = self.out.take() {
            self.sink = Some(Sink::new(self.form, self.encoder.schema(), self.packing, out)?);
        }
        let gone = || Error::new(ErrorKind::Internal, "an output that could not begin is written to");
        self.sink.as_mut().ok_or_else(gone)
    }

    /// Writes the end, and gives the output back; nothing if there is none.
    ///
    /// # Errors
    /// What the output says.
    pub(super) fn finish(self) -> Result<Option<W>> {
        self.sink.map(Sink::finish).transpose()
    }
}

/// A file of a folder that is made with the first byte.
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
