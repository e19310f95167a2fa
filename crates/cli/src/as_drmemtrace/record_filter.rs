//! The launcher's `record_filter`: a trace written again without some of its entries.
//!
//! It has options of its own, under the names of both of the original's programs for it, and one line of text.
//! QUIRK: the original writes what it cannot pack (lz4, snappy) bare under the old name, which nobody can read; here every
//! file is packed as it was.

use super::args::{find_value, list_of, number_of};
use crate::Common;
use crate::edit::{self, Watched};
use crate::input;
use crate::screen::{Outcome, Result, Screen};
use crate::session::{self, Verdict};
use quipu::drmemtrace::edits::clock_trim::{ClockTrim, ClockUnit};
use quipu::drmemtrace::edits::filter::KernelCode;
use quipu::drmemtrace::edits::{Filter, FilterSpec};
use quipu::drmemtrace::trace;
use quipu::drmemtrace::write::{self, Replace, WriteOptions};
use quipu::model::{Error, Found, OpenOptions, ThreadId, Trace};
use quipu::source::{PackOptions, Source};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The tool's name.
pub(super) const NAME: &str = "record_filter";

/// What is asked of the tool.
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
}

/// True if the command line asks for this tool.
pub(super) fn is_meant(args: &[String]) -> bool {
    args.windows(2)
        .any(|pair| matches!(pair[0].trim_start_matches('-'), "tool" | "simulator_type") && pair[1] == NAME)
}

/// Does what the launcher does with these arguments.
pub(super) fn run(args: &[String], common: &Common, screen: &Screen) -> Result<Outcome> {
    let mut request = Request::parse(args)?;
    request.spec.trim = request.trim()?;
    request.spec.original_layout = true;
    let path = request.input.ok_or_else(|| Error::usage("-indir or -infile is required"))?;
    let folder = request.folder.ok_or_else(|| Error::usage("-outdir is required"))?;
    let source = Source::open(&path).map_err(Error::from)?;
    refuse_same_place(&path, &folder, source.is_folder())?;
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
    let options = WriteOptions {
        pack: PackOptions::new(edit::same_packing(&trace)),
        threads: request.jobs.or(common.threads.map(usize::from)).unwrap_or(0),
        replace: Replace::Allowed,
        ..WriteOptions::new()
    };
    let out = if source.is_folder() {
        folder
    } else {
        std::fs::create_dir_all(&folder)?;
        folder.join(path.file_name().unwrap_or_default())
    };
    let edit_of = |shard: usize| Filter::new(spec.clone(), trace.files().get(shard)?.header.filetype).ok();
    let summary = session::watched(screen, |watch| {
        watch.expect(trace.meta().packed_bytes);
        write::rewrite(&trace, &source, &out, &options, &edit_of, &Watched(watch))
    })?;
    let (written, read) = (summary.written().entries, summary.taken.read.entries);
    writeln!(crate::terminal::stderr(), "Output {written} entries from {read} entries.")?;
    let mut found = Found::default();
    summary.findings.into_iter().for_each(|finding| found.push(finding));
    Ok(Verdict::new(&trace, found, None, false).tell(screen))
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
            // The original takes -1 for as many jobs as there are processors.
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
            "no_core_sharded" | "no_core_serial" => {}
            _ => {
                let what = format!("option `{arg}` of drmemtrace is not available with the tool {NAME}");
                return Err(Error::unsupported(what).into());
            }
        }
        Ok(())
    }

    /// The original's way to trim, if it is asked for.
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

/// Makes sure that a trace is not replaced by what is left of it.
fn refuse_same_place(input: &Path, folder: &Path, is_folder: bool) -> Result<()> {
    let from = if is_folder { Some(input) } else { input.parent() };
    // A bare name lies in the folder that we are in.
    let from = from.map(|from| if from == Path::new("") { Path::new(".") } else { from });
    match (from.map(Path::canonicalize), folder.canonicalize()) {
        (Some(Ok(from)), Ok(to)) if from == to => {
            let what = format!("-outdir `{}` is where the trace is", folder.display());
            Err(Error::usage(what).hint("name another folder").into())
        }
        _ => Ok(()),
    }
}

/// How many threads work; none for as many as there are processors, which -1 stands for.
fn jobs(arg: &str, text: &str) -> quipu::model::Result<Option<usize>> {
    if text == "-1" {
        return Ok(None);
    }
    let jobs = text.parse::<usize>();
    jobs.map(|jobs| Some(jobs.max(1)))
        .map_err(|_| Error::usage(format!("option `{arg}`: `{text}` is no number")))
}

/// A limit; 0 is none.
fn limit(arg: &str, text: &str) -> quipu::model::Result<Option<u64>> {
    Ok(Some(number_of(arg, text)?).filter(|limit| *limit > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

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
