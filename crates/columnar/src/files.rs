//! Recognising files and folders, and opening files when they are read.

use crate::manifest::MANIFEST;
use quipu_arrow::Form;
use quipu_arrow::read::{RowFile, form_of_head};
use quipu_model::{Confidence, Error, Result};
use quipu_source::{Codec, Container, Source};
use std::sync::{Arc, OnceLock};

/// Bytes that tell what a file is.
const HEAD_BYTES: usize = 16;
/// Files that a folder without a manifest may have.
pub(crate) const MAX_FILES: usize = 1 << 16;

/// What a file holds by its first bytes.
pub(crate) fn form_of(source: &Source) -> Option<Form> {
    if source.is_folder() {
        return None;
    }
    form_of_head(&source.head(HEAD_BYTES).ok()?)
}

/// How sure it is that a source is one of Parquet or Arrow.
pub fn probe(source: &Source) -> Confidence {
    if source.is_folder() {
        return match source.child(MANIFEST) {
            Some(manifest) if crate::manifest::is_one(&manifest) => Confidence::Sure,
            _ if plain_files(source).is_ok_and(|files| !files.is_empty()) => Confidence::Likely,
            _ => Confidence::No,
        };
    }
    match form_of(source) {
        Some(Form::Parquet | Form::File) => Confidence::Sure,
        Some(Form::Stream) => Confidence::Likely,
        None => Confidence::No,
    }
}

/// The files of a folder that has nothing but files of Parquet; none of any other folder.
///
/// # Errors
/// What listing says.
pub(crate) fn plain_files(folder: &Source) -> Result<Vec<Source>> {
    let files = folder.files()?;
    // What other programs leave beside the rows, as `_SUCCESS`, begins so.
    let is_beside = |file: &Source| {
        let name = file.name().rsplit('/').next().unwrap_or_default();
        name.starts_with('_') || name.starts_with('.')
    };
    let files: Vec<Source> = files.into_iter().filter(|file| !is_beside(file)).collect();
    let is_all = files.iter().all(|file| {
        !file.is_folder() && file.name().ends_with(".parquet") && form_of(file) == Some(Form::Parquet)
    });
    Ok(if is_all && files.len() <= MAX_FILES { files } else { Vec::new() })
}

/// A file whose bytes can be read at any place: what a pipe brings is copied into a temporary file first.
///
/// # Errors
/// `Usage` if a pipe was read before; `Unsupported` for a file that is packed once more; `Io` if the temporary file cannot be
/// written.
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

/// A file that is opened when its rows are read.
#[derive(Debug)]
pub(crate) struct LazyFile {
    source: Source,
    /// The table that it is of.
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

    /// # Errors
    /// What opening says; it is tried anew at the next call.
    pub(crate) fn open(&self) -> Result<&Arc<RowFile>> {
        if let Some(file) = self.opened.get() {
            return Ok(file);
        }
        let file = Arc::new(open(&self.source, &self.name)?);
        Ok(self.opened.get_or_init(|| file))
    }
}

/// Opens a file whose first bytes say what it is.
///
/// # Errors
/// `Unsupported` if they say nothing; what opening says.
pub(crate) fn open(source: &Source, name: &str) -> Result<RowFile> {
    let container = container(source)?;
    let head = container.source().head(HEAD_BYTES)?;
    let Some(form) = form_of_head(&head) else {
        let what = "no file of Parquet or Arrow begins so";
        return Err(Error::unsupported(what).in_file(source.name()));
    };
    RowFile::open(&container, form, name)
}
