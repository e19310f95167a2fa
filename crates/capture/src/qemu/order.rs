//! Merges the entries of threads by the clock, and makes events of them.
//!
//! Rings are emptied in any order, so a thread's entries are held until no other thread can still deliver earlier ones: each
//! other thread has a later clock reading, waits in a system call, or has ended. A lane that is full stops its thread. A
//! thread that executes nothing for a while does not hold up the others for ever.

use quipu_drmemtrace::push::Push;
use quipu_drmemtrace::record::{Entry, Marker, UNIX_EPOCH_MICROS};
use quipu_model::code::SharedCodes;
use quipu_model::{Columns, Result};
use quipu_prism::observed::Observed;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Number of entries that a thread may be ahead of the others: 12 MB.
const MOST_HELD: usize = 1 << 20;
/// Time that others wait for a thread that executes nothing outside of system calls. The system may run it later.
const PATIENCE: Duration = Duration::from_millis(50);

/// The destination of the entries of all threads.
pub(crate) struct Order {
    lanes: Mutex<Lanes>,
    /// The instructions of all threads.
    codes: Arc<SharedCodes>,
}

struct Lanes {
    observed: Observed,
    /// One per thread; `None` for a thread that has ended and whose entries were passed on.
    all: Vec<Option<Lane>>,
    /// When a thread was first waited for.
    waits: Option<Instant>,
}

/// The entries of a thread.
struct Lane {
    push: Push,
    entries: Vec<Entry>,
    /// Number of the first entries that were passed on. They are removed many at a time, as each removal moves the others.
    n_passed: usize,
    /// The clock at each place where it changes, for entries that were not passed on.
    cuts: VecDeque<(u64, usize)>,
    /// No entry that is still to come is earlier.
    bound: u64,
    has_ended: bool,
}

impl Lane {
    /// Number of entries that were not passed on.
    fn n_held(&self) -> usize {
        self.entries.len() - self.n_passed
    }

    fn add(&mut self, entries: &[Entry]) {
        let start = self.entries.len();
        if self.n_held() == 0 && !entries.is_empty() {
            self.cuts.push_back((self.bound, start));
        }
        for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.is_marker(Marker::TIMESTAMP))
        {
            // A clock that is set back does not change the order within a thread.
            self.bound = self.bound.max(entry.addr.get());
            self.cuts.push_back((self.bound, start + at));
        }
        self.entries.extend_from_slice(entries);
    }

    /// The clock of the first entry that is held.
    fn first(&self) -> Option<u64> {
        self.cuts.front().map(|(clock, _)| *clock)
    }

    /// Passes on the entries up to this clock.
    fn pass_on(&mut self, limit: u64, observed: &mut Observed) -> Result<()> {
        let n_cuts = self.cuts.iter().take_while(|(clock, _)| *clock <= limit).count();
        let end = self.cuts.get(n_cuts).map_or(self.entries.len(), |(_, at)| *at);
        let passed = self.push.feed(&self.entries[self.n_passed..end], &mut |batch| observed.take(batch));
        self.cuts.drain(..n_cuts);
        self.n_passed = end;
        if self.n_held() <= self.n_passed {
            self.entries.drain(..self.n_passed);
            self.cuts.iter_mut().for_each(|(_, at)| *at -= end);
            self.n_passed = 0;
        }
        passed
    }
}

/// The number of a thread's lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneId(usize);

