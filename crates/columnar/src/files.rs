//! Recognises files and folders, and opens files when they are read.

use crate::manifest::MANIFEST;
use crate::rules;
use quipu_arrow::Form;
use quipu_arrow::read::{RowFile, form_of_head, form_of_tail};
use quipu_model::{Confidence, Error, ErrorKind, Finding, Loss, Place, Result};
use quipu_source::{Codec, Container, Source};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Number of first bytes that identify a file.
const HEAD_BYTES: usize = 16;
/// Maximum number of files in a folder without a manifest.
pub(crate) const MAX_FILES: usize = 1 << 16;

/// Number of last bytes that identify a file.
const TAIL_BYTES: usize = 8;

/// Identifies a file by its first bytes.
fn form_of(source: &Source) -> Option<Form> {
    if source.is_folder() {
        return None;
    }
    form_of_head(&source.head(HEAD_BYTES).ok()?)
}

/// Identifies a file by its last bytes or its name, for files whose first bytes are damaged.
fn form_of_end(source: &Source) -> Option<Form> {
    let of_tail = source.packed_tail(TAIL_BYTES).ok().and_then(|tail| form_of_tail(&tail));
    of_tail.or_else(|| match Path::new(source.name()).extension()?.to_str()? {
        "parquet" => Some(Form::Parquet),
        "arrow" => Some(Form::File),
        "arrows" => Some(Form::Stream),
        _ => None,
    })
}

/// Recognises Parquet and Arrow files and folders whose first bytes or manifest are damaged; at most `Maybe`.
pub fn probe_far(source: &Source) -> Confidence {
    let is_one = match source.is_folder() {
        false => form_of_end(source).is_some(),
        true => plain_files(source).is_ok_and(|files| !files.is_empty()) || has_tables(source),
    };
    if is_one { Confidence::Maybe } else { Confidence::No }
}

/// True for a folder with folders of Parquet files, the layout that a manifest describes.
fn has_tables(folder: &Source) -> bool {
    let is_table =
        |table: &Source| table.is_folder() && plain_files(table).is_ok_and(|files| !files.is_empty());
    folder.files().is_ok_and(|entries| entries.iter().any(is_table))
}

/// The error for a folder that has neither a manifest nor only the files of one table.
pub(crate) fn no_manifest(folder: &Source) -> Error {
    if has_tables(folder) {
        let what = format!("the folder has no `{MANIFEST}`, which says what its tables are");
        let error = Error::truncated(what).in_file(folder.name());
        return all_lost(error).hint("each file of it opens as a table by itself");
    }
    let what = "a folder of Parquet has a manifest, or files of Parquet only";
    Error::unsupported(what).in_file(folder.name())
}

/// Turns an error from opening into one that reports all data as lost, if damage is the reason. Other errors are returned
/// unchanged.
pub(crate) fn all_lost(error: Error) -> Error {
    if !matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Truncated | ErrorKind::Damaged) {
        return error;
    }
    let place = error.place().clone();
    let start = Place { offset: place.offset.map(|_| 0), ..place.clone() };
    let what = format!("nothing of the file can be read: {}", error.message());
    Error::new(ErrorKind::Damaged, what).at(&place).losing(Loss::from(start)).because(error)
}

/// Recognises Parquet and Arrow files and folders by their first bytes or their manifest.
pub fn probe(source: &Source) -> Confidence {
    let is_marked = |file: &Source| form_of(file) == Some(Form::Parquet);
    if source.is_folder() {
        return match source.child(MANIFEST) {
            Some(manifest) if crate::manifest::is_one(&manifest) => Confidence::Sure,
            _ if plain_files(source).is_ok_and(|files| files.iter().any(is_marked)) => Confidence::Likely,
            _ => Confidence::No,
        };
    }
    match form_of(source) {
        Some(Form::Parquet | Form::File) => Confidence::Sure,
        Some(Form::Stream) => Confidence::Likely,
        None => Confidence::No,
    }
}

