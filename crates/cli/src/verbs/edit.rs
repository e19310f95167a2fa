//! `quipu edit`: a trace with some values replaced.

use quipu::model::edit::Settings;
use quipu_console::Common;
use quipu_console::edit::{EXIT_CODES, Keeping};
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, Target};
use quipu_console::screen::{Outcome, Result, Screen};

/// Write a trace with some values replaced: strings, names, flags, addresses, numbers
///
/// Each `--replace s/A/B/` takes values that are equal to A as a whole: strings, names of enumerations and flags, and
/// addresses (`0x…`). `/` may be any character, and either side `@file(PATH)` for what a file holds. Where `--arg` names
/// arguments, plain numbers are taken as well. `--set ARG=VALUE` does not ask what was there before. Raw memory stays as it
/// is: to change that, use `quipu disassemble`. All calls are written, numbered in the order of their completion.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    /// Replace what is equal to A by B
    #[arg(short = 'e', long, value_name = "s/A/B/", help_heading = "What to replace")]
    replace: Vec<String>,
    /// Take A for a regular expression, which may match a part; B may have $1
    #[arg(short = 'r', long, help_heading = "What to replace")]
    regex: bool,
    /// Give arguments or members of this name a value
    #[arg(long, value_name = "ARG=VALUE", help_heading = "What to replace")]
    set: Vec<String>,
    /// Add a property to the trace, or replace it
    #[arg(long, value_name = "NAME=VALUE", help_heading = "What to replace")]
    property: Vec<String>,
    /// Only in arguments or members of this name; `return` for results
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    arg: Vec<String>,
    /// Only in functions whose names have this in them
    #[arg(long, value_name = "REGEX", help_heading = "Where")]
    function: Option<String>,
    /// Only in these calls: numbers, ranges, frame, draw, fbo, @FILE
    #[arg(long, value_name = "SET", help_heading = "Where")]
    calls: Vec<String>,
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    target: Target,
}

const EXAMPLES: &str = "\
Examples:
  quipu edit -e s/GL_TRIANGLES/GL_POINTS/ --calls 0-100 game.trace -o points.trace
  quipu edit -r -e 's/#version 1[0-9]+/#version 330/' --arg string game.trace -o newer.trace
  quipu edit --set swap_interval=0 --function SwapInterval game.trace -o fast.trace
";

/// The end of the help.
fn after_help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let Options { input, .. } = options;
    let target = &Target { damaged: options.keeping.into(), ..options.target.clone() };
    let recognised = rewrite::recognise(&input.path, &input.opening)?;
    let edit = recognised.must_edit("edit")?;
    rewrite::run(edit, &recognised.source, &input.opening, &options.settings(), target, common, screen)
}

impl Options {
    fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        for (name, values) in [
            ("replace", &self.replace),
            ("set", &self.set),
            ("property", &self.property),
            ("arg", &self.arg),
            ("calls", &self.calls),
        ] {
            values.iter().for_each(|value| settings.add(name, value));
        }
        if self.regex {
            settings.add("regex", "");
        }
        if let Some(pattern) = &self.function {
            settings.add("function", pattern);
        }
        settings
    }
}
