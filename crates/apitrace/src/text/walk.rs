//! Converts one event of the stream to text.
//!
//! An event is read from its front to its end and written on the way; only the types that it declares and the open calls are
//! kept. On the way, the walker notes whether the text expresses all of the bytes: numbers that are longer than necessary,
//! and details in an unusual order, make an event raw.

use super::names::{Constant, Space, Table, key_of};
use super::put::{put_double, put_float, put_hex, put_name, put_string, put_unit};
use super::{MAX_INLINE_BYTES, is_bare};
use crate::cursor::{Cursor, Decoded};
use crate::print::text::{decimal, hex, signed};
use crate::record::*;
use quipu_model::values::{Frame, FunctionType, Kind, NamedNumbers, StructType, Type};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walked {
    /// A call is entered.
    Enter {
        /// Its number.
        number: u64,
        /// Index of its function.
        function: u32,
    },
    /// A call is left.
    Leave {
        /// Its number.
        number: u64,
        /// Whether the event contains only arguments and a result, and the call is open.
        is_plain: bool,
    },
}

/// The state of the walker between two events.
#[derive(Debug)]
pub(super) struct Walker {
    version: u64,
    pub(super) table: Table,
    next_call: u64,
    /// Open calls and their functions.
    open: FxHashMap<u64, u32>,
    /// Text before the name of the function, and text from there on.
    pub(super) label: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// Raw memory that must be written to files: names, and ranges of the input.
    pub(super) blobs: Vec<(String, Range<usize>)>,
    /// False if the text does not express all of the bytes.
    pub(super) is_faithful: bool,
    /// Parts of the names of files for raw memory: the number of the call, a counter, and the name of the value.
    place: (u64, u32, Vec<u8>),
}

impl Walker {
    pub(super) fn new(version: u64) -> Walker {
        Walker {
            version,
            table: Table::default(),
            next_call: 0,
            open: FxHashMap::default(),
            label: Vec::new(),
            body: Vec::new(),
            blobs: Vec::new(),
            is_faithful: true,
            place: (0, 0, Vec::new()),
        }
    }

    /// Reads the event at `at`; returns its kind and the offset of the next. Its text is in `label` and `body`; its new types
    /// are at the end of the table.
    ///
    /// # Errors
    /// If the event is incomplete or malformed; then the state is unchanged.
    pub(super) fn event(&mut self, input: &[u8], at: usize) -> Decoded<(Walked, usize)> {
        self.label.clear();
        self.body.clear();
        self.blobs.clear();
        self.is_faithful = true;
        let n_types = self.table.len();
        let mut cursor = Cursor::new(input, at);
        let read = match cursor.byte() {
            Ok(EVENT_ENTER) => self.enter(&mut cursor),
            Ok(EVENT_LEAVE) => self.leave(&mut cursor),
            Ok(other) => Err(cursor.bad_at(at, format!("unknown event `{other}`"))),
            Err(stop) => Err(stop),
        };
        match read {
            Ok(walked) => {
                for position in n_types..self.table.len() {
                    self.table.say(position as u32); // Less than 2^32 types.
                }
                Ok((walked, cursor.at()))
            }
            Err(stop) => {
                self.table.truncate(n_types);
                Err(stop)
            }
        }
    }

    /// The version of the stream.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Notes that a call is entered; returns its number.
    pub(super) fn note_enter(&mut self) -> u64 {
        self.next_call += 1;
        self.next_call - 1
    }

    fn enter(&mut self, cursor: &mut Cursor<'_>) -> Decoded<Walked> {
        let number = self.next_call;
        decimal(number, &mut self.label);
        self.label.extend_from_slice(b": ");
        if self.version >= VERSION_THREADS {
            let thread = self.uint(cursor)?;
            if thread != 0 {
                self.label.push(b'@');
                decimal(thread, &mut self.label);
                self.label.push(b' ');
            }
        }
        let function = self.function(cursor)?;
        let mut out = std::mem::take(&mut self.body);
        let name = match self.table.get(function) {
            Some(Type::Function(known)) => {
                put_name(&known.name, &mut out);
                if self.table.function(&known.name) != Some(function) {
                    out.push(b'#');
                    decimal(known.id, &mut out);
                }
                known.name.clone()
            }
            _ => Vec::new(),
        };
        self.place = (number, 0, name);
        let done = self.details(cursor, Some(function), false, &mut out);
        self.body = out;
        done?;
        self.next_call += 1;
        self.open.insert(number, function);
        Ok(Walked::Enter { number, function })
    }

