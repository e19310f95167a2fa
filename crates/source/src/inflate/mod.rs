//! Decompressors: packed bytes in, inflated bytes out, one member at a time.
//!
//! All of them share one contract ([`Inflater::inflate`]). They hold no more than their window or one block of their format,
//! verify all checksums of the format, and never deliver a byte after a fault.

mod blocks;
mod brotli;
mod chunks;
mod deflate;
mod lz4;
mod snappy;
mod zstd;

use libdeflater::Crc;

use crate::codec::Codec;
use crate::error::{Error, ErrorKind};
use crate::packed::Packed;

use blocks::Blocks;
use brotli::Brotli;
use chunks::Chunks;
use deflate::{Deflate, Gzip, Zlib};
use lz4::Lz4;
use snappy::Snappy;
use zstd::Zstd;

/// The outcome of a call of [`Inflater::inflate`].
#[derive(Debug)]
pub(crate) enum End {
    /// The output is full; there may be more bytes.
    More,
    /// The member ended correctly: checksums and stated sizes match.
    Done,
    /// No more of this member can be inflated.
    Fault(Error),
}

/// The decompressor for one member after another; its state is reused if there are many members.
pub(crate) enum Inflater {
    Plain(Plain),
    Deflate(Box<Deflate>),
    Gzip(Box<Gzip>),
    Zlib(Box<Zlib>),
    Lz4(Box<Lz4>),
    Snappy(Box<Snappy>),
    Chunks(Box<Chunks>),
    Brotli(Box<Brotli>),
    Zstd(Box<Zstd>),
}

/// Size and checksum that the archive states for a member; verified at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) len: Option<u64>,
    pub(crate) crc32: Option<u32>,
}

impl Inflater {
    /// Creates the inflater for a file that is packed as a whole. For members of `Zip`, use the two functions below.
    pub(crate) fn of(codec: Codec) -> Result<Inflater, Error> {
        Ok(match codec {
            Codec::Plain | Codec::Zip => Inflater::Plain(Plain::default()),
            Codec::Gzip => Inflater::Gzip(Box::default()),
            Codec::Zlib => Inflater::Zlib(Box::default()),
            Codec::Lz4 => Inflater::Lz4(Box::default()),
            Codec::Snappy => Inflater::Snappy(Box::default()),
            Codec::SnappyChunks => Inflater::Chunks(Box::default()),
            Codec::Brotli => Inflater::Brotli(Box::default()),
            Codec::Zstd => Inflater::Zstd(Box::new(Zstd::new()?)),
        })
    }

    /// Prepares for another file that is packed as a whole, reusing memory if possible.
    pub(crate) fn restart(&mut self, codec: Codec) -> Result<(), Error> {
        match (&mut *self, codec) {
            (Inflater::Gzip(gzip), Codec::Gzip) => gzip.restart(),
            (Inflater::Zlib(zlib), Codec::Zlib) => zlib.restart(),
            (inflater, codec) => *inflater = Inflater::of(codec)?,
        }
        Ok(())
    }

    /// Assumes that data at the beginning of a file, such as magic bytes, has been read already.
    pub(crate) fn skip_head(&mut self) {
        if let Inflater::Chunks(chunks) = self {
            chunks.skip_head();
        }
    }

    /// Prepares for a deflated member of an archive.
    pub(crate) fn start_deflate(&mut self, expected: Expected) {
        match self {
            Inflater::Deflate(deflate) => deflate.start(expected),
            other => *other = Inflater::Deflate(Box::new(Deflate::new(expected))),
        }
    }

    /// Prepares for a stored member of an archive.
    pub(crate) fn start_stored(&mut self, expected: Expected) {
        *self = Inflater::Plain(Plain { expected, ..Plain::default() });
    }

    /// Fills the front of `out`; returns the number of bytes and the outcome.
    ///
    /// With `More`, `out` is full. The other two outcomes may come with any number of bytes, which are good; after them, the
    /// inflater must be restarted.
    pub(crate) fn inflate(&mut self, packed: &mut Packed, out: &mut [u8]) -> (usize, End) {
        match self {
            Inflater::Plain(plain) => plain.inflate(packed, out),
            Inflater::Deflate(deflate) => deflate.inflate(packed, out),
            Inflater::Gzip(gzip) => gzip.inflate(packed, out),
            Inflater::Zlib(zlib) => zlib.inflate(packed, out),
            Inflater::Lz4(lz4) => lz4.inflate(packed, out),
            Inflater::Snappy(snappy) => snappy.inflate(packed, out),
            Inflater::Chunks(chunks) => chunks.inflate(packed, out),
            Inflater::Brotli(brotli) => brotli.inflate(packed, out),
            Inflater::Zstd(zstd) => zstd.inflate(packed, out),
        }
    }

