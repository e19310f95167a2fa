//! The sanitizers' public headers: programs report locks, fibers and memory orders of their own.
//!
//! Functions that ask for the reports of a race detector get none.

use crate::hooks::range;
use crate::thread::{head, heed, ignore, put_sync, put_text, text_at, this};
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use quipu_cells::cell::{Cell, access, kind, sync, text};

hooks! { "rsi":
    __tsan_acquire => acquire;
    __tsan_release => release;
    __tsan_destroy_fiber => destroy_fiber;
    __tsan_create_fiber => create_fiber;
}

hooks! { "rdx":
    __tsan_mutex_create => mutex_create;
    __tsan_mutex_destroy => mutex_destroy;
    __tsan_mutex_pre_unlock => mutex_pre_unlock;
    __tsan_switch_to_fiber => switch_to_fiber;
}

hooks! { "rcx":
    __tsan_mutex_post_lock => mutex_post_lock;
}

/// `__tsan_mutex_read_lock`.
const FLAG_READ: u32 = 1 << 3;
/// `__tsan_mutex_try_lock`.
const FLAG_TRY: u32 = 1 << 4;
/// `__tsan_mutex_try_lock_failed`.
const FLAG_FAILED: u32 = 1 << 5;

extern "C" fn acquire(object: u64, pc: u64) {
    put_sync(sync::ACQUIRE, object, pc, [0, 0]);
}

extern "C" fn release(object: u64, pc: u64) {
    put_sync(sync::RELEASE, object, pc, [0, 0]);
}

extern "C" fn mutex_create(object: u64, flags: u32, pc: u64) {
    put_sync(sync::MUTEX_CREATE, object, pc, [flags.into(), 0]);
}

extern "C" fn mutex_destroy(object: u64, flags: u32, pc: u64) {
    put_sync(sync::MUTEX_DESTROY, object, pc, [flags.into(), 0]);
}

extern "C" fn mutex_post_lock(object: u64, flags: u32, _: c_int, pc: u64) {
    let what = if flags & FLAG_FAILED == 0 { sync::LOCK } else { sync::LOCK_FAILED };
    let how = u64::from(flags & FLAG_READ != 0) | u64::from(flags & FLAG_TRY != 0) << 1;
    put_sync(what, object, pc, [how, 0]);
    heed();
}

extern "C" fn mutex_pre_unlock(object: u64, flags: u32, pc: u64) -> c_int {
    put_sync(sync::UNLOCK, object, pc, [u64::from(flags & FLAG_READ != 0), 0]);
    ignore();
    0
}

