//! What reaches a terminal: whatever traces and names of files hold, no verb passes a command on to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Sets the title, clears the screen, turns the direction of writing; each as long as what it takes the place of.
const BYTES: &[u8] = b"\x1b]0;x\x07\x1b[2J\xc2\x9b\xe2\x80\xae\xff\x7f\x1b[8m";

/// Verbs that hand their arguments to a compiler, whose messages pass through as they are.
const OTHERS_WRITE: &[&str] = &["cc", "c++"];

/// All commands, as words, but those whose output is another program's.
fn verbs() -> Vec<Vec<String>> {
    fn walk(command: &clap::Command, words: &[String], all: &mut Vec<Vec<String>>) {
        let is_ours = |name: &str| name != "help" && !OTHERS_WRITE.contains(&name);
        let inner: Vec<_> = command.get_subcommands().filter(|inner| is_ours(inner.get_name())).collect();
        if !words.is_empty() {
            all.push(words.to_vec());
        }
        for inner in inner {
            let words: Vec<String> = words.iter().cloned().chain([inner.get_name().to_owned()]).collect();
            walk(inner, &words, all);
        }
    }
    let mut all = Vec::new();
    walk(&quipu_cli::command(), &[], &mut all);
    all
}

/// Files of every family, with hostile bytes in names that they hold and in their own.
fn hostile(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for (format, name, word) in [
        ("apitrace", "synth-v3.trace", &b"gl"[..]),
        ("apitrace", "kinds.trace", b"gl"),
        ("cacheray", "structs.trace", b"struct"),
        ("drmemtrace", "small/drmemtrace.small.x64.trace", b""),
        ("din", "labels.din", b""),
    ] {
        let mut bytes = std::fs::read(quipu_testkit::fixtures(format).join(name)).unwrap();
        let mut at = 0;
        while let Some(found) =
            bytes[at..].windows(word.len().max(1)).position(|part| !word.is_empty() && part == word)
        {
            let n = word.len().min(BYTES.len());
            bytes[at + found..at + found + n].copy_from_slice(&BYTES[..n]);
            at += found + n;
        }
        let name = name.rsplit('/').next().unwrap();
        let path = folder.join(format!("{}-\x1b[2J\x07\u{202e}{name}", all.len()));
        std::fs::write(&path, bytes).unwrap();
        all.push(path);
    }
    all.push(lackey(folder));
    all.push(functions(folder));
    all.push(archive(folder));
    all
}

/// A command line that lackey repeats, with hostile bytes.
fn lackey(folder: &Path) -> PathBuf {
    let path = folder.join("hostile.lackey");
    let lines = [&b"==7== Lackey, an example Valgrind tool\n==7== Command: "[..], BYTES, b" <script>\n"];
    let records = b"I  04001000,3\n L 1ffefff5a0,8\n".repeat(20);
    std::fs::write(&path, [&lines.concat()[..], &records].concat()).unwrap();
    path
}

/// A folder whose list of functions has names with hostile bytes, and a formula.
fn functions(folder: &Path) -> PathBuf {
    let path = folder.join("functions");
    std::fs::create_dir(&path).unwrap();
    quipu_testkit::copy_files(&quipu_testkit::fixtures("drmemtrace").join("func-trace"), &path);
    let list = path.join("funclist.log");
    let names = std::fs::read(&list).unwrap();
    let mut changed = Vec::new();
    for (nth, line) in names.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let name = line.iter().position(|byte| *byte == b'!').unwrap();
        changed.extend_from_slice(&line[..=name]);
        changed.extend_from_slice(if nth % 2 == 0 { b"=cmd|' /C calc'!A0" } else { BYTES });
        changed.push(b'\n');
    }
    std::fs::write(list, changed).unwrap();
    path
}

