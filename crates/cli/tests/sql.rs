//! `quipu sql`. Most tests need the engine: `cargo nextest run -p quipu-cli --features sql`.

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
    use std::io::Write;
    use std::path::PathBuf;
    use std::process::Stdio;
    use std::sync::Arc;

    fn answer(args: &[&str]) -> String {
        let done = sql(args);
        assert_eq!(done.status.code(), Some(0), "{args:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// The first value of a result.
    fn number(question: &str, trace: &str) -> String {
        let text = answer(&["--as", "csv", question, trace]);
        text.lines().nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn two_dozen_questions_have_the_answers_of_their_page() {
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
        assert_eq!(n_asked, 24);
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
        // The quotient of integers is an integer.
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
        // Conditions that the reader cannot evaluate are evaluated after it.
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
        let done = sql(&["--memory", "1Mi", "SELECT array_agg(addr) FROM accesses", THREADS]);
        assert!(done.status.code() == Some(2) && said(&done).contains("--memory"), "{done:?}");
        let regex = "SELECT count(*) FROM accesses WHERE CAST(kind AS VARCHAR) ~ '^((((a+)+)+)+)+$'";
        assert_eq!(number(regex, THREADS), "0");
        // A sort that exceeds the memory limit uses files.
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

    /// Runs a query from standard input, because arguments have a length limit.
    fn asked(question: &str) -> Output {
        let root = fixtures("").parent().unwrap().to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command.current_dir(root).args(["sql", THREADS]);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        child.stdin.take().unwrap().write_all(question.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Queries with `n` levels of nesting, of several kinds.
    fn deep(n: usize) -> Vec<String> {
        let nested =
            |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(n), close.repeat(n));
        let values = [
            nested("(", "1", ")"),
            nested("NOT ", "true", ""),
            nested("- ", "1", ""),
            nested("CASE WHEN true THEN ", "1", " END"),
            nested("abs(", "1", ")"),
            nested("(SELECT ", "1", ")"),
            nested("", "1", " + 1"),
            nested("", "'a'", " || 'a'"),
            nested("", "true", " OR 1 = 2"),
            nested("", "true", " AND 1 = 1"),
            nested("", "1", "::BIGINT"),
            nested("", "[1]", "[1]"),
            nested("INTERVAL ", "'1 day'", ""),
            nested("", "true", " IS NULL"),
            nested("1 IN (", "1", ")"),
        ];
        let questions = [
            format!("SELECT * FROM {} LIMIT 1", nested("(SELECT * FROM ", "accesses", ")")),
            nested("", "SELECT 1", " UNION SELECT 1"),
            nested("", "SELECT 1", " UNION ALL SELECT 1"),
            nested("", "SELECT 1", " EXCEPT SELECT 2"),
            nested("EXPLAIN ", "SELECT 1", ""),
            nested("", "SELECT 1 FROM (VALUES (1)) a", ", (VALUES (1)) b"),
        ];
        let values = values.into_iter().map(|value| format!("SELECT {value} AS x FROM accesses LIMIT 1"));
        values.chain(questions).collect()
    }

    #[test]
    fn deep_questions_are_answered_or_refused_with_their_place() {
        for n in [40, 240, 20_000] {
            for question in deep(n) {
                let done = asked(&question);
                let start = &question[..question.len().min(60)];
                let is_refused = done.status.code() == Some(2);
                assert!(done.status.code() == Some(0) || is_refused, "{n} times: {start}: {done:?}");
                let has_place = said(&done).contains("nests more than") && said(&done).contains(", column ");
                assert!(n < 20_000 || has_place, "{n} times: {start}: {}", said(&done));
            }
        }
    }

    #[test]
    fn queries_of_with_that_double_are_refused_before_they_are_planned() {
        let with = |n: usize, body: &str| {
            let more =
                (1..=n).map(|at| format!(",\na{at} AS ({})", body.replace("{}", &format!("a{}", at - 1))));
            let more = more.collect::<String>();
            format!("WITH a0 AS (SELECT 1 AS x){more}\nSELECT count(*) AS n FROM a{n}")
        };
        let twice = "SELECT * FROM {} UNION ALL SELECT * FROM {}";
        let deep = format!("SELECT * FROM {}{{}}{}", "(SELECT * FROM ".repeat(10), ")".repeat(10));
        let sums = format!("SELECT x{} AS x FROM {{}}", " + 1".repeat(100));
        for (question, what) in [
            (with(30, twice), "repeat more than 10000 parts"),
            (with(30, "SELECT l.x FROM {} l JOIN {} r ON l.x = r.x"), "repeat more than 10000 parts"),
            (format!("EXPLAIN {}", with(30, twice)), "repeat more than 10000 parts"),
            (with(100, &deep), "nest more than 1000 times"),
            // Projections of each other become one.
            (with(100, &sums), "nest more than 1000 times"),
            // Expressions that double, with one table.
            (with(30, "SELECT x + x AS x FROM {}"), "repeat more than 10000 expressions"),
            (
                format!("{} WHERE x > 0", with(30, "SELECT x * 2 + x AS x FROM {}")),
                "repeat more than 10000 expressions",
            ),
        ] {
            let begun = std::time::Instant::now();
            let done = asked(&question);
            let said = said(&done);
            assert_eq!(done.status.code(), Some(2), "{said}");
            assert!(said.contains(what) && said.contains(", column "), "{said}");
            assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
        }
        for (n, body) in [
            (100, "SELECT DISTINCT x FROM {} WHERE x > 0 ORDER BY x LIMIT 5"),
            (9, sums.as_str()),
            (20, deep.as_str()),
        ] {
            let done = asked(&with(n, body));
            assert_eq!(done.status.code(), Some(0), "{}", said(&done));
        }
        let done = asked(&with(9, twice));
        assert!(String::from_utf8_lossy(&done.stdout).contains("512"), "{done:?}");
    }

    #[test]
    fn sums_are_numbers_like_others() {
        let sum: u64 = number("SELECT sum(size) FROM accesses", THREADS).parse().unwrap();
        for (expr, expected) in [
            ("sum(size) * 100", sum * 100),
            ("sum(size) / 1", sum),
            ("sum(size) + count(*) - count(*)", sum),
            ("sum(size::BIGINT UNSIGNED) * 2", sum * 2),
            ("sum(size) FILTER (WHERE kind = 'read') + sum(size) FILTER (WHERE kind = 'write')", sum),
            ("sum(DISTINCT size::SMALLINT)", 0),
        ] {
            let answer = number(&format!("SELECT {expr} FROM accesses"), THREADS);
            assert!(expected == 0 || answer == expected.to_string(), "{expr}: {answer}, not {expected}");
        }
        let running = "SELECT max(s) FROM (SELECT sum(size) OVER (ORDER BY record) AS s FROM accesses)";
        assert_eq!(number(running, THREADS), sum.to_string());
        let sliding = "SELECT max(s) <= 64 * 3 FROM (SELECT sum(size) OVER \
                       (ORDER BY record ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM accesses)";
        assert_eq!(number(sliding, THREADS), "true");
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
    fn tables_that_reading_teaches_are_told_and_listed() {
        use std::io::Write;
        let root = fixtures("").parent().unwrap().to_owned();
        let calls = "traces/apitrace/glxgears-300.trace";
        let mut shell = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .current_dir(root)
            .args(["sql", "--as", "csv", calls])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let questions =
            ".tables\nSELECT 'asked' AS it;\nSELECT count(*) FROM call.\"glVertex3f\";\n.tables\n";
        shell.stdin.take().unwrap().write_all(questions.as_bytes()).unwrap();
        let done = shell.wait_with_output().unwrap();
        let text = String::from_utf8(done.stdout.clone()).unwrap();
        let (before, after) = text.split_once("asked").unwrap();
        assert!(!before.contains("call.glVertex3f") && after.contains("call.glVertex3f"), "{text}");
        let said = said(&done);
        assert!(said.contains("reading has taught tables: call.\"") && said.contains(" more;"), "{said}");
        // Values of arguments are complete.
        let value = number("SELECT value FROM args WHERE function = 'glVertex3f' AND name = 'x'", calls);
        assert!(value.parse::<f64>().is_ok(), "{value}");
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
        // Nothing in a file with a wrong checksum is trusted.
        let mut packed = std::fs::read(fixtures("lackey").join("nodes.lackey.gz")).unwrap();
        let at = packed.len() - 6;
        packed[at] ^= 1;
        let summed = folder.path().join("summed.lackey.gz");
        std::fs::write(&summed, packed).unwrap();
        let done = sql(&["SELECT count(*) FROM accesses", summed.to_str().unwrap()]);
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        // A query that touches nothing damaged succeeds.
        let done = sql(&["SELECT count(*) FROM records", &whole]);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
    }

    /// The rows of a result as text.
    fn table(question: &str, trace: &str) -> Vec<Vec<String>> {
        let text = answer(&["--as", "csv", question, trace]);
        text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
    }

    #[test]
    fn all_lines_and_pages_add_up() {
        let lines = "SELECT count(*), sum(reads + writes) FROM lines";
        let whole = "SELECT distinct_lines, accesses FROM hot(t)";
        assert_eq!(table(lines, THREADS), table(whole, THREADS));
        let pages = "SELECT count(*), sum(executed) FROM pages";
        let whole = "SELECT distinct_pages, executed FROM hot(t)";
        assert_eq!(table(pages, THREADS), table(whole, THREADS));
    }

    #[test]
    fn misses_of_a_named_cache_are_those_that_the_simulation_counts() {
        for cache in ["L1D", "L1I", "LL"] {
            let rows = format!(
                "SELECT count(*) FROM misses(t, cache => '{cache}') WHERE kind IN ('fetch', 'read', 'write')"
            );
            let counted = format!("SELECT misses FROM caches_levels(t) WHERE name = '{cache}'");
            let n_misses = number(&rows, THREADS);
            assert_eq!(n_misses, number(&counted, THREADS), "{cache}");
            assert_ne!(n_misses, "0");
        }
        // The cache may be given without the name of the option; misses of one core are a subset of those of all.
        let first = "SELECT count(*), count(DISTINCT cache), min(cache) FROM misses(t, 'l1d0')";
        let part = "SELECT count(*), 1, 'L1D0' FROM misses(t, cache => 'L1D') WHERE cache = 'L1D0'";
        assert_eq!(table(first, THREADS), table(part, THREADS));
        // The view covers the last cache, where the tool's sum is over reads.
        let reads = number("SELECT count(*) FROM misses WHERE kind = 'read'", THREADS);
        assert_eq!(reads, number("SELECT read_misses FROM misses_summary(t)", THREADS));
        let limited = answer(&["--as", "csv", "SELECT addr FROM misses(t, 'L1D') LIMIT 3", THREADS]);
        assert_eq!(limited.lines().count(), 4);
        let done = sql(&["SELECT 1 FROM misses(t, cache => 'L2')", THREADS]);
        assert!(done.status.code() == Some(2) && said(&done).contains("no cache `L2`"), "{done:?}");
    }

    #[test]
    fn reuse_distances_of_accesses_amount_to_those_of_the_analysis() {
        for (unit, size) in [("line", 64), ("page", 4096)] {
            let rows = format!(
                "SELECT count(*), count(distance), round(avg(distance), 6), max(distance) FROM reuse_distance(t, '{unit}')"
            );
            let whole = format!(
                "SELECT accesses, reuses, round(mean, 6), (SELECT max(max) FROM reuse_distance_histogram(t, line_size => {size})) \
                 FROM reuse_distance_summary(t, line_size => {size})"
            );
            assert_eq!(table(&rows, THREADS), table(&whole, THREADS), "{unit}");
        }
        // Unselected shards are not read, and the others give the same results.
        let one = "SELECT count(*), sum(distance) FROM reuse_distance(t) WHERE tid = 872894";
        assert!(answer(&[&format!("EXPLAIN {one}"), THREADS]).contains("shards where thread in [872894]"));
        let slow = one.replace("tid =", "tid + 0 =");
        assert_eq!(table(one, THREADS), table(&slow, THREADS));
        let shard = one.replace("tid = 872894", "shard = 3");
        assert_eq!(table(&shard, THREADS), table(&shard.replace("shard =", "shard + 0 ="), THREADS));
        // A condition on records would change the earlier accesses.
        let late = "SELECT count(distance) FROM reuse_distance(t) WHERE record > 10000";
        assert_eq!(number(late, THREADS), number(&late.replace("record >", "record + 0 >"), THREADS));
        let plan = answer(&["EXPLAIN SELECT distance FROM reuse_distance(t) WHERE record > 10000", THREADS]);
        assert!(plan.contains("columns=[record, distance]") && plan.contains("FilterExec"), "{plan}");
        // If the order of rows is visible, it is that of the trace.
        let text = answer(&["--as", "csv", "SELECT shard, record FROM reuse_distance(t)", THREADS]);
        let rows = text.lines().skip(1).map(|line| line.split_once(',').unwrap());
        assert!(rows.map(|(a, b)| (a.parse::<u64>().unwrap(), b.parse::<u64>().unwrap())).is_sorted());
    }

    #[test]
    fn accesses_with_types_are_those_that_the_analysis_counts() {
        let shapes = "traces/cacheray/shapes.trace";
        let rows = "SELECT coalesce(type, '(no region)') AS name, count(*) AS n FROM accesses_with_types(t) \
                    WHERE kind IN ('read', 'write') GROUP BY type ORDER BY name";
        let counted = "SELECT name, accesses FROM types WHERE accesses > 0 ORDER BY name";
        assert_eq!(table(rows, shapes), table(counted, shapes));
        let with = "types => 'traces/cacheray/types/shapes.dwarf.json'";
        let rows = format!(
            "SELECT type, field, count(*) FROM accesses_with_types(t, {with}) WHERE field <> '' GROUP BY 1, 2 ORDER BY 1, 2"
        );
        let text = answer(&["--as", "csv", &rows, shapes]);
        let fields = [
            "body,id,32",
            "body,mass,48",
            "body,pos.x,64",
            "body,pos.y,48",
            "body,pos.z,48",
            "body,vel.x,48",
            "body,vel.y,48",
            "body,vel.z,64",
            "node,fl.c,48",
            "node,n.i|f,24",
            "node,next,36",
            "node,tag,12",
            "pad,c,4",
            "pad,d,4",
            "pad,l,8",
        ];
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), fields);
        let same = "SELECT (SELECT count(*) FROM accesses_with_types(t)) = (SELECT count(*) FROM accesses)";
        assert_eq!(number(same, shapes), "true");
        let done = sql(&["SELECT type FROM accesses_with_types(t)", THREADS]);
        assert!(done.status.code() == Some(2) && said(&done).contains("needs regions"), "{done:?}");
    }

    /// A trace that records the scans requested from it.
    struct Noted {
        trace: Box<dyn quipu::model::Trace>,
        scans: std::sync::Mutex<Vec<quipu::model::Scan>>,
    }

    impl quipu::model::Trace for Noted {
        fn meta(&self) -> &quipu::model::Meta {
            self.trace.meta()
        }

        fn shards(&self) -> &[quipu::model::Shard] {
            self.trace.shards()
        }

        fn columns(&self) -> quipu::model::Columns {
            self.trace.columns()
        }

        fn tables(&self) -> quipu::model::Result<Vec<Arc<quipu::model::Schema>>> {
            self.trace.tables()
        }

        fn scan(&self, scan: &quipu::model::Scan) -> quipu::model::Result<Box<dyn quipu::model::Reader>> {
            self.scans.lock().unwrap().push(scan.clone());
            self.trace.scan(scan)
        }

        fn printer(
            &self,
            options: &quipu::model::trace::PrintOptions,
        ) -> quipu::model::Result<Box<dyn quipu::model::Printer>> {
            self.trace.printer(options)
        }
    }

    /// Scans that a query requests from a trace.
    fn scans(question: &str, path: &str) -> Vec<quipu::model::Scan> {
        use quipu_query::sql::{Session, Settings};
        let trace = quipu::open_path(&fixtures(path), &OpenOptions::default()).unwrap();
        let noted = Arc::new(Noted { trace, scans: std::sync::Mutex::default() });
        let tools = |format: &str| quipu::tools_of(format).collect();
        let memory_option = "--memory";
        let settings =
            Settings { memory_bytes: 64 << 20, memory_option, threads: 1, tools, binaries: Vec::new() };
        let session = Session::new(vec![("t".to_owned(), noted.clone())], settings).unwrap();
        session.ask(question, &mut |_| true, &mut |_, _| Ok(())).unwrap();
        let scans = std::mem::take(&mut *noted.scans.lock().unwrap());
        assert!(!scans.is_empty(), "{question}");
        scans
    }

    #[test]
    fn columns_that_are_not_asked_for_are_not_decoded() {
        use quipu::model::Columns;
        let has = |question: &str, column: Columns| {
            scans(question, "drmemtrace/threadsig.x64").iter().any(|scan| scan.columns.has(column))
        };
        for (question, column) in [
            ("SELECT sum(pc) FROM accesses", Columns::ACCESS_PC),
            ("SELECT count(*) FROM accesses WHERE pc > 5", Columns::ACCESS_PC),
            ("SELECT count(code) FROM instrs", Columns::INSTR_CODE),
            ("SELECT count(target) FROM instrs", Columns::INSTR_TARGET),
            ("SELECT sum(pc) FROM reuse_distance(t)", Columns::ACCESS_PC),
        ] {
            assert!(has(question, column), "{question}");
        }
        for question in [
            "SELECT sum(addr), count(kind) FROM accesses WHERE size > 2",
            "SELECT sum(addr) FROM (SELECT addr, pc FROM accesses)",
            "SELECT max(distance) FROM reuse_distance(t)",
        ] {
            assert!(!has(question, Columns::ACCESS_PC), "{question}");
        }
        for column in [Columns::INSTR_CODE, Columns::INSTR_TARGET, Columns::ACCESSES] {
            assert!(!has("SELECT sum(pc) FROM instrs WHERE class = 'conditional-jump'", column));
        }
        // Nothing is read while a query is planned.
        let explained = "EXPLAIN SELECT * FROM misses(t), lines, reuse_distance(t)";
        let path = fixtures("drmemtrace/threadsig.x64");
        assert!(answer(&[explained, path.to_str().unwrap()]).contains("ToolScan: rows=misses"));
    }

    #[test]
    fn only_the_chunks_of_a_range_are_inflated() {
        let source = fixtures("drmemtrace/tiny.chunk1000");
        let name = "drmemtrace.tiny.05701.3845.trace.zip";
        let whole = std::fs::read(source.join(name)).unwrap();
        let chunks: Vec<usize> =
            whole.windows(6).enumerate().filter(|(_, bytes)| bytes == b"chunk.").map(|(at, _)| at).collect();
        // Each name precedes its chunk, and occurs again in the directory at the end.
        let chunks = &chunks[..chunks.len() / 2];
        assert_eq!(chunks.len(), 6);
        // If its damage is detected, a chunk was inflated.
        let inflated = |question: &str| -> Vec<usize> {
            let is_inflated = |chunk: &usize| {
                let folder = tempfile::tempdir().unwrap();
                let mut bytes = whole.clone();
                let end = chunks.get(chunk + 1).copied().unwrap_or(whole.len() - 1000);
                let middle = (chunks[*chunk] + end) / 2;
                bytes[middle..middle + 8].iter_mut().for_each(|byte| *byte ^= 0x55);
                std::fs::write(folder.path().join(name), bytes).unwrap();
                let done = sql(&[question, folder.path().to_str().unwrap()]);
                done.status.code() != Some(0)
            };
            (0..chunks.len()).filter(is_inflated).collect()
        };
        assert_eq!(inflated("SELECT count(*) FROM memrefs"), [0, 1, 2, 3, 4, 5]);
        let n_records: u64 =
            number("SELECT count(*) FROM memrefs", source.to_str().unwrap()).parse().unwrap();
        let middle = n_records / 2;
        let range =
            format!("SELECT sum(addr) FROM memrefs WHERE record BETWEEN {middle} AND {}", middle + 20);
        assert_eq!(inflated(&range).len(), 1, "{range}");
        let slow = range.replace("record BETWEEN", "record + 0 BETWEEN");
        assert_eq!(inflated(&slow).len(), 6, "{slow}");
    }

    /// A program with debug information, and the address of its function `work` in the file.
    fn program(folder: &std::path::Path) -> Option<(PathBuf, u64)> {
        let (source, program) = (folder.join("work.c"), folder.join("work"));
        std::fs::write(
            &source,
            "int work(int x) {\n  return x * 3;\n}\nint main(void) {\n  return work(0);\n}\n",
        )
        .unwrap();
        let built =
            Command::new("cc").args(["-g", "-O0", "-fPIE", "-pie", "-o"]).arg(&program).arg(&source).status();
        if !built.is_ok_and(|status| status.success()) {
            eprintln!("skipped: there is no C compiler");
            return None;
        }
        let listed = Command::new("nm").arg(&program).output().ok()?;
        let listed = String::from_utf8(listed.stdout).unwrap();
        let line = listed.lines().find(|line| line.ends_with(" T work"))?;
        Some((program.clone(), u64::from_str_radix(line.split(' ').next()?, 16).unwrap()))
    }

    #[test]
    fn code_has_functions_and_lines() {
        let folder = tempfile::tempdir().unwrap();
        let Some((program, at)) = program(folder.path()) else { return };
        // The trace has no modules: a program can be given, with its load offset.
        let base = 0x5555_0000_0000u64;
        let asked = |pc: u64| format!("SELECT symbol({pc}) AS symbol, source({pc}) AS source");
        let binary = format!("{}@{base:#x}", program.display());
        let done = answer(&["--as", "csv", "--binary", &binary, &asked(base + at), THREADS]);
        let place = done.lines().nth(1).unwrap();
        assert!(place.starts_with("work,") && place.ends_with("work.c:1"), "{done}");
        let none = answer(&["--as", "csv", "--binary", &binary, &asked(at), THREADS]);
        assert_eq!(none.lines().nth(1), Some(","));
        // A trace with a list of modules needs no program.
        let traced = folder.path().join("traced");
        std::fs::create_dir_all(traced.join("raw")).unwrap();
        std::fs::create_dir_all(traced.join("trace")).unwrap();
        let name = "drmemtrace.tiny.05701.3845.trace.zip";
        std::fs::copy(fixtures("drmemtrace/tiny.chunk1000").join(name), traced.join("trace").join(name))
            .unwrap();
        let list = |path: &std::path::Path| {
            format!(
                "Module Table: version 5, count 2\nColumns: id, containing_id, start, end, entry, offset, preferred_base, path\n\
                 \x20 0, 0, {base:#018x}, {:#018x}, 0x0, 0x0, v#1,0, {}\n",
                base + 0x10000,
                path.display()
            )
        };
        std::fs::write(traced.join("raw/modules.log"), list(&program)).unwrap();
        let traced = traced.to_str().unwrap();
        let done = answer(&["--as", "csv", &asked(base + at + 4), traced]);
        assert!(done.lines().nth(1).unwrap().starts_with("work,"), "{done}");
        // A missing file is reported once, and its symbols are unknown.
        let gone = folder.path().join("gone");
        std::fs::write(folder.path().join("traced/raw/modules.log"), list(&gone)).unwrap();
        let question =
            format!("SELECT symbol(pc), symbol(pc + 1) FROM (VALUES ({base}), ({})) AS x (pc)", base + 9);
        let done = sql(&["--as", "csv", &question, traced]);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        assert_eq!(said(&done).matches("there is no file").count(), 1, "{done:?}");
        let done = sql(&["--binary", gone.to_str().unwrap(), "SELECT 1 FROM accesses", THREADS]);
        assert!(done.status.code() == Some(2) && said(&done).contains("no such file"), "{done:?}");
        std::fs::write(&gone, "no program").unwrap();
        let done = sql(&["--binary", gone.to_str().unwrap(), "SELECT 1 FROM accesses", THREADS]);
        assert!(done.status.code() == Some(2) && said(&done).contains("no program or library"), "{done:?}");
    }
}
