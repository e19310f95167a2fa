//! Facts about each instruction that the checks use, decoded once and kept in a flat table by address.
//!
//! A slot is half a cache line and is found by hashing the address, so that looking an instruction up costs one access to
//! memory. Memory: about 100 bytes for each distinct address, whatever the length of the trace.

use crate::record::Type;
use quipu_isa::{Access, Class, Decoder, Instr, Mem};
use quipu_model::code::MAX_CODE_BYTES;

/// Facts about the instruction at one address.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    pub(super) pc: u64,
    /// Target of a direct branch, relative to `pc`, if [`flag::TARGET`] is set.
    offset: i32,
    /// Index of its bytes in `Table::codes`.
    code: u32,
    /// The chunk that gave the encoding last, counted from 1; 0 in a free slot.
    pub(super) chunk: u32,
    pub(super) flags: u16,
    /// Bytes of each read and of each write; 0 if they differ or are unknown.
    pub(super) read_bytes: u16,
    pub(super) write_bytes: u16,
    /// Bytes as fetched.
    pub(super) size: u8,
    /// The latest type of its executions, without branch outcomes; see [`plain_kind`].
    pub(super) kind: u8,
    /// Number of reads (including prefetches and flushes) and of writes.
    pub(super) reads: u8,
    pub(super) writes: u8,
}

/// Bits of [`Facts::flags`].
pub(super) mod flag {
    /// The encoding was decoded.
    pub(in crate::check) const VALID: u16 = 1;
    /// It is a system call.
    pub(in crate::check) const SYSCALL: u16 = 1 << 1;
    /// It writes memory.
    pub(in crate::check) const WRITES: u16 = 1 << 2;
    /// Its number of accesses is unknown.
    pub(in crate::check) const UNCOUNTED: u16 = 1 << 3;
    /// It may make no access at all.
    pub(in crate::check) const OPTIONAL: u16 = 1 << 4;
    /// In kernel code it may read more than its operands say.
    pub(in crate::check) const KERNEL_READS: u16 = 1 << 5;
    /// In kernel code it may write more than its operands say.
    pub(in crate::check) const KERNEL_WRITES: u16 = 1 << 6;
    /// It is a prefetch.
    pub(in crate::check) const PREFETCH: u16 = 1 << 7;
    /// It waits for an interrupt.
    pub(in crate::check) const HLT: u16 = 1 << 8;
    /// It allows interrupts.
    pub(in crate::check) const STI: u16 = 1 << 9;
    /// Its target is known.
    pub(in crate::check) const TARGET: u16 = 1 << 10;
    /// Flags that need handling when the instruction is executed.
    pub(in crate::check) const SPECIAL: u16 = SYSCALL | HLT | STI;
}

impl Facts {
    /// The target of a direct branch.
    #[inline]
    pub(super) fn target(&self) -> Option<u64> {
        (self.flags & flag::TARGET != 0).then(|| self.pc.wrapping_add_signed(i64::from(self.offset)))
    }

    /// Takes over the facts from the decoded instruction.
    fn learn(&mut self, instr: &Instr, is_regdeps: bool) {
        self.flags = flag::VALID;
        if instr.class == Class::Syscall {
            self.flags |= flag::SYSCALL;
        }
        if let Some(offset) =
            instr.target.and_then(|target| i32::try_from(target.wrapping_sub(self.pc) as i64).ok())
        {
            self.offset = offset;
            self.flags |= flag::TARGET;
        }
        if is_regdeps {
            return self.learn_regdeps(instr);
        }
        let name = instr.opcode.name();
        match name {
            "hlt" => self.flags |= flag::HLT,
            "sti" => self.flags |= flag::STI,
            "iret" | "iretd" | "iretq" => self.flags |= flag::KERNEL_READS,
            _ if name.starts_with("xrstor") => self.flags |= flag::KERNEL_READS,
            _ if name.starts_with("xsave") => self.flags |= flag::KERNEL_READS | flag::KERNEL_WRITES,
            _ => {}
        }
        if instr.writes_memory() {
            self.flags |= flag::WRITES;
        }
        let mems = instr.mems();
        if mems.iter().any(|mem| mem.access == Access::Prefetch) {
            self.flags |= flag::PREFETCH;
        }
        if is_uncounted(instr, name) {
            self.flags |= flag::UNCOUNTED;
        }
        if instr.repeated {
            self.flags |= flag::OPTIONAL;
        }
        let reads = |mem: &&Mem| mem.access != Access::Write;
        let writes = |mem: &&Mem| mem.access.is_write();
        // At most `Instr::MAX_MEMS`.
        self.reads = mems.iter().filter(reads).count() as u8;
        self.writes = mems.iter().filter(writes).count() as u8;
        self.read_bytes = common_size(mems.iter().filter(reads));
        self.write_bytes = common_size(mems.iter().filter(writes));
    }

