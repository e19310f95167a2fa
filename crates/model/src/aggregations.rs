//! The shared tool `aggregations`: merged aggregations as results, for the formats whose traces have some.
//!
//! Aggregations were computed while the trace was recorded. A format merges its own and gives [`OneVariable`]s to a
//! [`Merging`], the pass of the tool. The values are always those of the whole run, even if only part of the records is read:
//! aggregations carry no times.

use crate::column::Strings;
use crate::doc::{Bars, Block, Cell, Document, Grid, MAX_BARS};
use crate::options::{Kind, OptionSpec, Options};
use crate::pass::{Detail, Needs};
use crate::{
    Batch, Columns, Finding, Order, Pass, Report, ReportBody, Result, Shard, ToolInfo, result, rows,
};
use std::sync::Arc;

const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "20", "how many keys of each variable to list");

/// Describes the tool `aggregations` of a format.
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

/// Returns the variables of a trace, and the findings from merging them.
pub type Variables = dyn Fn() -> Result<(Vec<OneVariable>, Vec<Finding>)> + Send + Sync;

/// The pass of the tool `aggregations`. It ignores batches and asks for the merged variables once, when it finishes.
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
    /// Creates a pass that calls `variables` when it finishes.
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

rows! {
    /// Rows of the table `aggregations`: one for each key.
    pub struct Aggregations: "aggregations" derived "keys and values of aggregations, merged over the whole run" {
        variable: Vec<u64> => "number of the variable";
        name: Strings => "name of the variable, if the trace has it";
        does("function"): Strings => "aggregating function";
        key: Strings => "members of the key, separated by commas";
        value: Vec<i64> => "the value as printed; for a histogram, the sum of its cells";
    }
}

result! {
    /// The aggregations of a trace.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AggregationValues {
        pub variables: Vec<OneVariable> => "The variables, by number.";
    } beside {
        top: usize => "Number of keys shown for each variable.";
        findings: Vec<Finding> => "Findings about the data that the values were merged from.";
    }
}

result! {
    /// One aggregation variable.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OneVariable {
        pub variable: u64, key => "Number of the variable.";
        pub name: Option<String> => "Name of the variable, if the trace has it.";
        pub function: String => "Aggregating function, such as `count` or `quantize`.";
        pub keys: Vec<OneKey> => "Keys of the variable, by value, largest first.";
    }
}

result! {
    /// A key of a variable.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OneKey {
        pub key: String => "Members of the key, separated by commas.";
        pub value: i64 => "The value as printed; for a histogram, the sum of its cells.";
        pub cells: Vec<OneCell> => "Nonzero cells of a histogram.";
    } beside {
        pub rows: Vec<(String, i64)> => "Rows of the histogram that can be drawn: label and count.";
    }
}

result! {
    /// A cell of a histogram.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OneCell {
        pub bound: i64 => "Smallest value of the cell.";
        pub count: i64 => "Number of values in the cell.";
    }
}

/// Selects the rows of a histogram to draw: all if they fit into a chart ([`MAX_BARS`]), otherwise only those that are not
/// zero, up to that number. Also returns how many rows that are not zero had to be left out.
pub fn bars_of(rows: &[(String, i64)]) -> (Vec<&(String, i64)>, usize) {
    if rows.len() <= MAX_BARS {
        return (rows.iter().collect(), 0);
    }
    let mut counting: Vec<&(String, i64)> = rows.iter().filter(|(_, count)| *count != 0).collect();
    let n_left = counting.len().saturating_sub(MAX_BARS);
    counting.truncate(MAX_BARS);
    (counting, n_left)
}

/// Ends notes about omitted rows: the command that prints all of them.
const ALL: &str = "`quipu analyze aggregations --json` has all";

/// The label and length of a bar. Bars cannot show a sign, so the label of a negative number says `(negative)`.
pub fn bar(name: &str, number: i64) -> (String, u64) {
    let name = if number < 0 { format!("{name} (negative)") } else { name.to_owned() };
    (name, number.unsigned_abs())
}

/// A bar chart with a title; each bar is a share of the sum of all.
pub fn chart(title: String, bars: Vec<(String, u64)>) -> Block {
    let total = bars.iter().fold(0, |sum: u64, (_, part)| sum.saturating_add(*part));
    Block::Bars(Bars { title, total, bars })
}

impl OneVariable {
    /// True if the numbers of the keys add up to a whole, so that a chart can show them as shares.
    fn is_shares(&self) -> bool {
        matches!(self.function.as_str(), "count" | "sum")
            && self.keys.len() > 1
            && self.keys.iter().all(|key| key.value >= 0)
    }

    /// The column head for the numbers of keys: for histograms, the number of values counted.
    fn column(&self) -> &str {
        match self.keys.iter().any(|key| !key.rows.is_empty()) {
            true => "values counted",
            false => &self.function,
        }
    }

