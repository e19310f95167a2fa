//! The consumer: turns records into text.
//!
//! [`Consumer`] only prints; the caller provides the records and takes the text. [`print()`] does both for a capture.

use crate::aggregate::Aggregates;
use crate::aggtext::{self, Context, Failed};
use crate::convert::{self, Mismatch, Spec};
use crate::describe::{Capture, Dialect, Enabling, Event, Probe, Rec};
use crate::flow::Flow;
use crate::format::{Amount, Format, Piece};
use crate::host::Words;
use crate::objects::Listed;
use crate::options::Settings;
use crate::plan::{Op, Plan, Shown};
use crate::quirks::{Quirks, Which};
use crate::walk::{Firing, Step, Walk};
use crate::{library, messages, put, stack, text, tree, typed};
use quipu_model::{Error, Place, Result};
use std::ops::Range;
use std::sync::Arc;

/// Options of printing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Which wrong values of the dialect's consumer to reproduce.
    pub quirks: Quirks,
}

impl From<bool> for Style {
    /// Reproduces all wrong values of the consumer, or none.
    fn from(has_quirks: bool) -> Style {
        Style { quirks: has_quirks.into() }
    }
}

/// Prints records, one after the other.
#[derive(Debug)]
pub struct Consumer {
    pub(crate) capture: Arc<Capture>,
    style: Style,
    pub(crate) settings: Settings,
    /// The settings for the form of values; on Linux, these are fixed when a pass begins.
    of_values: Settings,
    pub(crate) plans: Arc<[Plan]>,
    pub(crate) aggregates: Aggregates,
    flow: Flow,
    has_heading: bool,
    /// The host of the records being printed.
    host: u32,
    /// The state of each host while records of other hosts are printed.
    aside: Vec<Aside>,
    /// Whether the headings of records and of the flow have been printed.
    headings: [bool; 2],
    /// Exit status of the command, if set.
    status: Option<i32>,
    /// Whether the consumer ended early; it then prints nothing more.
    has_ended: bool,
    /// Number of bytes of the next dump.
    dump_bytes: Option<u64>,
    nameless: Probe,
}

/// The state of a host while records of another host are printed.
#[derive(Clone, Copy, Debug, Default)]
struct Aside {
    settings: Settings,
    of_values: Settings,
    flow: Flow,
    has_heading: bool,
}

/// The output of a run.
#[derive(Debug, Default)]
pub struct Printed {
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error, without the name of the command before each line.
    pub messages: Vec<u8>,
    /// Exit status of the command.
    pub status: i32,
    /// Reasons why buffers were not read to their ends.
    pub faults: Vec<Error>,
}

/// Prints a capture.
///
/// # Errors
/// `Unsupported` for an order that the records do not have.
pub fn print(capture: &Arc<Capture>, style: Style) -> Result<Printed> {
    print_to::<Error>(capture, style, usize::MAX, &mut |_| Ok(()))
}

