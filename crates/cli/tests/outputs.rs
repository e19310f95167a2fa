//! Every verb and option that writes, with every kind of output path.

use clap::builder::ValueParser;
use quipu_testkit::fixtures;
use std::any::TypeId;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// One way to write: a verb, its option, and a command line with `IN` and `OUT` in it.
pub(crate) struct Row {
    verb: &'static str,
    option: &'static str,
    input: Input,
    pub(crate) line: &'static str,
    /// Whether the output is a folder.
    folder: bool,
    /// Whether files are replaced without `--force`, as in the programs whose command lines these are.
    replaces: bool,
}

/// The input of a command line.
#[derive(Clone, Copy)]
enum Input {
    File(&'static str, &'static str),
    Folder(&'static str, &'static str),
    /// Output of `disassemble` for a trace of apitrace.
    Text,
    /// A recording of an instrumented program.
    Capture,
}

const ENTRIES: Input = Input::File("drmemtrace", "small/drmemtrace.small.x64.trace");
const CHUNKS: Input = Input::File("drmemtrace", "as_traced/drmemtrace.simple_app.1674735.1533.trace.zip");
const THREADS: Input = Input::Folder("drmemtrace", "thr");
const CALLS: Input = Input::File("apitrace", "tri.trace");

const fn row(verb: &'static str, option: &'static str, input: Input, line: &'static str) -> Row {
    let folder = matches!(input, Input::Folder(..));
    Row { verb, option, input, line, folder, replaces: false }
}

const fn other(option: &'static str, input: Input, line: &'static str) -> Row {
    Row { replaces: true, ..row("as", option, input, line) }
}

pub(crate) const ROWS: &[Row] = &[
    row("report", "html", ENTRIES, "report --no-machine IN --html OUT"),
    row("analyze", "html", ENTRIES, "analyze counts IN --html OUT"),
    row("sim cache", "html", ENTRIES, "sim cache IN --html OUT"),
    row("sim cache", "miss-file", ENTRIES, "sim cache IN --miss-file OUT"),
    row("sim cache", "evictions", ENTRIES, "sim cache IN --evictions OUT"),
    row("sim tlb", "html", ENTRIES, "sim tlb IN --html OUT"),
    row("sim sweep", "html", ENTRIES, "sim sweep --sizes 4K IN --html OUT"),
    row("convert", "output", ENTRIES, "convert IN -o OUT"),
    row("convert", "output", ENTRIES, "convert --container zip IN -o OUT"),
    row("convert", "output", ENTRIES, "convert --to cacheray IN -o OUT"),
    row("convert", "output", CALLS, "convert IN -o OUT"),
    row("convert", "output", THREADS, "convert IN -o OUT"),
    row("trim", "output", ENTRIES, "trim --take 100 IN -o OUT"),
    row("trim", "output", CALLS, "trim --calls 0-5 IN -o OUT"),
    row(
        "filter",
        "output",
        Input::File("drmemtrace", "tiny.gz/drmemtrace.tiny.05701.3845.trace.gz"),
        "filter --icache 8Ki IN -o OUT",
    ),
    row("split", "output", Input::Folder("drmemtrace", "threadsig.core_sharded"), "split IN -o OUT"),
    row("merge", "output", ENTRIES, "merge IN -o OUT"),
    row("edit", "output", CALLS, "edit --replace s/GL_TRIANGLES/GL_POINTS/ IN -o OUT"),
    row("disassemble", "output", CALLS, "disassemble IN -o OUT"),
    row("assemble", "output", Input::Text, "assemble IN -o OUT"),
    row("recover", "output", CALLS, "recover IN -o OUT"),
    row("convert", "output", Input::Capture, "convert --to cacheray IN -o OUT"),
    other("repack", CALLS, "as apitrace repack IN OUT"),
    other("trim", CALLS, "as apitrace trim --calls=0-5 -o OUT IN"),
    other("sed", CALLS, "as apitrace sed -e s/GL_TRIANGLES/GL_POINTS/ -o OUT IN"),
    other("LL_miss_file", ENTRIES, "as drmemtrace -infile IN -tool cache_simulator -LL_miss_file OUT"),
    other("LL_miss_file", CHUNKS, "as drmemtrace -infile IN -tool miss_analyzer -LL_miss_file OUT"),
    other("outdir", THREADS, "as drmemtrace -tool record_filter -indir IN -outdir OUT"),
];

/// Options that name input files.
const READ: &[&str] = &[
    "path",
    "more",
    "paths",
    "old",
    "new",
    "text",
    "config",
    "v2p_file",
    "binary",
    "types",
    "remap",
    "calls",
    "token",
    "accept",
    "certificate",
];

/// Options that write but have tests of their own below, because their input is not a file, or they write many files.
const ELSEWHERE: &[(&str, &str)] = &[
    ("record", "output"),
    ("layout", "output"),
    ("view", "blobs"),
    ("run", "output"),
    ("sql", "output"),
    ("collect", "output"),
    ("collect", "new_token"),
    ("send", "new_certificate"),
    ("send", "spool"),
];

