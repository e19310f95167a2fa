//! Rows of the misses of one cache: one for each line that an access requested and the cache did not hold.
//!
//! Each row is at the record of its access, so queries can group by pc, line, thread, time or anything else of it. `cache`
//! is a name as in the simulation: `LL`, or `L1D0` for the first core; without a number, `L1D` selects those of all cores.
//! Requests of the cache's own prefetcher are left out, because they are not accesses of the program. Misses before the end
//! of a warm-up are left out, as everywhere.

use crate::caches;
use crate::machine::{Miss, Purpose};
use crate::options::{fit_trace, option};
use crate::simulate::{OPTIONAL, Simulation};
use crate::spec::CacheSpec;
use quipu_model::column::Strings;
use quipu_model::lens::AccessKind;
use quipu_model::options::Kind;
use quipu_model::schema::{Role, Schema, Type, Unit};
use quipu_model::{
    Batch, Columns, DynPass, Error, Needs, OptionSpec, Options, Order, Result, RowTaker, RowTool, ToolInfo,
    Trace, rows,
};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Row source of the tool `misses`.
#[derive(Debug)]
pub(crate) struct Each;

const CACHE: OptionSpec =
    option("cache", Kind::Text, "LL", "which cache: LL, L1D, L1I, or L1D0 of a core", "");

static INFO: ToolInfo = ToolInfo {
    name: "misses",
    summary: "each miss of a cache",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: OPTIONAL },
    order: Order::Time,
    options: machine_options!([CACHE] []),
    in_report: false,
};

rows! {
    /// Misses of a cache.
    pub(crate) struct MissRows: "misses" derived "Misses of a cache." {
        at: Vec<u32> => "Record index inside the batch.";
        cache: Strings => "Name of the cache.";
        kind: Vec<AccessKind>, role(Role::ACCESS_KIND) => "Kind of the access.";
        addr: Vec<u64> as Type::Address, role(Role::ADDRESS)
            => "First requested byte of the line. An access that straddles lines may miss several.";
        size: Vec<u32>, unit(Unit::BYTES) => "Requested bytes from there on, including those of further lines.";
        pc: Vec<u64> as Type::Address, missing(0u64), role(Role::PC)
            => "Address of the instruction; for a fetch, of the instruction itself.";
    }
}

impl RowTool for Each {
    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn rows(&self) -> &'static Arc<Schema> {
        MissRows::table_schema()
    }

    fn leading(&self) -> Option<&'static OptionSpec> {
        INFO.options.first()
    }

    fn build(
        &self,
        options: &Options,
        trace: &dyn Trace,
        taker: Arc<dyn RowTaker>,
    ) -> Result<Box<dyn DynPass>> {
        let options = &fit_trace(options, trace);
        let settings = caches::settings(options, None)?.fitted(options, trace)?;
        settings.columns(INFO.name, trace)?;
        let teller = Teller::new(options.word(&CACHE), &settings.machine.caches, taker)?;
        Ok(Box::new(Simulation::new(settings, None)?.telling(teller)))
    }
}

/// Passes on the misses of some caches row by row.
#[derive(Clone)]
pub(crate) struct Teller {
    taker: Arc<dyn RowTaker>,
    /// Names of the caches whose misses become rows; `None` for the others.
    names: Arc<[Option<String>]>,
    rows: MissRows,
    /// Whether the consumer takes no more rows.
    pub(crate) is_over: bool,
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Teller {
    /// # Errors
    /// `Usage` if no cache has the name.
    fn new(name: &str, caches: &[CacheSpec], taker: Arc<dyn RowTaker>) -> Result<Teller> {
        let is_meant = |cache: &CacheSpec| {
            let rest = cache.name.get(..name.len()).filter(|begin| begin.eq_ignore_ascii_case(name));
            let number = rest.and_then(|_| cache.name.get(name.len()..));
            let number = number.map(|number| number.strip_prefix('-').unwrap_or(number));
            number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
        };
        let names: Arc<[Option<String>]> =
            caches.iter().map(|cache| is_meant(cache).then(|| cache.name.clone())).collect();
        if name.is_empty() || names.iter().all(Option::is_none) {
            let known: Vec<&str> = caches.iter().map(|cache| cache.name.as_str()).collect();
            return Err(Error::usage(format!("the machine has no cache `{name}`")).hint(format!(
                "caches: {}; without the number, L1D is that of all cores",
                known.join(", ")
            )));
        }
        Ok(Teller { taker, names, rows: MissRows::default(), is_over: false })
    }

    /// Passes on the misses of the accesses at these rows of a batch.
    pub(crate) fn tell(&mut self, batch: &Batch, range: Range<usize>, misses: &[Miss]) -> Result<()> {
        let is_told =
            |miss: &&Miss| miss.purpose != Purpose::OwnPrefetch && self.names[miss.cache as usize].is_some();
        let mut told: Vec<&Miss> = misses.iter().filter(is_told).collect();
        if told.is_empty() || self.is_over {
            return Ok(());
        }
        // If accesses are simulated cache by cache, only the misses of each single cache are in order.
        told.sort_by_key(|miss| miss.row);
        let rows = &mut self.rows;
        rows.clear();
        for miss in told {
            let row = range.start + miss.row as usize;
            rows.at.extend(batch.accesses.at.get(row));
            rows.kind.extend(batch.accesses.kind.get(row));
            rows.cache.push(self.names[miss.cache as usize].as_deref().unwrap_or_default().as_bytes());
            rows.addr.push(miss.addr);
            rows.size.push(miss.size);
            rows.pc.push(miss.pc);
        }
        self.is_over = !self.taker.take(&batch.span, rows)?;
        Ok(())
    }
}
