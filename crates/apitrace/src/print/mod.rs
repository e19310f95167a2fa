//! Prints calls as text in the format of `apitrace dump`.
//!
//! [`PrintForm`] selects calls and sets the layout; [`text`] and [`float`] print values; [`json`] prints JSON.
//! SPEC: apitrace.md#text.

pub mod float;
pub mod guid;
pub mod json;
mod pieces;
pub mod settings;
pub mod text;

use crate::decode::{Header, nobody};
use crate::record::{END_FRAME, FAKE, INCOMPLETE};
use float::Floats;
use pieces::Pieces;
use quipu_model::fresh::{Replace, cannot, put};
use quipu_model::print::Ordinals;
use quipu_model::trace::PrintOptions;
use quipu_model::values::{Call, Frame, FunctionType, Kind, NO_NODE, Type, Types, Values};
use quipu_model::{Batch, Error, Paint, Printer, Result};
use settings::{Choice, PrintForm};
use std::path::Path;
use text::Ink;

/// Prints calls.
#[derive(Debug)]
pub struct CallPrinter {
    settings: PrintForm,
    choice: Choice,
    properties: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether the properties are still to be printed: the colours are only known with the first batch.
    is_fresh: bool,
    pieces: Pieces,
    floats: Floats,
    failure: Option<Error>,
}

impl CallPrinter {
    /// A printer for a trace with this header.
    ///
    /// # Errors
    /// `Usage` if an option is wrong.
    pub fn new(header: &Header, options: &PrintOptions) -> Result<CallPrinter> {
        let (settings, choice) = settings::parse(options)?;
        let properties = header.sorted_properties();
        let properties = if choice.has_pattern() { Vec::new() } else { properties };
        Ok(CallPrinter {
            settings,
            choice,
            properties: properties.into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
            is_fresh: true,
            pieces: Pieces::default(),
            floats: Floats::default(),
            failure: None,
        })
    }

    /// Prints the selected calls among `rows`, with or without colour.
    fn calls<const COLOUR: bool>(&mut self, batch: &Batch, rows: &[u32], ink: &Ink, out: &mut Vec<u8>) {
        if self.is_fresh {
            self.properties(ink, out);
        }
        let (values, types) = (&batch.values, &batch.types);
        for row in rows {
            let Some((call, function)) = self.choice.at(batch, *row) else { continue };
            self.pieces.learn(call.function, function, &self.settings, ink);
            let mut writer = CallWriter::<COLOUR> {
                settings: &self.settings,
                ink,
                pieces: &self.pieces,
                floats: Some(&mut self.floats),
                values,
                types,
                call,
                n_blobs: 0,
                failure: None,
            };
            writer.call(function, out);
            self.failure = self.failure.take().or(writer.failure);
        }
    }

    fn properties(&mut self, ink: &Ink, out: &mut Vec<u8>) {
        self.is_fresh = false;
        for (name, value) in std::mem::take(&mut self.properties) {
            out.extend_from_slice(b"// ");
            out.extend_from_slice(&name);
            out.extend_from_slice(b" = ");
            text::string(&value, self.settings.escapes, ink, out);
            out.push(b'\n');
        }
    }
}

impl Printer for CallPrinter {
    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn print(&mut self, batch: &Batch, rows: &[u32], _: Ordinals, paint: &Paint, out: &mut Vec<u8>) {
        if *paint == Paint::PLAIN {
            self.calls::<false>(batch, rows, &Ink::PLAIN, out);
        } else {
            self.calls::<true>(batch, rows, &Ink::of(paint), out);
        }
    }

    fn choose(&mut self, batch: &Batch, rows: &mut Vec<u32>, most: usize) {
        self.choice.keep(batch, rows, most);
    }

    fn n_left_out(&self) -> u64 {
        self.choice.n_left_out()
    }

    fn is_done(&self) -> bool {
        self.choice.is_done()
    }

    fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        // A trace without calls still has properties.
        if self.is_fresh {
            self.properties(&Ink::PLAIN, out);
        }
    }
}

/// Writes one call. PERF: without colour, nothing is done for it, not even appending an empty string (`view`).
pub(crate) struct CallWriter<'a, const COLOUR: bool> {
    settings: &'a PrintForm,
    ink: &'a Ink,
    pieces: &'a Pieces,
    /// A cache of printed floats, if there is one.
    floats: Option<&'a mut Floats>,
    values: &'a Values,
    types: &'a Types,
    call: &'a Call,
    /// Number of pieces of raw memory of this call written to files so far.
    pub(crate) n_blobs: u32,
    pub(crate) failure: Option<Error>,
}

impl<'a> CallWriter<'a, false> {
    /// A writer of single values of a call, without a cache of floats.
    pub(crate) fn of_values(
        settings: &'a PrintForm,
        values: &'a Values,
        types: &'a Types,
        call: &'a Call,
    ) -> CallWriter<'a, false> {
        CallWriter {
            settings,
            ink: &Ink::PLAIN,
            pieces: &pieces::NONE,
            floats: None,
            values,
            types,
            call,
            n_blobs: 0,
            failure: None,
        }
    }
}

