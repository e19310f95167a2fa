//! The layers of the workspace: who may depend on whom.
//!
//! `ARCHITECTURE.md` draws the picture; [`LAYERS`] is the same picture as data, and a test fails on any other edge.
//! The check reads manifests only, so it needs no build and sees edges of every target and feature.

use anyhow::{Context, Result, bail};
use std::fmt;
use std::fs;
use std::path::Path;
use toml::{Table, Value};

/// Where a crate stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layer {
    /// Depends on lower levels only; crates of one level never see each other.
    Level(u8),
    /// One trace format: stands at level 2, and only levels from 4 up may name it, but for [`LIVES_ON_RECORDS`].
    Format,
    /// Help for tests: sees up to level 2 but no format, and is seen by dev-dependencies only.
    TestKit,
    /// A chore runner: sees everything, is seen by nobody.
    Outside,
}

/// Every package of the workspace that exists or is planned. A package that is missing here fails the check.
const LAYERS: &[(&str, Layer)] = &[
    ("quipu-annotate", Layer::Level(0)),
    ("quipu-capfile", Layer::Level(0)),
    ("quipu-source", Layer::Level(0)),
    ("quipu-ring", Layer::Level(0)),
    ("quipu-isa", Layer::Level(0)),
    ("quipu-symbols", Layer::Level(0)),
    ("quipu-rt", Layer::Level(1)),
    ("quipu-model", Layer::Level(1)),
    ("quipu-engine", Layer::Level(2)),
    ("quipu-drmemtrace", Layer::Format),
    ("quipu-apitrace", Layer::Format),
    ("quipu-cacheray", Layer::Format),
    ("quipu-plaintext", Layer::Format),
    ("quipu-prism", Layer::Format),
    ("quipu-dtrace", Layer::Format),
    ("quipu-stream", Layer::Format),
    ("quipu-export", Layer::Format),
    ("quipu-passes", Layer::Level(3)),
    ("quipu-sim", Layer::Level(3)),
    ("quipu-query", Layer::Level(3)),
    ("quipu-view", Layer::Level(3)),
    ("quipu-qemu", Layer::Level(1)),
    ("quipu-capture", Layer::Level(3)),
    ("quipu-replay", Layer::Level(3)),
    ("quipu", Layer::Level(4)),
    ("quipu-cli", Layer::Level(5)),
    ("quipu-python", Layer::Level(5)),
    ("quipu-cluster", Layer::Level(5)),
    ("quipu-testkit", Layer::TestKit),
    ("quipu-fuzzing", Layer::Outside),
    ("xtask", Layer::Outside),
];

/// Crates of level 3 that may name formats, because their work is done on native records.
const LIVES_ON_RECORDS: &[&str] = &["quipu-capture", "quipu-replay"];

/// Edges inside a layer that are wanted: `stream` is the carrier of DTrace data.
const WRITTEN_DOWN: &[(&str, &str)] = &[("quipu-dtrace", "quipu-stream")];

/// Reads all manifests of the workspace at `root` and prints what is wrong; an error if anything is.
pub(crate) fn run(root: &Path) -> Result<()> {
    let edges = workspace_edges(root)?;
    let wrong: Vec<String> = edges.iter().filter_map(forbidden).collect();
    for line in &wrong {
        eprintln!("{line}");
    }
    if !wrong.is_empty() {
        bail!(
            "{} of {} edges are forbidden; see `ARCHITECTURE.md`, section Layers",
            wrong.len(),
            edges.len()
        );
    }
    println!("{} edges between crates, none forbidden", edges.len());
    Ok(())
}

/// One dependency between two crates of the workspace.
#[derive(Debug, PartialEq, Eq)]
struct Edge {
    from: String,
    to: String,
    kind: Kind,
}

/// Which table of the manifest an edge stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Normal,
    Build,
    Dev,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Normal => "",
            Kind::Build => " (build)",
            Kind::Dev => " (dev)",
        };
        write!(f, "{} -> {}{kind}", self.from, self.to)
    }
}

