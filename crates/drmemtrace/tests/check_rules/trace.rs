//! Small entry streams, put together by hand.

use quipu_drmemtrace::record::{Entry, Marker, Type};
use std::io::{Cursor, Write};
use zerocopy::IntoBytes;
use zip::write::SimpleFileOptions;

/// x86-64 with encodings.
pub(crate) const X64: u64 = 0x240;
/// The same with kernel code of system calls.
pub(crate) const KERNEL: u64 = 0x1e40;
/// Templates of kernel code.
pub(crate) const TEMPLATE: u64 = 0x4240;
/// The only thread.
pub(crate) const TID: u64 = 7;

/// A sequence of entries.
pub(crate) type Entries = Vec<Entry>;

/// Concatenates parts.
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

/// `iretq`, two bytes, as at the end of kernel code.
pub(crate) fn iret(pc: u64, target: u64) -> Entries {
    let reads: Entries = (0..5).map(|n| Entry::new(Type::READ, 8, 0x9000 + n * 8)).collect();
    all(&[ind(Type::INSTR_RETURN, pc, &[0x48, 0xcf], target), reads])
}

/// A read of this many bytes.
pub(crate) fn read(size: u16) -> Entries {
    e(Type::READ, size, 0x8000)
}

/// A clock reading, on processor 1.
pub(crate) fn at(clock: u64) -> Entries {
    all(&[m(Marker::TIMESTAMP, clock), m(Marker::CPU_ID, 1)])
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
