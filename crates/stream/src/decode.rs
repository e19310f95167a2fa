//! Decodes payloads into rows: plain, packed and repeating ones.
//!
//! A decoder walks one payload and returns batches of bounded size, one per call, since a few bytes of repetitions can stand
//! for millions of rows. Fields are decoded column by column where their type allows it.

use crate::batch::{Batch, Remark, Rows, Side};
use crate::column::Column;
use crate::finding::Finding;
use crate::frame::{Header, encoding, flag, kind};
use crate::json;
use crate::meta::Metadata;
use crate::packed::Cursor;
use crate::schema::Schema;
use quipu_wire::cbor;
use quipu_wire::record::FIRST_SCHEMA;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Bytes before the body of a plain row.
pub const ROW_HEAD_BYTES: usize = 16;

/// Ids of plain rows other than data.
pub mod reserved {
    /// Padding, to be skipped.
    pub const PADDING: u32 = 0;
    /// A metadata record.
    pub const METADATA: u32 = 1;
    /// A loss.
    pub const LOSS: u32 = 2;
    /// A correlation of clocks.
    pub const CLOCK: u32 = 3;
    /// A remark.
    pub const REMARK: u32 = 4;
}

/// Maximum number of rows of repetitions in a batch.
const BATCH_ROWS: usize = 1 << 16;

/// Number of consecutive rows of one schema and size from which they are decoded together.
const MIN_ALIKE: usize = 8;

/// Number of such rows decoded at a time: their bytes stay in the L1 cache.
const BLOCK_ROWS: usize = 256;

/// Limit, in bytes of payload, on what repetitions may decode again for one batch.
const BATCH_BYTES: usize = 16 << 20;

/// Limit, in words, on the earlier records kept for repetitions.
const MAX_HISTORY_WORDS: usize = 32 << 20;

/// Number of rows at the front of `rows` with this schema and size, at most `most`.
fn n_alike(rows: &[u8], id: u32, size: usize, most: usize) -> usize {
    let head = u64::from(id) | (size as u64) << 32;
    let is_like = |row: &&[u8]| row.first_chunk::<8>().is_some_and(|it| u64::from_le_bytes(*it) == head);
    rows.chunks_exact(size).take(most).take_while(is_like).count()
}

/// Decodes the bodies of rows of numbers that are not in the columns yet. Keeps `bodies`, which merging aggregations needs.
fn extend_numbers(payload: &[u8], rows: &mut Rows) {
    let Rows { schema, columns, bodies, .. } = rows;
    for (column, field) in columns.iter_mut().zip(&schema.fields) {
        column.extend_plain(payload, bodies, field.field.offset.unwrap_or_default());
    }
}

/// Counts and faults from decoding a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Records that were decoded.
    pub decoded: u64,
    /// Records that were read and could not be decoded.
    pub undecoded: u64,
    /// Whether a record broke the rules of its type.
    pub has_invalid: bool,
    /// Whether the payload ends in the middle of a record, or cannot be read to its end.
    pub is_broken: bool,
    /// Whether a time was smaller than the one before it.
    pub time_fell: bool,
}

/// Decodes payloads of a private encoding, or of one that needs an extra library, into rows.
pub trait RowDecoder: Send + Sync {
    /// Decodes a payload into the tables of a batch; see [`Batch::table_mut`] and [`Batch::settle`]. Returns the number of
    /// records decoded, and whether the payload was whole.
    fn decode(&self, header: &Header, payload: &[u8], metadata: &Metadata, batch: &mut Batch) -> (u64, bool);
}

/// Row decoders by the number of their encoding.
#[derive(Clone, Default)]
pub struct Registry {
    decoders: FxHashMap<u16, Arc<dyn RowDecoder>>,
    /// Encodings whose payloads are returned undecoded.
    bodies: Vec<u16>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.decoders.keys()).finish()
    }
}

impl Registry {
    /// Adds the decoder of an encoding, replacing an earlier one.
    pub fn register(&mut self, encoding: u16, decoder: Arc<dyn RowDecoder>) {
        self.decoders.insert(encoding, decoder);
    }

