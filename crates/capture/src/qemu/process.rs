//! State shared by the threads of a process: its name, folder and signal handlers.

use super::session::Image;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// Values of a handler that are not addresses: the default action, and to ignore the signal.
const NO_HANDLERS: std::ops::RangeInclusive<u64> = 0..=1;

/// A process, from the start of a program to the next `exec`.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) image: Image,
    /// The program's name.
    pub(crate) name: String,
    /// Its folder, relative to that of the recording.
    pub(crate) folder: PathBuf,
    /// Signals of each handler, as a bit set: bit n for signal n.
    handlers: RwLock<FxHashMap<u64, u64>>,
    /// Incremented whenever a handler is registered; 0 if there are none.
    version: AtomicU64,
    /// Number of processes that it started.
    n_children: AtomicU64,
}

impl Process {
    pub(crate) fn new(image: Image, name: &str, folder: PathBuf) -> Process {
        let (handlers, version, n_children) = (RwLock::default(), AtomicU64::new(0), AtomicU64::new(0));
        Process { image, name: name.to_owned(), folder, handlers, version, n_children }
    }

    /// A fork of this process, with the same handlers.
    pub(crate) fn fork(&self, image: Image, name: &str, folder: PathBuf) -> Process {
        let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner).clone();
        let version = AtomicU64::new(u64::from(!handlers.is_empty()));
        Process { version, handlers: RwLock::new(handlers), ..Process::new(image, name, folder) }
    }

    /// Counts a process that it started.
    pub(crate) fn beget(&self) {
        self.n_children.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of processes that it started.
    pub(crate) fn n_children(&self) -> u64 {
        self.n_children.load(Ordering::Relaxed)
    }

    /// Registers a handler for a signal.
    pub(crate) fn handle(&self, signal: u32, pc: u64) {
        if !NO_HANDLERS.contains(&pc) {
            let mut handlers = self.handlers.write().unwrap_or_else(PoisonError::into_inner);
            *handlers.entry(pc).or_default() |= 1 << (signal & 63);
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Signals handled at `pc`, as a bit set; 0 if it is not a handler.
    #[inline]
    pub(crate) fn signals_at(&self, pc: u64) -> u64 {
        if self.version.load(Ordering::Acquire) == 0 { 0 } else { self.look_up(pc) }
    }

    #[cold]
    fn look_up(&self, pc: u64) -> u64 {
        self.handlers.read().unwrap_or_else(PoisonError::into_inner).get(&pc).copied().unwrap_or(0)
    }
}
