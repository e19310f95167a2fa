//! Recovery of damaged traces: what is saved, and what is reported about the rest.

// The helpers of a test may panic as the test may.

use crate::common;
use quipu_apitrace::pack::StreamWriter;
use quipu_apitrace::reader::CallReader;
use quipu_apitrace::recover::{RecoverOptions, Recovered, recover};
use quipu_apitrace::trace::{self, Packing};
use quipu_model::{OpenOptions, Paint, Reader, Result, Scan, ShardId};
use quipu_source::Source;

const OPTIONS: RecoverOptions =
    RecoverOptions { packing: Packing::Snappy, level: None, replace: true, stream: None };

/// Recovers a file in memory, and prints what was written.
fn recovered(bytes: &[u8], options: &RecoverOptions) -> Result<(Recovered, Vec<u8>)> {
    recovered_as(bytes, options, |trace| common::dump(trace, &common::options(true, &[]), &Paint::PLAIN))
}

/// Recovers a file in memory, and applies `look` to the result.
fn recovered_as<T>(
    bytes: &[u8],
    options: &RecoverOptions,
    look: impl FnOnce(&trace::ApiTrace) -> T,
) -> Result<(Recovered, T)> {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::write(&from, bytes).unwrap();
    let trace = trace::open(&Source::open(&from).unwrap(), &OpenOptions::default())?;
    let recovered = recover(&trace, &to, options)?;
    let again = trace::open(&Source::open(&to).unwrap(), &OpenOptions::default()).unwrap();
    let looked = look(&again);
    Ok((recovered, looked))
}

fn rules(recovered: &Recovered) -> Vec<&str> {
    let mut rules: Vec<_> =
        recovered.salvaged.found.as_slice().iter().map(|finding| &*finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

fn packed_as(packing: Packing, stream: &[u8]) -> Vec<u8> {
    let mut writer = StreamWriter::new(Vec::new(), packing, None).unwrap();
    writer.write(stream).unwrap();
    writer.finish().unwrap()
}

fn snappy(stream: &[u8]) -> Vec<u8> {
    packed_as(Packing::Snappy, stream)
}

/// Number of calls in a trace.
fn n_calls(trace: &trace::ApiTrace) -> u64 {
    let mut reader = CallReader::new(trace.container(), &Scan::new(ShardId(0))).unwrap();
    let mut n_calls = 0;
    while let Some(batch) = reader.read().unwrap() {
        n_calls += batch.values.calls.len() as u64;
    }
    n_calls
}

/// Lines of calls, without their numbers.
fn calls(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    // A changed path in a backtrace may begin with a digit, too.
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.filter(|(number, _)| is_number(number)).map(|(_, call)| call.to_owned()).collect()
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

/// The byte ranges of a file's chunks.
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

/// Recovers a file with a part of its inflated bytes damaged: checks that the calls before the damage are saved, and 90% of
/// those after it.
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
    // The calls saved after the damage are those of the undamaged trace, except for one call of each thread that the damage
    // cut; incomplete calls come last.
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
    let packed = packed_as(Packing::SeekableZstd, &stream);
    let trace = trace::open(&Source::from_bytes("whole", packed.clone()), &OpenOptions::default()).unwrap();
    let frames = trace.container().landmarks().unwrap();
    assert!(frames.len() >= 3, "{frames:?}");
    let (_, whole) = recovered(&packed, &OPTIONS).unwrap();
    let whole = calls(&whole);
    let frame = frames[1];
    let lost = frame.at as usize..frames[2].at as usize;
    let middle = (frame.packed_at + frames[2].packed_at) as usize / 2;
    // The magic number of a frame, its body, all of it.
    for range in [0..1, middle..middle + 8, 0..(frames[2].packed_at - frame.packed_at) as usize] {
        let start = if range.start == 0 { frame.packed_at as usize } else { 0 };
        let mut damaged = packed.clone();
        damaged[start + range.start..start + range.end].fill(0xa5);
        let what = format!("bytes {range:?} of frame 1 of {}", frames.len());
        let done = nearly_all_are_saved(&damaged, &whole, lost.clone(), stream.len(), 1, &what);
        // Bytes that can be inflated may still be no events.
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
            // A body that cannot be inflated, one that inflates to other bytes, and a misleading length.
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
                // A chunk holds 1 MiB of the stream, the last one the remainder.
                let lost = i << 20..(i + 1) << 20;
                let done = nearly_all_are_saved(damaged, &whole, lost, stream.len(), n_threads, &what);
                // A changed byte of a value is not noticeable.
                assert!(n < 2 || done.salvaged.found.total() > 0, "{what}");
            }
        }
    }
}

