//! Prevents outputs inside folders that are read as traces, since the next read would take them for a part of the trace.

use quipu::model::{Error, OpenOptions};
use quipu::source::Source;
use std::path::{Path, PathBuf};

/// Refuses a new file or folder among the files that are read when one of `inputs` is opened.
///
/// # Errors
/// `Usage` if `output` would lie there.
pub fn refuse_among<P: AsRef<Path>>(inputs: &[P], output: &Path) -> quipu::model::Result<()> {
    // An existing output is checked when it is written.
    if output.symlink_metadata().is_ok() {
        return Ok(());
    }
    let parent = output.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    // A missing parent folder is reported when the output is written.
    let Ok(parent) = std::fs::canonicalize(parent) else { return Ok(()) };
    let holds = |input: &P| {
        let folder = std::fs::canonicalize(input).ok().filter(|folder| folder.is_dir());
        folder.is_some_and(|folder| parent.starts_with(&folder) && parent.starts_with(read_in(folder)))
    };
    if !inputs.iter().any(holds) {
        return Ok(());
    }
    Err(Error::usage("the output would be a part of the trace that is read")
        .in_file(output.display().to_string())
        .hint("name a file or folder outside the folder that is read"))
}

/// Does the same for a page or a text, which only its name can make a part of a trace.
///
/// # Errors
/// As for [`refuse_among`], if a format claims files of that name.
pub fn refuse_text_among<P: AsRef<Path>>(inputs: &[P], output: &Path) -> quipu::model::Result<()> {
    let is_claimed = |name: &str| quipu::FORMATS.iter().any(|format| format.claims(name));
    match output.file_name() {
        Some(name) if is_claimed(&name.to_string_lossy()) => refuse_among(inputs, output),
        _ => Ok(()),
    }
}

/// The folder whose files are read when `folder` is opened, according to the format that recognises it.
fn read_in(folder: PathBuf) -> PathBuf {
    let read = || {
        let source = Source::open(&folder).ok()?;
        let format = quipu::format_of(&source, &OpenOptions::default()).ok()??;
        format.folder_read(&source).path().map(Path::to_owned)
    };
    read().unwrap_or(folder)
}
