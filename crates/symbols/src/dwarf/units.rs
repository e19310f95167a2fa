//! The units of a program as one list, whichever file they are in, and references between their entries.
//!
//! A *space* is the content of one set of sections: the program, a `.dwo` file, or a row of a package. References by offset
//! stay in their space; references by signature may lead to any space. `gimli`'s values borrow the sections, so they live in
//! a [`View`], which is created for each query and cheap to create; only numbers are stored permanently.

use super::sections::{Flavour, Loaded, load_path};
use super::{DebugError, TypeId};
use gimli::{
    AttributeValue, Dwarf, DwarfFileType, DwoId, EndianSlice, Reader, RunTimeEndian, Section, UnitHeader,
    UnitType,
};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Bytes of a section.
pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
/// An entry.
pub(crate) type Die<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;
/// The value of an attribute.
pub(crate) type Value<'a> = AttributeValue<Slice<'a>>;

/// Maximum length of a name; longer ones are cut.
pub(super) const MAX_NAME: usize = 16 << 10;
/// Maximum number of `.dwo` files that are opened.
const MAX_SPLIT: usize = 1 << 16;
/// Total size of units that justifies a thread, in bytes.
const PART_BYTES: u64 = 1 << 20;

/// The position of a unit.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(super) space: u32,
    pub(super) in_types: bool,
    /// Offset of its header in its section.
    pub(crate) offset: u64,
    pub(super) len: u64,
    /// For a type unit, the signature and the offset of its type.
    type_of: Option<(u64, u32)>,
}

enum Part {
    Whole,
    CuRow(u32),
    TuRow(u32),
}

struct Space {
    file: usize,
    part: Part,
    /// The unit of the program that stands for the one in this space.
    skeleton: Option<u32>,
    units: Range<usize>,
}

/// All units.
pub(crate) struct Units {
    files: Vec<Loaded>,
    spaces: Vec<Space>,
    /// The units; those of one space are adjacent, sorted by offset.
    pub(crate) list: Vec<Unit>,
    signatures: HashMap<u64, TypeId>,
    /// Names of split units that were not found.
    pub(crate) missing: Vec<String>,
    /// Total size of units that justifies a thread, in bytes.
    pub(super) part_bytes: u64,
}

impl Units {
    pub(super) fn new(main: Loaded, folder: &Path) -> Result<Units, DebugError> {
        let program = main.path.clone();
        let mut units = Units {
            files: vec![main],
            spaces: Vec::new(),
            list: Vec::new(),
            signatures: HashMap::new(),
            missing: Vec::new(),
            part_bytes: PART_BYTES,
        };
        units.add_space(0, Part::Whole, None)?;
        let skeletons = units.skeletons();
        if !skeletons.is_empty() {
            units.add_split(&skeletons, program.as_deref(), folder);
        }
        Ok(units)
    }

    /// Adds the units of a set of sections.
    fn add_space(&mut self, file: usize, part: Part, skeleton: Option<u32>) -> Result<(), DebugError> {
        let start = self.list.len();
        let number = small(self.spaces.len())?;
        self.spaces.push(Space { file, part, skeleton, units: start..start });
        let mut found = Vec::new();
        {
            let view = View::new(self);
            let dwarf = view.dwarf(number)?;
            let mut infos = dwarf.units();
            let mut types = dwarf.type_units();
            // Units after a damaged header cannot be found; those before it can.
            while let Ok(Some(header)) = infos.next() {
                found.push(unit(number, false, &header));
            }
            while let Ok(Some(header)) = types.next() {
                found.push(unit(number, true, &header));
            }
        }
        for unit in found.into_iter().flatten() {
            if let Some((signature, offset)) = unit.type_of {
                let id = TypeId { unit: small(self.list.len())?, offset };
                self.signatures.entry(signature).or_insert(id);
            }
            self.list.push(unit);
        }
        if let Some(space) = self.spaces.last_mut() {
            space.units.end = self.list.len();
        }
        Ok(())
    }

