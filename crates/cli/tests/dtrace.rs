//! `quipu as dtrace` over the captures of the samples: text, messages and exit status of the consumer.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap()
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/dtrace/classic");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn captures_print_what_the_consumer_printed_with_its_exit_status() {
    for case in cases() {
        let output = quipu(&["as", "dtrace", case.to_str().unwrap()]);
        let expected = |name: &str| std::fs::read(case.join(name)).unwrap();
        assert!(output.stdout == expected("stdout"), "{}: stdout", case.display());
        let is_unknown = case.ends_with("unknown_epid");
        if !is_unknown {
            assert!(output.stderr == expected("stderr"), "{}: stderr", case.display());
        }
        let meta: serde_json::Value = serde_json::from_slice(&expected("meta.json")).unwrap();
        let status = if is_unknown { Some(1) } else { meta["result"]["exit_status"].as_i64() };
        assert_eq!(output.status.code().map(i64::from), status, "{}", case.display());
    }
}

/// What files of cases of Linux do not have, the names of a live kernel: the text of the consumer says it.
const NAMES: [(&str, &[(u64, &str)]); 3] = [
    (
        "stack",
        &[
            (0xffff_ffff_814b_84f0, "bpf_trace_run2"),
            (0xffff_ffff_8141_5880, "__bpf_trace_sys_enter"),
            (0xffff_ffff_8141_5bf0, "syscall_trace_enter"),
        ],
    ),
    ("sym_mod", &[(0xffff_ffff_821f_94a0, "schedule")]),
    ("printa_mod", &[(0xffff_ffff_821f_94a0, "schedule")]),
];

#[test]
fn captures_of_linux_print_what_the_consumer_printed_with_its_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let home = quipu_testkit::fixtures("dtrace").join("linux");
    let mut all: Vec<PathBuf> = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    assert_eq!(all.len(), 40);
    let mut commands = Vec::new();
    for case in all {
        let name = case.file_name().unwrap().to_str().unwrap();
        let mut opened = case.clone();
        if let Some((_, names)) = NAMES.iter().find(|(known, _)| *known == name) {
            opened = folder.path().join(name);
            std::fs::create_dir(&opened).unwrap();
            quipu_testkit::copy_files(&case, &opened);
            let mut lines = std::fs::read_to_string(opened.join("raw.jsonl")).unwrap();
            for (lo, name) in *names {
                let hi = lo + 0x400;
                let symbol = serde_json::json!({"lo": lo, "hi": hi, "object": "vmlinux", "name": name});
                lines.push_str(&symbol.to_string().replacen('{', "{\"t\":\"symbol\",", 1));
                lines.push('\n');
            }
            std::fs::write(opened.join("raw.jsonl"), lines).unwrap();
        }
        let output = quipu(&["as", "dtrace", opened.to_str().unwrap()]);
        let expected =
            |file: &str| String::from_utf8_lossy(&std::fs::read(case.join(file)).unwrap()).into_owned();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected("stdout"), "{name}");
        // The command says how many probes its script matched, before anything is recorded; and of speculations that failed the
        // kernel keeps a count that the lines of a capture do not have.
        let messages = expected("stderr");
        let (of_command, rest): (Vec<&str>, Vec<&str>) = messages.lines().partition(|line| {
            line.starts_with("dtrace: script '") || line.contains(" failed speculation (available buffer(s)")
        });
        let ours = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(ours.lines().collect::<Vec<_>>(), rest, "{name}");
        commands
            .extend(of_command.into_iter().filter(|line| !line.contains("matched")).map(|_| name.to_owned()));
        assert_eq!(output.status.code().unwrap().to_string(), expected("exit").trim(), "{name}");
    }
    assert_eq!(commands, ["speculation"]);
}

/// A copy of a case whose files can be damaged.
fn copied(name: &str, folder: &Path) -> PathBuf {
    let home = folder.join(name);
    std::fs::create_dir(&home).unwrap();
    quipu_testkit::copy_files(&quipu_testkit::fixtures("dtrace").join("classic").join(name), &home);
    home
}

