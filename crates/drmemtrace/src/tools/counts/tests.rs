//! Compares the counting loop with the state machine alone, on generated entries.

use super::sums::{Part, Sum};
use super::tally::Tally;
use crate::decode::{Instr, Interp, Limits, Sink};
use crate::record::{Entry, Marker, Type};
use quipu_model::{Severity, ShardKind};
use std::collections::HashSet;

/// A small generator of well-spread numbers, so that failures repeat.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// The obvious way: every entry goes through the state machine, and every record is counted individually.
#[derive(Default)]
struct Plain {
    instrs: u64,
    no_fetch: u64,
    kernel_instrs: u64,
    loads: u64,
    stores: u64,
    prefetches: u64,
    flushes: u64,
    timestamps: u64,
    encodings: u64,
    pcs: HashSet<u64>,
}

impl Sink for Plain {
    fn instr(&mut self, cx: &Interp, instr: Instr<'_>) {
        self.encodings += u64::from(instr.encoding.is_some());
        if instr.kind == Type::INSTR_NO_FETCH {
            self.no_fetch += 1;
        } else {
            self.instrs += 1;
            self.kernel_instrs += u64::from(cx.is_kernel);
            self.pcs.insert(instr.pc);
        }
    }

    fn data(&mut self, _: &Interp, kind: Type, _: u64, _: u64) {
        match kind {
            Type::READ => self.loads += 1,
            Type::WRITE => self.stores += 1,
            _ if kind.is_prefetch() => self.prefetches += 1,
            _ => self.flushes += 1,
        }
    }

    fn marker(&mut self, _: &Interp, kind: Marker, _: u64) {
        self.timestamps += u64::from(kind == Marker::TIMESTAMP);
    }

    fn exit(&mut self, _: &Interp) {}