/// Why the layers forbid `edge`; `None` if they allow it.
fn forbidden(edge: &Edge) -> Option<String> {
    let Some(from) = layer_of(&edge.from) else {
        return Some(format!("{edge}: `{}` has no layer yet", edge.from));
    };
    let Some(to) = layer_of(&edge.to) else {
        return Some(format!("{edge}: `{}` has no layer yet", edge.to));
    };
    if from == Layer::Outside || WRITTEN_DOWN.contains(&(edge.from.as_str(), edge.to.as_str())) {
        return None;
    }
    let reason = match to {
        Layer::Outside => "nobody depends on a chore runner",
        Layer::TestKit if edge.kind == Kind::Dev => return None,
        Layer::TestKit => "the test kit is for dev-dependencies only",
        Layer::Format if !names_formats(&edge.from, from) => "this crate knows no format",
        Layer::Format | Layer::Level(_) if level(to) >= level(from) => "not a lower layer",
        Layer::Format | Layer::Level(_) => return None,
    };
    Some(format!("{edge}: {reason}"))
}

/// True if a crate may name a format.
fn names_formats(package: &str, layer: Layer) -> bool {
    level(layer) >= 4 || LIVES_ON_RECORDS.contains(&package)
}

/// Height of a layer; a crate sees what is lower.
fn level(layer: Layer) -> u8 {
    match layer {
        Layer::Level(level) => level,
        Layer::Format => 2,
        Layer::TestKit => 3,
        Layer::Outside => u8::MAX,
    }
}

fn layer_of(package: &str) -> Option<Layer> {
    LAYERS.iter().find(|(known, _)| *known == package).map(|(_, layer)| *layer)
}

/// The edges between the crates under `root`.
fn workspace_edges(root: &Path) -> Result<Vec<Edge>> {
    let mut manifests = Vec::new();
    for entry in fs::read_dir(root.join("crates")).context("folder `crates`")? {
        manifests.push(entry?.path().join("Cargo.toml"));
    }
    manifests.push(root.join("xtask").join("Cargo.toml"));
    manifests.sort();
    let mut parsed = Vec::new();
    for path in manifests.iter().filter(|path| path.exists()) {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let manifest: Table = text.parse().with_context(|| path.display().to_string())?;
        parsed.push(manifest);
    }
    let members: Vec<String> = parsed.iter().filter_map(package_name).collect();
    Ok(parsed.iter().flat_map(|manifest| edges(manifest, &members)).collect())
}

/// The edges from one manifest to crates that are `members`, or that carry our prefix.
fn edges(manifest: &Table, members: &[String]) -> Vec<Edge> {
    let Some(from) = package_name(manifest) else { return Vec::new() };
    let mut tables: Vec<&Table> = vec![manifest];
    if let Some(Value::Table(targets)) = manifest.get("target") {
        tables.extend(targets.values().filter_map(Value::as_table));
    }
    let mut edges = Vec::new();
    for table in tables {
        for (key, kind) in [
            ("dependencies", Kind::Normal),
            ("build-dependencies", Kind::Build),
            ("dev-dependencies", Kind::Dev),
        ] {
            let Some(Value::Table(dependencies)) = table.get(key) else { continue };
            for (name, value) in dependencies {
                let renamed = value.get("package").and_then(Value::as_str);
                let to = renamed.unwrap_or(name).to_owned();
                if members.contains(&to) || to == "quipu" || to.starts_with("quipu-") {
                    edges.push(Edge { from: from.clone(), to, kind });
                }
            }
        }
    }
    edges
}

