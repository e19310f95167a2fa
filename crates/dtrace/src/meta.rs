//! Reads folders of buffers with `meta.json`, of the dialects classic and classic-v0.

use crate::action::Action;
use crate::bytes::{ByteOrder, from_hex};
use crate::describe::{self, Aggregation, Buffer, Capture, Dialect, Enabling, Probe, Rec, Status};
use crate::host;
use crate::lost::Lost;
use crate::options::Settings;
use crate::origin::Origin;
use crate::rules;
use crate::symbols::{Symbol, Symbols};
use crate::types::{Type, Types};
use crate::validate;
use quipu_model::{Error, ErrorKind, Finding, Loss, Place, Result, RuleInfo};
use serde::Deserialize;
use serde_json::Value as Json;
use std::ops::Range;

/// The name of the description.
pub const FILE: &str = "meta.json";

/// Maximum size of the description in bytes.
pub const MAX_META_BYTES: u64 = 256 << 20;

/// Maximum size of all buffers together, in bytes.
pub const MAX_BUFFER_BYTES: u64 = 1 << 30;

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    name: String,
    #[serde(default)]
    dialect: Option<String>,
    #[serde(default)]
    options: String,
    byte_order: String,
    #[serde(default)]
    data_model: Option<String>,
    #[serde(default = "none")]
    began_on: i64,
    #[serde(default = "none")]
    ended_on: i64,
    #[serde(default)]
    stopped: i64,
    #[serde(default = "library_base")]
    libact_base: u64,
    probes: Vec<MetaProbe>,
    eprobes: Vec<MetaEnabling>,
    #[serde(default)]
    formats: Vec<MetaFormat>,
    #[serde(default)]
    aggregations: Vec<MetaAggregation>,
    #[serde(default)]
    symbols: Vec<Symbol>,
    #[serde(default)]
    types: Vec<Type>,
    #[serde(default)]
    zone: Json,
    #[serde(default)]
    locale: Json,
    #[serde(default)]
    names: Json,
    #[serde(default)]
    hosts: Json,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    lost: Vec<Lost>,
    #[serde(default)]
    buffers: Vec<MetaBuffer>,
    #[serde(default)]
    aggbuffers: Vec<MetaBuffer>,
}

fn none() -> i64 {
    -1
}

fn library_base() -> u64 {
    54
}

#[derive(Deserialize)]
struct MetaProbe {
    id: u32,
    provider: String,
    module: String,
    function: String,
    name: String,
}

#[derive(Deserialize)]
struct MetaEnabling {
    epid: u32,
    probeid: u32,
    #[serde(default)]
    uarg: u64,
    size: u32,
    recs: Vec<MetaRec>,
}

/// A part of a record, in both forms of descriptions.
#[derive(Deserialize)]
pub(crate) struct MetaRec {
    pub(crate) action: u16,
    pub(crate) size: u32,
    pub(crate) offset: u32,
    pub(crate) alignment: u16,
    /// A number in `meta.json`, the text itself on Linux.
    #[serde(default)]
    pub(crate) format: serde_json::Value,
    #[serde(default)]
    pub(crate) arg: u64,
    #[serde(default)]
    pub(crate) uarg: u64,
    #[serde(default)]
    pub(crate) signed: Option<bool>,
}

impl MetaRec {
    pub(crate) fn rec(&self, dialect: Dialect) -> Rec {
        Rec {
            action: Action::of(self.action, dialect),
            code: self.action,
            size: self.size,
            offset: self.offset,
            alignment: self.alignment,
            // A number that is too large is not that of a format, so the check below refuses it.
            format: self.format.as_u64().map_or(0, |format| u16::try_from(format).unwrap_or(u16::MAX)),
            arg: self.arg,
            uarg: self.uarg,
            signed: self.signed,
        }
    }
}

#[derive(Deserialize)]
struct MetaFormat {
    id: u16,
    string: String,
}

#[derive(Deserialize)]
struct MetaAggregation {
    id: u32,
    #[serde(default)]
    epid: u32,
    #[serde(default)]
    varid: u64,
    #[serde(default)]
    name: Option<String>,
    size: u32,
    recs: Vec<MetaRec>,
}

#[derive(Deserialize)]
struct MetaBuffer {
    cpu: u32,
    file: String,
    /// Number of valid bytes, if the description has it.
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    oldest: u64,
    #[serde(default)]
    drops: u64,
    #[serde(default)]
    errors: u64,
    #[serde(default)]
    timestamp: u64,
    /// Offset and length of each range in which zeros are not a loss.
    #[serde(default)]
    gaps: Vec<(u64, u64)>,
    /// The bytes in hexadecimal, if they are in the description.
    #[serde(default)]
    hex: Option<String>,
}

