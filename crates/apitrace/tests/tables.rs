//! Compares tables of arguments, and of functions, with apitrace's output for the same calls.

// The helpers of a test may panic as the test may.

use crate::common;
use crate::common::{golden, open, options, traces};
use quipu_apitrace::table::{ARGS_TABLE, N_TABLES};
use quipu_model::schema::Type;
use quipu_model::values::NO_NODE;
use quipu_model::{Error, OpenOptions, Scan, ShardId, Trace};
use quipu_source::Source;
use std::collections::BTreeMap;

/// The rows of a table with their values as text; a missing value is `None`. The frame is left out.
fn rows(trace: &dyn Trace, table: usize, batch_records: u32) -> Vec<BTreeMap<String, Option<String>>> {
    let mut form = trace.row_form(&options(true, &[])).unwrap().unwrap();
    let scan = Scan { tables: vec![table], batch_records, ..Scan::new(ShardId(0)) };
    let mut reader = trace.scan(&scan).unwrap();
    let mut all = Vec::new();
    while let Some(batch) = reader.read().unwrap() {
        let mut chosen: Vec<u32> = (0..batch.tables[0].n_rows() as u32).collect();
        form.choose(batch, &mut chosen);
        for row in chosen {
            let table = &batch.tables[0];
            let cells = table.schema().fields.iter().enumerate().map(|(position, field)| {
                let column = table.column(position);
                let value = column.number(row as usize);
                let text = |bytes: &[u8]| Some(String::from_utf8(bytes.to_vec()).unwrap());
                let cell = match &field.ty {
                    Type::U32 if field.name == "index" => Some(value.to_string()),
                    _ if column.is_missing(field.missing, row as usize) => None,
                    Type::Value => {
                        let mut out = Vec::new();
                        form.text(batch, row, value as u32, &mut out);
                        text(&out)
                    }
                    Type::Dict(dict) => text(batch.dicts.get(*dict, value as u32).unwrap()),
                    Type::Function => text(&batch.types.function(value as u32).unwrap().name),
                    _ => Some(value.to_string()),
                };
                (field.name.to_string(), cell)
            });
            all.push(cells.collect());
        }
    }
    all
}

fn table(trace: &dyn Trace, name: &str) -> usize {
    trace.learn().unwrap();
    trace.tables().unwrap().iter().position(|schema| schema.name == name).unwrap()
}

/// True for a text that apitrace's `dump` prints unchanged; others are not compared.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\')
}

/// Calls of a golden that take one line: number, function, all `name = value` pairs as one text, and the result.
fn lines(golden: &[u8]) -> Vec<(String, String, String, Option<String>)> {
    let text = String::from_utf8_lossy(golden);
    let call = |line: &str| -> Option<(String, String, String, Option<String>)> {
        let (number, rest) = line.split_once(' ')?;
        number.parse::<u64>().ok()?;
        let (function, rest) = rest.split_once('(')?;
        let rest = rest.strip_suffix(" // incomplete").or(rest.strip_suffix(" // fake")).unwrap_or(rest);
        let (args, result) = match rest.rsplit_once(") = ") {
            Some((args, result)) => (args, Some(result.to_owned())),
            None => (rest.strip_suffix(')')?, None),
        };
        Some((number.to_owned(), function.to_owned(), args.to_owned(), result))
    };
    text.lines().filter_map(call).collect()
}

