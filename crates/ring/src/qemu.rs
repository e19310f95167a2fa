//! The words of the emulator's plugin.
//!
//! The two that there are most of take one word: an access has its upper bit set, the execution of a block has none of
//! the upper eight. All others begin with a word that tells what they are and how many words follow.
//!
//! ```text
//! access     1 | direction 2 | size 3 | instruction in its block 9 | address 49
//! block      0 … | number 32                   a block is executed
//! others     0 | kind 7 | words that follow 16 | 8 | value 32
//! ```

/// Bits of an address that an access has room for.
const ADDR_BITS: u32 = 49;
/// Instructions of a block that an access can tell apart; the emulator makes none longer.
pub const MAX_INSTRS: usize = 512;

/// A memory access as one word, if its address fits.
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

/// The access for the address that follows in [`Kind::Wide`].
pub fn wide_access(direction: u32, size_shift: u32, instr: u64) -> u64 {
    access_head(direction, size_shift, instr)
}

/// True for an access.
#[inline(always)]
pub fn is_access(word: u64) -> bool {
    word >> 63 != 0
}

/// What an access says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its instruction, counted from 0 in the block.
    pub instr: u16,
    /// Bit 0: it reads; bit 1: it writes.
    pub direction: u8,
    /// Bytes.
    pub size: u16,
    /// Where.
    pub addr: u64,
}

impl Access {
    /// Takes an access apart.
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

/// What the words are that are no accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A block is executed; its number is the value.
    Block = 0,
    /// An access (first word that follows) to an address that does not fit in it (second).
    Wide = 1,
    /// A block was translated; its number is the value. Then: the address; instructions | bytes << 32; the lengths of the
    /// instructions, a byte each; their bytes.
    Code = 2,
    /// A system call of this number begins; then clock, processor, six arguments.
    Syscall = 3,
    /// It ends; then clock, processor, result.
    SyscallEnd = 4,
    /// The clock, in microseconds since 1970, and the processor.
    Clock = 5,
    /// A thread begins: clock, processor, address where the code of the program begins, process that it was forked from or 0,
    /// a number of the program's that no other in the recording has, and its name, filled up with zeros; the first program
    /// has the number 0 and no name.
    Begin = 6,
    /// The thread ends; then the clock and the processor.
    End = 7,
    /// A signal (value) is given the handler that follows.
    Handler = 8,
    /// Code lies in a file: first address, end, where it begins in the file, bytes of the file's path, and these, filled up
    /// with zeros.
    Module = 9,
}

/// The first word of something that is no access.
pub fn head(kind: Kind, n_following: usize, value: u32) -> u64 {
    (kind as u64) << 56 | (n_following as u64) << 40 | u64::from(value)
}

/// The execution of a block.
#[inline(always)]
pub fn block(number: u32) -> u64 {
    u64::from(number)
}

/// Takes a word apart that is no access: what it is (`None` for what is not known), how many words follow, the value.
#[inline(always)]
pub fn parts(word: u64) -> (Option<Kind>, usize, u32) {
    const KINDS: [Kind; 10] = [
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
