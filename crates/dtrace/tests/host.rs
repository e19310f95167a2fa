//! Tests of all conversions, and of text that depends on the traced host: its locale, zone, and names of services and hosts.

use crate::samples::{bytes, linux_capture, printed, root};
use quipu_dtrace::action::Action;
use quipu_dtrace::carry::Encoded;
use quipu_dtrace::consumer::objects_to;
use quipu_dtrace::describe::{Buffer, Enabling, Event, Probe, Rec};
use quipu_dtrace::layout::{self, BufferWriter};
use quipu_dtrace::locale::Locale;
use quipu_dtrace::symbols::{Symbol, Symbols};
use quipu_dtrace::zone::Zone;
use quipu_dtrace::{Capture, DTRACE, Dialect, build, carry, export, linux, mid, trace};
use quipu_model::{Format, OpenOptions};
use quipu_source::Source;
use quipu_wire::record::Producer;

/// A capture of one quiet `printf()` with these arguments.
fn capture(format: &str, args: &[&[u8]]) -> Capture {
    let dialect = Dialect::Classic;
    let part = |bytes: &&[u8]| Rec {
        action: Action::of(3, dialect),
        code: 3,
        size: bytes.len() as u32,
        offset: 0,
        alignment: 1,
        format: 1,
        arg: 0,
        uarg: 0,
        signed: None,
    };
    let mut enabling =
        Enabling { id: 1, probe: 1, recs: args.iter().map(part).collect(), ..Enabling::default() };
    layout::place(&mut enabling, dialect);
    let mut writer = BufferWriter::new(dialect, Default::default());
    writer.record(&enabling, 1, args.iter().copied()).unwrap();
    let probe = Probe { id: 1, provider: "p".into(), name: "n".into(), ..Probe::default() };
    let buffer = Buffer { file: "buf".into(), bytes: writer.into_bytes(), ..Buffer::default() };
    let mut capture = Capture {
        pointer_bytes: 8,
        library_base: 54,
        probes: [(1, probe)].into_iter().collect(),
        formats: vec![format.as_bytes().into()],
        by_epid: [(1, 0)].into_iter().collect(),
        enablings: vec![enabling],
        buffers: vec![buffer],
        ..Capture::default()
    };
    capture.settings.quiet = true;
    capture
}

fn text(capture: Capture) -> String {
    let printed = printed(capture, true);
    assert!(printed.faults.is_empty(), "{:?}", printed.faults);
    let text = String::from_utf8(printed.out).unwrap();
    // The run ends with a newline.
    text.strip_suffix('\n').unwrap().to_owned()
}

/// The 80-bit floating-point number -3.
const LONG: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0xc0, 0, 0, 0, 0, 0, 0];

