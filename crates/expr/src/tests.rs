//! Tests of expressions over a small table: values, and the places in errors.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

use crate::bind::Ty;
use crate::{Bound, Input, Source, Where, parse, parse_list};
use proptest::prelude::*;
use quipu_model::dicts::Dicts;
use quipu_model::predicate::Beside;
use quipu_model::schema::{Fidelity, Missing, Names, Role, Schema, Storage, Type};
use quipu_model::{Accept, Chosen, ColumnTable, Field, Predicate, Result, Table};

/// Rows with columns of each kind. In the second row, `i` and `note` are missing.
fn rows() -> ColumnTable {
    let kinds = Names::dense(Storage::U8, &["read", "write"]).shared();
    let fields = vec![
        Field::new("record", Type::U64, "").role(Role::RECORD),
        Field::new("tid", Type::U64, "").role(Role::THREAD),
        Field::new("addr", Type::Address, ""),
        Field::new("size", Type::U8, ""),
        Field::new("kind", Type::Enum(kinds), ""),
        Field::new("i", Type::I16, "").optional(),
        Field::new("f", Type::F64, ""),
        Field::new("note", Type::Text, "").optional(),
        Field::new("name", Type::Dict(3), ""),
        Field::new("ok", Type::Bool, ""),
        Field::new("Case", Type::U64, "").missing(u64::MAX),
    ];
    let mut rows = ColumnTable::new(Schema::new("t", Fidelity::Derived, "", fields).into());
    let all = [
        (1u64, 7u64, 0x1238u64, 8u64, 0u64, Some(-5i64), 1.5f64, Some("glDraw"), 0u64, 1u64, 1u64),
        (2, 7, 0x2000, 4, 1, None, -2.0, None, 1, 0, u64::MAX),
        (3, 8, u64::MAX, 16, 7, Some(100), 0.25, Some("%_"), 0, 1, 3),
    ];
    for (record, tid, addr, size, kind, i, f, note, name, ok, case) in all {
        for (at, number) in [(0, record), (1, tid), (2, addr), (3, size), (4, kind), (6, f.to_bits())] {
            rows.columns[at].push(number).unwrap();
        }
        match i {
            Some(i) => rows.columns[5].push(i as u64).unwrap(),
            None => rows.columns[5].push_missing(Missing::Bitmap),
        }
        match note {
            Some(note) => rows.columns[7].push_bytes(note.as_bytes()).unwrap(),
            None => rows.columns[7].push_missing(Missing::Bitmap),
        }
        for (at, number) in [(8, name), (9, ok), (10, case)] {
            rows.columns[at].push(number).unwrap();
        }
    }
    rows
}

fn dicts() -> Dicts {
    let mut dicts = Dicts::default();
    dicts.push(3, b"one");
    dicts.push(3, b"two");
    dicts
}

fn bound(text: &str, rows: &ColumnTable) -> Result<Bound> {
    let source = Source::new(text);
    Bound::new(&source, &parse(&source)?, rows.schema())
}

/// The values of all rows as texts, with `NULL` for missing ones.
fn values(text: &str) -> Result<Vec<String>> {
    let (rows, dicts) = (rows(), dicts());
    let bound = bound(text, &rows)?;
    let beside = Beside { dicts: Some(&dicts), ..Beside::default() };
    let input = Input::new(rows.n_rows(), |position| rows.column(position), beside);
    let values = bound.eval(&input)?;
    let show = |row: usize| {
        let shown = match bound.ty() {
            Ty::Null => None,
            Ty::Bool => values.truth(row).map(|truth| truth.to_string()),
            Ty::Int => values.int(row).map(|int| int.to_string()),
            Ty::Float => values.float(row).map(|float| float.to_string()),
            Ty::Text => values.text(row).map(|text| String::from_utf8_lossy(text).into_owned()),
        };
        shown.unwrap_or_else(|| "NULL".to_owned())
    };
    Ok((0..3).map(show).collect())
}

fn check(text: &str, expected: &[&str]) {
    let expected: Vec<&str> = if expected.len() == 1 { vec![expected[0]; 3] } else { expected.to_vec() };
    assert_eq!(values(text).unwrap_or_else(|error| panic!("{text}: {error}")), expected, "{text}");
}

