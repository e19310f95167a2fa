//! Rows for other programs: the same for any number of threads and any batch size, equal to selecting rows one by one, with
//! everything that could not be read reported.

use quipu_engine::{RowOrder, RowStream, Selection, rows, rows_of_each};
use quipu_model::schema::{Missing, Type};
use quipu_model::{
    Accept, Columns, Condition, ErrorKind, Predicate, Result, Scan, Shard, Table, ThreadId, Trace, Window,
};
use quipu_testkit::{MemoryShard, MemoryTrace};
use std::sync::Arc;

fn random(seed: u64) -> Arc<dyn Trace> {
    Arc::new(MemoryTrace::random(seed, 4, 3000))
}

/// The rows of a selection, each as text with its numbers and bytes, and the stream at its end.
fn read(trace: &Arc<dyn Trace>, selection: &Selection) -> (Vec<String>, RowStream) {
    let mut stream = rows(trace.clone(), selection).unwrap();
    let mut lines = Vec::new();
    for batch in &mut stream {
        let batch = batch.unwrap();
        assert!(batch.n_rows() > 0, "no batch is empty");
        lines.extend((0..batch.n_rows()).map(|row| line(&batch, row)));
    }
    (lines, stream)
}

fn all(trace: &Arc<dyn Trace>, selection: &Selection) -> Vec<String> {
    let (lines, stream) = read(trace, selection);
    assert!(stream.error().is_none() && stream.found().is_empty());
    lines
}

fn line(table: &dyn Table, row: usize) -> String {
    let fields = table.schema().fields.iter().enumerate();
    let cell = |(at, field): (usize, &quipu_model::Field)| {
        let column = table.column(at);
        assert_eq!(column.len(), table.n_rows(), "{}", field.name);
        match &field.ty {
            _ if column.is_missing(field.missing, row) => "-".to_owned(),
            Type::Bytes | Type::Text => format!("{:?}", column.bytes(row)),
            Type::List(_) => {
                let (items, range) = column.items(row).unwrap();
                format!("{:?}", range.map(|at| items.as_ref().number(at)).collect::<Vec<_>>())
            }
            _ => column.number(row).to_string(),
        }
    };
    fields.map(cell).collect::<Vec<_>>().join(" ")
}

/// The accesses of a trace, read one shard after the other, as `shard record tid pid addr size kind pc`.
fn accesses(trace: &dyn Trace) -> Vec<String> {
    let mut lines = Vec::new();
    let columns = Columns::ACCESSES | Columns::ACCESS_PC;
    for Shard { id, .. } in trace.shards() {
        let mut reader = trace.scan(&Scan::new(*id).columns(columns)).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            let (span, rows) = (batch.span, &batch.accesses);
            for row in 0..rows.len() {
                let record = span.first_record + u64::from(rows.at[row]) + 1;
                let (tid, pid) = (span.thread.packed(), span.process);
                let (addr, size, kind, pc) =
                    (rows.addr[row], rows.size[row], rows.kind[row] as u8, rows.pc[row]);
                lines.push(format!("{} {record} {tid} {pid} {addr} {size} {kind} {pc}", span.shard));
            }
        }
    }
    lines
}

#[test]
fn rows_of_a_lens_are_those_of_its_readers_whatever_the_threads_and_batches() {
    for seed in 0..5 {
        let trace = random(seed);
        let expected = accesses(&*trace);
        assert!(expected.len() > 1000);
        for (threads, batch_rows, buffer_bytes) in
            [(1, 8192, 64 << 20), (3, 1, 1), (2, 100, 10_000), (8, 300, 1), (0, 8192, 1 << 20)]
        {
            let selection = Selection { threads, batch_rows, buffer_bytes, ..Selection::new("accesses") };
            assert_eq!(all(&trace, &selection), expected, "{threads} {batch_rows} {buffer_bytes}");
            let any = Selection { order: RowOrder::Any, ..selection };
            let (mut found, mut sorted) = (all(&trace, &any), expected.clone());
            found.sort();
            sorted.sort();
            assert_eq!(found, sorted);
        }
    }
}

#[test]
fn pieces_are_read_side_by_side_where_positions_do_not_matter() {
    for seed in 0..5 {
        let trace = random(seed);
        let fields = ["tid", "addr", "kind"].map(str::to_owned).to_vec();
        let selection = Selection { fields: Some(fields), ..Selection::new("accesses") };
        let expected: Vec<String> = accesses(&*trace)
            .iter()
            .map(|line| {
                let cells: Vec<&str> = line.split(' ').collect();
                [cells[2], cells[4], cells[6]].join(" ")
            })
            .collect();
        assert_eq!(all(&trace, &selection), expected);
    }
}

