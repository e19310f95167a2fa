//! The metadata of one epoch of a producer: records by ordinal and by id, and the types and schemas resolved from them.
//!
//! Records are only ever added. A type or schema is resolved once everything that it refers to is known; until then it
//! waits, and is tried again only when one of the missing types appears.

use crate::finding::Finding;
use crate::ranges::Ranges;
use crate::schema::{self, Aggregation, Schema};
use quipu_wire::cbor::{self, Fault, Item, Value};
use quipu_wire::layout::{self, Layout, Unresolved};
use quipu_wire::record::{Clock, Encoding, Format, Probe, Record, Stream};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of records in an epoch.
pub const MAX_RECORDS: usize = 1_000_000;

/// Maximum total size of the records of an epoch, in bytes.
pub const MAX_BYTES: usize = 256 << 20;

/// Number of findings from which findings about metadata are only counted: a few packed bytes can expand to a million
/// invalid records.
pub const MAX_FINDINGS: usize = 100_000;

/// One metadata record.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Canonical bytes of the record, including fields that this program does not know; empty if the record could not be decoded.
    pub bytes: Arc<[u8]>,
    /// The decoded record; `None` if it is invalid or unusable.
    pub record: Option<Arc<Record>>,
}

/// A table of values by index.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Name of the table.
    pub name: Option<String>,
    /// Known values by index.
    pub values: BTreeMap<u64, Value>,
}

/// The metadata known of one epoch.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    known: Ranges,
    entries: BTreeMap<u32, Entry>,
    n_bytes: usize,
    /// Number of findings that were not kept, see [`MAX_FINDINGS`].
    n_omitted: u64,
    /// Ordinal of the first definition, by kind and id.
    ids: FxHashMap<(u64, u32), u32>,
    tables: BTreeMap<u32, Table>,
    layouts: FxHashMap<u32, Arc<Layout>>,
    schemas: FxHashMap<u32, Arc<Schema>>,
    aggregations: FxHashMap<u32, Arc<Aggregation>>,
    /// Ordinals of records to resolve, and of records that wait for a type, by type id.
    to_resolve: BTreeSet<u32>,
    waiting: FxHashMap<u32, Vec<u32>>,
}

impl Metadata {
    /// Adds the record with this ordinal, as decoded. Call [`Metadata::resolve`] after the last one.
    pub fn add(&mut self, ordinal: u32, item: Result<Item, Fault>, findings: &mut Vec<Finding>) {
        let bytes: Arc<[u8]> = match &item {
            Ok(item) => item.value.to_bytes().into(),
            Err(_) => Arc::from(Vec::new()),
        };
        if let Some(known) = self.entries.get(&ordinal) {
            if known.bytes != bytes {
                self.say("metadata-conflict", ordinal, findings);
            }
            return;
        }
        if self.known.contains(ordinal.into()) {
            return;
        }
        self.known.insert(u64::from(ordinal)..u64::from(ordinal) + 1);
        if self.entries.len() >= MAX_RECORDS || self.n_bytes + bytes.len() > MAX_BYTES {
            self.say("metadata-invalid", ordinal, findings);
            return;
        }
        // Unusable records are kept for copies, so they count too.
        self.n_bytes += bytes.len();
        let record = match &item {
            Ok(item) => {
                if !item.canonical {
                    self.say("metadata-not-canonical", ordinal, findings);
                }
                Record::read(&item.value).ok().map(Arc::new)
            }
            Err(_) => None,
        };
        let Some(record) = record else {
            self.say("metadata-invalid", ordinal, findings);
            self.entries.insert(ordinal, Entry { bytes, record: None });
            return;
        };
        let is_new = self.define(ordinal, &record, &bytes);
        if is_new.is_none() {
            self.say("metadata-conflict", ordinal, findings);
        }
        let record = is_new.is_some().then_some(record);
        self.entries.insert(ordinal, Entry { bytes, record });
    }

    /// Reports a fault of a record, or counts it if there are too many findings already.
    fn say(&mut self, name: &'static str, ordinal: u32, findings: &mut Vec<Finding>) {
        if findings.len() < MAX_FINDINGS {
            findings.push(Finding::new(name).with("ordinal", ordinal));
        } else {
            self.n_omitted += 1;
        }
    }

    /// Number of findings about records that were counted and not kept.
    #[must_use]
    pub fn n_omitted(&self) -> u64 {
        self.n_omitted
    }

