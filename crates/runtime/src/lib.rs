//! The runtime of instrumented programs: compilers put calls into the program that is traced, and this is what they call.
//!
//! It exports what gcc and clang call with `-fsanitize=thread` and what coverage instrumentation calls, which is how Rust
//! programs are traced; the calls of the sanitizers' public header and those of `quipu.h`; and it stands before `malloc`,
//! `operator new` and what threads call. What is recorded goes to a stream (docs/formats/stream.md), which `quipu` reads
//! and `quipu convert --to cacheray` makes a trace of.
//!
//! | file | what |
//! |---|---|
//! | `thread` | what each thread has, and how cells are put: without locks, allocation or system calls |
//! | `buffer` | what happens when a buffer is full, and when a thread begins and ends |
//! | `process` | the file, the start, fork, exit |
//! | `checksum` | CRC-32C by the processor's instruction |
//! | `modules` | what is loaded where |
//! | `hooks`, `atomics`, `coverage` | what compilers call |
//! | `header`, `annotate` | what programs call |
//! | `heap`, `threads` | what programs call of others, and what stands before them |
//! | `next` | the functions that ours stand before |
//!
//! Rules for all of it: nothing is allocated; no lock is taken; `errno` stays; a signal handler may interrupt anything and be
//! instrumented itself; nothing panics, for the program is not ours.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

/// Functions that C calls, with one more argument: where they were called from.
///
/// A function that is called by its C name puts the address after the call into the register that follows its own arguments
/// and continues as the function of ours.
macro_rules! hooks {
    ($register:literal: $($name:ident => $target:path;)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(concat!("mov ", $register, ", [rsp]"), "jmp {target}", target = sym $target)
        }
    )*};
}

/// Functions that C calls, with whatever it likes, and that do nothing.
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
mod coverage;
mod header;
mod heap;
mod hooks;
mod modules;
mod next;
mod process;
mod thread;
mod threads;

/// Which sources this is built from: `quipu cc` looks for it in the file, and takes no runtime of another build.
#[unsafe(no_mangle)]
static QUIPU_RUNTIME_BUILD: [u8; BUILD.len()] = match BUILD.as_bytes().first_chunk() {
    Some(bytes) => *bytes,
    None => [0; BUILD.len()],
};

const BUILD: &str = concat!("\0quipu runtime ", env!("QUIPU_RUNTIME_BUILD"), "\0");