impl Order {
    pub(crate) fn new(observed: Observed) -> Order {
        let lanes = Mutex::new(Lanes { observed, all: Vec::new(), waits: None });
        Order { lanes, codes: Arc::default() }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the destination known to what the program does outside of its threads.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Observed) -> T) -> T {
        work(&mut self.lanes().observed)
    }

    /// Begins a thread, whose entries are decoded into these columns of batches of this shard and workload.
    pub(crate) fn open(&self, columns: Columns, shard: u32, workload: u16) -> LaneId {
        let push = Push::new(columns, shard, workload, self.codes.clone());
        let (entries, cuts) = (Vec::new(), VecDeque::new());
        let lane = Lane { push, entries, n_passed: 0, cuts, bound: 0, has_ended: false };
        let all = &mut self.lanes().all;
        let at = all.iter().position(Option::is_none).unwrap_or(all.len());
        if at == all.len() {
            all.push(None);
        }
        all[at] = Some(lane);
        LaneId(at)
    }

    /// Adds entries of a thread.
    ///
    /// # Errors
    /// Errors of the events' destination.
    pub(crate) fn push(&self, LaneId(id): LaneId, entries: &[Entry]) -> Result<()> {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.all[id].as_mut() {
            lane.add(entries);
        }
        lanes.deliver()
    }

    /// Notes that a thread waited in a system call at this time.
    ///
    /// # Errors
    /// Errors of the events' destination.
    pub(crate) fn rest(&self, LaneId(id): LaneId, now: u64) -> Result<()> {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.all[id].as_mut() {
            lane.bound = lane.bound.max(now);
        }
        lanes.deliver()
    }

    /// Whether a thread is far ahead, so that it has to wait. Passes on what can be.
    ///
    /// # Errors
    /// Errors of the events' destination.
    pub(crate) fn is_full(&self, LaneId(id): LaneId) -> Result<bool> {
        let mut lanes = self.lanes();
        lanes.deliver()?;
        Ok(lanes.all[id].as_ref().is_some_and(|lane| lane.n_held() >= MOST_HELD))
    }

    /// Ends a thread.
    ///
    /// # Errors
    /// Errors of the events' destination.
    pub(crate) fn close(&self, LaneId(id): LaneId) -> Result<()> {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.all[id].as_mut() {
            lane.has_ended = true;
        }
        lanes.deliver()
    }

    /// Passes on everything that is held. All threads have ended.
    ///
    /// # Errors
    /// Errors of the events' destination.
    pub(crate) fn finish(self) -> Result<Observed> {
        let mut lanes = self.lanes.into_inner().unwrap_or_else(PoisonError::into_inner);
        lanes.all.iter_mut().flatten().for_each(|lane| lane.has_ended = true);
        lanes.deliver()?;
        Ok(lanes.observed)
    }
}

impl Lanes {
    /// Passes on all entries before which none can come any more.
    fn deliver(&mut self) -> Result<()> {
        loop {
            let first = self.all.iter().enumerate().filter_map(|(at, lane)| {
                let lane = lane.as_ref()?;
                Some((lane.first()?, at))
            });
            let Some((clock, id)) = first.min() else { break };
            // The earliest that another thread can deliver: what it holds, or what is still to come.
            let (mut held, mut to_come) = (u64::MAX, u64::MAX);
            for (at, lane) in self.all.iter().enumerate() {
                let Some(lane) = lane.as_ref().filter(|_| at != id) else { continue };
                match lane.first() {
                    Some(first) => held = held.min(first),
                    None if !lane.has_ended => to_come = to_come.min(lane.bound),
                    None => {}
                }
            }
            let mut limit = held.min(to_come);
            if limit < clock {
                if self.waits.get_or_insert_with(Instant::now).elapsed() < PATIENCE {
                    break;
                }
                limit = held;
            } else {
                self.waits = None;
            }
            if let Some(lane) = self.all[id].as_mut() {
                lane.pass_on(limit, &mut self.observed)?;
            }
        }
        for slot in &mut self.all {
            if let Some(lane) = slot.as_mut().filter(|lane| lane.has_ended && lane.n_held() == 0) {
                lane.push.close(&mut |batch| self.observed.take(batch))?;
                *slot = None;
            }
        }
        Ok(())
    }
}

