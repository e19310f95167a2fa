//! The launcher's `record_filter`: writes a trace again without some of its entries.
//!
//! It has its own options, under the names of both of DynamoRIO's programs for this, and one line of output. QUIRK: where
//! DynamoRIO cannot write the compression of a file (lz4, snappy), it writes the file uncompressed under the old name, and
//! no program can read it; here, every file keeps its compression.

use super::args::{find_value, list_of, number_of, refused_option, takes_value};
use super::extent::Extent;
use quipu::drmemtrace::edits::clock_trim::{ClockTrim, ClockUnit};
use quipu::drmemtrace::edits::filter::KernelCode;
use quipu::drmemtrace::edits::{Filter, FilterSpec};
use quipu::drmemtrace::trace::{self, DrmemTrace};
use quipu::drmemtrace::write::cores::CoreFiles;
use quipu::drmemtrace::write::{self, Replace, Sharding, WriteOptions};
use quipu::model::{Damaged, Error, ErrorKind, Found, Given, OpenOptions, Scan, ShardId, ThreadId, Trace};
use quipu::source::{PackOptions, Reading, Source};
use quipu_console::Common;
use quipu_console::input;
use quipu_console::places::refuse_among;
use quipu_console::rewrite::Watched;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, OF_A_FILE, Verdict};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the tool.
pub(super) const NAME: &str = "record_filter";

/// Parsed arguments of the tool.
#[derive(Debug, Default)]
struct Request {
    input: Option<PathBuf>,
    folder: Option<PathBuf>,
    threads: Vec<u64>,
    shards: Vec<u32>,
    jobs: Option<usize>,
    spec: FilterSpec,
    trim_timestamps: [Option<u64>; 2],
    trim_instrs: [Option<u64>; 2],
    /// Whether one file per core is written.
    by_core: bool,
    cores: Option<u64>,
    cpu_schedule: Option<PathBuf>,
}

/// Whether the command line selects this tool.
pub(super) fn is_meant(args: &[String]) -> bool {
    args.windows(2).any(|pair| is_tool(&pair[0]) && pair[1].split(':').any(|name| name == NAME))
}

fn is_tool(arg: &str) -> bool {
    matches!(arg.trim_start_matches('-'), "tool" | "simulator_type")
}

/// Options of this tool without a value.
const SWITCHES: &[&str] =
    &["filter_encodings2regdeps", "encodings2regdeps", "filter_kernel", "filter_kernel_except_syscalls"];

/// Options that this tool shares with other tools of the same run.
const SHARED: &[&str] = &[
    "indir",
    "infile",
    "only_thread",
    "only_threads",
    "only_shards",
    "jobs",
    "verbose",
    "core_sharded",
    "core_serial",
    "cores",
    "cpu_schedule_file",
];

/// Whether an option determines how threads are scheduled onto cores, or which part is read; all tools share these.
fn is_of_schedule(name: &str) -> bool {
    let parts =
        ["skip_instrs", "skip_records", "skip_to_timestamp", "exit_after_instrs", "exit_after_records"];
    let name = name.strip_prefix("no_").unwrap_or(name);
    parts.contains(&name) || (name.starts_with("sched_") && takes_value(name).is_some())
}

/// The arguments, divided by recipient.
#[derive(Debug, Default)]
struct Parted {
    /// For this tool, if other tools run, too.
    own: Vec<String>,
    /// For all tools: the trace, its part, and how its threads are scheduled.
    shared: Vec<String>,
    /// For the other tools, if this one is joined with any by colons.
    others: Option<Vec<String>>,
}

