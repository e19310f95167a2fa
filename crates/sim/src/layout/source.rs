//! The declaration of a type: what a shape omits because it only knows bytes.

use super::text::Language;
use quipu_symbols::dwarf::types::{Kind, Member, MemberKind, SourceLanguage, Type};
use quipu_symbols::dwarf::{DebugInfo, TypeId};
use quipu_symbols::types_file::MemberDef;

/// Maximum nesting of unnamed structures that are written out.
const MAX_BODY_DEPTH: usize = 6;
/// Most members of unnamed structures in one type.
const MAX_BODY_MEMBERS: usize = 256;

/// The declaration of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Declaration {
    pub(super) record: Record,
    pub(super) members: Vec<Declared>,
    /// Source language, if known.
    pub(super) language: Option<Language>,
    /// Whether the type is named only by a typedef: `typedef struct {…} T`.
    pub(super) is_unnamed: bool,
    /// Reason why the layout cannot change.
    pub(super) refusal: Option<&'static str>,
}

/// Everything about a structure except its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// `struct`, `class` or `union`.
    pub(super) keyword: &'static str,
    /// Whether members are closer together than their alignments allow.
    pub(super) is_packed: bool,
    /// Alignment declared explicitly.
    pub(super) asked: Option<u64>,
}

impl Default for Record {
    fn default() -> Record {
        Record { keyword: "struct", is_packed: false, asked: None }
    }
}

/// The declaration of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    /// Name; empty if unnamed.
    pub(super) name: String,
    /// Type; for an array, the type of its elements.
    pub(super) text: String,
    /// Number of elements in each dimension; empty unless it is an array.
    pub(super) dimensions: Vec<u64>,
    /// Offset in bits.
    pub(super) bit_start: u64,
    /// Size in bits.
    pub(super) bit_size: u64,
    /// Alignment in bytes; for a bit field, that of its type. `None` if it has to be derived from the fields.
    pub(super) align: Option<u64>,
    /// Alignment declared explicitly.
    pub(super) asked: Option<u64>,
    pub(super) what: What,
}

/// Kind of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Plain,
    /// A base class.
    Base,
    /// The pointer to the virtual table.
    Virtual,
    /// A bit field; its type has this many bytes.
    Bits(u64),
    /// An unnamed structure or union.
    Body(Record, Vec<Declared>),
}

impl Declared {
    /// Offset of the byte after it.
    pub(super) fn end(&self) -> u64 {
        self.bit_start.saturating_add(self.bit_size).div_ceil(8)
    }
}

/// The declaration of a type in a program.
pub(super) fn of_program(info: &DebugInfo, id: TypeId) -> Declaration {
    let Ok(ty) = info.read(id) else { return Declaration::default() };
    let refusal = match ty.kind {
        Kind::Union => Some("it is a union, whose members lie over each other"),
        Kind::Variants => Some("it is an enumeration, which the compiler lays out"),
        _ if has_virtual_base(info, &ty, 0) => {
            Some("it has virtual base classes, whose places depend on the class of the whole object")
        }
        _ if ty.members.iter().any(|member| member.bit_offset.is_none()) => {
            Some("the debug information does not say where each member is")
        }
        _ => None,
    };
    let mut reading = Reading { info, n_members: 0 };
    let mut members = Vec::new();
    for member in reading.members(&ty, 0).unwrap_or_default() {
        // Members of an unnamed structure belong to the enclosing type.
        match member {
            Declared { what: What::Body(record, inner), bit_start, .. }
                if member.name.is_empty() && record.keyword != "union" && !record.is_packed =>
            {
                members.extend(
                    inner.into_iter().map(|of| Declared { bit_start: of.bit_start + bit_start, ..of }),
                );
            }
            member => members.push(member),
        }
    }
    let language = match info.language_of(ty.id) {
        SourceLanguage::C => Some(Language::C),
        SourceLanguage::Cpp => Some(Language::Cpp),
        SourceLanguage::Rust => Some(Language::Rust),
        SourceLanguage::Other => None,
    };
    Declaration { record: record(info, &ty), members, language, is_unnamed: ty.name.is_none(), refusal }
}