impl<const COLOUR: bool> CallWriter<'_, COLOUR> {
    fn call(&mut self, function: &FunctionType, out: &mut Vec<u8>) {
        let call = self.call;
        if self.settings.call_nos {
            text::decimal(call.number, out);
            out.push(b' ');
        }
        if self.settings.thread_ids {
            out.push(b'@');
            text::hex(call.thread, out);
            out.push(b' ');
        }
        self.args(function, out);
        if call.result != NO_NODE {
            out.extend_from_slice(b") = ");
            self.value(call.result, out);
        } else {
            out.push(b')');
        }
        if call.flags & (FAKE | INCOMPLETE) != 0 {
            out.extend_from_slice(b" //");
            if call.flags & FAKE != 0 {
                out.extend_from_slice(b" fake");
            }
            if call.flags & INCOMPLETE != 0 {
                out.push(b' ');
                self.inked(self.ink.red, b"incomplete", out);
            }
        }
        out.push(b'\n');
        if !self.settings.multiline {
            return;
        }
        if call.has_stack && !self.values.stack_of(call).is_empty() {
            self.stack(out);
        }
        if call.flags & END_FRAME != 0 {
            out.push(b'\n');
        }
    }

    /// Writes the name and the arguments, without the closing bracket.
    fn args(&mut self, function: &FunctionType, out: &mut Vec<u8>) {
        let n_named = function.args.len() as u32; // A signature has less than 2^32 bytes.
        let mut next = 0;
        self.pieces.push(self.call.function, 0, out);
        for arg in self.values.args_of(self.call) {
            while next < arg.index {
                self.between(next, n_named, out);
                out.push(b'?');
                next += 1;
            }
            self.between(next, n_named, out);
            self.value(arg.node, out);
            next += 1;
        }
        for missing in next..n_named {
            self.between(missing, n_named, out);
            out.push(b'?');
        }
    }

    /// Writes the text before the argument at `index`; before the first there is none, because it follows the function's
    /// name.
    fn between(&self, index: u32, n_named: u32, out: &mut Vec<u8>) {
        if index == 0 {
        } else if index < n_named {
            self.pieces.push(self.call.function, index, out);
        } else {
            out.extend_from_slice(b", ");
        }
    }

    /// Writes the name of a member, and the separator before its value.
    fn name(&self, name: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(name);
        self.ink(self.ink.normal, out);
        out.extend_from_slice(b" = ");
    }

    #[inline]
    fn ink(&self, ink: &[u8], out: &mut Vec<u8>) {
        if COLOUR {
            out.extend_from_slice(ink);
        }
    }

    fn inked(&self, ink: &[u8], text: &[u8], out: &mut Vec<u8>) {
        self.ink(ink, out);
        out.extend_from_slice(text);
        self.ink(self.ink.normal, out);
    }

    pub(crate) fn value(&mut self, index: u32, out: &mut Vec<u8>) {
        let node = self.values.node(index);
        let ink = self.ink;
        match node.kind {
            Kind::Array => self.array(index, out),
            Kind::Struct => self.structure(index, out),
            Kind::Pair => {
                let people = index + 1;
                let machines = self.values.behind(people);
                self.value(if self.settings.blobs.is_some() { machines } else { people }, out);
            }
            Kind::Pointer => {
                self.ink(ink.green, out);
                out.extend_from_slice(b"0x");
                text::hex(node.payload, out);
                self.ink(ink.normal, out);
            }
            Kind::Blob => {
                self.ink(ink.green, out);
                self.blob(self.values.bytes_of(node), out);
                self.ink(ink.normal, out);
            }
            Kind::Text => text::string(self.values.bytes_of(node), self.settings.escapes, ink, out),
            Kind::Wide => text::wide(self.values.bytes_of(node), self.settings.escapes, ink, out),
            Kind::Flags => self.flags(node.ty, node.payload, out),
            _ => {
                self.ink(ink.blue, out);
                match node.kind {
                    Kind::Null => out.extend_from_slice(b"NULL"),
                    Kind::False => out.extend_from_slice(b"false"),
                    Kind::True => out.extend_from_slice(b"true"),
                    Kind::Negative => {
                        out.push(b'-');
                        text::decimal(node.payload, out);
                    }
                    Kind::Float => {
                        let number = f32::from_bits(node.payload as u32); // Its bits.
                        match &mut self.floats {
                            Some(floats) => floats.push(number, out),
                            None => float::float(number, out),
                        }
                    }
                    Kind::Double => float::double(f64::from_bits(node.payload), out),
                    Kind::Enum => match self.enum_name(node.ty, node.payload) {
                        Some(name) => out.extend_from_slice(name),
                        None => text::signed(node.payload.cast_signed(), out),
                    },
                    _ => text::decimal(node.payload, out),
                }
                self.ink(ink.normal, out);
            }
        }
    }

    fn enum_name(&self, ty: u32, number: u64) -> Option<&[u8]> {
        match self.types.get(ty)? {
            Type::Enum(names) => names.name(number),
            _ => None,
        }
    }

    fn array(&mut self, index: u32, out: &mut Vec<u8>) {
        let (n_parts, _) = self.values.node(index).halves();
        let mut part = index + 1;
        if n_parts == 1 {
            out.push(b'&');
            return self.value(part, out);
        }
        out.push(b'{');
        for i in 0..n_parts {
            if i > 0 {
                out.extend_from_slice(b", ");
            }
            self.value(part, out);
            part = self.values.behind(part);
        }
        out.push(b'}');
    }

    fn structure(&mut self, index: u32, out: &mut Vec<u8>) {
        if let Some(guid) = guid::of(self.values, self.types, index) {
            return self.inked(self.ink.blue, guid.text().as_bytes(), out);
        }
        out.push(b'{');
        self.members(index, &mut false, out);
        out.push(b'}');
    }

    /// Writes the members of a structure; members of unnamed inner structures are written as its own.
    fn members(&mut self, index: u32, has_before: &mut bool, out: &mut Vec<u8>) {
        let Some(Type::Struct(structure)) = self.types.get(self.values.node(index).ty) else { return };
        let mut part = index + 1;
        for name in &structure.members {
            if !name.is_empty() {
                if std::mem::replace(has_before, true) {
                    out.extend_from_slice(b", ");
                }
                self.name(name, out);
                self.value(part, out);
            } else if self.values.node(part).kind == Kind::Struct {
                self.members(part, has_before, out);
            }
            part = self.values.behind(part);
        }
    }

    fn flags(&self, ty: u32, number: u64, out: &mut Vec<u8>) {
        let names = match self.types.get(ty) {
            Some(Type::Flags(names)) => &names.names[..],
            _ => &[],
        };
        let (mut rest, mut has_before) = (number, false);
        let mut glue = |out: &mut Vec<u8>| {
            if std::mem::replace(&mut has_before, true) {
                out.extend_from_slice(b" | ");
            }
        };
        let mut is_named = false;
        for (name, flag) in names {
            if (*flag != 0 && rest & flag == *flag) || (*flag == 0 && rest == 0) {
                glue(out);
                self.inked(self.ink.blue, name, out);
                is_named = true;
                rest &= !flag;
            }
            if rest == 0 && is_named {
                break;
            }
        }
        if rest != 0 || !is_named {
            glue(out);
            self.ink(self.ink.blue, out);
            out.extend_from_slice(b"0x");
            text::hex(rest, out);
            self.ink(self.ink.normal, out);
        }
    }

    fn blob(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"blob(");
        match &self.settings.blobs {
            None => text::decimal(bytes.len() as u64, out),
            Some(folder) => {
                let name = blob_name(self.call.number, self.n_blobs);
                self.n_blobs += 1;
                if let Some(error) = write_blob(folder, &name, bytes, self.settings.replace) {
                    self.failure.get_or_insert(error);
                }
                out.push(b'"');
                out.extend_from_slice(name.as_bytes());
                out.push(b'"');
            }
        }
        out.push(b')');
    }

    fn stack(&self, out: &mut Vec<u8>) {
        self.ink(self.ink.bold, out);
        self.inked(self.ink.red, b"Backtrace:\n", out);
        for index in self.values.stack_of(self.call) {
            if let Some(Type::Frame(frame)) = self.types.get(*index) {
                stack_frame(frame, out);
                out.push(b'\n');
            }
        }
    }
}

