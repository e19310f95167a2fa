//! Row groups of a Parquet file.

use super::guard::guarded;
use super::index::{Bounds, DataPage, Numbers, bounds};
use super::input::{Chunks, Input};
use super::thrift::{check_footer, page_head};
use super::{Batches, Choice, Flaw, Group, Loses, PARQUET_MAGIC, limits, place};
use crate::fault::of_parquet;
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelectionPolicy,
};
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use quipu_model::{Error, ErrorKind, Result};
use std::io::Read;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Bytes after the footer: its length and the magic bytes.
const TAIL_BYTES: u64 = 8;
/// Buffer size for decompressing a page only to count its bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// Numbers of bytes to try for a page header, in this order.
const HEAD_STEPS: [usize; 3] = [512, 64 << 10, limits::PAGE_HEAD_BYTES];

/// Magic bytes of a file with an encrypted footer.
const ENCRYPTED_MAGIC: &[u8] = b"PARE";

/// The footer of a file.
#[derive(Clone, Debug)]
pub(super) struct Footer {
    metadata: ArrowReaderMetadata,
}

impl Footer {
    /// Reads the footer at the end of a file. Reading needs nothing else, so damaged magic bytes are no obstacle.
    ///
    /// # Errors
    /// `Malformed`, `Truncated`, `Damaged` or `Limit` if there is no readable footer; `Unsupported` if it is encrypted.
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

    /// Reads the footer of this length that ends at an offset.
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
            // Other programs declare dictionaries that the library cannot decode; without the declaration it reads the plain
            // values.
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

    /// Checks that the sizes and offsets of groups are not negative and lie within the file.
    fn check_sizes(&self, size: u64) -> Result<()> {
        for group in self.file().row_groups() {
            let is_below = group.num_rows() < 0;
            let is_outside = |column: &ColumnChunkMetaData| {
                let (start, n) = (first_page(column), column.compressed_size());
                let end =
                    u64::try_from(start).ok().and_then(|start| start.checked_add(u64::try_from(n).ok()?));
                // The library takes the offset of a dictionary for the start, whatever it is.
                let has_start = column.dictionary_page_offset().is_none_or(|at| at >= 0);
                column.num_values() < 0 || !has_start || end.is_none_or(|end| end > size)
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
            // None of these numbers is negative: `check_sizes`.
            let (n_rows, n_bytes) = (group.num_rows() as u64, group.compressed_size().max(0) as u64);
            let offset = group.columns().iter().map(first_page).min().unwrap_or(0) as u64;
            let before = first_row;
            first_row = first_row.saturating_add(n_rows);
            Group { first_row: before, n_rows, offset, n_bytes }
        };
        self.file().row_groups().iter().map(group).collect()
    }

    /// Indexes of the leaf columns of a column.
    fn leaves(&self, root: usize) -> impl Iterator<Item = usize> + '_ {
        let columns = self.metadata.parquet_schema();
        (0..columns.num_columns()).filter(move |leaf| columns.get_column_root_idx(*leaf) == root)
    }

    /// Chooses the rows of a group that may pass all tests.
    ///
    /// # Errors
    /// `Io`; damage is reported when the rows are read.
    pub(super) fn choose(&self, input: &Input, group: usize, tests: &[Test]) -> Result<Choice> {
        let mut choice = Choice::default();
        for test in tests {
            match self.pages_that_pass(input, group, test) {
                Ok(Passed::All) => {}
                Ok(Passed::None) => return Ok(Choice { rows: Some(Vec::new()), ..choice }),
                Ok(Passed::Some { rows, is_last }) => {
                    choice.is_last |= is_last;
                    choice.keep(&rows);
                }
                Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                Err(_) => return Ok(Choice::default()),
            }
        }
        Ok(choice)
    }

