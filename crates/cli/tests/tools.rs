//! User tools: the commands in docs/hooks.md, and runs with libraries.

use crate::tutorial::{Desk, docs, has_tools, shape, steps};
use quipu_testkit::fixtures;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap()
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The tool from the tests of `quipu-hooks`, compiled with these definitions.
fn probe(folder: &Path, name: &str, definitions: &[&str]) -> String {
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hooks");
    let library = folder.join(format!("lib{name}.so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", &format!("-DNAME=\"{name}\"")]);
    compiler.args(definitions.iter().map(|definition| format!("-D{definition}")));
    compiler.arg("-I").arg(hooks.join("include")).arg(hooks.join("tests/tool.c")).arg("-o").arg(&library);
    assert!(compiler.status().unwrap().success(), "{definitions:?}");
    library.to_str().unwrap().to_owned()
}

#[test]
fn what_the_tutorial_of_hooks_types_shows_what_it_says() {
    let desk = Desk::new();
    if !has_tools(&desk) {
        return;
    }
    let steps = steps(&fs::read_to_string(docs().join("hooks.md")).unwrap());
    assert!(steps.len() > 8);
    let mut tables = Vec::new();
    for step in &steps {
        let output = desk.type_in(&step.command);
        let mut lines = output.lines().map(shape);
        for shown in step.shown.iter().map(|line| shape(line)) {
            assert!(lines.any(|line| line == shown), "{}: no line as {shown:?} in\n{output}", step.command);
        }
        if output.starts_with("thread ") {
            tables.push(output);
        }
    }
    // Both languages count the same; the last run has both tables.
    assert_eq!(tables.len(), 3);
    assert_eq!(tables[0], tables[1]);
    assert_eq!(tables[2], format!("{}{}", tables[0], tables[1]));
}

/// Output of each instance of the probe, in the order of their creation.
fn instances(folder: &Path) -> Vec<String> {
    let said = |n: usize| fs::read_to_string(folder.join(format!("said-{n}"))).ok();
    (0..).map_while(said).collect()
}

#[test]
fn each_thread_has_an_instance_where_the_tool_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixtures("prism").join("fixed/threads.full.fixed18.zst");
    let run = |tools: &[&str], out: &str| {
        let out = folder.path().join(out).to_str().unwrap().to_owned();
        let mut args = vec!["run", "-q", "--format", "prism", trace.to_str().unwrap(), "-o", &out];
        tools.iter().for_each(|tool| args.extend(["--tool", tool]));
        let output = quipu(&args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        PathBuf::from(out)
    };
    let last = |said: &str| said.lines().rev().nth(1).unwrap().to_owned();
    let events = |said: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix("finish "));
        line.unwrap().parse::<u64>().unwrap()
    };

    let each = probe(folder.path(), "each", &["INSTANCES=QUIPU_PER_THREAD"]);
    let of_threads = instances(&run(&[&each], "each.out").join("each.tool"));
    assert!(of_threads.len() > 2, "{}", of_threads.len());
    let mut threads = Vec::new();
    for said in &of_threads {
        let of: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once('/')?.0)).collect();
        assert!(!of.is_empty() && of.iter().all(|thread| thread == &of[0]), "{said}");
        threads.push(of[0].to_owned());
    }
    threads.sort();
    threads.dedup();
    assert_eq!(threads.len(), of_threads.len());

    let many = probe(folder.path(), "many", &[]);
    let out = run(&[&format!("{many},a"), &format!("{many},b")], "many.out");
    let of_runs = [out.join("many.tool/said-0"), out.join("many-2.tool/said-1")]
        .map(|path| fs::read_to_string(path).unwrap());
    assert!(of_runs[0].starts_with("options a\n") && of_runs[1].starts_with("options b\n"));
    let all: u64 = of_threads.iter().map(|said| events(said)).sum();
    assert_eq!(of_runs.each_ref().map(|said| events(said)), [all, all]);
    // One call for all instances, whether there is one per thread or one per option.
    assert_eq!(last(&of_threads[0]), format!("all {all} of {}", of_threads.len()));
    assert_eq!(last(&of_runs[0]), format!("all {} of 2", 2 * all));
    assert!(last(&of_runs[1]).starts_with("finish"));

    let one = probe(folder.path(), "one", &["INSTANCES=QUIPU_ONE"]);
    let output =
        quipu(&["run", "--format", "prism", trace.to_str().unwrap(), "--tool", &one, "--tool", &one]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).1.contains("a run has one instance of one, and this one names it twice"),
        "{output:?}"
    );
}

