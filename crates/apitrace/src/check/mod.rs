//! `check`: reports every rule that a trace breaks, and where.
//!
//! Reads the trace as `quipu recover` does: it continues after damage, so that it finds all of it. A violation has a rule
//! with a stable name and severity (docs/checks.md lists them) and a place: the offset in the stream, and in words the chunk
//! and the call. The first few violations of each rule are kept individually, the rest are counted.
//!
//! The file is read twice, so a pipe cannot be checked. Memory does not grow with the length of the trace.

pub(crate) mod rules;

pub use rules::RULES;

use crate::decode::Header;
use crate::decode::signatures::LOST_FUNCTION;
use crate::record::INCOMPLETE;
use crate::salvage::{Sink, StreamFacts, salvage};
use crate::trace::ApiTrace;
use quipu_model::check::{self, CheckLog, CheckReport};
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::values::{Call, Type, Types, Values};
use quipu_model::{
    Batch, Columns, DynPass, Error, Finding, Options, Pass, Place, Report, Result, Severity, Shard, Tool,
    ToolInfo, Trace,
};
use quipu_source::Container;

/// The tool `check`.
#[derive(Debug)]
pub struct Check;

static INFO: ToolInfo = check::info(
    "apitrace",
    Columns::NONE,
    Columns::NONE,
    &check::options("check only how calls are stored, not their contents"),
);

impl Tool for Check {
    fn result(&self) -> Shape {
        CheckReport::<Looked>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    /// A part of a trace lacks the header, and has calls whose entry or exit is missing.
    fn wants_whole_traces(&self) -> bool {
        true
    }

    fn reads_again(&self) -> bool {
        true
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let container = trace.as_any().and_then(|trace| trace.downcast_ref::<ApiTrace>());
        let Some(container) = container.map(|trace| trace.container().clone()) else {
            return Err(Error::missing("this is no trace of format apitrace"));
        };
        if !container.source().can_seek() {
            return Err(Error::unsupported("a pipe cannot be checked, since it can be read only once")
                .hint("write it to a file first"));
        }
        // `finish` judges the header again when it reads past the damage, so this finding would be reported twice.
        let told = trace.meta().findings.iter().filter(|finding| finding.rule != rules::LOST_HEADER.name);
        let log = CheckLog::new(options, RULES, &told.cloned().collect::<Vec<_>>())?;
        let pass = CheckPass { container, log, decodes: !options.flag(&check::NO_DECODE) };
        Ok(Box::new(pass))
    }
}

/// The pass of `check`. It ignores batches; `finish` reads the file again and checks it.
struct CheckPass {
    container: Container,
    log: CheckLog,
    decodes: bool,
}

impl Pass for CheckPass {
    fn fork(&self, _shard: &Shard) -> CheckPass {
        CheckPass { container: self.container.clone(), log: self.log.fork(), decodes: self.decodes }
    }

    /// Does nothing: `finish` reads the trace past its damage and finds all that the reader found, and more.
    fn consume(&mut self, _batch: &Batch) -> Result<()> {
        Ok(())
    }

    fn merge(&mut self, _later: CheckPass) -> Result<()> {
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let mut checker = Checker {
            file: self.container.name().to_owned(),
            log: self.log,
            decodes: self.decodes,
            calls: 0,
            n_threads: 0,
            n_types: 0,
        };
        let salvaged = salvage(&self.container, &mut checker)?;
        let Checker { mut log, calls, .. } = checker;
        salvaged
            .found
            .as_slice()
            .iter()
            .cloned()
            .map(as_bad_as_its_rule)
            .for_each(|finding| log.take(finding));
        let looked_at = Looked {
            calls,
            lost_bytes: salvaged.lost_bytes,
            lost_chunks: salvaged.lost_chunks,
            streams: salvaged.streams,
        };
        Ok(Box::new(CheckReport::new(&log.close(), calls, "calls", looked_at)))
    }
}

result! {
    /// Amounts of data checked and lost.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Looked {
        pub calls: u64 => "Calls read.";
        pub lost_bytes: u64 => "Bytes of the stream that are lost.";
        pub lost_chunks: u64 => "Chunks that are lost.";
        pub streams: Vec<StreamFacts> => "Each stream.";
    }
}