    /// Makes the reader return payloads of an encoding undecoded, like the bodies of other formats.
    pub fn hand_out(&mut self, encoding: u16) {
        self.bodies.push(encoding);
    }

    /// Whether payloads of an encoding are returned undecoded.
    #[must_use]
    pub fn hands_out(&self, encoding: u16) -> bool {
        self.bodies.contains(&encoding)
    }

    /// Whether a frame has rows in an encoding with a registered decoder.
    #[must_use]
    pub fn decodes(&self, header: &Header) -> bool {
        header.kind == kind::DATA && self.get(header.encoding).is_some()
    }

    /// The decoder of an encoding, if one is registered.
    #[must_use]
    pub fn get(&self, encoding: u16) -> Option<&Arc<dyn RowDecoder>> {
        self.decoders.get(&encoding)
    }
}

/// A payload and the facts about its frame that decoding needs.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// The header of the frame. For an open frame, completed from the head of its payload.
    pub header: &'a Header,
    /// The payload, unpacked.
    pub payload: &'a [u8],
    /// Whether the rows are still being written: zeros between them are room that was claimed and not written yet.
    pub is_open: bool,
    /// For an open frame in a private encoding: the tag that marks valid records, from the head of the payload.
    pub tag: u64,
}

/// Decodes one payload.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The table of each schema id seen so far; `None` if the id is unknown.
    slots: FxHashMap<u32, Option<usize>>,
    outcome: Outcome,
    runs: Option<Runs>,
    is_done: bool,
    is_begun: bool,
}

/// Position and state in a payload of repeating rows.
#[derive(Debug, Default)]
struct Runs {
    at: usize,
    time: u64,
    n_read: u64,
    /// Last values of the fields, by schema id.
    last: FxHashMap<u32, Vec<u128>>,
    history: History,
    /// Records left to make from the current repetition, and its period.
    left: u64,
    period: u64,
}

impl Decoder {
    /// A decoder at the beginning of a payload.
    #[must_use]
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Counts and faults so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Clears `batch` and fills it with the next rows of `body`, which has to be the same in each call; false if none were
    /// left. Metadata records between plain rows are added to `metadata`.
    pub fn next(
        &mut self,
        body: &Body<'_>,
        metadata: &mut Arc<Metadata>,
        batch: &mut Batch,
        findings: &mut Vec<Finding>,
    ) -> bool {
        batch.clear();
        self.slots.clear();
        self.is_begun = true;
        if self.is_done {
            return false;
        }
        match body.header.encoding {
            encoding::PACKED | encoding::RUNS => self.packed(body, metadata, batch),
            encoding::CELLS => {
                self.is_done = true;
                self.outcome = crate::cells::decode(body, metadata, batch);
            }
            encoding::JSON => {
                self.is_done = true;
                let (decoded, undecoded, invalid) = json::decode_lines(body.payload, metadata, batch);
                self.outcome.decoded = decoded;
                self.outcome.undecoded = undecoded;
                self.outcome.has_invalid = invalid;
            }
            _ => {
                self.is_done = true;
                self.plain(body, metadata, batch, findings);
            }
        }
        true
    }

