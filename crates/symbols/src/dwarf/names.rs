//! Names of types as text: their parts, and which names may mean the same.

use super::MAX_DEPTH;
use gimli::DwTag;

/// A name without the arguments of its template; `None` if it has none.
pub(super) fn bare(name: &[u8]) -> Option<&[u8]> {
    let at = name.iter().position(|byte| *byte == b'<')?;
    (at > 0 && name.ends_with(b">")).then(|| name[..at].trim_ascii_end())
}

/// A name without the word in front of it, and what that word allows.
pub(super) fn split_keyword(name: &str) -> (&'static [DwTag], &str) {
    const STRUCT: &[DwTag] =
        &[gimli::DW_TAG_structure_type, gimli::DW_TAG_class_type, gimli::DW_TAG_union_type];
    let words: [(&str, &'static [DwTag]); 8] = [
        ("struct.", STRUCT),
        ("class.", STRUCT),
        ("union.", &[gimli::DW_TAG_union_type]),
        // LLVM and C++ take the two words for one; so does the look-up.
        ("struct ", STRUCT),
        ("class ", STRUCT),
        ("union ", &[gimli::DW_TAG_union_type]),
        ("enum.", &[gimli::DW_TAG_enumeration_type]),
        ("enum ", &[gimli::DW_TAG_enumeration_type]),
    ];
    let found = words.into_iter().find_map(|(word, tags)| Some((tags, name.strip_prefix(word)?.trim())));
    found.unwrap_or((&[], name))
}

/// The last part of a path: what stands behind the last `::` that is not inside brackets.
pub(crate) fn own_name(path: &str) -> &str {
    let bytes = path.as_bytes();
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            // The arrow of a function's type closes nothing.
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && at > 0 && bytes[at - 1] == b':' => start = at + 1,
            _ => {}
        }
    }
    &path[start..]
}

/// True if a name could be short for a path: without its namespaces, those that libraries add for their versions, the arguments of
/// its templates or the last of them, or with other blanks.
pub(super) fn matches_loosely(path: &str, name: &str) -> bool {
    let (path, name) = (&*simplified(path), &*simplified(name));
    let is_end = |path: &str, name: &str| {
        path.strip_suffix(name).is_some_and(|front| front.is_empty() || front.ends_with("::"))
    };
    if is_end(path, name) {
        return true;
    }
    let (own, own_of_name) = (own_name(path), own_name(name));
    let (front, front_of_name) = (&path[..path.len() - own.len()], &name[..name.len() - own_of_name.len()]);
    if !is_end(front, front_of_name) {
        return false;
    }
    bare(own.as_bytes()).is_some_and(|own| own == own_of_name.as_bytes()) || begins_so(own, own_of_name, 0)
}

/// True if two texts are the same type, but for arguments at the end of its templates, and of those of its arguments.
fn begins_so(full: &str, short: &str, depth: usize) -> bool {
    if full == short {
        return true;
    }
    let split = |text: &str| -> Option<(usize, usize)> { Some((text.find('<')?, text.rfind('>')?)) };
    let (Some((from, to)), Some((short_from, short_to))) = (split(full), split(short)) else { return false };
    let is_same = full[..from] == short[..short_from] && full[to..] == short[short_to..];
    if !is_same || depth > MAX_DEPTH || to < from || short_to < short_from {
        return false;
    }
    let (full, short) = (arguments(&full[from + 1..to]), arguments(&short[short_from + 1..short_to]));
    short.len() <= full.len()
        && full.iter().zip(&short).all(|(full, short)| begins_so(full, short, depth + 1))
}

/// What commas outside of brackets divide.
fn arguments(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' if at > 0 && text.as_bytes()[at - 1] == b'-' => {}
            b'>' | b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found
}

/// Namespaces that libraries put around a version of themselves, and that nobody writes.
const INLINE_NAMESPACES: [&str; 3] = ["__cxx11::", "__1::", "__ndk1::"];

/// A name without what may be written or not: blanks that divide no words, and such namespaces.
fn simplified(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut chars = name.trim().chars().peekable();
    while let Some(c) = chars.next() {
        let divides = || out.chars().next_back().is_some_and(is_word);
        if c != ' ' || (divides() && chars.peek().is_some_and(|next| is_word(*next))) {
            out.push(c);
        }
    }
    for of in INLINE_NAMESPACES {
        out = out.replace(of, "");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_path_stands_outside_of_brackets() {
        for (path, own) in [
            ("X", "X"),
            ("a::b::X", "X"),
            ("core::option::Option<alloc::string::String>", "Option<alloc::string::String>"),
            ("a::f::{impl#0}::X", "X"),
            ("F<fn(a::B) -> c::D>", "F<fn(a::B) -> c::D>"),
            ("(anonymous namespace)::X", "X"),
            ("a::<b", "<b"),
        ] {
            assert_eq!(own_name(path), own, "{path}");
        }
    }

    #[test]
    fn namespaces_and_arguments_may_be_missing() {
        assert!(matches_loosely("a::b::X", "b::X"));
        assert!(matches_loosely("std::vector<int, std::allocator<int> >", "std::vector"));
        assert!(matches_loosely("a::vector<int>", "vector"));
        assert!(!matches_loosely("a::bX", "X"));
        assert!(!matches_loosely("a::X", "b::X"));
        assert!(!matches_loosely("a::vector<int>", "vector<long>"));
        assert!(!matches_loosely("unsigned char", "unsignedchar"));
        for name in [
            "std::vector<std::vector<int>>",
            "std::vector<std::vector<int, std::allocator<int>>, std::allocator<std::vector<int, std::allocator<int>>>>",
            "vector<std::vector<int> >",
        ] {
            let path = "std::vector<std::vector<int, std::allocator<int> >, std::allocator<std::vector<int, std::allocator<int> > > >";
            assert!(matches_loosely(path, name), "{name}");
        }
        assert!(matches_loosely(
            "std::__cxx11::list<char const*, std::allocator<char const*> >",
            "std::list<char const *>"
        ));
        assert!(matches_loosely("alloc::vec::Vec<u8, alloc::alloc::Global>", "Vec<u8>"));
    }
}
