//! Resolved types: size, alignment and parts of their values in plain form.
//!
//! [`resolve`] gets a type whose parts are resolved already, so recursion is impossible. Depth and size have limits, and so
//! does the decoded size of a value: members may overlap, as in a union, but not so much that a few bytes decode to a
//! million.

use crate::types::Type;
use std::sync::Arc;

/// Maximum nesting depth of types.
pub const MAX_DEPTH: u32 = 16;

/// Maximum size of a structure in bytes.
pub const MAX_STRUCT_BYTES: u32 = 1 << 20;

/// Maximum size of an array in bytes.
pub const MAX_ARRAY_BYTES: u64 = 64 << 20;

/// Maximum number of parts of a type, over all levels.
pub const MAX_NODES: u64 = 1 << 16;

/// Maximum ratio of decoded bytes to bytes in plain form: members of a union share bytes.
const MAX_SHARING: u64 = 64;

/// The structure of a value.
#[derive(Clone, Debug)]
pub enum Shape {
    /// An integer of 1, 2, 4, 8 or 16 bytes.
    Int {
        /// Size in bytes.
        bytes: u8,
        /// Whether the integer is signed.
        signed: bool,
    },
    /// A floating-point number of 2, 4 or 8 bytes.
    Float(u8),
    /// A byte with the value 0 or 1.
    Bool,
    /// A text of any length.
    Text,
    /// A byte string of any length.
    Bytes,
    /// A byte string of this length.
    Fixed(u32),
    /// Offset and type of each member.
    Struct(Vec<(u32, Arc<Layout>)>),
    /// A fixed number of elements.
    Array {
        /// Number of elements.
        count: u32,
        /// Type of the elements.
        element: Arc<Layout>,
    },
    /// Any number of elements.
    Vector(Arc<Layout>),
    /// Return addresses.
    Stack,
    /// A value or none; the offset of the value after the byte that says which.
    Optional(u32, Arc<Layout>),
    /// Tag and type of each case.
    Variant(Vec<(u32, Arc<Layout>)>),
}

/// A resolved type.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The name of the type, if it has one; for an alias, the name of its target.
    pub name: Option<String>,
    /// The description of the type; for an alias, that of its target.
    pub ty: Type,
    /// Size of the plain form in bytes.
    pub size: u32,
    /// Alignment of the plain form in bytes.
    pub align: u32,
    /// Nesting depth.
    pub depth: u32,
    /// Number of parts on all levels, including the type itself.
    pub nodes: u64,
    /// Decoded size of the fixed part in bytes, with each element of arrays counted.
    pub values: u64,
    /// The structure of its values.
    pub shape: Shape,
}

impl Layout {
    /// Whether plain values have no variable parts, and any bytes are a valid value.
    #[must_use]
    pub fn is_plain_number(&self) -> bool {
        matches!(self.shape, Shape::Int { .. } | Shape::Float(_) | Shape::Fixed(_))
    }

    /// Whether packed rows may store its values as differences.
    #[must_use]
    pub fn may_be_delta(&self) -> bool {
        matches!(
            self.ty,
            Type::Uint(_)
                | Type::Sint(_)
                | Type::Address { .. }
                | Type::Pointer { .. }
                | Type::Timestamp(_)
                | Type::Enum { .. }
        )
    }
}

/// Reason why a type has no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// A type that it refers to is not known.
    Missing,
    /// The type is invalid.
    Invalid(&'static str),
}

