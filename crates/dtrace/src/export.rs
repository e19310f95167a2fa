//! Writes captures as the folders from which they came: `meta.json` with a file per buffer, or `raw.jsonl` with the options.
//!
//! SPEC: dtrace.md#captures

use crate::action::Action;
use crate::bytes::ByteOrder;
use crate::describe::{Aggregation, Buffer, Capture, Dialect, Enabling, Probe, Rec, Status};
use crate::host::Said;
use crate::locale::Locale;
use crate::lost::Lost;
use crate::names::Names;
use crate::options::Settings;
use crate::symbols::Symbol;
use crate::types::Type;
use crate::zone::Zone;
use crate::{linux, meta, origin};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A file of a capture: name and bytes.
pub type File = (String, Vec<u8>);

/// The files of a capture: those from which it was read, byte for byte, if they still describe it; and further files of its
/// folder.
pub fn files(capture: &Capture) -> Vec<File> {
    let known = capture.origin.files(capture);
    let mut files = known.unwrap_or_else(|| match capture.dialect {
        Dialect::Linux => lines(capture),
        _ => buffers(capture),
    });
    for (name, bytes) in capture.beside.iter().filter(|(name, _)| origin::is_plain(name)) {
        if !files.iter().any(|(known, _)| known == name) {
            files.push((name.clone(), bytes.clone()));
        }
    }
    files
}

/// The options of a consumer as a list, for example `quiet,aggsortkeypos=1`.
pub(crate) fn options(settings: &Settings, separator: &str, before: &str) -> String {
    let option = |(name, value): (&str, Option<u32>)| match value {
        None => format!("{before}{name}"),
        Some(value) => format!("{before}{name}={value}"),
    };
    settings.list().into_iter().map(option).collect::<Vec<_>>().join(separator)
}

/// A part of a record, as serialized.
#[derive(Serialize)]
struct Part {
    action: u16,
    size: u32,
    offset: u32,
    alignment: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<PartFormat>,
    arg: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    uarg: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed: Option<bool>,
}

/// The format of a part: a number in `meta.json`, a text in `raw.jsonl`.
#[derive(Serialize)]
#[serde(untagged)]
enum PartFormat {
    Number(u16),
    Text(String),
}

impl Part {
    fn of(rec: &Rec) -> Part {
        Part {
            action: rec.code,
            size: rec.size,
            offset: rec.offset,
            alignment: rec.alignment,
            format: Some(PartFormat::Number(rec.format)),
            arg: rec.arg,
            uarg: Some(rec.uarg),
            signed: rec.signed,
        }
    }

    /// A number at the beginning of each record of an aggregation.
    fn number(action: u16, bytes: u16, offset: u32, arg: u64) -> Part {
        Part {
            action,
            size: bytes.into(),
            offset,
            alignment: bytes,
            format: None,
            arg,
            uarg: None,
            signed: None,
        }
    }

    /// The part in the form of `raw.jsonl`.
    fn of_line(capture: &Capture, rec: &Rec) -> Part {
        let format = capture.format(rec.format);
        let arg = match rec.action {
            // Action numbers depend on the kernel.
            Action::Library => rec.arg.wrapping_sub(capture.library_base).wrapping_add(linux::LIBRARY_BASE),
            Action::Exit => 0,
            _ => rec.arg,
        };
        let format = format.map(|text| PartFormat::Text(String::from_utf8_lossy(text).into_owned()));
        Part { format, arg, ..Part::of(rec) }
    }
}

/// The contents of `meta.json`.
#[derive(Serialize)]
struct Meta<'a> {
    name: &'a str,
    dialect: &'a str,
    options: String,
    byte_order: &'a str,
    data_model: &'a str,
    began_on: i64,
    ended_on: i64,
    stopped: i32,
    libact_base: u64,
    probes: Vec<MetaProbe<'a>>,
    eprobes: Vec<MetaEnabling>,
    formats: Vec<MetaFormat<'a>>,
    aggregations: Vec<MetaAggregation<'a>>,
    symbols: Vec<&'a Symbol>,
    types: Vec<&'a Type>,
    zone: &'a Zone,
    locale: &'a Locale,
    names: &'a Names,
    status: &'a Status,
    lost: &'a [Lost],
    buffers: Vec<MetaBuffer>,
    aggbuffers: Vec<MetaBuffer>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<Said>,
}

