//! Streams that carry traces of other formats, tested from outside: reading, writing, and damage.

use quipu_testkit::fixtures;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn quipu(arguments: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_quipu")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A trace, and the stream that carries it.
fn carried(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let original = fixtures("").join(name);
    let stream = folder.join(format!("{}.quipu", name.replace('/', "-")));
    let (code, _, said) = quipu(&["convert", path(&original), "-o", path(&stream), "-q"]);
    assert_eq!(code, Some(0), "{name}: {said}");
    (original, stream)
}

#[test]
fn records_are_printed_alike() {
    let folder = tempfile::tempdir().unwrap();
    for name in
        ["drmemtrace/tiny.func", "apitrace/kinds.trace", "cacheray/shapes.trace", "lackey/mixed.lackey"]
    {
        let (original, stream) = carried(folder.path(), name);
        for arguments in [&["--take", "300"][..], &["--skip", "20", "--take", "30", "--json"]] {
            let text = |of: &Path| {
                let (code, text, _) = quipu(&[&["view", path(of)], arguments].concat());
                (code, text)
            };
            assert_eq!(text(&stream), text(&original), "{name}");
        }
    }
}

#[test]
fn a_tracer_s_raw_files_stay_readable() {
    let folder = tempfile::tempdir().unwrap();
    let (original, stream) = carried(folder.path(), "drmemtrace-raw/threadsig.aarch64");
    let text = |of: &Path| quipu(&["view", path(of), "--take", "100"]);
    assert_eq!(text(&stream).1, text(&original).1);
    assert_eq!(text(&stream).0, Some(0));
    // Also with a relative name.
    let back = code_within(folder.path(), &["convert", path(&stream), "-o", "back"]);
    assert_eq!(back, Some(0));
    let words = |of: &Path| quipu(&["view", "--json", path(of)]).1;
    assert_eq!(words(&folder.path().join("back")), words(&original));
}

/// The exit code of a command line that runs in a folder.
fn code_within(folder: &Path, args: &[&str]) -> Option<i32> {
    let mut quipu = std::process::Command::new(env!("CARGO_BIN_EXE_quipu"));
    quipu.current_dir(folder).args(args).output().unwrap().status.code()
}

#[test]
fn what_is_made_of_a_carried_trace_is_a_stream_or_a_file_as_its_name_says() {
    let folder = tempfile::tempdir().unwrap();
    for (name, arguments) in [
        ("drmemtrace/tiny.chunk1000", &["trim", "--instrs", "1000..3000"][..]),
        ("drmemtrace/thr", &["filter", "--drop", "prefetch"]),
        ("apitrace/kinds.trace", &["trim", "--calls", "0-20"]),
    ] {
        let (original, stream) = carried(folder.path(), name);
        let made = |of: &Path, to: &str| {
            let to = folder.path().join(format!("{}.{to}", name.replace('/', "-")));
            let (code, _, said) =
                quipu(&[&arguments[..1], &[path(of), "-o", path(&to), "-q"], &arguments[1..]].concat());
            assert_eq!(code, Some(0), "{name} {to:?}: {said}");
            to
        };
        let view = |of: &Path| quipu(&["view", path(of)]).1;
        let wanted = view(&made(&original, "own"));
        assert!(!wanted.is_empty());
        for (from, to) in [(&stream, "back"), (&stream, "again.quipu"), (&original, "first.quipu")] {
            let made = made(from, to);
            assert!(view(&made) == wanted, "{name}: {to}");
            let is_stream = quipu(&["describe", path(&made)]).0 == Some(0);
            assert_eq!(is_stream, to.ends_with("quipu"), "{name}: {to}");
        }
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn records_of_another_format_may_go_into_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let original = fixtures("cacheray").join("shapes.trace");
    let to = |name: &str| {
        let output = folder.path().join(name);
        let (code, said, error) =
            quipu(&["convert", path(&original), "-o", path(&output), "--to", "drmemtrace", "--json"]);
        assert_eq!(code, Some(0), "{error}");
        (output, said)
    };
    let ((file, of_file), (stream, of_stream)) = (to("own.zip"), to("carried.quipu"));
    assert_eq!(of_stream, of_file.replace("own.zip", "carried.quipu"));
    assert_eq!(quipu(&["view", path(&stream)]).1, quipu(&["view", path(&file)]).1);
    assert_eq!(quipu(&["describe", path(&stream)]).0, Some(0));
}

#[test]
fn check_tells_of_the_carrier_and_of_what_it_carries() {
    let folder = tempfile::tempdir().unwrap();
    let (_, stream) = carried(folder.path(), "drmemtrace/tiny.chunk1000");
    let check = |of: &Path, more: &[&str]| {
        let (code, out, said) = quipu(&[&["check", "--json", path(of)], more].concat());
        (code, serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{error}: {out} {said}")))
    };
    let (code, answer) = check(&stream, &[]);
    assert_eq!((code, &answer["carrier"]["findings"]), (Some(0), &Value::Array(Vec::new())));
    let mut bytes = fs::read(&stream).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    let damaged = folder.path().join("damaged.quipu");
    fs::write(&damaged, &bytes).unwrap();
    let (code, answer) = check(&damaged, &[]);
    assert_eq!(code, Some(1));
    let place = |findings: &Value, rule: &str| {
        let all = findings.as_array().unwrap().iter();
        let found = all.filter(|finding| finding["rule"] == rule).map(|finding| finding["place"].clone());
        found.collect::<Vec<Value>>()
    };
    let of_carrier = place(&answer["carrier"]["findings"], "stream/payload-crc");
    let offset = of_carrier[0]["offset"].as_u64().unwrap();
    assert!(offset < middle as u64 && of_carrier.len() == 1, "{answer}");
    assert!(of_carrier[0]["file"].as_str().unwrap().ends_with("damaged.quipu"), "{answer}");
    // The reader of the trace has met the fault, too: it is reported once, with its place in both.
    let of_body = place(&answer["findings"], "stream/payload-crc");
    assert!(of_body.len() == 1 && of_body[0]["offset"] == of_carrier[0]["offset"], "{answer}");
    // Rules of both formats can be selected.
    let (code, answer) = check(&damaged, &["--rule", "stream/payload-crc"]);
    let all = place(&answer["findings"], "stream/payload-crc");
    assert!(code == Some(1) && all.len() == 1, "{answer}");
    assert_eq!(
        (answer["findings"].as_array().unwrap().len(), &all[0]["offset"]),
        (1, &of_carrier[0]["offset"])
    );
    let (code, answer) = check(&damaged, &["--rule", "drmemtrace/unknown-type"]);
    assert_eq!((code, answer.get("carrier")), (Some(0), None), "{answer}");
    assert_eq!(quipu(&["check", path(&damaged), "--rule", "no-such-rule"]).0, Some(2));
}

#[test]
fn damage_of_the_carrier_is_damage_of_the_trace_in_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    for name in
        ["drmemtrace/thr", "apitrace/glxgears-300.trace", "cacheray/threads.trace", "din/nodes.din.gz"]
    {
        let (_, stream) = carried(folder.path(), name);
        let mut bytes = fs::read(&stream).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        let damaged = folder.path().join("damaged.quipu");
        fs::write(&damaged, &bytes).unwrap();
        for verb in ["view", "check", "report"] {
            let (code, _, said) = quipu(&[verb, path(&damaged)]);
            // In a trace whose only frame is damaged, nothing is recognised.
            assert!(matches!(code, Some(1 | 2)), "{name}: {verb}: {code:?}: {said}");
        }
    }
}

#[test]
fn describe_lists_what_is_inside() {
    let folder = tempfile::tempdir().unwrap();
    let (_, stream) = carried(folder.path(), "drmemtrace/tiny.func");
    let (code, out, _) = quipu(&["describe", "--json", path(&stream)]);
    let answer: Value = serde_json::from_str(&out).unwrap();
    let inside = &answer["carries"][0];
    assert_eq!((code, inside["format"].as_str()), (Some(0), Some("drmemtrace")));
    let names: Vec<&str> =
        inside["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"funclist.log") && names.iter().any(|name| name.contains(".trace")), "{names:?}");
    let (_, text, _) = quipu(&["describe", path(&stream)]);
    assert!(text.starts_with("carries a trace: drmemtrace\n"), "{text}");
}

#[test]
fn a_stream_of_rows_stays_one_with_its_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let original = fixtures("stream").join("two-producers.quipu");
    let copy = folder.path().join("copy.quipu");
    let (code, _, said) = quipu(&["convert", path(&original), "-o", path(&copy), "-q"]);
    assert_eq!(code, Some(0), "{said}");
    for verb in ["describe", "view"] {
        let text = |of: &Path| quipu(&[verb, path(of)]).1;
        assert_eq!(text(&copy), text(&original), "{verb}");
    }
    assert_eq!(quipu(&["check", path(&copy)]).0, Some(0));
}

#[test]
fn nothing_is_left_out_where_a_stream_without_rows_is_split() {
    let folder = tempfile::tempdir().unwrap();
    for (name, kind) in [("agg-rows", 6), ("dtrace-printf", 2), ("arrow-body", 2)] {
        let original = fixtures("stream").join(format!("{name}.quipu"));
        let parts = folder.path().join(name);
        let (code, _, said) = quipu(&["split", "--format", "stream", path(&original), "-o", path(&parts)]);
        assert_eq!(code, Some(0), "{name}: {said}");
        let bodies = |bytes: &[u8]| {
            let starts = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"\xF5QPU1\r\n\x1A"));
            starts.filter(|at| bytes[at + 9] == kind).count()
        };
        let files = fs::read_dir(&parts).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
        let n: usize = files.map(|bytes| bodies(&bytes)).sum();
        assert!(n > 0 && n == bodies(&fs::read(&original).unwrap()), "{name}: {n}");
        // A verb may replace its own output, and nothing else.
        let again = ["split", "--format", "stream", path(&original), "-o", path(&parts), "--force"];
        assert_eq!(quipu(&again).0, Some(0), "{name}");
        fs::write(parts.join("notes.txt"), "mine").unwrap();
        let (code, _, said) = quipu(&again);
        assert!(code == Some(2) && said.contains("notes.txt"), "{name}: {said}");
    }
}

