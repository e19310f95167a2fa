//! Output on a terminal: no verb passes on control sequences from traces or file names.

use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::write::{Options, Writer};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Sets the title, clears the screen, reverses the text direction, sets a colour. It replaces text of the same length.
const BYTES: &[u8] = b"\x1b]0;x\x07\x1b[2J\xc2\x9b\xe2\x80\xae\xff\x7f\x1b[8m\x1b[35m";

/// A colour that our own output does not use, in place of a word of six letters.
const MAGENTA: &[u8] = b"\x1b[35mX";

/// A colour that our own output uses, too, in names of streams and of captures of DTrace.
const RED: &str = "\x1b[31mred";

/// A formula that spreadsheet programs would execute.
const FORMULA: &[u8] = b"=cmd|' /C calc'!A0";

/// Verbs that run a compiler, whose messages pass through unchanged.
const OTHERS_WRITE: &[&str] = &["cc", "c++"];

/// All commands, as words, except those whose output is another program's.
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

/// Files of every family, with hostile bytes in the names that they contain and in their file names.
fn hostile(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for (format, name, word, put) in [
        ("apitrace", "synth-v3.trace", &b"gl"[..], BYTES),
        ("apitrace", "kinds.trace", b"gl", BYTES),
        ("cacheray", "structs.trace", b"struct", BYTES),
        ("cacheray", "shapes.trace", b"struct", FORMULA),
        ("drmemtrace", "small/drmemtrace.small.x64.trace", b"", BYTES),
        ("din", "labels.din", b"", BYTES),
        ("apitrace", "kinds.trace", b"screen", MAGENTA),
        ("cacheray", "structs.trace", b"struct", MAGENTA),
    ] {
        let mut bytes = std::fs::read(quipu_testkit::fixtures(format).join(name)).unwrap();
        let mut at = 0;
        while let Some(found) =
            bytes[at..].windows(word.len().max(1)).position(|part| !word.is_empty() && part == word)
        {
            let n = word.len().min(put.len());
            bytes[at + found..at + found + n].copy_from_slice(&put[..n]);
            at += found + n;
        }
        let name = name.rsplit('/').next().unwrap();
        let path = folder.join(format!("{}-\x1b[2J\x1b[35m\x07\u{202e}{name}", all.len()));
        std::fs::write(&path, bytes).unwrap();
        all.push(path);
    }
    all.push(lackey(folder));
    all.push(lines(folder, "odd.lackey", b"I  04001000,3\n", b" L 1ffefff5a0,"));
    all.push(lines(folder, "odd.din", b"2 1000\n0 2000\n", b"0 "));
    all.push(lines(folder, "label.din", b"2 1000\n0 2000\n", b""));
    all.push(functions(folder));
    all.push(archive(folder));
    all.push(modules(folder));
    all.push(capture(folder));
    all.extend(buffers(folder));
    all.push(events(folder));
    all.push(described(folder));
    all
}

