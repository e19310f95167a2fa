//! `quipu layout`: records a program, and reports its types and other layouts of one of them.

use super::record::{recorded, say};
use crate::typing::give_places;
use quipu::engine::{self, plan};
use quipu::model::fresh::Replace;
use quipu::model::pass::Report;
use quipu::model::{Error, Given, OpenOptions, Trace};
use quipu::sim::{TypeReport, TypeRow};
use quipu::source::{PackOptions, Packing};
use quipu_capture::limits::Limits;
use quipu_capture::program::Program;
use quipu_capture::record::{Job, Prints, front_end};
use quipu_capture::tsan::runtime::is_instrumented;
use quipu_console::Common;
use quipu_console::parts;
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session::{self, Extent, Verdict};
use serde_json::Map;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Record a program, and report its types and better layouts
///
/// Does in one step what `quipu record`, `quipu analyze types` and `quipu analyze layout` do: runs the program, reports which
/// types and members its accesses and cache misses go to, and simulates other layouts of the structure with the most misses.
///
/// Compiles nothing: the program has to be compiled with `quipu cc -g` or `quipu c++ -g`. What it prints goes to standard
/// error. The trace is kept for other questions.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Type to lay out, in C, C++, Rust or LLVM syntax; by default the structure with the most misses
    #[arg(long = "type", value_name = "NAME")]
    name: Option<String>,
    /// Trace to write; by default a name like `list.4711.trace` in the working directory
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Overwrite the output if it is a trace and nothing else
    #[arg(long)]
    force: bool,
    /// Print JSON: one object, with each analysis under its name in `results`
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Examples:
  quipu cc -O2 -g list.c -o list && quipu layout -- ./list
  quipu layout --type person -o list.trace -- ./list names.txt
  quipu layout --json -- ./server --once

Exit codes:
  0  done, whatever the program's own exit code
  1  done, and something is wrong with the trace, or the run was interrupted
  2  could not do it, for example because the program was not compiled with `quipu cc`";

/// The front end that records types.
const FRONT_END: &str = "tsan";
/// The analyses, as `quipu analyze` names them.
const TYPES: &str = "types";
const LAYOUT: &str = "layout";

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let program = Program::find(&options.command)?;
    if !is_instrumented(&options.command) {
        return Err(Error::unsupported("the program was not compiled to record the types of its objects")
            .in_file(program.path.display().to_string())
            .hint(
                "compile it with `quipu cc -g` or `quipu c++ -g` (make CC='quipu cc -g'), and run this again",
            )
            .into());
    }
    let front_end = front_end(FRONT_END, &options.command)?;
    let job = Job {
        command: options.command.clone(),
        output: options.output.clone(),
        replace: if options.force { Replace::Allowed } else { Replace::Never },
        prints: Prints::BesideTheAnswer,
        limits: Limits::default(),
        follows_forks: false,
        pack: PackOptions { packing: Packing::Zip, level: Some(1) },
        n_bytes: Arc::default(),
    };
    let summary = recorded(&job, front_end, screen)?;
    let outcome = say(&summary, &format!("`{}`", summary.path.display()), front_end, screen);
    let trace = quipu::open_path(&summary.path, &OpenOptions::default())?;
    let mut given = Given::default();
    given.add("binary", summary.program.to_string_lossy());
    let analysed = |name: &str, given: &Given| analyse(name, given, &*trace, common, screen);
    let mut of_types = given.clone();
    give_places(&summary.path, quipu::tool_for(TYPES, &*trace)?.info(), &mut of_types);
    let (mut names, (mut reports, mut verdict)) = (vec![TYPES], analysed(TYPES, &of_types)?);
    match options.name.clone().or_else(|| most_missed(&reports)) {
        None => screen.say(format_args!("note: no structure with several members was used")),
        Some(name) => {
            given.add("type", name.as_str());
            match (analysed(LAYOUT, &given), &options.name) {
                // The user has not asked for this type.
                (Err(Stop::Fault(error)), None) => {
                    screen.say(format_args!("note: no other layouts of `{name}`: {error}"));
                }
                (done, _) => {
                    let (more, other) = done?;
                    reports.extend(more);
                    names.push(LAYOUT);
                    verdict = verdict.and(other);
                }
            }
        }
    }
    verdict.say_lost(screen);
    if options.json {
        let mut answer = Map::new();
        answer.insert("trace".into(), summary.path.display().to_string().into());
        answer.insert("results".into(), parts::results(&names, &reports));
        verdict.add_to(&mut answer);
        screen.json(&answer.into())?;
    } else {
        screen.documents(&parts::documents(&reports, &[]))?;
    }
    Ok(outcome.and(verdict.tell(screen)).and(Outcome::of(&reports)))
}

/// Runs one analysis over the whole trace.
fn analyse(
    name: &str,
    given: &Given,
    trace: &dyn Trace,
    common: &Common,
    screen: &Screen,
) -> Result<(Vec<Box<dyn Report>>, Verdict)> {
    let planned = plan(quipu::tool_for(name, trace)?, given, trace)?;
    let engine::Outcome { reports, findings, error, cancelled, .. } =
        session::analyse(trace, vec![planned], &Extent::default(), common, screen)?;
    Ok((reports, Verdict::new(trace, findings, error, cancelled)))
}

/// The used type with several members that has the most misses. Types are in this order.
fn most_missed(reports: &[Box<dyn Report>]) -> Option<String> {
    let types = reports.first()?.as_any().downcast_ref::<TypeReport>()?;
    let fits = |row: &&TypeRow| row.is_known && row.numbers.accesses > 0 && row.fields.len() > 1;
    types.types.iter().find(fits).map(|row| row.name.clone())
}
