//! Members of a type as units that a layout moves, each with its size, alignment and type.

use super::source::{Declaration, Declared, Record, What};
use super::text::Language;
use quipu_model::{Error, Result};
use quipu_symbols::attribute::{Field, Shape};
use quipu_symbols::layout::LeafKind;

/// Largest type in bytes whose layout can change.
pub(super) const MAX_TYPE_BYTES: u64 = 1 << 20;
/// Most members of a type.
const MAX_UNITS: usize = 4096;
/// Longest name made of several members' names.
const MAX_NAME: usize = 120;

/// A member, or several members that share bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Name; for overlapping members, all their names.
    pub(super) name: String,
    /// Spelling of its type, if known; an array's dimensions are appended.
    pub(super) text: String,
    /// Number of elements in each dimension; empty unless it is an array.
    pub(super) dimensions: Vec<u64>,
    /// Offset in bytes.
    pub(super) start: u64,
    /// Size in bytes.
    pub(super) bytes: u64,
    /// Required alignment in bytes.
    pub(super) align: u64,
    /// Alignment that it imposes on the enclosing structure: for bit fields, that of their type.
    pub(super) type_align: u64,
    /// Alignment declared explicitly.
    pub(super) asked: Option<u64>,
    /// Size of an element if it is an array, otherwise of the whole member.
    pub(super) step: u64,
    /// Whether it cannot be moved: a base class, or the pointer to the virtual table.
    pub(super) is_pinned: bool,
    /// Its structure, if it has more than a name and a type.
    pub(super) what: UnitKind,
}

/// Kind of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UnitKind {
    Plain,
    /// A base class.
    Base,
    /// The pointer to the virtual table.
    Virtual,
    /// Bit fields that share bytes; their offsets count from the beginning of the type.
    Bits(Vec<Declared>),
    /// A structure or union without a type name.
    Body(Record, Vec<Declared>),
}

impl Unit {
    /// Offset of the byte after it.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes
    }

    /// Number of elements.
    pub(super) fn n(&self) -> u64 {
        self.bytes / self.step.max(1)
    }
}

/// A type as a list of members, by offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Members {
    pub(super) name: String,
    pub(super) size: u64,
    /// Alignment of an element.
    pub(super) align: u64,
    /// Alignment declared explicitly, or 1; layouts keep it.
    pub(super) asked: u64,
    pub(super) units: Vec<Unit>,
    /// Members without bytes; their offsets do not matter.
    pub(super) empty: Vec<Declared>,
    pub(super) record: Record,
    /// Whether the type is named only by a typedef.
    pub(super) is_unnamed: bool,
    /// Source language.
    pub(super) language: Language,
    /// Index of the member at each byte; padding has that of the member before it, or the first.
    unit_at: Vec<u16>,
}

impl Members {
    /// The members of a declared type.
    ///
    /// # Errors
    /// `Unsupported` for a type that has no members, members that cannot be moved or have unknown offsets, a flexible array
    /// at its end, or too many bytes.
    pub(super) fn of(shape: &Shape, declaration: &Declaration) -> Result<Members> {
        let refuse =
            |why: &str| Error::unsupported(format!("the layout of `{}` cannot change: {why}", shape.name));
        if let Some(why) = declaration.refusal {
            return Err(refuse(why));
        }
        if shape.size > MAX_TYPE_BYTES {
            return Err(refuse("it is too large"));
        }
        if shape.is_open {
            return Err(refuse("it ends with an array of any length"));
        }
        let record = declaration.record;
        let (mut units, empty) = units(declaration, shape);
        if units.is_empty() {
            return Err(refuse("it has no members"));
        }
        if units.len() > MAX_UNITS {
            return Err(refuse("it has too many members"));
        }
        if record.is_packed {
            for unit in &mut units {
                unit.asked = unit.asked.filter(|asked| unit.start.is_multiple_of(*asked));
                unit.align = unit.asked.unwrap_or(1);
                unit.type_align = unit.align;
            }
        }
        let asked = record.asked.unwrap_or(1);
        let of_members = units.iter().map(|unit| unit.type_align).max().unwrap_or(1);
        let mut unit_at = Vec::with_capacity(shape.size as usize); // Below `MAX_TYPE_BYTES`.
        let mut at = 0;
        for byte in 0..shape.size {
            while units.get(at + 1).is_some_and(|next: &Unit| next.start <= byte) {
                at += 1;
            }
            unit_at.push(at as u16); // Below `MAX_UNITS`.
        }
        Ok(Members {
            name: shape.name.clone(),
            size: shape.size,
            align: asked.max(of_members),
            asked,
            units,
            empty,
            record,
            is_unnamed: declaration.is_unnamed,
            language: declaration.language.unwrap_or_else(|| Language::guessed(shape, declaration)),
            unit_at,
        })
    }

