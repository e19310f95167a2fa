//! Decodes bytes of the stream into a list of calls without their values.
//!
//! Reads the same grammar as [`Decoder`] and stops at the same faults, but keeps no values: code that counts calls or
//! searches for one does not need them. PERF: `info`.

use super::common::{self, Detail};
use super::signatures::{Facts, GET_ERROR, Learned, Signatures, Space, sint};
use super::trial::{Numbered, is_misnumbered};
use super::{Decoded, Decoder, Header, Stop, blank, is_blank};
use crate::cursor::Cursor;
use crate::record::*;
use quipu_model::values::{Kind, NO_TYPE, Types};
use std::collections::BTreeMap;
use std::ops::Range;

/// A call without its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skimmed {
    /// Its number, in the order of entering.
    pub number: u64,
    /// The thread that made it.
    pub thread: u64,
    /// Its function, as an index into the types.
    pub function: u32,
    /// Its flags, without those that depend on the result.
    pub flags: u32,
    /// True if a stack was recorded.
    pub has_stack: bool,
}

/// Amounts of the data that takes most of the space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bulk {
    /// Number of pieces of raw memory.
    pub blobs: u64,
    /// Bytes of raw memory.
    pub blob_bytes: u64,
    /// Number of strings.
    pub strings: u64,
    /// Bytes of strings.
    pub string_bytes: u64,
    /// Bytes of signatures.
    pub signature_bytes: u64,
}

impl Bulk {
    fn add(&mut self, strings: &Strings) {
        self.blobs += strings.bulk.blobs;
        self.blob_bytes += strings.bulk.blob_bytes;
        self.strings += strings.bulk.strings;
        self.string_bytes += strings.bulk.string_bytes;
    }
}

/// The strings and raw memory of one call, kept apart until the call has proved to be a common one.
#[derive(Default)]
struct Strings {
    any: bool,
    bulk: Bulk,
}

impl Strings {
    fn pass(&mut self, input: &[u8], at: usize) -> Option<usize> {
        let (kind, bytes, next) = common::bytes(input, at)?;
        let (count, sum) = match kind {
            Kind::Text => (&mut self.bulk.strings, &mut self.bulk.string_bytes),
            _ => (&mut self.bulk.blobs, &mut self.bulk.blob_bytes),
        };
        *count += 1;
        *sum += bytes.len() as u64;
        self.any = true;
        Some(next)
    }
}

/// The body of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) space: Space,
    pub(crate) id: u64,
    pub(crate) body: Box<[u8]>,
}

/// The state that a skimmer and a decoder share.
pub(crate) struct State {
    pub(crate) version: u64,
    pub(crate) signatures: Signatures,
    pub(crate) types: Types,
    pub(crate) next_call: u64,
}

/// The numbers of open calls, each with the bytes of the event that entered it, without the bodies of signatures.
pub(crate) type OpenCalls = Vec<(u64, Box<[u8]>)>;

/// The state of the skimmer between two events.
#[derive(Debug)]
pub struct Skimmer {
    version: u64,
    signatures: Signatures,
    types: Types,
    next_call: u64,
    /// The call that was entered last, if it is open.
    last: Option<Open>,
    others: BTreeMap<u64, Open>,
    bulk: Bulk,
    /// Whether to keep what another reader needs to continue from here.
    keeps: bool,
    kept_bytes: usize,
    definitions: Vec<Definition>,
    definition_bytes: usize,
    /// Number of the call that the last event left, if that call was not open.
    unmatched: Option<u64>,
}

#[derive(Debug)]
struct Open {
    call: Skimmed,
    enter: Enter,
}

/// Location of the event that entered a call.
#[derive(Debug)]
enum Enter {
    /// A range of the buffered bytes.
    Here(Range<usize>),
    Kept(Box<[u8]>),
}

impl Skimmer {
    /// A skimmer of the events after `header`.
    pub fn new(header: &Header) -> Skimmer {
        Skimmer {
            version: header.version,
            signatures: Signatures::new(header.version),
            types: Types::default(),
            next_call: 0,
            last: None,
            others: BTreeMap::new(),
            bulk: Bulk::default(),
            keeps: false,
            kept_bytes: 0,
            definitions: Vec::new(),
            definition_bytes: 0,
            unmatched: None,
        }
    }

