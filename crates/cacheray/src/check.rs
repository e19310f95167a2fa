//! Checks records against the rules of the format.
//!
//! Memory grows with the number of regions that are live at the same time, and of ranges of memory that were ever in one.

use crate::codec::Codec;
use crate::plausible::is_address;
use crate::record::{Dialect, mark_text};
use crate::rules;
use quipu_model::lens::RegionEvent;
use quipu_model::{Batch, Columns, RuleInfo, ToolInfo};
use quipu_records::check::{self, Check, Log, Rules};
use quipu_symbols::regions::RegionMap;

/// The tool `check`.
pub(crate) static CHECK: Check<Codec> = Check::new(&INFO);
static INFO: ToolInfo = check::info(crate::INFO.name, Columns::ACCESSES.or(Columns::REGIONS));

/// Names longer than this are reported.
const USUAL_NAME_BYTES: usize = 4096;

/// State of memory at the current record.
#[derive(Debug)]
pub struct CacherayRules {
    dialect: Dialect,
    /// Regions that are live, each with the record that added it.
    live: RegionMap<u64>,
    /// Regions that were removed, each with the record that removed it.
    removed: RegionMap<u64>,
}

/// A record of a batch.
#[derive(Clone, Copy)]
struct At<'a> {
    dialect: Dialect,
    batch: &'a Batch,
    record: u32,
}

impl At<'_> {
    /// Number of records before it.
    fn ordinal(self) -> u64 {
        self.batch.span.first_record + u64::from(self.record)
    }

    fn offset(self) -> u64 {
        let At { dialect, batch, record } = self;
        let before = batch.regions.at.iter().take_while(|at| **at < record).count();
        let annotations = batch.regions.what.iter().zip(batch.regions.type_name.iter()).take(before);
        let n_bytes: usize = annotations
            .map(|(what, name)| match what {
                RegionEvent::Add => dialect.add_bytes() + name.len(),
                RegionEvent::Remove => dialect.remove_bytes(),
            })
            .sum();
        let n_accesses = record as usize - before;
        batch.span.offset + (n_bytes + n_accesses * dialect.access_bytes()) as u64
    }

    /// Reports that the record breaks `rule`.
    fn tell(self, log: &mut Log, rule: &'static RuleInfo, what: impl FnOnce() -> String) {
        log.add(rule, || (Some(self.offset()), Some(self.ordinal()), what()));
    }
}

impl CacherayRules {
    fn access(&mut self, at: At<'_>, addr: u64, size: u32, log: &mut Log) {
        if !matches!(size, 1 | 2 | 4 | 8 | 16) {
            at.tell(log, &rules::ODD_SIZE, || format!("an access has `{size}` bytes"));
        }
        if !is_address(addr) {
            at.tell(log, &rules::ADDRESS, || format!("an access goes to `{addr:#x}`"));
        }
        if let Some(region) = self.live.at(addr) {
            let (start, end) = (region.start, region.end);
            if addr.saturating_add(size.into()) > end {
                at.tell(log, &rules::OUTSIDE, || {
                    format!("`{size}` bytes from `{addr:#x}` on reach over the end of region `{start:#x}` to `{end:#x}`")
                });
            }
        } else if let Some(region) = self.removed.at(addr) {
            let (start, by) = (region.start, region.what);
            at.tell(log, &rules::AFTER_REMOVE, || {
                format!("`{addr:#x}` is in the region from `{start:#x}` on, which record `{by}` removed")
            });
        }
    }

    fn add(&mut self, at: At<'_>, addr: u64, size: (u64, u64), name: &[u8], log: &mut Log) {
        let (element_bytes, n_elements) = size;
        if mark_text(element_bytes, n_elements, name).is_some() {
            return;
        }
        if name.len() > USUAL_NAME_BYTES || std::str::from_utf8(name).is_err() {
            at.tell(log, &rules::BAD_NAME, || {
                let start = String::from_utf8_lossy(name.get(..40).unwrap_or(name)).into_owned();
                format!("a name of `{}` bytes begins with `{start}`", name.len())
            });
        }
        if addr == 0 {
            at.tell(log, &rules::NULL_REGION, || "a region begins at 0".to_owned());
        } else if !is_address(addr) {
            at.tell(log, &rules::ADDRESS, || format!("a region begins at `{addr:#x}`"));
        }
        if n_elements == 0 {
            at.tell(log, &rules::NO_ELEMENTS, || format!("the region at `{addr:#x}` has no elements"));
        }
        // The product of two 32-bit numbers.
        let n_bytes = element_bytes.saturating_mul(n_elements);
        let region = || format!("`{n_bytes}` bytes from `{addr:#x}` on");
        if addr.checked_add(n_bytes).is_none() {
            at.tell(log, &rules::WRAPS, region);
        }
        if addr != 0 {
            let over = self.live.over(addr, n_bytes);
            if over.same_start {
                at.tell(log, &rules::OVER_LIVE, || format!("{}, where a region begins", region()));
            } else if over.overlap {
                at.tell(log, &rules::OVERLAP, || format!("{}, partly in another region", region()));
            } else if over.nested {
                at.tell(log, &rules::NESTED, || format!("{}, within or around another region", region()));
            }
        }
        self.removed.clear(addr, n_bytes);
        let _ = self.live.add(addr, n_bytes, at.ordinal() + 1);
    }

    fn remove(&mut self, at: At<'_>, addr: u64, log: &mut Log) {
        match self.live.remove(addr) {
            Some(region) => {
                let _ = self.removed.add(region.start, region.end - region.start, at.ordinal() + 1);
            }
            None if addr != 0 => {
                at.tell(log, &rules::NO_ADD, || format!("no live region begins at `{addr:#x}`"));
            }
            None => {}
        }
    }
}

impl Rules<Codec> for CacherayRules {
    fn new(codec: &Codec) -> CacherayRules {
        CacherayRules { dialect: codec.dialect, live: RegionMap::default(), removed: RegionMap::default() }
    }

    fn batch(&mut self, batch: &Batch, log: &mut Log) {
        let dialect = self.dialect;
        let at = |record: u32| At { dialect, batch, record };
        let (accesses, regions) = (&batch.accesses, &batch.regions);
        let mut next = 0;
        for row in 0..=regions.len() {
            let until = regions.at.get(row).copied().unwrap_or(u32::MAX);
            while let Some(record) = accesses.at.get(next).copied().filter(|record| *record < until) {
                self.access(at(record), accesses.addr[next], accesses.size[next], log);
                next += 1;
            }
            let Some(what) = regions.what.get(row) else { break };
            let addr = regions.addr[row];
            match what {
                RegionEvent::Add => {
                    let size = (regions.element_bytes[row], regions.n_elements[row]);
                    self.add(at(until), addr, size, regions.type_name.get(row), log);
                }
                RegionEvent::Remove => self.remove(at(until), addr, log),
            }
        }
    }

    fn merge(&mut self, later: CacherayRules) {
        // There is only one shard, so no region was live before it.
        *self = later;
    }

    fn end(self, log: &mut Log) {
        let live = self.live.iter().filter(|region| region.start != 0);
        let mut left: Vec<(u64, u64)> = live.map(|region| (region.what, region.start)).collect();
        left.sort_unstable();
        for (record, start) in left {
            log.add(&rules::NEVER_REMOVED, || {
                let what =
                    format!("the region at `{start:#x}`, annotated by record `{record}`, is never removed");
                (None, Some(record), what)
            });
        }
    }
}
