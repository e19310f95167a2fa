//! Prism (Sigil2): workload events, their two encodings, hooks and back ends.
//!
//! A front end observes a program and sends events: computations, accesses, synchronization, contexts, control flow. This
//! crate reads and writes these events, and passes them in batches to hooks. Back ends are the hooks that come with Prism.
//!
//! | module | contents |
//! |---|---|
//! | [`event`], [`batch`], [`detail`] | events; batches of one thread; the fields that events have: re-exported from
//! `quipu-hooks` |
//! | [`fixed`], [`dump`] | the encoding of 18 bytes; dumps of its buffers |
//! | [`variable`] | the encoding of 1 to 258 bytes, with configuration events |
//! | [`convert`] | conversion between the encodings; refuses to lose information |
//! | [`hooks`] | hooks, which analyses implement, and functions that run whole streams through them |
//! | [`simplecount`], [`stgen`], [`sigilclassic`] | back ends |
//! | [`shadow`] | shadow memory: a cell per byte of memory, in pages |
//! | [`delivery`] | events from other processes, through shared memory |
//! | [`fault`] | faults of a stream, and their places |
//! | [`trace`], [`codec`], [`table`], `survey` | the format as the rest of Quipu uses it |
//! | [`check`], [`rules`] | the rules that a stream must follow |
//! | [`rewrite`], `file`, `here`, `drive` | `convert`: streams and plain files of events |
//! | `edit`, `turns` | `trim`, `filter`, `split`; files of threads as one trace |
//! | [`unknown`] | events whose codes have no meaning |
//! | [`import`], `front` | records of other formats as events |
//! | [`run`], [`files`] | events through back ends, and the files that these write |
//! | [`feed`] | events through the hooks of a program that uses this crate |
//! | [`live`] | events of running front ends through back ends |
//! | [`observed`] | events of programs that front ends observe from outside, while they run |
//! | [`loaded`] | events through tools of users, which are loaded as libraries |
//! | [`workload`], [`tools`] | work, communication and the critical path; the analyses of reports |
//!
//! docs/formats/prism.md describes the events.

pub mod check;
pub mod codec;
pub mod convert;
pub mod delivery;
mod drive;
pub mod dump;
mod edit;
pub mod fault;
pub mod feed;
mod file;
pub mod files;
pub mod fixed;
mod front;
mod here;
pub mod hooks;
pub mod import;
pub mod live;
pub mod loaded;
mod nonsense;
pub mod observed;
mod position;
pub mod rewrite;
pub mod rules;
pub mod run;
pub mod shadow;
pub mod sigilclassic;
pub mod simplecount;
pub mod stgen;
mod survey;
pub mod table;
pub mod tools;
pub mod trace;
mod turns;
pub mod unknown;
pub mod variable;
pub mod workload;

pub use fault::{Error, Fault, Result};
pub use quipu_hooks::load::leave_standard_output;
pub use quipu_hooks::{Batch, Detail, Event, Hooks, batch, detail, event};

use quipu_model::convert::RecordWriter;
use quipu_model::options::Kind;
use quipu_model::{
    Confidence, Format, FormatInfo, OpenOptions, OptionSpec, RuleInfo, Tool, Trace, Transform,
};
use quipu_source::Source;

/// The format, for the list of formats.
pub static PRISM: Prism = Prism;

/// The type of [`PRISM`].
#[derive(Debug)]
pub struct Prism;

/// The option for the encoding of events.
pub(crate) const ENCODING: OptionSpec = OptionSpec::new(
    "encoding",
    Kind::Choice(&["auto", "fixed", "variable"]),
    "auto",
    "Encoding of events, which plain bytes do not record: dumps of buffers, or events of 1 to 258 bytes.",
)
.value("auto|fixed|variable");

/// The option for the fields that events have.
pub(crate) const DETAIL: OptionSpec = OptionSpec::new(
    "detail",
    Kind::Text,
    "auto",
    "Initial fields of events: all, communication, fixed, none, sigrind, valgrind, or fields of accesses, computations \
     and control flow in hexadecimal, such as e0:90:80.",
)
.value("LEVEL");

/// Name of the dialect of Prism's front end for Valgrind.
pub(crate) const SIGRIND: &str = "sigrind";

/// The option for the dialect of the variable encoding.
pub(crate) const DIALECT: OptionSpec = OptionSpec::new(
    "sizes",
    Kind::Choice(&["strict", SIGRIND]),
    "strict",
    "Sizes of accesses in the variable encoding: as specified, or as Prism's front end for Valgrind writes them.",
)
.value("strict|sigrind");

/// The description of the format.
pub static INFO: FormatInfo = FormatInfo {
    name: "prism",
    title: "workload events of Prism (Sigil2)",
    extensions: &["prism"],
    beyond_lenses: &["computations"],
    doc: "docs/formats/prism.md",
    options: &[ENCODING, DETAIL, DIALECT],
    print_options: &[],
};

static TRANSFORMS: &[&dyn Transform] =
    &[&rewrite::CONVERT, &rewrite::MERGE, &edit::Trim, &edit::Filter, &edit::Split, &run::Run];

static TOOLS: &[&dyn Tool] = &[&check::CHECK, &tools::workload::OfWorkload];

impl Format for Prism {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    /// Plain events have no magic number; only the stream that carries them identifies them.
    fn probe(&self, source: &Source) -> Confidence {
        let is_carried = matches!(source.said("encoding"), Some("36" | "38"));
        if is_carried { Confidence::Sure } else { Confidence::No }
    }

    fn open(&self, source: &Source, options: &OpenOptions) -> quipu_model::Result<Box<dyn Trace>> {
        Ok(Box::new(trace::open(source, options)?))
    }

    fn transforms(&self) -> &'static [&'static dyn Transform] {
        TRANSFORMS
    }

    fn record_writer(&self) -> Option<&'static dyn RecordWriter> {
        Some(&import::FromOthers)
    }

    fn runner(&self) -> Option<&'static dyn RecordWriter> {
        Some(&run::Runner)
    }

    fn tools(&self) -> &'static [&'static dyn Tool] {
        TOOLS
    }

    fn rules(&self) -> &'static [RuleInfo] {
        rules::RULES
    }
}
