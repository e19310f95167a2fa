//! Tests of `aggregate` on traces of a few rows.

use super::*;
use crate::sample::{assert_batches_do_not_show, assert_division_does_not_show, json, trace};
use quipu_engine::plan;
use quipu_model::{ErrorKind, Given};
use serde_json::{Value, json};

const TEXT: &str = "
    clock 100\ninstr 0x10 2\nread 0x1000 8\nread 0x1008 8\nwrite 0x2000 4
    instr 0x12 4\nread 0x1010 8\nwrite 0x3000 64\nclock 110\nsyscall 202\nclock 150
    instr 0x12 4\nread 0x1010 1\nclock 151\nsyscall 202\nclock 152\ninstr 0x16 4\nsyscall 1";

/// The keys with the digits of all values.
fn groups(found: &Value) -> Vec<(String, Vec<String>)> {
    let digits = |value: &Value| value["digits"].as_str().unwrap_or("NULL").to_owned();
    let values = |group: &Value| group["values"].as_array().unwrap().iter().map(digits).collect();
    let groups = found["groups"].as_array().unwrap().iter();
    groups.map(|group| (group["key"].as_str().unwrap().to_owned(), values(group))).collect()
}

fn check(options: &str, expected: &[(&str, &[&str])]) {
    let found = groups(&json(&Aggregate, options, TEXT));
    let expected: Vec<(String, Vec<String>)> = expected
        .iter()
        .map(|(key, values)| ((*key).to_owned(), values.iter().map(|value| (*value).to_owned()).collect()))
        .collect();
    assert_eq!(found, expected, "{options}");
}

#[test]
fn records_are_counted_without_any_column() {
    let found = json(&Aggregate, "", TEXT);
    assert_eq!(found["of"], "records");
    assert_eq!((&found["rows"], &found["keys"]), (&json!(18), &json!(1)));
    check("", &[("", &["18"])]);
    check("where=FALSE", &[]);
}

#[test]
fn rows_of_a_lens_are_aggregated_by_any_keys() {
    check(
        "of=accesses by=kind agg=count(),sum(size),min(addr),max(addr)",
        &[("read", &["4", "25", "0x1000", "0x1010"]), ("write", &["2", "68", "0x2000", "0x3000"])],
    );
    check(
        "of=accesses by=page(addr),kind agg=sum(size)",
        &[("0x3000,write", &["64"]), ("0x1000,read", &["25"]), ("0x2000,write", &["4"])],
    );
    check(
        "of=accesses agg=avg(size),stddev(size),count(*) where=kind='read'",
        &[("", &["6.25", "3.031088913245535", "4"])],
    );
    check("of=accesses by=size>4 agg=count() where=record>3", &[("true", &["3"]), ("false", &["2"])]);
}

#[test]
fn system_calls_are_rows_with_their_latency() {
    let found = json(&Aggregate, "by=name agg=quantize(latency),count(),max(latency)", TEXT);
    assert_eq!(found["of"], "syscalls");
    assert_eq!(found["aggregations"][0]["missing"], 1);
    assert_eq!(
        groups(&found),
        [
            ("futex".to_owned(), vec!["2".to_owned(), "2".to_owned(), "40".to_owned()]),
            ("write".to_owned(), vec!["0".to_owned(), "1".to_owned(), "NULL".to_owned()]),
        ]
    );
    // The same numbers as those of the tool that measures latencies.
    let cells = json!([{ "bound": 1, "count": 1 }, { "bound": 32, "count": 1 }]);
    assert_eq!(found["groups"][0]["values"][0]["cells"], cells);
    let other = json(&crate::syscalls::Syscalls, "", TEXT);
    assert_eq!(other["syscalls"][0]["latency"]["max_ticks"], 40);
}

#[test]
fn histograms_have_the_cells_of_dtrace() {
    let cells = |options: &str| {
        let found = json(&Aggregate, options, TEXT);
        let cells = found["groups"][0]["values"][0]["cells"].as_array().unwrap().clone();
        let pair = |cell: &Value| (cell["bound"].as_i64().unwrap(), cell["count"].as_i64().unwrap());
        cells.iter().map(pair).collect::<Vec<_>>()
    };
    assert_eq!(cells("of=accesses agg=quantize(size)"), [(1, 1), (4, 1), (8, 3), (64, 1)]);
    assert_eq!(cells("of=accesses agg=quantize(-size)"), [(-64, 1), (-8, 3), (-4, 1), (-1, 1)]);
    assert_eq!(cells("of=accesses agg=lquantize(size,2,10,4)"), [(-2, 1), (2, 1), (6, 3), (10, 1)]);
    assert_eq!(cells("of=accesses agg=llquantize(size,10,0,1,10)"), [(1, 1), (4, 1), (8, 3), (60, 1)]);
}

