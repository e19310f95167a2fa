//! Tests of `print()` with a value of each kind of type.
//!
//! No sample has structures within structures. The expected text of the classic dialects follows the format's specification,
//! and that of Linux follows the tests of its consumer for the same types.

use crate::samples::printed;
use quipu_dtrace::{carried, carry, linux, meta, script};
use quipu_wire::record::Producer;
use serde_json::{Value, json};

/// Types of a structure with a member of each kind.
fn types() -> Value {
    json!([
        {"id": "m`1", "name": "int", "size": 4, "kind": "int", "signed": true},
        {"id": "m`2", "name": "char", "size": 1, "kind": "int", "signed": true, "char": true},
        {"id": "m`3", "name": "unsigned int", "size": 4, "kind": "int"},
        {"id": "m`4", "name": "double", "size": 8, "kind": "float"},
        {"id": "m`5", "name": "float", "size": 4, "kind": "float"},
        {"id": "m`6", "name": "enum color", "size": 4, "kind": "enum", "values": [["RED", 1], ["BLUE", 2]]},
        {"id": "m`7", "name": "char [8]", "size": 8, "kind": "array", "of": "m`2", "count": 8},
        {"id": "m`8", "name": "int [3]", "size": 12, "kind": "array", "of": "m`1", "count": 3},
        {"id": "m`9", "name": "void *", "size": 8, "kind": "pointer"},
        {"id": "m`10", "name": "void (*)()", "size": 8, "kind": "pointer", "function": true},
        {"id": "m`11", "name": "struct in", "size": 8, "kind": "struct", "members": [
            {"name": "a", "type": "m`1", "bit": 0}, {"name": "b", "type": "m`2", "bit": 32}]},
        {"id": "m`12", "name": "in_t", "size": 8, "kind": "typedef", "to": "m`11"},
        {"id": "m`13", "name": "struct in [2]", "size": 16, "kind": "array", "of": "m`11", "count": 2},
        {"id": "m`14", "name": "union u", "size": 8, "kind": "union", "members": [
            {"name": "n", "type": "m`1", "bit": 0}, {"name": "t", "type": "m`7", "bit": 0}]},
        {"id": "m`20", "name": "struct my", "size": 112, "kind": "struct", "members": [
            {"name": "c", "type": "m`2", "bit": 0},
            {"name": "i", "type": "m`1", "bit": 32},
            {"name": "low", "type": "m`3", "bit": 64, "bits": 3},
            {"name": "high", "type": "m`3", "bit": 67, "bits": 29},
            {"name": "e", "type": "m`6", "bit": 96},
            {"name": "d", "type": "m`4", "bit": 128},
            {"name": "f", "type": "m`5", "bit": 192},
            {"name": "other", "type": "m`6", "bit": 224},
            {"name": "text", "type": "m`7", "bit": 256},
            {"name": "all", "type": "m`8", "bit": 320},
            {"name": "zero", "type": "m`1", "bit": 416},
            {"name": "p", "type": "m`9", "bit": 448},
            {"name": "call", "type": "m`10", "bit": 512},
            {"name": "n", "type": "m`12", "bit": 576},
            {"name": "na", "type": "m`13", "bit": 640},
            {"name": "u", "type": "m`14", "bit": 768}]}
    ])
}

fn value() -> Vec<u8> {
    let mut bytes = vec![b'A', 0, 0, 0];
    let int = |n: u32| n.to_le_bytes();
    bytes.extend(int(42));
    bytes.extend(int(5 | 1 << 3));
    bytes.extend(int(1));
    bytes.extend(1.5f64.to_le_bytes());
    bytes.extend((-0.25f32).to_le_bytes());
    bytes.extend(int(7));
    bytes.extend(b"abc\0\0\0\0\0");
    [1, 0, 3, 0].into_iter().for_each(|n| bytes.extend(int(n)));
    bytes.extend(0x7fff_0000u64.to_le_bytes());
    bytes.extend(0x1000u64.to_le_bytes());
    [(1, 'x'), (2, '\0'), (3, '\u{1}')].into_iter().for_each(|(n, letter)| {
        bytes.extend(int(n));
        bytes.extend(int(letter as u32));
    });
    bytes.extend(b"hi\0\0\0\0\0\0");
    bytes.resize(112, 0);
    bytes
}

