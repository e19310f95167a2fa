//! Writing a trace again in another container: the stream stays as it is, byte for byte.

use crate::pack::StreamWriter;
use crate::trace::{ApiTrace, Packing};
use quipu_model::{Error, ErrorKind, Finding, Place, Result, Severity};
use quipu_source::StreamOptions;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// How to write.
#[derive(Clone, Copy, Debug)]
pub struct RepackOptions {
    /// The container.
    pub packing: Packing,
    /// How hard to pack; the usual if `None`.
    pub level: Option<u32>,
    /// Whether a file of that name may be replaced.
    pub replace: bool,
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct Repacked {
    /// Bytes of the stream.
    pub stream_bytes: u64,
    /// Bytes of the file.
    pub packed_bytes: u64,
    /// What was odd in the source: a stream that is cut is copied as far as it goes.
    pub findings: Vec<Finding>,
}

/// Writes the stream of `trace` to a file at `path`, which appears when it is complete.
///
/// # Errors
/// `Usage` if there is such a file and it may not be replaced; what reading and writing say. Then nothing appears.
pub fn repack(trace: &ApiTrace, path: &Path, options: &RepackOptions) -> Result<Repacked> {
    let name = path.display().to_string();
    if !options.replace && path.exists() {
        return Err(Error::usage("the file exists").in_file(name).hint("`--force` replaces it"));
    }
    let unfinished = Unfinished::beside(path);
    let failed = |what: &'static str| {
        let name = name.clone();
        move |cause: std::io::Error| Error::new(ErrorKind::Io, what).in_file(name.clone()).because(cause)
    };
    let file = File::create_new(&unfinished.0).map_err(failed("cannot create the file"))?;
    let mut repacked = Repacked::default();
    let mut writer = StreamWriter::new(BufWriter::new(file), options.packing, options.level)
        .map_err(failed("cannot write"))?;
    let container = trace.container();
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let mut block = Vec::new();
    loop {
        match stream.next(&mut block) {
            Ok(Some(_)) => {
                writer.write(&block).map_err(failed("cannot write"))?;
                repacked.stream_bytes += block.len() as u64;
            }
            Ok(None) => break,
            Err(error) if error.kind() == quipu_source::ErrorKind::Truncated => {
                repacked.findings.push(Finding {
                    rule: "source/truncated",
                    severity: Severity::Warning,
                    place: Place::from(&error),
                    message: error.what().to_owned(),
                    count: 1,
                });
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut out = writer.finish().map_err(failed("cannot write"))?;
    out.flush().map_err(failed("cannot write"))?;
    repacked.packed_bytes = out.get_ref().metadata().map_err(failed("cannot write"))?.len();
    std::fs::rename(&unfinished.0, path).map_err(failed("cannot give the file its name"))?;
    Ok(repacked)
}

/// A file that is removed unless it was given another name.
struct Unfinished(PathBuf);

impl Unfinished {
    fn beside(path: &Path) -> Unfinished {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.part", std::process::id()));
        Unfinished(path.with_file_name(name))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It is not there any more if all went well.
        let _ = std::fs::remove_file(&self.0);
    }
}
