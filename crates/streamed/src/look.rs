//! One look at a stream, which everything that is asked of it shares: which frames it has, what it says of itself.

use crate::bytes::{HEADER_READ_BYTES, SourceInput, seekable, unreadable};
use crate::folder;
use crate::frozen::Frozen;
use quipu_model::{Finding, Result};
use quipu_source::{Codec, Container, Source};
use quipu_stream::survey::Survey;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What the look told.
#[derive(Debug)]
pub(crate) struct Look {
    /// The bytes, unpacked.
    pub(crate) container: Container,
    /// What kept them from being complete.
    pub(crate) unpacking: Vec<Finding>,
    pub(crate) survey: Survey,
    /// Bytes of the stream.
    pub(crate) size: u64,
    /// How many bytes were asked for, by all readers.
    pub(crate) n_read: Arc<AtomicU64>,
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
        Ok(Look { container, unpacking, survey, size, n_read })
    })
}