    /// The title, such as `@name: count`.
    fn title(&self) -> String {
        let name = self.name.as_ref().filter(|name| !name.is_empty());
        let name =
            name.map_or_else(|| self.variable.to_string(), |name| name.trim_start_matches('@').to_owned());
        format!("@{name}: {}", self.function)
    }
}

impl ReportBody for AggregationValues {
    fn findings(&self) -> Vec<Finding> {
        self.findings.clone()
    }

    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Aggregations");
        for variable in &self.variables {
            let histograms: Vec<&OneKey> = variable.keys.iter().filter(|key| !key.rows.is_empty()).collect();
            let n_drawn = if detail == Detail::Brief { 1 } else { self.top };
            let (drawn, rest) = histograms.split_at(histograms.len().min(n_drawn));
            for key in drawn {
                let of = if key.key.is_empty() { String::new() } else { format!(" of {}", key.key) };
                let title = format!("{}{of}", variable.title());
                let (rows, n_left) = bars_of(&key.rows);
                let is_whole = rows.len() == key.rows.len();
                let bars = rows.into_iter().map(|(label, count)| bar(label, *count)).collect();
                document.blocks.push(chart(title.clone(), bars));
                if n_left > 0 {
                    let note = format!(
                        "{n_left} more rows of {title} are not drawn, nor are those that count nothing: {ALL}."
                    );
                    document.blocks.push(Block::Note(note));
                } else if !is_whole {
                    let n = key.rows.len();
                    let note = format!("Of the {n} rows of {title}, those that count nothing are not drawn.");
                    document.blocks.push(Block::Note(note));
                }
            }
            if !rest.is_empty() {
                let (n, title) = (rest.len(), variable.title());
                let note = format!(
                    "{n} more histograms of {title} are not drawn: `quipu analyze aggregations --top {}` draws them.",
                    variable.keys.len()
                );
                document.blocks.push(Block::Note(note));
            }
            let shown = if detail == Detail::Brief { self.top.min(5) } else { self.top };
            let shown_keys = variable.keys.iter().take(shown);
            if variable.is_shares() && detail == Detail::Full {
                let bars = shown_keys.clone().map(|key| bar(&key.key, key.value)).collect();
                document.blocks.push(chart(format!("{} by key", variable.title()), bars));
            }
            // `Cell::Count` has no sign, so numbers are written as text.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n_keys: usize, rows: &[(String, i64)]) -> AggregationValues {
        let key = |at: usize| OneKey {
            key: format!("k{at}"),
            value: rows.iter().map(|(_, count)| count).sum(),
            cells: Vec::new(),
            rows: rows.to_vec(),
        };
        let keys = (0..n_keys).map(key).collect();
        let variable =
            OneVariable { variable: 1, name: Some("a".into()), function: "lquantize".into(), keys };
        AggregationValues { top: 20, variables: vec![variable], findings: Vec::new() }
    }

    /// The number of charts, the number of bars in the first, and the notes.
    fn drawn(values: &AggregationValues, detail: Detail) -> (usize, usize, Vec<String>) {
        let blocks = ReportBody::document(values, detail).blocks;
        let charts: Vec<usize> = blocks
            .iter()
            .filter_map(|block| match block {
                Block::Bars(bars) => Some(bars.bars.len()),
                _ => None,
            })
            .collect();
        let notes = blocks.into_iter().filter_map(|block| match block {
            Block::Note(note) => Some(note),
            _ => None,
        });
        (charts.len(), charts.first().copied().unwrap_or(0), notes.collect())
    }

    fn rows(n: usize, counts: impl Fn(usize) -> i64) -> Vec<(String, i64)> {
        (0..n).map(|at| (at.to_string(), counts(at))).collect()
    }

    #[test]
    fn histograms_are_drawn_whole_or_what_is_left_out_is_said() {
        let whole = rows(MAX_BARS, |at| i64::from(at % 3 == 0));
        assert_eq!(drawn(&values(20, &whole), Detail::Full), (20, MAX_BARS, Vec::new()));
        let sparse = rows(1000, |at| i64::from(at < 100));
        let (_, n, notes) = drawn(&values(1, &sparse), Detail::Full);
        assert_eq!(
            (n, &*notes),
            (
                100,
                &["Of the 1000 rows of @a: lquantize of k0, those that count nothing are not drawn."
                    .to_owned()][..]
            )
        );
        let dense = rows(1000, |at| i64::from(at < 500));
        let (_, n, notes) = drawn(&values(1, &dense), Detail::Full);
        assert_eq!(n, MAX_BARS);
        assert!(notes[0].starts_with("370 more rows of @a: lquantize of k0 are not drawn"), "{notes:?}");
        let (n, _, notes) = drawn(&values(25, &whole), Detail::Full);
        assert_eq!((n, notes.len()), (20, 1));
        assert!(notes[0].contains("5 more histograms") && notes[0].contains("--top 25"), "{notes:?}");
        let (n, _, notes) = drawn(&values(2, &whole), Detail::Brief);
        assert_eq!((n, notes.len()), (1, 1));
    }
}
