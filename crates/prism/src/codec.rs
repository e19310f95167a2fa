//! Converts bytes of both encodings to batches of the model; the loop around it is [`quipu_records`].
//!
//! In a buffer of the fixed encoding, names follow the events, so the whole buffer must be available before its first event
//! is read.

use crate::batch::Batch;
use crate::check::PrismRules;
use crate::detail::Detail;
use crate::event::{Event, Place, access, context, sync};
use crate::fault::{Fault, Wrong};
use crate::here::Here;
use crate::table::{self, Events, FORMS};
use crate::unknown::Unknown;
use crate::variable::{Decoder, Dialect, END, MAX_EVENT_BYTES};
use crate::{INFO, dump, fixed, nonsense, rules, survey};
use quipu_model::lens::{AccessKind, CallEdge};
use quipu_model::trace::Surveyed;
use quipu_model::values::{FunctionType, Type};
use quipu_model::{Amount, Columns, FormatInfo, Printer, RuleInfo, TableBuf};
use quipu_records::print::{RowPrinter, Sort};
use quipu_records::{Ending, Family, Fill, FlatTrace, Input, RecordCodec, Resume, Step};
use quipu_stream::frame::Extension;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Length of a buffer of the variable encoding in bytes. After an end mark, bytes up to the next multiple are undefined.
pub const BUFFER_BYTES: u64 = 512 << 10;
/// Maximum number of functions with their own numbers; later ones get the number 0.
const MAX_FUNCTIONS: usize = 1 << 20;
/// A batch ends when its names exceed this size in bytes, however few events it has.
const MAX_NAME_BYTES: usize = 1 << 20;

/// The encoding of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// 18 bytes per event, in dumps of buffers.
    Fixed,
    /// 1 to 258 bytes per event.
    Variable,
}

impl Encoding {
    /// The name in options and output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Fixed => "fixed",
            Encoding::Variable => "variable",
        }
    }
}

/// The encoding and the options for reading a stream.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    /// The encoding of events.
    pub encoding: Encoding,
    /// The fields of events at the beginning.
    pub detail: Detail,
    /// Whether an option sets `detail`.
    pub is_detail_said: bool,
    /// The dialect of the variable encoding.
    pub dialect: Dialect,
    /// Whether [`State::events`] keeps events.
    pub keeps_events: bool,
    /// Whether [`State::bytes`] keeps the bytes of each event.
    pub keeps_bytes: bool,
    /// Whether the stream begins with configuration events, which set the fields of the others.
    pub is_configured: bool,
    /// Bytes of the configuration events at the beginning that `convert` has added: they are no events of the trace, and
    /// `detail` has their fields.
    pub n_added_bytes: usize,
    /// Whether bytes may be damaged. Frames have checksums, so their bytes are exactly as written.
    pub may_be_nonsense: bool,
    /// The thread of the configuration events at the beginning: the thread of the first event after them, since
    /// configurations apply to the events that follow.
    pub first_thread: Option<u64>,
}

impl Codec {
    /// Whether the events, as they were before a stream carried them, begin without a configuration of their fields.
    #[must_use]
    pub fn is_headless(&self) -> bool {
        // Bytes that may be nonsense are in no stream.
        let is_plain = self.may_be_nonsense;
        self.encoding == Encoding::Variable && (self.n_added_bytes > 0 || is_plain && !self.is_configured)
    }

    /// Adapts the codec to a stream that begins with these bytes: looks up [`first_thread`](Codec::first_thread) in them.
    #[must_use]
    pub fn begins_with(self, mut head: &[u8]) -> Codec {
        let mut decoder = Decoder::new(self.detail, self.dialect);
        let mut events = Batch::default();
        let first_thread = match self.encoding {
            Encoding::Fixed => None,
            Encoding::Variable => loop {
                let Some(Ok((event, len))) =
                    (!head.is_empty() && head[0] >> 5 != END >> 5).then(|| decoder.event(head, &mut events))
                else {
                    break None;
                };
                match event {
                    Event::Config(config) => decoder.configure(config),
                    event => break event.swap(),
                }
                head = head.get(len..).unwrap_or_default();
            },
        };
        Codec { first_thread, ..self }
    }
}

