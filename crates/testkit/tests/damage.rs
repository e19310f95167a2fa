//! The damage test passes for a careful reader, and detects readers that are not careful.

// The helpers of a test may panic as the test may.
#![allow(clippy::unwrap_used)]

use quipu_model::{Error, Result, Scan, ShardId, Trace};
use quipu_testkit::damage::{Damage, Survived, run};
use quipu_testkit::{Depth, MemoryTrace, Reading, ReadingOptions, fuzz};

/// The text of a trace in memory; the last line marks its end.
const TEXT: &str =
    "thread 7 1\nclock 5\ninstr 0x10 2 =9090\nread 0x20 8\nmark 3 4\nfinding note odd\nread 0x30 8\nend\n";

/// Opens the text carefully: only complete lines count, and the end must be there.
fn open(bytes: &[u8]) -> Result<Box<dyn Trace>> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.rfind('\n').map_or("", |end| &text[..=end]);
    let text = match lines.strip_suffix("end\n") {
        Some(body) => body.to_owned(),
        None => format!("{lines}fault the text ends too early\n"),
    };
    Ok(Box::new(MemoryTrace::parse(&text).map_err(|error| error.in_file("text"))?))
}

fn damage(truncations: usize, changes: usize) -> Damage {
    Damage { truncations, changes, ..Damage::default() }
}

#[test]
fn a_careful_reader_survives() {
    let Survived { cases, refused, complained, unnoticed } =
        run(TEXT.as_bytes(), &damage(TEXT.len(), 500), open);
    assert_eq!(cases, TEXT.len() + 500);
    assert_eq!(refused + complained + unnoticed, cases);
    // An incomplete line is not an item; a changed digit is as valid as another.
    assert!(refused > 100 && complained > 100, "{refused} refused, {complained} complained");
}

#[test]
fn the_same_seed_does_the_same_damage() {
    let one = run(TEXT.as_bytes(), &damage(10, 200), open);
    assert_eq!(one, run(TEXT.as_bytes(), &damage(10, 200), open));
    assert_ne!(one, run(TEXT.as_bytes(), &Damage { seed: 2, ..damage(10, 200) }, open));
}

#[test]
#[should_panic(expected = "damage does not end well: the first 0 of")]
fn records_lost_in_silence_are_found_out() {
    run(TEXT.as_bytes(), &damage(TEXT.len(), 0), |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let whole_lines = text.rfind('\n').map_or("", |end| &text[..=end]).replace("end\n", "");
        let quiet = whole_lines.replace("finding note odd\n", "");
        Ok(Box::new(MemoryTrace::parse(&quiet)?))
    });
}

#[test]
#[should_panic(expected = "damage does not end well: the first 0 of")]
fn a_panic_is_found_out() {
    run(TEXT.as_bytes(), &damage(10, 0), |bytes| {
        let text = if bytes.len() == TEXT.len() { "mark 1 2" } else { "crash a bug" };
        Ok(Box::new(MemoryTrace::parse(text)?))
    });
}

#[test]
#[should_panic(expected = "damage does not end well: the first 0 of")]
fn an_error_that_does_not_say_where_is_found_out() {
    run(TEXT.as_bytes(), &damage(10, 0), |bytes| {
        if bytes.len() == TEXT.len() { open(bytes) } else { Err(Error::malformed("somewhere")) }
    });
}

#[test]
fn any_batches_of_a_trace_in_memory_hold_the_same_records() {
    for seed in 0..4 {
        let trace = MemoryTrace::random(seed, 3, 1500);
        for shard in trace.shards() {
            fuzz::same_records(&trace, shard);
        }
    }
    let broken = MemoryTrace::parse("mark 0 1\nfinding error odd\nmark 0 2\nfault broken").unwrap();
    fuzz::same_records(&broken, &broken.shards()[0]);
}

#[test]
fn a_reading_tells_any_two_records_apart() {
    let read = |text: &str| {
        let trace = MemoryTrace::parse(text).unwrap();
        let scan = Scan::new(ShardId(0));
        let options = ReadingOptions { scan, max_records: 100, depth: Depth::Everything };
        Reading::of(&trace, &options).unwrap()
    };
    let base = read("thread 1 1\ninstr 0x10 2 =9090\nread 0x20 8");
    base.assert_same(&read("thread 1 1\ninstr 0x10 2 =9090\nread 0x20 8"), "the same text");
    for other in [
        "thread 2 1\ninstr 0x10 2 =9090\nread 0x20 8",
        "thread 1 1\ninstr 0x11 2 =9090\nread 0x20 8",
        "thread 1 1\ninstr 0x10 2 =9091\nread 0x20 8",
        "thread 1 1\ninstr 0x10 2 =9090\nread 0x21 8",
        "thread 1 1\ninstr 0x10 2 =9090\nwrite 0x20 8",
        "thread 1 1\ninstr 0x10 2 =9090 direct-jump\nread 0x20 8",
        "thread 1 1\ninstr 0x10 2 =9090 taken\nread 0x20 8",
    ] {
        assert_ne!(base.records, read(other).records, "{other}");
    }
    assert_eq!(read("mark 0 1\nfault broken").error.unwrap().message(), "broken");
}

#[test]
fn any_bytes_are_a_source() {
    for bytes in [&b""[..], b"plain bytes", b"\x1f\x8b\x08", b"PK\x03\x04", b"\x04\x22\x4d\x18", &[0; 10_000]]
    {
        fuzz::source(bytes);
    }
}
