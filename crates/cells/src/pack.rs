//! Compresses cells. SPEC: stream.md#cells.
//!
//! Each program counter predicts the next one, and remembers its last word and the last difference between its words. Fully
//! predicted cells cost only a count, so a loop over an array of any length takes a few bytes. Packing and unpacking keep the
//! same table. Each frame is packed independently.
//!
//! A packed frame consists of tokens, whose lower two bits give their kind:
//!
//! | bits | token |
//! |---|---|
//! | 0 | as many cells as predicted as the other 6 bits say; 0 = 64 more than the number (LEB128) that follows |
//! | 1 | the side as predicted; the word's difference to the last one of that side follows (zigzag LEB128) |
//! | 2 | a side: difference to that of the cell before (zigzag LEB128), then the word as above |
//!
//! Tokens never contain the bytes with which a frame begins, `F5 51 50 55 …`, so they need not be searched for them. As they
//! are written, a token is 01, 02 or a multiple of 4, and a number ends with its first byte below 80. F5 is none of these
//! tokens, so it is part of a number, which 51 ends. Then 50 is either a token without a number, or a one-byte number that is
//! the last of its token; in both cases a token follows, and 55 is not a token.

use crate::cell::{Cell, LOW};

/// Number of entries in the table.
const N_ENTRIES: usize = 1024;
/// Maximum bytes for a cell: a token and two numbers.
const MAX_CELL_BYTES: usize = 1 + 10 + 10;
/// Maximum bytes for a count of predicted cells; writing one may touch as many.
const MAX_HITS_BYTES: usize = 11;

/// Number of bytes in which this many cells can always be packed.
#[must_use]
pub const fn most_bytes(n_cells: usize) -> usize {
    (MAX_CELL_BYTES + MAX_HITS_BYTES) * n_cells + MAX_HITS_BYTES
}

/// What is remembered about a program counter.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Entry {
    side: u64,
    word: u64,
    stride: u64,
    next: u64,
}

/// The prediction table, which has the size of a first-level cache.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Table {
    entries: [Entry; N_ENTRIES],
}

impl Default for Table {
    /// A table without predictions; all its bytes are 0.
    fn default() -> Table {
        Table { entries: [Entry { side: 0, word: 0, stride: 0, next: 0 }; N_ENTRIES] }
    }
}

impl Table {
    /// Forgets all predictions.
    pub fn clear(&mut self) {
        self.entries.fill(Entry { side: 0, word: 0, stride: 0, next: 0 });
    }
}

/// The index of the entry for a side.
#[inline]
fn index_of(side: u64) -> usize {
    (side.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % N_ENTRIES
}

/// Result of packing cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Size of the packed cells in bytes.
    pub n_bytes: usize,
    /// Number of cells with another tag, which were never written.
    pub n_holes: usize,
}

/// Packs the cells of a buffer with this tag into `out`; `None` if `out` is too small.
///
/// The table is cleared first.
pub fn pack(cells: &[[u64; 2]], tag: u64, table: &mut Table, out: &mut [u8]) -> Option<Packed> {
    table.clear();
    let (mut at, mut n_holes) = (0, 0);
    // Number of predicted cells since the last unpredicted one, and how many of them it takes until a cycle is searched for.
    let (mut n_hits, mut enough) = (0_usize, FIRST_LOOK);
    let mut current = 0_usize;
    let mut last_side = 0_u64;
    let mut nth = 0;
    while let Some(&[word, side]) = cells.get(nth) {
        let cell = if side & !LOW == tag {
            Cell { word, side: side & LOW }
        } else {
            n_holes += 1;
            Cell::HOLE
        };
        nth += 1;
        let guess = table.entries[current].next as usize % N_ENTRIES;
        let entry = &mut table.entries[guess];
        let difference = cell.word.wrapping_sub(entry.word);
        if entry.side == cell.side && difference == entry.stride {
            n_hits += 1;
            entry.word = cell.word;
            current = guess;
            last_side = cell.side;
            if n_hits == enough && n_holes == 0 {
                enough *= 2;
                let n_more = go_round(cells, nth, n_hits, table, &mut current);
                n_hits += n_more;
                nth += n_more;
                // An unpredicted cell follows, or none.
                last_side = table.entries[current].side;
            }
            continue;
        }
        if at + MAX_CELL_BYTES + 11 > out.len() {
            return None;
        }
        // PERF: usually there are many, or none.
        if n_hits > 0 {
            at = put_hits(n_hits, out, at);
            (n_hits, enough) = (0, FIRST_LOOK);
        }
        if entry.side == cell.side {
            out[at] = 1;
            at = put_number(zigzag(difference), out, at + 1);
            entry.stride = difference;
            entry.word = cell.word;
            current = guess;
        } else {
            out[at] = 2;
            at = put_number(zigzag(cell.side.wrapping_sub(last_side)), out, at + 1);
            let place = index_of(cell.side);
            table.entries[current].next = place as u64;
            at = put_number(zigzag(learn(&mut table.entries[place], cell)), out, at);
            current = place;
        }
        last_side = cell.side;
    }
    if at + 11 > out.len() {
        return None;
    }
    Some(Packed { n_bytes: put_hits(n_hits, out, at), n_holes })
}

