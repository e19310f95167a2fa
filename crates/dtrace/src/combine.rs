//! Combines captures of several machines or runs into one: equal descriptions are merged, and conflicting numbers are
//! replaced, also in records. Aggregations then merge like those of several CPUs.
//!
//! SPEC: dtrace.md#several-captures

use crate::action::Action;
use crate::aggregate::Records;
use crate::buffer::Cursor;
use crate::bytes::ByteOrder;
use crate::dense::put_number;
use crate::describe::{Aggregation, Buffer, Capture, Dialect, Enabling, Event, Probe, Rec};
use crate::symbols::{Symbol, Symbols};
use crate::types::Types;
use quipu_model::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::collections::BTreeSet;
use std::hash::Hasher;
use std::sync::Arc;

/// CPU numbers of aggregation states, and speculation numbers, differ from this bit up between captures.
pub(crate) const SHIFT: u32 = 20;

/// Combines several captures. Records keep the names and options of their host; those of the first host apply to output
/// about all hosts, such as aggregations printed at the end.
///
/// # Errors
/// `Unsupported` for captures that would be misread together: with different dialects or byte orders, or with different
/// names for the same addresses or types.
pub fn all(captures: Vec<Capture>) -> Result<Capture> {
    let mut captures = captures.into_iter();
    let mut base = captures.next().unwrap_or_default();
    let mut n_shifted = 0;
    for (nth, other) in captures.enumerate() {
        if nth == 0 {
            n_shifted = shifts(&base);
        }
        base.index();
        check(&base, &other)?;
        // Captures that were combined before have such numbers already.
        let n_own = shifts(&other);
        let number = n_shifted;
        n_shifted = number.checked_add(n_own).filter(|n| *n <= MAX_SHIFT).ok_or_else(|| {
            Error::limit("captures in one", u64::from(number) + u64::from(n_own), MAX_SHIFT.into())
        })?;
        add(&mut base, other, number)?;
    }
    Ok(base)
}

/// Number of distinct values above [`SHIFT`].
pub(crate) const MAX_SHIFT: u32 = 1 << (u32::BITS - SHIFT);

/// Number of captures that a capture's numbers distinguish: 1, or the number of captures combined before.
fn shifts(of: &Capture) -> u32 {
    let numbers = of.events.iter().map(|event| match event {
        Event::State { cpu, .. } => *cpu,
        Event::Sample { bytes, .. } => of.order.u32_at(bytes, SPECULATION).unwrap_or(0),
    });
    numbers.map(|number| number >> SHIFT).max().unwrap_or(0) + 1
}

/// Offset of the speculation number in a sample.
const SPECULATION: usize = 4;

fn differ(what: &str) -> Error {
    let message = format!("the stream has captures of several producers with different {what}");
    Error::unsupported(message).hint("take it apart: quipu split --format stream")
}

fn check(base: &Capture, other: &Capture) -> Result<()> {
    let host = |of: &Capture| (of.dialect, of.order, of.pointer_bytes, of.library_base);
    if host(base) != host(other) {
        return Err(differ("dialects, byte orders or sizes of pointers"));
    }
    let mut known = other.symbols.iter();
    if known.any(|symbol| !base.symbols.agrees(symbol)) {
        return Err(differ("names for the same addresses"));
    }
    if other.types.sorted().into_iter().any(|ty| base.types.get(&ty.id).is_some_and(|known| known != ty)) {
        return Err(differ("types of one name"));
    }
    Ok(())
}

/// New numbers for the descriptions of a capture.
#[derive(Default)]
struct Numbers {
    formats: FxHashMap<u16, u16>,
    probes: FxHashMap<u32, u32>,
    enablings: FxHashMap<u32, u32>,
    aggregations: FxHashMap<u32, u32>,
    variables: FxHashMap<u64, u64>,
    /// New host numbers, by old number.
    hosts: Vec<u32>,
    /// Offset added to speculation numbers.
    speculations: u32,
}

impl Numbers {
    fn variable(&self, number: u64) -> u64 {
        self.variables.get(&number).copied().unwrap_or(number)
    }
}

