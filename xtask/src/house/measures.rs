//! The measures of the house: what each counts, its goal, and how it is taken.
//!
//! Measures read the text of sources, not their meaning: each counts the lines that match a rule, and says which rule that
//! is. Measures that need a build, a run or a clock are in [`LATER`] with the reason.

use super::source::{Line, Source, files};
use crate::new::{self, scratch};
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// The repository as measures read it.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) sources: Vec<Source>,
}

impl Tree {
    /// Reads all sources below `root`.
    pub(crate) fn read(root: &Path) -> Result<Tree> {
        Ok(Tree { root: root.to_path_buf(), sources: super::source::sources(root)? })
    }

    /// Sources of the crates that the workspace builds, without tests and benchmarks.
    pub(crate) fn of_crates(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| is_of_crates(&source.path))
    }

    /// Text files below the root whose names have one of these endings, with their paths relative to the root.
    pub(crate) fn texts(&self, endings: &[&str]) -> Result<Vec<(String, String)>> {
        let mut texts = Vec::new();
        for ending in endings {
            for path in files(&self.root, ending)? {
                let name =
                    path.strip_prefix(&self.root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                if let Ok(text) = fs::read_to_string(&path) {
                    texts.push((name, text));
                }
            }
        }
        Ok(texts)
    }
}

fn is_of_crates(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("crates") && parts.nth(1) == Some("src")
}

/// A number that is counted in the repository.
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) goal: Goal,
    pub(crate) take: fn(&Tree) -> Result<Taken>,
}

/// Goal of a measure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// No goal: the measure is context for another one.
    None,
    /// At most this value.
    AtMost(u64),
    /// This many percent fewer than at the start.
    Fewer(u64),
}

impl Goal {
    /// Highest value that the goal allows for a measure that started at `start`.
    pub(crate) fn limit(self, start: u64) -> u64 {
        match self {
            Goal::None => u64::MAX,
            Goal::AtMost(limit) => limit,
            Goal::Fewer(percent) => start - start * percent / 100,
        }
    }
}

/// Result of taking a measure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) value: u64,
    /// The places counted, one line each.
    pub(crate) places: Vec<String>,
}

impl Taken {
    fn of(places: Vec<String>) -> Taken {
        Taken { value: places.len() as u64, places }
    }
}

