//! The decoder of one architecture, and what can go wrong with it.
//!
//! Not per instruction and not for the hot path: a caller decodes each distinct instruction once and caches.

use std::fmt;

use crate::{Arch, Instr, Syntax, Work, aarch64, regdeps, x86};

/// Decodes and prints instructions of one architecture, on any host. Reusable; cheap to make, one per thread.
pub struct Decoder {
    arch: Arch,
    kind: Kind,
}

/// The decoders that the common face calls.
enum Kind {
    X86(Box<x86::X86>),
    Aarch64,
    Regdeps,
}

impl Decoder {
    /// A decoder for `arch`; `syntax` matters for x86 only.
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

    /// The architecture it decodes.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Decodes the instruction at the front of `bytes`, which may be longer than it. `pc` is its address.
    /// Allocates nothing once warm: x86 reuses a few small buffers, the others have none.
    ///
    /// # Errors
    /// The bytes end inside the instruction, or are none.
    pub fn decode(&mut self, pc: u64, bytes: &[u8]) -> Result<Instr, DecodeError> {
        match &mut self.kind {
            Kind::X86(x86) => x86.decode(pc, bytes),
            Kind::Aarch64 => aarch64::decode(pc, bytes),
            Kind::Regdeps => regdeps::decode(bytes),
        }
    }

    /// What the instruction at the front of `bytes` computes, which was decoded to `instr`; `None` if nothing. A second look at
    /// the bytes, which few callers want.
    pub fn work(&mut self, instr: &Instr, pc: u64, bytes: &[u8]) -> Option<Work> {
        match &mut self.kind {
            Kind::X86(x86) => x86.work(instr, pc, bytes),
            Kind::Aarch64 => aarch64::work(instr, bytes),
            Kind::Regdeps => regdeps::work(instr, bytes),
        }
    }

    /// The registers and sizes of the operands of an instruction, which was decoded to `instr`, in the terms of REGDEPS.
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

    /// Appends the disassembly of the instruction at the front of `bytes`: no address, no bytes, no newline.
    /// REGDEPS text follows drmemtrace's viewer, trailing space included; what cannot be decoded
    /// reads [`UNDECODABLE`](crate::UNDECODABLE).
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

/// What [`Decoder::text`] writes for bytes that are no instruction.
pub const UNDECODABLE: &str = "(undecodable)";

/// Quipu has no decoder for this architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The architecture asked for.
    pub arch: Arch,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no instruction decoder for {}", self.arch)
    }
}

impl std::error::Error for Unsupported {}

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeError {
    /// The bytes end before the instruction does.
    Truncated,
    /// The bytes are no instruction that the decoder knows.
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
