//! Finds needed calls: a log of the state that calls write and read, and a backward walk through it.
//!
//! State is divided into *slots*; a *group* holds the slots of one context or one object. In the backward walk from the last
//! call, a chosen call makes the slots live that it reads. An earlier call is kept if it writes a live slot, and then makes
//! the slots live that it reads itself. A slot is not live before a call that overwrites it entirely.
//!
//! The log takes a few words for each call and one for each slot that the call touches. When it is long, it drops calls that
//! no later call can need ([`Log::compact`]): it keeps calls that made the current state, and calls that chosen calls need.
//! So memory grows with the live state and the calls kept, not with the length of the trace.

use super::bits::Bits;
use rustc_hash::{FxHashMap, FxHashSet};

/// A part of the state: the unit in which reads and writes are tracked.
pub(super) type Slot = u32;
/// The slots of one context or object.
pub(super) type Group = u32;

/// How the backward walk treats a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Standing {
    /// It is dropped, and touches nothing.
    Drop = 0,
    /// It is kept if it writes a live slot.
    Normal = 1,
    /// It is always kept.
    Keep = 2,
    /// It is dropped, but the slots that it writes are not live before it.
    Kill = 3,
}

/// The way in which a call touches a slot. `Write` sets the slot entirely, so earlier contents do not matter; `Modify`
/// depends on them. `Draw` modifies the slot too; a call that draws needs the bound objects only if a slot that it draws into
/// is live: running a display list may be needed for the state that it sets alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Role {
    Write = 0,
    Modify = 1,
    Read = 2,
    ReadGroup = 3,
    ReadSet = 4,
    Draw = 5,
}

/// Number of bits of a word that hold the role.
const ROLE_BITS: u32 = 3;
/// The log is not compacted before it has this many words.
const LEAST_WORDS: usize = 1 << 19;

/// Splits a word into its role and its slot, group or set.
fn split(word: &u32) -> (u32, u32) {
    (word & ((1 << ROLE_BITS) - 1), word >> ROLE_BITS)
}

/// Effects of one call, gathered before it is logged.
#[derive(Debug, Default)]
pub(super) struct Effects {
    words: Vec<u32>,
}

impl Effects {
    fn add(&mut self, role: Role, id: u32) {
        self.words.push(id << ROLE_BITS | role as u32);
    }

    pub(super) fn write(&mut self, slot: Slot) {
        self.add(Role::Write, slot);
    }

    pub(super) fn modify(&mut self, slot: Slot) {
        self.add(Role::Modify, slot);
    }

    pub(super) fn draw(&mut self, slot: Slot) {
        self.add(Role::Draw, slot);
    }

    pub(super) fn read(&mut self, slot: Slot) {
        self.add(Role::Read, slot);
    }

    pub(super) fn read_group(&mut self, group: Group) {
        self.add(Role::ReadGroup, group);
    }

    /// Reads all groups of a set; if the call draws, only if it draws into a live slot.
    pub(super) fn read_set(&mut self, set: u32) {
        self.add(Role::ReadSet, set);
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    /// The slots written, with true if entirely; without those drawn into.
    pub(super) fn written(&self) -> impl Iterator<Item = (Slot, bool)> {
        self.words.iter().filter_map(|word| match word & ((1 << ROLE_BITS) - 1) {
            role if role == Role::Write as u32 => Some((word >> ROLE_BITS, true)),
            role if role == Role::Modify as u32 => Some((word >> ROLE_BITS, false)),
            _ => None,
        })
    }
}

/// The log of all calls so far that may be needed.
#[derive(Debug)]
pub(super) struct Log {
    /// For each call: one word for each slot touched, then the number of the call, then a word with the number of those words
    /// and the standing.
    words: Vec<u32>,
    /// Number of words from which on the log is compacted.
    limit: usize,
    n_records: u32,
    /// Calls that are always kept.
    kept: Bits,
    group_of: Vec<Group>,
    n_groups: u32,
    sets: Vec<Box<[Group]>>,
    set_ids: FxHashMap<Box<[Group]>, u32>,
    /// Pairs of calls: the second is kept if the first is.
    pairs: Vec<(u32, u32)>,
    /// Calls that end objects, with the slots of these objects.
    ends: Vec<(u32, Box<[Slot]>)>,
    /// Calls that begin objects, by slot.
    begins: FxHashMap<Slot, u32>,
}

impl Default for Log {
    fn default() -> Log {
        Log {
            words: Vec::new(),
            limit: LEAST_WORDS,
            n_records: 0,
            kept: Bits::default(),
            group_of: Vec::new(),
            n_groups: 0,
            sets: Vec::new(),
            set_ids: FxHashMap::default(),
            pairs: Vec::new(),
            ends: Vec::new(),
            begins: FxHashMap::default(),
        }
    }
}

/// A call of the log, as the backward walk meets it.
struct Seen {
    /// Index of its first word.
    start: usize,
    end: usize,
    record: u32,
    standing: u32,
    is_kept: bool,
    /// Whether it matters: it is kept, or a slot that it overwrites would otherwise be live.
    is_needed: bool,
}

impl Log {
    pub(super) fn new_group(&mut self) -> Group {
        self.n_groups += 1;
        self.n_groups - 1
    }