    /// Makes the skimmer keep what another reader needs to continue from its position.
    pub(crate) fn keeping(mut self) -> Skimmer {
        self.keeps = true;
        self
    }

    /// A skimmer that continues at a place where these signatures are known and these calls are open.
    ///
    /// # Errors
    /// If a definition or an event is malformed or incomplete.
    pub(crate) fn resume(
        version: u64,
        definitions: &[Definition],
        open: &[(u64, Box<[u8]>)],
        next_call: u64,
    ) -> Decoded<Skimmer> {
        let header = Header { version, ..Header::default() };
        let mut skimmer = Skimmer::new(&header).keeping();
        for definition in definitions {
            let (space, id) = (definition.space, definition.id);
            skimmer.signatures.define(space, id, &definition.body, &mut skimmer.types)?;
        }
        for (number, enter) in open {
            skimmer.next_call = *number;
            skimmer.event(enter, 0)?;
            skimmer.leave_block(enter).map_err(|_| Stop::More(0))?;
        }
        skimmer.next_call = next_call;
        Ok(skimmer)
    }

    /// Number of calls entered so far.
    pub fn n_entered(&self) -> u64 {
        self.next_call
    }

    /// Takes the number of the call that the last event left, if that call was not open.
    pub(crate) fn take_unmatched(&mut self) -> Option<u64> {
        self.unmatched.take()
    }

    /// Like [`Decoder::is_misnumbered`].
    pub(crate) fn is_misnumbered(&mut self, input: &[u8]) -> bool {
        let (next_call, n_types, bulk) = (self.next_call, self.types.len(), self.bulk);
        let mut cursor = Cursor::new(input, 0);
        let told = is_misnumbered(next_call, &mut || match cursor.byte()? {
            EVENT_ENTER => self.enter(&mut cursor).map(|_| Numbered::Entered),
            EVENT_LEAVE => {
                let number = cursor.uint()?;
                self.details(&mut cursor, &mut nobody(number))?;
                Ok(Numbered::Left { number, n_entered: self.next_call })
            }
            _ => Ok(Numbered::Nothing),
        });
        (self.next_call, self.bulk) = (next_call, bulk);
        self.types.truncate(n_types);
        self.signatures.forget();
        told
    }

    /// Number of open calls.
    pub(crate) fn n_open(&self) -> u64 {
        self.others.len() as u64 + u64::from(self.last.is_some())
    }

    /// Sets the number of the next call.
    pub(crate) fn set_next_call(&mut self, number: u64) {
        self.next_call = number;
    }

    /// Like [`Decoder::resume_after_gap`], with a temporary decoder, because that search needs values.
    pub(crate) fn resume_after_gap(&mut self, input: &[u8], n_looked: usize) -> Option<(usize, u64)> {
        let signatures = std::mem::replace(&mut self.signatures, Signatures::new(self.version));
        let mut decoder = Decoder::knowing(self.version, signatures, self.next_call);
        let found = decoder.resume_after_gap(input, n_looked, &mut self.types);
        self.signatures = decoder.into_signatures();
        found
    }

    /// The types read so far.
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// Amounts of the data that takes most of the space.
    pub fn bulk(&self) -> &Bulk {
        &self.bulk
    }

    /// The signatures read so far, if they are kept, and the total size of their bodies in bytes.
    pub(crate) fn definitions(&self) -> (&[Definition], usize) {
        (&self.definitions, self.definition_bytes)
    }

