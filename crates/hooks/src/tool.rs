//! Tools: hooks that have a name, take options, and may stand side by side in one run.

use crate::error::Result;
use crate::hooks::Hooks;
use std::ffi::CStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many instances of a tool a run may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instances {
    /// One for the whole run; a run that names the tool twice is refused.
    One,
    /// One each time that the run names the tool.
    Many,
    /// One for each thread of the events, each time that the run names the tool.
    PerThread,
}

/// What a tool implements in addition to its hooks.
pub trait Tool: Hooks + Sized + 'static {
    /// Its name, in messages and in the folder of its files.
    const NAME: &'static CStr;

    /// How many instances of it a run may have.
    const INSTANCES: Instances = Instances::Many;

    /// Makes an instance. `options` is what follows the first comma of `--tool LIBRARY,OPTIONS`, or empty.
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

/// What prints text.
type Print = Arc<dyn Fn(&str) + Send + Sync>;

/// What the program does for a tool.
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

    /// Prints a part of the results, on standard output. Text that nothing reads any more is dropped.
    pub fn print(&self, text: &str) {
        (self.print)(text);
    }

    /// The folder for files, if the run was given one (`-o`). It has its final name when the whole run is done.
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
