//! Aggregations: one value for each key, merged over CPUs and snapshots.

use crate::action::Function;
use crate::bytes::ByteOrder;
use crate::describe::{Aggregation, Buffer, Capture, Dialect};
use crate::symbols::{Address, Shown};
use crate::value::Value;
use quipu_model::buckets::{Linear, Logarithmic, QUANTIZE_CELLS};
use quipu_model::{Error, Place, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Position of the aggregation in the capture.
    pub aggregation: usize,
    /// Number of the variable, which may have several aggregations.
    pub variable: u64,
    /// The bytes of the record up to the end of the key, so that the offsets of its members apply.
    pub key: Box<[u8]>,
    /// The merged value of all CPUs.
    pub value: Value,
    /// On Linux, the state of each CPU: its generation and its value.
    parts: BTreeMap<u32, (u64, Value)>,
    /// Whether `parts` changed since `value` was merged.
    is_stale: bool,
}

impl Entry {
    fn new(aggregation: usize, variable: u64, key: Box<[u8]>, value: Value) -> Entry {
        Entry { aggregation, variable, key, value, parts: BTreeMap::new(), is_stale: false }
    }
}

/// All aggregations of a capture.
#[derive(Clone, Debug, Default)]
pub struct Aggregates {
    entries: Vec<Option<Entry>>,
    /// Positions by key, for each aggregation.
    positions: Vec<FxHashMap<Box<[u8]>, usize>>,
    /// Buffer for the key being looked up.
    scratch: Vec<u8>,
    /// Divisors of variables, see [`normalize`](Aggregates::normalize).
    normals: FxHashMap<u64, u64>,
    /// Variables that have been printed.
    printed: FxHashSet<u64>,
    /// Positions of entries whose values have to be merged again.
    stale: Vec<usize>,
    /// Whether to add sums of squares without carry, like the classic consumer.
    without_carry: bool,
    /// Whether clearing forgets parameters, as in the classic consumer.
    forgets_parameters: bool,
}

/// Which entries of a variable to keep, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The entries with the largest values.
    Largest(u64),
    /// The entries with the smallest values.
    Smallest(u64),
}

impl Aggregates {
    /// No aggregations yet.
    pub fn new(without_carry: bool) -> Aggregates {
        Aggregates { without_carry, ..Aggregates::default() }
    }

    /// Sets whether clearing a variable forgets the parameters of `llquantize()`.
    #[must_use]
    pub(crate) fn forgetting_parameters(self, forgets_parameters: bool) -> Aggregates {
        Aggregates { forgets_parameters, ..self }
    }

    /// Adds the aggregations of a buffer.
    ///
    /// # Errors
    /// `Malformed` or `Truncated` if the rest of the buffer cannot be read; the records before it count.
    pub fn take(&mut self, capture: &Capture, buffer: &Buffer) -> Result<()> {
        let mut records = Records::new(capture, buffer);
        while let Some((aggregation, bytes)) = records.next_record()? {
            let described = &capture.aggregations[aggregation];
            let value = described.value.of(bytes);
            let mut key = std::mem::take(&mut self.scratch);
            key_of(capture, described, bytes, &mut key);
            let known = self.positions.get(aggregation).and_then(|keys| keys.get(&*key)).copied();
            // PERF: a known key needs no allocation.
            match known.and_then(|position| self.entries[position].as_mut()) {
                Some(entry) => entry.value.merge_read(value, capture.order, self.without_carry),
                None => {
                    let value = Value::read(described, value, capture.order, capture.dialect);
                    let variable = variable_of(capture, described, bytes);
                    let key = key.as_slice().into();
                    self.insert(Entry::new(aggregation, variable, key, value));
                }
            }
            self.scratch = key;
        }
        Ok(())
    }

    fn position(&self, aggregation: usize, key: &[u8]) -> Option<usize> {
        self.positions.get(aggregation)?.get(key).copied()
    }

    /// Merges a value into the value of a key.
    pub fn merge(&mut self, aggregation: usize, variable: u64, key: Box<[u8]>, value: Value) {
        match self.position(aggregation, &key) {
            Some(position) => {
                let without_carry = self.without_carry;
                if let Some(entry) = &mut self.entries[position] {
                    entry.value.merge(&value, without_carry);
                }
            }
            None => self.insert(Entry::new(aggregation, variable, key, value)),
        }
    }

    fn insert(&mut self, entry: Entry) {
        if self.positions.len() <= entry.aggregation {
            self.positions.resize_with(entry.aggregation + 1, FxHashMap::default);
        }
        self.positions[entry.aggregation].insert(entry.key.clone(), self.entries.len());
        self.entries.push(Some(entry));
    }

