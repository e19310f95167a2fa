//! Which lines of the goldens differ by default, and by which row of the table.

use crate::samples::{bytes, cases, classic, linux_capture, name_of};
use quipu_dtrace::action::Action;
use quipu_dtrace::describe::Rec;
use quipu_dtrace::quirks::{QUIRKS, Quirks};
use quipu_dtrace::{Capture, Style};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

fn lines(capture: &Arc<Capture>, quirks: Quirks) -> Vec<String> {
    let printed = quipu_dtrace::print(capture, Style { quirks }).unwrap();
    String::from_utf8_lossy(&printed.out).lines().map(str::to_owned).collect()
}

/// The lines of the consumer's text that differ, from 1: each for itself, or where lines are added or missing those between the
/// ones that are the same at the beginning and at the end.
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

/// A capture that says the signs of its values: what the script's types are is not in the samples, so each is what the consumer
/// does not take it for.
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
    // Sums of squares that carry and structures in arrays are in no sample; tests of values have them.
    let unproved: Vec<&str> =
        QUIRKS.iter().map(|quirk| quirk.name).filter(|name| !proved.contains(name)).collect();
    assert_eq!(unproved, ["carry", "bare-elements"]);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quirks.tsv");
    quipu_testkit::assert_golden(golden, &table);
}
