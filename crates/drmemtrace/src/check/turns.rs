//! Changes of thread on cores and in streams of several threads, and idle cores.

use super::calls::Calls;
use super::checker::{Checker, on};
use super::flow::Prev;
use super::rules::Rule;
use super::signals::Signals;
use crate::record::{FileType, IDLE_THREAD};
use quipu_model::ShardKind;

impl Checker {
    pub(super) fn set_turn(&mut self) {
        self.attention &= !on::THREAD;
        if self.tid != self.seen_tid {
            self.attention |= on::THREAD;
        }
    }

    /// Handles a record of another thread than the one before.
    pub(super) fn turn(&mut self, by_switch: bool) {
        self.attention &= !on::THREAD;
        let (tid, from) = (self.tid, self.seen_tid);
        self.seen_tid = tid;
        match self.about.kind {
            ShardKind::Thread => {
                if let Some(file) = &self.about.file {
                    // A counting reader reads the trace again and reports the place.
                    file.meet_thread(tid);
                } else if self.about.thread.is_some_and(|own| own != tid) && !self.headers.is_lost {
                    self.tell(Rule::WrongThread, || {
                        format!("a record of thread `{tid}` in another thread's file")
                    });
                }
            }
            ShardKind::Core => {
                if self.policy.filetype.any(FileType::KERNEL_SYSCALLS) && !by_switch {
                    self.turn_without_code(from, tid);
                }
            }
            ShardKind::Mixed => self.turn_headers(from, tid),
        }
        if self.about.is_cut && self.about.kind == ShardKind::Core {
            // A thread's last readings before it migrates stay on the old core and may be later than the next ones there.
            self.time.last = 0;
            if let Some((version, filetype)) = self.about.of_threads.get(&tid).copied() {
                self.policy.version = version;
                if self.policy.filetype != filetype {
                    self.filetype(filetype);
                }
            }
        }
        self.forget();
    }

    /// Handles an idle marker: the core has nothing to run.
    pub(super) fn idle(&mut self) {
        self.records += 1;
        self.idles += 1;
        if self.seen_tid != IDLE_THREAD {
            self.seen_tid = IDLE_THREAD;
            self.attention |= on::THREAD;
        }
    }

    /// Drops the state that the next records do not depend on, because they belong to another thread or follow a gap.
    pub(super) fn forget(&mut self) {
        self.prev = Prev::NONE;
        self.next_mask = 0;
        self.signals = Signals::default();
        self.calls = Calls::default();
        self.kernel.forget();
        self.attention &= !(on::RSEQ | on::TRANSFER | on::FUNCTION | on::PHYSICAL | on::SYSCALL);
    }
}
