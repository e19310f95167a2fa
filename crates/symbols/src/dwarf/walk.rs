//! The one walk over all entries of a unit.
//!
//! Of hundreds of megabytes of entries only a few are needed: types, their scopes, functions with code, and variables with
//! an address. So entries are skipped rather than read: for each abbreviation, the lengths of its fixed parts and the
//! positions of the few relevant attributes are computed once. Most entries then cost a table look-up and an addition.
//! Visitors that need further attributes of an entry read them with `gimli`.

use super::forms::{Bytes, fixed, is_block, is_variable, leb};
use super::units::{Slice, Units, View};
use gimli::{Abbreviations, DwAt, DwForm, DwTag, Encoding, Reader, Section};
use std::collections::HashMap;

/// Abbreviations with numbers below this are cached; compilers count from 1.
const MAX_CODES: usize = 1 << 14;
/// Maximum nesting depth of reported entries; after anything deeper, the rest is lost.
pub(super) const MAX_NESTING: usize = 512;
/// Marks an abbreviation that cannot be skipped in one step.
const SLOW: u32 = 0;

/// The role of a reported entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A type that can be looked up by name.
    Type,
    /// A scope that qualifies type names without being a type: a namespace or module.
    Scope,
    /// A function; it has its own code if it has an address.
    Function {
        has_code: bool,
    },
    /// A variable with a constant address.
    Variable,
    /// The whole unit.
    Unit,
    Other,
}

/// True for types that can be looked up by name.
pub(super) fn is_type(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_typedef
            | gimli::DW_TAG_base_type
            | gimli::DW_TAG_interface_type
    )
}

/// An attribute whose position is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Note {
    Name,
    Specification,
    Sibling,
    Location,
    StringsBase,
}
const N_NOTES: usize = 5;

impl Note {
    fn of(attribute: DwAt, role: Role) -> Option<Note> {
        match (attribute, role) {
            (gimli::DW_AT_name, Role::Type) => Some(Note::Name),
            (gimli::DW_AT_specification, Role::Type) => Some(Note::Specification),
            (gimli::DW_AT_location, Role::Variable) => Some(Note::Location),
            (gimli::DW_AT_str_offsets_base, Role::Unit) => Some(Note::StringsBase),
            (gimli::DW_AT_sibling, _) => Some(Note::Sibling),
            _ => None,
        }
    }
}

/// A step in reading the bytes of an entry.
#[derive(Clone, Copy)]
enum Step {
    Skip(u32),
    /// An attribute with a value that determines its own length.
    Variable(DwForm),
    Note(Note),
}

/// The properties of an abbreviation.
struct Shape {
    tag: DwTag,
    role: Role,
    has_children: bool,
    is_declaration: bool,
    is_inline: bool,
    /// True if none of its children is reported, and it states where they end.
    leaps: bool,
    forms: [Option<DwForm>; N_NOTES],
    steps: Vec<Step>,
}

/// Properties of the abbreviations of a unit, as far as they were used.
struct Table {
    abbreviations: Abbreviations,
    encoding: Encoding,
    /// For each number, the size of an entry that is skipped, times two, plus one if it has children, plus two; or `SLOW`.
    quick: Vec<u32>,
    shapes: Vec<Option<Shape>>,
}

/// The tables of the units walked so far; units with the same abbreviations share one.
#[derive(Default)]
pub(super) struct Tables {
    of: HashMap<(u32, usize, Encoding), Table>,
}

/// An entry that is reported.
pub(super) struct Met<'w, 'a> {
    /// Its offset in its unit.
    pub(super) offset: u32,
    /// Offset of the end of its attributes.
    pub(super) end: u32,
    pub(super) role: Role,
    pub(super) tag: DwTag,
    pub(super) is_declaration: bool,
    /// True of an inline namespace.
    pub(super) is_inline: bool,
    pub(super) has_children: bool,
    noted: &'w [usize; N_NOTES],
    forms: &'w [Option<DwForm>; N_NOTES],
    bytes: &'w Bytes<'a>,
}

impl<'a> Met<'_, 'a> {
    /// Its own name.
    pub(super) fn name(&self) -> Option<&'a [u8]> {
        let at = Note::Name as usize;
        self.bytes.text(self.forms[at]?, self.noted[at])
    }

    /// True if it refers to a declaration elsewhere.
    pub(super) fn is_specified(&self) -> bool {
        self.forms[Note::Specification as usize].is_some()
    }
}

/// Receives the entries.
pub(super) trait Visit {
    /// Handles an entry. For those that have children, the end is reported, too.
    fn entry(&mut self, met: &Met<'_, '_>);

