//! Names of types as text: their parts, and which names may be equivalent.

use super::MAX_DEPTH;
use gimli::DwTag;

/// A name without its template arguments; `None` if it has none.
pub(super) fn bare(name: &[u8]) -> Option<&[u8]> {
    let at = name.iter().position(|byte| *byte == b'<')?;
    (at > 0 && name.ends_with(b">")).then(|| name[..at].trim_ascii_end())
}

/// Splits off the keyword in front of a name; returns the tags that the keyword allows.
pub(super) fn split_keyword(name: &str) -> (&'static [DwTag], &str) {
    const STRUCT: &[DwTag] =
        &[gimli::DW_TAG_structure_type, gimli::DW_TAG_class_type, gimli::DW_TAG_union_type];
    let words: [(&str, &'static [DwTag]); 8] = [
        ("struct.", STRUCT),
        ("class.", STRUCT),
        ("union.", &[gimli::DW_TAG_union_type]),
        // LLVM and C++ treat the two words as the same; so does the look-up.
        ("struct ", STRUCT),
        ("class ", STRUCT),
        ("union ", &[gimli::DW_TAG_union_type]),
        ("enum.", &[gimli::DW_TAG_enumeration_type]),
        ("enum ", &[gimli::DW_TAG_enumeration_type]),
    ];
    let found = words.into_iter().find_map(|(word, tags)| Some((tags, name.strip_prefix(word)?.trim())));
    found.unwrap_or((&[], name))
}

/// The last part of a path: the text after the last `::` outside of brackets.
pub(crate) fn own_name(path: &str) -> &str {
    let bytes = path.as_bytes();
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            // The arrow in the type of a function is not a closing bracket.
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && at > 0 && bytes[at - 1] == b':' => start = at + 1,
            _ => {}
        }
    }
    &path[start..]
}

/// The spellings that compilers may use for a number type: `unsigned long` is gcc's `long unsigned int`. Empty for other
/// types.
pub(super) fn numbers(name: &str) -> Vec<String> {
    let words: Vec<&str> = name.split_whitespace().collect();
    let Some(usual) = number(&words) else { return Vec::new() };
    // In gcc's spelling, the size comes first, and `int` is always written.
    let size: Vec<&str> = words.iter().copied().filter(|word| matches!(*word, "long" | "short")).collect();
    let is_int = !words.iter().any(|word| matches!(*word, "char" | "double" | "__int128"));
    let unsigned = words.contains(&"unsigned").then_some("unsigned");
    let gcc: Vec<&str> = size.into_iter().chain(unsigned).chain(is_int.then_some("int")).collect();
    if is_int { vec![gcc.join(" "), usual] } else { vec![usual] }
}

/// The usual name of a number type; `None` for other words.
fn number(words: &[&str]) -> Option<String> {
    let count = |wanted: &str| words.iter().filter(|word| **word == wanted).count();
    let (long, short) = (count("long"), count("short"));
    let n_known: usize =
        ["unsigned", "signed", "long", "short", "int", "char", "double", "__int128"].map(count).iter().sum();
    if words.is_empty() || n_known != words.len() || long > 2 || short > 1 {
        return None;
    }
    let core = match () {
        () if count("char") > 0 => "char",
        () if count("double") > 0 && long > 0 => "long double",
        () if count("double") > 0 => "double",
        () if count("__int128") > 0 => "__int128",
        () if short > 0 => "short",
        () if long == 2 => "long long",
        () if long == 1 => "long",
        () => "int",
    };
    let sign = match core {
        _ if count("unsigned") > 0 => "unsigned ",
        // The three character types are distinct.
        "char" if count("signed") > 0 => "signed ",
        _ => "",
    };
    Some(format!("{sign}{core}"))
}