    /// Takes over the facts from a synthetic instruction, which states only whether it reads and whether it writes.
    fn learn_regdeps(&mut self, instr: &Instr) {
        use quipu_isa::Categories;
        self.flags |= flag::OPTIONAL;
        let many = |has| if has { u8::MAX } else { 0 };
        self.reads = many(instr.categories.contains(Categories::LOAD));
        self.writes = many(instr.categories.contains(Categories::STORE));
    }
}

/// True if the number of accesses depends on more than the operands.
fn is_uncounted(instr: &Instr, name: &str) -> bool {
    // A conditional `set` always writes; other conditional instructions may not access memory.
    let conditional = instr.conditional && !name.starts_with("set");
    // A vector index means one access for each element; scalable code may be expanded in the same way.
    let scattered =
        name.contains("gather") || name.contains("scatter") || matches!(name, "sve" | "sme" | "unknown");
    conditional || scattered
}

/// The common size of these accesses; 0 if they differ or it is unknown.
fn common_size<'m>(mut mems: impl Iterator<Item = &'m Mem>) -> u16 {
    let Some(first) = mems.next().map(|mem| if is_line(mem) { 0 } else { mem.bytes }) else { return 0 };
    if mems.all(|mem| mem.bytes == first) { first } else { 0 }
}

/// True for hints, which name a cache line: the size in the trace is arbitrary.
fn is_line(mem: &Mem) -> bool {
    matches!(mem.access, Access::Prefetch | Access::Flush)
}

/// Maps the types that one instruction may have in different executions (outcomes of conditional jumps, further iterations)
/// to one type.
pub(super) const fn plain_kind(kind: u16) -> u8 {
    match kind {
        48 | 49 => 13,
        29 | 30 => 10,
        // Below 50.
        kind => kind as u8,
    }
}

/// True if an instruction of this class may have this (plain) type in the trace.
fn is_kind_of(kind: u8, class: Class) -> bool {
    let kind = Type(u16::from(kind));
    match class {
        Class::Other | Class::Trap => kind == Type::INSTR,
        Class::Syscall => matches!(kind, Type::INSTR | Type::INSTR_SYSENTER),
        Class::DirectJump => kind == Type::INSTR_DIRECT_JUMP,
        Class::IndirectJump => kind == Type::INSTR_INDIRECT_JUMP,
        Class::ConditionalJump => kind == Type::INSTR_CONDITIONAL_JUMP,
        Class::DirectCall => kind == Type::INSTR_DIRECT_CALL,
        Class::IndirectCall => kind == Type::INSTR_INDIRECT_CALL,
        Class::Return => kind == Type::INSTR_RETURN,
        _ => true,
    }
}

/// Outcome of giving an encoding to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// Decoded, now or before, with this length.
    Decoded(u8),
    /// Not decodable.
    Undecodable,
    /// Not decoded, as there is no decoder for it.
    Unknown,
}

