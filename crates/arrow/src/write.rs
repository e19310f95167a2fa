//! Files and streams of record batches.

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

/// Rows of a group of a Parquet file. Readers jump over whole groups, and over pages within them.
const GROUP_ROWS: usize = 1 << 20;
/// Bytes of rows that wait for their group to be full, about, of a file that is written alone.
const GROUP_BYTES: usize = 128 << 20;
/// Rows of a page: what a query for a small range has to unpack.
const PAGE_ROWS: usize = 1 << 14;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A file of Arrow, which is read at any place.
    File,
    /// A stream of Arrow, which goes through pipes.
    Stream,
    /// A file of Parquet.
    Parquet,
}

/// How it is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Level of zstd; 0 for none.
    pub level: i32,
    /// Bytes of rows of Parquet that wait for their group to be full, about.
    pub group_bytes: usize,
}

impl Default for Packing {
    fn default() -> Packing {
        Packing { level: 1, group_bytes: GROUP_BYTES }
    }
}

/// Where record batches of one schema go.
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
    /// Begins to write.
    ///
    /// # Errors
    /// What `out` says.
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
    /// What the output says; `Damaged` if the names of a file's column changed in a way that it cannot hold.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.0 {
            Inner::File(writer) => writer.write(batch).map_err(of_arrow),
            Inner::Stream(writer) => writer.write(batch).map_err(of_arrow),
            Inner::Parquet(writer) => writer.write(batch),
        }
    }

    /// Notes something about all of the file at its end; a stream of Arrow has no room for it.
    pub fn note(&mut self, key: &str, value: &str) {
        match &mut self.0 {
            Inner::File(writer) => writer.write_metadata(key, value),
            Inner::Stream(_) => {}
            Inner::Parquet(writer) => writer.note(key, value),
        }
    }

    /// Hands on to the output what is complete.
    ///
    /// # Errors
    /// What the output says.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.0 {
            Inner::File(writer) => writer.flush().map_err(of_arrow),
            Inner::Stream(writer) => writer.flush().map_err(of_arrow),
            Inner::Parquet(_) => Ok(()),
        }
    }

    /// Writes the end, and gives the output back.
    ///
    /// # Errors
    /// What the output says.
    pub fn finish(self) -> Result<W> {
        match self.0 {
            Inner::File(writer) => writer.into_inner().map_err(of_arrow),
            Inner::Stream(writer) => writer.into_inner().map_err(of_arrow),
            Inner::Parquet(writer) => writer.finish(),
        }
    }
}

/// How columns of Parquet are written: addresses, counters and clocks as differences, all else by dictionaries where those help.
fn properties(schema: &SchemaRef, packing: Packing) -> Result<WriterProperties> {
    let compression = match packing.level {
        0 => Compression::UNCOMPRESSED,
        level => Compression::ZSTD(ZstdLevel::try_new(level).map_err(of_parquet)?),
    };
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("quipu ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(compression)
        .set_statistics_enabled(EnabledStatistics::Page)
        // The index of pages has no checksum: what it says is compared with their heads.
        .set_write_page_header_statistics(true)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        // Limits are looked at after each part of this many rows.
        .set_write_batch_size(1024);
    let columns = table_schema(schema, "").map(|schema| schema.fields).unwrap_or_default();
    for (field, column) in schema.fields().iter().zip(&columns) {
        let is_wide = matches!(field.data_type(), DataType::UInt64 | DataType::Int64);
        let is_near = matches!(column.ty, Type::Address | Type::Time { .. } | Type::U64 | Type::I64);
        // The same thread for a long while is nothing to a dictionary.
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
