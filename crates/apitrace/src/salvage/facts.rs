//! The sink and the results of salvage.

use crate::decode::Header;
use crate::feed::Feed;
use quipu_model::result;
use quipu_model::values::{Types, Values};
use quipu_model::{Error, Found, Result};

/// Receives calls from salvage.
pub trait Sink {
    /// Another stream begins: the first, or one that another process wrote.
    ///
    /// # Errors
    /// Errors of the sink; they end the reading.
    fn stream(&mut self, header: &Header, offset: u64) -> Result<()>;

    /// Receives calls of the current stream. Later calls in the stream use the same types.
    ///
    /// # Errors
    /// Errors of the sink; they end the reading.
    fn calls(&mut self, values: &Values, types: &Types) -> Result<()>;
}

/// Outcome of reading a damaged trace.
#[derive(Clone, Debug, Default)]
pub struct Salvaged {
    /// The streams, in the order of the file.
    pub streams: Vec<StreamFacts>,
    /// Findings about the trace.
    pub found: Found,
    /// Bytes that were inflated but are not events.
    pub lost_bytes: u64,
    /// Number of chunks that cannot be inflated to their ends.
    pub lost_chunks: u64,
    /// Number of calls of the current stream dropped because they contradict others.
    pub(super) taken_back: u64,
}

/// The end of a run of bytes.
pub(super) struct Ended {
    /// Offset of the end in the stream.
    pub(super) at: u64,
    /// The error of the container, if it failed.
    pub(super) failure: Option<Error>,
    /// Offset of that failure in the file.
    pub(super) failed_at: Option<u64>,
    /// Index of the chunk that continues where this run ends, and the bytes of the event that lies across.
    pub(super) joint: Option<(usize, Vec<u8>)>,
}

impl Ended {
    pub(super) fn of(feed: &mut Feed, failure: Option<Error>) -> Ended {
        Ended {
            at: feed.n_bytes(),
            failure: failure.or_else(|| feed.take_failure()),
            failed_at: feed.failed_at(),
            joint: None,
        }
    }

    pub(super) fn joined(feed: &mut Feed, next: usize) -> Ended {
        let joint = Some((next, feed.unused().to_vec()));
        Ended { joint, ..Ended::of(feed, None) }
    }
}

result! {
    /// Facts about one of the streams in a file.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct StreamFacts {
        pub offset: u64 => "Offset of its first byte in the inflated file.";
        pub end: u64 => "Offset of the end of its last whole event.";
        pub calls: u64 => "Calls read.";
        pub incomplete: u64 => "Calls that never returned, or whose return was lost.";
        pub lost_calls: u64 => "Lost calls, according to the numbers of other calls.";
        pub lost_signatures: u64 => "Signatures that were made up in place of lost ones.";
        pub doubtful: u64 =>
            "Calls entered right before damage whose content is not confirmed by other events.";
        pub suspect: u64 =>
            "Calls read from damaged chunks or frames. Some bytes inflate to other data than was recorded, so any of \
             their values may be wrong.";
    } beside {
        pub is_whole: bool => "Whether the stream is intact up to `end`.";
    }
}
