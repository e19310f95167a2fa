//! Differences between two traces: two runs of one program are equal, and changes are found.

// The helpers of a test may panic as the test may.

use crate::common;
use quipu_apitrace::diff::lines::{LineForm, diff_lines};
use quipu_apitrace::diff::print::Text;
use quipu_apitrace::diff::{At, Difference, Names, Rules, Show, Summary, diff};
use quipu_apitrace::text::{assemble, disassemble};
use quipu_apitrace::trace::{self, ApiTrace};
use quipu_model::damaged::{Damaged, Intake};
use quipu_model::finding::KEPT_PER_RULE;
use quipu_model::transform::Silent;
use quipu_model::{Error, Finding, OpenOptions, Paint, Result};
use quipu_source::Source;

/// Records the reported differences.
#[derive(Default)]
struct Notes(Vec<String>);

fn note(at: At<'_>) -> String {
    let call = at.batch.values.calls[at.row as usize];
    let name = &at.batch.types.function(call.function).unwrap().name;
    format!("{} {}", call.number, String::from_utf8_lossy(name))
}

impl Show for Notes {
    fn property(&mut self, name: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> Result<()> {
        let text = |text: Option<&[u8]>| text.map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        self.0.push(format!("{} {} | {}", text(Some(name)), text(old), text(new)));
        Ok(())
    }

    fn same(&mut self, _: At<'_>, _: At<'_>) -> Result<()> {
        Ok(())
    }

    fn changed(&mut self, old: At<'_>, new: At<'_>, difference: &Difference) -> Result<()> {
        self.0.push(format!("{} | {} {:?} {}", note(old), note(new), difference.args, difference.result));
        Ok(())
    }

    fn deleted(&mut self, old: At<'_>) -> Result<()> {
        self.0.push(format!("- {}", note(old)));
        Ok(())
    }

    fn inserted(&mut self, new: At<'_>) -> Result<()> {
        self.0.push(format!("+ {}", note(new)));
        Ok(())
    }

    fn end(&mut self, _: &Summary) -> Result<()> {
        Ok(())
    }
}

fn compared(old: &ApiTrace, new: &ApiTrace, rules: &Rules) -> (Vec<String>, Summary) {
    let mut notes = Notes::default();
    let summary = diff(old, new, rules, &mut notes, &Silent).unwrap();
    (notes.0, summary)
}

fn open(name: &str) -> ApiTrace {
    trace::open(&common::source(name), &OpenOptions::default()).unwrap()
}

/// A trace whose text was changed.
fn changed(name: &str, change: impl FnOnce(String) -> String) -> ApiTrace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    disassemble::disassemble(&open(name), &path, false, Intake::new(Damaged::Keep), &Silent).unwrap();
    let text = change(std::fs::read_to_string(&path).unwrap());
    let blobs = disassemble::blob_folder(&path);
    let mut blob = |name: &str| {
        std::fs::read(blobs.join(name)).map_err(|cause| Error::usage("no such file").because(cause))
    };
    let mut stream = Vec::new();
    assemble::stream(text.as_bytes(), "text", &mut blob, &mut |part| {
        stream.extend_from_slice(part);
        Ok(())
    })
    .unwrap();
    trace::open(&Source::from_bytes("changed", stream), &OpenOptions::default()).unwrap()
}

/// Moves all addresses, as in another run of the program.
fn moved(text: String) -> String {
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("0x") {
        let (before, number) = rest.split_at(at + 2);
        out.push_str(before);
        let n_digits = number.bytes().take_while(u8::is_ascii_hexdigit).count();
        let address = u64::from_str_radix(&number[..n_digits], 16).unwrap();
        // Bits of floats and flags have parentheses or bars in front of them.
        let is_address = !before.ends_with("(0x") && !before.ends_with("| 0x") && address >= 1 << 16;
        let address = if is_address { address ^ 0x5a50_0000 } else { address };
        out.push_str(&format!("{address:x}"));
        rest = &number[n_digits..];
    }
    out + rest
}

#[test]
fn every_trace_is_equal_to_itself() {
    for name in common::traces() {
        let (notes, summary) = compared(&open(&name), &open(&name), &Rules::ours());
        assert!(summary.is_same(), "{name}: {notes:?}");
    }
}