    /// Reads the event at `at` of `input`, and the next one too if it leaves the call that the first entered. Returns the
    /// completed call, if any, and the offset of the next event.
    ///
    /// # Errors
    /// If the event is incomplete or malformed. Then the state is unchanged.
    pub fn event(&mut self, input: &[u8], at: usize) -> Decoded<(Option<Skimmed>, usize)> {
        let bulk = self.bulk;
        let mut cursor = Cursor::new(input, at);
        let read = match cursor.byte() {
            Ok(EVENT_ENTER) if is_blank(input, at) => Err(blank(&cursor, at)),
            Ok(EVENT_ENTER) => self.enter(&mut cursor),
            Ok(EVENT_LEAVE) => {
                let left = self.leave(&mut cursor);
                return self.settle(left, bulk).map(|call| (call, cursor.at()));
            }
            Ok(other) => Err(cursor.bad_at(at, format!("unknown event `{other}`"))),
            Err(stop) => Err(stop),
        };
        let mut enter = None;
        if self.keeps && read.is_ok() && !self.signatures.learned().is_empty() {
            let bytes = without(input, at..cursor.at(), self.signatures.learned());
            enter = Some(Enter::Kept(bytes));
            self.keep_definitions(input);
        }
        let mut call = self.settle(read, bulk)?;
        let entered = cursor.at();
        // Usually the event that leaves the call follows.
        if let (Ok(EVENT_LEAVE), Ok(number)) = (cursor.byte(), cursor.uint())
            && number == call.number
        {
            let before = (call, self.bulk);
            let left = self.details(&mut cursor, &mut call);
            if self.keeps && left.is_ok() {
                self.keep_definitions(input);
            }
            if self.settle(left, before.1).is_ok() {
                return Ok((Some(call), cursor.at()));
            }
            call = before.0;
        }
        let enter = enter.unwrap_or(Enter::Here(at..entered));
        if let Enter::Kept(bytes) = &enter {
            self.kept_bytes += bytes.len();
        }
        if let Some(before) = self.last.replace(Open { call, enter }) {
            self.others.insert(before.call.number, before);
        }
        Ok((None, entered))
    }

    /// Skims both events of a call in the common form at `at`. `None` if the call has another form; then nothing changes.
    #[inline(always)]
    pub(crate) fn common(&mut self, input: &[u8], at: usize) -> Option<(Skimmed, usize)> {
        let entry = common::entry(input, at, self.version, &self.signatures)?;
        let (function, number) = (entry.function, self.next_call);
        let mut strings = Strings::default();
        let left = self.pass(input, entry.at, &mut strings)?;
        let next = self.pass(input, common::leaving(input, left, number)?, &mut strings)?;
        if strings.any {
            self.bulk.add(&strings);
        }
        self.next_call += 1;
        let flags = self.signatures.facts(function).flags & !GET_ERROR;
        Some((Skimmed { number, thread: entry.thread, function, flags, has_stack: false }, next))
    }

    /// Skips the details of an event; returns the offset after them.
    #[inline(always)]
    fn pass(&self, input: &[u8], mut at: usize, strings: &mut Strings) -> Option<usize> {
        loop {
            let (detail, value) = common::detail(input, at)?;
            if let Detail::End = detail {
                return Some(value);
            }
            at = match common::scalar(input, value, &self.signatures) {
                Some((_, next)) => next,
                None => self.pass_others(input, value, strings)?,
            };
        }
    }

    /// Skips a string, or a list whose elements have no parts.
    #[inline(never)]
    fn pass_others(&self, input: &[u8], at: usize, strings: &mut Strings) -> Option<usize> {
        if let Some(next) = strings.pass(input, at) {
            return Some(next);
        }
        let (n_parts, mut at) = common::list(input, at)?;
        for _ in 0..n_parts {
            at = match common::scalar(input, at, &self.signatures) {
                Some((_, next)) => next,
                None => strings.pass(input, at)?,
            };
        }
        Some(at)
    }

    /// Keeps the signatures of an event that was read; drops those of one that failed, and restores `bulk`.
    #[inline]
    fn settle<T>(&mut self, read: Decoded<T>, bulk: Bulk) -> Decoded<T> {
        match read {
            Ok(_) if self.signatures.learned().is_empty() => {}
            Ok(_) => {
                let learned = self.signatures.learned().iter();
                self.bulk.signature_bytes += learned.map(|learned| learned.body.len() as u64).sum::<u64>();
                self.signatures.keep();
            }
            Err(_) => {
                let n_learned = self.signatures.learned().len();
                self.types.truncate(self.types.len() - n_learned);
                self.signatures.forget();
                self.bulk = bulk;
            }
        }
        read
    }

