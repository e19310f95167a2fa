//! What the threads of a process share: its name, its place, the handlers of its signals.

use super::session::Image;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// Values of a handler that are none: the default, and to ignore the signal.
const NO_HANDLERS: std::ops::RangeInclusive<u64> = 0..=1;

/// One process, as long as it is one program.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) image: Image,
    /// The program's name.
    pub(crate) name: String,
    /// Its folder, from that of the recording on.
    pub(crate) folder: PathBuf,
    /// Which signals (bit n for number n) each handler was given.
    handlers: RwLock<FxHashMap<u64, u64>>,
    /// Changes with the handlers.
    version: AtomicU64,
    /// Processes that it began.
    n_children: AtomicU64,
}

impl Process {
    pub(crate) fn new(image: Image, name: &str, folder: PathBuf) -> Process {
        let (handlers, version, n_children) = (RwLock::default(), AtomicU64::new(0), AtomicU64::new(0));
        Process { image, name: name.to_owned(), folder, handlers, version, n_children }
    }

    /// A fork of this one, which begins with its handlers.
    pub(crate) fn fork(&self, image: Image, name: &str, folder: PathBuf) -> Process {
        let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner).clone();
        let version = AtomicU64::new(u64::from(!handlers.is_empty()));
        Process { version, handlers: RwLock::new(handlers), ..Process::new(image, name, folder) }
    }

    /// It began another process.
    pub(crate) fn beget(&self) {
        self.n_children.fetch_add(1, Ordering::Relaxed);
    }

    /// How many processes it began.
    pub(crate) fn n_children(&self) -> u64 {
        self.n_children.load(Ordering::Relaxed)
    }

    /// A signal is given a handler.
    pub(crate) fn handle(&self, signal: u32, pc: u64) {
        if !NO_HANDLERS.contains(&pc) {
            let mut handlers = self.handlers.write().unwrap_or_else(PoisonError::into_inner);
            *handlers.entry(pc).or_default() |= 1 << (signal & 63);
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// The signals that are handled at `pc`, a bit for each; 0 if it is no handler.
    #[inline]
    pub(crate) fn signals_at(&self, pc: u64) -> u64 {
        if self.version.load(Ordering::Acquire) == 0 { 0 } else { self.look_up(pc) }
    }

    #[cold]
    fn look_up(&self, pc: u64) -> u64 {
        self.handlers.read().unwrap_or_else(PoisonError::into_inner).get(&pc).copied().unwrap_or(0)
    }
}