/// All measures, in the order of the page.
pub(crate) const MEASURES: &[Measure] = &[
    Measure {
        name: "family-files",
        what: "files outside its crate that a new family changes or adds: `cargo xtask new format` in a copy of the repository, where \
               the family's tests and the walks over all families pass; generated pages and the lock file follow by themselves",
        goal: Goal::AtMost(4),
        take: family_files,
    },
    Measure {
        name: "flat-family-lines",
        what: "lines of the families of flat records (lackey, din and Cacheray together), but for their analyses",
        // 2,300 before Cacheray had marks.
        goal: Goal::AtMost(2_320),
        take: |tree| {
            Ok(lines_of(tree, |path| {
                FLAT_FAMILIES.iter().any(|folder| path.starts_with(folder)) && !path.ends_with("/counts.rs")
            }))
        },
    },
    Measure {
        name: "lens-lists",
        what: "places that list the lenses: five of the six named within 20 lines, but for sets of columns (`Columns::CALLS`), by which \
               a trace says what it fills",
        goal: Goal::AtMost(1),
        take: lens_lists,
    },
    Measure {
        name: "arrow-lines",
        what: "lines of the file that hands all tables, lenses and results to Arrow, its comments and blank lines included",
        goal: Goal::AtMost(300),
        take: |tree| {
            let text = fs::read_to_string(tree.root.join("crates/arrow/src/encode.rs"))?;
            Ok(Taken { value: text.lines().count() as u64, places: Vec::new() })
        },
    },
    Measure {
        name: "old-columns",
        what: "lines with names of the columns and tables that were described for native tables alone",
        goal: Goal::AtMost(0),
        take: |tree| {
            // Written in two parts, so that this code does not count itself.
            let names =
                [["Table", "Schema"], ["Column", "Schema"], ["learned", "_tables"]].map(|name| name.concat());
            Ok(places(tree, |_, line| names.iter().any(|name| has_word(&line.code, name))))
        },
    },
    Measure {
        name: "option-types",
        what: "types of `model` that hold options as pairs of texts",
        goal: Goal::AtMost(1),
        take: |tree| {
            Ok(places(tree, |source, line| {
                is_field_of_pairs(line) && source.path.starts_with("crates/model/")
            }))
        },
    },
    Measure {
        name: "old-options",
        what: "lines with names of the bags of options that were before `Options`, of what took records before `RecordWriter`, and \
               of the viewer beside all others that raw files had",
        goal: Goal::AtMost(0),
        take: |tree| {
            // Written in two parts, so that this code does not count itself.
            let names = [
                ["Setting", "Info"],
                ["model::", "Args"],
                ["Import", "er"],
                ["Edit", "Job"],
                ["print_", "settings: &"],
                ["Dump", "Form"],
                ["format.", "dump("],
            ]
            .map(|name| name.concat());
            Ok(places(tree, |_, line| names.iter().any(|name| line.code.contains(name.as_str()))))
        },
    },
    Measure {
        name: "edit-systems",
        what: "traits of something that changes a trace (`Edit`, `Transform`)",
        goal: Goal::AtMost(1),
        take: |tree| {
            let names = ["pub trait Edit", "pub trait Transform"];
            Ok(places(tree, |_, line| names.iter().any(|name| has_word(&line.code, name))))
        },
    },
    Measure {
        name: "block-joiners",
        what: "types that make consecutive bytes of blocks (`Feed` over a `Stream`)",
        goal: Goal::AtMost(1),
        take: |tree| {
            Ok(places(tree, |source, line| {
                has_word(&line.code, "struct Feed")
                    && source.program().any(|(_, line)| has_word(&line.code, "Stream"))
            }))
        },
    },
    Measure {
        name: "print-pipelines",
        what: "places that ask a trace for a printer to write its records out",
        goal: Goal::AtMost(1),
        take: |tree| {
            Ok(places(tree, |source, line| {
                let asks = line.code.contains("trace.printer(") && !line.code.contains("self.trace.printer(");
                asks && !source.path.starts_with("crates/testkit/")
            }))
        },
    },
    Measure {
        name: "format-names",
        what: "lines of `cli` and `console` that name a format, but for `impersonate.rs`, which lists imitations of other programs",
        goal: Goal::AtMost(0),
        take: format_names,
    },
    Measure {
        name: "json-macros",
        what: "uses of `json!`",
        goal: Goal::AtMost(60),
        take: |tree| Ok(places(tree, |_, line| line.code.contains("json!"))),
    },
    Measure {
        name: "lines",
        what: "lines of `crates/*/src`, without the crates that came after the start: the stream, Prism, DTrace and their C libraries; Arrow, SQL, expressions and the network",
        goal: Goal::Fewer(3),
        take: |tree| Ok(lines_of(tree, |path| !NEWER.iter().any(|folder| path.starts_with(folder)))),
    },
    Measure {
        name: "lines-in-all",
        what: "lines of `crates/*/src`, all crates; it grows with each family",
        goal: Goal::None,
        take: |tree| Ok(lines_of(tree, |_| true)),
    },
];

/// A measure that cannot be taken yet, or not by reading sources.
pub(crate) struct Later {
    pub(crate) what: &'static str,
    pub(crate) goal: &'static str,
    pub(crate) why: &'static str,
}

/// Measures that are not taken here.
pub(crate) const LATER: &[Later] = &[
    Later {
        what: "benchmarks of `docs/performance.md` (fill, counts, view, check, caches)",
        goal: "none slower by more than 3 %",
        why: "the program before and after has to run in turn on a quiet machine: `./dev bench`",
    },
    Later {
        what: "cold `cargo build --release -p quipu-cli` on two quiet cores, and the part of it where one crate is built alone",
        goal: "150 s; 8 s",
        why: "it takes a quiet machine and an empty target: `cargo build --release -p quipu-cli --timings`",
    },
];

