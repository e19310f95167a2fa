//! One recording: state shared by all of its threads, names of their files, and the summary.

use super::code::Blocks;
use super::functions::{Functions, addresses_of, functions_of};
use super::modules::{Mapping, Modules};
use super::order::Order;
use super::process::Process;
use crate::limits::Gate;
use crate::program::Machine;
use quipu_drmemtrace::write::threads::{Written, renamed, write_schedules};
use quipu_model::fresh::{Folder, cannot};
use quipu_model::{Columns, Finding, Result};
use quipu_prism::observed::{Functions as NamedFunctions, Module, Observed};
use quipu_source::{PackOptions, Packing, Pool};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The destination of a recording.
pub(crate) enum Store {
    /// A file for each thread.
    Files { folder: Folder, pool: Arc<Pool>, pack: PackOptions },
    /// Events, which are made at once, of these columns.
    Events { order: Box<Order>, columns: Columns, wants_functions: bool },
}

/// State shared by the threads of a recording.
pub(crate) struct Session {
    pub(crate) machine: Machine,
    /// Name of the program.
    pub(crate) app: String,
    pub(crate) store: Store,
    /// Whether each process has a folder of its own, because children are recorded, too.
    pub(crate) is_split: bool,
    pub(crate) gate: Gate,
    pub(crate) blocks: Blocks,
    /// The function at which counting starts, if one was requested.
    pub(crate) start_at: Option<Functions>,
    /// The function at which recording stops, if one was requested.
    pub(crate) stop_at: Option<Functions>,
    /// Process id of the program, and whether it has ended.
    pub(crate) main_pid: u32,
    pub(crate) is_done: AtomicBool,
    /// Number of streams of rows so far.
    n_shards: AtomicU32,
    /// Number of instructions that the program's threads did not report, for want of room.
    n_dropped: AtomicU64,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    processes: FxHashMap<Image, Arc<Process>>,
    /// Numbers of programs, in order of appearance.
    numbers: FxHashMap<Image, u16>,
    /// Functions of the files that were looked at.
    functions: FxHashMap<PathBuf, NamedFunctions>,
    /// Folders in use, relative to that of the recording.
    folders: Vec<PathBuf>,
    /// Number of files per thread.
    files: FxHashMap<(Image, u64), u32>,
    results: Vec<ThreadResult>,
    /// The files of code of each program, by its number. The forks of a program share them.
    modules: FxHashMap<u64, Modules>,
    /// The mappings, with numbers of programs, whose files were read. The plugin reports all of them again after memory was
    /// unmapped.
    noted: FxHashSet<(u64, Mapping)>,
}

impl Shared {
    fn number(&mut self, image: Image) -> u16 {
        let next = u16::try_from(self.numbers.len()).unwrap_or(u16::MAX);
        *self.numbers.entry(image).or_insert(next)
    }
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
    /// The file; `None` if there are events instead.
    pub(crate) written: Option<Written>,
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
    pub(crate) fn new(machine: Machine, app: &str, store: Store, gate: Gate) -> Session {
        Session {
            machine,
            app: app.to_owned(),
            store,
            is_split: false,
            gate,
            blocks: Blocks::default(),
            start_at: None,
            stop_at: None,
            main_pid: 0,
            is_done: AtomicBool::new(false),
            n_shards: AtomicU32::new(0),
            n_dropped: AtomicU64::new(0),
            shared: Mutex::default(),
        }
    }

    /// Whether the plugin reports accesses.
    pub(crate) fn has_accesses(&self) -> bool {
        match &self.store {
            Store::Files { .. } => true,
            Store::Events { columns, .. } => columns.has(Columns::ACCESSES),
        }
    }

