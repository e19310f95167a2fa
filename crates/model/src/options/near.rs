//! Suggestions for mistyped names.

/// The known name that is nearest to `name`, if it is near enough to be meant: at most a third of the letters differ, or one
/// of the two begins with the other.
///
/// ```
/// use quipu_model::options::nearest;
/// let known = ["top", "line-size", "per-thread"];
/// assert_eq!(nearest("linesize", known), Some("line-size"));
/// assert_eq!(nearest("PER_THREAD", known), Some("per-thread"));
/// assert_eq!(nearest("colour", known), None);
/// ```
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let name = plain(name);
    // A page of text is not a mistyped name.
    if name.is_empty() || name.len() > 64 {
        return None;
    }
    let near = |known: &'n str| {
        let other = plain(known);
        let longest = name.len().max(other.len());
        let edits = distance(&name, &other);
        let begins = name.len() >= 3 && (other.starts_with(&name) || name.starts_with(&other));
        (edits * 3 <= longest || begins).then_some((edits, known))
    };
    known.into_iter().filter_map(near).min_by_key(|(edits, _)| *edits).map(|(_, known)| known)
}

/// Normalises a name for comparison: upper and lower case are the same, and so are `_` and `-`.
fn plain(name: &str) -> Vec<char> {
    name.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The number of letters that must be removed, inserted, replaced or swapped with the next to turn one name into the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted_that_differ() {
        let edits = |a: &str, b: &str| distance(&plain(a), &plain(b));
        assert_eq!(edits("limit", "limmit"), 1);
        assert_eq!(edits("tpo", "top"), 1);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("Line_Size", "line-size"), 0);
    }

    #[test]
    fn nothing_far_is_proposed() {
        assert_eq!(nearest("x", ["top"]), None);
        assert_eq!(nearest("", ["top"]), None);
        assert_eq!(nearest("causes", ["cores", "cause"]), Some("cause"));
    }
}