/// The bytes of the events of a batch, unused bytes included.
#[derive(Clone, Debug, Default)]
pub struct EventBytes {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl EventBytes {
    /// The bytes of an event; empty if they are not kept.
    #[must_use]
    pub fn get(&self, index: usize) -> &[u8] {
        let end = |index: usize| self.ends.get(index).map_or(0, |end| *end as usize);
        let start = index.checked_sub(1).map_or(0, end);
        self.bytes.get(start..end(index)).unwrap_or_default()
    }

    /// Adds the bytes of the next event.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u32); // At most a batch of events.
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// The state of reading a stream.
#[derive(Clone, Debug)]
pub struct State {
    decoder: Decoder,
    thread: Option<u64>,
    /// Address of the current instruction, to which events belong.
    pc: u64,
    /// The last event, or the events of the batch, with their names.
    events: Batch,
    bytes: EventBytes,
    /// Events, and bytes of names, that are left in the buffer.
    n_events: usize,
    n_name_bytes: usize,
    names: Vec<u8>,
    /// The missing part of the last buffer, if it is incomplete.
    cut: Option<Cut>,
    /// The undefined bytes after an end mark.
    undefined: Undefined,
    /// Bytes left of the configuration that `convert` has added at the beginning.
    n_added: usize,
    /// Whether the last event was an end mark.
    has_ended: bool,
    /// Whether an event of unknown length was found, so that nothing after it can be read.
    is_lost: bool,
    /// Whether the next buffer may begin at any offset.
    is_searching: bool,
    /// Whether there are events of several threads.
    has_turns: bool,
    functions: FxHashMap<Vec<u8>, u64>,
    has_begun: bool,
    /// How often reading continued after a lost frame, and the state there the last time.
    rejoined: (u64, Rejoined),
    /// The state from which the next event continues, if it follows a lost frame.
    rejoins: Option<Rejoined>,
    /// Number of events lost so far, where known.
    n_lost: u64,
}

/// The state where reading continues after a lost frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rejoined {
    pub(crate) here: Here,
    /// The fields in effect before the lost frame.
    pub(crate) before: Detail,
}

impl Default for Rejoined {
    fn default() -> Rejoined {
        Rejoined { here: Here::default(), before: Detail::NONE }
    }
}

/// A buffer of the fixed encoding that is incomplete.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Offset of the end of its whole events.
    offset: u64,
    /// Bytes after the whole events.
    n_bytes: u64,
    n_whole: u64,
    /// Number of events announced in its head.
    n_said: u64,
    is_told: bool,
}

impl Cut {
    /// Reports the loss, once.
    fn tell(&mut self, out: &mut Fill) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let Cut { offset, n_bytes, n_whole, n_said, .. } = *self;
        let what =
            format!("the last buffer ends within its bytes: `{n_whole}` of its `{n_said}` events are whole");
        out.tell_lost(&rules::CUT, offset, (n_bytes, Amount::Exactly(n_said - n_whole)), what);
    }
}

/// Undefined bytes after an end mark of the variable encoding.
#[derive(Clone, Copy, Debug, Default)]
struct Undefined {
    start: u64,
    /// Number of bytes left.
    n_left: u64,
    /// Number of nonzero bytes so far.
    n_filled: u64,
}

impl Undefined {
    /// Skips the next bytes; returns their number.
    fn pass(&mut self, bytes: &[u8], out: &mut Fill) -> usize {
        let n = usize::try_from(self.n_left).unwrap_or(usize::MAX).min(bytes.len());
        self.n_left -= n as u64;
        self.n_filled += bytes[..n].iter().filter(|byte| **byte != 0).count() as u64;
        if self.n_left == 0 {
            self.tell(out);
        }
        n
    }