    #[cold]
    fn keep_definitions(&mut self, input: &[u8]) {
        for Learned { space, id, body } in self.signatures.learned() {
            let body: Box<[u8]> = input.get(body.clone()).unwrap_or(&[]).into();
            self.definition_bytes += body.len();
            self.definitions.push(Definition { space: *space, id: *id, body });
        }
    }

    #[inline]
    fn enter(&mut self, cursor: &mut Cursor<'_>) -> Decoded<Skimmed> {
        let thread = if self.version >= VERSION_THREADS { cursor.uint()? } else { 0 };
        let function = self.signatures.function(cursor, &mut self.types)?;
        let flags = self.signatures.facts(function).flags & !GET_ERROR;
        let mut call = Skimmed { number: self.next_call, thread, function, flags, has_stack: false };
        self.details(cursor, &mut call)?;
        self.next_call += 1;
        Ok(call)
    }

    fn leave(&mut self, cursor: &mut Cursor<'_>) -> Decoded<Option<Skimmed>> {
        let number = cursor.uint()?;
        let call = match &self.last {
            Some(open) if open.call.number == number => Some(open.call),
            _ => self.others.get(&number).map(|open| open.call),
        };
        let mut left = call.unwrap_or(nobody(number));
        self.details(cursor, &mut left)?;
        if self.keeps && !self.signatures.learned().is_empty() {
            self.keep_definitions(cursor.all());
        }
        if call.is_none() {
            self.unmatched = Some(number);
            return Ok(None);
        }
        let open = match &self.last {
            Some(open) if open.call.number == number => self.last.take(),
            _ => self.others.remove(&number),
        };
        if let Some(Open { enter: Enter::Kept(bytes), .. }) = open {
            self.kept_bytes = self.kept_bytes.saturating_sub(bytes.len());
        }
        Ok(Some(left))
    }

    #[inline]
    fn details(&mut self, cursor: &mut Cursor<'_>, call: &mut Skimmed) -> Decoded<()> {
        let Facts { n_parts, .. } = self.signatures.facts(call.function);
        let limit = u64::from(n_parts) + MAX_EXTRA_ARGS;
        loop {
            let at = cursor.at();
            match cursor.byte()? {
                DETAIL_END => return Ok(()),
                DETAIL_ARG => {
                    let index = cursor.uint()?;
                    if index >= limit {
                        return Err(cursor.limit_at(at, "arguments", index, limit));
                    }
                    self.value(cursor)?;
                }
                DETAIL_RESULT => self.value(cursor)?,
                DETAIL_THREAD => call.thread = cursor.uint()?,
                DETAIL_STACK => {
                    for _ in 0..cursor.uint()? {
                        self.signatures.frame(cursor, &mut self.types)?;
                    }
                    call.has_stack = true;
                }
                DETAIL_FLAGS => call.flags = call.flags & !FAKE | cursor.uint()? as u32 & FAKE,
                other => return Err(cursor.bad_at(at, format!("unknown call detail `{other}`"))),
            }
        }
    }

    /// Skips a value.
    #[inline]
    fn value(&mut self, cursor: &mut Cursor<'_>) -> Decoded<()> {
        let at = cursor.at();
        match cursor.byte()? {
            TAG_NULL | TAG_FALSE | TAG_TRUE => Ok(()),
            TAG_NEGATIVE | TAG_UNSIGNED | TAG_POINTER => cursor.uint().map(|_| ()),
            TAG_FLOAT => cursor.array::<4>().map(|_| ()),
            TAG_DOUBLE => cursor.array::<8>().map(|_| ()),
            TAG_ENUM => {
                let (_, only) = self.signatures.enumeration(cursor, &mut self.types)?;
                if only.is_none() {
                    sint(cursor)?;
                }
                Ok(())
            }
            TAG_BITMASK => {
                self.signatures.bitmask(cursor, &mut self.types)?;
                cursor.uint().map(|_| ())
            }
            tag => self.other_value(tag, at, cursor, 0),
        }
    }

