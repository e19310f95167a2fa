//! Files of threads: each has the turns of one thread, and says where they stood among those of all.
//!
//! `split` writes for each turn four numbers in settings of the file: the ordinal of its first event, how many events it has,
//! bytes in the file before it that only this file needs (configurations that another thread made), and its own bytes. A folder
//! of such files is one trace: turns in the order of their ordinals. Turns of threads whose files are missing or damaged are a
//! loss after the last event, which says how many events and whose.
//!
//! SPEC: prism.md#files-of-threads

use crate::rules;
use quipu_model::number::{counted, grouped};
use quipu_model::{Error, ErrorKind, Result};
use quipu_source::{Bytes, CarrierDamage, Container, Content, Source};
use quipu_stream::frame::Extension;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::Hasher;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The settings that list turns: a number follows.
const TURNS: &str = "turns.";
/// The setting that says which trace the turns are of.
const WHOLE: &str = "whole";
/// The setting that says how many events all threads have.
const ALL_EVENTS: &str = "events";
/// The setting that lists all threads.
const THREADS: &str = "threads";
/// What names of files of threads begin with.
const NAME: &str = "thread-";
/// Files that a message names, at most.
const MAX_NAMED: usize = 8;
/// Bytes of a setting, at most.
const SETTING_BYTES: usize = 512 << 10;
/// Turns of a trace, at most.
const MAX_TURNS: usize = 1 << 22;
/// Settings of one file: as many as these turns may take.
const MAX_SETTINGS: usize = 256;
/// Bytes of a configuration event, which is all that only a file needs.
const CONFIG_BYTES: u64 = 2;
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
    n_events: u64,
    threads: BTreeSet<u64>,
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
        self.n_events += turn.n_events;
        self.threads.insert(thread);
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
    let threads: Vec<String> = whole.threads.iter().map(u64::to_string).collect();
    let mut all = vec![
        (WHOLE.to_owned(), whole.text()),
        (ALL_EVENTS.to_owned(), whole.n_events.to_string()),
        (THREADS.to_owned(), threads.join(" ")),
    ];
    // Names of further threads are not known where their files are missing.
    all.retain(|(_, value)| value.len() <= SETTING_BYTES);
    let n_before = all.len();
    let mut text = format!("{start};");
    for Turn { ordinal, n_events, extra, len } in turns {
        // Writing to a string cannot fail.
        let _ = write!(text, "{ordinal} {n_events} {extra} {len};");
        if text.len() > SETTING_BYTES {
            all.push((format!("{TURNS}{}", all.len() - n_before), std::mem::take(&mut text)));
        }
    }
    all.push((format!("{TURNS}{}", all.len() - n_before), text));
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

/// The name of a file in its folder.
fn base_name(file: &Source) -> &str {
    file.name().rsplit('/').next().unwrap_or_default()
}

/// The thread that a file is of, by the name that its stream has.
fn thread_of(file: &Source) -> Option<u64> {
    let name = base_name(file).strip_prefix(NAME)?;
    name.strip_suffix(".prism").unwrap_or(name).parse().ok()
}

