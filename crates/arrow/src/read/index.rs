//! What the indexes of pages say of a column, as far as nothing contradicts it.
//!
//! Neither has a checksum. Where pages stand is compared with their heads, which are walked in any case; the least and the
//! largest values with those of the heads, where these say them, and of the group.
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

/// A page of data, as its head has it.
#[derive(Clone, Debug)]
pub(super) struct DataPage {
    pub(super) at: u64,
    /// With its head.
    pub(super) len: u64,
    /// Those of the group, where that is known.
    pub(super) rows: Option<Range<u64>>,
    /// Its least and its largest value, as they are stored.
    pub(super) bounds: Option<[Vec<u8>; 2]>,
}

/// How bits of whole numbers stand for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    physical: Physical,
    /// By which they are ordered in the file.
    has_sign: bool,
    /// Whether numbers of the column have one.
    is_signed: bool,
}

impl Numbers {
    /// For a column whose numbers have a sign or none; nothing if the file has it in an order that is not known.
    pub(super) fn of(physical: Physical, order: ColumnOrder, is_signed: bool) -> Option<Numbers> {
        let has_sign = match order {
            // Files of before there were orders; where they mean another, ranges of both signs come out empty.
            ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::SIGNED) | ColumnOrder::UNDEFINED => true,
            ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::UNSIGNED) => false,
            _ => return None,
        };
        let is_whole = matches!(physical, Physical::INT32 | Physical::INT64);
        // Numbers below 0 would be large ones.
        (is_whole && (has_sign || !is_signed)).then_some(Numbers { physical, has_sign, is_signed })
    }

    /// Stored bits as numbers that are in the order of the file.
    fn ordered(self, bytes: &[u8]) -> Option<i128> {
        Some(match (self.physical, self.has_sign) {
            (Physical::INT32, true) => i32::from_le_bytes(bytes.try_into().ok()?).into(),
            (Physical::INT32, false) => u32::from_le_bytes(bytes.try_into().ok()?).into(),
            (Physical::INT64, true) => i64::from_le_bytes(bytes.try_into().ok()?).into(),
            (Physical::INT64, false) => u64::from_le_bytes(bytes.try_into().ok()?).into(),
            _ => return None,
        })
    }

    /// All numbers that a column with bits between these may have.
    pub(super) fn range(self, ordered: &RangeInclusive<i128>) -> RangeInclusive<i128> {
        let (least, largest) = (*ordered.start(), *ordered.end());
        // Numbers without a sign may keep their bits in a column of numbers with one.
        match (self.is_signed || least >= 0, largest < 0 && self.physical == Physical::INT64) {
            (true, _) => least..=largest,
            (false, true) => least + (1 << 64)..=largest + (1 << 64),
            (false, false) => 0..=u64::MAX.into(),
        }
    }

    /// What the statistics of a group say, in the order of the file.
    pub(super) fn of_group(self, chunk: &ColumnChunkMetaData) -> Option<RangeInclusive<i128>> {
        let statistics = chunk.statistics()?;
        // The older ones are ordered as if all numbers had a sign.
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

/// What is in the pages of a column.
#[derive(Debug)]
pub(super) struct Bounds {
    /// The rows of each page.
    pub(super) rows: Vec<Range<u64>>,
    /// The least and the largest number of each, in the order of the file; nothing for a page without any.
    pub(super) ranges: Vec<Option<RangeInclusive<i128>>>,
    /// Whether each row has a number, as far as that is said.
    pub(super) has_nulls: bool,
}

/// What the index of a column says, compared with the heads of its pages where those are known; nothing if the column has none,
/// or one that is not of whole numbers.
///
/// # Errors
/// `Malformed`, `Limit` or `Truncated` for an index that contradicts itself, the footer or the heads; `Io`.
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

/// Makes sure that pages stand where the index has them.
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

/// What is in the pages, as far as that are numbers.
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
    // Whether the index states a bound of each page.
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
            // A page without values has no bounds: one that states some is not empty.
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

    /// What a read is asked for.
    type Question = (usize, RangeInclusive<i128>, Option<i128>);

    const QUESTIONS: [Question; 5] = [
        (0, 700..=760, Some(1 << 48)),
        (0, 1495..=1510, Some(1 << 48)),
        (1, 200 << 56..=(205 << 56) - 1, None),
        (1, 3 << 56..=5 << 56, None),
        (2, -360..=-340, None),
    ];

    /// The rows that pass, of those that were read; how many pages were unpacked, and whether something is wrong with indexes.
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
                    // Rows stand where the read says.
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

    /// The rows that pass.
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

    /// Where the indexes of pages stand.
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
            // Three bits, and the one change that makes a page an empty one.
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
        // The order and the number of missing values, and fields that are no longer known, are not needed.
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
            // What is then another table has other rows.
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
            // Without its index, the file says something else.
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

    /// What a group of the file that is not damaged reads as.
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
