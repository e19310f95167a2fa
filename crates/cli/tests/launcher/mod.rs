//! Rules of the launcher's tools that the recorded traces do not cover: small traces made for each rule, with DynamoRIO's
//! output for them. `compatibility.tsv` lists the rules with their tests here.

mod better;
mod cores;
mod examples;
mod scheduled;
mod walk;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

/// The bytes of one entry.
fn entry(kind: u16, size: u16, addr: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &size.to_le_bytes(), &addr.to_le_bytes()].concat()
}

fn marker(kind: u16, value: u64) -> Vec<u8> {
    entry(28, kind, value)
}

const TIMESTAMP: u16 = 2;
const CPU_ID: u16 = 3;
const WINDOW_ID: u16 = 14;
const CHUNK_FOOTER: u16 = 21;
const RECORD_ORDINAL: u16 = 22;
const BRANCH_TARGET: u16 = 29;

/// Header of a file.
#[derive(Clone, Copy)]
struct Head {
    tid: u64,
    /// `None` before version 2.
    filetype: Option<u64>,
    chunk_instrs: u64,
    clock: u64,
    window: Option<u64>,
    cpu: u64,
}

impl Head {
    const OF_THREAD: Head =
        Head { tid: 10, filetype: Some(0xe40), chunk_instrs: 1000, clock: 1000, window: None, cpu: 0 };
    const OF_CORE: Head = Head { filetype: Some(0x10e40), ..Head::OF_THREAD };

    /// Entries up to the first CPU_ID.
    fn entries(self) -> Vec<Vec<u8>> {
        let mut entries = vec![entry(25, 0, 7), marker(12, 7)];
        entries.extend(self.filetype.map(|bits| marker(9, bits)));
        entries.extend([
            entry(22, 4, self.tid),
            entry(24, 4, 1),
            marker(10, 64),
            marker(20, self.chunk_instrs),
            marker(18, 4096),
            marker(TIMESTAMP, self.clock),
        ]);
        entries.extend(self.window.map(|id| marker(WINDOW_ID, id)));
        entries.push(marker(CPU_ID, self.cpu));
        entries
    }
}

/// Entries of a thread up to the first CPU_ID, in a window if one is given.
fn head(tid: u64, clock: u64, window: Option<u64>) -> Vec<Vec<u8>> {
    Head { tid, clock, window, ..Head::OF_THREAD }.entries()
}

/// Instructions of one byte, each with its encoding.
fn nops(pc: u64, n: u64) -> Vec<Vec<u8>> {
    (0..n).flat_map(|i| [entry(47, 1, 0x90), entry(10, 1, pc + i)]).collect()
}

fn clock(time: u64, window: Option<u64>) -> Vec<Vec<u8>> {
    let mut entries = vec![marker(TIMESTAMP, time)];
    entries.extend(window.map(|id| marker(WINDOW_ID, id)));
    entries.push(marker(CPU_ID, 0));
    entries
}

fn tail(tid: u64) -> Vec<Vec<u8>> {
    vec![entry(23, 4, tid), entry(26, 0, 0)]
}

fn put(folder: &Path, name: &str, parts: &[Vec<Vec<u8>>]) {
    std::fs::write(folder.join(name), parts.concat().concat()).unwrap();
}

