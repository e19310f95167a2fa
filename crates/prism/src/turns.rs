//! Files of threads: each has the turns of one thread, with their positions among the events of all threads.
//!
//! Before each frame, `split` writes a setting with four numbers for each turn, or part of a turn, in the frame: the ordinal
//! of its first event, its number of events, the number of bytes before it that only this file needs (configurations made by
//! other threads), and its own length in bytes. So a truncated file still gives the positions of the events in its whole
//! frames.
//! A folder of such files is one trace: the turns in the order of their ordinals. If the file of a thread, or the
//! description of its turns, is missing, its events are reported as a loss at the position of the first of them, with their
//! number and thread.
//!
//! SPEC: prism.md#files-of-threads

use crate::batch::Batch;
use crate::detail::Detail;
use crate::event::Event;
use crate::here::Here;
use crate::rules;
use crate::variable::{Decoder, Dialect};
use quipu_model::number::{counted, grouped};
use quipu_model::{Error, ErrorKind, Result};
use quipu_source::{Bytes, CarrierDamage, Container, Content, Source};
use quipu_stream::frame::Extension;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::Hasher;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Prefix of the settings that list turns; a number follows.
const TURNS: &str = "turns.";
/// The settings that are equal in all files of a trace: the encoding of events, and the id of the whole trace.
const ENCODING_AND_WHOLE: [&str; 2] = [ENCODING, WHOLE];
/// The setting with the number of the bodies' encoding.
const ENCODING: &str = "encoding";
/// The setting with the id of the trace to which the turns belong.
const WHOLE: &str = "whole";
/// The setting with the number of events of all threads.
const ALL_EVENTS: &str = "events";
/// The setting that lists all threads, each with its number of events.
const THREADS: &str = "threads";
/// The setting with the name of the file's own stream.
const OWN_NAME: &str = "name";
/// Prefix of the names of files of threads.
const NAME: &str = "thread-";
/// Maximum number of files named in a message.
const MAX_NAMED: usize = 8;
/// Maximum size of a setting in bytes.
const SETTING_BYTES: usize = 512 << 10;
/// Maximum number of turns in a trace.
const MAX_TURNS: usize = 1 << 22;
/// Maximum number of turns and parts of turns: a turn that does not end with a frame continues in the next.
const MAX_PARTS: usize = 2 * MAX_TURNS;
/// Maximum number of frames with turns in a file.
const MAX_SETTINGS: usize = 1 << 20;
/// Maximum number of consecutive settings that may be missing.
const MAX_MISSING: usize = 4096;
/// Length of a configuration event in bytes; only configurations are repeated in files.
const CONFIG_BYTES: u64 = 2;
/// Number of bytes per read.
const READ_BYTES: usize = 256 << 10;

/// The events of one thread between two swaps, or the part of them in one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The position of the first event among the events of all threads.
    pub(crate) ordinal: u64,
    pub(crate) n_events: u64,
    /// Bytes before the turn that only the file of this thread needs.
    pub(crate) extra: u64,
    /// Length of the turn itself in bytes.
    pub(crate) len: u64,
}

/// A hash over the turns of a trace and their events, and their totals.
#[derive(Default)]
pub(crate) struct Whole {
    hasher: rustc_hash::FxHasher,
    n_turns: usize,
    n_events: u64,
    /// Number of events by thread.
    threads: BTreeMap<u64, u64>,
}

impl Whole {
    /// Adds the bytes of an event, because two runs of one program may have the same turns.
    pub(crate) fn event(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
    }

    /// Adds a turn whose events have been added.
    ///
    /// # Errors
    /// `Limit` if there are too many turns.
    pub(crate) fn add(&mut self, thread: u64, turn: &Turn) -> Result<()> {
        self.hasher.write_u64(thread);
        self.hasher.write_u64(turn.ordinal);
        self.hasher.write_u64(turn.n_events);
        self.hasher.write_u64(turn.len);
        self.n_turns += 1;
        self.n_events += turn.n_events;
        *self.threads.entry(thread).or_insert(0) += turn.n_events;
        if self.n_turns > MAX_TURNS { Err(too_many()) } else { Ok(()) }
    }

