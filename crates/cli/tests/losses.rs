//! Losses by damage are counted: in archives, compressed and bare files, equally by every verb, and nothing is invented.

use crate::damage::harm::{Harm, Repacked};
use crate::damage::{self, VERBS};
use quipu_testkit::fixtures;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

mod writers;

const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/drmemtrace");

/// Standard output, messages and exit code of a verb.
fn quipu(args: &[&str], trace: &Path) -> (String, String, i32) {
    let run = Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).arg(trace).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&run.stdout), text(&run.stderr), run.status.code().unwrap())
}

fn trace_of(folder: &str) -> Vec<u8> {
    let files = std::fs::read_dir(format!("{TRACES}/{folder}")).unwrap().map(|entry| entry.unwrap().path());
    let is_trace = |path: &std::path::PathBuf| path.to_string_lossy().contains("drmemtrace.tiny.");
    std::fs::read(files.into_iter().find(is_trace).unwrap()).unwrap()
}

/// Positions of the compressed data of each member of an archive.
fn members(packed: &[u8]) -> Vec<std::ops::Range<usize>> {
    let container = quipu::source::Source::from_bytes("archive", packed.to_vec()).container().unwrap();
    let members = container.members().iter().map(|member| {
        let at = member.packed_at as usize;
        let word = |at: usize| usize::from(u16::from_le_bytes([packed[at], packed[at + 1]]));
        let start = at + 30 + word(at + 26) + word(at + 28);
        start..start + member.packed_len.unwrap() as usize
    });
    members.collect()
}

