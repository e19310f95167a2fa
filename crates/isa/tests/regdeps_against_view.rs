//! Compares REGDEPS text with the output of drmemtrace's own viewer for the same encodings.
//!
//! The golden file is the viewer's output on a REGDEPS file of the repository; see `traces/` for its origin.

// The lint allows panics in test functions, not in their helpers.
use quipu_isa::{Arch, Decoder, Syntax};

const GOLDEN: &str = include_str!("../../../traces/drmemtrace/golden/view.regdeps.first100.txt");

/// Columns of a line: the kind of record, the words of the encoding, and the text, which follows two words of eight digits.
const KIND_COLUMN: usize = 38;
const WORDS_COLUMN: usize = 82;
const TEXT_COLUMN: usize = WORDS_COLUMN + 18;

/// The words of an encoding and the text of the instruction.
struct Line {
    words: Vec<u32>,
    text: &'static str,
}

fn lines() -> Vec<Line> {
    let words = |text: &str| -> Vec<u32> {
        text.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap()).collect()
    };
    let mut lines: Vec<Line> = Vec::new();
    for line in GOLDEN.lines() {
        if line.contains(" ifetch ") {
            // Outcome and target belong to the execution, not to the instruction.
            let text = &line[TEXT_COLUMN..];
            let text = text.find(" (").map_or(text, |end| &text[..end]);
            lines.push(Line { words: words(&line[WORDS_COLUMN..TEXT_COLUMN]), text });
        } else if line.len() > WORDS_COLUMN && line[KIND_COLUMN..WORDS_COLUMN].trim().is_empty() {
            // Continuation lines hold the rest of an encoding, without a kind of record.
            lines.last_mut().unwrap().words.extend(words(&line[WORDS_COLUMN..]));
        }
    }
    lines
}

#[test]
fn every_line_of_the_viewer_is_reproduced() {
    let mut decoder = Decoder::new(Arch::Regdeps, Syntax::Att).unwrap();
    let lines = lines();
    assert_eq!(lines.len(), 65);
    assert_eq!(lines.iter().filter(|line| line.words.len() == 3).count(), 1);
    for line in lines {
        let bytes: Vec<u8> = line.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut text = String::new();
        decoder.text(0, &bytes, &mut text);
        assert_eq!(text, line.text);
        assert_eq!(usize::from(decoder.decode(0, &bytes).unwrap().len), bytes.len(), "{text}");
    }
}
