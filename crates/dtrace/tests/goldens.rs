//! What the real consumers printed for each sample, byte for byte.
//!
//! The text that is not in a capture comes from elsewhere: the command's own lines, and on Linux the symbols of a live kernel and
//! the signs of a format's arguments, which the captures of that version lack.

use crate::samples::{bytes, cases, classic, linux_capture, name_of, printed};
use quipu_dtrace::Printed;

/// Messages as the command prints them.
fn with_command(messages: &[u8]) -> String {
    let text = String::from_utf8_lossy(messages);
    text.lines().map(|line| format!("dtrace: {line}\n")).collect()
}

/// The first lines that differ.
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

/// Lines of the command itself, which no record holds.
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