    fn pages_that_pass(&self, input: &Input, group: usize, test: &Test) -> Result<Passed> {
        let mut leaves = self.leaves(test.root);
        let (Some(leaf), None) = (leaves.next(), leaves.next()) else { return Ok(Passed::All) };
        let Some(numbers) = self.numbers(leaf, test.is_signed) else { return Ok(Passed::All) };
        let chunk = self.file().row_group(group).column(leaf);
        let passes = |range: &RangeInclusive<i128>| {
            let range = numbers.range(range);
            range.start() <= test.accepts.end() && range.end() >= test.accepts.start()
        };
        if numbers.of_group(chunk).is_some_and(|range| !passes(&range)) {
            // A footer has no checksum: where there is an index, it must be sound before the group is skipped.
            bounds(input, chunk, None, Some(numbers))?;
            return Ok(Passed::None);
        }
        if chunk.column_index_offset().is_none() || chunk.column_descr().max_rep_level() > 0 {
            return Ok(Passed::All);
        }
        let pages = pages(input, chunk, Some(&[]))?;
        let Some(Bounds { rows, ranges, has_nulls }) =
            bounds(input, chunk, Some(&pages.data), Some(numbers))?
        else {
            return Ok(Passed::All);
        };
        let n_rows = self.file().row_group(group).num_rows();
        if rows.last().is_none_or(|last| i64::try_from(last.end) != Ok(n_rows)) {
            return Ok(Passed::All);
        }
        let mut is_last = false;
        if let Some(most) = test.ascends_to {
            let all: Vec<RangeInclusive<i128>> =
                ranges.iter().flatten().map(|range| numbers.range(range)).collect();
            let ascends = all.is_sorted_by(|one, next| one.end() <= next.start());
            let Some(largest) = all.last().map(|range| *range.end()) else { return Ok(Passed::All) };
            if has_nulls || all.len() != ranges.len() || !ascends || largest > most {
                return Ok(Passed::All);
            }
            is_last = largest > *test.accepts.end();
        }
        let passing = rows.into_iter().zip(&ranges).filter(|(_, range)| range.as_ref().is_some_and(passes));
        Ok(Passed::Some { rows: passing.map(|(rows, _)| rows).collect(), is_last })
    }

    /// How a leaf column stores integers; `None` if it does not.
    fn numbers(&self, leaf: usize, is_signed: bool) -> Option<Numbers> {
        let physical = self.metadata.parquet_schema().column(leaf).physical_type();
        Numbers::of(physical, self.file().file_metadata().column_order(leaf), is_signed)
    }

    /// Starts to read columns of a group, either these rows or all. Flaws of page indexes cost no rows.
    pub(super) fn read(
        &self,
        input: &Arc<Input>,
        group: usize,
        roots: &[usize],
        rows: Option<&[Range<u64>]>,
    ) -> Result<(Batches, Vec<Flaw>)> {
        let columns = self.metadata.parquet_schema();
        let row_group = self.file().row_group(group);
        let (mut largest, mut texts) = (0_u64, 0_u64);
        let mut flaws = Vec::new();
        for leaf in roots.iter().flat_map(|root| self.leaves(*root)) {
            let chunk = row_group.column(leaf);
            let is_list = columns.column(leaf).max_rep_level() > 0;
            let n_values = chunk.num_values().max(0) as u64;
            if is_list && n_values > limits::LIST_VALUES {
                return Err(Error::limit("values of a column of lists", n_values, limits::LIST_VALUES));
            }
            let pages = pages(input, chunk, rows)?;
            largest = largest.saturating_add(pages.largest);
            if chunk.column_type() == parquet::basic::Type::BYTE_ARRAY {
                texts = texts.max(pages.dictionary);
            }
            match bounds(input, chunk, Some(&pages.data), self.numbers(leaf, false)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                Err(error) => flaws.push(Flaw::new(error, Loses::Nothing, group)),
            }
        }
        if largest > limits::PAGES_BYTES {
            return Err(Error::limit("bytes of pages", largest, limits::PAGES_BYTES));
        }
        // Every row may hold the longest entry of the dictionary.
        let n_rows = (limits::TEXT_BYTES / texts.max(1)).clamp(64, limits::BATCH_ROWS as u64);
        let batches = guarded(|| {
            let mask = ProjectionMask::roots(columns, roots.iter().copied());
            let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
                Chunks(input.clone()),
                self.metadata.clone(),
            )
            .with_row_groups(vec![group])
            .with_projection(mask)
            .with_batch_size(n_rows as usize);
            if let Some(rows) = rows {
                // At most the rows of the group.
                let ranges = rows.iter().map(|rows| rows.start as usize..rows.end as usize);
                let n_rows = row_group.num_rows().max(0) as usize;
                builder = builder
                    .with_row_selection(RowSelection::from_consecutive_ranges(ranges, n_rows))
                    // A mask would also decompress the pages between the ranges.
                    .with_row_selection_policy(RowSelectionPolicy::Selectors);
            }
            let reader = builder.build().map_err(of_parquet)?;
            Ok(Box::new(reader.map(|batch| batch.map_err(crate::of_arrow))) as Batches)
        })?;
        Ok((batches, flaws))
    }
}

