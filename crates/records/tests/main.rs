//! Tests the loop with a codec that is small enough to see its calls: a record is a thread, a length and that many bytes.

#![allow(clippy::unwrap_used, unreachable_pub)]

use quipu_model::{
    Amount, Batch, Columns, Cut, Error, ErrorKind, Reader as _, RuleInfo, Scan, Severity, ShardId, TableBuf,
    Window,
};
use quipu_records::{Fill, Input, Push, RecordCodec, Records, Resume, Step};
use quipu_source::Source;
use std::num::NonZeroU64;

static BAD: RuleInfo = RuleInfo {
    name: "toy/bad",
    group: "toys",
    severity: Severity::Error,
    summary: "A thread is below 9.",
    doc: "",
    original: &[],
};

/// Records of threads 0 to 8: the thread, the number of bytes that follow, and these bytes. Records of thread 0 are
/// instructions. After damage, records continue after the next zero byte.
#[derive(Clone, Copy, Debug)]
struct Toy;

impl RecordCodec for Toy {
    type State = u64;
    const COUNTS_INSTRS: bool = true;

    fn name(&self) -> &'static str {
        "toy"
    }

    fn begin(&self) -> u64 {
        0
    }

    fn tables(&self, _: &u64) -> Vec<Box<dyn TableBuf>> {
        Vec::new()
    }

    fn record(&self, state: &mut u64, input: Input<'_>, out: &mut Fill) -> Step {
        let [thread, rest @ ..] = input.bytes else { return Step::More(1) };
        if *thread > 8 {
            return Step::Lost {
                rule: &BAD,
                what: format!("thread {thread}"),
                skip: None,
                records: Amount::Unknown,
            };
        }
        let length = rest.first().map(|n| 2 + usize::from(*n));
        match length {
            Some(length) if length <= input.bytes.len() => {
                let is_instr = *thread == 0;
                if is_instr && out.n_instrs() == out.stop_instr() || !out.enter(u64::from(*thread).into()) {
                    return Step::Cut;
                }
                *state += 1;
                out.add(1, is_instr.into());
                Step::Record(length)
            }
            _ if input.is_last() => Step::Rest(&BAD, "cut".to_owned()),
            length => Step::More(length.unwrap_or(2)),
        }
    }

    fn resume(&self, _: &mut u64, input: Input<'_>) -> Resume {
        match input.bytes.iter().position(|byte| *byte == 0) {
            Some(at) => Resume::Here(at + 1),
            None if input.is_last() => Resume::Nowhere,
            None => Resume::More { skip: input.bytes.len(), wants: 1 },
        }
    }
}

/// Thread, first record, number of records, and offset of each batch; and the findings.
type Batches = (Vec<(u64, u64, u32, u64)>, Vec<(String, Option<u64>)>);

fn take(batch: &Batch, all: &mut Batches) {
    let span = &batch.span;
    if span.records > 0 {
        all.0.push((span.thread.tid, span.first_record, span.records, span.offset));
    }
    all.1.extend(batch.findings.iter().map(|finding| (finding.message.clone(), finding.place.offset)));
}

fn read(bytes: &[u8], scan: &Scan) -> Result<Batches, Error> {
    let container = Source::from_bytes("in", bytes).container().unwrap();
    let mut reader = Records::new(Toy, &container, scan)?;
    let mut all = Batches::default();
    while let Some(batch) = reader.read()? {
        take(batch, &mut all);
    }
    Ok(all)
}

fn scan() -> Scan {
    Scan::new(ShardId(0)).columns(Columns::THREADS)
}

/// Two records of thread 1, damage, one of thread 1, two of thread 2.
const BYTES: &[u8] = &[1, 0, 1, 2, 7, 7, 99, 98, 0, 1, 1, 5, 2, 0, 2, 0];

#[test]
fn batches_end_where_threads_change_and_after_damage() {
    let (batches, found) = read(BYTES, &scan()).unwrap();
    assert_eq!(batches, [(1, 0, 2, 0), (1, 2, 1, 9), (2, 3, 2, 12)]);
    let what = "thread 99; `3` bytes are no records, reading continues after them";
    assert_eq!(found, [(what.to_owned(), Some(6))]);
}

#[test]
fn windows_and_limits_count_records() {
    let of = |window: Window, most: u64| read(BYTES, &Scan { window, most, ..scan() }).unwrap().0;
    assert_eq!(of(Window::Records(1..4), u64::MAX), [(1, 1, 1, 2), (1, 2, 1, 9), (2, 3, 1, 12)]);
    assert_eq!(of(Window::Records(1..4), 2), [(1, 1, 1, 2), (1, 2, 1, 9)]);
    assert_eq!(of(Window::All, 1), [(1, 0, 1, 0)]);
    assert_eq!(of(Window::Records(5..9), 9), []);
    let batches = read(BYTES, &Scan { batch_records: 1, ..scan() }).unwrap().0;
    assert_eq!(batches.len(), 5);
    let error = read(BYTES, &Scan { window: Window::Clock(0..1), ..scan() }).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::Unsupported, "traces of format toy have no clock")
    );
}

#[test]
fn instructions_are_counted_where_batches_end_and_windows_begin() {
    // Records of thread 0 are instructions.
    let bytes = [0, 0].repeat(10);
    let of = |scan: &Scan| read(&bytes, scan).unwrap().0;
    let cut = Cut { instrs: NonZeroU64::new(4), ..Cut::SIZE };
    assert_eq!(of(&Scan { cut, ..scan() }), [(0, 0, 4, 0), (0, 4, 4, 8), (0, 8, 2, 16)]);
    assert_eq!(of(&Scan { window: Window::Instrs(3..5), ..scan() }), [(0, 3, 2, 6)]);
}

#[test]
fn a_cut_record_is_reported_and_all_before_it_is_read() {
    let (batches, found) = read(&[1, 0, 1, 9, 7], &scan()).unwrap();
    assert_eq!((batches, found), (vec![(1, 0, 1, 0)], vec![("cut".to_owned(), Some(2))]));
    let (_, found) = read(&[1, 0, 77, 78], &scan()).unwrap();
    let what = "thread 77; `2` bytes are no records, nothing can be read after them";
    assert_eq!(found, [(what.to_owned(), Some(2))]);
}

#[test]
fn pushed_bytes_give_the_batches_of_one_read() {
    for scan in
        [scan(), Scan { window: Window::Records(1..4), ..scan() }, Scan { batch_records: 2, ..scan() }]
    {
        for end in 0..=BYTES.len() {
            let expected = read(&BYTES[..end], &scan).unwrap();
            for piece in 1..=end.max(1) {
                let mut push = Push::new(Toy, "in", &scan).unwrap();
                let mut all = Batches::default();
                for bytes in BYTES[..end].chunks(piece) {
                    let mut batches = push.feed(bytes);
                    while let Some(batch) = batches.next().unwrap() {
                        take(batch, &mut all);
                    }
                }
                let mut batches = push.close();
                while let Some(batch) = batches.next().unwrap() {
                    take(batch, &mut all);
                }
                assert_eq!(all, expected, "{end} bytes in pieces of {piece}");
                assert!(push.is_over());
            }
        }
    }
}

#[test]
fn batches_that_are_complete_are_not_kept_back() {
    let mut push = Push::new(Toy, "in", &Scan { batch_records: 2, ..scan() }).unwrap();
    assert!(push.feed(&[1, 0, 1]).next().unwrap().is_none());
    let mut batches = push.feed(&[0, 1, 0]);
    assert_eq!(batches.next().unwrap().map(|batch| batch.span.records), Some(2));
    assert!(batches.next().unwrap().is_none());
}
