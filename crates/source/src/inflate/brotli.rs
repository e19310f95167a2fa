//! One Brotli stream (RFC 7932). It has no magic bytes, so callers must request it explicitly.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper, StandardAlloc};

use super::{End, cut, unreadable};
use crate::error::Error;
use crate::packed::Packed;

/// The state of the decoder. Its window takes up to 16 MiB, depending on the stream.
pub(crate) struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    ended: bool,
    /// The error of the decoder; bytes that it made before are delivered first.
    fault: Option<Error>,
}

impl Default for Brotli {
    fn default() -> Brotli {
        let alloc = StandardAlloc::default;
        Brotli { state: BrotliState::new_strict(alloc(), alloc(), alloc()), ended: false, fault: None }
    }
}

impl Brotli {
    pub(super) fn inflate(&mut self, packed: &mut Packed, out: &mut [u8]) -> (usize, End) {
        let (mut n_out, mut total) = (0, 0);
        loop {
            if self.ended {
                return (n_out, behind_the_end(packed));
            }
            if let Some(fault) = self.fault.take() {
                n_out += self.take_rest(&mut out[n_out..]);
                if n_out < out.len() {
                    return (n_out, End::Fault(fault));
                }
                self.fault = Some(fault);
            }
            if n_out == out.len() {
                return (n_out, End::More);
            }
            let shown = match packed.fill(1) {
                Ok(shown) => shown,
                Err(cause) => return (n_out, End::Fault(unreadable(cause))),
            };
            let (mut n_in, mut used, mut room) = (shown.len(), 0, out.len() - n_out);
            let at_end = n_in == 0;
            let before = n_out;
            let result = BrotliDecompressStream(
                &mut n_in,
                &mut used,
                shown,
                &mut room,
                &mut n_out,
                out,
                &mut total,
                &mut self.state,
            );
            packed.consume(used);
            match result {
                BrotliResult::ResultSuccess => self.ended = true,
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::NeedsMoreInput if at_end && n_out == before => {
                    return (n_out, End::Fault(cut(packed, "the Brotli data is cut short")));
                }
                BrotliResult::NeedsMoreInput => {}
                BrotliResult::ResultFailure => {
                    self.fault = Some(Error::malformed("bad Brotli data").at_packed(packed.at()));
                }
            }
        }
    }

    /// Delivers bytes that were made before a failure and remain in the window, because the decoder itself returns no more.
    fn take_rest(&mut self, out: &mut [u8]) -> usize {
        let state = &mut self.state;
        let whole = |number: i32| usize::try_from(number).unwrap_or(0);
        // Bytes beyond the end of the block were made from damaged data.
        let made = whole(state.pos).saturating_sub(whole(state.meta_block_remaining_len.saturating_neg()));
        let made = state.rb_roundtrips.saturating_mul(whole(state.ringbuffer_size)).saturating_add(made);
        let start = state.partial_pos_out & whole(state.ringbuffer_mask);
        let n_bytes = made.saturating_sub(state.partial_pos_out).min(out.len());
        let rest = state.ringbuffer.slice().get(start..).unwrap_or(&[]);
        let rest = &rest[..n_bytes.min(rest.len())];
        out[..rest.len()].copy_from_slice(rest);
        state.partial_pos_out += rest.len();
        rest.len()
    }
}

fn behind_the_end(packed: &mut Packed) -> End {
    match packed.fill(1) {
        Ok([]) => End::Done,
        Ok(_) => End::Fault(
            Error::malformed("there are bytes after the end of the packed data").at_packed(packed.at()),
        ),
        Err(cause) => End::Fault(unreadable(cause)),
    }
}
