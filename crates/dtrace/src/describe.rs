//! The description of a capture: probes, enablings with their parts, formats, aggregations, symbols, buffers.

use crate::action::{Action, Function};
use crate::bytes::ByteOrder;
use crate::host::Host;
use crate::locale::Locale;
use crate::lost::Lost;
use crate::names::Names;
use crate::options::Settings;
use crate::origin::Origin;
use crate::symbols::Symbols;
use crate::types::Types;
use crate::zone::Zone;
use quipu_model::Finding;
use quipu_source::Source;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// The variant of DTrace that wrote the buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// illumos, FreeBSD, Windows: records with a header of 12 bytes.
    #[default]
    Classic,
    /// Solaris 10, early macOS: a header of 4 bytes, no times.
    ClassicV0,
    /// Oracle's DTrace 2 for Linux: samples of perf events.
    Linux,
}

impl Dialect {
    /// The dialect with this name.
    pub fn named(name: &str) -> Option<Dialect> {
        [Dialect::Classic, Dialect::ClassicV0, Dialect::Linux]
            .into_iter()
            .find(|dialect| dialect.name() == name)
    }

    /// The name in options and descriptions.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Classic => "classic",
            Dialect::ClassicV0 => "classic-v0",
            Dialect::Linux => "oracle2",
        }
    }

    /// Length of a record's header in bytes.
    pub fn header_bytes(self) -> u32 {
        match self {
            Dialect::Classic => 12,
            Dialect::ClassicV0 => 4,
            Dialect::Linux => 16,
        }
    }
}

/// A probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// The number of the probe.
    pub id: u32,
    /// The provider.
    pub provider: String,
    /// The module that has the probe.
    pub module: String,
    /// The function that has the probe.
    pub function: String,
    /// The name of the probe.
    pub name: String,
}

/// One part of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Rec {
    /// The action that wrote the part.
    pub action: Action,
    /// The number of the action in the dialect.
    pub code: u16,
    /// Size in bytes.
    pub size: u32,
    /// Offset from the start of the record.
    pub offset: u32,
    /// Alignment of the offset in bytes.
    pub alignment: u16,
    /// Number of the format; 0 if there is none.
    pub format: u16,
    /// Argument of the action.
    pub arg: u64,
    /// Number of the statement; equal in adjacent parts of one statement.
    pub uarg: u64,
    /// Whether the value is signed, if the capture states it.
    pub signed: Option<bool>,
}

impl Rec {
    /// The bytes of the part in a record; empty if the record is too short.
    #[inline]
    pub fn of<'r>(&self, record: &'r [u8]) -> &'r [u8] {
        let start = self.offset as usize;
        record.get(start..start + self.size as usize).unwrap_or(&[])
    }
}

/// The layout of the records of one clause for one probe, identified by its EPID (on Linux: its statement).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Enabling {
    /// The EPID, or the number of the statement.
    pub id: u32,
    /// The probe; 0 if each sample has its own.
    pub probe: u32,
    /// 1 for the clause that the library adds to report errors.
    pub uarg: u64,
    /// Size of a record in bytes.
    pub size: u32,
    /// Alignment of records in bytes.
    pub align: u32,
    /// The parts of a record.
    pub recs: Vec<Rec>,
    /// In a capture of several hosts, the number of the host that recorded it; 0 is the first.
    pub host: u32,
}

/// An aggregation: one variable of one clause.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregation {
    /// The number of the aggregation.
    pub id: u32,
    /// The EPID of the enabling.
    pub epid: u32,
    /// The number of the variable.
    pub variable: u64,
    /// The name of the variable, if known.
    pub name: Option<String>,
    /// Size of a record in bytes.
    pub size: u32,
    /// The aggregating function.
    pub function: Function,
    /// Parameters of `lquantize()` and `llquantize()`, for data that does not contain them.
    pub param: u64,
    /// The members of the key.
    pub keys: Vec<Rec>,
    /// The part with the value.
    pub value: Rec,
}

impl Aggregation {
    /// Makes an aggregation of its parts: the variable, the members of the key, the value. The caller adds the variable and
    /// its name.
    pub(crate) fn of_parts(id: u32, epid: u32, size: u32, recs: &[Rec]) -> Result<Aggregation, String> {
        let [_, keys @ .., value] = recs else {
            return Err("its description has no variable or no value".to_owned());
        };
        let Action::Aggregate(function) = value.action else {
            return Err(format!("its last part has action {:#x}, which does not aggregate", value.code));
        };
        let has_param = matches!(function, Function::Lquantize | Function::Llquantize);
        let param = if has_param { value.arg } else { 0 };
        let (keys, value) = (keys.to_vec(), value.clone());
        Ok(Aggregation { id, epid, variable: 0, name: None, size, function, param, keys, value })
    }

