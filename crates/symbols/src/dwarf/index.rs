//! The names of all types, and the look-up of a name.
//!
//! One walk over all entries records a few bytes for each named type: its position, its scope, and a hash of its own name;
//! and the positions of variables and functions. A look-up goes through the entries of equal hash and compares full names,
//! which are read from the entries again. So the index is small, and stores no names.

use super::names::{Spelling, bare, numbers, own_name, split_keyword};
use super::read::Reading;
use super::units::{Die, Open, Units, View, unit_offset};
use super::walk::{MAX_NESTING, Met, Role, Tables, Visit, is_type, walk};
use super::{DebugError, DebugInfo, MAX_DEPTH, TypeId};
use gimli::{DwAt, DwTag};
use rustc_hash::FxHasher;
use std::collections::HashMap;
use std::hash::Hasher;

/// No entry.
const NONE: u32 = u32::MAX;
/// Maximum length of a chain of declarations of one thing.
pub(super) const MAX_ORIGINS: usize = 4;

/// A type, or a scope of types, variables and functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: TypeId,
    /// Its scope, as a number of this list.
    parent: u32,
    /// Offset of the end of its children.
    end: u32,
    pub(crate) tag: DwTag,
    pub(crate) is_declaration: bool,
    /// True for a namespace whose name may be left out.
    is_inline: bool,
}

/// The names of all types, and the positions of variables and functions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// In the order of units and offsets.
    pub(crate) entries: Vec<Entry>,
    names: Names,
    /// Variables that begin with an address, in the same order.
    pub(super) variables: Vec<TypeId>,
    /// Functions that have code, in the same order.
    pub(super) functions: Vec<TypeId>,
}

fn hash(name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name);
    // Makes the first bits as significant as the last.
    hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// True for entries that are part of the qualified names of types.
fn is_scope(tag: DwTag) -> bool {
    is_type(tag) || matches!(tag, gimli::DW_TAG_namespace | gimli::DW_TAG_module | gimli::DW_TAG_subprogram)
}

/// Names by their hashes: the first bits select a run of slots, others are compared.
#[derive(Debug, Default, PartialEq, Eq)]
struct Names {
    /// Start of the slots of each run; one more at the end.
    starts: Vec<u32>,
    /// Further bits of the hash, and the entry, in the order of entries.
    slots: Vec<(u32, u32)>,
}