    /// Replaces the state of a key on a CPU. `data` begins with a generation: a higher one means that the aggregation has
    /// been cleared since.
    pub fn replace(&mut self, capture: &Capture, cpu: u32, aggregation: usize, key: &[u8], data: &[u8]) {
        let described = &capture.aggregations[aggregation];
        let generation = capture.order.u64_at(data, 0).unwrap_or(0);
        if generation == 0 {
            return;
        }
        let value = Value::read(described, described.value.of(data), capture.order, capture.dialect);
        let mut bytes = Vec::new();
        key_of(capture, described, key, &mut bytes);
        let key: Box<[u8]> = bytes.into();
        let position = match self.position(aggregation, &key) {
            Some(position) => position,
            None => {
                self.insert(Entry::new(aggregation, described.variable, key, value.clone()));
                self.entries.len() - 1
            }
        };
        let Some(entry) = &mut self.entries[position] else { return };
        entry.parts.insert(cpu, (generation, value));
        if !std::mem::replace(&mut entry.is_stale, true) {
            self.stale.push(position);
        }
    }

    /// Merges the states of all CPUs for entries that have changed. Required after [`replace`](Aggregates::replace) before
    /// values are read; otherwise, they are outdated.
    pub fn settle(&mut self) {
        for position in std::mem::take(&mut self.stale) {
            let Some(entry) = &mut self.entries[position] else { continue };
            entry.is_stale = false;
            let newest = entry.parts.values().map(|part| part.0).max().unwrap_or(0);
            let mut parts = entry.parts.values().filter(|part| part.0 == newest).map(|part| &part.1);
            let Some(first) = parts.next() else { continue };
            entry.value = first.clone();
            parts.for_each(|part| entry.value.merge(part, self.without_carry));
        }
    }

    /// All entries, in order of first appearance.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries().count()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries().next().is_none()
    }

    /// The divisor of a variable; 1 if it is not normalized.
    pub fn normal(&self, variable: u64) -> u64 {
        self.normals.get(&variable).copied().unwrap_or(1)
    }

    /// Whether a variable has been printed.
    pub fn is_printed(&self, variable: u64) -> bool {
        self.printed.contains(&variable)
    }

    /// Notes that a variable has been printed, so that the end of the run does not print it again.
    pub fn set_printed(&mut self, variable: u64) {
        self.printed.insert(variable);
    }

    /// Sets the divisor for printed values of a variable; `None` removes it.
    pub fn normalize(&mut self, variable: u64, by: Option<u64>) {
        match by {
            Some(by) => self.normals.insert(variable, by.max(1)),
            None => self.normals.remove(&variable),
        };
    }

    /// Clears the values of a variable, but keeps its keys.
    pub fn clear(&mut self, variable: u64) {
        self.settle();
        for entry in self.entries.iter_mut().flatten().filter(|entry| entry.variable == variable) {
            entry.value.clear();
            entry.parts.clear();
            if self.forgets_parameters && entry.value.function == Function::Llquantize {
                entry.value.param = 0;
            }
        }
    }

    /// Whether the parameters of a value have been forgotten.
    pub(crate) fn has_forgotten(&self, value: &Value) -> bool {
        self.forgets_parameters && value.function == Function::Llquantize && value.param == 0
    }

    /// Removes all entries of a variable except those to keep.
    pub fn truncate(&mut self, variable: u64, keep: Keep, dialect: Dialect) {
        self.settle();
        let mut found: Vec<usize> = (0..self.entries.len())
            .filter(|at| self.entries[*at].as_ref().is_some_and(|entry| entry.variable == variable))
            .collect();
        found.sort_by_cached_key(|at| self.entries[*at].as_ref().map(|entry| entry.value.rank(dialect)));
        let n = match keep {
            Keep::Largest(n) => {
                found.reverse();
                n
            }
            Keep::Smallest(n) => n,
        };
        for position in found.into_iter().skip(usize::try_from(n).unwrap_or(usize::MAX)) {
            if let Some(entry) = self.entries[position].take()
                && let Some(keys) = self.positions.get_mut(entry.aggregation)
            {
                keys.remove(&entry.key);
            }
        }
    }

    /// Merges the aggregations of other buffers. The values do not depend on the order.
    pub fn absorb(&mut self, mut other: Aggregates) {
        self.settle();
        other.settle();
        for entry in other.entries.into_iter().flatten() {
            self.merge(entry.aggregation, entry.variable, entry.key, entry.value);
        }
    }
}

