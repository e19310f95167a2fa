//! Function context and synchronization of programs that are observed, from instructions and the symbols of their files.
//!
//! Calls, jumps and returns keep a [`Stack`] per thread. Calls of thread libraries become synchronization; their arguments
//! come from accesses ([`Tracking`]) and system calls. Calls within such a call are not synchronization of their own.

use super::args::{Based, Tracking};
use super::names::Found;
use super::stack::{Effect, Stack, Transfer};
use super::{Counts, Front, MAX_OPEN, SYSTEM_CALLS};
use crate::event::{Context, Event, Place, Sync, context, sync};
use quipu_isa::{Arch, Instr, Work};
use quipu_model::ThreadId;
use quipu_model::lens::{InstrClass, ThreadEvent};

/// Number of instructions after which a call without a name is shown. Stubs that lead to functions of libraries have fewer;
/// the function that they jump to is the one that is called.
const STUB_INSTRS: u8 = 8;
/// The flag of `clone` that starts a thread.
const CLONE_THREAD: u64 = 0x10000;
/// Maximum number of instructions that are kept decoded.
const MAX_TRACKED: usize = 1 << 14;

/// The calls of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    stack: Stack,
    /// Registers with arguments of the innermost synchronization.
    tracking: Option<Tracking>,
    /// The argument that the next access gives.
    based: Option<Based>,
    /// Number of instructions until the innermost call is shown without a name; 0 if it was shown.
    unshown: u8,
    /// Whether the next instruction is the first of a signal handler.
    is_interrupted: bool,
}

/// An instruction whose effect on arguments is of interest.
pub(super) type Tracked = Box<(Instr, Option<Work>)>;

impl Front {
    /// Makes the calls of another thread the current ones.
    pub(super) fn switch_calls(&mut self, from: Option<ThreadId>, to: ThreadId) {
        let next = self.calls_of.remove(&to).unwrap_or_default();
        let before = std::mem::replace(&mut self.calls, next);
        if let Some(from) = from.filter(|_| self.calls_of.len() < MAX_OPEN) {
            self.calls_of.insert(from, before);
        }
    }

    /// Follows control flow to an instruction.
    #[inline]
    pub(super) fn arrive(&mut self, program: u16, pc: u64, counts: &mut Counts) {
        let effect = match std::mem::take(&mut self.calls.is_interrupted) {
            true => self.calls.stack.interrupt(pc),
            false => self.calls.stack.arrive(pc),
        };
        if effect != Effect::None {
            self.follow(program, pc, effect, counts);
        }
        if self.calls.unshown > 0 {
            self.calls.unshown -= 1;
            if self.calls.unshown == 0 {
                self.show_call(self.calls.stack.frames.len(), counts);
            }
        }
    }

    fn follow(&mut self, program: u16, pc: u64, effect: Effect, counts: &mut Counts) {
        match effect {
            Effect::None => {}
            Effect::Return(n) => self.leave_calls(n, counts),
            Effect::Jump => {
                if let Some(found) = self.names.at(program, pc).filter(|found| found.is_start) {
                    self.tail_call(found, pc, counts);
                }
            }
            Effect::Call => {
                let n = self.calls.stack.frames.len();
                // The caller is no stub.
                self.show_call(n - 1, counts);
                match self.names.at(program, pc) {
                    Some(found) => self.name_call(found, pc, counts),
                    None => self.calls.unshown = STUB_INSTRS,
                }
            }
        }
    }

    /// A jump to the beginning of a function replaces the innermost call.
    fn tail_call(&mut self, found: Found, pc: u64, counts: &mut Counts) {
        let is_sync = self.names.get(found.number).is_some_and(|known| known.sync.is_some());
        let Some(frame) = self.calls.stack.frames.last_mut() else { return };
        // A loop to the beginning, or a part of a thread library's function.
        if frame.function == Some(found.number) || frame.is_sync && !is_sync {
            return;
        }
        (frame.is_sync, frame.sync, frame.args) = (false, None, [None; 2]);
        if std::mem::take(&mut frame.is_shown) {
            let function = frame.function;
            self.pass_call(context::EXIT, function, counts);
        }
        self.name_call(found, pc, counts);
    }

