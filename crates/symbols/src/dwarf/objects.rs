//! Variables, functions and lines: what the addresses of a program mean.
//!
//! Addresses are those of the file; what was loaded elsewhere is moved by whoever knows where to. Variables that live in
//! registers, in threads of their own, or only now and then at one place, have no address here.

use super::index::{own_name, path_of};
use super::read::{Reading, file_name, place};
use super::types::Place;
use super::units::{Die, Open, View};
use super::{DebugInfo, TypeId};
use gimli::{AttributeValue, DwTag, Operation};
use std::collections::HashMap;
use std::ops::Range;

/// How deep blocks are nested.
const MAX_NESTING: usize = 512;
/// Variables that may lie over each other, in unions of Fortran and the like.
const MAX_OVER: usize = 8;
/// The most ranges of one function.
const MAX_RANGES: usize = 1 << 12;

/// Variables and functions of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Variables with an address, by address.
    pub globals: Vec<Global>,
    /// Functions with code, by their first address.
    pub functions: Vec<Function>,
    /// Addresses of the code of units, and the units' numbers; sorted.
    units: Vec<(Range<u64>, u32)>,
}

/// A variable that has one address as long as the program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its name with everything around it: `f::counter` for a static variable of a function.
    pub name: String,
    /// Its address in the file.
    pub address: u64,
    /// Its size in bytes; 0 if it is not known.
    pub size: u64,
    /// Its type.
    pub ty: Option<TypeId>,
    /// Where it is declared.
    pub place: Option<Place>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name with everything around it.
    pub name: String,
    /// Addresses of its code.
    pub ranges: Vec<Range<u64>>,
    /// Where it is declared.
    pub place: Option<Place>,
    /// What offsets of its variables count from.
    pub frame: FrameBase,
    /// Variables and parameters that lie in its stack frame, those of inner blocks among them.
    pub variables: Vec<StackVariable>,
}

/// What offsets of stack variables count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameBase {
    /// The stack pointer as it was before the call.
    CallFrame,
    /// A register by its DWARF number, and an offset.
    Register(u16, i64),
    /// Anything else, or nothing.
    Other,
}

/// A variable on the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackVariable {
    /// Its name.
    pub name: String,
    /// Bytes between the frame's base and its first byte.
    pub offset: i64,
    /// Its type.
    pub ty: Option<TypeId>,
    /// Where it is declared.
    pub place: Option<Place>,
}

impl Objects {
    /// The variable that has the byte at an address, and the offset in it.
    pub fn global_at(&self, address: u64) -> Option<(&Global, u64)> {
        let behind = self.globals.partition_point(|global| global.address <= address);
        let global = self.globals.get(behind.checked_sub(1)?)?;
        let offset = address - global.address;
        (offset < global.size.max(1)).then_some((global, offset))
    }

    /// The units that have code at an address, by number.
    pub(super) fn units_at(&self, address: u64) -> impl Iterator<Item = u32> + '_ {
        let holds = move |(range, _): &&(Range<u64>, u32)| range.contains(&address);
        self.units.iter().filter(holds).map(|(_, unit)| *unit)
    }

    /// True if a variable has any of these bytes.
    pub fn has_any_of(&self, address: u64, size: u64) -> bool {
        let end = address.saturating_add(size);
        let behind = self.globals.partition_point(|global| global.address < end);
        let before = self.globals[..behind].iter().rev().take(MAX_OVER);
        before.into_iter().any(|global| global.address.saturating_add(global.size) > address)
    }

    /// The function that has the code at an address.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        self.functions.iter().find(|function| function.ranges.iter().any(|range| range.contains(&address)))
    }
}

/// What is collected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    Variables,
}

/// An entry whose children are walked.
struct Frame {
    id: TypeId,
    tag: DwTag,
    /// The function that it is, by number.
    function: Option<usize>,
}

impl DebugInfo {
    /// Variables and functions. The first call walks all entries.
    pub fn objects(&self) -> &Objects {
        self.objects.get_or_init(|| Objects::new(self, Wanted::All))
    }

    /// Variables alone; functions are missing, unless somebody has asked for all before. The first call walks all entries, but
    /// takes only a part of the time that [`DebugInfo::objects`] takes.
    pub fn variables(&self) -> &Objects {
        let all = self.objects.get();
        all.unwrap_or_else(|| self.variables.get_or_init(|| Objects::new(self, Wanted::Variables)))
    }

    /// The line of the source that the instruction at an address comes from.
    pub fn line_of(&self, address: u64) -> Option<Place> {
        let view = self.view();
        self.objects().units_at(address).find_map(|unit| {
            let open = view.open(unit).ok()?;
            let mut rows = open.unit.line_program.clone()?.rows();
            let mut before: Option<(u64, u64)> = None;
            while let Ok(Some((_, row))) = rows.next_row() {
                if let Some((file, line)) = before.filter(|_| row.address() > address) {
                    return Some(Place { file: file_name(&open, file)?, line });
                }
                let line = row.line().map_or(0, std::num::NonZero::get);
                let starts = row.address() <= address && !row.end_sequence();
                before = starts.then_some((row.file_index(), line));
            }
            None
        })
    }
}

