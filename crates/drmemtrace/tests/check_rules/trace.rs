//! Small entry streams, put together by hand.

use quipu_drmemtrace::record::{Entry, Marker, Type};
use std::io::{Cursor, Write};
use zerocopy::IntoBytes;
use zip::write::SimpleFileOptions;

/// x86-64 with encodings.
pub(crate) const X64: u64 = 0x240;
/// The same with numbered system calls, some of which may block.
pub(crate) const CALLS: u64 = 0xe40;
/// The same with kernel code of system calls.
pub(crate) const KERNEL: u64 = 0x1e40;
/// Templates of kernel code.
pub(crate) const TEMPLATE: u64 = 0x4240;
/// The whole system.
pub(crate) const WHOLE: u64 = 0x40e40;
/// REGDEPS.
pub(crate) const REGDEPS: u64 = 0x20200;
/// The only thread.
pub(crate) const TID: u64 = 7;

/// Entries in a row.
pub(crate) type Entries = Vec<Entry>;

/// Joins parts.
pub(crate) fn all(parts: &[Entries]) -> Entries {
    parts.concat()
}

/// One entry.
pub(crate) fn e(kind: Type, size: u16, addr: u64) -> Entries {
    vec![Entry::new(kind, size, addr)]
}

/// A marker.
pub(crate) fn m(kind: Marker, value: u64) -> Entries {
    e(Type::MARKER, kind.0, value)
}

/// The pieces of an encoding.
pub(crate) fn enc(bytes: &[u8]) -> Entries {
    bytes
        .chunks(8)
        .map(|piece| {
            let mut eight = [0; 8];
            eight[..piece.len()].copy_from_slice(piece);
            Entry::new(Type::ENCODING, piece.len() as u16, u64::from_le_bytes(eight))
        })
        .collect()
}

/// An instruction of some type with its encoding.
pub(crate) fn i(kind: Type, pc: u64, bytes: &[u8]) -> Entries {
    all(&[enc(bytes), e(kind, bytes.len() as u16, pc)])
}

/// An indirect branch with its target.
pub(crate) fn ind(kind: Type, pc: u64, bytes: &[u8], target: u64) -> Entries {
    all(&[enc(bytes), m(Marker::BRANCH_TARGET, target), e(kind, bytes.len() as u16, pc)])
}

/// `nop`, one byte.
pub(crate) fn nop(pc: u64) -> Entries {
    i(Type::INSTR, pc, &[0x90])
}

/// `jmp *%rax`, two bytes.
pub(crate) fn jmp(pc: u64, target: u64) -> Entries {
    ind(Type::INSTR_INDIRECT_JUMP, pc, &[0xff, 0xe0], target)
}

/// `iretq`, two bytes, as kernel code ends.
pub(crate) fn iret(pc: u64, target: u64) -> Entries {
    let reads: Entries = (0..5).map(|n| Entry::new(Type::READ, 8, 0x9000 + n * 8)).collect();
    all(&[ind(Type::INSTR_RETURN, pc, &[0x48, 0xcf], target), reads])
}

/// `syscall`, two bytes.
pub(crate) fn sys(pc: u64) -> Entries {
    i(Type::INSTR, pc, &[0x0f, 0x05])
}

/// `call` with a distance of 32 bits, five bytes, and its return address.
pub(crate) fn call(pc: u64, target: u64) -> Entries {
    let distance = (target as i64 - pc as i64 - 5) as i32;
    let mut bytes = vec![0xe8];
    bytes.extend(distance.to_le_bytes());
    all(&[i(Type::INSTR_DIRECT_CALL, pc, &bytes), write(8)])
}

/// A read of this many bytes.
pub(crate) fn read(size: u16) -> Entries {
    e(Type::READ, size, 0x8000)
}

/// A write of this many bytes.
pub(crate) fn write(size: u16) -> Entries {
    e(Type::WRITE, size, 0x8000)
}

/// Clock and processor 1.
pub(crate) fn at(clock: u64) -> Entries {
    all(&[m(Marker::TIMESTAMP, clock), m(Marker::CPU_ID, 1)])
}

/// A system call, `number` of it, at `pc`, with clock and processor before and after; `inside` stands between.
pub(crate) fn syscall(pc: u64, number: u64, inside: &[Entries]) -> Entries {
    all(&[sys(pc), at(110), m(Marker::SYSCALL, number), inside.concat(), at(120)])
}

/// Kernel code of a system call that returns to `target`.
pub(crate) fn kernel(number: u64, target: u64) -> Entries {
    all(&[
        m(Marker::SYSCALL_TRACE_START, number),
        nop(0xf000),
        iret(0xf001, target),
        m(Marker::SYSCALL_TRACE_END, number),
    ])
}

/// Kernel code of a switch of this type.
pub(crate) fn switch(kind: u64, target: u64) -> Entries {
    all(&[
        m(Marker::CONTEXT_SWITCH_START, kind),
        nop(0xf100),
        iret(0xf101, target),
        m(Marker::CONTEXT_SWITCH_END, kind),
    ])
}

/// A header without clock and processor.
pub(crate) fn bare_header(filetype: u64) -> Entries {
    all(&[
        e(Type::HEADER, 0, 7),
        m(Marker::VERSION, 7),
        m(Marker::FILETYPE, filetype),
        e(Type::THREAD, 4, TID),
        e(Type::PID, 4, 70),
        m(Marker::CACHE_LINE_SIZE, 64),
        m(Marker::CHUNK_INSTR_COUNT, 1000),
        m(Marker::PAGE_SIZE, 4096),
    ])
}

/// The end of a thread and its file.
pub(crate) fn end() -> Entries {
    all(&[exit(), e(Type::FOOTER, 0, 0)])
}

/// The end of a thread.
pub(crate) fn exit() -> Entries {
    e(Type::THREAD_EXIT, 4, TID)
}

/// A whole trace of one thread.
pub(crate) fn trace(filetype: u64, body: &[Entries]) -> Entries {
    all(&[bare_header(filetype), at(100), body.concat(), end()])
}

/// The same with another version everywhere.
pub(crate) fn versioned(version: u64, filetype: u64, body: &[Entries]) -> Entries {
    let mut entries = trace(filetype, body);
    entries[0] = Entry::new(Type::HEADER, 0, version);
    entries[1] = Entry::new(Type::MARKER, Marker::VERSION.0, version);
    entries
}

/// The bytes of entries.
pub(crate) fn bytes(entries: &[Entry]) -> Vec<u8> {
    entries.as_bytes().to_vec()
}

/// An archive of chunks.
pub(crate) fn archive(members: &[Entries]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (number, member) in members.iter().enumerate() {
        zip.start_file(format!("chunk.{number:08}"), SimpleFileOptions::default()).unwrap();
        zip.write_all(member.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}
