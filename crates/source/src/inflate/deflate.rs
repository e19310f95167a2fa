//! Deflate in its three wrappings: raw (in zip archives), gzip and zlib.
//!
//! Streaming only; whole small members go through libdeflate (see `whole.rs`). The gzip wrapping is parsed here, because it
//! allows things that the plain decompressor does not handle: several members, padding, and a checksum that libdeflate
//! computes faster.

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::Crc;

use super::{End, Expected, cut, skip, take, unreadable};
use crate::error::Error;
use crate::packed::Packed;

const CUT: &str = "the deflate data is cut short";

/// The outcome of a run over deflate data.
enum Run {
    Full,
    StreamEnd,
    Fault(Error),
}

/// Inflates until `out` is full or the deflate stream ends.
fn run(state: &mut Decompress, packed: &mut Packed, out: &mut [u8]) -> (usize, Run) {
    let mut n_out = 0;
    while n_out < out.len() {
        let input = match packed.fill(1) {
            Ok(input) => input,
            Err(cause) => return (n_out, Run::Fault(unreadable(cause))),
        };
        let at_end = input.is_empty();
        let before = (state.total_in(), state.total_out());
        let status = state.decompress(input, &mut out[n_out..], FlushDecompress::None);
        // Both are bounded by the lengths of the two slices.
        let used = (state.total_in() - before.0) as usize;
        let made = (state.total_out() - before.1) as usize;
        packed.consume(used);
        n_out += made;
        match status {
            Ok(Status::StreamEnd) => return (n_out, Run::StreamEnd),
            Ok(_) if used + made > 0 => {}
            // The end of the input is a fault only if the decompressor has nothing left to deliver.
            Ok(_) if at_end => return (n_out, Run::Fault(cut(packed, CUT))),
            Ok(_) => return (n_out, Run::Fault(bad_data(packed))),
            Err(error) if error.needs_dictionary().is_some() => {
                let fault = Error::unsupported("the data needs a preset dictionary").at_packed(packed.at());
                return (n_out, Run::Fault(fault));
            }
            // The decompressor's message depends on where the output ended, so it is not passed on.
            Err(_) => return (n_out, Run::Fault(bad_data(packed))),
        }
    }
    (n_out, Run::Full)
}

#[cold]
fn bad_data(packed: &Packed) -> Error {
    Error::malformed("bad deflate data").at_packed(packed.at())
}

/// A raw deflate stream, as in members of archives.
pub(crate) struct Deflate {
    state: Decompress,
    crc: Crc,
    len: u64,
    expected: Expected,
}

impl Deflate {
    pub(super) fn new(expected: Expected) -> Deflate {
        Deflate { state: Decompress::new(false), crc: Crc::new(), len: 0, expected }
    }

    pub(super) fn start(&mut self, expected: Expected) {
        self.state.reset(false);
        (self.crc, self.len, self.expected) = (Crc::new(), 0, expected);
    }

    pub(super) fn crc32(&self) -> u32 {
        self.crc.sum()
    }

    pub(super) fn inflate(&mut self, packed: &mut Packed, out: &mut [u8]) -> (usize, End) {
        // Bytes beyond the stated size are still data. The size is checked at the end, so that the result does not depend on
        // where blocks end.
        let (n_bytes, end) = run(&mut self.state, packed, out);
        self.crc.update(&out[..n_bytes]);
        self.len += n_bytes as u64;
        let end = match end {
            Run::Full => End::More,
            Run::StreamEnd => self.verify(packed).map_or_else(End::Fault, |()| End::Done),
            Run::Fault(error) => End::Fault(error),
        };
        (n_bytes, end)
    }

    fn verify(&self, packed: &Packed) -> Result<(), Error> {
        if let Some(len) = self.expected.len.filter(|len| *len != self.len) {
            let what = format!("the data inflates to `{}` bytes, stated are `{len}`", self.len);
            return Err(Error::malformed(what).at_packed(packed.at()));
        }
        match self.expected.crc32 {
            Some(crc) if crc != self.crc.sum() => {
                Err(Error::checksum("CRC-32", crc, self.crc.sum()).at_packed(packed.at()))
            }
            _ => Ok(()),
        }
    }
}

/// A gzip file: members one after another (RFC 1952), then zeros or nothing.
pub(crate) struct Gzip {
    state: Decompress,
    crc: Crc,
    /// Inflated bytes of the current member.
    len: u64,
    in_member: bool,
    n_members: u64,
    /// Inflated bytes of the members whose checksums were right.
    n_vouched: u64,
}

impl Default for Gzip {
    fn default() -> Gzip {
        Gzip {
            state: Decompress::new(false),
            crc: Crc::new(),
            len: 0,
            in_member: false,
            n_members: 0,
            n_vouched: 0,
        }
    }
}

impl Gzip {
    /// Prepares for another file.
    pub(super) fn restart(&mut self) {
        // `next_member` resets the decompressor.
        (self.in_member, self.n_members, self.n_vouched) = (false, 0, 0);
    }

