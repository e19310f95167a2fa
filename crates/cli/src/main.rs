//! The program `quipu`. All code is in the library, so that man pages and completions can be generated from it.

use std::process::ExitCode;

fn main() -> ExitCode {
    quipu_cli::run(std::env::args_os())
}
