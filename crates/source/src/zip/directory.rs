//! The central directory, trusted only if it is consistent with itself and with the size of the file.

use std::io;

use super::{CENTRAL, END, END64, LOCAL_BYTES, LOCATOR64, method, refusal, u16_at, u32_at, u64_at, widen};
use crate::container::Member;
use crate::error::Error;
use crate::packed::Packed;

const END_BYTES: usize = 22;
const END64_BYTES: usize = 56;
const LOCATOR64_BYTES: usize = 20;
const CENTRAL_BYTES: usize = 46;

/// Position of the directory, and the number of its entries.
struct End {
    /// Offset of the end record (of the zip64 one, if there is one); the directory ends before it.
    at: u64,
    directory_at: u64,
    directory_bytes: u64,
    n_entries: u64,
    /// Whether the count is exact: in archives of some writers, a 16-bit count wraps around.
    count_is_exact: bool,
}

/// Reads the members in file order. The inner error says why the directory cannot be trusted.
pub(super) fn read(packed: &mut Packed) -> io::Result<Result<Vec<Member>, Error>> {
    let end = match find_end(packed)? {
        Ok(end) => end,
        Err(reason) => return Ok(Err(reason)),
    };
    Ok(match read_entries(packed, &end)? {
        Ok(members) => in_file_order(members, end.directory_at),
        Err(reason) => Err(reason),
    })
}

fn find_end(packed: &mut Packed) -> io::Result<Result<End, Error>> {
    let size = packed.size().unwrap_or(0);
    let Some((at, record)) = find_end_record(packed, size)? else {
        return Ok(Err(Error::truncated(
            "the archive has no end record: it is cut short; its members were found by their local headers",
        )
        .at_packed(size)));
    };
    let mut end = End {
        at,
        directory_at: u64::from(u32_at(&record, 16)),
        directory_bytes: u64::from(u32_at(&record, 12)),
        n_entries: u64::from(u16_at(&record, 10)),
        count_is_exact: false,
    };
    if let Some(locator_at) = at.checked_sub(LOCATOR64_BYTES as u64) {
        packed.seek(locator_at)?;
        let locator: [u8; LOCATOR64_BYTES] = match packed.fill(LOCATOR64_BYTES)?.first_chunk() {
            Some(locator) => *locator,
            None => return Ok(Ok(end)),
        };
        if locator.starts_with(&LOCATOR64) {
            let end64_at = u64_at(&locator, 8);
            packed.seek(end64_at)?;
            let record = packed.fill(END64_BYTES)?.first_chunk::<END64_BYTES>();
            match record {
                Some(record) if record.starts_with(&END64) && end64_at < locator_at => {
                    end = End {
                        at: end64_at,
                        directory_at: u64_at(record, 48),
                        directory_bytes: u64_at(record, 40),
                        n_entries: u64_at(record, 32),
                        count_is_exact: true,
                    };
                }
                _ => return Ok(Err(lies("the zip64 end record is not where its locator says", locator_at))),
            }
        }
    }
    Ok(Ok(end))
}

/// Finds the end record, at the very end of the file except for a comment of at most 65535 bytes.
fn find_end_record(packed: &mut Packed, size: u64) -> io::Result<Option<(u64, [u8; END_BYTES])>> {
    // Nearly all archives have no comment, and a folder may contain thousands of them: try the short read first.
    for tail_bytes in [END_BYTES, END_BYTES + usize::from(u16::MAX)] {
        let from = size.saturating_sub(tail_bytes as u64);
        packed.seek(from)?;
        let tail = packed.fill(tail_bytes)?;
        for (at, record) in tail.windows(END_BYTES).enumerate().rev() {
            let comment_bytes = usize::from(u16_at(record, 20));
            if record.starts_with(&END) && at + END_BYTES + comment_bytes == tail.len() {
                let record = *record.first_chunk().expect("a window has its length");
                return Ok(Some((from + at as u64, record)));
            }
        }
    }
    Ok(None)
}

fn read_entries(packed: &mut Packed, end: &End) -> io::Result<Result<Vec<Member>, Error>> {
    let mut members = Vec::new();
    if end.directory_at.checked_add(end.directory_bytes) != Some(end.at) {
        return Ok(Err(lies("the central directory is not where the end record says", end.at)));
    }
    packed.seek(end.directory_at)?;
    while packed.at() < end.at {
        let at = packed.at();
        let Some(entry) = packed.fill(CENTRAL_BYTES)?.first_chunk::<CENTRAL_BYTES>().copied() else {
            return Ok(Err(lies("the central directory is cut short", at)));
        };
        if !entry.starts_with(&CENTRAL) {
            return Ok(Err(lies("the central directory has a bad entry", at)));
        }
        let name_bytes = usize::from(u16_at(&entry, 28));
        let extra_bytes = usize::from(u16_at(&entry, 30));
        let comment_bytes = usize::from(u16_at(&entry, 32));
        let entry_bytes = CENTRAL_BYTES + name_bytes + extra_bytes + comment_bytes;
        let bytes = packed.fill(entry_bytes)?;
        let Some(extra) = bytes.get(CENTRAL_BYTES + name_bytes..CENTRAL_BYTES + name_bytes + extra_bytes)
        else {
            return Ok(Err(lies("the central directory is cut short", at)));
        };
        let (mut len, mut packed_len) = (u64::from(u32_at(&entry, 24)), u64::from(u32_at(&entry, 20)));
        let mut header_at = u64::from(u32_at(&entry, 42));
        if !widen(extra, &mut [&mut len, &mut packed_len, &mut header_at]) {
            return Ok(Err(lies("an entry of the central directory lacks its 64-bit sizes", at)));
        }
        members.push(Member {
            name: String::from_utf8_lossy(&bytes[CENTRAL_BYTES..CENTRAL_BYTES + name_bytes]).into_owned(),
            packed_at: header_at,
            packed_len: Some(packed_len),
            len: Some(len),
            crc32: Some(u32_at(&entry, 16)),
            method: method(u16_at(&entry, 10)),
            refusal: refusal(u16_at(&entry, 8)),
        });
        packed.consume(entry_bytes);
    }
    let n_found = members.len() as u64;
    let count_fits = match end.count_is_exact {
        true => n_found == end.n_entries,
        false => n_found & 0xffff == end.n_entries,
    };
    if packed.at() != end.at || !count_fits {
        return Ok(Err(lies("the central directory has not as many entries as the end record says", end.at)));
    }
    Ok(Ok(members))
}

/// Sorts by offset and refuses members that overlap: honest writers make none, and a small archive whose members share their
/// bytes could keep a reader busy forever.
fn in_file_order(mut members: Vec<Member>, directory_at: u64) -> Result<Vec<Member>, Error> {
    members.sort_by_key(|member| member.packed_at);
    let next_starts = members.iter().skip(1).map(|next| next.packed_at).chain([directory_at]);
    let first_bad = members.iter().zip(next_starts).find(|(member, next_at)| {
        let fewest = member.packed_len.unwrap_or(0).checked_add(LOCAL_BYTES as u64);
        fewest.and_then(|bytes| bytes.checked_add(member.packed_at)).is_none_or(|end| end > *next_at)
    });
    match first_bad {
        Some((member, _)) => Err(lies("a member reaches into what follows it", member.packed_at)),
        None => Ok(members),
    }
}

#[cold]
fn lies(what: &'static str, at: u64) -> Error {
    Error::malformed(format!("{what}; the members were found by their local headers")).at_packed(at)
}
