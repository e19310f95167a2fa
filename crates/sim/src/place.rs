//! Which core runs which thread. SPEC: drmemtrace.md#simulators.
//!
//! Thread by thread, a thread goes to the core with the fewest live threads when it first does something, and stays until
//! it ends. With the processors that the trace names, a thread moves where it ran. In traces of cores, the shard is the
//! core.

use hashbrown::HashMap;
use quipu_model::lens::ThreadEvent;
use quipu_model::{Batch, Error, Result, ThreadId};
use rustc_hash::FxBuildHasher;

/// How threads come to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Placing {
    /// To the core with the fewest live threads.
    #[default]
    Fewest,
    /// To the core of the processor that the trace names; a new processor goes to the core with the fewest.
    Processors,
    /// The shard is the core.
    Shards,
}

/// What a core has had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreLoad {
    /// Threads that were ever placed here.
    pub threads: u64,
    /// Processors of the trace that are played here, in order of appearance.
    pub processors: Vec<u64>,
    /// Threads here now.
    live: u64,
}

/// Who runs where.
#[derive(Clone, Debug)]
pub struct Placement {
    placing: Placing,
    cores: Vec<CoreLoad>,
    threads: HashMap<ThreadId, usize, FxBuildHasher>,
    processors: HashMap<u64, usize, FxBuildHasher>,
    /// The processor that each shard is, where the trace says so.
    shards: Vec<Option<u64>>,
    has_begun: bool,
}

impl Placement {
    /// No thread is anywhere yet.
    pub fn new(placing: Placing, n_cores: usize) -> Placement {
        Placement {
            placing,
            cores: vec![CoreLoad::default(); n_cores],
            threads: HashMap::default(),
            processors: HashMap::default(),
            shards: Vec::new(),
            has_begun: false,
        }
    }

    /// With the processor that each shard is. Markers at the end of a stretch already name the processor that the thread
    /// moves to, so the shard's own number counts before them.
    pub(crate) fn with_shards(self, shards: Vec<Option<u64>>) -> Placement {
        Placement { shards, ..self }
    }

    /// The core that runs the beginning of this batch; `None` if it has nothing to run.
    ///
    /// # Errors
    /// `Usage` if the trace has more cores than the machine.
    pub fn core_of(&mut self, batch: &Batch) -> Result<Option<usize>> {
        let span = &batch.span;
        if self.placing == Placing::Shards {
            let core = span.shard as usize;
            if core >= self.cores.len() {
                return Err(Error::usage(format!(
                    "the trace has more than {} cores, which is all that this machine has",
                    self.cores.len()
                ))
                .hint("give the machine as many cores as the trace has shards"));
            }
            return Ok(Some(core));
        }
        let stops = || batch.threads.what.contains(&ThreadEvent::Stop);
        self.has_begun |= span.instrs > 0 || !batch.accesses.is_empty() || stops();
        let n_idle = batch.threads.what.iter().filter(|what| **what == ThreadEvent::Idle).count();
        if !self.has_begun || n_idle as u64 >= u64::from(span.records) {
            return Ok(None);
        }
        let key = span.thread;
        if let Some(core) = self.threads.get(&key) {
            return Ok(Some(*core));
        }
        let core = fewest(self.cores.iter().map(|core| core.live));
        self.settle(key, core);
        Ok(Some(core))
    }

    /// The core that runs the beginning of this batch, without the records before `begin`. If it has nothing to
    /// run, it still says where its thread goes.
    ///
    /// # Errors
    /// See [`core_of`](Placement::core_of).
    pub(crate) fn enter(&mut self, batch: &Batch, begin: u32) -> Result<Option<usize>> {
        let core = self.core_of(batch)?;
        if core.is_none() {
            for (_, processor) in processors(batch).filter(|(at, _)| *at >= begin) {
                self.runs_on(batch, processor);
            }
        }
        Ok(core)
    }

    fn settle(&mut self, thread: ThreadId, core: usize) {
        self.threads.insert(thread, core);
        self.cores[core].live += 1;
        self.cores[core].threads += 1;
    }

    /// The thread of the batch runs on this processor from here on; the core that plays it.
    pub fn runs_on(&mut self, batch: &Batch, processor: u64) -> Option<usize> {
        match self.placing {
            Placing::Fewest => None,
            Placing::Shards => {
                let shard = batch.span.shard as usize;
                let processor = self.shards.get(shard).copied().flatten().unwrap_or(processor);
                let load = self.cores.get_mut(shard)?;
                if !load.processors.contains(&processor) {
                    load.processors.push(processor);
                }
                None
            }
            Placing::Processors => {
                let core = match self.processors.get(&processor) {
                    Some(core) => *core,
                    None => {
                        let core = fewest(self.cores.iter().map(|core| core.processors.len() as u64));
                        self.processors.insert(processor, core);
                        self.cores[core].processors.push(processor);
                        core
                    }
                };
                let key = batch.span.thread;
                match self.threads.get(&key) {
                    Some(old) if *old == core => {}
                    Some(old) => {
                        self.cores[*old].live -= 1;
                        self.settle(key, core);
                    }
                    None => self.settle(key, core),
                }
                Some(core)
            }
        }
    }

    /// Gives the place of the batch's thread to others, if it has ended in this batch.
    pub fn stopped(&mut self, batch: &Batch) {
        if self.placing != Placing::Shards
            && batch.threads.what.contains(&ThreadEvent::Stop)
            && let Some(core) = self.threads.remove(&batch.span.thread)
        {
            self.cores[core].live -= 1;
        }
    }

    /// How threads come to cores.
    pub fn placing(&self) -> Placing {
        self.placing
    }

    /// What each core has had.
    pub fn cores(&self) -> &[CoreLoad] {
        &self.cores
    }
}

/// The changes of the processor in a batch: where, and to which.
pub(crate) fn processors(batch: &Batch) -> impl Iterator<Item = (u32, u64)> {
    let threads = &batch.threads;
    let events = threads.at.iter().zip(&threads.what).zip(&threads.value);
    events.filter(|((_, what), _)| **what == ThreadEvent::Cpu).map(|((at, _), value)| (*at, *value))
}

/// The first of those with the smallest load.
fn fewest(loads: impl Iterator<Item = u64>) -> usize {
    loads.enumerate().min_by_key(|(_, load)| *load).map_or(0, |(core, _)| core)
}
