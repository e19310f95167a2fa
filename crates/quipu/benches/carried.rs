//! Reads a trace in a stream and the same trace in files, with one thread and with two.
//!
//! `cargo bench -p quipu --bench carried`

use divan::Bencher;
use divan::counter::ItemsCount;
use quipu::engine::{RunOptions, Watch, plan, run};
use quipu::model::transform::{OneShard, Silent, TransformJob};
use quipu::model::{Damaged, Given, OpenOptions, Options, Trace, Transform};
use std::path::{Path, PathBuf};

fn main() {
    divan::main();
}

/// The trace in files.
fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/drmemtrace/threadsig.x64")
}

/// The same trace in a stream, in a temporary folder.
fn stream() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("carried.quipu");
    let opening = OpenOptions::default();
    let source = quipu::source::Source::open(&files()).expect("a trace of the repository");
    let found = quipu::recognise(&source, &opening).expect("a trace");
    let convert = found.format.transforms()[0];
    let way = quipu::way("convert", &found, Ok(convert), &output, true).expect("a stream can be made");
    let job = TransformJob {
        source: &way.source,
        opening: &opening,
        options: &Options::default(),
        output: &output,
        replace: false,
        container: None,
        level: None,
        damaged: Damaged::Refuse,
        strict: true,
        threads: 1,
        sequence: &OneShard,
    };
    way.transform().run(&job, &Silent).expect("a sound trace");
    (folder, output)
}

fn count(bencher: Bencher<'_, '_>, path: &Path, threads: usize) {
    let trace: Box<dyn Trace> = quipu::open_path(path, &OpenOptions::default()).expect("a trace");
    let tool = quipu::tool("reuse-time", &trace.meta().format).expect("a tool");
    let watch = Watch::new();
    let work = || {
        let planned = plan(tool, &Given::default(), &*trace).expect("columns that it has");
        let options = RunOptions { threads, ..RunOptions::new(&watch) };
        run(&*trace, vec![planned], &options).expect("a sound trace").records
    };
    bencher.counter(ItemsCount::new(work())).bench_local(work);
}

#[divan::bench(args = [1, 2])]
fn from_files(bencher: Bencher<'_, '_>, threads: usize) {
    count(bencher, &files(), threads);
}

#[divan::bench(args = [1, 2])]
fn from_a_stream(bencher: Bencher<'_, '_>, threads: usize) {
    let (_folder, path) = stream();
    count(bencher, &path, threads);
}
