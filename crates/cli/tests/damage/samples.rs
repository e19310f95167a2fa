//! One sample of each format in each container.

use quipu::engine::{InTime, Watch};
use quipu::model::transform::{Silent, TransformJob};
use quipu::model::{Damaged, OpenOptions, Options, Transform};
use quipu::source::Source;
use quipu::streamed::carry::IntoStream;
use quipu_testkit::fixtures;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A trace that can be damaged.
pub(crate) struct Sample {
    /// Name in messages.
    pub(crate) name: &'static str,
    /// The path to read: a file or a folder.
    pub(crate) trace: PathBuf,
    /// The file that is damaged.
    pub(crate) file: PathBuf,
    /// Whether every change of a byte is detected, because the container has checksums or the format has no redundancy.
    pub(crate) has_checksums: bool,
    /// Whether `info` reads headers only.
    pub(crate) is_headed: bool,
}

impl Sample {
    /// Whether verbs read only the files and columns that they need, so that damage elsewhere does not change their results.
    /// `check` reads everything.
    pub(crate) fn is_read_in_part(&self) -> bool {
        self.name.split('.').next() == Some("columnar")
    }
}

/// Writes all samples to a folder.
pub(crate) fn all(folder: &Path) -> Vec<Sample> {
    some(folder, &|_| true)
}