    fn leave(&mut self, cursor: &mut Cursor<'_>) -> Decoded<Walked> {
        let number = self.uint(cursor)?;
        let function = self.open.get(&number).copied();
        self.label.extend_from_slice(if function.is_some() { b"leave " } else { b"leave #" });
        decimal(number, &mut self.label);
        self.label.push(b' ');
        let name = match function.and_then(|function| self.table.get(function)) {
            Some(Type::Function(known)) => known.name.clone(),
            _ => Vec::new(),
        };
        self.place = (number, 0, [&name[..], b"-out"].concat());
        let mut out = std::mem::take(&mut self.body);
        let done = self.details(cursor, function, true, &mut out);
        self.body = out;
        let has_marks = done?;
        self.open.remove(&number);
        Ok(Walked::Leave { number, is_plain: function.is_some() && !has_marks && self.is_faithful })
    }

    /// Converts the details of an event: arguments in parentheses, marks, the result. Returns true if there are marks.
    fn details(
        &mut self,
        cursor: &mut Cursor<'_>,
        function: Option<u32>,
        may_return: bool,
        out: &mut Vec<u8>,
    ) -> Decoded<bool> {
        let (mut marks, mut n_args, mut has_result, mut has_marks) = (Vec::new(), 0, false, false);
        out.push(b'(');
        loop {
            let at = cursor.at();
            let detail = cursor.byte()?;
            // In the text, the result is last, and marks stand for details before the arguments.
            self.is_faithful &= !has_result || detail == DETAIL_END;
            match detail {
                DETAIL_END => break,
                DETAIL_ARG => {
                    let index = self.uint(cursor)?;
                    if n_args > 0 {
                        out.extend_from_slice(b", ");
                    }
                    n_args += 1;
                    self.arg_name(function, index, out);
                    self.value(cursor, out, 0)?;
                }
                DETAIL_RESULT => {
                    self.is_faithful &= may_return;
                    has_result = true;
                    out.push(b')');
                    out.append(&mut marks);
                    out.extend_from_slice(b" = ");
                    self.place.2.extend_from_slice(b"-result");
                    self.value(cursor, out, 0)?;
                }
                DETAIL_STACK => {
                    self.is_faithful &= n_args == 0;
                    has_marks = true;
                    marks.extend_from_slice(b" !stack [");
                    let n_frames = self.uint(cursor)?;
                    for i in 0..n_frames {
                        if i > 0 {
                            marks.extend_from_slice(b", ");
                        }
                        let id = self.frame(cursor)?;
                        decimal(id, &mut marks);
                    }
                    marks.push(b']');
                }
                DETAIL_FLAGS => {
                    self.is_faithful &= n_args == 0;
                    has_marks = true;
                    match self.uint(cursor)? {
                        1 => marks.extend_from_slice(b" !fake"),
                        other => {
                            marks.extend_from_slice(b" !flags ");
                            decimal(other, &mut marks);
                        }
                    }
                }
                DETAIL_THREAD => {
                    self.uint(cursor)?;
                    self.is_faithful = false;
                }
                other => return Err(cursor.bad_at(at, format!("unknown call detail `{other}`"))),
            }
        }
        if !has_result {
            out.push(b')');
            out.append(&mut marks);
        }
        Ok(has_marks)
    }

    fn arg_name(&mut self, function: Option<u32>, index: u64, out: &mut Vec<u8>) {
        let names = match function.and_then(|function| self.table.get(function)) {
            Some(Type::Function(function)) => &function.args[..],
            _ => &[],
        };
        let name = usize::try_from(index).ok().and_then(|index| names.get(index));
        let is_first = name.is_some_and(|name| {
            names.iter().position(|other| other == name).map(|first| first as u64) == Some(index)
        });
        self.place.2.truncate(512);
        match name.filter(|name| is_first && is_bare(name)) {
            Some(name) => out.extend_from_slice(name),
            None => {
                out.push(b'#');
                decimal(index, out);
            }
        }
        out.extend_from_slice(b" = ");
    }

