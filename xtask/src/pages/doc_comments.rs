//! What the sources of tools say about themselves: the text at the top of each file, and the keys of its JSON.
//!
//! A tool's file begins with its name in backquotes and a colon. The first type named behind the word JSON has the keys;
//! types that its fields name are followed as long as they stand in the same folder. This reads the house style, not
//! Rust.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The manuals of all tools.
#[derive(Default)]
pub(super) struct SourceDocs {
    manuals: Vec<Manual>,
}

/// What one file says.
pub(super) struct Manual {
    name: String,
    /// The text, as Markdown.
    pub(super) text: String,
    /// The types of the JSON form, the outermost first.
    pub(super) json: Vec<Keys>,
}

/// The keys of one type.
#[derive(Debug, PartialEq)]
pub(super) struct Keys {
    pub(super) name: String,
    /// What the type is.
    pub(super) doc: Option<String>,
    pub(super) fields: Vec<Field>,
}

/// One key.
#[derive(Debug, PartialEq)]
pub(super) struct Field {
    /// `None` if the keys of the type behind stand here themselves.
    pub(super) key: Option<String>,
    /// The type, as in the source; with `as hex` or the like behind it where it is written in a way of its own.
    of: String,
    /// Its meaning.
    pub(super) doc: String,
}

impl Field {
    /// What stands in the JSON, in words.
    pub(super) fn kind(&self) -> String {
        match self.of.split_once(" as ") {
            Some((_, "hex")) => "text, hexadecimal".to_owned(),
            Some((_, "thread::numbers")) => "list: number or text".to_owned(),
            Some((_, way)) => format!("text, {way}"),
            None => in_words(&self.of),
        }
    }
}

/// A type of the source as people call it who read JSON.
fn in_words(of: &str) -> String {
    let inside = |outer: &str| of.strip_prefix(outer).and_then(|rest| rest.strip_suffix('>'));
    if let Some(item) = inside("Vec<").or(inside("BTreeSet<")) {
        return format!("list: {}", in_words(item));
    }
    if let Some(value) = inside("Option<") {
        return format!("{} or null", in_words(value));
    }
    match of {
        "u8" | "u16" | "u32" | "u64" | "f64" => "number".to_owned(),
        "String" | "&'static str" => "text".to_owned(),
        "bool" => "true or false".to_owned(),
        other => format!("`{other}`"),
    }
}

impl SourceDocs {
    /// Adds the manuals of all files in `folder` and below; a folder that is not there has none.
    pub(super) fn read_folder(&mut self, folder: &Path) -> Result<()> {
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
        let folder = sources.concat();
        self.manuals.extend(sources.iter().filter_map(|source| manual(source, &folder)));
        Ok(())
    }

    /// The manual of the tool called `name`.
    pub(super) fn of(&self, name: &str) -> Option<&Manual> {
        self.manuals.iter().find(|manual| manual.name == name)
    }
}

/// The manual in one file, if its first line begins one; the types it names stand in `folder`.
fn manual(source: &str, folder: &str) -> Option<Manual> {
    let lines: Vec<&str> = source.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let (name, first) = lines.first()?.trim().strip_prefix('`')?.split_once("`: ")?;
    let mut text = capitalise(first);
    for line in &lines[1..] {
        text.push('\n');
        text.push_str(line.strip_prefix(' ').unwrap_or(line));
    }
    let mut json = Vec::new();
    if let Some((_, behind)) = text.split_once("JSON")
        && let Some((_, behind)) = behind.split_once("[`")
        && let Some((outermost, _)) = behind.split_once('`')
    {
        collect_keys(folder, outermost, &mut json);
    }
    Some(Manual { name: name.to_owned(), text: without_links(&text), json })
}

/// Adds the keys of the type called `name`, and of the types that it names.
fn collect_keys(source: &str, name: &str, json: &mut Vec<Keys>) {
    if json.iter().any(|keys| keys.name == name) {
        return;
    }
    let Some(keys) = keys_of(source, name) else { return };
    let inner: Vec<String> = keys.fields.iter().flat_map(|field| type_names(&field.of)).collect();
    json.push(keys);
    for name in inner {
        collect_keys(source, &name, json);
    }
}

/// The meaning of the key that stands beside a thread.
const WORKLOAD: &str = "Which of several traces the thread belongs to; left out for the first.";

