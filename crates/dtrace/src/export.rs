//! Captures as the folders that they came from: `meta.json` with a file for each buffer, or `raw.jsonl` with the options.
//!
//! SPEC: dtrace.md#captures

use crate::action::Action;
use crate::bytes::ByteOrder;
use crate::describe::{Aggregation, Buffer, Capture, Dialect, Enabling, Rec};
use crate::host::Said;
use crate::locale::Locale;
use crate::options::Settings;
use crate::{linux, meta, origin};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A file of a capture: its name and its bytes.
pub type File = (String, Vec<u8>);

/// The files of a capture: those that it was read from, byte for byte, where they say what it says; and further files of its
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

/// The options of a consumer as a list: `quiet,aggsortkeypos=1`.
pub(crate) fn options(settings: &Settings, separator: &str, before: &str) -> String {
    let option = |(name, value): (&str, Option<u32>)| match value {
        None => format!("{before}{name}"),
        Some(value) => format!("{before}{name}={value}"),
    };
    settings.list().into_iter().map(option).collect::<Vec<_>>().join(separator)
}

fn rec(rec: &Rec) -> Json {
    let mut json = json!({
        "action": rec.code, "size": rec.size, "offset": rec.offset, "alignment": rec.alignment,
        "format": rec.format, "arg": rec.arg, "uarg": rec.uarg,
    });
    if let Some(signed) = rec.signed {
        json["signed"] = signed.into();
    }
    json
}

/// `meta.json`, and a file for each buffer.
fn buffers(capture: &Capture) -> Vec<File> {
    let cpu = |cpu: Option<u32>| cpu.map_or(-1, i64::from);
    let mut probes: Vec<_> = capture.probes.values().collect();
    probes.sort_by_key(|probe| probe.id);
    let probes: Vec<Json> = probes
        .into_iter()
        .map(|probe| {
            json!({
                "id": probe.id, "provider": probe.provider, "module": probe.module,
                "function": probe.function, "name": probe.name,
            })
        })
        .collect();
    let enabling = |of: &Enabling| {
        let recs: Vec<Json> = of.recs.iter().map(rec).collect();
        json!({"epid": of.id, "probeid": of.probe, "uarg": of.uarg, "size": of.size, "recs": recs})
    };
    let aggregation = |of: &Aggregation| {
        let variable = json!({"action": 1, "size": 8, "offset": 8, "alignment": 8, "format": 0, "arg": 0});
        let recs: Vec<Json> = std::iter::once(variable)
            .chain(of.keys.iter().map(rec))
            .chain(std::iter::once(rec(&of.value)))
            .collect();
        json!({
            "id": of.id, "epid": of.epid, "varid": of.variable, "name": of.name, "size": of.size, "recs": recs,
        })
    };
    let format = |(id, text): (usize, &std::sync::Arc<[u8]>)| json!({"id": id, "string": String::from_utf8_lossy(text)});
    let mut files = Vec::new();
    let mut numbers = BTreeMap::new();
    let mut buffer = |kind: &str, of: &Buffer| {
        let nth = numbers.entry((kind.to_owned(), of.cpu)).and_modify(|n| *n += 1).or_insert(0);
        let again = if *nth == 0 { String::new() } else { format!(".{nth}") };
        let file = format!("{kind}.cpu{}{again}.bin", of.cpu);
        files.push((file.clone(), of.bytes.clone()));
        let mut described = json!({
            "cpu": of.cpu, "file": file, "size": of.bytes.len(), "oldest": of.oldest, "drops": of.drops,
            "errors": of.errors, "timestamp": of.timestamp,
        });
        if !of.gaps.is_empty() {
            described["gaps"] = of.gaps.iter().map(|gap| json!([gap.start, gap.len()])).collect();
        }
        described
    };
    let described: Vec<Json> = capture.buffers.iter().map(|of| buffer("buf", of)).collect();
    let states: Vec<Json> = capture.states.iter().map(|of| buffer("agg", of)).collect();
    let mut text = json!({
        "name": capture.name,
        "dialect": capture.dialect.name(),
        "options": options(&capture.settings, ",", ""),
        "byte_order": if capture.order == ByteOrder::Big { "big" } else { "little" },
        "data_model": if capture.pointer_bytes == 4 { "ILP32" } else { "LP64" },
        "began_on": cpu(capture.began_on),
        "ended_on": cpu(capture.ended_on),
        "stopped": i32::from(capture.is_stopped),
        "libact_base": capture.library_base,
        "probes": probes,
        "eprobes": capture.enablings.iter().map(enabling).collect::<Vec<_>>(),
        "formats": (1..).zip(&capture.formats).map(format).collect::<Vec<_>>(),
        "aggregations": capture.aggregations.iter().map(aggregation).collect::<Vec<_>>(),
        "symbols": capture.symbols.iter().collect::<Vec<_>>(),
        "types": capture.types.sorted(),
        "zone": capture.zone,
        "locale": capture.locale,
        "names": capture.names,
        "status": capture.status,
        "lost": capture.lost,
        "buffers": described,
        "aggbuffers": states,
    });
    if !capture.hosts.is_empty() {
        text["hosts"] = json!(Said::of(capture));
    }
    files.push((meta::FILE.to_owned(), format!("{text:#}\n").into_bytes()));
    files
}