    /// Whether [`Decoder::next`] has been called.
    pub(crate) fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Sets the outcome of a payload that was decoded elsewhere.
    pub(crate) fn note(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// For payloads that are decoded elsewhere: true on the first call only.
    pub(crate) fn take_once(&mut self) -> bool {
        !std::mem::replace(&mut self.is_begun, true)
    }

    fn slot(&mut self, frame: &Header, metadata: &Metadata, batch: &mut Batch, id: u32) -> Option<usize> {
        if let Some(slot) = self.slots.get(&id) {
            return *slot;
        }
        let schema = if frame.kind == kind::AGG {
            metadata.aggregation(id).map(|aggregation| &aggregation.rows)
        } else {
            metadata.schema(id)
        };
        let slot = schema.map(|schema| batch.slot(schema));
        self.slots.insert(id, slot);
        slot
    }

    /// Decodes plain rows: one pass over their heads, then column by column.
    fn plain(
        &mut self,
        body: &Body<'_>,
        metadata: &mut Arc<Metadata>,
        batch: &mut Batch,
        findings: &mut Vec<Finding>,
    ) {
        let Body { header, payload, is_open, .. } = *body;
        let mut next_ordinal = header.meta_version;
        let mut at = 0;
        let mut n_records = 0_u32;
        let mut time_before = 0;
        // The schema id, size and table of the last row: rows of one schema are often adjacent.
        let mut last: Option<(u32, usize, usize)> = None;
        // Before this offset, too few consecutive rows are alike to be decoded together.
        let mut unlike_before = 0;
        while at < payload.len() {
            if is_open && payload.get(at..at + 8) == Some(&[0; 8]) {
                at += 8;
                continue;
            }
            let Some(head) = payload.get(at..at + ROW_HEAD_BYTES) else {
                self.outcome.is_broken = true;
                break;
            };
            let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
            let (id, size, time) = (word(0) as u32, (word(0) >> 32) as usize, word(8));
            if size < ROW_HEAD_BYTES || size % 8 != 0 || size > payload.len() - at {
                self.outcome.is_broken = true;
                break;
            }
            let row_at = at;
            let body_at = at + ROW_HEAD_BYTES;
            let body_len = size - ROW_HEAD_BYTES;
            at += size;
            if id < FIRST_SCHEMA {
                let body = &payload[body_at..body_at + body_len];
                if id == reserved::METADATA {
                    let known = Arc::make_mut(metadata);
                    known.add(next_ordinal, cbor::decode(body), findings);
                    known.resolve(findings);
                    next_ordinal = next_ordinal.saturating_add(1);
                    self.slots.retain(|_, slot| slot.is_some());
                } else {
                    side(id, body, (n_records, time), batch);
                }
                continue;
            }
            let (slot, fixed) = match last {
                Some((known, slot, fixed)) if known == id => (slot, fixed),
                _ => {
                    let Some(slot) = self.slot(header, metadata, batch, id) else {
                        self.take_time(header, &mut time_before, time);
                        n_records += 1;
                        self.outcome.undecoded += 1;
                        continue;
                    };
                    let fixed = batch.rows_mut(slot).schema.fixed_bytes.map_or(usize::MAX, |n| n as usize);
                    last = Some((id, slot, fixed));
                    (slot, fixed)
                }
            };
            let rows = batch.rows_mut(slot);
            if row_at >= unlike_before && rows.is_numbers && body_len >= fixed && header.kind == kind::DATA {
                let n = n_alike(&payload[row_at..], id, size, MIN_ALIKE);
                if n == MIN_ALIKE {
                    extend_numbers(payload, rows);
                    rows.bodies.clear();
                    rows.reserve((payload.len() - row_at) / size);
                    at = row_at;
                    // `n_alike` reads the head that ends the run; the outer loop reads it again.
                    while let n @ 1.. = n_alike(&payload[at..], id, size, BLOCK_ROWS) {
                        let block = &payload[at..at + n * size];
                        at += n * size;
                        let n_before = rows.times.len();
                        rows.extend_alike(block, size, n_records);
                        n_records += n as u32; // Payloads have at most 256 MiB.
                        let times = &rows.times[n_before..];
                        self.take_time(header, &mut time_before, times[0]);
                        self.outcome.time_fell |= !header.has(flag::UNORDERED) && !times.is_sorted();
                        time_before = times[n - 1];
                    }
                    continue;
                }
                unlike_before = row_at + n * size;
            }
            self.take_time(header, &mut time_before, time);
            let ordinal = n_records;
            n_records += 1;
            if body_len < fixed {
                self.outcome.undecoded += 1;
                self.outcome.has_invalid = true;
                continue;
            }
            rows.ordinals.push(ordinal);
            rows.times.push(time);
            rows.bodies.push(body_at as u32); // Payloads have at most 256 MiB.
        }
        for rows in batch.all_rows_mut() {
            self.fill(payload, rows);
        }
        batch.settle();
    }

    /// Notes whether the time of a row is smaller than the time before it.
    fn take_time(&mut self, header: &Header, before: &mut u64, time: u64) {
        self.outcome.time_fell |= time < *before && !header.has(flag::UNORDERED);
        *before = time;
    }

    /// Decodes the bodies of rows whose heads have been read.
    fn fill(&mut self, payload: &[u8], rows: &mut Rows) {
        if rows.is_numbers {
            extend_numbers(payload, rows);
            self.outcome.decoded += rows.times.len() as u64;
            return;
        }
        let Rows { schema, ordinals, times, columns, bodies, .. } = rows;
        let mut n_kept = 0;
        for row in 0..times.len() {
            let body_at = bodies[row] as usize;
            let size = payload.get(body_at - 12..body_at - 8).and_then(|size| size.try_into().ok());
            let len = size.map_or(0, |size| u32::from_le_bytes(size) as usize) - ROW_HEAD_BYTES;
            let body = &payload[body_at..body_at + len];
            if push_plain(columns, schema, body).is_some() {
                ordinals[n_kept] = ordinals[row];
                times[n_kept] = times[row];
                bodies[n_kept] = bodies[row];
                n_kept += 1;
            } else {
                columns.iter_mut().for_each(|column| column.truncate(n_kept));
                self.outcome.undecoded += 1;
                self.outcome.has_invalid = true;
            }
        }
        ordinals.truncate(n_kept);
        times.truncate(n_kept);
        bodies.truncate(n_kept);
        self.outcome.decoded += n_kept as u64;
    }

    /// Decodes packed rows, with or without repetitions.
    fn packed(&mut self, body: &Body<'_>, metadata: &Metadata, batch: &mut Batch) {
        let Body { header, payload, .. } = *body;
        let with_runs = header.encoding == encoding::RUNS;
        let mut runs = self.runs.take().unwrap_or_else(|| Runs { time: header.ts_first, ..Runs::default() });
        let promised = u64::from(header.records);
        let mut n_rows = 0;
        let mut n_bytes = 0;
        self.is_done = true;
        loop {
            if with_runs && (n_rows >= BATCH_ROWS || n_bytes >= BATCH_BYTES) {
                self.is_done = false;
                break;
            }
            if runs.left > 0 {
                runs.left -= 1;
                match self.repeat(body, &mut runs, metadata, batch) {
                    Some(bytes) => n_bytes += bytes,
                    None => {
                        self.outcome.is_broken = true;
                        break;
                    }
                }
                n_rows += 1;
                continue;
            }
            let mut cursor = Cursor::new(payload, runs.at);
            if cursor.is_at_end() {
                break;
            }
            let read = match cursor.uv() {
                Some(0) if with_runs => {
                    let is_right = begin_repeat(&mut cursor, &mut runs, promised);
                    runs.at = cursor.at();
                    is_right
                }
                Some(id) if id >= FIRST_SCHEMA.into() && runs.n_read < promised => {
                    let slot = u32::try_from(id)
                        .ok()
                        .and_then(|id| Some((id, self.slot(header, metadata, batch, id)?)));
                    let Some((id, slot)) = slot else {
                        // The size of a record of unknown schema is unknown, so the rest is lost.
                        self.outcome.undecoded += promised - runs.n_read;
                        break;
                    };
                    n_rows += 1;
                    literal(&mut cursor, &mut runs, batch, id, slot, with_runs)
                }
                _ => None,
            };
            if read.is_none() {
                self.outcome.is_broken = true;
                break;
            }
        }
        self.outcome.decoded = runs.n_read;
        self.runs = Some(runs);
    }

    /// Makes one record of a repetition; returns the number of bytes decoded for it.
    fn repeat(
        &mut self,
        body: &Body<'_>,
        runs: &mut Runs,
        metadata: &Metadata,
        batch: &mut Batch,
    ) -> Option<usize> {
        let Runs { history, period, n_read, time, last, .. } = runs;
        let (id, base, a) = history.get(*n_read - *period)?;
        let (_, _, b) = history.get(*n_read - 2 * *period)?;
        let slot = self.slot(body.header, metadata, batch, id)?;
        let next = |at: usize| history.words[a + at].wrapping_mul(2).wrapping_sub(history.words[b + at]);
        *time = next(0) as u64; // Modulo 2^64.
        let last = last.get_mut(&id)?;
        let mut cursor = Cursor::new(body.payload, base as usize);
        let Rows { schema, ordinals, times, columns, .. } = batch.rows_mut(slot);
        let mut n_delta = 0;
        let fields = columns.iter_mut().zip(&schema.fields).zip(last.iter_mut());
        for ((column, field), last) in fields {
            if field.is_delta() {
                cursor.sv128()?;
                n_delta += 1;
                column.push_int(next(n_delta));
                *last = column.int_bits(column.len() - 1);
            } else {
                // The field was decoded at this place before, so it can be decoded again.
                column.push_packed(&field.layout, &mut cursor)?;
            }
        }
        times.push(*time);
        ordinals.push(*n_read as u32); // As many as the header says.
        history.push(id, base, *time, last.iter().zip(&schema.fields));
        batch.push_order(slot);
        *n_read += 1;
        Some(cursor.at() - base as usize + ROW_HEAD_BYTES)
    }
}

/// The metadata records between plain rows, up to the end of the payload or the first malformed row.
pub(crate) fn metadata_rows(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = payload.get(at..)?;
            let head = u64::from_le_bytes(*rest.first_chunk()?);
            let (id, size) = (head as u32, (head >> 32) as usize);
            let row = rest.get(..size).filter(|_| size % 8 == 0)?;
            at += size;
            let body = row.get(ROW_HEAD_BYTES..)?;
            if id == reserved::METADATA {
                return Some(body);
            }
        }
    })
}

