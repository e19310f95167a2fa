//! Answers that are collected in memory, within its limit.

use super::{Losses, Session};
use datafusion::arrow::array::{Array, ArrayData};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::memory_pool::MemoryConsumer;
use quipu_engine::Progress;
use quipu_model::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// An answer as a whole.
#[derive(Debug)]
pub struct Collected {
    /// Columns of the answer.
    pub schema: SchemaRef,
    /// Rows of the answer.
    pub batches: Vec<RecordBatch>,
    /// Findings about the traces, and data that could not be read.
    pub losses: Losses,
}

impl Session {
    /// Answers a query and collects the answer in memory. The answer counts against the same limit as the groups and sorts that
    /// compute it.
    ///
    /// # Errors
    /// Those of [`Session::ask`]; `Limit` for an answer that exceeds the memory limit.
    pub fn collect(&self, sql: &str, goes_on: &mut dyn FnMut(Progress) -> bool) -> Result<Collected> {
        let memory = MemoryConsumer::new("the answer").register(&self.context.runtime_env().memory_pool);
        let mut schema = Arc::new(Schema::empty());
        let (mut batches, mut held) = (Vec::new(), Held::default());
        let losses = self.ask(sql, goes_on, &mut |columns, batch| {
            schema = columns.clone();
            let Some(batch) = batch else { return Ok(()) };
            if memory.try_grow(held.add(&batch)).is_err() {
                return Err(self.too_large());
            }
            batches.push(batch);
            Ok(())
        })?;
        Ok(Collected { schema, batches, losses })
    }

    #[cold]
    fn too_large(&self) -> Error {
        let most = self.memory_bytes;
        let message = format!("the answer has no room in {most} bytes of memory");
        let hint = format!("ask for less at once, or allow more with {}", self.memory_option);
        Error::new(ErrorKind::Limit, message).hint(hint)
    }
}

/// Addresses of the buffers that batches refer to. Batches may share buffers, which count once.
#[derive(Default)]
struct Held(HashSet<*const u8>);

impl Held {
    /// Returns the number of bytes of a batch that no earlier batch holds.
    fn add(&mut self, batch: &RecordBatch) -> usize {
        batch.columns().iter().map(|column| self.add_array(&column.to_data())).sum()
    }

    fn add_array(&mut self, array: &ArrayData) -> usize {
        let nulls = array.nulls().map(|nulls| nulls.buffer());
        let buffers = array.buffers().iter().chain(nulls);
        let own: usize = buffers
            .filter(|buffer| self.0.insert(buffer.data_ptr().as_ptr()))
            .map(|buffer| buffer.capacity())
            .sum();
        let inner: usize = array.child_data().iter().map(|child| self.add_array(child)).sum();
        size_of::<ArrayData>() + own + inner
    }
}
