//! `disassemble` and `assemble`: the stream as text that people can edit, and back.
//!
//! The text describes each event, in the order of the stream, so that assembling it gives the same stream byte for byte.
//! Events that text cannot express (numbers longer than necessary, an event that is cut) are written as raw bytes.
//!
//! ```text
//! text      = "quipu-text apitrace 1" [ header ] { statement }
//! header    = "version" N [ "semantic" N ] { "property" string "=" string } | "raw" bytes
//! statement = type | call | leave | [ N ":" ] "raw" bytes | "tail" bytes
//! type      = "function" N name "(" names ")"        | "struct" N name "{" names "}"
//!           | "enum" N "{" { name "=" integer } "}"  | "flags" N "{" { name "=" N } "}"
//!           | "frame" N "{" { ( "module" | "function" | "file" ) string | ( "line" | "offset" ) N } "}"
//! call      = [ N ":" ] [ "@" N ] [ "enter" ] name [ "#" N ] "(" args ")" marks [ "->" "(" args ")" ] [ "=" value ]
//! leave     = "leave" ( N | "#" N ) "(" args ")" marks [ "=" value ]
//! args      = [ arg { "," arg } ]      arg = ( name | "#" N ) "=" value
//! marks     = { "!" ( "fake" | "flags" N | "stack" "[" [ N { "," N } ] "]" ) }
//! value     = "null" | "true" | "false" | integer | N.N | N.N"f" | "0x"N | string | "L" string | bytes
//!           | "[" values "]" | name "{" members "}" | "struct" N "{" members "}" | "pair" "(" value "," value ")"
//!           | name | "enum" N "(" ( name | integer ) ")" | name "|" … | "flags" N "(" ( name | N ) { "|" … } ")"
//!           | "float" "(" N ")" | "double" "(" N ")"
//! bytes     = "hex" string | "blob" string
//! ```
//!
//! | file | what |
//! |---|---|
//! | [`disassemble`] | the whole way from a trace to a text with its files of raw memory |
//! | [`assemble`] | the whole way back |
//! | `walk` | converts one event of the stream to text |
//! | `put` | writes types, names, strings and numbers as text |
//! | `parse`, `values` | converts statements to events, and values |
//! | `lexer` | splits the bytes of the text into words, with lines and columns |
//! | `names` | the types declared so far, and the meaning of bare names; the same in both directions |
//!
//! docs/formats/apitrace.md, "Text and back", describes the text for people who edit it.

pub mod assemble;
pub mod disassemble;
mod lexer;
mod names;
mod parse;
mod put;
mod values;
mod walk;

/// The first words of a text: its kind, its format, and the version of its grammar.
pub const MAGIC: &str = "quipu-text apitrace 1";

/// Raw memory of at most this many bytes is written in the text itself.
const MAX_INLINE_BYTES: usize = 64;

/// Keywords, which are not names where a value or a statement may begin.
const WORDS: &[&str] = &[
    "L", "blob", "double", "enter", "enum", "false", "flags", "float", "frame", "function", "hex", "leave",
    "null", "pair", "property", "raw", "semantic", "struct", "tail", "true", "version",
];

/// True if a name can be written without quotes.
fn is_bare(name: &[u8]) -> bool {
    let mut rest = name;
    // Parts joined by two colons.
    loop {
        let n = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_~".contains(byte)).count();
        if n == 0 || rest[0].is_ascii_digit() {
            return false;
        }
        rest = &rest[n..];
        match rest {
            [] => break,
            [b':', b':', more @ ..] => rest = more,
            _ => return false,
        }
    }
    !WORDS.iter().any(|word| word.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_read_as_words_or_signs_are_quoted() {
        for name in ["glClear", "ID3D::Present", "_x", "A~B", "std::a::~b"] {
            assert!(is_bare(name.as_bytes()), "{name}");
        }
        for name in ["", "1a", "a b", "a:b", "a::", "::a", "f(int)", "leave", "L", "é"] {
            assert!(!is_bare(name.as_bytes()), "{name}");
        }
    }
}
