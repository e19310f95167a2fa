//! Reads the events of an opened stream, batch by batch, up to damage if that is to be refused.

use crate::batch::Batch;
use crate::codec::{Codec, Encoding, EventBytes, Rejoined};
use crate::detail::Detail;
use crate::event::{Event, Sync, sync};
use crate::fault::{Fault, Wrong};
use crate::here::Here;
use crate::trace::PrismTrace;
use crate::{fixed, variable};
use quipu_model::damaged::{Damaged, Intake, Reading, SoFar};
use quipu_model::transform::{Progress, TransformJob};
use quipu_model::{Error, OpenOptions, Place, Reader, Result, Scan, ShardId, Trace, Window};
use quipu_records::Records;
use quipu_records::write::n_good;
use quipu_source::Codec as Packing;

/// What to read, and how to treat damage.
#[derive(Clone)]
pub(crate) struct Job<'a> {
    pub(crate) opening: &'a OpenOptions,
    pub(crate) damaged: Damaged,
    pub(crate) strict: bool,
    /// Part of the trace to read.
    pub(crate) window: Window,
    /// Whether to keep the bytes of events.
    pub(crate) keeps_bytes: bool,
}

impl<'a> Job<'a> {
    /// A job that reads all events that a transform asks for.
    pub(crate) fn of(job: &TransformJob<'a>) -> Job<'a> {
        let TransformJob { opening, damaged, strict, .. } = *job;
        Job { opening, damaged, strict, window: Window::All, keeps_bytes: false }
    }
}

/// Passes all batches to `take`, which returns the number of events written so far.
///
/// # Errors
/// Returns errors of reading and of `take`, and damage that is to be refused.
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
    // Frames have checksums of their own; plain files have none.
    let is_vouched = trace.container().codec() == Packing::Plain;
    let so_far = |n| if is_vouched { SoFar::vouched(n) } else { SoFar::unvouched(n) };
    let threads = &job.opening.threads;
    let (mut packed_bytes, mut n_written, mut latest) = (0, 0, None);
    let mut n_rejoined = 0;
    // Findings from opening the trace are not damage.
    intake.take(&mut trace.meta().findings.clone(), so_far(0))?;
    loop {
        let (mut findings, span) = match reader.read() {
            Ok(Some(batch)) => (std::mem::take(&mut batch.findings), batch.span),
            read => {
                intake.end(read.map(drop), so_far(n_written))?;
                break;
            }
        };
        progress.go_on()?;
        let n_before = n_written;
        let state = reader.state();
        let (n, Rejoined { here, before }) = state.rejoined();
        if n != n_rejoined && span.records > 0 {
            // A lost frame also loses the state that its events set for later ones.
            n_rejoined = n;
            let is_wanted = threads.is_empty() || threads.contains(&span.thread);
            let here = Here { thread: here.thread.filter(|_| is_wanted), ..here };
            let (batch, bytes) = bridge(&codec, here, before, state.events());
            if !batch.events.is_empty() {
                n_written = take(&batch, &bytes)?;
            }
        }
        if span.records > 0 && (threads.is_empty() || threads.contains(&span.thread)) {
            latest = state.events().thread;
            n_written = take(state.events(), state.bytes())?;
        } else if span.records > 0 {
            // Configurations concern all threads.
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
        let n_good = n_good(&findings, &span, n_before, n_written);
        if let Err(refused) = intake.take(&mut findings, so_far(n_good)) {
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

/// Events that restore the state before a batch: its thread, and its fields if they differ from those before the lost frame.
#[cold]
fn bridge(codec: &Codec, here: Here, before: Detail, next: &Batch) -> (Batch, EventBytes) {
    let mut batch = Batch { thread: here.thread, first: next.first, ..Batch::default() };
    if codec.encoding == Encoding::Variable && here.detail != before {
        batch.events.extend(here.detail.events().map(Event::Config));
    }
    if let Some(data) = here.thread.filter(|_| next.events.first().is_none_or(|event| event.swap().is_none()))
    {
        batch.events.push(Event::Sync(Sync { kind: sync::SWAP, data, second: None }));
    }
    let mut bytes = EventBytes::default();
    let none = Batch::default();
    for event in &batch.events {
        // Both encodings can represent these events, which have no names.
        match codec.encoding {
            Encoding::Fixed => {
                let mut encoder = fixed::Encoder::new(codec.detail);
                let _ = encoder.put(event, &none);
                bytes.push(&encoder.events);
            }
            Encoding::Variable => {
                let mut encoder = variable::Encoder::agreed(here.detail);
                let _ = encoder.put(event, &none);
                bytes.push(&encoder.out);
            }
        }
    }
    (batch, bytes)
}

/// The error for an event that cannot be represented.
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
