//! The result: keys with their values, as tables, as JSON and as text.

use super::keys::{Groups, Member};
use super::spec::{Function, Plan, Spec};
use super::values::Values;
use quipu_model::aggregations::{OneCell, bar, bars_of, chart};
use quipu_model::buckets::{ZERO_CELL, quantize_value};
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::pass::{Detail, ReportBody};
use quipu_model::result;
use std::cmp::Ordering;

result! {
    /// Aggregations of rows, by keys.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Aggregated {
        pub of: String => "Table or lens that was read; `records` if no column is named.";
        pub condition: Option<String> => "Condition that rows must meet.";
        pub rows: u64 => "Rows that met the condition.";
        pub by: Vec<String> => "Names of the keys' members.";
        pub keys: u64 => "Distinct keys.";
        pub aggregations: Vec<Aggregation> => "Aggregations, in the order given.";
        pub groups: Vec<Group> =>
            "Keys by the first aggregation, largest first, then by ascending key; at most `top`.";
    }
}

result! {
    /// One aggregation.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Aggregation {
        pub name: String => "Name given with `AS`, or the text of the aggregation.";
        pub function: &'static str => "Aggregating function.";
        pub missing: u64 => "Rows left out because they have no value.";
    }
}

result! {
    /// The rows of one key.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Group {
        pub key: String, key => "Members of the key, separated by commas.";
        pub members: Vec<String> => "Members of the key as a list; addresses in hexadecimal, `NULL` for no value.";
        pub values: Vec<GroupValue> => "Value of each aggregation.";
    }
}

result! {
    /// The value of one aggregation for a key.
    #[derive(Clone, Debug, PartialEq)]
    pub struct GroupValue {
        pub name: String, key => "Name of the aggregation.";
        pub value: Option<f64> =>
            "The value, or a histogram's number of values; null if no row has a value.";
        pub digits: Option<String> => "The value with all digits; addresses in hexadecimal.";
        pub cells: Vec<OneCell> => "Nonzero cells of a histogram.";
    } beside {
        rows: Vec<(String, i64)> => "Rows of the histogram that can be drawn: label and count.";
    }
}

/// The value by which keys are ordered.
#[derive(Clone, Copy, Debug)]
enum Rank {
    None,
    Int(i128),
    Float(f64),
}

impl Rank {
    fn order(self, other: Rank) -> Ordering {
        match (self, other) {
            (Rank::Int(one), Rank::Int(other)) => one.cmp(&other),
            (Rank::Float(one), Rank::Float(other)) => one.total_cmp(&other),
            (Rank::None, Rank::None) => Ordering::Equal,
            (Rank::None, _) => Ordering::Less,
            (_, Rank::None) => Ordering::Greater,
            (Rank::Int(one), Rank::Float(other)) => (one as f64).total_cmp(&other),
            (Rank::Float(one), Rank::Int(other)) => one.total_cmp(&(other as f64)),
        }
    }
}

impl Values {
    fn rank(&self, spec: &Spec, group: usize) -> Rank {
        let mean = |sum: f64, n: u64| if n == 0 { Rank::None } else { Rank::Float(sum / n as f64) };
        let is_avg = matches!(spec.function, Function::Avg);
        match self {
            Values::Count(all) => Rank::Int(all[group].into()),
            Values::Sums(all) if is_avg => quotient(all[group].sum, all[group].n),
            Values::Sums(all) if all[group].n == 0 => Rank::None,
            Values::Sums(all) => Rank::Int(all[group].sum),
            Values::FloatSums(all) if is_avg => mean(all[group].sum.value(), all[group].n),
            Values::FloatSums(all) if all[group].n == 0 => Rank::None,
            Values::FloatSums(all) => Rank::Float(all[group].sum.value()),
            Values::Extremes(all) => all[group].map_or(Rank::None, Rank::Int),
            Values::FloatExtremes(all) => all[group].map_or(Rank::None, Rank::Float),
            Values::Moments(all) => all[group].deviation().map_or(Rank::None, Rank::Float),
            Values::FloatMoments(all) => all[group].deviation().map_or(Rank::None, Rank::Float),
            Values::Histograms(all) => Rank::Int(all[group].total().into()),
        }
    }

