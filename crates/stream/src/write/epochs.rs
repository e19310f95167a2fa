//! Epochs that a writer begins by itself: once a snapshot exceeds a mebibyte, the next one restates only the definitions in use.
//!
//! Ids do not change. The new epoch begins with all records except types, schemas, formats, probes and values of tables;
//! these are restated before the first frame whose rows need them.

use crate::frame::{Header, encoding};
use quipu_wire::record::Record;
use quipu_wire::types::Type;
use rustc_hash::{FxHashMap, FxHashSet};

/// Size of the metadata in a snapshot, in bytes, above which the next snapshot begins an epoch.
pub(super) const MAX_SNAPSHOT_BYTES: u64 = 1 << 20;

/// Kinds of records that are restated when needed.
mod kind {
    pub(super) const TYPE: u64 = 4;
    pub(super) const SCHEMA: u64 = 5;
    pub(super) const FORMAT: u64 = 6;
    pub(super) const PROBE: u64 = 7;
    pub(super) const TABLE: u64 = 9;
    /// The writer does not know what records of this kind and later ones refer to.
    pub(super) const FIRST_OPAQUE: u64 = 15;
}

/// Kind and id.
type Key = (u64, u32);

/// A field of plain rows that is an index into a table.
#[derive(Clone, Copy, Debug)]
struct Index {
    offset: usize,
    table: u32,
}

#[derive(Debug)]
struct Definition {
    bytes: Vec<u8>,
    kind: u64,
    /// Records that this one refers to.
    needs: Vec<Key>,
    /// For a schema: fields that are a table index and nothing else.
    indexes: Vec<Index>,
    /// For a piece of a table: the range of its values.
    values: std::ops::Range<u64>,
    /// Whether the record is in the current epoch.
    is_in: bool,
}

/// All definitions, in order.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    all: Vec<Definition>,
    by_key: FxHashMap<Key, Vec<usize>>,
    /// For each type that is a table index: the table, by type id.
    references: FxHashMap<u32, u32>,
    /// Whether any record is missing from the current epoch.
    is_partial: bool,
    /// Total size of the records in the current epoch, in bytes.
    pub(super) n_bytes: u64,
    /// Total size of the records with which the current epoch began, in bytes.
    n_bytes_at_first: u64,
}

impl Definitions {
    /// Adds a record to the definitions and to the current epoch.
    pub(super) fn add(&mut self, record: &Record, bytes: &[u8]) {
        let mut needs = Vec::new();
        let mut indexes = Vec::new();
        let mut values = 0..0;
        match record {
            Record::Type(described) => {
                described.ty.each_part(|part| needs.push((kind::TYPE, part)));
                match described.ty {
                    Type::Pointer { target: Some(target), .. } => needs.push((kind::TYPE, target)),
                    Type::Reference(table) => {
                        needs.push((kind::TABLE, table));
                        self.references.insert(described.id, table);
                    }
                    Type::Alias(of) => {
                        if let Some(table) = self.references.get(&of).copied() {
                            self.references.insert(described.id, table);
                        }
                    }
                    _ => {}
                }
            }
            Record::Schema(schema) => {
                for field in &schema.fields {
                    needs.push((kind::TYPE, field.ty));
                    if let (Some(table), Some(offset)) = (self.references.get(&field.ty), field.offset) {
                        indexes.push(Index { offset: offset as usize, table: *table });
                    }
                }
                needs.extend(schema.format.map(|id| (kind::FORMAT, id)));
                needs.extend(schema.probe.map(|id| (kind::PROBE, id)));
            }
            Record::Aggregation(aggregation) => {
                needs.extend(aggregation.keys.iter().map(|field| (kind::TYPE, field.ty)));
            }
            Record::Table(table) => values = table.first..table.first + table.values.len() as u64,
            _ => {}
        }
        let kind = record.kind();
        let key = record.id().filter(|_| is_restated_late(kind)).map(|id| (kind, id));
        if let Some(key) = key {
            self.by_key.entry(key).or_default().push(self.all.len());
        }
        self.n_bytes += bytes.len() as u64;
        self.all.push(Definition { bytes: bytes.to_vec(), kind, needs, indexes, values, is_in: true });
    }