/// The events of files of threads as those of one; none if the folder has no files of events.
///
/// # Errors
/// `Unsupported` for files that are not of one trace; `Malformed` for lists of turns that cannot be; what the sources say.
pub(crate) fn gathered(folder: &Source) -> Result<Option<Source>> {
    let files = folder.files()?;
    let is_of_events = |file: &&Source| matches!(file.said("encoding"), Some("36" | "38"));
    if files.iter().find(is_of_events).is_none() {
        return Ok(None);
    }
    let foreign = |file: &Source| {
        let what = format!(
            "the files of this folder are not those of the threads of one trace: see `{}`",
            base_name(file)
        );
        let hint = "`quipu split` makes such files; name one of the others by itself";
        Error::unsupported(what).in_file(folder.name()).hint(hint)
    };
    // What a file of a thread says of itself may be damaged.
    let says_turns = |file: &&Source| {
        is_of_events(file) && file.said(WHOLE).is_some() && file.said(&format!("{TURNS}0")).is_some()
    };
    let first = match (files.iter().find(says_turns), &*files) {
        (Some(first), _) => first,
        (None, [alone]) => return Ok(Some(alone.clone())),
        (None, all) => return Err(foreign(&all[0])),
    };
    let threads = first.said(THREADS).unwrap_or_default();
    let mut absent: BTreeSet<u64> = threads.split(' ').filter_map(|thread| thread.parse().ok()).collect();
    let (mut turns, mut starts, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut damaged, mut sound, mut begins) = (Vec::new(), None, Vec::new());
    for file in &files {
        let thread = thread_of(file).filter(|thread| absent.contains(thread));
        if !says_turns(&file) && thread.is_some() {
            damaged.push(base_name(file).to_owned());
            absent.retain(|absent| Some(*absent) != thread);
            continue;
        }
        let is_same = |name: &str| file.said(name) == first.said(name);
        let of_file = turns_of(file)?.filter(|_| ["encoding", WHOLE].into_iter().all(is_same));
        let Some((start, of_file)) = of_file else { return Err(foreign(file)) };
        absent.retain(|absent| Some(*absent) != thread);
        // Where the first frame is damaged, there is no beginning to look at.
        let Ok(container) = file.container() else {
            damaged.push(base_name(file).to_owned());
            continue;
        };
        let mut bytes = container.bytes(READ_BYTES)?;
        if let Some(last) = bytes.len().checked_sub(1)
            && bytes.get(last, 1).is_err()
        {
            damaged.push(base_name(file).to_owned());
        }
        if sound.is_none() && start > 0 && bytes.get(0, 1).is_ok() {
            sound = Some(parts.len());
        }
        begins.push(bytes.get(0, 1).is_ok());
        let (mut at, mut n_before) = (start, start / CONFIG_BYTES);
        for turn in of_file {
            let begin = at.saturating_add(turn.extra);
            at = begin.saturating_add(turn.len);
            n_before = n_before.saturating_add(turn.extra / CONFIG_BYTES);
            turns.push((turn, parts.len(), begin, n_before));
            n_before = n_before.saturating_add(turn.n_events);
        }
        if turns.len() > MAX_TURNS {
            return Err(too_many().in_file(folder.name()));
        }
        starts.push(start);
        parts.push(File { name: base_name(file).to_owned(), container, bytes: Mutex::new(None) });
    }
    turns.sort_by_key(|(turn, ..)| turn.ordinal);
    let (mut expected, mut n_there) = (0, 0);
    let mut is_whole = true;
    for (turn, number, ..) in &turns {
        if turn.ordinal < expected {
            let what = format!("the events of `{}` are in another file, too", parts[*number].name);
            return Err(Error::unsupported(what).in_file(folder.name()));
        }
        is_whole &= turn.ordinal == expected;
        expected = turn.ordinal.saturating_add(turn.n_events);
        n_there += turn.n_events;
    }
    let n_events = first.said(ALL_EVENTS).and_then(|n| n.parse().ok()).unwrap_or(0).max(expected);
    let mut pieces = Vec::new();
    let (mut end, mut records) = (0_u64, 0_u64);
    let mut add = |file: usize, at: u64, len: u64, local: u64, n_events: u64| {
        let start = end;
        end = end.saturating_add(len);
        if end > start {
            pieces.push(Piece { start, end, file, at, local, records });
        }
        records = records.saturating_add(n_events);
    };
    // Which fields events have at first, if they do not say so themselves.
    let first_file = turns.first().map(|(_, number, ..)| *number);
    if let Some(number) = first_file.filter(|number| begins[*number]).or(sound).or(first_file) {
        add(number, 0, starts[number], 0, starts[number] / CONFIG_BYTES);
    }
    for (turn, number, begin, local) in &turns {
        // Where other threads are missing, their configurations are, too.
        let extra = if is_whole { 0 } else { turn.extra };
        let n_extra = extra / CONFIG_BYTES;
        let (len, n_events) = (turn.len.saturating_add(extra), turn.n_events.saturating_add(n_extra));
        add(*number, begin - extra, len, local - n_extra, n_events);
    }
    let n_lost = n_events - n_there;
    let lost = lost(n_lost, n_events, &absent, &damaged).map(|what| CarrierDamage {
        file: folder.name().to_owned(),
        rule: rules::CUT.name,
        what,
        records: Some(n_lost),
        // The loss of a damaged file is reported where its events stood.
        is_beside: n_lost == 0,
        ..CarrierDamage::default()
    });
    let said = ["encoding", "detail", "sizes"].into_iter();
    let said = said.filter_map(|name| Some((name, first.said(name)?.to_owned()))).collect();
    let content = Gathered { pieces, files: parts, said, lost };
    Ok(Some(Source::of_content(folder.name(), Arc::new(content))))
}

