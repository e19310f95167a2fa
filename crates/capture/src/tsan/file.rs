//! What is in a capture file. SPEC: capture.md#layout, capture.md#reading.
//!
//! A program may have died at any moment, so nothing in the file is taken for granted: an extent counts if its head stands
//! where it says, the cells of a buffer if they have its tag, and of a chunk that was being written its buffer is still there.

use super::merge::Damaged;
use super::rules;
use quipu_cells::cell::{CELL_BYTES, Cell, LOW};
use quipu_cells::layout::{
    BUFFER_BYTES, BUFFER_CELLS, BUFFER_MAGIC, CHUNK_MAGIC, EXTENT_ALIGN, EXTENT_HEAD_BYTES, HEADER_BYTES,
    MAGIC, PACKED, PLAIN, VERSION, extent, header, state,
};
use quipu_cells::pack::{Table, unpack};
use quipu_model::fresh::cannot;
use quipu_model::{Error, Finding, Place, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes read at a time while looking for the next extent after a gap.
const SCAN_BYTES: usize = 64 << 10;

/// A capture file, with everything that it holds found.
#[derive(Debug)]
pub struct Capture {
    file: File,
    pub(super) name: String,
    head: Vec<u8>,
    /// Parts of each thread, by its number, in order.
    threads: BTreeMap<u64, Vec<Part>>,
    /// Bytes that belong to nothing that could be read.
    pub gap_bytes: u64,
    /// Where the first of them are.
    gap_at: Option<u64>,
}

/// A stretch of what a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    offset: u64,
    n_bytes: u64,
    /// The kernel's number of the thread.
    pub tid: u64,
    /// Number among those of the thread.
    pub seq: u64,
    /// The monotonic clock when it was begun, in ns.
    pub ticks: u64,
    form: Form,
}

impl Part {
    /// Where it begins in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }
}

/// How the cells of a part stand in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In a buffer: those that have this tag.
    Tagged(u64),
    /// As they are: this many bytes.
    Plain(usize),
    /// Packed: this many bytes.
    Packed(usize),
}

/// True if this is a capture file, whatever else is in it.
pub fn is_capture(path: &Path) -> bool {
    let mut first = [0; 8];
    // A pipe, or anything else that is not a plain file, would lose the bytes that are read here.
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file())
        && File::open(path).is_ok_and(|file| read_up_to(&file, &mut first, 0).is_ok_and(|n| n == first.len()))
        && u64::from_le_bytes(first) == MAGIC
}

impl Capture {
    /// Opens a file and finds what is in it.
    ///
    /// # Errors
    /// `Unsupported` for anything but a capture file of this version; `Io` if it cannot be read.
    pub fn open(path: &Path) -> Result<Capture> {
        let name = path.display().to_string();
        let cannot = |cause| cannot("read", path, cause);
        let file = File::open(path).map_err(cannot)?;
        let mut head = vec![0; HEADER_BYTES as usize];
        let n_bytes = read_up_to(&file, &mut head, 0).map_err(cannot)?;
        if n_bytes < head.len() || word(&head, header::MAGIC) != MAGIC {
            return Err(Error::unsupported("this is no capture file")
                .in_file(name)
                .hint("a program that was compiled with `quipu cc` leaves one when it runs"));
        }
        let version = word(&head, header::VERSION);
        if version != VERSION {
            let what = format!("version {version} of capture files, where {VERSION} is what can be read");
            return Err(Error::unsupported(what).in_file(name));
        }
        let mut capture = Capture { file, name, head, threads: BTreeMap::new(), gap_bytes: 0, gap_at: None };
        capture.find_parts()?;
        Ok(capture)
    }

    /// A field of the header: an offset of [`quipu_cells::layout::header`].
    pub fn header(&self, offset: usize) -> u64 {
        word(&self.head, offset)
    }

    /// The version of the file.
    pub fn version(&self) -> u64 {
        self.header(header::VERSION)
    }

