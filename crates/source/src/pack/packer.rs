//! One container in the making: cuts bytes into blocks, and writes what comes back in the right order.

use std::collections::VecDeque;
use std::fmt;
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use libdeflater::Crc;
use xxhash_rust::xxh32::{Xxh32, xxh32};

use super::blocks::{LZ4_BLOCK_BYTES, WINDOW_BYTES, Work};
use super::pool::{Done, Job, Pool, gone};
use super::zip::{ZipMember, directory};
use super::{PackOptions, Packing};
use crate::error::{Error, ErrorKind, Result};

/// Plain bytes of a block.
const BLOCK_BYTES: usize = 1 << 20;
/// Members of archives up to this size are deflated in one call, which is faster than in parts; those larger stream.
/// The reader has the same limit.
const MAX_WHOLE_BYTES: usize = 4 << 20;
/// Plain bytes of a block, and of a member that is deflated in one call, where many containers are written at once.
const SMALL_BYTES: usize = 128 << 10;
/// Longest name of a member.
const MAX_NAME_BYTES: usize = 1024;
/// Used vectors that are kept.
const MAX_SPARE: usize = 8;

/// What was packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Plain bytes that went in.
    pub bytes: u64,
    /// Bytes of the container.
    pub packed_bytes: u64,
    /// Members of an archive, else 1.
    pub members: u64,
}

/// Writes one container. Memory: the blocks that wait, at most two for each thread of the pool and four more, each of up
/// to 4 MiB in an archive with members of that size, else 1 MiB.
pub struct Packer<W: Write + Seek> {
    out: W,
    pool: Arc<Pool>,
    packing: Packing,
    level: u8,
    /// What is written, or on its way.
    pending: VecDeque<Pending>,
    /// Plain bytes of the present block.
    buffer: Vec<u8>,
    /// How many bytes `buffer` takes without anything else having to be looked at. May be too small, never too large.
    room: usize,
    spare: Vec<Vec<u8>>,
    /// Bytes written to `out`.
    at: u64,
    packed: Packed,
    /// The members of an archive that were written, the last perhaps not to its end.
    members: Vec<ZipMember>,
    /// The open member of an archive.
    open: Option<Open>,
    checksum: Xxh32,
    /// True once the first bytes of the container are on their way.
    has_begun: bool,
    block_bytes: usize,
    whole_bytes: usize,
    /// How many blocks may wait to be written.
    n_waiting: usize,
}

/// The member that is being put together.
struct Open {
    name: String,
    /// Present once it is too large for one call.
    parts: Option<Parts>,
}

struct Parts {
    crc: Crc,
    len: u64,
    /// The last bytes of the part before.
    before: Vec<u8>,
}

/// What is to be written next.
enum Pending {
    Bytes(Vec<u8>),
    Block(Receiver<Done>),
    Whole { name: String, len: u64, block: Receiver<Done> },
    Begin { name: String },
    End { crc32: u32, len: u64 },
}

impl<W: Write + Seek> Packer<W> {
    /// Begins a container at the start of `out`. Many small writes may go to `out`, among large ones.
    pub fn new(out: W, pool: &Arc<Pool>, options: &PackOptions) -> Packer<W> {
        Packer {
            out,
            pool: pool.clone(),
            packing: options.packing,
            level: options.level(),
            pending: VecDeque::new(),
            buffer: Vec::new(),
            room: 0,
            spare: Vec::new(),
            at: 0,
            packed: Packed::default(),
            members: Vec::new(),
            open: None,
            checksum: Xxh32::new(0),
            has_begun: false,
            block_bytes: BLOCK_BYTES,
            whole_bytes: MAX_WHOLE_BYTES,
            n_waiting: 2 * pool.n_threads() + 2,
        }
    }

    /// Uses small blocks, of 128 KiB, and lets two of them wait: for callers that write hundreds of containers at once. Packs
    /// a little worse. To be said before anything is written.
    pub fn in_small_blocks(self) -> Packer<W> {
        self.in_blocks_of(SMALL_BYTES)
    }

    /// The same with blocks of this many bytes.
    pub fn in_blocks_of(mut self, bytes: usize) -> Packer<W> {
        (self.block_bytes, self.whole_bytes, self.n_waiting) = (bytes, bytes, 2);
        self
    }

    /// Ends the member before and begins one called `name`. Containers without members go on as if nothing had happened.
    ///
    /// # Errors
    /// As for [`Packer::write`]; `Limit` for a name of more than 1024 bytes.
    pub fn member(&mut self, name: &str) -> Result<()> {
        if self.packing != Packing::Zip {
            return Ok(());
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(Error::new(ErrorKind::Limit, "the name of a member has more than 1024 bytes"));
        }
        self.end_member()?;
        self.open = Some(Open { name: name.to_owned(), parts: None });
        Ok(())
    }

