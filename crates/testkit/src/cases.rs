//! Test cases as files: a folder `crates/*/cases/NAME` contains `input.FORMAT`, its printed records (`view.txt`), and the
//! rules that it breaks (`check.txt`: the rule, the number of violations, the offset of the first). If the format's bytes are
//! not readable, the input is `input.rows`.
//!
//! `BLESS=1` writes both texts, for a person to review. Tests that use samples of all formats also use these inputs, so a new
//! format brings its samples along.

use crate::golden::assert_golden;
use crate::report::broken_rules;
use quipu_model::{Format, OpenOptions, Scan, ShardId};
use quipu_source::Source;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The inputs of all cases of a format, in any crate.
///
/// # Panics
/// If a folder cannot be listed.
pub fn inputs(format: &str) -> Vec<PathBuf> {
    let crates = entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let cases = crates.iter().map(|path| path.join("cases")).filter(|cases| cases.is_dir());
    let input = format!("input.{format}");
    cases
        .flat_map(|cases| entries(&cases))
        .map(|case| case.join(&input))
        .filter(|path| path.exists())
        .collect()
}

/// The `input.rows` files of a crate's cases: each line is a row of a table. The crate's own tests make the format's bytes
/// from them.
///
/// # Panics
/// If a folder cannot be listed.
pub fn rows(manifest: &str) -> Vec<PathBuf> {
    let inputs = entries(&Path::new(manifest).join("cases")).into_iter().map(|case| case.join("input.rows"));
    inputs.filter(|input| input.exists()).collect()
}

/// Reads an input as a trace of its format and compares the printed records and the check with the files beside it.
///
/// # Panics
/// If something differs, or the format cannot open it.
pub fn holds(format: &dyn Format, input: &Path) {
    let opened = Source::open(input).map_err(quipu_model::Error::from);
    holds_of(format, opened, input);
}

/// The same for a source made from an input.
///
/// # Panics
/// Those of [`holds`].
pub fn holds_of(format: &dyn Format, opened: quipu_model::Result<Source>, input: &Path) {
    let trace = match opened.and_then(|source| format.open(&source, &OpenOptions::default())) {
        Ok(trace) => trace,
        Err(error) => panic!("{} cannot be opened: {error}", input.display()),
    };
    let scan = Scan { columns: trace.columns(), ..Scan::new(ShardId(0)) };
    let (lines, findings) = crate::printed(&*trace, &scan);
    let mut view = lines.iter().fold(String::new(), |text, line| text + line.trim_end() + "\n");
    for finding in &findings {
        let _ = writeln!(view, "{}: {} [{}]", finding.severity.name(), finding.message, finding.rule);
    }
    assert_golden(input.with_file_name("view.txt"), &view);
    let Some(check) = format.tools().iter().find(|tool| tool.info().name == "check") else { return };
    let mut rules = String::new();
    for (rule, (count, offset)) in broken_rules(*check, &*trace) {
        let offset = offset.map_or_else(|| "-".to_owned(), |offset| format!("{offset:#x}"));
        let _ = writeln!(rules, "{rule} {count} {offset}");
    }
    assert_golden(input.with_file_name("check.txt"), &rules);
}

/// Whether a case is known to break no rule.
pub fn is_sound(input: &Path) -> bool {
    fs::read_to_string(input.with_file_name("check.txt")).is_ok_and(|rules| rules.is_empty())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let listing = fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    match listing {
        Ok(entries) => {
            let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
            paths.sort();
            paths
        }
        Err(error) => panic!("{} cannot be listed: {error}", folder.display()),
    }
}
