//! Self-describing principal buffers: metadata is stored as records with a reserved number.
//!
//! SPEC: dtrace.md#metadata-in-the-buffer

use crate::buffer::Cursor;
use crate::bytes::ByteOrder;
use crate::describe::{self, Buffer, Capture, Dialect};
use crate::described::{self, Describer};
use crate::examine;
use crate::lost::{self, Lost};
use crate::rules;
use crate::validate;
use memchr::memmem;
use quipu_model::loss::Amount;
use quipu_model::{Error, Place, Result};
use quipu_stream::loss::Loss;
use quipu_wire::cbor;
use quipu_wire::crc32c;
use quipu_wire::record::{Producer, Record};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The number of metadata records. EPIDs are dense from 1, so it cannot be one.
pub const RESERVED: u32 = 0xffff_ffff;

/// Length of the head before the payload in bytes.
const HEAD: usize = 24;

/// Kinds of records with the reserved number.
mod kind {
    pub(super) const METADATA: u32 = 1;
    pub(super) const BEGIN: u32 = 2;
    pub(super) const END: u32 = 3;
    pub(super) const LOSS: u32 = 4;
}

/// A record with the reserved number.
struct Inner<'b> {
    kind: u32,
    payload: &'b [u8],
    /// Length with the head and the trailing zeros.
    bytes: usize,
    is_right: bool,
}

/// The record at the beginning of some bytes; `None` if it is incomplete.
fn inner(bytes: &[u8], order: ByteOrder) -> Option<Inner<'_>> {
    let (inner, crc) = unchecked(bytes, order)?;
    let is_right = crc == crc32c(&bytes[16..HEAD + inner.payload.len()]);
    Some(Inner { is_right, ..inner })
}

/// The same without checking the checksum, which is also returned; `is_right` is false.
fn unchecked(bytes: &[u8], order: ByteOrder) -> Option<(Inner<'_>, u32)> {
    let word = |at| order.u32_at(bytes, at);
    let (crc, kind, len) = (word(12)?, word(16)?, word(20)? as usize);
    let end = HEAD.checked_add(len)?;
    let payload = bytes.get(HEAD..end)?;
    let bytes = end.next_multiple_of(4).min(bytes.len());
    Some((Inner { kind, payload, bytes, is_right: false }, crc))
}

/// The byte order of a buffer that begins with such a record. If the first record is damaged and may be a beginning, the
/// second one decides.
fn order_of(bytes: &[u8]) -> Option<ByteOrder> {
    let is_reserved = |at| ByteOrder::Little.u32_at(bytes, at) == Some(RESERVED);
    let orders = [ByteOrder::Little, ByteOrder::Big];
    let begins = |order: &ByteOrder| {
        let kind = order.u32_at(bytes, 16).unwrap_or(0);
        matches!(kind, kind::METADATA..=kind::LOSS) && inner(bytes, *order).is_none_or(|inner| inner.is_right)
    };
    let continues = |order: &ByteOrder| {
        is_reserved(HEAD) && inner(&bytes[HEAD..], *order).is_some_and(|inner| inner.is_right)
    };
    let of_first = orders.into_iter().filter(|_| is_reserved(0));
    of_first.clone().find(begins).or_else(|| of_first.clone().find(continues))
}

/// Whether a file begins like such a buffer.
pub fn is_likely(head: &[u8]) -> bool {
    order_of(head).is_some()
}

/// Whether a file has descriptions of such a buffer although its beginning was overwritten: the bytes before the first whole
/// descriptions have to be records that they describe, except for a partial record at the beginning, or damage before the
/// last of them.
pub fn is_within(head: &[u8]) -> bool {
    let mut search = Search::new(head);
    let found = search.next(0, None);
    found.is_some_and(|(at, order)| Described::new(head, at, order).follow_records(&mut search, 0))
}

/// Like [`is_within`], for a file that no other format accepts: records before any of its descriptions count as evidence,
/// and so do the records after them, up to the next descriptions or the end.
pub(crate) fn is_within_damage(head: &[u8]) -> bool {
    let mut search = Search::new(head);
    let mut from = 0;
    while let Some((at, order)) = search.next(from, None) {
        let described = Described::new(head, at, order);
        if described.follow_records(&mut search, from) || described.lead_to_records(&mut search) {
            return true;
        }
        from = described.end;
    }
    false
}

