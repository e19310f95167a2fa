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
use std::any::TypeId;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// True if a format takes a file of this name for a part of a trace.
fn is_claimed(name: &str) -> bool {
    quipu::FORMATS.iter().any(|format| format.claims(name))
}

/// Options that name what is written. Everything else that names a file is read.
pub(crate) const OUTPUTS: &[&str] = &["output", "html", "miss-file", "blobs"];

/// The option that names a trace to be written; the others name pages and texts.
const TRACE_OUTPUT: &str = "output";

/// What the arguments of a command line name is an input until the process ends.
///
/// # Errors
/// `Usage` if an output would become a part of a trace that is read.
pub(crate) fn keep(command: &Command, matches: &ArgMatches) -> Result<(), Error> {
    let mut named = Named::default();
    named.take(command, matches);
    named.check()
}

/// The folders that a command line names to be read, and what it names to be written.
#[derive(Debug, Default)]
struct Named {
    folders: Vec<PathBuf>,
    /// With the name of the option.
    outputs: Vec<(String, PathBuf)>,
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
                    self.outputs.push((name.to_owned(), value.into()));
                    continue;
                }
                keep_value(value, is_path);
                let folder = is_path.then(|| std::fs::canonicalize(value).ok()).flatten();
                self.folders.extend(folder.filter(|folder| folder.is_dir()));
            }
        }
        if let Some((name, matches)) = matches.subcommand()
            && let Some(command) = command.find_subcommand(name)
        {
            self.take(command, matches);
        }
    }

    /// Refuses outputs in the folders, but for pages and texts that nothing takes for a trace.
    fn check(&self) -> Result<(), Error> {
        let may_be_read = |option: &str, path: &Path| {
            option == TRACE_OUTPUT || path.file_name().is_some_and(|name| is_claimed(&name.to_string_lossy()))
        };
        // What is there already lies in an input, which writing says.
        let is_new = |path: &Path| path.symlink_metadata().is_err();
        let new = self.outputs.iter().filter(|(option, path)| may_be_read(option, path) && is_new(path));
        for (_, path) in new {
            let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
            // Where there is no folder to write to, writing says so.
            let Ok(parent) = std::fs::canonicalize(parent) else { continue };
            if self.folders.iter().any(|folder| parent.starts_with(folder)) {
                return Err(Error::usage("the output would be a part of the trace that is read")
                    .in_file(path.display().to_string())
                    .hint("name a file or folder outside the folder that is read".to_owned()));
            }
        }
        Ok(())
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
