//! Packing: plain bytes in, a container out, compressed on the threads of a pool.
//!
//! ```text
//! write(bytes) ─▶ buffer ─▶ blocks ─▶ Pool: one thread for each core ─▶ blocks, in the order of writing ─▶ file
//! ```
//!
//! The division of bytes into blocks depends on the bytes only, so a file is the same for any number of threads. The queue is
//! bounded: writing waits until the threads have caught up.
//!
//! `blocks.rs` compresses one block (`fast.rs` deflates it at the fastest level), `pool.rs` has the threads, `zip.rs` the
//! headers of archives, and `packer.rs` puts the blocks in order.

mod blocks;
mod fast;
mod packer;
mod pool;
mod zip;

pub(crate) use fast::Fast;
pub use packer::{Packed, Packer};
pub use pool::Pool;

use std::ops::RangeInclusive;

/// A container that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packing {
    /// Plain bytes, without compression.
    Plain,
    /// A zip archive of deflated members.
    Zip,
    /// Gzip members one after another, each of up to 1 MiB of input.
    Gzip,
    /// One LZ4 frame of independent blocks, with a checksum.
    Lz4,
    /// The snappy framing format, with checksums.
    Snappy,
    /// Zstandard frames one after another, each with its size and checksum.
    Zstd,
}

impl Packing {
    /// All packings, the default first.
    pub const ALL: [Packing; 6] =
        [Packing::Zip, Packing::Gzip, Packing::Lz4, Packing::Snappy, Packing::Zstd, Packing::Plain];

    /// A short lower-case name, the same as that of the codec: `plain`, `zip`, `gzip`, `lz4`, `snappy`, `zstd`.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Plain => "plain",
            Packing::Zip => "zip",
            Packing::Gzip => "gzip",
            Packing::Lz4 => "lz4",
            Packing::Snappy => "snappy",
            Packing::Zstd => "zstd",
        }
    }

    /// The usual file name extension, without the dot; empty for plain files.
    pub fn extension(self) -> &'static str {
        match self {
            Packing::Plain => "",
            Packing::Zip => "zip",
            Packing::Gzip => "gz",
            Packing::Lz4 => "lz4",
            Packing::Snappy => "sz",
            Packing::Zstd => "zst",
        }
    }

    /// The packing for a file name, if its extension is one of [`Packing::extension`].
    pub fn of_file_name(name: &str) -> Option<Packing> {
        let (_, extension) = name.rsplit_once('.')?;
        Packing::ALL
            .into_iter()
            .find(|packing| *packing != Packing::Plain && packing.extension() == extension)
    }

    /// The packing called `name`, as returned by [`Packing::name`] or [`Packing::extension`].
    pub fn named(name: &str) -> Option<Packing> {
        let is_called = |packing: &Packing| packing.name() == name || packing.extension() == name;
        Packing::ALL.into_iter().find(|packing| !name.is_empty() && is_called(packing))
    }

    /// The range of compression levels; `None` if there is no choice.
    pub fn levels(self) -> Option<RangeInclusive<u8>> {
        match self {
            Packing::Zip | Packing::Gzip => Some(1..=9),
            Packing::Zstd => Some(1..=19),
            Packing::Plain | Packing::Lz4 | Packing::Snappy => None,
        }
    }

    /// The level that is used if none is requested.
    fn default_level(self) -> u8 {
        match self {
            Packing::Zstd => 3,
            _ => 6,
        }
    }
}

/// Options for packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackOptions {
    /// The container.
    pub packing: Packing,
    /// Compression level within [`Packing::levels`]; other values are clamped. `None` is the default level.
    pub level: Option<u8>,
}

impl PackOptions {
    /// Options with the default level.
    pub fn new(packing: Packing) -> PackOptions {
        PackOptions { packing, level: None }
    }

    fn level(&self) -> u8 {
        let levels = self.packing.levels().unwrap_or(1..=9);
        self.level.unwrap_or(self.packing.default_level()).clamp(*levels.start(), *levels.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_of_file_names_stand_for_packings() {
        assert_eq!(Packing::of_file_name("a.trace.zip"), Some(Packing::Zip));
        assert_eq!(Packing::of_file_name("a.trace.sz"), Some(Packing::Snappy));
        assert_eq!(Packing::of_file_name("a.trace"), None);
        assert_eq!(Packing::of_file_name("zip"), None);
    }

    #[test]
    fn levels_out_of_range_are_the_nearest() {
        let level = |packing, level| PackOptions { packing, level: Some(level) }.level();
        assert_eq!((level(Packing::Zip, 0), level(Packing::Gzip, 99), level(Packing::Zstd, 12)), (1, 9, 12));
        assert_eq!(PackOptions::new(Packing::Zstd).level(), 3);
    }
}
