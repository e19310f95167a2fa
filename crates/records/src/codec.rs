//! What a family says of its records.

use crate::fill::Fill;
use quipu_model::{Amount, RuleInfo, TableBuf};
use std::fmt::Debug;

/// How the records of a family read. The value holds what opening the trace has shown (a dialect, the width of words), the
/// state what reading learns.
pub trait RecordCodec: Clone + Debug + Send + Sync + 'static {
    /// What reading learns: threads met so far, counts of lines, buffers.
    type State: Clone + Debug + Send;

    /// How many violations of a rule are reported one by one; the last stands for all further ones.
    const TOLD_PER_RULE: u64 = u64::MAX;

    /// Whether instructions are counted, so that windows of instructions make sense.
    const COUNTS_INSTRS: bool;

    /// Name of the format, for messages.
    fn name(&self) -> &'static str;

    /// The state before the first record.
    fn begin(&self) -> Self::State;

    /// Empty rows of each native table, in the order of the trace's list.
    fn tables(&self, state: &Self::State) -> Vec<Box<dyn TableBuf>>;

    /// Takes what stands at the front of the input, which is not empty. A codec that wants more bytes than there are asks for
    /// them and is called again; of the [last](Input::is_last) bytes it has to make something.
    fn record(&self, state: &mut Self::State, input: Input<'_>, out: &mut Fill) -> Step;

    /// Takes plain records, which follow each other and fit into the batch, and returns how many bytes they have. This is the
    /// fast path; what it leaves goes to [`record`](RecordCodec::record).
    #[inline]
    fn run(&self, _state: &mut Self::State, _bytes: &[u8], _out: &mut Fill) -> usize {
        0
    }

    /// Looks for the first place where records continue after damage; the front is the first candidate.
    fn resume(&self, _state: &mut Self::State, _input: Input<'_>) -> Resume {
        Resume::Here(0)
    }

    /// Takes what carries the bytes [says](quipu_source::Content::said_at) of a place after bytes that cannot be read. If records
    /// continue right there, gives how many were lost in between; `n_records` were read before. Otherwise
    /// [`resume`](RecordCodec::resume) looks for the next place.
    fn rejoin(&self, _state: &mut Self::State, _said: &[u8], _n_records: u64) -> Option<Amount> {
        None
    }

    /// Judges a trace that was read to its end.
    fn ended(&self, _state: &mut Self::State, _out: &mut Fill) {}
}

/// The bytes that a codec looks at.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// How the data ends right after these bytes; `None` if more may follow.
    pub ending: Option<Ending>,
}

impl Input<'_> {
    /// Whether no further bytes follow.
    pub fn is_last(&self) -> bool {
        self.ending.is_some()
    }
}

/// How data ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    Whole,
    /// The container is cut, or of a kind that cannot be read on.
    Cut,
    /// A disk fails, or a checksum is wrong: the trace itself may continue.
    Unread,
}

/// What stands at the front of the input.
#[derive(Debug)]
pub enum Step {
    /// A record of this length, which is in the batch now.
    Record(usize),
    /// Bytes of this length that belong there and are no record.
    Other(usize),
    /// The same bytes, too many to be kept for callers that want [raw](quipu_model::Columns::RAW) ones: the batch has to be
    /// empty of records.
    Bulk(usize),
    /// Something that takes this many bytes to judge, counted from the front.
    More(usize),
    /// A record that belongs to another batch: of another thread, or the instruction to stop before. The codec is called again
    /// with the same bytes, and the state is as it left it.
    Cut,
    /// No record. Reading continues `skip` bytes further on, or where [`RecordCodec::resume`] says.
    Lost {
        /// The rule that is broken.
        rule: &'static RuleInfo,
        /// What is wrong.
        what: String,
        /// How many bytes are no record, if the codec knows.
        skip: Option<usize>,
        /// How many records they would have been, as far as the codec knows.
        records: Amount,
    },
    /// The rest of the trace, which is no record: a violation, unless the container explains it. The input has to be the last one
    /// ([`Input::is_last`]).
    Rest(&'static RuleInfo, String),
}

/// Where records continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// This many bytes further on.
    Here(usize),
    /// Not within the first `skip` bytes; the place after them takes `wants` bytes to judge.
    More {
        /// Bytes that are no records.
        skip: usize,
        /// Bytes to judge the next place by.
        wants: usize,
    },
    /// Nowhere in these bytes, which are the last.
    Nowhere,
}
