//! Chores of the repository, run as `cargo xtask <chore>`.
//!
//! Nothing here ships with Quipu. Each chore is one module; this file only reads the command line.

mod big_trace;
mod layers;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};

/// Chores of the Quipu repository.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check that no crate depends on one that its layer may not see.
    Layers,
    /// Write a large valid trace, repeated from a small real one, for benchmarks.
    BigTrace(big_trace::Options),
}

fn main() -> Result<()> {
    match Cli::parse().chore {
        Chore::Layers => layers::run(&root()),
        Chore::BigTrace(options) => big_trace::run(&root(), &options),
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
