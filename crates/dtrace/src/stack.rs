//! Stacks as text, one frame per line.
//!
//! SPEC: dtrace.md#text-of-records

use crate::action::Action;
use crate::bytes::until_nul;
use crate::describe::{Capture, Rec};
use crate::put;
use crate::symbols::Shown;

/// Layout of frames.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Blanks before each frame.
    indent: usize,
    /// Width in which frames are right-justified.
    width: usize,
}

/// Prints a stack as `stack()` does: a newline, then one line per frame.
pub(crate) fn plain(capture: &Capture, rec: &Rec, bytes: &[u8], indent: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    frames(capture, rec, bytes, Layout { indent, width: 0 }, out);
}

/// Prints a stack for the conversion `%k`.
pub(crate) fn conversion(
    capture: &Capture,
    rec: &Rec,
    bytes: &[u8],
    width: usize,
    is_left: bool,
    out: &mut Vec<u8>,
) {
    out.push(b'\n');
    // A negative width is the indent.
    let layout = if is_left { Layout { indent: width, width: 0 } } else { Layout { indent: 0, width } };
    frames(capture, rec, bytes, layout, out);
}

/// Whether an action records a stack.
pub(crate) fn is_stack(action: Action) -> bool {
    matches!(action, Action::Stack | Action::Ustack | Action::Jstack)
}

fn frames(capture: &Capture, rec: &Rec, bytes: &[u8], layout: Layout, out: &mut Vec<u8>) {
    if matches!(rec.action, Action::Ustack | Action::Jstack) {
        return user_frames(capture, rec, bytes, layout, out);
    }
    let n_frames = usize::try_from(rec.arg).unwrap_or(usize::MAX).max(1);
    let frame_bytes = if bytes.len() / n_frames == 4 { 4 } else { 8 };
    for frame in bytes.chunks_exact(frame_bytes).take(n_frames) {
        let address = capture.order.number(frame);
        if address == 0 {
            return;
        }
        put::fill(out, b' ', layout.indent);
        let text = out.len();
        capture.symbols.text(address, false, Shown::Whole, out);
        put::shift(out, text, layout.width);
        out.push(b'\n');
    }
}

fn user_frames(capture: &Capture, rec: &Rec, bytes: &[u8], layout: Layout, out: &mut Vec<u8>) {
    let n_frames = (rec.arg & 0xffff_ffff) as usize;
    let n_strings = (rec.arg >> 32) as usize;
    let Some(addresses) = bytes.get(8..) else { return };
    let end = n_frames.saturating_mul(8).min(addresses.len());
    let (addresses, rest) = addresses.split_at(end);
    let mut strings = &rest[..n_strings.min(rest.len())];
    for frame in addresses.chunks_exact(8) {
        let address = capture.order.number(frame);
        if address == 0 {
            return;
        }
        put::fill(out, b' ', layout.indent);
        let start = out.len();
        capture.symbols.text(address, true, Shown::Whole, out);
        put::shift(out, start, layout.width);
        out.push(b'\n');
        if strings.is_empty() {
            continue;
        }
        let text = until_nul(strings);
        strings = strings.get(text.len() + 1..).unwrap_or(&[]);
        if let Some(note) = text.strip_prefix(b"@") {
            put::fill(out, b' ', layout.indent);
            out.extend_from_slice(b"  [ ");
            out.extend_from_slice(note);
            out.extend_from_slice(b" ]\n");
        }
    }
}
