//! The keys that tools print, against those that their pages list.
//!
//! Every tool that can be built without options runs over [`TRACES`]. A key that is printed and not listed is wrong; so is
//! one that is listed for a type of which something was printed, but never stood in it.

use crate::house::measures::Tree;
use crate::pages::shapes::{Field, Keys, keys};
use anyhow::{Context, Result};
use quipu::engine::{RunOptions, Watch, plan, run};
use quipu::model::{Given, OpenOptions};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What tools run over: small, and between them with something for every tool. A format that is not here comes with the first of
/// its samples.
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

/// What is wrong with keys, a line each.
pub(super) fn wrong(tree: &Tree) -> Result<Vec<String>> {
    let mut seen = Seen::default();
    for name in traces(&tree.root)? {
        let trace = quipu::open_path(&tree.root.join(&name), &OpenOptions::default())
            .with_context(|| name.clone())?;
        for tool in quipu::tools_of(&trace.meta().format) {
            // What it needs may be missing in this trace, or has to be given.
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

/// [`TRACES`], and one of each format that has none there.
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

/// What was printed.
#[derive(Default)]
struct Seen {
    /// The keys of each type of each tool.
    keys: BTreeMap<(String, String), BTreeSet<String>>,
    /// Keys of these that are listed and have to be there.
    due: BTreeMap<(String, String), BTreeSet<String>>,
    /// Keys that are not listed.
    unlisted: BTreeSet<String>,
}

impl Seen {
    fn report(&mut self, types: &[Keys], tool: &str, json: Value) {
        if let Some(outermost) = types.first() {
            self.value(tool, types, &outermost.name, &json);
        }
    }

    /// Compares a value with the type called `name`.
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

/// The keys of a type with their types, those of types that stand in it with theirs.
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
