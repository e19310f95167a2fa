//! The names of all types, and the look-up of a name.
//!
//! One walk over all entries writes down 24 bytes for each type with a name: where it is, what it stands in, and a hash of
//! its own name. A look-up goes through those of equal hash and compares whole names, which are read from the entries
//! again. So the index is small, and nothing is kept of names.

use super::read::Reading;
use super::units::{Die, Open, Slice, Units, Value, View, unit_offset};
use super::{DebugError, DebugInfo, MAX_DEPTH, TypeId};
use gimli::{AttributeSpecification, DwAt, DwTag};
use rustc_hash::FxHasher;
use std::collections::HashMap;
use std::hash::Hasher;

/// No entry.
const NONE: u32 = u32::MAX;
/// How deep entries are nested at most; what is deeper is not indexed.
const MAX_NESTING: usize = 512;

/// A type, or what types stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: TypeId,
    /// What it stands in, as a number of this list.
    parent: u32,
    pub(crate) tag: DwTag,
    pub(crate) is_declaration: bool,
}

/// The names of all types.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// In the order of units and offsets.
    pub(crate) entries: Vec<Entry>,
    /// Hashes of names, and entries; sorted.
    names: Vec<(u64, u32)>,
}

fn hash(name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name);
    hasher.finish()
}

/// A name without the arguments of its template; `None` if it has none.
fn bare(name: &[u8]) -> Option<&[u8]> {
    let at = name.iter().position(|byte| *byte == b'<')?;
    (at > 0 && name.ends_with(b">")).then(|| name[..at].trim_ascii_end())
}

