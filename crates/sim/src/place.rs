//! Assigns threads to cores. SPEC: drmemtrace.md#simulators.
//!
//! By default, a thread is assigned to the core with the fewest live threads when its first record comes, and stays there
//! until it ends; of cores that share first caches, those whose caches serve fewer threads come first. With the processors
//! recorded in the trace, a thread moves as it did when it was recorded. In traces of cores, the shard is the core.

use hashbrown::HashMap;
use quipu_model::lens::ThreadEvent;
use quipu_model::{Batch, Error, Result, ThreadId};
use rustc_hash::FxBuildHasher;

/// How threads are assigned to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Placing {
    /// To the core with the fewest live threads.
    #[default]
    Fewest,
    /// To the core of the processor recorded in the trace; a new processor is assigned to the core with the fewest.
    Processors,
    /// The shard is the core.
    Shards,
}

/// Threads and processors of a core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreLoad {
    /// Number of threads that were ever assigned to this core.
    pub threads: u64,
    /// Processors of the trace that this core simulates, in order of appearance.
    pub processors: Vec<u64>,
    /// Number of live threads on this core.
    live: u64,
}

/// Assignment of threads to cores.
#[derive(Clone, Debug)]
pub struct Placement {
    placing: Placing,
    cores: Vec<CoreLoad>,
    threads: HashMap<ThreadId, usize, FxBuildHasher>,
    processors: HashMap<u64, usize, FxBuildHasher>,
    /// Processor of each shard, if the trace records it.
    shards: Vec<Option<u64>>,
    /// For each core, the first of those that share its first caches; empty if none do.
    neighbours: Vec<usize>,
    has_begun: bool,
}

impl Placement {
    /// Starts without threads.
    pub fn new(placing: Placing, n_cores: usize) -> Placement {
        Placement {
            placing,
            cores: vec![CoreLoad::default(); n_cores],
            threads: HashMap::default(),
            processors: HashMap::default(),
            shards: Vec::new(),
            neighbours: Vec::new(),
            has_begun: false,
        }
    }

    /// Sets for each core the first of those that share its first caches, so that threads are spread over caches, as
    /// operating systems do with hardware threads.
    pub(crate) fn with_neighbours(self, neighbours: Vec<usize>) -> Placement {
        Placement { neighbours, ..self }
    }

    /// Sets the processor of each shard. Markers at the end of a shard's stretch already name the processor to which the
    /// thread moves next, so the shard's own number takes precedence over them.
    pub(crate) fn with_shards(self, shards: Vec<Option<u64>>) -> Placement {
        Placement { shards, ..self }
    }

    /// The core that runs the beginning of this batch; `None` if the batch has nothing to run.
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
        let core = self.emptiest();
        self.settle(key, core);
        Ok(Some(core))
    }

    /// The core that runs the beginning of this batch, ignoring the records before `begin`. If the batch has nothing to run,
    /// its later moves still assign its thread.
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

    /// The core with the fewest live threads; of several, one whose first caches serve the fewest.
    fn emptiest(&self) -> usize {
        if self.neighbours.is_empty() {
            return fewest(self.cores.iter().map(|core| core.live));
        }
        let mut live = vec![0; self.cores.len()];
        for (core, first) in self.cores.iter().zip(&self.neighbours) {
            live[*first] += core.live;
        }
        fewest(self.cores.iter().zip(&self.neighbours).map(|(core, first)| (core.live, live[*first])))
    }

    fn settle(&mut self, thread: ThreadId, core: usize) {
        self.threads.insert(thread, core);
        self.cores[core].live += 1;
        self.cores[core].threads += 1;
    }

    /// Moves the batch's thread to this processor; returns the core that simulates it.
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

    /// Removes the batch's thread from its core if it ended in this batch.
    pub fn stopped(&mut self, batch: &Batch) {
        if self.placing != Placing::Shards
            && batch.threads.what.contains(&ThreadEvent::Stop)
            && let Some(core) = self.threads.remove(&batch.span.thread)
        {
            self.cores[core].live -= 1;
        }
    }

    /// How threads are assigned to cores.
    pub fn placing(&self) -> Placing {
        self.placing
    }

    /// Threads and processors of each core.
    pub fn cores(&self) -> &[CoreLoad] {
        &self.cores
    }
}

/// Changes of the processor in a batch: the record, and the new processor.
pub(crate) fn processors(batch: &Batch) -> impl Iterator<Item = (u32, u64)> {
    let threads = &batch.threads;
    let events = threads.at.iter().zip(&threads.what).zip(&threads.value);
    events.filter(|((_, what), _)| **what == ThreadEvent::Cpu).map(|((at, _), value)| (*at, *value))
}

/// Index of the first of the smallest loads.
fn fewest<L: Ord + Copy>(loads: impl Iterator<Item = L>) -> usize {
    loads.enumerate().min_by_key(|(_, load)| *load).map_or(0, |(core, _)| core)
}
