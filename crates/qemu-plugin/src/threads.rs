//! The slots of this process: one for each thread, by the CPU number that the emulator assigns, and one for code.

use crate::{SETUP, emulator};
use quipu_ring::Producer;
use quipu_ring::qemu::{self, Kind};
use std::cell::UnsafeCell;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Maximum number of threads that are recorded.
const MAX_THREADS: usize = 4096;

/// The state of one thread.
struct Place(UnsafeCell<State>);

enum State {
    /// Nothing was written yet.
    New,
    Records(Producer<'static>),
    /// The thread is not recorded.
    Off,
}

// SAFETY: The emulator calls back on the thread that has the number, and assigns a number to one thread at a time. The place
// for code is used while the emulator holds its lock for translation.
#[allow(unsafe_code)]
unsafe impl Sync for Place {}

static PLACES: [Place; MAX_THREADS] = [const { Place(UnsafeCell::new(State::New)) }; MAX_THREADS];
static CODE: Place = Place(UnsafeCell::new(State::New));

/// For each thread, whether the block that it executes was left out. Only the thread itself uses its place.
static IS_LEFT_OUT: [AtomicBool; MAX_THREADS] = [const { AtomicBool::new(false) }; MAX_THREADS];

/// True if this process is a forked child that is not to be recorded.
static IS_OFF: AtomicBool = AtomicBool::new(false);
/// Process id of the parent that this process was forked from.
static PARENT: AtomicU32 = AtomicU32::new(0);

/// The slot of the calling thread, to which the emulator assigned this number.
#[inline(always)]
pub(crate) fn producer(vcpu: c_uint) -> Option<&'static mut Producer<'static>> {
    let place = PLACES.get(vcpu as usize)?;
    // SAFETY: See `Place`: no other thread uses it now, and callbacks do not nest.
    #[allow(unsafe_code)]
    let state = unsafe { &mut *place.0.get() };
    if let State::Records(producer) = state { Some(producer) } else { begin(state) }
}

/// Notes whether the block that a thread is about to execute is left out; returns whether the one before was.
#[inline(always)]
pub(crate) fn leave_out(vcpu: c_uint, is_left_out: bool) -> bool {
    let Some(place) = IS_LEFT_OUT.get(vcpu as usize) else { return false };
    let was_left_out = place.load(Ordering::Relaxed);
    if was_left_out != is_left_out {
        place.store(is_left_out, Ordering::Relaxed);
    }
    was_left_out
}

/// Whether the block that a thread executes was left out.
#[inline(always)]
pub(crate) fn is_left_out(vcpu: c_uint) -> bool {
    IS_LEFT_OUT.get(vcpu as usize).is_some_and(|place| place.load(Ordering::Relaxed))
}

/// Handles the first callback of a thread.
#[cold]
fn begin(state: &'static mut State) -> Option<&'static mut Producer<'static>> {
    if let State::Off = state {
        return None;
    }
    *state = State::Off;
    let setup = SETUP.get().filter(|_| !IS_OFF.load(Ordering::Relaxed))?;
    let (pid, tid) = ids();
    let mut producer = Producer::claim(&setup.shared, pid, tid)?;
    let [_, micros, cpu] = clock();
    // SAFETY: A query without arguments.
    #[allow(unsafe_code)]
    let start = unsafe { emulator::qemu_plugin_start_code() };
    let parent = u64::from(PARENT.load(Ordering::Relaxed));
    let mut words = vec![0, micros, cpu, start, parent, setup.image];
    words.extend(setup.name.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }));
    words[0] = qemu::head(Kind::Begin, words.len() - 1, 0);
    producer.push_group(&words);
    *state = State::Records(producer);
    if let State::Records(producer) = state { Some(producer) } else { None }
}

/// The slot for the code of the process, claimed as thread 0, an id that no thread has.
pub(crate) fn code_producer() -> Option<&'static mut Producer<'static>> {
    // SAFETY: See `Place`.
    #[allow(unsafe_code)]
    let state = unsafe { &mut *CODE.0.get() };
    if let State::New = state {
        let setup = SETUP.get().filter(|_| !IS_OFF.load(Ordering::Relaxed));
        let claimed = setup.and_then(|setup| Producer::claim(&setup.shared, ids().0, 0));
        *state = claimed.map_or(State::Off, State::Records);
        if let State::Off = state {
            // Without descriptions of blocks, recording makes no sense.
            IS_OFF.store(true, Ordering::Relaxed);
        }
    }
    if let State::Records(producer) = state { Some(producer) } else { None }
}

/// Called when a thread ends; its number may be assigned again.
pub(crate) fn end(vcpu: c_uint) {
    let Some(place) = PLACES.get(vcpu as usize) else { return };
    // SAFETY: See `Place`: the emulator calls this on the thread itself.
    #[allow(unsafe_code)]
    let state = unsafe { std::mem::replace(&mut *place.0.get(), State::New) };
    if let State::Records(mut producer) = state {
        let [_, micros, cpu] = clock();
        producer.push_group(&[qemu::head(Kind::End, 2, 0), micros, cpu]);
        producer.leave();
    }
}

/// Called in a forked child, where the slots belong to the parent: discards them. Others are claimed when there is something
/// to record.
pub(crate) fn forget() {
    let follows = SETUP.get().is_some_and(|setup| setup.follows);
    IS_OFF.store(!follows || IS_OFF.load(Ordering::Relaxed), Ordering::Relaxed);
    // SAFETY: A query without arguments.
    #[allow(unsafe_code)]
    PARENT.store(unsafe { libc::getppid() }.cast_unsigned(), Ordering::Relaxed);
    for place in PLACES.iter().chain([&CODE]) {
        // SAFETY: A new process has one thread, this one. No destructor runs that would notify the recorder.
        #[allow(unsafe_code)]
        unsafe {
            std::ptr::write(place.0.get(), State::New);
        }
    }
}

/// Process id and thread id.
fn ids() -> (u32, u32) {
    // SAFETY: Queries without arguments.
    #[allow(unsafe_code)]
    unsafe {
        (libc::getpid().cast_unsigned(), libc::gettid().cast_unsigned())
    }
}

/// A group with the clock and the processor.
pub(crate) fn clock() -> [u64; 3] {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: The time is written to a local value; the other call is a query without arguments.
    #[allow(unsafe_code)]
    let cpu = unsafe {
        libc::clock_gettime(libc::CLOCK_REALTIME, &mut now);
        libc::sched_getcpu()
    };
    let micros = now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1000;
    [qemu::head(Kind::Clock, 2, 0), micros, i64::from(cpu).cast_unsigned()]
}