/// What is said of a file that is opened by itself, if it has the events of one thread among several.
pub(crate) fn of_one_thread(file: &Source) -> Option<String> {
    let n_all: u64 = file.said(ALL_EVENTS).filter(|_| file.said(WHOLE).is_some())?.parse().ok()?;
    let (_, turns) = turns_of(file).ok()??;
    let n_own = turns.iter().fold(0_u64, |sum, turn| sum.saturating_add(turn.n_events));
    let n = n_all.checked_sub(n_own).filter(|n| *n > 0)?;
    Some(format!("{} of other threads are not here: this is the file of one of them", counted(n, "event")))
}

/// What is said of events that no file has, if there are such, and of damaged files.
fn lost(n: u64, n_all: u64, absent: &BTreeSet<u64>, damaged: &[String]) -> Option<String> {
    let mut parts = Vec::new();
    if n > 0 {
        parts.push(format!(
            "{} of other threads are not here, of {} of all",
            counted(n, "event"),
            grouped(n_all)
        ));
    }
    let absent: Vec<String> = absent.iter().map(|thread| format!("{NAME}{thread}.prism")).collect();
    for (what, names) in [("missing files", &*absent), ("damaged files", damaged)] {
        if !names.is_empty() {
            let more = if names.len() > MAX_NAMED { ", …" } else { "" };
            let named = &names[..names.len().min(MAX_NAMED)];
            parts.push(format!("{what}: {}{more}", named.join(", ")));
        }
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

struct File {
    name: String,
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
    /// Events before it in its file, and among those of all pieces.
    local: u64,
    records: u64,
}

/// The turns of several files one after the other.
struct Gathered {
    pieces: Vec<Piece>,
    files: Vec<File>,
    said: Vec<(&'static str, String)>,
    /// What is not there of the trace.
    lost: Option<CarrierDamage>,
}

impl Gathered {
    /// Where the events end.
    fn end(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.end)
    }
}

impl Content for Gathered {
    fn len_bytes(&self) -> u64 {
        // A byte that cannot be read stands for what is lost.
        self.end() + u64::from(self.lost.is_some())
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        if let Some(lost) = self.lost.as_ref().filter(|_| at >= self.end() && !out.is_empty()) {
            return Err(lost.clone().into_io());
        }
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
            // Of bytes some of which cannot be read, those before them.
            let is_sound = cursor.get(piece.at + skip, wanted).is_ok();
            let asked = if is_sound { wanted } else { 1 };
            let got = cursor.get(piece.at + skip, asked).map(|there| {
                let n = there.len().min(wanted);
                out[n_read..n_read + n].copy_from_slice(&there[..n]);
                n
            });
            *lock() = Some(cursor);
            let n = match got {
                Ok(n) => n,
                // What was read before is given first.
                Err(_) if n_read > 0 => break,
                Err(cause) if CarrierDamage::of(&cause).is_some() => return Err(cause),
                Err(cause) => return Err(io::Error::new(cause.kind(), format!("{}: {cause}", file.name))),
            };
            if n == 0 && n_read == 0 {
                let what = format!("{}: its events end before its turns do", file.name);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            n_read += n;
            if n < left {
                break;
            }
        }
        Ok(n_read)
    }

    fn next_readable(&self, at: u64) -> Option<u64> {
        let piece = self.pieces.get(self.pieces.partition_point(|piece| piece.end <= at))?;
        let file = &self.files[piece.file];
        let next = file.container.next_readable(0, piece.at + (at - piece.start));
        let within = next.map(|next| piece.start + next.saturating_sub(piece.at));
        let next = within.filter(|next| (at + 1..piece.end).contains(next)).unwrap_or(piece.end);
        (next < self.len_bytes()).then_some(next)
    }

    fn said_at(&self, at: u64) -> Option<Vec<u8>> {
        let piece = self.pieces.get(self.pieces.partition_point(|piece| piece.end <= at))?;
        let within = at.checked_sub(piece.start)?;
        let said = self.files[piece.file].container.said_at(piece.at + within)?;
        let Extension { records_before, state, .. } = Extension::read(&said)?;
        let records_before = piece.records.saturating_add(records_before.checked_sub(piece.local)?);
        Some(Extension { bytes_before: at, records_before, state }.to_bytes())
    }

    fn said(&self, name: &str) -> Option<&str> {
        self.said.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }
}
