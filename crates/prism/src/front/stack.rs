//! Open calls of a thread, from its calls, jumps and returns.
//!
//! A return leaves the call whose return address it goes to. If several have that address, the stack level decides, where
//! accesses show it (x86, whose calls and returns access the stack). A return to any other address leaves nothing: it ends a
//! signal handler or switches stacks. So calls that `longjmp` or an exception abandoned stay open until an outer call
//! returns, which leaves them all. A jump to the beginning of another function is a tail call.

/// Maximum number of open calls; further ones are not noted.
const MAX_FRAMES: usize = 1 << 16;

/// An open call.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The function; `None` while its name is unknown.
    pub(crate) function: Option<u32>,
    /// Address of its first instruction.
    pub(crate) start: u64,
    return_to: u64,
    /// Address of the return address on the stack, if known.
    pub(crate) level: Option<u64>,
    /// Whether it is a signal handler, which the system calls.
    is_handler: bool,
    /// Whether the call was shown as an event.
    pub(crate) is_shown: bool,
    /// Whether the call is synchronization.
    pub(crate) is_sync: bool,
    /// Its synchronization kind, and whether it happens on entry, unless it was reported.
    pub(crate) sync: Option<(u8, bool)>,
    /// Arguments, as far as they are known.
    pub(crate) args: [Option<u64>; 2],
}

impl Frame {
    /// Whether a jump has left this call, because one that wrote its return address at `level` cannot be within it: stacks grow
    /// downwards.
    pub(crate) fn is_left(&self, level: Option<u64>) -> bool {
        matches!((self.level, level), (Some(own), Some(new)) if new >= own)
    }
}

/// An instruction that transfers control, until the next instruction shows the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// A call that returns to this address.
    Call(u64),
    /// A jump.
    Jump,
    /// A return.
    Return,
}

/// The effect of a transfer on the open calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// A function is called.
    Call,
    /// A jump, which is a call if it goes to the beginning of another function.
    Jump,
    /// The calls from this number on are left. The first of them has returned, the others were abandoned.
    Return(usize),
}

/// The open calls of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    pub(crate) frames: Vec<Frame>,
    pending: Option<(Transfer, Option<u64>)>,
}

impl Stack {
    /// Notes a transfer by the current instruction.
    pub(crate) fn transfer(&mut self, transfer: Option<Transfer>) {
        self.pending = transfer.map(|transfer| (transfer, None));
    }

    /// Notes an access of the current instruction: a call writes its return address, a return reads it.
    pub(crate) fn access(&mut self, is_write: bool, address: u64) {
        match &mut self.pending {
            Some((Transfer::Call(_), level)) if is_write => *level = Some(address),
            Some((Transfer::Return, level)) if !is_write => *level = Some(address),
            _ => {}
        }
    }

    /// The effect of the last transfer, now that execution continues at `pc`. The frame of a call is added; the frames that a
    /// return leaves are to be [popped](Stack::pop).
    #[inline]
    pub(crate) fn arrive(&mut self, pc: u64) -> Effect {
        match self.pending.take() {
            None => Effect::None,
            Some((transfer, level)) => self.complete(transfer, level, pc),
        }
    }

    fn complete(&mut self, transfer: Transfer, level: Option<u64>, pc: u64) -> Effect {
        match transfer {
            Transfer::Jump => Effect::Jump,
            // Code that asks for its own address.
            Transfer::Call(return_to) if return_to == pc => Effect::None,
            Transfer::Call(return_to) => self.push(pc, return_to, level, false),
            Transfer::Return => {
                let is_its = |frame: &Frame| !frame.is_handler && frame.return_to == pc;
                let same = |frame: &Frame| is_its(frame) && level.is_some() && frame.level == level;
                // Calls whose levels are known differ by them.
                let may_be = |frame: &Frame| is_its(frame) && (level.is_none() || frame.level.is_none());
                let found = self.frames.iter().rposition(same);
                match found.or_else(|| self.frames.iter().rposition(may_be)) {
                    Some(at) => Effect::Return(at),
                    None => Effect::None,
                }
            }
        }
    }

    fn push(&mut self, start: u64, return_to: u64, level: Option<u64>, is_handler: bool) -> Effect {
        if self.frames.len() >= MAX_FRAMES {
            return Effect::None;
        }
        self.frames.push(Frame {
            function: None,
            start,
            return_to,
            level,
            is_handler,
            is_shown: false,
            is_sync: false,
            sync: None,
            args: [None; 2],
        });
        Effect::Call
    }

    /// A signal handler begins at `pc`.
    pub(crate) fn interrupt(&mut self, pc: u64) -> Effect {
        self.pending = None;
        self.push(pc, 0, None, true)
    }