/// What can be looked up.
fn is_type(tag: DwTag) -> bool {
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

/// What the names of types are part of.
fn is_scope(tag: DwTag) -> bool {
    is_type(tag) || matches!(tag, gimli::DW_TAG_namespace | gimli::DW_TAG_module | gimli::DW_TAG_subprogram)
}

/// An entry that is open while its children are walked.
struct Frame {
    id: TypeId,
    tag: DwTag,
    entry: u32,
}

impl Index {
    pub(crate) fn new(units: &Units) -> Index {
        let parts = units.in_parts(|view, part| {
            let mut index = Index::default();
            for unit in part {
                if let Ok(open) = view.open_once(unit) {
                    // What stands behind damage in a unit is lost; what stands before it counts.
                    let _ = index.add_unit(view, &open, unit);
                }
            }
            index.names.sort_unstable();
            index
        });
        let mut parts = parts.into_iter();
        let mut index = parts.next().unwrap_or_default();
        parts.for_each(|part| index.append(part));
        // PERF: this sort puts together what is sorted in parts.
        index.names.sort();
        index
    }

    /// Adds the names of units that come behind.
    fn append(&mut self, part: Index) {
        // Those that cannot be numbered are left out.
        let room = (NONE as usize).saturating_sub(self.entries.len());
        let before = u32::try_from(self.entries.len()).unwrap_or(NONE);
        let moved = |number: u32| if number == NONE { NONE } else { number.saturating_add(before) };
        let entries = part.entries.into_iter().take(room);
        self.entries.extend(entries.map(|entry| Entry { parent: moved(entry.parent), ..entry }));
        let names = part.names.into_iter().map(|(hash, entry)| (hash, moved(entry)));
        self.names.extend(names.filter(|(_, entry)| *entry != NONE));
    }

    fn add_unit<'a>(&mut self, view: &View<'a>, open: &Open<'a>, unit: u32) -> Result<(), gimli::Error> {
        let mut raw = open.unit.entries_raw(None)?;
        let mut frames: Vec<Frame> = Vec::new();
        while !raw.is_empty() {
            let offset = raw.next_offset();
            let depth = usize::try_from(raw.next_depth()).unwrap_or(0);
            let Some(abbreviation) = raw.read_abbreviation()? else { continue };
            let tag = abbreviation.tag();
            frames.truncate(depth);
            let id = TypeId { unit, offset: u32::try_from(offset.0).unwrap_or(NONE) };
            let mut entry = NONE;
            if is_type(tag) {
                let found = Named::read(&mut raw, abbreviation.attributes())?;
                if self.entries.len() < NONE as usize {
                    let parent = self.parent(&mut frames);
                    entry = u32::try_from(self.entries.len()).unwrap_or(NONE);
                    self.entries.push(Entry { id, parent, tag, is_declaration: found.is_declaration });
                    self.add_name(view, open, unit, entry, &found);
                }
            } else {
                raw.skip_attributes(abbreviation.attributes())?;
            }
            // Frames stand at their depth, so those in between must exist.
            if abbreviation.has_children() && depth == frames.len() && depth < MAX_NESTING {
                frames.push(Frame { id, tag, entry });
            }
        }
        Ok(())
    }

    /// The entry that is around, made now if nothing in it was named before.
    fn parent(&mut self, frames: &mut [Frame]) -> u32 {
        let mut parent = NONE;
        for frame in frames {
            if !is_scope(frame.tag) {
                continue;
            }
            if frame.entry == NONE {
                frame.entry = u32::try_from(self.entries.len()).unwrap_or(NONE);
                self.entries.push(Entry { id: frame.id, parent, tag: frame.tag, is_declaration: true });
            }
            parent = frame.entry;
        }
        parent
    }

    fn add_name<'a>(&mut self, view: &View<'a>, open: &Open<'a>, unit: u32, entry: u32, found: &Named<'a>) {
        if let Some(name) = found.name.and_then(|name| open.bytes(name)) {
            self.names.push((hash(name), entry));
            if let Some(name) = bare(name) {
                self.names.push((hash(name), entry));
            }
        } else if let Some(other) = found.specification.and_then(|other| view.target(unit, Some(other)))
            && let Ok((open, die)) = view.entry(other)
            && let Some(name) = open.name(&die)
        {
            // A class that is declared in another and defined outside has its name there.
            self.names.push((hash(name.as_bytes()), entry));
        }
    }

    /// The number of an entry.
    fn number(&self, id: TypeId) -> Option<usize> {
        // A scope is written down when the first type in it is found, so the list is in the order of the file all the same.
        self.entries.binary_search_by_key(&id, |entry| entry.id).ok()
    }

    /// What a type stands in.
    fn parent_of(&self, id: TypeId) -> Option<TypeId> {
        let entry = self.entries.get(self.number(id)?)?;
        self.entries.get(usize::try_from(entry.parent).ok()?).map(|entry| entry.id)
    }

    /// Entries whose own name has this hash.
    fn candidates(&self, name: &[u8]) -> impl Iterator<Item = Entry> {
        let hash = hash(name);
        let from = self.names.partition_point(|(other, _)| *other < hash);
        let with = self.names[from..].iter().take_while(move |(other, _)| *other == hash);
        with.filter_map(|(_, entry)| self.entries.get(usize::try_from(*entry).ok()?).copied())
    }
}

/// What the index wants to know of an entry.
#[derive(Default)]
struct Named<'a> {
    name: Option<Value<'a>>,
    specification: Option<Value<'a>>,
    is_declaration: bool,
}

impl<'a> Named<'a> {
    fn read(
        raw: &mut gimli::EntriesRaw<'_, Slice<'a>>,
        attributes: &[AttributeSpecification],
    ) -> Result<Named<'a>, gimli::Error> {
        let is_asked = |attribute: &AttributeSpecification| {
            matches!(
                attribute.name(),
                gimli::DW_AT_name
                    | gimli::DW_AT_specification
                    | gimli::DW_AT_declaration
                    | gimli::DW_AT_signature
            )
        };
        let mut found = Named::default();
        let n_asked = attributes.iter().rposition(is_asked).map_or(0, |last| last + 1);
        let (asked, others) = attributes.split_at(n_asked);
        for attribute in asked {
            let read = raw.read_attribute(*attribute)?;
            match read.name() {
                gimli::DW_AT_name => found.name = Some(read.value()),
                gimli::DW_AT_specification => found.specification = Some(read.value()),
                gimli::DW_AT_declaration | gimli::DW_AT_signature => found.is_declaration = true,
                _ => {}
            }
        }
        raw.skip_attributes(others)?;
        Ok(found)
    }
}

/// How well a candidate matches; less is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_declaration: bool,
    is_inexact: bool,
    is_typedef: bool,
}

