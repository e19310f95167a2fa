//! Reads `raw.jsonl`: the data of the Linux consumer, one item per line.

use crate::action::{Action, Function};
use crate::bytes::from_hex;
use crate::describe::{Aggregation, Capture, Dialect, Enabling, Event, Probe, Rec};
use crate::host::{self, Host, Said};
use crate::lost::Lost;
use crate::meta::MetaRec;
use crate::origin::{self, Lines as Origins, Origin};
use crate::rules;
use crate::symbols::{Symbol, Symbols};
use crate::types::{Type, Types};
use crate::validate;
use quipu_model::loss::Amount;
use quipu_model::{Loss, Place, Result};
use quipu_stream::json::put_hex;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value as Json;
use std::io::Write as _;
use std::sync::Arc;

/// Name of the file of a capture.
pub const FILE: &str = "raw.jsonl";

/// Name of a file in the same folder with the consumer's options, as on its command line.
pub const OPTIONS: &str = "opts";

/// Maximum size of the file in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

#[derive(Deserialize)]
#[serde(tag = "t", rename_all = "lowercase")]
enum Line {
    Probe {
        id: u32,
        prv: String,
        #[serde(rename = "mod")]
        module: String,
        fun: String,
        prb: String,
    },
    Datadesc {
        stid: u32,
        #[serde(default)]
        uarg: u64,
        #[serde(default)]
        size: u32,
        recs: Vec<MetaRec>,
    },
    Sample {
        cpu: u32,
        raw: String,
    },
    Aggdesc {
        id: u32,
        #[serde(default)]
        name: Option<String>,
        varid: u64,
        sig: String,
        ksize: u32,
        keys: Vec<MetaRec>,
        data: Vec<MetaRec>,
    },
    Aggsnap {
        id: u32,
        cpu: u32,
        key: String,
        data: String,
    },
    /// A symbol; only captures made by Quipu have these lines.
    Symbol(Symbol),
    /// A type for `print()`.
    Type(Type),
    /// The time zone of the host.
    Zone(Json),
    /// The locale of the consumer.
    Locale(Json),
    /// The host's names for services and network addresses.
    Names(Json),
    /// A further host.
    Host(Box<Said>),
    /// A loss, in a capture made of a damaged one.
    Lost(Lost),
    /// A line of a later version.
    #[serde(other)]
    Other,
}

/// Whether a file begins with a line of this form.
pub fn is_likely(head: &[u8]) -> bool {
    let first = head.trim_ascii_start();
    let kinds = [
        "probe", "datadesc", "sample", "aggdesc", "aggsnap", "symbol", "type", "zone", "locale", "names",
        "host", "lost",
    ];
    let begins = |kind: &&str| {
        let rest = first.strip_prefix(b"{\"t\":").map(<[u8]>::trim_ascii_start);
        rest.is_some_and(|rest| rest.starts_with(format!("\"{kind}\"").as_bytes()))
    };
    kinds.iter().any(begins)
}

/// State while lines are read.
#[derive(Default)]
struct Lines {
    capture: Capture,
    formats: FxHashMap<Arc<[u8]>, u16>,
    symbols: Vec<Symbol>,
    types: Vec<Type>,
    /// Further hosts, with the numbers of their statements.
    hosts: Vec<(Host, String)>,
    /// Number of hosts above the limit.
    n_hosts_beyond: usize,
    /// Messages about faults in the current line's description of a host.
    odd: Vec<String>,
}

