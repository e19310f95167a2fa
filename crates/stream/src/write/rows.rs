//! The buffer of one thread, which becomes the frames of one stream.

use super::Writer;
use crate::codec::PayloadPacker;
use crate::datum::{Datum, put_plain};
use crate::frame::{self, Extension, Header, LOST_MANY, encoding, flag, kind, seal};
use crate::pack::Packed;
use crate::record::{Body, Record};
use crate::schema::Schema;
use crate::write::SchemaOf;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Fills the frames of one stream.
#[derive(Debug)]
pub struct StreamWriter<W: Write> {
    writer: Writer<W>,
    number: u32,
    packer: PayloadPacker,
    pub(super) rows: Vec<u8>,
    stored: Vec<u8>,
    pub(super) records: u32,
    /// Smallest and largest time in the frame.
    times: Option<(u64, u64)>,
    last_time: u64,
    is_unordered: bool,
    pub(super) lost: u32,
    /// The epoch in which the first row of the buffer was written.
    epoch: u32,
    /// Scratch space for the body of a row of values.
    values: Vec<u8>,
    pub(super) is_finished: bool,
    /// Time at which the first record of the frame was written, if its age matters.
    begun: Option<Instant>,
    /// Number of records in the frame at which its age is checked next.
    look_at: u32,
}

/// Number of records between two checks of a frame's age.
const RECORDS_TO_LOOK: u32 = 64;

/// Number of records in a new frame at which its age is checked first.
fn first_look<W>(writer: &Writer<W>) -> u32 {
    if writer.options.flush_after.is_some() { 1 } else { u32::MAX }
}