impl Objects {
    pub(super) fn new(info: &DebugInfo, wanted: Wanted) -> Objects {
        let parts = info.units.in_parts(|view, part| {
            let mut objects = Objects::default();
            for unit in part {
                let Ok(open) = view.open(unit) else { continue };
                // What stands behind damage in a unit is lost.
                let _ = objects.add_unit(info, view, &open, unit, wanted);
            }
            objects
        });
        let mut objects = Objects::default();
        for part in parts {
            objects.globals.extend(part.globals);
            objects.functions.extend(part.functions);
            objects.units.extend(part.units);
        }
        objects.globals.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        objects.globals.dedup_by(|a, b| a.address == b.address && a.name == b.name);
        objects.functions.sort_by_key(|function| function.ranges.first().map(|range| range.start));
        objects.units.sort_by_key(|(range, unit)| (range.start, *unit));
        objects
    }

    fn add_unit<'a>(
        &mut self,
        info: &DebugInfo,
        view: &View<'a>,
        open: &Open<'a>,
        unit: u32,
        wanted: Wanted,
    ) -> Result<(), gimli::Error> {
        if wanted == Wanted::All
            && let Ok(mut ranges) = open.dwarf.unit_ranges(&open.unit)
        {
            let mut n_ranges = 0;
            while let Ok(Some(range)) = ranges.next() {
                n_ranges += 1;
                if n_ranges > MAX_RANGES {
                    break;
                }
                self.units.push((range.begin..range.end, unit));
            }
        }
        let mut raw = open.unit.entries_raw(None)?;
        let mut frames: Vec<Frame> = Vec::new();
        // Static members that are declared in a class and defined outside have their class here.
        let mut classes: HashMap<u32, TypeId> = HashMap::new();
        // Clang writes the definition of a static member before its class: such names are completed at the end.
        let mut outside: Vec<(usize, u32)> = Vec::new();
        let mut die = Die::null();
        while !raw.is_empty() {
            let offset = raw.next_offset();
            let depth = usize::try_from(raw.next_depth()).unwrap_or(0);
            let Some(abbreviation) = raw.read_abbreviation()? else { continue };
            let (tag, attributes) = (abbreviation.tag(), abbreviation.attributes());
            frames.truncate(depth);
            let id = TypeId { unit, offset: u32::try_from(offset.0).unwrap_or(u32::MAX) };
            let mut function = frames.last().and_then(|frame| frame.function);
            match tag {
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter | gimli::DW_TAG_member => {
                    let has = |name| attributes.iter().any(|attribute| attribute.name() == name);
                    let around = frames.last().map(|frame| frame.id);
                    if !has(gimli::DW_AT_location) || tag == gimli::DW_TAG_member {
                        if let Some(class) = around.filter(|_| has(gimli::DW_AT_external)) {
                            classes.insert(id.offset, class);
                        }
                        raw.skip_attributes(attributes)?;
                    } else {
                        (die.tag, die.offset) = (tag, offset);
                        raw.read_attributes(attributes, &mut die.attrs)?;
                        let around = Around { info, view, open, frames: &frames, classes: &classes };
                        let n_globals = self.globals.len();
                        self.add_variable(around, &die, id, function);
                        if let Some(origin) =
                            around.origin(&die, id).filter(|_| self.globals.len() > n_globals)
                            && !classes.contains_key(&origin.offset)
                        {
                            outside.push((n_globals, origin.offset));
                        }
                    }
                }
                gimli::DW_TAG_subprogram if wanted == Wanted::All => {
                    (die.tag, die.offset) = (tag, offset);
                    raw.read_attributes(attributes, &mut die.attrs)?;
                    let around = Around { info, view, open, frames: &frames, classes: &classes };
                    function = self.add_function(around, &die, id);
                }
                _ => raw.skip_attributes(attributes)?,
            }
            if abbreviation.has_children() && depth == frames.len() && depth < MAX_NESTING {
                frames.push(Frame { id, tag, function });
            }
        }
        for (at, origin) in outside {
            let class = classes.get(&origin).and_then(|class| path_of(info, view, *class).ok());
            if let (Some(class), Some(global)) = (class, self.globals.get_mut(at)) {
                let own = own_name(&global.name).to_owned();
                global.name = format!("{class}::{own}");
            }
        }
        Ok(())
    }

    fn add_variable<'a>(
        &mut self,
        around: Around<'_, 'a>,
        die: &Die<'a>,
        id: TypeId,
        function: Option<usize>,
    ) {
        let Around { info, view, open, .. } = around;
        let Some(AttributeValue::Exprloc(expression)) = die.attr_value(gimli::DW_AT_location) else { return };
        let mut operations = expression.operations(open.unit.encoding());
        let Ok(Some(first)) = operations.next() else { return };
        let second = operations.next().ok().flatten();
        if let (Operation::FrameOffset { offset }, None) = (&first, &second) {
            let Some(function) = function.and_then(|at| self.functions.get_mut(at)) else { return };
            let ty = around.type_of(die, id);
            let name = around.own_name(die, id);
            function.variables.push(StackVariable { name, offset: *offset, ty, place: place(open, die) });
            return;
        }
        let address = match first {
            Operation::Address { address } => Some(address),
            Operation::AddressIndex { index } => open.dwarf.address(&open.unit, index).ok(),
            _ => None,
        };
        let moved = match second {
            None => Some(0),
            Some(Operation::PlusConstant { value }) => Some(value),
            // What is done with the address makes another place of it, as for variables of threads.
            Some(_) => None,
        };
        let (Some(address), Some(moved)) = (address, moved) else { return };
        // The linker writes zero for what it left out.
        if address == 0 || open.unit.header.is_tombstone_address(address) {
            return;
        }
        let ty = around.type_of(die, id);
        self.globals.push(Global {
            name: around.path(die, id),
            address: address.wrapping_add(moved),
            size: ty.and_then(|ty| Reading { info, view }.size(ty, 0)).unwrap_or(0),
            ty,
            place: place(open, die).or_else(|| around.declared(die, id, |open, die, _| place(open, die))),
        });
    }

    fn add_function<'a>(&mut self, around: Around<'_, 'a>, die: &Die<'a>, id: TypeId) -> Option<usize> {
        let open = around.open;
        let mut ranges = Vec::new();
        let mut found = open.dwarf.die_ranges(&open.unit, die).ok()?;
        while let Ok(Some(range)) = found.next() {
            if range.begin != 0 && range.begin < range.end && ranges.len() < MAX_RANGES {
                ranges.push(range.begin..range.end);
            }
        }
        if ranges.is_empty() {
            return None;
        }
        let frame = match die.attr_value(gimli::DW_AT_frame_base) {
            Some(AttributeValue::Exprloc(expression)) => {
                match expression.operations(open.unit.encoding()).next() {
                    Ok(Some(Operation::CallFrameCFA)) => FrameBase::CallFrame,
                    Ok(Some(Operation::Register { register })) => FrameBase::Register(register.0, 0),
                    Ok(Some(Operation::RegisterOffset { register, offset, .. })) => {
                        FrameBase::Register(register.0, offset)
                    }
                    _ => FrameBase::Other,
                }
            }
            _ => FrameBase::Other,
        };
        self.functions.push(Function {
            name: around.path(die, id),
            ranges,
            place: place(open, die).or_else(|| around.declared(die, id, |open, die, _| place(open, die))),
            frame,
            variables: Vec::new(),
        });
        Some(self.functions.len() - 1)
    }
}

