//! Entries as text, one per line: type, size and value; for a marker, its kind and value. Lines that begin with `#` are
//! comments.

use crate::check_rules::trace::Entries;
use quipu_drmemtrace::record::{Entry, MARKER_NAMES, Marker, TYPE_NAMES, Type};

/// The entries of a text.
///
/// # Panics
/// If a line is not an entry.
pub(crate) fn parse(text: &str) -> Entries {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| entry(line).unwrap_or_else(|| panic!("`{line}` is no entry"))).collect()
}

fn entry(line: &str) -> Option<Entry> {
    let words: Vec<&str> = line.split(' ').collect();
    let (kind, size, value) = match words[..] {
        ["marker", kind, value] => (Type::MARKER, numbered(MARKER_NAMES, kind)?, value),
        [kind, size, value] => (Type(numbered(TYPE_NAMES, kind)?), u16::try_from(number(size)?).ok()?, value),
        _ => return None,
    };
    Some(Entry::new(kind, size, number(value)?))
}

/// The position of a name, or a number without a name.
fn numbered(names: &[&str], word: &str) -> Option<u16> {
    let named = names.iter().position(|name| *name == word);
    named.and_then(|number| u16::try_from(number).ok()).or_else(|| word.parse().ok())
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

#[test]
fn lines_say_types_markers_and_numbers_without_a_name() {
    let entries = parse("# a remark\nmarker timestamp 100\nmarker 60 0x10\ninstr 1 0x7f\n77 0 0\n");
    let expected = [
        Entry::new(Type::MARKER, Marker::TIMESTAMP.0, 100),
        Entry::new(Type::MARKER, 60, 16),
        Entry::new(Type::INSTR, 1, 0x7f),
        Entry::new(Type(77), 0, 0),
    ];
    assert_eq!(entries, expected);
}
