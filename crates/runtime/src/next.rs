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

pub(crate) use next;
