//! Edits of a trace, one for each verb.
//!
//! Edits that select or change calls ([`trim`], [`sed`]) share one loop, [`rewrite`]: it reads calls in the order of
//! completion and writes them again, numbered from 0. [`setup`] finds the earlier calls that a selection depends on.

pub mod convert;
mod recover;
pub mod sed;
pub mod setup;
pub mod substitute;
pub mod trim;

use crate::decode::Header;
use crate::reader::CallReader;
use crate::text::assemble::Assemble;
use crate::text::disassemble::Disassemble;
use crate::trace::{self, ApiTrace};
use crate::write::{TraceWriter, WriteOptions, Written, packing_for, so_far};
use quipu_model::damaged::{Intake, SoFar};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformJob, Transformed};
use quipu_model::values::{Types, Values};
use quipu_model::{Columns, Error, Finding, Reader, Result, Scan, ShardId};
use std::cell::Cell;
use std::path::Path;

/// All edits, as the format lists them.
pub static EDITS: &[&dyn Transform] =
    &[&convert::Convert, &trim::Trim, &sed::Sed, &Disassemble, &Assemble, &recover::Recover];

/// The decision of an edit about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The call is written.
    Keep,
    /// The call is dropped.
    Drop,
    /// The call is dropped, and so are all after it.
    End,
}

/// Selects calls, and may change their values.
pub trait CallEdit {
    /// Decides about the call at index `at` of a batch.
    ///
    /// # Errors
    /// If the edit cannot be applied to this call.
    fn step(&mut self, at: usize, values: &mut Values, types: &Types) -> Result<Step>;

    /// The error if the edit selected no call; `None` if a trace without calls is a result.
    fn refuse_nothing(&mut self) -> Option<Error> {
        None
    }
}

/// Outcome of a rewrite.
#[derive(Clone, Debug, Default)]
pub struct Rewritten {
    /// Number of calls read.
    pub read: u64,
    /// Summary of the written trace.
    pub written: Written,
}

impl Rewritten {
    /// The facts to report about it.
    fn edited(self, packing: trace::Packing, more: Vec<Fact>) -> Transformed {
        let mut facts = vec![
            Fact::new("calls", "calls", self.written.calls),
            Fact::new("calls_read", "calls that were read", self.read),
        ];
        facts.extend(more);
        facts.extend(self.written.facts(packing));
        Transformed { facts, reading: self.written.reading, ..Transformed::default() }
    }
}

/// Writes the calls of a trace that `edit` keeps, with its changes.
///
/// # Errors
/// Errors of reading, writing and the edit. Damage of the trace is an error unless `options` allow it; then nothing is
/// written.
pub fn rewrite(
    trace: &ApiTrace,
    header: &Header,
    path: &Path,
    options: &WriteOptions,
    edit: &mut dyn CallEdit,
    progress: &dyn Progress,
) -> Result<Rewritten> {
    let mut writer = TraceWriter::create(path, header, options)?;
    let (mut n_read, mut intake, n_written) = (0, options.intake(), Cell::new(0));
    let written_so_far = || so_far(trace, n_written.get());
    let taker = Some((&mut intake, &written_so_far as &dyn Fn() -> SoFar));
    let read = each_call(trace, progress, taker, &mut |at, values, types| {
        n_read += 1;
        let step = edit.step(at, values, types)?;
        if step == Step::Keep {
            writer.call(&values.calls[at], values, types)?;
            n_written.set(n_written.get() + 1);
        }
        Ok(step != Step::End)
    });
    intake.end(read, written_so_far())?;
    let reading = intake.finish();
    if n_read == 0
        && let Some(error) = reading.nothing_left()
    {
        return Err(error);
    }
    if reading.doubtful_from.is_none()
        && let Some(error) = edit.refuse_nothing()
    {
        return Err(error);
    }
    let written = Written { reading, ..writer.finish()? };
    Ok(Rewritten { read: n_read, written })
}

/// Handles one call of a batch, given its index; returns whether to continue.
pub(crate) type Visit<'v> = dyn FnMut(usize, &mut Values, &Types) -> Result<bool> + 'v;

/// Passes all calls of a trace to `visit`, in the order of completion, until it returns false. Findings go to the intake, if
/// there is one, in their order among the calls, so that it is known which calls were written before each. If the intake
/// refuses them, the rest of the trace is read to find what is lost in it.
///
/// # Errors
/// Errors of reading, of the intake and of the visitor.
pub(crate) fn each_call(
    trace: &ApiTrace,
    progress: &dyn Progress,
    mut taker: Option<(&mut Intake, &dyn Fn() -> SoFar)>,
    visit: &mut Visit<'_>,
) -> Result<()> {
    trace.check_version()?;
    let scan = Scan { ahead: true, ..Scan::new(ShardId(0)).columns(Columns::CALL_VALUES) };
    let mut reader = CallReader::new(trace.sound(), &scan)?;
    let rest = |reader: &mut CallReader| {
        progress.go_on()?;
        Ok(reader.read()?.map(|batch| std::mem::take(&mut batch.findings)))
    };
    if let Some((intake, so_far)) = &mut taker {
        let met = intake.take(&mut trace.met_at_opening(), so_far());
        met.map_err(|refused| intake.read_on(refused, || rest(&mut reader)))?;
    }
    while let Some(batch) = reader.read()? {
        progress.go_on()?;
        let n_calls = batch.values.calls.len();
        for at in 0..=n_calls {
            if !batch.findings.is_empty()
                && let Some((intake, so_far)) = &mut taker
            {
                // The findings that precede this call, and those without a place.
                let n_before = batch.span.first_record + at as u64;
                let is_due = |finding: &mut Finding| {
                    at == n_calls || finding.place.record.is_none_or(|n| n <= n_before)
                };
                let mut due = batch.findings.extract_if(.., is_due).collect();
                if let Err(refused) = intake.take(&mut due, so_far()) {
                    let mut left = Some(std::mem::take(&mut batch.findings));
                    return Err(intake.read_on(refused, || {
                        if let Some(left) = left.take() {
                            return Ok(Some(left));
                        }
                        rest(&mut reader)
                    }));
                }
            }
            if at < n_calls && !visit(at, &mut batch.values, &batch.types)? {
                return Ok(());
            }
        }
        progress.advance(n_calls as u64, 0);
    }
    Ok(())
}

/// Opens the trace of a job, and gathers the options for writing.
fn begin(job: &TransformJob<'_>) -> Result<(ApiTrace, WriteOptions)> {
    // The edit itself selects the chosen threads.
    let opening = quipu_model::OpenOptions { threads: Vec::new(), ..job.opening.clone() };
    let trace = trace::open(job.source, &opening)?;
    let options = WriteOptions {
        packing: packing_for(job.container, job.level, job.output)?,
        level: job.level,
        replace: job.replace,
        damaged: job.damaged,
        strict: job.strict,
        ..WriteOptions::USUAL
    };
    Ok((trace, options))
}
