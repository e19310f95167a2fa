//! Descriptions as metadata records, which buffers and streams carry.
//!
//! SPEC: dtrace.md#metadata-in-the-buffer

use crate::action::Action;
use crate::bytes::ByteOrder;
use crate::carry;
use crate::describe::{Aggregation, Buffer, Capture, Dialect, Enabling, Probe, Rec};
use crate::host;
use crate::locale::Locale;
use crate::names::Names;
use crate::options::{Refused, Settings};
use crate::rules;
use crate::symbols::{Symbol, Symbols};
use crate::type_records;
use crate::zone::Zone;
use quipu_model::{Error, Place, Result};
use quipu_wire::cbor::Value;
use quipu_wire::record::{self as wire, Record};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Names of the consumer's own actions, which have different numbers in each kernel: their number here, and the name's number.
const ROUTINES: [(u64, u64); 6] = [(1, 15), (2, 17), (3, 16), (4, 18), (5, 21), (6, 28)];

/// Number of the first of these actions in captures that name them.
pub(crate) const LIBRARY_BASE: u64 = 54;

/// Dialects of formats: as the kernel stores them, and as scripts write them.
const KEPT: u64 = 1;
const WRITTEN: u64 = 2;

/// Settings with facts about the session.
const BEGAN: &str = "session.began-cpu";
const ENDED: &str = "session.ended-cpu";
const STOPPED: &str = "session.stopped";
pub(crate) const DIALECT: &str = "session.dialect";

/// The setting with the locale as JSON, as in `meta.json`.
const LOCALE: &str = "session.locale";

/// Prefixes of the settings that name a service (a port follows) or a host (an address follows).
const SERVICE: &str = "session.service.";
const HOST: &str = "session.host.";

/// Prefix of the settings for ranges in which zeros in a buffer are not a loss. The number of the buffer's stream follows;
/// the value is a list of offsets and lengths, separated by blanks.
const GAPS: &str = "session.gaps.";

/// Prefixes of the settings with further facts about a buffer of records or of aggregations. The number of the buffer's
/// stream follows; the value is the number of errors and the time, separated by a blank.
const BUFFER: &str = "session.buffer.";
const STATES: &str = "session.aggregation-buffer.";

/// The setting that lists an attachment.
pub(crate) const ATTACHED: &str = "quipu.attached";

/// Makes a capture from metadata records.
#[derive(Debug)]
pub(crate) struct Describer {
    pub(crate) capture: Capture,
    symbols: Vec<Symbol>,
    types: type_records::Known,
    modules: FxHashMap<u32, String>,
    /// CPUs of streams, by stream number.
    pub(crate) cpus: FxHashMap<u32, u32>,
    /// Further facts about buffers: whether of aggregations, the number of the stream, errors, the time.
    pub(crate) counts: Vec<(bool, u32, u64, u64)>,
    /// Ranges in which zeros in the buffers of streams are not a loss: offsets and lengths, by stream number.
    pub(crate) gaps: FxHashMap<u32, Vec<(u64, u64)>>,
    /// Further hosts, by number.
    hosts: BTreeMap<u32, host::Described>,
    /// Number of settings for hosts above the limit.
    n_beyond: usize,
}

impl Describer {
    pub(crate) fn new(name: &str, dialect: Dialect) -> Describer {
        let capture = Capture {
            name: name.to_owned(),
            dialect,
            pointer_bytes: 8,
            library_base: LIBRARY_BASE,
            ..Capture::default()
        };
        Describer {
            capture,
            symbols: Vec::new(),
            types: type_records::Known::default(),
            modules: FxHashMap::default(),
            cpus: FxHashMap::default(),
            counts: Vec::new(),
            gaps: FxHashMap::default(),
            hosts: BTreeMap::new(),
            n_beyond: 0,
        }
    }