/// Whether a file has descriptions anywhere, so that records after them can be read.
pub(crate) fn has_descriptions(bytes: &[u8]) -> bool {
    order_of(bytes).is_some() || Search::new(bytes).next(0, None).is_some()
}

/// Whole descriptions, and the sizes of the records that they describe.
struct Described {
    start: usize,
    end: usize,
    order: ByteOrder,
    /// Sizes of records in bytes, by EPID.
    sizes: FxHashMap<u32, usize>,
}

impl Described {
    /// Reads the descriptions that begin at `start`, which have to be whole.
    fn new(bytes: &[u8], start: usize, order: ByteOrder) -> Described {
        let mut sizes: FxHashMap<u32, usize> = FxHashMap::default();
        let mut end = start;
        while let Some(inner) = inner(&bytes[end..], order) {
            end += inner.bytes;
            if inner.kind == kind::END {
                break;
            }
            let record = cbor::decode(inner.payload).ok().map(|item| Record::read(&item.value));
            if let Some(Ok(Record::Enabling(described))) = record {
                let size = described.size.max(Dialect::Classic.header_bytes()) as usize;
                sizes.insert(described.id, size.next_multiple_of(4));
            }
        }
        Described { start, end, order, sizes }
    }

    /// Whether records after `from` lead to these descriptions: either [`WALKED`] of them, which is not an accident, or any
    /// number from a place where one may begin in a ring, which is within the length of the longest record, or at the first
    /// record of descriptions.
    fn follow_records(&self, search: &mut Search<'_>, from: usize) -> bool {
        let n_words = (self.start - from) / 4;
        // Number of records that lead from each word to the descriptions; `None` if they do not lead there.
        let mut leads = vec![None; n_words + 1];
        leads[n_words] = Some(0_u32);
        for word in (0..n_words).rev() {
            let at = from + 4 * word;
            let (step, n) = match self.order.u32_at(search.bytes, at) {
                Some(0) => (4, 0),
                Some(RESERVED) => match search.record(at, self.order) {
                    Some(bytes) => (bytes, 0),
                    None => continue,
                },
                Some(id) => match self.sizes.get(&id) {
                    Some(size) => (*size, 1),
                    None => continue,
                },
                None => continue,
            };
            leads[word] =
                leads.get(word + step / 4).copied().flatten().map(|after: u32| after.saturating_add(n));
        }
        if leads.iter().flatten().any(|n| *n as usize >= WALKED) {
            return true;
        }
        let longest = self.sizes.values().copied().max().unwrap_or(0) / 4;
        let first = search.reserved(0).filter(|at| *at < self.start).map(|at| at / 4);
        from == 0 && (0..=longest.min(n_words)).chain(first).any(|word| leads[word].is_some())
    }

    /// Whether [`WALKED`] records or more follow these descriptions, up to the next ones or to the end.
    fn lead_to_records(&self, search: &mut Search<'_>) -> bool {
        let (mut at, mut n) = (self.end, 0_usize);
        loop {
            let Some(n_steps) = search.n_steps.checked_sub(1) else { return false };
            search.n_steps = n_steps;
            match self.order.u32_at(search.bytes, at) {
                Some(0) => at += 4,
                Some(RESERVED) => match search.record(at, self.order) {
                    Some(_) if self.order.u32_at(search.bytes, at + 16) == Some(kind::BEGIN) => break,
                    Some(bytes) => at += bytes,
                    None => return false,
                },
                Some(id) => match self.sizes.get(&id) {
                    Some(size) => (at, n) = (at + size, n + 1),
                    None => return false,
                },
                None => break,
            }
        }
        n >= WALKED
    }
}

/// Maximum payload of a record that begins descriptions, in bytes.
const MAX_BEGIN_BYTES: usize = 64;

/// Limit on records with wrong checksums: their total length, as a multiple of the size of the buffer.
const WRONG_TIMES: usize = 8;

