//! What is told of a trace: at once, and when all of it was read.

use super::Packing;
use crate::INFO;
use crate::decode::Header;
use crate::record::VERSION_THREADS;
use crate::survey::Survey;
use quipu_model::trace::{Carries, Fact};
use quipu_model::{Finding, Meta};
use quipu_source::Container;
use serde_json::{Value, json};

fn fact(key: &'static str, label: &'static str, value: Value) -> Fact {
    Fact::new(key, label, value)
}

/// What is told of a trace without reading it.
pub(super) fn meta(header: &Header, packing: Packing, container: &Container, findings: Vec<Finding>) -> Meta {
    let properties: serde_json::Map<String, Value> = header
        .sorted_properties()
        .into_iter()
        .map(|(name, value)| {
            (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned().into())
        })
        .collect();
    let mut facts = vec![
        fact("semantic_version", "semantic version", json!(header.semantic_version)),
        fact("container", "container", json!(packing.name())),
    ];
    for (key, label) in [("process.name", "program"), ("process.commandLine", "arguments")] {
        if let Some(value) = properties.get(key) {
            let key = if key == "process.name" { "process_name" } else { "process_command_line" };
            facts.push(fact(key, label, value.clone()));
        }
    }
    facts.push(fact("properties", "properties", json!(properties)));
    Meta {
        format: INFO.name.into(),
        title: "calls of a graphics API with their values".to_owned(),
        version: Some(header.version.to_string()),
        n_files: 1,
        packed_bytes: container.size_bytes(),
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

/// How many functions are told with the count of their calls.
const TOP_FUNCTIONS: usize = 20;

/// What only reading tells.
pub(super) fn survey_facts(survey: &Survey) -> Vec<Fact> {
    let mut functions: Vec<&(String, u64)> = survey.functions.iter().collect();
    functions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let top: serde_json::Map<String, Value> =
        functions.iter().take(TOP_FUNCTIONS).map(|(name, n_calls)| (name.clone(), json!(n_calls))).collect();
    vec![
        fact("api", "API", json!(survey.api.name())),
        fact("stream_bytes", "bytes of the stream", json!(survey.stream_bytes)),
        fact("frames", "frames", json!(survey.n_frames)),
        fact("calls", "calls", json!(survey.calls)),
        fact("incomplete_calls", "incomplete calls", json!(survey.incomplete)),
        fact("fake_calls", "calls made up by the tracer", json!(survey.fake)),
        fact("calls_with_stack", "calls with a stack", json!(survey.with_stack)),
        fact("threads", "threads", json!(survey.threads.len())),
        fact("draw_calls", "calls that draw", json!(survey.draws)),
        fact("blobs", "pieces of raw memory", json!(survey.bulk.blobs)),
        fact("blob_bytes", "bytes of raw memory", json!(survey.bulk.blob_bytes)),
        fact("strings", "strings", json!(survey.bulk.strings)),
        fact("string_bytes", "bytes of strings", json!(survey.bulk.string_bytes)),
        fact("signature_bytes", "bytes of signatures", json!(survey.bulk.signature_bytes)),
        fact("distinct_functions", "distinct functions", json!(survey.functions.len())),
        fact("top_functions", "most frequent functions", json!(top)),
    ]
}
