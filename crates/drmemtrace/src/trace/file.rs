//! One file of a trace: opening it, its header, chunks and pieces.

use crate::header::{self, Header};
use crate::reader::EntryReader;
use crate::record::{ENTRY_BYTES, ENTRY_BYTES_32, Entry, FileType, Marker, of_workload};
use crate::seams::Seams;
use crate::widen;
use quipu_model::finding::source_rule;
use quipu_model::{Finding, Place, Result, Severity};
use quipu_source::{Ahead, Container, Source, StreamOptions};
use std::ops::Range;
use std::sync::Arc;

/// How many bytes of a file are looked at for its header; a real one takes about 300.
const HEADER_BYTES: usize = 64 * ENTRY_BYTES;
/// How far is looked for a second thread: further than a tracer's buffers of 64 KiB reach when converted.
const MIXED_BYTES: usize = 1 << 20;
/// Chunks are joined into pieces of at least this many inflated bytes, so that a piece outweighs its set-up.
const MIN_PIECE_BYTES: u64 = 1 << 19;

/// One file of a trace, shared by the trace and its readers.
#[derive(Debug)]
pub struct File {
    /// The opened container.
    pub container: Container,
    /// Name of the file.
    pub name: String,
    /// What its first entries say.
    pub header: Header,
    /// Bytes of an entry on disk.
    pub entry_bytes: usize,
    /// Members of each piece.
    pub pieces: Vec<Range<usize>>,
    /// True if reading may start at any chunk.
    pub can_jump: bool,
    /// Which of several traces it belongs to, counted from 0. SPEC: drmemtrace.md#view.
    pub workload: u16,
    /// Whether its chunks count the same as its readers.
    pub(crate) seams: Seams,
}

pub(super) fn open_file(source: &Source, entry_bytes: usize, workload: u16) -> Result<Arc<File>> {
    let container = source.container()?;
    container.deliver_sound_only();
    let mut head = head(source, &container, HEADER_BYTES)?;
    if entry_bytes == ENTRY_BYTES_32 {
        head = widen::widened(&head);
    }
    let mut header = header::read(Entry::slice(&head).0);
    if header.chunk_instrs == 0 && head.len() >= HEADER_BYTES {
        // A stream of the first versions may hold several threads, which take turns after a buffer each.
        head = self::head(source, &container, MIXED_BYTES)?;
        if entry_bytes == ENTRY_BYTES_32 {
            head = widen::widened(&head);
        }
        header = header::read(Entry::slice(&head).0);
    }
    header.tid = of_workload(workload, header.tid);
    let name = source.name().to_owned();
    let (pieces, can_jump, seams) = (vec![container.all_members()], false, Seams::default());
    let mut file = Arc::new(File { container, name, header, entry_bytes, pieces, can_jump, workload, seams });
    let chunk_instrs = match file.lacks_first_chunk(Entry::slice(&head).0) {
        true => EntryReader::instrs_in_first_member(&file)?,
        false => None,
    };
    // Only this function holds it yet.
    if let Some(file) = Arc::get_mut(&mut file) {
        file.header.chunk_instrs = chunk_instrs.unwrap_or(file.header.chunk_instrs);
        file.can_jump = self::can_jump(&file.container, &file.header);
        file.pieces = self::pieces(&file.container, file.can_jump);
    }
    Ok(file)
}

/// The first bytes of a file: of its first member that holds something.
fn head(source: &Source, container: &Container, n_bytes: usize) -> Result<Vec<u8>> {
    let head = source.head(n_bytes)?;
    let members = container.members();
    let first = members.iter().position(|member| member.len != Some(0));
    let Some(first) = first.filter(|first| *first > 0 && head.is_empty() && source.can_seek()) else {
        return Ok(head);
    };
    let options = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
    let mut stream = container.stream(first..first + 1, &options)?;
    let (mut head, mut block) = (Vec::new(), Vec::new());
    // Damage is reported by who reads the file.
    while head.len() < n_bytes && matches!(stream.next(&mut block), Ok(Some(_))) {
        head.extend_from_slice(&block);
    }
    head.truncate(n_bytes);
    Ok(head)
}