/// Captures of DTrace with hostile bytes in probes, formats, variables and strings: a description with its buffers, and
/// lines.
fn buffers(folder: &Path) -> [PathBuf; 2] {
    // Red, like our own colours.
    let hostile = format!("{}{RED}", String::from_utf8_lossy(BYTES));
    let formula = String::from_utf8_lossy(FORMULA);
    let hex = |parts: &[&[u8]]| parts.concat().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut text = [0; 48];
    text[..BYTES.len()].copy_from_slice(BYTES);
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let record = hex(&[&words(&[1, 0, 7]), &text, &text]);
    let state = hex(&[&words(&[1, 0, 1, 0]), &text, &words(&[3, 0])]);
    let rec = |action: u16, size: u32, offset: u32, format: u16, alignment: u16| {
        serde_json::json!({
            "action": action, "size": size, "offset": offset, "alignment": alignment, "format": format, "arg": 0,
        })
    };
    let meta = serde_json::json!({
        "name": hostile, "byte_order": "little",
        "probes": [{"id": 1, "provider": formula, "module": hostile, "function": hostile, "name": hostile}],
        "formats": [{"id": 1, "string": format!("%s{hostile}\n")}],
        "eprobes": [{"epid": 1, "probeid": 1, "size": 108, "recs": [rec(1, 48, 12, 0, 4), rec(3, 48, 60, 1, 4)]}],
        "aggregations": [{
            "id": 1, "epid": 1, "varid": 1, "name": formula, "size": 72,
            "recs": [rec(1, 8, 8, 0, 8), rec(1, 48, 16, 0, 8), rec(0x701, 8, 64, 0, 8)],
        }],
        "buffers": [{"cpu": 0, "file": hostile, "hex": record}],
        "aggbuffers": [{"cpu": 0, "file": hostile, "hex": state}],
    });
    let lines = [
        serde_json::json!({"t": "probe", "id": 1, "prv": hostile, "mod": formula, "fun": hostile, "prb": hostile}),
        serde_json::json!({"t": "datadesc", "stid": 1, "recs": [{
            "action": 3, "size": 48, "offset": 16, "alignment": 1, "format": format!("%s{hostile}\n"),
        }]}),
        serde_json::json!({"t": "sample", "cpu": 0, "raw": hex(&[&words(&[60, 0, 1, 1]), &text])}),
    ];
    let lines = lines.map(|line| {
        // The kind of a line comes first.
        let kind = line["t"].to_string();
        let line = line.to_string();
        let rest = line.replace(&format!(",\"t\":{kind}"), "");
        format!("{{\"t\":{kind},{}\n", &rest[1..])
    });
    let (described, raw) = (folder.join("hostile.json"), folder.join("hostile.jsonl"));
    std::fs::write(&described, meta.to_string()).unwrap();
    std::fs::write(&raw, lines.concat()).unwrap();
    [described, raw]
}