#[test]
fn a_cut_or_missing_buffer_is_an_error_of_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let case = copied("mixed_1000", folder.path());
    let buffer = case.join("buf.cpu0.bin");
    let whole = std::fs::read(&buffer).unwrap();
    // 6,000 is the end of a record, so that only the length says it.
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

/// Zeros fill up to the alignment of a record; more of them may be records that are gone.
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
fn what_a_trace_would_execute_or_open_is_shown_only() {
    for (action, what) in [(0x203, "system"), (0x204, "freopen")] {
        let folder = tempfile::tempdir().unwrap();
        let case = copied("printf", folder.path());
        let made = folder.path().join("made");
        let text = match what {
            "system" => format!("touch {} %i\n", made.display()),
            _ => format!("{} %i\n", made.display()),
        };
        let meta = case.join("meta.json");
        let mut said: serde_json::Value = serde_json::from_slice(&std::fs::read(&meta).unwrap()).unwrap();
        said["eprobes"][0]["recs"][0]["action"] = action.into();
        said["formats"][0]["string"] = text.into();
        std::fs::write(&meta, said.to_string()).unwrap();
        for args in [&["view"][..], &["as", "dtrace"], &["report"], &["check"]] {
            let output = quipu(&[args, &[case.to_str().unwrap()]].concat());
            assert!(output.status.code().is_some_and(|code| code < 2), "{args:?}: {output:?}");
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            let is_text = args[0] == "view" || args[0] == "as";
            assert_eq!(printed.contains(&format!("[{what}: ")), is_text, "{args:?}: {printed}");
            assert!(!made.exists(), "{args:?} does it");
        }
    }
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
    assert!(said.contains(&format!("record {n_lines}: line {n_lines} cannot be read")), "{said}");
}

