//! A zip archive written front to back: deflated members with their sizes in the local headers, zip64 where needed.
//!
//! Sizes are filled in when a member ends. Members can therefore be streamed, and a reader that has the archive without its
//! directory still finds them.

use anyhow::{Context, Result, bail};
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use std::io::{self, Seek, SeekFrom, Write};

/// Compression level of deflate, the one that most writers use.
const LEVEL: u32 = 6;
/// 1980-01-01, the earliest date that a zip archive can store.
const DATE: u16 = 0x21;
/// "Version needed": 2.0 for deflate, 4.5 for zip64.
const DEFLATE_VERSION: u16 = 20;
const ZIP64_VERSION: u16 = 45;
const DEFLATE_METHOD: u16 = 8;
/// Value of a field whose real value is in a zip64 record.
const IN_ZIP64: u32 = u32::MAX;

/// An archive that is being written.
pub(super) struct ZipWriter<W: Write + Seek> {
    state: State<W>,
    members: Vec<Member>,
    crc: Crc,
    size: u64,
}

enum State<W: Write + Seek> {
    Between(Counted<W>),
    Inside(DeflateEncoder<Counted<W>>),
    /// An earlier error left the archive incomplete.
    Broken,
}

impl<W: Write + Seek> ZipWriter<W> {
    pub(super) fn new(out: W) -> ZipWriter<W> {
        let state = State::Between(Counted { out, position: 0 });
        ZipWriter { state, members: Vec::new(), crc: Crc::new(), size: 0 }
    }

    /// Ends the previous member and begins one called `name`.
    pub(super) fn start(&mut self, name: &str) -> Result<()> {
        let mut out = self.end_member()?;
        let member = Member { name: name.to_owned(), crc: 0, packed: 0, size: 0, offset: out.position };
        out.write_all(&member.local_header())?;
        self.members.push(member);
        self.crc = Crc::new();
        self.size = 0;
        self.state = State::Inside(DeflateEncoder::new(out, Compression::new(LEVEL)));
        Ok(())
    }

    /// Appends to the current member.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let State::Inside(encoder) = &mut self.state else { bail!("no member was started") };
        self.crc.update(bytes);
        self.size += bytes.len() as u64;
        Ok(encoder.write_all(bytes)?)
    }

    /// Writes the directory and returns the file.
    pub(super) fn finish(mut self) -> Result<W> {
        let mut out = self.end_member()?;
        let start = out.position;
        for member in &self.members {
            out.write_all(&member.directory_entry())?;
        }
        let end = directory_end(start, out.position, self.members.len() as u64);
        out.write_all(&end)?;
        Ok(out.out)
    }

    /// Closes the open member, if there is one, and fills in its header.
    fn end_member(&mut self) -> Result<Counted<W>> {
        let encoder = match std::mem::replace(&mut self.state, State::Broken) {
            State::Between(out) => return Ok(out),
            State::Inside(encoder) => encoder,
            State::Broken => bail!("an earlier error has left the archive without an end"),
        };
        let mut out = encoder.finish()?;
        let member = self.members.last_mut().context("no member was started")?;
        let data = member.offset + member.local_header().len() as u64;
        let too_long = "a chunk of more than 4 GiB: ask for fewer instructions in each";
        member.packed = u32::try_from(out.position - data).context(too_long)?;
        member.size = u32::try_from(self.size).context(too_long)?;
        member.crc = self.crc.sum();
        out.out.seek(SeekFrom::Start(member.offset))?;
        out.out.write_all(&member.local_header())?;
        out.out.seek(SeekFrom::Start(out.position))?;
        Ok(out)
    }
}

/// A member's directory entry.
struct Member {
    name: String,
    crc: u32,
    packed: u32,
    size: u32,
    offset: u64,
}

impl Member {
    fn local_header(&self) -> Vec<u8> {
        let mut bytes = b"PK\x03\x04".to_vec();
        put16(&mut bytes, &[DEFLATE_VERSION]);
        self.put_common(&mut bytes, 0);
        bytes.extend(self.name.as_bytes());
        bytes
    }

    fn directory_entry(&self) -> Vec<u8> {
        let mut extra = Vec::new();
        let offset = u32::try_from(self.offset).ok().filter(|offset| *offset != IN_ZIP64);
        if offset.is_none() {
            put16(&mut extra, &[1, 8]);
            extra.extend(self.offset.to_le_bytes());
        }
        let version = if extra.is_empty() { DEFLATE_VERSION } else { ZIP64_VERSION };
        let mut bytes = b"PK\x01\x02".to_vec();
        put16(&mut bytes, &[version, version]);
        self.put_common(&mut bytes, extra.len() as u16); // 0 or 12 bytes.
        put16(&mut bytes, &[0, 0, 0]); // Comment, disk, internal attributes.
        put32(&mut bytes, &[0, offset.unwrap_or(IN_ZIP64)]);
        bytes.extend(self.name.as_bytes());
        bytes.extend(extra);
        bytes
    }

    /// The fields that both headers share, from the flags to the lengths of name and extra field.
    fn put_common(&self, bytes: &mut Vec<u8>, extra_len: u16) {
        put16(bytes, &[0, DEFLATE_METHOD, 0, DATE]);
        put32(bytes, &[self.crc, self.packed, self.size]);
        put16(bytes, &[self.name.len() as u16, extra_len]); // Names have about a dozen letters.
    }
}

/// The records that follow a directory of `members` entries at offsets `start..end`.
fn directory_end(start: u64, end: u64, members: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let fits = members < u64::from(u16::MAX) && end < u64::from(IN_ZIP64);
    if !fits {
        bytes.extend(b"PK\x06\x06");
        put64(&mut bytes, &[44]);
        put16(&mut bytes, &[ZIP64_VERSION, ZIP64_VERSION]);
        put32(&mut bytes, &[0, 0]);
        put64(&mut bytes, &[members, members, end - start, start]);
        bytes.extend(b"PK\x06\x07");
        put32(&mut bytes, &[0]);
        put64(&mut bytes, &[end]);
        put32(&mut bytes, &[1]);
    }
    let short = |value: u64| if fits { value as u16 } else { u16::MAX };
    let long = |value: u64| if fits { value as u32 } else { IN_ZIP64 };
    bytes.extend(b"PK\x05\x06");
    put16(&mut bytes, &[0, 0, short(members), short(members)]);
    put32(&mut bytes, &[long(end - start), long(start)]);
    put16(&mut bytes, &[0]);
    bytes
}

fn put16(bytes: &mut Vec<u8>, values: &[u16]) {
    values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
}

fn put32(bytes: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
}

fn put64(bytes: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
}

/// A writer that counts the bytes written.
struct Counted<W> {
    out: W,
    position: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.position += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
