//! Breaks each rule with a trace made for it that breaks no other; fixtures break the rules that they are known to break.

// The helpers of a test may panic as the test may.

use crate::common;
use quipu_apitrace::check::{Check, RULES};
use quipu_apitrace::pack::StreamWriter;
use quipu_apitrace::trace::{self, Packing};
use quipu_model::trace::surveyed;
use quipu_model::{Finding, Given, OpenOptions, Report, Result, RuleInfo, Tool, Trace};
use quipu_source::Source;
use std::collections::BTreeSet;

/// Checks the bytes of a file.
fn checked(bytes: &[u8], options: &[(&str, &str)]) -> Result<Box<dyn Report>> {
    let trace = trace::open(&Source::from_bytes("made", bytes.to_vec()), &OpenOptions::default())?;
    let mut given = Given::default();
    for (name, value) in options {
        given.add(*name, *value);
    }
    let mut all = Check.build(&Check.info().parse(&given)?, &trace)?;
    let pass = all.fork(&trace.shards()[0]);
    all.merge(pass)?;
    all.finish()
}

/// The rules that are broken, with numbers of violations.
fn broken(bytes: &[u8]) -> Vec<(String, u64)> {
    counts(&*checked(bytes, &[]).unwrap())
}

fn counts(report: &dyn Report) -> Vec<(String, u64)> {
    let json = report.json();
    let rules = json["rules"].as_array().unwrap().iter();
    rules.map(|rule| (rule["rule"].as_str().unwrap().to_owned(), rule["count"].as_u64().unwrap())).collect()
}

fn is_broken(bytes: &[u8], expected: &[(&str, u64)]) -> Vec<Finding> {
    let report = checked(bytes, &[]).unwrap();
    let expected: Vec<_> = expected.iter().map(|(rule, count)| ((*rule).to_owned(), *count)).collect();
    assert_eq!(counts(&*report), expected, "{:#?}", report.findings());
    report.findings()
}

fn snappy(stream: &[u8]) -> Vec<u8> {
    let mut writer = StreamWriter::new(Vec::new(), Packing::Snappy, None).unwrap();
    writer.write(stream).unwrap();
    writer.finish().unwrap()
}

const FOO: &str = "function 0 glFoo(a, b)\n";

/// Statements after a signature, as a stream.
fn stream(calls: &str) -> Vec<u8> {
    common::assembled(&format!("property \"process.name\" = \"made\"\n{FOO}{calls}"))
}

/// Calls that follow all rules.
fn good_calls(n: u64) -> String {
    (0..n).map(|i| format!("glFoo(a = {i}, b = 2) = {i}\n")).collect()
}

#[test]
fn a_good_trace_breaks_no_rule() {
    is_broken(&snappy(&stream(&good_calls(40))), &[]);
}

#[test]
fn rules_of_calls_are_broken_one_by_one() {
    let good = good_calls(3);
    for (calls, rule, message) in [
        ("enter glFoo(a = 1)\n", "incomplete-call", "call `3` of `glFoo` never returned"),
        (
            "glFoo(a = 1, b = 2, #2 = 3)\n",
            "extra-argument",
            "call `3` of `glFoo` has argument `2`, its signature has `2`",
        ),
        ("glFoo(a = 1)\n", "missing-argument", "call `3` of `glFoo` has `1` of `2` arguments"),
        (
            "@100 glFoo(a = 1, b = 2)\n",
            "thread-number",
            "call `3` is made by thread `100`; there are fewer threads",
        ),
        (
            "flags 7 { ONE = 1 NONE = 0 }\nglFoo(a = ONE, b = 2)\n",
            "zero-flag",
            "the set of flags `7` has the name of 0 after others",
        ),
    ] {
        let bytes = snappy(&stream(&format!("{good}{calls}")));
        let found = is_broken(&bytes, &[(&format!("apitrace/{rule}"), 1)]);
        assert_eq!(found[0].message, message);
        // Types are looked at before the calls that came with them.
        let record = if rule == "zero-flag" { 0 } else { 4 };
        assert_eq!(found[0].place.record, Some(record), "{rule}");
    }
}

#[test]
fn rules_of_the_header_are_broken_one_by_one() {
    for (names, rule, message) in [
        (["a", "a"], "repeated-property", "property `a` stands there twice"),
        (["b", "a"], "property-order", "property `a` stands after a later name"),
    ] {
        let [first, second] = names;
        let stream = common::assembled(&format!(
            "property \"{first}\" = \"1\" property \"{second}\" = \"2\"\n{FOO}{}",
            good_calls(3)
        ));
        let found = is_broken(&snappy(&stream), &[(&format!("apitrace/{rule}"), 1)]);
        assert_eq!((found[0].message.as_str(), found[0].place.offset), (message, Some(0)));
    }
}

