//! Edits: what can be made of a trace, each under the name of its verb.
//!
//! Those that choose or change calls ([`trim`], [`sed`]) share one loop, [`rewrite`]: calls come in the order of completion
//! and are written anew, numbered from 0. What a choice of calls needs of what came before is found in [`setup`].

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
use quipu_model::{Columns, Finding, Reader, Result, Scan, ShardId};
use std::cell::Cell;
use std::path::Path;

/// All edits, as the format lists them.
pub static EDITS: &[&dyn Transform] =
    &[&convert::Convert, &trim::Trim, &sed::Sed, &Disassemble, &Assemble, &recover::Recover];

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is written.
    Keep,
    /// It is left out.
    Drop,
    /// It is left out, and so are all after it.
    End,
}

/// Chooses calls, and may change their values.
pub trait CallEdit {
    /// Judges the call at position `at` of a batch.
    ///
    /// # Errors
    /// If what was asked for cannot be done to this call.
    fn step(&mut self, at: usize, values: &mut Values, types: &Types) -> Result<Step>;
}

/// What became of the calls.
#[derive(Clone, Debug, Default)]
pub struct Rewritten {
    /// Calls that were read.
    pub read: u64,
    /// What was written of them.
    pub written: Written,
}

impl Rewritten {
    /// What to say of it.
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

/// Writes the calls of a trace that an edit keeps, as it leaves them.
///
/// # Errors
/// What reading, writing and the edit say, and damage of the trace unless `options` keep what is made of it; then nothing is
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
    let written = Written { reading, ..writer.finish()? };
    Ok(Rewritten { read: n_read, written })
}

/// Takes one call of a batch, by its position; says whether more are wanted.
pub(crate) type Visit<'v> = dyn FnMut(usize, &mut Values, &Types) -> Result<bool> + 'v;

/// Shows all calls of a trace, in the order of completion, until no more are wanted. Findings go to an intake, if there is one,
/// where they stand among the calls, so that it is known what is written before them. Where it refuses them, the rest is read
/// for what is lost in it.
///
/// # Errors
/// What reading, the intake and the visitor say.
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
                // The findings that stand before this call, and those without a place.
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

/// Opens what a job is about, and how it is to be written.
fn begin(job: &TransformJob<'_>) -> Result<(ApiTrace, WriteOptions)> {
    // The threads that were chosen are the edit's to sort out.
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
