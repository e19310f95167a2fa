//! Builds the schedule from the entries of a trace, and the bytes of both schedule files.
//!
//! SPEC: drmemtrace.md#schedule-files: each visible processor marker is a point. In files of several threads a switch to a
//! thread may lack such a marker; then its first instruction is a point.

use super::Stretch;
use crate::record::{Entry, Marker, Type};
use crate::seams::Repeats;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

/// Finds the points of one file: pass it all entries, in order, in parts of any size.
///
/// Memory grows with the number of processor markers, 32 bytes each, except for markers that repeat the previous one; at
/// most [`MAX_POINTS`] are kept.
#[derive(Clone, Debug)]
pub struct Recorder {
    points: Vec<Stretch>,
    /// Maximum number of points to keep.
    most: usize,
    is_full: bool,
    /// Instruction counts of the other threads so far, in this file.
    left: FxHashMap<u64, u64>,
    thread: u64,
    /// Instructions of `thread` so far, in this file.
    instrs: u64,
    timestamp: u64,
    /// The latest processor, once it is known.
    cpu: Option<u64>,
    /// Recognises the clock reading and processor that repeat those before a chunk's seam.
    repeats: Repeats,
    /// True if the thread was switched to and no processor was named since.
    switched: bool,
}

/// The recording of one file: its points, and the number of instructions of each of its threads.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    points: Vec<Stretch>,
    instrs: FxHashMap<u64, u64>,
    is_full: bool,
}

/// Maximum number of points kept: 128 MiB of stretches.
pub const MAX_POINTS: usize = 4 << 20;

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder::up_to(MAX_POINTS)
    }
}

impl Recorder {
    /// A recorder that keeps at most this many points.
    pub fn up_to(most: usize) -> Recorder {
        Recorder {
            points: Vec::new(),
            most,
            is_full: false,
            left: FxHashMap::default(),
            thread: 0,
            instrs: 0,
            timestamp: 0,
            cpu: None,
            repeats: Repeats::default(),
            switched: false,
        }
    }

    /// True if there were more points than are kept; the recording is useless then.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Records the next entries.
    pub fn take(&mut self, entries: &[Entry]) {
        for entry in entries {
            let kind = entry.kind();
            match kind {
                Type::INSTR_BUNDLE => self.run(u64::from(entry.size.get()).min(8)),
                _ if kind.is_instr() => self.run(u64::from(entry.size.get() > 0)),
                Type::MARKER => self.marker(Marker(entry.size.get()), entry.addr.get()),
                Type::THREAD => self.switch_to(entry.addr.get()),
                _ => {}
            }
        }
    }

    /// Records this many instructions, along with any entries between them other than markers and threads.
    pub(crate) fn run(&mut self, instrs: u64) {
        if self.switched
            && let Some(cpu) = self.cpu
        {
            self.point(cpu);
        }
        self.instrs += instrs;
    }

    fn marker(&mut self, kind: Marker, value: u64) {
        match kind {
            _ if self.repeats.is_copy(kind) => {}
            Marker::TIMESTAMP => self.timestamp = value,
            Marker::CPU_ID => {
                self.cpu = Some(value);
                self.point(value);
            }
            _ => {}
        }
    }

    fn switch_to(&mut self, thread: u64) {
        if thread != self.thread {
            // The first "thread" of a file is a placeholder that has run nothing.
            self.left.insert(self.thread, self.instrs);
            self.instrs = self.left.get(&thread).copied().unwrap_or(0);
            self.thread = thread;
            self.switched = true;
        }
    }

    fn point(&mut self, cpu: u64) {
        self.switched = false;
        let point = Stretch::new(self.thread, self.timestamp, cpu, self.instrs);
        if self.points.last() == Some(&point) {
            return;
        }
        if self.points.len() < self.most {
            self.points.push(point);
        } else {
            self.is_full = true;
        }
    }

    /// The recording, at the end of the file.
    pub fn finish(mut self) -> Recording {
        self.left.insert(self.thread, self.instrs);
        Recording { points: self.points, instrs: self.left, is_full: self.is_full }
    }
}