    fn value(&mut self, cursor: &mut Cursor<'_>, out: &mut Vec<u8>, depth: u32) -> Decoded<()> {
        let at = cursor.at();
        match cursor.byte()? {
            TAG_NULL => out.extend_from_slice(b"null"),
            TAG_FALSE => out.extend_from_slice(b"false"),
            TAG_TRUE => out.extend_from_slice(b"true"),
            TAG_NEGATIVE => {
                out.push(b'-');
                decimal(self.uint(cursor)?, out);
            }
            TAG_UNSIGNED => decimal(self.uint(cursor)?, out),
            TAG_FLOAT => {
                let bits = u32::from_le_bytes(cursor.array()?);
                put_float(f32::from_bits(bits), out);
            }
            TAG_DOUBLE => {
                let bits = u64::from_le_bytes(cursor.array()?);
                put_double(f64::from_bits(bits), out);
            }
            TAG_STRING => {
                let bytes = self.bytes(cursor)?;
                put_string(bytes, out);
            }
            TAG_BLOB => {
                let bytes = self.bytes(cursor)?;
                if bytes.len() <= MAX_INLINE_BYTES {
                    put_hex(bytes, out);
                } else {
                    let name = self.blob_name();
                    out.extend_from_slice(b"blob ");
                    put_string(name.as_bytes(), out);
                    self.blobs.push((name, cursor.at() - bytes.len()..cursor.at()));
                }
            }
            TAG_WIDE => {
                let n_units = self.uint(cursor)?;
                out.extend_from_slice(b"L\"");
                for _ in 0..n_units {
                    let unit = self.uint(cursor)?;
                    put_unit(unit, out);
                }
                out.push(b'"');
            }
            TAG_ENUM => self.enumeration(cursor, out)?,
            TAG_BITMASK => self.flags(cursor, out)?,
            TAG_POINTER => {
                out.extend_from_slice(b"0x");
                hex(self.uint(cursor)?, out);
            }
            tag @ (TAG_ARRAY | TAG_STRUCT | TAG_REPR) => {
                if depth >= MAX_DEPTH {
                    let (depth, limit) = (depth.into(), MAX_DEPTH.into());
                    return Err(cursor.limit_at(at, "values inside each other", depth, limit));
                }
                match tag {
                    TAG_ARRAY => self.array(cursor, out, depth)?,
                    TAG_STRUCT => self.structure(cursor, out, depth)?,
                    _ => {
                        out.extend_from_slice(b"pair(");
                        self.value(cursor, out, depth + 1)?;
                        out.extend_from_slice(b", ");
                        self.value(cursor, out, depth + 1)?;
                        out.push(b')');
                    }
                }
            }
            other => return Err(cursor.bad_at(at, format!("unknown value type `{other}`"))),
        }
        Ok(())
    }

    fn array(&mut self, cursor: &mut Cursor<'_>, out: &mut Vec<u8>, depth: u32) -> Decoded<()> {
        let n_parts = self.uint(cursor)?;
        out.push(b'[');
        for i in 0..n_parts {
            if i > 0 {
                out.extend_from_slice(b", ");
            }
            self.value(cursor, out, depth + 1)?;
        }
        out.push(b']');
        Ok(())
    }

    fn structure(&mut self, cursor: &mut Cursor<'_>, out: &mut Vec<u8>, depth: u32) -> Decoded<()> {
        let position = self.struct_type(cursor)?;
        let Some(Type::Struct(structure)) = self.table.get(position) else { return Ok(()) };
        if is_bare(&structure.name) && self.table.structure(&structure.name) == Some(position) {
            out.extend_from_slice(&structure.name);
        } else {
            out.extend_from_slice(b"struct ");
            decimal(structure.id, out);
            out.push(b' ');
        }
        out.push(b'{');
        let n_members = structure.members.len();
        for i in 0..n_members {
            if i > 0 {
                out.extend_from_slice(b", ");
            }
            let Some(Type::Struct(structure)) = self.table.get(position) else { return Ok(()) };
            if let Some(name) = structure.members.get(i).filter(|name| is_bare(name)) {
                out.extend_from_slice(name);
                out.extend_from_slice(b" = ");
            }
            self.value(cursor, out, depth + 1)?;
        }
        out.push(b'}');
        Ok(())
    }

