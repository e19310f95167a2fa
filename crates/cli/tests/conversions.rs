//! Every conversion of every sample, whole and damaged: the output can be read, and has the requested format and container.

use crate::damage::harm::Harm;
use crate::damage::samples;
use quipu::source::{Codec, Source};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// Containers; a format refuses those that it does not support.
const CONTAINERS: &[&str] = &["zip", "gzip", "lz4", "snappy", "zstd", "brotli", "plain"];

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).args(["-j", "1", "-q"]).args(args).output().unwrap()
}

/// Ways to convert a trace: to each format that imports records, and to its own format; a whole trace also in each
/// container.
fn conversions(is_whole: bool) -> Vec<Vec<&'static str>> {
    let formats = quipu::FORMATS.iter().filter(|format| format.record_writer().is_some());
    let to = formats.map(|format| vec!["--to", format.info().name]);
    let containers = CONTAINERS.iter().map(|container| vec!["--container", *container]);
    to.chain([vec![]]).chain(containers.filter(|_| is_whole)).collect()
}

/// JSON output, and the exit code.
fn json(args: &[&str]) -> (Value, Option<i32>) {
    let done = quipu(args);
    (serde_json::from_slice(&done.stdout).unwrap_or_default(), done.status.code())
}

/// The container of a trace; for a folder, that of its first file.
fn codec(path: &Path) -> Option<Codec> {
    let is_trace = |path: &PathBuf| path.to_str().is_some_and(|name| name.contains(".trace"));
    let files = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let file = files.filter(is_trace).min().unwrap_or_else(|| path.to_owned());
    Some(Source::open(&file).ok()?.container().ok()?.codec())
}

/// Whether a codec is the one requested by `container`.
fn is_packed(codec: Codec, container: &str) -> bool {
    match container {
        "zip" => codec == Codec::Zip,
        "gzip" => codec == Codec::Gzip,
        "lz4" => codec == Codec::Lz4,
        "snappy" => matches!(codec, Codec::Snappy | Codec::SnappyChunks),
        "zstd" => codec == Codec::Zstd,
        // Brotli has no signature, so the reader of the trace has to detect it.
        "brotli" => matches!(codec, Codec::Brotli | Codec::Plain),
        _ => codec == Codec::Plain,
    }
}

/// Number of records in a trace according to JSON output, whatever the format calls them.
fn records(answer: &Value) -> Option<u64> {
    let written = answer["written"]["records"].as_u64();
    written.or_else(|| answer["records"].as_u64()).or_else(|| answer["calls"].as_u64())
}

/// The trace that is converted.
struct Original<'s> {
    name: &'s str,
    trace: &'s Path,
    is_whole: bool,
    /// Number of readable records, if the family copies them without counting.
    n_records: Option<u64>,
}

