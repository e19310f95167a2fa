//! Schedule files: which thread ran on which processor, from which instruction on.
//!
//! [`read`] reads the two files beside a trace, [`Recorder`] finds the same data in the entries of a trace, [`Schedule`]
//! combines the recordings of all files into the form of both files and gives their bytes, and [`first_difference`]
//! compares. Packing the bytes (gzip, zip) and finding the files is done elsewhere.
//!
//! Described in docs/formats/drmemtrace.md, section *Schedule files*.

pub(crate) mod compare;
mod make;
pub(crate) mod starts;

pub use make::{MAX_POINTS, Recorder, Recording, Schedule};

use quipu_model::{Error, Place, Result};
use quipu_source::{Source, StreamOptions};
use std::fmt;
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One stretch: from `start_instr` on, `thread` ran on `cpu`.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Stretch {
    /// The thread.
    pub thread: U64,
    /// Clock reading at its start, microseconds since 1601.
    pub timestamp: U64,
    /// The processor.
    pub cpu: U64,
    /// Instructions of the thread before it. Before version 5, modulo the chunk size.
    pub start_instr: U64,
}

const _: () = assert!(size_of::<Stretch>() == 32);

impl Stretch {
    /// A stretch of these values.
    pub fn new(thread: u64, timestamp: u64, cpu: u64, start_instr: u64) -> Stretch {
        Stretch {
            thread: thread.into(),
            timestamp: timestamp.into(),
            cpu: cpu.into(),
            start_instr: start_instr.into(),
        }
    }

    /// The key by which both files are sorted: time, then processor, thread and instruction.
    pub fn rank(&self) -> (u64, u64, u64, u64) {
        (self.timestamp.get(), self.cpu.get(), self.thread.get(), self.start_instr.get())
    }
}

impl fmt::Debug for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stretch")
            .field("thread", &self.thread.get())
            .field("timestamp", &self.timestamp.get())
            .field("cpu", &self.cpu.get())
            .field("start_instr", &self.start_instr.get())
            .finish()
    }
}

/// Limit of the inflated size of a schedule: a million stretches.
const MAX_BYTES: usize = 32 << 20;

/// Reads a schedule file, member by member: the serial file has one member, the other has one for each processor, named by
/// its number. An empty member means that the writer left the file empty.
///
/// # Errors
/// Errors of reading the file, also for a damaged archive, since missing stretches would look like others; `Limit` for more
/// than a million stretches; `Truncated` if the last one is incomplete.
pub fn read(source: &Source) -> Result<Vec<(String, Vec<Stretch>)>> {
    let container = source.container()?;
    if let Some(damage) = container.damage().first() {
        return Err(damage.clone().into());
    }
    let mut members = Vec::new();
    let mut total = 0;
    for (index, member) in container.members().iter().enumerate() {
        let mut stream = container.stream(index..index + 1, &StreamOptions::default())?;
        let (mut block, mut bytes) = (Vec::new(), Vec::new());
        while stream.next(&mut block)?.is_some() {
            bytes.extend_from_slice(&block);
            total += block.len();
            if total > MAX_BYTES {
                return Err(Error::limit("bytes in a schedule", total as u64, MAX_BYTES as u64)
                    .in_file(source.name()));
            }
        }
        let stretches = <[Stretch]>::ref_from_bytes(&bytes).map_err(|_| {
            let offset = (bytes.len() / size_of::<Stretch>() * size_of::<Stretch>()) as u64;
            let name = (!member.name.is_empty()).then(|| member.name.clone());
            let place = Place { offset: Some(offset), member: name, ..Place::default() };
            Error::truncated("the schedule ends inside a stretch of 32 bytes")
                .at(&place)
                .in_file(source.name())
        })?;
        members.push((member.name.clone(), stretches.to_vec()));
    }
    Ok(members)
}

/// The first difference between a file's stretches and those of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Position in the file, counted from 0.
    pub index: usize,
    /// The file's stretch there; `None` if the file ends before.
    pub file: Option<Stretch>,
    /// The trace's stretch there; `None` if the trace ends before.
    pub trace: Option<Stretch>,
}

/// The first difference between stretches of a file and those found in the trace, both of one processor or both of
/// the serial file. The trace's may be full or collapsed; `chunk_instrs` is the size of chunks if the file counts
/// instructions modulo it, as files of versions before 5 do, else 0.
pub fn first_difference(file: &[Stretch], trace: &[Stretch], chunk_instrs: u64) -> Option<Difference> {
    let same = |a: &Stretch, b: &Stretch| match chunk_instrs {
        0 => a == b,
        chunk => {
            let counted = |stretch: &Stretch| stretch.start_instr.get() % chunk;
            (a.thread, a.timestamp, a.cpu, counted(a)) == (b.thread, b.timestamp, b.cpu, counted(b))
        }
    };
    let common = file.iter().zip(trace).take_while(|(a, b)| same(a, b)).count();
    (common < file.len().max(trace.len())).then(|| Difference {
        index: common,
        file: file.get(common).copied(),
        trace: trace.get(common).copied(),
    })
}