/// A search for whole descriptions. Checksums of correct records are computed once; all wrong ones of a buffer share a
/// limit. So the time is linear in the size, whatever lengths records claim.
struct Search<'b> {
    bytes: &'b [u8],
    word: memmem::Finder<'static>,
    /// Remaining bytes of records whose checksums may turn out to be wrong.
    n_left: usize,
    /// Remaining steps over records and words after descriptions, whose ranges may overlap.
    n_steps: usize,
    /// There is no correct record between the current position and this offset.
    none_until: usize,
}

impl<'b> Search<'b> {
    fn new(bytes: &'b [u8]) -> Search<'b> {
        let n_left = bytes.len().saturating_mul(WRONG_TIMES);
        Search { bytes, word: memmem::Finder::new(&[0xff; 4]), n_left, n_steps: n_left, none_until: 0 }
    }

    /// The record at `at`, if it is complete; a record that exceeds the limit counts as wrong. Correct records that are read
    /// consecutively do not use up the limit.
    fn checked(&mut self, at: usize, order: ByteOrder) -> Option<Inner<'b>> {
        let rest = self.bytes.get(at..)?;
        let len = order.u32_at(rest, 20)? as usize;
        if len > self.n_left {
            return unchecked(rest, order).map(|(inner, _)| inner);
        }
        let inner = inner(rest, order)?;
        if !inner.is_right {
            self.n_left = self.n_left.saturating_sub(HEAD + len);
        }
        Some(inner)
    }

    /// The length of the record at `at`, if its checksum is correct. Records may overlap, so they all share the limit.
    fn record(&mut self, at: usize, order: ByteOrder) -> Option<usize> {
        let rest = self.bytes.get(at..)?;
        let len = order.u32_at(rest, 20)? as usize;
        if len > self.n_left {
            return None;
        }
        self.n_left -= len;
        inner(rest, order).filter(|inner| inner.is_right).map(|inner| inner.bytes)
    }

    /// Offset of the next aligned reserved word.
    fn reserved(&self, from: usize) -> Option<usize> {
        let mut at = from.next_multiple_of(4);
        loop {
            let found = at + self.word.find(self.bytes.get(at..)?)?;
            at = found.next_multiple_of(4);
            if self.bytes.get(at..at + 4)? == [0xff; 4] {
                return Some(at);
            }
        }
    }

    /// Offset of the next record with a correct checksum in `from..to`. Each call has to begin after the one before.
    fn right(&mut self, from: usize, to: usize, order: ByteOrder) -> Option<usize> {
        let mut at = from.max(self.none_until);
        while let Some(found) = self.reserved(at).filter(|found| *found < to) {
            let rest = &self.bytes[found..];
            let len = order.u32_at(rest, 20).unwrap_or(0) as usize;
            let record = Some(rest).filter(|_| len <= self.n_left).and_then(|rest| inner(rest, order));
            if record.is_some_and(|record| record.is_right) {
                return Some(found);
            }
            self.n_left = self.n_left.saturating_sub(HEAD + len);
            at = found + 4;
        }
        self.none_until = self.none_until.max(to);
        None
    }

    /// Offset of the next descriptions at or after `from`, and their byte order; if the order is `known`, only in that order.
    fn next(&mut self, from: usize, known: Option<ByteOrder>) -> Option<(usize, ByteOrder)> {
        let mut at = from;
        loop {
            at = self.reserved(at)?;
            let bytes = &self.bytes[at..];
            let begins = |order: &ByteOrder| {
                let is_short = order.u32_at(bytes, 20).is_some_and(|len| len as usize <= MAX_BEGIN_BYTES);
                // The checksum covers only a few bytes.
                known.is_none_or(|known| known == *order)
                    && is_short
                    && order.u32_at(bytes, 16) == Some(kind::BEGIN)
                    && inner(bytes, *order).is_some_and(|inner| inner.is_right)
            };
            let Some(order) = [ByteOrder::Little, ByteOrder::Big].into_iter().find(begins) else {
                at += 4;
                continue;
            };
            match self.end(at, order) {
                Ok(()) => return Some((at, order)),
                Err(stopped) => at = stopped,
            }
        }
    }

