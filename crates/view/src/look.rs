//! Capabilities of the surface: width, colours, characters.

use quipu_model::Paint;

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
        Look { width: width.max(MIN_WIDTH), paint: Paint::PLAIN, charset: Charset::Unicode }
    }

    /// The terminal that standard output is connected to, or a page of 100 columns. The environment's locale and terminal
    /// type determine the characters; the caller, who knows the user's options, decides about colours.
    pub fn stdout(paint: Paint) -> Look {
        let width = terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0));
        Look { paint, charset: Charset::from_env(|name| std::env::var(name).ok()), ..Look::page(width) }
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
    fn without_colour_ink_leaves_no_trace() {
        let mut out = String::new();
        Look::page(80).heading().write("plain", &mut out);
        assert_eq!(out, "plain");
    }
}
