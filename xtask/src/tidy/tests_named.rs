//! Each invariant of `ARCHITECTURE.md` and each page of `docs/decisions` names the tests, rules or lints that enforce it.

use super::RULES;
use crate::house::measures::Tree;
use anyhow::Result;
use std::collections::HashSet;
use std::fs;

/// Text that precedes the names.
const MARK: &str = "Held by";

/// Heading of the section with the invariants.
const INVARIANTS: &str = "## What always holds";

/// Invariants and decisions that name no test, rule or lint, or one that does not exist.
pub(super) fn missing(tree: &Tree) -> Result<Vec<String>> {
    let manifest = fs::read_to_string(tree.root.join("Cargo.toml"))?;
    let known = Known { tests: tests(tree), manifest };
    let mut missing = Vec::new();
    let map = fs::read_to_string(tree.root.join("ARCHITECTURE.md"))?;
    let section = map.split(INVARIANTS).nth(1).unwrap_or_default().split("\n## ").next().unwrap_or_default();
    for invariant in section.split("\n- ").skip(1) {
        let about = invariant.lines().next().unwrap_or_default();
        missing.extend(known.fault(invariant).map(|fault| format!("ARCHITECTURE.md: {about}: {fault}")));
    }
    for (path, text) in tree.texts(&["md"])? {
        if path.strip_prefix("docs/decisions/").is_some_and(|name| name.starts_with(char::is_numeric)) {
            missing.extend(known.fault(&text).map(|fault| format!("{path}: {fault}")));
        }
    }
    Ok(missing)
}

/// Names that may be given.
struct Known {
    tests: HashSet<String>,
    manifest: String,
}

impl Known {
    /// Describes the fault in the names in `text`; `None` if they are right.
    fn fault(&self, text: &str) -> Option<String> {
        let Some((_, names)) = text.rsplit_once(MARK) else {
            return Some("nothing is named that holds it".to_owned());
        };
        let names: Vec<&str> = names.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            return Some("nothing is named that holds it".to_owned());
        }
        let unknown = names.iter().find(|name| !self.has(name))?;
        Some(format!("there is no test, rule or lint `{unknown}`"))
    }

    /// True if a test, a rule of the house or a lint of the workspace has this name.
    fn has(&self, name: &str) -> bool {
        let lint = name.rsplit("::").next().unwrap_or(name);
        self.tests.contains(name)
            || RULES.iter().any(|rule| rule.name == name)
            || self.manifest.contains(&format!("\n{lint} = "))
    }
}

/// Names of all tests.
fn tests(tree: &Tree) -> HashSet<String> {
    let mut tests = HashSet::new();
    for source in &tree.sources {
        for line in source.lines.iter().filter(|line| line.is_test) {
            let name =
                line.code.trim_start().strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next());
            tests.extend(name.map(str::to_owned));
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invariant_names_a_test_that_exists() {
        let known = Known {
            tests: HashSet::from(["no_list".to_owned()]),
            manifest: "\nunsafe_code = \"forbid\"\n".to_owned(),
        };
        assert_eq!(known.fault("No list.\n  Held by `no_list`, `rust::unsafe_code`.\n"), None);
        assert_eq!(known.fault("No list.\n").unwrap(), "nothing is named that holds it");
        assert_eq!(
            known.fault("No list.\n  Held by `other`.\n").unwrap(),
            "there is no test, rule or lint `other`"
        );
    }
}
