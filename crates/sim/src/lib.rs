//! Caches and TLBs as pure state machines over memory accesses, and the analyses that run them.
//!
//! A [`MachineSpec`] describes a machine, a [`Machine`] takes accesses and counts. Neither reads files or depends on traces:
//!
//! ```
//! use quipu_model::lens::AccessKind;
//! use quipu_sim::{Machine, Usual, Watch};
//!
//! # fn main() -> quipu_model::Result<()> {
//! let spec = Usual { cores: 1, ..Usual::default() }.spec();
//! let mut machine = Machine::new(&spec, Watch::default())?;
//! machine.access(0, AccessKind::Read, 0x1000, 8, 0);
//! machine.access(0, AccessKind::Read, 0x1008, 8, 0);
//! let [_, data] = machine.first_caches(0);
//! assert_eq!((machine.counts(data).hits, machine.counts(data).misses), (1, 1));
//! # Ok(())
//! # }
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `spec` | the description of a machine, and checks of its consistency |
//! | `config` | configuration files, and those of real processors |
//! | `describe` | a machine in a sentence |
//! | `sets`, `rules`, `opt` | the lines of one cache; the state of each policy; Belady's policy |
//! | `machine` | requests on their way through caches; inclusion, coherence, flushes |
//! | `machine/cache` | one of its caches, with its counts |
//! | `machine/evictions` | lines that leave caches, and write-backs |
//! | `machine/pages` | TLBs for pages of several sizes |
//! | `machine/stream` | many requests at once, cache by cache |
//! | `snoop`, `prefetch`, `seen` | parts of it: the snoop filter, prefetchers, lines referenced before |
//! | `physical` | physical addresses instead of virtual ones |
//! | `place` | assignment of threads to cores |
//! | `lane` | progress through a batch, for one core or for several at once |
//! | `recording` | fetches, instructions and data that a trace lacks |
//! | `extent`, `resets` | skipped records, warm-up, simulated records; resets of statistics |
//! | `simulate` | a machine as an analysis: batches in, a report out |
//! | `over_time` | misses along the trace |
//! | `report` | the results, as data and as text: `make` builds them from a machine, `document` prints them |
//! | `fields` | accesses and misses by type and field |
//! | `options` | options shared by several tools |
//! | `sweep` | many caches at once; `machine/feed` makes their requests |
//! | `cacheray` | Cacheray's own simulator, reproduced with its faults |
//! | `layout` | simulations of other layouts of a type |
//! | `caches`, `tlbs`, `misses`, `sweep`, `fields/tool` | the tools |

#![warn(missing_docs)]

mod describe;
mod extent;
mod fields;
mod lane;
mod machine;
mod models;
mod opt;
mod options;
mod over_time;
mod physical;
mod place;
mod prefetch;
mod recording;
mod report;
mod resets;
mod rules;
mod seen;
mod sets;
mod simulate;
mod snoop;
mod spec;

pub mod cacheray;
pub mod caches;
pub mod config;
pub mod layout;
pub mod misses;
pub mod sweep;
pub mod tlbs;

pub use extent::{Extent, Warmup};
pub use fields::tool as types;
pub use fields::{
    FieldRow, MissingField, Numbers, PartRow, SharedLine, SharedPart, SiteRow, ThreadRow, TypeReport,
    TypeRow, TypeSource,
};
pub use machine::{Counts, Eviction, Left, Machine, Miss, Purpose, Rows, Watch};
pub use models::{OTHER_MODELS, OtherModel};
pub use options::{BASE, BINARY, EVICTIONS, MACHINE, MISS_FILE, PLACES, TYPES, fit_trace};
pub use over_time::{LevelSteps, MissSteps};
pub use physical::{Pages, Translation, Translator};
pub use place::{CoreLoad, Placement, Placing};
pub use recording::Recording;
pub use report::{
    CacheCounts, Coherence, CoreCounts, LevelCounts, MissingAt, MissingPc, Simulated, StageCounts,
    ThreadCounts, WarmupCounts,
};
pub use resets::Resets;
pub use simulate::{MissSink, Setup, Simulation};
pub use snoop::CoherenceStats;
pub use spec::{
    CacheSpec, Inclusion, LargePages, Layout, MAX_CACHES, MAX_CORES, MAX_DEPTH, MAX_LINES, MachineSpec,
    Policy, Prefetch, Role, Rrip, Usual,
};

use quipu_model::Tool;

/// Every analysis of this crate.
pub const TOOLS: &[&dyn Tool] = &[
    &caches::Caches,
    &tlbs::Tlbs,
    &misses::MissTool,
    &sweep::SweepTool,
    &layout::tool::LayoutTool,
    &types::TypeTool,
];
