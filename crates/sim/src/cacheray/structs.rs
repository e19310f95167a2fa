//! Structures and members touched by accesses in Cacheray's simulator, reproduced with its faults.
//!
//! Regions live for ever and may overlap; each one that contains an address counts the access. Equal regions are stored once
//! with a count, so that a program that keeps allocating at one place costs no more memory.
//! SPEC: cacheray.md#cacherays-model.

use super::caches::Served;
use super::places::{NONE, Places, Stretches};
use quipu_symbols::remap::Remap;
use quipu_symbols::types_file::{Layout, Lookup};
use std::collections::HashMap;

/// Name of the type that stands for all unknown type names.
pub const PLACEHOLDER: &str = "PlaceholderStruct";

/// A structure and its counts.
#[derive(Clone, Debug)]
pub struct CountedStruct {
    /// Name of the structure.
    pub name: String,
    /// Size in bytes from the types file; -1 if unknown, 0 for the placeholder.
    pub size: i64,
    /// Members by offset, after the remap.
    pub members: Vec<CountedMember>,
    /// Accesses that touched at least one member.
    pub accesses: u64,
    /// Whether an annotation named this structure.
    pub is_present: bool,
    /// Remapped offset by original offset.
    moved: HashMap<i64, i64>,
    /// Index into the sums, by offset and common size of access; [`UNKNOWN`] until the first such access. Empty before the
    /// first access of a common size, and for structures larger than [`MAX_PLACES`].
    places: Vec<u32>,
    /// Sets of members touched by one access, with the index of their sums.
    sums: Vec<(Vec<usize>, u32)>,
}

/// Number of access sizes with an entry in `places`: powers of two from 1 to 16.
const N_SIZES: usize = 5;
/// Largest structure in bytes that has entries in `places`.
const MAX_PLACES: i64 = 1 << 12;
/// Entry of accesses that have not occurred yet.
const UNKNOWN: u32 = u32::MAX;

/// A member and its counts.
#[derive(Clone, Debug)]
pub struct CountedMember {
    /// Name of the member.
    pub name: String,
    /// Offset in bytes, after the remap.
    pub offset: i64,
    /// Size in bytes; -1 if unknown.
    pub size: i64,
    /// Reads that touched it.
    pub accesses: u64,
    /// Misses of those reads in the last level.
    pub full_misses: u64,
    /// Hits in each level.
    pub hits: Vec<u64>,
}

/// A region, and how often an equal one was added.
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    start: i64,
    /// End (exclusive), if the length is positive.
    end: i64,
    ty: usize,
    times: u64,
    /// Remainder of the start address divided by the type's size.
    lead: i64,
    /// Whether it overlaps no other region.
    is_alone: bool,
}

/// Number of regions that contain an address.
enum Over {
    None,
    One,
    Several,
}

/// Result of a remap for one structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remapped {
    /// Its members were moved.
    Done(String),
    /// The remap file does not name it.
    NotNamed(String),
}

/// All structures and regions, with their counts.
#[derive(Clone, Debug, Default)]
pub struct Structs {
    lookup: Lookup,
    structs: Vec<CountedStruct>,
    placeholder: Option<usize>,
    /// Regions of positive length, in the order of their first annotation.
    regions: Vec<Region>,
    known: HashMap<(i64, i64, usize), usize>,
    stretches: Stretches,
    places: Places,
    /// Regions of negative length, which contain all addresses outside of their end..start: each with that end, and with the
    /// number of positive regions added before it.
    inverse: Vec<(Region, i64, usize)>,
    has_remap: bool,
    n_levels: usize,
    /// Sums over accesses that touch the same members of the same structure. Each entry holds accesses, reads, misses in the
    /// last level, and hits in each level. The first entry is for accesses that touch no member.
    sums: Vec<u64>,
    /// `(start, end, region)`: the region of the last access, and the address range in which no other region is.
    last: (i64, i64, Region),
    /// Number of annotations.
    pub n_adds: u64,
    /// Elements of all annotations; each count is read as a signed 32-bit number, as in Cacheray.
    pub n_elements: i64,
    at_hand: Vec<Region>,
}

impl Structs {
    /// The structures of a types file, with members moved by `remap` if given. Also returns the result of the remap for each
    /// structure, and the number of members that it leaves out of structures that it names.
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

    /// The structures named by annotations, including the placeholder.
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

    /// Adds the region of an annotation. Its length comes from the size of the type; the annotation's element size is
    /// ignored.
    pub fn add(&mut self, name: &str, addr: u64, n_elements: u32) {
        self.n_adds += 1;
        self.last = (0, 0, Region::default());
        let n_elements = n_elements as i32; // Signed in Cacheray.
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
        let start = addr as i64; // Signed in Cacheray.
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

    /// Adds region `number` to the stretches from `start` to `end`; returns whether it overlaps no other region.
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

    /// Address that the caches see: a different one if the first region that contains `addr` has a remapped layout.
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

    /// Counts an access for every region that contains its address.
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

    /// Finds the regions that contain an address. If there is exactly one, it becomes the last region.
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
    /// PERF: types/original_model; the members at an offset are searched once, later accesses only add to their sums.
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

/// Sums per entry before those of the levels: accesses, reads, misses in the last level.
const N_OF_ALL: usize = 3;

/// Whether a region of negative length contains an address: it holds all but those from its end up to its start.
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

    /// Moves members to new offsets; returns the number of members that `new` does not name.
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

    /// Offset of an address in its element, as Cacheray computes it: wrong, even negative, unless the region begins at a
    /// multiple of the element's size.
    fn offset(&self, addr: i64, start: i64) -> i64 {
        if self.size == 0 { 0 } else { addr.wrapping_rem(self.size) - start.wrapping_rem(self.size) }
    }

    /// Index into `places` for an access to a region; `None` for uncommon sizes, negative addresses and structures without
    /// places.
    #[inline]
    fn place(&self, addr: i64, region: &Region, size: i8) -> Option<usize> {
        const SIZES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 16;
        let own = self.size;
        let is_odd = size as u8 > 16 || SIZES >> size & 1 == 0; // Negative sizes become large ones.
        if is_odd || own <= 0 || own > MAX_PLACES || addr < 0 || region.start < 0 {
            return None;
        }
        // Remainder of the address divided by the size, minus that of the start.
        let mut offset = addr - region.start;
        if offset >= own {
            offset %= own;
        }
        if region.lead + offset >= own {
            offset -= own;
        }
        Some((offset + own) as usize * N_SIZES + size.trailing_zeros() as usize) // Not negative.
    }

    /// Index of the sums for the first access of its kind; records it in `places`.
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
