//! Signatures: names and members of functions, structures, enumerations, sets of flags and stack frames.
//!
//! Each signature stands in the stream once, where its id first occurs; each kind has ids of its own. Signatures learned from
//! the current event can be dropped, because an incomplete event is read again.

use crate::cursor::{Cursor, Decoded, Stop};
use crate::flags;
use crate::record::*;
use quipu_model::values::{Frame, FunctionType, NO_TYPE, NamedNumbers, StructType, Type, Types};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A flag of a function whose calls are of little interest if they return 0. Not visible outside this crate.
pub(crate) const GET_ERROR: u32 = 1 << 31;

/// Ids below this are looked up in a list: the tracer numbers them from 0.
const MAX_LISTED_ID: u64 = 1 << 14;

/// The kinds of signatures; each has its own ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Space {
    Function,
    Struct,
    Enum,
    Bitmask,
    Frame,
}

impl Space {
    /// All kinds, in the order of their numbers.
    pub(crate) const ALL: [Space; 5] =
        [Space::Function, Space::Struct, Space::Enum, Space::Bitmask, Space::Frame];
}

/// A signature learned from an event; its body is a range of the event's bytes.
#[derive(Clone, Debug)]
pub(crate) struct Learned {
    pub(crate) space: Space,
    pub(crate) id: u64,
    pub(crate) body: Range<usize>,
}

/// Ids of one kind → indexes of types.
#[derive(Debug, Default)]
struct Ids {
    listed: Vec<u32>,
    others: HashMap<u64, u32>,
}

impl Ids {
    #[inline]
    fn get(&self, id: u64) -> Option<u32> {
        match self.listed.get(id as usize) {
            Some(index) if id < MAX_LISTED_ID => (*index != NO_TYPE).then_some(*index),
            _ if id < MAX_LISTED_ID => None,
            _ => self.others.get(&id).copied(),
        }
    }

    fn set(&mut self, id: u64, index: u32) {
        if id >= MAX_LISTED_ID {
            self.others.insert(id, index);
            return;
        }
        let position = id as usize; // Below the bound.
        if self.listed.len() <= position {
            self.listed.resize(position + 1, NO_TYPE);
        }
        self.listed[position] = index;
    }

    fn unset(&mut self, id: u64) {
        self.others.remove(&id);
        if let Some(index) = self.listed.get_mut(usize::try_from(id).unwrap_or(usize::MAX)) {
            *index = NO_TYPE;
        }
    }
}

/// Properties of a type that are needed for each call and value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// Flags of a function; 0 for other types.
    pub(crate) flags: u32,
    /// Number of named arguments or members.
    pub(crate) n_parts: u32,
}

/// Treatment of a malformed-looking signature where an id first occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// Accept it as a signature.
    All,
    /// Accept it, but require more evidence for the event that contains it.
    Wary,
    /// Reject it: a part of the stream is missing, and the signature was in that part.
    Gaps,
}

/// All signatures read so far.
#[derive(Debug)]
pub(crate) struct Signatures {
    has_whole_enums: bool,
    spaces: [Ids; 5],
    /// Facts for each type. PERF: the types themselves lie elsewhere, each in its own allocation (`decode`).
    facts: Vec<Facts>,
    /// Signatures learned from the current event.
    learned: Vec<Learned>,
    trust: Trust,
    /// Number of placeholders for lost signatures, without the current event's.
    n_lost: u64,
    /// Number of placeholders made for the current event.
    n_lost_now: u64,
    /// Number of odd-looking signatures in the current event.
    n_odd_now: u64,
}

impl Signatures {
    pub(crate) fn new(version: u64) -> Signatures {
        Signatures {
            has_whole_enums: version >= VERSION_WHOLE_ENUMS,
            spaces: Default::default(),
            facts: Vec::new(),
            learned: Vec::new(),
            trust: Trust::All,
            n_lost: 0,
            n_lost_now: 0,
            n_odd_now: 0,
        }
    }

    /// From now on, treats an id that no signature follows as one whose signature was lost.
    pub(crate) fn expect_gaps(&mut self) {
        self.trust = Trust::Gaps;
    }

    /// From now on, counts signatures that look odd.
    pub(crate) fn be_wary(&mut self) {
        self.trust = Trust::Wary;
    }

    /// Number of signatures in the current event that need more evidence: those that look odd; after a gap, all.
    pub(crate) fn n_doubtful_now(&self) -> u64 {
        match self.trust {
            Trust::All => 0,
            Trust::Wary => self.n_odd_now,
            Trust::Gaps => self.learned.len() as u64,
        }
    }