/// Where an entry was met.
#[derive(Clone, Copy)]
struct Around<'b, 'a> {
    info: &'b DebugInfo,
    view: &'b View<'a>,
    open: &'b Open<'a>,
    frames: &'b [Frame],
    classes: &'b HashMap<u32, TypeId>,
}

impl<'a> Around<'_, 'a> {
    /// What an entry that was declared elsewhere refers to.
    fn origin(self, die: &Die<'a>, id: TypeId) -> Option<TypeId> {
        [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin]
            .into_iter()
            .find_map(|name| self.view.reference(id.unit, die, name))
    }

    /// Something that only the declaration says.
    fn declared<T>(
        self,
        die: &Die<'a>,
        id: TypeId,
        ask: impl Fn(&Open<'a>, &Die<'a>, TypeId) -> Option<T>,
    ) -> Option<T> {
        let mut at = self.origin(die, id)?;
        for _ in 0..4 {
            let (open, die) = self.view.entry(at).ok()?;
            if let Some(found) = ask(&open, &die, at) {
                return Some(found);
            }
            at = self.origin(&die, at)?;
        }
        None
    }

    fn type_of(self, die: &Die<'a>, id: TypeId) -> Option<TypeId> {
        let of = |die: &Die<'a>, id: TypeId| self.view.reference(id.unit, die, gimli::DW_AT_type);
        of(die, id).or_else(|| self.declared(die, id, |_, die, id| of(die, id)))
    }

    fn own_name(self, die: &Die<'a>, id: TypeId) -> String {
        let own = self.open.name(die);
        own.or_else(|| self.declared(die, id, |open, die, _| open.name(die))).unwrap_or_default()
    }

    fn path(self, die: &Die<'a>, id: TypeId) -> String {
        let name = self.own_name(die, id);
        let scope = match self.origin(die, id).and_then(|origin| self.classes.get(&origin.offset)) {
            Some(class) => Some(*class),
            None => self.frames.iter().rev().find(|frame| is_scope(frame.tag)).map(|frame| frame.id),
        };
        match scope.and_then(|scope| path_of(self.info, self.view, scope).ok()) {
            Some(path) => format!("{path}::{name}"),
            None => name,
        }
    }
}

/// What names of variables and functions are part of.
pub(super) fn is_scope(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_module
            | gimli::DW_TAG_subprogram
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type
    )
}
