//! Times the command lines of the tools that `quipu as …` stands in for, with two builds in turn.
//!
//! The ratio of a row shows whether a tool became slower. Runs of the two builds alternate, so that the load of the machine
//! affects both alike. Processor time is compared, because other programs influence it less than elapsed time.

use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds and traces to time.
#[derive(Args)]
pub(crate) struct Options {
    /// The build to compare with.
    #[arg(long)]
    before: PathBuf,
    /// The build to judge.
    #[arg(long)]
    after: PathBuf,
    /// A drmemtrace archive with one thread, such as `big-trace` writes.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// A trace of graphics calls.
    #[arg(long)]
    calls: Option<PathBuf>,
    /// A Cacheray trace.
    #[arg(long)]
    accesses: Option<PathBuf>,
    /// A program with debug information.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Runs of each command with each build.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Only rows whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

/// Input that a row reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Trace,
    Calls,
    Accesses,
    Program,
}

/// Rows: a name, an input, and the arguments of `quipu as`, in which `{in}` stands for the input, `{out}` for a folder to
/// write into and `{root}` for the repository.
const ROWS: &[(&str, Input, &str)] = &[
    ("basic_counts", Input::Trace, "drmemtrace -infile {in} -tool basic_counts"),
    ("opcode_mix", Input::Trace, "drmemtrace -infile {in} -tool opcode_mix"),
    ("syscall_mix", Input::Trace, "drmemtrace -infile {in} -tool syscall_mix"),
    ("histogram", Input::Trace, "drmemtrace -infile {in} -tool histogram"),
    ("reuse_distance", Input::Trace, "drmemtrace -infile {in} -tool reuse_distance"),
    ("reuse_time", Input::Trace, "drmemtrace -infile {in} -tool reuse_time"),
    ("view", Input::Trace, "drmemtrace -infile {in} -tool view"),
    ("func_view", Input::Trace, "drmemtrace -infile {in} -tool func_view"),
    ("schedule_stats", Input::Trace, "drmemtrace -infile {in} -tool schedule_stats"),
    ("invariant_checker", Input::Trace, "drmemtrace -infile {in} -tool invariant_checker"),
    (
        "record_filter",
        Input::Trace,
        "drmemtrace -infile {in} -outdir {out} -tool record_filter -filter_marker_types 18",
    ),
    ("cache_simulator", Input::Trace, "drmemtrace -infile {in} -tool cache_simulator"),
    ("TLB_simulator", Input::Trace, "drmemtrace -infile {in} -tool TLB_simulator"),
    ("miss_analyzer", Input::Trace, "drmemtrace -infile {in} -tool miss_analyzer"),
    ("apitrace dump", Input::Calls, "apitrace dump {in}"),
    ("apitrace info", Input::Calls, "apitrace info {in}"),
    ("tracecheck", Input::Accesses, "cacheray tracecheck {in}"),
    (
        "simulator",
        Input::Accesses,
        "cacheray simulator -t -i {in} -c {root}/traces/cacheray/configs/two-level.json",
    ),
    ("dwarf2json", Input::Program, "cacheray dwarf2json {in}"),
];

/// Times each row whose input is given and prints a table.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let scratch = std::env::temp_dir().join(format!("quipu-drop-ins.{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let result = table(root, options, &scratch);
    // The output of the simulator and the filter is not needed.
    fs::remove_dir_all(&scratch)?;
    result
}

fn table(root: &Path, options: &Options, scratch: &Path) -> Result<()> {
    println!("| tool | before, s | after, s | ratio |\n|---|---|---|---|");
    for (name, input, words) in ROWS.iter().filter(|(name, ..)| name.contains(&options.only)) {
        let path = match input {
            Input::Trace => &options.trace,
            Input::Calls => &options.calls,
            Input::Accesses => &options.accesses,
            Input::Program => &options.program,
        };
        let Some(path) = path else { continue };
        let path = fs::canonicalize(path).with_context(|| path.display().to_string())?;
        let words: Vec<String> = words
            .split(' ')
            .map(|word| {
                let filled = word.replace("{in}", &path.to_string_lossy());
                let filled = filled.replace("{out}", &scratch.join("out").to_string_lossy());
                filled.replace("{root}", &root.to_string_lossy())
            })
            .collect();
        let (before, after) = (fs::canonicalize(&options.before)?, fs::canonicalize(&options.after)?);
        // The first run reads the file into memory, and its time decides how often a short command is repeated.
        let once = time(&before, &words, scratch, 1)?;
        let times = (LONG_ENOUGH / once.max(1.0 / TICKS)).ceil().clamp(1.0, 1000.0) as u32; // At most 1000.
        let mut pairs = Vec::new();
        for _ in 0..options.runs {
            pairs.push((time(&before, &words, scratch, times)?, time(&after, &words, scratch, times)?));
        }
        let least = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).fold(f64::INFINITY, f64::min);
        let ratio = median(pairs.iter().map(|(before, after)| after / before).collect());
        println!("| {name} | {:.3} | {:.3} | {ratio:.3} |", least(|pair| pair.0), least(|pair| pair.1));
    }
    Ok(())
}

/// Minimum processor time of a measurement, in seconds: one tick of the clock is then 2 % of it.
const LONG_ENOUGH: f64 = 0.5;

/// Runs a build `times` times with these arguments; returns the processor time of one run, in seconds.
fn time(build: &Path, words: &[String], scratch: &Path, times: u32) -> Result<f64> {
    let before = children()?;
    for _ in 0..times {
        let status = Command::new(build)
            .arg("as")
            .args(words)
            .current_dir(scratch)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .with_context(|| build.display().to_string())?;
        // Tools that report findings exit with 1: that is no error here, since both builds report them.
        ensure!(matches!(status.code(), Some(0 | 1)), "{} as {}: {status}", build.display(), words.join(" "));
    }
    Ok((children()? - before) as f64 / TICKS / f64::from(times))
}

/// Ticks per second in `/proc/PID/stat`; Linux uses this value on every architecture.
const TICKS: f64 = 100.0;

/// Processor time of all child processes that have ended, in ticks.
fn children() -> Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat").context("/proc/self/stat")?;
    sum_of_children(&stat).context("/proc/self/stat has other fields than expected")
}

/// Sum of the fields `cutime` and `cstime`: the 14th and 15th after the name, which is in parentheses.
fn sum_of_children(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(13).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_children_stand_after_the_name() {
        let stat = "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 170 5 20 0 1 0 99";
        assert_eq!(sum_of_children(stat), Some(175));
        assert_eq!(sum_of_children("42"), None);
        assert!(children().is_ok());
    }

    #[test]
    fn the_median_of_pairs_is_the_middle_one() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn each_row_names_its_input() {
        assert!(ROWS.iter().all(|(_, _, words)| words.contains("{in}")));
    }
}
