//! The real thread that is repeated, split into header, body, and encodings by instruction.
//!
//! This is no general trace reader. It handles the one file that it is given and refuses entries that this file does not
//! have.

use anyhow::{Context, Result, bail, ensure};
use flate2::read::DeflateDecoder;
use std::collections::HashMap;
use std::io::Read;

// Entry types; see docs/formats/drmemtrace.md.
const WRITE: u16 = 1;
const INSTR: u16 = 10;
const DATA_FLUSH_END: u16 = 21;
const BUNDLE: u16 = 17;
const INSTR_FLUSH: u16 = 18;
pub(super) const THREAD: u16 = 22;
pub(super) const THREAD_EXIT: u16 = 23;
const PID: u16 = 24;
const HEADER: u16 = 25;
pub(super) const FOOTER: u16 = 26;
pub(super) const MARKER: u16 = 28;
const NO_FETCH: u16 = 29;
const SYSENTER: u16 = 31;
const ENCODING: u16 = 47;
const TAKEN_JUMP: u16 = 48;
const UNTAKEN_JUMP: u16 = 49;

// Marker kinds.
pub(super) const TIMESTAMP: u16 = 2;
pub(super) const CPU_ID: u16 = 3;
pub(super) const CHUNK_INSTR_COUNT: u16 = 20;
pub(super) const CHUNK_FOOTER: u16 = 21;
pub(super) const RECORD_ORDINAL: u16 = 22;
const BRANCH_TARGET: u16 = 29;

/// One entry as stored in the file: type, size and value, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(pub(super) [u8; 12]);

/// Builds a marker entry.
pub(super) fn marker(kind: u16, value: u64) -> Entry {
    Entry::new(MARKER, kind, value)
}

impl Entry {
    pub(super) fn new(kind: u16, size: u16, value: u64) -> Entry {
        let mut bytes = [0; 12];
        bytes[0..2].copy_from_slice(&kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&size.to_le_bytes());
        bytes[4..12].copy_from_slice(&value.to_le_bytes());
        Entry(bytes)
    }

    /// Type of the entry.
    pub(super) fn kind(&self) -> u16 {
        u16::from_le_bytes([self.0[0], self.0[1]])
    }

    /// Number of bytes accessed, or the kind of a marker.
    pub(super) fn size(&self) -> u16 {
        u16::from_le_bytes([self.0[2], self.0[3]])
    }

    /// Address, or the value of a marker.
    pub(super) fn value(&self) -> u64 {
        let mut value = [0; 8];
        value.copy_from_slice(&self.0[4..12]);
        u64::from_le_bytes(value)
    }

    pub(super) fn set_value(&mut self, value: u64) {
        self.0[4..12].copy_from_slice(&value.to_le_bytes());
    }

    /// True if a reader shows the entry as a record. The caller has to handle the copies after the start of a chunk.
    pub(super) fn is_record(&self) -> bool {
        match self.kind() {
            HEADER | FOOTER | THREAD | PID | ENCODING => false,
            MARKER => !matches!(self.size(), RECORD_ORDINAL | BRANCH_TARGET),
            _ => true,
        }
    }
}

/// One entry of the body, with the entries that precede it.
pub(super) struct Step {
    pub(super) entry: Entry,
    /// The hidden entry with the target of an indirect branch.
    pub(super) target: Option<Entry>,
    /// The instruction's encoding, as an index into [`Template::codes`].
    pub(super) code: Option<u32>,
}

impl Step {
    /// True for instructions, including those that were not fetched.
    pub(super) fn is_instr(&self) -> bool {
        self.counts() || self.entry.kind() == NO_FETCH
    }

    /// True for entries that count as instructions.
    pub(super) fn counts(&self) -> bool {
        let kind = self.entry.kind();
        (INSTR..BUNDLE).contains(&kind) || matches!(kind, SYSENTER | TAKEN_JUMP | UNTAKEN_JUMP)
    }

    /// True for instructions that can transfer control elsewhere than to the next one.
    pub(super) fn is_branch(&self) -> bool {
        self.counts() && self.entry.kind() != INSTR
    }
}

/// The encoding of one instruction.
pub(super) struct Code {
    /// Number of its address; addresses are numbered from 0 in order of appearance.
    pub(super) pc: usize,
    /// The encoding entries that carry its bytes.
    pub(super) pieces: Vec<Entry>,
}

