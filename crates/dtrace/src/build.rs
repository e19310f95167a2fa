//! Captures made step by step of what a classic consumer is given by its device.
//!
//! SPEC: dtrace.md#captures

use crate::buffer::Cursor;
use crate::bytes::{ByteOrder, until_nul};
use crate::carry::{self, Encoded};
use crate::describe::{self, Aggregation, BUFFER_ALIGN, Buffer, Capture, Dialect, Event, Probe, Status};
use crate::locale::Locale;
use crate::options::OF_TRACING;
use crate::symbols::{Symbol, Symbols};
use crate::validate;
use crate::zone::Zone;
use crate::{described, mid, raw};
use quipu_model::{Error, Result};
use quipu_wire::record::Producer;
use rustc_hash::FxHasher;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of the description of a probe.
const PROBE_BYTES: usize = 388;

/// Where the texts of a probe stand: provider, module, function, name.
const PROBE_TEXTS: [Range<usize>; 4] = [4..68, 68..132, 132..324, 324..388];

/// Counts in a status, each of 8 bytes.
const STATUS_COUNTS: usize = 10;

/// What a snapshot of a CPU gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot<'s> {
    /// The CPU.
    pub cpu: u32,
    /// Records that were dropped since the last one.
    pub drops: u64,
    /// Errors since the last one.
    pub errors: u64,
    /// What is valid of the buffer.
    pub bytes: &'s [u8],
    /// Where the oldest record of a ring stands.
    pub oldest: u64,
    /// When it was taken.
    pub timestamp: u64,
}

/// A capture that is being made.
#[derive(Debug)]
pub struct Builder {
    capture: Capture,
    symbols: Vec<Symbol>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// Nothing yet; of a host with the byte order and the pointers of this one.
    pub fn new() -> Builder {
        let order = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
        Builder {
            capture: Capture {
                name: "capture".to_owned(),
                order,
                pointer_bytes: size_of::<usize>() as u32, // 4 or 8.
                library_base: crate::described::LIBRARY_BASE,
                ..Capture::default()
            },
            symbols: Vec::new(),
        }
    }

    /// Sets options of the consumer, with commas between them; those of tracing are passed over.
    ///
    /// # Errors
    /// As [`Settings::give`](crate::options::Settings::give), for the first that is refused; the others are set.
    pub fn options(&mut self, list: &str) -> Result<()> {
        let is_about_text = |option: &&str| {
            let name = option.split('=').next().unwrap_or("");
            !name.is_empty() && !OF_TRACING.contains(&name)
        };
        let options = list.split(',').map(str::trim).filter(is_about_text);
        let given: Vec<Result<()>> = options.map(|option| self.capture.settings.give(option)).collect();
        given.into_iter().collect()
    }

    /// Describes a probe (`dtrace_probedesc_t`).
    ///
    /// # Errors
    /// `Usage` for a structure of another size.
    pub fn probe(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() != PROBE_BYTES {
            let n = bytes.len();
            return Err(Error::usage(format!("a probe is described by {PROBE_BYTES} bytes, not {n}")));
        }
        let id = self.capture.order.number(&bytes[..4]) as u32; // Four bytes.
        let text = |range: Range<usize>| String::from_utf8_lossy(until_nul(&bytes[range])).into_owned();
        let [provider, module, function, name] = PROBE_TEXTS.map(text);
        self.capture.probes.insert(id, Probe { id, provider, module, function, name });
        Ok(())
    }

    /// Describes an enabling (`dtrace_eprobedesc_t`).
    ///
    /// # Errors
    /// As [`raw::enabling`].
    pub fn enabling(&mut self, bytes: &[u8]) -> Result<()> {
        let enabling = raw::enabling(bytes, self.capture.order, Dialect::Classic)?;
        self.capture.add_enabling(enabling);
        Ok(())
    }

    /// Describes an aggregation (`dtrace_aggdesc_t`), whose variable and name the kernel does not know.
    ///
    /// # Errors
    /// As [`raw::aggregation`]; `Malformed` for one that does not aggregate.
    pub fn aggregation(&mut self, bytes: &[u8], variable: u64, name: Option<String>) -> Result<()> {
        let raw = raw::aggregation(bytes, self.capture.order, Dialect::Classic)?;
        let described = Aggregation::of_parts(raw.id, raw.epid, raw.size, &raw.recs)
            .map_err(|what| Error::malformed(format!("aggregation {}: {what}", raw.id)))?;
        self.capture.add_aggregation(Aggregation { variable, name, ..described });
        Ok(())
    }

