//! Functions that compilers call: accesses, function entry and exit, memory functions. SPEC: stream.md#cells.

use crate::thread::{head, heed, ignore, put, put_later, put_one, this};
use crate::{copies, modules, process};
use core::sync::atomic::Ordering;
use quipu_cells::cell::{CELL_BYTES, Cell, LOW, MAX_RANGE_BYTES, access, kind};
use quipu_cells::layout::{BUFFER_BYTES, CELLS_END, open};

/// Records an access with its code, address and program counter.
extern "C" fn record(addr: u64, pc: u64, code: u32) {
    if addr > LOW {
        range(addr, 1 << (code & u32::from(access::SIZE_LOG2)), pc, code as u16 & !access::SIZE_LOG2);
        return;
    }
    put_one(Cell { word: u64::from(code) << 48 | addr, side: pc });
}

/// Records a read and a write of the same place.
extern "C" fn record_both(addr: u64, pc: u64, code: u32) {
    record(addr, pc, code);
    record(addr, pc, code | u32::from(access::WRITE));
}

/// Completes a hook that found its cell beyond the end of the buffer, or an address with more than 48 bits.
#[cold]
extern "C" fn record_later(addr: u64, pc: u64, code: u32) {
    if addr > LOW && code <= u32::from(u8::MAX) {
        return record(addr, pc, code);
    }
    put_later(Cell { word: u64::from(code) << 48 | addr & LOW, side: pc });
}

/// Records an access of any size: as one cell if processors have the size, or else in parts that readers do not take for
/// damage.
pub(crate) fn range(mut addr: u64, mut size: u64, pc: u64, flags: u16) {
    if size <= MAX_SHORT_BYTES && size.is_power_of_two() && addr <= LOW {
        let unaligned = if addr.is_multiple_of(size) { 0 } else { UNALIGNED };
        let code = flags | unaligned | size.trailing_zeros() as u16; // At most 4.
        return put_one(Cell { word: u64::from(code) << 48 | addr, side: pc });
    }
    // No program has that much memory: such a size is a mistake, which stays visible instead of becoming millions of parts.
    let most = if size > IMPOSSIBLE_BYTES { size } else { MAX_RANGE_BYTES };
    while size > 0 {
        let (high, part) = (addr >> 48, size.min(most));
        put(&[head(kind::RANGE, 1, addr, pc), Cell { word: part, side: high << 16 | u64::from(flags) }]);
        addr = addr.wrapping_add(part);
        size -= part;
    }
}

/// The largest access that takes one cell.
const MAX_SHORT_BYTES: u64 = 16;
/// A range of more bytes than this is larger than all memory of a program.
const IMPOSSIBLE_BYTES: u64 = 1 << 40;

// The most frequent hooks, which take one cell each: like `record`, with everything about the code as a constant.
//
// PERF: one function without a call, a frame or a second jump. `crates/runtime/bench/run.sh` measures it.
//
// SAFETY: as for `put_one`. A cell that the cursor places below `CELLS_END` lies in a buffer of this thread, whose head is at
// the next lower multiple of its size. Only registers that a function may change are changed, and the stack is as the caller
// left it.
macro_rules! cells {
    ($first:literal: $($name:ident = $code:expr;)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                $first,
                "mov rsi, [rsp]",
                "mov rdx, rdi",
                "shr rdx, 48",
                "jnz 2f",
                "mov rdx, qword ptr [rip + quipu_rt_thread@GOTTPOFF]",
                "mov ecx, {cell}",
                "xadd qword ptr fs:[rdx], rcx",
                "mov eax, ecx",
                "and eax, {offset}",
                "cmp eax, {end}",
                "jae 2f",
                "mov rax, {word}",
                "mov rdx, rcx",
                "or rax, rdi",
                "and rdx, {base}",
                "mov qword ptr [rcx], rax",
                "or rsi, qword ptr [rdx + {tag}]",
                "mov qword ptr [rcx + 8], rsi",
                "ret",
                "2:",
                "mov edx, {code}",
                "jmp {later}",
                cell = const CELL_BYTES,
                offset = const BUFFER_BYTES - 1,
                end = const CELLS_END,
                word = const ($code as u64) << 48,
                base = const -(BUFFER_BYTES as i64),
                tag = const open::TAG,
                code = const $code,
                later = sym record_later,
            )
        }
    )*};
}

macro_rules! twice {
    ($($name:ident = $code:expr;)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "mov rsi, [rsp]",
                "mov edx, {code}",
                "jmp {target}",
                code = const $code,
                target = sym record_both,
            )
        }
    )*};
}

const WRITE: u16 = access::WRITE;
const UNALIGNED: u16 = access::UNALIGNED;
const VOLATILE: u16 = access::VOLATILE;
const VPTR: u16 = access::VPTR;

