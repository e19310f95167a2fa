//! Statistics that need a whole stream: events by type, threads, sizes, targets of accesses, functions.

use crate::codec::Codec;
use crate::event::Kind;
use crate::table::{Events, code, type_name};
use quipu_model::trace::{Fact, Surveyed};
use quipu_records::FlatTrace;
use quipu_records::survey::{self, Accesses, counted};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of functions in the report.
const TOP_FUNCTIONS: usize = 50;
/// Maximum number of functions counted.
const MAX_FUNCTIONS: usize = 100_000;

/// Reads the whole stream, unless it is cancelled.
pub(crate) fn survey(trace: &FlatTrace<Codec>, is_cancelled: &dyn Fn() -> bool) -> Surveyed {
    let (mut n_events, mut by_type, mut threads) = (0u64, BTreeMap::<u16, u64>::new(), BTreeSet::new());
    let (mut accesses, mut functions) = (Accesses::default(), FxHashMap::<Vec<u8>, u64>::default());
    let enter = code(Kind::Context, crate::event::context::ENTER);
    let surveyed = survey::survey(
        trace,
        is_cancelled,
        |batch| {
            let Some(rows) = batch.tables.first().and_then(|table| table.get::<Events>()) else { return };
            n_events += rows.len() as u64;
            if !rows.is_empty() {
                threads.insert(batch.span.thread);
            }
            for (row, kind) in rows.kind.iter().enumerate() {
                *by_type.entry(*kind).or_insert(0) += 1;
                if kind >> 8 == Kind::Memory as u16 && rows.addr.valid.get(row) {
                    accesses.add(rows.addr.values[row], rows.size.values[row].into());
                }
                if *kind == enter
                    && let Some(name) = rows.name.get(row)
                {
                    if let Some(count) = functions.get_mut(name) {
                        *count += 1;
                    } else if functions.len() < MAX_FUNCTIONS {
                        functions.insert(name.to_vec(), 1);
                    }
                }
            }
        },
        |_| Vec::new(),
    );
    let named = |(code, count): (&u16, &u64)| {
        let name = type_name(*code).map_or_else(|| format!("{}.{}", code >> 8, code & 0xff), str::to_owned);
        (name, *count)
    };
    let mut top: Vec<_> = functions.iter().collect();
    top.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let top = top.iter().take(TOP_FUNCTIONS);
    let top = top.map(|(name, count)| (String::from_utf8_lossy(name).into_owned(), **count));
    let mut facts = vec![
        Fact::new("records", "events", n_events),
        Fact::new("by_type", "events by type", counted(by_type.iter().map(named))),
        Fact::new("access_sizes", "accesses by size", counted(accesses.sizes.clone())),
    ];
    facts.extend(accesses.facts());
    facts.extend([
        Fact::new("threads", "threads", threads.len() as u64),
        Fact::counted_up_to(
            "distinct_functions",
            "distinct functions",
            functions.len() as u64,
            MAX_FUNCTIONS as u64,
        ),
        Fact::new("functions", "calls by function", counted(top)),
    ]);
    Surveyed { facts, ..surveyed }
}
