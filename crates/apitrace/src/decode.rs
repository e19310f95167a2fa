//! Decodes bytes of the stream into calls: a state machine without files, threads or clocks.
//!
//! [`Decoder::event`] takes one event from the front of the bytes. An incomplete event leaves the state unchanged: it is read
//! again when there are more bytes. Calls are delivered when they are left, in the order of completion; calls never left are
//! delivered at the end of the data, in the order of entering. SPEC: apitrace.md#events.

mod common;
mod pending;
pub(crate) mod signatures;
pub mod skim;
pub(crate) mod trial;

use crate::cursor::Cursor;
pub use crate::cursor::{Decoded, Fault, Stop};
use crate::record::*;
use common::Detail;
use pending::Pending;
use quipu_model::values::{Arg, Call, Kind, NO_NODE, NO_TYPE, Node, Types, Values};
use signatures::Signatures;

/// The header of the stream: everything before the first event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The version of the stream.
    pub version: u64,
    /// Version of the calls' semantics, which says how they are to be replayed.
    pub semantic_version: u64,
    /// Names and values in the order of the stream; names may repeat.
    pub properties: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Reads the header at the front of `input`; also returns the offset of its end.
pub fn header(input: &[u8]) -> Decoded<(Header, usize)> {
    let mut cursor = Cursor::new(input, 0);
    let version = cursor.uint()?;
    let unsupported = |message: String| {
        Stop::Bad(Box::new(Fault { kind: quipu_model::ErrorKind::Unsupported, at: 0, message }))
    };
    if version > NEWEST_VERSION {
        let message = format!(
            "stream version `{version}` is newer than this program, which reads 0 to {NEWEST_VERSION}"
        );
        return Err(unsupported(message));
    }
    let mut header = Header { version, semantic_version: version, properties: Vec::new() };
    if version >= VERSION_PROPERTIES {
        header.semantic_version = cursor.uint()?;
        if header.semantic_version > version {
            let message = format!("semantic version `{}` is newer than the format", header.semantic_version);
            return Err(unsupported(message));
        }
        loop {
            let name = cursor.string()?;
            if name.is_empty() {
                break;
            }
            header.properties.push((name.to_vec(), cursor.string()?.to_vec()));
        }
    }
    Ok((header, cursor.at()))
}

impl Header {
    /// A header of the newest version, without properties.
    pub(crate) fn newest() -> Header {
        let version = NEWEST_VERSION;
        Header { version, semantic_version: version, properties: Vec::new() }
    }

    /// The effective properties, sorted by name; of several with the same name, the last.
    pub fn sorted_properties(&self) -> Vec<(&[u8], &[u8])> {
        let mut sorted: Vec<(&[u8], &[u8])> = Vec::new();
        let mut all: Vec<_> = self.properties.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        all.sort_by_key(|(name, _)| *name);
        for property in all {
            match sorted.last_mut() {
                Some(last) if last.0 == property.0 => *last = property,
                _ => sorted.push(property),
            }
        }
        sorted
    }
}

/// Kinds of events that [`Decoder::event`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call was entered; it is delivered when it is left.
    Entered,
    /// A call was left, and added to the calls.
    Left,
    /// The event left a call with this number, which is not open; the event is dropped.
    Unmatched(u64),
}

/// The state of the decoder between two events.
#[derive(Debug)]
pub struct Decoder {
    version: u64,
    signatures: Signatures,
    pending: Pending,
    next_call: u64,
}

/// Lengths of all output lists when an event began, to undo it.
struct Marks {
    args: usize,
    nodes: usize,
    bytes: usize,
    frames: usize,
    types: usize,
}

impl Marks {
    fn of(out: &Values, types: &Types) -> Marks {
        Marks {
            args: out.args.len(),
            nodes: out.nodes.len(),
            bytes: out.bytes.len(),
            frames: out.frames.len(),
            types: types.len(),
        }
    }

    fn restore(&self, out: &mut Values, types: &mut Types) {
        out.args.truncate(self.args);
        out.nodes.truncate(self.nodes);
        out.bytes.truncate(self.bytes);
        out.frames.truncate(self.frames);
        types.truncate(self.types);
    }
}

impl Decoder {
    /// A decoder of the events after `header`.
    pub fn new(header: &Header) -> Decoder {
        Decoder {
            version: header.version,
            signatures: Signatures::new(header.version),
            pending: Pending::default(),
            next_call: 0,
        }
    }