/// Hash table of [`Facts`] by address.
pub(super) struct Table {
    slots: Vec<Facts>,
    /// Number of bits by which the hash is shifted right to give a slot.
    shift: u32,
    n_used: usize,
    codes: Vec<Code>,
    decoder: Option<Decoder>,
}

/// The bytes of an instruction with the outcome of decoding them.
#[derive(Clone, Copy, Debug)]
struct Code {
    bytes: [u8; MAX_CODE_BYTES],
    len: u8,
    given: Given,
    class: Class,
}

/// Initial number of slots, as a power of two: 32 KiB.
const FIRST_BITS: u32 = 10;

impl Table {
    pub(super) fn new() -> Table {
        Table {
            slots: vec![Facts::default(); 1 << FIRST_BITS],
            shift: 64 - FIRST_BITS,
            n_used: 0,
            codes: Vec::new(),
            decoder: None,
        }
    }

    /// Sets the decoder; `None` turns decoding off.
    pub(super) fn decode_with(&mut self, decoder: Option<Decoder>) {
        self.decoder = decoder;
    }

    /// The architecture of the decoder.
    pub(super) fn arch(&self) -> Option<quipu_isa::Arch> {
        self.decoder.as_ref().map(Decoder::arch)
    }

    #[inline]
    fn home(&self, pc: u64) -> usize {
        (pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The facts about the instruction at `pc`, or a free slot (chunk 0) if it is unknown.
    #[inline]
    pub(super) fn get(&self, pc: u64) -> &Facts {
        let mask = self.slots.len() - 1;
        let mut at = self.home(pc);
        loop {
            let slot = &self.slots[at & mask];
            if slot.pc == pc || slot.chunk == 0 {
                return slot;
            }
            at += 1;
        }
    }

    fn slot(&mut self, pc: u64) -> &mut Facts {
        let mask = self.slots.len() - 1;
        let mut at = self.home(pc);
        while self.slots[at & mask].pc != pc && self.slots[at & mask].chunk != 0 {
            at += 1;
        }
        &mut self.slots[at & mask]
    }

    /// The slot of `pc`, allocated if it is new.
    fn take(&mut self, pc: u64, chunk: u32) -> &mut Facts {
        if self.get(pc).chunk == 0 {
            self.n_used += 1;
            if self.n_used * 2 > self.slots.len() {
                self.grow();
            }
        }
        let slot = self.slot(pc);
        if slot.chunk == 0 {
            *slot = Facts { pc, code: u32::MAX, ..Facts::default() };
        }
        slot.chunk = chunk.max(1);
        slot
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![Facts::default(); self.slots.len() * 2];
        self.shift -= 1;
        for old in std::mem::replace(&mut self.slots, larger) {
            if old.chunk != 0 {
                *self.slot(old.pc) = old;
            }
        }
    }

    /// Notes that the instruction at `pc` has no encoding in this chunk, so that it is reported once.
    pub(super) fn set_bare(&mut self, pc: u64, size: u16, kind: u16, chunk: u32) {
        let size = size.min(255) as u8; // Real instructions are shorter.
        let (code, kind) = (u32::MAX, plain_kind(kind));
        let slot = self.take(pc, chunk);
        *slot = Facts { pc, code, chunk: slot.chunk, size, kind, ..Facts::default() };
    }

    /// Marks the encoding of `pc` as valid in this chunk.
    pub(super) fn renew(&mut self, pc: u64, chunk: u32) {
        self.slot(pc).chunk = chunk.max(1);
    }

    /// Gives the instruction at `pc` its encoding.
    pub(super) fn set(&mut self, pc: u64, size: u16, kind: u16, bytes: &[u8], chunk: u32) -> Given {
        let index = self.take(pc, chunk).code;
        if let Some(code) = self.codes.get(index as usize)
            && code.bytes[..usize::from(code.len)] == *bytes
        {
            let given = code.given;
            let slot = self.slot(pc);
            slot.size = size.min(255) as u8;
            return given;
        }
        let mut code =
            Code { bytes: [0; MAX_CODE_BYTES], len: 0, given: Given::Unknown, class: Class::UnknownBranch };
        let len = bytes.len().min(MAX_CODE_BYTES);
        code.bytes[..len].copy_from_slice(&bytes[..len]);
        code.len = len as u8; // At most 16.
        let decoded = self.decoder.as_mut().map(|decoder| decoder.decode(pc, bytes));
        let is_regdeps = self.arch() == Some(quipu_isa::Arch::Regdeps);
        let kind = plain_kind(kind);
        let index = (index as usize).min(self.codes.len());
        let slot = self.slot(pc);
        *slot = Facts { pc, chunk: slot.chunk, size: size.min(255) as u8, kind, ..Facts::default() };
        match decoded {
            Some(Ok(instr)) => {
                slot.learn(&instr, is_regdeps);
                code.given = Given::Decoded(instr.len);
                code.class = instr.class;
            }
            Some(Err(_)) => code.given = Given::Undecodable,
            None => {}
        }
        slot.code = index as u32; // There are at most as many as slots, which are far fewer than 2^32.
        let given = code.given;
        match self.codes.get_mut(index) {
            Some(old) => *old = code,
            None => self.codes.push(code),
        }
        given
    }

    /// Sets the type of the latest execution at `pc`; false if it contradicts the encoding.
    #[cold]
    pub(super) fn is_kind(&mut self, pc: u64, kind: u16) -> bool {
        let kind = plain_kind(kind);
        let slot = self.slot(pc);
        slot.kind = kind;
        let code = slot.code;
        self.codes.get(code as usize).is_none_or(|code| is_kind_of(kind, code.class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_isa::{Arch, Syntax};

    fn table() -> Table {
        let mut table = Table::new();
        table.decode_with(Decoder::new(Arch::X86_64, Syntax::Att).ok());
        table
    }

    #[test]
    fn a_slot_is_half_a_cache_line() {
        assert_eq!(size_of::<Facts>(), 32);
    }

    #[test]
    fn many_addresses_keep_their_facts_while_the_table_grows() {
        let mut table = table();
        for i in 0..5000_u64 {
            assert_eq!(table.set(i * 16, 1, 10, &[0x90], 1), Given::Decoded(1));
        }
        assert!((0..5000).all(|i| table.get(i * 16).pc == i * 16 && table.get(i * 16).chunk == 1));
        assert_eq!(table.get(7).chunk, 0);
    }

    #[test]
    fn accesses_are_counted_by_direction() {
        let mut table = table();
        // push (%rax): reads 8, writes 8.
        table.set(0x1000, 2, 10, &[0xff, 0x30], 1);
        let facts = *table.get(0x1000);
        assert_eq!((facts.reads, facts.writes, facts.read_bytes, facts.write_bytes), (1, 1, 8, 8));
        // jne: a target, no access.
        table.set(0x2000, 2, 48, &[0x75, 0xfe], 1);
        assert_eq!(table.get(0x2000).target(), Some(0x2000));
    }

    #[test]
    fn new_bytes_replace_old_facts() {
        let mut table = table();
        table.set(0x1000, 2, 10, &[0xff, 0x30], 1);
        table.set(0x1000, 1, 10, &[0x90], 2);
        let facts = *table.get(0x1000);
        assert_eq!((facts.reads, facts.writes, facts.size, facts.chunk), (0, 0, 1, 2));
        assert_eq!(table.set(0x1000, 1, 10, &[0x06], 2), Given::Undecodable);
    }

    #[test]
    fn a_type_that_the_encoding_cannot_have_is_seen() {
        let mut table = table();
        table.set(0x1000, 2, 10, &[0xff, 0xd0], 1);
        assert!(!table.is_kind(0x1000, 10));
        assert!(table.is_kind(0x1000, 15));
        table.set(0x2000, 2, 48, &[0x75, 0xfe], 1);
        assert!(table.is_kind(0x2000, 49) && !table.is_kind(0x2000, 11));
    }
}
