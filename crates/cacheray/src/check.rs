//! `check`: every rule that a trace must follow, and where it does not.
//!
//! Damage is told by the reader; what records say is looked at here. Memory grows with the number of regions that are live
//! at once, and of stretches of memory that ever were in one.
//!

use crate::record::Dialect;
use crate::rules::{self, RULES};
use crate::trace::CacherayTrace;
use quipu_model::check::{self, CheckLog, CheckReport, CheckedRecords};
use quipu_model::lens::RegionEvent;
use quipu_model::pass::Needs;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Error, Options, Order, Pass, Place, Report, Result, Shard, Tool, ToolInfo, Trace,
};
use quipu_symbols::regions::RegionMap;

/// Longer names are told.
const USUAL_NAME_BYTES: usize = 4096;

/// The tool `check`.
#[derive(Debug)]
pub struct Check;

static INFO: ToolInfo = ToolInfo {
    name: "check",
    summary: "whether a trace follows the rules of its format, and where not",
    needs: Needs {
        format: Some("cacheray"),
        required: Columns::ACCESSES.or(Columns::REGIONS),
        optional: Columns::NONE,
    },
    order: Order::Shards,
    options: &check::options("look at what records say; without, only at how they are stored"),
    in_report: false,
};

impl Tool for Check {
    fn result(&self) -> Shape {
        CheckReport::<CheckedRecords>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    /// What is live at its beginning is not known of a part.
    fn wants_whole_traces(&self) -> bool {
        true
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let Some(opened) = trace.as_any().and_then(|trace| trace.downcast_ref::<CacherayTrace>()) else {
            return Err(Error::missing("this is no trace of format cacheray"));
        };
        let log = CheckLog::new(options, RULES, &trace.meta().findings)?;
        Ok(Box::new(CheckPass {
            file: opened.container().name().to_owned(),
            dialect: opened.dialect(),
            log,
            decodes: options.flag(&check::DECODE),
            n_records: 0,
            live: RegionMap::default(),
            removed: RegionMap::default(),
        }))
    }
}

/// The rules that records follow.
struct CheckPass {
    file: String,
    dialect: Dialect,
    log: CheckLog,
    decodes: bool,
    n_records: u64,
    /// With the record that added each.
    live: RegionMap<u64>,
    /// With the record that removed each.
    removed: RegionMap<u64>,
}

/// A place in a batch, told only where something is wrong.
#[derive(Clone, Copy)]
struct At<'a> {
    file: &'a str,
    dialect: Dialect,
    batch: &'a Batch,
    record: u32,
}

impl At<'_> {
    fn place(self) -> Place {
        let At { file, dialect, batch, record } = self;
        let before = batch.regions.at.iter().take_while(|at| **at < record).count();
        let annotations = batch.regions.what.iter().zip(batch.regions.type_name.iter()).take(before);
        let n_bytes: usize = annotations
            .map(|(what, name)| match what {
                RegionEvent::Add => dialect.add_bytes() + name.len(),
                RegionEvent::Remove => dialect.remove_bytes(),
            })
            .sum();
        let n_accesses = record as usize - before;
        let offset = batch.span.offset + (n_bytes + n_accesses * dialect.access_bytes()) as u64;
        Place {
            file: Some(file.to_owned()),
            offset: Some(offset),
            record: Some(batch.span.first_record + u64::from(record)),
            ..Place::default()
        }
    }
}

fn is_canonical(addr: u64) -> bool {
    matches!(addr >> 48, 0 | 0xffff)
}

impl CheckPass {
    fn access(&mut self, at: At<'_>, addr: u64, size: u32) {
        let log = &mut self.log;
        if !matches!(size, 1 | 2 | 4 | 8 | 16) {
            log.add(&rules::ODD_SIZE, || (at.place(), format!("an access has `{size}` bytes")));
        }
        if !is_canonical(addr) {
            log.add(&rules::ADDRESS, || (at.place(), format!("an access goes to `{addr:#x}`")));
        }
        match self.live.at(addr) {
            Some(region) => {
                let end = addr.saturating_add(size.into());
                if end > region.end {
                    log.add(&rules::OUTSIDE, || {
                        let (start, end) = (region.start, region.end);
                        (
                            at.place(),
                            format!("`{size}` bytes from `{addr:#x}` on reach over the end of region `{start:#x}` to `{end:#x}`"),
                        )
                    });
                }
            }
            None => {
                if let Some(region) = self.removed.at(addr) {
                    log.add(&rules::AFTER_REMOVE, || {
                        let (start, by) = (region.start, region.what);
                        (at.place(), format!("`{addr:#x}` is in the region from `{start:#x}` on, which record `{by}` removed"))
                    });
                }
            }
        }
    }

