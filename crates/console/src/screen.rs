//! Output to the standard streams with colours, and exit codes.

use crate::complaint;
use crate::terminal::{self, Standard, Stream};
use quipu::model::doc::Document;
use quipu::model::{Error, ErrorKind, Finding, Paint, Report, Severity};
use quipu_view::{Look, Overflow};
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// If the terminal supports them.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    /// Whether text for this stream has colours.
    pub fn is_wanted_on(self, stream: &Stream<Standard>) -> bool {
        self.wanted(stream.is_terminal(), |name| std::env::var(name).ok())
    }

    /// The colours of text for this stream.
    fn paint(self, stream: &Stream<Standard>) -> Paint {
        if self.is_wanted_on(stream) { stream.paint() } else { Paint::PLAIN }
    }

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

/// How a verb ended that gave an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No problems.
    Fine,
    /// The trace has errors, or was not read completely.
    Flawed,
    /// The answer covers the trace only up to a place after which a newer program is needed.
    NeedsNewer,
    /// A program that was run for the user ended with this code.
    Program(u8),
}

impl Outcome {
    /// Outcome of analyses that judge the trace.
    pub fn of(reports: &[Box<dyn Report>]) -> Outcome {
        let flawed = || reports.iter().filter(|report| report.is_flawed());
        match flawed().next() {
            None => Outcome::Fine,
            Some(_) => {
                Outcome::of_flaw(flawed().flat_map(|report| report.findings()).any(|of| of.needs_newer()))
            }
        }
    }

    /// Outcome of an error in a trace.
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

    /// The worse of two outcomes.
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
    /// The reader of the output has closed it, which is not an error.
    ClosedPipe,
    /// The verb failed.
    Fault(Error),
    /// The trace is damaged. The text says what follows from that, such as that there is no answer or that nothing was
    /// written; it is printed after what was lost.
    Damage(Error, &'static str),
}

impl Stop {
    /// Converts an error of reading an open trace.
    pub fn of_reading(error: Error, meaning: &'static str) -> Stop {
        if error.is_damage() { Stop::Damage(error, meaning) } else { Stop::Fault(error) }
    }
}

/// Result of a verb and of its parts.
pub type Result<T, E = Stop> = std::result::Result<T, E>;

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        // If opening a trace reports damage, nothing of it can be read.
        match error.kind() {
            ErrorKind::Damaged => Stop::Damage(error, "there is no answer"),
            _ => Stop::Fault(error),
        }
    }
}

/// Bare I/O errors occur here only in writing; reading a trace returns an [`Error`].
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Stop::ClosedPipe
        } else {
            Stop::Fault(Error::new(ErrorKind::Io, format!("cannot write the answer: {error}")))
        }
    }
}

/// The two output streams.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Colours of standard output.
    out: Paint,
    /// Colours of standard error.
    err: Paint,
    quiet: bool,
    /// True if tables are as wide as they are, also on a terminal.
    is_wide: bool,
    /// True if answers go to standard error.
    is_out_taken: bool,
}

impl Screen {
    /// The standard streams, with colours according to `color`; only errors are printed if `quiet`.
    pub fn new(color: ColorChoice, quiet: bool) -> Screen {
        Screen {
            out: color.paint(&terminal::stdout()),
            err: color.paint(&terminal::stderr()),
            quiet,
            is_wide: false,
            is_out_taken: false,
        }
    }

    /// The same screen, on which no table is cut or folded.
    #[must_use]
    pub fn wide(self) -> Screen {
        Screen { is_wide: true, ..self }
    }

    /// The screen for the report of a verb that has written to `output`. If that is standard output itself, and a pipe, the
    /// report would mix with the output, so it goes to standard error. The same holds if `output` is empty, which means that
    /// the result was printed.
    pub fn beside(self, output: &Path) -> Screen {
        if !output.as_os_str().is_empty() && !terminal::is_piped_stdout(output) {
            return self;
        }
        Screen { is_out_taken: true, out: self.err, ..self }
    }

    /// Like [`Screen::beside`], but a JSON report with an empty `output` goes to standard output: tools then do not print
    /// there.
    pub fn beside_for(self, output: &Path, is_json: bool) -> Screen {
        if is_json && output.as_os_str().is_empty() { self } else { self.beside(output) }
    }

    /// The look of documents where answers go. Files and pipes get lines as long as they are.
    pub fn look(&self) -> Look {
        let out = if self.is_out_taken { terminal::stderr() } else { terminal::stdout() };
        let overflow = if out.is_terminal() && !self.is_wide { Overflow::Fold } else { Overflow::Run };
        Look::stdout(self.out, overflow)
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
        self.out
    }

    /// Whether only errors are printed.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Writes documents to standard output, separated by empty lines.
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

    /// Writes text to standard output unchanged.
    pub fn text(&self, text: &str) -> Result<()> {
        self.answer(text)
    }

    /// Writes findings as the answer to standard output, a line each.
    pub fn list_findings(&self, findings: &[Finding]) -> Result<()> {
        let mut text: String =
            findings.iter().map(|finding| complaint::finding(finding, &self.out)).collect();
        if !findings.is_empty() {
            text.push('\n');
        }
        self.answer(&text)
    }

    /// Writes an indented JSON value to standard output.
    pub fn json(&self, value: &serde_json::Value) -> Result<()> {
        self.answer(&format!("{value:#}\n"))
    }

    /// Reports an error on standard error, after the findings that preceded it.
    pub fn complain(&self, error: &Error) {
        self.findings(error.findings());
        eprint(&complaint::error(error, &self.err));
    }

    /// Reports findings on standard error, and returns the outcome that they imply.
    pub fn findings(&self, findings: &[Finding]) -> Outcome {
        let mut outcome = Outcome::Fine;
        for finding in findings {
            let is_error = finding.severity == Severity::Error;
            if is_error {
                outcome = outcome.and(Outcome::of_flaw(finding.needs_newer()));
            }
            if is_error || !self.quiet {
                eprint(&complaint::finding(finding, &self.err));
            }
        }
        outcome
    }

    /// Reports a problem on standard error, even if quiet.
    pub fn say_error(&self, text: fmt::Arguments<'_>) {
        eprint(&complaint::statement(text, &self.err));
    }

    /// Writes a line to standard error unless quiet.
    pub fn say(&self, text: fmt::Arguments<'_>) {
        if !self.quiet {
            eprint(&format!("{text}\n"));
        }
    }
}

/// Writes to standard error. Failures are ignored, since there is no other place to report them.
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
