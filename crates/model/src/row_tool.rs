//! Analyses whose answer is rows: one for each thing that they meet, handed on while they read.
//!
//! What needs the place and the order of records, and so is no function of one row, is such an analysis: each access with its
//! reuse distance, each miss of a cache. Rows are those of a structure of [`rows!`](crate::rows!) as lenses are: the first
//! column is the position of the record in its batch, in whose place readers have the shard, the record, the thread and the
//! process ([`LentRows`](crate::row_source::LentRows)).

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

/// An analysis that hands on rows.
pub trait RowTool: Sync {
    /// Name, needs and options.
    fn info(&self) -> &'static ToolInfo;

    /// What the columns mean, the first of which is the position of the record in its batch.
    fn rows(&self) -> &'static Arc<Schema>;

    /// The option whose value may stand without its name.
    fn leading(&self) -> Option<&'static OptionSpec> {
        None
    }

    /// What it reads of a trace for the columns that `taker` wants.
    ///
    /// # Errors
    /// `Missing` if the trace lacks what it needs.
    fn reads(&self, options: &Options, trace: &dyn Trace, taker: &dyn RowTaker) -> Result<Reads> {
        let _ = (options, taker);
        let info = self.info();
        Ok(Reads { columns: info.needs.of(info.name, trace)?, tables: Vec::new(), order: info.order })
    }

    /// The pass, ready to be forked, for one trace. What it reports in the end is of no interest.
    ///
    /// # Errors
    /// `Usage` for options that make no sense, `Missing` if the trace lacks what it needs.
    fn build(
        &self,
        options: &Options,
        trace: &dyn Trace,
        taker: Arc<dyn RowTaker>,
    ) -> Result<Box<dyn DynPass>>;
}

/// Receives the rows of a [`RowTool`]. What it wants changes no value, only how much work there is.
pub trait RowTaker: Send + Sync + fmt::Debug {
    /// True if someone looks at the column of this name. Others may be left without values.
    fn wants(&self, column: &str) -> bool;

    /// True if rows of a shard may be wanted.
    fn wants_shard(&self, shard: &Shard) -> bool;

    /// Takes rows of one batch. False if no more are wanted.
    ///
    /// # Errors
    /// Whatever ends the run.
    fn take(&self, span: &Span, rows: &dyn TableBuf) -> Result<bool>;
}

/// Makes rows out of batches: what differs between passes of a [`RowTool`] that do nothing else. A clone of a new one is new.
pub trait RowMaker: Clone + Send + 'static {
    /// The rows of one batch.
    type Rows: TableBuf + Default;

    /// Readies a new one for a shard.
    fn begin(&mut self, shard: &Shard);

    /// Adds the rows of a batch to none.
    ///
    /// # Errors
    /// What it cannot do.
    fn rows(&mut self, batch: &Batch, rows: &mut Self::Rows) -> Result<()>;
}

/// The pass of a [`RowMaker`].
#[derive(Debug)]
pub struct RowPass<M: RowMaker> {
    maker: M,
    rows: M::Rows,
    taker: Arc<dyn RowTaker>,
    /// Whether each shard is by itself, so that those that no one wants rows of are left out.
    is_by_shard: bool,
    is_over: bool,
}

impl<M: RowMaker> RowPass<M> {
    /// A pass that is forked for each shard, or once for the whole trace, as `order` says.
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
    /// What an analysis reports whose rows were handed on: nothing besides.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct HandedOn {
        pub stopped: bool => "Whether no one wanted the rows of the rest.";
    }
}

impl ReportBody for HandedOn {
    fn document(&self, _: Detail) -> Document {
        Document::new("Rows")
    }
}
