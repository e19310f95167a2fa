//! Turns panics of the Arrow and Parquet libraries into errors.
//!
//! The libraries trust their files and in places index by values from them without a check. After a panic the value that was
//! being read is dropped, so that it is never seen half-built, and the panic message is not printed on this thread.

use quipu_model::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Number of calls of [`guarded`] that are active on this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

static QUIET: Once = Once::new();

/// Calls `read`, which passes untrusted bytes to a library.
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