/// A capture of one record, whose value has the given type.
fn capture(id: &str, value: &[u8]) -> quipu_dtrace::Capture {
    let size = value.len();
    let mut record: Vec<u8> = [1u32, 0, 7].iter().flat_map(|word| word.to_le_bytes()).collect();
    record.resize(16, 0);
    record.extend(value);
    record.resize(record.len().next_multiple_of(4), 0);
    let text = json!({
        "options": "quiet", "byte_order": "little",
        "probes": [{"id": 1, "provider": "dtrace", "module": "", "function": "", "name": "BEGIN"}],
        "eprobes": [{"epid": 1, "probeid": 1, "size": record.len(), "recs": [
            {"action": 1, "size": size, "offset": 16, "alignment": 8, "format": 1}]}],
        "formats": [{"id": 1, "string": id}],
        "symbols": [{"lo": 0x1000, "hi": 0x1100, "object": "genunix", "name": "read"}],
        "types": types(),
        "buffers": [{"cpu": 0, "file": "buf"}],
    });
    meta::read("meta.json", text.to_string().as_bytes(), &mut |_| Ok(record.clone())).unwrap()
}

const EXPECTED: &str = r#"
struct my {
    char c = 'A'
    int i = 0x2a
    unsigned int low :3 = 0x5
    unsigned int high :29 = 0x1
    enum color e = RED
    double d = +1.5000000e+00
    float f = -2.5000000e-01
    enum color other = 7
    char [8] text = [ "abc" ]
    int [3] all = [ 0x1, 0, 0x3 ]
    int zero = 0
    void *p = 0x7fff0000
    void (*)() call = genunix`read
    in_t n = {
        int a = 0x1
        char b = 'x'
    }
    struct in [2] na = [
        struct in {
            int a = 0x2
            char b = '\0'
        },
        struct in {
            int a = 0x3
            char b = '\001'
        }
    ]
    union u u = {
        int n = 0x6968
        char [8] t = [ "hi" ]
    }
}
"#;

#[test]
fn values_are_printed_by_their_types_here_and_from_a_stream() {
    let here = capture("m`20", &value());
    let producer = Producer { uuid: [7; 16], ..Producer::default() };
    let stream = carry::write(&here, producer.clone(), carry::Encoded::Plain, Vec::new()).unwrap();
    let there = carried::read("stream", &stream).unwrap();
    assert!(there.findings.is_empty(), "{:?}", there.findings);
    assert_eq!(there.types, here.types);
    for capture in [here, there] {
        let text = String::from_utf8(printed(capture, true).out).unwrap();
        assert_eq!(text.trim_end_matches('\n'), EXPECTED.trim_end_matches('\n'), "{text}");
    }
}

#[test]
fn a_value_of_an_unknown_type_is_traced() {
    let bytes = 42u32.to_le_bytes();
    let text = |id| String::from_utf8(printed(capture(id, &bytes), true).out).unwrap();
    assert_eq!(text("m`99"), "42\n");
    assert_eq!(text("m`1"), "\n0x2a\n\n");
    // At the outermost level, strings have no brackets.
    let printed = printed(capture("m`7", b"abc\0\0\0\0\0"), true);
    assert_eq!(String::from_utf8(printed.out).unwrap(), "\n\"abc\"\n\n");
}

/// The text of a `print()` of Linux, for a script and the value that its pointer points to.
fn tree(script: &str, value: &[u8], has_quirks: bool) -> String {
    let address = 0xffff_9b7a_ca7e_0000_u64;
    let mut raw = [0_u32, 0, 1, 0].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    raw.extend(address.to_le_bytes());
    raw.extend(value);
    let length = raw.len() as u32 - 4;
    raw[..4].copy_from_slice(&length.to_le_bytes());
    let hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |size: usize, offset: usize, arg: u64| json!({"action": 8, "size": size, "offset": offset, "alignment": 8, "arg": arg});
    let lines = [
        json!({"t": "probe", "id": 1, "prv": "dtrace", "mod": "", "fun": "", "prb": "BEGIN"}).to_string(),
        json!({"t": "datadesc", "stid": 0, "recs": [part(8, 16, 77), part(value.len(), 24, 0)]}).to_string(),
        json!({"t": "sample", "cpu": 0, "raw": hex}).to_string(),
    ];
    let mut capture = linux::read("raw.jsonl", lines.join("\n").as_bytes()).unwrap();
    capture.settings.quiet = true;
    script::apply(&mut capture, script.as_bytes());
    assert!(capture.findings.is_empty(), "{:?}", capture.findings);
    // The same from a stream.
    let producer = Producer { uuid: [7; 16], ..Producer::default() };
    let stream = carry::write(&capture, producer, carry::Encoded::Plain, Vec::new()).unwrap();
    let there = carried::read("stream", &stream).unwrap();
    let text = |capture| String::from_utf8(printed(capture, has_quirks).out).unwrap();
    let (here, there) = (text(capture), text(there));
    assert_eq!(here, there);
    let text = here.strip_prefix("0xffff9b7aca7e0000 = *\n").unwrap();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| format!("{}\n", line.strip_prefix(&" ".repeat(44)).unwrap())).collect()
}