    /// The program's units with split content: number and id, and the name and folder of the file.
    fn skeletons(&self) -> Vec<(u32, DwoId, String, String)> {
        let view = View::new(self);
        // Before DWARF 5 the header of a unit does not show that it is split, but then there is a section of addresses.
        let Ok(dwarf) = view.dwarf(0) else { return Vec::new() };
        let has_addresses = self.files.first().is_some_and(|file| {
            let addresses =
                file.sections.debug_addr.borrow(|bytes: &Vec<u8>| EndianSlice::new(bytes, file.endian));
            !addresses.reader().is_empty()
        });
        let mut found = Vec::new();
        for number in 0..self.list.len() {
            let Ok(number) = u32::try_from(number) else { break };
            let Ok(header) = view.header(number) else { continue };
            let is_split = match header.type_() {
                UnitType::Skeleton(_) => true,
                UnitType::Compilation => header.version() < 5 && has_addresses,
                _ => false,
            };
            if !is_split {
                continue;
            }
            let Ok(open) = view.open_once(number) else { continue };
            let (Some(id), Ok(Some(name))) = (open.unit.dwo_id, open.unit.dwo_name()) else { continue };
            let name = dwarf.attr_string(&open.unit, name).map(|name| name.to_string_lossy().into_owned());
            let folder = open.unit.comp_dir.map(|folder| folder.to_string_lossy().into_owned());
            found.push((number, id, name.unwrap_or_default(), folder.unwrap_or_default()));
        }
        found
    }

    /// Loads split units: from the package beside the program, or file by file.
    fn add_split(
        &mut self,
        skeletons: &[(u32, DwoId, String, String)],
        program: Option<&Path>,
        folder: &Path,
    ) {
        let package = program.and_then(|program| {
            let mut name = program.as_os_str().to_owned();
            name.push(".dwp");
            load_path(Path::new(&name), Flavour::Package).ok()
        });
        let package = package.map(|package| {
            self.files.push(package);
            self.files.len() - 1
        });
        if let Some(file) = package {
            self.add_type_rows(file);
        }
        for (number, id, name, compiled_in) in skeletons {
            if let Some(row) = package.and_then(|file| self.row(file, *id))
                && self.add_space(row.0, Part::CuRow(row.1), Some(*number)).is_ok()
            {
                continue;
            }
            let base = Path::new(name).file_name().map(PathBuf::from).unwrap_or_default();
            let places = [Path::new(compiled_in).join(name), folder.join(name), folder.join(base)];
            let found = (self.files.len() < MAX_SPLIT && program.is_some())
                .then(|| places.iter().find_map(|place| load_path(place, Flavour::Split).ok()))
                .flatten();
            match found {
                Some(file) => {
                    self.files.push(file);
                    // A file without any unit counts as missing, but is not an error.
                    let _ = self.add_space(self.files.len() - 1, Part::Whole, Some(*number));
                }
                None => self.missing.push(name.clone()),
            }
        }
    }

    fn row(&self, file: usize, id: DwoId) -> Option<(usize, u32)> {
        let loaded = self.files.get(file)?;
        let package = loaded.package.as_ref()?;
        let package = package
            .borrow(|bytes| EndianSlice::new(bytes, loaded.endian), EndianSlice::new(&[], loaded.endian))
            .ok()?;
        Some((file, package.cu_index.find(id.0)?))
    }

    fn add_type_rows(&mut self, file: usize) {
        let Some(loaded) = self.files.get(file) else { return };
        let n_rows = loaded.package.as_ref().and_then(|package| {
            let package = package
                .borrow(|bytes| EndianSlice::new(bytes, loaded.endian), EndianSlice::new(&[], loaded.endian));
            Some(package.ok()?.tu_index.unit_count())
        });
        for row in 1..=n_rows.unwrap_or(0) {
            // A row that is invalid only loses its own types.
            let _ = self.add_space(file, Part::TuRow(row), None);
        }
    }
}

