//! Functions of `quipu.h`: types of memory, marks, pauses. SPEC: stream.md#cells.

use crate::header::tell_text;
use crate::thread::{head, heed, ignore, put, put_sync, put_text, stamp, text_at};
use core::ffi::{c_char, c_long};
use quipu_cells::cell::{Cell, LOW, kind, sync, text};

hooks! { "rcx":
    __malloc_recorded => malloc_recorded;
}

hooks! { "r8":
    __calloc_recorded => calloc_recorded;
    __realloc_recorded => realloc_recorded;
    quipu_region => region;
}

hooks! { "rsi":
    __free_recorded => free_recorded;
    quipu_region_end => free_recorded;
    quipu_mark => mark;
}

hooks! { "rdi":
    quipu_pause => pause;
    quipu_resume => resume;
}

/// Records the type of a range of memory.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn typed(addr: u64, element_bytes: u64, n_elements: u64, name: *const c_char, pc: u64) {
    // SAFETY: by this function's contract; the program does not change it while it calls us.
    let name = unsafe { text_at(name) }.unwrap_or_default();
    let event = [
        head(kind::TYPED, 0, addr, pc),
        Cell { word: stamp(), side: 0 },
        Cell { word: element_bytes, side: n_elements & LOW },
    ];
    put_text(&event, name);
}

unsafe extern "C" fn region(addr: u64, element_bytes: u64, n_elements: u64, name: *const c_char, pc: u64) {
    // SAFETY: `quipu.h` requires a C string or null, here as below.
    unsafe { typed(addr, element_bytes, n_elements, name, pc) };
}

unsafe extern "C" fn malloc_recorded(n_bytes: c_long, name: *const c_char, addr: u64, pc: u64) {
    // SAFETY: as for `region`.
    unsafe { typed(addr, n_bytes as u64, 1, name, pc) };
}

unsafe extern "C" fn calloc_recorded(n: c_long, n_bytes: c_long, name: *const c_char, addr: u64, pc: u64) {
    // SAFETY: as for `region`.
    unsafe { typed(addr, n_bytes as u64, n as u64, name, pc) };
}

unsafe extern "C" fn realloc_recorded(old: u64, n_bytes: c_long, name: *const c_char, addr: u64, pc: u64) {
    free_recorded(old, pc);
    // SAFETY: as for `region`.
    unsafe { typed(addr, n_bytes as u64, 1, name, pc) };
}

extern "C" fn free_recorded(addr: u64, pc: u64) {
    put(&[head(kind::UNTYPED, 1, addr, pc), Cell { word: stamp(), side: 0 }]);
}

unsafe extern "C" fn mark(name: *const c_char, pc: u64) {
    // SAFETY: as for `region`.
    unsafe { tell_text(text::MARK, pc, name) };
}

/// Sets the thread's name for people.
#[unsafe(no_mangle)]
unsafe extern "C" fn quipu_thread_name(name: *const c_char) {
    // SAFETY: as for `region`.
    unsafe { tell_text(text::THREAD, 0, name) };
}

extern "C" fn pause(pc: u64) {
    put_sync(sync::PAUSE, 0, pc, [0, 0]);
    ignore();
}

extern "C" fn resume(pc: u64) {
    heed();
    put_sync(sync::RESUME, 0, pc, [0, 0]);
}
