//! The layers of the workspace: which crates may depend on which.
//!
//! `ARCHITECTURE.md` draws the picture. Each manifest states the layer of its crate in `[package.metadata.quipu]`:
//!
//! ```toml
//! layer = 2             # or "records", "format", "testkit", "outside": see `Layer`
//! names-formats = true  # below layer 4 only, for a crate whose work is done on native records
//! does = "…"            # for the table of crates in `ARCHITECTURE.md`, which `cargo xtask docs` writes
//! leaves = "…"          # what it leaves to others, if anything
//! ```
//!
//! The check reads only manifests, so it needs no build and sees dependencies for every target and feature.

use anyhow::{Context, Result, bail};
use std::fmt;
use std::fs;
use std::path::Path;
use toml::{Table, Value};

/// Layer of a crate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layer {
    /// Depends on lower levels only; crates of one level cannot depend on each other.
    Level(u8),
    /// The loop shared by families of flat records: above level 1, below formats.
    Records,
    /// One trace format, at level 2. Only levels from 4 up may depend on it, and crates that set `names-formats`.
    Format,
    /// Help for tests: depends on crates up to level 2 except formats, and only dev-dependencies may name it.
    TestKit,
    /// A chore runner: may depend on every crate; no crate may depend on it.
    Outside,
}

impl Layer {
    /// The highest level.
    const TOP: i64 = 8;

    /// Parses the value of `layer` in a manifest.
    fn of(value: &Value) -> Option<Layer> {
        match (value.as_integer(), value.as_str()) {
            (Some(level @ 0..=Layer::TOP), _) => Some(Layer::Level(level as u8)), // At most `TOP`.
            (_, Some("records")) => Some(Layer::Records),
            (_, Some("format")) => Some(Layer::Format),
            (_, Some("testkit")) => Some(Layer::TestKit),
            (_, Some("outside")) => Some(Layer::Outside),
            _ => None,
        }
    }
}

/// One crate, as its manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    name: String,
    layer: Layer,
    /// Whether it may depend on formats, whatever its layer.
    names_formats: bool,
}

impl Member {
    /// Reads the crate of a manifest.
    ///
    /// # Errors
    /// If the manifest states no layer or an unknown one.
    fn of(manifest: &Table) -> Result<Member> {
        let name = package_name(manifest).context("a manifest without a package")?;
        let ours = manifest["package"].get("metadata").and_then(|metadata| metadata.get("quipu"));
        let layer = ours.and_then(|ours| ours.get("layer")).and_then(Layer::of);
        let Some(layer) = layer else {
            bail!(
                "`{name}` has no layer: write `layer = 0` to `{}`, \"records\", \"format\", \"testkit\" or \"outside\" under \
                 `[package.metadata.quipu]` in its manifest",
                Layer::TOP
            );
        };
        let names_formats =
            ours.and_then(|ours| ours.get("names-formats")).and_then(Value::as_bool) == Some(true);
        Ok(Member { name, layer, names_formats })
    }
}