#[test]
fn rows_in_the_order_of_time_count_along_the_sequence() {
    let text = "shard a\nmark 0 1\nclock 10\nmark 0 2\nclock 30\nmark 0 3\nshard b\nclock 20\nmark 0 4";
    let trace: Arc<dyn Trace> = Arc::new(MemoryTrace::parse(text).unwrap());
    let fields = || Some(["record", "value", "shard"].map(str::to_owned).to_vec());
    let time = Selection { fields: fields(), order: RowOrder::Time, ..Selection::new("marks") };
    assert_eq!(all(&trace, &time), ["1 1 0", "3 2 0", "5 4 1", "7 3 0"]);
    let ordered = Selection { fields: fields(), ..Selection::new("marks") };
    assert_eq!(all(&trace, &ordered), ["1 1 0", "3 2 0", "5 3 0", "2 4 1"]);
    let part = Selection { window: Window::Records(2..6), ..time };
    assert_eq!(all(&trace, &part), ["3 2 0", "5 4 1"]);
    let part = Selection { window: Window::Records(2..6), ..ordered };
    assert_eq!(all(&trace, &part), ["3 2 0", "2 4 1"], "the same part in another order");
    // A condition on positions refers to the positions that are delivered.
    let columns = vec![Condition { column: "record".to_owned(), accept: Accept::Between(3..=5) }];
    let predicate = Predicate { columns, ..Predicate::default() };
    let fifth = Selection { predicate: predicate.clone(), order: RowOrder::Time, ..Selection::new("marks") };
    assert_eq!(all(&trace, &fifth).len(), 2);
    let fifth = Selection { predicate, fields: fields(), ..Selection::new("marks") };
    assert_eq!(all(&trace, &fifth), ["3 2 0", "5 3 0"]);
}

/// Whether a predicate selects a row, given the numbers of its columns.
type IsChosen = fn(&[u64]) -> bool;

#[test]
fn every_predicate_keeps_the_rows_that_it_describes() {
    let condition = |column: &str, accept| Condition { column: column.to_owned(), accept };
    let none = Predicate::default;
    let cases: Vec<(Predicate, IsChosen)> = vec![
        (Predicate { threads: vec![ThreadId::from(101), 200.into()], ..none() }, |row| {
            [101, 200].contains(&row[2])
        }),
        (Predicate { kinds: vec!["write".into()], ..none() }, |row| row[6] == 1),
        (Predicate { addr: Some(0x7000_0100..=0x7000_0fff), ..none() }, |row| {
            row[4] <= 0x7000_0fff && row[4] + row[5].max(1) > 0x7000_0100
        }),
        (Predicate { pc: Some(0x40_0000..=0x40_0040), ..none() }, |row| row[7] <= 0x40_0040),
        (Predicate { columns: vec![condition("size", Accept::Between(3..=9))], ..none() }, |row| {
            (3..=9).contains(&row[5])
        }),
        (Predicate { columns: vec![condition("record", Accept::Between(50..=900))], ..none() }, |row| {
            (50..=900).contains(&row[1])
        }),
        (
            Predicate {
                columns: vec![
                    condition("record", Accept::Between(-5..=10_000)),
                    condition("shard", Accept::Between(2..=2)),
                ],
                ..none()
            },
            |row| row[0] == 2,
        ),
    ];
    let trace = random(3);
    let whole = accesses(&*trace);
    for (number, (predicate, is_chosen)) in cases.into_iter().enumerate() {
        let is_chosen = |line: &&String| {
            let cells: Vec<u64> = line.split(' ').map(|cell| cell.parse().unwrap()).collect();
            is_chosen(&cells)
        };
        let expected: Vec<&String> = whole.iter().filter(is_chosen).collect();
        assert!(!expected.is_empty() && expected.len() < whole.len(), "{number}");
        for batch_rows in [1, 64, 8192] {
            let selection =
                Selection { predicate: predicate.clone(), batch_rows, ..Selection::new("accesses") };
            assert_eq!(all(&trace, &selection).iter().collect::<Vec<_>>(), expected, "{number} {batch_rows}");
            // Conditions can use columns that are not delivered.
            let counted = Selection { fields: Some(Vec::new()), ..selection };
            let n: usize = rows(trace.clone(), &counted).unwrap().map(|batch| batch.unwrap().n_rows()).sum();
            assert_eq!(n, expected.len(), "{number}");
        }
    }
}

