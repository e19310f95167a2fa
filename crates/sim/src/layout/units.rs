//! The members of a type as what a layout moves: each as a whole, with its bytes, its alignment and how its type is written.

use super::source::{Declaration, Declared, Record, What};
use super::text::Language;
use quipu_model::{Error, Result};
use quipu_symbols::attribute::{Field, Shape};
use quipu_symbols::layout::LeafKind;

/// The largest type whose layout is looked at.
pub(super) const MAX_TYPE_BYTES: u64 = 1 << 20;
/// Members of one type at most.
const MAX_UNITS: usize = 4096;
/// The longest name of what has several.
const MAX_NAME: usize = 120;

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Its name; of members that lie over each other, all of them.
    pub(super) name: String,
    /// How its type is written, as far as anybody knows; the name of an array is followed by its dimensions.
    pub(super) text: String,
    /// Elements, if it is an array, in each dimension.
    pub(super) dimensions: Vec<u64>,
    /// Bytes of the type before it.
    pub(super) start: u64,
    /// Its bytes.
    pub(super) bytes: u64,
    /// What its address has to be a multiple of.
    pub(super) align: u64,
    /// The alignment that it gives to what it is in: of bit fields, that of their type.
    pub(super) type_align: u64,
    /// The alignment that was asked for.
    pub(super) asked: Option<u64>,
    /// Bytes of an element if it is an array, else all of them.
    pub(super) step: u64,
    /// True if it cannot be moved: a base class, the pointer to virtual functions.
    pub(super) is_pinned: bool,
    /// What it consists of, if it is more than a name and a type.
    pub(super) what: UnitKind,
}

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UnitKind {
    Plain,
    /// A base class.
    Base,
    /// The pointer to virtual functions.
    Virtual,
    /// Bit fields that share bytes; where they begin counts from the type's beginning.
    Bits(Vec<Declared>),
    /// A structure or union without a name of its own.
    Body(Record, Vec<Declared>),
}

impl Unit {
    /// The byte after it.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes
    }

    /// How many elements it has.
    pub(super) fn n(&self) -> u64 {
        self.bytes / self.step.max(1)
    }
}

/// A type as its members, by offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Members {
    pub(super) name: String,
    pub(super) size: u64,
    /// What the address of an element is a multiple of.
    pub(super) align: u64,
    /// The alignment that was asked for, or 1: layouts keep it.
    pub(super) asked: u64,
    pub(super) units: Vec<Unit>,
    /// Members without bytes, which are anywhere.
    pub(super) empty: Vec<Declared>,
    pub(super) record: Record,
    /// True if it has another name only.
    pub(super) is_unnamed: bool,
    /// What it is written in.
    pub(super) language: Language,
    /// The member that has each byte; that before it, or the first, for holes.
    unit_at: Vec<u16>,
}

impl Members {
    /// The members of a type, as they are declared.
    ///
    /// # Errors
    /// `Unsupported` for a type without members, one whose members cannot be moved or lie at unknown places, one that ends
    /// with an array of any length, and one that is too large.
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
        let mut unit_at = Vec::with_capacity(shape.size as usize); // At most the limit.
        let mut at = 0;
        for byte in 0..shape.size {
            while units.get(at + 1).is_some_and(|next: &Unit| next.start <= byte) {
                at += 1;
            }
            unit_at.push(at as u16); // At most the limit.
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

    /// The member at an offset below the size, and whether it has that byte; else it is the one before the hole.
    #[inline]
    pub(super) fn at(&self, offset: u64) -> Option<(usize, bool)> {
        let unit = usize::from(*self.unit_at.get(offset as usize)?); // Below the size.
        let of = self.units.get(unit)?;
        Some((unit, of.start <= offset && offset < of.end()))
    }

    /// The member of a name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let name = name.trim();
        self.units.iter().position(|unit| unit.name == name || unit.name.split('|').any(|part| part == name))
    }

    /// The member of a name.
    ///
    /// # Errors
    /// `Usage` if there is none, with those that there are.
    pub(super) fn named(&self, name: &str) -> Result<usize> {
        self.find(name).ok_or_else(|| {
            let names: Vec<&str> = self.units.iter().map(|unit| unit.name.as_str()).collect();
            Error::usage(format!("`{}` has no member `{}`", self.name, name.trim()))
                .hint(format!("members: {}", names.join(", ")))
        })
    }
}

/// Members by offset, those that share bytes as one; and those that have none.
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
                    // Members of derived classes may lie in the padding after a base class.
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

/// True of a base class that has no members, and so no bytes.
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
        // Files of types tell of arrays only how long they are.
        (unit.dimensions, unit.step) = (vec![bytes / step], step);
    }
    // A text of characters is one field; only its type says that it is an array.
    let is_text = matches!(unit.text.as_str(), "char" | "signed char" | "unsigned char");
    // Rust's `char` is a number of four bytes.
    if is_text && align == 1 && unit.dimensions.is_empty() && bytes > 1 {
        (unit.dimensions, unit.step) = (vec![bytes], 1);
    }
    unit
}

/// Bytes of an element, where the fields between tell that they are of an array.
fn step(shape: &Shape, start: u64, bytes: u64) -> Option<u64> {
    let is_inside = |field: &&Field| start <= field.offset && field.offset < start + bytes;
    let first = shape.fields.iter().find(is_inside)?;
    let own = first.path.split('.').next().filter(|path| path.contains("[]"))?;
    let of_array = shape.fields.iter().filter(is_inside).filter(|field| field.path.starts_with(own));
    let n = of_array.map(|field| field.count).min()?;
    (n > 1 && bytes.is_multiple_of(n)).then(|| bytes / n)
}

/// The alignment that the fields between ask for, as their sizes and places tell.
fn alignment(shape: &Shape, start: u64, end: u64) -> u64 {
    let fields = shape.fields.iter().filter(|field| start <= field.offset && field.offset < end);
    let asks = |field: &Field| {
        let natural = match field.kind {
            LeafKind::Array => 1,
            LeafKind::Base(_) | LeafKind::Pointer | LeafKind::Enum | LeafKind::Discriminant => {
                field.size.next_power_of_two().min(16)
            }
            // Whatever it is, its size is a multiple of it.
            _ => 1 << field.size.trailing_zeros().min(3),
        };
        // Packed types ask for less.
        if field.offset == 0 { natural } else { natural.min(1 << field.offset.trailing_zeros()) }
    };
    fields.map(asks).max().unwrap_or(1)
}

impl Declared {
    /// Its name; of what has none, the names of its members.
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
    /// Takes in another bit field of the same bytes.
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

    /// Takes in what lies over it: both move together, as bytes.
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
