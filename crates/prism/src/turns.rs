//! Files of threads: each has the turns of one thread, and says where they stood among those of all.
//!
//! `split` writes for each turn four numbers in settings of the file: the ordinal of its first event, how many events it has,
//! bytes in the file before it that only this file needs (configurations that another thread made), and its own bytes. A folder
//! of such files is one trace: turns in the order of their ordinals. Turns of threads whose files are missing are left out.
//!
//! SPEC: prism.md#files-of-threads

use quipu_model::{Error, ErrorKind, Result};
use quipu_source::{Bytes, Container, Content, Source};
use std::fmt::Write as _;
use std::hash::Hasher;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The settings that list turns: a number follows.
const TURNS: &str = "turns.";
/// The setting that says which trace the turns are of.
const WHOLE: &str = "whole";
/// Bytes of a setting, at most.
const SETTING_BYTES: usize = 512 << 10;
/// Turns of a trace, at most.
const MAX_TURNS: usize = 1 << 22;
/// Settings of one file: as many as these turns may take.
const MAX_SETTINGS: usize = 256;
/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Events of one thread between two swaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The position of the first event among those of all threads.
    pub(crate) ordinal: u64,
    pub(crate) n_events: u64,
    /// Bytes before it that only the file of the thread needs.
    pub(crate) extra: u64,
    /// Its own bytes.
    pub(crate) len: u64,
}

/// What turns of a trace there are and which events they have, in one number.
#[derive(Default)]
pub(crate) struct Whole {
    hasher: rustc_hash::FxHasher,
    n_turns: usize,
}

impl Whole {
    /// Adds bytes of an event: two runs of one program have the same turns.
    pub(crate) fn event(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
    }

    /// Adds a turn whose events were added.
    ///
    /// # Errors
    /// `Limit` if there are too many.
    pub(crate) fn add(&mut self, thread: u64, turn: &Turn) -> Result<()> {
        self.hasher.write_u64(thread);
        self.hasher.write_u64(turn.ordinal);
        self.hasher.write_u64(turn.n_events);
        self.hasher.write_u64(turn.len);
        self.n_turns += 1;
        if self.n_turns > MAX_TURNS { Err(too_many()) } else { Ok(()) }
    }

    fn text(&self) -> String {
        format!("{:016x}", self.hasher.finish())
    }
}

/// The settings of a file: which trace it is of, then its turns; names and values.
///
/// # Errors
/// `Unsupported` if there are more turns than settings have room for.
pub(crate) fn settings(whole: &Whole, start: u64, turns: &[Turn]) -> Result<Vec<(String, String)>> {
    let mut all = vec![(WHOLE.to_owned(), whole.text())];
    let mut text = format!("{start};");
    for Turn { ordinal, n_events, extra, len } in turns {
        // Writing to a string cannot fail.
        let _ = write!(text, "{ordinal} {n_events} {extra} {len};");
        if text.len() > SETTING_BYTES {
            all.push((format!("{TURNS}{}", all.len() - 1), std::mem::take(&mut text)));
        }
    }
    all.push((format!("{TURNS}{}", all.len() - 1), text));
    if all.len() > MAX_SETTINGS {
        return Err(too_many());
    }
    Ok(all)
}

/// The error for a trace of too many turns.
pub(crate) fn too_many() -> Error {
    let what = format!(
        "its threads take turns more than `{MAX_TURNS}` times: files of threads have no room for that"
    );
    Error::new(ErrorKind::Limit, what)
}

/// The turns of a file, and the bytes before the first; none if it is no file of a thread.
fn turns_of(file: &Source) -> Result<Option<(u64, Vec<Turn>)>> {
    let wrong = || Error::malformed("its list of turns cannot be read").in_file(file.name());
    let (mut start, mut turns) = (None, Vec::new());
    for number in 0..MAX_SETTINGS {
        let Some(text) = file.said(&format!("{TURNS}{number}")) else { break };
        let mut parts = text.split_terminator(';');
        if start.is_none() {
            start = Some(parts.next().and_then(|start| start.parse().ok()).ok_or_else(wrong)?);
        }
        for part in parts {
            let mut numbers = part.split(' ').map(|number| number.parse::<u64>().ok());
            let mut next = || numbers.next().flatten();
            let turn = (next(), next(), next(), next());
            let (Some(ordinal), Some(n_events), Some(extra), Some(len)) = turn else { return Err(wrong()) };
            turns.push(Turn { ordinal, n_events, extra, len });
        }
    }
    Ok(start.map(|start| (start, turns)))
}

