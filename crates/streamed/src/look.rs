//! One look at a stream, which everything that is asked of it shares: which frames it has, what it says of itself.

use crate::bytes::{HEADER_READ_BYTES, SourceInput, seekable, unreadable};
use crate::folder;
use crate::frozen::Frozen;
use quipu_model::{Finding, Result};
use quipu_source::{Codec, Container, Source};
use quipu_stream::survey::Survey;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// What the look told.
#[derive(Debug)]
pub(crate) struct Look {
    /// The name of the source.
    pub(crate) name: String,
    /// The bytes, unpacked.
    pub(crate) container: Container,
    /// What kept them from being complete.
    pub(crate) unpacking: Vec<Finding>,
    pub(crate) survey: Survey,
    /// Bytes of the stream.
    pub(crate) size: u64,
    /// How many bytes were asked for, by all readers.
    pub(crate) n_read: Arc<AtomicU64>,
    /// The same without indexes, once that was asked for.
    of_headers: OnceLock<Arc<Look>>,
}

impl Look {
    /// The same by a look at all headers, whatever an index says: it finds what is wrong with them.
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
        let survey = Survey::of_headers(&mut input).map_err(|cause| unreadable(&self.name, cause))?;
        let look = Look {
            name: self.name.clone(),
            container: self.container.clone(),
            unpacking: self.unpacking.clone(),
            survey,
            size: self.size,
            n_read: Arc::clone(&self.n_read),
            of_headers: OnceLock::new(),
        };
        Ok(Arc::clone(self.of_headers.get_or_init(|| Arc::new(look))))
    }
}

/// Looks at a stream; the source remembers what was seen.
///
/// # Errors
/// What the source says.
pub(crate) fn at(source: &Source) -> Result<Arc<Look>> {
    source.learned(|source| {
        let frozen = Frozen::of(source)?;
        let (container, unpacking) = match source.is_folder() {
            true => {
                let (joined, findings) = folder::joined(source)?;
                (joined.container_as(Codec::Plain)?, findings)
            }
            false => {
                let held = frozen.as_ref().map_or(source, |frozen| &frozen.source);
                let (container, finding) = seekable(held)?;
                (container, finding.into_iter().collect())
            }
        };
        let n_read = Arc::default();
        let mut input = SourceInput::new(&container, HEADER_READ_BYTES, &n_read)?;
        let size = input.size();
        let unreadable = |cause| unreadable(source.name(), cause);
        let mut survey = Survey::of(&mut input, size).map_err(unreadable)?;
        if let Some(frozen) = &frozen {
            frozen.settle(&mut survey).map_err(unreadable)?;
        }
        let name = source.name().to_owned();
        Ok(Look { name, container, unpacking, survey, size, n_read, of_headers: OnceLock::new() })
    })
}