/// Normalises a name: words of number types in the usual order, `const` and `volatile` after the type that they qualify, and
/// blanks only where they separate words.
fn ordered(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    // True where a type may begin.
    let mut begins = true;
    while let Some(c) = rest.chars().next() {
        if begins && is_word(c) {
            let n_bytes = base(rest);
            out.push_str(&ordered_base(&rest[..n_bytes]));
            rest = &rest[n_bytes..];
            begins = false;
            continue;
        }
        begins = matches!(c, '<' | ',' | '(');
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Length in bytes of a type up to its pointers, references, dimensions or parameters.
fn base(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if depth > 0 && text[..at].ends_with('-') => {}
            '>' if depth > 0 => depth -= 1,
            _ if depth > 0 || is_word(c) || matches!(c, ' ' | ':') => {}
            _ => return at,
        }
    }
    text.len()
}

fn ordered_base(text: &str) -> String {
    let (mut words, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && text[at + 1..].starts_with(is_word) {
                    words.push(&text[start..=at]);
                    start = at + 1;
                }
            }
            ' ' if depth == 0 => {
                words.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&text[start..]);
    let is_qualifier = |word: &str| matches!(word, "const" | "volatile");
    let mut qualifiers: Vec<&str> = words.iter().copied().filter(|word| is_qualifier(word)).collect();
    qualifiers.sort_unstable();
    words.retain(|word| !is_qualifier(word));
    let mut all = match number(&words) {
        Some(number) => number,
        None => {
            // The text within brackets is normalised separately.
            let inner = |word: &&str| match word.find('<') {
                Some(at) => format!("{}{}", &word[..at], ordered(&word[at..])),
                None => (*word).to_owned(),
            };
            words.iter().map(inner).collect::<Vec<String>>().join(" ")
        }
    };
    for qualifier in qualifiers {
        all.push(' ');
        all.push_str(qualifier);
    }
    all
}

/// A path without the parameters of functions that enclose a declaration: `f(int)::X` is `f::X`.
fn without_parameters(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    // Positions in `out` of the open brackets.
    let mut open = Vec::new();
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '(' {
            open.push(out.len());
        }
        out.push(c);
        if c == ')'
            && let Some(start) = open.pop()
            && rest.starts_with("::")
            && out[..start].ends_with(|c| is_word(c) || c == '>')
        {
            out.truncate(start);
        }
    }
    out
}

/// The namespaces of a program that names may leave out.
#[derive(Debug, Default)]
pub(super) struct Spelling {
    /// Paths of inline namespaces, with `::` after them, and the same without the last part; the shortest first.
    inline: Vec<(String, String)>,
}

impl Spelling {
    /// Builds this from the paths of a program's inline namespaces.
    pub(super) fn new(mut paths: Vec<String>) -> Spelling {
        paths.sort_unstable_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        paths.dedup();
        let mut spelling = Spelling::default();
        for path in paths {
            // One within another is already found without the outer one.
            let full = spelling.simplified(&path) + "::";
            let own = own_name(&full[..full.len() - 2]).len();
            let short = full[..full.len() - 2 - own].to_owned();
            spelling.inline.push((full, short));
        }
        spelling
    }

    /// True if a name may be short for a path: without its namespaces or the inline ones, without its template arguments or
    /// the last of them, or with other blanks; `std::string` and the like stand for their definitions.
    pub(super) fn matches(&self, path: &str, name: &str) -> bool {
        let (path, name) = (&*self.simplified(path), &*self.simplified(name));
        let (mut path, mut name) = (Some(path), Some(name));
        // From the last part to the first.
        while let Some(of_name) = name {
            let Some(of_path) = path else { return false };
            let (part, part_of_name) = (own_name(of_path), own_name(of_name));
            let is_bare = || bare(part.as_bytes()).is_some_and(|part| part == part_of_name.as_bytes());
            if !(begins_so(part, part_of_name, 0) || is_bare()) {
                return false;
            }
            path = of_path[..of_path.len() - part.len()].strip_suffix("::");
            name = of_name[..of_name.len() - part_of_name.len()].strip_suffix("::");
        }
        true
    }

