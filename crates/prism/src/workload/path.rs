//! The critical path: the longest chain of work in which each part had to wait for the one before it.
//!
//! Each thread has a clock, which its own work advances. When it waits for another thread, its clock becomes at least that
//! of the other thread at that point:
//!
//! | event | waits for |
//! |---|---|
//! | the begin of a thread | its creation or, if that has not been seen yet, the thread that ran before it |
//! | the end of a join | all work of the joined thread |
//! | a lock, or a spin lock | the last unlock of the same object |
//! | the end of a barrier | all threads that arrived at it |
//! | a wait for a condition | the last signal or broadcast of it |
//!
//! As in Prism, joins and barriers are recorded when they begin, all others when they end. The k-th creation belongs to the
//! (k + 1)-th thread seen.

use crate::event::{Sync, sync};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of objects and handles remembered; waits for others cost nothing.
const MAX_KNOWN: usize = 1 << 20;

/// A point of a path: the work that leads to it, and the share of each thread.
#[derive(Clone, Debug, Default)]
struct Point {
    work: u64,
    /// By thread, in order of first appearance.
    shares: Arc<Vec<u64>>,
}

/// Something that a thread waits for before it continues.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// The end of a thread, by its index.
    Join(usize),
    /// A barrier, and the number of times that it had been passed.
    Barrier(u64, u64),
}

#[derive(Clone, Debug, Default)]
struct Lane {
    point: Point,
    /// Work since the shares were last updated.
    own: u64,
    wait: Option<Wait>,
}

/// A barrier: the latest arrival since it was last passed, and the point of its last passing.
#[derive(Clone, Debug, Default)]
struct Barrier {
    passed: u64,
    arrived: Point,
    last: Point,
}

/// The critical path of the events so far.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// Indexes of threads in `lanes`.
    index: BTreeMap<u64, usize>,
    lanes: Vec<Lane>,
    latest: usize,
    /// Creations: the handle, and the creator's point.
    created: Vec<(u64, Point)>,
    /// Points of unlocks and signals, by object.
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

    /// The share of each thread in the path, as work.
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

    /// Number of joins of threads whose creation was not seen; these cost nothing.
    #[must_use]
    pub fn unknown_joins(&self) -> u64 {
        self.unknown_joins
    }

    /// The index of a thread, which is added if new.
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

    /// The current point of a thread.
    fn here(&mut self, place: usize) -> Point {
        let lane = &mut self.lanes[place];
        count(lane, place);
        lane.point.clone()
    }

    /// Moves a thread to this point, unless it is further already.
    fn reach(&mut self, place: usize, point: &Point) {
        let lane = &mut self.lanes[place];
        if point.work > lane.point.work + lane.own {
            lane.point = point.clone();
            lane.own = 0;
        }
    }

    /// Continues a thread that has waited.
    fn go_on(&mut self, place: usize) {
        match self.lanes[place].wait.take() {
            Some(Wait::Join(of)) => {
                let end = self.here(of);
                self.reach(place, &end);
            }
            Some(Wait::Barrier(object, passed)) => {
                let Some(barrier) = self.barriers.get_mut(&object) else { return };
                // This is the first thread to continue, so all have arrived.
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

    /// Adds a unit of work of a thread.
    #[inline]
    pub fn work(&mut self, thread: u64) {
        let place = self.place(thread);
        if self.lanes[place].wait.is_some() {
            self.go_on(place);
        }
        self.latest = place;
        self.lanes[place].own += 1;
    }

    /// Adds a synchronization of a thread.
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
                // The thread may have had no events.
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

/// Adds a thread's own work to its shares.
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
