//! Captures of several machines or processors combined into one.

use super::{piped, quipu};
use std::path::{Path, PathBuf};

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

/// Number of calls and returns of each function in a stream read from a pipe.
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
    // In each pair, one capture has probes with several clauses, and the clause numbers clash.
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
    // A folder cannot store the name, and an existing machine name is kept.
    let refused = quipu(&["convert", case.to_str().unwrap(), "-o", &path("folder"), "--host", "a"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let nameless = quipu(&["convert", &path("c.quipu"), "-o", &path("d.quipu"), "--host", ""]);
    assert_eq!(nameless.status.code(), Some(2));
    let said = String::from_utf8_lossy(&nameless.stderr);
    assert!(said.contains("`--host` needs the name of a machine, and has none"), "{said}");
    let renamed = quipu(&["convert", &path("a.quipu"), "-o", &path("d.quipu"), "--host", "b"]);
    assert_eq!(renamed.status.code(), Some(2), "{renamed:?}");
}

/// Writes a copy of a case with changed descriptions, as a stream.
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
        // The newline at the end of a run is printed only once.
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
    // Facts describe the written output.
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
