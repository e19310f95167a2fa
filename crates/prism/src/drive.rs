//! Events of an opened stream, batch by batch, up to damage where that is to be refused.

use crate::batch::Batch;
use crate::codec::{Codec, EventBytes};
use crate::event::Event;
use crate::fault::{Fault, Wrong};
use crate::trace::PrismTrace;
use quipu_model::damaged::{Damaged, Intake, Reading, SoFar};
use quipu_model::transform::{Progress, TransformJob};
use quipu_model::{Error, OpenOptions, Place, Reader, Result, Scan, ShardId, Window};
use quipu_records::Records;
use quipu_records::write::is_after;

/// What is read, and what becomes of damage.
#[derive(Clone)]
pub(crate) struct Job<'a> {
    pub(crate) opening: &'a OpenOptions,
    pub(crate) damaged: Damaged,
    pub(crate) strict: bool,
    /// Where reading ends.
    pub(crate) window: Window,
    /// Whether the bytes of events are wanted.
    pub(crate) keeps_bytes: bool,
}

impl<'a> Job<'a> {
    /// All events of what a transform reads.
    pub(crate) fn of(job: &TransformJob<'a>) -> Job<'a> {
        let TransformJob { opening, damaged, strict, .. } = *job;
        Job { opening, damaged, strict, window: Window::All, keeps_bytes: false }
    }
}

/// Gives all batches to `take`, which returns how many events it has written so far.
///
/// # Errors
/// What reading and `take` say; damage that is to be refused.
pub(crate) fn each_batch(
    trace: &PrismTrace,
    job: Job<'_>,
    progress: &dyn Progress,
    mut take: impl FnMut(&Batch, &EventBytes) -> Result<u64>,
) -> Result<Reading> {
    let codec = Codec { keeps_events: true, keeps_bytes: job.keeps_bytes, ..*trace.codec() };
    let scan = Scan { batch_records: 4096, ahead: true, window: job.window.clone(), ..Scan::new(ShardId(0)) };
    let mut reader = Records::new(codec, trace.container(), &scan)?;
    let mut intake = Intake::new(job.damaged).strict(job.strict);
    let threads = &job.opening.threads;
    let (mut packed_bytes, mut n_written, mut latest) = (0, 0, None);
    loop {
        let (mut findings, span) = match reader.read() {
            Ok(Some(batch)) => (std::mem::take(&mut batch.findings), batch.span),
            read => {
                intake.end(read.map(drop), SoFar::unvouched(n_written))?;
                break;
            }
        };
        progress.go_on()?;
        let n_before = n_written;
        let state = reader.state();
        if span.records > 0 && (threads.is_empty() || threads.contains(&span.thread)) {
            latest = state.events().thread;
            n_written = take(state.events(), state.bytes())?;
        } else if span.records > 0 {
            // Which fields events have concerns all threads.
            let Batch { first, events, .. } = state.events();
            let (mut configs, mut bytes) = (Vec::new(), EventBytes::default());
            for (index, event) in events.iter().enumerate().filter(|(_, of)| matches!(of, Event::Config(_))) {
                configs.push(*event);
                bytes.push(state.bytes().get(index));
            }
            if !configs.is_empty() {
                let batch = Batch { thread: latest, first: *first, events: configs, ..Batch::default() };
                n_written = take(&batch, &bytes)?;
            }
        }
        let n_good = if is_after(&findings, &span) { n_written } else { n_before };
        if let Err(refused) = intake.take(&mut findings, SoFar::unvouched(n_good)) {
            return Err(intake.read_on(refused, || {
                progress.go_on()?;
                Ok(reader.read()?.map(|batch| std::mem::take(&mut batch.findings)))
            }));
        }
        let now = reader.packed_bytes().unwrap_or(packed_bytes);
        progress.advance(span.records.into(), now.saturating_sub(packed_bytes));
        packed_bytes = now.max(packed_bytes);
    }
    Ok(intake.finish())
}

/// The error for an event for which there is no room.
#[cold]
pub(crate) fn refused(what: Wrong, batch: &Batch, index: usize) -> Error {
    let place = Place { record: Some(batch.at(index).ordinal), ..Place::default() };
    Error::unsupported(what.sentence()).at(&place)
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let place = Place { offset: Some(fault.offset), ..Place::default() };
        Error::malformed(fault.what.sentence()).at(&place)
    }
}