/// The sum of instructions that `counts` prints, and the reported loss.
fn counted(trace: &Path) -> (u64, Value) {
    let (out, said, code) = quipu(&["analyze", "counts", "--json"], trace);
    assert_eq!(code, 1, "{said}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    let total = &answer["results"]["counts"]["total"]["instructions"];
    (total.as_u64().unwrap_or_else(|| panic!("{answer:#}")), answer["lost"].clone())
}

#[test]
fn a_flipped_bit_in_a_chunk_loses_that_chunk_in_every_verb() {
    let packed = trace_of("tiny.chunk1000");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.zip");
    // For the first and the last chunk, more is lost than ordinals show.
    for (chunk, data) in members(&packed).into_iter().enumerate().skip(1).take(4) {
        for part in 1..8 {
            let mut damaged = packed.clone();
            damaged[data.start + data.len() * part / 8] ^= 1 << part;
            std::fs::write(&path, damaged).unwrap();
            let (instrs, lost) = counted(&path);
            assert_eq!(
                (instrs, lost["instrs"].as_u64()),
                (5952 - 1000, Some(1000)),
                "chunk {chunk}: {lost:#}"
            );
            let n_records = lost["records"].as_u64().unwrap();
            let calls: [&[&str]; 5] = [
                &["analyze", "counts"],
                &["analyze", "schedule"],
                &["sim", "cache"],
                &["sim", "tlb"],
                &["check"],
            ];
            let said: Vec<String> = calls.iter().map(|call| quipu(call, &path).1).collect();
            let firsts: Vec<&str> = said.iter().map(|said| said.lines().next().unwrap_or("")).collect();
            assert!(firsts[0].starts_with("error: 1,000 instructions ("), "{}", firsts[0]);
            assert!(firsts.iter().all(|first| *first == firsts[0]), "{firsts:#?}");
            let (out, ..) = quipu(&["check", "--json"], &path);
            let check: Value = serde_json::from_str(&out).unwrap();
            assert_eq!(check["records"].as_u64(), Some(7846 - n_records), "chunk {chunk}");
            assert_eq!(check["lost"], lost);
        }
    }
}

#[test]
fn of_a_gzip_file_with_a_wrong_checksum_nothing_is_counted() {
    let packed = trace_of("tiny.gz");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.gz");
    let mut damaged = packed;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let (instrs, lost) = counted(&path);
    assert_eq!((instrs, &lost["records"]), (0, &Value::Null));
}

#[test]
fn zeros_and_garbage_in_a_bare_file_are_not_records() {
    let bare = trace_of("tiny.plain");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.memtrace");
    let at = bare.len() / 24 * 12;
    let before = quipu(&["analyze", "counts", "--json"], &{
        std::fs::write(&path, &bare[..at]).unwrap();
        path.clone()
    });
    let before: Value = serde_json::from_str(&before.0).unwrap();
    let before = before["results"]["counts"]["total"]["instructions"].as_u64().unwrap();
    for fill in [0, 0xee] {
        let mut damaged = bare.clone();
        damaged[at..at + 1200].fill(fill);
        std::fs::write(&path, damaged).unwrap();
        let (instrs, lost) = counted(&path);
        assert_eq!(instrs, before, "fill {fill:#x}");
        assert_eq!(lost["bytes"].as_u64(), Some((bare.len() - at) as u64), "fill {fill:#x}: {lost:#}");
    }
}

/// A damaged archive: its bytes, and the records and instructions before the damaged chunk and in it.
fn with_a_flipped_bit() -> (Vec<u8>, [u64; 2], [u64; 2]) {
    let packed = trace_of("tiny.chunk1000");
    let data = members(&packed)[2].clone();
    let mut damaged = packed;
    damaged[data.start + data.len() / 2] ^= 4;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.zip");
    std::fs::write(&path, &damaged).unwrap();
    let gap = &counted(&path).1["gaps"][0];
    let number = |key: &str| gap[key].as_u64().unwrap();
    let stopped = |key: &str| gap["stopped"][key].as_u64().unwrap();
    (damaged, [stopped("record"), stopped("instr")], [number("records"), number("instrs")])
}

#[test]
fn view_stops_where_the_checksum_is_wrong() {
    let (damaged, [n_good, _], _) = with_a_flipped_bit();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.zip");
    std::fs::write(&path, damaged).unwrap();
    let doubt = format!("error: after record {n_good}, what was printed is doubtful");
    let (out, said, code) = quipu(&["view"], &path);
    assert_eq!(code, 1, "{said}");
    let mut lines = said.lines();
    let first = lines.next().unwrap();
    assert!(first.starts_with("error: 1,000 instructions (") && first.ends_with("; printing stopped there"));
    assert_eq!(lines.next(), Some(&*doubt), "{said}");
    // The last record before the printer's final lines.
    let of_records = out.lines().take_while(|line| *line != "View tool results:");
    let last = of_records.last().unwrap();
    assert_eq!(last.split_whitespace().next().unwrap().parse(), Ok(n_good), "{last}");
    // Also for a pipe, although the records after the place were printed.
    let mut cat = Command::new("cat").arg(&path).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut view = Command::new(env!("CARGO_BIN_EXE_quipu"));
    let piped = view.args(["view", "-q", "-"]).stdin(cat.stdout.take().unwrap()).output().unwrap();
    cat.wait().unwrap();
    let said = String::from_utf8_lossy(&piped.stderr).into_owned();
    assert_eq!(piped.status.code(), Some(1), "{said}");
    assert!(said.lines().any(|line| line == doubt), "{said}");
}

#[test]
fn calls_after_one_that_is_left_twice_are_doubtful() {
    let folder = tempfile::tempdir().unwrap();
    let [text, trace, out] = ["text", "made.trace", "out.trace"].map(|name| folder.path().join(name));
    let calls = |n: u64| (0..n).map(|i| format!("glFoo(a = {i}) = {i}\n")).collect::<String>();
    let head = "quipu-text apitrace 1\nversion 6\nsemantic 6\nproperty \"process.name\" = \"made\"\nfunction 0 glFoo(a)\n";
    std::fs::write(&text, format!("{head}{}leave #3 () = 1\n{}", calls(30), calls(50))).unwrap();
    let (_, said, code) = quipu(&["assemble", "-q", "-o", trace.to_str().unwrap()], &text);
    assert_eq!(code, 0, "{said}");
    let target = out.to_str().unwrap();
    for call in [
        &["view"][..],
        &["convert", "--keep-damaged", "-o", target],
        &["convert", "--keep-damaged", "--container", "plain", "-o", target],
        &["trim", "--take", "1M", "--keep-damaged", "-o", target],
        &["edit", "--property", "a=b", "--keep-damaged", "-o", target],
    ] {
        let (_, said, code) = quipu(call, &trace);
        assert_eq!(code, 1, "{call:?}: {said}");
        assert!(said.contains("after record 30, what was "), "{call:?}: {said}");
        let _ = std::fs::remove_file(&out);
    }
}

/// Lines are compared once both traces have been read; calls are compared and shown while reading.
#[test]
fn a_comparison_that_damage_ends_says_what_came_of_it() {
    let traces = quipu_testkit::fixtures("apitrace");
    let damaged = traces.join("damaged/xs-antspotlight-fork-corrupt.trace");
    for (options, meaning, prints) in
        [(&[][..], "; nothing was compared", false), (&["--tool=python"], "; the rest was compared", true)]
    {
        let args = [&["as", "apitrace", "diff"], options, &[damaged.to_str().unwrap()]].concat();
        let (out, said, code) = quipu(&args, &traces.join("kinds.trace"));
        assert_eq!(code, 1, "{options:?}: {said}");
        assert!(said.contains(meaning), "{options:?}: {said}");
        assert_eq!(!out.is_empty(), prints, "{options:?}: {said}");
    }
}

#[test]
fn a_comparison_says_what_each_trace_loses() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old.trace", "new.trace"].map(|name| folder.path().join(name));
    let from = quipu_testkit::fixtures("apitrace").join("kinds.trace");
    let target = new.to_str().unwrap();
    let (_, said, code) = quipu(&["convert", "--container", "plain", "-o", target], &from);
    assert_eq!(code, 0, "{said}");
    let bytes = std::fs::read(&new).unwrap();
    let damaged = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at..at + 64].fill(0xff);
        bytes
    };
    std::fs::write(&old, damaged(bytes.len() / 3)).unwrap();
    std::fs::write(&new, damaged(bytes.len() * 2 / 3)).unwrap();
    // The place is as in a verb's report on the trace alone.
    let place = |path: &Path| {
        let (_, said, _) = quipu(&["report"], path);
        let lost = said.lines().next().unwrap().strip_prefix("error: ").unwrap();
        lost.rsplit_once("; ").unwrap().0.to_owned()
    };
    let losses = [place(&old), place(&new)];
    assert_ne!(losses[0], losses[1]);
    for (verb, meaning) in [
        (&["diff"][..], "the rest was compared"),
        (&["as", "apitrace", "diff", "--tool=python"], "the rest was compared"),
        (&["as", "apitrace", "diff"], "nothing was compared"),
    ] {
        let (_, said, code) = quipu(&[verb, &[old.to_str().unwrap()]].concat(), &new);
        let first = said.lines().next().unwrap_or_default();
        let expected = format!("error: old trace: {}; new trace: {}; {meaning}", losses[0], losses[1]);
        assert_eq!((code, first), (1, expected.as_str()), "{said}");
    }
    let (answer, _, code) = quipu(&["diff", "--json", old.to_str().unwrap()], &new);
    assert_eq!(code, 1);
    let lines = answer.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let readings: Vec<Value> = lines.filter(|line| line["op"] == "reading").collect();
    for (reading, (side, path)) in readings.iter().zip([("old", &old), ("new", &new)]) {
        assert_eq!((reading["trace"].as_str(), reading["complete"].as_bool()), (Some(side), Some(false)));
        let stopped = &reading["lost"]["gaps"][0]["stopped"];
        assert_eq!(stopped["file"].as_str(), path.to_str(), "{reading:#}");
        assert_eq!(reading["error"]["place"]["file"].as_str(), path.to_str(), "{reading:#}");
    }
    assert_eq!(readings.len(), 2);
    // For an undamaged trace, nothing is reported.
    let (_, said, code) = quipu(&["diff", old.to_str().unwrap()], &from);
    let first = format!("error: old trace: {}; the rest was compared", losses[0]);
    assert_eq!((code, said.lines().next()), (1, Some(first.as_str())), "{said}");
}