impl DebugInfo {
    /// The type of this name.
    ///
    /// Names are as C (`struct X`, `X`), C++ (`ns::Outer::X<int>`), Rust (`core::option::Option<u32>`) or LLVM
    /// (`struct.X`, `class.ns::X`) writes them. Another name of a type leads to the type. If there is no type of exactly
    /// this name, a number behind it counts as LLVM's (`struct.X.12`); then arguments of templates may be missing, the last of
    /// them or all, or namespaces, and blanks may be others. Definitions go before declarations.
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
        // With arguments, others may follow that are written only where they differ from what is usual.
        let short = bare(own.as_bytes());
        let index = self.index();
        let candidates = index.candidates(own.as_bytes());
        for entry in candidates.chain(short.into_iter().flat_map(|short| index.candidates(short))) {
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
            if is_inexact && !matches_loosely(&path, name) {
                continue;
            }
            let rank = Rank { is_declaration, is_inexact, is_typedef };
            match &best {
                Some((other, ..)) if *other < rank => {}
                // Two types that a short name could mean: the one that is first by name, so that the answer is always the same.
                Some((other, _, known)) if *other == rank && *known <= path => {}
                _ => best = Some((rank, entry, path)),
            }
        }
        best.map(|(_, entry, _)| entry.id)
    }

    /// The definition of a type that is declared here: by its signature, or by its name.
    pub fn definition(&self, id: TypeId) -> Option<TypeId> {
        let view = self.view();
        definition(self, &view, id)
    }

    /// All types with a name of their own: structures, classes, unions, enumerations, other names, in the order of the file.
    /// A type that several units know comes several times.
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

/// The name of a type with everything around it.
pub(crate) fn path_of<'a>(info: &DebugInfo, view: &View<'a>, id: TypeId) -> Result<String, DebugError> {
    let index = info.index();
    let mut parts = Vec::new();
    let mut at = Some(id);
    while let Some(id) = at.filter(|_| parts.len() <= MAX_DEPTH) {
        let (_, die) = view.entry(id)?;
        // What stands for a type in a unit of its own has its name and surroundings there.
        let id = view.reference(id.unit, &die, gimli::DW_AT_signature).unwrap_or(id);
        parts.push(name_of(view, id)?);
        // What is defined outside of where it is declared has its surroundings there, too.
        let (_, die) = view.entry(id)?;
        let declared = view.reference(id.unit, &die, gimli::DW_AT_specification);
        at = declared.and_then(|other| index.parent_of(other)).or_else(|| index.parent_of(id));
    }
    parts.reverse();
    Ok(parts.join("::"))
}

