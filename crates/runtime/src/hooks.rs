//! What compilers call: accesses, functions, memory functions. SPEC: docs/formats/cacheray.md, "Hooks".

use crate::thread::{head, heed, ignore, put, put_one};
use crate::{modules, process};
use core::ffi::{c_int, c_void};
use quipu_capfile::cell::{Cell, LOW, access, kind};

/// Records an access of a code, at an address, from a program counter.
extern "C" fn record(addr: u64, pc: u64, code: u32) {
    if addr > LOW {
        range(addr, 1 << (code & u32::from(access::SIZE_LOG2)), pc, code as u16 & !access::SIZE_LOG2);
        return;
    }
    put_one(Cell { word: u64::from(code) << 48 | addr, side: pc });
}

/// A read and a write of the same place.
extern "C" fn record_both(addr: u64, pc: u64, code: u32) {
    record(addr, pc, code);
    record(addr, pc, code | u32::from(access::WRITE));
}

/// Records an access of any size.
#[cold]
pub(crate) fn range(addr: u64, size: u64, pc: u64, flags: u16) {
    if size > 0 {
        let high = addr >> 48;
        put(&[head(kind::RANGE, 1, addr, pc), Cell { word: size, side: high << 16 | u64::from(flags) }]);
    }
}

macro_rules! accesses {
    ($($name:ident = $code:expr => $target:path;)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "mov rsi, [rsp]",
                "mov edx, {code}",
                "jmp {target}",
                code = const $code,
                target = sym $target,
            )
        }
    )*};
}

const WRITE: u16 = access::WRITE;
const UNALIGNED: u16 = access::UNALIGNED;
const VOLATILE: u16 = access::VOLATILE;
const VPTR: u16 = access::VPTR;

accesses! {
    __tsan_read1 = 0 => record;
    __tsan_read2 = 1 => record;
    __tsan_read4 = 2 => record;
    __tsan_read8 = 3 => record;
    __tsan_read16 = 4 => record;
    __tsan_write1 = WRITE => record;
    __tsan_write2 = WRITE | 1 => record;
    __tsan_write4 = WRITE | 2 => record;
    __tsan_write8 = WRITE | 3 => record;
    __tsan_write16 = WRITE | 4 => record;
    __tsan_unaligned_read1 = UNALIGNED => record;
    __tsan_unaligned_read2 = UNALIGNED | 1 => record;
    __tsan_unaligned_read4 = UNALIGNED | 2 => record;
    __tsan_unaligned_read8 = UNALIGNED | 3 => record;
    __tsan_unaligned_read16 = UNALIGNED | 4 => record;
    __tsan_unaligned_write1 = UNALIGNED | WRITE => record;
    __tsan_unaligned_write2 = UNALIGNED | WRITE | 1 => record;
    __tsan_unaligned_write4 = UNALIGNED | WRITE | 2 => record;
    __tsan_unaligned_write8 = UNALIGNED | WRITE | 3 => record;
    __tsan_unaligned_write16 = UNALIGNED | WRITE | 4 => record;
    __tsan_volatile_read1 = VOLATILE => record;
    __tsan_volatile_read2 = VOLATILE | 1 => record;
    __tsan_volatile_read4 = VOLATILE | 2 => record;
    __tsan_volatile_read8 = VOLATILE | 3 => record;
    __tsan_volatile_read16 = VOLATILE | 4 => record;
    __tsan_volatile_write1 = VOLATILE | WRITE => record;
    __tsan_volatile_write2 = VOLATILE | WRITE | 1 => record;
    __tsan_volatile_write4 = VOLATILE | WRITE | 2 => record;
    __tsan_volatile_write8 = VOLATILE | WRITE | 3 => record;
    __tsan_volatile_write16 = VOLATILE | WRITE | 4 => record;
    __tsan_unaligned_volatile_read1 = UNALIGNED | VOLATILE => record;
    __tsan_unaligned_volatile_read2 = UNALIGNED | VOLATILE | 1 => record;
    __tsan_unaligned_volatile_read4 = UNALIGNED | VOLATILE | 2 => record;
    __tsan_unaligned_volatile_read8 = UNALIGNED | VOLATILE | 3 => record;
    __tsan_unaligned_volatile_read16 = UNALIGNED | VOLATILE | 4 => record;
    __tsan_unaligned_volatile_write1 = UNALIGNED | VOLATILE | WRITE => record;
    __tsan_unaligned_volatile_write2 = UNALIGNED | VOLATILE | WRITE | 1 => record;
    __tsan_unaligned_volatile_write4 = UNALIGNED | VOLATILE | WRITE | 2 => record;
    __tsan_unaligned_volatile_write8 = UNALIGNED | VOLATILE | WRITE | 3 => record;
    __tsan_unaligned_volatile_write16 = UNALIGNED | VOLATILE | WRITE | 4 => record;
    __tsan_read_write1 = 0 => record_both;
    __tsan_read_write2 = 1 => record_both;
    __tsan_read_write4 = 2 => record_both;
    __tsan_read_write8 = 3 => record_both;
    __tsan_read_write16 = 4 => record_both;
    __tsan_unaligned_read_write1 = UNALIGNED => record_both;
    __tsan_unaligned_read_write2 = UNALIGNED | 1 => record_both;
    __tsan_unaligned_read_write4 = UNALIGNED | 2 => record_both;
    __tsan_unaligned_read_write8 = UNALIGNED | 3 => record_both;
    __tsan_unaligned_read_write16 = UNALIGNED | 4 => record_both;
    __tsan_vptr_read = VPTR | 3 => record;
    __tsan_vptr_update = VPTR | WRITE | 3 => record;
    // Coverage instrumentation, which is how Rust programs are traced.
    __sanitizer_cov_load1 = 0 => record;
    __sanitizer_cov_load2 = 1 => record;
    __sanitizer_cov_load4 = 2 => record;
    __sanitizer_cov_load8 = 3 => record;
    __sanitizer_cov_load16 = 4 => record;
    __sanitizer_cov_store1 = WRITE => record;
    __sanitizer_cov_store2 = WRITE | 1 => record;
    __sanitizer_cov_store4 = WRITE | 2 => record;
    __sanitizer_cov_store8 = WRITE | 3 => record;
    __sanitizer_cov_store16 = WRITE | 4 => record;
}