/// Writes the samples with matching names to a folder.
pub(crate) fn some(folder: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Sample> {
    let mut all = Vec::new();
    let mut add = |name: &'static str, from: PathBuf, has_checksums: bool, is_headed: bool| {
        if !is_wanted(name) {
            return;
        }
        let home = folder.join(name);
        fs::create_dir(&home).unwrap();
        // A file named `.trace` is taken for drmemtrace if nothing of it can be inflated.
        let file_name = from.file_name().unwrap().to_str().unwrap();
        let file =
            home.join(if is_headed { file_name.to_owned() } else { file_name.replace(".trace", ".sample") });
        fs::copy(&from, &file).unwrap();
        all.push(Sample { name, trace: file.clone(), file, has_checksums, is_headed });
    };
    let drmemtrace = |name: &str| fixtures("drmemtrace").join(name);
    let tiny = "drmemtrace.tiny.05701.3845.trace";
    add("drmemtrace.zip", drmemtrace(&format!("tiny.chunk1000/{tiny}.zip")), true, true);
    add("drmemtrace.gz", drmemtrace(&format!("tiny.gz/{tiny}.gz")), true, true);
    let plain = drmemtrace(&format!("tiny.plain/{tiny}"));
    add("drmemtrace", plain.clone(), false, true);
    for (name, ending, container) in [
        ("drmemtrace.lz4", "lz4", "lz4"),
        ("drmemtrace.sz", "sz", "snappy"),
        ("drmemtrace.zst", "zst", "zstd"),
    ] {
        add(name, converted(&plain, folder, &format!("{tiny}.{ending}"), container), true, true);
    }
    let apitrace = |name: &str| fixtures("apitrace").join(name);
    add("apitrace.snappy", apitrace("threads-3x20.trace"), false, false);
    add("apitrace.chunks", apitrace("synth-v6-tinychunks.trace"), false, false);
    add("apitrace.gz", apitrace("kinds.gzip.trace"), true, false);
    add("apitrace.br", apitrace("kinds.brotli.trace"), false, false);
    add("apitrace.zst", apitrace("kinds.zstd.trace"), true, false);
    add("apitrace", converted(&apitrace("kinds.trace"), folder, "kinds.plain", "plain"), false, false);
    let shapes = fixtures("cacheray").join("shapes.trace");
    add("cacheray", shapes.clone(), false, false);
    add("cacheray.gz", converted(&shapes, folder, "shapes.trace.gz", "gzip"), true, false);
    add("lackey", fixtures("lackey").join("mixed.lackey"), false, false);
    add("lackey.gz", fixtures("lackey").join("nodes.lackey.gz"), true, false);
    add("din", fixtures("din").join("labels.din"), false, false);
    add("din.gz", fixtures("din").join("nodes.din.gz"), true, false);
    add("xdin.gz", fixtures("din").join("nodes.xdin.gz"), true, false);
    // Descriptions of records are in frames, too, and text with a flipped bit is still text.
    add("stream", fixtures("stream").join("two-producers.quipu"), true, true);
    add("dtrace.raw", fixtures("dtrace").join("linux/syscall_trace/raw.jsonl"), false, false);
    add("dtrace.raw.gz", fixtures("dtrace").join("linux/syscall_lat/raw.jsonl.gz"), true, false);
    add("dtrace.midbuf", fixtures("stream").join("padding.midbuf"), false, false);
    add("dtrace.quipu", fixtures("stream").join("dtrace-mixed_1000.quipu"), true, false);
    // Readers of the bytes in a frame detect any change of them; `check` also detects changes of descriptive frames.
    for (name, from, is_headed) in [
        ("drmemtrace.carried", drmemtrace(&format!("tiny.chunk1000/{tiny}.zip")), true),
        ("apitrace.carried", apitrace("threads-3x20.trace"), false),
        ("cacheray.carried", shapes, false),
        ("lackey.carried", fixtures("lackey").join("mixed.lackey"), false),
        ("din.carried", fixtures("din").join("labels.din"), false),
    ] {
        if is_wanted(name) {
            add(name, carried(&from, folder, name), false, is_headed);
        }
    }
    let thread = drmemtrace("threadsig.x64/drmemtrace.threadsig.872805.4975.trace.zip");
    for (name, from, is_headed) in
        [("drmemtrace.frames", thread, true), ("apitrace.frames", apitrace("glxgears-300.trace"), false)]
    {
        if is_wanted(name) {
            add(name, in_frames(&from, folder, name), false, is_headed);
        }
    }
    let raw = fixtures("drmemtrace-raw").join("threadsig.aarch64");
    if is_wanted("drmemtrace-raw.carried") {
        add("drmemtrace-raw.carried", carried(&raw, folder, "drmemtrace-raw.carried"), false, false);
    }
    add("prism.quipu", events(folder), true, false);
    let recording = folder.join("recording.quipu");
    fs::write(&recording, recorded()).unwrap();
    add("recording", recording, true, false);
    for (name, file) in [("dtrace.buffer", "buf.cpu0.bin"), ("dtrace.aggregations", "agg.cpu1.bin")] {
        if !is_wanted(name) {
            continue;
        }
        let home = folder.join(name);
        fs::create_dir(&home).unwrap();
        quipu_testkit::copy_files(&fixtures("dtrace").join("classic/mixed_1000"), &home);
        let file = home.join(file);
        all.push(Sample { name, trace: home, file, has_checksums: false, is_headed: false });
    }
    if is_wanted("drmemtrace-raw") {
        let home = folder.join("drmemtrace-raw");
        fs::create_dir(&home).unwrap();
        quipu_testkit::copy_files(&raw, &home);
        fs::create_dir(home.join("raw")).unwrap();
        quipu_testkit::copy_files(&raw.join("raw"), &home.join("raw"));
        let file = unpacked(&home.join("raw"));
        all.push(Sample {
            name: "drmemtrace-raw",
            trace: home,
            file,
            has_checksums: false,
            is_headed: false,
        });
    }
    for (name, from) in [("drmemtrace.threads", "thr"), ("drmemtrace.cores", "thr.core_sharded_kernel")] {
        if !is_wanted(name) {
            continue;
        }
        let home = folder.join(name);
        fs::create_dir(&home).unwrap();
        quipu_testkit::copy_files(&drmemtrace(from), &home);
        let files = fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path());
        let traces = files.filter(|file| file.to_str().unwrap().ends_with(".trace.zip"));
        let file = traces.min().unwrap();
        all.push(Sample { name, trace: home, file, has_checksums: true, is_headed: true });
    }
    all.extend(tables(folder, is_wanted));
    all
}

