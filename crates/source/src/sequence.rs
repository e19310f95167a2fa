//! The part of a stream that runs on one thread: members one after another, blocks one after another.
//!
//! It opens each member, chooses its decompressor, cuts the bytes into blocks of one size, and adds the place to errors.
//! [`crate::Stream`] runs one of these on the caller's thread, or several of them ahead of it.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::codec::Codec;
use crate::container::{Container, Distrusted, Member, Method};
use crate::error::{Error, ErrorKind, Result};
use crate::inflate::{End, Expected, Inflater};
use crate::packed::{Origin, Packed};
use crate::stream::BlockAt;
use crate::whole::{self, Filled, Progress, Whole};
use crate::zip::{self, LocalHeader, Next};

/// Initial size of a new block.
const FIRST_BLOCK_BYTES: usize = 16 << 10;

/// A sequential read over every `step`-th member of a range.
pub(crate) struct Sequence {
    container: Container,
    packed: Packed,
    /// On a pipe, members before this one are read without being delivered.
    first: usize,
    next: usize,
    end: usize,
    step: usize,
    block_bytes: usize,
    current: Option<Current>,
    /// A fault to report after the bytes before it.
    pending: Option<Error>,
    /// On a pipe, what is known about the place of the next header.
    place: PipePlace,
    over: bool,
    inflater: Inflater,
    whole: Whole,
    /// Offset in the file at which to begin inside the only member; `None` for the first byte.
    begin_at: Option<u64>,
}

/// The member that is being read.
struct Current {
    index: u32,
    name: String,
    /// Offset of its data in the file; then its stated sizes and checksum.
    data_at: u64,
    packed_len: Option<u64>,
    expected: Expected,
    offset: u64,
    /// Whether it is inflated in one call; otherwise block by block.
    is_whole: bool,
    /// The first byte of the next block, which was read to find out whether the previous block was the last.
    carry: Option<u8>,
    /// The outcome of the member after `carry`.
    end: Option<End>,
    /// Damage of the member that is already known.
    known: Option<Distrusted>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PipePlace {
    /// The cursor is where the next header should be.
    AtHeader,
    /// A fault hid the end of a member, so the next header must be searched.
    Lost,
    /// The pipe ended within a member; that has been reported.
    Cut,
}

impl Sequence {
    pub(crate) fn new(
        container: Container,
        origin: Origin,
        members: Range<usize>,
        step: usize,
        block_bytes: usize,
    ) -> Sequence {
        let is_indexed = container.is_indexed();
        let block_bytes = block_bytes.max(1);
        Sequence {
            container,
            packed: Packed::for_blocks(origin, block_bytes),
            first: members.start,
            next: if is_indexed { members.start } else { 0 },
            end: members.end,
            step,
            block_bytes,
            current: None,
            pending: None,
            place: PipePlace::AtHeader,
            over: false,
            inflater: Inflater::default(),
            whole: Whole::default(),
            begin_at: None,
        }
    }

    /// Begins at a landmark in the middle of a file instead.
    pub(crate) fn begin_at(mut self, packed_at: u64) -> Sequence {
        self.begin_at = Some(packed_at);
        self
    }

    /// See [`crate::Stream::next`].
    pub(crate) fn next(&mut self, block: &mut Vec<u8>) -> Result<Option<BlockAt>> {
        loop {
            if let Some(error) = self.pending.take() {
                if error.kind() == ErrorKind::Io {
                    self.close();
                }
                return Err(error);
            }
            if self.over {
                return Ok(None);
            }
            if let Some(current) = self.current.take() {
                if let Some(at) = self.fill(current, block) {
                    return Ok(Some(at));
                }
                continue;
            }
            match self.open_next() {
                Ok(true) => {}
                Ok(false) => self.close(),
                Err(error) => self.pending = Some(error.in_file(self.container.shared_name())),
            }
        }
    }

    /// Frees the buffers, the map and the descriptor.
    fn close(&mut self) {
        self.over = true;
        self.current = None;
        self.packed = Packed::new(Origin::Memory(Arc::from([])));
        self.inflater = Inflater::default();
        self.whole = Whole::default();
    }

