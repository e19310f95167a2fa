//! Heuristics for real records: they detect the dialect, recognise a trace, and find a place to continue after damage.
//!
//! The format has neither a header nor markers, so all of this depends on values. SPEC: cacheray.md#dialects-and-byte-order,
//! cacheray.md#damage.

use crate::decode::{Layout, Stop, record, record_of, with_layout};
use crate::record::{ADD, Add, Dialect, KIND_MASK, READ, REMOVE, Record};

/// Maximum number of records examined to detect the dialect.
const DETECTED_RECORDS: u32 = 4096;
/// Number of bytes examined to detect the dialect: the usual size of `DETECTED_RECORDS` records with annotations.
pub const DETECTED_BYTES: usize = 128 << 10;
/// A run of this many plausible records is not accidental.
pub const RUN_RECORDS: u32 = 16;
/// At the end of the data, a run of this many is sufficient.
pub(crate) const LAST_RECORDS: u32 = 2;
/// Maximum size of a plausible annotation in bytes.
pub(crate) const MAX_ANNOTATION_BYTES: usize = 64 + USUAL_NAME_BYTES;
/// Longer names of types are implausible, though not impossible.
const USUAL_NAME_BYTES: usize = 4096;
/// Thread ids of kernels are smaller than this. Libraries use other ids, which may have all 64 bits.
const USUAL_THREADS: u64 = 1 << 32;
/// Programs map no memory below this address.
const FIRST_MAPPED: u64 = 4096;
/// Number of records that must follow one with a wrong tag, unless the trace ends there.
const RECORDS_AFTER_BAD_TAG: u32 = 4;

/// True if a compiler's instrumentation could have written this record. Thread ids may be any number and are not checked.
pub fn is_plausible(record: &Record<'_>) -> bool {
    let has_size = !matches!(record, Record::Access(access) if !matches!(access.size, 1 | 2 | 4 | 8 | 16));
    has_size && is_possible(record)
}

/// True for addresses that machines have: their upper 16 bits are all the same.
pub fn is_address(addr: u64) -> bool {
    matches!(addr >> 48, 0 | 0xffff)
}

/// True if any writer could have written this record.
pub fn is_possible(record: &Record<'_>) -> bool {
    flags_of_annotation(record) == 0 && has_possible_fields(record)
}

/// Like [`is_possible`], but ignores flags of annotations.
pub(crate) fn has_possible_fields(record: &Record<'_>) -> bool {
    let has_fields = match record {
        Record::Access(access) => access.size > 0,
        Record::Add(Add { name, .. }) => {
            let is_usual = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
            name.len() <= USUAL_NAME_BYTES && name.iter().all(is_usual)
        }
        Record::Remove(_) => true,
    };
    has_fields && is_address(record.addr())
}

/// The flags of an annotation, which should have none; 0 for an access.
pub(crate) fn flags_of_annotation(record: &Record<'_>) -> u8 {
    if matches!(record, Record::Access(_)) { 0 } else { record.tag() & !KIND_MASK }
}

/// Threads seen in a trace, to distinguish a new thread from damaged bytes.
#[derive(Clone, Debug, Default)]
pub struct Familiar(Vec<u64>);

/// Maximum number of threads kept.
const MAX_FAMILIAR: usize = 256;

impl Familiar {
    /// True for ids that a kernel could give, and for threads seen before.
    pub fn has(&self, thread: u64) -> bool {
        thread < USUAL_THREADS || self.0.contains(&thread)
    }

    /// Notes a thread with plausible records.
    pub fn add(&mut self, thread: u64) {
        if !self.has(thread) && self.0.len() < MAX_FAMILIAR {
            self.0.push(thread);
        }
    }
}

/// Result of looking for a run of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// A run of plausible records.
    Records,
    /// No such run.
    None,
    /// More bytes are needed to decide: this many from the place on.
    More(usize),
}

