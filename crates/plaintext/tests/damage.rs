//! Truncated, changed and hostile traces.

// The helpers of a test may panic as the test may.

use crate::common;
use crate::common::{ALL, bytes, din, lackey, lines, text};
use quipu_records::FlatTrace;
use quipu_records::lines::LineCodec;
use quipu_testkit::damage::{self, Damage};
use quipu_testkit::fuzz;

#[test]
fn damaged_traces_are_survived() {
    let is_full = std::env::var_os("QUIPU_DAMAGE").is_some_and(|value| value == "full");
    for name in [
        "lackey/mixed.lackey",
        "lackey/nodes.lackey.gz",
        "din/nodes.din.gz",
        "din/nodes.xdin.gz",
        "din/labels.din",
    ] {
        let bytes = bytes(name);
        let is_small = bytes.len() < 6000;
        let (truncations, changes) = match is_full {
            true if is_small => (bytes.len(), 5000),
            // Each case of a large trace reads up to a megabyte.
            true => (200, 400),
            false if is_small => (200, 500),
            false => (20, 40),
        };
        // The first lines determine how all lines are parsed.
        let keeps_prefix = name != "din/labels.din";
        let damage = Damage { truncations, changes, keeps_prefix, has_open_end: true, ..Damage::default() };
        let survived = damage::format(common::format(name), name, &bytes, &damage);
        assert!(survived.complained > truncations / 2, "{name}: {survived:?}");
    }
}

#[test]
fn pieces_that_bytes_arrive_in_make_no_difference() {
    let long = [&b"I  0400,3\n"[..], &vec![b'x'; 70_000], b"\n S 20,4\nI  0403,1"].concat();
    for (name, bytes) in
        [("lackey", text("lackey/mixed.lackey")), ("din", text("din/labels.din")), ("lackey", long)]
    {
        let trace = if name == "din" { din(&bytes, &[]) } else { lackey(&bytes) };
        let opened = trace.as_any().and_then(|trace| trace.downcast_ref::<FlatTrace<LineCodec>>()).unwrap();
        quipu_testkit::records::chunk_independence(opened, &bytes, if bytes.len() < 12_000 { 40 } else { 2 });
    }
}

#[test]
fn every_beginning_gives_the_whole_lines() {
    let bytes = text("lackey/mixed.lackey");
    let (whole, _) = lines(&*lackey(&bytes));
    let mut last = 0;
    for n_bytes in 0..=bytes.len() {
        let (cut, findings) = lines(&*lackey(&bytes[..n_bytes]));
        // An incomplete line does not count, even if it parses.
        assert_eq!(cut, whole[..cut.len()], "{n_bytes}");
        assert!(cut.len() >= last, "{n_bytes}");
        let is_told = findings.iter().any(|finding| finding.rule == "lackey/cut");
        assert_eq!(is_told, n_bytes > 0 && bytes[n_bytes - 1] != b'\n', "{n_bytes}");
        last = cut.len();
    }
}

#[test]
fn long_lines_and_garbage_are_passed_over() {
    for n_bytes in [1, 30, 40_000, 70_000, 600_000] {
        let text = [&b"I  0400,3\n"[..], &vec![b'x'; n_bytes], b"\n S 20,4\nI  0403,1\n"].concat();
        let (read, findings) = lines(&*lackey(&text));
        assert_eq!((read.len(), findings.len()), (3, 1), "{n_bytes}");
        assert_eq!((&*findings[0].rule, findings[0].place.offset), ("lackey/bad-line", Some(10)));
        assert!(read[1].contains(" 3  store"), "{}", read[1]);
    }
    // Most of many bad lines are only counted.
    let text = [&b"0 10\n"[..], &b"zero ten\n".repeat(5000)].concat();
    let (read, findings) = lines(&*din(&text, &[]));
    assert_eq!((read.len(), findings.len()), (1, 100));
    assert_eq!(findings.iter().map(|finding| finding.count).sum::<u64>(), 5000);
}

#[test]
fn numbers_that_do_not_fit_are_told_at_their_line() {
    let (read, findings) = lines(&*lackey(b"I  0400,3\n L 10000000000000000,1\n L 10,4294967296\n S 20,4\n"));
    assert_eq!(read.len(), 2);
    let found: Vec<_> = findings.iter().map(|finding| (&*finding.rule, finding.place.offset)).collect();
    assert_eq!(found, [("lackey/number", Some(10)), ("lackey/number", Some(33))]);
    let (_, findings) = lines(&*din(b"0 10000000000000000\n1 10\n", &[]));
    assert_eq!(&*findings[0].rule, "din/number");
}

#[test]
fn traces_hold_what_fuzzing_asks_for() {
    for name in ALL {
        fuzz::format(common::format(name), &bytes(name));
    }
}
