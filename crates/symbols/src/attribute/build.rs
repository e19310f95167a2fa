//! Builds shapes from debug information.

use super::shape::{Field, Part, Parts, Shape, What};
use crate::dwarf::read::Reading;
use crate::dwarf::types::{Encoding, Kind};
use crate::dwarf::{DebugInfo, MAX_DEPTH, Type, TypeId};
use crate::layout::{LeafKind, Piece, member_piece};
use std::collections::HashMap;
use std::rc::Rc;

/// Maximum number of fields of one type; the rest is kept as one field.
const MAX_FIELDS: usize = 1 << 14;
/// Maximum number of members visited for one type, however few fields they have.
const MAX_VISITS: usize = 1 << 18;
/// Maximum length of the path to a field.
const MAX_PATH: usize = 1024;

/// The shape of a type, and the number of its elements: one, unless it is an array. `None` if its size is unknown.
pub(crate) fn shape_of(info: &DebugInfo, id: TypeId) -> Option<(Shape, u64)> {
    let view = info.view();
    let info = Reading::new(info, &view);
    let mut id = info.behind_names(id);
    let mut n = 1_u64;
    // An array of arrays has the elements of the innermost arrays.
    for _ in 0..MAX_DEPTH {
        let ty = info.defined(id).ok()?;
        let Kind::Array { element: Some(element), counts } = &ty.kind else { break };
        n = counts.iter().try_fold(n, |n, count| n.checked_mul((*count)?))?;
        id = info.behind_names(*element);
    }
    let ty = info.defined(id).ok()?;
    let size = ty.size?;
    let mut building = Building { info, types: HashMap::new(), parts: Parts::default(), n_visits: 0 };
    let mut list = Vec::new();
    let whole = Piece {
        path: String::new(),
        text: ty.path.clone(),
        ty: Some(ty.id),
        bit_offset: 0,
        bit_size: size.saturating_mul(8),
        forced: None,
        is_base: false,
        place: ty.place.clone(),
    };
    building.visit(whole, &mut list, Outer { offset: 0, count: 1 }, 0);
    let Building { mut parts, .. } = building;
    let level = parts.level(list);
    let mut shape = parts.shape(info.info.shown_name(&ty), size, ty.place.clone(), level);
    shape.align = info.info.alignment_of(ty.id).bytes;
    Some((shape, n))
}

/// Offset of the first element of the enclosing arrays, and the number of elements.
#[derive(Clone, Copy)]
struct Outer {
    offset: u64,
    count: u64,
}

struct Building<'b, 'a> {
    info: Reading<'b, 'a>,
    types: HashMap<TypeId, Option<Rc<Type>>>,
    parts: Parts,
    n_visits: usize,
}

impl Building<'_, '_> {
    fn read(&mut self, id: TypeId) -> Option<Rc<Type>> {
        let info = self.info;
        self.types.entry(id).or_insert_with(|| info.defined(id).ok().map(Rc::new)).clone()
    }

    fn visit(&mut self, piece: Piece, list: &mut Vec<Part>, outer: Outer, depth: usize) {
        self.n_visits += 1;
        if self.n_visits > MAX_VISITS {
            return;
        }
        if let Some(kind) = piece.forced {
            return self.leaf(piece, list, outer, kind);
        }
        let Some(ty) = piece.ty.and_then(|id| self.read(self.info.behind_names(id))) else {
            return self.leaf(piece, list, outer, LeafKind::Other);
        };
        let is_full =
            self.parts.fields.len() >= MAX_FIELDS || depth >= MAX_DEPTH || piece.path.len() > MAX_PATH;
        match &ty.kind {
            Kind::Struct | Kind::Class | Kind::Union | Kind::Variants => {
                if is_full || ty.is_declaration || (ty.size.is_none() && ty.members.is_empty()) {
                    return self.leaf(piece, list, outer, LeafKind::Record);
                }
                self.parts.align = self.parts.align.max(ty.align.unwrap_or(1));
                let virtual_bases = if piece.is_base { Vec::new() } else { self.info.virtual_bases(&ty) };
                for member in ty.members.iter().chain(&virtual_bases) {
                    if let Some(part) = member_piece(&piece, member) {
                        self.visit(part, list, outer, depth + 1);
                    }
                }
            }
            Kind::Array { element, counts } if !is_full => {
                self.array(piece, *element, counts, list, outer, depth)
            }
            Kind::Array { .. } => self.leaf(piece, list, outer, LeafKind::Array),
            Kind::Pointer(_) => self.leaf(piece, list, outer, LeafKind::Pointer),
            Kind::Enum(_) => self.leaf(piece, list, outer, LeafKind::Enum),
            Kind::Base(encoding) => self.leaf(piece, list, outer, LeafKind::Base(*encoding)),
            _ => self.leaf(piece, list, outer, LeafKind::Other),
        }
    }

