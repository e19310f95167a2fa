//! Builds the distributable parts: the program with all features, and the Python module.

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `dist`.
#[derive(Args)]
pub(crate) struct Options {
    /// Build only this.
    #[arg(long)]
    only: Option<Part>,
}

/// A part of the distribution.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The program with its SQL engine, the libraries for recording, and manual pages: `target/dist/quipu-VERSION`.
    Program,
    /// The Python module, with the library for recording: `target/dist/*.whl`.
    Wheel,
}

/// Packages of the program and of the libraries that recording loads.
const PACKAGES: [&str; 3] = ["quipu-cli", "quipu-rt", "quipu-qemu"];
/// Files that these packages build.
const FILES: [&str; 4] = ["quipu", "libquipu_rt.so", "libquipu_rt.a", "libquipu_qemu.so"];
/// The library that the Python module records with.
const RECORDS: &str = "libquipu_qemu.so";
/// Text files that accompany the program.
const TEXTS: [&str; 3] = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Builds the requested parts and prints their sizes.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let (built, dist) = (target.join("release"), target.join("dist"));
    fs::create_dir_all(&dist)?;
    let wants = |part| options.only.is_none_or(|only| only == part);
    if wants(Part::Program) {
        let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
        cargo(root, &target, packages.chain(["--features", "quipu-cli/sql"]))?;
        let folder = dist.join(concat!("quipu-", env!("CARGO_PKG_VERSION")));
        fs::create_dir_all(&folder)?;
        for file in FILES {
            copy(&built.join(file), &folder.join(file))?;
        }
        for text in TEXTS {
            copy(&root.join(text), &folder.join(text))?;
        }
        crate::man::write(&folder.join("man"))?;
        for file in FILES {
            say(&folder.join(file))?;
        }
    }
    if wants(Part::Wheel) {
        cargo(root, &target, ["-p", "quipu-qemu"])?;
        let beside = root.join("python/quipu/lib");
        fs::create_dir_all(&beside)?;
        copy(&built.join(RECORDS), &beside.join(RECORDS))?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "--wheel-dir"]);
        done(pip.arg(&dist).arg("./python").current_dir(root))?;
        for entry in fs::read_dir(&dist)? {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new("whl")) {
                say(&path)?;
            }
        }
    }
    Ok(())
}

/// Builds packages with the settings of a release.
fn cargo<'a>(root: &Path, target: &Path, args: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--target-dir"]).arg(target).args(args);
    done(cargo.current_dir(root))
}

fn done(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} cannot be run"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("{} cannot be copied", from.display()))?;
    Ok(())
}

fn say(path: &Path) -> Result<()> {
    let n_bytes = fs::metadata(path)?.len();
    println!("{}: {:.1} MB", path.display(), n_bytes as f64 / 1e6);
    Ok(())
}
