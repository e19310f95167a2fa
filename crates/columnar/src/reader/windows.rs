//! The records of a window of instructions or of time, from the rows of lenses.

use super::{Part, What, part};
use crate::cursor::{Chunk, Numbering};
use crate::lens::Filling;
use crate::trace::Opened;
use quipu_arrow::read::Wanted;
use quipu_model::lens::ThreadEvent;
use quipu_model::{Columns, Error, Finding, Result, Window};
use std::ops::{Range, RangeInclusive};

/// Visits the rows of a lens of a shard before record `end`, until `each` returns false.
fn walk(
    opened: &Opened,
    shard: usize,
    lens: Columns,
    columns: impl Fn(&Filling) -> (Vec<usize>, Vec<Wanted>),
    end: u64,
    findings: &mut Vec<Finding>,
    each: &mut dyn FnMut(&Filling, &Chunk, usize) -> bool,
) -> Result<()> {
    let Some((filling, rows)) = opened.lens(lens) else { return Ok(()) };
    let (columns, wanted) = columns(filling);
    let part = part(rows, shard, What::Count, columns, 0..end, wanted, false, findings);
    part.map_or(Ok(()), |part| through(part, &mut |chunk, row| each(filling, chunk, row)))
}

/// Visits the rows of a part until `each` returns false.
fn through(mut part: Part, each: &mut dyn FnMut(&Chunk, usize) -> bool) -> Result<()> {
    loop {
        let mut is_wanted = true;
        part.take(u64::MAX, &mut |chunk, rows| {
            for row in rows {
                is_wanted = is_wanted && each(chunk, row);
            }
            Ok(())
        })?;
        if !is_wanted || part.cursor.is_over() {
            return Ok(());
        }
        let next = part.cursor.complete_until().saturating_add(1);
        part.cursor.load_until(next)?;
    }
}

/// Columns of the file that are needed to count instructions, without conditions.
fn counting(filling: &Filling) -> (Vec<usize>, Vec<Wanted>) {
    (filling.counting(), Vec::new())
}

/// Number of instructions before a record.
pub(super) fn instrs_before(
    opened: &Opened,
    shard: usize,
    record: u64,
    findings: &mut Vec<Finding>,
) -> Result<u64> {
    let mut n = 0;
    walk(opened, shard, Columns::INSTRS, counting, record, findings, &mut |filling, chunk, row| {
        n += u64::from(filling.is_fetched(chunk, row));
        true
    })?;
    Ok(n)
}

/// The records of a range of instructions.
pub(super) fn records_of_instrs(
    opened: &Opened,
    shard: usize,
    range: &Range<u64>,
    findings: &mut Vec<Finding>,
) -> Result<Range<u64>> {
    if opened.lens(Columns::INSTRS).is_none() {
        return Err(Error::missing("the trace has no instructions to count"));
    }
    let (mut ordinal, mut start, mut end) = (0, None, None);
    walk(opened, shard, Columns::INSTRS, counting, u64::MAX, findings, &mut |filling, chunk, row| {
        if filling.is_fetched(chunk, row) {
            if ordinal == range.start {
                start = Some(chunk.records[row]);
            }
            if ordinal == range.end {
                end = Some(chunk.records[row]);
            }
            ordinal += 1;
        }
        end.is_none()
    })?;
    let start = if range.start == 0 { Some(0) } else { start };
    Ok(start.map_or(0..0, |start| start..end.unwrap_or(u64::MAX)))
}

/// The records between two clock readings.
pub(super) fn records_of_clock(
    opened: &Opened,
    shard: usize,
    range: &Range<u64>,
    findings: &mut Vec<Finding>,
) -> Result<Range<u64>> {
    let (mut start, mut end) = (None, None);
    let mut take = |record: u64, reading: u64| {
        if reading >= range.start && start.is_none() {
            start = Some(record);
        }
        if Window::ends_at_clock(range.end, reading) && end.is_none() {
            end = Some(record);
        }
        end.is_none()
    };
    // Readings before the range neither begin nor end the window, so their rows can be skipped.
    let later = |column: usize| {
        let accepts: RangeInclusive<i128> = range.start.into()..=i128::MAX;
        (range.start > 0 && range.start <= range.end).then_some(Wanted { column, accepts, ascends_to: None })
    };
    if opened.lens(Columns::THREADS).is_some() {
        let columns = |filling: &Filling| {
            let wanted = filling.values().and_then(later);
            (filling.needed(Columns::THREADS), wanted.into_iter().collect())
        };
        walk(opened, shard, Columns::THREADS, columns, u64::MAX, findings, &mut |filling, chunk, row| {
            match filling.event(chunk, row) {
                Some((ThreadEvent::Clock, reading)) => take(chunk.records[row], reading),
                _ => true,
            }
        })?;
        return Ok(start.map_or(0..0, |start| start..end.unwrap_or(u64::MAX)));
    }
    let timed = opened
        .tables
        .iter()
        .find_map(|rows| Some((rows, rows.time?)).filter(|(rows, _)| rows.numbering != Numbering::None));
    let Some((rows, time)) = timed else {
        return Err(Error::missing("the trace has no clock"));
    };
    let wanted = later(time).into_iter().collect();
    let part = part(rows, shard, What::Threads, vec![time], 0..u64::MAX, wanted, false, findings);
    if let Some(part) = part {
        through(part, &mut |chunk, row| take(chunk.records[row], chunk.columns[time].as_ref().number(row)))?;
    }
    Ok(start.map_or(0..0, |start| start..end.unwrap_or(u64::MAX)))
}
