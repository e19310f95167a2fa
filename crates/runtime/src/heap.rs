//! Memory that programs allocate and free.
//!
//! A region is recorded after it was allocated and before it is freed, so that no other thread can have been given it in
//! between.

use crate::next::next;
use crate::process;
use crate::thread::{head, put, stamp, this};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use quipu_cells::cell::{Cell, LOW, heap, kind};

hooks! { "rsi":
    malloc => our_malloc;
    free => our_free;
    cfree => our_free;
    valloc => our_valloc;
    pvalloc => our_pvalloc;
    _Znwm => new;
    _Znam => new_array;
    _ZdlPv => delete;
    _ZdaPv => delete_array;
}

hooks! { "rdx":
    calloc => our_calloc;
    realloc => our_realloc;
    memalign => our_memalign;
    aligned_alloc => our_aligned_alloc;
    _ZnwmRKSt9nothrow_t => new_nothrow;
    _ZnamRKSt9nothrow_t => new_array_nothrow;
    _ZnwmSt11align_val_t => new_aligned;
    _ZnamSt11align_val_t => new_array_aligned;
    _ZdlPvm => delete_sized;
    _ZdaPvm => delete_array_sized;
    _ZdlPvSt11align_val_t => delete_aligned;
    _ZdaPvSt11align_val_t => delete_array_aligned;
    _ZdlPvRKSt9nothrow_t => delete_nothrow;
    _ZdaPvRKSt9nothrow_t => delete_array_nothrow;
}

hooks! { "rcx":
    posix_memalign => our_posix_memalign;
    reallocarray => our_reallocarray;
    _ZnwmSt11align_val_tRKSt9nothrow_t => new_aligned_nothrow;
    _ZnamSt11align_val_tRKSt9nothrow_t => new_array_aligned_nothrow;
    _ZdlPvmSt11align_val_t => delete_sized_aligned;
    _ZdaPvmSt11align_val_t => delete_array_sized_aligned;
    _ZdlPvSt11align_val_tRKSt9nothrow_t => delete_aligned_nothrow;
    _ZdaPvSt11align_val_tRKSt9nothrow_t => delete_array_aligned_nothrow;
}

/// Records a successful allocation.
fn allocated(addr: *mut c_void, element_bytes: usize, n_elements: usize, call: u64, pc: u64) {
    let thread = this();
    let new_pc = thread.new_pc.take();
    if addr.is_null() || thread.inside.get() > 0 || process::is_off() {
        return;
    }
    let (call, pc) = if new_pc == 0 { (call, pc) } else { (heap::NEW, new_pc) };
    let size = Cell { word: element_bytes as u64, side: n_elements as u64 & LOW };
    put(&[head(kind::ALLOC, 2, addr as u64, pc), Cell { word: stamp(), side: call }, size]);
}

/// Records memory that is about to be freed.
fn releases(addr: *mut c_void, call: u64, pc: u64) {
    let thread = this();
    let delete_pc = thread.delete_pc.take();
    if addr.is_null() || thread.inside.get() > 0 || process::is_off() {
        return;
    }
    let (call, pc) = if delete_pc == 0 { (call, pc) } else { (heap::NEW, delete_pc) };
    put(&[head(kind::RELEASE, 1, addr as u64, pc), Cell { word: stamp(), side: call }]);
}

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

// SAFETY, of all functions below: their arguments are those with which the program called the function of that name, and they
// are passed on to that function. So the program is responsible for C's requirements, as without us.

extern "C" fn our_malloc(size: usize, pc: u64) -> *mut c_void {
    let behind = next!(c"malloc" as Malloc, else return early(size));
    // SAFETY: passed on.
    let addr = unsafe { behind(size) };
    allocated(addr, size, 1, heap::MALLOC, pc);
    addr
}

extern "C" fn our_calloc(n: usize, size: usize, pc: u64) -> *mut c_void {
    let behind = next!(c"calloc" as Calloc, else return early(n.saturating_mul(size)));
    // SAFETY: passed on.
    let addr = unsafe { behind(n, size) };
    allocated(addr, size, n, heap::CALLOC, pc);
    addr
}

