//! Makes text from traces safe for terminals, which obey control characters, for spreadsheets, which evaluate formulas, and for
//! shells, into which users copy commands.

use std::io::Write;

/// True for characters that terminals obey or that reorder a line: control characters, direction overrides, and separators of
/// lines and paragraphs.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Appends a character as an escape: `\x1b` for bytes, `\u{202e}` for the rest.
pub fn escape(c: char, out: &mut Vec<u8>) {
    let number = u32::from(c);
    // Writing to a vector cannot fail.
    let _ = if number < 0x80 { write!(out, "\\x{number:02x}") } else { write!(out, "\\u{{{number:x}}}") };
}

/// Appends text with its control characters, and bytes that are not UTF-8, as escapes. Characters for which `keeps` returns
/// true stay.
pub fn append(text: &[u8], keeps: impl Fn(char) -> bool, out: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        let mut plain = 0;
        for (at, c) in chunk.valid().char_indices().filter(|(_, c)| is_control(*c) && !keeps(*c)) {
            out.extend_from_slice(&chunk.valid().as_bytes()[plain..at]);
            escape(c, out);
            plain = at + c.len_utf8();
        }
        out.extend_from_slice(&chunk.valid().as_bytes()[plain..]);
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

/// The text with the same escapes for all control characters.
pub fn escaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    append(text.as_bytes(), |_| false, &mut out);
    // Escapes of characters are ASCII, and the rest of the text stays.
    String::from_utf8_lossy(&out).into_owned()
}

/// True if terminals obey nothing in the text, and all of it is UTF-8.
pub fn is_harmless(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| !text.contains(is_control))
}

/// Appends a text as a cell of comma-separated values, in quotes if it needs them or `quoted` asks for them.
///
/// Control characters other than line feed and tab, and bytes that are not UTF-8, become escapes. A spreadsheet treats a text
/// that begins with `=`, `+`, `-`, `@` or a tab as a formula: such a text gets an apostrophe before it, unless it is a
/// number. A text that begins with apostrophes followed by one of these also gets one, so that readers can undo it: they
/// remove one apostrophe from a cell in which apostrophes precede such a character.
pub fn csv_cell(text: &[u8], quoted: bool, out: &mut Vec<u8>) {
    let quoted = quoted || text.iter().any(|byte| b",\"\r\n".contains(byte));
    if quoted {
        out.push(b'"');
    }
    if is_formula(text) {
        out.push(b'\'');
    }
    let keeps = |c| c == '\n' || c == '\t';
    if quoted {
        for (nth, part) in text.split(|byte| *byte == b'"').enumerate() {
            if nth > 0 {
                out.extend_from_slice(b"\"\"");
            }
            append(part, keeps, out);
        }
        out.push(b'"');
    } else {
        append(text, keeps, out);
    }
}

/// Appends a text as a field of a table that has tabs between fields and one line for each row.
///
/// As in [`csv_cell`], control characters and bytes that are not UTF-8 become escapes, and an apostrophe precedes a text that
/// a spreadsheet would treat as a formula. Tabs and line feeds also become escapes.
pub fn tsv_field(text: &[u8], out: &mut Vec<u8>) {
    // A leading tab becomes an escape, which does not begin a formula.
    if is_formula(text) && text.first() != Some(&b'\t') {
        out.push(b'\'');
    }
    append(text, |_| false, out);
}

/// The text as one word for a shell, in quotes if it needs them.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./+,:=@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn is_formula(text: &[u8]) -> bool {
    let n_quotes = text.iter().take_while(|byte| **byte == b'\'').count();
    let is_number = || std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok());
    text.get(n_quotes).is_some_and(|byte| b"=+-@\t".contains(byte)) && !is_number()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(text: &[u8]) -> String {
        let mut out = Vec::new();
        csv_cell(text, false, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_terminals_obey_is_escaped() {
        let mut out = Vec::new();
        let text = "a\x1b]0;x\x07\0\x7f\u{9b}2J\u{202e}é\n".as_bytes();
        append(&[text, b"\xff\xc3"].concat(), |c| c == '\n', &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "a\\x1b]0;x\\x07\\x00\\x7f\\u{9b}2J\\u{202e}é\n\\xff\\xc3"
        );
    }

    #[test]
    fn a_harmless_text_is_its_own_escaped_form() {
        for text in ["", "plain \u{e9}", "a\x1b[31mb", "a\nb", "a\u{9b}b", "a\u{202e}b"] {
            assert_eq!(is_harmless(text.as_bytes()), escaped(text) == text, "{text:?}");
        }
        assert!(!is_harmless(b"\xff"));
        assert_eq!(escaped("a\x1b[31m\u{9b}"), "a\\x1b[31m\\u{9b}");
    }

    #[test]
    fn fields_between_tabs_hold_neither_tabs_nor_line_feeds() {
        let mut out = Vec::new();
        tsv_field(b"=cmd\x1b]0;p\x07\tA\n1\t2\0", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "'=cmd\\x1b]0;p\\x07\\x09A\\x0a1\\x092\\x00");
        let mut out = Vec::new();
        tsv_field(b"\t=1", &mut out);
        assert_eq!(out, b"\\x09=1");
    }

    #[test]
    fn a_word_for_a_shell_is_quoted_if_it_has_other_characters_than_names() {
        for (text, word) in [
            ("out/a-1.dir", "out/a-1.dir"),
            ("--top=3", "--top=3"),
            ("", "''"),
            ("my trace", "'my trace'"),
            ("it's $x", r"'it'\''s $x'"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }

    #[test]
    fn formulas_are_texts_and_numbers_stay_numbers() {
        for (text, shown) in [
            ("=1+1", "'=1+1"),
            ("@x", "'@x"),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
            ("-x", "'-x"),
            ("\t=1", "'\t=1"),
            ("\r=1", "\"\\x0d=1\""),
            ("'=1", "''=1"),
            ("'plain", "'plain"),
            ("-1.5e3", "-1.5e3"),
            ("+7", "+7"),
            ("a,\"b\"\n", "\"a,\"\"b\"\"\n\""),
        ] {
            assert_eq!(cell(text.as_bytes()), shown);
        }
    }
}