/// The fields of `pub struct name`, if this file has it.
fn keys_of(source: &str, name: &str) -> Option<Keys> {
    let mut above = Vec::new();
    let mut lines = source.lines().map(str::trim);
    loop {
        let line = lines.next()?;
        let declared = line.strip_prefix("pub struct ").and_then(|rest| rest.strip_prefix(name));
        if declared.is_some_and(|rest| rest.starts_with([' ', '<'])) {
            break;
        }
        gather(line, &mut above);
    }
    let (doc, _) = join(&mut above);
    let mut fields = Vec::new();
    for line in lines.take_while(|line| *line != "}") {
        let declared = line.strip_prefix("pub ").and_then(|rest| rest.trim_end_matches(',').split_once(": "));
        let Some((key, of)) = declared else {
            gather(line, &mut above);
            continue;
        };
        let (doc, attributes) = join(&mut above);
        if attributes.contains("skip)") {
            continue;
        }
        if attributes.contains("flatten")
            && let Some(of) = of.contains("ThreadId").then(|| of.replace("ThreadId", "u64"))
        {
            // The type of another crate, which all tools share.
            fields.push(Field {
                key: Some("thread".to_owned()),
                of: of.clone(),
                doc: doc.unwrap_or_default(),
            });
            fields.push(Field { key: Some("workload".to_owned()), of, doc: WORKLOAD.to_owned() });
            continue;
        }
        let key = (!attributes.contains("flatten")).then(|| key.to_owned());
        let way = attributes.split_once("serialize_with = \"").and_then(|(_, rest)| rest.split_once('"'));
        let of = way.map_or_else(|| of.to_owned(), |(way, _)| format!("{of} as {way}"));
        fields.push(Field { key, of, doc: doc.unwrap_or_default() });
    }
    Some(Keys { name: name.to_owned(), doc, fields })
}

/// Keeps doc comments and attributes for the item below them; anything else ends them.
fn gather<'a>(line: &'a str, above: &mut Vec<&'a str>) {
    if line.starts_with("///") || line.starts_with("#[") {
        above.push(line);
    } else {
        above.clear();
    }
}

/// The doc comment on one line, and the attributes.
fn join(above: &mut Vec<&str>) -> (Option<String>, String) {
    let doc: Vec<&str> = above.iter().filter_map(|line| line.strip_prefix("///")).map(str::trim).collect();
    let attributes = above.iter().filter(|line| line.starts_with("#[")).copied().collect();
    above.clear();
    let doc = without_links(&doc.join(" "));
    // Keys are listed one by one: a sentence that lists them again is for readers of the source.
    let doc = doc.split_once("JSON: ").map_or(doc.as_str(), |(before, _)| before).trim();
    ((!doc.is_empty()).then(|| doc.to_owned()), attributes)
}

/// The names of types in a type: `Vec<Side>` has `Vec` and `Side`.
fn type_names(of: &str) -> Vec<String> {
    let words = of.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with(char::is_uppercase)).map(str::to_owned).collect()
}

/// Links into the code's documentation lead nowhere on a page: only their words stay.
fn without_links(text: &str) -> String {
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

fn capitalise(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
//! `demo`: how often.
//!
//! Like [`other`](crate::other).
//! * **JSON** [`Answer`], and more.

/// All of it.
///
/// JSON: `count` and more.
#[derive(Serialize)]
pub struct Answer {
    /// How many.
    pub count: u64,
    /// Each [`Side`].
    pub sides: Vec<Side>,
    #[serde(flatten)]
    pub total: Side,
    /// Whose.
    #[serde(flatten)]
    pub thread: Option<ThreadId>,
    #[serde(skip)]
    pub hidden: u8,
}

/// A side.
pub struct Side {
    /// A number
    /// on two lines.
    pub n: u64,
}
";

    fn field(key: Option<&str>, of: &str, doc: &str) -> Field {
        Field { key: key.map(str::to_owned), of: of.to_owned(), doc: doc.to_owned() }
    }

    #[test]
    fn a_file_gives_its_text_and_its_keys() {
        let manual = manual(SOURCE, SOURCE).unwrap();
        assert_eq!(manual.name, "demo");
        assert_eq!(manual.text, "How often.\n\nLike `other`.\n* **JSON** `Answer`, and more.");
        let answer = [
            field(Some("count"), "u64", "How many."),
            field(Some("sides"), "Vec<Side>", "Each `Side`."),
            field(None, "Side", ""),
            field(Some("thread"), "Option<u64>", "Whose."),
            field(Some("workload"), "Option<u64>", WORKLOAD),
        ];
        let side = [field(Some("n"), "u64", "A number on two lines.")];
        assert_eq!(
            manual.json,
            [
                Keys { name: "Answer".into(), doc: Some("All of it.".into()), fields: answer.into() },
                Keys { name: "Side".into(), doc: Some("A side.".into()), fields: side.into() },
            ]
        );
    }

    #[test]
    fn types_are_told_in_words() {
        let kind = |of: &str| field(None, of, "").kind();
        assert_eq!(kind("Vec<Option<u64>>"), "list: number or null");
        assert_eq!(kind("Side"), "`Side`");
        assert_eq!(kind("u64 as hex"), "text, hexadecimal");
    }

    #[test]
    fn a_file_that_begins_otherwise_has_no_manual() {
        assert!(manual("//! Adds numbers.\n", "").is_none());
    }
}
