//! Runs every verb on every sample with every kind of damage.

use super::harm::{Harm, Repacked};
use super::samples::{self, Sample};
use super::{Said, VERBS, run};
use quipu::apitrace::pack::StreamWriter;
use quipu::apitrace::trace::Packing;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

/// Verbs that may find more than reading alone does: they examine the meaning of records, or continue after damage.
const JUDGES: &[&str] = &["check", "recover"];

/// Verbs that write what they can save by default.
const KEEPS: &[&str] = &["recover"];

/// Verbs whose `--json` output is one object.
const ANSWERS_JSON: &[&str] = &[
    "report",
    "analyze",
    "check",
    "convert",
    "trim",
    "filter",
    "split",
    "merge",
    "edit",
    "disassemble",
    "recover",
    "sim",
    "info",
];

/// Command lines of other programs, as arguments of `quipu as`.
const PLAYED: &[&[&str]] = &[
    &["as", "cacheray", "tracecheck", "@"],
    &["as", "apitrace", "dump", "@"],
    &["as", "apitrace", "info", "@"],
    &["as", "apitrace", "leaks", "@"],
    &["as", "apitrace", "repack", "@", "%"],
    &["as", "apitrace", "trim", "--calls=0-1000000", "-o", "%", "@"],
    &["as", "apitrace", "sed", "-e", "s/a/b/", "-o", "%", "@"],
    &["as", "apitrace", "diff", "@", "@"],
    &["as", "apitrace", "diff", "--tool=python", "@", "@"],
    &["as", "dtrace", "@"],
    &["as", "drmemtrace", "-tool", "basic_counts", "-infile", "@"],
    &["as", "drmemtrace", "-tool", "view", "-infile", "@"],
    &["as", "drmemtrace", "-tool", "record_filter", "-outdir", "%", "-infile", "@"],
    &["as", "drmemtrace", "-tool", "basic_counts", "-indir", "@"],
    &["as", "drmemtrace", "-tool", "record_filter", "-outdir", "%", "-indir", "@"],
];

/// Whether a command line is for traces of this kind.
fn is_played(call: &[&str], sample: &Sample) -> bool {
    let is_fitting = !call.contains(&"-infile") && !call.contains(&"-indir")
        || call.contains(&"-indir") == (sample.trace != sample.file);
    sample.name.split('.').next() == Some(call[1]) && is_fitting
}

/// The place of damage as printed: offset, record, instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// File name, with the member in parentheses.
    file: String,
    offset: Option<u64>,
    record: Option<u64>,
    instr: Option<u64>,
}

/// Error lines in order, without summaries.
fn errors(text: &str) -> impl Iterator<Item = &str> {
    let errors = text.lines().filter_map(|line| line.strip_prefix("error: "));
    errors.filter(|line| {
        let meanings = [
            "; the numbers below are about the rest",
            " is the rest",
            " is doubtful",
            "; nothing was written",
            "; printing stopped there",
            "; the rest was compared",
            "; there is no answer",
            "; nothing is described",
        ];
        !meanings.iter().any(|meaning| line.ends_with(meaning))
    })
}

/// The places in error lines, in order.
fn places(text: &str) -> Vec<Place> {
    errors(text).map(place).collect()
}

/// The place at the start of a line.
fn place(line: &str) -> Place {
    let names_no_file = ["offset ", "record ", "instr "].iter().any(|word| line.starts_with(word));
    let (file, rest) = if names_no_file { ("", line) } else { line.split_once(": ").unwrap_or((line, "")) };
    let mut place = Place { file: file.rsplit('/').next().unwrap_or(file).to_owned(), ..Place::default() };
    let (numbers, _) = rest.split_once(": ").unwrap_or((rest, ""));
    for word in numbers.split(", ") {
        let number = |name: &str| {
            let text = word.strip_prefix(name)?;
            match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            }
        };
        place.offset = place.offset.or(number("offset "));
        place.record = place.record.or(number("record "));
        place.instr = place.instr.or(number("instr "));
    }
    place
}

