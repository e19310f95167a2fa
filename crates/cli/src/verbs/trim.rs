//! `quipu trim`: a part of a trace as a trace of its own.

use quipu::drmemtrace::edits::{Position, Trim};
use quipu::engine;
use quipu::model::{Error, ErrorKind, Given, Trace, Window};
use quipu_console::Common;
use quipu_console::edit::{self, EXIT_CODES, Opened, Output};
use quipu_console::input::{self, PARTS_COUNT_ALL, Stored};
use quipu_console::number;
use quipu_console::rewrite;
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session;
use std::ops::{Range, RangeInclusive};

/// Write a part of a trace as a trace of its own, or several parts as windows
///
/// Records and instructions count along the sequence of all threads by time, as for `quipu view`, or from the beginning of
/// each thread. A part begins and ends right before an instruction that is no kernel code, so instructions keep their data,
/// and system calls their markers and kernel code; of several parts, none ends with a branch, whose successor follows it.
/// Threads of which nothing is left are left out.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,

    /// Leave out this many records at the start
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Which part",
          conflicts_with_all = ["skip_instrs", "take_instrs", "since", "until", "instrs"])]
    skip: Option<u64>,
    /// Keep this many records
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Which part",
          conflicts_with_all = ["skip_instrs", "take_instrs", "since", "until", "instrs"])]
    take: Option<u64>,
    /// Leave out this many instructions at the start
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Which part",
          conflicts_with_all = ["since", "until", "instrs"])]
    skip_instrs: Option<u64>,
    /// Keep this many instructions
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Which part",
          conflicts_with_all = ["since", "until", "instrs"])]
    take_instrs: Option<u64>,
    /// Begin at this reading of the trace's clock
    #[arg(long, value_name = "CLOCK", value_parser = number::number, help_heading = "Which part",
          conflicts_with = "instrs")]
    since: Option<u64>,
    /// End before this reading of the trace's clock
    #[arg(long, value_name = "CLOCK", value_parser = number::number, help_heading = "Which part",
          conflicts_with = "instrs")]
    until: Option<u64>,
    /// Keep these instructions, counted from 0: `A..B` without B; several are windows of the new trace, numbered from 0 in
    /// its order; those that overlap or touch are one
    #[arg(long, value_name = "A..B", value_delimiter = ',', value_parser = number::range, help_heading = "Which part")]
    instrs: Vec<RangeInclusive<u64>>,
    /// Count from the beginning of each thread, instead of along the sequence of all
    #[arg(long, help_heading = "Which part")]
    per_thread: bool,
    /// Keep these calls: numbers, ranges, frame, draw, fbo, @FILE
    #[arg(long, value_name = "SET", help_heading = "Which part of a trace of calls")]
    calls: Vec<String>,
    /// Keep these frames, counted from 0, written like calls
    #[arg(long, value_name = "SET", help_heading = "Which part of a trace of calls")]
    frames: Vec<String>,
    /// Keep as well what these calls need of those before them: contexts and what they share, objects with their content,
    /// bindings, values that were set, matrices, lists, draws into textures. Not followed is what shaders of draws write into
    /// buffers and images, and what the program read back; of Direct3D all is kept but draws, swaps and questions
    #[arg(long, help_heading = "Which part of a trace of calls")]
    setup: bool,

    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  quipu trim --skip-instrs 1M --take-instrs 100k trace.dir -o part.dir
  quipu trim --instrs 0..10k,500k..510k --per-thread trace.dir -o windows.dir
  quipu trim --frames 100-109 --setup game.trace -o ten-frames.trace
  quipu trim --since 13352268558646120 --until 13352268558646661 trace.zip -o part.zip
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    // What calls need of those before them is found out by a read of its own.
    let source = match options.setup {
        true => input::spooled(&options.input.path)?,
        false => options.input.source()?,
    };
    if let Some((recognised, trim)) = rewrite::own(&source, &options.input.opening, "trim")? {
        let (source, opening) = (&recognised.source, &options.input.opening);
        let given = options.given(recognised.format.info().name)?;
        return rewrite::run(trim, source, opening, &given, &(&options.output).into(), common, screen);
    }
    if !options.calls.is_empty() || !options.frames.is_empty() || options.setup {
        return Err(Error::usage("`--calls`, `--frames` and `--setup` are for traces of calls").into());
    }
    let windows = options.windows()?;
    let opened = edit::open_source(source, &options.input, "trim")?;
    if options.per_thread && !opened.has_files_of_threads() {
        let what =
            "`--per-thread`: files of this trace hold several threads, which have no beginning of their own";
        return Err(Error::usage(what).hint("take them apart first: quipu split").into());
    }
    let (unit, parts) = options.parts(&windows, &opened, screen)?;
    let edit_of = |shard: usize| Some(Trim::new(unit, parts.get(shard).cloned().unwrap_or_default()));
    edit::rewrite_threads(&options.input, &options.output, &opened, (&edit_of, true), common, screen).map_err(
        |stop| match stop {
            Stop::Fault(error) if is_missing(&error) && options.counts_others(&opened) => {
                Stop::Fault(error.hint(PARTS_COUNT_ALL))
            }
            stop => stop,
        },
    )
}

