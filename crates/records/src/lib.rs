//! The shared loop for families of consecutive records.
//!
//! A family of flat records (Cacheray's typed accesses, lines of text) implements a [`RecordCodec`]: it recognises one
//! record, and the place to continue after damage. The rest is here:
//!
//! | file | what |
//! |---|---|
//! | [`feed`] | blocks of a stream, or pushed bytes → consecutive bytes in place |
//! | [`codec`] | the interface of a family's codec |
//! | [`fill`] | the batch under construction: receives a codec's rows and findings |
//! | [`pull`] | the loop: windows, cuts, threads, spans, damage, checksums, truncated ends |
//! | [`push`] | the same loop for bytes that arrive over time: sockets, live capture |
//! | [`trace`] | a [`Trace`](quipu_model::Trace) of files of records |
//! | [`check`] | the tool `check` |
//! | [`survey`] | facts that require reading a whole trace |
//! | [`print`](mod@print) | records as printed for people |
//! | [`write`](mod@write) | files of records; verbs that write the records that they read |
//! | [`lines`] | a codec for records that are lines of text, one kind and one address each |
//!
//! The loop makes no virtual call and no allocation per record: codecs are types, and rows go into vectors that batches
//! reuse.

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