    pub(super) fn new_slot(&mut self, group: Group) -> Slot {
        self.group_of.push(group);
        self.group_of.len() as u32 - 1 // A call was logged for each.
    }

    /// The number of a set of groups; equal sets have the same number.
    pub(super) fn set(&mut self, mut groups: Vec<Group>) -> u32 {
        groups.sort_unstable();
        groups.dedup();
        let groups = groups.into_boxed_slice();
        if let Some(id) = self.set_ids.get(&groups) {
            return *id;
        }
        let id = self.sets.len() as u32;
        self.sets.push(groups.clone());
        self.set_ids.insert(groups, id);
        id
    }

    /// The number of the call that will be logged next.
    pub(super) fn next(&self) -> u32 {
        self.n_records
    }

    /// Logs a call.
    pub(super) fn push(&mut self, standing: Standing, effects: &Effects) {
        if standing == Standing::Keep {
            self.kept.set(self.n_records);
        }
        if standing != Standing::Drop {
            self.words.extend_from_slice(&effects.words);
            self.words.extend([self.n_records, (effects.words.len() as u32) << 2 | standing as u32]);
        }
        self.n_records += 1;
    }

    /// Whether it is time to [`compact`](Log::compact).
    pub(super) fn is_long(&self) -> bool {
        self.words.len() > self.limit
    }

    /// Makes `second` kept if `first` is.
    pub(super) fn pair(&mut self, first: u32, second: u32) {
        if self.kept.get(first) {
            self.kept.set(second);
        } else {
            self.pairs.push((first, second));
        }
    }

    /// Notes that the current call begins the object of this slot.
    pub(super) fn begin(&mut self, exists: Slot) {
        self.begins.insert(exists, self.n_records);
    }

    /// Notes that the current call ends these objects: it is kept if one of them is needed.
    pub(super) fn end(&mut self, exist: Vec<Slot>) {
        self.ends.push((self.n_records, exist.into_boxed_slice()));
    }

    /// Walks back through the log, from the slots that are live at its end, and passes each call to `see`.
    fn walk(&self, marks: &mut Marks, see: &mut dyn FnMut(Seen)) {
        let mut end = self.words.len();
        while end > 0 {
            let (record, head) = (self.words[end - 2], self.words[end - 1]);
            let start = end - 2 - (head >> 2) as usize;
            marks.now += 1;
            let items = &self.words[start..end - 2];
            let of = |role: Role| {
                items.iter().map(split).filter(move |item| item.0 == role as u32).map(|item| item.1)
            };
            let standing = head & 3;
            let is_drawn = of(Role::Draw).any(|slot| marks.is_live(slot));
            let is_written = of(Role::Write).any(|slot| marks.is_live(slot));
            let is_kept = standing == Standing::Keep as u32
                || (standing == Standing::Normal as u32
                    && (is_drawn || is_written || of(Role::Modify).any(|slot| marks.is_live(slot))));
            let is_killing = standing == Standing::Kill as u32;
            let needs_bound =
                is_drawn || standing == Standing::Keep as u32 || of(Role::Draw).next().is_none();
            if is_kept || is_killing {
                of(Role::Write).for_each(|slot| marks.killed[slot as usize] = marks.now);
            }
            if is_kept {
                marks.now += 1;
                of(Role::Read).for_each(|slot| marks.slot[slot as usize] = marks.now);
                of(Role::ReadGroup).for_each(|group| marks.group[group as usize] = marks.now);
                for set in of(Role::ReadSet).filter(|_| needs_bound) {
                    self.sets[set as usize].iter().for_each(|group| marks.group[*group as usize] = marks.now);
                }
            }
            see(Seen {
                start,
                end,
                record,
                standing,
                is_kept,
                is_needed: is_kept || (is_killing && is_written),
            });
            end = start;
        }
    }

    fn marks(&mut self) -> Marks {
        Marks {
            slot: vec![0; self.group_of.len()],
            killed: vec![0; self.group_of.len()],
            group: vec![0; self.n_groups as usize],
            group_of: std::mem::take(&mut self.group_of),
            now: 0,
        }
    }

