//! `quipu as dtrace` on the captures of the samples: text, messages and exit status of the consumer.

mod damage;
mod hosts;

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

/// Names from a live kernel, which captures on Linux lack and the consumer's text contains.
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
        // The consumer first prints the number of probes that its script matched, before anything is recorded. The kernel's
        // count of failed speculations is missing from the lines of a capture.
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
        // Both carry the drops.
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
        // A single file counts as one, regardless of the number of buffers in it; buffers of aggregations have CPUs, too.
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
            // Our own samples are compressed.
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

/// The words of a page, without tags and without the commas in numbers.
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
    // A row of a histogram consists of its label, the share shown by the bar, and the count.
    let mut n = 0;
    for name in ["lquantize", "llquantize_2_0_10_2"] {
        let (page, text) = page_of(name);
        for (label, rest) in text.lines().filter_map(|row| row.split_once('|')) {
            let count = rest.split_whitespace().next_back().unwrap();
            // Bars of negative counts extend to the left; the page marks them with a word.
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
    // Tables contain the keys and numbers of all other aggregations, in their order.
    let (page, text) = page_of("agg_key_types");
    let rows = rows(&text);
    assert_eq!(rows.len(), 7, "{rows:?}");
    let mut at = 0;
    for row in rows {
        let found = page[at..].windows(row.len()).position(|of| of == row);
        at += found.unwrap_or_else(|| panic!("{row:?}: {:?}", &page[at..])) + row.len();
    }
}

/// The words of each aggregation key with its number, as in a table: stack frames on one line, bytes together.
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

/// Output and exit status of a process with this standard input.
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
    // A reader that needs no more input closes its end.
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
    // A part has no aggregations, because they belong to the whole capture.
    let part = object(&["view", "--json", "--skip", "2", "--take", "3", &path]);
    assert_eq!(part["dtrace"]["probes"].as_array().unwrap()[..], probes[2..5]);
    assert_eq!(part["dtrace"]["aggregations"], serde_json::json!([]));
    // The output of a record's actions is in `output`.
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
        // If standard output is a pipe, it gets a stream and nothing else.
        let stream = quipu(&["convert", case, "-o", "/dev/stdout", "--encoding", "dense"]);
        let printed = piped(&stream.stdout, &["view"]);
        assert!(printed.status.success() && printed.stdout == expected, "{printed:?} {stream:?}");
    }
}