    /// The process.
    pub fn pid(&self) -> u64 {
        self.header(header::PID)
    }

    /// The process that it was forked from, if that was recorded, too.
    pub fn parent(&self) -> Option<u64> {
        Some(self.header(header::PARENT)).filter(|pid| *pid != 0)
    }

    /// When it began, in seconds since 1970.
    pub fn started(&self) -> u64 {
        self.header(header::START_NS) / 1_000_000_000
    }

    /// The name of the file, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The threads: number and parts of each.
    pub fn threads(&self) -> impl Iterator<Item = (u64, &[Part])> {
        self.threads.iter().map(|(number, parts)| (*number, &parts[..]))
    }

    /// How many parts of threads should be there, going by their numbers, and are not.
    pub fn n_missing(&self) -> u64 {
        let missing = |parts: &Vec<Part>| {
            let last = parts.last().map_or(0, |part| part.seq.saturating_add(1));
            last.saturating_sub(parts.len() as u64)
        };
        // Damaged numbers may add up to more than there can be.
        self.threads.values().map(missing).fold(0, u64::saturating_add)
    }

    /// Goes through the file from extent to extent.
    fn find_parts(&mut self) -> Result<()> {
        let end = self.file.metadata().map_err(|cause| self.cannot(cause))?.len();
        let mut found: BTreeMap<(u64, u64), Part> = BTreeMap::new();
        let mut at = HEADER_BYTES;
        while at < end {
            let mut head = [0; EXTENT_HEAD_BYTES];
            let n_bytes = read_up_to(&self.file, &mut head, at).map_err(|cause| self.cannot(cause))?;
            let part = if n_bytes == head.len() { part_at(&head, at, end) } else { None };
            let Some((thread, part)) = part else {
                // Zeros are room that was claimed, and not used before the program died.
                let n_first = u64::from(head[..EXTENT_ALIGN as usize].iter().any(|byte| *byte != 0));
                let (next, n_used) = self.next_extent(at + EXTENT_ALIGN, end)?;
                self.add_gap(at, (n_first + n_used) * EXTENT_ALIGN);
                at = next;
                continue;
            };
            at = (at + word(&head, extent::BYTES)).next_multiple_of(EXTENT_ALIGN);
            let Some(part) = part else { continue };
            // A part that stands twice was being copied from its buffer, which is whole.
            let is_buffer = matches!(part.form, Form::Tagged(_));
            let known = found.entry((thread, part.seq)).or_insert(part);
            if is_buffer {
                *known = part;
            }
        }
        let n_cut = self.cut_bytes(end)?;
        self.add_gap(end, n_cut);
        for ((thread, _), part) in found {
            self.threads.entry(thread).or_default().push(part);
        }
        Ok(())
    }

    fn add_gap(&mut self, at: u64, n_bytes: u64) {
        if n_bytes > 0 {
            self.gap_bytes += n_bytes;
            self.gap_at.get_or_insert(at);
        }
    }

    /// What could not be read, as every verb reports it; `damaged` is what reading the events found.
    pub fn findings(&self, damaged: Damaged) -> Vec<Finding> {
        let place = |offset| Place { file: Some(self.name.clone()), offset, ..Place::default() };
        let mut findings = Vec::new();
        if self.gap_bytes > 0 {
            let what = format!("`{}` bytes are missing or belong to no part of a thread", self.gap_bytes);
            findings.push(rules::UNREAD.broken(place(self.gap_at), what));
        }
        if self.n_missing() > 0 {
            let what = format!("`{}` parts of threads are missing, going by their numbers", self.n_missing());
            findings.push(rules::MISSING.broken(place(None), what));
        }
        if damaged.n_parts > 0 {
            let what = format!("`{}` parts of threads cannot be read to their end", damaged.n_parts);
            findings.push(rules::DAMAGED.broken(place(damaged.first_at), what));
        }
        findings
    }

