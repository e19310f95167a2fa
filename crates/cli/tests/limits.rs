//! Behaviour of verbs with little memory and few file descriptors.

// A test whose setup fails has failed.
use crate::outputs::content;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs the program under limits of the shell (`ulimit -n 64`).
fn run_under(limits: &str, args: &[&str]) -> Output {
    let script = format!("ulimit {limits} && exec \"$0\" \"$@\"");
    Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_quipu")]).args(args).output().unwrap()
}

/// Commands that read or write many files: each command of the program, with command lines that contain `IN`, `OUT` and
/// `TOOLS`; none for a command that reads no trace with files of threads.
const LINES: &[(&str, &[&str])] = &[
    ("report", &["report IN", "report --json IN", "report --no-machine IN --html OUT"]),
    ("view", &["view IN", "view --json --take 5000 IN", "view --csv --skip-instrs 300k IN"]),
    ("analyze", &["analyze TOOLS IN", "analyze --json TOOLS IN"]),
    ("check", &["check IN"]),
    (
        "convert",
        &[
            "convert IN -o OUT",
            "convert --container lz4 IN -o OUT",
            "convert --sharding cores IN -o OUT",
            "convert --to cacheray IN -o OUT",
        ],
    ),
    ("trim", &["trim --take-instrs 1000 IN -o OUT"]),
    ("filter", &["filter --drop prefetch IN -o OUT", "filter --icache 8Ki --cache 32Ki IN -o OUT"]),
    ("split", &["split IN -o OUT"]),
    ("merge", &["merge IN -o OUT"]),
    ("edit", &[]),
    // Only for streams, or not for this trace.
    ("describe", &[]),
    ("diff", &[]),
    ("disassemble", &[]),
    ("assemble", &[]),
    ("recover", &[]),
    ("record", &[]),
    ("layout", &[]),
    ("new-tool", &[]),
    ("sim cache", &["sim cache IN", "sim cache --json IN --miss-file OUT", "sim cache IN --evictions OUT"]),
    ("sim tlb", &["sim tlb IN"]),
    ("sim sweep", &["sim sweep --sizes 4K,8K IN"]),
    ("run", &["run --backend stgen --backend simplecount IN -o OUT"]),
    // Only a special build has it.
    ("sql", &[]),
    ("info", &["info IN", "info --json IN"]),
    ("formats", &[]),
    ("tools", &[]),
    ("send", &[]),
    ("collect", &[]),
    ("cc", &[]),
    ("c++", &[]),
    ("rustc-flags", &[]),
    ("completions", &[]),
    ("as apitrace", &[]),
    ("as cacheray", &[]),
    // Captures of DTrace consist of few files.
    ("as dtrace", &[]),
    ("as prism", &[]),
    (
        "as drmemtrace",
        &[
            "as drmemtrace -indir IN -tool view -sim_refs 5000",
            "as drmemtrace -indir IN -tool basic_counts",
            "as drmemtrace -indir IN -tool basic_counts -core_sharded",
            "as drmemtrace -indir IN -tool opcode_mix",
            "as drmemtrace -indir IN -tool histogram",
            "as drmemtrace -indir IN -tool syscall_mix",
            "as drmemtrace -indir IN -tool func_view",
            "as drmemtrace -indir IN -tool reuse_distance",
            "as drmemtrace -indir IN -tool reuse_time",
            "as drmemtrace -indir IN -tool invariant_checker",
            "as drmemtrace -indir IN -tool cache_simulator",
            "as drmemtrace -indir IN -tool TLB_simulator",
            "as drmemtrace -indir IN -tool miss_analyzer -LL_miss_file OUT",
            "as drmemtrace -indir IN -tool schedule_stats",
            "as drmemtrace -indir IN -tool record_filter -outdir OUT",
        ],
    ),
];

