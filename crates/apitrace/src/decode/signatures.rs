//! Signatures: what functions, structures, enumerations, sets of flags and stack frames are called.
//!
//! Each stands in the stream once, where its id comes first; each kind has ids of its own. What an event taught can be
//! forgotten, because an event that is cut is read again.

use crate::cursor::{Cursor, Decoded};
use crate::flags;
use crate::record::*;
use quipu_model::values::{Frame, FunctionType, NO_TYPE, NamedNumbers, StructType, Type, Types};
use std::collections::HashMap;
use std::sync::Arc;

/// A flag of a function whose calls are of little interest if they return 0. Never seen outside of this crate.
pub(crate) const GET_ERROR: u32 = 1 << 31;

/// Ids below this are looked up in a list: the tracer counts from 0.
const MAX_LISTED_ID: u64 = 1 << 14;

/// The kinds of ids.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
enum Space {
    Function,
    Struct,
    Enum,
    Bitmask,
    Frame,
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

/// All that is known so far.
#[derive(Debug)]
pub(crate) struct Signatures {
    has_whole_enums: bool,
    spaces: [Ids; 5],
    /// What the present event taught.
    learned: Vec<(Space, u64)>,
}

impl Signatures {
    pub(crate) fn new(version: u64) -> Signatures {
        Signatures {
            has_whole_enums: version >= VERSION_WHOLE_ENUMS,
            spaces: Default::default(),
            learned: Vec::new(),
        }
    }

    /// Keeps what the event taught.
    #[inline]
    pub(crate) fn keep(&mut self) {
        self.learned.clear();
    }

    /// Forgets what the event taught.
    pub(crate) fn forget(&mut self) {
        for (space, id) in self.learned.drain(..) {
            self.spaces[space as usize].unset(id);
        }
    }

    fn learn(
        &mut self,
        space: Space,
        id: u64,
        ty: Type,
        types: &mut Types,
        cursor: &Cursor<'_>,
    ) -> Decoded<u32> {
        if types.len() >= MAX_TYPES {
            return Err(cursor.limit_at(cursor.at(), "signatures", types.len() as u64, MAX_TYPES as u64));
        }
        let index = types.push(Arc::new(ty));
        self.spaces[space as usize].set(id, index);
        self.learned.push((space, id));
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
        let name = cursor.name(MAX_NAME_BYTES)?;
        let args = names(cursor)?;
        let mut flags = flags::of_function(&name);
        if name == b"glGetError" && args.is_empty() {
            flags |= GET_ERROR;
        }
        self.learn(Space::Function, id, Type::Function(FunctionType { id, name, args, flags }), types, cursor)
    }

    /// The type of a structure and how many members it has.
    pub(crate) fn structure(&mut self, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<(u32, u64)> {
        let id = cursor.uint()?;
        let index = match self.spaces[Space::Struct as usize].get(id) {
            Some(index) => index,
            None => {
                let name = cursor.name(MAX_NAME_BYTES)?;
                let members = names(cursor)?;
                self.learn(Space::Struct, id, Type::Struct(StructType { id, name, members }), types, cursor)?
            }
        };
        let n_members = match types.get(index) {
            Some(Type::Struct(structure)) => structure.members.len() as u64,
            _ => 0,
        };
        Ok((index, n_members))
    }

    /// The type of an enumeration, and its only number where it has just one and values do not repeat it.
    pub(crate) fn enumeration(
        &mut self,
        cursor: &mut Cursor<'_>,
        types: &mut Types,
    ) -> Decoded<(u32, Option<u64>)> {
        let id = cursor.uint()?;
        let index = match self.spaces[Space::Enum as usize].get(id) {
            Some(index) => index,
            None => {
                let n_names = if self.has_whole_enums { cursor.uint()? } else { 1 };
                let mut names = Vec::new();
                for _ in 0..n_names {
                    let name = cursor.name(MAX_NAME_BYTES)?;
                    names.push((name, sint(cursor)?));
                }
                self.learn(Space::Enum, id, Type::Enum(NamedNumbers::new(id, names)), types, cursor)?
            }
        };
        let only = match types.get(index) {
            Some(Type::Enum(numbers)) if !self.has_whole_enums => {
                numbers.names.first().map(|(_, number)| *number)
            }
            _ => None,
        };
        Ok((index, only))
    }

    pub(crate) fn bitmask(&mut self, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<u32> {
        let id = cursor.uint()?;
        if let Some(index) = self.spaces[Space::Bitmask as usize].get(id) {
            return Ok(index);
        }
        let n_names = cursor.uint()?;
        let mut names = Vec::new();
        for _ in 0..n_names {
            let name = cursor.name(MAX_NAME_BYTES)?;
            names.push((name, cursor.uint()?));
        }
        self.learn(Space::Bitmask, id, Type::Flags(NamedNumbers::new(id, names)), types, cursor)
    }

    pub(crate) fn frame(&mut self, cursor: &mut Cursor<'_>, types: &mut Types) -> Decoded<u32> {
        let id = cursor.uint()?;
        if let Some(index) = self.spaces[Space::Frame as usize].get(id) {
            return Ok(index);
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
        self.learn(Space::Frame, id, Type::Frame(frame), types, cursor)
    }
}

/// Names behind their count.
fn names(cursor: &mut Cursor<'_>) -> Decoded<Vec<Vec<u8>>> {
    let n_names = cursor.uint()?;
    let mut names = Vec::new();
    for _ in 0..n_names {
        names.push(cursor.name(MAX_NAME_BYTES)?);
    }
    Ok(names)
}

/// A number behind a tag that says whether it is below zero; as a two's complement.
pub(crate) fn sint(cursor: &mut Cursor<'_>) -> Decoded<u64> {
    let at = cursor.at();
    match cursor.byte()? {
        TAG_NEGATIVE => Ok(cursor.uint()?.wrapping_neg()),
        TAG_UNSIGNED => cursor.uint(),
        other => Err(cursor.bad_at(at, format!("value type `{other}` where a signed number is expected"))),
    }
}