#[test]
fn copies_keep_what_a_stream_says_of_its_own_losses() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["minimal", "clock-blob-pad", "unknown-kinds"] {
        let original = fixtures("stream").join(format!("{name}.quipu"));
        let copy = folder.path().join(format!("{name}.quipu"));
        let (code, _, said) = quipu(&["convert", path(&original), "-o", path(&copy)]);
        assert_eq!(code, Some(0), "{name}: {said}");
        for verb in ["view", "describe", "check"] {
            let (code, text, _) = quipu(&[verb, path(&copy)]);
            let wanted = quipu(&[verb, path(&original)]);
            assert_eq!(code, wanted.0, "{name}: {verb}");
            assert!(verb == "check" || text == wanted.1, "{name}: {verb}: {text}");
        }
    }
}

#[test]
fn a_file_that_is_damaged_itself_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let original = fixtures("cacheray").join("mt-interleaved.cut.trace");
    let (stream, back) = (folder.path().join("cut.quipu"), folder.path().join("back.trace"));
    // Bytes are carried regardless of their contents; only readers report what is wrong with them.
    let convert = ["convert", path(&original), "-o", path(&stream)];
    let (code, _, said) = quipu(&convert);
    assert!(code == Some(1) && said.contains("lost") && !stream.exists(), "{said}");
    let (code, _, said) = quipu(&[&convert[..], &["--keep-damaged"]].concat());
    assert!(code == Some(1) && said.contains("lost") && stream.exists(), "{said}");
    let (code, _, said) = quipu(&["convert", path(&stream), "-o", path(&back)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(fs::read(&back).unwrap() == fs::read(&original).unwrap());
}

/// Frame kinds.
const DATA: u8 = 2;
const INDEX: u8 = 4;
const END: u8 = 5;

/// The middle of each payload of frames of these kinds, located by the headers as documented for the format.
fn payloads(bytes: &[u8], kinds: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        let stored = u32::from_le_bytes(bytes[at + 16..at + 20].try_into().unwrap()) as usize;
        let begin = at + 8 * usize::from(bytes[at + 11]);
        if kinds.contains(&bytes[at + 9]) {
            found.push(begin + stored / 2);
        }
        at = (begin + stored).next_multiple_of(8) + 8;
    }
    found
}