impl Names {
    /// Sorts hashes and entries into runs. Names after the first `u32::MAX` are dropped.
    fn new(n_names: usize, names: impl Iterator<Item = (u64, u32)> + Clone) -> Names {
        let n_names = n_names.min(NONE as usize);
        let n_runs = n_names.next_power_of_two();
        let mut starts = vec![0_u32; n_runs + 1];
        names.clone().take(n_names).for_each(|(hash, _)| starts[run(hash, n_runs) + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut slots = vec![(0, 0); n_names];
        let mut next = starts.clone();
        for (hash, entry) in names.take(n_names) {
            let at = &mut next[run(hash, n_runs)];
            slots[*at as usize] = (hash as u32, entry);
            *at += 1;
        }
        Names { starts, slots }
    }

    /// The entries with this hash.
    fn of(&self, hash: u64) -> impl Iterator<Item = u32> {
        let run = run(hash, self.starts.len().saturating_sub(1));
        let at = |run: usize| self.starts.get(run).map_or(0, |at| *at as usize);
        let slots = self.slots.get(at(run)..at(run + 1)).unwrap_or_default();
        slots.iter().filter(move |(other, _)| *other == hash as u32).map(|(_, entry)| *entry)
    }
}

/// The run of a hash, from its first bits.
fn run(hash: u64, n_runs: usize) -> usize {
    ((u128::from(hash) * n_runs as u128) >> 64) as usize
}

/// The results for a part of the list of units.
#[derive(Default)]
struct Found {
    entries: Vec<Entry>,
    names: Vec<(u64, u32)>,
    variables: Vec<TypeId>,
    functions: Vec<TypeId>,
}

/// An entry whose children are being walked.
struct Frame {
    id: TypeId,
    tag: DwTag,
    entry: u32,
}

/// State of indexing one unit.
struct Listing<'b, 'a> {
    view: &'b View<'a>,
    unit: u32,
    found: &'b mut Found,
    frames: Vec<Frame>,
}

impl Visit for Listing<'_, '_> {
    fn entry(&mut self, met: &Met<'_, '_>) {
        let id = TypeId { unit: self.unit, offset: met.offset };
        let mut number = NONE;
        match met.role {
            Role::Type | Role::Scope => {
                let parent = self.parent();
                let is_declaration = met.is_declaration || met.role == Role::Scope;
                number = self.push(Entry {
                    id,
                    parent,
                    end: met.end,
                    tag: met.tag,
                    is_declaration,
                    is_inline: met.is_inline,
                });
                if met.role == Role::Type && number != NONE {
                    self.add_name(met, id, number);
                }
            }
            Role::Variable => {
                self.parent();
                self.found.variables.push(id);
            }
            Role::Function { has_code: true } => {
                self.parent();
                self.found.functions.push(id);
            }
            _ => {}
        }
        if met.has_children {
            self.frames.push(Frame { id, tag: met.tag, entry: number });
        }
    }

    fn end(&mut self, offset: u32) {
        let ended = self.frames.pop().and_then(|frame| usize::try_from(frame.entry).ok());
        if let Some(entry) = ended.and_then(|entry| self.found.entries.get_mut(entry)) {
            entry.end = offset;
        }
    }
}

impl Listing<'_, '_> {
    /// The enclosing entry, which is added now if nothing in it was reported before.
    fn parent(&mut self) -> u32 {
        let known = self.frames.iter().rposition(|frame| frame.entry != NONE);
        let mut parent = known.map_or(NONE, |at| self.frames[at].entry);
        for at in known.map_or(0, |at| at + 1)..self.frames.len() {
            let Frame { id, tag, .. } = self.frames[at];
            if is_scope(tag) {
                parent = self.push(Entry {
                    id,
                    parent,
                    end: id.offset,
                    tag,
                    is_declaration: true,
                    is_inline: false,
                });
                self.frames[at].entry = parent;
            }
        }
        parent
    }

    /// Adds an entry, if it can be numbered.
    fn push(&mut self, entry: Entry) -> u32 {
        let number = u32::try_from(self.found.entries.len()).unwrap_or(NONE);
        if number != NONE {
            self.found.entries.push(entry);
        }
        number
    }

    fn add_name(&mut self, met: &Met<'_, '_>, id: TypeId, number: u32) {
        if let Some(name) = met.name() {
            self.found.names.push((hash(name), number));
            if let Some(name) = bare(name) {
                self.found.names.push((hash(name), number));
            }
        } else if met.is_specified()
            && let Ok(name) = name_of(self.view, id)
        {
            // A class that is declared in another one and defined outside has its name there.
            self.found.names.push((hash(name.as_bytes()), number));
        }
    }
}

impl Index {
    pub(crate) fn new(units: &Units) -> Index {
        let parts = units.in_parts(|view, part| {
            let mut found = Found::default();
            let mut tables = Tables::default();
            for unit in part {
                let mut listing = Listing { view, unit, found: &mut found, frames: Vec::new() };
                walk(units, view, &mut tables, unit, &mut listing);
            }
            found
        });
        let mut index = Index::default();
        index.entries.reserve_exact(parts.iter().map(|part| part.entries.len()).sum());
        let mut starts = Vec::with_capacity(parts.len());
        for part in &parts {
            // Entries that cannot be numbered are dropped.
            let room = (NONE as usize).saturating_sub(index.entries.len());
            let before = u32::try_from(index.entries.len()).unwrap_or(NONE);
            starts.push(before);
            let entries = part.entries.iter().take(room);
            index
                .entries
                .extend(entries.map(|entry| Entry { parent: moved(entry.parent, before), ..*entry }));
            index.variables.extend(&part.variables);
            index.functions.extend(&part.functions);
        }
        let names = parts.iter().zip(&starts).flat_map(|(part, before)| {
            part.names.iter().map(|(hash, entry)| (*hash, moved(*entry, *before)))
        });
        index.names = Names::new(parts.iter().map(|part| part.names.len()).sum(), names);
        index
    }

    /// The scope of an entry, whether or not the entry is in this list.
    pub(super) fn scope_of(&self, id: TypeId) -> Option<TypeId> {
        // The preceding entry is the scope, or lies within it. A scope is added when the first entry in it is found, so the
        // list is in the order of the file.
        let mut at = self.entries.partition_point(|entry| entry.id < id).checked_sub(1)?;
        for _ in 0..=MAX_NESTING {
            let entry = self.entries.get(at).filter(|entry| entry.id.unit == id.unit)?;
            if entry.end > id.offset {
                return Some(entry.id);
            }
            at = usize::try_from(entry.parent).ok()?;
        }
        None
    }

    /// Entries whose own name has this hash.
    pub(super) fn candidates(&self, name: &[u8]) -> impl Iterator<Item = Entry> {
        self.names.of(hash(name)).filter_map(|entry| self.entries.get(usize::try_from(entry).ok()?).copied())
    }
}

/// The number of a part's entry in the whole list.
fn moved(number: u32, before: u32) -> u32 {
    if number == NONE { NONE } else { number.saturating_add(before) }
}

/// The quality of a match; less is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_declaration: bool,
    is_inexact: bool,
    is_typedef: bool,
}

impl DebugInfo {
    /// The type of this name.
    ///
    /// Names are spelled as in C (`struct X`, `X`), C++ (`ns::Outer::X<int>`), Rust (`core::option::Option<u32>`) or LLVM
    /// (`struct.X`, `class.ns::X`). An alias of a type leads to the type. If there is no type of exactly this name, a number
    /// after it is taken for LLVM's (`struct.X.12`). Then template arguments may be missing (the last ones or all), and
    /// namespaces may be missing, those within a path only if they are inline or unnamed. Blanks may differ, and so may the
    /// order of `const` and of words as in `unsigned long`; `std::string` and the like stand for their definitions.
    /// Definitions take precedence over declarations.
    pub fn find(&self, name: &str) -> Option<TypeId> {
        let (tags, name) = split_keyword(name.trim());
        let found = self.find_exactly(tags, name).or_else(|| {
            let (short, number) = name.rsplit_once('.')?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| self.find_exactly(tags, short)).flatten()
        })?;
        Some(Reading::new(self, &self.view()).behind(found, |tag| tag == gimli::DW_TAG_typedef))
    }

