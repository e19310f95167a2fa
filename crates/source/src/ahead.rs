//! Reading ahead on separate threads, with bounded buffers.
//!
//! ```text
//! lane 0   members 0, 3, 6 …    thread ──filled──▶ ┐
//! lane 1   members 1, 4, 7 …    thread ──filled──▶ ├ next(): lane by lane, member by member
//! lane 2   members 2, 5, 8 …    thread ──filled──▶ ┘
//!                                      ◀──empty──   used blocks go back to their lane
//! ```
//!
//! Each lane has its own limit, so that lanes with later members cannot use up the room that the earliest one needs. Threads
//! start when the first block is requested. When the stream is dropped, they end after the current piece, and the drop waits
//! for them. A pipe is the exception: a thread that waits for a silent writer cannot be woken, and ends by itself when the
//! writer continues or closes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::{Error, ErrorKind, Result};
use crate::sequence::Sequence;
use crate::stream::BlockAt;

/// A message from a lane's thread.
enum Said {
    Block(Vec<u8>, BlockAt),
    /// Reading the current member failed, so the member is over.
    Fault(Error),
    /// There are no more members.
    Finished,
}

/// All lanes, and the one whose turn it is.
pub(crate) struct Ahead {
    waiting: Vec<Sequence>,
    blocks_per_lane: usize,
    lanes: Vec<Lane>,
    turn: usize,
    stop: Arc<AtomicBool>,
    /// Whether dropping waits for the threads: true if reading never waits for another process, so that a thread ends soon
    /// after it is asked to.
    joins: bool,
}

struct Lane {
    filled: Receiver<Said>,
    empty: SyncSender<Vec<u8>>,
    thread: JoinHandle<()>,
}

impl Ahead {
    pub(crate) fn new(sequences: Vec<Sequence>, blocks_per_lane: usize, joins: bool) -> Ahead {
        Ahead {
            waiting: sequences,
            blocks_per_lane,
            lanes: Vec::new(),
            turn: 0,
            stop: Arc::new(AtomicBool::new(false)),
            joins,
        }
    }

    /// See [`crate::Stream::next`].
    pub(crate) fn next(&mut self, block: &mut Vec<u8>) -> Result<Option<BlockAt>> {
        if !self.waiting.is_empty() {
            self.start()?;
        }
        let Some(lane) = self.lanes.get(self.turn) else { return Ok(None) };
        match lane.filled.recv() {
            Ok(Said::Block(filled, at)) => {
                let used = std::mem::replace(block, filled);
                // A full channel means that the caller brings blocks of its own: then this one is not needed.
                let _ = lane.empty.try_send(used);
                if at.last {
                    self.turn = (self.turn + 1) % self.lanes.len();
                }
                Ok(Some(at))
            }
            Ok(Said::Fault(error)) => {
                self.turn = (self.turn + 1) % self.lanes.len();
                if error.kind() == ErrorKind::Io {
                    self.end();
                }
                Err(error)
            }
            // Members are assigned to the lanes in turn, so the first lane without a member means that none is left.
            Ok(Said::Finished) => {
                self.end();
                Ok(None)
            }
            Err(_) => {
                self.end();
                Err(Error::new(ErrorKind::Internal, "a decompressing thread has died"))
            }
        }
    }

    fn start(&mut self) -> Result<()> {
        for sequence in std::mem::take(&mut self.waiting) {
            let (filled_in, filled) = sync_channel(self.blocks_per_lane);
            // Room for all blocks of the lane: those waiting, that of the thread and that of the caller.
            let (empty, empty_out) = sync_channel(self.blocks_per_lane + 2);
            let stop = self.stop.clone();
            let started = std::thread::Builder::new()
                .name("quipu-inflate".into())
                .spawn(move || run(sequence, &filled_in, &empty_out, &stop));
            match started {
                Ok(thread) => self.lanes.push(Lane { filled, empty, thread }),
                Err(cause) => {
                    self.end();
                    return Err(Error::io("cannot start a decompressing thread", cause));
                }
            }
        }
        Ok(())
    }

    /// Stops and removes all lanes.
    fn end(&mut self) {
        self.waiting.clear();
        self.stop.store(true, Ordering::Relaxed);
        for Lane { filled, empty, thread } in std::mem::take(&mut self.lanes) {
            // A thread that waits for room wakes up when its channel closes.
            drop((filled, empty));
            if self.joins {
                // A panic has been reported as a closed channel, if the receiver still existed.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.end();
    }
}

/// The main function of a lane's thread.
fn run(mut sequence: Sequence, filled: &SyncSender<Said>, empty: &Receiver<Vec<u8>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut block = empty.try_recv().unwrap_or_default();
        let (said, is_end) = match sequence.next(&mut block) {
            Ok(Some(at)) => (Said::Block(block, at), false),
            Ok(None) => (Said::Finished, true),
            Err(error) => (Said::Fault(error), false),
        };
        if filled.send(said).is_err() || is_end {
            return;
        }
    }
}
