//! `convert` and `merge`: write the same events as a stream or as plain bytes, in either encoding.

use crate::codec::Encoding;
use crate::drive::{Job, each_batch};
use crate::dump;
use crate::event::Event;
use crate::file::{EventFile, Target, copy_batch, put_batch};
use crate::nonsense::Sparse;
use crate::trace::{self, PrismTrace};
use quipu_model::damaged::Damaged;
use quipu_model::number::counted;
use quipu_model::options::Kind;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{OptionSpec, Options, Result};
use quipu_records::Feed;
use quipu_source::StreamOptions;

/// The verbs `convert` and `merge`: several files of threads are one trace, which is written as one file.
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

/// The option for the encoding to write.
const EVENTS: OptionSpec = OptionSpec::new(
    "events",
    Kind::Choice(&["fixed", "variable"]),
    "that of the source",
    "Encoding of events; refused if an event does not fit.",
)
.value("fixed|variable");

/// The option to write events without a stream around them.
pub(crate) const PLAIN: OptionSpec = OptionSpec::flag(
    "plain",
    "Write events alone, as a front end delivers them; the file then does not identify itself.",
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
        // If the encoding stays, bytes are kept as they are: unused ones, and sizes that are ambiguous.
        let is_same = encoding == codec.encoding;
        let is_plain = job.options.flag(&PLAIN);
        let is_headless = is_same && codec.is_headless();
        // Plain events begin as they did, unless an option says their fields, which nothing would say then.
        let is_bare = is_plain && is_headless && (codec.n_added_bytes > 0 || !codec.is_detail_said);
        // Others begin with their fields, unless events configure them.
        let is_said = is_bare || codec.is_configured && codec.detail == crate::Detail::NONE;
        let mut file = EventFile::create(Target::of(job, is_plain), encoding, codec.detail, is_said)?;
        if is_headless && !is_plain {
            file.say_head_is_added();
        }
        let is_copy = is_same && encoding == Encoding::Fixed && job.opening.threads.is_empty();
        if is_same {
            file.set_dialect(codec.dialect);
        }
        let mut detail = codec.detail;
        let mut n_read = 0;
        // Plain events have no checksums, so readers will judge them.
        let is_judged = is_plain && job.damaged == Damaged::Keep;
        let mut sparse = Sparse::default();
        let reading = Job { keeps_bytes: is_same && !is_copy, ..Job::of(job) };
        let reading = each_batch(&trace, reading, progress, |batch, bytes| {
            n_read += batch.events.len() as u64;
            if is_copy {
                return Ok(n_read);
            }
            let takes = |event: &Event| !is_judged || sparse.takes(event);
            match is_same {
                true => copy_batch(&mut file, batch, bytes, takes)?,
                false => put_batch(&mut file, batch, &mut detail, takes)?,
            }
            Ok(file.n_events())
        })
        .map_err(|error| error.in_file(job.source.name()))?;
        let is_whole =
            reading.error.is_none() && reading.findings.iter().all(|finding| finding.loss.is_none());
        if is_copy && is_whole {
            copy_buffers(&trace, &mut file)?;
        } else if is_copy {
            // For damaged buffers, copies the events that readers accept.
            let again = Job { keeps_bytes: true, damaged: Damaged::Keep, strict: false, ..Job::of(job) };
            each_batch(&trace, again, progress, |batch, bytes| {
                copy_batch(&mut file, batch, bytes, |event| !is_judged || sparse.takes(event))?;
                Ok(file.n_events())
            })?;
        }
        let mut notes = Vec::new();
        if sparse.n_left_out > 0 {
            let n = counted(sparse.n_left_out, "event");
            notes.push(format!(
                "{n} of unknown types left out: so close to each other they would be nonsense"
            ));
        }
        if let Some(error) = reading.nothing_left().filter(|_| file.n_events() == 0) {
            return Err(error);
        }
        Ok(Transformed { facts: file.finish()?, reading, notes, ..Transformed::default() })
    }
}

/// Copies whole buffers, with their unused bytes.
fn copy_buffers(trace: &PrismTrace, file: &mut EventFile) -> Result<()> {
    let mut feed = Feed::new(trace.container(), &StreamOptions::default())?;
    while feed.more(dump::HEADER_BYTES) {
        feed.more(dump::needed(feed.unused()).unwrap_or(dump::HEADER_BYTES));
        let buffer = dump::Buffer::read(feed.unused(), feed.offset())?;
        let n_bytes = buffer.len();
        file.put_buffer(&buffer)?;
        feed.use_up(n_bytes);
    }
    feed.take_failure().map_or(Ok(()), Err)
}
