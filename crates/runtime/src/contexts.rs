//! Functions with which programs leave many functions at once, or continue on another stack.
//!
//! Function entries and exits alone do not say which functions are active after that, so a place that is saved and a thread
//! that continues at one are recorded. A context that ends continues at its successor without a call; its successor is
//! recorded when the context is made.

use crate::next::{next, passed_on};
use crate::thread::put_sync;
use quipu_cells::cell::sync;

/// A function of the C library with any arguments.
type Any = unsafe extern "C" fn();

/// Functions that save or restore the registers that they are called with. What is recorded gets the first two arguments and
/// the caller's address; then the C library's function runs as if the program had called it.
macro_rules! places {
    ($($name:ident, $ours:ident = $real:literal, $record:expr;)*) => {$(
        extern "C" fn $ours(first: u64, second: u64, pc: u64) -> Any {
            let record: fn(u64, u64, u64) = $record;
            record(first, second, pc);
            next!($real as Any, else {
                // SAFETY: no arguments. The C library has this function.
                unsafe { libc::abort() }
            })
        }

        passed_on!($name, $ours);
    )*};
}

places! {
    setjmp, before_setjmp = c"setjmp", saves;
    _setjmp, before_plain_setjmp = c"_setjmp", saves;
    __sigsetjmp, before_sigsetjmp = c"__sigsetjmp", saves;
    longjmp, before_longjmp = c"longjmp", continues;
    _longjmp, before_plain_longjmp = c"_longjmp", continues;
    siglongjmp, before_siglongjmp = c"siglongjmp", continues;
    __longjmp_chk, before_checked_longjmp = c"__longjmp_chk", continues;
    getcontext, before_getcontext = c"getcontext", saves;
    setcontext, before_setcontext = c"setcontext", continues;
    swapcontext, before_swapcontext = c"swapcontext", swaps;
    makecontext, before_makecontext = c"makecontext", makes;
}

fn saves(place: u64, _: u64, pc: u64) {
    put_sync(sync::CONTEXT_SAVE, place, pc, [0, 0]);
}

fn continues(place: u64, _: u64, pc: u64) {
    put_sync(sync::CONTEXT_RESTORE, place, pc, [0, 0]);
}

fn swaps(from: u64, to: u64, pc: u64) {
    saves(from, 0, pc);
    continues(to, 0, pc);
}

fn makes(place: u64, _: u64, pc: u64) {
    // SAFETY: the program passed it to `makecontext`, and has set the successor before, as C requires.
    let successor = unsafe { (*(place as *const libc::ucontext_t)).uc_link };
    put_sync(sync::CONTEXT_MAKE, place, pc, [successor as u64, 0]);
}
