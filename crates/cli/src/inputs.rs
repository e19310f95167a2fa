//! What of a command line names inputs, which are never written over.
//!
//! A trace says itself which files it reads. This is for all the others (programs, types, lists of functions, schedules)
//! whatever part of the program opens them, and for the time before a trace is opened.

use clap::{ArgMatches, Command};
use quipu::source::Reading;
use std::any::TypeId;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Options that name what is written. Everything else that names a file is read.
pub(crate) const OUTPUTS: &[&str] = &["output", "html", "miss_file", "blobs"];

/// What the arguments of a command line name is an input until the process ends.
pub(crate) fn keep(command: &Command, matches: &ArgMatches) {
    for arg in command.get_arguments() {
        let name = arg.get_id().as_str();
        // Those of another program are its own business, but for the program.
        let n_values = if arg.is_trailing_var_arg_set() { 1 } else { usize::MAX };
        if OUTPUTS.contains(&name) || !matches.try_contains_id(name).unwrap_or(false) {
            continue;
        }
        let kind = arg.get_value_parser().type_id();
        let is_path = kind == TypeId::of::<PathBuf>() || arg.is_trailing_var_arg_set();
        for value in matches.get_raw(name).into_iter().flatten().take(n_values) {
            keep_value(value, is_path);
        }
    }
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        keep(command, matches);
    }
}

/// A path, or a text that may hold one: `@FILE`, `NAME=FILE`.
fn keep_value(value: &OsStr, is_path: bool) {
    if is_path {
        Reading::keep(Path::new(value));
    } else if let Some(text) = value.to_str() {
        let named = text.split_once('=').map(|(_, file)| file);
        let listed = text.strip_prefix('@');
        named.into_iter().chain(listed).for_each(|file| Reading::keep(Path::new(file)));
    }
}