impl Recording {
    /// Number of points.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// True if the file has more points than were kept.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// True if there are no points.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The recording of a file of one thread, from points found elsewhere and the number of the thread's instructions.
    pub fn of_thread(thread: u64, points: Vec<Stretch>, instrs: u64) -> Recording {
        Recording { points, instrs: [(thread, instrs)].into_iter().collect(), is_full: false }
    }
}

/// The schedule of a whole trace, with the content of both schedule files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// All points by time: the content of `serial_schedule.bin`.
    pub serial: Vec<Stretch>,
    /// The points of each processor, by time: the members of `cpu_schedule.bin.zip`, by ascending number.
    pub cpus: BTreeMap<u64, Vec<Stretch>>,
}

impl Schedule {
    /// Every point of the files of a trace, in the order of the files.
    ///
    /// If a thread has parts in several files (files of cores), its instructions are counted across all of them, in the
    /// order of time. QUIRK: DynamoRIO counts through each such file instead, and attributes all of it to its first thread.
    pub fn full(files: Vec<Recording>) -> Schedule {
        let mut serial = Vec::new();
        let mut parts: FxHashMap<u64, usize> = FxHashMap::default();
        for thread in files.iter().flat_map(|file| file.instrs.iter()).filter(|(_, n)| **n > 0) {
            *parts.entry(*thread.0).or_default() += 1;
        }
        if parts.values().any(|n| *n > 1) {
            serial = counted_through(files);
        } else {
            files.into_iter().for_each(|file| serial.extend(file.points));
        }
        // Equal points are indistinguishable, so an unstable sort is enough.
        serial.sort_unstable_by_key(Stretch::rank);
        let mut cpus: BTreeMap<u64, Vec<Stretch>> = BTreeMap::new();
        for point in &serial {
            let points = cpus.entry(point.cpu.get()).or_default();
            if points.last() != Some(point) {
                points.push(*point);
            }
        }
        Schedule { serial, cpus }
    }

    /// Keeps only the first of consecutive points of one thread, as DynamoRIO's writers do.
    pub fn collapsed(&self) -> Schedule {
        let collapse = |points: &[Stretch]| {
            let mut points = points.to_vec();
            points.dedup_by_key(|point| point.thread);
            points
        };
        Schedule {
            serial: collapse(&self.serial),
            cpus: self.cpus.iter().map(|(cpu, points)| (*cpu, collapse(points))).collect(),
        }
    }

    /// The bytes of `serial_schedule.bin`, before packing.
    pub fn serial_bytes(&self) -> Vec<u8> {
        self.serial.as_bytes().to_vec()
    }

    /// The members of `cpu_schedule.bin.zip`: name and bytes before packing, by ascending number of the processor.
    pub fn cpu_members(&self) -> Vec<(String, Vec<u8>)> {
        self.cpus.iter().map(|(cpu, points)| (cpu.to_string(), points.as_bytes().to_vec())).collect()
    }
}

