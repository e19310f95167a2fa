//! Builds shapes from a file of types, which has less information than debug information: no size of a structure, no
//! alignment, no lines, and for an array only its size in bytes.

use super::llvm;
use super::shape::{Field, Part, Parts, Shape, What};
use crate::dwarf::types::Encoding;
use crate::layout::LeafKind;
use crate::types_file::{Lookup, MemberDef, TypesFile};
use std::collections::HashMap;

/// Maximum nesting depth of types.
const MAX_DEPTH: usize = 32;
/// Maximum number of fields of one type; the rest is kept as one field.
const MAX_FIELDS: usize = 1 << 14;

/// The types of a file by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileTypes {
    /// Members of structures and unions.
    records: Vec<(String, Vec<MemberDef>)>,
    names: HashMap<String, usize>,
    typedefs: HashMap<String, String>,
}

impl FileTypes {
    /// The types of a file. If several have the same name, the last one is used, as in Cacheray's simulator, but a
    /// declaration never replaces a definition.
    pub(crate) fn new(file: &TypesFile) -> FileTypes {
        let mut types = FileTypes::default();
        let structs = file.structs.iter().map(|of| (of.name.clone(), of.members.clone()));
        let unions = file.unions.iter().map(|of| {
            let members = of.members.iter().map(|member| MemberDef {
                id: member.id,
                member: member.member.clone(),
                name: member.name.clone(),
                offset: 0,
                size: member.size,
            });
            (format!("struct {}", of.name), members.collect())
        });
        for (name, members) in structs.chain(unions) {
            match types.names.get(&name).and_then(|at| types.records.get_mut(*at)) {
                Some(_) if members.is_empty() => {}
                Some((_, known)) => *known = members,
                None => {
                    types.names.insert(name.clone(), types.records.len());
                    types.records.push((name, members));
                }
            }
        }
        for typedef in &file.typedefs {
            types.typedefs.insert(typedef.alias.clone(), typedef.def.clone());
        }
        types
    }

