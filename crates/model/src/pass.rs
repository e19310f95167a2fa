//! The interface of analyses: forked for each piece of a trace, fed batches, merged in the trace's order, finished once.

use crate::batch::Batch;
use crate::columns::Columns;
use crate::doc::Document;
use crate::error::{Error, Result};
use crate::finding::{Finding, Severity};
use crate::options::{Given, OptionSpec, Options};
use crate::result::{Fields, Shape, json, tables};
use crate::row_tool::RowTool;
use crate::table::ColumnTable;
use crate::trace::{Shard, Trace};
use std::any::Any;

/// A running analysis.
///
/// `merge` is associative and is called in the order of shards and pieces, so an answer never depends on the number
/// of threads.
pub trait Pass: Send + Sized + 'static {
    /// Creates an empty pass with the same options for one piece of `shard`. The engine runs forks only: state that is kept
    /// in the pass that [`Tool::build`] returned never reaches the result.
    fn fork(&self, shard: &Shard) -> Self;

    /// Processes one batch. This is one virtual call for each batch; the loop over rows is inside.
    fn consume(&mut self, batch: &Batch) -> Result<()>;

    /// Processes one batch of each core, when several cores run side by side. All batches have the same number of records:
    /// the first record of each core came before the second record of any. Only passes of order [`Time`](Order::Time) get
    /// such batches; all others see each core alone.
    ///
    /// # Errors
    /// `Unsupported` by default: a pass that needs the order of time must be written for cores that run side by side.
    fn consume_in_step(&mut self, batches: &[Batch]) -> Result<()> {
        let _ = batches;
        Err(Error::unsupported("this analysis takes threads one after the other, not cores side by side")
            .hint("leave out the scheduler"))
    }

    /// True if no further record can change the result. Reading may then stop, but need not.
    fn has_enough(&self) -> bool {
        false
    }

    /// Merges the state of a pass that read the records right after this one's.
    fn merge(&mut self, later: Self) -> Result<()>;

    /// Ends the analysis and returns its result.
    fn finish(self) -> Result<Box<dyn Report>>;
}

/// A [`Pass`] as a trait object, implemented for every pass.
pub trait DynPass: Send {
    /// See [`Pass::fork`].
    fn fork(&self, shard: &Shard) -> Box<dyn DynPass>;
    /// See [`Pass::consume`].
    fn consume(&mut self, batch: &Batch) -> Result<()>;
    /// See [`Pass::consume_in_step`].
    fn consume_in_step(&mut self, batches: &[Batch]) -> Result<()>;
    /// See [`Pass::has_enough`].
    fn has_enough(&self) -> bool;
    /// See [`Pass::merge`]. An internal error if `later` is another type of pass.
    fn merge(&mut self, later: Box<dyn DynPass>) -> Result<()>;
    /// See [`Pass::finish`].
    fn finish(self: Box<Self>) -> Result<Box<dyn Report>>;
    /// For the downcast inside `merge`.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<P: Pass> DynPass for P {
    fn fork(&self, shard: &Shard) -> Box<dyn DynPass> {
        Box::new(Pass::fork(self, shard))
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        Pass::consume(self, batch)
    }

    fn consume_in_step(&mut self, batches: &[Batch]) -> Result<()> {
        Pass::consume_in_step(self, batches)
    }

    fn has_enough(&self) -> bool {
        Pass::has_enough(self)
    }