/// An archive whose members have hostile bytes in their names; one of them is damaged, so that its name is shown.
fn archive(folder: &Path) -> PathBuf {
    let name = "tiny.chunk1000/drmemtrace.tiny.05701.3845.trace.zip";
    let mut bytes = std::fs::read(quipu_testkit::fixtures("drmemtrace").join(name)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(6).position(|part| part == b"chunk.") {
        bytes[at + found..at + found + 5].copy_from_slice(b"\x1b[2J\x07");
        at += found + 5;
    }
    let path = folder.join("hostile.zip");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// What a terminal gets of a command, its ends of lines as the program wrote them.
fn on_terminal(folder: &Path, args: &[String]) -> Vec<u8> {
    let quote = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let line: Vec<String> =
        [env!("CARGO_BIN_EXE_quipu").to_owned()].iter().chain(args).map(|word| quote(word)).collect();
    let done = Command::new("script")
        .args(["-qec", &format!("timeout 20 {}", line.join(" ")), "/dev/null"])
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut shown = done.stdout;
    let ends: Vec<usize> = memmem(&shown, b"\r\n");
    for at in ends.into_iter().rev() {
        shown.remove(at);
    }
    shown
}

/// Where a sequence of bytes stands.
fn memmem(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let found = bytes.windows(wanted.len()).enumerate().filter(|(_, part)| *part == wanted);
    found.map(|(at, _)| at).collect()
}

/// The first thing that a terminal would obey and that is no colour or line of progress of ours.
fn command_in(shown: &[u8]) -> Option<String> {
    let Ok(text) = std::str::from_utf8(shown) else { return Some("no UTF-8".to_owned()) };
    let text = text.replace("\r\x1b[K", "");
    let mut rest = text.as_str();
    while let Some(at) = rest.find('\x1b') {
        let end = rest[at..].find('m').filter(|end| {
            rest[at..].starts_with("\x1b[")
                && rest[at + 2..at + end].split(';').all(|code| {
                    matches!(code, "" | "0" | "1" | "2" | "4" | "31" | "32" | "33" | "34" | "35" | "36")
                })
        });
        let Some(end) = end else { return Some(rest[at..].chars().take(20).collect()) };
        rest = &rest[at + end + 1..];
    }
    let is_bad =
        |c: &char| (c.is_control() && !"\n\t\x1b".contains(*c)) || matches!(c, '\u{202a}'..='\u{202e}');
    text.chars().find(is_bad).map(|c| format!("{c:?}"))
}

#[test]
fn no_verb_passes_commands_of_a_trace_on_to_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let traces = hostile(folder.path());
    let words = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let verbs = verbs();
    assert!(verbs.len() > 20, "{verbs:?}");
    let lines = verbs.iter().flat_map(|verb| {
        traces.iter().map(|trace| verb.iter().cloned().chain([words(trace)]).collect::<Vec<String>>())
    });
    let lines = Mutex::new(lines);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(args) = lines.lock().unwrap().next() else { break };
                    let shown = on_terminal(folder.path(), &args);
                    let text = String::from_utf8_lossy(&shown).escape_debug().to_string();
                    assert_eq!(command_in(&shown), None, "{args:?}\n{text}");
                }
            });
        }
    });
    let (call, kinds, cacheray) = (words(&traces[0]), words(&traces[1]), words(&traces[2]));
    for line in [
        vec!["diff", &call, &kinds],
        vec!["as", "apitrace", "dump", &call],
        vec!["as", "apitrace", "info", &call],
        vec!["as", "apitrace", "dump", "--color=always", &kinds],
        vec!["as", "apitrace", "diff", "--tool=python", &call, &kinds],
        vec!["view", "--csv", &call],
        vec!["view", "--table", "args", &kinds],
        vec!["view", "--json", &cacheray],
        vec!["analyze", "types", &cacheray],
    ] {
        let args: Vec<String> = line.into_iter().map(str::to_owned).collect();
        let shown = on_terminal(folder.path(), &args);
        assert_eq!(command_in(&shown), None, "{args:?}\n{}", String::from_utf8_lossy(&shown).escape_debug());
    }
    // A pipe gets JSON that is text, and tables without commands and formulas.
    for trace in &traces {
        for form in [&["view", "--csv"][..], &["view", "--json"], &["report", "--json"], &["info", "--json"]]
        {
            let done = Command::new(env!("CARGO_BIN_EXE_quipu"))
                .current_dir(folder.path())
                .args(form)
                .arg(words(trace))
                .output()
                .unwrap();
            let text = String::from_utf8(done.stdout).unwrap();
            // JSON escapes what it must, and is data for programs.
            let is_csv = form.contains(&"--csv");
            let is_bad =
                |c: &char| if is_csv { c.is_control() && *c != '\n' } else { *c < ' ' && *c != '\n' };
            let place = text.chars().position(|c| is_bad(&c));
            assert_eq!(place, None, "{form:?} {trace:?}: {:?}", place.map(|at| &text[..at.min(text.len())]));
            if is_csv {
                let has_formula = text
                    .lines()
                    .flat_map(|line| line.split(','))
                    .any(|cell| matches!(cell.trim_start_matches('"').chars().next(), Some('=' | '+' | '@')));
                assert!(!has_formula, "{trace:?}: {text}");
            } else {
                for value in serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>() {
                    value.unwrap();
                }
            }
        }
    }
    // So does a page, in which no name begins a tag.
    for trace in &traces {
        let page = folder.path().join("page.html");
        let mut report = Command::new(env!("CARGO_BIN_EXE_quipu"));
        report
            .current_dir(folder.path())
            .args(["report", "-q", "--no-machine", "--force", "--html"])
            .arg(&page);
        report.arg(words(trace)).output().unwrap();
        if let Ok(text) = std::fs::read_to_string(&page) {
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{trace:?}");
            assert_eq!(text.matches("<script").count(), 1, "{trace:?}");
        }
    }
    // The names did get there, and the flag that lets them through does.
    let view = |flags: &[&str]| {
        let args: Vec<String> = ["view", &call].iter().chain(flags).map(|word| (*word).to_owned()).collect();
        String::from_utf8_lossy(&on_terminal(folder.path(), &args)).into_owned()
    };
    assert!(view(&[]).contains("\\x1b]"), "{}", view(&[]));
    assert!(view(&["--raw-names"]).contains("\x1b]"));
}