/// A thread, split into its parts.
pub(super) struct Template {
    /// All entries before the first time stamp.
    pub(super) header: Vec<Entry>,
    /// All entries from the first time stamp up to the last instruction, without it: it is the call that ends the thread.
    pub(super) steps: Vec<Step>,
    /// The distinct encodings.
    pub(super) codes: Vec<Code>,
    /// Number of distinct addresses among the codes.
    pub(super) n_pcs: usize,
    /// The thread's id.
    pub(super) thread: u64,
    /// Microseconds to add to time stamps for each repetition.
    pub(super) duration: u64,
}

impl Template {
    /// Splits the trace in an archive that has a single member.
    pub(super) fn read(archive: &[u8]) -> Result<Template> {
        let bytes = only_member(archive)?;
        let (entries, rest) = bytes.as_chunks::<12>();
        ensure!(rest.is_empty(), "the member ends inside an entry");
        let mut entries = entries.iter().map(|bytes| Entry(*bytes)).peekable();
        let is_clock = |entry: &Entry| entry.kind() == MARKER && entry.size() == TIMESTAMP;
        let mut header = Vec::new();
        while let Some(entry) = entries.next_if(|entry| !is_clock(entry)) {
            header.push(entry);
        }
        let thread =
            header.iter().find(|entry| entry.kind() == THREAD).context("no thread in the header")?.value();

        let mut sorter = Sorter::default();
        for entry in entries {
            sorter.add(entry)?;
        }
        let Sorter { mut steps, codes, pcs, .. } = sorter;
        let last = steps.iter().rposition(Step::is_instr).context("no instruction")?;
        steps.truncate(last);

        let mut clocks =
            steps.iter().map(|step| &step.entry).filter(|entry| is_clock(entry)).map(Entry::value);
        let first = clocks.next().context("no time stamp")?;
        let duration = clocks.next_back().unwrap_or(first) - first + 1;
        Ok(Template { header, steps, codes, n_pcs: pcs.len(), thread, duration })
    }
}

/// Attaches encodings and branch targets to the instructions that follow them.
#[derive(Default)]
struct Sorter {
    steps: Vec<Step>,
    codes: Vec<Code>,
    /// Address number and latest code, by address.
    pcs: HashMap<u64, (usize, u32)>,
    pieces: Vec<Entry>,
    target: Option<Entry>,
}

impl Sorter {
    fn add(&mut self, entry: Entry) -> Result<()> {
        match entry.kind() {
            ENCODING => self.pieces.push(entry),
            MARKER if entry.size() == BRANCH_TARGET => self.target = Some(entry),
            MARKER | 0..=WRITE | THREAD_EXIT | FOOTER => {
                self.steps.push(Step { entry, target: None, code: None });
            }
            BUNDLE | INSTR_FLUSH..=DATA_FLUSH_END | HEADER | THREAD | PID => {
                bail!("entries of type {} are not expected here", entry.kind())
            }
            _ => {
                let mut step = Step { entry, target: self.target.take(), code: None };
                if step.is_instr() {
                    step.code = Some(self.code(entry.value())?);
                }
                self.steps.push(step);
            }
        }
        Ok(())
    }

    /// Returns the code of the instruction at `pc`: the pieces just read, or if there are none, those it had before.
    fn code(&mut self, pc: u64) -> Result<u32> {
        let pieces = std::mem::take(&mut self.pieces);
        let known = self.pcs.get(&pc).copied();
        if let Some((_, code)) = known
            && (pieces.is_empty() || self.codes[code as usize].pieces == pieces)
        {
            return Ok(code);
        }
        ensure!(!pieces.is_empty(), "no encoding for the instruction at {pc:#x}");
        let number = known.map_or(self.pcs.len(), |(number, _)| number);
        let code = u32::try_from(self.codes.len())?;
        self.codes.push(Code { pc: number, pieces });
        self.pcs.insert(pc, (number, code));
        Ok(code)
    }
}

/// Inflates the first member of a zip archive, whose local header must state its size.
fn only_member(archive: &[u8]) -> Result<Vec<u8>> {
    let u16_at =
        |at: usize| archive.get(at..at + 2).map(|bytes| usize::from(bytes[0]) | usize::from(bytes[1]) << 8);
    ensure!(archive.starts_with(b"PK\x03\x04"), "no zip archive");
    let short = "the archive ends in its first header";
    let (low, high) = (u16_at(18).context(short)?, u16_at(20).context(short)?);
    let start = 30 + u16_at(26).context(short)? + u16_at(28).context(short)?;
    let packed = archive.get(start..start + (low | high << 16)).context("the first member is cut off")?;
    let mut bytes = Vec::new();
    DeflateDecoder::new(packed).read_to_end(&mut bytes)?;
    Ok(bytes)
}
