//! A batch on its way through a core: which records come next, whether they count, and where their accesses lead.
//!
//! A simulation takes a batch at once or, where cores run side by side, a record of each in turn. Either way the core's
//! [`Lane`] says what comes next that is alike, so that both count, translate and run the same.

use crate::extent::{Extent, Stretch};
use crate::machine::Rows;
use crate::physical::{Translated, Translator};
use quipu_model::lens::{ThreadEvent, instr_flags};
use quipu_model::{Batch, Columns, Result};
use std::ops::Range;

/// What records are besides accesses, where they are counted.
pub(crate) const COUNTED: Columns = Columns::INSTRS.or(Columns::THREADS);

/// What a record is, where records are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ref {
    /// A marker, which never counts.
    No,
    /// Anything else but an instruction.
    Yes,
    /// An instruction that was fetched.
    Instr,
}

/// A batch on its way through a core. Kept between batches for its memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// Which core.
    pub(crate) core: usize,
    /// The next of its accesses.
    row: usize,
    /// Whether records are counted, and what they are.
    counts: bool,
    refs: Vec<Ref>,
    /// Where accesses lead, if not where they say.
    translated: Option<Translated>,
}

impl Lane {
    /// Goes to the beginning of a batch. Whether its records are counted holds up to its end, whatever ends in between.
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

    /// What the records of the batch are, if they are counted.
    pub(crate) fn refs(&self) -> &[Ref] {
        if self.counts { &self.refs } else { &[] }
    }

    /// How many records of the batch are no markers, if they are counted.
    pub(crate) fn n_refs(&self) -> u64 {
        self.refs().iter().filter(|of| **of != Ref::No).count() as u64
    }

    /// What comes next of the records at `range` and is alike, with its rows of accesses; `range` begins after it then.
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
            // Of a record or two, looking at the next rows is faster than halving all that are left.
            0..=2 => ahead.iter().take_while(|at| **at < end).count(),
            _ => ahead.partition_point(|at| *at < end),
        };
        Some((stretch, first..self.row))
    }

    /// Accesses of the batch, at where they lead.
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

/// Notes which records of a batch are no markers.
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

/// Calls `run` for every record of batches that ran side by side, each with its lane: the first record of each batch, then the
/// second of each, and so on.
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
