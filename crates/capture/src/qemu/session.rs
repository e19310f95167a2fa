//! One recording: state shared by all of its threads, names of their files, and the summary.

use super::code::Blocks;
use super::functions::Functions;
use super::modules::{Mapping, Modules};
use super::process::Process;
use crate::limits::Gate;
use crate::program::Machine;
use quipu_drmemtrace::write::threads::{Written, renamed, write_schedules};
use quipu_model::fresh::{Folder, cannot};
use quipu_model::{Finding, Result};
use quipu_source::{PackOptions, Pool};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State shared by the threads of a recording.
pub(crate) struct Session {
    pub(crate) machine: Machine,
    /// Name of the program.
    pub(crate) app: String,
    /// The folder to create.
    pub(crate) folder: Folder,
    /// Whether each process has a folder of its own in it.
    pub(crate) is_split: bool,
    pub(crate) pool: Arc<Pool>,
    pub(crate) pack: PackOptions,
    pub(crate) gate: Gate,
    pub(crate) blocks: Blocks,
    /// The function at which counting starts, if one was requested.
    pub(crate) start_at: Option<Functions>,
    /// Process id of the program, and whether it has ended.
    pub(crate) main_pid: u32,
    pub(crate) is_done: AtomicBool,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    processes: FxHashMap<Image, Arc<Process>>,
    /// Folders in use, relative to that of the recording.
    folders: Vec<PathBuf>,
    /// Number of files per thread.
    files: FxHashMap<(Image, u64), u32>,
    results: Vec<ThreadResult>,
    /// The files of code of each program, by its number. The forks of a program share them.
    modules: FxHashMap<u64, Modules>,
    /// The mappings, with numbers of programs, whose files were read. The plugin reports all of them again after memory was
    /// unmapped.
    noted: FxHashSet<(u32, Mapping)>,
}

/// A program in a process; after `exec`, the same process runs another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Image {
    pub(crate) pid: u32,
    /// Number of the program in its process: 0 for the first, larger for later ones.
    pub(crate) number: u64,
}

/// Result of one thread.
pub(crate) struct ThreadResult {
    pub(crate) process: Arc<Process>,
    pub(crate) written: Written,
    /// Whether the thread ended in `exec`.
    pub(crate) has_left: bool,
}

/// Summary of one process.
#[derive(Clone, Debug)]
pub struct ProcessSummary {
    /// Process id.
    pub pid: u32,
    /// The program's name.
    pub name: String,
    /// Path of its trace: a file or a folder.
    pub path: PathBuf,
    /// Threads that executed at least one instruction.
    pub threads: u64,
    /// Instructions of all threads.
    pub instrs: u64,
    /// Records of all threads.
    pub records: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Whether it continued as another program.
    pub next: Next,
    /// Number of its children that were not recorded.
    pub children_left_out: u64,
}

impl ProcessSummary {
    /// Prepends the folder of the recording to the path, which is relative to it so far.
    pub(crate) fn lies_in(mut self, recording: &Path) -> ProcessSummary {
        // Joining an empty path would append a slash.
        let inner = self.path.as_os_str();
        self.path = if inner.is_empty() { recording.to_owned() } else { recording.join(inner) };
        self
    }
}

/// What happens to a process when its program ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// The process ends.
    #[default]
    Nothing,
    /// It continues as another program that is recorded, too.
    Recorded,
    /// It continues as another program that is not recorded.
    Unrecorded,
}

