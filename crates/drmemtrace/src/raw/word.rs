//! The word of a raw file: 8 bytes, with its kind in the top three bits.
//!
//! SPEC: drmemtrace.md#raw-folders. This file knows words, not files.

use crate::record::{FileType, Marker, Type};

/// A decoded word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A data access or part of one.
    Address(u64),
    /// A block of instructions in a module, or in generated code.
    Block {
        /// Position in the module list; [`GENERATED`] for generated code.
        module: u64,
        /// Offset of the block in the module; for generated code, the number of its encoding.
        offset: u64,
        /// Number of instructions in the block.
        instrs: u64,
    },
    /// The thread of the following words.
    Thread(u64),
    /// Its process.
    Process(u64),
    /// A clock reading: microseconds since 1601.
    Clock(u64),
    /// A PC with its top bits, or half of a flush in traces of 32-bit programs.
    TopPc(u64),
    /// A header.
    Header {
        /// Version of the raw format.
        version: u64,
        /// File-type bits.
        filetype: FileType,
    },
    /// The end.
    Footer,
    /// A marker.
    Marker {
        /// Its kind.
        kind: Marker,
        /// Its value, 48 bits of it.
        value: u64,
    },
    /// The type and size of the next access, if they are only known at run time.
    Access {
        /// The type of the access.
        kind: Type,
        /// Its size in bytes.
        size: u64,
    },
    /// The base address of a gathering or scattering access.
    Base(u64),
    /// An unknown extension: its code.
    Extended(u64),
}

/// The module of generated code.
pub const GENERATED: u64 = 0xffff;

/// Code of the old kind of header, whose version and file type are swapped against the new kind.
const OLD_HEADER: u64 = 0;

impl Word {
    /// Decodes a word. Every value is valid.
    pub fn decode(word: u64) -> Word {
        let rest = word & (u64::MAX >> 3);
        match word >> 61 {
            0 => Word::Address(rest),
            1 => Word::Block {
                offset: word & ((1 << 33) - 1),
                module: (word >> 33) & 0xffff,
                instrs: (word >> 49) & 0xfff,
            },
            2 => Word::Thread(rest),
            3 => Word::Process(rest),
            4 => Word::Clock(rest),
            5 => Word::TopPc(rest),
            6 => Word::extended(word & ((1 << 48) - 1), (word >> 48) & 0xff, (word >> 56) & 0x1f),
            // High addresses have their own top bits set.
            _ => Word::Address(word),
        }
    }

    fn extended(a: u64, b: u64, code: u64) -> Word {
        match code {
            OLD_HEADER => Word::Header { version: a, filetype: FileType(b) },
            1 => Word::Footer,
            2 => Word::Marker { kind: Marker(b as u16), value: a }, // 8 bits.
            3 => Word::Access { kind: Type(b as u16), size: a },    // 8 bits.
            4 => Word::Header { version: b, filetype: FileType(a) },
            5 => Word::Base(a),
            code => Word::Extended(code),
        }
    }

    /// The sort of the word, as a position in the names of sorts.
    pub(super) fn sort(self) -> u8 {
        match self {
            Word::Address(_) => 0,
            Word::Block { .. } => 1,
            Word::Thread(_) => 2,
            Word::Process(_) => 3,
            Word::Clock(_) => 4,
            Word::TopPc(_) => 5,
            Word::Header { .. } => 6,
            Word::Footer => 7,
            Word::Marker { .. } => 8,
            Word::Access { .. } => 9,
            Word::Base(_) => 10,
            Word::Extended(_) => 11,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_bits_say_what_a_word_is() {
        let marker = Word::Marker { kind: Marker(3), value: 5 };
        for (word, expected) in [
            (0x0000_7fff_1234_5678, Word::Address(0x7fff_1234_5678)),
            (0xffff_ffff_1234_5678, Word::Address(0xffff_ffff_1234_5678)),
            (0x2006_0002_0000_0678, Word::Block { module: 1, offset: 0x678, instrs: 3 }),
            (0x4000_0000_0000_3f93, Word::Thread(16275)),
            (0x6000_0000_0000_3f93, Word::Process(16275)),
            (0x8000_0000_0000_0007, Word::Clock(7)),
            (0xc004_0000_0000_0002, Word::Header { version: 2, filetype: FileType(4) }),
            (0xc408_0000_0000_0e40, Word::Header { version: 8, filetype: FileType(0xe40) }),
            (0xc100_0000_0000_0000, Word::Footer),
            (0xc203_0000_0000_0005, marker),
            (0xc301_0000_0000_0008, Word::Access { kind: Type::WRITE, size: 8 }),
            (0xc500_0000_0000_1000, Word::Base(0x1000)),
            (0xdf00_0000_0000_0000, Word::Extended(31)),
        ] {
            assert_eq!(Word::decode(word), expected, "{word:#x}");
        }
    }
}
