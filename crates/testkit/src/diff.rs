//! The difference of two texts for people: removed and added lines, with some context.

use std::fmt::Write as _;

/// Number of equal lines shown around a difference.
const CONTEXT: usize = 3;
/// If the parts that differ have more lines than this, lines are not matched with one another.
const MAX_MATCHED: usize = 2000;
/// Maximum number of lines shown of a difference.
const MAX_SHOWN: usize = 80;

/// The difference, or `None` if the texts are equal. Lines that are only in `expected` begin with `-`, lines that are only in
/// `actual` with `+`; the number is the line's number in its own text.
pub fn diff(expected: &str, actual: &str) -> Option<String> {
    if expected == actual {
        return None;
    }
    let old: Vec<&str> = expected.split_inclusive('\n').collect();
    let new: Vec<&str> = actual.split_inclusive('\n').collect();
    let same_start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - same_start;
    let same_end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let edits = edits(&old[same_start..old.len() - same_end], &new[same_start..new.len() - same_end]);

    let mut text = String::new();
    let mut shown = 0;
    let first = same_start.saturating_sub(CONTEXT);
    for (i, line) in old.iter().enumerate().take(same_start).skip(first) {
        write_line(&mut text, ' ', i, line);
    }
    let (mut i, mut j) = (same_start, same_start);
    for edit in &edits {
        shown += 1;
        if shown > MAX_SHOWN {
            let _ = writeln!(text, "… and {} lines more", edits.len() - MAX_SHOWN);
            return Some(text);
        }
        match edit {
            Edit::Keep => write_line(&mut text, ' ', i, old[i]),
            Edit::Remove => write_line(&mut text, '-', i, old[i]),
            Edit::Add => write_line(&mut text, '+', j, new[j]),
        }
        i += usize::from(*edit != Edit::Add);
        j += usize::from(*edit != Edit::Remove);
    }
    for (i, line) in old.iter().enumerate().skip(i).take(CONTEXT) {
        write_line(&mut text, ' ', i, line);
    }
    Some(text)
}

fn write_line(text: &mut String, sign: char, index: usize, line: &str) {
    let body = line.strip_suffix('\n');
    let shown = body.unwrap_or(line);
    // Invisible characters are written as escapes.
    let is_hidden = shown.ends_with(char::is_whitespace) || shown.contains(char::is_control);
    let shown = if is_hidden { format!("{shown:?}") } else { shown.to_owned() };
    let end = if body.is_none() { " (without a line end)" } else { "" };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{sign}{:>5} {shown}{end}", index + 1);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edit {
    Keep,
    Remove,
    Add,
}

/// The shortest edit script between two lists of lines, by the longest common subsequence.
fn edits(old: &[&str], new: &[&str]) -> Vec<Edit> {
    if old.len() > MAX_MATCHED || new.len() > MAX_MATCHED {
        let removed = old.iter().map(|_| Edit::Remove);
        return removed.take(MAX_SHOWN / 2).chain(new.iter().map(|_| Edit::Add)).collect();
    }
    // common[i][j]: number of lines that old[i..] and new[j..] have in common.
    let width = new.len() + 1;
    let mut common = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut edits = Vec::new();
    while i < old.len() || j < new.len() {
        let edit = if i < old.len() && j < new.len() && old[i] == new[j] {
            Edit::Keep
        } else if j == new.len() || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            Edit::Remove
        } else {
            Edit::Add
        };
        edits.push(edit);
        i += usize::from(edit != Edit::Add);
        j += usize::from(edit != Edit::Remove);
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_do_not_differ() {
        assert_eq!(diff("a\nb\n", "a\nb\n"), None);
    }

    #[test]
    fn a_changed_line_is_shown_with_its_neighbours() {
        let old = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nFIVE\n6\n7\n8\n9\n";
        let expected =
            "     2 2\n     3 3\n     4 4\n-    5 five\n+    5 FIVE\n     6 6\n     7 7\n     8 8\n";
        assert_eq!(diff(old, new).unwrap(), expected);
    }

    #[test]
    fn added_and_removed_lines_keep_their_own_numbers() {
        let shown = diff("a\nb\nc\n", "b\nc\nd\n").unwrap();
        let lines: Vec<String> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines, ["-1a", "2b", "3c", "+3d"]);
    }

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        assert_eq!(diff("a\n", "a \n").unwrap(), "-    1 a\n+    1 \"a \"\n");
        assert_eq!(diff("a\n", "a").unwrap(), "-    1 a\n+    1 a (without a line end)\n");
    }

    #[test]
    fn a_long_difference_is_cut() {
        let new: String = (0..5000).map(|line| format!("{line}\n")).collect();
        let shown = diff("", &new).unwrap();
        assert_eq!(shown.lines().count(), MAX_SHOWN + 1);
        assert!(shown.ends_with("… and 4920 lines more\n"));
    }
}