    /// The innermost signal handler returns to the system.
    pub(crate) fn resume(&mut self) -> Effect {
        self.pending = None;
        match self.frames.iter().rposition(|frame| frame.is_handler) {
            Some(at) => Effect::Return(at),
            None => Effect::None,
        }
    }

    /// Removes the innermost call if there are more than `n`.
    pub(crate) fn pop(&mut self, n: usize) -> Option<Frame> {
        if self.frames.len() > n { self.frames.pop() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack that executes steps: `c PC RETURN LEVEL` calls, `j PC` jumps, `r PC LEVEL` returns, `i PC` is a signal, `s` its
    /// end. Levels of 0 are unknown. Returns the starts of the open calls after each step.
    fn run(steps: &[(char, u64, u64, u64)]) -> Vec<Vec<u64>> {
        let mut stack = Stack::default();
        let step = |&(what, pc, return_to, level): &(char, u64, u64, u64)| {
            let known = |level: u64| (level != 0).then_some(level);
            let effect = match what {
                'i' => stack.interrupt(pc),
                's' => stack.resume(),
                _ => {
                    stack.transfer(Some(match what {
                        'c' => Transfer::Call(return_to),
                        'j' => Transfer::Jump,
                        _ => Transfer::Return,
                    }));
                    if let Some(level) = known(level) {
                        stack.access(what == 'c', level);
                    }
                    stack.arrive(pc)
                }
            };
            match effect {
                Effect::Return(n) => while stack.pop(n).is_some() {},
                Effect::Jump => {
                    if let Some(frame) = stack.frames.last_mut() {
                        frame.start = pc;
                    }
                }
                Effect::Call | Effect::None => {}
            }
            stack.frames.iter().map(|frame| frame.start).collect()
        };
        steps.iter().map(step).collect()
    }

    #[test]
    fn calls_are_left_by_their_returns() {
        let open = run(&[('c', 0x100, 0x11, 0x7f8), ('c', 0x200, 0x105, 0x7e8), ('r', 0x105, 0, 0x7e8)]);
        assert_eq!(open, [vec![0x100], vec![0x100, 0x200], vec![0x100]]);
        assert!(run(&[('r', 0x11, 0, 0)])[0].is_empty(), "a return of a call that came before");
    }

    #[test]
    fn a_tail_call_returns_for_the_one_that_made_it() {
        let open = run(&[('c', 0x100, 0x11, 0), ('j', 0x300, 0, 0), ('r', 0x11, 0, 0)]);
        assert_eq!(open, [vec![0x100], vec![0x300], vec![]]);
    }

    #[test]
    fn a_long_jump_stays_open_until_an_outer_call_returns() {
        let mut steps =
            vec![('c', 0x100, 0x11, 0x7f8), ('c', 0x200, 0x105, 0x7e8), ('c', 0x300, 0x205, 0x7d8)];
        // From the third function to the first, with an indirect jump within it.
        steps.extend([('c', 0x400, 0x106, 0x7e8), ('r', 0x106, 0, 0x7e8), ('r', 0x11, 0, 0x7f8)]);
        let open = run(&steps);
        assert_eq!(open[4], [0x100, 0x200, 0x300], "abandoned calls are not known to be left");
        assert_eq!(open[5], [0; 0]);
    }

    #[test]
    fn the_level_tells_calls_from_one_place_apart() {
        let recursive = [('c', 0x100, 0x11, 0x7f8), ('c', 0x100, 0x105, 0x7e8), ('c', 0x100, 0x105, 0x7d8)];
        let back = |level| run(&[&recursive[..], &[('r', 0x105, 0, level)]].concat()).pop().unwrap().len();
        assert_eq!(back(0x7d8), 2, "the innermost");
        assert_eq!(back(0x7e8), 1, "a jump abandoned the innermost");
        assert_eq!(back(0), 2, "without levels, the innermost");
    }

    #[test]
    fn a_signal_handler_does_not_return_to_a_call() {
        let handled = [
            ('c', 0x100, 0x11, 0x7f8),
            ('i', 0x500, 0, 0),
            ('c', 0x600, 0x505, 0x3e8),
            ('r', 0x505, 0, 0x3e8),
            // To the code that returns to the system.
            ('r', 0x9000, 0, 0x3f8),
            ('s', 0, 0, 0),
            ('r', 0x11, 0, 0x7f8),
        ];
        let depths: Vec<usize> = run(&handled).iter().map(Vec::len).collect();
        assert_eq!(depths, [1, 2, 3, 2, 2, 1, 0]);
        // The handler jumps out of itself, to a function that then returns.
        let depths: Vec<usize> = run(&[handled[0], handled[1], handled[6]]).iter().map(Vec::len).collect();
        assert_eq!(depths, [1, 2, 0]);
    }
}
