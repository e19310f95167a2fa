//! The inputs that a command line names, which must never be overwritten.
//!
//! A trace registers the files that it reads itself. This module covers all other inputs (programs, types, lists of
//! functions, schedules), regardless of where they are opened, and the time before a trace is opened.
//!
//! A trace must not be written into a folder that is read as a trace either, because it would become part of it. Only
//! folders named on the command line are checked, by path.

use clap::{ArgMatches, Command};
use quipu::model::Error;
use quipu::source::Reading;
use quipu_console::places::{refuse_among, refuse_text_among};
use std::any::TypeId;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Options that name outputs. All other options that name a file are inputs.
pub(crate) const OUTPUTS: &[&str] = &["output", "html", "miss-file", "evictions", "blobs"];

/// The option for an output that is a trace; the others name pages and texts.
const TRACE_OUTPUT: &str = "output";

/// The verb whose output is a text.
const TEXT_VERB: &str = "disassemble";

/// Registers the inputs that the arguments of a command line name, until the process ends.
///
/// # Errors
/// `Usage` if an output would become part of a trace that is read.
pub(crate) fn keep(command: &Command, matches: &ArgMatches) -> Result<(), Error> {
    let mut named = Named::default();
    named.take(command, matches);
    named.paths.iter().for_each(|path| Reading::keep(path));
    named.check()
}

/// The same, but inputs are registered only while they are read.
///
/// # Errors
/// Those of [`keep`].
pub(crate) fn check(command: &Command, matches: &ArgMatches) -> Result<(), Error> {
    let mut named = Named::default();
    named.take(command, matches);
    named.check()
}

/// Inputs and outputs named by a command line.
#[derive(Debug, Default)]
struct Named {
    inputs: Vec<PathBuf>,
    outputs: Vec<Output>,
    /// Everything that may be the path of an input.
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
            // For a program to run, only the program is an input; its arguments are unknown.
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

    /// Refuses outputs inside folders that are read as traces. Pages and texts are allowed if they cannot be taken for
    /// traces.
    fn check(&self) -> Result<(), Error> {
        self.outputs.iter().try_for_each(|Output { path, is_trace }| match is_trace {
            true => refuse_among(&self.inputs, path),
            false => refuse_text_among(&self.inputs, path),
        })
    }
}

/// The path in an argument, or those that a text may contain: `@FILE`, `NAME=FILE`.
fn paths_of(value: &OsStr, is_path: bool) -> Vec<PathBuf> {
    if is_path {
        return vec![PathBuf::from(value)];
    }
    let Some(text) = value.to_str() else { return Vec::new() };
    let named = text.split_once('=').map(|(_, file)| file);
    let listed = text.strip_prefix('@');
    named.into_iter().chain(listed).map(PathBuf::from).collect()
}
