//! Tests which lines of the goldens differ by default, and which quirk of the table causes each.

use crate::samples::{bytes, cases, classic, linux_capture, name_of};
use quipu_dtrace::action::Action;
use quipu_dtrace::describe::{Enabling, Rec};
use quipu_dtrace::layout::{self, BufferWriter};
use quipu_dtrace::quirks::{KEPT, QUIRKS, Quirks};
use quipu_dtrace::{Capture, Dialect, Style};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

fn lines(capture: &Arc<Capture>, quirks: Quirks) -> Vec<String> {
    let printed = quipu_dtrace::print(capture, Style { quirks }).unwrap();
    String::from_utf8_lossy(&printed.out).lines().map(str::to_owned).collect()
}

/// Lines of the consumer's text that differ, counted from 1. If the number of lines differs, it is the range between the
/// equal lines at the beginning and those at the end.
fn different(theirs: &[String], ours: &[String]) -> Vec<RangeInclusive<usize>> {
    if theirs.len() == ours.len() {
        let pairs = (1..).zip(theirs.iter().zip(ours));
        let mut all: Vec<RangeInclusive<usize>> = Vec::new();
        for (line, _) in pairs.filter(|(_, (a, b))| a != b) {
            match all.last_mut() {
                Some(last) if *last.end() + 1 == line => *last = *last.start()..=line,
                _ => all.push(line..=line),
            }
        }
        return all;
    }
    let same = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let rest = ours.iter().rev().zip(theirs.iter().rev()).take_while(|(a, b)| a == b).count();
    vec![same + 1..=(theirs.len() - rest).max(same + 1)]
}

/// A capture with signs of its values. The samples do not have the types of the script, so each value gets the sign that the
/// consumer does not assume.
fn with_signs(path: &Path) -> Capture {
    let mut capture = classic(path);
    let sign = |rec: &mut Rec| {
        if rec.action == Action::Trace {
            rec.signed = match rec.size {
                1 | 2 => Some(true),
                4 | 8 => Some(false),
                _ => None,
            };
        }
    };
    capture.enablings.iter_mut().flat_map(|enabling| &mut enabling.recs).for_each(sign);
    capture.aggregations.iter_mut().flat_map(|aggregation| &mut aggregation.keys).for_each(sign);
    capture
}

#[test]
fn lines_that_differ_by_default_are_those_of_the_table() {
    let mut table = "family\tcase\tlines\tquirk\n".to_owned();
    let mut proved = BTreeSet::new();
    type Read = fn(&Path) -> Capture;
    let families: [(&str, &str, Read); 3] = [
        ("classic", "classic", classic),
        ("classic", "classic with signs", with_signs),
        ("linux", "linux", linux_capture),
    ];
    for (folder, family, read) in families {
        for path in cases(folder) {
            let name = name_of(&path);
            let capture = Arc::new(read(&path));
            let theirs = lines(&capture, Quirks::ALL);
            let golden = String::from_utf8_lossy(&bytes(&path.join("stdout"))).into_owned();
            assert!(golden.lines().eq(theirs.iter().map(String::as_str)), "{family} {name}");
            let mut explained = BTreeSet::new();
            for (position, quirk) in QUIRKS.iter().enumerate() {
                let ranges = different(&theirs, &lines(&capture, Quirks::ALL.without(position)));
                if ranges.is_empty() {
                    continue;
                }
                let shown: Vec<String> = ranges
                    .iter()
                    .map(|range| match range.start() == range.end() {
                        true => range.start().to_string(),
                        false => format!("{}-{}", range.start(), range.end()),
                    })
                    .collect();
                writeln!(table, "{family}\t{name}\t{}\t{}", shown.join(","), quirk.name).unwrap();
                explained.extend(ranges.into_iter().flatten());
                proved.insert(quirk.name);
            }
            let all: BTreeSet<usize> =
                different(&theirs, &lines(&capture, Quirks::NONE)).into_iter().flatten().collect();
            assert_eq!(all, explained, "{family} {name}");
            if all.is_empty() {
                writeln!(table, "{family}\t{name}\t-\t-").unwrap();
            }
        }
    }
    // No sample has sums of squares that carry, structures in arrays, or cleared histograms; other tests cover them.
    let unproved: Vec<&str> =
        QUIRKS.iter().map(|quirk| quirk.name).filter(|name| !proved.contains(name)).collect();
    assert_eq!(unproved, ["carry", "bare-elements", "cleared-parameters"]);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quirks.tsv");
    quipu_testkit::assert_golden(golden, &table);
}