    /// Reports nonzero bytes: they may be events after an end mark that is really damage.
    fn tell(&mut self, out: &mut Fill) {
        let n = std::mem::take(&mut self.n_filled);
        if n == 0 {
            return;
        }
        let n_left = std::mem::take(&mut self.n_left);
        let end = if n_left > 0 { "; the file ends within the buffer" } else { "" };
        let what = format!("`{n}` bytes after the end of a buffer are not zero, and are passed over{end}");
        out.tell_bytes(&rules::AFTER_END, self.start, n, what);
    }
}

/// The step over bytes that are not events; the number of events lost with them is unknown.
fn lost(rule: &'static RuleInfo, what: Wrong, skip: Option<usize>) -> Step {
    Step::Lost { rule, what: what.sentence(), skip, records: Amount::Unknown }
}

impl State {
    /// The events of the last batch, if the codec keeps them.
    pub fn events(&self) -> &Batch {
        &self.events
    }

    /// The bytes of these events, if the codec keeps them.
    pub fn bytes(&self) -> &EventBytes {
        &self.bytes
    }

    /// How often reading continued after a lost frame, and the state there the last time. If this batch is the first after
    /// the loss, the state applies before it.
    pub(crate) fn rejoined(&self) -> (u64, Rejoined) {
        self.rejoined
    }

    /// The current level of detail.
    pub fn detail(&self) -> Detail {
        self.decoder.detail()
    }
}

impl RecordCodec for Codec {
    type State = State;
    const COUNTS_INSTRS: bool = true;
    const TOLD_PER_RULE: u64 = 100;

    fn name(&self) -> &'static str {
        INFO.name
    }

    fn begin(&self) -> State {
        State {
            decoder: Decoder::new(self.detail, self.dialect),
            thread: None,
            pc: 0,
            events: Batch::default(),
            bytes: EventBytes::default(),
            n_events: 0,
            n_name_bytes: 0,
            names: Vec::new(),
            cut: None,
            undefined: Undefined::default(),
            n_added: self.n_added_bytes,
            has_ended: false,
            is_lost: false,
            is_searching: false,
            has_turns: false,
            functions: FxHashMap::default(),
            has_begun: false,
            rejoined: (0, Rejoined::default()),
            rejoins: None,
            n_lost: 0,
        }
    }

    fn tables(&self, _: &State) -> Vec<Box<dyn TableBuf>> {
        vec![Box::new(Events::default())]
    }

    fn record(&self, state: &mut State, input: Input<'_>, out: &mut Fill) -> Step {
        match self.encoding {
            Encoding::Fixed => self.fixed(state, input, out),
            Encoding::Variable => self.variable(state, input, out),
        }
    }

    /// Lengths follow from kinds alone, so nothing can be read after an event of unknown kind. After missing bytes, an event
    /// begins, because frames of streams do not split events; rows begin with the first swap, since only a swap gives the
    /// thread.
    fn resume(&self, state: &mut State, input: Input<'_>) -> Resume {
        if state.is_lost {
            return Resume::More { skip: input.bytes.len(), wants: 1 };
        }
        state.undefined = Undefined::default();
        state.cut = None;
        state.n_added = 0;
        state.n_events = 0;
        state.n_name_bytes = 0;
        match self.encoding {
            Encoding::Fixed => self.resume_fixed(state, input),
            Encoding::Variable => self.resume_variable(state, input),
        }
    }

    /// Takes the state that the first event of a frame depends on from the frame's header.
    fn rejoin(&self, state: &mut State, said: &[u8], n_records: u64) -> Option<Amount> {
        let Extension { records_before, state: said, .. } = Extension::read(said)?;
        let n_lost = records_before.checked_sub(n_records.saturating_add(state.n_lost));
        state.n_lost += n_lost.unwrap_or(0);
        let n_lost = n_lost.map_or(Amount::Unknown, Amount::Exactly);
        let mut here = Here::read(&said)?;
        if Here::keeps_fields(&said) {
            here.detail = state.decoder.detail();
        }
        let before = state.rejoins.map_or(state.decoder.detail(), |rejoins| rejoins.before);
        state.rejoins = Some(Rejoined { here, before });
        let Here { thread, detail, pc } = here;
        state.undefined = Undefined::default();
        state.cut = None;
        state.n_added = 0;
        (state.n_events, state.n_name_bytes) = (0, 0);
        (state.is_lost, state.is_searching) = (false, false);
        state.has_begun = false;
        (state.thread, state.pc) = (thread, pc);
        if self.encoding == Encoding::Variable {
            state.decoder = Decoder::new(detail, self.dialect);
        }
        Some(n_lost)
    }

    fn ended(&self, state: &mut State, out: &mut Fill) {
        if let Some(cut) = &mut state.cut {
            cut.tell(out);
        }
        state.undefined.tell(out);
        let is_plain = self.encoding == Encoding::Variable && self.may_be_nonsense;
        if out.n_records() == 0 {
            out.tell(&rules::EMPTY, "the stream has no event".to_owned());
        } else if is_plain && !state.has_ended && !state.is_lost {
            out.tell(&rules::NO_END, "the events end without a mark: later ones may be missing".to_owned());
        }
    }
}

