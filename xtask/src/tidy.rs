//! Rules of the house that a test can check: the form of comments and pages, what they may link to, and the words they use.
//!
//! A rule returns the places that break it. `docs/house.md` says how many are allowed, and [`crate::house::page`] only ever
//! lowers that number. Anything that the compiler or the formatter can check is left to them.

mod keys;
mod pages;
mod tests_named;

use crate::house::measures::{Tree, has_word};
use anyhow::Result;

/// Maximum width of a comment, in columns.
const MAX_COMMENT: usize = 130;

/// A rule that holds in the whole repository.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    check: Check,
}

/// How a rule finds the places that break it.
enum Check {
    By(fn(&Tree) -> Result<Vec<String>>),
    /// No comment, page or text that a program prints contains this word or phrase.
    Word(&'static str),
}

impl Rule {
    /// Returns the places that break the rule, one line each.
    pub(crate) fn broken(&self, tree: &Tree) -> Result<Vec<String>> {
        match self.check {
            Check::By(find) => find(tree),
            Check::Word(word) => uses_of(tree, word),
        }
    }
}

const fn rule(name: &'static str, what: &'static str, check: Check) -> Rule {
    Rule { name, what, check }
}

/// All rules, in the order of the page.
pub(crate) const RULES: &[Rule] = &[
    rule("width", "a comment has at most 130 columns", Check::By(wide_comments)),
    rule("first-lines", "a source file begins with `//!`: what it is about", Check::By(no_first_lines)),
    rule(
        "spec",
        "`SPEC:` names a page of `docs/formats`, with the heading (`drmemtrace.md#chunks`), or an RFC",
        Check::By(spec_pointers),
    ),
    rule(
        "links",
        "a link of a page leads to a file and a heading that exist",
        Check::By(pages::broken_links),
    ),
    rule("index", "`docs/README.md` lists every page", Check::By(pages::missing_in_index)),
    rule(
        "formats",
        "each format has its page, and samples: a folder of traces or cases in its crate",
        Check::By(pages::missing_formats),
    ),
    rule(
        "tests-named",
        "each invariant of `ARCHITECTURE.md` and each decision names what holds it: tests that exist, or a lint",
        Check::By(tests_named::missing),
    ),
    rule(
        "unsafe-files",
        "`unsafe` stands in three files of `source`, where programs are recorded, and where tools are loaded",
        Check::By(|tree| Ok(lines_outside(tree, UNSAFE_PLACES, is_unsafe))),
    ),
    rule(
        "thread-files",
        "threads are started by the engine, and in the few other places that `ARCHITECTURE.md` names",
        Check::By(|tree| Ok(lines_outside(tree, THREAD_PLACES, starts_thread))),
    ),
    rule("keys", "the keys that a tool prints are those that `docs/tools.md` lists", Check::By(keys::wrong)),
    rule("word-what-is-no", "*what is no …*: say which thing it is", Check::Word("what is no")),
    rule("word-whoever", "*whoever*: name the actor", Check::Word("whoever")),
    rule("word-nobody", "*nobody*: name the actor", Check::Word("nobody")),
    rule("word-somebody", "*somebody*: name the actor", Check::Word("somebody")),
    rule("word-so-many", "*so many*: *N*, *this many*", Check::Word("so many")),
    rule("word-is-told", "*is told*: *gets*, *is given*", Check::Word("is told")),
    rule("word-behind", "*behind*: *after*, unless one thing hides another", Check::Word("behind")),
    rule(
        "word-of-which",
        "*of which*, but for *each of which* and other words that count: two sentences",
        Check::Word("of which"),
    ),
    rule("word-first-met", "*first met*: *compulsory*", Check::Word("first met")),
    rule("word-too-few-ways", "*too few ways*: *conflict*", Check::Word("too few ways")),
    rule("word-gives-way", "*gives way* (of a line of a cache): *is evicted*", Check::Word("gives way")),
    rule("word-fate", "*fate*: *outcome*", Check::Word("fate")),
    rule("word-who-watches", "*who watches*: *the caller*, *receives progress*", Check::Word("who watches")),
    rule("word-goes-on", "*goes on*: *continues*", Check::Word("goes on")),
    rule("word-at-hand", "*at hand*: *available*, *buffered*", Check::Word("at hand")),
    rule("word-the-original", "*the original*: the name of the program", Check::Word("the original")),
];

/// Places where `unsafe` is allowed.
const UNSAFE_PLACES: &[&str] = &[
    "crates/source/src/map.rs",
    "crates/source/src/fault.rs",
    "crates/source/src/output.rs",
    "crates/annotate/",
    "crates/capture/",
    "crates/hooks/",
    "crates/prism-c/",
    "crates/python/src/capsule.rs",
    "crates/qemu-plugin/",
    "crates/ring/",
    "crates/runtime/",
    "crates/dtrace-c/",
    "crates/stream-c/",
];

/// Places where code may start threads.
const THREAD_PLACES: &[&str] = &[
    "crates/engine/",
    "crates/source/",
    "crates/symbols/src/dwarf/units.rs",
    "crates/drmemtrace/src/write/",
    "crates/capture/",
    "crates/console/src/session.rs",
    "crates/network/src/collect.rs",
    "crates/prism/src/observed.rs",
    "crates/python/src/rows.rs",
    "crates/python/src/watch.rs",
    "crates/testkit/",
];

fn is_unsafe(code: &str) -> bool {
    ["unsafe {", "unsafe fn ", "unsafe impl ", "unsafe extern "].iter().any(|form| code.contains(form))
}

fn starts_thread(code: &str) -> bool {
    ["thread::spawn(", "thread::scope(", "thread::Builder::"].iter().any(|form| code.contains(form))
}

/// Lines of the crates' program code that `is_meant` matches outside the `allowed` places.
fn lines_outside(tree: &Tree, allowed: &[&str], is_meant: fn(&str) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    for source in
        tree.of_crates().filter(|source| !allowed.iter().any(|place| source.path.starts_with(place)))
    {
        for (number, line) in source.program().filter(|(_, line)| is_meant(&line.code)) {
            lines.push(format!("{}:{number}: {}", source.path, line.code.trim()));
        }
    }
    lines
}

/// Comments wider than [`MAX_COMMENT`].
fn wide_comments(tree: &Tree) -> Result<Vec<String>> {
    let mut wide = Vec::new();
    for source in &tree.sources {
        for (i, line) in source.lines.iter().enumerate() {
            // A row of a table must be on one line.
            let is_row = line.comment.trim_start().starts_with('|');
            if line.width > MAX_COMMENT && line.code.trim().is_empty() && !is_row {
                wide.push(format!("{}:{}: {} columns", source.path, i + 1, line.width));
            }
        }
    }
    Ok(wide)
}

/// Files that do not begin with a `//!` comment.
fn no_first_lines(tree: &Tree) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for source in &tree.sources {
        let path = tree.root.join(&source.path);
        if !std::fs::read_to_string(path)?.starts_with("//!") {
            files.push(source.path.clone());
        }
    }
    Ok(files)
}

