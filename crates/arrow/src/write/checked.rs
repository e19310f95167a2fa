//! Parquet files with page checksums, which the library verifies but does not write.
//!
//! Each row group is written to memory first; its pages are then copied to the file, with the CRC-32 of the body added to each
//! header.

use crate::fault::of_parquet;
use crate::read::page_at;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use flate2::Crc;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter, add_encoded_arrow_schema_to_metadata};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{
    ColumnChunkMetaData, KeyValue, PageIndexPolicy, ParquetMetaDataOptions, ParquetMetaDataReader,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use quipu_model::{Error, ErrorKind, Result};
use std::io::Write;
use std::sync::Arc;

/// Field header of a 32-bit integer whose field number is one more than the previous one.
const NEXT_I32: u8 = 0x15;

/// Writer of a Parquet file with page checksums.
pub(super) struct CheckedWriter<W: Write + Send> {
    schema: SchemaRef,
    properties: WriterProperties,
    file: SerializedFileWriter<W>,
    /// The current row group.
    group: ArrowWriter<Vec<u8>>,
    group_rows: usize,
    group_bytes: usize,
}

impl<W: Write + Send> CheckedWriter<W> {
    /// Creates a writer whose row groups have at most this many rows and approximately this many bytes.
    ///
    /// # Errors
    /// Errors of `out`.
    pub(super) fn new(
        out: W,
        schema: &SchemaRef,
        properties: WriterProperties,
        (group_rows, group_bytes): (usize, usize),
    ) -> Result<CheckedWriter<W>> {
        let columns = ArrowSchemaConverter::new().convert(schema).map_err(of_parquet)?;
        let mut of_file = properties.clone();
        add_encoded_arrow_schema_to_metadata(schema, &mut of_file);
        let file = SerializedFileWriter::new(out, columns.root_schema_ptr(), Arc::new(of_file));
        Ok(CheckedWriter {
            schema: schema.clone(),
            file: file.map_err(of_parquet)?,
            group: group(schema, &properties)?,
            properties,
            group_rows,
            group_bytes,
        })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// Errors of the output.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut at = 0;
        while at < batch.num_rows() {
            let n = (self.group_rows - self.group.in_progress_rows()).min(batch.num_rows() - at);
            self.group.write(&batch.slice(at, n)).map_err(of_parquet)?;
            at += n;
            let is_full = self.group.in_progress_rows() >= self.group_rows
                || !self.group.flushed_row_groups().is_empty();
            if is_full || self.group.in_progress_size() > self.group_bytes {
                self.end_group()?;
            }
        }
        Ok(())
    }

    /// Adds metadata of the whole file.
    pub(super) fn note(&mut self, key: &str, value: &str) {
        self.file.append_key_value_metadata(KeyValue::new(key.to_owned(), value.to_owned()));
    }

    /// Writes the end and returns the output.
    ///
    /// # Errors
    /// Errors of the output.
    pub(super) fn finish(mut self) -> Result<W> {
        self.end_group()?;
        self.file.into_inner().map_err(of_parquet)
    }

    fn end_group(&mut self) -> Result<()> {
        let next = group(&self.schema, &self.properties)?;
        let done = std::mem::replace(&mut self.group, next);
        let bytes = Bytes::from(done.into_inner().map_err(of_parquet)?);
        let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
        let metadata = ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Optional)
            .with_metadata_options(Some(options))
            .parse_and_finish(&bytes)
            .map_err(of_parquet)?;
        for (nth, group) in metadata.row_groups().iter().enumerate() {
            let mut out = self.file.next_row_group().map_err(of_parquet)?;
            for (column, chunk) in group.columns().iter().enumerate() {
                let column_index = metadata.column_index().and_then(|all| all.get(nth)?.get(column));
                let offset_index = metadata.offset_index().and_then(|all| all.get(nth)?.get(column));
                let pages = Pages::of(&bytes, chunk)?;
                let mut offset_index = offset_index.cloned();
                for location in offset_index.iter_mut().flat_map(|index| &mut index.page_locations) {
                    let (at, len) = pages.place(location.offset)?;
                    (location.offset, location.compressed_page_size) = (at, len);
                }
                let dictionary = chunk.dictionary_page_offset();
                let dictionary = dictionary.map(|at| pages.place(at)).transpose()?.map(|(at, _)| at);
                let metadata = chunk
                    .clone()
                    .into_builder()
                    .set_data_page_offset(pages.place(chunk.data_page_offset())?.0)
                    .set_dictionary_page_offset(dictionary)
                    .set_total_compressed_size(pages.bytes.len() as i64)
                    .set_total_uncompressed_size(chunk.uncompressed_size() + pages.n_added)
                    .build()
                    .map_err(of_parquet)?;
                let close = ColumnCloseResult {
                    bytes_written: pages.bytes.len() as u64,
                    rows_written: group.num_rows() as u64,
                    metadata,
                    bloom_filter: None,
                    column_index: column_index.cloned(),
                    offset_index,
                };
                out.append_column(&Bytes::from(pages.bytes), close).map_err(of_parquet)?;
            }
            out.close().map_err(of_parquet)?;
        }
        Ok(())
    }
}