    /// Whether the descriptions that begin here are whole. If not, the offset at which to continue the search, which is
    /// after `start`.
    fn end(&mut self, start: usize, order: ByteOrder) -> Result<(), usize> {
        let (mut at, mut n) = (start, 0);
        loop {
            let rest = self.bytes.get(at..).unwrap_or(&[]);
            let len = order.u32_at(rest, 20).unwrap_or(0) as usize;
            let may_be = order.u32_at(rest, 0) == Some(RESERVED) && len <= self.n_left;
            let found = Some(rest).filter(|_| may_be).and_then(|rest| inner(rest, order));
            let Some(inner) = found else { return Err(at.max(start + 4)) };
            if !inner.is_right {
                self.n_left = self.n_left.saturating_sub(HEAD + len);
                return Err(at.max(start + 4));
            }
            match inner.kind {
                kind::BEGIN if at > start => return Err(at),
                kind::METADATA => n += 1,
                kind::END if order.u32_at(inner.payload, 0) == Some(n) => return Ok(()),
                kind::END => return Err(at + inner.bytes),
                _ => {}
            }
            at += inner.bytes;
        }
    }
}

/// Reads a self-describing buffer.
///
/// # Errors
/// `Malformed` for invalid descriptions. Faults of single records become findings.
pub fn read(file: &str, bytes: Vec<u8>) -> Result<Capture> {
    let place = |offset: usize| Place {
        file: Some(file.to_owned()),
        offset: Some(offset as u64),
        ..Place::default()
    };
    let mut search = Search::new(&bytes);
    let begins = order_of(&bytes).map(|order| (0, order)).or_else(|| search.next(0, None));
    let (first, order) =
        begins.ok_or_else(|| Error::malformed("no whole descriptions stand in the buffer").at(&place(0)))?;
    let mut describer = Describer::new(file, Dialect::Classic);
    describer.capture.order = order;
    let (mut findings, mut losses) = (Vec::new(), Vec::new());
    let mut data = bytes.clone();
    let mut gaps = Vec::new();
    let mut at = first;
    // Metadata records are replaced with zeros, like those between records.
    let mut pass_over = |data: &mut Vec<u8>, range: Range<usize>| {
        data[range.clone()].fill(0);
        gaps.push(range);
    };
    pass_over(&mut data, 0..first);
    // The loss of a range that is skipped because the next record cannot be located.
    let without = |from: usize, to: usize| quipu_model::Loss {
        bytes: Amount::Exactly((to - from) as u64),
        resumed: (to < bytes.len()).then(|| place(to)),
        ..quipu_model::Loss::from(place(from))
    };
    // `open`: offset of the descriptions being read, and number of their records so far. `may_begin`: a record since the end
    // of the last descriptions is damaged and may be the beginning of new ones.
    let mut open: Option<(usize, u32)> = None;
    let mut may_begin = false;
    while let Some(id) = order.u32_at(&bytes, at) {
        match id {
            0 => at += 4,
            RESERVED => {
                let Some(inner) = search.checked(at, order) else {
                    may_begin = true;
                    let message = "a record of descriptions does not fit into the buffer".to_owned();
                    let next = search.right(at + 4, bytes.len(), order).unwrap_or(bytes.len());
                    findings.push(rules::CUT.broken(place(at), message).losing(without(at, next)));
                    pass_over(&mut data, at..next);
                    at = next;
                    continue;
                };
                if let Some((_, n)) = &mut open {
                    *n += u32::from(inner.kind == kind::METADATA);
                }
                match (inner.is_right, inner.kind) {
                    (false, _) => {
                        may_begin = true;
                        let message =
                            "a record of descriptions has a wrong checksum, and is not used".to_owned();
                        let finding = rules::CHECKSUM.broken(place(at), message);
                        let end = at + inner.bytes;
                        // Its length is damaged if another record is within it, or none follows it.
                        let next = search.right(at + 4, end, order).or_else(|| {
                            let is_place = is_place_of_record(&bytes[end..], order, &describer.capture);
                            (!is_place).then(|| search.right(end, bytes.len(), order).unwrap_or(bytes.len()))
                        });
                        if let Some(next) = next {
                            findings.push(finding.losing(without(at, next)));
                            pass_over(&mut data, at..next);
                            at = next;
                            continue;
                        }
                        findings.push(finding);
                    }
                    (true, kind::BEGIN) => {
                        if let Some((start, n)) = open.replace((at, 0)) {
                            findings.push(never_end(place(start), n));
                        }
                    }
                    (true, kind::END) => {
                        let said = order.u32_at(inner.payload, 0);
                        let said = said.map_or("no number".to_owned(), |said| said.to_string());
                        match open.take() {
                            Some((start, n)) if said != n.to_string() => {
                                let message = format!("{said} descriptions are announced, and there are {n}");
                                findings.push(rules::METADATA.broken(place(start), message));
                            }
                            None if !may_begin => {
                                let message = format!("descriptions have no beginning: {said} are announced");
                                findings.push(rules::CUT.broken(place(at), message));
                            }
                            _ => {}
                        }
                        may_begin = false;
                    }
                    (true, kind::METADATA) => {
                        let record = cbor::decode(inner.payload).ok().map(|item| Record::read(&item.value));
                        let taken = match record {
                            Some(Ok(record)) => {
                                describer.take(&record).map_err(|error| error.message().to_owned())
                            }
                            Some(Err(invalid)) => Err(invalid.0.to_owned()),
                            None => Err("a record of descriptions cannot be read".to_owned()),
                        };
                        if let Err(message) = taken {
                            findings.push(rules::METADATA.broken(place(at), message));
                        }
                    }
                    (true, kind::LOSS) => {
                        let map = cbor::decode(inner.payload).ok();
                        match map.and_then(|item| Loss::read(&item.value)) {
                            Some(loss) => losses.push(loss),
                            None => {
                                let message = "a record of a loss cannot be read".to_owned();
                                findings.push(rules::METADATA.broken(place(at), message));
                            }
                        }
                    }
                    _ => {}
                }
                pass_over(&mut data, at..at + inner.bytes);
                at += inner.bytes;
            }
            id => match describer.capture.enabling(id) {
                Some((_, enabling)) => {
                    let step = enabling.size.max(Dialect::Classic.header_bytes());
                    at = at.saturating_add(step as usize);
                }
                // If no descriptions follow, reading the records will report the loss.
                None => match search.next(at + 4, Some(order)) {
                    Some((next, _)) => {
                        let n = next - at;
                        let message = format!(
                            "EPID {id} has no description, so that its length is unknown; {n} bytes are skipped, up to the \
                             next descriptions"
                        );
                        findings.push(rules::UNKNOWN.broken(place(at), message).losing(without(at, next)));
                        pass_over(&mut data, at..next);
                        at = next;
                    }
                    None => break,
                },
            },
        }
    }
    if let Some((start, n)) = open {
        findings.push(never_end(place(start), n));
    }
    let counts = describer.counts.iter().find(|(is_states, ..)| !is_states).copied();
    // The only stream has the number of its CPU.
    let (_, cpu, errors, timestamp) =
        counts.unwrap_or((false, describer.cpus.values().copied().min().unwrap_or(0), 0, 0));
    describer.capture.order = order;
    let mut capture = describer.finish();
    let file_name = file.to_owned();
    capture.buffers = vec![Buffer {
        cpu,
        file: file_name,
        bytes: data,
        errors,
        timestamp,
        gaps: describe::in_order(gaps),
        ..Buffer::default()
    }];
    if first > 0 {
        let text = format!("{first} bytes before the first whole descriptions");
        capture.lost.push(Lost { cause: lost::OVERWRITTEN, records: None, text });
    }
    let mut taker = lost::Taker::new(&capture);
    for loss in &losses {
        taker.take(&mut capture, cpu, loss);
    }
    capture.findings.extend(findings);
    capture.index();
    validate::all(&capture).map_err(|error| error.in_file(file))?;
    Ok(capture)
}

