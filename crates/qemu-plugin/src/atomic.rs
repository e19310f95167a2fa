//! Tells atomic operations by the bytes of their instructions.

/// ELF numbers of machines.
const I386: u16 = 3;
const X86_64: u16 = 62;
const AARCH64: u16 = 183;

/// Whether an instruction for a machine is an atomic operation. Of machines other than x86 and aarch64, none is.
pub(crate) fn is_atomic(machine: u16, bytes: &[u8]) -> bool {
    match machine {
        I386 | X86_64 => is_locked(bytes),
        AARCH64 => bytes.first_chunk().is_some_and(|word| is_exclusive(u32::from_le_bytes(*word))),
        _ => false,
    }
}

/// x86: a `lock` prefix, or `xchg` with memory.
fn is_locked(bytes: &[u8]) -> bool {
    const LOCK: u8 = 0xf0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            &LOCK => return true,
            // Other prefixes.
            0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf2 | 0xf3 | 0x40..=0x4f => {}
            0x86 | 0x87 => return bytes.get(at + 1).is_some_and(|modrm| modrm >> 6 != 3),
            _ => return false,
        }
    }
    false
}

/// aarch64: exclusive and ordered accesses, `cas`, and operations of the large system extension.
fn is_exclusive(word: u32) -> bool {
    word & 0x3f00_0000 == 0x0800_0000 || word & 0x3b20_0c00 == 0x3820_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_operations_are_told_from_others() {
        for (bytes, is_one) in [
            (&[0xf0, 0x0f, 0xb1, 0x17][..], true),   // lock cmpxchg %edx,(%rdi)
            (&[0x66, 0xf0, 0x0f, 0xc1, 0x07], true), // lock xadd %ax,(%rdi)
            (&[0x48, 0x87, 0x07], true),             // xchg %rax,(%rdi)
            (&[0x48, 0x87, 0xc7], false),            // xchg %rax,%rdi
            (&[0x8b, 0x07], false),                  // mov (%rdi),%eax
            (&[], false),
        ] {
            assert_eq!(is_atomic(X86_64, bytes), is_one, "{bytes:x?}");
        }
        for (word, is_one) in [
            (0x885f_fc01_u32, true), // ldaxr w1, [x0]
            (0x8802_7c01, true),     // stxr w2, w1, [x0]
            (0xb8e0_0041, true),     // ldaddal w0, w1, [x2]
            (0xb940_0001, false),    // ldr w1, [x0]
            (0x0b01_0000, false),    // add w0, w0, w1
        ] {
            assert_eq!(is_atomic(AARCH64, &word.to_le_bytes()), is_one, "{word:#x}");
        }
        assert!(!is_atomic(243, &[0x2f, 0x20, 0xb5, 0x00]));
    }
}