#[test]
fn each_conversion_prints_as_the_page_says() {
    let five = (-5i64).to_le_bytes();
    let minus = |n: usize| &five[..n];
    let seven = 1234567u64.to_le_bytes();
    let half = 1.5f64.to_le_bytes();
    let address = 0x1010u64.to_le_bytes();
    let user: Vec<u8> = [77u64, 0x2020].iter().flat_map(|word| word.to_le_bytes()).collect();
    let new_year = 1_577_836_800_000_000_000u64.to_le_bytes();
    let wide: Vec<u8> = "né".chars().chain(['\0']).flat_map(|of| (of as u32).to_le_bytes()).collect();
    let cases: &[(&str, &[u8], &str)] = &[
        ("%d", minus(1), "251"),
        ("%d", minus(2), "65531"),
        ("%d", minus(4), "-5"),
        ("%d", minus(8), "-5"),
        ("%i", minus(1), "-5"),
        ("%lli", minus(8), "-5"),
        ("%hi", minus(4), "-5"),
        ("%hhu", minus(4), "251"),
        ("%hu", minus(8), "65531"),
        ("%u", minus(2), "65531"),
        ("%llu", minus(8), "18446744073709551611"),
        ("%o", minus(1), "373"),
        ("%#o", minus(1), "0373"),
        ("%x", minus(1), "fb"),
        ("%#X", minus(2), "0XFFFB"),
        ("%llx", &seven, "12d687"),
        ("%p", &seven, "0x12d687"),
        ("%+i", b"\x05", "+5"),
        ("% i", b"\x05", " 5"),
        ("%8i|", minus(4), "      -5|"),
        ("%-8i|", minus(4), "-5      |"),
        ("%08i", minus(4), "-0000005"),
        ("%.4i", minus(4), "-0005"),
        ("%.0i", minus(4), "-5"),
        ("%?x", &seven, "          12d687"),
        ("%c", b"A", "A"),
        ("%3c|", b"A", "  A|"),
        ("%lc", &0xe9u32.to_le_bytes(), "é"),
        ("%wc", &0xe9u32.to_le_bytes(), "%wc"),
        ("%C", b"\n", "\\n"),
        ("%s", b"text\0more", "text"),
        ("%6.2s|", b"text\0", "    te|"),
        ("%-6s|", b"text\0", "text  |"),
        ("%S", b"a\"\x01\0b", "a\\\"\\001\\0"),
        ("%ls", &wide, "né"),
        ("%ws", &wide, "né"),
        ("%e", &half, "1.500000e+00"),
        ("%E", &half, "1.500000E+00"),
        ("%f", &half, "1.500000"),
        ("%g", &half, "1.5"),
        ("%G", &1e-10f64.to_le_bytes(), "1E-10"),
        ("%f", &1.5f32.to_le_bytes(), "1.500000"),
        ("%9.2f|", &half, "     1.50|"),
        ("%Lf", &LONG, "-3.000000"),
        ("%Le", &LONG, "-3.000000e+00"),
        ("%LE", &LONG, "-3.000000E+00"),
        ("%Lg", &LONG, "-3"),
        ("%LG", &LONG, "-3"),
        ("%a", &address, "kernel`start+0x10"),
        ("%a", &seven, "0x12d687"),
        ("%A", &address, "0x1010"),
        ("%A", &user, "a.out`main"),
        ("%Y", &new_year, "2020 Jan  1 00:00:00"),
        ("%24Y|", &new_year, "    2020 Jan  1 00:00:00|"),
        ("%T", &new_year, "Wed, 01 Jan 2020 00:00:00 UTC"),
        ("%P", &80u16.to_le_bytes(), "http"),
        ("%8P|", &80u16.to_le_bytes(), "    http|"),
        ("%P", &81u16.to_le_bytes(), "81"),
        ("%I", b"10.0.0.1\0\0\0\0", "gateway"),
        ("%-9I|", b"10.0.0.1\0\0\0\0", "gateway  |"),
        ("%I", b"10.0.0.2\0\0\0\0", "10.0.0.2"),
        ("100%%", b"", "100%"),
    ];
    for (format, argument, expected) in cases {
        let mut capture = capture(format, &[argument]);
        let symbol = |lo, object: &str, name: &str, user| Symbol {
            lo,
            hi: lo + 0x100,
            object: object.into(),
            name: name.into(),
            user,
        };
        capture.symbols = Symbols::new(vec![
            symbol(0x1000, "kernel", "start", false),
            symbol(0x2020, "a.out", "main", true),
        ]);
        capture.names.services.insert(80, "http".into());
        capture.names.hosts.insert("10.0.0.1".into(), "gateway".into());
        assert_eq!(text(capture), *expected, "{format}");
    }
    // The cases have all letters of the manual except those for stacks, which `goldens` covers.
    let letters: std::collections::BTreeSet<char> =
        cases.iter().filter_map(|(format, ..)| format.chars().rfind(char::is_ascii_alphabetic)).collect();
    assert_eq!(letters.into_iter().collect::<String>(), "ACEGIPSTXYacdefgiopsux");
}

fn german() -> Locale {
    let days = ["So", "Mo", "Di", "Mi", "Do", "Fr", "Sa"].map(str::to_owned).into();
    let mut months = Locale::default().months;
    months[2] = "Mär".into();
    Locale {
        name: "de_DE.UTF-8".into(),
        decimal_point: ",".into(),
        thousands_separator: ".".into(),
        grouping: vec![3, 3],
        days,
        months,
    }
}

