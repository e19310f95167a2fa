//! `quipu record` as typed by a user: its messages, exit codes, and traces.

// Helpers of a test may panic like the test itself.
use assert_cmd::Command;
use std::path::Path;

fn quipu(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::cargo_bin("quipu").unwrap().current_dir(folder).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Whether programs can be recorded here; otherwise prints a note.
pub(crate) fn can_record(front_end: &str) -> bool {
    let (_, list, _) = quipu(Path::new("."), &["record", "--list"]);
    let mut lines = list.lines().skip_while(|line| !line.starts_with(front_end));
    let is_usable = lines.nth(1) == Some("  usable here");
    if !is_usable {
        eprintln!("passed over: {front_end} is not usable here");
    }
    is_usable
}

#[test]
fn a_program_keeps_its_streams_and_its_exit_code() {
    if !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = ["record", "-o", "out", "--", "sh", "-c", "read line; echo got $line; exit 7"];
    let mut command = Command::cargo_bin("quipu").unwrap();
    let output = command.current_dir(folder.path()).args(record).write_stdin("a word\n").output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "got a word\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("recorded: ") && said.ends_with("next: quipu report out\n"), "{said}");
    let (code, _, said) = quipu(folder.path(), &["check", "out"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let (code, report, _) = quipu(folder.path(), &["report", "out"]);
    assert_eq!(code, Some(0));
    assert!(report.contains("x86-64"), "{report}");

    let (code, _, said) = quipu(folder.path(), &["record", "-o", "out", "--", "true"]);
    assert_eq!(code, Some(2), "what is there stays: {said}");
    let again = ["record", "-q", "--force", "--max-instrs", "1k", "-o", "out", "--", "true"];
    assert_eq!(quipu(folder.path(), &again), (Some(0), String::new(), String::new()));
    let (_, counts, _) = quipu(folder.path(), &["analyze", "counts", "--json", "out"]);
    assert!(counts.contains("\"instructions\": 1000"), "{counts}");
    let killed = ["record", "-o", "killed", "--", "sh", "-c", "kill -9 $$"];
    let (code, _, said) = quipu(folder.path(), &killed);
    assert_eq!(code, Some(137), "{said}");
    assert!(said.contains("ended by signal 9"), "{said}");
    assert_eq!(quipu(folder.path(), &["check", "-q", "killed"]).0, Some(0));
}

#[test]
fn a_trace_on_standard_output_is_a_stream() {
    if !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = ["record", "-o", "-", "--max-instrs", "2k", "--", "sh", "-c", "echo a word"];
    let mut command = Command::cargo_bin("quipu").unwrap();
    let output =
        command.current_dir(folder.path()).env("TMPDIR", folder.path()).args(record).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    // The program's own output does not get into the stream.
    assert!(said.starts_with("a word\n"), "{said}");
    assert!(said.contains("recorded: 2,000 instructions of one thread in standard output, "), "{said}");
    let mut command = Command::cargo_bin("quipu").unwrap();
    let counts =
        command.args(["analyze", "counts", "--json", "-"]).write_stdin(output.stdout).output().unwrap();
    let counts = String::from_utf8(counts.stdout).unwrap();
    assert!(counts.contains("\"instructions\": 2000"), "{counts}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "the folder is empty again");
    let (code, _, said) = quipu(folder.path(), &["record", "-o", "-", "--follow-fork", "--", "true"]);
    assert!(code == Some(2) && said.contains("one stream has one process"), "{said}");
}

#[test]
fn code_has_names_until_the_program_is_built_anew() {
    let folder = tempfile::tempdir().unwrap();
    let compile = |more: &str| {
        let source = "int work(int n) { volatile int sum = 0; for (int i = 0; i < n; i++) sum += i; return sum; }\n\
                      int main(void) { return work(50000) == 0; }\n";
        std::fs::write(folder.path().join("prog.c"), format!("{more}{source}")).unwrap();
        let args = ["-O0", "-g", "-Wl,--build-id", "prog.c", "-o", "prog"];
        let compiler = std::process::Command::new("gcc").current_dir(folder.path()).args(args).status();
        compiler.is_ok_and(|status| status.success())
    };
    if !can_record("qemu") || !compile("") {
        return;
    }
    let (code, _, said) = quipu(folder.path(), &["record", "-o", "out", "--", "./prog"]);
    assert_eq!(code, Some(0), "{said}");
    let hot = || {
        let mut command = Command::cargo_bin("quipu").unwrap();
        command
            .current_dir(folder.path())
            .env("COLUMNS", "132")
            .args(["analyze", "hot", "--top", "3", "out"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let is_named = |hot: &str| hot.lines().filter(|line| line.ends_with("  work prog.c:1")).count() >= 3;
    assert!(is_named(&hot()), "{}", hot());
    let (_, advice, said) = quipu(folder.path(), &["analyze", "types", "out"]);
    assert!(advice.is_empty() && said.contains("/prog --base 0x"), "{said}");
    // Addresses of another build are those of other code.
    assert!(compile("int before(int n) { return n + 1; }\n"));
    assert!(!hot().contains("prog.c:"), "{}", hot());
}

#[test]
fn children_are_left_out_with_a_word_or_have_traces_to_open() {
    if !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = |args: &[&str]| {
        let program = ["--", "sh", "-c", "(:); exit 0"];
        quipu(folder.path(), &[&["record"], args, &program].concat())
    };
    let (code, _, said) = record(&["-o", "alone"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 child was not recorded; `--follow-fork` records children, too"), "{said}");
    let (code, _, said) = record(&["-o", "both", "--follow-fork", "--max-instrs", "10K"]);
    assert!(code == Some(0) && !said.contains("not recorded; `--follow"), "{said}");
    let (code, _, said) = record(&["-o", "none", "--max-instrs", "0"]);
    assert!(code == Some(2) && said.contains("expected 1 or more"), "{said}");
    let (code, _, said) = record(&["-o", "both", "--force", "--follow-fork"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, _, said) = quipu(folder.path(), &["report", "both"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("a folder of 2 traces"), "{said}");
    assert!(said.contains("open one of them: `both/drmemtrace.sh."), "{said}");
}

#[test]
fn a_program_that_goes_on_as_another_one_leads_to_the_other() {
    if !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = ["record", "-o", "out", "--", "sh", "-c", "exec echo a word"];
    let (code, out, said) = quipu(folder.path(), &record);
    assert_eq!((code, out.as_str()), (Some(0), "a word\n"), "{said}");
    assert!(said.contains("  sh (process ") && said.contains(", which continues as the next): "), "{said}");
    let last = said.lines().last().unwrap();
    let next = last.strip_prefix("next: quipu report ").unwrap();
    assert!(next.starts_with("out/drmemtrace.echo.") && next.ends_with(".0000.dir"), "{said}");
    for path in ["out", next] {
        assert_eq!(quipu(folder.path(), &["check", "-q", path]).0, Some(0), "{path}");
    }
    let (code, _, said) = quipu(folder.path(), &["record", "-q", "--force", "-o", "out", "--", "true"]);
    assert_eq!(code, Some(0), "all of it may be replaced: {said}");
}

#[test]
fn lackey_writes_what_its_format_reads() {
    if !can_record("valgrind") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = ["record", "--with", "valgrind", "--max-instrs", "5k", "-o", "out.zip", "--", "true"];
    let (code, _, said) = quipu(folder.path(), &record);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("recorded: 5,000 instructions"), "{said}");
    let (code, info, said) = quipu(folder.path(), &["info", "out.zip"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(info.contains("lackey"), "{info}");
    let (code, _, said) =
        quipu(folder.path(), &["record", "--with", "lackey", "--windows", "1/2", "--", "true"]);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn children_of_a_real_program_are_left_out_by_lackey_with_a_word() {
    if !can_record("valgrind") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "(:); (:); exit 0";
    let record =
        ["record", "--with", "lackey", "--max-instrs", "5k", "-o", "out.zip", "--", "sh", "-c", script];
    let (code, _, said) = quipu(folder.path(), &record);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("  2 children were not recorded; `--with qemu --follow-fork`"), "{said}");
}

/// Valgrind does not continue the same text after `exec`, so the later program is lost.
#[test]
fn what_follows_an_exec_under_lackey_is_said_to_be_lost() {
    if !can_record("valgrind") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lost = "continued as another program, which was not recorded";
    for (script, code, is_lost) in [
        ("exec true", 1, true),
        ("exec sh -c 'exit 7'", 7, true),
        (":", 0, false),
        ("exit 5", 5, false),
        ("kill -KILL $$", 137, false),
    ] {
        let record = ["record", "-q", "--force", "--with", "lackey", "--max-instrs", "5k", "-o", "out.zip"];
        let (found, _, said) = quipu(folder.path(), &[&record[..], &["--", "sh", "-c", script]].concat());
        assert_eq!((found, said.contains(lost)), (Some(code), is_lost), "{script}: {said}");
    }
}

/// A stand-in for Valgrind that prints Valgrind's messages for a program with two children. Like Valgrind, it reports system
/// calls only if requested.
const FAKE_VALGRIND: &str = r#"#!/bin/sh
for option; do
  case $option in
    --log-file=*) log=${option#--log-file=} ;;
    --trace-syscalls=yes) calls=yes ;;
    --child-silent-after-fork=yes) silent=yes ;;
  esac
done
[ "$silent" ] || exit 9
call() { [ -z "$calls" ] || printf 'SYSCALL[7,1]%s' "$1"; }
{
  printf 'I  04001000,3\n L 1ffefff5a0,8\n'
  call '(57) sys_fork ( )   fork: process 7 created child 8
'
  call '(56) sys_clone ( 1200011, 0x0 )   clone(fork): process 7 created child 9
'
  call '(56) sys_clone ( 3d0f00, 0x522 ) --> [pre-success] Success(0xa) '
  printf 'I  04001003,5\n'
  call '(231) exit_group( 0 )
'
  printf '==7== Exit code:       0\n'
} > "$log"
"#;

#[test]
fn children_that_lackey_leaves_out_are_counted() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let fake = folder.path().join("valgrind");
    std::fs::write(&fake, FAKE_VALGRIND).unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::join_paths(
        std::iter::once(folder.path().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let record = ["record", "--with", "valgrind", "--container", "plain", "-o", "out.lackey", "--", "true"];
    let mut command = Command::cargo_bin("quipu").unwrap();
    command.current_dir(folder.path()).env("PATH", path.unwrap()).args(record);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with("recorded: 2 instructions"), "{said}");
    let left_out = "  2 children were not recorded; `--with qemu --follow-fork` records children, too\n";
    assert!(said.contains(left_out), "{said}");
    let text = std::fs::read_to_string(folder.path().join("out.lackey")).unwrap();
    assert_eq!(text, "I  04001000,3\n L 1ffefff5a0,8\nI  04001003,5\n");
}

#[test]
fn mistakes_have_one_clear_message() {
    let folder = tempfile::tempdir().unwrap();
    let say = |args: &[&str]| quipu(folder.path(), args);
    let (code, _, said) = say(&["record", "--with", "magic", "--", "true"]);
    assert_eq!(
        (code, said.as_str()),
        (Some(2), "error: `--with magic`: expected auto or one of qemu, tsan, dynamorio, valgrind\n")
    );
    let (code, _, said) = say(&["record", "--with", "qemu", "--", "no-such-program"]);
    assert_eq!((code, said.as_str()), (Some(2), "error: no program `no-such-program` is found in PATH\n"));
    let (code, _, said) = say(&["record", "--windows", "5/2", "--", "true"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("expected how many of how many instructions"), "{said}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing was written");
}

/// A stand-in for DynamoRIO: records its arguments, runs the program, and creates an empty raw folder.
const DRRUN: &str = r#"#!/bin/sh
echo "$@" > "$HOME_OF_FAKE/said"
while [ "$1" != -- ]; do [ "$1" = -outdir ] && out=$2; shift; done
shift
mkdir -p "$out/drmemtrace.prog.00123.0000.dir/raw"
exec "$@"
"#;

/// A stand-in for the converter: copies a prepared trace.
const CONVERTER: &str = r#"#!/bin/sh
mkdir "$2/trace" && cp "$HOME_OF_FAKE"/*.trace.zip "$2/trace/"
"#;

/// Creates stand-ins for DynamoRIO's programs in `home`, with the trace that they produce for any program.
pub(crate) fn fake_dynamorio(home: &Path) {
    use std::os::unix::fs::PermissionsExt;
    for (name, text) in [("bin64/drrun", DRRUN), ("tools/bin64/drraw2trace", CONVERTER)] {
        let path = home.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let fixture = quipu_testkit::fixtures("drmemtrace").join("allasm/drmemtrace.allasm_x86_64.trace.zip");
    std::fs::copy(fixture, home.join("drmemtrace.prog.1992554.0000.trace.zip")).unwrap();
}

#[test]
fn dynamorio_is_run_converted_and_made_one_result() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fake_dynamorio(&home);
    let record = [
        "record",
        "--with",
        "dynamorio",
        "--start-after-instrs",
        "5",
        "--windows",
        "1k/3k",
        "-o",
        "out",
        "--",
    ];
    let mut command = Command::cargo_bin("quipu").unwrap();
    command.current_dir(folder.path()).env("DYNAMORIO_HOME", &home).env("HOME_OF_FAKE", &home);
    let output = command.args(record).args(["sh", "-c", "exit 5"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.starts_with("recorded: 133 instructions of one thread in `out`"), "{said}");
    let words = std::fs::read_to_string(home.join("said")).unwrap();
    let asked =
        "-trace_after_instrs 5 -trace_for_instrs 1000 -retrace_every_instrs 2000 -no_split_windows -- ";
    assert!(
        words.starts_with("-no_follow_children -t drmemtrace -offline -outdir ") && words.contains(asked),
        "{words}"
    );
    let (code, info, _) = quipu(folder.path(), &["info", "out"]);
    assert_eq!(code, Some(0));
    assert!(info.contains("drmemtrace"), "{info}");
    assert!(!folder.path().join("out/raw").exists());
}

/// Calls of functions serve as marks, by the symbols of the program that was recorded.
#[test]
fn parts_between_calls_of_functions_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/tests/programs/phases.c");
    let mut cc = std::process::Command::new("cc");
    cc.current_dir(folder.path()).args(["-O1", "-Wl,--build-id", "-o", "phases"]).arg(source);
    if !can_record("qemu") || !cc.status().is_ok_and(|status| status.success()) {
        return;
    }
    let (code, _, said) = quipu(folder.path(), &["record", "--with", "qemu", "-o", "out", "--", "./phases"]);
    assert_eq!(code, Some(0), "{said}");
    // The phase between the two functions writes 2 bytes at a time, the one after them 1 byte.
    let writes = |between: &str| {
        let (code, text, said) =
            quipu(folder.path(), &["view", "--json", "--kind", "write", "--between", between, "out"]);
        assert_eq!(code, Some(0), "{said}");
        let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let sizes: Vec<u64> = rows.filter_map(|row| row["size"].as_u64()).collect();
        [2, 1].map(|wanted| sizes.iter().filter(|size| **size == wanted).count())
    };
    assert_eq!(writes("begin,end"), [3 * 5, 0]);
    assert_eq!(writes("end,begin"), [0, 2 * 7]);
    assert_eq!(writes("begin,begin"), [2 * 5, 2 * 7]);
    for verb in ["report", "info"] {
        let (code, _, said) = quipu(folder.path(), &[verb, "--between", "begin,end", "out"]);
        assert_eq!(code, Some(0), "{verb}: {said}");
    }
    let (code, _, said) = quipu(folder.path(), &["view", "--between", "begin,nowhere", "out"]);
    assert!(code == Some(2) && said.contains("no mark `nowhere`"), "{said}");
}
