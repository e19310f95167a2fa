//! Every analysis gives the same result for any number of threads and any batch size.

use quipu::engine::plan;
use quipu::model::{ErrorKind, Given, OpenOptions, Tool, Trace, Window};
use quipu_testkit::{MemoryTrace, fixtures, same_outcome};

fn open(name: &str) -> Box<dyn Trace> {
    quipu::open_path(&fixtures("").join(name), &OpenOptions::default()).unwrap()
}

/// Excluded: it needs the name of a type, which the traces here lack, and it reads one thread after the other.
const LAYOUT: &str = "layout";

/// Checks all analyses whose columns the trace has, and returns their names.
fn check(trace: &dyn Trace, windows: &[Window]) -> Vec<&'static str> {
    let mut checked = Vec::new();
    for tool in quipu::tools_of(&trace.meta().format) {
        if tool.info().name == LAYOUT {
            continue;
        }
        let mut given = Given::default();
        if tool.info().options.iter().any(|option| option.name == "per-thread") {
            given.add("per-thread", "true");
        }
        match plan(tool, &given, trace) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Missing | ErrorKind::Unsupported) => continue,
            Err(error) => panic!("{}: {error}", tool.info().name),
        }
        let windows = if tool.wants_whole_traces() { &[Window::All] } else { windows };
        windows.iter().for_each(|window| same_outcome(trace, tool, &given, window));
        checked.push(tool.info().name);
    }
    checked
}

/// The names of all analyses for traces of a format, except these.
fn all_but(format: &str, others: &[&str]) -> Vec<&'static str> {
    let names = quipu::tools_of(format).map(|tool: &dyn Tool| tool.info().name);
    names.filter(|name| *name != LAYOUT && !others.contains(name)).collect()
}

#[test]
fn analyses_of_threads_with_functions_and_kernel_code() {
    let windows = [Window::All, Window::Records(1500..6000), Window::Instrs(1000..4000)];
    // These traces do not say where types are in memory.
    assert_eq!(check(&*open("drmemtrace/tiny.func"), &windows), all_but("drmemtrace", &["types"]));
    check(&*open("drmemtrace/tiny.multiwin"), &[Window::All]);
}

#[test]
fn analyses_of_several_threads() {
    check(&*open("drmemtrace/legacy-for-record-filter"), &[Window::All, Window::Records(2000..5000)]);
}

#[test]
fn analyses_of_threads_arranged_by_cores() {
    check(&*open("drmemtrace/tiny.chunk1000").by_core().unwrap(), &[Window::All]);
}

#[test]
fn analyses_of_annotated_accesses() {
    let checked = check(&*open("cacheray/threads.trace"), &[Window::All]);
    assert!(checked.contains(&"types"), "{checked:?}");
}

#[test]
fn analyses_of_calls() {
    let checked = check(&*open("apitrace/threads-3x20.trace"), &[Window::All]);
    assert!(checked.contains(&"functions"), "{checked:?}");
}

#[test]
fn analyses_of_any_records() {
    for seed in 0..2 {
        check(&MemoryTrace::random(seed, 3, 700), &[Window::All, Window::Records(300..1500)]);
    }
}