/// A script that prints a structure with one member of each kind in Linux.
const ONE_OF_EACH: &str = "enum color { RED = 0, GREEN = 1, BLUE = 3 };
struct all { int n; char text[5]; union { __u8 low; __u64 whole; } u; struct { void *p; uint64_t big; } s; bool yes;
    enum color c; };
BEGIN { x = (struct all *)alloca(sizeof (struct all)); print(x); }";

fn one_of_each() -> Vec<u8> {
    let mut value = Vec::new();
    value.extend(1_i32.to_le_bytes());
    value.extend(b"word\0\0\0\0\0\0\0\0");
    value.extend(123_456_789_u64.to_le_bytes());
    value.extend(0xffff_9b7a_ca7e_0000_u64.to_le_bytes());
    value.extend(987_654_321_u64.to_le_bytes());
    value.extend([1, 0, 0, 0, 1, 0, 0, 0]);
    value
}

#[test]
fn linux_prints_structures_within_structures_as_trees() {
    let expected = "\
(struct all) {
 .n = (int)1,
 .text = (char [5]) [
  (char)'w',
  (char)'o',
  (char)'r',
  (char)'d',
 ],
 .u = (union) {
  .low = (__u8)21,
  .whole = (__u64)123456789,
 },
 .s = (struct) {
  .p = (void *)0xffff9b7aca7e0000,
  .big = (uint64_t)987654321,
 },
 .yes = (bool)1,
 .c = (enum color)GREEN,
}
";
    for has_quirks in [false, true] {
        assert_eq!(tree(ONE_OF_EACH, &one_of_each(), has_quirks), expected);
    }
    // Zeros are left out; an array of characters ends at its first zero, which may be the first element.
    let mut value = vec![0; 48];
    value[5..8].copy_from_slice(b"ord");
    (value[40], value[44]) = (1, 3);
    let expected = "\
(struct all) {
 .text = (char [5]) [
 ],
 .yes = (bool)1,
 .c = (enum color)BLUE,
}
";
    assert_eq!(tree(ONE_OF_EACH, &value, true), expected);
    assert_eq!(tree(ONE_OF_EACH, &[0; 48], true), "(struct all) {\n}\n");
}

#[test]
fn structures_in_arrays_are_shown_whole_by_default() {
    let script = "struct in { int a; short b; }; struct out { struct in list[3]; double d; int m[2][2]; unsigned f:3; \
        unsigned g:5; }; BEGIN { print((struct out *)arg0); }";
    let mut value = Vec::new();
    for (a, b) in [(1, -2), (0, 0), (3, 4)] {
        value.extend(i32::to_le_bytes(a));
        value.extend(i32::to_le_bytes(b & 0xffff));
    }
    value.extend(1.5_f64.to_le_bytes());
    [1, 0, 0, -4].into_iter().for_each(|n| value.extend(i32::to_le_bytes(n)));
    value.extend((5_u32 | 9 << 3).to_le_bytes());
    value.resize(56, 0);
    let expected = "\
(struct out) {
 .list = (struct in [3]) [
  (struct in) {
   .a = (int)1,
   .b = (short)-2,
  },
  (struct in) {
   .a = (int)3,
   .b = (short)4,
  },
 ],
 .d = (double)1.5000000e+00,
 .m = (int [2][2]) [
  (int [2]) [
   (int)1,
  ],
  (int [2]) [
   (int)-4,
  ],
 ],
 .f = (unsigned int)5,
 .g = (unsigned int)9,
}
";
    assert_eq!(tree(script, &value, false), expected);
    let quirky = tree(script, &value, true);
    assert!(quirky.contains(" [\n  (struct in) {\n  (struct in) {\n ],\n .m = "), "{quirky}");
}