    /// A number for a stream of rows.
    pub(crate) fn next_shard(&self) -> u32 {
        self.n_shards.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts instructions that a thread did not report.
    pub(crate) fn lose(&self, n: u64) {
        self.n_dropped.fetch_add(n, Ordering::Relaxed);
    }

    /// Number of instructions that threads did not report.
    pub(crate) fn n_dropped(&self) -> u64 {
        self.n_dropped.load(Ordering::Relaxed)
    }

    /// Ends a recording of events; `None` if it is one of files.
    ///
    /// # Errors
    /// Errors of the events' destination.
    pub(crate) fn into_observed(self) -> Result<Option<Observed>> {
        match self.store {
            Store::Files { .. } => Ok(None),
            Store::Events { order, .. } => order.finish().map(Some),
        }
    }

    /// The number of a program in the recording. Of more than 65536 programs, the last ones share a number.
    pub(crate) fn number(&self, image: Image) -> u16 {
        self.shared().number(image)
    }

    /// Notes code of a program that is about to be executed for the first time.
    pub(crate) fn map(&self, image: Image, mapping: &Mapping) {
        if let Some(pc) = self.start_at.as_ref().and_then(|functions| functions.find(mapping)) {
            self.gate.start_at(pc);
        }
        for (name, code) in self.gate.names().enumerate() {
            for addresses in addresses_of(code, mapping) {
                self.gate.note(addresses, name);
            }
        }
        if let Some(pc) = self.stop_at.as_ref().and_then(|functions| functions.find(mapping)) {
            self.gate.stop_at(pc);
        }
        match &self.store {
            Store::Files { .. } => {
                if !self.shared().noted.insert((image.number, mapping.clone())) {
                    return;
                }
                // The file is read before the lock is taken again.
                if let Some(base) = mapping.base() {
                    self.shared().modules.entry(image.number).or_default().add(base, mapping);
                }
            }
            Store::Events { order, wants_functions: true, .. } => {
                let Mapping { start, end, offset, path } = mapping;
                let mut shared = self.shared();
                let functions =
                    shared.functions.entry(path.clone()).or_insert_with(|| functions_of(path)).clone();
                let program = shared.number(image);
                drop(shared);
                let module = Module { addresses: *start..*end, offset: *offset, functions };
                order.with(|observed| observed.add_module(program, module));
            }
            Store::Events { .. } => {}
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
        let parent = shared.processes.get(&Image { pid: parent, ..image }).cloned();
        if let (Some(parent), Store::Events { order, .. }) = (&parent, &self.store) {
            let (from, to) = (shared.number(parent.image), shared.number(image));
            order.with(|observed| observed.fork(from, to));
        }
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

    /// An unused file name for a thread in the folder of the recording; creates its folder.
    ///
    /// # Errors
    /// `Io` if the folder cannot be created.
    pub(crate) fn file_of(
        &self,
        folder: &Folder,
        packing: Packing,
        process: &Process,
        tid: u64,
    ) -> Result<PathBuf> {
        let number = {
            let mut shared = self.shared();
            let number = shared.files.entry((process.image, tid)).or_default();
            *number += 1;
            *number - 1
        };
        let folder = folder.join(&process.folder).join("trace");
        std::fs::create_dir_all(&folder).map_err(|cause| cannot("create", &folder, cause))?;
        let name = format!("drmemtrace.{}.{tid}.{number:04}.trace", process.name);
        Ok(folder.join(renamed(&name, packing)))
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
                if let Some(written) = &mut result.written {
                    summary.instrs += written.counts.instrs;
                    summary.records += written.counts.records;
                    summary.bytes += written.packed_bytes;
                    schedules.push(std::mem::take(&mut written.schedule));
                }
                if result.has_left {
                    let is_recorded = all.iter().any(|image| image.pid == pid && image.number > number);
                    summary.next = if is_recorded { Next::Recorded } else { Next::Unrecorded };
                }
            }
            if let Store::Files { folder, pool, .. } = &self.store {
                let folder = folder.within(&process.folder);
                findings.extend(write_schedules(&folder.within("trace"), schedules, pool)?);
                if let Some(modules) = modules.get(&number) {
                    modules.write(&process.name, &folder.within("aux"))?;
                }
            }
            summaries.push(summary);
        }
        Ok((summaries, findings))
    }
}