/// Crates added since the first measurements.
const NEWER: &[&str] = &[
    "crates/wire/",
    "crates/stream/",
    "crates/stream-c/",
    "crates/stream-derive/",
    "crates/streamed/",
    "crates/prism/",
    "crates/prism-c/",
    "crates/dtrace/",
    "crates/dtrace-c/",
    "crates/hooks/",
    "crates/arrow/",
    "crates/query/",
    "crates/expr/",
    "crates/network/",
];

/// The crates of families with flat records.
const FLAT_FAMILIES: &[&str] = &["crates/plaintext/src/", "crates/cacheray/src/"];

/// The lenses, as fields of a batch.
const LENSES: &[&str] = &["accesses", "instrs", "calls", "threads", "marks", "regions"];

/// This many lenses named within [`LIST_LINES`] lines count as a list of lenses: not all, since the last two were added later
/// than some lists.
const LISTED: usize = 5;
const LIST_LINES: usize = 20;

fn family_files(tree: &Tree) -> Result<Taken> {
    let copy =
        std::env::temp_dir().join(format!("quipu-house-{}-{:p}", std::process::id(), &raw const *tree));
    let taken = new_family(&tree.root, &copy);
    fs::remove_dir_all(&copy)?;
    taken
}

/// Adds a family in a copy of the repository and lists the files that changed outside its crate.
fn new_family(root: &Path, copy: &Path) -> Result<Taken> {
    scratch::copy(root, copy)?;
    new::write(copy, new::What::Format, "toy", "accesses that a toy prints")?;
    let changed = scratch::changed(root, copy)?.into_iter();
    Ok(Taken::of(changed.filter(|path| !path.starts_with("crates/toy/")).collect()))
}

fn lens_lists(tree: &Tree) -> Result<Taken> {
    let mut places = Vec::new();
    for source in tree.of_crates() {
        let mut last: Vec<Option<usize>> = vec![None; LENSES.len()];
        for (number, line) in source.program() {
            let code = names(&line.code).replace("Columns::", "Columns").to_lowercase().replace('_', " ");
            for (lens, last) in LENSES.iter().zip(&mut last) {
                if has_word(&code, lens) {
                    *last = Some(number);
                }
            }
            let near: Vec<usize> =
                last.iter().flatten().copied().filter(|at| number - at < LIST_LINES).collect();
            if near.len() >= LISTED {
                places.push(format!("{}:{}", source.path, near.iter().min().unwrap_or(&number)));
                last.fill(None);
            }
        }
    }
    Ok(Taken::of(places))
}

