//! Where the libraries are that are loaded into traced processes.

use quipu_model::{Error, Result};
use std::path::{Path, PathBuf};

/// Names a folder to look in before all others.
const VARIABLE: &str = "QUIPU_LIB";

/// The library of this file name, which package `package` makes.
///
/// # Errors
/// `Missing` if it is nowhere, with advice.
pub(crate) fn find(name: &str, package: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned));
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    // Beside the program; where Cargo puts what others depend on, seen from there and from its tests; installed.
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