    /// Index of the member at an offset below the size, and whether it contains that byte; otherwise the byte is padding
    /// after it.
    #[inline]
    pub(super) fn at(&self, offset: u64) -> Option<(usize, bool)> {
        let unit = usize::from(*self.unit_at.get(offset as usize)?); // Below the size.
        let of = self.units.get(unit)?;
        Some((unit, of.start <= offset && offset < of.end()))
    }

    /// Index of the member with this name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let name = name.trim();
        self.units.iter().position(|unit| unit.name == name || unit.name.split('|').any(|part| part == name))
    }

    /// Index of the member with this name.
    ///
    /// # Errors
    /// `Usage` if there is none; the hint lists all members.
    pub(super) fn named(&self, name: &str) -> Result<usize> {
        self.find(name).ok_or_else(|| {
            let names: Vec<&str> = self.units.iter().map(|unit| unit.name.as_str()).collect();
            Error::usage(format!("`{}` has no member `{}`", self.name, name.trim()))
                .hint(format!("members: {}", names.join(", ")))
        })
    }
}

/// Members by offset, with those that share bytes joined; and members without bytes.
fn units(declaration: &Declaration, shape: &Shape) -> (Vec<Unit>, Vec<Declared>) {
    let is_empty = |of: &Declared| of.bit_size == 0 || (of.what == What::Base && has_nothing(of, shape));
    let (empty, mut sorted): (Vec<Declared>, Vec<Declared>) =
        declaration.members.iter().cloned().partition(is_empty);
    sorted.sort_by_key(|of| (of.bit_start, of.end()));
    let mut units: Vec<Unit> = Vec::new();
    for of in sorted {
        let start = of.bit_start / 8;
        match units.last_mut() {
            Some(last) if start < last.end() => {
                let is_bits = matches!(of.what, What::Bits(_));
                match &last.what {
                    // Members of derived classes may be placed in the padding of a base class.
                    UnitKind::Base if last.start < start => {
                        last.bytes = start - last.start;
                        last.step = last.bytes;
                        units.push(unit(of, shape));
                    }
                    UnitKind::Bits(_) if is_bits => last.join_bits(of),
                    _ => last.join(unit(of, shape)),
                }
            }
            _ => units.push(unit(of, shape)),
        }
    }
    (units, empty)
}

/// Whether a base class has no members, and so no bytes.
fn has_nothing(base: &Declared, shape: &Shape) -> bool {
    let (start, end) = (base.bit_start / 8, base.end());
    end - start <= 1 && !shape.fields.iter().any(|field| field.path.starts_with(&base.name))
}

