//! Row groups of a file of Parquet.

use super::guard::guarded;
use super::input::{Chunks, Input};
use super::thrift::{check_footer, page_head};
use super::{Batches, Flaw, Group, Loses, PARQUET_MAGIC, limits, place};
use crate::fault::of_parquet;
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::statistics::Statistics;
use quipu_model::{Error, ErrorKind, Result};
use std::io::Read;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Bytes after the footer: its length, and the mark.
const TAIL_BYTES: u64 = 8;
/// Bytes that are unpacked at a time to see how many there are.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes that are tried for the head of a page, one after the other.
const HEAD_STEPS: [usize; 3] = [512, 64 << 10, limits::PAGE_HEAD_BYTES];

/// What stands in the place of the mark where the footer is encrypted.
const ENCRYPTED_MAGIC: &[u8] = b"PARE";

/// The footer of a file.
#[derive(Clone, Debug)]
pub(super) struct Footer {
    metadata: ArrowReaderMetadata,
}

impl Footer {
    /// Reads it from the end of a file. It is all that reading needs: marks that are damaged cost nothing.
    ///
    /// # Errors
    /// `Malformed`, `Truncated`, `Damaged` or `Limit` if there is none; `Unsupported` if it is encrypted.
    pub(super) fn of(input: &Arc<Input>) -> Result<(Footer, Vec<Flaw>)> {
        let size = input.size();
        let Some(at) = size.checked_sub(TAIL_BYTES).filter(|at| *at >= PARQUET_MAGIC.len() as u64) else {
            return Err(Error::truncated("the file has no footer").at(&place(size)));
        };
        let tail = input.read_some(at, TAIL_BYTES as usize)?;
        let (length, mark) = tail.split_at(4);
        if mark == ENCRYPTED_MAGIC {
            return Err(Error::unsupported("the footer is encrypted"));
        }
        let length = u64::from(u32::from_le_bytes(length.try_into().unwrap_or_default()));
        let footer = Footer::before(input, at, length);
        if mark == PARQUET_MAGIC {
            let mut flaws = Vec::new();
            if input.read_some(0, PARQUET_MAGIC.len())? != PARQUET_MAGIC {
                let error = Error::malformed("the file does not begin with the mark of Parquet");
                flaws.push(Flaw::new(error.at(&place(0)), Loses::Nothing, 0));
            }
            return Ok((footer?, flaws));
        }
        match footer {
            Ok(footer) => {
                let error = Error::malformed("the file does not end with the mark of Parquet");
                Ok((footer, vec![Flaw::new(error.at(&place(at + 4)), Loses::Nothing, 0)]))
            }
            Err(error) if error.kind() == ErrorKind::Io => Err(error),
            Err(_) => {
                let what = "the file has no footer at its end, without which no row can be found";
                Err(Error::truncated(what).at(&place(size)))
            }
        }
    }

    /// The footer of this length that ends at a place.
    fn before(input: &Arc<Input>, at: u64, length: u64) -> Result<Footer> {
        let Some(start) = at.checked_sub(length) else {
            return Err(Error::malformed("the footer is longer than the file").at(&place(at)));
        };
        if length > limits::FOOTER_BYTES {
            return Err(Error::limit("bytes in a footer", length, limits::FOOTER_BYTES).at(&place(at)));
        }
        let footer = input.read_some(start, length as usize)?;
        check_footer(&footer).map_err(|error| error.at(&place(start)))?;
        let metadata = guarded(|| {
            let metadata = ParquetMetaDataReader::decode_metadata(&footer).map_err(of_parquet)?;
            let metadata = Arc::new(metadata);
            let options = || ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Skip);
            let read = ArrowReaderMetadata::try_new(metadata.clone(), options()).map_err(of_parquet)?;
            // What other programs say of their dictionaries is more than the library unpacks; the texts are there without it.
            if read.schema().fields().iter().any(|field| is_odd_dictionary(field.data_type())) {
                let plain = options().with_skip_arrow_metadata(true);
                return ArrowReaderMetadata::try_new(metadata, plain).map_err(of_parquet);
            }
            Ok(read)
        });
        let footer = Footer { metadata: metadata.map_err(|error| error.at(&place(start)))? };
        footer.check_sizes(input.size()).map_err(|error| error.at(&place(start)))?;
        Ok(footer)
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    fn file(&self) -> &Arc<ParquetMetaData> {
        self.metadata.metadata()
    }

