//! Functions of the C library that copy, fill and compare memory.
//!
//! `quipu cc` links calls of `memcpy` as calls of `__wrap_memcpy`, and those of the other functions here in the same way. So
//! only objects of the program call these: the C library, libraries that were not compiled for recording, and the runtime
//! itself call the C library's functions.
//!
//! The bytes are those that C says: both sides of a copy, texts with their ends, and of a comparison those up to the first
//! difference, because what a processor reads beyond them depends on the processor.

use crate::hooks::range;
use crate::thread::{Thread, this};
use crate::{buffer, process};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::Ordering;
use quipu_cells::cell::access::WRITE;
use quipu_cells::layout::BUFFER_BYTES;

hooks! { "rsi":
    __wrap_strlen => length;
}

hooks! { "rdx":
    __wrap_strcpy => copy_text;
    __wrap_stpcpy => copy_text_to_end;
    __wrap_strcat => append;
    __wrap_strcmp => compare_texts;
}

hooks! { "rcx":
    __wrap_memcpy => copy;
    __wrap_memmove => displace;
    __wrap_mempcpy => copy_to_end;
    __wrap_memset => set;
    __wrap_memcmp => compare;
    __wrap_bcmp => compare;
    __wrap_strncpy => copy_part;
    __wrap_strncat => append_part;
    __wrap___strcpy_chk => copy_text_checked;
    __wrap___stpcpy_chk => copy_text_to_end_checked;
    __wrap___strcat_chk => append_checked;
}

hooks! { "r8":
    __wrap___memcpy_chk => copy_checked;
    __wrap___memmove_chk => displace_checked;
    __wrap___mempcpy_chk => copy_to_end_checked;
    __wrap___memset_chk => set_checked;
    __wrap___strncpy_chk => copy_part_checked;
    __wrap___strncat_chk => append_part_checked;
}

/// Whether accesses of this thread are recorded, or may be once it has a buffer.
#[inline]
fn is_recorded() -> bool {
    let thread = this();
    // The cursor of a thread that has a buffer is an address.
    thread.cursor.load(Ordering::Relaxed) >= BUFFER_BYTES as u64 || may_begin(thread)
}

#[cold]
fn may_begin(thread: &Thread) -> bool {
    // A thread with a buffer counts what is not recorded any more.
    let is_off = process::is_off() && thread.buffer.get().is_null();
    thread.inside.get() == 0 && thread.ignoring.get() == 0 && !is_off
}

/// Records a copy that is about to be made. gcc has recorded it already if it copies a large structure: it calls its hooks
/// for what the program reads and writes, and then `memcpy`.
fn copies(to: *const c_void, from: *const c_void, n_bytes: usize, pc: u64) {
    if is_recorded() {
        let (to, from, n_bytes) = (to as u64, from as u64, n_bytes as u64);
        let is_known = [buffer::was_hooked(from, n_bytes, 0), buffer::was_hooked(to, n_bytes, WRITE)];
        if !is_known[0] {
            range(from, n_bytes, pc, 0);
        }
        if !is_known[1] {
            range(to, n_bytes, pc, WRITE);
        }
    }
}

/// Records that memory has been read.
fn reads(from: *const c_void, n_bytes: usize, pc: u64) {
    range(from as u64, n_bytes as u64, pc, 0);
}

// SAFETY, of all functions below: their arguments are those with which the program called the function of that name. So the
// program is responsible for C's requirements, as without us: there is memory, and there are ends of texts, as far as these
// functions read and write it.

pub(crate) unsafe extern "C" fn copy(
    to: *mut c_void,
    from: *const c_void,
    n_bytes: usize,
    pc: u64,
) -> *mut c_void {
    copies(to, from, n_bytes, pc);
    // SAFETY: passed on.
    unsafe { libc::memcpy(to, from, n_bytes) }
}

/// Copies memory that may overlap. A program's own `memmove` may call `memcpy`, so neither is done by the other.
pub(crate) unsafe extern "C" fn displace(
    to: *mut c_void,
    from: *const c_void,
    n_bytes: usize,
    pc: u64,
) -> *mut c_void {
    copies(to, from, n_bytes, pc);
    // SAFETY: passed on.
    unsafe { libc::memmove(to, from, n_bytes) }
}

