//! Attributes an access to a type, an element and a field.
//!
//! [`Types`] finds types by the names in annotations, in debug information or in a file of types; [`Attribution`] has the
//! live regions of memory with their types, and resolves addresses:
//!
//! ```
//! use quipu_symbols::attribute::{Attribution, Spot, Types};
//! use quipu_symbols::types_file::TypesFile;
//!
//! let file = r#"{"structs": [{"id": 1, "name": "struct P", "members": [
//!     {"id": 2, "memberName": "x", "name": "int", "offset": 0, "size": 4},
//!     {"id": 2, "memberName": "y", "name": "long", "offset": 8, "size": 8}]}],
//!     "typedefs": [], "unions": [], "version": 4}"#;
//! let types = Types::of_file(&TypesFile::parse(file.as_bytes()).unwrap());
//! let mut attribution = Attribution::new(types);
//! attribution.add("struct.P", 0x1000, 16, 10, 0);
//! let hit = attribution.at(0x1000 + 3 * 16 + 8).unwrap();
//! assert_eq!((hit.element, hit.offset), (3, 8));
//! let shape = attribution.types().shape(hit.shape.unwrap());
//! let Spot::Field(found) = shape.spot(hit.offset, 8) else { panic!() };
//! assert_eq!(shape.fields[found.field as usize].path, "y");
//! ```
//!
//! | file | what |
//! |---|---|
//! | `shape` | the fields of a type |
//! | `build`, `file` | shapes from debug information, and from a file of types |
//! | `llvm` | names of types without members |

mod build;
mod file;
mod llvm;
mod shape;

#[cfg(test)]
mod tests;

pub use shape::{Field, Found, Shape, Spot};

use crate::dwarf::{DebugInfo, TypeId};
use crate::regions::{Region, RegionId, RegionMap};
use crate::types_file::{MemberDef, TypesFile};
use file::FileTypes;
use llvm::Text;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Maximum number of cached names; in an attack with more, the rest has no type.
const MAX_NAMES: usize = 1 << 20;

/// Index of a type, in the order in which types were first used.
pub type ShapeId = u32;

/// Types by name; the shape of each is built when it is first requested.
#[derive(Clone, Default)]
pub struct Types {
    info: Option<Arc<DebugInfo>>,
    file: Option<Arc<FileTypes>>,
    shapes: Vec<Arc<Shape>>,
    by_name: HashMap<Box<[u8]>, Option<(ShapeId, u64)>>,
    by_type: HashMap<TypeId, Option<(ShapeId, u64)>>,
    /// Shapes by name and size, so that several names of one type share its shape.
    known: HashMap<(String, u64), ShapeId>,
}

/// Types are the same if they come from the same program and the same file, read once.
impl PartialEq for Types {
    fn eq(&self, other: &Types) -> bool {
        fn is_same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            match (a, b) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                _ => false,
            }
        }
        is_same(self.info.as_ref(), other.info.as_ref()) && is_same(self.file.as_ref(), other.file.as_ref())
    }
}

impl fmt::Debug for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Types").field("n_shapes", &self.shapes.len()).finish_non_exhaustive()
    }
}

impl Types {
    /// The types of a program.
    pub fn of_program(info: Arc<DebugInfo>) -> Types {
        Types { info: Some(info), ..Types::default() }
    }

    /// The types of a file.
    pub fn of_file(file: &TypesFile) -> Types {
        Types { file: Some(Arc::new(FileTypes::new(file))), ..Types::default() }
    }

    /// Adds the types of a file, which are used for names that the program does not have.
    pub fn and_file(mut self, file: &TypesFile) -> Types {
        self.file = Some(Arc::new(FileTypes::new(file)));
        self.by_name.clear();
        self
    }

    /// The program whose types these are.
    pub fn program(&self) -> Option<&DebugInfo> {
        self.info.as_deref()
    }

    /// The program, shared, for use while types are requested.
    pub fn shared_program(&self) -> Option<Arc<DebugInfo>> {
        self.info.clone()
    }

    /// True if there is neither a program nor a file.
    pub fn is_empty(&self) -> bool {
        self.info.is_none() && self.file.is_none()
    }