    /// The latest entry that has not ended ends before `offset`.
    fn end(&mut self, offset: u32);
}

/// Reports all entries of a unit. Those after damage are lost.
pub(super) fn walk(units: &Units, view: &View<'_>, tables: &mut Tables, number: u32, visit: &mut impl Visit) {
    let Some(unit) = usize::try_from(number).ok().and_then(|at| units.list.get(at)) else { return };
    let (Ok(header), Ok(dwarf)) = (view.header(number), view.dwarf(unit.space)) else { return };
    let section: Slice<'_> =
        if unit.in_types { *dwarf.debug_types.reader() } else { *dwarf.debug_info.reader() };
    let encoding = header.encoding();
    let range = usize::try_from(unit.offset).ok().zip(usize::try_from(unit.len).ok());
    let bytes = range.and_then(|(start, len)| section.slice().get(start..start.checked_add(len)?));
    let Some(bytes) = bytes else { return };
    let key = (unit.space, header.debug_abbrev_offset().0, encoding);
    let table = match tables.of.entry(key) {
        std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
        std::collections::hash_map::Entry::Vacant(vacant) => {
            let Ok(abbreviations) = dwarf.abbreviations(&header) else { return };
            // Abbreviations that no other unit uses are moved out; most units do not share theirs.
            let abbreviations = std::sync::Arc::unwrap_or_clone(abbreviations);
            vacant.insert(Table { abbreviations, encoding, quick: Vec::new(), shapes: Vec::new() })
        }
    };
    let strings_base = gimli::DebugStrOffsetsBase::default_for_encoding_and_file(encoding, dwarf.file_type);
    let mut bytes = Bytes {
        unit: bytes,
        endian: section.endian(),
        encoding,
        strings: dwarf.debug_str.reader().slice(),
        line_strings: dwarf.debug_line_str.reader().slice(),
        string_offsets: dwarf.debug_str_offsets.reader().slice(),
        strings_base: strings_base.0,
    };
    // At the end of a walk, by damage or not, all open entries end.
    let n_open = steps(&mut bytes, table, header.root_offset().0, visit).unwrap_or_else(|open| open);
    let end = u32::try_from(bytes.unit.len()).unwrap_or(u32::MAX);
    (0..n_open).for_each(|_| visit.end(end));
}

/// Walks from entry to entry. Returns the number of open entries; as an error if there was damage.
fn steps(
    bytes: &mut Bytes<'_>,
    table: &mut Table,
    start: usize,
    visit: &mut impl Visit,
) -> Result<usize, usize> {
    let unit = bytes.unit;
    let mut at = start;
    let mut depth = 0_usize;
    // Depths of the entries whose end is reported.
    let mut open: Vec<usize> = Vec::new();
    let mut noted = [0; N_NOTES];
    while let Some(&first) = unit.get(at) {
        let offset = at;
        let mut code = u64::from(first);
        at += 1;
        if first >= 0x80 {
            at = offset;
            code = leb(unit, &mut at).ok_or(open.len())?;
        }
        if code == 0 {
            depth = depth.saturating_sub(1);
            if open.last() == Some(&depth) {
                open.pop();
                visit.end(at as u32);
            }
            continue;
        }
        // PERF: most entries end here; `code` is below the number of abbreviations.
        let quick = table.quick.get(code as usize).copied().unwrap_or(SLOW);
        if quick != SLOW {
            at += (quick as usize - 2) / 2;
            depth += (quick & 1) as usize;
            continue;
        }
        let shape = table.shape(code).ok_or(open.len())?;
        for step in &shape.steps {
            match *step {
                Step::Skip(n) => at += n as usize,
                Step::Variable(form) => at = bytes.behind(form, at, 0).ok_or(open.len())?,
                Step::Note(note) => noted[note as usize] = at,
            }
        }
        if at > unit.len() {
            return Err(open.len());
        }
        let mut has_children = shape.has_children;
        if shape.leaps
            && let Some(form) = shape.forms[Note::Sibling as usize]
            && let Some(to) = bytes.reference(form, noted[Note::Sibling as usize])
            && (at..=unit.len()).contains(&to)
        {
            at = to;
            has_children = false;
        }
        let is_told = match shape.role {
            Role::Other => false,
            Role::Variable => {
                let at = Note::Location as usize;
                shape.forms[at].is_some_and(|form| bytes.has_address(form, noted[at]))
            }
            Role::Unit => {
                let base = Note::StringsBase as usize;
                let base = shape.forms[base].and_then(|form| bytes.number(form, noted[base]));
                bytes.strings_base = base.unwrap_or(bytes.strings_base);
                false
            }
            _ => true,
        };
        if is_told {
            visit.entry(&Met {
                // Units are shorter than 4 GiB, or they are not in the list.
                offset: offset as u32,
                end: at as u32,
                role: shape.role,
                tag: shape.tag,
                is_declaration: shape.is_declaration,
                is_inline: shape.is_inline,
                has_children,
                noted: &noted,
                forms: &shape.forms,
                bytes,
            });
            if has_children {
                open.push(depth);
                if open.len() > MAX_NESTING {
                    return Err(open.len());
                }
            }
        }
        depth += usize::from(has_children);
    }
    Ok(open.len())
}

