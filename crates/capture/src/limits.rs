//! The part of the execution to record: its start, windows, and limits.

use crate::switch::{Switch, Turn};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Limits set by the user. Instructions are counted over all threads, in the order in which the recorder reads them; for a
/// program with one thread this is exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Stop recording when all files together have this many bytes.
    pub most_bytes: Option<u64>,
    /// Stop recording after this many instructions.
    pub most_instrs: Option<u64>,
    /// Skip this many instructions first.
    pub start_after: Option<u64>,
    /// Start counting at the first execution of this function of the program.
    pub start_at: Option<String>,
    /// Stop recording at the execution of this function of the program. With a function that starts it, recording starts
    /// again at the next execution of that one, each time as a window.
    pub stop_at: Option<String>,
    /// `(n, period)`: record the first `n` of every `period` instructions. For programs that record themselves, events of
    /// each thread count in their place, in whole buffers.
    pub windows: Option<(u64, u64)>,
    /// Start recording this long after the program.
    pub start_after_time: Option<Duration>,
    /// Stop recording this long after the program started.
    pub stop_after_time: Option<Duration>,
    /// Record only this code; everything if empty. What the program does elsewhere is a gap each time.
    pub only: Vec<Code>,
    /// Do not record this code.
    pub skip: Vec<Code>,
    /// A signal to the recorder that starts recording, and stops it the next time, and so on.
    pub toggled_by: Option<UserSignal>,
}

impl Limits {
    /// The reason why nothing was recorded of a program that ran, as far as time and counts are one. `is_late`: the time to
    /// stop had come.
    pub(crate) fn prevented(&self, is_late: bool) -> Option<String> {
        if is_late {
            return Some("the time to stop recording came before there was anything to record".to_owned());
        }
        if self.start_after_time.is_some() || self.toggled_by.is_some() {
            return Some("the program ended before recording was started".to_owned());
        }
        self.start_after.map(|after| format!("the program executed no more than `{after}` instructions"))
    }
}

/// A part of the program's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// A program or library, by its path, its file name, or that without `.so` and what follows.
    Module(String),
    /// A function by its symbol, without those that it calls.
    Function(String),
}

/// A signal that has no meaning of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserSignal {
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
}

impl UserSignal {
    /// The signal of this name, with `SIG` or without it.
    pub fn named(name: &str) -> Option<UserSignal> {
        let name = name.strip_prefix("SIG").unwrap_or(name);
        [UserSignal::Usr1, UserSignal::Usr2].into_iter().find(|signal| signal.name() == name)
    }

    /// Its name, as `kill` takes it.
    pub fn name(self) -> &'static str {
        match self {
            UserSignal::Usr1 => "USR1",
            UserSignal::Usr2 => "USR2",
        }
    }

    /// Its number here.
    pub(crate) fn number(self) -> i32 {
        match self {
            UserSignal::Usr1 => libc::SIGUSR1,
            UserSignal::Usr2 => libc::SIGUSR2,
        }
    }
}

/// Which part of a run of instructions to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it, in the window with this number.
    All(u64),
    Nothing,
    /// Some; ask [`Gate::window_of`] for each instruction.
    Some,
}

/// Tracks the limits for all threads.
#[derive(Debug)]
pub(crate) struct Gate {
    limits: Limits,
    /// Whether there are no limits, so that nothing has to be counted.
    pub(crate) is_open: bool,
    /// Address of the function at which counting starts; 0 until it is known.
    start_pc: AtomicU64,
    /// Address of the function at which recording stops; 0 until it is known.
    stop_pc: AtomicU64,
    /// Whether a function has started recording, and none stopped it since.
    has_begun: AtomicBool,
    /// Whether a function has stopped recording, and none starts it again.
    has_stopped: AtomicBool,
    switch: Switch,
    /// Whether it is time to record, as far as [`Gate::tick`] knows.
    is_on: AtomicBool,
    /// How often recording was started by a function or by the switch.
    n_starts: AtomicU64,
    /// Addresses of code that is named, as far as it is loaded, each with the number of its name in [`Gate::names`].
    named: RwLock<Vec<(Range<u64>, usize)>>,
    n_seen: AtomicU64,
    n_taken: AtomicU64,
    /// Bytes of all files so far.
    n_bytes: Arc<AtomicU64>,
    is_over: AtomicBool,
}

