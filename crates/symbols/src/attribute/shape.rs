//! A type as a list of fields, and the look-up of the field at a byte, through any arrays.
//!
//! A field is a member without members of its own, named by its path: `pos.x`, `slots[].key`. All elements of an array are
//! one field, so a type has as many fields as its source declares rather than one for each number. If members overlap, those
//! with exactly the same bytes are one field, `i|f`, since an access does not show which was meant; the same holds for bit
//! fields that share bytes.

use crate::dwarf::types::Place;
use crate::layout::{Cell, LeafKind};
use std::ops::Range;

/// Maximum size of a type that has a table with the field of each byte; in larger types, the field is searched.
const MAX_TABLE: u64 = 1 << 12;
/// In such a table: no field.
const GAP: u16 = u16::MAX;
/// In such a table: more than one field.
const SEVERAL: u16 = u16::MAX - 1;
/// Maximum length of the name of members that were merged into one field.
const MAX_JOINED: usize = 120;

/// A type with its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its qualified name.
    pub name: String,
    /// Bytes from one element of an array to the next; at least 1.
    pub size: u64,
    /// The alignment of an element in bytes.
    pub align: u64,
    /// The place of its declaration.
    pub place: Option<Place>,
    /// Its fields, by offset.
    pub fields: Vec<Field>,
    /// True if it ends with an array of unspecified length, so that all bytes after it belong to that array.
    pub is_open: bool,
    level: Level,
    /// The field of each byte, [`GAP`] or [`SEVERAL`].
    table: Vec<u16>,
    /// The largest size of an access for which, if its first and last byte belong to one field, all bytes do; beyond it,
    /// other fields may lie between two occurrences of a field.
    reach: u64,
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The path to it; empty if the type has no members.
    pub path: String,
    /// The text of its type.
    pub text: String,
    /// Offset of its first occurrence in the type.
    pub offset: u64,
    /// Size in bytes of one occurrence.
    pub size: u64,
    /// Number of occurrences: more than one in an array.
    pub count: u64,
    /// Kind of the field.
    pub kind: LeafKind,
    /// The place of its declaration.
    pub place: Option<Place>,
}

/// One occurrence of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The field, as an index into [`Shape::fields`].
    pub field: u32,
    /// Offset of this occurrence in the type.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
    /// Bytes of a character, if it is a text; else the size of the field.
    pub element: u64,
}

/// The owner of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// A field.
    Field(Found),
    /// No field, up to this offset.
    Gap(u64),
}

/// An item that occurs once, or repeatedly side by side to fill its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Bytes from one occurrence to the next; not 0.
    pub(crate) stride: u64,
    /// Bytes that an instruction accesses at a time: a character of a text, otherwise the whole.
    pub(crate) element: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A field, by number.
    Field(u32),
    /// Several parts.
    Level(Level),
}

/// Parts of an element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    /// Sorted by start.
    parts: Vec<Part>,
    /// True if some of them overlap.
    overlap: bool,
}

/// Collects parts and fields, and builds the shape from them.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) fields: Vec<Field>,
    /// The largest alignment of a field.
    pub(crate) align: u64,
}

impl Parts {
    /// Adds a field at the start of a part; returns its number.
    pub(crate) fn field(&mut self, field: Field) -> u32 {
        self.fields.push(field);
        u32::try_from(self.fields.len() - 1).unwrap_or(u32::MAX)
    }

    /// Combines the parts of one element; those with the same bytes are merged.
    pub(crate) fn level(&mut self, mut parts: Vec<Part>) -> Level {
        parts.sort_by_key(|part| (part.start, part.end));
        let mut joined: Vec<Part> = Vec::with_capacity(parts.len());
        for part in parts {
            let bits = |of: &Part| match of.what {
                What::Field(field) => {
                    self.fields.get(field as usize).is_some_and(|field| field.kind == LeafKind::BitField)
                }
                What::Level(_) => false,
            };
            if let Some(last) = joined.last_mut() {
                let is_same = (last.start, last.end, last.stride) == (part.start, part.end, part.stride);
                let shares = bits(last) && bits(&part) && part.start < last.end;
                if let (What::Field(one), What::Field(other)) = (&last.what, &part.what)
                    && (is_same || shares)
                {
                    let (one, other) = (*one, *other);
                    last.end = last.end.max(part.end);
                    if shares {
                        last.stride = last.end - last.start;
                        last.element = last.stride;
                    }
                    last.element = last.element.min(part.element);
                    let size = last.stride;
                    self.join(one, other, size);
                    continue;
                }
            }
            joined.push(part);
        }
        let overlap = joined.windows(2).any(|two| matches!(two, [one, two] if two.start < one.end));
        Level { parts: joined, overlap }
    }