#[test]
fn what_is_missing_at_the_end_is_told() {
    let whole = stream(&good_calls(3));
    // The last event leaves a call, which now stays open.
    let found = is_broken(
        &snappy(&whole[..whole.len() - 1]),
        &[("apitrace/cut", 1), ("apitrace/incomplete-call", 1)],
    );
    let cut = found.iter().find(|finding| finding.rule == "apitrace/cut").unwrap();
    assert_eq!(cut.message, "the trace ends within an event, after `3` calls");
    let header = common::assembled("property \"process.name\" = \"made\"\n");
    is_broken(&snappy(&header[..header.len() - 2]), &[("apitrace/cut", 1)]);
    let packed = snappy(&whole);
    is_broken(
        &packed[..packed.len() - 3],
        &[("apitrace/cut", 1), ("apitrace/incomplete-call", 1), ("source/truncated", 1)],
    );
    is_broken(&common::bytes("header-only-2-bytes"), &[("apitrace/empty", 1)]);
    is_broken(&whole, &[("apitrace/bare", 1)]);
}

/// Length in bytes of a stream with these calls.
fn length_of(calls: &str) -> usize {
    stream(calls).len()
}

#[test]
fn reading_goes_on_behind_an_event_that_cannot_be() {
    let (before, whole) = (length_of(&good_calls(40)), stream(&good_calls(80)));
    let mut bad = whole.clone();
    bad[before] = 9;
    let rules = ["damaged", "doubtful", "resumed"].map(|rule| format!("apitrace/{rule}"));
    let found = is_broken(&snappy(&bad), &rules.each_ref().map(|rule| (rule.as_str(), 1)));
    let told = |rule: &str| {
        let finding = found.iter().find(|finding| finding.rule == rule).unwrap();
        (finding.place.offset.unwrap_or(0) as usize, finding.message.as_str())
    };
    let what = "unknown event `9`, after the entry of call `39`";
    assert_eq!(told("apitrace/damaged"), (before, what));
    // The event that leaves the call whose entry is lost is dropped: the next call is the one after it.
    let next = length_of(&good_calls(41));
    let what = "reading continues here, with call `41`: `1` calls are lost";
    assert_eq!(told("apitrace/resumed"), (next, what));
    assert_eq!(told("apitrace/doubtful").1, "`79` calls are of damaged chunks: their values may be wrong");
    // Damage does not spread where nothing is packed.
    let rules = ["bare", "damaged", "resumed"].map(|rule| format!("apitrace/{rule}"));
    is_broken(&bad, &rules.each_ref().map(|rule| (rule.as_str(), 1)));
}

#[test]
fn a_call_that_nothing_bears_out_is_told() {
    let entered = length_of(&format!("{}enter glFoo(a = 40, b = 2)\n", good_calls(40)));
    let mut bad = stream(&good_calls(80));
    bad[entered] = 9;
    let rules =
        ["bare", "damaged", "doubtful", "incomplete-call", "resumed"].map(|rule| format!("apitrace/{rule}"));
    let found = is_broken(&bad, &rules.each_ref().map(|rule| (rule.as_str(), 1)));
    let message = "`1` calls right before damage may have been others, or none; `0` that contradict others are left out";
    assert!(found.iter().any(|finding| finding.message == message), "{found:?}");
}

#[test]
fn a_stream_without_its_header_is_taken_for_one_of_the_newest_version() {
    let whole = stream(&good_calls(80));
    for (version, why) in [
        (0x46, "stream version `70` is newer"),
        (0, "no call follows"),
        (4, "no call follows a header of version `4`"),
        (5, "no call follows a header of version `5`"),
        (7, "stream version `7` is newer"),
    ] {
        let mut bad = whole.clone();
        bad[0] = version;
        let report = checked(&snappy(&bad), &[]).unwrap();
        let found = report.findings();
        let lost: Vec<_> = found.iter().filter(|finding| finding.rule == "apitrace/lost-header").collect();
        assert!(lost.len() == 1 && lost[0].count == 1 && lost[0].message.contains(why), "{found:?}");
        assert_eq!(report.json()["calls"], 80, "{found:?}");
        // The rest of the header is kept.
        let trace = trace::open(&Source::from_bytes("made", snappy(&bad)), &OpenOptions::default()).unwrap();
        assert_eq!(trace.header().properties.len(), 1, "{version}");
        assert_eq!(trace.header().semantic_version, 6, "{version}");
        // No other verb reads a version that may be newer than this program.
        let scan = quipu_model::Scan::new(quipu_model::ShardId(0));
        assert_eq!(trace.scan(&scan).is_err(), version == 7, "{version}");
    }
    // A newer version is not damage.
    let mut newer = whole;
    newer[..2].copy_from_slice(&[7, 7]);
    assert!(checked(&snappy(&newer), &[]).is_err());
}