#[test]
fn a_loss_that_view_said_is_not_said_again_by_the_analyses_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.trace");
    let mut bytes = trace_of("tiny.plain");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 640].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let n_lost = |tools: &str| {
        let (_, said, code) = quipu(&["as", "drmemtrace", "-tool", tools, "-infile"], &path);
        assert_eq!(code, 1, "{tools}: {said}");
        let is_of_loss = |line: &&str| line.starts_with("error: ") && line.contains(" lost");
        said.lines().filter(is_of_loss).count()
    };
    for tools in ["basic_counts", "view", "view:basic_counts", "view:opcode_mix:basic_counts"] {
        assert_eq!(n_lost(tools), 1, "{tools}");
    }
}

#[test]
fn a_comparison_ends_with_1_if_either_trace_is_cut_within_its_first_call() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("whole.trace");
    let from = quipu_testkit::fixtures("apitrace").join("kinds.trace");
    let (_, said, code) = quipu(&["convert", "--container", "plain", "-o", plain.to_str().unwrap()], &from);
    assert_eq!(code, 0, "{said}");
    let whole = std::fs::read(&plain).unwrap();
    let cut = folder.path().join("cut.trace");
    // The header of properties differs in length between traces, so cuts are made all along the first events.
    let mut n_cut = 0;
    for at in (16..400).step_by(7) {
        std::fs::write(&cut, &whole[..at]).unwrap();
        let (_, said, code) = quipu(&["info", "-q"], &cut);
        if code == 2 {
            continue;
        }
        assert_eq!(code, 1, "{at}: {said}");
        n_cut += 1;
        for (old, new) in [(&cut, &cut), (&cut, &plain), (&plain, &cut)] {
            let (_, said, code) = quipu(&["diff", old.to_str().unwrap()], new);
            assert_eq!(code, 1, "{at}: {said}");
            assert!(said.contains("[apitrace/cut]"), "{at}: {said}");
        }
    }
    assert!(n_cut > 10, "{n_cut}");
}