impl Parted {
    fn of(args: &[String]) -> Parted {
        let mut parted = Parted::default();
        let (mut others, mut has_others) = (Vec::new(), false);
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if is_tool(arg) {
                let names = rest.next().map(String::as_str).unwrap_or_default();
                let joined: Vec<&str> =
                    names.split(':').filter(|name| !name.is_empty() && *name != NAME).collect();
                parted.own.extend([arg.clone(), NAME.to_owned()]);
                if !joined.is_empty() {
                    has_others = true;
                    others.extend([arg.clone(), joined.join(":")]);
                }
                continue;
            }
            let name = arg.trim_start_matches('-');
            let known = takes_value(name);
            let value = if known.unwrap_or(!SWITCHES.contains(&name)) { rest.next() } else { None };
            let words = || [Some(arg), value].into_iter().flatten().cloned();
            let is_shared =
                SHARED.contains(&name.strip_prefix("no_").unwrap_or(name)) || is_of_schedule(name);
            if is_shared {
                parted.shared.extend(words());
            }
            if is_shared || known.is_none() {
                parted.own.extend(words());
            }
            if is_shared || known.is_some() {
                others.extend(words());
            }
        }
        parted.others = has_others.then_some(others);
        parted
    }

    /// The request to the launcher that the shared options make.
    fn launched(&self) -> quipu::model::Result<super::Request> {
        // Any tool that runs on cores.
        let tool = ["-tool", "schedule_stats"].map(str::to_owned);
        super::Request::parse(&[&tool[..], &self.shared].concat())
    }
}

/// Runs the tool with these arguments.
pub(super) fn run(args: &[String], common: &Common, screen: &Screen) -> Result<Outcome> {
    let parted = Parted::of(args);
    let Some(others) = &parted.others else { return filter(args, &parted, common, screen) };
    let filtered = filter(&parted.own, &parted, common, screen)?;
    quipu_console::terminal::stderr().write_all(super::SEPARATOR.as_bytes())?;
    Ok(filtered.and(super::run(others, common, screen)?))
}

fn filter(args: &[String], parted: &Parted, common: &Common, screen: &Screen) -> Result<Outcome> {
    let mut request = Request::parse(args)?;
    let mut launched = parted.launched()?;
    // With a skip to a time, the schedule only determines where threads begin.
    let is_scheduled = request.by_core && (request.cpu_schedule.is_none() || launched.skip_to_timestamp > 0);
    if launched.is_of_part() && !is_scheduled {
        return Err(Error::unsupported(
            "record_filter takes skips and limits of threads that are scheduled onto cores only",
        )
        .hint("-trim_before_instr, -trim_before_timestamp and the like choose parts of files")
        .into());
    }
    request.spec.trim = request.trim()?;
    request.spec.original_layout = true;
    let path = request.input.ok_or_else(|| Error::usage("-indir or -infile is required"))?;
    let folder = request.folder.ok_or_else(|| Error::usage("-outdir is required"))?;
    let source = quipu::source_at(&path)?;
    refuse_same_place(&path, &folder, source.is_folder())?;
    refuse_among(&[&path], &folder)?;
    let options = OpenOptions {
        threads: request.threads.iter().map(|tid| ThreadId::from_packed(*tid)).collect(),
        shards: request.shards,
        ..OpenOptions::default()
    };
    let trace = trace::open(&source, &options)?;
    input::check_threads(&trace, &options.threads)?;
    let spec = Arc::new(request.spec);
    for file in trace.files() {
        Filter::new(spec.clone(), file.header.filetype)?;
    }
    if let Some(named) = request.cpu_schedule.as_deref().filter(|_| request.by_core && !is_scheduled) {
        check_cores(&trace, &path, named, request.cores)?;
    }
    let threads_wanted = options;
    let options = WriteOptions {
        pack: PackOptions::new(write::same_packing(&trace)),
        threads: request.jobs.or(common.threads.map(usize::from)).unwrap_or(0),
        replace: Replace::Allowed,
        damaged: Damaged::Keep,
        ..WriteOptions::new()
    };
    let out = if source.is_folder() || request.by_core {
        folder
    } else {
        std::fs::create_dir_all(&folder)?;
        folder.join(path.file_name().unwrap_or_default())
    };
    let staged = Staged::beside(&out);
    let mut found = Found::default();
    let (trace, source, n_read) = match request.by_core {
        false => (trace, source, None),
        true if is_scheduled => {
            let (cores, extent) = super::scheduled(&mut launched, &threads_wanted)?;
            let files = CoreFiles::create(&trace, &source, &staged.0, cores.shards().len(), &options)?;
            let n_read = stage(&*cores, &extent, files, &mut found, screen)?;
            let written = Source::open(&staged.0).map_err(Error::from)?;
            let trace = trace::open(&written, &OpenOptions::default())?;
            (trace, written, Some(n_read))
        }
        true => {
            let summary = session::watched(screen, |watch| {
                watch.expect(trace.meta().packed_bytes);
                write::reshard(&trace, &source, &staged.0, Sharding::Cores, &[], &options, &Watched(watch))
            })?;
            // The copy has no faults of its own, so the trace's own faults are known only here.
            let of_trace = trace.meta().findings.iter().cloned();
            of_trace.chain(summary.findings).for_each(|finding| found.push(finding));
            // Filtering depends on what else the core executes, so it works on the copy.
            let written = Source::open(&staged.0).map_err(Error::from)?;
            let trace = trace::open(&written, &OpenOptions::default())?;
            (trace, written, Some(summary.taken.read.entries))
        }
    };
    let edit_of = |shard: usize| Filter::new(spec.clone(), trace.files().get(shard)?.header.filetype).ok();
    let summary = session::watched(screen, |watch| {
        watch.expect(trace.meta().packed_bytes);
        write::rewrite(&trace, &source, &out, &options, &edit_of, &Watched(watch))
    })?;
    let (written, read) = (summary.written().entries, n_read.unwrap_or(summary.taken.read.entries));
    writeln!(quipu_console::terminal::stderr(), "Output {written} entries from {read} entries.")?;
    summary.findings.into_iter().for_each(|finding| found.push(finding));
    Ok(Verdict::new(&trace, found, None, false).meaning(OF_A_FILE).tell(screen))
}