/// `raw.jsonl`, and `opts`.
fn lines(capture: &Capture) -> Vec<File> {
    let mut text = String::new();
    // The kind comes first, by which these files are recognised.
    let mut line = |kind: &str, rest: Json| {
        let rest = rest.to_string();
        let comma = if rest == "{}" { "" } else { "," };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{{\"t\":\"{kind}\"{comma}{}", &rest[1..]);
    };
    let mut probes: Vec<_> = capture.probes.values().collect();
    probes.sort_by_key(|probe| probe.id);
    for of in probes {
        line(
            "probe",
            json!({"id": of.id, "prv": of.provider, "mod": of.module, "fun": of.function, "prb": of.name}),
        );
    }
    let part = |of: &Rec| {
        let mut json = rec(of);
        match capture.format(of.format) {
            Some(text) => json["format"] = String::from_utf8_lossy(text).into(),
            None => drop(json.as_object_mut().and_then(|json| json.remove("format"))),
        }
        // Numbers of actions depend on the kernel.
        if of.action == Action::Library {
            json["arg"] =
                (of.arg.wrapping_sub(capture.library_base).wrapping_add(linux::LIBRARY_BASE)).into();
        }
        if of.action == Action::Exit {
            json["arg"] = 0.into();
        }
        json
    };
    for of in &capture.enablings {
        let recs: Vec<Json> = of.recs.iter().map(part).collect();
        line("datadesc", json!({"stid": of.id, "uarg": of.uarg, "size": of.size, "recs": recs}));
    }
    for of in &capture.aggregations {
        let variable = json!({"action": 1, "size": 4, "offset": 0, "alignment": 4, "arg": 1, "uarg": 0});
        let generation = json!({"action": of.value.code, "size": 8, "offset": 0, "alignment": 8, "arg": 1});
        let keys: Vec<Json> = std::iter::once(variable).chain(of.keys.iter().map(part)).collect();
        line(
            "aggdesc",
            json!({
                "id": of.id, "name": of.name, "varid": of.variable, "sig": format!("{:#x}", of.param),
                "ksize": of.size, "keys": keys, "data": [generation, part(&of.value)],
            }),
        );
    }
    for of in capture.symbols.iter() {
        line("symbol", json!(of));
    }
    for of in capture.types.sorted() {
        line("type", json!(of));
    }
    line("zone", json!(capture.zone));
    if capture.locale != Locale::default() {
        line("locale", json!(capture.locale));
    }
    if !capture.names.is_empty() {
        line("names", json!(capture.names));
    }
    for of in Said::of(capture) {
        line("host", json!(of));
    }
    for of in &capture.lost {
        line("lost", json!(of));
    }
    let mut text = text.into_bytes();
    for event in &capture.events {
        linux::put_event(capture, event, &mut text);
    }
    let options = format!("{}\n", options(&capture.settings, " ", "-x "));
    vec![(linux::FILE.to_owned(), text), (linux::OPTIONS.to_owned(), options.into_bytes())]
}
