//! Local headers: the way into an archive that does not need the end of the file.

use std::io;

use super::{
    CENTRAL, DESCRIPTOR, END, END64, FLAG_DESCRIPTOR, INDEX_READ_BYTES, Index, LOCAL, LOCAL_BYTES,
    MAX_DAMAGE, method, refusal, u16_at, u32_at, u64_at, widen,
};
use crate::container::{Member, Method, Refusal};
use crate::error::Error;
use crate::inflate::{End as InflateEnd, Expected, Inflater};
use crate::packed::Packed;

/// The content of a local header, and the offset of its data.
#[derive(Debug)]
pub(crate) struct LocalHeader {
    pub(crate) member: Member,
    pub(crate) data_at: u64,
    /// Whether sizes and checksum come after the data; those in `member` are then unknown.
    pub(crate) descriptor: bool,
}

/// The data found at a place where a local header may be.
#[derive(Debug)]
pub(crate) enum Next {
    /// A member; the cursor is at its data.
    Member(LocalHeader),
    /// The central directory: no more members.
    Directory,
    /// The end of the file.
    Nothing,
    /// The file ends within a header; the cursor has not moved.
    Cut,
    /// Something else, at least four bytes of it; the cursor has not moved.
    Garbage,
}

/// Reads the local header at the cursor.
pub(crate) fn next_local(packed: &mut Packed) -> io::Result<Next> {
    let at = packed.at();
    let bytes = packed.fill(LOCAL_BYTES)?;
    let Some(signature) = bytes.first_chunk::<4>() else {
        return Ok(if bytes.is_empty() { Next::Nothing } else { Next::Cut });
    };
    match *signature {
        LOCAL => {}
        CENTRAL | END | END64 => return Ok(Next::Directory),
        _ => return Ok(Next::Garbage),
    }
    let Some(header) = bytes.first_chunk::<LOCAL_BYTES>().copied() else { return Ok(Next::Cut) };
    let name_bytes = usize::from(u16_at(&header, 26));
    let data_from = LOCAL_BYTES + name_bytes + usize::from(u16_at(&header, 28));
    let bytes = packed.fill(data_from)?;
    let Some(extra) = bytes.get(LOCAL_BYTES + name_bytes..data_from) else { return Ok(Next::Cut) };
    let name = String::from_utf8_lossy(&bytes[LOCAL_BYTES..LOCAL_BYTES + name_bytes]).into_owned();

    let flags = u16_at(&header, 6);
    let descriptor = flags & FLAG_DESCRIPTOR != 0;
    let (mut len, mut packed_len) = (u64::from(u32_at(&header, 22)), u64::from(u32_at(&header, 18)));
    // With a descriptor, fields may be all ones here without a zip64 field: the sizes are unknown anyway.
    if !widen(extra, &mut [&mut len, &mut packed_len]) && !descriptor {
        return Ok(Next::Garbage);
    }
    // Some writers set the flag although they know the sizes.
    let known = !descriptor || packed_len != 0 && packed_len != u64::from(u32::MAX);
    let method = method(u16_at(&header, 8));
    let undelimited = (!known && method == Method::Stored).then_some(Refusal::StoredWithoutLength);
    let member = Member {
        name,
        packed_at: at,
        packed_len: known.then_some(packed_len),
        len: known.then_some(len),
        crc32: known.then(|| u32_at(&header, 14)),
        method,
        refusal: refusal(flags).or(undelimited),
    };
    packed.consume(data_from);
    Ok(Next::Member(LocalHeader { member, data_at: at + data_from as u64, descriptor: !known }))
}

/// Moves the cursor forward to the next bytes that look like a local header; false at the end of the file.
///
/// The four bytes of the signature may occur in packed data by chance, so the fields after them must also be plausible.
pub(crate) fn find_local_header(packed: &mut Packed) -> io::Result<bool> {
    loop {
        let shown = packed.fill(LOCAL_BYTES)?;
        if shown.len() < LOCAL_BYTES {
            let rest = shown.len();
            packed.consume(rest);
            return Ok(false);
        }
        let found = shown.windows(LOCAL_BYTES).position(is_plausible);
        let step = found.unwrap_or(shown.len() - LOCAL_BYTES + 1);
        packed.consume(step);
        if found.is_some() {
            return Ok(true);
        }
    }
}

fn is_plausible(header: &[u8]) -> bool {
    const NEWEST_VERSION: u8 = 63;
    const METHODS: u16 = 100;
    header.starts_with(&LOCAL)
        && header[4] <= NEWEST_VERSION
        && u16_at(header, 8) < METHODS
        && (1..=1024).contains(&u16_at(header, 26))
        && u16_at(header, 28) <= 1024
}

