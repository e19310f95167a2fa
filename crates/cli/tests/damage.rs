//! Damaged traces through the verbs: data that is lost is an error everywhere, with exit code 1, also with `-q`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// How a verb is called on a trace; `None` for one that reads no trace of its own.
type Call = Option<&'static [&'static str]>;

/// Every verb, in the order of the help. `@` is the damaged trace, `%` a file to write.
const VERBS: &[(&str, Call)] = &[
    ("report", Some(&["report", "@"])),
    ("view", Some(&["view", "@"])),
    ("analyze", Some(&["analyze", "schedule", "@"])),
    ("check", Some(&["check", "@"])),
    ("convert", Some(&["convert", "@", "-o", "%"])),
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
    ("sim", Some(&["sim", "cache", "@"])),
    ("info", Some(&["info", "@"])),
    ("formats", None),
    ("tools", None),
    ("as", None),
    ("collect", None),
    ("cc", None),
    ("c++", None),
    ("rustc-flags", None),
    ("completions", None),
];

/// Runs a verb on a trace; the exit code and what was said on standard error.
fn run(call: &[&str], trace: &Path, quiet: bool) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let (trace, out) = (trace.to_str().unwrap(), folder.path().join("out"));
    let args = call.iter().map(|arg| match *arg {
        "@" => trace,
        "%" => out.to_str().unwrap(),
        arg => arg,
    });
    let output =
        Command::new(env!("CARGO_BIN_EXE_quipu")).args(quiet.then_some("-q")).args(args).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_cut_file_ends_every_verb_that_can_read_it_with_1_also_with_q() {
    let listed: BTreeSet<String> = VERBS.iter().map(|(verb, _)| (*verb).to_owned()).collect();
    let known = quipu_cli::command();
    let known: BTreeSet<String> = known.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    assert_eq!(listed, known, "each verb has a row");
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    for (name, n_verbs) in
        [("apitrace/threads-3x20.trace", 10), ("cacheray/shapes.trace", 5), ("lackey/nodes.lackey.gz", 5)]
    {
        let bytes = std::fs::read(traces.join(name)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [whole, cut] = ["whole", "cut"].map(|file| folder.path().join(file));
        std::fs::write(&whole, &bytes).unwrap();
        std::fs::write(&cut, &bytes[..bytes.len() * 2 / 3]).unwrap();
        let mut n_able = 0;
        for (verb, call) in VERBS.iter().filter_map(|(verb, call)| Some((verb, (*call)?))) {
            // What a verb cannot do with a whole trace of this format it cannot do with a cut one.
            let (able, said) = run(call, &whole, true);
            if able == 2 {
                continue;
            }
            assert_eq!(able, 0, "{verb} {name}: {said}");
            n_able += 1;
            for quiet in [false, true] {
                let (code, said) = run(call, &cut, quiet);
                assert_eq!(code, 1, "{verb} of cut {name}, quiet: {quiet}: {said}");
                // The answer of `check` is on standard output.
                assert!(*verb == "check" || said.contains("error: "), "{verb} of cut {name}: {said}");
            }
        }
        assert!(n_able >= n_verbs, "{name}: {n_able} verbs");
    }
}