    /// Fills one block of a member; `None` if a fault precedes the block's first byte.
    fn fill(&mut self, mut current: Current, block: &mut Vec<u8>) -> Option<BlockAt> {
        let known = current.known.as_ref().filter(|known| current.offset >= known.good_until);
        if let Some(error) = known.map(|known| known.error.clone()) {
            self.fault(error, &current);
            return None;
        }
        let mut filled = None;
        if current.is_whole {
            let member = Progress {
                codec: self.container.codec(),
                expected: current.expected,
                packed_len: current.packed_len,
                offset: current.offset,
            };
            filled = match self.whole.fill(&mut self.packed, member, block, self.block_bytes) {
                Filled::Block(n_bytes, end) => Some((n_bytes, end)),
                Filled::Unfit => {
                    current.is_whole = false;
                    if let Err(error) = self.restart(&current) {
                        self.fault(error, &current);
                        return None;
                    }
                    None
                }
                Filled::Doubtful => {
                    // Something is wrong with the member; reading it again finds out what.
                    current.is_whole = false;
                    if let Some(error) = self.doubt(&current) {
                        self.fault(error, &current);
                        return None;
                    }
                    None
                }
            };
        }
        let (n_bytes, end) = match filled {
            Some(filled) => filled,
            None => current.stream(&mut self.inflater, &mut self.packed, block, self.block_bytes),
        };
        let offset = current.offset;
        let (n_bytes, end) = self.only_sound(&current, n_bytes, end);
        block.truncate(n_bytes);
        current.offset += n_bytes as u64;
        let end = match end {
            End::Done if !self.container.is_indexed() => match self.leave_on_pipe(&current) {
                End::Fault(error) => {
                    if is_doubtful(&error) {
                        self.container.distrust(current.index, &error, 0, current.offset);
                    }
                    End::Fault(error)
                }
                end => end,
            },
            end => end,
        };
        let at = BlockAt { member: current.index, offset, last: matches!(end, End::Done) };
        match end {
            End::More => self.current = Some(current),
            End::Done => {}
            End::Fault(error) => {
                let next = self.continue_after(&error, &current);
                self.fault(error, &current);
                if let Some(next) = next {
                    (current.offset, current.carry, current.end) = (next, None, None);
                    // Stated size and checksum apply to the whole member only.
                    current.expected = Expected::default();
                    self.current = Some(current);
                }
                if n_bytes == 0 {
                    return None;
                }
            }
        }
        Some(at)
    }

    /// Moves to the next bytes after those that the carrying file has lost, and returns their offset. Only uncompressed files
    /// can be read from the middle.
    #[cold]
    fn continue_after(&mut self, error: &Error, current: &Current) -> Option<u64> {
        if !self.is_lost_by_carrier(error) || self.begin_at.is_some() {
            return None;
        }
        let next = self.packed.next_readable()?;
        let end = current.packed_len.and_then(|len| current.data_at.checked_add(len));
        if end.is_some_and(|end| next >= end) {
            return None;
        }
        self.packed.seek(next).ok()?;
        self.inflater = Inflater::default();
        Some(next - current.data_at)
    }

    /// True if the carrying file has lost bytes of an uncompressed file: the other bytes are still good.
    fn is_lost_by_carrier(&self, error: &Error) -> bool {
        error.is_of_carrier() && self.container.lies_unpacked()
    }

    /// Drops inflated bytes that are known to be damaged, and records a fault that makes earlier bytes doubtful.
    fn only_sound(&self, current: &Current, n_bytes: usize, end: End) -> (usize, End) {
        let (good_until, end) = match (&current.known, end) {
            (Some(known), End::More) => (known.good_until, End::More),
            (Some(known), _) => (known.good_until, End::Fault(known.error.clone())),
            (None, End::Fault(error))
                if is_doubtful(&error) && self.begin_at.is_none() && !self.is_lost_by_carrier(&error) =>
            {
                let n_inflated = current.offset + n_bytes as u64;
                let good_until = self.inflater.vouched(n_inflated);
                let is_sound_only = self.container.delivers_sound_only();
                let n_delivered = if is_sound_only { current.offset.max(good_until) } else { n_inflated };
                self.container.distrust(current.index, &error, good_until, n_delivered);
                let good_until = if is_sound_only { good_until } else { n_inflated };
                (good_until, End::Fault(error))
            }
            (None, end) => return (n_bytes, end),
        };
        let n_good = usize::try_from(good_until.saturating_sub(current.offset)).unwrap_or(usize::MAX);
        (n_bytes.min(n_good), end)
    }

    /// Prepares the inflater for a member that has delivered nothing yet.
    fn restart(&mut self, current: &Current) -> Result<()> {
        match self.container.codec() {
            Codec::Zip => self.inflater.start_deflate(current.expected),
            codec => self.inflater = Inflater::of(codec)?,
        }
        Ok(())
    }

