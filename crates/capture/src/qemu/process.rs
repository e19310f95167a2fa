//! What the threads of a process share: the handlers of its signals.

use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// Values of a handler that are none: the default, and to ignore the signal.
const NO_HANDLERS: std::ops::RangeInclusive<u64> = 0..=1;

/// One process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// Which signals (bit n for number n) each handler was given.
    handlers: RwLock<FxHashMap<u64, u64>>,
    /// Changes with the handlers.
    version: AtomicU64,
}

impl Process {
    /// A fork of this one, which begins with its handlers.
    pub(crate) fn fork(&self) -> Process {
        let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner).clone();
        Process { version: AtomicU64::new(u64::from(!handlers.is_empty())), handlers: RwLock::new(handlers) }
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
