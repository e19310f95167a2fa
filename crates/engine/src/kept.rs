//! A condition on memory accesses: analyses then see only those for which it is true.
//!
//! The condition is over the columns of the lens `accesses`, with those that every lens has in front. Everything else of a
//! trace stays, so the module is for analyses of accesses only.

use quipu_model::print::Ordinals;
use quipu_model::row_source::{RowSource, positions};
use quipu_model::schema::Role;
use quipu_model::{Batch, Beside, Chosen, Columns, Filter, Predicate, Result, Trace};

/// The name that always means the lens.
const ACCESSES: &str = "lens.accesses";

/// A condition on accesses, bound to a trace.
#[derive(Debug)]
pub struct KeptAccesses {
    source: RowSource,
    chosen: Chosen,
    columns: Columns,
    has_positions: bool,
}

impl KeptAccesses {
    /// Binds a condition to the accesses of a trace.
    ///
    /// # Errors
    /// `Usage` for a column that accesses do not have; `Missing` for one that this trace does not carry.
    pub fn new(trace: &dyn Trace, filter: Filter) -> Result<KeptAccesses> {
        let source = RowSource::find(trace, ACCESSES)?;
        let predicate = Predicate { filter: Some(filter), ..Predicate::default() };
        let chosen = Chosen::new(&predicate, &source.schema)?;
        let looked_at: Vec<usize> = chosen.columns().collect();
        let columns = source.columns(&looked_at, &predicate, trace)?;
        let is_position = |at: &usize| source.schema.fields[*at].role == Some(Role::RECORD);
        Ok(KeptAccesses { has_positions: looked_at.iter().any(is_position), source, chosen, columns })
    }

    /// The columns that the condition needs.
    pub(crate) fn columns(&self) -> Columns {
        self.columns
    }

    /// Whether the condition looks at the positions of records, which count in each shard.
    pub(crate) fn has_positions(&self) -> bool {
        self.has_positions
    }

    /// Removes the other accesses from a batch.
    ///
    /// # Errors
    /// `Usage` for an access on which the condition cannot be evaluated.
    pub(crate) fn leave(&self, batch: &mut Batch) -> Result<()> {
        let mut rows = Vec::new();
        {
            let mut records = Vec::new();
            if self.has_positions {
                positions(&batch.span, &batch.accesses, &mut records);
            }
            let Some(accesses) = self.source.of_lens(batch, &records) else { return Ok(()) };
            let beside = Beside::of(batch, Ordinals::default());
            self.chosen.choose_from(accesses.n_rows(), |at| accesses.column(at), beside, &mut rows)?;
        }
        if rows.len() < batch.accesses.len() {
            batch.accesses.keep_rows(&rows);
        }
        Ok(())
    }
}