#[test]
fn signatures_that_are_lost_are_told_and_their_calls_are_kept() {
    let stream = common::repeated("glxgears-300", 20);
    // The header stays, most of the rest of its chunk is gone.
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
            // Lines do not show the number of calls: a damaged name may end a line and look like the start of another call.
            if let Ok((done, n_calls)) = recovered_as(&damaged, &OPTIONS, n_calls) {
                let facts = &done.salvaged.streams[done.stream];
                assert_eq!(n_calls, facts.calls, "{name}");
            }
        }
    }
}

#[test]
fn a_chunk_of_which_only_the_length_is_wrong_costs_no_call() {
    let stream = common::repeated("glxgears-300", 20);
    let packed = snappy(&stream);
    let (_, whole) = recovered(&packed, &OPTIONS).unwrap();
    let chunks = chunks(&packed);
    assert!(chunks.len() >= 4, "{}", chunks.len());
    for (i, chunk) in [0, 1, chunks.len() - 2].map(|i| (i, chunks[i].clone())) {
        // Longer than any chunk, longer than the file, a little longer.
        let stated = u32::try_from(chunk.len()).unwrap() - 4;
        // And shorter: zero, a small number, one less.
        let lengths = [stated | 0x7f << 24, stated | 2 << 24, stated | 8 << 16, 0, 100, stated - 1];
        for length in lengths {
            let mut damaged = packed.clone();
            damaged[chunk.start..chunk.start + 4].copy_from_slice(&length.to_le_bytes());
            let what = format!("chunk {i}: length {length:#x} instead of {stated:#x}");
            let (done, text) = recovered(&damaged, &OPTIONS).unwrap();
            common::assert_same(&text, &whole, &what);
            assert_eq!(rules(&done), ["apitrace/bad-chunk"], "{what}: {:?}", done.salvaged);
            let found = &done.salvaged.found.as_slice()[0];
            assert_eq!(found.place.offset, Some((i as u64 + 1) << 20), "{what}");
            assert_eq!((done.salvaged.lost_bytes, done.is_copy), (0, false), "{what}");
        }
    }
}

/// The names of functions in lines of calls.
fn functions(calls: &[String]) -> std::collections::BTreeSet<&str> {
    calls.iter().filter_map(|call| Some(call.split_once('(')?.0)).collect()
}

/// Numbers of threads that made calls.
fn threads(text: &[u8]) -> std::collections::BTreeSet<String> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    lines.filter_map(|line| Some(line.split_once('@')?.1.split_once(' ')?.0.to_owned())).collect()
}

/// Recovers a damaged file and checks that it has no function or thread that the undamaged one does not have.
fn nothing_is_invented(damaged: &[u8], whole: &[String], n_threads: usize, what: &str) -> (Recovered, usize) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let trace =
        trace::open(&Source::from_bytes("damaged", damaged.to_vec()), &OpenOptions::default()).unwrap();
    let done = recover(&trace, &to, &OPTIONS).unwrap();
    let again = trace::open(&Source::open(&to).unwrap(), &OpenOptions::default()).unwrap();
    let setting = [("thread-ids".to_owned(), "yes".to_owned())];
    let text = common::dump(&again, &common::options(true, &setting), &Paint::PLAIN);
    let found = threads(&text);
    assert!(found.len() <= n_threads, "{what}: threads {found:?}, {:?}", done.salvaged);
    // In each line, the thread follows the number.
    let saved: Vec<String> =
        calls(&text).iter().map(|call| call.split_once(' ').unwrap().1.to_owned()).collect();
    let known = functions(whole);
    let strange: Vec<_> = functions(&saved).into_iter().filter(|name| !known.contains(name)).collect();
    let n_lost = done.salvaged.streams[done.stream].lost_signatures as usize;
    assert!(strange.iter().all(|name| name.starts_with("lost_function_")), "{what}: {strange:?}");
    assert!(strange.len() <= n_lost, "{what}: {strange:?}");
    assert!(functions(&saved).len() <= known.len(), "{what}: {strange:?}");
    let n_open = saved.iter().filter(|call| call.ends_with("incomplete")).count();
    // Damage that inflates to valid bytes can still swallow the end of a call: the number of incomplete calls shows it.
    let n_told: u64 = done.salvaged.streams.iter().map(|facts| facts.incomplete).sum();
    assert_eq!(n_open as u64, n_told, "{what}: incomplete calls");
    (done, saved.len())
}