fn unit(of: Declared, shape: &Shape) -> Unit {
    let start = of.bit_start / 8;
    let bytes = of.end() - start;
    let align = of.align.unwrap_or_else(|| alignment(shape, start, of.end())).max(1);
    let mut unit = Unit {
        name: of.shown_name(),
        text: of.text.clone(),
        dimensions: Vec::new(),
        start,
        bytes,
        align,
        type_align: align,
        asked: of.asked,
        step: bytes,
        is_pinned: matches!(of.what, What::Base | What::Virtual),
        what: UnitKind::Plain,
    };
    match of.what {
        What::Bits(_) => {
            unit.align = bytes.next_power_of_two().min(align);
            unit.what = UnitKind::Bits(vec![of]);
            return unit;
        }
        What::Base => unit.what = UnitKind::Base,
        What::Virtual => unit.what = UnitKind::Virtual,
        What::Body(record, members) => unit.what = UnitKind::Body(record, members),
        What::Plain => {}
    }
    let n: u64 = of.dimensions.iter().fold(1, |n, of| n.saturating_mul(*of));
    if !of.dimensions.is_empty() && n > 0 && bytes.is_multiple_of(n) {
        (unit.dimensions, unit.step) = (of.dimensions, bytes / n);
    } else if let Some(step) = step(shape, start, bytes) {
        // Files of types give only the total length of an array.
        (unit.dimensions, unit.step) = (vec![bytes / step], step);
    }
    // A character array is a single field; only its type shows that it is an array.
    let is_text = matches!(unit.text.as_str(), "char" | "signed char" | "unsigned char");
    // Rust's `char` is a four-byte number.
    if is_text && align == 1 && unit.dimensions.is_empty() && bytes > 1 {
        (unit.dimensions, unit.step) = (vec![bytes], 1);
    }
    unit
}

/// Size of an element, if the fields in this range show that they belong to an array.
fn step(shape: &Shape, start: u64, bytes: u64) -> Option<u64> {
    let is_inside = |field: &&Field| start <= field.offset && field.offset < start + bytes;
    let first = shape.fields.iter().find(is_inside)?;
    let own = first.path.split('.').next().filter(|path| path.contains("[]"))?;
    let of_array = shape.fields.iter().filter(is_inside).filter(|field| field.path.starts_with(own));
    let n = of_array.map(|field| field.count).min()?;
    (n > 1 && bytes.is_multiple_of(n)).then(|| bytes / n)
}

/// Alignment required by the fields in a range, derived from their sizes and offsets.
fn alignment(shape: &Shape, start: u64, end: u64) -> u64 {
    let fields = shape.fields.iter().filter(|field| start <= field.offset && field.offset < end);
    let asks = |field: &Field| {
        let natural = match field.kind {
            LeafKind::Array => 1,
            LeafKind::Base(_) | LeafKind::Pointer | LeafKind::Enum | LeafKind::Discriminant => {
                field.size.next_power_of_two().min(16)
            }
            // For any kind of field, the size is a multiple of the alignment.
            _ => 1 << field.size.trailing_zeros().min(3),
        };
        // Packed types require less.
        if field.offset == 0 { natural } else { natural.min(1 << field.offset.trailing_zeros()) }
    };
    fields.map(asks).max().unwrap_or(1)
}

impl Declared {
    /// Name; for an unnamed structure, the names of its members.
    fn shown_name(&self) -> String {
        match &self.what {
            What::Body(_, members) if self.name.is_empty() => {
                let mut name = String::new();
                for member in members {
                    join_names(&mut name, &member.shown_name());
                }
                name
            }
            _ => self.name.clone(),
        }
    }
}

fn join_names(name: &mut String, other: &str) {
    if name.len() + other.len() > MAX_NAME || other.is_empty() {
        return;
    }
    if !name.is_empty() {
        name.push('|');
    }
    name.push_str(other);
}

impl Unit {
    /// Joins another bit field that shares bytes.
    fn join_bits(&mut self, of: Declared) {
        join_names(&mut self.name, &of.name);
        self.bytes = self.bytes.max(of.end() - self.start);
        self.type_align = self.type_align.max(of.align.unwrap_or(1));
        self.align = self.bytes.next_power_of_two().min(self.type_align);
        self.step = self.bytes;
        if let UnitKind::Bits(all) = &mut self.what {
            all.push(of);
        }
    }

    /// Joins an overlapping member: both move together, as bytes.
    fn join(&mut self, of: Unit) {
        join_names(&mut self.name, &of.name);
        self.bytes = self.bytes.max(of.end() - self.start);
        self.align = self.align.max(of.align);
        self.type_align = self.type_align.max(of.type_align);
        self.is_pinned |= of.is_pinned;
        (self.step, self.dimensions, self.what) = (self.bytes, Vec::new(), UnitKind::Plain);
        self.text.clear();
    }
}
