//! Parses Markdown as far as rules need it: headings as anchors, links, tables.

use crate::house::measures::Tree;
use anyhow::Result;
use std::path::{Component, Path, PathBuf};

/// Pages that are generated from the sources and take their wording from there.
const GENERATED: &[&str] =
    &["docs/tools.md", "docs/verbs.md", "docs/checks.md", "docs/compatibility.md", "docs/house.md"];

/// True for pages that are written by hand and describe the tree as it is now.
pub(super) fn is_prose(path: &str) -> bool {
    !GENERATED.contains(&path)
        && path != "CHANGELOG.md"
        && !path.starts_with("traces/")
        && !path.starts_with("fuzz/seeds/")
}

/// Lines of a page outside blocks of code, with their numbers from 1.
pub(super) fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((i + 1, line));
        }
    }
    lines
}

/// Anchors of a page: one for each heading, named as code-hosting sites name them.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text).into_iter().filter(|(_, line)| line.starts_with('#')) {
        let slug = slug(line.trim_start_matches('#').trim());
        let n = anchors.iter().filter(|known| known.as_str() == slug).count();
        anchors.push(if n == 0 { slug } else { format!("{slug}-{n}") });
    }
    anchors
}

/// Turns a heading into an anchor: lower case, hyphens for blanks, no punctuation.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Reason why `target`, relative to the folder `from`, does not exist; `None` if the file exists, and the heading in it if
/// one is named.
pub(super) fn missing(root: &Path, from: &str, target: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = plain(&root.join(from).join(file));
    if !path.exists() {
        return Some(format!("there is no file `{file}`"));
    }
    let anchor = anchor?;
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    (!anchors(&text).iter().any(|known| known == anchor))
        .then(|| format!("`{file}` has no heading `#{anchor}`"))
}

/// Resolves `..` in a path.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

/// Links of pages whose target does not exist; network addresses are not checked.
pub(super) fn broken_links(tree: &Tree) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for (path, text) in tree.texts(&["md"])? {
        if path.starts_with("fuzz/seeds/") {
            continue;
        }
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in prose(&text) {
            for (_, rest) in line.match_indices("](").map(|(at, _)| line.split_at(at + 2)) {
                let target = rest.split(')').next().unwrap_or_default();
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let own = target
                    .strip_prefix('#')
                    .map(|anchor| format!("{}#{anchor}", path.rsplit('/').next().unwrap_or_default()));
                if let Some(reason) = missing(&tree.root, folder, own.as_deref().unwrap_or(target)) {
                    broken.push(format!("{path}:{number}: {reason}"));
                }
            }
        }
    }
    Ok(broken)
}

/// Pages of `docs` that are missing in its index.
pub(super) fn missing_in_index(tree: &Tree) -> Result<Vec<String>> {
    let pages = tree.texts(&["md"])?;
    let index = pages.iter().find(|(path, _)| path == "docs/README.md").map_or("", |(_, text)| text);
    let names = |path: &str| index.contains(&format!("]({path})"));
    let wanted = |path: &&str| *path != "README.md" && !path.starts_with("decisions/0");
    let pages = pages.iter().filter_map(|(path, _)| path.strip_prefix("docs/")).filter(wanted);
    Ok(pages.filter(|path| !names(path)).map(|path| format!("docs/README.md: `{path}` is missing")).collect())
}

/// Formats without a page or without samples.
pub(super) fn missing_formats(tree: &Tree) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    for info in quipu::FORMATS.iter().map(|format| format.info()) {
        let lacks = [
            (!tree.root.join(info.doc).exists(), "page"),
            (samples(&tree.root, info.name)?.is_empty(), "folder in traces, and no case in its crate"),
        ];
        let lacks = lacks.into_iter().filter(|(lacks, _)| *lacks);
        missing.extend(lacks.map(|(_, what)| format!("{} ({}): no {what}", info.name, info.doc)));
    }
    Ok(missing)
}

/// Possible traces of a format: the entries of its folder in `traces`, and the inputs of cases
/// (`crates/*/cases/*/input.FORMAT`).
pub(super) fn samples(root: &Path, format: &str) -> Result<Vec<PathBuf>> {
    let listed = |folder: &Path| -> Result<Vec<PathBuf>> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    };
    let mut samples = listed(&root.join("traces").join(format))?;
    for krate in listed(&root.join("crates"))? {
        let inputs =
            listed(&krate.join("cases"))?.into_iter().map(|case| case.join(format!("input.{format}")));
        samples.extend(inputs.filter(|input| input.exists()));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_anchors_as_forges_make_them() {
        let page = "# What Quipu does on damage\n\n```text\n# no heading\n```\n## `a/b`, c\n## `a/b`, c\n";
        assert_eq!(anchors(page), ["what-quipu-does-on-damage", "ab-c", "ab-c-1"]);
    }

    #[test]
    fn a_link_leads_to_a_file_and_a_heading() {
        let root = crate::root();
        assert_eq!(missing(&root, "docs", "formats/drmemtrace.md#simulators"), None);
        assert_eq!(missing(&root, "docs/formats", "../report.md"), None);
        assert!(missing(&root, "docs", "formats/drmemtrace.md#chapter-15").is_some());
        assert!(missing(&root, "docs", "formats/none.md").is_some());
    }
}
