//! Atomic operations. They are performed here, because compilers call these functions instead of performing them.
//!
//! Each operation has the requested memory order or a stronger one. A store takes its stamp before it is done, any other
//! operation after, so that a thread which reads a stored value has a later stamp than the thread that stored it.

use crate::thread::{head, put, put_sync, stamp};
use core::arch::asm;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
use quipu_cells::cell::{Cell, atomic, kind, sync};

/// Records an operation with its stamp.
fn record(addr: u64, pc: u64, stamp: u64, operation: u8, size: usize, order: c_int) {
    let side = u64::from_le_bytes([operation, size.ilog2() as u8, order as u8, 0, 0, 0, 0, 0]);
    put(&[head(kind::ATOMIC, 1, addr, pc), Cell { word: stamp, side }]);
}

/// Records a compare-exchange.
fn record_compare(addr: u64, pc: u64, expected: u64, size: usize, order: c_int, succeeded: bool) {
    let operation = if expected == 0 { atomic::COMPARE_VAL } else { atomic::COMPARE };
    let side = u64::from_le_bytes([operation, size.ilog2() as u8, order as u8, 0, succeeded.into(), 0, 0, 0]);
    let expected = Cell { word: expected, side: 0 };
    put(&[head(kind::ATOMIC, 2, addr, pc), Cell { word: stamp(), side }, expected]);
}

const fn order_of_load(order: c_int) -> Ordering {
    match order {
        0 => Ordering::Relaxed,
        1 | 2 => Ordering::Acquire,
        _ => Ordering::SeqCst,
    }
}

const fn order_of_store(order: c_int) -> Ordering {
    match order {
        0 => Ordering::Relaxed,
        3 => Ordering::Release,
        _ => Ordering::SeqCst,
    }
}

/// Operations on a number that threads share.
///
/// # Safety
/// For all of these: the program passed `at` to one of the C functions below, so it can be read and, except for a load,
/// written, and is aligned to its size, as C requires of atomic objects. If it is not aligned, the processor still performs
/// operations of up to 8 bytes, and ends the program at 16, as it does without us.
trait Shared: Copy {
    unsafe fn load(at: *mut Self, order: Ordering) -> Self;
    unsafe fn store(at: *mut Self, value: Self, order: Ordering);
    unsafe fn change(at: *mut Self, operation: u8, value: Self) -> Self;
    unsafe fn compare(at: *mut Self, expected: Self, desired: Self) -> Result<Self, Self>;
}

macro_rules! shared {
    ($($type:ty: $atomic:ty;)*) => {$(
        impl Shared for $type {
            unsafe fn load(at: *mut Self, order: Ordering) -> Self {
                // SAFETY: by the contract of `Shared`; whatever the program does to it at the same time is atomic too.
                unsafe { <$atomic>::from_ptr(at) }.load(order)
            }

            unsafe fn store(at: *mut Self, value: Self, order: Ordering) {
                // SAFETY: as above.
                unsafe { <$atomic>::from_ptr(at) }.store(value, order);
            }

            // On this processor, all of them have the strongest order in any case.
            unsafe fn change(at: *mut Self, operation: u8, value: Self) -> Self {
                // SAFETY: as above.
                let at = unsafe { <$atomic>::from_ptr(at) };
                match operation {
                    atomic::EXCHANGE => at.swap(value, Ordering::SeqCst),
                    atomic::ADD => at.fetch_add(value, Ordering::SeqCst),
                    atomic::SUB => at.fetch_sub(value, Ordering::SeqCst),
                    atomic::AND => at.fetch_and(value, Ordering::SeqCst),
                    atomic::OR => at.fetch_or(value, Ordering::SeqCst),
                    atomic::XOR => at.fetch_xor(value, Ordering::SeqCst),
                    _ => at.fetch_nand(value, Ordering::SeqCst),
                }
            }

            unsafe fn compare(at: *mut Self, expected: Self, desired: Self) -> Result<Self, Self> {
                // SAFETY: as above.
                let at = unsafe { <$atomic>::from_ptr(at) };
                at.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst)
            }
        }
    )*};
}

shared! {
    u8: AtomicU8;
    u16: AtomicU16;
    u32: AtomicU32;
    u64: AtomicU64;
}

impl Shared for u128 {
    unsafe fn load(at: *mut Self, _: Ordering) -> Self {
        if has_avx() {
            // Processors with AVX read 16 aligned bytes atomically, also from read-only memory.
            let (low, high): (u64, u64);
            // SAFETY: reads 16 bytes by the contract of `Shared`, and changes no register that is not named.
            unsafe {
                asm!(
                    "movdqa {both}, xmmword ptr [{at}]",
                    "movq {low}, {both}",
                    "psrldq {both}, 8",
                    "movq {high}, {both}",
                    at = in(reg) at,
                    both = out(xmm_reg) _,
                    low = lateout(reg) low,
                    high = lateout(reg) high,
                    options(nostack, readonly),
                );
            }
            return u128::from(high) << 64 | u128::from(low);
        }
        // Does not change the value, but requires writable memory: older processors have no other way.
        // SAFETY: by the contract of `Shared`, except that the memory must be writable.
        match unsafe { u128::compare(at, 0, 0) } {
            Ok(value) | Err(value) => value,
        }
    }