#[test]
fn what_cannot_be_inflated_is_damage_for_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    for (name, head) in
        [("gz", &b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"[..]), ("zst", b"\x28\xb5\x2f\xfd\x20\x10")]
    {
        let path = folder.path().join(format!("bad.{name}"));
        std::fs::write(&path, [head, &[0xff; 200]].concat()).unwrap();
        let out = folder.path().join("out");
        let writing = ["-o", out.to_str().unwrap()];
        for verb in ["report", "info", "view", "check", "convert", "trim", "diff", "recover", "disassemble"] {
            let mut args = vec![verb];
            match verb {
                "convert" | "recover" | "disassemble" => args.extend(writing),
                "trim" => args.extend([writing[0], writing[1], "--take", "1"]),
                "diff" => args.push(path.to_str().unwrap()),
                _ => {}
            }
            let (_, said, code) = quipu(&args, &path);
            assert_eq!(code, 1, "{verb} {name}: {said}");
            assert!(said.contains("that cannot be inflated at all"), "{verb} {name}: {said}");
            assert!(said.starts_with("error: an unknown number of records is lost after"), "{verb}: {said}");
            assert!(!out.exists(), "{verb} {name}");
            if verb == "diff" || verb == "view" {
                continue;
            }
            args.push("--json");
            let (answer, _, code) = quipu(&args, &path);
            let answer: Value =
                serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{verb}: {error}"));
            assert_eq!((code, answer["error"]["kind"].as_str()), (1, Some("damaged")), "{verb}: {answer:#}");
            assert_eq!(answer["error"]["place"]["offset"], 0, "{verb}: {answer:#}");
            assert!(answer["lost"].is_object(), "{verb}: {answer:#}");
            let names_output = answer.get("output").map(Value::is_null);
            assert_eq!(names_output, args.contains(&"-o").then_some(true), "{verb}: {answer:#}");
        }
    }
}

#[test]
fn of_several_files_the_damaged_one_is_named_where_records_are_doubtful() {
    let folder = tempfile::tempdir().unwrap();
    quipu_testkit::copy_files(&quipu_testkit::fixtures("drmemtrace").join("thr"), folder.path());
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let file = files.filter(|path| path.to_string_lossy().ends_with(".trace.zip")).max().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x90;
    std::fs::write(&file, bytes).unwrap();
    let (_, said, code) = quipu(&["view", "-q"], folder.path());
    assert_eq!(code, 1, "{said}");
    let doubt = said.lines().find(|line| line.contains("what was printed is doubtful")).unwrap();
    assert!(doubt.contains(file.file_name().unwrap().to_str().unwrap()), "{doubt}");
    let (_, said, _) = quipu(&["view", "-q"], &file);
    assert!(said.contains("error: after record "), "{said}");
}

#[test]
fn of_a_damaged_first_chunk_every_verb_counts_the_instructions() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("flipped.zip"), folder.path().join("out.zip"));
    let packed = trace_of("tiny.chunk1000");
    let data = members(&packed)[0].clone();
    // The flipped bit comes after the header, whose entries still count.
    for part in [4, 7] {
        let mut damaged = packed.clone();
        damaged[data.start + data.len() * part / 8] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        for call in [
            &["report"][..],
            &["view"],
            &["analyze", "schedule"],
            &["sim", "cache"],
            &["check"],
            &["convert", "-o", out.to_str().unwrap()],
        ] {
            let (_, said, code) = quipu(call, &path);
            assert_eq!(code, 1, "{call:?}: {said}");
            assert!(
                said.starts_with("error: 1,000 instructions (1,303 records) are lost"),
                "{call:?}: {said}"
            );
            // Later chunks use the thread and version from the header.
            assert!(!said.contains("drmemtrace/wrong-thread"), "{call:?}: {said}");
            assert!(!said.contains("drmemtrace/odd-entries"), "{call:?}: {said}");
        }
    }
}