#[test]
fn what_leaves_a_call_that_is_not_open_is_told() {
    let good = good_calls(3);
    for (calls, rules, message) in [
        (
            "leave #9999 () = 1\n".to_owned(),
            &[("apitrace/never-entered", 1)][..],
            "call `9999` is left, which is never entered",
        ),
        (
            format!("leave #9999 () = 1\n{good}"),
            &[("apitrace/never-entered", 1)],
            "call `9999` is left, which is never entered",
        ),
        (
            format!("leave #1 () = 1\n{good}"),
            &[("apitrace/left-twice", 1)],
            "call `1` is left, which was left before",
        ),
        (
            format!("leave #5 () = 1\n{good}"),
            &[("apitrace/left-early", 1)],
            "call `5` is left, which is entered later",
        ),
    ] {
        let found = is_broken(&snappy(&stream(&format!("{good}{calls}"))), rules);
        assert_eq!(found[0].message, message);
        assert_eq!(found[0].place.offset, Some(length_of(&good) as u64));
    }
}

/// Calls of equal length, except for the first, each with a string.
fn calls_with_text(n: u64) -> String {
    (0..n).map(|_| "glFoo(a = \"text\", b = 2) = 1\n").collect()
}

#[test]
fn calls_that_a_longer_string_swallows_are_told() {
    let (before, next) = (length_of(&calls_with_text(40)), length_of(&calls_with_text(41)));
    let mut bad = stream(&calls_with_text(100));
    let text = before + bad[before..].windows(4).position(|bytes| bytes == b"text").unwrap();
    // The string ends at the end of the string of the third call after it.
    bad[text - 1] = (4 + 3 * (next - before)) as u8;
    let report = checked(&snappy(&bad), &[]).unwrap();
    let found = report.findings();
    let damaged = found.iter().find(|finding| finding.rule == "apitrace/damaged").unwrap();
    assert_eq!(
        damaged.message,
        "call `43` is left when `41` calls were entered: the entries of others were taken for a part of a call before"
    );
    let resumed = found.iter().find(|finding| finding.rule == "apitrace/resumed").unwrap();
    assert_eq!(resumed.message, "reading continues here, with call `44`: `3` calls are lost");
    assert_eq!(resumed.place.offset, Some(length_of(&calls_with_text(44)) as u64));
    let json = report.json();
    let facts = &json["streams"][0];
    assert_eq!(
        (&facts["calls"], &facts["incomplete"], &facts["lost_calls"]),
        (&97.into(), &1.into(), &3.into())
    );
    assert!(report.is_flawed());
}

#[test]
fn behind_a_lost_header_a_new_function_is_believed_in_the_last_call() {
    let mut bad = stream(&format!("{}function 5 glBar(c)\nglBar(c = 1)\n", good_calls(80)));
    bad[0] = 0x46;
    let report = checked(&snappy(&bad), &[]).unwrap();
    assert_eq!(report.json()["calls"], 81, "{:?}", report.findings());
    let rules: Vec<_> = counts(&*report).into_iter().map(|(rule, _)| rule).collect();
    assert_eq!(rules, ["apitrace/doubtful", "apitrace/lost-header", "apitrace/resumed"]);
}

#[test]
fn a_cut_is_an_error_to_readers_and_to_check() {
    use quipu_model::Severity;
    let whole = stream(&good_calls(3));
    for (bytes, rule) in [
        (snappy(&whole[..whole.len() - 1]), "apitrace/cut"),
        (common::bytes("zlib-no-eof"), "source/truncated"),
    ] {
        let report = checked(&bytes, &[]).unwrap();
        assert!(report.is_flawed(), "{rule}");
        let trace = trace::open(&Source::from_bytes("made", bytes), &OpenOptions::default()).unwrap();
        let found = surveyed(&trace, &|| false).findings;
        let told: Vec<_> = found.iter().map(|finding| (&*finding.rule, finding.severity)).collect();
        assert_eq!(told, [(rule, Severity::Error)]);
    }
}

