//! Functions that make threads or let them wait.
//!
//! Events that give a thread something from others (a lock, the end of another thread) are recorded afterwards; events that
//! give something to others are recorded before.

use crate::next::next;
use crate::thread::{put_sync, this};
use crate::{buffer, live, process};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering};
use quipu_cells::cell::sync;
use quipu_cells::layout::PAGE_BYTES;

hooks! { "r8":
    pthread_create => create;
    pthread_cond_clockwait => cond_clockwait;
}

hooks! { "rdx":
    pthread_join => join;
    pthread_mutex_timedlock => mutex_timedlock;
    pthread_rwlock_timedrdlock => rwlock_timedrdlock;
    pthread_rwlock_timedwrlock => rwlock_timedwrlock;
    pthread_cond_wait => cond_wait;
    sem_timedwait => semaphore_timedwait;
}

hooks! { "rcx":
    pthread_mutex_clocklock => mutex_clocklock;
    pthread_rwlock_clockrdlock => rwlock_clockrdlock;
    pthread_rwlock_clockwrlock => rwlock_clockwrlock;
    pthread_cond_timedwait => cond_timedwait;
}

hooks! { "rsi":
    pthread_mutex_lock => mutex_lock;
    pthread_mutex_trylock => mutex_trylock;
    pthread_mutex_unlock => mutex_unlock;
    pthread_rwlock_rdlock => rwlock_rdlock;
    pthread_rwlock_wrlock => rwlock_wrlock;
    pthread_rwlock_tryrdlock => rwlock_tryrdlock;
    pthread_rwlock_trywrlock => rwlock_trywrlock;
    pthread_rwlock_unlock => rwlock_unlock;
    pthread_spin_lock => spin_lock;
    pthread_spin_trylock => spin_trylock;
    pthread_spin_unlock => spin_unlock;
    pthread_cond_signal => cond_signal;
    pthread_cond_broadcast => cond_broadcast;
    pthread_barrier_wait => barrier_wait;
    sem_wait => semaphore_wait;
    sem_trywait => semaphore_trywait;
    sem_post => semaphore_post;
}

/// A lock taken for reading.
const READ: u64 = 1;
/// A lock attempted without waiting.
const TRIED: u64 = 2;

/// Records whether the lock was taken.
fn after_lock(code: c_int, lock: u64, how: u64, pc: u64) -> c_int {
    // The owner of a robust lock may have died while holding it: it was taken nevertheless.
    let what = if code == 0 || code == libc::EOWNERDEAD { sync::LOCK } else { sync::LOCK_FAILED };
    put_sync(what, lock, pc, [how, 0]);
    code
}

type One = unsafe extern "C" fn(u64) -> c_int;
type Two = unsafe extern "C" fn(u64, u64) -> c_int;
type Three = unsafe extern "C" fn(u64, u64, u64) -> c_int;
type Four = unsafe extern "C" fn(u64, u64, u64, u64) -> c_int;

// SAFETY, of all functions below: their arguments are those with which the program called the function of that name, and they
// are passed on to that function. So the program is responsible for C's requirements, as without us.

/// Functions that take a lock; their other arguments are passed on.
macro_rules! locks {
    ($($ours:ident($($more:ident),*) = $name:literal as $type:ty, $how:expr;)*) => {$(
        unsafe extern "C" fn $ours(lock: u64, $($more: u64,)* pc: u64) -> c_int {
            let behind = next!($name as $type, else return libc::ENOSYS);
            // SAFETY: passed on.
            let code = unsafe { behind(lock, $($more),*) };
            after_lock(code, lock, $how, pc)
        }
    )*};
}