// Between "pre" and "post", the program works inside its lock, which is not recorded, as the header says.
#[unsafe(no_mangle)]
extern "C" fn __tsan_mutex_pre_lock(_: *mut c_void, _: u32) {
    ignore();
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_mutex_post_unlock(_: *mut c_void, _: u32) {
    heed();
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_mutex_pre_signal(_: *mut c_void, _: u32) {
    ignore();
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_mutex_post_signal(_: *mut c_void, _: u32) {
    heed();
}

// A divert leaves the inside of the lock for a moment.
#[unsafe(no_mangle)]
extern "C" fn __tsan_mutex_pre_divert(_: *mut c_void, _: u32) {
    heed();
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_mutex_post_divert(_: *mut c_void, _: u32) {
    ignore();
}

/// Number of fibers so far. To us, fibers are numbers; the program treats them as pointers.
static N_FIBERS: AtomicU64 = AtomicU64::new(0);

extern "C" fn create_fiber(_: u32, pc: u64) -> u64 {
    let fiber = 16 * (1 + N_FIBERS.fetch_add(1, Ordering::Relaxed));
    put_sync(sync::FIBER_CREATE, fiber, pc, [0, 0]);
    fiber
}

extern "C" fn destroy_fiber(fiber: u64, pc: u64) {
    put_sync(sync::FIBER_DESTROY, fiber, pc, [0, 0]);
}

extern "C" fn switch_to_fiber(fiber: u64, flags: u32, pc: u64) {
    put_sync(sync::FIBER_SWITCH, fiber, pc, [flags.into(), 0]);
    this().fiber.set(fiber);
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_get_current_fiber() -> u64 {
    let thread = this();
    match thread.fiber.get() {
        0 => &raw const *thread as u64,
        fiber => fiber,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __tsan_set_fiber_name(fiber: u64, name: *const c_char) {
    // SAFETY: the header requires a C string.
    unsafe { tell_text(text::FIBER, fiber, name) };
}

/// Records a text of the program, if there is one.
///
/// # Safety
/// `name` is null or a C string.
pub(crate) unsafe fn tell_text(which: u64, object: u64, name: *const c_char) {
    // SAFETY: by this function's contract; the program does not change it while it calls us.
    if let Some(name) = unsafe { text_at(name) } {
        put_text(&[head(kind::TEXT, 0, object, 0), Cell { word: which, side: 0 }], name);
    }
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_external_register_tag(_: *const c_char) -> *mut c_void {
    static TAG: u8 = 0;
    (&raw const TAG).cast_mut().cast()
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_external_register_header(_: *mut c_void, _: *const c_char) {}

#[unsafe(no_mangle)]
extern "C" fn __tsan_external_assign_tag(_: *mut c_void, _: *mut c_void) {}

// An object of another language is read or written, of unknown size.
#[unsafe(no_mangle)]
extern "C" fn __tsan_external_read(addr: u64, caller: u64, _: *mut c_void) {
    range(addr, 1, caller, 0);
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_external_write(addr: u64, caller: u64, _: *mut c_void) {
    range(addr, 1, caller, access::WRITE);
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_flush_memory() {}

/// Functions that return null or 0: there are no reports to query.
macro_rules! none {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> *mut c_void {
            null_mut()
        }
    )*};
}

none! {
    __tsan_get_current_report
    __tsan_get_report_data
    __tsan_get_report_tag
    __tsan_get_report_stack
    __tsan_get_report_mop
    __tsan_get_report_loc
    __tsan_get_report_loc_object_type
    __tsan_get_report_mutex
    __tsan_get_report_thread
    __tsan_get_report_unique_tid
    __tsan_get_alloc_stack
    __tsan_locate_address
}

// Annotations of an older interface that libraries still call: file and line, then the object.

#[unsafe(no_mangle)]
extern "C" fn AnnotateHappensBefore(_: *const c_char, _: c_int, object: u64) {
    put_sync(sync::RELEASE, object, 0, [0, 0]);
}

#[unsafe(no_mangle)]
extern "C" fn AnnotateHappensAfter(_: *const c_char, _: c_int, object: u64) {
    put_sync(sync::ACQUIRE, object, 0, [0, 0]);
}

#[unsafe(no_mangle)]
extern "C" fn AnnotateRWLockCreate(_: *const c_char, _: c_int, object: u64) {
    put_sync(sync::MUTEX_CREATE, object, 0, [0, 0]);
}

#[unsafe(no_mangle)]
extern "C" fn AnnotateRWLockDestroy(_: *const c_char, _: c_int, object: u64) {
    put_sync(sync::MUTEX_DESTROY, object, 0, [0, 0]);
}

#[unsafe(no_mangle)]
extern "C" fn AnnotateRWLockAcquired(_: *const c_char, _: c_int, object: u64, for_writing: u64) {
    put_sync(sync::LOCK, object, 0, [u64::from(for_writing == 0), 0]);
}

#[unsafe(no_mangle)]
extern "C" fn AnnotateRWLockReleased(_: *const c_char, _: c_int, object: u64, for_writing: u64) {
    put_sync(sync::UNLOCK, object, 0, [u64::from(for_writing == 0), 0]);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn AnnotateThreadName(_: *const c_char, _: c_int, name: *const c_char) {
    // SAFETY: the header requires a C string.
    unsafe { tell_text(text::THREAD, 0, name) };
}

// These help a race detector, and the runtime looks for no races.
nothing! {
    AnnotateBenignRace
    AnnotateBenignRaceSized
    AnnotateCondVarSignal
    AnnotateCondVarSignalAll
    AnnotateCondVarWait
    AnnotateEnableRaceDetection
    AnnotateExpectRace
    AnnotateFlushExpectedRaces
    AnnotateFlushState
    AnnotateIgnoreReadsBegin
    AnnotateIgnoreReadsEnd
    AnnotateIgnoreSyncBegin
    AnnotateIgnoreSyncEnd
    AnnotateIgnoreWritesBegin
    AnnotateIgnoreWritesEnd
    AnnotateMemoryIsInitialized
    AnnotateMemoryIsUninitialized
    AnnotateMutexIsNotPHB
    AnnotateMutexIsUsedAsCondVar
    AnnotateNewMemory
    AnnotateNoOp
    AnnotatePCQCreate
    AnnotatePCQDestroy
    AnnotatePCQGet
    AnnotatePCQPut
    AnnotatePublishMemoryRange
    AnnotateRWLockCreateStatic
    AnnotateTraceMemory
    AnnotateUnpublishMemoryRange
}