/// The finding for descriptions without an end, which may be incomplete.
fn never_end(place: Place, n: u32) -> quipu_model::Finding {
    rules::CUT.broken(place, format!("descriptions have no end: {n} are there"))
}

/// Number of consecutive records that confirm the place of one: a word of data may look like an EPID.
const WALKED: usize = 8;

/// Whether consecutive records begin here, or lead to descriptions or to the end of the buffer.
fn is_place_of_record(rest: &[u8], order: ByteOrder, capture: &Capture) -> bool {
    let (mut at, mut n_zeros) = (0, 0);
    for _ in 0..WALKED {
        match order.u32_at(rest, at) {
            None | Some(RESERVED) => break,
            // Records are aligned to at most eight bytes, except after cleared ones, which are rare.
            Some(0) if n_zeros == 0 => (at, n_zeros) = (at + 4, 1),
            Some(id) => match capture.enabling(id) {
                Some((_, enabling)) => {
                    let step = enabling.size.max(Dialect::Classic.header_bytes());
                    (at, n_zeros) = (at + step as usize, 0);
                }
                None => return false,
            },
        }
    }
    true
}

/// Descriptions are repeated after this many bytes of records, or four times their own length if that is more, so that a
/// reader that only has the rest of a ring can begin there.
pub const REPEAT_BYTES: usize = 24 << 10;