    /// Describes a format.
    ///
    /// # Errors
    /// `Usage` for a number that no format has.
    pub fn format(&mut self, id: u32, text: &[u8]) -> Result<()> {
        let position = usize::from(u16::try_from(id).unwrap_or(0)).checked_sub(1);
        let position = position.ok_or_else(|| Error::usage(format!("no format has the number {id}")))?;
        let formats = &mut self.capture.formats;
        if formats.len() <= position {
            formats.resize(position + 1, Arc::from(&b""[..]));
        }
        formats[position] = text.into();
        Ok(())
    }

    /// Names addresses.
    pub fn symbol(&mut self, addresses: Range<u64>, object: &str, name: &str, is_user: bool) {
        let Range { start: lo, end: hi } = addresses;
        let (object, name) = (object.to_owned(), name.to_owned());
        self.symbols.push(Symbol { lo, hi, object, name, user: is_user });
    }

    /// Says which CPUs ran `BEGIN` and `END`, and whether tracing has stopped.
    pub fn session(&mut self, began_on: Option<u32>, ended_on: Option<u32>, is_stopped: bool) {
        (self.capture.began_on, self.capture.ended_on) = (began_on, ended_on);
        self.capture.is_stopped = is_stopped;
    }

    /// Says where the consumer's own actions begin.
    pub fn library_base(&mut self, base: u64) {
        self.capture.library_base = base;
    }

    /// Says the time zone of the host.
    pub fn zone(&mut self, offset_s: i32, name: &str) {
        self.capture.zone = Zone { offset_s, name: name.to_owned() };
    }

    /// Says the locale of the consumer, which is `C` else.
    ///
    /// # Errors
    /// `Malformed` for one without seven days and twelve months.
    pub fn locale(&mut self, locale: Locale) -> Result<()> {
        locale.check()?;
        self.capture.locale = locale;
        Ok(())
    }

    /// Says what the host calls the service of a port.
    ///
    /// # Errors
    /// `Limit` for a name that no service has.
    pub fn service(&mut self, port: u16, name: &str) -> Result<()> {
        self.capture.names.add_service(port, name)
    }

    /// Says what the host calls the host of an address, as records have it.
    ///
    /// # Errors
    /// `Limit` for a name or an address that no host has.
    pub fn host(&mut self, address: &str, name: &str) -> Result<()> {
        self.capture.names.add_host(address, name)
    }

    /// Takes counts that stand beside buffers (`dtrace_status_t`).
    ///
    /// # Errors
    /// `Usage` for a structure that is too short.
    pub fn status(&mut self, bytes: &[u8]) -> Result<()> {
        let count = |at: usize| self.capture.order.u64_at(bytes, 8 * at);
        let last = count(STATUS_COUNTS - 1);
        let dblerrors = last.ok_or_else(|| Error::usage("a status has ten counts of 8 bytes"))?;
        let count = |at: usize| count(at).unwrap_or(0);
        self.capture.status = Status {
            dyndrops: count(0),
            dyndrops_rinsing: count(1),
            dyndrops_dirty: count(2),
            specdrops: count(3),
            specdrops_busy: count(4),
            specdrops_unavail: count(5),
            stkstroverflows: count(8),
            dblerrors,
        };
        Ok(())
    }

    /// Takes records of a CPU.
    ///
    /// # Errors
    /// `Usage` for a ring whose oldest record lies outside.
    pub fn buffer(&mut self, snapshot: &Snapshot<'_>) -> Result<()> {
        add(&mut self.capture.buffers, "buf", snapshot)
    }

    /// Takes aggregations of a CPU.
    ///
    /// # Errors
    /// As [`buffer`](Builder::buffer).
    pub fn aggregations(&mut self, snapshot: &Snapshot<'_>) -> Result<()> {
        add(&mut self.capture.states, "agg", snapshot)
    }

    /// All that was given so far.
    ///
    /// # Errors
    /// `Malformed` or `Limit` for descriptions that contradict themselves.
    pub fn finish(&self) -> Result<Capture> {
        let mut capture = self.capture.clone();
        capture.symbols = Symbols::new(self.symbols.clone());
        capture.index();
        validate::all(&capture)?;
        Ok(capture)
    }