/// The events of files of threads as those of one; none if the folder has no files of events.
///
/// # Errors
/// `Unsupported` for files that are not of one trace; `Malformed` for lists of turns that cannot be; what the sources say.
pub(crate) fn gathered(folder: &Source) -> Result<Option<Source>> {
    let files = folder.files()?;
    let is_ours = |file: &Source| matches!(file.said("encoding"), Some("36" | "38"));
    if files.is_empty() || !files.iter().all(is_ours) {
        return Ok(None);
    }
    let first = &files[0];
    let (mut turns, mut starts, mut containers) = (Vec::new(), Vec::new(), Vec::new());
    for (number, file) in files.iter().enumerate() {
        let is_same = |name: &str| file.said(name) == first.said(name);
        let of_file = turns_of(file)?.filter(|_| ["encoding", WHOLE].into_iter().all(is_same));
        let Some((start, of_file)) = of_file else {
            let what = "the files of this folder are not those of the threads of one trace";
            let hint = "`quipu split` makes such files; name one of the others by itself";
            return Err(Error::unsupported(what).in_file(folder.name()).hint(hint));
        };
        let container = file.container()?;
        let len = container.bytes(READ_BYTES)?.len();
        let mut at = start;
        for turn in of_file {
            let begin = at.saturating_add(turn.extra);
            at = begin.saturating_add(turn.len);
            if at > len {
                let what = format!("its turns have `{at}` bytes, its events `{len}`");
                return Err(Error::new(ErrorKind::Truncated, what).in_file(file.name()));
            }
            turns.push((turn, number, begin));
        }
        if turns.len() > MAX_TURNS {
            return Err(too_many().in_file(folder.name()));
        }
        starts.push(start);
        containers.push(container);
    }
    turns.sort_by_key(|(turn, ..)| turn.ordinal);
    let mut expected = 0;
    let is_whole = turns.iter().all(|(turn, ..)| {
        let is_next = turn.ordinal == expected;
        expected = turn.ordinal.saturating_add(turn.n_events);
        is_next
    });
    let mut pieces = Vec::new();
    let mut end = 0;
    let mut add = |file: usize, at: u64, len: u64| {
        let start = end;
        end += len;
        if len > 0 {
            pieces.push(Piece { start, end, file, at });
        }
    };
    if let Some((_, number, _)) = turns.first() {
        // Which fields events have at first, if they do not say so themselves.
        add(*number, 0, starts[*number]);
    }
    for (turn, number, begin) in &turns {
        // Where other threads are missing, their configurations are, too.
        let extra = if is_whole { 0 } else { turn.extra };
        add(*number, begin - extra, turn.len + extra);
    }
    let said = ["encoding", "detail", "sizes"].into_iter();
    let said = said.filter_map(|name| Some((name, first.said(name)?.to_owned()))).collect();
    let files = containers.into_iter().map(|container| File { container, bytes: Mutex::new(None) }).collect();
    Ok(Some(Source::of_content(folder.name(), Arc::new(Gathered { pieces, files, said }))))
}

struct File {
    container: Container,
    /// A cursor that no reader has now.
    bytes: Mutex<Option<Bytes>>,
}

/// Where bytes stand.
struct Piece {
    start: u64,
    end: u64,
    file: usize,
    at: u64,
}

/// The turns of several files one after the other.
struct Gathered {
    pieces: Vec<Piece>,
    files: Vec<File>,
    said: Vec<(&'static str, String)>,
}

impl Content for Gathered {
    fn len_bytes(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.end)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut n_read = 0;
        // Turns are short: several fill the buffer of a reader.
        let first = self.pieces.partition_point(|piece| piece.end <= at);
        for piece in &self.pieces[first..] {
            let skip = (at + n_read as u64).saturating_sub(piece.start);
            let left = usize::try_from(piece.end - piece.start - skip).unwrap_or(usize::MAX);
            let wanted = left.min(out.len() - n_read).min(READ_BYTES);
            if wanted == 0 {
                break;
            }
            let file = &self.files[piece.file];
            let lock = || file.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            let cursor = lock().take();
            let mut cursor = match cursor {
                Some(cursor) => cursor,
                None => file.container.bytes(READ_BYTES).map_err(io::Error::other)?,
            };
            let got = cursor.get(piece.at + skip, wanted).map(|there| {
                let n = there.len().min(wanted);
                out[n_read..n_read + n].copy_from_slice(&there[..n]);
                n
            });
            *lock() = Some(cursor);
            let n = match got {
                Ok(n) => n,
                // What was read before is given first.
                Err(_) if n_read > 0 => break,
                Err(cause) => return Err(cause),
            };
            n_read += n;
            if n < left {
                break;
            }
        }
        Ok(n_read)
    }

    fn said(&self, name: &str) -> Option<&str> {
        self.said.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }
}
