//! `aggregations`: the values of all aggregations, as tables and charts.
//!
//! Values cover the whole run, even if only a part of the records is selected: aggregations have no times.
//!
//! * **Needs** a capture of DTrace.
//! * **Options** `top` (keys listed for each variable, those with the largest values; default 20; JSON has all).

use crate::aggregate::{Aggregates, Entry};
use crate::describe::Capture;
use crate::options::Settings;
use crate::trace::DtraceTrace;
use crate::{histogram, sort, table};
use quipu_model::aggregations::{self, AggregationValues, Merging, OneCell, OneKey, OneVariable};
use quipu_model::options::Options;
use quipu_model::result::{Fields, Shape};
use quipu_model::{DynPass, Result, Tool, ToolInfo, Trace};
use std::sync::Arc;

/// The tool `aggregations`.
#[derive(Debug)]
pub struct Values;

static INFO: ToolInfo = aggregations::info("dtrace");

impl Tool for Values {
    fn result(&self) -> Shape {
        AggregationValues::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let capture = Arc::clone(DtraceTrace::of(trace)?.capture());
        // Faults of a capture were reported when it was opened.
        let merged = move || Ok((variables(&capture, &table::merged(&capture)), Vec::new()));
        Ok(Box::new(Merging::new(options, merged)))
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
                    true => histogram::labelled(&entry.value, capture.dialect),
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
