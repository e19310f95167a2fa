//! Targets for workload events outside of single files: those that producers publish in shared memory, and folders with a
//! file for each thread.

use crate::folder::Folder;
use quipu::model::{Format, OpenOptions, Trace};
use quipu::prism::batch::Batch;
use quipu::prism::delivery::producer::{CHUNK_WORDS, ChunkHead, Connection, Encoding, Options};
use quipu::prism::delivery::receiver::{Receiver, Wish};
use quipu::prism::hooks::Sink;
use quipu::prism::{Detail, PRISM};
use quipu::source::{Content, Source};
use quipu_ring::Shape;
use quipu_testkit::fuzz;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The smallest possible memory.
const SHAPE: Shape = Shape { n_slots: 2, ring_words: 1 << 13, heap_words: 512 };
// Offsets of its parts: docs/formats/prism.md, "Delivery".
const SLOT: u64 = 4096;
const TERMS: u64 = SLOT + 80;
const WRITTEN: u64 = SLOT + 128;
const RING: u64 = 8192;
const HEAP: u64 = RING + 2 * 8 * SHAPE.ring_words;

/// Bit of the first byte: the events are in the fixed encoding.
const IS_FIXED: u8 = 1;
/// The producer states other terms than it agreed to.
const HAS_TERMS: u8 = 2;
/// The producer claims to have published another number of words.
const HAS_LENGTH: u8 = 4;
/// The heads of chunks are adjusted to their lengths, which a fuzzer seldom gets right.
const IS_RIGHT: u8 = 8;
/// Bytes before the words of the heap: flags, number of words for the heap, 6 unused bytes, terms, length.
const HEAD_BYTES: usize = 24;

/// Writes any bytes to the memory that a producer shares with a receiver: its terms, the number of published words, chunks,
/// and the heap. The receiver must deliver events, or report an error of that producer.
///
/// # Panics
/// If the receiver stops, or its event count differs from the events that it delivers.
pub fn delivery(bytes: &[u8]) {
    delivered(bytes);
}

/// Number of events delivered.
fn delivered(bytes: &[u8]) -> u64 {
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else { return 0 };
    let (flags, n_heap) = (head[0], usize::from(head[1] & 0x3f));
    let words: Vec<u64> = rest.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (heap, chunks) = words.split_at(n_heap.min(words.len()));
    let mut chunks = chunks[..chunks.len().min(SHAPE.ring_words as usize)].to_vec();
    if flags & IS_RIGHT != 0 {
        put_right(&mut chunks);
    }
    let base = Folder::new();
    let folder = base.path("");
    let mut receiver = Receiver::create_in(&folder, SHAPE, Detail::ALL).expect("memory can be made");
    let path = receiver.path().to_str().map(|path| CString::new(path).expect("a path has no zeros"));
    let connection = Connection::open(&path.expect("the path is text")).expect("memory can be mapped");
    let encoding = if flags & IS_FIXED != 0 { Encoding::Fixed } else { Encoding::Variable };
    let options = Options { encoding, ..Options::default() };
    let writer = connection.writer(options).expect("a ring is free");
    let file = File::options().write(true).open(receiver.path()).expect("the memory is a file");
    let put = |at: u64, words: &[u8]| file.write_all_at(words, at).expect("the memory can be written");
    if flags & HAS_TERMS != 0 {
        put(TERMS, &head[8..16]);
    }
    if !heap.is_empty() {
        // The receiver does not use the words of the table; the names follow them.
        put(HEAP, &heap[0].to_le_bytes());
        put(HEAP + 8 * (8 + SHAPE.heap_words / 8), &rest[8..8 * heap.len()]);
    }
    let bytes: Vec<u8> = chunks.iter().flat_map(|word| word.to_le_bytes()).collect();
    put(RING, &bytes);
    let n_words = (chunks.len() as u64).to_le_bytes();
    put(WRITTEN, if flags & HAS_LENGTH != 0 { &head[16..24] } else { &n_words });
    let mut count = Count::default();
    let outcome = receiver.run(&mut count, &mut |_| Wish::End).expect("what a producer does ends no run");
    let n_events: u64 = outcome.producers.iter().map(|producer| producer.n_events).sum();
    assert_eq!(count.0, n_events, "events that were delivered, and those that are counted");
    // The writer's state does not match the ring, so its destructor must not run.
    std::mem::forget(writer);
    n_events
}

/// Adjusts each chunk to the length in its head, and limits the lengths of its parts.
fn put_right(words: &mut [u64]) {
    let mut at = 0;
    while at + 3 <= words.len() {
        let head = ChunkHead::unpack(words[at], words[at + 1]);
        let head = ChunkHead {
            kind: 1,
            n_events: head.n_events & 0xff,
            event_bytes: head.event_bytes & 0x3ff,
            name_bytes: head.name_bytes & 0xff,
            n_references: head.n_references & 7,
            ..head
        };
        let n_words = head.n_words().min(words.len() - at).min(CHUNK_WORDS);
        words[at..at + 2].copy_from_slice(&head.pack(n_words));
        at += n_words;
    }
}

