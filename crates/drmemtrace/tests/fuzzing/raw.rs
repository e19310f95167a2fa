//! The body of the fuzz target `raw`: any bytes at all as the words of a raw file, and as its list of modules.

// A body panics where something does not hold.
#![allow(clippy::unwrap_used, unreachable_pub)]

use quipu_drmemtrace::raw::{self, RawFolder};
use quipu_model::trace::DumpForm;
use quipu_source::Source;

/// Inputs may inflate to huge ones.
const MAX_WORDS: u64 = 1 << 16;

/// The words are shown in each form, a line each, in any parts, and rows for programs can be read.
pub fn raw(bytes: &[u8]) {
    let file = |name: &str| Source::from_bytes(name, bytes);
    let folder = RawFolder {
        threads: vec![file("a \"b\",c.raw")],
        modules: Some(file("modules.log")),
        functions: None,
    };
    let dumped = |form: DumpForm, from: u64, to: u64| -> Option<Vec<String>> {
        let mut text = Vec::new();
        raw::dump(&folder, from..to, form, &mut |part| {
            text.extend_from_slice(part);
            true
        })
        .ok()?;
        let text = String::from_utf8(text).unwrap();
        Some(text.lines().map(str::to_owned).collect())
    };
    let Some(json) = dumped(DumpForm::Json, 0, MAX_WORDS) else { return };
    for line in &json {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(row.as_object().unwrap().len(), 10, "{line}");
    }
    let csv = dumped(DumpForm::Csv, 0, MAX_WORDS).unwrap();
    assert_eq!(csv.len(), json.len() + 1);
    let middle = json.len() as u64 / 2;
    let mut parts = dumped(DumpForm::Json, 0, middle).unwrap();
    parts.extend(dumped(DumpForm::Json, middle, MAX_WORDS).unwrap());
    assert_eq!(parts, json, "parts are not the whole");
    dumped(DumpForm::Text, 0, MAX_WORDS).unwrap();
}