/// The places of errors in a JSON object.
fn places_in(answer: &Value) -> Vec<Place> {
    let found = answer["findings"].as_array().into_iter().flatten();
    let errors = found.filter(|finding| finding["severity"] == "error").chain([&answer["error"]]);
    let errors = errors.filter(|error| !error.is_null());
    let place = |error: &Value| {
        let place = &error["place"];
        let name = place["file"].as_str().unwrap_or("").rsplit('/').next().unwrap_or("").to_owned();
        let file = match place["member"].as_str() {
            Some(member) => format!("{name}({member})"),
            None => name,
        };
        let number = |key: &str| place[key].as_u64();
        Place { file, offset: number("offset"), record: number("record"), instr: number("instr") }
    };
    errors.map(place).collect()
}

/// The rules of the manual with their severities.
fn manual() -> &'static BTreeMap<String, String> {
    static MANUAL: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    MANUAL.get_or_init(|| {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut rules = BTreeMap::new();
        for page in ["checks.md"] {
            let text = fs::read_to_string(docs.join(page)).unwrap();
            for entry in text.split("\n### `").skip(1) {
                let (rule, rest) = entry.split_once("`\n\n*").unwrap();
                let (severity, _) = rest.split_once(".*").unwrap();
                rules.insert(rule.to_owned(), severity.to_lowercase());
            }
        }
        assert!(rules.len() > 150, "{rules:?}");
        rules
    })
}

/// Compares the severities of findings with the manual.
fn compare_with_manual(answer: &Value) -> Vec<String> {
    let found = answer["findings"].as_array().into_iter().flatten();
    let pairs =
        found.map(|finding| (finding["rule"].as_str().unwrap(), finding["severity"].as_str().unwrap()));
    let is_wrong =
        |(rule, severity): &(&str, &str)| manual().get(*rule).is_none_or(|known| known != severity);
    pairs
        .filter(is_wrong)
        .map(|(rule, severity)| {
            format!("`{rule}` is of severity {severity}, the manual has {:?}", manual().get(rule))
        })
        .collect()
}

/// A verb's report on one damaged trace.
struct Told {
    verb: &'static str,
    code: i32,
    places: Vec<Place>,
    /// Place where reading stopped, if it did.
    stop: Option<Place>,
    /// Whether the verb writes a file.
    writes: bool,
    /// The reported loss.
    lost: Option<String>,
    /// The printed text, for messages.
    text: String,
    /// Whether the result equals that of the undamaged trace.
    is_as_whole: bool,
}

/// Whether the trace was found damaged before its format was recognised.
fn is_not_opened(said: &str) -> bool {
    said.contains("that cannot be inflated at all")
        || said.contains("nothing of the file can be read")
        || said.contains("in whose first bytes no format is recognised")
        || said.contains("there is no whole frame of the stream")
}

/// Compares the output that a verb writes for a damaged trace with its messages: no output, or a doubtful file.
fn compare_kept(
    verb: &str,
    call: &[&str],
    sample: &Sample,
    (said, has_output): (&str, bool),
    wrong: &mut Vec<String>,
) {
    if is_not_opened(said) {
        // There is nothing to keep.
        if has_output || run(call, &sample.trace, &["--keep-damaged"]).code != 1 {
            wrong.push(format!("{verb} writes ({has_output}), or keeps: {said}"));
        }
        return;
    }
    if has_output || !said.contains("--keep-damaged") || !said.contains("nothing was written") {
        wrong.push(format!("{verb} writes ({has_output}), or does not say how to keep it: {said}"));
    }
    let kept = run(call, &sample.trace, &["--keep-damaged"]);
    let is_nothing_left = kept.err.contains("nothing of the trace can be read") && kept.code == 1;
    let is_kept = kept.has_output && kept.code == 1 && kept.err.contains("what was written is doubtful");
    if !is_kept && (kept.has_output || !is_nothing_left) {
        let Said { code, err, has_output, .. } = kept;
        wrong.push(format!("{verb} --keep-damaged: exit code {code}, writes {has_output}: {err}"));
    }
}

