//! Typed values as Linux prints them: a tree of the parts that are not zero.
//!
//! SPEC: dtrace.md#print

use crate::describe::{Capture, Rec};
use crate::float;
use crate::locale::Locale;
use crate::put;
use crate::quirks::{Quirks, Which};
use crate::types::{Kind, Member, Type};
use std::io::Write as _;

/// Blanks before the type at the outermost level.
const INDENT: usize = 44;

/// Maximum depth, as in the consumer.
const MAX_DEPTH: usize = 10;

/// Maximum length of the text of a value, in bytes.
const MAX_TEXT: usize = 1 << 20;

struct Tree<'c> {
    capture: &'c Capture,
    locale: &'c Locale,
    quirks: Quirks,
    value: &'c [u8],
    /// Length of the output before this value.
    start: usize,
    /// Depth of the brackets that are open.
    n_open: usize,
}

/// Prints an address and the value at it.
pub(crate) fn print(
    capture: &Capture,
    locale: &Locale,
    quirks: Quirks,
    rec: &Rec,
    (address, value): (&[u8], &[u8]),
    out: &mut Vec<u8>,
) {
    put::hex(out, capture.order.number(address));
    out.extend_from_slice(b" = *\n");
    let Some(ty) = capture.types.get(&rec.arg.to_string()) else {
        put::fill(out, b' ', INDENT);
        let _ = writeln!(out, "(type {})", rec.arg); // Writing to a vector cannot fail.
        return;
    };
    let mut tree = Tree { capture, locale, quirks, value, start: out.len(), n_open: 0 };
    tree.visit(None, ty, 0, 0, out);
    tree.close(0, out);
}

impl Tree<'_> {
    /// Closes open brackets that are deeper than `depth`.
    fn close(&mut self, depth: usize, out: &mut Vec<u8>) {
        while self.n_open > depth {
            self.n_open -= 1;
            put::fill(out, b' ', INDENT + self.n_open);
            out.extend_from_slice(if self.n_open > 0 { b"},\n" } else { b"}\n" });
        }
    }

    /// Prints the value at `start` if it is not zero. Past the end of the value or at a limit, prints `...` and returns false.
    fn visit(
        &mut self,
        member: Option<&Member>,
        ty: &Type,
        start: usize,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let is_enough = depth >= MAX_DEPTH || out.len() - self.start > MAX_TEXT;
        if start >= self.value.len().max(1) || is_enough {
            put::fill(out, b' ', INDENT + depth);
            out.extend_from_slice(b"...\n");
            return false;
        }
        self.close(depth, out);
        let size = usize::try_from(ty.size).unwrap_or(usize::MAX);
        let end = start.saturating_add(size).min(self.value.len());
        let bytes = &self.value[start.min(end)..end];
        if depth > 0 && bytes.iter().all(|byte| *byte == 0) {
            return true;
        }
        let real = self.capture.types.resolved(ty);
        let begin = out.len();
        put::fill(out, b' ', INDENT + depth);
        if let Some(member) = member.filter(|member| !member.name.is_empty()) {
            let _ = write!(out, ".{} = ", member.name); // Writing to a vector cannot fail.
        }
        let _ = write!(out, "({})", ty.name);
        match &real.kind {
            Kind::Struct { members } | Kind::Union { members } => {
                out.extend_from_slice(b" {\n");
                self.n_open = depth + 1;
                return members.iter().all(|member| self.member(member, start, depth + 1, out));
            }
            Kind::Array { of, count } => {
                out.extend_from_slice(b" [\n");
                let is_whole = self.elements(of, *count, start, depth + 1, out);
                if is_whole {
                    put::fill(out, b' ', INDENT + depth);
                    out.extend_from_slice(b"],\n");
                }
                return is_whole;
            }
            _ => {}
        }
        if !self.scalar(member.and_then(|member| Some((member.bit, member.bits?))), ty, real, bytes, out) {
            out.truncate(begin);
            return true;
        }
        out.extend_from_slice(b",\n");
        true
    }

    fn member(&mut self, member: &Member, start: usize, depth: usize, out: &mut Vec<u8>) -> bool {
        let Some(ty) = self.capture.types.get(&member.ty) else { return true };
        let at = usize::try_from(member.bit / 8).unwrap_or(usize::MAX);
        self.visit(Some(member), ty, start.saturating_add(at), depth, out)
    }

    /// Prints the elements of an array that are not zero; for an array of characters, only those before the first zero.
    fn elements(&mut self, of: &str, count: u64, start: usize, depth: usize, out: &mut Vec<u8>) -> bool {
        let Some(ty) = self.capture.types.get(of) else { return true };
        let real = self.capture.types.resolved(ty);
        let is_text = matches!(real.kind, Kind::Int { char: true, .. });
        let is_structure = matches!(real.kind, Kind::Struct { .. } | Kind::Union { .. });
        let size = usize::try_from(ty.size).unwrap_or(usize::MAX).max(1);
        let outer = std::mem::replace(&mut self.n_open, depth);
        for at in 0..usize::try_from(count).unwrap_or(usize::MAX) {
            let start = start.saturating_add(at.saturating_mul(size));
            if is_text && self.value.get(start) == Some(&0) {
                break;
            }
            if is_structure && self.quirks.has(Which::BareElements) {
                // QUIRK: the consumer does not go into structures that are elements.
                let end = start.saturating_add(size).min(self.value.len());
                if self.value.get(start..end).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0)) {
                    put::fill(out, b' ', INDENT + depth);
                    let _ = writeln!(out, "({}) {{", ty.name); // Writing to a vector cannot fail.
                }
                continue;
            }
            if !self.visit(None, ty, start, depth, out) {
                return false;
            }
        }
        self.close(depth, out);
        self.n_open = outer;
        true
    }

    /// Prints a value without parts; returns false if the consumer prints nothing for it.
    fn scalar(
        &self,
        field: Option<(u64, u32)>,
        ty: &Type,
        real: &Type,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let order = self.capture.order;
        if let Some((bit, bits)) = field {
            let word = order.number(&bytes[..bytes.len().min(8)]);
            let mask = u64::MAX.checked_shr(64_u32.saturating_sub(bits)).unwrap_or(0);
            let number = word >> (bit % 8) & mask;
            put::unsigned(out, number, 0);
            return number != 0;
        }
        match &real.kind {
            Kind::Int { char: true, .. } if ty.name == "char" && bytes.len() == 1 => {
                out.extend_from_slice(&[b'\'', bytes[0], b'\'']);
            }
            Kind::Int { signed: true, .. } => put::signed(out, order.signed(bytes), 0),
            Kind::Pointer { .. } => put::hex(out, order.number(bytes)),
            Kind::Enum { values } => {
                let number = order.signed(bytes);
                match values.iter().find(|(_, value)| *value == number) {
                    Some((name, _)) => out.extend_from_slice(name.as_bytes()),
                    None => put::signed(out, number, 0),
                }
            }
            Kind::Float => match float::of_bytes(bytes) {
                // QUIRK: the consumer passes over floating point.
                Some(float) if !self.quirks.has(Which::BareElements) => {
                    let start = out.len();
                    float::digits(out, float, b'e', Some(7), false);
                    self.locale.put_point(out, start, false);
                }
                _ => return false,
            },
            _ => put::unsigned(out, order.number(bytes), 0),
        }
        true
    }
}
