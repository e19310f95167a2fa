//! What real records look like: how a dialect is found out, a trace recognised, and a place found to read on from.
//!
//! The format has neither a header nor marks, so all of this is judged by values.
//! SPEC: cacheray.md#dialects-and-byte-order, cacheray.md#damage.

use crate::decode::{Layout, Stop, record, record_of, with_layout};
use crate::record::{ADD, Add, Dialect, KIND_MASK, READ, REMOVE, Record};

/// Records that are looked at to tell the dialect.
const DETECTED_RECORDS: u32 = 4096;
/// Bytes of a trace that are looked at to tell the dialect: what this many annotated records usually take.
pub const DETECTED_BYTES: usize = 128 << 10;
/// This many plausible records in a row are no accident.
pub const RUN_RECORDS: u32 = 16;
/// This many are enough where the data ends after them.
pub(crate) const LAST_RECORDS: u32 = 2;
/// No usual annotation is longer.
pub(crate) const MAX_ANNOTATION_BYTES: usize = 64 + USUAL_NAME_BYTES;
/// Names of types that are longer are unheard of, if not impossible.
const USUAL_NAME_BYTES: usize = 4096;
/// Numbers of threads at and above are not those of a kernel. Libraries give others, which may have all 64 bits.
const USUAL_THREADS: u64 = 1 << 32;
/// Programs have nothing below this address.
const FIRST_MAPPED: u64 = 4096;
/// Records that must follow one whose tag is wrong, unless the trace ends there.
const RECORDS_AFTER_BAD_TAG: u32 = 4;

/// True if a record's values are such as compilers leave. Threads may have any number, so none is looked at.
pub fn is_plausible(record: &Record<'_>) -> bool {
    let has_size = !matches!(record, Record::Access(access) if !matches!(access.size, 1 | 2 | 4 | 8 | 16));
    has_size && is_possible(record)
}

/// True for addresses that machines have: their upper 16 bits are all the same.
pub fn is_address(addr: u64) -> bool {
    matches!(addr >> 48, 0 | 0xffff)
}

/// True if a record's values are such as any writer may leave.
pub fn is_possible(record: &Record<'_>) -> bool {
    flags_of_annotation(record) == 0 && has_possible_fields(record)
}

/// The same, whatever flags an annotation has.
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

/// The flags that an annotation has by mistake.
pub(crate) fn flags_of_annotation(record: &Record<'_>) -> u8 {
    if matches!(record, Record::Access(_)) { 0 } else { record.tag() & !KIND_MASK }
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
    /// It takes more bytes to tell: this many from the place on.
    More(usize),
}

/// What a record of a run must be.
pub(crate) type Test = fn(&Record<'_>) -> bool;

/// Whether a run of records begins at the start of `bytes`. A thread that is neither familiar nor that of another record of
/// the run takes a record that compilers leave: one with an odd size may be other bytes. With `n_last`, the bytes
/// end where the trace ends, and that number of records is enough for a run there.
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

/// Whether the bytes after a record are records such as compilers leave, as far as they go; one of them may have a wrong tag.
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

/// How a trace looks in a dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Plausible records before the first that is not.
    pub n_first: u32,
    /// Records such as compilers leave before the first that is none.
    pub n_run: u32,
    /// Plausible records.
    pub n_good: u32,
    /// Others, and places where no record is.
    pub n_bad: u32,
    /// Those of the others in which nothing but the tag is wrong.
    pub n_bad_tags: u32,
    /// How much of the bytes the dialect explains: those of plausible records, twice where compilers leave such.
    pub explained: u64,
}

impl Look {
    /// Whether all so far are records such as compilers leave.
    fn is_run(&self) -> bool {
        self.n_run == self.n_good + self.n_bad
    }

    /// Whether most of the records make sense. Of two, one may have a bad tag.
    pub(crate) fn makes_sense(&self) -> bool {
        let is_half_of_two = (self.n_first, self.n_good, self.n_bad, self.n_bad_tags) == (1, 1, 1, 1);
        self.n_good > self.n_bad || is_half_of_two
    }
}

/// How the beginning of a trace looks in a dialect.
pub fn look(dialect: Dialect, head: &[u8]) -> Look {
    look_until(dialect, head, |_, _| false)
}

/// The same, as long as the caller needs more than was seen, with this number of bytes left.
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
        // Only accesses have a length that no value of theirs changes. A wrong tag that is a known one shifts all after it,
        // so that a place to continue is looked for, if there was a record before.
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
    // What is cut at its end in one dialect may be read as a whole record in another: a single one has to be such as compilers
    // leave.
    if look.n_good == 1 && is_odd {
        look.explained = 0;
    }
    look
}

/// True for a record such as compilers leave, of a thread of a kernel or one that was met before. Its address is not among
/// those where nothing is mapped, which zeros of other fields look like.
fn is_usual(record: &Record<'_>, familiar: &Familiar) -> bool {
    record.addr() >= FIRST_MAPPED && familiar.has(record.thread()) && is_plausible(record)
}

/// The length of the record at the start of `bytes` if nothing but its tag is wrong: with another tag it makes sense, and
/// records follow it, or it ends with the bytes. A record that would be cut with its own tag has to be followed by one: it
/// is likelier that the trace is cut.
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

/// The dialect in which the beginning of a trace makes sense, the likeliest of equals. A run of records that is no accident
/// decides: what follows it may be mixed up. Before, one bad record must not decide, so each dialect is tried as far as it goes,
/// and the one that explains most is taken.
pub fn detect(head: &[u8]) -> Dialect {
    // PERF: dialects that are not the trace's own have a bad record at almost every byte, and each is judged at length. No look
    // goes further than the run that decides, and the trace's own dialect mostly is the only one that has such a run.
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

/// The dialect of the highest rank, the first of equals.
fn best_of(rank: impl Fn(Dialect) -> u64) -> Dialect {
    let ranks = Dialect::ALL.map(|dialect| (dialect, rank(dialect)));
    let better = |best: (Dialect, u64), other: (Dialect, u64)| if other.1 > best.1 { other } else { best };
    ranks.into_iter().fold(ranks[0], better).0
}

/// Whether most of what a look sees in the beginning of a file makes sense in some dialect. PERF: it stops where bad records
/// are more than all records can be that still fit, which in text is soon.
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
        // Addresses of stacks, heaps, programs, and of 32-bit programs; the last record is what a short trace ends with.
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
                        // A first record with the tag of an annotation has a length of its own, and nothing stands before it.
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

    /// Each step away from the whole look must change nothing but its cost.
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
        // Three records are a run where nothing follows, one is none.
        let last = &bytes[bytes.len() - 17 - 36..];
        assert_eq!(run_of::<Le64>(last, is_plausible, Some(LAST_RECORDS), &familiar), Run::Records);
        assert_eq!(run_of::<Le64>(last, is_plausible, None, &familiar), Run::More(54));
        assert_eq!(run_of::<Le64>(&last[36..], is_plausible, Some(LAST_RECORDS), &familiar), Run::None);
    }
}