/// Start of the message after damaged records went into a pipe.
const DOUBTFUL_PIPE: &str = "standard output: after record ";

/// The lines of a JSON object among other lines.
fn object_in(text: &str) -> String {
    let lines = text.lines().skip_while(|line| *line != "{");
    let end = lines.clone().position(|line| line == "}").map_or(0, |at| at + 1);
    lines.take(end).collect::<Vec<_>>().join("\n")
}

/// Runs a verb plainly, with `-q` and, if its result is an object, with `--json`; reports differences.
fn tell(
    verb: &'static str,
    (call, whole): (&[&str], &str),
    sample: &Sample,
    wrong: &mut Vec<String>,
) -> Told {
    let Said { code, out, err, has_output } = run(call, &sample.trace, &[]);
    let is_as_whole = out == whole;
    let writes = call.iter().any(|arg| arg.contains('%')) && !KEEPS.contains(&verb);
    let is_into_pipe = call.contains(&"-");
    // Output to a pipe cannot be undone.
    if is_into_pipe && code == 1 && !is_not_opened(&err) && !err.contains(DOUBTFUL_PIPE) {
        wrong.push(format!("{call:?} does not say from which record on it is doubtful: {err}"));
    }
    if writes && code == 1 {
        compare_kept(verb, call, sample, (&err, has_output), wrong);
    }
    // The result of `check` is its findings.
    let text = if verb == "check" { format!("{out}{err}") } else { err };
    let places = places(&text);
    let is_json = ANSWERS_JSON.contains(&verb);
    let flags: &[&str] = if is_json { &["-q", "--json"] } else { &["-q"] };
    let quiet = run(call, &sample.trace, flags);
    if quiet.code != code {
        wrong.push(format!("{verb} {flags:?}: exit code {}, without {code}: {}", quiet.code, quiet.err));
    }
    if is_json && code != 2 {
        let answer = if is_into_pipe { object_in(&quiet.err) } else { quiet.out.clone() };
        match serde_json::from_str::<Value>(&answer) {
            Err(error) => wrong.push(format!("{call:?} --json: {error}: {answer:?}")),
            Ok(answer) => {
                wrong.extend(compare_with_manual(&answer));
                let said = places_in(&answer);
                if let Some(lost) = places.iter().find(|place| !said.contains(place)) {
                    wrong.push(format!("{verb} --json has {said:?} and lacks {lost:?}"));
                }
            }
        }
    }
    // Errors, unlike findings, have no rule.
    let stop = errors(&text).find(|line| !line.ends_with(']'));
    let stop = stop.map(place);
    let lost = text.lines().find_map(|line| {
        let (lost, _) = line.strip_prefix("error: ")?.rsplit_once("; ")?;
        lost.contains(" lost").then(|| lost.to_owned())
    });
    Told { verb, code, places, stop, writes, lost, text, is_as_whole }
}

/// Whether a line reports a loss.
fn says_loss(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("error: ") && line.contains(" lost"))
}

/// Compares the emulated command lines of other programs with a verb that reads the same trace.
fn compare_played(sample: &Sample, first: &Told, wrong: &mut Vec<String>) {
    for call in PLAYED.iter().filter(|call| is_played(call, sample)) {
        let Said { code, err, .. } = run(call, &sample.trace, &[]);
        // They know one format, and report that the trace does not have it.
        if code == 1 && is_not_opened(&first.text) && err.contains("failed to open") {
            continue;
        }
        if code != first.code {
            wrong.push(format!("{call:?}: exit code {code}, {} {}: {err}", first.verb, first.code));
        }
        let is_said = match &first.lost {
            Some(lost) if sample.is_headed => err.contains(lost.as_str()),
            Some(_) => says_loss(&err),
            None => true,
        };
        if !is_said {
            wrong.push(format!("{call:?}: {} loses {:?}: {err}", first.verb, first.lost));
        }
    }
}