/// Writes an archive with these chunks.
fn archive(path: &Path, chunks: &[Vec<Vec<u8>>]) {
    let mut archive = zip::ZipWriter::new(File::create(path).unwrap());
    for (i, chunk) in chunks.iter().enumerate() {
        archive.start_file(format!("chunk.{i:08}"), zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(&chunk.concat()).unwrap();
    }
    archive.finish().unwrap();
}

/// The first entries of a chunk after the first one.
fn seam(records: u64, time: u64) -> Vec<Vec<u8>> {
    [vec![marker(RECORD_ORDINAL, records)], clock(time, None)].concat()
}

/// An instruction of this type, with its encoding.
fn coded(kind: u16, pc: u64, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut entries: Vec<Vec<u8>> = bytes
        .chunks(8)
        .map(|piece| {
            let mut eight = [0; 8];
            eight[..piece.len()].copy_from_slice(piece);
            entry(47, piece.len() as u16, u64::from_le_bytes(eight))
        })
        .collect();
    entries.push(entry(kind, bytes.len() as u16, pc));
    entries
}

/// A thread, a time, and the number of its first instruction on a processor from then on.
type Stretch = (u64, u64, u64);

/// Writes a schedule of processors: one member per processor, with the threads that run there.
fn put_schedule(path: &Path, processors: &[(u64, &[Stretch])]) {
    let mut archive = zip::ZipWriter::new(File::create(path).unwrap());
    for (cpu, stretches) in processors {
        archive.start_file(cpu.to_string(), zip::write::SimpleFileOptions::default()).unwrap();
        for (tid, time, first) in *stretches {
            let entry = [*tid, *time, *cpu, *first].map(u64::to_le_bytes).concat();
            archive.write_all(&entry).unwrap();
        }
    }
    archive.finish().unwrap();
}

/// Runs the program in a folder.
fn quipu(folder: &Path, args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu"))
        .current_dir(folder)
        .args(args.split_whitespace())
        .output()
        .unwrap()
}

fn launch(folder: &Path, args: &str) -> Output {
    quipu(folder, &format!("as drmemtrace {args}"))
}

/// Standard error of a launch that exits with this code.
fn told(folder: &Path, args: &str, code: i32) -> String {
    let output = launch(folder, args);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args}: {text}");
    text
}

fn printed(folder: &Path, args: &str) -> String {
    told(folder, args, 0)
}

/// The lines of a miss file.
fn misses(path: &Path) -> Vec<String> {
    let mut text = String::new();
    let mut file = flate2::read::GzDecoder::new(File::open(path).unwrap());
    std::io::Read::read_to_string(&mut file, &mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The first column of each line that ends with `of`, with the heads of blocks in between.
fn outline(text: &str, of: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.ends_with(of) || line.ends_with(':') || line.starts_with("Total windows"))
        .map(|line| line.trim().trim_end_matches(of).trim_end().to_owned())
        .collect()
}

#[test]
fn windows_are_numbered_by_their_ids() {
    let folder = tempfile::tempdir().unwrap();
    let a = [head(10, 1000, Some(0)), nops(0x1000, 3), clock(1300, Some(2)), nops(0x1003, 2), tail(10)];
    let b = [
        head(11, 1000, Some(0)),
        nops(0x2000, 1),
        clock(1200, Some(1)),
        nops(0x2001, 4),
        clock(1300, Some(2)),
        nops(0x2005, 5),
        tail(11),
    ];
    put(folder.path(), "a.trace", &a);
    put(folder.path(), "b.trace", &b);
    let text = printed(folder.path(), "-indir . -tool basic_counts");
    let windows: Vec<String> = outline(&text, " (fetched) instructions")
        .into_iter()
        .filter(|line| !line.ends_with("unique"))
        .collect();
    let expected = [
        "Basic counts tool results:",
        "Total counts:",
        "15 total",
        "Total windows: 3",
        "Window #0:",
        "3 window",
        "1 window",
        "Window #1:",
        "0 window",
        "4 window",
        "Window #2:",
        "2 window",
        "5 window",
        "Thread 10 counts:",
        "3",
        "Thread 11 counts:",
        "1",
    ];
    let windows: Vec<&str> =
        windows.iter().map(String::as_str).filter(|line| !line.contains("unique")).collect();
    assert_eq!(windows, expected, "{text}");
}

#[test]
fn a_window_of_a_huge_number_costs_no_lines() {
    let folder = tempfile::tempdir().unwrap();
    let a =
        [head(10, 1000, Some(0)), nops(0x1000, 3), clock(1300, Some(u64::MAX)), nops(0x1003, 2), tail(10)];
    put(folder.path(), "a.trace", &a);
    let output = launch(folder.path(), "-indir . -tool basic_counts");
    assert!(output.stderr.len() < 200 << 20);
}

#[test]
fn one_window_is_no_windows_part() {
    for window in [0, 5] {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "a.trace", &[head(10, 1000, Some(window)), nops(0x1000, 3), tail(10)]);
        let text = printed(folder.path(), "-indir . -tool basic_counts");
        assert!(!text.to_lowercase().contains("window"), "{text}");
        assert!(text.contains("Thread 10 counts:\n           3 (fetched) instructions\n"), "{text}");
    }
}