locks! {
    mutex_lock() = c"pthread_mutex_lock" as One, 0;
    mutex_trylock() = c"pthread_mutex_trylock" as One, TRIED;
    mutex_timedlock(until) = c"pthread_mutex_timedlock" as Two, TRIED;
    mutex_clocklock(clock, until) = c"pthread_mutex_clocklock" as Three, TRIED;
    rwlock_rdlock() = c"pthread_rwlock_rdlock" as One, READ;
    rwlock_wrlock() = c"pthread_rwlock_wrlock" as One, 0;
    rwlock_tryrdlock() = c"pthread_rwlock_tryrdlock" as One, READ | TRIED;
    rwlock_trywrlock() = c"pthread_rwlock_trywrlock" as One, TRIED;
    rwlock_timedrdlock(until) = c"pthread_rwlock_timedrdlock" as Two, READ | TRIED;
    rwlock_timedwrlock(until) = c"pthread_rwlock_timedwrlock" as Two, TRIED;
    rwlock_clockrdlock(clock, until) = c"pthread_rwlock_clockrdlock" as Three, READ | TRIED;
    rwlock_clockwrlock(clock, until) = c"pthread_rwlock_clockwrlock" as Three, TRIED;
    spin_lock() = c"pthread_spin_lock" as One, 0;
    spin_trylock() = c"pthread_spin_trylock" as One, TRIED;
}

/// Functions that other threads wait for; recorded before they are done.
macro_rules! gives {
    ($($ours:ident = $name:literal $(@ $version:literal)?, $what:expr;)*) => {$(
        unsafe extern "C" fn $ours(object: u64, pc: u64) -> c_int {
            let behind = next!($name $(@ $version)? as One, else return libc::ENOSYS);
            put_sync($what, object, pc, [0, 0]);
            // SAFETY: passed on.
            unsafe { behind(object) }
        }
    )*};
}

gives! {
    mutex_unlock = c"pthread_mutex_unlock", sync::UNLOCK;
    rwlock_unlock = c"pthread_rwlock_unlock", sync::UNLOCK;
    spin_unlock = c"pthread_spin_unlock", sync::UNLOCK;
    cond_signal = c"pthread_cond_signal" @ c"GLIBC_2.3.2", sync::SIGNAL;
    cond_broadcast = c"pthread_cond_broadcast" @ c"GLIBC_2.3.2", sync::BROADCAST;
    semaphore_post = c"sem_post", sync::POST;
}

/// Functions that wait for a condition: they release a lock and take it again. A thread may be cancelled in them, so that
/// unwinding goes through our frames.
macro_rules! waits {
    ($($ours:ident($($more:ident),*) = $name:literal $(@ $version:literal)?;)*) => {$(
        unsafe extern "C-unwind" fn $ours(condition: u64, lock: u64, $($more: u64,)* pc: u64) -> c_int {
            type Wait = unsafe extern "C-unwind" fn(u64, u64, $(waits!(@u64 $more)),*) -> c_int;
            let behind = next!($name $(@ $version)? as Wait, else return libc::ENOSYS);
            put_sync(sync::WAIT, condition, pc, [lock, 0]);
            // SAFETY: passed on.
            let code = unsafe { behind(condition, lock, $($more),*) };
            put_sync(sync::WOKEN, condition, pc, [lock, code as u64]);
            code
        }
    )*};
    (@u64 $more:ident) => { u64 };
}

waits! {
    cond_wait() = c"pthread_cond_wait" @ c"GLIBC_2.3.2";
    cond_timedwait(until) = c"pthread_cond_timedwait" @ c"GLIBC_2.3.2";
    cond_clockwait(clock, until) = c"pthread_cond_clockwait";
}

unsafe extern "C" fn barrier_wait(barrier: u64, pc: u64) -> c_int {
    let behind = next!(c"pthread_barrier_wait" as One, else return libc::ENOSYS);
    put_sync(sync::ARRIVE, barrier, pc, [0, 0]);
    // SAFETY: passed on.
    let code = unsafe { behind(barrier) };
    put_sync(sync::PASS, barrier, pc, [0, code as u64]);
    code
}

/// Functions that take a semaphore; a thread may be cancelled in them.
macro_rules! takes {
    ($($ours:ident($($more:ident),*) = $name:literal;)*) => {$(
        unsafe extern "C-unwind" fn $ours(semaphore: u64, $($more: u64,)* pc: u64) -> c_int {
            type Wait = unsafe extern "C-unwind" fn(u64, $(takes!(@u64 $more)),*) -> c_int;
            let behind = next!($name as Wait, else return -1);
            live::flush();
            // SAFETY: passed on.
            let code = unsafe { behind(semaphore, $($more),*) };
            if code == 0 {
                put_sync(sync::TAKE, semaphore, pc, [0, 0]);
            }
            code
        }
    )*};
    (@u64 $more:ident) => { u64 };
}

