//! Builds a capture step by step from the structures that a classic consumer gets from its device.
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

/// Size of a probe description in bytes.
const PROBE_BYTES: usize = 388;

/// Byte ranges of the texts of a probe: provider, module, function, name.
const PROBE_TEXTS: [Range<usize>; 4] = [4..68, 68..132, 132..324, 324..388];

/// Number of counts in a status, of 8 bytes each.
const STATUS_COUNTS: usize = 10;

/// A snapshot of a CPU's buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot<'s> {
    /// The CPU.
    pub cpu: u32,
    /// Number of records dropped since the last snapshot.
    pub drops: u64,
    /// Number of errors since the last snapshot.
    pub errors: u64,
    /// The valid bytes of the buffer.
    pub bytes: &'s [u8],
    /// Offset of the oldest record of a ring.
    pub oldest: u64,
    /// Time of the snapshot.
    pub timestamp: u64,
}

/// A capture under construction.
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
    /// An empty capture, with the byte order and pointer size of this host.
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

    /// Sets options of the consumer from a comma-separated list; options of tracing are ignored.
    ///
    /// # Errors
    /// Returns the first error of [`Settings::give`](crate::options::Settings::give); the other options are set.
    pub fn options(&mut self, list: &str) -> Result<()> {
        let is_about_text = |option: &&str| {
            let name = option.split('=').next().unwrap_or("");
            !name.is_empty() && !OF_TRACING.contains(&name)
        };
        let options = list.split(',').map(str::trim).filter(is_about_text);
        let given: Vec<Result<()>> = options.map(|option| self.capture.settings.give(option)).collect();
        given.into_iter().collect()
    }

    /// Adds the description of a probe (`dtrace_probedesc_t`).
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

    /// Adds the description of an enabling (`dtrace_eprobedesc_t`).
    ///
    /// # Errors
    /// Returns the same errors as [`raw::enabling`].
    pub fn enabling(&mut self, bytes: &[u8]) -> Result<()> {
        let enabling = raw::enabling(bytes, self.capture.order, Dialect::Classic)?;
        self.capture.add_enabling(enabling);
        Ok(())
    }

    /// Adds the description of an aggregation (`dtrace_aggdesc_t`); the kernel does not know its variable and name.
    ///
    /// # Errors
    /// Returns the same errors as [`raw::aggregation`]; `Malformed` if its last part is not an aggregating function.
    pub fn aggregation(&mut self, bytes: &[u8], variable: u64, name: Option<String>) -> Result<()> {
        let raw = raw::aggregation(bytes, self.capture.order, Dialect::Classic)?;
        let described = Aggregation::of_parts(raw.id, raw.epid, raw.size, &raw.recs)
            .map_err(|what| Error::malformed(format!("aggregation {}: {what}", raw.id)))?;
        self.capture.add_aggregation(Aggregation { variable, name, ..described });
        Ok(())
    }

    /// Adds a format.
    ///
    /// # Errors
    /// `Usage` for an invalid format number.
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

    /// Adds a symbol for a range of addresses.
    pub fn symbol(&mut self, addresses: Range<u64>, object: &str, name: &str, is_user: bool) {
        let Range { start: lo, end: hi } = addresses;
        let (object, name) = (object.to_owned(), name.to_owned());
        self.symbols.push(Symbol { lo, hi, object, name, user: is_user });
    }

    /// Sets the CPUs that ran `BEGIN` and `END`, and whether tracing has stopped.
    pub fn session(&mut self, began_on: Option<u32>, ended_on: Option<u32>, is_stopped: bool) {
        (self.capture.began_on, self.capture.ended_on) = (began_on, ended_on);
        self.capture.is_stopped = is_stopped;
    }

    /// Sets the number of the first of the consumer's own actions.
    pub fn library_base(&mut self, base: u64) {
        self.capture.library_base = base;
    }

    /// Sets the time zone of the host.
    pub fn zone(&mut self, offset_s: i32, name: &str) {
        self.capture.zone = Zone { offset_s, name: name.to_owned() };
    }

    /// Sets the locale of the consumer; the default is `C`.
    ///
    /// # Errors
    /// `Malformed` if the locale does not have seven days and twelve months.
    pub fn locale(&mut self, locale: Locale) -> Result<()> {
        locale.check()?;
        self.capture.locale = locale;
        Ok(())
    }

    /// Sets the host's name for the service of a port.
    ///
    /// # Errors
    /// `Limit` for an invalid name.
    pub fn service(&mut self, port: u16, name: &str) -> Result<()> {
        self.capture.names.add_service(port, name)
    }

    /// Sets the host's name for a network address, written as in records.
    ///
    /// # Errors
    /// `Limit` for an invalid name or address.
    pub fn host(&mut self, address: &str, name: &str) -> Result<()> {
        self.capture.names.add_host(address, name)
    }

    /// Sets the counts that the kernel keeps in addition to buffers (`dtrace_status_t`).
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

    /// Adds records of a CPU.
    ///
    /// # Errors
    /// `Usage` for a ring whose oldest record is outside the buffer.
    pub fn buffer(&mut self, snapshot: &Snapshot<'_>) -> Result<()> {
        add(&mut self.capture.buffers, "buf", snapshot)
    }

    /// Adds aggregations of a CPU.
    ///
    /// # Errors
    /// Returns the same errors as [`buffer`](Builder::buffer).
    pub fn aggregations(&mut self, snapshot: &Snapshot<'_>) -> Result<()> {
        add(&mut self.capture.states, "agg", snapshot)
    }

    /// Returns the capture with everything added so far.
    ///
    /// # Errors
    /// `Malformed` or `Limit` for contradictory descriptions.
    pub fn finish(&self) -> Result<Capture> {
        let mut capture = self.capture.clone();
        capture.symbols = Symbols::new(self.symbols.clone());
        capture.index();
        validate::all(&capture)?;
        Ok(capture)
    }

    /// Writes everything added so far as a stream.
    ///
    /// # Errors
    /// Returns the same errors as [`finish`](Builder::finish) and [`carry::write`].
    pub fn write_stream<W: Write>(&mut self, producer: Producer, encoded: Encoded, out: W) -> Result<W> {
        // PERF: buffers are not copied.
        self.capture.symbols = Symbols::new(self.symbols.clone());
        self.capture.index();
        validate::all(&self.capture)?;
        carry::write(&self.capture, Producer { uuid: new_id(), ..producer }, encoded, out)
    }

    /// Returns the records of a CPU as a buffer that contains its descriptions.
    ///
    /// # Errors
    /// Returns the same errors as [`finish`](Builder::finish); `Usage` for a CPU without a buffer, or with one that cannot
    /// be read to its end.
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
    // Rotated so that the oldest record comes first.
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

/// The producer for a capture that is written again; its UUID is [`id_of`] the capture.
pub fn producer_of(capture: &Capture) -> Producer {
    let (program, host) = (Some(carry::STREAM_FORMAT.to_owned()), capture.machine.clone());
    Producer { uuid: id_of(capture), program, host, ..Producer::default() }
}

/// A UUID that depends on the contents of the capture alone, so that equal captures give equal bytes. Captures of machines
/// with different names have different UUIDs.
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
            // Rotated, so that the position of the oldest record in a ring does not matter.
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

/// A random UUID for a new capture, which is distinct from any other, even if the records are equal.
fn new_id() -> [u8; 16] {
    let mut id = [0; 16];
    for half in id.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
    }
    as_random(id)
}

/// Sets the version and variant bits of a random UUID.
fn as_random(mut id: [u8; 16]) -> [u8; 16] {
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    id
}