    fn finding(&mut self, _: &Interp, _: usize, _: &'static str, _: Severity, _: String) {}
}

/// Mostly instructions and data, with everything else in between.
fn entries(seed: u64, n: usize) -> Vec<Entry> {
    // Half of the streams are like those of the online tracer.
    let is_online = seed % 2 == 1;
    let mut numbers = Numbers(seed);
    let mut entries = vec![
        Entry::new(Type::HEADER, 0, 7),
        Entry::new(Type::MARKER, Marker::CHUNK_INSTR_COUNT.0, 100),
        Entry::new(Type::THREAD, 4, 1),
        Entry::new(Type::PID, 4, 1),
    ];
    for _ in 0..n {
        let pc = 0x40_0000 + 4 * numbers.below(40_000);
        let kind = match numbers.below(100) {
            0..40 => Type(10 + numbers.below(7) as u16),
            40..70 => Type(numbers.below(10) as u16),
            70..75 => Type::INSTR_NO_FETCH,
            75..80 => Type(48 + numbers.below(2) as u16),
            80..84 => Type::ENCODING,
            84..86 if is_online && entries.len() > n / 2 => Type::INSTR_MAYBE_FETCH,
            86..88 => Type(18 + numbers.below(4) as u16),
            // Bundles are older than encodings.
            88..89 if entries.last().is_some_and(|last: &Entry| last.kind() != Type::ENCODING) => {
                Type::INSTR_BUNDLE
            }
            89..90 => Type(51 + numbers.below(60_000) as u16),
            _ => Type::MARKER,
        };
        let size = match kind {
            Type::MARKER => [2, 3, 4, 21, 22, 27, 28, 34, 35, 43, 44, 33, 60][numbers.below(13) as usize],
            // Few enough bytes that no run of pieces is too long for an encoding.
            Type::ENCODING => 1,
            _ => numbers.below(8) as u16,
        };
        entries.push(Entry::new(kind, size, pc));
    }
    entries
}

#[test]
fn the_fast_loop_counts_what_the_state_machine_counts_whatever_the_cut() {
    for seed in 0..20 {
        let entries = entries(seed, 20_000);
        let mut plain = Plain::default();
        let (mut interp, mut used) = (Interp::new(), 0);
        // Idle markers belong to no thread, and a batch ends where the thread changes.
        while used < entries.len() {
            interp.begin_batch();
            used += interp.run(&entries[used..], &Limits::NONE, &mut plain).0;
        }
        for cut in [1, 7, 1000, 4095, usize::MAX] {
            let mut tally = Tally::new(1, ShardKind::Core);
            entries.chunks(cut.min(entries.len())).for_each(|chunk| tally.add(chunk));
            let sums = &tally.counter.counted.parts[0].windows[0].sums;
            let of = |sum: Sum| sums.sums[sum as usize];
            assert_eq!(of(Sum::Instrs), plain.instrs, "seed {seed}, cut {cut}");
            assert_eq!(of(Sum::NoFetch), plain.no_fetch);
            assert_eq!(of(Sum::KernelInstrs), plain.kernel_instrs);
            assert_eq!(of(Sum::Loads), plain.loads);
            assert_eq!(of(Sum::Stores), plain.stores);
            assert_eq!(of(Sum::Prefetches), plain.prefetches);
            assert_eq!(of(Sum::InstrFlushes) + of(Sum::DataFlushes), plain.flushes);
            assert_eq!(of(Sum::Encodings), plain.encodings);
            assert!(
                sums.pcs.to_vec().into_iter().collect::<HashSet<_>>() == plain.pcs,
                "seed {seed}, cut {cut}: addresses"
            );
        }
    }
}

#[test]
fn threads_of_a_mixed_stream_are_counted_apart() {
    let entries = [
        Entry::new(Type::HEADER, 0, 1),
        Entry::new(Type::THREAD, 4, 7),
        Entry::new(Type::PID, 4, 7),
        Entry::new(Type::INSTR, 4, 0x1000),
        Entry::new(Type::THREAD, 4, 8),
        Entry::new(Type::PID, 4, 7),
        Entry::new(Type::INSTR, 4, 0x1000),
        Entry::new(Type::THREAD, 4, 7),
        Entry::new(Type::READ, 8, 0x2000),
        Entry::new(Type::FOOTER, 0, 0),
    ];
    let mut tally = Tally::new(7, ShardKind::Mixed);
    tally.add(&entries);
    let of = |part: &Part, sum: Sum| part.windows[0].sums.sums[sum as usize];
    assert_eq!(tally.counter.counted.parts.iter().map(|part| part.tid).collect::<Vec<_>>(), [7, 8]);
    assert_eq!(
        tally.counter.counted.parts.iter().map(|part| of(part, Sum::Instrs)).collect::<Vec<_>>(),
        [1, 1]
    );
    assert_eq!(
        tally.counter.counted.parts.iter().map(|part| of(part, Sum::Loads)).collect::<Vec<_>>(),
        [1, 0]
    );
    assert_eq!(tally.counter.counted.tids.len(), 2);
}

#[test]
fn a_run_of_one_type_longer_than_a_packed_counter_holds_is_counted_in_full() {
    let entries = vec![Entry::new(Type::INSTR, 1, 0x1000); 100_000];
    let mut tally = Tally::new(1, ShardKind::Core);
    tally.add(&entries);
    assert_eq!(tally.counter.counted.parts[0].windows[0].sums.sums[Sum::Instrs as usize], 100_000);
}

/// A thread's chunks as a tracer writes them: an encoding at each address's first execution in a chunk, targets before
/// indirect branches, and repeated clock readings after each seam.
fn chunked(seed: u64, n: usize, with_windows: bool) -> Vec<Entry> {
    let mut numbers = Numbers(seed);
    let marker = |kind: Marker, value: u64| Entry::new(Type::MARKER, kind.0, value);
    let mut entries = vec![
        Entry::new(Type::HEADER, 0, 7),
        marker(Marker::CHUNK_INSTR_COUNT, 1000),
        Entry::new(Type::THREAD, 4, 1),
        Entry::new(Type::PID, 4, 1),
        marker(Marker::TIMESTAMP, 5),
        marker(Marker::CPU_ID, 0),
    ];
    let mut given = HashSet::new();
    for i in 1..=n {
        let pc = 0x40_0000 + 4 * numbers.below(600);
        if given.insert(pc) {
            entries.push(Entry::new(Type::ENCODING, 4, 0x90));
        }
        let is_return = numbers.below(10) == 0;
        if is_return {
            entries.push(marker(Marker::BRANCH_TARGET, 0x1000));
        }
        entries.push(Entry::new(if is_return { Type::INSTR_RETURN } else { Type::INSTR }, 4, pc));
        if numbers.below(3) == 0 {
            entries.push(Entry::new(Type::READ, 8, numbers.next()));
        }
        if i % 1000 == 0 {
            entries.extend([
                marker(Marker::CHUNK_FOOTER, i as u64 / 1000 - 1),
                marker(Marker::RECORD_ORDINAL, 0),
                marker(Marker::TIMESTAMP, 5),
                marker(Marker::CPU_ID, 0),
            ]);
            given.clear();
        }
        if with_windows && i % 1700 == 0 {
            entries.push(marker(Marker::WINDOW_ID, i as u64 / 1700));
        }
    }
    entries
}

#[test]
fn a_thread_with_encodings_is_counted_as_one_without_from_any_chunk_or_middle() {
    for (seed, with_windows) in [(1, false), (2, false), (3, true), (4, true)] {
        let entries = chunked(seed, 12_000, with_windows);
        let second_chunk =
            entries.iter().position(|entry| entry.size.get() == Marker::RECORD_ORDINAL.0).unwrap();
        for start in [0, second_chunk, second_chunk + 333] {
            let count = |kind| {
                let mut tally = Tally::new(1, kind);
                entries[start..].chunks(2048).for_each(|chunk| tally.add(chunk));
                tally.counter.counted.parts.remove(0).windows
            };
            // For cores, every address is looked up.
            assert!(count(ShardKind::Thread) == count(ShardKind::Core), "seed {seed}, from entry {start}");
        }
    }
}

#[test]
fn a_second_thread_in_a_threads_file_is_counted_apart() {
    let mut entries = chunked(9, 100, false);
    entries.push(Entry::new(Type::THREAD, 4, 2));
    entries.push(Entry::new(Type::INSTR, 4, 0x40_0000));
    let mut tally = Tally::new(1, ShardKind::Thread);
    tally.add(&entries);
    let parts = &tally.counter.counted.parts;
    assert_eq!(parts.iter().map(|part| part.tid).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(parts[1].windows[0].sums.pcs.len(), 1);
}