    /// Reads a member to its end before any of its bytes are delivered. Returns the reason why none of them can be trusted,
    /// or `None` if they are good as far as they go; the inflater is then at the beginning of the member.
    #[cold]
    fn doubt(&mut self, current: &Current) -> Option<Error> {
        self.inflater.start_deflate(current.expected);
        let mut sink = vec![0; self.block_bytes.min(FIRST_BLOCK_BYTES)];
        let end = loop {
            match self.inflater.inflate(&mut self.packed, &mut sink) {
                (_, End::More) => {}
                (_, end) => break end,
            }
        };
        match end {
            End::Fault(error) if is_doubtful(&error) => {
                let error = error.at_packed(self.packed.at());
                self.container.distrust(current.index, &error, 0, 0);
                return Some(error);
            }
            // Reading it again comes to the same end, after delivering the good bytes.
            End::Fault(_) | End::Done | End::More => {}
        }
        self.inflater.start_deflate(current.expected);
        self.packed.seek(current.data_at).err().map(unreadable)
    }

    /// Records a fault of the current member; on a pipe, also moves to what follows.
    fn fault(&mut self, error: Error, current: &Current) {
        let error = match self.begin_at {
            Some(packed_at) => self.placed_from_the_front(error, packed_at, current.offset),
            None => error.at(current.offset),
        };
        let error = error.at_packed(self.packed.at());
        self.pending = Some(self.placed(error, current.index, &current.name));
        if self.container.is_indexed() {
            return;
        }
        self.packed.set_stop(u64::MAX);
        let end = current.packed_len.and_then(|len| current.data_at.checked_add(len));
        let skipped = match end {
            Some(end) => self.packed.seek(end),
            None => {
                self.place = PipePlace::Lost;
                Ok(())
            }
        };
        match skipped.and_then(|()| self.packed.fill(1).map(<[u8]>::is_empty)) {
            Ok(false) => {}
            Ok(true) | Err(_) => self.place = PipePlace::Cut,
        }
    }

    /// Corrects a fault `offset` bytes after a place in the middle of the file, as if reading had begun at the start of the
    /// file.
    fn placed_from_the_front(&self, error: Error, packed_at: u64, offset: u64) -> Error {
        let landmarks = self.container.landmarks().unwrap_or(&[]);
        let number = |at: u64| landmarks.binary_search_by_key(&at, |landmark| landmark.packed_at).ok();
        let before = match self.container.codec() {
            Codec::Plain => packed_at,
            _ => number(packed_at).map_or(0, |number| landmarks[number].at),
        };
        match error.packed_offset().and_then(number) {
            Some(number) => error.in_chunk(number),
            None => error,
        }
        .at(before + offset)
    }

    fn placed(&self, error: Error, index: u32, name: &str) -> Error {
        let error = match self.container.codec() {
            Codec::Zip => error.in_member(index, name),
            _ => error,
        };
        error.in_file(self.container.shared_name())
    }

    /// Opens the next member; false if there is none.
    fn open_next(&mut self) -> Result<bool> {
        if self.next >= self.end {
            return Ok(false);
        }
        if !self.container.is_indexed() {
            return self.open_next_on_pipe();
        }
        let container = self.container.clone();
        let Some(member) = container.members().get(self.next) else { return Ok(false) };
        let index = u32::try_from(self.next).unwrap_or(u32::MAX);
        self.next = self.next.saturating_add(self.step);
        let opened = match container.codec() {
            Codec::Zip => self.open_member(index, member),
            codec => self.open_file(codec),
        };
        self.current = Some(opened.map_err(|error| {
            if is_doubtful(&error) {
                self.container.distrust(index, &error, 0, 0);
            }
            self.placed(error.at(0), index, &member.name)
        })?);
        Ok(true)
    }

    fn open_file(&mut self, codec: Codec) -> Result<Current> {
        let mut current = Current::new(0, &self.container.members()[0], 0);
        if self.container.delivers_sound_only() && self.begin_at.is_none() {
            current.known = self.container.distrusted(0);
        }
        current.is_whole = self.begin_at.is_none()
            && current.known.is_none()
            && whole::suits_file(codec, self.packed.size(), self.block_bytes);
        if !current.is_whole {
            self.inflater = Inflater::of(codec)?;
        }
        if let Some(packed_at) = self.begin_at {
            self.packed.seek(packed_at).map_err(unreadable)?;
            self.inflater.skip_head();
            current.expected = Expected::default();
        }
        Ok(current)
    }