/// A line of code with its strings emptied.
fn names(code: &str) -> String {
    code.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// True if a line declares a field that holds pairs of texts.
fn is_field_of_pairs(line: &Line) -> bool {
    let code = line.code.trim_start();
    let declares = !code.starts_with("let ") && !code.contains("fn ") && !code.contains("->");
    declares && code.contains("Vec<(String, String)>")
}

/// Lines of the command-line crates that name a format.
pub(crate) fn format_names(tree: &Tree) -> Result<Taken> {
    let mut names: Vec<String> =
        quipu::FORMATS.iter().map(|format| format.info().name.to_lowercase()).collect();
    // This family's name is a word of the command line, too.
    names.retain(|name| name != "stream");
    names.extend(["plaintext", "drmemtrace", "dinero", "streamed"].map(str::to_owned));
    Ok(places(tree, |source, line| {
        let is_own =
            ["crates/cli/src/", "crates/console/src/"].iter().any(|folder| source.path.starts_with(folder));
        let imitates = source.path == "crates/cli/src/verbs/impersonate.rs";
        let code = line.code.to_lowercase();
        is_own && !imitates && names.iter().any(|name| has_word(&code, name) || code.contains("drmemtrace"))
    }))
}

/// Lines of the crates' program code for which `wanted` holds.
fn places(tree: &Tree, wanted: impl Fn(&Source, &Line) -> bool) -> Taken {
    let mut places = Vec::new();
    for source in tree.of_crates() {
        for (number, line) in source.program().filter(|(_, line)| wanted(source, line)) {
            places.push(format!("{}:{number}: {}", source.path, line.code.trim()));
        }
    }
    Taken::of(places)
}

/// Number of lines of program code in the sources that are `wanted`, with one place for each crate.
fn lines_of(tree: &Tree, wanted: impl Fn(&str) -> bool) -> Taken {
    let mut crates: Vec<(&str, u64)> = Vec::new();
    for source in tree.of_crates().filter(|source| wanted(&source.path)) {
        let name = source.path.split('/').nth(1).unwrap_or_default();
        let n = source.program().count() as u64;
        match crates.last_mut() {
            Some((last, sum)) if *last == name => *sum += n,
            _ => crates.push((name, n)),
        }
    }
    Taken {
        value: crates.iter().map(|(_, n)| n).sum(),
        places: crates.iter().map(|(name, n)| format!("crates/{name}: {n}")).collect(),
    }
}

/// True if `text` contains `word` as a whole word.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::source::lines;

    fn tree(path: &str, text: &str) -> Tree {
        Tree { root: PathBuf::new(), sources: vec![Source { path: path.to_owned(), lines: lines(text).0 }] }
    }

    #[test]
    fn a_list_of_lenses_is_found_once() {
        let text = "struct Cursor {\n    accesses: usize,\n    instrs: usize,\n    calls: usize,\n    threads: usize,\n    marks: usize,\n}\n";
        let taken = lens_lists(&tree("crates/engine/src/copy.rs", text)).unwrap();
        assert_eq!(taken.places, ["crates/engine/src/copy.rs:2"]);
        let taken = lens_lists(&tree("crates/engine/tests/copy.rs", text)).unwrap();
        assert_eq!(taken.value, 0);
        let text = "Columns::ACCESSES\n    .or(Columns::INSTRS)\n    .or(Columns::CALLS)\n    .or(Columns::MARKS)\n    .or(Columns::THREADS)\n";
        let taken = lens_lists(&tree("crates/prism/src/front.rs", text)).unwrap();
        assert_eq!(taken.value, 0);
        let text = "let (calls, marks, instrs) = (1, 2, 3);\nsay(\"accesses\", \"threads\");\n";
        let taken = lens_lists(&tree("crates/prism/src/front.rs", text)).unwrap();
        assert_eq!(taken.value, 0);
    }

    #[test]
    fn a_verb_that_names_a_format_is_found_and_an_imitation_is_not() {
        let text =
            "//! Of drmemtrace.\nuse quipu::drmemtrace::write;\nlet format = \"lackey\";\nlet dinner = 1;\n";
        assert_eq!(format_names(&tree("crates/cli/src/verbs/trim.rs", text)).unwrap().value, 2);
        assert_eq!(format_names(&tree("crates/compat/src/drmemtrace/mod.rs", text)).unwrap().value, 0);
    }

    #[test]
    fn no_verb_names_a_format() {
        let taken = format_names(&Tree::read(&crate::root()).unwrap()).unwrap();
        assert_eq!(taken.places, [""; 0]);
    }

    /// Measures that do not meet their goals.
    const UNMET: [&str; 1] = ["lines"];

    #[test]
    fn all_measures_have_names_of_their_own_and_are_within_their_goals() {
        let tree = Tree::read(&crate::root()).unwrap();
        for (i, measure) in MEASURES.iter().enumerate() {
            assert!(MEASURES[..i].iter().all(|other| other.name != measure.name), "{}", measure.name);
            let Taken { value, places } = (measure.take)(&tree).unwrap();
            let limit = if UNMET.contains(&measure.name) { u64::MAX } else { measure.goal.limit(0) };
            assert!(value <= limit, "{}: {value}, {places:#?}", measure.name);
        }
    }

    #[test]
    fn a_goal_of_fewer_depends_on_the_start() {
        assert_eq!(Goal::Fewer(3).limit(1_000), 970);
        assert_eq!(Goal::AtMost(4).limit(1_000), 4);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("of din, too", "din"));
        assert!(!has_word("dinner", "din"));
        assert!(!has_word("quipu_din", "din"));
    }
}
