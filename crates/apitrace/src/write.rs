//! Writing traces: a file that appears when it is complete, with calls written anew, or a stream copied as it is.
//!
//! [`TraceWriter`] writes calls, [`repack`] copies a stream byte for byte into another container; [`NewFile`] is where both
//! write to. SPEC: docs/formats/apitrace.md, "Writing".

use crate::decode::Header;
use crate::encode::{self, Encoder, Incomplete};
use crate::feed::recoverable;
use crate::pack::{StreamWriter, levels};
use crate::trace::{ApiTrace, Packing};
use quipu_model::edit::{Progress, check_level};
use quipu_model::fresh::{Fresh, cannot};
use quipu_model::trace::Fact;
use quipu_model::values::{Call, Types, Values};
use quipu_model::{Error, Finding, Result};
use quipu_source::StreamOptions;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Calls are handed on when their bytes are so many.
const BUFFER_BYTES: usize = 64 << 10;

/// How to write.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// The container.
    pub packing: Packing,
    /// How hard to pack; the usual if `None`.
    pub level: Option<u32>,
    /// Whether a file of that name may be replaced.
    pub replace: bool,
    /// What becomes of calls that never returned.
    pub incomplete: Incomplete,
}

impl WriteOptions {
    /// The usual: Zstandard with a table of frames, nothing is replaced, and what is incomplete stays so.
    pub const USUAL: WriteOptions = WriteOptions {
        packing: Packing::SeekableZstd,
        level: None,
        replace: false,
        incomplete: Incomplete::Kept,
    };
}

/// The container that a name asks for, or else the name of the output; Zstandard with a table of frames if neither does.
///
/// # Errors
/// `Usage` if there is no such container, or no such level of it.
pub fn packing_for(container: Option<&str>, level: Option<u32>, output: &Path) -> Result<Packing> {
    let packing = match container {
        Some("zstd" | "zst" | "zstd-seekable") => Packing::SeekableZstd,
        Some("zstd-noseek") => Packing::Zstd,
        Some("snappy" | "sz") => Packing::Snappy,
        Some("gzip" | "gz" | "zlib") => Packing::Gzip,
        Some("brotli" | "br") => Packing::Brotli,
        Some("plain") => Packing::Plain,
        Some(other) => {
            let what = match quipu_source::Packing::named(other) {
                Some(_) => format!("apitrace cannot read {other}"),
                None => format!("no container is called `{other}`"),
            };
            return Err(Error::usage(what).hint(
                "containers of such traces: zstd, zstd-noseek, snappy, gzip, brotli, plain; Brotli for names that end in `.br`",
            ));
        }
        None => match output.extension().and_then(|extension| extension.to_str()) {
            Some("br") => Packing::Brotli,
            Some("gz") => Packing::Gzip,
            Some(other @ ("zip" | "lz4")) => return packing_for(Some(other), level, output),
            _ => Packing::SeekableZstd,
        },
    };
    let name = container.unwrap_or(packing.name());
    check_level(level, levels(packing).map(|(levels, _)| levels), name)?;
    Ok(packing)
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Calls; none are counted where a stream is copied.
    pub calls: u64,
    /// Bytes of the stream.
    pub stream_bytes: u64,
    /// Bytes of the file.
    pub packed_bytes: u64,
    /// What was odd in the source: a stream that is cut is copied as far as it goes.
    pub findings: Vec<Finding>,
}

impl Written {
    /// What to say of it.
    pub fn facts(&self, packing: Packing) -> Vec<Fact> {
        let fact = |key, label, value| Fact { key, label, value };
        vec![
            fact("container", "container", json!(packing.name())),
            fact("stream_bytes", "bytes of the stream", json!(self.stream_bytes)),
            fact("packed_bytes", "bytes of the file", json!(self.packed_bytes)),
        ]
    }
}

