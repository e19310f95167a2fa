//! Variables, functions and lines: what is at an address of a program.
//!
//! Addresses are those of the file; a caller that knows the load address adds it. Variables in registers, thread-local
//! variables, and variables whose location changes have no address here.

use super::index::{MAX_ORIGINS, children, path_of};
use super::read::{Reading, file_name, place};
use super::types::Place;
use super::units::{Die, Open, View};
use super::{DebugInfo, TypeId};
use gimli::{AttributeValue, Operation};
use std::ops::Range;

/// Maximum number of overlapping variables, as in Fortran's unions, and of functions that linkers put at one address.
const MAX_OVER: usize = 8;
/// Maximum number of ranges of one function.
const MAX_RANGES: usize = 1 << 12;

/// Variables and functions of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Variables with an address, by address.
    pub globals: Vec<Global>,
    /// Functions with code, by their first address.
    pub functions: Vec<Function>,
    /// Address ranges of functions with the functions' indexes in the list; sorted.
    code: Vec<(Range<u64>, usize)>,
    /// Address ranges of the code of units, with the units' numbers; sorted.
    units: Vec<(Range<u64>, u32)>,
}

/// A variable that has one address while the program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its qualified name: `f::counter` for a static variable of a function.
    pub name: String,
    /// Its address in the file.
    pub address: u64,
    /// Its size in bytes; 0 if unknown.
    pub size: u64,
    /// Its type.
    pub ty: Option<TypeId>,
    /// The place of its declaration.
    pub place: Option<Place>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its entry.
    pub(super) id: TypeId,
    /// Its qualified name.
    pub name: String,
    /// Addresses of its code.
    pub ranges: Vec<Range<u64>>,
    /// The place of its declaration.
    pub place: Option<Place>,
    /// The base of its variables' offsets.
    pub frame: FrameBase,
    /// Variables and parameters in its stack frame, including those of inner blocks.
    pub variables: Vec<StackVariable>,
}

/// The base of the offsets of stack variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameBase {
    /// The stack pointer before the call.
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
    /// Offset of its first byte from the frame's base.
    pub offset: i64,
    /// Its type.
    pub ty: Option<TypeId>,
    /// The place of its declaration.
    pub place: Option<Place>,
}

impl Objects {
    /// The variable that contains the byte at an address, and the offset in it.
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

    /// True if a variable contains any of these bytes.
    pub fn has_any_of(&self, address: u64, size: u64) -> bool {
        let end = address.saturating_add(size);
        let behind = self.globals.partition_point(|global| global.address < end);
        let before = self.globals[..behind].iter().rev().take(MAX_OVER);
        before.into_iter().any(|global| global.address.saturating_add(global.size) > address)
    }

    /// The function that contains the code at an address.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        let behind = self.code.partition_point(|(range, _)| range.start <= address);
        // Of those that begin at the same address, the first.
        let mut before = self.code[..behind].iter().rev().take(MAX_OVER);
        let (_, at) = before.rfind(|(range, _)| range.contains(&address))?;
        self.functions.get(*at)
    }
}

/// Selects what is collected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    Variables,
}

impl DebugInfo {
    /// Variables and functions. The first call reads them all.
    pub fn objects(&self) -> &Objects {
        self.objects.get_or_init(|| Objects::new(self, Wanted::All))
    }

    /// Variables only; functions are missing, unless an earlier call requested them. The first call takes only part of the
    /// time of [`DebugInfo::objects`].
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
        let index = info.index();
        let parts = info.units.in_parts(|view, part| {
            let reading = Reading::new(info, view);
            let mut objects = Objects::default();
            objects
                .globals
                .extend(within(&index.variables, &part).iter().filter_map(|id| reading.global(*id)));
            if wanted == Wanted::All {
                let functions = within(&index.functions, &part).iter();
                objects.functions.extend(functions.filter_map(|id| reading.function(*id)));
                part.for_each(|unit| objects.add_ranges(view, unit));
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
        for (at, function) in objects.functions.iter().enumerate() {
            objects.code.extend(function.ranges.iter().map(|range| (range.clone(), at)));
        }
        objects.code.sort_by_key(|(range, at)| (range.start, *at));
        objects.units.sort_by_key(|(range, unit)| (range.start, *unit));
        objects
    }

    /// Adds the address ranges of a unit's code.
    fn add_ranges(&mut self, view: &View<'_>, unit: u32) {
        let Ok(open) = view.open(unit) else { return };
        let Ok(root) = open.unit.entry(open.unit.header.root_offset()) else { return };
        let Some(mut ranges) = open.ranges(&root) else { return };
        let mut n_ranges = 0;
        while let Ok(Some(range)) = ranges.next() {
            n_ranges += 1;
            if n_ranges > MAX_RANGES {
                break;
            }
            self.units.push((range.begin..range.end, unit));
        }
    }
}

/// The part of a list, sorted by unit, that belongs to some units.
fn within<'b>(ids: &'b [TypeId], units: &Range<u32>) -> &'b [TypeId] {
    let at = |unit: u32| ids.partition_point(|id| id.unit < unit);
    &ids[at(units.start)..at(units.end)]
}

