//! Kinds of damage.

use quipu::source::{Ahead, PackOptions, Packer, Packing, Pool, Source, StreamOptions};
use std::io::Cursor;
use std::ops::Range;

/// A kind of damage to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// The end is missing, from this position on, in thousandths of the file.
    Cut(usize),
    /// Some bits of one byte are changed.
    Flip(usize),
    /// A run of bytes is overwritten with zeros.
    Zeros(usize),
    /// A run of bytes is repeated.
    Twice(usize),
    /// All bytes after the header of the container are replaced.
    Blank,
    /// The directory of an archive lacks a member.
    MissingMember,
    /// A folder lacks a file.
    MissingFile,
    /// The exit at the end of the stream belongs to another thread.
    Stranger,
    /// An archive is repacked with changed members, with correct checksums.
    Repacked(Repacked),
}

/// Changes to the members of a repacked archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repacked {
    /// The middle member occurs twice.
    Twice,
    /// The middle member lacks some entries in its middle.
    Gap,
    /// Some entries of the middle member are repeated.
    Repetition,
    /// The second half of the middle member is missing.
    Short,
    /// The first member, which contains the header, is missing.
    First,
    /// The middle member is empty.
    Empty,
    /// The first member is empty.
    EmptyFirst,
    /// The exit belongs to another thread.
    Stranger,
    /// The middle member and its successor are swapped.
    Swapped,
}

/// Bytes per entry.
const ENTRY_BYTES: usize = 12;

/// Bytes that identify the container.
const HEAD_BYTES: usize = 12;

/// Length of a run in bytes.
const RUN_BYTES: usize = 64;

impl Harm {
    /// The kinds of damage for each sample, restricted to those that `QUIPU_DAMAGE_KINDS` names, if it is set.
    pub(crate) fn all() -> Vec<Harm> {
        let kinds = std::env::var("QUIPU_DAMAGE_KINDS").ok();
        let is_wanted =
            |harm: &Harm| kinds.iter().all(|kinds| kinds.split(',').any(|kind| kind == harm.kind()));
        let all: Vec<Harm> = Harm::of_each_kind().into_iter().filter(is_wanted).collect();
        assert!(!all.is_empty(), "no such kind of damage: {kinds:?}");
        all
    }

    /// The name of its kind.
    fn kind(&self) -> &'static str {
        match self {
            Harm::Cut(_) => "cut",
            Harm::Flip(_) => "flip",
            Harm::Zeros(_) => "zeros",
            Harm::Twice(_) => "twice",
            Harm::Blank => "blank",
            Harm::MissingMember => "member",
            Harm::MissingFile => "file",
            Harm::Stranger => "stranger",
            Harm::Repacked(_) => "repacked",
        }
    }

    fn of_each_kind() -> Vec<Harm> {
        let places: Vec<usize> = match std::env::var("QUIPU_DAMAGE").is_ok_and(|how| how == "full") {
            true => (1..20).map(|n| n * 50).collect(),
            false => vec![650],
        };
        let all = places
            .into_iter()
            .flat_map(|at| [Harm::Cut(at), Harm::Flip(at), Harm::Zeros(at), Harm::Twice(at)]);
        let repacked = [
            Repacked::Twice,
            Repacked::Gap,
            Repacked::Repetition,
            Repacked::Short,
            Repacked::First,
            Repacked::Empty,
            Repacked::EmptyFirst,
            Repacked::Stranger,
            Repacked::Swapped,
        ];
        let others = [Harm::Cut(999), Harm::Blank, Harm::MissingMember, Harm::MissingFile, Harm::Stranger];
        all.chain(others).chain(repacked.map(Harm::Repacked)).collect()
    }

    /// The bytes of a file of this many that it changes or takes away; `None` if it does so in several places.
    pub(crate) fn run_in(self, n_bytes: usize) -> Option<Range<u64>> {
        let run = |thousandths: usize, len: usize| {
            let start = n_bytes * thousandths / 1000;
            Some(start as u64..(start + len).min(n_bytes) as u64)
        };
        match self {
            Harm::Cut(at) => run(at, n_bytes),
            Harm::Flip(at) => run(at, 1),
            Harm::Zeros(at) => run(at, RUN_BYTES.min(n_bytes / 8)),
            _ => None,
        }
    }

    /// The damaged bytes; `None` if this cannot be done to them.
    pub(crate) fn done_to(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let place = |thousandths: usize| bytes.len() * thousandths / 1000;
        let run = |at: usize| at..(at + RUN_BYTES.min(bytes.len() / 8)).min(bytes.len());
        let mut changed = bytes.to_vec();
        match self {
            Harm::Cut(at) => changed.truncate(place(at).min(bytes.len() - 1)),
            Harm::Flip(at) => changed[place(at)] ^= 0x90,
            Harm::Zeros(at) => changed[run(place(at))].fill(0),
            Harm::Twice(at) => {
                let run = run(place(at));
                let copy = bytes[run.clone()].to_vec();
                changed.splice(run.end..run.end, copy);
            }
            Harm::Blank => changed.iter_mut().skip(HEAD_BYTES).for_each(|byte| *byte = 0xff),
            Harm::MissingMember => return without_member(bytes),
            Harm::MissingFile => return None,
            Harm::Stranger => return with_stranger(bytes),
            Harm::Repacked(how) => return repacked(bytes, how),
        }
        (changed != bytes).then_some(changed)
    }
}

