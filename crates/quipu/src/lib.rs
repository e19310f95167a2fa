//! Quipu reads and analyses program-execution traces.
//!
//! # Open a trace
//!
//! [`open_path`] takes a file, a folder, or `-` for standard input, recognises the format by content, and returns a
//! [`Trace`](model::Trace): its metadata, the columns that it can fill, and its shards.
//!
//! ```
//! # fn main() -> quipu::model::Result<()> {
//! # let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/drmemtrace/allasm"));
//! let trace = quipu::open_path(path, &quipu::model::OpenOptions::default())?;
//! println!("{}: {} shards, can fill {}", trace.meta().title, trace.shards().len(), trace.columns());
//! # Ok(())
//! # }
//! ```
//!
//! # Run an analysis
//!
//! An analysis is a [`Tool`](model::Tool); [`tools_of`] lists those that apply to a trace. The engine reads the data once for
//! all of them, on as many threads as you ask for, and the result does not depend on the number of threads.
//!
//! ```
//! # fn main() -> quipu::model::Result<()> {
//! # let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/drmemtrace/allasm"));
//! # let trace = quipu::open_path(path, &quipu::model::OpenOptions::default())?;
//! use quipu::engine::{RunOptions, Watch, plan, run};
//! use quipu::model::Given;
//!
//! let tool = quipu::tool("categories", &trace.meta().format)?;
//! let watch = Watch::new();
//! let outcome = run(&*trace, vec![plan(tool, &Given::default(), &*trace)?], &RunOptions::new(&watch))?;
//! println!("{}", outcome.reports[0].json());
//! # Ok(())
//! # }
//! ```
//!
//! # Write an analysis, or walk over records
//!
//! Records come in [`Batch`](model::Batch)es of about a thousand, as *lenses*: columns with the same meaning for every format
//! ([`model::lens`]). A [`Pass`](model::Pass) receives batches; a [`Reader`](model::Reader) returns them to a plain loop.
//! Three programs in the folder `examples` show how:
//!
//! | example | shows |
//! |---|---|
//! | `page_accesses` | a loop over one lens: counts the accesses to one page |
//! | `own_pass` | a custom pass, run on all cores: which thread stores most |
//! | `walk` | two lenses side by side: each instruction with its text and its data |
//!
//! # Where things are
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | the vocabulary: traces, batches, lenses, tables, passes, errors, findings |
//! | [`engine`] | runs passes, merges shards by time |
//! | [`expr`] | expressions over the columns of tables |
//! | [`passes`] | the analyses |
//! | [`sim`] | machines: caches and TLBs |
//! | [`FORMATS`] | all formats; each family is a module and a feature of its own; all are on by default |
//! | [`isa`] | instructions: their effects, and their text |
//! | [`symbols`] | the meaning of addresses: regions of memory, types |
//! | [`source`] | bytes from files, archives, folders and pipes, inflated while reading |

#![warn(missing_docs)]

#[cfg(feature = "stream")]
mod carry;
mod lookup;
mod recognise;
mod strangers;
mod within;

pub use quipu_engine as engine;
pub use quipu_expr as expr;
pub use quipu_isa as isa;
pub use quipu_model as model;
pub use quipu_passes as passes;
pub use quipu_sim as sim;
pub use quipu_source as source;
pub use quipu_symbols as symbols;

#[cfg(feature = "stream")]
pub use carry::{Way, carrier_has_ended, into_stream, is_stream_name, names_in_streams, way, writes_streams};
pub use lookup::{tool, tool_for, tools_of};
pub use recognise::{
    Carrier, Recognised, format_named, format_of, open, open_path, probe, recognise, source_at,
};

/// Each family of formats: its feature, its module here, its crate, and its formats.
macro_rules! families {
    ($($(#[$doc:meta])* $feature:literal: $module:ident = $package:ident [$($format:ident)*];)*) => {
        $($(#[$doc])* #[cfg(feature = $feature)] pub use $package as $module;)*

        /// Every format that Quipu knows, in the order in which they are asked to recognise a file.
        pub const FORMATS: &[&dyn model::Format] = &[$($(#[cfg(feature = $feature)] &$package::$format,)*)*];
    };
}

// `cargo xtask new format` adds a line before the last.
families! {
    /// DynamoRIO's memory and instruction traces.
    "drmemtrace": drmemtrace = quipu_drmemtrace [DRMEMTRACE RAW];
    /// Calls of graphics APIs with their values.
    "apitrace": apitrace = quipu_apitrace [APITRACE];
    /// Memory accesses with the types of the accessed memory.
    "cacheray": cacheray = quipu_cacheray [CACHERAY];
    /// Accesses as lines of text: the output of Valgrind's lackey, and the input of Dinero.
    "plaintext": plaintext = quipu_plaintext [LACKEY DIN];
    /// Recordings of DTrace: buffers with their descriptions. Streams can carry some of its buffers, so it is asked before
    /// them.
    "dtrace": dtrace = quipu_dtrace [DTRACE];
    /// Workload events of Prism (Sigil2), hooks, back ends.
    "prism": prism = quipu_prism [PRISM];
    /// Tables of Parquet and Arrow.
    "columnar": columnar = quipu_columnar [COLUMNAR];
    /// Streams that describe themselves: rows of learned schemas.
    "stream": streamed = quipu_streamed [STREAM];
}