/// Gives a finding the severity of its rule. Readers only warn of a truncated file, but here it is an error: the user asks
/// whether the trace is complete.
fn as_bad_as_its_rule(finding: Finding) -> Finding {
    let rule = RULES.iter().find(|rule| rule.name == finding.rule);
    let severity = match (rule, &*finding.rule) {
        (Some(rule), _) => rule.severity,
        (None, "source/truncated") => Severity::Error,
        (None, _) => finding.severity,
    };
    Finding { severity, ..finding }
}

/// Checks each call.
struct Checker {
    file: String,
    log: CheckLog,
    decodes: bool,
    calls: u64,
    /// Threads seen so far in the current stream: they are numbered by their first call.
    n_threads: u64,
    n_types: usize,
}

impl Checker {
    fn place(&self) -> Place {
        Place { file: Some(self.file.clone()), record: Some(self.calls), ..Place::default() }
    }

    fn header(&mut self, header: &Header) {
        let names: Vec<&[u8]> = header.properties.iter().map(|(name, _)| &name[..]).collect();
        let place = Place { file: Some(self.file.clone()), offset: Some(0), ..Place::default() };
        for pair in names.windows(2) {
            let name = String::from_utf8_lossy(pair[1]).into_owned();
            if pair[0] == pair[1] {
                self.log.add(&rules::REPEATED_PROPERTY, || {
                    (place.clone(), format!("property `{name}` stands there twice"))
                });
            } else if pair[0] > pair[1] {
                self.log.add(&rules::PROPERTY_ORDER, || {
                    (place.clone(), format!("property `{name}` stands after a later name"))
                });
            }
        }
    }

    fn types(&mut self, types: &Types) {
        for ty in types.as_slice().get(self.n_types..).unwrap_or(&[]) {
            if let Type::Flags(names) = &**ty
                && names.names.iter().skip(1).any(|(_, number)| *number == 0)
            {
                let place = self.place();
                self.log.add(&rules::ZERO_FLAG, || {
                    (place, format!("the set of flags `{}` has the name of 0 after others", names.id))
                });
            }
        }
        self.n_types = types.len();
    }

    fn call(&mut self, call: &Call, values: &Values, types: &Types) {
        let Some(function) = types.function(call.function) else { return };
        let name = || String::from_utf8_lossy(&function.name).into_owned();
        let at = self.place();
        let number = call.number;
        if call.flags & INCOMPLETE != 0 {
            let at = at.clone();
            self.log.add(&rules::INCOMPLETE_CALL, || {
                (at, format!("call `{number}` of `{}` never returned", name()))
            });
        }
        let (args, n_named) = (values.args_of(call), function.args.len());
        let is_lost = function.name.starts_with(LOST_FUNCTION.as_bytes());
        if let Some(extra) = args.last().filter(|arg| arg.index as usize >= n_named && !is_lost) {
            let at = at.clone();
            let index = extra.index;
            self.log.add(&rules::EXTRA_ARGUMENT, || {
                (
                    at,
                    format!(
                        "call `{number}` of `{}` has argument `{index}`, its signature has `{n_named}`",
                        name()
                    ),
                )
            });
        } else if args.len() < n_named && call.flags & INCOMPLETE == 0 {
            let at = at.clone();
            let n_args = args.len();
            self.log.add(&rules::MISSING_ARGUMENT, || {
                (at, format!("call `{number}` of `{}` has `{n_args}` of `{n_named}` arguments", name()))
            });
        }
        if call.thread >= self.n_threads {
            if call.thread > self.n_threads + 64 {
                let thread = call.thread;
                self.log.add(&rules::THREAD_NUMBER, || {
                    (at, format!("call `{number}` is made by thread `{thread}`; there are fewer threads"))
                });
            }
            self.n_threads = call.thread.saturating_add(1);
        }
    }
}

impl Sink for Checker {
    fn stream(&mut self, header: &Header, _offset: u64) -> Result<()> {
        (self.n_threads, self.n_types) = (0, 0);
        self.header(header);
        Ok(())
    }

    fn calls(&mut self, values: &Values, types: &Types) -> Result<()> {
        if self.decodes {
            self.types(types);
        }
        for call in &values.calls {
            self.calls += 1;
            if self.decodes {
                self.call(call, values, types);
            }
        }
        Ok(())
    }
}