#[derive(Serialize)]
struct MetaProbe<'a> {
    id: u32,
    provider: &'a str,
    module: &'a str,
    function: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
struct MetaEnabling {
    epid: u32,
    probeid: u32,
    uarg: u64,
    size: u32,
    recs: Vec<Part>,
}

#[derive(Serialize)]
struct MetaFormat<'a> {
    id: usize,
    string: Cow<'a, str>,
}

#[derive(Serialize)]
struct MetaAggregation<'a> {
    id: u32,
    epid: u32,
    varid: u64,
    name: Option<&'a str>,
    size: u32,
    recs: Vec<Part>,
}

#[derive(Serialize)]
struct MetaBuffer {
    cpu: u32,
    file: String,
    size: usize,
    oldest: usize,
    drops: u64,
    errors: u64,
    timestamp: u64,
    /// Offset and length of each gap.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<[usize; 2]>,
}

/// Serializes a structure. Numbers and texts always succeed.
fn text_of(of: &impl Serialize) -> String {
    serde_json::to_string(of).unwrap_or_default()
}

/// Makes `meta.json`, and a file for each buffer.
fn buffers(capture: &Capture) -> Vec<File> {
    let cpu = |cpu: Option<u32>| cpu.map_or(-1, i64::from);
    let mut probes: Vec<_> = capture.probes.values().collect();
    probes.sort_by_key(|probe| probe.id);
    fn probe(of: &Probe) -> MetaProbe<'_> {
        MetaProbe {
            id: of.id,
            provider: &of.provider,
            module: &of.module,
            function: &of.function,
            name: &of.name,
        }
    }
    let enabling = |of: &Enabling| MetaEnabling {
        epid: of.id,
        probeid: of.probe,
        uarg: of.uarg,
        size: of.size,
        recs: of.recs.iter().map(Part::of).collect(),
    };
    fn aggregation(of: &Aggregation) -> MetaAggregation<'_> {
        let variable = Part { format: Some(PartFormat::Number(0)), ..Part::number(1, 8, 8, 0) };
        let rest = of.keys.iter().chain([&of.value]).map(Part::of);
        MetaAggregation {
            id: of.id,
            epid: of.epid,
            varid: of.variable,
            name: of.name.as_deref(),
            size: of.size,
            recs: std::iter::once(variable).chain(rest).collect(),
        }
    }
    let mut files = Vec::new();
    let mut numbers = BTreeMap::new();
    let mut buffer = |kind: &str, of: &Buffer| {
        let nth = numbers.entry((kind.to_owned(), of.cpu)).and_modify(|n| *n += 1).or_insert(0);
        let again = if *nth == 0 { String::new() } else { format!(".{nth}") };
        let file = format!("{kind}.cpu{}{again}.bin", of.cpu);
        files.push((file.clone(), of.bytes.clone()));
        MetaBuffer {
            cpu: of.cpu,
            file,
            size: of.bytes.len(),
            oldest: of.oldest,
            drops: of.drops,
            errors: of.errors,
            timestamp: of.timestamp,
            gaps: of.gaps.iter().map(|gap| [gap.start, gap.len()]).collect(),
        }
    };
    let described = capture.buffers.iter().map(|of| buffer("buf", of)).collect();
    let states = capture.states.iter().map(|of| buffer("agg", of)).collect();
    let formats = (1..).zip(&capture.formats);
    let meta = Meta {
        name: &capture.name,
        dialect: capture.dialect.name(),
        options: options(&capture.settings, ",", ""),
        byte_order: if capture.order == ByteOrder::Big { "big" } else { "little" },
        data_model: if capture.pointer_bytes == 4 { "ILP32" } else { "LP64" },
        began_on: cpu(capture.began_on),
        ended_on: cpu(capture.ended_on),
        stopped: i32::from(capture.is_stopped),
        libact_base: capture.library_base,
        probes: probes.into_iter().map(probe).collect(),
        eprobes: capture.enablings.iter().map(enabling).collect(),
        formats: formats.map(|(id, text)| MetaFormat { id, string: String::from_utf8_lossy(text) }).collect(),
        aggregations: capture.aggregations.iter().map(aggregation).collect(),
        symbols: capture.symbols.iter().collect(),
        types: capture.types.sorted(),
        zone: &capture.zone,
        locale: &capture.locale,
        names: &capture.names,
        status: &capture.status,
        lost: &capture.lost,
        buffers: described,
        aggbuffers: states,
        hosts: Said::of(capture),
    };
    let text = serde_json::to_string_pretty(&meta).unwrap_or_default() + "\n";
    files.push((meta::FILE.to_owned(), text.into_bytes()));
    files
}