/// The remarks between the rows of an unpacked payload of plain rows, up to the end of the payload or the first malformed
/// row. Rows are skipped, not decoded.
pub fn remarks(payload: &[u8]) -> impl Iterator<Item = Remark> {
    let (mut at, mut ordinal) = (0, 0_u32);
    std::iter::from_fn(move || {
        loop {
            let rest = payload.get(at..)?;
            let head = u64::from_le_bytes(*rest.first_chunk()?);
            // Room of an open frame that was claimed and not written.
            if head == 0 {
                at += 8;
                continue;
            }
            let (id, size) = (head as u32, (head >> 32) as usize);
            let row = rest.get(..size).filter(|_| size % 8 == 0)?;
            at += size;
            let (row_head, body) = row.split_at_checked(ROW_HEAD_BYTES)?;
            match id {
                reserved::REMARK => {
                    let time = u64::from_le_bytes(*row_head.last_chunk()?);
                    if let Some(remark) = remark(body, (ordinal, time)) {
                        return Some(remark);
                    }
                }
                FIRST_SCHEMA.. => ordinal = ordinal.saturating_add(1),
                _ => {}
            }
        }
    })
}

fn remark(body: &[u8], (ordinal, time): (u32, u64)) -> Option<Remark> {
    let text = cbor::decode(body).ok()?.value.as_text()?.to_owned();
    Some(Remark { ordinal, time, text })
}

