//! Options that every command takes.

use crate::screen::ColorChoice;

/// Options that every verb takes.
#[derive(Clone, Debug, clap::Args)]
pub struct Common {
    /// Say less: only errors
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Common options")]
    pub quiet: bool,
    /// Say more: how much was read, and how fast
    #[arg(short, long, global = true, help_heading = "Common options")]
    pub verbose: bool,
    /// Threads to work with; all cores if not said
    #[arg(short = 'j', long, global = true, value_name = "N", value_parser = crate::number::threads,
          help_heading = "Common options")]
    pub threads: Option<std::num::NonZeroUsize>,
    /// When to use colours; NO_COLOR in the environment means never, unless this says otherwise
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Common options")]
    pub color: ColorChoice,
    /// Let control characters in the trace's texts reach a terminal; they are escaped otherwise
    #[arg(long, global = true, help_heading = "Common options")]
    pub raw_names: bool,
}
