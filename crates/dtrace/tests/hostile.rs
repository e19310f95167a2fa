//! Damaged and hostile captures give typed errors with their places, and never a panic.

use crate::samples::{bytes, cases, classic, name_of, printed, root};
use quipu_dtrace::aggregate::Aggregates;
use quipu_dtrace::describe::Buffer;
use quipu_dtrace::{Capture, meta};
use quipu_model::{Error, ErrorKind};

/// Loads a case with one text in its description replaced by another.
fn with(case: &str, from: &str, to: &str) -> Result<Capture, Error> {
    let path = root().join("classic").join(case);
    let text: serde_json::Value = serde_json::from_slice(&bytes(&path.join("meta.json"))).unwrap();
    let text = text.to_string();
    assert!(text.contains(from), "{case} has no {from}");
    let text = text.replacen(from, to, 1);
    meta::read("meta.json", text.as_bytes(), &mut |name| Ok(bytes(&path.join(name))))
}

#[test]
fn wrong_descriptions_are_refused() {
    let part = |rest: &str| format!("{{\"action\":1,\"size\":1,{rest}");
    let cases = [
        ("trace_basic", part("\"offset\":12"), part("\"offset\":4294967295"), "outside of the record"),
        ("trace_basic", part("\"offset\":12"), part("\"offset\":3"), "outside of the record"),
        ("trace_basic", "\"alignment\":8".into(), "\"alignment\":3".into(), "an alignment of 3 bytes"),
        (
            "trace_basic",
            "\"size\":308,\"raw".into(),
            "\"size\":4294967295,\"raw".into(),
            "a record has 4294967295 bytes",
        ),
        (
            "trace_basic",
            "\"size\":308,\"raw".into(),
            "\"size\":8,\"raw".into(),
            "a record has 8 bytes, a header 12",
        ),
        (
            "trace_basic",
            "\"byte_order\":\"little\"".into(),
            "\"byte_order\":\"middle\"".into(),
            "unknown byte order",
        ),
        (
            "trace_basic",
            "\"data_model\":\"LP64\"".into(),
            "\"data_model\":\"LP1\"".into(),
            "unknown data model",
        ),
        ("trace_basic", "\"epid\":1".into(), "\"epid\":0".into(), "EPID 0"),
        ("printf", "\"format\":1,".into(), "\"format\":4000,".into(), "format 4000 has no text"),
        ("stacks", "\"arg\":5".into(), "\"arg\":0".into(), "a stack of 0 frames"),
        ("stacks", "\"arg\":4,".into(), "\"arg\":4000000,".into(), "a user stack of 4000000 frames"),
        ("quantize", "\"size\":1016".into(), "\"size\":1008".into(), "a value of quantize() has 1008 bytes"),
        ("lquantize", "2814792716779520".into(), "42949672960".into(), "the step of lquantize() is 0"),
        ("lquantize", "2814792716779520".into(), "2814887206060032".into(), "a value of lquantize()"),
        (
            "ring_wrapped",
            "\"oldest\":96".into(),
            "\"oldest\":100000".into(),
            "the oldest record stands at 100000",
        ),
        ("padding", "\"epid\":2,".into(), "\"epid\":1,".into(), "EPID 1 is described twice"),
        (
            "agg_scalar",
            "\"id\":2,\"epid\"".into(),
            "\"id\":1,\"epid\"".into(),
            "aggregation 1 is described twice",
        ),
        ("padding", "\"probes\":[".into(), "\"probes\":[7, ".into(), "cannot be read"),
    ];
    for (case, from, to, message) in cases {
        let error = match with(case, &from, &to) {
            Err(error) => error,
            Ok(_) => panic!("{case} with {to} is accepted"),
        };
        assert!(error.to_string().contains(message), "{case}: {error}");
        assert!(matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Limit), "{error}");
        assert!(error.place().file.is_some(), "{error}");
    }
}

#[test]
fn hostile_formats_stop_at_their_record() {
    let formats = [
        ("%n", "unknown conversion `n`"),
        ("%1$d", "by position"),
        ("%i %i %i", "takes 3 arguments, the record has 1"),
        ("%Y", "the conversion `Y` is given 1 bytes"),
        ("%e", "the conversion `e` is given 1 bytes"),
    ];
    for (format, message) in formats {
        let capture = with("printf", "\"string\":\"%i\\n\"", &format!("\"string\":\"{format}\"")).unwrap();
        let printed = printed(capture, false);
        let fault = printed.faults.first().unwrap_or_else(|| panic!("{format} is printed"));
        assert!(fault.to_string().contains(message), "{format}: {fault}");
        assert_eq!(fault.place().offset, Some(0), "{format}");
        assert!(printed.out.ends_with(b"-1 mix 99\n\n"), "{format}: others are printed");
    }
    // A width of any size is limited.
    let capture = with("printf", "\"string\":\"%i\\n\"", "\"string\":\"%999999999999999i\"").unwrap();
    assert!(printed(capture, false).out.len() < 16 << 10);
}

