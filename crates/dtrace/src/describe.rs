//! What a capture says of its records: probes, enablings with their parts, formats, aggregations, symbols, buffers.

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

/// Which DTrace wrote the buffers.
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
    /// The dialect of a name.
    pub fn named(name: &str) -> Option<Dialect> {
        [Dialect::Classic, Dialect::ClassicV0, Dialect::Linux]
            .into_iter()
            .find(|dialect| dialect.name() == name)
    }

    /// As options and descriptions write it.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Classic => "classic",
            Dialect::ClassicV0 => "classic-v0",
            Dialect::Linux => "oracle2",
        }
    }

    /// Bytes before the data of a record.
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
    /// Its number.
    pub id: u32,
    /// Who offers it.
    pub provider: String,
    /// Where it is.
    pub module: String,
    /// In which function.
    pub function: String,
    /// What it is called.
    pub name: String,
}

/// One part of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Rec {
    /// What it holds.
    pub action: Action,
    /// The number of that in its dialect.
    pub code: u16,
    /// Bytes.
    pub size: u32,
    /// From the start of the record.
    pub offset: u32,
    /// What the offset is a multiple of.
    pub alignment: u16,
    /// Number of its format; 0 if it has none.
    pub format: u16,
    /// What the action needs.
    pub arg: u64,
    /// Equal in neighbours of one statement.
    pub uarg: u64,
    /// Whether the value is signed, where the capture says so.
    pub signed: Option<bool>,
}

impl Rec {
    /// Its bytes in a record; none if they are not there.
    #[inline]
    pub fn of<'r>(&self, record: &'r [u8]) -> &'r [u8] {
        let start = self.offset as usize;
        record.get(start..start + self.size as usize).unwrap_or(&[])
    }
}

/// What one clause of a script records where one probe fires: what its EPID stands for (on Linux: its statement).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Enabling {
    /// Its number.
    pub id: u32,
    /// The probe; 0 where each sample says it.
    pub probe: u32,
    /// 1 for the clause that the library adds to report errors.
    pub uarg: u64,
    /// Bytes of a record.
    pub size: u32,
    /// What the offset of a record is a multiple of.
    pub align: u32,
    /// Its parts.
    pub recs: Vec<Rec>,
    /// Which host recorded it, of a capture of several: 0 for the first.
    pub host: u32,
}

/// An aggregation: one variable of one clause.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregation {
    /// Its number.
    pub id: u32,
    /// The enabling.
    pub epid: u32,
    /// The variable.
    pub variable: u64,
    /// The variable's name, where known.
    pub name: Option<String>,
    /// Bytes of a record.
    pub size: u32,
    /// What it does.
    pub function: Function,
    /// Parameters of `lquantize()` and `llquantize()`, where the data has none.
    pub param: u64,
    /// The members of the key.
    pub keys: Vec<Rec>,
    /// Where the value stands.
    pub value: Rec,
}

impl Aggregation {
    /// An aggregation of its parts: the variable, the members of the key, the value. The variable and its name are for the caller
    /// to add.
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

    /// Bytes of a record up to the end of the key.
    pub fn key_end(&self) -> usize {
        self.keys
            .last()
            .map_or(self.value.offset.min(16) as usize, |rec| rec.offset as usize + rec.size as usize)
    }
}

/// What a CPU recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// The CPU.
    pub cpu: u32,
    /// The file.
    pub file: String,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Records that were dropped.
    pub drops: u64,
    /// Errors.
    pub errors: u64,
    /// Where the oldest record stands, in a ring that wrapped.
    pub oldest: usize,
    /// When the snapshot was taken.
    pub timestamp: u64,
    /// Where zeros between records are no loss, in order: descriptions stood there, or the end of a ring.
    pub gaps: Vec<Range<usize>>,
}