impl<W: Write> StreamWriter<W> {
    /// A buffer for stream `number`.
    pub(super) fn new(writer: Writer<W>, number: u32) -> io::Result<StreamWriter<W>> {
        Ok(StreamWriter {
            number,
            packer: PayloadPacker::new(writer.options.codec)?,
            rows: Vec::with_capacity(writer.options.frame_bytes + 4096),
            stored: Vec::new(),
            records: 0,
            times: None,
            last_time: 0,
            is_unordered: false,
            lost: 0,
            epoch: writer.epoch.load(Ordering::Acquire),
            values: Vec::new(),
            is_finished: false,
            begun: None,
            look_at: first_look(&writer),
            writer,
        })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// Returns an error if the frame is full and cannot be written.
    #[inline]
    pub fn write<R: Record>(&mut self, schema: SchemaOf<R>, time: u64, record: &R) -> io::Result<()> {
        self.row(schema.id, time, R::FIXED_BYTES, |body| record.put(body))
    }

    /// Writes a row: `put` fills its body, which begins with `fixed` zero bytes.
    ///
    /// # Errors
    /// Returns an error if the row is longer than a frame may be, or the frame is full and cannot be written.
    #[inline]
    pub fn row(
        &mut self,
        schema: u32,
        time: u64,
        fixed: usize,
        put: impl FnOnce(&mut Body<'_>),
    ) -> io::Result<()> {
        let start = self.rows.len();
        let mut body = Body::new(&mut self.rows, 16, fixed);
        put(&mut body);
        let len = body.len();
        let size = (16 + len).next_multiple_of(8);
        self.rows.resize(start + size, 0);
        if size > frame::MAX_STORED_BYTES as usize / 2 {
            self.rows.truncate(start);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a row that is too long for a frame"));
        }
        let head = &mut self.rows[start..start + 16];
        head[..4].copy_from_slice(&schema.to_le_bytes());
        head[4..8].copy_from_slice(&(size as u32).to_le_bytes()); // Below the limit.
        head[8..].copy_from_slice(&time.to_le_bytes());
        self.count(time);
        if self.rows.len() >= self.writer.options.frame_bytes {
            self.flush()
        } else if self.records >= self.look_at {
            self.flush_old()
        } else {
            Ok(())
        }
    }

    /// Writes the current frame if its first record is older than [`Options::flush_after`](super::Options::flush_after). For
    /// main loops of live programs, which may have nothing to write for a while; while records are written it is not needed.
    ///
    /// # Errors
    /// Returns the same errors as [`StreamWriter::flush`].
    #[cold]
    pub fn flush_old(&mut self) -> io::Result<()> {
        let Some(age) = self.writer.options.flush_after else { return Ok(()) };
        match self.begun {
            _ if self.records == 0 => Ok(()),
            Some(begun) if begun.elapsed() >= age => self.flush(),
            Some(_) => {
                self.look_at = self.records.saturating_add(RECORDS_TO_LOOK);
                Ok(())
            }
            None => {
                self.begun = Some(Instant::now());
                self.look_at = self.records.saturating_add(RECORDS_TO_LOOK);
                Ok(())
            }
        }
    }

    /// Writes a row if there is room for it. Takes no lock, allocates nothing and writes no frame, so a signal handler that
    /// owns the stream may call it. Without room, counts the row as lost and returns false.
    pub fn try_row(&mut self, schema: u32, time: u64, body: &[u8]) -> bool {
        let size = (16 + body.len()).next_multiple_of(8);
        let is_room = size <= self.rows.capacity() - self.rows.len()
            && self.rows.len() < self.writer.options.frame_bytes;
        if !is_room {
            self.lose(1);
            return false;
        }
        let end = self.rows.len() + size;
        for bytes in [&schema.to_le_bytes()[..], &(size as u32).to_le_bytes(), &time.to_le_bytes(), body] {
            self.rows.extend_from_slice(bytes);
        }
        self.rows.resize(end, 0);
        self.count(time);
        true
    }

    /// Updates counts and times of the frame for a record.
    #[inline]
    fn count(&mut self, time: u64) {
        if self.records == 0 {
            self.epoch = self.writer.epoch.load(Ordering::Acquire);
        }
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
        self.is_unordered |= time < self.last_time && self.records > 0;
        self.last_time = time;
        self.records += 1;
    }

    /// Counts records that were dropped before the next one.
    pub fn lose(&mut self, records: u64) {
        let sum = u64::from(self.lost) + records;
        self.lost = u32::try_from(sum).unwrap_or(LOST_MANY);
    }

    /// Writes the current frame. If that fails, its records count as lost.
    ///
    /// # Errors
    /// Returns an error if the frame cannot be written, or a new epoch has begun since its first row.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.records == 0 && self.lost == 0 {
            return Ok(());
        }
        self.begun = None;
        self.look_at = first_look(&self.writer);
        let (ts_first, ts_last) = self.times.take().unwrap_or_default();
        let header = Header {
            kind: kind::DATA,
            encoding: encoding::PLAIN,
            flags: if std::mem::take(&mut self.is_unordered) { flag::UNORDERED } else { 0 },
            records: std::mem::take(&mut self.records),
            ts_first,
            ts_last,
            ..Header::default()
        };
        let rows = std::mem::take(&mut self.rows);
        let of_epoch = (header.records > 0).then_some(self.epoch);
        let written = self.payload(header, &[], &rows, of_epoch);
        self.rows = rows;
        self.rows.clear();
        if written.is_err() {
            self.lose(header.records.into());
        }
        written
    }

    /// Writes the pending rows before another frame, so that losses are reported in the right place.
    fn flush_rows(&mut self) -> io::Result<()> {
        if self.records > 0 { self.flush() } else { Ok(()) }
    }

