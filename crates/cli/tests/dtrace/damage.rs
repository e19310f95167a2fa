//! Damaged captures, and losses reported by DTrace itself.

use super::{cases, copied, quipu};
use std::path::Path;

#[test]
fn a_cut_or_missing_buffer_is_an_error_of_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let case = copied("mixed_1000", folder.path());
    let buffer = case.join("buf.cpu0.bin");
    let whole = std::fs::read(&buffer).unwrap();
    // 6,000 is the end of a record, so only the length shows the damage.
    for (kept, rules) in [
        (Some(6000), &["dtrace/buffer-size"][..]),
        (Some(5991), &["dtrace/buffer-size", "dtrace/cut-record"]),
        (None, &["dtrace/missing-buffer"]),
    ] {
        match kept {
            Some(kept) => std::fs::write(&buffer, &whole[..kept]).unwrap(),
            None => std::fs::remove_file(&buffer).unwrap(),
        }
        let case = case.to_str().unwrap();
        for verb in ["info", "view", "check", "report", "describe"] {
            let output = quipu(&[verb, case]);
            let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
            assert_eq!(output.status.code(), Some(1), "{verb} {kept:?}: {said}");
            for rule in rules {
                assert!(said.contains(&format!("[{rule}]")), "{verb} {kept:?}: {said}");
            }
        }
        let written = folder.path().join("written.quipu");
        let line = ["convert", case, "-o", written.to_str().unwrap()];
        let refused = quipu(&line);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(!written.exists());
        let kept = quipu(&[&line[..], &["--keep-damaged", "--force"]].concat());
        assert!(kept.status.code() == Some(1) && written.exists(), "{kept:?}");
        std::fs::remove_file(&written).unwrap();
    }
}

/// Zeros pad records to their alignment; a longer run of zeros may be lost records.
#[test]
fn every_verb_warns_of_zeros_among_records() {
    let folder = tempfile::tempdir().unwrap();
    let case = copied("mixed_1000", folder.path());
    let buffer = case.join("buf.cpu0.bin");
    let mut bytes = std::fs::read(&buffer).unwrap();
    bytes[0x7e0..0x820].fill(0);
    std::fs::write(&buffer, bytes).unwrap();
    let out = folder.path().join("out.quipu");
    for verb in [
        &["info"][..],
        &["view"],
        &["check"],
        &["report"],
        &["describe"],
        &["convert", "-o", out.to_str().unwrap()],
    ] {
        let output = quipu(&[verb, &[case.to_str().unwrap()]].concat());
        let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(0), "{verb:?}: {said}");
        assert!(said.contains("buf.cpu0.bin: offset 0x7f0"), "{verb:?}: {said}");
        assert!(said.contains("[dtrace/cleared-records]"), "{verb:?}: {said}");
    }
    for whole in cases() {
        let check = quipu(&["check", whole.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&check.stdout).into_owned();
        assert!(!said.contains("cleared-records"), "{}: {said}", whole.display());
    }
}

#[test]
fn a_damaged_frame_of_a_stream_is_a_loss_in_json_as_on_the_screen() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(quipu_testkit::fixtures("stream").join("dtrace-mixed_1000.quipu")).unwrap();
    let path = folder.path().join("trace.quipu");
    let checked = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let output = quipu(&["check", "--json", path.to_str().unwrap()]);
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), said["records"].as_u64().unwrap(), said["lost"].clone())
    };
    let (code, n_whole, lost) = checked(&bytes);
    assert_eq!((code, lost), (Some(0), serde_json::Value::Null));
    // Within the records of a CPU.
    bytes[0x3cfc] ^= 4;
    let (code, n_left, lost) = checked(&bytes);
    assert_eq!(code, Some(1));
    assert!(n_left < n_whole, "{n_left} of {n_whole}");
    // The header of this frame does not count its records.
    assert!(lost.is_object() && lost["records"].as_u64().is_none(), "{lost}");
    let report = quipu(&["report", path.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&report.stderr).into_owned();
    assert!(said.contains("an unknown number of records is lost after"), "{said}");
}

#[test]
fn a_line_that_cannot_be_read_is_lost_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raw.jsonl");
    let from = quipu_testkit::fixtures("dtrace").join("linux/trace_ints/raw.jsonl");
    let text = std::fs::read_to_string(from).unwrap();
    let n_lines = text.lines().count();
    std::fs::write(&path, &text[..text.len() - 9]).unwrap();
    let output = quipu(&["check", path.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("record 0: line {n_lines} cannot be read")), "{said}");
}