/// A stream whose program, schema and field have hostile names.
fn described(folder: &Path) -> PathBuf {
    let name = format!("{}{RED}", String::from_utf8_lossy(BYTES));
    let writer = Writer::new(Vec::new(), Options::new(&name));
    let schema = SchemaSpec::new(&name).field(&name, Ty::Uint(64));
    let id = writer.schema(&SchemaSpec { category: Some(name), ..schema }).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for time in 0..3_u64 {
        stream.row(id, time, 8, |body| body.put(0, &time.to_le_bytes())).unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    let path = folder.join("described.quipu");
    std::fs::write(&path, writer.into_inner().unwrap()).unwrap();
    path
}

/// Workload events whose functions have hostile names.
fn events(folder: &Path) -> PathBuf {
    let mut bytes = [&2u64.to_le_bytes()[..], &(BYTES.len() as u64 + 1).to_le_bytes()].concat();
    for kind in [3, 4] {
        bytes.extend_from_slice(&[4, kind]);
        bytes.extend_from_slice(&0u32.to_le_bytes());
        bytes.extend_from_slice(&(BYTES.len() as u32 + 1).to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
    }
    bytes.extend_from_slice(BYTES);
    bytes.push(0);
    let [plain, path] = ["events.bin", "events.prism"].map(|name| folder.join(name));
    std::fs::write(&plain, bytes).unwrap();
    let mut convert = Command::new(env!("CARGO_BIN_EXE_quipu"));
    convert.args(["convert", "-q", "--format", "prism", "--open", "encoding=fixed"]);
    assert!(convert.arg(&plain).arg("-o").arg(&path).stderr(Stdio::null()).status().unwrap().success());
    path
}

/// A text of valid lines, one of which continues with hostile bytes.
fn lines(folder: &Path, name: &str, good: &[u8], odd: &[u8]) -> PathBuf {
    let path = folder.join(name);
    let [good, odd] = [good.repeat(20), [odd, BYTES, b"\n"].concat()];
    std::fs::write(&path, [&good[..], &odd, &good].concat()).unwrap();
    path
}

/// A tracer's raw output, with a list of modules whose paths have hostile bytes.
fn modules(folder: &Path) -> PathBuf {
    let path = folder.join("modules");
    let from = quipu_testkit::fixtures("drmemtrace-raw").join("threadsig.aarch64");
    std::fs::create_dir_all(path.join("raw")).unwrap();
    quipu_testkit::copy_files(&from, &path);
    quipu_testkit::copy_files(&from.join("raw"), &path.join("raw"));
    let list = path.join("raw/modules.log");
    let mut bytes = std::fs::read(&list).unwrap();
    for at in memmem(&bytes, b"/lib") {
        bytes[at + 1..at + 4].copy_from_slice(b"\x1b]0");
    }
    std::fs::write(&list, bytes).unwrap();
    path
}

/// A recording of a program compiled with `quipu cc`, with hostile names of a type, a thread, a mark and a module.
fn capture(folder: &Path) -> PathBuf {
    let mut cells: Vec<[u64; 2]> = Vec::new();
    let texts = [BYTES, FORMULA, b"\0\x1b[2J", "\u{9b}2J".as_bytes()];
    for (nth, text) in (0..).zip(texts) {
        let parts: Vec<&[u8]> = text.chunks(14).collect();
        let n_bytes = text.len() as u64;
        let word = |kind: u64, n_more: u64, value: u64| (kind << 8 | n_more) << 48 | value;
        let n = parts.len() as u64;
        let spell = |cells: &mut Vec<[u64; 2]>| {
            for part in &parts {
                let mut bytes = [0; 16];
                bytes[..part.len()].copy_from_slice(part);
                let half = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                cells.push([half(0), half(8)]);
            }
        };
        let address = 0x10_0000 + 64 * nth;
        cells.extend([[word(8, n + 2, address), 0x40_0000], [nth + 1, n_bytes], [4, 2]]);
        spell(&mut cells);
        for which in 1..=3 {
            cells.extend([[word(11, n + 1, address), 0], [which, n_bytes]]);
            spell(&mut cells);
        }
        cells.extend([[word(12, n + 1, 0x40_0000 * (nth + 1)), 0], [0x1000, n_bytes]]);
        spell(&mut cells);
        cells.push([0x13 << 48 | address, 0x40_0004]);
    }
    let path = folder.join("hostile.quipu");
    std::fs::write(&path, quipu_cells::whole::recording(&[(4242, &[&cells])])).unwrap();
    path
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
        changed.extend_from_slice(if nth % 2 == 0 { FORMULA } else { BYTES });
        changed.push(b'\n');
    }
    std::fs::write(list, changed).unwrap();
    path
}

/// An archive with hostile bytes in the names of members; one member is damaged, so that its name is shown.
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

/// Bytes that a terminal gets from a command, with the program's own line ends.
fn on_terminal(folder: &Path, args: &[String]) -> Vec<u8> {
    on_terminal_with(folder, args, &[])
}

/// The same with further variables in the environment.
fn on_terminal_with(folder: &Path, args: &[String], vars: &[(&str, &str)]) -> Vec<u8> {
    let quote = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let line: Vec<String> =
        [env!("CARGO_BIN_EXE_quipu").to_owned()].iter().chain(args).map(|word| quote(word)).collect();
    let done = Command::new("script")
        .args(["-qec", &format!("timeout 20 {}", line.join(" ")), "/dev/null"])
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .envs(vars.iter().copied())
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

/// Positions of a sequence of bytes.
fn memmem(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let found = bytes.windows(wanted.len()).enumerate().filter(|(_, part)| *part == wanted);
    found.map(|(at, _)| at).collect()
}

/// The first control sequence that is neither one of our colours nor our progress line.
fn command_in(shown: &[u8]) -> Option<String> {
    let Ok(text) = std::str::from_utf8(shown) else { return Some("no UTF-8".to_owned()) };
    let text = text.replace("\r\x1b[K", "");
    if text.contains(RED) {
        return Some(RED.to_owned());
    }
    let mut rest = text.as_str();
    while let Some(at) = rest.find('\x1b') {
        let end = rest[at..].find('m').filter(|end| {
            rest[at..].starts_with("\x1b[")
                && rest[at + 2..at + end]
                    .split(';')
                    .all(|code| matches!(code, "0" | "1" | "2" | "4" | "31" | "32" | "33" | "34" | "36"))
        });
        let Some(end) = end else { return Some(rest[at..].chars().take(20).collect()) };
        rest = &rest[at + end + 1..];
    }
    let is_bad =
        |c: &char| (c.is_control() && !"\n\t\x1b".contains(*c)) || matches!(c, '\u{202a}'..='\u{202e}');
    text.chars().find(is_bad).map(|c| format!("{c:?}"))
}

/// Runs command lines on a terminal, several at a time, and passes each with its output to `check`.
fn walk(
    folder: &Path,
    lines: impl Iterator<Item = Vec<String>> + Send,
    check: impl Fn(&[String], &[u8]) + Sync,
) {
    let lines = Mutex::new(lines);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(args) = lines.lock().unwrap().next() else { break };
                    check(&args, &on_terminal(folder, &args));
                }
            });
        }
    });
}