    /// Writes all that was given so far as a stream.
    ///
    /// # Errors
    /// As [`finish`](Builder::finish) and [`carry::write`].
    pub fn write_stream<W: Write>(&mut self, producer: Producer, encoded: Encoded, out: W) -> Result<W> {
        // PERF: buffers are not copied.
        self.capture.symbols = Symbols::new(self.symbols.clone());
        self.capture.index();
        validate::all(&self.capture)?;
        carry::write(&self.capture, Producer { uuid: new_id(), ..producer }, encoded, out)
    }

    /// The records of a CPU as a buffer that carries its descriptions.
    ///
    /// # Errors
    /// As [`finish`](Builder::finish); `Usage` for a CPU that has no buffer, or one that cannot be read to its end.
    pub fn write_buffer(&self, producer: Producer, cpu: u32) -> Result<Vec<u8>> {
        let capture = self.finish()?;
        let buffer = capture.buffers.iter().find(|buffer| buffer.cpu == cpu);
        let buffer = buffer.ok_or_else(|| Error::usage(format!("no records of CPU {cpu} were given")))?;
        let mut cursor = Cursor::new(buffer);
        while cursor.next_record(&capture, buffer)?.is_some() {}
        mid::write(&capture, buffer, Producer { uuid: new_id(), ..producer })
    }
}

fn add(all: &mut Vec<Buffer>, kind: &str, snapshot: &Snapshot<'_>) -> Result<()> {
    let Snapshot { cpu, drops, errors, bytes, oldest, timestamp } = *snapshot;
    let oldest = usize::try_from(oldest).unwrap_or(usize::MAX);
    if oldest > bytes.len() {
        return Err(Error::usage("the oldest record lies outside of the buffer"));
    }
    let position = all.iter().position(|buffer| buffer.cpu == cpu).unwrap_or(all.len());
    if position == all.len() {
        all.push(Buffer { cpu, file: format!("{kind}.cpu{cpu}.bin"), ..Buffer::default() });
    }
    let buffer = &mut all[position];
    buffer.bytes.resize(buffer.bytes.len().next_multiple_of(BUFFER_ALIGN), 0);
    // The oldest record comes first.
    let start = buffer.bytes.len();
    match oldest {
        0 => buffer.bytes.extend_from_slice(bytes),
        _ => {
            let turned = Buffer { bytes: bytes.to_vec(), oldest, ..Buffer::default() }.turned();
            buffer.bytes.extend_from_slice(&turned.bytes);
            let gaps = turned.gaps.into_iter().map(|gap| gap.start + start..gap.end + start);
            buffer.gaps = describe::in_order(buffer.gaps.drain(..).chain(gaps).collect());
        }
    }
    buffer.drops += drops;
    buffer.errors += errors;
    buffer.timestamp = timestamp;
    Ok(())
}

/// Who is said to have written a capture that is written again: its number is [`id_of`] it.
pub fn producer_of(capture: &Capture) -> Producer {
    let (program, host) = (Some(carry::STREAM_FORMAT.to_owned()), capture.machine.clone());
    Producer { uuid: id_of(capture), program, host, ..Producer::default() }
}

/// A number that two captures share only if they are the same, so that the same capture gives the same bytes. Captures of
/// machines with other names are not the same.
pub fn id_of(capture: &Capture) -> [u8; 16] {
    let mut id = [0; 16];
    let records = described::records(capture, Producer::default());
    for (half, seed) in id.chunks_exact_mut(8).zip([1u64, 2]) {
        let mut hasher = FxHasher::default();
        hasher.write_u64(seed);
        if let Some(machine) = &capture.machine {
            hasher.write(machine.as_bytes());
        }
        records.iter().for_each(|record| hasher.write(&record.to_bytes()));
        for buffer in capture.buffers.iter().chain(&capture.states) {
            hasher.write_u32(buffer.cpu);
            hasher.write_u64(buffer.drops);
            // A ring has the same records wherever its oldest one lies.
            hasher.write(&buffer.turned().bytes);
        }
        for event in &capture.events {
            hasher.write_u32(event.cpu());
            match event {
                Event::Sample { bytes, .. } => hasher.write(bytes),
                Event::State { key, data, .. } => [key, data].into_iter().for_each(|part| hasher.write(part)),
            }
        }
        half.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    as_random(id)
}

/// A number of a capture that was made now: another one may have the same records and is another all the same.
fn new_id() -> [u8; 16] {
    let mut id = [0; 16];
    for half in id.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
    }
    as_random(id)
}

/// The form of random UUIDs.
fn as_random(mut id: [u8; 16]) -> [u8; 16] {
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    id
}
