//! Conversion between formats: a plan before reading, records through lenses, a ledger at the end.

use crate::feed::refuse_oversized;
use crate::merge::Merge;
use crate::watch::Watch;
use quipu_model::convert::{Ledger, MadeUp, Outcome, RecordJob, RecordSink, RecordWriter, Said};
use quipu_model::damaged::{Intake, Reading, SoFar};
use quipu_model::lens::Threads;
use quipu_model::trace::{Fact, settled};
use quipu_model::{Batch, Columns, Error, ErrorKind, Result, Scan, ShardId, Trace};
use std::collections::BTreeMap;

/// The effect of a conversion, as far as it is known from the formats and the trace's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionPlan {
    /// Columns that are carried over.
    pub carried: Columns,
    /// Content that the source has and for which the target has no room, in the words of the ledger.
    pub dropped: Vec<String>,
    /// Content that the target must write although the source does not state it.
    pub made_up: Vec<&'static str>,
    /// Content that the target may have to make up as well: only the records show whether the source states it.
    pub perhaps_made_up: Vec<&'static str>,
    /// All columns that are read, including dropped ones, whose rows are counted.
    columns: Columns,
}

/// Plans a conversion.
///
/// # Errors
/// `Missing` if the source lacks columns that the target requires.
pub fn plan_conversion(
    trace: &dyn Trace,
    target: &str,
    writer: &dyn RecordWriter,
    beyond_lenses: &[&str],
) -> Result<ConversionPlan> {
    let (has, info) = (trace.columns(), writer.info());
    let missing = info.required.minus(has);
    if !missing.is_empty() {
        return Err(Error::missing(format!(
            "format {target} needs {missing}, which this trace does not carry"
        )));
    }
    let carried = has.and(info.taken);
    let lost = has.minus(carried);
    let lenses = || Columns::LENSES.iter();
    let rows = lenses().filter(|lens| lost.has(lens.rows)).map(|lens| lens.words);
    let details = lenses().flat_map(|lens| lens.details).filter(|(column, _)| lost.has(*column));
    let details = details.map(|(_, words)| *words);
    let dropped = rows.chain(details).chain(beyond_lenses.iter().copied()).map(str::to_owned).collect();
    let (mut made_up, mut perhaps_made_up) = (Vec::new(), Vec::new());
    for MadeUp { what, said } in info.made_up {
        match said {
            Said::By(columns) if has.any(*columns) => {}
            Said::InHeader(is_said) if is_said(trace.meta()) => {}
            Said::ByRecords => perhaps_made_up.push(*what),
            _ => made_up.push(*what),
        }
    }
    let own_rows = Threads::OF_COLUMNS.iter().fold(Columns::NONE, |all, (column, _)| all | *column);
    let columns = lenses().fold(carried | has.and(own_rows), |columns, lens| columns | has.and(lens.rows));
    Ok(ConversionPlan { carried, dropped, made_up, perhaps_made_up, columns })
}

/// The result of a conversion.
#[derive(Debug)]
pub struct Converted {
    /// The outcome for everything.
    pub ledger: Ledger,
    /// Facts about the output, in the target format's words.
    pub facts: Vec<Fact>,
    /// The outcome of reading.
    pub reading: Reading,
    /// Ledger lines whose count means nothing: content that the source may hold and that is dropped without being counted.
    pub uncounted: Vec<String>,
}

/// Converts a trace as planned. Threads are merged by time.
///
/// # Errors
/// Errors of reading and writing, and damage of the trace unless the job keeps the output; then nothing is written.
pub fn convert(
    plan: &ConversionPlan,
    writer: &dyn RecordWriter,
    job: &RecordJob<'_>,
    beyond_lenses: &[&str],
    watch: &Watch,
) -> Result<Converted> {
    let (mut sink, mut converted) = settled(
        job.trace,
        || watch.is_cancelled(),
        || convert_once(plan, writer, job, beyond_lenses, watch),
    )?;
    let is_empty = sink.n_written() == 0;
    let done = sink.end(&mut converted.ledger).and_then(|()| {
        plan.check(&converted.ledger)?;
        sink.commit()
    });
    match done {
        Ok(facts) => converted.facts = facts,
        // The format refuses a file without records; the reason why no record is left is more useful.
        Err(refused) if is_empty && refused.kind() != ErrorKind::Internal => {
            return Err(converted.reading.nothing_left().unwrap_or(refused));
        }
        Err(error) => return Err(error),
    }
    Ok(converted)
}

impl ConversionPlan {
    /// Checks that the ledger lists nothing as made up that the plan did not announce.
    ///
    /// # Errors
    /// `Internal` if a format makes up something that it does not declare.
    fn check(&self, ledger: &Ledger) -> Result<()> {
        let is_said = |what: &str| self.made_up.iter().chain(&self.perhaps_made_up).any(|said| *said == what);
        match ledger.lines().iter().find(|line| line.outcome == Outcome::MadeUp && !is_said(&line.what)) {
            None => Ok(()),
            Some(line) => Err(Error::new(
                ErrorKind::Internal,
                format!("the plan did not say that `{}` would be made up", line.what),
            )),
        }
    }
}

