//! The members of a type as what a layout moves: each as a whole, with its bytes, its alignment and how its type is written.

use super::source::Declared;
use quipu_model::{Error, Result};
use quipu_symbols::attribute::{Shape, Spot};
use quipu_symbols::layout::LeafKind;
use std::collections::BTreeMap;

/// The largest type whose layout is looked at.
pub(super) const MAX_TYPE_BYTES: u64 = 1 << 20;
/// Members of one type at most.
const MAX_UNITS: usize = 4096;

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
    /// What its address is a multiple of.
    pub(super) align: u64,
    /// Bytes of an element if it is an array, else all of them.
    pub(super) step: u64,
    /// True if it cannot be moved: a base class, the pointer to virtual functions.
    pub(super) is_pinned: bool,
}

impl Unit {
    /// The byte behind it.
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
    pub(super) align: u64,
    pub(super) units: Vec<Unit>,
    /// The member that has each byte; that before it, or the first, for holes.
    unit_at: Vec<u16>,
}

/// What is known of a member on the way.
#[derive(Clone, Copy, Debug)]
struct Extent {
    start: u64,
    end: u64,
    align: u64,
    n: u64,
    is_array: bool,
}

impl Members {
    /// The members of a type; what is `declared` says how their types are written.
    ///
    /// # Errors
    /// `Unsupported` for a type without members, one that ends with an array of any length, and one that is too large.
    pub(super) fn of(shape: &Shape, declared: &[Declared]) -> Result<Members> {
        let refuse =
            |why: &str| Error::unsupported(format!("the layout of `{}` cannot change: {why}", shape.name));
        if shape.size > MAX_TYPE_BYTES {
            return Err(refuse("it is too large"));
        }
        if shape.is_open {
            return Err(refuse("it ends with an array of any length"));
        }
        let mut extents: BTreeMap<&str, Extent> = BTreeMap::new();
        for field in &shape.fields {
            let Some((name, rest)) = head(&field.path) else {
                return Err(refuse("it has no members"));
            };
            let is_array = rest.starts_with("[]");
            let one = Extent {
                start: field.offset,
                end: field.offset + field.size,
                align: alignment(field.kind, field.size, field.offset),
                n: if is_array { field.count } else { 1 },
                is_array,
            };
            extents.entry(name).and_modify(|of| of.add(one)).or_insert(one);
        }
        // Where arrays end, only the bytes tell.
        shape.touched(0..shape.size, &mut |spot, bytes| {
            let Spot::Field(found) = spot else { return };
            let Some(field) = shape.fields.get(found.field as usize) else { return };
            if let Some(of) = head(&field.path).and_then(|(name, _)| extents.get_mut(name)) {
                of.start = of.start.min(bytes.start);
                of.end = of.end.max(bytes.end);
            }
        });
        let mut units: Vec<Unit> = Vec::new();
        let mut sorted: Vec<(&str, Extent)> = extents.into_iter().collect();
        sorted.sort_by_key(|(name, of)| (of.start, of.end, *name));
        for (name, of) in sorted {
            match units.last_mut() {
                // Members of a union, and what shares bytes, move together.
                Some(last) if of.start < last.end() => {
                    last.name = format!("{}|{name}", last.name);
                    last.bytes = last.bytes.max(of.end - last.start);
                    last.align = last.align.max(of.align);
                    (last.step, last.dimensions) = (last.bytes, Vec::new());
                }
                _ => units.push(unit(name, of)),
            }
        }
        if units.len() > MAX_UNITS {
            return Err(refuse("it has too many members"));
        }
        for unit in &mut units {
            unit.describe(declared);
        }
        let mut unit_at = Vec::with_capacity(shape.size as usize); // At most the limit.
        let mut at = 0;
        for byte in 0..shape.size {
            while units.get(at + 1).is_some_and(|next: &Unit| next.start <= byte) {
                at += 1;
            }
            unit_at.push(at as u16); // At most the limit.
        }
        Ok(Members { name: shape.name.clone(), size: shape.size, align: shape.align, units, unit_at })
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

impl Extent {
    fn add(&mut self, other: Extent) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.align = self.align.max(other.align);
        // A field of an element's own array is there more often than elements are.
        self.n = self.n.min(other.n);
        self.is_array &= other.is_array;
    }
}

/// The first step of the way to a field, and the rest of the way; `None` if there is none.
fn head(path: &str) -> Option<(&str, &str)> {
    let end = path.find("::").map(|at| at + 2).filter(|at| !path[..*at].contains(['.', '[', '|']));
    let end = end.unwrap_or_else(|| path.find(['.', '[']).unwrap_or(path.len()));
    (!path.is_empty()).then(|| path.split_at(end))
}

/// The alignment that a field asks for, as its size and its place tell.
fn alignment(kind: LeafKind, size: u64, offset: u64) -> u64 {
    let natural = match kind {
        LeafKind::Array => 1,
        LeafKind::Base(_) | LeafKind::Pointer | LeafKind::Enum | LeafKind::Discriminant => {
            size.next_power_of_two().min(16)
        }
        _ => 8,
    };
    // Packed types ask for less.
    if offset == 0 { natural } else { natural.min(1 << offset.trailing_zeros()) }
}

fn unit(name: &str, of: Extent) -> Unit {
    let bytes = of.end - of.start;
    let step = if of.is_array && of.n > 1 && bytes.is_multiple_of(of.n) { bytes / of.n } else { bytes };
    Unit {
        name: name.to_owned(),
        text: String::new(),
        dimensions: if step < bytes { vec![bytes / step] } else { Vec::new() },
        start: of.start,
        bytes,
        align: of.align,
        step,
        is_pinned: name.ends_with("::") || name.starts_with("_vptr"),
    }
}

impl Unit {
    /// Takes over how its type is written.
    fn describe(&mut self, declared: &[Declared]) {
        let Some(known) = declared.iter().find(|known| known.name == self.name) else { return };
        self.text.clone_from(&known.text);
        let n: u64 = known.dimensions.iter().fold(1, |n, of| n.saturating_mul(*of));
        if !known.dimensions.is_empty() && n > 0 && self.bytes.is_multiple_of(n) {
            self.dimensions.clone_from(&known.dimensions);
            self.step = self.bytes / n;
        }
        // A text of characters is one field, of which only the type tells that it is an array.
        let is_text = matches!(self.text.as_str(), "char" | "signed char" | "unsigned char");
        if is_text && self.dimensions.is_empty() && self.bytes > 1 {
            (self.dimensions, self.step) = (vec![self.bytes], 1);
        }
    }
}
