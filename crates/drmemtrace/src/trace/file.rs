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

/// Number of bytes of a file that are searched for its header; a real header takes about 300.
const HEADER_BYTES: usize = 64 * ENTRY_BYTES;
/// Number of bytes that are searched for a second thread: more than a tracer's buffers of 64 KiB take after conversion.
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
    /// The header from its first entries.
    pub header: Header,
    /// Bytes of an entry on disk.
    pub entry_bytes: usize,
    /// Members of each piece.
    pub pieces: Vec<Range<usize>>,
    /// True if reading may start at any chunk.
    pub can_jump: bool,
    /// Number of its trace among several that are read together, from 0. SPEC: drmemtrace.md#view.
    pub workload: u16,
    /// Whether the counts of its chunks agree with those of its readers.
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
    // There are no other references yet.
    if let Some(file) = Arc::get_mut(&mut file) {
        file.header.chunk_instrs = chunk_instrs.unwrap_or(file.header.chunk_instrs);
        file.can_jump = self::can_jump(&file.container, &file.header);
        file.pieces = self::pieces(&file.container, file.can_jump);
    }
    Ok(file)
}

/// The first bytes of a file, taken from its first member that is not empty.
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
    // Damage is reported by the reader of the file.
    while head.len() < n_bytes && matches!(stream.next(&mut block), Ok(Some(_))) {
        head.extend_from_slice(&block);
    }
    head.truncate(n_bytes);
    Ok(head)
}

impl File {
    /// Findings from opening the file.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.container.damage().iter().map(container_finding).collect();
        findings.extend(self.header.findings(&self.name));
        findings
    }

    /// The number of a member's chunk, from the member's name.
    pub fn chunk_number(&self, member: u32) -> u64 {
        let name = |at: u32| self.container.members().get(at as usize).map(|member| &*member.name);
        chunk_number_of(member, name(member))
    }

    /// True if the file begins with a chunk after the first, whose `head` has its ordinal in place of a header.
    fn lacks_first_chunk(&self, head: &[Entry]) -> bool {
        self.header.stated.is_none()
            && self.chunk_number(self.first_member()) > 0
            && head.first().is_some_and(|first| first.is_marker(Marker::RECORD_ORDINAL))
    }

    /// The number of the first chunk that is present; the header is in chunk 0.
    pub(crate) fn first_chunk(&self) -> u64 {
        match self.header.chunk_instrs > 0 && self.header.stated.is_none() {
            true => self.chunk_number(self.first_member()),
            false => 0,
        }
    }

    /// True if a member is empty.
    pub(crate) fn is_empty_member(&self, member: u32) -> bool {
        self.container.members().get(member as usize).is_some_and(|member| member.len == Some(0))
    }

    /// The first member that is not empty; if all are, the first.
    pub(crate) fn first_member(&self) -> u32 {
        let n_members = self.container.members().len() as u32; // No archive has 2^32 members.
        (0..n_members).find(|member| !self.is_empty_member(*member)).unwrap_or(0)
    }

    /// The last member before another one that is not empty.
    pub(crate) fn member_before(&self, member: u32) -> Option<u32> {
        (0..member).rev().find(|member| !self.is_empty_member(*member))
    }

    /// Number of chunks that are missing right before a member, including those whose members are empty.
    pub(crate) fn n_missing_before(&self, member: u32) -> u64 {
        match self.member_before(member) {
            None => self.first_chunk(),
            Some(last) if self.header.chunk_instrs > 0 => {
                self.chunk_number(member).saturating_sub(self.chunk_number(last).saturating_add(1))
            }
            Some(_) => 0,
        }
    }

    /// Number of times that bytes of the file proved damaged after they were delivered. A pipe cannot be read again.
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

    /// True if a thread does not belong in the file, which was taken for another thread's file.
    pub(crate) fn is_stranger(&self, tid: u64) -> bool {
        !self.holds_several_threads() && self.header.is_header && tid != self.header.tid
    }

    /// Checks the thread that a raw entry names. If it does not belong in the file, the file is read again by a reader that
    /// counts records and reports it, as with seams ([`crate::seams`]).
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

/// The chunk number in a member's name; the member's position if there is none.
pub(crate) fn chunk_number_of(member: u32, name: Option<&str>) -> u64 {
    let number = name.and_then(|name| name.strip_prefix("chunk.")?.parse().ok());
    // A number below the position cannot be right.
    number.filter(|number| *number >= u64::from(member)).unwrap_or(member.into())
}

/// Number of times that bytes of these files, if they can be read again, proved damaged after they were delivered.
pub(crate) fn n_delivered_damaged(files: &[Arc<File>]) -> u64 {
    files.iter().map(|file| file.n_delivered_damaged()).sum()
}

pub(super) fn is_core_or_mixed(header: &Header) -> bool {
    header.is_mixed || header.filetype.any(FileType::CORE_SHARDED)
}

/// True if reading may start at any member of a file.
///
/// It may start at the chunks of a thread's file: each repeats the clock, the processor, its record ordinal and the
/// encodings, and holds a known number of instructions. A chunk does not repeat the running thread (core-sharded and mixed
/// files), open kernel regions and the window: such files are read from the start.
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
