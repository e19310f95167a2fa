//! Call stacks: the callers of what threads do, also in programs that jump, and in those with several stacks for a thread.
//!
//! Entries and exits of functions come from the compiler's instrumentation. A jump (`longjmp`) leaves functions without
//! exits, and contexts (`swapcontext`) and fibers replace the whole stack; the recording says where each of them happens.

use crate::tsan::merge::Who;
use quipu_cells::cell::sync;
use quipu_cells::event::{self, Event};
use rustc_hash::FxHashMap;

/// Maximum depth of a call stack: some functions are left in ways that are not recorded.
const MAX_DEPTH: usize = 1 << 16;

/// The active functions of all threads.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    stacks: Vec<Stack>,
    threads: Vec<Thread>,
    /// Places that can be continued at, by the address where the program keeps them.
    places: FxHashMap<u64, Place>,
    /// Numbers of the stacks that begin with a context, by the address of the context, and of those of fibers.
    made: FxHashMap<u64, usize>,
    fibers: FxHashMap<u64, usize>,
}

#[derive(Clone, Debug, Default)]
struct Stack {
    /// Return addresses of the active functions, outermost first.
    callers: Vec<u64>,
    /// The place to continue at when the outermost function has returned; 0 if there is none.
    then: u64,
    /// How often it was begun anew.
    n_begun: u32,
}

/// Numbers of the stacks of a thread.
#[derive(Clone, Copy, Debug)]
struct Thread {
    own: usize,
    current: usize,
    /// The stack on which it continues after a gap, once there was one.
    after_gap: Option<usize>,
}

/// A place on a stack: its number, how often that was begun anew before, and how many functions are active there.
#[derive(Clone, Copy, Debug)]
struct Place {
    stack: usize,
    n_begun: u32,
    depth: usize,
}

impl Callers {
    /// Return addresses of the active functions of a thread, outermost first.
    #[must_use]
    pub fn of(&self, who: Who) -> &[u64] {
        let stack = self.threads.get(who.index).and_then(|thread| self.stacks.get(thread.current));
        stack.map_or(&[][..], |stack| &stack.callers[..])
    }

    /// Follows an event of a thread.
    pub fn follow(&mut self, who: Who, event: &Event<'_>) {
        match event {
            Event::Enter { caller, .. } => {
                let callers = &mut self.stack_of(who).callers;
                if callers.len() >= MAX_DEPTH {
                    callers.drain(..MAX_DEPTH / 2);
                }
                callers.push(*caller);
            }
            Event::Leave { .. } => {
                let stack = self.stack_of(who);
                stack.callers.pop();
                if stack.then != 0 && stack.callers.is_empty() {
                    let then = stack.then;
                    self.continue_at(who, then);
                }
            }
            Event::Sync(sync) => self.synchronized(who, sync),
            _ => {}
        }
    }

    fn synchronized(&mut self, who: Who, event: &event::Sync) {
        match event.what {
            sync::CONTEXT_SAVE => {
                let stack = self.thread(who).current;
                let Stack { callers, n_begun, .. } = &self.stacks[stack];
                let place = Place { stack, n_begun: *n_begun, depth: callers.len() };
                self.places.insert(event.object, place);
            }
            sync::CONTEXT_RESTORE => self.continue_at(who, event.object),
            sync::RESUME if event.values[0] == sync::AFTER_GAP => self.continue_after_gap(who),
            sync::CONTEXT_MAKE => {
                let [then, _] = event.values;
                // A program that makes a context again at the same place needs its earlier stack no more.
                let known = self.made.get(&event.object).copied();
                let stack = known.unwrap_or_else(|| self.new_stack());
                self.made.insert(event.object, stack);
                let n_begun = self.begin(stack, then);
                self.places.insert(event.object, Place { stack, n_begun, depth: 0 });
            }
            sync::FIBER_CREATE => {
                let stack = self.new_stack();
                self.fibers.insert(event.object, stack);
            }
            sync::FIBER_SWITCH => {
                let own = self.thread(who).own;
                // The thread itself is a fiber, too, which was not created.
                let stack = self.fibers.get(&event.object).copied().unwrap_or(own);
                self.thread(who).current = stack;
            }
            sync::FIBER_DESTROY => {
                if let Some(stack) = self.fibers.remove(&event.object) {
                    self.begin(stack, 0);
                }
            }
            _ => {}
        }
    }

