//! The program `quipu`; all of it is in the library, so that man pages and completions can be made from it.

use std::process::ExitCode;

fn main() -> ExitCode {
    quipu_cli::run(std::env::args_os())
}
