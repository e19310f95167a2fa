//! Runs the commands of the tutorials, of the commonest jobs and of first tasks in order, as the pages print them, and compares
//! the results.

// A test whose setup fails has failed.
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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

impl Step {
    /// The exit code that the page states in the command's comment, `# exits with 1`; otherwise 0.
    fn code(&self) -> i32 {
        self.command.split_once("# exits with ").map_or(0, |(_, code)| code.trim().parse().unwrap())
    }
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

    /// A desk in whose folder the traces of the repository are, too.
    fn with_traces() -> Desk {
        let desk = Desk::new();
        std::os::unix::fs::symlink(docs().join("../traces"), desk.folder.path().join("traces")).unwrap();
        desk
    }

    fn run(&self, command: &str) -> Output {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", command]).current_dir(&self.folder);
        shell.env("PATH", &self.path).env("COLUMNS", "100").env("XDG_CACHE_HOME", self.folder.path());
        shell.env("CARGO_NET_OFFLINE", "true").env_remove("CARGO_TARGET_DIR");
        shell.stdin(Stdio::null()).output().unwrap()
    }

    pub(crate) fn type_in(&self, command: &str) -> String {
        let output = self.run(command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The output of a step, followed by its messages. The exit code has to be the one that the page states.
    fn on_screen(&self, step: &Step) -> String {
        let output = self.run(&step.command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(step.code()), "{}: {said}", step.command);
        String::from_utf8(output.stdout).unwrap() + &said
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
        let output = desk.on_screen(step);
        let mut lines = output.lines().map(seen);
        for shown in step.shown.iter().map(|line| seen(line)).filter(|line| !line.is_empty()) {
            assert!(lines.any(|line| line == shown), "{}: no line as {shown:?} in\n{output}", step.command);
        }
        outputs.insert(step.command.as_str(), output);
    }
    outputs
}

#[test]
fn first_tasks_of_each_kind_of_users_are_done_as_their_page_says() {
    let desk = Desk::with_traces();
    let can_record = has_tools(&desk);
    let page = fs::read_to_string(docs().join("tasks.md")).unwrap();
    let users: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert_eq!(users.len(), 5);
    for user in users {
        assert_eq!(user.matches("\n### ").count(), 12, "{user}");
        // Numbers of recordings depend on compilers and machines; all others are compared exactly.
        let is_recorded = user.contains("\nquipu record ");
        let seen: fn(&str) -> String = if is_recorded { shape } else { str::to_owned };
        if can_record || !is_recorded {
            typed(&desk, &steps(user), seen);
        }
    }
}

#[test]
fn what_the_tutorials_for_architects_and_graphics_type_shows_what_they_say() {
    let desk = Desk::with_traces();
    for page in ["tutorial-architect.md", "tutorial-graphics.md"] {
        let steps = steps(&fs::read_to_string(docs().join(page)).unwrap());
        assert!(steps.len() > 8, "{page}");
        typed(&desk, &steps, str::to_owned);
    }
}

#[test]
fn the_commonest_jobs_are_done_as_their_page_says() {
    let desk = Desk::with_traces();
    let page = fs::read_to_string(docs().join("howto.md")).unwrap();
    let steps = steps(&page);
    // These do not depend on compilers or machines, so their lines are compared exactly.
    let outputs = typed(&desk, &steps, str::to_owned);
    assert!(outputs.len() >= page.matches("\n### ").count());
}

/// The files that a page shows: each block after a line that is only a name, such as "`main.c`:".
fn files_of(page: &str) -> Vec<(&str, String)> {
    let (mut files, mut name, mut text) = (Vec::new(), None, None::<String>);
    for line in page.lines() {
        match (&mut text, line) {
            (Some(_), "```") => files.extend(name.take().zip(text.take())),
            (Some(text), line) => text.extend([line, "\n"]),
            (None, line) if line.starts_with("```") && name.is_some() => text = Some(String::new()),
            (None, line) if !line.is_empty() => {
                name = line.strip_prefix('`').and_then(|line| line.strip_suffix("`:"));
            }
            _ => {}
        }
    }
    files
}

/// What each section of the page of build systems needs: programs, and Debian's packages that have them.
const BUILD_TOOLS: &[(&str, &[(&str, &str)])] = &[
    ("make", &[("make", "make")]),
    ("autotools", &[("autoconf", "autoconf"), ("make", "make")]),
    ("CMake", &[("cmake", "cmake"), ("make", "make")]),
    ("meson", &[("meson", "meson"), ("ninja", "ninja-build"), ("pkg-config", "pkg-config")]),
    ("pkg-config", &[("pkg-config", "pkg-config"), ("gcc", "gcc")]),
    ("cargo", &[]),
    ("Libraries in programs that are not instrumented", &[("python3", "python3")]),
    ("The header without the wrapper", &[]),
    ("Programs that a build runs", &[]),
];

#[test]
fn build_systems_are_used_as_their_page_says() {
    let page = fs::read_to_string(docs().join("build-systems.md")).unwrap();
    let desk = Desk::new();
    let files = files_of(&page);
    assert_eq!(files.len(), 8, "{files:?}");
    for (name, text) in files {
        fs::write(desk.folder.path().join(name), text).unwrap();
    }
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert_eq!(sections.len(), BUILD_TOOLS.len());
    for (section, (title, tools)) in sections.iter().zip(BUILD_TOOLS) {
        assert!(section.starts_with(&format!("{title}\n")), "{title}: {section}");
        let is_absent =
            |tool: &str| Command::new(tool).arg("--version").stdout(Stdio::null()).status().is_err();
        let absent: Vec<&str> =
            tools.iter().filter(|(tool, _)| is_absent(tool)).map(|(_, package)| *package).collect();
        if !absent.is_empty() {
            eprintln!("passed over: {title}: install {}", absent.join(" "));
            continue;
        }
        let steps = steps(section);
        if steps.iter().any(|step| !step.shown.is_empty()) {
            typed(&desk, &steps, shape);
        } else {
            steps.iter().for_each(|step| drop(desk.type_in(&step.command)));
        }
    }
    // Programs by which builds tried the compiler left nothing.
    let tried = desk.type_in("find . -name '*.quipu'");
    assert!(tried.lines().all(|path| path.matches('/').count() == 1), "{tried}");
    assert!(
        ["conftest", "cmTC_", "sanity", "output.exe"].iter().all(|name| !tried.contains(name)),
        "{tried}"
    );
}

/// The commands of the overview in the README, with a trace of the repository in the place of `TRACE`; without those that
/// name further files of the reader, or only a verb.
fn overview(readme: &str) -> Vec<String> {
    let lines = steps(readme).into_iter().map(|step| step.command);
    let commands = lines.flat_map(|line| {
        let line = line.split(" # ").next().unwrap_or_default().to_owned();
        line.split(';').map(|command| command.trim().to_owned()).collect::<Vec<_>>()
    });
    let is_whole = |command: &String| {
        let mut words = command.split_whitespace();
        let is_ours = words.next() == Some("quipu") && words.next() != Some("sql");
        is_ours && words.any(|word| word == "TRACE") && !words_of_the_reader(command)
    };
    let trace = |command: String| match command.contains(" describe ") {
        true => command.replace("TRACE", "traces/stream/all-types.quipu"),
        false => command.replace("TRACE", "traces/drmemtrace/tiny.gz"),
    };
    commands.filter(is_whole).map(trace).collect()
}

/// Whether a command names a program, a type or a text of the reader, or leaves something out.
fn words_of_the_reader(command: &str) -> bool {
    command.split_whitespace().any(|word| matches!(word, "P" | "T" | "…" | "DIR" | "game.trace"))
}

#[test]
fn what_the_readme_gives_an_overview_of_can_be_typed() {
    let desk = Desk::with_traces();
    let commands = overview(&fs::read_to_string(docs().join("../README.md")).unwrap());
    assert!(commands.len() >= 8, "{commands:?}");
    for command in &commands {
        assert!(!desk.type_in(command).is_empty() || command.contains("--html"), "{command}");
    }
    // So can what these pages begin with, in another folder, since outputs have the same names.
    let desk = Desk::with_traces();
    for page in ["report.md", "formats/columnar.md"] {
        let steps = steps(&fs::read_to_string(docs().join(page)).unwrap());
        assert!(!steps.is_empty(), "{page}");
        steps.iter().for_each(|step| drop(desk.type_in(&step.command)));
    }
}

/// The words after `quipu` at the beginning of lines and of code within lines.
fn named_verbs(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("quipu ").filter_map(move |(at, name)| {
        let is_command = at == 0 || text[..at].ends_with(['`', '\n']);
        let rest = &text[at + name.len()..];
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || matches!(c, '-' | '+')));
        let word = &rest[..end.unwrap_or(rest.len())];
        // Options, paths and words in capitals are other arguments.
        (is_command && word.starts_with(|c: char| c.is_ascii_lowercase())).then_some(word)
    })
}

#[test]
fn every_verb_that_a_page_names_exists() {
    let command = quipu_cli::command();
    let is_verb = |word: &str| word == "help" || command.find_subcommand(word).is_some();
    let folder = |path: PathBuf| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let pages = folder(docs()).chain(folder(docs().join("formats"))).chain([docs().join("../README.md")]);
    let mut n_named = 0;
    for page in pages.filter(|path| path.extension().is_some_and(|end| end == "md")) {
        let text = fs::read_to_string(&page).unwrap();
        for word in named_verbs(&text) {
            // `quipu trace.zip` is `quipu report trace.zip`.
            assert!(is_verb(word) || word == "trace", "{}: `quipu {word}`", page.display());
            n_named += 1;
        }
    }
    assert!(n_named > 300, "{n_named}");
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