/// The condition for records of a run.
pub(crate) type Test = fn(&Record<'_>) -> bool;

/// Whether a run of records begins at the start of `bytes`. A record whose thread is neither familiar nor used by an earlier
/// record of the run must satisfy [`is_plausible`]: one with an unusual size may be other bytes. With `n_last`, the data ends
/// with `bytes`, and a run of that many records is sufficient there.
pub(crate) fn run_of<L: Layout>(bytes: &[u8], test: Test, n_last: Option<u32>, familiar: &Familiar) -> Run {
    let mut at = 0;
    let mut threads = [0; RUN_RECORDS as usize];
    for n_records in 0..RUN_RECORDS {
        match record::<L>(bytes.get(at..).unwrap_or(&[])) {
            Ok((record, length)) => {
                let thread = record.thread();
                let is_first = n_records == 0;
                let comes_again = threads.iter().take(n_records as usize).any(|other| *other == thread);
                let is_known = is_first || comes_again || familiar.has(thread) || is_plausible(&record);
                if !test(&record) || !is_known {
                    return Run::None;
                }
                threads[n_records as usize] = thread;
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

/// Whether the bytes after a record are plausible records, as far as they go. Records with a wrong tag are accepted.
pub(crate) fn is_followed<L: Layout>(bytes: &[u8], familiar: &Familiar) -> bool {
    let mut at = 0;
    for _ in 0..RECORDS_AFTER_BAD_TAG {
        let rest = bytes.get(at..).unwrap_or(&[]);
        at += match record::<L>(rest) {
            Ok((record, length)) if is_plausible(&record) => length,
            Err(Stop::More(_)) => return true,
            _ => match after_bad_tag::<L>(rest, familiar) {
                Some(length) => length,
                None => return false,
            },
        };
    }
    true
}

/// Statistics of a trace's records in one dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Number of possible records before the first that is not.
    pub n_first: u32,
    /// Number of records, from the first on, that a compiler's instrumentation could have written.
    pub n_run: u32,
    /// Number of possible records.
    pub n_good: u32,
    /// Number of impossible records, and of places without a record.
    pub n_bad: u32,
    /// Number of records in `n_bad` that only have a wrong tag.
    pub n_bad_tags: u32,
    /// Number of bytes of possible records; those of usual records (`is_usual`) count twice.
    pub explained: u64,
}

impl Look {
    /// Whether a compiler's instrumentation could have written all records so far.
    fn is_run(&self) -> bool {
        self.n_run == self.n_good + self.n_bad
    }

    /// Whether most of the records are possible. One of two may have a bad tag.
    pub(crate) fn makes_sense(&self) -> bool {
        let is_half_of_two = (self.n_first, self.n_good, self.n_bad, self.n_bad_tags) == (1, 1, 1, 1);
        self.n_good > self.n_bad || is_half_of_two
    }
}

/// Examines the beginning of a trace in a dialect.
pub fn look(dialect: Dialect, head: &[u8]) -> Look {
    look_until(dialect, head, |_, _| false)
}

/// Like [`look`], but stops when `is_enough` returns true; it is given the number of bytes left.
fn look_until(dialect: Dialect, head: &[u8], is_enough: impl Fn(&Look, usize) -> bool) -> Look {
    with_layout!(dialect, L => look_as::<L>(head, is_enough))
}

fn look_as<L: Layout>(head: &[u8], is_enough: impl Fn(&Look, usize) -> bool) -> Look {
    let mut look = Look::default();
    let mut at = 0;
    let mut familiar = Familiar::default();
    let mut is_odd = true;
    while look.n_good + look.n_bad < DETECTED_RECORDS {
        let bytes = head.get(at..).unwrap_or(&[]);
        if is_enough(&look, bytes.len()) {
            break;
        }
        let found = record::<L>(bytes);
        if let Ok((record, length)) = &found
            && is_possible(record)
        {
            look.n_first += u32::from(look.n_bad == 0);
            look.n_run += u32::from(look.n_bad == 0 && look.n_run == look.n_good && is_plausible(record));
            look.n_good += 1;
            is_odd &= !is_plausible(record);
            let is_usual = is_usual(record, &familiar);
            look.explained += *length as u64 * if is_usual { 2 } else { 1 };
            familiar.add(record.thread());
            at += length;
            continue;
        }
        let only_tag = after_bad_tag::<L>(bytes, &familiar);
        // Only accesses have a length that does not depend on their values. A tag changed to another known one shifts all
        // records after it; then a place to continue is searched for, unless this is the first record.
        let rest = |length: &usize| bytes.get(*length..).unwrap_or(&[]);
        let length = match (only_tag, &found) {
            (Some(length), _) => length,
            (None, Ok((_, length))) if look.n_first == 0 || is_followed::<L>(rest(length), &familiar) => {
                *length
            }
            (None, Ok(_) | Err(Stop::Bad(_))) => 1,
            (None, Err(Stop::More(_))) => break,
        };
        look.n_bad += 1;
        look.n_bad_tags += u32::from(only_tag.is_some());
        at += length;
    }
    // A record that is incomplete in one dialect may be complete in another, so a single record has to be one that a
    // compiler's instrumentation could have written.
    if look.n_good == 1 && is_odd {
        look.explained = 0;
    }
    look
}

/// True for a plausible record of a familiar thread. Its address must be in mapped memory; otherwise, zeros of other fields
/// may look like an address.
fn is_usual(record: &Record<'_>, familiar: &Familiar) -> bool {
    record.addr() >= FIRST_MAPPED && familiar.has(record.thread()) && is_plausible(record)
}

/// The length of the record at the start of `bytes` if only its tag is wrong: with another tag it is possible, and records
/// follow it, or it ends with the bytes. If the record is incomplete with its own tag, a record has to follow: truncation is
/// more likely.
pub(crate) fn after_bad_tag<L: Layout>(bytes: &[u8], familiar: &Familiar) -> Option<usize> {
    let found = bytes.first()?;
    let is_cut = matches!(record::<L>(bytes), Err(Stop::More(_)));
    [READ, REMOVE, ADD].into_iter().filter(|tag| tag != found).find_map(|tag| {
        let (with_tag, length) = record_of::<L>(tag, bytes).ok().filter(|(record, _)| is_possible(record))?;
        let behind = bytes.get(length..)?;
        let thread = with_tag.thread();
        let mut at = 0;
        let mut comes_again = familiar.has(thread);
        for _ in 0..RECORDS_AFTER_BAD_TAG {
            match record::<L>(behind.get(at..).unwrap_or(&[])) {
                Ok((next, length)) if is_plausible(&next) => {
                    comes_again |= next.thread() == thread;
                    at += length;
                }
                Err(Stop::More(_)) if at > 0 || (behind.is_empty() && !is_cut) => break,
                _ => return None,
            }
        }
        (comes_again || is_plausible(&with_tag)).then_some(length)
    })
}

/// The dialect in which the beginning of a trace is most plausible; the first in the order of likelihood if several are
/// equal. A long run of plausible records decides: after it, records may be damaged. Without a run, one bad record must not
/// decide, so each dialect is tried to the end of the bytes, and the one that explains most of them is taken.
pub fn detect(head: &[u8]) -> Dialect {
    // PERF: in wrong dialects, nearly every byte begins a bad record, and each is expensive to examine. So no dialect is
    // examined beyond a deciding run, and usually only the right dialect has such a run.
    let run_up_to = |most: u32| {
        move |dialect| look_until(dialect, head, |look, _| !look.is_run() || look.n_run >= most).n_run
    };
    let run = run_up_to(RUN_RECORDS);
    match Dialect::ALL.map(|dialect| u32::from(run(dialect) >= RUN_RECORDS)).iter().sum() {
        0 => best_of(|dialect| look(dialect, head).explained),
        1 => best_of(|dialect| run(dialect).into()),
        _ => best_of(|dialect| run_up_to(u32::MAX)(dialect).into()),
    }
}

/// The dialect with the highest rank, the first of equals.
fn best_of(rank: impl Fn(Dialect) -> u64) -> Dialect {
    let ranks = Dialect::ALL.map(|dialect| (dialect, rank(dialect)));
    let better = |best: (Dialect, u64), other: (Dialect, u64)| if other.1 > best.1 { other } else { best };
    ranks.into_iter().fold(ranks[0], better).0
}

/// Whether most records at the beginning of a file are possible in some dialect. PERF: stops when there are more bad records
/// than good ones could still follow, which is soon for text.
pub(crate) fn makes_sense(head: &[u8]) -> bool {
    Dialect::ALL.into_iter().any(|dialect| {
        let is_hopeless = |look: &Look, n_left: usize| {
            look.n_bad as usize > look.n_good as usize + n_left / dialect.remove_bytes()
        };
        look_until(dialect, head, is_hopeless).makes_sense()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{Le64, encode};
    use crate::record::{Access, Remove};

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
                let bytes = trace(dialect, n);
                let look = look(dialect, &bytes);
                assert_eq!((detect(&bytes), look.n_bad), (dialect, 0), "{n}");
                assert_eq!(u64::from(look.n_good), n + 2);
            }
        }
        assert_eq!(detect(&[]), Dialect::Le64);
    }

    #[test]
    fn a_bad_tag_costs_its_record_and_a_trace_is_still_recognised() {
        for dialect in Dialect::ALL {
            let whole = trace(dialect, 3);
            let starts = [0, 40, 58].map(|at| if dialect.address_bytes() == 8 { at } else { at * 9 / 10 });
            for (bad, tag) in starts.into_iter().flat_map(|at| [(at, 7), (at, 0x3f)]) {
                let mut bytes = whole.clone();
                let first = usize::from(bad > 0) * (dialect.add_bytes() + 11);
                let at = if bad == starts[2] { first + dialect.access_bytes() } else { first };
                bytes[at] = tag;
                let (found, look) = (detect(&bytes), look(dialect, &bytes));
                assert_eq!((found, look.n_good, look.n_bad), (dialect, 4, 1), "{at} {tag}");
            }
        }
    }

    #[test]
    fn a_bad_tag_in_any_record_of_any_trace_changes_no_dialect() {
        // Addresses of stacks, heaps, programs, and of 32-bit programs; a short trace ends with the last record.
        let places = [0x7ffe_0000_1000, 0x5555_5611_2000, 0x40_1000, 0xffff_d010];
        for (dialect, first) in Dialect::ALL.into_iter().flat_map(|d| places.map(|place| (d, place))) {
            if dialect == Dialect::Ilp32 && first > u64::from(u32::MAX) {
                continue;
            }
            for (n, thread, is_write) in
                [(2, 0, 0), (2, 7001, 1), (3, 0, 0), (4, 0, 1), (8, 0, 1), (300, 7001, 0)]
            {
                let mut bytes = Vec::new();
                for i in 0..n {
                    let addr = first + 8 * (i % 7) + 4 * (i % 2);
                    let tag = if i % 2 == 0 { is_write } else { READ };
                    let access = Access { tag, addr, size: if i % 2 == 0 { 8 } else { 4 }, thread };
                    encode(dialect, &Record::Access(access), &mut bytes).unwrap();
                }
                for bad in 0..n.min(9) {
                    for tag in [ADD, REMOVE, 4, 7, 0x3f, 0x47, 0x84, 0xff] {
                        // A first record with the tag of an annotation has a different length, and no record precedes it.
                        if bad == 0 && tag & KIND_MASK <= REMOVE {
                            continue;
                        }
                        let mut bytes = bytes.clone();
                        bytes[bad as usize * dialect.access_bytes()] = tag;
                        let (found, look) = (detect(&bytes), look(dialect, &bytes));
                        let what = format!("{first:#x}, record {bad} of {n}, tag {tag:#x}");
                        assert_eq!(found, dialect, "{what}");
                        if tag & KIND_MASK > REMOVE {
                            let good = u32::try_from(n).unwrap() - 1;
                            assert_eq!((look.n_good, look.n_bad, look.n_bad_tags), (good, 1, 1), "{what}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn threads_of_64_bits_make_a_trace_no_less_plausible() {
        let thread = |i: u64| 0xffff_8000_0000_0000 | (i << 12) | 0x700;
        for dialect in Dialect::ALL {
            for n_threads in [1, 5, 40] {
                let mut bytes = Vec::new();
                for i in 0..40 {
                    let access = Access {
                        tag: READ,
                        addr: 0x5555_2480 + 8 * i,
                        size: 8,
                        thread: thread(i % n_threads),
                    };
                    encode(dialect, &Record::Access(access), &mut bytes).unwrap();
                }
                let (found, seen) = (detect(&bytes), look(dialect, &bytes));
                assert_eq!((found, seen.n_good, seen.n_bad), (dialect, 40, 0), "{n_threads}");
                let one = look(dialect, &bytes[..dialect.access_bytes()]);
                assert_eq!((one.n_first, one.n_good, one.n_bad), (1, 1, 0));
            }
        }
    }

    /// Stopping early must not change the result.
    #[test]
    fn looks_that_stop_early_come_to_the_same() {
        let text = |i: usize| b"I  04001000,3\n S 1ffefffe98,8\n"[i % 30];
        for dialect in Dialect::ALL {
            let whole = trace(dialect, 60);
            for n_text in [0, 1, 17, 200, 600, 1000, 2000] {
                for at in [0, 17, 40, 300] {
                    let mut bytes = whole.clone();
                    bytes.splice(at..at, (0..n_text).map(text));
                    let looks = Dialect::ALL.map(|dialect| (dialect, look(dialect, &bytes)));
                    let mut best = looks[0];
                    for other in &looks[1..] {
                        let has_run = best.1.n_run.max(other.1.n_run) >= RUN_RECORDS;
                        let rank = |look: &Look| if has_run { look.n_run.into() } else { look.explained };
                        if rank(&other.1) > rank(&best.1) {
                            best = *other;
                        }
                    }
                    assert_eq!(detect(&bytes), best.0, "{dialect:?} {n_text} at {at}");
                    let any = looks.iter().any(|(_, look)| look.makes_sense());
                    assert_eq!(makes_sense(&bytes), any, "{dialect:?} {n_text} at {at}");
                }
            }
        }
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
        // At the end of the data, three records are a run, and one is not.
        let last = &bytes[bytes.len() - 17 - 36..];
        assert_eq!(run_of::<Le64>(last, is_plausible, Some(LAST_RECORDS), &familiar), Run::Records);
        assert_eq!(run_of::<Le64>(last, is_plausible, None, &familiar), Run::More(54));
        assert_eq!(run_of::<Le64>(&last[36..], is_plausible, Some(LAST_RECORDS), &familiar), Run::None);
    }
}