/// Reads a side record: one that does not count as data. `place` is the number of data records before it in the frame, and
/// its time.
fn side(id: u32, body: &[u8], place: (u32, u64), batch: &mut Batch) {
    if id == reserved::REMARK {
        batch.side.extend(remark(body, place).map(Side::Remark));
        return;
    }
    let Ok(item) = cbor::decode(body) else { return };
    match id {
        reserved::LOSS => batch.side.push(Side::Loss(item.value)),
        reserved::CLOCK => batch.side.push(Side::Clock(item.value)),
        _ => {}
    }
}

fn push_plain(columns: &mut [Column], schema: &Schema, body: &[u8]) -> Option<()> {
    let mut left = body.len();
    for (column, field) in columns.iter_mut().zip(&schema.fields) {
        column.push_plain(&field.layout, body, field.field.offset? as usize, &mut left)?;
    }
    Some(())
}

/// Reads a record stored in full; `None` if it is cut off or breaks the rules of its type.
fn literal(
    cursor: &mut Cursor<'_>,
    runs: &mut Runs,
    batch: &mut Batch,
    id: u32,
    slot: usize,
    with_runs: bool,
) -> Option<()> {
    let Rows { schema, ordinals, times, columns, .. } = batch.rows_mut(slot);
    let n_rows = times.len();
    let last = runs.last.entry(id).or_insert_with(|| vec![0; schema.fields.len()]);
    let time = runs.time.wrapping_add(cursor.sv()? as u64); // The same bits.
    let base = cursor.at();
    let mut read = || {
        for ((column, field), last) in columns.iter_mut().zip(&schema.fields).zip(last.iter_mut()) {
            if field.is_delta() {
                let difference = if field.layout.size > 8 { cursor.sv128()? } else { cursor.sv()?.into() };
                column.push_int(last.wrapping_add(difference as u128)); // The same bits.
                *last = column.int_bits(column.len() - 1);
            } else {
                column.push_packed(&field.layout, cursor)?;
            }
        }
        Some(())
    };
    if read().is_none() {
        columns.iter_mut().for_each(|column| column.truncate(n_rows));
        return None;
    }
    runs.time = time;
    times.push(time);
    ordinals.push(runs.n_read as u32); // As many as the header says.
    if with_runs {
        runs.history.push(id, base as u32, time, last.iter().zip(&schema.fields)); // Payloads have at most 256 MiB.
    }
    batch.push_order(slot);
    runs.n_read += 1;
    runs.at = cursor.at();
    Some(())
}

