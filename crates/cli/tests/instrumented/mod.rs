//! Compiles programs with `quipu cc`, `quipu c++` and the flags of `quipu rustc-flags`, runs them, and examines the
//! recordings.
//!
//! The actions of a program are known from its source, and their addresses from its output. Missing compilers are skipped.
//! With `QUIPU_RECORD=full`, threads make ten million accesses each, and fifty programs are killed.

// A test whose setup fails has failed.
mod accesses;
mod captures;
mod control;
mod copies;
mod hooks;
mod libraries;
mod live;
mod processes;
mod rust;
mod sent;
mod stacks;
mod types;
mod wrappers;

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// The folder of the program, with the runtime built next to it.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_quipu")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--locked", "-p", "quipu-rt", "--target-dir"])
            .arg(folder.parent().unwrap());
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        folder.to_owned()
    })
}

fn is_full() -> bool {
    std::env::var("QUIPU_RECORD").is_ok_and(|how| how == "full")
}

/// The installed compilers for C, or for C++.
fn compilers(names: [&'static str; 2]) -> Vec<&'static str> {
    let is_there = |name: &&str| {
        let found = Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok();
        if !found {
            eprintln!("passed over: there is no {name}");
        }
        found
    };
    names.into_iter().filter(is_there).collect()
}

const C: [&str; 2] = ["gcc", "clang"];
const CXX: [&str; 2] = ["g++", "clang++"];

/// A folder to compile and run in.
struct Scene {
    folder: TempDir,
    compiler: &'static str,
}

impl Scene {
    fn new(compiler: &'static str) -> Scene {
        library();
        Scene { folder: tempfile::tempdir().unwrap(), compiler }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a source and compiles it.
    fn compile(&self, source: &str, name: &str, flags: &[&str]) {
        fs::write(self.path(name), source).unwrap();
        let verb = if self.compiler.contains("++") { "c++" } else { "cc" };
        let output = Path::new(name).file_stem().unwrap();
        let mut quipu = quipu();
        quipu
            .env("QUIPU_CC", self.compiler)
            .env("QUIPU_CXX", self.compiler)
            .env("XDG_CACHE_HOME", self.path("cache"));
        quipu.current_dir(&self.folder).arg(verb).args([name, "-o"]).arg(output).args(flags);
        assert!(quipu.status().unwrap().success(), "{} {name}", self.compiler);
    }

    /// The command that runs a compiled program.
    fn program(&self, name: &str) -> Command {
        let mut program = Command::new(self.path(name));
        program.current_dir(&self.folder).env("QUIPU_OUT", "%n.quipu");
        program
    }

    /// Runs the program; returns its output and its recording as a trace.
    fn run(&self, name: &str) -> Run {
        let output = self.program(name).output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", self.compiler);
        let mut run = self.collect(&format!("{name}.quipu"));
        run.printed = String::from_utf8(output.stdout).unwrap();
        run
    }

    /// Converts a recording to a trace, checks it, and reads it.
    fn collect(&self, capture: &str) -> Run {
        let trace = capture.replace(".quipu", ".trace");
        let line = ["convert", "--to", "cacheray", "--json", "--force", capture, "-o", &trace];
        let output = quipu().current_dir(&self.folder).args(line).output().unwrap();
        // A program without events leaves nothing to convert.
        if String::from_utf8_lossy(&output.stderr).contains("nothing was recorded") {
            return Run { summary: Value::Null, records: Vec::new(), printed: String::new() };
        }
        assert!(output.status.success(), "{}: {capture}: {output:?}", self.compiler);
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let trace = self.path(summary["trace"].as_str().unwrap());
        let records = read(&fs::read(&trace).unwrap());
        assert_eq!(summary["records"], records.len());
        if !records.is_empty() {
            let checked = quipu().args(["check", "-q"]).arg(&trace).output().unwrap();
            assert!(checked.status.success(), "{}: {capture}: {checked:?}", self.compiler);
        }
        Run { summary, records, printed: String::new() }
    }

    /// File names of the recordings.
    fn captures(&self) -> Vec<String> {
        let names = fs::read_dir(&self.folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.contains(".quipu")).collect();
        names.sort();
        names
    }
}

fn quipu() -> Command {
    let mut quipu = Command::new(env!("CARGO_BIN_EXE_quipu"));
    quipu.env("QUIPU_LIB", library()).env_remove("QUIPU_OUT");
    quipu
}

/// Result of running a program.
struct Run {
    summary: Value,
    records: Vec<Record>,
    printed: String,
}

/// A record of the trace, decoded according to the format's specification.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    tag: u8,
    addr: u64,
    /// Size of an access.
    size: u64,
    thread: u64,
    /// For annotations: bytes per element, number of elements, type name.
    region: (u32, u32, String),
}

fn read(mut bytes: &[u8]) -> Vec<Record> {
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let short = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut records = Vec::new();
    while let Some(&tag) = bytes.first() {
        let addr = number(bytes, 1);
        let mut record = Record { tag, addr, size: 0, thread: 0, region: (0, 0, String::new()) };
        let n_bytes = match tag & 0x3f {
            0 | 1 => {
                record.size = bytes[9].into();
                record.thread = number(bytes, 10);
                18
            }
            2 => {
                record.thread = number(bytes, 9);
                let n_bytes = short(bytes, 25) as usize;
                let name = String::from_utf8(bytes[29..29 + n_bytes].to_vec()).unwrap();
                record.region = (short(bytes, 17), short(bytes, 21), name);
                29 + n_bytes
            }
            3 => {
                record.thread = number(bytes, 9);
                17
            }
            _ => panic!("tag {tag}"),
        };
        records.push(record);
        bytes = &bytes[n_bytes..];
    }
    records
}

impl Run {
    /// Numbers that the program printed.
    fn numbers(&self) -> Vec<u64> {
        let number = |word: &str| match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => word.parse().unwrap(),
        };
        self.printed.split_whitespace().map(number).collect()
    }

    /// Tag, offset and size of accesses to an object.
    fn accesses(&self, start: u64, n_bytes: u64) -> Vec<(u8, u64, u64)> {
        let inside =
            |record: &&Record| record.tag & 0x3f < 2 && (start..start + n_bytes).contains(&record.addr);
        self.records
            .iter()
            .filter(inside)
            .map(|record| (record.tag, record.addr - start, record.size))
            .collect()
    }

    /// Annotated regions with a type name: address, bytes per element, number of elements.
    fn regions(&self, name: &str) -> Vec<(u64, u32, u32)> {
        let named = self.records.iter().filter(|record| record.tag == 2 && record.region.2 == name);
        named.map(|record| (record.addr, record.region.0, record.region.1)).collect()
    }
}

/// Compiles a program with each of the compilers, runs it and calls `check` with the result.
fn for_each(names: [&'static str; 2], source: &str, file: &str, flags: &[&str], check: impl Fn(&Scene, Run)) {
    for compiler in compilers(names) {
        let scene = Scene::new(compiler);
        scene.compile(source, file, flags);
        let run = scene.run("prog");
        check(&scene, run);
    }
}