unsafe extern "C" fn copy_to_end(
    to: *mut c_void,
    from: *const c_void,
    n_bytes: usize,
    pc: u64,
) -> *mut c_void {
    // SAFETY: passed on.
    unsafe { copy(to, from, n_bytes, pc) }.wrapping_byte_add(n_bytes)
}

pub(crate) unsafe extern "C" fn set(to: *mut c_void, value: c_int, n_bytes: usize, pc: u64) -> *mut c_void {
    if is_recorded() && !buffer::was_hooked(to as u64, n_bytes as u64, WRITE) {
        range(to as u64, n_bytes as u64, pc, WRITE);
    }
    // SAFETY: passed on.
    unsafe { libc::memset(to, value, n_bytes) }
}

/// Copies a text with its end; returns the address of the copy's end.
///
/// # Safety
/// As for `strcpy`.
unsafe fn put_text(to: *mut c_char, from: *const c_char, pc: u64) -> *mut c_char {
    // SAFETY: by this function's contract.
    let n_bytes = unsafe { libc::strlen(from) };
    // SAFETY: as above: a text and its end, and room for both.
    unsafe { copy(to.cast(), from.cast(), n_bytes + 1, pc) };
    to.wrapping_add(n_bytes)
}

unsafe extern "C" fn copy_text(to: *mut c_char, from: *const c_char, pc: u64) -> *mut c_char {
    // SAFETY: passed on.
    unsafe { put_text(to, from, pc) };
    to
}

unsafe extern "C" fn copy_text_to_end(to: *mut c_char, from: *const c_char, pc: u64) -> *mut c_char {
    // SAFETY: passed on.
    unsafe { put_text(to, from, pc) }
}

unsafe extern "C" fn copy_part(to: *mut c_char, from: *const c_char, n: usize, pc: u64) -> *mut c_char {
    if is_recorded() {
        // SAFETY: passed on: at most `n` bytes are read.
        let n_read = unsafe { libc::strnlen(from, n) };
        reads(from.cast(), (n_read + 1).min(n), pc);
        range(to as u64, n as u64, pc, WRITE);
    }
    // SAFETY: passed on.
    unsafe { libc::strncpy(to, from, n) }
}

unsafe extern "C" fn append(to: *mut c_char, from: *const c_char, pc: u64) -> *mut c_char {
    // SAFETY: passed on: both texts are read to their ends, and the second is copied to the end of the first.
    unsafe {
        let n_before = length(to, pc);
        put_text(to.wrapping_add(n_before), from, pc);
    }
    to
}

unsafe extern "C" fn append_part(to: *mut c_char, from: *const c_char, n: usize, pc: u64) -> *mut c_char {
    if is_recorded() {
        // SAFETY: passed on: the first text is read to its end, and at most `n` bytes of the second.
        let (n_before, n_read) = unsafe { (length(to, pc), libc::strnlen(from, n)) };
        reads(from.cast(), (n_read + 1).min(n), pc);
        range(to.wrapping_add(n_before) as u64, n_read as u64 + 1, pc, WRITE);
    }
    // SAFETY: passed on.
    unsafe { libc::strncat(to, from, n) }
}

unsafe extern "C" fn length(text: *const c_char, pc: u64) -> usize {
    // SAFETY: passed on.
    let n_bytes = unsafe { libc::strlen(text) };
    if is_recorded() {
        reads(text.cast(), n_bytes + 1, pc);
    }
    n_bytes
}

/// Number of bytes that are equal from the beginning on, at most `n`.
///
/// # Safety
/// Both can be read up to the first difference, or up to `n` bytes.
unsafe fn n_equal(one: *const u8, other: *const u8, n: usize) -> usize {
    // SAFETY: by this function's contract, because it ends at the first difference.
    (0..n).take_while(|at| unsafe { one.add(*at).read() == other.add(*at).read() }).count()
}