/// Whether a file begins like a description: enough of its keys are in its first bytes.
pub fn is_likely(head: &[u8]) -> bool {
    let has = |key: &str| head.windows(key.len()).any(|window| window == key.as_bytes());
    head.trim_ascii_start().starts_with(b"{") && has("\"byte_order\"") && has("\"probes\"")
}

/// Reads a description; `read` returns the bytes of a buffer by its name.
///
/// # Errors
/// `Malformed` for an invalid or contradictory description; errors of `read`.
pub fn read(file: &str, text: &[u8], read: &mut dyn FnMut(&str) -> Result<Vec<u8>>) -> Result<Capture> {
    let meta: Meta = serde_json::from_slice(text).map_err(|cause| {
        let place =
            Place { file: Some(file.to_owned()), offset: offset_of(text, &cause), ..Place::default() };
        Error::malformed(format!("the description cannot be read: {cause}")).at(&place)
    })?;
    let capture = Capture { origin: Origin::of_meta(text), ..capture(meta, file, read)? };
    validate::all(&capture).map_err(|error| error.in_file(file))?;
    Ok(capture)
}

/// A buffer in the list of a description.
pub(crate) struct Listed {
    pub(crate) cpu: u32,
    pub(crate) file: String,
    /// The bytes, if they are in the description.
    pub(crate) bytes: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) oldest: usize,
    pub(crate) drops: u64,
    pub(crate) errors: u64,
    pub(crate) timestamp: u64,
}

/// The capture that a description describes, without buffers, and its lists of buffers: of records, and of aggregations.
pub(crate) fn listed(text: &[u8]) -> Option<(Capture, [Vec<Listed>; 2])> {
    let mut meta: Meta = serde_json::from_slice(text).ok()?;
    let lists = [std::mem::take(&mut meta.buffers), std::mem::take(&mut meta.aggbuffers)];
    let said = capture(meta, FILE, &mut |_| Ok(Vec::new())).ok()?;
    let listed = |of: MetaBuffer| {
        let MetaBuffer { cpu, file, drops, errors, timestamp, .. } = of;
        let bytes = of.hex.as_deref().map(|hex| from_hex(hex).unwrap_or_default());
        let size = of.size.or(bytes.as_ref().map(|bytes| bytes.len() as u64));
        let oldest = usize::try_from(of.oldest).unwrap_or(usize::MAX);
        Listed { cpu, file, bytes, size, oldest, drops, errors, timestamp }
    };
    Some((said, lists.map(|list| list.into_iter().map(listed).collect())))
}

/// Offset of an error in JSON, in bytes.
pub(crate) fn offset_of(text: &[u8], cause: &serde_json::Error) -> Option<u64> {
    let lines = text.split_inclusive(|byte| *byte == b'\n').take(cause.line().checked_sub(1)?);
    let before: usize = lines.map(<[u8]>::len).sum();
    Some((before + cause.column().saturating_sub(1)) as u64)
}

