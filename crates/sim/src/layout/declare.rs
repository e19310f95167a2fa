//! Declares a layout as source code.
//!
//! A compiler lays the declaration out exactly like the layout: padding precedes members that would otherwise move, and
//! alignments that do not follow from the members are declared.

use super::arrange::{Arrangement, Form};
use super::source::{Declared, Record, What};
use super::text::{Language, c_declared, c_type, identifier, last_name, rust_type, subscripts};
use super::units::{Members, Unit, UnitKind};
use std::fmt::Write as _;

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

struct Writer<'w> {
    members: &'w Members,
    arrangement: &'w Arrangement,
    language: Language,
}

/// Writes the lines of a structure and tracks the compiler's position.
struct Lines<'l> {
    language: Language,
    is_packed: bool,
    indent: usize,
    /// Bit offset at which the compiler would place the next member.
    at: u64,
    n_gaps: u32,
    out: &'l mut String,
}

impl Lines<'_> {
    fn line(&mut self, text: &str, offset: Option<u64>) {
        let indent = "    ".repeat(self.indent);
        // Writing to a string cannot fail.
        let _ = match (offset, self.language) {
            (None, _) => writeln!(self.out, "{indent}{text}"),
            (Some(offset), Language::C) => writeln!(self.out, "{indent}{text} /* {offset} */"),
            (Some(offset), _) => writeln!(self.out, "{indent}{text} // {offset}"),
        };
    }

    /// Adds padding up to an offset.
    fn room_to(&mut self, offset: u64) {
        self.at = self.at.next_multiple_of(8);
        let bytes = offset.saturating_sub(self.at / 8);
        if bytes > 0 {
            self.n_gaps += 1;
            let n = self.n_gaps;
            let text = match self.language {
                Language::Rust => format!("_room{n}: [u8; {bytes}],"),
                _ => format!("unsigned char room{n}[{bytes}];"),
            };
            self.line(&text, None);
        }
        self.at = self.at.max(offset * 8);
    }

    /// Adds padding before a member if the compiler would place it elsewhere.
    fn go_to(&mut self, offset: u64, align: u64) {
        let align = if self.is_packed { 1 } else { align.max(1) };
        if self.at.div_ceil(8).next_multiple_of(align) < offset {
            self.room_to(offset);
        }
        self.at = offset * 8;
    }

    /// Declares a bit field at bit offset `start`.
    fn bits(&mut self, of: &Declared, start: u64, is_first: bool) {
        let What::Bits(type_bytes) = of.what else { return };
        if is_first && !self.at.is_multiple_of(8) {
            self.line("unsigned char : 0;", None);
            self.at = self.at.next_multiple_of(8);
        }
        let unit = type_bytes.max(1) * 8;
        // A bit field that does not fit into the rest of its type's unit begins the next one.
        let is_over = !self.is_packed && self.at % unit + of.bit_size > unit;
        let lays = if is_over { self.at.next_multiple_of(unit) } else { self.at };
        if lays < start {
            while !self.at.is_multiple_of(8) && self.at < start {
                let n = (8 - self.at % 8).min(start - self.at);
                self.line(&format!("unsigned char : {n};"), None);
                self.at += n;
            }
            self.room_to(start / 8);
            if !start.is_multiple_of(8) && self.at < start {
                self.line(&format!("unsigned char : {};", start - self.at), None);
            }
        }
        let text = format!("{} {} : {};", of.text, identifier(&of.name), of.bit_size);
        self.line(&text, Some(start / 8));
        self.at = start + of.bit_size;
    }

    /// Declares an unnamed structure or union, in C and C++.
    fn body(&mut self, record: Record, members: &[Declared], name: &str, offset: Option<u64>) {
        self.line(&format!("{} {{", head(record, record.asked, "")), None);
        let mut inner = Lines {
            language: self.language,
            is_packed: record.is_packed,
            indent: self.indent + 1,
            at: 0,
            n_gaps: self.n_gaps,
            out: &mut *self.out,
        };
        for member in members {
            if record.keyword == "union" {
                inner.at = 0;
            }
            inner.member(member);
        }
        self.n_gaps = inner.n_gaps;
        let name = if name.is_empty() { String::new() } else { format!(" {name}") };
        self.line(&format!("}}{name};"), offset);
    }

    /// Declares a member of an unnamed structure or union.
    fn member(&mut self, of: &Declared) {
        let (name, dimensions) = (identifier(&of.name), subscripts(&of.dimensions));
        let offset = of.bit_start / 8;
        match &of.what {
            What::Bits(_) => return self.bits(of, of.bit_start, false),
            What::Body(record, members) => {
                self.go_to(offset, of.align.unwrap_or(1));
                self.body(*record, members, &format!("{name}{dimensions}"), Some(offset));
            }
            _ => {
                self.go_to(offset, of.align.unwrap_or(1));
                let n: u64 = of.dimensions.iter().product();
                let text = c_type(&of.text, self.language);
                let declared = c_declared(text.as_deref(), of.bit_size / 8 / n.max(1), &name, &dimensions);
                self.line(&format!("{}{declared};", aligned(of.asked, self.language)), Some(offset));
            }
        }
        self.at = of.end() * 8;
    }
}