    /// Length of a record up to the end of the key, in bytes.
    pub fn key_end(&self) -> usize {
        self.keys
            .last()
            .map_or(self.value.offset.min(16) as usize, |rec| rec.offset as usize + rec.size as usize)
    }
}

/// A buffer of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// The CPU.
    pub cpu: u32,
    /// Name of the file.
    pub file: String,
    /// The bytes of the buffer.
    pub bytes: Vec<u8>,
    /// Number of dropped records.
    pub drops: u64,
    /// Number of errors.
    pub errors: u64,
    /// Offset of the oldest record, in a ring that has wrapped.
    pub oldest: usize,
    /// Time of the snapshot.
    pub timestamp: u64,
    /// Sorted ranges in which zeros between records are not a loss: places of descriptions, or the unused end of a ring.
    pub gaps: Vec<Range<usize>>,
}

impl Buffer {
    /// The same records, rotated so that the oldest one comes first.
    #[must_use]
    pub fn turned(&self) -> Buffer {
        let mut turned = Buffer { oldest: 0, ..self.clone() };
        let younger = self.oldest.min(self.bytes.len());
        turned.bytes.rotate_left(younger);
        if younger == 0 {
            return turned;
        }
        let older = self.bytes.len() - younger;
        // If a record did not fit before the end of the ring, zeros are left there.
        let last = turned.bytes[..older].iter().rposition(|byte| *byte != 0);
        let end = last.map_or(0, |last| (last + 1).next_multiple_of(4).min(older));
        let moved = self.gaps.iter().flat_map(|gap| {
            let of_older = gap.start.max(younger)..gap.end.max(younger);
            let of_younger = gap.start.min(younger)..gap.end.min(younger);
            [
                of_older.start - younger..of_older.end - younger,
                of_younger.start + older..of_younger.end + older,
            ]
        });
        turned.gaps = in_order(moved.chain(std::iter::once(end..older)).collect());
        turned
    }

    /// Joins this buffer and a later one of the same CPU, each beginning with its oldest record.
    #[must_use]
    pub(crate) fn then(self, next: &Buffer) -> Buffer {
        let Buffer { bytes, gaps, .. } = next.turned();
        let mut joined = if self.oldest > 0 { self.turned() } else { self };
        let last = joined.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let start = joined.bytes.len().next_multiple_of(BUFFER_ALIGN);
        joined.bytes.resize(start, 0);
        joined.bytes.extend_from_slice(&bytes);
        // Zeros after the last record are not a loss, wherever they are now.
        joined.gaps.push(last.next_multiple_of(4).min(start)..start);
        joined.gaps.extend(gaps.into_iter().map(|gap| gap.start + start..gap.end + start));
        joined.gaps = in_order(joined.gaps);
        joined.drops = joined.drops.saturating_add(next.drops);
        (joined.errors, joined.timestamp) = (next.errors, next.timestamp);
        joined
    }
}

/// Alignment in bytes of joined buffers.
pub(crate) const BUFFER_ALIGN: usize = 8;

/// Sorts gaps, merges those that touch, and removes empty ones.
pub(crate) fn in_order(mut gaps: Vec<Range<usize>>) -> Vec<Range<usize>> {
    gaps.retain(|gap| gap.start < gap.end);
    gaps.sort_unstable_by_key(|gap| (gap.start, gap.end));
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(gaps.len());
    for gap in gaps {
        match joined.last_mut() {
            Some(last) if last.end >= gap.start => last.end = last.end.max(gap.end),
            _ => joined.push(gap),
        }
    }
    joined
}

/// An item of a Linux capture, in order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A sample of a perf ring.
    Sample {
        /// The CPU.
        cpu: u32,
        /// Position in the file: the line, or the offset of the frame.
        offset: u64,
        /// The bytes of the sample.
        bytes: Box<[u8]>,
    },
    /// The state of an aggregation on a CPU.
    State {
        /// The CPU.
        cpu: u32,
        /// Position of the aggregation.
        aggregation: usize,
        /// The bytes of the key.
        key: Box<[u8]>,
        /// The bytes of the value.
        data: Box<[u8]>,
    },
}

impl Event {
    /// The CPU.
    pub fn cpu(&self) -> u32 {
        match self {
            Event::Sample { cpu, .. } | Event::State { cpu, .. } => *cpu,
        }
    }
}

/// Counts that the kernel keeps in addition to buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the kernel's")]
pub struct Status {
    pub dyndrops: u64,
    pub dyndrops_rinsing: u64,
    pub dyndrops_dirty: u64,
    pub specdrops: u64,
    pub specdrops_busy: u64,
    pub specdrops_unavail: u64,
    pub stkstroverflows: u64,
    pub dblerrors: u64,
}

