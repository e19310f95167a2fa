//! All bytes of a file, up to a limit.

use quipu_model::{Error, ErrorKind, Result};
use quipu_source::{Source, StreamOptions};

/// Reads a file that is kept as a whole.
///
/// # Errors
/// `Limit` for a larger one; what the source says.
pub(crate) fn whole(source: &Source, limit: u64) -> Result<Vec<u8>> {
    match partly(source, limit)? {
        (all, None) => Ok(all),
        (_, Some(error)) => Err(error),
    }
}

/// Reads a file as far as its container is whole; gives what ended that. What no right checksum vouches for is left out.
///
/// # Errors
/// `Limit` for a larger one; what the source says of other things than damage.
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