/// Specifier for the alignment that a member declares.
fn aligned(asked: Option<u64>, language: Language) -> String {
    match (asked, language) {
        (Some(align), Language::C) => format!("_Alignas({align}) "),
        (Some(align), Language::Cpp) => format!("alignas({align}) "),
        _ => String::new(),
    }
}

/// `struct` with its attributes and name, in C and C++.
fn head(record: Record, align: Option<u64>, name: &str) -> String {
    let mut asks = Vec::new();
    if record.is_packed {
        asks.push("packed".to_owned());
    }
    asks.extend(align.map(|align| format!("aligned({align})")));
    let asks = if asks.is_empty() { String::new() } else { format!("__attribute__(({})) ", asks.join(", ")) };
    format!("{} {asks}{name}", record.keyword).trim_end().to_owned()
}

impl Writer<'_> {
    fn comment(&self, text: &str, out: &mut String) {
        let _ = match self.language {
            Language::C => writeln!(out, "/* {text} */"),
            _ => writeln!(out, "// {text}"),
        };
    }

    /// Crate that defines the type; empty if the type is not from Rust.
    fn own_crate(&self) -> &str {
        let front = self.members.name.split_once("::").filter(|_| self.members.language == Language::Rust);
        front.map_or("", |(own, _)| own)
    }

    /// Members of a part, sorted by new offset.
    fn in_part(&self, part: usize) -> Vec<usize> {
        let places = &self.arrangement.places;
        let mut units: Vec<usize> = (0..places.len()).filter(|unit| places[*unit].part == part).collect();
        units.sort_by_key(|unit| places[*unit].offset);
        units
    }

    /// Whether a member is a base class.
    fn is_base(&self, unit: &Unit) -> bool {
        self.language == Language::Cpp && unit.what == UnitKind::Base
    }

    fn structure(&self, name: &str, part: usize, link: Option<&str>, out: &mut String) {
        let (units, of) = (self.in_part(part), self.arrangement.parts[part]);
        let (all, is_rust) = (&self.members.units, self.language == Language::Rust);
        let record = if part == 0 { self.members.record } else { Record::default() };
        // A remap may put members at offsets that their types do not allow.
        let is_off = |unit: &usize| {
            !self.arrangement.places[*unit].offset.is_multiple_of(all[*unit].align)
                && self.arrangement.places[*unit].offset != all[*unit].start
        };
        let is_packed = self.members.record.is_packed || units.iter().any(is_off);
        let natural = self.natural_align(is_packed, units.iter().map(|unit| &all[*unit]));
        let asked = Some(of.align).filter(|align| *align > natural);
        let is_typedef = self.language == Language::C && self.members.is_unnamed && part == 0;
        self.open(Record { is_packed, ..record }, asked, name, is_typedef, &units, out);
        let mut lines = self.lines(is_packed, 0, out);
        for unit in units {
            self.unit(&all[unit], self.arrangement.places[unit].offset, &mut lines);
        }
        if let Some(link) = link {
            let offset = lines.at.div_ceil(8).next_multiple_of(8);
            lines.go_to(offset, 8);
            lines.line(
                &match is_rust {
                    true => format!("pub cold: Box<{link}>,"),
                    false => format!("struct {link} *cold;"),
                },
                Some(offset),
            );
            lines.at = (offset + 8) * 8;
        }
        if part == 0 {
            self.empty(&mut lines);
        }
        if lines.at.div_ceil(8).next_multiple_of(asked.unwrap_or(natural)) < of.stride {
            lines.room_to(of.stride);
        }
        self.close(name, is_typedef, out);
    }

    /// A writer of lines within a structure, starting at bit offset `at`.
    fn lines<'o>(&self, is_packed: bool, at: u64, out: &'o mut String) -> Lines<'o> {
        Lines { language: self.language, is_packed, indent: 1, at, n_gaps: 0, out }
    }

    /// Writes the opening lines.
    fn open(
        &self,
        record: Record,
        asked: Option<u64>,
        name: &str,
        is_typedef: bool,
        units: &[usize],
        out: &mut String,
    ) {
        if self.language != Language::Rust {
            return self.head(record, asked, name, is_typedef, units, out);
        }
        let repr = match (record.is_packed, asked) {
            (true, _) => "C, packed".to_owned(),
            (false, Some(align)) => format!("C, align({align})"),
            (false, None) => "C".to_owned(),
        };
        if let Some(align) = asked.filter(|_| record.is_packed) {
            self.comment(&format!("Addresses are multiples of {align}, which has to be seen to."), out);
        }
        let _ = writeln!(out, "#[repr({repr})]\npub struct {name} {{");
    }

    /// Writes the closing line.
    fn close(&self, name: &str, is_typedef: bool, out: &mut String) {
        let _ = match is_typedef {
            true => writeln!(out, "}} {name};"),
            false => writeln!(out, "{}", if self.language == Language::Rust { "}" } else { "};" }),
        };
    }

    /// Writes the opening lines in C and C++.
    fn head(
        &self,
        record: Record,
        asked: Option<u64>,
        name: &str,
        is_typedef: bool,
        units: &[usize],
        out: &mut String,
    ) {
        let is_cpp = self.language == Language::Cpp;
        let is_class = is_cpp && record.keyword == "class";
        let keyword = if is_class { "class" } else { "struct" };
        let mut bases = String::new();
        let own = units.iter().map(|unit| &self.members.units[*unit]).filter(|unit| self.is_base(unit));
        let empty = self.members.empty.iter().filter(|of| is_cpp && of.what == What::Base);
        let empty = empty.filter(|_| record == Record { is_packed: record.is_packed, ..self.members.record });
        for base in empty.map(|of| &of.name).chain(own.map(|unit| &unit.name)) {
            bases.push_str(if bases.is_empty() { " : " } else { ", " });
            bases.push_str(if is_class { "public " } else { "" });
            bases.push_str(base.trim_end_matches("::"));
        }
        let front = if is_typedef { "typedef " } else { "" };
        let name = if is_typedef { "" } else { name };
        let head = match asked {
            // The usual spelling.
            Some(align) if is_cpp && !record.is_packed => format!("{keyword} alignas({align}) {name}"),
            _ => head(Record { keyword, ..record }, asked, name),
        };
        let _ = writeln!(out, "{front}{head}{bases} {{");
        if is_class {
            out.push_str("public:\n");
        }
    }

    /// Alignment that a structure gets from its members.
    fn natural_align<'u>(&self, is_packed: bool, units: impl Iterator<Item = &'u Unit>) -> u64 {
        match is_packed {
            true => 1,
            false => units.map(|unit| self.written_align(unit)).max().unwrap_or(1),
        }
    }

    /// Alignment of a member as it is declared in the target language.
    fn written_align(&self, unit: &Unit) -> u64 {
        let has_type = match &unit.what {
            UnitKind::Bits(_) | UnitKind::Body(..) => self.language != Language::Rust,
            UnitKind::Virtual => true,
            UnitKind::Base => self.is_base(unit),
            UnitKind::Plain => match self.language {
                Language::Rust => {
                    unit.asked.is_none() && rust_type(&unit.text, unit.step, self.own_crate()).is_some()
                }
                language => c_type(&unit.text, language).is_some(),
            },
        };
        if has_type { unit.type_align } else { 1 }
    }

    fn unit(&self, unit: &Unit, offset: u64, lines: &mut Lines<'_>) {
        match &unit.what {
            UnitKind::Bits(all) if self.language != Language::Rust => {
                for (i, of) in all.iter().enumerate() {
                    lines.bits(of, offset * 8 + of.bit_start - unit.start * 8, i == 0);
                }
                return;
            }
            UnitKind::Body(record, members) if self.language != Language::Rust => {
                lines.go_to(offset, unit.type_align);
                // Its name in the layout is made of its members' names; declare it without one.
                let name = if unit.name.contains('|') || is_made(unit, members) { "" } else { &unit.name };
                let name = format!("{}{}", identifier(name), subscripts(&unit.dimensions));
                lines.body(*record, members, &name, Some(offset));
            }
            UnitKind::Virtual if self.language == Language::Cpp => {
                lines.go_to(offset, unit.type_align);
                lines.line("// the pointer to virtual functions:", Some(offset));
            }
            UnitKind::Base if self.language == Language::Cpp => {}
            _ => {
                lines.go_to(offset, self.written_align(unit));
                let end = if self.language == Language::Rust { "," } else { ";" };
                let asked = aligned(unit.asked, self.language);
                let declared = self.declared(unit, "");
                lines.line(&format!("{asked}{declared}{end}"), Some(offset));
            }
        }
        lines.at = (offset + unit.bytes) * 8;
    }

    /// Declares the members without bytes.
    fn empty(&self, lines: &mut Lines<'_>) {
        for of in &self.members.empty {
            let name = identifier(&of.name);
            if self.language == Language::Rust {
                let name =
                    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name };
                let text = rust_type(&of.text, 0, self.own_crate()).unwrap_or_else(|| "()".to_owned());
                lines.line(&format!("pub {name}: {text},"), None);
            } else if of.what == What::Plain && !of.text.is_empty() {
                let text = c_type(&of.text, self.language);
                let declared = c_declared(text.as_deref(), 0, &name, &subscripts(&of.dimensions));
                lines.line(&format!("{declared};"), None);
            }
        }
    }

    /// A member with its type. In C, `star` precedes the name of a pointer to it.
    fn declared(&self, unit: &Unit, star: &str) -> String {
        let name = identifier(&unit.name);
        let element = unit.step;
        if self.language == Language::Rust {
            let name = if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name };
            let text = match unit.what {
                UnitKind::Plain => rust_type(&unit.text, element, self.own_crate()),
                UnitKind::Virtual => Some("*const core::ffi::c_void".to_owned()),
                _ => None,
            };
            let text = text.unwrap_or_else(|| format!("[u8; {element}]"));
            let text = unit.dimensions.iter().rev().fold(text, |text, n| format!("[{text}; {n}]"));
            return format!("pub {name}: {text}");
        }
        let text = match unit.what {
            UnitKind::Plain => c_type(&unit.text, self.language),
            UnitKind::Virtual => Some("void *".to_owned()),
            _ => None,
        };
        let dimensions = subscripts(&unit.dimensions);
        let has_rank = text.is_none() || !dimensions.is_empty() || unit.text.contains('[');
        let name =
            if !star.is_empty() && has_rank { format!("({star}{name})") } else { format!("{star}{name}") };
        c_declared(text.as_deref(), element, &name, &dimensions)
    }

    fn arrays(&self, name: &str, out: &mut String) {
        self.comment("Element i is the i-th of each array.", out);
        let is_rust = self.language == Language::Rust;
        let _ = match is_rust {
            true => writeln!(out, "pub struct {name}s {{"),
            false => writeln!(out, "struct {name}s {{"),
        };
        for unit in &self.members.units {
            if let UnitKind::Body(record, members) = &unit.what
                && !is_rust
            {
                let (name, dimensions) = (identifier(&unit.name), subscripts(&unit.dimensions));
                let name = match dimensions.is_empty() {
                    true => format!("*{name}"),
                    false => format!("(*{name}){dimensions}"),
                };
                self.lines(false, 0, out).body(*record, members, &name, None);
                continue;
            }
            let star = if is_rust { "" } else { "*" };
            let of = self.declared(unit, star);
            let _ = match of.split_once(": ").filter(|_| is_rust) {
                Some((name, text)) => writeln!(out, "    {name}: Vec<{text}>,"),
                None => writeln!(out, "    {of};"),
            };
        }
        out.push_str(if is_rust { "}\n" } else { "};\n" });
    }

    /// Declares the structure of one element, then the structure that contains an array of them.
    fn inside(&self, name: &str, out: &mut String) {
        let (places, all) = (&self.arrangement.places, &self.members.units);
        let (inner, rest): (Vec<usize>, Vec<usize>) =
            self.in_part(0).into_iter().partition(|unit| places[*unit].step != all[*unit].step);
        let (stride, n) = inner.first().map_or((0, 0), |unit| (places[*unit].step, all[*unit].n()));
        let is_rust = self.language == Language::Rust;
        let element = if is_rust { format!("{name}Element") } else { format!("{name}_element") };
        let is_packed = self.members.record.is_packed;
        let record = Record { is_packed, ..Record::default() };
        let members: Vec<Unit> = inner.iter().map(|unit| one_of(&all[*unit])).collect();
        let of_element = self.natural_align(is_packed, members.iter());
        match is_rust {
            true => self.open(record, None, &element, false, &[], out),
            false => out.push_str(&format!("{} {{\n", head(record, None, &element))),
        }
        let mut lines = self.lines(is_packed, 0, out);
        for (unit, member) in inner.iter().zip(&members) {
            self.unit(member, places[*unit].offset, &mut lines);
        }
        if lines.at.div_ceil(8).next_multiple_of(of_element) < stride {
            lines.room_to(stride);
        }
        out.push_str(if is_rust { "}\n\n" } else { "};\n\n" });

        let of = self.arrangement.parts[0];
        let natural = self.natural_align(is_packed, rest.iter().map(|unit| &all[*unit])).max(of_element);
        let asked = Some(of.align).filter(|align| *align > natural);
        let is_typedef = self.language == Language::C && self.members.is_unnamed;
        self.open(self.members.record, asked, name, is_typedef, &rest, out);
        let mut lines = self.lines(is_packed, stride * n * 8, out);
        let elements = match is_rust {
            true => format!("pub elements: [{element}; {n}],"),
            false => format!("struct {element} elements[{n}];"),
        };
        lines.line(&elements, None);
        for unit in rest {
            self.unit(&all[unit], places[unit].offset, &mut lines);
        }
        self.empty(&mut lines);
        if lines.at.div_ceil(8).next_multiple_of(asked.unwrap_or(natural)) < of.stride {
            lines.room_to(of.stride);
        }
        self.close(name, is_typedef, out);
    }
}

/// One element of a member that is an array.
fn one_of(unit: &Unit) -> Unit {
    // Alignment that every element of the array has.
    let align = |of: u64| of.min(1 << unit.step.trailing_zeros());
    Unit {
        dimensions: Vec::new(),
        bytes: unit.step,
        align: align(unit.align),
        type_align: align(unit.type_align),
        asked: None,
        ..unit.clone()
    }
}

/// Whether an unnamed structure was named after its only member.
fn is_made(unit: &Unit, members: &[Declared]) -> bool {
    matches!(members, [only] if only.name == unit.name)
}
