//! Zstandard frames, one after another.

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::{End, cut, unreadable};
use crate::error::{Error, ErrorKind};
use crate::packed::Packed;

/// The largest window that a frame may ask for, as a power of two: 128 MiB, the limit of the reference program. Frames made
/// with the usual levels need 8 MiB or less.
const MAX_WINDOW_LOG: u32 = 27;
/// Number of bytes for the decoder to begin with: the shortest frame header.
const FIRST_BYTES: usize = 5;
/// Upper limit on the bytes requested at once: a block and the header of the next.
const MAX_STEP_BYTES: usize = (128 << 10) + 3;

/// The bit in a frame's fifth byte that announces a checksum.
const CHECKSUM_FLAG: u8 = 1 << 2;

/// The state of the decoder, and the number of bytes that it wants next.
pub(crate) struct Zstd {
    decoder: Decoder<'static>,
    wanted: usize,
    /// Whether the decoder may hold inflated bytes that did not fit into the last output.
    holds_output: bool,
    between_frames: bool,
    /// Inflated bytes so far, and those of the frames that ended correctly.
    n_bytes: u64,
    n_vouched: u64,
    /// Whether the current frame ends with a checksum.
    has_checksum: bool,
}

impl Zstd {
    pub(super) fn new() -> Result<Zstd, Error> {
        let make = || {
            let mut decoder = Decoder::new()?;
            decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))?;
            Ok(decoder)
        };
        let decoder = make().map_err(|cause| Error::io("cannot start the zstd decoder", cause))?;
        Ok(Zstd {
            decoder,
            wanted: FIRST_BYTES,
            holds_output: false,
            between_frames: true,
            n_bytes: 0,
            n_vouched: 0,
            has_checksum: false,
        })
    }

    pub(super) fn vouched(&self, n_bytes: u64) -> u64 {
        if self.has_checksum { self.n_vouched.min(n_bytes) } else { n_bytes }
    }

    /// Gives the decoder exactly as many bytes as it asks for, and none while it still holds output. It reports a fault for a
    /// whole call, so larger portions would lose the good blocks before a bad one.
    pub(super) fn inflate(&mut self, packed: &mut Packed, out: &mut [u8]) -> (usize, End) {
        let mut n_out = 0;
        while n_out < out.len() {
            let wanted = if self.holds_output { 0 } else { self.wanted.clamp(1, MAX_STEP_BYTES) };
            let shown = match packed.fill(wanted) {
                Ok(shown) => &shown[..shown.len().min(wanted)],
                Err(cause) => return (n_out, End::Fault(unreadable(cause))),
            };
            if shown.is_empty() && !self.holds_output && self.between_frames {
                return (n_out, End::Done);
            }
            if self.between_frames {
                self.has_checksum = shown.get(4).is_some_and(|flags| flags & CHECKSUM_FLAG != 0);
            }
            let mut input = InBuffer::around(shown);
            let mut output = OutBuffer::around(&mut out[n_out..]);
            let hint = self.decoder.run(&mut input, &mut output);
            let (used, made) = (input.pos(), output.pos());
            packed.consume(used);
            n_out += made;
            self.n_bytes += made as u64;
            match hint {
                Ok(0) => {
                    (self.wanted, self.between_frames) = (FIRST_BYTES, true);
                    self.n_vouched = self.n_bytes;
                }
                Ok(wanted) if used + made > 0 || self.holds_output => {
                    self.wanted = wanted;
                    self.between_frames = false;
                }
                Ok(_) => return (n_out, End::Fault(cut(packed, "the zstd data is cut short"))),
                Err(cause) => return (n_out, End::Fault(fault(packed, &cause.to_string()))),
            }
            self.holds_output = n_out == out.len() && !self.between_frames;
        }
        (n_out, End::More)
    }
}

#[cold]
fn fault(packed: &Packed, why: &str) -> Error {
    // The library distinguishes its errors by text alone.
    let kind = if why.contains("too much memory") { ErrorKind::Limit } else { ErrorKind::Malformed };
    Error::new(kind, format!("bad zstd data: {why}")).at_packed(packed.at())
}