#[test]
fn tables_come_with_bytes_in_place_of_indexes() {
    let shard =
        MemoryShard::new("a").thread(7, 1).code(0x10, &[0x90]).instr(0x20, 2).code(0x30, &[0x0f, 0x05]);
    let trace: Arc<dyn Trace> = Arc::new(MemoryTrace::new(vec![shard]));
    let selection =
        Selection { fields: Some(vec!["code".to_owned(), "value".to_owned()]), ..Selection::new("records") };
    let (lines, stream) = read(&trace, &selection);
    assert_eq!(lines, ["[144] 16", "- 32", "[15, 5] 48"]);
    let code = &stream.schema().fields[0];
    assert_eq!((&code.ty, code.missing), (&Type::Bytes, Missing::Bitmap));
    let lens =
        Selection { fields: Some(vec!["pc".to_owned(), "code".to_owned()]), ..Selection::new("instrs") };
    assert_eq!(all(&trace, &lens), ["16 [144]", "32 -", "48 [15, 5]"]);
}

#[test]
fn calls_keep_their_arguments() {
    let trace: Arc<dyn Trace> = Arc::new(MemoryTrace::parse("enter 3 10 20\nleave 3 5\nenter 4").unwrap());
    let fields = ["function", "args", "result"].map(str::to_owned).to_vec();
    for name in ["calls", "lens.calls"] {
        let selection = Selection { fields: Some(fields.clone()), batch_rows: 2, ..Selection::new(name) };
        assert_eq!(all(&trace, &selection), ["3 [10, 20] -", "3 [] 5", "4 [] -"]);
    }
}

const BROKEN: &str = "
shard a
mark 0 1
finding error it is odd
mark 0 2
fault it is broken
mark 0 3
shard b
mark 0 4
fault it is broken, too
shard c
mark 0 5";

#[test]
fn what_cannot_be_read_is_told_beside_the_rows_that_can() {
    let trace: Arc<dyn Trace> = Arc::new(MemoryTrace::parse(BROKEN).unwrap());
    let fields = Some(vec!["value".to_owned()]);
    for order in [RowOrder::Trace, RowOrder::Time, RowOrder::Any] {
        for threads in [1, 3] {
            let selection = Selection { fields: fields.clone(), order, threads, ..Selection::new("marks") };
            let (mut values, stream) = read(&trace, &selection);
            if order == RowOrder::Any {
                values.sort();
            }
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            assert_eq!(values, ["1", "2", "4", "5"], "{order:?}");
            let messages: Vec<&str> = stream.found().as_slice().iter().map(|found| &*found.message).collect();
            let error = stream.error().unwrap().message();
            assert!(error.starts_with("it is broken"), "{error}");
            assert_eq!(messages.len(), 2, "{messages:?}");
            assert!(messages.contains(&"it is odd"));
            if order == RowOrder::Trace {
                assert_eq!(error, "it is broken");
            }
            let strict = Selection { strict: true, ..selection };
            let failed: Result<Vec<_>> = rows(trace.clone(), &strict).unwrap().collect();
            assert!(failed.is_err());
        }
    }
}

#[test]
fn a_panic_of_a_reader_is_an_error() {
    let trace: Arc<dyn Trace> = Arc::new(MemoryTrace::parse("mark 0 1\ncrash it is worse").unwrap());
    let error = rows(trace, &Selection::new("marks")).unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.message().contains("it is worse"));
}

#[test]
fn a_limit_ends_reading_and_a_stream_may_be_dropped_at_any_time() {
    let trace = random(1);
    let expected = accesses(&*trace);
    for order in [RowOrder::Trace, RowOrder::Time, RowOrder::Any] {
        for (limit, batch_rows) in [(0, 10), (1, 10), (10, 10), (777, 100), (1 << 40, 1000)] {
            let selection = Selection { limit, batch_rows, order, threads: 3, ..Selection::new("accesses") };
            let lines = all(&trace, &selection);
            assert_eq!(lines.len() as u64, limit.min(expected.len() as u64));
            if order == RowOrder::Trace {
                assert_eq!(lines, expected[..lines.len()]);
            }
        }
        for n_taken in 0..3 {
            let selection =
                Selection { order, batch_rows: 16, buffer_bytes: 1, ..Selection::new("accesses") };
            let mut stream = rows(trace.clone(), &selection).unwrap();
            assert_eq!(stream.by_ref().take(n_taken).filter(Result::is_ok).count(), n_taken);
            drop(stream);
        }
    }
}

#[test]
fn a_cancelled_stream_ends() {
    let selection = Selection { batch_rows: 16, buffer_bytes: 1, threads: 2, ..Selection::new("accesses") };
    let mut stream = rows(random(2), &selection).unwrap();
    assert!(stream.next().unwrap().is_ok());
    stream.watch().cancel();
    let n_rest: usize = stream.by_ref().map(|batch| batch.unwrap().n_rows()).sum();
    assert!(n_rest < accesses(&*random(2)).len() / 2, "{n_rest}");
    assert!(stream.next().is_none());
}

