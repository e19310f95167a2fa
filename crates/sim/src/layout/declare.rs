//! A layout as the text of a declaration.
//!
//! Names and types are those of the program as far as it tells them; between languages, numbers and pointers are translated, and
//! what has no counterpart becomes bytes.

use super::arrange::{Arrangement, Form};
use super::units::{Members, Unit};
use quipu_model::{Error, Result};
use std::fmt::Write as _;

/// A language that declares structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    C,
    Cpp,
    Rust,
}

impl Language {
    /// The language of a name.
    ///
    /// # Errors
    /// `Usage` if there is none.
    pub(super) fn named(name: &str) -> Result<Language> {
        match name {
            "c" => Ok(Language::C),
            "cpp" | "c++" => Ok(Language::Cpp),
            "rust" => Ok(Language::Rust),
            _ => Err(Error::usage(format!("option `language` is `c`, `cpp` or `rust`, found `{name}`"))),
        }
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cpp => "cpp",
            Language::Rust => "rust",
        }
    }

    /// The language that the members' types look like.
    pub(super) fn guessed(members: &Members) -> Language {
        let texts = || members.units.iter().map(|unit| unit.text.as_str());
        if texts()
            .any(|text| RUST_NUMBERS.iter().any(|(rust, ..)| *rust == text) || text.starts_with("alloc::"))
        {
            return Language::Rust;
        }
        let is_cpp = members.name.contains("::")
            || texts().any(|text| text.contains("::") || text.contains('<'))
            || members.units.iter().any(|unit| unit.is_pinned);
        if is_cpp { Language::Cpp } else { Language::C }
    }
}

/// Numbers of Rust, with their names in C and their bytes.
const RUST_NUMBERS: &[(&str, &str, u64)] = &[
    ("u8", "uint8_t", 1),
    ("i8", "int8_t", 1),
    ("u16", "uint16_t", 2),
    ("i16", "int16_t", 2),
    ("u32", "uint32_t", 4),
    ("i32", "int32_t", 4),
    ("u64", "uint64_t", 8),
    ("i64", "int64_t", 8),
    ("usize", "size_t", 8),
    ("isize", "ptrdiff_t", 8),
    ("f32", "float", 4),
    ("f64", "double", 8),
    ("bool", "bool", 1),
];

/// Further names of numbers in C: with a sign or without.
const C_NUMBERS: &[(&str, bool)] = &[
    ("char", true),
    ("signed char", true),
    ("unsigned char", false),
    ("short", true),
    ("short int", true),
    ("unsigned short", false),
    ("short unsigned int", false),
    ("int", true),
    ("unsigned", false),
    ("unsigned int", false),
    ("long", true),
    ("long int", true),
    ("unsigned long", false),
    ("long unsigned int", false),
    ("long long", true),
    ("long long int", true),
    ("unsigned long long", false),
    ("long long unsigned int", false),
];

/// How a member's type is written, with the dimensions of an array.
pub(super) fn type_text(unit: &Unit) -> String {
    let dimensions: String = unit.dimensions.iter().map(|n| format!("[{n}]")).collect();
    format!("{}{dimensions}", unit.text)
}

/// The declaration of a layout.
pub(super) fn declaration(
    members: &Members,
    arrangement: &Arrangement,
    language: Language,
    has_singles: bool,
) -> String {
    let writer = Writer { members, arrangement, language };
    let mut out = String::new();
    let name = last_name(&members.name);
    match arrangement.form {
        Form::Struct => writer.structure(&name, 0, None, &mut out),
        Form::Split => {
            let cold =
                if language == Language::Rust { format!("{name}Cold") } else { format!("{name}_cold") };
            writer.comment("Element i of an array of these belongs to element i of the other.", &mut out);
            writer.structure(&name, 0, has_singles.then_some(cold.as_str()), &mut out);
            out.push('\n');
            writer.structure(&cold, 1, None, &mut out);
        }
        Form::Arrays => writer.arrays(&name, &mut out),
        Form::Inside => writer.inside(&name, &mut out),
    }
    out
}

/// A name without what is around it.
fn last_name(name: &str) -> String {
    let depth_free =
        name.rsplit_once("::").filter(|(_, last)| !last.contains('>')).map_or(name, |(_, last)| last);
    depth_free.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

struct Writer<'w> {
    members: &'w Members,
    arrangement: &'w Arrangement,
    language: Language,
}