#[test]
fn operators_bind_as_in_datafusion() {
    for (text, expected) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("-7 / 2", "-3"),
        ("-7 % 4", "-3"),
        ("10 - 4 - 3", "3"),
        ("1 | 2 ^ 3 & 6", "1"),
        ("1 << 4 + 1", "32"),
        ("~0", "-1"),
        ("0xff & ~0xf", "240"),
        ("NOT 1 = 2", "true"),
        ("1 = 1 AND 2 = 3 OR TRUE", "true"),
        ("NOT TRUE OR TRUE", "true"),
        ("1 + 1 BETWEEN 1 + 1 AND 3 AND TRUE", "true"),
        ("2 NOT IN (1, 3)", "true"),
        ("NULL IS NULL", "true"),
        ("'a' || 'b' || 1", "ab1"),
        ("1.5e1 + 1", "16"),
        ("'it''s'", "it's"),
        ("CAST('0x10' AS BIGINT) + CAST(TRUE AS INT)", "17"),
        ("255::TINYINT UNSIGNED", "255"),
        ("CAST(-1.9 AS BIGINT)", "-1"),
        ("CAST(12 AS TEXT) = '12'", "true"),
        ("9223372036854775807 * 4", "36893488147419103228"),
        ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", "b"),
    ] {
        check(text, &[expected]);
    }
}

#[test]
fn unknown_values_follow_the_logic_of_three_values() {
    for (text, expected) in [
        ("NULL AND FALSE", "false"),
        ("NULL AND TRUE", "NULL"),
        ("NULL OR TRUE", "true"),
        ("NULL OR FALSE", "NULL"),
        ("NOT NULL", "NULL"),
        ("NULL = NULL", "NULL"),
        ("1 IN (2, NULL)", "NULL"),
        ("1 IN (1, NULL)", "true"),
        ("1 NOT IN (2, NULL)", "NULL"),
        ("NULL BETWEEN 1 AND 2", "NULL"),
        ("5 BETWEEN NULL AND 2", "false"),
        ("'a' IN ('b', NULL)", "NULL"),
        ("CASE WHEN NULL THEN 1 ELSE 2 END", "2"),
    ] {
        check(text, &[expected]);
    }
    check("i > 0", &["false", "NULL", "true"]);
    check("i > 0 AND size > 100", &["false", "false", "false"]);
    check("i > 0 OR size = 4", &["false", "true", "true"]);
    check("i IS NOT NULL", &["true", "false", "true"]);
    check("i + 1", &["-4", "NULL", "101"]);
    check("\"Case\"", &["1", "NULL", "3"]);
}

#[test]
fn columns_of_each_sort_have_their_values() {
    check("addr", &["4664", "8192", "18446744073709551615"]);
    check("ADDR + 1", &["4665", "8193", "18446744073709551616"]);
    check("size - addr", &["-4656", "-8188", "-18446744073709551599"]);
    check("kind", &["read", "write", "7"]);
    check("kind = 'read'", &["true", "false", "false"]);
    check("kind || ':' || name", &["read:one", "write:two", "7:one"]);
    check("f * 2", &["3", "-4", "0.5"]);
    check("f < size", &["true", "true", "true"]);
    check("note", &["glDraw", "NULL", "%_"]);
    check("name = 'two'", &["false", "true", "false"]);
    check("ok", &["true", "false", "true"]);
    check("CASE WHEN ok THEN name ELSE kind END", &["one", "write", "one"]);
    check("note LIKE 'gl%'", &["true", "NULL", "false"]);
    check("note NOT LIKE '!%!_' ESCAPE '!'", &["true", "NULL", "false"]);
    check("note ILIKE 'GL____'", &["true", "NULL", "false"]);
    check("note LIKE note", &["true", "NULL", "true"]);
}

#[test]
fn functions_do_what_they_say() {
    for (text, expected) in [
        ("abs(-3)", "3"),
        ("sign(-2.5)", "-1"),
        ("round(2.5)", "3"),
        ("floor(-1.5)", "-2"),
        ("ceil(7)", "7"),
        ("log2(1024)", "10"),
        ("greatest(1, NULL, 3, 2)", "3"),
        ("least('b', 'a')", "a"),
        ("coalesce(NULL, NULL, 5)", "5"),
        ("nullif(5, 5)", "NULL"),
        ("lower('GL') || upper('gl')", "glGL"),
        ("trim('  x ')", "x"),
        ("length('aß')", "2"),
        ("substr('quipu', 2, 3)", "uip"),
        ("substr('quipu', 0, 2)", "q"),
        ("substr('quipu', 4)", "pu"),
        ("starts_with('quipu', 'qui')", "true"),
        ("ends_with('quipu', 'pu')", "true"),
        ("contains('quipu', 'xx')", "false"),
        ("replace('a-b-c', '-', '+')", "a+b+c"),
        ("concat('a', NULL, 1, TRUE)", "a1true"),
        ("line(0x1238)", "4608"),
        ("line(200, 100)", "200"),
        ("page(0x12345)", "73728"),
        ("hex(255)", "0xff"),
        ("hex(-16)", "-0x10"),
    ] {
        check(text, &[expected]);
    }
    check("hex(line(addr, size))", &["0x1238", "0x2000", "0xfffffffffffffff0"]);
    check("length(note)", &["6", "NULL", "2"]);
    check("upper(kind)", &["READ", "WRITE", "7"]);
    check("greatest(i, size)", &["8", "4", "100"]);
    check("nullif(tid, 7)", &["NULL", "NULL", "8"]);
    check("coalesce(i, addr)", &["-5", "8192", "100"]);
    check("replace(note, '_', kind)", &["glDraw", "NULL", "%7"]);
}