/// Reads the lines of a capture.
///
/// # Errors
/// `Malformed` for invalid descriptions. Unreadable lines become findings.
pub fn read(file: &str, text: &[u8]) -> Result<Capture> {
    let capture = Capture {
        name: file.to_owned(),
        dialect: Dialect::Linux,
        pointer_bytes: 8,
        library_base: LIBRARY_BASE,
        ..Capture::default()
    };
    let mut lines = Lines { capture, ..Lines::default() };
    let (mut offset, mut n_wrong, mut n_odd) = (0, 0, 0_u64);
    let (mut origin, mut scratch) = (Origins::default(), Vec::new());
    for (number, line) in (1u64..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
        let content = line.trim_ascii();
        let n_events = lines.capture.events.len();
        if !content.is_empty() {
            let place = Place {
                file: Some(file.to_owned()),
                offset: Some(offset),
                record: Some(n_events as u64), // Widening.
                ..Place::default()
            };
            let parsed = serde_json::from_slice(content)
                .map_err(|cause| format!("line {number} cannot be read: {cause}"));
            let taken = parsed.and_then(|line| {
                lines.take(line, offset).map_err(|message| format!("line {number}: {message}"))
            });
            for message in lines.odd.drain(..) {
                n_odd += 1;
                if n_odd <= MAX_WRONG {
                    let message = format!("line {number}: {message}");
                    lines.capture.findings.push(rules::METADATA.broken(place.clone(), message));
                }
            }
            // A faulty line does not affect the others.
            if let Err(message) = taken {
                n_wrong += 1;
                if n_wrong <= MAX_WRONG {
                    // The line may be a description that others need, or the first of several lost lines.
                    let loss = Loss { records: Amount::AtLeast(1), ..Loss::from(place.clone()) };
                    lines.capture.findings.push(rules::LINE.broken(place, message).losing(loss));
                }
            }
        }
        offset += line.len() as u64;
        match lines.capture.events.get(n_events) {
            None => origin.text(line),
            Some(event) if is_exact(event) => {
                origin.event(line, origin::usual(&lines.capture, event, &mut scratch));
            }
            Some(_) => origin.event(line, &[]),
        }
    }
    let Lines { mut capture, symbols, types, hosts, n_hosts_beyond, .. } = lines;
    let of_file = || Place { file: Some(file.to_owned()), ..Place::default() };
    let mut odd = capture.add_hosts(hosts, 0);
    odd.extend((n_hosts_beyond > 0).then(|| host::beyond_limit(n_hosts_beyond)));
    capture.findings.extend(odd.into_iter().map(|message| rules::METADATA.broken(of_file(), message)));
    // The finding with the count comes first, because only the first findings of each rule are printed.
    if n_wrong > MAX_WRONG {
        let message =
            format!("`{}` more lines cannot be read, beside the first `{MAX_WRONG}`", n_wrong - MAX_WRONG);
        capture.findings.insert(0, rules::LINE.broken(of_file(), message));
    }
    if n_odd > MAX_WRONG {
        capture.findings.insert(0, rules::METADATA.broken(of_file(), host::more_odd(n_odd - MAX_WRONG)));
    }
    capture.symbols = Symbols::new(symbols);
    capture.types = Types::new(types);
    // Damaged lines are not written again.
    capture.origin = if n_wrong == 0 { origin.finish() } else { Origin::Unknown };
    capture.index();
    validate::all(&capture).map_err(|error| error.in_file(file))?;
    Ok(capture)
}

/// Whether a stream keeps all bytes of an event.
fn is_exact(event: &Event) -> bool {
    match event {
        Event::Sample { bytes, .. } => {
            let own = bytes.first_chunk().map(|word| u64::from(u32::from_le_bytes(*word)) + 4);
            own == Some(bytes.len() as u64)
        }
        Event::State { .. } => true,
    }
}

/// Appends the line of an event.
pub(crate) fn put_event(capture: &Capture, event: &Event, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    match event {
        Event::Sample { cpu, bytes, .. } => {
            let _ = write!(out, "{{\"t\":\"sample\",\"cpu\":{cpu},\"raw\":\"");
            put_hex(bytes, out);
        }
        Event::State { cpu, aggregation, key, data } => {
            let id = capture.aggregations.get(*aggregation).map_or(0, |described| described.id);
            let _ = write!(out, "{{\"t\":\"aggsnap\",\"id\":{id},\"cpu\":{cpu},\"key\":\"");
            put_hex(key, out);
            out.extend_from_slice(b"\",\"data\":\"");
            put_hex(data, out);
        }
    }
    out.extend_from_slice(b"\"}\n");
}

/// Number of the first of the consumer's own actions, unless an `exit()` gives it.
pub(crate) const LIBRARY_BASE: u64 = 46;

/// Maximum number of unreadable lines that are reported one by one; also applies to faults in settings of hosts.
const MAX_WRONG: u64 = host::MAX_ODD;

/// Distance of the number of `exit()` from the number of the first action.
const EXIT: u64 = 11;