impl Gate {
    /// A gate for files whose bytes are counted in `n_bytes`.
    pub(crate) fn new(limits: &Limits, n_bytes: Arc<AtomicU64>) -> Gate {
        let counts_none = Limits { most_bytes: None, ..limits.clone() } == Limits::default();
        let switch = Switch::new(limits);
        let is_on = switch.now() == Turn::On;
        Gate {
            limits: limits.clone(),
            is_open: counts_none,
            start_pc: AtomicU64::new(0),
            stop_pc: AtomicU64::new(0),
            has_begun: AtomicBool::new(limits.start_at.is_none()),
            has_stopped: AtomicBool::new(false),
            switch,
            is_on: AtomicBool::new(is_on),
            n_starts: AtomicU64::new(0),
            named: RwLock::default(),
            n_seen: AtomicU64::new(0),
            n_taken: AtomicU64::new(0),
            n_bytes,
            is_over: AtomicBool::new(false),
        }
    }

    /// Counter of the bytes in all files.
    pub(crate) fn bytes(&self) -> Arc<AtomicU64> {
        self.n_bytes.clone()
    }

    /// Whether windows are recorded: parts with gaps between them.
    pub(crate) fn has_windows(&self) -> bool {
        let limits = &self.limits;
        limits.windows.is_some() || limits.toggled_by.is_some() || self.starts_again() || self.has_names()
    }

    /// Whether some code is recorded, and other code is not.
    pub(crate) fn has_names(&self) -> bool {
        !self.limits.only.is_empty() || !self.limits.skip.is_empty()
    }

