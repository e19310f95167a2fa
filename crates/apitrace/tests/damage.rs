//! Truncated and changed traces: everything before the damage is kept, and the worst outcome is an error with a place.

// The helpers of a test may panic as the test may.

use crate::common;
use quipu_apitrace::APITRACE;
use quipu_apitrace::survey::{Frames, survey};
use quipu_apitrace::trace;
use quipu_model::{Format, OpenOptions, Paint, Scan, ShardId};
use quipu_source::Source;
use quipu_testkit::damage::{self, Damage};

#[test]
fn damaged_traces_are_survived() {
    let is_full = std::env::var_os("QUIPU_DAMAGE").is_some_and(|value| value == "full");
    for name in [
        "synth-d3d-kinds",
        "incomplete-call",
        "synth-v0",
        "threads-3x20",
        "kinds.zstd",
        "kinds.brotli",
        "kinds.gzip",
    ] {
        let bytes = common::bytes(name);
        let is_small = bytes.len() < 12_000;
        let (truncations, changes) = match is_full {
            true => (bytes.len().min(20_000), 5000),
            false if is_small => (200, 500),
            false => (20, 60),
        };
        // After a cut, the calls that were open there are delivered; the next test checks which.
        let damage = Damage { truncations, changes, keeps_prefix: false, ..Damage::default() };
        let survived = damage::format(&APITRACE, name, &bytes, &damage);
        assert!(survived.complained + survived.refused > truncations / 2, "{name}: {survived:?}");
    }
}

/// The calls of a trace as text, and whether reading it ended with an error.
fn calls(bytes: &[u8]) -> Option<(Vec<String>, bool)> {
    let trace = APITRACE.open(&Source::from_bytes("damaged", bytes), &OpenOptions::default()).ok()?;
    let scan = Scan { tables: vec![0], ..Scan::new(ShardId(0)) };
    let mut reader = trace.scan(&scan).unwrap();
    let options = common::options(true, &[("multiline".to_owned(), "no".to_owned())]);
    let mut printer = trace.printer(&options).unwrap();
    let (mut out, mut failed) = (Vec::new(), false);
    loop {
        match reader.read() {
            Ok(Some(batch)) => {
                let rows: Vec<u32> = (0..batch.span.records).collect();
                printer.print(batch, &rows, Default::default(), &Paint::PLAIN, &mut out);
            }
            Ok(None) => break,
            Err(_) => {
                failed = true;
                break;
            }
        }
    }
    let text = String::from_utf8_lossy(&out);
    Some((text.lines().filter(|line| !line.starts_with("//")).map(str::to_owned).collect(), failed))
}

#[test]
fn every_beginning_of_a_stream_gives_the_calls_that_were_over_and_those_that_were_open() {
    for name in ["synth-d3d-kinds", "incomplete-call", "zlib-no-eof"] {
        let stream = common::stream(name);
        let (whole, _) = calls(&stream).unwrap();
        let mut most = 0;
        for len in 0..stream.len() {
            let Some((kept, failed)) = calls(&stream[..len]) else {
                assert!(len < 600, "{name} cut at {len} is not recognised");
                continue;
            };
            assert!(!failed, "{name} cut at {len}");
            let n_complete = kept.iter().take_while(|line| !line.ends_with("incomplete")).count();
            // Some of the whole trace's own calls are incomplete, after all others.
            let n_same = n_complete.min(whole.len());
            assert_eq!(kept[..n_same], whole[..n_same], "{name} cut at {len}");
            assert!(n_complete >= most, "{name} cut at {len}: a call was lost");
            most = n_complete;
        }
        assert!(most > 0, "{name}");
    }
}

#[test]
fn a_cut_within_a_leave_keeps_the_call() {
    let stream = common::stream("incomplete-call");
    // The first call is left by these bytes: 01 00, two arguments, its result, 00.
    let leave = stream.windows(5).position(|bytes| bytes == [1, 0, 1, 1, 0]).unwrap();
    for len in leave..leave + 10 {
        let (kept, failed) = calls(&stream[..len]).unwrap();
        assert_eq!(
            kept,
            ["0 glXQueryExtension(dpy = 0xa7d2a0, errorb = ?, event = ?) // incomplete"],
            "{len}"
        );
        assert!(!failed);
    }
}

#[test]
fn an_error_says_where_and_behind_which_call() {
    let mut stream = common::stream("incomplete-call");
    let leave = stream.windows(5).position(|bytes| bytes == [1, 0, 1, 1, 0]).unwrap();
    stream[leave] = 9;
    let trace = APITRACE.open(&Source::from_bytes("bad", stream), &OpenOptions::default()).unwrap();
    let mut reader = trace.scan(&Scan::new(ShardId(0))).unwrap();
    let error = loop {
        match reader.read() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no error"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.message(), "unknown event `9`, after the entry of call `0`");
    assert_eq!((error.place().offset, error.place().record), (Some(leave as u64), Some(0)));
    assert_eq!(error.advice(), Some("`quipu recover bad -o FILE` writes what can be saved of it"));
}

#[test]
fn advice_can_be_pasted_into_a_shell() {
    let advice = |name: &str, event: &[u8]| {
        let mut stream = common::assembled("function 0 glFoo()\nglFoo()\n");
        stream.extend_from_slice(event);
        let trace = APITRACE.open(&Source::from_bytes(name, stream), &OpenOptions::default()).unwrap();
        let mut reader = trace.scan(&Scan::new(ShardId(0))).unwrap();
        loop {
            if let Err(error) = reader.read() {
                break error.advice().unwrap().to_owned();
            }
        }
    };
    // An invalid event, and one whose argument has an index beyond the limit.
    for event in [&[9][..], &[0, 0, 0, 1, 0xff, 0xff, 0x7f, 0]] {
        for (name, shown) in [
            ("a/b.trace", "a/b.trace"),
            ("a b.trace", "'a b.trace'"),
            ("it's $x", r"'it'\''s $x'"),
            ("-x.trace", "./-x.trace"),
            ("-x y", "'./-x y'"),
        ] {
            let expected = format!("`quipu recover {shown} -o FILE` writes what can be saved of it");
            assert_eq!(advice(name, event), expected);
        }
        let expected = "`quipu recover` writes what can be saved of it, once it is in a file";
        assert_eq!(advice("standard input", event), expected);
    }
}

#[test]
fn two_processes_in_one_file_are_told_by_the_event_that_cannot_be() {
    // The beginning of one stream, then another with its own header, as a forking program leaves it.
    let stream = common::stream("synth-d3d-kinds");
    let twice = [&stream[..], &stream[..]].concat();
    let (kept, failed) = calls(&twice).unwrap();
    assert!(failed);
    assert_eq!(kept.len(), 18, "{kept:?}");
}

#[test]
fn a_survey_of_any_beginning_ends() {
    let bytes = common::bytes("synth-d3d-kinds");
    for len in (0..bytes.len()).step_by(7) {
        if let Ok(trace) = trace::open(&Source::from_bytes("cut", &bytes[..len]), &OpenOptions::default()) {
            let (survey, done) = survey(trace.container(), Frames::Listed, &|| false);
            assert!(done.is_ok() && survey.calls <= 20, "{len}");
        }
    }
}