    /// Drops calls that no later call can need. Later calls can read slots of `groups`, the given `slots`, and slots made
    /// from now on. Numbers of sets change.
    ///
    /// A call stays if it would be needed if all of these slots were live; since fewer of them will be, no call is dropped
    /// that will be needed. Of several consecutive chosen calls, only the first that reads or writes a slot affects earlier
    /// calls.
    pub(super) fn compact(&mut self, groups: &[Group], slots: &[Slot]) {
        let mut marks = self.marks();
        marks.now = 1;
        groups.iter().for_each(|group| marks.group[*group as usize] = 1);
        slots.iter().for_each(|slot| marks.slot[*slot as usize] = 1);
        let mut stay = Vec::new();
        self.walk(&mut marks, &mut |seen| {
            if seen.is_needed {
                stay.push(seen);
            }
        });
        stay.reverse();
        let (mut words, mut sets, mut known) = (Vec::new(), FxHashMap::default(), FxHashSet::default());
        let mut new_sets = Vec::new();
        for Seen { start, end, record, standing, .. } in &stay {
            let from = words.len();
            let is_fixed = *standing == Standing::Keep as u32;
            if !is_fixed {
                known.clear();
            }
            for word in &self.words[*start..end - 2] {
                let (role, id) = split(word);
                let tells = role != Role::Modify as u32 && role != Role::Draw as u32;
                if is_fixed && (!tells || !known.insert(*word)) {
                    continue;
                }
                words.push(if role == Role::ReadSet as u32 {
                    let new = *sets.entry(id).or_insert_with(|| {
                        new_sets.push(std::mem::take(&mut self.sets[id as usize]));
                        new_sets.len() as u32 - 1 // Fewer than before.
                    });
                    new << ROLE_BITS | role
                } else {
                    *word
                });
            }
            let n_words = (words.len() - from) as u32; // As many as before, or fewer.
            if n_words > 0 || !is_fixed {
                words.extend([*record, n_words << 2 | standing]);
            }
        }
        self.set_ids = (0..).zip(&new_sets).map(|(id, set)| (set.clone(), id)).collect();
        self.sets = new_sets;
        self.limit = LEAST_WORDS.max(2 * words.len());
        self.words = words;
        let stays = |record: &u32| stay.binary_search_by_key(record, |seen| seen.record).is_ok();
        self.pairs.retain(|(first, _)| stays(first));
        let (kept, begins) = (&mut self.kept, &mut self.begins);
        self.ends.retain(|(record, slots)| {
            if kept.get(*record) {
                slots.iter().filter_map(|slot| begins.get(slot)).for_each(|begin| kept.set(*begin));
                return false;
            }
            slots.iter().any(|slot| marks.was_live(*slot))
        });
        let ended: FxHashSet<Slot> = self.ends.iter().flat_map(|(_, slots)| slots.iter().copied()).collect();
        begins.retain(|slot, _| ended.contains(slot) || marks.was_live(*slot));
        self.group_of = marks.group_of;
    }

    /// The needed calls, as a bit for each.
    pub(super) fn needed(mut self) -> Bits {
        let (mut marks, mut kept) = (self.marks(), std::mem::take(&mut self.kept));
        self.walk(&mut marks, &mut |seen| {
            if seen.is_kept {
                kept.set(seen.record);
            }
        });
        for (first, second) in &self.pairs {
            if kept.get(*first) {
                kept.set(*second);
            }
        }
        for (record, slots) in &self.ends {
            if slots.iter().any(|slot| marks.was_live(*slot)) {
                kept.set(*record);
            }
            // If a kept call ends objects, the calls that begin these must be kept too.
            if kept.get(*record) {
                slots.iter().filter_map(|slot| self.begins.get(slot)).for_each(|begin| kept.set(*begin));
            }
        }
        kept
    }
}

/// Steps of the backward walk at which slots and groups were last made live, and slots last overwritten.
struct Marks {
    slot: Vec<u64>,
    killed: Vec<u64>,
    group: Vec<u64>,
    group_of: Vec<Group>,
    now: u64,
}

impl Marks {
    fn needed_at(&self, slot: Slot) -> u64 {
        let slot = slot as usize;
        self.slot[slot].max(self.group[self.group_of[slot] as usize])
    }

    fn is_live(&self, slot: Slot) -> bool {
        self.needed_at(slot) > self.killed[slot as usize]
    }