/// A file that appears under its name when it is complete.
pub struct NewFile {
    path: PathBuf,
    fresh: Fresh,
    out: StreamWriter<BufWriter<File>>,
    stream_bytes: u64,
}

impl NewFile {
    /// Begins a file beside the one that it is to be.
    ///
    /// # Errors
    /// `Usage` if there is such a file and it may not be replaced, or it is a folder; `Io` if it cannot be made.
    pub fn create(path: &Path, options: &WriteOptions) -> Result<NewFile> {
        let (fresh, file) = Fresh::file(path, options.replace.into())?;
        let out = StreamWriter::new(BufWriter::new(file), options.packing, options.level)
            .map_err(|cause| cannot("write", path, cause))?;
        Ok(NewFile { path: path.to_owned(), fresh, out, stream_bytes: 0 })
    }

    /// Adds bytes of the stream.
    ///
    /// # Errors
    /// `Io` if they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream_bytes += bytes.len() as u64;
        self.out.write(bytes).map_err(|cause| cannot("write", &self.path, cause))
    }

    /// Writes what is left and gives the file its name.
    ///
    /// # Errors
    /// `Io` if that fails; then there is no file.
    pub fn finish(self) -> Result<Written> {
        let NewFile { path, fresh, out, stream_bytes } = self;
        let finish = || -> io::Result<u64> {
            let mut out = out.finish()?;
            out.flush()?;
            Ok(out.get_ref().metadata()?.len())
        };
        let packed_bytes = finish().map_err(|cause| cannot("write", &path, cause))?;
        fresh.commit()?;
        Ok(Written { stream_bytes, packed_bytes, ..Written::default() })
    }
}

/// Writes calls as a stream of the newest version.
pub struct TraceWriter {
    file: NewFile,
    encoder: Encoder,
    buffer: Vec<u8>,
    calls: u64,
}

impl TraceWriter {
    /// Begins a trace that says of itself what `header` says.
    ///
    /// # Errors
    /// Those of [`NewFile::create`].
    pub fn create(path: &Path, header: &Header, options: &WriteOptions) -> Result<TraceWriter> {
        let file = NewFile::create(path, options)?;
        let mut buffer = Vec::new();
        encode::header(header, &mut buffer);
        Ok(TraceWriter { file, encoder: Encoder::new(options.incomplete), buffer, calls: 0 })
    }

    /// Writes a call; it gets the next number. All calls of a trace come with the same, growing, types.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub fn call(&mut self, call: &Call, values: &Values, types: &Types) -> Result<()> {
        self.encoder.call(call, values, types, &mut self.buffer);
        self.calls += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.file.write(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Ends the trace and gives the file its name.
    ///
    /// # Errors
    /// `Io` if that fails; then there is no file.
    pub fn finish(mut self) -> Result<Written> {
        self.file.write(&self.buffer)?;
        Ok(Written { calls: self.calls, ..self.file.finish()? })
    }
}

/// Writes the stream of `trace` to a file at `path`, byte for byte; it appears when it is complete.
///
/// # Errors
/// `Usage` if there is such a file and it may not be replaced; what reading and writing say. Then nothing appears.
pub fn repack(
    trace: &ApiTrace,
    path: &Path,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<Written> {
    let mut file = NewFile::create(path, options)?;
    let mut findings = Vec::new();
    copy(trace, &mut findings, &mut |block| {
        progress.go_on()?;
        file.write(block)
    })?;
    Ok(Written { findings, ..file.finish()? })
}

/// Hands over the stream of a trace in blocks, as far as it goes.
pub(crate) fn copy(
    trace: &ApiTrace,
    findings: &mut Vec<Finding>,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let container = trace.container();
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let mut block = Vec::new();
    loop {
        match stream.next(&mut block) {
            Ok(Some(_)) => take(&block)?,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == quipu_source::ErrorKind::Truncated => {
                findings.push(Finding::of_cut_file(&error.into()));
            }
            Err(error) => return Err(recoverable(container.name(), error.into())),
        }
    }
}
