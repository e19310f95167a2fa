//! Parses numbers and ranges that people type.

use quipu::model::number;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

/// A number: decimal, or hex with `0x`; `k` or `K`, `M`, `G`, `T` for thousands, `Ki`, `Mi`, `Gi`, `Ti` for powers of two.
pub fn number(text: &str) -> Result<u64, String> {
    number::worded(text)
}

/// A size: `32768`, `32K`, `1Gi`, `1.5 GiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    number::bytes(text)
        .map_err(|_| "a size is a number, perhaps with a unit, such as 32K, 32 KiB or 1.5 GiB".to_owned())
}

/// A number that is not 0.
pub fn positive(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("expected 1 or more".to_owned()),
        number => Ok(number),
    }
}

/// A number of worker threads, at least 1.
pub fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let number = usize::try_from(positive(text)?).unwrap_or(usize::MAX);
    NonZeroUsize::new(number).ok_or_else(|| "expected 1 or more".to_owned())
}

/// A compression level.
pub fn level(text: &str) -> Result<u32, String> {
    match number(text)? {
        level @ 0..=MAX_LEVEL => Ok(level as u32),
        level => Err(format!("{level} is not in 0..={MAX_LEVEL}")),
    }
}

/// The highest level of all containers.
const MAX_LEVEL: u64 = 22;

/// A set of numbers in the syntax of formats. Rejects ranges whose first number is larger than their last.
pub fn set(text: &str) -> Result<String, String> {
    let is_empty = |range: &&str| {
        let bounds = range.split('/').next().and_then(|bounds| bounds.split_once('-'));
        let bounds =
            bounds.and_then(|(first, last)| Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?)));
        bounds.is_some_and(|(first, last)| first > last)
    };
    match text.split([',', ' ', '\t', '\n']).find(is_empty) {
        Some(range) => Err(format!("the range `{range}` is empty")),
        None => Ok(text.to_owned()),
    }
}

/// A range of numbers: `A..B` without B, `A..` and `..B` without an end, `A` alone.
pub fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    number::range(text)
}

/// `KEY=VALUE`.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("expected KEY=VALUE, found `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_refused() {
        assert_eq!(number("4Ki"), Ok(4096));
        assert_eq!(positive("10K"), Ok(10_000));
        assert_eq!(positive("0").unwrap_err(), "expected 1 or more");
        assert_eq!(
            number("1.5M").unwrap_err(),
            "expected a number such as 4096, 0x1000, 4k or 4Ki, found `1.5M`"
        );
        assert_eq!(number("99999999999Gi").unwrap_err(), "`99999999999Gi` is larger than 64 bits hold");
    }

    #[test]
    fn a_range_excludes_its_end() {
        assert_eq!(range("0x10..0x20"), Ok(0x10..=0x1f));
        assert_eq!(range("5.."), Ok(5..=u64::MAX));
        assert_eq!(range("..5"), Ok(0..=4));
        assert_eq!(range("7"), Ok(7..=7));
        assert!(range("5..5").is_err());
        assert!(range("..0").is_err());
    }

    #[test]
    fn numbers_of_threads_and_levels_have_suffixes_too() {
        assert_eq!(threads("0x2").map(usize::from), Ok(2));
        assert_eq!(threads("1k").map(usize::from), Ok(1000));
        assert_eq!(threads("0").unwrap_err(), "expected 1 or more");
        assert_eq!(level("0x5"), Ok(5));
        assert_eq!(level("23").unwrap_err(), "23 is not in 0..=22");
    }

    #[test]
    fn an_empty_range_of_a_set_is_refused() {
        for text in ["7", "7-9", "7-", "0-100/2", "0-100/draw", "frame", "@FILE", "5-*", "3,1-1"] {
            assert_eq!(set(text).as_deref(), Ok(text));
        }
        assert_eq!(set("1,5-2").unwrap_err(), "the range `5-2` is empty");
        assert_eq!(set("5-2/draw").unwrap_err(), "the range `5-2/draw` is empty");
    }

    #[test]
    fn settings_have_a_key_and_a_value() {
        assert_eq!(key_value("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(key_value("=b").is_err());
        assert!(key_value("a").is_err());
    }
}
