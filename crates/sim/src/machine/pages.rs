//! TLBs for pages of several sizes.
//!
//! The upper bits of a line number hold the address space and, below it, the number of the page's size, so that pages of
//! different sizes are different lines. The lowest bits, which select the set if their number is a power of two, are those of
//! the page's number, whatever its size. An access goes to the first TLB that holds pages of the size at its address; a TLB
//! farther from the cores that does not hold this size passes the request on.

use super::{Machine, Purpose, Request};
use crate::spec::MachineSpec;
use quipu_model::lens::AccessKind;

/// The sizes of pages, and which addresses and TLBs have each.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    /// log2 of each size in bytes; the first is that of all addresses outside of the ranges.
    shifts: Vec<u32>,
    /// Ranges of addresses with other sizes, in order, as first and last address and number of the size.
    ranges: Vec<(u64, u64, usize)>,
    /// Bits for the number of a size.
    bits: u32,
    /// For each cache, a bit set of the sizes that it holds.
    held: Vec<u8>,
}

impl Sizes {
    /// `None` if all pages have the same size.
    pub(super) fn new(spec: &MachineSpec) -> Option<Box<Sizes>> {
        if spec.large.is_empty() {
            return None;
        }
        let sizes = spec.page_sizes();
        let number = |bytes: u64| sizes.iter().position(|size| *size == bytes).unwrap_or(0);
        let mut ranges: Vec<(u64, u64, usize)> =
            spec.large.iter().map(|of| (of.first, of.last, number(of.bytes))).collect();
        ranges.sort_unstable();
        let held = spec.caches.iter().map(|cache| {
            let held = sizes.iter().enumerate().filter(|(_, bytes)| cache.holds(**bytes));
            held.fold(0, |bits, (size, _)| bits | 1 << size) // `layout` allows eight sizes.
        });
        Some(Box::new(Sizes {
            held: held.collect(),
            shifts: sizes.iter().map(|bytes| bytes.trailing_zeros()).collect(),
            ranges,
            bits: usize::BITS - (sizes.len() - 1).leading_zeros(),
        }))
    }

    /// Bits of a line number that hold the number of its size.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// Number of the size of the page at an address.
    fn of(&self, addr: u64) -> usize {
        let at = self.ranges.partition_point(|(first, ..)| *first <= addr);
        let range = at.checked_sub(1).map(|at| self.ranges[at]);
        range.filter(|(_, last, _)| addr <= *last).map_or(0, |(.., size)| size)
    }

    /// Whether a cache holds pages of the size of this one.
    pub(super) fn holds(&self, cache: usize, line: u64, shift: u32) -> bool {
        let size = line >> (64 - shift) & ((1 << self.bits) - 1);
        self.held[cache] >> size & 1 == 1
    }
}

impl Machine {
    /// Simulates one access of a core to pages of several sizes; flushes have no effect. Misses are logged with the first
    /// address of their page.
    pub(super) fn access_pages(&mut self, core: usize, kind: AccessKind, addr: u64, size: u32, pc: u64) {
        let (side, purpose) = match kind {
            AccessKind::Fetch => (0, Purpose::Fetch),
            AccessKind::Read => (1, Purpose::Read),
            AccessKind::Write => (1, Purpose::Write),
            AccessKind::Prefetch => (1, Purpose::Prefetch),
            AccessKind::PrefetchInstr => (0, Purpose::Prefetch),
            AccessKind::FlushData | AccessKind::FlushInstr => return,
        };
        let mut last = addr.wrapping_add(u64::from(size)).wrapping_sub(1);
        let mut request = Request { addr, pc, size, purpose, row: 0 };
        loop {
            let Some(sizes) = &self.sizes else { return };
            let number = sizes.of(request.addr);
            let shift = sizes.shifts[number];
            let (page, start) = (request.addr >> shift, request.addr >> shift << shift);
            let end = start | ((1 << shift) - 1);
            if size == 0 {
                // An empty access touches the page around it, as one within a line does; at its start it touches nothing.
                last = if request.addr == start { return } else { request.addr };
            }
            // Nothing lies after the last address.
            if last < request.addr {
                return;
            }
            let line = page | (number as u64) << (64 - self.shift) | self.space; // At most eight sizes.
            let first = self.first[number * self.n_cores() + core][side];
            self.request_line(first, line, Request { addr: start, ..request });
            if end >= last {
                return;
            }
            request = request.rest_at(end + 1);
        }
    }
}