/// Reads a repetition; `None` if it is malformed, or if the records that it repeats are not available.
fn begin_repeat(cursor: &mut Cursor<'_>, runs: &mut Runs, promised: u64) -> Option<()> {
    const REPEAT: u64 = 1;
    if cursor.uv()? != REPEAT {
        return None;
    }
    let (period, times) = (cursor.uv()?, cursor.uv()?);
    let n = period.checked_mul(times).filter(|n| *n > 0 && *n <= promised - runs.n_read)?;
    let first = runs.n_read.checked_sub(period.checked_mul(2)?)?;
    for at in first..first + period {
        if runs.history.get(at)?.0 != runs.history.get(at + period)?.0 {
            return None;
        }
    }
    runs.left = n;
    runs.period = period;
    Some(())
}

/// The records of a frame so far, reduced to the parts that repetitions need: schema, offset of the packed body, time and
/// delta fields.
#[derive(Debug, Default)]
struct History {
    words: Vec<u128>,
    /// For each record: its schema, the offset of its body in the payload, and the index of its first word in `words`.
    heads: Vec<(u32, u32, u32)>,
    /// Number of records dropped from the front.
    n_dropped: u64,
}

impl History {
    /// Schema, offset of the body, and the index in `words` of the record's time and delta fields.
    fn get(&self, record: u64) -> Option<(u32, u32, usize)> {
        let at = usize::try_from(record.checked_sub(self.n_dropped)?).ok()?;
        self.heads.get(at).map(|(id, base, start)| (*id, *base, *start as usize))
    }

    fn push<'f>(
        &mut self,
        id: u32,
        base: u32,
        time: u64,
        fields: impl Iterator<Item = (&'f u128, &'f crate::schema::SchemaField)>,
    ) {
        if self.words.len() * 2 > MAX_HISTORY_WORDS || self.heads.len() * 2 > MAX_HISTORY_WORDS {
            // A repetition that reaches further back than the kept records is refused.
            let n = self.heads.len() / 2;
            let cut = self.heads.get(n).map_or(self.words.len(), |head| head.2 as usize);
            self.words.drain(..cut);
            self.heads.drain(..n);
            self.heads.iter_mut().for_each(|head| head.2 -= cut as u32); // At most the limit.
            self.n_dropped += n as u64;
        }
        self.heads.push((id, base, self.words.len() as u32)); // At most the limit.
        self.words.push(time.into());
        self.words.extend(fields.filter(|(_, field)| field.is_delta()).map(|(value, _)| *value));
    }
}
