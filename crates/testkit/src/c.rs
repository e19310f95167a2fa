//! Builds programs in C and C++ against a static library, as its users do, with the compilers of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate that makes a static library with a header; its tests build programs against it.
#[derive(Clone, Copy, Debug)]
pub struct CLibrary {
    /// The folder of the crate: `env!("CARGO_MANIFEST_DIR")`.
    pub root: &'static str,
    /// The name of its library in cargo's spelling: `quipu_stream_c`. The test depends on the crate, so that cargo builds it.
    pub name: &'static str,
}

impl CLibrary {
    /// The newest static library that cargo has built for this test.
    ///
    /// # Panics
    /// If there is none.
    pub fn path(&self) -> PathBuf {
        let prefix = format!("lib{}", self.name);
        let is_library = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&prefix) && name.ends_with(".a")
        };
        let exe = std::env::current_exe().unwrap_or_default();
        let folders = exe.ancestors().skip(1).take(2);
        let entries = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        let all = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_library);
        let newest = all.max_by_key(|path| path.metadata().and_then(|meta| meta.modified()).ok());
        newest.unwrap_or_else(|| panic!("there is no {prefix}.a: cargo builds it with the test"))
    }

    /// Builds a program against the library, from one file of the crate, with all warnings as errors.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn build(&self, source: &str, out: &Path) {
        self.compile(source, out, &[&self.path().to_string_lossy()]);
    }

    /// The same, with other arguments instead of the library, which may be among them.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn compile(&self, source: &str, out: &Path, more: &[&str]) {
        let root = Path::new(self.root);
        let compiler = if source.ends_with(".c") { "cc" } else { "c++" };
        let built = Command::new(compiler)
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-I"])
            .arg(root.join("include"))
            .arg(root.join(source))
            .args(more)
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(out)
            .status();
        match built {
            Ok(status) => assert!(status.success(), "{source} does not compile"),
            Err(error) => panic!("cannot run `{compiler}`: {error}"),
        }
    }
}
