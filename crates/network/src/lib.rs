//! Ships streams over a network: senders that ship frames, and a collector that acknowledges them once they are on disk.
//!
//! `docs/collect.md` describes the protocol byte by byte.
//!
//! ```text
//! Source: frames of files ─ Shipper: prepares them ─ Sender ═ Link ═ Receiver ─ Store: a file for each producer
//! a pipe ─ Spool ┘
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`message`] | encodes messages, and parses input in chunks of any size |
//! | [`sender`], [`receiver`] | both sides of the protocol as state machines: bytes in, bytes and events out, no I/O, no clock |
//! | [`have`] | the set of frames that a collector has |
//! | [`ship`] | prepares frames for transit, and replaces dropped ones by losses |
//! | [`source`], [`spool`] | reads the frames of growing files and of folders; stores data from a pipe in a folder |
//! | [`writing`](mod@writing) | detects whether a program is still writing a file |
//! | [`since`] | cuts the end of a stream into a stream of its own |
//! | [`store`] | the collector's files: their contents after a crash, appending, syncing |
//! | [`certificate`], [`identity`] | keys, certificates, tokens; the certificates that TLS trusts |
//! | [`link`](mod@link) | a connection: the only module that reads and writes sockets |
//! | [`send`], [`collect`] | the `poll` loops of sender and collector |

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