/// All records of a trace as text.
fn content_of(sample: &Sample) -> String {
    run(&["view", "@"], &sample.trace, &["-q"]).out
}

/// Whether a trace still has the records of the undamaged one. Containers and texts have bits without meaning: padding,
/// names, times. Changing one of these is not damage.
fn is_same(sample: &Sample, content: &str) -> bool {
    !content.is_empty() && content_of(sample) == content
}

/// Result of an analysis that reads a whole trace.
struct Read {
    n_records: u64,
    /// The reported loss.
    lost: Value,
}

/// Size of the undamaged sample.
#[derive(Clone, Copy)]
struct Whole {
    n_bytes: usize,
    n_records: u64,
}

/// Reads all records of a trace; `None` if it cannot be opened.
fn read_all(sample: &Sample) -> Option<Read> {
    let said = run(&["analyze", "schedule", "@"], &sample.trace, &["-q", "--json"]);
    let mut answer: Value = serde_json::from_str(&said.out).ok()?;
    let threads = answer["results"]["schedule"]["threads"].as_array()?;
    let n_records = threads.iter().map(|thread| thread["records"].as_u64().unwrap()).sum();
    Some(Read { n_records, lost: answer["lost"].take() })
}

/// Compares the reported loss with the damage, and with the number of missing records. Returns whether that number is known.
fn compare_lost(harm: Harm, sample: &Sample, whole: Whole, wrong: &mut Vec<String>) -> bool {
    let Some(Read { n_records, lost }) = read_all(sample) else { return false };
    let gaps = lost["gaps"].as_array().map_or(&[][..], Vec::as_slice);
    // Offsets in compressed data refer to the inflated bytes.
    let is_bare = !sample.name.contains('.');
    let damaged = harm.run_in(whole.n_bytes).filter(|_| is_bare);
    if let (Some(damaged), [first, ..]) = (damaged, gaps) {
        let stopped = first["stopped"]["offset"].as_u64();
        let resumed = first["resumed"]["offset"].as_u64();
        if stopped.is_some_and(|at| at >= damaged.end) || resumed.is_some_and(|at| at < damaged.start) {
            wrong.push(format!("the first gap, {stopped:?} to {resumed:?}, is not at {damaged:?}"));
        }
    }
    // Repeated or reordered records are both lost and read.
    let adds = matches!(
        harm,
        Harm::Twice(_) | Harm::Repacked(Repacked::Twice | Repacked::Repetition | Repacked::Swapped)
    );
    let n_missing = whole.n_records.saturating_sub(n_records);
    let (known, is_right) = match &lost["records"] {
        _ if adds => (false, true),
        Value::Number(n) => (true, n.as_u64() == Some(n_missing)),
        Value::Object(least) => (true, least["at_least"].as_u64().is_some_and(|n| n <= n_missing)),
        _ => (false, true),
    };
    if !is_right {
        let lost = &lost["records"];
        wrong.push(format!(
            "{n_records} of {} records are read, and {lost} are said to be lost",
            whole.n_records
        ));
    }
    known
}

/// Whether the part that was cut off contains only positions of frames.
fn is_end_of_carrier(harm: Harm, sample: &Sample) -> bool {
    (sample.name.ends_with(".carried") || sample.name.ends_with(".frames"))
        && (harm == Harm::Cut(999) || sample.name == "din.carried")
}

