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

/// Lets each of `all` take, on a thread of its own, the items that `feed` gives to its number, in their order. Of each, this many
/// items may wait.
///
/// # Errors
/// That of the first that could not take an item; that of `feed`; `Io` if a thread cannot be started.
pub fn side_by_side<T: Send, I: Send>(
    all: Vec<T>,
    n_waiting: usize,
    take: impl Fn(&mut T, I) -> Result<()> + Sync,
    feed: impl FnOnce(&mut dyn FnMut(usize, I) -> Result<()>) -> Result<()>,
) -> Result<Vec<T>> {
    let ended = || Error::new(ErrorKind::Internal, "a thread that takes what is read has ended");
    let take = &take;
    std::thread::scope(|scope| {
        let (mut lanes, mut threads) = (Vec::new(), Vec::new());
        for mut one in all {
            let (lane, items) = sync_channel::<I>(n_waiting);
            let work = move || items.into_iter().try_for_each(|item| take(&mut one, item)).map(|()| one);
            let thread = std::thread::Builder::new().name("quipu-lane".into()).spawn_scoped(scope, work);
            threads.push(
                thread.map_err(|cause| {
                    Error::new(ErrorKind::Io, format!("no thread can be started: {cause}"))
                })?,
            );
            lanes.push(lane);
        }
        // A thread that takes no more has an error, which is the one that counts.
        let done = feed(&mut |nth, item| lanes[nth].send(item).map_err(|_| ended()));
        drop(lanes);
        let all = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(ended())));
        let all = all.collect::<Result<Vec<_>>>()?;
        done.map(|()| all)
    })
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
        let done = side_by_side(lanes.clone(), 2, take, feed(500)).unwrap();
        for (nth, lane) in (0..).zip(done) {
            assert!(lane.into_iter().eq((0..100).map(|item| item * 5 + nth)), "{nth}");
        }
        let failed = side_by_side(lanes.clone(), 2, take, feed(100_000)).unwrap_err();
        assert!(failed.to_string().contains("no more"), "{failed}");
        let unfed = side_by_side(lanes, 2, take, |_| Err(Error::usage("nothing is read"))).unwrap_err();
        assert!(unfed.to_string().contains("nothing is read"), "{unfed}");
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
