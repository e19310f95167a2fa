//! `convert`, `split` and `merge`: the same entries in another container, in other chunks, or in files split differently.

use super::{CHUNK_INSTRS, WRITING, Work};
use crate::write::{NoEdit, Sharding};
use quipu_model::options::Kind;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, OptionSpec, Result};

/// Option: whether each file holds a thread or a core.
const SHARDING: OptionSpec = OptionSpec::new(
    "sharding",
    Kind::Choice(&["threads", "cores"]),
    "",
    "one file for each thread, or for each core with the turns of threads as recorded; by default as in the source",
)
.value("WHAT")
.group(WRITING);

/// Option: the version to write.
const FORMAT_VERSION: OptionSpec = OptionSpec::new(
    "format-version",
    Kind::Choice(&["2", "3", "4", "5", "6", "7", "source"]),
    "source",
    "version of the format: later than the source's, at most 7, if the trace has the information that it needs",
)
.value("2..7|source")
.group(WRITING);

/// Writes the same trace in another container, in other chunks, as a later version, or as files of cores.
#[derive(Debug)]
pub struct Convert;

static CONVERT: TransformInfo = TransformInfo {
    name: "convert",
    title: "the same entries in another container, in other chunks or files",
    options: &[SHARDING, FORMAT_VERSION, CHUNK_INSTRS],
};

impl Transform for Convert {
    fn info(&self) -> &'static TransformInfo {
        &CONVERT
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let version: Option<u64> = job.options.word(&FORMAT_VERSION).parse().ok();
        let sharding = match job.options.text(&SHARDING) {
            Some("cores") => Some(Sharding::Cores),
            Some(_) => Some(Sharding::Threads),
            None => None,
        };
        let work = Work::begin(job, progress)?;
        if let Some(sharding) = sharding {
            if version.is_some() {
                return Err(Error::usage("`format-version` and `sharding`: one at a time")
                    .hint("raise the version first, then split what was written"));
            }
            return work.reshard(sharding);
        }
        let mut options = work.options()?;
        options.version = version;
        if job.opening.threads.is_empty() || work.has_files_of_threads() {
            return work.rewrite(&options, &|_| Some(NoEdit));
        }
        work.rewrite_threads(&options, &|_| Some(NoEdit), false)
    }
}

/// Writes one file for each thread.
#[derive(Debug)]
pub struct Split;

static SPLIT: TransformInfo =
    TransformInfo { name: "split", title: "a file for each thread", options: &[CHUNK_INSTRS] };

impl Transform for Split {
    fn info(&self) -> &'static TransformInfo {
        &SPLIT
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        Work::begin(job, progress)?.reshard(Sharding::Threads)
    }
}

/// Writes one file, in which all threads take turns.
#[derive(Debug)]
pub struct Merge;

static MERGE: TransformInfo = TransformInfo {
    name: "merge",
    title: "one file in which all threads take turns",
    options: &[CHUNK_INSTRS],
};

impl Transform for Merge {
    fn info(&self) -> &'static TransformInfo {
        &MERGE
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        Work::begin(job, progress)?.reshard(Sharding::Stream)
    }
}
