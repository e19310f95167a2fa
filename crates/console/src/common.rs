//! Options that every command takes.

use crate::screen::ColorChoice;

/// Options that every verb takes.
#[derive(Clone, Debug, clap::Args)]
pub struct Common {
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Common options")]
    pub quiet: bool,
    /// Also print how much was read, and how fast
    #[arg(short, long, global = true, help_heading = "Common options")]
    pub verbose: bool,
    /// Number of worker threads; default: all cores
    #[arg(short = 'j', long, global = true, value_name = "N", value_parser = crate::number::threads,
          help_heading = "Common options")]
    pub threads: Option<std::num::NonZeroUsize>,
    /// When to use colours; overrides NO_COLOR in the environment, which means never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Common options")]
    pub color: ColorChoice,
    /// Do not cut or fold tables on a terminal that is too narrow for them
    #[arg(long, global = true, help_heading = "Common options")]
    pub wide: bool,
    /// Do not escape control characters in the trace's texts on a terminal
    #[arg(long, global = true, help_heading = "Common options")]
    pub raw_names: bool,
}
