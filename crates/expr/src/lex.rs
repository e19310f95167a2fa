//! Splits an expression into tokens.

use crate::fault::Source;
use quipu_model::Result;
use std::ops::Range;

/// A token and its byte range in the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Range<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Int(i128),
    Float(f64),
    Text(String),
    /// An unquoted word, in its original case.
    Word(String),
    /// A quoted name.
    Quoted(String),
    Sign(&'static str),
    End,
}

/// Operators and punctuation; longer ones precede their prefixes.
const SIGNS: &[&str] = &[
    "<=", ">=", "<>", "!=", "<<", ">>", "||", "::", "=", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^",
    "~", "(", ")", ",",
];

/// Splits a text into tokens.
///
/// # Errors
/// `Usage`, with the place, for a character that begins no token.
pub(crate) fn tokens(source: &Source) -> Result<Vec<Token>> {
    let text = source.text();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        if letter.is_whitespace() {
            at += letter.len_utf8();
            continue;
        }
        let (kind, n) = token(source, at, letter)?;
        tokens.push(Token { kind, span: span(at, at + n) });
        at += n;
    }
    tokens.push(Token { kind: TokenKind::End, span: span(at, at) });
    Ok(tokens)
}

/// A byte range of a text, whose length is limited.
fn span(start: usize, end: usize) -> Range<u32> {
    start as u32..end as u32
}

/// The token at a place, and its length in bytes.
fn token(source: &Source, at: usize, first: char) -> Result<(TokenKind, usize)> {
    let rest = &source.text()[at..];
    match first {
        '\'' => match quoted(rest, '\'') {
            Some((text, n)) => Ok((TokenKind::Text(text), n)),
            None => Err(source.error("a text that no quote ends", &span(at, at + 1))),
        },
        '"' => match quoted(rest, '"') {
            Some((name, n)) => Ok((TokenKind::Quoted(name), n)),
            None => Err(source.error("a name that no quote ends", &span(at, at + 1))),
        },
        '0'..='9' => number(source, at),
        '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => number(source, at),
        _ if first.is_alphabetic() || first == '_' => {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
            let n = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            Ok((TokenKind::Word(rest[..n].to_owned()), n))
        }
        _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => Ok((TokenKind::Sign(sign), sign.len())),
            None => {
                let message = format!("`{first}` has no meaning here");
                Err(source.error(&message, &span(at, at + first.len_utf8())))
            }
        },
    }
}

/// The contents of a quoted text, in which a doubled quote stands for one, and the length in bytes including the quotes.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut out = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != quote {
            out.push(letter);
        } else if letters.peek().is_some_and(|(_, next)| *next == quote) {
            out.push(quote);
            letters.next();
        } else {
            return Some((out, at + 1));
        }
    }
    None
}

fn number(source: &Source, at: usize) -> Result<(TokenKind, usize)> {
    let rest = &source.text()[at..];
    let bytes = rest.as_bytes();
    let run = |from: usize, is_part: &dyn Fn(u8) -> bool| {
        bytes[from..].iter().position(|byte| !is_part(*byte)).map_or(bytes.len(), |n| from + n)
    };
    let digits = |from: usize| run(from, &|byte: u8| byte.is_ascii_digit());
    let is_hex = rest.starts_with("0x") || rest.starts_with("0X");
    let (mut n, mut is_float) = (0, false);
    if is_hex {
        n = run(2, &|byte: u8| byte.is_ascii_hexdigit());
    } else {
        n = digits(n);
        if bytes.get(n) == Some(&b'.') {
            (n, is_float) = (digits(n + 1), true);
        }
        if matches!(bytes.get(n), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(n + 1), Some(b'+' | b'-')));
            let end = digits(n + 1 + sign);
            if end > n + 1 + sign {
                (n, is_float) = (end, true);
            }
        }
    }
    // A number directly followed by letters is an error: `12ab`, `0xg`.
    let end = run(n, &|byte: u8| byte.is_ascii_alphanumeric() || byte == b'_');
    let wrong = |message: &str| source.error(message, &span(at, at + end));
    if end > n || (is_hex && n == 2) {
        return Err(wrong("this is no number"));
    }
    let text = &rest[..n];
    if is_float {
        let number: f64 = text.parse().map_err(|_| wrong("this is no number"))?;
        return Ok((TokenKind::Float(number), n));
    }
    let int = if is_hex { i128::from_str_radix(&text[2..], 16) } else { text.parse() };
    Ok((TokenKind::Int(int.map_err(|_| wrong("a number with more than 127 bits"))?), n))
}
