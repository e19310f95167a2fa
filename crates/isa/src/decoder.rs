//! A decoder for one architecture, and its errors.
//!
//! Decoding is not meant to run per executed instruction: a caller decodes each distinct instruction once and caches the
//! result.

use std::fmt;

use crate::{Arch, Instr, Syntax, Work, aarch64, regdeps, x86};

/// Decodes and prints instructions of one architecture, on any host. It is reusable and cheap to make; each thread needs its
/// own.
pub struct Decoder {
    arch: Arch,
    kind: Kind,
}

/// The decoders that the common interface calls.
enum Kind {
    X86(Box<x86::X86>),
    Aarch64,
    Regdeps,
}

impl Decoder {
    /// Returns a decoder for `arch`; `syntax` matters for x86 only.
    ///
    /// # Errors
    /// 32-bit Arm has no decoder.
    pub fn new(arch: Arch, syntax: Syntax) -> Result<Decoder, Unsupported> {
        let kind = match arch {
            Arch::X86_32 => Kind::X86(Box::new(x86::X86::new(32, syntax))),
            Arch::X86_64 => Kind::X86(Box::new(x86::X86::new(64, syntax))),
            Arch::Aarch64 => Kind::Aarch64,
            Arch::Regdeps => Kind::Regdeps,
            Arch::Arm32 => return Err(Unsupported { arch }),
        };
        Ok(Decoder { arch, kind })
    }

    /// The architecture of the instructions that it decodes.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Decodes the instruction at the front of `bytes`, which may continue after it. `pc` is its address. Allocates nothing
    /// once warm: x86 reuses a few small buffers, the others have none.
    ///
    /// # Errors
    /// The bytes end inside the instruction, or are not an instruction.
    pub fn decode(&mut self, pc: u64, bytes: &[u8]) -> Result<Instr, DecodeError> {
        match &mut self.kind {
            Kind::X86(x86) => x86.decode(pc, bytes),
            Kind::Aarch64 => aarch64::decode(pc, bytes),
            Kind::Regdeps => regdeps::decode(bytes),
        }
    }

    /// Returns the computation of the instruction at the front of `bytes`, or `None` if it computes nothing. `instr` is its
    /// decoded form. This is separate from [`decode`](Decoder::decode), because it examines the bytes again and few callers
    /// need it.
    pub fn work(&mut self, instr: &Instr, pc: u64, bytes: &[u8]) -> Option<Work> {
        match &mut self.kind {
            Kind::X86(x86) => x86.work(instr, pc, bytes),
            Kind::Aarch64 => aarch64::work(instr, bytes),
            Kind::Regdeps => regdeps::work(instr, bytes),
        }
    }

    /// Returns the registers and sizes of an instruction's operands in the terms of REGDEPS; `instr` is its decoded form.
    pub(crate) fn operands(
        &mut self,
        instr: &Instr,
        pc: u64,
        bytes: &[u8],
    ) -> Result<regdeps::Operands, DecodeError> {
        match &mut self.kind {
            Kind::X86(x86) => x86.operands(pc, bytes),
            Kind::Aarch64 => aarch64::operands(instr, bytes),
            Kind::Regdeps => Err(DecodeError::Invalid),
        }
    }

    /// Appends the disassembly of the instruction at the front of `bytes`, without address, bytes or newline. REGDEPS text
    /// follows drmemtrace's viewer, including its trailing space. Bytes that cannot be decoded read
    /// [`UNDECODABLE`](crate::UNDECODABLE).
    pub fn text(&mut self, pc: u64, bytes: &[u8], out: &mut String) {
        let known = match &mut self.kind {
            Kind::X86(x86) => x86.text(pc, bytes, out),
            Kind::Aarch64 => aarch64::text(pc, bytes, out),
            Kind::Regdeps => regdeps::text(bytes, out),
        };
        if !known {
            out.push_str(UNDECODABLE);
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("arch", &self.arch).finish_non_exhaustive()
    }
}

/// The text that [`Decoder::text`] writes for bytes that are not an instruction.
pub const UNDECODABLE: &str = "(undecodable)";

/// Error: Quipu has no decoder for this architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The architecture requested.
    pub arch: Arch,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no instruction decoder for {}", self.arch)
    }
}

impl std::error::Error for Unsupported {}

/// The reason why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeError {
    /// The bytes end before the instruction does.
    Truncated,
    /// The bytes are not an instruction that the decoder knows.
    Invalid,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::Truncated => "the bytes end inside the instruction",
            DecodeError::Invalid => "the bytes are no known instruction",
        })
    }
}

impl std::error::Error for DecodeError {}
