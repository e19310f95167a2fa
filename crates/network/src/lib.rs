//! Ships streams over a network: senders that ship frames, and a collector that acknowledges them once they are on disk.
//!
//! `docs/collect.md` describes the protocol byte by byte.
//!
//! ```text
//! Source: frames of files ─ Shipper: as they travel ─ Sender ═ Link ═ Receiver ─ Store: a file for each producer
//! a pipe ─ Spool ┘
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`message`] | messages as bytes, and bytes as messages, however they are cut |
//! | [`sender`], [`receiver`] | both sides of the protocol as state machines: bytes in, bytes and events out, no I/O, no clock |
//! | [`have`] | which frames a collector has |
//! | [`ship`] | frames as they travel, and what stands for those that were dropped |
//! | [`source`], [`spool`] | the frames of files that grow and of folders; a folder for what comes through a pipe |
//! | [`writing`](mod@writing) | whether a program still writes a file |
//! | [`since`] | the end of a stream as a stream |
//! | [`store`] | the collector's files: what they hold after a crash, appending, syncing |
//! | [`certificate`], [`identity`] | keys, certificates, tokens; whom TLS trusts |
//! | [`link`](mod@link) | the one place with sockets |
//! | [`send`], [`collect`] | the loops with `poll` |

pub mod certificate;
pub mod collect;
pub mod have;
pub mod identity;
pub mod link;
pub mod message;
pub mod receiver;
pub mod send;
pub mod sender;
pub mod ship;
pub mod since;
pub mod source;
pub mod spool;
pub mod store;
pub mod writing;

pub use quipu_stream::frame::SYNC;