impl Family for Codec {
    type Rules = PrismRules;

    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn rules(&self) -> &'static [RuleInfo] {
        rules::RULES
    }

    fn columns(&self) -> Columns {
        let lenses = [
            Columns::INSTRS,
            Columns::THREADS,
            Columns::MARKS,
            Columns::CALLS,
            Columns::ACCESSES,
            Columns::ACCESS_PC,
        ];
        lenses.into_iter().fold(Columns::RAW, |all, one| all | one)
    }

    fn printer(&self) -> Box<dyn Printer> {
        let last = table::TYPES.iter().map(|(code, _)| usize::from(*code)).max().unwrap_or(0);
        let sort = |code: usize| match code >> 8 {
            0 => Sort::Data,
            1 => Sort::Code,
            3 if code & 0xff == usize::from(context::INSTRUCTION) => Sort::Code,
            _ => Sort::Mark,
        };
        Box::new(RowPrinter::new(FORMS, (0..=last).map(sort).collect()).with_own(table::own_cell))
    }

    fn survey(&self, trace: &FlatTrace<Codec>, is_cancelled: &dyn Fn() -> bool) -> Surveyed {
        survey::survey(trace, is_cancelled)
    }

    fn mark_name(&self, kind: u32) -> Option<&'static str> {
        table::type_name(u16::try_from(kind).ok()?)
    }
}