/// Command lines of other programs, whose options are unknown to our parser.
const AS: &[&str] = &["as apitrace", "as cacheray", "as drmemtrace", "as dtrace", "as prism"];

#[test]
fn no_option_that_names_a_file_is_forgotten() {
    fn walk(command: &clap::Command, path: &str, found: &mut BTreeSet<(String, String)>) {
        for arg in command.get_arguments() {
            let is_path = |parser: &ValueParser| parser.type_id() == TypeId::of::<PathBuf>();
            let names: Vec<String> =
                arg.get_value_names().unwrap_or_default().iter().map(|n| n.to_string()).collect();
            let is_named =
                names.iter().any(|name| ["FILE", "PATH", "FOLDER", "DIR"].contains(&name.as_str()));
            if (is_path(arg.get_value_parser()) || is_named) && !READ.contains(&arg.get_id().as_str()) {
                found.insert((path.to_owned(), arg.get_id().to_string()));
            }
        }
        for sub in command.get_subcommands() {
            walk(sub, format!("{path} {}", sub.get_name()).trim(), found);
        }
    }
    let mut found = BTreeSet::new();
    walk(&quipu_cli::command(), "", &mut found);
    let rows = ROWS.iter().filter(|row| row.verb != "as").map(|row| (row.verb, row.option));
    let known: BTreeSet<_> = rows
        .chain(ELSEWHERE.iter().copied())
        .map(|(verb, option)| (verb.to_owned(), option.to_owned()))
        .collect();
    assert_eq!(found, known, "each option that writes has a row, each that reads stands in READ");
    let command = quipu_cli::command();
    let programs = command.find_subcommand("as").unwrap().get_subcommands();
    let programs: Vec<String> = programs.map(|program| format!("as {}", program.get_name())).collect();
    assert_eq!(programs, AS);
}

impl Row {
    /// The words of the command line with this output.
    pub(crate) fn words(&self, out: &str) -> String {
        let words = self.line.split(' ').map(|word| match word {
            "IN" => "in",
            "OUT" => out,
            other => other,
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// A folder for one run, with the input in it.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    row: &'static Row,
}

impl Place {
    pub(crate) fn new(row: &'static Row) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in");
        match row.input {
            Input::File(family, name) => {
                fs::copy(fixtures(family).join(name), &input).unwrap();
            }
            Input::Folder(family, name) => copy_folder(&fixtures(family).join(name), &input),
            Input::Capture => fs::write(&input, crate::damage::samples::recorded()).unwrap(),
            Input::Text => {
                let trace = fixtures("apitrace").join("tri.trace");
                let line = format!("disassemble {} -o {}", trace.display(), input.display());
                assert_eq!(run(folder.path(), &line, false).0, 0);
            }
        }
        Place { folder, row }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the row's command line with this output; returns the exit code and the messages.
    pub(crate) fn write(&self, out: &str, force: bool) -> (i32, String) {
        let line = self.row.words(out);
        let answer = run(self.folder.path(), &line, force && !self.row.replaces);
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.ends_with(".part"), "{line}: {name} is left");
        }
        answer
    }

    fn refused(&self, out: &str, force: bool, why: &str) {
        let before = content(&self.path("in"));
        let (code, said) = self.write(out, force);
        assert!(code == 2 && said.contains(why), "{} to {out}: {code} {said}", self.row.line);
        assert_eq!(content(&self.path("in")), before, "{} to {out}", self.row.line);
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &copy);
        } else {
            fs::copy(&path, &copy).unwrap();
        }
    }
}

fn run(folder: &Path, line: &str, force: bool) -> (i32, String) {
    run_with(folder, &format!("{line}{}", if force { " --force" } else { "" }), &[])
}

/// Runs a command line with additional environment variables.
pub(crate) fn run_with(folder: &Path, line: &str, variables: &[(&str, OsString)]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.current_dir(folder).args(line.split(' '));
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let output = command.output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The bytes of a file, or of all files in a folder.
pub(crate) fn content(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    if !path.is_dir() {
        return vec![(PathBuf::new(), fs::read(path).unwrap())];
    }
    let mut all: Vec<_> = fs::read_dir(path)
        .unwrap()
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            let name = PathBuf::from(path.file_name().unwrap());
            content(&path).into_iter().map(move |(inner, bytes)| (name.join(inner), bytes))
        })
        .collect();
    all.sort();
    all
}

/// Reads everything in a thread of its own, so that a writer that never opens the pipe does not block the test.
fn read_later(open: impl FnOnce() -> Box<dyn Read> + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        open().read_to_end(&mut bytes).unwrap();
        let _ = sender.send(bytes);
    });
    receiver
}

const PATIENCE: Duration = Duration::from_secs(20);