    /// The shape of a type that was found.
    ///
    /// # Panics
    /// Never for an id that these types, or those that they were cloned from, returned.
    pub fn shape(&self, id: ShapeId) -> &Shape {
        &self.shapes[id as usize]
    }

    /// The types that were found so far.
    pub fn shapes(&self) -> impl Iterator<Item = (ShapeId, &Shape)> {
        (0..).zip(self.shapes.iter().map(|shape| &**shape))
    }

    /// The shape that an annotation's name stands for, and how many of it make up one element of the named type (more than
    /// one for an array).
    ///
    /// Names are spelled as in C, C++, Rust or LLVM, see [`DebugInfo::find`]. A pointer's name, such as `i32*`, stands for
    /// its target: it is the type that memory without a structure was cast to. `None` if there is no such type.
    pub fn find(&mut self, name: &[u8]) -> Option<(ShapeId, u64)> {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let found = std::str::from_utf8(name).ok().and_then(|name| self.look_up(name.trim()));
        if self.by_name.len() < MAX_NAMES {
            self.by_name.insert(name.into(), found);
        }
        found
    }

    fn look_up(&mut self, name: &str) -> Option<(ShapeId, u64)> {
        match llvm::pointee(name) {
            Some(text) => self.meant(&text),
            None => self.named(name),
        }
    }

    fn meant(&mut self, text: &Text<'_>) -> Option<(ShapeId, u64)> {
        match text {
            Text::Named(name) => self.named(name),
            Text::Array(n, of) => self.meant(of).and_then(|(id, count)| Some((id, count.checked_mul(*n)?))),
            Text::Scalar(size, kind) => {
                let name = match kind {
                    crate::layout::LeafKind::Pointer => "pointer".to_owned(),
                    _ => format!("{} bits", size * 8),
                };
                Some((self.keep(Shape::scalar(&name, *size, *kind)), 1))
            }
        }
    }

    fn named(&mut self, name: &str) -> Option<(ShapeId, u64)> {
        if let Some(info) = self.info.clone()
            && let Some(id) = info.find(name)
            && let Some(found) = self.of_type(id)
        {
            return Some(found);
        }
        if let Some(file) = &self.file
            && let Some(shape) = file.find(name).and_then(|at| file.shape(at))
        {
            return Some((self.keep(shape), 1));
        }
        let (size, kind) = llvm::c_type(name)?;
        Some((self.keep(Shape::scalar(name, size, kind)), 1))
    }

    /// A type of the program, and the number of its elements if it is an array.
    pub fn of_type(&mut self, id: TypeId) -> Option<(ShapeId, u64)> {
        if let Some(known) = self.by_type.get(&id) {
            return *known;
        }
        let info = self.info.clone()?;
        let found = build::shape_of(&info, id).map(|(shape, n)| (self.keep(shape), n));
        self.by_type.insert(id, found);
        found
    }

    /// The members of a structure or union of this name in the file of types, looked up as in [`Types::find`]; `None` if
    /// there is no such type.
    pub fn file_members(&self, name: &str) -> Option<&[MemberDef]> {
        let file = self.file.as_ref()?;
        file.find(name).map(|at| file.members(at))
    }

    /// The names of all structures of the file of types; debug information has [`DebugInfo::type_ids`].
    pub fn file_names(&self) -> Vec<String> {
        self.file.as_ref().map_or_else(Vec::new, |file| file.names().map(str::to_owned).collect())
    }

    /// Adds a type.
    pub fn keep(&mut self, shape: Shape) -> ShapeId {
        let next = u32::try_from(self.shapes.len()).unwrap_or(u32::MAX);
        let key = (shape.name.clone(), shape.size);
        let id = *self.known.entry(key).or_insert(next);
        if id == next {
            self.shapes.push(Arc::new(shape));
        }
        id
    }
}

/// A live region with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The type of its elements, if known.
    pub shape: Option<ShapeId>,
    /// Bytes from one element to the next; 0 if the region is one element of any length.
    pub stride: u64,
    /// A value that the caller chose when it added the region.
    pub origin: u32,
}

/// The resolved position of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The region that contains it.
    pub region: Region<Held>,
    /// The type of the region's elements, if known.
    pub shape: Option<ShapeId>,
    /// Index of the element.
    pub element: u64,
    /// Offset in that element; beyond the type's size in a region that is longer than its only element.
    pub offset: u64,
}

