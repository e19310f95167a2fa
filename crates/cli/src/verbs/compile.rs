//! `quipu cc`, `quipu c++`, `quipu rustc-flags`: programs that record what they do.

use quipu_capture::tsan::wrap::{self, Runtime, find_runtime};
use quipu_console::screen::{Outcome, Result};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

/// Compile C with instrumentation, as a drop-in compiler
///
/// Takes the arguments of gcc or clang and runs the compiler that QUIPU_CC names, `cc` by default. When the program runs, it
/// records its accesses, allocations, calls and locks to the file that QUIPU_OUT names (`%n` is the program, `%p` the
/// process; default `%n.%p.quipu`; `off` for none). QUIPU_RUNTIME=static links the runtime into the program.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, disable_help_flag = true)]
pub(crate) struct Cc {
    /// Arguments for the compiler
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// Compile C++ with instrumentation, as a drop-in compiler
///
/// Like `quipu cc`, with the compiler that QUIPU_CXX names, `c++` by default.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, disable_help_flag = true)]
pub(crate) struct Cxx {
    /// Arguments for the compiler
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// Print rustc flags that instrument loads and stores
///
/// For RUSTFLAGS of a stable compiler. With `--target`, cargo does not instrument build scripts and macros.
#[derive(Debug, clap::Args)]
#[command(after_help = RUST_HELP)]
pub(crate) struct RustcFlags {}

const AFTER_HELP: &str = "\
Examples:
  quipu cc -O2 prog.c -o prog && QUIPU_OUT=prog.quipu ./prog && quipu report prog.quipu
  make CC='quipu cc' CXX='quipu c++'
  CC='quipu cc' CXX='quipu c++' cmake -S . -B build
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
        compile("QUIPU_CC", "cc", &self.args)
    }
}

impl Cxx {
    pub(crate) fn run(&self) -> Result<Outcome> {
        compile("QUIPU_CXX", "c++", &self.args)
    }
}

fn compile(variable: &str, usual: &str, args: &[OsString]) -> Result<Outcome> {
    let compiler = std::env::var_os(variable).filter(|name| !name.is_empty()).unwrap_or_else(|| usual.into());
    let runtime = match std::env::var_os("QUIPU_RUNTIME") {
        Some(how) if how == "static" => {
            Runtime::Static { library: find_runtime("libquipu_rt.a")?, has_own_names: false }
        }
        _ => Runtime::Shared(find_runtime("libquipu_rt.so")?),
    };
    let warn = |text: &str| quipu_console::screen::eprint(&format!("quipu: {text}\n"));
    match wrap::run(&compiler, args, &runtime, warn)? {
        0 => Ok(Outcome::Fine),
        code => Ok(Outcome::Program(u8::try_from(code).unwrap_or(1))),
    }
}

impl RustcFlags {
    pub(crate) fn run(&self) -> Result<Outcome> {
        let mut line = wrap::rustc_flags(&find_runtime("libquipu_rt.so")?).as_bytes().to_vec();
        line.push(b'\n');
        quipu_console::terminal::stdout().write_all(&line)?;
        Ok(Outcome::Fine)
    }
}
