//! Disassembly of each distinct instruction once, as lines of bytes and text.

use quipu_isa::{Arch, Decoder, Syntax};
use quipu_model::Code;
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::ops::Range;

/// Bytes that fit beside the text on x86.
const BYTES_PER_LINE: usize = 7;
/// Words that fit beside the text of a `REGDEPS` instruction.
const WORDS_PER_LINE: usize = 2;

/// Texts of instructions by shard and index in the shard's code table.
pub(crate) struct AsmCache {
    arch: Option<Arch>,
    decoder: Option<Decoder>,
    /// The texts of all instructions, concatenated.
    text: String,
    /// First line and further lines of each distinct instruction.
    lines: Vec<(Range<usize>, Range<usize>)>,
    by_code: FxHashMap<Code, u32>,
    /// For each shard, the position in `lines` of each code, or `u32::MAX`.
    by_index: Vec<Vec<u32>>,
}

impl AsmCache {
    /// An empty cache.
    pub(crate) fn new(arch: Option<Arch>, syntax: Syntax) -> AsmCache {
        AsmCache {
            arch,
            decoder: arch.and_then(|arch| Decoder::new(arch, syntax).ok()),
            text: String::new(),
            lines: Vec::new(),
            by_code: FxHashMap::default(),
            by_index: Vec::new(),
        }
    }

    /// The first line of instruction `index` of `shard` (bytes, padded, and text) and the further lines of bytes.
    #[inline]
    pub(crate) fn get(&mut self, shard: u32, index: u32, code: &Code) -> (&[u8], &[u8]) {
        let (shard, index) = (shard as usize, index as usize);
        let known = self.by_index.get(shard).and_then(|indexes| indexes.get(index)).copied();
        let line = match known {
            Some(line) if line != u32::MAX => line,
            _ => self.add(shard, index, code),
        };
        let (first, more) = self.lines[line as usize].clone();
        (&self.text.as_bytes()[first], &self.text.as_bytes()[more])
    }

    #[cold]
    fn add(&mut self, shard: usize, index: usize, code: &Code) -> u32 {
        let line = match self.by_code.get(code) {
            Some(line) => *line,
            None => {
                let line = self.lines.len() as u32; // Code tables stay far below 2^32.
                let lines = self.write(code);
                self.lines.push(lines);
                self.by_code.insert(*code, line);
                line
            }
        };
        if self.by_index.len() <= shard {
            self.by_index.resize(shard + 1, Vec::new());
        }
        let indexes = &mut self.by_index[shard];
        if indexes.len() <= index {
            indexes.resize(index + 1, u32::MAX);
        }
        indexes[index] = line;
        line
    }

    fn write(&mut self, code: &Code) -> (Range<usize>, Range<usize>) {
        let pieces = self.pieces(code.bytes());
        let start = self.text.len();
        self.text.push_str(pieces.first().map_or("", String::as_str));
        match &mut self.decoder {
            Some(decoder) => decoder.text(code.pc, code.bytes(), &mut self.text),
            None => self.text.push_str("(no decoder for this architecture)"),
        }
        let end = self.text.len();
        for piece in pieces.iter().skip(1) {
            self.text.push_str(piece.trim_end());
            self.text.push('\n');
        }
        (start..end, end..self.text.len())
    }

    /// Formats the bytes of an encoding as lines for printing; each is padded to the column of the text.
    fn pieces(&self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        match self.arch {
            Some(Arch::Regdeps) => {
                for words in bytes.chunks(4 * WORDS_PER_LINE) {
                    let mut line = String::new();
                    for word in words.chunks(4) {
                        let mut value = [0; 4];
                        value[..word.len()].copy_from_slice(word);
                        let _ = write!(line, "{:08x} ", u32::from_le_bytes(value));
                    }
                    lines.push(format!("{line:<18}"));
                }
            }
            Some(Arch::Aarch64) if bytes.len() == 4 => {
                lines
                    .push(format!("{:08x}   ", u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])));
            }
            _ => {
                for chunk in bytes.chunks(BYTES_PER_LINE) {
                    let mut line = String::new();
                    for byte in chunk {
                        let _ = write!(line, "{byte:02x} ");
                    }
                    lines.push(format!("{line:<21}"));
                }
            }
        }
        lines
    }
}
