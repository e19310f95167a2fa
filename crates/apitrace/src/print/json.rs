//! Calls as JSON objects, one a line, with typed values.
//!
//! Keys: `call`, `thread`, `function`, `args` (list of `name`, `value`), `result` (absent without one), `fake` and
//! `incomplete` (present if true), `stack` (list of frames). Values: numbers, floats, `true`, `false` and `null` as
//! themselves; other values as an object with one key that names the type:
//!
//! | object | is |
//! |---|---|
//! | `{"pointer":"0x10"}` | an address or handle |
//! | `{"enum":"GL_LINES","value":1}` | a value of an enumeration; `enum` is `null` without a name |
//! | `{"flags":["A","B"],"value":3}` | a set of flags; `rest` holds bits without a name |
//! | `{"struct":"NAME","members":{…}}` | a structure |
//! | `{"blob":SIZE}`, `{"blob":SIZE,"file":"…"}` | raw memory, by reference |
//! | `{"bytes":"68ff"}` | a string that is not UTF-8 |
//! | `{"wide":"…"}` | a string of wide characters |
//! | `{"float":"nan"}` | a NaN or an infinity |
//! | `{"text":…,"machine":…}` | one value in two forms, for people and for machines |

use super::settings::{self, Choice, PrintForm};
use super::text;
use crate::record::{FAKE, INCOMPLETE};
use quipu_model::print::Ordinals;
use quipu_model::trace::PrintOptions;
use quipu_model::values::{Call, FunctionType, Kind, NO_NODE, NO_TYPE, Node, Type, Types, Values};
use quipu_model::{Batch, Error, Paint, Printer, Result};
use serde_json::{Map, Value, json};

/// Prints calls as JSON lines.
#[derive(Debug)]
pub struct JsonPrinter {
    settings: PrintForm,
    choice: Choice,
    failure: Option<Error>,
}

impl JsonPrinter {
    /// A printer with the options' selection of calls; options of layout have no effect.
    ///
    /// # Errors
    /// `Usage` if an option is wrong.
    pub fn new(options: &PrintOptions) -> Result<JsonPrinter> {
        // Programs that read JSON filter calls themselves.
        let options = PrintOptions { verbose: true, ..options.clone() };
        let (settings, choice) = settings::parse(&options)?;
        Ok(JsonPrinter { settings, choice, failure: None })
    }
}

impl Printer for JsonPrinter {
    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn print(&mut self, batch: &Batch, rows: &[u32], _: Ordinals, _: &Paint, out: &mut Vec<u8>) {
        let (values, types) = (&batch.values, &batch.types);
        for (call, function) in self.choice.of(batch, rows) {
            let mut shown =
                Shown { settings: &self.settings, values, types, call, n_blobs: 0, failure: None };
            // Writing to a vector cannot fail.
            let _ = serde_json::to_writer(&mut *out, &shown.call(function));
            out.push(b'\n');
            self.failure = self.failure.take().or(shown.failure);
        }
    }

    fn choose(&mut self, batch: &Batch, rows: &mut Vec<u32>, most: usize) {
        self.choice.keep(batch, rows, most);
    }

    fn is_done(&self) -> bool {
        self.choice.is_done()
    }

    fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}