/// Reads the output of a conversion and compares it with the conversion's report; returns what is wrong with it.
fn read_back(original: &Original<'_>, out: &Path, conversion: &[&str], said: &Value) -> Option<String> {
    let path = out.to_str().unwrap();
    let done = quipu(&["report", "--no-machine", path]);
    if !matches!((original.is_whole, done.status.code()), (_, Some(0)) | (false, Some(1))) {
        return Some(format!("report {:?}: {}", done.status, String::from_utf8_lossy(&done.stderr)));
    }
    let (check, code) = json(&["check", "--json", path]);
    let severities = check["findings"].as_array().into_iter().flatten().map(|finding| &finding["severity"]);
    let has_errors = severities.into_iter().any(|severity| severity == "error");
    if check["error"] != Value::Null || check["complete"] != true || code != Some(i32::from(has_errors)) {
        return Some(format!("check {code:?}: {check:#}"));
    }
    if original.is_whole && (has_errors || check["lost"] != Value::Null) {
        return Some(format!("check finds errors in what was made of a whole trace: {check:#}"));
    }
    let (info, _) = json(&["info", "--json", path]);
    let format =
        said["to"].as_str().unwrap_or_else(|| original.name.split(['.', ' ']).next().unwrap_or_default());
    if info["format"] != format {
        return Some(format!("it has the format {}, not {format}", info["format"]));
    }
    // A capture of DTrace is a folder of files, which are not compressed.
    let codec = if format == "dtrace" && out.is_dir() { Some(Codec::Plain) } else { codec(out) };
    let Some(codec) = codec else { return Some("it has no container that can be read".to_owned()) };
    let is_as_asked = match conversion {
        ["--container", container] => is_packed(codec, container),
        [] if format == "drmemtrace" => Some(codec) == self::codec(original.trace),
        _ => true,
    };
    if !is_as_asked {
        return Some(format!("it is packed as {codec:?}"));
    }
    let expected = records(said).or(original.n_records);
    let found = records(&check);
    // In a copy of a truncated stream, calls that are open at its end count as records; in the source, they were part of the
    // loss.
    let streams = check["streams"].as_array().into_iter().flatten();
    let n_open: u64 = streams.filter_map(|stream| stream["incomplete"].as_u64()).sum();
    let is_cut = !original.is_whole && records(said).is_none() && found == expected.map(|n| n + n_open);
    (found.is_none() || found != expected && !is_cut)
        .then(|| format!("it has {found:?} records, and {expected:?} were written: {said:#}"))
}

/// Converts a trace in all ways, keeping the results of damaged ones. Returns the number of files written.
fn walk(name: &str, trace: &Path, is_whole: bool, wrong: &Mutex<Vec<String>>) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (trace.to_str().unwrap(), folder.path().join("out"));
    let calls = json(&["info", "--json", path]).0["facts"]["calls"].as_u64();
    let n_records = match name.starts_with("dtrace") {
        true => json(&["check", "--json", path]).0["records"].as_u64(),
        false => calls,
    };
    let original = Original { name, trace, is_whole, n_records };
    let mut n_written = 0;
    for conversion in conversions(is_whole) {
        let kept: &[&str] = if is_whole { &[] } else { &["--keep-damaged"] };
        let args =
            [&["convert", "--json", path, "-o", out.to_str().unwrap()], &conversion[..], kept].concat();
        let done = quipu(&args);
        let (code, said) = (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned());
        let answer: Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
        let may_be_there = code == Some(0) || code == Some(1) && !is_whole;
        let complaint = match out.exists() {
            true if !may_be_there => Some(format!("is there with {code:?}: {said}")),
            false if code == Some(0) => Some("is missing".to_owned()),
            true => read_back(&original, &out, &conversion, &answer),
            false => None,
        };
        n_written += usize::from(out.exists());
        if let Some(complaint) = complaint {
            wrong.lock().unwrap().push(format!("{name} {conversion:?}: {complaint}"));
        }
        let _ = fs::remove_file(&out);
        let _ = fs::remove_dir_all(&out);
    }
    n_written
}

#[test]
fn whatever_is_converted_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    // Streams are copied frame by frame, and carried traces are unpacked: `carried.rs` tests both. Recordings are streams,
    // too.
    let is_own = |name: &str| {
        !["stream", "recording"].contains(&name) && !name.ends_with(".carried") && !name.ends_with(".frames")
    };
    let samples = Mutex::new(samples::some(folder.path(), &is_own));
    let (wrong, n_written) = (Mutex::new(Vec::new()), Mutex::new((0, 0)));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(sample) = samples.lock().unwrap().pop() else { break };
                    let n_whole = walk(sample.name, &sample.trace, true, &wrong);
                    let whole = fs::read(&sample.file).unwrap();
                    let mut n_damaged = 0;
                    for harm in Harm::all() {
                        let Some(damaged) = harm.done_to(&whole) else { continue };
                        fs::write(&sample.file, damaged).unwrap();
                        let name = format!("{} {harm:?}", sample.name);
                        n_damaged += walk(&name, &sample.trace, false, &wrong);
                    }
                    let mut n_written = n_written.lock().unwrap();
                    *n_written = (n_written.0 + n_whole, n_written.1 + n_damaged);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} conversions:\n{}", wrong.len(), wrong.join("\n"));
    let (n_whole, n_damaged) = n_written.into_inner().unwrap();
    assert!(n_whole > 60 && n_damaged > 100, "{n_whole} and {n_damaged} files were written");
}

