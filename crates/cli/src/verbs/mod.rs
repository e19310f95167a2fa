//! The verbs: one file each.

mod analyze;
mod assemble;
mod check;
mod collect;
pub(crate) mod compile;
mod completions;
mod convert;
mod describe;
pub(crate) mod diff;
mod disassemble;
mod edit;
mod filter;
mod formats;
mod impersonate;
mod info;
mod layout;
mod merge;
mod new_tool;
mod record;
mod recover;
pub(crate) mod report;
mod run;
mod send;
mod sim;
mod split;
pub(crate) mod sql;
mod sweep;
mod tools;
mod trim;
pub(crate) mod view;

use quipu_console::Common;
use quipu_console::screen::{Outcome, Result, Screen};

/// Declares the verbs: for each, its options and its name on the command line.
macro_rules! verbs {
    ($($verb:ident($options:ty) = $name:literal,)*) => {
        /// The verbs.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Verb {
            $(#[command(name = $name)] $verb($options),)*
        }

        impl Verb {
            /// The definition of the verb with this name; the others are not defined.
            pub(crate) fn defined(name: &str) -> Option<clap::Command> {
                match name {
                    $($name => Some(<$options as clap::Args>::augment_args(clap::Command::new($name))),)*
                    _ => None,
                }
            }
        }
    };
}

verbs! {
    Report(report::Options) = "report",
    View(view::Options) = "view",
    Analyze(analyze::Options) = "analyze",
    Check(check::Options) = "check",
    Convert(convert::Options) = "convert",
    Trim(trim::Options) = "trim",
    Filter(filter::Options) = "filter",
    Split(split::Options) = "split",
    Merge(merge::Options) = "merge",
    Edit(edit::Options) = "edit",
    Diff(diff::Options) = "diff",
    Disassemble(disassemble::Options) = "disassemble",
    Assemble(assemble::Options) = "assemble",
    Recover(recover::Options) = "recover",
    Record(record::Options) = "record",
    Layout(layout::Options) = "layout",
    Sim(sim::Options) = "sim",
    Run(run::Options) = "run",
    Sql(sql::Options) = "sql",
    NewTool(new_tool::Options) = "new-tool",
    Info(info::Options) = "info",
    Describe(describe::Options) = "describe",
    Formats(formats::Options) = "formats",
    Tools(tools::Options) = "tools",
    As(impersonate::Options) = "as",
    Send(send::Options) = "send",
    Collect(collect::Options) = "collect",
    Cc(compile::Cc) = "cc",
    Cxx(compile::Cxx) = "c++",
    RustcFlags(compile::RustcFlags) = "rustc-flags",
    Completions(completions::Options) = "completions",
}

impl Verb {
    /// Whether the result with `--json` is a single object instead of one line per record or difference.
    pub(crate) fn answers_with_an_object(&self) -> bool {
        !matches!(self, Verb::View(_) | Verb::Diff(_) | Verb::Sql(_))
    }

    pub(crate) fn run(&self, common: &Common, screen: &Screen) -> Result<Outcome> {
        match self {
            Verb::Report(options) => report::run(options, common, screen),
            Verb::View(options) => view::run(options, common, screen),
            Verb::Analyze(options) => analyze::run(options, common, screen),
            Verb::Check(options) => check::run(options, common, screen),
            Verb::Convert(options) => convert::run(options, common, screen),
            Verb::Trim(options) => trim::run(options, common, screen),
            Verb::Filter(options) => filter::run(options, common, screen),
            Verb::Split(options) => split::run(options, common, screen),
            Verb::Merge(options) => merge::run(options, common, screen),
            Verb::Edit(options) => edit::run(options, common, screen),
            Verb::Diff(options) => diff::run(options, screen),
            Verb::Disassemble(options) => disassemble::run(options, common, screen),
            Verb::Assemble(options) => assemble::run(options, common, screen),
            Verb::Recover(options) => recover::run(options, common, screen),
            Verb::Record(options) => record::run(options, common, screen),
            Verb::Layout(options) => layout::run(options, common, screen),
            Verb::Sim(options) => sim::run(options, common, screen),
            Verb::Run(options) => run::run(options, common, screen),
            Verb::Sql(options) => sql::run(options, common, screen),
            Verb::NewTool(options) => new_tool::run(options, screen),
            Verb::Info(options) => info::run(options, screen),
            Verb::Describe(options) => describe::run(options, screen),
            Verb::Formats(options) => formats::run(options, screen),
            Verb::Tools(options) => tools::run(options, screen),
            Verb::As(options) => impersonate::run(options, common, screen),
            Verb::Send(options) => send::run(options, screen),
            Verb::Collect(options) => collect::run(options, screen),
            Verb::Cc(options) => options.run(),
            Verb::Cxx(options) => options.run(),
            Verb::RustcFlags(options) => options.run(),
            Verb::Completions(options) => completions::run(options),
        }
    }
}