    /// Makes sure that no group has a number below 0 or lies outside of the file.
    fn check_sizes(&self, size: u64) -> Result<()> {
        for group in self.file().row_groups() {
            let is_below = group.num_rows() < 0;
            let is_outside = |column: &ColumnChunkMetaData| {
                let (start, n) = (first_page(column), column.compressed_size());
                let end =
                    u64::try_from(start).ok().and_then(|start| start.checked_add(u64::try_from(n).ok()?));
                column.num_values() < 0 || end.is_none_or(|end| end > size)
            };
            if is_below || group.columns().iter().any(is_outside) {
                return Err(Error::malformed("the footer places a row group outside of the file"));
            }
        }
        Ok(())
    }

    pub(super) fn groups(&self) -> Vec<Group> {
        let mut first_row = 0_u64;
        let group = |group: &parquet::file::metadata::RowGroupMetaData| {
            // None of these numbers is below 0: `check_sizes`.
            let (n_rows, n_bytes) = (group.num_rows() as u64, group.compressed_size().max(0) as u64);
            let offset = group.columns().iter().map(first_page).min().unwrap_or(0) as u64;
            let before = first_row;
            first_row = first_row.saturating_add(n_rows);
            Group { first_row: before, n_rows, offset, n_bytes }
        };
        self.file().row_groups().iter().map(group).collect()
    }

    /// The leaves of a column of the schema.
    fn leaves(&self, root: usize) -> impl Iterator<Item = usize> + '_ {
        let columns = self.metadata.parquet_schema();
        (0..columns.num_columns()).filter(move |leaf| columns.get_column_root_idx(*leaf) == root)
    }

    /// What the statistics of a group say of a column of whole numbers.
    pub(super) fn range(&self, group: usize, root: usize) -> Option<RangeInclusive<u64>> {
        let leaf = self.leaves(root).next()?;
        match self.file().row_groups().get(group)?.columns().get(leaf)?.statistics()? {
            // Unsigned numbers are compared as such, so that their bits are in order.
            Statistics::Int64(of) => Some(*of.min_opt()? as u64..=*of.max_opt()? as u64),
            Statistics::Int32(of) => {
                Some(u64::from(*of.min_opt()? as u32)..=u64::from(*of.max_opt()? as u32))
            }
            _ => None,
        }
    }

    /// Begins to read columns of a group.
    pub(super) fn read(&self, input: &Arc<Input>, group: usize, roots: &[usize]) -> Result<Batches> {
        let columns = self.metadata.parquet_schema();
        let row_group = self.file().row_group(group);
        let (mut largest, mut texts) = (0_u64, 0_u64);
        for leaf in roots.iter().flat_map(|root| self.leaves(*root)) {
            let chunk = row_group.column(leaf);
            let is_list = columns.column(leaf).max_rep_level() > 0;
            let n_values = chunk.num_values().max(0) as u64;
            if is_list && n_values > limits::LIST_VALUES {
                return Err(Error::limit("values of a column of lists", n_values, limits::LIST_VALUES));
            }
            let pages = pages(input, chunk)?;
            largest = largest.saturating_add(pages.largest);
            if chunk.column_type() == parquet::basic::Type::BYTE_ARRAY {
                texts = texts.max(pages.dictionary);
            }
        }
        if largest > limits::PAGES_BYTES {
            return Err(Error::limit("bytes of pages", largest, limits::PAGES_BYTES));
        }
        // Each row may be the longest entry of the dictionary.
        let n_rows = (limits::TEXT_BYTES / texts.max(1)).clamp(64, limits::BATCH_ROWS as u64);
        guarded(|| {
            let mask = ProjectionMask::roots(columns, roots.iter().copied());
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(
                Chunks(input.clone()),
                self.metadata.clone(),
            )
            .with_row_groups(vec![group])
            .with_projection(mask)
            .with_batch_size(n_rows as usize)
            .build()
            .map_err(of_parquet)?;
            Ok(Box::new(reader.map(|batch| batch.map_err(crate::of_arrow))) as Batches)
        })
    }
}

/// True for dictionaries of other values than plain texts, at any depth.
fn is_odd_dictionary(ty: &DataType) -> bool {
    match ty {
        DataType::Dictionary(_, entries) => !matches!(**entries, DataType::Utf8 | DataType::Binary),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_odd_dictionary(item.data_type())
        }
        DataType::Struct(members) => members.iter().any(|member| is_odd_dictionary(member.data_type())),
        _ => false,
    }
}

