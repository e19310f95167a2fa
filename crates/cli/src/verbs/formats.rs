//! `quipu formats`: which trace formats can be read.

use quipu::model::Format;
use quipu::model::doc::{Block, Cell, Document, Grid};
use quipu::model::edit::EditInfo;
use quipu::model::trace::SettingInfo;
use quipu_console::screen::{Outcome, Result, Screen};
use serde_json::{Value, json};

/// List the trace formats that can be read
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Print JSON: a list of objects
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
A trace is recognised by its content; its name does not matter. `--format NAME` of the verbs that read
traces makes them read it as another.

Examples:
  quipu formats
  quipu formats --json

Exit codes:
  0  done";

pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    if options.json {
        let values: Vec<Value> = quipu::FORMATS
            .iter()
            .map(|format| {
                let info = format.info();
                json!({
                    "name": info.name,
                    "title": info.title,
                    "extensions": info.extensions,
                    "abilities": info.abilities,
                    "settings": info.settings.iter().map(setting_json).collect::<Vec<_>>(),
                    "print_settings": info.print_settings.iter().map(setting_json).collect::<Vec<_>>(),
                    "import_settings": import_settings(*format).iter().map(setting_json).collect::<Vec<_>>(),
                    "edits": edits(*format).map(edit_json).collect::<Vec<_>>(),
                })
            })
            .collect();
        screen.json(&values.into())?;
        return Ok(Outcome::Fine);
    }
    let documents: Vec<Document> = quipu::FORMATS
        .iter()
        .map(|format| {
            let info = format.info();
            let facts = vec![
                ("can".to_owned(), vec![Cell::Text(info.abilities.join(", "))]),
                ("files".to_owned(), vec![Cell::Text(info.extensions.join(", "))]),
                ("described in".to_owned(), vec![Cell::Text(info.doc.to_owned())]),
            ];
            let document = Document::new(format!("{}: {}", info.name, info.title)).with(Block::Facts(facts));
            let document = with_settings(document, "settings (--open KEY=VALUE)", info.settings);
            let document =
                with_settings(document, "settings of `quipu view` (--KEY=VALUE)", info.print_settings);
            let of_import = format!("settings of `quipu convert --to {}` (--set KEY=VALUE)", info.name);
            let document = with_settings(document, &of_import, import_settings(*format));
            with_edits(document, *format)
        })
        .collect();
    screen.documents(&documents)?;
    Ok(Outcome::Fine)
}

/// The settings with which a format takes records of others.
fn import_settings(format: &dyn Format) -> &'static [SettingInfo] {
    format.importer().map_or(&[], |importer| importer.info().settings)
}

/// What a format makes of its traces itself: edits, and the comparison of two.
fn edits(format: &dyn Format) -> impl Iterator<Item = &'static EditInfo> {
    let edits = format.edits().iter().map(|edit| edit.info());
    edits.chain(format.comparison().map(|comparison| comparison.info()))
}

fn edit_json(info: &EditInfo) -> Value {
    let settings: Vec<Value> = info.settings.iter().map(setting_json).collect();
    json!({ "name": info.name, "title": info.title, "settings": settings })
}

/// Adds a table of edits, if there are any.
fn with_edits(document: Document, format: &dyn Format) -> Document {
    let rows: Vec<Vec<Cell>> = edits(format).map(|info| vec![info.name.into(), info.title.into()]).collect();
    if rows.is_empty() {
        return document;
    }
    let head = ["verb", "what it makes"].map(str::to_owned).to_vec();
    document.with(Block::Grid(Grid { title: "edits".to_owned(), head, rows, more: 0 }))
}

/// Adds a table of settings, if there are any.
pub(super) fn with_settings(document: Document, title: &str, settings: &[SettingInfo]) -> Document {
    if settings.is_empty() {
        return document;
    }
    let rows = settings.iter().map(|setting| {
        let key = if setting.value.is_empty() {
            setting.name.to_owned()
        } else {
            format!("{}={}", setting.name, setting.value)
        };
        vec![key.into(), setting.default.into(), setting.doc.into()]
    });
    document.with(Block::Grid(Grid {
        title: title.to_owned(),
        head: ["key", "default", "meaning"].map(str::to_owned).into(),
        rows: rows.collect(),
        more: 0,
    }))
}

/// A setting for machines. Keys: `name`, `value`, `default`, `doc`.
pub(super) fn setting_json(setting: &SettingInfo) -> Value {
    json!({ "name": setting.name, "value": setting.value, "default": setting.default, "doc": setting.doc })
}
