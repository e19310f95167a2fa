//! What goes to the standard streams, in which colours, and how the program ends.

use crate::{complaint, terminal};
use quipu::model::doc::Document;
use quipu::model::{Error, ErrorKind, Finding, Paint, Report, Severity};
use quipu_view::Look;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal that can show them.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    fn wanted(self, is_terminal: bool, var: impl Fn(&str) -> Option<String>) -> bool {
        let forbidden = var("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = var("TERM").as_deref() == Some("dumb");
        match self {
            ColorChoice::Auto => is_terminal && !forbidden && !dumb,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        }
    }
}

/// How a verb ended that has an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Fine,
    /// The trace has errors, or not all of it was read.
    Flawed,
    /// The answer is about what precedes a place from which only a newer program can read on.
    NeedsNewer,
    /// A program that was run for the user ended with this code.
    Program(u8),
}

impl Outcome {
    /// What analyses that judge the trace say of it.
    pub fn of(reports: &[Box<dyn Report>]) -> Outcome {
        let flawed = || reports.iter().filter(|report| report.is_flawed());
        match flawed().next() {
            None => Outcome::Fine,
            Some(_) => {
                Outcome::of_flaw(flawed().flat_map(|report| report.findings()).any(|of| of.needs_newer()))
            }
        }
    }

    /// What something that is wrong with a trace makes of the answer.
    pub fn of_flaw(needs_newer: bool) -> Outcome {
        if needs_newer { Outcome::NeedsNewer } else { Outcome::Flawed }
    }

    /// The exit code of the program.
    pub fn code(self) -> ExitCode {
        match self {
            Outcome::Fine => ExitCode::SUCCESS,
            Outcome::Flawed => ExitCode::from(1),
            Outcome::NeedsNewer => ExitCode::from(2),
            Outcome::Program(code) => ExitCode::from(code),
        }
    }

    /// The worse of two.
    pub fn and(self, other: Outcome) -> Outcome {
        match (self, other) {
            (Outcome::Fine, _) | (Outcome::Flawed, Outcome::NeedsNewer) => other,
            _ => self,
        }
    }
}

/// Why a verb ended without an answer.
#[derive(Debug)]
pub enum Stop {
    /// Our output is no longer read, which is no error.
    ClosedPipe,
    /// It could not be done.
    Fault(Error),
    /// The trace is damaged, so that there is no answer, or nothing was written: which of them, in words that follow what is
    /// lost.
    Damage(Error, &'static str),
}

impl Stop {
    /// What an error means that came up while a trace was read which had been opened.
    pub fn of_reading(error: Error, meaning: &'static str) -> Stop {
        if error.is_damage() { Stop::Damage(error, meaning) } else { Stop::Fault(error) }
    }
}

/// The result of a verb and its parts.
pub type Result<T, E = Stop> = std::result::Result<T, E>;

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        // Opening a trace tells whether anything of it can be read.
        match error.kind() {
            ErrorKind::Damaged => Stop::Damage(error, "there is no answer"),
            _ => Stop::Fault(error),
        }
    }
}

/// Only writing gives bare I/O errors here; reading a trace gives an [`Error`].
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Stop::ClosedPipe
        } else {
            Stop::Fault(Error::new(ErrorKind::Io, format!("cannot write the answer: {error}")))
        }
    }
}

/// The two streams that people look at.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    out_color: bool,
    err_color: bool,
    quiet: bool,
    /// Answers go to standard error.
    is_out_taken: bool,
}

impl Screen {
    /// The standard streams, with colours as `color` says; only errors are said if `quiet`.
    pub fn new(color: ColorChoice, quiet: bool) -> Screen {
        let var = |name: &str| std::env::var(name).ok();
        Screen {
            out_color: color.wanted(io::stdout().is_terminal(), var),
            err_color: color.wanted(io::stderr().is_terminal(), var),
            quiet,
            is_out_taken: false,
        }
    }

    /// The screen for the answer of a verb that has written to `output`: where that is standard output itself, and a pipe, the
    /// answer would be mixed with what was written, and goes to standard error. So it would where `output` has no name, and what
    /// was made was printed.
    pub fn beside(self, output: &Path) -> Screen {
        if !output.as_os_str().is_empty() && !terminal::is_piped_stdout(output) {
            return self;
        }
        Screen { is_out_taken: true, out_color: self.err_color, ..self }
    }

