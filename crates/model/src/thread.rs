//! Identity of a thread: the number that its trace gives it, and which trace that is.
//!
//! Numbers have 64 bits, as `pthread_self` returns them. Traces that are read together are called workloads, and their
//! threads may have equal numbers; so the workload is kept next to the number, never in it, unless a format packs both into
//! one word.

use crate::number::{self, NotANumber};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;
use std::str::FromStr;

/// A thread of a trace.
///
/// Formatted as `5747`, or `W1.T5747` for a thread of a further trace; `1:5747` is also parsed. In JSON it has the keys
/// `thread` and, for a further trace, `workload`. Numbers beyond 2^53 keep all digits there; readers that convert numbers to
/// floating point lose some.
///
/// ```
/// use quipu_model::ThreadId;
/// let thread = ThreadId { workload: 1, tid: 0x7f12_3456_7000 };
/// assert_eq!("1:0x7f1234567000".parse(), Ok(thread));
/// assert_eq!(thread.to_string().parse(), Ok(thread));
/// assert!(ThreadId::from(u64::MAX) < thread, "threads are in the order of their traces");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// Position of the thread's trace among those opened together, counted from 0.
    pub workload: u16,
    /// Number of the thread in that trace; 0 if the trace does not state it.
    pub tid: u64,
}

/// Number of low bits for the thread's number in a word that also holds the workload.
const PACKED_TID_BITS: u32 = 48;
const PACKED_TID_MASK: u64 = (1 << PACKED_TID_BITS) - 1;

impl ThreadId {
    /// Stands for the thread of an idle core.
    pub const IDLE: ThreadId = ThreadId { workload: 0, tid: u64::MAX };

    /// Unpacks a word in DynamoRIO's form, which has the workload in the upper 16 bits; all ones is [`ThreadId::IDLE`].
    pub fn from_packed(word: u64) -> ThreadId {
        match word {
            u64::MAX => ThreadId::IDLE,
            _ => ThreadId { workload: (word >> PACKED_TID_BITS) as u16, tid: word & PACKED_TID_MASK }, // 16 bits are left.
        }
    }

    /// Packs the thread into a word in DynamoRIO's form: the number, and the workload in the upper 16 bits.
    pub fn packed(self) -> u64 {
        match self.workload {
            0 => self.tid,
            workload => u64::from(workload) << PACKED_TID_BITS | self.tid & PACKED_TID_MASK,
        }
    }

    /// True for [`ThreadId::IDLE`].
    pub fn is_idle(self) -> bool {
        self == ThreadId::IDLE
    }
}

/// True for the first workload, which output does not mention.
pub fn is_first_workload(workload: &u16) -> bool {
    *workload == 0
}

impl Serialize for ThreadId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = (!is_first_workload(&self.workload)).then_some(self.workload);
        let mut keys = serializer.serialize_struct("ThreadId", 1 + usize::from(named.is_some()))?;
        keys.serialize_field("thread", &self.tid)?;
        if let Some(workload) = named {
            keys.serialize_field("workload", &workload)?;
        }
        keys.end()
    }
}

/// Serializes a list of threads: as numbers, or as texts such as `W1.T5747` for threads of further traces.
///
/// # Errors
/// Those of the serializer.
pub fn numbers<S: Serializer>(threads: &[ThreadId], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(serde::Serialize)]
    #[serde(untagged)]
    enum Listed {
        Number(u64),
        Name(String),
    }
    serializer.collect_seq(threads.iter().map(|thread| match thread.workload {
        0 => Listed::Number(thread.tid),
        _ => Listed::Name(thread.to_string()),
    }))
}

/// Converts a number into a thread of the first trace.
impl From<u64> for ThreadId {
    fn from(tid: u64) -> ThreadId {
        ThreadId { workload: 0, tid }
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.workload {
            0 => write!(f, "{}", self.tid),
            workload => write!(f, "W{workload}.T{}", self.tid),
        }
    }
}

/// The reason why a text is not a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAThread {
    text: String,
    why: NotANumber,
}

impl std::error::Error for NotAThread {}

impl fmt::Display for NotAThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            NotANumber::Malformed => {
                write!(f, "expected a thread such as 5750 or 1:5750, found `{}`", self.text)
            }
            NotANumber::TooLarge => write!(f, "`{}` is larger than 64 bits hold", self.text),
        }
    }
}

impl FromStr for ThreadId {
    type Err = NotAThread;

    fn from_str(text: &str) -> Result<ThreadId, NotAThread> {
        let not = |why| NotAThread { text: text.to_owned(), why };
        let printed = text.strip_prefix('W').and_then(|rest| rest.split_once(".T"));
        let (workload, tid) = printed.or_else(|| text.split_once(':')).unwrap_or(("0", text));
        let workload = workload.parse().map_err(|_| not(NotANumber::Malformed))?;
        Ok(ThreadId { workload, tid: number::count(tid).map_err(not)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_name_its_workload() {
        for (text, workload, tid) in [
            ("5750", 0, 5750),
            ("0:5750", 0, 5750),
            ("1:5750", 1, 5750),
            ("W2.T0x10", 2, 16),
            ("65535:18446744073709551614", 65535, u64::MAX - 1),
            ("0xffff7f1234567000", 0, 0xffff_7f12_3456_7000),
        ] {
            assert_eq!(text.parse(), Ok(ThreadId { workload, tid }), "{text}");
        }
        for text in ["", "1:", ":5", "x:5", "65536:1", "W1", "W1.5", "-1"] {
            assert!(text.parse::<ThreadId>().is_err(), "{text}");
        }
        let wide = "1:18446744073709551616".parse::<ThreadId>().unwrap_err();
        assert_eq!(wide.to_string(), "`1:18446744073709551616` is larger than 64 bits hold");
    }

    #[test]
    fn a_workload_stands_in_the_top_bits_of_a_packed_word() {
        let third = ThreadId { workload: 3, tid: 77 };
        assert_eq!((third.packed(), ThreadId::from_packed(3 << 48 | 77)), (3 << 48 | 77, third));
        assert_eq!((ThreadId::IDLE.packed(), ThreadId::from_packed(u64::MAX)), (u64::MAX, ThreadId::IDLE));
        let wide = ThreadId::from(0xffff_7f12_3456_7000);
        assert_eq!(wide.packed(), wide.tid, "the first workload leaves all bits to the number");
    }

    #[test]
    fn all_bits_of_a_number_are_printed_and_read_again() {
        for tid in [0, 1 << 48, 0x7f12_3456_7000, 0xffff_0000_0000_0001, u64::MAX] {
            for workload in [0, 1, u16::MAX] {
                let thread = ThreadId { workload, tid };
                assert_eq!(thread.to_string().parse(), Ok(thread));
                let json = serde_json::to_value(thread).unwrap();
                assert_eq!(
                    (json["thread"].as_u64(), json.get("workload").is_some()),
                    (Some(tid), workload > 0)
                );
            }
        }
    }
}