    /// A decoder that continues where a skimmer stopped, with the types that the skimmer has read.
    ///
    /// # Errors
    /// `Limit`, with the number of bytes, if open calls take too much memory.
    pub fn take_over(skimmer: skim::Skimmer) -> Result<(Decoder, Types), u64> {
        let (state, open) = skimmer.into_state();
        let skim::State { version, signatures, mut types, next_call } = state;
        let mut decoder = Decoder { version, signatures, pending: Pending::default(), next_call };
        let mut values = Values::default();
        for (number, enter) in open {
            decoder.next_call = number;
            // The skimmer has read this event without error, so it cannot fail here.
            let _ = decoder.event(&enter, 0, &mut values, &mut types);
        }
        decoder.next_call = next_call;
        decoder.park(&values)?;
        Ok((decoder, types))
    }

    /// A decoder with these signatures and no open call.
    fn knowing(version: u64, signatures: Signatures, next_call: u64) -> Decoder {
        Decoder { version, signatures, pending: Pending::default(), next_call }
    }

    fn into_signatures(self) -> Signatures {
        self.signatures
    }

    /// Number of calls entered so far.
    pub fn n_entered(&self) -> u64 {
        self.next_call
    }

    /// Declares that a part of the stream before this point is missing: signatures may be lost, and call numbers may be off.
    pub(crate) fn expect_gaps(&mut self) {
        self.signatures.expect_gaps();
    }

    /// Number of signatures that were lost and replaced by placeholders.
    pub(crate) fn n_lost_signatures(&self) -> u64 {
        self.signatures.n_lost()
    }

    /// Sets the number of the next call.
    pub(crate) fn set_next_call(&mut self, number: u64) {
        self.next_call = number;
    }

    /// True if a call was entered and not yet left.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Decodes the event at `at` of `input`; returns its kind and the offset of the next event.
    ///
    /// # Errors
    /// If the event is incomplete or malformed. Then the state is unchanged.
    pub fn event(
        &mut self,
        input: &[u8],
        at: usize,
        out: &mut Values,
        types: &mut Types,
    ) -> Decoded<(Event, usize)> {
        let marks = Marks::of(out, types);
        let mut cursor = Cursor::new(input, at);
        let read = match cursor.byte() {
            Ok(EVENT_ENTER) if is_blank(input, at) => Err(blank(&cursor, at)),
            Ok(EVENT_ENTER) => match self.enter(&mut cursor, out, types) {
                Ok(call) => {
                    self.signatures.keep();
                    return Ok(self.leave_at_once(call, cursor, out, types));
                }
                Err(stop) => Err(stop),
            },
            Ok(EVENT_LEAVE) => self.leave(&mut cursor, out, types),
            Ok(other) => Err(cursor.bad_at(at, format!("unknown event `{other}`"))),
            Err(stop) => Err(stop),
        };
        match read {
            Ok(event) => {
                self.signatures.keep();
                Ok((event, cursor.at()))
            }
            Err(stop) => {
                marks.restore(out, types);
                self.signatures.forget();
                Err(stop)
            }
        }
    }

    /// Decodes both events of a call in the common form at `at`; returns the offset after them. `None` if the call has
    /// another form; then nothing changes.
    #[inline]
    pub(crate) fn common(&mut self, input: &[u8], at: usize, out: &mut Values) -> Option<usize> {
        let entry = common::entry(input, at, self.version, &self.signatures)?;
        let marks = (out.args.len(), out.nodes.len(), out.bytes.len());
        let (function, number) = (entry.function, self.next_call);
        let (n_args, n_frames) = (marks.0 as u32, out.frames.len() as u32); // Less than 2^32 bytes of each.
        let mut call = Call {
            number,
            thread: entry.thread,
            function,
            flags: self.signatures.facts(function).flags,
            stored_flags: 0,
            args: (n_args, n_args),
            result: NO_NODE,
            stack: (n_frames, n_frames),
            has_stack: false,
            stream_bytes: 0,
        };
        let mut index = 0;
        let next = self.take(input, entry.at, &mut index, &mut call, out).and_then(|left| {
            let at = common::leaving(input, left, number)?;
            self.take(input, at, &mut index, &mut call, out)
        });
        if next.is_none() {
            out.args.truncate(marks.0);
            out.nodes.truncate(marks.1);
            out.bytes.truncate(marks.2);
            return None;
        }
        call.args.1 = out.args.len() as u32;
        self.next_call += 1;
        deliver(call, 0, out);
        next
    }