#[test]
fn names_that_stood_in_a_lost_part_are_told() {
    let bar = "function 5 glBar(c)\nglBar(c = 1)\n";
    let calls =
        |n: u64| -> String { (0..n).map(|i| format!("glFoo(a = {i}, b = 2)\nglBar(c = 3)\n")).collect() };
    let (before, behind) = (length_of(&good_calls(20)), length_of(&format!("{}{bar}", good_calls(20))));
    let whole = stream(&format!("{}{bar}{}", good_calls(20), calls(40)));
    let lost = [&whole[..before], &[9], &whole[behind..]].concat();
    let found = is_broken(
        &snappy(&lost),
        &[
            ("apitrace/damaged", 1),
            ("apitrace/doubtful", 1),
            ("apitrace/lost-signature", 1),
            ("apitrace/resumed", 1),
        ],
    );
    let lost = found.iter().find(|finding| finding.rule == "apitrace/lost-signature").unwrap();
    assert_eq!(lost.message, "`1` signatures are lost: numbers stand for the names in them");
}

#[test]
fn two_streams_in_one_file_are_told() {
    let (one, other) = (snappy(&stream(&good_calls(20))), snappy(&stream(&good_calls(30))));
    let found = is_broken(&[&one[..], &other[2..]].concat(), &[("apitrace/second-stream", 1)]);
    assert_eq!(found[0].message, "another stream begins here at chunk `1`: two processes wrote this file");
    assert_eq!(found[0].place.offset, Some(length_of(&good_calls(20)) as u64));
}

#[test]
fn a_chunk_that_cannot_be_inflated_is_told() {
    let mut bytes = common::bytes("synth-v6-tinychunks");
    let first = 2;
    let second = first + 4 + u32::from_le_bytes(bytes[first..first + 4].try_into().unwrap()) as usize;
    bytes[second + 4..second + 12].fill(0xff);
    let report = checked(&bytes, &[]).unwrap();
    let bad = report.findings().into_iter().find(|finding| finding.rule == "apitrace/bad-chunk").unwrap();
    assert!(bad.message.starts_with("bad snappy block in chunk `1`: "), "{}", bad.message);
    assert!(report.is_flawed());
    assert_eq!(report.json()["lost_chunks"], 1);
}

#[test]
fn a_stack_of_which_hundreds_of_frames_are_lost_is_none() {
    // Bytes that are not a stack may read as one of any length.
    for (n_frames, is_saved) in [(200, true), (300, false)] {
        let frames: String = (0..n_frames).map(|i| format!("frame {i} {{ function \"f{i}\" }}\n")).collect();
        let ids: Vec<String> = (0..n_frames).map(|i| i.to_string()).collect();
        let call = format!("glFoo(a = 1, b = 2) !stack [{}]\n", ids.join(", "));
        let text = |n_calls| format!("{}{frames}{}", good_calls(20), call.repeat(n_calls));
        let (before, behind) = (length_of(&good_calls(20)), length_of(&text(1)));
        let whole = stream(&text(41));
        let lost = [&whole[..before], &[9], &whole[behind..]].concat();
        let n_calls = checked(&lost, &[]).unwrap().json()["calls"].as_u64().unwrap();
        assert_eq!(n_calls > 50, is_saved, "{n_frames}: {n_calls}");
    }
}