    /// Gives the innermost call its function, and shows it.
    fn name_call(&mut self, found: Found, pc: u64, counts: &mut Counts) {
        let known = self.names.get(found.number).and_then(|known| known.sync).filter(|_| found.is_start);
        let frames = &mut self.calls.stack.frames;
        let Some((frame, outer)) = frames.split_last_mut() else { return };
        (frame.function, frame.start) = (Some(found.number), pc);
        if known.is_some() {
            // A jump out of a wait, say from a signal handler: that call synchronizes nothing any more.
            for outer in outer.iter_mut().filter(|outer| outer.is_sync && outer.is_left(frame.level)) {
                (outer.is_sync, outer.sync) = (false, None);
            }
        }
        if known.is_some() && outer.iter().all(|frame| !frame.is_sync) {
            (frame.is_sync, frame.sync) = (true, known);
            self.calls.tracking = self.arch.and_then(Tracking::begin);
        }
        self.calls.unshown = 0;
        self.show_call(self.calls.stack.frames.len(), counts);
    }

    /// Shows the call with this number, counted from 1, if it was not shown.
    fn show_call(&mut self, number: usize, counts: &mut Counts) {
        let frame = number.checked_sub(1).and_then(|at| self.calls.stack.frames.get_mut(at));
        let Some(frame) = frame.filter(|frame| !frame.is_shown) else { return };
        frame.is_shown = true;
        let start = frame.start;
        let function = *frame
            .function
            .get_or_insert_with(|| self.names.number(&format!("function {start:#x}").into_bytes().into()));
        self.pass_call(context::ENTER, Some(function), counts);
    }

    fn pass_call(&mut self, kind: u8, function: Option<u32>, counts: &mut Counts) {
        let known = function.and_then(|function| self.names.get(function));
        if let Some(name) = known.map(|known| known.name.clone()) {
            self.pass(kind, &name, counts);
        }
    }

    /// Leaves the calls from this number on. The first of them has returned.
    fn leave_calls(&mut self, n: usize, counts: &mut Counts) {
        self.calls.unshown = 0;
        while let Some(frame) = self.calls.stack.pop(n) {
            let has_returned = self.calls.stack.frames.len() == n;
            if frame.is_sync {
                self.calls.tracking = None;
            }
            if let Some((kind, _)) = frame.sync.filter(|_| has_returned) {
                self.synchronize(kind, frame.args, counts);
            }
            if frame.is_shown {
                self.pass_call(context::EXIT, frame.function, counts);
            }
        }
    }

    fn synchronize(&mut self, kind: u8, [data, second]: [Option<u64>; 2], counts: &mut Counts) {
        let Some(data) = data else {
            counts.blind_syncs += 1;
            return;
        };
        let second = (kind == sync::WAIT).then_some(second.unwrap_or(0));
        self.put(Event::Sync(Sync { kind, data, second }));
        counts.syncs += 1;
    }

    /// Notes what an instruction does to control flow and to arguments.
    #[inline]
    pub(super) fn executed(&mut self, class: InstrClass, end: u64, key: Option<(u32, u32)>) {
        self.calls.stack.transfer(match class {
            InstrClass::DirectCall | InstrClass::IndirectCall => Some(Transfer::Call(end)),
            InstrClass::DirectJump | InstrClass::IndirectJump => Some(Transfer::Jump),
            InstrClass::Return => Some(Transfer::Return),
            InstrClass::ConditionalJump | InstrClass::Other | InstrClass::Sysenter => None,
        });
        if self.calls.tracking.is_some() {
            self.track(key);
        }
    }

    /// Follows arguments through an instruction, which was decoded before.
    #[cold]
    fn track(&mut self, key: Option<(u32, u32)>) {
        let Calls { tracking, based, .. } = &mut self.calls;
        *based = None;
        match (key.and_then(|key| self.tracked.get(&key)), &mut *tracking) {
            (Some(tracked), Some(known)) => {
                *based = known.step(&tracked.0, tracked.1.as_ref());
                if known.is_over() && based.is_none() {
                    *tracking = None;
                }
            }
            // An unknown instruction may have changed any register.
            _ => *tracking = None,
        }
    }

    /// Whether instructions have to be decoded for [`Front::executed`].
    pub(super) fn is_tracking(&self) -> bool {
        self.calls.tracking.is_some()
    }

    /// Keeps a decoded instruction.
    pub(super) fn keep_tracked(&mut self, key: (u32, u32), tracked: Tracked) {
        if self.tracked.len() >= MAX_TRACKED {
            self.tracked.clear();
        }
        self.tracked.insert(key, tracked);
    }

    /// Notes an access of the current instruction.
    #[inline]
    pub(super) fn accessed(&mut self, program: u16, is_write: bool, address: u64, counts: &mut Counts) {
        self.calls.stack.access(is_write, address);
        if self.calls.tracking.is_some() {
            self.learn_argument(program, address, counts);
        }
    }