unsafe extern "C" fn compare(one: *const c_void, other: *const c_void, n_bytes: usize, pc: u64) -> c_int {
    // SAFETY: passed on.
    let result = unsafe { libc::memcmp(one, other, n_bytes) };
    if is_recorded() {
        let n_read = match result {
            0 => n_bytes,
            // SAFETY: both have `n_bytes`.
            _ => (unsafe { n_equal(one.cast(), other.cast(), n_bytes) } + 1).min(n_bytes),
        };
        reads(one, n_read, pc);
        reads(other, n_read, pc);
    }
    result
}

unsafe extern "C" fn compare_texts(one: *const c_char, other: *const c_char, pc: u64) -> c_int {
    if is_recorded() {
        // SAFETY: two texts; as long as they are equal and have not ended, both have a next byte.
        let is_same = |at: &usize| unsafe {
            let (byte, other) = (one.add(*at).read(), other.add(*at).read());
            byte == other && byte != 0
        };
        let n_read = 1 + (0..).take_while(is_same).count();
        reads(one.cast(), n_read, pc);
        reads(other.cast(), n_read, pc);
    }
    // SAFETY: passed on.
    unsafe { libc::strcmp(one, other) }
}

// Programs that are compiled with `_FORTIFY_SOURCE` call these, with the room that there is for the result.

// SAFETY: declared as in C.
unsafe extern "C" {
    /// Ends the program with a message.
    fn __chk_fail() -> !;
}

/// Ends the program if it writes more bytes than there is room for.
fn check(n_bytes: usize, room: usize) {
    if n_bytes > room {
        // SAFETY: no arguments.
        unsafe { __chk_fail() }
    }
}

/// Functions that call another one with the same arguments but for the room, after a check of the bytes that it writes.
macro_rules! checked {
    ($($name:ident($($arg:ident: $type:ty),*; $room:ident) -> $out:ty, $n_bytes:expr => $plain:ident;)*) => {$(
        unsafe extern "C" fn $name($($arg: $type,)* $room: usize, pc: u64) -> $out {
            check($n_bytes, $room);
            // SAFETY: passed on.
            unsafe { $plain($($arg,)* pc) }
        }
    )*};
}

/// Number of bytes of a text with its end.
///
/// # Safety
/// As for `strlen`.
unsafe fn size(text: *const c_char) -> usize {
    // SAFETY: by this function's contract.
    unsafe { libc::strlen(text) + 1 }
}

/// Number of bytes of a text that is in `room` bytes, without its end, and of the first `n` of another, with an end.
///
/// # Safety
/// As for `strnlen` of both.
unsafe fn joined(one: *const c_char, room: usize, other: *const c_char, n: usize) -> usize {
    // SAFETY: by this function's contract.
    unsafe { libc::strnlen(one, room).saturating_add(libc::strnlen(other, n) + 1) }
}

checked! {
    copy_checked(to: *mut c_void, from: *const c_void, n: usize; room) -> *mut c_void, n => copy;
    displace_checked(to: *mut c_void, from: *const c_void, n: usize; room) -> *mut c_void, n => displace;
    copy_to_end_checked(to: *mut c_void, from: *const c_void, n: usize; room) -> *mut c_void, n => copy_to_end;
    set_checked(to: *mut c_void, value: c_int, n: usize; room) -> *mut c_void, n => set;
    copy_part_checked(to: *mut c_char, from: *const c_char, n: usize; room) -> *mut c_char, n => copy_part;
    copy_text_checked(to: *mut c_char, from: *const c_char; room) -> *mut c_char, {
        // SAFETY: passed on.
        unsafe { size(from) }
    } => copy_text;
    copy_text_to_end_checked(to: *mut c_char, from: *const c_char; room) -> *mut c_char, {
        // SAFETY: passed on.
        unsafe { size(from) }
    } => copy_text_to_end;
    append_checked(to: *mut c_char, from: *const c_char; room) -> *mut c_char, {
        // SAFETY: passed on; the first text is looked for in its room only.
        unsafe { joined(to, room, from, usize::MAX) }
    } => append;
    append_part_checked(to: *mut c_char, from: *const c_char, n: usize; room) -> *mut c_char, {
        // SAFETY: passed on, as above.
        unsafe { joined(to, room, from, n) }
    } => append_part;
}
