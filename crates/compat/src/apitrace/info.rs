//! `info`: the description of a trace in apitrace's JSON.

use quipu::apitrace::survey::{Frames, Survey, survey};
use quipu::apitrace::trace::ApiTrace;
use quipu::model::Found;
use quipu::model::trace::settled;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::Verdict;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::Write;

/// Prints apitrace's description of a trace.
pub(super) fn print(file: &str, trace: &ApiTrace, has_frames: bool, screen: &Screen) -> Result<Outcome> {
    let frames = if has_frames { Frames::Listed } else { Frames::Counted };
    let surveyed = settled(trace, || false, || Ok::<_, Infallible>(survey(trace.sound(), frames, &|| false)));
    let Ok((mut survey, done)) = surveyed;
    let mut found = Found::default();
    survey.findings.drain(..).for_each(|finding| found.push(finding));
    let verdict = Verdict::new(trace, found, done.err(), false);
    // Like apitrace, this describes no stream that cannot be read to its end.
    if verdict.error.is_some() {
        return Ok(verdict.meaning("nothing is described").tell(screen));
    }
    verdict.say_lost(screen);
    let text = text(file, trace, &survey, has_frames)?;
    quipu_console::terminal::stdout().write_all(text.as_bytes())?;
    Ok(verdict.tell(screen))
}

/// The description in apitrace's own JSON layout.
fn text(file: &str, trace: &ApiTrace, survey: &Survey, has_frames: bool) -> Result<String> {
    let mut text = String::from("{\n");
    let name = serde_json::Value::from(file);
    let packed_bytes = trace.packed_bytes()?.unwrap_or(0);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "  \"FileName\": {name},\n  \"ContainerVersion\": {},\n  \"ContainerType\": \"{}\",\n  \"API\": \"{}\",\n  \
         \"FramesCount\": {},\n  \"ActualDataSize\": {},\n  \"ContainerSize\": {packed_bytes}",
        survey.semantic_version,
        trace.packing().name(),
        survey.api.name(),
        survey.n_frames,
        survey.stream_bytes,
    );
    if has_frames {
        text.push_str(",\n  \"Frames\": [{");
        for (i, frame) in survey.frames.iter().enumerate() {
            let _ = write!(
                text,
                "{}\n    \"FirstCallId\": {},\n    \"LastCallId\": {},\n    \"TotalCalls\": {},\n    \"SizeInBytes\": {}\n  }}",
                if i > 0 { ", {" } else { "" },
                frame.first_call,
                frame.last_call,
                frame.calls,
                frame.bytes,
            );
        }
        // QUIRK: without frames, apitrace prints a single empty one.
        text.push_str(if survey.frames.is_empty() { "\n  }]" } else { "]" });
    }
    text.push_str("\n}\n");
    Ok(text)
}
