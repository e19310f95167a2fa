//! All bytes of a file, up to a limit.

use quipu_model::{Error, Result};
use quipu_source::{Source, StreamOptions};

/// Reads a file that is kept as a whole.
///
/// # Errors
/// `Limit` for a larger one; what the source says.
pub(crate) fn whole(source: &Source, limit: u64) -> Result<Vec<u8>> {
    let container = source.container()?;
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while stream.next(&mut block)?.is_some() {
        if (all.len() + block.len()) as u64 > limit {
            return Err(Error::limit("bytes of a file", limit + 1, limit).in_file(source.name()));
        }
        all.extend_from_slice(&block);
    }
    Ok(all)
}
