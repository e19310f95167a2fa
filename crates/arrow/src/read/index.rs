//! Page indexes of a Parquet column, used as far as nothing contradicts them.
//!
//! Neither the offset index nor the column index has a checksum. Page offsets are compared with the page headers, which are
//! walked in any case; minimum and maximum values are compared with those of the headers, where these have them, and of the
//! row group.
//!
//! SPEC: columnar.md#damage

use super::input::Input;
use super::thrift::{Seen, walk};
use super::{limits, place};
use parquet::basic::{ColumnOrder, SortOrder, Type as Physical};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use quipu_model::{Error, Result};
use std::ops::{Range, RangeInclusive};

/// A data page as its header describes it.
#[derive(Clone, Debug)]
pub(super) struct DataPage {
    pub(super) at: u64,
    /// Bytes, including the header.
    pub(super) len: u64,
    /// Rows of the row group that the page holds; `None` if unknown.
    pub(super) rows: Option<Range<u64>>,
    /// Minimum and maximum value in their stored form.
    pub(super) bounds: Option<[Vec<u8>; 2]>,
}

/// How an integer column maps stored bits to numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    physical: Physical,
    /// Whether the file orders values as signed numbers.
    has_sign: bool,
    /// Whether the column's type is signed.
    is_signed: bool,
}

impl Numbers {
    /// Creates the mapping for a signed or unsigned column; `None` if the file's sort order is unknown or the column does not
    /// hold integers.
    pub(super) fn of(physical: Physical, order: ColumnOrder, is_signed: bool) -> Option<Numbers> {
        let has_sign = match order {
            // Old files state no order. If they mean another one, ranges that span both signs come out empty.
            ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::SIGNED) | ColumnOrder::UNDEFINED => true,
            ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::UNSIGNED) => false,
            _ => return None,
        };
        let is_whole = matches!(physical, Physical::INT32 | Physical::INT64);
        // A signed column in unsigned order would turn negative numbers into large ones.
        (is_whole && (has_sign || !is_signed)).then_some(Numbers { physical, has_sign, is_signed })
    }

    /// Converts stored bits to a number; numbers compare as in the file's order.
    fn ordered(self, bytes: &[u8]) -> Option<i128> {
        Some(match (self.physical, self.has_sign) {
            (Physical::INT32, true) => i32::from_le_bytes(bytes.try_into().ok()?).into(),
            (Physical::INT32, false) => u32::from_le_bytes(bytes.try_into().ok()?).into(),
            (Physical::INT64, true) => i64::from_le_bytes(bytes.try_into().ok()?).into(),
            (Physical::INT64, false) => u64::from_le_bytes(bytes.try_into().ok()?).into(),
            _ => return None,
        })
    }

    /// Returns the range of numbers that values in this range of the file's order can stand for.
    pub(super) fn range(self, ordered: &RangeInclusive<i128>) -> RangeInclusive<i128> {
        let (least, largest) = (*ordered.start(), *ordered.end());
        // Unsigned numbers may be stored as the same bits in a signed column.
        match (self.is_signed || least >= 0, largest < 0 && self.physical == Physical::INT64) {
            (true, _) => least..=largest,
            (false, true) => least + (1 << 64)..=largest + (1 << 64),
            (false, false) => 0..=u64::MAX.into(),
        }
    }

    /// Minimum and maximum from the statistics of a row group, in the file's order.
    pub(super) fn of_group(self, chunk: &ColumnChunkMetaData) -> Option<RangeInclusive<i128>> {
        let statistics = chunk.statistics()?;
        // The deprecated statistics order all numbers as signed.
        if statistics.is_min_max_deprecated() {
            return None;
        }
        let (least, largest) = match statistics {
            Statistics::Int32(of) => {
                (of.min_opt()?.to_le_bytes().to_vec(), of.max_opt()?.to_le_bytes().to_vec())
            }
            Statistics::Int64(of) => {
                (of.min_opt()?.to_le_bytes().to_vec(), of.max_opt()?.to_le_bytes().to_vec())
            }
            _ => return None,
        };
        let range = self.ordered(&least)?..=self.ordered(&largest)?;
        (!range.is_empty()).then_some(range)
    }
}