    /// Number of placeholders made for lost signatures.
    pub(crate) fn n_lost(&self) -> u64 {
        self.n_lost + self.n_lost_now
    }

    /// True if the signature is lost, so that the bytes at the cursor are something else.
    #[inline]
    fn is_lost(
        &mut self,
        cursor: &Cursor<'_>,
        looks_right: fn(Cursor<'_>) -> Decoded<bool>,
    ) -> Decoded<bool> {
        if self.trust == Trust::All {
            return Ok(false);
        }
        let is_odd = match looks_right(*cursor) {
            Ok(looks_right) => !looks_right,
            Err(stop @ Stop::More(_)) => return Err(stop),
            Err(Stop::Bad(_)) => true,
        };
        self.n_odd_now += u64::from(is_odd);
        Ok(is_odd && self.trust == Trust::Gaps)
    }

    /// Makes the signatures of the current event permanent.
    #[inline]
    pub(crate) fn keep(&mut self) {
        self.learned.clear();
        self.n_lost += std::mem::take(&mut self.n_lost_now);
        self.n_odd_now = 0;
    }

    /// Drops the signatures of the current event.
    pub(crate) fn forget(&mut self) {
        self.facts.truncate(self.facts.len() - self.learned.len());
        (self.n_lost_now, self.n_odd_now) = (0, 0);
        for learned in self.learned.drain(..) {
            self.spaces[learned.space as usize].unset(learned.id);
        }
    }

    /// Signatures of the current event, not yet permanent.
    #[inline]
    pub(crate) fn learned(&self) -> &[Learned] {
        &self.learned
    }

    /// Adds a signature, given its body alone.
    pub(crate) fn define(&mut self, space: Space, id: u64, body: &[u8], types: &mut Types) -> Decoded<()> {
        let mut cursor = Cursor::new(body, 0);
        match space {
            Space::Function => self.new_function(id, &mut cursor, types)?,
            Space::Struct => self.new_structure(id, &mut cursor, types)?,
            Space::Enum => self.new_enumeration(id, &mut cursor, types)?,
            Space::Bitmask => self.new_bitmask(id, &mut cursor, types)?,
            Space::Frame => self.new_frame(id, &mut cursor, types)?,
        };
        self.keep();
        Ok(())
    }

    /// The type for an id; `None` if its signature was not read yet.
    #[inline]
    pub(crate) fn known(&self, space: Space, id: u64) -> Option<u32> {
        self.spaces[space as usize].get(id)
    }

    /// True if a signature of an enumeration lists all names, so that each value stores its number (version 3 and later).
    #[inline]
    pub(crate) fn has_whole_enums(&self) -> bool {
        self.has_whole_enums
    }

    /// Facts of a type; defaults if there is no such type.
    #[inline]
    pub(crate) fn facts(&self, ty: u32) -> Facts {
        self.facts.get(ty as usize).copied().unwrap_or_default()
    }

    fn learn(
        &mut self,
        space: Space,
        id: u64,
        start: usize,
        ty: Type,
        types: &mut Types,
        cursor: &Cursor<'_>,
    ) -> Decoded<u32> {
        if types.len() >= MAX_TYPES {
            return Err(cursor.limit_at(cursor.at(), "signatures", types.len() as u64, MAX_TYPES as u64));
        }
        let facts = match &ty {
            Type::Function(function) => Facts { flags: function.flags, n_parts: function.args.len() as u32 },
            Type::Struct(structure) => Facts { flags: 0, n_parts: structure.members.len() as u32 },
            _ => Facts::default(), // A signature has less than 2^32 bytes.
        };
        self.facts.push(facts);
        let index = types.push(Arc::new(ty));
        self.spaces[space as usize].set(id, index);
        self.learned.push(Learned { space, id, body: start..cursor.at() });
        Ok(index)
    }

    #[inline]
    pub(crate) fn function(&mut self, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<u32> {
        let id = cursor.uint()?;
        match self.spaces[Space::Function as usize].get(id) {
            Some(index) => Ok(index),
            None => self.new_function(id, cursor, types),
        }
    }

    fn new_function(&mut self, id: u64, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<u32> {
        let start = cursor.at();
        if self.is_lost(cursor, looks_like_names)? {
            self.n_lost_now += 1;
            let name = format!("{LOST_FUNCTION}{id}").into_bytes();
            let function = FunctionType { id, name, args: Vec::new(), flags: 0 };
            return self.learn(Space::Function, id, start, Type::Function(function), types, cursor);
        }
        let name = cursor.name(MAX_NAME_BYTES)?;
        // Zero bytes read like this, and no tracer writes it.
        if name.is_empty() {
            return Err(cursor.bad_at(start, format!("function `{id}` has no name")));
        }
        let args = names(cursor)?;
        let mut flags = flags::of_function(&name);
        if name == b"glGetError" && args.is_empty() {
            flags |= GET_ERROR;
        }
        let function = FunctionType { id, name, args, flags };
        self.learn(Space::Function, id, start, Type::Function(function), types, cursor)
    }

    /// Reads the id of a structure, with its signature if new: the type and its number of members.
    pub(crate) fn structure(&mut self, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<(u32, u64)> {
        let id = cursor.uint()?;
        let index = match self.spaces[Space::Struct as usize].get(id) {
            Some(index) => index,
            None => self.new_structure(id, cursor, types)?,
        };
        Ok((index, self.facts(index).n_parts.into()))
    }

    fn new_structure(&mut self, id: u64, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<u32> {
        let start = cursor.at();
        if self.is_lost(cursor, looks_like_names)? {
            // Without the signature, the number of members that follow is unknown.
            return Err(cursor.bad_at(start, format!("the signature of structure `{id}` is lost")));
        }
        let name = cursor.name(MAX_NAME_BYTES)?;
        let members = names(cursor)?;
        self.learn(Space::Struct, id, start, Type::Struct(StructType { id, name, members }), types, cursor)
    }

    /// Reads the id of an enumeration, with its signature if new: the type, and before version 3 its only number, which
    /// values do not repeat.
    pub(crate) fn enumeration(
        &mut self,
        cursor: &mut Cursor<'_>,
        types: &mut Types,
    ) -> Decoded<(u32, Option<u64>)> {
        let id = cursor.uint()?;
        let index = match self.spaces[Space::Enum as usize].get(id) {
            Some(index) => index,
            None => self.new_enumeration(id, cursor, types)?,
        };
        if self.has_whole_enums {
            return Ok((index, None));
        }
        let only = match types.get(index) {
            Some(Type::Enum(numbers)) => numbers.names.first().map(|(_, number)| *number),
            _ => None,
        };
        Ok((index, only))
    }

    fn new_enumeration(&mut self, id: u64, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<u32> {
        let start = cursor.at();
        if self.has_whole_enums && self.is_lost(cursor, looks_like_numbers::<true>)? {
            self.n_lost_now += 1;
            let names = NamedNumbers::new(id, Vec::new());
            return self.learn(Space::Enum, id, start, Type::Enum(names), types, cursor);
        }
        let n_names = if self.has_whole_enums { cursor.uint()? } else { 1 };
        let mut names = Vec::new();
        for _ in 0..n_names {
            let name = cursor.name(MAX_NAME_BYTES)?;
            names.push((name, sint(cursor)?));
        }
        self.learn(Space::Enum, id, start, Type::Enum(NamedNumbers::new(id, names)), types, cursor)
    }

    pub(crate) fn bitmask(&mut self, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<u32> {
        let id = cursor.uint()?;
        match self.spaces[Space::Bitmask as usize].get(id) {
            Some(index) => Ok(index),
            None => self.new_bitmask(id, cursor, types),
        }
    }

    fn new_bitmask(&mut self, id: u64, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<u32> {
        let start = cursor.at();
        if self.is_lost(cursor, looks_like_numbers::<false>)? {
            self.n_lost_now += 1;
            let names = NamedNumbers::new(id, Vec::new());
            return self.learn(Space::Bitmask, id, start, Type::Flags(names), types, cursor);
        }
        let n_names = cursor.uint()?;
        let mut names = Vec::new();
        for _ in 0..n_names {
            let name = cursor.name(MAX_NAME_BYTES)?;
            names.push((name, cursor.uint()?));
        }
        self.learn(Space::Bitmask, id, start, Type::Flags(NamedNumbers::new(id, names)), types, cursor)
    }

    pub(crate) fn frame(&mut self, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<u32> {
        let id = cursor.uint()?;
        match self.spaces[Space::Frame as usize].get(id) {
            Some(index) => Ok(index),
            None => self.new_frame(id, cursor, types),
        }
    }

    fn new_frame(&mut self, id: u64, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<u32> {
        let start = cursor.at();
        if self.is_lost(cursor, looks_like_frame)? {
            self.n_lost_now += 1;
            let frame = Frame { id, ..Frame::default() };
            return self.learn(Space::Frame, id, start, Type::Frame(frame), types, cursor);
        }
        let mut frame = Frame { id, ..Frame::default() };
        loop {
            let at = cursor.at();
            match cursor.byte()? {
                FRAME_END => break,
                FRAME_MODULE => frame.module = Some(cursor.name(MAX_NAME_BYTES)?),
                FRAME_FUNCTION => frame.function = Some(cursor.name(MAX_NAME_BYTES)?),
                FRAME_FILE => frame.file = Some(cursor.name(MAX_NAME_BYTES)?),
                FRAME_LINE => frame.line = Some(cursor.uint()?),
                FRAME_OFFSET => frame.offset = Some(cursor.uint()?),
                other => return Err(cursor.bad_at(at, format!("unknown member `{other}` of a stack frame"))),
            }
        }
        self.learn(Space::Frame, id, start, Type::Frame(frame), types, cursor)
    }
}

/// Prefix of the placeholder name of a function whose signature is lost; its id follows. Its arguments are unknown.
pub(crate) const LOST_FUNCTION: &str = "lost_function_";

/// A plausible enumeration or set of flags has at most this many names.
const MAX_LIKELY_NAMES: u64 = 1 << 16;

/// True if this looks like an identifier of a program. Names of arguments may contain brackets.
fn is_word(name: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_:~()[]<>*&., ".contains(byte);
    name.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
        && name.iter().all(is_part)
}

/// True if a name and a list of names follow: the signature of a function or structure.
fn looks_like_names(mut cursor: Cursor<'_>) -> Decoded<bool> {
    let name = cursor.name(MAX_NAME_BYTES)?;
    if name.len() < 2 || !is_word(&name) {
        return Ok(false);
    }
    let n_names = cursor.uint()?;
    if n_names > MAX_EXTRA_ARGS {
        return Ok(false);
    }
    for _ in 0..n_names {
        let name = cursor.name(MAX_NAME_BYTES)?;
        if !name.is_empty() && !is_word(&name) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if names with numbers follow: the signature of an enumeration or of a set of flags.
fn looks_like_numbers<const SIGNED: bool>(mut cursor: Cursor<'_>) -> Decoded<bool> {
    let n_names = cursor.uint()?;
    if !(1..=MAX_LIKELY_NAMES).contains(&n_names) {
        return Ok(false);
    }
    for _ in 0..n_names {
        let name = cursor.name(MAX_NAME_BYTES)?;
        if name.len() < 2 || !is_word(&name) {
            return Ok(false);
        }
        if SIGNED {
            sint(&mut cursor)?
        } else {
            cursor.uint()?
        };
    }
    Ok(true)
}

/// True if members and an end mark follow: the signature of a stack frame.
fn looks_like_frame(mut cursor: Cursor<'_>) -> Decoded<bool> {
    let mut n_members = 0;
    loop {
        match cursor.byte()? {
            FRAME_END => return Ok(n_members > 0),
            FRAME_MODULE | FRAME_FUNCTION | FRAME_FILE => {
                let name = cursor.name(MAX_NAME_BYTES)?;
                if name.is_empty() || !name.iter().all(|byte| (0x20..0x7f).contains(byte)) {
                    return Ok(false);
                }
            }
            FRAME_LINE | FRAME_OFFSET => {
                cursor.uint()?;
            }
            _ => return Ok(false),
        }
        n_members += 1;
        if n_members > 5 {
            return Ok(false);
        }
    }
}

/// Reads a count, then this many names.
fn names(cursor: &mut Cursor<'_>) -> Decoded<Vec<Vec<u8>>> {
    let n_names = cursor.uint()?;
    let mut names = Vec::new();
    for _ in 0..n_names {
        names.push(cursor.name(MAX_NAME_BYTES)?);
    }
    Ok(names)
}

/// Reads a sint: a tag for the sign, then the magnitude. Returns it as two's complement.
pub(crate) fn sint(cursor: &mut Cursor<'_>) -> Decoded<u64> {
    let at = cursor.at();
    match cursor.byte()? {
        TAG_NEGATIVE => Ok(cursor.uint()?.wrapping_neg()),
        TAG_UNSIGNED => cursor.uint(),
        other => Err(cursor.bad_at(at, format!("value type `{other}` where a signed number is expected"))),
    }
}