/// Compares the reports of all verbs on one damaged trace.
fn judge(harm: Harm, (sample, content): (&Sample, &str), told: &[Told], wrong: &mut Vec<String>) {
    let is_reader = |told: &&Told| !(JUDGES.contains(&told.verb) || sample.is_headed && told.verb == "info");
    let is_concerned = |told: &&Told| !(sample.is_read_in_part() && told.code == 0 && told.is_as_whole);
    let readers: Vec<&Told> = told.iter().filter(is_reader).filter(is_concerned).collect();
    let notices_nothing = |told: &&Told| told.verb == "check" && told.code == 0;
    if let Some(check) = told.iter().find(notices_nothing)
        && sample.has_checksums
        && sample.is_read_in_part()
        && !is_same(sample, content)
    {
        wrong.push(format!("check notices nothing: {}", check.text));
    }
    let Some(first) = readers.first() else { return };
    let is_noticed = sample.has_checksums && harm != Harm::MissingFile
        || matches!(harm, Harm::Cut(650 | 999)) && sample.name != "din" && !is_end_of_carrier(harm, sample);
    let is_noticed = is_noticed || matches!(harm, Harm::Zeros(_)) && sample.name == "lackey";
    // The schedule files next to them name threads and cores.
    let is_noticed = is_noticed || matches!(harm, Harm::MissingFile | Harm::Stranger);
    if is_noticed && first.code == 0 && !is_same(sample, content) {
        wrong.push(format!("{} notices nothing", first.verb));
    }
    for other in &readers[1..] {
        if other.code != first.code {
            wrong.push(format!(
                "exit codes: {} {}, {} {}: {}",
                first.verb, first.code, other.verb, other.code, other.text
            ));
        }
    }
    if first.code == 2 {
        // If the container is known, data that cannot be inflated is damage like any other.
        let reasons = ["no known trace format", "there is no frame of a stream"];
        if !reasons.iter().any(|reason| first.text.contains(reason)) {
            wrong.push(format!("{} has nothing to say: {}", first.verb, first.text));
        }
        return;
    }
    compare_played(sample, first, wrong);
    // The place where reading stopped, if it did: a verb that writes a file ends there and reports nothing later.
    let Some(place) = first
        .stop
        .as_ref()
        .or(first.places.iter().min_by_key(|place| (place.offset.is_none(), place.offset)))
    else {
        return;
    };
    // Nothing can be recovered from a stream whose first frame is lost.
    let reads_heads = sample.is_headed || sample.is_read_in_part();
    let is_told =
        |told: &&Told| !(reads_heads && told.verb == "info") && told.code != 2 && is_concerned(told);
    for other in told.iter().filter(is_told) {
        // A file to write ends at the first damage.
        let is_named = match (&other.stop, other.writes) {
            (Some(stop), true) if !sample.is_read_in_part() => first.places.contains(stop),
            // Each column has a place of its own.
            _ if sample.is_read_in_part() => other.places.iter().any(|known| known.file == place.file),
            _ => other.places.contains(place),
        };
        if !is_named {
            wrong.push(format!("{} has {place:?}; {} lacks it: {:?}", first.verb, other.verb, other.places));
        }
        // A text keeps unreadable parts as bytes.
        let is_silent = other.lost.is_none() && first.lost.is_some() && other.verb != "disassemble";
        if is_silent && !JUDGES.contains(&other.verb) {
            wrong.push(format!("{} loses {:?}, {}: {}", first.verb, first.lost, other.verb, other.text));
        }
        if other.code == 1 && JUDGES.contains(&other.verb) && other.lost.is_none() && first.lost.is_some() {
            wrong.push(format!("{} says nothing of {:?}: {}", other.verb, first.lost, other.text));
        }
        if sample.is_headed && other.lost != first.lost {
            wrong.push(format!(
                "{} loses {:?}, {} loses {:?}",
                first.verb, first.lost, other.verb, other.lost
            ));
        }
        if JUDGES.contains(&other.verb) && other.code < first.code {
            wrong.push(format!("exit codes: {} {}, {} {}", first.verb, first.code, other.verb, other.code));
        }
    }
}

