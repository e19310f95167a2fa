//! Spelling of types in C, C++ and Rust.
//!
//! Numbers and pointers are translated between languages; other types become byte arrays.

use super::rust_text::rust_source;
use super::source::Declaration;
use super::units::{Unit, UnitKind};
use quipu_model::{Error, Result};
use quipu_symbols::attribute::Shape;

/// A language for declarations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    C,
    Cpp,
    Rust,
}

impl Language {
    /// Parses the name of a language.
    ///
    /// # Errors
    /// `Usage` for an unknown name.
    pub(super) fn named(name: &str) -> Result<Language> {
        match name {
            "c" => Ok(Language::C),
            "cpp" | "c++" => Ok(Language::Cpp),
            "rust" => Ok(Language::Rust),
            _ => Err(Error::usage(format!("option `language` is `c`, `cpp` or `rust`, found `{name}`"))),
        }
    }

    /// The name that [`Language::named`] parses.
    pub(super) fn name(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cpp => "cpp",
            Language::Rust => "rust",
        }
    }

    /// Guesses the language from the type, if nothing else specifies it.
    pub(super) fn guessed(shape: &Shape, declaration: &Declaration) -> Language {
        let texts = || declaration.members.iter().map(|member| member.text.as_str());
        if texts().any(|text| is_rust_number(text) || text.starts_with("alloc::")) {
            return Language::Rust;
        }
        let is_cpp = shape.name.contains("::") || texts().any(|text| text.contains("::"));
        if is_cpp { Language::Cpp } else { Language::C }
    }
}

/// Rust's number types, with their names in C.
const RUST_NUMBERS: &[(&str, &str)] = &[
    ("u8", "uint8_t"),
    ("i8", "int8_t"),
    ("u16", "uint16_t"),
    ("i16", "int16_t"),
    ("u32", "uint32_t"),
    ("i32", "int32_t"),
    ("u64", "uint64_t"),
    ("i64", "int64_t"),
    ("usize", "size_t"),
    ("isize", "ptrdiff_t"),
    ("f32", "float"),
    ("f64", "double"),
    ("bool", "bool"),
    ("bool", "_Bool"),
];

/// Other names of integers in C: whether they are signed, and their size in bytes; 0 if it depends on the platform.
const C_NUMBERS: &[(&str, bool, u64)] = &[
    ("char", true, 1),
    ("signed char", true, 1),
    ("unsigned char", false, 1),
    ("short", true, 2),
    ("short int", true, 2),
    ("unsigned short", false, 2),
    ("short unsigned int", false, 2),
    ("int", true, 4),
    ("unsigned", false, 4),
    ("unsigned int", false, 4),
    ("long", true, 0),
    ("long int", true, 0),
    ("unsigned long", false, 0),
    ("long unsigned int", false, 0),
    ("long long", true, 8),
    ("long long int", true, 8),
    ("unsigned long long", false, 8),
    ("long long unsigned int", false, 8),
];

fn is_rust_number(text: &str) -> bool {
    RUST_NUMBERS.iter().any(|(rust, _)| *rust == text && *rust != "bool")
}

/// Spelling of a member's type, with array dimensions.
pub(super) fn type_text(unit: &Unit) -> String {
    let text = match &unit.what {
        UnitKind::Bits(all) => {
            let bits = |of: &super::source::Declared| format!("{}:{}", of.text, of.bit_size);
            return all.iter().map(bits).collect::<Vec<_>>().join("|");
        }
        UnitKind::Body(record, _) => format!("{} {{…}}", record.keyword),
        _ => unit.text.clone(),
    };
    text + &subscripts(&unit.dimensions)
}

/// Dimensions of an array, in C's notation.
pub(super) fn subscripts(dimensions: &[u64]) -> String {
    dimensions.iter().map(|n| format!("[{n}]")).collect()
}

/// A name without its namespaces or modules.
pub(super) fn last_name(name: &str) -> String {
    let depth_free =
        name.rsplit_once("::").filter(|(_, last)| !last.contains('>')).map_or(name, |(_, last)| last);
    identifier(depth_free)
}

/// A name with all characters that identifiers may not contain replaced.
pub(super) fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

