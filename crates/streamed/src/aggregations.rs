//! `aggregations`: values that programs aggregated while running, merged over streams, producers and time.
//!
//! * **Needs** a stream.
//! * **Options** `top` (keys listed for each variable, those with the largest values; default 20; JSON has all).

use crate::bytes::unreadable;
use crate::rules;
use crate::trace::{Opened, StreamTrace};
use quipu_model::aggregations::{
    self, AggregationValues, Aggregations as Rows, Merging, OneCell, OneKey, OneVariable,
};
use quipu_model::options::Options;
use quipu_model::result::{Fields, Shape};
use quipu_model::{DynPass, Finding, Result, Tool, ToolInfo, Trace};
use quipu_stream::aggregate::{Merged, Merger, Total};
use quipu_stream::index::frame_at;
use quipu_stream::work::Worker;
use std::sync::Arc;

/// The tool `aggregations` of streams.
#[derive(Debug)]
pub(crate) struct Aggregations;

static TOOL_INFO: ToolInfo = aggregations::info("stream");

impl Tool for Aggregations {
    fn result(&self) -> Shape {
        AggregationValues::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &TOOL_INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let opened = Arc::clone(StreamTrace::of(trace)?.opened());
        Ok(Box::new(Merging::new(options, move || {
            let (variables, mut findings) = variables(&opened)?;
            opened.look.name_files(&mut findings);
            Ok((variables, findings))
        })))
    }
}

/// Merges the rows of all frames of aggregations. Damaged parts of frames are left out and reported as findings.
pub(crate) fn variables(opened: &Opened) -> Result<(Vec<OneVariable>, Vec<Finding>)> {
    let mut input = opened.input()?;
    let (mut worker, mut merger) = (Worker::default(), Merger::default());
    let mut findings = Vec::new();
    let unreadable = |cause| unreadable(&opened.name, cause);
    for frame in &opened.aggregations {
        // An index entry lacks part of the header.
        let Some(frame) = frame_at(&mut input, frame.offset).map_err(unreadable)? else { continue };
        let header = &frame.header;
        let Some(metadata) = opened.epochs.get(&(header.producer, header.epoch)) else { continue };
        let (mut metadata, mut found) = (Arc::clone(metadata), Vec::new());
        match worker.begin(&frame, &mut input).map_err(unreadable)? {
            Ok(()) => {
                while worker.next(&mut metadata, &mut found) {
                    merger.add(header.producer, header.stream, worker.batch(), worker.payload(), &metadata);
                }
            }
            Err(fault) => found.push(fault),
        }
        findings.extend(found.iter().map(|fault| rules::finding(fault, &opened.name, None)));
    }
    let merged = merger.finish();
    Ok((
        (1..).zip(&merged).map(|(number, (name, merged))| variable(number, name, merged)).collect(),
        findings,
    ))
}

/// Appends a row for each key.
pub(crate) fn append(variables: &[OneVariable], to: &mut Rows) {
    for variable in variables {
        for key in &variable.keys {
            to.variable.push(variable.variable);
            to.name.push(variable.name.as_deref().unwrap_or("").as_bytes());
            to.does.push(variable.function.as_bytes());
            to.key.push(key.key.as_bytes());
            to.value.push(key.value);
        }
    }
}

fn variable(number: u64, name: &str, merged: &Merged) -> OneVariable {
    let mut keys: Vec<OneKey> =
        merged.cells.iter().map(|(key, cells)| one_key(key, &Total::of(merged.function, cells))).collect();
    keys.sort_by_key(|key| std::cmp::Reverse(key.value));
    OneVariable {
        variable: number,
        name: Some(name.to_owned()),
        function: merged.function.name().to_owned(),
        keys,
    }
}

fn one_key(key: &[String], total: &Total) -> OneKey {
    let key = key.join(", ");
    match total {
        Total::Number(value) => {
            let value = i64::try_from(*value).unwrap_or(i64::MAX); // At most the square root of a 128-bit value.
            OneKey { key, value, cells: Vec::new(), rows: Vec::new() }
        }
        Total::Cells(cells) => OneKey {
            key,
            value: cells.iter().fold(0, |sum, (.., count)| sum.saturating_add(*count)),
            cells: cells.iter().map(|(bound, _, count)| OneCell { bound: *bound, count: *count }).collect(),
            rows: cells.iter().map(|(_, label, count)| (label.clone(), *count)).collect(),
        },
    }
}
