//! A single survey of a stream's frames and metadata, shared by all operations on the stream.

use crate::bytes::{HEADER_READ_BYTES, SourceInput, seekable, unreadable};
use crate::carried;
use crate::folder;
use crate::frozen::Frozen;
use quipu_model::finding::NEEDS_NEWER;
use quipu_model::{Finding, Place, Result};
use quipu_source::{CarrierDamage, Codec, Container, Source};
use quipu_stream::survey::Survey;
use std::ops::Range;
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
    /// For files of a folder that are read as one stream: where each lies in it.
    files: Vec<FileAt>,
    /// The look at all headers, computed on first use.
    of_headers: OnceLock<Arc<Look>>,
}

/// A file of a folder that is read as one stream.
#[derive(Clone, Debug)]
pub(crate) struct FileAt {
    pub(crate) name: String,
    /// Its bytes in the stream.
    pub(crate) range: Range<u64>,
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
            files: Vec::new(),
            of_headers: OnceLock::new(),
        })
    }

    /// Surveys a folder.
    fn of_folder(folder: &Source) -> Result<Look> {
        let files = folder::files_of(folder)?;
        let joined = |files: &[Source]| -> Result<Look> {
            let (joined, places, findings) = folder::joined(folder.name(), files)?;
            let container = joined.container_as(Codec::Plain)?;
            let look = Look::of(folder.name(), (container, findings), |_| Ok(()))?;
            Ok(Look { files: places, ..look })
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

    /// Makes findings about a folder whose files are read as one stream name the file, with the offset in it. Within this crate,
    /// offsets count through all files: they are compared and sorted, so this comes last.
    pub(crate) fn name_files(&self, findings: &mut [Finding]) {
        if self.files.is_empty() {
            return;
        }
        for finding in findings.iter_mut().filter(|finding| finding.place.file.as_ref() == Some(&self.name)) {
            let next = finding.loss.as_ref().and_then(|loss| loss.resumed.as_ref()?.offset);
            self.name_file(&mut finding.place);
            if let (Some(next), Some(file)) = (next, &finding.place.file) {
                finding.message = self.with_next(&finding.message, next, file);
            }
            if let Some(loss) = &mut finding.loss {
                self.name_file(&mut loss.stopped);
                loss.resumed.iter_mut().for_each(|place| self.name_file(place));
            }
        }
    }

    /// The same for damage to files that the stream carries.
    pub(crate) fn in_its_file(&self, damage: CarrierDamage) -> CarrierDamage {
        let offset = damage.offset.filter(|_| damage.file == self.name);
        let Some((file, offset)) = offset.and_then(|offset| self.file_at(offset)) else { return damage };
        let next = damage.next.and_then(|next| self.file_at(next));
        CarrierDamage {
            file: file.to_owned(),
            offset: Some(offset),
            next: next.filter(|(other, _)| *other == file).map(|(_, next)| next),
            what: damage
                .next
                .map_or_else(|| damage.what.clone(), |next| self.with_next(&damage.what, next, file)),
            ..damage
        }
    }

    /// The offset in the whole stream of a place, which may name a file of the folder.
    pub(crate) fn offset_of(&self, place: &Place) -> Option<u64> {
        let offset = place.offset?;
        let file = self.files.iter().find(|file| place.file.as_ref() == Some(&file.name));
        Some(file.map_or(offset, |file| file.range.start.saturating_add(offset)))
    }

    /// The file that has the byte at an offset in the whole stream, and the offset in the file.
    fn file_at(&self, offset: u64) -> Option<(&str, u64)> {
        let at = self.files.partition_point(|file| file.range.end <= offset);
        let file = self.files.get(at).or(self.files.last())?;
        Some((&file.name, offset.saturating_sub(file.range.start)))
    }

    fn name_file(&self, place: &mut Place) {
        let offset = place.offset.filter(|_| place.file.as_ref() == Some(&self.name));
        if let Some((file, offset)) = offset.and_then(|offset| self.file_at(offset)) {
            (place.file, place.offset) = (Some(file.to_owned()), Some(offset));
        }
    }

    /// A message about `file` that says where reading continues, at `next` in the whole stream.
    fn with_next(&self, message: &str, next: u64, file: &str) -> String {
        let Some((other, own)) = self.file_at(next) else { return message.to_owned() };
        let of_other = if other == file { String::new() } else { format!(" of {other}") };
        message.replace(&format!("resynced at {next}"), &format!("resynced at {own}{of_other}"))
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
            files: self.files.clone(),
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