#[test]
fn intervals_tell_threads_that_begin_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let a = [head(10, 1000, None), nops(0x1000, 3), clock(3100, None), nops(0x1003, 1), tail(10)];
    put(folder.path(), "a.trace", &a);
    put(folder.path(), "b.trace", &[head(11, 2100, None), nops(0x1000, 2), tail(11)]);
    put(folder.path(), "c.trace", &[head(12, 2200, None), nops(0x1000, 2), tail(12)]);
    let text = printed(folder.path(), "-indir . -tool basic_counts -interval_microseconds 1000");
    let whole = text.split("Counts per trace interval for whole trace:").nth(1).unwrap();
    let intervals: Vec<&str> = whole.split("Interval #").skip(1).collect();
    let threads = |text: &str| text.lines().find(|line| line.ends_with(" threads")).map(str::to_owned);
    assert_eq!(threads(intervals[0]), None, "{whole}");
    assert_eq!(threads(intervals[1]).as_deref(), Some("           2 interval delta threads"), "{whole}");
    assert_eq!(threads(intervals[2]), None, "{whole}");
}

#[test]
fn without_a_file_type_all_its_bits_count_as_set() {
    for (filetype, n_lines) in [(None, 1), (Some(0xe40), 0)] {
        let folder = tempfile::tempdir().unwrap();
        let head = Head { filetype, ..Head::OF_THREAD }.entries();
        put(folder.path(), "a.trace", &[head, nops(0x1000, 3), tail(10)]);
        let text = printed(folder.path(), "-indir . -tool basic_counts");
        for words in [
            " total userspace instructions",
            " total kernel instructions",
            " total hardware transfer markers",
        ] {
            assert_eq!(text.matches(words).count(), n_lines, "{filetype:?}, {words}: {text}");
        }
    }
}

#[test]
fn intervals_never_tell_user_space_and_kernel_apart() {
    let folder = tempfile::tempdir().unwrap();
    let head = Head { filetype: Some(0x1e40), ..Head::OF_THREAD }.entries();
    put(folder.path(), "a.trace", &[head, nops(0x1000, 3), tail(10)]);
    let text = printed(folder.path(), "-indir . -tool basic_counts -interval_microseconds 1000");
    let (totals, intervals) = text.split_once("Counts per trace interval").unwrap();
    assert!(totals.contains(" kernel instructions") && !intervals.contains(" kernel instructions"), "{text}");
}