    /// Appends bytes, to the member begun last if this is an archive.
    ///
    /// # Errors
    /// `Io` if the file cannot be written; it may be about bytes of earlier calls. `Usage` if an archive has no member
    /// yet. After an error the container is no good.
    // PERF: writers hand over an entry or a few at a time; nearly all of them only have to be copied.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.room {
            return self.write_beyond(bytes);
        }
        self.room -= bytes.len();
        self.packed.bytes += bytes.len() as u64;
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes what may begin a block, or end one.
    fn write_beyond(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.packed.bytes += bytes.len() as u64;
        if self.packing == Packing::Plain {
            return self.put(bytes);
        }
        if self.packing == Packing::Zip && self.open.is_none() {
            return Err(Error::new(ErrorKind::Usage, "an archive wants a member before bytes"));
        }
        while !bytes.is_empty() {
            let is_whole = self.open.as_ref().is_some_and(|open| open.parts.is_none());
            let limit = if is_whole { self.whole_bytes } else { self.block_bytes };
            if self.buffer.len() >= limit {
                // More is to come: only now is it clear that this block is not the last.
                self.spill()?;
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(limit - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            self.room = limit - self.buffer.len();
            bytes = later;
        }
        Ok(())
    }

    /// Writes all that waits and ends the container; gives the file back, which may still have to be flushed.
    ///
    /// # Errors
    /// As for [`Packer::write`].
    pub fn finish(mut self) -> Result<(W, Packed)> {
        match self.packing {
            Packing::Plain => {}
            Packing::Zip => self.end_member()?,
            _ => {
                // An empty file of its kind is still one of its kind.
                if !self.buffer.is_empty() || !self.has_begun {
                    self.spill()?;
                }
                if self.packing == Packing::Lz4 {
                    let mut end = vec![0; 4];
                    end.extend_from_slice(&self.checksum.digest().to_le_bytes());
                    self.pending.push_back(Pending::Bytes(end));
                }
            }
        }
        self.settle(0)?;
        if self.packing == Packing::Zip {
            let directory = directory(&self.members, self.at);
            self.put(&directory)?;
        }
        self.packed.packed_bytes = self.at;
        self.packed.members = if self.packing == Packing::Zip { self.members.len() as u64 } else { 1 };
        Ok((self.out, self.packed))
    }

    /// Sends the buffer on its way, with more to follow.
    fn spill(&mut self) -> Result<()> {
        self.begin();
        let work = match self.packing {
            Packing::Plain => return Ok(()),
            Packing::Zip => return self.spill_part(false),
            Packing::Gzip => Work::Gzip,
            Packing::Snappy => Work::Snappy,
            Packing::Zstd => Work::Zstd,
            Packing::Lz4 => {
                self.checksum.update(&self.buffer);
                Work::Lz4
            }
        };
        let plain = self.take_buffer();
        let block = self.submit(work, plain)?;
        self.pending.push_back(Pending::Block(block));
        self.settle(self.n_waiting)
    }

    /// What stands before the first block.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        match self.packing {
            Packing::Lz4 => self.pending.push_back(Pending::Bytes(lz4_header())),
            Packing::Snappy => self.pending.push_back(Pending::Bytes(b"\xff\x06\0\0sNaPpY".to_vec())),
            _ => {}
        }
    }

    /// Sends the buffer on its way as parts of a member that streams.
    fn spill_part(&mut self, is_last: bool) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let mut parts = match open.parts.take() {
            Some(parts) => parts,
            None => {
                self.pending.push_back(Pending::Begin { name: open.name.clone() });
                Parts { crc: Crc::new(), len: 0, before: Vec::new() }
            }
        };
        let plain = self.take_buffer();
        parts.crc.update(&plain);
        parts.len += plain.len() as u64;
        let n_blocks = plain.len().div_ceil(BLOCK_BYTES).max(1);
        if n_blocks == 1 && !plain.is_empty() {
            let next = plain[plain.len().saturating_sub(WINDOW_BYTES)..].to_vec();
            let before = std::mem::replace(&mut parts.before, next);
            let block = self.submit(Work::DeflatePart { before, is_last }, plain)?;
            self.pending.push_back(Pending::Block(block));
            self.settle(self.n_waiting)?;
            return self.end_parts(open, parts, is_last);
        }
        for (i, block) in plain.chunks(BLOCK_BYTES).enumerate() {
            let next = block[block.len().saturating_sub(WINDOW_BYTES)..].to_vec();
            let before = std::mem::replace(&mut parts.before, next);
            let work = Work::DeflatePart { before, is_last: is_last && i + 1 == n_blocks };
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(block);
            let block = self.submit(work, copy)?;
            self.pending.push_back(Pending::Block(block));
            self.settle(self.n_waiting)?;
        }
        self.recycle(plain);
        self.end_parts(open, parts, is_last)
    }

    /// After parts: ends the member, or keeps it for those to come.
    fn end_parts(&mut self, mut open: Open, parts: Parts, is_last: bool) -> Result<()> {
        if is_last {
            self.pending.push_back(Pending::End { crc32: parts.crc.sum(), len: parts.len });
        } else {
            open.parts = Some(parts);
            self.open = Some(open);
        }
        Ok(())
    }

    fn end_member(&mut self) -> Result<()> {
        match &mut self.open {
            None => Ok(()),
            Some(open) if open.parts.is_none() => {
                let name = std::mem::take(&mut open.name);
                self.open = None;
                let plain = self.take_buffer();
                let len = plain.len() as u64;
                let block = self.submit(Work::DeflateWhole, plain)?;
                self.pending.push_back(Pending::Whole { name, len, block });
                self.settle(self.n_waiting)
            }
            Some(_) => self.spill_part(true),
        }
    }

    fn take_buffer(&mut self) -> Vec<u8> {
        self.room = 0;
        let mut next = self.spare.pop().unwrap_or_default();
        next.clear();
        std::mem::replace(&mut self.buffer, next)
    }

    fn recycle(&mut self, used: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(used);
        }
    }

    fn submit(&mut self, work: Work, plain: Vec<u8>) -> Result<Receiver<Done>> {
        let (done, block) = sync_channel(1);
        let out = self.spare.pop().unwrap_or_default();
        self.pool.submit(Job { work, level: self.level, plain, out, done })?;
        Ok(block)
    }

    /// Writes what comes first until at most `n_left` are waiting.
    fn settle(&mut self, n_left: usize) -> Result<()> {
        while self.pending.len() > n_left {
            let Some(next) = self.pending.pop_front() else { break };
            match next {
                Pending::Bytes(bytes) => self.put(&bytes)?,
                Pending::Block(block) => {
                    self.put_block(&block)?;
                }
                Pending::Whole { name, len, block } => {
                    let Done { packed, crc32, plain } = block.recv().map_err(|_| gone())?;
                    let packed = packed?;
                    let packed_len = packed.len() as u64;
                    let at = self.at;
                    let member = ZipMember { name, at, packed_len, len, crc32, has_room: false };
                    self.put(&member.local_header())?;
                    self.put(&packed)?;
                    self.members.push(member);
                    self.recycle(plain);
                    self.recycle(packed);
                }
                Pending::Begin { name } => {
                    let member =
                        ZipMember { name, at: self.at, packed_len: 0, len: 0, crc32: 0, has_room: true };
                    self.put(&member.local_header())?;
                    self.members.push(member);
                }
                Pending::End { crc32, len } => self.fill_in(crc32, len)?,
            }
        }
        Ok(())
    }

    fn put_block(&mut self, block: &Receiver<Done>) -> Result<()> {
        let Done { packed, plain, .. } = block.recv().map_err(|_| gone())?;
        let packed = packed?;
        self.put(&packed)?;
        self.recycle(plain);
        self.recycle(packed);
        Ok(())
    }

    /// Goes back to the header of the member that was just written, which now has its sizes.
    fn fill_in(&mut self, crc32: u32, len: u64) -> Result<()> {
        let Some(member) = self.members.last_mut() else { return Ok(()) };
        let header_len = member.local_header().len() as u64;
        (member.crc32, member.len, member.packed_len) = (crc32, len, self.at - member.at - header_len);
        let (header, at, end) = (member.local_header(), member.at, self.at);
        let mut fill = || {
            self.out.seek(SeekFrom::Start(at))?;
            self.out.write_all(&header)?;
            self.out.seek(SeekFrom::Start(end))
        };
        fill().map_err(|cause| Error::io("cannot write", cause).vanished())?;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|cause| Error::io("cannot write", cause).vanished())
    }
}

/// Independent blocks of up to 256 KiB, and a checksum over everything at the end.
fn lz4_header() -> Vec<u8> {
    const _: () = assert!(LZ4_BLOCK_BYTES == 256 << 10);
    let descriptor = [0b0110_0100, 0b0101_0000];
    let mut header = vec![0x04, 0x22, 0x4d, 0x18];
    header.extend_from_slice(&descriptor);
    header.push((xxh32(&descriptor, 0) >> 8) as u8); // The second byte, as the format has it.
    header
}

impl<W: Write + Seek> fmt::Debug for Packer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packer({}, {} bytes)", self.packing.name(), self.packed.bytes)
    }
}
