//! The leaves of a type, byte by byte: the content of a picture of it, and the members that an access touches.
//!
//! A [`Flat`] has the members of a type down to those without members of their own, with paths: `pos.x`, `a[2].b`. Members
//! of anonymous structures have no step in the path, base classes one of the form `Base::`. Long arrays, and arrays of
//! characters, stay one leaf. Members of unions and variants overlap.

use crate::dwarf::read::Reading;
use crate::dwarf::types::{Encoding, Hole, Kind, Member, MemberKind, Place, gaps};
use crate::dwarf::{DebugError, DebugInfo, MAX_DEPTH, Type, TypeId};
use std::collections::HashMap;
use std::rc::Rc;

/// Limits of expanding a type into leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of leaves from which on members are not expanded.
    pub leaves: usize,
    /// Arrays with more elements (of all dimensions) are not expanded.
    pub elements: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { leaves: 4096, elements: 16 }
    }
}

/// Maximum number of members visited for one type, however many leaves they have: a bound for types constructed to have
/// none.
const MAX_VISITS: usize = 1 << 20;
/// Maximum length of a leaf's path.
const MAX_PATH: usize = 1024;
/// Maximum number of bytes that are drawn.
const MAX_DRAWN: u64 = 1 << 20;

/// A type with its leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flat {
    /// Its qualified name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The leaves by offset; those at one offset in the order of the source.
    pub leaves: Vec<Leaf>,
    /// Bits that belong to no leaf.
    pub holes: Vec<Hole>,
    /// The place of its declaration.
    pub place: Option<Place>,
    /// True if limits kept something from being expanded.
    pub is_cut: bool,
}

/// A member that is not expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The path to it.
    pub path: String,
    /// The text of its type.
    pub text: String,
    /// Offset of the first byte that contains one of its bits.
    pub offset: u64,
    /// Number of bytes that contain its bits.
    pub size: u64,
    /// For a bit field, the first bit in its first byte, and the number of bits.
    pub bits: Option<(u8, u64)>,
    /// Kind of the leaf.
    pub kind: LeafKind,
    /// The place of its declaration.
    pub place: Option<Place>,
}

/// Kinds of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeafKind {
    /// A number, character or Boolean.
    Base(Encoding),
    /// An address.
    Pointer,
    /// An enumeration.
    Enum,
    /// A bit field.
    BitField,
    /// An array that is not expanded.
    Array,
    /// The discriminant, which selects the variant.
    Discriminant,
    /// A structure or union that is not expanded.
    Record,
    /// Anything else.
    Other,
}

/// The content of a byte in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The first leaf with a bit in the byte, by number.
    Leaf(u32),
    /// Unused, with members after it.
    Hole,
    /// Unused, after all members.
    Padding,
    /// Not a byte of this object.
    Outside,
}

impl DebugInfo {
    /// The leaves of a type.
    ///
    /// # Errors
    /// If the type's size is unknown, or its entry is damaged. Members with damage are not expanded.
    pub fn flat(&self, id: TypeId, limits: Limits) -> Result<Flat, DebugError> {
        let view = self.view();
        let info = Reading::new(self, &view);
        let ty = info.defined(id)?;
        let size =
            ty.size.ok_or_else(|| DebugError::new(format!("the size of `{}` is not known", ty.path)))?;
        let mut flattening = Flattening {
            info,
            limits,
            types: HashMap::new(),
            leaves: Vec::new(),
            n_visits: 0,
            is_cut: false,
        };
        let (name, place) = (self.shown_name(&ty), ty.place.clone());
        let whole = Piece {
            path: String::new(),
            text: name.clone(),
            ty: Some(ty.id),
            bit_offset: 0,
            bit_size: size.saturating_mul(8),
            forced: None,
            is_base: false,
            place: place.clone(),
        };
        flattening.visit(whole, 0);
        let Flattening { mut leaves, is_cut, .. } = flattening;
        leaves.sort_by_key(|(start, ..)| *start);
        let end = size.saturating_mul(8);
        let holes = gaps(leaves.iter().map(|(start, len, _)| (*start, *len)), end);
        Ok(Flat {
            name,
            size,
            leaves: leaves.into_iter().map(|(.., leaf)| leaf).collect(),
            holes,
            place,
            is_cut,
        })
    }
}

