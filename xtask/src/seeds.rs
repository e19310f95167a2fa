//! Short seeds for the fuzz targets, made of the traces of the repository and of folders of samples.
//!
//! Fuzzers change a few bytes at a time and run thousands of inputs a second if those are short, so a seed is a whole file
//! that is short, or what a long one begins with, in each container that can be written. What begins a trace tells its
//! version and kind, and whatever is cut is found cut, which is no loss here.

use crate::dtrace_seeds;
use anyhow::{Context, Result};
use flate2::Crc;
use quipu::source::{PackOptions, Packer, Packing, Pool, Source};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// No seed is larger.
const MAX_BYTES: usize = 4 << 10;
/// How much of a long file is taken, inflated: a multiple of the sizes of entries, 12 and 32 bytes.
const HEAD_BYTES: usize = 1920;

/// Where the seeds are to be written, and what they are made of.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder that gets a folder for each target; `fuzz/corpus` if not said
    #[arg(long)]
    out: Option<PathBuf>,
    /// Write nothing; print the names of all targets
    #[arg(long)]
    targets: bool,
    /// Further folders of samples; their files are taken for what the names of the folders within say
    samples: Vec<PathBuf>,
}

/// What lies in the folder of a format is for the target of its name, for these, and for [`OF_ACCESSES`].
const MORE: &[(&str, &[&str])] =
    &[("drmemtrace", &["source", "check", "rewrite"]), ("apitrace", &["source", "apitrace_text"])];

/// The program that formats without one of their own share.
const OF_FORMATS: &str = "format";

/// Targets for every format whose traces may have accesses to memory.
const OF_ACCESSES: &[&str] = &["convert", "simulate"];

/// Formats whose traces have none.
const WITHOUT_ACCESSES: &[&str] = &["apitrace"];

/// The targets that the folder of a format is for.
fn targets_of_format(name: &'static str) -> Vec<&'static str> {
    let more = MORE.iter().filter(|(folder, _)| *folder == name).flat_map(|(_, targets)| targets.iter());
    let of_accesses = OF_ACCESSES.iter().filter(|_| !WITHOUT_ACCESSES.contains(&name));
    [name].into_iter().chain(more.copied()).chain(of_accesses.copied()).collect()
}

/// Files with such a part in their path are for another target, whatever the folder.
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

/// What holds words about traces, and none.
const PASSED_OVER: &[&str] = &["/golden", "README", "LICENSE", "facts.json", "tracecheck.txt", ".c.txt"];

/// Writes the seeds and says how many there are.
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
    // What was kept by hand, and by earlier runs.
    for path in files(&root.join("fuzz/seeds"))? {
        let target =
            path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        n_seeds += usize::from(keep(&out, &target, &fs::read(&path)?)?);
    }
    println!("{n_seeds} seeds in {}", out.display());
    Ok(())
}

/// The programs that are targets, and the formats that have none of their own.
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

/// Writes a seed under a name that its bytes give it; false if it was there.
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

/// The targets that a file is for.
fn targets_of(path: &Path) -> Vec<&'static str> {
    let text = path.to_string_lossy();
    if PASSED_OVER.iter().any(|part| text.contains(part)) {
        return Vec::new();
    }
    if let Some((_, target)) = PARTS.iter().find(|(part, _)| text.contains(part)) {
        return vec![target];
    }
    let is_in = |folder: &str| path.components().any(|part| part.as_os_str() == folder);
    // The input of a case has its format's name for an ending.
    let is_case =
        |name: &str| text.contains("/cases/") && path.extension().is_some_and(|ending| ending == name);
    let format =
        quipu::FORMATS.iter().map(|format| format.info().name).find(|name| is_in(name) || is_case(name));
    format.map_or_else(Vec::new, targets_of_format)
}

/// The file itself if it is short, and its first bytes in each container.
fn seeds_of(path: &Path, pool: &Arc<Pool>) -> Result<Vec<Vec<u8>>> {
    let mut seeds = Vec::new();
    if fs::metadata(path)?.len() <= MAX_BYTES as u64 {
        seeds.push(fs::read(path)?);
    }
    // What cannot be inflated is a seed as it is, or none.
    let Ok(head) = Source::open(path).and_then(|source| source.head(HEAD_BYTES)) else { return Ok(seeds) };
    for packing in Packing::ALL {
        let mut packer = Packer::new(Cursor::new(Vec::new()), pool, &PackOptions::new(packing));
        // Two members, where there are members.
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

/// The files in a folder and below, in the order of their names.
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
