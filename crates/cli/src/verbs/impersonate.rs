//! `quipu as`: other programs' command lines.

use quipu::model::{Finding, OpenOptions};
use quipu::source::Source;
use quipu_compat::{apitrace, cacheray, drmemtrace, dtrace, prism};
use quipu_console::Common;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::Verdict;
use std::path::Path;

/// Emulate the command line and output of another program
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(subcommand)]
    program: Program,
}

#[derive(Debug, clap::Subcommand)]
enum Program {
    /// Emulate apitrace, for existing scripts
    ///
    /// Verbs: diff, dump, info, leaks, repack, sed, trim. They take apitrace's options and print its output. Invalid call
    /// sets, and files that are not traces, are errors; apitrace continues.
    #[command(after_help = APITRACE_HELP)]
    Apitrace {
        /// The verb and its options, such as `dump --calls=0-10 game.trace`
        #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Emulate Cacheray's tools, for existing scripts
    ///
    /// Tools: dwarf2json, simulator, tracecheck. They take Cacheray's options and print its output; the simulator also takes
    /// `--out DIR`, the folder for its files; dwarf2json writes all types of a program with their true sizes, and with
    /// `--original` those of Cacheray's dwarf2json. Structures are sorted by name; Cacheray's order changes from run to run.
    /// Input that makes Cacheray hang or crash is an error.
    #[command(after_help = CACHERAY_HELP)]
    Cacheray {
        /// The tool and its options, such as `simulator -i TRACE -c CONFIG`
        #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Emulate DynamoRIO's drmemtrace launcher, for existing scripts
    ///
    /// Takes the launcher's options for traces on disk and prints its text on standard error, as the launcher does. Tools:
    /// view, basic_counts, opcode_mix, histogram, syscall_mix, func_view, reuse_distance, reuse_time, invariant_checker,
    /// schedule_stats, cache_simulator, TLB_simulator, miss_analyzer; colons join several. The tool record_filter cannot be
    /// joined with others and writes to `-outdir`. Operation names are those of Quipu's own decoder. An option or tool that
    /// is not available is an error that names it.
    #[command(after_help = DRMEMTRACE_HELP)]
    Drmemtrace {
        /// The launcher's options, such as `-indir DIR -tool basic_counts`
        #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Emulate DTrace's consumer on a capture instead of a live kernel
    ///
    /// Takes the consumer's printing options (-q, -F, -x) and prints its text, wrong values included, with its messages on
    /// standard error and its exit status. `-x` takes aggsortkey, aggsortrev, aggsortpos=N, aggsortkeypos=N, agghist,
    /// aggpack, aggzoom, encoding=ascii|utf8, stackindent=N, rawbytes, temporal, quiet, flowindent, droptags, oformat=json.
    /// Tracing options are errors that name them; commands of `system()` are shown, never run. Without a capture, or with
    /// `-`, it reads standard input.
    #[command(after_help = DTRACE_HELP)]
    Dtrace {
        /// The consumer's options and a capture, such as `-qF -x aggsortkey capture`
        #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Emulate Prism (Sigil2) on recorded traces instead of programs
    ///
    /// Takes Prism's groups of options; `--executable` names a trace, and the back end writes Prism's files, including its
    /// defects. Front-end options are errors that name them.
    #[command(after_help = PRISM_HELP)]
    Prism {
        /// Prism's options, such as `--backend=stgen -c 10 -o out --executable=events.prism`
        #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

const AFTER_HELP: &str = "\
Examples:
  quipu as apitrace dump --grep '^glUniform' game.trace
  quipu as drmemtrace -indir trace.dir -tool basic_counts

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the run was interrupted
  2  could not do it";

const APITRACE_HELP: &str = "\
Examples:
  quipu as apitrace dump game.trace
  quipu as apitrace dump -v --thread-ids --calls=frame game.trace
  quipu as apitrace info --dump-frames game.trace
  quipu as apitrace repack -z game.trace smaller.trace
  quipu as apitrace diff --tool=python --suppress-common-lines old.trace new.trace
  quipu as apitrace trim --frames=10-12 -o part.trace game.trace
  quipu as apitrace sed -e s/GL_TRIANGLES/GL_POINTS/ game.trace

Exit codes:
  0  done
  1  a trace could not be opened or is damaged
  2  wrong options";

const CACHERAY_HELP: &str = "\
Examples:
  quipu as cacheray tracecheck app.trace
  quipu as cacheray dwarf2json app
  quipu as cacheray simulator -i app.trace -c caches.json -d app.dwarf.json -t
  quipu as cacheray simulator -i app.trace -c caches.json -d app.dwarf.json -r new.remap --out results

Exit codes:
  0  done
  1  the trace is cut or damaged
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

const DTRACE_HELP: &str = "\
Examples:
  quipu as dtrace capture
  quipu as dtrace -q -x aggsortkey -x aggsortrev raw.jsonl
  quipu as dtrace -qF -x oformat=json < buffer.midbuf

Exit codes:
  0  done, or the status that the script asked for
  1  a buffer could not be read to its end
  2  could not do it";

const PRISM_HELP: &str = "\
Examples:
  quipu as prism --backend=simplecount --executable=events.prism
  quipu as prism --backend=stgen -c 10 -l textv2 -o out --executable=events.prism

Exit codes:
  0  done
  1  the events are damaged
  2  could not do it";

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let (args, outcome) = match &options.program {
        Program::Apitrace { args } => (args, apitrace::run(args, screen)),
        Program::Cacheray { args } => (args, cacheray::run(args, screen)),
        Program::Drmemtrace { args } => (args, drmemtrace::run(args, common, screen)),
        Program::Dtrace { args } => (args, dtrace::run(args, common, screen)),
        Program::Prism { args } => (args, prism::run(args, screen)),
    };
    match outcome? {
        Outcome::Fine => Ok(say_of_carriers(args, screen)),
        outcome => Ok(outcome),
    }
}

/// Reports faults of streams that carry the named traces, which the other programs' command lines do not know about.
fn say_of_carriers(args: &[String], screen: &Screen) -> Outcome {
    let files = args.iter().map(Path::new).filter(|path| path.is_file());
    let mut outcome = Outcome::Fine;
    for path in files {
        let Ok(source) = Source::open(path) else { continue };
        let Ok(found) = quipu::recognise(&source, &OpenOptions::default()) else { continue };
        let findings = found.beside(&[], None);
        if findings.iter().any(Finding::is_damage) {
            outcome = outcome.and(Verdict { findings, ..Verdict::default() }.tell(screen));
        }
    }
    outcome
}
