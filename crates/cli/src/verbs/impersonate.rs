//! `quipu as`: other programs' command lines.

use crate::Common;
use crate::as_drmemtrace;
use crate::screen::{Outcome, Result, Screen};

/// Take another program's command line and print what it prints
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(subcommand)]
    program: Program,
}

#[derive(Debug, clap::Subcommand)]
enum Program {
    /// DynamoRIO's drmemtrace launcher, for scripts that were written for it
    ///
    /// Takes the launcher's options for traces on disk and prints its text on standard error, where the launcher
    /// prints it. Tools: view, basic_counts, opcode_mix, histogram, syscall_mix, func_view; several are joined by
    /// colons. The tool record_filter stands alone and writes to `-outdir`.
    /// Operation names are those of Quipu's own decoder. An option or tool that is not available is an error that names it.
    #[command(after_help = DRMEMTRACE_HELP)]
    Drmemtrace {
        /// The launcher's own options, such as `-indir DIR -tool basic_counts`
        #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

const AFTER_HELP: &str = "\
Examples:
  quipu as drmemtrace -indir trace.dir -tool basic_counts

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the run was interrupted
  2  could not do it";

const DRMEMTRACE_HELP: &str = "\
Examples:
  quipu as drmemtrace -indir trace.dir -tool basic_counts
  quipu as drmemtrace -infile trace.zip -tool view -skip_instrs 62 -exit_after_records 12
  quipu as drmemtrace -indir trace.dir -tool opcode_mix:histogram -line_size 128 -report_top 20

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the run was interrupted
  2  could not do it";

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    match &options.program {
        Program::Drmemtrace { args } => as_drmemtrace::run(args, common, screen),
    }
}
