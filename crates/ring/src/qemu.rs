//! The words of the QEMU plugin.
//!
//! The two most frequent kinds take one word: an access has its top bit set, and the execution of a block has its upper eight
//! bits clear. All others begin with a word that gives their kind and the number of words that follow.
//!
//! ```text
//! access     1 | direction 2 | size 3 | instruction in its block 9 | address 49
//! block      0 … | number 32                   a block is executed
//! others     0 | kind 7 | words that follow 16 | 8 | value 32
//! ```

/// Bits of an address that fit into an access.
const ADDR_BITS: u32 = 49;
/// Maximum number of instructions of a block that an access can distinguish; QEMU's blocks are not longer.
pub const MAX_INSTRS: usize = 512;

/// Encodes a memory access as one word; `None` if its address does not fit.
#[inline(always)]
pub fn access(direction: u32, size_shift: u32, instr: u64, addr: u64) -> Option<u64> {
    if addr >> ADDR_BITS != 0 {
        return None;
    }
    Some(access_head(direction, size_shift, instr) | addr)
}

#[inline(always)]
fn access_head(direction: u32, size_shift: u32, instr: u64) -> u64 {
    1 << 63 | u64::from(direction & 3) << 61 | u64::from(size_shift & 7) << 58 | instr << ADDR_BITS
}

/// Encodes the access of [`Kind::Wide`], whose address is in the word after it.
pub fn wide_access(direction: u32, size_shift: u32, instr: u64) -> u64 {
    access_head(direction, size_shift, instr)
}

/// True if a word is an access.
#[inline(always)]
pub fn is_access(word: u64) -> bool {
    word >> 63 != 0
}

/// A decoded access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of its instruction in the block, from 0.
    pub instr: u16,
    /// Bit 0: reads; bit 1: writes.
    pub direction: u8,
    /// Size in bytes.
    pub size: u16,
    /// Address.
    pub addr: u64,
}

impl Access {
    /// Decodes an access.
    #[inline(always)]
    pub fn of(word: u64) -> Access {
        Access {
            instr: (word >> ADDR_BITS) as u16 & (MAX_INSTRS as u16 - 1),
            direction: (word >> 61) as u8 & 3,
            size: 1 << (word >> 58 & 7),
            addr: word & ((1 << ADDR_BITS) - 1),
        }
    }
}

/// Kinds of words other than accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Execution of a block; the value is its number.
    Block = 0,
    /// An access whose address does not fit; two words follow, the access and the address.
    Wide = 1,
    /// Translation of a block; the value is its number. Followed by: the address; instructions | bytes << 32; the lengths of
    /// the instructions, a byte each; their bytes.
    Code = 2,
    /// Start of a system call; the value is its number. Followed by the clock, the processor and six arguments.
    Syscall = 3,
    /// End of a system call. Followed by the clock, the processor and the result.
    SyscallEnd = 4,
    /// The clock, in microseconds since 1970, and the processor.
    Clock = 5,
    /// Start of a thread. Followed by the clock, the processor, the start address of the program's code, the process that it
    /// was forked from or 0, a number of the program that is unique in the recording, and its name, padded with zeros. The
    /// first program has the number 0 and no name.
    Begin = 6,
    /// End of the thread. Followed by the clock and the processor.
    End = 7,
    /// A signal (value) gets the handler that follows.
    Handler = 8,
    /// A mapping of code from a file, of the program with this number (value). Followed by: first address, end, offset in
    /// the file, bytes of the path, and the path, padded with zeros.
    Module = 9,
    /// Blocks before this place were left out.
    Lost = 10,
}

/// Encodes the first word of anything but an access.
pub fn head(kind: Kind, n_following: usize, value: u32) -> u64 {
    (kind as u64) << 56 | (n_following as u64) << 40 | u64::from(value)
}

/// Encodes the execution of a block.
#[inline(always)]
pub fn block(number: u32) -> u64 {
    u64::from(number)
}

/// Decodes a word that is not an access: its kind (`None` if unknown), the number of words that follow, and the value.
#[inline(always)]
pub fn parts(word: u64) -> (Option<Kind>, usize, u32) {
    const KINDS: [Kind; 11] = [
        Kind::Block,
        Kind::Wide,
        Kind::Code,
        Kind::Syscall,
        Kind::SyscallEnd,
        Kind::Clock,
        Kind::Begin,
        Kind::End,
        Kind::Handler,
        Kind::Module,
        Kind::Lost,
    ];
    let kind = KINDS.get((word >> 56) as usize & 0x7f).copied();
    (kind, (word >> 40) as usize & 0xffff, word as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_taken_apart_as_it_was_put_together() {
        let word = access(2, 3, 511, 0x7fff_1234_5678).unwrap();
        assert!(is_access(word));
        assert_eq!(Access::of(word), Access { instr: 511, direction: 2, size: 8, addr: 0x7fff_1234_5678 });
        assert_eq!(access(1, 0, 0, 1 << 49), None);
    }

    #[test]
    fn other_words_are_taken_apart_as_they_were_put_together() {
        assert_eq!(parts(head(Kind::Handler, 1, 11)), (Some(Kind::Handler), 1, 11));
        assert_eq!(parts(block(77)), (Some(Kind::Block), 0, 77));
        assert_eq!(parts(99 << 56).0, None);
    }
}