    /// All records, also those that are not in the current epoch.
    pub(super) fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.all.iter().map(|definition| &*definition.bytes)
    }

    /// Whether the next snapshot should begin an epoch.
    pub(super) fn is_large(&self) -> bool {
        // The records with which an epoch has to begin may be large themselves.
        self.n_bytes > MAX_SNAPSHOT_BYTES.max(2 * self.n_bytes_at_first)
            && self.all.iter().all(|definition| definition.kind < kind::FIRST_OPAQUE)
    }

    /// Begins an epoch; returns the records with which it begins.
    pub(super) fn renew(&mut self) -> Vec<Vec<u8>> {
        let mut needed = vec![false; self.all.len()];
        for nth in 0..self.all.len() {
            if !is_restated_late(self.all[nth].kind) {
                self.mark(nth, &mut needed, &FxHashSet::default());
            }
        }
        (self.is_partial, self.n_bytes) = (true, 0);
        let mut records = Vec::new();
        for (definition, is_needed) in self.all.iter_mut().zip(needed) {
            definition.is_in = is_needed;
            if is_needed {
                self.n_bytes += definition.bytes.len() as u64;
                records.push(definition.bytes.clone());
            }
        }
        self.n_bytes_at_first = self.n_bytes;
        records
    }

    /// Marks a record and all records that it refers to, except tables in `by_value`, whose values are looked up one by one.
    fn mark(&self, nth: usize, needed: &mut [bool], by_value: &FxHashSet<u32>) {
        let mut left = vec![nth];
        while let Some(nth) = left.pop() {
            if std::mem::replace(&mut needed[nth], true) {
                continue;
            }
            for key in &self.all[nth].needs {
                if key.0 == kind::TABLE && by_value.contains(&key.1) {
                    continue;
                }
                left.extend(self.by_key.get(key).into_iter().flatten());
            }
        }
    }

    /// Returns the records that a frame needs and the current epoch lacks, and adds them to the epoch.
    pub(super) fn demanded(&mut self, header: &Header, payload: &[u8]) -> Vec<Vec<u8>> {
        if !self.is_partial || header.is_foreign() || header.encoding == encoding::AGGREGATIONS {
            return Vec::new();
        }
        let mut needed = vec![false; self.all.len()];
        if header.encoding == encoding::PLAIN {
            self.need_rows(payload, &mut needed);
        } else {
            // Restates all schemas, without looking up which of them the payload has.
            for nth in 0..self.all.len() {
                if self.all[nth].kind == kind::SCHEMA {
                    self.mark(nth, &mut needed, &FxHashSet::default());
                }
            }
        }
        let mut records = Vec::new();
        for (definition, is_needed) in self.all.iter_mut().zip(needed) {
            if is_needed && !std::mem::replace(&mut definition.is_in, true) {
                self.n_bytes += definition.bytes.len() as u64;
                records.push(definition.bytes.clone());
            }
        }
        records
    }

    /// Marks the records that plain rows need.
    fn need_rows(&self, payload: &[u8], needed: &mut [bool]) {
        let mut schemas: FxHashMap<u32, &[Index]> = FxHashMap::default();
        let mut values: FxHashSet<(u32, u32)> = FxHashSet::default();
        let mut rest = payload;
        while let Some(head) = rest.first_chunk::<16>() {
            let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (id, size) = (number(0), number(4) as usize);
            let Some((row, after)) = rest.split_at_checked(size.max(16)) else { break };
            rest = after;
            let indexes = schemas.entry(id).or_insert_with(|| {
                let known = self.by_key.get(&(kind::SCHEMA, id)).and_then(|known| known.first());
                known.map_or(&[], |nth| &self.all[*nth].indexes)
            });
            for Index { offset, table } in *indexes {
                let value = row.get(16 + offset..).and_then(|bytes| bytes.first_chunk());
                values.extend(value.map(|value| (*table, u32::from_le_bytes(*value))));
            }
        }
        // A table that a schema reaches through a compound type is needed as a whole.
        let none = FxHashSet::default();
        for id in schemas.keys() {
            for nth in self.by_key.get(&(kind::SCHEMA, *id)).into_iter().flatten() {
                let schema = &self.all[*nth];
                let is_index = |key: &&Key| key.0 == kind::TYPE && self.references.contains_key(&key.1);
                let tables: FxHashSet<u32> = schema.indexes.iter().map(|index| index.table).collect();
                needed[*nth] = true;
                for key in &schema.needs {
                    let by_value = if is_index(&key) { &tables } else { &none };
                    for part in self.by_key.get(key).into_iter().flatten() {
                        self.mark(*part, needed, by_value);
                    }
                }
            }
        }
        for (table, value) in values {
            for nth in self.by_key.get(&(kind::TABLE, table)).into_iter().flatten() {
                needed[*nth] |= self.all[*nth].values.contains(&value.into());
            }
        }
    }
}

/// Whether records of a kind are restated only when needed.
fn is_restated_late(of: u64) -> bool {
    matches!(of, kind::TYPE | kind::SCHEMA | kind::FORMAT | kind::PROBE | kind::TABLE)
}
