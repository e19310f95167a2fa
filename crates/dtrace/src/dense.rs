//! Principal buffers in a denser form: a private encoding of streams, which a metadata record announces.
//!
//! A record is its EPID, its time, and its parts as differences to those of the previous record with the same EPID; other
//! parts are runs of bytes. Unpacking restores the buffer byte for byte.
//!
//! SPEC: dtrace.md#dense-bodies

use crate::buffer::Cursor;
use crate::bytes::ByteOrder;
use crate::describe::{Buffer, Capture, Dialect, Enabling};
use crate::meta::MAX_BUFFER_BYTES;
use quipu_stream::frame::encoding;
use quipu_wire::record::Encoding;
use rustc_hash::FxHashMap;

/// The number of the encoding, in the private range.
pub const NUMBER: u16 = encoding::FIRST_PRIVATE + encoding::DTRACE;

/// The name of the encoding.
pub const NAME: &str = "dtrace-dense";

/// The place of its description.
const DESCRIBED: &str = "docs/formats/dtrace.md#dense-bodies";

/// Maximum number of bytes of a buffer per byte of a body, in addition to [`FREE_BYTES`].
const MAX_RATIO: u64 = 4096;

/// Number of bytes of a buffer that any body may stand for.
const FREE_BYTES: u64 = 4 << 20;

/// Flag: the zeros before the record are not just those for its alignment; their number in words follows.
const HAS_GAP: u64 = 1;

/// Flag: the record follows unchanged.
const IS_PLAIN: u64 = 2;

/// Number of flag bits below the EPID of a record.
const FLAG_BITS: u32 = 2;

/// The metadata record that announces the encoding.
pub(crate) fn announced() -> Encoding {
    private(NUMBER, NAME, encoding::DTRACE)
}

/// A metadata record that announces a private encoding of DTrace.
pub(crate) fn private(number: u16, name: &str, based_on: u16) -> Encoding {
    Encoding {
        id: number.into(),
        name: Some(name.to_owned()),
        version: Some(quipu_wire::cbor::Value::Uint(1)),
        based_on: Some(based_on.into()),
        described: Some(DESCRIBED.to_owned()),
        ..Encoding::default()
    }
}

/// Whether a record announces an encoding in the known version.
pub(crate) fn is_same(record: &Encoding, known: &Encoding) -> bool {
    let version = |of: &Encoding| of.version.as_ref().and_then(|version| version.as_u64());
    record.id == known.id
        && record.name == known.name
        && version(record) == version(known)
        && record.based_on == known.based_on
}

pub(crate) fn put_uv(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80); // The lowest seven bits, with the flag for more.
        value >>= 7;
    }
    out.push(value as u8); // Seven bits.
}

pub(crate) fn put_sv(out: &mut Vec<u8>, value: i64) {
    put_uv(out, (value as u64) << 1 ^ (value >> 63) as u64); // The sign is the lowest bit.
}

/// The state from the previous records: the time, and the numbers of each enabling.
#[derive(Default)]
struct Context {
    time: u64,
    values: FxHashMap<u32, Vec<u64>>,
}

impl Context {
    fn values(&mut self, enabling: &Enabling) -> &mut Vec<u64> {
        let n = enabling.recs.len();
        self.values.entry(enabling.id).or_insert_with(|| vec![0; n])
    }
}

/// Whether a part of this size is a number.
fn is_number(size: usize) -> bool {
    matches!(size, 1 | 2 | 4 | 8)
}

/// The difference of two numbers of `size` bytes, in the direction with the smaller magnitude.
fn difference(value: u64, before: u64, size: usize) -> i64 {
    let unused = 64 - 8 * size as u32; // At most 8 bytes.
    (value.wrapping_sub(before) << unused) as i64 >> unused
}

/// Number of zeros before a record of an enabling in a buffer of `at` bytes.
fn usual_gap(at: usize, enabling: &Enabling) -> usize {
    at.next_multiple_of(enabling.align.max(4) as usize) - at
}

/// The dense form of a buffer; `None` if it cannot be read to its end, or would not be restored exactly.
pub fn pack(capture: &Capture, buffer: &Buffer) -> Option<Vec<u8>> {
    pack_whole(capture, &buffer.turned())
}

/// The dense form of a part of a buffer, which has to begin and end between records.
pub(crate) fn pack_part(capture: &Capture, bytes: &[u8]) -> Option<Vec<u8>> {
    pack_whole(capture, &Buffer { bytes: bytes.to_vec(), ..Buffer::default() })
}