#[test]
fn numbers_and_dates_print_in_the_locale_of_the_capture() {
    let number = 1_234_567u64.to_le_bytes();
    let float = 1_234_567.5f64.to_le_bytes();
    let march = 1_583_020_800_000_000_000u64.to_le_bytes();
    let cases: &[(&str, &[u8], &str, &str)] = &[
        ("%'lli", &number, "1234567", "1.234.567"),
        ("%'12llu|", &number, "     1234567|", "   1.234.567|"),
        ("%-'12lli|", &number, "1234567     |", "1.234.567   |"),
        ("%'012lli", &number, "000001234567", "0001.234.567"),
        ("%+'lli", &number, "+1234567", "+1.234.567"),
        ("%lli", &number, "1234567", "1234567"),
        ("%'llx", &number, "12d687", "12d687"),
        ("%f", &float, "1234567.500000", "1234567,500000"),
        ("%'.1f", &float, "1234567.5", "1.234.567,5"),
        ("%'.0e", &float, "1.234568e+06", "1,234568e+06"),
        ("%Y", &march, "2020 Mar  1 00:00:00", "2020 Mär  1 00:00:00"),
        ("%T", &march, "Sun, 01 Mar 2020 00:00:00 UTC", "So, 01 Mär 2020 00:00:00 UTC"),
    ];
    for (format, argument, plain, grouped) in cases {
        assert_eq!(text(capture(format, &[argument])), *plain, "{format}");
        let capture = Capture { locale: german(), ..capture(format, &[argument]) };
        assert_eq!(text(capture), *grouped, "{format}");
    }
}

fn load(bytes: &[u8]) -> Capture {
    let capture = trace::load(&Source::from_bytes("capture", bytes), &OpenOptions::default()).unwrap();
    assert!(capture.findings.is_empty(), "{:?}", capture.findings);
    capture
}

