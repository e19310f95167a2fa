//! Splits the bytes of a text into words and signs, each with its line and column.

use quipu_model::{Error, ErrorKind, Result};
use std::io::BufRead;

/// A place in the text, counted from 1; columns count bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) line: u64,
    pub(super) column: u64,
}

/// A text being read, with two bytes of lookahead.
pub(super) struct Lexer<R> {
    input: R,
    /// The next two bytes of the input; `None` at its end.
    ahead: [Option<u8>; 2],
    spot: Spot,
    name: String,
}

/// Maximum length of a word.
const MAX_WORD_BYTES: usize = 1 << 16;

impl<R: BufRead> Lexer<R> {
    pub(super) fn new(mut input: R, name: &str) -> Result<Lexer<R>> {
        let mut ahead = [None; 2];
        for place in &mut ahead {
            *place = take(&mut input, name)?;
        }
        Ok(Lexer { input, ahead, spot: Spot { line: 1, column: 1 }, name: name.to_owned() })
    }

    /// The place of the next word or sign.
    pub(super) fn spot(&mut self) -> Spot {
        // The parser reports read errors.
        let _ = self.peek();
        self.spot
    }

    /// A `Malformed` error at `spot`.
    #[cold]
    pub(super) fn error(&self, spot: Spot, message: impl std::fmt::Display) -> Error {
        let Spot { line, column } = spot;
        Error::new(ErrorKind::Malformed, format!("line {line}, column {column}: {message}"))
            .in_file(self.name.clone())
    }

    fn bump(&mut self) -> Result<Option<u8>> {
        let byte = self.ahead[0];
        self.ahead = [self.ahead[1], take(&mut self.input, &self.name)?];
        match byte {
            Some(b'\n') => self.spot = Spot { line: self.spot.line + 1, column: 1 },
            Some(_) => self.spot.column += 1,
            None => {}
        }
        Ok(byte)
    }

    /// Skips blanks and comments; returns the next byte without consuming it.
    pub(super) fn peek(&mut self) -> Result<Option<u8>> {
        loop {
            match self.ahead[0] {
                Some(b' ' | b'\t' | b'\r' | b'\n') => {
                    self.bump()?;
                }
                // `#` before a digit does not begin a comment: `#5` names an argument.
                Some(b'#') if !self.ahead[1].is_some_and(|byte| byte.is_ascii_digit()) => {
                    while self.ahead[0].is_some_and(|byte| byte != b'\n') {
                        self.bump()?;
                    }
                }
                other => return Ok(other),
            }
        }
    }

    /// Consumes `sign` if it comes next; returns whether it did.
    pub(super) fn takes(&mut self, sign: u8) -> Result<bool> {
        let is_there = self.peek()? == Some(sign);
        if is_there {
            self.bump()?;
        }
        Ok(is_there)
    }

    /// Consumes `->` if it comes next; returns whether it did.
    pub(super) fn takes_arrow(&mut self) -> Result<bool> {
        let is_there = self.peek()? == Some(b'-') && self.ahead[1] == Some(b'>');
        if is_there {
            self.bump()?;
            self.bump()?;
        }
        Ok(is_there)
    }

