//! The tool `check` for families of records: finds violations of the format's rules.
//!
//! The loop reports damage; a family checks the contents of its records with its [`Rules`]. Memory grows with the state of
//! these.

use crate::trace::{Family, FlatTrace};
use quipu_model::check::{self, CheckLog, CheckReport, CheckedRecords};
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Error, OptionSpec, Options, Pass, Place, Report, Result, RuleInfo, Shard, Tool,
    ToolInfo, Trace,
};
use std::marker::PhantomData;

/// The rules for the records of a family.
pub trait Rules<C>: Send + Sized + 'static {
    /// The state before the first record.
    fn new(codec: &C) -> Self;

    /// Checks a batch.
    fn batch(&mut self, batch: &Batch, log: &mut Log);

    /// Appends the state of the records after these.
    fn merge(&mut self, later: Self);

    /// Checks the remaining state after everything was read.
    fn end(self, _log: &mut Log) {}
}

/// Receives violations.
#[derive(Debug)]
pub struct Log {
    log: CheckLog,
    file: String,
}

impl Log {
    /// Adds a violation in the file. `describe` returns the offset, the record (counted from 0), each if known, and the
    /// message; it runs only if the violation is kept.
    #[cold]
    pub fn add(
        &mut self,
        rule: &'static RuleInfo,
        describe: impl FnOnce() -> (Option<u64>, Option<u64>, String),
    ) {
        let file = &self.file;
        self.log.add(rule, || {
            let (offset, record, what) = describe();
            (Place { file: Some(file.clone()), offset, record, ..Place::default() }, what)
        });
    }
}

/// The tool `check` of a family.
#[derive(Debug)]
pub struct Check<C> {
    info: &'static ToolInfo,
    codec: PhantomData<fn() -> C>,
}

static OPTIONS: [OptionSpec; 4] = check::options("check only how records are stored, not what they mean");

/// The description of the tool for a format whose rules need these columns.
pub const fn info(format: &'static str, required: Columns) -> ToolInfo {
    check::info(format, required, Columns::NONE, &OPTIONS)
}

impl<C: Family> Check<C> {
    /// The tool with this description.
    pub const fn new(info: &'static ToolInfo) -> Check<C> {
        Check { info, codec: PhantomData }
    }
}

impl<C: Family> Tool for Check<C> {
    fn result(&self) -> Shape {
        CheckReport::<CheckedRecords>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        self.info
    }

    /// A part of a trace lacks the records before its beginning, on which the rules depend.
    fn wants_whole_traces(&self) -> bool {
        true
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let Some(opened) = trace.as_any().and_then(|trace| trace.downcast_ref::<FlatTrace<C>>()) else {
            let format = self.info.needs.format.unwrap_or_default();
            return Err(Error::missing(format!("this is no trace of format {format}")));
        };
        let codec = opened.codec();
        let log = CheckLog::new(options, codec.rules(), &trace.meta().findings)?;
        Ok(Box::new(CheckPass {
            codec: codec.clone(),
            log: Log { log, file: opened.container().name().to_owned() },
            rules: (!options.flag(&check::NO_DECODE)).then(|| C::Rules::new(codec)),
            n_records: 0,
        }))
    }
}

struct CheckPass<C: Family> {
    codec: C,
    log: Log,
    /// `None` if only damage is checked.
    rules: Option<C::Rules>,
    n_records: u64,
}

impl<C: Family> Pass for CheckPass<C> {
    fn fork(&self, shard: &Shard) -> CheckPass<C> {
        CheckPass {
            codec: self.codec.clone(),
            log: Log { log: self.log.log.fork(), file: shard.name.clone() },
            rules: self.rules.as_ref().map(|_| C::Rules::new(&self.codec)),
            n_records: 0,
        }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        self.n_records += u64::from(batch.span.records);
        batch.findings.iter().for_each(|finding| self.log.log.take(finding.clone()));
        if let Some(rules) = &mut self.rules {
            rules.batch(batch, &mut self.log);
        }
        Ok(())
    }

    fn merge(&mut self, later: CheckPass<C>) -> Result<()> {
        self.log.log.merge(later.log.log);
        self.n_records += later.n_records;
        if let (Some(rules), Some(later)) = (&mut self.rules, later.rules) {
            rules.merge(later);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        if let Some(rules) = self.rules {
            rules.end(&mut self.log);
        }
        Ok(Box::new(CheckReport::of_records(&self.log.log.close(), self.n_records)))
    }
}