#[test]
fn what_tools_print_is_beside_an_answer_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let made = quipu(&["new-tool", "-q", "--language", "c", folder.path().join("mine").to_str().unwrap()]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let tool = folder.path().join("mine");
    assert!(Command::new("make").arg("--silent").arg("-C").arg(&tool).status().unwrap().success());
    let tool = tool.join("libmine.so");
    let out = folder.path().join("out");
    // Native events and those made from records; with and without files.
    for trace in [fixtures("prism").join("prodcons.prism"), fixtures("drmemtrace").join("threadsig.x64")] {
        for output in [&[][..], &["--force", "-o", out.to_str().unwrap()]] {
            let args = ["run", "--json", "--tool", tool.to_str().unwrap(), trace.to_str().unwrap()];
            let (answer, beside) = said(&quipu(&[&args[..], output].concat()));
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            assert!(answer["events"].as_u64().unwrap() > 0, "{answer}");
            assert!(beside.contains("thread     loaded     stored\n"), "{beside}");
        }
    }
    // The answer about damage is on standard output, too, whether or not there would be files.
    let damaged = folder.path().join("damaged.quipu");
    let mut bytes = fs::read(fixtures("stream").join("prism-fixed.quipu")).unwrap();
    bytes[50_000] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    for trace in [damaged, fixtures("stream").join("payload-bitflip.quipu")] {
        for output in [&[][..], &["-o", "-"], &["--force", "-o", out.to_str().unwrap()]] {
            let args = ["run", "--json", "--tool", tool.to_str().unwrap(), trace.to_str().unwrap()];
            let ended = quipu(&[&args[..], output].concat());
            let (answer, beside) = said(&ended);
            assert_eq!(ended.status.code(), Some(1), "{output:?}: {beside}");
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            assert!(answer["complete"] == false && answer["output"].is_null(), "{answer}");
            assert!(!answer["lost"]["gaps"].as_array().unwrap().is_empty(), "{answer}");
        }
    }
}

#[test]
fn a_tool_that_stops_or_is_none_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixtures("drmemtrace").join("thr");
    let out = folder.path().join("out");
    let new = probe(folder.path(), "new", &["VERSION=2"]);
    let plain = probe(folder.path(), "plain", &[]);
    let none = fixtures("README.md");
    for (tool, message) in [
        (
            new.as_str(),
            "libnew.so: cannot be used as a tool: it was made for version 2 of the interface, and this program knows",
        ),
        (&format!("{plain},refuse"), "plain: refused"),
        (none.to_str().unwrap(), "cannot be used as a tool: "),
        ("/nowhere/libmine.so", "cannot be used as a tool: the system does not load it: No such file"),
    ] {
        let output =
            quipu(&["run", "-q", trace.to_str().unwrap(), "--tool", tool, "-o", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{tool}: {output:?}");
        let (shown, complaint) = said(&output);
        assert!(complaint.contains(message) && shown.is_empty(), "{tool}: {complaint}");
        assert!(!out.exists(), "{tool}");
    }
    // Results alone need no folder; a tool that needs one reports it.
    let output = quipu(&["run", "-q", trace.to_str().unwrap(), "--tool", &plain]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).1.contains("plain: it needs a folder"), "{output:?}");
    // Files of tools are replaced on request.
    let into = |more: &[&str]| {
        let args = ["run", "-q", trace.to_str().unwrap(), "--tool", &plain, "-o", out.to_str().unwrap()];
        quipu(&[&args[..], more].concat()).status.code()
    };
    assert_eq!([into(&[]), into(&[]), into(&["--force"])], [Some(0), Some(2), Some(0)]);
}

#[test]
fn a_new_tool_does_not_replace_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine");
    let make = |more: &[&str]| quipu(&[&["new-tool", path.to_str().unwrap()], more].concat());
    let output = make(&[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said(&output).0.contains("quipu run --tool target/release/libmine.so TRACE"), "{output:?}");
    let again = make(&["--language", "c"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).1.contains("there is something of that name already"), "{again:?}");
    let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("quipu-hooks = { path = \"/"), "{manifest}");
    assert_eq!(quipu(&["new-tool", "2 bad"]).status.code(), Some(2));
}