    /// Notes a definition. `None` if it contradicts an earlier one, otherwise whether it is new.
    fn define(&mut self, ordinal: u32, record: &Record, bytes: &[u8]) -> Option<bool> {
        if let Record::Table(piece) = record {
            let table = self.tables.entry(piece.id).or_default();
            let at = |n: usize| piece.first + n as u64;
            let values = piece.values.iter().enumerate();
            if values.clone().any(|(n, value)| table.values.get(&at(n)).is_some_and(|known| known != value)) {
                return None;
            }
            table.values.extend(values.map(|(n, value)| (at(n), value.clone())));
            table.name = table.name.take().or_else(|| piece.name.clone());
            return Some(true);
        }
        let Some(id) = record.id() else { return Some(true) };
        if let Some(known) = self.ids.get_mut(&(record.kind(), id)) {
            if self.entries.get(known).is_none_or(|entry| *entry.bytes != *bytes) {
                return None;
            }
            *known = ordinal.min(*known);
            return Some(false);
        }
        self.ids.insert((record.kind(), id), ordinal);
        match record {
            Record::Type(_) => {
                self.to_resolve.insert(ordinal);
                self.to_resolve.extend(self.waiting.remove(&id).unwrap_or_default());
            }
            Record::Schema(_) | Record::Aggregation(_) => {
                self.to_resolve.insert(ordinal);
            }
            _ => {}
        }
        Some(true)
    }

    /// Resolves the records whose references are known by now.
    pub fn resolve(&mut self, findings: &mut Vec<Finding>) {
        while let Some(ordinal) = self.to_resolve.pop_first() {
            let Some(record) = self.entries.get(&ordinal).and_then(|entry| entry.record.clone()) else {
                continue;
            };
            if self.resolve_one(ordinal, &record).is_err() {
                self.say("metadata-invalid", ordinal, findings);
                if let Some(entry) = self.entries.get_mut(&ordinal) {
                    entry.record = None;
                }
            }
        }
    }