/// Of 160 reuses, 17 have a distance of at most 1: 10.625 %; the sum of 1/160 and 16/160 is slightly more.
#[test]
fn cumulative_shares_are_added_up() {
    let folder = tempfile::tempdir().unwrap();
    let read = |addr: u64| entry(0, 8, addr);
    let [a, b, c] = [0x7000, 0x8000, 0x9000];
    // One reuse at distance 0, then two lines alternately, then three.
    let mut lines = vec![a, a, b];
    lines.extend([a, b].repeat(8));
    lines.push(c);
    lines.extend([a, b, c].repeat(143 / 3 + 1).into_iter().take(143));
    let reads = lines.into_iter().map(read).collect();
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 1), reads, tail(10)]);
    let text = printed(folder.path(), "-indir . -tool reuse_distance -reuse_distance_histogram");
    let total = text.split("Reuse distance threshold").next().unwrap();
    let rows: Vec<Vec<&str>> = total
        .lines()
        .map(|line| line.split_whitespace().take(4).collect::<Vec<_>>())
        .filter(|cells| cells.len() == 4 && cells[2].ends_with('%'))
        .collect();
    assert_eq!(
        rows,
        [["0", "1", "0.62%", "0.62%"], ["1", "16", "10.00%", "10.63%"], ["2", "143", "89.38%", "100.00%"]],
        "{text}"
    );
    // Reuse times count accesses, so they are one more than distances in lines.
    let text = printed(folder.path(), "-indir . -tool reuse_time");
    let total = text.split("=====").next().unwrap();
    let rows: Vec<Vec<&str>> = total
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|cells| cells.len() == 4 && cells[2].ends_with('%'))
        .collect();
    assert_eq!(
        rows,
        [["1", "1", "0.62%", "0.62%"], ["2", "16", "10.00%", "10.63%"], ["3", "143", "89.38%", "100.00%"]],
        "{text}"
    );
}

#[test]
fn a_function_list_that_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 1), tail(10)]);
    let output = launch(folder.path(), "-indir . -tool func_view -funclist_file none.log");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("none.log"), "{text}");
}

/// Two leaps, after two instructions and after six; a thread that ends.
fn put_leaps(folder: &Path) {
    put(
        folder,
        "a.trace",
        &[head(10, 1000, None), nops(0x1000, 2), nops(0x5000, 4), nops(0x9000, 2), tail(10)],
    );
}

#[test]
fn a_part_is_checked_by_what_stands_before_and_only_that_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    put_leaps(folder.path());
    let leaps = |part: &str| -> Vec<String> {
        let args = format!("-indir . -tool invariant_checker -no_abort_on_invariant_error {part}");
        let text = String::from_utf8(launch(folder.path(), &args).stderr).unwrap();
        let is_told = |line: &&str| line.starts_with("Trace invariant failure");
        let told = text.lines().filter(is_told).map(|line| {
            let (_, rest) = line.split_once("at instruction # ").unwrap();
            let (instr, what) = rest.split_once(' ').unwrap();
            format!("{instr} {}", what.rsplit(": ").next().unwrap())
        });
        let told: Vec<String> = told.collect();
        assert_eq!(told.is_empty(), text.contains("Trace invariant checks passed"), "{part}: {text}");
        told
    };
    let [first, second] = [3, 7].map(|instr| format!("{instr} Non-explicit control flow has no marker"));
    assert_eq!(leaps(""), [first.clone(), second.clone()]);
    assert_eq!(leaps("-skip_instrs 3").concat(), second);
    assert_eq!(leaps("-skip_records 12").concat(), second);
    assert_eq!(leaps("-skip_to_timestamp 1001"), [""; 0]);
    // Neither the exit that a limit cuts off nor a skipped header counts as missing.
    assert_eq!(leaps("-exit_after_instrs 5").concat(), first);
    assert_eq!(leaps("-exit_after_records 13").concat(), first);
    assert_eq!(leaps("-skip_instrs 3 -exit_after_instrs 2"), [""; 0]);
    assert_eq!(leaps("-skip_instrs 3 -exit_after_records 9").concat(), second);
    // Scheduling the thread onto a core does not disable the checks.
    assert_eq!(leaps("-core_serial"), leaps(""));
    // Other tools read the same part as without the checker.
    let text = printed(
        folder.path(),
        "-indir . -tool invariant_checker:basic_counts -skip_instrs 3 -exit_after_instrs 2",
    );
    assert!(text.contains("           2 total (fetched) instructions\n"), "{text}");
    assert!(text.starts_with("Trace invariant checks passed\n"), "{text}");
}
