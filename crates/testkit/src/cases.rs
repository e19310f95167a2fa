//! Test cases as files: a folder `crates/*/cases/NAME` holds `input.FORMAT`, what is printed of it (`view.txt`), and which rules
//! it breaks (`check.txt`: the rule, how often, the offset of the first violation). Of a format whose bytes no one can read, the
//! input is `input.rows`.
//!
//! `BLESS=1` writes both texts, for a person to review. Whatever walks over samples of all formats takes these, too, so a family
//! brings its samples along.

use crate::golden::assert_golden;
use crate::report::broken_rules;
use quipu_model::{Format, OpenOptions, Scan, ShardId};
use quipu_source::Source;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The inputs of all cases of a format, whatever crate they lie in.
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

/// The folders of a crate's cases whose input is text, `input.rows`: a row a line of a table from which the format's bytes can be
/// made, as the crate's own tests do it.
///
/// # Panics
/// If a folder cannot be listed.
pub fn rows(manifest: &str) -> Vec<PathBuf> {
    let inputs = entries(&Path::new(manifest).join("cases")).into_iter().map(|case| case.join("input.rows"));
    inputs.filter(|input| input.exists()).collect()
}

/// Reads an input as its format's trace and compares what is printed and checked with the files beside it.
///
/// # Panics
/// If something differs, or the format cannot open it.
pub fn holds(format: &dyn Format, input: &Path) {
    let opened = Source::open(input).map_err(quipu_model::Error::from);
    holds_of(format, opened, input);
}

/// The same for what was made of an input.
///
/// # Panics
/// As [`holds`].
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

/// Whether a case breaks no rule.
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