#[test]
fn what_a_condition_protects_does_not_fail() {
    check("size <> 4 AND 8 / (size - 4) > 0", &["true", "false", "false"]);
    check("CASE WHEN size = 4 THEN 0 ELSE 8 / (size - 4) END", &["2", "0", "0"]);
    check("coalesce(nullif(size, 4), 100 / (size - 3))", &["8", "100", "16"]);
    check("size = 4 OR 8 / (size - 4) > 1", &["true", "true", "false"]);
}

fn refused(text: &str) -> (String, Option<String>) {
    let error = values(text).expect_err(text);
    (error.message().to_owned(), error.advice().map(str::to_owned))
}

#[test]
fn errors_point_at_the_place_and_propose_names() {
    for (text, message, advice) in [
        ("siz + 1", "`t` has no column `siz`\n    siz + 1\n    ^^^", Some("did you mean `size`?")),
        (
            "1 + lenght('a')",
            "there is no function `lenght`\n    1 + lenght('a')\n        ^^^^^^^^^^^",
            Some("did you mean `length`?"),
        ),
        ("kind > 3", "expected a text, found a whole number\n    kind > 3\n           ^", None),
        ("(1 + 2", "expected `)`, found the end\n    (1 + 2\n          ^", None),
        ("1 +", "expected a value, found the end\n    1 +\n       ^", None),
        ("1 2", "expected an operator or the end, found `2`\n    1 2\n      ^", None),
        ("'abc", "a text that no quote ends\n    'abc\n    ^", None),
        ("addr @ 1", "`@` has no meaning here\n    addr @ 1\n         ^", None),
        ("12ab", "this is no number\n    12ab\n    ^^^^", None),
        ("NOT size", "expected true or false, found a whole number\n    NOT size\n        ^^^^", None),
        (
            "CAST(1 AS integr)",
            "expected a type, found `integr`\n    CAST(1 AS integr)\n              ^^^^^^",
            Some("did you mean `integer`?"),
        ),
        ("line()", "`line` takes 1 to 2 arguments, found 0\n    line()\n    ^^^^^^", None),
        ("size IS 4", "expected `NULL`, found `4`\n    size IS 4\n            ^", None),
        ("1 / 0", "division by zero\n    1 / 0\n    ^^^^^", None),
        (
            "max(size)",
            "there is no function `max`\n    max(size)\n    ^^^^^^^^^",
            Some("`greatest` takes the larger of some values; the largest of a column is an aggregation"),
        ),
    ] {
        assert_eq!(refused(text), (message.to_owned(), advice.map(str::to_owned)), "{text}");
    }
    assert!(refused("\"case\"").0.contains("no column"), "in quotes, the case counts");
    let error = values("1 + addr * addr * size").unwrap_err();
    assert_eq!(
        error.message(),
        "the result has more than 127 bits\n    1 + addr * addr * size\n        ^^^^^^^^^^^"
    );
    assert_eq!(error.place().record, Some(3));
}

