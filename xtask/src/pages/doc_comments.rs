//! What the sources of tools say about themselves: the text at the top of each file, and the keys of its JSON.
//!
//! A tool's file begins with its name in backquotes and a colon. The first type named after the word JSON has the keys;
//! types that its fields name are followed as long as they stand in the same folder. This reads the house style, not
//! Rust.
//!
//! Where the fields of a type are not its keys, its comment lists them, one on each line:
//!
//! ```text
//! /// Keys of JSON:
//! /// * `records` (`u64`): Records read.
//! /// * `lost` (`Vec<u64>`, perhaps): Bytes lost; only where some are.
//! ```

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The manuals of all tools.
#[derive(Default)]
pub(crate) struct SourceDocs {
    manuals: Vec<Manual>,
}

/// What one file says.
pub(crate) struct Manual {
    name: String,
    /// The text, as Markdown.
    pub(crate) text: String,
    /// The types of the JSON form, the outermost first.
    pub(crate) json: Vec<Keys>,
}

/// The keys of one type.
#[derive(Debug, PartialEq)]
pub(crate) struct Keys {
    pub(crate) name: String,
    /// What the type is.
    pub(crate) doc: Option<String>,
    pub(crate) fields: Vec<Field>,
}

/// One key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// `None` if the keys of the type behind stand here themselves.
    pub(crate) key: Option<String>,
    /// The type, as in the source; with `as hex` or the like after it where it is written in a way of its own.
    pub(crate) of: String,
    /// Its meaning.
    pub(crate) doc: String,
    /// Whether it is left out where it has nothing to say.
    pub(crate) is_optional: bool,
}

/// The keys that a result has beside its own, if the manual names the wrapper that adds them.
const WRAPPERS: &[(&str, &str, &str)] = &[
    (
        "PerShard",
        "shards",
        "Each shard, if there are several: `shard` (its number), `thread` or `core`, and the same keys.",
    ),
    (
        "PerThread",
        "threads",
        "With `per-thread`, each thread: `thread`, perhaps `workload`, and the same keys.",
    ),
];

impl Field {
    /// The types that stand within it, unless it is written in a way of its own.
    pub(crate) fn inner(&self) -> Vec<String> {
        if self.of.contains(" as ") { Vec::new() } else { type_names(&self.of) }
    }

    /// What stands in the JSON, in words.
    pub(crate) fn kind(&self) -> String {
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
        "object" => "object".to_owned(),
        other => format!("`{other}`"),
    }
}

impl SourceDocs {
    /// Adds the manuals of all files in `folder` and below; a folder that is not there has none.
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
        let folder = sources.concat();
        self.manuals.extend(sources.iter().filter_map(|source| manual(source, &folder)));
        Ok(())
    }

    /// The manual of the tool called `name`.
    pub(crate) fn of(&self, name: &str) -> Option<&Manual> {
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
        let sentence = behind.split("\n\n").next().unwrap_or_default();
        for (_, key, doc) in
            WRAPPERS.iter().filter(|(wrapper, ..)| sentence.contains(&format!("[`{wrapper}`]")))
        {
            let of = "Vec<object>".to_owned();
            let field = Field { key: Some((*key).to_owned()), of, doc: (*doc).to_owned(), is_optional: true };
            json.iter_mut().take(1).for_each(|keys| keys.fields.push(field.clone()));
        }
    }
    Some(Manual { name: name.to_owned(), text: with_pages(&without_links(&text)), json })
}

