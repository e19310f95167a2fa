//! Encodes calls as bytes of a stream of version 6.
//!
//! Each call is written as an event that enters it, with its flags, stack and all arguments, and one that leaves it, with its
//! result. A call that never returned has no second event, so that it stays incomplete. If the trace was cut right after the
//! result of a call, the result is written with the entering event, which the format allows. Signatures are written once,
//! with their original ids. SPEC: apitrace.md.

use crate::decode::Header;
use crate::record::*;
use quipu_model::values::{Call, Kind, NO_NODE, NamedNumbers, Type, Types, Values};

/// Treatment of calls that never returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Incomplete {
    /// They stay incomplete.
    #[default]
    Kept,
    /// They return without a result, as apitrace writes them; the mark is lost.
    Completed,
}

/// The state of the encoder between two calls.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Whether each type was written, by index.
    written: Vec<bool>,
    next_call: u64,
    incomplete: Incomplete,
}

/// Writes a header of the newest version with the contents of `header`.
pub fn header(header: &Header, out: &mut Vec<u8>) {
    uint(NEWEST_VERSION, out);
    uint(header.semantic_version, out);
    for (name, value) in header.sorted_properties() {
        string(name, out);
        string(value, out);
    }
    uint(0, out);
}

/// Writes a header in the form of its version: properties in their order, and each number as short as possible.
pub(crate) fn header_as_is(header: &Header, out: &mut Vec<u8>) {
    uint(header.version, out);
    if header.version >= VERSION_PROPERTIES {
        uint(header.semantic_version, out);
        for (name, value) in &header.properties {
            string(name, out);
            string(value, out);
        }
        uint(0, out);
    }
}

impl Encoder {
    /// An encoder at the beginning of a stream.
    pub fn new(incomplete: Incomplete) -> Encoder {
        Encoder { incomplete, ..Encoder::default() }
    }

    /// Writes a call. It gets the next number in the order of writing.
    pub fn call(&mut self, call: &Call, values: &Values, types: &Types, out: &mut Vec<u8>) {
        out.push(EVENT_ENTER);
        uint(call.thread, out);
        self.signature(call.function, types, out);
        if call.stored_flags != 0 {
            out.push(DETAIL_FLAGS);
            uint(call.stored_flags, out);
        }
        if call.has_stack {
            let frames = values.stack_of(call);
            out.push(DETAIL_STACK);
            uint(frames.len() as u64, out);
            for frame in frames {
                self.signature(*frame, types, out);
            }
        }
        for arg in values.args_of(call) {
            out.push(DETAIL_ARG);
            uint(arg.index.into(), out);
            self.value(arg.node, values, types, out);
        }
        if call.flags & INCOMPLETE == 0 || self.incomplete == Incomplete::Completed {
            out.push(DETAIL_END);
            out.push(EVENT_LEAVE);
            uint(self.next_call, out);
        }
        if call.result != NO_NODE {
            out.push(DETAIL_RESULT);
            self.value(call.result, values, types, out);
        }
        out.push(DETAIL_END);
        self.next_call += 1;
    }

    /// Writes the id of a type, with its signature at the first use.
    fn signature(&mut self, index: u32, types: &Types, out: &mut Vec<u8>) {
        let Some(ty) = types.get(index) else { return };
        let position = index as usize;
        if self.written.len() <= position {
            self.written.resize(position + 1, false);
        }
        let is_new = !std::mem::replace(&mut self.written[position], true);
        let id = match ty {
            Type::Function(function) => function.id,
            Type::Struct(structure) => structure.id,
            Type::Enum(names) | Type::Flags(names) => names.id,
            Type::Frame(frame) => frame.id,
        };
        uint(id, out);
        if is_new {
            body(ty, out);
        }
    }