/// Reads the trace once. The output does not have its name yet.
fn convert_once(
    plan: &ConversionPlan,
    writer: &dyn RecordWriter,
    job: &RecordJob<'_>,
    beyond_lenses: &[&str],
    watch: &Watch,
) -> Result<(Box<dyn RecordSink>, Converted)> {
    let scan = Scan { ahead: true, beyond: true, ..Scan::new(ShardId(0)).columns(plan.columns) };
    let mut sink = writer.begin(&RecordJob { columns: plan.carried, ..*job })?;
    let (mut ledger, mut uncounted) = (Ledger::default(), Vec::new());
    let mut intake = Intake::new(job.damaged).strict(job.strict);
    let at_opening = intake.take(&mut job.trace.meta().findings.clone(), SoFar::default());
    // Only readers that leave out data that proved damaged vouch for what they deliver.
    let is_sound = job.trace.n_delivered_damaged() > 0;
    let so_far = |n| if is_sound { SoFar::vouched(n) } else { SoFar::unvouched(n) };
    // Number of records, and of kinds of content beyond the lenses that the format counts.
    let (mut n_records, mut n_counted) = (0, 0);
    let mut merge = Merge::new(job.trace, &scan, watch)?;
    let shards = job.trace.shards();
    let rest = |merge: &mut Merge<'_>| {
        if watch.is_cancelled() {
            return Err(interrupted());
        }
        Ok(merge.read()?.map(|merged| {
            let batch = merged.batch;
            refuse_oversized(batch, shards);
            std::mem::take(&mut batch.findings)
        }))
    };
    at_opening.map_err(|refused| intake.read_on(refused, || rest(&mut merge)))?;
    // For each shard, its current member and the number of records written before that member. A wrong record count at the
    // end of a member makes everything since then doubtful.
    let mut members: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    let mut read = || -> Result<()> {
        while let Some(merged) = merge.read()? {
            let batch = merged.batch;
            refuse_oversized(batch, shards);
            let n_written = sink.n_written();
            let member = members.entry(batch.span.shard).or_insert((batch.span.member, n_written));
            let n_agreed = member.1;
            if member.0 != batch.span.member {
                *member = (batch.span.member, n_written);
            }
            if let Err(refused) = intake.take(&mut batch.findings, so_far(n_written).agreed(n_agreed)) {
                return Err(intake.read_on(refused, || rest(&mut merge)));
            }
            count_lost(plan, batch, &mut ledger);
            for (what, count) in beyond_lenses.iter().zip(&batch.beyond) {
                ledger.add(what, Outcome::Dropped, *count);
            }
            n_records += u64::from(batch.span.records);
            n_counted = n_counted.max(batch.beyond.len());
            sink.take(batch, &mut ledger)?;
            if watch.is_cancelled() {
                return Err(interrupted());
            }
        }
        Ok(())
    };
    let read = read();
    intake.end(read, so_far(sink.n_written()))?;
    // Content that the format does not count may be in any of its records.
    for what in beyond_lenses.iter().skip(n_counted).filter(|_| n_records > 0) {
        ledger.add(what, Outcome::Dropped, 1);
        uncounted.push((*what).to_owned());
    }
    Ok((sink, Converted { ledger, facts: Vec::new(), reading: intake.finish(), uncounted }))
}

fn interrupted() -> Error {
    Error::new(quipu_model::ErrorKind::Io, "interrupted")
}

/// Enters dropped rows into the ledger, and then the details that kept rows lose. Details of dropped rows are not counted
/// separately. Rows that exist only for a dropped detail are counted as that detail, and removed before the target sees them.
fn count_lost(plan: &ConversionPlan, batch: &mut Batch, ledger: &mut Ledger) {
    let is_lost = |column| plan.columns.has(column) && !plan.carried.has(column);
    let mut lost = Columns::NONE;
    for (column, event) in Threads::OF_COLUMNS.into_iter().filter(|(column, _)| is_lost(*column)) {
        lost |= column;
        let n_rows = batch.threads.remove(event);
        let details = Columns::LENSES.iter().flat_map(|lens| lens.details);
        details
            .filter(|(detail, _)| *detail == column)
            .for_each(|(_, words)| ledger.add(words, Outcome::Dropped, n_rows));
    }
    let lenses = || Columns::LENSES.iter().zip(batch.lenses().map(|(_, rows)| rows.n_rows() as u64));
    for (lens, n_rows) in lenses() {
        if plan.columns.has(lens.rows) && !plan.carried.has(lens.rows) {
            ledger.add(lens.words, Outcome::Dropped, n_rows);
        }
    }
    for (lens, n_rows) in lenses().filter(|(lens, _)| plan.carried.has(lens.rows)) {
        for (_, words) in lens.details.iter().filter(|(column, _)| !lost.has(*column)) {
            if plan.dropped.iter().any(|dropped| dropped == words) {
                ledger.add(words, Outcome::Dropped, n_rows);
            }
        }
    }
}