    /// Decodes the details of an event if the indexes of its arguments ascend, the first being at least `index`.
    #[inline(always)]
    fn take(
        &self,
        input: &[u8],
        mut at: usize,
        index: &mut u32,
        call: &mut Call,
        out: &mut Values,
    ) -> Option<usize> {
        loop {
            let (detail, value) = common::detail(input, at)?;
            let node = out.nodes.len() as u32;
            match detail {
                Detail::End => return Some(value),
                Detail::Arg(this) if this >= *index => {
                    *index = this + 1;
                    out.args.push(Arg { index: this, node });
                }
                Detail::Arg(_) => return None,
                Detail::Result => call.result = node,
            }
            at = match common::scalar(input, value, &self.signatures) {
                Some((node, next)) => {
                    out.nodes.push(node);
                    next
                }
                None => self.take_others(input, value, out)?,
            };
        }
    }

    /// Decodes a string, or a list whose elements have no parts.
    #[inline(never)]
    fn take_others(&self, input: &[u8], at: usize, out: &mut Values) -> Option<usize> {
        if let Some((kind, bytes, next)) = common::bytes(input, at) {
            let node = bytes_node(kind, bytes, out);
            out.nodes.push(node);
            return Some(next);
        }
        let (n_parts, mut at) = common::list(input, at)?;
        let head = out.nodes.len();
        out.nodes.push(Node { kind: Kind::Array, ty: NO_TYPE, payload: 0 });
        for _ in 0..n_parts {
            let (node, next) = match common::scalar(input, at, &self.signatures) {
                Some(found) => found,
                None => {
                    let (kind, bytes, next) = common::bytes(input, at)?;
                    (bytes_node(kind, bytes, out), next)
                }
            };
            out.nodes.push(node);
            at = next;
        }
        // Each part took at least one byte, so the count has no more bits than the length of an event.
        out.nodes[head].payload = Node::join(n_parts as u32, out.nodes.len() as u32);
        Some(at)
    }

    /// The event that enters a call is usually followed by the one that leaves it; then the call need not be kept among the
    /// open ones. If the leaving event is incomplete or malformed, the next call of `event` reads it by itself.
    /// PERF: `decode`.
    #[inline]
    fn leave_at_once(
        &mut self,
        mut call: Call,
        entered: Cursor<'_>,
        out: &mut Values,
        types: &mut Types,
    ) -> (Event, usize) {
        let mut cursor = entered;
        if let (Ok(EVENT_LEAVE), Ok(number)) = (cursor.byte(), cursor.uint())
            && number == call.number
        {
            let marks = Marks::of(out, types);
            let before = call;
            if self.details(&mut cursor, &mut call, out, types).is_ok() {
                self.signatures.keep();
                deliver(call, 0, out);
                return (Event::Left, cursor.at());
            }
            marks.restore(out, types);
            self.signatures.forget();
            call = before;
        }
        self.pending.enter(call);
        (Event::Entered, entered.at())
    }

    /// Decodes the event of entering a call. The caller keeps the call.
    fn enter(&mut self, cursor: &mut Cursor<'_>, out: &mut Values, types: &mut Types) -> Decoded<Call> {
        let thread = if self.version >= VERSION_THREADS { cursor.uint()? } else { 0 };
        let function = self.signatures.function(cursor, types)?;
        let (n_args, n_frames) = (out.args.len() as u32, out.frames.len() as u32); // Less than 2^32 bytes of each.
        let mut call = Call {
            number: self.next_call,
            thread,
            function,
            flags: self.signatures.facts(function).flags,
            stored_flags: 0,
            args: (n_args, n_args),
            result: NO_NODE,
            stack: (n_frames, n_frames),
            has_stack: false,
            stream_bytes: 0,
        };
        self.details(cursor, &mut call, out, types)?;
        self.next_call += 1;
        Ok(call)
    }

    fn leave(&mut self, cursor: &mut Cursor<'_>, out: &mut Values, types: &mut Types) -> Decoded<Event> {
        let number = cursor.uint()?;
        let Some(mut call) = self.pending.look(number, out) else {
            // The event is decoded for the signatures in it; its values are dropped.
            self.details(cursor, &mut nobody(number), &mut Values::default(), types)?;
            return Ok(Event::Unmatched(number));
        };
        if call.args.1 as usize != out.args.len() {
            let args = call.args.0 as usize..call.args.1 as usize;
            call.args.0 = out.args.len() as u32;
            out.args.extend_from_within(args);
        }
        self.details(cursor, &mut call, out, types)?;
        self.pending.leave(number);
        deliver(call, 0, out);
        Ok(Event::Left)
    }