fn is_missing(error: &Error) -> bool {
    error.kind() == ErrorKind::Missing
}

impl Options {
    /// True if records of threads that were not chosen count, too.
    fn counts_others(&self, opened: &Opened) -> bool {
        !self.input.opening.threads.is_empty() && !opened.has_files_of_threads()
    }

    /// What is said to a format that trims its traces itself.
    fn given(&self, format: &str) -> Result<Given> {
        let has_instrs = self.skip_instrs.is_some() || self.take_instrs.is_some() || !self.instrs.is_empty();
        let has_clock = self.since.is_some() || self.until.is_some();
        if has_instrs || has_clock || self.per_thread || self.output.chunk_instrs.is_some() {
            let what = format!("traces of format {format} have neither instructions nor a clock");
            return Err(Error::usage(what).hint("say --calls, --frames, --thread, --skip or --take").into());
        }
        let mut given = Given::default();
        self.calls.iter().for_each(|set| given.add("calls", set));
        self.frames.iter().for_each(|set| given.add("frames", set));
        if self.setup {
            given.add("setup", "yes");
        }
        for (name, number) in [("skip", self.skip), ("take", self.take)] {
            if let Some(number) = number {
                given.add(name, number.to_string());
            }
        }
        Ok(given)
    }

    fn windows(&self) -> Result<Vec<Window>> {
        let end = |start: u64, n: Option<u64>| n.map_or(u64::MAX, |n| start.saturating_add(n));
        if !self.instrs.is_empty() {
            return Ok(joined(&self.instrs).into_iter().map(Window::Instrs).collect());
        }
        if self.skip_instrs.is_some() || self.take_instrs.is_some() {
            let start = self.skip_instrs.unwrap_or(0);
            return Ok(vec![Window::Instrs(start..end(start, self.take_instrs))]);
        }
        if self.since.is_some() || self.until.is_some() {
            return Ok(vec![Window::Clock(self.since.unwrap_or(0)..self.until.unwrap_or(u64::MAX))]);
        }
        if self.skip.is_some() || self.take.is_some() {
            let start = self.skip.unwrap_or(0);
            return Ok(vec![Window::Records(start..end(start, self.take))]);
        }
        Err(Error::usage("no part is named")
            .hint("say --skip or --take, --skip-instrs or --take-instrs, --since or --until, or --instrs")
            .into())
    }

    /// What is kept of each file, and in which unit.
    fn parts(
        &self,
        windows: &[Window],
        opened: &Opened,
        screen: &Screen,
    ) -> Result<(Position, Vec<Vec<Range<u64>>>)> {
        let n_files = opened.trace.shards().len();
        let mut unit = Position::Records;
        let mut parts = vec![Vec::new(); n_files];
        for window in windows {
            let of_files = if self.per_thread {
                vec![window.clone(); n_files]
            } else {
                session::watched(screen, |watch| engine::parts(&opened.trace, window, watch))?
            };
            for (parts, window) in parts.iter_mut().zip(of_files) {
                let (of_file, range) = match window {
                    Window::All => (Position::Records, 0..u64::MAX),
                    Window::Records(range) => (Position::Records, range),
                    Window::Instrs(range) => (Position::Instrs, range),
                    Window::Clock(range) => (Position::Clock, range),
                };
                unit = of_file;
                parts.push(range);
            }
        }
        Ok((unit, parts))
    }
}

/// Ranges in their order, those that overlap or touch as one.
fn joined(ranges: &[RangeInclusive<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> =
        ranges.iter().map(|range| *range.start()..range.end().saturating_add(1)).collect();
    sorted.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match joined.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    joined
}