    fn array(
        &mut self,
        piece: Piece,
        element: Option<TypeId>,
        counts: &[Option<u64>],
        list: &mut Vec<Part>,
        outer: Outer,
        depth: usize,
    ) {
        let inner = element.and_then(|id| self.read(self.info.behind_names(id)));
        let Some(inner) = inner else { return self.leaf(piece, list, outer, LeafKind::Array) };
        let Some(size) = inner.size.filter(|size| *size > 0) else { return };
        // Arrays without a length have no elements or any number; the size of the region decides.
        let n = counts.iter().try_fold(1_u64, |n, count| n.checked_mul((*count)?)).filter(|n| *n > 0);
        let is_text = matches!(inner.kind, Kind::Base(Encoding::Char)) && inner.size == Some(1);
        if is_text && n.is_some() {
            self.leaf(piece, list, outer, LeafKind::Array);
            list.iter_mut().last().into_iter().for_each(|part| part.element = 1);
            return;
        }
        let start = piece.bit_offset / 8;
        let end = n.map_or(u64::MAX, |n| start.saturating_add(n.saturating_mul(size)));
        let path = format!("{}{}", piece.path, "[]".repeat(counts.len().max(1)));
        let text = element.map(|id| self.info.text(id)).unwrap_or_default();
        let element = Piece {
            path,
            text,
            ty: element,
            bit_offset: 0,
            bit_size: size.saturating_mul(8),
            forced: None,
            is_base: false,
            place: piece.place,
        };
        let mut parts = Vec::new();
        let outer = Outer { offset: outer.offset + start, count: outer.count.saturating_mul(n.unwrap_or(1)) };
        self.visit(element, &mut parts, outer, depth + 1);
        let (element, what) = match <[Part; 1]>::try_from(parts) {
            Ok([Part { start: 0, end, element, what: What::Field(field), .. }]) if end == size => {
                (element, What::Field(field))
            }
            Ok(parts) => (size, What::Level(self.parts.level(parts.into()))),
            Err(parts) => (size, What::Level(self.parts.level(parts))),
        };
        list.push(Part { start, end, stride: size, element, what });
    }

    fn leaf(&mut self, piece: Piece, list: &mut Vec<Part>, outer: Outer, kind: LeafKind) {
        let (start, in_byte) = (piece.bit_offset / 8, piece.bit_offset % 8);
        let size = in_byte.saturating_add(piece.bit_size).div_ceil(8);
        if size == 0 {
            return;
        }
        if matches!(kind, LeafKind::Base(_) | LeafKind::Pointer | LeafKind::Enum | LeafKind::Discriminant) {
            self.parts.align = self.parts.align.max(size.next_power_of_two().min(16));
        }
        let field = self.parts.field(Field {
            path: piece.path,
            text: piece.text,
            offset: outer.offset.saturating_add(start),
            size,
            count: outer.count,
            kind,
            place: piece.place,
        });
        let (end, what) = (start.saturating_add(size), What::Field(field));
        list.push(Part { start, end, stride: size, element: size, what });
    }
}