    unsafe fn store(at: *mut Self, value: Self, _: Ordering) {
        // SAFETY: by the contract of `Shared`.
        unsafe { u128::change(at, atomic::EXCHANGE, value) };
    }

    unsafe fn change(at: *mut Self, operation: u8, value: Self) -> Self {
        // SAFETY: by the contract of `Shared`.
        let mut old = unsafe { u128::load(at, Ordering::SeqCst) };
        loop {
            let new = match operation {
                atomic::EXCHANGE => value,
                atomic::ADD => old.wrapping_add(value),
                atomic::SUB => old.wrapping_sub(value),
                atomic::AND => old & value,
                atomic::OR => old | value,
                atomic::XOR => old ^ value,
                _ => !(old & value),
            };
            // SAFETY: by the contract of `Shared`.
            match unsafe { u128::compare(at, old, new) } {
                Ok(old) => return old,
                Err(now) => old = now,
            }
        }
    }

    unsafe fn compare(at: *mut Self, expected: Self, desired: Self) -> Result<Self, Self> {
        let (low, high): (u64, u64);
        let succeeded: u8;
        // SAFETY: 16 bytes by the contract of `Shared`; all registers are named except `rbx`, which is restored.
        unsafe {
            asm!(
                // The compiler keeps `rbx` for itself.
                "xchg rbx, rsi",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "sete r8b",
                "mov rbx, rsi",
                in("rdi") at,
                inout("rsi") desired as u64 => _,
                in("rcx") (desired >> 64) as u64,
                inout("rax") expected as u64 => low,
                inout("rdx") (expected >> 64) as u64 => high,
                out("r8b") succeeded,
                options(nostack),
            );
        }
        let old = u128::from(high) << 64 | u128::from(low);
        if succeeded != 0 { Ok(old) } else { Err(old) }
    }
}

/// True if the processor has AVX.
fn has_avx() -> bool {
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let has = core::arch::x86_64::__cpuid(1).ecx & 1 << 28 != 0;
            KNOWN.store(1 + u8::from(has), Ordering::Relaxed);
            has
        }
        known => known == 2,
    }
}

unsafe extern "C" fn load<T: Shared>(at: *mut T, order: c_int, pc: u64) -> T {
    // SAFETY: by the contract of `Shared`; here and in all that follow, the program asks for this very operation.
    let value = unsafe { T::load(at, order_of_load(order)) };
    record(at as u64, pc, stamp(), atomic::LOAD, size_of::<T>(), order);
    value
}

unsafe extern "C" fn store<T: Shared>(at: *mut T, value: T, order: c_int, pc: u64) {
    record(at as u64, pc, stamp(), atomic::STORE, size_of::<T>(), order);
    // SAFETY: as for `load`.
    unsafe { T::store(at, value, order_of_store(order)) };
}

unsafe extern "C" fn change<T: Shared, const OPERATION: u8>(
    at: *mut T,
    value: T,
    order: c_int,
    pc: u64,
) -> T {
    // SAFETY: as for `load`.
    let old = unsafe { T::change(at, OPERATION, value) };
    record(at as u64, pc, stamp(), OPERATION, size_of::<T>(), order);
    old
}

unsafe extern "C" fn compare_val<T: Shared>(
    at: *mut T,
    expected: T,
    desired: T,
    order: c_int,
    _: c_int,
    pc: u64,
) -> T {
    // SAFETY: as for `load`.
    let old = unsafe { T::compare(at, expected, desired) };
    record_compare(at as u64, pc, 0, size_of::<T>(), order, old.is_ok());
    match old {
        Ok(old) | Err(old) => old,
    }
}

unsafe extern "C" fn compare<T: Shared>(
    at: *mut T,
    expected: *mut T,
    desired: T,
    order: c_int,
    _: c_int,
    pc: u64,
) -> c_int {
    // SAFETY: as for `load`. The expected value belongs to the program; gcc aligns it less than the object: a structure of
    // two words to 8 bytes.
    let old = unsafe { T::compare(at, expected.read_unaligned(), desired) };
    record_compare(at as u64, pc, expected as u64, size_of::<T>(), order, old.is_ok());
    match old {
        Ok(_) => 1,
        Err(now) => {
            // SAFETY: as above.
            unsafe { expected.write_unaligned(now) };
            0
        }
    }
}