impl Buffer {
    /// The same records, the oldest at the beginning.
    #[must_use]
    pub fn turned(&self) -> Buffer {
        let mut turned = Buffer { oldest: 0, ..self.clone() };
        let younger = self.oldest.min(self.bytes.len());
        turned.bytes.rotate_left(younger);
        if younger == 0 {
            return turned;
        }
        let older = self.bytes.len() - younger;
        // A record that did not fit before the end of the ring left zeros there.
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

    /// This buffer and another of its CPU as one, each from its oldest record on.
    #[must_use]
    pub(crate) fn then(self, next: &Buffer) -> Buffer {
        let Buffer { bytes, gaps, .. } = next.turned();
        let mut joined = if self.oldest > 0 { self.turned() } else { self };
        let last = joined.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let start = joined.bytes.len().next_multiple_of(BUFFER_ALIGN);
        joined.bytes.resize(start, 0);
        joined.bytes.extend_from_slice(&bytes);
        // Zeros after the last record are no loss, wherever they are now.
        joined.gaps.push(last.next_multiple_of(4).min(start)..start);
        joined.gaps.extend(gaps.into_iter().map(|gap| gap.start + start..gap.end + start));
        joined.gaps = in_order(joined.gaps);
        joined.drops = joined.drops.saturating_add(next.drops);
        (joined.errors, joined.timestamp) = (next.errors, next.timestamp);
        joined
    }
}

/// Buffers follow one another at multiples of this.
pub(crate) const BUFFER_ALIGN: usize = 8;

/// Gaps in order, those that touch as one, and none that is empty.
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

/// Something of a Linux capture, in order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A sample of a perf ring.
    Sample {
        /// The CPU.
        cpu: u32,
        /// Where it stands in the file: its line, or its frame.
        offset: u64,
        /// The sample.
        bytes: Box<[u8]>,
    },
    /// The state of an aggregation on a CPU.
    State {
        /// The CPU.
        cpu: u32,
        /// Position of the aggregation.
        aggregation: usize,
        /// Its key.
        key: Box<[u8]>,
        /// Its value.
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

/// Counts that the kernel keeps beside buffers.
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

/// All that was captured: descriptions and buffers.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// What it is called.
    pub name: String,
    /// The machine that was recorded, where the capture says it; of several, all names.
    pub machine: Option<String>,
    /// Which DTrace wrote it.
    pub dialect: Dialect,
    /// The traced host's byte order.
    pub order: ByteOrder,
    /// Bytes of a pointer on the traced host.
    pub pointer_bytes: u32,
    /// The consumer's options.
    pub settings: Settings,
    /// Probes by number.
    pub probes: FxHashMap<u32, Probe>,
    /// Enablings, by ascending number.
    pub enablings: Vec<Enabling>,
    /// Position of each enabling.
    pub by_epid: FxHashMap<u32, u32>,
    /// Formats; the first has the number 1.
    pub formats: Vec<Arc<[u8]>>,
    /// Aggregations.
    pub aggregations: Vec<Aggregation>,
    /// Position of each aggregation.
    pub by_aggregation: FxHashMap<u32, u32>,
    /// What addresses mean.
    pub symbols: Symbols,
    /// Types for `print()`.
    pub types: Types,
    /// The time zone of the traced host.
    pub zone: Zone,
    /// The locale of its consumer.
    pub locale: Locale,
    /// What it calls services and hosts.
    pub names: Names,
    /// Further hosts, where text of theirs depends on something else; the first of them has the number 1.
    pub hosts: Vec<Host>,
    /// Number of the first of the consumer's own actions.
    pub library_base: u64,
    /// Buffers by ascending CPU.
    pub buffers: Vec<Buffer>,
    /// Buffers of aggregations.
    pub states: Vec<Buffer>,
    /// Samples and states of a Linux capture.
    pub events: Vec<Event>,
    /// The CPU that ran `BEGIN`, if tracing has just begun.
    pub began_on: Option<u32>,
    /// The CPU that ran `END`.
    pub ended_on: Option<u32>,
    /// True if tracing has stopped.
    pub is_stopped: bool,
    /// Counts of drops.
    pub status: Status,
    /// What else was lost, in a capture that was made of a damaged one.
    pub lost: Vec<Lost>,
    /// The text that the descriptions were read from.
    pub origin: Origin,
    /// Further files of the folder, by their names.
    pub beside: Vec<(String, Vec<u8>)>,
    /// What was odd in the descriptions.
    pub findings: Vec<Finding>,
    /// The files and folders that it was read from: they stay inputs as long as it is there.
    pub inputs: Vec<Source>,
}

impl Capture {
    /// The enabling of a number, and its position.
    #[inline]
    pub fn enabling(&self, epid: u32) -> Option<(u32, &Enabling)> {
        // Numbers are dense from 1, so the position is usually known without looking.
        let guess = epid.wrapping_sub(1);
        if let Some(enabling) = self.enablings.get(guess as usize)
            && enabling.id == epid
        {
            return Some((guess, enabling));
        }
        let position = *self.by_epid.get(&epid)?;
        Some((position, self.enablings.get(position as usize)?))
    }

    /// The text of a format.
    pub fn format(&self, number: u16) -> Option<&Arc<[u8]>> {
        self.formats.get(usize::from(number).checked_sub(1)?)
    }

    /// The position of the aggregation with a number.
    pub fn aggregation(&self, id: u32) -> Option<usize> {
        let guess = (id as usize).wrapping_sub(1);
        if self.aggregations.get(guess).is_some_and(|aggregation| aggregation.id == id) {
            return Some(guess);
        }
        self.by_aggregation.get(&id).map(|position| *position as usize)
    }

    /// Adds an aggregation, or replaces the one that has its number.
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

    /// Adds an enabling, or replaces the one that has its number.
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

    /// Sorts what has to be sorted, once all is there.
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
