//! `assemble`: turns a text into the stream that it describes, in a container.

use super::disassemble::blob_folder;
use super::parse::Parser;
use crate::write::{NewFile, WriteOptions, Written, packing_for};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, ErrorKind, Result};
use quipu_source::Reading;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Component, Path};

/// The edit.
#[derive(Debug)]
pub struct Assemble;

static INFO: TransformInfo = TransformInfo {
    name: "assemble",
    title: "the trace that a text says, which `disassemble` wrote and people may have changed",
    options: &[],
};

/// Bytes of the stream are passed on when there are this many.
const BUFFER_BYTES: usize = 64 << 10;

impl Transform for Assemble {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        if !job.opening.threads.is_empty() {
            return Err(Error::usage("a text is assembled as a whole"));
        }
        let packing = packing_for(job.container, job.level, job.output)?;
        let options = WriteOptions { packing, level: job.level, replace: job.replace, ..WriteOptions::USUAL };
        let written = assemble(Path::new(job.source.name()), job.output, &options, progress)?;
        let mut facts = vec![Fact::new("calls", "calls", written.calls)];
        facts.extend(written.facts(packing));
        Ok(Transformed { facts, ..Transformed::default() })
    }
}

/// Writes the stream that the file `text` describes to a file at `path`, which appears when it is complete.
///
/// # Errors
/// `Malformed`, with line and column, for mistakes in the text; `Usage` if the file exists and may not be replaced; errors of
/// reading and writing.
pub fn assemble(
    text: &Path,
    path: &Path,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<Written> {
    let name = text.display().to_string();
    let file = File::open(text).map_err(|cause| {
        let kind = match cause.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::Missing,
            _ => ErrorKind::Io,
        };
        Error::new(kind, "cannot open the text").in_file(name.clone()).because(cause)
    })?;
    let folder = blob_folder(text);
    Reading::keep(text);
    let mut file_of = |name: &str| blob(&folder, name);
    let mut new = NewFile::create(path, options)?;
    let calls = stream(BufReader::with_capacity(64 << 10, file), &name, &mut file_of, &mut |bytes| {
        progress.go_on()?;
        new.write(bytes)
    })?;
    Ok(Written { calls, ..new.finish()? })
}

/// Passes the stream that a text describes to `take`, in parts; returns its number of calls.
///
/// # Errors
/// `Malformed`, with line and column, for mistakes in the text; errors of `blobs` and `take`.
pub fn stream(
    text: impl BufRead,
    name: &str,
    blobs: &mut dyn FnMut(&str) -> Result<Vec<u8>>,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let mut out = Vec::new();
    let mut parser = Parser::new(text, name, blobs, &mut out)?;
    while parser.statement(&mut out)? {
        if out.len() >= BUFFER_BYTES {
            take(&out)?;
            out.clear();
        }
    }
    take(&out)?;
    Ok(parser.n_calls)
}

/// Reads a file of raw memory. The name cannot lead out of the folder.
fn blob(folder: &Path, name: &str) -> Result<Vec<u8>> {
    let is_plain = matches!(Path::new(name).components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
    if !is_plain {
        return Err(Error::usage(format!("`{name}` is no name of a file in the folder of raw memory")));
    }
    let path = folder.join(name);
    Reading::keep(&path);
    std::fs::read(&path).map_err(|cause| {
        let kind = match cause.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::Missing,
            _ => ErrorKind::Io,
        };
        Error::new(kind, "cannot read raw memory").in_file(path.display().to_string()).because(cause)
    })
}