/// Fails if a command line has passed a command on.
fn assert_harmless(args: &[String], shown: &[u8]) {
    assert_eq!(command_in(shown), None, "{args:?}\n{}", String::from_utf8_lossy(shown).escape_debug());
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
    walk(folder.path(), lines, assert_harmless);
    // Without colours of our own there are none.
    let plain = ["report", "view", "info", "check", "describe"].into_iter().flat_map(|verb| {
        let line = |trace: &PathBuf| ["--color", "never", verb, &words(trace)].map(str::to_owned).to_vec();
        traces.iter().map(line).collect::<Vec<_>>()
    });
    walk(folder.path(), plain, |args, shown| {
        assert_harmless(args, shown);
        let text = String::from_utf8_lossy(shown).replace("\r\x1b[K", "");
        assert!(!text.contains('\x1b'), "{args:?}\n{}", text.escape_debug());
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
        vec!["view", "--json", "hostile.quipu"],
        vec!["view", "modules"],
        vec!["info", "modules"],
        vec!["view", "--csv", "modules"],
        vec!["convert", "--to", "cacheray", "-o", "collected", "hostile.quipu"],
        vec!["describe", "hostile.json"],
        vec!["view", "--table", "aggregations", "hostile.json"],
        vec!["as", "dtrace", "hostile.json"],
        vec!["as", "dtrace", "-q", "hostile.jsonl"],
        vec!["view", "collected"],
        vec!["view", "--csv", "collected"],
        vec!["report", "collected"],
    ] {
        let args: Vec<String> = line.into_iter().map(str::to_owned).collect();
        assert_harmless(&args, &on_terminal(folder.path(), &args));
    }
    for line in [
        ["view", "hostile.json"],
        ["view", "hostile.jsonl"],
        ["describe", "hostile.json"],
        ["describe", "hostile.jsonl"],
        ["as dtrace", "hostile.json"],
        ["as dtrace", "hostile.jsonl"],
        ["report", "hostile.json"],
    ] {
        let args: Vec<String> = line.iter().flat_map(|words| words.split(' ')).map(str::to_owned).collect();
        let shown = String::from_utf8_lossy(&on_terminal(folder.path(), &args)).into_owned();
        assert!(!shown.contains(RED), "{line:?}: {}", shown.escape_debug());
    }
    // The recording's data is there.
    let view = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .current_dir(folder.path())
        .args(["view", "--json", "hostile.quipu"])
        .output()
        .unwrap();
    let events = String::from_utf8(view.stdout).unwrap();
    assert!(events.contains("=cmd|") && events.contains("\\u001b]0;x"), "{events}");
    // A pipe gets JSON that is valid text, and tables without control sequences and formulas.
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
    // The same holds for a page, in which no name begins a tag.
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
    // The names did arrive there, and the flag that lets them through works.
    let view = |flags: &[&str]| {
        let args: Vec<String> = ["view", &call].iter().chain(flags).map(|word| (*word).to_owned()).collect();
        String::from_utf8_lossy(&on_terminal(folder.path(), &args)).into_owned()
    };
    assert!(view(&[]).contains("\\x1b]"), "{}", view(&[]));
    assert!(view(&["--raw-names"]).contains("\x1b]"));
    // Our own colours work beside them: names of functions are bold.
    assert!(view(&[]).contains("\x1b[1m"), "{}", view(&[]));
}

#[test]
fn tables_fold_on_a_narrow_terminal_and_are_whole_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let trace = quipu_testkit::fixtures("drmemtrace/tiny.plain");
    let line = format!("sim sweep --sizes 1K..4K --ways 1,4 --bound {} --color never", trace.display());
    let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let head =
        "policy  prefetcher   hits  misses  miss rate   MPKI  compulsory  prefetches  read from next level";
    let shown = |more: &[&str], columns: &str| {
        let args: Vec<String> =
            args.iter().cloned().chain(more.iter().map(|arg| (*arg).to_owned())).collect();
        let shown = on_terminal_with(folder.path(), &args, &[("COLUMNS", columns), ("LC_ALL", "C.UTF-8")]);
        String::from_utf8(shown).unwrap().replace("\r\x1b[K", "")
    };
    let narrow = shown(&[], "80");
    let too_wide: Vec<&str> = narrow.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(too_wide.is_empty(), "{too_wide:?}");
    // Each part begins with the columns that tell the caches apart.
    let heads = narrow.lines().filter(|line| line.trim_start().starts_with("size  ways")).count();
    assert!(heads > 1 && narrow.contains("Belady's misses"), "{narrow}");
    for whole in [shown(&[], "200"), shown(&["--wide"], "80")] {
        assert!(whole.contains(head), "{whole}");
    }
    let piped = Command::new(env!("CARGO_BIN_EXE_quipu")).args(&args).env("COLUMNS", "60").output().unwrap();
    let piped = String::from_utf8(piped.stdout).unwrap();
    assert!(piped.contains(head), "{piped}");
    // Sentences keep to the width that is asked for.
    let sentence = piped.lines().find(|line| line.contains("compulsory: first")).unwrap();
    assert!(sentence.chars().count() <= 60, "{sentence}");
}

