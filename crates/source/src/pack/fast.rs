//! Deflating traces at the fastest level: a few gigabytes a second where code repeats.
//!
//! Records of a trace repeat at some distance (that of the previous iteration of a loop) with a few bytes changed in between.
//! So the distance of the last match is tried first, right after the byte that ended it; only if that fails is a place looked
//! up where the same eight bytes occurred. Only one place is remembered for each hash value, and none inside matches: the
//! match found is seldom the longest, but it is found quickly. New Huffman codes are made for every 65,536 symbols.
//!
//! SPEC: RFC 1951. Higher levels use libraries (`blocks.rs`).

/// Maximum distance of a match.
const WINDOW: usize = 32 << 10;
const MIN_MATCH: usize = 4;
const MAX_MATCH: usize = 258;
const HASH_BITS: u32 = 15;
/// Maximum number of symbols that share one set of codes.
const MOST_TOKENS: usize = 64 << 10;
/// The symbol that ends a block.
const END: usize = 256;
const N_LITERALS: usize = 286;
const N_DISTANCES: usize = 30;
/// Length of the longest code of a literal, length or distance.
const MAX_BITS: usize = 15;
/// The order in which the header lists the lengths of the codes for code lengths.
const CODE_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// Lengths of the codes for code lengths, always the same: a complete code for all lengths but 16.
const CODE_BITS: [u8; 19] = [4, 5, 5, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0, 5, 4];

/// Length symbol (less 257), number of extra bits and value of these bits, for each match length from 3 on.
const LENGTHS: [(u8, u8, u8); 256] = lengths();
/// Distance symbols: the first half by distance less one, up to 256; the second half for larger distances, by the distance
/// less one divided by 128.
const DISTANCES: [u8; 512] = distances();

const fn lengths() -> [(u8, u8, u8); 256] {
    let mut all = [(0, 0, 0); 256];
    let (mut symbol, mut from) = (0, 0);
    while symbol < 28 {
        let extra = if symbol < 8 { 0 } else { (symbol - 4) / 4 };
        let mut i = 0;
        while i < 1 << extra && from + i < 256 {
            all[from + i] = (symbol as u8, extra as u8, i as u8);
            i += 1;
        }
        from += 1 << extra;
        symbol += 1;
    }
    // Length 258 has its own symbol.
    all[255] = (28, 0, 0);
    all
}

const fn extra_of(symbol: usize) -> usize {
    if symbol < 4 { 0 } else { symbol / 2 - 1 }
}

const fn distances() -> [u8; 512] {
    let mut all = [0; 512];
    let (mut symbol, mut from) = (0, 0);
    while symbol < N_DISTANCES {
        let mut i = 0;
        while i < 1 << extra_of(symbol) {
            let at = from + i;
            if at < 256 {
                all[at] = symbol as u8;
            } else {
                all[256 + (at >> 7)] = symbol as u8;
            }
            i += 1;
        }
        from += 1 << extra_of(symbol);
        symbol += 1;
    }
    all
}

#[inline]
fn distance_symbol(distance: usize) -> usize {
    let at = distance - 1;
    usize::from(if at < 256 { DISTANCES[at] } else { DISTANCES[256 + (at >> 7 & 255)] })
}

/// Buffers that are reused from one call to the next.
#[derive(Debug)]
pub(crate) struct Fast {
    /// The last place of each hash value, counted from 1; 0 for none.
    places: Vec<u32>,
    /// Literals and matches; a match has its length less 3 in the low bits and its distance above.
    tokens: Vec<u32>,
    literals: [u32; N_LITERALS],
    distances: [u32; N_DISTANCES],
}

impl Default for Fast {
    fn default() -> Fast {
        Fast {
            places: vec![0; 1 << HASH_BITS],
            tokens: Vec::with_capacity(MOST_TOKENS + 1),
            literals: [0; N_LITERALS],
            distances: [0; N_DISTANCES],
        }
    }
}

impl Fast {
    /// Appends `plain` as a part of a deflate stream that does not refer to earlier parts. The part ends with the stream, or
    /// else at a byte border.
    pub(crate) fn deflate(&mut self, plain: &[u8], is_last: bool, out: &mut Vec<u8>) {
        let mut bits = Bits { out, held: 0, n_held: 0 };
        self.places.fill(0);
        let mut at = 0;
        while at < plain.len() {
            at = self.parse(plain, at);
            self.block(&mut bits, is_last && at == plain.len());
        }
        if plain.is_empty() && is_last {
            self.block(&mut bits, true);
        } else if !is_last {
            // An empty stored block, which begins at the next byte.
            bits.put(0, 3);
            bits.align();
            bits.out.extend_from_slice(&[0, 0, 0xff, 0xff]);
        }
        bits.align();
    }

