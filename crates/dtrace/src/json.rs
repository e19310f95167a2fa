//! Records as JSON objects, in the form of FreeBSD's `oformat`.
//!
//! An object has the time of the firing, not the time of its output.
//!
//! SPEC: dtrace.md#json

use crate::action::Action;
use crate::aggregate::{Aggregates, Entry};
use crate::bytes::until_nul;
use crate::convert::{self, Spec};
use crate::describe::{Capture, Dialect, Rec};
use crate::format::{Conversion, Length};
use crate::host::Words;
use crate::messages::Dropped;
use crate::options::Settings;
use crate::sort;
use crate::symbols::{Address, Shown};
use crate::text::{Bytes, kind_of};
use crate::value::Value;
use crate::walk::Firing;
use serde_json::{Map, Number, Value as Json};

/// Makes an object from pairs.
fn object<const N: usize>(pairs: [(&str, Json); N]) -> Json {
    Json::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The properties of a firing, without its values.
pub(crate) fn firing(capture: &Capture, firing: &Firing<'_>) -> Map<String, Json> {
    let mut all = Map::new();
    let mut add = |key: &str, value: Json| all.insert(key.to_owned(), value);
    if capture.dialect == Dialect::Classic {
        add("timestamp", firing.record.time.into());
    }
    add("cpu", firing.cpu.into());
    add("id", firing.probe.into());
    if let Some(probe) = capture.probes.get(&firing.probe) {
        add("provider", probe.provider.clone().into());
        add("module", probe.module.clone().into());
        add("function", probe.function.clone().into());
        add("name", probe.name.clone().into());
    }
    all
}

/// A number, a string, or bytes in hexadecimal.
pub(crate) fn scalar(capture: &Capture, rec: &Rec, bytes: &[u8]) -> Json {
    let order = capture.order;
    let is_linux = capture.dialect == Dialect::Linux;
    let by_kind = if is_linux && rec.action == Action::Trace { rec.arg & 1 == 1 } else { bytes.len() >= 4 };
    match bytes.len() {
        1 | 2 | 4 | 8 if rec.signed.unwrap_or(by_kind) => order.signed(bytes).into(),
        1 | 2 | 4 | 8 => order.number(bytes).into(),
        _ if is_linux && rec.alignment == 1 => String::from_utf8_lossy(until_nul(bytes)).into(),
        _ => match kind_of(bytes) {
            Bytes::String(text) | Bytes::Unended(text) => String::from_utf8_lossy(text).into(),
            Bytes::Raw => hex(bytes),
        },
    }
}

/// An argument of `printf()`: the number or the text that its conversion would print, without width and precision.
pub(crate) fn argument(capture: &Capture, words: Words<'_>, of: Conversion, rec: &Rec, bytes: &[u8]) -> Json {
    let is_number = matches!(bytes.len(), 1 | 2 | 4 | 8);
    let shown = match of.letter {
        b'd' | b'i' if is_number => {
            let is_signed = convert::sign(capture.dialect, of.letter, rec, bytes.len()).unwrap_or(true);
            let value =
                if is_signed { capture.order.signed(bytes) } else { capture.order.number(bytes) as i64 };
            match of.length {
                Length::Byte => (value as i8).into(),
                Length::Short => (value as i16).into(),
                _ if is_signed || bytes.len() < 8 => value.into(),
                _ => (value as u64).into(),
            }
        }
        b'u' | b'o' | b'x' | b'X' | b'p' | b'a' | b'A' if is_number => {
            let value = capture.order.number(bytes);
            match of.length {
                Length::Byte => (value as u8).into(),
                Length::Short => (value as u16).into(),
                _ => value.into(),
            }
        }
        b'A' if bytes.len() == 16 => capture.order.number(&bytes[8..]).into(),
        b'e' | b'E' | b'f' | b'g' | b'G' => match convert::float(capture.order, bytes) {
            // JSON has neither infinities nor NaN.
            Some(value) => Number::from_f64(value).map_or_else(|| value.to_string().into(), Json::Number),
            None => scalar(capture, rec, bytes),
        },
        b'c' | b's' if of.letter == b'c' || matches!(of.length, Length::Long | Length::Wide) => {
            // The consumer does not print the letter for `%wc`, so its output is not used here.
            let length = if of.length == Length::Wide { Length::Long } else { of.length };
            let plain = Conversion { letter: of.letter, length, ..Conversion::default() };
            let mut text = Vec::new();
            match convert::argument(capture, words, &Spec::new(plain, None, None), rec, bytes, &mut text) {
                Ok(()) => String::from_utf8_lossy(&text).into(),
                Err(_) => scalar(capture, rec, bytes),
            }
        }
        b'C' if is_number => {
            // The lowest byte, as for `%c`.
            char::from(capture.order.number(bytes) as u8).to_string().into()
        }
        b's' | b'S' => String::from_utf8_lossy(until_nul(bytes)).into(),
        _ => scalar(capture, rec, bytes),
    };
    object([("value", shown)])
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> Json {
    quipu_stream::json::hex(bytes).into()
}

/// A value of `trace()`.
pub(crate) fn value(capture: &Capture, rec: &Rec, bytes: &[u8]) -> Json {
    object([("value", scalar(capture, rec, bytes))])
}

/// The text of a `printf()`.
pub(crate) fn message(text: &[u8]) -> Json {
    object([("message", String::from_utf8_lossy(text).into())])
}

/// A typed value, as lines.
pub(crate) fn typed(text: &[u8]) -> Json {
    let lines = String::from_utf8_lossy(text);
    let lines = lines.trim().lines().map(|line| Json::from(line.trim_end()));
    object([("type", lines.collect())])
}

/// A drop as a firing of the pseudo probe for drops on CPU −1; the real CPU is in the message.
pub(crate) fn drop(of: &Dropped) -> Json {
    object([
        ("cpu", (-1).into()),
        ("id", 0.into()),
        ("provider", "dtrace".into()),
        ("module", "INTERNAL".into()),
        ("function", "INTERNAL".into()),
        ("name", "DROP".into()),
        ("count", of.n.into()),
        ("total", of.n.into()),
        ("kind", of.tag.into()),
        ("msg", of.message.clone().into()),
    ])
}

/// Text under a name.
pub(crate) fn text(name: &str, text: &[u8]) -> Json {
    object([(name, String::from_utf8_lossy(text).into())])
}

/// Bytes under a name.
pub(crate) fn named(name: &str, bytes: &[u8]) -> Json {
    object([(name, hex(bytes))])
}

/// The text of an address.
fn called(capture: &Capture, of: Address) -> String {
    let mut out = Vec::new();
    of.text(capture, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn frame(capture: &Capture, of: u64, is_user: bool) -> Json {
    let whole = called(capture, Address { address: of, is_user, shown: Shown::Whole });
    let (module, name) = whole.split_once('`').unwrap_or(("", &whole));
    let (name, offset) = name.split_once('+').unwrap_or((name, "0x0"));
    object([
        ("symbol", whole.clone().into()),
        ("module", module.into()),
        ("name", name.into()),
        ("offset", offset.into()),
    ])
}

/// The frames of a stack.
pub(crate) fn stack(capture: &Capture, rec: &Rec, bytes: &[u8]) -> Json {
    let is_user = rec.action != Action::Stack;
    let (bytes, n) = match is_user {
        true => (bytes.get(8..).unwrap_or(&[]), (rec.arg & 0xffff_ffff) as usize), // The lower half.
        false => (bytes, usize::try_from(rec.arg).unwrap_or(usize::MAX)),
    };
    let width = if !is_user && bytes.len() / n.max(1) == 4 { 4 } else { 8 };
    let frames = bytes.chunks_exact(width).take(n).map(|frame| capture.order.number(frame));
    let frames = frames.take_while(|of| *of != 0).map(|of| frame(capture, of, is_user));
    object([(if is_user { "ustack-frames" } else { "stack-frames" }, frames.collect())])
}

/// A symbol or module.
pub(crate) fn symbol(capture: &Capture, rec: &Rec, bytes: &[u8]) -> Json {
    let name = match rec.action {
        Action::Sym => "sym",
        Action::Mod => "mod",
        Action::Usym => "usym",
        Action::Umod => "umod",
        _ => "uaddr",
    };
    let Some(of) = Address::of(capture, rec, bytes) else { return named(name, bytes) };
    let text = called(capture, of);
    if name != "sym" {
        return object([(name, text.into())]);
    }
    let (module, symbol) = text.split_once('`').unwrap_or(("", &text));
    let start = capture.symbols.start(of.address, false, Shown::Symbol);
    object([
        ("sym", text.clone().into()),
        ("object", module.into()),
        ("name", symbol.into()),
        ("offset", format!("{:#x}", of.address - start).into()),
    ])
}

/// The entries of a variable.
pub(crate) fn aggregation(capture: &Capture, settings: &Settings, all: &Aggregates, variable: u64) -> Json {
    let mut entries: Vec<&Entry> = all.entries().filter(|entry| entry.variable == variable).collect();
    sort::entries(capture, settings, &mut entries);
    let named = |of: &&crate::describe::Aggregation| of.variable == variable && of.name.is_some();
    let name = capture.aggregations.iter().find(named).and_then(|of| of.name.clone());
    let data = entries.iter().map(|entry| {
        let described = &capture.aggregations[entry.aggregation];
        let keys = described.keys.iter().map(|rec| key(capture, rec, rec.of(&entry.key)));
        let (name, value) = of_value(capture, &entry.value, all.normal(variable));
        object([("keys", keys.collect()), (name, value)])
    });
    object([
        ("aggregation-data", data.collect()),
        ("aggregation-name", name.unwrap_or_else(|| variable.to_string()).into()),
    ])
}

fn key(capture: &Capture, rec: &Rec, bytes: &[u8]) -> Json {
    match rec.action {
        Action::Stack | Action::Ustack | Action::Jstack => stack(capture, rec, bytes),
        _ => match Address::of(capture, rec, bytes) {
            Some(of) => called(capture, of).into(),
            None => scalar(capture, rec, bytes),
        },
    }
}

fn of_value(capture: &Capture, value: &Value, normal: u64) -> (&'static str, Json) {
    if !value.function.is_histogram() {
        return (value.function.name(), value.number(normal).into());
    }
    let cells = value.cells.iter().zip(value.bounds(capture.dialect)).filter(|(count, _)| **count != 0);
    let cells = cells.map(|(count, bound)| {
        object([("value", bound.into()), ("count", crate::bars::divide(*count, normal).into())])
    });
    ("buckets", cells.collect())
}
