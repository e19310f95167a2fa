//! The reasons why a run ends early.

use std::fmt;
use std::path::{Path, PathBuf};

/// The reason why a run ends early.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Hooks stop the run with this message.
    Stop(String),
    /// A file cannot be written.
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// An error of a layer below the hooks, such as the reader of events.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// An error that stops a run with a message.
    #[must_use]
    pub fn stop(message: impl Into<String>) -> Error {
        Error::Stop(message.into())
    }

    /// An error of writing a file.
    #[must_use]
    pub fn io(path: &Path, error: std::io::Error) -> Error {
        Error::Io { path: path.to_owned(), error }
    }

    /// An error of a layer below the hooks.
    #[must_use]
    pub fn other(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Other(Box::new(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Stop(message) => f.write_str(message),
            Error::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Error::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// The result of a function that may end the run.
pub type Result<T> = std::result::Result<T, Error>;
