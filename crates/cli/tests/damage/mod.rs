//! Damaged traces through all verbs: one rule for all of them, for every format and container.
//!
//! Lost data is an error: the exit code is 1, also with `-q`, and every verb reports the same place. Code 2 is for files
//! that cannot be read at all. Damage that a format cannot detect is not reported by any verb. The samples are in `samples`,
//! the kinds of damage in `harm`, and the comparison of the verbs in `walk`.
//!
//! `QUIPU_DAMAGE=full` damages each sample in many more places. The test of each family of samples can be run alone, and
//! `QUIPU_DAMAGE_KINDS=cut,twice` selects kinds of damage (`cut`, `flip`, `zeros`, `twice`, `blank`, `member`, `file`,
//! `stranger`, `repacked`).

pub(crate) mod harm;
pub(crate) mod samples;
mod walk;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Arguments of a verb for a trace; `None` for verbs that read no trace.
pub(crate) type Call = Option<&'static [&'static str]>;

/// Every verb, in the order of the help. `@` is the damaged trace, `%` an output file, `-` standard output.
pub(crate) const VERBS: &[(&str, Call)] = &[
    ("report", Some(&["report", "@"])),
    ("view", Some(&["view", "@"])),
    ("analyze", Some(&["analyze", "schedule", "@"])),
    // drmemtrace's own analyses read its entries directly.
    ("analyze", Some(&["analyze", "counts", "@"])),
    ("analyze", Some(&["analyze", "schedule-files", "@"])),
    ("check", Some(&["check", "@"])),
    ("convert", Some(&["convert", "@", "-o", "%"])),
    ("convert", Some(&["convert", "@", "-o", "%.arrow"])),
    ("convert", Some(&["convert", "@", "-o", "%.parquet"])),
    ("convert", Some(&["convert", "@", "-o", "-"])),
    ("trim", Some(&["trim", "--take", "1000000", "@", "-o", "%"])),
    ("filter", Some(&["filter", "--drop", "prefetch", "@", "-o", "%"])),
    ("split", Some(&["split", "@", "-o", "%"])),
    ("merge", Some(&["merge", "@", "-o", "%"])),
    ("edit", Some(&["edit", "--property", "a=b", "@", "-o", "%"])),
    ("diff", Some(&["diff", "@", "@"])),
    ("disassemble", Some(&["disassemble", "@", "-o", "%"])),
    ("assemble", None),
    ("recover", Some(&["recover", "@", "-o", "%"])),
    ("record", None),
    ("layout", None),
    ("sim", Some(&["sim", "cache", "@"])),
    ("run", Some(&["run", "--backend", "null", "@", "-o", "%"])),
    ("new-tool", None),
    ("info", Some(&["info", "@"])),
    // Only a special build has the engine.
    ("sql", None),
    // Most traces do not describe themselves.
    ("describe", None),
    ("formats", None),
    ("tools", None),
    ("as", None),
    ("send", None),
    ("collect", None),
    ("cc", None),
    ("c++", None),
    ("rustc-flags", None),
    ("completions", None),
];

/// A word of a command line, with the trace and the output path filled in.
pub(crate) fn word(word: &str, trace: &str, out: &str) -> String {
    if word == "@" { trace.to_owned() } else { word.replace('%', out) }
}

/// Output of a verb.
struct Said {
    code: i32,
    /// Standard output.
    out: String,
    /// Standard error.
    err: String,
    /// Whether the output file exists.
    has_output: bool,
}

/// Runs a verb on a trace.
fn run(call: &[&str], trace: &Path, flags: &[&str]) -> Said {
    let folder = tempfile::tempdir().unwrap();
    let (trace, out) = (trace.to_str().unwrap(), folder.path().join("out"));
    let args = call.iter().map(|arg| word(arg, trace, out.to_str().unwrap()));
    let output =
        Command::new(env!("CARGO_BIN_EXE_quipu")).args(["-j", "1"]).args(args).args(flags).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let has_output = ["", "arrow", "parquet"].iter().any(|ending| out.with_extension(ending).exists());
    Said {
        code: output.status.code().unwrap(),
        // The output has a different name in each run.
        out: text(&output.stdout).replace(out.to_str().unwrap(), "%"),
        err: text(&output.stderr),
        has_output,
    }
}

#[test]
fn every_verb_has_a_row() {
    let listed: BTreeSet<String> = VERBS.iter().map(|(verb, _)| (*verb).to_owned()).collect();
    let known = quipu_cli::command();
    let known: BTreeSet<String> = known.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    assert_eq!(listed, known);
}