/// An item that may have parts.
pub(crate) struct Piece {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) ty: Option<TypeId>,
    pub(crate) bit_offset: u64,
    pub(crate) bit_size: u64,
    /// Its kind, if that does not depend on its type.
    pub(crate) forced: Option<LeafKind>,
    /// True for a base class, whose virtual base classes are placed by the complete object.
    pub(crate) is_base: bool,
    pub(crate) place: Option<Place>,
}

struct Flattening<'b, 'a> {
    info: Reading<'b, 'a>,
    limits: Limits,
    types: HashMap<TypeId, Option<Rc<Type>>>,
    /// First bit and number of bits of each leaf, and the leaf.
    leaves: Vec<(u64, u64, Leaf)>,
    n_visits: usize,
    is_cut: bool,
}

impl Flattening<'_, '_> {
    fn read(&mut self, id: TypeId) -> Option<Rc<Type>> {
        let info = self.info;
        self.types.entry(id).or_insert_with(|| info.defined(id).ok().map(Rc::new)).clone()
    }

    fn visit(&mut self, piece: Piece, depth: usize) {
        self.n_visits += 1;
        if self.n_visits > MAX_VISITS {
            self.is_cut = true;
            return;
        }
        if let Some(kind) = piece.forced {
            return self.leaf(piece, kind);
        }
        let Some(ty) = piece.ty.and_then(|id| self.read(self.info.behind_names(id))) else {
            return self.leaf(piece, LeafKind::Other);
        };
        let is_full =
            self.leaves.len() >= self.limits.leaves || depth >= MAX_DEPTH || piece.path.len() > MAX_PATH;
        match &ty.kind {
            Kind::Struct | Kind::Class | Kind::Union | Kind::Variants => {
                if is_full {
                    self.is_cut = true;
                    return self.leaf(piece, LeafKind::Record);
                }
                if ty.is_declaration || (ty.size.is_none() && ty.members.is_empty()) {
                    return self.leaf(piece, LeafKind::Record);
                }
                let virtual_bases = if piece.is_base { Vec::new() } else { self.info.virtual_bases(&ty) };
                for member in ty.members.iter().chain(&virtual_bases) {
                    if let Some(part) = member_piece(&piece, member) {
                        self.visit(part, depth + 1);
                    }
                }
            }
            Kind::Array { element, counts } => self.array(piece, *element, counts, is_full, depth),
            Kind::Pointer(_) => self.leaf(piece, LeafKind::Pointer),
            Kind::Enum(_) => self.leaf(piece, LeafKind::Enum),
            Kind::Base(encoding) => self.leaf(piece, LeafKind::Base(*encoding)),
            _ => self.leaf(piece, LeafKind::Other),
        }
    }

    fn array(
        &mut self,
        piece: Piece,
        element: Option<TypeId>,
        counts: &[Option<u64>],
        is_full: bool,
        depth: usize,
    ) {
        let n = counts.iter().try_fold(1_u64, |n, count| n.checked_mul((*count)?));
        let inner = element.and_then(|id| self.read(self.info.behind_names(id)));
        let is_text = inner
            .as_ref()
            .is_some_and(|inner| matches!(inner.kind, Kind::Base(Encoding::Char)) && inner.size == Some(1));
        let bits = inner.and_then(|inner| inner.size).and_then(|size| size.checked_mul(8));
        let (Some(n), Some(bits)) = (n, bits) else { return self.leaf(piece, LeafKind::Array) };
        if is_text || is_full || n > self.limits.elements {
            self.is_cut |= !is_text;
            return self.leaf(piece, LeafKind::Array);
        }
        let text = element.map(|id| self.info.text(id)).unwrap_or_default();
        for at in 0..n {
            let part = Piece {
                path: format!("{}{}", piece.path, subscript(at, counts)),
                text: text.clone(),
                ty: element,
                bit_offset: piece.bit_offset.saturating_add(at.saturating_mul(bits)),
                bit_size: bits,
                forced: None,
                is_base: false,
                place: piece.place.clone(),
            };
            self.visit(part, depth + 1);
        }
    }

