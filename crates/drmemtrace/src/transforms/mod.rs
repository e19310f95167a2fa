//! Transforms of traces of this format: another container, a part, fewer records, or files split differently.
//!
//! [`crate::edits`] decides entry by entry, [`crate::write`] makes files; here the options of each verb select both.

mod convert;
mod filter;
mod shown;
mod trim;

pub use convert::{Convert, Merge, Split};
pub use filter::FilterTransform;
pub use trim::TrimTransform;

use crate::trace::{self, DrmemTrace};
use crate::write::{self, EntryEdit, Framed, Replace, Sharding, WriteOptions};
use quipu_model::options::Kind;
use quipu_model::transform::{Progress, Transform, TransformJob, Transformed, packing_for};
use quipu_model::{Error, OptionSpec, Result, ShardKind, Trace};
use quipu_source::Packing;
use std::path::Path;
use std::sync::Arc;

/// All transforms of the format.
pub static TRANSFORMS: &[&dyn Transform] = &[&Convert, &TrimTransform, &FilterTransform, &Split, &Merge];

/// The heading of options about the output.
const WRITING: &str = "Writing";

/// Option: length of chunks.
pub(crate) const CHUNK_INSTRS: OptionSpec = OptionSpec::new(
    "chunk-instrs",
    Kind::Count,
    "",
    "instructions in each chunk of a zip archive; by default as in the source",
)
.group(WRITING);

/// A rewrite of a trace.
struct Work<'a> {
    job: &'a TransformJob<'a>,
    trace: DrmemTrace,
    progress: &'a dyn Progress,
}

impl<'a> Work<'a> {
    /// Opens the trace of a job.
    fn begin(job: &'a TransformJob<'a>, progress: &'a dyn Progress) -> Result<Work<'a>> {
        let trace = trace::open(job.source, job.opening)?;
        progress.expect(trace.meta().packed_bytes);
        Ok(Work { job, trace, progress })
    }

    /// True if each file holds one thread.
    fn has_files_of_threads(&self) -> bool {
        self.trace.shards().iter().all(|shard| shard.kind == ShardKind::Thread)
    }

    /// Options for writing. The packing is the requested one, otherwise the one that the name of a single file implies,
    /// otherwise that of the source.
    fn options(&self) -> Result<WriteOptions> {
        let job = self.job;
        let chunk_instrs = job.options.number(&CHUNK_INSTRS);
        if chunk_instrs == Some(0) {
            return Err(Error::usage("option `chunk-instrs`: a chunk holds at least one instruction"));
        }
        let by_name = || (!job.source.is_folder()).then(|| named_packing(job.output)).flatten();
        let usual = || by_name().unwrap_or_else(|| write::same_packing(&self.trace)).name();
        let container = job.container.unwrap_or_else(usual);
        Ok(WriteOptions {
            pack: packing_for(Some(container), job.level, job.output)?,
            chunk_instrs,
            threads: job.threads,
            strict: job.strict,
            damaged: job.damaged,
            replace: if job.replace { Replace::Allowed } else { Replace::Never },
            version: None,
        })
    }

    /// Rejects a folder name that implies a container other than that of its files.
    fn refuse_misleading_name(&self, packing: Packing) -> Result<()> {
        let job = self.job;
        let is_free = job.source.is_folder() && job.container.is_none();
        match named_packing(job.output).filter(|named| is_free && *named != packing) {
            None => Ok(()),
            Some(named) => {
                let what = format!("`{}` is to be a folder, and is named like a file", job.output.display());
                let hint = format!("say --container {} for its files, or name it otherwise", named.name());
                Err(Error::usage(what).hint(hint))
            }
        }
    }

    /// Rewrites the files of the trace.
    fn rewrite<E: EntryEdit>(
        &self,
        options: &WriteOptions,
        edit_of: &(dyn Fn(usize) -> Option<E> + Sync),
    ) -> Result<Transformed> {
        self.refuse_misleading_name(options.pack.packing)?;
        let job = self.job;
        let summary = write::rewrite(&self.trace, job.source, job.output, options, edit_of, self.progress)?;
        Ok(shown::transformed(&self.trace, summary))
    }

    /// Rewrites the selected threads, of files that hold one or several. With `needs_instrs`, threads with no instruction
    /// left are omitted.
    fn rewrite_threads<E: EntryEdit>(
        &self,
        options: &WriteOptions,
        edit_of: &(dyn Fn(usize) -> Option<E> + Sync),
        needs_instrs: bool,
    ) -> Result<Transformed> {
        let threads = self.job.opening.threads.iter().map(|thread| thread.packed());
        let threads: write::Threads = Arc::new(threads.collect());
        let framed = |shard: usize| {
            let header = &self.trace.files().get(shard)?.header;
            Some(Framed::new(edit_of(shard)?, header, threads.clone(), needs_instrs))
        };
        self.rewrite(options, &framed)
    }

    /// Writes the trace again with another sharding.
    fn reshard(&self, sharding: Sharding) -> Result<Transformed> {
        let job = self.job;
        let mut options = self.options()?;
        let threads: Vec<u64> = job.opening.threads.iter().map(|thread| thread.packed()).collect();
        if sharding != Sharding::Stream {
            self.refuse_misleading_name(options.pack.packing)?;
        } else if job.container.is_none()
            && let Some(packing) = named_packing(job.output)
        {
            options.pack.packing = packing;
        }
        let (trace, source) = (&self.trace, job.source);
        let summary = write::reshard(trace, source, job.output, sharding, &threads, &options, self.progress)?;
        Ok(shown::transformed(trace, summary))
    }
}

/// The packing that the name of a file implies.
fn named_packing(path: &Path) -> Option<Packing> {
    Packing::of_file_name(&path.file_name()?.to_string_lossy())
}
