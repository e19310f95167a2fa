//! Source files as lines, each split into code, strings and comments, with a mark on lines that only tests compile.
//!
//! This parses Rust as far as counting needs: strings, comments, brackets, and items under `#[cfg(test)]`. If a file declares
//! a module for tests only, all lines of that module's files are marked.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// One line of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The line without its comments, but with its strings.
    pub(crate) code: String,
    /// The strings of the line, including their quotes.
    pub(crate) text: String,
    /// The text of its comments, without the comment markers.
    pub(crate) comment: String,
    /// Number of characters.
    pub(crate) width: usize,
    /// Whether only tests compile it.
    pub(crate) is_test: bool,
}

impl Line {
    /// True if the line has code that the program compiles.
    pub(crate) fn is_program(&self) -> bool {
        !self.is_test && !self.code.trim().is_empty()
    }
}

/// One source file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Path from the root of the repository, with `/` between folders.
    pub(crate) path: String,
    pub(crate) lines: Vec<Line>,
}

impl Source {
    /// The lines with code that the program compiles, with their numbers from 1.
    pub(crate) fn program(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.lines.iter().enumerate().map(|(i, line)| (i + 1, line)).filter(|(_, line)| line.is_program())
    }
}

/// All Rust files of the repository, sorted by path.
pub(crate) fn sources(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut for_tests: Vec<PathBuf> = Vec::new();
    for path in files(root, "rs")? {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let (lines, modules) = lines(&text);
        let folder = folder_of_modules(&path);
        for_tests.extend(modules.iter().map(|module| folder.join(module)));
        let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        sources.push(Source { path, lines });
    }
    for source in &mut sources {
        let path = root.join(&source.path);
        let is_module = |module: &PathBuf| path.starts_with(module) || path == module.with_extension("rs");
        let is_target = ["/tests/", "/benches/", "/examples/"].iter().any(|part| source.path.contains(part));
        if is_target || for_tests.iter().any(is_module) {
            source.lines.iter_mut().for_each(|line| line.is_test = true);
        }
    }
    Ok(sources)
}

/// Files below `root` whose names end with `ending`, except in the folders of Git and Cargo.
pub(crate) fn files(root: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_symlink() || name == "target" || (name.starts_with('.') && path.is_dir()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Folder of the modules that the file at `path` declares.
fn folder_of_modules(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default();
    let folder = path.parent().unwrap_or(path);
    if ["lib", "main", "mod"].iter().any(|name| stem == *name) {
        folder.to_path_buf()
    } else {
        folder.join(stem)
    }
}

/// Returns the lines of a file and the modules that it declares for tests only.
pub(crate) fn lines(text: &str) -> (Vec<Line>, Vec<String>) {
    let mut lexer = Lexer { rest: text, lines: vec![Line::default()], depth: 0, test: None };
    let is_all_test = text.lines().any(|line| line.trim() == "#![cfg(test)]");
    while !lexer.rest.is_empty() {
        lexer.step();
    }
    let mut lines = lexer.lines;
    for (line, text) in lines.iter_mut().zip(text.lines()) {
        line.width = text.chars().count();
    }
    if text.ends_with('\n') {
        lines.pop();
    }
    if is_all_test {
        lines.iter_mut().for_each(|line| line.is_test = true);
    }
    let declared = |line: &Line| {
        let (_, module) = line.code.split_once("mod ")?;
        Some(module.trim().strip_suffix(';')?.to_owned()).filter(|_| line.is_test)
    };
    let modules = lines.iter().filter_map(declared).collect();
    (lines, modules)
}

/// State of a walk over the text of a file.
struct Lexer<'a> {
    rest: &'a str,
    lines: Vec<Line>,
    /// Number of open brackets, of any kind.
    depth: usize,
    test: Option<Item>,
}

/// An item under `#[cfg(test)]` that has not ended yet.
#[derive(Clone, Copy)]
struct Item {
    /// Number of open brackets before it.
    depth: usize,
    /// Whether its attributes have ended and its keyword was read.
    has_begun: bool,
    /// Whether a comma ends it, as for a field, a variant or an argument.
    ends_with_comma: bool,
}

/// Keywords that begin an item.
const ITEMS: &[&str] = &[
    "pub",
    "fn",
    "mod",
    "use",
    "struct",
    "enum",
    "impl",
    "const",
    "static",
    "trait",
    "type",
    "unsafe",
    "macro_rules!",
];

impl Lexer<'_> {
    /// Consumes the next token: a comment, a string, or a character.
    fn step(&mut self) {
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            return self.take(end, Kind::Comment);
        }
        if self.rest.starts_with("/*") {
            return self.take(block_comment(self.rest), Kind::Comment);
        }
        if let Some(length) = text_literal(self.rest, self.line().code.chars().next_back()) {
            return self.take(length, Kind::Text);
        }
        if let Some(length) = char_literal(self.rest) {
            return self.take(length, Kind::Text);
        }
        self.take_char();
    }

    fn line(&mut self) -> &mut Line {
        if self.lines.is_empty() {
            self.lines.push(Line::default());
        }
        let last = self.lines.len() - 1;
        &mut self.lines[last]
    }

    /// Consumes `length` bytes of a comment or string, whose brackets do not count.
    fn take(&mut self, length: usize, kind: Kind) {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        for (i, part) in taken.split('\n').enumerate() {
            if i > 0 {
                self.end_line();
            }
            match kind {
                Kind::Comment => {
                    let text = part.trim_start_matches(['/', '!', '*']);
                    self.line().comment.push_str(text.trim_end_matches("*/"));
                }
                Kind::Text => {
                    self.line().code.push_str(part);
                    self.line().text.push_str(part);
                }
            }
        }
    }

    fn end_line(&mut self) {
        let is_test = self.test.is_some();
        self.line().is_test |= is_test;
        self.lines.push(Line { is_test, ..Line::default() });
    }

    fn take_char(&mut self) {
        let Some(c) = self.rest.chars().next() else { return };
        if self.test.is_none()
            && (self.rest.starts_with("#[cfg(test)]") || self.rest.starts_with("#[cfg(all(test,"))
        {
            self.test = Some(Item { depth: self.depth, has_begun: false, ends_with_comma: false });
        }
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            return self.end_line();
        }
        if let Some(item) = &mut self.test
            && !item.has_begun
            && item.depth == self.depth
            && c.is_alphabetic()
        {
            item.has_begun = true;
            let word = |text: &str| {
                ITEMS.iter().any(|word| text.starts_with(&word[c.len_utf8()..]) && word.starts_with(c))
            };
            item.ends_with_comma = !word(self.rest);
        }
        match c {
            '(' | '[' | '{' => self.depth += 1,
            ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.line().code.push(c);
        let Some(item) = self.test else { return };
        let is_over = match c {
            _ if self.depth < item.depth => true,
            ';' | '}' => item.has_begun && self.depth == item.depth,
            ',' => item.ends_with_comma && self.depth == item.depth,
            _ => false,
        };
        if is_over {
            self.line().is_test = true;
            self.test = None;
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Comment,
    Text,
}

/// Length of the block comment that `text` begins with, including nested comments.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Length of the string literal that `text` begins with, raw or not; `before` is the preceding character.
fn text_literal(text: &str, before: Option<char>) -> Option<usize> {
    if text.starts_with('"') {
        let mut is_escaped = false;
        let end = text.bytes().skip(1).position(|byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        });
        return Some(end.map_or(text.len(), |end| end + 2));
    }
    let is_within_word = before.is_some_and(|c| c.is_alphanumeric() && c != 'b' && c != 'c' || c == '_');
    let rest = text.strip_prefix('r').filter(|_| !is_within_word)?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let body = rest[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close).map_or(body.len(), |end| end + close.len());
    Some(text.len() - body.len() + end)
}