fn pack_whole(capture: &Capture, whole: &Buffer) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    put_uv(&mut body, whole.bytes.len() as u64);
    let mut context = Context::default();
    let mut cursor = Cursor::new(whole);
    let mut end = 0;
    while let Some(record) = cursor.next_record(capture, whole).ok()? {
        let gap = record.offset - end;
        let has_gap = gap != usual_gap(end, record.enabling);
        let is_plain = !is_covered(capture, record.enabling, record.bytes);
        let flags = if has_gap { HAS_GAP } else { 0 } | if is_plain { IS_PLAIN } else { 0 };
        put_uv(&mut body, u64::from(record.enabling.id) << FLAG_BITS | flags);
        if has_gap {
            put_uv(&mut body, gap as u64 / 4);
        }
        if is_plain {
            body.extend_from_slice(record.bytes);
        } else {
            put_record(capture, record.enabling, record.time, record.bytes, &mut context, &mut body);
        }
        end = record.offset + record.bytes.len();
    }
    let n_bytes = whole.bytes.len() as u64;
    (n_bytes <= limit_of(body.len())).then_some(body)
}

/// Number of bytes of a buffer that a body of this length may stand for.
pub(crate) fn limit_of(n_body: usize) -> u64 {
    (n_body as u64).saturating_mul(MAX_RATIO).saturating_add(FREE_BYTES).min(MAX_BUFFER_BYTES)
}

/// Whether header and parts cover all nonzero bytes of a record, and its parts do not overlap.
pub(crate) fn is_covered(capture: &Capture, enabling: &Enabling, bytes: &[u8]) -> bool {
    let mut at = capture.dialect.header_bytes() as usize;
    for rec in &enabling.recs {
        let (start, n) = (rec.offset as usize, rec.size as usize);
        if n == 0 {
            continue;
        }
        if start < at || bytes.get(at..start).is_none_or(|gap| gap.iter().any(|byte| *byte != 0)) {
            return false;
        }
        at = start + n;
    }
    bytes.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
}

fn put_record(
    capture: &Capture,
    enabling: &Enabling,
    time: u64,
    bytes: &[u8],
    context: &mut Context,
    body: &mut Vec<u8>,
) {
    if capture.dialect == Dialect::Classic {
        put_sv(body, time.wrapping_sub(context.time) as i64); // Times that fall become negative.
        context.time = time;
    }
    put_parts(capture.order, enabling, bytes, context.values(enabling), body);
}

/// Writes the parts of a record, and stores their numbers in `before`.
pub(crate) fn put_parts(
    order: ByteOrder,
    enabling: &Enabling,
    bytes: &[u8],
    before: &mut [u64],
    body: &mut Vec<u8>,
) {
    for (rec, before) in enabling.recs.iter().zip(before) {
        let part = rec.of(bytes);
        if is_number(part.len()) {
            let value = order.number(part);
            put_sv(body, difference(value, *before, part.len()));
            *before = value;
        } else {
            put_runs(part, body);
        }
    }
}

/// Minimum length of a run of equal bytes.
const MIN_RUN: usize = 4;

/// Writes alternately literal bytes and runs of equal bytes: a count and the bytes, then a count and the byte.
fn put_runs(bytes: &[u8], body: &mut Vec<u8>) {
    let mut at = 0;
    while at < bytes.len() {
        let (mut end, mut n_run) = (at, 0);
        while end < bytes.len() {
            n_run = bytes[end..].iter().take_while(|byte| **byte == bytes[end]).count();
            if n_run >= MIN_RUN {
                break;
            }
            end += n_run;
            n_run = 0;
        }
        put_uv(body, (end - at) as u64);
        body.extend_from_slice(&bytes[at..end]);
        if end < bytes.len() {
            put_uv(body, n_run as u64);
            body.push(bytes[end]);
        }
        at = end + n_run;
    }
}

/// Reads a body from its front.
pub(crate) struct Reader<'b> {
    body: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    pub(crate) fn new(body: &'b [u8]) -> Reader<'b> {
        Reader { body, at: 0 }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.body.len()
    }

    pub(crate) fn uv(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = *self.body.get(self.at)?;
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if shift > 63 || (shift == 63 && bits > 1) {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
        }
    }

    fn sv(&mut self) -> Option<i64> {
        let value = self.uv()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64)) // The sign is the lowest bit.
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'b [u8]> {
        let bytes = self.body.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(bytes)
    }
}

/// The result of unpacking a body.
#[derive(Debug, Default, PartialEq)]
pub struct Unpacked {
    /// The buffer, up to where the body is malformed.
    pub bytes: Vec<u8>,
    /// Number of records in it.
    pub n_records: u32,
    /// Whether the whole body was unpacked.
    pub is_whole: bool,
}

