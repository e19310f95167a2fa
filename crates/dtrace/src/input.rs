//! Reads whole files, up to a limit.

use quipu_model::{Error, ErrorKind, Result};
use quipu_source::{Codec, Source, StreamOptions};

/// Reads a file into memory as a whole.
///
/// # Errors
/// `Limit` for a larger file; errors of the source.
pub(crate) fn whole(source: &Source, limit: u64) -> Result<Vec<u8>> {
    match partly(source, limit)? {
        (all, None) => Ok(all),
        (_, Some(error)) => Err(error),
    }
}

/// Reads a file up to the first damage of its container, and returns the damage. Bytes without a correct checksum are left out.
///
/// # Errors
/// `Limit` for a larger file; errors of the source other than damage.
pub(crate) fn partly(source: &Source, limit: u64) -> Result<(Vec<u8>, Option<Error>)> {
    let container = source.container()?;
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let (mut all, mut block) = (Vec::new(), Vec::new());
    loop {
        match stream.next(&mut block) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok((all, container.damage().first().map(|damage| damage.clone().into()))),
            Err(cause) => {
                let error = Error::from(cause);
                if !error.is_damage() || error.kind() == ErrorKind::Limit {
                    return Err(error);
                }
                if error.is_of_container() {
                    all.clear();
                }
                return Ok((all, Some(error)));
            }
        }
        if (all.len() + block.len()) as u64 > limit {
            return Err(Error::limit("bytes of a file", limit + 1, limit).in_file(source.name()));
        }
        all.extend_from_slice(&block);
    }
}

/// The stored bytes of a file, without decompression; `None` if there are too many.
///
/// # Errors
/// Errors of the source.
pub(crate) fn as_it_lies(source: &Source, limit: u64) -> Result<Option<Vec<u8>>> {
    let container = source.container_as(Codec::Plain)?;
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while stream.next(&mut block)?.is_some() {
        if (all.len() + block.len()) as u64 > limit {
            return Ok(None);
        }
        all.extend_from_slice(&block);
    }
    Ok(Some(all))
}
