//! Writing one container: cuts bytes into blocks, and writes the packed blocks in the right order.

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

/// Plain bytes in a block.
const BLOCK_BYTES: usize = 1 << 20;
/// Members of archives up to this size are deflated in one call, which is faster than in parts; larger ones are streamed. The
/// reader has the same limit.
const MAX_WHOLE_BYTES: usize = 4 << 20;
/// Plain bytes in a block, and in a member that is deflated in one call, if many containers are written at the same time.
const SMALL_BYTES: usize = 128 << 10;
/// Upper limit on the length of a member's name.
const MAX_NAME_BYTES: usize = 1024;
/// Maximum number of used vectors that are kept.
const MAX_SPARE: usize = 8;

/// Statistics of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Number of plain bytes.
    pub bytes: u64,
    /// Number of bytes of the container.
    pub packed_bytes: u64,
    /// Number of members of an archive; 1 for other containers.
    pub members: u64,
}

/// Writes one container. Memory: the waiting blocks, at most two for each thread of the pool and four more; each has up to 4
/// MiB in an archive with members of that size, otherwise up to 1 MiB.
pub struct Packer<W: Write + Seek> {
    out: W,
    pool: Arc<Pool>,
    packing: Packing,
    level: u8,
    /// Bytes and blocks to write next, in order.
    pending: VecDeque<Pending>,
    /// Plain bytes of the current block.
    buffer: Vec<u8>,
    /// Number of bytes that can be appended to `buffer` without further checks. May be too small, never too large.
    room: usize,
    spare: Vec<Vec<u8>>,
    /// Number of bytes written to `out`.
    at: u64,
    packed: Packed,
    /// The members of an archive that have been written; the last one may be incomplete.
    members: Vec<ZipMember>,
    /// The open member of an archive.
    open: Option<Open>,
    checksum: Xxh32,
    /// Whether the first bytes of the container have been queued.
    has_begun: bool,
    block_bytes: usize,
    whole_bytes: usize,
    /// Maximum number of blocks that may wait to be written.
    n_waiting: usize,
}

/// The member that is being assembled.
struct Open {
    name: String,
    /// Present once the member is too large for one call.
    parts: Option<Parts>,
}

struct Parts {
    crc: Crc,
    len: u64,
    /// The last bytes of the previous part.
    before: Vec<u8>,
}

/// An item to write.
enum Pending {
    Bytes(Vec<u8>),
    Block(Receiver<Done>),
    Whole { name: String, len: u64, block: Receiver<Done> },
    Begin { name: String },
    End { crc32: u32, len: u64 },
}

impl<W: Write + Seek> Packer<W> {
    /// Begins a container at the start of `out`. Writes to `out` may be small, and large ones come in between.
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

    /// Uses small blocks of 128 KiB, and lets only two of them wait: for callers that write hundreds of containers at the
    /// same time. Compression is slightly worse. Must be called before anything is written.
    pub fn in_small_blocks(self) -> Packer<W> {
        self.in_blocks_of(SMALL_BYTES)
    }

    /// Like [`in_small_blocks`](Packer::in_small_blocks), with blocks of this many bytes.
    pub fn in_blocks_of(mut self, bytes: usize) -> Packer<W> {
        (self.block_bytes, self.whole_bytes, self.n_waiting) = (bytes, bytes, 2);
        self
    }

    /// Ends the previous member and begins one called `name`. Containers without members ignore this.
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
    /// `Io` if the file cannot be written, possibly for bytes of earlier calls; `Usage` if an archive has no member yet.
    /// After an error the container is unusable.
    // PERF: writers pass one or a few entries at a time; nearly all calls only have to copy them.
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

    /// Writes bytes that may begin or end a block.
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
                // More bytes follow: only now is it clear that this block is not the last.
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

    /// Writes everything that waits and ends the container. Returns the file, which may still have to be flushed.
    ///
    /// # Errors
    /// As for [`Packer::write`].
    pub fn finish(mut self) -> Result<(W, Packed)> {
        match self.packing {
            Packing::Plain => {}
            Packing::Zip => self.end_member()?,
            _ => {
                // An empty file is still written as a valid container.
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

    /// Submits the buffer as a block that is not the last.
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

    /// Queues the bytes that precede the first block.
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

    /// Submits the buffer as parts of a streamed member.
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

    /// After parts: ends the member, or keeps it open for further parts.
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

    /// Writes queued items in order until at most `n_left` of them are waiting.
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

    /// Goes back to the header of the member that was just written, and writes its sizes and checksum into it.
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

/// An LZ4 frame header: independent blocks of up to 256 KiB, and a checksum of everything at the end.
fn lz4_header() -> Vec<u8> {
    const _: () = assert!(LZ4_BLOCK_BYTES == 256 << 10);
    let descriptor = [0b0110_0100, 0b0101_0000];
    let mut header = vec![0x04, 0x22, 0x4d, 0x18];
    header.extend_from_slice(&descriptor);
    header.push((xxh32(&descriptor, 0) >> 8) as u8); // The format stores the second byte.
    header
}

impl<W: Write + Seek> fmt::Debug for Packer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packer({}, {} bytes)", self.packing.name(), self.packed.bytes)
    }
}