/// Creates a writer in memory for one row group.
fn group(schema: &SchemaRef, properties: &WriterProperties) -> Result<ArrowWriter<Vec<u8>>> {
    ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties.clone())).map_err(of_parquet)
}

/// The pages of a column with their checksums.
struct Pages {
    bytes: Vec<u8>,
    /// Number of bytes added to headers.
    n_added: i64,
    /// For each page: its offset in the file as read, its offset in `bytes`, and its length with the header.
    places: Vec<(i64, i64, i32)>,
}

impl Pages {
    fn of(file: &Bytes, chunk: &ColumnChunkMetaData) -> Result<Pages> {
        let (start, len) = chunk.byte_range();
        let (mut at, end) = (start as usize, (start + len) as usize);
        let mut pages = Pages { bytes: Vec::with_capacity(end - at), n_added: 0, places: Vec::new() };
        while at < end {
            let column = &file[at..end];
            let page = page_at(column)?.and_then(|(head, packed)| {
                let (head, rest) = column.split_at_checked(head)?;
                Some((head, rest.get(..packed)?))
            });
            let (head, body) = page.ok_or_else(|| internal("a page that was written has no end"))?;
            let before = pages.bytes.len();
            with_checksum(head, body, &mut pages.bytes)?;
            pages.n_added += (pages.bytes.len() - before - head.len()) as i64;
            pages.bytes.extend_from_slice(body);
            let len = i32::try_from(pages.bytes.len() - before);
            let len = len.map_err(|_| internal("a page is too long"))?;
            pages.places.push((at as i64, before as i64, len));
            at += head.len() + body.len();
        }
        Ok(pages)
    }

    fn place(&self, at: i64) -> Result<(i64, i32)> {
        let found = self.places.binary_search_by_key(&at, |(at, ..)| *at);
        let (_, place, len) =
            found.map(|nth| self.places[nth]).map_err(|_| internal("a page is not there"))?;
        Ok((place, len))
    }
}

fn internal(what: &str) -> Error {
    Error::new(ErrorKind::Internal, what)
}