/// Prints a capture, and passes the text to `put` in pieces of at least `at_least` bytes; the rest is in the result.
///
/// # Errors
/// Returns the same errors as [`print()`], and those of `put`.
pub fn print_to<E: From<Error>>(
    capture: &Arc<Capture>,
    style: Style,
    at_least: usize,
    put: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<Printed, E> {
    run(capture, style, None, at_least, put)
}

/// Prints a capture as one JSON object, in the form of `oformat=json`.
///
/// # Errors
/// Returns the same errors as [`print_to`].
pub fn objects_to<E: From<Error>>(
    capture: &Arc<Capture>,
    at_least: usize,
    put: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<Printed, E> {
    run(capture, Style::default(), Some(Listed::default()), at_least, put)
}

fn run<E: From<Error>>(
    capture: &Arc<Capture>,
    style: Style,
    mut listed: Option<Listed>,
    at_least: usize,
    put: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<Printed, E> {
    let mut printed = Printed::default();
    let mut consumer = Consumer::new(capture, style);
    let mut walk = Walk::new(capture)?;
    for drop in messages::dropped(capture) {
        printed.messages.extend_from_slice(drop.message.as_bytes());
        printed.messages.push(b'\n');
    }
    if let Some(listed) = &mut listed {
        listed.begin(capture, &mut printed.out);
    }
    printed.faults.extend(consumer.take_buffers());
    while let Some(step) = walk.next_step(capture) {
        match step {
            Step::Firing(firing) => {
                let result = match &mut listed {
                    None => consumer.firing(&firing, &mut printed.out, &mut printed.messages),
                    Some(listed) => listed.firing(&mut consumer, &firing, &mut printed.out),
                };
                if let Err(error) = result {
                    printed.faults.push(error);
                }
            }
            Step::Cpu => consumer.turn_cpu(),
            Step::Pass => consumer.turn_pass(),
            Step::State(at) => consumer.state(at),
            Step::Fault(error) => printed.faults.push(error),
        }
        if printed.out.len() >= at_least {
            put(&printed.out)?;
            printed.out.clear();
        }
    }
    match &mut listed {
        None => {
            if let Err(error) = consumer.end(&mut printed.out) {
                printed.messages.extend_from_slice(ENDED_AT_END);
                printed.faults.push(error);
            }
        }
        Some(listed) => listed.end(Some(&mut consumer), &mut printed.out),
    }
    printed.status = consumer.status.unwrap_or(0);
    Ok(printed)
}

impl Consumer {
    /// A consumer before the first record.
    pub fn new(capture: &Arc<Capture>, style: Style) -> Consumer {
        let is_quirk = |which| style.quirks.has(which) && capture.dialect != Dialect::Linux;
        let aggregates = Aggregates::new(is_quirk(Which::Carry));
        Consumer {
            style,
            settings: capture.settings,
            of_values: capture.settings,
            plans: capture.enablings.iter().map(|enabling| Plan::new(capture, enabling)).collect(),
            aggregates: aggregates.forgetting_parameters(is_quirk(Which::ClearedParameters)),
            has_ended: false,
            flow: Flow::default(),
            has_heading: false,
            host: 0,
            aside: (0..=capture.hosts.len() as u32) // They are counted in 32 bits.
                .map(|host| capture.settings_of(host))
                .map(|settings| Aside { settings, of_values: settings, ..Aside::default() })
                .collect(),
            headings: [false; 2],
            status: None,
            dump_bytes: None,
            nameless: Probe::default(),
            capture: Arc::clone(capture),
        }
    }

    /// The current aggregations.
    pub fn aggregates(&self) -> &Aggregates {
        &self.aggregates
    }

    /// Exit status of the command, if a record set it.
    pub fn status(&self) -> Option<i32> {
        self.status
    }

    /// Adds the buffers of aggregations; returns the reasons why some were not read to their ends.
    pub fn take_buffers(&mut self) -> Vec<Error> {
        let capture = Arc::clone(&self.capture);
        let take = |buffer| self.aggregates.take(&capture, buffer).err();
        capture.states.iter().filter_map(take).collect()
    }

    /// Announces that the next records are from another CPU.
    pub fn turn_cpu(&mut self) {
        self.flow.reset();
        self.aside.iter_mut().for_each(|host| host.flow.reset());
    }

    /// Announces the host of the next record.
    #[inline]
    pub(crate) fn turn_host(&mut self, host: u32) {
        if self.host != host {
            self.swap_host(host);
        }
    }

    #[cold]
    fn swap_host(&mut self, host: u32) {
        let Some(next) = self.aside.get(host as usize).copied() else { return };
        let (settings, of_values, flow) = (self.settings, self.of_values, self.flow);
        self.aside[self.host as usize] = Aside { settings, of_values, flow, has_heading: self.has_heading };
        (self.settings, self.of_values, self.flow) = (next.settings, next.of_values, next.flow);
        (self.has_heading, self.host) = (next.has_heading, host);
    }

    /// Names, locale and zone of the host of the current records.
    pub(crate) fn words(&self) -> Words<'_> {
        self.capture.words(self.host)
    }

    /// Announces the end of the records of `BEGIN`.
    pub fn turn_pass(&mut self) {
        self.of_values = self.settings;
        self.aside.iter_mut().for_each(|host| host.of_values = host.settings);
        self.turn_cpu();
    }

    /// Forgets headings after text that was discarded, so that the next record prints them again.
    pub(crate) fn forget_heading(&mut self) {
        self.has_heading = false;
        self.headings = [false; 2];
        self.aside.iter_mut().for_each(|host| host.has_heading = false);
    }

    /// Takes the state of an aggregation from the event at this position.
    pub fn state(&mut self, at: usize) {
        let capture = Arc::clone(&self.capture);
        if let Some(Event::State { cpu, aggregation, key, data }) = capture.events.get(at) {
            self.aggregates.replace(&capture, *cpu, *aggregation, key, data);
        }
    }

    /// Prints a record.
    ///
    /// # Errors
    /// `Malformed` if a part of it does not fit its format; the parts before it are printed.
    pub fn firing(&mut self, firing: &Firing<'_>, out: &mut Vec<u8>, messages: &mut Vec<u8>) -> Result<()> {
        let plans = Arc::clone(&self.plans);
        let Some(plan) = plans.get(firing.record.position as usize) else { return Ok(()) };
        if plan.is_error && self.is_error_probe(firing.probe) {
            messages::error(&self.capture, firing, messages);
            return Ok(());
        }
        if plan.is_silent || self.has_ended {
            return Ok(());
        }
        self.turn_host(firing.record.enabling.host);
        if capture_is_classic(&self.capture) {
            self.of_values = self.settings;
        }
        self.prefix(firing, out);
        let recs = &firing.record.enabling.recs;
        let mut fault = None;
        for op in &plan.ops {
            if let Err(message) = self.op(op, recs, firing.record.bytes, out) {
                fault.get_or_insert(message);
            }
            if self.has_ended {
                messages.extend_from_slice(ENDED);
                break;
            }
        }
        if !self.settings.quiet && !self.has_ended {
            out.push(b'\n');
        }
        match fault {
            None => Ok(()),
            Some(message) => Err(self.fault(firing, message)),
        }
    }

    /// The reason why no record of an enabling can be printed, as far as it does not depend on their values. The consumer
    /// cannot be used for printing afterwards.
    pub(crate) fn fault_of(&mut self, enabling: &Enabling) -> Option<String> {
        let capture = Arc::clone(&self.capture);
        let (position, _) = capture.enabling(enabling.id)?;
        let plans = Arc::clone(&self.plans);
        let plan = plans.get(position as usize).filter(|plan| !plan.is_error)?;
        let ends = enabling.recs.iter().map(|rec| rec.offset as usize + rec.size as usize);
        self.turn_host(enabling.host);
        let zeros = vec![0; ends.max().unwrap_or(0).max(enabling.size as usize)];
        let mut out = Vec::new();
        plan.ops.iter().find_map(|op| {
            out.clear();
            self.op(op, &enabling.recs, &zeros, &mut out).err()
        })
    }

    /// Prints the aggregations that have not been printed, at the end of the run.
    ///
    /// # Errors
    /// Returns an error if the consumer ends before it has printed them all.
    pub fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if self.has_ended {
            return Ok(());
        }
        out.push(b'\n');
        // Aggregations of all hosts are merged, so they are printed once.
        self.turn_host(0);
        self.aggregates.settle();
        let result = self.context().plain(|variable| !self.aggregates.is_printed(variable), out);
        result.map_err(|failed| {
            let place = Place { file: Some(self.capture.name.clone()), ..Place::default() };
            Error::malformed(self.failed(failed)).at(&place)
        })
    }

    /// The message for aggregations that are not printed; also ends the consumer if it would end.
    fn failed(&mut self, failed: Failed) -> String {
        match failed {
            Failed::Mismatch(mismatch) => mismatched(mismatch),
            Failed::Parameters => {
                (self.has_ended, self.status) = (true, Some(1));
                "the consumer ends here: after `clear()`, it has no parameters of `llquantize()`".to_owned()
            }
        }
    }

    fn context(&self) -> Context<'_> {
        Context {
            capture: &self.capture,
            words: self.words(),
            settings: &self.settings,
            quirks: self.style.quirks,
            aggregates: &self.aggregates,
        }
    }

    pub(crate) fn is_error_probe(&self, id: u32) -> bool {
        self.capture.probes.get(&id).is_some_and(|probe| probe.name == "ERROR")
    }

    #[cold]
    pub(crate) fn fault(&self, firing: &Firing<'_>, message: String) -> Error {
        let mut place = Place { offset: Some(firing.record.offset as u64), ..Place::default() };
        match self.capture.buffers.get(firing.buffer as usize) {
            Some(buffer) => place.file = Some(buffer.file.clone()),
            None => {
                place.file = Some(self.capture.name.clone());
            }
        }
        Error::malformed(format!("EPID {}: {message}", firing.record.enabling.id)).at(&place)
    }

    /// Prints the columns before the values of a firing.
    #[inline]
    fn prefix(&mut self, firing: &Firing<'_>, out: &mut Vec<u8>) {
        let capture = Arc::clone(&self.capture);
        let probe = capture.probes.get(&firing.probe).unwrap_or(&self.nameless);
        let this = (firing.probe, firing.record.enabling.id);
        if self.settings.flowindent {
            // Once per host, but only the first one that is printed.
            if !std::mem::replace(&mut self.has_heading, true)
                && !std::mem::replace(&mut self.headings[1], true)
            {
                out.extend_from_slice(b"CPU FUNCTION                                 \n");
            }
            if self.of_values.flowindent || !self.style.quirks.has(Which::FlowPrefix) {
                return self.flow.prefix(firing.cpu, probe, this, firing.next, out);
            }
            // QUIRK: the Linux consumer has no flow in a pass that began without it.
            put::signed(out, i64::from(firing.cpu), 3);
            out.push(b' ');
            put::left(out, b"(nul", 41);
            out.push(b' ');
        } else if !self.settings.quiet {
            if !std::mem::replace(&mut self.has_heading, true)
                && !std::mem::replace(&mut self.headings[0], true)
            {
                out.extend_from_slice(b"CPU     ID                    FUNCTION:NAME\n");
            }
            put::signed(out, i64::from(firing.cpu), 3);
            out.push(b' ');
            put::unsigned(out, u64::from(firing.probe), 6);
            out.push(b' ');
            let n = probe.function.len() + 1 + probe.name.len();
            put::fill(out, b' ', 32usize.saturating_sub(n));
            out.extend_from_slice(probe.function.as_bytes());
            out.push(b':');
            out.extend_from_slice(probe.name.as_bytes());
            out.push(b' ');
        }
        self.flow.pass(this);
    }

    pub(crate) fn op(
        &mut self,
        op: &Op,
        recs: &[Rec],
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match op {
            Op::Trace(at) => self.trace(&recs[*at], bytes, out),
            Op::Typed(at, ty) => {
                let value = recs[*at].of(bytes);
                if !typed::classic(&self.capture, self.words().locale, ty, value, out) {
                    self.trace(&recs[*at], bytes, out);
                }
            }
            Op::Print(address, data) => {
                let (address, data) = (&recs[*address], &recs[*data]);
                let both = (address.of(bytes), data.of(bytes));
                tree::print(&self.capture, self.words().locale, self.style.quirks, address, both, out);
            }
            Op::Exit(at) => self.status = Some(self.capture.order.signed(recs[*at].of(bytes)) as i32),
            Op::Printf(format, parts) => return self.printf(format, &recs[parts.clone()], bytes, out),
            Op::Shown(what, format, parts) => {
                out.extend_from_slice(match what {
                    Shown::System => b"[system: ",
                    Shown::Freopen => b"[freopen: ",
                });
                let result = self.printf(format, &recs[parts.clone()], bytes, out);
                out.push(b']');
                return result;
            }
            Op::Printa(format, parts) => return self.printa(format.as_deref(), recs, parts, bytes, out),
            Op::Library(routine, parts) => {
                let recs = &recs[parts.clone()];
                let (aggregates, settings) = (&mut self.aggregates, &mut self.settings);
                if !library::run(&self.capture, *routine, recs, bytes, aggregates, settings) {
                    return Err("an action of the consumer's own is unknown".to_owned());
                }
                if capture_is_classic(&self.capture) {
                    self.of_values = self.settings;
                }
            }
            Op::Tracemem(at) => {
                let all = recs[*at].of(bytes);
                let n = self.dump_length(all.len());
                text::dump(&all[..n], out);
            }
            Op::Size(at) => self.dump_bytes = Some(self.capture.order.number(recs[*at].of(bytes))),
            Op::Printm(at) => {
                let all = recs[*at].of(bytes);
                let data = all.get(8..).unwrap_or(&[]);
                let n = self.capture.order.u64_at(all, 0).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                text::dump(&data[..n.min(data.len())], out);
            }
            Op::Stack(at) => {
                stack::plain(&self.capture, &recs[*at], recs[*at].of(bytes), self.settings.indent(), out);
            }
            Op::Symbol(at) => {
                if !aggtext::symbol(&self.capture, &recs[*at], recs[*at].of(bytes), out) {
                    return Err(format!("an address has {} bytes", recs[*at].size));
                }
            }
            Op::Speculation => {}
            Op::Fault(message) => return Err(message.to_string()),
        }
        Ok(())
    }

    /// Number of bytes to print of the next dump, at most `room`.
    pub(crate) fn dump_length(&mut self, room: usize) -> usize {
        let n = self.dump_bytes.take().and_then(|n| usize::try_from(n).ok());
        n.filter(|n| (1..=room).contains(n)).unwrap_or(room)
    }

    fn trace(&self, rec: &Rec, bytes: &[u8], out: &mut Vec<u8>) {
        let settings = &self.of_values;
        text::trace(&self.capture, settings, self.style.quirks, rec, rec.of(bytes), out);
    }

    // PERF: no allocation per record; the text of each conversion is written in place.
    #[inline]
    pub(crate) fn printf(
        &self,
        format: &Format,
        recs: &[Rec],
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let capture = &*self.capture;
        let words = self.words();
        let mut parts = recs.iter();
        for piece in &format.pieces {
            let of = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text);
                    continue;
                }
                Piece::Conversion(of) => of,
            };
            let mut amount = |amount: Amount| match amount {
                Amount::Argument => parts.next().map(|rec| capture.order.signed(rec.of(bytes))),
                _ => None,
            };
            let spec = Spec::new(*of, amount(of.width), amount(of.precision));
            let Some(rec) = parts.next().filter(|_| !of.is_value) else {
                return Err("a conversion has no argument".to_owned());
            };
            convert::argument(capture, words, &spec, rec, rec.of(bytes), out).map_err(mismatched)?;
        }
        Ok(())
    }

    fn printa(
        &mut self,
        format: Option<&Format>,
        recs: &[Rec],
        parts: &Range<usize>,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.aggregates.settle();
        let order = self.capture.order;
        let variables: Vec<u64> = recs[parts.clone()].iter().map(|rec| order.number(rec.of(bytes))).collect();
        let context = self.context();
        let result = match (format, variables.as_slice()) {
            (Some(format), _) => context.formatted(format, &variables, out),
            (None, [only]) => {
                out.push(b'\n');
                context.plain(|variable| variable == *only, out)
            }
            (None, _) => {
                out.push(b'\n');
                context.joined(&variables, out)
            }
        };
        variables.iter().for_each(|variable| self.aggregates.set_printed(*variable));
        result.map_err(|failed| self.failed(failed))
    }
}

/// Message of the command if its library cannot continue printing.
const ENDED: &[u8] = b"processing aborted: Data record list does not match statement\n";

/// Message of the command if it cannot print the aggregations at the end.
const ENDED_AT_END: &[u8] = b"failed to print aggregations: Data record list does not match statement\n";

fn capture_is_classic(capture: &Capture) -> bool {
    capture.dialect != Dialect::Linux
}

fn mismatched(mismatch: Mismatch) -> String {
    let letter = char::from(mismatch.letter);
    format!("the conversion `{letter}` is given {} bytes", mismatch.size)
}