/// Tables and lenses of a trace as Parquet and Arrow files.
fn tables(folder: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Sample> {
    let from = fixtures("lackey").join("nodes.lackey.gz");
    let sample = |name: &'static str, trace: PathBuf, file: PathBuf, has_checksums| Sample {
        name,
        trace,
        file,
        has_checksums,
        is_headed: false,
    };
    let home = |name: &str| {
        let home = folder.join(name);
        fs::create_dir(&home).unwrap();
        home
    };
    let mut all = Vec::new();
    for (name, file) in [("columnar", "records"), ("columnar.lens", "lens.instrs")] {
        if is_wanted(name) {
            let trace = converted_to(&from, home(name).join("nodes.parquet"), &[]);
            let file = trace.join(file).join("shard-00000.parquet");
            all.push(sample(name, trace, file, true));
        }
    }
    if is_wanted("columnar.file") {
        let whole = converted_to(&from, folder.join("whole.parquet"), &[]);
        let file = home("columnar.file").join("nodes.parquet");
        fs::copy(whole.join("records/shard-00000.parquet"), &file).unwrap();
        all.push(sample("columnar.file", file.clone(), file, true));
    }
    for (name, ending) in [("columnar.arrow", "arrow"), ("columnar.arrows", "arrows")] {
        if is_wanted(name) {
            let file = home(name).join("nodes").with_extension(ending);
            let file = converted_to(&from, file, &["--table", "records"]);
            all.push(sample(name, file.clone(), file, false));
        }
    }
    all
}

/// Unpacks the file of words in a folder of raw files; returns its path.
fn unpacked(raw: &Path) -> PathBuf {
    let files = fs::read_dir(raw).unwrap().map(|entry| entry.unwrap().path());
    let packed = files.filter(|file| file.to_str().unwrap().ends_with(".raw.gz")).min().unwrap();
    let source = Source::open(&packed).unwrap();
    let bytes = source.head(16 << 20).unwrap();
    let file = packed.with_extension("");
    fs::remove_file(&packed).unwrap();
    fs::write(&file, bytes).unwrap();
    file
}

/// A trace converted to another container.
fn converted(from: &Path, folder: &Path, name: &str, container: &str) -> PathBuf {
    converted_to(from, folder.join(name), &["--container", container])
}

/// A trace carried by a stream.
fn carried(from: &Path, folder: &Path, name: &str) -> PathBuf {
    converted_to(from, folder.join(name).with_extension("quipu"), &[])
}

/// A trace converted to a file with this name.
fn converted_to(from: &Path, path: PathBuf, options: &[&str]) -> PathBuf {
    let mut convert = Command::new(env!("CARGO_BIN_EXE_quipu"));
    convert.args(["convert", "-q"]).args(options).arg(from).arg("-o").arg(&path);
    assert!(convert.status().unwrap().success(), "{path:?}");
    path
}

/// The bytes of a trace in a stream whose frames are much shorter than usual.
fn in_frames(from: &Path, folder: &Path, name: &str) -> PathBuf {
    let plain = converted(from, folder, &format!("{name}.trace"), "plain");
    let path = folder.join(format!("{name}.quipu"));
    let format = quipu::probe(&Source::open(&plain).unwrap()).unwrap();
    let into = IntoStream { frame_bytes: 4096 * 12, ..IntoStream::new(format, None) };
    let watch = Watch::new();
    let job = TransformJob {
        source: &Source::open(&plain).unwrap(),
        opening: &OpenOptions::default(),
        options: &Options::default(),
        output: &path,
        replace: false,
        container: None,
        level: None,
        damaged: Damaged::Refuse,
        strict: false,
        threads: 1,
        sequence: &InTime(&watch),
    };
    into.run(&job, &Silent).unwrap();
    path
}

/// Workload events in a stream of several frames.
fn events(folder: &Path) -> PathBuf {
    let [dump, path] = ["made.dump", "made.prism"].map(|name| folder.join(name));
    let packed = fs::read(fixtures("prism").join("fixed/prodcons.main.fixed18.gz")).unwrap();
    // Concatenated gzip members form one file.
    fs::write(&dump, packed.repeat(3)).unwrap();
    let mut convert = Command::new(env!("CARGO_BIN_EXE_quipu"));
    convert.args(["convert", "-q", "--format", "prism", "--open", "encoding=fixed"]);
    convert.arg(&dump).arg("-o").arg(&path);
    assert!(convert.status().unwrap().success());
    path
}

/// A recording of a program that exited: two frames of a thread, with 200 stores each.
pub(crate) fn recorded() -> Vec<u8> {
    let store_of_8 = 0x13 << 48;
    let cells: Vec<[u64; 2]> =
        (0..200).map(|nth| [store_of_8 | (0x10_0000 + 8 * (nth * nth % 199)), 0x40_0000 + 4 * nth]).collect();
    quipu_cells::whole::recording(&[(4242, &[&cells, &cells])])
}