    /// The same for an answer that programs read, as `is_json` says: where nothing has a name, tools print, and leave standard
    /// output to it.
    pub fn beside_for(self, output: &Path, is_json: bool) -> Screen {
        if is_json && output.as_os_str().is_empty() { self } else { self.beside(output) }
    }

    /// How documents look on standard output.
    pub fn look(&self) -> Look {
        Look::stdout(self.out_color)
    }

    /// Writes an answer.
    fn answer(&self, text: &str) -> Result<()> {
        if self.is_out_taken {
            eprint(text);
            return Ok(());
        }
        Ok(terminal::stdout().write_all(text.as_bytes())?)
    }

    /// The colours of records on standard output.
    pub fn paint(&self) -> Paint {
        if self.out_color { Paint::ANSI } else { Paint::PLAIN }
    }

    /// Whether anything but errors is to be said.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Writes documents to standard output, an empty line between them.
    pub fn documents<'d>(&self, documents: impl IntoIterator<Item = &'d Document>) -> Result<()> {
        let mut text = String::new();
        for (i, document) in documents.into_iter().enumerate() {
            if i > 0 {
                text.push('\n');
            }
            quipu_view::paint(document, &self.look(), &mut text);
        }
        self.answer(&text)
    }

    /// Writes text to standard output as it is.
    pub fn text(&self, text: &str) -> Result<()> {
        self.answer(text)
    }

    /// Writes findings to standard output, a line each, where they are the answer.
    pub fn list_findings(&self, findings: &[Finding]) -> Result<()> {
        let mut text: String =
            findings.iter().map(|finding| complaint::finding(finding, self.out_color)).collect();
        if !findings.is_empty() {
            text.push('\n');
        }
        self.answer(&text)
    }

    /// Writes a JSON value to standard output, laid out for people.
    pub fn json(&self, value: &serde_json::Value) -> Result<()> {
        self.answer(&format!("{value:#}\n"))
    }

    /// Says on standard error why there is no answer, after what was found before.
    pub fn complain(&self, error: &Error) {
        self.findings(error.findings());
        eprint(&complaint::error(error, self.err_color));
    }

    /// Says on standard error what is wrong with a trace, and whether that makes the answer a bad one.
    pub fn findings(&self, findings: &[Finding]) -> Outcome {
        let mut outcome = Outcome::Fine;
        for finding in findings {
            let is_error = finding.severity == Severity::Error;
            if is_error {
                outcome = outcome.and(Outcome::of_flaw(finding.needs_newer()));
            }
            if is_error || !self.quiet {
                eprint(&complaint::finding(finding, self.err_color));
            }
        }
        outcome
    }

    /// Says on standard error that something is wrong, also where only errors are wanted.
    pub fn say_error(&self, text: fmt::Arguments<'_>) {
        eprint(&complaint::statement(text, self.err_color));
    }

    /// Says something on standard error, unless only errors are wanted.
    pub fn say(&self, text: fmt::Arguments<'_>) {
        if !self.quiet {
            eprint(&format!("{text}\n"));
        }
    }
}

/// Writes to standard error. If that is gone, there is no other place to report it.
pub fn eprint(text: &str) {
    let _ = terminal::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_and_dumb_terminals_are_obeyed_unless_the_flag_says_otherwise() {
        let env = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            }
        };
        assert!(ColorChoice::Auto.wanted(true, env(&[])));
        assert!(ColorChoice::Auto.wanted(true, env(&[("NO_COLOR", "")])));
        assert!(!ColorChoice::Auto.wanted(true, env(&[("NO_COLOR", "1")])));
        assert!(!ColorChoice::Auto.wanted(true, env(&[("TERM", "dumb")])));
        assert!(!ColorChoice::Auto.wanted(false, env(&[])));
        assert!(ColorChoice::Always.wanted(false, env(&[("NO_COLOR", "1")])));
        assert!(!ColorChoice::Never.wanted(true, env(&[])));
    }

    #[test]
    fn a_closed_pipe_is_no_fault() {
        assert!(matches!(Stop::from(io::Error::from(io::ErrorKind::BrokenPipe)), Stop::ClosedPipe));
        assert!(matches!(Stop::from(io::Error::from(io::ErrorKind::StorageFull)), Stop::Fault(_)));
    }
}
