//! Settles lines before regions change: which bytes were used, and which threads shared them.

use super::count::Whose;
use super::sharing::{Shared, SharedWith, Turn};
use super::space::{NOBODY, PAGE_SHIFT};
use super::{Fields, bits_between, spans};

impl Fields {
    /// Settles the lines between two addresses: counts the bytes that were used, and resolves what threads shared so far.
    pub(super) fn settle(&mut self, start: u64, end: u64) {
        let Fields { attribution, space, kinds, sites, totals, lines, sharing, .. } = self;
        let (regions, types) = (attribution.regions(), attribution.types());
        let (line_shift, unit_shift) = (self.line_shift, self.unit_shift);
        space.each_page(start, end, |base, page_lines| {
            let page_last = base | ((1 << PAGE_SHIFT) - 1);
            let (first, last) = (start.max(base), (end - 1).min(page_last));
            let lines_of_page = (first - base) >> line_shift..=(last - base) >> line_shift;
            for index in lines_of_page {
                let Some(line) = page_lines.get_mut(index as usize) else { continue };
                let touched = line.touched();
                if touched == 0 && !line.is_shared {
                    continue;
                }
                let line_base = base + (index << line_shift);
                let number = line_base >> line_shift;
                let first = first.max(line_base);
                let last = last.min(line_base | ((1 << line_shift) - 1));
                let bits = |from: u64, to: u64| bits_between(from, to - 1, line_shift, unit_shift);
                let end = last.saturating_add(1);
                // Threads that touch this memory later do not share data that is gone.
                let gone = bits_between(first, last, line_shift, unit_shift);
                if line.is_shared && (line.seen[0] | line.seen[1]) & gone != 0 {
                    sharing.ended(number, Turn { thread: line.owner, seen: line.seen });
                    line.hand_over(NOBODY);
                }
                line.forget(gone);
                let mut shared = line.is_shared.then(|| sharing.lines.get_mut(&number)).flatten();
                let (mut at, mut is_untyped) = (first, false);
                for (from, to, _, region) in regions.stretches(first, end) {
                    is_untyped |= at < from && touched & bits(at, from) != 0;
                    at = to;
                    let origin = region.what.origin;
                    let Some(site) = sites.get(origin as usize) else { continue };
                    let kind = &kinds[site.kind as usize];
                    if touched & bits(from, to) != 0 {
                        lines.add(Whose::Kind(site.kind), number);
                        lines.add(Whose::Site(origin), number);
                        spans(types, kind, region, from..to, &mut |counter, bytes| {
                            let n = bytes.end - bytes.start;
                            let of = touched & bits(bytes.start, bytes.end);
                            let used = (u64::from(of.count_ones()) << unit_shift).min(n);
                            totals.settle(counter, n, used);
                            if used > 0 {
                                lines.add(Whose::Counter(counter), number);
                            }
                        });
                    }
                    if let Some(shared) = &mut shared {
                        spans(types, kind, region, from..to, &mut |counter, bytes| {
                            let element = region.hit(bytes.start).element;
                            let with = SharedWith { thread: 0, origin, counter, element };
                            shared.resolve(with, site.kind, bits(bytes.start, bytes.end));
                        });
                    }
                }
                is_untyped |= at < end && touched & bits(at, end) != 0;
                if is_untyped {
                    lines.add(Whose::Kind(0), number);
                    lines.add(Whose::Site(0), number);
                    lines.add(Whose::Counter(0), number);
                }
                if at < end
                    && let Some(shared) = &mut shared
                {
                    let with = SharedWith { thread: 0, origin: 0, counter: 0, element: 0 };
                    shared.resolve(with, 0, bits(at, end));
                }
                if let Some(shared) = &mut shared {
                    shared.forget(gone);
                }
            }
        });
    }

    /// Settles all lines.
    pub(super) fn settle_all(&mut self) {
        self.settle(0, u64::MAX);
    }
}

/// Parts of one shared line that are listed.
const MAX_PARTS: usize = 64;

impl Shared {
    /// Records to which threads and fields some touched bytes belong, and counts false sharing for their kind.
    fn resolve(&mut self, with: SharedWith, kind: u32, bits: u64) {
        if self.touched.iter().any(|(_, touched)| touched & bits != 0) {
            self.count(kind);
        }
        for (thread, touched) in &mut self.touched {
            if *touched & bits == 0 {
                continue;
            }
            *touched &= !bits;
            let with = SharedWith { thread: *thread, ..with };
            if self.with.len() < MAX_PARTS && !self.with.contains(&with) {
                self.with.push(with);
            }
        }
    }
}