#[test]
fn the_host_s_words_travel_in_every_form() {
    let date = 1_583_020_800_000_000_000u64.to_le_bytes();
    let args: &[&[u8]] = &[&1_234_567u64.to_le_bytes(), &date, &80u16.to_le_bytes(), b"10.0.0.1\0\0\0\0"];
    let mut capture = Capture { locale: german(), ..capture("%'llu %T %P %I\n", args) };
    capture.zone = Zone { offset_s: 3600, name: "MEZ".into() };
    capture.names.services.insert(80, "http".into());
    capture.names.hosts.insert("10.0.0.1".into(), "gateway".into());
    let expected = "1.234.567 So, 01 Mär 2020 01:00:00 MEZ http gateway\n";
    assert_eq!(text(capture.clone()), expected);
    let producer = || build::producer_of(&capture);
    for encoded in [Encoded::Plain, Encoded::Dense] {
        let stream = carry::write(&capture, producer(), encoded, Vec::new()).unwrap();
        assert_eq!(text(load(&stream)), expected, "{encoded:?}");
    }
    let buffer = mid::write(&capture, &capture.buffers[0], producer()).unwrap();
    assert_eq!(text(load(&buffer)), expected);
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in export::files(&capture) {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let source = Source::open(folder.path()).unwrap();
    assert_eq!(text(trace::load(&source, &OpenOptions::default()).unwrap()), expected);
    assert!(DTRACE.describe(&source, &OpenOptions::default()).unwrap().text.contains("locale=de_DE.UTF-8"));
    // A locale that lacks a name of a day is refused.
    let meta = std::fs::read_to_string(folder.path().join("meta.json")).unwrap();
    let bad = meta.replace("\"Mo\",", "");
    assert_ne!(bad, meta);
    std::fs::write(folder.path().join("meta.json"), bad).unwrap();
    let capture = trace::load(&source, &OpenOptions::default()).unwrap();
    let message = &capture.findings[0].message;
    assert!(message.contains("6 days and 12 months, not 7 and 12, and is taken as `C`"), "{message}");
    assert_eq!(text(capture), "1234567 Sun, 01 Mar 2020 01:00:00 MEZ http gateway\n");
}

#[test]
fn what_is_odd_of_a_host_is_found_and_records_print() {
    let path = root().join("linux/printf_time");
    let lines = bytes(&path.join("raw.jsonl"));
    let odd = "{\"t\":\"zone\",\"offset_s\":\"x\"}\n{\"t\":\"locale\",\"days\":[\"a\"]}\n\
               {\"t\":\"names\",\"services\":{\"99999\":\"far\"}}\n";
    let read = linux::read("raw.jsonl", &[&lines[..], odd.as_bytes()].concat()).unwrap();
    let found: Vec<&str> = read.findings.iter().map(|finding| &*finding.message).collect();
    assert_eq!(read.findings.iter().filter(|of| of.rule == "dtrace/description-invalid").count(), 3);
    assert!(found.len() == 3 && found[2].contains("`1` names of services and hosts cannot be"), "{found:?}");
    let good = linux::read("raw.jsonl", &lines).unwrap();
    assert_eq!(printed(read, true).out, printed(good, true).out);
    // A consumer that passes a name over the limit gets an error at once.
    let mut builder = build::Builder::new();
    assert!(builder.host("10.0.0.1", &"x".repeat(1025)).is_err() && builder.service(80, "http").is_ok());
}

#[test]
fn records_of_linux_stand_where_their_lines_are() {
    let lines = bytes(&root().join("linux/trace_ints/raw.jsonl"));
    let capture = linux::read("raw.jsonl", &lines).unwrap();
    let first = capture.events.iter().find_map(|event| match event {
        Event::Sample { offset, .. } => Some(*offset as usize),
        Event::State { .. } => None,
    });
    let of_lines = lines.windows(12).position(|window| window == b"{\"t\":\"sample");
    assert_eq!(first, Some(of_lines.unwrap()));
}

#[test]
fn widths_that_records_say_are_bounded() {
    let value = 7u32.to_le_bytes();
    for (width, n, is_left) in [
        (i64::MAX, 4096, false),
        (i64::MIN, 4096, true),
        (1 << 31, 4096, false),
        (-(1 << 31), 4096, true),
        (5, 5, false),
        (-5, 5, true),
        (0, 1, false),
    ] {
        let width = width.to_le_bytes();
        let padded = text(capture("%*d", &[&width, &value]));
        assert_eq!(padded.len(), n, "{width:?}");
        assert_eq!(padded.starts_with('7'), is_left || n == 1, "{width:?}");
        for (format, limit) in [("%.*d", 4096), ("%*.*d", 4096), ("%-*s", 4096), ("%*Y", 4096), ("%*k", 8192)]
        {
            let arguments: &[&[u8]] = match format {
                "%*.*d" => &[&width, &width, &value],
                "%*Y" | "%*k" => &[&width, &[0; 8]],
                _ => &[&width, &value],
            };
            let printed = printed(capture(format, arguments), true);
            assert!(printed.out.len() <= limit + 2, "{format} {width:?}: {} bytes", printed.out.len());
        }
    }
}

/// Three hosts: one as in the first test, one with another locale, zone and names, and one with other options.
fn hosts() -> [Capture; 3] {
    let march = 1_583_020_800_000_000_000u64.to_le_bytes();
    let args: &[&[u8]] = &[&1_234_567u64.to_le_bytes(), &march, &80u16.to_le_bytes(), b"10.0.0.1\0\0\0\0"];
    let plain = capture("%'lli %Y %P %I\n", args);
    let mut german = Capture { locale: german(), ..plain.clone() };
    german.zone = Zone { offset_s: 7200, name: "CEST".to_owned() };
    german.names.services.insert(80, "http".to_owned());
    german.names.hosts.insert("10.0.0.1".to_owned(), "gateway".to_owned());
    let mut loud = plain.clone();
    loud.settings.quiet = false;
    loud.zone = Zone { offset_s: -3600, name: "AZOT".to_owned() };
    [plain, german, loud]
}

fn of_producer(capture: &Capture, number: u8) -> Vec<u8> {
    let producer = Producer { uuid: [number; 16], ..Producer::default() };
    carry::write(capture, producer, Encoded::Plain, Vec::new()).unwrap()
}

/// All permutations of three.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[test]
fn records_of_several_hosts_print_as_each_alone_in_every_order_and_form() {
    let hosts = hosts();
    let alone = hosts.each_ref().map(|host| text(host.clone()));
    assert_eq!(alone[0], "1234567 2020 Mar  1 00:00:00 80 10.0.0.1\n");
    assert_eq!(alone[1], "1.234.567 2020 Mär  1 02:00:00 http gateway\n");
    assert!(alone[2].starts_with("CPU ") && alone[2].contains(" 2020 Feb 29 23:00:00 80 "), "{}", alone[2]);
    for order in ORDERS {
        let expected = order.map(|at| alone[at].clone()).concat();
        // Numbers of producers are random and do not determine the order.
        for numbers in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
            let streams: Vec<Vec<u8>> =
                order.iter().zip(numbers).map(|(at, number)| of_producer(&hosts[*at], number)).collect();
            let one = load(&streams.concat());
            assert_eq!(text(one.clone()), expected, "{order:?}");
            // As files of a folder, in the order of their names.
            let folder = tempfile::tempdir().unwrap();
            for (name, stream) in ["a.quipu", "b.quipu", "c.quipu"].iter().zip(&streams) {
                std::fs::write(folder.path().join(name), stream).unwrap();
            }
            let of_folder =
                trace::load(&Source::open(folder.path()).unwrap(), &OpenOptions::default()).unwrap();
            assert_eq!(text(of_folder), expected, "{order:?}");
            // Merging them gives one capture with the same text, as does merging again, or merging two of them with the third.
            let merged = load(&of_producer(&one, 9));
            assert_eq!(text(merged.clone()), expected, "{order:?}");
            assert_eq!(merged.hosts, one.hosts);
            assert_eq!(text(load(&of_producer(&merged, 9))), expected, "{order:?}");
            let two = of_producer(&load(&streams[..2].concat()), 9);
            assert_eq!(text(load(&[&two[..], &streams[2]].concat())), expected, "{order:?}");
            let two = of_producer(&load(&streams[1..].concat()), 9);
            assert_eq!(text(load(&[&streams[0][..], &two].concat())), expected, "{order:?}");
            let dense = carry::write(&one, build::producer_of(&one), Encoded::Dense, Vec::new()).unwrap();
            assert_eq!(text(load(&dense)), expected, "{order:?}");
            let home = tempfile::tempdir().unwrap();
            for (name, bytes) in export::files(&one) {
                std::fs::write(home.path().join(name), bytes).unwrap();
            }
            let folder = trace::load(&Source::open(home.path()).unwrap(), &OpenOptions::default()).unwrap();
            assert_eq!(folder.findings, []);
            assert_eq!(text(folder), expected, "{order:?}");
        }
    }
}