    /// A name without the parts that are optional.
    fn simplified(&self, name: &str) -> String {
        let mut out = String::with_capacity(name.len());
        let mut chars = name.trim().chars().peekable();
        while let Some(c) = chars.next() {
            // Drops blanks that do not separate words.
            let divides = || out.chars().next_back().is_some_and(is_word);
            if c != ' ' || (divides() && chars.peek().is_some_and(|next| is_word(*next))) {
                out.push(c);
            }
        }
        for of in INLINE_NAMESPACES {
            out = out.replace(of, "");
        }
        out = ordered(&without_parameters(&out));
        for (full, short) in self.inline.iter().filter(|(full, _)| !full.is_empty()) {
            out = replaced(&out, full, short, |_| true);
        }
        for (name, of) in OTHER_NAMES {
            out = replaced(&out, name, of, |rest| !rest.starts_with(is_word) && !rest.starts_with("::"));
        }
        out
    }
}

/// Namespaces that libraries put around a version of their contents, and that sources leave out; older debug information
/// does not mark them as inline. Names in an unnamed namespace can also be used without it.
const INLINE_NAMESPACES: [&str; 4] = ["__cxx11::", "__1::", "__ndk1::", "(anonymous namespace)::"];

/// Aliases of template types; compilers write the full type where these are arguments.
const OTHER_NAMES: [(&str, &str); 10] = [
    ("std::string", "std::basic_string<char>"),
    ("std::wstring", "std::basic_string<wchar_t>"),
    ("std::u8string", "std::basic_string<char8_t>"),
    ("std::u16string", "std::basic_string<char16_t>"),
    ("std::u32string", "std::basic_string<char32_t>"),
    ("std::string_view", "std::basic_string_view<char>"),
    ("std::wstring_view", "std::basic_string_view<wchar_t>"),
    ("std::u8string_view", "std::basic_string_view<char8_t>"),
    ("std::u16string_view", "std::basic_string_view<char16_t>"),
    ("std::u32string_view", "std::basic_string_view<char32_t>"),
];

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Replaces a path in a text wherever it begins there and `may_follow` accepts the text after it.
fn replaced(text: &str, from: &str, to: &str, may_follow: impl Fn(&str) -> bool) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (front, behind) = (&rest[..at], &rest[at + from.len()..]);
        out.push_str(front);
        let begins = !out.ends_with(is_word) && !out.ends_with("::");
        out.push_str(if begins && may_follow(behind) { to } else { from });
        rest = behind;
    }
    out + rest
}

/// True if two texts are the same type, except that arguments at the end of its templates, or of its arguments' templates,
/// are missing.
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

