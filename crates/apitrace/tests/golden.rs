//! Compares output with apitrace's own output on real traces, in full.
//!
//! `traces/apitrace/golden` and `golden-cli` were printed by apitrace; see traces/README.md.

// The helpers of a test may panic as the test may.

use crate::common;
use crate::common::{dump, golden, open, options, traces};
use quipu_apitrace::APITRACE;
use quipu_apitrace::survey::{Frames, survey};
use quipu_apitrace::trace;
use quipu_model::{Confidence, Format, OpenOptions, Paint};
use quipu_source::Source;

/// The golden's name for traces whose dump equals that of another.
fn golden_name(name: &str) -> &str {
    match name {
        "kinds.gzip" | "kinds.brotli" | "kinds.zstd" | "kinds.zstd-noseek" => "kinds",
        other => other,
    }
}

#[test]
fn every_trace_is_recognised_without_a_doubt() {
    for name in traces() {
        let confidence = APITRACE.probe(&common::source(&name));
        assert_eq!(confidence, Confidence::Sure, "{name}");
    }
}

#[test]
fn every_trace_prints_as_the_original_prints_it() {
    for name in traces() {
        for (verbose, suffix) in [(false, "dump"), (true, "dump-v")] {
            let ours = dump(&*open(&name), &options(verbose, &[]), &Paint::PLAIN);
            let theirs = golden(&format!("golden/{}.{suffix}.txt.gz", golden_name(&name)));
            common::assert_same(&ours, &theirs, &format!("{name} {suffix}"));
        }
    }
}

#[test]
fn every_command_line_of_the_original_is_obeyed() {
    let mut n_compared = 0;
    for case in common::commands() {
        let command = common::command(&case);
        let Some((verb, args)) = command.split_once(' ') else { panic!("{case}") };
        // The failure to open a file, and what `info` prints, belong to the command line.
        if verb != "dump" || command.contains("nonexistent") {
            continue;
        }
        let (mut settings, mut names, mut verbose, mut paint) = (Vec::new(), Vec::new(), false, Paint::PLAIN);
        for arg in common::words(args) {
            match arg.strip_prefix("--").map(|option| option.split_once('=').unwrap_or((option, ""))) {
                Some(("color", _)) => paint = Paint::ANSI,
                Some((name, value)) => settings.push((name.to_owned(), value.to_owned())),
                None if arg == "-v" => verbose = true,
                None => names.push(arg.trim_end_matches(".trace").to_owned()),
            }
        }
        let options = options(verbose, &settings);
        let ours: Vec<u8> = names.iter().flat_map(|name| dump(&*open(name), &options, &paint)).collect();
        common::assert_same(&ours, &golden(&format!("golden-cli/{case}.out.gz")), &case);
        n_compared += 1;
    }
    assert_eq!(n_compared, 17);
}

/// `info --dump-frames` in apitrace's format.
#[test]
fn frames_and_sizes_are_those_that_the_original_counts() {
    for name in traces() {
        let trace = trace::open(&common::source(&name), &OpenOptions::default()).unwrap();
        let (survey, done) = survey(trace.container(), Frames::Listed, &|| false);
        done.unwrap();
        let golden: serde_json::Value =
            serde_json::from_slice(&golden(&format!("golden/{name}.info.json"))).unwrap();
        assert_eq!(golden["ContainerVersion"], survey.semantic_version, "{name}");
        assert_eq!(golden["ContainerType"], trace.packing().name(), "{name}");
        assert_eq!(golden["API"], survey.api.name(), "{name}");
        assert_eq!(golden["FramesCount"], survey.n_frames, "{name}");
        // QUIRK: apitrace does not count bytes that it reads one by one from gzip.
        let is_gzip = trace.packing().name() == "ZLib";
        if !is_gzip {
            assert_eq!(golden["ActualDataSize"], survey.stream_bytes, "{name}");
        }
        for (ours, theirs) in survey.frames.iter().zip(golden["Frames"].as_array().unwrap()) {
            assert_eq!(theirs["FirstCallId"], ours.first_call, "{name}");
            assert_eq!(theirs["LastCallId"], ours.last_call, "{name}");
            assert_eq!(theirs["TotalCalls"], ours.calls, "{name}");
            if !is_gzip {
                assert_eq!(theirs["SizeInBytes"], ours.bytes, "{name}");
            }
        }
    }
}

#[test]
fn a_stream_that_is_not_packed_is_read_as_well() {
    let bytes = common::stream("kinds");
    let source = Source::from_bytes("bare", bytes);
    assert_eq!(APITRACE.probe(&source), Confidence::Sure);
    let trace = APITRACE.open(&source, &OpenOptions::default()).unwrap();
    assert_eq!(trace.meta().findings[0].rule, "apitrace/bare");
    let ours = dump(&*trace, &options(true, &[]), &Paint::PLAIN);
    common::assert_same(&ours, &golden("golden/kinds.dump-v.txt.gz"), "bare");
}

#[test]
fn other_files_are_not_taken_for_traces() {
    for bytes in [
        b"".as_slice(),
        b"attention, this is a text",
        b"#!/bin/sh\nexit 0\n",
        &[0; 4096],
        &[0x19, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0x1c, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[6, 6, 0],
        b"\x1f\x8b\x08\x00",
    ] {
        let source = Source::from_bytes("other", bytes);
        assert_eq!(APITRACE.probe(&source), Confidence::No, "{bytes:x?}");
        assert!(APITRACE.open(&source, &OpenOptions::default()).is_err(), "{bytes:x?}");
    }
}
