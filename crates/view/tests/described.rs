//! A trace of an unknown format: only its own bytes describe its tables, columns, names, roles and rules. It is viewed,
//! filtered, analysed, checked and converted to JSON like any other.

// The helpers of a test may panic as the test may.
#![allow(clippy::unwrap_used)]

use quipu_engine::{Merge, RunOptions, Watch, plan, run};
use quipu_isa::Syntax;
use quipu_model::check::{CheckLog, CheckReport, CheckedRecords};
use quipu_model::print::Ordinals;
use quipu_model::result::{Fields, Shape};
use quipu_model::schema::{Missing, Type};
use quipu_model::{
    Batch, Beside, Chosen, Columns, Confidence, DynPass, Format, Given, Needs, OpenOptions, Options, Order,
    Paint, Pass, Predicate, Printer, Report, Result, Scan, Shard, ShardId, Tool, ToolInfo, Trace,
};
use quipu_source::Source;
use quipu_testkit::described::DESCRIBED;
use quipu_view::{LineForm, RowLines};

const TEXT: &str = "described
table events what happened
field when time:1 role=1 unit=ns
field who u64 role=4
field what enum:u8 role=8 names=0:read,1:write,200:flush group=access:read,write
field where address role=6
field bytes u32 role=7 missing=4294967295
field note text optional
field hops list:u16
field place struct:x=i32,y=f64
field user dict:0
field id fixed:2
row 100 7 1 0x1000 8 first 1,2,3 -5;0.5 alice ab
row 110 7 200 0x1040 - - - 0;0 bob cd
row 120 9 0 0x2000 4 a\"b 7 1;-2 alice ef
finding odd-note it says nothing
table totals what it came to
field sum i64
row -12
";

fn open() -> Box<dyn Trace> {
    let source = Source::from_bytes("made", TEXT.as_bytes().to_vec());
    assert_eq!(DESCRIBED.probe(&source), Confidence::Sure);
    DESCRIBED.open(&source, &OpenOptions::default()).unwrap()
}

