//! Independent tasks distributed over threads.

use crate::run::n_threads;
use quipu_model::{Error, ErrorKind, Result};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};

/// Calls `work` on each of `tasks`, on this many threads (0 for as many as there are cores), and returns when all are done.
/// The assignment of tasks to threads, and their order, is arbitrary: tasks must not depend on each other.
///
/// For passes that keep many simulated machines and occasionally have work for each of them. If a task panics, the panic
/// continues in the caller.
pub fn share<T: Send>(threads: usize, tasks: &mut [T], work: impl Fn(&mut T) + Sync) {
    let n = n_threads(threads).min(tasks.len());
    if n <= 1 {
        return tasks.iter_mut().for_each(work);
    }
    let left = Mutex::new(tasks.iter_mut());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let help = || {
        while let Some(task) = next() {
            work(task);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..n {
            scope.spawn(help);
        }
        help();
    });
}

/// Distributes items to consumers: `feed` passes each item with the index of its consumer in `all`, and `take` hands it to that
/// consumer, in order, on this many threads (0 for as many as there are cores). Each thread serves some of the consumers; up to
/// `n_waiting` items wait for a thread. Returns the consumers.
///
/// # Errors
/// An error of `take`, or else that of `feed`; `Io` if a thread cannot be started.
pub fn side_by_side<T: Send, I: Send>(
    threads: usize,
    mut all: Vec<T>,
    n_waiting: usize,
    take: impl Fn(&mut T, I) -> Result<()> + Sync,
    feed: impl FnOnce(&mut dyn FnMut(usize, I) -> Result<()>) -> Result<()>,
) -> Result<Vec<T>> {
    let n = n_threads(threads).min(all.len());
    if n <= 1 {
        feed(&mut |nth, item| take(&mut all[nth], item))?;
        return Ok(all);
    }
    let ended = || Error::new(ErrorKind::Internal, "a thread that takes items has ended");
    let mut parts: Vec<Vec<&mut T>> = (0..n).map(|_| Vec::new()).collect();
    all.iter_mut().enumerate().for_each(|(nth, one)| parts[nth % n].push(one));
    let take = &take;
    std::thread::scope(|scope| {
        let (mut lanes, mut workers) = (Vec::new(), Vec::new());
        for mut part in parts {
            let (lane, items) = sync_channel::<(usize, I)>(n_waiting);
            let work = move || items.into_iter().try_for_each(|(at, item)| take(part[at], item));
            let worker = std::thread::Builder::new().name("quipu-lane".into()).spawn_scoped(scope, work);
            let refused = |cause| Error::new(ErrorKind::Io, format!("no thread can be started: {cause}"));
            workers.push(worker.map_err(refused)?);
            lanes.push(lane);
        }
        let done = feed(&mut |nth, item| lanes[nth % n].send((nth / n, item)).map_err(|_| ended()));
        drop(lanes);
        // If a thread has ended early, its error is the cause and `feed` only noticed it.
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(ended())))?;
        done
    })?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_takes_its_own_items_in_order_until_one_cannot() {
        let lanes: Vec<Vec<u32>> = vec![Vec::new(); 5];
        let take = |lane: &mut Vec<u32>, item: u32| {
            lane.push(item);
            if item == 999 { Err(Error::usage("no more")) } else { Ok(()) }
        };
        let feed = |most: u32| {
            move |give: &mut dyn FnMut(usize, u32) -> Result<()>| {
                (0..most).try_for_each(|item| give(item as usize % 5, item))
            }
        };
        for threads in [1, 2, 3, 100] {
            let done = side_by_side(threads, lanes.clone(), 2, take, feed(500)).unwrap();
            for (nth, lane) in (0..).zip(done) {
                assert!(lane.into_iter().eq((0..100).map(|item| item * 5 + nth)), "{threads}: {nth}");
            }
            let failed = side_by_side(threads, lanes.clone(), 2, take, feed(100_000)).unwrap_err();
            assert!(failed.to_string().contains("no more"), "{threads}: {failed}");
            let unfed = |_: &mut dyn FnMut(usize, u32) -> Result<()>| Err(Error::usage("nothing is read"));
            let unfed = side_by_side(threads, lanes.clone(), 2, take, unfed).unwrap_err();
            assert!(unfed.to_string().contains("nothing is read"), "{threads}: {unfed}");
        }
    }

    #[test]
    fn each_task_is_done_once_whatever_the_threads() {
        for threads in [0, 1, 2, 5, 100] {
            let mut tasks: Vec<u64> = (0..40).collect();
            share(threads, &mut tasks, |task| *task = *task * 2 + 1);
            assert!(tasks.iter().copied().eq((0..40).map(|i| i * 2 + 1)), "{threads}");
        }
        share(3, &mut [] as &mut [u64], |_| ());
    }
}