    fn enumeration(&mut self, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Decoded<()> {
        let position = self.enum_type(cursor)?;
        let only = match self.table.get(position) {
            Some(Type::Enum(names)) if self.version < VERSION_WHOLE_ENUMS => {
                names.names.first().map(|(_, number)| *number)
            }
            _ => None,
        };
        let number = match only {
            Some(number) => number,
            None => self.sint(cursor)?,
        };
        let Some(Type::Enum(names)) = self.table.get(position) else { return Ok(()) };
        let wanted = Constant { kind: Kind::Enum, ty: position, number };
        let name = names.name(number).filter(|name| is_bare(name));
        match name {
            Some(name) if self.table.constant(name) == Some(wanted) => out.extend_from_slice(name),
            _ => {
                out.extend_from_slice(b"enum ");
                decimal(names.id, out);
                out.push(b'(');
                match name {
                    Some(name) => out.extend_from_slice(name),
                    None => signed(number.cast_signed(), out),
                }
                out.push(b')');
            }
        }
        Ok(())
    }

    fn flags(&mut self, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Decoded<()> {
        let position = self.flags_type(cursor)?;
        let number = self.uint(cursor)?;
        let Some(Type::Flags(names)) = self.table.get(position) else { return Ok(()) };
        let (mut parts, mut rest, mut is_short) = (Vec::new(), number, true);
        for (name, bits) in &names.names {
            if *bits != 0 && rest & bits == *bits && is_bare(name) {
                let wanted = Constant { kind: Kind::Flags, ty: position, number: *bits };
                is_short &= self.table.constant(name) == Some(wanted);
                if !parts.is_empty() {
                    parts.extend_from_slice(b" | ");
                }
                parts.extend_from_slice(name);
                rest &= !bits;
            }
        }
        if rest == 0 && is_short && !parts.is_empty() {
            out.append(&mut parts);
            return Ok(());
        }
        out.extend_from_slice(b"flags ");
        decimal(names.id, out);
        out.push(b'(');
        if rest != 0 || parts.is_empty() {
            if !parts.is_empty() {
                parts.extend_from_slice(b" | ");
            }
            parts.extend_from_slice(b"0x");
            hex(rest, &mut parts);
        }
        out.append(&mut parts);
        out.push(b')');
        Ok(())
    }

    /// A name for a file of raw memory of the current call.
    fn blob_name(&mut self) -> String {
        let (number, n_before, ref name) = self.place;
        self.place.1 += 1;
        let name: String =
            name.iter()
                .take(64)
                .map(|byte| {
                    if byte.is_ascii_alphanumeric() || b"_-".contains(byte) { char::from(*byte) } else { '_' }
                })
                .collect();
        match n_before {
            0 => format!("{number}-{name}.bin"),
            n => format!("{number}-{name}-{n}.bin"),
        }
    }

    /// Reads a uint; clears `is_faithful` if it is longer than necessary.
    fn uint(&mut self, cursor: &mut Cursor<'_>) -> Decoded<u64> {
        let at = cursor.at();
        let number = cursor.uint()?;
        let least = (64 - (number | 1).leading_zeros() as usize).div_ceil(7);
        self.is_faithful &= cursor.at() - at == least;
        Ok(number)
    }

    /// Reads a sint as two's complement; clears `is_faithful` if the text would express it differently.
    fn sint(&mut self, cursor: &mut Cursor<'_>) -> Decoded<u64> {
        let at = cursor.at();
        match cursor.byte()? {
            TAG_NEGATIVE => {
                let magnitude = self.uint(cursor)?;
                self.is_faithful &= (1..=1 << 63).contains(&magnitude);
                Ok(magnitude.wrapping_neg())
            }
            TAG_UNSIGNED => {
                let number = self.uint(cursor)?;
                self.is_faithful &= number < 1 << 63;
                Ok(number)
            }
            other => {
                Err(cursor.bad_at(at, format!("value type `{other}` where a signed number is expected")))
            }
        }
    }

    fn bytes<'a>(&mut self, cursor: &mut Cursor<'a>) -> Decoded<&'a [u8]> {
        let len = self.uint(cursor)?;
        cursor.bytes(len)
    }

    fn name(&mut self, cursor: &mut Cursor<'_>) -> Decoded<Vec<u8>> {
        let at = cursor.at();
        let name = cursor.name(MAX_NAME_BYTES)?;
        let least = (64 - (name.len() as u64 | 1).leading_zeros() as usize).div_ceil(7);
        self.is_faithful &= cursor.at() - at - name.len() == least;
        Ok(name)
    }

