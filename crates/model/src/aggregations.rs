//! What aggregations come to, as results: traces of several formats have some, which were made while they were recorded.
//!
//! A format merges its own and gives [`OneVariable`]s to a [`Merging`], the pass of its tool `aggregations`. Values are those of
//! the whole run, whatever part of the records is asked for: aggregations have no times.

use crate::doc::{Bars, Block, Cell, Document, Grid};
use crate::options::{Kind, OptionSpec, Options};
use crate::pass::{Detail, Needs};
use crate::{Batch, Columns, Finding, Order, Pass, Report, ReportBody, Result, Shard, ToolInfo, result};
use std::sync::Arc;

const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "20", "how many keys of each variable to list");

/// The tool `aggregations` of a format.
#[must_use]
pub const fn info(format: &'static str) -> ToolInfo {
    ToolInfo {
        name: "aggregations",
        summary: "the values of aggregations, and their histograms",
        needs: Needs { format: Some(format), required: Columns::NONE, optional: Columns::NONE },
        order: Order::Shards,
        options: &[TOP],
        in_report: true,
    }
}

/// Gives the variables of a trace, and what is wrong with what they were merged from.
pub type Variables = dyn Fn() -> Result<(Vec<OneVariable>, Vec<Finding>)> + Send + Sync;

/// Waits for the end: values are merged once.
#[derive(Clone)]
pub struct Merging {
    top: usize,
    variables: Arc<Variables>,
}

impl std::fmt::Debug for Merging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merging").field("top", &self.top).finish_non_exhaustive()
    }
}

impl Merging {
    /// A pass that asks for the variables at its end.
    pub fn new(
        options: &Options,
        variables: impl Fn() -> Result<(Vec<OneVariable>, Vec<Finding>)> + Send + Sync + 'static,
    ) -> Merging {
        Merging { top: options.length(&TOP), variables: Arc::new(variables) }
    }
}

impl Pass for Merging {
    fn fork(&self, _: &Shard) -> Merging {
        self.clone()
    }

    fn consume(&mut self, _: &Batch) -> Result<()> {
        Ok(())
    }

    fn merge(&mut self, _: Merging) -> Result<()> {
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let (variables, findings) = (self.variables)()?;
        Ok(Box::new(AggregationValues { top: self.top, variables, findings }))
    }
}

result! {
    /// The aggregations of a trace.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AggregationValues {
        pub variables: Vec<OneVariable> => "The variables, by number.";
    } beside {
        top: usize => "How many keys of each are shown.";
        findings: Vec<Finding> => "What is wrong with what they were merged from.";
    }
}

result! {
    /// A variable.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OneVariable {
        pub variable: u64, key => "Its number.";
        pub name: Option<String> => "Its name, where the trace says it.";
        pub function: String => "What it does with values.";
        pub keys: Vec<OneKey> => "Its keys, those with the largest values first.";
    }
}

result! {
    /// A key of a variable.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OneKey {
        pub key: String => "Its members, with commas.";
        pub value: i64 => "The number that is printed; of a histogram, the sum of its cells.";
        pub cells: Vec<OneCell> => "The cells of a histogram that count something.";
    } beside {
        pub rows: Vec<(String, i64)> => "The rows of a histogram that may be drawn, with what each is called.";
    }
}

result! {
    /// A cell of a histogram.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OneCell {
        pub bound: i64 => "The value that it begins with.";
        pub count: i64 => "What it counts.";
    }
}

/// Rows of a chart of a histogram: what counts nothing stands between what does, unless that makes too many.
fn bars_of(rows: &[(String, i64)]) -> Vec<&(String, i64)> {
    match rows.len() > ROWS {
        true => rows.iter().filter(|(_, count)| *count != 0).take(ROWS).collect(),
        false => rows.iter().collect(),
    }
}

/// A bar of a number; bars have no side for negative ones, so their names say it.
fn bar(name: &str, number: i64) -> (String, u64) {
    let name = if number < 0 { format!("{name} (negative)") } else { name.to_owned() };
    (name, number.unsigned_abs())
}

fn chart(title: String, bars: Vec<(String, u64)>) -> Block {
    let total = bars.iter().fold(0, |sum: u64, (_, part)| sum.saturating_add(*part));
    Block::Bars(Bars { title, total, bars })
}

impl OneVariable {
    /// True for numbers that are shares of a whole.
    fn is_shares(&self) -> bool {
        matches!(self.function.as_str(), "count" | "sum")
            && self.keys.len() > 1
            && self.keys.iter().all(|key| key.value >= 0)
    }

    /// What the number of a key is: of a histogram, how many values it counts.
    fn column(&self) -> &str {
        match self.keys.iter().any(|key| !key.rows.is_empty()) {
            true => "values counted",
            false => &self.function,
        }
    }

    /// What it is called: `@name: count`.
    fn title(&self) -> String {
        let name = self.name.as_ref().filter(|name| !name.is_empty());
        let name =
            name.map_or_else(|| self.variable.to_string(), |name| name.trim_start_matches('@').to_owned());
        format!("@{name}: {}", self.function)
    }
}

/// Rows of a histogram that are drawn; those of `quantize()` are fewer, those of `lquantize()` may be 65,000.
const ROWS: usize = 130;

/// Histograms that are drawn of one variable.
const DRAWN: usize = 8;

impl ReportBody for AggregationValues {
    fn findings(&self) -> Vec<Finding> {
        self.findings.clone()
    }

    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Aggregations");
        for variable in &self.variables {
            let drawn = variable.keys.iter().filter(|key| !key.rows.is_empty());
            for key in drawn.take(if detail == Detail::Brief { 1 } else { DRAWN }) {
                let bars = bars_of(&key.rows).into_iter().map(|(label, count)| bar(label, *count)).collect();
                let of = if key.key.is_empty() { String::new() } else { format!(" of {}", key.key) };
                document.blocks.push(chart(format!("{}{of}", variable.title()), bars));
            }
            let shown = if detail == Detail::Brief { self.top.min(5) } else { self.top };
            let shown_keys = variable.keys.iter().take(shown);
            if variable.is_shares() && detail == Detail::Full {
                let bars = shown_keys.clone().map(|key| bar(&key.key, key.value)).collect();
                document.blocks.push(chart(format!("{} by key", variable.title()), bars));
            }
            // Numbers may be negative.
            let row = |key: &OneKey| vec![Cell::Text(key.key.clone()), Cell::Text(key.value.to_string())];
            document.blocks.push(Block::Grid(Grid {
                title: variable.title(),
                head: vec!["key".to_owned(), variable.column().to_owned()],
                rows: shown_keys.map(row).collect(),
                more: variable.keys.len().saturating_sub(shown) as u64,
            }));
        }
        if self.variables.is_empty() && detail == Detail::Full {
            document.blocks.push(Block::Note("The trace has no aggregations.".into()));
        }
        document
    }
}