    /// Writes a frame of packed rows.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn packed(&mut self, packed: &Packed, with_runs: bool) -> io::Result<()> {
        self.flush_rows()?;
        let header = Header {
            kind: kind::DATA,
            encoding: if with_runs { encoding::RUNS } else { encoding::PACKED },
            records: packed.records,
            ts_first: packed.ts_first,
            ts_last: packed.ts_last,
            ..Header::default()
        };
        self.payload(header, &[], &packed.payload, None)
    }

    /// Writes the body of another format as one frame. It has to begin and end between native records.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn foreign(&mut self, encoding: u16, records: u32, times: (u64, u64), body: &[u8]) -> io::Result<()> {
        self.flush_rows()?;
        let header = foreign(encoding, records, times);
        self.payload(header, &[], body, None)
    }

    /// Like [`StreamWriter::foreign`], with a header extension for readers that have lost earlier frames.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn foreign_extended(
        &mut self,
        encoding: u16,
        records: u32,
        extension: &Extension,
        body: &[u8],
    ) -> io::Result<()> {
        self.flush_rows()?;
        self.payload(foreign(encoding, records, (0, 0)), &extension.to_bytes(), body, None)
    }

    /// Packs and writes a payload; only writing takes the lock. If that fails, the losses before the frame remain to be reported.
    fn payload(
        &mut self,
        mut header: Header,
        extension: &[u8],
        payload: &[u8],
        of_epoch: Option<u32>,
    ) -> io::Result<()> {
        header.lost = std::mem::take(&mut self.lost);
        let written = self.write_payload(&mut header, extension, payload, of_epoch);
        if written.is_err() {
            self.lost = header.lost;
        }
        written
    }

    fn write_payload(
        &mut self,
        header: &mut Header,
        extension: &[u8],
        payload: &[u8],
        of_epoch: Option<u32>,
    ) -> io::Result<()> {
        let raw_len =
            u32::try_from(payload.len()).ok().filter(|len| *len <= frame::MAX_STORED_BYTES).ok_or_else(
                || io::Error::new(io::ErrorKind::InvalidInput, "a payload that is too long for a frame"),
            )?;
        header.stream = self.number;
        header.codec = self.packer.pack(payload, &mut self.stored)?;
        if seal(header, raw_len, &mut self.stored).is_err() {
            // The payload compresses beyond the limit of readers, or to bytes that no mask helps. Readers may accept it
            // uncompressed.
            header.codec = frame::codec::NONE;
            self.stored.clear();
            self.stored.extend_from_slice(payload);
            seal(header, raw_len, &mut self.stored)?;
        }
        let mut state = self.writer.lock();
        if of_epoch.is_some_and(|epoch| epoch != state.own_epoch) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "rows that were begun in an older epoch",
            ));
        }
        state.prepare_for(header, payload)?;
        header.meta_version = state.n_sent as u32; // At most a million.
        state.write_extended(header, extension, &self.stored)
    }

    /// Writes a record from single values, for programs that get their schemas at run time; see [`Writer::metadata`].
    ///
    /// # Errors
    /// Returns an error if the values do not fit the schema, or the frame is full and cannot be written.
    pub fn values(&mut self, schema: &Schema, time: u64, values: &[Datum]) -> io::Result<()> {
        let fixed = schema.fixed_bytes.map_or(0, |n| n as usize);
        let mut body = std::mem::take(&mut self.values);
        body.clear();
        body.resize(fixed, 0);
        let is_right = values.len() == schema.fields.len()
            && schema.fields.iter().zip(values).all(|(field, value)| {
                let offset = field.field.offset.map(|offset| offset as usize);
                offset.is_some_and(|at| put_plain(&field.layout, value, &mut body, 0, at).is_some())
            });
        let written = if is_right {
            self.row(schema.id(), time, body.len(), |row| row.put(0, &body))
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "values of another schema"))
        };
        self.values = body;
        written
    }

    /// Writes the remaining records.
    ///
    /// # Errors
    /// Returns an error if they cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.is_finished = true;
        self.flush()
    }
}

/// The header of a body of another format.
fn foreign(encoding: u16, records: u32, times: (u64, u64)) -> Header {
    let is_of_aggregations = (encoding::AGGREGATIONS..encoding::FIRST_PRIVATE).contains(&encoding);
    Header {
        kind: if is_of_aggregations { kind::AGG } else { kind::DATA },
        encoding,
        records,
        ts_first: times.0,
        ts_last: times.1,
        ..Header::default()
    }
}

impl<W: Write> Drop for StreamWriter<W> {
    fn drop(&mut self) {
        if !self.is_finished
            && let Err(error) = self.flush()
        {
            self.writer.lock().failed.get_or_insert(error.kind());
        }
    }
}
