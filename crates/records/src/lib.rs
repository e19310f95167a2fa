//! The one loop for families of consecutive records.
//!
//! A family of flat records (Cacheray's typed accesses, lines of text) writes a [`RecordCodec`]: what one record is, and where
//! to continue after damage. The rest is here:
//!
//! | file | what |
//! |---|---|
//! | [`feed`] | blocks of a stream, or pushed bytes → consecutive bytes in place |
//! | [`codec`] | what a family says of its records |
//! | [`fill`] | the batch in the making: where a codec puts its rows and findings |
//! | [`pull`] | the loop: windows, cuts, threads, spans, damage, checksums, truncated ends |
//! | [`push`] | the same loop for bytes that arrive when they like: sockets, live capture |
//! | [`trace`] | a [`Trace`](quipu_model::Trace) of files of records |
//! | [`check`] | the tool `check` |
//! | [`survey`] | what only reading a whole trace shows |
//! | [`print`](mod@print) | records as people read them |
//! | [`write`](mod@write) | files of records; verbs that write what they read |
//! | [`lines`] | a codec for records that are lines of text, one kind and one address each |
//!
//! The loop makes no virtual call and no allocation for a record: codecs are types, and rows go into vectors that batches reuse.

#![warn(missing_docs)]

pub mod check;
pub mod codec;
pub mod feed;
pub mod fill;
pub mod lines;
pub mod print;
pub mod pull;
pub mod push;
pub mod survey;
pub mod trace;
pub mod write;

pub use codec::{Ending, Input, RecordCodec, Resume, Step};
pub use feed::Feed;
pub use fill::Fill;
pub use pull::Records;
pub use push::{Batches, Push};
pub use trace::{Family, FlatTrace};
