//! Plans of the work for each part of a record, made once per enabling.

use crate::action::Action;
use crate::describe::{Capture, Dialect, Enabling, Rec};
use crate::format::Format;
use crate::library::{self, Routine};
use std::ops::Range;
use std::sync::Arc;

/// The operation for one or more parts of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    /// Prints a value.
    Trace(usize),
    /// Prints a value by its type, if the capture has the type.
    Typed(usize, Arc<str>),
    /// Prints the address and the value of a Linux `print()`.
    Print(usize, usize),
    /// Ends the command with a status.
    Exit(usize),
    /// Prints a format.
    Printf(Arc<Format>, Range<usize>),
    /// Prints the text of a format for an action that is not performed.
    Shown(Shown, Arc<Format>, Range<usize>),
    /// Prints aggregations.
    Printa(Option<Arc<Format>>, Range<usize>),
    /// Performs one of the consumer's own actions.
    Library(Routine, Range<usize>),
    /// Dumps bytes.
    Tracemem(usize),
    /// Sets the number of bytes of the next dump.
    Size(usize),
    /// Dumps bytes after a length.
    Printm(usize),
    /// Prints a stack.
    Stack(usize),
    /// Prints an address.
    Symbol(usize),
    /// Ends a speculation; prints nothing.
    Speculation,
    /// The parts contradict each other; prints nothing.
    Fault(Arc<str>),
}

/// An action that is shown and never performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Running a command.
    System,
    /// Opening a file.
    Freopen,
}

/// The plan of an enabling.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) ops: Vec<Op>,
    /// Whether this is the clause that reports errors.
    pub(crate) is_error: bool,
    /// Whether it only ends speculations, so that nothing is printed.
    pub(crate) is_silent: bool,
}

impl Plan {
    pub(crate) fn new(capture: &Capture, enabling: &Enabling) -> Plan {
        let recs = &enabling.recs;
        let mut plan = Plan { is_error: is_error(capture, enabling), ..Plan::default() };
        let mut at = 0;
        while at < recs.len() {
            let n = plan.add(capture, recs, at);
            at += n.max(1);
        }
        plan.is_silent = capture.dialect == Dialect::Linux
            && !plan.ops.is_empty()
            && plan.ops.iter().all(|op| *op == Op::Speculation);
        plan
    }

    /// Adds the operation for the part at `at` and the parts that belong to it; returns the number of parts.
    fn add(&mut self, capture: &Capture, recs: &[Rec], at: usize) -> usize {
        let rec = &recs[at];
        let same = || recs[at..].iter().take_while(|other| is_same_statement(rec, other)).count();
        let (op, n) = match rec.action {
            Action::Trace if rec.format != 0 => match type_of(capture, rec) {
                Some(ty) => (Op::Typed(at, ty), 1),
                None => (Op::Trace(at), 1),
            },
            Action::Trace => (Op::Trace(at), 1),
            Action::Exit => (Op::Exit(at), 1),
            Action::Printf | Action::System | Action::Freopen => match formatted(capture, recs, at) {
                Ok((format, n)) => {
                    let parts = at..at + n;
                    let op = match rec.action {
                        Action::Printf => Op::Printf(format, parts),
                        Action::System => Op::Shown(Shown::System, format, parts),
                        _ => Op::Shown(Shown::Freopen, format, parts),
                    };
                    (op, n)
                }
                Err(message) => (Op::Fault(message.into()), same()),
            },
            Action::Printa => {
                let n = same();
                match rec.format {
                    0 => (Op::Printa(None, at..at + n), n),
                    _ => match parsed(capture, rec) {
                        Ok(format) => (Op::Printa(Some(format), at..at + n), n),
                        Err(message) => (Op::Fault(message.into()), n),
                    },
                }
            }
            Action::Library => {
                let routine = library::routine(capture, rec.arg);
                let n = match routine {
                    Routine::Normalize | Routine::Trunc | Routine::Setopt => 2,
                    _ => 1,
                };
                let has_all =
                    recs[at..].iter().take(n).filter(|other| other.action == Action::Library).count();
                match has_all == n {
                    true => (Op::Library(routine, at..at + n), n),
                    false => (Op::Fault("an argument of the consumer's own action is missing".into()), 1),
                }
            }
            Action::Tracemem => (Op::Tracemem(at), 1),
            Action::TracememSize => (Op::Size(at), 1),
            Action::Printm => (Op::Printm(at), 1),
            Action::Print => match recs.get(at + 1).is_some_and(|next| next.action == Action::Print) {
                true => (Op::Print(at, at + 1), 2),
                false => (Op::Trace(at), 1),
            },
            Action::Stack | Action::Ustack | Action::Jstack => (Op::Stack(at), 1),
            Action::Sym | Action::Mod | Action::Usym | Action::Umod | Action::Uaddr => (Op::Symbol(at), 1),
            Action::Speculate | Action::Commit | Action::Discard => (Op::Speculation, 1),
            Action::None | Action::Silent | Action::Aggregate(_) => return 1,
            Action::Unknown(code) => (Op::Fault(format!("action {code:#x} is unknown").into()), 1),
        };
        // On Linux, the length of a dump follows it.
        if let (Op::Tracemem(_), Dialect::Linux) = (&op, capture.dialect)
            && rec.arg == DYNAMIC
            && recs.get(at + 1).is_some_and(|next| next.action == Action::Tracemem && next.arg == LENGTH)
        {
            self.ops.push(Op::Size(at + 1));
            self.ops.push(op);
            return 2;
        }
        self.ops.push(op);
        n
    }
}

/// Values of the argument of `tracemem()` on Linux: a length follows; this is a length.
const DYNAMIC: u64 = 2;
const LENGTH: u64 = 4;

/// Whether this is the clause that the library adds itself.
fn is_error(capture: &Capture, enabling: &Enabling) -> bool {
    const LIBRARY: u64 = 1;
    let words = enabling.recs.iter().filter(|rec| rec.size == 8 && rec.action == Action::Trace).count();
    let is_error_probe = match enabling.probe {
        // On Linux, each sample has its probe.
        0 => capture.dialect == Dialect::Linux,
        id => capture.probes.get(&id).is_some_and(|probe| probe.name == "ERROR"),
    };
    enabling.uarg == LIBRARY && words == 5 && is_error_probe
}

fn is_same_statement(a: &Rec, b: &Rec) -> bool {
    (a.action, a.format, a.arg, a.uarg) == (b.action, b.format, b.arg, b.uarg)
}

/// The name of the type of a value of `print()`.
fn type_of(capture: &Capture, rec: &Rec) -> Option<Arc<str>> {
    let name = capture.format(rec.format)?;
    Some(String::from_utf8_lossy(name).into())
}

fn parsed(capture: &Capture, rec: &Rec) -> Result<Arc<Format>, String> {
    let text = capture.format(rec.format).ok_or_else(|| format!("format {} has no text", rec.format))?;
    Format::parse(text, capture.pointer_bytes).map(Arc::new).map_err(|error| error.message().to_owned())
}

/// The format that begins at a part, and the number of parts that it takes: at least one, even without conversions.
fn formatted(capture: &Capture, recs: &[Rec], at: usize) -> Result<(Arc<Format>, usize), String> {
    let format = parsed(capture, &recs[at])?;
    let n = format.n_args.max(1);
    let has = recs[at..].iter().take(n).take_while(|rec| rec.action == recs[at].action).count();
    if has < n {
        return Err(format!("a format takes {n} arguments, the record has {has}"));
    }
    Ok((format, n))
}
