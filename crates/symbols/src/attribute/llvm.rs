//! Types without members, by the names that LLVM and C use.

use crate::dwarf::types::Encoding;
use crate::layout::LeafKind;

/// Bytes of an address, by default.
const POINTER_BYTES: u64 = 8;

/// A parsed type in LLVM's notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text<'a> {
    /// A scalar of this many bytes and this kind.
    Scalar(u64, LeafKind),
    /// A type with a name.
    Named(&'a str),
    /// An array of this many elements.
    Array(u64, Box<Text<'a>>),
}

/// The target type of a pointer's text: an annotation names the pointer type that memory was cast to, if that does not point
/// to a structure. `None` if the text is not a pointer, or a pointer to `void`.
pub(crate) fn pointee(name: &str) -> Option<Text<'_>> {
    parse(name.trim().strip_suffix('*')?.trim_end(), 0)
}

fn parse(text: &str, depth: usize) -> Option<Text<'_>> {
    if depth > 8 || matches!(text, "" | "void") {
        return None;
    }
    if text.ends_with('*') || text == "ptr" {
        return Some(Text::Scalar(POINTER_BYTES, LeafKind::Pointer));
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let (count, element) = inner.split_once(" x ")?;
        let element = parse(element.trim(), depth + 1)?;
        return Some(Text::Array(count.trim().parse().ok()?, Box::new(element)));
    }
    if let Some(name) = text.strip_prefix('%') {
        return Some(Text::Named(name.trim_matches('"')));
    }
    if let Some(bits) = text.strip_prefix('i').and_then(|bits| bits.parse::<u64>().ok()) {
        let bytes = bits.div_ceil(8).max(1).checked_next_power_of_two()?;
        return Some(Text::Scalar(bytes, LeafKind::Base(Encoding::Signed)));
    }
    match c_type(text) {
        Some((bytes, kind)) => Some(Text::Scalar(bytes, kind)),
        None => Some(Text::Named(text)),
    }
}

/// Size and kind of a type without members, in the spelling of C and files of types. `long` has its size on 64-bit Unix.
pub(crate) fn c_type(text: &str) -> Option<(u64, LeafKind)> {
    use Encoding::{Bool, Char, Float, Signed, Unsigned};
    if text.ends_with('*') {
        return Some((POINTER_BYTES, LeafKind::Pointer));
    }
    let (bytes, encoding) = match text {
        "char" | "signed char" => (1, Char),
        "unsigned char" | "uint8_t" => (1, Unsigned),
        "int8_t" => (1, Signed),
        "_Bool" | "bool" => (1, Bool),
        "short" | "short int" | "int16_t" => (2, Signed),
        "unsigned short" | "short unsigned int" | "uint16_t" => (2, Unsigned),
        "int" | "int32_t" => (4, Signed),
        "unsigned" | "unsigned int" | "uint32_t" => (4, Unsigned),
        "long" | "long int" | "long long" | "long long int" | "int64_t" => (8, Signed),
        "unsigned long"
        | "long unsigned int"
        | "unsigned long long"
        | "long long unsigned int"
        | "uint64_t"
        | "size_t" => (8, Unsigned),
        "half" => (2, Float),
        "float" => (4, Float),
        "double" => (8, Float),
        "long double" | "x86_fp80" | "fp128" | "ppc_fp128" => (16, Float),
        _ => return None,
    };
    Some((bytes, LeafKind::Base(encoding)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_with_a_pointer_means_what_it_points_to() {
        let int = |bytes| Text::Scalar(bytes, LeafKind::Base(Encoding::Signed));
        assert_eq!(pointee("i32*"), Some(int(4)));
        assert_eq!(pointee("i8**"), Some(Text::Scalar(8, LeafKind::Pointer)));
        assert_eq!(pointee("[4 x i16]*"), Some(Text::Array(4, Box::new(int(2)))));
        assert_eq!(pointee("%struct.A*"), Some(Text::Named("struct.A")));
        assert_eq!(pointee("%struct.A**"), Some(Text::Scalar(8, LeafKind::Pointer)));
        assert_eq!((pointee("void*"), pointee("struct.A")), (None, None));
    }
}