impl Region<Held> {
    /// Resolves an address in the region.
    #[inline]
    pub fn hit(&self, addr: u64) -> Hit {
        let offset = addr.wrapping_sub(self.start);
        let stride = self.what.stride;
        // Most regions have one element.
        let (element, offset) = if stride == 0 || offset < stride {
            (0, offset)
        } else if let (Ok(offset), Ok(stride)) = (u32::try_from(offset), u32::try_from(stride)) {
            // PERF: dividing half as many bits takes less than half of the time.
            (u64::from(offset / stride), u64::from(offset % stride))
        } else {
            (offset / stride, offset % stride)
        };
        Hit { region: *self, shape: self.what.shape, element, offset }
    }

    /// Offset in its element of an address in the region.
    #[inline]
    pub fn offset(&self, addr: u64) -> u64 {
        self.hit(addr).offset
    }
}

/// Live regions with types.
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    types: Types,
    regions: RegionMap<Held>,
}

impl Attribution {
    /// An instance without regions.
    pub fn new(types: Types) -> Attribution {
        Attribution { types, regions: RegionMap::default() }
    }

    /// The types found so far.
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// The types found so far, to request more.
    pub fn types_mut(&mut self) -> &mut Types {
        &mut self.types
    }

    /// The live regions.
    pub fn regions(&self) -> &RegionMap<Held> {
        &self.regions
    }

    /// Adds the region of an annotation: `n_elements` of `element_bytes` each, of the type called `name`.
    ///
    /// An annotation states how many bytes were allocated rather than how many elements: one "element" with a size that is a
    /// multiple of the type's is treated as that many elements. Elements of any other size hold one instance of the type
    /// each, with padding after it, or as much of the type as fits. SPEC: cacheray.md#regions.
    pub fn add(
        &mut self,
        name: &str,
        addr: u64,
        element_bytes: u64,
        n_elements: u64,
        origin: u32,
    ) -> Option<RegionId> {
        self.add_named(name.as_bytes(), addr, element_bytes, n_elements, origin)
    }

    /// Like [`Attribution::add`], for a name of arbitrary bytes.
    pub fn add_named(
        &mut self,
        name: &[u8],
        addr: u64,
        element_bytes: u64,
        n_elements: u64,
        origin: u32,
    ) -> Option<RegionId> {
        let shape = self.types.find(name).map(|(id, _)| id);
        let stride = shape.map_or(0, |id| stride_in(self.types.shape(id), element_bytes, n_elements));
        let n_bytes = element_bytes.saturating_mul(n_elements);
        self.regions.add(addr, n_bytes, Held { shape, stride, origin })
    }

    /// Adds a region of `n` elements of a type.
    pub fn add_shape(&mut self, shape: ShapeId, addr: u64, n: u64, origin: u32) -> Option<RegionId> {
        let size = self.types.shape(shape).size;
        let stride = if n > 1 { size } else { 0 };
        self.regions.add(addr, size.saturating_mul(n), Held { shape: Some(shape), stride, origin })
    }

    /// Adds a region without a type.
    pub fn add_plain(&mut self, addr: u64, n_bytes: u64, origin: u32) -> Option<RegionId> {
        self.regions.add(addr, n_bytes, Held { shape: None, stride: 0, origin })
    }

    /// Ends the region that was added last among those that begin at `addr`.
    pub fn remove(&mut self, addr: u64) -> Option<Region<Held>> {
        self.regions.remove(addr)
    }

    /// Resolves an address, in the region that was added last among those that contain it.
    #[inline]
    pub fn at(&mut self, addr: u64) -> Option<Hit> {
        self.regions.at(addr).map(|region| region.hit(addr))
    }
}

/// Bytes from one element to the next; 0 if there is one.
fn stride_in(shape: &Shape, element_bytes: u64, n_elements: u64) -> u64 {
    let is_several = element_bytes > shape.size && element_bytes.is_multiple_of(shape.size) && !shape.is_open;
    match () {
        () if is_several => shape.size,
        () if n_elements > 1 => element_bytes,
        () => 0,
    }
}
