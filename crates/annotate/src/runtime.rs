//! The runtime's calls, by weak names: they are there if the program was compiled with instrumentation, and null if not.

use std::ffi::c_char;

/// Where a function of this name is; 0 if there is none.
///
/// Weak names are no feature of Rust's yet, but of its assembler.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
macro_rules! address_of {
    ($name:literal) => {{
        let at: usize;
        // SAFETY: reads what the linker or loader put into the table of addresses, and changes nothing but the register.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {at}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                at = out(reg) at,
                options(nostack, pure, readonly, preserves_flags),
            );
        }
        at
    }};
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
macro_rules! address_of {
    ($name:literal) => {
        0_usize
    };
}

/// True if the runtime is a part of this program.
pub(crate) fn is_there() -> bool {
    address_of!("quipu_region") != 0
}

/// Functions of the runtime that Rust calls by a name of its own.
macro_rules! calls {
    ($($(#[$doc:meta])* $ours:ident = $name:literal($($arg:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        pub(crate) fn $ours($($arg: $type),*) {
            let at = address_of!($name);
            if at != 0 {
                // SAFETY: the runtime's function of that name takes these arguments (`quipu.h`) and returns nothing.
                let call = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn($($type),*)>(at) };
                // SAFETY: it records numbers, and copies names that end in a zero, which those of this crate do.
                unsafe { call($($arg),*) };
            }
        }
    )*};
}

calls! {
    /// Memory has a type from here on.
    region = "quipu_region"(addr: usize, element_bytes: usize, n_elements: usize, name: *const c_char);
    /// It has none any more.
    region_end = "quipu_region_end"(addr: usize);
    mark = "quipu_mark"(name: *const c_char);
    thread_name = "quipu_thread_name"(name: *const c_char);
    pause = "quipu_pause"();
    resume = "quipu_resume"();
}