    /// At the end of the data: delivers calls that were never left, until `out` has `most` calls.
    pub fn deliver_pending(&mut self, out: &mut Values, most: usize) {
        while out.calls.len() < most
            && let Some(call) = self.pending.take_oldest(out)
        {
            deliver(call, INCOMPLETE, out);
        }
    }

    /// Copies the values of open calls out of `out`, because `out` is about to be cleared.
    ///
    /// # Errors
    /// `Limit`, with the number of bytes, if they take too much memory.
    pub fn park(&mut self, out: &Values) -> Result<(), u64> {
        self.pending.park(out)
    }

    fn details(
        &mut self,
        cursor: &mut Cursor<'_>,
        call: &mut Call,
        out: &mut Values,
        types: &mut Types,
    ) -> Decoded<()> {
        let n_named = u64::from(self.signatures.facts(call.function).n_parts);
        let mut next_index = match out.args.last() {
            Some(last) if out.args.len() > call.args.0 as usize => u64::from(last.index) + 1,
            _ => 0,
        };
        let mut is_sorted = true;
        loop {
            let at = cursor.at();
            match cursor.byte()? {
                DETAIL_END => break,
                DETAIL_ARG => {
                    let index = cursor.uint()?;
                    if index >= n_named.saturating_add(MAX_EXTRA_ARGS) {
                        return Err(cursor.limit_at(at, "arguments", index, n_named + MAX_EXTRA_ARGS));
                    }
                    let node = out.nodes.len() as u32;
                    self.value(cursor, out, types, 0)?;
                    is_sorted &= index >= next_index;
                    next_index = index + 1;
                    out.args.push(Arg { index: index as u32, node }); // Checked above.
                }
                DETAIL_RESULT => {
                    call.result = out.nodes.len() as u32;
                    self.value(cursor, out, types, 0)?;
                }
                DETAIL_THREAD => call.thread = cursor.uint()?,
                DETAIL_STACK => {
                    let n_frames = cursor.uint()?;
                    let start = out.frames.len() as u32;
                    let n_lost = self.signatures.n_lost();
                    for _ in 0..n_frames {
                        out.frames.push(self.signatures.frame(cursor, types)?);
                        if self.signatures.n_lost() - n_lost > MAX_LOST_FRAMES {
                            return Err(cursor.bad_at(at, "no signature of its stack is known".to_owned()));
                        }
                    }
                    call.stack = (start, out.frames.len() as u32);
                    call.has_stack = true;
                }
                DETAIL_FLAGS => {
                    call.stored_flags = cursor.uint()?;
                    call.flags = call.flags & !FAKE | call.stored_flags as u32 & FAKE;
                }
                other => return Err(cursor.bad_at(at, format!("unknown call detail `{other}`"))),
            }
        }
        if !is_sorted {
            sort_args(&mut out.args, call.args.0 as usize);
        }
        call.args.1 = out.args.len() as u32;
        Ok(())
    }

    #[inline]
    fn value(
        &mut self,
        cursor: &mut Cursor<'_>,
        out: &mut Values,
        types: &mut Types,
        depth: u32,
    ) -> Decoded<()> {
        let at = cursor.at();
        let node = match cursor.byte()? {
            TAG_NULL => Node::scalar(Kind::Null, 0),
            TAG_FALSE => Node::scalar(Kind::False, 0),
            TAG_TRUE => Node::scalar(Kind::True, 0),
            TAG_NEGATIVE => Node::scalar(Kind::Negative, cursor.uint()?),
            TAG_UNSIGNED => Node::scalar(Kind::Unsigned, cursor.uint()?),
            TAG_FLOAT => Node::scalar(Kind::Float, u32::from_le_bytes(cursor.array()?).into()),
            TAG_DOUBLE => Node::scalar(Kind::Double, u64::from_le_bytes(cursor.array()?)),
            TAG_STRING => bytes_node(Kind::Text, cursor.string()?, out),
            TAG_BLOB => bytes_node(Kind::Blob, cursor.string()?, out),
            TAG_WIDE => wide_node(cursor, out)?,
            TAG_ENUM => {
                let (ty, only) = self.signatures.enumeration(cursor, types)?;
                let payload = match only {
                    Some(number) => number,
                    None => signatures::sint(cursor)?,
                };
                Node { kind: Kind::Enum, ty, payload }
            }
            TAG_BITMASK => {
                let ty = self.signatures.bitmask(cursor, types)?;
                Node { kind: Kind::Flags, ty, payload: cursor.uint()? }
            }
            TAG_POINTER => Node::scalar(Kind::Pointer, cursor.uint()?),
            tag @ (TAG_ARRAY | TAG_STRUCT | TAG_REPR) => {
                if depth >= MAX_DEPTH {
                    return Err(cursor.limit_at(
                        at,
                        "values inside each other",
                        depth.into(),
                        MAX_DEPTH.into(),
                    ));
                }
                return self.composite(tag, cursor, out, types, depth);
            }
            other => return Err(cursor.bad_at(at, format!("unknown value type `{other}`"))),
        };
        out.nodes.push(node);
        Ok(())
    }