/// The archive with members that lack something, or have it twice, and with right checksums.
fn repacked(bytes: &[u8], how: Repacked) -> Option<Vec<u8>> {
    if !bytes.starts_with(b"PK\x03\x04") {
        return None;
    }
    let container = Source::from_bytes("archive", bytes).container().unwrap();
    let mut names: Vec<String> = container.members().iter().map(|member| member.name.clone()).collect();
    // The last chunk has no successor that would count it.
    if names.len() < 3 {
        return None;
    }
    let mut members = vec![Vec::new(); names.len()];
    let options = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
    let (mut stream, mut block) = (container.stream(container.all_members(), &options).unwrap(), Vec::new());
    while let Some(at) = stream.next(&mut block).unwrap() {
        members[at.member as usize].extend_from_slice(&block);
    }
    let middle = (names.len() - 1) / 2;
    let n_entries = members[middle].len() / ENTRY_BYTES;
    let some = n_entries / 2 * ENTRY_BYTES..n_entries * 5 / 8 * ENTRY_BYTES;
    match how {
        Repacked::Twice | Repacked::First => {}
        Repacked::Empty => members[middle].clear(),
        Repacked::EmptyFirst => members[0].clear(),
        Repacked::Stranger => flip_last_thread(members.last_mut()?)?,
        Repacked::Gap => drop(members[middle].drain(some)),
        Repacked::Repetition => {
            let copy = members[middle][some.clone()].to_vec();
            members[middle].splice(some.end..some.end, copy);
        }
        Repacked::Short => members[middle].truncate(some.start),
        Repacked::Swapped => {
            names.swap(middle, middle + 1);
            members.swap(middle, middle + 1);
        }
    }
    let pool = Pool::new(1).unwrap();
    let mut packer = Packer::new(Cursor::new(Vec::new()), &pool, &PackOptions::new(Packing::Zip));
    for (at, (name, member)) in names.iter().zip(&members).enumerate() {
        let n_times = match how {
            Repacked::Twice if at == middle => 2,
            Repacked::First if at == 0 => 0,
            _ => 1,
        };
        for _ in 0..n_times {
            packer.member(name).unwrap();
            packer.write(member).unwrap();
        }
    }
    Some(packer.finish().unwrap().0.into_inner())
}

/// The plain entries of a thread's file with the end of another thread.
fn with_stranger(bytes: &[u8]) -> Option<Vec<u8>> {
    const HEADER: &[u8] = &[25, 0, 0, 0];
    let mut changed = bytes.to_vec();
    flip_last_thread(&mut changed).filter(|()| bytes.starts_with(HEADER))?;
    Some(changed)
}

/// Changes a bit of the thread in the last entry that says that a thread ends.
fn flip_last_thread(entries: &mut [u8]) -> Option<()> {
    const THREAD_EXIT: &[u8] = &[23, 0];
    let exit = entries.chunks_exact_mut(ENTRY_BYTES).rfind(|entry| entry.starts_with(THREAD_EXIT))?;
    exit[5] ^= 0x40;
    Some(())
}

/// A zip archive whose directory does not list the member in its middle.
fn without_member(bytes: &[u8]) -> Option<Vec<u8>> {
    let number = |at: usize, n_bytes: usize| {
        bytes
            .get(at..at + n_bytes)
            .map(|part| part.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    if !bytes.starts_with(b"PK\x03\x04") {
        return None;
    }
    let end = bytes.windows(4).rposition(|mark| mark == b"PK\x05\x06")?;
    let (n_members, n_bytes, start) = (number(end + 10, 2)?, number(end + 12, 4)?, number(end + 16, 4)?);
    let mut entries = Vec::new();
    let mut at = start;
    while at < start + n_bytes {
        let length = 46 + number(at + 28, 2)? + number(at + 30, 2)? + number(at + 32, 2)?;
        entries.push(at..at + length);
        at += length;
    }
    let gone = entries.get(n_members / 2).filter(|_| n_members > 2)?.clone();
    let mut changed = bytes.to_vec();
    let mut put = |at: usize, n_bytes: usize, number: usize| {
        changed[at..at + n_bytes].copy_from_slice(&number.to_le_bytes()[..n_bytes]);
    };
    put(end + 8, 2, n_members - 1);
    put(end + 10, 2, n_members - 1);
    put(end + 12, 4, n_bytes - gone.len());
    changed.drain(gone);
    Some(changed)
}