/// The files of a folder that has only files named `*.parquet`, besides those whose names begin with `_` or `.`; none for any
/// other folder, or for one with more than `MAX_FILES`.
///
/// # Errors
/// Those of listing the folder.
pub(crate) fn plain_files(folder: &Source) -> Result<Vec<Source>> {
    let files = folder.files()?;
    // Other programs put files without rows, such as `_SUCCESS`, next to the data.
    let is_beside = |file: &Source| {
        let name = file.name().rsplit('/').next().unwrap_or_default();
        name.starts_with('_') || name.starts_with('.')
    };
    let files: Vec<Source> = files.into_iter().filter(|file| !is_beside(file)).collect();
    let is_all = files.iter().all(|file| !file.is_folder() && file.name().ends_with(".parquet"));
    Ok(if is_all && files.len() <= MAX_FILES { files } else { Vec::new() })
}

/// Returns a container that can be read at any offset. The content of a pipe is copied to a temporary file first.
///
/// # Errors
/// `Usage` if a pipe was read before; `Unsupported` for a file that is compressed as a whole; `Io` if the temporary file cannot
/// be written.
pub(crate) fn container(source: &Source) -> Result<Container> {
    let container = source.container()?;
    if container.codec() != Codec::Plain {
        let what = format!(
            "files of Parquet and Arrow are packed inside; this one is packed by {} as well",
            container.codec().name()
        );
        return Err(Error::unsupported(what).in_file(source.name()).hint("unpack it first"));
    }
    Ok(source.spooled()?.container_as(Codec::Plain)?)
}

/// A file that is opened when it is first read.
#[derive(Debug)]
pub(crate) struct LazyFile {
    source: Source,
    /// Name of its table.
    name: String,
    opened: OnceLock<Arc<RowFile>>,
}

impl LazyFile {
    pub(crate) fn new(source: Source, name: &str) -> LazyFile {
        LazyFile { source, name: name.to_owned(), opened: OnceLock::new() }
    }

    pub(crate) fn of(source: Source, file: Arc<RowFile>) -> LazyFile {
        LazyFile { source, name: String::new(), opened: OnceLock::from(file) }
    }

    pub(crate) fn name(&self) -> &str {
        self.source.name()
    }

    /// Bytes on disk.
    pub(crate) fn size_bytes(&self) -> Option<u64> {
        self.source.size_bytes()
    }

    /// Findings about the file that do not require reading its rows. A file that was not open is closed again.
    pub(crate) fn flaws(&self) -> Vec<Finding> {
        let of = |file: &RowFile| file.flaws().iter().map(rules::of_flaw).collect();
        match self.opened.get() {
            Some(file) => of(file),
            None => match open(&self.source, &self.name) {
                Ok(file) => of(&file),
                Err(error) => vec![rules::unreadable(self.name(), &error)],
            },
        }
    }

    /// # Errors
    /// Those of [`open`]; the next call tries again.
    pub(crate) fn open(&self) -> Result<&Arc<RowFile>> {
        if let Some(file) = self.opened.get() {
            return Ok(file);
        }
        let file = Arc::new(open(&self.source, &self.name)?);
        Ok(self.opened.get_or_init(|| file))
    }
}

/// Opens a file, which its first bytes, its last bytes or its name identify.
///
/// # Errors
/// `Unsupported` if none of them does; else those of [`container`] and of [`RowFile::open`].
pub(crate) fn open(source: &Source, name: &str) -> Result<RowFile> {
    let container = container(source)?;
    let head = container.source().head(HEAD_BYTES)?;
    let Some(form) = form_of_head(&head).or_else(|| form_of_end(container.source())) else {
        let what = "no file of Parquet or Arrow begins so";
        return Err(Error::unsupported(what).in_file(source.name()));
    };
    RowFile::open(&container, form, name)
}