    /// Adds the name of another field to a field, and sets its size in bytes.
    fn join(&mut self, one: u32, other: u32, size: u64) {
        let (path, text) = match self.fields.get(other as usize) {
            Some(other) => (other.path.clone(), other.text.clone()),
            None => return,
        };
        let Some(field) = self.fields.get_mut(one as usize) else { return };
        // The common path in front of the members' own names is written once.
        let own = match (field.path.rfind(['.', ':']), path.rfind(['.', ':'])) {
            (Some(a), Some(b)) if field.path.get(..a) == path.get(..b) => path.get(b + 1..),
            _ => Some(path.as_str()),
        };
        if field.path.len() < MAX_JOINED {
            field.path = format!("{}|{}", field.path, own.unwrap_or(&path));
        } else if !field.path.ends_with("|…") {
            field.path.push_str("|…");
        }
        if field.text != text && field.text.len() < MAX_JOINED {
            field.text = format!("{}|{text}", field.text);
        }
        field.size = size;
    }

    /// The shape of a type whose elements are `size` bytes apart.
    pub(crate) fn shape(mut self, name: String, size: u64, place: Option<Place>, level: Level) -> Shape {
        // Fields that were merged into others are dropped; the rest is sorted by offset.
        let mut kept = Vec::new();
        level.collect(&mut kept);
        kept.sort_by_key(|field| (self.fields.get(*field as usize).map_or(0, |field| field.offset), *field));
        kept.dedup();
        let mut numbers = vec![0; self.fields.len()];
        for (new, old) in kept.iter().enumerate() {
            if let Some(number) = numbers.get_mut(*old as usize) {
                *number = u32::try_from(new).unwrap_or(u32::MAX);
            }
        }
        let mut fields: Vec<Option<Field>> = std::mem::take(&mut self.fields).into_iter().map(Some).collect();
        let fields =
            kept.iter().filter_map(|old| fields.get_mut(*old as usize).and_then(Option::take)).collect();
        let mut level = level;
        level.renumber(&numbers);
        let mut align = self.align.max(1);
        // Packed types have a smaller alignment than their fields.
        while align > 1 && !size.is_multiple_of(align) {
            align /= 2;
        }
        let is_open = level.parts.iter().any(|part| part.end == u64::MAX);
        let mut shape = Shape {
            name,
            size: size.max(1),
            align,
            place,
            fields,
            is_open,
            level,
            table: Vec::new(),
            reach: u64::MAX,
        };
        shape.make_table();
        shape
    }
}

impl Level {
    fn collect(&self, fields: &mut Vec<u32>) {
        for part in &self.parts {
            match &part.what {
                What::Field(field) => fields.push(*field),
                What::Level(level) => level.collect(fields),
            }
        }
    }

    fn renumber(&mut self, numbers: &[u32]) {
        for part in &mut self.parts {
            match &mut part.what {
                What::Field(field) => *field = numbers.get(*field as usize).copied().unwrap_or(0),
                What::Level(level) => level.renumber(numbers),
            }
        }
    }

    /// The owner of the byte at `offset`, for an access of `size` bytes from there on.
    fn spot(&self, offset: u64, size: u64) -> Spot {
        let behind = self.parts.partition_point(|part| part.start <= offset);
        let next = self.parts.get(behind).map_or(u64::MAX, |part| part.start);
        if !self.overlap {
            let part = behind.checked_sub(1).and_then(|at| self.parts.get(at));
            return match part.filter(|part| offset < part.end) {
                Some(part) => part.spot(offset, size),
                None => Spot::Gap(next),
            };
        }
        let over = self.parts.iter().take(behind).filter(|part| offset < part.end);
        let mut best: Option<(u64, Found)> = None;
        let mut gap = next;
        for part in over {
            match part.spot(offset, size) {
                Spot::Gap(end) => gap = gap.min(end),
                Spot::Field(found) => {
                    let misfit = found.misfit(offset, size);
                    if best.is_none_or(|(other, _)| misfit < other) {
                        best = Some((misfit, found));
                    }
                }
            }
        }
        best.map_or(Spot::Gap(gap), |(_, found)| Spot::Field(found))
    }
}

impl Found {
    /// A measure of how badly a field fits an access: 0 if it, or a character of it, has the same bytes; a field that
    /// contains the access fits better than one that does not, and a small one better than a large one.
    fn misfit(&self, offset: u64, size: u64) -> u64 {
        let is_element = self.element == size && (offset - self.start).is_multiple_of(self.element);
        if is_element || (self.start == offset && self.size == size) {
            return 0;
        }
        let holds =
            self.start <= offset && offset.saturating_add(size) <= self.start.saturating_add(self.size);
        self.size.min(u64::MAX / 2) + if holds { 1 } else { u64::MAX / 2 }
    }
}

impl Part {
    fn spot(&self, offset: u64, size: u64) -> Spot {
        let start = offset - (offset - self.start) % self.stride;
        match &self.what {
            What::Field(field) => {
                Spot::Field(Found { field: *field, start, size: self.stride, element: self.element })
            }
            What::Level(level) => match level.spot(offset - start, size) {
                Spot::Field(found) => Spot::Field(Found { start: found.start + start, ..found }),
                Spot::Gap(end) => Spot::Gap(start.saturating_add(end.min(self.stride))),
            },
        }
    }
}