#[test]
fn verbs_agree_on_what_damage_of_a_frame_loses() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("damaged.quipu");
    let output = folder.path().join("output.quipu");
    let calls: &[&[&str]] = &[
        &["check", "--json"],
        &["info", "--json"],
        &["view", "--take", "5"],
        &["report", "--json"],
        &["convert", "-o", path(&output), "--force", "--json"],
    ];
    for name in ["drmemtrace/tiny.gz", "apitrace/kinds.trace", "cacheray/shapes.trace", "lackey/mixed.lackey"]
    {
        let (_, stream) = carried(folder.path(), name);
        let whole = fs::read(&stream).unwrap();
        // INDEX and END contain nothing of the trace; the only DATA frame contains all of it.
        for (kinds, wanted) in [(&[INDEX, END][..], 0), (&[DATA], 1)] {
            let places = payloads(&whole, kinds);
            assert!(!places.is_empty(), "{name}");
            for place in places {
                let mut bytes = whole.clone();
                bytes[place] ^= 0x21;
                fs::write(&damaged, &bytes).unwrap();
                for call in calls {
                    let (code, out, said) = quipu(&[*call, &[path(&damaged)]].concat());
                    assert_eq!(code, Some(wanted), "{name}: {call:?}: {out}{said}");
                    let is_json = call.contains(&"--json");
                    let is_object = serde_json::from_str::<Value>(&out).is_ok();
                    assert_eq!(is_object, is_json, "{name}: {call:?}: {out}{said}");
                    assert!(wanted == 0 || said.contains("lost"), "{name}: {call:?}: {said}");
                }
            }
        }
    }
}