#[test]
fn no_argument_reaches_the_terminal_as_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let odd = format!("no*\x1b[35m\x1b[2J\u{202e}{RED}");
    let option = format!("--{odd}");
    let (odd, option) = (odd.as_str(), option.as_str());
    let lines = verbs().into_iter().chain([Vec::new()]).flat_map(|verb| {
        let forms = [&[odd][..], &[odd, odd], &[option], &["-o", odd, odd], &["-j", odd]];
        let line = |form: &[&str]| {
            let more = form.iter().map(|word| (*word).to_owned());
            verb.iter().cloned().chain(more).collect::<Vec<String>>()
        };
        forms.map(line)
    });
    walk(folder.path(), lines, assert_harmless);
    let shown = |line: &str| {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        String::from_utf8_lossy(&on_terminal(folder.path(), &args)).into_owned()
    };
    // The name can still be read, with its escapes.
    assert!(shown("check no\x1b[31mred").contains("no\\x1b[31mred"), "{}", shown("check no\x1b[31mred"));
    assert!(shown("no\x1b[31mred").contains("no\\x1b[31mred"), "{}", shown("no\x1b[31mred"));
    // The colours of errors and of help are there.
    for line in ["check no-such-file", "no-such-verb"] {
        assert!(shown(line).contains("\x1b[1m\x1b[31merror:\x1b[0m"), "{}", shown(line).escape_debug());
    }
    assert!(shown("--help").contains("\x1b[1m\x1b[4m"), "{}", shown("--help").escape_debug());
    assert!(!shown("--color never check no-such-file").contains('\x1b'));
}

#[test]
fn a_long_recording_says_how_far_it_is() {
    let list = Command::new(env!("CARGO_BIN_EXE_quipu")).args(["record", "--list"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    if list.lines().skip_while(|line| !line.starts_with("qemu")).nth(1) != Some("  usable here") {
        eprintln!("passed over: qemu is not usable here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let args = ["record", "-o", "out", "--", "sleep", "3"].map(str::to_owned);
    let shown = String::from_utf8(on_terminal(folder.path(), &args)).unwrap();
    assert!(shown.starts_with("recording: ") && shown.contains(" so far\n"), "{shown}");
    assert!(shown.contains("recorded: "), "{shown}");
}
