//! Formats errors and findings for people: what happened, where, why, and what to do.

use crate::absent;
use quipu::model::{Error, Finding, Paint, Severity};
use std::error::Error as _;
use std::fmt::Write as _;

/// Formats an error with its place, the chain of its causes, and advice.
pub(crate) fn error(error: &Error, paint: &Paint) -> String {
    let mut text = String::new();
    write_head("error", paint.fault, paint, &mut text);
    let mut said = error.to_string();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", bare_numbers(&said));
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        // Outer errors often repeat the text of inner ones. Skip a cause whose text contains what was printed, unless it is
        // the innermost.
        let is_repetition = more.contains(&said) && inner.source().is_some();
        if !is_repetition {
            let _ = writeln!(text, "  because: {}", bare_numbers(&more));
            said = more;
        }
        cause = inner.source();
    }
    if let Some(advice) = error.advice().map(str::to_owned).or_else(|| absent::advice(error)) {
        write_help(&advice, paint, &mut text);
    }
    text
}

/// Formats a sentence as an error.
pub(crate) fn statement(sentence: std::fmt::Arguments<'_>, paint: &Paint) -> String {
    let mut text = String::new();
    write_head("error", paint.fault, paint, &mut text);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", bare_numbers(&sentence.to_string()));
    text
}

/// Formats a finding on one line. The rule comes last, for looking it up.
pub(crate) fn finding(finding: &Finding, paint: &Paint) -> String {
    let mut text = String::new();
    let ink = match finding.severity {
        Severity::Note => paint.data,
        Severity::Warning => paint.mark,
        Severity::Error => paint.fault,
    };
    write_head(finding.severity.name(), ink, paint, &mut text);
    if !finding.place.is_empty() {
        let _ = write!(text, "{}: ", finding.place);
    }
    text.push_str(&bare_numbers(&finding.message));
    if finding.count > 1 {
        let _ = write!(text, " ({} times)", finding.count);
    }
    let _ = writeln!(text, " [{}]", finding.rule);
    text
}

/// The text without backquotes around decimal numbers. Messages have all values in backquotes, for programs that search for
/// them; a number stands apart from words without.
fn bare_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        out.push_str(before);
        rest = match after.split_once('`') {
            Some((value, behind)) if is_decimal(value) => {
                out.push_str(value);
                behind
            }
            Some((value, behind)) => {
                out.extend(["`", value, "`"]);
                behind
            }
            None => {
                out.push('`');
                after
            }
        };
    }
    out.push_str(rest);
    out
}

/// Whether a text is a decimal number, perhaps with a sign and a fraction.
fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    is_digits(whole) && is_digits(fraction)
}

fn write_head(word: &str, ink: &str, paint: &Paint, text: &mut String) {
    let Paint { bold, reset, .. } = paint;
    let _ = write!(text, "{bold}{ink}{word}:{reset} ");
}

fn write_help(advice: &str, paint: &Paint, text: &mut String) {
    let Paint { bold, reset, .. } = paint;
    let _ = writeln!(text, "  {bold}help:{reset} {advice}");
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
            error(&shown, &Paint::PLAIN),
            "error: a.zip: the trace ends early\n  because: device is gone\n  help: look at the disk\n"
        );
    }

    #[test]
    fn only_numbers_lose_their_backquotes() {
        for (text, shown) in [
            ("too many calls: `90412`, limit `65535`", "too many calls: 90412, limit 65535"),
            ("`-1.5` of `a1`, `0x10` and ``", "-1.5 of `a1`, `0x10` and ``"),
            ("`a`5`b` and `7", "`a`5`b` and `7"),
            ("`1.` `.5` `7-9`", "`1.` `.5` `7-9`"),
        ] {
            assert_eq!(bare_numbers(text), shown);
        }
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
            finding(&shown, &Paint::PLAIN),
            "error: a.zip: offset 0x20: entry type 77 is unknown (3 times) [drmemtrace/unknown-type]\n"
        );
        assert!(finding(&shown, &Paint::ANSI).starts_with("\x1b[1m\x1b[31merror:\x1b[0m "));
    }
}