/// Writes a buffer of a capture with all descriptions before its records, and again after each [`REPEAT_BYTES`].
///
/// # Errors
/// `Unsupported` for dialects with other record headers.
pub fn write(capture: &Capture, buffer: &Buffer, producer: Producer) -> Result<Vec<u8>> {
    if capture.dialect != Dialect::Classic {
        let dialect = capture.dialect.name();
        let message = format!("buffers of dialect {dialect} have no room for descriptions");
        return Err(Error::unsupported(message).in_file(&*buffer.file));
    }
    let order = capture.order;
    let mut out = Vec::new();
    let put = |out: &mut Vec<u8>, kind: u32, payload: &[u8]| {
        let start = out.len();
        for word in [RESERVED, 0, 0, 0, kind, payload.len() as u32] {
            order.put(out, word.into(), 4);
        }
        out.extend_from_slice(payload);
        let crc = crc32c(&out[start + 16..]);
        let mut word = Vec::with_capacity(4);
        order.put(&mut word, crc.into(), 4);
        out[start + 12..start + 16].copy_from_slice(&word);
        out.resize(out.len().next_multiple_of(4), 0);
    };
    // A copy without its bytes, which carries the CPU.
    let Buffer { cpu, errors, timestamp, .. } = *buffer;
    let this = Buffer { cpu, errors, timestamp, ..Buffer::default() };
    let records = described::records_beside(capture, producer, &[this], &[]);
    put(&mut out, kind::BEGIN, &[]);
    for record in &records {
        put(&mut out, kind::METADATA, &record.to_value().to_bytes());
    }
    let mut count = Vec::with_capacity(4);
    order.put(&mut count, records.len() as u64, 4);
    put(&mut out, kind::END, &count);
    let snapshot = out.clone();
    let far = REPEAT_BYTES.max(4 * snapshot.len());
    for loss in lost::of_cpu(buffer, lost::OF_RECORDS).into_iter().chain(lost::of_no_cpu(capture)) {
        put(&mut out, kind::LOSS, &loss.to_value().to_bytes());
    }
    // Cleared records are written as losses; above a number of such places, the rest is summed up in one loss.
    let (mut gaps, mut n_more, mut n_bytes) = (FxHashMap::<usize, Range<usize>>::default(), 0_u64, 0_u64);
    examine::each_cleared(capture, buffer, &mut |gap, record| {
        if (gaps.len() as u64) < examine::MAX_FAULTS {
            gaps.insert(record, gap);
        } else {
            (n_more, n_bytes) = (n_more + 1, n_bytes + gap.len() as u64);
        }
    });
    if n_more > 0 {
        let text = format!("{n_more} more gaps between records have {n_bytes} zero bytes");
        put(&mut out, kind::LOSS, &lost::cleared(n_bytes, text).to_value().to_bytes());
    }
    let mut cursor = Cursor::new(buffer);
    let mut next = out.len() + far;
    // If the rest cannot be read, that is found when the capture is loaded.
    while let Ok(Some(record)) = cursor.next_record(capture, buffer) {
        if out.len() >= next {
            out.extend_from_slice(&snapshot);
            next = out.len() + far;
        }
        if let Some(gap) = gaps.get(&record.offset) {
            let n = gap.len() as u64;
            let text = format!("{n} zero bytes stood before a record, at {:#x}", gap.start);
            put(&mut out, kind::LOSS, &lost::cleared(n, text).to_value().to_bytes());
        }
        while !out.len().is_multiple_of(record.enabling.align.max(4) as usize) {
            out.extend_from_slice(&[0; 4]);
        }
        out.extend_from_slice(record.bytes);
    }
    Ok(out)
}
