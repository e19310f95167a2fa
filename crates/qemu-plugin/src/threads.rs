//! The slots of this process: one for each thread, by the number that the emulator gives it, and one for its code.

use crate::{SETUP, emulator};
use quipu_ring::Producer;
use quipu_ring::qemu::{self, Kind};
use std::cell::UnsafeCell;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Threads beyond as many are not recorded.
const MAX_THREADS: usize = 4096;

/// What belongs to one thread.
struct Place(UnsafeCell<State>);

enum State {
    /// It has written nothing yet.
    New,
    Records(Producer<'static>),
    /// It is not recorded.
    Off,
}

// SAFETY: The emulator calls back on the thread that has the number, and gives a number to one thread at a time; the
// place of the code is used while the emulator holds its lock for translating.
#[allow(unsafe_code)]
unsafe impl Sync for Place {}

static PLACES: [Place; MAX_THREADS] = [const { Place(UnsafeCell::new(State::New)) }; MAX_THREADS];
static CODE: Place = Place(UnsafeCell::new(State::New));

/// This process is a child of a `fork` that is not to be recorded.
static IS_OFF: AtomicBool = AtomicBool::new(false);
/// The process that this one was forked from.
static PARENT: AtomicU32 = AtomicU32::new(0);

/// The slot of the thread that the emulator gave this number, which is the calling one.
#[inline(always)]
pub(crate) fn producer(vcpu: c_uint) -> Option<&'static mut Producer<'static>> {
    let place = PLACES.get(vcpu as usize)?;
    // SAFETY: As said at `Place`: no other thread uses it now, and callbacks do not nest.
    #[allow(unsafe_code)]
    let state = unsafe { &mut *place.0.get() };
    if let State::Records(producer) = state { Some(producer) } else { begin(state) }
}

/// The first callback of a thread.
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
    // SAFETY: A question without arguments.
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

/// The slot for the process's code: that of thread 0, which no thread is.
pub(crate) fn code_producer() -> Option<&'static mut Producer<'static>> {
    // SAFETY: As said at `Place`.
    #[allow(unsafe_code)]
    let state = unsafe { &mut *CODE.0.get() };
    if let State::New = state {
        let setup = SETUP.get().filter(|_| !IS_OFF.load(Ordering::Relaxed));
        let claimed = setup.and_then(|setup| Producer::claim(&setup.shared, ids().0, 0));
        *state = claimed.map_or(State::Off, State::Records);
        if let State::Off = state {
            // Blocks that cannot be told apart are of no use.
            IS_OFF.store(true, Ordering::Relaxed);
        }
    }
    if let State::Records(producer) = state { Some(producer) } else { None }
}

/// The thread ends; another one may get its number.
pub(crate) fn end(vcpu: c_uint) {
    let Some(place) = PLACES.get(vcpu as usize) else { return };
    // SAFETY: As said at `Place`: the emulator calls this on the thread itself.
    #[allow(unsafe_code)]
    let state = unsafe { std::mem::replace(&mut *place.0.get(), State::New) };
    if let State::Records(mut producer) = state {
        let [_, micros, cpu] = clock();
        producer.push_group(&[qemu::head(Kind::End, 2, 0), micros, cpu]);
        producer.leave();
    }
}

/// In a new process the slots are the parent's: they are forgotten, and others claimed when there is something to say.
pub(crate) fn forget() {
    let follows = SETUP.get().is_some_and(|setup| setup.follows);
    IS_OFF.store(!follows || IS_OFF.load(Ordering::Relaxed), Ordering::Relaxed);
    // SAFETY: A question without arguments.
    #[allow(unsafe_code)]
    PARENT.store(unsafe { libc::getppid() }.cast_unsigned(), Ordering::Relaxed);
    for place in PLACES.iter().chain([&CODE]) {
        // SAFETY: A new process has one thread, this one. Nothing is dropped that would tell the recorder.
        #[allow(unsafe_code)]
        unsafe {
            std::ptr::write(place.0.get(), State::New);
        }
    }
}

/// Process and thread.
fn ids() -> (u32, u32) {
    // SAFETY: Questions without arguments.
    #[allow(unsafe_code)]
    unsafe {
        (libc::getpid().cast_unsigned(), libc::gettid().cast_unsigned())
    }
}

/// The words that tell clock and processor.
pub(crate) fn clock() -> [u64; 3] {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: The time is written to a value of ours; the other is a question without arguments.
    #[allow(unsafe_code)]
    let cpu = unsafe {
        libc::clock_gettime(libc::CLOCK_REALTIME, &mut now);
        libc::sched_getcpu()
    };
    let micros = now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1000;
    [qemu::head(Kind::Clock, 2, 0), micros, i64::from(cpu).cast_unsigned()]
}