/// Rows and value ranges of a column's pages.
#[derive(Debug)]
pub(super) struct Bounds {
    /// The rows of each page.
    pub(super) rows: Vec<Range<u64>>,
    /// Minimum and maximum of each page, in the file's order; `None` for a page without values.
    pub(super) ranges: Vec<Option<RangeInclusive<i128>>>,
    /// Whether rows may lack a value; true if the index does not say.
    pub(super) has_nulls: bool,
}

/// Returns the index of a column, compared with its page headers where those are known; `None` if the column has no index or
/// does not hold integers.
///
/// # Errors
/// `Malformed`, `Limit` or `Truncated` for an index that contradicts itself, the footer or the page headers; `Io`.
pub(super) fn bounds(
    input: &Input,
    chunk: &ColumnChunkMetaData,
    pages: Option<&[DataPage]>,
    numbers: Option<Numbers>,
) -> Result<Option<Bounds>> {
    let places = chunk.offset_index_offset().zip(chunk.offset_index_length());
    let values = chunk.column_index_offset().zip(chunk.column_index_length());
    if let (Some(at), Some(pages)) = (places, pages) {
        let bytes = read(input, at)?;
        check_places(&bytes, pages).map_err(|error| error.at(&place(at.0 as u64)))?;
    }
    let Some(at) = values else { return Ok(None) };
    let bytes = read(input, at)?;
    let checked = check_values(&bytes, chunk, pages, numbers);
    checked.map_err(|error| error.at(&place(at.0 as u64)))
}

fn read(input: &Input, (offset, len): (i64, i32)) -> Result<Vec<u8>> {
    let wrong = || Error::malformed("the footer places an index of pages outside of the file");
    let (Ok(offset), Ok(len)) = (u64::try_from(offset), u64::try_from(len)) else { return Err(wrong()) };
    if offset.checked_add(len).is_none_or(|end| end > input.size()) {
        return Err(wrong());
    }
    if len > limits::PAGE_INDEX_BYTES {
        let error = Error::limit("bytes of an index of pages", len, limits::PAGE_INDEX_BYTES);
        return Err(error.at(&place(offset)));
    }
    input.read_some(offset, len as usize) // No more than the limit.
}

fn contradicts(what: &str) -> Error {
    Error::malformed(format!("the index of pages contradicts {what}"))
}

/// Checks that the offset index agrees with the pages that were found.
fn check_places(bytes: &[u8], pages: &[DataPage]) -> Result<()> {
    let mut told: Vec<[i64; 3]> = Vec::new();
    let mut visit = |path: &[i16], value: Seen<'_>| match (path, value) {
        ([1, 0], _) => told.push([-1; 3]),
        ([1, field @ 1..=3], Seen::Number(value)) => {
            let last = told.last_mut().and_then(|last| last.get_mut(*field as usize - 1));
            last.into_iter().for_each(|last| *last = value);
        }
        _ => {}
    };
    if walk(bytes, &mut visit).ok().flatten().is_none() {
        return Err(Error::malformed("the index of pages is none"));
    }
    let is_same = |(told, page): (&[i64; 3], &DataPage)| {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        told[0] == number(page.at)
            && told[1] == number(page.len)
            && page.rows.as_ref().is_none_or(|rows| told[2] == number(rows.start))
    };
    if told.len() != pages.len() || !told.iter().zip(pages).all(is_same) {
        return Err(contradicts("the heads of pages"));
    }
    Ok(())
}