/// Where the first page of a column stands.
fn first_page(column: &ColumnChunkMetaData) -> i64 {
    match column.dictionary_page_offset() {
        Some(at) if at > 0 => at.min(column.data_page_offset()),
        _ => column.data_page_offset(),
    }
}

/// True for codecs that the library lets unpack as much as there is, whatever the head of a page says.
fn is_endless(codec: Compression) -> bool {
    matches!(codec, Compression::GZIP(_) | Compression::BROTLI(_) | Compression::LZ4)
}

/// Makes sure that the body of a page has no more than as many bytes in it as its head says. What is damaged is found by the
/// library.
///
/// # Errors
/// `Malformed` if it has more.
fn check_end(codec: Compression, body: &[u8], most: u64) -> Result<()> {
    let mut unpacked: Box<dyn Read + '_> = match codec {
        Compression::GZIP(_) => Box::new(flate2::read::MultiGzDecoder::new(body)),
        Compression::BROTLI(_) => Box::new(brotli_decompressor::Decompressor::new(body, BUFFER_BYTES)),
        // Blocks, or, of old programs, frames; blocks end where they are to.
        _ => Box::new(lz4_flex::frame::FrameDecoder::new(body)),
    };
    let (mut buffer, mut n) = (vec![0; BUFFER_BYTES], 0);
    while let Ok(more @ 1..) =
        guarded(|| unpacked.read(&mut buffer).map_err(|error| Error::malformed(error.to_string())))
    {
        n += more as u64;
        if n > most {
            return Err(Error::malformed("a page has more in it than its head says"));
        }
    }
    Ok(())
}

/// What pages of a column come to.
#[derive(Default)]
struct Pages {
    /// Bytes of the largest.
    largest: u64,
    /// Bytes of the dictionary.
    dictionary: u64,
}

/// Looks at the heads of all pages of a column.
fn pages(input: &Input, chunk: &ColumnChunkMetaData) -> Result<Pages> {
    let (start, len) = chunk.byte_range();
    let (mut at, end) = (start, start.saturating_add(len));
    let mut pages = Pages::default();
    while at < end {
        let place = place(at);
        let mut head = None;
        for step in HEAD_STEPS {
            let most = step.min(usize::try_from(end - at).unwrap_or(usize::MAX));
            let bytes = input.read_some(at, most)?;
            head = page_head(&bytes).map_err(|error| error.at(&place))?;
            if head.is_some() || most < step {
                break;
            }
        }
        let Some(head) = head else {
            return Err(Error::malformed("the head of a page does not end").at(&place));
        };
        let (Ok(unpacked), Ok(packed)) = (u64::try_from(head.unpacked), u64::try_from(head.packed)) else {
            return Err(Error::malformed("a page has fewer bytes than none").at(&place));
        };
        if unpacked > limits::PAGE_BYTES {
            return Err(Error::limit("bytes of a page", unpacked, limits::PAGE_BYTES).at(&place));
        }
        if packed > end - at {
            return Err(Error::truncated("a page ends after its column").at(&place));
        }
        let codec = chunk.compression();
        if is_endless(codec) {
            // It is read whole; one that is larger than what is in it is none that a program writes.
            if packed > 2 * limits::PAGE_BYTES {
                return Err(Error::limit("bytes of a packed page", packed, 2 * limits::PAGE_BYTES).at(&place));
            }
            let body = input.read_some(at + head.len as u64, packed as usize)?;
            let bare = usize::try_from(head.bare).unwrap_or(usize::MAX);
            let body = body.get(bare..).unwrap_or_default();
            check_end(codec, body, unpacked).map_err(|error| error.at(&place))?;
        }
        pages.largest = pages.largest.max(unpacked);
        if head.is_dictionary {
            pages.dictionary = unpacked;
        }
        at += head.len as u64 + packed;
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn pages_with_more_in_them_than_they_say_are_refused() {
        let zeros = vec![0; 1 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&zeros).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
        frame.write_all(&zeros).unwrap();
        let frame = frame.finish().unwrap();
        for (codec, body) in [(Compression::GZIP(Default::default()), gzip), (Compression::LZ4, frame)] {
            assert!(is_endless(codec) && body.len() < 100_000);
            check_end(codec, &body, 1 << 20).unwrap();
            let refused = check_end(codec, &body, (1 << 20) - 1).unwrap_err();
            assert!(refused.to_string().contains("more in it than its head says"), "{refused}");
            // What is cut or no such body is for the library to say.
            check_end(codec, &body[..100], 1 << 20).unwrap();
            check_end(codec, b"nonsense", 0).unwrap();
        }
    }
}
