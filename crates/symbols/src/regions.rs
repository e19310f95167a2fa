//! Live regions of memory, and the look-up of the region at an address.
//!
//! Regions may overlap. An address belongs to the region that was added last among those that contain it, and removal by an
//! address removes the region that was added last among those that begin there.
//! SPEC: cacheray.md#regions.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Maximum number of overlapping regions at one address; beyond it, the oldest one is dropped there.
pub const MAX_DEPTH: usize = 64;
/// Maximum number of live regions; only an attack has more at once.
pub const MAX_REGIONS: usize = 1 << 26;
/// Number of entries of the look-up cache; a power of two.
const N_REMEMBERED: usize = 1 << 14;
/// Size of the block of addresses that a cache entry covers, as a power of two.
const PLACE_SHIFT: u32 = 6;

/// Number of a region, which is assigned when it is added and never reused.
pub type RegionId = u64;

/// A region as it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region<T> {
    /// Its number.
    pub id: RegionId,
    /// First byte.
    pub start: u64,
    /// End of the region (exclusive); at most 2^64 - 1.
    pub end: u64,
    /// The caller's data.
    pub what: T,
}

/// Index of a live region's slot; it is reused when the region has ended.
pub type Slot = u32;

/// A live region in its slot.
#[derive(Clone, Copy, Debug)]
struct Kept<T> {
    region: Region<T>,
    /// True if a newer region ever overlapped it.
    was_covered: bool,
}

/// A range of addresses with the same overlapping regions, the newest last.
#[derive(Clone, Debug)]
struct Segment {
    end: u64,
    over: Vec<Slot>,
}

/// A cached look-up: a range of addresses within a block, and the region there.
#[derive(Clone, Copy, Debug)]
struct Remembered<T> {
    start: u64,
    end: u64,
    age: u32,
    region: Option<Region<T>>,
}

/// Relations of a new region to the live ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Over {
    /// A live region begins at the same address.
    pub same_start: bool,
    /// A live region contains it, or is contained in it.
    pub nested: bool,
    /// A live region overlaps it partly.
    pub overlap: bool,
}

/// The live regions. Adding and removing takes time in the logarithm of their number and in the number of overlapping
/// regions; looking up an address near an earlier one takes a load and two comparisons.
#[derive(Clone, Debug)]
pub struct RegionMap<T> {
    segments: BTreeMap<u64, Segment>,
    slots: Vec<Option<Kept<T>>>,
    free: Vec<Slot>,
    starts: FxHashMap<u64, Vec<Slot>>,
    remembered: Vec<Remembered<T>>,
    /// Entries of `remembered` with another age are invalid.
    age: u32,
    next: RegionId,
}

impl<T: Copy> Default for RegionMap<T> {
    fn default() -> RegionMap<T> {
        RegionMap {
            segments: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            starts: FxHashMap::default(),
            remembered: vec![Remembered { start: 0, end: 0, age: 0, region: None }; N_REMEMBERED],
            age: 1,
            next: 0,
        }
    }
}