fn package_name(manifest: &Table) -> Option<String> {
    Some(manifest.get("package")?.get("name")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the check says about one manifest.
    fn check(manifest: &str) -> Vec<String> {
        let manifest: Table = manifest.parse().unwrap();
        edges(&manifest, &[]).iter().filter_map(forbidden).collect()
    }

    #[test]
    fn the_workspace_has_no_forbidden_edge() {
        let edges = workspace_edges(&crate::root()).unwrap();
        assert!(!edges.is_empty());
        let wrong: Vec<String> = edges.iter().filter_map(forbidden).collect();
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn every_crate_of_the_workspace_has_a_layer() {
        for entry in fs::read_dir(crate::root().join("crates")).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path().join("Cargo.toml")).unwrap();
            let name = package_name(&text.parse().unwrap()).unwrap();
            assert!(layer_of(&name).is_some(), "`{name}` has no layer");
        }
    }

    #[test]
    fn an_edge_upwards_is_reported() {
        let manifest = "[package]\nname = 'quipu-model'\n[dependencies]\nquipu-engine.workspace = true\n";
        assert_eq!(check(manifest), ["quipu-model -> quipu-engine: not a lower layer"]);
    }

    #[test]
    fn an_edge_inside_a_layer_is_reported() {
        let manifest = "[package]\nname = 'quipu-source'\n[dependencies]\nquipu-isa.workspace = true\n";
        assert_eq!(check(manifest), ["quipu-source -> quipu-isa: not a lower layer"]);
        let manifest = "[package]\nname = 'quipu-view'\n[dependencies]\nquipu-passes.workspace = true\n";
        assert_eq!(check(manifest), ["quipu-view -> quipu-passes: not a lower layer"]);
    }

    #[test]
    fn an_analysis_may_not_name_a_format_even_in_its_tests() {
        let manifest =
            "[package]\nname = 'quipu-passes'\n[dev-dependencies]\nquipu-drmemtrace.workspace = true\n";
        assert_eq!(check(manifest), ["quipu-passes -> quipu-drmemtrace (dev): this crate knows no format"]);
    }

    #[test]
    fn a_format_may_not_name_another_but_for_the_edge_written_down() {
        let manifest = "[package]\nname = 'quipu-prism'\n[dependencies]\nquipu-stream.workspace = true\n";
        assert_eq!(check(manifest), ["quipu-prism -> quipu-stream: this crate knows no format"]);
        let manifest = "[package]\nname = 'quipu-dtrace'\n[dependencies]\nquipu-stream.workspace = true\n";
        assert_eq!(check(manifest), Vec::<String>::new());
    }

    #[test]
    fn the_test_kit_is_for_tests() {
        let manifest =
            "[package]\nname = 'quipu-source'\n[dev-dependencies]\nquipu-testkit.workspace = true\n";
        assert_eq!(check(manifest), Vec::<String>::new());
        let manifest = "[package]\nname = 'quipu-cli'\n[dependencies]\nquipu-testkit.workspace = true\n";
        assert_eq!(
            check(manifest),
            ["quipu-cli -> quipu-testkit: the test kit is for dev-dependencies only"]
        );
        let manifest =
            "[package]\nname = 'quipu-testkit'\n[dependencies]\nquipu-drmemtrace.workspace = true\n";
        assert_eq!(check(manifest), ["quipu-testkit -> quipu-drmemtrace: this crate knows no format"]);
    }

    #[test]
    fn a_facade_is_tested_from_above_only() {
        let manifest = "[package]\nname = 'quipu-drmemtrace'\n[dev-dependencies]\nquipu.workspace = true\n";
        assert_eq!(check(manifest), ["quipu-drmemtrace -> quipu (dev): not a lower layer"]);
    }

    #[test]
    fn renamed_and_target_specific_dependencies_are_seen() {
        let manifest = "[package]\nname = 'quipu-model'\n[target.'cfg(unix)'.build-dependencies]\n\
                        trace = { package = 'quipu-drmemtrace', path = '../drmemtrace' }\n";
        assert_eq!(check(manifest), ["quipu-model -> quipu-drmemtrace (build): this crate knows no format"]);
    }

    #[test]
    fn a_crate_without_a_layer_is_reported() {
        let manifest = "[package]\nname = 'quipu-novel'\n[dependencies]\nquipu-model.workspace = true\n";
        assert_eq!(check(manifest), ["quipu-novel -> quipu-model: `quipu-novel` has no layer yet"]);
    }
}