impl Shape {
    /// A type without members.
    pub fn scalar(name: &str, size: u64, kind: LeafKind) -> Shape {
        let mut parts = Parts { align: size.next_power_of_two().min(16), ..Parts::default() };
        let (path, text) = (String::new(), name.to_owned());
        let field = parts.field(Field { path, text, offset: 0, size, count: 1, kind, place: None });
        let stride = size.max(1);
        let what = What::Field(field);
        let level = parts.level(vec![Part { start: 0, end: size, stride, element: stride, what }]);
        parts.shape(name.to_owned(), size, None, level)
    }

    /// The owner of the byte at `offset` of an element. Among overlapping fields, it is the best fit for an access of `size`
    /// bytes that begins there: the one with the same bytes, or a character of a text, else the smallest that contains it,
    /// else the smallest.
    pub fn spot(&self, offset: u64, size: u64) -> Spot {
        self.level.spot(offset, size)
    }

    /// The field that has all of these bytes of an element, if the table shows it; otherwise use [`Shape::spot`].
    #[inline]
    pub fn whole(&self, offset: u64, size: u64) -> Option<u32> {
        let first = self.table.get(offset as usize)?; // Shorter than any address.
        let last = self.table.get((offset + size.max(1) - 1) as usize)?;
        (first == last && *first < SEVERAL && size <= self.reach).then(|| u32::from(*first))
    }

    /// For each byte of an element, the only field that has it, and the number of bytes from there on that only this field
    /// has; 0 bytes where the table does not show that. Empty for types that are too large.
    pub fn runs(&self) -> impl Iterator<Item = (u16, u16)> {
        self.table.chunk_by(|a, b| a == b).flat_map(|run| {
            let field = run.first().copied().filter(|field| *field < SEVERAL);
            let n_bytes = u16::try_from(run.len()).unwrap_or(0); // Tables are shorter.
            (0..n_bytes).map(move |at| field.map_or((0, 0), |field| (field, n_bytes - at)))
        })
    }

    /// Calls `each` for everything that an access touches, field by field and gap by gap, with the bytes touched. Of
    /// overlapping fields one is chosen as in [`Shape::spot`]; elements of an array are passed one by one.
    pub fn touched(&self, bytes: Range<u64>, each: &mut dyn FnMut(Spot, Range<u64>)) {
        let mut at = bytes.start;
        while at < bytes.end {
            let spot = self.spot(at, bytes.end - at);
            let end = match spot {
                Spot::Field(found) => found.start.saturating_add(found.size),
                Spot::Gap(end) => end,
            };
            let end = end.clamp(at + 1, bytes.end);
            each(spot, at..end);
            at = end;
        }
    }

    /// The content of a byte in a picture.
    pub fn cell(&self, offset: u64) -> Cell {
        match self.spot(offset, 1) {
            _ if offset >= self.size => Cell::Outside,
            Spot::Field(found) => Cell::Leaf(found.field),
            Spot::Gap(end) if end >= self.size => Cell::Padding,
            Spot::Gap(_) => Cell::Hole,
        }
    }

    /// Number of bytes of an element that no field has.
    pub fn unused(&self) -> u64 {
        let mut unused = 0;
        self.touched(0..self.size.min(1 << 24), &mut |spot, bytes| {
            unused += if matches!(spot, Spot::Gap(_)) { bytes.end - bytes.start } else { 0 };
        });
        unused
    }

    fn make_table(&mut self) {
        if self.size > MAX_TABLE || self.fields.len() >= usize::from(SEVERAL) {
            return;
        }
        let byte = |at: u64| {
            let mut fields = Vec::new();
            self.level.all_at(at, &mut fields);
            match fields[..] {
                [] => GAP,
                [field] => u16::try_from(field).unwrap_or(SEVERAL),
                _ => SEVERAL,
            }
        };
        self.table = (0..self.size).map(byte).collect();
        let mut ends: Vec<Option<u64>> = vec![None; self.fields.len()];
        let mut at = 0;
        for run in self.table.chunk_by(|a, b| a == b) {
            let end = at + run.len() as u64;
            if let Some(before) = ends.get_mut(usize::from(run[0])) {
                self.reach = self.reach.min(before.map_or(u64::MAX, |before| at - before + 1));
                *before = Some(end);
            }
            at = end;
        }
    }
}

impl Level {
    /// Adds every field that has the byte at `offset`.
    fn all_at(&self, offset: u64, fields: &mut Vec<u32>) {
        for part in self.parts.iter().filter(|part| part.start <= offset && offset < part.end) {
            match &part.what {
                What::Field(field) => fields.push(*field),
                What::Level(level) => level.all_at((offset - part.start) % part.stride, fields),
            }
        }
    }
}