#[test]
fn types_that_contain_themselves_are_found_and_end() {
    let types = [
        r#"{"id":"m`1","name":"a","size":8,"kind":"typedef","to":"m`2"},{"id":"m`2","name":"b","size":8,"kind":"typedef","to":"m`1"}"#,
        r#"{"id":"m`1","name":"a","size":8,"kind":"struct","members":[{"name":"x","type":"m`1","bit":0},{"name":"y","type":"m`1","bit":0}]}"#,
        r#"{"id":"m`1","name":"a","size":0,"kind":"array","of":"m`1","count":9223372036854775808}"#,
    ];
    for types in types {
        let to = format!("\"types\":[{types}],\"symbols\":");
        let mut capture = with("trace_basic", "\"symbols\":", &to).unwrap();
        capture.formats = vec![std::sync::Arc::from(&b"m`1"[..])];
        capture.enablings.iter_mut().flat_map(|of| &mut of.recs).for_each(|rec| rec.format = 1);
        assert!(printed(capture, false).out.len() < 64 << 20, "{types}");
        let home = tempfile::tempdir().unwrap();
        let case = root().join("classic/trace_basic");
        let text: serde_json::Value = serde_json::from_slice(&bytes(&case.join("meta.json"))).unwrap();
        let text = text.to_string().replacen("\"symbols\":", &to, 1);
        quipu_testkit::copy_files(&case, home.path());
        std::fs::write(home.path().join("meta.json"), text).unwrap();
        let source = quipu_source::Source::open(home.path()).unwrap();
        let capture = quipu_dtrace::trace::load(&source, &quipu_model::OpenOptions::default()).unwrap();
        let [finding] = &capture.findings[..] else { panic!("{:?}", capture.findings) };
        assert_eq!(finding.rule, "dtrace/format");
        assert!(finding.message.ends_with("contains itself"), "{}", finding.message);
    }
}

/// Changes some bytes of all buffers.
fn damaged(capture: &Capture, seed: u64) -> Capture {
    let mut capture = capture.clone();
    let mut state = seed;
    let mut roll = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let mut change = |buffer: &mut Buffer| {
        if buffer.bytes.is_empty() {
            return;
        }
        for _ in 0..3 {
            let at = roll(buffer.bytes.len());
            buffer.bytes[at] = [0, 1, 0x7f, 0x80, 0xff][roll(5)];
        }
        if roll(3) == 0 {
            let end = roll(buffer.bytes.len());
            buffer.bytes.truncate(end);
            buffer.oldest = buffer.oldest.min(end.saturating_sub(1));
        }
    };
    capture.buffers.iter_mut().chain(&mut capture.states).for_each(&mut change);
    capture
}

#[test]
fn damaged_buffers_give_what_is_whole() {
    for path in cases("classic") {
        let capture = classic(&path);
        for seed in 0..40 {
            let printed = printed(damaged(&capture, seed), seed % 2 == 0);
            assert!(printed.out.len() < 64 << 20, "{}", name_of(&path));
            for fault in &printed.faults {
                assert!(fault.place().offset.is_some(), "{fault}");
            }
        }
    }
}

/// Changes some bytes of a file; digits of text become other digits, so that it can still be parsed.
fn mutated(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut roll = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let mut bytes = bytes.to_vec();
    let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
    for _ in 0..=roll(3) {
        if !digits.is_empty() && roll(8) > 0 {
            bytes[digits[roll(digits.len())]] = b"0123456789"[roll(10)];
        } else {
            let at = roll(bytes.len());
            bytes[at] = [0, 1, 0x20, 0x7f, 0xff][roll(5)];
        }
    }
    if roll(10) == 0 {
        bytes.truncate(roll(bytes.len()));
    }
    bytes
}

#[test]
fn changed_files_of_all_forms_are_read_or_refused() {
    let folder = root().join("../../fuzz/seeds/dtrace");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.push(root().join("../stream/padding.midbuf"));
    files.push(root().join("../stream/dtrace-stacks.quipu"));
    let mut n_read = 0;
    for path in files {
        let whole = bytes(&path);
        for seed in 0..150 {
            let source = quipu_source::Source::from_bytes("changed", mutated(&whole, seed));
            match quipu_dtrace::trace::load(&source, &quipu_model::OpenOptions::default()) {
                Ok(capture) if !capture.settings.temporal => {
                    n_read += 1;
                    let printed = printed(capture, seed % 2 == 0);
                    assert!(printed.out.len() < 64 << 20, "{} {seed}", name_of(&path));
                }
                Ok(_) => {}
                Err(error) => assert!(!error.message().is_empty(), "{} {seed}", name_of(&path)),
            }
        }
    }
    assert!(n_read > 500, "{n_read}");
}

#[test]
fn a_value_beyond_its_record_is_an_error() {
    let mut capture = classic(&root().join("classic/quantize_pack"));
    for aggregation in &mut capture.aggregations {
        aggregation.value.offset = 1 << 20;
    }
    let mut all = Aggregates::new(true);
    let error = capture.states.iter().find_map(|buffer| all.take(&capture, buffer).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
}