impl<T: Copy> RegionMap<T> {
    /// Number of live regions.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if no region is live.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The live regions, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Region<T>> {
        self.slots.iter().flatten().map(|kept| &kept.region)
    }

    /// The live region in a slot.
    #[inline]
    pub fn slot(&self, slot: Slot) -> Option<&Region<T>> {
        Some(&self.slots.get(slot as usize)?.as_ref()?.region)
    }

    /// The same, and whether every address of the region is known to belong to it, because no newer one ever overlapped it.
    #[inline]
    pub fn whole_slot(&self, slot: Slot) -> Option<(&Region<T>, bool)> {
        let kept = self.slots.get(slot as usize)?.as_ref()?;
        Some((&kept.region, !kept.was_covered))
    }

    /// The ranges between two addresses that belong to a region: their bounds, the slot and the region.
    pub fn stretches(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, Slot, &Region<T>)> {
        self.between(start, end).filter_map(move |(from, segment)| {
            let slot = *segment.over.last()?;
            let (from, to) = ((*from).max(start), segment.end.min(end));
            (from < to).then_some((from, to, slot, self.slot(slot)?))
        })
    }

    /// Adds a region of `n_bytes` from `start` on, cut off at the last address. An empty region contains no address, but can
    /// be removed.
    ///
    /// Returns its number; `None` if there are too many.
    pub fn add(&mut self, start: u64, n_bytes: u64, what: T) -> Option<RegionId> {
        if self.len() >= MAX_REGIONS {
            return None;
        }
        let id = self.next;
        self.next += 1;
        let end = start.saturating_add(n_bytes);
        let kept = Some(Kept { region: Region { id, start, end, what }, was_covered: false });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = kept;
                slot
            }
            None => {
                self.slots.push(kept);
                (self.slots.len() - 1) as Slot // Fewer than the limit.
            }
        };
        self.starts.entry(start).or_default().push(slot);
        if start < end {
            self.cover(start, end, slot);
            self.forget(start, end);
        }
        Some(id)
    }

    /// Removes a region from its slot.
    fn take(&mut self, slot: Slot) -> Option<Region<T>> {
        let kept = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(kept.region)
    }

    /// The region that [`RegionMap::remove`] would remove.
    pub fn removable(&self, start: u64) -> Option<&Region<T>> {
        self.slot(*self.starts.get(&start)?.last()?)
    }

    /// The relations of a region that is to be added to the live ones.
    pub fn over(&self, start: u64, n_bytes: u64) -> Over {
        let end = start.saturating_add(n_bytes);
        let mut over = Over { same_start: self.starts.contains_key(&start), ..Over::default() };
        for (_, segment) in self.between(start, end) {
            for slot in &segment.over {
                let Some(region) = self.slot(*slot) else { continue };
                let holds = region.start <= start && end <= region.end;
                let is_held = start <= region.start && region.end <= end;
                over.nested |= holds || is_held;
                over.overlap |= !holds && !is_held;
            }
        }
        over
    }

    /// Removes the region that was added last among those that begin at `start`.
    pub fn remove(&mut self, start: u64) -> Option<Region<T>> {
        let slots = self.starts.get_mut(&start)?;
        let slot = slots.pop()?;
        if slots.is_empty() {
            self.starts.remove(&start);
        }
        let region = self.take(slot)?;
        self.uncover(region.start, region.end, slot);
        self.forget(region.start, region.end);
        Some(region)
    }

    /// Removes all regions between two addresses, also those that are only partly between them.
    pub fn clear(&mut self, start: u64, n_bytes: u64) {
        let end = start.saturating_add(n_bytes);
        let mut slots: Vec<Slot> =
            self.between(start, end).flat_map(|(_, segment)| segment.over.iter().copied()).collect();
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            let Some(region) = self.take(slot) else { continue };
            if let Some(others) = self.starts.get_mut(&region.start) {
                others.retain(|other| *other != slot);
                if others.is_empty() {
                    self.starts.remove(&region.start);
                }
            }
            self.uncover(region.start, region.end, slot);
            self.forget(region.start, region.end);
        }
    }

    /// The region that an address belongs to.
    #[inline]
    pub fn at(&mut self, addr: u64) -> Option<Region<T>> {
        let slot = (addr >> PLACE_SHIFT) as usize & (N_REMEMBERED - 1); // A block by its lower bits.
        if let Some(found) = self.remembered.get(slot)
            && found.age == self.age
            && found.start <= addr
            && addr < found.end
        {
            return found.region;
        }
        self.look_up(addr, slot)
    }

    #[cold]
    fn look_up(&mut self, addr: u64, slot: usize) -> Option<Region<T>> {
        let place = addr >> PLACE_SHIFT << PLACE_SHIFT;
        let place_end = place.saturating_add(1 << PLACE_SHIFT);
        let before = self.segments.range(..=addr).next_back().filter(|(_, segment)| addr < segment.end);
        let (start, end, region) = match before {
            Some((start, segment)) => {
                let region = segment.over.last().and_then(|slot| self.slot(*slot)).copied();
                (*start, segment.end, region)
            }
            None => {
                let start = self.segments.range(..=addr).next_back().map_or(0, |(_, segment)| segment.end);
                let end = self.segments.range(addr..).next().map_or(u64::MAX, |(start, _)| *start);
                (start, end, None)
            }
        };
        // Addresses outside of the block are invalidated with other blocks.
        let remembered =
            Remembered { start: start.max(place), end: end.min(place_end), age: self.age, region };
        if let Some(slot) = self.remembered.get_mut(slot) {
            *slot = remembered;
        }
        region
    }

    /// Invalidates the cache for the blocks between two addresses.
    fn forget(&mut self, start: u64, end: u64) {
        let (first, last) = (start >> PLACE_SHIFT, end.saturating_sub(1) >> PLACE_SHIFT);
        if last.saturating_sub(first) >= N_REMEMBERED as u64 {
            match self.age.checked_add(1) {
                Some(age) => self.age = age,
                None => {
                    self.age = 1;
                    self.remembered.iter_mut().for_each(|remembered| remembered.age = 0);
                }
            }
            return;
        }
        for place in first..=last {
            if let Some(slot) = self.remembered.get_mut(place as usize & (N_REMEMBERED - 1)) {
                slot.age = 0;
            }
        }
    }

    /// The segments between two addresses, also those that are only partly between them.
    fn between(&self, start: u64, end: u64) -> impl Iterator<Item = (&u64, &Segment)> {
        // An empty range contains no segment.
        let first =
            self.segments.range(..=start).next_back().filter(|(_, segment)| start < segment.end.min(end));
        let first_start = first.map_or(start, |(start, _)| *start);
        self.segments.range(first_start..end.max(first_start))
    }

    /// Splits the segment that contains an address so that one begins there.
    fn split(&mut self, at: u64) {
        let Some((start, segment)) = self.segments.range_mut(..at).next_back() else { return };
        if segment.end <= at || *start == at {
            return;
        }
        let behind = Segment { end: segment.end, over: segment.over.clone() };
        segment.end = at;
        self.segments.insert(at, behind);
    }

    fn cover(&mut self, start: u64, end: u64, slot: Slot) {
        self.split(start);
        self.split(end);
        let mut free = Vec::new();
        let mut at = start;
        for (segment_start, segment) in self.segments.range_mut(start..end) {
            if at < *segment_start {
                free.push((at, *segment_start));
            }
            for older in &segment.over {
                if let Some(Some(older)) = self.slots.get_mut(*older as usize) {
                    older.was_covered = true;
                }
            }
            if segment.over.len() >= MAX_DEPTH {
                segment.over.remove(0);
            }
            segment.over.push(slot);
            at = segment.end;
        }
        if at < end {
            free.push((at, end));
        }
        for (start, end) in free {
            self.segments.insert(start, Segment { end, over: vec![slot] });
        }
    }

    fn uncover(&mut self, start: u64, end: u64, slot: Slot) {
        if start >= end {
            return;
        }
        let mut empty = Vec::new();
        for (segment_start, segment) in self.segments.range_mut(start..end) {
            segment.over.retain(|other| *other != slot);
            if segment.over.is_empty() {
                empty.push(*segment_start);
            }
        }
        for start in empty {
            self.segments.remove(&start);
        }
        // Segments that a region had split are merged again, so that their number is bounded by that of the regions.
        self.join(start);
        self.join(end);
    }

    /// Merges the segments on both sides of an address if the same regions overlap them.
    fn join(&mut self, at: u64) {
        let Some(behind) = self.segments.get(&at) else { return };
        let (end, over) = (behind.end, behind.over.clone());
        if let Some((_, before)) = self.segments.range_mut(..at).next_back()
            && before.end == at
            && before.over == over
        {
            before.end = end;
            self.segments.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule, implemented literally.
    #[derive(Default)]
    struct Obvious(Vec<Region<u8>>);

    impl Obvious {
        fn at(&self, addr: u64) -> Option<RegionId> {
            let holds = |region: &&Region<u8>| region.start <= addr && addr < region.end;
            self.0.iter().filter(holds).map(|region| region.id).max()
        }
        fn remove(&mut self, start: u64) -> Option<RegionId> {
            let begins = |(_, region): &(usize, &Region<u8>)| region.start == start;
            let (i, id) =
                self.0.iter().enumerate().filter(begins).map(|(i, r)| (i, r.id)).max_by_key(|r| r.1)?;
            self.0.remove(i);
            Some(id)
        }
    }

    proptest! {
        #[test]
        fn every_address_belongs_to_the_newest_region_that_holds_it(
            steps in prop::collection::vec((0u8..6, 0u64..400, 0u64..90), 1..120)
        ) {
            let (mut map, mut obvious) = (RegionMap::default(), Obvious::default());
            for (what, start, n_bytes) in steps {
                match what {
                    0..=2 => {
                        let id = map.add(start, n_bytes, 0u8).unwrap();
                        obvious.0.push(Region { id, start, end: start + n_bytes, what: 0 });
                    }
                    3 => prop_assert_eq!(map.remove(start).map(|region| region.id), obvious.remove(start)),
                    4 => {
                        map.clear(start, n_bytes);
                        let end = start + n_bytes;
                        obvious.0.retain(|r| r.end <= start || end <= r.start || r.start == r.end || start == end);
                    }
                    _ => {
                        let mut over = Over::default();
                        let end = start + n_bytes;
                        for region in &obvious.0 {
                            over.same_start |= region.start == start;
                            if region.start.max(start) < region.end.min(end) {
                                let holds = region.start <= start && end <= region.end;
                                let is_held = start <= region.start && region.end <= end;
                                over.nested |= holds || is_held;
                                over.overlap |= !holds && !is_held;
                            }
                        }
                        prop_assert_eq!(map.over(start, n_bytes), over);
                    }
                }
                for addr in (0..500).step_by(7) {
                    prop_assert_eq!(map.at(addr).map(|region| region.id), obvious.at(addr), "{}", addr);
                }
                prop_assert_eq!(map.len(), obvious.0.len());
            }
        }
    }

    #[test]
    fn regions_may_end_at_the_last_address() {
        let mut map = RegionMap::default();
        let id = map.add(u64::MAX - 7, 100, ()).unwrap();
        assert_eq!(map.at(u64::MAX - 1).unwrap().id, id);
        assert_eq!(map.at(0), None);
        assert_eq!(map.remove(u64::MAX - 7).unwrap().end, u64::MAX);
        assert!(map.is_empty() && map.at(u64::MAX - 1).is_none());
    }

    #[test]
    fn what_lies_too_deep_is_forgotten_and_nothing_breaks() {
        let mut map = RegionMap::default();
        for _ in 0..200 {
            map.add(64, 64, ());
        }
        assert_eq!(map.at(64).unwrap().id, 199);
        for left in (0..200).rev() {
            assert!(map.remove(64).is_some());
            assert_eq!(map.len(), left);
        }
        assert!(map.remove(64).is_none() && map.at(64).is_none());
    }

    #[test]
    fn segments_are_joined_again() {
        let mut map = RegionMap::default();
        map.add(0, 1000, ());
        for start in 0..100 {
            map.add(start * 10, 5, ());
            map.remove(start * 10);
        }
        assert_eq!(map.segments.len(), 1);
    }
}
