//! The interface of a family's codec.

use crate::fill::Fill;
use quipu_model::{Amount, RuleInfo, TableBuf};
use std::fmt::Debug;

/// The codec of a family of records. The value holds facts found at opening (a dialect, the size of words); the state is
/// accumulated while reading.
pub trait RecordCodec: Clone + Debug + Send + Sync + 'static {
    /// State that reading accumulates: threads seen so far, counts of lines, buffers.
    type State: Clone + Debug + Send;

    /// Number of violations of a rule that are reported individually; the last one stands for all further ones.
    const TOLD_PER_RULE: u64 = u64::MAX;

    /// Whether instructions are counted, so that windows of instructions are meaningful.
    const COUNTS_INSTRS: bool;

    /// Name of the format, for messages.
    fn name(&self) -> &'static str;

    /// The state before the first record.
    fn begin(&self) -> Self::State;

    /// Empty rows of each native table, in the order of the trace's list.
    fn tables(&self, state: &Self::State) -> Vec<Box<dyn TableBuf>>;

    /// Handles the front of the input, which is not empty. A codec that needs more bytes asks for them and is called again;
    /// if the bytes are the [last](Input::is_last), it must handle what there is.
    fn record(&self, state: &mut Self::State, input: Input<'_>, out: &mut Fill) -> Step;

    /// Adds plain consecutive records that fit into the batch, and returns their number of bytes. This is the fast path; the
    /// rest goes to [`record`](RecordCodec::record).
    #[inline]
    fn run(&self, _state: &mut Self::State, _bytes: &[u8], _out: &mut Fill) -> usize {
        0
    }

    /// Looks for the first place where records continue after damage; the front of the input is the first candidate.
    fn resume(&self, _state: &mut Self::State, _input: Input<'_>) -> Resume {
        Resume::Here(0)
    }

    /// Handles the statement that the carrier of the bytes [makes](quipu_source::Content::said_at) about a place after
    /// unreadable bytes. If records continue right there, returns how many were lost in between; `n_records` were read
    /// before. Otherwise [`resume`](RecordCodec::resume) looks for the next place.
    fn rejoin(&self, _state: &mut Self::State, _said: &[u8], _n_records: u64) -> Option<Amount> {
        None
    }

    /// Checks a trace that was read to its end.
    fn ended(&self, _state: &mut Self::State, _out: &mut Fill) {}
}

/// The bytes offered to a codec.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The end of the data right after these bytes; `None` if more may follow.
    pub ending: Option<Ending>,
}

impl Input<'_> {
    /// Whether no more bytes follow.
    pub fn is_last(&self) -> bool {
        self.ending.is_some()
    }
}

/// The way in which data ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The data is complete.
    Whole,
    /// The container is truncated, or is of a kind that cannot be read further.
    Cut,
    /// A disk failed, or a checksum is wrong: the trace itself may continue.
    Unread,
}

/// The item at the front of the input.
#[derive(Debug)]
pub enum Step {
    /// A record of this length, which was added to the batch.
    Record(usize),
    /// Valid bytes of this length that are not a record.
    Other(usize),
    /// Like `Other`, but too many bytes to keep for callers that want [raw](quipu_model::Columns::RAW) ones: the batch must
    /// have no records.
    Bulk(usize),
    /// An item that takes this many bytes, counted from the front, to recognise.
    More(usize),
    /// A record that belongs to another batch: it is of another thread, or the instruction to stop before. The codec is
    /// called again with the same bytes and an unchanged state.
    Cut,
    /// Not a record. Reading continues `skip` bytes further on, or where [`RecordCodec::resume`] says.
    Lost {
        /// The rule that is broken.
        rule: &'static RuleInfo,
        /// The message.
        what: String,
        /// Number of bytes that are not a record, if the codec knows it.
        skip: Option<usize>,
        /// Number of records that they would have been, as far as the codec knows it.
        records: Amount,
    },
    /// The rest of the trace, which is not a record: a violation, unless the container explains it. The input must be the
    /// last one ([`Input::is_last`]).
    Rest(&'static RuleInfo, String),
}

/// The place where records continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// This many bytes further on.
    Here(usize),
    /// Not within the first `skip` bytes; `wants` bytes are needed to decide about the place after them.
    More {
        /// Number of bytes that are not records.
        skip: usize,
        /// Number of bytes needed to decide about the next place.
        wants: usize,
    },
    /// Nowhere in these bytes, which are the last.
    Nowhere,
}