cells! { "":
    __tsan_read1 = 0_u16;
    __tsan_read2 = 1_u16;
    __tsan_read4 = 2_u16;
    __tsan_read8 = 3_u16;
    __tsan_read16 = 4_u16;
    __tsan_write1 = WRITE;
    __tsan_write2 = WRITE | 1;
    __tsan_write4 = WRITE | 2;
    __tsan_write8 = WRITE | 3;
    __tsan_write16 = WRITE | 4;
    __tsan_unaligned_read1 = UNALIGNED;
    __tsan_unaligned_read2 = UNALIGNED | 1;
    __tsan_unaligned_read4 = UNALIGNED | 2;
    __tsan_unaligned_read8 = UNALIGNED | 3;
    __tsan_unaligned_read16 = UNALIGNED | 4;
    __tsan_unaligned_write1 = UNALIGNED | WRITE;
    __tsan_unaligned_write2 = UNALIGNED | WRITE | 1;
    __tsan_unaligned_write4 = UNALIGNED | WRITE | 2;
    __tsan_unaligned_write8 = UNALIGNED | WRITE | 3;
    __tsan_unaligned_write16 = UNALIGNED | WRITE | 4;
    __tsan_volatile_read1 = VOLATILE;
    __tsan_volatile_read2 = VOLATILE | 1;
    __tsan_volatile_read4 = VOLATILE | 2;
    __tsan_volatile_read8 = VOLATILE | 3;
    __tsan_volatile_read16 = VOLATILE | 4;
    __tsan_volatile_write1 = VOLATILE | WRITE;
    __tsan_volatile_write2 = VOLATILE | WRITE | 1;
    __tsan_volatile_write4 = VOLATILE | WRITE | 2;
    __tsan_volatile_write8 = VOLATILE | WRITE | 3;
    __tsan_volatile_write16 = VOLATILE | WRITE | 4;
    __tsan_unaligned_volatile_read1 = UNALIGNED | VOLATILE;
    __tsan_unaligned_volatile_read2 = UNALIGNED | VOLATILE | 1;
    __tsan_unaligned_volatile_read4 = UNALIGNED | VOLATILE | 2;
    __tsan_unaligned_volatile_read8 = UNALIGNED | VOLATILE | 3;
    __tsan_unaligned_volatile_read16 = UNALIGNED | VOLATILE | 4;
    __tsan_unaligned_volatile_write1 = UNALIGNED | VOLATILE | WRITE;
    __tsan_unaligned_volatile_write2 = UNALIGNED | VOLATILE | WRITE | 1;
    __tsan_unaligned_volatile_write4 = UNALIGNED | VOLATILE | WRITE | 2;
    __tsan_unaligned_volatile_write8 = UNALIGNED | VOLATILE | WRITE | 3;
    __tsan_unaligned_volatile_write16 = UNALIGNED | VOLATILE | WRITE | 4;
    __tsan_vptr_read = VPTR | 3;
    __tsan_vptr_update = VPTR | WRITE | 3;
    // Coverage instrumentation, with which Rust programs are traced.
    __sanitizer_cov_load1 = 0_u16;
    __sanitizer_cov_load2 = 1_u16;
    __sanitizer_cov_load4 = 2_u16;
    __sanitizer_cov_load8 = 3_u16;
    __sanitizer_cov_load16 = 4_u16;
    __sanitizer_cov_store1 = WRITE;
    __sanitizer_cov_store2 = WRITE | 1;
    __sanitizer_cov_store4 = WRITE | 2;
    __sanitizer_cov_store8 = WRITE | 3;
    __sanitizer_cov_store16 = WRITE | 4;
}

twice! {
    __tsan_read_write1 = 0_u16;
    __tsan_read_write2 = 1_u16;
    __tsan_read_write4 = 2_u16;
    __tsan_read_write8 = 3_u16;
    __tsan_read_write16 = 4_u16;
    __tsan_unaligned_read_write1 = UNALIGNED;
    __tsan_unaligned_read_write2 = UNALIGNED | 1;
    __tsan_unaligned_read_write4 = UNALIGNED | 2;
    __tsan_unaligned_read_write8 = UNALIGNED | 3;
    __tsan_unaligned_read_write16 = UNALIGNED | 4;
}

/// The same with an explicit program counter from the caller: other front ends of sanitizers call these.
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
    hooked_range(addr, size, pc, 0);
}

extern "C" fn write_range(addr: u64, size: u64, pc: u64) {
    hooked_range(addr, size, pc, WRITE);
}

/// Records one side of a copy for which the compiler may call the C library next.
fn hooked_range(addr: u64, size: u64, pc: u64, flags: u16) {
    range(addr, size, pc, flags);
    let thread = this();
    thread.after_range.set(thread.cursor.load(Ordering::Relaxed));
}

hooks! { "rcx":
    __tsan_memcpy => copies::copy;
    __tsan_memmove => copies::displace;
    __tsan_memset => copies::set;
}

// The address of the caller is in the place of an access's address.
cells! { "":
    __tsan_func_entry = (kind::ENTER as u16) << 8;
}

cells! { "xor edi, edi":
    __tsan_func_exit = (kind::LEAVE as u16) << 8;
}

/// Called by a constructor of every instrumented object; those of libraries run when they are loaded.
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
