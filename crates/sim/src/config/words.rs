//! Words of a configuration, with their lines, and the values that they stand for.

use quipu_model::{Error, Result};

/// A word and its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    pub(super) line: usize,
}

/// Splits a text into words and counts lines.
pub(super) struct Words<'t> {
    rest: &'t str,
    pub(super) line: usize,
    /// Name of the file.
    pub(super) name: &'t str,
}

impl<'t> Words<'t> {
    pub(super) fn new(text: &'t str, name: &'t str) -> Words<'t> {
        Words { rest: text, line: 1, name }
    }

    pub(super) fn next(&mut self) -> Option<Word<'t>> {
        loop {
            let blank = self.rest.find(|c: char| !c.is_whitespace()).unwrap_or(self.rest.len());
            self.line += self.rest[..blank].matches('\n').count();
            self.rest = &self.rest[blank..];
            if self.rest.is_empty() {
                return None;
            }
            let end = match self.rest.as_bytes()[0] {
                b'{' | b'}' => 1,
                _ => {
                    let ends = |c: char| c.is_whitespace() || c == '{' || c == '}';
                    self.rest.find(ends).unwrap_or(self.rest.len())
                }
            };
            let (text, rest) = self.rest.split_at(end);
            self.rest = rest;
            if text != "//" {
                return Some(Word { text, line: self.line });
            }
            self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]);
        }
    }

    #[cold]
    pub(super) fn wrong(&self, found: Word<'_>, key: &str, allowed: &str) -> Error {
        let Word { text, line } = found;
        Error::usage(format!("{}: line {line}, key {key}: found `{text}`, allowed: {allowed}", self.name))
    }

    /// The error for braces that are still open at the end of the file.
    #[cold]
    pub(super) fn open(&self, line: usize, what: &str) -> Error {
        Error::usage(format!(
            "{}: line {line}, key {what}: found the end of the file, allowed: a closing brace",
            self.name
        ))
    }

    /// The value that follows `key`.
    pub(super) fn value(&mut self, key: Word<'_>) -> Result<Word<'t>> {
        self.next().ok_or_else(|| {
            let Word { text, line } = key;
            Error::usage(format!(
                "{}: line {line}, key {text}: found the end of the file, allowed: a value",
                self.name
            ))
        })
    }

    pub(super) fn number(&mut self, key: Word<'_>) -> Result<(Word<'t>, u64)> {
        let value = self.value(key)?;
        match value.text.parse() {
            Ok(number) if !value.text.starts_with('+') => Ok((value, number)),
            _ => Err(self.wrong(value, key.text, "a whole number")),
        }
    }

    pub(super) fn small(&mut self, key: Word<'_>) -> Result<u32> {
        let (word, number) = self.number(key)?;
        u32::try_from(number).map_err(|_| self.wrong(word, key.text, "a number below 2^32"))
    }

    pub(super) fn size(&mut self, key: Word<'_>) -> Result<u64> {
        let value = self.value(key)?;
        size(value.text)
            .ok_or_else(|| self.wrong(value, key.text, "a number of bytes, with K, M or G for powers of two"))
    }

    /// The size of a page.
    pub(super) fn page(&mut self, key: Word<'_>) -> Result<u64> {
        let value = self.value(key)?;
        page(value.text)
            .ok_or_else(|| self.wrong(value, key.text, "a power of two, 64 or more, such as 4K, 2M or 1G"))
    }

    /// Sizes of pages, separated by commas.
    pub(super) fn pages(&mut self, key: Word<'_>) -> Result<Vec<u64>> {
        let value = self.value(key)?;
        let pages: Option<Vec<u64>> = value.text.split(',').map(page).collect();
        pages.ok_or_else(|| {
            self.wrong(value, key.text, "sizes of pages without blanks between, such as 4K,2M")
        })
    }

    /// An address: in hexadecimal with `0x`, else decimal.
    pub(super) fn addr(&mut self, key: Word<'_>) -> Result<(Word<'t>, u64)> {
        let value = self.value(key)?;
        let number = match value.text.strip_prefix("0x") {
            Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
            Some(_) => None,
            None => value.text.parse().ok().filter(|_| !value.text.starts_with('+')),
        };
        match number {
            Some(number) => Ok((value, number)),
            None => Err(self.wrong(value, key.text, "an address such as 0x7f0000000000")),
        }
    }

    pub(super) fn flag(&mut self, key: Word<'_>) -> Result<bool> {
        let value = self.value(key)?;
        match value.text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.wrong(value, key.text, "true, false")),
        }
    }

    pub(super) fn fraction(&mut self, key: Word<'_>) -> Result<f64> {
        let value = self.value(key)?;
        match value.text.parse() {
            Ok(fraction) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
            _ => Err(self.wrong(value, key.text, "a number from 0.0 to 1.0")),
        }
    }
}

/// Parses a size with an optional `K`, `M` or `G` (powers of two, either case). Accepts exactly what drcachesim does, so
/// that a file that works here works there.
fn size(text: &str) -> Option<u64> {
    let shift = match text.bytes().last()? {
        b'k' | b'K' => 10,
        b'm' | b'M' => 20,
        b'g' | b'G' => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    if digits.starts_with('+') {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Parses the size of a page.
fn page(text: &str) -> Option<u64> {
    size(text).filter(|bytes| bytes.is_power_of_two() && *bytes >= 64)
}