/// Reads the checksum and sizes after the data of a member that was just inflated.
///
/// There are four layouts: with and without a signature, with 32-bit and 64-bit sizes. The layout that states the sizes found
/// by inflating is taken. `Ok(None)` if none does; the cursor then has not moved.
pub(crate) fn read_descriptor(packed: &mut Packed, packed_len: u64, len: u64) -> io::Result<Option<u32>> {
    let bytes = packed.fill(24)?;
    let unsigned = bytes.strip_prefix(&DESCRIPTOR).unwrap_or(bytes);
    let signature_bytes = bytes.len() - unsigned.len();
    let narrow = unsigned.len() >= 12
        && (u64::from(u32_at(unsigned, 4)), u64::from(u32_at(unsigned, 8)))
            == (packed_len & 0xffff_ffff, len & 0xffff_ffff);
    let wide = unsigned.len() >= 20 && (u64_at(unsigned, 4), u64_at(unsigned, 12)) == (packed_len, len);
    let size_bytes = match (wide, narrow) {
        (true, _) => 20,
        (false, true) => 12,
        (false, false) => return Ok(None),
    };
    let crc = u32_at(unsigned, 0);
    packed.consume(signature_bytes + size_bytes);
    Ok(Some(crc))
}

/// Lists the members by going from one local header to the next; after unreadable bytes, it searches for the next header.
pub(super) fn walk(packed: &mut Packed) -> io::Result<Index> {
    let size = packed.size().unwrap_or(0);
    let mut index = Index { members: Vec::new(), damage: Vec::new() };
    let mut measure = Measure { inflater: None, sink: vec![0; INDEX_READ_BYTES * 8] };
    packed.seek(0)?;
    loop {
        let at = packed.at();
        match next_local(packed)? {
            Next::Directory | Next::Nothing => break,
            Next::Cut => {
                index.damaged(Error::truncated("the file ends within the header of a member").at_packed(at));
                break;
            }
            Next::Garbage => {
                index.damaged(Error::malformed("no header of a member where one is expected").at_packed(at));
                // The bytes that were refused here may look plausible to the search.
                packed.consume(1);
                if !find_local_header(packed)? {
                    break;
                }
            }
            Next::Member(header) if header.descriptor => {
                let searched = measure.member(packed, header, &mut index)?;
                if searched && !find_local_header(packed)? {
                    break;
                }
            }
            Next::Member(LocalHeader { mut member, data_at, .. }) => {
                let end = member.packed_len.and_then(|len| data_at.checked_add(len));
                if let Some(end) = end.filter(|end| *end <= size) {
                    packed.seek(end)?;
                    index.members.push(member);
                    continue;
                }
                // Either the file is truncated or the size is wrong: another header further on shows which.
                let more = find_local_header(packed)?;
                member.packed_len = Some(packed.at().saturating_sub(data_at));
                let n_members = index.members.len() as u32;
                let cut = Error::truncated("the file ends within this member");
                index.damaged(cut.at_packed(packed.at()).in_member(n_members, &member.name));
                index.members.push(member);
                if !more {
                    break;
                }
            }
        }
    }
    Ok(index)
}

impl Index {
    fn damaged(&mut self, error: Error) {
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(error);
        }
    }
}

/// Determines the packed size of a member whose header does not state it, by inflating it.
struct Measure {
    inflater: Option<Inflater>,
    sink: Vec<u8>,
}

impl Measure {
    /// Adds the member; true if its end was not found, so that the next header must be searched.
    fn member(&mut self, packed: &mut Packed, header: LocalHeader, index: &mut Index) -> io::Result<bool> {
        let LocalHeader { mut member, data_at, .. } = header;
        let member_idx = index.members.len() as u32;
        if member.method != Method::Deflate || member.refusal.is_some() {
            index.members.push(member);
            return Ok(true);
        }
        let mut inflater = self.inflater.take().unwrap_or_default();
        inflater.start_deflate(Expected::default());
        let mut len = 0;
        let end = loop {
            let (n_bytes, end) = inflater.inflate(packed, &mut self.sink);
            len += n_bytes as u64;
            if !matches!(end, InflateEnd::More) {
                break end;
            }
        };
        let packed_len = packed.at() - data_at;
        let found_crc = inflater.crc32();
        self.inflater = Some(inflater);
        member.packed_len = Some(packed_len);
        let problem = match end {
            InflateEnd::Fault(error) => Some(error),
            _ => match read_descriptor(packed, packed_len, len)? {
                Some(crc) => {
                    (member.len, member.crc32) = (Some(len), Some(crc));
                    (crc != found_crc).then(|| Error::checksum("CRC-32", crc, found_crc))
                }
                None => Some(Error::malformed("the record after the member does not state its size")),
            },
        };
        let lost = problem.is_some() && member.crc32.is_none();
        if let Some(error) = problem {
            index.damaged(error.at(len).at_packed(packed.at()).in_member(member_idx, &member.name));
        }
        index.members.push(member);
        Ok(lost)
    }
}