fn walk_places(row: &'static Row) {
    let place = Place::new(row);
    let (code, said) = place.write("new", false);
    assert!(code < 2, "{}: {code} {said}", row.line);
    let new = content(&place.path("new"));
    assert!(new.iter().any(|(_, bytes)| !bytes.is_empty()), "{}: it is empty", row.line);

    // An existing file is kept unless it may be replaced.
    if !row.replaces {
        place.refused("new", false, "there is something of that name already");
        assert_eq!(content(&place.path("new")), new);
    }
    let (code, said) = place.write("new", true);
    assert!(code < 2, "{} --force: {code} {said}", row.line);
    assert_eq!(content(&place.path("new")).len(), new.len());

    // An input is kept, under any name.
    let why = "this is an input, and is never written over";
    symlink("in", place.path("soft")).unwrap();
    place.refused("in", true, why);
    place.refused("in", false, why);
    place.refused("soft", true, why);
    place.refused("./in", true, why);
    if row.folder {
        fs::write(place.path("file"), "a file").unwrap();
        place.refused("file", true, "a folder cannot replace a file");
        return;
    }
    fs::hard_link(place.path("in"), place.path("hard")).unwrap();
    place.refused("hard", true, why);
    fs::create_dir(place.path("folder")).unwrap();
    place.refused("folder", true, "a file cannot replace a folder");

    // Devices, pipes and sockets are written into.
    let (code, said) = place.write("/dev/null", false);
    assert!(code < 2, "{}: {said}", row.line);
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let (code, said) = place.write("/dev/full", false);
    assert!(code == 2 && said.contains("cannot write"), "{} to /dev/full: {code} {said}", row.line);

    let fifo = place.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let came = read_later({
        let fifo = fifo.clone();
        move || Box::new(fs::File::open(fifo).unwrap())
    });
    let (code, said) = place.write("fifo", false);
    assert!(code < 2, "{}: {said}", row.line);
    let piped = came.recv_timeout(PATIENCE).unwrap();
    assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
    let listener = UnixListener::bind(place.path("socket")).unwrap();
    let came = read_later(move || Box::new(listener.accept().unwrap().0));
    let (code, said) = place.write("socket", true);
    assert!(code < 2, "{}: {said}", row.line);
    assert_eq!(length(&came.recv_timeout(PATIENCE).unwrap()), length(&piped), "{}", row.line);
    assert_eq!(length(&piped), length(&fs::read(place.path("new")).unwrap()), "{}", row.line);
}

/// Number of bytes of an output, for a page of those before the command line at its end, which names the output.
fn length(output: &[u8]) -> usize {
    let footer = b"<footer>";
    output.windows(footer.len()).rposition(|bytes| bytes == footer).unwrap_or(output.len())
}

#[test]
fn an_input_is_never_overwritten_and_a_device_is_written_into_by_any_verb() {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(row) = ROWS.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    walk_places(row);
                }
            });
        }
    });
}

/// The reader of a pipe gets the output, and nothing else in it.
#[test]
fn bytes_that_go_into_a_pipe_or_device_are_counted_by_every_family() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let folder = tempfile::tempdir().unwrap();
    let families = [
        ("drmemtrace", "small/drmemtrace.small.x64.trace"),
        ("apitrace", "tri.trace"),
        ("cacheray", "shapes.trace"),
        ("lackey", "mixed.lackey"),
        ("prism", "prodcons.prism"),
        ("dtrace", "classic/mixed_1000"),
        ("stream", "dtrace-mixed_1000.quipu"),
    ];
    for (family, sample) in families {
        let input = traces.join(family).join(sample);
        // Lines of text can only become streams.
        let names = ["pipe", "pipe.quipu"].into_iter().skip(usize::from(family == "lackey"));
        for name in names {
            let fifo = folder.path().join(name);
            let _ = fs::remove_file(&fifo);
            assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
            let path = fifo.clone();
            let written = read_later(move || Box::new(fs::File::open(path).unwrap()));
            let counted = |to: &Path| -> Option<u64> {
                let mut quipu = Command::new(env!("CARGO_BIN_EXE_quipu"));
                let output =
                    quipu.args(["convert", "--json"]).arg(&input).arg("-o").arg(to).output().unwrap();
                let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
                assert!(output.status.success(), "{family} {name}: {output:?}");
                let of = |key: &str| said.get(key).and_then(serde_json::Value::as_u64);
                of("packed_bytes").or_else(|| of("bytes"))
            };
            let said = counted(&fifo);
            let n_bytes = written.recv_timeout(Duration::from_secs(60)).unwrap().len() as u64;
            assert!(n_bytes > 0, "{family} {name}");
            // A stream that is copied frame by frame reports no number of bytes.
            assert!(said.is_none_or(|said| said == n_bytes), "{family} {name}: {said:?} of {n_bytes}");
            assert!(said.is_some() || (family, name) == ("prism", "pipe.quipu"), "{family} {name}");
            if family != "lackey" {
                assert_ne!(counted(Path::new("/dev/null")), Some(0), "{family}");
            }
        }
    }
}