/// Adds the keys of the type called `name`, and of the types that it names.
fn collect_keys(source: &str, name: &str, json: &mut Vec<Keys>) {
    if json.iter().any(|keys| keys.name == name) {
        return;
    }
    let Some(keys) = keys_of(source, name) else { return };
    let inner: Vec<String> = keys.fields.iter().flat_map(|field| field.inner()).collect();
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
    let listed = listed(&above);
    let (doc, _) = join(&mut above);
    if !listed.is_empty() {
        return Some(Keys { name: name.to_owned(), doc, fields: listed });
    }
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
                is_optional: of.starts_with("Option"),
            });
            let (key, doc) = (Some("workload".to_owned()), WORKLOAD.to_owned());
            fields.push(Field { key, of, doc, is_optional: true });
            continue;
        }
        let renamed = attributes.split_once("rename = \"").and_then(|(_, rest)| rest.split_once('"'));
        let key = renamed.map_or(key.trim_start_matches("r#"), |(key, _)| key);
        let key = (!attributes.contains("flatten")).then(|| key.to_owned());
        let is_optional = attributes.contains("skip_serializing_if");
        let way = attributes.split_once("serialize_with = \"").and_then(|(_, rest)| rest.split_once('"'));
        let of = way.map_or_else(|| of.to_owned(), |(way, _)| format!("{of} as {way}"));
        fields.push(Field { key, of, doc: doc.unwrap_or_default(), is_optional });
    }
    Some(Keys { name: name.to_owned(), doc, fields })
}

/// The line that begins a list of keys.
const LISTED: &str = "Keys of JSON:";

/// The keys that a doc comment lists itself.
fn listed(above: &[&str]) -> Vec<Field> {
    let lines = above.iter().filter_map(|line| line.strip_prefix("///")).map(str::trim);
    let mut fields: Vec<Field> = Vec::new();
    for line in lines.skip_while(|line| *line != LISTED).skip(1) {
        if let Some((key, rest)) = line.strip_prefix("* `").and_then(|rest| rest.split_once("` ("))
            && let Some((of, doc)) = rest.split_once("): ")
        {
            let (of, is_optional) = of.strip_suffix(", perhaps").map_or((of, false), |of| (of, true));
            let (of, doc) = (of.trim_matches('`').to_owned(), without_links(doc));
            fields.push(Field { key: Some(key.to_owned()), of, doc, is_optional });
        } else if let Some(field) = fields.last_mut() {
            field.doc = format!("{} {line}", field.doc);
        }
    }
    fields
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
    let doc = doc.split_once(LISTED).map_or(doc.as_str(), |(before, _)| before);
    let doc = doc.split_once("JSON: ").map_or(doc, |(before, _)| before).trim();
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

/// Pointers at pages of formats as links: `SPEC: drmemtrace.md#chunks` leads there from the page of tools.
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
        Field { key: key.map(str::to_owned), of: of.to_owned(), doc: doc.to_owned(), is_optional: false }
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
            Field { is_optional: true, ..field(Some("thread"), "Option<u64>", "Whose.") },
            Field { is_optional: true, ..field(Some("workload"), "Option<u64>", WORKLOAD) },
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
    fn keys_that_are_no_fields_are_listed_in_the_comment() {
        let source = "/// All.\n///\n/// Keys of JSON:\n/// * `records` (`u64`): Records\n///   read.\n/// * `lost` (`u64`, perhaps): Bytes.\n\
                      pub struct Report {\n    pub hidden: u8,\n}\n";
        let keys = keys_of(source, "Report").unwrap();
        assert_eq!(keys.doc.as_deref(), Some("All."));
        let lost = Field { is_optional: true, ..field(Some("lost"), "u64", "Bytes.") };
        assert_eq!(keys.fields, [field(Some("records"), "u64", "Records read."), lost]);
    }

    #[test]
    fn keys_have_the_names_that_are_written_and_those_of_wrappers() {
        let source = "//! `demo`: how often.\n//!\n//! * **JSON** [`Answer`], with `shards` as [`PerShard`](crate::PerShard) says.\n\
                      pub struct Answer {\n    #[serde(rename = \"type\", skip_serializing_if = \"Option::is_none\")]\n    pub of: Option<u64>,\n}\n";
        let manual = manual(source, source).unwrap();
        let keys: Vec<(&str, bool)> = manual.json[0]
            .fields
            .iter()
            .map(|field| (field.key.as_deref().unwrap(), field.is_optional))
            .collect();
        assert_eq!(keys, [("type", true), ("shards", true)]);
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