    /// Turns bytes from `from` on into tokens, until there are enough; returns the position where it stopped.
    fn parse(&mut self, plain: &[u8], from: usize) -> usize {
        let mut at = from;
        let mut distance = 0;
        let places: &mut [u32; 1 << HASH_BITS] = match self.places.as_mut_slice().try_into() {
            Ok(places) => places,
            Err(_) => return plain.len(),
        };
        while self.tokens.len() < MOST_TOKENS {
            let Some(now) = eight(plain, at) else {
                // The last bytes are not worth a match.
                let rest = plain.get(at..).unwrap_or_default();
                let room = MOST_TOKENS + 8;
                for byte in rest.iter().take(room) {
                    self.tokens.push(u32::from(*byte));
                    self.literals[usize::from(*byte)] += 1;
                }
                return plain.len();
            };
            let slot = (now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASH_BITS)) as usize;
            let known = places[slot] as usize;
            places[slot] = at as u32 + 1;
            let again = at.checked_sub(distance).filter(|_| distance > 0).and_then(|at| eight(plain, at));
            let mut same = again.map_or(0, |again| ((again ^ now).trailing_zeros() / 8) as usize);
            if same < MIN_MATCH {
                let back = (at + 1).wrapping_sub(known);
                let is_near = known > 0 && back <= WINDOW;
                let found = if is_near { eight(plain, known - 1) } else { None };
                same = found.map_or(0, |found| ((found ^ now).trailing_zeros() / 8) as usize);
                if same < MIN_MATCH {
                    self.tokens.push(now as u32 & 255);
                    self.literals[(now & 255) as usize] += 1;
                    at += 1;
                    continue;
                }
                distance = back;
            }
            if same == 8 {
                same = extent(plain, at, distance);
            }
            let (symbol, _, _) = LENGTHS[same - 3];
            self.literals[257 + usize::from(symbol)] += 1;
            self.distances[distance_symbol(distance)] += 1;
            self.tokens.push((distance as u32) << 9 | 256 | (same - 3) as u32 & 255);
            at += same;
        }
        at
    }

    /// Writes the tokens as a block.
    fn block(&mut self, bits: &mut Bits<'_>, is_final: bool) {
        self.literals[END] = 1;
        // Some readers reject a code with a single symbol.
        for symbol in [0, 1] {
            self.literals[symbol] = self.literals[symbol].max(1);
            self.distances[symbol] = self.distances[symbol].max(1);
        }
        let literals = codes::<N_LITERALS>(&self.literals);
        let distances = codes::<N_DISTANCES>(&self.distances);
        bits.put(u64::from(is_final) | 2 << 1, 3);
        head(bits, &literals, &distances);
        for token in &self.tokens {
            let value = (token & 255) as usize;
            if token & 256 == 0 && *token < 256 {
                let (code, n) = literals[value];
                bits.put(u64::from(code), u32::from(n));
                continue;
            }
            let (symbol, extra, rest) = LENGTHS[value];
            let (code, n) = literals[257 + usize::from(symbol)];
            let mut all = u64::from(code) | u64::from(rest) << n;
            let mut n_all = u32::from(n) + u32::from(extra);
            let distance = (token >> 9) as usize;
            let symbol = distance_symbol(distance);
            let (code, n) = distances[symbol];
            all |= u64::from(code) << n_all;
            n_all += u32::from(n);
            let extra = extra_of(symbol);
            all |= (((distance - 1) & ((1 << extra) - 1)) as u64) << n_all;
            // At most 15 + 5 + 15 + 13.
            bits.put(all, n_all + extra as u32);
        }
        let (code, n) = literals[END];
        bits.put(u64::from(code), u32::from(n));
        self.tokens.clear();
        (self.literals, self.distances) = ([0; N_LITERALS], [0; N_DISTANCES]);
    }
}

/// Eight bytes as a little-endian number; `None` if there are fewer.
#[inline(always)]
fn eight(plain: &[u8], at: usize) -> Option<u64> {
    plain.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Number of bytes from `at` on, at most `MAX_MATCH`, that equal those `distance` before them.
#[inline]
fn extent(plain: &[u8], at: usize, distance: usize) -> usize {
    let most = (plain.len() - at).min(MAX_MATCH);
    let (now, before) = (&plain[at..at + most], &plain[at - distance..at - distance + most]);
    let mut same = 0;
    for (now, before) in now.chunks_exact(8).zip(before.chunks_exact(8)) {
        let (now, before) = (eight(now, 0).unwrap_or(0), eight(before, 0).unwrap_or(0));
        if now != before {
            return same + ((now ^ before).trailing_zeros() / 8) as usize;
        }
        same += 8;
    }
    same + now[same..].iter().zip(&before[same..]).take_while(|(now, before)| now == before).count()
}

/// Collects bits into bytes.
struct Bits<'o> {
    out: &'o mut Vec<u8>,
    held: u64,
    n_held: u32,
}

