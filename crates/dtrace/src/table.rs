//! Records, probes and aggregations as table rows.

use crate::action::Action;
use crate::aggregate::{Aggregates, Entry};
use crate::bytes::until_nul;
use crate::describe::{Capture, Event, Rec};
use crate::put;
use crate::symbols::{Address, Shown};
use crate::text::{self, Bytes};
pub use quipu_model::aggregations::Aggregations;
use quipu_model::column::Strings;
use quipu_model::rows;
use quipu_model::schema::{Role, Type};

rows! {
    /// A row for each record, in the order in which the consumer takes them.
    pub struct Records: "records" derived "records of probes, in the order in which the consumer processes them" {
        record: Vec<u64>, role(Role::RECORD) => "position among the records, from 1";
        cpu: Vec<u32> => "CPU";
        time: Vec<u64>, missing(0u64) => "nanoseconds of the traced host's clock";
        epid: Vec<u32> => "number of the enabled probe (EPID); on Linux, of the statement";
        probe: Vec<u32> => "number of the probe";
        provider: Strings => "provider of the probe";
        module: Strings => "module of the probe";
        function: Strings => "function of the probe";
        name: Strings => "name of the probe";
        size: Vec<u32> => "bytes of the record";
        offset: Vec<u64> as Type::Address => "offset in the buffer; on Linux, of its line or frame in the file";
    }
}

rows! {
    /// A row for each probe.
    pub struct Probes: "probes" exact "the probes that are described" {
        probe: Vec<u32> => "number of the probe";
        provider: Strings => "provider of the probe";
        module: Strings => "module of the probe";
        function: Strings => "function of the probe";
        name: Strings => "name of the probe";
    }
}

/// Appends a row for each probe, by number.
pub(crate) fn probes(capture: &Capture, to: &mut Probes) {
    let mut all: Vec<_> = capture.probes.values().collect();
    all.sort_by_key(|probe| probe.id);
    for probe in all {
        to.probe.push(probe.id);
        to.provider.push(probe.provider.as_bytes());
        to.module.push(probe.module.as_bytes());
        to.function.push(probe.function.as_bytes());
        to.name.push(probe.name.as_bytes());
    }
}

/// Appends a row for each key of all aggregations, ordered by variable and key. Buffers that cannot be read to their ends
/// contribute the keys before that.
pub(crate) fn aggregations(capture: &Capture, to: &mut Aggregations) {
    let all = merged(capture);
    let mut rows: Vec<(u64, Vec<u8>, &Entry)> =
        all.entries().map(|entry| (entry.variable, key_text(capture, entry), entry)).collect();
    rows.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    for (variable, key, entry) in rows {
        let described = &capture.aggregations[entry.aggregation];
        to.variable.push(variable);
        to.name.push(described.name.as_deref().unwrap_or("").as_bytes());
        to.does.push(described.function.name().as_bytes());
        to.key.push(&key);
        to.value.push(value_of(entry));
    }
}

/// Number of keys of all aggregations.
pub(crate) fn n_aggregations(capture: &Capture) -> u64 {
    merged(capture).entries().count() as u64
}

/// Text of a key: its members, separated by commas.
pub(crate) fn key_text(capture: &Capture, entry: &Entry) -> Vec<u8> {
    let mut key = Vec::new();
    for (at, rec) in capture.aggregations[entry.aggregation].keys.iter().enumerate() {
        if at > 0 {
            key.extend_from_slice(b", ");
        }
        member(capture, rec, rec.of(&entry.key), &mut key);
    }
    key
}

/// The number that is printed for an entry; for a histogram, the sum of its cells.
pub(crate) fn value_of(entry: &Entry) -> i64 {
    let value = &entry.value;
    if value.function.is_histogram() { value.sum() } else { value.number(1) }
}

/// All aggregations of a capture as they were recorded, merged over CPUs.
pub fn merged(capture: &Capture) -> Aggregates {
    let mut all = Aggregates::new(false);
    for buffer in &capture.states {
        // Damage is reported when the capture is opened.
        let _ = all.take(capture, buffer);
    }
    for event in &capture.events {
        if let Event::State { cpu, aggregation, key, data } = event {
            all.replace(capture, *cpu, *aggregation, key, data);
        }
    }
    all.settle();
    all
}

/// Appends the short form of a member of a key.
fn member(capture: &Capture, rec: &Rec, bytes: &[u8], out: &mut Vec<u8>) {
    let order = capture.order;
    if let Some(address) = Address::of(capture, rec, bytes) {
        return address.text(capture, out);
    }
    match rec.action {
        Action::Stack => {
            let width = if bytes.len() as u64 / rec.arg.max(1) == 4 { 4 } else { 8 };
            let frames = bytes.chunks_exact(width).map(|frame| order.number(frame));
            for (at, address) in frames.take_while(|address| *address != 0).enumerate() {
                out.extend_from_slice(if at > 0 { b" < " } else { b"" });
                capture.symbols.text(address, false, Shown::Whole, out);
            }
        }
        Action::Ustack | Action::Jstack => {
            let frames = bytes.get(8..).unwrap_or(&[]).chunks_exact(8).map(|frame| order.number(frame));
            let n = (rec.arg & 0xffff_ffff) as usize; // The lower half of `arg` is the number of frames.
            for (at, address) in frames.take(n).take_while(|address| *address != 0).enumerate() {
                out.extend_from_slice(if at > 0 { b" < " } else { b"" });
                capture.symbols.text(address, true, Shown::Whole, out);
            }
        }
        _ => match bytes.len() {
            1 | 2 if rec.signed != Some(true) => put::unsigned(out, order.number(bytes), 0),
            1 | 2 | 4 | 8 => put::signed(out, order.signed(bytes), 0),
            _ => match text::kind_of(bytes) {
                Bytes::String(text) | Bytes::Unended(text) => out.extend_from_slice(text),
                Bytes::Raw if until_nul(bytes).is_empty() && bytes.iter().all(|byte| *byte == 0) => {}
                Bytes::Raw => out.extend_from_slice(quipu_stream::json::hex(bytes).as_bytes()),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::{Symbol, Symbols};

    #[test]
    fn addresses_in_keys_are_called_what_their_action_shows() {
        let (object, name) = ("libc.so".to_owned(), "malloc".to_owned());
        let symbol = Symbol { lo: 0x1000, hi: 0x2000, object, name, user: true };
        let capture = Capture { symbols: Symbols::new(vec![symbol]), ..Capture::default() };
        let text = |action| {
            let rec = Rec {
                action,
                code: 0,
                size: 16,
                offset: 0,
                alignment: 8,
                format: 0,
                arg: 0,
                uarg: 0,
                signed: None,
            };
            let bytes = [7u64.to_le_bytes(), 0x1004u64.to_le_bytes()].concat();
            let mut out = Vec::new();
            member(&capture, &rec, &bytes, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Action::Umod), "libc.so");
        assert_eq!(text(Action::Usym), "libc.so`malloc");
        assert_eq!(text(Action::Uaddr), "libc.so`malloc+0x4");
    }
}
