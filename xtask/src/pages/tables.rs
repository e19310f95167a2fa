//! Generates the tables on pages that are otherwise written by hand.
//!
//! Each table is placed between two marks, and its rows come from the manifests of crates or from the pages of formats.
//! Crates describe themselves in their manifests; pages of formats have comments at their top:
//!
//! ```text
//! <!-- index: the row of docs/README.md -->
//! <!-- holds: what traces of the format hold, for README.md; of formats that can be read -->
//! <!-- reads: how much of it is read -->
//! ```

use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The pages with their tables brought up to date.
pub(crate) fn pages(root: &Path) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("README.md", with_table(root, "README.md", "formats", &formats(root)?)?),
        ("docs/README.md", with_table(root, "docs/README.md", "formats", &index(root)?)?),
        ("ARCHITECTURE.md", with_table(root, "ARCHITECTURE.md", "crates", &crates(root)?)?),
    ])
}

/// Returns the page at `path` with this table between the marks called `name`.
fn with_table(root: &Path, path: &str, name: &str, table: &str) -> Result<String> {
    let page = fs::read_to_string(root.join(path)).with_context(|| path.to_owned())?;
    let marks =
        [format!("<!-- {name}: `cargo xtask docs` writes it -->\n\n"), format!("\n<!-- end of {name} -->")];
    let begin = page.find(&marks[0]).map(|at| at + marks[0].len());
    let end = page.find(&marks[1]);
    let (Some(begin), Some(end)) = (begin, end) else {
        anyhow::bail!("{path} has no marks for its table of {name}")
    };
    Ok(format!("{}{table}{}", &page[..begin], &page[end..]))
}

/// The text of the comment `word` at the top of a page.
fn said<'t>(page: &'t str, word: &str) -> Option<&'t str> {
    let mark = format!("<!-- {word}: ");
    let rest = &page[page.find(&mark)? + mark.len()..];
    rest.split(" -->").next()
}

/// Pages of the formats that Quipu reads, in the order of formats, each with its text and the formats that it describes.
fn described(root: &Path) -> Result<Vec<(&'static str, String, Vec<&'static str>)>> {
    let mut pages: Vec<(&'static str, String, Vec<&'static str>)> = Vec::new();
    for info in quipu::FORMATS.iter().map(|format| format.info()) {
        match pages.iter_mut().find(|(path, ..)| *path == info.doc) {
            Some((_, _, names)) => names.push(info.name),
            None => {
                let text = fs::read_to_string(root.join(info.doc)).with_context(|| info.doc)?;
                pages.push((info.doc, text, vec![info.name]));
            }
        }
    }
    Ok(pages)
}

fn formats(root: &Path) -> Result<String> {
    let mut table = String::from("| format | contents | supported |\n|---|---|---|\n");
    for (path, text, names) in described(root)? {
        let part = |word| said(&text, word).with_context(|| format!("{path} has no `<!-- {word}: … -->`"));
        writeln!(
            table,
            "| {} ([described here]({path})) | {} | {} |",
            names.join(", "),
            part("holds")?,
            part("reads")?
        )?;
    }
    Ok(table)
}

fn index(root: &Path) -> Result<String> {
    let mut table = String::from("| page | describes |\n|---|---|\n");
    let of_formats: Vec<String> = described(root)?.into_iter().map(|(path, ..)| path.to_owned()).collect();
    let mut pages: Vec<String> = Vec::new();
    for entry in fs::read_dir(root.join("docs/formats"))? {
        pages.push(format!("docs/formats/{}", entry?.file_name().to_string_lossy()));
    }
    let rank = |path: &String| of_formats.iter().position(|known| known == path).unwrap_or(usize::MAX);
    pages.sort_by_key(|path| (rank(path), path.clone()));
    for path in pages.iter().filter(|path| path.ends_with(".md")) {
        let text = fs::read_to_string(root.join(path)).with_context(|| path.clone())?;
        let row = said(&text, "index").with_context(|| format!("{path} has no `<!-- index: … -->`"))?;
        let path = path.trim_start_matches("docs/");
        writeln!(table, "| [{}]({path}) | {row} |", path.trim_start_matches("formats/"))?;
    }
    Ok(table)
}

fn crates(root: &Path) -> Result<String> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(root.join("crates")).context("folder `crates`")? {
        let entry = entry?;
        let path = entry.path().join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let manifest: toml::Table = text.parse().with_context(|| path.display().to_string())?;
        let ours = manifest["package"].get("metadata").and_then(|metadata| metadata.get("quipu"));
        let part = |word: &str| ours.and_then(|ours| ours.get(word)).and_then(toml::Value::as_str);
        let name = entry.file_name().to_string_lossy().into_owned();
        let does =
            part("does").with_context(|| format!("{} does not say what `{name}` does", path.display()))?;
        let rank = crate::layers::rank(ours.and_then(|ours| ours.get("layer")));
        rows.push((rank, name, does.to_owned(), part("leaves").unwrap_or_default().to_owned()));
    }
    rows.sort();
    let mut table = String::from("| crate | purpose | left to others |\n|---|---|---|\n");
    for (_, name, does, leaves) in rows {
        let leaves = if leaves.is_empty() { String::new() } else { format!("{leaves} ") };
        writeln!(table, "| `{name}` | {does} | {leaves}|")?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_says_at_its_top_is_found() {
        let page = "# Din\n\n<!-- index: the text -->\n<!-- holds: a, b -->\n";
        assert_eq!(
            (said(page, "index"), said(page, "holds"), said(page, "reads")),
            (Some("the text"), Some("a, b"), None)
        );
    }
}