#[test]
fn the_answer_is_not_mixed_with_what_goes_into_a_pipe_by_the_name_of_standard_output() {
    for row in ROWS.iter().filter(|row| !row.folder && row.verb != "as") {
        let place = Place::new(row);
        let (code, said) = place.write("new", false);
        assert!(code < 2, "{}: {code} {said}", row.line);
        let line = row.words("/dev/stdout");
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        let output = command.current_dir(place.folder.path()).args(line.split(' ')).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() < Some(2), "{line}: {said}");
        let written = fs::read(place.path("new")).unwrap();
        assert_eq!(length(&output.stdout), length(&written), "{line}: {said}");
        if row.option == "output" {
            assert!(said.contains("/dev/stdout"), "{line} says nothing: {said}");
        }
    }
    let place = Place::new(&ROWS[0]);
    let line = "report --no-machine --json in --html /dev/stdout";
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    let output = command.current_dir(place.folder.path()).args(line.split(' ')).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}

#[test]
fn what_a_trace_holds_besides_its_records_is_an_input_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    copy_folder(&fixtures("drmemtrace").join("thr"), &at("thr"));
    let member =
        fs::read_dir(at("thr")).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_file());
    let member = member.unwrap();
    fs::hard_link(&member, at("hard")).unwrap();
    let bytes = fs::read(&member).unwrap();
    let shown = member.display();
    for line in [
        format!("report thr --no-machine --html {shown}"),
        "report thr --no-machine --html hard".to_owned(),
        format!("merge thr -o {shown}"),
        format!("analyze counts,histogram thr --html {shown}"),
    ] {
        let (code, said) = run(folder.path(), &line, true);
        assert!(code == 2 && said.contains("this is an input"), "{line}: {code} {said}");
        assert_eq!(fs::read(&member).unwrap(), bytes);
    }
    // A capture named by its description is read together with the files next to it.
    let [classic, linux] = ["classic/mixed_1000", "linux/trace_ints_quiet"];
    copy_folder(&fixtures("dtrace").join(classic), &at("dt"));
    copy_folder(&fixtures("dtrace").join(linux), &at("lx"));
    fs::hard_link(at("dt/agg.cpu1.bin"), at("hard-agg")).unwrap();
    for (line, input) in [
        ("report dt/meta.json --html dt/buf.cpu1.bin", "dt/buf.cpu1.bin"),
        ("report dt/meta.json --html hard-agg", "dt/agg.cpu1.bin"),
        ("report lx/raw.jsonl --html lx/opts", "lx/opts"),
    ] {
        let before = fs::read(at(input)).unwrap();
        let (code, said) = run(folder.path(), line, true);
        assert!(code == 2 && said.contains("this is an input"), "{line}: {code} {said}");
        assert_eq!(fs::read(at(input)).unwrap(), before, "{line}");
    }
    // A folder that contains the input, and other files that are read.
    fs::create_dir(at("outer")).unwrap();
    fs::rename(at("thr"), at("outer/thr")).unwrap();
    let (code, said) = run(folder.path(), "convert outer/thr -o outer", true);
    assert!(code == 2 && said.contains("this is an input"), "{said}");
    fs::copy(env!("CARGO_BIN_EXE_quipu"), at("prog")).unwrap();
    let (code, said) = run(folder.path(), "report outer/thr --binary prog --html prog", true);
    assert!(code == 2 && said.contains("this is an input"), "{said}");
    let trace = fixtures("apitrace").join("tri.trace");
    fs::write(at("set"), "1-5\n").unwrap();
    let line = format!("trim {} --calls @set -o set", trace.display());
    let (code, said) = run(folder.path(), &line, true);
    assert!(code == 2 && said.contains("this is an input"), "{said}");
    // Standard input may be a file.
    let entries = fixtures("drmemtrace").join("small/drmemtrace.small.x64.trace");
    fs::copy(entries, at("in")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    let line = ["report", "--no-machine", "--force", "--html", "in"];
    let command = command.current_dir(folder.path()).args(line).stdin(fs::File::open(at("in")).unwrap());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The next read of such a folder would include the output.
#[test]
fn no_verb_writes_a_trace_into_a_folder_that_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(&fixtures("drmemtrace").join("thr"), &folder.path().join("in"));
    fs::create_dir(folder.path().join("in/trace")).unwrap();
    let before = content(&folder.path().join("in"));
    let why = "the output would be a part of the trace that is read";
    let rows = ROWS.iter().filter(|row| row.verb != "as");
    for (row, out) in rows.flat_map(|row| ["in/new.trace.zip", "in/./trace/new.trace"].map(|out| (row, out)))
    {
        let (code, said) = run(folder.path(), &row.words(out), true);
        assert!(code == 2 && said.contains(why), "{} to {out}: {code} {said}", row.line);
        assert_eq!(content(&folder.path().join("in")), before, "{} to {out}", row.line);
    }
    let within = folder.path().join("in");
    for line in ["merge . -o new", "convert -o new .", "report --no-machine --html x.trace.html ."] {
        let (code, said) = run(&within, line, false);
        assert!(code == 2 && said.contains(why), "{line}: {code} {said}");
    }
    assert_eq!(content(&within), before);
    for line in [
        "as drmemtrace -tool record_filter -indir in -outdir in/new",
        "as drmemtrace -tool record_filter -indir in -outdir in/trace/new",
        "as drmemtrace -tool miss_analyzer -indir in -LL_miss_file in/x.trace",
    ] {
        let (code, said) = run(folder.path(), line, false);
        assert!(code == 2 && said.contains(why), "{line}: {code} {said}");
        assert_eq!(content(&within), before, "{line}");
    }
    // A page is not a trace.
    let (code, said) = run(&within, "report --no-machine --html page.html .", false);
    assert!(code == 0 && within.join("page.html").exists(), "{code} {said}");
    let (code, said) = run(folder.path(), "merge in -o new", false);
    assert!(code == 0 && !said.contains("error"), "{code} {said}");
}