/// The time as clock readings in entries have it.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Microseconds in 64 bits last for half a million years.
    since.as_micros() as u64 + UNIX_EPOCH_MICROS
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_drmemtrace::record::{NEWEST_VERSION, Type};
    use quipu_prism::observed::Destination;

    /// A clock reading and a store to an address that names the thread.
    fn turn(clock: u64, tid: u64) -> Vec<Entry> {
        vec![Entry::marker(Marker::TIMESTAMP, clock), Entry::new(Type::WRITE, 8, tid << 12)]
    }

    /// The threads of the stores that reach a file, after `work` on an order with two threads.
    fn order_of(work: impl Fn(&Order, [LaneId; 2])) -> Vec<u64> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.prism");
        let detail = quipu_prism::Detail::ALL;
        let to = Destination::File { path: &path, replace: false, level: None, detail };
        let order = Order::new(to.begin(None, Columns::ACCESSES).unwrap());
        let lanes = [1, 2].map(|tid| {
            let lane = order.open(Columns::ACCESSES, tid, 0);
            let tid = u64::from(tid);
            let header = [
                Entry::new(Type::HEADER, 0, NEWEST_VERSION),
                Entry::new(Type::THREAD, 4, tid),
                Entry::new(Type::PID, 4, 9),
            ];
            order.push(lane, &header).unwrap();
            lane
        });
        work(&order, lanes);
        lanes.iter().for_each(|lane| order.close(*lane).unwrap());
        order.finish().unwrap().finish().unwrap();
        stores(&path)
    }

    fn stores(path: &std::path::Path) -> Vec<u64> {
        #[derive(Default)]
        struct Stores(Vec<u64>);
        impl quipu_prism::Hooks for Stores {
            fn on_memory(
                &mut self,
                _: quipu_prism::batch::At,
                memory: &quipu_prism::event::Memory,
            ) -> quipu_prism::Result<()> {
                self.0.extend(memory.address.map(|address| address >> 12));
                Ok(())
            }
        }
        let mut stores = Stores::default();
        let file = quipu_source::Source::open(path).unwrap();
        let source = &quipu_streamed::carried::carried(&file).unwrap()[0].source;
        let progress = quipu_model::transform::Silent;
        quipu_prism::feed::events(
            source,
            &quipu_model::OpenOptions::default(),
            false,
            &progress,
            &mut stores,
        )
        .unwrap();
        stores.0
    }

    #[test]
    fn entries_are_passed_on_by_the_clock_however_they_arrive() {
        let order = order_of(|order, [one, two]| {
            order.push(one, &[turn(10, 1), turn(30, 1), turn(50, 1)].concat()).unwrap();
            order.push(two, &[turn(20, 2), turn(40, 2)].concat()).unwrap();
        });
        assert_eq!(order, [1, 2, 1, 2, 1]);
    }

    #[test]
    fn a_thread_that_is_far_ahead_is_passed_on_part_by_part() {
        let order = order_of(|order, [one, two]| {
            let ahead: Vec<Entry> = (0..500).flat_map(|n| turn(10 + 2 * n, 1)).collect();
            order.push(one, &ahead).unwrap();
            (0..500).for_each(|n| order.push(two, &turn(11 + 2 * n, 2)).unwrap());
        });
        assert_eq!(order, [1, 2].repeat(500));
    }

    #[test]
    fn a_thread_in_a_system_call_does_not_hold_up_others() {
        let order = order_of(|order, [one, two]| {
            order.push(two, &turn(5, 2)).unwrap();
            order.push(one, &turn(10, 1)).unwrap();
            let before = order.with(|observed| observed.n_batches());
            order.push(one, &[]).unwrap();
            assert_eq!(order.with(|observed| observed.n_batches()), before, "the second may still deliver");
            order.rest(two, 100).unwrap();
            assert!(order.with(|observed| observed.n_batches()) > before);
            order.push(two, &turn(100, 2)).unwrap();
        });
        assert_eq!(order, [2, 1, 2]);
    }

    #[test]
    fn a_thread_that_stands_still_holds_up_others_for_a_while() {
        let order = order_of(|order, [one, two]| {
            order.push(one, &turn(10, 1)).unwrap();
            std::thread::sleep(2 * PATIENCE);
            assert!(!order.is_full(one).unwrap());
            assert!(order.with(|observed| observed.n_batches()) > 0);
            order.push(two, &turn(5, 2)).unwrap();
        });
        assert_eq!(order, [1, 2]);
    }
}
