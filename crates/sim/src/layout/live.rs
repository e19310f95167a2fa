//! Live regions of one type, distinguished from all others.

use super::moved::Old;
use super::units::Members;
use quipu_model::Batch;
use quipu_model::lens::RegionEvent;
use quipu_symbols::attribute::{Attribution, ShapeId, Types};

/// Origin of regions of other types.
const OTHER: u32 = u32::MAX;

/// Tracks regions as batches report them.
#[derive(Clone, Debug)]
pub(super) struct Live {
    attribution: Attribution,
    shape: ShapeId,
    /// Live regions of the type by id, and ids that are free.
    olds: Vec<Old>,
    free: Vec<u32>,
}

/// A change to a region of the type, with its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Added(u32),
    Removed(u32),
}

impl Live {
    /// Creates a tracker without regions.
    pub(super) fn new(types: Types, shape: ShapeId) -> Live {
        Live { attribution: Attribution::new(types), shape, olds: Vec::new(), free: Vec::new() }
    }

    /// Adds the program's variables, with `base` added to their addresses; returns the ids of those that have the type.
    pub(super) fn add_variables(&mut self, base: u64, members: &Members) -> Vec<u32> {
        let globals: Vec<_> = match self.attribution.types().program() {
            Some(program) => program
                .variables()
                .globals
                .iter()
                .filter_map(|global| Some((global.address.wrapping_add(base), global.size, global.ty?)))
                .collect(),
            None => Vec::new(),
        };
        let mut added = Vec::new();
        for (addr, size, ty) in globals {
            match self.attribution.types_mut().of_type(ty) {
                Some((shape, n)) if shape == self.shape => {
                    let old =
                        Old { start: addr, bytes: members.size.saturating_mul(n), n, stride: members.size };
                    let id = self.keep(old);
                    self.attribution.add_shape(shape, addr, n, id);
                    added.push(id);
                }
                _ if size > 0 => {
                    self.attribution.add_plain(addr, size, OTHER);
                }
                _ => {}
            }
        }
        added
    }

    fn keep(&mut self, old: Old) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.olds[id as usize] = old;
                id
            }
            None => {
                self.olds.push(old);
                (self.olds.len() - 1) as u32 // Below the limit of regions.
            }
        }
    }

    /// Applies a row of the regions lens; returns the change if the region has the type.
    pub(super) fn event(&mut self, batch: &Batch, row: usize, members: &Members) -> Option<Change> {
        let regions = &batch.regions;
        let addr = regions.addr[row];
        if regions.what[row] == RegionEvent::Remove {
            let region = self.attribution.remove(addr)?;
            let id = region.what.origin;
            if id == OTHER {
                return None;
            }
            self.free.push(id);
            return Some(Change::Removed(id));
        }
        let (element_bytes, n_elements) = (regions.element_bytes[row], regions.n_elements[row]);
        let name = regions.type_name.get(row);
        let is_ours = self.attribution.types_mut().find(name).is_some_and(|(shape, _)| shape == self.shape);
        if !is_ours {
            self.attribution.add_named(name, addr, element_bytes, n_elements, OTHER);
            return None;
        }
        let bytes = element_bytes.saturating_mul(n_elements);
        let id = self.keep(Old { start: addr, bytes, n: 1, stride: 0 });
        if self.attribution.add_named(name, addr, element_bytes, n_elements, id).is_none() {
            self.free.push(id);
            return None;
        }
        // The map of regions has determined the number of elements.
        let stride =
            if bytes > 0 { self.attribution.at(addr).map_or(0, |hit| hit.region.what.stride) } else { 0 };
        let old = &mut self.olds[id as usize];
        if stride > 0 {
            (old.stride, old.n) = (stride, bytes / stride);
        } else {
            old.stride = members.size;
        }
        Some(Change::Added(id))
    }

    /// A live region of the type.
    pub(super) fn old(&self, id: u32) -> Old {
        self.olds[id as usize]
    }

    /// Id of the region of the type that contains an address.
    #[inline]
    pub(super) fn at(&mut self, addr: u64) -> Option<u32> {
        let hit = self.attribution.at(addr)?;
        (hit.region.what.origin != OTHER).then_some(hit.region.what.origin)
    }
}

impl Old {
    /// Index of the element that contains an address of the region, and the offset in it.
    #[inline]
    pub(super) fn element(&self, addr: u64) -> (u64, u64) {
        let offset = addr.wrapping_sub(self.start);
        if self.n > 1 { (offset / self.stride, offset % self.stride) } else { (0, offset) }
    }
}