fn add(base: &mut Capture, other: Capture, number: u32) -> Result<()> {
    let mut numbers = Numbers { speculations: number << SHIFT, ..Numbers::default() };
    hosts(base, &other, &mut numbers);
    formats(base, &other, &mut numbers)?;
    probes(base, &other, &mut numbers)?;
    aggregations(base, &other, &mut numbers)?;
    enablings(base, &other, &mut numbers)?;
    for buffer in &other.buffers {
        let buffer = records(&other, buffer, &numbers);
        base.buffers.push(buffer);
    }
    for buffer in &other.states {
        base.states.push(states(&other, buffer, &numbers));
    }
    let positions: FxHashMap<usize, usize> = other
        .aggregations
        .iter()
        .enumerate()
        .filter_map(|(at, of)| Some((at, base.aggregation(*numbers.aggregations.get(&of.id)?)?)))
        .collect();
    for event in &other.events {
        base.events.extend(self::event(&other, event, &numbers, &positions, number));
    }
    let symbols: Vec<Symbol> = base.symbols.iter().chain(other.symbols.iter()).cloned().collect();
    let mut unique: Vec<Symbol> = Vec::with_capacity(symbols.len());
    for symbol in Symbols::new(symbols).iter() {
        if unique.last() != Some(symbol) {
            unique.push(symbol.clone());
        }
    }
    base.symbols = Symbols::new(unique);
    let types = base.types.sorted().into_iter().chain(other.types.sorted()).cloned().collect();
    base.types = Types::new(types);
    base.began_on = base.began_on.or(other.began_on);
    base.ended_on = base.ended_on.or(other.ended_on);
    base.is_stopped |= other.is_stopped;
    base.machine = machines(base.machine.take(), other.machine);
    base.findings.extend(other.findings);
    Ok(())
}

/// Maximum total length of machine names in bytes; a longer list is replaced by the number of names and a hash.
const MAX_MACHINES_BYTES: usize = 256;

/// Name of a machine without a name in a list.
const UNNAMED: &str = "?";

/// The names of all machines, sorted, so that captures of different machines are never taken for equal, in whatever order
/// they are merged.
fn machines(base: Option<String>, other: Option<String>) -> Option<String> {
    if base.is_none() && other.is_none() {
        return None;
    }
    let both = [base, other].map(|name| name.unwrap_or_else(|| UNNAMED.to_owned()));
    let names: BTreeSet<&str> = both.iter().flat_map(|names| names.split(", ")).collect();
    let joined = names.iter().copied().collect::<Vec<_>>().join(", ");
    if joined.len() <= MAX_MACHINES_BYTES {
        return Some(joined);
    }
    let mut hasher = FxHasher::default();
    hasher.write(joined.as_bytes());
    Some(format!("{} machines {:016x}", names.len(), hasher.finish()))
}

/// Adds hosts; hosts with the same names and options are merged. A host without enablings has no records and is left out.
fn hosts(base: &mut Capture, other: &Capture, numbers: &mut Numbers) {
    let first = base.first_host();
    let used: BTreeSet<u32> = other.enablings.iter().map(|of| of.host).collect();
    for (old, host) in (0..).zip(std::iter::once(&other.first_host()).chain(&other.hosts)) {
        if !used.contains(&old) {
            numbers.hosts.push(0);
            continue;
        }
        let known = std::iter::once(&first).chain(&base.hosts).position(|known| known == host);
        let number = known.unwrap_or_else(|| {
            base.hosts.push(host.clone());
            base.hosts.len()
        });
        numbers.hosts.push(number as u32); // There are at most as many as captures.
    }
}

fn formats(base: &mut Capture, other: &Capture, numbers: &mut Numbers) -> Result<()> {
    for (at, text) in other.formats.iter().enumerate() {
        let known = base.formats.iter().position(|known| known == text);
        let position = known.unwrap_or_else(|| {
            base.formats.push(Arc::clone(text));
            base.formats.len() - 1
        });
        let new = u16::try_from(position + 1).map_err(|_| differ("formats, more than have numbers"))?;
        numbers.formats.insert(at as u16 + 1, new); // They are numbered in 16 bits.
    }
    Ok(())
}

/// An unused number: the old one if it is free.
fn unused(old: u32, is_used: impl Fn(u32) -> bool, largest: u32) -> Result<u32> {
    match is_used(old) {
        false => Ok(old),
        true => largest.checked_add(1).ok_or_else(|| differ("numbers, more than there are")),
    }
}

