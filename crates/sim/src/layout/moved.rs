//! Regions in another layout: their new addresses, and those of accesses to them.
//!
//! A region keeps its address if its elements fit there in the new layout. A region that has grown moves to addresses that
//! the trace never uses, placed as by an allocator: at a freed region of the same size, or at the next free address, 16
//! bytes after the last one.

use super::arrange::{Arrangement, Form, LINK_BYTES};
use super::units::Members;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Bytes before each allocation, as an allocator's header.
const HEADER_BYTES: u64 = 16;
/// Larger regions keep their layout: no real program has them, but a damaged trace may.
const MAX_REGION_BYTES: u64 = 1 << 38;
/// Larger accesses are not made by programs; they are moved as a whole with their first byte.
const MAX_ACCESS_BYTES: u32 = 1 << 16;

/// A region of elements of the type, as in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Old {
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// Number of elements.
    pub(super) n: u64,
    /// Bytes from one element to the next.
    pub(super) stride: u64,
}

/// A region in the new layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct New {
    /// Address of the first element in each part; empty if the region keeps its layout.
    pub(super) bases: Vec<u64>,
    /// Bytes between elements in the first part. Other parts use their own stride.
    first_stride: u64,
    /// Allocated memory, address and size, to free when the region ends.
    taken: Vec<(u64, u64)>,
}

/// Allocates from addresses that the trace does not use.
#[derive(Clone, Debug)]
pub(super) struct Fresh {
    next: u64,
    free: HashMap<u64, Vec<u64>, FxBuildHasher>,
}

impl Fresh {
    pub(super) fn new(from: u64) -> Fresh {
        Fresh { next: from, free: HashMap::default() }
    }

    /// Allocates this many bytes.
    fn take(&mut self, bytes: u64, align: u64) -> u64 {
        if let Some(addr) = self.free.get_mut(&bytes).and_then(Vec::pop) {
            return addr;
        }
        let align = align.max(HEADER_BYTES);
        let free = self.next.saturating_add(HEADER_BYTES);
        let addr = free.checked_next_multiple_of(align).unwrap_or(free);
        self.next = addr.saturating_add(bytes);
        addr
    }

    fn give_back(&mut self, (addr, bytes): (u64, u64)) {
        self.free.entry(bytes).or_default().push(addr);
    }
}

/// A layout with the state of its regions.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) arrangement: Arrangement,
    fresh: Fresh,
    /// Cold parts of single elements, in an array of their own.
    cold: Fresh,
    /// Number of regions moved to another address.
    pub(super) n_moved: u64,
    /// Number of regions that keep their layout.
    pub(super) n_kept: u64,
    /// Number of accesses split because the bytes that they touch are no longer adjacent.
    pub(super) n_divided: u64,
}

impl Moved {
    /// Creates a layout without regions; addresses from `from` on are free.
    pub(super) fn new(arrangement: Arrangement, from: u64) -> Moved {
        Moved {
            arrangement,
            fresh: Fresh::new(from),
            cold: Fresh::new(from.saturating_add(1 << 39)),
            n_moved: 0,
            n_kept: 0,
            n_divided: 0,
        }
    }

    /// Adds a region.
    pub(super) fn add(&mut self, old: Old, members: &Members) -> New {
        let Arrangement { parts, form, .. } = &self.arrangement;
        let is_whole =
            (members.size..=MAX_REGION_BYTES).contains(&old.bytes) && old.stride >= members.size && old.n > 0;
        let applies = is_whole && (old.n > 1 || *form != Form::Arrays);
        if !applies {
            self.n_kept += 1;
            return New::default();
        }
        // Bytes other than the elements are kept unchanged after the first part.
        let slack = if old.n > 1 { old.stride - members.size } else { 0 };
        let tail = if old.n > 1 { 0 } else { old.bytes - members.size };
        let first_stride = parts[0].stride + slack;
        if old.n == 1 && *form == Form::Split {
            let hot = first_stride + LINK_BYTES + tail;
            let cold = parts[1].stride;
            let taken = vec![
                (self.fresh.take(hot, parts[0].align), hot),
                (self.cold.take(cold, parts[1].align), cold),
            ];
            self.n_moved += 1;
            return New { bases: taken.iter().map(|(addr, _)| *addr).collect(), first_stride, taken };
        }
        let mut offsets = Vec::with_capacity(parts.len());
        let (mut at, mut align) = (0u64, 1);
        for (i, part) in parts.iter().enumerate() {
            at = at.next_multiple_of(part.align);
            offsets.push(at);
            align = align.max(part.align);
            let (stride, rest) = if i == 0 { (first_stride, tail) } else { (part.stride, 0) };
            at = at.saturating_add(stride.saturating_mul(old.n)).saturating_add(rest);
        }
        let mut taken = Vec::new();
        let start = if at <= old.bytes && old.start.is_multiple_of(align.min(16).max(self.asked_align())) {
            old.start
        } else {
            self.n_moved += 1;
            let addr = self.fresh.take(at, align);
            taken.push((addr, at));
            addr
        };
        New { bases: offsets.iter().map(|offset| start.wrapping_add(*offset)).collect(), first_stride, taken }
    }