/// The location of a variable.
enum Location {
    Address(u64),
    /// Bytes after the frame's base.
    Frame(i64),
}

fn location<'a>(open: &Open<'a>, die: &Die<'a>) -> Option<Location> {
    let AttributeValue::Exprloc(expression) = die.attr_value(gimli::DW_AT_location)? else { return None };
    let mut operations = expression.operations(open.unit.encoding());
    let first = operations.next().ok()??;
    let second = operations.next().ok().flatten();
    let address = match first {
        Operation::FrameOffset { offset } if second.is_none() => return Some(Location::Frame(offset)),
        Operation::Address { address } => address,
        Operation::AddressIndex { index } => open.dwarf.address(&open.unit, index).ok()?,
        _ => return None,
    };
    let moved = match second {
        None => 0,
        Some(Operation::PlusConstant { value }) => value,
        // Further operations on the address give another location, as for thread-local variables.
        Some(_) => return None,
    };
    // The linker writes zero for removed parts.
    let is_there = address != 0 && !open.unit.header.is_tombstone_address(address);
    is_there.then(|| Location::Address(address.wrapping_add(moved)))
}

impl<'a> Reading<'_, 'a> {
    fn global(self, id: TypeId) -> Option<Global> {
        let (open, die) = self.view.entry(id).ok()?;
        let Location::Address(address) = location(&open, &die)? else { return None };
        let ty = self.type_of(id, &die);
        Some(Global {
            name: path_of(self.info, self.view, id).ok()?,
            address,
            size: ty.and_then(|ty| self.size(ty, 0)).unwrap_or(0),
            ty,
            place: self.said(id, &die, |open, die, _| place(open, die)),
        })
    }

    fn function(self, id: TypeId) -> Option<Function> {
        let (open, die) = self.view.entry(id).ok()?;
        let mut ranges = Vec::new();
        let mut found = open.ranges(&die)?;
        while let Ok(Some(range)) = found.next() {
            if range.begin != 0 && range.begin < range.end && ranges.len() < MAX_RANGES {
                ranges.push(range.begin..range.end);
            }
        }
        if ranges.is_empty() {
            return None;
        }
        Some(Function {
            id,
            name: path_of(self.info, self.view, id).ok()?,
            ranges,
            place: self.said(id, &die, |open, die, _| place(open, die)),
            frame: frame_base(&open, &die),
            variables: self.stack_variables(id, &open),
        })
    }

    /// The variables in the frame of a function.
    fn stack_variables(self, id: TypeId, open: &Open<'a>) -> Vec<StackVariable> {
        let mut variables = Vec::new();
        let mut inner: Option<isize> = None;
        // Damage only loses the entries after it.
        let _ = children(self.view, open, id, |die| {
            if inner.is_some_and(|depth| die.depth() > depth) {
                return;
            }
            // Variables of a nested function belong to that function's frame.
            inner = (die.tag() == gimli::DW_TAG_subprogram).then(|| die.depth());
            if !matches!(die.tag(), gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter) {
                return;
            }
            let Some(Location::Frame(offset)) = location(open, die) else { return };
            let Ok(at) = u32::try_from(die.offset().0) else { return };
            let id = TypeId { unit: id.unit, offset: at };
            variables.push(StackVariable {
                name: self.said(id, die, |open, die, _| open.name(die)).unwrap_or_default(),
                offset,
                ty: self.type_of(id, die),
                place: place(open, die),
            });
        });
        variables
    }

    /// A property of an entry, or of the declaration that it refers to.
    pub(super) fn said<T>(
        self,
        id: TypeId,
        die: &Die<'a>,
        ask: impl Fn(&Open<'a>, &Die<'a>, TypeId) -> Option<T>,
    ) -> Option<T> {
        let origin = |die: &Die<'a>, id: TypeId| {
            [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin]
                .into_iter()
                .find_map(|name| self.view.reference(id.unit, die, name))
        };
        if let Some(found) = ask(&*self.view.open(id.unit).ok()?, die, id) {
            return Some(found);
        }
        let mut at = origin(die, id)?;
        for _ in 0..MAX_ORIGINS {
            let (open, die) = self.view.entry(at).ok()?;
            if let Some(found) = ask(&open, &die, at) {
                return Some(found);
            }
            at = origin(&die, at)?;
        }
        None
    }

    pub(super) fn type_of(self, id: TypeId, die: &Die<'a>) -> Option<TypeId> {
        self.said(id, die, |_, die, id| self.view.reference(id.unit, die, gimli::DW_AT_type))
    }
}

fn frame_base<'a>(open: &Open<'a>, die: &Die<'a>) -> FrameBase {
    let Some(AttributeValue::Exprloc(expression)) = die.attr_value(gimli::DW_AT_frame_base) else {
        return FrameBase::Other;
    };
    match expression.operations(open.unit.encoding()).next() {
        Ok(Some(Operation::CallFrameCFA)) => FrameBase::CallFrame,
        Ok(Some(Operation::Register { register })) => FrameBase::Register(register.0, 0),
        Ok(Some(Operation::RegisterOffset { register, offset, .. })) => {
            FrameBase::Register(register.0, offset)
        }
        _ => FrameBase::Other,
    }
}
