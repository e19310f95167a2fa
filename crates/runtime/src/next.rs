//! The functions that ours interpose: those that the program would have called without us.

use crate::thread::this;
use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A function of another library, looked up once.
pub(crate) struct Next {
    name: &'static CStr,
    /// The wanted version if a library has several; by default, a lookup finds the oldest first.
    version: Option<&'static CStr>,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Next {
        Next { name, version: None, found: AtomicPtr::new(null_mut()) }
    }

    pub(crate) const fn with_version(name: &'static CStr, version: &'static CStr) -> Next {
        Next { name, version: Some(version), found: AtomicPtr::new(null_mut()) }
    }

    /// Its address; null if it does not exist, or if this thread is just looking it up.
    pub(crate) fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Acquire);
        if !found.is_null() {
            return found;
        }
        let resolving = &this().resolving;
        if resolving.get() > 0 {
            return null_mut();
        }
        resolving.set(1);
        let mut found = null_mut();
        if let Some(version) = self.version {
            // SAFETY: both are C strings.
            found = unsafe { libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), version.as_ptr()) };
        }
        if found.is_null() {
            // SAFETY: a C string.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        }
        resolving.set(0);
        self.found.store(found, Ordering::Release);
        found
    }
}

/// The next function with this name after ours, as a function of this type; runs the expression after `else` if there is
/// none. The type must be the function's type in C.
macro_rules! next {
    ($name:literal $(@ $version:literal)? as $type:ty, else $otherwise:expr) => {{
        static NEXT: $crate::next::Next = next!(@new $name $(, $version)?);
        let found = NEXT.get();
        if found.is_null() {
            $otherwise
        }
        // SAFETY: a function with this name, which has this type in C, and is not null.
        unsafe { core::mem::transmute::<*mut core::ffi::c_void, $type>(found) }
    }};
    (@new $name:literal) => { $crate::next::Next::new($name) };
    (@new $name:literal, $version:literal) => { $crate::next::Next::with_version($name, $version) };
}

/// A function in place of another one, with any arguments: calls `$ours` with the first two, the address of the caller in place
/// of the third, and continues at the function that it returns as if the program had called that.
macro_rules! passed_on {
    ($name:ident, $ours:ident) => {
        // SAFETY: the registers of arguments, also the number of those in vector registers, and the stack are as the caller left
        // them when the other function begins. At the call, the stack is aligned as C wants it: by seven registers and the
        // return address.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                "mov rdx, [rsp + 56]",
                "call {ours}",
                "mov r11, rax",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp r11",
                ours = sym $ours,
            )
        }
    };
}

pub(crate) use next;
pub(crate) use passed_on;