fn refused(options: &str) -> (ErrorKind, String, Option<String>) {
    let mut given = Given::default();
    for word in options.split(' ') {
        let (name, value) = word.split_once('=').unwrap();
        given.add(name, value);
    }
    let error = plan(&Aggregate, &given, &trace(TEXT)).err().unwrap_or_else(|| panic!("{options}"));
    (error.kind(), error.message().to_owned(), error.advice().map(str::to_owned))
}

#[test]
fn what_cannot_be_aggregated_is_refused_with_what_there_is() {
    for (options, kind, message) in [
        ("by=pc agg=sum(size)", ErrorKind::Usage, "have `pc` and `size`"),
        ("agg=sum(latencies)", ErrorKind::Missing, "no table or lens of this trace has `latencies`"),
        ("agg=sum(latency) where=class='return'", ErrorKind::Missing, "has all of `latency` and `class`"),
        ("of=accesses agg=median(size)", ErrorKind::Usage, "there is no aggregation `median`"),
        ("of=accesses agg=size", ErrorKind::Usage, "`size` is no aggregation"),
        ("of=accesses agg=sum(kind)", ErrorKind::Usage, "expected a number, found a text"),
        ("of=accesses agg=sum()", ErrorKind::Usage, "`sum` takes one expression"),
        ("of=accesses agg=quantize(size/2.5)", ErrorKind::Usage, "expected a whole number"),
        ("of=accesses agg=lquantize(size,0,0,1)", ErrorKind::Usage, "no histogram has these parameters"),
        ("of=accesses agg=llquantize(size,10,0,1,7)", ErrorKind::Usage, "no histogram has these parameters"),
        ("of=accesses agg=lquantize(size,0,size,1)", ErrorKind::Usage, "the same for all rows"),
        ("of=nothing by=pc", ErrorKind::Usage, "the trace has no table `nothing`"),
    ] {
        let (found, text, _) = refused(options);
        assert!(found == kind && text.contains(message), "{options}: {text}");
    }
    let (.., advice) = refused("agg=sum(latencies)");
    assert!(advice.unwrap().starts_with("did you mean `latency`?; tables and lenses: "));
}

#[test]
fn limits_and_overflows_end_it() {
    let run = |options: &str, text: &str| {
        let mut given = Given::default();
        options
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .for_each(|(name, value)| given.add(name, value));
        let trace = trace(text);
        let watch = quipu_engine::Watch::new();
        let planned = plan(&Aggregate, &given, &trace).unwrap();
        let error = quipu_engine::run(&trace, vec![planned], &quipu_engine::RunOptions::new(&watch)).err();
        error.unwrap_or_else(|| panic!("{options}"))
    };
    let error = run("of=accesses by=addr keys-limit=3", TEXT);
    assert_eq!(error.message(), "there are more than 3 keys");
    assert!(error.advice().unwrap().contains("--keys-limit"));
    let error = run(
        "of=accesses agg=quantize(addr),max(record)",
        "read 0x7fffffffffffffff 8\nread 0xffffffffffffffff 8",
    );
    assert!(
        error.message().starts_with("`quantize` takes numbers of 63 bits with a sign\n    quantize(addr)")
    );
    assert_eq!(error.place().record, Some(2));
    let error = run("of=accesses agg=sum(addr*addr*4)", "read 0xffffffffffffffff 8");
    assert!(error.message().starts_with("the result has more than 127 bits"), "{}", error.message());
}

#[test]
fn no_division_of_the_work_shows() {
    for options in [
        "",
        "of=accesses by=kind agg=count(),sum(addr),avg(addr),stddev(addr),quantize(size)",
        "of=accesses by=line(addr),size agg=count() top=0",
        "of=accesses agg=sum(size/3.0),stddev(addr/7.0),min(size*0.5),max(addr) where=size<>4",
        "of=accesses by=addr%5 agg=lquantize(size,0,64,8),llquantize(addr,10,3,9,10)",
        "of=instrs by=pc agg=count() top=7",
        "by=function,edge agg=count()",
    ] {
        assert_division_does_not_show(&Aggregate, options);
    }
    // These need complete shards.
    for options in ["by=number agg=count(),quantize(latency)", "of=accesses by=record%5 agg=sum(size)"] {
        assert_batches_do_not_show(&Aggregate, options, &quipu_testkit::MemoryTrace::random(5, 2, 1500));
    }
}

#[test]
fn few_bytes_are_kept_for_a_key() {
    let mut text = String::new();
    for n in 0..2000u64 {
        text.push_str(&format!("read {:#x} 8\n", 0x1000 + 8 * n));
    }
    let found = json(&Aggregate, "of=accesses by=addr agg=count(),quantize(size) top=1", &text);
    assert_eq!(found["keys"], 2000);
    // A number, its slot in the table at a load of one half, the key, a count, a histogram of one cell.
    let table = 2 * (size_of::<(u64, u32)>() + 1);
    let key = size_of::<(u8, Box<[u8]>)>() + size_of::<u64>() + 40;
    assert!(2 * (table + key) <= 250, "twice, as vectors may have room for as many again");
}
