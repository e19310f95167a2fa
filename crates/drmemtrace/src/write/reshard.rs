//! Changes what the files of a trace hold: a thread each, a core each, or all threads in turns.
//!
//! The files of a trace are read together, in the order of their clock readings; the entries between two readings stay
//! together (spec 9). Each such stretch goes to the file of its core, of its thread, or to the only one (spec 10). The order
//! is that of the readings, so files of cores are split exactly if threads changed there at clock readings, as they do in
//! files written here.
//!
//! Files of threads may hold kernel code of context switches from where a core switched to the thread. On the cores made of
//! them, threads switch at other places: at each clock reading and where the thread migrates. There such code would show
//! switches that did not happen, and so it is left out (spec 6.10).
//!
//! | file | what |
//! |---|---|
//! | `input` | one file that is read |
//! | `encodings` | the encodings that each of the files has given |
//! | `output` | the files that are written |

mod encodings;
mod input;
mod output;

use super::known::Known;
use super::rewrite::ChunkRule;
use super::{Progress, Summary, Taken, WriteOptions, judge_opening, with_all_damage};
use crate::record::FileType;
use crate::trace::DrmemTrace;
use encodings::Encodings;
use input::Input;
use output::{Outputs, Target};
use quipu_model::damaged::{Reading, earlier};
use quipu_model::fresh::{Folder, Fresh};
use quipu_model::trace::settled;
use quipu_model::{Error, Result};
use quipu_source::{Pool, Source};
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The content of each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// One thread.
    Threads,
    /// One core, according to the processor markers.
    Cores,
    /// All threads, in a single file.
    Stream,
}

/// Writes a trace again, split in another way: all of its threads, or those in `threads` if it is not empty. The output is a
/// folder, except for [`Sharding::Stream`], which is a file.
///
/// # Errors
/// Errors of reading or writing, and damage of the trace unless `options` keep the output of a damaged source; `Unsupported`
/// for templates and for cores that the trace does not name; `Missing` if the trace has nothing of the threads; `Io` if
/// `progress` cancels it.
pub fn reshard(
    trace: &DrmemTrace,
    source: &Source,
    path: &Path,
    sharding: Sharding,
    threads: &[u64],
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<Summary> {
    trace.check_lone()?;
    let files = trace.files();
    let has = |bits: FileType| files.iter().any(|file| file.header.filetype.any(bits));
    if has(FileType::KERNEL_SYSCALL_TRACE_TEMPLATES) {
        return Err(Error::unsupported("templates of kernel code have no threads"));
    }
    if sharding == Sharding::Cores
        && (has(FileType::CORE_SHARDED) || files.iter().any(|f| f.header.version < 2))
    {
        return Err(Error::unsupported(
            "only files of threads, of version 2 or later, become files of cores",
        ));
    }
    with_all_damage(trace, options, progress, &|_| true, || {
        let pool = options.pool()?;
        let (fresh, target) = match sharding {
            Sharding::Stream => {
                let (fresh, file) = Fresh::file(path, options.replace)?;
                (fresh, Target { folder: Folder::new(PathBuf::new()), only: Some((path.to_owned(), file)) })
            }
            _ => {
                let (fresh, folder) =
                    Fresh::folder(path, options.replace, &super::folder::is_part_of_a_trace)?;
                (fresh, Target { folder, only: None })
            }
        };
        let read = || read_all(trace, target.again()?, sharding, threads, (options, &pool), progress);
        // A cancelled read is an error.
        let (outputs, reading, taken) = settled(trace, || false, read)?;
        let opened = judge_opening(trace, options)?;
        let mut summary = outputs.finish(source, reading.or_doubtful_from(opened))?;
        for file in &mut summary.files {
            file.doubtful_from = earlier(file.doubtful_from, opened);
        }
        summary.taken = taken;
        drop(target);
        fresh.commit()?;
        Ok(summary)
    })
}

/// One read of all files; the output has no name yet.
fn read_all<'o>(
    trace: &DrmemTrace,
    target: Target,
    sharding: Sharding,
    threads: &[u64],
    (options, pool): (&'o WriteOptions, &Arc<Pool>),
    progress: &dyn Progress,
) -> Result<(Outputs<'o>, Reading, Taken)> {
    let files = trace.files();
    let mut inputs = (0..files.len()).map(|shard| Input::new(trace, shard)).collect::<Result<Vec<_>>>()?;
    let known = if Known::is_needed(files) { Some(Known::collect(trace, pool, progress)?) } else { None };
    let header = &files[0].header;
    let mut rule = options.chunk_rule(header);
    if sharding == Sharding::Stream {
        // Chunks do not repeat which thread runs: several threads are one chunk.
        rule = ChunkRule { instrs: 0, marker: None, insert: false };
    }
    let mut outputs = Outputs {
        target,
        sharding,
        rule,
        options,
        pool: pool.clone(),
        stem: stem(files[0].container.source()),
        version: header.version,
        threads: threads.iter().copied().collect::<FxHashSet<u64>>(),
        is_of_cores: files.iter().any(|file| file.header.filetype.any(FileType::CORE_SHARDED)),
        known,
        encodings: Encodings::default(),
        open: Default::default(),
        last_core: Default::default(),
        is_doubtful: false,
        is_pipe: files.iter().any(|file| !file.container.source().can_seek()),
    };
    let mut intake = options.intake();
    for input in &mut inputs {
        input.fill(&mut outputs, progress, &mut intake)?;
    }
    // The next in time; of equals, the first.
    let later = |input: &mut Input, i: usize| (!input.is_done()).then(|| Reverse((input.time(), i)));
    let mut waiting: BinaryHeap<_> =
        inputs.iter_mut().enumerate().filter_map(|(i, input)| later(input, i)).collect();
    while let Some(Reverse((_, i))) = waiting.pop() {
        inputs[i].run_stretch(&mut outputs, progress, &mut intake)?;
        match later(&mut inputs[i], i) {
            Some(next) => waiting.push(next),
            None => inputs[i].rest(),
        }
    }
    for input in &mut inputs {
        input.end(&mut outputs)?;
    }
    let taken = inputs.iter().fold(Taken::default(), |sum, input| sum.plus(input.taken));
    Ok((outputs, intake.finish(), taken))
}

/// The name of the traced program's files without thread and ending: `drmemtrace.threadsig`. Files of cores do not contain
/// the program's name.
fn stem(source: &Source) -> String {
    let name = crate::listing::file_name(source);
    if name.starts_with("drmemtrace.core.") {
        return "drmemtrace.thread".to_owned();
    }
    name.split('.')
        .take_while(|part| !part.bytes().all(|byte| byte.is_ascii_digit()))
        .take(2)
        .collect::<Vec<_>>()
        .join(".")
}