/// Commands without subcommands.
fn leaves(command: &clap::Command, path: &str, all: &mut Vec<String>) {
    let below = command.get_subcommands().filter(|inner| inner.get_name() != "help");
    let before = all.len();
    for inner in below {
        leaves(inner, format!("{path} {}", inner.get_name()).trim(), all);
    }
    if all.len() == before {
        all.push(path.to_owned());
    }
}

#[test]
fn no_command_is_left_out_of_the_walk() {
    let mut found = Vec::new();
    leaves(&quipu_cli::command(), "", &mut found);
    found.sort();
    let mut known: Vec<&str> = LINES.iter().map(|(command, _)| *command).collect();
    known.sort_unstable();
    assert_eq!(found, known);
}

/// All analyses that a trace supports, as one argument.
fn tools(trace: &str) -> Option<String> {
    let opened = quipu::open_path(Path::new(trace), &quipu::model::OpenOptions::default()).unwrap();
    let fits = |tool: &&dyn quipu::model::Tool| {
        quipu::engine::plan(*tool, &quipu::model::Given::default(), &*opened).is_ok()
    };
    let names: Vec<_> =
        quipu::tools_of(&opened.meta().format).filter(fits).map(|tool| tool.info().name).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// Peak memory of a run in bytes, as last reported by the kernel before its end.
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

/// A folder with one file per thread, far more than a process may open.
fn many_files(folder: &Path) -> PathBuf {
    let n = std::env::var("QUIPU_MANY_FILES").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    some_files(folder, n)
}

/// A folder of `n` files, one per thread, all but four of them short.
fn few_and_small(folder: &Path, n: usize) -> PathBuf {
    let many = some_files(folder, n);
    let name = |nth: usize| format!("drmemtrace.thr.{:05}.{:04}.trace.zip", 10_000 + nth, nth % 10_000);
    for nth in (4..n).step_by(4) {
        std::fs::copy(many.join(name(1)), many.join(name(nth))).unwrap();
    }
    many
}

/// A folder of `n` files, one per thread.
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

/// Output, exit code, and written files of a run.
#[derive(PartialEq)]
struct Told {
    code: Option<i32>,
    printed: String,
    complaints: String,
    written: Vec<(PathBuf, Vec<u8>)>,
}

/// Every command prints and writes the same as without the limit.
#[test]
fn few_descriptors_change_nothing_that_any_command_prints_or_writes() {
    let folder = tempfile::tempdir().unwrap();
    let many = few_and_small(folder.path(), 100);
    let (many, out) = (many.to_str().unwrap(), folder.path().join("out"));
    let tools = tools(many).unwrap();
    let run = |limits: &str, line: &str| {
        let words = line.split(' ').map(|word| match word {
            "IN" => many,
            "OUT" => out.to_str().unwrap(),
            "TOOLS" => &tools,
            word => word,
        });
        let done = run_under(limits, &words.collect::<Vec<_>>());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let written = if out.exists() { content(&out) } else { Vec::new() };
        let _ = std::fs::remove_dir_all(&out);
        let _ = std::fs::remove_file(&out);
        Told {
            code: done.status.code(),
            printed: text(&done.stdout),
            complaints: text(&done.stderr),
            written,
        }
    };
    for line in LINES.iter().flat_map(|(_, lines)| *lines) {
        let (free, few) = (run("-n 1024", line), run("-n 64", line));
        assert!(matches!(free.code, Some(0 | 1)), "{line}: {:?} {}", free.code, free.complaints);
        assert_eq!(few.code, free.code, "{line}: {}", few.complaints);
        assert!(few.printed == free.printed, "{line} prints something else");
        assert_eq!(few.complaints, free.complaints, "{line}");
        assert!(few.written == free.written, "{line} writes something else");
        assert_eq!(free.written.is_empty(), !line.contains("OUT"), "{line} writes nothing");
    }
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

/// The filter's temporary files are next to the result, with no file open between two blocks.
#[test]
fn a_thousand_cores_are_written_under_few_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let traces = quipu_testkit::fixtures("drmemtrace").join("thr");
    let (traces, out) = (traces.to_str().unwrap(), folder.path().join("out"));
    let part = "-exit_after_instrs 500 -sched_block_scale 0.0001 -sched_exit_if_fraction_inputs_left 0";
    let args = format!("-core_sharded -cores 1000 {part} -tool record_filter");
    let mut words = vec!["as", "drmemtrace", "-indir", traces, "-outdir", out.to_str().unwrap()];
    words.extend(args.split(' '));
    let output = run_under("-n 64", &words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing staged is left");
    let names = std::fs::read_dir(&out).unwrap().map(|file| file.unwrap().file_name());
    let is_core = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("drmemtrace.core.");
    assert_eq!(names.filter(is_core).count(), 1000);
    let words = ["as", "drmemtrace", "-indir", out.to_str().unwrap(), "-tool", "basic_counts"];
    let output = run_under("-n 64", &words);
    let counts = String::from_utf8_lossy(&output.stderr);
    assert!(counts.contains("        2000 total (fetched) instructions\n"), "{counts}");
}

/// Ten thousand files at once take a few hundred megabytes.
#[test]
fn each_further_file_that_is_read_takes_a_few_kilobytes() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = [40, 240].map(|n| (n, some_files(folder.path(), n)));
    for line in ["merge IN -o OUT --container plain", "view IN"] {
        let [few, many] = inputs.each_ref().map(|(n, input)| {
            let out = folder.path().join(format!("merged{n}"));
            let words = line.split(' ').map(|word| match word {
                "IN" => input.to_str().unwrap(),
                "OUT" => out.to_str().unwrap(),
                word => word,
            });
            peak_of(&["-q", "-j", "1"].into_iter().chain(words).collect::<Vec<_>>())
        });
        let each = many.saturating_sub(few) / 200;
        assert!(each < 70 << 10, "{line}: {each} bytes for each file: {few} of 40, {many} of 240");
    }
}

/// A stream of `n` streams with records at these times; each stream is one tick later than the one before.
fn many_streams(path: &Path, n: u32, times: &[u64]) {
    use quipu_stream::write::{Options, Writer};
    #[derive(quipu_stream::record::Record)]
    #[quipu(name = "tick")]
    struct Tick {
        value: u64,
    }
    let file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let writer = Writer::new(file, Options::new("test"));
    let tick = writer.schema_of::<Tick>().unwrap();
    for number in 1..=n {
        let mut stream = writer.stream(number).unwrap();
        for time in times {
            stream.write(tick, time + u64::from(number), &Tick { value: number.into() }).unwrap();
            stream.flush().unwrap();
        }
        stream.finish().unwrap();
    }
    writer.finish().unwrap();
}

/// There are many streams of threads or connections, and most of them end before others begin.
#[test]
fn a_stream_of_many_streams_takes_little_memory_for_each() {
    let folder = tempfile::tempdir().unwrap();
    const N: u32 = 20_000;
    // One record after the other; then two per stream, with all first records before all second ones.
    for (times, bytes_each) in [(&[0][..], 2048), (&[0, 1 << 40], 8192)] {
        let [few, many] = [1000, N].map(|n| {
            let path = folder.path().join(format!("{n}.quipu"));
            many_streams(&path, n, times);
            peak_of(&["view", "-q", path.to_str().unwrap()])
        });
        let each = many.saturating_sub(few) / u64::from(N - 1000);
        assert!(each <= bytes_each, "{each} bytes for each stream with records at {times:?}: {few}, {many}");
        let shown = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args(["view", "-q", "--csv"])
            .arg(folder.path().join(format!("{N}.quipu")))
            .output()
            .unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        let clocks = text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap());
        let clocks: Vec<u64> = clocks.collect();
        assert_eq!(clocks.len(), N as usize * times.len());
        assert!(clocks.is_sorted(), "records are not in the order of the clock");
    }
}