#[test]
fn hosts_have_their_words_in_json_and_options_of_the_command_are_those_of_all() {
    let [plain, german, loud] = hosts();
    let both = [of_producer(&german, 1), of_producer(&plain, 2), of_producer(&loud, 3)].concat();
    let capture = std::sync::Arc::new(load(&both));
    let mut json = Vec::new();
    let rest = objects_to::<quipu_model::Error>(&capture, 1, &mut |text| {
        json.extend_from_slice(text);
        Ok(())
    });
    json.extend(rest.unwrap().out);
    let json = String::from_utf8(json).unwrap();
    let positions =
        ["1.234.567 2020 Mär  1 02:00:00 http", "1234567 2020 Mar  1 00:00:00 80", "Feb 29 23:00:00"]
            .map(|text| json.find(text).unwrap_or_else(|| panic!("{text}: {json}")));
    assert!(positions.is_sorted(), "{json}");
    // The option is given as in `--open consumer=quiet`.
    let given = [("consumer", "quiet")].into_iter().collect();
    let options = OpenOptions { given, ..OpenOptions::default() };
    let quiet = trace::load(&Source::from_bytes("both.quipu", both), &options).unwrap();
    assert!(!text(quiet).contains("CPU"), "all are quiet");
}

#[test]
fn hosts_that_differ_in_the_order_of_all_records_are_a_finding() {
    let [plain, mut german, _] = hosts();
    german.settings.temporal = true;
    let found = |streams: [Vec<u8>; 2]| {
        let source = Source::from_bytes("both.quipu", streams.concat());
        let capture = trace::load(&source, &OpenOptions::default()).unwrap();
        let merged = Source::from_bytes("merged.quipu", of_producer(&capture, 9));
        let again = trace::load(&merged, &OpenOptions::default()).unwrap();
        let messages = |capture: &Capture| -> Vec<String> {
            capture.findings.iter().map(|finding| finding.message.to_string()).collect()
        };
        assert_eq!(messages(&capture), messages(&again));
        messages(&capture)
    };
    let findings = found([of_producer(&plain, 1), of_producer(&german, 2)]);
    assert!(findings.len() == 1 && findings[0].contains("`1` of `2` hosts"), "{findings:?}");
    assert!(findings[0].contains("`temporal`"), "{findings:?}");
    // Options for aggregations do not matter if there are no aggregations.
    german.settings.temporal = false;
    german.settings.aggsortkey = true;
    assert_eq!(found([of_producer(&german, 1), of_producer(&plain, 2)]), [""; 0]);
}