impl Request {
    fn parse(args: &[String]) -> Result<Request> {
        let mut request = Request::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let name = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')).unwrap_or_default();
            request.set(arg, name, &mut rest)?;
        }
        Ok(request)
    }

    fn set<'a>(&mut self, arg: &str, name: &str, rest: &mut impl Iterator<Item = &'a String>) -> Result<()> {
        let mut value = || find_value(arg, rest.next());
        let spec = &mut self.spec;
        let kinds = |text: &str| -> quipu::model::Result<Vec<u16>> {
            let list = list_of(arg, text)?.into_iter();
            list.map(|kind| {
                u16::try_from(kind).map_err(|_| Error::usage(format!("option `{arg}`: `{kind}` is no kind")))
            })
            .collect()
        };
        match name {
            "indir" | "infile" => self.input = Some(value()?.into()),
            "outdir" => self.folder = Some(value()?.into()),
            "tool" | "simulator_type" if value()? == NAME => {}
            "only_thread" => self.threads = vec![number_of(arg, value()?)?],
            "only_threads" => self.threads = list_of(arg, value()?)?,
            "only_shards" => {
                let shards = list_of(arg, value()?)?.into_iter();
                self.shards = shards.map(|shard| u32::try_from(shard).unwrap_or(u32::MAX)).collect();
            }
            // DynamoRIO accepts -1 for as many jobs as processors.
            "jobs" => self.jobs = jobs(arg, value()?)?,
            "verbose" => _ = value()?,
            "filter_stop_timestamp" | "stop_timestamp" => {
                spec.stop_timestamp = Some(number_of(arg, value()?)?).filter(|stop| *stop > 0);
            }
            "filter_cache_size" | "cache_filter_size" => {
                spec.data_cache_bytes = Some(number_of(arg, value()?)?).filter(|bytes| *bytes > 0);
            }
            "filter_trace_types" | "remove_trace_types" => spec.drop_types.extend(kinds(value()?)?),
            "filter_marker_types" | "remove_marker_types" => spec.drop_markers.extend(kinds(value()?)?),
            "trim_before_timestamp" => self.trim_timestamps[0] = limit(arg, value()?)?,
            "trim_after_timestamp" => self.trim_timestamps[1] = limit(arg, value()?)?,
            "trim_before_instr" => self.trim_instrs[0] = limit(arg, value()?)?,
            "trim_after_instr" => self.trim_instrs[1] = limit(arg, value()?)?,
            "filter_encodings2regdeps" | "encodings2regdeps" => spec.to_regdeps = true,
            "filter_keep_func_ids" | "filter_func_ids" | "keep_func_ids" => {
                spec.keep_functions = Some(list_of(arg, value()?)?.into_iter().collect());
            }
            "filter_modify_marker_value" | "modify_marker_value" => {
                let pairs = list_of(arg, value()?)?;
                if pairs.len() % 2 != 0 {
                    return Err(
                        Error::usage(format!("option `{arg}` wants pairs of a kind and a value")).into()
                    );
                }
                for pair in pairs.chunks_exact(2) {
                    spec.marker_values.insert(u16::try_from(pair[0]).unwrap_or(u16::MAX), pair[1]);
                }
            }
            "filter_kernel" => spec.kernel = KernelCode::Drop,
            "filter_kernel_except_syscalls" => spec.kernel = KernelCode::DropButSyscalls,
            "core_sharded" | "core_serial" => self.by_core = true,
            "no_core_sharded" | "no_core_serial" => self.by_core = false,
            "cores" => self.cores = Some(number_of(arg, value()?)?),
            "cpu_schedule_file" => {
                let path = PathBuf::from(value()?);
                // It is an input, so nothing may overwrite it.
                Reading::keep(&path);
                self.cpu_schedule = Some(path);
            }
            // The launcher's parser handles these.
            _ if is_of_schedule(name) => {
                if takes_value(name) == Some(true) {
                    value()?;
                }
            }
            _ => {
                if let Some(refused) = refused_option(arg) {
                    return Err(refused.into());
                }
                let what = format!("option `{arg}` of drmemtrace is not available with the tool {NAME}");
                return Err(Error::unsupported(what).into());
            }
        }
        Ok(())
    }

    /// DynamoRIO's way to trim, if requested.
    fn trim(&self) -> quipu::model::Result<Option<ClockTrim>> {
        let is_set = |limits: &[Option<u64>; 2]| limits.iter().any(Option::is_some);
        let (unit, limits) = match (is_set(&self.trim_timestamps), is_set(&self.trim_instrs)) {
            (false, false) => return Ok(None),
            (true, true) => {
                return Err(Error::usage("trimming by timestamps and by instructions cannot be combined"));
            }
            (true, false) => (ClockUnit::Timestamps, self.trim_timestamps),
            (false, true) => (ClockUnit::Instrs, self.trim_instrs),
        };
        ClockTrim::new(unit, limits[0].unwrap_or(0), limits[1].unwrap_or(u64::MAX)).map(Some)
    }
}