    fn shown(&self, spec: &Spec, group: usize) -> GroupValue {
        let is_hex = spec.of.as_ref().is_some_and(|of| of.is_hex())
            && matches!(spec.function, Function::Min | Function::Max);
        let (value, digits) = match self.rank(spec, group) {
            Rank::None => (None, None),
            Rank::Int(number) => (Some(number as f64), Some(Member::Int(number).text(is_hex))),
            Rank::Float(number) => {
                (Some(number).filter(|number| number.is_finite()), Some(number.to_string()))
            }
        };
        let cells = match self {
            Values::Histograms(all) => all[group].cells(),
            _ => Vec::new(),
        };
        GroupValue {
            name: spec.name.clone(),
            value,
            digits,
            cells: cells
                .iter()
                .map(|(cell, n)| OneCell { bound: spec.bound(*cell), count: signed(*n) })
                .collect(),
            rows: spec.rows(&cells),
        }
    }
}

/// A sum divided by a count, rounded once or twice; the whole part is exact.
fn quotient(sum: i128, n: u64) -> Rank {
    if n == 0 {
        return Rank::None;
    }
    let n = i128::from(n);
    Rank::Float((sum / n) as f64 + (sum % n) as f64 / n as f64)
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Spec {
    /// The lower bound of a cell; the cell below the lowest bound has that bound less one step.
    fn bound(&self, cell: u32) -> i64 {
        let cell = cell as usize;
        match &self.function {
            Function::Lquantize(steps) => steps.0.bound(cell),
            Function::Llquantize(bounds) => cell.checked_sub(1).map_or(i64::MIN, |at| bounds[at]),
            _ => quantize_value(cell),
        }
    }

    fn label(&self, cell: u32) -> String {
        match &self.function {
            Function::Lquantize(steps) if cell == 0 => format!("< {}", steps.0.base),
            Function::Lquantize(steps) if cell as usize == steps.0.n_cells() - 1 => {
                format!(">= {}", self.bound(cell))
            }
            Function::Llquantize(bounds) if cell == 0 => format!("< {}", bounds.first().unwrap_or(&0)),
            Function::Llquantize(bounds) if cell as usize == bounds.len() => {
                format!(">= {}", self.bound(cell))
            }
            _ => self.bound(cell).to_string(),
        }
    }

    /// The rows of a histogram as DTrace prints them: from the cell before the first nonzero one to the cell after the last.
    fn rows(&self, cells: &[(u32, u64)]) -> Vec<(String, i64)> {
        let (Some((first, _)), Some((last, _))) = (cells.first(), cells.last()) else { return Vec::new() };
        let end = match &self.function {
            Function::Lquantize(steps) => steps.0.n_cells() - 1,
            Function::Llquantize(bounds) => bounds.len(),
            _ => 2 * ZERO_CELL,
        };
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        let mut left = cells.iter().peekable();
        let row = |cell: u32| {
            let count = left.next_if(|(known, _)| *known == cell).map_or(0, |(_, n)| signed(*n));
            (self.label(cell), count)
        };
        (first.saturating_sub(1)..=last.saturating_add(1).min(end)).map(row).collect()
    }
}

impl Aggregated {
    pub(super) fn new(
        plan: &Plan,
        groups: Groups,
        values: &[Values],
        missing: &[u64],
        rows: u64,
    ) -> Aggregated {
        let keys = groups.into_keys();
        let first = plan.specs.first().zip(values.first());
        let rank = |group: usize| first.map_or(Rank::None, |(spec, values)| values.rank(spec, group));
        let mut order: Vec<(Rank, usize)> = (0..keys.len()).map(|group| (rank(group), group)).collect();
        let by_key = |one: &[Member], other: &[Member]| {
            let members = one.iter().zip(other).map(|(one, other)| one.order(other));
            members.fold(Ordering::Equal, Ordering::then)
        };
        order.sort_unstable_by(|(one, a), (other, b)| {
            other.order(*one).then_with(|| by_key(&keys[*a], &keys[*b]))
        });
        let group = |(_, group): &(Rank, usize)| {
            let members =
                keys[*group].iter().zip(&plan.keys).map(|(member, key)| member.text(key.of.is_hex()));
            let members: Vec<String> = members.collect();
            let of = |(values, spec): (&Values, &Spec)| values.shown(spec, *group);
            Group {
                key: members.join(","),
                members,
                values: values.iter().zip(&plan.specs).map(of).collect(),
            }
        };
        let aggregation = |(spec, missing): (&Spec, &u64)| Aggregation {
            name: spec.name.clone(),
            function: spec.word,
            missing: *missing,
        };
        Aggregated {
            of: plan.source_name(),
            condition: plan.condition.clone(),
            rows,
            by: plan.keys.iter().map(|key| key.name.clone()).collect(),
            keys: keys.len() as u64,
            aggregations: plan.specs.iter().zip(missing).map(aggregation).collect(),
            groups: order.iter().take(plan.top).map(group).collect(),
        }
    }
}

/// Maximum number of histograms that are drawn.
const DRAWN: usize = 8;

impl ReportBody for Aggregated {
    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Aggregations");
        let mut facts = vec![(format!("rows of {}", self.of), vec![Cell::Count(self.rows)])];
        if let Some(condition) = &self.condition {
            facts.push(("where".to_owned(), vec![Cell::Text(condition.clone())]));
        }
        if !self.by.is_empty() {
            facts.push(("keys".to_owned(), vec![Cell::Count(self.keys)]));
        }
        for aggregation in self.aggregations.iter().filter(|aggregation| aggregation.missing > 0) {
            let label = format!("without a value of {}", aggregation.name);
            facts.push((label, vec![Cell::Count(aggregation.missing)]));
        }
        document.blocks.push(Block::Facts(facts));
        let drawn = self.groups.iter().flat_map(|group| group.values.iter().map(move |value| (group, value)));
        let drawn = drawn.filter(|(_, value)| !value.rows.is_empty());
        for (group, value) in drawn.take(if detail == Detail::Brief { 1 } else { DRAWN }) {
            let of = if group.key.is_empty() { String::new() } else { format!(" of {}", group.key) };
            let bars = bars_of(&value.rows).0.into_iter().map(|(label, count)| bar(label, *count)).collect();
            document.blocks.push(chart(format!("{}{of}", value.name), bars));
        }
        if detail == Detail::Full
            && let Some(shares) = self.shares()
        {
            let name = &self.aggregations[0].name;
            document.blocks.push(chart(format!("{name} by key"), shares));
        }
        let shown = if detail == Detail::Brief { 5 } else { self.groups.len() };
        let names =
            self.aggregations.iter().map(|aggregation| match aggregation.function.ends_with("quantize") {
                true => format!("values in {}", aggregation.name),
                false => aggregation.name.clone(),
            });
        let row = |group: &Group| {
            let values =
                group.values.iter().map(|value| value.digits.clone().map_or(Cell::Empty, Cell::Text));
            group.members.iter().cloned().map(Cell::Text).chain(values).collect()
        };
        let rows: Vec<Vec<Cell>> = self.groups.iter().take(shown).map(row).collect();
        document.blocks.push(Block::Grid(Grid {
            title: String::new(),
            head: self.by.iter().cloned().chain(names).collect(),
            more: self.keys.saturating_sub(rows.len() as u64),
            rows,
        }));
        document
    }
}

impl Aggregated {
    /// The keys as shares of a whole, if the first aggregation is a count or a sum.
    fn shares(&self) -> Option<Vec<(String, u64)>> {
        let function = self.aggregations.first()?.function;
        if !matches!(function, "count" | "sum") || self.groups.len() < 2 {
            return None;
        }
        let bar = |group: &Group| {
            let number = group.values.first()?.digits.as_ref()?.parse().ok()?;
            Some((group.key.clone(), number))
        };
        self.groups.iter().map(bar).collect()
    }
}