impl Units {
    /// Runs `work` on all units: in parallel, if there are many, on as many threads as the machine has. The results for the
    /// parts of the list are returned in the order of the list.
    pub(crate) fn in_parts<T: Send>(&self, work: impl Fn(&View<'_>, Range<u32>) -> T + Sync) -> Vec<T> {
        let parts = self.parts();
        let next = AtomicUsize::new(0);
        let run = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(part) = parts.get(at) else { return done };
                done.push((at, work(&View::new(self), part.clone())));
            }
        };
        let n_threads = thread::available_parallelism().map_or(1, usize::from).min(parts.len());
        let mut done = thread::scope(|scope| {
            // If a thread cannot be started, the others take over its work.
            let start = |_| thread::Builder::new().spawn_scoped(scope, run).ok();
            let others: Vec<_> = (1..n_threads).filter_map(start).collect();
            let mut done = run();
            for other in others {
                match other.join() {
                    Ok(more) => done.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        });
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, made)| made).collect()
    }

    /// The list in parts of roughly equal size.
    fn parts(&self) -> Vec<Range<u32>> {
        let mut parts = Vec::new();
        let (mut start, mut n_bytes) = (0, 0);
        for (end, unit) in (1_u32..).zip(&self.list) {
            n_bytes += unit.len;
            if n_bytes >= self.part_bytes {
                parts.push(start..end);
                (start, n_bytes) = (end, 0);
            }
        }
        let end = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        if start < end {
            parts.push(start..end);
        }
        parts
    }
}

fn small(number: usize) -> Result<u32, DebugError> {
    u32::try_from(number).map_err(|_| DebugError::new("too many units"))
}

/// The stored form of a unit; `None` if its entries cannot be numbered with 32 bits.
fn unit(space: u32, in_types: bool, header: &UnitHeader<Slice<'_>>) -> Option<Unit> {
    let len = u64::try_from(header.length_including_self()).ok()?;
    u32::try_from(len).ok()?;
    let type_of = match header.type_() {
        UnitType::Type { type_signature, type_offset }
        | UnitType::SplitType { type_signature, type_offset } => {
            Some((type_signature.0, u32::try_from(type_offset.0).ok()?))
        }
        _ => None,
    };
    Some(Unit { space, in_types, offset: u64::try_from(header.offset().0).ok()?, len, type_of })
}

/// A unit that was opened for reading.
pub(crate) struct Open<'a> {
    pub(crate) dwarf: Rc<Dwarf<Slice<'a>>>,
    pub(crate) unit: gimli::Unit<Slice<'a>>,
    /// Its source language.
    pub(crate) language: gimli::DwLang,
}

