//! Facts about a trace: those known at opening, and those that require reading all of it.

use super::Packing;
use crate::INFO;
use crate::decode::Header;
use crate::record::VERSION_THREADS;
use crate::survey::Survey;
use quipu_model::trace::{Carries, Fact};
use quipu_model::{Finding, Meta};
use quipu_source::Container;
use serde_json::Value;

/// Facts known without reading the trace.
pub(super) fn meta(header: &Header, packing: Packing, container: &Container, findings: Vec<Finding>) -> Meta {
    let properties: serde_json::Map<String, Value> = header
        .sorted_properties()
        .into_iter()
        .map(|(name, value)| {
            (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned().into())
        })
        .collect();
    let mut facts = vec![
        Fact::new("semantic_version", "semantic version", header.semantic_version),
        Fact::new("container", "container", packing.name()),
    ];
    for (key, label) in [("process.name", "program"), ("process.commandLine", "arguments")] {
        if let Some(value) = properties.get(key) {
            let key = if key == "process.name" { "process_name" } else { "process_command_line" };
            facts.push(Fact::new(key, label, value.clone()));
        }
    }
    facts.push(Fact::new("properties", "properties", properties));
    Meta {
        format: INFO.name.into(),
        title: "calls of a graphics API with their values".to_owned(),
        version: Some(header.version.to_string()),
        n_files: 1,
        packed_bytes: container.size_bytes(),
        disk_bytes: container.disk_bytes(),
        inflated_bytes: (packing == Packing::Plain).then(|| container.size_bytes()).flatten(),
        carries: vec![
            Carries::new("calls with values", true, ""),
            Carries::new("threads", header.version >= VERSION_THREADS, ""),
            Carries::new("time", false, ""),
        ],
        facts,
        findings,
        ..Meta::default()
    }
}

/// Number of functions listed with their numbers of calls.
const TOP_FUNCTIONS: usize = 20;

/// Facts that require reading the whole trace.
pub(super) fn survey_facts(survey: &Survey) -> Vec<Fact> {
    let mut functions: Vec<&(String, u64)> = survey.functions.iter().collect();
    functions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let top: serde_json::Map<String, Value> = functions
        .iter()
        .take(TOP_FUNCTIONS)
        .map(|(name, n_calls)| (name.clone(), Value::from(*n_calls)))
        .collect();
    vec![
        Fact::new("api", "API", survey.api.name()),
        Fact::new("stream_bytes", "bytes of the stream", survey.stream_bytes),
        Fact::new("frames", "frames", survey.n_frames),
        Fact::new("calls", "calls", survey.calls),
        Fact::new("incomplete_calls", "incomplete calls", survey.incomplete),
        Fact::new("fake_calls", "calls made up by the tracer", survey.fake),
        Fact::new("calls_with_stack", "calls with a stack", survey.with_stack),
        Fact::new("threads", "threads", survey.threads.len()),
        Fact::new("draw_calls", "calls that draw", survey.draws),
        Fact::new("blobs", "pieces of raw memory", survey.bulk.blobs),
        Fact::new("blob_bytes", "bytes of raw memory", survey.bulk.blob_bytes),
        Fact::new("strings", "strings", survey.bulk.strings),
        Fact::new("string_bytes", "bytes of strings", survey.bulk.string_bytes),
        Fact::new("signature_bytes", "bytes of signatures", survey.bulk.signature_bytes),
        Fact::new("distinct_functions", "distinct functions", survey.functions.len()),
        Fact::new("top_functions", "most frequent functions", top),
    ]
}