#[test]
fn places_beside_the_files_that_are_read_are_free() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("p")).unwrap();
    copy_folder(&fixtures("drmemtrace").join("thr"), &at("p/trace"));
    fs::create_dir(at("g")).unwrap();
    fs::copy(fixtures("apitrace").join("kinds.trace"), at("g/kinds.trace")).unwrap();
    let why = "the output would be a part of the trace that is read";
    let (code, said) = run(folder.path(), "convert p -o p/trace/out", false);
    assert!(code == 2 && said.contains(why), "{code} {said}");
    for (line, out) in [
        ("convert p -o p/out", "p/out"),
        ("as drmemtrace -tool record_filter -indir p -outdir p/played", "p/played"),
        ("as drmemtrace -tool miss_analyzer -indir p -LL_miss_file p/trace/misses.txt", "p/trace/misses.txt"),
        ("disassemble g/kinds.trace -o g/kinds.txt", "g/kinds.txt"),
        ("disassemble g -o g/of-folder.txt", ""),
    ] {
        let (code, said) = run(folder.path(), line, false);
        assert!(!said.contains(why), "{line}: {code} {said}");
        assert!(out.is_empty() || code == 0 && at(out).exists(), "{line}: {code} {said}");
    }
}

#[test]
fn files_of_raw_memory_replace_others_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixtures("apitrace").join("kinds.trace");
    let line = format!("view --blobs=out {}", trace.display());
    let (code, said) = run(folder.path(), &line, false);
    assert!(code < 2, "{said}");
    let (code, said) = run(folder.path(), &line, false);
    assert!(code == 2 && said.contains("there is something of that name already"), "{code} {said}");
    assert!(run(folder.path(), &line, true).0 < 2);
    let line = format!("as apitrace dump --blobs {}", trace.display());
    assert!(run(folder.path(), &line, false).0 < 2);
    assert!(run(folder.path(), &line, false).0 < 2, "as apitrace does");
}

/// Records a program with a stand-in for DynamoRIO.
fn record(folder: &Path, line: &str, force: bool) -> (i32, String) {
    let home = folder.join("home");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.current_dir(folder).env("DYNAMORIO_HOME", &home).env("HOME_OF_FAKE", &home);
    command.args(["record", "--with", "dynamorio"]).args(force.then_some("--force")).args(line.split(' '));
    let output = command.output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_recording_replaces_traces_only_and_never_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    crate::record::fake_dynamorio(&at("home"));
    let answer = record(folder.path(), "-o out -- true", false);
    assert_eq!(answer.0, 0, "{}", answer.1);
    fs::copy("/bin/true", at("prog")).unwrap();
    fs::hard_link(at("prog"), at("hard")).unwrap();
    symlink("prog", at("soft")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("folder/mine"), "text").unwrap();
    for (line, force, why) in [
        ("-o out -- true", false, "there is something of that name already"),
        ("-o prog -- ./prog", true, "this is an input"),
        ("-o hard -- ./prog", true, "this is an input"),
        ("-o soft -- ./prog", true, "this is an input"),
        ("-o home/said -- true", true, "a folder cannot replace a file"),
        ("-o /dev/null -- true", true, "a folder cannot be written into a device"),
        ("-o folder -- true", true, "mine"),
    ] {
        let (code, said) = record(folder.path(), line, force);
        assert!(code == 2 && said.contains(why), "{line}: {code} {said}");
    }
    assert_eq!(content(&at("folder")), [(PathBuf::from("mine"), b"text".to_vec())]);
    assert_eq!(fs::read(at("prog")).unwrap(), fs::read("/bin/true").unwrap());
    let (code, said) = record(folder.path(), "-o out -- true", true);
    assert_eq!(code, 0, "{said}");
    let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_str().unwrap().ends_with(".part")));
}

