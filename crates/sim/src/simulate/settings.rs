//! What to simulate, and how, and what that asks of a trace.

use super::Simulation;
use crate::extent::Extent;
use crate::fields::TypeSource;
use crate::lane::COUNTED;
use crate::misses::Limits;
use crate::options::placed;
use crate::physical::Translator;
use crate::place::Placing;
use crate::recording::Recording;
use crate::resets::Resets;
use crate::spec::MachineSpec;
use quipu_model::{Columns, DynPass, Error, Options, Result, Trace};

/// What to simulate, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The machine.
    pub machine: MachineSpec,
    /// Whether its caches are TLBs: pages of processes, without prefetches and flushes.
    pub is_tlb: bool,
    /// Which records count.
    pub extent: Extent,
    /// Where statistics begin anew.
    pub resets: Resets,
    /// How threads come to cores.
    pub placing: Placing,
    /// The processor that each shard is, where the trace says so.
    pub processors: Vec<Option<u64>>,
    /// Whether misses are divided by cause.
    pub causes: bool,
    /// How many instructions, functions and lines to list that miss most; with 0, the sources of misses are not counted.
    pub top: usize,
    /// Whether loads that miss at a steady distance are what is asked for, and from where on they are listed.
    pub strides: Option<Limits>,
    /// How addresses become physical; `None` for virtual ones.
    pub physical: Option<Translator>,
    /// What the trace has.
    pub recording: Recording,
    /// Whether what a warm-up that does not end has counted stands for the statistics, as in drcachesim, instead of nothing.
    pub counts_cold: bool,
    /// Where types come from, if misses are told by field.
    pub types: Option<TypeSource>,
    /// Whether types and fields are what is asked for, and how many to list.
    pub tells_types: Option<usize>,
}

impl Setup {
    /// The columns to ask of `trace` for the tool called `tool`.
    ///
    /// # Errors
    /// `Missing` with what the trace does not carry, and why it is needed.
    pub fn columns(&self, tool: &str, trace: &dyn Trace) -> Result<Columns> {
        let mut needs = vec![(Columns::ACCESSES, "simulates memory accesses")];
        if self.placing == Placing::Processors {
            needs.push((
                Columns::THREADS | Columns::THREAD_CPU,
                "puts threads on the processors of the trace",
            ));
        }
        needs.extend(self.resets.needs());
        needs.extend(self.physical.as_ref().and_then(Translator::needs));
        let optional = if self.top > 0 { OPTIONAL.or(FUNCTIONS) } else { OPTIONAL };
        let optional = optional.or(self.recording.columns());
        let optional = if self.extent.is_all() { optional } else { optional.or(COUNTED) };
        let optional = if self.types.is_some() { optional.or(Columns::REGIONS) } else { optional };
        if self.types.is_some() && self.physical.is_some() {
            return Err(Error::unsupported(
                "regions have virtual addresses, so types do not go with physical ones",
            ));
        }
        columns(tool, &needs, optional, trace)
    }

    /// The settings for `trace`: where its shards are cores, each is a core of the machine; marks that options name are
    /// those of the trace; and results leave out what it does not have. Files of types that options name are read.
    ///
    /// # Errors
    /// See [`Resets::new`] and [`TypeSource::of`]; and if accesses cannot be placed on cores as is asked for.
    pub fn fitted(mut self, options: &Options, trace: &dyn Trace) -> Result<Setup> {
        self.placing = placed(self.placing, trace)?;
        self.processors = trace.shards().iter().map(|shard| shard.core).collect();
        self.resets = Resets::new(options, trace)?;
        self.recording = Recording::of(trace);
        if self.types.is_none() {
            self.types = TypeSource::of(options)?;
        }
        Ok(self)
    }

    /// An empty machine as the pass of the tool called `tool`.
    ///
    /// # Errors
    /// See [`Setup::fitted`], [`Setup::columns`] and [`Simulation::new`].
    pub(crate) fn pass(self, options: &Options, tool: &str, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let settings = self.fitted(options, trace)?;
        settings.columns(tool, trace)?;
        Ok(Box::new(Simulation::new(settings, None)?))
    }
}

/// The columns to ask of `trace` for the tool called `tool`: what it needs, each with what for, and what it uses if it is there.
///
/// # Errors
/// `Missing` with what the trace does not carry, and why it is needed.
pub(crate) fn columns(
    tool: &str,
    needs: &[(Columns, &str)],
    optional: Columns,
    trace: &dyn Trace,
) -> Result<Columns> {
    let mut columns = optional.and(trace.columns());
    for (column, why) in needs {
        let missing = column.minus(trace.columns());
        if !missing.is_empty() {
            return Err(Error::missing(format!(
                "tool `{tool}` {why}, which needs {missing}; this trace does not carry that"
            )));
        }
        columns |= *column;
    }
    Ok(columns)
}

/// What is used where a trace has it.
pub(crate) const OPTIONAL: Columns =
    Columns::ACCESS_FETCH.or(Columns::ACCESS_PC).or(Columns::THREADS).or(Columns::THREAD_CPU);

/// What tells where functions begin.
pub(crate) const FUNCTIONS: Columns = Columns::INSTRS.or(Columns::INSTR_CLASS);
