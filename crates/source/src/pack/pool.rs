//! The compressing threads, which take blocks from one queue.

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::blocks::{Compressors, Work};
use crate::error::{Error, ErrorKind, Result};

/// Threads that compress for any number of [`Packer`](super::Packer)s at the same time.
///
/// They end when the pool and all packers that use it are gone.
pub struct Pool {
    jobs: Option<SyncSender<Job>>,
    workers: Vec<JoinHandle<()>>,
}

/// A block for a worker.
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) level: u8,
    pub(super) plain: Vec<u8>,
    /// A used vector for the output.
    pub(super) out: Vec<u8>,
    pub(super) done: SyncSender<Done>,
}

/// A packed block for the packer.
pub(super) struct Done {
    pub(super) packed: Result<Vec<u8>>,
    /// CRC-32 of the plain bytes, if a header needs it; otherwise 0.
    pub(super) crc32: u32,
    /// The plain bytes; the vector is reused.
    pub(super) plain: Vec<u8>,
}

impl Pool {
    /// Creates a pool of `n_threads` threads, at least one.
    ///
    /// # Errors
    /// `Io` if the system refuses to start a thread.
    pub fn new(n_threads: usize) -> Result<Arc<Pool>> {
        let n_threads = n_threads.max(1);
        let (jobs, queue) = sync_channel::<Job>(n_threads);
        let queue = Arc::new(Mutex::new(queue));
        let worker = |i: usize| {
            let queue = queue.clone();
            std::thread::Builder::new()
                .name(format!("pack {i}"))
                .spawn(move || work(&queue))
                .map_err(|cause| Error::io("cannot start a thread", cause))
        };
        let workers = (0..n_threads).map(worker).collect::<Result<_>>()?;
        Ok(Arc::new(Pool { jobs: Some(jobs), workers }))
    }

    /// Number of threads.
    pub fn n_threads(&self) -> usize {
        self.workers.len()
    }

    /// Queues a block for the next free thread; waits if many are queued already.
    pub(super) fn submit(&self, job: Job) -> Result<()> {
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(job).map_err(|_| gone())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Without a sender, the queue ends, and so do the threads.
        self.jobs = None;
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} threads)", self.workers.len())
    }
}

#[cold]
pub(super) fn gone() -> Error {
    Error::new(ErrorKind::Internal, "a thread that compresses has died")
}

fn work(queue: &Mutex<Receiver<Job>>) {
    let mut compressors = Compressors::default();
    loop {
        // A worker never panics with the lock held; even then the queue would be consistent.
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { work, level, plain, mut out, done }) = next else { return };
        out.clear();
        let crc32 = if matches!(work, Work::DeflateWhole) { libdeflater::crc32(&plain) } else { 0 };
        let packed = compressors.pack(&work, level, &plain, &mut out).map(|()| out);
        // The waiting thread may have given up.
        let _ = done.send(Done { packed, crc32, plain });
    }
}