    fn find_exactly(&self, tags: &[DwTag], name: &str) -> Option<TypeId> {
        let view = self.view();
        let own = own_name(name);
        let mut best: Option<(Rank, Entry, String)> = None;
        // With arguments, others may follow that are only written if they differ from the default.
        let short = bare(own.as_bytes());
        let index = self.index();
        let candidates = index.candidates(own.as_bytes());
        let candidates = candidates.chain(short.into_iter().flat_map(|short| index.candidates(short)));
        let numbers = numbers(name);
        for entry in candidates.chain(numbers.iter().flat_map(|name| index.candidates(name.as_bytes()))) {
            let is_typedef = entry.tag == gimli::DW_TAG_typedef;
            if !(tags.is_empty() || tags.contains(&entry.tag) || is_typedef) {
                continue;
            }
            let is_declaration = entry.is_declaration;
            let is_bound_to_lose = |is_inexact: bool| {
                let rank = Rank { is_declaration, is_inexact, is_typedef };
                best.as_ref().is_some_and(|(other, ..)| *other <= rank && !is_inexact)
            };
            if is_bound_to_lose(false) {
                continue;
            }
            let Ok(path) = path_of(self, &view, entry.id) else { continue };
            let is_inexact = path != name;
            if is_inexact && !self.spelling().matches(&path, name) {
                continue;
            }
            let rank = Rank { is_declaration, is_inexact, is_typedef };
            match &best {
                Some((other, ..)) if *other < rank => {}
                // If a short name could mean two types, the first by name is chosen, so that the answer is stable.
                Some((other, _, known)) if *other == rank && *known <= path => {}
                _ => best = Some((rank, entry, path)),
            }
        }
        best.map(|(_, entry, _)| entry.id)
    }

    /// The parts that names may leave out.
    fn spelling(&self) -> &Spelling {
        self.spelling.get_or_init(|| {
            let view = self.view();
            let inline = self.index().entries.iter().filter(|entry| entry.is_inline);
            Spelling::new(inline.filter_map(|entry| path_of(self, &view, entry.id).ok()).collect())
        })
    }

    /// The definition of a type that is declared here: by its signature, or by its name.
    pub fn definition(&self, id: TypeId) -> Option<TypeId> {
        let view = self.view();
        definition(self, &view, id)
    }

    /// All types with a name of their own: structures, classes, unions, enumerations, aliases, in the order of the file. A
    /// type that occurs in several units is returned several times.
    pub fn type_ids(&self) -> impl Iterator<Item = TypeId> + '_ {
        self.index().entries.iter().filter(|entry| is_type(entry.tag)).map(|entry| entry.id)
    }
}

/// The definition of a type that is declared here.
pub(crate) fn definition<'a>(info: &DebugInfo, view: &View<'a>, id: TypeId) -> Option<TypeId> {
    let (_, die) = view.entry(id).ok()?;
    if let Some(target) = view.reference(id.unit, &die, gimli::DW_AT_signature) {
        return Some(target);
    }
    if die.attr(gimli::DW_AT_declaration).is_none() {
        return Some(id);
    }
    let path = path_of(info, view, id).ok()?;
    let same = info.index().candidates(own_name(&path).as_bytes()).filter(|entry| !entry.is_declaration);
    let mut same = same.filter(|entry| kinds_agree(entry.tag, die.tag()));
    same.find(|entry| path_of(info, view, entry.id).is_ok_and(|other| other == path)).map(|entry| entry.id)
}

fn kinds_agree(a: DwTag, b: DwTag) -> bool {
    let plain = |tag| if tag == gimli::DW_TAG_class_type { gimli::DW_TAG_structure_type } else { tag };
    plain(a) == plain(b)
}