#[test]
fn versions_and_containers_make_no_difference() {
    for (old, new) in [("kinds", "kinds.brotli"), ("kinds", "synth-v6-tinychunks"), ("kinds", "synth-v3")] {
        let (notes, summary) = compared(&open(old), &open(new), &Rules::ours());
        assert!(summary.is_same(), "{old}, {new}: {notes:?}");
        assert_eq!(summary.same, 257);
    }
}

#[test]
fn two_runs_of_one_program_are_equal() {
    for name in ["kinds", "glxgears-300", "threads-3x20", "tri_glsl"] {
        let again = changed(name, moved);
        let (notes, summary) = compared(&open(name), &again, &Rules::ours());
        assert!(summary.is_same(), "{name}: {notes:?}");
        let exact = Rules { names: Names::Exact, ..Rules::ours() };
        let (_, summary) = compared(&open(name), &again, &exact);
        assert!(summary.changed > 0, "{name}");
    }
}

#[test]
fn names_of_objects_may_differ_but_not_be_mixed_up() {
    let renamed = |text: String| {
        text.replace("textures = [1, 2, 3]", "textures = [7, 8, 9]")
            .replace("texture = 1)", "texture = 7)")
            .replace("texture = 2)", "texture = 8)")
            .replace("texture = 3", "texture = 9")
    };
    let (notes, summary) = compared(&open("kinds"), &changed("kinds", renamed), &Rules::ours());
    // A label names its object by a number; another argument gives the kind.
    assert_eq!((summary.changed, summary.deleted), (0, 0), "{notes:?}");
    let mixed = |text: String| renamed(text).replacen("texture = 8)", "texture = 9)", 1);
    let (notes, summary) = compared(&open("kinds"), &changed("kinds", mixed), &Rules::ours());
    assert_eq!(summary.changed, 1, "{notes:?}");
    assert_eq!(notes, ["17 glBindTexture | 17 glBindTexture [1] false"]);
}

#[test]
fn what_was_changed_inserted_and_deleted_is_found() {
    let edit = |text: String| {
        let lines = text.lines().flat_map(|line| match line.split_once(": ") {
            Some(("41", _)) => vec![],
            Some(("60", call)) => vec![line.to_owned(), call.to_owned()],
            Some(("100", _)) => vec![line.replace("GL_ONE_MINUS_SRC_ALPHA", "GL_ONE")],
            _ => vec![line.to_owned()],
        });
        lines.map(|line| line + "\n").collect()
    };
    let (notes, summary) = compared(&open("tri_glsl"), &changed("tri_glsl", edit), &Rules::ours());
    assert!(summary.deleted >= 1 && summary.inserted >= 1, "{notes:?}");
    assert_eq!(summary.deleted, 1, "{notes:?}");
    assert_eq!(summary.inserted, 1, "{notes:?}");
}

#[test]
fn what_is_no_number_equals_itself_whatever_its_bits() {
    let trace = |value: &str| {
        let calls = format!("0: glFoo(a = 1, b = {value})\n1: glFoo(a = 2, b = [{value}, 1.0])\n");
        common::written(&format!("function 0 glFoo(a, b)\n{calls}"))
    };
    let [nan, other, number] = ["float(0x7fc00000)", "float(0xffc00001)", "1.0f"].map(trace);
    let strict = Rules { nan_is_equal: false, ..Rules::ours() };
    assert_eq!(compared(&nan, &other, &Rules::ours()).0, [""; 0]);
    for (old, new, rules) in [(&nan, &number, &Rules::ours()), (&nan, &other, &strict), (&nan, &nan, &strict)]
    {
        let (_, summary) = compared(old, new, rules);
        assert_eq!((summary.same, summary.changed + summary.inserted), (0, 2));
    }
}

#[test]
fn traces_that_have_nothing_in_common_are_compared_as_well() {
    let (_, summary) = compared(&open("glxgears-300"), &open("tri_glsl"), &Rules::ours());
    assert_eq!(summary.same + summary.changed + summary.deleted, 7949);
    assert_eq!(summary.same + summary.changed + summary.inserted, 6939);
}