impl Codec {
    fn fixed(&self, state: &mut State, input: Input<'_>, out: &mut Fill) -> Step {
        if state.n_events == 0 {
            return self.between(state, input, out);
        }
        let Some(slot) = input.bytes.first_chunk::<{ fixed::EVENT_BYTES }>() else {
            return Step::More(fixed::EVENT_BYTES);
        };
        self.room(state, out);
        let n_names = state.events.names.len();
        let event = match fixed::event(slot, &state.names, self.detail, &mut state.events) {
            Ok(event) => event,
            Err(what) => {
                state.n_events -= 1;
                state.n_lost += 1;
                return Step::Lost {
                    rule: &rules::NAME,
                    what: what.sentence(),
                    skip: Some(fixed::EVENT_BYTES),
                    records: Amount::Exactly(1),
                };
            }
        };
        if self.may_be_nonsense && nonsense::is_unknown(&event) {
            let len = state.n_events * fixed::EVENT_BYTES;
            let events = &input.bytes[..input.bytes.len().min(len)];
            if let Some(n) = nonsense::in_slots(events, &state.names, self.detail) {
                state.events.names.truncate(n_names);
                // The slots are taken to be aligned if the next buffer begins in its place.
                let end = len + state.n_name_bytes;
                if input.bytes.len() < end + dump::HEADER_BYTES && !input.is_last() {
                    return Step::More(end + dump::HEADER_BYTES);
                }
                let is_in_place = input.bytes.get(end..).is_some_and(dump::may_begin);
                let n_lost = if is_in_place {
                    nonsense::n_slots(events, &state.names, self.detail)
                } else {
                    state.n_events
                };
                state.n_events -= n_lost;
                state.n_lost += n_lost as u64;
                return Step::Lost {
                    rule: &rules::NONSENSE,
                    what: nonsense::sentence(n),
                    skip: Some(n_lost * fixed::EVENT_BYTES),
                    records: Amount::Exactly(n_lost as u64),
                };
            }
        }
        let step = self.take(state, event, slot, n_names, out);
        if matches!(step, Step::Record(_)) {
            state.n_events -= 1;
        }
        step
    }

