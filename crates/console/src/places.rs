//! Where no trace is written: in a folder that is read as one, since the next read would count it.

use quipu::model::{Error, OpenOptions};
use quipu::source::Source;
use std::path::{Path, PathBuf};

/// Refuses a new file or folder among the files that are read where one of these paths is opened.
///
/// # Errors
/// `Usage` if `output` would lie there.
pub fn refuse_among<P: AsRef<Path>>(inputs: &[P], output: &Path) -> quipu::model::Result<()> {
    // What exists lies in an input itself, and writing says so.
    if output.symlink_metadata().is_ok() {
        return Ok(());
    }
    let parent = output.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    // Where there is no folder to write to, writing says so.
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

/// The same of a page or a text, which is read by its name only.
///
/// # Errors
/// As for [`refuse_among`], if a format takes a file of that name for a part of a trace.
pub fn refuse_text_among<P: AsRef<Path>>(inputs: &[P], output: &Path) -> quipu::model::Result<()> {
    let is_claimed = |name: &str| quipu::FORMATS.iter().any(|format| format.claims(name));
    match output.file_name() {
        Some(name) if is_claimed(&name.to_string_lossy()) => refuse_among(inputs, output),
        _ => Ok(()),
    }
}

/// The folder whose files are read where `folder` is opened, as the format that recognises it says.
fn read_in(folder: PathBuf) -> PathBuf {
    let read = || {
        let source = Source::open(&folder).ok()?;
        let format = quipu::format_of(&source, &OpenOptions::default()).ok()??;
        format.folder_read(&source).path().map(Path::to_owned)
    };
    read().unwrap_or(folder)
}