/// Length of the character literal that `text` begins with; `None` for a lifetime.
fn char_literal(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let first = body.chars().next()?;
    if first == '\\' {
        let escaped = body.chars().nth(1)?;
        let from = 1 + escaped.len_utf8();
        return body[from..].find('\'').map(|end| 1 + from + end + 1);
    }
    body[first.len_utf8()..].starts_with('\'').then(|| 1 + first.len_utf8() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of the lines with code that the program compiles.
    fn program(text: &str) -> Vec<usize> {
        let source = Source { path: String::new(), lines: lines(text).0 };
        source.program().map(|(number, _)| number).collect()
    }

    #[test]
    fn blank_lines_and_comments_are_no_program() {
        assert_eq!(program("//! About.\n\nfn f() { // why\n    /* a\n    /* b */ */ g();\n}\n"), [3, 5, 6]);
    }

    #[test]
    fn what_looks_like_a_comment_within_a_string_is_code() {
        let (lines, _) = lines(
            "let a = \"// no \\\" comment\"; // one\nlet b = r#\"/* \" \"#; let c = '\"'; let d = b'\\'';\n",
        );
        assert_eq!(lines[0].code, "let a = \"// no \\\" comment\"; ");
        assert_eq!(lines[0].comment, " one");
        assert_eq!(lines[1].comment, "");
        assert!(lines[1].code.ends_with("b'\\'';"));
    }

    #[test]
    fn an_item_of_tests_ends_where_its_brackets_do() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(dead_code)]\nfn b(x: [u8; 4], y: u8) -> u8 {\n    { 1 }\n}\nfn c() {}\n\
                    #[cfg(test)]\nuse std::{a, b};\nfn d() {}\nstruct S {\n    #[cfg(test)]\n    of_tests: u8,\n    other: u8,\n}\n";
        assert_eq!(program(text), [1, 7, 10, 11, 14, 15]);
    }

    #[test]
    fn lifetimes_are_no_characters() {
        assert_eq!(
            program(
                "fn f<'a>(x: &'a str) -> &'a str { x } // '\n#[cfg(test)]\nmod t { const C: char = '}'; }\nfn g() {}\n"
            ),
            [1, 4]
        );
    }

    #[test]
    fn a_module_of_tests_is_named() {
        let (_, modules) = lines("#[cfg(test)]\npub(crate) mod tests;\nmod other;\n");
        assert_eq!(modules, ["tests"]);
    }
}