    /// Handles the bytes between the events of two buffers: names, and the head of the next buffer.
    fn between(&self, state: &mut State, input: Input<'_>, out: &mut Fill) -> Step {
        let bytes = input.bytes;
        if let Some(cut) = &mut state.cut {
            cut.tell(out);
            return Step::Other(bytes.len());
        }
        if state.n_name_bytes > 0 {
            let n = state.n_name_bytes.min(bytes.len());
            state.n_name_bytes -= n;
            return Step::Other(n);
        }
        let buffer = dump::Buffer::read(bytes, 0);
        match buffer {
            Ok(buffer) => {
                state.n_events = buffer.events.len() / fixed::EVENT_BYTES;
                state.n_name_bytes = buffer.names.len();
                state.names.clear();
                state.names.extend_from_slice(buffer.names);
                Step::Other(dump::HEADER_BYTES)
            }
            Err(Fault { what: Wrong::Truncated, .. }) if !input.is_last() => {
                Step::More(dump::needed(bytes).unwrap_or(dump::HEADER_BYTES))
            }
            // The rest could not be read, which says nothing about the trace: its names may be in it.
            Err(Fault { what: what @ Wrong::Truncated, .. }) if input.ending == Some(Ending::Unread) => {
                Step::Rest(&rules::CUT, what.sentence())
            }
            Err(Fault { what: Wrong::Truncated, .. }) if bytes.len() > dump::HEADER_BYTES => {
                // Its whole events are valid; its names are missing.
                let n_whole = (bytes.len() - dump::HEADER_BYTES) / fixed::EVENT_BYTES;
                let n_said = u64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]));
                state.n_events = n_whole.min(usize::try_from(n_said).unwrap_or(usize::MAX));
                let n_used = dump::HEADER_BYTES + state.n_events * fixed::EVENT_BYTES;
                state.names.clear();
                if state.n_events as u64 == n_said {
                    state.names.extend_from_slice(&bytes[n_used..]);
                }
                // The lost events come after the others, so they are reported after them.
                state.cut = Some(Cut {
                    offset: out.offset() + n_used as u64,
                    n_bytes: (bytes.len() - n_used) as u64,
                    n_whole: state.n_events as u64,
                    n_said,
                    is_told: input.ending != Some(Ending::Whole),
                });
                Step::Other(dump::HEADER_BYTES)
            }
            Err(Fault { what: what @ Wrong::Truncated, .. }) => Step::Rest(&rules::CUT, what.sentence()),
            Err(Fault { what, .. }) => {
                state.is_searching = true;
                lost(&rules::BUFFER, what, None)
            }
        }
    }

    /// Searches for events in buffers of the fixed encoding. The first buffer begins here or, if the head of one was wrong,
    /// anywhere. Only a swap gives the thread of events, unless all events so far belong to one thread.
    fn resume_fixed(&self, state: &mut State, input: Input<'_>) -> Resume {
        let (bytes, mut scratch) = (input.bytes, Batch::default());
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if state.is_searching && !dump::may_begin(rest) && rest.len() >= dump::HEADER_BYTES {
                at += 1;
                continue;
            }
            let buffer = match dump::Buffer::read(rest, 0) {
                // A buffer is followed by another buffer, or by the end.
                Ok(buffer) if state.is_searching => {
                    let next = &rest[buffer.len()..];
                    if next.len() < dump::HEADER_BYTES && !input.is_last() {
                        return Resume::More { skip: at, wants: buffer.len() + dump::HEADER_BYTES };
                    }
                    let is_nonsense = nonsense::in_slots(buffer.events, buffer.names, self.detail).is_some();
                    if buffer.is_empty() || is_nonsense || !dump::may_begin(next) {
                        at += 1;
                        continue;
                    }
                    buffer
                }
                Ok(buffer) => buffer,
                Err(Fault { what: Wrong::Truncated, .. }) if !state.is_searching || !input.is_last() => {
                    let wants = dump::needed(rest).unwrap_or(dump::HEADER_BYTES);
                    return Resume::More { skip: at, wants };
                }
                Err(_) => {
                    state.is_searching = true;
                    at += 1;
                    continue;
                }
            };
            let slots = buffer.events.as_chunks::<{ fixed::EVENT_BYTES }>().0;
            let is_swap = |slot: &fixed::Slot| {
                scratch.clear();
                let event = fixed::event(slot, buffer.names, self.detail, &mut scratch);
                event.is_ok_and(|event| event.swap().is_some())
            };
            let continues = state.is_searching && !state.has_turns;
            let nth = if continues { Some(0) } else { slots.iter().position(is_swap) };
            if let Some(nth) = nth {
                state.is_searching = false;
                state.n_events = slots.len() - nth;
                state.n_name_bytes = buffer.names.len();
                state.names.clear();
                state.names.extend_from_slice(buffer.names);
                return Resume::Here(at + dump::HEADER_BYTES + nth * fixed::EVENT_BYTES);
            }
            at += buffer.len();
        }
        Resume::More { skip: bytes.len(), wants: dump::HEADER_BYTES }
    }

    /// Searches for a swap among events of the variable encoding; the first event begins here.
    fn resume_variable(&self, state: &mut State, input: Input<'_>) -> Resume {
        let (bytes, mut scratch) = (input.bytes, Batch::default());
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let is_end = rest[0] >> 5 == END >> 5;
            if is_end && rest.len() == 1 {
                let is_last = input.is_last();
                return if is_last { Resume::Here(at) } else { Resume::More { skip: at, wants: 2 } };
            }
            scratch.clear();
            match state.decoder.event(rest, &mut scratch) {
                _ if is_end => break,
                Err(Wrong::Truncated) => return Resume::More { skip: at, wants: MAX_EVENT_BYTES },
                Ok((event, _)) if event.swap().is_some() => return Resume::Here(at),
                Ok((event, len)) if !nonsense::is_unknown(&event) => {
                    if let Event::Config(config) = event {
                        state.decoder.configure(config);
                    }
                    at += len;
                }
                _ => break,
            }
        }
        state.is_lost = at < bytes.len();
        Resume::More { skip: bytes.len(), wants: 1 }
    }

    fn variable(&self, state: &mut State, input: Input<'_>, out: &mut Fill) -> Step {
        let bytes = input.bytes;
        if state.n_added > 0 {
            let n = state.n_added.min(bytes.len());
            state.n_added -= n;
            return Step::Other(n);
        }
        if state.undefined.n_left > 0 {
            return Step::Other(state.undefined.pass(bytes, out));
        }
        if bytes[0] >> 5 == END >> 5 {
            let after = out.offset() + 1;
            let n_left = after.next_multiple_of(BUFFER_BYTES) - after;
            state.undefined = Undefined { start: after, n_left, n_filled: 0 };
            state.has_ended = true;
            return Step::Other(1);
        }
        state.has_ended = false;
        self.room(state, out);
        let n_names = state.events.names.len();
        match state.decoder.event(bytes, &mut state.events) {
            Ok((event, len)) if self.may_be_nonsense && nonsense::is_unknown(&event) => {
                match nonsense::in_stream(bytes, &state.decoder, input.is_last()) {
                    nonsense::Verdict::Trace => self.take(state, event, &bytes[..len], n_names, out),
                    nonsense::Verdict::More(n) => {
                        state.events.names.truncate(n_names);
                        Step::More(n)
                    }
                    nonsense::Verdict::Nonsense(n) => {
                        state.events.names.truncate(n_names);
                        state.is_lost = true;
                        let (rule, what) = (&rules::NONSENSE, nonsense::sentence(n));
                        Step::Lost { rule, what, skip: None, records: Amount::Unknown }
                    }
                }
            }
            Ok((event, len)) => self.take(state, event, &bytes[..len], n_names, out),
            Err(Wrong::Truncated) if !input.is_last() => Step::More(MAX_EVENT_BYTES),
            Err(what @ Wrong::Truncated) => {
                state.is_lost = true;
                Step::Rest(&rules::CUT, what.sentence())
            }
            Err(what @ Wrong::UnknownConfig(_)) if bytes.len() > 1 => lost(&rules::CONFIGURED, what, Some(2)),
            Err(Wrong::UnknownConfig(_)) if !input.is_last() => Step::More(2),
            Err(what) => {
                state.is_lost = true;
                lost(&rules::KIND, what, None)
            }
        }
    }

    /// Drops the events that have become rows.
    fn room(&self, state: &mut State, out: &Fill) {
        if !self.keeps_events || out.is_empty() {
            state.events.clear();
            state.bytes.clear();
        }
    }

    /// Adds an event to the batch, unless the batch has to end before it.
    fn take(&self, state: &mut State, event: Event, bytes: &[u8], n_names: usize, out: &mut Fill) -> Step {
        let thread = event.swap().or(state.thread).or(self.first_thread);
        let is_instr = matches!(&event, Event::Context(of) if of.kind == context::INSTRUCTION);
        let must_stop = is_instr && out.n_instrs() == out.stop_instr();
        if must_stop || !out.enter(thread.unwrap_or(0).into()) {
            state.events.names.truncate(n_names);
            return Step::Cut;
        }
        if !state.has_begun {
            state.has_begun = true;
            match state.rejoins.take() {
                Some(rejoins) => state.rejoined = (state.rejoined.0 + 1, rejoins),
                None => self.first(&event, thread, out),
            }
        }
        if thread != state.thread {
            state.has_turns |= state.thread.is_some();
            state.thread = thread;
        }
        if out.is_empty() {
            state.events.first = out.n_records();
        }
        state.events.thread = thread;
        match &event {
            Event::Config(config) => state.decoder.configure(*config),
            Event::Sync(event) if event.kind == sync::WAIT && event.second == Some(0) => {
                out.tell(&rules::MUTEX, format!("a wait for `{:#x}` has no mutex", event.data));
            }
            _ => {}
        }
        if let Some(unknown) = Unknown::of(&event) {
            out.tell(unknown.rule(), unknown.to_string());
        }
        lenses(state, &event, out);
        if out.wants_tables() {
            let record = out.n_records() + 1;
            for rows in out.rows().tables.iter_mut().filter_map(|table| table.get_mut::<Events>()) {
                table::push(&event, &state.events, record, thread.unwrap_or(0), rows);
            }
        }
        out.add(1, is_instr.into());
        out.add_beyond(|| u64::from(matches!(event, Event::Compute(_))));
        if self.keeps_events {
            state.events.events.push(event);
            if self.keeps_bytes {
                state.bytes.push(bytes);
            }
            if state.events.names.len() >= MAX_NAME_BYTES {
                out.close();
            }
        }
        Step::Record(bytes.len())
    }

    /// Checks the beginning of a stream.
    fn first(&self, event: &Event, thread: Option<u64>, out: &mut Fill) {
        let is_configured = matches!(event, Event::Config(_));
        if self.encoding == Encoding::Variable && !self.is_detail_said && !is_configured {
            out.tell(&rules::DETAIL, "the stream does not say which fields its events have".to_owned());
        }
        if thread.is_none() && !is_configured {
            out.tell(&rules::THREAD, "the first event stands before any swap".to_owned());
        }
    }
}