#[test]
fn properties_and_marks_of_the_tracer_count() {
    let moved = |text: String| text.replacen("/opt/demo/kinds", "/opt/other", 1);
    let (notes, summary) = compared(&open("kinds"), &changed("kinds", moved), &Rules::ours());
    assert_eq!(notes, ["process.name /opt/demo/kinds | /opt/other"]);
    assert_eq!((summary.properties, summary.changed, summary.is_same()), (1, 0, false));
    let made = |text: String| text.replacen(" !fake", "", 1);
    let (notes, summary) = compared(&open("kinds"), &changed("kinds", made), &Rules::ours());
    assert_eq!(notes, ["3 glViewport | 3 glViewport [] false"]);
    assert_eq!((summary.properties, summary.changed, summary.is_same()), (0, 1, false));
}

#[test]
fn damaged_traces_are_compared_up_to_the_damage() {
    let whole = open("glxgears-300");
    let mut stream = common::stream("glxgears-300");
    let middle = stream.len() / 2;
    stream[middle..middle + 64].fill(0xff);
    let damaged = trace::open(&Source::from_bytes("damaged", stream), &OpenOptions::default()).unwrap();
    for (old, new) in [(&whole, &damaged), (&damaged, &whole)] {
        let mut notes = Notes::default();
        let summary = diff(old, new, &Rules::ours(), &mut notes, &Silent).unwrap();
        let is_damaged = summary.readings.map(|reading| reading.error.is_some());
        assert_eq!(is_damaged, [old, new].map(|trace| std::ptr::eq(trace, &damaged)));
        // At most the call that contains the first damaged byte.
        assert!(notes.0.len() <= 2, "{:?}", notes.0);
    }
    let mut notes = Notes::default();
    let summary = diff(&damaged, &damaged, &Rules::ours(), &mut notes, &Silent).unwrap();
    assert!(summary.readings.iter().all(|reading| reading.error.is_some()));
    assert_eq!(notes.0, [""; 0]);
    // Lines are compared once all of both traces are read.
    let mut out = Vec::new();
    let readings = diff_lines([&damaged, &whole], ["*", "*"], LineForm::default(), &mut out).unwrap();
    assert_eq!(readings.map(|reading| reading.error.is_some()), [true, false]);
    assert!(out.is_empty());
}

#[test]
fn what_is_kept_of_findings_does_not_grow_with_their_number() {
    let calls: String = (0..20_000).map(|i| format!("glEnd()\nleave #{i} ()\n")).collect();
    let odd = common::written(&format!("function 0 glEnd()\n{calls}"));
    let summary = diff(&odd, &odd, &Rules::ours(), &mut Notes::default(), &Silent).unwrap();
    let form = LineForm { suppress_common_lines: true, ..LineForm::default() };
    let lines = diff_lines([&odd, &odd], ["*", "*"], form, &mut std::io::sink()).unwrap();
    for reading in summary.readings.into_iter().chain(lines) {
        let of_rule = |rule: &&Finding| rule.rule == "apitrace/left-twice";
        let n_found: u64 = reading.findings.iter().filter(of_rule).map(|finding| finding.count).sum();
        let n_kept = reading.findings.iter().filter(of_rule).count() as u64;
        assert_eq!((n_found, n_kept), (20_000, KEPT_PER_RULE), "{:?}", reading.findings);
    }
}

#[test]
fn calls_are_printed_as_their_own_trace_names_them() {
    let [old, new] = ["glDeleteBuffers(n, buffers)", "glGenTextures(count, names)"].map(|function| {
        let args: Vec<_> = function.split(['(', ')', ',']).map(str::trim).collect();
        let call = format!("{}({} = 1, {} = 5)", args[0], args[1], args[2]);
        common::written(&format!("function 0 {function}\nfunction 1 glEnd()\n{call}\nglEnd()\n"))
    });
    let mut out = Vec::new();
    let mut text = Text::new(&mut out, &Paint::PLAIN, 3, ["old", "new"]).unwrap();
    diff(&old, &new, &Rules::ours(), &mut text, &Silent).unwrap();
    let out = String::from_utf8(out).unwrap();
    let lines: Vec<_> = out.lines().filter(|line| line.contains('(')).collect();
    let expected = ["- 0 glDeleteBuffers(n = 1, buffers = 5)", "+ 0 glGenTextures(count = 1, names = 5)"];
    assert_eq!(lines, [&expected[..], &["  1 1 glEnd()"]].concat(), "{out}");
}
