//! Captures through the interfaces that all formats share: they are recognised, printed, read and checked.

use crate::samples::{bytes, cases, name_of, root};
use quipu_dtrace::DTRACE;
use quipu_dtrace::table::{Aggregations, Probes, Records};
use quipu_model::lens::CallEdge;
use quipu_model::print::Ordinals;
use quipu_model::trace::PrintOptions;
use quipu_model::{
    Columns, Confidence, Finding, Format, Given, OpenOptions, Paint, Scan, ShardId, Trace, Window,
};
use quipu_source::Source;
use quipu_testkit::fuzz;
use std::path::Path;

pub(crate) fn open(path: &Path, consumer: &[&str]) -> Box<dyn Trace> {
    let given: Given = consumer.iter().map(|list| ("consumer", *list)).collect();
    DTRACE.open(&Source::open(path).unwrap(), &OpenOptions { given, ..OpenOptions::default() }).unwrap()
}

/// Output and findings of `view`.
pub(crate) fn view(trace: &dyn Trace, has_quirks: bool, window: Window) -> (String, Vec<Finding>) {
    let given: Given = has_quirks.then_some(("quirks", "yes")).into_iter().collect();
    let mut printer = trace.printer(&PrintOptions { given, ..PrintOptions::default() }).unwrap();
    let (mut out, mut findings) = (Vec::new(), trace.meta().findings.clone());
    printer.begin(&mut out);
    let mut reader = trace.scan(&Scan { tables: vec![0], window, ..Scan::new(ShardId(0)) }).unwrap();
    while let Some(batch) = reader.read().unwrap() {
        findings.append(&mut batch.findings);
        let rows: Vec<u32> = (0..batch.tables[0].n_rows() as u32).collect();
        printer.print(batch, &rows, Ordinals::default(), &Paint::PLAIN, &mut out);
    }
    printer.end(&mut out);
    (String::from_utf8_lossy(&out).into_owned(), findings)
}

#[test]
fn samples_are_recognised_by_content_and_view_prints_the_consumer_s_text() {
    for path in cases("classic").into_iter().chain(cases("linux")) {
        let name = name_of(&path);
        let source = Source::open(&path).unwrap();
        assert_eq!(DTRACE.probe(&source), Confidence::Sure, "{name}");
        let trace = open(&path, &[]);
        let (text, findings) = view(&*trace, true, Window::All);
        // Samples whose text needs names from a live kernel are compared in `goldens`.
        let lacks = ["printa_mod", "stack", "sym_mod"];
        if !lacks.contains(&&*name) {
            assert_eq!(text, String::from_utf8_lossy(&bytes(&path.join("stdout"))), "{name}");
        }
        let rules: Vec<&str> = findings.iter().map(|finding| &*finding.rule).collect();
        let expected: &[&str] = match &*name {
            "unknown_epid" => &["dtrace/unknown-id"],
            "drops" => &["dtrace/drops"; 4],
            "drops_tagged" => &["dtrace/drops"; 2],
            _ => &[],
        };
        if !name.starts_with("error_") {
            assert_eq!(rules, expected, "{name}: {findings:?}");
        }
        for shard in trace.shards() {
            fuzz::same_records(&*trace, shard);
        }
    }
}

#[test]
fn an_unknown_number_is_found_at_its_offset() {
    let trace = open(&root().join("classic/unknown_epid"), &[]);
    let (text, findings) = view(&*trace, false, Window::All);
    assert_eq!(findings[0].place.offset, Some(16));
    assert!(findings[0].message.starts_with("EPID 77 has no description"), "{}", findings[0].message);
    assert!(text.ends_with("         1\n\n"), "{text}");
}

#[test]
fn files_are_captures_as_their_folders_are() {
    let folder = root().join("classic/mixed_1000");
    let file = open(&folder.join("meta.json"), &[]);
    let whole = open(&folder, &[]);
    assert_eq!(view(&*file, true, Window::All), view(&*whole, true, Window::All));
    let folder = root().join("linux/syscall_lat");
    let file = open(&folder.join("raw.jsonl.gz"), &[]);
    assert_eq!(view(&*file, true, Window::All), view(&*open(&folder, &[]), true, Window::All));
}

#[test]
fn options_of_the_consumer_change_the_text() {
    let folder = root().join("classic/trace_basic");
    let quiet = view(&*open(&folder, &["quiet"]), true, Window::All).0;
    assert_eq!(quiet, view(&*open(&root().join("classic/trace_basic_quiet"), &[]), true, Window::All).0);
    let by_time = view(&*open(&root().join("classic/cpu_order"), &["temporal"]), true, Window::All).0;
    let cpus: Vec<&str> = by_time.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
    assert_eq!(cpus, ["0", "1", "2", "0", "1", "2", "0", "1", "2"]);
}

#[test]
fn a_part_is_printed_without_the_aggregations_of_the_whole() {
    let trace = open(&root().join("classic/mixed_1000"), &[]);
    let (text, _) = view(&*trace, false, Window::Records(2..4));
    assert_eq!(
        text,
        "CPU     ID                    FUNCTION:NAME\n  \
         3    100                       read:entry pid 4715 read 977609514571 bytes from file2\n  \
         1    100                       read:entry pid 10911 read 688437323613 bytes from file3\n"
    );
}

