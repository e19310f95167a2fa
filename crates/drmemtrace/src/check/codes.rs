//! Encodings: that they are there, whole, and those of their instructions.

use super::checker::Checker;
use super::facts::Given;
use super::rules::Rule;

impl Checker {
    /// An encoding was given to its instruction.
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

    /// An instruction whose bytes the trace promised and never gave.
    pub(super) fn no_encoding(&mut self, pc: u64) {
        if !self.policy.core && !self.policy.template {
            self.tell(Rule::NoEncoding, || format!("instruction at {pc:#x} was never given an encoding"));
        }
    }
}
