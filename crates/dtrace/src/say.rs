//! Descriptions of a capture as text and as JSON.

use crate::describe::{Capture, Rec};
use crate::export;
use crate::host::{Host, Said};
use crate::locale::Locale;
use crate::zone::Zone;
use quipu_model::result;
use serde_json::{Map, Value as Json};
use std::fmt::Write as _;

/// Descriptions as text, one line for each item.
pub(crate) fn lines(capture: &Capture) -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        out,
        "capture       dialect={}  byte_order={:?}  pointer_bytes={}",
        capture.dialect.name(),
        capture.order,
        capture.pointer_bytes
    );
    if (&capture.zone, &capture.locale) != (&Zone::default(), &Locale::default()) {
        let (zone, locale) = (&capture.zone, &capture.locale.name);
        let _ = writeln!(out, "host          zone={} {:+} s  locale={locale}", zone.name, zone.offset_s);
    }
    for (port, name) in &capture.names.services {
        let _ = writeln!(out, "service       port={port}  {name}");
    }
    for (address, name) in &capture.names.hosts {
        let _ = writeln!(out, "host          address={address}  {name}");
    }
    for (number, (of, enablings)) in (1..).zip(capture.hosts.iter().zip(capture.assigned(0))) {
        let Host { zone, locale, names, settings } = of;
        let _ = writeln!(
            out,
            "host          number={number}  zone={} {:+} s  locale={}  services={}  hosts={}  options={}  enablings={}",
            zone.name,
            zone.offset_s,
            locale.name,
            names.services.len(),
            names.hosts.len(),
            export::options(settings, ",", ""),
            enablings.replace(' ', ","),
        );
    }
    for (name, value) in capture.settings.list() {
        let _ = writeln!(
            out,
            "option        {name}={}",
            value.map_or("on".to_owned(), |value| value.to_string())
        );
    }
    for probe in probes(capture) {
        let _ = writeln!(
            out,
            "probe         id={}  {}:{}:{}:{}",
            probe.id, probe.provider, probe.module, probe.function, probe.name
        );
    }
    for (number, format) in (1..).zip(&capture.formats) {
        let _ = writeln!(out, "format        id={number}  {:?}", String::from_utf8_lossy(format));
    }
    for enabling in &capture.enablings {
        let parts: Vec<String> = enabling.recs.iter().map(part).collect();
        let (id, probe, size) = (enabling.id, enabling.probe, enabling.size);
        let _ = writeln!(out, "enabling      id={id}  probe={probe}  size={size}  [{}]", parts.join(", "));
    }
    for described in &capture.aggregations {
        let keys: Vec<String> = described.keys.iter().map(part).collect();
        let name = described.name.as_deref().unwrap_or("");
        let _ = writeln!(
            out,
            "aggregation   id={}  variable={}  @{name}[{}]  {}()",
            described.id,
            described.variable,
            keys.join(", "),
            described.function.name()
        );
    }
    for symbol in capture.symbols.iter() {
        let _ = writeln!(
            out,
            "symbol        {:#x}..{:#x}  {}`{}",
            symbol.lo, symbol.hi, symbol.object, symbol.name
        );
    }
    for (kind, buffers) in [("buffer", &capture.buffers), ("aggbuffer", &capture.states)] {
        for buffer in buffers {
            let (cpu, bytes, drops) = (buffer.cpu, buffer.bytes.len(), buffer.drops);
            let _ = writeln!(out, "{kind:<13} cpu={cpu}  bytes={bytes}  drops={drops}");
        }
    }
    out
}

fn probes(capture: &Capture) -> Vec<&crate::describe::Probe> {
    let mut all: Vec<_> = capture.probes.values().collect();
    all.sort_by_key(|probe| probe.id);
    all
}

fn part(rec: &Rec) -> String {
    format!("{:?} {}@{}", rec.action, rec.size, rec.offset).to_lowercase()
}

/// The same as JSON.
pub(crate) fn json(capture: &Capture) -> Json {
    let mut all = Map::new();
    all.insert("dialect".to_owned(), capture.dialect.name().into());
    let host = [
        ("zone", result::json(&capture.zone)),
        ("locale", result::json(&capture.locale)),
        ("names", result::json(&capture.names)),
    ];
    all.extend(host.into_iter().map(|(key, value)| (key.to_owned(), value)));
    if !capture.hosts.is_empty() {
        all.insert("hosts".to_owned(), result::json(&Said::of(capture)));
    }
    let names = |probe: &crate::describe::Probe| {
        let names = [&probe.provider, &probe.module, &probe.function, &probe.name];
        let mut pairs = Map::new();
        pairs.insert("id".to_owned(), probe.id.into());
        pairs.extend(
            ["provider", "module", "function", "name"]
                .iter()
                .zip(names)
                .map(|(key, name)| ((*key).to_owned(), Json::from(name.clone()))),
        );
        Json::Object(pairs)
    };
    all.insert("probes".to_owned(), probes(capture).into_iter().map(names).collect());
    let formats = capture.formats.iter().map(|text| Json::from(String::from_utf8_lossy(text)));
    all.insert("formats".to_owned(), formats.collect());
    let enabling = |enabling: &crate::describe::Enabling| {
        let mut pairs = Map::new();
        pairs.insert("epid".to_owned(), enabling.id.into());
        pairs.insert("probe".to_owned(), enabling.probe.into());
        pairs.insert("size".to_owned(), enabling.size.into());
        pairs.insert("parts".to_owned(), enabling.recs.iter().map(|rec| Json::from(part(rec))).collect());
        Json::Object(pairs)
    };
    all.insert("enablings".to_owned(), capture.enablings.iter().map(enabling).collect());
    let aggregation = |described: &crate::describe::Aggregation| {
        let mut pairs = Map::new();
        pairs.insert("id".to_owned(), described.id.into());
        pairs.insert("variable".to_owned(), described.variable.into());
        pairs.insert("function".to_owned(), described.function.name().into());
        pairs.insert("name".to_owned(), described.name.clone().into());
        Json::Object(pairs)
    };
    all.insert("aggregations".to_owned(), capture.aggregations.iter().map(aggregation).collect());
    Json::Object(all)
}
