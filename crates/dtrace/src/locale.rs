//! The locale of the traced host's consumer: grouping of digits, and names of days and months.
//!
//! SPEC: dtrace.md#the-host

use quipu_model::{Error, Result};
use serde::{Deserialize, Serialize};

/// The parts of a locale that affect a consumer's text. A capture has the values themselves, so other machines need not know
/// the locale.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Locale {
    /// The host's name of the locale, for people, for example `de_DE.UTF-8`.
    pub name: String,
    /// The separator before the digits of a fraction.
    pub decimal_point: String,
    /// The separator between groups of digits, for conversions with the flag `'`.
    pub thousands_separator: String,
    /// Number of digits in each group, from the right. The last number is repeated, unless it is 0: then the remaining
    /// digits are one group.
    pub grouping: Vec<u8>,
    /// The short names of the days, from Sunday.
    pub days: Vec<String>,
    /// The short names of the months.
    pub months: Vec<String>,
}

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Default for Locale {
    /// The locale `C`, in which programs begin.
    fn default() -> Locale {
        Locale {
            name: "C".to_owned(),
            decimal_point: ".".to_owned(),
            thousands_separator: String::new(),
            grouping: Vec::new(),
            days: DAYS.map(str::to_owned).into(),
            months: MONTHS.map(str::to_owned).into(),
        }
    }
}

/// Maximum length of a text of a locale in bytes, and maximum number of groups.
const MAX_BYTES: usize = 64;

impl Locale {
    /// Reads a locale from JSON, as in descriptions.
    pub(crate) fn of_json(text: &str) -> Option<Locale> {
        serde_json::from_str(text).ok()
    }

    /// The locale as JSON on one line.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Checks a locale before it is used.
    ///
    /// # Errors
    /// `Malformed` if the locale does not have seven days and twelve months, or has a text that is too long.
    pub(crate) fn check(&self) -> Result<()> {
        let (n_days, n_months) = (self.days.len(), self.months.len());
        if (n_days, n_months) != (DAYS.len(), MONTHS.len()) {
            let message = format!("the locale has {n_days} days and {n_months} months, not 7 and 12");
            return Err(Error::malformed(message));
        }
        let texts = [&self.name, &self.decimal_point, &self.thousands_separator];
        let longest = texts.into_iter().chain(&self.days).chain(&self.months).map(String::len).max();
        if longest.unwrap_or(0).max(self.grouping.len()) > MAX_BYTES {
            return Err(Error::malformed(format!("the locale has a text of more than {MAX_BYTES} bytes")));
        }
        Ok(())
    }

    /// The short name of a day, from 0 for Sunday.
    pub(crate) fn day(&self, at: usize) -> &str {
        self.days.get(at).map_or(DAYS[at % DAYS.len()], String::as_str)
    }

    /// The short name of a month, from 0 for January.
    pub(crate) fn month(&self, at: usize) -> &str {
        self.months.get(at).map_or(MONTHS[at % MONTHS.len()], String::as_str)
    }

    /// Appends digits in groups.
    pub(crate) fn put_grouped(&self, digits: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let mut groups = self.grouping.iter().copied();
        let (mut left, mut size) = (digits.len(), 0);
        // Built from the right, and reversed at the end.
        while left > 0 {
            size = groups.next().unwrap_or(size);
            let n = if size == 0 { left } else { usize::from(size).min(left) };
            if left < digits.len() {
                out.extend(self.thousands_separator.bytes().rev());
            }
            out.extend(digits[left - n..left].iter().rev());
            left -= n;
        }
        out[start..].reverse();
    }

    /// Replaces the decimal point of the number appended since `start`; if `grouped`, groups the digits before it.
    pub(crate) fn put_point(&self, out: &mut Vec<u8>, start: usize, grouped: bool) {
        if self.decimal_point != "."
            && let Some(at) = out[start..].iter().position(|byte| *byte == b'.')
        {
            out.splice(start + at..=start + at, self.decimal_point.bytes());
        }
        if grouped && !self.grouping.is_empty() {
            let n = out[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let digits: Vec<u8> = out.drain(start..start + n).collect();
            let rest = out.split_off(start);
            self.put_grouped(&digits, out);
            out.extend(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(separator: &str, grouping: &[u8], digits: &str) -> String {
        let thousands_separator = separator.to_owned();
        let locale = Locale { thousands_separator, grouping: grouping.to_vec(), ..Locale::default() };
        let mut out = b"x".to_vec();
        locale.put_grouped(digits.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        assert_eq!(grouped("", &[], "1234567"), "x1234567");
        assert_eq!(grouped(",", &[3], "1234567"), "x1,234,567");
        assert_eq!(grouped(".", &[3, 3], "123"), "x123");
        assert_eq!(grouped(",", &[3, 2], "123456789"), "x12,34,56,789");
        assert_eq!(grouped("'", &[3, 0], "123456789"), "x123456'789");
        assert_eq!(grouped("\u{202f}", &[3], "1000"), "x1\u{202f}000");
    }

    #[test]
    fn a_locale_of_other_lengths_is_refused() {
        assert!(Locale::default().check().is_ok());
        assert!(Locale { days: Vec::new(), ..Locale::default() }.check().is_err());
        assert!(Locale { decimal_point: "x".repeat(65), ..Locale::default() }.check().is_err());
        let german = Locale { decimal_point: ",".to_owned(), ..Locale::default() };
        assert_eq!(Locale::of_json(&german.to_json()), Some(german));
    }
}