#[test]
fn tables_and_lenses_are_filled() {
    let trace = open(&root().join("classic/mixed_1000"), &[]);
    let columns =
        Columns::THREADS | Columns::THREAD_CLOCK | Columns::THREAD_CPU | Columns::CALLS | Columns::MARKS;
    assert_eq!(trace.columns(), columns);
    let scan = Scan { tables: vec![0, 1, 2], columns, ..Scan::new(ShardId(0)) };
    let mut reader = trace.scan(&scan).unwrap();
    let (mut records, mut probes, mut aggregations, mut calls, mut marks) = (0, 0, 0, 0, 0);
    while let Some(batch) = reader.read().unwrap() {
        calls += batch.calls.function.len();
        marks += batch.marks.kind.len();
        records += batch.tables[0].get::<Records>().unwrap().len();
        probes += batch.tables[1].get::<Probes>().unwrap().len();
        aggregations += batch.tables[2].get::<Aggregations>().unwrap().len();
    }
    assert_eq!((records, calls + marks, probes), (1000, 1000, 11));
    assert!(aggregations > 0 && calls > 0 && marks > 0);
    assert_eq!(trace.mark_name(300), "profile:::tick-1sec");
    let names: Vec<&str> = trace.meta().functions.iter().map(|function| &*function.names[0]).collect();
    assert_eq!(names, ["read", "malloc", "free", "a_rather_long_function_name_here_x"]);
}

#[test]
fn errors_of_clauses_and_drops_are_found() {
    let (_, findings) = view(&*open(&root().join("classic/error_probe"), &[]), true, Window::All);
    assert_eq!(findings.len(), 11);
    assert!(findings.iter().all(|finding| finding.rule == "dtrace/error-record"));
    assert!(findings[3].message.ends_with("divide-by-zero in action #3 at DIF offset 16"));
    let drops = open(&root().join("classic/drops"), &[]);
    assert_eq!(drops.meta().findings[2].message, "5 drops on CPU 0");
}

/// Number of entries and returns by function.
type Edges = std::collections::BTreeMap<String, (u64, u64)>;

fn edges_of_lens(path: &Path) -> Edges {
    let trace = open(path, &[]);
    let mut reader = trace.scan(&Scan { columns: Columns::CALLS, ..Scan::new(ShardId(0)) }).unwrap();
    let mut edges = Edges::new();
    while let Some(batch) = reader.read().unwrap() {
        for (function, edge) in batch.calls.function.iter().zip(&batch.calls.edge) {
            let function = trace.meta().functions.iter().find(|known| known.id == *function).unwrap();
            let sums = edges.entry(function.names[0].clone()).or_default();
            match edge {
                CallEdge::Enter => sums.0 += 1,
                CallEdge::Leave => sums.1 += 1,
            }
        }
    }
    edges
}

/// Counts the arrows of indented flow.
fn edges_of_text(text: &str) -> Edges {
    let mut edges = Edges::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(1);
        let (Some(arrow), Some(function)) = (words.next(), words.next()) else { continue };
        match arrow {
            "->" | "=>" => edges.entry(function.to_owned()).or_default().0 += 1,
            "<-" | "<=" => edges.entry(function.to_owned()).or_default().1 += 1,
            _ => {}
        }
    }
    edges
}

#[test]
fn calls_are_the_arrows_of_indented_flow() {
    for name in ["classic/flowindent", "linux/flowindent"] {
        let path = root().join(name);
        let text = String::from_utf8(bytes(&path.join("stdout"))).unwrap();
        // The clause that ended tracing was in its own sample: the consumer had printed the return before it.
        let text = text.trim_end().strip_suffix("<= close").unwrap_or(&text);
        let edges = edges_of_lens(&path);
        assert!(edges.len() > 1, "{name}: {edges:?}");
        assert_eq!(edges, edges_of_text(text), "{name}");
    }
}

#[test]
fn lenses_of_linux_captures_are_those_of_its_text() {
    for path in cases("linux") {
        let name = name_of(&path);
        let trace = open(&path, &[]);
        let columns = trace.columns();
        // Samples have no times.
        let without_calls = Columns::THREADS | Columns::THREAD_CPU | Columns::MARKS;
        assert!(columns == without_calls || columns == without_calls | Columns::CALLS, "{name}");
        let scan = Scan { tables: vec![0], columns, ..Scan::new(ShardId(0)) };
        let mut reader = trace.scan(&scan).unwrap();
        let (mut n_records, mut n_calls, mut n_marks, mut entries) = (0, 0, 0, 0);
        let mut by_cpu = std::collections::BTreeMap::<u32, usize>::new();
        while let Some(batch) = reader.read().unwrap() {
            let records = batch.tables[0].get::<Records>().unwrap();
            n_records += records.len();
            n_calls += batch.calls.function.len();
            n_marks += batch.marks.kind.len();
            for (cpu, probe) in records.cpu.iter().zip(&records.probe) {
                *by_cpu.entry(*cpu).or_default() += 1;
                let of = trace.mark_name(*probe);
                entries += usize::from(of.ends_with(":entry") || of.ends_with(":return"));
            }
        }
        assert_eq!(n_calls + n_marks, n_records, "{name}");
        // If a probe has several clauses, the text of the next test determines the number of calls.
        let has_further_clauses = ["flowindent", "syscall_trace"].contains(&&*name);
        assert_eq!(n_calls < entries, has_further_clauses, "{name}: {n_calls} of {entries}");
        // In text with a heading, each firing is on a line with its CPU.
        if name == "syscall_trace" {
            let text = String::from_utf8(bytes(&path.join("stdout"))).unwrap();
            let mut told = std::collections::BTreeMap::<u32, usize>::new();
            for line in text.lines().skip(1).filter(|line| line.contains(':')) {
                let cpu = line.split_whitespace().next().and_then(|cpu| cpu.parse().ok());
                *told.entry(cpu.unwrap()).or_default() += 1;
            }
            assert_eq!(by_cpu, told, "{name}");
            assert!(n_calls > 0, "{name}");
        }
    }
}