#[test]
fn no_functions_or_threads_are_made_of_damaged_bytes() {
    for (packing, name, times, n_threads) in
        [(Packing::SeekableZstd, "glxgears-300", 36, 1), (Packing::Snappy, "kinds", 120, 1)]
    {
        let stream = common::repeated(name, times);
        let packed = packed_as(packing, &stream);
        let (_, whole) = recovered(&packed, &OPTIONS).unwrap();
        let whole = calls(&whole);
        let container = Source::from_bytes("whole", packed.clone()).container().unwrap();
        let landmarks = container.landmarks().unwrap();
        assert!(landmarks.len() >= 3, "{packing:?}: {landmarks:?}");
        let n_places = 3;
        for i in 0..n_places {
            let at = packed.len() * (2 * i + 1) / (2 * n_places + 1);
            let hit = landmarks.iter().rfind(|landmark| landmark.packed_at <= at as u64).unwrap();
            // Calls are spread evenly over the stream; 90% of those outside the chunk must be saved.
            let n_outside = whole.len() - whole.len() * hit.len as usize / stream.len();
            for (len, byte) in [(40, 0xa5), (1, 0x5a)] {
                let mut damaged = packed.clone();
                damaged[at..at + len].iter_mut().for_each(|b| *b ^= byte);
                let what = format!("{packing:?}: {len} bytes at {at:#x} of {:#x}", packed.len());
                let (done, n_saved) = nothing_is_invented(&damaged, &whole, n_threads, &what);
                let n_expected = n_outside * 9 / 10;
                assert!(n_saved >= n_expected, "{what}: {n_saved} of {n_expected}, {:?}", done.salvaged);
            }
        }
    }
}

#[test]
fn a_frame_whose_checksum_alone_tells_of_damage_is_kept_and_in_doubt() {
    let stream = common::repeated("glxgears-300", 36);
    let packed = packed_as(Packing::SeekableZstd, &stream);
    let (_, whole) = recovered(&packed, &OPTIONS).unwrap();
    let n_calls = calls(&whole).len() as u64;
    let container = Source::from_bytes("whole", packed.clone()).container().unwrap();
    let frames = container.landmarks().unwrap();
    let share = n_calls * frames[1].at / stream.len() as u64;
    for frame in [0, frames.len() - 2] {
        let mut damaged = packed.clone();
        // Frames end with their checksums.
        damaged[frames[frame + 1].packed_at as usize - 1] ^= 1;
        let (done, text) = recovered(&damaged, &OPTIONS).unwrap();
        // No call is lost, not even the one across the border.
        common::assert_same(&text, &whole, &format!("frame {frame}"));
        // Other readers stop at the start of the frame.
        let expected = ["apitrace/bad-chunk", "apitrace/damaged", "apitrace/doubtful"];
        assert_eq!(rules(&done), expected, "{:?}", done.salvaged);
        let facts = &done.salvaged.streams[0];
        // Calls are spread evenly over the stream.
        assert!(facts.suspect.abs_diff(share) < share / 10, "frame {frame}: {facts:?}, {share}");
        assert_eq!((facts.doubtful, done.salvaged.lost_bytes, done.salvaged.lost_chunks), (0, 0, 0));
    }
}

#[test]
fn calls_that_are_not_as_they_were_are_in_doubt() {
    let stream = common::repeated("glxgears-300", 36);
    let whole = calls(&recovered(&snappy(&stream), &OPTIONS).unwrap().1);
    let known: std::collections::BTreeSet<&str> = whole.iter().map(String::as_str).collect();
    for packing in [Packing::Snappy, Packing::SeekableZstd, Packing::Plain] {
        let packed = packed_as(packing, &stream);
        // Damages chunks after the first one, which contains the names of functions.
        for i in 3..8 {
            let mut damaged = packed.clone();
            damaged[packed.len() * i / 8] ^= 0x24;
            let (done, text) = recovered(&damaged, &OPTIONS).unwrap();
            let facts = &done.salvaged.streams[0];
            let n_wrong = calls(&text).iter().filter(|call| !known.contains(call.as_str())).count() as u64;
            let n_told = facts.suspect + facts.doubtful + facts.incomplete;
            // Data without a checksum that inflates to other values is not recognised as damaged.
            let is_told = done.salvaged.found.total() > 0;
            assert!(is_told || packing != Packing::SeekableZstd, "{i}");
            if packing == Packing::Plain {
                // In an unpacked stream, damage does not spread.
                assert_eq!(facts.suspect, 0, "{i}: {facts:?}");
                assert!(n_wrong < 8, "{i}: {n_wrong}");
            } else if is_told {
                assert!(n_wrong <= n_told, "{packing:?} {i}: {n_wrong}, {facts:?}");
            }
        }
    }
}

