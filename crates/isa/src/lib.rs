//! Decodes instruction bytes into the effects of the instruction, and into its text.
//!
//! ```
//! use quipu_isa::{Arch, Class, Decoder, Syntax};
//!
//! let mut decoder = Decoder::new(Arch::X86_64, Syntax::Att)?;
//! let bytes = [0x48, 0x8b, 0x45, 0xf8, 0xc3];
//! let instr = decoder.decode(0x401000, &bytes)?;
//! assert_eq!(instr.len, 4);
//! assert_eq!(instr.class, Class::Other);
//! assert_eq!(instr.categories.to_string(), "load");
//! assert_eq!(instr.mems()[0].bytes, 8);
//!
//! let mut text = String::new();
//! decoder.text(0x401000, &bytes, &mut text);
//! assert_eq!(text, "mov    -0x8(%rbp),%rax");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The architecture is that of the traced code, never that of the host. x86 is decoded by iced-x86; AArch64 by yaxpeax-arm
//! for the text, and by the fields of the encoding for memory accesses; REGDEPS by code of this crate.
//!
//! This crate knows nothing of traces. It expects its caller to cache: a program has some ten thousand distinct instructions
//! however long its trace is. Therefore [`Instr`] holds much information yet is small enough to keep, and nothing here is
//! tuned for one call per executed instruction.

mod aarch64;
mod arch;
mod categories;
mod decoder;
mod instr;
mod opcode;
pub mod regdeps;
mod registers;
mod work;
mod x86;

pub use arch::{Arch, Syntax, UnknownArch, UnknownSyntax};
pub use categories::Categories;
pub use decoder::{DecodeError, Decoder, UNDECODABLE, Unsupported};
pub use instr::{Access, Class, Instr, Mem};
pub use opcode::Opcode;
pub use registers::{Reg, RegName, RegSet};
pub use work::{Operation, Work};
