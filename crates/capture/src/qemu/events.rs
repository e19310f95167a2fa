//! Active signal handlers, and entries that wait for their end.
//!
//! If a program was interrupted after a branch, the interrupted address is only known when the handler returns, because the
//! emulator reports no registers. Until then, the entries from the branch on are kept.

use quipu_drmemtrace::record::{Entry, Marker, Type};

/// Most active handlers to remember: handlers left by a jump never return.
const MOST_OPEN: usize = 1024;

/// Entries to complete when a handler returns.
#[derive(Clone, Debug)]
pub(crate) struct Unresolved {
    /// A branch with an unknown destination: the index of its first entry, and its target if it is conditional.
    branch: Option<(usize, Option<u64>)>,
    /// The interrupted address to assume if the handler never returns.
    fallback: u64,
    /// Indices of the markers that need the address.
    at: Vec<usize>,
}

impl Unresolved {
    /// Waits for the destination of `branch`; if it never becomes known, `fallback` is used.
    pub(crate) fn new(branch: Option<(usize, Option<u64>)>, fallback: u64) -> Unresolved {
        Unresolved { branch, fallback, at: Vec::new() }
    }
}

/// An active handler.
#[derive(Clone, Debug)]
enum Open {
    /// The program was interrupted at this address.
    At(u64),
    Waiting(Unresolved),
    /// The interruption was not recorded.
    Unwritten,
}

/// Active handlers of one thread.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Active handlers, innermost last.
    open: Vec<Open>,
    n_waiting: usize,
}

impl Events {
    /// Whether any entry waits for the end of a handler.
    pub(crate) fn is_waiting(&self) -> bool {
        self.n_waiting > 0
    }

    /// Starts a handler of one of these signals. The program was interrupted at `pc`, or at an address that is still
    /// unknown.
    pub(crate) fn open(
        &mut self,
        out: &mut Vec<Entry>,
        pc: Option<u64>,
        unresolved: Option<Unresolved>,
        signals: u64,
    ) {
        let open = match (pc, unresolved) {
            (Some(pc), _) => Open::At(pc),
            (None, Some(mut unresolved)) => {
                unresolved.at.push(out.len());
                self.n_waiting += 1;
                Open::Waiting(unresolved)
            }
            (None, None) => return self.open_unwritten(),
        };
        out.push(Entry::marker(Marker::KERNEL_EVENT, pc.unwrap_or(0)));
        if signals.count_ones() == 1 {
            out.push(Entry::marker(Marker::SIGNAL_NUMBER, u64::from(signals.trailing_zeros())));
        }
        self.push(open);
    }

    /// Starts a handler without recording it.
    pub(crate) fn open_unwritten(&mut self) {
        self.push(Open::Unwritten);
    }

    fn push(&mut self, open: Open) {
        if self.open.len() == MOST_OPEN && self.n_waiting == 0 {
            self.open.clear();
        }
        self.open.push(open);
    }

    /// A handler returned directly to another handler, before a single instruction.
    pub(crate) fn reopen(&mut self, out: &mut Vec<Entry>, signals: u64) {
        match self.open.pop() {
            Some(Open::At(pc)) => self.open(out, Some(pc), None, signals),
            Some(Open::Waiting(unresolved)) => {
                self.n_waiting -= 1;
                self.open(out, None, Some(unresolved), signals);
            }
            Some(Open::Unwritten) | None => self.open_unwritten(),
        }
    }

    /// A handler returned, and execution continues at `pc`.
    pub(crate) fn close(&mut self, out: &mut [Entry], pc: u64) {
        let Some(Open::Waiting(open)) = self.open.pop() else { return };
        self.n_waiting -= 1;
        set(out, &open.at, pc);
        let (Some((from, target)), Some(first)) = (open.branch, open.at.first()) else { return };
        for entry in out.iter_mut().take(*first).skip(from) {
            if entry.kind() == Type::INSTR_UNTAKEN_JUMP && target == Some(pc) {
                entry.kind = Type::INSTR_TAKEN_JUMP.0.into();
            } else if entry.is_marker(Marker::BRANCH_TARGET) {
                entry.addr = pc.into();
            }
        }
    }