#[test]
fn damage_that_opening_finds_is_followed_to_what_it_loses() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("damaged.trace.zip"), folder.path().join("out"));
    let packed = trace_of("tiny.chunk1000");
    let first = members(&packed)[0].clone();
    let mut flipped = packed.clone();
    // No deflate block begins like this.
    flipped[first.start..first.start + 64].fill(0xff);
    let cut = packed[..packed.len() * 2 / 3].to_vec();
    for (what, damaged) in [("no end record", cut), ("no header", flipped)] {
        std::fs::write(&path, damaged).unwrap();
        let lost = |call: &[&str]| {
            let (_, said, code) = quipu(call, &path);
            assert_eq!((code, out.exists()), (1, false), "{what}: {call:?}: {said}");
            let line = said.lines().find(|line| line.starts_with("error: ")).unwrap();
            let (lost, _) = line.rsplit_once("; ").unwrap_or_else(|| panic!("{what}: {call:?}: {said}"));
            lost.to_owned()
        };
        let read = lost(&["analyze", "counts"]);
        assert!(read.contains(" lost"), "{read}");
        for call in [
            &["info"][..],
            &["convert", "--to", "cacheray", "-o", out.to_str().unwrap()],
            &["convert", "-o", out.to_str().unwrap()],
        ] {
            assert_eq!(lost(call), read, "{what}: {call:?}");
        }
        // `info --quick` reads headers only, and reports no loss.
        let (_, said, code) = quipu(&["info", "--quick"], &path);
        assert_eq!((code, said.contains(" lost")), (1, false), "{what}: {said}");
    }
}