/// The own name of an entry.
fn name_of(view: &View<'_>, id: TypeId) -> Result<String, DebugError> {
    let mut at = id;
    for _ in 0..4 {
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

/// What stands for a name that is not there.
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

/// A name without the word in front of it, and what that word allows.
fn split_keyword(name: &str) -> (&'static [DwTag], &str) {
    const STRUCT: &[DwTag] =
        &[gimli::DW_TAG_structure_type, gimli::DW_TAG_class_type, gimli::DW_TAG_union_type];
    let words: [(&str, &'static [DwTag]); 8] = [
        ("struct.", STRUCT),
        ("class.", STRUCT),
        ("union.", &[gimli::DW_TAG_union_type]),
        // LLVM and C++ take the two words for one; so does the look-up.
        ("struct ", STRUCT),
        ("class ", STRUCT),
        ("union ", &[gimli::DW_TAG_union_type]),
        ("enum.", &[gimli::DW_TAG_enumeration_type]),
        ("enum ", &[gimli::DW_TAG_enumeration_type]),
    ];
    let found = words.into_iter().find_map(|(word, tags)| Some((tags, name.strip_prefix(word)?.trim())));
    found.unwrap_or((&[], name))
}

/// The last part of a path: what stands behind the last `::` that is not inside brackets.
pub(crate) fn own_name(path: &str) -> &str {
    let bytes = path.as_bytes();
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            // The arrow of a function's type closes nothing.
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && at > 0 && bytes[at - 1] == b':' => start = at + 1,
            _ => {}
        }
    }
    &path[start..]
}

/// True if a name could be short for a path: without its namespaces, those that libraries add for their versions, the arguments of
/// its templates or the last of them, or with other blanks.
fn matches_loosely(path: &str, name: &str) -> bool {
    let (path, name) = (&*simplified(path), &*simplified(name));
    let is_end = |path: &str, name: &str| {
        path.strip_suffix(name).is_some_and(|front| front.is_empty() || front.ends_with("::"))
    };
    if is_end(path, name) {
        return true;
    }
    let (own, own_of_name) = (own_name(path), own_name(name));
    let (front, front_of_name) = (&path[..path.len() - own.len()], &name[..name.len() - own_of_name.len()]);
    if !is_end(front, front_of_name) {
        return false;
    }
    bare(own.as_bytes()).is_some_and(|own| own == own_of_name.as_bytes()) || begins_so(own, own_of_name, 0)
}

/// True if two texts are the same type, but for arguments at the end of its templates, and of those of its arguments.
fn begins_so(full: &str, short: &str, depth: usize) -> bool {
    if full == short {
        return true;
    }
    let split = |text: &str| -> Option<(usize, usize)> { Some((text.find('<')?, text.rfind('>')?)) };
    let (Some((from, to)), Some((short_from, short_to))) = (split(full), split(short)) else { return false };
    let is_same = full[..from] == short[..short_from] && full[to..] == short[short_to..];
    if !is_same || depth > MAX_DEPTH || to < from || short_to < short_from {
        return false;
    }
    let (full, short) = (arguments(&full[from + 1..to]), arguments(&short[short_from + 1..short_to]));
    short.len() <= full.len()
        && full.iter().zip(&short).all(|(full, short)| begins_so(full, short, depth + 1))
}

/// What commas outside of brackets divide.
fn arguments(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' if at > 0 && text.as_bytes()[at - 1] == b'-' => {}
            b'>' | b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found
}

/// Namespaces that libraries put around a version of themselves, and that nobody writes.
const INLINE_NAMESPACES: [&str; 3] = ["__cxx11::", "__1::", "__ndk1::"];

/// A name without what may be written or not: blanks that divide no words, and such namespaces.
fn simplified(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut chars = name.trim().chars().peekable();
    while let Some(c) = chars.next() {
        let divides = || out.chars().next_back().is_some_and(is_word);
        if c != ' ' || (divides() && chars.peek().is_some_and(|next| is_word(*next))) {
            out.push(c);
        }
    }
    for of in INLINE_NAMESPACES {
        out = out.replace(of, "");
    }
    out
}

/// Other names of types that have none of their own: of several, the first by name.
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

/// Used by readers of entries.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_path_stands_outside_of_brackets() {
        for (path, own) in [
            ("X", "X"),
            ("a::b::X", "X"),
            ("core::option::Option<alloc::string::String>", "Option<alloc::string::String>"),
            ("a::f::{impl#0}::X", "X"),
            ("F<fn(a::B) -> c::D>", "F<fn(a::B) -> c::D>"),
            ("(anonymous namespace)::X", "X"),
            ("a::<b", "<b"),
        ] {
            assert_eq!(own_name(path), own, "{path}");
        }
    }

    #[test]
    fn namespaces_and_arguments_may_be_missing() {
        assert!(matches_loosely("a::b::X", "b::X"));
        assert!(matches_loosely("std::vector<int, std::allocator<int> >", "std::vector"));
        assert!(matches_loosely("a::vector<int>", "vector"));
        assert!(!matches_loosely("a::bX", "X"));
        assert!(!matches_loosely("a::X", "b::X"));
        assert!(!matches_loosely("a::vector<int>", "vector<long>"));
        assert!(!matches_loosely("unsigned char", "unsignedchar"));
        for name in [
            "std::vector<std::vector<int>>",
            "std::vector<std::vector<int, std::allocator<int>>, std::allocator<std::vector<int, std::allocator<int>>>>",
            "vector<std::vector<int> >",
        ] {
            let path = "std::vector<std::vector<int, std::allocator<int> >, std::allocator<std::vector<int, std::allocator<int> > > >";
            assert!(matches_loosely(path, name), "{name}");
        }
        assert!(matches_loosely(
            "std::__cxx11::list<char const*, std::allocator<char const*> >",
            "std::list<char const *>"
        ));
        assert!(matches_loosely("alloc::vec::Vec<u8, alloc::alloc::Global>", "Vec<u8>"));
    }
}