    fn value(&mut self, index: u32, values: &Values, types: &Types, out: &mut Vec<u8>) {
        for at in index..values.behind(index) {
            let node = values.node(at);
            let mut tagged = |tag: u8, number: Option<u64>| {
                out.push(tag);
                if let Some(number) = number {
                    uint(number, out);
                }
            };
            match node.kind {
                Kind::Null => tagged(TAG_NULL, None),
                Kind::False => tagged(TAG_FALSE, None),
                Kind::True => tagged(TAG_TRUE, None),
                Kind::Negative => tagged(TAG_NEGATIVE, Some(node.payload)),
                Kind::Unsigned => tagged(TAG_UNSIGNED, Some(node.payload)),
                Kind::Pointer => tagged(TAG_POINTER, Some(node.payload)),
                Kind::Array => tagged(TAG_ARRAY, Some(node.halves().0.into())),
                Kind::Pair => tagged(TAG_REPR, None),
                Kind::Float => {
                    out.push(TAG_FLOAT);
                    out.extend_from_slice(&(node.payload as u32).to_le_bytes()); // Its bits.
                }
                Kind::Double => {
                    out.push(TAG_DOUBLE);
                    out.extend_from_slice(&node.payload.to_le_bytes());
                }
                Kind::Text | Kind::Blob => {
                    out.push(if node.kind == Kind::Text { TAG_STRING } else { TAG_BLOB });
                    string(values.bytes_of(node), out);
                }
                Kind::Wide => {
                    out.push(TAG_WIDE);
                    let units = values.bytes_of(node).as_chunks::<4>().0;
                    uint(units.len() as u64, out);
                    units.iter().for_each(|unit| uint(u32::from_le_bytes(*unit).into(), out));
                }
                Kind::Enum => {
                    out.push(TAG_ENUM);
                    self.signature(node.ty, types, out);
                    sint(node.payload, out);
                }
                Kind::Flags => {
                    out.push(TAG_BITMASK);
                    self.signature(node.ty, types, out);
                    uint(node.payload, out);
                }
                Kind::Struct => {
                    out.push(TAG_STRUCT);
                    self.signature(node.ty, types, out);
                }
            }
        }
    }
}

/// Writes the body of a signature, which follows the id at its first use.
pub(crate) fn body(ty: &Type, out: &mut Vec<u8>) {
    let names = |names: &[Vec<u8>], out: &mut Vec<u8>| {
        uint(names.len() as u64, out);
        names.iter().for_each(|name| string(name, out));
    };
    match ty {
        Type::Function(function) => {
            string(&function.name, out);
            names(&function.args, out);
        }
        Type::Struct(structure) => {
            string(&structure.name, out);
            names(&structure.members, out);
        }
        Type::Enum(numbers) => named_numbers(numbers, sint, out),
        Type::Flags(numbers) => named_numbers(numbers, uint, out),
        Type::Frame(frame) => {
            for (member, text) in
                [(FRAME_MODULE, &frame.module), (FRAME_FUNCTION, &frame.function), (FRAME_FILE, &frame.file)]
            {
                if let Some(text) = text {
                    out.push(member);
                    string(text, out);
                }
            }
            for (member, number) in [(FRAME_LINE, frame.line), (FRAME_OFFSET, frame.offset)] {
                if let Some(number) = number {
                    out.push(member);
                    uint(number, out);
                }
            }
            out.push(FRAME_END);
        }
    }
}

fn named_numbers(numbers: &NamedNumbers, write: fn(u64, &mut Vec<u8>), out: &mut Vec<u8>) {
    uint(numbers.names.len() as u64, out);
    for (name, number) in &numbers.names {
        string(name, out);
        write(*number, out);
    }
}

/// Writes a uint, seven bits a byte.
pub(crate) fn uint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80); // Its low bits.
        number >>= 7;
    }
    out.push(number as u8); // Seven bits are left.
}

/// Writes a sint: a tag for the sign, then the magnitude of a number given as two's complement.
pub(crate) fn sint(number: u64, out: &mut Vec<u8>) {
    let is_negative = number.cast_signed() < 0;
    out.push(if is_negative { TAG_NEGATIVE } else { TAG_UNSIGNED });
    uint(if is_negative { number.wrapping_neg() } else { number }, out);
}

pub(crate) fn string(bytes: &[u8], out: &mut Vec<u8>) {
    uint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