/// `SPEC:` pointers whose target does not exist.
fn spec_pointers(tree: &Tree) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for source in &tree.sources {
        for (i, line) in source.lines.iter().enumerate() {
            for (at, mark) in line.comment.match_indices("SPEC: ") {
                for target in targets(&line.comment[at + mark.len()..]) {
                    if let Some(reason) = no_spec(tree, target) {
                        broken.push(format!("{}:{}: {reason}", source.path, i + 1));
                    }
                }
            }
            if line.comment.ends_with("SPEC:") {
                broken.push(format!("{}:{}: what it points at stands on another line", source.path, i + 1));
            }
        }
    }
    Ok(broken)
}

/// Targets of a `SPEC:` pointer: pages separated by commas or *and*. There is at least one.
fn targets(text: &str) -> Vec<&str> {
    let text = text.trim_start();
    if text.starts_with("RFC ") {
        return vec!["RFC"];
    }
    let mut targets = Vec::new();
    for word in text.split_whitespace().filter(|word| *word != "and") {
        if !targets.is_empty() && !word.contains(".md") {
            break;
        }
        let target = word.trim_end_matches(['.', ',', ')', ';', ':', '`']);
        targets.push(target);
        if target.len() < word.len() && !word.ends_with(',') {
            break;
        }
    }
    targets
}

