//! What is saved of damaged traces, and what is said of the rest.

// The helpers of a test may panic as the test may.
#![allow(clippy::unwrap_used)]

mod common;

use quipu_apitrace::pack::StreamWriter;
use quipu_apitrace::recover::{RecoverOptions, Recovered, recover};
use quipu_apitrace::trace::{self, Packing};
use quipu_model::{OpenOptions, Paint, Result};
use quipu_source::Source;

const OPTIONS: RecoverOptions =
    RecoverOptions { packing: Packing::Snappy, level: None, replace: true, stream: None };

/// Recovers a file in memory, and prints what was written.
fn recovered(bytes: &[u8], options: &RecoverOptions) -> Result<(Recovered, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::write(&from, bytes).unwrap();
    let trace = trace::open(&Source::open(&from).unwrap(), &OpenOptions::default())?;
    let recovered = recover(&trace, &to, options)?;
    let again = trace::open(&Source::open(&to).unwrap(), &OpenOptions::default()).unwrap();
    let text = common::dump(&again, &common::options(true, &[]), &Paint::PLAIN);
    Ok((recovered, text))
}

fn rules(recovered: &Recovered) -> Vec<&'static str> {
    let mut rules: Vec<_> = recovered.salvaged.found.as_slice().iter().map(|finding| finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

fn snappy(stream: &[u8]) -> Vec<u8> {
    let mut writer = StreamWriter::new(Vec::new(), Packing::Snappy, None).unwrap();
    writer.write(stream).unwrap();
    writer.finish().unwrap()
}

/// Lines of calls, without their numbers.
fn calls(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    lines.filter_map(|line| Some(line.split_once(' ')?.1.to_owned())).collect()
}

#[test]
fn both_streams_of_a_program_that_forked_are_saved() {
    let bytes = common::bytes("damaged/xs-antspotlight-fork-corrupt");
    let (parent, text) = recovered(&bytes, &OPTIONS).unwrap();
    let golden = common::golden("golden/xs-antspotlight-fork-corrupt.recovered.dump-v.txt.gz");
    common::assert_same(&text, &golden, "the parent's calls");
    assert!(parent.is_copy);
    assert_eq!(parent.salvaged.streams.iter().map(|s| s.calls).collect::<Vec<_>>(), [54, 19_721]);
    assert_eq!((parent.stream, parent.stream_bytes), (1, 4_837_963));
    assert_eq!(rules(&parent), ["apitrace/second-stream"]);
    let (child, text) = recovered(&bytes, &RecoverOptions { stream: Some(0), ..OPTIONS }).unwrap();
    assert_eq!((child.stream, calls(&text).len()), (0, 54));
    assert!(recovered(&bytes, &RecoverOptions { stream: Some(2), ..OPTIONS }).is_err());
}

#[test]
fn a_whole_trace_is_copied_byte_for_byte() {
    for name in ["kinds", "threads-3x20", "kinds.zstd", "kinds.gzip", "synth-v6-tinychunks", "tri"] {
        let folder = tempfile::tempdir().unwrap();
        let trace = trace::open(&common::source(name), &OpenOptions::default()).unwrap();
        let to = folder.path().join("to");
        let done = recover(&trace, &to, &RecoverOptions { packing: Packing::Plain, ..OPTIONS }).unwrap();
        assert!(done.is_copy && done.salvaged.found.is_empty(), "{name}: {:?}", done.salvaged);
        assert!(std::fs::read(&to).unwrap() == common::stream(name), "{name}");
    }
}

/// Where the chunks of a file lie.
fn chunks(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut chunks = Vec::new();
    let mut at = 2;
    while let Some(len) = bytes.get(at..at + 4) {
        let end = at + 4 + u32::from_le_bytes(len.try_into().unwrap()) as usize;
        chunks.push(at..end);
        at = end;
    }
    chunks
}

/// Recovers a file of which a part of the inflated bytes is damaged: calls before it are saved, and nine in ten behind.
fn nearly_all_are_saved(
    damaged: &[u8],
    whole: &[String],
    lost: std::ops::Range<usize>,
    stream_bytes: usize,
    n_threads: usize,
    what: &str,
) -> Recovered {
    let (done, text) = recovered(damaged, &OPTIONS).unwrap();
    let saved = calls(&text);
    // Calls are spread evenly over the stream.
    let share = |n_bytes: usize| whole.len() * n_bytes / stream_bytes;
    let n_behind = share(stream_bytes - lost.end);
    let n_expected = share(lost.start) + n_behind * 9 / 10 - 100;
    assert!(saved.len() >= n_expected, "{what}: {} of {n_expected} calls, {:?}", saved.len(), done.salvaged);
    // What is saved behind the damage is what stood there, but for a call of each thread that the damage cut; what is left
    // of such calls comes last.
    let saved: Vec<_> = saved.iter().filter(|call| !call.ends_with("incomplete")).collect();
    let mut rest = whole.iter().rev();
    let mut n_missing = 0;
    for call in saved.iter().rev().take(n_behind * 9 / 10) {
        let skipped = rest.position(|other| other == *call);
        n_missing += skipped.unwrap_or_else(|| panic!("{what}: {call}"));
    }
    assert!(n_missing <= n_threads, "{what}: {n_missing} calls are missing");
    done
}

#[test]
fn nearly_all_calls_behind_a_damaged_frame_of_zstandard_are_saved() {
    let stream = common::repeated("glxgears-300", 36);
    let mut writer = StreamWriter::new(Vec::new(), Packing::SeekableZstd, None).unwrap();
    writer.write(&stream).unwrap();
    let packed = writer.finish().unwrap();
    let trace = trace::open(&Source::from_bytes("whole", packed.clone()), &OpenOptions::default()).unwrap();
    let frames = trace.container().landmarks().unwrap();
    assert!(frames.len() >= 3, "{frames:?}");
    let (_, whole) = recovered(&packed, &OPTIONS).unwrap();
    let whole = calls(&whole);
    let frame = frames[1];
    let lost = frame.at as usize..frames[2].at as usize;
    let middle = (frame.packed_at + frames[2].packed_at) as usize / 2;
    // The mark of a frame, its body, all of it.
    for range in [0..1, middle..middle + 8, 0..(frames[2].packed_at - frame.packed_at) as usize] {
        let start = if range.start == 0 { frame.packed_at as usize } else { 0 };
        let mut damaged = packed.clone();
        damaged[start + range.start..start + range.end].fill(0xa5);
        let what = format!("bytes {range:?} of frame 1 of {}", frames.len());
        let done = nearly_all_are_saved(&damaged, &whole, lost.clone(), stream.len(), 1, &what);
        // What can be inflated may still be no events.
        let told = ["apitrace/bad-chunk", "apitrace/damaged"];
        assert!(told.iter().any(|rule| rules(&done).contains(rule)), "{what}: {:?}", rules(&done));
    }
}

#[test]
fn nearly_all_calls_behind_a_damaged_chunk_are_saved() {
    for (name, stream, n_threads) in [
        ("glxgears-300", common::repeated("glxgears-300", 20), 1),
        ("threads-3x20", common::interleaved("threads-3x20", 160), 3),
    ] {
        let packed = snappy(&stream);
        let (_, whole) = recovered(&packed, &OPTIONS).unwrap();
        let whole = calls(&whole);
        let chunks = chunks(&packed);
        assert!(chunks.len() >= 4, "{}", chunks.len());
        for (i, chunk) in chunks.iter().enumerate().skip(1).take(chunks.len() - 2) {
            let mut damages = Vec::new();
            // A body that cannot be inflated, one that inflates to something else, a length that leads astray.
            for (at, byte) in [(10, 0xff), (chunk.len() / 2, 0x55), (0, 0x77), (3, 0x7f)] {
                let mut bytes = packed.clone();
                bytes[chunk.start + at] ^= byte;
                damages.push(bytes);
            }
            let mut zeros = packed.clone();
            zeros[chunk.clone()].fill(0);
            damages.push(zeros);
            for (n, damaged) in damages.iter().enumerate() {
                let what = format!("{name}, chunk {i} of {}, damage {n}", chunks.len());
                // A chunk holds 1 MiB of the stream, the last one what is left.
                let lost = i << 20..(i + 1) << 20;
                let done = nearly_all_are_saved(damaged, &whole, lost, stream.len(), n_threads, &what);
                // A byte of a value may be any other, and where it stands only the packer knows.
                assert!(n < 2 || done.salvaged.found.total() > 0, "{what}");
            }
        }
    }
}

#[test]
fn signatures_that_are_lost_are_told_and_their_calls_are_kept() {
    let stream = common::repeated("glxgears-300", 20);
    // The header stays, most of what comes behind it in the chunk is gone.
    let without = [&stream[..200], &stream[1 << 20..]].concat();
    let (done, text) = recovered(&snappy(&without), &OPTIONS).unwrap();
    let saved = calls(&text);
    assert!(saved.len() > 90_000, "{} {:?}", saved.len(), done.salvaged);
    assert!(rules(&done).contains(&"apitrace/lost-signature"), "{:?}", rules(&done));
    assert!(saved.iter().any(|call| call.starts_with("lost_function_")));
}

#[test]
fn a_cut_trace_is_saved_up_to_its_last_whole_event() {
    let bytes = common::bytes("kinds");
    for len in [bytes.len() - 1, bytes.len() / 2, bytes.len() / 3] {
        let (done, text) = recovered(&bytes[..len], &OPTIONS).unwrap();
        assert!(done.is_copy && done.salvaged.found.total() > 0, "{:?}", done.salvaged);
        assert_eq!(calls(&text).len() as u64, done.salvaged.streams[0].calls);
    }
    assert!(recovered(b"at", &OPTIONS).is_err());
}

#[test]
fn any_damage_leaves_something_that_can_be_read() {
    let is_full = std::env::var_os("QUIPU_DAMAGE").is_some_and(|value| value == "full");
    let mut rng = quipu_testkit::Rng::new(77);
    for name in ["threads-3x20", "synth-v6-tinychunks", "kinds.zstd", "kinds.gzip", "synth-d3d-kinds"] {
        let bytes = common::bytes(name);
        for _ in 0..if is_full { 1000 } else { 25 } {
            let mut damaged = bytes.clone();
            for _ in 0..=rng.below(3) {
                let at = rng.below(damaged.len() as u64) as usize;
                damaged[at] = rng.below(256) as u8;
            }
            if let Ok((done, text)) = recovered(&damaged, &OPTIONS) {
                let facts = &done.salvaged.streams[done.stream];
                assert_eq!(calls(&text).len() as u64, facts.calls, "{name}");
            }
        }
    }
}
