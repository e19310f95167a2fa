//! The error type of this crate: what failed between a path and its bytes, and where.
//!
//! One type for the whole crate, one pointer wide. The layer that knows a place adds it: decompressors know the packed
//! offset, the stream knows file, member and inflated offset. No layer adds a place twice.

use crate::tree::CarrierDamage;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of a failure, for callers to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The operating system refused or failed an operation.
    Io,
    /// The file, folder or entry does not exist.
    Missing,
    /// The bytes end too early.
    Truncated,
    /// The bytes violate the rules of their container: bad framing, bad codes, a wrong checksum.
    Malformed,
    /// The bytes are legal, but use a feature that this crate does not support.
    Unsupported,
    /// The bytes require more memory than this crate allows.
    Limit,
    /// The caller requested something that this source cannot do.
    Usage,
    /// A defect of this crate or of a decompressor; please report it.
    Internal,
}

/// A failure with its place: file, member, offset in the inflated stream, offset in the packed file.
///
/// Printed as `game.zip: member 3 \`chunk.00000003\`, offset 0x1f40 (packed offset 0x2a0): …`.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    what: Cow<'static, str>,
    file: Option<Arc<str>>,
    member: Option<(u32, Arc<str>)>,
    offset: Option<u64>,
    packed_offset: Option<u64>,
    cause: Option<Arc<io::Error>>,
    is_of_carrier: bool,
    carrier: Option<Box<CarrierDamage>>,
}

impl Error {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The name of the source, as [`Source::name`](crate::Source::name) returns it; empty if unknown.
    pub fn file(&self) -> &str {
        self.0.file.as_deref().unwrap_or_default()
    }

    /// Index and name of the archive member; only for archives.
    pub fn member(&self) -> Option<(u32, &str)> {
        self.0.member.as_ref().map(|(index, name)| (*index, name.as_ref()))
    }

    /// Offset in the inflated bytes of the member: all bytes before it have been delivered.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Offset in the file on disk (or in the pipe), if known.
    ///
    /// Decompressors read ahead by a few bytes, so it may be slightly after the first bad byte.
    pub fn packed_offset(&self) -> Option<u64> {
        self.0.packed_offset
    }

    /// Description of the failure, without the place: the middle of the printed message.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    #[cold]
    pub(crate) fn new(kind: ErrorKind, what: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Inner {
            kind,
            what: what.into(),
            file: None,
            member: None,
            offset: None,
            packed_offset: None,
            cause: None,
            is_of_carrier: false,
            carrier: None,
        }))
    }

    #[cold]
    pub(crate) fn truncated(what: impl Into<Cow<'static, str>>) -> Error {
        Error::new(ErrorKind::Truncated, what)
    }

    #[cold]
    pub(crate) fn malformed(what: impl Into<Cow<'static, str>>) -> Error {
        Error::new(ErrorKind::Malformed, what)
    }

    #[cold]
    pub(crate) fn unsupported(what: impl Into<Cow<'static, str>>) -> Error {
        Error::new(ErrorKind::Unsupported, what)
    }

    /// Creates the error for a checksum that does not match the bytes.
    #[cold]
    pub(crate) fn checksum(name: &str, stored: u32, found: u32) -> Error {
        Error::malformed(format!("{name} of the data is `{found:#010x}`, stored is `{stored:#010x}`"))
    }

    /// Creates the error for a failed operation of the operating system; a missing file has its own kind.
    #[cold]
    pub(crate) fn io(doing: &'static str, cause: io::Error) -> Error {
        let kind = match cause.kind() {
            // The file that carries the bytes reports that they are damaged.
            io::ErrorKind::InvalidData => {
                let mut error = Error::malformed(cause.to_string());
                error.0.is_of_carrier = true;
                error.0.carrier = CarrierDamage::of(&cause).map(|damage| Box::new(damage.clone()));
                return error;
            }
            io::ErrorKind::NotFound => ErrorKind::Missing,
            _ => ErrorKind::Io,
        };
        let mut error = Error::new(kind, doing);
        error.0.cause = Some(Arc::new(cause));
        error
    }

    /// The damage of the file that carries the bytes, if that is why they cannot be read.
    pub fn carrier(&self) -> Option<&CarrierDamage> {
        self.0.carrier.as_deref()
    }

    /// True if the carrying file is damaged: the bytes before the place are good.
    pub(crate) fn is_of_carrier(&self) -> bool {
        self.0.is_of_carrier
    }

    /// Turns `Missing` into `Io`, because the file existed before.
    pub(crate) fn vanished(mut self) -> Error {
        if self.0.kind == ErrorKind::Missing {
            self.0.kind = ErrorKind::Io;
        }
        self
    }

    pub(crate) fn in_file(mut self, name: &Arc<str>) -> Error {
        self.0.file.get_or_insert_with(|| name.clone());
        self
    }

    pub(crate) fn in_member(mut self, index: u32, name: &str) -> Error {
        self.0.member.get_or_insert_with(|| (index, name.into()));
        self
    }

    /// Replaces "a chunk" in the message by the number of the chunk.
    pub(crate) fn in_chunk(mut self, number: usize) -> Error {
        self.0.what = self.0.what.replacen("a chunk", &format!("chunk `{number}`"), 1).into();
        self
    }

    pub(crate) fn at(mut self, offset: u64) -> Error {
        self.0.offset.get_or_insert(offset);
        self
    }

    pub(crate) fn at_packed(mut self, offset: u64) -> Error {
        self.0.packed_offset.get_or_insert(offset);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(file) = &inner.file {
            write!(f, "{file}: ")?;
        }
        if let Some((index, name)) = &inner.member {
            write!(f, "member {index} `{}`", name.escape_debug())?;
            f.write_str(if inner.offset.is_some() || inner.packed_offset.is_some() { ", " } else { ": " })?;
        }
        match (inner.offset, inner.packed_offset) {
            (Some(at), Some(packed)) => write!(f, "offset {at:#x} (packed offset {packed:#x}): ")?,
            (Some(at), None) => write!(f, "offset {at:#x}: ")?,
            (None, Some(packed)) => write!(f, "packed offset {packed:#x}: ")?,
            (None, None) => {}
        }
        f.write_str(&inner.what)?;
        match &inner.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_pointer_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn the_message_says_where_in_which_file() {
        let name: Arc<str> = "game.zip".into();
        let error = Error::malformed("bad deflate data").at(0x1f40).at_packed(0x2a0).in_member(3, "chunk.3");
        assert_eq!(
            error.in_file(&name).to_string(),
            "game.zip: member 3 `chunk.3`, offset 0x1f40 (packed offset 0x2a0): bad deflate data"
        );
        assert_eq!(Error::truncated("cut").in_file(&name).at(16).to_string(), "game.zip: offset 0x10: cut");
    }

    #[test]
    fn the_first_place_given_stays() {
        let error = Error::truncated("cut").at(1).at(2).in_file(&"a".into()).in_file(&"b".into());
        assert_eq!((error.offset(), error.file()), (Some(1), "a"));
    }
}