#[test]
fn arguments_in_rows_are_those_that_the_original_prints() {
    for name in ["glxgears-300", "tri", "threads-3x20", "synth-v0", "kinds-backtrace", "incomplete-call"] {
        let trace = open(name);
        let mut by_call: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for row in rows(&*trace, ARGS_TABLE, 100) {
            by_call.entry(row["call"].clone().unwrap()).or_default().push(row);
        }
        let mut n_compared = 0;
        for (number, function, args, result) in lines(&golden(&format!("golden/{name}.dump-v.txt.gz"))) {
            let rows = by_call.get(&number).map_or(&[][..], |rows| &rows[..]);
            if rows.iter().any(|row| row["value"].as_ref().is_some_and(|value| !is_plain(value))) {
                continue;
            }
            let shown = |row: &BTreeMap<String, Option<String>>| {
                let value = row["value"].clone().unwrap();
                let is_text = row["kind"].as_deref() == Some("7");
                if is_text { format!("\"{value}\"") } else { value }
            };
            let named: Vec<String> = rows
                .iter()
                .filter(|row| row["index"].as_deref() != Some("4294967295"))
                .map(|row| format!("{} = {}", row["name"].as_ref().unwrap(), shown(row)))
                .collect();
            let returned = rows.iter().find(|row| row["index"].as_deref() == Some("4294967295"));
            assert!(rows.iter().all(|row| row["function"].as_ref() == Some(&function)), "{name} {number}");
            // Arguments that were not recorded have no row.
            let args: Vec<&str> = split(&args).into_iter().filter(|arg| !arg.ends_with(" = ?")).collect();
            assert_eq!(named, args, "{name} {number}");
            assert_eq!(returned.map(shown), result, "{name} {number}");
            n_compared += 1;
        }
        assert!(n_compared > 5, "{name}: {n_compared}");
    }
}

