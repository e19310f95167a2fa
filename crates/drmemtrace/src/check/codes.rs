//! Encodings: each must be present, complete, and match its instruction.

use super::checker::{Checker, on};
use super::facts::{Facts, Given, flag};
use super::rules::Rule;
use crate::record::{Entry, Type};
use quipu_model::code::MAX_CODE_BYTES;

impl Checker {
    pub(super) fn encoding(&mut self, entry: &Entry, at: usize) {
        self.at = at;
        let n = usize::from(entry.size.get());
        let start = if self.attention & on::ENCODING == 0 { 0 } else { self.encoding_len };
        let end = start + n;
        if self.attention & on::HEADER != 0 {
            self.attend_frame(None);
        }
        self.see_encoding();
        self.attention |= on::ENCODING;
        if n > 8 || end > MAX_CODE_BYTES {
            self.tell(Rule::EncodingTooLong, || {
                format!("an encoding of `{end}` bytes in pieces of at most 8, limit `{MAX_CODE_BYTES}`")
            });
            self.encoding_len = start;
            return;
        }
        self.encoding[start..end].copy_from_slice(&entry.addr.get().to_le_bytes()[..n]);
        self.encoding_len = end;
    }

    #[cold]
    pub(super) fn lone_encoding(&mut self) {
        self.attention &= !on::ENCODING;
        self.encoding_len = 0;
        self.tell(Rule::EncodingAlone, || "no instruction follows the encoding".to_owned());
    }

    /// Handles an encoding before an instruction, a missing encoding, or a change of the instruction's type.
    #[cold]
    pub(super) fn resolve(&mut self, kind: u16, pc: u64, size: u16) -> Facts {
        if self.attention & on::ENCODING != 0 {
            self.attention &= !on::ENCODING;
            let len = std::mem::take(&mut self.encoding_len);
            let bytes = self.encoding;
            let given = self.table.set(pc, size, kind, &bytes[..len.min(MAX_CODE_BYTES)], self.chunk);
            self.judge_encoding(pc, size, len, given);
        } else {
            let known = *self.table.get(pc);
            let is_given = known.chunk == self.chunk;
            if !is_given {
                if known.chunk == 0 {
                    self.no_encoding(pc);
                    self.table.set_bare(pc, size, kind, self.chunk);
                } else {
                    self.tell(Rule::ChunkEncoding, || {
                        format!("the chunk does not give the encoding of {pc:#x}")
                    });
                    self.table.renew(pc, self.chunk);
                }
            } else if u16::from(known.size) != size && self.policy.core {
                // The current code was given to another core.
                self.table.set_bare(pc, size, kind, self.chunk);
            } else if u16::from(known.size) != size && known.flags & flag::VALID != 0 {
                let old = known.size;
                self.tell(Rule::EncodingLength, || {
                    format!("instruction of `{size}` bytes at {pc:#x} has an encoding of `{old}` bytes")
                });
            }
        }
        if !self.policy.regdeps && !self.table.is_kind(pc, kind) && !self.in_kernel {
            self.tell(Rule::InstrType, || {
                let name = Type(kind).name().unwrap_or("unknown");
                format!("the encoding at {pc:#x} is no `{name}`")
            });
        }
        *self.table.get(pc)
    }

    /// Chooses the decoder for the file type.
    pub(super) fn choose_decoder(&mut self) {
        let arch = if self.policy.codes { self.policy.filetype.arch() } else { None };
        if arch != self.table.arch() {
            let decoder = arch.and_then(|arch| quipu_isa::Decoder::new(arch, quipu_isa::Syntax::Att).ok());
            self.table.decode_with(decoder);
        }
    }

    /// Checks an encoding against the instruction that it belongs to.
    pub(super) fn judge_encoding(&mut self, pc: u64, size: u16, len: usize, given: Given) {
        if self.policy.regdeps {
            if given == Given::Undecodable {
                let which = usize::from(!len.is_multiple_of(4));
                self.tell_as(Rule::RegdepsDecode, which, || format!("the `{len}` bytes at {pc:#x} are none"));
            }
            return;
        }
        if len != usize::from(size) {
            self.tell(Rule::EncodingLength, || {
                format!("instruction of `{size}` bytes at {pc:#x} has an encoding of `{len}` bytes")
            });
            return;
        }
        match given {
            Given::Decoded(decoded) if u16::from(decoded) != size => {
                self.tell(Rule::InstrLength, || {
                    format!("instruction of `{size}` bytes at {pc:#x} decodes to one of `{decoded}`")
                });
            }
            Given::Undecodable => {
                self.tell(Rule::Undecodable, || {
                    format!("the `{len}` bytes at {pc:#x} are no known instruction")
                });
            }
            _ => {}
        }
    }

    /// Reports an instruction without the encoding that the trace promises.
    pub(super) fn no_encoding(&mut self, pc: u64) {
        // A thread that starts in the middle may have had it before.
        if !self.policy.core && !self.policy.template && !self.about.is_cut {
            self.tell(Rule::NoEncoding, || format!("instruction at {pc:#x} was never given an encoding"));
        }
    }
}
