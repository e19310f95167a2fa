//! The command line of DTrace's consumer, for captures instead of a live kernel.
//!
//! Options about printing are accepted; those for tracing are refused by name. The text is the consumer's own, including its
//! wrong values, and so is the exit status that a script sets.

use quipu::dtrace::{options, trace};
use quipu::model::{Error, Finding, OpenOptions, Severity};
use quipu_console::Common;
use quipu_console::input;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::Verdict;
use quipu_console::terminal;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Help text of the options.
const HELP: &str = "\
Usage: quipu as dtrace [-qF] [-x OPTION[=VALUE]]... [CAPTURE]

Prints a capture as DTrace's consumer prints it: records on standard output, messages on standard error.

  -q               values only
  -F               indent entries and returns
  -x OPTION=VALUE  set a printing option; may be repeated

Printing options:
  aggsortkey, aggsortrev        sort aggregations by key; reverse all orders
  aggsortpos=N                  aggregation by which printa() sorts
  aggsortkeypos=N               key member to sort by first
  agghist, aggpack, aggzoom     counts as bars; histograms on one line; tallest bar scaled to the width
  encoding=ascii|utf8           characters of bars
  stackindent=N                 blanks before frames; default 14
  rawbytes                      never print bytes as strings
  temporal                      order the records of all CPUs by time
  quiet, flowindent             as -q and -F
  droptags                      start messages about drops with a tag
  oformat=json                  print one JSON object

CAPTURE is a folder of buffers with meta.json, a raw.jsonl, a buffer with its descriptions, or a stream. With `-`, or
without CAPTURE unless standard input is a terminal, a file is read from standard input.
";

/// Text is written in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// Runs the consumer's command line with these arguments.
pub fn run(args: &[String], common: &Common, screen: &Screen) -> Result<Outcome> {
    if args.iter().any(|arg| matches!(arg.as_str(), "--help" | "-h")) {
        screen.text(HELP)?;
        return Ok(Outcome::Fine);
    }
    let asked = asked(args, common.quiet)?;
    let source = input::source(Path::new(&asked.capture))?;
    // A file that is damaged before its format is recognised is reported as by all verbs.
    if quipu::format_of(&source, &OpenOptions::default())?.is_none() {
        quipu::open(&source, &OpenOptions::default())?;
    }
    let mut capture = trace::load(&source, &OpenOptions::default())?;
    for option in &asked.options {
        capture.give(option)?;
    }
    let capture = Arc::new(capture);
    let mut stdout = terminal::stdout();
    let mut put = |text: &[u8]| -> Result<()> { Ok(stdout.write_all(text)?) };
    let printed = match asked.is_json {
        true => quipu::dtrace::objects_to(&capture, PIECE_BYTES, &mut put)?,
        false => quipu::dtrace::print_to(&capture, true.into(), PIECE_BYTES, &mut put)?,
    };
    put(&printed.out)?;
    let messages = String::from_utf8_lossy(&printed.messages);
    // The consumer's own messages report drops, and its status does not depend on them.
    let is_said = |finding: &&Finding| finding.severity == Severity::Error && finding.rule != "dtrace/drops";
    let findings: Vec<_> = capture.findings.iter().filter(is_said).cloned().collect();
    // Findings of loading are reported once.
    let is_new = |fault: &&Error| findings.iter().all(|finding| finding.message != fault.message());
    let faults = printed.faults.iter().filter(is_new).map(ToString::to_string);
    let mut stderr = terminal::stderr();
    for message in messages.lines().map(str::to_owned).chain(faults) {
        writeln!(stderr, "dtrace: {message}")?;
    }
    let is_whole = findings.is_empty() && printed.faults.is_empty();
    if !findings.is_empty() {
        Verdict { findings, meaning: "what was printed is the rest", ..Verdict::default() }.tell(screen);
    }
    Ok(match (is_whole, printed.status) {
        (false, _) => Outcome::Flawed,
        (true, 0) => Outcome::Fine,
        // Systems keep only the lowest eight bits of the status.
        (true, status) => Outcome::Program(status as u8),
    })
}

/// Parsed arguments.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    options: Vec<String>,
    is_json: bool,
    capture: String,
}

