//! Traces with values that no program produces: sizes, ids, counts and addresses at the limits of their fields. Each verb
//! has to handle each of them within a gigabyte; the file next to this one records how.
//!
//! The traces are made in `samples`. `BLESS=1` rewrites the file, for a person to review.

mod samples;

use crate::damage::{self, VERBS};
use samples::Sample;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Command lines in addition to one per verb; `@` is the trace, `%` an output path.
const MORE: &[&[&str]] = &[
    &["view", "--json", "@"],
    &["analyze", "working-set,hot,histogram,heatmap,reuse-distance,reuse-time,miss-ratio", "@"],
    &["analyze", "calls,frames,graphics,leaks", "@"],
    &["sim", "tlb", "@"],
    &["sim", "sweep", "--sizes", "4K", "@"],
    &["convert", "--to", "drmemtrace", "@", "-o", "%"],
    &["convert", "--to", "cacheray", "@", "-o", "%"],
    &["as", "drmemtrace", "-tool", "basic_counts", "-infile", "@"],
    &["as", "apitrace", "dump", "@"],
    &["as", "cacheray", "tracecheck", "@"],
    &["describe", "@"],
    &["as", "dtrace", "@"],
];

/// Result of a run.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
    /// Peak memory; 0 if the system does not report it.
    peak_bytes: u64,
}

/// Runs the program with an address space of at most a gigabyte.
fn run(line: &[&str], trace: &Path) -> Said {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let words = line.iter().map(|word| damage::word(word, trace.to_str().unwrap(), out.to_str().unwrap()));
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 1000000 && exec \"$0\" -j 2 \"$@\"", env!("CARGO_BIN_EXE_quipu")]);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let read = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let readers =
        (read(Box::new(child.stdout.take().unwrap())), read(Box::new(child.stderr.take().unwrap())));
    let status = format!("/proc/{}/status", child.id());
    let mut peak_bytes = 0;
    let code = loop {
        // The system records the peak, so only memory allocated immediately before the end can be missed.
        peak_bytes = resident_peak(&status).unwrap_or(0).max(peak_bytes);
        match child.try_wait().unwrap() {
            Some(status) => break status.code(),
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    Said { code, out: readers.0.join().unwrap(), err: readers.1.join().unwrap(), peak_bytes }
}

fn resident_peak(status: &str) -> Option<u64> {
    let status = fs::read_to_string(status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// One line of the file: the verb, the exit code, and the first complaint. Also returns whether the verb produced any
/// result.
fn answer(sample: &Sample, line: &[&str], folder: &Path) -> (String, bool) {
    let trace = folder.join(sample.name);
    let Said { code, out, err, .. } = run(line, &trace);
    let is_complaint = |line: &&str| {
        ["error:", "warning:", "thread '", "memory allocation"].iter().any(|word| line.starts_with(word))
    };
    // The findings of `check` are part of its result.
    let answer = if line[0] == "check" { out.as_str() } else { "" };
    let complaint = err.lines().chain(answer.lines()).find(is_complaint).unwrap_or("");
    let complaint = complaint.replace(&format!("{}/", folder.display()), "");
    // The output has a different name in each run.
    let output = ["out", "out.arrow", "out.parquet"].iter().find_map(|name| {
        let (_, what) = complaint.split_once(&format!("/{name}: "))?;
        Some(format!("error: {name}: {what}"))
    });
    let complaint = output.unwrap_or(complaint);
    let shown = code.map_or("killed".to_owned(), |code| code.to_string());
    (format!("{} | {} | {shown} | {complaint}\n", sample.name, line.join(" ")), code != Some(2))
}

#[test]
fn every_verb_answers_absurd_traces_as_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let families = samples::all();
    for sample in families.iter().flatten() {
        fs::write(folder.path().join(sample.name), &sample.bytes).unwrap();
    }
    let lines: Vec<&[&str]> =
        VERBS.iter().filter_map(|(_, call)| *call).chain(MORE.iter().copied()).collect();
    let of_family = |family| lines.iter().map(move |line| (family, *line));
    let todo: Vec<(&Vec<Sample>, &[&str])> = families.iter().flat_map(of_family).collect();
    let (next, answers) = (Mutex::new(todo.iter().enumerate()), Mutex::new(vec![String::new(); todo.len()]));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some((at, (family, line))) = next.lock().unwrap().next() else { break };
                    let mut text = String::new();
                    for sample in *family {
                        let (answer, is_able) = answer(sample, line, folder.path());
                        text.push_str(&answer);
                        // The verb is for other families, which is recorded only once.
                        if text.len() == answer.len() && !is_able {
                            break;
                        }
                    }
                    answers.lock().unwrap()[at] = text;
                }
            });
        }
    });
    let answers = answers.into_inner().unwrap().concat();
    assert!(!answers.contains("| killed |"), "{answers}");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/absurd/answers.txt");
    quipu_testkit::assert_golden(golden, &answers);
}