/// A C declaration of a name; `text` is from [`c_type`], or `None` for an array of this many bytes.
pub(super) fn c_declared(text: Option<&str>, bytes: u64, name: &str, dimensions: &str) -> String {
    let Some(text) = text else { return format!("unsigned char {name}{dimensions}[{bytes}]") };
    // In pointers to functions and to arrays, the name is inside the type.
    let inside = text.char_indices().find(|(at, c)| {
        *c == ')' && text[..*at].rfind('(').is_some_and(|open| text[open..*at].contains('*'))
    });
    if let Some((at, _)) = inside {
        let (front, rest) = text.split_at(at);
        let blank = if front.ends_with('*') { "" } else { " " };
        return format!("{front}{blank}{name}{dimensions}{rest}");
    }
    let bare = text.trim_end_matches('*');
    match text.split_once('[') {
        _ if bare.len() < text.len() => {
            format!("{} {}{name}{dimensions}", bare.trim_end(), &text[bare.len()..])
        }
        Some((of, rest)) => format!("{} {name}{dimensions}[{rest}", of.trim_end()),
        None => format!("{text} {name}{dimensions}"),
    }
}

/// A type in C or C++; `None` if it has no name there.
pub(super) fn c_type(text: &str, language: Language) -> Option<String> {
    let text = text.trim();
    if let Some((_, c)) = RUST_NUMBERS.iter().find(|(rust, _)| *rust == text && *rust != "bool") {
        return Some((*c).to_owned());
    }
    let pointee = |of: &str| c_type(of, language).unwrap_or_else(|| "void".to_owned());
    if let Some(of) =
        text.strip_prefix("*mut ").or_else(|| text.strip_prefix("&mut ")).or_else(|| text.strip_prefix('&'))
    {
        return Some(format!("{} *", pointee(of)));
    }
    if let Some(of) = text.strip_prefix("*const ") {
        return Some(format!("const {} *", pointee(of)));
    }
    let is_foreign = language == Language::C && (text.contains("::") || text.contains('<'));
    if text.is_empty()
        || text.contains('|')
        || text.contains("<anonymous")
        || text.contains("...")
        || text.starts_with(['<', '[', '('])
        || is_foreign
    {
        return None;
    }
    // gcc's name for it is a macro from a header.
    Some(text.strip_prefix("complex ").map_or_else(|| text.to_owned(), |of| format!("_Complex {of}")))
}

/// A type of this size in Rust; `None` if it has no name there. Paths in the crate `own` begin with `crate`.
pub(super) fn rust_type(text: &str, bytes: u64, own: &str) -> Option<String> {
    let text = text.trim();
    if let Some(of) = text.strip_suffix('*').or_else(|| text.strip_suffix("* const")) {
        let of = of.trim_end();
        let (sign, of) = match of.strip_prefix("const ") {
            Some(of) => ("const", of),
            None => ("mut", of),
        };
        let of = rust_type(of, 0, own).filter(|_| of != "void" && !of.contains('('));
        return Some(format!("*{sign} {}", of.unwrap_or_else(|| "core::ffi::c_void".to_owned())));
    }
    if text.contains("(*") && bytes > 0 {
        return Some("*mut core::ffi::c_void".to_owned());
    }
    if text == "char" && bytes == 4 {
        return Some(text.to_owned());
    }
    let text = text.trim_start_matches("const ").trim_start_matches("volatile ");
    if let Some((rust, _)) = RUST_NUMBERS.iter().find(|(rust, c)| *rust == text || *c == text) {
        return Some((*rust).to_owned());
    }
    if let Some((_, is_signed, own)) = C_NUMBERS.iter().find(|(c, ..)| *c == text) {
        let bytes = [bytes, *own, 8].into_iter().find(|n| *n > 0).unwrap_or(8);
        return Some(format!("{}{}", if *is_signed { 'i' } else { 'u' }, 8 * bytes));
    }
    let is_function = ["fn(", "unsafe ", "extern "].iter().any(|front| text.starts_with(front));
    let is_rust = text.starts_with(['*', '&', '[', '(']) || (text.contains("::") && !text.contains("> >"));
    if is_function || is_rust {
        return rust_source(text, own);
    }
    let name = text.trim_start_matches("struct ");
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '<' | '>' | ',' | ' ');
    // Names of two words do not exist in Rust, but generic arguments may contain blanks.
    let has_blank = name.split('<').next().is_some_and(|own| own.contains(' '));
    let is_plain = name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(is_name);
    (is_plain && !has_blank).then(|| name.to_owned())
}
