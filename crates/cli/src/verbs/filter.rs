//! `quipu filter`: a trace without some of its records.

use quipu::drmemtrace::edits::filter::KernelCode;
use quipu::drmemtrace::edits::{Filter, FilterSpec};
use quipu::drmemtrace::record::{Marker, Type};
use quipu::drmemtrace::table;
use quipu::drmemtrace::trace::DrmemTrace;
use quipu::model::{Error, ShardKind, Trace};
use quipu_console::Common;
use quipu_console::edit::{self, EXIT_CODES, Output};
use quipu_console::input::Stored;
use quipu_console::number;
use quipu_console::screen::{Outcome, Result, Screen};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Write a trace without some of its records
///
/// Several options together leave out what any of them leaves out. The encoding of an instruction that is left out comes
/// back before the next one at its address, and the file type says what is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,

    /// Leave out records of these kinds, such as read, prefetch, data, flush
    #[arg(long, value_name = "KIND", value_delimiter = ',', help_heading = "What is left out")]
    drop: Vec<String>,
    /// Leave out markers of these kinds, by name or number
    #[arg(long, value_name = "MARKER", value_delimiter = ',', value_parser = marker, help_heading = "What is left out")]
    drop_marker: Vec<u16>,
    /// Keep markers of these kinds only, besides those that a trace, or the flow of its instructions, cannot do without
    #[arg(long, value_name = "MARKER", value_delimiter = ',', value_parser = marker, help_heading = "What is left out")]
    keep_marker: Vec<u16>,
    /// Keep only those accesses that touch one of these addresses
    #[arg(long, value_name = "A..B", value_delimiter = ',', value_parser = number::range, help_heading = "What is left out")]
    addr: Vec<RangeInclusive<u64>>,
    /// Keep only the markers of these functions
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = number::number, help_heading = "What is left out")]
    function: Vec<u64>,
    /// Leave out accesses that hit a direct-mapped cache of so many bytes
    #[arg(long, value_name = "BYTES", value_parser = number::number, help_heading = "What is left out")]
    cache: Option<u64>,
    /// Leave out instructions that hit a direct-mapped cache of so many bytes; markers count all of them
    #[arg(long, value_name = "BYTES", value_parser = number::number, help_heading = "What is left out")]
    icache: Option<u64>,
    /// Leave out all data
    #[arg(long, help_heading = "What is left out")]
    instr_only: bool,
    /// Leave out kernel code: all of it, or all but that of system calls
    #[arg(long, value_name = "WHICH", value_parser = ["all", "all-but-syscalls"], num_args = 0..=1,
          default_missing_value = "all", require_equals = true, help_heading = "What is left out")]
    drop_kernel: Option<String>,
    /// Leave out the bytes of instructions
    #[arg(long, conflicts_with_all = ["regdeps", "until"], help_heading = "What is left out")]
    no_encodings: bool,
    /// End filtering at this reading of the clock, or with the file if that comes first; everything later stays
    #[arg(long, value_name = "CLOCK", value_parser = number::number, help_heading = "What is left out")]
    until: Option<u64>,

    /// Replace the bytes of instructions by their dependencies, and leave out what published traces of this kind do not
    /// tell: processors, kernel code, and markers of system calls, signals and functions but futex; for x86 and AArch64
    #[arg(long, conflicts_with = "until", help_heading = "What is changed")]
    regdeps: bool,
    /// Give threads other ids
    #[arg(long, value_name = "OLD=NEW", value_delimiter = ',', value_parser = pair, help_heading = "What is changed")]
    rename_thread: Vec<(u64, u64)>,
    /// Give all markers of a kind this value
    #[arg(long, value_name = "MARKER=VALUE", value_delimiter = ',', value_parser = marker_value, help_heading = "What is changed")]
    set_marker: Vec<(u16, u64)>,

    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  quipu filter --cache 32Ki trace.dir -o misses.dir
  quipu filter --drop prefetch --drop-marker func_id,func_arg,func_retval trace.zip -o less.zip
  quipu filter --regdeps trace.dir -o public.dir
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let spec = Arc::new(options.spec()?);
    let opened = edit::open(&options.input, "filter")?;
    options.check_names(&opened.trace)?;
    // All filters are made before anything is written: what is wrong with one is said at once.
    for file in opened.trace.files() {
        Filter::new(spec.clone(), file.header.filetype)?;
    }
    let threads = &options.input.opening.threads;
    let edit_of = |shard: usize| {
        let header = &opened.trace.files().get(shard)?.header;
        Some(
            Filter::new(spec.clone(), header.filetype)
                .ok()?
                .with_turns(header.is_mixed && threads.len() != 1),
        )
    };
    if options.input.opening.threads.is_empty() || opened.has_files_of_threads() {
        return edit::rewrite(&options.input, &options.output, &opened, &edit_of, common, screen);
    }
    edit::rewrite_threads(&options.input, &options.output, &opened, (&edit_of, false), common, screen)
}

