//! The order in which the launcher lists caches between the first and the last level: that of its hash tables.
//!
//! It keeps caches in `std::unordered_map`s of libstdc++: first all of them, inserted in the order of their names; then
//! those of one kind, inserted in the order of the first table. QUIRK: goldens with several second-level caches list them as
//! `L23 L20 L21 L22`, which this order reproduces.

use std::collections::HashMap;

/// Bucket counts through which a table grows.
const BUCKETS: [u64; 12] = [13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043];

/// The names of one kind in the launcher's order; `all` contains the names of all caches.
pub(super) fn order<'n>(all: &[&'n str], is_wanted: impl Fn(&str) -> bool) -> Vec<&'n str> {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    let first = table(&sorted);
    let wanted: Vec<&str> = first.into_iter().filter(|name| is_wanted(name)).collect();
    table(&wanted)
}

/// The iteration order of a table into which names are inserted in this order.
///
/// A name goes to the front of its bucket, and a new bucket to the front of the list. Growing inserts all names again, in
/// the order of the list so far.
fn table<'n>(names: &[&'n str]) -> Vec<&'n str> {
    let mut n_buckets = 0;
    let mut chains = Chains::default();
    for (n, name) in names.iter().enumerate() {
        if n as u64 >= n_buckets {
            let list = chains.list();
            n_buckets = BUCKETS.into_iter().find(|size| *size > n_buckets).unwrap_or(u64::MAX);
            chains = Chains::default();
            list.iter().for_each(|name| chains.add(name, n_buckets));
        }
        chains.add(name, n_buckets);
    }
    chains.list()
}

/// Buckets in use and the names in each, oldest first.
#[derive(Default)]
struct Chains<'n> {
    buckets: Vec<Vec<&'n str>>,
    at: HashMap<u64, usize>,
}

impl<'n> Chains<'n> {
    fn add(&mut self, name: &'n str, n_buckets: u64) {
        let at = *self.at.entry(hash(name.as_bytes()) % n_buckets).or_insert_with(|| {
            self.buckets.push(Vec::new());
            self.buckets.len() - 1
        });
        self.buckets[at].push(name);
    }

    fn list(&self) -> Vec<&'n str> {
        self.buckets.iter().rev().flat_map(|bucket| bucket.iter().rev().copied()).collect()
    }
}

/// libstdc++'s hash of strings: 64-bit MurmurHash 2 with a fixed seed.
fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SEED: u64 = 0xc70f_6907;
    let mix = |x: u64| x ^ (x >> 47);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let mut words = bytes.chunks_exact(8);
    for eight in &mut words {
        let data = mix(word(eight).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
        hash = (hash ^ data).wrapping_mul(FACTOR);
    }
    if !words.remainder().is_empty() {
        hash = (hash ^ word(words.remainder())).wrapping_mul(FACTOR);
    }
    mix(mix(hash).wrapping_mul(FACTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_caches_come_as_in_the_golden() {
        let names =
            ["L1I0", "L1D0", "L1I1", "L1D1", "L1I2", "L1D2", "L1I3", "L1D3", "L20", "L21", "L22", "L23"];
        let all: Vec<&str> = names.into_iter().chain(["LLC"]).collect();
        assert_eq!(order(&all, |name| name.starts_with("L2")), ["L23", "L20", "L21", "L22"]);
    }

    #[test]
    fn every_name_is_listed_once() {
        let names: Vec<String> = (0..100).map(|i| format!("a cache of number {i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut listed = order(&names, |_| true);
        listed.sort_unstable();
        let mut expected = names.clone();
        expected.sort_unstable();
        assert_eq!(listed, expected);
    }
}