#[test]
fn the_size_on_disk_is_that_of_the_frames() {
    let folder = tempfile::tempdir().unwrap();
    for name in
        ["drmemtrace/tiny.func", "apitrace/kinds.trace", "cacheray/shapes.trace", "prism/prodcons.prism"]
    {
        let (_, stream) = carried(folder.path(), name);
        let size = fs::metadata(&stream).unwrap().len();
        let (_, out, said) = quipu(&["info", "--json", path(&stream)]);
        let answer: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {said}"));
        let on_disk = answer["packed_bytes"].as_u64().unwrap();
        assert!((size / 2..=size).contains(&on_disk), "{name}: {on_disk} of {size}");
    }
}

#[test]
fn what_was_split_and_merged_again_is_the_stream_that_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut n_whole = 0;
    for entry in fs::read_dir(fixtures("stream")).unwrap() {
        let stream = entry.unwrap().path();
        if stream.extension().is_none_or(|end| end != "quipu") {
            continue;
        }
        let (parts, merged) = (folder.path().join("parts"), folder.path().join("merged.quipu"));
        let json = |args: &[&str]| -> Option<Value> {
            let (code, out, _) = quipu(args);
            (code == Some(0)).then(|| serde_json::from_str(&out).unwrap())
        };
        let Some(whole) = json(&["check", "--json", "--format", "stream", path(&stream)]) else { continue };
        let split = ["split", "--json", "--format", "stream", path(&stream), "-o", path(&parts), "--force"];
        let Some(split) = json(&split) else { continue };
        // Bodies of other formats are copied by the counts in their frames, without being read.
        let is_of_rows = whole["records"] != 0;
        assert!(!is_of_rows || split["records"] == whole["records"], "{}", stream.display());
        let merge = ["merge", "--format", "stream", path(&parts), "-o", path(&merged), "--force"];
        let (code, _, said) = quipu(&merge);
        assert_eq!(code, Some(0), "{}: {said}", stream.display());
        let (code, out, said) = quipu(&["check", "--json", "--format", "stream", path(&merged)]);
        assert_eq!(code, Some(0), "{}: {out} {said}", stream.display());
        let again: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(again["records"], whole["records"], "{}", stream.display());
        fs::remove_dir_all(&parts).unwrap();
        n_whole += 1;
    }
    assert!(n_whole >= 10, "{n_whole}");
}