    #[cold]
    fn learn_argument(&mut self, program: u16, address: u64, counts: &mut Counts) {
        let Some(frame) = self.calls.stack.frames.iter_mut().rfind(|frame| frame.is_sync) else { return };
        let kind = frame.sync.map(|(kind, _)| kind);
        // A thread is known by the place of its id, which the system clears when the thread ends.
        let joined = self.tids.get(&(program, address)).filter(|_| kind == Some(sync::JOIN));
        if let Some(handle) = joined {
            frame.args[0] = Some(*handle);
        }
        if let Some(Based { arg, distance }) = self.calls.based.take()
            // Of a creation, the first argument is only the place of the handle.
            && kind != Some(sync::CREATE)
        {
            let value = address.wrapping_add_signed(distance.wrapping_neg());
            frame.args[usize::from(arg) & 1].get_or_insert(value);
        }
        let is_known = match kind {
            Some(sync::WAIT) => frame.args.iter().all(Option::is_some),
            // The handle may follow.
            Some(sync::JOIN) => joined.is_some() || frame.args[0].is_some(),
            _ => frame.args[0].is_some(),
        };
        if !is_known {
            return;
        }
        self.calls.tracking = None;
        if let Some((kind, true)) = frame.sync {
            let args = frame.args;
            frame.sync = None;
            self.synchronize(kind, args, counts);
        }
    }

    /// Follows signals. The value of an interruption is the address of the instruction that would have come next.
    pub(super) fn thread_event(&mut self, program: u16, what: ThreadEvent, value: u64, counts: &mut Counts) {
        match what {
            ThreadEvent::Interrupt => {
                if value != 0 && !self.calls.is_interrupted {
                    self.arrive(program, value, counts);
                }
                self.calls.tracking = None;
                self.calls.is_interrupted = true;
            }
            ThreadEvent::Resume => {
                let effect = self.calls.stack.resume();
                self.follow(program, 0, effect, counts);
            }
            _ => {}
        }
    }

    /// Handles the beginning or the end of a system call: creations of threads, and calls within synchronization. Returns
    /// false for others.
    pub(super) fn system_call(
        &mut self,
        thread: ThreadId,
        id: u64,
        args: [Option<u64>; 5],
        result: Option<u64>,
        counts: &mut Counts,
    ) -> bool {
        let number = id.wrapping_sub(SYSTEM_CALLS);
        let inner = self.calls.stack.frames.iter_mut().rfind(|frame| frame.is_sync);
        // The places of the thread's id and of its own data: flags, stack, id for the parent, then both in either order.
        let (clone, tls) = match self.arch {
            Some(Arch::X86_64) => (56, 4),
            Some(Arch::Aarch64) => (220, 3),
            _ => return inner.is_some(),
        };
        let is_thread = number == clone && args[0].is_some_and(|flags| flags & CLONE_THREAD != 0);
        if !is_thread {
            return inner.is_some();
        }
        let handle = args[tls];
        if let (Some(handle), Some(place)) = (handle, args[2])
            && self.tids.len() < MAX_OPEN
        {
            self.tids.insert((thread.workload, place), handle);
        }
        let is_call = match inner {
            Some(frame) if frame.sync.is_some_and(|(kind, _)| kind == sync::CREATE) => {
                frame.args[0] = handle;
                true
            }
            _ => false,
        };
        if let Some(tid) = result.filter(|result| result.cast_signed() > 0) {
            if !is_call {
                self.synchronize(sync::CREATE, [handle, None], counts);
            }
            self.show_thread(ThreadId { tid, ..thread });
        }
        true
    }

    /// The handle of the thread whose id is at this place.
    pub(super) fn thread_at(&self, program: u16, place: u64) -> Option<u64> {
        self.tids.get(&(program, place)).copied()
    }

    /// Shows a thread to back ends where it is created, as they take the k-th creation for the creation of thread k + 1.
    fn show_thread(&mut self, created: ThreadId) {
        if self.threads.contains_key(&created) || self.threads.len() >= MAX_OPEN {
            return;
        }
        let creator = self.current.and_then(|thread| self.threads.get(&thread)).copied();
        let number = self.number(created.workload, None);
        self.threads.insert(created, number);
        self.put(Event::Sync(Sync { kind: sync::SWAP, data: number, second: None }));
        if created.tid < 1 << 56 {
            let place = Place::Address(created.tid);
            self.put(Event::Context(Context { kind: context::THREAD, place }));
        }
        if let Some(data) = creator {
            self.put(Event::Sync(Sync { kind: sync::SWAP, data, second: None }));
        }
    }
}