#[test]
fn a_damaged_first_chunk_is_saved_as_far_as_it_goes() {
    let stream = common::repeated("glxgears-300", 20);
    let packed = snappy(&stream);
    let (_, whole) = recovered(&packed, &OPTIONS).unwrap();
    let whole = calls(&whole);
    let first = chunks(&packed)[0].clone();
    let behind = whole.len() - whole.len() * (1 << 20) / stream.len();
    let damaged = |at: usize, bytes: &[u8]| {
        let mut damaged = packed.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        damaged
    };
    // The body of the chunk; its length; the length of its block; the version of the stream.
    let middle = first.start + first.len() * 2 / 3;
    let cases: [(&str, Vec<u8>, &str); 5] = [
        ("body", damaged(middle, &[0xff; 8]), "apitrace/bad-chunk"),
        ("length", damaged(first.start, &[0xff, 0xff, 0xff, 0x7f]), "apitrace/bad-chunk"),
        ("length of the block", damaged(first.start + 4, &[0, 0, 0]), "apitrace/lost-header"),
        ("version", damaged(first.start + 8, &[0x46]), "apitrace/lost-header"),
        ("all", damaged(first.start, &vec![0; first.len()]), "apitrace/lost-header"),
    ];
    for (what, bytes, rule) in &cases {
        let (done, text) = recovered(bytes, &OPTIONS).unwrap();
        let saved = calls(&text);
        let n_expected = behind * 9 / 10 + if *what == "body" { (whole.len() - behind) / 2 } else { 0 };
        assert!(saved.len() >= n_expected, "{what}: {} of {n_expected}: {:?}", saved.len(), done.salvaged);
        assert!(rules(&done).contains(rule), "{what}: {:?}", rules(&done));
        // A signature may have been after the fault.
        assert!(functions(&saved).len() <= functions(&whole).len(), "{what}");
        if !["all", "body"].contains(what) {
            let (found, known) = (functions(&saved), functions(&whole));
            let strange: Vec<_> = found.difference(&known).collect();
            assert!(strange.is_empty(), "{what}: {strange:?}");
        }
        let trace =
            trace::open(&Source::from_bytes("damaged", bytes.clone()), &OpenOptions::default()).unwrap();
        assert_eq!(trace.header().version, 6, "{what}");
    }
}

#[test]
fn functions_without_names_are_damage() {
    let calls_of = |n: u32| (0..n).map(|i| format!("glFoo(a = {i})\n")).collect::<String>();
    let text = format!("function 0 glFoo(a)\nfunction 1 \"\"()\n{}\"\"()\n{}", calls_of(40), calls_of(40));
    let (done, text) = recovered(&common::assembled(&text), &OPTIONS).unwrap();
    assert!(rules(&done).contains(&"apitrace/damaged"), "{:?}", done.salvaged);
    let saved = calls(&text);
    assert!(saved.iter().all(|call| call.starts_with("glFoo(")), "{saved:?}");
    assert!(saved.len() >= 79, "{}", saved.len());
}

#[test]
fn what_leaves_a_call_too_early_is_not_copied() {
    for early in ["leave #3 ()", "leave #1 ()", "leave #900 ()"] {
        let call = |i: u32| format!("glFoo(a = {i})\n");
        let text = format!("function 0 glFoo(a)\n{}{early}\n{}", call(0) + &call(1), call(2) + &call(3));
        let stream = common::assembled(&text);
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        let trace = trace::open(&Source::from_bytes("odd", stream), &OpenOptions::default()).unwrap();
        let done = recover(&trace, &to, &OPTIONS).unwrap();
        assert!(!done.is_copy && done.salvaged.found.total() > 0, "{early}: {:?}", done.salvaged);
        let (again, text) = recovered(&std::fs::read(&to).unwrap(), &OPTIONS).unwrap();
        assert_eq!(
            (calls(&text).len(), again.salvaged.found.total()),
            (4, 0),
            "{early}: {:?}",
            again.salvaged
        );
    }
}
