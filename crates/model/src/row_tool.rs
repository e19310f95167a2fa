//! Analyses whose result is rows, handed on while they read.
//!
//! They are for values that depend on the position and order of records, and so cannot be computed from one row: the reuse
//! distance of each access, each miss of a cache. Rows are those of a structure made by [`rows!`](crate::rows!), as in
//! lenses: the first column is the index of the record in its batch, which readers see replaced by the shard, the record, the
//! thread and the process ([`LentRows`](crate::row_source::LentRows)).

use crate::batch::{Batch, Span};
use crate::doc::Document;
use crate::error::Result;
use crate::options::{OptionSpec, Options};
use crate::pass::{Detail, DynPass, Order, Pass, Reads, Report, ReportBody, ToolInfo};
use crate::result;
use crate::schema::Schema;
use crate::table::{Table, TableBuf};
use crate::trace::{Shard, Trace};
use std::fmt;
use std::sync::Arc;

/// An analysis that hands on rows while it reads.
pub trait RowTool: Sync {
    /// Name, needs and options.
    fn info(&self) -> &'static ToolInfo;

    /// The schema of the rows. The first column is the index of the record in its batch.
    fn rows(&self) -> &'static Arc<Schema>;

    /// The option whose value may be given without the option's name.
    fn leading(&self) -> Option<&'static OptionSpec> {
        None
    }

    /// The parts of a trace that the analysis reads for the columns that `taker` wants.
    ///
    /// # Errors
    /// `Missing` if the trace lacks something that the analysis needs.
    fn reads(&self, options: &Options, trace: &dyn Trace, taker: &dyn RowTaker) -> Result<Reads> {
        let _ = (options, taker);
        let info = self.info();
        Ok(Reads { columns: info.needs.of(info.name, trace)?, tables: Vec::new(), order: info.order })
    }

    /// Builds the pass for one trace, ready to be forked. Its report is ignored.
    ///
    /// # Errors
    /// `Usage` for options that make no sense, `Missing` if the trace lacks something that the analysis needs.
    fn build(
        &self,
        options: &Options,
        trace: &dyn Trace,
        taker: Arc<dyn RowTaker>,
    ) -> Result<Box<dyn DynPass>>;
}

/// Receives the rows of a [`RowTool`]. The columns that it wants change no value, only the amount of work.
pub trait RowTaker: Send + Sync + fmt::Debug {
    /// True if the column of this name is read. Other columns may be left without values.
    fn wants(&self, column: &str) -> bool;

    /// True if rows of this shard may be wanted.
    fn wants_shard(&self, shard: &Shard) -> bool;

    /// Takes rows of one batch. Returns false if no more rows are wanted.
    ///
    /// # Errors
    /// Errors that end the run.
    fn take(&self, span: &Span, rows: &dyn TableBuf) -> Result<bool>;
}

/// Makes rows from batches: the part that differs between passes of [`RowTool`]s that do nothing else. Cloning a maker that
/// has not begun gives another such maker.
pub trait RowMaker: Clone + Send + 'static {
    /// The type of the rows.
    type Rows: TableBuf + Default;

    /// Prepares a new maker for a shard.
    fn begin(&mut self, shard: &Shard);

    /// Appends the rows of a batch to `rows`, which is empty.
    ///
    /// # Errors
    /// Errors of the analysis.
    fn rows(&mut self, batch: &Batch, rows: &mut Self::Rows) -> Result<()>;
}

/// The pass of a [`RowMaker`].
#[derive(Debug)]
pub struct RowPass<M: RowMaker> {
    maker: M,
    rows: M::Rows,
    taker: Arc<dyn RowTaker>,
    /// Whether each shard is analysed by itself, so that shards whose rows are not wanted can be skipped.
    is_by_shard: bool,
    is_over: bool,
}

impl<M: RowMaker> RowPass<M> {
    /// Creates a pass that is forked for each shard, or once for the whole trace, depending on `order`.
    pub fn new(maker: M, order: Order, taker: Arc<dyn RowTaker>) -> RowPass<M> {
        let is_by_shard = order == Order::Shards;
        RowPass { maker, rows: M::Rows::default(), taker, is_by_shard, is_over: false }
    }
}

impl<M: RowMaker> Pass for RowPass<M> {
    fn fork(&self, shard: &Shard) -> RowPass<M> {
        let mut maker = self.maker.clone();
        maker.begin(shard);
        let is_over = self.is_by_shard && !self.taker.wants_shard(shard);
        let (taker, is_by_shard) = (self.taker.clone(), self.is_by_shard);
        RowPass { maker, rows: M::Rows::default(), taker, is_by_shard, is_over }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        if self.is_over {
            return Ok(());
        }
        self.rows.clear();
        self.maker.rows(batch, &mut self.rows)?;
        self.is_over = self.rows.n_rows() > 0 && !self.taker.take(&batch.span, &self.rows)?;
        Ok(())
    }

    fn has_enough(&self) -> bool {
        self.is_over
    }

    fn merge(&mut self, _: RowPass<M>) -> Result<()> {
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(HandedOn { stopped: self.is_over }))
    }
}

result! {
    /// Report of an analysis whose rows went to a consumer: it has no other results.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct HandedOn {
        pub stopped: bool => "Whether the consumer stopped before the last row.";
    }
}

impl ReportBody for HandedOn {
    fn document(&self, _: Detail) -> Document {
        Document::new("Rows")
    }
}