    /// Moves to a member that is listed in the index.
    fn open_member(&mut self, index: u32, member: &Member) -> Result<Current> {
        if let Some(refusal) = member.refusal {
            return Err(refusal.error());
        }
        if let Some(known) = self.container.distrusted(index) {
            return Err(known.error);
        }
        if self.container.is_unpacked() {
            self.packed.set_stop(u64::MAX);
            self.packed.seek(member.packed_at).map_err(unreadable)?;
            let current = Current::new(index, member, member.packed_at);
            self.start(member, &current)?;
            return Ok(current);
        }
        let packed = &mut self.packed;
        packed.set_stop(u64::MAX);
        let header =
            packed.seek(member.packed_at).and_then(|()| zip::next_local(packed)).map_err(unreadable)?;
        let Next::Member(header) = header else {
            let what = "there is no local header where the directory says";
            return Err(Error::malformed(what).at_packed(member.packed_at));
        };
        let mut current = Current::new(index, member, header.data_at);
        current.is_whole = whole::suits_member(member, self.block_bytes);
        self.start(member, &current)?;
        Ok(current)
    }

    /// Prepares the inflater for a member whose data begins at the cursor.
    fn start(&mut self, member: &Member, current: &Current) -> Result<()> {
        let stop = member.packed_len.and_then(|len| current.data_at.checked_add(len));
        self.packed.set_stop(stop.unwrap_or(u64::MAX));
        match member.method {
            _ if current.is_whole => {}
            Method::Stored => self.inflater.start_stored(current.expected),
            Method::Deflate => self.inflater.start_deflate(current.expected),
            Method::Other(number) => {
                return Err(Error::unsupported(format!("zip method `{number}` is not supported")));
            }
            Method::Lz4 | Method::Snappy | Method::Zstd | Method::Brotli => {
                return Err(Error::unsupported("this method is not supported in zip archives"));
            }
        }
        Ok(())
    }
}

/// Archives on a pipe: headers and data alternate, without a list of members.
impl Sequence {
    fn open_next_on_pipe(&mut self) -> Result<bool> {
        if self.place == PipePlace::Cut {
            return Ok(false);
        }
        self.packed.set_stop(u64::MAX);
        if self.place == PipePlace::Lost && !zip::find_local_header(&mut self.packed).map_err(unreadable)? {
            return Ok(false);
        }
        self.place = PipePlace::AtHeader;
        let at = self.packed.at();
        match zip::next_local(&mut self.packed).map_err(unreadable)? {
            Next::Directory => Ok(false),
            Next::Nothing | Next::Cut => {
                self.place = PipePlace::Cut;
                Err(Error::truncated("the archive ends before its directory").at_packed(at))
            }
            Next::Garbage => {
                // The bytes that were refused here may look plausible to the search.
                self.packed.consume(1);
                self.place = PipePlace::Lost;
                Err(Error::malformed("no header of a member where one is expected").at_packed(at))
            }
            Next::Member(LocalHeader { member, data_at, .. }) => {
                let index = u32::try_from(self.next).unwrap_or(u32::MAX);
                let is_wanted = self.next >= self.first;
                self.next = self.next.saturating_add(1);
                let current = Current::new(index, &member, data_at);
                let started = match member.refusal {
                    Some(refusal) => Err(refusal.error()),
                    None => self.start(&member, &current),
                };
                match started {
                    Ok(()) if is_wanted => self.current = Some(current),
                    Ok(()) => self.read_over(current),
                    Err(error) => self.fault(error, &current),
                }
                Ok(true)
            }
        }
    }

    /// Skips a member that was not asked for; its faults do not matter.
    fn read_over(&mut self, mut current: Current) {
        let mut sink = Vec::new();
        if current.packed_len.is_some() {
            self.fault(Error::unsupported("skipped"), &current);
        } else {
            loop {
                match current.stream(&mut self.inflater, &mut self.packed, &mut sink, self.block_bytes) {
                    (_, End::More) => {}
                    (n_bytes, End::Done) => {
                        current.offset += n_bytes as u64;
                        break;
                    }
                    (_, End::Fault(_)) => break,
                }
            }
        }
        self.pending = None;
    }