    /// Takes a record. A record with a known number has to be equal to the first.
    ///
    /// # Errors
    /// `Malformed` for invalid descriptions.
    pub(crate) fn take(&mut self, record: &Record) -> Result<()> {
        let capture = &mut self.capture;
        match record {
            Record::Producer(producer) => {
                capture.order = match producer.byte_order {
                    Some(1) => ByteOrder::Big,
                    _ => ByteOrder::Little,
                };
                capture.pointer_bytes = if producer.address_bits == Some(32) { 4 } else { 8 };
                capture.machine.clone_from(&producer.host);
                let offset = producer.zone_s.and_then(|offset| i32::try_from(offset).ok()).unwrap_or(0);
                if let Some(name) = &producer.zone {
                    capture.zone = Zone { offset_s: offset, name: name.clone() };
                }
            }
            Record::Probe(probe) => {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let (provider, module) = (text(&probe.provider), text(&probe.module));
                let (function, name) = (text(&probe.function), text(&probe.name));
                capture.probes.insert(probe.id, Probe { id: probe.id, provider, module, function, name });
            }
            Record::Format(format) => {
                let position = usize::try_from(format.id).unwrap_or(usize::MAX).wrapping_sub(1);
                if position >= usize::from(u16::MAX) {
                    return Err(Error::malformed(format!("format {} is out of range", format.id)));
                }
                if capture.formats.len() <= position {
                    capture.formats.resize(position + 1, Arc::from(&b""[..]));
                }
                capture.formats[position] = format.text.as_bytes().into();
            }
            Record::Enabling(described) => {
                let dialect = capture.dialect;
                let recs =
                    described.actions.iter().map(|part| rec(part, dialect)).collect::<Result<Vec<_>>>()?;
                let align = recs.iter().map(|rec| u32::from(rec.alignment)).fold(4, u32::max);
                let wire::Enabling { id, probe, uarg, size, .. } = *described;
                let id = id.wrapping_sub(first_id(dialect));
                let enabling = Enabling { id, probe, uarg: uarg.unwrap_or(0), size, align, recs, host: 0 };
                if capture.enabling(id).is_some_and(|(_, known)| *known != enabling) {
                    return Err(Error::malformed(format!("EPID {id} is described in two ways")));
                }
                capture.add_enabling(enabling);
            }
            Record::KernelAggregation(described) => {
                let aggregation = aggregation(described, capture.dialect)?;
                capture.add_aggregation(aggregation);
            }
            Record::Module(module) => {
                let path = module.path.as_deref().unwrap_or("");
                let name = path.rsplit('/').next().unwrap_or(path);
                self.modules.insert(module.id, name.to_owned());
            }
            Record::Symbols(all) => {
                let object = match &all.object {
                    Some(Value::Text(name)) => name.clone(),
                    Some(Value::Uint(id)) => u32::try_from(*id)
                        .ok()
                        .and_then(|id| self.modules.get(&id))
                        .cloned()
                        .unwrap_or_default(),
                    _ => String::new(),
                };
                let symbol = |(lo, size, name): &(u64, u64, String)| Symbol {
                    lo: *lo,
                    hi: lo.saturating_add(*size),
                    object: object.clone(),
                    name: name.clone(),
                    user: all.pid.is_some(),
                };
                self.symbols.extend(all.symbols.iter().map(symbol));
            }
            Record::Type(described) => self.types.take(described),
            Record::Setting(setting) => self.setting(&setting.name, &setting.value)?,
            Record::Stream(stream) => {
                if let Some(cpu) = stream.cpu.and_then(|cpu| u32::try_from(cpu).ok()) {
                    self.cpus.insert(stream.number, cpu);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn setting(&mut self, name: &str, value: &Value) -> Result<()> {
        let cpu = value.as_u64().and_then(|cpu| u32::try_from(cpu).ok());
        match name {
            BEGAN => self.capture.began_on = cpu,
            ENDED => self.capture.ended_on = cpu,
            DIALECT => {
                let dialect = match value {
                    Value::Text(name) => Dialect::named(name),
                    _ => None,
                };
                self.capture.dialect = dialect.unwrap_or(self.capture.dialect);
            }
            ATTACHED => {}
            _ if name.starts_with(BUFFER) || name.starts_with(STATES) => {
                let cpu = name.rsplit('.').next().and_then(|cpu| cpu.parse().ok());
                let counts = value.as_text().and_then(|text| text.split_once(' '));
                let counts =
                    counts.and_then(|(errors, time)| Some((errors.parse().ok()?, time.parse().ok()?)));
                if let (Some(cpu), Some((errors, time))) = (cpu, counts) {
                    self.counts.push((name.starts_with(STATES), cpu, errors, time));
                }
            }
            STOPPED => self.capture.is_stopped = !matches!(value, Value::Uint(0)),
            _ if name.starts_with(GAPS) => {
                let numbers = value.as_text().unwrap_or("").split(' ').map_while(|n| n.parse::<u64>().ok());
                let numbers: Vec<u64> = numbers.collect();
                let told = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1]));
                if let Some(cpu) = name.rsplit('.').next().and_then(|cpu| cpu.parse().ok()) {
                    self.gaps.insert(cpu, told.collect());
                }
            }
            _ => {
                if let Some((number, name)) = host::of_setting(name) {
                    if self.hosts.len() >= host::MAX_HOSTS && !self.hosts.contains_key(&number) {
                        self.n_beyond += 1;
                        return Ok(());
                    }
                    return self.hosts.entry(number).or_default().take(name, value);
                }
                let Capture { locale, names, settings, .. } = &mut self.capture;
                // Text depends on few of the consumer's options.
                take_words(locale, names, settings, name, value)?;
            }
        }
        Ok(())
    }

    /// Whether the records describe anything of DTrace.
    pub(crate) fn describes_dtrace(&self) -> bool {
        !(self.capture.enablings.is_empty()
            && self.capture.aggregations.is_empty()
            && self.capture.probes.is_empty())
    }

    /// The capture; the caller adds its buffers.
    pub(crate) fn finish(self) -> Capture {
        let Describer { mut capture, mut symbols, .. } = self;
        // A buffer may repeat its descriptions.
        symbols.sort_by(|a, b| {
            (a.lo, a.hi, a.user, &a.object, &a.name).cmp(&(b.lo, b.hi, b.user, &b.object, &b.name))
        });
        symbols.dedup();
        capture.symbols = Symbols::new(symbols);
        capture.types = self.types.finish();
        let hosts = self.hosts.into_values().map(host::Described::finish);
        let mut odd = capture.add_hosts(hosts.collect(), first_id(capture.dialect));
        odd.extend((self.n_beyond > 0).then(|| host::beyond_limit(self.n_beyond)));
        let place = Place { file: Some(capture.name.clone()), ..Place::default() };
        capture
            .findings
            .extend(odd.into_iter().map(|message| rules::METADATA.broken(place.clone(), message)));
        capture
    }
}

/// Takes a setting about the consumer's options or the locale and names of a host; returns the reason if an option is refused.
///
/// # Errors
/// `Malformed` or `Limit` for invalid settings, which are ignored.
pub(crate) fn take_words(
    locale: &mut Locale,
    names: &mut Names,
    settings: &mut Settings,
    name: &str,
    value: &Value,
) -> Result<Option<Refused>> {
    if name == LOCALE {
        let said = value.as_text().and_then(Locale::of_json);
        let said = said.ok_or_else(|| Error::malformed("the locale cannot be read"))?;
        said.check()?;
        *locale = said;
        return Ok(None);
    }
    if let Some((port, name)) = name.strip_prefix(SERVICE).zip(value.as_text()) {
        let port = port.parse().map_err(|_| Error::malformed("a service has a port that is no number"))?;
        return names.add_service(port, name).map(|()| None);
    }
    if let Some((address, name)) = name.strip_prefix(HOST).zip(value.as_text()) {
        return names.add_host(address, name).map(|()| None);
    }
    let value = match value {
        Value::Text(text) => text.clone(),
        Value::Uint(n) => n.to_string(),
        _ => String::new(),
    };
    Ok(settings.set(name, &value).err())
}

/// The settings of a host that text depends on, except its zone: names and values.
pub(crate) fn words(locale: &Locale, names: &Names, settings: &Settings) -> Vec<(String, Value)> {
    let option = |(name, value): (&str, Option<u32>)| {
        (name.to_owned(), value.map_or(Value::Bool(true), |value| Value::Uint(value.into())))
    };
    let mut all: Vec<(String, Value)> = settings.list().into_iter().map(option).collect();
    if *locale != Locale::default() {
        all.push((LOCALE.to_owned(), Value::Text(locale.to_json())));
    }
    let Names { services, hosts } = names;
    let text = |name: &String| Value::Text(name.clone());
    all.extend(services.iter().map(|(port, name)| (format!("{SERVICE}{port}"), text(name))));
    all.extend(hosts.iter().map(|(address, name)| (format!("{HOST}{address}"), text(name))));
    all
}

/// Offset added to enabling numbers: Linux statements are numbered from 0, records from 1.
pub(crate) fn first_id(dialect: Dialect) -> u32 {
    u32::from(dialect == Dialect::Linux)
}

/// Signedness of a value: the ninth number of a part, if known.
const SIGNED: i128 = 1;
const UNSIGNED: i128 = 2;

/// Reads a part: action, size, offset, alignment, format, argument, statement, name of a routine, and the sign if it is known.
fn rec(part: &[i128], dialect: Dialect) -> Result<Rec> {
    let wrong = || Error::malformed("a part of a description is out of range");
    let number = |at: usize| part.get(at).copied().unwrap_or(0);
    let short = |at: usize| u16::try_from(number(at)).map_err(|_| wrong());
    let word = |at: usize| u32::try_from(number(at)).map_err(|_| wrong());
    let long = |at: usize| match u64::try_from(number(at)) {
        Ok(value) => Ok(value),
        Err(_) => i64::try_from(number(at)).map(|value| value as u64).map_err(|_| wrong()),
    };
    let action = Action::of(short(0)?, dialect);
    let routine = long(7)?;
    let arg = match ROUTINES.iter().find(|(name, _)| *name == routine) {
        Some((_, number)) if action == Action::Library => LIBRARY_BASE + number,
        _ => long(5)?,
    };
    Ok(Rec {
        action,
        code: short(0)?,
        size: word(1)?,
        offset: word(2)?,
        alignment: short(3)?,
        format: short(4)?,
        arg,
        uarg: long(6)?,
        signed: match number(8) {
            SIGNED => Some(true),
            UNSIGNED => Some(false),
            _ => None,
        },
    })
}

fn aggregation(described: &wire::KernelAggregation, dialect: Dialect) -> Result<Aggregation> {
    let recs = described.records.iter().map(|part| rec(part, dialect)).collect::<Result<Vec<_>>>()?;
    let wire::KernelAggregation { id, enabling, variable, size, ref name, .. } = *described;
    let parts = Aggregation::of_parts(id, enabling, size, &recs)
        .map_err(|what| Error::malformed(format!("aggregation {id}: {what}")))?;
    Ok(Aggregation { variable: variable as u64, name: name.clone(), ..parts })
}

/// The metadata records of a capture, in an order in which everything is described before it is used.
pub(crate) fn records(capture: &Capture, producer: wire::Producer) -> Vec<Record> {
    records_beside(capture, producer, &capture.buffers, &capture.states)
}

/// The same, for some of the buffers.
pub(crate) fn records_beside(
    capture: &Capture,
    producer: wire::Producer,
    buffers: &[Buffer],
    states: &[Buffer],
) -> Vec<Record> {
    let mut all = vec![Record::from(wire::Producer {
        byte_order: Some(u32::from(capture.order == ByteOrder::Big)),
        address_bits: Some(8 * capture.pointer_bytes),
        zone_s: Some(capture.zone.offset_s.into()),
        zone: Some(capture.zone.name.clone()),
        ..producer
    })];
    if capture.dialect != Dialect::Classic {
        let value = Value::Text(capture.dialect.name().to_owned());
        all.push(wire::Setting { name: DIALECT.to_owned(), value }.into());
    }
    let words = words(&capture.locale, &capture.names, &capture.settings);
    let further = host::settings(capture);
    all.extend(words.into_iter().chain(further).map(|(name, value)| wire::Setting { name, value }.into()));
    let session =
        [(BEGAN, capture.began_on), (ENDED, capture.ended_on), (STOPPED, capture.is_stopped.then_some(1))];
    for (name, value) in session {
        let value = value.map(|value| Value::Uint(value.into()));
        all.extend(value.map(|value| wire::Setting { name: name.to_owned(), value }.into()));
    }
    let text =
        |name: String, value: &str| wire::Setting { name, value: Value::Text(value.to_owned()) }.into();
    let beside = |prefix: &str, (number, buffer): (&u32, &Buffer)| {
        let Buffer { errors, timestamp, .. } = buffer;
        // An empty buffer has no frame, so a setting states its existence.
        let is_told = *errors > 0 || *timestamp > 0 || buffer.bytes.is_empty();
        let value = Value::Text(format!("{errors} {timestamp}"));
        is_told.then(|| wire::Setting { name: format!("{prefix}{number}"), value }.into())
    };
    let numbers = carry::numbers(buffers);
    all.extend(numbers.iter().zip(buffers).filter_map(|both| beside(BUFFER, both)));
    all.extend(carry::numbers(states).iter().zip(states).filter_map(|both| beside(STATES, both)));
    let gaps = gaps(&numbers, buffers);
    all.extend(gaps.into_iter().map(|(number, told)| text(format!("{GAPS}{number}"), &told)));
    let mut probes: Vec<&Probe> = capture.probes.values().collect();
    probes.sort_by_key(|probe| probe.id);
    all.extend(probes.into_iter().map(|probe| {
        let Probe { id, provider, module, function, name } = probe.clone();
        let [provider, module, function, name] = [provider, module, function, name].map(Some);
        wire::Probe { id, provider, module, function, name }.into()
    }));
    let dialect = if capture.dialect == Dialect::Linux { WRITTEN } else { KEPT };
    all.extend((1..).zip(&capture.formats).map(|(id, text)| {
        let text = String::from_utf8_lossy(text).into_owned();
        wire::Format { id, text, dialect: Some(dialect) }.into()
    }));
    all.extend(capture.symbols.iter().map(|symbol| {
        let Symbol { lo, hi, object, name, user } = symbol.clone();
        let symbols = vec![(lo, hi.saturating_sub(lo), name)];
        wire::Symbols { object: Some(Value::Text(object)), symbols, pid: user.then_some(0) }.into()
    }));
    all.extend(type_records::of(&capture.types).into_iter().map(Record::from));
    let mut statements = Statements::default();
    for enabling in &capture.enablings {
        let actions = enabling.recs.iter().map(|rec| part(capture, rec, &mut statements)).collect();
        let Enabling { id, probe, uarg, size, .. } = *enabling;
        let id = id.wrapping_add(first_id(capture.dialect));
        all.push(wire::Enabling { id, probe, uarg: Some(uarg), size, actions }.into());
    }
    for described in &capture.aggregations {
        // The variable is the first field of each record.
        let first = vec![1, 8, 8, 8, 0, 0, 0, 0];
        // On Linux, parameters are stored outside the parts.
        let mut value = described.value.clone();
        if described.param != 0 {
            value.arg = described.param;
        }
        let keys = described.keys.iter().chain(std::iter::once(&value));
        let records =
            std::iter::once(first).chain(keys.map(|rec| part(capture, rec, &mut statements))).collect();
        let Aggregation { id, epid: enabling, variable, size, ref name, .. } = *described;
        let variable = variable as i64;
        all.push(
            wire::KernelAggregation { id, enabling, variable, size, records, name: name.clone() }.into(),
        );
    }
    all
}

/// Ranges in which zeros in the buffers of each stream are not a loss, with offsets in the concatenated buffers.
fn gaps(numbers: &[u32], buffers: &[Buffer]) -> BTreeMap<u32, String> {
    let (mut all, mut starts) = (BTreeMap::new(), FxHashMap::default());
    for (number, buffer) in numbers.iter().zip(buffers) {
        let start: &mut usize = starts.entry(*number).or_default();
        let turned = if buffer.oldest > 0 { Cow::Owned(buffer.turned()) } else { Cow::Borrowed(buffer) };
        for gap in &turned.gaps {
            let told: &mut String = all.entry(*number).or_default();
            let blank = if told.is_empty() { "" } else { " " };
            // Writing to a string cannot fail.
            let _ = write!(told, "{blank}{} {}", gap.start + *start, gap.len());
        }
        *start += buffer.bytes.len();
    }
    all
}

/// Numbers of statements, which replace pointers of the consumer's process.
#[derive(Default)]
struct Statements(FxHashMap<u64, i128>);

impl Statements {
    fn number(&mut self, uarg: u64) -> i128 {
        let next = self.0.len() as i128 + 1;
        if uarg == 0 { 0 } else { *self.0.entry(uarg).or_insert(next) }
    }
}

fn part(capture: &Capture, rec: &Rec, statements: &mut Statements) -> Vec<i128> {
    let number = rec.arg.checked_sub(capture.library_base).filter(|_| rec.action == Action::Library);
    let routine = number.and_then(|number| ROUTINES.iter().find(|(_, other)| *other == number));
    let arg = match (routine, rec.action) {
        (Some(_), _) => 0,
        // Actions without a name keep their distance from the named ones.
        (None, Action::Library) => {
            rec.arg.wrapping_sub(capture.library_base).wrapping_add(LIBRARY_BASE).into()
        }
        (None, _) => i128::from(rec.arg),
    };
    let sign = rec.signed.map(|is_signed| if is_signed { SIGNED } else { UNSIGNED });
    let numbers = [
        rec.code.into(),
        rec.size.into(),
        rec.offset.into(),
        rec.alignment.into(),
        rec.format.into(),
        arg,
        statements.number(rec.uarg),
        routine.map_or(0, |(name, _)| i128::from(*name)),
    ];
    numbers.into_iter().chain(sign).collect()
}
