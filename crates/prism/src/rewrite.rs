//! `convert` and `merge`: the same events as a stream or as plain bytes, in either encoding.

use crate::codec::Encoding;
use crate::drive::{Job, each_batch};
use crate::file::{EventFile, Target, copy_batch, put_batch};
use crate::trace::{self, PrismTrace};
use crate::{dump, fault, fixed, nonsense};
use quipu_model::options::Kind;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, OptionSpec, Options, Result};
use quipu_records::{Ending, Feed};
use quipu_source::StreamOptions;

/// The verbs `convert` and `merge`: files of threads are one trace, which is written as one file.
#[derive(Debug)]
pub struct Rewrite(&'static TransformInfo);

/// The verb `convert`.
pub static CONVERT: Rewrite = Rewrite(&TransformInfo {
    name: "convert",
    title: "the same events as a stream or plain, in either encoding",
    options: &[EVENTS, PLAIN],
});

/// The verb `merge`.
pub static MERGE: Rewrite = Rewrite(&TransformInfo {
    name: "merge",
    title: "files of threads as one, in the order that the events had",
    options: &[EVENTS, PLAIN],
});

/// The encoding that is written.
const EVENTS: OptionSpec = OptionSpec::new(
    "events",
    Kind::Choice(&["fixed", "variable"]),
    "that of the source",
    "How events are encoded; refused where an encoding has no room for one.",
)
.value("fixed|variable");

/// Whether there is no stream around the events.
pub(crate) const PLAIN: OptionSpec = OptionSpec::flag(
    "plain",
    "Write events alone, as a front end delivers them: nothing says then what the file is.",
);

impl Transform for Rewrite {
    fn info(&self) -> &'static TransformInfo {
        self.0
    }

    fn reads_again(&self, _: &Options) -> bool {
        true
    }

    fn lacks(&self, option: &str) -> Option<&'static str> {
        matches!(option, "sharding" | "format-version" | "chunk-instrs" | "dialect")
            .then_some("a stream of events has no chunks, versions or byte orders")
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let trace = trace::open(job.source, job.opening)?;
        let codec = *trace.codec();
        let encoding = match job.options.text(&EVENTS) {
            Some("fixed") => Encoding::Fixed,
            Some("variable") => Encoding::Variable,
            _ => codec.encoding,
        };
        // A stream says its fields first, unless its events do.
        let is_said = codec.is_configured && codec.detail == crate::Detail::NONE;
        let target = Target::of(job, job.options.flag(&PLAIN));
        let mut file = EventFile::create(target, encoding, codec.detail, is_said)?;
        // Bytes stay as they are where the encoding does: those that mean nothing, sizes that cannot be decided.
        let is_same = encoding == codec.encoding;
        let is_copy = is_same && encoding == Encoding::Fixed && job.opening.threads.is_empty();
        if is_same {
            file.set_dialect(codec.dialect);
        }
        let mut detail = codec.detail;
        let mut n_read = 0;
        let reading = Job { keeps_bytes: is_same && !is_copy, ..Job::of(job) };
        let reading = each_batch(&trace, reading, progress, |batch, bytes| {
            n_read += batch.events.len() as u64;
            if is_copy {
                return Ok(n_read);
            }
            match is_same {
                true => copy_batch(&mut file, batch, bytes)?,
                false => put_batch(&mut file, batch, &mut detail)?,
            }
            Ok(file.n_events())
        })
        .map_err(|error| error.in_file(job.source.name()))?;
        if is_copy {
            let is_damaged = !reading.findings.is_empty() || reading.error.is_some();
            copy_buffers(&trace, is_damaged, &mut file)?;
        }
        if let Some(error) = reading.nothing_left().filter(|_| file.n_events() == 0) {
            return Err(error);
        }
        Ok(Transformed { facts: file.finish()?, reading, ..Transformed::default() })
    }
}

/// Copies whole buffers, with the bytes in them that mean nothing.
fn copy_buffers(trace: &PrismTrace, is_damaged: bool, file: &mut EventFile) -> Result<()> {
    let mut feed = Feed::new(trace.container(), &StreamOptions::default())?;
    while feed.more(dump::HEADER_BYTES) {
        let n_bytes = dump::needed(feed.unused()).unwrap_or(dump::HEADER_BYTES);
        feed.more(n_bytes);
        let buffer = match dump::Buffer::read(feed.unused(), feed.offset()) {
            Ok(buffer) => buffer,
            // What is wrong was found before. Of a buffer that is cut, the events are kept that are whole.
            Err(fault::Fault { .. }) => {
                let is_unread = feed.ending() == Some(Ending::Unread);
                return match dump::Buffer::cut(feed.unused()).filter(|_| !is_unread) {
                    Some(buffer) => put_whole(&buffer, trace.codec().detail, file),
                    None => Ok(()),
                };
            }
        };
        let n_bytes = buffer.len();
        match is_damaged {
            true => put_whole(&buffer, trace.codec().detail, file)?,
            false => file.put_buffer(&buffer)?,
        }
        feed.use_up(n_bytes);
    }
    match feed.take_failure() {
        Some(error) if !error.is_damage() => Err(error),
        _ => Ok::<(), Error>(()),
    }
}

/// Copies the events of a buffer that readers take, without those with wrong names and without nonsense.
fn put_whole(buffer: &dump::Buffer<'_>, detail: crate::Detail, file: &mut EventFile) -> Result<()> {
    let (mut scratch, mut events) = (crate::Batch::default(), Vec::with_capacity(buffer.events.len()));
    let mut rest = buffer.events;
    for slot in buffer.events.as_chunks::<{ fixed::EVENT_BYTES }>().0 {
        scratch.clear();
        match fixed::event(slot, buffer.names, detail, &mut scratch) {
            // Nor do readers take what follows nonsense in its buffer.
            Ok(event) if nonsense::is_unknown(&event) && nonsense::in_slots(rest, detail).is_some() => break,
            Ok(_) => events.extend_from_slice(slot),
            Err(_) => {}
        }
        rest = rest.get(fixed::EVENT_BYTES..).unwrap_or_default();
    }
    if events.is_empty() {
        return Ok(());
    }
    file.put_buffer(&dump::Buffer { events: &events, names: buffer.names })
}
