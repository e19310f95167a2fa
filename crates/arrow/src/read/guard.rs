//! The one place where a panic of the libraries becomes an error.
//!
//! They are written for files of friends, and index by what a file says in some corners. What they were reading is dropped
//! with the panic, so that no half of it is looked at again; the message that a panic prints is left out on this thread.

use quipu_model::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// How many guards are around what this thread does.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

static QUIET: Once = Once::new();

/// Calls `read`, which calls a library over hostile bytes.
///
/// # Errors
/// Those of `read`; `Damaged` if it panics.
pub fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    QUIET.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if DEPTH.get() == 0 {
                before(info);
            }
        }));
    });
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(read));
    DEPTH.set(DEPTH.get() - 1);
    done.unwrap_or_else(|_| Err(Error::new(ErrorKind::Damaged, "the bytes contradict themselves")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let none: [u8; 0] = [];
        let at = std::hint::black_box(3);
        let error = guarded(|| Ok(none[at])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert_eq!(guarded(|| Ok(5)).unwrap(), 5);
    }
}
