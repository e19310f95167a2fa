//! Schedule files: which thread ran on which processor, from which instruction on.
//!
//! Described in docs/formats/drmemtrace.md, section *Schedule files*.

use quipu_model::{Error, Place, Result};
use quipu_source::{Source, StreamOptions};
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One stretch: from `start_instr` on, `thread` ran on `cpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
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

/// A schedule that inflates to more than this is not read: a million stretches.
const MAX_BYTES: usize = 32 << 20;

/// Reads a schedule file, member by member: the serial one has one member, the other has one for each processor,
/// named by its number. An empty member is a file that the writer left empty.
pub fn read(source: &Source) -> Result<Vec<(String, Vec<Stretch>)>> {
    let container = source.container()?;
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
            let place = Place { offset: Some(offset), member: Some(member.name.clone()), ..Place::default() };
            Error::truncated("the schedule ends inside a stretch of 32 bytes")
                .at(&place)
                .in_file(source.name())
        })?;
        members.push((member.name.clone(), stretches.to_vec()));
    }
    Ok(members)
}