/// Number of predicted cells after which a cycle is first searched for.
const FIRST_LOOK: usize = 8;

/// Continues from the `nth` cell as long as cells are predicted by entries that form a cycle, like those of a loop, and
/// returns the number of such cells. The `n_hits` cells before were predicted.
///
/// PERF: these cells need no table: after two rounds of the cycle, each cell is that of the previous round plus its
/// difference to the round before that. A loop over an array takes 1 ns per cell instead of 3
/// (`crates/runtime/bench/run.sh`).
fn go_round(cells: &[[u64; 2]], nth: usize, n_hits: usize, table: &mut Table, current: &mut usize) -> usize {
    let next = |table: &Table, entry: usize| table.entries[entry].next as usize % N_ENTRIES;
    let mut entry = *current;
    let mut n_entries = 0;
    // The entries of a cycle are all different, so each remembers the last round.
    loop {
        n_entries += 1;
        if n_entries > n_hits / 2 {
            return 0;
        }
        entry = next(table, entry);
        if entry == *current {
            break;
        }
    }
    let (Some(now), Some(before), Some(twice)) =
        (cells.get(nth..), cells.get(nth - n_entries..), cells.get(nth - 2 * n_entries..))
    else {
        return 0;
    };
    let n_more = n_alike(now, before, twice);
    for _ in 0..n_more % n_entries {
        *current = next(table, *current);
    }
    let mut entry = *current;
    for [word, _] in &cells[nth + n_more - n_entries..nth + n_more] {
        entry = next(table, entry);
        table.entries[entry].word = *word;
    }
    n_more
}

/// Number of leading cells that equal those of the previous round plus the difference to the round before that, including
/// sides.
fn n_alike(now: &[[u64; 2]], before: &[[u64; 2]], twice: &[[u64; 2]]) -> usize {
    const AT_ONCE: usize = 8;
    let odd = |now: u64, before: u64, twice: u64| now.wrapping_add(twice).wrapping_sub(before << 1);
    let mut n_alike = 0;
    for ((now, before), twice) in
        now.chunks_exact(AT_ONCE).zip(before.chunks_exact(AT_ONCE)).zip(twice.chunks_exact(AT_ONCE))
    {
        // Both sums in one loop, so that the compiler vectorises them.
        let mut sums = [0; 2];
        for nth in 0..AT_ONCE {
            for (word, sum) in sums.iter_mut().enumerate() {
                *sum |= odd(now[nth][word], before[nth][word], twice[nth][word]);
            }
        }
        if sums != [0, 0] {
            break;
        }
        n_alike += AT_ONCE;
    }
    let rest = now[n_alike..].iter().zip(&before[n_alike..]).zip(&twice[n_alike..]);
    let rest = rest.take_while(|((now, before), twice)| {
        (0..2).all(|word| odd(now[word], before[word], twice[word]) == 0)
    });
    n_alike + rest.count()
}