    /// How many bytes are missing at the end of a file that was cut.
    ///
    /// The program claims room before it writes to it, so a chunk may be missing where it died; but its buffers were all
    /// there before they were named, and all of it before it exited.
    fn cut_bytes(&self, end: u64) -> Result<u64> {
        let claimed = self.header(header::END);
        let mut is_cut =
            self.header(header::STATE) & state::EXITED != 0 && claimed > end.next_multiple_of(EXTENT_ALIGN);
        let mut buffer = self.header(header::BUFFERS);
        // Each buffer names one that was claimed before it. One beyond the end of the file cannot be read, and a damaged
        // header may name a place that no file can have.
        while buffer != 0 && !is_cut {
            if buffer.saturating_add(BUFFER_BYTES as u64) > end {
                is_cut = true;
                break;
            }
            let mut head = [0; EXTENT_HEAD_BYTES];
            read_up_to(&self.file, &mut head, buffer).map_err(|cause| self.cannot(cause))?;
            let older = word(&head, extent::NEXT);
            buffer = if older < buffer { older } else { 0 };
        }
        Ok(if is_cut { claimed.saturating_sub(end).max(1) } else { 0 })
    }

    /// Where the next extent may begin at or after `at`: a place with a head that names itself. Also how many places before
    /// it have anything but zeros.
    fn next_extent(&self, mut at: u64, end: u64) -> Result<(u64, u64)> {
        let mut n_used = 0;
        let mut bytes = vec![0; SCAN_BYTES];
        while at < end {
            let n_bytes = read_up_to(&self.file, &mut bytes, at).map_err(|cause| self.cannot(cause))?;
            let step = EXTENT_ALIGN as usize;
            for (nth, head) in bytes[..n_bytes].chunks_exact(step).enumerate() {
                let place = at + (nth * step) as u64;
                let magic = word(head, extent::MAGIC);
                if (magic == BUFFER_MAGIC || magic == CHUNK_MAGIC) && word(head, extent::OFFSET) == place {
                    return Ok((place, n_used));
                }
                n_used += u64::from(head.iter().any(|byte| *byte != 0));
            }
            at += SCAN_BYTES as u64;
        }
        Ok((end, n_used))
    }

    /// The cells of a part, appended to `cells`. Those that were claimed and not written are holes.
    ///
    /// Returns whether it could be read as a whole.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn cells(&self, part: &Part, cells: &mut Vec<Cell>) -> Result<bool> {
        let mut bytes = vec![0; part.n_bytes as usize];
        let at = part.offset + EXTENT_HEAD_BYTES as u64;
        let n_bytes = read_up_to(&self.file, &mut bytes, at).map_err(|cause| self.cannot(cause))?;
        bytes.truncate(n_bytes);
        let raw = bytes.chunks_exact(CELL_BYTES).map(|cell| (word(cell, 0), word(cell, 8)));
        match part.form {
            Form::Tagged(tag) => {
                let before = cells.len();
                let cell = |(word, side)| {
                    if side & !LOW == tag { Cell { word, side: side & LOW } } else { Cell::HOLE }
                };
                cells.extend(raw.map(cell));
                let last = cells[before..].iter().rposition(|cell| *cell != Cell::HOLE);
                cells.truncate(before + last.map_or(0, |last| last + 1));
                Ok(true)
            }
            Form::Plain(n_cells) => {
                let before = cells.len();
                cells.extend(raw.map(|(word, side)| Cell { word, side: side & LOW }).take(n_cells));
                Ok(cells.len() - before == n_cells)
            }
            Form::Packed(n_cells) => Ok(unpack(&bytes, n_cells, &mut Table::default(), cells)),
        }
    }

    fn cannot(&self, cause: std::io::Error) -> Error {
        cannot("read", Path::new(&self.name), cause)
    }
}