    /// Moves past a member that ended correctly and checks the record that may follow it.
    fn leave_on_pipe(&mut self, current: &Current) -> End {
        if self.container.codec() != Codec::Zip || current.packed_len.is_some() {
            return End::Done;
        }
        let packed_len = self.packed.at() - current.data_at;
        let found = self.inflater.crc32();
        match zip::read_descriptor(&mut self.packed, packed_len, current.offset) {
            Ok(Some(stored)) if stored == found => End::Done,
            Ok(Some(stored)) => End::Fault(Error::checksum("CRC-32", stored, found)),
            Ok(None) => End::Fault(Error::malformed("the record after the member does not state its size")),
            Err(cause) => End::Fault(unreadable(cause)),
        }
    }
}

impl Current {
    fn new(index: u32, member: &Member, data_at: u64) -> Current {
        Current {
            index,
            name: member.name.clone(),
            data_at,
            packed_len: member.packed_len,
            expected: Expected { len: member.len, crc32: member.crc32 },
            offset: 0,
            is_whole: false,
            carry: None,
            end: None,
            known: None,
        }
    }

    /// Fills a block and reads one byte more, so that the last block is known as such. A new block grows while it is filled,
    /// so that a short member does not pay for zeroing a long block.
    fn stream(
        &mut self,
        inflater: &mut Inflater,
        packed: &mut Packed,
        block: &mut Vec<u8>,
        block_bytes: usize,
    ) -> (usize, End) {
        let mut n_bytes = 0;
        if let Some(byte) = self.carry.take() {
            block.resize(block.len().max(1), 0);
            block[0] = byte;
            n_bytes = 1;
            if let Some(end) = self.end.take() {
                return (n_bytes, end);
            }
        }
        while n_bytes < block_bytes {
            let room = block.len().max(n_bytes.saturating_mul(2)).max(FIRST_BLOCK_BYTES).min(block_bytes);
            block.resize(room, 0);
            let (n_more, end) = inflater.inflate(packed, &mut block[n_bytes..]);
            n_bytes += n_more;
            if !matches!(end, End::More) {
                return (n_bytes, end);
            }
        }
        let mut byte = [0];
        let (n_ahead, end) = inflater.inflate(packed, &mut byte);
        if n_ahead == 0 {
            return (n_bytes, end);
        }
        self.carry = Some(byte[0]);
        self.end = (!matches!(end, End::More)).then_some(end);
        (n_bytes, End::More)
    }
}

/// True if a fault means that bytes before it may also be wrong: a wrong checksum or a bad code only shows that some bit of
/// the member has changed. If data ends too early, the bytes that are there are good.
fn is_doubtful(error: &Error) -> bool {
    error.kind() == ErrorKind::Malformed
}

thread_local! {
    /// Inflater for looks into the first bytes of files. Each file is remembered in a few small allocations; a new
    /// decompressor for each look would leave holes between those that nothing fits into.
    static LOOKS: RefCell<Inflater> = RefCell::default();
}

/// Reads the first inflated bytes of a file, or of the first member of an archive: as many as are good, at most `wanted`.
pub(crate) fn first_bytes(packed: Packed, codec: Codec, wanted: usize) -> Result<Vec<u8>> {
    let mut inflater = LOOKS.take();
    let bytes = look(&mut inflater, packed, codec, wanted);
    LOOKS.set(inflater);
    bytes
}

/// PERF: callers request enough for a long list, and most lists are short; so memory grows with the bytes found.
fn look(inflater: &mut Inflater, mut packed: Packed, codec: Codec, wanted: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    if codec == Codec::Zip {
        let Next::Member(header) = zip::next_local(&mut packed).map_err(unreadable)? else { return Ok(out) };
        let member = &header.member;
        let stop = member.packed_len.and_then(|len| header.data_at.checked_add(len));
        packed.set_stop(stop.unwrap_or(u64::MAX));
        match member.method {
            _ if member.refusal.is_some() => return Ok(out),
            Method::Stored => inflater.start_stored(Expected::default()),
            Method::Deflate => inflater.start_deflate(Expected::default()),
            _ => return Ok(out),
        }
    } else {
        inflater.restart(codec)?;
    }
    loop {
        let n_before = out.len();
        out.resize(wanted.min(FIRST_BLOCK_BYTES.max(4 * n_before)), 0);
        let (n_bytes, end) = inflater.inflate(&mut packed, &mut out[n_before..]);
        out.truncate(n_before + n_bytes);
        match end {
            End::Fault(error) if error.kind() == ErrorKind::Io => return Err(error),
            End::More if n_bytes > 0 && out.len() < wanted => {}
            _ => return Ok(out),
        }
    }
}

fn unreadable(cause: io::Error) -> Error {
    Error::io("cannot read", cause).vanished()
}
