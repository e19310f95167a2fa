//! The data that programs read from each trace in the repository does not change: `info --json`, the JSON of each analysis
//! that the trace supports, and the first rows of each table as JSON and CSV.
//!
//! `FORMAT.txt` next to this file has a line for each result: the exit code, a hash, the number of bytes, and the command.
//! `BLESS=1` rewrites the files, for a person to review. The results of the last run that agreed are kept in the target
//! folder, so that a later difference can be shown; if none were kept, run the test before the change that makes it fail.

use quipu::model::{OpenOptions, Trace};
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Number of bytes of a result that are compared.
const MOST_BYTES: u64 = 256 << 10;
/// Folders of the repository's traces that contain other programs' output, and files that accompany traces.
const NO_TRACES: &[&str] = &["golden", "golden-cli", "sim", "configs", "types"];

/// The analysis that has no result without an option.
const WANTS_MORE: &str = "layout";

/// Everything below a folder that opens as a trace of this format, sorted.
fn traces(folder: &Path, format: &str, found: &mut Vec<(PathBuf, Box<dyn Trace>)>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap();
        if NO_TRACES.contains(&name) {
            continue;
        }
        let opened = quipu::open_path(&path, &OpenOptions::default()).ok();
        match opened.filter(|trace| trace.meta().format == format) {
            Some(trace) => found.push((path, trace)),
            None if path.is_dir() => traces(&path, format, found),
            None => {}
        }
    }
}

/// The exit code and the beginning of standard output; the code is 0 if the output was cut.
fn run(trace: &Path, words: &[String]) -> (i32, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .current_dir(quipu_testkit::fixtures(""))
        .args(words)
        .arg(trace)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut text = String::new();
    let mut out = child.stdout.take().unwrap().take(MOST_BYTES);
    out.read_to_string(&mut text).unwrap();
    let is_whole = out.limit() > 0;
    drop(out);
    let status = child.wait().unwrap();
    (if is_whole { status.code().unwrap() } else { 0 }, text)
}

/// Results of all analyses that the trace supports, from a single read; if one of them fails, each from a read of its own.
fn analyses(name: &Path, trace: &dyn Trace) -> Vec<(String, i32, String)> {
    let known = quipu::tools_of(&trace.meta().format).map(quipu::model::Tool::info);
    let tools: Vec<&str> = known
        .filter(|info| info.needs.of(info.name, trace).is_ok() && info.name != WANTS_MORE)
        .map(|info| info.name)
        .collect();
    let analyze = |tools: &str| run(name, &["analyze".to_owned(), tools.to_owned(), "--json".to_owned()]);
    let (code, text) = analyze(&tools.join(","));
    let json = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
    // If one of them cannot run, the output is an error without results.
    let Some(results) = json["results"].as_object() else {
        let alone = tools.iter().map(|tool| (tool, analyze(tool)));
        return alone.map(|(tool, (code, text))| (format!("analyze {tool}"), code, text)).collect();
    };
    let pretty = |json| serde_json::to_string_pretty(json).unwrap() + "\n";
    results.iter().map(|(tool, json)| (format!("analyze {tool}"), code, pretty(json))).collect()
}

/// Commands with their exit codes and results.
fn answers(name: &Path, trace: &dyn Trace) -> Vec<(String, i32, String)> {
    let mut answers = analyses(name, trace);
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut ask = |line: String| {
        let (code, text) = run(name, &words(&line));
        answers.push((line, code, text));
    };
    ask("info --json".to_owned());
    for table in trace.tables().unwrap() {
        ask(format!("view --table {} --json", table.name));
        ask(format!("view --table {} --csv", table.name));
    }
    answers
}

/// FNV-1a, which is enough to notice a change.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn check(format: &str) {
    let root = quipu_testkit::fixtures("");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machine").join(format!("{format}.txt"));
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machine").join(format);
    fs::create_dir_all(&kept).unwrap();
    let mut found = Vec::new();
    traces(&root.join(format), format, &mut found);
    assert!(!found.is_empty());
    let (mut lines, mut differences) = (String::new(), String::new());
    for (path, trace) in &found {
        let name = path.strip_prefix(&root).unwrap();
        for (what, code, text) in answers(name, &**trace) {
            let line = format!("{code} {:016x} {} {what} {}\n", hash(&text), text.len(), name.display());
            let file = kept.join(format!("{:016x}", hash(&format!("{what} {}", name.display()))));
            if expected.contains(&line) {
                fs::write(&file, &text).unwrap();
            } else if let Ok(before) = fs::read_to_string(&file)
                && let Some(diff) = quipu_testkit::diff(&before, &text)
            {
                writeln!(differences, "{what} {}:\n{diff}", name.display()).unwrap();
            }
            lines.push_str(&line);
        }
    }
    if std::env::var_os("BLESS").is_none() && lines != expected {
        eprintln!("{differences}");
    }
    quipu_testkit::assert_golden(golden, &lines);
}

/// Formats with traces in the repository, those with the most bytes first, because they take longest.
fn formats() -> Vec<&'static str> {
    let mut formats: Vec<_> = quipu::FORMATS
        .iter()
        .map(|format| (bytes_in(&quipu_testkit::fixtures(format.info().name)), format.info().name))
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    formats.sort_unstable();
    formats.into_iter().rev().map(|(_, name)| name).collect()
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { bytes_in(&path) } else { path.metadata().unwrap().len() }).sum()
}

#[test]
fn answers_of_every_format_stay_as_they_are() {
    let left = Mutex::new(formats().into_iter());
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                loop {
                    let Some(format) = left.lock().unwrap().next() else { break };
                    check(format);
                }
            });
        }
    });
}
