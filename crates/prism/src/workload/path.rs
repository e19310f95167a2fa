//! The critical path: the longest chain of work in which each part had to wait for the one before it.
//!
//! Each thread has a clock, which its own work advances. Where it waits for another thread, its clock becomes at least what that
//! thread's clock was there:
//!
//! | where | waits for |
//! |---|---|
//! | a thread begins | the creation that it belongs to, or, if that is not seen yet, the thread that ran before it |
//! | what follows a join | all of the thread that is joined |
//! | a lock, spin lock | the last unlock of the same object |
//! | what follows a barrier | all threads that arrived at it |
//! | a wait for a condition | the last signal or broadcast of it |
//!
//! As in Prism, joins and barriers stand where they begin, all others where they end; the k-th creation is that of the (k + 1)-th
//! thread that is seen.

use crate::event::{Sync, sync};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects and handles that are remembered; waits for others cost nothing.
const MAX_KNOWN: usize = 1 << 20;

/// A point of a path: how much work leads to it, and the part of each thread.
#[derive(Clone, Debug, Default)]
struct Point {
    work: u64,
    /// By thread, in the order in which they were seen.
    shares: Arc<Vec<u64>>,
}

/// What a thread waits for before it continues.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// A thread, by its place.
    Join(usize),
    /// An object, and how often it had been passed.
    Barrier(u64, u64),
}

#[derive(Clone, Debug, Default)]
struct Lane {
    point: Point,
    /// Work since the shares were counted.
    own: u64,
    wait: Option<Wait>,
}

/// A barrier: what arrived at it since it was passed last, and what passed it then.
#[derive(Clone, Debug, Default)]
struct Barrier {
    passed: u64,
    arrived: Point,
    last: Point,
}

/// The critical path of the events so far.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// Places of threads.
    index: BTreeMap<u64, usize>,
    lanes: Vec<Lane>,
    latest: usize,
    /// Creations: the handle, and where it was.
    created: Vec<(u64, Point)>,
    /// Unlocks and signals by object.
    released: FxHashMap<u64, Point>,
    barriers: FxHashMap<u64, Barrier>,
    unknown_joins: u64,
}

/// The later one of two points.
fn later(one: &Point, other: &Point) -> Point {
    if other.work > one.work { other.clone() } else { one.clone() }
}

impl Path {
    /// The length of the path, in work.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.point.work + lane.own).max().unwrap_or(0)
    }

    /// How much of the path each thread does.
    #[must_use]
    pub fn shares(&self) -> BTreeMap<u64, u64> {
        let longest = (0..self.lanes.len()).max_by_key(|place| {
            let lane = &self.lanes[*place];
            (lane.point.work + lane.own, std::cmp::Reverse(*place))
        });
        let Some(longest) = longest else { return BTreeMap::new() };
        let mut lane = self.lanes[longest].clone();
        count(&mut lane, longest);
        let share = |place: usize| lane.point.shares.get(place).copied().unwrap_or(0);
        self.index.iter().map(|(thread, place)| (*thread, share(*place))).collect()
    }

    /// Joins of threads whose creation was not seen, which cost nothing.
    #[must_use]
    pub fn unknown_joins(&self) -> u64 {
        self.unknown_joins
    }

    /// The place of a thread.
    fn place(&mut self, thread: u64) -> usize {
        if let Some(place) = self.index.get(&thread) {
            return *place;
        }
        let place = self.lanes.len();
        self.index.insert(thread, place);
        let begun = match place.checked_sub(1).and_then(|nth| self.created.get(nth)) {
            Some((_, point)) => point.clone(),
            None if place == 0 => Point::default(),
            None => self.here(self.latest),
        };
        self.lanes.push(Lane { point: begun, ..Lane::default() });
        place
    }

    /// Where a thread is now.
    fn here(&mut self, place: usize) -> Point {
        let lane = &mut self.lanes[place];
        count(lane, place);
        lane.point.clone()
    }

    /// A thread has come at least as far as this point.
    fn reach(&mut self, place: usize, point: &Point) {
        let lane = &mut self.lanes[place];
        if point.work > lane.point.work + lane.own {
            lane.point = point.clone();
            lane.own = 0;
        }
    }

    /// A thread that waited continues.
    fn go_on(&mut self, place: usize) {
        match self.lanes[place].wait.take() {
            Some(Wait::Join(of)) => {
                let end = self.here(of);
                self.reach(place, &end);
            }
            Some(Wait::Barrier(object, passed)) => {
                let Some(barrier) = self.barriers.get_mut(&object) else { return };
                // The first that continues: all have arrived.
                if barrier.passed == passed {
                    barrier.passed += 1;
                    barrier.last = std::mem::take(&mut barrier.arrived);
                }
                let last = barrier.last.clone();
                self.reach(place, &last);
            }
            None => {}
        }
    }

    /// A thread does a piece of work.
    #[inline]
    pub fn work(&mut self, thread: u64) {
        let place = self.place(thread);
        if self.lanes[place].wait.is_some() {
            self.go_on(place);
        }
        self.latest = place;
        self.lanes[place].own += 1;
    }

    /// A thread synchronizes.
    pub fn sync(&mut self, thread: u64, event: &Sync) {
        let place = self.place(thread);
        if event.kind == sync::SWAP {
            self.latest = place;
            return;
        }
        self.go_on(place);
        self.latest = place;
        let object = event.data;
        match event.kind {
            sync::CREATE if self.created.len() < MAX_KNOWN => {
                let here = self.here(place);
                self.created.push((object, here));
            }
            sync::JOIN => match self.created.iter().rposition(|(handle, _)| *handle == object) {
                // It may have done nothing.
                Some(nth) if nth + 1 < self.lanes.len() => self.lanes[place].wait = Some(Wait::Join(nth + 1)),
                Some(_) => {}
                None => self.unknown_joins += 1,
            },
            sync::LOCK | sync::SPIN_LOCK | sync::WAIT => {
                if let Some(point) = self.released.get(&object).cloned() {
                    self.reach(place, &point);
                }
            }
            sync::UNLOCK | sync::SPIN_UNLOCK | sync::SIGNAL | sync::BROADCAST => {
                let here = self.here(place);
                if self.released.len() < MAX_KNOWN || self.released.contains_key(&object) {
                    self.released.insert(object, here);
                }
            }
            sync::BARRIER => {
                let here = self.here(place);
                if self.barriers.len() < MAX_KNOWN || self.barriers.contains_key(&object) {
                    let barrier = self.barriers.entry(object).or_default();
                    barrier.arrived = later(&barrier.arrived, &here);
                    self.lanes[place].wait = Some(Wait::Barrier(object, barrier.passed));
                }
            }
            _ => {}
        }
    }
}

/// Counts a thread's own work among the shares.
fn count(lane: &mut Lane, place: usize) {
    if lane.own == 0 {
        return;
    }
    let shares = Arc::make_mut(&mut lane.point.shares);
    if shares.len() <= place {
        shares.resize(place + 1, 0);
    }
    shares[place] += lane.own;
    lane.point.work += lane.own;
    lane.own = 0;
}