/// The recording next to a trace is an output, too.
#[test]
fn the_recording_beside_a_trace_is_looked_at_before_the_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let ran = "#include <stdio.h>\nint main(void) { fclose(fopen(\"ran\", \"w\")); return 0; }\n";
    fs::write(at("prog.c"), ran).unwrap();
    let (code, said) = run(folder.path(), "cc -O1 prog.c -o prog", false);
    if code != 0 {
        eprintln!("passed over: {said}");
        return;
    }
    let record = |out: &str, force: bool| {
        run(
            folder.path(),
            &format!("record {}-o {out} -- ./prog", if force { "--force " } else { "" }),
            false,
        )
    };
    fs::write(at("rec.quipu"), "precious").unwrap();
    fs::create_dir(at("folder.quipu")).unwrap();
    for (out, force, why) in [
        ("rec", false, "there is something of that name already"),
        ("folder", true, "a file cannot replace a folder"),
        ("same.quipu", true, "that is what the recording beside the trace is called"),
    ] {
        let (code, said) = record(out, force);
        assert!(code == 2 && said.contains(why), "{out}: {code} {said}");
        assert!(!at("ran").exists() && !at(out).exists(), "{out}");
    }
    assert_eq!(fs::read(at("rec.quipu")).unwrap(), b"precious");
    // The target of a link is replaced, and the link stays.
    fs::rename(at("rec.quipu"), at("kept")).unwrap();
    symlink("kept", at("rec.quipu")).unwrap();
    let (code, said) = record("rec", true);
    assert_eq!(code, 0, "{said}");
    assert!(at("rec.quipu").symlink_metadata().unwrap().is_symlink());
    assert!(fs::read(at("kept")).unwrap().starts_with(b"\xF5QPU1\r\n\x1A"));
}

/// Prism opens the files of its back ends, so pipes are written into and links followed.
#[test]
fn files_of_prism_s_back_ends_go_into_pipes_and_through_links() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("out")).unwrap();
    fs::write(at("real"), "before").unwrap();
    symlink("../real", at("out/sigil.pthread.out")).unwrap();
    let fifo = at("out/sigil.stats.out");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let came = read_later({
        let fifo = fifo.clone();
        move || Box::new(fs::File::open(fifo).unwrap())
    });
    let trace = fixtures("prism").join("prodcons.prism");
    let line = format!("as prism --backend=stgen -o out --executable={}", trace.display());
    let (code, said) = run(folder.path(), &line, false);
    assert_eq!(code, 0, "{said}");
    assert!(!came.recv_timeout(PATIENCE).unwrap().is_empty());
    assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
    assert!(at("out/sigil.pthread.out").symlink_metadata().unwrap().is_symlink());
    assert_ne!(fs::read(at("real")).unwrap(), b"before");
    let names =
        fs::read_dir(at("out")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with('.')).count(), 0);
}

/// Command lines of other programs, each with an output that is also one of its other inputs, here named `set`.
#[test]
fn what_other_programs_command_lines_read_besides_the_trace_is_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::copy(fixtures("apitrace").join("tri.trace"), at("calls.trace")).unwrap();
    fs::copy(fixtures("drmemtrace").join("small/drmemtrace.small.x64.trace"), at("entries.trace")).unwrap();
    fs::write(at("set"), "1-5\n").unwrap();
    fs::hard_link(at("set"), at("hard")).unwrap();
    for line in [
        "as apitrace trim --calls=@set -o set calls.trace",
        "as apitrace trim --calls=@set -o hard calls.trace",
        "as apitrace sed --calls=@set -e s/GL_TRIANGLES/GL_POINTS/ -o set calls.trace",
        "as apitrace sed -e s/GL_TRIANGLES/@file(set)/ -o hard calls.trace",
        "as apitrace repack calls.trace calls.trace",
        "as drmemtrace -infile entries.trace -tool miss_analyzer -LL_miss_file set -funclist_file set",
        "as drmemtrace -infile entries.trace -tool miss_analyzer -LL_miss_file hard -funclist_file set",
        "as drmemtrace -infile entries.trace -tool cache_simulator -LL_miss_file entries.trace",
    ] {
        let (code, said) = run(folder.path(), line, false);
        assert!(code == 2 && said.contains("this is an input"), "{line}: {code} {said}");
        assert_eq!(fs::read(at("set")).unwrap(), b"1-5\n", "{line}");
    }
    // All files in a folder that is read belong to the trace.
    copy_folder(&fixtures("drmemtrace").join("func-trace"), &at("traces"));
    let list = fs::read(at("traces/funclist.log")).unwrap();
    let line = "as drmemtrace -indir traces -tool miss_analyzer -LL_miss_file traces/funclist.log";
    let (code, said) = run(folder.path(), line, false);
    assert!(code == 2 && said.contains("this is an input"), "{code} {said}");
    assert_eq!(fs::read(at("traces/funclist.log")).unwrap(), list);
    // A cache configuration that names itself as its miss file.
    let config = "num_cores 1\nline_size 64\nL1I { type instruction core 0 size 1K assoc 2 parent LL }\n\
        L1D { type data core 0 size 1K assoc 2 parent LL }\n\
        LL { size 4K assoc 4 parent memory miss_file config }\n";
    fs::write(at("config"), config).unwrap();
    let line = "as drmemtrace -infile entries.trace -tool cache_simulator -config_file config";
    let (code, said) = run(folder.path(), line, false);
    assert!(code == 2 && said.contains("this is an input"), "{code} {said}");
    assert_eq!(fs::read(at("config")).unwrap(), config.as_bytes());
}