impl Options {
    /// Makes sure that threads that are told apart by the source stay so.
    ///
    /// # Errors
    /// `Missing` if there is no thread of the old name, `Usage` if two would have the same new one.
    fn check_names(&self, trace: &DrmemTrace) -> Result<()> {
        // Files of several threads do not say beforehand which; what is seen of them is in the records only.
        let is_known = trace.shards().iter().all(|shard| shard.kind == ShardKind::Thread);
        let tids: Vec<u64> = trace.shards().iter().filter_map(|shard| Some(shard.thread?.packed())).collect();
        for (i, (old, new)) in self.rename_thread.iter().enumerate() {
            let (before, pair) = (&self.rename_thread[..i], format!("`--rename-thread {old}={new}`"));
            if is_known && !tids.contains(old) {
                return Err(Error::missing(format!("{pair}: the trace has no thread {old}")).into());
            }
            if before.iter().any(|(other, _)| other == old) {
                return Err(Error::usage(format!("{pair}: thread {old} has got a name already")).into());
            }
            if before.iter().any(|(_, other)| other == new) {
                return Err(Error::usage(format!("{pair}: another thread is given {new} already")).into());
            }
            // A thread that is renamed itself leaves its name to others.
            if old != new && tids.contains(new) && !self.rename_thread.iter().any(|(other, _)| other == new) {
                return Err(Error::usage(format!("{pair}: the trace has a thread {new} already")).into());
            }
        }
        Ok(())
    }

    fn spec(&self) -> Result<FilterSpec> {
        let mut spec = FilterSpec {
            stop_timestamp: self.until,
            data_cache_bytes: self.cache,
            instr_cache_bytes: self.icache,
            drop_markers: self.drop_marker.iter().copied().collect(),
            keep_markers: (!self.keep_marker.is_empty()).then(|| self.keep_marker.iter().copied().collect()),
            addrs: self.addr.clone(),
            drop_encodings: self.no_encodings,
            instr_only: self.instr_only,
            keep_functions: (!self.function.is_empty()).then(|| self.function.iter().copied().collect()),
            marker_values: self.set_marker.iter().copied().collect(),
            kernel: match self.drop_kernel.as_deref() {
                None => KernelCode::Keep,
                Some("all") => KernelCode::Drop,
                Some(_) => KernelCode::DropButSyscalls,
            },
            rename_threads: self.rename_thread.iter().copied().collect(),
            ..FilterSpec::default()
        };
        if self.regdeps {
            spec.publish_regdeps();
        }
        for word in &self.drop {
            match types(word) {
                Some(types) => spec.drop_types.extend(types),
                None => {
                    let known = table::types().groups().map(|(word, _)| word).collect::<Vec<_>>().join(", ");
                    return Err(Error::usage(format!("`--drop`: there are no records of kind `{word}`"))
                        .hint(format!(
                            "kinds are the types of records, and {known}; markers have --drop-marker"
                        ))
                        .into());
                }
            }
        }
        Ok(spec)
    }
}

/// The entry types that a word stands for: a name or a family. What frames a trace is none of them.
fn types(word: &str) -> Option<Vec<u16>> {
    let names = table::types();
    let narrow = |number: &u64| *number as u16; // There are fifty.
    if let Some(numbers) = names.group(word) {
        let mut types: Vec<u16> = numbers.iter().map(narrow).collect();
        // A long flush has two entries.
        if word == "flush" {
            types.extend([Type::INSTR_FLUSH_END.0, Type::DATA_FLUSH_END.0]);
        }
        return Some(types);
    }
    let frame = [Type::HEADER, Type::FOOTER, Type::THREAD, Type::PID, Type::THREAD_EXIT, Type::MARKER];
    names
        .number(word)
        .as_ref()
        .map(narrow)
        .filter(|number| frame.iter().all(|kind| kind.0 != *number))
        .map(|number| vec![number])
}

/// A kind of marker, by name or number.
fn marker(text: &str) -> Result<u16, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let named = (0..100).find(|kind| Marker(*kind).name() == Some(text));
    named.ok_or_else(|| format!("there are no markers of kind `{text}`"))
}

fn marker_value(text: &str) -> Result<(u16, u64), String> {
    let (kind, value) = number::key_value(text)?;
    // An unknown processor is -1.
    let value = match value.parse::<i64>() {
        Ok(negative @ ..0) => negative as u64,
        _ => number::number(&value)?,
    };
    Ok((marker(&kind)?, value))
}

fn pair(text: &str) -> Result<(u64, u64), String> {
    let (old, new) = number::key_value(text)?;
    Ok((number::number(&old)?, number::number(&new)?))
}