unsafe extern "C" fn our_realloc(old: *mut c_void, size: usize, pc: u64) -> *mut c_void {
    // SAFETY: memory that the program was given.
    if let Some(n_bytes) = unsafe { early_size(old) } {
        let new = our_malloc(size, pc);
        if !new.is_null() {
            // SAFETY: both have that many bytes, and nothing else refers to the new ones.
            unsafe { core::ptr::copy_nonoverlapping(old.cast::<u8>(), new.cast(), n_bytes.min(size)) };
        }
        return new;
    }
    let behind = next!(c"realloc" as Realloc, else return null_mut());
    releases(old, heap::REALLOC, pc);
    // SAFETY: passed on.
    let new = unsafe { behind(old, size) };
    if new.is_null() && size > 0 {
        allocated(old, 0, 0, heap::REALLOC_FAILED, pc);
    } else {
        allocated(new, size, 1, heap::REALLOC, pc);
    }
    new
}

unsafe extern "C" fn our_reallocarray(old: *mut c_void, n: usize, size: usize, pc: u64) -> *mut c_void {
    match n.checked_mul(size) {
        // SAFETY: passed on.
        Some(n_bytes) => unsafe { our_realloc(old, n_bytes, pc) },
        None => {
            // SAFETY: `errno` of this thread.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            null_mut()
        }
    }
}

unsafe extern "C" fn our_free(addr: *mut c_void, pc: u64) {
    // SAFETY: memory that the program was given.
    if unsafe { early_size(addr) }.is_some() {
        return;
    }
    let behind = next!(c"free" as Free, else return);
    releases(addr, heap::MALLOC, pc);
    // SAFETY: passed on.
    unsafe { behind(addr) };
}

extern "C" fn our_memalign(align: usize, size: usize, pc: u64) -> *mut c_void {
    let behind = next!(c"memalign" as Calloc, else return null_mut());
    // SAFETY: passed on.
    let addr = unsafe { behind(align, size) };
    allocated(addr, size, 1, heap::ALIGNED, pc);
    addr
}

extern "C" fn our_aligned_alloc(align: usize, size: usize, pc: u64) -> *mut c_void {
    let behind = next!(c"aligned_alloc" as Calloc, else return null_mut());
    // SAFETY: passed on.
    let addr = unsafe { behind(align, size) };
    allocated(addr, size, 1, heap::ALIGNED, pc);
    addr
}

extern "C" fn our_valloc(size: usize, pc: u64) -> *mut c_void {
    let behind = next!(c"valloc" as Malloc, else return null_mut());
    // SAFETY: passed on.
    let addr = unsafe { behind(size) };
    allocated(addr, size, 1, heap::ALIGNED, pc);
    addr
}

extern "C" fn our_pvalloc(size: usize, pc: u64) -> *mut c_void {
    let behind = next!(c"pvalloc" as Malloc, else return null_mut());
    // SAFETY: passed on.
    let addr = unsafe { behind(size) };
    allocated(addr, size, 1, heap::ALIGNED, pc);
    addr
}

unsafe extern "C" fn our_posix_memalign(out: *mut *mut c_void, align: usize, size: usize, pc: u64) -> c_int {
    type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
    let behind = next!(c"posix_memalign" as PosixMemalign, else return libc::ENOMEM);
    // SAFETY: passed on.
    let code = unsafe { behind(out, align, size) };
    if code == 0 {
        // SAFETY: the call succeeded, so it wrote there.
        let addr = unsafe { *out };
        allocated(addr, size, 1, heap::ALIGNED, pc);
    }
    code
}

// The C++ library's `operator new` calls `malloc`, but its own caller determines the type. It throws if there is no memory,
// through our frames.
macro_rules! news {
    ($($ours:ident($($arg:ident),*) = $name:literal;)*) => {$(
        unsafe extern "C-unwind" fn $ours($($arg: usize,)* pc: u64) -> *mut c_void {
            let behind = next!($name as unsafe extern "C-unwind" fn($(news!(@usize $arg)),*) -> *mut c_void, else {
                // SAFETY: no arguments. A C++ program without that function cannot have been linked.
                unsafe { libc::abort() }
            });
            // The `new` of arrays calls that of objects.
            if this().new_pc.get() == 0 {
                this().new_pc.set(pc);
            }
            // SAFETY: passed on.
            let addr = unsafe { behind($($arg),*) };
            this().new_pc.set(0);
            addr
        }
    )*};
    (@usize $arg:ident) => { usize };
}

