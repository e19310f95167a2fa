//! Compares the text of each sample with the output of the real consumers, byte for byte.
//!
//! Two tests print the folders as they are: every line equals the consumer's, except for names of a live kernel, which no
//! file of a sample has. With these names, taken from the consumer's text, all lines are equal.

use crate::samples::{bytes, cases, classic, linux_capture, name_of, printed};
use quipu_dtrace::Printed;

/// Messages with the prefix that the command prints.
fn with_command(messages: &[u8]) -> String {
    let text = String::from_utf8_lossy(messages);
    text.lines().map(|line| format!("dtrace: {line}\n")).collect()
}

/// The first lines that differ, as text.
fn difference(found: &str, expected: &str) -> String {
    let pairs = found.lines().zip(expected.lines()).enumerate();
    let first = pairs.filter(|(_, (a, b))| a != b).take(4);
    let text: String =
        first.map(|(n, (a, b))| format!("  line {}: {a:?}\n  expected {b:?}\n", n + 1)).collect();
    format!("{text}  {} lines, expected {}", found.lines().count(), expected.lines().count())
}

fn compare(name: &str, printed: &Printed, expected: (&str, &str), failures: &mut Vec<String>) {
    let out = String::from_utf8_lossy(&printed.out);
    let messages = with_command(&printed.messages);
    for (what, found, expected) in [("stdout", &*out, expected.0), ("stderr", &*messages, expected.1)] {
        if found != expected {
            failures.push(format!("{name} {what}\n{}", difference(found, expected)));
        }
    }
}

#[test]
fn classic_captures_print_what_the_consumer_printed() {
    let mut failures = Vec::new();
    let all = cases("classic");
    assert_eq!(all.len(), 65);
    for path in &all {
        let name = name_of(path);
        let printed = printed(classic(path), true);
        let expected = (bytes(&path.join("stdout")), bytes(&path.join("stderr")));
        let expected = (String::from_utf8_lossy(&expected.0), String::from_utf8_lossy(&expected.1));
        compare(&name, &printed, (&expected.0, &expected.1), &mut failures);
        assert_eq!(printed.faults.is_empty(), name != "unknown_epid", "{name}: {:?}", printed.faults);
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), all.len(), failures.join("\n"));
}

/// Lines that differ in samples printed as they are, by name, line numbers and cause. Each has the name of an address of a
/// kernel that no longer runs, which only the consumer's text has. On Linux, the other four cases with symbols have no names
/// in their text either.
const AS_THEY_ARE: [(&str, &[usize], &str); 3] = [
    ("printa_mod", &[2, 3], "vmlinux"),
    ("stack", &[5, 6, 7, 12, 13, 14], "vmlinux`"),
    ("sym_mod", &[2], "vmlinux"),
];

#[test]
fn folders_as_they_are_print_what_the_consumer_printed_but_for_names_of_a_live_kernel() {
    let mut n_whole = 0;
    for path in cases("classic").into_iter().chain(cases("linux")) {
        let name = name_of(&path);
        let source = quipu_source::Source::open(&path).unwrap();
        let capture = quipu_dtrace::trace::load(&source, &quipu_model::OpenOptions::default()).unwrap();
        let printed = printed(capture, true);
        let (ours, theirs) = (printed.out, bytes(&path.join("stdout")));
        let (ours, theirs) = (String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs));
        let Some((_, lines, why)) = AS_THEY_ARE.iter().find(|(known, ..)| *known == name) else {
            assert!(ours == theirs, "{name}\n{}", difference(&ours, &theirs));
            n_whole += 1;
            continue;
        };
        let pairs = (1..).zip(ours.lines().zip(theirs.lines()));
        let differ: Vec<(usize, &str)> = pairs
            .filter(|(_, (ours, theirs))| ours != theirs)
            .map(|(line, (_, theirs))| (line, theirs))
            .collect();
        assert_eq!(differ.iter().map(|(line, _)| *line).collect::<Vec<_>>(), *lines, "{name}: {differ:?}");
        assert!(differ.iter().all(|(_, theirs)| theirs.contains(why)), "{name}: {differ:?}");
        assert_eq!(ours.lines().count(), theirs.lines().count(), "{name}");
    }
    assert_eq!(n_whole, 102);
}

/// Whether a line comes from the command itself and not from a record.
fn is_of_command(line: &str) -> bool {
    line.starts_with("dtrace: script ")
        || line.ends_with("failed speculation (available buffer(s) still busy)")
}

#[test]
fn linux_captures_print_what_the_consumer_printed() {
    let mut failures = Vec::new();
    let all = cases("linux");
    assert_eq!(all.len(), 40);
    for path in &all {
        let name = name_of(path);
        let printed = printed(linux_capture(path), true);
        let expected = (bytes(&path.join("stdout")), bytes(&path.join("stderr")));
        let messages = String::from_utf8_lossy(&expected.1);
        let messages: String =
            messages.lines().filter(|line| !is_of_command(line)).map(|line| format!("{line}\n")).collect();
        compare(&name, &printed, (&String::from_utf8_lossy(&expected.0), &messages), &mut failures);
        assert!(printed.faults.is_empty(), "{name}: {:?}", printed.faults);
        let exit = String::from_utf8(bytes(&path.join("exit"))).unwrap();
        assert_eq!(printed.status, exit.trim().parse::<i32>().unwrap(), "{name}");
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), all.len(), failures.join("\n"));
}