    /// The thread continues at a place, if that is known: all functions that were called since then are left.
    fn continue_at(&mut self, who: Who, place: u64) {
        if let Some(Place { stack, n_begun, depth }) = self.places.get(&place).copied() {
            // The functions that were active at a place of an earlier stack are not known any more.
            let is_same = self.stacks[stack].n_begun == n_begun;
            self.stacks[stack].callers.truncate(if is_same { depth } else { 0 });
            self.thread(who).current = stack;
        }
    }

    /// The thread continues on a stack without functions. In the gap, functions were entered and left, and the thread may have
    /// gone to another stack, so the one before stays as it is, for its places.
    fn continue_after_gap(&mut self, who: Who) {
        let Thread { own, current, after_gap } = *self.thread(who);
        let stack = after_gap.unwrap_or_else(|| self.new_stack());
        self.begin(stack, 0);
        // A thread that was on its own stack most likely still is.
        let own = if own == current { stack } else { own };
        *self.thread(who) = Thread { own, current: stack, after_gap: Some(stack) };
    }

    /// Begins a stack anew, with a place to continue at after its outermost function; returns how often it has been begun.
    fn begin(&mut self, stack: usize, then: u64) -> u32 {
        let n_begun = self.stacks[stack].n_begun.wrapping_add(1);
        self.stacks[stack] = Stack { callers: Vec::new(), then, n_begun };
        n_begun
    }

    fn thread(&mut self, who: Who) -> &mut Thread {
        while self.threads.len() <= who.index {
            let own = self.new_stack();
            self.threads.push(Thread { own, current: own, after_gap: None });
        }
        &mut self.threads[who.index]
    }

    fn stack_of(&mut self, who: Who) -> &mut Stack {
        let current = self.thread(who).current;
        &mut self.stacks[current]
    }

