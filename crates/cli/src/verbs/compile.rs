//! `quipu cc`, `quipu c++`, `quipu rustc-flags`: programs that record what they do.

use quipu_capture::tsan::build_files;
use quipu_capture::tsan::wrap::{self, Runtime, find_runtime};
use quipu_console::screen::{Outcome, Result};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Compile C with instrumentation, as a drop-in compiler
///
/// Takes the arguments of gcc or clang and runs the compiler that QUIPU_CC names, `cc` by default. When the program runs, it
/// records its accesses, allocations, calls and locks to the file that QUIPU_OUT names.
///
/// Quipu's own are the options and variables below, each option as the only argument.
///
/// Everything else goes to the compiler; `cc --help` lists that.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Cc {
    #[command(flatten)]
    own: Own,
    /// Arguments for the compiler
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// Compile C++ with instrumentation, as a drop-in compiler
///
/// Like `quipu cc`, with the compiler that QUIPU_CXX names, `c++` by default.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Cxx {
    #[command(flatten)]
    own: Own,
    /// Arguments for the compiler
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// Options that do not go to the compiler.
#[derive(Debug, clap::Args)]
struct Own {
    /// Write `quipu.h` and the files for CMake, pkg-config and meson into the cache, and print their folder, which is laid out
    /// as an installation prefix
    #[arg(long, exclusive = true)]
    quipu_prefix: bool,
    /// Print the path of the runtime, for LD_PRELOAD
    #[arg(long, exclusive = true)]
    quipu_runtime: bool,
}

/// Print rustc flags that instrument loads and stores
///
/// For RUSTFLAGS of a stable compiler. With `--target`, cargo does not instrument build scripts and macros.
#[derive(Debug, clap::Args)]
#[command(after_help = RUST_HELP)]
pub(crate) struct RustcFlags {}

const AFTER_HELP: &str = "\
Variables when compiling:
  QUIPU_CC, QUIPU_CXX  the compiler, such as clang or `ccache gcc`; default: cc, c++
  QUIPU_RUNTIME        `static` links the runtime into the program
  QUIPU_LIB            the folder of the runtime, if it is not found
Variables when the program runs:
  QUIPU_OUT            the file to write: `%n` is the program, `%p` the process; `off` for none;
                       default: %n.%p.quipu, and none for programs of builds (conftest*, cmTC_*,
                       sanity_check_for_*, sanitycheck*, output.exe, build-script-*, rustc)
  QUIPU_MAX_BYTES      the size that the file may have
  QUIPU_FOLLOW_FORK    0 leaves out children

Examples:
  quipu cc -O2 prog.c -o prog && QUIPU_OUT=prog.quipu ./prog && quipu report prog.quipu
  make CC='quipu cc' CXX='quipu c++'
  CC='quipu cc' CXX='quipu c++' cmake -S . -B build
  cmake -S . -B build -DCMAKE_PREFIX_PATH=\"$(quipu cc --quipu-prefix)\"
  QUIPU_CC=clang quipu cc -c a.c

Exit codes:
  that of the compiler; 2 if it could not be run";

const RUST_HELP: &str = "\
Examples:
  RUSTFLAGS=\"$(quipu rustc-flags)\" cargo build --target x86_64-unknown-linux-gnu
  rustc $(quipu rustc-flags) -O prog.rs

Exit codes:
  0  done
  2  the runtime is not found";

impl Cc {
    pub(crate) fn run(&self) -> Result<Outcome> {
        self.own.run().unwrap_or_else(|| compile("QUIPU_CC", "cc", &self.args))
    }
}

impl Cxx {
    pub(crate) fn run(&self) -> Result<Outcome> {
        self.own.run().unwrap_or_else(|| compile("QUIPU_CXX", "c++", &self.args))
    }
}

impl Own {
    /// Does what an option asks for; `None` without any.
    fn run(&self) -> Option<Result<Outcome>> {
        let print = |path: fn(PathBuf) -> quipu::model::Result<PathBuf>| -> Result<Outcome> {
            let path = path(find_runtime(SHARED)?)?;
            print_line(path.as_os_str())
        };
        match (self.quipu_prefix, self.quipu_runtime) {
            (true, _) => Some(print(|runtime| build_files::prefix(&runtime))),
            (_, true) => Some(print(Ok)),
            _ => None,
        }
    }
}

/// The arguments of `quipu`, with `--` before those that go to a compiler: compilers have options with the names of common
/// ones, such as `-v`.
pub(crate) fn escaped(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_compiler = args.get(1).is_some_and(|verb| verb == "cc" || verb == "c++");
    let is_own = match &args[..] {
        [_, _, only] => only == "--help" || only == "-h" || only.as_bytes().starts_with(b"--quipu-"),
        _ => false,
    };
    if is_compiler && !is_own {
        args.insert(2, "--".into());
    }
    args
}

/// The runtime that is loaded with a program.
const SHARED: &str = "libquipu_rt.so";

fn print_line(text: &OsStr) -> Result<Outcome> {
    let mut line = text.as_bytes().to_vec();
    line.push(b'\n');
    quipu_console::terminal::stdout().write_all(&line)?;
    Ok(Outcome::Fine)
}

fn compile(variable: &str, usual: &str, args: &[OsString]) -> Result<Outcome> {
    let compiler = std::env::var_os(variable).filter(|name| !name.is_empty()).unwrap_or_else(|| usual.into());
    let runtime = match std::env::var_os("QUIPU_RUNTIME") {
        Some(how) if how == "static" => {
            Runtime::Static { library: find_runtime("libquipu_rt.a")?, has_own_names: false }
        }
        _ => Runtime::Shared(find_runtime(SHARED)?),
    };
    let warn = |text: &str| quipu_console::screen::eprint(&format!("quipu: {text}\n"));
    match wrap::run(&compiler, args, &runtime, warn)? {
        0 => Ok(Outcome::Fine),
        code => Ok(Outcome::Program(u8::try_from(code).unwrap_or(1))),
    }
}

impl RustcFlags {
    pub(crate) fn run(&self) -> Result<Outcome> {
        print_line(&wrap::rustc_flags(&find_runtime(SHARED)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_not_our_own_go_to_the_compiler() {
        let escaped = |line: &str| {
            let args = escaped(line.split(' ').map(OsString::from).collect());
            args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(escaped("quipu cc -v"), "quipu cc -- -v");
        assert_eq!(escaped("quipu c++ -q a.cc -- b.cc"), "quipu c++ -- -q a.cc -- b.cc");
        assert_eq!(escaped("quipu cc"), "quipu cc --");
        assert_eq!(escaped("quipu cc -O2 --help"), "quipu cc -- -O2 --help");
        for line in ["quipu cc --help", "quipu c++ --quipu-prefix", "quipu view cc", "quipu"] {
            assert_eq!(escaped(line), line);
        }
    }
}