impl<'a> Open<'a> {
    /// The text of an attribute.
    pub(crate) fn bytes(&self, value: Value<'a>) -> Option<&'a [u8]> {
        let bytes = self.dwarf.attr_string(&self.unit, value).ok()?.slice();
        Some(&bytes[..bytes.len().min(MAX_NAME)])
    }

    /// The text of an entry's attribute.
    pub(crate) fn text(&self, die: &Die<'a>, name: gimli::DwAt) -> Option<String> {
        Some(String::from_utf8_lossy(self.bytes(die.attr_value(name)?)?).into_owned())
    }

    /// The name of an entry.
    pub(crate) fn name(&self, die: &Die<'a>) -> Option<String> {
        self.text(die, gimli::DW_AT_name)
    }

    /// The address ranges of an entry's code; `None` if damage makes it end beyond the address space.
    ///
    /// `gimli` adds the length of the code to its start without an overflow check, so that is checked here first.
    pub(super) fn ranges(&self, die: &Die<'a>) -> Option<gimli::RangeIter<Slice<'a>>> {
        let (mut start, mut len) = (0, 0);
        for attr in die.attrs() {
            match (attr.name(), attr.value()) {
                (gimli::DW_AT_low_pc, value) => start = self.dwarf.attr_address(&self.unit, value).ok()??,
                (gimli::DW_AT_high_pc, AttributeValue::Udata(bytes)) => len = bytes,
                _ => {}
            }
        }
        start.checked_add(len)?;
        self.dwarf.die_ranges(&self.unit, die).ok()
    }

    pub(crate) fn is_c(&self) -> bool {
        matches!(
            self.language,
            gimli::DW_LANG_C
                | gimli::DW_LANG_C89
                | gimli::DW_LANG_C99
                | gimli::DW_LANG_C11
                | gimli::DW_LANG_C17
        )
    }

    pub(crate) fn is_cpp(&self) -> bool {
        matches!(
            self.language,
            gimli::DW_LANG_C_plus_plus
                | gimli::DW_LANG_C_plus_plus_03
                | gimli::DW_LANG_C_plus_plus_11
                | gimli::DW_LANG_C_plus_plus_14
                | gimli::DW_LANG_C_plus_plus_17
                | gimli::DW_LANG_C_plus_plus_20
        )
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.language == gimli::DW_LANG_Rust
    }
}

/// Units opened for one query.
pub(crate) struct View<'a> {
    pub(crate) units: &'a Units,
    dwarfs: RefCell<FxHashMap<u32, Rc<Dwarf<Slice<'a>>>>>,
    open: RefCell<FxHashMap<u32, Rc<Open<'a>>>>,
}

impl<'a> View<'a> {
    pub(crate) fn new(units: &'a Units) -> View<'a> {
        View { units, dwarfs: RefCell::default(), open: RefCell::default() }
    }

    pub(super) fn dwarf(&self, space: u32) -> Result<Rc<Dwarf<Slice<'a>>>, DebugError> {
        if let Some(dwarf) = self.dwarfs.borrow().get(&space) {
            return Ok(Rc::clone(dwarf));
        }
        let lost = || DebugError::new("no such unit");
        let of = usize::try_from(space).ok().and_then(|at| self.units.spaces.get(at)).ok_or_else(lost)?;
        let file = self.units.files.get(of.file).ok_or_else(lost)?;
        let mut dwarf = match (&of.part, &file.package) {
            (Part::CuRow(row) | Part::TuRow(row), Some(package)) => {
                let package = package.borrow(
                    |bytes| EndianSlice::new(bytes, file.endian),
                    EndianSlice::new(&[], file.endian),
                )?;
                let parent = self.dwarf(0)?;
                match of.part {
                    Part::TuRow(_) => package.tu_sections(*row, &parent)?,
                    _ => package.cu_sections(*row, &parent)?,
                }
            }
            _ => {
                let mut dwarf = file.sections.borrow(|bytes| EndianSlice::new(bytes, file.endian));
                if of.skeleton.is_some() {
                    dwarf.file_type = DwarfFileType::Dwo;
                    dwarf.make_dwo(&*self.dwarf(0)?);
                }
                dwarf
            }
        };
        if space != 0 {
            // The names of source files stay in the program, together with the lines.
            dwarf.debug_line_str = self.dwarf(0)?.debug_line_str;
        }
        let dwarf = Rc::new(dwarf);
        self.dwarfs.borrow_mut().insert(space, Rc::clone(&dwarf));
        Ok(dwarf)
    }

    pub(super) fn header(&self, number: u32) -> Result<UnitHeader<Slice<'a>>, DebugError> {
        let lost = || DebugError::new("no such unit");
        let unit = usize::try_from(number).ok().and_then(|at| self.units.list.get(at)).ok_or_else(lost)?;
        let dwarf = self.dwarf(unit.space)?;
        let offset = usize::try_from(unit.offset).map_err(|_| lost())?;
        if unit.in_types {
            // The only way to access one of these is to slice the section.
            let section = dwarf.debug_types.reader().slice().get(offset..).ok_or_else(lost)?;
            let section = EndianSlice::new(section, dwarf.debug_types.reader().endian());
            return gimli::DebugTypes::from(section).units().next()?.ok_or_else(lost);
        }
        Ok(dwarf.unit_header(gimli::DebugInfoOffset(offset))?)
    }

