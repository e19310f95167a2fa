//! What only reading a whole trace tells: records by kind, sizes, where accesses go.

use crate::language::Means;
use crate::reader::Others;
use crate::table::columns;
use crate::trace::PlainTextTrace;
use quipu_model::column::CellsRef;
use quipu_model::trace::{Fact, Surveyed};
use quipu_model::{Batch, Found, Reader as _, Result, Scan, ShardId};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Bytes of the lines that are counted.
const LINE_SHIFT: u32 = 6;
/// Lines that are counted; of more, it is told that there are at least as many.
const MAX_LINES: u64 = 1 << 24;

/// What a trace holds.
#[derive(Debug, Default)]
struct Survey {
    n_records: u64,
    kinds: [u64; 8],
    /// Accesses to data by their size.
    sizes: BTreeMap<u32, u64>,
    lowest: Option<u64>,
    highest: Option<u64>,
    /// Lines by number: a bit for each of 64 neighbours, so that accesses to many lines take little memory.
    lines: FxHashMap<u64, u64>,
    n_lines: u64,
    others: Others,
}

impl Survey {
    /// Takes in rows of the table of records.
    fn batch(&mut self, batch: &Batch, means: &[Means]) {
        let Some(rows) = batch.tables.first() else { return };
        let columns = columns(&**rows).map(|column| column.cells);
        let [_, _, CellsRef::U8(kinds), CellsRef::U64(addrs), CellsRef::U32(sizes)] = columns else { return };
        self.n_records += kinds.len() as u64;
        for ((kind, addr), size) in kinds.iter().zip(addrs).zip(sizes) {
            self.kinds[usize::from(*kind & 7)] += 1;
            let means = means.get(usize::from(*kind));
            if matches!(means, Some(Means::Read | Means::Write | Means::Modify | Means::Unknown)) {
                self.access(*addr, *size);
            }
        }
    }

    fn access(&mut self, addr: u64, size: u32) {
        *self.sizes.entry(size).or_insert(0) += 1;
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

    fn facts(&self, kinds: &[&str]) -> Vec<Fact> {
        let by_kind: Map<String, Value> = kinds
            .iter()
            .zip(self.kinds)
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| ((*kind).to_owned(), Value::from(count)))
            .collect();
        let sizes: Map<String, Value> =
            self.sizes.iter().map(|(size, count)| (size.to_string(), Value::from(*count))).collect();
        let address = |addr: Option<u64>| addr.map(|addr| format!("{addr:#x}"));
        vec![
            Fact::new("records", "records", self.n_records),
            Fact::new("by_kind", "records by kind", by_kind),
            Fact::new("access_sizes", "data accesses by size", sizes),
            Fact::new("lowest", "lowest byte accessed", address(self.lowest)),
            Fact::new("highest", "highest byte accessed", address(self.highest)),
            Fact::counted_up_to("lines", "distinct lines of 64 bytes", self.n_lines, MAX_LINES),
            Fact::new("messages", "lines that are messages", self.others.messages),
            Fact::new("bad_lines", "lines that are no records", self.others.bad),
        ]
    }
}

/// Reads all of a trace.
pub(crate) fn survey(trace: &PlainTextTrace) -> Surveyed {
    let mut survey = Survey::default();
    let mut found = Found::default();
    let error = read(trace, &mut survey, &mut found).err();
    Surveyed { facts: survey.facts(trace.dialect().language.kinds), findings: found.into_vec(), error }
}

fn read(trace: &PlainTextTrace, survey: &mut Survey, found: &mut Found) -> Result<()> {
    let scan = Scan { tables: vec![0], ahead: true, ..Scan::new(ShardId(0)) };
    let mut reader = trace.read(&scan)?;
    let done = loop {
        match reader.read() {
            Ok(Some(batch)) => {
                batch.findings.drain(..).for_each(|finding| found.push(finding));
                survey.batch(batch, trace.dialect().language.means);
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // They are about the part before an error, too.
    survey.others = reader.others();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_stopped_is_said_to_be_the_least() {
        let lines = |n_lines| {
            let facts = Survey { n_lines, ..Survey::default() }.facts(&[]);
            facts.into_iter().find(|fact| fact.key == "lines").map(|fact| fact.json())
        };
        assert_eq!(lines(7), Some(7.into()));
        assert_eq!(lines(MAX_LINES), Some(serde_json::json!({ "at_least": MAX_LINES })));
    }
}