    /// The code that is named: first that which alone is recorded, then that which is not.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Code> {
        self.limits.only.iter().chain(&self.limits.skip)
    }

    /// Notes addresses of the code that has the name of this number.
    pub(crate) fn note(&self, addresses: Range<u64>, name: usize) {
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        if !named.contains(&(addresses.clone(), name)) {
            named.push((addresses, name));
        }
    }

    /// A sentence about each name of code, and of the function that stops recording, that no file has whose code was
    /// executed so far.
    pub(crate) fn unknown(&self) -> Vec<String> {
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        let is_known = |number: usize| named.iter().any(|(_, name)| *name == number);
        let of_function = |name: &str| format!("no loaded file has the function `{name}`");
        let codes = self.names().enumerate().filter(|(number, _)| !is_known(*number));
        let mut unknown: Vec<String> = codes
            .map(|(_, code)| match code {
                Code::Module(name) => format!("no loaded file is called `{name}`"),
                Code::Function(name) => of_function(name),
            })
            .collect();
        let has_no_stop = self.stop_pc.load(Ordering::Relaxed) == 0;
        unknown.extend(self.limits.stop_at.as_deref().filter(|_| has_no_stop).map(of_function));
        // Files that are loaded later are not looked at.
        if self.is_over() {
            unknown.iter_mut().for_each(|text| text.push_str(" before the end of the recording"));
        }
        unknown
    }

    /// Whether code at this address is recorded.
    pub(crate) fn keeps(&self, pc: u64) -> bool {
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        let n_only = self.limits.only.len();
        let has = |is_only: bool| {
            named.iter().any(|(range, name)| (*name < n_only) == is_only && range.contains(&pc))
        };
        (self.limits.only.is_empty() || has(true)) && !has(false)
    }

    /// Whether functions start recording again after they stopped it.
    fn starts_again(&self) -> bool {
        self.limits.start_at.is_some() && self.limits.stop_at.is_some()
    }

    /// The number of the current part, if windows are not made by counting.
    fn part(&self) -> u64 {
        if self.has_windows() { self.n_starts.load(Ordering::Relaxed).saturating_sub(1) } else { 0 }
    }

    /// Sets the address of the function at which counting starts.
    pub(crate) fn start_at(&self, pc: u64) {
        self.start_pc.store(pc, Ordering::Relaxed);
    }

    /// Sets the address of the function at which recording stops.
    pub(crate) fn stop_at(&self, pc: u64) {
        self.stop_pc.store(pc, Ordering::Relaxed);
    }

    /// Looks at the clock and the signals. The thread that waits for the program calls this now and then.
    pub(crate) fn tick(&self) {
        match self.switch.now() {
            Turn::Off => self.is_on.store(false, Ordering::Relaxed),
            Turn::On => {
                if !self.is_on.swap(true, Ordering::Relaxed) {
                    self.n_starts.fetch_add(1, Ordering::Relaxed);
                }
            }
            Turn::Over => self.is_over.store(true, Ordering::Relaxed),
        }
    }

    /// Whether it is time to record, by the clock and the signals.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether recording has to stop.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether recording stopped because its time was over.
    pub(crate) fn is_late(&self) -> bool {
        self.is_over() && self.switch.now() == Turn::Over
    }

    /// Stops recording if the files have become too large.
    pub(crate) fn weigh(&self) {
        if self.limits.most_bytes.is_some_and(|most| self.n_bytes.load(Ordering::Relaxed) >= most) {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Whether counting has ever started.
    pub(crate) fn has_begun(&self) -> bool {
        self.limits.start_at.is_none() || self.n_starts.load(Ordering::Relaxed) > 0
    }

    /// The index of the first instruction of a block to consider, after functions among these addresses have started or
    /// stopped recording; `None` for none of them.
    pub(crate) fn considers(&self, pcs: impl Iterator<Item = u64>) -> Option<usize> {
        let mut pcs = pcs.peekable();
        let stop = self.stop_pc.load(Ordering::Relaxed);
        // A function is called at the beginning of a block.
        if stop != 0 && self.has_begun.load(Ordering::Relaxed) && pcs.peek() == Some(&stop) {
            if self.starts_again() {
                self.has_begun.store(false, Ordering::Relaxed);
            } else if self.is_on() {
                self.has_stopped.store(true, Ordering::Relaxed);
                self.is_over.store(true, Ordering::Relaxed);
            }
        }
        if self.has_stopped.load(Ordering::Relaxed) || !self.is_on() {
            return None;
        }
        if self.has_begun.load(Ordering::Relaxed) {
            return Some(0);
        }
        let start = self.start_pc.load(Ordering::Relaxed);
        let at = pcs.position(|pc| pc == start).filter(|_| start != 0)?;
        self.has_begun.store(true, Ordering::Relaxed);
        self.n_starts.fetch_add(1, Ordering::Relaxed);
        Some(at)
    }

    /// Counts `n` instructions; returns the number of the first, and which of them to record.
    pub(crate) fn pass(&self, n: u64) -> (u64, Wanted) {
        let first = self.n_seen.fetch_add(n, Ordering::Relaxed);
        let after = self.limits.start_after.unwrap_or(0);
        if first + n <= after {
            return (first, Wanted::Nothing);
        }
        if first < after {
            return (first, Wanted::Some);
        }
        let wanted = match self.limits.windows {
            None => Wanted::All(self.part()),
            Some((of, every)) => {
                let (from, to) = ((first - after) % every, (first - after) % every + n);
                match (from < of, to) {
                    (true, to) if to <= of => Wanted::All((first - after) / every),
                    (false, to) if to <= every => Wanted::Nothing,
                    _ => Wanted::Some,
                }
            }
        };
        if matches!(wanted, Wanted::All(_))
            && let Some(most) = self.limits.most_instrs
        {
            let taken = self.n_taken.fetch_add(n, Ordering::Relaxed);
            if taken + n > most {
                self.n_taken.fetch_sub(n, Ordering::Relaxed);
                return (first, Wanted::Some);
            }
            if taken + n == most {
                self.is_over.store(true, Ordering::Relaxed);
            }
        }
        (first, wanted)
    }

    /// The window of one instruction, numbered from what [`Gate::pass`] returned with [`Wanted::Some`]; `None` if it is not
    /// recorded.
    pub(crate) fn window_of(&self, number: u64) -> Option<u64> {
        let at = number.checked_sub(self.limits.start_after.unwrap_or(0))?;
        let window = match self.limits.windows {
            None => self.part(),
            Some((of, every)) if at % every < of => at / every,
            Some(_) => return None,
        };
        if let Some(most) = self.limits.most_instrs {
            let taken = self.n_taken.fetch_add(1, Ordering::Relaxed) + 1;
            if taken >= most {
                self.is_over.store(true, Ordering::Relaxed);
            }
            if taken > most {
                return None;
            }
        }
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number and window of each recorded instruction, for blocks of these lengths.
    fn wanted(limits: Limits, blocks: &[u64]) -> Vec<(u64, u64)> {
        let gate = Gate::new(&limits, Arc::default());
        let mut all = Vec::new();
        for n in blocks {
            match gate.pass(*n) {
                (_, Wanted::Nothing) => {}
                (first, Wanted::All(window)) => all.extend((first..first + n).map(|at| (at, window))),
                (first, Wanted::Some) => {
                    all.extend((first..first + n).filter_map(|at| Some((at, gate.window_of(at)?))));
                }
            }
        }
        all
    }

    #[test]
    fn a_start_and_an_end_are_exact_within_blocks() {
        let limits = Limits { start_after: Some(5), most_instrs: Some(6), ..Limits::default() };
        let expected: Vec<(u64, u64)> = (5..11).map(|at| (at, 0)).collect();
        for blocks in [vec![1; 20], vec![3; 7], vec![20], vec![5, 6, 9], vec![4, 1, 5, 10]] {
            assert_eq!(wanted(limits.clone(), &blocks), expected, "{blocks:?}");
        }
    }

    #[test]
    fn limits_say_why_nothing_was_recorded() {
        let stop_after_time = Some(Duration::ZERO);
        let gate = Gate::new(&Limits { stop_after_time, ..Limits::default() }, Arc::default());
        assert!(!gate.is_late(), "nothing has looked at the clock");
        gate.tick();
        assert!(gate.is_late());
        let said = |limits: Limits, is_late| limits.prevented(is_late).unwrap_or_default();
        let (start_after, start_after_time) = (Some(7), stop_after_time);
        assert!(said(Limits { stop_after_time, start_after, ..Limits::default() }, true).contains("to stop"));
        assert!(said(Limits { start_after_time, ..Limits::default() }, false).contains("was started"));
        assert!(said(Limits { start_after, ..Limits::default() }, false).contains("no more than `7`"));
        assert_eq!(said(Limits { stop_after_time, ..Limits::default() }, false), "");
    }

    #[test]
    fn functions_start_and_stop_recording() {
        let considered = |limits: Limits| {
            let gate = Gate::new(&limits, Arc::default());
            let blocks: [&[u64]; 7] = [&[1, 2], &[10, 11], &[3], &[20, 21], &[4], &[9, 10], &[20]];
            if limits.start_at.is_some() {
                gate.start_at(10);
            }
            gate.stop_at(20);
            let all = blocks.map(|pcs| gate.considers(pcs.iter().copied()).map(|at| (at, gate.part())));
            (all, gate.is_over())
        };
        let (start_at, stop_at) = (Some("start".to_owned()), Some("stop".to_owned()));
        let (all, is_over) = considered(Limits { start_at, stop_at: stop_at.clone(), ..Limits::default() });
        assert_eq!(all, [None, Some((0, 0)), Some((0, 0)), None, None, Some((1, 1)), None]);
        assert!(!is_over, "it may start again");
        let (all, is_over) = considered(Limits { stop_at, ..Limits::default() });
        assert_eq!(all, [Some((0, 0)), Some((0, 0)), Some((0, 0)), None, None, None, None]);
        assert!(is_over);
    }

    #[test]
    fn code_is_kept_by_its_names() {
        let code = |name: &str| Code::Module(name.to_owned());
        let kept = |only: Vec<Code>, skip: Vec<Code>| {
            let gate = Gate::new(&Limits { only, skip, ..Limits::default() }, Arc::default());
            for (number, code) in gate.names().enumerate() {
                gate.note(if *code == Code::Module("a".to_owned()) { 10..20 } else { 15..30 }, number);
            }
            assert!(gate.unknown().is_empty());
            [5, 12, 17, 25].map(|pc| gate.keeps(pc))
        };
        assert_eq!(kept(Vec::new(), Vec::new()), [true; 4]);
        assert_eq!(kept(vec![code("a")], Vec::new()), [false, true, true, false]);
        assert_eq!(kept(Vec::new(), vec![code("b")]), [true, true, false, false]);
        assert_eq!(kept(vec![code("a")], vec![code("b")]), [false, true, false, false]);
    }

    #[test]
    fn names_that_are_in_no_file_are_said() {
        let (only, skip) = (vec![Code::Function("main".to_owned())], vec![Code::Module("libx".to_owned())]);
        let gate = Gate::new(
            &Limits { only, skip, stop_at: Some("done".to_owned()), ..Limits::default() },
            Arc::default(),
        );
        gate.note(10..20, 0);
        let unknown = ["no loaded file is called `libx`", "no loaded file has the function `done`"];
        assert_eq!(gate.unknown(), unknown);
        gate.stop_at(30);
        assert_eq!(gate.unknown(), unknown[..1]);
        gate.note(40..50, 1);
        assert_eq!(gate.unknown(), [""; 0]);
    }

    #[test]
    fn windows_come_again_whatever_the_blocks() {
        let limits = Limits { windows: Some((2, 5)), start_after: Some(1), ..Limits::default() };
        let expected = [(1, 0), (2, 0), (6, 1), (7, 1), (11, 2), (12, 2)];
        for blocks in [vec![1; 14], vec![14], vec![3; 5], vec![1, 2, 3, 2, 3, 2]] {
            assert_eq!(wanted(limits.clone(), &blocks), expected, "{blocks:?}");
        }
    }
}
