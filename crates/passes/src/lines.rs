//! Cuts an access into the cache lines (or pages) that it touches, and separates instructions from data.

use crate::tally::Map;
use quipu_model::lens::{AccessKind, MAX_ACCESS_BYTES};
use quipu_model::options::Kind;
use quipu_model::{Error, OptionSpec, Options, Result, Spans};

/// The option for the size of lines.
pub(crate) const LINE_SIZE: OptionSpec =
    OptionSpec::new("line-size", Kind::PowerOfTwo, "64", "bytes in a line, a power of two");
/// The option for the size of pages.
pub(crate) const PAGE_SIZE: OptionSpec =
    OptionSpec::new("page-size", Kind::PowerOfTwo, "4096", "bytes in a page, a power of two");

/// The side of a split cache that sees an access, as an index: fetches and prefetches of instructions belong to the first
/// side, reads, writes and all other prefetches to the second, flushes to none. PERF: looked up rather than matched, since
/// fetches and data alternate in no pattern that a branch predictor learns; benches `histogram`, `working-set`.
#[inline]
pub(crate) fn side_of(kind: AccessKind) -> Option<usize> {
    const SIDES: [u8; AccessKind::ALL.len()] = {
        let mut sides = [NO_SIDE; AccessKind::ALL.len()];
        sides[AccessKind::Fetch as usize] = INSTR as u8;
        sides[AccessKind::PrefetchInstr as usize] = INSTR as u8;
        sides[AccessKind::Read as usize] = DATA as u8;
        sides[AccessKind::Write as usize] = DATA as u8;
        sides[AccessKind::Prefetch as usize] = DATA as u8;
        sides
    };
    let side = SIDES[kind as usize];
    (side != NO_SIDE).then_some(usize::from(side & 1))
}

/// The side of instructions.
pub(crate) const INSTR: usize = 0;
/// The side of data.
pub(crate) const DATA: usize = 1;
const NO_SIDE: u8 = 2;

/// A size of line, as a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    shift: u32,
}

/// Maximum number of lines of one access, which is one line for each byte of the largest access that passes get.
pub(crate) const MAX_LINES_PER_ACCESS: u64 = MAX_ACCESS_BYTES as u64;

/// Accesses to more lines than this are kept as runs of lines, not line by line: no instruction makes such accesses, and a
/// trace that claims thousands of them would take gigabytes.
pub(crate) const WIDE_LINES: u64 = 64;

impl Lines {
    /// Lines of `bytes`, which must be a power of two.
    pub(crate) fn new(bytes: u64) -> Lines {
        Lines { shift: bytes.trailing_zeros() }
    }

    /// Lines of the size that [`LINE_SIZE`] selects.
    pub(crate) fn of(options: &Options) -> Lines {
        Lines::new(options.count(&LINE_SIZE))
    }

    /// Lines, and pages of the size that [`PAGE_SIZE`] selects, with the number of lines in a page as a power of two.
    ///
    /// # Errors
    /// `Usage` for pages that are smaller than lines.
    pub(crate) fn with_pages(options: &Options) -> Result<(Lines, Lines, u32)> {
        let (lines, pages) = (Lines::of(options), Lines::new(options.count(&PAGE_SIZE)));
        let lines_in_page = lines.coarser(pages).ok_or_else(|| {
            let (page, line) = (pages.bytes(), lines.bytes());
            Error::usage(format!("option `page-size` wants at least `line-size` ({line}), found `{page}`"))
        })?;
        Ok((lines, pages, lines_in_page))
    }

    /// Bytes in a line.
    pub(crate) fn bytes(self) -> u64 {
        1 << self.shift
    }

    /// The address at which line number `line` begins.
    pub(crate) fn addr(self, line: u64) -> u64 {
        line << self.shift
    }

    /// The number of the line that holds `addr`.
    #[inline]
    pub(crate) fn line(self, addr: u64) -> u64 {
        addr >> self.shift
    }

    /// The ratio of `other`'s size to this one, as a power of two; `None` if `other` is finer.
    pub(crate) fn coarser(self, other: Lines) -> Option<u32> {
        other.shift.checked_sub(self.shift)
    }

    /// Calls `touch` with the number of each line in `addr .. addr + size`, in ascending order; if there are more than
    /// [`WIDE_LINES`], calls `wide` once instead, with the first and the last.
    ///
    /// Counted as in DynamoRIO's tools: from the line that holds `addr` on, while a line begins before `addr + size`. So an
    /// access of no bytes touches its line unless it is exactly at the line's start.
    // PERF: by itself the compiler makes a call for each access, at half the speed; bench `working-set`.
    #[inline(always)]
    pub(crate) fn each(self, addr: u64, size: u32, mut touch: impl FnMut(u64), wide: impl FnOnce(u64, u64)) {
        let first = addr >> self.shift;
        let end = addr.saturating_add(u64::from(size));
        if end > first << self.shift {
            let last = (end - 1) >> self.shift;
            if last - first >= WIDE_LINES {
                return wide(first, last.min(first.saturating_add(MAX_LINES_PER_ACCESS - 1)));
            }
            touch(first);
            (first + 1..=last).for_each(touch);
        }
    }
}

/// Moves the lines of `narrow` that are in runs of `wide` to `wide`, so that no line is in both.
pub(crate) fn gather<V: Copy + PartialEq>(
    narrow: &mut Map<u64, V>,
    wide: &mut Spans<V>,
    mut join: impl FnMut(V, V) -> V,
) {
    if !wide.is_empty() {
        narrow.retain(|line, value| {
            let is_narrow = wide.get(*line).is_none();
            if !is_narrow {
                wide.change(*line, *line, |old| old.map_or(*value, |old| join(old, *value)));
            }
            is_narrow
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: u64, addr: u64, size: u32, expected: &[u64]) {
        let mut lines = Vec::new();
        Lines::new(bytes).each(addr, size, |line| lines.push(line), |_, _| panic!("it is narrow"));
        assert_eq!(lines, expected, "{addr:#x} + {size}");
    }

    #[test]
    fn an_access_touches_every_line_it_overlaps() {
        check(64, 0x1000, 64, &[0x40]);
        check(64, 0x1001, 64, &[0x40, 0x41]);
        check(64, 0x103f, 130, &[0x40, 0x41, 0x42, 0x43]);
        check(1, 5, 2, &[5, 6]);
    }

    #[test]
    fn an_access_of_no_bytes_touches_its_line_unless_it_is_aligned() {
        check(64, 0x1000, 0, &[]);
        check(64, 0x1001, 0, &[0x40]);
        check(64, 0, 0, &[]);
    }

    #[test]
    fn the_end_of_the_address_space_is_no_trap() {
        check(64, u64::MAX - 3, 100, &[u64::MAX >> 6]);
    }

    #[test]
    fn a_giant_access_counts_on_a_bounded_number_of_lines() {
        let mut found = Vec::new();
        Lines::new(64).each(0, u32::MAX, |_| panic!("it is wide"), |first, last| found.push((first, last)));
        assert_eq!(found, [(0, MAX_LINES_PER_ACCESS - 1)]);
    }
}
