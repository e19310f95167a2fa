//! `quipu tools`: lists the analyses and their requirements.

use super::formats::{Setting, settings, with_options};
use quipu::model::doc::{Block, Cell, Document};
use quipu::model::{Tool, ToolInfo, result};
use quipu_console::screen::{Outcome, Result, Screen};
use serde::Serialize;

/// List the analyses with their options and requirements
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Print JSON: a list of objects
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  quipu tools
  quipu tools --json

Exit codes:
  0  done";

pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    let tools = every_tool();
    if options.json {
        let all: Vec<Described> = tools.iter().map(|tool| Described::of(tool.info())).collect();
        screen.json(&result::json(&all))?;
    } else {
        let documents: Vec<Document> = tools.iter().map(|tool| describe(tool.info())).collect();
        screen.documents(&documents)?;
    }
    Ok(Outcome::Fine)
}

/// All tools without duplicates: those of each format, then the general ones.
fn every_tool() -> Vec<&'static dyn Tool> {
    let mut tools: Vec<&'static dyn Tool> = Vec::new();
    for format in quipu::FORMATS {
        for tool in quipu::tools_of(format.info().name) {
            if !tools.iter().any(|known| std::ptr::eq(known.info(), tool.info())) {
                tools.push(tool);
            }
        }
    }
    tools
}

fn describe(info: &ToolInfo) -> Document {
    let mut facts = vec![("needs".to_owned(), vec![Cell::Text(needs(info))])];
    if !info.needs.optional.is_empty() {
        facts.push(("uses".to_owned(), vec![Cell::Text(info.needs.optional.to_string())]));
    }
    let document = Document::new(format!("{}: {}", info.name, info.summary)).with(Block::Facts(facts));
    with_options(document, "options (-O KEY=VALUE)", info.options)
}

fn needs(info: &ToolInfo) -> String {
    let format = info.needs.format.map(|format| format!("{format} traces"));
    let columns = (!info.needs.required.is_empty()).then(|| info.needs.required.to_string());
    match (format, columns) {
        (Some(format), Some(columns)) => format!("{format} with {columns}"),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => "nothing in particular".to_owned(),
    }
}

/// A tool as JSON.
#[derive(Serialize)]
struct Described {
    name: &'static str,
    summary: &'static str,
    /// `null` if it works with any format.
    format: Option<&'static str>,
    /// Required columns.
    required: Vec<&'static str>,
    /// Columns that are used if available.
    optional: Vec<&'static str>,
    in_report: bool,
    options: Vec<Setting>,
}

impl Described {
    fn of(info: &ToolInfo) -> Described {
        Described {
            name: info.name,
            summary: info.summary,
            format: info.needs.format,
            required: info.needs.required.names().collect(),
            optional: info.needs.optional.names().collect(),
            in_report: info.in_report,
            options: settings(info.options),
        }
    }
}