    fn leaf(&mut self, piece: Piece, kind: LeafKind) {
        let offset = piece.bit_offset / 8;
        let in_byte = piece.bit_offset % 8;
        let bits = (kind == LeafKind::BitField).then(|| (u8::try_from(in_byte).unwrap_or(0), piece.bit_size));
        let leaf = Leaf {
            path: piece.path,
            text: piece.text,
            offset,
            size: in_byte.saturating_add(piece.bit_size).div_ceil(8),
            bits,
            kind,
            place: piece.place,
        };
        self.leaves.push((piece.bit_offset, piece.bit_size, leaf));
    }
}

/// A member as a part of its container; `None` if its offset is unknown.
pub(crate) fn member_piece(piece: &Piece, member: &Member) -> Option<Piece> {
    let mut path = piece.path.clone();
    let name = member.name.as_deref().unwrap_or("");
    match member.kind {
        MemberKind::Base => path = format!("{}{}::", dotted(path), member.text),
        MemberKind::Discriminant => path = format!("{}<discriminant>", dotted(path)),
        _ if !name.is_empty() => path = format!("{}{name}", dotted(path)),
        _ => {}
    }
    Some(Piece {
        path,
        text: member.text.clone(),
        ty: member.ty,
        bit_offset: piece.bit_offset.checked_add(member.bit_offset?)?,
        bit_size: member.bit_size.unwrap_or(0),
        forced: match member.kind {
            MemberKind::BitField => Some(LeafKind::BitField),
            MemberKind::Discriminant => Some(LeafKind::Discriminant),
            _ => None,
        },
        is_base: member.kind == MemberKind::Base,
        place: member.place.clone(),
    })
}

/// A path to which a name can be appended.
fn dotted(path: String) -> String {
    if path.is_empty() || path.ends_with("::") { path } else { path + "." }
}

/// The subscripts of an element, one for each dimension.
fn subscript(at: u64, counts: &[Option<u64>]) -> String {
    let mut rest = at;
    let mut steps: Vec<String> = Vec::new();
    for count in counts.iter().rev() {
        let count = count.unwrap_or(1).max(1);
        steps.push(format!("[{}]", rest % count));
        rest /= count;
    }
    steps.reverse();
    steps.concat()
}

impl Flat {
    /// The leaves that an access touches, by number.
    pub fn touched(&self, offset: u64, size: u64) -> impl Iterator<Item = usize> + '_ {
        let end = offset.saturating_add(size);
        let is_hit = move |leaf: &Leaf| leaf.offset < end && offset < leaf.offset.saturating_add(leaf.size);
        self.leaves.iter().enumerate().filter(move |(_, leaf)| is_hit(leaf)).map(|(at, _)| at)
    }

    /// The object as lines of `line_bytes`, with its first byte at `start` bytes after the beginning of a line. A large
    /// object is cut after its first mebibyte.
    pub fn lines(&self, line_bytes: u64, start: u64) -> Vec<Vec<Cell>> {
        let line_bytes = line_bytes.clamp(1, MAX_DRAWN);
        let (start, size) = (start % line_bytes, self.size.min(MAX_DRAWN));
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let mut cells = vec![Cell::Padding; index(size)];
        let last = self.leaves.iter().map(|leaf| leaf.offset.saturating_add(leaf.size)).max().unwrap_or(0);
        cells[..index(last.min(size))].fill(Cell::Hole);
        // From the end, so that of several leaves the first remains.
        for (at, leaf) in self.leaves.iter().enumerate().rev() {
            let range = leaf.offset.min(size)..leaf.offset.saturating_add(leaf.size).min(size);
            cells[index(range.start)..index(range.end)]
                .fill(Cell::Leaf(u32::try_from(at).unwrap_or(u32::MAX)));
        }
        let mut all = vec![Cell::Outside; index(start)];
        all.append(&mut cells);
        all.resize(all.len().next_multiple_of(index(line_bytes)), Cell::Outside);
        all.chunks(index(line_bytes)).map(<[Cell]>::to_vec).collect()
    }

    /// Bytes without a used bit.
    pub fn unused(&self) -> u64 {
        self.holes
            .iter()
            .map(|hole| {
                let end = hole.bit_offset.saturating_add(hole.bit_size);
                (end / 8).saturating_sub(hole.bit_offset.div_ceil(8))
            })
            .sum()
    }
}