#[test]
fn hosts_of_linux_keep_their_words_in_streams_and_lines() {
    let path = root().join("linux/trace_ints");
    let quiet = {
        let mut capture = linux_capture(&path);
        capture.settings.quiet = true;
        capture
    };
    let loud = linux_capture(&path);
    assert!(!loud.settings.quiet);
    let alone =
        [quiet.clone(), loud.clone()].map(|capture| String::from_utf8(printed(capture, true).out).unwrap());
    for (order, streams) in [
        ([0, 1], [of_producer(&quiet, 1), of_producer(&loud, 2)]),
        ([1, 0], [of_producer(&loud, 1), of_producer(&quiet, 2)]),
    ] {
        // The newline at the end of a run is printed once.
        let expected = format!("{}{}", alone[order[0]].strip_suffix('\n').unwrap(), alone[order[1]]);
        let one = load(&streams.concat());
        let print = |capture: Capture| String::from_utf8(printed(capture, true).out).unwrap();
        assert_eq!(print(one.clone()), expected);
        assert_eq!(print(load(&of_producer(&one, 9))), expected);
        let home = tempfile::tempdir().unwrap();
        for (name, bytes) in export::files(&one) {
            std::fs::write(home.path().join(name), bytes).unwrap();
        }
        let folder = trace::load(&Source::open(home.path()).unwrap(), &OpenOptions::default()).unwrap();
        assert_eq!(print(folder), expected);
    }
}

/// Findings and text of a case whose `meta.json` has this value for the key `hosts`.
fn with_hosts(hosts: serde_json::Value) -> (Vec<String>, String) {
    let path = root().join("classic/printf");
    let mut meta: serde_json::Value = serde_json::from_slice(&bytes(&path.join("meta.json"))).unwrap();
    meta["hosts"] = hosts;
    let text = meta.to_string();
    let capture =
        quipu_dtrace::meta::read("meta.json", text.as_bytes(), &mut |name| Ok(bytes(&path.join(name))))
            .unwrap();
    let findings = capture.findings.iter();
    assert!(
        findings.clone().all(|found| found.rule == "dtrace/description-invalid"),
        "{:?}",
        capture.findings
    );
    let messages = findings.map(|found| found.message.to_string()).collect();
    (messages, String::from_utf8(printed(capture, true).out).unwrap())
}

