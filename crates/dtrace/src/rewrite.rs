//! `convert`: a capture as a stream that describes itself, or a buffer with its descriptions in it.

use crate::describe::Capture;
use crate::{carried, mid, trace};
use quipu_model::fresh::{Fresh, cannot};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, Result};
use quipu_wire::record::Producer;
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::io::{BufWriter, Write};

/// The ending of the name of a stream.
const STREAM: &str = "quipu";

/// The ending of the name of a bare buffer.
const BUFFER: &str = "midbuf";

/// The verb `convert`.
#[derive(Debug)]
pub struct Convert;

static INFO: TransformInfo = TransformInfo {
    name: "convert",
    title: "the same capture as a stream (NAME.quipu), or as a buffer with its descriptions in it (NAME.midbuf)",
    options: &[],
};

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
        let ending = job.output.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        if ending != STREAM && ending != BUFFER {
            let message = format!("the name of the output says neither `.{STREAM}` nor `.{BUFFER}`");
            return Err(Error::usage(message));
        }
        let capture = trace::load(job.source, job.opening)?;
        progress.go_on()?;
        let producer =
            Producer { uuid: id_of(&capture), program: Some("dtrace".to_owned()), ..Producer::default() };
        let (fresh, file) = Fresh::file(job.output, job.replace.into())?;
        let failed = |cause| cannot("write", job.output, cause);
        let mut out = BufWriter::new(file);
        let mut notes = Vec::new();
        if ending == STREAM {
            out = carried::write(&capture, producer, out)?;
        } else {
            let [buffer] = capture.buffers.as_slice() else {
                let n = capture.buffers.len();
                let message = format!("a bare buffer is of one CPU, the capture has {n} buffers");
                return Err(Error::unsupported(message).hint(format!("write NAME.{STREAM}")));
            };
            if !capture.states.is_empty() {
                notes.push("a bare buffer has no room for aggregations, which are left out".to_owned());
            }
            out.write_all(&mid::write(&capture, buffer, producer)?).map_err(failed)?;
        }
        out.flush().map_err(failed)?;
        drop(out);
        fresh.commit()?;
        let n_bytes: usize =
            capture.buffers.iter().chain(&capture.states).map(|buffer| buffer.bytes.len()).sum();
        let packed_bytes = std::fs::metadata(job.output).map_or(0, |meta| meta.len());
        let facts = vec![
            Fact::new("buffers", "buffers", capture.buffers.len() + capture.states.len()),
            Fact::new("bytes", "bytes of the buffers", n_bytes as u64),
            Fact::new("packed_bytes", "bytes that were written", packed_bytes),
        ];
        Ok(Transformed { facts, notes, ..Transformed::default() })
    }
}

/// A number that two captures share only if their buffers are the same, so that the same capture gives the same bytes.
fn id_of(capture: &Capture) -> [u8; 16] {
    let mut id = [0; 16];
    for (half, seed) in id.chunks_exact_mut(8).zip([1u64, 2]) {
        let mut hasher = FxHasher::default();
        hasher.write_u64(seed);
        for buffer in capture.buffers.iter().chain(&capture.states) {
            hasher.write_u32(buffer.cpu);
            hasher.write(&buffer.bytes);
        }
        half.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    id
}