/// Whether a class, or one of its base classes, has a virtual base class.
fn has_virtual_base(info: &DebugInfo, ty: &Type, depth: usize) -> bool {
    let mut bases = ty.members.iter().filter(|member| member.kind == MemberKind::Base);
    bases.any(|base| {
        let of =
            base.ty.filter(|_| depth < MAX_BODY_DEPTH).and_then(|id| info.read(info.behind_names(id)).ok());
        base.bit_offset.is_none() || of.is_some_and(|of| has_virtual_base(info, &of, depth + 1))
    })
}

fn record(info: &DebugInfo, ty: &Type) -> Record {
    let alignment = info.alignment_of(ty.id);
    let keyword = match ty.kind {
        Kind::Union => "union",
        Kind::Class => "class",
        _ => "struct",
    };
    Record { keyword, is_packed: alignment.is_packed, asked: alignment.asked }
}

struct Reading<'i> {
    info: &'i DebugInfo,
    /// Members of unnamed structures so far.
    n_members: usize,
}

impl Reading<'_> {
    /// The members of a structure; `None` if unnamed structures are nested too deeply or have too many members.
    fn members(&mut self, ty: &Type, depth: usize) -> Option<Vec<Declared>> {
        if depth > 0 {
            self.n_members += ty.members.len();
        }
        if depth > MAX_BODY_DEPTH || self.n_members > MAX_BODY_MEMBERS {
            return None;
        }
        Some(ty.members.iter().filter_map(|member| self.member(member, depth)).collect())
    }

    fn member(&mut self, member: &Member, depth: usize) -> Option<Declared> {
        let info = self.info;
        let mut declared = Declared {
            name: member.name.clone().unwrap_or_default(),
            text: member.text.clone(),
            dimensions: Vec::new(),
            bit_start: member.bit_offset?,
            bit_size: member.bit_size.unwrap_or(0),
            align: None,
            asked: member.align,
            what: What::Plain,
        };
        let Some(ty) = member.ty else { return Some(declared) };
        let of_type = info.alignment_of(ty);
        declared.align = Some(member.align.unwrap_or(of_type.bytes));
        // Compilers also emit an alignment for members whose types declare one; in packed structures it may be smaller.
        let is_own =
            |align: &u64| *align > of_type.bytes || (*align == of_type.bytes && of_type.asked.is_none());
        declared.asked = member.align.filter(is_own);
        match member.kind {
            MemberKind::Base => {
                (declared.name, declared.what) = (format!("{}::", member.text), What::Base);
                return Some(declared);
            }
            MemberKind::BitField => {
                declared.what = What::Bits(info.size_of(ty).unwrap_or(4));
                return Some(declared);
            }
            _ if declared.name.starts_with("_vptr") => {
                declared.what = What::Virtual;
                return Some(declared);
            }
            _ => {}
        }
        let mut inner = ty;
        if let Ok(of) = info.read(info.behind_names(ty))
            && let Kind::Array { element: Some(element), counts } = of.kind
            && let Some(counts) = counts.into_iter().collect::<Option<Vec<u64>>>()
        {
            (declared.text, declared.dimensions, inner) = (info.text_of(element), counts, element);
        }
        // clang calls complex numbers of all sizes `complex`.
        if declared.text == "complex" {
            let of = match info.size_of(inner) {
                Some(8) => "float",
                Some(16) => "double",
                _ => "long double",
            };
            declared.text = format!("_Complex {of}");
        }
        // Types with a name are written by it; an unnamed structure is written out.
        if let Ok(of) = info.read(inner)
            && of.is_record()
            && of.name.is_none()
        {
            let body = self.members(&of, depth + 1);
            (declared.text, declared.what) = match body {
                Some(body) => (String::new(), What::Body(record(info, &of), body)),
                None => (String::new(), What::Plain),
            };
        }
        Some(declared)
    }
}

/// A type from a file of types, which does not record the language.
pub(super) fn of_file(members: &[MemberDef]) -> Declaration {
    let bits = |bytes: i64| u64::try_from(bytes).unwrap_or(0).saturating_mul(8);
    let member = |member: &MemberDef| Declared {
        name: member.member.clone(),
        text: member.name.trim_end_matches("[]").to_owned(),
        dimensions: Vec::new(),
        bit_start: bits(member.offset),
        bit_size: bits(member.size),
        align: None,
        asked: None,
        what: What::Plain,
    };
    let refusal = members.iter().any(|member| member.size < 0 || member.offset < 0);
    Declaration {
        members: members.iter().map(member).collect(),
        refusal: refusal.then_some("the size of a member is not known"),
        ..Declaration::default()
    }
}
