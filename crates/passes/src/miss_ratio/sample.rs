//! Distances of all lines or of a sample, summed by the cache sizes in which they cause a miss.

use crate::reuse_distance::stack::{DATA, Stack};
use quipu_model::Result;
use std::collections::BinaryHeap;

/// The lines to sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sample {
    /// All lines.
    All,
    /// This share of the lines.
    Share(f64),
    /// At most this many lines.
    Lines(usize),
}

/// Number of parts of a sample, whose differences give the error.
const PARTS: usize = 8;
/// Hashes are below this.
const ALL: u32 = 1 << 24;
/// Distance 0, and two bins for each power of two.
const BINS: usize = 1 + 2 * 64;

/// Steps of distance for each power of two, for the effect of small errors of a distance.
const FINE: usize = 16;
const STEPS: usize = 1 + FINE * 64;

/// The step of a distance: those that begin within a sixteenth of a power of two.
fn step(distance: u64) -> usize {
    match distance.checked_ilog2() {
        None => 0,
        Some(octave) => {
            // The four bits below the highest one.
            let bits = if octave >= 4 { distance >> (octave - 4) } else { distance << (4 - octave) };
            1 + FINE * octave as usize + (bits as usize & (FINE - 1))
        }
    }
}

/// The bin of a distance: all distances in it cause a miss in the same cache sizes.
fn bin(distance: u64) -> usize {
    match distance.checked_ilog2() {
        None => 0,
        Some(octave) => {
            // From one and a half times the power of two on.
            let is_upper = octave > 0 && distance >> (octave - 1) & 1 == 1;
            1 + 2 * octave as usize + usize::from(is_upper)
        }
    }
}

/// The smallest distance of a bin, which is the largest cache, in lines, in which its distances miss; `None` if there is no
/// such bin.
fn lines_of(bin: usize) -> Option<u64> {
    let octave = bin.checked_sub(1)? / 2;
    match (bin - 1) % 2 {
        0 => Some(1 << octave),
        _ if octave > 0 => Some(3 << (octave - 1)),
        _ => None,
    }
}

/// Weighted accesses by bin; each has the weight of the accesses that it represents.
#[derive(Clone, Debug)]
struct Weights {
    bins: Vec<f64>,
    /// First uses of lines.
    first: f64,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights { bins: vec![0.0; BINS], first: 0.0 }
    }
}

impl Weights {
    /// Adds an access at a distance among lines that were sampled with this share.
    fn add(&mut self, distance: Option<u64>, share: f64) {
        let weight = 1.0 / share;
        match distance {
            Some(distance) => self.bins[bin(estimate(distance, share))] += weight,
            None => self.first += weight,
        }
    }

    fn merge(&mut self, other: &Weights) {
        self.bins.iter_mut().zip(&other.bins).for_each(|(sum, other)| *sum += other);
        self.first += other.first;
    }

    /// The share of this many accesses that miss in a cache with this as its largest missing bin. An error of the sample's
    /// total comes from uses of a few lines, which are hits, so it does not affect the misses.
    fn miss_ratio(&self, bin: usize, accesses: u64) -> f64 {
        let misses = self.first + self.bins[bin..].iter().sum::<f64>();
        (misses / accesses.max(1) as f64).clamp(0.0, 1.0)
    }
}

/// Scales a distance among the sampled share of the lines up to all lines, rounded down to a whole number.
fn estimate(distance: u64, share: f64) -> u64 {
    (distance as f64 * (1.0 / share)) as u64
}

/// Sums of shards.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) accesses: u64,
    pub(super) sampled: u64,
    all: Weights,
    /// The parts of the sample; empty if all lines are read.
    parts: Vec<Weights>,
    /// The smallest cache, in lines, that every part of the sample can distinguish from smaller ones.
    finest: u64,
    /// Number of distinct lines in the sample.
    pub(super) held: u64,
    /// Number of lines that each sampled line represents; 0 without a sample.
    scale: f64,
    /// Weighted accesses by step of their distance; empty without a sample.
    steps: Vec<f64>,
}