impl File {
    /// What opening it found wrong.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.container.damage().iter().map(container_finding).collect();
        findings.extend(self.header.findings(&self.name));
        findings
    }

    /// The number of the chunk that a member is, which its name says.
    pub fn chunk_number(&self, member: u32) -> u64 {
        let name = |at: u32| self.container.members().get(at as usize).map(|member| &*member.name);
        chunk_number_of(member, name(member))
    }

    /// True if the file begins with a chunk after the first, whose `head` gives its ordinal in place of a header.
    fn lacks_first_chunk(&self, head: &[Entry]) -> bool {
        self.header.stated.is_none()
            && self.chunk_number(self.first_member()) > 0
            && head.first().is_some_and(|first| first.is_marker(Marker::RECORD_ORDINAL))
    }

    /// The number of the first chunk that is there; the header stands in chunk 0.
    pub(crate) fn first_chunk(&self) -> u64 {
        match self.header.chunk_instrs > 0 && self.header.stated.is_none() {
            true => self.chunk_number(self.first_member()),
            false => 0,
        }
    }

    /// True if nothing is in a member.
    pub(crate) fn is_empty_member(&self, member: u32) -> bool {
        self.container.members().get(member as usize).is_some_and(|member| member.len == Some(0))
    }

    /// The first member that holds something; else the first.
    pub(crate) fn first_member(&self) -> u32 {
        let n_members = self.container.members().len() as u32; // No archive has 2^32 members.
        (0..n_members).find(|member| !self.is_empty_member(*member)).unwrap_or(0)
    }

    /// The last member before another that holds something.
    pub(crate) fn member_before(&self, member: u32) -> Option<u32> {
        (0..member).rev().find(|member| !self.is_empty_member(*member))
    }

    /// How many chunks are missing right before a member. Those whose members are empty are missing, too.
    pub(crate) fn n_missing_before(&self, member: u32) -> u64 {
        match self.member_before(member) {
            None => self.first_chunk(),
            Some(last) if self.header.chunk_instrs > 0 => {
                self.chunk_number(member).saturating_sub(self.chunk_number(last).saturating_add(1))
            }
            Some(_) => 0,
        }
    }

    /// How often bytes of the file proved damaged after they were delivered. Nothing of a pipe can be read again.
    pub(crate) fn n_delivered_damaged(&self) -> u64 {
        match self.container.source().can_seek() {
            true => self.container.n_delivered_damaged() + u64::from(self.seams.is_doubted()),
            false => 0,
        }
    }

    /// True if the file holds several threads, one after the other or in turns.
    pub(crate) fn holds_several_threads(&self) -> bool {
        is_core_or_mixed(&self.header)
    }

    /// True if a thread has no business in the file: one that was taken for the file of another.
    pub(crate) fn is_stranger(&self, tid: u64) -> bool {
        !self.holds_several_threads() && self.header.is_header && tid != self.header.tid
    }

    /// Judges the thread that a raw entry names. Where it is none of the file's, the file is read again by a reader that knows
    /// records and says so, as with seams ([`crate::seams`]).
    pub(crate) fn meet_thread(&self, tid: u64) {
        if self.is_stranger(tid) {
            self.seams.doubt();
        }
    }

    /// The bytes of a block of the file as entries of 12 bytes.
    pub(crate) fn entries<'b>(&self, block: &'b [u8], wide: &'b mut Vec<u8>) -> &'b [u8] {
        if self.entry_bytes == ENTRY_BYTES {
            return block;
        }
        wide.clear();
        widen::widen(block, wide);
        wide
    }

    /// The pieces from the one that holds the instruction with this ordinal, counted from 0; `None` for all of them.
    pub(crate) fn pieces_from(&self, instr: u64) -> Option<Range<u32>> {
        if !self.can_jump || instr == 0 {
            return None;
        }
        let member = usize::try_from(instr / self.header.chunk_instrs).ok()?;
        let piece = self.pieces.partition_point(|members| members.end <= member);
        (piece < self.pieces.len()).then_some(piece as u32..self.pieces.len() as u32) // At most one for each half megabyte.
    }
}

/// The number of the chunk that a member of this name is; its position if the name says none.
pub(crate) fn chunk_number_of(member: u32, name: Option<&str>) -> u64 {
    let number = name.and_then(|name| name.strip_prefix("chunk.")?.parse().ok());
    // A number that is lower than the position is made up.
    number.filter(|number| *number >= u64::from(member)).unwrap_or(member.into())
}

/// How often bytes of files that can be read again proved damaged after they were delivered.
pub(crate) fn n_delivered_damaged(files: &[Arc<File>]) -> u64 {
    files.iter().map(|file| file.n_delivered_damaged()).sum()
}

pub(super) fn is_core_or_mixed(header: &Header) -> bool {
    header.is_mixed || header.filetype.any(FileType::CORE_SHARDED)
}

/// True if reading may start at any member of a file.
///
/// It may at the chunks of a thread's file: each repeats the clock, the processor, its record ordinal and the encodings,
/// and holds a known number of instructions. What a chunk does not repeat is who runs (core-sharded and mixed files), open
/// kernel regions and the window: such files are read from the start.
fn can_jump(container: &Container, header: &Header) -> bool {
    container.members().len() > 1
        && header.chunk_instrs > 0
        && !header.has_windows
        && !is_core_or_mixed(header)
        && !header.filetype.has_kernel()
}

/// Splits the members of a file into runs that can be read independently.
fn pieces(container: &Container, can_jump: bool) -> Vec<Range<usize>> {
    let members = container.members();
    if !can_jump {
        return vec![container.all_members()];
    }
    let mut pieces = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, member) in members.iter().enumerate() {
        bytes += member.len.unwrap_or(MIN_PIECE_BYTES);
        if bytes >= MIN_PIECE_BYTES || index + 1 == members.len() {
            pieces.push(start..index + 1);
            (start, bytes) = (index + 1, 0);
        }
    }
    pieces
}

fn container_finding(error: &quipu_source::Error) -> Finding {
    Finding {
        rule: source_rule(error.kind()).into(),
        severity: Severity::Error,
        place: Place::from(error),
        message: error.what().to_owned(),
        count: 1,
        loss: None,
        is_stated: false,
        doubtful_from: None,
    }
}