/// The lines of a report with a given outcome, with their counts.
fn ledger(answer: &Value, outcome: &str) -> Vec<(String, u64)> {
    let lines = answer["ledger"].as_array().unwrap().iter().filter(|line| line["outcome"] == outcome);
    lines.map(|line| (line["what"].as_str().unwrap().to_owned(), line["count"].as_u64().unwrap())).collect()
}

#[test]
fn what_a_stream_has_beside_its_lenses_is_in_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let convert = |name: &str, to: &str| {
        let trace = quipu_testkit::fixtures("stream").join(name);
        let out = folder.path().join(format!("{name}.{to}"));
        let (answer, code) =
            json(&["convert", "--json", "--to", to, trace.to_str().unwrap(), "-o", out.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{name} to {to}");
        answer
    };
    let counted = |what: &str, count: u64| (what.to_owned(), count);
    // Three variables with four keys, and no records.
    let aggregations = convert("agg-rows.quipu", "prism");
    assert_eq!(ledger(&aggregations, "dropped"), [counted("aggregations", 4)]);
    assert_eq!(aggregations["lossless"], false);
    let fields = convert("all-types.quipu", "prism");
    let values = counted("values of records that no lens shows", 124);
    assert_eq!(
        ledger(&fields, "dropped"),
        [counted("readings of the clock", 4), values, counted("marks", 4)]
    );
    let runs = convert("stride-runs.quipu", "drmemtrace");
    assert!(ledger(&runs, "dropped").contains(&counted("readings of the clock", 3001)));
    assert_eq!(ledger(&runs, "changed"), [counted("accesses of unknown size, written as of 1 byte", 2001)]);
    // Tables do not lose them either.
    let out = folder.path().join("tables.parquet");
    let trace = quipu_testkit::fixtures("stream").join("agg-rows.quipu");
    let (answer, code) = json(&["convert", "--json", trace.to_str().unwrap(), "-o", out.to_str().unwrap()]);
    assert_eq!((code, &answer["aggregations"]), (Some(0), &Value::from(4)));
    let rows = quipu(&["view", "--table", "aggregations", trace.to_str().unwrap()]);
    assert_eq!(
        String::from_utf8_lossy(&rows.stdout),
        "variable,name,function,key,value\n1,bytes,sum,cat,115\n1,bytes,sum,ls,1\n2,lat,quantize,3,8\n3,size,lquantize,,6\n"
    );
}

#[test]
fn files_of_drmemtrace_that_are_made_of_others_break_no_rule_but_that_of_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let all = [
        ("lackey", "mixed.lackey"),
        ("din", "labels.din"),
        ("cacheray", "structs.trace"),
        ("prism", "prodcons.prism"),
        ("stream", "stride-runs.quipu"),
    ];
    for (family, name) in all {
        let (trace, out) = (quipu_testkit::fixtures(family).join(name), folder.path().join(family));
        let done =
            quipu(&["convert", "--to", "drmemtrace", trace.to_str().unwrap(), "-o", out.to_str().unwrap()]);
        assert_eq!(done.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        let (check, code) = json(&["check", "--json", out.to_str().unwrap()]);
        let findings = check["findings"].as_array().unwrap();
        let others: Vec<_> =
            findings.iter().filter(|finding| finding["rule"] != "drmemtrace/clock-missing").collect();
        assert!(others.is_empty() && code == Some(0), "{name}: {others:?}");
    }
}