    fn add(&mut self, at: At<'_>, addr: u64, (element_bytes, n_elements): (u64, u64), name: &[u8]) {
        let log = &mut self.log;
        if name.len() > USUAL_NAME_BYTES || std::str::from_utf8(name).is_err() {
            log.add(&rules::BAD_NAME, || {
                let start = String::from_utf8_lossy(name.get(..40).unwrap_or(name)).into_owned();
                (at.place(), format!("a name of `{}` bytes begins with `{start}`", name.len()))
            });
        }
        if addr == 0 {
            log.add(&rules::NULL_REGION, || (at.place(), "a region begins at 0".to_owned()));
        } else if !is_canonical(addr) {
            log.add(&rules::ADDRESS, || (at.place(), format!("a region begins at `{addr:#x}`")));
        }
        if n_elements == 0 {
            log.add(&rules::NO_ELEMENTS, || {
                (at.place(), format!("the region at `{addr:#x}` has no elements"))
            });
        }
        // Two numbers of 32 bits.
        let n_bytes = element_bytes.saturating_mul(n_elements);
        if addr.checked_add(n_bytes).is_none() {
            log.add(&rules::WRAPS, || (at.place(), format!("`{n_bytes}` bytes from `{addr:#x}` on")));
        }
        if addr != 0 {
            let over = self.live.over(addr, n_bytes);
            let what = || format!("`{n_bytes}` bytes from `{addr:#x}` on");
            if over.same_start {
                log.add(&rules::OVER_LIVE, || (at.place(), format!("{}, where a region begins", what())));
            } else if over.overlap {
                log.add(&rules::OVERLAP, || (at.place(), format!("{}, partly in another region", what())));
            } else if over.nested {
                log.add(&rules::NESTED, || {
                    (at.place(), format!("{}, within or around another region", what()))
                });
            }
        }
        self.removed.clear(addr, n_bytes);
        let _ = self.live.add(addr, n_bytes, at.batch.span.first_record + u64::from(at.record) + 1);
    }

    fn remove(&mut self, at: At<'_>, addr: u64) {
        match self.live.remove(addr) {
            Some(region) => {
                let record = at.batch.span.first_record + u64::from(at.record) + 1;
                let _ = self.removed.add(region.start, region.end - region.start, record);
            }
            None if addr != 0 => {
                self.log
                    .add(&rules::NO_ADD, || (at.place(), format!("no live region begins at `{addr:#x}`")));
            }
            None => {}
        }
    }
}

impl Pass for CheckPass {
    fn fork(&self, _shard: &Shard) -> CheckPass {
        CheckPass {
            file: self.file.clone(),
            dialect: self.dialect,
            log: self.log.fork(),
            decodes: self.decodes,
            n_records: 0,
            live: RegionMap::default(),
            removed: RegionMap::default(),
        }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        let file = self.file.clone();
        let dialect = self.dialect;
        let at = |record: u32| At { file: &file, dialect, batch, record };
        self.n_records += u64::from(batch.span.records);
        batch.findings.iter().for_each(|finding| self.log.take(finding.clone()));
        if !self.decodes {
            return Ok(());
        }
        let (accesses, regions) = (&batch.accesses, &batch.regions);
        let mut next = 0;
        for row in 0..=regions.len() {
            let until = regions.at.get(row).copied().unwrap_or(u32::MAX);
            while let (Some(record), Some(addr), Some(size)) =
                (accesses.at.get(next).copied(), accesses.addr.get(next), accesses.size.get(next))
                && record < until
            {
                self.access(at(record), *addr, *size);
                next += 1;
            }
            let Some(what) = regions.what.get(row) else { break };
            let at = at(until);
            match what {
                RegionEvent::Add => {
                    let name = regions.type_name.get(row);
                    self.add(
                        at,
                        regions.addr[row],
                        (regions.element_bytes[row], regions.n_elements[row]),
                        name,
                    );
                }
                RegionEvent::Remove => self.remove(at, regions.addr[row]),
            }
        }
        Ok(())
    }

    fn merge(&mut self, later: CheckPass) -> Result<()> {
        self.log.merge(later.log);
        self.n_records += later.n_records;
        // There is one shard: nothing was live before it.
        (self.live, self.removed) = (later.live, later.removed);
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        let mut left: Vec<(u64, u64)> = self
            .live
            .iter()
            .filter(|region| region.start != 0)
            .map(|region| (region.what, region.start))
            .collect();
        left.sort_unstable();
        for (record, start) in left {
            let place = Place { file: Some(self.file.clone()), record: Some(record), ..Place::default() };
            let what =
                format!("the region at `{start:#x}`, annotated by record `{record}`, is never removed");
            self.log.add(&rules::NEVER_REMOVED, || (place, what));
        }
        Ok(Box::new(CheckReport::of_records(&self.log.close(), self.n_records)))
    }
}
