//! Chores of the repository, run as `cargo xtask <chore>`.
//!
//! Nothing here is shipped with Quipu. Each chore is one module; this file only parses the command line.

mod big_trace;
mod dist;
mod drop_ins;
mod dtrace_seeds;
mod house;
mod layers;
mod man;
mod new;
mod pages;
mod seeds;
mod tidy;

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
    /// Check that no crate depends on one that its layer may not use.
    Layers,
    /// Measure the repository: the size of a large change, and the rules of the house.
    House {
        /// List what this measure or rule counts.
        name: Option<String>,
    },
    /// Rewrite the generated pages under `docs/`.
    Docs {
        /// Write nothing; fail if a page is stale.
        #[arg(long)]
        check: bool,
    },
    /// Write the files of a new format, analysis or lens; CONTRIBUTING.md has the guide.
    New(new::Options),
    /// Write manual pages.
    Man {
        /// Output folder; default `target/man`.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Build the distribution into `target/dist`: the program with everything it needs, and the Python wheel.
    Dist(dist::Options),
    /// Write a large valid trace, repeated from a small real one, for benchmarks.
    BigTrace(big_trace::Options),
    /// Time the tools that `quipu as …` stands in for, with two builds in turn.
    DropIns(drop_ins::Options),
    /// Write short seeds for the fuzz targets, made of the traces of the repository.
    Seeds(seeds::Options),
}

fn main() -> Result<()> {
    match Cli::parse().chore {
        Chore::Layers => layers::run(&root()),
        Chore::House { name } => house::run(&root(), name.as_deref()),
        Chore::Docs { check: false } => pages::write(&root()),
        Chore::Docs { check: true } => pages::check(&root()),
        Chore::New(options) => new::run(&root(), &options),
        Chore::Man { out } => man::write(&out.unwrap_or_else(|| root().join("target/man"))),
        Chore::Dist(options) => dist::run(&root(), &options),
        Chore::BigTrace(options) => big_trace::run(&root(), &options),
        Chore::DropIns(options) => drop_ins::run(&root(), &options),
        Chore::Seeds(options) => seeds::run(&root(), &options),
    }
}

/// Root of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