news! {
    new(size) = c"_Znwm";
    new_array(size) = c"_Znam";
    new_nothrow(size, tag) = c"_ZnwmRKSt9nothrow_t";
    new_array_nothrow(size, tag) = c"_ZnamRKSt9nothrow_t";
    new_aligned(size, align) = c"_ZnwmSt11align_val_t";
    new_array_aligned(size, align) = c"_ZnamSt11align_val_t";
    new_aligned_nothrow(size, align, tag) = c"_ZnwmSt11align_val_tRKSt9nothrow_t";
    new_array_aligned_nothrow(size, align, tag) = c"_ZnamSt11align_val_tRKSt9nothrow_t";
}

// `operator delete` calls `free`.
macro_rules! deletes {
    ($($ours:ident($($arg:ident),*) = $name:literal;)*) => {$(
        unsafe extern "C" fn $ours(addr: *mut c_void, $($arg: usize,)* pc: u64) {
            let behind = next!($name as unsafe extern "C" fn(*mut c_void, $(news!(@usize $arg)),*), else return);
            // The `delete` of arrays calls that of objects.
            if this().delete_pc.get() == 0 {
                this().delete_pc.set(pc);
            }
            // SAFETY: passed on.
            unsafe { behind(addr, $($arg),*) };
            this().delete_pc.set(0);
        }
    )*};
}

deletes! {
    delete() = c"_ZdlPv";
    delete_array() = c"_ZdaPv";
    delete_sized(size) = c"_ZdlPvm";
    delete_array_sized(size) = c"_ZdaPvm";
    delete_aligned(align) = c"_ZdlPvSt11align_val_t";
    delete_array_aligned(align) = c"_ZdaPvSt11align_val_t";
    delete_nothrow(tag) = c"_ZdlPvRKSt9nothrow_t";
    delete_array_nothrow(tag) = c"_ZdaPvRKSt9nothrow_t";
    delete_sized_aligned(size, align) = c"_ZdlPvmSt11align_val_t";
    delete_array_sized_aligned(size, align) = c"_ZdaPvmSt11align_val_t";
    delete_aligned_nothrow(align, tag) = c"_ZdlPvSt11align_val_tRKSt9nothrow_t";
    delete_array_aligned_nothrow(align, tag) = c"_ZdaPvSt11align_val_tRKSt9nothrow_t";
}

/// Memory for the code that looks functions up for us, which must not be sent back there. Never freed.
const EARLY_BYTES: usize = 64 << 10;

#[repr(C, align(16))]
struct Early(core::cell::UnsafeCell<[u8; EARLY_BYTES]>);

// SAFETY: each byte is given to only one caller.
unsafe impl Sync for Early {}

static EARLY: Early = Early(core::cell::UnsafeCell::new([0; EARLY_BYTES]));
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

/// Allocates a piece of it, filled with zeros; its size is stored before it.
fn early(size: usize) -> *mut c_void {
    if size > EARLY_BYTES {
        return null_mut();
    }
    let n_bytes = (size + 16).next_multiple_of(16);
    let start = EARLY_USED.fetch_add(n_bytes, Ordering::SeqCst);
    if start.saturating_add(n_bytes) > EARLY_BYTES {
        return null_mut();
    }
    // SAFETY: this many bytes from `start` on lie in `EARLY`, begin at a multiple of 16, and are this caller's alone.
    unsafe {
        let addr = EARLY.0.get().cast::<u8>().add(start);
        addr.cast::<usize>().write(size);
        addr.add(16).cast()
    }
}

/// Size in bytes of a piece of it; `None` if `addr` is other memory.
///
/// # Safety
/// `addr` is memory that the program was given, by us or by others, or null.
unsafe fn early_size(addr: *mut c_void) -> Option<usize> {
    let start = EARLY.0.get() as usize;
    let inside = (addr as usize).checked_sub(start)? < EARLY_BYTES;
    // SAFETY: every piece in there was allocated by `early`, which wrote the size 16 bytes before it.
    inside.then(|| unsafe { addr.cast::<usize>().sub(2).read() })
}
