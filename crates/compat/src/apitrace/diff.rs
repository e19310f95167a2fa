//! `diff`: the differences between two traces, in apitrace's output.
//!
//! apitrace passes two dumps to another program, or compares calls in Python. Of its tools, `diff` and `python` are
//! emulated; the output of `sdiff` and `wdiff` is up to those programs.

use super::open;
use super::options::Words;
use quipu::apitrace::callset::CallSet;
use quipu::apitrace::diff::diff;
use quipu::apitrace::diff::lines::{LineForm, diff_lines};
use quipu::apitrace::diff::original::{Original, rules};
use quipu::model::Error;
use quipu::model::damaged::Reading;
use quipu_console::comparison::{self, COMPARED};
use quipu_console::rewrite::{Answer, Watched};
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session;
use std::io::BufWriter;

/// The calls that apitrace compares by default.
const USUAL_CALLS: &str = "0-10000";

/// `diff [--tool=diff|python] [--calls=SET] [--ref-calls=SET] [--src-calls=SET] [--call-nos] [--suppress-common-lines] OLD NEW`.
pub(super) fn run(words: Words, screen: &Screen) -> Result<Outcome> {
    let mut is_python = false;
    let (mut call_nos, mut suppress_common_lines) = (false, false);
    let mut calls = [USUAL_CALLS.to_owned(), USUAL_CALLS.to_owned()];
    let mut calls_of = [None, None];
    for (name, value) in words.options {
        let value = value.unwrap_or_default();
        match name.as_str() {
            "tool" => match value.as_str() {
                "python" => is_python = true,
                // apitrace prefers `wdiff` and `sdiff`, whose output has a layout of its own.
                "diff" | "auto" => is_python = false,
                other => {
                    return Err(Error::unsupported(format!(
                        "apitrace diff: the tool `{other}` is not available: no other program is run"
                    ))
                    .hint("tools that are available: diff, python; `quipu diff` is our own")
                    .into());
                }
            },
            "calls" => calls = [value.clone(), value],
            "ref-calls" => calls_of[0] = Some(value),
            "src-calls" => calls_of[1] = Some(value),
            "call-nos" => call_nos = true,
            _ => suppress_common_lines = true,
        }
    }
    for (calls, own) in calls.iter_mut().zip(calls_of) {
        *calls = own.unwrap_or_else(|| std::mem::take(calls));
    }
    let [old, new] = &words.files[..] else { return Err(Error::usage("two traces are wanted").into()) };
    let (Some(old), Some(new)) = (open(old, screen), open(new, screen)) else { return Ok(Outcome::Flawed) };
    let mut answer = Answer::new(BufWriter::new(quipu_console::terminal::stdout()));
    if !is_python {
        let form = LineForm { call_nos, suppress_common_lines };
        let done = diff_lines([&old, &new], [&calls[0], &calls[1]], form, &mut answer);
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

/// Reports what is wrong with either trace.
fn tell(readings: [Reading; 2], meaning: &'static str, screen: &Screen) -> Outcome {
    // Both traces are read completely before lines are compared, so an error in one leaves nothing to compare.
    let meaning = if readings.iter().any(|reading| reading.error.is_some()) { meaning } else { COMPARED };
    comparison::tell(readings, meaning, screen)
}