impl Lines {
    fn take(&mut self, line: Line, offset: u64) -> Result<(), String> {
        let hex = |text: &str| from_hex(text).ok_or_else(|| "bytes are not hexadecimal".to_owned());
        let capture = &mut self.capture;
        match line {
            Line::Probe { id, prv: provider, module, fun: function, prb: name } => {
                capture.probes.insert(id, Probe { id, provider, module, function, name });
            }
            Line::Datadesc { stid: id, uarg, size, recs } => {
                let recs = recs.iter().map(|rec| self.rec(rec)).collect::<Result<Vec<Rec>, String>>()?;
                let exit = recs
                    .iter()
                    .find(|rec| rec.action == Action::Exit)
                    .and_then(|rec| rec.arg.checked_sub(EXIT));
                let capture = &mut self.capture;
                capture.library_base = exit.filter(|base| *base > 0).unwrap_or(capture.library_base);
                let enabling = Enabling { id, probe: 0, uarg, size, align: 8, recs, host: 0 };
                capture.add_enabling(enabling);
            }
            Line::Sample { cpu, raw } => {
                capture.events.push(Event::Sample { cpu, offset, bytes: hex(&raw)?.into() });
            }
            Line::Aggdesc { id, name, varid: variable, sig, ksize: size, keys, data } => {
                let param = sig.trim_start_matches("0x");
                let param = u64::from_str_radix(param, 16)
                    .map_err(|_| format!("the signature `{sig}` is no number"))?;
                let keys: Vec<Rec> = keys.iter().skip(1).map(|rec| rec.rec(Dialect::Linux)).collect();
                let value = data.get(1).ok_or("an aggregation has no value")?.rec(Dialect::Linux);
                let Action::Aggregate(function) = value.action else {
                    return Err(format!("action {:#x} does not aggregate", value.code));
                };
                let has_param = matches!(function, Function::Lquantize | Function::Llquantize);
                let param = if has_param { param } else { 0 };
                let aggregation =
                    Aggregation { id, epid: 0, variable, name, size, function, param, keys, value };
                capture.add_aggregation(aggregation);
            }
            Line::Aggsnap { id, cpu, key, data } => {
                let aggregation =
                    capture.aggregation(id).ok_or_else(|| format!("aggregation {id} has no description"))?;
                let (key, data): (Vec<u8>, Vec<u8>) = (hex(&key)?, hex(&data)?);
                let described = &capture.aggregations[aggregation];
                let value = &described.value;
                let needed = value.offset as usize + value.size as usize;
                let described = (described.size as usize, needed);
                if (key.len(), data.len()) != described {
                    let ((k, d), (key, data)) = ((key.len(), data.len()), described);
                    return Err(format!(
                        "a state of aggregation {id} has {k} and {d} bytes, described as {key} and {data}"
                    ));
                }
                capture.events.push(Event::State { cpu, aggregation, key: key.into(), data: data.into() });
            }
            Line::Symbol(symbol) => self.symbols.push(symbol),
            Line::Type(ty) => self.types.push(ty),
            Line::Zone(said) => capture.zone = host::zone(said, &mut self.odd),
            Line::Locale(said) => capture.locale = host::locale(said, &mut self.odd),
            Line::Names(said) => capture.names = host::names(said, &mut self.odd),
            Line::Host(_) if self.hosts.len() == host::MAX_HOSTS => self.n_hosts_beyond += 1,
            Line::Host(said) => self.hosts.push(said.host(&mut self.odd)),
            Line::Lost(lost) => capture.lost.push(lost),
            Line::Other => {}
        }
        Ok(())
    }

    /// Reads a part of a record, and assigns a number to its format.
    fn rec(&mut self, described: &MetaRec) -> Result<Rec, String> {
        let mut rec = described.rec(Dialect::Linux);
        rec.format = 0;
        if let Some(text) = described.format.as_str() {
            let text: Arc<[u8]> = text.as_bytes().into();
            rec.format = match self.formats.get(&text) {
                Some(number) => *number,
                None => {
                    let number = u16::try_from(self.capture.formats.len() + 1)
                        .map_err(|_| "there are too many formats")?;
                    self.capture.formats.push(Arc::clone(&text));
                    self.formats.insert(text, number);
                    number
                }
            };
        }
        Ok(rec)
    }
}