fn probes(base: &mut Capture, other: &Capture, numbers: &mut Numbers) -> Result<()> {
    let names = |of: &Probe| (of.provider.clone(), of.module.clone(), of.function.clone(), of.name.clone());
    let mut known: FxHashMap<_, u32> = base.probes.values().map(|probe| (names(probe), probe.id)).collect();
    let mut largest = base.probes.keys().chain(other.probes.keys()).copied().max().unwrap_or(0);
    let mut all: Vec<&Probe> = other.probes.values().collect();
    all.sort_by_key(|probe| probe.id);
    for probe in all {
        let new = match known.get(&names(probe)) {
            Some(id) => *id,
            None => {
                let id = unused(probe.id, |id| base.probes.contains_key(&id), largest)?;
                largest = largest.max(id);
                known.insert(names(probe), id);
                base.probes.insert(id, Probe { id, ..probe.clone() });
                id
            }
        };
        numbers.probes.insert(probe.id, new);
    }
    Ok(())
}

/// The properties of an aggregation apart from its numbers. Without a name, the number of the variable identifies it.
fn signature(of: &Aggregation) -> impl PartialEq {
    let part = |rec: &Rec| (rec.code, rec.size, rec.offset, rec.arg, rec.signed);
    let keys: Vec<_> = of.keys.iter().map(part).collect();
    let variable = if of.name.is_some() { 0 } else { of.variable };
    (of.name.clone(), variable, of.function, of.param, of.size, keys, part(&of.value))
}

fn aggregations(base: &mut Capture, other: &Capture, numbers: &mut Numbers) -> Result<()> {
    let mut largest = base.aggregations.iter().chain(&other.aggregations).map(|of| of.id).max().unwrap_or(0);
    let variables = base.aggregations.iter().chain(&other.aggregations).map(|of| of.variable);
    let mut last_variable = variables.max().unwrap_or(0);
    for of in &other.aggregations {
        let known = base.aggregations.iter().find(|known| signature(known) == signature(of));
        if let Some(known) = known {
            numbers.aggregations.insert(of.id, known.id);
            numbers.variables.insert(of.variable, known.variable);
            continue;
        }
        // Another aggregation of a known variable, or a new variable.
        let same_name = base.aggregations.iter().find(|known| known.name.is_some() && known.name == of.name);
        let is_taken = |variable: u64| {
            base.aggregations.iter().any(|known| known.variable == variable && known.name != of.name)
        };
        let variable = match numbers.variables.get(&of.variable).copied().or(same_name.map(|of| of.variable))
        {
            Some(variable) => variable,
            None if is_taken(of.variable) => {
                last_variable = last_variable.checked_add(1).ok_or_else(|| differ("variables"))?;
                last_variable
            }
            None => of.variable,
        };
        numbers.variables.insert(of.variable, variable);
        let id = unused(of.id, |id| base.aggregation(id).is_some(), largest)?;
        largest = largest.max(id);
        numbers.aggregations.insert(of.id, id);
        base.add_aggregation(Aggregation { id, variable, ..of.clone() });
    }
    Ok(())
}

fn enablings(base: &mut Capture, other: &Capture, numbers: &mut Numbers) -> Result<()> {
    let mut largest = base.enablings.iter().chain(&other.enablings).map(|of| of.id).max().unwrap_or(0);
    let is_renamed = numbers.variables.iter().any(|(old, new)| old != new);
    // Only few enablings agree in these.
    let alike = |of: &Enabling| (of.host, of.probe, of.uarg, of.size);
    let mut known: FxHashMap<_, Vec<usize>> = FxHashMap::default();
    for (at, of) in base.enablings.iter().enumerate() {
        known.entry(alike(of)).or_default().push(at);
    }
    // Clauses with equal descriptions are merged only if they come from different captures.
    let mut taken = FxHashSet::default();
    for of in &other.enablings {
        let mut new = of.clone();
        new.host = numbers.hosts.get(of.host as usize).copied().unwrap_or(0);
        new.probe = numbers.probes.get(&of.probe).copied().unwrap_or(of.probe);
        for rec in &mut new.recs {
            rec.format = numbers.formats.get(&rec.format).copied().unwrap_or(rec.format);
            if rec.action == Action::Library && is_renamed {
                return Err(differ("variables, which `clear()` and the like name by numbers"));
            }
        }
        let same = |known: &Enabling| known.recs == new.recs && known.align == new.align;
        let near = known.entry(alike(&new)).or_default();
        if let Some(at) = near.iter().find(|at| !taken.contains(*at) && same(&base.enablings[**at])) {
            taken.insert(*at);
            numbers.enablings.insert(of.id, base.enablings[*at].id);
            continue;
        }
        new.id = unused(of.id, |id| base.enabling(id).is_some(), largest)?;
        largest = largest.max(new.id);
        numbers.enablings.insert(of.id, new.id);
        taken.insert(base.enablings.len());
        near.push(base.enablings.len());
        base.add_enabling(new);
    }
    base.index();
    Ok(())
}