#[test]
fn every_rule_stands_in_a_test() {
    let source = include_str!("check.rs");
    // A stream that merely cannot be expressed as text is not damaged, so `check` does not report that rule.
    let is_tested = |rule: &&RuleInfo| {
        rule.name == "apitrace/not-understood" || source.contains(&format!("{}\"", rule.short_name()))
    };
    let missing: Vec<_> = RULES.iter().filter(|rule| !is_tested(rule)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn fixtures_break_what_they_are_known_for() {
    for name in common::traces() {
        let expected: &[(&str, u64)] = match name.as_str() {
            "header-only-2-bytes" => &[("apitrace/empty", 1)],
            "incomplete-call" | "kinds-segv-in-driver" => &[("apitrace/incomplete-call", 1)],
            "synth-d3d-kinds" => &[
                ("apitrace/incomplete-call", 2),
                ("apitrace/missing-argument", 5),
                ("apitrace/never-entered", 1),
                ("apitrace/thread-number", 1),
            ],
            "zlib-no-eof" => &[("source/truncated", 1)],
            _ => &[],
        };
        is_broken(&common::bytes(&name), expected);
    }
    let forked = common::bytes("damaged/xs-antspotlight-fork-corrupt");
    is_broken(&forked, &[("apitrace/second-stream", 1)]);
}

#[test]
fn rules_are_chosen_by_name_those_of_containers_too() {
    let (cut, odd) = (common::bytes("zlib-no-eof"), common::bytes("synth-d3d-kinds"));
    let rules = |bytes: &[u8], option: &str, names: &str| -> BTreeSet<String> {
        let report = checked(bytes, &[(option, names)]).unwrap();
        counts(&*report).into_iter().map(|(rule, _)| rule).collect()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(rules(&odd, "rule", "thread-number"), set(&["apitrace/thread-number"]));
    assert_eq!(
        rules(&odd, "skip-rule", "apitrace/thread-number,incomplete-call"),
        set(&["apitrace/missing-argument", "apitrace/never-entered"])
    );
    assert_eq!(rules(&cut, "rule", "source/truncated"), set(&["source/truncated"]));
    assert_eq!(rules(&cut, "skip-rule", "truncated"), set(&[]));
    for option in ["rule", "skip-rule"] {
        let error = checked(&cut, &[(option, "no-such-rule")]).err().unwrap();
        assert_eq!(error.message(), "there is no rule `no-such-rule`");
    }
}

#[test]
fn violations_are_counted_beyond_those_that_are_kept_and_calls_need_not_be_looked_at() {
    let odd = common::bytes("synth-d3d-kinds");
    let report = checked(&odd, &[("rule", "missing-argument"), ("max-per-rule", "2")]).unwrap();
    assert_eq!(counts(&*report), [("apitrace/missing-argument".to_owned(), 5)]);
    assert_eq!(report.findings().len(), 2);
    let stored = [("apitrace/never-entered".to_owned(), 1)];
    assert_eq!(counts(&*checked(&odd, &[("no-decode", "true")]).unwrap()), stored);
    assert!(!report.is_flawed());
    assert!(broken(&odd).len() == 4);
}

#[test]
fn of_a_large_trace_that_must_be_read_from_its_beginning_that_is_told() {
    use std::io::Write as _;
    let opened = |n_zeros: usize| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        gzip.write_all(&common::stream("kinds")).unwrap();
        gzip.write_all(&vec![0; n_zeros]).unwrap();
        let source = quipu_source::Source::from_bytes("large", gzip.finish().unwrap());
        let trace = quipu_apitrace::trace::open(&source, &quipu_model::OpenOptions::default()).unwrap();
        let findings = quipu_model::Trace::meta(&trace).findings.clone();
        findings
            .iter()
            .map(|finding| finding.rule.trim_start_matches("apitrace/").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(opened(1 << 20), [""; 0]);
    assert_eq!(opened(64 << 20), ["no-index"]);
}

#[test]
fn what_a_program_leaves_that_died_early_is_still_a_trace_of_calls() {
    use quipu_model::{Confidence, Format};
    let packed = |stream: &[u8], packing| {
        let mut writer = StreamWriter::new(Vec::new(), packing, None).unwrap();
        writer.write(stream).unwrap();
        writer.finish().unwrap()
    };
    let header = [6, 6, 0];
    for (name, bytes) in [
        ("cut.trace", b"at\xc7\x02".to_vec()),
        ("length.trace", b"at\xff\xff\xff\x7f\x03\x08\x06\x06\x00".to_vec()),
        ("header.trace", packed(&header, Packing::Zstd)),
        ("header.gz", packed(&header, Packing::Gzip)),
        ("header.br", packed(&header, Packing::Brotli)),
        ("empty.br", packed(b"", Packing::Brotli)),
        ("empty.trace", packed(b"", Packing::SeekableZstd)),
    ] {
        let source = Source::from_bytes(name, bytes);
        let confidence = quipu_apitrace::APITRACE.probe(&source);
        assert!(confidence >= Confidence::Likely, "{name}: {confidence:?}");
        trace::open(&source, &OpenOptions::default()).unwrap();
    }
    // A truncated container is not an empty one.
    let mut cut = packed(&header, Packing::Gzip);
    cut.truncate(12);
    assert_eq!(quipu_apitrace::APITRACE.probe(&Source::from_bytes("cut.gz", cut)), Confidence::No);
    // Any bytes may be Brotli, so the file name has to say so.
    let source = Source::from_bytes("note", packed(b"", Packing::Brotli));
    assert_eq!(quipu_apitrace::APITRACE.probe(&source), Confidence::No);
}