/// Checks the column index; returns the value ranges of the pages if they are integers whose rows are known.
fn check_values(
    bytes: &[u8],
    chunk: &ColumnChunkMetaData,
    pages: Option<&[DataPage]>,
    numbers: Option<Numbers>,
) -> Result<Option<Bounds>> {
    let (mut empty, mut nulls) = (Vec::new(), Vec::new());
    let (mut least, mut largest): (Vec<Option<i128>>, Vec<Option<i128>>) = (Vec::new(), Vec::new());
    let mut is_stored_alike = true;
    let mut n_bounds = [0_usize; 2];
    // Whether the index states a minimum, by page.
    let mut bounded: Vec<bool> = Vec::new();
    let mut visit = |path: &[i16], value: Seen<'_>| match (path, value) {
        ([1], Seen::Truth(is_empty)) => empty.push(is_empty),
        ([side @ (2 | 3)], Seen::Bytes(bytes)) => {
            let side = usize::from(*side == 3);
            let stated = pages.and_then(|pages| pages.get(n_bounds[side])?.bounds.as_ref());
            n_bounds[side] += 1;
            if side == 0 {
                bounded.push(!bytes.is_empty());
            }
            if let Some(numbers) = numbers {
                let ordered = numbers.ordered(bytes);
                if side == 0 {
                    least.push(ordered)
                } else {
                    largest.push(ordered)
                }
                is_stored_alike &= stated.is_none_or(|stated| stated[side] == bytes);
            }
        }
        ([5], Seen::Number(n)) => nulls.push(n),
        _ => {}
    };
    if walk(bytes, &mut visit).ok().flatten().is_none() {
        return Err(Error::malformed("the index of pages is none"));
    }
    let n = pages.map_or(empty.len(), <[DataPage]>::len);
    if empty.len() != n || n_bounds != [n, n] || !(nulls.is_empty() || nulls.len() == n) {
        return Err(contradicts("the heads of pages"));
    }
    let Some(numbers) = numbers else { return Ok(None) };
    if !is_stored_alike {
        return Err(contradicts("the heads of pages"));
    }
    let mut ranges = Vec::with_capacity(n);
    for (((least, largest), is_empty), has_bounds) in least.into_iter().zip(largest).zip(&empty).zip(bounded)
    {
        ranges.push(match (least, largest, is_empty) {
            // A page without values has no bounds, so an index that gives bounds for an empty page contradicts itself.
            (_, _, true) if has_bounds => return Err(contradicts("itself")),
            (_, _, true) => None,
            (Some(least), Some(largest), false) if least <= largest => Some(least..=largest),
            _ => return Err(contradicts("itself")),
        });
    }
    if let Some(group) = numbers.of_group(chunk) {
        let all = || ranges.iter().flatten();
        let (least, largest) = (all().map(RangeInclusive::start).min(), all().map(RangeInclusive::end).max());
        if least.is_some_and(|least| least != group.start())
            || largest.is_some_and(|most| most != group.end())
        {
            return Err(contradicts("the statistics of its group"));
        }
    }
    let rows = pages.and_then(|pages| pages.iter().map(|page| page.rows.clone()).collect());
    let Some(rows) = rows else { return Ok(None) };
    let is_full =
        chunk.column_descr().max_def_level() == 0 || nulls.len() == n && nulls.iter().all(|n| *n == 0);
    Ok(Some(Bounds { rows, ranges, has_nulls: !is_full }))
}