    /// Of `n_bytes` inflated before a fault, the number for which a checksum vouches, or all if the format has no checksums.
    /// The others may be wrong, because a checksum only shows that some bit before it is wrong.
    pub(crate) fn vouched(&self, n_bytes: u64) -> u64 {
        match self {
            Inflater::Plain(plain) if plain.expected.crc32.is_none() => n_bytes,
            // The only checksum is at the end.
            Inflater::Plain(_) | Inflater::Deflate(_) | Inflater::Zlib(_) => 0,
            Inflater::Gzip(gzip) => gzip.vouched(),
            Inflater::Lz4(lz4) => lz4.vouched(n_bytes),
            Inflater::Zstd(zstd) => zstd.vouched(n_bytes),
            // Each block has its own checksum, or there are none.
            Inflater::Snappy(_) | Inflater::Chunks(_) | Inflater::Brotli(_) => n_bytes,
        }
    }

    /// CRC-32 of the bytes inflated so far; only for members of archives.
    pub(crate) fn crc32(&self) -> u32 {
        match self {
            Inflater::Plain(plain) => plain.crc.sum(),
            Inflater::Deflate(deflate) => deflate.crc32(),
            _ => 0,
        }
    }
}

impl Default for Inflater {
    fn default() -> Inflater {
        Inflater::Plain(Plain::default())
    }
}

/// Stored bytes, with a checksum if they are a member of an archive.
pub(crate) struct Plain {
    expected: Expected,
    crc: Crc,
    len: u64,
}

impl Default for Plain {
    fn default() -> Plain {
        Plain { expected: Expected::default(), crc: Crc::new(), len: 0 }
    }
}

impl Plain {
    fn inflate(&mut self, packed: &mut Packed, out: &mut [u8]) -> (usize, End) {
        let n_bytes = match packed.read(out) {
            Ok(n_bytes) => n_bytes,
            Err(cause) => return (0, End::Fault(unreadable(cause))),
        };
        if self.expected.crc32.is_some() {
            self.crc.update(&out[..n_bytes]);
        }
        self.len += n_bytes as u64;
        if n_bytes == out.len() && packed.left() != Some(0) {
            return (n_bytes, End::More);
        }
        let cut_short = match self.expected.len {
            Some(len) => self.len < len,
            None => packed.left().is_some_and(|left| left > 0),
        };
        let fault = match self.expected.crc32 {
            // If the next byte cannot be read, that error is the reason.
            _ if cut_short => Some(match packed.fill(1) {
                Err(cause) => unreadable(cause),
                Ok(_) => Error::truncated("the data ends before its stated size"),
            }),
            Some(crc) if crc != self.crc.sum() => Some(Error::checksum("CRC-32", crc, self.crc.sum())),
            _ => None,
        };
        (n_bytes, fault.map_or(End::Done, End::Fault))
    }
}

/// Consumes a fixed number of bytes; `Truncated` if there are fewer.
fn take<const N: usize>(packed: &mut Packed, what: &'static str) -> Result<[u8; N], Error> {
    let bytes = packed.fill(N).map_err(unreadable)?;
    match bytes.first_chunk::<N>().copied() {
        Some(bytes) => {
            packed.consume(N);
            Ok(bytes)
        }
        None => Err(cut(packed, what)),
    }
}

/// Skips bytes whose content does not matter.
fn skip(packed: &mut Packed, n_bytes: u64, what: &'static str) -> Result<(), Error> {
    let mut left = n_bytes;
    while left > 0 {
        let shown = packed.fill(1).map_err(unreadable)?.len();
        if shown == 0 {
            return Err(cut(packed, what));
        }
        let step = usize::try_from(left).unwrap_or(usize::MAX).min(shown);
        packed.consume(step);
        left -= step as u64;
    }
    Ok(())
}

/// The error for bytes that end too early: because the file ends, or because the archive states too few for the member.
#[cold]
fn cut(packed: &Packed, what: &'static str) -> Error {
    let kind = if packed.is_at_stop() { ErrorKind::Malformed } else { ErrorKind::Truncated };
    Error::new(kind, what).at_packed(packed.at())
}

#[cold]
fn unreadable(cause: std::io::Error) -> Error {
    // `Missing` would be misleading here: the file existed when it was opened.
    Error::io("cannot read", cause).vanished()
}