#[test]
fn accesses_of_65535_bytes_take_no_more_memory_than_small_ones() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in samples::wide(20_000) {
        let trace = folder.path().join(name);
        fs::write(&trace, bytes).unwrap();
        for line in [
            &["report", "--no-machine", "@"][..],
            &["analyze", "working-set,hot,histogram", "@"],
            &["sim", "tlb", "@"],
            &["info", "@"],
        ] {
            let Said { code, out, err, peak_bytes } = run(line, &trace);
            assert_eq!(code, Some(0), "{name} {line:?}: {err}");
            assert!(peak_bytes < 200 << 20, "{name} {line:?}: {peak_bytes} bytes");
            if line[0] == "analyze" {
                // 20,000 accesses, each to 1,024 lines of its own.
                assert!(out.contains("20,480,000"), "{name}: {out}");
            }
        }
    }
}

/// A machine processes the lines one by one, so these are fewer accesses.
#[test]
fn lines_of_large_accesses_that_miss_take_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in samples::wide(3000) {
        let trace = folder.path().join(name);
        fs::write(&trace, bytes).unwrap();
        let Said { code, err, peak_bytes, .. } = run(&["sim", "cache", "@"], &trace);
        assert_eq!(code, Some(0), "{name}: {err}");
        assert!(peak_bytes < 80 << 20, "{name}: {peak_bytes} bytes");
    }
}

/// A trace with many accesses of the largest allowed size, at any address.
#[test]
fn thousands_of_accesses_of_a_megabyte_fit_into_a_gigabyte() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("large.din");
    let text: String =
        (0..1000u64).map(|nth| format!("r {:x} 100000\n", nth.wrapping_mul(0x0123_4567_89ab_cdef))).collect();
    fs::write(&trace, text).unwrap();
    for line in [
        &["report", "--no-machine", "@"][..],
        &["analyze", "working-set,hot,histogram", "@"],
        &["sim", "tlb", "@"],
    ] {
        let Said { code, err, peak_bytes, .. } = run(line, &trace);
        assert_eq!(code, Some(0), "{line:?}: {err}");
        assert!(peak_bytes < 200 << 20, "{line:?}: {peak_bytes} bytes");
    }
}

#[test]
fn an_access_that_is_too_large_is_found_at_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("large.din");
    fs::write(&trace, "r 1000 4\nr 2000 ffffffff\nr 3000 100000\n").unwrap();
    for line in [
        &["report", "@"][..],
        &["check", "@"],
        &["analyze", "working-set", "@"],
        &["sim", "cache", "@"],
        &["sim", "sweep", "@"],
        &["view", "@"],
        &["info", "@"],
        &["convert", "--to", "cacheray", "@", "-o", "%"],
    ] {
        let Said { code, out, err, .. } = run(line, &trace);
        let said = format!("{out}{err}");
        assert_eq!(code, Some(1), "{line:?}: {said}");
        let place = "large.din: offset 0x9, record 1: ";
        assert!(said.contains(&format!("{place}an access of 4294967295 bytes")), "{line:?}: {said}");
        assert_eq!(said.matches("an access of").count(), 1, "{line:?}: {said}");
        if line[0] == "view" {
            // The second of the records that it numbers from 1.
            assert!(said.contains("error: after record 1, what was printed is doubtful"), "{said}");
        }
    }
}

/// The record is one of the trace to `view`, `check` and `info`; its access is in no number.
#[test]
fn no_number_about_accesses_has_one_that_is_too_large() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("large.din", "r 1000 4\nr 2000 ffffffff\nw 3000 4\n"),
        ("large.lackey", "I  1000,4\n S 2000,4294967295\n L 3000,4\n L 1000,4\n"),
    ] {
        let trace = folder.path().join(name);
        fs::write(&trace, text).unwrap();
        let n_records = text.lines().count() as u64;
        let Said { code, out, err, .. } = run(&["info", "--json", "@"], &trace);
        assert_eq!(code, Some(1), "{name}: {err}");
        let info: serde_json::Value = serde_json::from_str(&out).unwrap();
        let facts = &info["facts"];
        assert_eq!(facts["access_sizes"], serde_json::json!({ "4": 2 }), "{name}: {out}");
        assert_eq!(facts["records"].as_u64(), Some(n_records), "{name}: {out}");
        assert_eq!((facts["lowest"].as_str(), facts["highest"].as_str()), (Some("0x1000"), Some("0x3003")));
        assert_eq!(facts["lines"].as_u64(), Some(2), "{name}: {out}");
        let Said { out, .. } = run(&["view", "--csv", "@"], &trace);
        assert_eq!(out.lines().count() as u64, n_records + 1, "{name}: {out}");
        let Said { out, .. } = run(&["check", "@"], &trace);
        assert!(out.contains(&format!("checked  {n_records}  records")), "{name}: {out}");
        let Said { out, .. } = run(&["analyze", "histogram", "--json", "@"], &trace);
        assert!(!out.contains("0x2000"), "{name}: {out}");
    }
}