#[test]
fn a_checksum_at_the_end_makes_all_doubtful_that_was_printed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("wrong.trace.lz4"), folder.path().join("out"));
    // One frame with a checksum for all of it, in uncompressed blocks.
    let mut records = trace_of("tiny.plain");
    let some = records[records.len() / 24 * 12..].to_vec();
    while records.len() < 9 << 20 {
        records.extend_from_slice(&some);
    }
    let entry = records.len() / 24 * 12;
    records[entry..entry + 2].copy_from_slice(&0x9010u16.to_le_bytes());
    let mut file = vec![0x04, 0x22, 0x4d, 0x18, 0x64, 0x70, 0xb9];
    for block in records.chunks(4 << 20) {
        file.extend((0x8000_0000 | u32::try_from(block.len()).unwrap()).to_le_bytes());
        file.extend_from_slice(block);
    }
    file.extend([0; 4]);
    file.extend([1, 2, 3, 4]);
    std::fs::write(&path, file).unwrap();
    let (_, said, code) = quipu(&["view", "--kind", "version"], &path);
    assert!(code == 1 && said.contains("unknown-type") && said.contains("xxHash-32"), "{said}");
    assert!(said.contains("after record 0, what was printed is doubtful"), "{said}");
    // A conversion that writes nothing reports no findings in records whose checksum is wrong.
    let (_, said, code) = quipu(&["convert", "-o", out.to_str().unwrap()], &path);
    assert!(code == 1 && !said.contains("unknown-type") && said.contains("xxHash-32"), "{said}");
}

#[test]
fn a_checksum_at_the_end_makes_lines_doubtful_that_precede_others_which_are_odd() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("flipped.lackey.gz"), folder.path().join("out.quipu"));
    let mut bytes = std::fs::read(fixtures("lackey").join("nodes.lackey.gz")).unwrap();
    bytes[3417] ^= 0x41;
    std::fs::write(&path, bytes).unwrap();
    // Invalid addresses come long after the first wrong row, and the checksum comes last.
    let (_, said, code) = quipu(&["view"], &path);
    assert!(code == 1 && said.contains("[lackey/number]") && said.contains("CRC-32"), "{said}");
    assert!(said.contains("error: after record 0, what was printed is doubtful"), "{said}");
    let (_, said, code) = quipu(&["convert", "-o", out.to_str().unwrap()], &path);
    assert_eq!((code, out.exists()), (1, false), "{said}");
    let lost = said.lines().find(|line| line.contains(" lost ")).unwrap();
    assert!(lost.contains("offset 0x0, record 0; nothing was written"), "{said}");
    assert!(!said.contains("[lackey/"), "{said}");
}

/// Entries of drmemtrace as bytes: type, size, value.
fn entries(all: &[(u16, u16, u64)]) -> Vec<u8> {
    let bytes = |(kind, size, value): &(u16, u16, u64)| {
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
    };
    all.iter().flat_map(bytes).collect()
}