/// Adds the rows of lenses for an event.
fn lenses(state: &mut State, event: &Event, out: &mut Fill) {
    let at = out.at();
    match event {
        Event::Memory(memory) => {
            let kind = match memory.access {
                Some(access::LOAD) => AccessKind::Read,
                Some(access::STORE) => AccessKind::Write,
                _ => return,
            };
            let Some(address) = memory.address else { return };
            if out.wants(Columns::ACCESSES) {
                let has_pc = out.wants(Columns::ACCESS_PC);
                let accesses = &mut out.rows().accesses;
                accesses.at.push(at);
                accesses.addr.push(address);
                accesses.size.push(memory.size.unwrap_or(0).into());
                accesses.kind.push(kind);
                if has_pc {
                    accesses.pc.push(state.pc);
                }
            }
        }
        Event::Context(of) => match (of.kind, of.place) {
            (context::INSTRUCTION, Place::Address(pc)) => {
                state.pc = pc;
                if out.wants(Columns::INSTRS) {
                    let instrs = &mut out.rows().instrs;
                    instrs.at.push(at);
                    instrs.pc.push(pc);
                    // No event gives its length.
                    instrs.size.push(0);
                    instrs.flags.push(0);
                }
            }
            (kind @ (context::ENTER | context::EXIT), Place::Name(name)) => {
                let function = function(state, name, out);
                if out.wants(Columns::CALLS) {
                    let calls = &mut out.rows().calls;
                    // A call is placed at the record after its values.
                    calls.at.push(at + 1);
                    calls.function.push(function);
                    calls.edge.push(if kind == context::ENTER { CallEdge::Enter } else { CallEdge::Leave });
                    calls.return_to.push(0);
                    calls.result.push(None);
                    calls.args.push(std::iter::empty());
                }
            }
            (_, Place::Address(value)) => mark(event, value, out),
            (_, Place::Name(_)) => mark(event, 0, out),
        },
        Event::Sync(of) => mark(event, of.data, out),
        Event::Control(of) => mark(event, of.target.unwrap_or(0), out),
        Event::Compute(_) | Event::Config(_) | Event::Unknown(_) => {}
    }
}

fn mark(event: &Event, value: u64, out: &mut Fill) {
    if out.wants(Columns::MARKS) {
        let at = out.at();
        let marks = &mut out.rows().marks;
        marks.at.push(at);
        marks.kind.push(table::code_of(event).into());
        marks.value.push(value);
    }
}

/// The number of a function; functions are numbered in order of appearance.
fn function(state: &mut State, name: crate::event::Name, out: &mut Fill) -> u64 {
    let name = state.events.name(name);
    if let Some(function) = state.functions.get(name) {
        return *function;
    }
    if state.functions.len() >= MAX_FUNCTIONS {
        return 0;
    }
    let id = state.functions.len() as u64 + 1;
    state.functions.insert(name.to_vec(), id);
    let function = FunctionType { id, name: name.to_vec(), args: Vec::new(), flags: 0 };
    out.rows().types.push(Arc::new(Type::Function(function)));
    id
}