    /// The settings about the whole trace in each file: names and values.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let threads: Vec<String> = self.threads.iter().map(|(thread, n)| format!("{thread} {n}")).collect();
        let mut all = vec![
            (WHOLE, format!("{:016x}", self.hasher.finish())),
            (ALL_EVENTS, self.n_events.to_string()),
            (THREADS, threads.join(";")),
        ];
        // With too many threads, the setting is left out, and missing events are not attributed to threads.
        all.retain(|(_, value)| value.len() <= SETTING_BYTES);
        all
    }
}

/// The setting for the turns of a frame; `first` is the number of bytes and events before its first turn in the file.
pub(crate) fn of_frame(number: usize, first: (u64, u64), turns: &[Turn]) -> (String, String) {
    let mut text = format!("{} {};", first.0, first.1);
    for Turn { ordinal, n_events, extra, len } in turns {
        // Writing to a string cannot fail.
        let _ = write!(text, "{ordinal} {n_events} {extra} {len};");
    }
    (format!("{TURNS}{number}"), text)
}

/// The error for a trace with too many turns.
pub(crate) fn too_many() -> Error {
    let what = format!(
        "its threads take turns more than `{MAX_TURNS}` times: files of threads have no room for that"
    );
    Error::new(ErrorKind::Limit, what)
}

/// The turns of a file, from its settings.
#[derive(Default)]
struct Said {
    turns: Vec<Placed>,
    /// Bytes and events before the first turn.
    start: Option<(u64, u64)>,
    /// The smallest ordinal of events that may be in turns without a description.
    from: u64,
}

/// A turn with its position in the file.
#[derive(Clone, Copy)]
struct Placed {
    turn: Turn,
    /// Bytes and events before the turn.
    begin: u64,
    local: u64,
    /// Whether it may continue a turn of the previous frame whose description is missing.
    may_continue: bool,
}

/// Reads `N` numbers separated by blanks.
fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let mut numbers = text.split(' ').map(|number| number.parse().ok());
    let mut all = [0; N];
    for number in &mut all {
        *number = numbers.next()??;
    }
    numbers.next().is_none().then_some(all)
}

/// The turns of a file; `None` if it is not the file of a thread.
fn turns_of(file: &Source) -> Result<Option<Said>> {
    let wrong = || Error::malformed("its list of turns cannot be read").in_file(file.name());
    let mut said = Said::default();
    let (mut n_missing, mut is_gapless) = (0, true);
    for number in 0..MAX_SETTINGS {
        let Some(text) = file.said(&format!("{TURNS}{number}")) else {
            n_missing += 1;
            if n_missing > MAX_MISSING {
                break;
            }
            continue;
        };
        let is_after_gap = n_missing > 0;
        is_gapless &= !is_after_gap;
        n_missing = 0;
        let mut parts = text.split_terminator(';');
        let [mut at, mut local] = parts.next().and_then(numbers).ok_or_else(wrong)?;
        if number == 0 {
            said.start = Some((at, local));
        }
        for (nth, part) in parts.enumerate() {
            let [ordinal, n_events, extra, len] = numbers(part).ok_or_else(wrong)?;
            let turn = Turn { ordinal, n_events, extra, len };
            let begin = at.saturating_add(extra);
            local = local.saturating_add(extra / CONFIG_BYTES);
            said.turns.push(Placed { turn, begin, local, may_continue: is_after_gap && nth == 0 });
            at = begin.saturating_add(len);
            local = local.saturating_add(n_events);
            if is_gapless {
                said.from = ordinal.saturating_add(n_events);
            }
        }
        if said.turns.len() > MAX_PARTS {
            return Err(too_many().in_file(file.name()));
        }
    }
    Ok((!said.turns.is_empty()).then_some(said))
}

/// Number of events by thread, from a file's setting.
fn threads_of(text: &str) -> BTreeMap<u64, u64> {
    text.split(';').filter_map(numbers).map(|[thread, n]| (thread, n)).collect()
}

/// The name of a file in its folder.
fn base_name(file: &Source) -> &str {
    file.name().rsplit('/').next().unwrap_or_default()
}