    /// Largest alignment of the parts, if it exceeds what allocators guarantee; otherwise 1.
    fn asked_align(&self) -> u64 {
        let align = self.arrangement.parts.iter().map(|part| part.align).max().unwrap_or(1);
        if align > 16 { align } else { 1 }
    }

    /// Removes a region and frees its memory.
    pub(super) fn remove(&mut self, new: New) {
        let is_split = self.arrangement.form == Form::Split && new.taken.len() == 2;
        for (i, taken) in new.taken.into_iter().enumerate() {
            if is_split && i == 1 { self.cold.give_back(taken) } else { self.fresh.give_back(taken) }
        }
    }

    /// Splits the bytes `[addr, addr + size)` of a region into adjacent runs at their new addresses, each with its size, in
    /// order. There is at least one run, and the runs cover all bytes of members. Padding that is accessed alone maps to the
    /// end of the member before it.
    pub(super) fn pieces(
        &mut self,
        (old, new): (&Old, &New),
        addr: u64,
        size: u32,
        members: &Members,
        pieces: &mut Vec<(u64, u32)>,
    ) {
        pieces.clear();
        if new.bases.is_empty() {
            pieces.push((addr, size));
            return;
        }
        let offset = addr.wrapping_sub(old.start);
        if size > MAX_ACCESS_BYTES {
            pieces.push((self.stretch(old, new, offset, members).0, size));
            return;
        }
        let end = offset.saturating_add(size.max(1).into());
        // Padding bytes since the last run.
        let (mut at, mut hole) = (offset, 0u64);
        while at < end {
            let (new_addr, n, is_hole) = self.stretch(old, new, at, members);
            let n = n.min(end - at).max(1);
            at += n;
            if is_hole && (at < end || !pieces.is_empty()) {
                hole += n;
                continue;
            }
            match pieces.last_mut() {
                // Runs with padding between may still be adjacent.
                Some((start, bytes)) if start.wrapping_add(u64::from(*bytes) + hole) == new_addr => {
                    *bytes += (hole + n) as u32; // At most `size`.
                }
                _ => pieces.push((new_addr, n as u32)), // At most `size`.
            }
            hole = 0;
        }
        self.n_divided += u64::from(pieces.len() > 1);
    }

    /// New address of the byte at an offset of a region, number of bytes that stay adjacent from there on, and whether they
    /// are padding.
    #[inline]
    fn stretch(&self, old: &Old, new: &New, offset: u64, members: &Members) -> (u64, u64, bool) {
        let (element, within) = match old.n {
            0 | 1 => (0, offset),
            _ => (offset / old.stride, offset % old.stride),
        };
        let Some((unit, is_inside)) = members.at(within).filter(|_| element < old.n.max(1)) else {
            // After the elements, or between them.
            let bytes = old.stride.max(within + 1) - within;
            let behind = within.saturating_sub(members.size);
            let link = if old.n == 1 && self.arrangement.form == Form::Split { LINK_BYTES } else { 0 };
            let first = self.arrangement.parts[0].stride + link;
            let addr = new.bases[0].wrapping_add(element.wrapping_mul(new.first_stride)).wrapping_add(first);
            return (addr.wrapping_add(behind), if old.n > 1 { bytes } else { u64::MAX >> 1 }, false);
        };
        let (of, place) = (&members.units[unit], &self.arrangement.places[unit]);
        let stride =
            if place.part == 0 { new.first_stride } else { self.arrangement.parts[place.part].stride };
        let base =
            new.bases[place.part].wrapping_add(element.wrapping_mul(stride)).wrapping_add(place.offset);
        if !is_inside {
            // Padding ends where the next member begins.
            let next = members.units.get(unit + 1).filter(|next| next.start > within);
            let next = match members.units.first() {
                Some(first) if within < first.start => Some(first),
                _ => next,
            };
            let end = next.map_or(members.size, |next| next.start);
            let last = of.bytes - 1;
            return (base.wrapping_add(last / of.step * place.step + last % of.step), end - within, true);
        }
        let in_unit = within - of.start;
        if place.step == of.step {
            return (base.wrapping_add(in_unit), of.bytes - in_unit, false);
        }
        let (index, in_step) = (in_unit / of.step, in_unit % of.step);
        (base.wrapping_add(index * place.step + in_step), of.step - in_step, false)
    }
}