/// Replaces numbers in the values of a record.
fn values(order: ByteOrder, recs: &[Rec], numbers: &Numbers, record: &mut [u8]) {
    for rec in recs {
        let start = rec.offset as usize;
        let Some(part) = record.get_mut(start..start.saturating_add(rec.size as usize)) else { continue };
        match rec.action {
            Action::Printa => {
                let new = numbers.variable(order.number(part));
                put_number(order, &mut part[..rec.size.min(8) as usize], new);
            }
            Action::Commit | Action::Discard if rec.size <= 8 && order.number(part) != 0 => {
                let new = order.number(part).wrapping_add(numbers.speculations.into());
                put_number(order, part, new);
            }
            _ => {}
        }
    }
}

/// The records of a buffer with new numbers; the unreadable rest is unchanged.
fn records(of: &Capture, buffer: &Buffer, numbers: &Numbers) -> Buffer {
    let mut new = buffer.clone();
    let mut cursor = Cursor::new(buffer);
    while let Ok(Some(record)) = cursor.next_record(of, buffer) {
        let Some(bytes) = new.bytes.get_mut(record.offset..record.offset + record.bytes.len()) else { break };
        let id = numbers.enablings.get(&record.enabling.id).copied().unwrap_or(record.enabling.id);
        put_number(of.order, &mut bytes[..4], id.into());
        values(of.order, &record.enabling.recs, numbers, bytes);
    }
    new
}

/// Byte range of the variable in a record of an aggregation.
const VARIABLE: std::ops::Range<usize> = 8..16;

fn states(of: &Capture, buffer: &Buffer, numbers: &Numbers) -> Buffer {
    let mut new = buffer.clone();
    let mut records = Records::new(of, buffer);
    while let Ok(Some((position, record))) = records.next_record() {
        let described = &of.aggregations[position];
        let start = records.offset() - record.len();
        let Some(bytes) = new.bytes.get_mut(start..start + record.len()) else { break };
        let id = numbers.aggregations.get(&described.id).copied().unwrap_or(described.id);
        put_number(of.order, &mut bytes[..4], id.into());
        if let Some(variable) = bytes.get_mut(VARIABLE) {
            let number = numbers.variable(of.order.number(variable));
            put_number(of.order, variable, number);
        }
    }
    new
}

fn event(
    of: &Capture,
    event: &Event,
    numbers: &Numbers,
    positions: &FxHashMap<usize, usize>,
    number: u32,
) -> Option<Event> {
    match event {
        Event::Sample { cpu, offset, bytes } => {
            let mut new = bytes.clone();
            let word = |at| of.order.u32_at(bytes, at);
            if let (Some(speculation), Some(probe), Some(statement)) = (word(SPECULATION), word(8), word(12))
            {
                let speculation = match speculation {
                    0 => 0,
                    id => id.wrapping_add(numbers.speculations),
                };
                let probe = numbers.probes.get(&probe).copied().unwrap_or(probe);
                let id = numbers.enablings.get(&statement).copied().unwrap_or(statement);
                for (at, value) in [(SPECULATION, speculation), (8, probe), (12, id)] {
                    put_number(of.order, &mut new[at..at + 4], value.into());
                }
                if let Some((_, enabling)) = of.enabling(statement) {
                    values(of.order, &enabling.recs, numbers, &mut new);
                }
            }
            Some(Event::Sample { cpu: *cpu, offset: *offset, bytes: new })
        }
        Event::State { cpu, aggregation, key, data } => {
            let described = of.aggregations.get(*aggregation)?;
            let mut key = key.clone();
            let id = numbers.aggregations.get(&described.id).copied().unwrap_or(described.id);
            if let Some(word) = key.get_mut(..4) {
                put_number(of.order, word, id.into());
            }
            // CPUs of other machines have their own states.
            let cpu = if of.dialect == Dialect::Linux { cpu.wrapping_add(number << SHIFT) } else { *cpu };
            Some(Event::State { cpu, aggregation: *positions.get(aggregation)?, key, data: data.clone() })
        }
    }
}