/// Resolves a type; `find` returns the types that it refers to.
///
/// # Errors
/// Returns an error if a type that it refers to is missing, or if the type has no size, is too large or nested too deeply.
pub fn resolve(
    name: Option<&str>,
    ty: &Type,
    find: impl Fn(u32) -> Option<Arc<Layout>>,
) -> Result<Arc<Layout>, Unresolved> {
    use Unresolved::Invalid;
    let part = |id: u32| find(id).ok_or(Unresolved::Missing);
    let int = |bits: u32, signed: bool| {
        let bytes = (bits / 8) as u8; // At most 128 bits.
        (u32::from(bytes), u32::from(bytes.min(8)), Shape::Int { bytes, signed })
    };
    let piece = |shape: Shape| (8, 4, shape);
    let mut depth = 1;
    let mut nodes = 1_u64;
    // Decoded size of the parts; a type without parts counts its own bytes.
    let mut values = 0_u64;
    let mut include = |part: &Layout, times: u64| {
        depth = depth.max(part.depth.saturating_add(1));
        nodes = nodes.saturating_add(part.nodes);
        values = values.saturating_add(part.values.saturating_mul(times));
    };
    let (size, align, shape) = match ty {
        Type::Uint(bits) => int(*bits, false),
        Type::Sint(bits) => int(*bits, true),
        Type::Float(bits) => (bits / 8, bits / 8, Shape::Float((bits / 8) as u8)), // At most 64 bits.
        Type::Bool => (1, 1, Shape::Bool),
        Type::Char(bits) => int(*bits, false),
        Type::String => piece(Shape::Text),
        Type::Bytes(None) | Type::Opaque(_) => piece(Shape::Bytes),
        Type::Bytes(Some(n)) if u64::from(*n) > MAX_ARRAY_BYTES => {
            return Err(Invalid("too many fixed bytes"));
        }
        Type::Bytes(Some(n)) => (*n, 1, Shape::Fixed(*n)),
        Type::Enum { base, .. } | Type::Flags { base, .. } | Type::BitFields { base, .. } => {
            let base = part(*base)?;
            if !matches!(base.shape, Shape::Int { .. }) {
                return Err(Invalid("names of the values of something that is no integer"));
            }
            (base.size, base.align, base.shape.clone())
        }
        Type::Struct { size, members } => {
            if members.is_empty() {
                return Err(Invalid("a structure without members"));
            }
            if *size > MAX_STRUCT_BYTES {
                return Err(Invalid("a structure that is too large"));
            }
            let mut align = 1;
            let mut all = Vec::with_capacity(members.len());
            for member in members {
                let layout = part(member.ty)?;
                if u64::from(member.offset) + u64::from(layout.size) > u64::from(*size) {
                    return Err(Invalid("a member outside of its structure"));
                }
                include(&layout, 1);
                align = align.max(layout.align);
                all.push((member.offset, layout));
            }
            (*size, align, Shape::Struct(all))
        }
        Type::Array { element, count } => {
            let element = part(*element)?;
            let size = u64::from(element.size) * u64::from(*count);
            if *count == 0 || size > MAX_ARRAY_BYTES {
                return Err(Invalid("an array without elements, or one that is too large"));
            }
            include(&element, u64::from(*count));
            (size as u32, element.align, Shape::Array { count: *count, element }) // Below the limit.
        }
        Type::Vector(element) => {
            let element = part(*element)?;
            include(&element, 0);
            piece(Shape::Vector(element))
        }
        Type::Stack(_) => piece(Shape::Stack),
        Type::Optional(inner) => {
            let inner = part(*inner)?;
            include(&inner, 1);
            let offset = inner.align.max(1);
            let size = (u64::from(offset) + u64::from(inner.size)).next_multiple_of(u64::from(offset));
            if size > MAX_ARRAY_BYTES {
                return Err(Invalid("an optional value that is too large"));
            }
            (size as u32, inner.align, Shape::Optional(offset, inner)) // Below the limit.
        }
        Type::Variant(cases) => {
            if cases.is_empty() {
                return Err(Invalid("a variant without cases"));
            }
            let mut all: Vec<(u32, Arc<Layout>)> = Vec::with_capacity(cases.len());
            let mut tags = std::collections::BTreeSet::new();
            for (tag, id) in cases {
                if !tags.insert(*tag) {
                    return Err(Invalid("a variant with one tag twice"));
                }
                let layout = part(*id)?;
                include(&layout, 0);
                all.push((*tag, layout));
            }
            piece(Shape::Variant(all))
        }
        Type::Pointer { bits, .. } | Type::Address { bits, .. } => int(*bits, false),
        Type::Timestamp(_) => int(64, false),
        Type::Reference(_) => int(32, false),
        Type::Alias(of) => {
            let of = part(*of)?;
            // The layout is shared: a copy of a large structure for each of many aliases would be much larger than the stream.
            return Ok(of);
        }
    };
    let own = match shape {
        // Only the bytes of the parts.
        Shape::Struct(_) | Shape::Array { .. } => 0,
        // The offset of the value among the decoded values, if there is one.
        Shape::Optional(..) => 4,
        // Types without bytes are not allowed: any number of values would fit anywhere.
        _ => u64::from(size.max(1)),
    };
    let values = values.saturating_add(own);
    if depth > MAX_DEPTH {
        return Err(Invalid("types that are nested too deeply"));
    }
    if nodes > MAX_NODES || values > u64::from(size).saturating_mul(MAX_SHARING) {
        return Err(Invalid("a type of too many parts"));
    }
    Ok(Arc::new(Layout {
        name: name.map(str::to_owned),
        ty: ty.clone(),
        size,
        align,
        depth,
        nodes,
        values,
        shape,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Member;

    #[test]
    fn what_overlaps_is_counted_in_bytes() {
        let fixed = resolve(None, &Type::Bytes(Some(1024)), |_| None).unwrap();
        let union = |n: usize| {
            let member = Member { name: "m".into(), ty: 1, offset: 0 };
            resolve(None, &Type::Struct { size: 1024, members: vec![member; n] }, |_| Some(fixed.clone()))
        };
        assert!(union(64).is_ok());
        assert_eq!(union(65).unwrap_err(), Unresolved::Invalid("a type of too many parts"));
        let nothing = resolve(None, &Type::Bytes(Some(0)), |_| None);
        assert_eq!(nothing.unwrap_err(), Unresolved::Invalid("a type of too many parts"));
    }

    #[test]
    fn an_alias_shares_what_it_stands_for() {
        let byte = resolve(None, &Type::Uint(8), |_| None).unwrap();
        let alias = resolve(Some("b"), &Type::Alias(1), |_| Some(byte.clone())).unwrap();
        assert!(Arc::ptr_eq(&byte, &alias));
    }
}
