//! Writes entries to a container: cut into chunks, each with the entries that it must repeat (spec 6.12).

use crate::record::{Entry, Marker, Type};
use crate::schedule::{Recorder, Recording};
use quipu_model::Result;
use quipu_source::{Packed, Packer};
use std::io::{Seek, Write};
use zerocopy::IntoBytes;

/// Amounts written to one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Entries, including those that only chunks need.
    pub entries: u64,
    /// Visible records.
    pub records: u64,
    /// Visible instructions.
    pub instrs: u64,
}

impl Counts {
    /// The sum of both.
    pub fn plus(self, other: Counts) -> Counts {
        Counts {
            entries: self.entries + other.entries,
            records: self.records + other.records,
            instrs: self.instrs + other.instrs,
        }
    }
}

/// Number of records and instructions that an entry is to readers (spec 7.2); for markers it depends on their kind.
#[inline]
pub(crate) fn weight(entry: &Entry) -> (u64, u64) {
    let has_size = u64::from(entry.size.get() != 0);
    match entry.kind().0 {
        0..=9 | 19 | 21 | 23 | 27 | 32..=46 => (1, 0),
        10..=16 | 30 | 31 | 48 | 49 => (has_size, has_size),
        18 | 20 | 29 => (has_size, 0),
        17 => {
            let n = u64::from(entry.size.get().min(8));
            (n, n)
        }
        28 => (
            u64::from(!matches!(Marker(entry.size.get()), Marker::BRANCH_TARGET | Marker::RECORD_ORDINAL)),
            0,
        ),
        _ => (0, 0),
    }
}

/// The writer of one file's entries.
pub(super) struct Chunks<W: Write + Seek> {
    packer: Packer<W>,
    /// Instructions in each chunk; 0 for a single chunk.
    chunk_instrs: u64,
    instrs_in_chunk: u64,
    /// Number of the current chunk.
    chunk: u64,
    pub(super) counts: Counts,
    /// The latest clock reading and processor written.
    timestamp: Option<u64>,
    cpu: Option<u64>,
    is_closed: bool,
    /// A footer that is written once something follows.
    held: Option<Entry>,
    schedule: Recorder,
}

impl<W: Write + Seek> Chunks<W> {
    /// Begins the first chunk.
    pub(super) fn new(mut packer: Packer<W>, chunk_instrs: u64) -> Result<Chunks<W>> {
        packer.member(&member_name(0))?;
        Ok(Chunks {
            packer,
            chunk_instrs,
            instrs_in_chunk: 0,
            chunk: 0,
            counts: Counts::default(),
            timestamp: None,
            cpu: None,
            is_closed: false,
            held: None,
            schedule: Recorder::default(),
        })
    }

    /// Writes entries that were counted already.
    #[inline]
    pub(super) fn put(&mut self, entries: &[Entry]) -> Result<()> {
        if self.held.is_some() && !entries.is_empty() {
            self.put_held()?;
        }
        self.counts.entries += entries.len() as u64;
        self.schedule.take(entries);
        if let Some(last) = entries.last() {
            self.is_closed = last.kind() == Type::FOOTER;
        }
        Ok(self.packer.write(entries.as_bytes())?)
    }

    /// Holds a footer back until something follows it, or the caller takes it.
    pub(super) fn hold(&mut self, footer: Entry) -> Result<()> {
        self.put_held()?;
        self.held = Some(footer);
        Ok(())
    }

    /// Takes the footer that is held back.
    pub(super) fn take_held(&mut self) -> Option<Entry> {
        self.held.take()
    }

    #[cold]
    fn put_held(&mut self) -> Result<()> {
        self.held.take().map_or(Ok(()), |footer| self.put(&[footer]))
    }

    /// Counts an entry that is about to be written.
    #[inline]
    pub(super) fn count(&mut self, records: u64, instrs: u64) {
        self.counts.records += records;
        self.counts.instrs += instrs;
        self.instrs_in_chunk += instrs;
    }

    /// Counts and writes a run of instructions with their branch targets and accesses, with this many records and
    /// instructions; returns false, and does nothing, if the chunk has no room for them.
    pub(super) fn put_run(&mut self, entries: &[Entry], records: u64, instrs: u64) -> Result<bool> {
        if self.chunk_instrs != 0 && self.instrs_in_chunk + instrs > self.chunk_instrs || self.held.is_some()
        {
            return Ok(false);
        }
        self.count(records, instrs);
        self.counts.entries += entries.len() as u64;
        self.schedule.run(instrs);
        self.is_closed &= entries.is_empty();
        self.packer.write(entries.as_bytes())?;
        Ok(true)
    }

    /// Counts and writes an entry.
    pub(super) fn add(&mut self, entry: &Entry) -> Result<()> {
        let (records, instrs) = weight(entry);
        self.count(records, instrs);
        self.note(entry);
        self.put(std::slice::from_ref(entry))
    }

    /// Stores the values that later chunks repeat.
    #[inline]
    pub(super) fn note(&mut self, entry: &Entry) {
        let kind = entry.kind();
        if kind == Type::MARKER {
            match Marker(entry.size.get()) {
                Marker::TIMESTAMP => self.timestamp = Some(entry.addr.get()),
                Marker::CPU_ID => self.cpu = Some(entry.addr.get()),
                _ => {}
            }
        }
    }

    /// True if the next instruction belongs to the next chunk.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.chunk_instrs != 0 && self.instrs_in_chunk >= self.chunk_instrs
    }

    /// Ends the chunk and begins the next with its ordinal and copies of the latest clock reading and processor. The copies
    /// are hidden from readers that continue from the chunk before, so they are not counted.
    pub(super) fn split(&mut self) -> Result<()> {
        self.add(&Entry::marker(Marker::CHUNK_FOOTER, self.chunk))?;
        self.chunk += 1;
        self.instrs_in_chunk = 0;
        self.packer.member(&member_name(self.chunk))?;
        let head = [
            Entry::marker(Marker::RECORD_ORDINAL, self.counts.records),
            // Readers take the next two entries for copies, so there have to be two.
            Entry::marker(Marker::TIMESTAMP, self.timestamp.unwrap_or(0)),
            Entry::marker(Marker::CPU_ID, self.cpu.unwrap_or(u64::MAX)),
        ];
        self.put(&head)
    }

    /// Begins a member of this name, for files whose members are not chunks.
    pub(super) fn member(&mut self, name: &str) -> Result<()> {
        self.put_held()?;
        Ok(self.packer.member(name)?)
    }

    /// True if the last entry is a footer.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Ends the container.
    pub(super) fn finish(self) -> Result<(W, Packed, Counts, Recording)> {
        let (out, packed) = self.packer.finish()?;
        Ok((out, packed, self.counts, self.schedule.finish()))
    }
}

fn member_name(chunk: u64) -> String {
    format!("chunk.{chunk:08}")
}