/// Appends a page header with the checksum of its body as field 4.
///
/// # Errors
/// `Internal` if the header is not of the form that the library writes: fields 1 to 3, then one with a number above 4.
fn with_checksum(head: &[u8], body: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut at = 0;
    for _ in 0..3 {
        if head.get(at) != Some(&NEXT_I32) {
            return Err(internal("the head of a page begins with other fields"));
        }
        at += 1;
        while head.get(at).is_some_and(|byte| byte & 0x80 != 0) {
            at += 1;
        }
        at += 1;
    }
    let next = head.get(at).copied().filter(|next| next >> 4 > 1);
    let next = next.ok_or_else(|| internal("the head of a page has a checksum already"))?;
    out.extend_from_slice(&head[..at]);
    out.push(NEXT_I32);
    let mut crc = Crc::new();
    crc.update(body);
    let sum = crc.sum() as i32;
    let mut folded = (sum << 1 ^ sum >> 31) as u32;
    while folded >= 0x80 {
        out.push(folded as u8 | 0x80);
        folded >>= 7;
    }
    out.push(folded as u8);
    // The number of the next field is now relative to 4, not 3.
    out.push(next - 0x10);
    out.extend_from_slice(&head[at + 1..]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Packing, properties};
    use super::*;
    use crate::read::{Choice, RowFile};
    use crate::write::Form;
    use arrow_array::{ArrayRef, StringArray, UInt64Array};
    use arrow_schema::{DataType, Field, Schema};
    use quipu_model::ErrorKind;
    use quipu_source::Source;
    use std::ops::Range;

    const N: u64 = 600;
    const GROUP: usize = 250;

    /// Rows with addresses, which are stored as differences, and names, which have a dictionary.
    fn written() -> Vec<u8> {
        let fields =
            vec![Field::new("addr", DataType::UInt64, false), Field::new("note", DataType::Utf8, true)];
        let schema = Arc::new(Schema::new(fields));
        let most = (GROUP, usize::MAX);
        let packed = properties(&schema, Packing::default()).unwrap();
        let mut writer = CheckedWriter::new(Vec::new(), &schema, packed, most).unwrap();
        for start in (0..N).step_by(70) {
            let all = start..N.min(start + 70);
            let addresses = UInt64Array::from_iter_values(all.clone().map(|n| n.wrapping_mul(0x9E37_79B9)));
            let notes: StringArray = all.map(|n| (n % 7 > 0).then(|| format!("note {}", n % 11))).collect();
            let columns: Vec<ArrayRef> = vec![Arc::new(addresses), Arc::new(notes)];
            writer.write(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
        }
        writer.note("key", "value");
        writer.finish().unwrap()
    }

    /// Rows of each group of a file, as text.
    fn read(bytes: &[u8]) -> Vec<Result<String>> {
        let source = Source::from_bytes("t.parquet", bytes.to_vec());
        let file = RowFile::open(&source.container().unwrap(), Form::Parquet, "t").unwrap();
        let group = |group| {
            let mut rows = file.read(group, &[0, 1], &Choice::default())?;
            let mut text = String::new();
            while let Some(rows) = rows.next_rows()? {
                text += &format!("{:?}", rows.columns);
            }
            Ok(text)
        };
        (0..file.groups().len()).map(group).collect()
    }

    /// Groups and byte ranges of all page bodies.
    fn bodies(bytes: &[u8]) -> Vec<(usize, Range<usize>)> {
        let bytes = Bytes::copy_from_slice(bytes);
        let metadata = ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Required)
            .parse_and_finish(&bytes)
            .unwrap();
        let (mut all, mut n_located) = (Vec::new(), 0);
        for (nth, group) in metadata.row_groups().iter().enumerate() {
            for (column, chunk) in group.columns().iter().enumerate() {
                let (start, len) = chunk.byte_range();
                let (mut at, end) = (start as usize, (start + len) as usize);
                let mut starts = Vec::new();
                while at < end {
                    let (head, packed) = page_at(&bytes[at..end]).unwrap().unwrap();
                    starts.push((at as i64, (head + packed) as i32));
                    all.push((nth, at + head..at + head + packed));
                    at += head + packed;
                }
                assert_eq!(at, end);
                // The page index has the new offsets.
                for location in &metadata.offset_index().unwrap()[nth][column].page_locations {
                    assert!(starts.contains(&(location.offset, location.compressed_page_size)));
                    n_located += 1;
                }
            }
        }
        assert!(n_located >= 6 && metadata.column_index().is_some());
        all
    }

    #[test]
    fn each_changed_byte_of_a_page_is_damage_of_its_group() {
        let whole = written();
        let wanted: Vec<String> = read(&whole).into_iter().map(Result::unwrap).collect();
        assert_eq!(wanted.len(), (N as usize).div_ceil(GROUP));
        let bodies = bodies(&whole);
        assert!(bodies.len() >= 9, "{} pages", bodies.len());
        for (group, body) in bodies {
            for at in body {
                let mut changed = whole.clone();
                changed[at] ^= 1 << (at % 8);
                for (nth, read) in read(&changed).into_iter().enumerate() {
                    match read {
                        Ok(text) => assert!(nth != group && text == wanted[nth], "offset {at}: group {nth}"),
                        Err(error) => {
                            assert!(
                                nth == group && error.kind() == ErrorKind::Damaged,
                                "offset {at}: {error}"
                            );
                            assert!(error.place().offset.is_some());
                        }
                    }
                }
            }
        }
    }
}