/// Differences between the consumer's text and the correct one, as the rows of the format's specification list them, with
/// their name here: a quirk, or a behaviour that is kept.
const ROWS: [(&str, &str); 11] = [
    ("`%@d` of a negative avg in a printa format (classic)", "unsigned-average"),
    ("default printa of avg", "signed average"),
    ("trace() of i8/i16 (classic)", "unsigned-small"),
    ("trace() of u32/u64 (classic)", "signed-large"),
    ("stddev merge across CPUs", "carry"),
    ("clear() of llquantize (classic)", "cleared-parameters"),
    ("printable bytes without NUL, quiet mode", "padded-bytes"),
    ("1- and 2-byte keys", "unsigned-keys"),
    ("`flowindent` switched on by setopt() mid-stream (`oracle2`)", "flow-prefix"),
    ("digits for packed headers", "digits of packed headings"),
    ("precision 0 ignored in formats", "precision 0"),
];

/// Further differences in the text of the goldens, which no row explains.
const BESIDE: [&str; 3] = ["last-cell", "bare-elements", "order of small keys"];

#[test]
fn each_row_of_the_specification_is_a_quirk_or_is_kept_for_a_reason() {
    let ours: BTreeSet<&str> =
        QUIRKS.iter().map(|quirk| quirk.name).chain(KEPT.iter().map(|(what, _)| *what)).collect();
    let rows: BTreeSet<&str> = ROWS.iter().map(|(_, name)| *name).chain(BESIDE).collect();
    assert_eq!(ours, rows);
    assert!(KEPT.iter().all(|(_, reason)| !reason.is_empty()));
    // The manual has a line for each of them.
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/dtrace.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let (_, quirks) = manual.split_once("## Quirks").unwrap();
    let (quirks, _) = quirks.split_once("\n## ").unwrap();
    let told: Vec<&str> = quirks
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
        .collect();
    assert_eq!(told, QUIRKS.iter().map(|quirk| quirk.name).collect::<Vec<_>>());
    for (what, _) in KEPT {
        assert!(quirks.contains(what), "{what}");
    }
}

#[test]
fn after_clear_the_classic_consumer_ends_where_it_prints_a_llquantize() {
    let capture = classic(&crate::samples::root().join("classic/llquantize_10_0_3_10"));
    let variable = capture.aggregations[0].variable;
    let rec = Rec {
        action: Action::of(5, Dialect::Classic),
        code: 5,
        size: 8,
        offset: 0,
        alignment: 8,
        format: 0,
        arg: capture.library_base + 15,
        uarg: 0,
        signed: None,
    };
    let id = capture.enablings.iter().map(|enabling| enabling.id).max().unwrap_or(0) + 1;
    let mut enabling = Enabling { id, probe: 1, recs: vec![rec.clone()], ..Enabling::default() };
    layout::place(&mut enabling, Dialect::Classic);
    let printa = Rec { action: Action::of(4, Dialect::Classic), code: 4, arg: 0, ..rec };
    let mut shown = Enabling { id: id + 1, probe: 1, recs: vec![printa], ..Enabling::default() };
    layout::place(&mut shown, Dialect::Classic);
    let value = variable.to_le_bytes();
    let with = |enablings: &[&Enabling]| {
        let mut capture = capture.clone();
        let mut writer = BufferWriter::new(Dialect::Classic, capture.order);
        for of in enablings {
            writer.record(of, 1, [&value[..]]).unwrap();
        }
        capture.enablings.extend([enabling.clone(), shown.clone()]);
        capture.by_epid = (0u32..).zip(&capture.enablings).map(|(at, of)| (of.id, at)).collect();
        capture.buffers = vec![quipu_dtrace::describe::Buffer {
            bytes: writer.into_bytes(),
            ..quipu_dtrace::describe::Buffer::default()
        }];
        Arc::new(capture)
    };
    let print = |capture: &Arc<Capture>, quirks| {
        let printed = quipu_dtrace::print(capture, Style { quirks }).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(printed.out), text(printed.messages), printed.status, printed.faults.len())
    };
    // Parameters are kept: the histogram has its heading, and its rows without counts.
    let at_end = with(&[&enabling]);
    let (out, messages, status, n_faults) = print(&at_end, Quirks::NONE);
    assert!(out.contains("Distribution") && out.contains("< 1 |"), "{out}");
    assert_eq!((&*messages, status, n_faults), ("", 0, 0));
    let (out, messages, status, n_faults) = print(&at_end, Quirks::ALL);
    assert!(!out.contains("Distribution"), "{out}");
    assert_eq!(
        (&*messages, status, n_faults),
        ("failed to print aggregations: Data record list does not match statement\n", 1, 1)
    );
    // A record that prints it ends all output.
    let within = with(&[&enabling, &shown, &enabling]);
    let (out, messages, status, n_faults) = print(&within, Quirks::ALL);
    // The key is printed, and nothing after it.
    assert_eq!(out.trim(), "all");
    assert_eq!(
        (&*messages, status, n_faults),
        ("processing aborted: Data record list does not match statement\n", 1, 1)
    );
    let (out, _, status, _) = print(&within, Quirks::NONE);
    assert!(out.contains("Distribution") && status == 0, "{out}");
}
