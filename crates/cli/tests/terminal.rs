//! What reaches a terminal: whatever traces and names of files hold, no verb passes a command on to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    all
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
    String::from_utf8_lossy(&done.stdout).replace("\r\n", "\n").into_bytes()
}

/// The first thing that a terminal would obey and that is no colour or line of progress of ours.
fn command_in(shown: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(shown).replace("\r\x1b[K", "");
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
    let is_bad = |c: &char| {
        (c.is_control() && !"\n\t\x1b".contains(*c)) || matches!(c, '\u{202a}'..='\u{202e}' | '\u{fffd}')
    };
    text.chars().find(is_bad).map(|c| format!("{c:?}"))
}

#[test]
fn no_verb_passes_commands_of_a_trace_on_to_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let traces = hostile(folder.path());
    let words = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let verbs = verbs();
    assert!(verbs.len() > 20, "{verbs:?}");
    for verb in &verbs {
        for trace in &traces {
            let args: Vec<String> = verb.iter().cloned().chain([words(trace)]).collect();
            let shown = on_terminal(folder.path(), &args);
            assert_eq!(
                command_in(&shown),
                None,
                "{args:?}\n{}",
                String::from_utf8_lossy(&shown).escape_debug()
            );
        }
    }
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
    // The names did get there, and the flag that lets them through does.
    let view = |flags: &[&str]| {
        let args: Vec<String> = ["view", &call].iter().chain(flags).map(|word| (*word).to_owned()).collect();
        String::from_utf8_lossy(&on_terminal(folder.path(), &args)).into_owned()
    };
    assert!(view(&[]).contains("\\x1b]"), "{}", view(&[]));
    assert!(view(&["--raw-names"]).contains("\x1b]"));
}
