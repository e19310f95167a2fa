//! `categories`: how often instructions of each category are executed.
//!
//! Counts every executed instruction, further iterations of string loops included, under the *set* of its categories
//! (`load math` is a different set from `load` and from `math`). Categories are DynamoRIO's: `fp`, `load`, `store`, `branch`,
//! `simd`, `state`, `move`, `convert`, `math`, `other`; the empty set, `uncategorized`, also holds instructions that cannot be
//! decoded and those without an encoding in the trace. REGDEPS traces state the categories themselves.
//! (SPEC: drmemtrace.md#regdeps-encodings, drmemtrace.md#opcode_mix.)
//!
//! Each distinct instruction is decoded once; memory grows with their number.
//!
//! * **Needs** `instrs`, `instrs.code`, and a trace that says its architecture.
//! * **Options** `per-thread`.

use crate::executed::{Executed, Kinds};
use crate::filtered::Filtered;
use crate::number::share_cell;
use crate::opcodes::{DECODING, decodable};
use crate::split::{Answer, PER_THREAD, Part, PerThread, Split};
use crate::tally::Map;
use quipu_isa::Categories;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Cells, Fields, Kind, Shape, Value};
use quipu_model::schema::Type;
use quipu_model::{Batch, DynPass, Options, Order, Result, Tool, ToolInfo, Trace};
use serde::{Serialize, Serializer};
use std::cmp::Reverse;

#[cfg(test)]
mod tests;

/// The tool `categories`.
#[derive(Debug)]
pub struct CategoryMix;

static INFO: ToolInfo = ToolInfo {
    name: "categories",
    summary: "how often instructions of each category are executed",
    needs: DECODING,
    order: Order::Pieces,
    options: &[PER_THREAD],
    in_report: false,
};

impl Tool for CategoryMix {
    fn result(&self) -> Shape {
        PerThread::<CategorySets>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(Split::new(BySet(Executed::new(decodable(INFO.name, trace)?)), options, trace)))
    }
}

result! {
    /// How often each set of categories was executed.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CategorySets {
        pub executed: u64 => "Executed instructions, further iterations of string loops included.";
        pub sets: Vec<SetCount> =>
            "Each set, most frequent first; equal counts by ascending bits of the set.";
    }
}

result! {
    /// One set of categories.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetCount {
        pub categories: Categories as Named => "Categories in the set.";
        pub count: u64 => "Executed instructions with this set.";
    }
}

/// A set as the list of its names.
#[derive(Debug)]
pub struct Named<'a, T>(pub &'a T);

impl Serialize for Named<'_, Categories> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.names())
    }
}

impl Value for Named<'_, Categories> {
    fn kind() -> Kind {
        Kind::cell(Type::Text).list()
    }

    fn cells(&self, cells: &mut Cells<'_>) {
        cells.list(|add| self.0.names().for_each(|name| add(&|cell| cell.text(name))));
    }
}

impl CategorySets {
    pub(crate) fn new(kinds: &Kinds) -> CategorySets {
        let mut by_set = Map::default();
        if kinds.without > 0 {
            by_set.insert(Categories::UNCATEGORIZED, kinds.without);
        }
        for (kind, count) in &kinds.counts {
            *by_set.entry(kind.categories).or_insert(0) += count;
        }
        let mut sets: Vec<SetCount> =
            by_set.into_iter().map(|(categories, count)| SetCount { categories, count }).collect();
        sets.sort_unstable_by_key(|set| (Reverse(set.count), set.categories));
        CategorySets { executed: sets.iter().map(|set| set.count).sum(), sets }
    }
}

#[derive(Clone)]
struct BySet(Executed);

impl Part for BySet {
    type Answer = CategorySets;

    fn consume(&mut self, batch: &Batch) {
        self.0.consume(batch);
    }

    fn merge(&mut self, later: BySet) {
        self.0.merge(later.0);
    }

    fn answer(self) -> CategorySets {
        CategorySets::new(&self.0.finish())
    }
}

/// Number of sets in a brief document.
const BRIEF_ROWS: usize = 8;

impl Answer for CategorySets {
    fn document(&self, detail: Detail, filtered: Filtered) -> Document {
        let shown = if detail == Detail::Brief { BRIEF_ROWS.min(self.sets.len()) } else { self.sets.len() };
        let row = |set: &SetCount| {
            vec![
                Cell::Text(set.categories.to_string()),
                Cell::Count(set.count),
                share_cell(set.count, self.executed),
            ]
        };
        let facts = vec![(filtered.executed_instructions().to_owned(), vec![Cell::Count(self.executed)])];
        let grid = Grid {
            title: String::new(),
            head: ["categories", filtered.executed(), filtered.share_of_executed()].map(str::to_owned).into(),
            rows: self.sets.iter().take(shown).map(row).collect(),
            more: (self.sets.len() - shown) as u64,
        };
        Document::new("Categories of work").with(Block::Facts(facts)).with(Block::Grid(grid))
    }
}
