//! Which members of which structures the accesses of the original's model go to, with its faults.
//!
//! Regions live for ever and may lie over each other; each that holds an address counts the access. Regions alike are kept
//! once with their number, so that a program that allocates again and again in one place costs no more for it.
//! SPEC: docs/formats/cacheray.md, "The original's model".

use super::caches::Served;
use super::places::{Places, Stretches};
use quipu_symbols::remap::Remap;
use quipu_symbols::types_file::{Layout, Lookup};
use std::collections::HashMap;

/// The name of the type that all unknown names stand for.
pub const PLACEHOLDER: &str = "PlaceholderStruct";

/// A structure with what was counted.
#[derive(Clone, Debug)]
pub struct CountedStruct {
    /// Its name.
    pub name: String,
    /// Bytes, as the types file had it; -1 if unknown, 0 for the placeholder.
    pub size: i64,
    /// Its members by their offsets, after the remap.
    pub members: Vec<CountedMember>,
    /// Accesses that touched a member.
    pub accesses: u64,
    /// True once an annotation named it.
    pub is_present: bool,
    /// New offsets by old ones.
    moved: HashMap<i64, i64>,
}

/// A member with what was counted.
#[derive(Clone, Debug)]
pub struct CountedMember {
    /// Its name.
    pub name: String,
    /// Bytes before it, after the remap.
    pub offset: i64,
    /// Bytes; -1 if unknown.
    pub size: i64,
    /// Reads that touched it.
    pub accesses: u64,
    /// Of their lines, those that missed in the last level.
    pub full_misses: u64,
    /// Hits of each level.
    pub hits: Vec<u64>,
}

/// A region, and how many there are like it.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: i64,
    ty: usize,
    times: u64,
}

/// What a remap says to a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remapped {
    /// Its members have new places.
    Done(String),
    /// The file does not name it.
    NotNamed(String),
}

/// Structures, regions, counts.
#[derive(Clone, Debug, Default)]
pub struct Structs {
    lookup: Lookup,
    structs: Vec<CountedStruct>,
    placeholder: Option<usize>,
    /// Regions of positive length, in the order in which they were first added.
    regions: Vec<Region>,
    known: HashMap<(i64, i64, usize), usize>,
    stretches: Stretches,
    places: Places,
    /// Regions of negative length hold all addresses but those between their end and their start: with that end, and how
    /// many regions of positive length there were before.
    inverse: Vec<(Region, i64, usize)>,
    has_remap: bool,
    /// Annotations.
    pub n_adds: u64,
    /// Elements of all annotations, as numbers of 32 bits with a sign.
    pub n_elements: i64,
    at_hand: Vec<Region>,
}

impl Structs {
    /// The structures of a types file, perhaps with new places for members. Returns what the remap says to each, and
    /// whether it leaves out members of structures that it names.
    pub fn new(lookup: Lookup, remap: Option<&Remap>, n_levels: usize) -> (Structs, Vec<Remapped>, u64) {
        let (mut said, mut n_left_out) = (Vec::new(), 0);
        let structs = lookup.layouts().iter().map(|layout| {
            let mut counted = CountedStruct::new(layout, n_levels);
            if let Some(remap) = remap {
                said.push(match remap.find(&layout.name) {
                    Some(new) => {
                        n_left_out += counted.remap(&new.members);
                        Remapped::Done(layout.name.clone())
                    }
                    None => Remapped::NotNamed(layout.name.clone()),
                });
            }
            counted
        });
        let structs: Vec<CountedStruct> = structs.collect();
        let structs = Structs { structs, lookup, has_remap: remap.is_some(), ..Structs::default() };
        (structs, said, n_left_out)
    }

    /// The structures that annotations named, the placeholder among them.
    pub fn present(&self) -> impl Iterator<Item = &CountedStruct> {
        self.structs.iter().filter(|counted| counted.is_present)
    }