impl Bits<'_> {
    /// Appends at most 48 bits; higher bits must be zero.
    #[inline(always)]
    fn put(&mut self, bits: u64, n: u32) {
        self.held |= bits << self.n_held;
        self.n_held += n;
        // At most 15 + 48 bits are held.
        if self.n_held >= 16 {
            let n_bytes = (self.n_held / 8) as usize;
            self.out.extend_from_slice(&self.held.to_le_bytes());
            self.out.truncate(self.out.len() - 8 + n_bytes);
            self.held = if n_bytes == 8 { 0 } else { self.held >> (8 * n_bytes) };
            self.n_held &= 7;
        }
    }

    fn align(&mut self) {
        let n_bytes = self.n_held.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.held.to_le_bytes()[..n_bytes]);
        (self.held, self.n_held) = (0, 0);
    }
}

/// Writes the header of a block: the lengths of all codes.
fn head<const L: usize, const D: usize>(
    bits: &mut Bits<'_>,
    literals: &[(u16, u8); L],
    distances: &[(u16, u8); D],
) {
    let used = |codes: &[(u16, u8)], least: usize| {
        codes.iter().rposition(|(_, n)| *n > 0).map_or(least, |last| (last + 1).max(least))
    };
    let (n_literals, n_distances) = (used(literals, 257), used(distances, 1));
    bits.put((n_literals - 257) as u64, 5);
    bits.put((n_distances - 1) as u64, 5);
    bits.put(19 - 4, 4);
    CODE_ORDER.iter().for_each(|symbol| bits.put(u64::from(CODE_BITS[*symbol]), 3));
    let codes = canonical(&CODE_BITS);
    let mut put = |symbol: usize| bits.put(u64::from(codes[symbol].0), u32::from(codes[symbol].1));
    let all = literals[..n_literals].iter().chain(&distances[..n_distances]);
    all.for_each(|(_, n)| put(usize::from(*n)));
}

/// Makes a code for each symbol from its frequency: the code's bits, the first bit lowest, and their number.
fn codes<const N: usize>(counts: &[u32; N]) -> [(u16, u8); N] {
    canonical(&code_lengths(counts))
}

/// Assigns canonical codes to these lengths.
fn canonical<const N: usize>(lengths: &[u8; N]) -> [(u16, u8); N] {
    let mut next = [0_u16; MAX_BITS + 2];
    for n in lengths.iter().filter(|n| **n > 0) {
        next[usize::from(*n) + 1] += 1;
    }
    for n in 1..=MAX_BITS + 1 {
        next[n] = next[n].wrapping_add(next[n - 1]) << 1;
    }
    lengths.map(|n| {
        if n == 0 {
            return (0, 0);
        }
        let code = next[usize::from(n)];
        next[usize::from(n)] += 1;
        (code.reverse_bits() >> (16 - n), n)
    })
}

