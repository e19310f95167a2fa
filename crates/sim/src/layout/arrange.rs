//! Layouts: the place of each member of a type, in one structure or in several arrays.

use super::units::{Members, Unit};
use quipu_model::{Error, Result};
use quipu_symbols::remap::StructRemap;

/// Places of the members of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrangement {
    /// Description of the change, for people.
    pub(super) what: String,
    /// Structures or columns; the elements of each form an array.
    pub(super) parts: Vec<Part>,
    /// The place of each member, in the order of [`Members::units`].
    pub(super) places: Vec<Place>,
    /// How the parts are declared, and whether the memory of a single element changes too.
    pub(super) form: Form,
}

/// How the parts of an arrangement are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One structure.
    Struct,
    /// Two structures; the second is the cold one.
    Split,
    /// One array per member.
    Arrays,
    /// Members that are arrays become one array of structures inside the structure.
    Inside,
}

/// A structure or a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Bytes from one element to the next.
    pub(super) stride: u64,
    /// Alignment of the first element.
    pub(super) align: u64,
}

/// Place of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index of the part.
    pub(super) part: usize,
    /// Offset within an element, in bytes.
    pub(super) offset: u64,
    /// Bytes from one element of an array to the next.
    pub(super) step: u64,
}

/// Free space after a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// This many bytes.
    Bytes(u64),
    /// Up to the end of its line.
    Line,
}

/// Bytes of a pointer to the cold part.
pub(super) const LINK_BYTES: u64 = 8;

/// Padding and alignment requested in addition to an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Members, by index, with the gap after each.
    pub(super) gaps: Vec<(usize, Gap)>,
    /// Whether elements share no lines.
    pub(super) whole_lines: bool,
    /// Alignment of each element.
    pub(super) align: u64,
}

impl Arrangement {
    /// The current layout.
    pub(super) fn same(members: &Members) -> Arrangement {
        let place = |unit: &Unit| Place { part: 0, offset: unit.start, step: unit.step };
        Arrangement {
            what: "as it is".to_owned(),
            parts: vec![Part { stride: members.size, align: members.align }],
            places: members.units.iter().map(place).collect(),
            form: Form::Struct,
        }
    }

    /// Places members in this order, each at the first offset that its alignment and `room` allow.
    pub(super) fn ordered(
        members: &Members,
        order: &[usize],
        room: &Room,
        line: u64,
        what: String,
    ) -> Arrangement {
        let mut places = vec![Place { part: 0, offset: 0, step: 0 }; members.units.len()];
        let part = lay(members, order, &room.with(members), line, 0, &mut places, 0);
        Arrangement { what, parts: vec![part], places, form: Form::Struct }
    }

    /// Keeps the current order and inserts `room` after members and at the end.
    pub(super) fn widened(members: &Members, room: &Room, line: u64, what: String) -> Arrangement {
        let mut moved = 0;
        let mut align = members.align;
        let mut places = Vec::with_capacity(members.units.len());
        for (at, unit) in members.units.iter().enumerate() {
            // Keeps the alignment of each offset: aligned ones stay aligned, others keep their remainder.
            moved = u64::next_multiple_of(moved, unit.align);
            let offset = unit.start + moved;
            places.push(Place { part: 0, offset, step: unit.step });
            for (_, gap) in room.gaps.iter().filter(|(behind, _)| *behind == at) {
                let next = members.units.get(at + 1).map_or(members.size, |next| next.start) + moved;
                let n = match gap {
                    Gap::Bytes(n) => *n,
                    // The next member begins a line.
                    Gap::Line => {
                        align = align.max(line);
                        next.next_multiple_of(line) - next
                    }
                };
                moved += n;
            }
        }
        let part = room.part(members.size + moved, align, line);
        Arrangement { what, parts: vec![part], places, form: Form::Struct }
    }

    /// Places members at the offsets of a remap file; members that it does not name keep theirs.
    ///
    /// # Errors
    /// `Usage` if a name is not a member, an offset is negative, or two members overlap.
    pub(super) fn remapped(
        members: &Members,
        remap: &StructRemap,
        room: &Room,
        line: u64,
    ) -> Result<Arrangement> {
        let mut places = Arrangement::same(members).places;
        for (name, offset) in &remap.members {
            let unit = members.named(name)?;
            let offset = u64::try_from(*offset).map_err(|_| {
                Error::usage(format!("the remap puts `{name}` before the structure, at `{offset}`"))
            })?;
            places[unit].offset = offset;
        }
        let mut by_offset: Vec<usize> = (0..places.len()).collect();
        by_offset.sort_by_key(|at| places[*at].offset);
        let end_of = |at: usize| places[at].offset.saturating_add(members.units[at].bytes);
        for two in by_offset.windows(2) {
            let [one, other] = [two[0], two[1]];
            if end_of(one) > places[other].offset {
                let [one, other] = [one, other].map(|at| members.units[at].name.clone());
                return Err(Error::usage(format!("the remap puts `{one}` and `{other}` over each other")));
            }
        }
        let end = by_offset.last().map_or(0, |last| end_of(*last));
        let part = room.part(end, members.align, line);
        let what = "members where the remap file puts them".to_owned();
        Ok(Arrangement { what, parts: vec![part], places, form: Form::Struct })
    }

