//! Merges aggregations: adds up partial results of streams, times and hosts in any order.

use crate::batch::Batch;
use crate::json::{self, Json};
use crate::meta::Metadata;
use crate::schema::{Aggregation, Function};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The merged cells of one aggregation.
#[derive(Clone, Debug)]
pub struct Merged {
    /// Aggregating function.
    pub function: Function,
    /// Cells by key: a field's text, or its JSON form, for each part. Keys are sorted by these strings.
    pub cells: BTreeMap<Vec<String>, Vec<i64>>,
}

/// Name, producer, stream and key of a row that replaces earlier rows of the same key.
type StateKey = (String, u64, u32, Vec<String>);

/// Merges rows as they arrive.
#[derive(Debug, Default)]
pub struct Merger {
    /// Merged cells by name. Aggregations of one name with different functions are numbered apart.
    merged: BTreeMap<(String, usize), Merged>,
    /// For aggregations whose rows replace earlier ones: the newest cells by producer, stream and key.
    states: BTreeMap<StateKey, (Arc<Aggregation>, Vec<i64>)>,
}

impl Merger {
    /// Adds the rows of an aggregation frame.
    pub fn add(&mut self, producer: u64, stream: u32, batch: &Batch, payload: &[u8], metadata: &Metadata) {
        for (rows, row) in batch.in_order() {
            let Some(aggregation) = metadata.aggregation(rows.schema.id()) else { continue };
            let columns = rows.columns.iter().zip(&rows.schema.fields);
            let key: Vec<String> = columns
                .map(|(column, field)| match json::value(column, &field.layout, row) {
                    Json::Text(text) => text,
                    other => other.to_string(),
                })
                .collect();
            let at = rows.bodies[row] as usize + aggregation.record.value_offset as usize;
            let cells = (0..aggregation.n_cells as usize)
                .map(|n| {
                    let cell = payload.get(at + 8 * n..at + 8 * n + 8).and_then(|cell| cell.try_into().ok());
                    cell.map_or(0, i64::from_le_bytes)
                })
                .collect();
            if aggregation.record.mode == Some(1) {
                let place = (rows.schema.name(), producer, stream, key);
                self.states.insert(place, (Arc::clone(aggregation), cells));
            } else {
                self.merge(aggregation, &rows.schema.name(), key, &cells);
            }
        }
    }

    fn merge(&mut self, aggregation: &Aggregation, name: &str, key: Vec<String>, cells: &[i64]) {
        let mut n = 0;
        while self
            .merged
            .get(&(name.to_owned(), n))
            .is_some_and(|merged| merged.function != aggregation.function)
        {
            n += 1;
        }
        let merged = self
            .merged
            .entry((name.to_owned(), n))
            .or_insert_with(|| Merged { function: aggregation.function, cells: BTreeMap::new() });
        match merged.cells.get_mut(&key) {
            Some(known) => merge_cells(aggregation.function, known, cells),
            None => {
                merged.cells.insert(key, cells.to_vec());
            }
        }
    }

    /// The merged aggregations by name. A second one of the same name is `name@2`, and so on.
    #[must_use]
    pub fn finish(mut self) -> BTreeMap<String, Merged> {
        for ((name, _, _, key), (aggregation, cells)) in std::mem::take(&mut self.states) {
            self.merge(&aggregation, &name, key, &cells);
        }
        let named = self
            .merged
            .into_iter()
            .map(|((name, n), merged)| (if n == 0 { name } else { format!("{name}@{}", n + 1) }, merged));
        named.collect()
    }
}

/// Merges the cells `from` into the cells `into` of the same key.
pub fn merge_cells(function: Function, into: &mut [i64], from: &[i64]) {
    let [a, b] = [&into[..], from].map(|cells| cells.first().copied().unwrap_or_default());
    match function {
        Function::Min => into[0] = a.min(b),
        Function::Max => into[0] = a.max(b),
        Function::Stddev => {
            let squares = |cells: &[i64]| u128::from(cells[2] as u64) | u128::from(cells[3] as u64) << 64;
            let sum = squares(into).wrapping_add(squares(from));
            for n in 0..2 {
                into[n] = into[n].wrapping_add(from[n]);
            }
            into[2] = sum as u64 as i64; // The same bits.
            into[3] = (sum >> 64) as i64;
        }
        _ => into.iter_mut().zip(from).for_each(|(into, from)| *into = into.wrapping_add(*from)),
    }
}

