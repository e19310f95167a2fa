//! Formats errors and findings for people: what happened, where, why, and what to do.

use anstyle::{AnsiColor, Style};
use quipu::model::{Error, Finding, Severity};
use std::error::Error as _;
use std::fmt::Write as _;

/// Formats an error with its place, the chain of its causes, and advice.
pub(crate) fn error(error: &Error, color: bool) -> String {
    let mut text = String::new();
    write_head("error", AnsiColor::Red, color, &mut text);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{error}");
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        // Outer errors often repeat the text of inner ones. Skip a cause whose text contains what was printed, unless it is
        // the innermost.
        let is_repetition = more.contains(&said) && inner.source().is_some();
        if !is_repetition {
            let _ = writeln!(text, "  because: {more}");
            said = more;
        }
        cause = inner.source();
    }
    if let Some(advice) = error.advice() {
        write_help(advice, color, &mut text);
    }
    text
}

/// Formats a sentence as an error.
pub(crate) fn statement(sentence: std::fmt::Arguments<'_>, color: bool) -> String {
    let mut text = String::new();
    write_head("error", AnsiColor::Red, color, &mut text);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{sentence}");
    text
}

/// Formats a finding on one line. The rule comes last, for looking it up.
pub(crate) fn finding(finding: &Finding, color: bool) -> String {
    let mut text = String::new();
    let ink = match finding.severity {
        Severity::Note => AnsiColor::Cyan,
        Severity::Warning => AnsiColor::Yellow,
        Severity::Error => AnsiColor::Red,
    };
    write_head(finding.severity.name(), ink, color, &mut text);
    if !finding.place.is_empty() {
        let _ = write!(text, "{}: ", finding.place);
    }
    text.push_str(&finding.message);
    if finding.count > 1 {
        let _ = write!(text, " ({} times)", finding.count);
    }
    let _ = writeln!(text, " [{}]", finding.rule);
    text
}

fn write_head(word: &str, ink: AnsiColor, color: bool, text: &mut String) {
    let style = if color { Style::new().bold().fg_color(Some(ink.into())) } else { Style::new() };
    let _ = write!(text, "{style}{word}:{style:#} ");
}

fn write_help(advice: &str, color: bool, text: &mut String) {
    let style = if color { Style::new().bold() } else { Style::new() };
    let _ = writeln!(text, "  {style}help:{style:#} {advice}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu::model::Place;

    #[test]
    fn an_error_says_what_why_and_what_to_do() {
        let io = std::io::Error::other("device is gone");
        let shown =
            Error::truncated("the trace ends early").in_file("a.zip").because(io).hint("look at the disk");
        assert_eq!(
            error(&shown, false),
            "error: a.zip: the trace ends early\n  because: device is gone\n  help: look at the disk\n"
        );
    }

    #[test]
    fn a_finding_ends_with_its_rule() {
        let shown = Finding {
            rule: "drmemtrace/unknown-type".into(),
            severity: Severity::Error,
            place: Place { file: Some("a.zip".into()), offset: Some(0x20), ..Place::default() },
            message: "entry type `77` is unknown".into(),
            count: 3,
            loss: None,
            is_stated: false,
            doubtful_from: None,
        };
        assert_eq!(
            finding(&shown, false),
            "error: a.zip: offset 0x20: entry type `77` is unknown (3 times) [drmemtrace/unknown-type]\n"
        );
        assert!(finding(&shown, true).starts_with("\x1b[1m\x1b[31merror:\x1b[0m "));
    }
}