#[test]
fn a_whole_stream_says_how_far_it_has_come() {
    let trace = random(4);
    let mut stream = rows(trace, &Selection::new("records")).unwrap();
    let n_rows: usize = stream.by_ref().map(|batch| batch.unwrap().n_rows()).sum();
    let watch = stream.watch();
    assert_eq!((watch.progress().records, watch.is_cancelled()), (n_rows as u64, false));
    assert!(!stream.has_delivered_damaged());
}

#[test]
fn files_of_other_threads_stay_closed() {
    // Reading the second shard would panic.
    let text = "shard a\nthread 7 1\nmark 0 1\nread 16 4\nshard b\nthread 8 1\ncrash it is opened";
    let trace: Arc<dyn Trace> = Arc::new(MemoryTrace::parse(text).unwrap());
    let predicate = Predicate { threads: vec![7.into()], ..Predicate::default() };
    for order in [RowOrder::Trace, RowOrder::Time] {
        let fields = Some(vec!["value".to_owned()]);
        let selection = Selection { predicate: predicate.clone(), fields, order, ..Selection::new("marks") };
        assert_eq!(all(&trace, &selection), ["1"]);
    }
}

#[test]
fn wrong_names_are_refused_with_what_there_is() {
    let trace = random(0);
    let refused = |selection: Selection| {
        let error = rows(trace.clone(), &selection).err().unwrap();
        (error.kind(), error.message().to_owned(), error.advice().unwrap_or_default().to_owned())
    };
    let field = |name: &str| Some(vec![name.to_owned()]);
    let (kind, message, advice) = refused(Selection::new("recs"));
    assert_eq!(
        (kind, &*message, &*advice),
        (ErrorKind::Usage, "the trace has no table `recs`", "tables: records")
    );
    let (_, message, advice) = refused(Selection { fields: field("adr"), ..Selection::new("accesses") });
    assert_eq!((&*message, &*advice), ("table `accesses` has no column `adr`", "did you mean `addr`?"));
    let (_, message, _) =
        refused(Selection { fields: Some(vec!["addr".into(), "addr".into()]), ..Selection::new("accesses") });
    assert_eq!(message, "column `addr` is asked for twice");
    let (kind, message, _) = refused(Selection::new("regions"));
    assert_eq!(kind, ErrorKind::Missing);
    assert_eq!(message, "rows of `regions` need regions, which this trace does not carry");

    let few: Arc<dyn Trace> = Arc::new(MemoryTrace::random(0, 1, 50).with_columns(Columns::ACCESSES));
    let stream = rows(few.clone(), &Selection::new("accesses")).unwrap();
    let names: Vec<&str> = stream.schema().fields.iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["shard", "record", "tid", "pid", "addr", "size", "kind"], "without what there is not");
    let error = rows(few, &Selection { fields: field("pc"), ..Selection::new("accesses") }).err().unwrap();
    assert_eq!(error.message(), "rows of `accesses` need accesses.pc, which this trace does not carry");
}

#[test]
fn rows_of_several_tables_come_out_of_one_read() {
    for seed in 0..4 {
        let trace = random(seed);
        let mut names = quipu_engine::row_names(&*trace).unwrap();
        // Twice the same is the same twice.
        names.push(names[0].clone());
        for threads in [1, 3] {
            let selection =
                |name: &String| Selection { threads, batch_rows: 300, ..Selection::new(name.as_str()) };
            let selections: Vec<Selection> = names.iter().map(selection).collect();
            let mut stream = rows_of_each(trace.clone(), &selections).unwrap();
            let mut lines: Vec<Vec<String>> = vec![Vec::new(); names.len()];
            while let Some(next) = stream.next_of_each() {
                let (nth, batch) = next.unwrap();
                assert_eq!(*batch.schema(), stream.schemas()[nth]);
                lines[nth].extend((0..batch.n_rows()).map(|row| line(&batch, row)));
            }
            let n_records = stream.watch().progress().records;
            let mut n_rows = 0;
            for ((name, selection), lines) in names.iter().zip(&selections).zip(lines) {
                let (alone, of_one) = read(&trace, selection);
                assert!(lines == alone, "{name}");
                assert_eq!(of_one.watch().progress().records, n_records, "{name}");
                n_rows += lines.len();
            }
            assert!(n_rows > 1000 && names.len() > 4);
        }
        let by_time = Selection { order: RowOrder::Time, ..Selection::new("accesses") };
        for refused in [&[by_time.clone(), by_time][..], &[]] {
            let error = rows_of_each(trace.clone(), refused).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Usage);
        }
    }
}
