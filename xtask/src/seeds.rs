//! Short seeds for the fuzz targets, made of the traces of the repository and of folders of samples.
//!
//! Fuzzers change a few bytes at a time and run thousands of short inputs a second. A seed is therefore a whole short file or
//! the first bytes of a long one, in each container that can be written. The beginning of a trace holds its version and kind.
//! Readers report that a cut file is cut, which does no harm here.

use crate::dtrace_seeds;
use anyhow::{Context, Result};
use flate2::Crc;
use quipu::source::{PackOptions, Packer, Packing, Pool, Source};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size of a seed.
const MAX_BYTES: usize = 4 << 10;
/// Bytes taken from a long file, inflated: a multiple of the entry sizes 12 and 32.
const HEAD_BYTES: usize = 1920;

/// Options of `seeds`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Output folder, with one folder for each target; default `fuzz/corpus`
    #[arg(long)]
    out: Option<PathBuf>,
    /// Write nothing; print the names of all targets
    #[arg(long)]
    targets: bool,
    /// Further folders of samples; their files are taken for what the names of the folders within say
    samples: Vec<PathBuf>,
}

/// Further targets for the files in the folder of a format, besides the format's own target and [`OF_ACCESSES`].
const MORE: &[(&str, &[&str])] =
    &[("drmemtrace", &["source", "check", "rewrite"]), ("apitrace", &["source", "apitrace_text"])];

/// The fuzz program shared by formats that have none of their own.
const OF_FORMATS: &str = "format";

/// Targets for every format whose traces may have memory accesses.
const OF_ACCESSES: &[&str] = &["convert", "simulate"];

/// Formats whose traces have no memory accesses.
const WITHOUT_ACCESSES: &[&str] = &["apitrace"];

/// Targets for the files in the folder of a format.
fn targets_of_format(name: &'static str) -> Vec<&'static str> {
    let more = MORE.iter().filter(|(folder, _)| *folder == name).flat_map(|(_, targets)| targets.iter());
    let of_accesses = OF_ACCESSES.iter().filter(|_| !WITHOUT_ACCESSES.contains(&name));
    [name].into_iter().chain(more.copied()).chain(of_accesses.copied()).collect()
}

/// Files with one of these parts in their path are for another target, whatever their folder.
const PARTS: &[(&str, &str)] = &[
    ("schedule.bin", "schedule"),
    (".raw", "drmemtrace-raw"),
    ("modules.log", "lists"),
    ("funclist", "lists"),
    ("cacheray/configs/", "configuration"),
    ("cacheray/types/", "types_file"),
    (".conf", "configuration"),
    (".v2p", "configuration"),
];

/// Parts of paths of files that describe traces but are none.
const PASSED_OVER: &[&str] = &["/golden", "README", "LICENSE", "facts.json", "tracecheck.txt", ".c.txt"];

/// Writes the seeds and prints their number.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    if options.targets {
        targets(root)?.iter().for_each(|target| println!("{target}"));
        return Ok(());
    }
    let out = options.out.clone().unwrap_or_else(|| root.join("fuzz/corpus"));
    let pool = Pool::new(1)?;
    let mut folders = vec![root.join("traces"), root.join("crates/cli/tests/cmd")];
    for entry in fs::read_dir(root.join("crates"))? {
        folders.extend(Some(entry?.path().join("cases")).filter(|cases| cases.is_dir()));
    }
    folders.extend(options.samples.iter().cloned());
    let mut n_seeds = 0;
    for path in folders.iter().map(|folder| files(folder)).collect::<Result<Vec<_>>>()?.concat() {
        let targets = targets_of(&path);
        if targets.is_empty() {
            continue;
        }
        for (target, seed) in dtrace_seeds::of(&path, MAX_BYTES)? {
            n_seeds += usize::from(keep(&out, target, &seed)?);
        }
        for seed in seeds_of(&path, &pool)? {
            for target in &targets {
                n_seeds += usize::from(keep(&out, target, &seed)?);
            }
        }
    }
    // Seeds kept by hand and from earlier runs.
    for path in files(&root.join("fuzz/seeds"))? {
        let target =
            path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        n_seeds += usize::from(keep(&out, &target, &fs::read(&path)?)?);
    }
    println!("{n_seeds} seeds in {}", out.display());
    Ok(())
}

