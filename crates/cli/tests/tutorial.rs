//! Runs the commands of the tutorial and of the commonest tasks in order, as the pages print them, and compares the results.

// A test whose setup fails has failed.
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A reader's environment: the programs' folder, and `quipu` in `PATH`.
pub(crate) struct Desk {
    folder: tempfile::TempDir,
    path: String,
}

/// A command of the tutorial, and the part of its output that the tutorial shows.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) shown: Vec<String>,
}

pub(crate) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The commands of all `console` blocks; a `text` block belongs to the one before it.
pub(crate) fn steps(tutorial: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut block = None;
    for line in tutorial.lines() {
        match (block, line.strip_prefix("```")) {
            (None, Some(kind)) => block = Some(kind),
            (Some(_), Some(_)) => block = None,
            (Some("console"), None) => {
                steps.push(Step { command: line.to_owned(), shown: Vec::new() });
            }
            (Some("text"), None) => steps.last_mut().unwrap().shown.push(line.to_owned()),
            _ => {}
        }
    }
    steps
}

/// A line without the parts that differ between compilers and machines: numbers, addresses, and widths that follow from
/// them.
pub(crate) fn shape(line: &str) -> String {
    let is_number = |word: &str| {
        let digits = word.trim_start_matches(['-', '+', '(']).trim_end_matches([')', ',']);
        digits.starts_with("0x")
            || digits.starts_with(|c: char| c.is_ascii_digit())
                && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | '.' | '-'))
    };
    let words = line.split_whitespace().map(|word| if is_number(word) { "0" } else { word });
    let words: Vec<_> =
        words.map(|word| if matches!(word, "B" | "KiB" | "MiB") { "B" } else { word }).collect();
    // The instructions at an address depend on the compiler.
    let kept = if line.trim_start().starts_with("0x") { words.len().min(3) } else { words.len() };
    words.get(..kept).unwrap_or_default().join(" ")
}

impl Desk {
    pub(crate) fn new() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(docs().join("tutorial")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
        let programs = Path::new(env!("CARGO_BIN_EXE_quipu")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "-p", "quipu-rt", "--target-dir"]);
        cargo.arg(programs.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
        if programs.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success());
        let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap());
        Desk { folder, path }
    }

    pub(crate) fn type_in(&self, command: &str) -> String {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", command]).current_dir(&self.folder);
        shell.env("PATH", &self.path).env("COLUMNS", "100").env("XDG_CACHE_HOME", self.folder.path());
        shell.env("CARGO_NET_OFFLINE", "true").env_remove("CARGO_TARGET_DIR");
        let output = shell.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Whether everything that the tutorial needs is installed; otherwise prints what is missing.
pub(crate) fn has_tools(desk: &Desk) -> bool {
    let list = desk.type_in("quipu record --list");
    let qemu = list.lines().skip_while(|line| !line.starts_with("qemu")).nth(1);
    let has_compiler = Command::new("gcc").arg("--version").stdout(Stdio::null()).status().is_ok();
    if qemu != Some("  usable here") || !has_compiler {
        eprintln!("passed over: the tutorial needs gcc and qemu-user");
        return false;
    }
    true
}

/// The number after `label`, in the first line that begins with it and has one.
fn number(output: &str, label: &str) -> u64 {
    let mut rest = output.lines().filter_map(|line| line.trim_start().strip_prefix(label));
    let found = rest.find_map(|rest| rest.split_whitespace().next()?.replace(',', "").parse().ok());
    found.unwrap_or_else(|| panic!("no number behind {label:?} in {output}"))
}

/// Misses of the first data caches in the table of levels, whose columns are caches, hits, misses.
fn first_misses(output: &str) -> u64 {
    let mut rows = output.lines().filter_map(|line| line.trim_start().strip_prefix("L1D "));
    let found = rows.find_map(|row| {
        let words: Vec<_> = row.split_whitespace().collect();
        words.first()?.parse::<u64>().ok()?;
        words.get(2)?.replace(',', "").parse().ok()
    });
    found.unwrap_or_else(|| panic!("no row of L1D in {output}"))
}

/// Runs all steps and returns their output, which has to contain the lines shown on the page, compared after `seen`.
fn typed<'s>(desk: &Desk, steps: &'s [Step], seen: fn(&str) -> String) -> BTreeMap<&'s str, String> {
    assert!(steps.iter().any(|step| !step.shown.is_empty()));
    let mut outputs = BTreeMap::new();
    for step in steps {
        let output = desk.type_in(&step.command);
        let mut lines = output.lines().map(seen);
        for shown in step.shown.iter().map(|line| seen(line)).filter(|line| !line.is_empty()) {
            assert!(lines.any(|line| line == shown), "{}: no line as {shown:?} in\n{output}", step.command);
        }
        outputs.insert(step.command.as_str(), output);
    }
    outputs
}

#[test]
fn the_commonest_jobs_are_done_as_their_page_says() {
    let desk = Desk::new();
    std::os::unix::fs::symlink(docs().join("../traces"), desk.folder.path().join("traces")).unwrap();
    let page = fs::read_to_string(docs().join("howto.md")).unwrap();
    let steps = steps(&page);
    // These do not depend on compilers or machines, so their lines are compared exactly.
    let outputs = typed(&desk, &steps, str::to_owned);
    assert!(outputs.len() >= page.matches("\n### ").count());
}

#[test]
fn what_the_tutorial_types_shows_what_it_says() {
    let desk = Desk::new();
    if !has_tools(&desk) {
        return;
    }
    let steps = steps(&fs::read_to_string(docs().join("tutorial.md")).unwrap());
    let outputs = typed(&desk, &steps, shape);

    let simulated = |trace: &str| first_misses(&outputs[format!("quipu sim cache {trace}").as_str()]);
    assert!(simulated("matrix.dir") > 10 * simulated("matrix-fixed.dir"));
    assert!(simulated("list.dir") > 2 * simulated("list-fixed.dir"));

    let types =
        |name: &str| &outputs[format!("quipu analyze types --binary {name}-typed {name}.trace").as_str()];
    let [matrix, list] = ["matrix", "list"].map(types);
    let all = number(matrix, "L1D misses");
    assert!(all > 10 * number(types("matrix-fixed"), "L1D misses"));
    assert!(number(list, "L1D misses") > 2 * number(types("list-fixed"), "L1D misses"));
    // From the source: two accesses per step of the inner loop, two per sum; initialization before, output after.
    let [rows, n] = [16, 128];
    assert_eq!(number(matrix, "accesses "), 2 * rows * n * n + 2 * rows * n + n * n + rows * n + 1);
    // Twenty rounds over two members of 2,000 people, and three stores to each.
    assert_eq!(number(list, "accesses "), 20 * 2 * 2000 + 3 * 2000);
}