#[test]
fn streams_of_several_hosts_are_merged_and_open_pairs_counted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, id: u8, times: [u64; 3], uncertainty_ns: u64| {
        let mut options = quipu_stream::write::Options::new("host");
        options.producer.uuid = [id; 16];
        let writer = quipu_stream::write::Writer::new(Vec::new(), options);
        let clock = quipu_stream::wire::record::Clock {
            id: 1,
            ticks_per_s: 1_000_000_000,
            unix_ns: Some(0),
            uncertainty_ns: Some(uncertainty_ns),
            ..Default::default()
        };
        writer.define(clock).unwrap();
        let spec = quipu_stream::spec::SchemaSpec::new("tick").field("n", quipu_stream::spec::Ty::Uint(64));
        let schema = writer.schema(&spec).unwrap();
        let mut stream = writer.stream(1).unwrap();
        for time in times {
            stream.row(schema, time, 8, |body| body.put(0, &time.to_le_bytes())).unwrap();
        }
        stream.finish().unwrap();
        writer.finish().unwrap();
        fs::write(at(name), writer.into_inner().unwrap()).unwrap();
    };
    write("a.quipu", 1, [1000, 2000, 3000], 100);
    write("b.quipu", 2, [2500, 3500, 4500], 100);
    write("far.quipu", 3, [1_000_000, 1_000_001, 1_000_002], 100);
    let run = |args: &[&str]| {
        let mut quipu = Command::new(env!("CARGO_BIN_EXE_quipu"));
        let done = quipu.current_dir(folder.path()).args(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
    };
    let (code, out, errors) = run(&["merge", "a.quipu", "b.quipu", "-o", "ab.quipu"]);
    assert!(code == 0 && out.contains("records  6"), "{out}{errors}");
    assert!(
        errors.contains("1 pair of frames of different producers overlap, the first at offset 0x"),
        "{errors}"
    );
    let (code, _, errors) = run(&["merge", "a.quipu", "far.quipu", "-o", "far-a.quipu"]);
    assert!(code == 0 && !errors.contains("overlap"), "{errors}");
    let (code, out, _) = run(&["view", "ab.quipu"]);
    let times: Vec<&str> = out.lines().filter_map(|line| line.split("n=").nth(1)).collect();
    assert_eq!((code, times), (0, vec!["1000", "2000", "2500", "3000", "3500", "4500"]), "{out}");
    // Files of other formats are merged like those of one folder, or an error explains how to do it.
    fs::write(at("t.din"), "0 10\n").unwrap();
    let (code, _, errors) = run(&["merge", "a.quipu", "t.din", "-o", "no.quipu"]);
    assert!(code == 2 && errors.contains("put them into a folder"), "{errors}");
    let (code, _, errors) = run(&["merge", "a.quipu", "b.quipu", "-o", "b.quipu", "--force"]);
    assert_eq!(code, 2, "{errors}");
}

#[test]
fn a_trace_of_a_header_alone_goes_into_a_stream_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let [stream, back] = ["h.quipu", "h2.trace"].map(|name| folder.path().join(name));
    let from = fixtures("apitrace").join("header-only-2-bytes.trace");
    for (from, to) in [(&from, &stream), (&stream, &back)] {
        let done = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .arg("convert")
            .arg(from)
            .arg("-o")
            .arg(to)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let (_, out, said) = quipu(&["check", path(&back)]);
    assert!((out + &said).contains("[apitrace/empty]"));
}

#[test]
fn verbs_that_are_not_for_what_damage_left_say_the_damage_first() {
    let folder = tempfile::tempdir().unwrap();
    let [cut, out] = ["cut.prism", "out"].map(|name| folder.path().join(name));
    let whole = fixtures("prism").join("prodcons.prism");
    fs::write(&cut, &fs::read(&whole).unwrap()[..9108]).unwrap();
    let calls: [&[&str]; 5] = [
        &["analyze", "workload", path(&cut)],
        &["sim", "cache", path(&cut)],
        &["sim", "sweep", path(&cut)],
        &["diff", path(&cut), path(&whole)],
        &["run", path(&cut), "-o", path(&out)],
    ];
    for call in calls {
        let (code, _, said) = quipu(call);
        assert_eq!(code, Some(1), "{call:?}: {said}");
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(errors[0].contains("10,308 bytes are lost"), "{call:?}: {said}");
        assert!(errors[1].contains("offset 0xa0: truncated frame"), "{call:?}: {said}");
    }
    // For a tool that does not exist, damage is not the reason.
    assert_eq!(quipu(&["analyze", "nosuch", path(&cut)]).0, Some(2));
}

