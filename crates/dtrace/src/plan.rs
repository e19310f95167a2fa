//! What is to be done for each part of a record, found out once for each enabling.

use crate::action::Action;
use crate::describe::{Capture, Dialect, Enabling, Rec};
use crate::format::Format;
use crate::library::{self, Routine};
use std::ops::Range;
use std::sync::Arc;

/// What is done for some parts of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    /// A value is printed.
    Trace(usize),
    /// A value is printed by its type, if the capture has that.
    Typed(usize, Arc<str>),
    /// The address and the value of a `print()` of Linux.
    Print(usize, usize),
    /// The command ends with a status.
    Exit(usize),
    /// A format is printed.
    Printf(Arc<Format>, Range<usize>),
    /// What the consumer would do with the text of a format is shown.
    Shown(Shown, Arc<Format>, Range<usize>),
    /// Aggregations are printed.
    Printa(Option<Arc<Format>>, Range<usize>),
    /// The consumer does something itself.
    Library(Routine, Range<usize>),
    /// Bytes are dumped.
    Tracemem(usize),
    /// How many of the next bytes are dumped.
    Size(usize),
    /// A length and bytes are dumped.
    Printm(usize),
    /// A stack is printed.
    Stack(usize),
    /// An address is printed.
    Symbol(usize),
    /// A speculation ends; nothing is printed.
    Speculation,
    /// The parts contradict each other.
    Fault(Arc<str>),
}

/// What is shown and never done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A command.
    System,
    /// The name of a file.
    Freopen,
}

/// The plan of an enabling.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) ops: Vec<Op>,
    /// True for the clause that reports errors.
    pub(crate) is_error: bool,
    /// True if it only ends speculations, so that nothing is printed.
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

    /// Adds what is done for the part at `at` and those that belong to it; says how many these are.
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
        // On Linux, a dump has its length after it.
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

/// What `arg` of `tracemem()` says on Linux: that a length follows, and that it is one.
const DYNAMIC: u64 = 2;
const LENGTH: u64 = 4;

/// True for the clause that the library adds itself.
fn is_error(capture: &Capture, enabling: &Enabling) -> bool {
    const LIBRARY: u64 = 1;
    let words = enabling.recs.iter().filter(|rec| rec.size == 8 && rec.action == Action::Trace).count();
    let is_error_probe = match enabling.probe {
        // On Linux, samples say which probe it was.
        0 => capture.dialect == Dialect::Linux,
        id => capture.probes.get(&id).is_some_and(|probe| probe.name == "ERROR"),
    };
    enabling.uarg == LIBRARY && words == 5 && is_error_probe
}

fn is_same_statement(a: &Rec, b: &Rec) -> bool {
    (a.action, a.format, a.arg, a.uarg) == (b.action, b.format, b.arg, b.uarg)
}

/// The type of a value of `print()`.
fn type_of(capture: &Capture, rec: &Rec) -> Option<Arc<str>> {
    let name = capture.format(rec.format)?;
    Some(String::from_utf8_lossy(name).into())
}

fn parsed(capture: &Capture, rec: &Rec) -> Result<Arc<Format>, String> {
    let text = capture.format(rec.format).ok_or_else(|| format!("format {} has no text", rec.format))?;
    Format::parse(text, capture.pointer_bytes).map(Arc::new).map_err(|error| error.message().to_owned())
}

/// The format that begins at a part, and how many parts it takes: also one without conversions takes one.
fn formatted(capture: &Capture, recs: &[Rec], at: usize) -> Result<(Arc<Format>, usize), String> {
    let format = parsed(capture, &recs[at])?;
    let n = format.n_args.max(1);
    let has = recs[at..].iter().take(n).take_while(|rec| rec.action == recs[at].action).count();
    if has < n {
        return Err(format!("a format takes {n} arguments, the record has {has}"));
    }
    Ok((format, n))
}
