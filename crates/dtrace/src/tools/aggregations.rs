//! `aggregations`: the values of all aggregations, as tables and charts.
//!
//! Values are those of the whole run, whatever part of the records is asked for: aggregations have no times.
//!
//! * **Needs** a capture of DTrace.
//! * **Options** `top` (keys of each variable that are listed, those with the largest values; default 20; JSON has all).

use crate::aggregate::{Aggregates, Entry};
use crate::describe::Capture;
use crate::options::Settings;
use crate::trace::DtraceTrace;
use crate::{histogram, sort, table};
use quipu_model::ReportBody;
use quipu_model::doc::{Bars, Block, Cell, Document, Grid};
use quipu_model::options::{Kind, OptionSpec, Options};
use quipu_model::pass::{Detail, Needs};
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{Batch, Columns, DynPass, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace};
use std::sync::Arc;

/// The tool `aggregations`.
#[derive(Debug)]
pub struct Values;

const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "20", "how many keys of each variable to list");

static INFO: ToolInfo = ToolInfo {
    name: "aggregations",
    summary: "the values of aggregations, and their histograms",
    needs: Needs { format: Some("dtrace"), required: Columns::NONE, optional: Columns::NONE },
    order: Order::Shards,
    options: &[TOP],
    in_report: true,
};

impl Tool for Values {
    fn result(&self) -> Shape {
        AggregationValues::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let capture = Arc::clone(DtraceTrace::of(trace)?.capture());
        Ok(Box::new(Merging { top: options.length(&TOP), capture }))
    }
}

result! {
    /// The aggregations of a capture.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AggregationValues {
        pub variables: Vec<OneVariable> => "The variables, by number.";
    } beside {
        top: usize => "How many keys of each are shown.";
    }
}

result! {
    /// A variable.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OneVariable {
        pub variable: u64, key => "Its number.";
        pub name: Option<String> => "Its name, where the capture says it.";
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
        rows: Vec<(String, i64)> => "The rows of a histogram that are drawn.";
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

/// Waits for the end: values are merged once.
#[derive(Clone, Debug)]
struct Merging {
    top: usize,
    capture: Arc<Capture>,
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
        let all = table::merged(&self.capture);
        Ok(Box::new(AggregationValues { top: self.top, variables: variables(&self.capture, &all) }))
    }
}

fn variables(capture: &Capture, all: &Aggregates) -> Vec<OneVariable> {
    let mut entries: Vec<&Entry> = all.entries().collect();
    let settings = Settings { aggsortrev: true, ..Settings::default() };
    sort::entries(capture, &settings, &mut entries);
    let mut variables: Vec<OneVariable> = entries
        .chunk_by(|a, b| a.variable == b.variable)
        .filter_map(|entries| {
            let first = entries.first()?;
            let described = &capture.aggregations[first.aggregation];
            let keys = entries.iter().map(|entry| OneKey {
                key: String::from_utf8_lossy(&table::key_text(capture, entry)).into_owned(),
                value: table::value_of(entry),
                cells: cells(capture, entry),
                rows: match entry.value.function.is_histogram() {
                    true => drawn(histogram::labelled(&entry.value, capture.dialect)),
                    false => Vec::new(),
                },
            });
            Some(OneVariable {
                variable: first.variable,
                name: described.name.clone(),
                function: described.function.name().to_owned(),
                keys: keys.collect(),
            })
        })
        .collect();
    variables.sort_by_key(|variable| variable.variable);
    variables
}

fn cells(capture: &Capture, entry: &Entry) -> Vec<OneCell> {
    if !entry.value.function.is_histogram() {
        return Vec::new();
    }
    let bounds = entry.value.bounds(capture.dialect);
    let cells = bounds.into_iter().zip(&entry.value.cells).filter(|(_, count)| **count != 0);
    cells.map(|(bound, count)| OneCell { bound, count: *count }).collect()
}

/// Rows of a chart of a histogram: what counts nothing stands between what does, unless that makes too many.
fn drawn(mut rows: Vec<(String, i64)>) -> Vec<(String, i64)> {
    if rows.len() > ROWS {
        rows.retain(|(_, count)| *count != 0);
        rows.truncate(ROWS);
    }
    rows
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
    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Aggregations");
        for variable in &self.variables {
            let drawn = variable.keys.iter().filter(|key| !key.rows.is_empty());
            for key in drawn.take(if detail == Detail::Brief { 1 } else { DRAWN }) {
                let bars = key.rows.iter().map(|(label, count)| bar(label, *count)).collect();
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
            document.blocks.push(Block::Note("The capture has no aggregations.".into()));
        }
        document
    }
}