/// Splits `a = 1, b = {2, 3}` at the commas between arguments.
fn split(args: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut in_string) = (Vec::new(), 0, 0, false);
    for (at, byte) in args.bytes().enumerate() {
        match byte {
            b'"' => in_string = !in_string,
            b'{' | b'(' if !in_string => depth += 1,
            b'}' | b')' if !in_string => depth -= 1,
            b',' if depth == 0 && !in_string => {
                parts.push(args[start..at].trim_start());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !args[start..].is_empty() {
        parts.push(args[start..].trim_start());
    }
    parts
}

#[test]
fn a_table_of_a_function_has_its_arguments_as_columns() {
    let trace = open("tri");
    let rows = rows(&*trace, table(&*trace, "call.glViewport"), 3);
    let cells = |name: &str| -> Vec<Option<&str>> { rows.iter().map(|row| row[name].as_deref()).collect() };
    let golden: Vec<_> = lines(&golden("golden/tri.dump-v.txt.gz"))
        .into_iter()
        .filter(|(_, function, ..)| function == "glViewport")
        .collect();
    assert_eq!(rows.len(), golden.len());
    assert!(!rows.is_empty());
    for (row, (number, _, args, _)) in rows.iter().zip(&golden) {
        assert_eq!(row["call"].as_ref(), Some(number));
        let shown = ["x", "y", "width", "height"]
            .map(|name| format!("{name} = {}", row[name].as_deref().unwrap()))
            .join(", ");
        assert_eq!(shown, *args);
    }
    assert_eq!(cells("result"), vec![None; rows.len()]);
}

/// Checks all functions of all traces: a row for each call, and each value in its column.
#[test]
fn tables_of_functions_hold_what_the_table_of_arguments_holds() {
    for name in traces() {
        if name == "glxgears-300" || name == "tri_glsl" {
            continue; // Many calls of few functions.
        }
        let trace = open(&name);
        let args = rows(&*trace, ARGS_TABLE, 1024);
        let mut expected: BTreeMap<(String, String, String), String> = BTreeMap::new();
        for row in &args {
            let cell = |name: &str| row[name].clone().unwrap_or_else(|| "result".to_owned());
            // Arguments beyond those that the signature names have no column.
            if row["name"].is_none() && row["index"].as_deref() != Some("4294967295") {
                continue;
            }
            expected
                .insert((format!("call.{}", cell("function")), cell("call"), cell("name")), cell("value"));
        }
        trace.learn().unwrap();
        for (i, schema) in trace.tables().unwrap().iter().enumerate().skip(N_TABLES) {
            for row in rows(&*trace, i, 50) {
                let call = row["call"].clone().unwrap();
                for column in &schema.fields[6..] {
                    let key = (schema.name.to_string(), call.clone(), column.name.to_string());
                    assert_eq!(row[&*column.name], expected.remove(&key), "{name} {key:?}");
                }
            }
        }
        assert_eq!(expected, BTreeMap::new(), "{name}");
    }
}

#[test]
fn rows_are_those_of_the_calls_that_were_chosen() {
    let trace = open("tri");
    let settings = [("calls".to_owned(), "18".to_owned())];
    let mut form = trace.row_form(&options(false, &settings)).unwrap().unwrap();
    let mut reader = trace.scan(&Scan { tables: vec![ARGS_TABLE], ..Scan::new(ShardId(0)) }).unwrap();
    let (mut n_chosen, mut n_of_call) = (0, 0);
    while let Some(batch) = reader.read().unwrap() {
        let mut rows: Vec<u32> = (0..batch.tables[0].n_rows() as u32).collect();
        form.choose(batch, &mut rows);
        let calls = batch.tables[0].column(1);
        n_of_call += (0..calls.len()).filter(|row| calls.number(*row) == 18).count();
        assert!(rows.iter().all(|row| calls.number(*row as usize) == 18));
        n_chosen += rows.len();
    }
    assert!(n_of_call > 0);
    assert_eq!(n_chosen, n_of_call);
}

#[test]
fn a_pipe_has_no_tables_that_must_be_learned() {
    let bytes = common::bytes("tri");
    let source = Source::from_reader("pipe", std::io::Cursor::new(bytes));
    let trace = quipu_apitrace::trace::open(&source, &OpenOptions::default()).unwrap();
    let error: Error = trace.learn().unwrap_err();
    assert_eq!(error.kind(), quipu_model::ErrorKind::Unsupported);
}

#[test]
fn signatures_of_one_name_make_one_table() {
    use quipu_apitrace::encode::{self, Encoder};
    use quipu_apitrace::reader::CallReader;
    use quipu_model::values::{FunctionType, Type, Types};
    use quipu_model::{Columns, Reader};
    use std::sync::Arc;
    let trace = quipu_apitrace::trace::open(&common::source("tri"), &OpenOptions::default()).unwrap();
    let scan = Scan::new(ShardId(0)).columns(Columns::CALL_VALUES);
    let mut reader = CallReader::new(trace.container(), &scan).unwrap();
    let batch = reader.read().unwrap().unwrap();
    let call = batch.values.calls[0];
    let with = |id: u64, args: &[&str]| {
        let args = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        Arc::new(Type::Function(FunctionType { id, name: b"f".to_vec(), args, flags: 0 }))
    };
    let mut types = Types::default();
    let mut out = Vec::new();
    encode::header(trace.header(), &mut out);
    let mut encoder = Encoder::default();
    // An argument named like a column, one without a name, the same name twice; then another signature.
    for (id, args) in [(1, &["call", "", "x", "x"][..]), (2, &["x", "result"])] {
        let function = types.push(with(id, args));
        let mut values = batch.values.clone();
        let n_args = args.len() as u32;
        values.args.truncate(call.args.0 as usize);
        values.nodes.clear();
        for index in 0..n_args {
            values.nodes.push(quipu_model::values::Node::scalar(
                quipu_model::values::Kind::Unsigned,
                10 * id + u64::from(index),
            ));
            values.args.push(quipu_model::values::Arg { index, node: index });
        }
        let call = quipu_model::values::Call {
            function,
            number: id - 1,
            args: (call.args.0, call.args.0 + n_args),
            result: NO_NODE,
            ..call
        };
        encoder.call(&call, &values, &types, &mut out);
    }
    let source = Source::from_bytes("made", out);
    let trace = quipu_apitrace::trace::open(&source, &OpenOptions::default()).unwrap();
    trace.learn().unwrap();
    let learned = trace.tables().unwrap().split_off(N_TABLES);
    assert_eq!(learned.len(), 1);
    let names: Vec<&str> = learned[0].fields[6..].iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["call_", "arg1", "x", "x_2", "result_", "result"]);
    let rows = rows(&trace, N_TABLES, 10);
    let cells: Vec<Vec<Option<&str>>> =
        rows.iter().map(|row| names.iter().map(|name| row[*name].as_deref()).collect()).collect();
    assert_eq!(
        cells,
        [
            [Some("10"), Some("11"), Some("12"), Some("13"), None, None],
            [None, None, Some("20"), None, Some("21"), None],
        ]
    );
}