/// Reason why a `SPEC:` pointer has no target; `None` if it has one.
fn no_spec(tree: &Tree, target: &str) -> Option<String> {
    if target == "RFC" {
        return None;
    }
    if !target.contains(".md") {
        return Some(format!("`SPEC: {target}` names no page of `docs/formats`"));
    }
    pages::missing(&tree.root, "docs/formats", target)
}

/// Words before *of which* that count the things meant.
const COUNTING: &[&str] = &["each", "some", "one", "two", "most", "first", "last", "all", "none", "both"];

/// True if a text uses a word or phrase. The phrase *of which* is allowed where a counting word precedes it: *each of which*.
fn is_used(text: &str, word: &str) -> bool {
    if word != "of which" {
        return has_word(text, word);
    }
    let counts =
        |before: &str| before.split_whitespace().next_back().is_some_and(|last| COUNTING.contains(&last));
    text.match_indices(word).any(|(at, _)| has_word(&text[at..], word) && !counts(&text[..at]))
}

/// Comments, strings of programs and pages that use a word.
fn uses_of(tree: &Tree, word: &str) -> Result<Vec<String>> {
    let mut uses = Vec::new();
    let has = |text: &str| is_used(&text.to_lowercase(), word);
    for source in tree.sources.iter().filter(|source| !source.path.starts_with("xtask/src/tidy")) {
        for (i, line) in source.lines.iter().enumerate().filter(|(_, line)| has(&line.comment)) {
            uses.push(format!("{}:{}: {}", source.path, i + 1, line.comment.trim()));
        }
        for (number, line) in source.program().filter(|(_, line)| has(&line.text)) {
            uses.push(format!("{}:{number}: {}", source.path, line.text));
        }
    }
    for (path, text) in tree.texts(&["md"])?.iter().filter(|(path, _)| pages::is_prose(path)) {
        for (number, line) in pages::prose(text).into_iter().filter(|(_, line)| has(line)) {
            uses.push(format!("{path}:{number}: {line}"));
        }
    }
    Ok(uses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rule_is_broken_more_often_than_its_page_allows() {
        let tree = Tree::read(&crate::root()).unwrap();
        let numbers = crate::house::stored(&tree.root).unwrap();
        let mut broken = String::new();
        for rule in RULES {
            let places = rule.broken(&tree).unwrap();
            let allowed = numbers.of(rule.name).unwrap_or_default();
            if places.len() as u64 > allowed {
                broken += &format!(
                    "\n{}: {}\n  {} places, allowed are {allowed}; `cargo xtask house {}` lists them, of which the last are\n",
                    rule.name,
                    rule.what,
                    places.len(),
                    rule.name
                );
                for place in places.iter().rev().take(10) {
                    broken += &format!("    {place}\n");
                }
            }
        }
        assert!(broken.is_empty(), "{broken}");
    }

    #[test]
    fn of_which_may_follow_a_word_that_counts() {
        assert!(!is_used("rows of bytes, each of which belongs to a part", "of which"));
        assert!(!is_used("the tables, the first of which is called so", "of which"));
        assert!(is_used("a branch of which nobody knows where it went", "of which"));
        assert!(is_used("a file, one of which is bad, of which nothing is left", "of which"));
        assert!(is_used("what goes on here", "goes on"));
    }

    #[test]
    fn pointers_name_pages_and_what_follows_is_text() {
        assert_eq!(targets("drmemtrace.md#chunks."), ["drmemtrace.md#chunks"]);
        assert_eq!(
            targets("drmemtrace.md#chunks, drmemtrace.md#view; more text"),
            ["drmemtrace.md#chunks", "drmemtrace.md#view"]
        );
        assert_eq!(targets("drmemtrace.md and cacheray.md say"), ["drmemtrace.md", "cacheray.md"]);
        assert_eq!(targets("15.4, 15.5."), ["15.4"]);
        assert_eq!(targets("RFC 1951."), ["RFC"]);
    }
}
