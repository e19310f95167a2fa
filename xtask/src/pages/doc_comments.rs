//! Manuals from the sources of tools: the `//!` text at the top of a file, if it begins with a tool's name in backquotes and
//! a colon.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The manuals of all tools.
#[derive(Default)]
pub(crate) struct SourceDocs {
    manuals: Vec<Manual>,
}

/// The manual in one file.
pub(crate) struct Manual {
    name: String,
    /// The text, as Markdown.
    pub(crate) text: String,
}

impl SourceDocs {
    /// Adds the manuals of all files in `folder` and below it; a folder that does not exist adds none.
    pub(crate) fn read_folder(&mut self, folder: &Path) -> Result<()> {
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        let mut sources = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                self.read_folder(&path)?;
            } else if path.extension().is_some_and(|end| end == "rs") {
                sources.push(fs::read_to_string(&path).with_context(|| path.display().to_string())?);
            }
        }
        self.manuals.extend(sources.iter().filter_map(|source| manual(source)));
        Ok(())
    }

    /// The manual of the tool called `name`.
    pub(crate) fn of(&self, name: &str) -> Option<&Manual> {
        self.manuals.iter().find(|manual| manual.name == name)
    }
}

/// The manual in one file, if its first line has the form of one.
fn manual(source: &str) -> Option<Manual> {
    let lines: Vec<&str> = source.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let (name, first) = lines.first()?.trim().strip_prefix('`')?.split_once("`: ")?;
    let mut text = capitalise(first);
    for line in &lines[1..] {
        text.push('\n');
        text.push_str(line.strip_prefix(' ').unwrap_or(line));
    }
    Some(Manual { name: name.to_owned(), text: with_pages(&without_links(&text)) })
}

/// Replaces links into the code's documentation by their words, since they would lead nowhere on a page.
pub(crate) fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("[`") {
        let Some((word, behind)) = behind.split_once("`]") else { break };
        out.push_str(before);
        out.push('`');
        out.push_str(word);
        out.push('`');
        rest = match behind.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, behind)) => behind,
            None => behind,
        };
    }
    out.push_str(rest);
    out
}

/// Turns `SPEC: drmemtrace.md#chunks` into a link to that page of a format, relative to the page of tools.
fn with_pages(text: &str) -> String {
    let mut parts = text.split("SPEC: ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("see ");
        let mut words = part.split_inclusive(char::is_whitespace).peekable();
        while let Some(word) = words.next_if(|word| word.contains(".md")) {
            let target = word.trim_end_matches([' ', '\n', '.', ',', ')', ';', ':']);
            let page = target.split('.').next().unwrap_or_default();
            out.push_str(&format!("[{page}](formats/{target}){}", &word[target.len()..]));
        }
        out.extend(words);
    }
    out
}

fn capitalise(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_its_text() {
        let source = "//! `demo`: how often.\n//!\n//! Like [`other`](crate::other).\n\n/// All of it.\npub struct Answer;\n";
        let manual = manual(source).unwrap();
        assert_eq!((manual.name.as_str(), manual.text.as_str()), ("demo", "How often.\n\nLike `other`."));
    }

    #[test]
    fn pointers_at_pages_become_links() {
        let text = with_pages("Calls. (SPEC: drmemtrace.md#view,\ndrmemtrace.md#chunks.)\nSee a.md.");
        assert_eq!(
            text,
            "Calls. (see [drmemtrace](formats/drmemtrace.md#view),\n[drmemtrace](formats/drmemtrace.md#chunks).)\nSee a.md."
        );
    }

    #[test]
    fn a_file_that_begins_otherwise_has_no_manual() {
        assert!(manual("//! Adds numbers.\n").is_none());
    }
}
