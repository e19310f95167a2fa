//! Tools: hooks with a name and options; several of them may take part in one run.

use crate::error::Result;
use crate::hooks::Hooks;
use std::ffi::CStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of instances of a tool that a run may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instances {
    /// One for the whole run; a run that names the tool twice is refused.
    One,
    /// One for each `--tool` option that names the tool.
    Many,
    /// One for each thread of the events, for each `--tool` option that names the tool.
    PerThread,
}

/// The trait of a tool, in addition to its hooks.
pub trait Tool: Hooks + Sized + 'static {
    /// Its name, used in messages and for the folder of its files.
    const NAME: &'static CStr;

    /// Number of instances of it that a run may have.
    const INSTANCES: Instances = Instances::Many;

    /// Creates an instance. `options` is the text after the first comma of `--tool LIBRARY,OPTIONS`, or empty.
    ///
    /// # Errors
    /// To refuse the options, or the run.
    fn create(host: Host, options: &str) -> Result<Self>;

    /// Called once for all instances, after each of them has finished.
    ///
    /// # Errors
    /// To end the run.
    fn finish_all(tools: &mut [&mut Self]) -> Result<()> {
        let _ = tools;
        Ok(())
    }
}

/// A function that prints text.
type Print = Arc<dyn Fn(&str) + Send + Sync>;

/// Services of the program for a tool.
#[derive(Clone)]
pub struct Host {
    print: Print,
    folder: Option<PathBuf>,
}

impl Host {
    /// A host whose results go to `print`, and whose files go into `folder`.
    #[must_use]
    pub fn new(print: impl Fn(&str) + Send + Sync + 'static, folder: Option<PathBuf>) -> Host {
        Host { print: Arc::new(print), folder }
    }

    /// A host for tests: it prints nothing, and has no folder.
    #[must_use]
    pub fn silent() -> Host {
        Host::new(|_| {}, None)
    }

    /// Prints a part of the results on standard output. Text that no one reads any more is dropped.
    pub fn print(&self, text: &str) {
        (self.print)(text);
    }

    /// The folder for files, if the run has one (`-o`). It gets its final name when the whole run is done.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("folder", &self.folder).finish_non_exhaustive()
    }
}
