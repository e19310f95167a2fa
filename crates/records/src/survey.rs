//! Facts that require reading a whole trace: distribution of sizes, accessed memory.

use crate::pull::Records;
use crate::trace::{Family, FlatTrace};
use quipu_model::lens::MAX_ACCESS_BYTES;
use quipu_model::trace::{Fact, Surveyed};
use quipu_model::{Batch, Found, Scan, Trace};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Binary logarithm of the size of counted lines in bytes.
const LINE_SHIFT: u32 = 6;
/// Maximum number of lines counted; with more, facts say "at least this many".
const MAX_LINES: u64 = 1 << 24;

/// Reads the first table of a whole trace, or until it is cancelled; `facts` makes the facts once the read has ended.
pub fn survey<C: Family>(
    trace: &FlatTrace<C>,
    is_cancelled: &dyn Fn() -> bool,
    mut take: impl FnMut(&Batch),
    facts: impl FnOnce(Option<&C::State>) -> Vec<Fact>,
) -> Surveyed {
    let mut found = Found::default();
    let mut last = None;
    let mut error = None;
    for shard in trace.shards() {
        let scan = Scan { tables: vec![0], ahead: true, ..Scan::new(shard.id) };
        let taken = trace.read(&scan).and_then(|mut reader| {
            let taken = found.read_until(&mut reader, is_cancelled, |batch| {
                take(batch);
                Ok(())
            });
            last = Some(reader);
            taken
        });
        error = error.or(taken.err());
    }
    // The facts are also valid for the part before an error.
    Surveyed { facts: facts(last.as_ref().map(Records::state)), findings: found.into_vec(), error }
}

/// Counts as a JSON object.
pub fn counted<K: ToString>(counts: impl IntoIterator<Item = (K, u64)>) -> Value {
    let counts = counts.into_iter().map(|(key, count)| (key.to_string(), Value::from(count)));
    Value::Object(counts.collect::<Map<_, _>>())
}

/// Statistics of accesses to memory.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    /// Number of accesses of each size.
    pub sizes: BTreeMap<u32, u64>,
    /// Sum of the sizes of all accesses.
    pub n_bytes: u64,
    lowest: Option<u64>,
    highest: Option<u64>,
    /// Sets of lines: a bit for each of 64 neighbouring lines, so that many accessed lines take little memory.
    lines: FxHashMap<u64, u64>,
    n_lines: u64,
}

impl Accesses {
    /// Counts an access; one of size 0 touches one byte. An access of more than [`MAX_ACCESS_BYTES`] counts nowhere, as in
    /// analyses, which never see one: reading reports it and leaves it out, although its record stays.
    pub fn add(&mut self, addr: u64, size: u32) {
        if size > MAX_ACCESS_BYTES {
            return;
        }
        *self.sizes.entry(size).or_insert(0) += 1;
        self.n_bytes += u64::from(size);
        let last = addr.saturating_add(u64::from(size.max(1)) - 1);
        self.lowest = Some(self.lowest.map_or(addr, |lowest| lowest.min(addr)));
        self.highest = Some(self.highest.map_or(last, |highest| highest.max(last)));
        let (first, last) = (addr >> LINE_SHIFT, last >> LINE_SHIFT);
        for word in first >> 6..=last >> 6 {
            if self.n_lines >= MAX_LINES {
                break;
            }
            let (begin, end) = (first.max(word << 6) & 63, last.min(word << 6 | 63) & 63);
            let bits = u64::MAX >> (63 - end) & u64::MAX << begin;
            let known = self.lines.entry(word).or_insert(0);
            let n_new = u64::from((bits & !*known).count_ones());
            *known |= bits;
            self.n_lines = (self.n_lines + n_new).min(MAX_LINES);
        }
    }

    /// The accessed memory: the lowest and highest byte, and the number of lines.
    pub fn facts(&self) -> [Fact; 3] {
        let fact =
            |key, label, addr: Option<u64>| Fact::new(key, label, addr.map(|addr| format!("{addr:#x}")));
        [
            fact("lowest", "lowest byte accessed", self.lowest),
            fact("highest", "highest byte accessed", self.highest),
            Fact::counted_up_to("lines", "distinct lines of 64 bytes", self.n_lines, MAX_LINES),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_count_that_stopped_is_said_to_be_the_least() {
        let lines = |n_lines| Accesses { n_lines, ..Accesses::default() }.facts()[2].json();
        assert_eq!(lines(7), json!(7));
        assert_eq!(lines(MAX_LINES), json!({ "at_least": MAX_LINES }));
    }

    #[test]
    fn a_line_counts_once() {
        let mut accesses = Accesses::default();
        for (addr, size) in [(0, 4), (60, 8), (0x1000, 0), (0xfc0, 0x81)] {
            accesses.add(addr, size);
        }
        // Lines 0 and 1; 0x40; 0x3f and 0x41.
        assert_eq!(accesses.facts()[2].json(), json!(5));
        assert_eq!(accesses.n_bytes, 12 + 0x81);
    }

    #[test]
    fn an_access_that_is_too_large_counts_nowhere() {
        let mut accesses = Accesses::default();
        accesses.add(0x1000, MAX_ACCESS_BYTES);
        let before = accesses.facts().map(|fact| fact.json());
        accesses.add(0x10, MAX_ACCESS_BYTES + 1);
        accesses.add(0x9000_0000, u32::MAX);
        assert_eq!(accesses.facts().map(|fact| fact.json()), before);
        assert_eq!(accesses.sizes.into_iter().collect::<Vec<_>>(), [(MAX_ACCESS_BYTES, 1)]);
        assert_eq!(accesses.n_bytes, u64::from(MAX_ACCESS_BYTES));
    }
}