#[test]
fn what_follows_a_clock_reading_of_all_ones_is_in_every_answer() {
    const NONE: u64 = u64::MAX;
    let head = [(25, 0, 7), (28, 12, 7), (28, 9, 0xe40), (22, 4, 10), (24, 4, 1)];
    let sizes = [(28, 10, 64), (28, 20, 1000), (28, 18, 4096)];
    let instrs = [
        [(28, 2, 1000), (28, 3, 0), (47, 1, 0x90), (10, 1, 0x1000)],
        [(28, 2, NONE), (28, 3, 0), (47, 1, 0x90), (10, 1, 0x1001)],
    ];
    let thread = [&head[..], &sizes, &instrs[0], &instrs[1], &[(23, 4, 10), (26, 0, 0)]].concat();
    // A core that never ran.
    let core = [(25, 0, 7), (28, 12, 7), (28, 9, 0x1_0e40), (22, 4, NONE), (24, 4, NONE), (28, 2, NONE)];
    let idle = [(28, 3, NONE), (28, 33, 0), (28, 33, 0), (28, 33, 0), (26, 0, 0)];
    let core = [&core[..], &idle].concat();
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, n_records, n_instrs) in
        [("m.trace", entries(&thread), 12, 2), ("drmemtrace.core.000000.trace", entries(&core), 7, 0)]
    {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let said = |args: &[&str]| {
            let (out, errors, code) = quipu(args, &path);
            assert_eq!(code, 0, "{name} {args:?}: {errors}");
            out
        };
        assert_eq!(said(&["view", "--json"]).lines().count(), n_records, "{name}");
        let n_headers = if n_instrs > 0 { 5 } else { 2 };
        assert_eq!(
            said(&["view", "--json", "--since", "1"]).lines().count(),
            n_records - n_headers,
            "{name}"
        );
        let results = |args: &[&str]| -> Value {
            let answer: Value = serde_json::from_str(&said(args)).unwrap();
            answer["results"].clone()
        };
        let counted = &results(&["analyze", "counts", "--json"])["counts"]["total"]["instructions"];
        assert_eq!(counted.as_u64(), Some(n_instrs), "{name}");
        let simulated = &results(&["sim", "cache", "--json"])["caches"]["accesses"];
        assert_eq!(simulated.as_u64(), Some(n_instrs), "{name}");
        let out = folder.path().join("out.trace");
        let trimmed = ["trim", "--since", "1", "-o", out.to_str().unwrap(), "--force"];
        said(&trimmed);
        let n_trimmed = quipu(&["view", "--json"], &out).0.lines().count();
        assert!(n_trimmed >= n_records - n_headers, "{name}: {n_trimmed}");
    }
}

/// Number of records before a chunk, from its first entry.
fn ordinal_of(packed: &[u8], chunk: usize) -> u64 {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(packed)).unwrap();
    let mut entry = [0; 12];
    std::io::Read::read_exact(&mut archive.by_index(chunk).unwrap(), &mut entry).unwrap();
    u64::from_le_bytes(entry[4..].try_into().unwrap())
}

/// A chunk that lacks records is detected by its successor's ordinal, so all of its records are doubtful.
#[test]
fn records_since_the_ordinals_last_agreed_are_doubtful() {
    let whole = trace_of("tiny.chunk1000");
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("gap.zip"), folder.path().join("out.zip"));
    let target = out.to_str().unwrap();
    for how in [Repacked::Gap, Repacked::Repetition] {
        let damaged = Harm::Repacked(how).done_to(&whole).unwrap();
        let middle = (members(&damaged).len() - 1) / 2;
        let n_good = ordinal_of(&whole, middle);
        std::fs::write(&path, &damaged).unwrap();
        let (_, said, _) = quipu(&["view"], &path);
        assert!(said.contains(&format!("after record {n_good}, what was printed is doubtful")), "{said}");
        // Without chunks there are no chunk footers; files that are written in parallel may begin to doubt slightly earlier.
        let n_bare = n_good - middle as u64;
        for (call, most, least) in [
            (&["convert"][..], n_good, n_good),
            (&["trim", "--take", "10M"], n_good, n_good),
            (&["convert", "--container", "gzip"], n_bare, n_bare),
            (&["merge"], n_bare, n_bare - 8),
        ] {
            let call = [call, &["--keep-damaged", "--force", "--json", "-o", target]].concat();
            let (answer, said, code) = quipu(&call, &path);
            let answer: Value = serde_json::from_str(&answer).unwrap();
            let from = answer["files"][0]["doubtful_from"].as_u64().unwrap();
            assert!(code == 1 && (least..=most).contains(&from), "{call:?}: {code} {from} {said}");
        }
        let call = ["convert", "--to", "cacheray", "--keep-damaged", "--force", "--json", "-o", target];
        let (answer, said, _) = quipu(&call, &path);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let from = answer["doubtful_from"].as_u64().unwrap();
        assert!(from > 0 && from < n_good, "{from}: {said}");
    }
}

