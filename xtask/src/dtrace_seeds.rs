//! Short seeds for the fuzz targets of DTrace: a capture in each form that `quipu_fuzzing::dtrace` reads.

use anyhow::Result;
use quipu::dtrace::buffer::Cursor;
use quipu::dtrace::build::producer_of;
use quipu::dtrace::carry::{self, Encoded};
use quipu::dtrace::describe::{Buffer, Event};
use quipu::dtrace::layout::{self, BufferWriter};
use quipu::dtrace::origin::Origin;
use quipu::dtrace::{Capture, Dialect, export, linux, meta, mid, trace};
use quipu::model::OpenOptions;
use quipu::source::Source;
use serde_json::Value as Json;
use std::path::Path;

/// A fuzz target and a seed for it.
pub(crate) type Seed = (&'static str, Vec<u8>);

/// Members of records and buffers that default to 0 where a description leaves them out.
const ZEROS: &[&str] = &["format", "arg", "uarg", "oldest", "drops", "errors", "timestamp"];

/// Returns the seeds of a capture, each with at most `max_bytes` bytes; none if the file is no description.
pub(crate) fn of(path: &Path, max_bytes: usize) -> Result<Vec<Seed>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name != meta::FILE && !name.starts_with(linux::FILE) {
        return Ok(Vec::new());
    }
    let folder = Source::open(path.parent().unwrap_or(path))?;
    let Ok(mut capture) = trace::load(&folder, &OpenOptions::default()) else { return Ok(Vec::new()) };
    capture.origin = Origin::Unknown;
    keep_what_is_used(&mut capture);
    let mut seeds = Vec::new();
    if capture.dialect == Dialect::Linux {
        seeds.push(("dtrace_linux", of_lines(&capture, max_bytes)));
    } else {
        let target = if capture.dialect == Dialect::Classic { "dtrace_classic" } else { "dtrace_classic_v0" };
        seeds.push((target, of_folder(&capture)?));
        if capture.dialect == Dialect::Classic {
            seeds.push(("dtrace_classic_v0", of_folder(&with_old_headers(&capture))?));
            for buffer in &capture.buffers {
                seeds.push(("dtrace_buffer", mid::write(&capture, buffer, producer_of(&capture))?));
            }
        }
    }
    for encoded in [Encoded::Plain, Encoded::Dense] {
        seeds.push(("dtrace_stream", carry::write(&capture, producer_of(&capture), encoded, Vec::new())?));
    }
    seeds.retain(|(_, seed)| seed.len() <= max_bytes);
    Ok(seeds)
}

/// Drops probes that did not fire, because they make seeds long.
fn keep_what_is_used(capture: &mut Capture) {
    if capture.dialect != Dialect::Linux {
        let used: Vec<u32> = capture.enablings.iter().map(|enabling| enabling.probe).collect();
        capture.probes.retain(|id, _| used.contains(id));
    }
}

/// `meta.json` on one line, a zero byte, and the bytes of the buffers.
fn of_folder(capture: &Capture) -> Result<Vec<u8>> {
    let (mut seed, mut buffers) = (Vec::new(), Vec::new());
    let files = export::files(capture);
    for (name, bytes) in &files {
        if name == meta::FILE {
            let mut json: Json = serde_json::from_slice(bytes)?;
            shorten(&mut json);
            seed = json.to_string().into_bytes();
        } else {
            buffers.extend_from_slice(bytes);
        }
    }
    seed.push(0);
    seed.extend(buffers);
    Ok(seed)
}

/// Removes members that hold only defaults.
fn shorten(json: &mut Json) {
    match json {
        Json::Object(members) => {
            members.values_mut().for_each(shorten);
            members.retain(|name, value| {
                let is_nothing = value.is_null() || *value == Json::Array(Vec::new());
                let is_needed = ["probes", "eprobes", "recs"].contains(&&**name);
                (!is_nothing || is_needed) && !(ZEROS.contains(&&**name) && *value == 0)
            });
        }
        Json::Array(all) => all.iter_mut().for_each(shorten),
        _ => {}
    }
}

/// The same records with headers of 4 bytes.
fn with_old_headers(capture: &Capture) -> Capture {
    let mut old = Capture { dialect: Dialect::ClassicV0, ..capture.clone() };
    old.settings.temporal = false;
    old.enablings.iter_mut().for_each(|enabling| layout::place(enabling, Dialect::ClassicV0));
    for (buffer, from) in old.buffers.iter_mut().zip(&capture.buffers) {
        let mut writer = BufferWriter::new(Dialect::ClassicV0, capture.order);
        let mut cursor = Cursor::new(from);
        while let Ok(Some(record)) = cursor.next_record(capture, from) {
            let enabling = &old.enablings[record.position as usize];
            let values = layout::values(&record.enabling.recs, record.bytes);
            if writer.record(enabling, 0, values).is_err() {
                break;
            }
        }
        *buffer = Buffer { bytes: writer.into_bytes(), oldest: 0, ..buffer.clone() };
    }
    old
}

/// A line with options, the lines of descriptions, a zero byte, and as many samples and states as fit.
fn of_lines(capture: &Capture, max_bytes: usize) -> Vec<u8> {
    let events = capture.events.clone();
    let described = Capture { events: Vec::new(), ..capture.clone() };
    let mut seed = Vec::new();
    for (name, bytes) in export::files(&described) {
        match name == linux::OPTIONS {
            true => seed.splice(..0, [b"#", bytes.trim_ascii(), b"\n"].concat()).for_each(drop),
            false => seed.extend(bytes),
        }
    }
    seed.push(0);
    let part = |bytes: &[u8]| {
        let n = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        [&n.to_le_bytes()[..], &bytes[..usize::from(n)]].concat()
    };
    for event in events {
        let cpu = event.cpu() as u8 & 0x7f; // A few CPUs are enough.
        let bytes = match event {
            Event::Sample { bytes, .. } => [vec![cpu], part(&bytes)].concat(),
            Event::State { aggregation, key, data, .. } => {
                let id = capture.aggregations.get(aggregation).map_or(0, |of| of.id) as u8; // A few aggregations are enough.
                [vec![cpu | 0x80], part(&key), part(&data), vec![id]].concat()
            }
        };
        if seed.len() + bytes.len() > max_bytes {
            break;
        }
        seed.extend(bytes);
    }
    seed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn samples_give_seeds_for_the_target_of_each_form() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces/dtrace");
        let mut targets = BTreeSet::new();
        for file in ["classic/printf_two_statements/meta.json", "linux/printf_time/raw.jsonl"] {
            for (target, seed) in of(&root.join(file), 4 << 10).unwrap() {
                targets.insert(target);
                assert!(!seed.is_empty(), "{target}");
            }
        }
        let expected =
            ["dtrace_buffer", "dtrace_classic", "dtrace_classic_v0", "dtrace_linux", "dtrace_stream"];
        assert_eq!(targets, BTreeSet::from(expected));
    }
}