impl Sums {
    pub(super) fn add(&mut self, other: &Sums) {
        self.accesses += other.accesses;
        self.sampled += other.sampled;
        self.all.merge(&other.all);
        self.finest = self.finest.max(other.finest);
        self.held += other.held;
        self.scale = self.scale.max(other.scale);
        self.steps.resize(self.steps.len().max(other.steps.len()), 0.0);
        self.steps.iter_mut().zip(&other.steps).for_each(|(sum, other)| *sum += other);
        self.parts.resize(self.parts.len().max(other.parts.len()), Weights::default());
        self.parts.iter_mut().zip(&other.parts).for_each(|(sum, other)| sum.merge(other));
    }

    /// True if some lines were not sampled.
    pub(super) fn is_part(&self) -> bool {
        self.scale > 1.0
    }

    /// Number of distinct lines, estimated if there is a sample.
    pub(super) fn lines(&self) -> u64 {
        self.all.first.round() as u64
    }

    /// Sizes in lines, each with its miss ratio and the error of that, up to the first size in which only first uses miss;
    /// sizes that the sample cannot resolve are left out.
    pub(super) fn ratios(&self) -> Vec<(u64, f64, f64)> {
        let last = self.all.bins.iter().rposition(|weight| *weight > 0.0);
        // Without any distances, a cache of one line already has all possible hits.
        let last = if self.accesses > 0 { last.unwrap_or(0) } else { return Vec::new() };
        let sizes = (1..BINS).filter_map(|bin| Some((bin, lines_of(bin)?)));
        let beyond = |bin: usize| bin > last + 1 && (bin > last + 2 || lines_of(last + 1).is_some());
        sizes
            .take_while(|(bin, _)| !beyond(*bin))
            .filter(|(_, lines)| *lines >= self.finest)
            .map(|(bin, lines)| {
                (lines, self.ratio(bin), self.error(bin).hypot(self.error_of_position(lines)))
            })
            .collect()
    }

    fn ratio(&self, bin: usize) -> f64 {
        self.all.miss_ratio(bin, self.accesses)
    }

    /// The error of a cache's miss ratio from measuring distances with few lines. A distance of `n` lines has `n / scale` of
    /// them in the sample, plus or minus the root of that, and all accesses of one loop have the same error, in every part.
    /// Half of the accesses within twice that error are counted: for a smooth curve these are as many as within one error,
    /// and for a step half of its height.
    fn error_of_position(&self, lines: u64) -> f64 {
        if self.scale <= 1.0 {
            return 0.0;
        }
        let lines = lines as f64;
        let off = 2.0 * (lines * (self.scale - 1.0)).sqrt();
        let (below, above) = (self.between(lines - off, lines), self.between(lines, lines + off));
        0.5 * below.max(above) / self.accesses.max(1) as f64
    }

    /// Accesses with distances from `from` up to but not including `to`.
    fn between(&self, from: f64, to: f64) -> f64 {
        let step = |distance: f64| step(distance.max(0.0) as u64); // Distances of a trace are far below 2^64.
        let (from, to) = (step(from), step(to));
        self.steps.get(from..to.max(from)).unwrap_or_default().iter().sum()
    }

    /// The standard error of the mean of the parts.
    fn error(&self, bin: usize) -> f64 {
        let ratios: Vec<f64> = self.parts.iter().map(|part| part.miss_ratio(bin, self.accesses)).collect();
        let n = ratios.len() as f64;
        if n < 2.0 {
            return 0.0;
        }
        let mean = ratios.iter().sum::<f64>() / n;
        let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (variance / n).sqrt()
    }
}

/// State of sampling one shard.
#[derive(Debug)]
pub(super) struct Sampler {
    /// Lines with a hash below this are sampled.
    threshold: u32,
    /// Maximum number of lines to sample, then the sampled lines by their hashes, the largest first.
    max_lines: Option<usize>,
    held: BinaryHeap<(u32, u64)>,
    all: Stack,
    parts: Vec<Stack>,
    sums: Sums,
}

impl Sampler {
    pub(super) fn new(sample: Sample) -> Sampler {
        let share = |share: f64| (share * f64::from(ALL)).ceil() as u32; // At most `ALL`.
        let (threshold, max_lines, n_parts) = match sample {
            Sample::All => (ALL, None, 0),
            Sample::Share(part) => (share(part).clamp(1, ALL), None, PARTS),
            Sample::Lines(lines) => (ALL, Some(lines), PARTS),
        };
        Sampler {
            threshold,
            max_lines,
            held: BinaryHeap::new(),
            all: Stack::new(u64::MAX, 0),
            parts: (0..n_parts).map(|_| Stack::new(u64::MAX, 0)).collect(),
            sums: Sums {
                parts: vec![Weights::default(); n_parts],
                steps: vec![0.0; if n_parts > 0 { STEPS } else { 0 }],
                ..Sums::default()
            },
        }
    }