#[test]
fn the_simulator_of_cacheray_spares_its_inputs_and_leaves_no_half_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let trace = fs::read(fixtures("cacheray").join("structs.trace")).unwrap();
    fs::write(at("t.trace"), &trace).unwrap();
    fs::copy(fixtures("cacheray").join("configs/l1-1k-2way.json"), at("c.json")).unwrap();
    let simulate =
        |more: &str| run(folder.path(), &format!("as cacheray simulator -i t.trace -c c.json{more}"), false);
    for input in ["t.trace", "c.json"] {
        let before = fs::read(at(input)).unwrap();
        for link in [fs::hard_link::<PathBuf, PathBuf>, symlink::<PathBuf, PathBuf>] {
            link(at(input), at("traceLog.txt")).unwrap();
            let (code, said) = simulate("");
            assert!(code == 2 && said.contains("this is an input"), "{input}: {code} {said}");
            assert_eq!(fs::read(at(input)).unwrap(), before);
            fs::remove_file(at("traceLog.txt")).unwrap();
        }
    }
    let (code, said) = simulate(" --out c.json");
    assert!(code == 2 && said.contains("cannot create the folder"), "{code} {said}");
    fs::create_dir(at("full")).unwrap();
    symlink("/dev/full", at("full/traceLog.txt")).unwrap();
    let (code, said) = simulate(" --out full");
    assert!(code == 2 && said.contains("cannot write"), "{code} {said}");
    assert!(fs::metadata(at("full/traceLog.txt")).unwrap().file_type().is_char_device());
    // A second run replaces the files of the first, as with Cacheray's simulator.
    for _ in 0..2 {
        let (code, said) = simulate(" --out new/deep");
        assert_eq!(code, 0, "{said}");
    }
    assert!(fs::metadata(at("new/deep/traceLog.txt")).unwrap().len() > 0);
    for name in ["", "full", "new/deep"] {
        let mut names = fs::read_dir(at(name)).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!names.any(|name| name.to_str().unwrap().ends_with(".part")), "{name}");
    }
}

#[test]
fn types_beside_a_program_spare_it_and_go_into_devices() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("prog.c"), "struct pair { int a, b; } it; int main(void) { return it.a; }\n").unwrap();
    let compiled =
        Command::new("cc").current_dir(folder.path()).args(["-g", "-o", "prog", "prog.c"]).status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("passed over: there is no cc");
        return;
    }
    let before = fs::read(at("prog")).unwrap();
    let write = || run(folder.path(), "as cacheray dwarf2json prog", false);
    for link in [fs::hard_link::<PathBuf, PathBuf>, symlink::<PathBuf, PathBuf>] {
        link(at("prog"), at("prog.dwarf.json")).unwrap();
        let (code, said) = write();
        assert!(code == 2 && said.contains("this is an input"), "{code} {said}");
        assert_eq!(fs::read(at("prog")).unwrap(), before);
        fs::remove_file(at("prog.dwarf.json")).unwrap();
    }
    symlink("/dev/full", at("prog.dwarf.json")).unwrap();
    let (code, said) = write();
    assert!(code == 2 && said.contains("cannot write"), "{code} {said}");
    fs::remove_file(at("prog.dwarf.json")).unwrap();
    for _ in 0..2 {
        assert_eq!(write().0, 0);
        assert!(fs::read_to_string(at("prog.dwarf.json")).unwrap().contains("pair"));
    }
}