    pub(super) fn vouched(&self) -> u64 {
        self.n_vouched
    }

    pub(super) fn inflate(&mut self, packed: &mut Packed, out: &mut [u8]) -> (usize, End) {
        let mut n_out = 0;
        while n_out < out.len() {
            if !self.in_member {
                match self.next_member(packed) {
                    Ok(true) => {}
                    Ok(false) => return (n_out, End::Done),
                    Err(error) => return (n_out, End::Fault(error)),
                }
            }
            let (n_bytes, end) = run(&mut self.state, packed, &mut out[n_out..]);
            self.crc.update(&out[n_out..n_out + n_bytes]);
            self.len += n_bytes as u64;
            n_out += n_bytes;
            let ended = match end {
                Run::Full => Ok(()),
                Run::StreamEnd => self.end_member(packed),
                Run::Fault(error) => Err(error),
            };
            if let Err(error) = ended {
                return (n_out, End::Fault(error));
            }
        }
        (n_out, End::More)
    }

    /// Reads the header of the next member; false if there is none.
    fn next_member(&mut self, packed: &mut Packed) -> Result<bool, Error> {
        if self.n_members > 0 && !packed.fill(2).map_err(unreadable)?.starts_with(&[0x1f, 0x8b]) {
            return only_padding(packed).map(|()| false);
        }
        read_gzip_header(packed)?;
        self.state.reset(false);
        (self.crc, self.len) = (Crc::new(), 0);
        self.in_member = true;
        self.n_members += 1;
        Ok(true)
    }

    fn end_member(&mut self, packed: &mut Packed) -> Result<(), Error> {
        self.in_member = false;
        let trailer: [u8; 8] = take(packed, "the trailer of the gzip data is cut short")?;
        let [c0, c1, c2, c3, l0, l1, l2, l3] = trailer;
        let (crc, len) = (u32::from_le_bytes([c0, c1, c2, c3]), u32::from_le_bytes([l0, l1, l2, l3]));
        if crc != self.crc.sum() {
            return Err(Error::checksum("CRC-32", crc, self.crc.sum()).at_packed(packed.at()));
        }
        // The trailer stores the length modulo 2^32.
        if u64::from(len) != self.len & 0xffff_ffff {
            return Err(Error::malformed(format!(
                "the data inflates to `{}` bytes, its trailer says `{len}`",
                self.len
            ))
            .at_packed(packed.at()));
        }
        self.n_vouched += self.len;
        Ok(())
    }
}

fn read_gzip_header(packed: &mut Packed) -> Result<(), Error> {
    const CUT: &str = "the gzip header is cut short";
    const HEADER_CRC: u8 = 1 << 1;
    const EXTRA: u8 = 1 << 2;
    const NAME: u8 = 1 << 3;
    const COMMENT: u8 = 1 << 4;
    const RESERVED: u8 = 0xe0;
    let at = packed.at();
    let [id1, id2, method, flags, ..] = take::<10>(packed, CUT)?;
    if (id1, id2, method) != (0x1f, 0x8b, 8) || flags & RESERVED != 0 {
        return Err(Error::malformed("bad gzip header").at_packed(at));
    }
    if flags & EXTRA != 0 {
        let len_bytes = u16::from_le_bytes(take(packed, CUT)?);
        skip(packed, u64::from(len_bytes), CUT)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            while take::<1>(packed, CUT)? != [0] {}
        }
    }
    if flags & HEADER_CRC != 0 {
        skip(packed, 2, CUT)?;
    }
    Ok(())
}

/// Tapes and block devices pad with zeros; anything else after the data is a fault.
fn only_padding(packed: &mut Packed) -> Result<(), Error> {
    loop {
        let shown = packed.fill(1).map_err(unreadable)?;
        if shown.is_empty() {
            return Ok(());
        }
        let zeros = shown.iter().take_while(|byte| **byte == 0).count();
        let all = zeros == shown.len();
        packed.consume(zeros);
        if !all {
            return Err(
                Error::malformed("there are bytes after the end of the packed data").at_packed(packed.at())
            );
        }
    }
}

/// A zlib file (RFC 1950): one stream, then zeros or nothing.
pub(crate) struct Zlib {
    state: Decompress,
}

impl Default for Zlib {
    fn default() -> Zlib {
        Zlib { state: Decompress::new(true) }
    }
}

impl Zlib {
    /// Prepares for another file.
    pub(super) fn restart(&mut self) {
        self.state.reset(true);
    }

    pub(super) fn inflate(&mut self, packed: &mut Packed, out: &mut [u8]) -> (usize, End) {
        let (n_bytes, end) = run(&mut self.state, packed, out);
        let end = match end {
            Run::Full => End::More,
            Run::StreamEnd => only_padding(packed).map_or_else(End::Fault, |()| End::Done),
            Run::Fault(error) => End::Fault(error),
        };
        (n_bytes, end)
    }
}
