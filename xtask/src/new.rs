//! `cargo xtask new format|tool|lens NAME`: writes the files of a new format, analysis or lens.
//!
//! They build, run and have tests, and are meant to be changed. The templates are in `xtask/templates`; CONTRIBUTING.md has
//! the guide.
//!
//! [`scratch`] tries a template in a copy of the repository, for the measure `family-files` and for the tests.

pub(crate) mod scratch;

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::Path;

/// Arguments of `new`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Kind of the new thing
    #[arg(value_enum)]
    what: What,
    /// Its name: small letters, digits, hyphens
    name: String,
    /// Its purpose, in a few words
    #[arg(long)]
    title: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum What {
    /// A family of formats: a crate, with a page, cases, and a line in the library's list
    Format,
    /// An analysis of traces of any format
    Tool,
    /// Columns with the same meaning in every format
    Lens,
}

/// Writes the files and prints their paths.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    for path in write(root, options.what, &options.name, &options.title)? {
        println!("{path}");
    }
    println!("then: cargo xtask docs");
    Ok(())
}

/// Keywords of Rust, which cannot name a module.
const KEYWORDS: &[&str] = &[
    "as", "async", "await", "box", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
    "false", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut",
    "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "unsafe",
    "use", "where", "while", "yield",
];

/// Writes the files and returns their paths relative to the root.
pub(crate) fn write(root: &Path, what: What, name: &str, title: &str) -> Result<Vec<String>> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    ensure!(
        name.bytes().all(is_letter) && name.starts_with(|c: char| c.is_ascii_lowercase()),
        "a name is made of small letters, digits and hyphens, and begins with a letter: `{name}`"
    );
    ensure!(
        !KEYWORDS.contains(&name),
        "`{name}` is a word of Rust, and no module can have that name: choose another"
    );
    let new = New { root, name, title, paths: Vec::new() };
    match what {
        What::Format => new.format(),
        What::Tool => new.tool(),
        What::Lens => new.lens(),
    }
}

/// A format, analysis or lens that is being added.
struct New<'a> {
    root: &'a Path,
    name: &'a str,
    title: &'a str,
    paths: Vec<String>,
}