impl Table {
    /// The properties of an abbreviation; `None` if the number is undefined, or it has an unknown form.
    fn shape(&mut self, code: u64) -> Option<&Shape> {
        let at = usize::try_from(code).ok().filter(|at| *at < MAX_CODES).unwrap_or(0);
        if self.shapes.len() <= at {
            self.shapes.resize_with(at + 1, || None);
            self.quick.resize(at + 1, SLOW);
        }
        // Index 0, which no abbreviation has, is used for all large numbers.
        if at == 0 || self.shapes[at].is_none() {
            let shape = self.made(code)?;
            self.quick[at] = shape.quick().filter(|_| at > 0).unwrap_or(SLOW);
            self.shapes[at] = Some(shape);
        }
        self.shapes[at].as_ref()
    }

    fn made(&self, code: u64) -> Option<Shape> {
        let abbreviation = self.abbreviations.get(code)?;
        let tag = abbreviation.tag();
        let attributes = abbreviation.attributes();
        let form = |name: DwAt| attributes.iter().find(|of| of.name() == name).map(|of| of.form());
        let has = |name: DwAt| form(name).is_some();
        let is_declaration = has(gimli::DW_AT_declaration) || has(gimli::DW_AT_signature);
        let role = match tag {
            gimli::DW_TAG_namespace | gimli::DW_TAG_module => Role::Scope,
            gimli::DW_TAG_subprogram => {
                Role::Function { has_code: has(gimli::DW_AT_low_pc) || has(gimli::DW_AT_ranges) }
            }
            gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter
                if form(gimli::DW_AT_location).is_some_and(is_block) =>
            {
                Role::Variable
            }
            gimli::DW_TAG_compile_unit
            | gimli::DW_TAG_partial_unit
            | gimli::DW_TAG_type_unit
            | gimli::DW_TAG_skeleton_unit => Role::Unit,
            tag if is_type(tag) => Role::Type,
            _ => Role::Other,
        };
        let is_empty = match tag {
            gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_subroutine_type
            | gimli::DW_TAG_array_type
            | gimli::DW_TAG_call_site
            | gimli::DW_TAG_GNU_call_site => true,
            // A declared function has parameters, and nothing else inside.
            gimli::DW_TAG_subprogram => has(gimli::DW_AT_declaration),
            _ => false,
        };
        let leaps = is_empty && abbreviation.has_children() && has(gimli::DW_AT_sibling);
        let mut shape = Shape {
            tag,
            role,
            has_children: abbreviation.has_children(),
            is_declaration,
            is_inline: tag == gimli::DW_TAG_namespace && has(gimli::DW_AT_export_symbols),
            leaps,
            forms: [None; N_NOTES],
            steps: Vec::new(),
        };
        for attribute in attributes {
            let note = Note::of(attribute.name(), role).filter(|note| leaps || *note != Note::Sibling);
            // Of two attributes with one name, the first counts.
            if let Some(note) = note.filter(|note| shape.forms[*note as usize].is_none()) {
                shape.forms[note as usize] = Some(attribute.form());
                shape.steps.push(Step::Note(note));
            }
            match (fixed(attribute.form(), self.encoding), shape.steps.last_mut()) {
                (Some(0), _) => {}
                (Some(more), Some(Step::Skip(n))) => *n = n.checked_add(more)?,
                (Some(more), _) => shape.steps.push(Step::Skip(more)),
                (None, _) if is_variable(attribute.form()) => {
                    shape.steps.push(Step::Variable(attribute.form()));
                }
                (None, _) => return None,
            }
        }
        Some(shape)
    }
}

impl Shape {
    /// The value for `Table::quick`, if its size is fixed and it is not reported.
    fn quick(&self) -> Option<u32> {
        let len = match self.steps[..] {
            _ if self.role != Role::Other || self.leaps => return None,
            [] => 0,
            [Step::Skip(len)] => len,
            _ => return None,
        };
        Some(len.checked_mul(2)?.checked_add(2)? | u32::from(self.has_children))
    }
}