    /// Two structures: the hot members, and all others.
    pub(super) fn split(members: &Members, hot: &[usize], room: &Room, line: u64) -> Arrangement {
        let cold: Vec<usize> = (0..members.units.len()).filter(|unit| !hot.contains(unit)).collect();
        let mut places = vec![Place { part: 0, offset: 0, step: 0 }; members.units.len()];
        let parts = vec![
            lay(members, hot, &room.with(members), line, 0, &mut places, 0),
            lay(members, &cold, &Room::default(), line, 1, &mut places, 0),
        ];
        let names: Vec<&str> = hot.iter().map(|unit| members.units[*unit].name.as_str()).collect();
        let what = format!("hot apart: {}", names.join(", "));
        Arrangement { what, parts, places, form: Form::Split }
    }

    /// One array per member.
    pub(super) fn arrays(members: &Members) -> Arrangement {
        let part = |unit: &Unit| Part { stride: unit.bytes, align: unit.align };
        let place = |(part, unit): (usize, &Unit)| Place { part, offset: 0, step: unit.step };
        Arrangement {
            what: "an array each".to_owned(),
            parts: members.units.iter().map(part).collect(),
            places: members.units.iter().enumerate().map(place).collect(),
            form: Form::Arrays,
        }
    }

    /// Interleaves the members that are arrays of the most common length: one array of structures.
    ///
    /// # Errors
    /// `Unsupported` if there are fewer than two such members.
    pub(super) fn inside(members: &Members) -> Result<Arrangement> {
        let mut lengths: Vec<u64> = members.units.iter().map(Unit::n).filter(|n| *n > 1).collect();
        lengths.sort_unstable();
        let often = |n: &u64| lengths.iter().filter(|other| *other == n).count();
        let n = lengths.iter().copied().max_by_key(|n| (often(n), *n));
        let Some(n) = n.filter(|n| often(n) > 1) else {
            return Err(Error::unsupported(format!(
                "`{}` has no two members that are arrays of one length",
                members.name
            )));
        };
        // The structure of one element, then everything else.
        let inner: Vec<usize> = (0..members.units.len()).filter(|at| members.units[*at].n() == n).collect();
        let mut places = vec![Place { part: 0, offset: 0, step: 0 }; members.units.len()];
        let (mut at, mut align) = (0u64, 1);
        for unit in &inner {
            let of = &members.units[*unit];
            let of_element = of.align.min(1 << of.step.trailing_zeros());
            at = at.next_multiple_of(of_element);
            places[*unit].offset = at;
            at += of.step;
            align = align.max(of_element);
        }
        let stride = at.next_multiple_of(align);
        inner.iter().for_each(|unit| places[*unit].step = stride);
        let rest: Vec<usize> = (0..members.units.len()).filter(|unit| !inner.contains(unit)).collect();
        let part = lay(members, &rest, &Room::default().with(members), 64, 0, &mut places, stride * n);
        let what = format!("an array of `{n}` structures inside");
        let part = Part { align: part.align.max(align), ..part };
        let part = Part { stride: part.stride.next_multiple_of(part.align), ..part };
        Ok(Arrangement { what, parts: vec![part], places, form: Form::Inside })
    }

    /// Bytes per element in all parts together.
    pub(super) fn size(&self) -> u64 {
        self.parts.iter().map(|part| part.stride).sum()
    }
}

impl Room {
    /// Whether no room was requested.
    pub(super) fn is_none(&self) -> bool {
        *self == Room::default()
    }

    /// Description of the request, for people.
    pub(super) fn told(&self, members: &Members) -> String {
        let gaps = self.gaps.iter().map(|(unit, gap)| {
            let name = members.units.get(*unit).map_or("", |unit| unit.name.as_str());
            match gap {
                Gap::Bytes(1) => format!("1 byte after {name}"),
                Gap::Bytes(n) => format!("{n} bytes after {name}"),
                Gap::Line => format!("a new line after {name}"),
            }
        });
        let mut told: Vec<String> = gaps.collect();
        if self.whole_lines {
            told.push("lines of its own for each element".to_owned());
        }
        if self.align > 1 {
            told.push(format!("aligned to {}", self.align));
        }
        told.join(", ")
    }

    /// This room, with the alignment that the type declares for itself.
    fn with(&self, members: &Members) -> Room {
        Room { align: self.align.max(members.asked), ..self.clone() }
    }

    /// The part for a structure whose members end at `end`.
    fn part(&self, end: u64, align: u64, line: u64) -> Part {
        let align = align.max(self.align).max(if self.whole_lines { line } else { 1 });
        Part { stride: end.max(1).next_multiple_of(align), align }
    }
}

/// Places members one after the other from `start` on.
fn lay(
    members: &Members,
    order: &[usize],
    room: &Room,
    line: u64,
    part: usize,
    places: &mut [Place],
    start: u64,
) -> Part {
    let (mut at, mut align) = (start, 1);
    for unit in order {
        let of = &members.units[*unit];
        at = at.next_multiple_of(of.align);
        places[*unit] = Place { part, offset: at, step: of.step };
        at += of.bytes;
        align = align.max(of.type_align);
        for (_, gap) in room.gaps.iter().filter(|(behind, _)| behind == unit) {
            match gap {
                Gap::Bytes(n) => at += n,
                Gap::Line => {
                    at = at.next_multiple_of(line);
                    align = align.max(line);
                }
            }
        }
    }
    room.part(at, align, line)
}
