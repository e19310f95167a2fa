//! The runtime of a program: whether the program has it, or a library that it is linked with, and how it is loaded into a
//! program that has not.

use crate::program::Program;
use crate::tsan::wrap;
use object::{Object, ObjectSection, ObjectSymbol, ReadCache};
use quipu_model::Result;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// File name of the shared runtime.
pub(super) const LIBRARY: &str = "libquipu_rt.so";
/// A function of the runtime, which programs export that contain it.
const EXPORTED: &str = "quipu_region_end";
/// Beginning of the names of the C library's loaders, which can list the libraries of a program without running it.
const LOADER: &str = "ld-linux";

/// How a program has the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linked {
    /// It needs the shared library.
    Shared,
    /// The runtime is a part of it.
    Static,
}

/// Whether the program of a command line, or a library that it is linked with, was compiled with instrumentation.
pub fn is_instrumented(command: &[OsString]) -> bool {
    let Ok(program) = Program::find(command) else { return false };
    linked(&program.path).is_some() || of_libraries(&program).is_some()
}

/// How a program itself has the runtime; `None` if it has not.
pub(super) fn linked(program: &Path) -> Option<Linked> {
    let cache = ReadCache::new(File::open(program).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let is_needed = |name: &[u8]| {
        let name = Path::new(OsStr::from_bytes(name)).file_name();
        name.is_some_and(|name| name == LIBRARY)
    };
    if file.import_libraries().is_ok_and(|all| all.flatten().any(|library| is_needed(library.name()))) {
        return Some(Linked::Shared);
    }
    // A program that includes `quipu.h` names the function, too, without containing it.
    let has_function =
        file.dynamic_symbols().any(|symbol| symbol.is_definition() && symbol.name() == Ok(EXPORTED));
    has_function.then_some(Linked::Static)
}

/// The runtime that is loaded because a library of the program needs it, as the program's loader finds it.
fn of_libraries(program: &Program) -> Option<PathBuf> {
    if !program.machine.is_native() {
        return None;
    }
    let loader = loader(&program.path)?;
    if !loader.file_name()?.to_str()?.starts_with(LOADER) {
        return None;
    }
    let listed = Command::new(loader).arg("--list").arg(&program.path).stderr(Stdio::null()).output().ok()?;
    listed.stdout.split(|byte| *byte == b'\n').find_map(listed_runtime)
}

/// The path in a line such as `NAME => PATH (ADDRESS)` or `PATH (ADDRESS)`, if it is that of the runtime.
fn listed_runtime(line: &[u8]) -> Option<PathBuf> {
    const ARROW: &[u8] = b" => ";
    let line = line.trim_ascii();
    let line = memchr::memmem::find(line, ARROW).map_or(line, |at| &line[at + ARROW.len()..]);
    let path = Path::new(OsStr::from_bytes(&line[..memchr::memmem::rfind(line, b" (")?]));
    (path.is_absolute() && path.file_name()? == LIBRARY).then(|| path.to_owned())
}

/// The loader that a program names; `None` for a static one.
fn loader(program: &Path) -> Option<PathBuf> {
    let cache = ReadCache::new(File::open(program).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let section = file.section_by_name(".interp")?;
    let path = section.data().ok()?.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// The runtime that has to be loaded before a program without instrumentation, so that its functions stand before those of
/// the C library: the one that libraries of the program need, or ours, for libraries that the program loads by itself. `None`
/// if the program has it, or cannot have it.
///
/// # Errors
/// Those of [`wrap::find_runtime`].
pub(super) fn to_load(program: &Program) -> Result<Option<PathBuf>> {
    if linked(&program.path).is_some() || !program.machine.is_native() {
        return Ok(None);
    }
    match of_libraries(program) {
        Some(runtime) => Ok(Some(runtime)),
        None => wrap::find_runtime(LIBRARY).map(Some),
    }
}

/// Causes the loader to load the runtime before the libraries of a program, and before those that the user wants first.
pub(super) fn load_first(command: &mut Command, runtime: &Path) {
    const VARIABLE: &str = "LD_PRELOAD";
    let mut all = runtime.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(VARIABLE).filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    command.env(VARIABLE, all);
}

/// The same for the program of a command line, if only libraries of it are instrumented.
pub(crate) fn load_for_libraries(words: &[OsString], command: &mut Command) {
    let program = Program::find(words).ok().filter(|program| linked(&program.path).is_none());
    if let Some(runtime) = program.as_ref().and_then(of_libraries) {
        load_first(command, &runtime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_found_among_the_libraries_that_a_loader_lists() {
        let found = |line: &str| listed_runtime(line.as_bytes());
        let runtime = Some(PathBuf::from("/opt/q (1)/libquipu_rt.so"));
        assert_eq!(found("\t/opt/q (1)/libquipu_rt.so (0x00007fd2ef7dd000)"), runtime);
        assert_eq!(found("\tlibquipu_rt.so => /opt/q (1)/libquipu_rt.so (0x00007fd2ef7dd000)"), runtime);
        for other in [
            "\tlibc.so.6 => /lib/libc.so.6 (0x00007fd2ef85a000)",
            "\tlibquipu_rt.so => not found",
            "\tlinux-vdso.so.1 (0x00007fd2efa57000)",
            "",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn a_program_that_names_the_runtime_does_not_have_it() {
        let own = std::env::current_exe().unwrap();
        // The constants above are in it.
        let bytes = std::fs::read(&own).unwrap();
        assert!(memchr::memmem::find(&bytes, LIBRARY.as_bytes()).is_some());
        assert_eq!(linked(&own), None);
        assert!(loader(&own).is_none_or(|loader| loader.is_file()));
        let program = Program::find(&[own.into()]).unwrap();
        assert_eq!(of_libraries(&program), None);
    }
}
