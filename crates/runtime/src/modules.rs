//! Records which modules are loaded where, so that addresses can be resolved later.

use crate::live;
use crate::thread::{head, put_text, text_at};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};
use quipu_cells::cell::{Cell, kind};

/// Number of modules ever loaded, when they were last recorded.
static N_TOLD: AtomicU64 = AtomicU64::new(0);

/// Records the modules of the program if others were loaded since the last time, or if `in_any_case`.
pub(crate) fn tell(in_any_case: bool) {
    if in_any_case {
        N_TOLD.store(0, Ordering::SeqCst);
    }
    let mut n_loaded = 0_u64;
    // SAFETY: the callback gets the C library's arguments, and the number above, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut n_loaded).cast()) };
    if N_TOLD.swap(n_loaded, Ordering::SeqCst) != n_loaded {
        // SAFETY: the callback gets the C library's arguments, and nothing else.
        unsafe { libc::dl_iterate_phdr(Some(tell_one), core::ptr::null_mut()) };
        // Other threads may call functions of these modules next.
        live::flush();
    }
}

/// Reads the number of modules ever loaded from the first module.
unsafe extern "C" fn count(info: *mut libc::dl_phdr_info, _: usize, n_loaded: *mut c_void) -> c_int {
    // SAFETY: the C library passes a valid description, and the number of `tell`, which nothing else touches meanwhile.
    unsafe { *n_loaded.cast::<u64>() = (*info).dlpi_adds };
    1
}

unsafe extern "C" fn tell_one(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the C library passes a valid description, with as many segments as it says; both stay valid during the call.
    let (info, segments) = unsafe {
        let info = &*info;
        (info, core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()))
    };
    let loaded = segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD);
    let n_bytes = loaded.map(|segment| segment.p_vaddr + segment.p_memsz).max().unwrap_or(0);
    let mut buffer = [0_u8; 4096];
    // SAFETY: a C string or null, which stays valid during the call.
    let mut path = unsafe { text_at(info.dlpi_name) }.unwrap_or_default();
    if path.is_empty() {
        let link = c"/proc/self/exe";
        // SAFETY: a C string, and a buffer with that many bytes.
        let n = unsafe { libc::readlink(link.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
        path = &buffer[..usize::try_from(n).unwrap_or(0)];
    }
    let event = [head(kind::MODULE, 0, info.dlpi_addr, 0), Cell { word: n_bytes, side: 0 }];
    put_text(&event, path);
    0
}
