//! Tests of `histogram` on traces of a few rows.

use super::*;
use crate::PerThread;
use crate::sample::{assert_division_does_not_show, json, report};
use quipu_engine::plan;
use quipu_model::Given;
use serde_json::json;

#[test]
fn fetches_go_to_one_side_and_data_to_the_other() {
    let text = "
        instr 0x1000 4
        read 0x7f00 8
        write 0x7f08 8
        prefetch 0x7f40 1
        prefetch-instr 0x2000 1
        flush-data 0x9000 64
        flush-instr 0x9000 64
        instr 0x1004 4";
    assert_eq!(
        json(&Histogram, "", text),
        json!({
            "line_size": 64,
            "icache": { "unique_lines": 2, "touches": 3, "top": [
                { "addr": "0x1000", "count": 2 }, { "addr": "0x2000", "count": 1 }] },
            "dcache": { "unique_lines": 2, "touches": 3, "top": [
                { "addr": "0x7f00", "count": 2 }, { "addr": "0x7f40", "count": 1 }] },
        })
    );
}

#[test]
fn an_access_across_a_border_counts_on_each_line() {
    let counts = json(&Histogram, "line-size=16 top=1", "read 0x100f 18");
    assert_eq!(counts["dcache"]["unique_lines"], 3);
    assert_eq!(counts["dcache"]["top"], json!([{ "addr": "0x1000", "count": 1 }]));
}

#[test]
fn threads_are_kept_apart_on_request() {
    let text = "thread 7 1\nread 0x40 4\nthread 8 1\nread 0x40 4\nread 0x80 4\nthread 7 1\nread 0x40 4";
    let report = report(&Histogram, "per-thread", text);
    let counts = report.as_any().downcast_ref::<PerThread<LineHistogram>>().unwrap();
    let lines =
        |of: &LineHistogram| of.dcache.top.iter().map(|line| (line.addr, line.count)).collect::<Vec<_>>();
    assert_eq!(lines(&counts.total), [(0x40, 3), (0x80, 1)]);
    let threads: Vec<_> = counts.threads.iter().map(|of| (of.thread.tid, lines(&of.result))).collect();
    assert_eq!(threads, [(7, vec![(0x40, 2)]), (8, vec![(0x40, 1), (0x80, 1)])]);
    assert_eq!(report.json()["threads"][1]["thread"], 8);
}

#[test]
fn an_odd_line_size_is_refused() {
    let trace = crate::sample::trace("");
    let mut given = Given::default();
    given.add("line-size", "48");
    let error = plan(&Histogram, &given, &trace).err().unwrap();
    assert_eq!(error.message(), "option `line-size` wants a power of two, found `48`");
}

#[test]
fn the_division_of_the_work_does_not_show() {
    assert_division_does_not_show(&Histogram, "top=20");
    assert_division_does_not_show(&Histogram, "line-size=256 per-thread");
}
