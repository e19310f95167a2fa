//! `convert`: a capture as a stream that describes itself, or a buffer with its descriptions in it.

use crate::build::id_of;
use crate::carried::Encoded;
use crate::describe::Capture;
use crate::{carried, export, linux, messages, meta, mid, trace};
use quipu_model::damaged::{Intake, SoFar};
use quipu_model::fresh::{Fresh, cannot};
use quipu_model::options::{Kind, OptionSpec};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, Result};
use quipu_wire::record::Producer;
use std::io::{BufWriter, Write};

/// The ending of the name of a stream.
const STREAM: &str = "quipu";

/// The ending of the name of a bare buffer.
const BUFFER: &str = "midbuf";

/// The verb `convert`.
#[derive(Debug)]
pub struct Convert;

/// How records are written into streams.
const ENCODING: OptionSpec = OptionSpec::new(
    "encoding",
    Kind::Choice(&["plain", "dense"]),
    "plain",
    "How a stream has records of DTrace: as they are, or as differences and runs, which the stream announces.",
);

static INFO: TransformInfo = TransformInfo {
    name: "convert",
    title: "the same capture as a stream (NAME.quipu), as a buffer with its descriptions in it (NAME.midbuf), or as a \
            folder (a name without ending)",
    options: &[ENCODING],
};

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Stream,
    Buffer,
    Folder,
}

impl Transform for Convert {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        if let Some(container) = job.container {
            let what =
                format!("captures of DTrace are written without a container; `{container}` was asked for");
            return Err(Error::usage(what));
        }
        let form = match job.output.extension().and_then(|ending| ending.to_str()) {
            Some(STREAM) => Form::Stream,
            Some(BUFFER) => Form::Buffer,
            None => Form::Folder,
            Some(_) => {
                let message =
                    format!("the name of the output ends neither with `.{STREAM}` nor with `.{BUFFER}`");
                return Err(Error::usage(message).hint("a name without an ending is that of a folder"));
            }
        };
        let encoded = match job.options.text(&ENCODING) {
            Some(name) if name.eq_ignore_ascii_case("dense") => Encoded::Dense,
            _ => Encoded::Plain,
        };
        if encoded != Encoded::Plain && form != Form::Stream {
            return Err(Error::usage("`--encoding` is for streams").hint(format!("write NAME.{STREAM}")));
        }
        let capture = trace::load(job.source, job.opening)?;
        progress.go_on()?;
        let mut intake = Intake::new(job.damaged).strict(job.strict);
        intake.take(&mut capture.findings.clone(), SoFar::unvouched(0))?;
        let producer =
            Producer { uuid: id_of(&capture), program: Some("dtrace".to_owned()), ..Producer::default() };
        let failed = |cause| cannot("write", job.output, cause);
        let notes = losses(&capture, form);
        let mut n_written = 0;
        match form {
            Form::Folder => {
                let (fresh, folder) = Fresh::folder(job.output, job.replace.into(), &is_of_capture)?;
                for (name, bytes) in export::files(&capture) {
                    progress.go_on()?;
                    let mut file = folder.create(&folder.join(name))?;
                    file.write_all(&bytes).map_err(failed)?;
                    n_written += bytes.len() as u64;
                }
                folder.judge()?;
                fresh.commit()?;
            }
            Form::Stream => {
                let (fresh, file) = Fresh::file(job.output, job.replace.into())?;
                let mut out = carried::write(&capture, producer, encoded, BufWriter::new(file))?;
                out.flush().map_err(failed)?;
                drop(out);
                fresh.commit()?;
            }
            Form::Buffer => {
                let [buffer] = capture.buffers.as_slice() else {
                    let n = capture.buffers.len();
                    let message = format!("a bare buffer is of one CPU, the capture has {n} buffers");
                    return Err(Error::unsupported(message).hint(format!("write NAME.{STREAM}")));
                };
                let bytes = mid::write(&capture, buffer, producer)?;
                let (fresh, mut file) = Fresh::file(job.output, job.replace.into())?;
                file.write_all(&bytes).map_err(failed)?;
                drop(file);
                fresh.commit()?;
            }
        }
        if form != Form::Folder {
            n_written = std::fs::metadata(job.output).map_or(0, |meta| meta.len());
        }
        let n_bytes: usize =
            capture.buffers.iter().chain(&capture.states).map(|buffer| buffer.bytes.len()).sum();
        let facts = vec![
            Fact::new("buffers", "buffers", capture.buffers.len() + capture.states.len()),
            Fact::new("bytes", "bytes of the buffers", n_bytes as u64),
            Fact::new("packed_bytes", "bytes that were written", n_written),
        ];
        Ok(Transformed { facts, notes, reading: intake.finish(), ..Transformed::default() })
    }
}

/// True for what a folder of a capture may hold, where it is replaced.
fn is_of_capture(path: &std::path::Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let is_buffer = (name.starts_with("buf.cpu") || name.starts_with("agg.cpu")) && name.ends_with(".bin");
    is_buffer || [meta::FILE, linux::FILE, linux::OPTIONS].contains(&&*name)
}

/// What the form that is written has no room for.
fn losses(capture: &Capture, form: Form) -> Vec<String> {
    if form == Form::Folder {
        return Vec::new();
    }
    let mut notes = Vec::new();
    let mut lose = |n: u64, what: &str| {
        if n > 0 {
            notes.push(format!("no room for {what}: {n} left out"));
        }
    };
    let aggregations = capture.aggregations.iter();
    let recs = aggregations.flat_map(|described| described.keys.iter().chain([&described.value]));
    let recs = recs.chain(capture.enablings.iter().flat_map(|enabling| &enabling.recs));
    lose(capture.types.len() as u64, "types of `print()`");
    lose(recs.filter(|rec| rec.signed.is_some()).count() as u64, "signs of values");
    let buffers = capture.buffers.iter().chain(&capture.states);
    lose(buffers.map(|buffer| buffer.errors).sum(), "counts of errors");
    if form == Form::Buffer {
        lose(capture.states.len() as u64, "buffers of aggregations");
        lose(messages::drops(capture).iter().map(|(n, _)| n).sum(), "counts of drops");
    }
    notes
}
