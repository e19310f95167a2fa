//! Number of instructions in hot loops, as counted by Valgrind, which the machine's load does not affect.
//!
//! Each case runs on a large and on a small trace of one family; the difference is the work for records, without the cost of
//! starting the program. A count more than 5 % above the number in `work.tsv` fails. The program is the test build, whose
//! hot crates are optimised; counts of another compiler differ slightly. `BLESS=1 cargo nextest run -p quipu-cli -E
//! 'test(work::)' -j 1` accepts the current counts, for a person to review.

use quipu_testkit::fixtures;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Permitted excess over the stored number, in thousandths.
const TOLERANCE: u64 = 50;

fn list() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/work.tsv")
}

/// The stored numbers, in thousands of instructions: one line per case, with a tab between name and number.
fn stored() -> BTreeMap<String, u64> {
    let text = fs::read_to_string(list()).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, n)| (name.into(), n.parse().unwrap()))
        .collect()
}

fn store(name: &str, count: u64) {
    let mut stored = stored();
    stored.insert(name.to_owned(), count);
    let lines: Vec<String> = stored.iter().map(|(name, count)| format!("{name}\t{count}\n")).collect();
    let head = "# Instructions of hot loops, in thousands; `BLESS=1` writes them (see work.rs).\n";
    fs::write(list(), format!("{head}{}", lines.concat())).unwrap();
}

/// Number of instructions that the program executes with these arguments; `@` is the trace and `>` a new file. `None`
/// without Valgrind.
fn count(args: &[&str], trace: &Path) -> Option<u64> {
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("counts");
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=no", "-q"]);
    command.arg(format!("--cachegrind-out-file={}", counts.display())).arg(env!("CARGO_BIN_EXE_quipu"));
    // One thread, because threads that wait for each other spin.
    command.args(["-j", "1", "-q"]);
    for arg in args {
        match *arg {
            "@" => command.arg(trace),
            ">" => command.arg(folder.path().join("out")),
            arg => command.arg(arg),
        };
    }
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let Ok(output) = output else {
        eprintln!("passed over: no `valgrind` here; the Debian package is `valgrind`");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "{args:?} {}: {said}", trace.display());
    let counts = fs::read_to_string(counts).unwrap();
    let summary = counts.lines().find_map(|line| line.strip_prefix("summary: ")).unwrap();
    Some(summary.trim().parse().unwrap())
}

#[track_caller]
fn holds(name: &str, args: &[&str], large: &str, small: &str) {
    let [large, small] = [large, small].map(|path| {
        let (family, name) = path.split_once('/').unwrap();
        fixtures(family).join(name)
    });
    compare(name, count(args, &large), count(args, &small));
}

/// The same for starting the program, and for recognising and opening a trace.
#[track_caller]
fn opens(name: &str, family: &str, trace: &str) {
    let trace = fixtures(family).join(trace);
    compare(name, count(&["info", "--quick", "@"], &trace), Some(0));
}

#[track_caller]
fn compare(name: &str, large: Option<u64>, small: Option<u64>) {
    let (Some(large), Some(small)) = (large, small) else { return };
    let now = large.checked_sub(small).expect("the smaller one does less") / 1000;
    if std::env::var_os("BLESS").is_some() {
        return store(name, now);
    }
    let Some(then) = stored().get(name).copied() else {
        panic!("`{name}` is not in {}; BLESS=1 writes it", list().display());
    };
    assert!(
        now * 1000 <= then * (1000 + TOLERANCE),
        "{name}: {now} thousand instructions, {then} before: {:.1} % more; BLESS=1 accepts that",
        (now as f64 / then as f64 - 1.0) * 100.0
    );
}

/// Cost of a hook in the loop over events: with a back end that counts them, minus one that takes none.
#[test]
fn the_hook_of_a_back_end() {
    let trace = fixtures("prism").join("fixed/prodcons.full.fixed18.zst");
    let run = |backend| count(&["run", "--format", "prism", "--backend", backend, "@", "-o", ">"], &trace);
    compare("prism-hook", run("simplecount"), run("null"));
}

const THREADS: &str = "drmemtrace/threadsig.x64";
const SMALL: &str = "drmemtrace/small/drmemtrace.small.x64.trace";

#[test]
fn counts_of_drmemtrace() {
    holds("drmemtrace-counts", &["analyze", "counts", "@"], THREADS, SMALL);
}

#[test]
fn checking_drmemtrace() {
    holds("drmemtrace-check", &["check", "@"], THREADS, SMALL);
}

#[test]
fn copying_drmemtrace() {
    holds("drmemtrace-convert", &["convert", "@", "-o", ">"], THREADS, SMALL);
}

#[test]
fn a_cache_under_drmemtrace() {
    holds("drmemtrace-cache", &["sim", "cache", "@"], THREADS, SMALL);
}

/// A trace of one thread, so that three of four cores are idle.
const THREAD: &str = "drmemtrace/threadsig.x64/drmemtrace.threadsig.872884.3060.trace.zip";

#[test]
fn a_cache_under_cores_that_rest() {
    let args = ["as", "drmemtrace", "-tool", "cache_simulator", "-infile", "@"];
    holds("drmemtrace-cores-cache", &args, THREAD, SMALL);
}

#[test]
fn a_schedule_of_cores_that_rest() {
    let args = ["as", "drmemtrace", "-tool", "schedule_stats", "-infile", "@"];
    holds("drmemtrace-cores-schedule", &args, THREAD, SMALL);
}

#[test]
fn reuse_distances_of_drmemtrace() {
    holds("drmemtrace-reuse", &["analyze", "reuse-distance", "@"], THREADS, SMALL);
}

#[test]
fn lines_of_drmemtrace() {
    holds("drmemtrace-view", &["view", "@"], "drmemtrace/tiny.gz", SMALL);
}

#[test]
fn rows_of_drmemtrace() {
    holds("drmemtrace-json", &["view", "--json", "@"], "drmemtrace/tiny.gz", SMALL);
}

#[test]
fn accesses_of_lackey() {
    holds(
        "lackey-working-set",
        &["analyze", "working-set", "@"],
        "lackey/nodes.lackey.gz",
        "lackey/mixed.lackey",
    );
}

#[test]
fn accesses_of_din() {
    holds("din-working-set", &["analyze", "working-set", "@"], "din/nodes.din.gz", "din/labels.din");
}

#[test]
fn accesses_of_cacheray() {
    holds(
        "cacheray-working-set",
        &["analyze", "working-set", "@"],
        "cacheray/threads.trace",
        "cacheray/structs.trace",
    );
}

#[test]
fn lines_of_cacheray() {
    holds("cacheray-view", &["view", "@"], "cacheray/threads.trace", "cacheray/structs.trace");
}

#[test]
fn calls_of_apitrace() {
    holds("apitrace-view", &["view", "@"], "apitrace/glxgears-300.trace", "apitrace/synth-d3d-kinds.trace");
}

#[test]
fn tags_of_cacheray() {
    let args = ["as", "cacheray", "tracecheck", "@"];
    holds("cacheray-tracecheck", &args, "cacheray/threads.trace", "cacheray/structs.trace");
}

#[test]
fn opening_lackey() {
    opens("opening-lackey", "lackey", "mixed.lackey");
}

#[test]
fn opening_drmemtrace() {
    opens("opening-drmemtrace", "drmemtrace", "small/drmemtrace.small.x64.trace");
}

#[test]
fn opening_apitrace() {
    opens("opening-apitrace", "apitrace", "glxgears-300.trace");
}

#[test]
fn opening_cacheray() {
    opens("opening-cacheray", "cacheray", "threads.trace");
}