    fn merge(&mut self, later: Box<dyn DynPass>) -> Result<()> {
        let later = later
            .into_any()
            .downcast::<P>()
            .map_err(|_| Error::new(crate::ErrorKind::Internal, "two different passes cannot merge"))?;
        Pass::merge(self, *later)
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn Report>> {
        Pass::finish(*self)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// An analysis as registered: describes itself and builds passes.
pub trait Tool: Sync {
    /// Name, needs and options.
    fn info(&self) -> &'static ToolInfo;

    /// The shape of its result: fields, keys and tables.
    fn result(&self) -> Shape;

    /// The parts of a trace that the analysis reads with these options.
    ///
    /// # Errors
    /// `Missing` if the trace lacks something that the tool needs; `Usage` for a table or column that does not exist.
    fn reads(&self, options: &Options, trace: &dyn Trace) -> Result<Reads> {
        let _ = options;
        let info = self.info();
        Ok(Reads { columns: info.needs.of(info.name, trace)?, tables: Vec::new(), order: info.order })
    }

    /// Builds the pass for one trace, ready to be forked.
    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>>;

    /// Rows that the tool can hand on while it reads, in addition to its result; `None` if it has none.
    fn rows(&self) -> Option<&'static dyn RowTool> {
        None
    }

    /// True if results for part of a trace would be meaningless, so that the tool must see whole shards, undivided.
    fn wants_whole_traces(&self) -> bool {
        false
    }

    /// True if the tool reads the trace more than once, which is impossible for a pipe.
    fn reads_again(&self) -> bool {
        false
    }

    /// True if this tool should also run when the analysis called `tool` is requested for `trace`: for tools that report on
    /// files that a format keeps next to a trace.
    fn accompanies(&self, tool: &str, trace: &dyn Trace) -> bool {
        let _ = (tool, trace);
        false
    }
}

/// The description of a tool, available without opening a trace.
#[derive(Debug)]
pub struct ToolInfo {
    /// Name, as on the command line.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The tool's requirements on a trace.
    pub needs: Needs,
    /// The order in which it must see the trace.
    pub order: Order,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// Whether `report` shows its brief document.
    pub in_report: bool,
}

impl ToolInfo {
    /// Checks the options given to the tool.
    ///
    /// # Errors
    /// As [`Options::parse`].
    pub fn parse(&self, given: &Given) -> Result<Options> {
        Options::parse(&format!("tool `{}`", self.name), self.options, given)
    }
}

/// A tool's requirements on a trace.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// The only format that the tool works with, for tools on native records; `None` for any format.
    pub format: Option<&'static str>,
    /// Columns without which the tool cannot work.
    pub required: Columns,
    /// Columns that the tool uses if the trace has them.
    pub optional: Columns,
}

impl Needs {
    /// The columns to request from `trace`, or an error that names what is missing.
    pub fn of(&self, tool: &str, trace: &dyn Trace) -> Result<Columns> {
        if let Some(format) = self.format
            && format != trace.meta().format
        {
            return Err(Error::missing(format!(
                "tool `{tool}` reads {format} traces only; this one is {}",
                trace.meta().format
            )));
        }
        let missing = self.required.minus(trace.columns());
        if !missing.is_empty() {
            let error =
                Error::missing(format!("tool `{tool}` needs {missing}, which this trace does not carry"));
            let is_stored = trace.origin().is_none_or(|origin| !origin.columns().has(missing));
            return Err(if is_stored {
                error
            } else {
                error.hint("the threads as recorded carry it: leave their order as it is")
            });
        }
        Ok(self.required | self.optional.and(trace.columns()))
    }
}

/// The parts of a trace that a pass reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reads {
    /// Columns of lenses.
    pub columns: Columns,
    /// Tables, by position in [`Trace::tables`]. The batches may also contain tables that other passes asked for.
    pub tables: Vec<usize>,
    /// The order in which it must see the trace.
    pub order: Order,
}

/// The order in which a pass must see the trace, from loose to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Arbitrary pieces, merged in order.
    Pieces,
    /// Each shard from beginning to end.
    Shards,
    /// One stream of all shards, merged by time.
    Time,
}

/// The result of a pass: a structure made by [`result!`](crate::result!), and its form for people.
pub trait ReportBody: Fields + Send + 'static {
    /// The result for people.
    fn document(&self, detail: Detail) -> Document;

    /// Faults of the trace, if the pass looks for them.
    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// True if the pass checked the trace and found errors, whether they are among the findings or only counted.
    fn is_flawed(&self) -> bool {
        self.findings().iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// A [`ReportBody`] as a trait object, implemented for every report body.
pub trait Report: Send + 'static {
    /// The result as tables. The first is called `name`; see [`tables`].
    fn tables(&self, name: &str) -> Vec<ColumnTable>;

    /// The result as JSON. Its keys are stable.
    fn json(&self) -> serde_json::Value;

    /// See [`ReportBody::document`]. In full detail, the document explains its words with the sentences on the result's keys.
    fn document(&self, detail: Detail) -> Document;

    /// See [`ReportBody::findings`].
    fn findings(&self) -> Vec<Finding>;

    /// See [`ReportBody::is_flawed`].
    fn is_flawed(&self) -> bool;

    /// For callers that know the concrete type of the report.
    fn as_any(&self) -> &dyn Any;
}

impl<B: ReportBody> Report for B {
    fn tables(&self, name: &str) -> Vec<ColumnTable> {
        tables(name, self)
    }

    fn json(&self) -> serde_json::Value {
        json(self)
    }

    fn document(&self, detail: Detail) -> Document {
        let document = ReportBody::document(self, detail);
        match detail {
            Detail::Brief => document,
            Detail::Full => Document { terms: B::shape().terms(), ..document },
        }
    }

    fn findings(&self) -> Vec<Finding> {
        ReportBody::findings(self)
    }

    fn is_flawed(&self) -> bool {
        ReportBody::is_flawed(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The amount of detail in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The few lines that fit on one screen together with other results.
    Brief,
    /// Everything.
    Full,
}
