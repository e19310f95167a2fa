//! A core's progress through a batch: the next records, whether they count, and the addresses that their accesses use.
//!
//! A simulation takes a batch at once or, if cores run side by side, one record of each in turn. In both cases the core's
//! [`Lane`] returns the next run of records that are treated alike, so that both ways count, translate and simulate alike.

use crate::extent::{Extent, Stretch};
use crate::machine::Rows;
use crate::physical::{Translated, Translator};
use quipu_model::lens::{ThreadEvent, instr_flags};
use quipu_model::{Batch, Columns, Result};
use std::ops::Range;

/// Columns that are needed in addition to accesses if records are counted.
pub(crate) const COUNTED: Columns = Columns::INSTRS.or(Columns::THREADS);

/// Class of a record, if records are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ref {
    /// A marker, which never counts.
    No,
    /// Any other record that is not a fetched instruction.
    Yes,
    /// An instruction that was fetched.
    Instr,
}

/// A core's progress through a batch. Reused for all batches to keep its buffers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// Number of the core.
    pub(crate) core: usize,
    /// Row of its next access.
    row: usize,
    /// Whether records are counted, and their classes.
    counts: bool,
    refs: Vec<Ref>,
    /// Physical addresses, if the accesses are translated.
    translated: Option<Translated>,
}

impl Lane {
    /// Starts a batch. Whether its records are counted is decided once for the whole batch, even if the count ends within
    /// it.
    pub(crate) fn begin(&mut self, batch: &Batch, counts: bool, physical: &mut Option<Translator>) {
        (self.row, self.counts) = (0, counts);
        if counts {
            note_refs(batch, &mut self.refs);
        }
        if let Some(physical) = physical {
            physical.translate(batch, self.translated.get_or_insert_default());
        }
    }

    /// Whether records are counted.
    pub(crate) fn counts(&self) -> bool {
        self.counts
    }

    /// Classes of the batch's records; empty if they are not counted.
    pub(crate) fn refs(&self) -> &[Ref] {
        if self.counts { &self.refs } else { &[] }
    }

    /// Number of records of the batch other than markers; 0 if they are not counted.
    pub(crate) fn n_refs(&self) -> u64 {
        self.refs().iter().filter(|of| **of != Ref::No).count() as u64
    }

    /// The next run of records in `range` that are treated alike, with its rows of accesses; advances `range` past it.
    pub(crate) fn next(
        &mut self,
        batch: &Batch,
        range: &mut Range<u32>,
        extent: &Extent,
    ) -> Option<(Stretch, Range<usize>)> {
        if range.start >= range.end {
            return None;
        }
        let stretch = match self.refs().get(range.start as usize..range.end as usize) {
            Some(refs) => extent.stretch(refs),
            None => Stretch::whole(range.end - range.start),
        };
        range.start += stretch.records;
        let (end, first) = (range.start, self.row);
        let ahead = batch.accesses.at.get(first..).unwrap_or(&[]);
        self.row += match stretch.records {
            // For one or two records, a linear scan is faster than a binary search of all remaining rows.
            0..=2 => ahead.iter().take_while(|at| **at < end).count(),
            _ => ahead.partition_point(|at| *at < end),
        };
        Some((stretch, first..self.row))
    }

    /// Accesses of the batch, at their translated addresses if there are any.
    pub(crate) fn accesses<'a>(&'a self, batch: &'a Batch, rows: Range<usize>) -> Rows<'a> {
        let accesses = &batch.accesses;
        let (addr, pc) = match &self.translated {
            Some(translated) => (&translated.addr, &translated.pc),
            None => (&accesses.addr, &accesses.pc),
        };
        Rows {
            kind: &accesses.kind[rows.clone()],
            addr: &addr[rows.clone()],
            size: &accesses.size[rows.clone()],
            pc: pc.get(rows).unwrap_or(&[]),
            is_demand_only: false,
        }
    }
}

/// Classifies the records of a batch.
fn note_refs(batch: &Batch, refs: &mut Vec<Ref>) {
    refs.clear();
    refs.resize(batch.span.records as usize, Ref::No);
    let stops = batch.threads.at.iter().zip(&batch.threads.what);
    let stops = stops.filter(|(_, what)| **what == ThreadEvent::Stop).map(|(at, _)| at);
    for at in batch.accesses.at.iter().chain(&batch.instrs.at).chain(stops) {
        if let Some(of) = refs.get_mut(*at as usize) {
            *of = Ref::Yes;
        }
    }
    for (at, flags) in batch.instrs.at.iter().zip(&batch.instrs.flags) {
        if flags & instr_flags::NO_FETCH == 0
            && let Some(of) = refs.get_mut(*at as usize)
        {
            *of = Ref::Instr;
        }
    }
}

/// Calls `run` for every record of batches that run side by side, each with its lane: the first record of each batch, then
/// the second of each, and so on.
pub(crate) fn in_step<L>(
    batches: &[&Batch],
    lanes: &mut [L],
    mut run: impl FnMut(&Batch, &mut L, u32) -> Result<()>,
) -> Result<()> {
    let steps = batches.iter().map(|batch| batch.span.records).max().unwrap_or(0);
    for at in 0..steps {
        for (batch, lane) in batches.iter().zip(&mut *lanes).filter(|(batch, _)| at < batch.span.records) {
            run(batch, lane, at)?;
        }
    }
    Ok(())
}