    /// An annotation. The size of its elements does not count, that of the type does.
    pub fn add(&mut self, name: &str, addr: u64, n_elements: u32) {
        self.n_adds += 1;
        let n_elements = n_elements as i32; // The original's numbers have a sign.
        self.n_elements += i64::from(n_elements);
        let ty = match self.lookup.find(name) {
            Some(ty) => ty,
            None => *self.placeholder.get_or_insert_with(|| {
                self.structs.push(CountedStruct::placeholder());
                self.structs.len() - 1
            }),
        };
        let Some(counted) = self.structs.get_mut(ty) else { return };
        counted.is_present = true;
        let start = addr as i64; // The original's addresses have a sign.
        let length = counted.size.saturating_mul(n_elements.into());
        if length == 0 {
            return;
        }
        if let Some(region) = self.known.get(&(start, length, ty)) {
            let regions = match length {
                1.. => self.regions.get_mut(*region),
                _ => self.inverse.get_mut(*region).map(|(region, ..)| region),
            };
            if let Some(region) = regions {
                region.times += 1;
            }
            return;
        }
        let region = Region { start, ty, times: 1 };
        if length < 0 {
            self.known.insert((start, length, ty), self.inverse.len());
            self.inverse.push((region, start.saturating_add(length), self.regions.len()));
            return;
        }
        self.known.insert((start, length, ty), self.regions.len());
        let number = self.regions.len() as u32; // There is no memory for more.
        self.regions.push(region);
        self.cover(start, start.saturating_add(length), number);
    }

    fn split(&mut self, at: i64) {
        let Some((start, (end, over))) = self.stretches.range_mut(..at).next_back() else { return };
        if *end > at && *start < at {
            let behind = (*end, over.clone());
            *end = at;
            self.stretches.insert(at, behind);
        }
    }

    fn cover(&mut self, start: i64, end: i64, number: u32) {
        self.split(start);
        self.split(end);
        let (mut at, mut free) = (start, Vec::new());
        for (stretch, (stretch_end, over)) in self.stretches.range_mut(start..end) {
            if at < *stretch {
                free.push((at, *stretch));
            }
            over.push(number);
            at = *stretch_end;
        }
        if at < end {
            free.push((at, end));
        }
        for (free_start, free_end) in free {
            self.stretches.insert(free_start, (free_end, vec![number]));
        }
        self.places.repaint(start, end, &self.stretches);
    }

    /// Where the caches see an access: elsewhere, if the first region that holds it was given another layout.
    pub fn translate(&self, addr: i64) -> i64 {
        if !self.has_remap {
            return addr;
        }
        let ordinary = self.over(addr).first().copied();
        let inverse = self.inverse.iter().find(|(region, end, _)| is_outside(addr, *end, region.start));
        let region = match (ordinary, inverse) {
            (Some(number), Some((region, _, before))) if (number as usize) >= *before => region,
            (Some(number), _) => match self.regions.get(number as usize) {
                Some(region) => region,
                None => return addr,
            },
            (None, Some((region, ..))) => region,
            (None, None) => return addr,
        };
        let Some(counted) = self.structs.get(region.ty) else { return addr };
        let offset = counted.offset(addr, region.start);
        addr.wrapping_add(counted.moved.get(&offset).map_or(0, |new| new - offset))
    }

    fn over(&self, addr: i64) -> &[u32] {
        match self.stretches.range(..=addr).next_back() {
            Some((_, (end, over))) if addr < *end => over,
            _ => &[],
        }
    }

    /// Counts an access for every region that holds it.
    pub fn count(&mut self, addr: i64, size: i8, is_write: bool, served: &Served) {
        if self.inverse.is_empty()
            && let Some(number) = self.places.only(addr, &self.stretches)
        {
            if let Some(region) = self.regions.get(number as usize)
                && let Some(counted) = self.structs.get_mut(region.ty)
            {
                counted.count(addr, region, size, is_write, served);
            }
            return;
        }
        let mut at_hand = std::mem::take(&mut self.at_hand);
        at_hand.clear();
        at_hand.extend(self.over(addr).iter().filter_map(|number| self.regions.get(*number as usize)));
        let outside = self.inverse.iter().filter(|(region, end, _)| is_outside(addr, *end, region.start));
        at_hand.extend(outside.map(|(region, ..)| region));
        for region in &at_hand {
            if let Some(counted) = self.structs.get_mut(region.ty) {
                counted.count(addr, region, size, is_write, served);
            }
        }
        self.at_hand = at_hand;
    }
}

/// Whether a region of negative length holds an address: all but those from its end up to its start.
fn is_outside(addr: i64, end: i64, start: i64) -> bool {
    !(end <= addr && addr < start)
}