/// Names of all targets: the fuzz programs, and the formats without one of their own.
fn targets(root: &Path) -> Result<Vec<String>> {
    let programs = files(&root.join("fuzz/fuzz_targets"))?;
    let names =
        programs.iter().filter_map(|path| path.file_stem()).map(|name| name.to_string_lossy().into_owned());
    let mut targets: Vec<String> = names.filter(|name| name != OF_FORMATS).collect();
    for name in quipu::FORMATS.iter().map(|format| format.info().name.to_owned()) {
        if !targets.contains(&name) {
            targets.push(name);
        }
    }
    Ok(targets)
}

/// Writes a seed under a name derived from its bytes; returns false if the file existed already.
fn keep(out: &Path, target: &str, seed: &[u8]) -> Result<bool> {
    let mut crc = Crc::new();
    crc.update(seed);
    let folder = out.join(target);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let path = folder.join(format!("{:08x}-{}", crc.sum(), seed.len()));
    let is_new = !path.exists();
    fs::write(&path, seed).with_context(|| path.display().to_string())?;
    Ok(is_new)
}

/// Targets that a file is for.
fn targets_of(path: &Path) -> Vec<&'static str> {
    let text = path.to_string_lossy();
    if PASSED_OVER.iter().any(|part| text.contains(part)) {
        return Vec::new();
    }
    if let Some((_, target)) = PARTS.iter().find(|(part, _)| text.contains(part)) {
        return vec![target];
    }
    let is_in = |folder: &str| path.components().any(|part| part.as_os_str() == folder);
    // The input of a case has its format's name as extension.
    let is_case =
        |name: &str| text.contains("/cases/") && path.extension().is_some_and(|ending| ending == name);
    let format =
        quipu::FORMATS.iter().map(|format| format.info().name).find(|name| is_in(name) || is_case(name));
    format.map_or_else(Vec::new, targets_of_format)
}

/// The seeds of a file: the file itself if it is short, and its first bytes in each container.
fn seeds_of(path: &Path, pool: &Arc<Pool>) -> Result<Vec<Vec<u8>>> {
    let mut seeds = Vec::new();
    if fs::metadata(path)?.len() <= MAX_BYTES as u64 {
        seeds.push(fs::read(path)?);
    }
    // A file that cannot be inflated gives no further seeds.
    let Ok(head) = Source::open(path).and_then(|source| source.head(HEAD_BYTES)) else { return Ok(seeds) };
    for packing in Packing::ALL {
        let mut packer = Packer::new(Cursor::new(Vec::new()), pool, &PackOptions::new(packing));
        // Two members, in containers that have members.
        for (name, part) in
            ["chunk.0000", "chunk.0001"].iter().zip(head.chunks(head.len().div_ceil(2).max(1)))
        {
            if packing == Packing::Zip {
                packer.member(name)?;
            }
            packer.write(part)?;
        }
        let packed = packer.finish()?.0.into_inner();
        if packed.len() <= MAX_BYTES {
            seeds.push(packed);
        }
    }
    Ok(seeds)
}

/// The files in a folder and below, sorted by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_any_format_is_for_its_own_target() {
        for format in quipu::FORMATS {
            let name = format.info().name;
            assert!(targets_of(&Path::new("traces").join(name).join("some.trace")).contains(&name), "{name}");
        }
        assert_eq!(
            targets_of(Path::new("traces/apitrace/tri.trace")),
            ["apitrace", "source", "apitrace_text"]
        );
        assert_eq!(targets_of(Path::new("samples/modules.log")), ["lists"]);
        assert!(targets_of(Path::new("traces/README.md")).is_empty());
    }
}