/// The description that makes rows accesses is in a frame of its own, and only readers of the rows miss it.
#[test]
fn what_lacks_a_lens_since_descriptions_are_lost_says_the_loss_first() {
    let folder = tempfile::tempdir().unwrap();
    let [flipped, out] = ["flipped.quipu", "out.trace"].map(|name| folder.path().join(name));
    for name in ["minimal", "json-rows", "open-frames", "arrow-body"] {
        let whole = fixtures("stream").join(name).with_extension("quipu");
        let mut bytes = fs::read(&whole).unwrap();
        bytes[0] ^= 0x41;
        fs::write(&flipped, bytes).unwrap();
        let (code, _, said) = quipu(&["report", path(&flipped)]);
        let lost = said.lines().find(|line| line.contains(" lost ")).unwrap_or_default();
        let lost = lost.rsplit_once("; ").unwrap_or_default().0;
        assert!(code == Some(1) && !lost.is_empty(), "{name}: {said}");
        let calls: [&[&str]; 4] = [
            &["analyze", "working-set", path(&flipped)],
            &["sim", "cache", path(&flipped)],
            &["sim", "sweep", path(&flipped)],
            &["convert", "--to", "cacheray", path(&flipped), "-o", path(&out)],
        ];
        for call in calls {
            let (code, _, said) = quipu(call);
            assert!(code == Some(1) && said.starts_with(lost), "{name} {call:?}: {lost}: {said}");
        }
    }
}

#[test]
fn tables_are_kept_of_a_file_whose_checksum_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(fixtures("lackey").join("nodes.lackey.gz")).unwrap();
    let at = bytes.len() - 6;
    bytes[at] ^= 1;
    let damaged = folder.path().join("summed.lackey.gz");
    fs::write(&damaged, bytes).unwrap();
    for name in ["out.arrow", "out.arrows", "out.parquet"] {
        let out = folder.path().join(name);
        let (code, _, said) = quipu(&["convert", "--keep-damaged", path(&damaged), "-o", path(&out)]);
        assert!(code == Some(1) && out.exists(), "{name}: {said}");
        let (code, _, said) =
            quipu(&["convert", path(&damaged), "-o", path(&folder.path().join(format!("no-{name}")))]);
        assert!(code == Some(1) && !folder.path().join(format!("no-{name}")).exists(), "{name}: {said}");
    }
}

#[test]
fn a_container_for_a_stream_is_refused_whatever_it_carries() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.quipu");
    for (line, trace) in [
        ("convert", "drmemtrace/tiny.func"),
        ("convert", "apitrace/tri.trace"),
        ("convert", "cacheray/shapes.trace"),
        ("convert", "lackey/mixed.lackey"),
        ("convert", "din/labels.din"),
        ("convert", "dtrace/classic/printf"),
        ("convert", "prism/prodcons.prism"),
        ("convert --to cacheray", "drmemtrace/tiny.func"),
        ("trim --skip 1", "apitrace/tri.trace"),
        ("trim --skip 1", "prism/prodcons.prism"),
        ("trim --skip 1", "stream/minimal.quipu"),
    ] {
        let trace = fixtures("").join(trace);
        let words: Vec<&str> = line.split(' ').collect();
        let (code, shown, said) =
            quipu(&[&words[..], &["--container", "plain", path(&trace), "-o", path(&out)]].concat());
        assert_eq!(code, Some(2), "{line} {}: {said}", trace.display());
        assert!(
            said.contains(" written without a container; `plain` was asked for"),
            "{line} {}: {said}",
            trace.display()
        );
        assert!(shown.is_empty() && !out.exists(), "{line} {}: {shown}", trace.display());
    }
    // The file on the way to a stream has a container, and the stream has none.
    let trace = fixtures("apitrace").join("tri.trace");
    let (code, shown, said) = quipu(&["trim", "--skip", "1", path(&trace), "-o", path(&out)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!shown.contains("container") && shown.matches("bytes of the stream").count() == 1, "{shown}");
}
