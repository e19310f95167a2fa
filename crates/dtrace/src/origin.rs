//! The text from which descriptions were read, with details that the descriptions do not have: order, blanks, unknown
//! members. With it, a capture that went through a stream is written again byte for byte.
//!
//! The text is used only if it describes the same as the capture.
//!
//! SPEC: dtrace.md#captures

use crate::bytes::until_nul;
use crate::describe::{Buffer, Capture, Event};
use crate::export::File;
use crate::options::Settings;
use crate::{described, linux, meta, script};
use quipu_wire::record::Producer;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Name of the attachment with the lines, except those that can be derived from samples and states.
pub(crate) const LINES: &str = "raw.jsonl.lines";

/// Maximum size of the text in bytes.
const MAX_TEXT: usize = 64 << 20;

/// Prefixes of lines in the attachment: a line of text; a line of text from which a sample or state was read; a number of
/// samples and states whose lines are in the usual form.
const TEXT: u8 = b':';
const TOLD: u8 = b'!';
const EVENTS: u8 = b'=';

/// The text from which descriptions were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The text is unknown.
    #[default]
    Unknown,
    /// `meta.json`.
    Meta(Arc<[u8]>),
    /// `raw.jsonl`.
    Lines(Lines),
}

/// The lines of `raw.jsonl`, and the file `opts` if it existed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The lines, in the form of the attachment.
    parts: Vec<u8>,
    /// Number of samples and states since the last part.
    n_events: u64,
    is_too_long: bool,
    pub(crate) options: Option<Arc<[u8]>>,
}

impl Lines {
    /// Takes a line, with its newline unless it is the last one.
    pub(crate) fn text(&mut self, line: &[u8]) {
        self.put(TEXT, line);
    }

    /// Takes a line from which a sample or state was read. `usual` is its usual form.
    pub(crate) fn event(&mut self, line: &[u8], usual: &[u8]) {
        match line == usual {
            true => self.n_events += 1,
            false => self.put(TOLD, line),
        }
    }

    fn put(&mut self, kind: u8, line: &[u8]) {
        self.close();
        self.is_too_long |= self.parts.len() + line.len() > MAX_TEXT;
        if !self.is_too_long {
            self.parts.push(kind);
            self.parts.extend_from_slice(line);
        }
    }

    fn close(&mut self) {
        let n = std::mem::take(&mut self.n_events);
        if n > 0 && !self.is_too_long {
            self.parts.extend_from_slice(format!("{}{n}\n", EVENTS as char).as_bytes());
        }
    }

    /// Ends the lines.
    pub(crate) fn finish(mut self) -> Origin {
        self.close();
        if self.is_too_long { Origin::Unknown } else { Origin::Lines(self) }
    }

    /// The text of the lines; `None` if it does not describe the same as the capture.
    fn written(&self, capture: &Capture) -> Option<Vec<u8>> {
        let (mut text, mut told) = (Vec::new(), Vec::new());
        let mut events = capture.events.iter();
        let mut n_told = 0;
        for part in self.parts.split_inclusive(|byte| *byte == b'\n') {
            let (kind, line) = part.split_first()?;
            match *kind {
                TEXT | TOLD => {
                    text.extend_from_slice(line);
                    told.extend_from_slice(line);
                    if *kind == TOLD {
                        n_told += 1;
                        events.next()?;
                    }
                }
                EVENTS => {
                    let n = std::str::from_utf8(line.trim_ascii_end()).ok()?.parse::<u64>().ok()?;
                    for _ in 0..n {
                        linux::put_event(capture, events.next()?, &mut text);
                    }
                }
                _ => return None,
            }
        }
        let mut said = linux::read(linux::FILE, &told).ok()?;
        said.settings = capture.settings;
        if let Some((_, text)) = capture.beside.iter().find(|(name, _)| name == script::FILE) {
            script::apply(&mut said, text);
        }
        (events.next().is_none() && said.events.len() == n_told && describes(&said, capture)).then_some(text)
    }
}

/// Whether two captures have the same descriptions.
fn describes(one: &Capture, other: &Capture) -> bool {
    let records = |capture| described::records_beside(capture, Producer::default(), &[], &[]);
    one.dialect == other.dialect && one.lost == other.lost && records(one) == records(other)
}

impl Origin {
    /// The text of `meta.json`, if it is not too long.
    pub(crate) fn of_meta(text: &[u8]) -> Origin {
        if text.len() > MAX_TEXT { Origin::Unknown } else { Origin::Meta(text.into()) }
    }

    /// The attachments for a stream.
    pub(crate) fn attachments(&self) -> Vec<(&'static str, Cow<'_, [u8]>)> {
        match self {
            Origin::Unknown => Vec::new(),
            Origin::Meta(text) => vec![(meta::FILE, Cow::Borrowed(&**text))],
            Origin::Lines(lines) => {
                let options =
                    lines.options.as_deref().map(|options| (linux::OPTIONS, Cow::Borrowed(options)));
                std::iter::once((LINES, Cow::Borrowed(&*lines.parts))).chain(options).collect()
            }
        }
    }