/// Applies all kinds of damage to one sample.
fn walk(sample: &Sample) -> Vec<String> {
    let whole = fs::read(&sample.file).unwrap();
    let calls = VERBS.iter().filter_map(|(verb, call)| Some((*verb, (*call)?)));
    // Verbs that fail on the undamaged trace are left out.
    let able: Vec<_> = calls
        .filter_map(|(verb, call)| {
            let said = run(call, &sample.trace, &[]);
            assert!(said.code != 1, "{verb} of whole {}: {}{}", sample.name, said.out, said.err);
            (said.code == 0).then_some((verb, call, said.out))
        })
        .collect();
    assert!(able.len() >= 3, "{}: {able:?}", sample.name);
    let content = content_of(sample);
    let n_records = read_all(sample).map_or(0, |read| read.n_records);
    let size = Whole { n_bytes: whole.len(), n_records };
    let mut n_known = 0;
    let mut all = Vec::new();
    for harm in Harm::all() {
        if harm == Harm::MissingFile {
            if sample.trace == sample.file {
                continue;
            }
            fs::remove_file(&sample.file).unwrap();
        } else {
            let Some(damaged) = harm.done_to(&whole) else { continue };
            fs::write(&sample.file, damaged).unwrap();
        }
        let mut wrong = Vec::new();
        let told: Vec<Told> =
            able.iter().map(|(verb, call, whole)| tell(verb, (call, whole), sample, &mut wrong)).collect();
        judge(harm, (sample, &content), &told, &mut wrong);
        n_known += usize::from(compare_lost(harm, sample, size, &mut wrong));
        all.extend(wrong.into_iter().map(|what| format!("{} {harm:?}: {what}", sample.name)));
    }
    fs::write(&sample.file, whole).unwrap();
    // Chunks record the number of instructions before them.
    assert!(n_known > 0 || sample.name != "drmemtrace.zip", "no number of lost records was compared");
    all
}

#[test]
fn severities_in_the_manual_are_those_of_the_rules() {
    let formats = quipu::FORMATS.iter().flat_map(|format| format.rules());
    for rule in formats {
        assert_eq!(manual().get(rule.name).map(String::as_str), Some(rule.severity.name()), "{}", rule.name);
    }
}

