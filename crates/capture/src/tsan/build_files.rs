//! Files for build systems: `quipu.h`, a module of CMake, files of pkg-config, and specs of gcc.
//!
//! Nothing has to be installed for them: they are parts of this program, which writes them into the user's cache, in the
//! layout of an installation prefix.

use crate::tsan::link::wrapped;
use crate::tsan::wrap::Family;
use quipu_cells::checksum;
use quipu_model::fresh::cannot;
use quipu_model::{Error, Result};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The header for annotations in programs.
const HEADER: &str = include_str!("../../../runtime/include/quipu.h");

/// Place in the prefix and text of each other file. `@NAME@` stands for what depends on this program and on the runtime.
const FILES: [(&str, &str); 6] = [
    ("lib/cmake/Quipu/QuipuConfig.cmake", include_str!("../../../runtime/share/QuipuConfig.cmake")),
    (
        "lib/cmake/Quipu/QuipuConfigVersion.cmake",
        include_str!("../../../runtime/share/QuipuConfigVersion.cmake"),
    ),
    ("lib/pkgconfig/quipu.pc", include_str!("../../../runtime/share/quipu.pc")),
    ("lib/pkgconfig/quipu-gcc.pc", include_str!("../../../runtime/share/quipu-gcc.pc")),
    ("lib/pkgconfig/quipu-clang.pc", include_str!("../../../runtime/share/quipu-clang.pc")),
    ("lib/quipu/gcc.specs", include_str!("../../../runtime/share/gcc.specs")),
];

/// Writes the files for this runtime and returns their folder, which is another one for each runtime: builds keep its path.
///
/// # Errors
/// `Missing` if the user has no cache; `Unsupported` if a path cannot be written into the files; `Io` if a file cannot be
/// written.
pub fn prefix(runtime: &Path) -> Result<PathBuf> {
    let cache = cache().ok_or_else(|| {
        Error::missing("there is no folder for the files of build systems")
            .hint("name one in XDG_CACHE_HOME, or set HOME")
    })?;
    let folder = cache.join(format!("build-{:08x}", checksum::of(runtime.as_os_str().as_bytes())));
    // The files name their folder, and builds read them in other folders.
    let made = std::fs::create_dir_all(&folder).and_then(|()| folder.canonicalize());
    let folder = made.map_err(|cause| cannot("make", &folder, cause))?;
    write(&folder.join("include/quipu.h"), HEADER)?;
    for (name, text) in FILES {
        write(&folder.join(name), &filled(text, &folder, runtime)?)?;
    }
    Ok(folder)
}

/// A text with the values of its placeholders.
fn filled(text: &str, prefix: &Path, runtime: &Path) -> Result<String> {
    let flags = |family: Family| family.flags().join(" ");
    Ok(text
        .replace("@PREFIX@", plain(prefix)?)
        .replace("@RUNTIME_FOLDER@", plain(runtime.parent().unwrap_or(Path::new(".")))?)
        .replace("@RUNTIME@", plain(runtime)?)
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@WRAPPED@", &wrapped())
        .replace("@GCC_FLAGS@", &flags(Family::Gcc))
        .replace("@CLANG_FLAGS@", &flags(Family::Clang)))
}

/// A path as text, if it means itself in CMake, pkg-config, lists of the linker and words of a shell.
fn plain(path: &Path) -> Result<&str> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@~".contains(c);
    path.to_str().filter(|text| text.chars().all(is_plain)).ok_or_else(|| {
        Error::unsupported("a path with such characters cannot be written into files of build systems")
            .in_file(path.display().to_string())
            .hint("put the runtime elsewhere (QUIPU_LIB) or the cache (XDG_CACHE_HOME), or use `quipu cc` as the compiler")
    })
}

/// A folder in the user's cache that contains `quipu.h`; `None` if it cannot be created, which matters only to programs that
/// include the header.
pub(super) fn header_folder() -> Option<PathBuf> {
    let folder = cache()?.join("include");
    write(&folder.join("quipu.h"), HEADER).ok()?;
    Some(folder)
}

/// Quipu's folder in the user's cache.
fn cache() -> Option<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(std::env::var_os("HOME").filter(|path| !path.is_empty())?).join(".cache"),
    };
    Some(cache.join("quipu"))
}

/// Writes a file, unless it has this text already: builds that depend on it need not begin anew.
fn write(path: &Path, text: &str) -> Result<()> {
    if std::fs::read(path).is_ok_and(|known| known == text.as_bytes()) {
        return Ok(());
    }
    let made = || -> io::Result<()> {
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        // Programs that run at the same time see either the old or the new file.
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(format!(".{}", std::process::id()));
        std::fs::write(&fresh, text)?;
        std::fs::rename(&fresh, path)
    };
    made().map_err(|cause| cannot("write", path, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_placeholders_are_filled() {
        for (name, text) in FILES {
            let text = filled(text, Path::new("/c/quipu"), Path::new("/l/libquipu_rt.so")).unwrap();
            let is_placeholder =
                |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            assert!(!text.split('@').skip(1).any(is_placeholder), "{name}: {text}");
        }
        let gcc = filled(FILES[3].1, Path::new("/c/quipu"), Path::new("/l/libquipu_rt.so")).unwrap();
        assert!(gcc.contains("prefix=/c/quipu\n") && gcc.contains("runtime=/l/libquipu_rt.so\n"), "{gcc}");
        assert!(gcc.contains("libdir=/l\n") && gcc.contains("Version: 0."), "{gcc}");
    }

    #[test]
    fn paths_that_mean_something_else_in_a_file_are_refused() {
        for path in ["/a b/rt.so", "/a,b/rt.so", "/a$b/rt.so", "/a;b/rt.so", "/a:b/rt.so", "/a\"b/rt.so"] {
            assert!(plain(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(plain(Path::new("/home/é/x-1.0_2/rt.so")).unwrap(), "/home/é/x-1.0_2/rt.so");
    }

    #[test]
    fn a_file_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/file");
        write(&path, "one").unwrap();
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        write(&path, "one").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
        write(&path, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