impl Session {
    pub(crate) fn new(
        machine: Machine,
        app: &str,
        folder: Folder,
        pool: Arc<Pool>,
        pack: PackOptions,
        gate: Gate,
    ) -> Session {
        Session {
            machine,
            app: app.to_owned(),
            folder,
            is_split: false,
            pool,
            pack,
            gate,
            blocks: Blocks::default(),
            start_at: None,
            main_pid: 0,
            is_done: AtomicBool::new(false),
            shared: Mutex::default(),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of `image`. If it is new, it starts as a fork of `parent` if that is known. Only the first program may
    /// have an empty name.
    pub(crate) fn process(&self, image: Image, parent: u32, name: &str) -> Arc<Process> {
        let mut shared = self.shared();
        if let Some(process) = shared.processes.get(&image) {
            return process.clone();
        }
        let name = if name.is_empty() { &self.app } else { name };
        let folder = self.new_folder(&mut shared, image, name);
        let parent = shared.processes.get(&Image { pid: parent, ..image });
        let process = Arc::new(match parent {
            Some(parent) => parent.fork(image, name, folder),
            None => Process::new(image, name, folder),
        });
        shared.processes.insert(image, process.clone());
        process
    }

    /// An unused folder for a program, relative to that of the recording: that folder itself for the first program, unless
    /// each process has its own.
    fn new_folder(&self, shared: &mut Shared, image: Image, name: &str) -> PathBuf {
        if !self.is_split && image == (Image { pid: self.main_pid, number: 0 }) {
            return PathBuf::new();
        }
        let mut names = (0..).map(|n| PathBuf::from(format!("drmemtrace.{name}.{}.{n:04}.dir", image.pid)));
        let folder = names.find(|name| !shared.folders.contains(name)).unwrap_or_default();
        shared.folders.push(folder.clone());
        folder
    }

    /// Whether the process has ended, so that no more words arrive from it.
    pub(crate) fn is_gone(&self, pid: u32) -> bool {
        if pid == self.main_pid {
            return self.is_done.load(Ordering::Acquire);
        }
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
        // The state follows the name, which may contain any characters.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, None | Some('Z' | 'X'))
    }

    /// An unused file name for a thread; creates its folder.
    ///
    /// # Errors
    /// `Io` if the folder cannot be created.
    pub(crate) fn file_of(&self, process: &Process, tid: u64) -> Result<PathBuf> {
        let number = {
            let mut shared = self.shared();
            let number = shared.files.entry((process.image, tid)).or_default();
            *number += 1;
            *number - 1
        };
        let folder = self.folder.join(&process.folder).join("trace");
        std::fs::create_dir_all(&folder).map_err(|cause| cannot("create", &folder, cause))?;
        let name = format!("drmemtrace.{}.{tid}.{number:04}.trace", process.name);
        Ok(folder.join(renamed(&name, self.pack.packing)))
    }

    /// Notes a mapping of code of the program with this number.
    pub(crate) fn note_code(&self, program: u32, mapping: &Mapping) {
        if !self.shared().noted.insert((program, mapping.clone())) {
            return;
        }
        // The file is read before the lock is taken again.
        if let Some(base) = mapping.base() {
            self.shared().modules.entry(program.into()).or_default().add(base, mapping);
        }
    }

    /// Adds the result of a thread.
    pub(crate) fn note(&self, result: ThreadResult) {
        self.shared().results.push(result);
    }

    /// Writes the files that accompany those of threads, and returns a summary per process.
    ///
    /// # Errors
    /// `Io` if they cannot be written.
    pub(crate) fn finish(&self) -> Result<(Vec<ProcessSummary>, Vec<Finding>)> {
        let (mut results, modules) = {
            let mut shared = self.shared();
            (std::mem::take(&mut shared.results), std::mem::take(&mut shared.modules))
        };
        results.sort_by_key(|result| {
            let Image { pid, number } = result.process.image;
            (pid != self.main_pid, pid, number)
        });
        let (mut summaries, mut findings) = (Vec::<ProcessSummary>::new(), Vec::new());
        let all: Vec<Image> = results.iter().map(|result| result.process.image).collect();
        for threads in results.chunk_by_mut(|one, other| one.process.image == other.process.image) {
            let Some(process) = threads.first().map(|result| result.process.clone()) else { continue };
            let Image { pid, number } = process.image;
            let mut summary = ProcessSummary {
                pid,
                name: process.name.clone(),
                path: process.folder.clone(),
                threads: threads.len() as u64,
                instrs: 0,
                records: 0,
                bytes: 0,
                next: Next::Nothing,
                children_left_out: if self.is_split { 0 } else { process.n_children() },
            };
            let mut schedules = Vec::new();
            for result in threads {
                summary.instrs += result.written.counts.instrs;
                summary.records += result.written.counts.records;
                summary.bytes += result.written.packed_bytes;
                if result.has_left {
                    let is_recorded = all.iter().any(|image| image.pid == pid && image.number > number);
                    summary.next = if is_recorded { Next::Recorded } else { Next::Unrecorded };
                }
                schedules.push(std::mem::take(&mut result.written.schedule));
            }
            let folder = self.folder.within(&process.folder);
            findings.extend(write_schedules(&folder.within("trace"), schedules, &self.pool)?);
            if let Some(modules) = modules.get(&number) {
                modules.write(&process.name, &folder.within("aux"))?;
            }
            summaries.push(summary);
        }
        Ok((summaries, findings))
    }
}
