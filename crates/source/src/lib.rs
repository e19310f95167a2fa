//! Bytes from anywhere: files, folders, archive members and pipes, decompressed ahead of the reader.
//!
//! ```text
//! Source ──container()──▶ Container ──stream(members)──▶ Stream ──next(&mut block)──▶ blocks of plain bytes
//! path, folder,           codec by content,               one pass, on this thread
//! pipe, memory            list of members, damage         or on threads ahead of it
//! ```
//!
//! This crate knows nothing of traces. It unpacks gzip, zlib, zip, LZ4, snappy and Zstandard, recognised by their first bytes
//! and never by a name; it reports exactly where a file is truncated or damaged, after delivering everything before that
//! place; and it reads whole folders of thousands of files with a bounded number of descriptors.
//!
//! ```
//! use quipu_source::{Source, StreamOptions};
//!
//! # fn main() -> quipu_source::Result<()> {
//! let source = Source::from_bytes("notes", *b"any bytes");
//! let container = source.container()?;
//! assert_eq!((container.codec().name(), container.members().len()), ("plain", 1));
//!
//! let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
//! let mut block = Vec::new();
//! while let Some(at) = stream.next(&mut block)? {
//!     assert_eq!((at.member, at.offset, block.as_slice()), (0, 0, b"any bytes".as_slice()));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! To read on: `source.rs` (places), `container.rs` (files and members), `stream.rs`, `sequence.rs` and `whole.rs` (blocks),
//! `ahead.rs` (threads), `inflate/` (one file per codec), `zip/` (archives), `descriptors.rs` and `map.rs` (how files are
//! held).

mod ahead;
mod bytes;
mod codec;
mod container;
mod damaged_mark;
mod descriptors;
mod error;
mod fault;
mod inflate;
mod landmarks;
mod map;
mod output;
mod pack;
mod packed;
mod pipe;
mod reading;
mod sequence;
mod source;
mod spool;
mod stream;
mod temporary;
mod tree;
mod whole;
mod zip;

pub use bytes::Bytes;
pub use codec::Codec;
pub use container::{Container, Member, Method};
pub use descriptors::MAX_IDLE_DESCRIPTORS;
pub use error::{Error, ErrorKind, Result};
pub use fault::BusGuard;
pub use landmarks::Landmark;
pub use output::{Closings, OutputFile};
pub use pack::{PackOptions, Packed, Packer, Packing, Pool};
pub use reading::{Reading, is_input};
pub use source::Source;
pub use stream::{Ahead, BlockAt, Stream, StreamOptions};
pub use temporary::{Temporary, remove_temporaries};
pub use tree::{CarrierDamage, Content, ContentPart};