    /// Consumes `sign`, or fails.
    pub(super) fn expect(&mut self, sign: u8) -> Result<()> {
        if self.takes(sign)? {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{}`", char::from(sign))))
    }

    /// The error for finding anything other than `wanted`.
    #[cold]
    pub(super) fn unexpected(&mut self, wanted: &str) -> Error {
        let found = match self.peek() {
            Ok(Some(byte)) => format!("`{}`", byte.escape_ascii()),
            Ok(None) => "the end of the text".to_owned(),
            Err(error) => return error,
        };
        self.error(self.spot, format_args!("expected {wanted}, found {found}"))
    }

    /// Reads a word if one comes next: letters, digits, `_`, `~`, and `::` between them.
    pub(super) fn word(&mut self) -> Result<Option<String>> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_~".contains(&byte);
        if !self.peek()?.is_some_and(|byte| is_part(byte) && !byte.is_ascii_digit()) {
            return Ok(None);
        }
        let (mut word, spot) = (String::new(), self.spot);
        loop {
            match self.ahead {
                [Some(byte), _] if is_part(byte) => word.push(char::from(byte)),
                [Some(b':'), Some(b':')] => {
                    self.bump()?;
                    word.push_str("::");
                }
                _ => return Ok(Some(word)),
            }
            self.bump()?;
            if word.len() > MAX_WORD_BYTES {
                return Err(self.error(spot, "a word is too long"));
            }
        }
    }

    /// Reads the characters of a number: digits, letters, points, signs after `e`.
    pub(super) fn digits(&mut self) -> Result<String> {
        let mut digits = String::new();
        if self.takes(b'-')? {
            digits.push('-');
        }
        let spot = self.spot;
        while let Some(byte) = self.ahead[0] {
            let is_sign = (byte == b'-' || byte == b'+') && digits.ends_with('e') && !digits.contains('x');
            if !byte.is_ascii_alphanumeric() && byte != b'.' && !is_sign {
                break;
            }
            digits.push(char::from(byte));
            self.bump()?;
            if digits.len() > MAX_WORD_BYTES {
                return Err(self.error(spot, "a number is too long"));
            }
        }
        Ok(digits)
    }

    /// Reads a number without a sign, decimal or hex with `0x`.
    pub(super) fn number(&mut self, what: &str) -> Result<u64> {
        if !self.peek()?.is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.unexpected(what));
        }
        let spot = self.spot;
        let digits = self.digits()?;
        let number = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        number.map_err(|_| self.error(spot, format_args!("expected {what}, found `{digits}`")))
    }

    /// Reads adjacent quoted strings as one; passes each of its units to `put`.
    fn quoted(&mut self, mut put: impl FnMut(Unit)) -> Result<()> {
        loop {
            self.peek()?;
            let start = self.spot;
            self.expect(b'"')?;
            loop {
                let spot = self.spot;
                match self.bump()? {
                    None => return Err(self.error(start, "a string without an end")),
                    Some(b'"') => break,
                    Some(b'\\') => put(self.escape(spot)?),
                    Some(byte) => put(Unit::Byte(byte)),
                }
            }
            if self.peek()? != Some(b'"') {
                return Ok(());
            }
        }
    }

    fn escape(&mut self, spot: Spot) -> Result<Unit> {
        Ok(match self.bump()? {
            Some(byte @ (b'"' | b'\\')) => Unit::Byte(byte),
            Some(b'n') => Unit::Byte(b'\n'),
            Some(b'r') => Unit::Byte(b'\r'),
            Some(b't') => Unit::Byte(b'\t'),
            Some(b'x') => {
                let mut byte = 0;
                for _ in 0..2 {
                    let digit = self.bump()?.and_then(|digit| char::from(digit).to_digit(16));
                    let Some(digit) = digit else {
                        return Err(self.error(spot, "`\\x` needs two hex digits"));
                    };
                    byte = byte * 16 + digit as u8; // Below 16.
                }
                Unit::Byte(byte)
            }
            Some(b'u') => {
                let wrong = "`\\u` needs hex digits in braces";
                if self.bump()? != Some(b'{') {
                    return Err(self.error(spot, wrong));
                }
                let mut number = 0u64;
                loop {
                    match self.bump()? {
                        Some(b'}') => break,
                        Some(digit) => {
                            let digit = char::from(digit).to_digit(16);
                            let shifted = number.checked_mul(16);
                            let (Some(digit), Some(shifted)) = (digit, shifted) else {
                                return Err(self.error(spot, wrong));
                            };
                            number = shifted | u64::from(digit);
                        }
                        None => return Err(self.error(spot, wrong)),
                    }
                }
                Unit::Number(number)
            }
            Some(other) => {
                let message = format!("there is no escape `\\{}`", other.escape_ascii());
                return Err(self.error(spot, message));
            }
            None => return Err(self.error(spot, "a string without an end")),
        })
    }

    /// Reads a string.
    pub(super) fn string(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.quoted(|unit| match unit {
            Unit::Byte(byte) => bytes.push(byte),
            Unit::Number(number) => {
                let unit = u32::try_from(number).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
                bytes.extend_from_slice(unit.encode_utf8(&mut [0; 4]).as_bytes());
            }
        })?;
        Ok(bytes)
    }

    /// Reads a string of wide characters; returns their numbers.
    pub(super) fn wide(&mut self) -> Result<Vec<u64>> {
        let spot = self.spot;
        let (mut units, mut bytes, mut is_utf8) = (Vec::new(), Vec::new(), true);
        let mut flush = |bytes: &mut Vec<u8>, units: &mut Vec<u64>| match std::str::from_utf8(bytes) {
            Ok(text) => {
                units.extend(text.chars().map(u64::from));
                bytes.clear();
            }
            Err(_) => is_utf8 = false,
        };
        self.quoted(|unit| match unit {
            Unit::Byte(byte) => bytes.push(byte),
            Unit::Number(number) => {
                flush(&mut bytes, &mut units);
                units.push(number);
            }
        })?;
        flush(&mut bytes, &mut units);
        if !is_utf8 {
            return Err(self.error(spot, "a wide string is UTF-8; other numbers are written `\\u{…}`"));
        }
        Ok(units)
    }
}

/// A unit of a string.
enum Unit {
    Byte(u8),
    /// The number of a character, or a number that is not a character.
    Number(u64),
}

/// Consumes the next byte of the input; `None` at its end.
fn take(input: &mut impl BufRead, name: &str) -> Result<Option<u8>> {
    let failed =
        |cause| Error::new(ErrorKind::Io, "cannot read the text").in_file(name.to_owned()).because(cause);
    let byte = input.fill_buf().map_err(failed)?.first().copied();
    if byte.is_some() {
        input.consume(1);
    }
    Ok(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lexer(text: &str) -> Lexer<&[u8]> {
        Lexer::new(text.as_bytes(), "test").unwrap()
    }

    #[test]
    fn words_numbers_and_signs_are_told_apart() {
        let mut lexer = lexer("12: a::b~c(0x1F) # comment\n #7 -> 1e-5f -3");
        assert_eq!(lexer.number("a number").unwrap(), 12);
        assert!(lexer.takes(b':').unwrap());
        assert_eq!(lexer.word().unwrap().as_deref(), Some("a::b~c"));
        lexer.expect(b'(').unwrap();
        assert_eq!(lexer.number("a number").unwrap(), 31);
        lexer.expect(b')').unwrap();
        lexer.expect(b'#').unwrap();
        assert_eq!(lexer.number("a number").unwrap(), 7);
        assert!(!lexer.takes(b'>').unwrap());
        assert!(lexer.takes_arrow().unwrap());
        lexer.peek().unwrap();
        assert_eq!(lexer.digits().unwrap(), "1e-5f");
        assert!(!lexer.takes_arrow().unwrap());
        assert_eq!(lexer.digits().unwrap(), "-3");
        assert_eq!(lexer.peek().unwrap(), None);
    }

    #[test]
    fn strings_go_on_and_have_escapes() {
        assert_eq!(lexer("\"a\\n\"\n \"\\x00\\\"é\"").string().unwrap(), b"a\n\0\"\xc3\xa9");
        assert_eq!(lexer("\"a\\u{d83d}é\"").wide().unwrap(), [0x61, 0xd83d, 0xe9]);
    }

    #[test]
    fn mistakes_have_a_line_and_a_column() {
        let message = |text: &str| lexer(text).string().unwrap_err().to_string();
        assert_eq!(message("\n  x"), "test: line 2, column 3: expected `\"`, found `x`");
        assert_eq!(message(" \"ab"), "test: line 1, column 2: a string without an end");
        assert_eq!(message("\"ab\\q\""), "test: line 1, column 4: there is no escape `\\q`");
        assert_eq!(message("\"\\x1\""), "test: line 1, column 2: `\\x` needs two hex digits");
    }
}