    fn new_stack(&mut self) -> usize {
        self.stacks.push(Stack::default());
        self.stacks.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows steps of two threads: `+N` enters a function that `N` called, `-` leaves one, `s N` and `c N` save and
    /// continue at a place, `m N THEN` makes a context, `f N`, `g N` and `d N` create, enter and destroy a fiber, `r` ends a
    /// gap, `t N` names the thread of the next steps. Returns the callers of both threads.
    fn run(steps: &str) -> [Vec<u64>; 2] {
        let mut callers = Callers::default();
        let mut who = Who { index: 0, tid: 0 };
        for step in steps.split(", ") {
            let mut words = step.split(' ');
            let what = words.next().unwrap();
            let mut number = || words.next().map_or(0, |word| word.parse::<u64>().unwrap());
            let (object, then) = (number(), number());
            let sync = |what| event::Sync { object, pc: 0, stamp: 0, what, values: [then, 0] };
            let event = match what {
                "-" => Event::Leave { pc: 0 },
                "s" => Event::Sync(sync(sync::CONTEXT_SAVE)),
                "c" => Event::Sync(sync(sync::CONTEXT_RESTORE)),
                "m" => Event::Sync(sync(sync::CONTEXT_MAKE)),
                "f" => Event::Sync(sync(sync::FIBER_CREATE)),
                "g" => Event::Sync(sync(sync::FIBER_SWITCH)),
                "d" => Event::Sync(sync(sync::FIBER_DESTROY)),
                "r" => Event::Sync(event::Sync { values: [sync::AFTER_GAP, 0], ..sync(sync::RESUME) }),
                "t" => {
                    who = Who { index: object as usize, tid: object };
                    continue;
                }
                enters => Event::Enter { caller: enters.strip_prefix('+').unwrap().parse().unwrap(), pc: 0 },
            };
            callers.follow(who, &event);
        }
        [0, 1].map(|index| callers.of(Who { index, tid: 0 }).to_vec())
    }

    #[test]
    fn a_jump_leaves_the_functions_in_between() {
        assert_eq!(run("+1, +2, s 100, +3, +4"), [vec![1, 2, 3, 4], vec![]]);
        assert_eq!(run("+1, +2, s 100, +3, +4, c 100, +5"), [vec![1, 2, 5], vec![]]);
        // A place that was saved again, one that is not known, and an exit after the jump.
        assert_eq!(run("+1, s 100, +2, s 100, +3, c 100, -"), [vec![1], vec![]]);
        assert_eq!(run("+1, +2, c 100"), [vec![1, 2], vec![]]);
        assert_eq!(run("-, -, +1"), [vec![1], vec![]]);
    }

    #[test]
    fn contexts_have_stacks_of_their_own() {
        // `main` at 100 makes 200, and goes there and back twice.
        let there = "+1, s 200, m 200 100, +2, s 100, c 200";
        assert!(run(there)[0].is_empty());
        assert_eq!(run(&format!("{there}, +7, +8"))[0], [7, 8]);
        assert_eq!(run(&format!("{there}, +7, +8, s 200, c 100, +3"))[0], [1, 2, 3]);
        let twice = format!("{there}, +7, +8, s 200, c 100, +3, -, s 100, c 200");
        assert_eq!(run(&twice)[0], [7, 8]);
        // At its end, the context continues at the place that it was made for; another begins in its place.
        assert_eq!(run(&format!("{twice}, -, -, +4"))[0], [1, 2, 4]);
        assert!(run(&format!("{twice}, -, -, m 200 0, s 100, c 200, +9, -, -"))[0].is_empty());
    }

    #[test]
    fn contexts_continue_on_other_threads() {
        assert_eq!(
            run("+1, m 200 0, s 100, c 200, +7, s 200, c 100, t 1, +3, s 300, c 200"),
            [vec![1], vec![7]]
        );
    }

    #[test]
    fn fibers_have_stacks_of_their_own() {
        assert_eq!(run("+1, f 16, g 16, +2")[0], [2]);
        assert_eq!(run("+1, f 16, g 16, +2, g 99, +3")[0], [1, 3]);
        assert_eq!(run("+1, f 16, g 16, +2, g 99, +3, g 16, +4")[0], [2, 4]);
        assert_eq!(run("+1, f 16, g 16, +2, g 99, d 16, g 16")[0], [1]);
    }

    #[test]
    fn a_gap_leaves_all_stacks() {
        assert_eq!(run("+1, +2, r")[0], [0; 0]);
        assert_eq!(run("+1, +2, r, +3")[0], [3]);
        // A jump out of the functions after the gap, to one that was active before it.
        assert_eq!(run("+1, s 300, +2, r, +3, +4, c 300, +5")[0], [1, 5]);
        // In the gap, the thread left the context 200 for `main` at 100, which it does not do again when functions return.
        let within = "+1, m 200 100, s 100, c 200, +7, r, +3, -";
        assert!(run(within)[0].is_empty());
        assert_eq!(run(&format!("{within}, +4"))[0], [4]);
        // The stack after the gap is another one after the next gap, with the functions of then.
        assert_eq!(run("+1, r, +2, +3, s 300, r, +4, +5, c 300")[0], [0; 0]);
        assert_eq!(run("+1, r, +2, +3, s 300, +6, c 300")[0], [2, 3]);
        assert_eq!(run("+1, f 16, r, +2, g 16, +3, g 99")[0], [2]);
        assert_eq!(run("+1, r, t 1, +5, t 0, +2"), [vec![2], vec![5]]);
    }

    #[test]
    fn gaps_take_one_stack_for_each_thread() {
        let mut callers = Callers::default();
        let resume =
            event::Sync { object: 0, pc: 0, stamp: 0, what: sync::RESUME, values: [sync::AFTER_GAP, 0] };
        for at in 0..100 {
            callers.follow(Who { index: at % 2, tid: 0 }, &Event::Sync(resume));
        }
        assert_eq!(callers.stacks.len(), 4);
    }

    #[test]
    fn a_stack_without_end_is_bounded() {
        let mut callers = Callers::default();
        let who = Who { index: 0, tid: 0 };
        for caller in 0..2 * MAX_DEPTH as u64 {
            callers.follow(who, &Event::Enter { caller, pc: 0 });
        }
        let of = callers.of(who);
        assert!(of.len() <= MAX_DEPTH && of.last() == Some(&(2 * MAX_DEPTH as u64 - 1)), "{}", of.len());
    }
}