#[cfg(test)]
mod tests {
    use super::super::{Choice, RowFile, Wanted};
    use crate::write::Form;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};
    use arrow_schema::{DataType, Field, Schema};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::ParquetMetaDataReader;
    use parquet::file::properties::{EnabledStatistics, WriterProperties};
    use quipu_source::Source;
    use std::ops::{Range, RangeInclusive};
    use std::sync::Arc;

    const N: u64 = 1000;
    const GROUP: u64 = 500;
    const PAGE: u64 = 50;

    /// Rows with positions, with addresses that begin anew and may have their highest bit, and with numbers of both signs.
    fn row(n: u64) -> (u64, Option<u64>, i64) {
        let addr = (n % 250) << 56 | n;
        (3 * n + 1, (n % 90 != 7).then_some(addr), n as i64 - 600)
    }

    fn written() -> Vec<u8> {
        let fields = vec![
            Field::new("record", DataType::UInt64, false),
            Field::new("addr", DataType::UInt64, true),
            Field::new("far", DataType::Int64, false),
        ];
        let schema = Arc::new(Schema::new(fields));
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(GROUP as usize))
            .set_data_page_row_count_limit(PAGE as usize)
            .set_write_batch_size(PAGE as usize)
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_write_page_header_statistics(true)
            .build();
        let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties)).unwrap();
        let rows = || (0..N).map(row);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows().map(|row| row.0).collect::<UInt64Array>()),
            Arc::new(rows().map(|row| row.1).collect::<UInt64Array>()),
            Arc::new(rows().map(|row| row.2).collect::<Int64Array>()),
        ];
        writer.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
        writer.into_inner().unwrap()
    }

    fn open(bytes: &[u8]) -> quipu_model::Result<RowFile> {
        let source = Source::from_bytes("t.parquet", bytes.to_vec());
        RowFile::open(&source.container().unwrap(), Form::Parquet, "t")
    }

    /// Column, range of accepted numbers, and maximum if the numbers ascend.
    type Question = (usize, RangeInclusive<i128>, Option<i128>);

    const QUESTIONS: [Question; 5] = [
        (0, 700..=760, Some(1 << 48)),
        (0, 1495..=1510, Some(1 << 48)),
        (1, 200 << 56..=(205 << 56) - 1, None),
        (1, 3 << 56..=5 << 56, None),
        (2, -360..=-340, None),
    ];

    /// Returns the rows that pass among those read, the number of pages unpacked, and whether the indexes have flaws.
    fn asked(
        file: &RowFile,
        (column, accepts, ascends_to): Question,
    ) -> quipu_model::Result<(Vec<u64>, u64, bool)> {
        let n_before = file.n_pages_read();
        let wanted = [Wanted { column, accepts: accepts.clone(), ascends_to }];
        let (mut all, mut has_flaws) = (Vec::new(), false);
        for (group, about) in file.groups().iter().enumerate() {
            let choice = file.choose(group, &wanted)?;
            if choice.rows.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let mut rows = file.read(group, &[0, 1, 2], &choice)?;
            has_flaws |= !rows.flaws().is_empty();
            while let Some(rows) = rows.next_rows()? {
                for (at, nth) in rows.rows.iter().cloned().flatten().enumerate() {
                    // The reported positions match the rows.
                    assert_eq!(rows.columns[0].as_ref().number(at), row(about.first_row + nth).0);
                    let (record, addr, far) = row(about.first_row + nth);
                    let number = [Some(record.into()), addr.map(i128::from), Some(far.into())][column];
                    if number.is_some_and(|number| accepts.contains(&number)) {
                        all.push(record);
                    }
                }
            }
        }
        Ok((all, file.n_pages_read() - n_before, has_flaws))
    }

    /// Returns the rows that should pass.
    fn expected((column, accepts, _): Question) -> Vec<u64> {
        let passes = |n: &u64| {
            let (record, addr, far) = row(*n);
            let number = [Some(record.into()), addr.map(i128::from), Some(far.into())][column];
            number.is_some_and(|number| accepts.contains(&number))
        };
        (0..N).filter(passes).map(|n| row(n).0).collect()
    }

    #[test]
    fn pages_that_cannot_pass_are_not_unpacked() {
        let file = open(&written()).unwrap();
        // Three columns: pages 5; 9 and 0 of the next group; one or two of each group; 4 and 5.
        for (question, n_pages) in QUESTIONS.into_iter().zip([2, 2, 4, 4, 2]) {
            let (rows, n, has_flaws) = asked(&file, question.clone()).unwrap();
            assert_eq!(rows, expected(question.clone()), "{question:?}");
            assert!(!rows.is_empty() && !has_flaws, "{question:?}");
            assert!(n <= 3 * n_pages, "{question:?}: {n} pages");
        }
        let all = asked(&file, (0, 0..=1 << 40, Some(1 << 48))).unwrap();
        assert!(all.0.len() as u64 == N && all.1 >= 3 * N / PAGE, "{} pages", all.1);
    }

    /// Byte ranges of the page indexes.
    fn indexes(bytes: &[u8]) -> Vec<Range<usize>> {
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&Bytes::copy_from_slice(bytes)).unwrap();
        let chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
        let place = |at: Option<i64>, len: Option<i32>| {
            let at = at.unwrap() as usize;
            at..at + len.unwrap() as usize
        };
        let both = |chunk: &parquet::file::metadata::ColumnChunkMetaData| {
            [
                place(chunk.column_index_offset(), chunk.column_index_length()),
                place(chunk.offset_index_offset(), chunk.offset_index_length()),
            ]
        };
        chunks.flat_map(both).collect()
    }

    #[test]
    fn a_changed_byte_of_an_index_costs_no_row() {
        let whole = written();
        let indexes = indexes(&whole);
        assert_eq!(indexes.len(), 12);
        let (mut n_told, mut n) = (0, 0);
        for at in indexes.into_iter().flatten() {
            // Three flips of a single bit, and with 3 the one change that marks a page as empty.
            for mask in [1, 3, 8, 128] {
                let mut changed = whole.clone();
                changed[at] ^= mask;
                let file = open(&changed).unwrap();
                let mut is_told = false;
                for question in QUESTIONS {
                    let (rows, _, has_flaws) = asked(&file, question.clone()).unwrap();
                    assert_eq!(rows, expected(question.clone()), "byte {at}, mask {mask}, {question:?}");
                    is_told |= has_flaws;
                }
                n += 1;
                n_told += usize::from(is_told);
            }
        }
        // Boundary order and null counts are not needed, and neither are fields whose numbers a flip makes unknown: such flips
        // go unnoticed.
        assert!(n_told * 10 > n * 8, "{n_told} of {n}");
    }

    #[test]
    fn a_changed_byte_of_the_footer_gives_no_other_rows() {
        let whole = written();
        let end = whole.len() - 8;
        let length = u32::from_le_bytes(whole[end..end + 4].try_into().unwrap()) as usize;
        let file = open(&whole).unwrap();
        let (schema, groups) = (file.schema().clone(), file.groups().to_vec());
        let mut n_read = 0;
        for at in end - length..end {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            // If the schema changed, the rows are those of another table.
            let Ok(file) = open(&changed) else { continue };
            let is_same = |groups: &[super::super::Group]| {
                groups.len() == 2 && groups.iter().zip(file.groups()).all(|(a, b)| a.n_rows == b.n_rows)
            };
            if file.schema().fields.len() != schema.fields.len()
                || !file
                    .schema()
                    .fields
                    .iter()
                    .zip(&schema.fields)
                    .all(|(a, b)| a.name == b.name && a.ty == b.ty)
                || !is_same(&groups)
            {
                continue;
            }
            let whole = |group| {
                let mut rows = file.read(group, &[0, 1, 2], &Choice::default())?;
                let mut text = Vec::new();
                while let Some(rows) = rows.next_rows()? {
                    text.push(format!("{:?}", rows.columns));
                }
                Ok::<_, quipu_model::Error>(text)
            };
            // If a read of whole groups, which ignores the index, differs, the flip hit something else than an index.
            let is_whole = (0..2).all(|group| whole(group).is_ok_and(|text| Ok(text) == reference(group)));
            for question in QUESTIONS {
                if !is_whole {
                    continue;
                }
                let (rows, ..) = asked(&file, question.clone()).unwrap();
                assert_eq!(rows, expected(question.clone()), "byte {at}, {question:?}");
                n_read += 1;
            }
        }
        assert!(n_read > 500, "{n_read}");
    }

    /// Rows of a group of the undamaged file, as text.
    fn reference(group: usize) -> Result<Vec<String>, ()> {
        static TEXTS: std::sync::OnceLock<[Vec<String>; 2]> = std::sync::OnceLock::new();
        let texts = TEXTS.get_or_init(|| {
            let file = open(&written()).unwrap();
            [0, 1].map(|group| {
                let mut rows = file.read(group, &[0, 1, 2], &Choice::default()).unwrap();
                let mut text = Vec::new();
                while let Some(rows) = rows.next_rows().unwrap() {
                    text.push(format!("{:?}", rows.columns));
                }
                text
            })
        });
        Ok(texts[group].clone())
    }
}