    /// Takes an attachment; returns it if it is not one of these.
    pub(crate) fn take(&mut self, name: &str, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let lines = match self {
            Origin::Lines(lines) => std::mem::take(lines),
            _ => Lines::default(),
        };
        match name {
            meta::FILE => *self = Origin::Meta(bytes.into()),
            LINES => *self = Origin::Lines(Lines { parts: bytes, ..lines }),
            linux::OPTIONS => *self = Origin::Lines(Lines { options: Some(bytes.into()), ..lines }),
            _ => {
                if lines != Lines::default() {
                    *self = Origin::Lines(lines);
                }
                return Some(bytes);
            }
        }
        None
    }

    /// The files from which a capture was read, byte for byte; `None` if they are unknown, or describe something else.
    pub(crate) fn files(&self, capture: &Capture) -> Option<Vec<File>> {
        match self {
            Origin::Unknown => None,
            Origin::Meta(text) => with_buffers(text, capture),
            Origin::Lines(lines) => {
                let mut files = vec![(linux::FILE.to_owned(), lines.written(capture)?)];
                let said = lines.options.as_deref().unwrap_or_default();
                if Settings::of_command(&String::from_utf8_lossy(said)) != capture.settings {
                    return None;
                }
                files.extend(lines.options.as_ref().map(|said| (linux::OPTIONS.to_owned(), said.to_vec())));
                Some(files)
            }
        }
    }
}

/// The bytes of the buffers of each CPU, concatenated, each from its oldest record.
fn bytes_of(buffers: &[Buffer]) -> BTreeMap<u32, Vec<u8>> {
    let mut all: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for buffer in buffers {
        let bytes = all.entry(buffer.cpu).or_default();
        let (younger, older) = buffer.bytes.split_at(buffer.oldest.min(buffer.bytes.len()));
        bytes.reserve_exact(buffer.bytes.len());
        bytes.extend_from_slice(older);
        bytes.extend_from_slice(younger);
    }
    all
}

/// Further facts about buffers, by CPU: the sum of drops, and the last errors and time.
fn beside<'b>(all: impl Iterator<Item = (u32, u64, u64, u64)> + 'b) -> BTreeMap<u32, (u64, u64, u64)> {
    let mut by_cpu: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
    for (cpu, drops, errors, timestamp) in all {
        let (before, ..) = by_cpu.get(&cpu).copied().unwrap_or_default();
        by_cpu.insert(cpu, (before + drops, errors, timestamp));
    }
    by_cpu
}

/// `meta.json` and the files of the buffers that it lists. `None` unless these have exactly the bytes of the capture.
fn with_buffers(text: &[u8], capture: &Capture) -> Option<Vec<File>> {
    let (said, [records, states]) = meta::listed(text)?;
    if said.status != capture.status || !describes(&said, capture) {
        return None;
    }
    let mut files: Vec<File> = Vec::new();
    let mut names = BTreeSet::new();
    for (listed, buffers) in [(records, &capture.buffers), (states, &capture.states)] {
        let told = listed.iter().map(|of| (of.cpu, of.drops, of.errors, of.timestamp));
        let known = buffers.iter().map(|of| (of.cpu, of.drops, of.errors, of.timestamp));
        if beside(told) != beside(known) {
            return None;
        }
        let mut rest = bytes_of(buffers);
        for buffer in listed {
            let rest = rest.entry(buffer.cpu).or_default();
            let n = buffer.size.map_or(Some(rest.len()), |n| usize::try_from(n).ok())?;
            if n > rest.len() {
                return None;
            }
            let after = rest.split_off(n);
            let mut bytes = std::mem::replace(rest, after);
            bytes.rotate_right(buffer.oldest.min(n));
            match buffer.bytes {
                // The bytes are in the description.
                Some(own) if own == bytes => {}
                Some(_) => return None,
                None if !names.insert(buffer.file.clone())
                    || buffer.file == meta::FILE
                    || !is_plain(&buffer.file) =>
                {
                    return None;
                }
                None => files.push((buffer.file, bytes)),
            }
        }
        if rest.values().any(|bytes| !bytes.is_empty()) {
            return None;
        }
    }
    files.push((meta::FILE.to_owned(), text.to_vec()));
    Some(files)
}

/// Whether a file name stays in its folder.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && !name.contains(['/', '\\', '\0'])
        && until_nul(name.as_bytes()).len() == name.len()
}

/// The usual form of the line of a sample or a state, with its newline.
pub(crate) fn usual<'s>(capture: &Capture, event: &Event, scratch: &'s mut Vec<u8>) -> &'s [u8] {
    scratch.clear();
    linux::put_event(capture, event, scratch);
    scratch
}