/// Converts a call, or values of it, to JSON.
pub(crate) struct Shown<'a> {
    pub(crate) settings: &'a PrintForm,
    pub(crate) values: &'a Values,
    pub(crate) types: &'a Types,
    pub(crate) call: &'a Call,
    /// Number of pieces of raw memory of this call written to files so far.
    pub(crate) n_blobs: u32,
    pub(crate) failure: Option<Error>,
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Shown<'_> {
    fn call(&mut self, function: &FunctionType) -> Value {
        let mut object = Map::new();
        object.insert("call".into(), self.call.number.into());
        object.insert("tid".into(), self.call.thread.into());
        object.insert("function".into(), words(&function.name).into());
        let mut args = Vec::new();
        for arg in self.values.args_of(self.call) {
            let name = function.args.get(arg.index as usize).map(|name| words(name));
            args.push(json!({ "name": name, "value": self.value(arg.node) }));
        }
        object.insert("args".into(), args.into());
        if self.call.result != NO_NODE {
            let result = self.value(self.call.result);
            object.insert("result".into(), result);
        }
        for (key, flag) in [("fake", FAKE), ("incomplete", INCOMPLETE)] {
            if self.call.flags & flag != 0 {
                object.insert(key.into(), true.into());
            }
        }
        if self.call.has_stack {
            let frames: Vec<Value> =
                self.values.stack_of(self.call).iter().map(|frame| self.frame(*frame)).collect();
            object.insert("stack".into(), frames.into());
        }
        object.into()
    }

    fn frame(&self, index: u32) -> Value {
        let Some(Type::Frame(frame)) = self.types.get(index) else { return Value::Null };
        let text = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(words);
        json!({
            "module": text(&frame.module),
            "function": text(&frame.function),
            "file": text(&frame.file),
            "line": frame.line,
            "offset": frame.offset,
        })
    }

    pub(crate) fn value(&mut self, index: u32) -> Value {
        let node = self.values.node(index);
        match node.kind {
            Kind::Null => Value::Null,
            Kind::False => false.into(),
            Kind::True => true.into(),
            Kind::Negative => match 0i64.checked_sub_unsigned(node.payload) {
                Some(number) => number.into(),
                None => json!({ "negative": node.payload }),
            },
            Kind::Unsigned => node.payload.into(),
            // The shortest text for 32 bits differs from that for 64 bits.
            Kind::Float => number(f32::from_bits(node.payload as u32).to_string(), out_of_bits(node)),
            Kind::Double => number(f64::from_bits(node.payload).to_string(), out_of_bits(node)),
            Kind::Text => match std::str::from_utf8(self.values.bytes_of(node)) {
                Ok(text) => text.into(),
                Err(_) => {
                    let mut hex = Vec::new();
                    self.values.bytes_of(node).iter().for_each(|byte| text::hex_byte(*byte, &mut hex));
                    json!({ "bytes": words(&hex) })
                }
            },
            Kind::Wide => {
                let units = self.values.bytes_of(node).as_chunks::<4>().0;
                let units: Vec<u16> = units
                    .iter()
                    .flat_map(|unit| match char::from_u32(u32::from_le_bytes(*unit)) {
                        Some(unit) => unit.encode_utf16(&mut [0; 2]).to_vec(),
                        None => vec![u16::from_le_bytes([unit[0], unit[1]])],
                    })
                    .collect();
                json!({ "wide": String::from_utf16_lossy(&units) })
            }
            Kind::Blob => self.blob(node),
            Kind::Enum => {
                let name = match self.types.get(node.ty) {
                    Some(Type::Enum(names)) => names.name(node.payload).map(words),
                    _ => None,
                };
                json!({ "enum": name, "value": node.payload.cast_signed() })
            }
            Kind::Flags => self.flags(node),
            Kind::Array => {
                let mut part = index + 1;
                let mut parts = Vec::new();
                for _ in 0..node.halves().0 {
                    parts.push(self.value(part));
                    part = self.values.behind(part);
                }
                parts.into()
            }
            Kind::Struct => self.structure(index, node),
            Kind::Pointer => json!({ "pointer": format!("{:#x}", node.payload) }),
            Kind::Pair => {
                let text = self.value(index + 1);
                let machine = self.value(self.values.behind(index + 1));
                json!({ "text": text, "machine": machine })
            }
        }
    }

    fn structure(&mut self, index: u32, node: Node) -> Value {
        let Some(Type::Struct(structure)) = self.types.get(node.ty) else { return Value::Null };
        let mut part = index + 1;
        let mut members = Map::new();
        for (i, name) in structure.members.iter().enumerate() {
            let name = if name.is_empty() { format!("#{i}") } else { words(name) };
            let value = self.value(part);
            members.insert(name, value);
            part = self.values.behind(part);
        }
        json!({ "struct": words(&structure.name), "members": members })
    }

    fn flags(&self, node: Node) -> Value {
        let names = match self.types.get(node.ty) {
            Some(Type::Flags(names)) if node.ty != NO_TYPE => &names.names[..],
            _ => &[],
        };
        let mut rest = node.payload;
        let mut set = Vec::new();
        for (name, flag) in names {
            if (*flag != 0 && rest & flag == *flag) || (*flag == 0 && node.payload == 0 && set.is_empty()) {
                set.push(words(name));
                rest &= !flag;
            }
        }
        let mut object = json!({ "flags": set, "value": node.payload });
        if rest != 0 {
            object["rest"] = rest.into();
        }
        object
    }

    fn blob(&mut self, node: Node) -> Value {
        let bytes = self.values.bytes_of(node);
        let Some(folder) = &self.settings.blobs else { return json!({ "blob": bytes.len() }) };
        let name = super::blob_name(self.call.number, self.n_blobs);
        self.n_blobs += 1;
        if let Some(error) = super::write_blob(folder, &name, bytes, self.settings.replace) {
            self.failure.get_or_insert(error);
        }
        json!({ "blob": bytes.len(), "file": name })
    }
}

/// A JSON number, or an object for a number that JSON cannot represent.
fn number(text: String, bits: f64) -> Value {
    if !bits.is_finite() {
        return json!({ "float": text.to_lowercase() });
    }
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

fn out_of_bits(node: Node) -> f64 {
    match node.kind {
        Kind::Float => f32::from_bits(node.payload as u32).into(),
        _ => f64::from_bits(node.payload),
    }
}