#[test]
fn convert_says_what_it_has_no_room_for() {
    let folder = tempfile::tempdir().unwrap();
    let case = copied("drops", folder.path());
    let meta = case.join("meta.json");
    let mut description: serde_json::Value = serde_json::from_slice(&std::fs::read(&meta).unwrap()).unwrap();
    description["types"] = serde_json::json!([{"id": "a`1", "name": "int", "kind": "int", "size": 4}]);
    description["eprobes"][0]["recs"][0]["signed"] = false.into();
    description["buffers"].as_array_mut().unwrap().truncate(1);
    std::fs::write(&meta, description.to_string()).unwrap();
    for (ending, losses) in
        [("quipu", &[][..]), ("midbuf", &["buffers of aggregations: ", "further files: "])]
    {
        let written = folder.path().join(format!("written.{ending}"));
        let output = quipu(&["convert", case.to_str().unwrap(), "-o", written.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        for loss in losses {
            assert!(said.contains(&format!("no room for {loss}")), "{ending}: {said}");
        }
        assert_eq!(said.matches("no room for").count(), losses.len(), "{said}");
        // Drops travel in both.
        let printed = quipu(&["view", written.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&printed.stderr);
        assert!(printed.status.code() == Some(1) && said.contains("5 drops on CPU 0"), "{ending}: {said}");
    }
}

#[test]
fn options_about_printing_are_taken_and_others_refused() {
    let case = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/dtrace/classic");
        folder.join(name).to_str().unwrap().to_owned()
    };
    let quiet = quipu(&["as", "dtrace", "-q", &case("trace_basic")]);
    assert_eq!(quiet.stdout, std::fs::read(Path::new(&case("trace_basic_quiet")).join("stdout")).unwrap());
    let sorted = quipu(&["as", "dtrace", "-x", "aggsortrev", "-x", "aggsortkey", &case("agg_sort_default")]);
    assert_eq!(sorted.stdout, std::fs::read(Path::new(&case("agg_sort_key_rev")).join("stdout")).unwrap());
    let refused = quipu(&["as", "dtrace", "-n", "BEGIN", &case("trace_basic")]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`-n` is about tracing"));
    let refused = quipu(&["as", "dtrace", "-x", "bufsize=4m", &case("trace_basic")]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`-x bufsize` is about tracing"));
}

#[test]
fn captures_become_streams_and_buffers_that_print_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for (name, ending) in
        [("mixed_1000", "quipu"), ("agg_scalar", "quipu"), ("printf", "quipu"), ("stacks", "midbuf")]
    {
        let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/dtrace/classic").join(name);
        let written = folder.path().join(format!("{name}.{ending}"));
        let convert = quipu(&["convert", case.to_str().unwrap(), "-o", written.to_str().unwrap()]);
        assert!(convert.status.success(), "{name}: {convert:?}");
        let printed = quipu(&["view", "--quirks", written.to_str().unwrap()]);
        assert!(printed.stdout == std::fs::read(case.join("stdout")).unwrap(), "{name}: {printed:?}");
        // What stands in one file is one file, however many buffers it carries; those of aggregations have CPUs, too.
        let about = |path: &Path| -> serde_json::Value {
            let info = quipu(&["info", "--json", path.to_str().unwrap()]);
            serde_json::from_slice(&info.stdout).unwrap()
        };
        let (folder, file) = (about(&case), about(&written));
        assert!(folder["files"].as_u64() > Some(1), "{folder}");
        assert_eq!(file["files"], 1, "{name}");
        let n_cpus = match name {
            "mixed_1000" => 4,
            "agg_scalar" => 2, // Both have aggregations alone.
            _ => 1,
        };
        for about in [folder, file] {
            assert_eq!(about["facts"]["cpus"], n_cpus, "{name}: {about}");
        }
    }
}

#[test]
fn streams_become_the_folders_that_they_came_from() {
    let folder = tempfile::tempdir().unwrap();
    for (family, name, is_dense) in [
        ("classic", "mixed_1000", true),
        ("classic", "agg_key_types", false),
        ("linux", "syscall_lat", false),
        ("linux", "printf_int", true),
        ("linux", "print_types", false),
    ] {
        let case = quipu_testkit::fixtures("dtrace").join(family).join(name);
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (stream, back) = (path(&format!("{name}.quipu")), path(name));
        let encoding = if is_dense { &["--encoding", "dense"][..] } else { &[] };
        let convert = quipu(&[&["convert", case.to_str().unwrap(), "-o", &stream][..], encoding].concat());
        assert!(convert.status.success(), "{name}: {convert:?}");
        let convert = quipu(&["convert", &stream, "-o", &back]);
        assert!(convert.status.success(), "{name}: {convert:?}");
        for entry in std::fs::read_dir(&case).unwrap().map(|entry| entry.unwrap()) {
            let file = entry.file_name().into_string().unwrap();
            // Samples of ours are packed.
            if !file.ends_with(".gz") {
                let written = std::fs::read(Path::new(&back).join(&file)).unwrap();
                assert!(written == std::fs::read(entry.path()).unwrap(), "{name}: {file}");
            }
        }
        for written in [&stream, &back] {
            let printed = quipu(&["view", "--quirks", written]);
            assert!(printed.stdout == std::fs::read(case.join("stdout")).unwrap(), "{written}: {printed:?}");
        }
        let refused = quipu(&["convert", &stream, "-o", &path("again.midbuf"), "--encoding", "dense"]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
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
fn streams_of_several_machines_are_one_capture() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(path("all")).unwrap();
    let mut bytes = Vec::new();
    // In the order of their names, as in a folder.
    for name in ["agg_ops", "agg_scalar"] {
        let case = quipu_testkit::fixtures("dtrace").join("classic").join(name);
        let written = path(&format!("all/{name}.quipu"));
        assert!(quipu(&["convert", case.to_str().unwrap(), "-o", &written]).status.success());
        bytes.extend(std::fs::read(&written).unwrap());
    }
    std::fs::write(path("cat.quipu"), &bytes).unwrap();
    let merged = quipu(&["merge", &path("all"), "-o", &path("merged.quipu")]);
    assert!(merged.status.success(), "{merged:?}");
    let texts = ["cat.quipu", "all", "merged.quipu"].map(|name| {
        let printed = quipu(&["view", &path(name)]);
        assert!(printed.status.success(), "{name}: {printed:?}");
        let mut lines: Vec<String> =
            String::from_utf8(printed.stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    });
    assert!(texts[0].len() > 20, "{texts:?}");
    assert_eq!(texts[0], texts[1]);
    assert_eq!(texts[0], texts[2]);
}

/// How often each function is called and left, by a stream from a pipe.
fn calls_of(stream: &[u8]) -> std::collections::BTreeMap<String, (u64, u64)> {
    let printed = piped(stream, &["analyze", "functions", "--json", "-"]);
    let mut calls = std::collections::BTreeMap::new();
    // A capture without such probes has no calls to count.
    if printed.status.code() == Some(2) {
        return calls;
    }
    let whole: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    for function in whole["results"]["functions"]["functions"].as_array().unwrap() {
        let number = |key: &str| function[key].as_u64().unwrap();
        let sums: &mut (u64, u64) =
            calls.entry(function["names"][0].as_str().unwrap().to_owned()).or_default();
        *sums = (sums.0 + number("calls"), sums.1 + number("returns"));
    }
    calls
}

#[test]
fn captures_together_have_the_calls_and_the_flow_of_each() {
    let home = tempfile::tempdir().unwrap();
    let stream = |name: &str, host: &str| {
        let (case, written) = (quipu_testkit::fixtures("dtrace").join(name), home.path().join("one.quipu"));
        let host: &[&str] = if host.is_empty() { &[] } else { &["--host", host] };
        let line = ["convert", "--force", case.to_str().unwrap(), "-o", written.to_str().unwrap()];
        assert!(quipu(&[&line[..], host].concat()).status.success(), "{name}");
        std::fs::read(written).unwrap()
    };
    let arrows = |stream: &[u8]| {
        let printed = piped(stream, &["as", "dtrace", "-F", "-"]).stdout;
        let text = String::from_utf8(printed).unwrap();
        text.split_whitespace().filter(|word| ["->", "<-", "=>", "<=", "|"].contains(word)).count()
            + text.matches("-> ").count()
    };
    // In each pair one has probes with several clauses; the numbers of clauses clash.
    let pairs = [
        (("classic/cpu_order", ""), ("classic/flowindent", "")),
        (("classic/flowindent", "a"), ("classic/flowindent", "b")),
        (("linux/agg_scalar", ""), ("linux/flowindent", "")),
        (("linux/syscall_trace", ""), ("linux/flowindent", "")),
    ];
    for (one, two) in pairs {
        let (one, two) = (stream(one.0, one.1), stream(two.0, two.1));
        let mut sums = calls_of(&one);
        for (name, (calls, returns)) in calls_of(&two) {
            let sum = sums.entry(name).or_default();
            *sum = (sum.0 + calls, sum.1 + returns);
        }
        for both in [[&*one, &two].concat(), [&*two, &one].concat()] {
            assert_eq!(calls_of(&both), sums);
            assert_eq!(arrows(&both), arrows(&one) + arrows(&two));
        }
    }
}

fn case_of(name: &str) -> PathBuf {
    quipu_testkit::fixtures("dtrace").join("classic").join(name)
}

#[test]
fn equal_captures_of_machines_with_names_are_two_and_a_file_that_is_given_twice_is_one() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let case = case_of("agg_scalar");
    for (name, host) in [("a.quipu", &["--host", "a"][..]), ("b.quipu", &["--host", "b"]), ("c.quipu", &[])] {
        let line = ["convert", case.to_str().unwrap(), "-o", &path(name)];
        let convert = quipu(&[&line[..], host].concat());
        assert!(convert.status.success(), "{convert:?}");
    }
    let texts = [("c.quipu", "c.quipu"), ("a.quipu", "b.quipu")].map(|(one, two)| {
        let both = [one, two].map(|name| std::fs::read(path(name)).unwrap()).concat();
        std::fs::write(path("both.quipu"), both).unwrap();
        let check = quipu(&["check", "-v", &path("both.quipu")]);
        let said =
            String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
        assert_eq!(said.contains("dtrace/repeated-frames"), one == two, "{said}");
        String::from_utf8(quipu(&["view", &path("both.quipu")]).stdout).unwrap()
    });
    let alone = String::from_utf8(quipu(&["view", &path("c.quipu")]).stdout).unwrap();
    assert_eq!(texts[0], alone);
    assert_ne!(texts[1], alone);
    // A folder has no room for the name, and the name of a machine stays.
    let refused = quipu(&["convert", case.to_str().unwrap(), "-o", &path("folder"), "--host", "a"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let nameless = quipu(&["convert", &path("c.quipu"), "-o", &path("d.quipu"), "--host", ""]);
    assert_eq!(nameless.status.code(), Some(2));
    let said = String::from_utf8_lossy(&nameless.stderr);
    assert!(said.contains("`--host` needs the name of a machine, and has none"), "{said}");
    let renamed = quipu(&["convert", &path("a.quipu"), "-o", &path("d.quipu"), "--host", "b"]);
    assert_eq!(renamed.status.code(), Some(2), "{renamed:?}");
}

/// Writes the copy of a case with other words, as a stream.
fn of_host(home: &Path, name: &str, change: impl Fn(&mut serde_json::Value)) -> PathBuf {
    let case = home.join(name);
    std::fs::create_dir(&case).unwrap();
    quipu_testkit::copy_files(&quipu_testkit::fixtures("dtrace").join("classic/printf"), &case);
    let text = std::fs::read(case.join("meta.json")).unwrap();
    let mut meta: serde_json::Value = serde_json::from_slice(&text).unwrap();
    change(&mut meta);
    std::fs::write(case.join("meta.json"), meta.to_string()).unwrap();
    let written = home.join(format!("{name}.quipu"));
    let convert = quipu(&["convert", case.to_str().unwrap(), "-o", written.to_str().unwrap()]);
    assert!(convert.status.success(), "{convert:?}");
    written
}

#[test]
fn captures_of_hosts_with_other_options_print_as_each_alone_and_so_do_bare_buffers_of_them() {
    let home = tempfile::tempdir().unwrap();
    let quiet = of_host(home.path(), "quiet", |meta| meta["options"] = "quiet".into());
    let loud = of_host(home.path(), "loud", |meta| meta["options"] = "".into());
    let view = |path: &Path| {
        let printed = quipu(&["view", path.to_str().unwrap()]);
        assert!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
        String::from_utf8(printed.stdout).unwrap()
    };
    let alone = [view(&quiet), view(&loud)];
    assert!(!alone[0].contains("CPU") && alone[1].starts_with("CPU "), "{alone:?}");
    for (first, second) in [(0, 1), (1, 0)] {
        let paths = [&quiet, &loud];
        // The newline at the end of a run comes once.
        let expected = format!("{}{}", alone[first].strip_suffix('\n').unwrap(), alone[second]);
        let both = [paths[first], paths[second]].map(|path| std::fs::read(path).unwrap()).concat();
        let path = |name: &str| home.path().join(format!("{first}{name}"));
        std::fs::write(path("both.quipu"), both).unwrap();
        assert_eq!(view(&path("both.quipu")), expected);
        for name in ["merged.quipu", "bare.midbuf", "folder"] {
            let verb = if name.starts_with("merged") { "merge" } else { "convert" };
            let (from, to) = (path("both.quipu"), path(name));
            let made = quipu(&[verb, from.to_str().unwrap(), "-o", to.to_str().unwrap()]);
            assert!(made.status.success(), "{made:?}");
            assert_eq!(view(&to), expected, "{name}");
        }
    }
}

#[test]
fn the_buffer_of_one_cpu_of_several_is_written_and_the_rest_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let case = quipu_testkit::fixtures("dtrace").join("classic/cpu_order");
    let written = folder.path().join("one.midbuf");
    let line = ["convert", case.to_str().unwrap(), "-o", written.to_str().unwrap()];
    let refused = quipu(&line);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--cpu"), "{refused:?}");
    let convert = quipu(&[&line[..], &["--cpu", "1"]].concat());
    // Facts are those of what was written.
    let facts = String::from_utf8_lossy(&convert.stdout);
    let size = std::fs::metadata(case_of("cpu_order").join("buf.cpu1.bin")).unwrap().len();
    let fact = |name: &str, number: u64| {
        facts
            .lines()
            .map(str::trim)
            .any(|line| line.starts_with(name) && line.ends_with(&format!(" {number}")))
    };
    assert!(fact("buffers", 1) && fact("bytes of the buffers", size), "{facts}");
    let said = String::from_utf8_lossy(&convert.stderr);
    assert!(convert.status.success() && said.contains("buffers of other CPUs: 2"), "{said}");
    let printed = String::from_utf8(quipu(&["view", written.to_str().unwrap()]).stdout).unwrap();
    assert!(printed.lines().skip(1).all(|line| line.is_empty() || line.starts_with("  1 ")), "{printed}");
}

#[test]
fn reports_draw_probes_over_time() {
    let case = quipu_testkit::fixtures("dtrace").join("classic/mixed_1000");
    let output = quipu(&["analyze", "timeline", "--json", case.to_str().unwrap()]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = found.to_string();
    assert!(output.status.success() && text.contains("nanoseconds"), "{text}");
    let case = quipu_testkit::fixtures("dtrace").join("linux/speculation");
    let output = quipu(&["analyze", "timeline", "--json", case.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"committed\"") && text.contains("\"discarded\""), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let report = quipu(&["report", "--html", page.to_str().unwrap(), case.to_str().unwrap()]);
    assert!(report.status.success(), "{report:?}");
    assert!(std::fs::read_to_string(page).unwrap().contains("Probes over time"));
}

/// The words of a page, without its tags and without the commas of its numbers.
fn words(page: &str) -> Vec<String> {
    let texts = page.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text));
    let plain =
        |word: &str| word.replace("&lt;", "<").replace("&gt;", ">").replace("&#96;", "`").replace(',', "");
    texts.flat_map(str::split_whitespace).map(plain).collect()
}

#[test]
fn aggregations_of_a_page_have_the_values_of_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let page_of = |name: &str| {
        let case = quipu_testkit::fixtures("dtrace").join("classic").join(name);
        let page = folder.path().join(format!("{name}.html"));
        let report = quipu(&["report", "--html", page.to_str().unwrap(), case.to_str().unwrap()]);
        assert!(report.status.success(), "{report:?}");
        let text = std::fs::read_to_string(case.join("stdout")).unwrap();
        (words(&std::fs::read_to_string(page).unwrap()), text)
    };
    // A row of a histogram is its label, a share that the bar shows, and the count.
    let mut n = 0;
    for name in ["lquantize", "llquantize_2_0_10_2"] {
        let (page, text) = page_of(name);
        for (label, rest) in text.lines().filter_map(|row| row.split_once('|')) {
            let count = rest.split_whitespace().next_back().unwrap();
            // Bars of negative counts reach to the left; a page says so in words.
            let (count, sign) = count.strip_prefix('-').map_or((count, None), |n| (n, Some("(negative)")));
            let label = label.split_whitespace().filter(|word| !word.starts_with('@'));
            let label: Vec<&str> = label.chain(sign).collect();
            let is_row = |of: &[String]| {
                let (words, share) = of.split_at(label.len());
                words == label && share[1] == "%" && share[2] == count
            };
            assert!(count == "0" || page.windows(label.len() + 3).any(is_row), "{name}: {label:?} {count}");
            n += usize::from(count != "0");
        }
    }
    assert!(n > 20, "{n}");
    // Tables have the keys and the numbers of the others, in their order.
    let (page, text) = page_of("agg_key_types");
    let rows = rows(&text);
    assert_eq!(rows.len(), 7, "{rows:?}");
    let mut at = 0;
    for row in rows {
        let found = page[at..].windows(row.len()).position(|of| of == row);
        at += found.unwrap_or_else(|| panic!("{row:?}: {:?}", &page[at..])) + row.len();
    }
}

/// The words of each key of aggregations with its number, as a table has them: frames on one line, bytes together.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut key) = (Vec::new(), Vec::<String>::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((last, before)) = words.split_last().filter(|(last, _)| **last != "0123456789abcdef") else {
            continue;
        };
        if before.first().is_some_and(|first| first.ends_with(':')) {
            let bytes = before[1..].iter().filter(|word| word.len() == 2);
            key.push(bytes.copied().collect());
        } else if last.parse::<i64>().is_ok() {
            key.extend(before.iter().chain([last]).map(|word| (*word).to_owned()));
            rows.push(std::mem::take(&mut key));
        } else {
            key.extend((!key.is_empty()).then(|| "<".to_owned()));
            key.push((*last).to_owned());
        }
    }
    rows
}

/// What a process printed, and how it ended.
fn piped(input: &[u8], args: &[&str]) -> Output {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    // A reader that needs no more closes its end.
    let _ = writer.join().unwrap();
    output
}

#[test]
fn the_consumer_s_command_line_reads_standard_input_and_letters_together() {
    let folder = tempfile::tempdir().unwrap();
    let case = quipu_testkit::fixtures("dtrace").join("classic/flowindent");
    let written = folder.path().join("one.midbuf");
    let convert = quipu(&["convert", case.to_str().unwrap(), "-o", written.to_str().unwrap(), "--cpu", "0"]);
    assert!(convert.status.success(), "{convert:?}");
    let buffer = std::fs::read(&written).unwrap();
    let expected = quipu(&["as", "dtrace", "-q", "-F", written.to_str().unwrap()]).stdout;
    assert!(expected.starts_with(b"CPU FUNCTION"));
    for args in [&["-qF"][..], &["-qF", "-"], &["-", "-Fq"], &["-xflowindent=1", "-qx", "temporal=0"]] {
        let printed = piped(&buffer, &[&["as", "dtrace"][..], args].concat());
        assert!(printed.status.success() && printed.stdout == expected, "{args:?}: {printed:?}");
    }
    for (args, said) in [
        (&["-x", "aggsortpos=abc"][..], "the option `aggsortpos` does not take `abc`"),
        (&["-xstackindent"], "the option `stackindent` has no value"),
        (&["-qn", "BEGIN"], "`-n` is about tracing"),
    ] {
        let refused = piped(&buffer, &[&["as", "dtrace"][..], args].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(said), "{refused:?}");
    }
    let refused = quipu(&["view", "--open", "consumer=aggsortpos=abc", case.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn values_in_json_are_those_that_the_message_shows() {
    let case = quipu_testkit::fixtures("dtrace").join("classic/printf");
    let printed = quipu(&["view", "--json", case.to_str().unwrap()]);
    let whole: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    let probes = whole["dtrace"]["probes"].as_array().unwrap();
    let values = |message: &str| -> Vec<&serde_json::Value> {
        let output = probes.iter().map(|probe| probe["output"].as_array().unwrap());
        let mut found = output.filter(|output| output[0]["message"] == format!("{message}\n"));
        found.next().unwrap_or_else(|| panic!("{message}"))[1..].iter().map(|value| &value["value"]).collect()
    };
    assert_eq!(values("-1 -2 65535 ff 10 FF"), [-1, -2, 65535, 255, 8, 255]);
    assert_eq!(values("1.500000 -2.500000e+00"), [1.5, -2.5]);
    assert_eq!(values("A \\n \\0 \\310"), ["A", "\n", "\0", "\u{c8}"]);
    assert_eq!(values("[a\\tb\\\"c\\\\d\\001\\200 e\\0]"), ["a\tb\"c\\d\u{1}\u{fffd} e"]);
    assert_eq!(values("wide"), ["wide"]);
    assert_eq!(values("A %wc"), ["A", "B"]);
    assert_eq!(
        values("kernel`func_a kernel`func_a+0x10 mod.ko`0x5000 0x9999"),
        [0x1000, 0x1010, 0x5000, 0x9999]
    );
    let widths = values("[he] [    wor]");
    assert_eq!((widths[1], widths[4]), (&"hello".into(), &"world".into()));
    let mixed = values("-1 mix 99");
    assert_eq!(mixed, [&serde_json::json!(-1), &"mix".into(), &99.into()]);
}

#[test]
fn json_is_one_object_with_a_list_of_probes() {
    let case = |name: &str| quipu_testkit::fixtures("dtrace").join(name).to_str().unwrap().to_owned();
    let object = |args: &[&str]| -> serde_json::Value {
        let printed = quipu(args);
        assert!(printed.status.success(), "{printed:?}");
        serde_json::from_slice(&printed.stdout).unwrap()
    };
    let path = case("classic/mixed_1000");
    let whole = object(&["view", "--json", &path]);
    assert_eq!(whole, object(&["as", "dtrace", "-x", "oformat=json", &path]));
    let probes = whole["dtrace"]["probes"].as_array().unwrap();
    assert_eq!(probes.len(), 1000);
    for key in ["timestamp", "cpu", "id", "provider", "module", "function", "name", "output"] {
        assert!(probes.iter().all(|probe| probe.get(key).is_some()), "{key}");
    }
    let left = whole["dtrace"]["aggregations"].as_array().unwrap();
    assert!(!left.is_empty() && left.iter().all(|one| one["aggregation-data"].is_array()), "{left:?}");
    // A part has no aggregations, which are those of the whole.
    let part = object(&["view", "--json", "--skip", "2", "--take", "3", &path]);
    assert_eq!(part["dtrace"]["probes"].as_array().unwrap()[..], probes[2..5]);
    assert_eq!(part["dtrace"]["aggregations"], serde_json::json!([]));
    // What records print stands in their output.
    let printed = object(&["view", "--json", &case("classic/printa_default_mode")]);
    let outputs = printed["dtrace"]["probes"].to_string();
    assert!(outputs.contains("\"aggregation-name\""), "{outputs}");
    let histograms =
        object(&["view", "--json", &case("classic/quantize")])["dtrace"]["aggregations"].to_string();
    assert!(histograms.contains(r#""buckets":[{"value":"#), "{histograms}");
}

#[test]
fn streams_in_pipes_print_the_same_text_in_the_zone_of_the_capture() {
    let folder = tempfile::tempdir().unwrap();
    let case = copied("printf", folder.path());
    let meta = case.join("meta.json");
    let mut description: serde_json::Value = serde_json::from_slice(&std::fs::read(&meta).unwrap()).unwrap();
    description["zone"] = serde_json::json!({"offset_s": 20_700, "name": "NPT"});
    std::fs::write(&meta, description.to_string()).unwrap();
    let case = case.to_str().unwrap();
    let expected = quipu(&["view", case]).stdout;
    assert!(String::from_utf8_lossy(&expected).contains("NPT"), "{}", String::from_utf8_lossy(&expected));
    for to in ["quipu", "midbuf"] {
        let file = folder.path().join(format!("printf.{to}"));
        let convert = quipu(&["convert", case, "-o", file.to_str().unwrap()]);
        assert!(convert.status.success(), "{convert:?}");
        let printed = piped(&std::fs::read(&file).unwrap(), &["view", "-"]);
        assert!(printed.status.success() && printed.stdout == expected, "{to}: {printed:?}");
    }
    if cfg!(unix) {
        // A pipe that is standard output gets a stream, and nothing else.
        let stream = quipu(&["convert", case, "-o", "/dev/stdout", "--encoding", "dense"]);
        let printed = piped(&stream.stdout, &["view"]);
        assert!(printed.status.success() && printed.stdout == expected, "{printed:?} {stream:?}");
    }
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
        // What was made of it is whole, and says what it lacks.
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

/// Leaves the first bytes of a file.
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
        assert!(all.contains("`200` more gaps between records, beside the first `100`"), "{args:?}: {all}");
        let output = quipu(&[args, &[bare.to_str().unwrap()]].concat());
        let all = [output.stdout, output.stderr].concat();
        let all = String::from_utf8_lossy(&all);
        assert!(all.contains("200 more gaps between records have"), "{args:?}: {all}");
    }
    // Facts are of records, whether descriptions stand among them or not.
    let fact = |of: &str, to: &str| {
        let to = home.path().join(to);
        let output = quipu(&["convert", of, "-o", to.to_str().unwrap(), "--keep-damaged"]);
        let facts = String::from_utf8(output.stdout).unwrap();
        let line = facts.lines().find(|line| line.trim().starts_with("bytes of the buffers")).unwrap();
        line.split_whitespace().last().unwrap().replace(',', "").parse::<usize>().unwrap()
    };
    // The zeros that were cleared are none of the buffer that has its descriptions.
    let n_records = 301 * usize::try_from(size).unwrap();
    let n_bare = fact(bare.to_str().unwrap(), "bare.quipu");
    assert!((n_records..n_records + 301 * 8).contains(&n_bare), "{n_bare} {n_records}");
}