/// The qualified name of a type.
pub(crate) fn path_of<'a>(info: &DebugInfo, view: &View<'a>, id: TypeId) -> Result<String, DebugError> {
    let index = info.index();
    let mut parts = Vec::new();
    let mut at = Some(id);
    for _ in 0..=MAX_DEPTH {
        let Some(id) = at else { break };
        let (_, die) = view.entry(id)?;
        // A placeholder for a type in a type unit has its name and scope there.
        let id = view.reference(id.unit, &die, gimli::DW_AT_signature).unwrap_or(id);
        let name = name_of(view, id)?;
        // Clang may put variables of a function without code into a function entry without attributes.
        if parts.is_empty() || name != anonymous(gimli::DW_TAG_null) {
            parts.push(name);
        }
        // An entry that is defined outside of its declaration has its scope at the declaration.
        at = declared_at(view, id).and_then(|other| index.scope_of(other)).or_else(|| index.scope_of(id));
    }
    parts.reverse();
    Ok(parts.join("::"))
}

/// The declaration of an entry that is defined elsewhere.
fn declared_at(view: &View<'_>, id: TypeId) -> Option<TypeId> {
    let (mut at, mut found) = (id, None);
    for _ in 0..MAX_ORIGINS {
        let (_, die) = view.entry(at).ok()?;
        let declared = view.reference(at.unit, &die, gimli::DW_AT_specification);
        // Variables of a function's copies are enclosed by that copy, which leads to the function.
        let is_function = die.tag() == gimli::DW_TAG_subprogram;
        let origin = || view.reference(at.unit, &die, gimli::DW_AT_abstract_origin);
        at = match declared.or_else(origin) {
            Some(other) => other,
            None => break,
        };
        if declared.is_some() || is_function {
            found = Some(at);
        }
    }
    found
}

/// The own name of an entry.
fn name_of(view: &View<'_>, id: TypeId) -> Result<String, DebugError> {
    let mut at = id;
    for _ in 0..MAX_ORIGINS {
        let (open, die) = view.entry(at)?;
        if let Some(name) = open.name(&die) {
            return Ok(name);
        }
        let other = [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin]
            .into_iter()
            .find_map(|attribute: DwAt| view.reference(at.unit, &die, attribute));
        match other {
            Some(other) => at = other,
            None => return Ok(anonymous(die.tag()).to_owned()),
        }
    }
    Ok(anonymous(gimli::DW_TAG_null).to_owned())
}

/// The placeholder for a missing name.
pub(crate) fn anonymous(tag: DwTag) -> &'static str {
    match tag {
        gimli::DW_TAG_structure_type => "<anonymous struct>",
        gimli::DW_TAG_class_type => "<anonymous class>",
        gimli::DW_TAG_union_type => "<anonymous union>",
        gimli::DW_TAG_enumeration_type => "<anonymous enum>",
        gimli::DW_TAG_namespace => "(anonymous namespace)",
        _ => "<anonymous>",
    }
}

/// Aliases of types that have no name of their own; if there are several, the first by name.
pub(crate) fn aliases(info: &DebugInfo) -> HashMap<TypeId, String> {
    let view = info.view();
    let reading = Reading::new(info, &view);
    let mut aliases: HashMap<TypeId, String> = HashMap::new();
    for entry in info.index().entries.iter().filter(|entry| entry.tag == gimli::DW_TAG_typedef) {
        let Ok((_, die)) = view.entry(entry.id) else { continue };
        let Some(target) = view.reference(entry.id.unit, &die, gimli::DW_AT_type) else { continue };
        let target = reading.behind_names(target);
        let Ok((open, die)) = view.entry(target) else { continue };
        if open.name(&die).is_some() || !is_type(die.tag()) {
            continue;
        }
        if let Ok(path) = path_of(info, &view, entry.id) {
            let known = aliases.entry(target).or_insert_with(|| path.clone());
            if path < *known {
                *known = path;
            }
        }
    }
    aliases
}

/// Calls `each` for the descendants of the entry at `id`; direct children have depth 1.
pub(crate) fn children<'a>(
    view: &View<'a>,
    open: &Open<'a>,
    id: TypeId,
    mut each: impl FnMut(&Die<'a>),
) -> Result<(), DebugError> {
    let at = |error| view.error(id.unit, error);
    let mut raw = open.unit.entries_raw(Some(unit_offset(id))).map_err(at)?;
    let mut die = Die::null();
    let start = raw.next_depth();
    if !raw.read_entry(&mut die).map_err(at)? || !die.has_children() {
        return Ok(());
    }
    while !raw.is_empty() {
        let is_entry = raw.read_entry(&mut die).map_err(at)?;
        if is_entry {
            each(&die);
        } else if raw.next_depth() <= start {
            break;
        }
    }
    Ok(())
}
