//! Finds the libraries that are loaded into traced processes.

use quipu_model::{Error, Result};
use std::path::{Path, PathBuf};

/// Environment variable with a folder to search first.
const VARIABLE: &str = "QUIPU_LIB";

/// Finds the library with this file name, which is built by the package `package`.
///
/// # Errors
/// `Missing` if it is not found, with a hint.
pub(crate) fn find(name: &str, package: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    // Next to the program; where Cargo puts dependencies, relative to the program and to its tests; where it is installed.
    let beside = program.iter().flat_map(|folder| {
        [folder.clone(), folder.join("deps"), folder.join(".."), folder.join("../lib/quipu")]
    });
    let found = named.into_iter().chain(beside).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::missing(format!("the library `{name}` is not found beside the program, nor in ../lib/quipu")).hint(format!(
            "build it (cargo build --release -p {package}), and name its folder in {VARIABLE} if that is another one"
        ))
    })
}
