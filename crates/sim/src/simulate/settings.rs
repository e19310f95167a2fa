//! What to simulate, and which columns of a trace this needs.

use super::Simulation;
use crate::config::Config;
use crate::extent::Extent;
use crate::fields::TypeSource;
use crate::lane::COUNTED;
use crate::misses::Limits;
use crate::options::{CAUSES, CPU_SCHEDULING, TOP, extent, placed, placing};
use crate::physical::Translator;
use crate::place::Placing;
use crate::recording::Recording;
use crate::resets::Resets;
use crate::spec::MachineSpec;
use quipu_model::{Columns, DynPass, Error, Options, Result, Trace};

/// Description of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Name of the machine's configuration, if it comes from one.
    pub name: Option<String>,
    /// The machine.
    pub machine: MachineSpec,
    /// Whether its caches are TLBs: lines are pages of processes, and prefetches and flushes are ignored.
    pub is_tlb: bool,
    /// The range of records that counts.
    pub extent: Extent,
    /// Points at which statistics are reset.
    pub resets: Resets,
    /// How threads are assigned to cores.
    pub placing: Placing,
    /// Processor of each shard, if the trace records it.
    pub processors: Vec<Option<u64>>,
    /// Whether misses are classified by cause.
    pub causes: bool,
    /// Number of instructions, functions and lines with most misses to list; with 0, misses are not attributed to them.
    pub top: usize,
    /// Set if the result is the list of loads that miss at a steady distance: conditions for listing a load.
    pub strides: Option<Limits>,
    /// Translation to physical addresses; `None` for virtual ones.
    pub physical: Option<Translator>,
    /// Path of a file that lists the lines that leave caches.
    pub evictions: Option<String>,
    /// What the trace has recorded.
    pub recording: Recording,
    /// Whether the counts of a warm-up that does not end are reported as the statistics, as in drcachesim, instead of
    /// nothing.
    pub counts_cold: bool,
    /// Whether misses are also counted along the trace, for a chart.
    pub over_time: bool,
    /// Source of types, if misses are reported by field.
    pub types: Option<TypeSource>,
    /// Set if the result is the report of types and fields: the number to list.
    pub tells_types: Option<usize>,
}

impl Setup {
    /// A simulation of a machine of caches or, if `is_tlb`, of TLBs, with what options of both say. Options override what the
    /// machine's configuration says about the run.
    ///
    /// # Errors
    /// `Usage` if two kinds of warm-up come together.
    pub(crate) fn new(
        options: &Options,
        config: Option<Config>,
        machine: MachineSpec,
        is_tlb: bool,
    ) -> Result<Setup> {
        let mut extent = extent(options)?;
        let is_by_processor = match &config {
            Some(config) => config.add_to(options, &mut extent)?,
            None => options.flag(&CPU_SCHEDULING),
        };
        Ok(Setup {
            name: config.map(|config| config.name),
            machine,
            is_tlb,
            extent,
            resets: Resets::default(),
            placing: placing(is_by_processor),
            processors: Vec::new(),
            causes: options.flag(&CAUSES),
            top: options.length(&TOP),
            strides: None,
            physical: None,
            evictions: None,
            recording: Recording::default(),
            counts_cold: false,
            over_time: false,
            types: None,
            tells_types: None,
        })
    }

    /// Columns of `trace` that the tool called `tool` reads.
    ///
    /// # Errors
    /// `Missing` with the columns that the trace lacks and the reason why they are needed.
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

    /// Adapts the settings to `trace`: if its shards are cores, each is a core of the machine; names of marks are resolved;
    /// and results leave out what the trace has not recorded. Reads files of types that options name.
    ///
    /// # Errors
    /// See [`Resets::new`] and [`TypeSource::of`]; and an error if accesses cannot be assigned to cores as requested.
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

    /// A simulation with an empty machine, as the pass of the tool called `tool`.
    ///
    /// # Errors
    /// See [`Setup::fitted`], [`Setup::columns`] and [`Simulation::new`].
    pub(crate) fn pass(self, options: &Options, tool: &str, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let settings = self.fitted(options, trace)?;
        settings.columns(tool, trace)?;
        Ok(Box::new(Simulation::new(settings, None)?))
    }
}

/// Columns of `trace` that the tool called `tool` reads: those that it needs, each with the reason, and those that it uses
/// if the trace has them.
///
/// # Errors
/// `Missing` with the columns that the trace lacks and the reason why they are needed.
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

/// Columns that are used if the trace has them.
pub(crate) const OPTIONAL: Columns =
    Columns::ACCESS_FETCH.or(Columns::ACCESS_PC).or(Columns::THREADS).or(Columns::THREAD_CPU);

/// Columns from which the beginnings of functions are derived.
pub(crate) const FUNCTIONS: Columns = Columns::INSTRS.or(Columns::INSTR_CLASS);
