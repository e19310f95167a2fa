//! What of a command line names inputs, which are never written over.
//!
//! A trace says itself which files it reads. This is for all the others (programs, types, lists of functions, schedules)
//! whatever part of the program opens them, and for the time before a trace is opened.
//!
//! Nor is a trace written into a folder that is read as one: it would be a part of it from then on. Only the folders that the
//! command line names count, by path.

use clap::{ArgMatches, Command};
use quipu::model::Error;
use quipu::source::Reading;
use quipu_console::places::{refuse_among, refuse_text_among};
use std::any::TypeId;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Options that name what is written. Everything else that names a file is read.
pub(crate) const OUTPUTS: &[&str] = &["output", "html", "miss-file", "blobs"];

/// The option that names a trace to be written; the others name pages and texts.
const TRACE_OUTPUT: &str = "output";

/// The verb whose output is a text.
const TEXT_VERB: &str = "disassemble";

/// What the arguments of a command line name is an input until the process ends.
///
/// # Errors
/// `Usage` if an output would become a part of a trace that is read.
pub(crate) fn keep(command: &Command, matches: &ArgMatches) -> Result<(), Error> {
    let mut named = Named::default();
    named.take(command, matches);
    named.paths.iter().for_each(|path| Reading::keep(path));
    named.check()
}

/// The same, but that nothing is an input for longer than it is read.
///
/// # Errors
/// As [`keep`].
pub(crate) fn check(command: &Command, matches: &ArgMatches) -> Result<(), Error> {
    let mut named = Named::default();
    named.take(command, matches);
    named.check()
}

/// What a command line names to be read, and to be written.
#[derive(Debug, Default)]
struct Named {
    inputs: Vec<PathBuf>,
    outputs: Vec<Output>,
    /// All that may be the path of an input.
    paths: Vec<PathBuf>,
}

#[derive(Debug)]
struct Output {
    path: PathBuf,
    is_trace: bool,
}

impl Named {
    fn take(&mut self, command: &Command, matches: &ArgMatches) {
        for arg in command.get_arguments() {
            let name = arg.get_id().as_str();
            // Those of another program are its own business, but for the program.
            let n_values = if arg.is_trailing_var_arg_set() { 1 } else { usize::MAX };
            if !matches.try_contains_id(name).unwrap_or(false) {
                continue;
            }
            let kind = arg.get_value_parser().type_id();
            let is_path = kind == TypeId::of::<PathBuf>() || arg.is_trailing_var_arg_set();
            for value in matches.get_raw(name).into_iter().flatten().take(n_values) {
                if OUTPUTS.contains(&name) {
                    let is_trace = name == TRACE_OUTPUT && command.get_name() != TEXT_VERB;
                    self.outputs.push(Output { path: value.into(), is_trace });
                    continue;
                }
                self.paths.extend(paths_of(value, is_path));
                self.inputs.extend(is_path.then(|| PathBuf::from(value)));
            }
        }
        if let Some((name, matches)) = matches.subcommand()
            && let Some(command) = command.find_subcommand(name)
        {
            self.take(command, matches);
        }
    }

    /// Refuses outputs among the files that are read, but for pages and texts that nothing takes for a trace.
    fn check(&self) -> Result<(), Error> {
        self.outputs.iter().try_for_each(|Output { path, is_trace }| match is_trace {
            true => refuse_among(&self.inputs, path),
            false => refuse_text_among(&self.inputs, path),
        })
    }
}

/// A path, or those in a text that may hold one: `@FILE`, `NAME=FILE`.
fn paths_of(value: &OsStr, is_path: bool) -> Vec<PathBuf> {
    if is_path {
        return vec![PathBuf::from(value)];
    }
    let Some(text) = value.to_str() else { return Vec::new() };
    let named = text.split_once('=').map(|(_, file)| file);
    let listed = text.strip_prefix('@');
    named.into_iter().chain(listed).map(PathBuf::from).collect()
}