/// Splits a text at commas outside of brackets.
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
        assert!(loosely("a::b::X", "b::X"));
        assert!(loosely("std::vector<int, std::allocator<int> >", "std::vector"));
        assert!(loosely("a::vector<int>", "vector"));
        assert!(!loosely("a::bX", "X"));
        assert!(!loosely("a::X", "b::X"));
        assert!(!loosely("a::vector<int>", "vector<long>"));
        assert!(!loosely("unsigned char", "unsignedchar"));
        for name in [
            "std::vector<std::vector<int>>",
            "std::vector<std::vector<int, std::allocator<int>>, std::allocator<std::vector<int, std::allocator<int>>>>",
            "vector<std::vector<int> >",
        ] {
            let path = "std::vector<std::vector<int, std::allocator<int> >, std::allocator<std::vector<int, std::allocator<int> > > >";
            assert!(loosely(path, name), "{name}");
        }
        assert!(loosely(
            "std::__cxx11::list<char const*, std::allocator<char const*> >",
            "std::list<char const *>"
        ));
        assert!(loosely("alloc::vec::Vec<u8, alloc::alloc::Global>", "Vec<u8>"));
        assert!(loosely("a::Box<int, 3>::Inner", "a::Box<int>::Inner"));
        assert!(loosely("a::Box<int, 3>::Inner", "Box::Inner"));
        assert!(!loosely("a::Box<int, 3>::Inner", "a::Box<long>::Inner"));
    }

    #[test]
    fn inline_namespaces_need_not_be_written() {
        let paths = ["lib::v1", "lib::v1::deep::abi", "other::v1"];
        let spelling = Spelling::new(paths.map(str::to_owned).to_vec());
        assert!(spelling.matches("lib::v1::T", "lib::T"));
        assert!(spelling.matches("lib::v1::T", "lib::v1::T"));
        assert!(spelling.matches("lib::v1::deep::abi::T", "lib::deep::T"));
        assert!(spelling.matches("lib::v1::deep::abi::T", "lib::v1::deep::T"));
        assert!(spelling.matches("Box<lib::v1::T, other::v1::T>", "Box<lib::T, other::T>"));
        assert!(!spelling.matches("third::v1::T", "third::T"));
        assert!(!spelling.matches("alib::v1::T", "alib::T"));
    }

    #[test]
    fn words_of_numbers_and_const_stand_in_any_order() {
        for (path, name) in [
            ("Bx<long unsigned int>", "Bx<unsigned long>"),
            ("Bx<unsigned long>", "Bx<long unsigned int>"),
            ("std::atomic<long int>", "std::atomic<long>"),
            ("Bx<short unsigned int, long long int>", "Bx<unsigned short, long long>"),
            ("Bx<unsigned int>", "Bx<unsigned>"),
            ("Bx<char const*>", "Bx<const char*>"),
            ("Bx<const char *>", "Bx<char const*>"),
            ("Bx<char const* const>", "Bx<const char* const>"),
            ("std::pair<int const, std::basic_string<char> >", "std::pair<const int, std::string>"),
            ("Bx<std::vector<long int> const&>", "Bx<const std::vector<long>&>"),
            ("Bx<void (*)(long unsigned int, char const*)>", "Bx<void (*)(unsigned long, const char*)>"),
            ("ns::(anonymous namespace)::Anon", "ns::Anon"),
            ("ns::(anonymous namespace)::Anon", "(anonymous namespace)::Anon"),
            ("fun2::Loc", "fun2()::Loc"),
            ("a::fun2::Loc", "fun2(int, Bx<long>)::Loc"),
        ] {
            assert!(loosely(path, name), "{path} {name}");
        }
        for (path, name) in [
            ("Bx<unsigned char>", "Bx<signed char>"),
            ("Bx<signed char>", "Bx<char>"),
            ("Bx<long int>", "Bx<long long>"),
            ("Bx<char* const>", "Bx<char const*>"),
            ("Bx<long double>", "Bx<double>"),
            ("Bx<longer>", "Bx<long>"),
            ("Vec<*const u8>", "Vec<*mut u8>"),
        ] {
            assert!(!loosely(path, name), "{path} {name}");
        }
        assert_eq!(numbers("unsigned long"), ["long unsigned int", "unsigned long"]);
        assert_eq!(numbers("long int"), ["long int", "long"]);
        assert_eq!(numbers("char unsigned"), ["unsigned char"]);
        assert_eq!(numbers("longer"), [""; 0]);
    }

    #[test]
    fn strings_within_arguments_have_their_short_names() {
        let path = "std::map<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, int, std::less<void> >";
        for name in ["std::map<std::string, int>", "std::map<std::__cxx11::basic_string<char>, int>"] {
            assert!(loosely(path, name), "{name}");
        }
        assert!(!loosely(path, "std::map<std::wstring, int>"));
        assert!(!loosely(path, "std::map<my::std::string, int>"));
        assert!(loosely("Of<std::basic_string_view<char, std::char_traits<char> >>", "Of<std::string_view>"));
    }

    fn loosely(path: &str, name: &str) -> bool {
        Spelling::default().matches(path, name)
    }
}
