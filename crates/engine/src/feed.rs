//! What passes are fed with, and what they and their reading bring home.

use crate::parts::Parts;
use crate::plan::Planned;
use quipu_model::{Batch, DynPass, Error, ErrorKind, Finding, Found, Result, Severity, Shard};
use std::sync::{Mutex, PoisonError};

/// The empty passes that all work is forked from. Passes are not `Sync`; a fork a unit does not wait long.
pub(crate) struct Seeds(Mutex<Vec<Box<dyn DynPass>>>);

impl Seeds {
    pub(crate) fn new(planned: Vec<Planned>) -> Seeds {
        Seeds(Mutex::new(planned.into_iter().map(|planned| planned.pass).collect()))
    }

    /// Empty passes for a part of `shard`.
    pub(crate) fn fork(&self, shard: &Shard) -> Harvest {
        let seeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Harvest::new(seeds.iter().map(|pass| pass.fork(shard)).collect())
    }

    /// The empty passes themselves, for a trace without any part.
    pub(crate) fn into_harvest(self) -> Harvest {
        Harvest::new(self.0.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What one unit has brought, or several in a row.
pub(crate) struct Harvest {
    pub(crate) passes: Vec<Box<dyn DynPass>>,
    pub(crate) losses: Losses,
    pub(crate) records: u64,
    pub(crate) instrs: u64,
    /// The same passes for each part, if the results are divided.
    pub(crate) parts: Option<Parts>,
}

impl Harvest {
    pub(crate) fn new(passes: Vec<Box<dyn DynPass>>) -> Harvest {
        Harvest { passes, losses: Losses::default(), records: 0, instrs: 0, parts: None }
    }

    /// Feeds a batch to all passes.
    ///
    /// # Errors
    /// What a pass could not do, which ends the whole run.
    pub(crate) fn feed(&mut self, batch: &Batch) -> Result<()> {
        self.records += u64::from(batch.span.records);
        self.instrs += u64::from(batch.span.instrs);
        self.passes.iter_mut().try_for_each(|pass| pass.consume(batch))
    }

    /// True if no pass wants more. Parts have passes of their own, which are not asked.
    pub(crate) fn has_enough(&self) -> bool {
        self.parts.is_none() && !self.passes.is_empty() && self.passes.iter().all(|pass| pass.has_enough())
    }

    /// Adds what the part right after this one brought.
    pub(crate) fn merge(&mut self, later: Harvest) -> Result<()> {
        self.records += later.records;
        self.instrs += later.instrs;
        self.losses.merge(later.losses);
        if let (Some(parts), Some(later)) = (&mut self.parts, later.parts) {
            parts.merge(later)?;
        }
        let passes = self.passes.iter_mut().zip(later.passes);
        passes.into_iter().try_for_each(|(pass, later)| pass.merge(later))
    }
}

/// What a trace did wrong, and what of it could not be read at all.
#[derive(Default)]
pub(crate) struct Losses {
    pub(crate) found: Found,
    pub(crate) error: Option<Error>,
}

impl Losses {
    /// Takes the findings out of a batch.
    ///
    /// # Errors
    /// In strict runs the first finding that is an error.
    pub(crate) fn take(&mut self, batch: &mut Batch, strict: bool) -> Result<()> {
        self.take_all(batch.findings.drain(..), strict)
    }

    /// Takes findings.
    ///
    /// # Errors
    /// As [`take`](Losses::take).
    pub(crate) fn take_all(
        &mut self,
        findings: impl IntoIterator<Item = Finding>,
        strict: bool,
    ) -> Result<()> {
        for finding in findings {
            if strict && finding.severity == Severity::Error {
                return Err(finding.to_error());
            }
            self.found.push(finding);
        }
        Ok(())
    }

    /// Keeps the first error as it is; others become findings, or a trace of a thousand broken files would show one.
    ///
    /// # Errors
    /// In strict runs the error itself, and in all runs one that is no fault of the trace.
    pub(crate) fn lose(&mut self, error: Error, strict: bool) -> Result<()> {
        if strict || is_misuse(&error) {
            return Err(error);
        }
        self.add(error);
        Ok(())
    }

    fn add(&mut self, error: Error) {
        if self.error.is_none() {
            self.error = Some(error);
        } else {
            self.found.push(Finding::of_end(&error));
        }
    }

    pub(crate) fn merge(&mut self, later: Losses) {
        if let Some(error) = later.error {
            self.add(error);
        }
        for finding in later.found.into_vec() {
            self.found.push(finding);
        }
    }
}

/// Leaves accesses out that are too large to be true ([`Batch::refuse_oversized`]), and says which file they are in.
pub(crate) fn refuse_oversized(batch: &mut Batch, shards: &[Shard]) {
    let n_found = batch.findings.len();
    batch.refuse_oversized();
    if let (Some(new @ [_, ..]), Some(shard)) =
        (batch.findings.get_mut(n_found..), shards.get(batch.span.shard as usize))
    {
        new.iter_mut().for_each(|finding| finding.place.file = Some(shard.name.clone()));
    }
}

/// True if an error says that the caller is wrong rather than the trace.
pub(crate) fn is_misuse(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Usage | ErrorKind::Internal)
}