#[test]
fn a_wrong_format_ends_its_records_alone_in_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let case = copied("printf", folder.path());
    let meta = case.join("meta.json");
    let text = std::fs::read_to_string(&meta).unwrap();
    std::fs::write(&meta, text.replacen("\"string\": \"%i\\n\"", "\"string\": \"%n\"", 1)).unwrap();
    assert_ne!(text, std::fs::read_to_string(&meta).unwrap());
    let case = case.to_str().unwrap();
    for verb in ["view", "check", "info", "report"] {
        let output = quipu(&[verb, case]);
        let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(1), "{verb}: {said}");
        assert!(said.contains("[dtrace/format]") && said.contains("`n`"), "{verb}: {said}");
    }
    let printed = String::from_utf8(quipu(&["view", case]).stdout).unwrap();
    assert!(printed.contains("-1 mix 99"), "{printed}");
}

#[test]
fn drops_are_a_loss_in_every_verb_and_in_json() {
    let case = quipu_testkit::fixtures("dtrace").join("classic/drops");
    let case = case.to_str().unwrap();
    for verb in ["view", "check", "info", "report"] {
        assert_eq!(quipu(&[verb, case]).status.code(), Some(1), "{verb}");
    }
    let printed = String::from_utf8(quipu(&["view", "--json", case]).stdout).unwrap();
    let object: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let probes = object["dtrace"]["probes"].as_array().unwrap();
    let drops: Vec<&serde_json::Value> = probes.iter().filter(|object| object["name"] == "DROP").collect();
    assert_eq!(drops.len(), 4, "{printed}");
    assert!(drops.iter().all(|drop| drop["cpu"] == -1));
    let is_largest = |drop: &&serde_json::Value| drop["kind"] == "PRINCIPAL" && drop["count"] == 5;
    assert_eq!(drops.into_iter().find(is_largest).unwrap()["msg"], "5 drops on CPU 0");
    let case = quipu_testkit::fixtures("dtrace").join("classic/printf");
    let printed = String::from_utf8(quipu(&["view", "--json", case.to_str().unwrap()]).stdout).unwrap();
    assert!(printed.contains(r#"[{"message":"-5\n"},{"value":-5}]"#), "{printed}");
}

#[test]
fn damaged_captures_become_streams_that_declare_what_is_lost_and_folders_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    type Damage = fn(&Path);
    let damages: [(&str, &str, Damage); 8] = [
        // All descriptions.
        ("classic/agg_ops", "undecodable", |case| cut_to(&case.join("meta.json"), 900)),
        ("classic/mixed_1000", "truncated", |case| cut_to(&case.join("buf.cpu0.bin"), 5991)),
        ("classic/mixed_1000", "truncated", |case| cut_to(&case.join("buf.cpu0.bin"), 6000)),
        ("classic/mixed_1000", "truncated", |case| std::fs::remove_file(case.join("buf.cpu1.bin")).unwrap()),
        ("classic/mixed_1000", "truncated", |case| cut_to(&case.join("agg.cpu1.bin"), 60)),
        ("classic/ring_wrapped", "truncated", |case| cut_to(&case.join("buf.cpu0.bin"), 130)),
        ("classic/unknown_epid", "undecodable", |_| {}),
        ("linux/syscall_trace", "undecodable", |case| cut_to(&case.join("raw.jsonl"), 5000)),
    ];
    for (number, (name, cause, damage)) in damages.into_iter().enumerate() {
        let case = folder.path().join(format!("case{number}"));
        std::fs::create_dir(&case).unwrap();
        quipu_testkit::copy_files(&quipu_testkit::fixtures("dtrace").join(name), &case);
        damage(&case);
        let case = case.to_str().unwrap();
        let before = quipu(&["view", case]);
        assert_eq!(before.status.code(), Some(1), "{name}");
        let (stream, back, again) = (
            path(&format!("{number}.quipu")),
            path(&format!("back{number}")),
            path(&format!("{number}b.quipu")),
        );
        let refused = quipu(&["convert", case, "-o", &stream]);
        assert!(refused.status.code() == Some(1) && !Path::new(&stream).exists(), "{name}: {refused:?}");
        let kept = quipu(&["convert", case, "-o", &stream, "--keep-damaged"]);
        assert_eq!(kept.status.code(), Some(1), "{name}: {kept:?}");
        // A conversion of it is whole, and records what is missing.
        for (from, to) in [(&stream, &back), (&back, &again)] {
            let convert = quipu(&["convert", from, "-o", to]);
            assert!(convert.status.code() == Some(0), "{name}: {convert:?}");
        }
        for made in [&stream, &back, &again] {
            let printed = quipu(&["view", made]);
            let said = String::from_utf8_lossy(&printed.stderr);
            assert!(
                printed.status.code() == Some(1) && printed.stdout == before.stdout,
                "{name}: {printed:?}"
            );
            assert!(said.contains(&format!("a loss is declared, of cause {cause}")), "{name}: {said}");
            let checked = quipu(&["check", made]);
            let said = String::from_utf8_lossy(&checked.stdout);
            let others =
                said.lines().filter(|line| line.contains("[dtrace/") && !line.contains("[dtrace/lost]"));
            assert_eq!(others.count(), 0, "{name} {made}: {said}");
        }
    }
}

/// Truncates a file to its first bytes.
fn cut_to(file: &Path, n: usize) {
    let bytes = std::fs::read(file).unwrap();
    assert!(bytes.len() > n, "{}", file.display());
    std::fs::write(file, &bytes[..n]).unwrap();
}

#[test]
fn gaps_beyond_those_that_are_reported_are_counted_by_every_verb() {
    let home = tempfile::tempdir().unwrap();
    let case = copied("trace_basic", home.path());
    let file = case.join("buf.cpu0.bin");
    let bytes = std::fs::read(&file).unwrap();
    let meta = std::fs::read_to_string(case.join("meta.json")).unwrap();
    let described: serde_json::Value = serde_json::from_str(&meta).unwrap();
    let epid = u64::from(u32::from_le_bytes(*bytes.first_chunk().unwrap()));
    let of_first = |of: &&serde_json::Value| of["epid"] == epid;
    let size =
        described["eprobes"].as_array().unwrap().iter().find(of_first).unwrap()["size"].as_u64().unwrap();
    let mut record = bytes[..usize::try_from(size).unwrap()].to_vec();
    record.resize((record.len() + 24).next_multiple_of(8), 0);
    let many = record.repeat(301);
    let mut described = described;
    for buffer in described["buffers"].as_array_mut().unwrap() {
        if buffer["file"] == "buf.cpu0.bin" {
            buffer["size"] = many.len().into();
            buffer["oldest"] = 0.into();
        }
    }
    std::fs::write(&file, &many).unwrap();
    std::fs::write(case.join("meta.json"), described.to_string()).unwrap();
    let case = case.to_str().unwrap();
    let bare = home.path().join("bare.midbuf");
    let made = quipu(&["convert", case, "-o", bare.to_str().unwrap(), "--cpu", "0"]);
    assert!(bare.exists(), "{made:?}");
    for args in [&["view"][..], &["check"], &["check", "-v"], &["check", "--json"]] {
        let output = quipu(&[args, &[case]].concat());
        let all = [output.stdout, output.stderr].concat();
        let all = String::from_utf8_lossy(&all);
        // Values have backquotes in JSON only.
        let all = all.replace('`', "");
        assert!(all.contains("200 more gaps between records, beside the first 100"), "{args:?}: {all}");
        let output = quipu(&[args, &[bare.to_str().unwrap()]].concat());
        let all = [output.stdout, output.stderr].concat();
        let all = String::from_utf8_lossy(&all);
        assert!(all.contains("200 more gaps between records have"), "{args:?}: {all}");
    }
    // Facts count records, with or without descriptions among them.
    let fact = |of: &str, to: &str| {
        let to = home.path().join(to);
        let output = quipu(&["convert", of, "-o", to.to_str().unwrap(), "--keep-damaged"]);
        let facts = String::from_utf8(output.stdout).unwrap();
        let line = facts.lines().find(|line| line.trim().starts_with("bytes of the buffers")).unwrap();
        line.split_whitespace().last().unwrap().replace(',', "").parse::<usize>().unwrap()
    };
    // Zeros in the gaps do not count, except for the padding of each record.
    let n_records = 301 * usize::try_from(size).unwrap();
    let n_bare = fact(bare.to_str().unwrap(), "bare.quipu");
    assert!((n_records..n_records + 301 * 8).contains(&n_bare), "{n_bare} {n_records}");
}