/// Reads all manifests of the workspace at `root` and prints forbidden dependencies; an error if there are any.
pub(crate) fn run(root: &Path) -> Result<()> {
    let (members, edges) = workspace(root)?;
    let wrong: Vec<String> = edges.iter().filter_map(|edge| forbidden(&members, edge)).collect();
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

/// Table of the manifest that an edge comes from.
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

/// Reason why the layers forbid `edge`; `None` if they allow it.
fn forbidden(members: &[Member], edge: &Edge) -> Option<String> {
    let find = |name: &str| members.iter().find(|member| member.name == name);
    let (Some(from), Some(to)) = (find(&edge.from), find(&edge.to)) else {
        return Some(format!("{edge}: `{}` is no crate of the workspace", edge.to));
    };
    if from.layer == Layer::Outside {
        return None;
    }
    let reason = match to.layer {
        Layer::Outside => "no crate depends on a chore runner",
        Layer::TestKit if edge.kind == Kind::Dev => return None,
        Layer::TestKit => "the test kit is for dev-dependencies only",
        Layer::Format if !from.names_formats && level(from.layer) < level(Layer::Level(4)) => {
            "this crate knows no format"
        }
        Layer::Records | Layer::Format | Layer::Level(_) if level(to.layer) >= level(from.layer) => {
            "not a lower layer"
        }
        Layer::Records | Layer::Format | Layer::Level(_) => return None,
    };
    Some(format!("{edge}: {reason}"))
}

/// Height of a layer; a crate may depend on lower ones.
fn level(layer: Layer) -> u8 {
    match layer {
        Layer::Level(level) => 2 * level,
        Layer::Records => 3,
        Layer::Format => 4,
        Layer::TestKit => 6,
        Layer::Outside => u8::MAX,
    }
}

/// Rank of a crate of this layer when crates are sorted from the lowest layer up.
pub(crate) fn rank(layer: Option<&Value>) -> u8 {
    layer.and_then(Layer::of).map_or(u8::MAX, level)
}

/// The crates under `root`, and their dependencies on each other.
fn workspace(root: &Path) -> Result<(Vec<Member>, Vec<Edge>)> {
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
    let members: Vec<Member> = parsed.iter().map(Member::of).collect::<Result<_>>()?;
    let edges = parsed.iter().flat_map(|manifest| edges(manifest, &members)).collect();
    Ok((members, edges))
}

/// The dependencies in one manifest on crates that are `members` or have the prefix of the project.
fn edges(manifest: &Table, members: &[Member]) -> Vec<Edge> {
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
                if members.iter().any(|member| member.name == to) || to == "quipu" || to.starts_with("quipu-")
                {
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

    /// Some crates, one of each kind.
    fn members() -> Vec<Member> {
        let member =
            |name: &str, layer, names_formats| Member { name: name.to_owned(), layer, names_formats };
        vec![
            member("quipu-source", Layer::Level(0), false),
            member("quipu-isa", Layer::Level(0), false),
            member("quipu-model", Layer::Level(1), false),
            member("quipu-engine", Layer::Level(2), false),
            member("quipu-drmemtrace", Layer::Format, false),
            member("quipu-prism", Layer::Format, false),
            member("quipu-passes", Layer::Level(3), false),
            member("quipu-view", Layer::Level(3), false),
            member("quipu-capture", Layer::Level(3), true),
            member("quipu", Layer::Level(4), false),
            member("quipu-console", Layer::Level(5), false),
            member("quipu-compat", Layer::Level(6), false),
            member("quipu-cli", Layer::Level(7), false),
            member("quipu-testkit", Layer::TestKit, false),
            member("xtask", Layer::Outside, false),
        ]
    }

    /// Runs the check on one manifest; returns the reasons.
    fn check(manifest: &str) -> Vec<String> {
        let manifest: Table = manifest.parse().unwrap();
        let members = members();
        edges(&manifest, &members).iter().filter_map(|edge| forbidden(&members, edge)).collect()
    }

    #[test]
    fn the_workspace_has_no_forbidden_edge() {
        let (members, edges) = workspace(&crate::root()).unwrap();
        assert!(!edges.is_empty());
        let wrong: Vec<String> = edges.iter().filter_map(|edge| forbidden(&members, edge)).collect();
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn a_manifest_says_where_its_crate_stands() {
        let member = |metadata: &str| {
            let manifest = format!("[package]\nname = 'quipu-novel'\n{metadata}");
            Member::of(&manifest.parse().unwrap())
        };
        let said = member("[package.metadata.quipu]\nlayer = 3\nnames-formats = true\n").unwrap();
        assert_eq!((said.layer, said.names_formats), (Layer::Level(3), true));
        let said = member("[package.metadata.quipu]\nlayer = 'format'\n").unwrap();
        assert_eq!((said.layer, said.names_formats), (Layer::Format, false));
        for wrong in
            ["", "[package.metadata.quipu]\nlayer = 9\n", "[package.metadata.quipu]\nlayer = 'top'\n"]
        {
            let error = member(wrong).unwrap_err().to_string();
            assert!(error.starts_with("`quipu-novel` has no layer"), "{error}");
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
    fn a_crate_whose_work_is_done_on_records_may_name_formats() {
        let manifest =
            "[package]\nname = 'quipu-capture'\n[dependencies]\nquipu-drmemtrace.workspace = true\n";
        assert_eq!(check(manifest), Vec::<String>::new());
    }

    #[test]
    fn a_format_may_not_name_another() {
        let manifest = "[package]\nname = 'quipu-prism'\n[dependencies]\nquipu-drmemtrace.workspace = true\n";
        assert_eq!(check(manifest), ["quipu-prism -> quipu-drmemtrace: this crate knows no format"]);
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
    fn a_crate_that_is_no_member_is_reported() {
        let manifest = "[package]\nname = 'quipu-model'\n[dependencies]\nquipu-novel.workspace = true\n";
        assert_eq!(
            check(manifest),
            ["quipu-model -> quipu-novel: `quipu-novel` is no crate of the workspace"]
        );
    }
}