/// A capture: descriptions and buffers.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// The name of the capture.
    pub name: String,
    /// The name of the recorded machine, if the capture has it; for several machines, all names.
    pub machine: Option<String>,
    /// The variant of DTrace that wrote it.
    pub dialect: Dialect,
    /// The traced host's byte order.
    pub order: ByteOrder,
    /// Size of a pointer on the traced host in bytes.
    pub pointer_bytes: u32,
    /// The consumer's options.
    pub settings: Settings,
    /// Probes by number.
    pub probes: FxHashMap<u32, Probe>,
    /// Enablings, by ascending number.
    pub enablings: Vec<Enabling>,
    /// Position of each enabling, by EPID.
    pub by_epid: FxHashMap<u32, u32>,
    /// Formats; the first has the number 1.
    pub formats: Vec<Arc<[u8]>>,
    /// Aggregations.
    pub aggregations: Vec<Aggregation>,
    /// Position of each aggregation, by number.
    pub by_aggregation: FxHashMap<u32, u32>,
    /// Symbols of addresses.
    pub symbols: Symbols,
    /// Types for `print()`.
    pub types: Types,
    /// The time zone of the traced host.
    pub zone: Zone,
    /// The locale of its consumer.
    pub locale: Locale,
    /// The host's names for services and network addresses.
    pub names: Names,
    /// Further hosts whose names or options differ; the first of them has the number 1.
    pub hosts: Vec<Host>,
    /// Number of the first of the consumer's own actions.
    pub library_base: u64,
    /// Buffers, by ascending CPU.
    pub buffers: Vec<Buffer>,
    /// Buffers of aggregations.
    pub states: Vec<Buffer>,
    /// Samples and states of a Linux capture.
    pub events: Vec<Event>,
    /// The CPU that ran `BEGIN`, if tracing began with this capture.
    pub began_on: Option<u32>,
    /// The CPU that ran `END`.
    pub ended_on: Option<u32>,
    /// Whether tracing has stopped.
    pub is_stopped: bool,
    /// Counts of drops.
    pub status: Status,
    /// Other losses, in a capture made of a damaged one.
    pub lost: Vec<Lost>,
    /// The text from which the descriptions were read.
    pub origin: Origin,
    /// Further files of the folder, by name.
    pub beside: Vec<(String, Vec<u8>)>,
    /// Findings from reading the descriptions.
    pub findings: Vec<Finding>,
    /// The files and folders from which it was read, which stay registered as inputs while the capture exists.
    pub inputs: Vec<Source>,
}

impl Capture {
    /// The enabling with this EPID, and its position.
    #[inline]
    pub fn enabling(&self, epid: u32) -> Option<(u32, &Enabling)> {
        // Numbers are usually dense from 1, so a guess mostly saves the lookup.
        let guess = epid.wrapping_sub(1);
        if let Some(enabling) = self.enablings.get(guess as usize)
            && enabling.id == epid
        {
            return Some((guess, enabling));
        }
        let position = *self.by_epid.get(&epid)?;
        Some((position, self.enablings.get(position as usize)?))
    }

    /// The text of the format with this number.
    pub fn format(&self, number: u16) -> Option<&Arc<[u8]>> {
        self.formats.get(usize::from(number).checked_sub(1)?)
    }

    /// The position of the aggregation with this number.
    pub fn aggregation(&self, id: u32) -> Option<usize> {
        let guess = (id as usize).wrapping_sub(1);
        if self.aggregations.get(guess).is_some_and(|aggregation| aggregation.id == id) {
            return Some(guess);
        }
        self.by_aggregation.get(&id).map(|position| *position as usize)
    }

    /// Adds an aggregation, or replaces the one with the same number.
    pub(crate) fn add_aggregation(&mut self, aggregation: Aggregation) {
        match self.aggregation(aggregation.id) {
            Some(position) => self.aggregations[position] = aggregation,
            None => {
                let position = self.aggregations.len() as u32; // They are counted in 32 bits.
                self.by_aggregation.insert(aggregation.id, position);
                self.aggregations.push(aggregation);
            }
        }
    }

    /// Adds an enabling, or replaces the one with the same number.
    pub(crate) fn add_enabling(&mut self, enabling: Enabling) {
        match self.by_epid.get(&enabling.id) {
            Some(position) => self.enablings[*position as usize] = enabling,
            None => {
                let position = self.enablings.len() as u32; // They are counted in 32 bits.
                self.by_epid.insert(enabling.id, position);
                self.enablings.push(enabling);
            }
        }
    }

    /// Sorts the lists and rebuilds the indexes, once everything has been added.
    pub(crate) fn index(&mut self) {
        self.enablings.sort_by_key(|enabling| enabling.id);
        self.by_epid =
            (0u32..).zip(&self.enablings).map(|(position, enabling)| (enabling.id, position)).collect();
        let aggregations = (0u32..).zip(&self.aggregations);
        self.by_aggregation =
            aggregations.map(|(position, aggregation)| (aggregation.id, position)).collect();
        self.buffers.sort_by_key(|buffer| buffer.cpu);
        self.states.sort_by_key(|buffer| buffer.cpu);
    }
}
