//! Cells in fewer bytes. SPEC: docs/formats/capture.md, "Packed chunks".
//!
//! A program counter predicts which one comes next, and each remembers the word that it came with last and by how much that
//! grew. What is predicted whole costs nothing but a count; a loop over an array of any length is a few bytes. Packing and unpacking keep the
//! same table. A chunk is packed by itself.
//!
//! A packed chunk is tokens, whose lower two bits say what they are:
//!
//! | bits | token |
//! |---|---|
//! | 0 | as many cells as predicted as the other 6 bits say; 0 = 64 more than the number (LEB128) that follows |
//! | 1 | the side as predicted; the word's difference to the last one of that side follows (zigzag LEB128) |
//! | 2 | a side: difference to that of the cell before (zigzag LEB128), then the word as above |

use crate::cell::Cell;

/// Entries of the table.
const N_ENTRIES: usize = 1024;
/// A cell takes at most this many bytes: a token, and two numbers.
const MAX_CELL_BYTES: usize = 1 + 10 + 10;

/// What is remembered of a program counter.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Entry {
    side: u64,
    word: u64,
    stride: u64,
    next: u64,
}

/// What predicts; as large as a first-level cache.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Table {
    entries: [Entry; N_ENTRIES],
}

impl Default for Table {
    /// A table that predicts nothing; all its bytes are 0.
    fn default() -> Table {
        Table { entries: [Entry { side: 0, word: 0, stride: 0, next: 0 }; N_ENTRIES] }
    }
}

impl Table {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.fill(Entry { side: 0, word: 0, stride: 0, next: 0 });
    }
}

/// Where a side stands in the table.
#[inline]
fn index_of(side: u64) -> usize {
    (side.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % N_ENTRIES
}

/// Puts cells into `out` and returns how many bytes they take; `None` if `out` is too small for that.
///
/// The table is cleared first.
pub fn pack(cells: impl Iterator<Item = Cell>, table: &mut Table, out: &mut [u8]) -> Option<usize> {
    table.clear();
    let mut at = 0;
    let mut n_hits = 0_u64;
    let mut current = 0_usize;
    let mut last_side = 0_u64;
    for cell in cells {
        let guess = table.entries[current].next as usize % N_ENTRIES;
        let entry = &mut table.entries[guess];
        let difference = cell.word.wrapping_sub(entry.word);
        if entry.side == cell.side && difference == entry.stride {
            n_hits += 1;
            entry.word = cell.word;
            current = guess;
            last_side = cell.side;
            continue;
        }
        if at + MAX_CELL_BYTES + 11 > out.len() {
            return None;
        }
        at = put_hits(n_hits, out, at);
        n_hits = 0;
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
    Some(put_hits(n_hits, out, at))
}

/// Puts a cell into the entry of its side; returns the difference to the word before, which is 0 for another side.
fn learn(entry: &mut Entry, cell: Cell) -> u64 {
    if entry.side != cell.side {
        *entry = Entry { side: cell.side, word: 0, stride: 0, next: entry.next };
    }
    let difference = cell.word.wrapping_sub(entry.word);
    entry.stride = difference;
    entry.word = cell.word;
    difference
}

fn put_hits(n_hits: u64, out: &mut [u8], at: usize) -> usize {
    match n_hits {
        0 => at,
        1..64 => {
            out[at] = (n_hits as u8) << 2;
            at + 1
        }
        _ => {
            out[at] = 0;
            put_number(n_hits - 64, out, at + 1)
        }
    }
}

fn put_number(mut value: u64, out: &mut [u8], mut at: usize) -> usize {
    while value >= 0x80 {
        out[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value as u8;
    at + 1
}

const fn zigzag(value: u64) -> u64 {
    (value << 1) ^ ((value as i64 >> 63) as u64)
}

const fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Appends the cells that `bytes` stand for to `out`, `n_cells` at most, and returns whether it were just as many.
///
/// The table is cleared first. Nothing that bytes say makes this fail otherwise, or allocate more than was asked for.
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
        let n_bytes = pack(cells.iter().copied(), &mut table, &mut out).unwrap();
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

    #[test]
    fn any_cells_come_back() {
        check(&[]);
        let random = noise(4000);
        let cells: Vec<Cell> =
            random.chunks(2).map(|pair| Cell { word: pair[0], side: pair[1] & crate::cell::LOW }).collect();
        check(&cells);
        // Few program counters, in any order; a side of 0; words that wrap.
        let cells: Vec<Cell> =
            random.iter().map(|&value| Cell { word: value << (value % 60), side: value % 7 }).collect();
        check(&cells);
        check(&[Cell { word: u64::MAX, side: 0 }, Cell { word: 0, side: 0 }, Cell { word: 1, side: 0 }]);
    }

    #[test]
    fn too_small_an_output_is_refused() {
        let cells: Vec<Cell> = noise(64).into_iter().map(|word| Cell { word, side: word >> 16 }).collect();
        let mut out = [0; 256];
        assert_eq!(pack(cells.iter().copied(), &mut Table::default(), &mut out), None);
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
