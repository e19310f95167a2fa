//! Which lines of the goldens differ by default, and why.

use crate::samples::{cases, classic, linux_capture, name_of, printed};
use quipu_dtrace::Capture;
use quipu_dtrace::quirks::QUIRKS;
use std::path::Path;

/// Case, the lines of its golden (from 1), the row of the table.
const DIFFERENCES: &[(&str, &str, std::ops::RangeInclusive<usize>, &str)] = &[
    ("classic", "bytes_quiet", 8..=19, "padded-bytes"),
    ("classic", "printa_formats", 10..=10, "unsigned-average"),
    ("classic", "quantize", 232..=234, "last-cell"),
    ("classic", "quantize_utf8", 232..=234, "last-cell"),
    ("classic", "quantize_zoom", 232..=234, "last-cell"),
    ("linux", "setopt_flow", 3..=3, "flow-prefix"),
];

/// The lines of the consumer's text between those that are the same at its beginning and at its end.
fn different_lines(path: &Path, capture: fn(&Path) -> Capture) -> Option<std::ops::RangeInclusive<usize>> {
    let (ours, theirs) = (printed(capture(path), false), printed(capture(path), true));
    assert_eq!(ours.messages, theirs.messages, "{}", path.display());
    let text = |out: &[u8]| String::from_utf8_lossy(out).lines().map(str::to_owned).collect::<Vec<_>>();
    let (ours, theirs) = (text(&ours.out), text(&theirs.out));
    if ours == theirs {
        return None;
    }
    let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
    let rest = ours.iter().rev().zip(theirs.iter().rev()).take_while(|(a, b)| a == b).count();
    Some(same + 1..=(theirs.len() - rest).max(same + 1))
}

#[test]
fn lines_that_differ_by_default_are_those_of_the_table() {
    let mut found = Vec::new();
    for (family, capture) in [("classic", classic as fn(&Path) -> Capture), ("linux", linux_capture)] {
        for path in cases(family) {
            let lines = different_lines(&path, capture);
            found.extend(lines.map(|lines| (family, name_of(&path), lines)));
        }
    }
    let expected: Vec<_> = DIFFERENCES
        .iter()
        .map(|(family, case, lines, _)| (*family, (*case).to_owned(), lines.clone()))
        .collect();
    assert_eq!(found, expected);
    for (_, case, _, row) in DIFFERENCES {
        assert!(QUIRKS.iter().any(|quirk| quirk.name == *row), "{case}: {row}");
    }
}
