//! `help` and `version`: the available verbs and options. The text is ours; the options are apitrace's.

use quipu::model::Error;
use quipu_console::screen::{Outcome, Result};
use std::fmt::Write as _;
use std::io::Write;

/// Help text of a verb.
struct Verb {
    name: &'static str,
    title: &'static str,
    usage: &'static str,
    options: &'static [(&'static str, &'static str)],
}

const OUTPUT: (&str, &str) = ("-o, --output=FILE", "output; an existing file is overwritten");
const HELP: (&str, &str) = ("-h, --help", "print this help");

const VERBS: &[Verb] = &[
    Verb {
        name: "diff",
        title: "compare two traces",
        usage: "[OPTIONS] OLD NEW",
        options: &[
            ("-t, --tool=TOOL", "diff, line by line, or python, call by call"),
            ("-c, --calls=SET", "calls of both traces; default 0-10000"),
            ("--ref-calls=SET", "calls of the old trace"),
            ("--src-calls=SET", "calls of the new trace"),
            ("--call-nos", "print numbers of calls"),
            ("--suppress-common-lines", "print only differences"),
            HELP,
        ],
    },
    Verb {
        name: "dump",
        title: "print the calls of traces as text",
        usage: "[OPTIONS] TRACE...",
        options: &[
            ("-v, --verbose", "print all calls, including those usually skipped"),
            ("--calls=SET", "only these calls"),
            ("--grep=REGEX", "only functions whose names match"),
            ("--color[=WHEN]", "always, never or auto"),
            ("--thread-ids[=BOOL]", "print threads"),
            ("--call-nos[=BOOL]", "print numbers of calls; default yes"),
            ("--arg-names[=BOOL]", "print names of arguments; default yes"),
            ("--multiline[=BOOL]", "print line breaks as they are; default yes"),
            ("--blobs", "write raw memory to files here"),
            HELP,
        ],
    },
    Verb {
        name: "info",
        title: "describe traces as JSON",
        usage: "[OPTIONS] TRACE...",
        options: &[("--dump-frames", "list frames"), HELP],
    },
    Verb { name: "leaks", title: "list objects that are never destroyed", usage: "TRACE", options: &[HELP] },
    Verb {
        name: "repack",
        title: "rewrite a trace in another container",
        usage: "[OPTIONS] TRACE FILE",
        options: &[
            ("-s, --snappy", "readable by most tools; the default"),
            ("-b, --brotli[=LEVEL]", "smallest"),
            ("-z, --zstd[=LEVEL]", "small and fast, with a seek table"),
            ("-g, --zlib[=LEVEL]", "for old readers"),
            HELP,
        ],
    },
    Verb {
        name: "sed",
        title: "replace values in calls",
        usage: "[OPTIONS] TRACE",
        options: &[
            (
                "-e s/SEARCH/REPLACE/",
                "replace strings and names equal to SEARCH; `@file(PATH)` for the contents of a file",
            ),
            ("--property=NAME=VALUE", "set a property of the trace"),
            ("--calls=SET", "only in these calls"),
            OUTPUT,
            HELP,
        ],
    },
    Verb {
        name: "trim",
        title: "extract calls, frames or threads as a new trace",
        usage: "[OPTIONS] TRACE",
        options: &[
            ("--calls=SET", "these calls"),
            ("--frames=SET", "these frames"),
            ("--thread=N", "only calls of this thread; may be repeated"),
            OUTPUT,
            HELP,
        ],
    },
];

