//! Texts on a page: nothing in a trace can become an element, an attribute or a script.

use std::fmt::Write as _;

/// Escapes everything that has a meaning in HTML, in elements and in quoted attributes. Control characters, and characters
/// that reorder the text around them, are written as visible escapes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '`' => out.push_str("&#96;"),
            _ if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c)); // Writing to a string cannot fail.
            }
            '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'
            | '\u{2029}' => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}

/// The name of a section for links: letters and digits of its title, made unique by its number.
pub(crate) fn slug(number: usize, title: &str) -> String {
    let mut slug = format!("s{number}");
    for word in title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).take(6) {
        slug.push('-');
        slug.extend(word.chars().take(24).map(|c| c.to_ascii_lowercase()));
    }
    slug
}

/// A number with few digits, for coordinates and values: no exponent, no trailing zeros.
pub(crate) fn short(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The text cut to `width` characters, with a mark if something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    crate::value::cut(text, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_means_anything_in_html() {
        assert_eq!(
            escape("<img src=x onerror='a(\"b\")'>&`\x1b\u{202e}"),
            "&lt;img src=x onerror=&#39;a(&quot;b&quot;)&#39;&gt;&amp;&#96;\\x1b\\u{202e}"
        );
    }

    #[test]
    fn slugs_are_made_of_letters_digits_and_dashes() {
        assert_eq!(slug(3, "Working \"set\" <b>"), "s3-working-set-b");
        assert_eq!(slug(0, "→"), "s0");
    }

    #[test]
    fn coordinates_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (2.0, "2"),
            (1.0 / 3.0, "0.33"),
            (f64::NAN, "0"),
            (1e15, "1000000000000000"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
