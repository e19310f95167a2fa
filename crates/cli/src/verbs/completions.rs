//! `quipu completions`: prints shell completion scripts.

use clap_complete::Shell;
use quipu_console::screen::{Outcome, Result};
use std::io::Write;

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The shell that the script is for
    shell: Shell,
}

const AFTER_HELP: &str = "\
Examples:
  quipu completions bash > ~/.local/share/bash-completion/completions/quipu
  quipu completions fish > ~/.config/fish/completions/quipu.fish

Exit codes:
  0  done";

pub(crate) fn run(options: &Options) -> Result<Outcome> {
    // The generator panics if it cannot write, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut crate::command(), "quipu", &mut script);
    quipu_console::terminal::stdout().write_all(&script)?;
    Ok(Outcome::Fine)
}