/// The same, told from where by the caller: what other front ends of sanitizers call.
macro_rules! accesses_with_pc {
    ($($name:ident = $code:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(addr: u64, pc: u64) {
            record(addr, pc & LOW, u32::from($code));
        }
    )*};
}

accesses_with_pc! {
    __tsan_read1_pc = 0_u16;
    __tsan_read2_pc = 1_u16;
    __tsan_read4_pc = 2_u16;
    __tsan_read8_pc = 3_u16;
    __tsan_read16_pc = 4_u16;
    __tsan_write1_pc = WRITE;
    __tsan_write2_pc = WRITE | 1;
    __tsan_write4_pc = WRITE | 2;
    __tsan_write8_pc = WRITE | 3;
    __tsan_write16_pc = WRITE | 4;
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_read_range_pc(addr: u64, size: u64, pc: u64) {
    range(addr, size, pc, 0);
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_write_range_pc(addr: u64, size: u64, pc: u64) {
    range(addr, size, pc, WRITE);
}

hooks! { "rdx":
    __tsan_read_range => read_range;
    __tsan_write_range => write_range;
}

extern "C" fn read_range(addr: u64, size: u64, pc: u64) {
    range(addr, size, pc, 0);
}

extern "C" fn write_range(addr: u64, size: u64, pc: u64) {
    range(addr, size, pc, WRITE);
}

hooks! { "rcx":
    __tsan_memcpy => copy;
    __tsan_memmove => copy;
    __tsan_memset => set;
}

unsafe extern "C" fn copy(to: *mut c_void, from: *const c_void, size: usize, pc: u64) -> *mut c_void {
    range(from as u64, size as u64, pc, 0);
    range(to as u64, size as u64, pc, WRITE);
    // SAFETY: the program asks for this very call.
    unsafe { libc::memmove(to, from, size) }
}

unsafe extern "C" fn set(to: *mut c_void, value: c_int, size: usize, pc: u64) -> *mut c_void {
    range(to as u64, size as u64, pc, WRITE);
    // SAFETY: the program asks for this very call.
    unsafe { libc::memset(to, value, size) }
}

hooks! { "rsi":
    __tsan_func_entry => enter;
}

hooks! { "rdi":
    __tsan_func_exit => leave;
}

extern "C" fn enter(caller: u64, pc: u64) {
    put_one(head(kind::ENTER, 0, caller, pc));
}

extern "C" fn leave(pc: u64) {
    put_one(head(kind::LEAVE, 0, 0, pc));
}

/// Called by a constructor of every object that was compiled with instrumentation: those of libraries when they are loaded.
#[unsafe(no_mangle)]
extern "C" fn __tsan_init() {
    if !process::is_off() {
        modules::tell(false);
    }
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_ignore_thread_begin() {
    ignore();
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_ignore_thread_end() {
    heed();
}