/// Fills `key` with the bytes up to the end of the key. Addresses that are printed as symbols or modules are replaced by the
/// start of these. Bytes before the key become zeros.
fn key_of(capture: &Capture, aggregation: &Aggregation, bytes: &[u8], key: &mut Vec<u8>) {
    let end = aggregation.key_end().min(bytes.len());
    let first = aggregation.keys.first().map_or(end, |rec| rec.offset as usize).min(end);
    key.clear();
    key.resize(first, 0);
    key.extend_from_slice(&bytes[first..end]);
    for rec in &aggregation.keys {
        let Some((is_user, shown)) = Address::kind_of(rec.action).filter(|(_, shown)| *shown != Shown::Whole)
        else {
            continue;
        };
        let at = rec.offset as usize + if is_user { 8 } else { 0 };
        let Some(address) = capture.order.u64_at(key, at) else { continue };
        let start = capture.symbols.start(address, is_user, shown);
        let start = match capture.order {
            ByteOrder::Little => start.to_le_bytes(),
            ByteOrder::Big => start.to_be_bytes(),
        };
        key[at..at + 8].copy_from_slice(&start);
    }
}

/// The variable of a record: from the description, or otherwise from the first field of the record.
fn variable_of(capture: &Capture, aggregation: &Aggregation, bytes: &[u8]) -> u64 {
    match aggregation.variable {
        0 => capture.order.u64_at(bytes, 8).unwrap_or(0),
        variable => variable,
    }
}

/// The empty value of an aggregation. `like` is another value of the same aggregation, from which parameters are taken.
pub(crate) fn zero_of(aggregation: &Aggregation, like: Option<&Value>, dialect: Dialect) -> Value {
    if let Some(like) = like {
        let mut zero = like.clone();
        zero.clear();
        return zero;
    }
    let param = aggregation.param;
    let n_cells = match aggregation.function {
        Function::Count | Function::Sum | Function::Min | Function::Max => 1,
        Function::Avg => 2,
        Function::Stddev => 4,
        Function::Quantize => QUANTIZE_CELLS,
        Function::Lquantize => Linear::of(param).n_cells(),
        Function::Llquantize if dialect == Dialect::Linux => Logarithmic::of(param, true).n_signed_cells(),
        Function::Llquantize => Logarithmic::classic(param).n_cells(),
    };
    Value { function: aggregation.function, param, cells: vec![0; n_cells].into() }
}

/// Reads the records of a buffer of aggregations.
pub struct Records<'c> {
    capture: &'c Capture,
    buffer: &'c Buffer,
    at: usize,
}

impl<'c> Records<'c> {
    /// Begins with the first record.
    pub fn new(capture: &'c Capture, buffer: &'c Buffer) -> Records<'c> {
        Records { capture, buffer, at: 0 }
    }

    /// Offset at which the next record is expected.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The next record, with the position of its aggregation.
    ///
    /// # Errors
    /// `Malformed` for an aggregation number without a description, `Truncated` for an incomplete record.
    pub fn next_record(&mut self) -> Result<Option<(usize, &'c [u8])>> {
        let bytes = &self.buffer.bytes;
        loop {
            let place = || Place {
                file: Some(self.buffer.file.clone()),
                offset: Some(self.at as u64),
                ..Place::default()
            };
            let Some(id) = self.capture.order.u32_at(bytes, self.at) else {
                let left = bytes.len().saturating_sub(self.at);
                if left == 0 {
                    return Ok(None);
                }
                let message = format!("{left} bytes are left, fewer than the number of an aggregation has");
                return Err(Error::truncated(message).at(&place()));
            };
            if id == 0 {
                self.at += 4;
                continue;
            }
            let Some(position) = self.capture.aggregation(id) else {
                let message = format!("aggregation {id} has no description, so that its length is unknown");
                return Err(Error::malformed(message).at(&place()));
            };
            let size = self.capture.aggregations[position].size as usize;
            let record = self.at.checked_add(size).and_then(|end| bytes.get(self.at..end));
            let Some(record) = record.filter(|_| size >= 4) else {
                let message = format!("a record of aggregation {id} has {size} bytes, more than are left");
                return Err(Error::truncated(message).at(&place()));
            };
            let value = &self.capture.aggregations[position].value;
            if value.of(record).len() != value.size as usize {
                let message = format!("the value of aggregation {id} is outside of its record");
                return Err(Error::truncated(message).at(&place()));
            }
            self.at += size;
            return Ok(Some((position, record)));
        }
    }
}