macro_rules! atomics {
    ($type:ty: $load:ident $store:ident $exchange:ident $add:ident $sub:ident $and:ident $or:ident $xor:ident $nand:ident,
     $value_register:literal) => {
        hooks! { "rdx":
            $load => load::<$type>;
        }
        hooks! { $value_register:
            $store => store::<$type>;
            $exchange => change::<$type, { atomic::EXCHANGE }>;
            $add => change::<$type, { atomic::ADD }>;
            $sub => change::<$type, { atomic::SUB }>;
            $and => change::<$type, { atomic::AND }>;
            $or => change::<$type, { atomic::OR }>;
            $xor => change::<$type, { atomic::XOR }>;
            $nand => change::<$type, { atomic::NAND }>;
        }
    };
}

atomics! { u8: __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange __tsan_atomic8_fetch_add
__tsan_atomic8_fetch_sub __tsan_atomic8_fetch_and __tsan_atomic8_fetch_or __tsan_atomic8_fetch_xor
__tsan_atomic8_fetch_nand, "rcx" }
atomics! { u16: __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange __tsan_atomic16_fetch_add
__tsan_atomic16_fetch_sub __tsan_atomic16_fetch_and __tsan_atomic16_fetch_or __tsan_atomic16_fetch_xor
__tsan_atomic16_fetch_nand, "rcx" }
atomics! { u32: __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange __tsan_atomic32_fetch_add
__tsan_atomic32_fetch_sub __tsan_atomic32_fetch_and __tsan_atomic32_fetch_or __tsan_atomic32_fetch_xor
__tsan_atomic32_fetch_nand, "rcx" }
atomics! { u64: __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange __tsan_atomic64_fetch_add
__tsan_atomic64_fetch_sub __tsan_atomic64_fetch_and __tsan_atomic64_fetch_or __tsan_atomic64_fetch_xor
__tsan_atomic64_fetch_nand, "rcx" }
// A value of 128 bits takes two registers.
atomics! { u128: __tsan_atomic128_load __tsan_atomic128_store __tsan_atomic128_exchange __tsan_atomic128_fetch_add
__tsan_atomic128_fetch_sub __tsan_atomic128_fetch_and __tsan_atomic128_fetch_or __tsan_atomic128_fetch_xor
__tsan_atomic128_fetch_nand, "r8" }

hooks! { "r9":
    __tsan_atomic8_compare_exchange_val => compare_val::<u8>;
    __tsan_atomic16_compare_exchange_val => compare_val::<u16>;
    __tsan_atomic32_compare_exchange_val => compare_val::<u32>;
    __tsan_atomic64_compare_exchange_val => compare_val::<u64>;
    __tsan_atomic8_compare_exchange_strong => compare::<u8>;
    __tsan_atomic16_compare_exchange_strong => compare::<u16>;
    __tsan_atomic32_compare_exchange_strong => compare::<u32>;
    __tsan_atomic64_compare_exchange_strong => compare::<u64>;
    __tsan_atomic8_compare_exchange_weak => compare::<u8>;
    __tsan_atomic16_compare_exchange_weak => compare::<u16>;
    __tsan_atomic32_compare_exchange_weak => compare::<u32>;
    __tsan_atomic64_compare_exchange_weak => compare::<u64>;
    // Here the address replaces the memory order for failure, because no register is left.
    __tsan_atomic128_compare_exchange_strong => compare_wide;
    __tsan_atomic128_compare_exchange_weak => compare_wide;
}

unsafe extern "C" fn compare_wide(
    at: *mut u128,
    expected: *mut u128,
    desired: u128,
    order: c_int,
    pc: u64,
) -> c_int {
    // SAFETY: as for `load`.
    unsafe { compare(at, expected, desired, order, order, pc) }
}

/// The order is in the sixth register, and the address has to share that register.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __tsan_atomic128_compare_exchange_val() {
    core::arch::naked_asm!("shl r9, 48", "or r9, [rsp]", "jmp {target}", target = sym compare_wide_val)
}

unsafe extern "C" fn compare_wide_val(
    at: *mut u128,
    expected: u128,
    desired: u128,
    order_and_pc: u64,
) -> u128 {
    let (order, pc) = ((order_and_pc >> 48) as c_int, order_and_pc & quipu_cells::cell::LOW);
    // SAFETY: as for `load`.
    unsafe { compare_val(at, expected, desired, order, order, pc) }
}

hooks! { "rsi":
    __tsan_atomic_thread_fence => thread_fence;
    __tsan_atomic_signal_fence => signal_fence;
}

extern "C" fn thread_fence(order: c_int, pc: u64) {
    fence(Ordering::SeqCst);
    put_sync(sync::FENCE, 0, pc, [order as u64, 0]);
}

extern "C" fn signal_fence(order: c_int, pc: u64) {
    compiler_fence(Ordering::SeqCst);
    put_sync(sync::SIGNAL_FENCE, 0, pc, [order as u64, 0]);
}
