//! What real records look like: how a dialect is told, a trace recognised, and a place found to read on from.
//!
//! The format has neither a header nor marks, so all of this is judged by values. SPEC: docs/formats/cacheray.md,
//! "Dialects and byte order" and "Damage".

use crate::decode::{Layout, Stop, record, with_layout};
use crate::record::{Dialect, KIND_MASK, Record};

/// Records that are looked at to tell the dialect.
const DETECTED_RECORDS: u32 = 4096;
/// Bytes of a trace that are looked at to tell the dialect: what so many annotated records usually take.
pub const DETECTED_BYTES: usize = 128 << 10;
/// So many plausible records in a row are no accident.
pub const RUN_RECORDS: u32 = 16;
/// So many are enough where the data ends behind them.
pub(crate) const LAST_RECORDS: u32 = 2;
/// Names of types that are longer are unheard of, if not impossible.
const USUAL_NAME_BYTES: usize = 4096;
/// Numbers of threads at and above are not those of a kernel.
const USUAL_THREADS: u64 = 1 << 32;
/// Numbers of threads at and above are nobody's.
const ALL_THREADS: u64 = 1 << 48;

/// True if a record's values are such as compilers leave.
pub fn is_plausible(record: &Record<'_>) -> bool {
    let has_size = !matches!(record, Record::Access(access) if !matches!(access.size, 1 | 2 | 4 | 8 | 16));
    has_size && is_possible(record)
}

/// True if a record's values are such as any writer may leave.
pub fn is_possible(record: &Record<'_>) -> bool {
    let upper = record.addr() >> 48;
    let is_address = upper == 0 || upper == 0xffff;
    let has_fields = match record {
        Record::Access(access) => access.size > 0,
        Record::Add(add) => {
            add.tag == add.tag & KIND_MASK
                && add.name.len() <= USUAL_NAME_BYTES
                && add.name.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
        }
        Record::Remove(remove) => remove.tag == remove.tag & KIND_MASK,
    };
    is_address && has_fields && record.thread() < ALL_THREADS
}

/// Threads that were met in a trace, to tell a new thread from bytes that are none.
#[derive(Clone, Debug, Default)]
pub struct Familiar(Vec<u64>);

/// More are not kept.
const MAX_FAMILIAR: usize = 256;

impl Familiar {
    /// True for numbers as kernels give them, and for those that were met before.
    pub fn has(&self, thread: u64) -> bool {
        thread < USUAL_THREADS || self.0.contains(&thread)
    }

    /// Notes a thread whose records make sense.
    pub fn add(&mut self, thread: u64) {
        if !self.has(thread) && self.0.len() < MAX_FAMILIAR {
            self.0.push(thread);
        }
    }
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// A run of records that make sense.
    Records,
    /// No such run.
    None,
    /// It takes more bytes to tell: so many from the place on.
    More(usize),
}

/// What a record of a run must be.
pub(crate) type Test = fn(&Record<'_>) -> bool;

/// Whether a run of records begins at the start of `bytes`. Their threads are familiar, or that of the first. With `n_last`,
/// the last of the bytes are the last of the trace, and so many records are run enough there.
pub(crate) fn run_of<L: Layout>(bytes: &[u8], test: Test, n_last: Option<u32>, familiar: &Familiar) -> Run {
    let mut at = 0;
    let mut first = None;
    for n_records in 0..RUN_RECORDS {
        match record::<L>(bytes.get(at..).unwrap_or(&[])) {
            Ok((record, length)) => {
                let thread = *first.get_or_insert(record.thread());
                let is_known = record.thread() == thread || familiar.has(record.thread());
                if !test(&record) || !is_known {
                    return Run::None;
                }
                at += length;
            }
            Err(Stop::Bad(_)) => return Run::None,
            Err(Stop::More(n_bytes)) => {
                return match n_last {
                    Some(n_last) if n_records >= n_last => Run::Records,
                    Some(_) => Run::None,
                    None => Run::More(at + n_bytes),
                };
            }
        }
    }
    Run::Records
}

/// How a trace looks in a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Plausible records before the first that is not.
    pub n_first: u32,
    /// Plausible records.
    pub n_good: u32,
    /// Others, and places where no record is.
    pub n_bad: u32,
}