    #[inline(never)]
    fn composite(
        &mut self,
        tag: u8,
        cursor: &mut Cursor<'_>,
        out: &mut Values,
        types: &mut Types,
        depth: u32,
    ) -> Decoded<()> {
        let (kind, ty, n_parts) = match tag {
            TAG_ARRAY => (Kind::Array, NO_TYPE, cursor.uint()?),
            TAG_REPR => (Kind::Pair, NO_TYPE, 2),
            _ => {
                let (ty, n_members) = self.signatures.structure(cursor, types)?;
                (Kind::Struct, ty, n_members)
            }
        };
        let head = out.nodes.len();
        out.nodes.push(Node { kind, ty, payload: 0 });
        for _ in 0..n_parts {
            self.value(cursor, out, types, depth + 1)?;
        }
        // Each part took at least one byte, so the count has no more bits than the length of an event.
        out.nodes[head].payload = Node::join(n_parts as u32, out.nodes.len() as u32);
        Ok(())
    }
}

/// A run of this many zero bytes is not an event: it would enter calls without arguments, nested at least four deep.
const BLANK_BYTES: usize = 16;

/// True if a run of zero bytes stands where an event is expected: a block of the file that was never written.
#[inline]
pub(crate) fn is_blank(input: &[u8], at: usize) -> bool {
    input.get(at..).and_then(|rest| rest.first_chunk::<BLANK_BYTES>()) == Some(&[0; BLANK_BYTES])
}

/// The error for such a run.
#[cold]
pub(crate) fn blank(cursor: &Cursor<'_>, at: usize) -> Stop {
    cursor.bad_at(at, "a run of zero bytes stands where an event is expected".to_owned())
}

/// A placeholder for a call that is known by its number only.
pub(crate) fn nobody(number: u64) -> Call {
    Call {
        number,
        thread: 0,
        function: NO_TYPE,
        flags: 0,
        stored_flags: 0,
        args: (0, 0),
        result: NO_NODE,
        stack: (0, 0),
        has_stack: false,
        stream_bytes: 0,
    }
}

/// Adds a completed call to `out`.
fn deliver(mut call: Call, more_flags: u32, out: &mut Values) {
    call.flags |= more_flags;
    if call.flags & signatures::GET_ERROR != 0 {
        call.flags &= !signatures::GET_ERROR;
        // Most calls of this function report no error.
        if call.result != NO_NODE && out.node(call.result).bits() == 0 {
            call.flags |= VERBOSE;
        }
    }
    out.calls.push(call);
}

/// Sorts the arguments from `start` on by index; of several with one index, keeps the last.
fn sort_args(args: &mut Vec<Arg>, start: usize) {
    args[start..].sort_by_key(|arg| arg.index);
    let mut kept = start;
    for i in start..args.len() {
        if kept > start && args[kept - 1].index == args[i].index {
            kept -= 1;
        }
        args[kept] = args[i];
        kept += 1;
    }
    args.truncate(kept);
}

fn bytes_node(kind: Kind, bytes: &[u8], out: &mut Values) -> Node {
    let payload = Node::join(out.bytes.len() as u32, bytes.len() as u32); // An event has less than 2^32.
    out.bytes.extend_from_slice(bytes);
    Node { kind, ty: NO_TYPE, payload }
}

fn wide_node(cursor: &mut Cursor<'_>, out: &mut Values) -> Decoded<Node> {
    let n_units = cursor.uint()?;
    let start = out.bytes.len() as u32;
    for _ in 0..n_units {
        let at = cursor.at();
        let unit = u32::try_from(cursor.uint()?);
        let unit =
            unit.map_err(|_| cursor.bad_at(at, "a wide character has more than 32 bits".to_owned()))?;
        out.bytes.extend_from_slice(&unit.to_le_bytes());
    }
    Ok(Node { kind: Kind::Wide, ty: NO_TYPE, payload: Node::join(start, out.bytes.len() as u32 - start) })
}
