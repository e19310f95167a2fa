//! One recording: what all of its threads share, where their files go, and what came of it.

use super::code::Blocks;
use super::process::Process;
use crate::limits::Gate;
use crate::program::Machine;
use quipu_drmemtrace::write::threads::{Written, renamed, write_schedules};
use quipu_model::fresh::cannot;
use quipu_model::{Finding, Result};
use quipu_source::{PackOptions, Pool};
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the threads of a recording share.
pub(crate) struct Session {
    pub(crate) machine: Machine,
    /// Name of the program.
    pub(crate) app: String,
    /// The folder that is made.
    pub(crate) folder: PathBuf,
    /// Each process has a folder of its own in it.
    pub(crate) is_split: bool,
    pub(crate) pool: Arc<Pool>,
    pub(crate) pack: PackOptions,
    pub(crate) gate: Gate,
    pub(crate) blocks: Blocks,
    /// Address of the function with which counting begins, relative to where the program's code begins.
    pub(crate) start_offset: Option<u64>,
    /// The program's process, and whether it has ended.
    pub(crate) main_pid: u32,
    pub(crate) is_done: AtomicBool,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    processes: FxHashMap<u32, Arc<Process>>,
    /// How many files there are of each thread's number.
    files: FxHashMap<(u32, u64), u32>,
    results: Vec<ThreadResult>,
}

/// What came of one thread.
pub(crate) struct ThreadResult {
    pub(crate) pid: u32,
    pub(crate) written: Written,
    /// It went on as another program.
    pub(crate) has_left: bool,
}

/// What came of one process.
#[derive(Clone, Debug)]
pub struct ProcessSummary {
    /// Its number.
    pub pid: u32,
    /// Its folder, from that of the recording on; empty if that is it.
    pub folder: PathBuf,
    /// Threads that executed something.
    pub threads: u64,
    /// Instructions of all of them.
    pub instrs: u64,
    /// Records of all of them.
    pub records: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// It went on as another program, which is not recorded.
    pub has_left: bool,
}

impl Session {
    pub(crate) fn new(
        machine: Machine,
        app: &str,
        folder: PathBuf,
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
            start_offset: None,
            main_pid: 0,
            is_done: AtomicBool::new(false),
            shared: Mutex::default(),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of this number, which is a fork of `parent` if it is new and that is known.
    pub(crate) fn process(&self, pid: u32, parent: u32) -> Arc<Process> {
        let mut shared = self.shared();
        if let Some(process) = shared.processes.get(&pid) {
            return process.clone();
        }
        let process = shared.processes.get(&parent).map_or_else(Process::default, |parent| parent.fork());
        let process = Arc::new(process);
        shared.processes.insert(pid, process.clone());
        process
    }

    /// True if the process has ended, so that nothing more comes of it.
    pub(crate) fn is_gone(&self, pid: u32) -> bool {
        if pid == self.main_pid {
            return self.is_done.load(Ordering::Acquire);
        }
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
        // The state stands behind the name, which may have any characters.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, None | Some('Z' | 'X'))
    }

    /// The folder of a process, from that of the recording on.
    fn folder_of(&self, pid: u32) -> PathBuf {
        if self.is_split {
            PathBuf::from(format!("drmemtrace.{}.{pid}.0000.dir", self.app))
        } else {
            PathBuf::new()
        }
    }

    /// A name for the file of a thread that nothing has yet; its folder is there.
    ///
    /// # Errors
    /// `Io` if the folder cannot be made.
    pub(crate) fn file_of(&self, pid: u32, tid: u64) -> Result<PathBuf> {
        let number = {
            let mut shared = self.shared();
            let number = shared.files.entry((pid, tid)).or_default();
            *number += 1;
            *number - 1
        };
        let folder = self.folder.join(self.folder_of(pid)).join("trace");
        std::fs::create_dir_all(&folder).map_err(|cause| cannot("create", &folder, cause))?;
        let name = format!("drmemtrace.{}.{tid}.{number:04}.trace", self.app);
        Ok(folder.join(renamed(&name, self.pack.packing)))
    }

    /// Notes what came of a thread.
    pub(crate) fn note(&self, result: ThreadResult) {
        self.shared().results.push(result);
    }

    /// Writes what lies beside the files of threads, and sums up, process by process.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub(crate) fn finish(&self) -> Result<(Vec<ProcessSummary>, Vec<Finding>)> {
        let mut results = std::mem::take(&mut self.shared().results);
        results.sort_by_key(|result| (result.pid != self.main_pid, result.pid));
        let (mut summaries, mut findings) = (Vec::<ProcessSummary>::new(), Vec::new());
        for process in results.chunk_by_mut(|one, other| one.pid == other.pid) {
            let pid = process.first().map_or(0, |result| result.pid);
            let folder = self.folder_of(pid);
            let mut summary = ProcessSummary {
                pid,
                folder: folder.clone(),
                threads: process.len() as u64,
                instrs: 0,
                records: 0,
                bytes: 0,
                has_left: false,
            };
            let mut schedules = Vec::new();
            for result in process {
                summary.instrs += result.written.counts.instrs;
                summary.records += result.written.counts.records;
                summary.bytes += result.written.packed_bytes;
                summary.has_left |= result.has_left;
                schedules.push(std::mem::take(&mut result.written.schedule));
            }
            findings.extend(write_schedules(
                &self.folder.join(&folder).join("trace"),
                schedules,
                &self.pool,
            )?);
            summaries.push(summary);
        }
        Ok((summaries, findings))
    }
}