fn capture(meta: Meta, file: &str, read: &mut dyn FnMut(&str) -> Result<Vec<u8>>) -> Result<Capture> {
    let wrong = |message: String| Err(Error::malformed(message).in_file(file));
    let dialect = match meta.dialect.as_deref() {
        None | Some("classic") => Dialect::Classic,
        Some("classic-v0") => Dialect::ClassicV0,
        Some(other) => return wrong(format!("unknown dialect `{other}`")),
    };
    let order = match &*meta.byte_order {
        "little" => ByteOrder::Little,
        "big" => ByteOrder::Big,
        other => return wrong(format!("unknown byte order `{other}`")),
    };
    let pointer_bytes = match meta.data_model.as_deref() {
        None | Some("LP64" | "LLP64") => 8,
        Some("ILP32") => 4,
        Some(other) => return wrong(format!("unknown data model `{other}`")),
    };
    let mut odd = Vec::new();
    let mut capture = Capture {
        name: if meta.name.is_empty() { file.to_owned() } else { meta.name },
        dialect,
        order,
        pointer_bytes,
        settings: Settings::of(&meta.options),
        symbols: Symbols::new(meta.symbols),
        types: Types::new(meta.types),
        zone: host::zone(meta.zone, &mut odd),
        locale: host::locale(meta.locale, &mut odd),
        names: host::names(meta.names, &mut odd),
        library_base: meta.libact_base,
        began_on: u32::try_from(meta.began_on).ok(),
        ended_on: u32::try_from(meta.ended_on).ok(),
        is_stopped: meta.stopped != 0,
        status: meta.status,
        lost: meta.lost,
        ..Capture::default()
    };
    for probe in meta.probes {
        let MetaProbe { id, provider, module, function, name } = probe;
        capture.probes.insert(id, Probe { id, provider, module, function, name });
    }
    for format in meta.formats {
        let position = usize::from(format.id).checked_sub(1);
        if position != Some(capture.formats.len()) {
            return wrong(format!("format {} does not follow format {}", format.id, capture.formats.len()));
        }
        capture.formats.push(format.string.into_bytes().into());
    }
    for described in meta.eprobes {
        let recs: Vec<Rec> = described.recs.iter().map(|rec| rec.rec(dialect)).collect();
        let align = recs.iter().map(|rec| u32::from(rec.alignment)).max().unwrap_or(4).max(4);
        let MetaEnabling { epid: id, probeid: probe, uarg, size, .. } = described;
        capture.enablings.push(Enabling { id, probe, uarg, size, align, recs, host: 0 });
    }
    for described in meta.aggregations {
        let aggregation = match aggregation(&described, dialect) {
            Ok(aggregation) => aggregation,
            Err(message) => return wrong(format!("aggregation {}: {message}", described.id)),
        };
        capture.aggregations.push(aggregation);
    }
    let further = host::listed(meta.hosts, &mut odd);
    odd.extend(capture.add_hosts(further, 0));
    let mut n_bytes = 0_u64;
    let mut findings = Vec::new();
    for message in odd {
        let place = Place { file: Some(file.to_owned()), ..Place::default() };
        findings.push(rules::METADATA.broken(place, message));
    }
    let mut take = |described: MetaBuffer| -> Result<Buffer> {
        let mut bytes = match &described.hex {
            None => match read(&described.file) {
                Ok(bytes) => bytes,
                // The other buffers can be read without this one.
                Err(error) if error.kind() == ErrorKind::Missing => {
                    findings.push(lost(&rules::MISSING, &described.file, None, error.message().to_owned()));
                    Vec::new()
                }
                Err(error) if error.is_damage() => {
                    findings.push(Finding::of_end(&error));
                    Vec::new()
                }
                Err(error) => return Err(error),
            },
            Some(hex) => from_hex(hex).ok_or_else(|| {
                let message = format!("the bytes of buffer `{}` are not hexadecimal", described.file);
                Error::malformed(message).in_file(file)
            })?,
        };
        let has = bytes.len() as u64;
        if let Some(size) = described.size.filter(|size| *size != has && has > 0) {
            let message = format!("the file has {has} bytes, the snapshot had {size}");
            findings.push(lost(&rules::SIZE, &described.file, Some(size.min(has)), message));
            bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        }
        n_bytes += bytes.len() as u64;
        if n_bytes > MAX_BUFFER_BYTES {
            return Err(Error::limit("bytes of all buffers", n_bytes, MAX_BUFFER_BYTES).in_file(file));
        }
        // If only the front of a ring is left, its oldest record is there.
        let is_lost = bytes.len() as u64 <= described.oldest && described.size.is_some_and(|size| size > has);
        let oldest = if is_lost { 0 } else { usize::try_from(described.oldest).unwrap_or(usize::MAX) };
        let MetaBuffer { cpu, file, drops, errors, timestamp, gaps, .. } = described;
        let gaps = gaps_of(&gaps, bytes.len());
        Ok(Buffer { cpu, file, bytes, drops, errors, oldest, timestamp, gaps })
    };
    capture.buffers = meta.buffers.into_iter().map(&mut take).collect::<Result<_>>()?;
    capture.states = meta.aggbuffers.into_iter().map(&mut take).collect::<Result<_>>()?;
    capture.findings = findings;
    capture.index();
    Ok(capture)
}

/// Gaps from their offsets and lengths, clipped to `n_bytes`.
pub(crate) fn gaps_of(told: &[(u64, u64)], n_bytes: usize) -> Vec<Range<usize>> {
    let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(n_bytes);
    describe::in_order(told.iter().map(|(at, n)| within(*at)..within(at.saturating_add(*n))).collect())
}

/// The finding for a faulty file of a buffer, which loses records.
fn lost(rule: &RuleInfo, file: &str, offset: Option<u64>, message: String) -> Finding {
    let place = Place { file: Some(file.to_owned()), offset, ..Place::default() };
    rule.broken(place.clone(), message).losing(Loss::from(place))
}

fn aggregation(described: &MetaAggregation, dialect: Dialect) -> Result<Aggregation, String> {
    let recs: Vec<Rec> = described.recs.iter().map(|rec| rec.rec(dialect)).collect();
    let MetaAggregation { id, epid, varid: variable, ref name, size, .. } = *described;
    let parts = Aggregation::of_parts(id, epid, size, &recs)?;
    Ok(Aggregation { variable, name: name.clone(), ..parts })
}