/// Features of apitrace that this program refuses, each with the reason: a verb (with `""` for the option), or an option of
/// an emulated verb, by its long name. SPEC: apitrace.md lists them together with the supported ones.
const REFUSED: &[(&str, &str, &str)] = &[
    ("diff", "apitrace", "no other program is run; the traces are read here"),
    ("diff", "width", "it is the column width of `sdiff`, which is not run"),
    ("leaks", "apitrace", "no other program is run; the trace is read here"),
    ("diff-images", "", "it compares pictures, not traces"),
    ("diff-state", "", "it compares states that a replay on a graphics driver printed"),
    ("dump-images", "", "it needs a graphics driver to replay the trace on"),
    ("gltrim", "", "it needs a graphics driver to replay the trace on; `quipu trim --setup` needs none"),
    (
        "pickle",
        "",
        "it prints Python objects that only Python reads; `quipu view --json` prints the same calls",
    ),
    ("replay", "", "it needs a graphics driver to replay the trace on"),
    ("trace", "", "it runs a program on a screen; apitrace itself does that"),
];

/// Options that `help` does not list: alternative spellings, and refused ones.
const FURTHER: &[(&str, &str)] = &[
    ("diff", "--version"),
    ("diff", "-a, --apitrace=PROGRAM"),
    ("diff", "-w, --width=COLUMNS"),
    ("dump", "--colour[=WHEN]"),
    ("leaks", "--version"),
    ("leaks", "-a, --apitrace=PROGRAM"),
];

/// The options of a verb, as they are written: `-t, --tool=TOOL`.
pub(super) fn options(verb: &str) -> impl Iterator<Item = &'static str> {
    let listed = VERBS.iter().filter(move |known| known.name == verb).flat_map(|verb| verb.options);
    let further = FURTHER.iter().filter(move |(of, _)| *of == verb);
    listed.map(|(option, _)| *option).chain(further.map(|(_, option)| *option))
}

/// Whether a verb is emulated.
pub(super) fn has(verb: &str) -> bool {
    VERBS.iter().any(|known| known.name == verb)
}

/// Whether this is one of the two spellings of the option for colours.
pub(super) fn is_color(option: &str) -> bool {
    matches!(option, "color" | "colour")
}

/// The reason why a verb of apitrace, or an option of it, is refused; `None` if apitrace does not have it either.
pub(super) fn refusal(verb: &str, option: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(of, name, _)| *of == verb && *name == option).map(|(.., why)| *why)
}

/// All verbs in one line.
pub(super) fn verbs() -> String {
    let names: Vec<&str> = VERBS.iter().map(|verb| verb.name).collect();
    format!("verbs that are available: {}", names.join(", "))
}

/// Prints the options of a verb, or the list of verbs.
///
/// # Errors
/// `Unsupported` for an unknown verb.
pub(super) fn print(verb: Option<&str>) -> Result<Outcome> {
    let mut text = String::new();
    // Writing to a string cannot fail.
    match verb.filter(|verb| *verb != "help") {
        None => {
            let _ = writeln!(text, "usage: quipu as apitrace VERB [OPTIONS] TRACE...\n");
            for Verb { name, title, .. } in VERBS {
                let _ = writeln!(text, "  {name:<8}{title}");
            }
            let _ = writeln!(text, "\n`help VERB` lists its options.");
        }
        Some(name) => {
            let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else {
                return Err(no_verb(name).into());
            };
            let Verb { name, title, usage, options } = verb;
            let _ = writeln!(text, "usage: quipu as apitrace {name} {usage}\n{title}\n");
            for (option, what) in *options {
                let _ = writeln!(text, "  {option:<26}{what}");
            }
        }
    }
    Ok(say(&text)?)
}

/// The error for a verb that is not emulated, with the reason if apitrace has it.
pub(super) fn no_verb(name: &str) -> Error {
    let what = match refusal(name, "") {
        Some(why) => format!("apitrace's verb `{name}` is not available: {why}"),
        None => format!("apitrace has no verb `{name}`"),
    };
    Error::unsupported(what).hint(verbs())
}

/// Prints the version, and says that Quipu emulates apitrace.
pub(super) fn version() -> Result<Outcome> {
    Ok(say(concat!("apitrace, played by Quipu ", env!("CARGO_PKG_VERSION"), "\n"))?)
}

fn say(text: &str) -> std::io::Result<Outcome> {
    quipu_console::terminal::stdout().write_all(text.as_bytes())?;
    Ok(Outcome::Fine)
}