/// A line of `raw.jsonl` that describes a probe.
#[derive(Serialize)]
struct LineProbe<'a> {
    id: u32,
    prv: &'a str,
    #[serde(rename = "mod")]
    module: &'a str,
    fun: &'a str,
    prb: &'a str,
}

#[derive(Serialize)]
struct LineEnabling {
    stid: u32,
    uarg: u64,
    size: u32,
    recs: Vec<Part>,
}

#[derive(Serialize)]
struct LineAggregation<'a> {
    id: u32,
    name: Option<&'a str>,
    varid: u64,
    sig: String,
    ksize: u32,
    keys: Vec<Part>,
    data: [Part; 2],
}

/// Makes `raw.jsonl`, and `opts`.
fn lines(capture: &Capture) -> Vec<File> {
    let mut text = String::new();
    // The kind comes first, because these files are recognised by it.
    let mut line = |kind: &str, rest: String| {
        let comma = if rest == "{}" { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{{\"t\":\"{kind}\"{comma}{}", rest.get(1..).unwrap_or_default());
    };
    let mut probes: Vec<_> = capture.probes.values().collect();
    probes.sort_by_key(|probe| probe.id);
    for of in probes {
        let (prv, module, fun, prb) = (&*of.provider, &*of.module, &*of.function, &*of.name);
        line("probe", text_of(&LineProbe { id: of.id, prv, module, fun, prb }));
    }
    let part = |of: &Rec| Part::of_line(capture, of);
    for of in &capture.enablings {
        let recs = of.recs.iter().map(part).collect();
        line("datadesc", text_of(&LineEnabling { stid: of.id, uarg: of.uarg, size: of.size, recs }));
    }
    for of in &capture.aggregations {
        let variable = Part { uarg: Some(0), ..Part::number(1, 4, 0, 1) };
        let generation = Part::number(of.value.code, 8, 0, 1);
        let aggregation = LineAggregation {
            id: of.id,
            name: of.name.as_deref(),
            varid: of.variable,
            sig: format!("{:#x}", of.param),
            ksize: of.size,
            keys: std::iter::once(variable).chain(of.keys.iter().map(part)).collect(),
            data: [generation, part(&of.value)],
        };
        line("aggdesc", text_of(&aggregation));
    }
    for of in capture.symbols.iter() {
        line("symbol", text_of(of));
    }
    for of in capture.types.sorted() {
        line("type", text_of(&of));
    }
    line("zone", text_of(&capture.zone));
    if capture.locale != Locale::default() {
        line("locale", text_of(&capture.locale));
    }
    if !capture.names.is_empty() {
        line("names", text_of(&capture.names));
    }
    for of in Said::of(capture) {
        line("host", text_of(&of));
    }
    for of in &capture.lost {
        line("lost", text_of(of));
    }
    let mut text = text.into_bytes();
    for event in &capture.events {
        linux::put_event(capture, event, &mut text);
    }
    let options = format!("{}\n", options(&capture.settings, " ", "-x "));
    vec![(linux::FILE.to_owned(), text), (linux::OPTIONS.to_owned(), options.into_bytes())]
}