    /// Opens a unit without caching it.
    pub(crate) fn open_once(&self, number: u32) -> Result<Open<'a>, DebugError> {
        let header = self.header(number)?;
        let at = |error: gimli::Error| self.error(number, error);
        let (space, dwarf) = {
            let unit = &self.units.list[number as usize];
            (unit.space, self.dwarf(unit.space)?)
        };
        let mut unit = dwarf.unit(header).map_err(at)?;
        if let Some(skeleton) = self.units.spaces[space as usize].skeleton {
            let program = self.dwarf(0)?;
            let skeleton = program.unit(self.header(skeleton)?).map_err(at)?;
            unit.copy_relocated_attributes(&skeleton);
            // Lines stay in the program, and the folder is only recorded there.
            unit.comp_dir = unit.comp_dir.or(skeleton.comp_dir);
            if unit.line_program.is_none() {
                unit.line_program = skeleton.line_program;
            }
        }
        let root = unit.entry(unit.header.root_offset()).map_err(at)?;
        let language = match root.attr_value(gimli::DW_AT_language) {
            Some(AttributeValue::Language(language)) => language,
            _ => gimli::DwLang(0),
        };
        Ok(Open { dwarf, unit, language })
    }

    /// Opens a unit, or returns it from the cache.
    pub(crate) fn open(&self, number: u32) -> Result<Rc<Open<'a>>, DebugError> {
        if let Some(open) = self.open.borrow().get(&number) {
            return Ok(Rc::clone(open));
        }
        let open = Rc::new(self.open_once(number)?);
        self.open.borrow_mut().insert(number, Rc::clone(&open));
        Ok(open)
    }

    /// An entry and its unit.
    pub(crate) fn entry(&self, id: TypeId) -> Result<(Rc<Open<'a>>, Die<'a>), DebugError> {
        let open = self.open(id.unit)?;
        let die = open.unit.entry(unit_offset(id)).map_err(|error| self.error(id.unit, error))?;
        Ok((open, die))
    }

    /// The target of a reference in a unit.
    pub(crate) fn target(&self, unit: u32, value: Option<Value<'a>>) -> Option<TypeId> {
        match value? {
            AttributeValue::UnitRef(offset) => Some(TypeId { unit, offset: u32::try_from(offset.0).ok()? }),
            AttributeValue::DebugInfoRef(offset) => {
                let space = self.units.list.get(usize::try_from(unit).ok()?)?.space;
                let range = self.units.spaces.get(usize::try_from(space).ok()?)?.units.clone();
                let list = self.units.list.get(range.clone())?;
                let offset = u64::try_from(offset.0).ok()?;
                let before = list.partition_point(|unit| !unit.in_types && unit.offset <= offset);
                let at = before.checked_sub(1)?;
                let found = list.get(at)?;
                let inside = offset.checked_sub(found.offset).filter(|inside| *inside < found.len)?;
                Some(TypeId {
                    unit: u32::try_from(range.start + at).ok()?,
                    offset: u32::try_from(inside).ok()?,
                })
            }
            AttributeValue::DebugTypesRef(signature) => self.units.signatures.get(&signature.0).copied(),
            _ => None,
        }
    }

    /// The entry that an entry's attribute refers to.
    pub(crate) fn reference(&self, unit: u32, die: &Die<'a>, name: gimli::DwAt) -> Option<TypeId> {
        self.target(unit, die.attr_value(name))
    }

    /// An error of `gimli`, with its place.
    #[cold]
    pub(crate) fn error(&self, unit: u32, error: gimli::Error) -> DebugError {
        let mut plain = DebugError::from(error);
        if let Some(unit) = usize::try_from(unit).ok().and_then(|at| self.units.list.get(at)) {
            plain =
                plain.in_section(if unit.in_types { ".debug_types" } else { ".debug_info" }).at(unit.offset);
        }
        plain
    }
}

/// An offset in a unit in `gimli`'s form.
pub(crate) fn unit_offset(id: TypeId) -> gimli::UnitOffset<usize> {
    // 32 bits fit on any machine that can hold debug information of that size.
    gimli::UnitOffset(usize::try_from(id.offset).unwrap_or(usize::MAX))
}

impl From<gimli::Error> for DebugError {
    #[cold]
    fn from(error: gimli::Error) -> DebugError {
        DebugError::new(format!("damaged debug information: {error}"))
    }
}