impl Writer<'_> {
    fn comment(&self, text: &str, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self.language {
            Language::C => writeln!(out, "/* {text} */"),
            _ => writeln!(out, "// {text}"),
        };
    }

    /// The members of a part, by their new offset.
    fn in_part(&self, part: usize) -> Vec<usize> {
        let places = &self.arrangement.places;
        let mut units: Vec<usize> = (0..places.len()).filter(|unit| places[*unit].part == part).collect();
        units.sort_by_key(|unit| places[*unit].offset);
        units
    }

    fn structure(&self, name: &str, part: usize, link: Option<&str>, out: &mut String) {
        let (units, of) = (self.in_part(part), self.arrangement.parts[part]);
        let all = &self.members.units;
        let natural = units.iter().map(|unit| all[*unit].align).max().unwrap_or(1);
        let bases: Vec<&str> = units.iter().filter_map(|unit| all[*unit].name.strip_suffix("::")).collect();
        let asked = (of.align > natural).then_some(of.align);
        let _ = match (self.language, asked) {
            (Language::C, None) => writeln!(out, "struct {name} {{"),
            (Language::C, Some(align)) => writeln!(out, "struct __attribute__((aligned({align}))) {name} {{"),
            (Language::Cpp, align) => {
                let align = align.map_or_else(String::new, |align| format!("alignas({align}) "));
                let bases: String = bases.iter().enumerate().fold(String::new(), |mut text, (i, base)| {
                    text.push_str(if i == 0 { " : " } else { ", " });
                    text.push_str(base);
                    text
                });
                writeln!(out, "struct {align}{name}{bases} {{")
            }
            (Language::Rust, None) => writeln!(out, "#[repr(C)]\npub struct {name} {{"),
            (Language::Rust, Some(align)) => {
                writeln!(out, "#[repr(C, align({align}))]\npub struct {name} {{")
            }
        };
        let (mut at, mut n_gaps) = (0u64, 0);
        for unit in units {
            let member = &all[unit];
            let offset = self.arrangement.places[unit].offset;
            let lays = at.next_multiple_of(member.align);
            if offset > lays {
                self.gap(&mut n_gaps, offset - at, out);
            }
            if self.language == Language::Cpp && member.name.ends_with("::") {
                at = offset + member.bytes;
                continue;
            }
            self.member(member, offset, out);
            at = offset + member.bytes;
        }
        if let Some(link) = link {
            let _ = match self.language {
                Language::Rust => writeln!(out, "    pub cold: Box<{link}>,"),
                _ => writeln!(out, "    struct {link} *cold;"),
            };
            at = at.next_multiple_of(8) + 8;
        }
        let end = at.next_multiple_of(asked.unwrap_or(natural));
        if of.stride > end {
            self.gap(&mut n_gaps, of.stride - at, out);
        }
        out.push_str(if self.language == Language::Rust { "}\n" } else { "};\n" });
    }

    fn gap(&self, n_gaps: &mut u32, bytes: u64, out: &mut String) {
        *n_gaps += 1;
        let _ = match self.language {
            Language::Rust => writeln!(out, "    _room{n_gaps}: [u8; {bytes}],"),
            _ => writeln!(out, "    unsigned char room{n_gaps}[{bytes}];"),
        };
    }

    fn member(&self, unit: &Unit, offset: u64, out: &mut String) {
        let declared = self.declared(unit, "", unit.n() > 1);
        let _ = match self.language {
            Language::Rust => writeln!(out, "    {declared}, // {offset}"),
            Language::Cpp => writeln!(out, "    {declared}; // {offset}"),
            Language::C => writeln!(out, "    {declared}; /* {offset} */"),
        };
    }

    /// A member with its type; of an array, as one or as one of its elements. C has a star before the name where there is a
    /// pointer to it instead.
    fn declared(&self, unit: &Unit, star: &str, is_array: bool) -> String {
        let name: String =
            unit.name.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect();
        let element = unit.step;
        let dimensions: &[u64] = if is_array { &unit.dimensions } else { &[] };
        if self.language == Language::Rust {
            let text = rust_type(&unit.text, element);
            let text = dimensions.iter().rev().fold(text, |text, n| format!("[{text}; {n}]"));
            return format!("pub {name}: {text}");
        }
        let text = c_type(&unit.text, element);
        let dimensions: String = dimensions.iter().map(|n| format!("[{n}]")).collect();
        let is_bytes = text.is_none();
        let has_rank = is_bytes || !dimensions.is_empty() || unit.text.contains('[');
        let name =
            if !star.is_empty() && has_rank { format!("({star}{name})") } else { format!("{star}{name}") };
        match text {
            // Functions and arrays behind a pointer have the name inside.
            Some(text) if text.contains("(*)") => text.replacen("(*)", &format!("(*{name}{dimensions})"), 1),
            Some(text) if text.ends_with('*') => format!("{text}{name}{dimensions}"),
            Some(text) => match text.split_once('[') {
                Some((of, rest)) => format!("{} {name}{dimensions}[{rest}", of.trim_end()),
                None => format!("{text} {name}{dimensions}"),
            },
            None => format!("unsigned char {name}{dimensions}[{element}]"),
        }
    }

    fn arrays(&self, name: &str, out: &mut String) {
        self.comment("Element i is the i-th of each array.", out);
        let is_rust = self.language == Language::Rust;
        let _ = match is_rust {
            true => writeln!(out, "pub struct {name}s {{"),
            false => writeln!(out, "struct {name}s {{"),
        };
        for unit in &self.members.units {
            let star = if is_rust { "" } else { "*" };
            let of = self.declared(unit, star, unit.n() > 1);
            let _ = match of.split_once(": ").filter(|_| is_rust) {
                Some((name, text)) => writeln!(out, "    {name}: Vec<{text}>,"),
                None => writeln!(out, "    {of};"),
            };
        }
        out.push_str(if is_rust { "}\n" } else { "};\n" });
    }

    fn inside(&self, name: &str, out: &mut String) {
        let places = &self.arrangement.places;
        let all = &self.members.units;
        let (inner, rest): (Vec<usize>, Vec<usize>) =
            self.in_part(0).into_iter().partition(|unit| places[*unit].step != all[*unit].step);
        let n = inner.first().map_or(0, |unit| all[*unit].n());
        let is_rust = self.language == Language::Rust;
        let element = if is_rust { format!("{name}Element") } else { format!("{name}_element") };
        let head = |name: &str| match is_rust {
            true => format!("#[repr(C)]\npub struct {name} {{\n"),
            false => format!("struct {name} {{\n"),
        };
        let end = if is_rust { "}\n" } else { "};\n" };
        out.push_str(&head(&element));
        for unit in &inner {
            let of = self.declared(&all[*unit], "", false);
            let _ = writeln!(out, "    {of}{}", if is_rust { "," } else { ";" });
        }
        out.push_str(end);
        out.push('\n');
        out.push_str(&head(name));
        let _ = match is_rust {
            true => writeln!(out, "    pub elements: [{element}; {n}],"),
            false => writeln!(out, "    struct {element} elements[{n}];"),
        };
        for unit in rest {
            self.member(&all[unit], places[unit].offset, out);
        }
        out.push_str(end);
    }
}

