//! The runtime of instrumented programs: the functions that compilers call from instrumented code.
//!
//! It exports the functions that gcc and clang call with `-fsanitize=thread`, and those that coverage instrumentation calls,
//! with which Rust programs are traced; the functions of the sanitizers' public header and of `quipu.h`; and it interposes
//! `malloc`, `operator new` and the functions of threads. Records go to a stream (docs/formats/stream.md), which `quipu`
//! reads and `quipu convert --to cacheray` turns into a trace; or, under `quipu run`, to the analyses that run.
//!
//! | file | what |
//! |---|---|
//! | `thread` | state of each thread, and writing cells: without locks, allocation or system calls |
//! | `buffer` | full buffers, beginning and end of threads |
//! | `process` | the file, the start, fork, exit |
//! | `settings` | the environment, the path of the file |
//! | `live` | sending to an analysis in place of the file |
//! | `checksum` | CRC-32C by the processor's instruction |
//! | `modules` | loaded modules and their addresses |
//! | `hooks`, `atomics`, `coverage` | functions that compilers call |
//! | `header`, `annotate` | functions that programs call |
//! | `heap`, `threads`, `contexts` | functions of the C library that are interposed |
//! | `copies` | functions of the C library as which the program's objects are linked |
//! | `next` | the functions that ours interpose |
//!
//! Rules for all of it: nothing is allocated; no lock is taken; `errno` is preserved; a signal handler may interrupt anything
//! and be instrumented itself; nothing panics, because the program is not ours.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

/// Functions that C calls, with an additional argument: the address that they were called from.
///
/// The function with the C name puts the return address into the register after those of its own arguments and jumps to ours.
macro_rules! hooks {
    ($register:literal: $($name:ident => $target:path;)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(concat!("mov ", $register, ", [rsp]"), "jmp {target}", target = sym $target)
        }
    )*};
}

/// Functions that C calls, with any arguments, and that do nothing.
macro_rules! nothing {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() {}
    )*};
}

mod annotate;
mod atomics;
mod buffer;
mod checksum;
mod contexts;
mod copies;
mod coverage;
mod header;
mod heap;
mod hooks;
mod live;
mod modules;
mod next;
mod process;
mod settings;
mod thread;
mod threads;

/// Identifies the sources of this build: `quipu cc` looks for it in the file, and rejects the runtime of another build.
#[unsafe(no_mangle)]
static QUIPU_RUNTIME_BUILD: [u8; BUILD.len()] = match BUILD.as_bytes().first_chunk() {
    Some(bytes) => *bytes,
    None => [0; BUILD.len()],
};

const BUILD: &str = concat!("\0quipu runtime ", env!("QUIPU_RUNTIME_BUILD"), "\0");