/// Parses a command line as the consumer does: letters may be joined, and a value may directly follow its option.
fn asked(args: &[String], is_quiet: bool) -> std::result::Result<Asked, Error> {
    let mut asked = Asked { options: Vec::new(), is_json: false, capture: String::new() };
    if is_quiet {
        // Quipu also has an option of this name, and consumes it if it precedes all unknown arguments.
        asked.options.push("quiet".to_owned());
    }
    let mut all = args.iter();
    let mut has_options_ended = false;
    while let Some(arg) = all.next() {
        let letters = arg.strip_prefix('-').filter(|letters| !has_options_ended && !letters.is_empty());
        let Some(letters) = letters else {
            if !asked.capture.is_empty() {
                return Err(Error::usage(format!("`{arg}`: one capture is printed")));
            }
            asked.capture.clone_from(arg);
            continue;
        };
        if letters == "-" {
            has_options_ended = true;
            continue;
        }
        for (at, letter) in letters.char_indices() {
            match letter {
                'q' => asked.options.push("quiet".to_owned()),
                'F' => asked.options.push("flowindent".to_owned()),
                'x' => {
                    let own = Some(&letters[at + 1..]).filter(|own| !own.is_empty()).map(str::to_owned);
                    let option = own.or_else(|| all.next().cloned());
                    let option = option.ok_or_else(|| Error::usage("`-x` wants an option"))?;
                    match option.strip_prefix("oformat=") {
                        Some("json") => asked.is_json = true,
                        Some(form) => {
                            let message = format!("the option `oformat` does not take `{form}`");
                            return Err(Error::usage(message).hint("it takes json"));
                        }
                        None => asked.options.push(option),
                    }
                    break;
                }
                'o' => {
                    return Err(Error::unsupported("`-o` is not taken: text goes to standard output")
                        .hint("redirect it: `> FILE`"));
                }
                _ => {
                    let option = if arg.starts_with("--") { arg.clone() } else { format!("-{letter}") };
                    let message =
                        format!("`{option}` is about tracing, or not available: a capture is printed");
                    return Err(Error::unsupported(message).hint("options: -q, -F, -x"));
                }
            }
        }
    }
    if asked.capture.is_empty() {
        "-".clone_into(&mut asked.capture);
    }
    // A wrong option is reported before anything is read.
    let mut settings = options::Settings::default();
    asked.options.iter().try_for_each(|option| settings.give(option))?;
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_by(line: &str) -> std::result::Result<Asked, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        asked(&args, false).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn letters_may_stand_together_and_values_after_them() {
        let expected = Asked {
            options: vec!["quiet".into(), "flowindent".into(), "stackindent=4".into()],
            is_json: false,
            capture: "capture".into(),
        };
        for line in [
            "-q -F -x stackindent=4 capture",
            "-qF -xstackindent=4 capture",
            "capture -qFx stackindent=4",
            "-qFxstackindent=4 -- capture",
        ] {
            assert_eq!(asked_by(line).as_ref(), Ok(&expected), "{line}");
        }
        assert_eq!(asked_by("-q").unwrap().capture, "-");
        assert_eq!(asked_by("- -q").unwrap().capture, "-");
        assert_eq!(asked_by("-- -q").unwrap().capture, "-q");
        assert!(asked_by("-x oformat=json").unwrap().is_json);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (line, said) in [
            ("-qn BEGIN", "`-n` is about tracing"),
            ("--help-me", "`--help-me` is about tracing"),
            ("-o out", "`-o` is not taken"),
            ("one two", "`two`: one capture is printed"),
            ("-qx", "`-x` wants an option"),
            ("-x aggsortpos=abc", "the option `aggsortpos` does not take `abc`"),
            ("-x stackindent", "the option `stackindent` has no value"),
            ("-xquiet=maybe", "the option `quiet` does not take `maybe`"),
            ("-x oformat=xml", "the option `oformat` does not take `xml`"),
            ("-x bufsize=4m", "`-x bufsize` is about tracing"),
        ] {
            let message = asked_by(line).unwrap_err();
            assert!(message.contains(said), "{line}: {message}");
        }
    }
}