impl Merged {
    /// Values by key as JSON: nested objects by the parts of the key; for histograms the nonzero cells, by their lower bounds.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut all = Json::Object(Vec::new());
        for (key, cells) in &self.cells {
            put(&mut all, key, Total::of(self.function, cells).to_json());
        }
        all
    }
}

/// Inserts a value under the parts of its key. Keys arrive sorted, so keys with a common prefix are adjacent.
fn put(place: &mut Json, key: &[String], value: Json) {
    let (Some((first, rest)), Json::Object(pairs)) = (key.split_first(), &mut *place) else {
        *place = value;
        return;
    };
    if pairs.last().is_none_or(|(name, _)| name != first) {
        pairs.push((first.clone(), Json::Object(Vec::new())));
    }
    if let Some((_, inner)) = pairs.last_mut() {
        put(inner, rest, value);
    }
}

/// The result of aggregating one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Total {
    /// A number.
    Number(i128),
    /// A histogram: for each nonzero cell its lower bound, its label and its count. The cell for values below the range has
    /// `i64::MIN` as its lower bound.
    Cells(Vec<(i64, String, i64)>),
}

impl Total {
    fn to_json(&self) -> Json {
        match self {
            Total::Number(n) => Json::Int(*n),
            Total::Cells(cells) => Json::Object(
                cells.iter().map(|(_, label, n)| (label.clone(), Json::Int((*n).into()))).collect(),
            ),
        }
    }

    /// Computes the result of `function` from its cells.
    #[must_use]
    pub fn of(function: Function, cells: &[i64]) -> Total {
        let int = |n: i64| Total::Number(n.into());
        let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
        let labelled = |label: &dyn Fn(usize) -> (i128, String)| {
            let cells = cells.iter().enumerate().filter(|(_, n)| **n != 0);
            let of = |(at, n): (usize, &i64)| {
                let (bound, label) = label(at);
                let bound = i64::try_from(bound).unwrap_or(if bound < 0 { i64::MIN } else { i64::MAX });
                (bound, label, *n)
            };
            Total::Cells(cells.map(of).collect())
        };
        let at_least = |bound: i128| (bound, bound.to_string());
        match function {
            Function::Count | Function::Min | Function::Max | Function::Sum => int(cell(0)),
            Function::Avg => int(cell(1).checked_div(cell(0)).unwrap_or_default()),
            Function::Stddev => {
                let squares = u128::from(cell(2) as u64) | u128::from(cell(3) as u64) << 64;
                let Some(count) = u128::try_from(cell(0)).ok().filter(|n| *n > 0) else { return int(0) };
                let mean = u128::from(cell(1).unsigned_abs()) / count;
                Total::Number((squares / count).saturating_sub(mean.saturating_mul(mean)).isqrt() as i128)
            }
            Function::Quantize => labelled(&|at| match at {
                0..63 => at_least(-(1_i128 << (62 - at))),
                63 => at_least(0),
                _ => at_least(1_i128 << (at - 64)),
            }),
            Function::Lquantize { base, step, levels } => {
                let bound = |at: usize| i128::from(base) + i128::from(step) * at as i128;
                labelled(&|at| match at {
                    0 => (i64::MIN.into(), format!("<{base}")),
                    _ if at == levels as usize + 1 => {
                        (bound(levels as usize), format!(">={}", bound(levels as usize)))
                    }
                    _ => at_least(bound(at - 1)),
                })
            }
            Function::Llquantize { factor, low, high, .. } => {
                let bounds = function.llquantize_bounds().unwrap_or_default();
                labelled(&|at| match at {
                    0 => (i64::MIN.into(), format!("<{}", factor.pow(low))),
                    _ => match bounds.get(at - 1) {
                        Some(bound) => at_least(i128::from(*bound)),
                        None => (factor.pow(high + 1).into(), format!(">={}", factor.pow(high + 1))),
                    },
                })
            }
        }
    }
}