#[test]
fn hostile_texts_meet_limits() {
    for text in ["(".repeat(5000), "-".repeat(5000), "NOT ".repeat(5000), "1+".repeat(5000) + "1"] {
        let message = refused(&text).0;
        assert!(message.contains("nested more than 96 times") || message.contains("expected"), "{message}");
    }
    assert!(values(&("1,".repeat(9000))).is_err());
    assert!(refused(&" ".repeat(70_000)).0.starts_with("an expression of 70000 bytes"));
    let many = vec!["size = 4"; 2000].join(" OR ");
    check(&many, &["false", "true", "false"]);
    let list = (0..4000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    check(&format!("size IN ({list})"), &["true"]);
    let most = vec!["i"; 9000].join(" OR ");
    assert!(refused(&most).0.starts_with("an expression of more than 8192 parts"));
    let case = "CASE WHEN ok THEN ".repeat(90) + "1" + &" END".repeat(90);
    check(&case, &["1", "NULL", "1"]);
}

#[test]
fn lists_have_names() {
    let list = parse_list(&Source::new("kind, size + 1 AS \"more bytes\", count(*)")).unwrap();
    let names: Vec<_> = list.iter().map(|named| named.name.as_deref()).collect();
    assert_eq!(names, [None, Some("more bytes"), None]);
    assert_eq!(list[1].expr.columns(), [("size", false)]);
}

#[test]
fn conditions_become_what_readers_know() {
    let rows = rows();
    let narrowed = |text: &str| {
        let filter = Some(Where::new(text).unwrap().filter());
        Predicate { filter, ..Predicate::default() }.narrowed(rows.schema())
    };
    let predicate =
        narrowed("record >= 2 AND 100 > record AND tid = 7 AND kind IN ('read', 'write') AND size + 1 > 2");
    let conditions: Vec<_> = predicate.columns.iter().map(|one| (&*one.column, one.accept.clone())).collect();
    let texts = Accept::Texts(vec!["read".into(), "write".into()]);
    assert_eq!(
        conditions,
        [("kind", texts), ("record", Accept::Between(2..=99)), ("tid", Accept::Between(7..=7))]
    );
    assert_eq!(predicate.threads, [7.into()]);
    assert!(predicate.filter.is_some());
    assert!(narrowed("addr BETWEEN 1 AND 2").filter.is_none());
    assert!(narrowed("kind = '7'").filter.is_some(), "a number without a name is compared as a text");
}

/// The selected rows, with or without extracting simple conditions.
fn chosen(text: &str, is_narrowed: bool) -> Vec<u32> {
    let (rows, dicts) = (rows(), dicts());
    let filter = Some(Where::new(text).unwrap().filter());
    let mut predicate = Predicate { filter, ..Predicate::default() };
    if is_narrowed {
        predicate = predicate.narrowed(rows.schema());
    }
    let mut out = Vec::new();
    let beside = Beside { dicts: Some(&dicts), ..Beside::default() };
    Chosen::new(&predicate, rows.schema()).unwrap().choose(&rows, beside, &mut out).unwrap();
    out
}

#[test]
fn rows_are_chosen_where_a_condition_is_true() {
    for (text, expected) in [
        ("i > 0", &[2u32][..]),
        ("i < 0 OR i IS NULL", &[0, 1]),
        ("tid = 7", &[0, 1]),
        ("tid = 7 AND size = 4", &[1]),
        ("tid IN (8, 9)", &[2]),
        ("record BETWEEN 2 AND 3 AND note IS NOT NULL", &[2]),
        ("name = 'one' AND kind = '7'", &[2]),
        ("\"Case\" < 5", &[0, 2]),
        ("i = -5", &[0]),
        ("addr > 0x7fffffffffffffff", &[2]),
        ("addr = 18446744073709551616", &[]),
        ("NULL", &[]),
        ("TRUE", &[0, 1, 2]),
    ] {
        assert_eq!(
            (chosen(text, true), chosen(text, false)),
            (expected.to_vec(), expected.to_vec()),
            "{text}"
        );
    }
    let error = Chosen::new(
        &Predicate { filter: Some(Where::new("size").unwrap().filter()), ..Predicate::default() },
        rows().schema(),
    );
    assert_eq!(
        error.unwrap_err().message(),
        "expected true or false, found a whole number\n    size\n    ^^^^"
    );
}

proptest! {
    #[test]
    fn arithmetic_is_that_of_128_bits(a in any::<u64>(), b in any::<i32>(), sign in 0usize..8) {
        let sign = ["+", "-", "*", "/", "%", "&", "|", "^"][sign];
        let (left, right) = (i128::from(a), i128::from(b));
        let expected = match sign {
            "+" => Some(left + right),
            "-" => Some(left - right),
            "*" => Some(left * right),
            "/" => left.checked_div(right),
            "%" => left.checked_rem(right),
            "&" => Some(left & right),
            "|" => Some(left | right),
            _ => Some(left ^ right),
        };
        let found = values(&format!("{a} {sign} ({b})")).ok().map(|values| values[0].clone());
        prop_assert_eq!(found, expected.map(|number| number.to_string()));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-+*/()<>=,'a-z0-9 .|&~^%\"]{0,60}") {
        let _ = values(&text);
        let _ = Where::new(&text);
    }

    #[test]
    fn a_chain_of_words_never_panics(words in proptest::collection::vec(0usize..20, 0..24)) {
        let all = ["size", "AND", "OR", "NOT", "(", ")", "1", "'x'", "kind", "CASE", "WHEN", "THEN", "END", "IN",
            "BETWEEN", "LIKE", "IS", "NULL", "+", "i"];
        let text: Vec<&str> = words.iter().map(|at| all[*at]).collect();
        let _ = values(&text.join(" "));
    }
}