/// A type in C and C++; `None` if it has no name there.
fn c_type(text: &str, bytes: u64) -> Option<String> {
    let text = text.trim();
    if let Some((_, c, _)) = RUST_NUMBERS.iter().find(|(rust, ..)| *rust == text) {
        return Some((*c).to_owned());
    }
    if let Some(of) =
        text.strip_prefix("*mut ").or_else(|| text.strip_prefix("&mut ")).or_else(|| text.strip_prefix('&'))
    {
        return Some(format!("{} *", c_type(of, 0).unwrap_or_else(|| "void".to_owned())));
    }
    if let Some(of) = text.strip_prefix("*const ") {
        return Some(format!("const {} *", c_type(of, 0).unwrap_or_else(|| "void".to_owned())));
    }
    if text.is_empty() || text.contains('|') || text.starts_with('<') || (text.starts_with('[') && bytes > 0)
    {
        return None;
    }
    Some(text.to_owned())
}

/// A type in Rust; bytes if it has no name there.
fn rust_type(text: &str, bytes: u64) -> String {
    let text = text.trim();
    let is_known = RUST_NUMBERS.iter().any(|(rust, ..)| *rust == text)
        || text.contains("::")
        || text.starts_with(['*', '&', '[', '('])
        || text.starts_with(char::is_uppercase);
    if is_known {
        return text.to_owned();
    }
    if let Some((rust, ..)) = RUST_NUMBERS.iter().find(|(_, c, _)| *c == text) {
        return (*rust).to_owned();
    }
    if let Some((_, is_signed)) = C_NUMBERS.iter().find(|(c, _)| *c == text) {
        return format!("{}{}", if *is_signed { 'i' } else { 'u' }, 8 * bytes);
    }
    if let Some(of) = text.strip_suffix('*') {
        let of = of.trim_end().trim_start_matches("const ");
        return match of {
            "void" | "" => "*mut core::ffi::c_void".to_owned(),
            _ if of.contains('(') => "*mut core::ffi::c_void".to_owned(),
            _ => format!("*mut {}", rust_type(of.trim_start_matches("struct "), 8)),
        };
    }
    match text.trim_start_matches("struct ") {
        name if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_') => name.to_owned(),
        _ => format!("[u8; {bytes}]"),
    }
}