/// Every verb reports all of them, with their sizes and at the same places, and none writes anything.
#[test]
fn a_size_that_is_too_large_in_a_stream_is_the_same_finding_in_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let sizes: [(&str, &[u64]); 4] = [
        ("cells.quipu", &[u64::MAX]),
        ("range.quipu", &[1 << 40, u64::MAX]),
        ("accesses.quipu", &[1 << 40, u64::MAX]),
        ("ranges.quipu", &[1 << 40, u64::MAX, (1 << 24) + 1, 0xffff_ffff]),
    ];
    let samples = samples::all();
    for (name, sizes) in sizes {
        let trace = folder.path().join(name);
        fs::write(&trace, &samples.iter().flatten().find(|sample| sample.name == name).unwrap().bytes)
            .unwrap();
        let mut first = None;
        for line in [
            &["check", "@"][..],
            &["report", "--no-machine", "@"],
            &["analyze", "working-set", "@"],
            &["analyze", "schedule", "@"],
            &["sim", "cache", "@"],
            &["sim", "sweep", "@"],
            &["view", "@"],
            &["info", "@"],
            &["convert", "@", "-o", "%"],
            &["convert", "@", "-o", "%.parquet"],
            &["convert", "--to", "cacheray", "@", "-o", "%"],
            &["convert", "--to", "drmemtrace", "@", "-o", "%"],
        ] {
            let Said { code, out, err, .. } = run(line, &trace);
            let said = format!("{out}{err}");
            assert_eq!(code, Some(1), "{name} {line:?}: {said}");
            // The place from the offset on, and the message.
            let found: Vec<&str> = said
                .lines()
                .filter(|line| line.contains("[engine/oversized-access]"))
                .filter_map(|line| Some(line.split_once(&format!("{name}: offset 0x"))?.1))
                .collect();
            assert_eq!(found.len(), sizes.len(), "{name} {line:?}: {said}");
            for (found, size) in found.iter().zip(sizes) {
                assert!(found.contains(&format!(": an access of {size} bytes")), "{name} {line:?}: {found}");
            }
            let found = found.join("\n");
            let first = first.get_or_insert_with(|| found.clone());
            assert_eq!(*first, found, "{name} {line:?}");
        }
    }
}

#[test]
fn a_thousand_bytes_of_ranges_take_little_memory_and_little_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, out) = (folder.path().join("long.quipu"), folder.path().join("long.cacheray"));
    let samples = samples::all();
    fs::write(&trace, &samples.iter().flatten().find(|sample| sample.name == "long.quipu").unwrap().bytes)
        .unwrap();
    for line in [
        &["report", "--no-machine", "@"][..],
        &["analyze", "working-set,hot,histogram", "@"],
        &["sim", "cache", "@"],
        &["convert", "--to", "cacheray", "@", "-o", out.to_str().unwrap()],
    ] {
        let Said { code, err, peak_bytes, .. } = run(line, &trace);
        assert_eq!(code, Some(0), "{line:?}: {err}");
        assert!(peak_bytes < 200 << 20, "{line:?}: {peak_bytes} bytes");
    }
    assert!(fs::metadata(&out).unwrap().len() < 20 << 20);
}

#[test]
fn the_answer_says_that_an_access_that_is_too_large_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("large.din");
    fs::write(&trace, "r 1000 4\nr 2000 ffffffff\nr 3000 4\n").unwrap();
    for line in
        [&["check", "--json", "@"][..], &["report", "--json", "@"], &["analyze", "schedule", "--json", "@"]]
    {
        let Said { code, out, err, .. } = run(line, &trace);
        assert_eq!(code, Some(1), "{line:?}: {err}");
        let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
        let (lost, gap) = (&answer["lost"], &answer["lost"]["gaps"][0]["stopped"]);
        assert_eq!((lost["records"].as_u64(), gap["offset"].as_u64()), (Some(1), Some(9)), "{line:?}: {out}");
        assert_eq!(gap["record"].as_u64(), Some(1), "{line:?}: {out}");
    }
}