    fn names(&mut self, cursor: &mut Cursor<'_>) -> Decoded<Vec<Vec<u8>>> {
        let n_names = self.uint(cursor)?;
        let mut names = Vec::new();
        for _ in 0..n_names {
            names.push(self.name(cursor)?);
        }
        Ok(names)
    }

    /// Reads the id of a type, with its signature if new; returns the index of the type.
    fn type_of(
        &mut self,
        space: Space,
        cursor: &mut Cursor<'_>,
        signature: impl FnOnce(&mut Walker, u64, &mut Cursor<'_>) -> Decoded<Type>,
    ) -> Decoded<u32> {
        let at = cursor.at();
        let id = self.uint(cursor)?;
        if let Some(position) = self.table.by_id(space, id) {
            return Ok(position);
        }
        let ty = signature(self, id, cursor)?;
        debug_assert_eq!(key_of(&ty), (space, id));
        if self.table.len() >= MAX_TYPES {
            let limit = MAX_TYPES as u64;
            return Err(cursor.limit_at(at, "signatures", limit, limit));
        }
        match self.table.add(ty) {
            Some(position) => Ok(position),
            None => Err(cursor.bad_at(at, "a signature within itself".to_owned())),
        }
    }

    fn function(&mut self, cursor: &mut Cursor<'_>) -> Decoded<u32> {
        self.type_of(Space::Function, cursor, |walker, id, cursor| {
            let (name, args) = (walker.name(cursor)?, walker.names(cursor)?);
            Ok(Type::Function(FunctionType { id, name, args, flags: 0 }))
        })
    }

    fn struct_type(&mut self, cursor: &mut Cursor<'_>) -> Decoded<u32> {
        self.type_of(Space::Struct, cursor, |walker, id, cursor| {
            let (name, members) = (walker.name(cursor)?, walker.names(cursor)?);
            Ok(Type::Struct(StructType { id, name, members }))
        })
    }

    fn enum_type(&mut self, cursor: &mut Cursor<'_>) -> Decoded<u32> {
        self.type_of(Space::Enum, cursor, |walker, id, cursor| {
            let n_names = if walker.version >= VERSION_WHOLE_ENUMS { walker.uint(cursor)? } else { 1 };
            let mut names = Vec::new();
            for _ in 0..n_names {
                names.push((walker.name(cursor)?, walker.sint(cursor)?));
            }
            Ok(Type::Enum(NamedNumbers::new(id, names)))
        })
    }

    fn flags_type(&mut self, cursor: &mut Cursor<'_>) -> Decoded<u32> {
        self.type_of(Space::Flags, cursor, |walker, id, cursor| {
            let n_names = walker.uint(cursor)?;
            let mut names = Vec::new();
            for _ in 0..n_names {
                names.push((walker.name(cursor)?, walker.uint(cursor)?));
            }
            Ok(Type::Flags(NamedNumbers::new(id, names)))
        })
    }

    /// Reads a stack frame, with its signature if new; returns its id.
    fn frame(&mut self, cursor: &mut Cursor<'_>) -> Decoded<u64> {
        let position = self.type_of(Space::Frame, cursor, |walker, id, cursor| {
            let (mut frame, mut last) = (Frame { id, ..Frame::default() }, FRAME_END);
            loop {
                let at = cursor.at();
                let member = cursor.byte()?;
                // The text has each member at most once, in this order.
                walker.is_faithful &= member == FRAME_END || member > last;
                last = member;
                match member {
                    FRAME_END => return Ok(Type::Frame(frame)),
                    FRAME_MODULE => frame.module = Some(walker.name(cursor)?),
                    FRAME_FUNCTION => frame.function = Some(walker.name(cursor)?),
                    FRAME_FILE => frame.file = Some(walker.name(cursor)?),
                    FRAME_LINE => frame.line = Some(walker.uint(cursor)?),
                    FRAME_OFFSET => frame.offset = Some(walker.uint(cursor)?),
                    other => {
                        return Err(cursor.bad_at(at, format!("unknown member `{other}` of a stack frame")));
                    }
                }
            }
        })?;
        Ok(self.table.get(position).map_or(0, |ty| key_of(ty).1))
    }
}