#[test]
fn raw_memory_needs_a_folder_and_text_alone_goes_into_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let [plain, blobs] = ["tri.trace", "kinds.trace"].map(|name| fixtures("apitrace").join(name));
    // Raw memory goes to a folder next to the text, even if the text is a pipe.
    for (trace, has_folder) in [(&plain, false), (&blobs, true)] {
        let fifo = at("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let came = read_later({
            let fifo = fifo.clone();
            move || Box::new(fs::File::open(fifo).unwrap())
        });
        let line = format!("disassemble {} -o fifo", trace.display());
        let (code, said) = run(folder.path(), &line, true);
        assert!(code < 2, "{said}");
        assert!(!came.recv_timeout(PATIENCE).unwrap().is_empty());
        assert_eq!(at("fifo.blobs").exists(), has_folder, "{line}");
        fs::remove_file(&fifo).unwrap();
    }
    let line = format!("disassemble {} -o /dev/null", plain.display());
    assert_eq!(run(folder.path(), &line, false).0, 0);
    assert!(!Path::new("/dev/null.blobs").exists());
    let line = format!("disassemble {} -o /dev/full", plain.display());
    let (code, said) = run(folder.path(), &line, false);
    assert!(code == 2 && said.contains("cannot write"), "{code} {said}");
    // A device has no folder next to it; the verb refuses that and leaves nothing.
    fs::create_dir(at("dev")).unwrap();
    symlink("/dev/null", at("dev/null")).unwrap();
    for name in ["/dev/null", "/dev/full", "dev/null"] {
        let line = format!("disassemble {} -o {name}", blobs.display());
        let (code, said) = run(folder.path(), &line, true);
        assert!(code == 2 && said.contains("a device has none beside it"), "{name}: {code} {said}");
        assert!(!at(&format!("{name}.blobs")).exists(), "{name}");
    }
    assert_eq!(fs::read_dir(at("dev")).unwrap().count(), 1);
    let line = format!("view --blobs=/dev/null {}", blobs.display());
    let (code, said) = run(folder.path(), &line, true);
    assert!(code == 2 && said.contains("/dev/null"), "{code} {said}");
    // A device with the name of a file of raw memory.
    fs::remove_dir_all(at("fifo.blobs")).unwrap();
    let line = format!("view --blobs=out {}", blobs.display());
    assert!(run(folder.path(), &line, false).0 < 2);
    let first = fs::read_dir(at("out")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&first).unwrap();
    symlink("/dev/full", &first).unwrap();
    let (code, said) = run(folder.path(), &line, true);
    assert!(code == 2 && said.contains("cannot write"), "{code} {said}");
}

#[test]
fn help_and_versions_that_cannot_be_written_are_errors() {
    let print = |line: &str, out: fs::File| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        let done = command.args(line.split(' ')).stdout(out).stderr(std::process::Stdio::piped());
        let done = done.spawn().unwrap().wait_with_output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let mut lines: Vec<String> =
        ["--help", "-h", "--version", "help", "help view", "help as cacheray"].map(str::to_owned).to_vec();
    let command = quipu_cli::command();
    let is_ours = |verb: &&clap::Command| verb.get_name() != "help";
    lines.extend(command.get_subcommands().filter(is_ours).map(|verb| format!("{} --help", verb.get_name())));
    let programs = command.find_subcommand("as").unwrap().get_subcommands();
    lines.extend(programs.map(|program| format!("as {} --help", program.get_name())));
    for line in &lines {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, said) = print(line, full);
        assert!(code == Some(2) && said.contains("cannot write the answer"), "{line}: {code:?} {said}");
        // A reader that has closed its pipe has read enough.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = fs::File::from(std::os::fd::OwnedFd::from(writer));
        assert_eq!(print(line, closed), (Some(0), String::new()), "{line}");
    }
}

#[test]
fn a_full_disk_leaves_neither_half_a_file_nor_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixtures("drmemtrace").join("threadsig.x64");
    for line in ["convert", "merge", "report --html out --no-machine"] {
        let out = if line.contains("--html") { "" } else { "-o out" };
        // With a limit on file sizes, writing fails as on a full disk.
        let script = format!(
            "ulimit -f 16; exec {} {line} {} {out} 2>said",
            env!("CARGO_BIN_EXE_quipu"),
            trace.display()
        );
        let status = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).status().unwrap();
        let said = fs::read_to_string(folder.path().join("said")).unwrap();
        assert_eq!(status.code(), Some(2), "{line}: {said}");
        assert!(said.contains("cannot write"), "{line}: {said}");
        fs::remove_file(folder.path().join("said")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{line}");
    }
}

/// What a stream carries is written to an intermediate file first, which has no name that the user knows.
#[test]
fn a_full_disk_names_the_stream_and_no_file_on_the_way_to_it() {
    let folder = tempfile::tempdir().unwrap();
    for (line, trace) in [
        ("trim --skip 10", "apitrace/glxgears-300.trace"),
        ("filter --drop data", "drmemtrace/threadsig.x64"),
        ("convert --to cacheray", "drmemtrace/threadsig.x64"),
    ] {
        let script = format!(
            "ulimit -f 16; exec {} -q {line} {} -o out.quipu 2>said",
            env!("CARGO_BIN_EXE_quipu"),
            fixtures("").join(trace).display()
        );
        let status = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).status().unwrap();
        let said = fs::read_to_string(folder.path().join("said")).unwrap();
        assert_eq!(status.code(), Some(2), "{line}: {said}");
        assert!(said.starts_with("error: out.quipu: cannot write"), "{line}: {said}");
        fs::remove_file(folder.path().join("said")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{line}");
    }
}
