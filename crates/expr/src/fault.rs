//! Errors that point at a place in an expression.

use quipu_model::options::nearest;
use quipu_model::{Error, Place};
use std::ops::Range;
use std::sync::Arc;

/// The text of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source(Arc<str>);

/// Characters of the line that an error shows on each side of the place.
const SHOWN: usize = 60;

impl Source {
    /// Wraps a text.
    pub fn new(text: &str) -> Source {
        Source(text.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// An error for a place: the message, the line of the text, and marks under the place.
    #[cold]
    pub(crate) fn error(&self, message: &str, span: &Range<u32>) -> Error {
        Error::usage(format!("{message}\n{}", self.marked(span)))
    }

    /// Does the same for the value of a row, with its record number.
    #[cold]
    pub(crate) fn error_at(&self, message: &str, span: &Range<u32>, record: Option<u64>) -> Error {
        self.error(message, span).at(&Place { record, ..Place::default() })
    }

    /// Does the same for an unknown name, with the most similar known name as a hint, or else all known names.
    #[cold]
    pub(crate) fn unknown<'n>(
        &self,
        message: &str,
        span: &Range<u32>,
        name: &str,
        known: impl Iterator<Item = &'n str> + Clone,
    ) -> Error {
        let error = self.error(message, span);
        match nearest(name, known.clone()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => {
                let known: Vec<&str> = known.collect();
                error.hint(format!("there are: {}", known.join(", ")))
            }
        }
    }

    /// The line with the place, and marks below it.
    fn marked(&self, span: &Range<u32>) -> String {
        let text = self.text();
        let (start, end) = (floor(text, span.start as usize), floor(text, span.end as usize));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let from = text[line_start..start].char_indices().rev().nth(SHOWN - 1);
        let from = from.map_or(line_start, |(at, _)| line_start + at);
        let end = end.clamp(start, line_end);
        let to = text[end..line_end].char_indices().nth(SHOWN).map_or(line_end, |(at, _)| end + at);
        // A long place is marked only at its beginning, and the line is cut after it.
        let n_marks = text[start..end].chars().count().clamp(1, SHOWN);
        let to = text[start..to].char_indices().nth(2 * SHOWN).map_or(to, |(at, _)| start + at);
        let plain =
            |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        let before = text[from..start].chars().count();
        format!("    {}\n    {}{}", plain(&text[from..to]), " ".repeat(before), "^".repeat(n_marks))
    }
}

/// The nearest character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