/// Writes the records that a scheduler gives to each core into temporary files, which are then filtered; returns the number
/// of entries.
fn stage(
    cores: &dyn Trace,
    extent: &Extent,
    mut files: CoreFiles,
    found: &mut Found,
    screen: &Screen,
) -> Result<u64> {
    let scan = Scan { ahead: true, ..Scan::new(ShardId(0)).columns(CoreFiles::COLUMNS) };
    session::watched(screen, |watch| {
        let mut rounds = extent.rounds(cores, scan)?;
        while let Some(batches) = rounds.read()? {
            if watch.is_cancelled() {
                return Err(Error::new(ErrorKind::Io, "interrupted: nothing was written").into());
            }
            for batch in batches {
                batch.findings.drain(..).for_each(|finding| found.push(finding));
                files.take(batch)?;
            }
        }
        Ok(files.finish()?)
    })
}

/// A folder of temporary files of cores, removed on drop.
struct Staged(PathBuf);

impl Staged {
    fn beside(folder: &Path) -> Staged {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        Staged(folder.with_file_name(format!(".{name}.cores.{}", std::process::id())))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // It was never created if there are no cores to write.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Checks that the schedule belongs to the trace, and has as many cores as requested.
fn check_cores(trace: &DrmemTrace, path: &Path, schedule: &Path, cores: Option<u64>) -> Result<()> {
    let given = Given::from([("cpu-schedule", schedule.to_string_lossy())]);
    let options = OpenOptions { given, ..OpenOptions::default() };
    let n_named = trace::open(&Source::open(path).map_err(Error::from)?, &options)?.by_core()?.shards().len();
    let n_marked = trace.by_core()?.shards().len();
    if n_named != n_marked {
        let what = format!("the schedule has {n_named} cores, and the trace's own markers name {n_marked}");
        return Err(Error::unsupported(what).hint("files of cores are written as the markers say").into());
    }
    match cores {
        Some(cores) if cores != n_named as u64 => {
            let what = format!("the schedule has {n_named} cores, and -cores asks for {cores}");
            Err(Error::usage(what).into())
        }
        _ => Ok(()),
    }
}

/// Refuses to replace a trace with its own filtered copy.
fn refuse_same_place(input: &Path, folder: &Path, is_folder: bool) -> Result<()> {
    let from = if is_folder { Some(input) } else { input.parent() };
    // A bare name is in the working directory.
    let from = from.map(|from| if from == Path::new("") { Path::new(".") } else { from });
    match (from.map(Path::canonicalize), folder.canonicalize()) {
        (Some(Ok(from)), Ok(to)) if from == to => {
            let what = format!(
                "-outdir `{}` is where the trace is: this is an input, and is never written over",
                folder.display()
            );
            Err(Error::usage(what).hint("name another folder").into())
        }
        _ => Ok(()),
    }
}

/// Number of threads to use; `None` for as many as processors, which -1 stands for.
fn jobs(arg: &str, text: &str) -> quipu::model::Result<Option<usize>> {
    if text == "-1" {
        return Ok(None);
    }
    let jobs = text.parse::<usize>();
    jobs.map(|jobs| Some(jobs.max(1)))
        .map_err(|_| Error::usage(format!("option `{arg}`: `{text}` is no number")))
}

/// Parses a limit; 0 means none.
fn limit(arg: &str, text: &str) -> quipu::model::Result<Option<u64>> {
    Ok(Some(number_of(arg, text)?).filter(|limit| *limit > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_to_the_tools_that_know_them() {
        let line = "-tool record_filter:schedule_stats -indir a -outdir b -filter_kernel -verbose 1 -sched_time -jobs 2";
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let Parted { own, shared, others } = Parted::of(&args);
        assert_eq!(
            own.join(" "),
            "-tool record_filter -indir a -outdir b -filter_kernel -verbose 1 -sched_time -jobs 2"
        );
        assert_eq!(shared.join(" "), "-indir a -verbose 1 -sched_time -jobs 2");
        assert_eq!(others.unwrap().join(" "), "-tool schedule_stats -indir a -verbose 1 -sched_time -jobs 2");
    }

    #[test]
    fn values_of_markers_may_be_hex_numbers_of_64_bits() {
        let parse = |value: &str| {
            Request::parse(&["-filter_modify_marker_value".to_owned(), value.to_owned()])
                .map(|request| request.spec.marker_values)
        };
        let values = parse("3,0xffffffffffffffff,18,2048").unwrap();
        assert_eq!((values[&3], values[&18]), (u64::MAX, 2048));
        for value in ["3,0x", "3,0x+1", "3,0x10000000000000000", "3,0xfg"] {
            assert!(parse(value).is_err(), "{value}");
        }
    }
}
