//! Encodings that files of cores leave out.
//!
//! Such a file has each encoding once, whichever thread needs it first, and lacks those that a migrating thread was given on
//! another core (spec 10). Where kernel code and the program share an address, DynamoRIO leaves out the second one's. So an
//! instruction's encoding may be in any file: all encodings are collected before anything is written, and the latest one
//! that was read takes precedence.

use super::codes::MAX_PIECES;
use super::{Feed, Progress, side_by_side};
use crate::kernel::Regions;
use crate::record::{Entry, FileType, Type};
use crate::trace::{DrmemTrace, File};
use quipu_model::Result;
use quipu_model::damaged::{Damaged, Intake, SoFar};
use quipu_source::Pool;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The address space of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Space {
    Kernel,
    Process(u64),
}

/// Pieces of one encoding, and whether branch targets come before them.
#[derive(Clone, Copy, Debug)]
struct Code {
    pieces: [Entry; MAX_PIECES],
    n_pieces: u8,
    target_first: bool,
}

/// The address and size of an instruction.
type Place = (u64, u16);

/// The encodings of all files.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The latest in each space, as far as the files were read.
    latest: FxHashMap<(Space, Place), Code>,
    /// The first in each space, and in any.
    first: FxHashMap<(Space, Place), Code>,
    anywhere: FxHashMap<Place, Code>,
}

impl Known {
    /// True for files of cores with encodings, if the files can be read twice.
    pub(super) fn is_needed(files: &[Arc<File>]) -> bool {
        let is_of_core = |file: &Arc<File>| {
            file.header.filetype.any(FileType::CORE_SHARDED) && file.header.filetype.any(FileType::ENCODINGS)
        };
        files.iter().any(is_of_core) && files.iter().all(|file| file.container.source().can_seek())
    }

    /// Reads all files for their encodings.
    pub(super) fn collect(trace: &DrmemTrace, pool: &Pool, progress: &dyn Progress) -> Result<Known> {
        let of_file = |shard: usize| Known::of_file(trace, shard, progress);
        let files = side_by_side(trace.files().len(), pool.n_threads(), &of_file)?;
        let mut all = Known::default();
        for file in files {
            for ((space, place), code) in file {
                all.first.entry((space, place)).or_insert(code);
                all.anywhere.entry(place).or_insert(code);
            }
        }
        Ok(all)
    }

    /// The first encoding of each instruction in one file, in its order.
    fn of_file(
        trace: &DrmemTrace,
        shard: usize,
        progress: &dyn Progress,
    ) -> Result<Vec<((Space, Place), Code)>> {
        let mut first = Vec::new();
        let mut met = FxHashSet::default();
        let (mut regions, mut pid, mut group) = (Regions::default(), 0, Vec::new());
        let mut feed = Feed::new(trace, shard)?;
        let quiet = Quiet(progress);
        // Damage is reported when the file is read for writing.
        let mut intake = Intake::new(Damaged::Keep);
        while let Some(part) = feed.next(&quiet, SoFar::default(), &mut intake)? {
            for entry in part.entries {
                let kind = entry.kind();
                match kind {
                    Type::ENCODING if group.len() <= MAX_PIECES => group.push(*entry),
                    Type::PID => pid = entry.addr.get(),
                    Type::MARKER => {
                        regions.pass(entry);
                    }
                    _ if kind.is_any_instr() && entry.size.get() > 0 && !group.is_empty() => {
                        let space = if regions.any() { Space::Kernel } else { Space::Process(pid) };
                        let key = (space, (entry.addr.get(), entry.size.get()));
                        if met.insert(key) {
                            first.push((key, Code::new(&group, false)));
                        }
                        group.clear();
                    }
                    _ => {}
                }
            }
        }
        Ok(first)
    }

    /// Records an encoding that was read.
    pub(super) fn learn(&mut self, space: Space, pc: u64, size: u16, pieces: &[Entry], target_first: bool) {
        self.latest.insert((space, (pc, size)), Code::new(pieces, target_first));
    }

    /// The first encoding of an instruction in any address space.
    pub(super) fn anywhere(&self, pc: u64, size: u16) -> Option<(&[Entry], bool)> {
        self.anywhere.get(&(pc, size)).map(Code::parts)
    }

    /// The encoding of an instruction without one of its own, and whether its branch target precedes it.
    pub(super) fn get(&self, space: Space, pc: u64, size: u16) -> Option<(&[Entry], bool)> {
        let place = (pc, size);
        let key = (space, place);
        let code = self.latest.get(&key).or_else(|| self.first.get(&key));
        code.or_else(|| self.anywhere.get(&place)).map(Code::parts)
    }
}

impl Code {
    fn parts(&self) -> (&[Entry], bool) {
        (&self.pieces[..usize::from(self.n_pieces)], self.target_first)
    }

    fn new(pieces: &[Entry], target_first: bool) -> Code {
        let mut stored = [Entry::ZERO; MAX_PIECES];
        let n = pieces.len().min(MAX_PIECES);
        stored[..n].copy_from_slice(&pieces[..n]);
        Code { pieces: stored, n_pieces: n as u8, target_first } // At most five.
    }
}

/// Hides the progress of the first reading, which would otherwise be counted twice.
struct Quiet<'o>(&'o dyn Progress);

impl Progress for Quiet<'_> {
    fn advance(&self, _: u64, _: u64) {}

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
