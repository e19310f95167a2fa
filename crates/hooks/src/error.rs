//! Why a run ends early.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a run ends early.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Hooks stop the run, with their message.
    Stop(String),
    /// A file cannot be written.
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// What is beneath the hooks says it.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Stops a run with a message.
    #[must_use]
    pub fn stop(message: impl Into<String>) -> Error {
        Error::Stop(message.into())
    }

    /// An error of a file.
    #[must_use]
    pub fn io(path: &Path, error: std::io::Error) -> Error {
        Error::Io { path: path.to_owned(), error }
    }

    /// An error of what is beneath the hooks.
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

/// What a run gives.
pub type Result<T> = std::result::Result<T, Error>;