    /// Adds one access.
    ///
    /// # Errors
    /// See [`Stack::access`].
    #[inline]
    pub(super) fn access(&mut self, line: u64) -> Result<()> {
        self.sums.accesses += 1;
        let (hash, part) = hash(line);
        if hash < self.threshold { self.look(line, hash, part) } else { Ok(()) }
    }

    fn look(&mut self, line: u64, hash: u32, part: usize) -> Result<()> {
        let share = f64::from(self.threshold) / f64::from(ALL);
        self.sums.sampled += 1;
        let distance = self.all.access(line, DATA)?;
        self.sums.all.add(distance, share);
        if let Some(distance) = distance
            && let Some(sum) = self.sums.steps.get_mut(step(estimate(distance, share)))
        {
            *sum += 1.0 / share;
        }
        if let Some(stack) = self.parts.get_mut(part) {
            let distance = stack.access(line, DATA)?;
            self.sums.parts[part].add(distance, share / PARTS as f64);
        }
        if let Some(max) = self.max_lines
            && distance.is_none()
        {
            self.held.push((hash, line));
            if self.held.len() > max {
                self.lower();
            }
        }
        Ok(())
    }

    /// Removes the lines with the largest hash from the sample.
    fn lower(&mut self) {
        let Some((largest, _)) = self.held.peek().copied() else { return };
        self.threshold = largest;
        while let Some((_, line)) = self.held.peek().copied().filter(|(hash, _)| *hash == largest) {
            self.held.pop();
            self.all.forget(line);
            if let Some(stack) = self.parts.get_mut(hash(line).1) {
                stack.forget(line);
            }
        }
    }

    pub(super) fn into_sums(mut self) -> Sums {
        // A distance in a part is a multiple of the lines that each of its lines represents; finer distances do not occur in
        // it.
        let scale = f64::from(ALL) / f64::from(self.threshold);
        self.sums.scale = if self.parts.is_empty() { 0.0 } else { scale };
        self.sums.held = self.all.lines().len() as u64;
        if self.threshold < ALL {
            let lines = PARTS as f64 * f64::from(ALL) / f64::from(self.threshold);
            self.sums.finest = lines.ceil() as u64; // At most 2^27.
        }
        self.sums
    }
}

/// The hash of a line, below [`ALL`], and the part of the sample that it belongs to, which are independent of each other.
#[inline]
fn hash(line: u64) -> (u32, usize) {
    let mut x = line.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    ((x >> 40) as u32, x as usize % PARTS) // 24 bits.
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_begin_at_sizes_and_leave_no_gap() {
        let sizes: Vec<u64> = (1..12).filter_map(lines_of).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]);
        for distance in (0..3000).chain([u64::MAX]) {
            let at = bin(distance);
            // A cache of this many lines misses; the next larger one does not.
            assert!(lines_of(at).is_none_or(|lines| lines <= distance), "{distance}");
            let next = (at + 1..BINS).find_map(lines_of);
            assert!(next.is_none_or(|lines| distance < lines), "{distance}");
        }
    }

    #[test]
    fn steps_begin_at_sixteenths_of_a_power_of_two() {
        assert_eq!([step(0), step(1), step(2), step(3), step(16), step(17)], [0, 1, 17, 25, 65, 66]);
        assert_eq!((step(512), step(543), step(544)), (1 + 16 * 9, 1 + 16 * 9, 2 + 16 * 9));
        for distance in 0..3000 {
            assert!(step(distance) <= step(distance + 1), "{distance}");
        }
        assert_eq!(step(u64::MAX) + 1, STEPS);
    }

    #[test]
    fn a_sample_never_holds_more_lines_than_it_may() {
        let mut sampler = Sampler::new(Sample::Lines(100));
        for i in 0..50_000u64 {
            sampler.access(i * 7 % 9973).unwrap();
            assert!(sampler.held.len() <= 100 && sampler.all.lines().len() <= 101);
        }
        assert!(sampler.held.len() > 90);
    }
}