/// How the beginning of a trace looks in a dialect.
pub fn look(dialect: Dialect, head: &[u8]) -> Look {
    with_layout!(dialect, L => look_as::<L>(head))
}

fn look_as<L: Layout>(head: &[u8]) -> Look {
    let mut look = Look { n_first: 0, n_good: 0, n_bad: 0 };
    let mut at = 0;
    while look.n_good + look.n_bad < DETECTED_RECORDS {
        match record::<L>(head.get(at..).unwrap_or(&[])) {
            Ok((record, length)) if is_possible(&record) => {
                look.n_first += u32::from(look.n_bad == 0);
                look.n_good += 1;
                at += length;
            }
            Ok((_, length)) => {
                look.n_bad += 1;
                at += length;
            }
            Err(Stop::Bad(_)) => {
                look.n_bad += 1;
                at += 1;
            }
            Err(Stop::More(_)) => break,
        }
    }
    look
}

/// The dialect in which the beginning of a trace looks best, and how it looks; the likeliest of equals.
pub fn detect(head: &[u8]) -> (Dialect, Look) {
    let mut best = (Dialect::Le64, look(Dialect::Le64, head));
    for dialect in &Dialect::ALL[1..] {
        let other = look(*dialect, head);
        let is_better = match (other.n_bad, best.1.n_bad) {
            (0, 0) => false,
            (0, _) => other.n_good > 0,
            (_, 0) => best.1.n_good == 0 && other.n_good > 0,
            // Of two with faults, the one that reads farther.
            _ => other.n_first > best.1.n_first,
        };
        if is_better {
            best = (*dialect, other);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{Le64, encode};
    use crate::record::{ADD, Access, Add, READ, REMOVE, Remove};

    fn trace(dialect: Dialect, n: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let name = b"struct.body";
        let add = Add { tag: ADD, addr: 0x5555_2480, thread: 0, element_bytes: 56, n_elements: 16, name };
        encode(dialect, &Record::Add(add), &mut bytes).unwrap();
        for i in 0..n {
            let access = Access { tag: READ, addr: 0x5555_2480 + 8 * i, size: 8, thread: 0 };
            encode(dialect, &Record::Access(access), &mut bytes).unwrap();
        }
        let remove = Remove { tag: REMOVE, addr: 0x5555_2480, thread: 0 };
        encode(dialect, &Record::Remove(remove), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn each_dialect_is_told_from_the_others() {
        for dialect in Dialect::ALL {
            for n in [0, 1, 100] {
                let (found, look) = detect(&trace(dialect, n));
                assert_eq!((found, look.n_bad), (dialect, 0), "{n}");
                assert_eq!(u64::from(look.n_good), n + 2);
            }
        }
        assert_eq!(detect(&[]).0, Dialect::Le64);
    }

    #[test]
    fn a_run_is_found_only_where_one_is() {
        let bytes = trace(Dialect::Le64, 40);
        let familiar = Familiar::default();
        assert_eq!(run_of::<Le64>(&bytes, is_plausible, None, &familiar), Run::Records);
        for at in 1..40 {
            assert_eq!(run_of::<Le64>(&bytes[at..], is_plausible, None, &familiar), Run::None, "{at}");
        }
        assert_eq!(run_of::<Le64>(&bytes[40..], is_plausible, None, &familiar), Run::Records);
        // Three records are a run where nothing follows, one is none.
        let last = &bytes[bytes.len() - 17 - 36..];
        assert_eq!(run_of::<Le64>(last, is_plausible, Some(LAST_RECORDS), &familiar), Run::Records);
        assert_eq!(run_of::<Le64>(last, is_plausible, None, &familiar), Run::More(54));
        assert_eq!(run_of::<Le64>(&last[36..], is_plausible, Some(LAST_RECORDS), &familiar), Run::None);
    }
}
