//! What verbs do where the system grants little.

// A test that cannot set its scene has failed.
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A run of the program under limits of a shell (`ulimit -n 64`).
fn run_under(limits: &str, args: &[&str]) -> Output {
    let script = format!("ulimit {limits} && exec \"$0\" \"$@\"");
    Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_quipu")]).args(args).output().unwrap()
}

/// The words that a level of the program's help lists as commands.
fn commands(of: &[&str]) -> Vec<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_quipu")).args(of).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let words = listed.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    words.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Every verb with the words of its own commands, and the arguments that make it read `trace` and write to `out`.
fn command_lines(trace: &str, out: &str) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for verb in commands(&[]).into_iter().filter(|verb| verb != "help") {
        let below = commands(&[&verb]);
        let words: Vec<Vec<String>> = match below.is_empty() {
            true => vec![vec![verb.clone()]],
            false => {
                below.into_iter().filter(|word| word != "help").map(|word| vec![verb.clone(), word]).collect()
            }
        };
        for mut line in words {
            match verb.as_str() {
                // They run programs or speak of none of the traces.
                "record" | "cc" | "c++" | "rustc-flags" | "collect" | "completions" | "tools" | "formats"
                | "as" => continue,
                "analyze" => line.extend(tools(trace)),
                "diff" => line.push(trace.to_owned()),
                "convert" | "merge" | "split" | "trim" | "filter" | "recover" | "edit" | "assemble" => {
                    line.extend(["-o".to_owned(), out.to_owned()]);
                }
                _ => {}
            }
            line.push(trace.to_owned());
            lines.push(line);
        }
    }
    assert!(lines.len() > 10, "{lines:?}");
    lines
}

/// All analyses that a trace can be given to, as one argument.
fn tools(trace: &str) -> Option<String> {
    let opened = quipu::open_path(Path::new(trace), &quipu::model::OpenOptions::default()).unwrap();
    let fits = |tool: &&dyn quipu::model::Tool| {
        quipu::engine::plan(*tool, &quipu::model::Args::default(), &*opened).is_ok()
    };
    let names: Vec<_> =
        quipu::tools_of(opened.meta().format).filter(fits).map(|tool| tool.info().name).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// The most memory that a run of the program had, in bytes, as far as the kernel has told it shortly before the end.
fn peak_of(args: &[&str]) -> u64 {
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        let told = std::fs::read_to_string(&status).unwrap_or_default();
        let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        peak = peak.max(1024 * kib.unwrap_or(0));
        match child.try_wait().unwrap() {
            Some(ended) => break ended,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert_eq!(ended.code(), Some(0), "{args:?}");
    peak
}

/// A folder of files of a thread each, far more than a process may open.
fn many_files(folder: &Path) -> PathBuf {
    let n = std::env::var("QUIPU_MANY_FILES").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    some_files(folder, n)
}

/// A folder of `n` files of a thread each.
fn some_files(folder: &Path, n: usize) -> PathBuf {
    let from = quipu_testkit::fixtures("drmemtrace").join("thr");
    let mut files: Vec<_> = std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".trace.zip"));
    files.sort();
    let many = folder.join(format!("many{n}"));
    std::fs::create_dir(&many).unwrap();
    for i in 0..n {
        let to = many.join(format!("drmemtrace.thr.{:05}.{:04}.trace.zip", 10_000 + i, i % 10_000));
        std::fs::copy(&files[i % files.len()], to).unwrap();
    }
    many
}

/// The same numbers as without the limit, or an error; never other numbers with exit code 0.
#[test]
fn few_descriptors_change_no_number_of_any_verb() {
    let folder = tempfile::tempdir().unwrap();
    let many = many_files(folder.path());
    let out = folder.path().join("out");
    let run = |limits: &str, line: &[String]| {
        let _ = std::fs::remove_dir_all(&out);
        let _ = std::fs::remove_file(&out);
        run_under(limits, &line.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let mut n_worked = 0;
    for line in command_lines(many.to_str().unwrap(), out.to_str().unwrap()) {
        let (free, few) = (run("-n 1024", &line), run("-n 64", &line));
        if few.status.code() == Some(2) {
            assert!(!few.stderr.is_empty(), "{line:?}");
            continue;
        }
        assert_eq!(
            few.status.code(),
            free.status.code(),
            "{line:?}: {}",
            String::from_utf8_lossy(&few.stderr)
        );
        assert!(few.stdout == free.stdout, "{line:?}");
        n_worked += 1;
    }
    assert!(n_worked >= 8, "{n_worked} command lines fit the trace and worked");
}

#[test]
fn a_report_of_many_files_reads_all_of_them_under_few_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let many = many_files(folder.path());
    let report = |limits: &str| -> Value {
        let output = run_under(limits, &["report", "--json", many.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (free, few) = (report("-n 1024"), report("-n 64"));
    assert_eq!(few, free);
    assert!(few["machine_records"].is_u64());
}

/// Ten thousand files at once take a few hundred megabytes.
#[test]
fn each_further_file_that_is_merged_takes_a_few_kilobytes() {
    let folder = tempfile::tempdir().unwrap();
    let merge = |n: usize| {
        let (many, out) = (some_files(folder.path(), n), folder.path().join(format!("merged{n}")));
        let args = ["merge", "-q", "-j", "1", many.to_str().unwrap(), "-o", out.to_str().unwrap()];
        peak_of(&[&args[..], &["--container", "plain"]].concat())
    };
    let (few, many) = (merge(40), merge(240));
    let each = many.saturating_sub(few) / 200;
    assert!(each < 70 << 10, "{each} bytes for each file: {few} of 40, {many} of 240");
}
