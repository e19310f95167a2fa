//! `diff`: what differs between two traces, as the original shows it.
//!
//! The original hands two dumps to another program, or compares calls with Python. Of its tools, `diff` and `python` are
//! played; what `sdiff` and `wdiff` print is theirs.

use super::{open, unknown};
use crate::rewrite::{Answer, Watched};
use crate::screen::{Outcome, Result, Screen};
use crate::session;
use crate::verbs;
use crate::verbs::diff::COMPARED;
use quipu::apitrace::callset::CallSet;
use quipu::apitrace::diff::diff;
use quipu::apitrace::diff::lines::diff_lines;
use quipu::apitrace::diff::original::{Original, rules};
use quipu::model::Error;
use quipu::model::damaged::Reading;
use std::io::BufWriter;

/// The calls that the original compares if nothing is said.
const USUAL_CALLS: &str = "0-10000";

/// `diff [--tool=diff|python] [--calls=SET] [--ref-calls=SET] [--src-calls=SET] [--call-nos] [--suppress-common-lines] OLD NEW`.
pub(super) fn run(args: &[String], screen: &Screen) -> Result<Outcome> {
    let mut is_python = false;
    let (mut call_nos, mut suppress_common_lines) = (false, false);
    let mut calls = [USUAL_CALLS.to_owned(), USUAL_CALLS.to_owned()];
    let mut files = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let (name, value) =
            arg.split_once('=').map_or((arg.as_str(), None), |(name, value)| (name, Some(value)));
        let mut value = || {
            let value = value.map(str::to_owned).or_else(|| rest.next().cloned());
            value.ok_or_else(|| Error::usage(format!("apitrace diff: `{name}` needs a value")))
        };
        match name {
            "-t" | "--tool" => match value()?.as_str() {
                "python" => is_python = true,
                // apitrace looks for `wdiff` and `sdiff` first, whose layout is their own.
                "diff" | "auto" => is_python = false,
                other => {
                    return Err(Error::unsupported(format!(
                        "apitrace diff: the tool `{other}` is not available: no other program is run"
                    ))
                    .hint("tools that are available: diff, python; `quipu diff` is our own")
                    .into());
                }
            },
            "-c" | "--calls" => {
                let set = value()?;
                calls = [set.clone(), set];
            }
            "--ref-calls" => calls[0] = value()?,
            "--src-calls" => calls[1] = value()?,
            "--call-nos" => call_nos = true,
            "--suppress-common-lines" => suppress_common_lines = true,
            _ if arg.starts_with('-') => return Err(unknown("diff", arg)),
            _ => files.push(arg.as_str()),
        }
    }
    let [old, new] = files[..] else { return Err(Error::usage("two traces are wanted").into()) };
    let (Some(old), Some(new)) = (open(old, screen), open(new, screen)) else { return Ok(Outcome::Flawed) };
    let mut answer = Answer::new(BufWriter::new(crate::terminal::stdout()));
    if !is_python {
        let done = diff_lines([&old, &new], [&calls[0], &calls[1]], suppress_common_lines, &mut answer);
        return Ok(tell(answer.judge(done)?, "nothing was compared", screen));
    }
    let mut rules = rules();
    for (side, text) in rules.calls.iter_mut().zip(&calls) {
        side.insert(CallSet::default()).add(text)?;
    }
    let mut show = Original::new(&mut answer);
    show.call_nos = call_nos;
    show.suppress_common_lines = suppress_common_lines;
    let done = session::watched(screen, |watch| diff(&old, &new, &rules, &mut show, &Watched(watch)));
    Ok(tell(answer.judge(done)?.readings, COMPARED, screen))
}

/// Says what is wrong with either trace.
fn tell(readings: [Reading; 2], meaning: &'static str, screen: &Screen) -> Outcome {
    // Lines are compared once all of both traces are read, so an error of one leaves nothing to compare.
    let meaning = if readings.iter().any(|reading| reading.error.is_some()) { meaning } else { COMPARED };
    verbs::diff::tell(readings, meaning, screen)
}
