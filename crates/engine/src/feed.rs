//! The forks of passes that work is fed to, and the findings and errors of reading for them.

use crate::parts::Parts;
use crate::plan::Planned;
use quipu_model::{Batch, DynPass, Error, ErrorKind, Finding, Found, Result, Severity, Shard};
use std::sync::{Mutex, PoisonError};

/// The empty passes that all forks are made from. Passes are not `Sync`, so a mutex guards them; with one fork for each unit,
/// it is hardly contended.
pub(crate) struct Seeds(Mutex<Vec<Box<dyn DynPass>>>);

impl Seeds {
    pub(crate) fn new(planned: Vec<Planned>) -> Seeds {
        Seeds(Mutex::new(planned.into_iter().map(|planned| planned.pass).collect()))
    }

    /// Forks empty passes for a part of `shard`.
    pub(crate) fn fork(&self, shard: &Shard) -> Harvest {
        let seeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Harvest::new(seeds.iter().map(|pass| pass.fork(shard)).collect())
    }

    /// The empty passes themselves, for a trace without any part.
    pub(crate) fn into_harvest(self) -> Harvest {
        Harvest::new(self.0.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The passes, counts and losses of one unit, or of several in a row.
pub(crate) struct Harvest {
    pub(crate) passes: Vec<Box<dyn DynPass>>,
    pub(crate) losses: Losses,
    pub(crate) records: u64,
    pub(crate) instrs: u64,
    /// The same passes for each part of the trace, if results are divided.
    pub(crate) parts: Option<Parts>,
}

impl Harvest {
    pub(crate) fn new(passes: Vec<Box<dyn DynPass>>) -> Harvest {
        Harvest { passes, losses: Losses::default(), records: 0, instrs: 0, parts: None }
    }

    /// Feeds a batch to all passes.
    ///
    /// # Errors
    /// An error of a pass, which ends the whole run.
    pub(crate) fn feed(&mut self, batch: &Batch) -> Result<()> {
        self.records += u64::from(batch.span.records);
        self.instrs += u64::from(batch.span.instrs);
        self.passes.iter_mut().try_for_each(|pass| pass.consume(batch))
    }

    /// True if no pass wants more records. Parts have passes of their own, which are not asked.
    pub(crate) fn has_enough(&self) -> bool {
        self.parts.is_none() && !self.passes.is_empty() && self.passes.iter().all(|pass| pass.has_enough())
    }

    /// Merges the harvest of the unit right after this one.
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

/// Faults of a trace: its findings, and the first error of reading.
#[derive(Default)]
pub(crate) struct Losses {
    pub(crate) found: Found,
    pub(crate) error: Option<Error>,
}

impl Losses {
    /// Moves the findings out of a batch.
    ///
    /// # Errors
    /// In strict runs, the first finding of severity `Error`.
    pub(crate) fn take(&mut self, batch: &mut Batch, strict: bool) -> Result<()> {
        self.take_all(batch.findings.drain(..), strict)
    }

    /// Adds findings.
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

    /// Records an error of reading. The first is kept as it is; further ones become findings, so that a trace of a thousand
    /// broken files shows all of them.
    ///
    /// # Errors
    /// In strict runs the error itself, and in all runs an error that is not a fault of the trace.
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

/// Removes accesses that are too large to be true ([`Batch::refuse_oversized`]), and adds the file to the findings about
/// them.
pub(crate) fn refuse_oversized(batch: &mut Batch, shards: &[Shard]) {
    let n_found = batch.findings.len();
    batch.refuse_oversized();
    if let (Some(new @ [_, ..]), Some(shard)) =
        (batch.findings.get_mut(n_found..), shards.get(batch.span.shard as usize))
    {
        let file = Some(shard.name.clone());
        for finding in new {
            if let Some(loss) = &mut finding.loss {
                loss.stopped.file.clone_from(&file);
                if let Some(resumed) = &mut loss.resumed {
                    resumed.file.clone_from(&file);
                }
            }
            finding.place.file.clone_from(&file);
        }
    }
}

/// True if an error is the fault of the caller rather than of the trace.
pub(crate) fn is_misuse(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Usage | ErrorKind::Internal)
}
