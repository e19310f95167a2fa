//! The structures and members that the accesses of Cacheray's model go to, with its faults.
//!
//! Regions live for ever and may lie over each other; each that holds an address counts the access. Regions alike are kept
//! once with their number, so that a program that allocates again and again in one place costs no more for it.
//! SPEC: cacheray.md#cacherays-model.

use super::caches::Served;
use super::places::{NONE, Places, Stretches};
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
    /// For each offset and each usual size of an access, the place of its sums; [`UNKNOWN`] before the first. Empty without
    /// usual accesses, and for structures that are too large.
    places: Vec<u32>,
    /// Members touched at once, and the place of their sums.
    sums: Vec<(Vec<usize>, u32)>,
}

/// Sizes of accesses that have places: this many powers of two.
const N_SIZES: usize = 5;
/// Bytes of a structure that has places.
const MAX_PLACES: i64 = 1 << 12;
/// The place of sums of accesses that have not been met.
const UNKNOWN: u32 = u32::MAX;

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
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    start: i64,
    /// After its last byte, if its length is positive.
    end: i64,
    ty: usize,
    times: u64,
    /// Bytes from a multiple of the type's size up to the start.
    lead: i64,
    /// Whether no other region has any of its bytes.
    is_alone: bool,
}

/// How many regions hold an address.
enum Over {
    None,
    One,
    Several,
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
    n_levels: usize,
    /// Sums of accesses that touch the same members of the same structure, place by place: accesses, reads, their misses in
    /// the last level, their hits of each level. Those at the first place touch none.
    sums: Vec<u64>,
    /// The region used last, and from where to where no other is.
    last: (i64, i64, Region),
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
        let structs = Structs {
            structs,
            lookup,
            has_remap: remap.is_some(),
            n_levels,
            sums: vec![0; N_OF_ALL + n_levels],
            ..Structs::default()
        };
        (structs, said, n_left_out)
    }

    /// The structures that annotations named, the placeholder among them.
    pub fn present(&self) -> impl Iterator<Item = CountedStruct> {
        self.structs.iter().filter(|counted| counted.is_present).map(|counted| {
            let mut counted = counted.clone();
            let n_sums = N_OF_ALL + self.n_levels;
            for (members, place) in std::mem::take(&mut counted.sums) {
                let Some(sums) = self.sums.get(place as usize * n_sums..).and_then(|sums| sums.get(..n_sums))
                else {
                    continue;
                };
                let [accesses, reads, full_misses, hits @ ..] = sums else { continue };
                counted.accesses += accesses;
                for member in members {
                    let Some(member) = counted.members.get_mut(member) else { continue };
                    member.accesses += reads;
                    member.full_misses += full_misses;
                    member.hits.iter_mut().zip(hits).for_each(|(all, hits)| *all += hits);
                }
            }
            counted
        })
    }

    /// An annotation. The size of its elements does not count, that of the type does.
    pub fn add(&mut self, name: &str, addr: u64, n_elements: u32) {
        self.n_adds += 1;
        self.last = (0, 0, Region::default());
        let n_elements = n_elements as i32; // Cacheray's numbers have a sign.
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
        let start = addr as i64; // Cacheray's addresses have a sign.
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
        let end = start.saturating_add(length);
        let lead = start.wrapping_rem(counted.size);
        let mut region = Region { start, end, ty, times: 1, lead, is_alone: true };
        if length < 0 {
            self.known.insert((start, length, ty), self.inverse.len());
            self.inverse.push((region, end, self.regions.len()));
            return;
        }
        self.known.insert((start, length, ty), self.regions.len());
        let number = self.regions.len() as u32; // There is no memory for more.
        region.is_alone = self.cover(start, end, number);
        self.regions.push(region);
    }

    fn split(&mut self, at: i64) {
        let Some((start, (end, over))) = self.stretches.range_mut(..at).next_back() else { return };
        if *end > at && *start < at {
            let behind = (*end, over.clone());
            *end = at;
            self.stretches.insert(at, behind);
        }
    }

    /// Puts a region over others; true if there are none.
    fn cover(&mut self, start: i64, end: i64, number: u32) -> bool {
        self.split(start);
        self.split(end);
        let mut is_alone = true;
        let (mut at, mut free) = (start, Vec::new());
        for (stretch, (stretch_end, over)) in self.stretches.range_mut(start..end) {
            if at < *stretch {
                free.push((at, *stretch));
            }
            is_alone = false;
            for older in &*over {
                if let Some(older) = self.regions.get_mut(*older as usize) {
                    older.is_alone = false;
                }
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
        is_alone
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
    #[inline]
    pub fn count(&mut self, addr: i64, size: i8, is_write: bool, served: &Served) {
        let (start, end, _) = self.last;
        if !(start <= addr && addr < end) {
            match self.find(addr) {
                Over::One => {}
                Over::None => return,
                Over::Several => return self.count_all(addr, size, is_write, served),
            }
        }
        self.count_last(addr, size, is_write, served);
    }

    /// Which regions hold an address; if it is one, it is the last then.
    #[inline]
    fn find(&mut self, addr: i64) -> Over {
        if !self.inverse.is_empty() {
            return Over::Several;
        }
        match self.places.only(addr, &self.stretches) {
            Some(NONE) => Over::None,
            Some(number) => match self.regions.get(number as usize) {
                Some(region) if region.is_alone => {
                    self.last = (region.start, region.end, *region);
                    Over::One
                }
                Some(region) => {
                    self.last = (addr, addr.saturating_add(1), *region);
                    Over::One
                }
                None => Over::None,
            },
            None => Over::Several,
        }
    }

    /// Counts an access for the last region.
    ///
    /// PERF: types/original_model; what an offset touches is found once, and counted with what touches the same.
    #[inline(always)]
    fn count_last(&mut self, addr: i64, size: i8, is_write: bool, served: &Served) {
        let region = &self.last.2;
        let Some(counted) = self.structs.get_mut(region.ty) else { return };
        let place = counted.place(addr, region, size);
        let known = place.and_then(|place| counted.places.get(place)).copied();
        let sums = match known {
            Some(UNKNOWN) | None => match place.filter(|_| known.is_some() || counted.places.is_empty()) {
                Some(place) => {
                    counted.find_sums(place, addr, region, size, &mut self.sums, N_OF_ALL + self.n_levels)
                }
                None => return counted.count(addr, region, size, is_write, served),
            },
            Some(sums) => sums,
        };
        let n_sums = N_OF_ALL + self.n_levels;
        let Some(sums) = self.sums.get_mut(sums as usize * n_sums..).and_then(|sums| sums.get_mut(..n_sums))
        else {
            return;
        };
        let [accesses, reads, full_misses, hits @ ..] = sums else { return };
        *accesses += region.times;
        if !is_write {
            *reads += region.times;
            *full_misses += served.full_misses * region.times;
            for (all, hits) in hits.iter_mut().zip(&served.hits) {
                *all += hits * region.times;
            }
        }
    }

    fn count_all(&mut self, addr: i64, size: i8, is_write: bool, served: &Served) {
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

/// Sums that stand before those of levels.
const N_OF_ALL: usize = 3;

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
            places: Vec::new(),
            sums: Vec::new(),
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
            places: Vec::new(),
            sums: Vec::new(),
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

    /// Where in an element an address lies, as Cacheray computes it: wrong, even below zero, unless the region begins
    /// at a multiple of the element's size.
    fn offset(&self, addr: i64, start: i64) -> i64 {
        if self.size == 0 { 0 } else { addr.wrapping_rem(self.size) - start.wrapping_rem(self.size) }
    }

    /// Where in the list of places an access to a region stands; `None` for odd ones.
    #[inline]
    fn place(&self, addr: i64, region: &Region, size: i8) -> Option<usize> {
        const SIZES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 16;
        let own = self.size;
        let is_odd = size as u8 > 16 || SIZES >> size & 1 == 0; // Negative sizes are large ones.
        if is_odd || own <= 0 || own > MAX_PLACES || addr < 0 || region.start < 0 {
            return None;
        }
        // What is left of the address after multiples of the size, less what is left of the start.
        let mut offset = addr - region.start;
        if offset >= own {
            offset %= own;
        }
        if region.lead + offset >= own {
            offset -= own;
        }
        Some((offset + own) as usize * N_SIZES + size.trailing_zeros() as usize) // Not negative.
    }

    /// Where the sums are of accesses like this one, the first so far.
    #[cold]
    fn find_sums(
        &mut self,
        place: usize,
        addr: i64,
        region: &Region,
        size: i8,
        sums: &mut Vec<u64>,
        n_sums: usize,
    ) -> u32 {
        if self.places.is_empty() {
            self.places = vec![UNKNOWN; 2 * self.size.unsigned_abs() as usize * N_SIZES]; // At most `MAX_PLACES`.
        }
        let touched: Vec<usize> = self.touched(addr, region, size).collect();
        let found = match self.sums.iter().find(|(members, _)| *members == touched) {
            Some((_, found)) => *found,
            None if touched.is_empty() => 0,
            None => {
                let new = (sums.len() / n_sums) as u32; // As many as there are sets of neighbours.
                sums.resize(sums.len() + n_sums, 0);
                self.sums.push((touched, new));
                new
            }
        };
        if let Some(place) = self.places.get_mut(place) {
            *place = found;
        }
        found
    }

    /// The members that an access touches.
    fn touched(&self, addr: i64, region: &Region, size: i8) -> impl Iterator<Item = usize> + use<'_> {
        let offset = self.offset(addr, region.start);
        let offset = self.moved.get(&offset).copied().unwrap_or(offset);
        let last = offset + i64::from(size) - 1;
        let is_touched = move |member: &CountedMember| {
            let has = |at: i64| member.offset <= at && at < member.offset.saturating_add(member.size);
            has(offset) || has(last)
        };
        let touched = self.members.iter().enumerate().filter(move |(_, member)| is_touched(member));
        touched.map(|(at, _)| at)
    }

    fn count(&mut self, addr: i64, region: &Region, size: i8, is_write: bool, served: &Served) {
        let touched: Vec<usize> = self.touched(addr, region, size).collect();
        for at in &touched {
            let Some(member) = self.members.get_mut(*at).filter(|_| !is_write) else { continue };
            member.accesses += region.times;
            member.full_misses += served.full_misses * region.times;
            for (all, hits) in member.hits.iter_mut().zip(&served.hits) {
                *all += hits * region.times;
            }
        }
        self.accesses += if touched.is_empty() { 0 } else { region.times };
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

    #[test]
    fn sums_are_what_each_region_counts() {
        let file = TypesFile::parse(FILE.as_bytes()).unwrap();
        let remap = Remap::parse("struct P=x,16;y,0x2;\n").unwrap();
        for remap in [None, Some(&remap)] {
            let (mut quick, ..) = Structs::new(Lookup::new(&file), remap, 2);
            let mut plain = quick.clone();
            let mut rng = Rng::new(9);
            for _ in 0..20_000 {
                let addr = 4 * rng.below(3000);
                if rng.below(20) == 0 {
                    let (name, n) = (["struct P", "none"][rng.below(2) as usize], rng.below(4) as u32);
                    quick.add(name, addr, n);
                    plain.add(name, addr, n);
                    continue;
                }
                let size = [1, 2, 4, 8, 16, 3, 0, -5, 100][rng.below(9) as usize];
                let served = Served { hits: vec![rng.below(2), rng.below(3)], full_misses: rng.below(2) };
                let (addr, is_write) = (addr as i64, rng.below(3) == 0);
                quick.count(addr, size, is_write, &served);
                plain.count_all(addr, size, is_write, &served);
            }
            let [quick, plain] = [&quick, &plain].map(|structs| {
                let counted = structs.present().map(|of| (of.name, of.accesses, format!("{:?}", of.members)));
                counted.collect::<Vec<_>>()
            });
            assert_eq!(quick, plain);
            assert!(quick.iter().any(|(_, accesses, _)| *accesses > 1000));
        }
    }
}