impl CountedStruct {
    fn new(layout: &Layout, n_levels: usize) -> CountedStruct {
        let member = |member: &quipu_symbols::types_file::LayoutMember| CountedMember {
            name: member.name.clone(),
            offset: member.offset,
            size: member.size,
            accesses: 0,
            full_misses: 0,
            hits: vec![0; n_levels],
        };
        CountedStruct {
            name: layout.name.clone(),
            size: layout.size(),
            members: layout.members.iter().map(member).collect(),
            accesses: 0,
            is_present: false,
            moved: HashMap::new(),
        }
    }

    fn placeholder() -> CountedStruct {
        CountedStruct {
            name: PLACEHOLDER.to_owned(),
            size: 0,
            members: Vec::new(),
            accesses: 0,
            is_present: false,
            moved: HashMap::new(),
        }
    }

    /// Gives members new places; returns how many are not named.
    fn remap(&mut self, new: &[(String, i64)]) -> u64 {
        let mut n_left_out = 0;
        for member in &mut self.members {
            match new.iter().rev().find(|(name, _)| *name == member.name) {
                Some((_, offset)) => {
                    self.moved.insert(member.offset, *offset);
                    member.offset = *offset;
                }
                None => n_left_out += 1,
            }
        }
        self.members.sort_by_key(|member| member.offset);
        n_left_out
    }

    /// Where in an element an address lies, as the original computes it: wrong, even below zero, unless the region begins
    /// at a multiple of the element's size.
    fn offset(&self, addr: i64, start: i64) -> i64 {
        if self.size == 0 { 0 } else { addr.wrapping_rem(self.size) - start.wrapping_rem(self.size) }
    }

    fn count(&mut self, addr: i64, region: &Region, size: i8, is_write: bool, served: &Served) {
        let offset = self.offset(addr, region.start);
        let offset = self.moved.get(&offset).copied().unwrap_or(offset);
        let last = offset + i64::from(size) - 1;
        let mut is_touched = false;
        for member in &mut self.members {
            let has = |at: i64| member.offset <= at && at < member.offset.saturating_add(member.size);
            if !has(offset) && !has(last) {
                continue;
            }
            is_touched = true;
            if !is_write {
                member.accesses += region.times;
                member.full_misses += served.full_misses * region.times;
                for (all, hits) in member.hits.iter_mut().zip(&served.hits) {
                    *all += hits * region.times;
                }
            }
        }
        self.accesses += if is_touched { region.times } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::super::places::NONE;
    use super::*;
    use quipu_symbols::types_file::TypesFile;
    use quipu_testkit::Rng;

    const FILE: &str = r#"{"structs": [{"id": 1, "name": "struct P", "members": [
        {"id": 2, "memberName": "x", "name": "long", "offset": 0, "size": 8},
        {"id": 2, "memberName": "y", "name": "long", "offset": 8, "size": 8},
        {"id": 3, "memberName": "z", "name": "int", "offset": 16, "size": 4}]}],
        "typedefs": [], "unions": [], "version": 4}"#;

    #[test]
    fn places_say_what_the_stretches_say() {
        let file = TypesFile::parse(FILE.as_bytes()).unwrap();
        let (mut structs, ..) = Structs::new(Lookup::new(&file), None, 1);
        let mut rng = Rng::new(7);
        let near = |rng: &mut Rng| match rng.below(40) {
            0 => i64::MAX - rng.below(6000) as i64,
            1 => i64::MIN + rng.below(6000) as i64,
            _ => rng.below(60_000) as i64 - 10_000,
        };
        let mut kinds = [0; 3];
        for _ in 0..800 {
            let most = if rng.below(30) == 0 { 600 } else { 4 };
            let n = rng.below(most) as u32;
            structs.add("struct P", near(&mut rng) as u64, n);
            for _ in 0..30 {
                let addr = near(&mut rng);
                let plain = match structs.over(addr) {
                    [] => Some(NONE),
                    [region] => Some(*region),
                    _ => None,
                };
                kinds[plain.map_or(2, |region| usize::from(region != NONE))] += 1;
                assert_eq!(structs.places.only(addr, &structs.stretches), plain, "{addr:#x}");
            }
        }
        assert!(kinds.iter().all(|n| *n > 100), "{kinds:?}");
    }
}