/// Code lengths of a Huffman code, limited to [`MAX_BITS`] at little cost in compression.
fn code_lengths<const N: usize>(counts: &[u32; N]) -> [u8; N] {
    let mut order: Vec<usize> = (0..N).filter(|symbol| counts[*symbol] > 0).collect();
    order.sort_by_key(|symbol| (counts[*symbol], *symbol));
    let mut lengths = [0; N];
    if order.len() < 2 {
        order.iter().for_each(|symbol| lengths[*symbol] = 1);
        return lengths;
    }
    // Leaves by weight, then inner nodes as they are created, which is also by weight.
    let n = order.len();
    let mut weights: Vec<u64> = order.iter().map(|symbol| u64::from(counts[*symbol])).collect();
    let mut parents = vec![0_usize; 2 * n - 1];
    let (mut leaf, mut inner) = (0, n);
    for node in n..2 * n - 1 {
        let mut weight = 0;
        for _ in 0..2 {
            let is_leaf = leaf < n && (inner >= node || weights[leaf] <= weights[inner]);
            let least = if is_leaf { &mut leaf } else { &mut inner };
            weight += weights[*least];
            parents[*least] = node;
            *least += 1;
        }
        weights.push(weight);
    }
    let mut depths = vec![0_usize; 2 * n - 1];
    let mut n_of = [0_usize; MAX_BITS + 1];
    for node in (0..2 * n - 2).rev() {
        depths[node] = depths[parents[node]] + 1;
        if node < n {
            n_of[depths[node].min(MAX_BITS)] += 1;
        }
    }
    // Too many long codes: each step splits a shorter code into two that are one bit longer; one of them replaces a code of
    // maximum length.
    let mut room: usize = (1..=MAX_BITS).map(|bits| n_of[bits] << (MAX_BITS - bits)).sum();
    while room > 1 << MAX_BITS {
        n_of[MAX_BITS] -= 1;
        if let Some(bits) = (1..MAX_BITS).rev().find(|bits| n_of[*bits] > 0) {
            n_of[bits] -= 1;
            n_of[bits + 1] += 2;
        }
        room -= 1;
    }
    let mut symbols = order.iter();
    for bits in (1..=MAX_BITS).rev() {
        for symbol in symbols.by_ref().take(n_of[bits]) {
            lengths[*symbol] = bits as u8; // At most 15.
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    /// Deflates in parts of `part` bytes, and inflates with another crate.
    fn check(plain: &[u8], part: usize) -> usize {
        let (mut fast, mut packed) = (Fast::default(), Vec::new());
        let n_parts = plain.len().div_ceil(part).max(1);
        for i in 0..n_parts {
            let bytes = &plain[(i * part).min(plain.len())..((i + 1) * part).min(plain.len())];
            fast.deflate(bytes, i + 1 == n_parts, &mut packed);
        }
        let mut inflated = Vec::new();
        flate2::read::DeflateDecoder::new(&packed[..]).read_to_end(&mut inflated).unwrap();
        assert!(inflated == plain, "{} bytes in parts of {part}", plain.len());
        let mut whole = vec![0; plain.len()];
        let n = libdeflater::Decompressor::new().deflate_decompress(&packed, &mut whole).unwrap();
        assert!(n == plain.len() && whole == plain);
        packed.len()
    }

    /// Pseudo-random numbers of `bits` bits, always the same.
    fn random(n: usize, bits: u32) -> Vec<u8> {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state & ((1 << bits) - 1)) as u8
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn bytes_come_back_whatever_they_are() {
        for bits in [0, 1, 3, 8] {
            for n in [0, 1, 7, 8, 9, 257, 258, 259, 270, 40_000, 300_000] {
                check(&random(n, bits), 1 << 20);
                check(&random(n, bits), 70_001);
            }
        }
    }

    #[test]
    fn matches_of_each_length_at_each_kind_of_distance_come_back() {
        let mut plain = random(40_000, 8);
        for (i, distance) in (0..15)
            .flat_map(|bits| [(1 << bits), (1 << bits) + 1, (3 << bits) / 2])
            .chain([32_767, 32_768])
            .enumerate()
        {
            for len in 3..=270 {
                let from = plain.len() - distance;
                plain.extend_from_within(from..from + len.min(distance));
                plain.push((i * len) as u8);
            }
        }
        check(&plain, 1 << 20);
    }

    #[test]
    fn a_loop_with_a_moving_address_takes_few_bytes() {
        let mut plain = Vec::new();
        for round in 0..10_000_u64 {
            for instr in 0..12_u64 {
                plain.extend_from_slice(&[10, 0, 4, 0]);
                plain.extend_from_slice(&(0x40_1000 + 4 * instr).to_le_bytes());
            }
            plain.extend_from_slice(&[0, 0, 8, 0]);
            plain.extend_from_slice(&(0x7fff_0000 + 8 * round).to_le_bytes());
        }
        let packed = check(&plain, 1 << 20);
        assert!(packed < plain.len() / 25, "{packed} of {}", plain.len());
    }

    #[test]
    fn random_bytes_hardly_grow() {
        let packed = check(&random(1 << 20, 8), 1 << 20);
        assert!(packed < (1 << 20) + (1 << 14), "{packed}");
    }

    #[test]
    fn codes_are_complete_and_not_too_long() {
        // Weights for which Huffman's algorithm makes the longest possible codes.
        let mut counts = [0_u32; N_DISTANCES];
        let (mut one, mut other) = (1, 1);
        for count in &mut counts {
            *count = one;
            (one, other) = (other, one + other);
        }
        let lengths = code_lengths(&counts);
        let room: u32 = lengths.iter().map(|n| 1 << (15 - n)).sum();
        assert_eq!(room, 1 << 15);
        assert!(lengths.iter().all(|n| (1..=15).contains(n)));
        assert!(lengths.is_sorted_by(|rarer, more| rarer >= more));
        assert_eq!(code_lengths(&[5, 0, 0, 9]), [1, 0, 0, 1]);
        assert_eq!(CODE_BITS.iter().filter(|n| **n > 0).map(|n| 1 << (5 - n)).sum::<u32>(), 32);
    }

    proptest! {
        #[test]
        fn pieces_of_what_came_before_come_back(
            pieces in proptest::collection::vec((any::<u16>(), 0_usize..600, any::<u8>()), 0..400),
            part in 1_usize..100_000,
        ) {
            let mut plain = random(100, 4);
            for (back, len, byte) in pieces {
                let from = plain.len() - usize::from(back).clamp(1, plain.len());
                for i in from..from + len {
                    plain.push(plain[i]);
                }
                plain.push(byte);
            }
            check(&plain, part);
        }
    }
}