/// The thread of a file, from the name of its stream, or from the file's name if the stream has none.
fn thread_of(file: &Source) -> Option<u64> {
    let name = file.said(OWN_NAME).unwrap_or(base_name(file)).strip_prefix(NAME)?;
    name.strip_suffix(".prism").unwrap_or(name).parse().ok()
}

/// Events of a file that are not available.
struct Missing {
    /// The events come after the event with this ordinal, or later.
    from: u64,
    n_events: u64,
    damage: CarrierDamage,
}

/// Merges the events of files of threads into one source; `None` if the folder has no files of events.
///
/// # Errors
/// `Unsupported` for files that do not belong to one trace; `Malformed` for invalid lists of turns; errors of the sources.
pub(crate) fn gathered(folder: &Source) -> Result<Option<Source>> {
    let files = folder.files()?;
    let is_of_events = |file: &&Source| matches!(file.said(ENCODING), Some("36" | "38"));
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
    let says_whole = |file: &&Source| is_of_events(file) && file.said(WHOLE).is_some();
    let first = match (files.iter().find(says_whole), &*files) {
        (Some(first), _) => first,
        (None, [alone]) => return Ok(Some(alone.clone())),
        (None, all) => return Err(foreign(&all[0])),
    };
    let threads = threads_of(first.said(THREADS).unwrap_or_default());
    let mut absent = threads.clone();
    let (mut missing, mut turns, mut starts, mut parts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for file in &files {
        // The settings of a file may be damaged.
        let is_same = |name: &str| file.said(name).is_none_or(|said| first.said(name) == Some(said));
        let thread = thread_of(file).filter(|thread| absent.contains_key(thread));
        let said = match turns_of(file)? {
            Some(said) if ENCODING_AND_WHOLE.into_iter().all(is_same) => said,
            None if thread.is_some() && file.said(WHOLE).is_none_or(|_| file.damage().is_some()) => {
                Said::default()
            }
            _ => return Err(foreign(file)),
        };
        let n_own = thread.and_then(|thread| absent.remove(&thread));
        let Said { turns: placed, start, mut from } = said;
        // If the first frame is damaged, the beginning cannot be read.
        let opened = file.container().and_then(|container| Ok((container.bytes(READ_BYTES)?, container)));
        let Ok((mut bytes, container)) = opened else {
            let damage = damage_of(file);
            missing.extend(n_own.map(|n_events| Missing { from: 0, n_events, damage }));
            continue;
        };
        let (mut n_there, len) = (0_u64, bytes.len());
        for placed in placed {
            let Placed { turn, begin, .. } = placed;
            // A truncated file may list more turns than it has.
            if begin.saturating_add(turn.len) > len {
                from = from.min(turn.ordinal);
                continue;
            }
            n_there = n_there.saturating_add(turn.n_events);
            turns.push((placed, parts.len()));
        }
        if turns.len() > MAX_PARTS {
            return Err(too_many().in_file(folder.name()));
        }
        let n_events = n_own.unwrap_or(n_there).saturating_sub(n_there);
        if n_events > 0 {
            missing.push(Missing { from, n_events, damage: damage_of(file) });
        }
        let begins = bytes.get(0, 1).is_ok();
        starts.push(start.filter(|_| begins));
        parts.push(File { file: file.clone(), container, bytes: Mutex::new(None), thread });
    }
    turns.sort_by_key(|(placed, _)| placed.turn.ordinal);
    let mut expected = 0;
    let mut gaps = Vec::new();
    for (Placed { turn, .. }, number) in &turns {
        if turn.ordinal < expected {
            let what =
                format!("the events of `{}` are in another file, too", base_name(&parts[*number].file));
            return Err(Error::unsupported(what).in_file(folder.name()));
        }
        if turn.ordinal > expected {
            gaps.push(expected..turn.ordinal);
        }
        expected = turn.ordinal.saturating_add(turn.n_events);
    }
    let n_events = first.said(ALL_EVENTS).and_then(|n| n.parse().ok()).unwrap_or(0).max(expected);
    if n_events > expected {
        gaps.push(expected..n_events);
    }
    let n_known = missing.iter().fold(0_u64, |sum, missing| sum.saturating_add(missing.n_events));
    let n_lost = gaps.iter().fold(0_u64, |sum, gap| sum.saturating_add(gap.end - gap.start));
    if let Some(n_events_lost) = n_lost.checked_sub(n_known).filter(|n| *n > 0) {
        let damage = CarrierDamage {
            file: folder.name().to_owned(),
            rule: rules::CUT.name,
            what: absent_files(n_events_lost, n_events, &absent),
            ..CarrierDamage::default()
        };
        missing.push(Missing { from: 0, n_events: n_events_lost, damage });
    }
    let is_whole = gaps.is_empty();
    let mut making = Making::default();
    // The fields of events at the beginning, if the events do not configure them.
    let of_first = turns.first().map(|(_, number)| *number);
    let start_of = |number: usize| Some((number, starts[number]?));
    let of_others = || (0..parts.len()).filter_map(start_of).find(|(_, (at, _))| *at > 0);
    if let Some((file, (len, n))) = of_first.and_then(start_of).or_else(of_others) {
        making.add(Of::Turn { file, at: 0, extra: 0, local: 0 }, len, n);
    }
    let mut gaps = gaps.into_iter().peekable();
    for (Placed { turn, begin, local, may_continue }, file) in turns {
        while let Some(gap) = gaps.next_if(|gap| gap.start < turn.ordinal) {
            making.add_missing(&mut missing, gap.end);
            if may_continue {
                // The frame's header gives the thread of these events, since no event here does.
                making.add_beside(damage_of(&parts[file].file));
            }
        }
        // If files of other threads are missing, so are their configurations.
        let n_before = if is_whole { 0 } else { turn.extra };
        let (len, n_extra) = (turn.len.saturating_add(n_before), n_before / CONFIG_BYTES);
        let of =
            Of::Turn { file, at: begin - n_before, extra: turn.extra - n_before, local: local - n_extra };
        making.add(of, len, turn.n_events.saturating_add(n_extra));
    }
    making.add_missing(&mut missing, u64::MAX);
    // Takes each setting from the first file that has it, because others may be damaged.
    let said = [ENCODING, "detail", "sizes"].into_iter().filter_map(|name| {
        Some((name, files.iter().filter(says_whole).find_map(|file| file.said(name))?.to_owned()))
    });
    let said = said.collect();
    let Making { pieces, damages, .. } = making;
    let content = Gathered { pieces, files: parts, said, damages };
    Ok(Some(Source::of_content(folder.name(), Arc::new(content))))
}

/// The reason why events of a file are not available.
fn damage_of(file: &Source) -> CarrierDamage {
    file.damage().cloned().unwrap_or_else(|| CarrierDamage {
        file: file.name().to_owned(),
        rule: rules::CUT.name,
        what: match file.said(WHOLE) {
            Some(_) => "its events end before its turns do".to_owned(),
            None => "what it says of its turns cannot be read".to_owned(),
        },
        ..CarrierDamage::default()
    })
}

/// The note for a file of one thread that is opened alone.
pub(crate) fn of_one_thread(file: &Source) -> Option<String> {
    let n_all: u64 = file.said(ALL_EVENTS).filter(|_| file.said(WHOLE).is_some())?.parse().ok()?;
    let threads = threads_of(file.said(THREADS).unwrap_or_default());
    let n_own = match thread_of(file).and_then(|thread| threads.get(&thread)) {
        Some(n) => *n,
        None => {
            turns_of(file).ok()??.turns.iter().fold(0, |sum: u64, at| sum.saturating_add(at.turn.n_events))
        }
    };
    let n = n_all.checked_sub(n_own).filter(|n| *n > 0)?;
    Some(format!("{} of other threads are not here: this is the file of one of them", counted(n, "event")))
}

/// The note about events that no file has.
fn absent_files(n: u64, n_all: u64, absent: &BTreeMap<u64, u64>) -> String {
    let mut said =
        format!("{} of other threads are not here, of {} of all", counted(n, "event"), grouped(n_all));
    let names: Vec<String> = absent.keys().map(|thread| format!("{NAME}{thread}.prism")).collect();
    if !names.is_empty() {
        let more = if names.len() > MAX_NAMED { ", …" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(said, "; missing files: {}{more}", names[..names.len().min(MAX_NAMED)].join(", "));
    }
    said
}

struct File {
    file: Source,
    container: Container,
    /// A cursor that is not in use.
    bytes: Mutex<Option<Bytes>>,
    thread: Option<u64>,
}

impl File {
    /// Calls `read` with a cursor.
    fn with<T>(&self, read: impl FnOnce(&mut Bytes) -> io::Result<T>) -> io::Result<T> {
        let lock = || self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let cursor = lock().take();
        let mut cursor = match cursor {
            Some(cursor) => cursor,
            None => self.container.bytes(READ_BYTES).map_err(io::Error::other)?,
        };
        let got = read(&mut cursor);
        *lock() = Some(cursor);
        got
    }
}

/// A range of bytes in the merged source.
struct Piece {
    start: u64,
    end: u64,
    of: Of,
    /// Number of events before it in all pieces, and in it.
    records: u64,
    n_events: u64,
}

/// The contents of a piece.
#[derive(Clone, Copy)]
enum Of {
    /// Bytes of a file from `at`; `local` events come before them in the file. The `extra` bytes before `at` configure the
    /// fields of its events and are not part of the piece.
    Turn { file: usize, at: u64, extra: u64, local: u64 },
    /// One unreadable byte, which stands for missing events.
    Missing(usize),
}

/// Collects pieces.
#[derive(Default)]
struct Making {
    pieces: Vec<Piece>,
    damages: Vec<CarrierDamage>,
    end: u64,
    records: u64,
}

impl Making {
    fn add(&mut self, of: Of, len: u64, n_events: u64) {
        let (start, records) = (self.end, self.records);
        self.end = start.saturating_add(len);
        if self.end > start {
            self.pieces.push(Piece { start, end: self.end, of, records, n_events });
        }
        self.records = records.saturating_add(n_events);
    }

    /// Adds the missing events that may come before the event with ordinal `before`.
    fn add_missing(&mut self, missing: &mut Vec<Missing>, before: u64) {
        for Missing { n_events, damage, .. } in missing.extract_if(.., |missing| missing.from < before) {
            self.add(Of::Missing(self.damages.len()), 1, n_events);
            self.damages.push(CarrierDamage { records: Some(n_events), bytes: None, ..damage });
        }
    }

    /// Adds an unreadable byte without a loss, after which reading starts anew.
    fn add_beside(&mut self, damage: CarrierDamage) {
        self.add(Of::Missing(self.damages.len()), 1, 0);
        self.damages.push(CarrierDamage { records: Some(0), bytes: None, is_beside: true, ..damage });
    }
}

/// The turns of several files, merged into one sequence.
struct Gathered {
    pieces: Vec<Piece>,
    files: Vec<File>,
    said: Vec<(&'static str, String)>,
    /// Missing parts of the trace.
    damages: Vec<CarrierDamage>,
}

impl Gathered {
    /// The error for a piece that cannot be read from byte `skip`. A turn is in one frame, so exactly this turn is lost.
    fn of_piece(&self, piece: &Piece, skip: u64, cause: io::Error) -> io::Error {
        match (CarrierDamage::of(&cause), piece.of) {
            (Some(damage), Of::Turn { .. }) if skip == 0 => CarrierDamage {
                records: Some(piece.n_events),
                bytes: Some(piece.end - piece.start),
                ..damage.clone()
            }
            .into_io(),
            (None, Of::Turn { file, .. }) => {
                io::Error::new(cause.kind(), format!("{}: {cause}", base_name(&self.files[file].file)))
            }
            _ => cause,
        }
    }

    fn piece_at(&self, at: u64) -> Option<&Piece> {
        self.pieces.get(self.pieces.partition_point(|piece| piece.end <= at))
    }

    /// The state at the beginning of a piece.
    fn state_of(&self, piece: &Piece) -> Vec<u8> {
        let Of::Turn { file, at, extra, .. } = piece.of else {
            return Here::default().to_bytes_without_fields();
        };
        let file = &self.files[file];
        let here = Here { thread: file.thread.filter(|thread| *thread > 0), ..Here::default() };
        if extra > 0 {
            if let Ok(detail) = file.with(|bytes| detail_of(bytes.get(at - extra, extra as usize)?)) {
                return Here { detail, ..here }.to_bytes();
            }
        } else if let Some(said) = file.container.said_at(at).and_then(|said| Extension::read(&said)) {
            // A frame begins here.
            return said.state;
        }
        // The fields have not changed since the first event, or events here configure them.
        here.to_bytes_without_fields()
    }
}

/// The fields that a sequence of configurations sets.
fn detail_of(mut bytes: &[u8]) -> io::Result<Detail> {
    let (mut detail, mut scratch) = (Detail::NONE, Batch::default());
    let mut decoder = Decoder::new(detail, Dialect::Strict);
    while !bytes.is_empty() {
        let Ok((Event::Config(config), len)) = decoder.event(bytes, &mut scratch) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        decoder.configure(config);
        detail.configure(config);
        bytes = bytes.get(len..).unwrap_or_default();
    }
    Ok(detail)
}

impl Content for Gathered {
    fn len_bytes(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.end)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut n_read = 0;
        // Turns are short, so several of them fill a reader's buffer.
        let first = self.pieces.partition_point(|piece| piece.end <= at);
        for piece in &self.pieces[first..] {
            let skip = (at + n_read as u64).saturating_sub(piece.start);
            let left = usize::try_from(piece.end - piece.start - skip).unwrap_or(usize::MAX);
            let wanted = left.min(out.len() - n_read).min(READ_BYTES);
            if wanted == 0 {
                break;
            }
            let got = match piece.of {
                Of::Missing(number) => Err(self.damages[number].clone().into_io()),
                Of::Turn { file, at, .. } => self.files[file].with(|cursor| {
                    // If some of the bytes cannot be read, only those before them are returned.
                    let is_sound = cursor.get(at + skip, wanted).is_ok();
                    let there = cursor.get(at + skip, if is_sound { wanted } else { 1 })?;
                    let n = there.len().min(wanted);
                    out[n_read..n_read + n].copy_from_slice(&there[..n]);
                    Ok(n)
                }),
            };
            let n = match got {
                Ok(n) => n,
                // Returns the bytes read so far first.
                Err(_) if n_read > 0 => break,
                Err(cause) => return Err(self.of_piece(piece, skip, cause)),
            };
            if n == 0 && n_read == 0 {
                let what = "its events end before its turns do";
                return Err(self.of_piece(piece, skip, io::Error::new(io::ErrorKind::InvalidData, what)));
            }
            n_read += n;
            if n < left {
                break;
            }
        }
        Ok(n_read)
    }

    fn next_readable(&self, at: u64) -> Option<u64> {
        let piece = self.piece_at(at)?;
        let next = match piece.of {
            Of::Missing(_) => None,
            Of::Turn { file, at: begin, .. } => {
                let next = self.files[file].container.next_readable(0, begin + (at - piece.start));
                next.map(|next| piece.start + next.saturating_sub(begin))
            }
        };
        let next = next.filter(|next| (at + 1..piece.end).contains(next)).unwrap_or(piece.end);
        (next < self.len_bytes()).then_some(next)
    }

    fn said_at(&self, at: u64) -> Option<Vec<u8>> {
        let piece = self.piece_at(at)?;
        let within = at.checked_sub(piece.start)?;
        if within == 0 {
            let (bytes_before, records_before) = (at, piece.records);
            return Some(Extension { bytes_before, records_before, state: self.state_of(piece) }.to_bytes());
        }
        let Of::Turn { file, at: begin, local, .. } = piece.of else { return None };
        let said = self.files[file].container.said_at(begin + within)?;
        let Extension { records_before, state, .. } = Extension::read(&said)?;
        let records_before = piece.records.saturating_add(records_before.checked_sub(local)?);
        Some(Extension { bytes_before: at, records_before, state }.to_bytes())
    }

    fn said(&self, name: &str) -> Option<&str> {
        self.said.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }
}