/// Appends one value on one line, with whole strings; used where differences are shown.
pub(crate) fn one_value(values: &Values, types: &Types, index: u32, out: &mut Vec<u8>) {
    let settings = PrintForm {
        thread_ids: false,
        call_nos: false,
        arg_names: true,
        multiline: false,
        blobs: None,
        replace: Replace::Never,
        escapes: text::Escapes::Whole,
    };
    let call = nobody(0);
    CallWriter::of_values(&settings, values, types, &call).value(index, out);
}

/// Name of the file for a piece of raw memory of a call, after `n_before` others.
fn blob_name(number: u64, n_before: u32) -> String {
    match n_before {
        0 => format!("blob_call{number}.bin"),
        n => format!("blob_call{number}_{n}.bin"),
    }
}

/// Writes raw memory to a file; returns the error, if any.
fn write_blob(folder: &Path, name: &str, bytes: &[u8], replace: Replace) -> Option<Error> {
    // The folder is created when the first file is written.
    let made = std::fs::create_dir_all(folder).map_err(|cause| cannot("create", folder, cause));
    made.and_then(|()| put(&folder.join(name), bytes, replace)).err()
}

/// Writes one frame of a stack: `module: function+0x10: file:7`.
fn stack_frame(frame: &Frame, out: &mut Vec<u8>) {
    out.extend_from_slice(frame.module.as_deref().unwrap_or(b"?"));
    if let Some(function) = &frame.function {
        out.extend_from_slice(b": ");
        out.extend_from_slice(function);
    }
    if let Some(offset) = frame.offset {
        out.extend_from_slice(b"+0x");
        text::hex(offset, out);
    }
    if let Some(file) = &frame.file {
        out.extend_from_slice(b": ");
        out.extend_from_slice(file);
        if let Some(line) = frame.line {
            out.push(b':');
            text::decimal(line, out);
        }
    }
}
