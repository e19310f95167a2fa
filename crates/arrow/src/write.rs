//! Writing of record batches to Arrow and Parquet.

mod checked;

use crate::fault::{of_arrow, of_parquet};
use crate::schema::table_schema;
use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, SchemaRef};
use checked::CheckedWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use quipu_model::Result;
use quipu_model::schema::{Role, Type};
use std::fmt;
use std::io::Write;

/// Maximum rows of a Parquet row group. Readers can skip whole groups, and pages within them.
const GROUP_ROWS: usize = 1 << 20;
/// Approximate limit on the bytes buffered for a row group, for a file that is written alone.
const GROUP_BYTES: usize = 128 << 20;
/// Rows of a page, the least that a query for a small range must decompress.
const PAGE_ROWS: usize = 1 << 14;

/// The kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An Arrow file, which allows random access.
    File,
    /// An Arrow stream, which can go through a pipe.
    Stream,
    /// A Parquet file.
    Parquet,
}

/// Compression and buffering of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Compression level of zstd; 0 for no compression.
    pub level: i32,
    /// Approximate limit on the bytes buffered for a Parquet row group.
    pub group_bytes: usize,
}

impl Default for Packing {
    fn default() -> Packing {
        Packing { level: 1, group_bytes: GROUP_BYTES }
    }
}

/// Writer for record batches of one schema.
pub struct Sink<W: Write + Send>(Inner<W>);

enum Inner<W: Write + Send> {
    File(Box<FileWriter<W>>),
    Stream(Box<StreamWriter<W>>),
    Parquet(Box<CheckedWriter<W>>),
}

impl<W: Write + Send> fmt::Debug for Sink<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match &self.0 {
            Inner::File(_) => Form::File,
            Inner::Stream(_) => Form::Stream,
            Inner::Parquet(_) => Form::Parquet,
        };
        f.debug_tuple("Sink").field(&form).finish()
    }
}

impl<W: Write + Send> Sink<W> {
    /// Creates a writer to `out`.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(form: Form, schema: &SchemaRef, packing: Packing, out: W) -> Result<Sink<W>> {
        let options = || {
            let packed = (packing.level > 0).then_some(CompressionType::ZSTD);
            IpcWriteOptions::default()
                .with_dictionary_handling(DictionaryHandling::Delta)
                .try_with_compression(packed)
                .map_err(of_arrow)
        };
        Ok(Sink(match form {
            Form::File => {
                let writer = FileWriter::try_new_with_options(out, schema, options()?);
                Inner::File(Box::new(writer.map_err(of_arrow)?))
            }
            Form::Stream => {
                let writer = StreamWriter::try_new_with_options(out, schema, options()?);
                Inner::Stream(Box::new(writer.map_err(of_arrow)?))
            }
            Form::Parquet => {
                let most = (GROUP_ROWS, packing.group_bytes);
                Inner::Parquet(Box::new(CheckedWriter::new(out, schema, properties(schema, packing)?, most)?))
            }
        }))
    }

    /// Appends rows.
    ///
    /// # Errors
    /// Errors of the output; `Damaged` if the names of a column changed in a way that an Arrow file cannot hold.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.0 {
            Inner::File(writer) => writer.write(batch).map_err(of_arrow),
            Inner::Stream(writer) => writer.write(batch).map_err(of_arrow),
            Inner::Parquet(writer) => writer.write(batch),
        }
    }

    /// Adds metadata at the end of the file; ignored for an Arrow stream, which has no place for it.
    pub fn note(&mut self, key: &str, value: &str) {
        match &mut self.0 {
            Inner::File(writer) => writer.write_metadata(key, value),
            Inner::Stream(_) => {}
            Inner::Parquet(writer) => writer.note(key, value),
        }
    }

    /// Flushes all complete data to the output.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.0 {
            Inner::File(writer) => writer.flush().map_err(of_arrow),
            Inner::Stream(writer) => writer.flush().map_err(of_arrow),
            Inner::Parquet(_) => Ok(()),
        }
    }

    /// Writes the end and returns the output.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn finish(self) -> Result<W> {
        match self.0 {
            Inner::File(writer) => writer.into_inner().map_err(of_arrow),
            Inner::Stream(writer) => writer.into_inner().map_err(of_arrow),
            Inner::Parquet(writer) => writer.finish(),
        }
    }
}

/// Properties of Parquet columns: addresses, counters and clocks are delta-encoded, all others use dictionaries where those
/// help.
fn properties(schema: &SchemaRef, packing: Packing) -> Result<WriterProperties> {
    let compression = match packing.level {
        0 => Compression::UNCOMPRESSED,
        level => Compression::ZSTD(ZstdLevel::try_new(level).map_err(of_parquet)?),
    };
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("quipu ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(compression)
        .set_statistics_enabled(EnabledStatistics::Page)
        // The page index has no checksum: readers compare it with the page headers.
        .set_write_page_header_statistics(true)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        // The writer checks its limits after this many rows.
        .set_write_batch_size(1024);
    let columns = table_schema(schema, "").map(|schema| schema.fields).unwrap_or_default();
    for (field, column) in schema.fields().iter().zip(&columns) {
        let is_wide = matches!(field.data_type(), DataType::UInt64 | DataType::Int64);
        let is_near = matches!(column.ty, Type::Address | Type::Time { .. } | Type::U64 | Type::I64);
        // Long runs of one thread cost almost nothing with a dictionary.
        let is_few = matches!(column.role, Some(Role::THREAD | Role::PROCESS | Role::CPU));
        if is_wide && is_near && !is_few {
            let path = ColumnPath::from(field.name().as_str());
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}
