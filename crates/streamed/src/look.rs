//! A single survey of a stream's frames and metadata, shared by all operations on the stream.

use crate::bytes::{HEADER_READ_BYTES, SourceInput, seekable, unreadable};
use crate::carried;
use crate::folder;
use crate::frozen::Frozen;
use quipu_model::finding::NEEDS_NEWER;
use quipu_model::{Finding, Result};
use quipu_source::{Codec, Container, Source};
use quipu_stream::survey::Survey;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// Results of surveying a stream.
#[derive(Debug)]
pub(crate) struct Look {
    /// The name of the source.
    pub(crate) name: String,
    /// The unpacked bytes.
    pub(crate) container: Container,
    /// Findings about unpacking: why the bytes are incomplete.
    pub(crate) unpacking: Vec<Finding>,
    pub(crate) survey: Survey,
    /// Unpacked size in bytes.
    pub(crate) size: u64,
    /// Bytes that all readers have asked for.
    pub(crate) n_read: Arc<AtomicU64>,
    /// For a folder of files that are streams of their own formats: a look at each, so that damage to one does not affect the
    /// others, and offsets are those within the file.
    pub(crate) members: Vec<Arc<Look>>,
    /// Name of the file within its folder, for such a member.
    pub(crate) file: Option<String>,
    /// True if the reader of the members counts what is lost of them.
    pub(crate) is_counted: bool,
    /// The look at all headers, computed on first use.
    of_headers: OnceLock<Arc<Look>>,
}

impl Look {
    /// Surveys the bytes of a container. `settle` adjusts the survey.
    fn of(
        name: &str,
        (container, unpacking): (Container, Vec<Finding>),
        settle: impl FnOnce(&mut Survey) -> std::io::Result<()>,
    ) -> Result<Look> {
        let n_read = Arc::default();
        let mut input = SourceInput::new(&container, HEADER_READ_BYTES, &n_read)?;
        let size = input.size();
        let unreadable = |cause| unreadable(name, cause);
        let mut survey = Survey::of(&mut input, size, &crate::bodies::registry()).map_err(unreadable)?;
        settle(&mut survey).map_err(unreadable)?;
        Ok(Look {
            name: name.to_owned(),
            container,
            unpacking,
            survey,
            size,
            n_read,
            members: Vec::new(),
            file: None,
            is_counted: false,
            of_headers: OnceLock::new(),
        })
    }

    /// Surveys a folder.
    fn of_folder(folder: &Source) -> Result<Look> {
        let files = folder::files_of(folder)?;
        let joined = |files: &[Source]| {
            let (joined, findings) = folder::joined(folder.name(), files)?;
            Look::of(folder.name(), (joined.container_as(Codec::Plain)?, findings), |_| Ok(()))
        };
        let look = joined(&files)?;
        if !carried::are_own(&look.survey) {
            return Ok(look);
        }
        // Files of one producer are copies, or parts of one stream: they are joined.
        let mut groups: Vec<(Vec<Source>, Look)> = Vec::new();
        for file in files {
            let (container, unpacking) = seekable(&file)?;
            let own = Look::of(file.name(), (container, unpacking.into_iter().collect()), |_| Ok(()))?;
            let producers = own.survey.session.producers();
            let is_same = |(_, known): &&mut (Vec<Source>, Look)| {
                known.survey.session.producers().iter().any(|known| producers.contains(known))
            };
            match groups.iter_mut().find(is_same) {
                Some((files, known)) => {
                    files.push(file);
                    *known = joined(files)?;
                }
                None => groups.push((vec![file], own)),
            }
        }
        let member = |(files, look): (Vec<Source>, Look)| {
            let file = files.first().and_then(|file| file.name().rsplit('/').next()).map(str::to_owned);
            Arc::new(Look { file, ..look })
        };
        let is_counted = carried::is_counted(&look.survey);
        Ok(Look { members: groups.into_iter().map(member).collect(), is_counted, ..look })
    }

    /// Where reading ends: at a frame that is too new to be skipped, or at the end of the stream.
    pub(crate) fn end(&self) -> u64 {
        self.stop().and_then(|found| found.number("offset")).unwrap_or(self.size)
    }

    /// The finding about a frame that is too new to be skipped, if there is one.
    pub(crate) fn stop(&self) -> Option<&quipu_stream::finding::Finding> {
        let session = &self.survey.session;
        session.findings.iter().find(|found| session.is_stopped() && found.name == NEEDS_NEWER)
    }

    /// Returns a look at all headers, regardless of an index. It includes findings about the headers.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub(crate) fn of_headers(self: &Arc<Look>) -> Result<Arc<Look>> {
        if !self.survey.is_indexed {
            return Ok(Arc::clone(self));
        }
        if let Some(known) = self.of_headers.get() {
            return Ok(Arc::clone(known));
        }
        let mut input = SourceInput::new(&self.container, HEADER_READ_BYTES, &self.n_read)?;
        let survey = Survey::of_headers(&mut input, &crate::bodies::registry())
            .map_err(|cause| unreadable(&self.name, cause))?;
        let look = Look {
            name: self.name.clone(),
            container: self.container.clone(),
            unpacking: self.unpacking.clone(),
            survey,
            size: self.size,
            n_read: Arc::clone(&self.n_read),
            members: self.members.clone(),
            file: self.file.clone(),
            is_counted: self.is_counted,
            of_headers: OnceLock::new(),
        };
        Ok(Arc::clone(self.of_headers.get_or_init(|| Arc::new(look))))
    }
}

/// Surveys a stream. The source caches the result.
///
/// # Errors
/// If the source cannot be read.
pub(crate) fn at(source: &Source) -> Result<Arc<Look>> {
    source.learned(|source| {
        if source.is_folder() {
            return Look::of_folder(source);
        }
        let frozen = Frozen::of(source)?;
        let held = frozen.as_ref().map_or(source, |frozen| &frozen.source);
        let (container, unpacking) = seekable(held)?;
        let settle = |survey: &mut Survey| frozen.as_ref().map_or(Ok(()), |frozen| frozen.settle(survey));
        Look::of(source.name(), (container, unpacking.into_iter().collect()), settle)
    })
}