/// What the head of an extent at `at` says: the thread and the part, if there is one in it. `None` if it is no head.
fn part_at(head: &[u8], at: u64, end: u64) -> Option<(u64, Option<Part>)> {
    let (magic, n_bytes) = (word(head, extent::MAGIC), word(head, extent::BYTES));
    let is_sound = word(head, extent::OFFSET) == at && n_bytes >= EXTENT_HEAD_BYTES as u64;
    if !is_sound || n_bytes > BUFFER_BYTES as u64 || at + EXTENT_HEAD_BYTES as u64 > end {
        return None;
    }
    let form = match magic {
        BUFFER_MAGIC => match word(head, extent::TAG) {
            0 => return Some((0, None)),
            tag => Form::Tagged(tag),
        },
        CHUNK_MAGIC => {
            let n_cells = usize::try_from(word(head, extent::CELLS)).ok().filter(|n| *n <= BUFFER_CELLS)?;
            match word(head, extent::ENCODING) {
                PLAIN => Form::Plain(n_cells),
                PACKED => Form::Packed(n_cells),
                _ => return None,
            }
        }
        _ => return None,
    };
    let n_bytes = match form {
        Form::Tagged(_) => (BUFFER_CELLS * CELL_BYTES) as u64,
        _ => n_bytes - EXTENT_HEAD_BYTES as u64,
    };
    let part = Part {
        offset: at,
        n_bytes,
        tid: word(head, extent::TID),
        seq: word(head, extent::SEQ),
        ticks: word(head, extent::TICKS),
        form,
    };
    Some((word(head, extent::THREAD), Some(part)))
}

/// Eight bytes as a number; 0 where there are none.
fn word(bytes: &[u8], offset: usize) -> u64 {
    let word = bytes.get(offset..offset + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}

/// Reads as many bytes as there are, up to the length of `bytes`.
fn read_up_to(file: &File, bytes: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut n_bytes = 0;
    while n_bytes < bytes.len() {
        match file.read_at(&mut bytes[n_bytes..], at + n_bytes as u64) {
            Ok(0) => break,
            Ok(n) => n_bytes += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with these fields in its header, and chunks without cells of thread 1 with these numbers.
    fn opened(fields: &[(usize, u64)], numbers: &[u64]) -> Capture {
        let mut file = vec![0; HEADER_BYTES as usize];
        let put = |file: &mut [u8], at: usize, value: u64| {
            file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        put(&mut file, header::MAGIC, MAGIC);
        put(&mut file, header::VERSION, VERSION);
        fields.iter().for_each(|(at, value)| put(&mut file, *at, *value));
        for (nth, number) in numbers.iter().enumerate() {
            let at = file.len();
            file.resize(at + EXTENT_HEAD_BYTES, 0);
            let head = &mut file[at..];
            put(head, extent::MAGIC, CHUNK_MAGIC);
            put(head, extent::OFFSET, at as u64);
            put(head, extent::BYTES, EXTENT_HEAD_BYTES as u64);
            put(head, extent::THREAD, nth as u64 + 1);
            put(head, extent::SEQ, *number);
        }
        // A piece of an extent, which belongs to nothing.
        file.push(1);
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.capture");
        std::fs::write(&path, file).unwrap();
        Capture::open(&path).unwrap()
    }

    #[test]
    fn damaged_numbers_of_parts_add_up_to_no_more_than_there_can_be() {
        let capture = opened(&[], &[u64::MAX, u64::MAX, 3]);
        assert_eq!(capture.n_missing(), u64::MAX);
        assert_eq!(opened(&[], &[3, 0]).n_missing(), 3);
    }

    #[test]
    fn a_damaged_header_leaves_a_file_that_can_be_read() {
        let huge = u64::MAX;
        let of_header = [(header::STATE, state::EXITED), (header::END, huge)];
        assert!(opened(&of_header, &[0]).gap_bytes > huge - 8192);
        // The system refuses to read at such a place.
        assert!(opened(&[(header::BUFFERS, huge - 4096)], &[0]).gap_bytes > 0);
    }
}