    /// The type of this name, in the spelling of C, LLVM or the file, with or without LLVM's number after it.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.find_exactly(name).or_else(|| {
            let (short, number) = name.rsplit_once('.')?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| self.find_exactly(short)).flatten()
        })
    }

    fn find_exactly(&self, name: &str) -> Option<usize> {
        let name = Lookup::rewritten(name);
        let name = match name.strip_prefix("union.") {
            Some(rest) => format!("struct {rest}"),
            None => name,
        };
        let spelled = |name: &str| self.names.get(name).copied().filter(|at| self.has_members(*at));
        let aliased = || self.typedefs.get(&name).and_then(|def| spelled(def));
        spelled(&name).or_else(aliased).or_else(|| spelled(&format!("struct {name}"))).or_else(|| {
            let name = name.strip_prefix("union ").or_else(|| name.strip_prefix("class."))?;
            spelled(&format!("struct {name}")).or_else(|| spelled(&format!("class {name}")))
        })
    }

    fn has_members(&self, at: usize) -> bool {
        self.records.get(at).is_some_and(|(_, members)| !members.is_empty())
    }

    /// The members of a type.
    pub(crate) fn members(&self, at: usize) -> &[MemberDef] {
        self.records.get(at).map_or(&[], |(_, members)| members)
    }

    /// The names of all types that have members.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.records.iter().filter(|(_, members)| !members.is_empty()).map(|(name, _)| name.as_str())
    }

    /// The shape of a type. Its size is the end of its last member, rounded up to the largest alignment of its members.
    pub(crate) fn shape(&self, at: usize) -> Option<Shape> {
        let (name, _) = self.records.get(at)?;
        let mut parts = Parts::default();
        let mut list = Vec::new();
        let size = self.record(at, &Way::default(), &mut list, &mut parts, 0);
        let level = parts.level(list);
        let short = name.strip_prefix("struct ").or_else(|| name.strip_prefix("class ")).unwrap_or(name);
        (size > 0).then(|| parts.shape(short.to_owned(), size, None, level))
    }

    /// Adds the members of a record; returns its size.
    fn record(&self, at: usize, way: &Way, list: &mut Vec<Part>, parts: &mut Parts, depth: usize) -> u64 {
        let Some((_, members)) = self.records.get(at) else { return 0 };
        let outer_align = std::mem::replace(&mut parts.align, 1);
        let mut end = 0;
        for member in members {
            let (Ok(offset), Ok(size)) = (u64::try_from(member.offset), u64::try_from(member.size)) else {
                continue;
            };
            end = end.max(offset.saturating_add(size));
            self.member(member, (offset, size), way, list, parts, depth);
        }
        let size = if depth == 0 || end % parts.align != 0 { end.next_multiple_of(parts.align) } else { end };
        parts.align = parts.align.max(outer_align);
        size
    }

    fn member(
        &self,
        member: &MemberDef,
        (offset, size): (u64, u64),
        way: &Way,
        list: &mut Vec<Part>,
        parts: &mut Parts,
        depth: usize,
    ) {
        let own = if member.member.starts_with("<anon") { "" } else { &member.member };
        let path = match (way.path.is_empty(), own.is_empty()) {
            (true, _) => own.to_owned(),
            (false, true) => way.path.clone(),
            (false, false) => format!("{}.{own}", way.path),
        };
        let text = member.name.strip_prefix("const ").unwrap_or(&member.name);
        let bare = text.trim_end_matches("[]");
        let dimensions = (text.len() - bare.len()) / 2;
        let is_full = depth >= MAX_DEPTH || parts.fields.len() >= MAX_FIELDS;
        let inner = self.names.get(bare).copied().filter(|at| self.has_members(*at) && !is_full);
        let start = way.offset.saturating_add(offset);
        if let Some(inner) = inner {
            if dimensions == 0 {
                let way = Way { path, offset: start, ..*way };
                self.record(inner, &way, list, parts, depth + 1);
                return;
            }
            let mut elements = Vec::new();
            let first = parts.fields.len();
            let inside = Way {
                path: path + &"[]".repeat(dimensions),
                offset: 0,
                outer: way.outer + start,
                count: way.count,
            };
            let stride = self.record(inner, &inside, &mut elements, parts, depth + 1);
            if stride > 0 && size >= stride {
                for field in parts.fields.iter_mut().skip(first) {
                    field.count = field.count.saturating_mul(size / stride);
                }
                let what = What::Level(parts.level(elements));
                list.push(Part { start, end: start.saturating_add(size), stride, element: stride, what });
            }
            return;
        }
        if size == 0 {
            return;
        }
        let scalar = llvm::c_type(bare);
        let (mut element, mut path) = (size, path);
        let (mut stride, mut kind) = (size, scalar.map_or(LeafKind::Other, |(_, kind)| kind));
        if dimensions > 0 {
            kind = LeafKind::Array;
            let is_text = matches!(scalar, Some((1, LeafKind::Base(Encoding::Char))));
            element = if is_text { 1 } else { size };
            if let Some((bytes, of)) = scalar.filter(|(bytes, _)| !is_text && size % bytes == 0) {
                (stride, element, kind) = (bytes, bytes, of);
                path += &"[]".repeat(dimensions);
            }
        }
        let align = if dimensions > 0 { scalar.map_or(1, |(bytes, _)| bytes) } else { size };
        if align.is_power_of_two() && offset % align == 0 {
            parts.align = parts.align.max(align.min(16));
        }
        let field = parts.field(Field {
            path,
            text: bare.to_owned(),
            offset: way.outer.saturating_add(start),
            size: stride,
            count: way.count.saturating_mul(size / stride),
            kind,
            place: None,
        });
        let (end, what) = (start.saturating_add(size), What::Field(field));
        list.push(Part { start, end, stride, element, what });
    }
}

/// The position of a record: the path to it, its offset in an element, and the offset of the first of those elements.
#[derive(Clone, Debug)]
struct Way {
    path: String,
    offset: u64,
    outer: u64,
    count: u64,
}

impl Default for Way {
    fn default() -> Way {
        Way { path: String::new(), offset: 0, outer: 0, count: 1 }
    }
}
