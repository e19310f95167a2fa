//! Tokens of a script.

/// A word, number, literal or single-byte sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or keyword.
    Word(String),
    /// A number as written.
    Number(String),
    /// Content of a string literal, with escapes decoded.
    Text(Vec<u8>),
    /// A character literal.
    Letter,
    /// Any other byte.
    Sign(u8),
}

/// Tokens of a script, without comments and preprocessor lines.
pub(super) fn of(text: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut begins_line = true;
    while let Some((first, after)) = rest.split_first() {
        let skip_to = |end: Option<usize>| end.map_or(&rest[rest.len()..], |end| &rest[end..]);
        match first {
            b'\n' => {
                (begins_line, rest) = (true, after);
                continue;
            }
            byte if byte.is_ascii_whitespace() => {
                rest = after;
                continue;
            }
            b'#' if begins_line => {
                rest = skip_to(rest.iter().position(|byte| *byte == b'\n'));
                continue;
            }
            b'/' if after.first() == Some(&b'*') => {
                let end = rest.windows(2).skip(2).position(|pair| pair == b"*/");
                rest = skip_to(end.map(|end| end + 4));
            }
            b'/' if after.first() == Some(&b'/') => {
                rest = skip_to(rest.iter().position(|byte| *byte == b'\n'));
            }
            quote @ (b'"' | b'\'') => {
                let (content, n_bytes) = quoted(after, *quote);
                tokens.push(if *quote == b'"' { Token::Text(content) } else { Token::Letter });
                rest = &after[n_bytes..];
            }
            byte if is_of_word(*byte) => {
                let n_bytes = rest.iter().position(|byte| !is_of_word(*byte)).unwrap_or(rest.len());
                let word = String::from_utf8_lossy(&rest[..n_bytes]).into_owned();
                tokens.push(if byte.is_ascii_digit() { Token::Number(word) } else { Token::Word(word) });
                rest = &rest[n_bytes..];
            }
            byte => {
                tokens.push(Token::Sign(*byte));
                rest = after;
            }
        }
        begins_line = false;
    }
    tokens
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Content before the closing quote, and the number of bytes up to and including the quote.
fn quoted(text: &[u8], quote: u8) -> (Vec<u8>, usize) {
    let mut content = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            byte if *byte == quote => break,
            b'\\' => {
                let (byte, n_bytes) = escaped(&text[at..]);
                content.push(byte);
                at += n_bytes;
            }
            byte => content.push(*byte),
        }
    }
    (content, at)
}

/// The byte that an escape after a backslash stands for, and the number of bytes that it takes.
fn escaped(text: &[u8]) -> (u8, usize) {
    let Some(first) = text.first() else { return (b'\\', 0) };
    let digits = |from: usize, radix: u32, most: usize| {
        let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
        let n_digits = text[from..].iter().take(most).take_while(is_digit).count();
        let digits = std::str::from_utf8(&text[from..from + n_digits]).unwrap_or_default();
        let value = u32::from_str_radix(digits, radix).unwrap_or(0);
        ((value & 0xff) as u8, from + n_digits) // Only the low byte counts.
    };
    match first {
        b'0'..=b'7' => digits(0, 8, 3),
        b'x' => digits(1, 16, 2),
        b'n' => (b'\n', 1),
        b't' => (b'\t', 1),
        b'r' => (b'\r', 1),
        b'a' => (7, 1),
        b'b' => (8, 1),
        b'v' => (11, 1),
        b'f' => (12, 1),
        byte => (*byte, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_pragmas_are_no_words() {
        let tokens = of(b"#pragma D option quiet\n/* a */ x=0x1F/2; // b\n\"a\\t\\\"\\101\\x42\" '\\n' y");
        let expected = [
            Token::Word("x".into()),
            Token::Sign(b'='),
            Token::Number("0x1F".into()),
            Token::Sign(b'/'),
            Token::Number("2".into()),
            Token::Sign(b';'),
            Token::Text(b"a\t\"AB".to_vec()),
            Token::Letter,
            Token::Word("y".into()),
        ];
        assert_eq!(tokens, expected);
    }
}
