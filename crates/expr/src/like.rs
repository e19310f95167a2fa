//! `LIKE` patterns: `%` matches any characters, `_` matches one. Matching takes at most time proportional to the product of
//! both lengths.

use crate::tree::Like;

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Letter(char),
    /// `_`
    One,
    /// `%`
    Any,
}

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
    is_caseless: bool,
}

impl Pattern {
    pub(crate) fn new(text: &[u8], how: Like) -> Pattern {
        let text = String::from_utf8_lossy(text);
        let mut parts = Vec::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            let part = match letter {
                // At the end of the pattern, it stands for itself.
                _ if letter == how.escape => Part::Letter(letters.next().unwrap_or(letter)),
                '%' => Part::Any,
                '_' => Part::One,
                _ => Part::Letter(letter),
            };
            // A repeated `%` is redundant.
            if part != Part::Any || parts.last() != Some(&Part::Any) {
                parts.push(part);
            }
        }
        Pattern { parts, is_caseless: how.is_caseless }
    }

    /// True if the pattern matches the whole text. After a mismatch, the last `%` takes one more character; earlier ones need
    /// not be tried again.
    pub(crate) fn fits(&self, text: &[u8]) -> bool {
        let text = String::from_utf8_lossy(text);
        let mut rest = text.chars();
        let mut at = 0;
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            match self.parts.get(at) {
                Some(Part::Any) => {
                    at += 1;
                    retry = Some((at, rest.clone()));
                    continue;
                }
                part => {
                    let mut ahead = rest.clone();
                    let is_over = match (part, ahead.next()) {
                        (None, None) => return true,
                        (Some(part), Some(letter)) if self.is_same(*part, letter) => {
                            (at, rest) = (at + 1, ahead);
                            continue;
                        }
                        (_, letter) => letter.is_none(),
                    };
                    // No characters are left for `%` to take.
                    let Some((after, from)) = retry.as_mut().filter(|_| !is_over) else { return false };
                    if from.next().is_none() {
                        return false;
                    }
                    (at, rest) = (*after, from.clone());
                }
            }
        }
    }

    fn is_same(&self, part: Part, letter: char) -> bool {
        match part {
            Part::Letter(other) if self.is_caseless => other.to_lowercase().eq(letter.to_lowercase()),
            Part::Letter(other) => other == letter,
            Part::One => true,
            Part::Any => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, text: &str) -> bool {
        let how = Like { is_negated: false, is_caseless: false, escape: '\\' };
        Pattern::new(pattern.as_bytes(), how).fits(text.as_bytes())
    }

    #[test]
    fn signs_stand_for_letters() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("%", "anything", true),
            ("gl%", "glDraw", true),
            ("gl%", "wgl", false),
            ("%gl%", "wglx", true),
            ("a_c", "abc", true),
            ("a_c", "ac", false),
            ("a_c", "aßc", true),
            ("%ab%ab", "ababab", true),
            ("%ab%ab", "abab ", false),
            (r"100\%", "100%", true),
            (r"100\%", "1000", false),
            ("A%", "abc", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
        let how = Like { is_negated: false, is_caseless: true, escape: '!' };
        assert!(
            Pattern::new(b"GL!_%", how).fits(b"gl_draw") && !Pattern::new(b"GL!_%", how).fits(b"glxdraw")
        );
    }

    #[test]
    fn a_pattern_of_many_signs_takes_no_exponential_time() {
        let pattern = "%a".repeat(2000) + "b";
        assert!(!fits(&pattern, &"a".repeat(4000)));
    }
}