/// The rows of a table that a predicate selects, as lines.
fn view(trace: &dyn Trace, table: usize, form: LineForm, predicate: &Predicate) -> Result<String> {
    let schema = &trace.tables()?[table];
    let chosen = Chosen::new(predicate, schema)?;
    let mut printer = RowLines::new(schema, form, None, Syntax::Att);
    let (mut out, mut rows) = (Vec::new(), Vec::new());
    printer.begin(&mut out);
    let watch = Watch::new();
    // Batches of two rows: dictionaries grow from one to the next.
    let scan = Scan { tables: vec![table], batch_records: 2, ..Scan::new(ShardId(0)) };
    let mut merge = Merge::new(trace, &scan, &watch)?;
    while let Some(merged) = merge.read()? {
        let batch = &*merged.batch;
        chosen.choose(&*batch.tables[0], Beside::of(batch, Ordinals::default()), &mut rows)?;
        printer.print(merged.batch, &rows, Ordinals::default(), &Paint::PLAIN, &mut out);
    }
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn rows_become_json_by_the_schema_of_the_trace_alone() {
    let trace = open();
    let text = view(&*trace, 0, LineForm::Json, &Predicate::default()).unwrap();
    let rows: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = serde_json::json!([
        { "when": 100, "who": 7, "what": "write", "where": "0x1000", "bytes": 8, "note": "first",
          "hops": [1, 2, 3], "place": { "x": -5, "y": 0.5 }, "user": "alice", "id": "6162" },
        { "when": 110, "who": 7, "what": "flush", "where": "0x1040", "bytes": null, "note": null,
          "hops": [], "place": { "x": 0, "y": 0 }, "user": "bob", "id": "6364" },
        { "when": 120, "who": 9, "what": "read", "where": "0x2000", "bytes": 4, "note": "a\"b",
          "hops": [7], "place": { "x": 1, "y": -2 }, "user": "alice", "id": "6566" },
    ]);
    assert_eq!(serde_json::Value::Array(rows), expected);
    assert_eq!(view(&*trace, 1, LineForm::Json, &Predicate::default()).unwrap(), "{\"sum\":-12}\n");
}

#[test]
fn rows_become_csv() {
    let text = view(&*open(), 0, LineForm::Csv, &Predicate::default()).unwrap();
    assert_eq!(
        text,
        "when,who,what,where,bytes,note,hops,place,user,id\n\
         100,7,write,0x1000,8,first,\"[1,2,3]\",\"{\"\"x\"\":-5,\"\"y\"\":0.5}\",alice,6162\n\
         110,7,flush,0x1040,,,[],\"{\"\"x\"\":0,\"\"y\"\":0}\",bob,6364\n\
         120,9,read,0x2000,4,\"a\"\"b\",[7],\"{\"\"x\"\":1,\"\"y\"\":-2}\",alice,6566\n"
    );
}

#[test]
fn rows_are_chosen_by_roles_and_by_names_that_were_learned() {
    let trace = open();
    let whens = |predicate: Predicate| -> Vec<u64> {
        let text = view(&*trace, 0, LineForm::Json, &predicate).unwrap();
        let when =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["when"].as_u64().unwrap();
        text.lines().map(when).collect()
    };
    let none = Predicate::default;
    assert_eq!(whens(Predicate { threads: vec![9.into()], ..none() }), [120]);
    assert_eq!(whens(Predicate { addr: Some(0x1007..=0x1040), ..none() }), [100, 110]);
    assert_eq!(whens(Predicate { time: Some(101..=110), ..none() }), [110]);
    assert_eq!(whens(Predicate { kinds: vec!["access".into()], ..none() }), [100, 120]);
    assert_eq!(whens(Predicate { kinds: vec!["flush".into()], ..none() }), [110]);
    let unknown = Predicate { kinds: vec!["jump".into()], ..none() };
    let error = view(&*trace, 0, LineForm::Json, &unknown).unwrap_err();
    assert_eq!(error.advice(), Some("kinds: access, read, write, flush"));
}

#[test]
fn what_the_trace_says_of_itself_is_learned() {
    let trace = open();
    let facts: Vec<_> = trace.meta().facts.iter().map(|fact| (&*fact.key, &*fact.label)).collect();
    assert_eq!(facts, [("fields_of_events", "what happened"), ("fields_of_totals", "what it came to")]);
    let fields = &trace.tables().unwrap()[0].fields;
    assert_eq!(
        (&fields[4].missing, &fields[0].ty),
        (&Missing::Is(u32::MAX.into()), &Type::Time { clock: 1 })
    );
}

/// Counts accesses, and collects the findings of reading.
struct Check(CheckLog, u64);

impl Pass for Check {
    fn fork(&self, _: &Shard) -> Check {
        Check(self.0.fork(), 0)
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        self.1 += batch.accesses.len() as u64;
        batch.findings.iter().for_each(|finding| self.0.take(finding.clone()));
        Ok(())
    }

    fn merge(&mut self, later: Check) -> Result<()> {
        self.1 += later.1;
        self.0.merge(later.0);
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(CheckReport::new(&self.0, self.1, "accesses", CheckedRecords { records: self.1 })))
    }
}

struct CheckTool;

impl Tool for CheckTool {
    fn result(&self) -> Shape {
        CheckReport::<CheckedRecords>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &ToolInfo {
            name: "check",
            summary: "what a trace says is wrong with it",
            needs: Needs { format: Some("described"), required: Columns::ACCESSES, optional: Columns::NONE },
            order: Order::Shards,
            options: &[],
            in_report: false,
        }
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(Check(CheckLog::new(options, &[], &trace.meta().findings)?, 0)))
    }
}

#[test]
fn a_check_reports_rules_that_only_the_trace_knows() {
    let trace = open();
    let watch = Watch::new();
    let planned = plan(&CheckTool, &Given::default(), &*trace).unwrap();
    let outcome = run(&*trace, vec![planned], &RunOptions::new(&watch)).unwrap();
    let json = outcome.reports[0].json();
    assert_eq!(json["records"], 3, "the lens is filled by the roles of columns: {json}");
    assert_eq!(json["rules"][0]["rule"], "described/odd-note");
    assert!(outcome.reports[0].is_flawed());
}

#[test]
fn a_faulty_description_is_an_error_that_names_the_line() {
    let source = Source::from_bytes("made", b"described\ntable a b\nfield c whatever\n".to_vec());
    let error = DESCRIBED.open(&source, &OpenOptions::default()).err().unwrap();
    assert_eq!(error.message(), "line 3: `whatever` is no type");
}
