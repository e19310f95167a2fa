//! Reading on a thread of its own: batches of a merge, carried over to the thread that prints them or makes rows of them.
//!
//! Readers lend their batches, so what is printed has to change hands: the rows move and the reader gets used-up ones
//! back, the instructions, types and texts of dictionaries met for the first time are copied, and that is all.
//!
//! Printing takes longer than reading; side by side they take little more than printing alone.

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

/// How many batches may wait to be printed.
const MAX_WAITING: usize = 8;

/// The share of the trace that is read is reckoned once for this many batches.
const BATCHES_PER_SHARE: u32 = 64;

/// A batch on its way.
pub(crate) struct Parcel {
    /// Its rows (of a table, or of the lens that goes along), values, findings, codes and types; other columns are left out.
    pub(crate) batch: Batch,
    pub(crate) ordinals: Ordinals,
    /// Which of its records are wanted.
    pub(crate) records: Range<u32>,
    /// Which share of the trace was read, as far as known.
    pub(crate) share: Option<f64>,
    new_codes: Vec<Code>,
    new_types: Vec<Arc<Type>>,
    new_texts: Dicts,
}

/// The end where batches arrive.
pub(crate) struct Arrivals {
    parcels: Receiver<Result<Parcel>>,
    used: SyncSender<Used>,
    /// What was met so far, by shard, but for the shard of the batch that is printed.
    known: HashMap<u32, (CodeTable, Types, Dicts)>,
}

/// The end where a merge is read.
pub(crate) struct Departures {
    parcels: SyncSender<Result<Parcel>>,
    used: Receiver<Used>,
    /// The lens whose rows go along as the first table, by its position.
    lens: Option<usize>,
}

/// Rows and values that were printed; their buffers are used again.
type Used = (Vec<Box<dyn TableBuf>>, Values);

/// Both ends; the rows of this lens go along as the first table.
pub(crate) fn relay(lens: Option<usize>) -> (Departures, Arrivals) {
    let (parcels, arriving) = sync_channel(MAX_WAITING);
    let (returning, used) = sync_channel(2 * MAX_WAITING);
    let arrivals = Arrivals { parcels: arriving, used: returning, known: HashMap::new() };
    (Departures { parcels, used, lens }, arrivals)
}

impl Departures {
    /// Says why there is nothing to read.
    pub(crate) fn fail(self, error: Error) {
        // Without a receiver no one wants to know.
        let _ = self.parcels.send(Err(error));
    }

    /// Reads the merge to its end, or until no more is wanted. A fault travels like a batch, and ends a shard only.
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
        // What a reader still needs of the values it hands out, it keeps elsewhere.
        std::mem::swap(&mut batch.values, &mut values);
        let known = n_known.entry(batch.span.shard).or_default();
        let new_codes = batch.codes.as_slice().get(known.0..).unwrap_or(&[]).to_vec();
        let new_types = batch.types.as_slice().get(known.1..).unwrap_or(&[]).to_vec();
        let new_texts = batch.dicts.tail(&known.2);
        *known = (batch.codes.len(), batch.types.len(), batch.dicts.lengths().collect());
        let findings = std::mem::take(&mut batch.findings);
        let remarks = std::mem::take(&mut batch.remarks);
        // Where all shards share their instructions, what both sides need is there.
        let codes = CodeTable::sharing(batch.codes.shared().cloned());
        let batch = Batch { span: batch.span, tables, values, codes, findings, remarks, ..Batch::default() };
        Parcel { batch, ordinals, records, share: None, new_codes, new_types, new_texts }
    }
}

impl Arrivals {
    /// The next batch, complete with the instructions that its rows point at; `None` at the end.
    ///
    /// # Errors
    /// What the merge could not go on after.
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

    /// Takes a batch back that was printed.
    pub(crate) fn give_back(&mut self, parcel: Parcel) {
        let Batch { span, tables, mut values, codes, types, dicts, .. } = parcel.batch;
        self.known.insert(span.shard, (codes, types, dicts));
        values.clear();
        // If there is no room, there are enough of them on their way.
        let _ = self.used.try_send((tables, values));
    }
}
