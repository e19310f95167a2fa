//! `quipu sql`. Most of it is asked where the program has its engine: `cargo nextest run -p quipu-cli --features sql`.

use quipu_testkit::fixtures;
use std::process::{Command, Output};

fn sql(args: &[&str]) -> Output {
    let root = fixtures("").parent().unwrap().to_owned();
    Command::new(env!("CARGO_BIN_EXE_quipu")).current_dir(root).arg("sql").args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const THREADS: &str = "traces/drmemtrace/threadsig.x64";

#[cfg(not(feature = "sql"))]
#[test]
fn without_its_engine_the_verb_says_how_to_have_it() {
    let done = sql(&["SELECT 1 FROM accesses", THREADS]);
    assert!(done.status.code() == Some(2) && said(&done).contains("./dev quipu-sql"), "{done:?}");
    let done = sql(&["SELECT 1 FROM accesses", "no-such-trace"]);
    assert!(done.status.code() == Some(2) && said(&done).contains("no-such-trace"), "{done:?}");
}

#[cfg(feature = "sql")]
mod with_engine {
    use super::*;
    use quipu::engine::{Selection, row_names, rows};
    use quipu::model::{OpenOptions, Table};
    use std::path::PathBuf;
    use std::sync::Arc;

    fn answer(args: &[&str]) -> String {
        let done = sql(args);
        assert_eq!(done.status.code(), Some(0), "{args:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// One number.
    fn number(question: &str, trace: &str) -> String {
        let text = answer(&["--as", "csv", question, trace]);
        text.lines().nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn twenty_questions_have_the_answers_of_their_page() {
        let path = fixtures("").parent().unwrap().join("docs/queries.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let mut made = String::new();
        let mut n_asked = 0;
        let mut rest = page.as_str();
        while let Some(at) = rest.find("\n<!-- ") {
            let (before, after) = rest.split_at(at + 1);
            made.push_str(before);
            let (traces, after) = after["<!-- ".len()..].split_once(" -->\n\n```sql\n").unwrap();
            let (question, after) = after.split_once("```\n").unwrap();
            let after =
                after.strip_prefix("\n```text\n").map_or(after, |old| old.split_once("```\n").unwrap().1);
            let args: Vec<&str> = [question.trim()].into_iter().chain(traces.split(' ')).collect();
            made.push_str(&format!(
                "<!-- {traces} -->\n\n```sql\n{question}```\n\n```text\n{}```\n",
                answer(&args)
            ));
            rest = after;
            n_asked += 1;
        }
        made.push_str(rest);
        assert_eq!(n_asked, 20);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, made).unwrap();
        } else {
            assert!(made == page, "answers differ from docs/queries.md: BLESS=1 writes them; now\n{made}");
        }
    }

    /// Small traces of all formats.
    fn samples() -> Vec<PathBuf> {
        let names = [
            "drmemtrace/tiny.func",
            "drmemtrace/threadsig.x64",
            "drmemtrace/small/drmemtrace.small.x64.trace",
            "apitrace/kinds.trace",
            "apitrace/glxgears-300.trace",
            "cacheray/shapes.trace",
            "lackey/mixed.lackey",
            "din/labels.din",
        ];
        names.iter().map(|name| fixtures(name)).collect()
    }

    #[test]
    fn each_table_and_lens_has_as_many_rows_as_readers_have() {
        for path in samples() {
            let trace: Arc<dyn quipu::model::Trace> =
                Arc::from(quipu::open_path(&path, &OpenOptions::default()).unwrap());
            for name in row_names(&*trace).unwrap() {
                let counted: usize = rows(trace.clone(), &Selection::new(name.as_str()))
                    .unwrap()
                    .map(|batch| batch.unwrap().n_rows())
                    .sum();
                let asked = number(&format!("SELECT count(*) FROM {name}"), path.to_str().unwrap());
                assert_eq!(asked, counted.to_string(), "{name} of {}", path.display());
            }
        }
    }

    #[test]
    fn counts_are_those_of_the_analysis() {
        for path in samples().into_iter().filter(|path| path.to_string_lossy().contains("drmemtrace")) {
            let path = path.to_str().unwrap();
            let done = Command::new(env!("CARGO_BIN_EXE_quipu"))
                .args(["analyze", "counts", "--json", path])
                .output()
                .unwrap();
            let counts: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
            let total = &counts["results"]["counts"]["total"];
            let pairs = [
                ("loads", "SELECT count(*) FROM accesses WHERE kind = 'read'"),
                ("stores", "SELECT count(*) FROM accesses WHERE kind = 'write'"),
                ("unique_instructions", "SELECT count(DISTINCT pc) FROM instrs"),
                ("system_call_markers", "SELECT count(*) FROM threads WHERE what = 'syscall'"),
                ("loads", "SELECT \"total.loads\" FROM counts(t)"),
            ];
            for (key, question) in pairs {
                assert_eq!(number(question, path), total[key].to_string(), "{key} of {path}");
            }
        }
    }

    #[test]
    fn sums_of_addresses_are_exact() {
        let path = fixtures("drmemtrace/threadsig.x64");
        let trace = Arc::from(quipu::open_path(&path, &OpenOptions::default()).unwrap());
        let selection = Selection { fields: Some(vec!["addr".into()]), ..Selection::new("lens.accesses") };
        let mut sum = 0u128;
        for batch in rows(trace, &selection).unwrap() {
            let batch = batch.unwrap();
            sum += (0..batch.n_rows()).map(|row| u128::from(batch.column(0).number(row))).sum::<u128>();
        }
        assert!(sum > u64::MAX.into());
        assert_eq!(number("SELECT sum(addr) FROM accesses", THREADS), sum.to_string());
        // Numbers that are divided stay whole.
        assert_eq!(
            number("SELECT max(record) / 1000 = floor(max(record) / 1000) FROM memrefs", THREADS),
            "true"
        );
    }

    #[test]
    fn conditions_reach_the_reader_and_change_no_answer() {
        let question = "SELECT count(*), min(addr), max(addr) FROM memrefs WHERE record BETWEEN 500 AND 700 AND tid = 872894";
        let plan = answer(&[&format!("EXPLAIN {question}"), THREADS]);
        for words in [
            "window=records 499..700",
            "read where thread in [872894] and record in 500..=700",
            "columns=[addr]",
        ] {
            assert!(plan.contains(words), "{words}: {plan}");
        }
        assert!(!plan.contains("FilterExec"), "{plan}");
        // What the reader cannot do is done after it.
        let slow = question.replace("record BETWEEN", "record + 0 BETWEEN").replace("tid =", "tid + 0 =");
        assert!(answer(&[&format!("EXPLAIN {slow}"), THREADS]).contains("FilterExec"));
        assert_eq!(number(question, THREADS), number(&slow, THREADS));
        for condition in [
            "kind = 'write'",
            "kind IN ('read', 'write')",
            "size > 4",
            "tid IN (872805, 872894)",
            "pc IS NULL",
        ] {
            let quick = number(&format!("SELECT count(*) FROM accesses WHERE {condition}"), THREADS);
            let slow = format!("SELECT count(*) FILTER (WHERE {condition}) FROM accesses");
            assert_eq!(quick, number(&slow, THREADS), "{condition}");
        }
        let none = number("SELECT count(*) FROM accesses WHERE tid = 872805 AND tid = 872894", THREADS);
        assert_eq!(none, "0");
    }

    #[test]
    fn rows_come_in_the_order_of_the_trace() {
        let text = answer(&["--as", "csv", "SELECT shard, record FROM accesses", THREADS]);
        let rows: Vec<(u64, u64)> = text
            .lines()
            .skip(1)
            .map(|line| line.split_once(',').unwrap())
            .map(|(shard, record)| (shard.parse().unwrap(), record.parse().unwrap()))
            .collect();
        assert_eq!(rows.len(), 272_358);
        assert!(rows.is_sorted());
    }

    #[test]
    fn errors_point_at_the_place_and_propose_names() {
        for (question, words) in [
            (
                "SELECT * FROM memref",
                "at line 1, column 15\n    SELECT * FROM memref\n                  ^\n  help: did you mean `memrefs`?",
            ),
            ("SELECT kindd FROM accesses", "at line 1, column 8"),
            ("SELECT kindd FROM accesses", "did you mean `kind`?"),
            ("SELECT kind FRM accesses", "at line 1, column 17"),
            ("SELECT * FROM hot_lines(t, topp => 3)", "tool `hot` has no option `topp`"),
            ("SELECT * FROM hot_lines(other)", "no trace is called `other`"),
            ("SELECT * FROM frames_frames()", "table function 'frames_frames' not found"),
            ("SELECT sum(kind) FROM accesses", "sum adds up numbers"),
            ("SELECT line(addr, 3) FROM accesses", "a size is a power of two"),
            ("SELECT 1 FROM accesses; SELECT 2", "statement"),
            ("WITH x AS (SELECT 1) DELETE FROM accesses", "not implemented"),
        ] {
            let done = sql(&[question, THREADS]);
            assert!(
                done.status.code() == Some(2) && said(&done).to_lowercase().contains(&words.to_lowercase()),
                "{question}: {done:?}"
            );
        }
    }

    #[test]
    fn hostile_questions_end_with_one_line() {
        let deep = format!("SELECT {}1{} FROM accesses", "(".repeat(20_000), ")".repeat(20_000));
        let done = sql(&[&deep, THREADS]);
        assert!(done.status.code() == Some(2) && said(&done).contains("recursion"), "{}", said(&done));
        let done = sql(&["--memory", "1Mi", "SELECT array_agg(addr) FROM accesses", THREADS]);
        assert!(done.status.code() == Some(2) && said(&done).contains("--memory"), "{done:?}");
        let regex = "SELECT count(*) FROM accesses WHERE CAST(kind AS VARCHAR) ~ '^((((a+)+)+)+)+$'";
        assert_eq!(number(regex, THREADS), "0");
        // A sort that is larger than the memory goes to files.
        let text = answer(&[
            "--as",
            "csv",
            "--memory",
            "32Mi",
            "SELECT addr, record FROM accesses ORDER BY addr, record",
            THREADS,
        ]);
        assert_eq!(text.lines().count(), 272_359);
    }

    #[test]
    fn answers_have_many_looks() {
        let question = "SELECT kind, count(*) AS n FROM accesses GROUP BY kind ORDER BY n DESC";
        assert_eq!(answer(&["--as", "csv", question, THREADS]), "kind,n\nread,172208\nwrite,100150\n");
        let json = answer(&["--as", "json", question, THREADS]);
        assert_eq!(json, "{\"kind\":\"read\",\"n\":172208}\n{\"kind\":\"write\",\"n\":100150}\n");
        let place = tempfile::tempdir().unwrap();
        for (name, magic) in [
            ("a.parquet", &b"PAR1"[..]),
            ("a.arrows", &[0xff; 4]),
            ("a.csv", b"kind"),
            ("a.jsonl", b"{\"kin"),
        ] {
            let path = place.path().join(name);
            answer(&[question, THREADS, "-o", path.to_str().unwrap()]);
            assert!(std::fs::read(&path).unwrap().starts_with(magic), "{name}");
            let again = sql(&[question, THREADS, "-o", path.to_str().unwrap()]);
            assert!(
                again.status.code() == Some(2) && said(&again).contains("of that name already"),
                "{again:?}"
            );
        }
    }

    #[test]
    fn a_damaged_trace_is_answered_for_what_is_whole() {
        let place = tempfile::tempdir().unwrap();
        let cut = place.path().join("cut.trace");
        let whole = std::fs::read(fixtures("cacheray/shapes.trace")).unwrap();
        std::fs::write(&cut, &whole[..whole.len() - 5]).unwrap();
        let done = sql(&["SELECT count(*) AS n FROM records", cut.to_str().unwrap()]);
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        assert!(said(&done).contains("the answer is about the rest"), "{done:?}");
    }

    #[test]
    fn several_traces_and_learned_tables_have_names() {
        let b = "b=traces/drmemtrace/small/drmemtrace.small.x64.trace";
        let question = "SELECT (SELECT count(*) FROM accesses) - (SELECT count(*) FROM b.accesses), \
                        (SELECT count(*) FROM b_lens.accesses) = (SELECT count(*) FROM b.accesses) AS same";
        let text = answer(&["--as", "csv", question, THREADS, b]);
        assert!(text.trim_end().ends_with(",true"), "{text}");
        let calls = "traces/apitrace/glxgears-300.trace";
        let of_table = number("SELECT count(*) FROM call.\"glRotatef\"", calls);
        assert_eq!(of_table, number("SELECT count(*) FROM calls WHERE function = 'glRotatef'", calls));
        assert_ne!(of_table, "0");
    }

    #[test]
    fn damage_of_every_trace_that_is_named_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let whole = fixtures("stream").join("dtrace-mixed_1000.quipu");
        let damaged = folder.path().join("damaged.quipu");
        let mut bytes = std::fs::read(&whole).unwrap();
        bytes[0x3cfc] ^= 4;
        std::fs::write(&damaged, bytes).unwrap();
        let (whole, damaged) = (whole.display().to_string(), damaged.display().to_string());
        let second = format!("b={damaged}");
        let calls: [&[&str]; 3] = [
            &["SELECT count(*) FROM records", &damaged],
            &["SELECT count(*) FROM b.records", &whole, &second],
            &["SELECT count(*) FROM b.records", &whole, &second, "--as", "csv"],
        ];
        for call in calls {
            let done = sql(call);
            assert_eq!(done.status.code(), Some(1), "{call:?}: {done:?}");
            assert!(said(&done).contains("damaged.quipu: offset 0x"), "{call:?}: {}", said(&done));
            assert!(said(&done).contains(" lost"), "{call:?}: {}", said(&done));
        }
        // Of a file whose checksum is wrong, nothing counts.
        let mut packed = std::fs::read(fixtures("lackey").join("nodes.lackey.gz")).unwrap();
        let at = packed.len() - 6;
        packed[at] ^= 1;
        let summed = folder.path().join("summed.lackey.gz");
        std::fs::write(&summed, packed).unwrap();
        let done = sql(&["SELECT count(*) FROM accesses", summed.to_str().unwrap()]);
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        // A question about nothing that is damaged is answered.
        let done = sql(&["SELECT count(*) FROM records", &whole]);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
    }
}
