//! `quipu formats`: which trace formats can be read.

use crate::screen::{Outcome, Result, Screen};
use quipu::model::doc::{Block, Cell, Document, Grid};
use quipu::model::trace::SettingInfo;
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
A trace is recognised by its content; its name does not matter.

Examples:
  quipu formats
  quipu formats --json

Exit codes:
  0  done";

pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    let formats = quipu::FORMATS.iter().map(|format| format.info());
    if options.json {
        let values: Vec<Value> = formats
            .map(|info| {
                json!({
                    "name": info.name,
                    "title": info.title,
                    "extensions": info.extensions,
                    "abilities": info.abilities,
                    "settings": info.settings.iter().map(setting_json).collect::<Vec<_>>(),
                    "print_settings": info.print_settings.iter().map(setting_json).collect::<Vec<_>>(),
                })
            })
            .collect();
        screen.json(&values.into())?;
        return Ok(Outcome::Fine);
    }
    let documents: Vec<Document> = formats
        .map(|info| {
            let facts = vec![
                ("can".to_owned(), vec![Cell::Text(info.abilities.join(", "))]),
                ("files".to_owned(), vec![Cell::Text(info.extensions.join(", "))]),
                ("described in".to_owned(), vec![Cell::Text(info.doc.to_owned())]),
            ];
            let document = Document::new(format!("{}: {}", info.name, info.title)).with(Block::Facts(facts));
            let document = with_settings(document, "settings (--open KEY=VALUE)", info.settings);
            with_settings(document, "settings of `quipu view` (--KEY=VALUE)", info.print_settings)
        })
        .collect();
    screen.documents(&documents)?;
    Ok(Outcome::Fine)
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
