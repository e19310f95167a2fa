//! `quipu formats`: which trace formats can be read.

use quipu::model::Format;
use quipu::model::OptionSpec;
use quipu::model::doc::{Block, Cell, Document, Grid};
use quipu::model::result;
use quipu::model::transform::TransformInfo;
use quipu_console::parts::CsvOption;
use quipu_console::screen::{Outcome, Result, Screen};

/// List the supported trace formats
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, mut_arg("csv", |csv| csv.help(CSV_HELP)))]
pub(crate) struct Options {
    /// Print JSON: a list of objects
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: CsvOption,
}

const CSV_HELP: &str = "Print comma-separated values: a line for each format, or the rows of TABLE, such as `quipu.formats.settings`";

const AFTER_HELP: &str = "\
The format is detected from the content of a trace, not from its name. Verbs that read traces take
`--format NAME` to override that.

Examples:
  quipu formats
  quipu formats --json
  quipu formats --columns name,title

Exit codes:
  0  done";

/// The name that tables of what this program has begin with: `quipu.formats`, `quipu.tools.options`.
pub(super) const OWN: &str = "quipu";

result! {
    /// All formats.
    struct All {
        formats: Vec<Described> => "The formats.";
    }
}

result! {
    /// A format.
    struct Described {
        name: &'static str, key => "Name of the format.";
        title: &'static str => "What its traces are.";
        extensions: Vec<&'static str> => "Usual endings of names of files.";
        abilities: Vec<&'static str> => "The operations that it supports.";
        settings: Vec<Setting> => "Options for opening a trace.";
        print_settings: Vec<Setting> => "Options for printing records.";
        import_settings: Vec<Setting> => "Options for writing records of other formats.";
        edits: Vec<Edit> => "Operations on whole traces.";
    }
}

result! {
    /// A transform of a format.
    struct Edit {
        name: &'static str, key => "Name of the verb.";
        title: &'static str => "What it makes.";
        settings: Vec<Setting> => "Its options.";
    }
}

impl Described {
    fn of(format: &dyn Format) -> Described {
        let info = format.info();
        let edit =
            |of: &TransformInfo| Edit { name: of.name, title: of.title, settings: settings(of.options) };
        Described {
            name: info.name,
            title: info.title,
            extensions: info.extensions.to_vec(),
            abilities: abilities(format),
            settings: settings(info.options),
            print_settings: settings(info.print_options),
            import_settings: settings(import_options(format)),
            edits: edits(format).map(edit).collect(),
        }
    }
}

pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    let all = || All { formats: quipu::FORMATS.iter().map(|format| Described::of(*format)).collect() };
    if options.json {
        screen.json(&result::json(&all().formats))?;
        return Ok(Outcome::Fine);
    }
    if let Some(text) = options.csv.text("quipu.formats", || result::tables(OWN, &all()))? {
        screen.text(&text)?;
        return Ok(Outcome::Fine);
    }
    let documents: Vec<Document> = quipu::FORMATS
        .iter()
        .map(|format| {
            let info = format.info();
            let facts = vec![
                ("can".to_owned(), vec![Cell::Text(abilities(*format).join(", "))]),
                ("files".to_owned(), vec![Cell::Text(info.extensions.join(", "))]),
                ("described in".to_owned(), vec![Cell::Text(info.doc.to_owned())]),
            ];
            let document = Document::new(format!("{}: {}", info.name, info.title)).with(Block::Facts(facts));
            let document = with_options(document, "options (--open KEY=VALUE)", info.options);
            let document =
                with_options(document, "options of `quipu view` (--KEY=VALUE)", info.print_options);
            let of_import = format!("options of `quipu convert --to {}` (--set KEY=VALUE)", info.name);
            let document = with_options(document, &of_import, import_options(*format));
            with_edits(document, *format)
        })
        .collect();
    screen.documents(&documents)?;
    Ok(Outcome::Fine)
}

/// The operations that a format supports, mostly names of verbs.
fn abilities(format: &dyn Format) -> Vec<&'static str> {
    let mut all = vec!["read", "view", "analyze"];
    all.extend(format.tools().iter().map(|tool| tool.info().name).filter(|name| *name == "check"));
    all.extend(edits(format).map(|edit| edit.name));
    // The format can be written from records of other formats.
    all.extend(format.record_writer().map(|_| "import"));
    all
}

/// Options for importing records of other formats.
fn import_options(format: &dyn Format) -> &'static [OptionSpec] {
    format.record_writer().map_or(&[], |writer| writer.info().options)
}

/// The format's own operations on traces: transforms, and the comparison of two.
fn edits(format: &dyn Format) -> impl Iterator<Item = &'static TransformInfo> {
    let edits = format.transforms().iter().map(|edit| edit.info());
    edits.chain(format.comparison().map(|comparison| comparison.info()))
}

/// Appends a table of transforms, if there are any.
fn with_edits(document: Document, format: &dyn Format) -> Document {
    let rows: Vec<Vec<Cell>> = edits(format).map(|info| vec![info.name.into(), info.title.into()]).collect();
    if rows.is_empty() {
        return document;
    }
    let head = ["verb", "what it makes"].map(str::to_owned).to_vec();
    document.with(Block::Grid(Grid { title: "edits".to_owned(), head, rows, more: 0 }))
}

/// Appends a table of options, if there are any.
pub(super) fn with_options(document: Document, title: &str, options: &[OptionSpec]) -> Document {
    if options.is_empty() {
        return document;
    }
    let rows = options.iter().map(|option| {
        let key = if option.value.is_empty() {
            option.name.to_owned()
        } else {
            format!("{}={}", option.name, option.value)
        };
        vec![key.into(), option.default.into(), option.doc.into()]
    });
    document.with(Block::Grid(Grid {
        title: title.to_owned(),
        head: ["key", "default", "meaning"].map(str::to_owned).into(),
        rows: rows.collect(),
        more: 0,
    }))
}

result! {
    /// An option.
    pub(super) struct Setting {
        name: &'static str => "Name of the option.";
        value: &'static str => "Placeholder for its value; empty for a flag.";
        default: &'static str => "The default.";
        doc: &'static str => "What it does.";
    }
}

/// Options as JSON.
pub(super) fn settings(options: &[OptionSpec]) -> Vec<Setting> {
    let setting =
        |of: &OptionSpec| Setting { name: of.name, value: of.value, default: of.default, doc: of.doc };
    options.iter().map(setting).collect()
}