/// A condition on the values of an integer column.
#[derive(Clone, Debug)]
pub(super) struct Test {
    /// Index of the column in the file's schema.
    pub(super) root: usize,
    /// Whether its numbers are signed.
    pub(super) is_signed: bool,
    /// Numbers that pass.
    pub(super) accepts: RangeInclusive<i128>,
    /// Upper bound of numbers that ascend. With `None`, rows between pages that pass are wanted too.
    pub(super) ascends_to: Option<i128>,
}

/// Rows of a group that may pass a test.
enum Passed {
    All,
    None,
    Some { rows: Vec<Range<u64>>, is_last: bool },
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

/// Offset of the first page of a column.
fn first_page(column: &ColumnChunkMetaData) -> i64 {
    match column.dictionary_page_offset() {
        Some(at) if at > 0 => at.min(column.data_page_offset()),
        _ => column.data_page_offset(),
    }
}

/// True for codecs that the library decompresses without a limit, whatever size the page header states.
fn is_endless(codec: Compression) -> bool {
    matches!(codec, Compression::GZIP(_) | Compression::BROTLI(_) | Compression::LZ4)
}

/// Checks that a page body does not decompress to more bytes than its header states. Other damage is left for the library to
/// find.
///
/// # Errors
/// `Malformed` if it does.
fn check_end(codec: Compression, body: &[u8], most: u64) -> Result<()> {
    let mut unpacked: Box<dyn Read + '_> = match codec {
        Compression::GZIP(_) => Box::new(flate2::read::MultiGzDecoder::new(body)),
        Compression::BROTLI(_) => Box::new(brotli_decompressor::Decompressor::new(body, BUFFER_BYTES)),
        // Blocks, or frames as old programs write them. Decompression of a block ends at the stated size.
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

/// Sizes of the pages of a column.
#[derive(Default)]
struct Pages {
    /// Decompressed bytes of the largest page.
    largest: u64,
    /// Decompressed bytes of the dictionary.
    dictionary: u64,
    data: Vec<DataPage>,
}

/// Reads the headers of all pages of a column. `rows` are the rows to be read; `None` for all.
fn pages(input: &Input, chunk: &ColumnChunkMetaData, rows: Option<&[Range<u64>]>) -> Result<Pages> {
    let (start, len) = chunk.byte_range();
    let (mut at, end) = (start, start.saturating_add(len));
    let mut pages = Pages::default();
    // Number of rows in earlier pages; `None` once unknown, as version 1 pages of lists do not state it.
    let mut n_before = Some(0_u64);
    let is_list = chunk.column_descr().max_rep_level() > 0;
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
        let mut page_rows = None;
        if let Some(n_values) = head.n_values {
            let n_rows = head.n_rows.or((!is_list).then_some(n_values));
            let n_rows = n_rows.and_then(|n| u64::try_from(n).ok());
            page_rows = n_before.zip(n_rows).map(|(before, n)| before..before.saturating_add(n));
            n_before = page_rows.as_ref().map(|rows| rows.end);
        }
        let is_read = |rows: &[Range<u64>]| match &page_rows {
            Some(of_page) => rows.iter().any(|rows| rows.start < of_page.end && of_page.start < rows.end),
            None => true,
        };
        let codec = chunk.compression();
        if is_endless(codec) && rows.is_none_or(is_read) {
            // The page is read as a whole. No program writes a page that is much larger compressed than decompressed.
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
        let len = head.len as u64 + packed;
        if head.n_values.is_some() {
            let bounds = head.least.zip(head.largest).map(|(least, largest)| [least, largest]);
            pages.data.push(DataPage { at, len, rows: page_rows, bounds });
        }
        at += len;
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
            // Truncated and invalid bodies are for the library to report.
            check_end(codec, &body[..100], 1 << 20).unwrap();
            check_end(codec, b"nonsense", 0).unwrap();
        }
    }
}