#[test]
fn hosts_that_cannot_be_read_are_findings_and_the_rest_prints() {
    use serde_json::json;
    let (none, expected) = with_hosts(json!(null));
    assert_eq!(none, [""; 0]);
    assert!(!expected.is_empty());
    let idle = |first: u32| {
        format!(
            "`1` further hosts have no enabling, so that nothing prints with their words: the first is `{first}`"
        )
    };
    for (hosts, expects) in [
        (json!(7), vec!["further hosts cannot be read, and are left out".to_owned()]),
        (json!([]), vec![]),
        (json!([7]), vec!["`1` further hosts cannot be read, and are left out: the first is `1`".to_owned()]),
        (
            json!([{"enablings": 7}]),
            vec!["further host 1: the enablings cannot be read, and are left out".to_owned(), idle(1)],
        ),
        (
            json!([{"enablings": "77", "options": [1], "zone": 3}]),
            vec![
                "further host 1: the time zone cannot be read, and is taken as UTC".to_owned(),
                "further host 1: the options cannot be read, and are left out".to_owned(),
                idle(1),
            ],
        ),
        (
            json!([{"enablings": "1", "options": "quiet,nosuch=1,aggsortpos=x"}]),
            vec![
                "further host 1: `2` options are none that text depends on, or have values that they do not take: the \
                 first is `nosuch=1`"
                    .to_owned(),
            ],
        ),
        (
            json!([{"enablings": "1"}, {"enablings": "1"}]),
            vec![
                "`1` times an enabling is that of two hosts, and is taken as that of the first: the first is `1`"
                    .to_owned(),
                idle(2),
            ],
        ),
    ] {
        let (found, text) = with_hosts(hosts.clone());
        assert_eq!(found, expects, "{hosts}");
        assert!(hosts.to_string().contains("\"1\"") || text == expected, "{hosts}: {text}");
    }
    // Above a limit, findings are counted, not listed.
    let (found, _) = with_hosts(json!(vec![json!({"enablings": "1", "zone": 7}); 300]));
    assert_eq!(found[0], "`200` more words of hosts cannot be, beside the first `100`");
    assert_eq!(found.len(), 103, "{found:?}");
    // The number of hosts is limited, because each takes kilobytes and only a few bytes in the list.
    let (found, text) = with_hosts(json!(vec![json!({}); 20_000]));
    let beyond = "`3616` descriptions of further hosts are left out: a capture has at most `16384`";
    assert!(found.iter().any(|found| found == beyond), "{found:?}");
    assert_eq!(text, expected);
}

/// A buffer with some text of a description replaced by text of the same length, and a correct checksum.
fn described_otherwise(buffer: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut changed = buffer.to_vec();
    let within = buffer.windows(from.len()).position(|window| window == from).expect("the text");
    changed[within..within + to.len()].copy_from_slice(to);
    let head = buffer[..within].windows(4).rposition(|word| word == [0xff; 4]).expect("a head");
    let len = u32::from_le_bytes(*buffer[head + 20..].first_chunk().unwrap()) as usize;
    let sum = quipu_wire::crc32c(&changed[head + 16..head + 24 + len]);
    changed[head + 12..head + 16].copy_from_slice(&sum.to_le_bytes());
    changed
}

#[test]
fn words_of_hosts_in_descriptions_that_cannot_be_are_findings() {
    let [plain, german, loud] = hosts();
    let one = load(&[of_producer(&loud, 1), of_producer(&german, 2), of_producer(&plain, 3)].concat());
    let good = carry::write(&one, Producer::default(), Encoded::Plain, Vec::new()).unwrap();
    assert_eq!(load(&good).findings, []);
    // The buffer has the same settings; a wrong one gets a correct checksum.
    let buffer = mid::write(&one, &one.buffers[0], Producer::default()).unwrap();
    assert_eq!(one.hosts.len(), 2);
    assert_eq!(mid::read("buffer", buffer.clone()).unwrap().findings, []);
    let found = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let changed = described_otherwise(&buffer, from.as_bytes(), to.as_bytes());
        let findings = mid::read("buffer", changed).unwrap().findings;
        findings.iter().map(|found| found.message.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        found("host.1.quiet", "host.1.quiex"),
        ["text depends on no option `quiex` of a further host"],
    );
    let idle =
        "`1` further hosts have no enabling, so that nothing prints with their words: the first is `1`";
    let found = found("host.1.session.enablings", "host.1.session.enablinxs");
    assert!(found.len() == 2 && found.iter().any(|message| message == idle), "{found:?}");
}