/// Unpacks a dense body to the buffer that it stands for.
pub fn unpack(capture: &Capture, body: &[u8]) -> Unpacked {
    let mut unpacked = Unpacked::default();
    let mut reader = Reader::new(body);
    let n_bytes = reader.uv().filter(|n| *n <= limit_of(body.len()));
    let Some(n_bytes) = n_bytes.and_then(|n| usize::try_from(n).ok()) else { return unpacked };
    let mut context = Context::default();
    while !reader.is_at_end() {
        let start = unpacked.bytes.len();
        if take_record(capture, &mut reader, &mut context, n_bytes, &mut unpacked.bytes).is_none() {
            unpacked.bytes.truncate(start);
            return unpacked;
        }
        unpacked.n_records = unpacked.n_records.saturating_add(1);
    }
    // Zeros follow the last record.
    unpacked.bytes.resize(n_bytes, 0);
    unpacked.is_whole = true;
    unpacked
}

/// Unpacks one record with the zeros before it; `None` if the body is malformed.
fn take_record(
    capture: &Capture,
    reader: &mut Reader<'_>,
    context: &mut Context,
    n_bytes: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    let tag = reader.uv()?;
    let (_, enabling) = capture.enabling(u32::try_from(tag >> FLAG_BITS).ok()?)?;
    let gap = match tag & HAS_GAP != 0 {
        true => usize::try_from(reader.uv()?).ok()?.checked_mul(4)?,
        false => usual_gap(out.len(), enabling),
    };
    let size = enabling.size.max(capture.dialect.header_bytes()) as usize;
    let start = out.len().checked_add(gap)?;
    if start.checked_add(size)? > n_bytes {
        return None;
    }
    out.resize(start, 0);
    if tag & IS_PLAIN != 0 {
        out.extend_from_slice(reader.bytes(size)?);
        return Some(());
    }
    out.resize(start + size, 0);
    let record = &mut out[start..];
    put_number(capture.order, &mut record[..4], enabling.id.into());
    if capture.dialect == Dialect::Classic {
        context.time = context.time.wrapping_add(reader.sv()? as u64); // Times may fall.
        put_number(capture.order, &mut record[4..8], context.time >> 32);
        put_number(capture.order, &mut record[8..12], context.time & 0xffff_ffff);
    }
    take_parts(capture.order, enabling, reader, context.values(enabling), record)
}

/// Unpacks the parts of a record into it.
pub(crate) fn take_parts(
    order: ByteOrder,
    enabling: &Enabling,
    reader: &mut Reader<'_>,
    before: &mut [u64],
    record: &mut [u8],
) -> Option<()> {
    for (rec, before) in enabling.recs.iter().zip(before) {
        let end = (rec.offset as usize).checked_add(rec.size as usize)?;
        let part = record.get_mut(rec.offset as usize..end)?;
        if is_number(part.len()) {
            let value = before.wrapping_add(reader.sv()? as u64); // Differences may be negative.
            put_number(order, part, value);
            *before = order.number(part);
        } else {
            take_runs(reader, part)?;
        }
    }
    Some(())
}

pub(crate) fn put_number(order: ByteOrder, to: &mut [u8], value: u64) {
    let n = to.len();
    match order {
        ByteOrder::Little => to.copy_from_slice(&value.to_le_bytes()[..n]),
        ByteOrder::Big => to.copy_from_slice(&value.to_be_bytes()[8 - n..]),
    }
}

fn take_runs(reader: &mut Reader<'_>, to: &mut [u8]) -> Option<()> {
    let mut at = 0;
    while at < to.len() {
        let n = usize::try_from(reader.uv()?).ok()?;
        to.get_mut(at..at.checked_add(n)?)?.copy_from_slice(reader.bytes(n)?);
        at += n;
        if at < to.len() {
            let n = usize::try_from(reader.uv()?).ok().filter(|n| *n > 0)?;
            let byte = *reader.bytes(1)?.first()?;
            to.get_mut(at..at.checked_add(n)?)?.fill(byte);
            at += n;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_runs_and_back() {
        for bytes in [&b""[..], b"abc", b"aaaa", b"xxaaaaayyy\0\0\0\0\0\0", b"\0\0\0\0\0\0\0\0x", &[7; 300]] {
            let mut body = Vec::new();
            put_runs(bytes, &mut body);
            let mut back = vec![0xee; bytes.len()];
            let mut reader = Reader { body: &body, at: 0 };
            take_runs(&mut reader, &mut back).unwrap();
            assert_eq!((&*back, reader.at), (bytes, body.len()));
        }
        let mut body = Vec::new();
        put_runs(&[0; 4096], &mut body);
        assert!(body.len() < 8, "{body:?}");
    }

    #[test]
    fn numbers_keep_their_signs() {
        for value in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            let mut body = Vec::new();
            put_sv(&mut body, value);
            assert_eq!(Reader { body: &body, at: 0 }.sv(), Some(value));
        }
        assert_eq!(difference(1, 255, 1), 2);
        assert_eq!(difference(0, u64::MAX, 8), 1);
        // A number of more than 64 bits is invalid.
        assert_eq!(Reader { body: &[0xff; 11], at: 0 }.uv(), None);
    }
}
