//! Facts that require reading a whole trace: records by kind, sizes, names of types, accessed memory.

use crate::codec::Codec;
use crate::record::{ADD, ATOMIC, KIND_MASK, READ, REMOVE, UNALIGNED, WRITE};
use crate::table::{Records, tag};
use quipu_model::trace::{Fact, Surveyed};
use quipu_model::{Batch, ThreadId};
use quipu_records::FlatTrace;
use quipu_records::survey::{self, Accesses, counted};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Number of type names listed with their counts.
const TOP_NAMES: usize = 50;
/// Maximum number of names counted individually; further ones are counted together.
const MAX_NAMES: usize = 100_000;

/// Summary of the contents of a trace.
#[derive(Debug, Default)]
struct Survey {
    n_records: u64,
    /// Numbers of records by tag, flags included.
    tags: BTreeMap<u8, u64>,
    accesses: Accesses,
    threads: BTreeSet<ThreadId>,
    /// Numbers of annotations by type name; `n_other_names` counts those with further names.
    names: FxHashMap<Vec<u8>, u64>,
    n_other_names: u64,
}

impl Survey {
    /// Counts the rows of the table of records.
    fn batch(&mut self, batch: &Batch) {
        let Some(rows) = batch.tables.first().and_then(|table| table.get::<Records>()) else { return };
        self.n_records += rows.len() as u64;
        if !rows.is_empty() {
            self.threads.insert(batch.span.thread);
        }
        for row in 0..rows.len() {
            *self.tags.entry(tag(rows.kind[row], rows.atomic[row], rows.unaligned[row])).or_insert(0) += 1;
            match rows.kind[row] {
                READ | WRITE => self.accesses.add(rows.addr[row], rows.size[row].into()),
                ADD => self.name(rows.type_name.get(row).unwrap_or(&[])),
                _ => {}
            }
        }
    }

    fn name(&mut self, name: &[u8]) {
        if let Some(count) = self.names.get_mut(name) {
            *count += 1;
        } else if self.names.len() < MAX_NAMES {
            self.names.insert(name.to_vec(), 1);
        } else {
            self.n_other_names += 1;
        }
    }

    fn facts(&self) -> Vec<Fact> {
        let of = |wanted: &dyn Fn(u8) -> bool| -> u64 {
            self.tags.iter().filter(|(tag, _)| wanted(**tag)).map(|(_, count)| count).sum()
        };
        let count = |key, label, n: u64| Fact::new(key, label, n);
        let kind = |key, label, kind: u8| count(key, label, of(&|tag| tag & KIND_MASK == kind));
        let flag = |key, label, flag: u8| count(key, label, of(&|tag| tag & flag != 0));
        let by_tag = self.tags.iter().map(|(tag, count)| (format!("{tag:#04x}"), *count));
        let mut names: Vec<(&Vec<u8>, &u64)> = self.names.iter().collect();
        names.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        let top = names.iter().take(TOP_NAMES);
        let top = top.map(|(name, count)| (String::from_utf8_lossy(name).into_owned(), **count));
        let n_names = self.names.len() as u64;
        let most_names = if self.n_other_names > 0 { n_names } else { u64::MAX };
        let mut facts = vec![
            count("records", "records", self.n_records),
            kind("reads", "reads", READ),
            kind("writes", "writes", WRITE),
            kind("adds", "regions annotated", ADD),
            kind("removes", "regions removed", REMOVE),
            flag("atomic", "atomic accesses", ATOMIC),
            flag("unaligned", "unaligned accesses", UNALIGNED),
            Fact::new("by_tag", "records by tag", counted(by_tag)),
            Fact::new("access_sizes", "accesses by size", counted(self.accesses.sizes.clone())),
            count("bytes_accessed", "bytes accessed", self.accesses.n_bytes),
        ];
        facts.extend(self.accesses.facts());
        facts.extend([
            count("threads", "threads", self.threads.len() as u64),
            Fact::counted_up_to("distinct_type_names", "distinct names of types", n_names, most_names),
            Fact::new("type_names", "annotations by type", counted(top)),
        ]);
        facts
    }
}

/// Reads a whole trace, or until it is cancelled.
pub(crate) fn survey(trace: &FlatTrace<Codec>, is_cancelled: &dyn Fn() -> bool) -> Surveyed {
    let mut survey = Survey::default();
    let surveyed = survey::survey(trace, is_cancelled, |batch| survey.batch(batch), |_| Vec::new());
    Surveyed { facts: survey.facts(), ..surveyed }
}
