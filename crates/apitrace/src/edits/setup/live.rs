//! What is needed: a log of what calls write and read, and a walk back through it.
//!
//! State is parted into *slots*; a *group* holds the slots of one context or one object. Walking back from the last call, a
//! call that was chosen makes live what it reads; a call before is kept if it writes what is live, and then makes live what
//! it reads itself. A slot that is written whole is not live before that.
//!
//! The log takes a word for each call and one for each slot that it touches.

use rustc_hash::FxHashMap;

/// A part of the state.
pub(super) type Slot = u32;
/// The slots of one context or object.
pub(super) type Group = u32;

/// How a call stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Standing {
    /// It is left out, and touches nothing.
    Drop = 0,
    /// It is kept if what it writes is live.
    Normal = 1,
    /// It is kept.
    Keep = 2,
    /// It is left out, but what it writes is gone before it.
    Kill = 3,
}

/// How a slot is touched. What is written whole needs nothing from before; what is modified does. What is drawn into is modified,
/// and only if that counts does the call need what is bound: running a list may be needed for what it sets alone.
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

/// Bits of a word that tell the role.
const ROLE_BITS: u32 = 3;

/// What one call does, gathered before it is logged.
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

    /// Several groups at once; of a call that draws, only if what it draws counts.
    pub(super) fn read_set(&mut self, set: u32) {
        self.add(Role::ReadSet, set);
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    /// The slots that are written, and whether whole, but for those that are drawn into.
    pub(super) fn written(&self) -> impl Iterator<Item = (Slot, bool)> {
        self.words.iter().filter_map(|word| match word & ((1 << ROLE_BITS) - 1) {
            role if role == Role::Write as u32 => Some((word >> ROLE_BITS, true)),
            role if role == Role::Modify as u32 => Some((word >> ROLE_BITS, false)),
            _ => None,
        })
    }
}

/// All calls so far.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// For each call what it touches, then how many and how it stands.
    words: Vec<u32>,
    n_records: u32,
    group_of: Vec<Group>,
    n_groups: u32,
    sets: Vec<Box<[Group]>>,
    set_ids: FxHashMap<Box<[Group]>, u32>,
    /// Calls that are kept if the first of them is.
    pairs: Vec<(u32, u32)>,
    /// Calls that end objects, by the slots of those.
    ends: Vec<(u32, Box<[Slot]>)>,
    /// Calls that begin objects, by slot.
    begins: FxHashMap<Slot, u32>,
}

impl Log {
    pub(super) fn new_group(&mut self) -> Group {
        self.n_groups += 1;
        self.n_groups - 1
    }

    pub(super) fn new_slot(&mut self, group: Group) -> Slot {
        self.group_of.push(group);
        self.group_of.len() as u32 - 1 // Each took a call.
    }

    /// The number of a set of groups.
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

    /// The number of the call that is logged next.
    pub(super) fn next(&self) -> u32 {
        self.n_records
    }

    /// Logs a call.
    pub(super) fn push(&mut self, standing: Standing, effects: &Effects) {
        let words = if standing == Standing::Drop { &[][..] } else { &effects.words };
        self.words.extend_from_slice(words);
        self.words.push((words.len() as u32) << 2 | standing as u32);
        self.n_records += 1;
    }

    /// If `first` is kept, so is `second`.
    pub(super) fn pair(&mut self, first: u32, second: u32) {
        self.pairs.push((first, second));
    }

    /// The call at hand begins an object.
    pub(super) fn begin(&mut self, exists: Slot) {
        self.begins.insert(exists, self.n_records);
    }

    /// The call at hand ends objects: it is kept if one of them is needed.
    pub(super) fn end(&mut self, exist: Vec<Slot>) {
        self.ends.push((self.n_records, exist.into_boxed_slice()));
    }

    /// Which calls are needed, as a bit each.
    pub(super) fn needed(mut self) -> Bits {
        let mut kept = Bits::new(self.n_records);
        let mut marks = Marks {
            slot: vec![0; self.group_of.len()],
            killed: vec![0; self.group_of.len()],
            group: vec![0; self.n_groups as usize],
            group_of: std::mem::take(&mut self.group_of),
            now: 0,
        };
        let mut end = self.words.len();
        for record in (0..self.n_records).rev() {
            let head = self.words[end - 1];
            let start = end - 1 - (head >> 2) as usize;
            marks.now += 1;
            let items = &self.words[start..end - 1];
            let split = |word: &u32| (word & ((1 << ROLE_BITS) - 1), word >> ROLE_BITS);
            let of = |role: Role| {
                items.iter().map(split).filter(move |item| item.0 == role as u32).map(|item| item.1)
            };
            let standing = head & 3;
            let is_drawn = of(Role::Draw).any(|slot| marks.is_live(slot));
            let is_kept = standing == Standing::Keep as u32
                || (standing == Standing::Normal as u32
                    && (is_drawn || of(Role::Write).chain(of(Role::Modify)).any(|slot| marks.is_live(slot))));
            let needs_bound =
                is_drawn || standing == Standing::Keep as u32 || of(Role::Draw).next().is_none();
            if is_kept || standing == Standing::Kill as u32 {
                of(Role::Write).for_each(|slot| marks.killed[slot as usize] = marks.now);
            }
            if is_kept {
                kept.set(record);
                marks.now += 1;
                of(Role::Read).for_each(|slot| marks.slot[slot as usize] = marks.now);
                of(Role::ReadGroup).for_each(|group| marks.group[group as usize] = marks.now);
                for set in of(Role::ReadSet).filter(|_| needs_bound) {
                    self.sets[set as usize].iter().for_each(|group| marks.group[*group as usize] = marks.now);
                }
            }
            end = start;
        }
        for (first, second) in &self.pairs {
            if kept.get(*first) {
                kept.set(*second);
            }
        }
        for (record, slots) in &self.ends {
            if slots.iter().any(|slot| marks.was_live(*slot)) {
                kept.set(*record);
            }
            // What a call that is kept ends, others must have begun.
            if kept.get(*record) {
                slots.iter().filter_map(|slot| self.begins.get(slot)).for_each(|begin| kept.set(*begin));
            }
        }
        kept
    }
}

/// When, on the way back, slots were needed and written last.
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

/// A bit for each call.
#[derive(Clone, Debug, Default)]
pub struct Bits(Vec<u64>);

impl Bits {
    fn new(n: u32) -> Bits {
        Bits(vec![0; (n as usize).div_ceil(64)])
    }

    fn set(&mut self, at: u32) {
        if let Some(word) = self.0.get_mut(at as usize / 64) {
            *word |= 1 << (at % 64);
        }
    }

    /// Whether the bit at `at` is set.
    pub fn get(&self, at: u32) -> bool {
        self.0.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
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
}
