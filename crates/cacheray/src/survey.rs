//! What only reading a whole trace tells: records by kind, sizes, names of types, where accesses go.

use crate::record::{ADD, ATOMIC, READ, REMOVE, UNALIGNED, WRITE};
use crate::table::Records;
use crate::trace::CacherayTrace;
use quipu_model::trace::{Fact, Surveyed};
use quipu_model::{Columns, Found, Reader, Result, Scan, ShardId, Trace};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Bytes of the lines that are counted.
const LINE_SHIFT: u32 = 6;
/// Names of types that are told with their counts.
const TOP_NAMES: usize = 50;
/// Names that are counted one by one; further ones are counted together.
const MAX_NAMES: usize = 100_000;
/// Lines that are counted; of more, it is told that there are at least as many.
const MAX_LINES: usize = 1 << 24;

/// What a trace holds.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Records.
    pub records: u64,
    /// Records by their tag as it is stored, flags included.
    pub tags: BTreeMap<u8, u64>,
    /// Accesses by their size in bytes.
    pub sizes: BTreeMap<u8, u64>,
    /// Bytes accessed, each as often as it was.
    pub bytes_accessed: u64,
    /// First byte of all that were accessed.
    pub lowest: Option<u64>,
    /// Last byte of all that were accessed.
    pub highest: Option<u64>,
    /// Distinct lines of 64 bytes.
    pub lines: FxHashSet<u64>,
    /// Threads.
    pub threads: std::collections::BTreeSet<quipu_model::ThreadId>,
    /// Annotations by the name of their type.
    pub names: FxHashMap<Vec<u8>, u64>,
    /// Annotations whose names are not among [`Survey::names`].
    pub other_names: u64,
}

impl Survey {
    /// Takes in the rows of the table of records.
    fn batch(&mut self, batch: &quipu_model::Batch) {
        let Some(rows) = batch.tables.first().and_then(|table| table.get::<Records>()) else { return };
        self.records += rows.len() as u64;
        if !rows.is_empty() {
            self.threads.insert(batch.span.thread);
        }
        for row in 0..rows.len() {
            let tag = crate::table::tag(rows.kind[row], rows.atomic[row], rows.unaligned[row]);
            *self.tags.entry(tag).or_insert(0) += 1;
            match rows.kind[row] {
                READ | WRITE => self.access(rows.addr[row], rows.size[row]),
                ADD => self.name(rows.type_name.get(row).unwrap_or(&[])),
                _ => {}
            }
        }
    }

    fn access(&mut self, addr: u64, size: u8) {
        *self.sizes.entry(size).or_insert(0) += 1;
        self.bytes_accessed += u64::from(size);
        let last = addr.saturating_add(u64::from(size.max(1)) - 1);
        self.lowest = Some(self.lowest.map_or(addr, |lowest| lowest.min(addr)));
        self.highest = Some(self.highest.map_or(last, |highest| highest.max(last)));
        if self.lines.len() < MAX_LINES {
            self.lines.extend(addr >> LINE_SHIFT..=last >> LINE_SHIFT);
        }
    }

    fn name(&mut self, name: &[u8]) {
        if let Some(count) = self.names.get_mut(name) {
            *count += 1;
        } else if self.names.len() < MAX_NAMES {
            self.names.insert(name.to_vec(), 1);
        } else {
            self.other_names += 1;
        }
    }

    fn facts(&self) -> Vec<Fact> {
        let count = |tag: u8| {
            let is_kind = |(other, _): &(&u8, &u64)| *other & crate::record::KIND_MASK == tag;
            self.tags.iter().filter(is_kind).map(|(_, count)| count).sum::<u64>()
        };
        let flagged = |flag: u8| {
            self.tags.iter().filter(|(tag, _)| *tag & flag != 0).map(|(_, count)| count).sum::<u64>()
        };
        let by_tag: Map<String, Value> =
            self.tags.iter().map(|(tag, count)| (format!("{tag:#04x}"), Value::from(*count))).collect();
        let sizes: Map<String, Value> =
            self.sizes.iter().map(|(size, count)| (size.to_string(), Value::from(*count))).collect();
        let mut names: Vec<(&Vec<u8>, &u64)> = self.names.iter().collect();
        names.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        let top: Map<String, Value> = names
            .iter()
            .take(TOP_NAMES)
            .map(|(name, count)| (String::from_utf8_lossy(name).into_owned(), Value::from(**count)))
            .collect();
        let address = |addr: Option<u64>| addr.map(|addr| format!("{addr:#x}"));
        let n_lines = self.lines.len() as u64;
        let n_names = self.names.len() as u64;
        let most_names = if self.other_names > 0 { n_names } else { u64::MAX };
        vec![
            Fact::new("records", "records", self.records),
            Fact::new("reads", "reads", count(READ)),
            Fact::new("writes", "writes", count(WRITE)),
            Fact::new("adds", "regions annotated", count(ADD)),
            Fact::new("removes", "regions removed", count(REMOVE)),
            Fact::new("atomic", "atomic accesses", flagged(ATOMIC)),
            Fact::new("unaligned", "unaligned accesses", flagged(UNALIGNED)),
            Fact::new("by_tag", "records by tag", by_tag),
            Fact::new("access_sizes", "accesses by size", sizes),
            Fact::new("bytes_accessed", "bytes accessed", self.bytes_accessed),
            Fact::new("lowest", "lowest byte accessed", address(self.lowest)),
            Fact::new("highest", "highest byte accessed", address(self.highest)),
            Fact::counted_up_to("lines", "distinct lines of 64 bytes", n_lines, MAX_LINES as u64),
            Fact::new("threads", "threads", self.threads.len()),
            Fact::counted_up_to("distinct_type_names", "distinct names of types", n_names, most_names),
            Fact::new("type_names", "annotations by type", top),
        ]
    }
}

/// Reads all of a trace.
pub fn survey(trace: &CacherayTrace) -> Surveyed {
    let mut survey = Survey::default();
    let mut found = Found::default();
    let error = read(trace, &mut survey, &mut found).err();
    Surveyed { facts: survey.facts(), findings: found.into_vec(), error }
}

fn read(trace: &CacherayTrace, survey: &mut Survey, found: &mut Found) -> Result<()> {
    let scan = Scan { tables: vec![0], columns: Columns::NONE, ahead: true, ..Scan::new(ShardId(0)) };
    let mut reader: Box<dyn Reader> = trace.scan(&scan)?;
    while let Some(batch) = reader.read()? {
        batch.findings.drain(..).for_each(|finding| found.push(finding));
        survey.batch(batch);
    }
    Ok(())
}