    fn resolve_one(&mut self, ordinal: u32, record: &Record) -> Result<(), ()> {
        let mut parts = Vec::new();
        match record {
            Record::Type(ty) => ty.ty.each_part(|id| parts.push(id)),
            Record::Schema(schema) => parts.extend(schema.fields.iter().map(|field| field.ty)),
            Record::Aggregation(aggregation) => parts.extend(aggregation.keys.iter().map(|field| field.ty)),
            _ => return Ok(()),
        }
        let mut missing = None;
        for id in parts {
            if self.ids.get(&(4, id)).is_some_and(|defined| *defined >= ordinal) {
                return Err(());
            }
            if !self.layouts.contains_key(&id) {
                missing = missing.or(Some(id));
            }
        }
        if let Some(id) = missing {
            self.waiting.entry(id).or_default().push(ordinal);
            return Ok(());
        }
        let layouts = &self.layouts;
        let find = |id: u32| layouts.get(&id).cloned();
        match record {
            Record::Type(ty) => match layout::resolve(ty.name.as_deref(), &ty.ty, find) {
                Ok(layout) => {
                    self.layouts.insert(ty.id, layout);
                    self.to_resolve.extend(self.waiting.remove(&ty.id).unwrap_or_default());
                }
                Err(Unresolved::Invalid(_)) => return Err(()),
                Err(Unresolved::Missing) => {}
            },
            Record::Schema(described) => {
                if let Some(schema) = schema::resolve(described, find).map_err(|_| ())? {
                    self.schemas.insert(described.id, schema);
                }
            }
            Record::Aggregation(described) => {
                if let Some(resolved) = schema::resolve_aggregation(described, find).map_err(|_| ())? {
                    self.aggregations.insert(described.id, resolved);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds the records of a META frame. On malformed bytes, returns the number of items that could not be read as the error.
    pub(crate) fn add_frame(
        &mut self,
        meta_version: u32,
        records: u32,
        payload: &[u8],
        findings: &mut Vec<Finding>,
    ) -> Result<(), u32> {
        let Some(first) = meta_version.checked_sub(records) else { return Err(records) };
        let mut at = 0;
        for n in 0..records {
            let ordinal = first + n;
            if self.entries.len() >= MAX_RECORDS && !self.known.contains(ordinal.into()) {
                // No later record of the frame can be used either, so one finding covers them all.
                self.known.insert(ordinal.into()..meta_version.into());
                self.say("metadata-invalid", ordinal, findings);
                self.resolve(findings);
                return Ok(());
            }
            let item = cbor::decode(&payload[at..]);
            at += match &item {
                Ok(item) => item.len_bytes,
                Err(Fault::Refused(len)) => *len,
                Err(Fault::Malformed) => {
                    self.resolve(findings);
                    return Err(records - n);
                }
            };
            self.add(ordinal, item, findings);
        }
        self.resolve(findings);
        if at == payload.len() { Ok(()) } else { Err(0) }
    }

    /// The first ordinal below `version` whose record is not known.
    #[must_use]
    pub fn first_unknown_below(&self, version: u32) -> Option<u32> {
        self.known.first_missing_below(version.into()).and_then(|n| u32::try_from(n).ok())
    }

    /// Whether the record with this ordinal is known.
    #[must_use]
    pub fn knows(&self, ordinal: u32) -> bool {
        self.known.contains(ordinal.into())
    }

    pub(crate) fn known(&self) -> &Ranges {
        &self.known
    }

    /// Number of records.
    #[must_use]
    pub fn n_entries(&self) -> usize {
        self.entries.len()
    }

    /// All records with their ordinals.
    pub fn entries(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.entries.iter().map(|(ordinal, entry)| (*ordinal, entry))
    }

    /// The schema with this id, if it can be decoded.
    #[must_use]
    pub fn schema(&self, id: u32) -> Option<&Arc<Schema>> {
        self.schemas.get(&id)
    }

    /// All schemas that can be decoded, by id.
    #[must_use]
    pub fn schemas(&self) -> Vec<&Arc<Schema>> {
        let mut all: Vec<&Arc<Schema>> = self.schemas.values().collect();
        all.sort_by_key(|schema| schema.id());
        all
    }

    /// The schema with this name; the one with the lowest id if several have it.
    #[must_use]
    pub fn schema_named(&self, name: &str) -> Option<&Arc<Schema>> {
        let mut named = self.schemas.values().filter(|schema| schema.record.name.as_deref() == Some(name));
        let first = named.next()?;
        Some(named.fold(first, |lowest, schema| if schema.id() < lowest.id() { schema } else { lowest }))
    }

    /// The aggregation with this id.
    #[must_use]
    pub fn aggregation(&self, id: u32) -> Option<&Arc<Aggregation>> {
        self.aggregations.get(&id)
    }

    /// The type with this id.
    #[must_use]
    pub fn layout(&self, id: u32) -> Option<&Arc<Layout>> {
        self.layouts.get(&id)
    }

    /// All tables, by id.
    #[must_use]
    pub fn tables(&self) -> &BTreeMap<u32, Table> {
        &self.tables
    }

    fn record(&self, kind: u64, id: u32) -> Option<&Record> {
        self.entries.get(self.ids.get(&(kind, id))?)?.record.as_deref()
    }

    /// The format with this id.
    #[must_use]
    pub fn format(&self, id: u32) -> Option<&Format> {
        match self.record(6, id)? {
            Record::Format(format) => Some(format),
            _ => None,
        }
    }

    /// The private encoding with this number.
    #[must_use]
    pub fn encoding(&self, id: u32) -> Option<&Encoding> {
        match self.record(13, id)? {
            Record::Encoding(encoding) => Some(encoding),
            _ => None,
        }
    }

    /// The probe with this id.
    #[must_use]
    pub fn probe(&self, id: u32) -> Option<&Probe> {
        match self.record(7, id)? {
            Record::Probe(probe) => Some(probe),
            _ => None,
        }
    }

    /// The clock with this id.
    #[must_use]
    pub fn clock(&self, id: u32) -> Option<&Clock> {
        match self.record(2, id)? {
            Record::Clock(clock) => Some(clock),
            _ => None,
        }
    }

    /// The stream record with this number.
    #[must_use]
    pub fn stream(&self, number: u32) -> Option<&Stream> {
        match self.record(3, number)? {
            Record::Stream(stream) => Some(stream),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_are_of_no_use_count_for_the_limit_of_bytes() {
        let mut metadata = Metadata::default();
        let mut findings = Vec::new();
        let record = Value::Bytes(vec![7; 1000]).to_bytes();
        metadata.add(0, cbor::decode(&record), &mut findings);
        assert_eq!((findings.len(), metadata.n_bytes), (1, record.len()));
        metadata.n_bytes = MAX_BYTES;
        metadata.add(1, cbor::decode(&record), &mut findings);
        assert_eq!((findings.len(), metadata.entries.len()), (2, 1));
    }

    #[test]
    fn a_frame_of_two_million_records_that_are_none_says_a_bounded_number_of_findings() {
        let mut metadata = Metadata::default();
        let mut findings = Vec::new();
        // Each zero byte decodes as the number 0.
        let payload = vec![0; 2 * MAX_RECORDS];
        let records = payload.len() as u32;
        assert_eq!(metadata.add_frame(records, records, &payload, &mut findings), Ok(()));
        assert_eq!((findings.len(), metadata.entries.len()), (MAX_FINDINGS, MAX_RECORDS));
        assert_eq!(metadata.n_omitted(), (MAX_RECORDS - MAX_FINDINGS + 1) as u64);
        assert_eq!(metadata.first_unknown_below(records), None);
    }
}
