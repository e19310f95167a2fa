//! Several traces read together as workloads: they must be alike, and each keeps its own names.

use quipu_drmemtrace::DRMEMTRACE;
use quipu_model::{ErrorKind, Format, OpenOptions, Result, ThreadId, Trace};
use quipu_source::Source;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    quipu_testkit::fixtures("drmemtrace").join(name)
}

fn open(first: &str, further: &[&str], threads: &[ThreadId]) -> Result<Box<dyn Trace>> {
    let further: Vec<String> = further.iter().map(|name| path(name).to_str().unwrap().to_owned()).collect();
    let given = quipu_model::Given::from([("also", further.join(":"))]);
    let options = OpenOptions { given, threads: threads.to_vec(), ..OpenOptions::default() };
    DRMEMTRACE.open(&Source::open(&path(first)).unwrap(), &options)
}

#[test]
fn traces_that_differ_in_kind_are_refused_by_name() {
    for (first, further, what) in [
        ("thr", "aarch64", "of aarch64"),
        ("threadsig.regdeps", "threadsig.x64", "of x86-64"),
        ("thr", "threadsig.core_sharded", "files of cores"),
        ("threadsig.core_sharded", "thr", "files of threads"),
    ] {
        let error =
            open(first, &["thr", further], &[]).or_else(|_| open(first, &[further], &[])).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        for part in [&format!("/{first}`"), &format!("/{further}`"), what] {
            assert!(error.message().contains(part), "{part}: {}", error.message());
        }
    }
    assert_eq!(open("threadsig.x64", &["thr", "tiny.gz"], &[]).unwrap().shards().len(), 9 + 4 + 1);
}

#[test]
fn threads_are_chosen_with_their_workload() {
    let threads = |chosen: &[ThreadId]| -> Vec<ThreadId> {
        let trace = open("thr", &["thr"], chosen).unwrap();
        trace.shards().iter().filter_map(|shard| shard.thread).collect()
    };
    let of = |workload, tid| ThreadId { workload, tid };
    let second = of(1, 5750);
    assert_eq!(threads(&[of(0, 5750)]), [of(0, 5750)]);
    assert_eq!(threads(&[second]), [second]);
    assert_eq!(threads(&[second, of(0, 5747)]), [of(0, 5747), second]);
    assert_eq!(open("thr", &["thr"], &[of(2, 5750)]).err().unwrap().kind(), ErrorKind::Missing);
}

#[test]
fn each_workload_has_its_own_functions() {
    let trace = open("func-trace", &["tiny.func", "thr"], &[]).unwrap();
    let alone = |name: &str| -> Vec<(u64, Vec<String>)> {
        let trace = DRMEMTRACE.open(&Source::open(&path(name)).unwrap(), &OpenOptions::default()).unwrap();
        trace.meta().functions.iter().map(|function| (function.id, function.names.clone())).collect()
    };
    for (workload, name) in [(0, "func-trace"), (1, "tiny.func")] {
        let functions = trace.meta().functions.iter().filter(|function| function.workload == workload);
        let found: Vec<_> = functions.map(|function| (function.id, function.names.clone())).collect();
        assert_eq!(found, alone(name));
        assert!(!found.is_empty());
    }
}
