//! Independent tasks distributed over threads.

use crate::run::n_threads;
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

#[cfg(test)]
mod tests {
    use super::*;

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
