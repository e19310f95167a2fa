//! A bus error while a mapped file is read, as an error instead of the end of the process.
//!
//! The system raises SIGBUS in the thread that touches a page that the file has no more, or that its disk cannot give. The
//! handler puts a page of zeros in its place, so that the reader runs on, and notes that in the thread; the reader then says
//! that it failed. Any other bus error goes to the handler that was there before.

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

    /// The addresses that this thread is copying from, and whether a page of them had to be replaced. Plain cells without
    /// destructors: the handler reads them as the thread itself would.
    struct Watched {
        begin: Cell<usize>,
        end: Cell<usize>,
        is_hit: Cell<bool>,
    }

    thread_local! {
        static WATCHED: Watched =
            const { Watched { begin: Cell::new(0), end: Cell::new(0), is_hit: Cell::new(false) } };
    }

    /// What was done about bus errors before.
    static BEFORE: OnceLock<sigaction> = OnceLock::new();

    /// Size of a page; set before the handler is.
    static PAGE_BYTES: OnceLock<usize> = OnceLock::new();

    /// A range of mapped addresses where this thread survives bus errors, until the guard ends.
    ///
    /// A page that the system cannot provide becomes a private page of zeros: after an error, nothing of the map means
    /// anything, and nothing that is written there reaches the file.
    #[derive(Debug)]
    pub struct BusGuard(());

    impl BusGuard {
        /// Watches mapped memory. Guards of one thread do not nest.
        #[must_use]
        pub fn over(begin: *const u8, len_bytes: usize) -> BusGuard {
            install();
            WATCHED.with(|watched| {
                watched.is_hit.set(false);
                watched.begin.set(begin as usize);
                watched.end.set((begin as usize).saturating_add(len_bytes));
            });
            // Nothing of the copy may be moved to before this.
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
            BusGuard(())
        }

        /// Ends the watch.
        ///
        /// # Errors
        /// If there was a bus error.
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

    /// Sets the handler, once in a process.
    fn install() {
        BEFORE.get_or_init(|| {
            // SAFETY: `sysconf` only answers. The structures may be zero but for what is set; the handler has the
            // signature that its flags say and does only what a handler may; `before` is filled by the call.
            unsafe {
                PAGE_BYTES.get_or_init(|| usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096));
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_bus_error;
                let mut action: sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as usize;
                // On the alternate stack, as the standard library has it for overflows of the stack.
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                let mut before = MaybeUninit::<sigaction>::zeroed();
                libc::sigaction(libc::SIGBUS, &action, before.as_mut_ptr());
                before.assume_init()
            }
        });
    }

    extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: The system gives a valid description of the signal.
        let addr = unsafe { (*info).si_addr() } as usize;
        // The thread wrote its cells before it touched the page, so they exist: nothing is allocated here.
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
                // Memory that processes share is written, too.
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            );
            // SAFETY: The page lies in a map that this thread holds while it reads, which begins at a page and goes
            // with all of its pages when it is dropped; references into it are to atomics alone, whose values other
            // processes may change at any time. `mmap` is a bare system call.
            let mapped = unsafe { libc::mmap(page, n_bytes, rights, flags, -1, 0) };
            if mapped != libc::MAP_FAILED {
                return;
            }
        }
        hand_on(signal, info, context);
    }

    /// Lets the handler that was there before decide; the default ends the process when the access is tried again.
    fn hand_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: A handler that the system was given has the signature that its flags say. `sigaction` and `zeroed` as
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

/// Systems without signals have none to survive.
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