/// Applies all kinds of damage to some samples, and compares the reports of all verbs.
fn walk_all(names: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let samples = Mutex::new(samples::some(folder.path(), &|name| names.contains(&name)));
    let wrong = Mutex::new(BTreeMap::new());
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..n_threads.min(names.len()) {
            scope.spawn(|| {
                loop {
                    let Some(sample) = samples.lock().unwrap().pop() else { break };
                    let found = walk(&sample);
                    wrong.lock().unwrap().insert(sample.name, found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert_eq!(wrong.len(), names.len(), "{names:?}");
    let wrong: Vec<String> = wrong.into_values().flatten().collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

/// One test per family, so that each can be run alone and even the full form ends in time.
macro_rules! families {
    ($($family:ident: $names:expr,)*) => {
        mod all_verbs_tell_the_same_of_damaged_traces {
            $(
                #[test]
                fn $family() {
                    super::walk_all(&$names);
                }
            )*

            #[test]
            fn of_every_family() {
                let folder = tempfile::tempdir().unwrap();
                let mut walked = Vec::new();
                $(walked.extend($names);)*
                let mut known: Vec<_> = super::samples::all(folder.path()).iter().map(|sample| sample.name).collect();
                walked.sort_unstable();
                known.sort_unstable();
                assert_eq!(walked, known);
            }
        }
    };
}

families! {
    drmemtrace_archives: ["drmemtrace.zip"],
    drmemtrace_bare: ["drmemtrace"],
    drmemtrace_packed: ["drmemtrace.gz", "drmemtrace.zst"],
    drmemtrace_framed: ["drmemtrace.lz4", "drmemtrace.sz"],
    drmemtrace_threads: ["drmemtrace.threads"],
    drmemtrace_cores: ["drmemtrace.cores"],
    drmemtrace_raw: ["drmemtrace-raw", "drmemtrace-raw.carried"],
    apitrace: ["apitrace"],
    apitrace_snappy: ["apitrace.snappy", "apitrace.chunks"],
    apitrace_packed: ["apitrace.gz", "apitrace.br"],
    apitrace_zstd: ["apitrace.zst"],
    cacheray: ["cacheray", "cacheray.gz"],
    lackey: ["lackey", "lackey.gz"],
    din: ["din", "din.gz", "xdin.gz"],
    prism: ["prism.quipu"],
    recording: ["recording"],
    stream: ["stream"],
    columnar: ["columnar", "columnar.lens", "columnar.file", "columnar.arrow", "columnar.arrows"],
    dtrace_buffers: ["dtrace.buffer", "dtrace.aggregations"],
    dtrace_lines: ["dtrace.raw", "dtrace.raw.gz"],
    dtrace_described: ["dtrace.midbuf", "dtrace.quipu"],
    carried_frames: ["drmemtrace.frames", "apitrace.frames"],
    carried: ["drmemtrace.carried", "apitrace.carried", "cacheray.carried", "lackey.carried", "din.carried"],
}

#[test]
fn a_call_that_is_left_under_a_number_that_it_cannot_have_ends_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.trace");
    let mut bytes = fs::read(quipu_testkit::fixtures("apitrace").join("threads-3x20.trace")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&path, bytes).unwrap();
    for verb in [
        "view",
        "analyze",
        "report",
        "check",
        "info",
        "convert",
        "trim",
        "edit",
        "diff",
        "disassemble",
        "recover",
    ] {
        let (_, call) = VERBS.iter().find(|(name, _)| *name == verb).unwrap();
        let Said { code, out, err, .. } = run(call.unwrap(), &path, &["-q"]);
        let said = format!("{out}{err}");
        assert_eq!(code, 1, "{verb}: {said}");
        assert!(
            said.contains("offset 0x2c88, record 223: call 4473946639201 is left when"),
            "{verb}: {said}"
        );
    }
}

/// For verbs that read or write a trace of calls: the exit code and the first words on a damaged one, without the file name.
fn said_of_calls(path: &Path) -> BTreeMap<(i32, String), Vec<&'static str>> {
    let mut said: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for verb in ["view", "report", "info", "diff", "check", "convert", "trim", "edit", "disassemble"] {
        let (_, call) = VERBS.iter().find(|(name, _)| *name == verb).unwrap();
        let Said { code, err, has_output, .. } = run(call.unwrap(), path, &[]);
        assert!(!has_output, "{verb}: {err}");
        let first = err.lines().next().unwrap_or_default();
        let lost = first.rsplit_once("; ").map_or(first, |(lost, _)| lost);
        said.entry((code, lost.to_owned())).or_default().push(verb);
    }
    said
}

#[test]
fn damage_after_a_call_that_is_left_twice_is_lost_in_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.trace");
    let mut bytes = fs::read(quipu_testkit::fixtures("apitrace").join("kinds.brotli.trace")).unwrap();
    let near_end = bytes.len() - 20;
    bytes[near_end] ^= 0x40;
    fs::write(&path, bytes).unwrap();
    let said = said_of_calls(&path);
    let [((code, lost), _)] = &said.iter().collect::<Vec<_>>()[..] else { panic!("{said:#?}") };
    assert!(*code == 1 && lost.ends_with("offset 0x1fc93, record 253"), "{said:#?}");
}

#[test]
fn a_damaged_version_is_damage_to_every_verb_and_a_newer_one_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("version.trace");
    let from = quipu_testkit::fixtures("apitrace").join("kinds.trace");
    let whole = quipu::source::Source::open(&from).unwrap().head(64 << 20).unwrap();
    for (head, code) in [([38, 6], 1), ([6, 38], 1), ([28, 6], 1), ([7, 7], 2)] {
        let mut writer = StreamWriter::new(Vec::new(), Packing::Snappy, None).unwrap();
        writer.write(&[&head[..], &whole[2..]].concat()).unwrap();
        fs::write(&path, writer.finish().unwrap()).unwrap();
        let said = said_of_calls(&path);
        let [((told, lost), _)] = &said.iter().collect::<Vec<_>>()[..] else { panic!("{head:?}: {said:#?}") };
        let is_lost = lost.ends_with("offset 0x0, record 0");
        assert_eq!((*told, is_lost), (code, code == 1), "{head:?}: {said:#?}");
    }
}

/// Command lines that read all records of a trace of any family, with one of its analyses.
fn readers_of(family: &str) -> Vec<Vec<&'static str>> {
    let analysis = if family == "apitrace" { "calls" } else { "working-set" };
    vec![
        vec!["analyze", analysis, "@"],
        vec!["report", "@"],
        vec!["check", "@"],
        vec!["info", "@"],
        vec!["view", "@"],
    ]
}

#[test]
fn what_no_right_checksum_vouches_for_counts_nowhere() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let samples =
        samples::some(folder.path(), &|name| ["apitrace", "cacheray", "lackey", "din"].contains(&name));
    let mut wrong = Vec::new();
    for sample in samples {
        let content = fs::read(&sample.file).unwrap();
        // In a large file, much data is delivered before the checksum is reached. A stream of calls cannot be repeated.
        let n_times = if sample.name == "apitrace" { 1 } else { 6_000_000 / content.len() + 1 };
        for n_times in [1, n_times] {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
            (0..n_times).for_each(|_| gzip.write_all(&content).unwrap());
            let mut bytes = gzip.finish().unwrap();
            let checksum = bytes.len() - 8;
            bytes[checksum] ^= 1;
            let path = folder.path().join(format!("{}.gz", sample.name));
            fs::write(&path, bytes).unwrap();
            for call in readers_of(sample.name) {
                let Said { code, out, err, .. } = run(&call, &path, &[]);
                let place = format!("{}.gz: offset 0x0, record 0", sample.name);
                // Records that `view` has printed by then cannot be taken back.
                let place = if call[0] == "view" { "after record 0, what was printed" } else { &place };
                if code != 1 || !format!("{out}{err}").contains(place) {
                    wrong.push(format!("{call:?} {} × {n_times}: {code}, {err}", sample.name));
                }
            }
            for call in [&["analyze", "schedule", "@"][..], &["info", "@"]] {
                let answer = run(call, &path, &["--json", "-q"]).out;
                let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
                let counts = [&answer["records"], &answer["facts"]["records"], &answer["facts"]["calls"]];
                if counts.iter().any(|count| count.as_u64().is_some_and(|n| n > 0)) {
                    wrong.push(format!("{call:?} {} × {n_times}: {counts:?} count", sample.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn zeros_among_calls_are_no_calls() {
    let folder = tempfile::tempdir().unwrap();
    let from = quipu_testkit::fixtures("apitrace").join("glxgears-300.trace");
    let plain = folder.path().join("whole");
    let mut convert = std::process::Command::new(env!("CARGO_BIN_EXE_quipu"));
    convert.arg("-q").arg("convert").args(["--container", "plain"]).arg(&from).arg("-o").arg(&plain);
    assert!(convert.status().unwrap().success());
    let whole = fs::read(&plain).unwrap();
    let path = folder.path().join("zeros");
    let mut wrong = Vec::new();
    for nth in 0..12 {
        let mut bytes = whole.clone();
        let at = 146_220 + nth * 97;
        bytes[at..at + 300].fill(0);
        fs::write(&path, bytes).unwrap();
        for call in readers_of("apitrace")
            .into_iter()
            .chain([vec!["convert", "@", "-o", "%"], vec!["as", "apitrace", "dump", "@"]])
        {
            let said = run(&call, &path, &[]);
            let is_right = said.code == 1 && !said.has_output && (call[0] == "check" || says_loss(&said.err));
            if !is_right {
                wrong.push(format!("{call:?} {at}: {}, {}", said.code, said.err));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_last_line_without_its_end_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("cut.din", "0 10\n2 00"), ("cut.lackey", "I  0400,3\n S 1ffe,8")] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let Said { code, out, err, .. } = run(&["view", "@"], &path, &["-q"]);
        // A heading and one record.
        assert_eq!((code, out.lines().count()), (1, 2), "{name}: {out}{err}");
        assert!(says_loss(&run(&["analyze", "working-set", "@"], &path, &[]).err), "{name}");
    }
}
