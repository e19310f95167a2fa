//! Capabilities of the surface: width, colours, characters.

use quipu_model::Paint;
use std::io::{self, IsTerminal};

/// The default width, in columns.
const DEFAULT_WIDTH: usize = 100;

/// Minimum width; nothing useful fits into less.
const MIN_WIDTH: usize = 40;

/// Capabilities of the surface on which a document is painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Width of the surface in columns.
    pub width: usize,
    /// The colour sequences that are written.
    pub paint: Paint,
    /// The characters for charts.
    pub charset: Charset,
    /// What becomes of lines that are wider than the surface.
    pub overflow: Overflow,
}

/// What becomes of names and tables that are wider than the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Names are cut, and columns that still find no room continue below the others, so that no line wraps.
    Fold,
    /// Lines are as long as their text, for files and for programs that read them.
    Run,
}

/// The characters for charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Block elements, `▁▂▃▄▅▆▇█`.
    Unicode,
    /// Seven-bit characters only.
    Ascii,
}

impl Look {
    /// A page without colours, `width` columns wide.
    pub fn page(width: usize) -> Look {
        Look {
            width: width.max(MIN_WIDTH),
            paint: Paint::PLAIN,
            charset: Charset::Unicode,
            overflow: Overflow::Fold,
        }
    }

    /// A surface as wide as `COLUMNS` in the environment says, or else as the terminal that standard output is connected to,
    /// or else 100 columns. The environment's locale and terminal type determine the characters; the caller, who knows the
    /// user's options, decides about colours and lines that are too wide.
    pub fn stdout(paint: Paint, overflow: Overflow) -> Look {
        let var = |name: &str| std::env::var(name).ok();
        // The size of standard error's terminal says nothing about a pipe.
        let terminal = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
        let width = width(var("COLUMNS").as_deref(), terminal.map(|(width, _)| width.0));
        Look { paint, overflow, charset: Charset::from_env(var), ..Look::page(width) }
    }

    /// Whether names are cut.
    pub(crate) fn cuts(&self) -> bool {
        self.overflow == Overflow::Fold
    }

    pub(crate) fn heading(&self) -> Ink {
        self.ink([self.paint.bold, ""])
    }

    pub(crate) fn label(&self) -> Ink {
        self.ink([self.paint.dim, ""])
    }

    pub(crate) fn code(&self) -> Ink {
        self.ink([self.paint.code, ""])
    }

    pub(crate) fn chart(&self) -> Ink {
        self.ink([self.paint.data, ""])
    }

    /// The ink for a heat from 0 (nothing happened) to 1.
    pub(crate) fn heat(&self, heat: f64) -> Ink {
        match heat {
            heat if heat <= 0.0 => self.label(),
            heat if heat < 0.5 => self.chart(),
            heat if heat < 0.8 => self.ink([self.paint.mark, ""]),
            _ => self.ink([self.paint.bold, self.paint.fault]),
        }
    }

    fn ink(&self, on: [&'static str; 2]) -> Ink {
        Ink { on, off: self.paint.reset }
    }
}

/// The width that the environment says, or that of the terminal.
fn width(said: Option<&str>, terminal: Option<u16>) -> usize {
    let said = said.and_then(|columns| columns.trim().parse().ok()).filter(|columns| *columns > 0);
    said.or(terminal.map(usize::from)).unwrap_or(DEFAULT_WIDTH)
}

impl Charset {
    /// ASCII for terminals and locales that support nothing else; Unicode otherwise.
    fn from_env(var: impl Fn(&str) -> Option<String>) -> Charset {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| var(name).filter(|value| !value.is_empty()))
            .map(|value| value.to_ascii_uppercase());
        let seven_bit = matches!(locale.as_deref(), Some("C" | "POSIX"));
        let dumb = var("TERM").as_deref() == Some("dumb");
        if seven_bit || dumb { Charset::Ascii } else { Charset::Unicode }
    }
}

/// A style of text: writes the text between the sequences that switch the style on and off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ink {
    on: [&'static str; 2],
    off: &'static str,
}

impl Ink {
    pub(crate) fn write(self, text: &str, out: &mut String) {
        self.on.iter().for_each(|sequence| out.push_str(sequence));
        out.push_str(text);
        out.push_str(self.off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_seven_bit_locale_or_a_dumb_terminal_gives_ascii() {
        let env = |pairs: &'static [(&str, &str)]| {
            Charset::from_env(move |name| {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(env(&[]), Charset::Unicode);
        assert_eq!(env(&[("LANG", "de_DE.UTF-8"), ("TERM", "xterm")]), Charset::Unicode);
        assert_eq!(env(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]), Charset::Ascii);
        assert_eq!(env(&[("LC_ALL", "C.UTF-8")]), Charset::Unicode);
        assert_eq!(env(&[("TERM", "dumb")]), Charset::Ascii);
    }

    #[test]
    fn the_environment_knows_the_width_better_than_the_terminal() {
        assert_eq!(width(Some("72"), Some(132)), 72);
        assert_eq!(width(Some(""), Some(132)), 132);
        assert_eq!(width(Some("0"), Some(132)), 132);
        assert_eq!(width(Some("wide"), None), DEFAULT_WIDTH);
        assert_eq!(width(None, None), DEFAULT_WIDTH);
    }

    #[test]
    fn without_colour_ink_leaves_no_trace() {
        let mut out = String::new();
        Look::page(80).heading().write("plain", &mut out);
        assert_eq!(out, "plain");
    }
}