/// Counts events, for comparison with the receiver's count.
#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    fn detail(&self) -> Detail {
        Detail::ALL
    }

    fn start(&mut self) -> quipu::prism::Result<()> {
        Ok(())
    }

    fn take(&mut self, batch: &Batch) -> quipu::prism::Result<()> {
        assert!(
            batch.clocks.is_empty() || batch.clocks.len() == batch.events.len(),
            "a clock for each event"
        );
        for (index, event) in batch.events.iter().enumerate() {
            let at = batch.at(index);
            assert!(at.ordinal >= batch.first, "events are numbered on");
            if let quipu::prism::event::Event::Context(context) = event
                && let quipu::prism::event::Place::Name(name) = context.place
            {
                // Checks that the name is in the batch.
                let _ = batch.name(name);
            }
        }
        self.0 += batch.events.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> quipu::prism::Result<()> {
        Ok(())
    }
}

/// Maximum number of files of a folder.
const MAX_FILES: usize = 8;

/// A file of a folder, and its settings in the carrier.
struct Body {
    bytes: Vec<u8>,
    said: Vec<(String, String)>,
}

impl Content for Body {
    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default();
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn said(&self, name: &str) -> Option<&str> {
        self.said.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// Reads any bytes as a folder with a file for each thread. Each file consists of the length of its settings (2 bytes), the
/// length of its events (2 bytes), its settings as lines `NAME=VALUE`, and its events. The folder must be a trace with the
/// same records however it is read, or an error.
///
/// # Panics
/// If the records differ.
pub fn threads(bytes: &[u8]) {
    let Some(trace) = opened(bytes) else { return };
    trace.shards().iter().for_each(|shard| fuzz::same_records(&*trace, shard));
}

/// Opens the folder as a trace; `None` if that fails.
fn opened(bytes: &[u8]) -> Option<Box<dyn Trace>> {
    let mut rest = bytes;
    let mut entries: Vec<(String, Arc<dyn Content>)> = Vec::new();
    while let Some(([a, b, c, d], after)) = rest.split_first_chunk()
        && entries.len() < MAX_FILES
    {
        let lens = [u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d])].map(usize::from);
        let (settings, after) = after.split_at(lens[0].min(after.len()));
        let (events, after) = after.split_at(lens[1].min(after.len()));
        let text = String::from_utf8_lossy(settings);
        let said = text.lines().filter_map(|line| line.split_once('='));
        let said = said.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let body = Body { bytes: events.to_vec(), said };
        entries.push((format!("thread-{}.prism", entries.len()), Arc::new(body)));
        rest = after;
    }
    PRISM.open(&Source::of_tree("fuzz", entries), &OpenOptions::default()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu::model::Scan;

    /// A seed in this repository.
    macro_rules! seed {
        ($name:literal) => {
            include_bytes!(concat!("../../../fuzz/seeds/", $name))
        };
    }

    #[test]
    fn seeds_of_delivery_are_events_as_far_as_they_are_right() {
        let seeds: [(&[u8], u64); 8] = [
            (seed!("prism_delivery/variable"), 18),
            (seed!("prism_delivery/vector"), 10),
            (seed!("prism_delivery/names-of-the-heap"), 8),
            (seed!("prism_delivery/fixed"), 9),
            (seed!("prism_delivery/fixed-names-of-the-heap"), 3),
            (seed!("prism_delivery/unknown-chunk"), 4),
            (seed!("prism_delivery/other-terms"), 2),
            (seed!("prism_delivery/another-version"), 0),
        ];
        let counts = seeds.map(|(bytes, _)| delivered(bytes));
        assert_eq!(counts, seeds.map(|(_, expected)| expected));
    }

    #[test]
    fn seeds_of_folders_are_traces_where_they_go_together() {
        // The number of records, and whether nothing is lost.
        let records = |bytes: &[u8]| {
            let trace = opened(bytes)?;
            let mut reader = trace.scan(&Scan::new(trace.shards()[0].id)).ok()?;
            let mut n_records = 0;
            let mut is_whole = trace.meta().findings.iter().all(|finding| finding.loss.is_none());
            loop {
                match reader.read() {
                    Ok(Some(batch)) => {
                        n_records += batch.span.records;
                        is_whole &= batch.findings.iter().all(|finding| finding.loss.is_none());
                    }
                    Ok(None) => return Some((n_records, is_whole)),
                    Err(_) => return Some((n_records, false)),
                }
            }
        };
        // The configurations before the first turn are three more events.
        assert_eq!(records(seed!("prism_threads/variable")), Some((15, true)));
        assert_eq!(records(seed!("prism_threads/fixed")), Some((7, true)));
        // The loss is reported in addition to the remaining events.
        assert_eq!(records(seed!("prism_threads/a-thread-is-missing")), Some((8, false)));
        assert_eq!(records(seed!("prism_threads/another-trace")), None);
    }
}
