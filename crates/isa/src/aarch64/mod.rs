//! AArch64.
use crate::{DecodeError, Instr};
pub(crate) fn decode(_pc: u64, _bytes: &[u8]) -> Result<Instr, DecodeError> {
    Err(DecodeError::Invalid)
}
pub(crate) fn text(_pc: u64, _bytes: &[u8], _out: &mut String) -> bool {
    false
}