/// The points of files that share threads, by time, with each thread's instructions counted across all files.
fn counted_through(files: Vec<Recording>) -> Vec<Stretch> {
    // Each point with the number of instructions up to the thread's next one in the same file.
    let mut pieces: Vec<(Stretch, u64)> = Vec::new();
    for Recording { points, instrs, .. } in files {
        let mut next = instrs;
        for point in points.into_iter().rev() {
            let end = next.entry(point.thread.get()).or_insert(0);
            let start = point.start_instr.get();
            pieces.push((point, end.saturating_sub(start)));
            *end = start;
        }
    }
    pieces.sort_by_key(|(point, _)| point.rank());
    let mut before: FxHashMap<u64, u64> = FxHashMap::default();
    for (point, instrs) in &mut pieces {
        let count = before.entry(point.thread.get()).or_insert(0);
        point.start_instr = (*count).into();
        *count += *instrs;
    }
    pieces.into_iter().map(|(point, _)| point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(kind: Marker, value: u64) -> Entry {
        Entry::new(Type::MARKER, kind.0, value)
    }

    fn thread(tid: u64) -> Entry {
        Entry::new(Type::THREAD, 4, tid)
    }

    fn on(timestamp: u64, cpu: u64) -> [Entry; 2] {
        [marker(Marker::TIMESTAMP, timestamp), marker(Marker::CPU_ID, cpu)]
    }

    fn instrs(n: u64) -> Vec<Entry> {
        (0..n).map(|i| Entry::new(Type::INSTR, 4, i * 4)).collect()
    }

    fn recorded(parts: &[&[Entry]]) -> Recording {
        let mut recorder = Recorder::default();
        parts.iter().for_each(|part| recorder.take(part));
        recorder.finish()
    }

    #[test]
    fn a_point_that_repeats_the_one_before_is_none() {
        let file = recorded(&[&[thread(7)], &on(10, 1), &on(10, 1), &instrs(3), &on(20, 1)]);
        let schedule = Schedule::full(vec![file]);
        assert_eq!(schedule.serial, [Stretch::new(7, 10, 1, 0), Stretch::new(7, 20, 1, 3)]);
        assert_eq!(schedule.collapsed().serial, [Stretch::new(7, 10, 1, 0)]);
    }

    #[test]
    fn what_a_chunk_repeats_is_no_point() {
        let seam = [marker(Marker::CHUNK_FOOTER, 0), marker(Marker::RECORD_ORDINAL, 9)];
        let file =
            recorded(&[&[thread(7)], &on(10, 1), &instrs(2), &seam, &on(10, 1), &instrs(2), &on(30, 2)]);
        assert_eq!(Schedule::full(vec![file]).serial, [Stretch::new(7, 10, 1, 0), Stretch::new(7, 30, 2, 4)]);
    }

    #[test]
    fn iterations_and_bare_addresses_are_no_instructions() {
        let odd = [Entry::new(Type::INSTR_NO_FETCH, 2, 0), Entry::new(Type::INSTR, 0, 8)];
        let bundle = [Entry::new(Type::INSTR_BUNDLE, 3, 0x040302)];
        let file = recorded(&[&[thread(7)], &on(1, 0), &odd, &bundle, &on(2, 1)]);
        assert_eq!(Schedule::full(vec![file]).serial[1].start_instr.get(), 3);
    }

    #[test]
    fn threads_of_cores_are_counted_through_by_time() {
        // Thread 1 runs 5 instructions on core 0, then 4 on core 1, then 2 on core 0; thread 2 fills core 0 between.
        let zero = recorded(&[
            &[thread(1)],
            &on(10, 0),
            &instrs(5),
            &[thread(2)],
            &on(20, 0),
            &instrs(9),
            &[thread(1)],
            &[marker(Marker::TIMESTAMP, 40)],
            &instrs(2),
        ]);
        let one = recorded(&[&[thread(1)], &on(30, 1), &instrs(4)]);
        let schedule = Schedule::full(vec![zero, one]);
        assert_eq!(
            schedule.serial,
            [
                Stretch::new(1, 10, 0, 0),
                Stretch::new(2, 20, 0, 0),
                Stretch::new(1, 30, 1, 5),
                Stretch::new(1, 40, 0, 9),
            ]
        );
        assert_eq!(schedule.cpus[&1], [Stretch::new(1, 30, 1, 5)]);
    }

    #[test]
    fn no_more_points_are_kept_than_asked_for() {
        let mut recorder = Recorder::up_to(2);
        recorder.take(&[thread(7)]);
        for cpu in [1, 2, 2] {
            recorder.take(&on(10, cpu));
        }
        assert!(!recorder.is_full(), "one that repeats the one before takes no room");
        (3..1000).for_each(|cpu| recorder.take(&on(10, cpu)));
        assert!(recorder.is_full());
        let recording = recorder.finish();
        assert_eq!((recording.len(), recording.is_full()), (2, true));
    }

    #[test]
    fn members_are_named_by_the_number_of_the_processor() {
        let file = recorded(&[&[thread(7)], &on(1, u64::MAX)]);
        let schedule = Schedule::full(vec![file]);
        let members = schedule.cpu_members();
        assert_eq!(members[0].0, "18446744073709551615");
        assert_eq!(members[0].1, schedule.serial_bytes());
        assert_eq!(members[0].1.len(), 32);
    }
}