impl New<'_> {
    fn format(mut self) -> Result<Vec<String>> {
        let (name, title, module) = (self.name, self.title, self.module());
        let krate = format!("crates/{name}");
        ensure!(!self.root.join(&krate).join("Cargo.toml").exists(), "there is a crate `{name}`");
        self.create(&format!("{krate}/Cargo.toml"), include_str!("../templates/format/Cargo.toml.txt"))?;
        self.create(&format!("{krate}/src/lib.rs"), include_str!("../templates/format/lib.rs.txt"))?;
        self.create(&format!("{krate}/tests/cases.rs"), include_str!("../templates/format/tests.rs.txt"))?;
        for (case, input, view, check) in CASES {
            let case = format!("{krate}/cases/{case}");
            self.create(&format!("{case}/input.{name}"), input)?;
            self.create(&format!("{case}/view.txt"), view)?;
            self.create(&format!("{case}/check.txt"), check)?;
        }
        self.create(&format!("docs/formats/{name}.md"), include_str!("../templates/format/page.md.txt"))?;
        self.edit("crates/quipu/Cargo.toml", |text| {
            let text = before(
                text,
                "quipu-model.",
                &format!("quipu-{name} = {{ path = \"../{name}\", optional = true }}\n"),
            )?;
            let text = before(&text, "stream = [", &format!("{name} = [\"dep:quipu-{name}\"]\n"))?;
            Some(text.replacen("\"stream\"]", &format!("\"{name}\", \"stream\"]"), 1))
        })?;
        let row = format!(
            "    /// {title}.\n    \"{name}\": {module} = quipu_{module} [{}];\n",
            module.to_uppercase()
        );
        self.edit("crates/quipu/src/lib.rs", |text| {
            before(text, "    /// Streams that describe themselves", &row)
        })?;
        self.changelog(&format!("Format `{name}`: {title}."))
    }

    fn tool(mut self) -> Result<Vec<String>> {
        let (name, title) = (self.name, self.title);
        let (module, kind) = (self.module(), self.kind());
        self.create(
            &format!("crates/passes/src/{module}/mod.rs"),
            include_str!("../templates/tool/mod.rs.txt"),
        )?;
        self.edit("crates/passes/src/lib.rs", |text| {
            // Inserted in alphabetical order, as the formatter wants it.
            let line = format!("pub mod {module};\n");
            let comes_after = |other: &&str| other.starts_with("pub mod ") && **other > *line.trim_end();
            let next = text.lines().find(comes_after).unwrap_or("pub mod working_set;");
            let text = before(text, next, &line)?;
            let list = text.find("pub const TOOLS")?;
            let end = list + text[list..].find("];")?;
            Some(format!("{}    &{module}::{kind},\n{}", &text[..end], &text[end..]))
        })?;
        self.changelog(&format!("Analysis `{name}`: {title}."))
    }

    fn lens(mut self) -> Result<Vec<String>> {
        let (module, kind, title) = (self.module(), self.kind(), self.title);
        self.edit("crates/model/src/lens.rs", |text| {
            let list = text.find("macro_rules! for_each_lens")?;
            let end = list + text[list..].find("        }\n    };\n}")?;
            let taken = text[list..end].split(" = ").filter_map(|rest| rest.split(' ').next()?.parse::<u32>().ok());
            // Each lens has eight bits.
            let bit = (taken.max()? / 8 + 1) * 8;
            let entry = format!(
                "            /// {title}.\n            {module}: {kind} {{\n                /// Rows of the {module} lens: {title}.\n                {} = {bit} \"{module}\" \"{title}\";\n            }}\n",
                module.to_uppercase()
            );
            let rows = format!(
                "\nrows! {{\n    /// {title}.\n    pub struct {kind}: \"{module}\" derived \"{title}.\", len value {{\n        at: Vec<u32> => \"Record index inside the batch.\";\n        value: Vec<u64> => \"The value.\";\n    }}\n}}\n"
            );
            Some(format!("{}{entry}{}{rows}", &text[..end], &text[end..]))
        })?;
        self.changelog(&format!("For programs that use the crates: lens `{module}`, {title}."))
    }

    /// The name in the form of a module name.
    fn module(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The name in the form of a type name.
    fn kind(&self) -> String {
        let word = |word: &str| word[..1.min(word.len())].to_uppercase() + word.get(1..).unwrap_or_default();
        self.name.split('-').map(word).collect()
    }

    fn create(&mut self, path: &str, template: &str) -> Result<()> {
        let words =
            [("CONSTANT", self.module().to_uppercase()), ("MODULE", self.module()), ("TYPE", self.kind())];
        let text = words.iter().fold(template.to_owned(), |text, (word, by)| text.replace(word, by));
        let text = text.replace("NAME", self.name).replace("TITLE", self.title);
        let whole = self.root.join(path);
        if whole.exists() {
            bail!("{path} is there already");
        }
        fs::create_dir_all(whole.parent().unwrap_or(self.root)).context("a folder")?;
        fs::write(&whole, text).with_context(|| path.to_owned())?;
        self.paths.push(path.to_owned());
        Ok(())
    }

    /// Edits a file. Fails if `change` returns `None`, because the file lacks the place to edit.
    fn edit(&mut self, path: &str, change: impl FnOnce(&str) -> Option<String>) -> Result<()> {
        let whole = self.root.join(path);
        let text = fs::read_to_string(&whole).with_context(|| path.to_owned())?;
        let text = change(&text).with_context(|| format!("{path} has no place for `{}`", self.name))?;
        fs::write(&whole, text).with_context(|| path.to_owned())?;
        self.paths.push(path.to_owned());
        Ok(())
    }

    fn changelog(mut self, line: &str) -> Result<Vec<String>> {
        self.edit("CHANGELOG.md", |text| {
            let at = text.find("### Added\n\n")? + "### Added\n\n".len();
            Some(format!("{}- {line}\n{}", &text[..at], &text[at..]))
        })?;
        Ok(self.paths)
    }
}

/// Inserts a line before the first line that begins with `place`.
fn before(text: &str, place: &str, line: &str) -> Option<String> {
    let at = text.find(&format!("\n{place}"))? + 1;
    Some(format!("{}{line}{}", &text[..at], &text[at..]))
}

/// Cases of a new format: name, input, expected output, expected messages.
const CASES: &[(&str, &str, &str, &str)] = &[
    (
        "sound",
        include_str!("../templates/format/sound.txt"),
        include_str!("../templates/format/sound.view.txt"),
        "",
    ),
    (
        "bad-line",
        include_str!("../templates/format/bad-line.txt"),
        include_str!("../templates/format/bad-line.view.txt"),
        "NAME/bad-line 1 0xa\n",
    ),
];

#[cfg(test)]
mod tests;
