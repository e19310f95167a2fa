//! The option that chooses the parts of a trace between marks, and the addresses of functions that serve as marks.

use crate::session;
use quipu::engine::{self, Between};
use quipu::model::{Error, Module, Placed, Trace};
use quipu::source::Source;
use quipu::symbols::functions::{build_id, loaded};
use quipu::symbols::symbol_table::code_symbols;
use std::ops::Range;

/// The parts of a trace that are read, whatever the verb does with them.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BetweenMarks {
    /// Only records from a mark FIRST to the next mark SECOND, each time: marks that the program set with `QUIPU_MARK`, kinds of
    /// marks such as `window_id=3`, or calls of functions; without one of the names, from the beginning or to the end
    #[arg(long, value_name = "FIRST,SECOND", value_parser = parse, help_heading = "Reading")]
    between: Option<Between>,
}

fn parse(text: &str) -> Result<Between, String> {
    text.parse().map_err(|error: Error| error.message().to_owned())
}

impl BetweenMarks {
    /// True if only parts are read.
    pub fn is_part(&self) -> bool {
        self.between.is_some()
    }

    /// The marks between which parts are read, if only parts are.
    pub fn marks(&self) -> Option<&Between> {
        self.between.as_ref()
    }

    /// The source of a trace that [`of`](BetweenMarks::of) reads twice.
    ///
    /// # Errors
    /// As [`Source::spooled`].
    pub fn spooled(&self, source: &Source) -> quipu::model::Result<Source> {
        if self.is_part() { Ok(source.spooled()?) } else { Ok(source.clone()) }
    }

    /// The chosen parts of a trace; the trace itself if none are chosen.
    ///
    /// # Errors
    /// As [`engine::between()`].
    pub fn of(&self, trace: Box<dyn Trace>) -> quipu::model::Result<Box<dyn Trace>> {
        let Some(between) = &self.between else { return Ok(trace) };
        let modules = trace.modules();
        let addresses = |name: &str| addresses(&modules, name);
        session::cancellable(|watch| engine::between(trace, between, &addresses, watch))
    }

    /// The records of the only part of a trace, along the sequence of all threads; `None` if no parts are chosen.
    ///
    /// # Errors
    /// As [`engine::between()`]; `Usage` if there are several parts.
    pub fn only_range(&self, trace: &dyn Trace) -> quipu::model::Result<Option<Range<u64>>> {
        let Some(between) = &self.between else { return Ok(None) };
        let modules = trace.modules();
        let addresses = |name: &str| addresses(&modules, name);
        let ranges = session::cancellable(|watch| engine::ranges_between(trace, between, &addresses, watch))?;
        if let [only] = &ranges[..] {
            return Ok(Some(only.clone()));
        }
        let flags = |range: &Range<u64>| format!("--skip {} --take {}", range.start, range.end - range.start);
        let first: Vec<String> = ranges.iter().take(3).map(flags).collect();
        Err(Error::usage(format!("there are {} parts {between}, and one range is wanted", ranges.len()))
            .hint(format!("choose one of them; the first are: {}", first.join("; "))))
    }
}

/// Addresses in the traced process of the functions of this name, in files that are still those of the recorded build.
fn addresses(modules: &[Module], name: &str) -> Vec<u64> {
    let mut all = Vec::new();
    let mut last = None;
    for module in modules {
        // A file has a module for each of its segments.
        if last.replace(&module.path) == Some(&module.path) {
            continue;
        }
        // The trace names the path, which may be anything; only files are opened.
        let is_same = module.path.is_absolute()
            && module.path.is_file()
            && module.build_id.as_ref().is_some_and(|id| build_id(&module.path).as_ref() == Some(id));
        if !is_same {
            continue;
        }
        let symbols = code_symbols(&module.path).unwrap_or_default();
        let lowest = loaded(&module.path).map_or(0, |range| range.start);
        let named = symbols.iter().filter(|symbol| symbol.name == name);
        all.extend(named.map(|symbol| match module.placed {
            Placed::By(added) => symbol.address.wrapping_add(added),
            Placed::From(start) => symbol.address.wrapping_sub(lowest).wrapping_add(start),
        }));
    }
    all.sort_unstable();
    all.dedup();
    all
}