takes! {
    semaphore_wait() = c"sem_wait";
    semaphore_trywait() = c"sem_trywait";
    semaphore_timedwait(until) = c"sem_timedwait";
}

unsafe extern "C-unwind" fn join(thread: u64, result: u64, pc: u64) -> c_int {
    type Join = unsafe extern "C-unwind" fn(u64, u64) -> c_int;
    let behind = next!(c"pthread_join" as Join, else return libc::ENOSYS);
    live::flush();
    // SAFETY: passed on.
    let code = unsafe { behind(thread, result) };
    if code == 0 {
        put_sync(sync::JOIN, thread, pc, [0, 0]);
    }
    code
}

/// The start of a new thread.
struct Begin {
    start: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
    ticket: u64,
    stack_bytes: usize,
}

/// Number of threads made so far.
static N_TICKETS: AtomicU64 = AtomicU64::new(0);

/// Whether the program has, or is about to have, more than one thread.
pub(crate) fn are_several() -> bool {
    N_TICKETS.load(Ordering::Relaxed) > 0 || buffer::are_several()
}

unsafe extern "C" fn create(
    thread: u64,
    attributes: *const libc::pthread_attr_t,
    start: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
    pc: u64,
) -> c_int {
    let behind = next!(c"pthread_create" as Four, else return libc::EAGAIN);
    let ticket = 1 + N_TICKETS.fetch_add(1, Ordering::Relaxed);
    // Not on the program's heap, whose functions may be its own.
    let Some(begin) = process::map_memory(size_of::<Begin>()) else { return libc::EAGAIN };
    // SAFETY: as for this function.
    let stack_bytes = unsafe { stack_bytes(attributes) };
    // SAFETY: that many bytes, aligned to a page, and nothing else uses them.
    unsafe { begin.cast::<Begin>().write(Begin { start, argument, ticket, stack_bytes }) };
    put_sync(sync::CREATE, 0, pc, [ticket, 0]);
    // SAFETY: passed on, except for the function and its argument, which belong together.
    let code = unsafe { behind(thread, attributes as u64, run as *const () as u64, begin as u64) };
    if code != 0 {
        // SAFETY: no thread was made that could use it.
        unsafe { process::unmap(begin, size_of::<Begin>()) };
    }
    code
}

/// Size in bytes of the memory of a stack with these attributes, or with none; 0 if it is unknown.
///
/// # Safety
/// Null, or attributes of threads.
unsafe fn stack_bytes(attributes: *const libc::pthread_attr_t) -> usize {
    let mut n_bytes = 0;
    if !attributes.is_null() {
        // SAFETY: by this function's contract; writes a number.
        unsafe { libc::pthread_attr_getstacksize(attributes, &raw mut n_bytes) };
        return n_bytes;
    }
    let mut usual = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the attributes are used from where they begin, if they do, to where they end.
    unsafe {
        if libc::pthread_attr_init(usual.as_mut_ptr()) == 0 {
            libc::pthread_attr_getstacksize(usual.as_ptr(), &raw mut n_bytes);
            libc::pthread_attr_destroy(usual.as_mut_ptr());
        }
    }
    n_bytes
}

/// The first function of a new thread.
unsafe extern "C-unwind" fn run(begin: *mut c_void) -> *mut c_void {
    // SAFETY: `create` wrote it, and left it to this thread.
    let Begin { start, argument, ticket, stack_bytes } = unsafe { begin.cast::<Begin>().read() };
    // SAFETY: as above, and it was read.
    unsafe { process::unmap(begin.cast(), size_of::<Begin>()) };
    this().ticket.set(ticket);
    if stack_bytes > 0 {
        // The thread's own data, which names it, ends the memory of its stack.
        let lowest = buffer::own_name().saturating_sub(stack_bytes as u64);
        this().stack.set(lowest.next_multiple_of(PAGE_BYTES));
    }
    // The thread is recorded now, even if it never accesses any memory.
    buffer::refill();
    // SAFETY: the function that the program wants called on the new thread, with its argument.
    unsafe { start(argument) }
}
