//! Reading on a thread of its own: the batches of a merge are passed to the thread that prints them or collects rows.
//!
//! Readers lend their batches, so the contents must change hands. Rows are moved, and the reader gets used ones back; only
//! instructions, types and dictionary texts that are new are copied.
//!
//! Printing takes longer than reading; in parallel, both take little more time than printing alone.

use crate::feed::refuse_oversized;
use crate::merge::{Merge, Merged};
use quipu_model::dicts::Dicts;
use quipu_model::print::Ordinals;
use quipu_model::values::{Type, Types, Values};
use quipu_model::{Batch, Code, CodeTable, Error, Result, Shard, TableBuf};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of batches that wait to be printed.
const MAX_WAITING: usize = 8;

/// The share of the trace that has been read is computed once for this many batches.
const BATCHES_PER_SHARE: u32 = 64;

/// A batch in transit.
pub(crate) struct Parcel {
    /// Its rows (of the tables, or of the relayed lens), values, findings, codes and types; other columns are left out.
    pub(crate) batch: Batch,
    pub(crate) ordinals: Ordinals,
    /// The records of the batch that are wanted.
    pub(crate) records: Range<u32>,
    /// Share of the trace that has been read, if known.
    pub(crate) share: Option<f64>,
    new_codes: Vec<Code>,
    new_types: Vec<Arc<Type>>,
    new_texts: Dicts,
}

/// The receiving end.
pub(crate) struct Arrivals {
    parcels: Receiver<Result<Parcel>>,
    used: SyncSender<Used>,
    /// Instructions, types and dictionaries so far, by shard; those of the shard of the current batch are in the batch.
    known: HashMap<u32, (CodeTable, Types, Dicts)>,
}

/// The sending end, which reads a merge.
pub(crate) struct Departures {
    parcels: SyncSender<Result<Parcel>>,
    used: Receiver<Used>,
    /// Position of the lens whose rows are sent as the first table.
    lens: Option<usize>,
}

/// Rows and values that have been printed; their buffers are reused.
type Used = (Vec<Box<dyn TableBuf>>, Values);

/// Creates both ends. The rows of this lens, if any, are sent as the first table.
pub(crate) fn relay(lens: Option<usize>) -> (Departures, Arrivals) {
    let (parcels, arriving) = sync_channel(MAX_WAITING);
    let (returning, used) = sync_channel(2 * MAX_WAITING);
    let arrivals = Arrivals { parcels: arriving, used: returning, known: HashMap::new() };
    (Departures { parcels, used, lens }, arrivals)
}

impl Departures {
    /// Reports an error instead of reading.
    pub(crate) fn fail(self, error: Error) {
        // If the receiver is gone, the error does not matter.
        let _ = self.parcels.send(Err(error));
    }

    /// Reads the merge to its end, or until the receiver is gone. Errors are sent like batches; each ends one shard only.
    pub(crate) fn read_all(self, mut merge: Merge<'_>) {
        let shards = merge.shards();
        let mut n_known = HashMap::new();
        let mut share = None;
        for n_read in (0..BATCHES_PER_SHARE).cycle() {
            if n_read == 0 {
                share = merge.share();
            }
            let Some(read) = merge.read().transpose() else { return };
            let parcel = read.map(|merged| Parcel { share, ..self.pack(shards, merged, &mut n_known) });
            if self.parcels.send(parcel).is_err() {
                return;
            }
        }
    }

    fn pack(
        &self,
        shards: &[Shard],
        merged: Merged<'_>,
        n_known: &mut HashMap<u32, (usize, usize, Vec<usize>)>,
    ) -> Parcel {
        let Merged { batch, ordinals, records } = merged;
        if self.lens.is_some() {
            refuse_oversized(batch, shards);
        }
        let fresh = || batch.tables.iter().map(|table| table.fresh()).collect();
        let (mut tables, mut values) = self.used.try_recv().unwrap_or_else(|_| (fresh(), Values::default()));
        match self.lens {
            None => std::mem::swap(&mut batch.tables, &mut tables),
            Some(lens) => tables = batch.take_lens(lens).into_iter().collect(),
        }
        // The reader keeps values elsewhere that it still needs.
        std::mem::swap(&mut batch.values, &mut values);
        let known = n_known.entry(batch.span.shard).or_default();
        let new_codes = batch.codes.as_slice().get(known.0..).unwrap_or(&[]).to_vec();
        let new_types = batch.types.as_slice().get(known.1..).unwrap_or(&[]).to_vec();
        let new_texts = batch.dicts.tail(&known.2);
        *known = (batch.codes.len(), batch.types.len(), batch.dicts.lengths().collect());
        let findings = std::mem::take(&mut batch.findings);
        let remarks = std::mem::take(&mut batch.remarks);
        // If all shards share their instructions, both ends use the shared table.
        let codes = CodeTable::sharing(batch.codes.shared().cloned());
        let batch = Batch { span: batch.span, tables, values, codes, findings, remarks, ..Batch::default() };
        Parcel { batch, ordinals, records, share: None, new_codes, new_types, new_texts }
    }
}

impl Arrivals {
    /// Returns the next batch, with the instructions that its rows refer to; `None` at the end.
    ///
    /// # Errors
    /// An error of the merge that ends reading one shard.
    pub(crate) fn next(&mut self) -> Result<Option<Parcel>, Error> {
        let Ok(parcel) = self.parcels.recv() else { return Ok(None) };
        let mut parcel = parcel?;
        let (mut codes, mut types, mut dicts) =
            self.known.remove(&parcel.batch.span.shard).unwrap_or_default();
        if parcel.batch.codes.shared().is_some() {
            codes = std::mem::take(&mut parcel.batch.codes);
        }
        parcel.new_codes.drain(..).for_each(|code| {
            codes.push(code);
        });
        parcel.new_types.drain(..).for_each(|ty| {
            types.push(ty);
        });
        parcel.batch.codes = codes;
        parcel.batch.types = types;
        dicts.append(&std::mem::take(&mut parcel.new_texts));
        parcel.batch.dicts = dicts;
        Ok(Some(parcel))
    }

    /// Takes back a batch that has been printed, to reuse its buffers.
    pub(crate) fn give_back(&mut self, parcel: Parcel) {
        let Batch { span, tables, mut values, codes, types, dicts, .. } = parcel.batch;
        self.known.insert(span.shard, (codes, types, dicts));
        values.clear();
        // If the channel is full, enough buffers are already on their way.
        let _ = self.used.try_send((tables, values));
    }
}
