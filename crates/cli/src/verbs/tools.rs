//! `quipu tools`: lists the analyses and their requirements.

use super::formats::{OWN, Setting, settings, with_options};
use quipu::model::doc::{Block, Cell, Document};
use quipu::model::{Tool, ToolInfo, result};
use quipu_console::parts::CsvOption;
use quipu_console::screen::{Outcome, Result, Screen};

/// List the analyses with their options and requirements
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, mut_arg("csv", |csv| csv.help(CSV_HELP)))]
pub(crate) struct Options {
    /// Print JSON: a list of objects
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: CsvOption,
}

const CSV_HELP: &str = "Print comma-separated values: a line for each analysis, or the rows of TABLE, such as `quipu.tools.options`";

const AFTER_HELP: &str = "\
Examples:
  quipu tools
  quipu tools --json
  quipu tools --columns name,summary
  quipu tools --csv=quipu.tools.options

Exit codes:
  0  done";

pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    let tools = every_tool();
    let described = || All { tools: tools.iter().map(|tool| Described::of(tool.info())).collect() };
    if options.json {
        screen.json(&result::json(&described().tools))?;
    } else if let Some(text) = options.csv.text("quipu.tools", || result::tables(OWN, &described()))? {
        screen.text(&text)?;
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

result! {
    /// All tools.
    struct All {
        tools: Vec<Described> => "The tools.";
    }
}

result! {
    /// A tool.
    struct Described {
        name: &'static str, key => "Name of the tool.";
        summary: &'static str => "What it finds out.";
        format: Option<&'static str> => "The only format that it is for; null if it works with any.";
        required: Vec<&'static str> => "Columns that a trace must have.";
        optional: Vec<&'static str> => "Columns that it uses if the trace has them.";
        in_report: bool => "Whether it is part of a report.";
        options: Vec<Setting> => "Its options.";
    }
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
