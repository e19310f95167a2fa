//! Compares the keys that tools print with those that their pages list.
//!
//! Every tool that can be built without options runs over [`TRACES`]. A key that is printed but not listed is an error. So is
//! a key that is listed for a type, if values of that type were printed and none had the key.

use crate::house::measures::Tree;
use crate::pages::shapes::{Field, Keys, keys};
use anyhow::{Context, Result};
use quipu::engine::{RunOptions, Watch, plan, run};
use quipu::model::{Given, OpenOptions};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Traces that tools run over: small ones that together give every tool something to print. A format without a trace here is
/// represented by the first of its samples.
const TRACES: &[&str] = &[
    "traces/drmemtrace/as_traced",
    "traces/drmemtrace/func-trace",
    "traces/drmemtrace/mock_syscall",
    "traces/drmemtrace/thr",
    "traces/drmemtrace/thr.core_sharded_kernel",
    "traces/drmemtrace/tiny.physical",
    "traces/apitrace/glxgears-300.trace",
    "traces/apitrace/kinds-backtrace.trace",
    "traces/apitrace/tri_glsl.trace",
    "traces/cacheray/mt-interleaved.cut.trace",
    "traces/cacheray/structs.trace",
    "traces/dtrace/classic/mixed_1000",
];

/// Returns the errors in keys, one line each.
pub(super) fn wrong(tree: &Tree) -> Result<Vec<String>> {
    let mut seen = Seen::default();
    for name in traces(&tree.root)? {
        let trace = quipu::open_path(&tree.root.join(&name), &OpenOptions::default())
            .with_context(|| name.clone())?;
        for tool in quipu::tools_of(&trace.meta().format) {
            // Tools are skipped if the trace lacks what they need or if they have mandatory options.
            let Ok(planned) = plan(tool, &Given::default(), &*trace) else { continue };
            let watch = Watch::new();
            let outcome = run(&*trace, vec![planned], &RunOptions { threads: 1, ..RunOptions::new(&watch) });
            for report in outcome.with_context(|| format!("{} of {name}", tool.info().name))?.reports {
                seen.report(&keys(&tool.result()), tool.info().name, report.json());
            }
        }
    }
    Ok(seen.wrong())
}

/// [`TRACES`], and one trace of each format that has none there.
fn traces(root: &Path) -> Result<Vec<String>> {
    let mut traces: Vec<String> = TRACES.iter().map(|name| (*name).to_owned()).collect();
    for name in quipu::FORMATS.iter().map(|format| format.info().name) {
        let folder = format!("traces/{name}");
        if traces.iter().any(|known| known.starts_with(&folder)) {
            continue;
        }
        let paths = super::pages::samples(root, name)?;
        let is_trace = |path: &&PathBuf| {
            quipu::open_path(path, &OpenOptions::default()).is_ok_and(|trace| trace.meta().format == name)
        };
        let path =
            paths.iter().find(is_trace).with_context(|| format!("no sample is a trace of format {name}"))?;
        traces.push(path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned());
    }
    Ok(traces)
}

/// Keys that were printed.
#[derive(Default)]
struct Seen {
    /// Keys printed for each type, by tool and type.
    keys: BTreeMap<(String, String), BTreeSet<String>>,
    /// Keys that must be printed, for each type that was: those that are listed and not optional.
    due: BTreeMap<(String, String), BTreeSet<String>>,
    /// Errors for printed keys that are not listed.
    unlisted: BTreeSet<String>,
}

impl Seen {
    fn report(&mut self, types: &[Keys], tool: &str, json: Value) {
        if let Some(outermost) = types.first() {
            self.value(tool, types, &outermost.name, &json);
        }
    }

    /// Compares a value with the listed keys of the type called `name`.
    fn value(&mut self, tool: &str, types: &[Keys], name: &str, json: &Value) {
        if let Some(items) = json.as_array() {
            return items.iter().for_each(|item| self.value(tool, types, name, item));
        }
        let Some(object) = json.as_object() else { return };
        let listed = listed(types, name);
        if listed.is_empty() {
            return;
        }
        let of_type = (tool.to_owned(), name.to_owned());
        let due = listed.iter().filter(|(_, field)| !field.is_optional).map(|(key, _)| key.clone());
        self.due.entry(of_type.clone()).or_default().extend(due);
        self.keys.entry(of_type).or_default().extend(object.keys().cloned());
        for (key, value) in object {
            match listed.iter().find(|(known, _)| known == key) {
                Some((_, field)) => {
                    for inner in
                        field.inner.iter().filter(|inner| types.iter().any(|keys| keys.name == **inner))
                    {
                        self.value(tool, types, inner, value);
                    }
                }
                None => {
                    self.unlisted
                        .insert(format!("{tool}: prints `{key}` in `{name}`, which its page does not list"));
                }
            }
        }
    }

    fn wrong(self) -> Vec<String> {
        let mut wrong: Vec<String> = self.unlisted.into_iter().collect();
        for ((tool, name), due) in &self.due {
            let printed = self.keys.get(&(tool.clone(), name.clone()));
            for key in due.iter().filter(|key| printed.is_none_or(|printed| !printed.contains(*key))) {
                wrong.push(format!("{tool}: lists `{key}` in `{name}`, which it does not print"));
            }
        }
        wrong
    }
}

/// Keys of a type with their fields, including those of inner types that have no key of their own.
fn listed<'t>(types: &'t [Keys], name: &str) -> Vec<(String, &'t Field)> {
    let Some(keys) = types.iter().find(|keys| keys.name == name) else { return Vec::new() };
    let mut all = Vec::new();
    for field in keys.fields.iter().filter(|field| !field.is_only_in_tables) {
        match &field.key {
            Some(key) => all.push((key.clone(), field)),
            None => field.inner.iter().for_each(|inner| all.extend(listed(types, inner))),
        }
    }
    all
}