/// Like `counts`, `schedule-files` passes on entries uncounted.
#[test]
fn schedule_files_stop_where_the_other_verbs_do() {
    let folder = tempfile::tempdir().unwrap();
    let name = "drmemtrace.tiny.1.trace.zip";
    let damaged = Harm::Repacked(Repacked::Gap).done_to(&trace_of("tiny.chunk1000")).unwrap();
    std::fs::write(folder.path().join(name), damaged).unwrap();
    std::fs::write(folder.path().join("serial_schedule.bin"), [1; 32]).unwrap();
    let errors = |call: &[&str]| {
        let (_, said, code) = quipu(call, folder.path());
        assert_eq!(code, 1, "{call:?}: {said}");
        let errors = said.lines().filter(|line| line.starts_with("error: ") && line.contains(name));
        errors.map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = errors(&["analyze", "counts"]);
    assert!(!expected.is_empty());
    assert_eq!(errors(&["analyze", "schedule-files"]), expected);
}

/// DynamoRIO's tools count a copy of a file, too; but every verb reports it.
#[test]
fn a_copy_of_a_thread_s_file_is_said_by_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixtures("drmemtrace").join("thr");
    quipu_testkit::copy_files(&trace, folder.path());
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let file = files.into_iter().find(|path| path.to_str().unwrap().contains(".trace")).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap().replacen("drmemtrace", "drmemtrace (copy)", 1);
    std::fs::copy(&file, folder.path().join(&name)).unwrap();
    let out = tempfile::tempdir().unwrap();
    let mut n_said = 0;
    for (verb, call) in VERBS {
        let Some(call) = call else { continue };
        let target = out.path().join(verb);
        let args = call
            .iter()
            .map(|arg| damage::word(arg, folder.path().to_str().unwrap(), target.to_str().unwrap()));
        let output = Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap();
        if output.status.code() == Some(2) {
            // The verb does not support such traces.
            continue;
        }
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        // The schedule files do not contain the copy either, so some verbs exit with 1.
        let is_said =
            said.lines().any(|line| line.contains(&name) && line.contains("drmemtrace/repeated-file"));
        assert!(matches!(output.status.code(), Some(0 | 1)) && is_said, "{verb}: {said}");
        n_said += 1;
    }
    assert!(n_said > 9, "{n_said}");
}

#[test]
fn a_stream_that_is_cut_within_its_first_frame_is_damaged_for_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(fixtures("stream").join("two-producers.quipu")).unwrap();
    let path = folder.path().join("cut.quipu");
    for (n_left, damaged) in [(83, 0), (119, 0), (140, 0), (140, 40)] {
        let mut bytes = whole[..n_left].to_vec();
        bytes[damaged] ^= u8::from(damaged > 0);
        std::fs::write(&path, bytes).unwrap();
        let mut n_told = 0;
        for call in [
            &["report"][..],
            &["view"],
            &["analyze", "schedule"],
            &["check"],
            &["info"],
            &["convert", "-o", folder.path().join("out").to_str().unwrap()],
        ] {
            let (out, said, code) = quipu(call, &path);
            assert_eq!(code, 1, "{call:?} of {n_left} bytes: {out}{said}");
            n_told += usize::from(said.contains("cut.quipu: offset 0x0: "));
        }
        assert!(n_told >= 5, "{n_told} verbs name the place");
    }
}