    /// Stops waiting for active handlers. Branches before them are removed, as if the interruption had come before these.
    /// Returns whether any entries were removed.
    pub(crate) fn give_up(&mut self, out: &mut Vec<Entry>) -> bool {
        let mut has_dropped = false;
        for open in self.open.iter_mut().rev() {
            let Open::Waiting(unresolved) = open.clone() else { continue };
            *open = Open::At(unresolved.fallback);
            set(out, &unresolved.at, unresolved.fallback);
            if let (Some((from, _)), Some(first)) = (unresolved.branch, unresolved.at.first())
                && from < *first
            {
                out.drain(from..*first);
                has_dropped = true;
            }
        }
        self.n_waiting = 0;
        has_dropped
    }
}

/// Sets the address of some markers.
fn set(out: &mut [Entry], at: &[usize], pc: u64) {
    for at in at {
        if let Some(event) = out.get_mut(*at) {
            event.addr = pc.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A conditional branch at 0x10 that is interrupted by signal 14, and one instruction of the handler.
    fn interrupted(target: Option<u64>) -> (Events, Vec<Entry>) {
        let mut events = Events::default();
        let mut out = vec![Entry::new(Type::INSTR, 1, 0xf)];
        if target.is_none() {
            out.push(Entry::marker(Marker::BRANCH_TARGET, 0));
        }
        let kind = if target.is_some() { Type::INSTR_UNTAKEN_JUMP } else { Type::INSTR_INDIRECT_JUMP };
        out.push(Entry::new(kind, 2, 0x10));
        let open = Unresolved::new(Some((1, target)), 0x10);
        events.open(&mut out, None, Some(open), 1 << 14);
        out.push(Entry::new(Type::INSTR, 1, 0x100));
        (events, out)
    }

    #[test]
    fn where_a_handler_returns_to_tells_how_the_branch_before_went() {
        for (pc, kind) in [(0x40, Type::INSTR_TAKEN_JUMP), (0x12, Type::INSTR_UNTAKEN_JUMP)] {
            let (mut events, mut out) = interrupted(Some(0x40));
            assert!(events.is_waiting());
            events.close(&mut out, pc);
            assert!(!events.is_waiting());
            assert_eq!(out[1], Entry::new(kind, 2, 0x10));
            assert_eq!(out[2], Entry::marker(Marker::KERNEL_EVENT, pc));
            assert_eq!(out[3], Entry::marker(Marker::SIGNAL_NUMBER, 14));
        }
        let (mut events, mut out) = interrupted(None);
        events.close(&mut out, 0x77);
        assert_eq!(out[1], Entry::marker(Marker::BRANCH_TARGET, 0x77));
        assert_eq!(out[3], Entry::marker(Marker::KERNEL_EVENT, 0x77));
    }

    #[test]
    fn a_second_signal_before_the_first_instruction_interrupts_the_same_one() {
        let (mut events, mut out) = interrupted(Some(0x40));
        events.reopen(&mut out, 1 << 10);
        events.close(&mut out, 0x40);
        let expected = Entry::marker(Marker::KERNEL_EVENT, 0x40);
        assert_eq!((out[2], out[5]), (expected, expected));
        assert_eq!(out[1], Entry::new(Type::INSTR_TAKEN_JUMP, 2, 0x10));
        assert!(!events.is_waiting());
    }

    #[test]
    fn a_branch_whose_outcome_stays_unknown_was_not_executed() {
        let (mut events, mut out) = interrupted(None);
        assert!(events.give_up(&mut out));
        assert!(!events.is_waiting());
        assert_eq!(out[1], Entry::marker(Marker::KERNEL_EVENT, 0x10));
        assert_eq!(out.len(), 4);
        events.close(&mut out, 0x77);
        assert_eq!(out[1], Entry::marker(Marker::KERNEL_EVENT, 0x10), "nothing waits any longer");
    }
}