    #[inline(never)]
    fn other_value(&mut self, tag: u8, at: usize, cursor: &mut Cursor<'_>, depth: u32) -> Decoded<()> {
        let n_parts = match tag {
            TAG_STRING | TAG_BLOB => {
                let bytes = cursor.string()?.len() as u64;
                let bulk = &mut self.bulk;
                let (count, sum) = match tag {
                    TAG_STRING => (&mut bulk.strings, &mut bulk.string_bytes),
                    _ => (&mut bulk.blobs, &mut bulk.blob_bytes),
                };
                *count += 1;
                *sum += bytes;
                return Ok(());
            }
            TAG_WIDE => {
                for _ in 0..cursor.uint()? {
                    let at = cursor.at();
                    if u32::try_from(cursor.uint()?).is_err() {
                        return Err(cursor.bad_at(at, "a wide character has more than 32 bits".to_owned()));
                    }
                }
                return Ok(());
            }
            TAG_ARRAY | TAG_STRUCT | TAG_REPR if depth >= MAX_DEPTH => {
                return Err(cursor.limit_at(at, "values inside each other", depth.into(), MAX_DEPTH.into()));
            }
            TAG_ARRAY => cursor.uint()?,
            TAG_STRUCT => self.signatures.structure(cursor, &mut self.types)?.1,
            TAG_REPR => 2,
            other => return Err(cursor.bad_at(at, format!("unknown value type `{other}`"))),
        };
        for _ in 0..n_parts {
            match cursor.peek() {
                Some(tag @ (TAG_STRING | TAG_BLOB | TAG_WIDE | TAG_ARRAY | TAG_STRUCT | TAG_REPR)) => {
                    let at = cursor.at();
                    cursor.byte()?;
                    self.other_value(tag, at, cursor, depth + 1)?;
                }
                _ => self.value(cursor)?,
            }
        }
        Ok(())
    }

    /// Copies the events of open calls out of `input`, because its bytes are about to be discarded.
    ///
    /// # Errors
    /// The number of bytes, if they take too much memory.
    pub(crate) fn leave_block(&mut self, input: &[u8]) -> Result<(), u64> {
        if !self.keeps {
            return Ok(());
        }
        for open in self.last.iter_mut().chain(self.others.values_mut()) {
            if let Enter::Here(range) = &open.enter {
                let bytes: Box<[u8]> = input.get(range.clone()).unwrap_or(&[]).into();
                self.kept_bytes += bytes.len();
                open.enter = Enter::Kept(bytes);
            }
        }
        if self.kept_bytes > MAX_PENDING_BYTES { Err(self.kept_bytes as u64) } else { Ok(()) }
    }

    /// The open calls, by number, with copies of their events.
    pub(crate) fn open_calls(&self, input: &[u8]) -> OpenCalls {
        let open = self.others.values().chain(&self.last);
        open.map(|open| {
            let enter = match &open.enter {
                Enter::Here(range) => input.get(range.clone()).unwrap_or(&[]).into(),
                Enter::Kept(bytes) => bytes.clone(),
            };
            (open.call.number, enter)
        })
        .collect()
    }

    /// Removes and returns the call that was entered first, of those still open at the end of the data.
    pub fn take_oldest(&mut self) -> Option<Skimmed> {
        let open = match self.others.pop_first() {
            Some((_, open)) => open,
            None => self.last.take()?,
        };
        Some(Skimmed { flags: open.call.flags | INCOMPLETE, ..open.call })
    }

    /// The state with which a decoder continues. The events of open calls must have been kept.
    pub(crate) fn into_state(self) -> (State, OpenCalls) {
        let open = self.open_calls(&[]);
        let Skimmer { version, signatures, types, next_call, .. } = self;
        (State { version, signatures, types, next_call }, open)
    }
}

/// A placeholder for a call that is not open.
fn nobody(number: u64) -> Skimmed {
    Skimmed { number, thread: 0, function: NO_TYPE, flags: 0, has_stack: false }
}

/// The bytes of `range` without the bodies of signatures in it.
fn without(input: &[u8], range: Range<usize>, learned: &[Learned]) -> Box<[u8]> {
    let mut kept = Vec::new();
    let mut at = range.start;
    for Learned { body, .. } in learned {
        kept.extend_from_slice(input.get(at..body.start).unwrap_or(&[]));
        at = body.end;
    }
    kept.extend_from_slice(input.get(at..range.end).unwrap_or(&[]));
    kept.into()
}