    fn was_live(&self, slot: Slot) -> bool {
        self.needed_at(slot) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_writes_is_needed_and_what_it_reads() {
        let mut log = Log::default();
        let group = log.new_group();
        let (a, b, c) = (log.new_slot(group), log.new_slot(group), log.new_slot(group));
        let mut push = |standing, fill: &dyn Fn(&mut Effects)| {
            let mut effects = Effects::default();
            fill(&mut effects);
            log.push(standing, &effects);
        };
        push(Standing::Normal, &|e| e.write(b));
        push(Standing::Normal, &|e| e.write(a));
        push(Standing::Normal, &|e| {
            e.write(a);
            e.read(b);
        });
        push(Standing::Normal, &|e| e.modify(a));
        push(Standing::Normal, &|e| e.write(c));
        push(Standing::Kill, &|e| e.write(c));
        push(Standing::Keep, &|e| e.read_group(group));
        push(Standing::Normal, &|e| e.write(a));
        let kept = log.needed();
        let kept: Vec<u32> = (0..8).filter(|at| kept.get(*at)).collect();
        assert_eq!(kept, [0, 2, 3, 6]);
    }

    /// Pseudo-random numbers.
    fn numbers() -> impl FnMut(u32) -> u32 {
        let mut state = 1u64;
        move |below| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32 % below
        }
    }

    /// A log of random calls on a few slots, compacted every `every` calls. Some calls are chosen individually, and the last
    /// `n_chosen` are all chosen.
    fn anything(n_calls: u32, n_chosen: u32, every: u32) -> Log {
        let (mut log, mut number) = (Log::default(), numbers());
        let groups: Vec<Group> = (0..5).map(|_| log.new_group()).collect();
        let slots: Vec<Slot> = (0..20).map(|i| log.new_slot(groups[i % 5])).collect();
        for call in 0..n_calls {
            let mut effects = Effects::default();
            for _ in 0..number(4) {
                let slot = slots[number(20) as usize];
                match number(6) {
                    0 | 1 => effects.write(slot),
                    2 => effects.modify(slot),
                    3 => effects.read(slot),
                    4 => effects.draw(slot),
                    _ => effects.read_group(groups[number(5) as usize]),
                }
            }
            let few = vec![groups[number(5) as usize], groups[number(5) as usize]];
            if number(5) == 0 {
                effects.read_set(log.set(few));
            }
            let standing = match number(8) {
                0 => Standing::Drop,
                1 => Standing::Kill,
                _ => Standing::Normal,
            };
            if let Some(slot) = slots.get(call as usize) {
                log.begin(*slot);
            }
            if standing == Standing::Drop {
                log.end(vec![slots[number(20) as usize]]);
            } else if number(10) == 0 && call > 10 && call.is_multiple_of(2) {
                // The second call of a pair is never the first of another.
                log.pair(call - 1 - 2 * number(5), call);
            }
            let is_chosen = number(40) == 0 || call >= n_calls - n_chosen;
            log.push(if is_chosen { Standing::Keep } else { standing }, &effects);
            if call % every == every - 1 {
                log.compact(&groups, &[]);
            }
        }
        log
    }

    #[test]
    fn letting_go_of_calls_changes_nothing() {
        for (n_calls, n_chosen) in [(50, 1), (500, 20), (3000, 100)] {
            let whole = anything(n_calls, n_chosen, u32::MAX).needed();
            let expected: Vec<u32> = (0..n_calls).filter(|at| whole.get(*at)).collect();
            for every in [1, 7, 100] {
                let part = anything(n_calls, n_chosen, every).needed();
                let kept: Vec<u32> = (0..n_calls).filter(|at| part.get(*at)).collect();
                assert_eq!(kept, expected, "{n_calls} calls, every {every}");
            }
        }
    }

    /// Sets each slot again and again, with the second half of the calls chosen; returns the length of the log in words.
    fn again(n_calls: u32) -> usize {
        let mut log = Log::default();
        let group = log.new_group();
        let slots: Vec<Slot> = (0..20).map(|_| log.new_slot(group)).collect();
        for call in 0..n_calls {
            let mut effects = Effects::default();
            effects.write(slots[call as usize % 20]);
            effects.modify(slots[(call as usize + 1) % 20]);
            let is_chosen = call >= n_calls / 2;
            if is_chosen {
                effects.read_group(group);
            }
            log.push(if is_chosen { Standing::Keep } else { Standing::Normal }, &effects);
            if call % 100 == 99 {
                log.compact(&[group], &[]);
            }
        }
        log.words.len()
    }

    #[test]
    fn the_log_is_as_long_as_what_is_alive() {
        assert_eq!(again(20_000), again(2_000));
        assert!(again(2_000) < 200, "{}", again(2_000));
    }
}
