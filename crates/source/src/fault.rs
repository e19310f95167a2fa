//! Turns a bus error while a mapped file is read into an error, instead of the end of the process.
//!
//! The system raises SIGBUS in the thread that touches a page which the file no longer has, or which its disk cannot read.
//! The handler maps a page of zeros there, so that the reader continues, and records that for the thread; the reader then
//! reports an error. Any other bus error is passed to the handler that was installed before.

#[cfg(unix)]
pub use unix::BusGuard;

#[cfg(not(unix))]
pub use other::BusGuard;

#[cfg(unix)]
#[allow(unsafe_code)]
mod unix {
    use libc::{c_int, c_void, sigaction, siginfo_t};
    use std::cell::Cell;
    use std::io;
    use std::mem::MaybeUninit;
    use std::sync::OnceLock;

    /// The addresses from which this thread is copying, and whether one of their pages had to be replaced. Plain cells
    /// without destructors: the handler reads them like the thread itself.
    struct Watched {
        begin: Cell<usize>,
        end: Cell<usize>,
        is_hit: Cell<bool>,
    }

    thread_local! {
        static WATCHED: Watched =
            const { Watched { begin: Cell::new(0), end: Cell::new(0), is_hit: Cell::new(false) } };
    }

    /// The previous action for bus errors.
    static BEFORE: OnceLock<sigaction> = OnceLock::new();

    /// Size of a page; set before the handler is installed.
    static PAGE_BYTES: OnceLock<usize> = OnceLock::new();

    /// A range of mapped addresses in which this thread survives bus errors, until the guard ends.
    ///
    /// A page that the system cannot provide becomes a private page of zeros: after an error, nothing in the map is
    /// meaningful, and nothing written there reaches the file.
    #[derive(Debug)]
    pub struct BusGuard(());

    impl BusGuard {
        /// Watches a range of mapped memory. Guards of one thread do not nest.
        #[must_use]
        pub fn over(begin: *const u8, len_bytes: usize) -> BusGuard {
            install();
            WATCHED.with(|watched| {
                watched.is_hit.set(false);
                watched.begin.set(begin as usize);
                watched.end.set((begin as usize).saturating_add(len_bytes));
            });
            // No part of the copy may be moved before this point.
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
            BusGuard(())
        }

        /// Ends the watch.
        ///
        /// # Errors
        /// If there was a bus error in the range.
        pub fn end(self) -> io::Result<()> {
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
            let is_hit = WATCHED.with(|watched| {
                watched.begin.set(0);
                watched.end.set(0);
                watched.is_hit.replace(false)
            });
            if is_hit {
                return Err(io::Error::other("the file was cut while it was read, or its disk failed"));
            }
            Ok(())
        }
    }

    /// Installs the handler, once in a process.
    fn install() {
        BEFORE.get_or_init(|| {
            // SAFETY: `sysconf` only returns a value. Zero is valid for all fields of the structures that are not set; the
            // handler has the signature that the flags promise and does only what handlers may do; the call fills `before`.
            unsafe {
                PAGE_BYTES.get_or_init(|| usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096));
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_bus_error;
                let mut action: sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as usize;
                // On the alternate stack, like the handler of the standard library for stack overflows.
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                let mut before = MaybeUninit::<sigaction>::zeroed();
                libc::sigaction(libc::SIGBUS, &action, before.as_mut_ptr());
                before.assume_init()
            }
        });
    }

    extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: The system passes a valid description of the signal.
        let addr = unsafe { (*info).si_addr() } as usize;
        // The thread wrote its cells before it touched the page, so they exist and nothing is allocated here.
        let is_ours = WATCHED.try_with(|watched| {
            let is_ours = (watched.begin.get()..watched.end.get()).contains(&addr);
            if is_ours {
                watched.is_hit.set(true);
            }
            is_ours
        });
        if is_ours == Ok(true) {
            let n_bytes = PAGE_BYTES.get().copied().unwrap_or(4096);
            let page = (addr & !(n_bytes - 1)) as *mut c_void;
            let (rights, flags) = (
                // Memory shared between processes is also written to.
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            );
            // SAFETY: The page belongs to a map that this thread holds while it reads; the map begins at a page border and is
            // unmapped with all of its pages when it is dropped. References into it are to atomics only, whose values other
            // processes may change at any time. `mmap` is a plain system call.
            let mapped = unsafe { libc::mmap(page, n_bytes, rights, flags, -1, 0) };
            if mapped != libc::MAP_FAILED {
                return;
            }
        }
        hand_on(signal, info, context);
    }

    /// Calls the handler that was installed before; the default action ends the process when the access is tried again.
    fn hand_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: A handler that the system was given has the signature that its flags promise. `sigaction` and `zeroed` as
        // above; both are allowed in a handler.
        unsafe {
            match BEFORE.get() {
                Some(before)
                    if before.sa_sigaction > libc::SIG_IGN && before.sa_flags & libc::SA_SIGINFO != 0 =>
                {
                    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                        std::mem::transmute(before.sa_sigaction);
                    handler(signal, info, context);
                }
                Some(before) if before.sa_sigaction > libc::SIG_IGN => {
                    let handler: extern "C" fn(c_int) = std::mem::transmute(before.sa_sigaction);
                    handler(signal);
                }
                _ => {
                    let mut action: sigaction = std::mem::zeroed();
                    action.sa_sigaction = libc::SIG_DFL;
                    libc::sigaction(signal, &action, std::ptr::null_mut());
                }
            }
        }
    }
}

/// Systems without signals have no bus errors to survive.
#[cfg(not(unix))]
mod other {
    /// Watches nothing.
    #[derive(Debug)]
    pub struct BusGuard(());

    impl BusGuard {
        /// Watches nothing.
        #[must_use]
        pub fn over(_: *const u8, _: usize) -> BusGuard {
            BusGuard(())
        }

        /// Ends the watch.
        ///
        /// # Errors
        /// Never.
        pub fn end(self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
