//! Every conversion of every sample, whole and damaged: what is written can be read, and is what it was to be.

use crate::damage::harm::Harm;
use crate::damage::samples;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;

/// How a file may be packed; a format that does not know one of them refuses it.
const CONTAINERS: &[&str] = &["zip", "gzip", "lz4", "snappy", "zstd", "brotli", "plain"];

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).args(["-j", "1", "-q"]).args(args).output().unwrap()
}

/// The ways to convert a trace: to each format that takes records of others, and to its own, a whole one in each container.
fn conversions(is_whole: bool) -> Vec<Vec<&'static str>> {
    let formats = quipu::FORMATS.iter().filter(|format| format.importer().is_some());
    let to = formats.map(|format| vec!["--to", format.info().name]);
    let containers = CONTAINERS.iter().map(|container| vec!["--container", *container]);
    to.chain([vec![]]).chain(containers.filter(|_| is_whole)).collect()
}

/// Reads what was written; returns what is wrong with it.
fn read_back(out: &Path, is_whole: bool) -> Option<String> {
    let path = out.to_str().unwrap();
    for verb in ["check", "report"] {
        let args: &[&str] = if verb == "report" { &["report", "--no-machine", path] } else { &[verb, path] };
        let done = quipu(args);
        let is_read = done.status.code() == Some(0) || !is_whole && done.status.code() == Some(1);
        if !is_read {
            let said = [done.stdout, done.stderr].concat();
            return Some(format!("{verb} {:?}: {}", done.status, String::from_utf8_lossy(&said)));
        }
    }
    None
}

/// Converts a trace in all ways; what is made of a damaged one is kept. Returns how many files were written.
fn walk(name: &str, trace: &Path, is_whole: bool, wrong: &Mutex<Vec<String>>) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let (trace, out) = (trace.to_str().unwrap(), folder.path().join("out"));
    let mut n_written = 0;
    for conversion in conversions(is_whole) {
        let kept: &[&str] = if is_whole { &[] } else { &["--keep-damaged"] };
        let done = quipu(&[&["convert", trace, "-o", out.to_str().unwrap()], &conversion[..], kept].concat());
        let (code, said) = (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned());
        let may_be_there = code == Some(0) || code == Some(1) && !is_whole;
        let complaint = match out.exists() {
            true if !may_be_there => Some(format!("is there with {code:?}: {said}")),
            false if code == Some(0) => Some("is missing".to_owned()),
            true => read_back(&out, is_whole),
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
    let samples = Mutex::new(samples::all(folder.path()));
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
