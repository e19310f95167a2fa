//! Format strings: those of scripts, and those that the kernel stores with sizes inserted.
//!
//! SPEC: dtrace.md#format-strings

use quipu_model::{Error, Result};
use std::sync::Arc;

/// A parsed format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// The pieces in order.
    pub pieces: Vec<Piece>,
    /// Number of arguments that it takes from records, without values of aggregations.
    pub n_args: usize,
}

/// A piece of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Literal text.
    Text(Arc<[u8]>),
    /// A conversion.
    Conversion(Conversion),
}

/// A width or precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amount {
    /// None given.
    #[default]
    None,
    /// A number in the format.
    Is(u16),
    /// An argument (`*`).
    Argument,
}

/// The length modifier, which states the size of the argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// No modifier.
    #[default]
    None,
    /// `hh`.
    Byte,
    /// `h`.
    Short,
    /// `l`, `ll`, `L`.
    Long,
    /// `w`.
    Wide,
}

/// A conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Conversion {
    pub letter: u8,
    pub length: Length,
    pub width: Amount,
    pub precision: Amount,
    pub is_alternate: bool,
    pub is_zero_padded: bool,
    pub is_left: bool,
    pub has_plus: bool,
    pub has_blank: bool,
    /// Whether the locale may group the digits (`'`).
    pub has_groups: bool,
    /// Whether it takes the value of an aggregation (`@`).
    pub is_value: bool,
}

/// Maximum width and precision.
pub const MAX_WIDTH: u16 = 4096;

/// Maximum length of a format in bytes.
const MAX_FORMAT_BYTES: usize = 1 << 16;

impl Format {
    /// Parses a format. `pointer_bytes` is the pointer size of the traced host; `%?` has a width of two digits per byte.
    ///
    /// # Errors
    /// `Malformed` for a conversion that DTrace does not have; `Limit` for a format that is too long.
    pub fn parse(text: &[u8], pointer_bytes: u32) -> Result<Format> {
        if text.len() > MAX_FORMAT_BYTES {
            return Err(Error::limit("bytes of a format", text.len() as u64, MAX_FORMAT_BYTES as u64));
        }
        let mut format = Format::default();
        let mut literal = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let byte = text[at];
            at += 1;
            if byte != b'%' {
                literal.push(byte);
                continue;
            }
            if text.get(at) == Some(&b'%') {
                literal.push(b'%');
                at += 1;
                continue;
            }
            let (conversion, length) = conversion(&text[at..], pointer_bytes)?;
            at += length;
            if !literal.is_empty() {
                format.pieces.push(Piece::Text(std::mem::take(&mut literal).into()));
            }
            format.n_args += usize::from(conversion.width == Amount::Argument)
                + usize::from(conversion.precision == Amount::Argument)
                + usize::from(!conversion.is_value);
            format.pieces.push(Piece::Conversion(conversion));
        }
        if !literal.is_empty() {
            format.pieces.push(Piece::Text(literal.into()));
        }
        Ok(format)
    }

    /// Whether the format has no conversions.
    pub fn is_text(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }
}

/// Parses a conversion after its `%`; also returns its length.
fn conversion(text: &[u8], pointer_bytes: u32) -> Result<(Conversion, usize)> {
    let mut found = Conversion::default();
    let mut in_precision = false;
    let (mut n_h, mut n_l, mut n_w) = (0u32, 0u32, 0u32);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                let amount = if in_precision { &mut found.precision } else { &mut found.width };
                match *amount {
                    Amount::None if *byte == b'0' && !in_precision => found.is_zero_padded = true,
                    Amount::Argument => return Err(Error::malformed("a format has both `*` and digits")),
                    Amount::None => *amount = Amount::Is(u16::from(byte - b'0')),
                    Amount::Is(n) => {
                        let next = n.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
                        *amount = Amount::Is(next.min(MAX_WIDTH));
                    }
                }
            }
            b'*' if in_precision => found.precision = Amount::Argument,
            b'*' => found.width = Amount::Argument,
            b'.' if in_precision => return Err(Error::malformed("a conversion has two precisions")),
            b'.' => in_precision = true,
            b'#' => found.is_alternate = true,
            b'-' => found.is_left = true,
            b'+' => found.has_plus = true,
            b' ' => found.has_blank = true,
            b'\'' => found.has_groups = true,
            b'?' => found.width = Amount::Is(2 * pointer_bytes as u16), // 8 or 16.
            b'@' => found.is_value = true,
            b'h' => n_h += 1,
            b'l' | b'L' => n_l += 1,
            b'w' => n_w += 1,
            b'a' | b'A' | b'c' | b'C' | b'd' | b'e' | b'E' | b'f' | b'g' | b'G' | b'i' | b'I' | b'k'
            | b'o' | b'p' | b'P' | b's' | b'S' | b'T' | b'u' | b'x' | b'X' | b'Y' => {
                found.letter = *byte;
                found.length = match (n_h, n_l, n_w) {
                    (_, _, 1..) => Length::Wide,
                    (_, 1.., _) => Length::Long,
                    (2.., _, _) => Length::Byte,
                    (1, _, _) => Length::Short,
                    _ => Length::None,
                };
                if found.is_value && !matches!(byte, b'd' | b'i' | b'o' | b'p' | b'u' | b'x' | b'X') {
                    let letter = char::from(*byte);
                    return Err(Error::malformed(format!(
                        "`@` makes no sense before the conversion `{letter}`"
                    )));
                }
                // As in C, left justification overrides zero padding.
                found.is_zero_padded &= !found.is_left;
                return Ok((found, at + 1));
            }
            b'$' => return Err(Error::unsupported("a format names its arguments by position")),
            other => {
                let letter = char::from(*other).escape_default();
                return Err(Error::malformed(format!("a format has the unknown conversion `{letter}`")));
            }
        }
    }
    Err(Error::malformed("a format ends within a conversion"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Conversion {
        match Format::parse(text.as_bytes(), 8).unwrap().pieces.as_slice() {
            [Piece::Conversion(conversion)] => *conversion,
            pieces => panic!("{pieces:?}"),
        }
    }

    #[test]
    fn conversions_are_taken_apart() {
        assert_eq!(only("%lli"), Conversion { letter: b'i', length: Length::Long, ..Conversion::default() });
        let wide = Conversion {
            letter: b's',
            width: Amount::Is(10),
            precision: Amount::Is(2),
            ..Conversion::default()
        };
        assert_eq!(only("%10.2s"), wide);
        assert_eq!(only("%?i").width, Amount::Is(16));
        assert!(only("%@8llu").is_value && only("%-05i").is_left && !only("%-05i").is_zero_padded);
        assert_eq!(only("%99999999i").width, Amount::Is(MAX_WIDTH));
        let format = Format::parse(b"100%% %*.*s|%@u", 8).unwrap();
        assert_eq!((format.n_args, format.is_text(), format.pieces.len()), (3, false, 4));
        assert!(Format::parse(b"100%%\n", 8).unwrap().is_text());
    }

    #[test]
    fn hostile_formats_are_refused() {
        for text in ["%n", "%1$d", "%", "%5", "%z", "%@s", "%.3.3i", "%*3i", "%q"] {
            assert!(Format::parse(text.as_bytes(), 8).is_err(), "{text}");
        }
    }
}