/// Stores a cell in the entry for its side. Returns the difference to the previous word, or the word itself if the entry was
/// for another side.
fn learn(entry: &mut Entry, cell: Cell) -> u64 {
    if entry.side != cell.side {
        *entry = Entry { side: cell.side, word: 0, stride: 0, next: entry.next };
    }
    let difference = cell.word.wrapping_sub(entry.word);
    entry.stride = difference;
    entry.word = cell.word;
    difference
}

fn put_hits(n_hits: usize, out: &mut [u8], at: usize) -> usize {
    match n_hits {
        0 => at,
        1..64 => {
            out[at] = (n_hits as u8) << 2;
            at + 1
        }
        _ => {
            out[at] = 0;
            put_number(n_hits as u64 - 64, out, at + 1)
        }
    }
}

/// Writes a number as LEB128. Up to 10 bytes of `out` may be written, including meaningless ones after the number.
///
/// PERF: no branch depends on the length, which processors cannot predict for differences of random addresses.
#[inline]
fn put_number(mut value: u64, out: &mut [u8], mut at: usize) -> usize {
    while value >> 56 != 0 {
        out[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    let n_bytes = ((70 - (value | 1).leading_zeros()) / 7) as usize;
    // Spreads groups of 7 bits to bytes: halves, quarters, eighths.
    value = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    value = value & 0x0000_3fff_0000_3fff | (value & 0x0fff_c000_0fff_c000) << 2;
    value = value & 0x007f_007f_007f_007f | (value & 0x3f80_3f80_3f80_3f80) << 1;
    let more = 0x0080_8080_8080_8080_u64 >> (8 * (8 - n_bytes));
    out[at..at + 8].copy_from_slice(&(value | more).to_le_bytes());
    at + n_bytes
}

const fn zigzag(value: u64) -> u64 {
    (value << 1) ^ ((value as i64 >> 63) as u64)
}

const fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Unpacks at most `n_cells` cells from `bytes` and appends them to `out`. Returns whether there were exactly `n_cells`.
///
/// The table is cleared first. Invalid bytes cannot cause other failures, or more than `n_cells` cells.
pub fn unpack(bytes: &[u8], n_cells: usize, table: &mut Table, out: &mut Vec<Cell>) -> bool {
    table.clear();
    let end = out.len() + n_cells;
    let mut input = bytes.iter();
    let mut current = 0_usize;
    let mut last_side = 0_u64;
    while let Some(&token) = input.next() {
        let guess = table.entries[current].next as usize % N_ENTRIES;
        match token & 3 {
            0 => {
                let mut n_hits = u64::from(token >> 2);
                if n_hits == 0 {
                    let Some(more) = number(&mut input) else { return false };
                    n_hits = more.saturating_add(64);
                }
                for _ in 0..n_hits {
                    if out.len() == end {
                        return false;
                    }
                    let guess = table.entries[current].next as usize % N_ENTRIES;
                    let entry = &mut table.entries[guess];
                    entry.word = entry.word.wrapping_add(entry.stride);
                    out.push(Cell { word: entry.word, side: entry.side });
                    current = guess;
                }
                last_side = table.entries[current].side;
                continue;
            }
            1 => {
                let Some(difference) = number(&mut input) else { return false };
                let entry = &mut table.entries[guess];
                entry.stride = unzigzag(difference);
                entry.word = entry.word.wrapping_add(entry.stride);
                current = guess;
            }
            2 => {
                let (Some(side), Some(difference)) = (number(&mut input), number(&mut input)) else {
                    return false;
                };
                let side = last_side.wrapping_add(unzigzag(side));
                let place = index_of(side);
                table.entries[current].next = place as u64;
                let entry = &mut table.entries[place];
                let word = if entry.side == side { entry.word } else { 0 };
                learn(entry, Cell { word: word.wrapping_add(unzigzag(difference)), side });
                current = place;
            }
            _ => return false,
        }
        if out.len() == end {
            return false;
        }
        let entry = &table.entries[current];
        last_side = entry.side;
        out.push(Cell { word: entry.word, side: entry.side });
    }
    out.len() == end
}

fn number(input: &mut std::slice::Iter<'_, u8>) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *input.next()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cells: &[Cell]) -> usize {
        let mut table = Table::default();
        let mut out = vec![0; cells.len() * MAX_CELL_BYTES + 64];
        const TAG: u64 = 0x1234 << 48;
        let words: Vec<_> = cells.iter().map(|cell| [cell.word, cell.side | TAG]).collect();
        let Packed { n_bytes, n_holes } = pack(&words, TAG, &mut table, &mut out).unwrap();
        assert_eq!(n_holes, 0);
        let mut back = Vec::new();
        assert!(unpack(&out[..n_bytes], cells.len(), &mut table, &mut back));
        assert_eq!(back, cells);
        n_bytes
    }

    /// Numbers without a pattern, the same in each run.
    fn noise(n: usize) -> Vec<u64> {
        let mut state = 0x1234_5678_9abc_def1_u64;
        let step = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..n).map(step).collect()
    }

    #[test]
    fn numbers_are_as_the_format_says() {
        let plain = |mut value: u64| {
            let mut bytes = Vec::new();
            while value >= 0x80 {
                bytes.push(value as u8 | 0x80);
                value >>= 7;
            }
            bytes.push(value as u8);
            bytes
        };
        for shift in 0..64 {
            for value in [1 << shift, (1 << shift) - 1, u64::MAX >> shift, 0x5a5a_5a5a_5a5a_5a5a >> shift] {
                let mut out = [0; 18];
                let n_bytes = put_number(value, &mut out, 0);
                assert_eq!(out[..n_bytes], plain(value), "{value:#x}");
            }
        }
    }

    #[test]
    fn a_loop_over_an_array_takes_a_few_bytes() {
        let body = |i: u64| {
            [
                Cell { word: 3 << 48 | (0x7000_0000 + 8 * i), side: 0x40_1000 },
                Cell { word: 0x13 << 48 | (0x7100_0000 + 8 * i), side: 0x40_1010 },
            ]
        };
        let cells: Vec<Cell> = (0..5000).flat_map(body).collect();
        assert!(check(&cells) < 64);
    }

    /// Packs without looking for cycles: each cell is looked up in the table.
    fn plain(cells: &[Cell]) -> Vec<u8> {
        let mut table = Table::default();
        let (mut out, mut n_hits, mut current, mut last_side) = (vec![0; 64 * cells.len() + 64], 0, 0, 0);
        let mut at = 0;
        for &cell in cells {
            let guess = table.entries[current].next as usize;
            let entry = table.entries[guess];
            if (entry.side, entry.word.wrapping_add(entry.stride)) == (cell.side, cell.word) {
                table.entries[guess].word = cell.word;
                (n_hits, current, last_side) = (n_hits + 1, guess, cell.side);
                continue;
            }
            at = put_hits(std::mem::take(&mut n_hits), &mut out, at);
            let place = if entry.side == cell.side { guess } else { index_of(cell.side) };
            let difference = learn(&mut table.entries[place], cell);
            if entry.side == cell.side {
                out[at] = 1;
                at += 1;
            } else {
                out[at] = 2;
                at = put_number(zigzag(cell.side.wrapping_sub(last_side)), &mut out, at + 1);
                table.entries[current].next = place as u64;
            }
            at = put_number(zigzag(difference), &mut out, at);
            (current, last_side) = (place, cell.side);
        }
        at = put_hits(n_hits, &mut out, at);
        out.truncate(at);
        out
    }

    #[test]
    fn going_round_changes_no_byte() {
        // Loops of any length with strides that change now and then, nested, and stretches of noise.
        let mut cells = Vec::new();
        let random = noise(4000);
        for (nth, seed) in random.iter().enumerate() {
            let (n_sides, n_rounds) = (1 + seed % 37, seed >> 8 & 63);
            let bases = noise(n_sides as usize);
            for round in 0..n_rounds * u64::from(nth % 20 < 3) {
                for side in 0..n_sides {
                    let stride = bases[side as usize] % 64;
                    let word = (bases[side as usize] >> 20).wrapping_add(stride * round);
                    // A cell that occurs in one round only.
                    if seed >> 20 & 3 != 0 || round != 40 {
                        cells.push(Cell { word, side: 0x1000 * (seed >> 30 & 7) + 16 * side });
                    } else {
                        cells.push(Cell { word: word ^ 1, side: 0x9_0000 });
                    }
                }
            }
        }
        for part in cells.chunks(14_000) {
            let words: Vec<_> = part.iter().map(|cell| [cell.word, cell.side]).collect();
            let mut out = vec![0; 64 * words.len() + 64];
            let packed = pack(&words, 0, &mut Table::default(), &mut out).unwrap();
            assert!(out[..packed.n_bytes] == plain(part));
            check(part);
        }
    }

    #[test]
    fn a_cell_with_another_tag_is_a_hole() {
        let mut words: Vec<_> = (0..1000_u64).map(|nth| [8 * nth, 7 << 48 | 0x40_1000]).collect();
        for nth in [3, 500, 501, 999] {
            words[nth][1] = 6 << 48 | 0x40_1000;
        }
        let mut out = [0; 1000];
        let packed = pack(&words, 7 << 48, &mut Table::default(), &mut out).unwrap();
        assert_eq!(packed.n_holes, 4);
        let mut cells = Vec::new();
        assert!(unpack(&out[..packed.n_bytes], 1000, &mut Table::default(), &mut cells));
        let holes = cells.iter().enumerate().filter(|(_, cell)| **cell == Cell::HOLE).map(|(nth, _)| nth);
        assert_eq!(holes.collect::<Vec<_>>(), [3, 500, 501, 999]);
        assert!(
            cells.iter().enumerate().all(|(nth, cell)| *cell == Cell::HOLE || cell.word == 8 * nth as u64)
        );
    }

    #[test]
    fn any_cells_come_back() {
        check(&[]);
        let random = noise(4000);
        let cells: Vec<Cell> =
            random.chunks(2).map(|pair| Cell { word: pair[0], side: pair[1] & crate::cell::LOW }).collect();
        check(&cells);
        // Few program counters in any order; a side of 0; words that wrap around.
        let cells: Vec<Cell> =
            random.iter().map(|&value| Cell { word: value << (value % 60), side: value % 7 }).collect();
        check(&cells);
        check(&[Cell { word: u64::MAX, side: 0 }, Cell { word: 0, side: 0 }, Cell { word: 1, side: 0 }]);
    }

    #[test]
    fn tokens_never_have_the_bytes_that_a_frame_begins_with() {
        let random = noise(60_000);
        // Differences whose encoding resembles the sync bytes.
        let odd = [0x28f5, 0x51f5, 0x2871, 0x50, 0x0d31_5550_51f5, 0x1a0a_0d31_5550_51f5];
        let cells: Vec<[u64; 2]> = random
            .chunks_exact(2)
            .map(|pair| {
                let pick = |seed: u64| odd[(seed % 6) as usize] ^ (seed >> 8 & 1).wrapping_neg() & seed >> 40;
                [pick(pair[0]), pick(pair[1]) & LOW]
            })
            .collect();
        for part in cells.chunks(10_000) {
            let payload = crate::whole::payload(part);
            let is_sync = |bytes: &[u8]| bytes == crate::layout::SYNC;
            assert!(!payload.windows(8).any(is_sync));
        }
    }

    #[test]
    fn too_small_an_output_is_refused() {
        let cells: Vec<_> = noise(64).into_iter().map(|word| [word, word >> 16]).collect();
        let mut out = [0; 256];
        assert_eq!(pack(&cells, 0, &mut Table::default(), &mut out), None);
    }

    #[test]
    fn damaged_bytes_are_refused_or_give_no_more_cells_than_asked_for() {
        for seed in 0..200 {
            let bytes: Vec<u8> = noise(300 + seed)[seed..].iter().map(|value| *value as u8).collect();
            let mut out = Vec::new();
            unpack(&bytes, 1000, &mut Table::default(), &mut out);
            assert!(out.len() <= 1000);
        }
    }
}
