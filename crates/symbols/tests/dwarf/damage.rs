//! Damaged programs, and programs made by hand.

use crate::programs::{compile, find, has};
use quipu_symbols::dwarf::DebugInfo;
use quipu_symbols::extract::{Compat, types_file};
use quipu_symbols::layout::Limits;
use tempfile::TempDir;

#[test]
fn damage_ends_in_errors() {
    let mut programs = vec![tiny()];
    for (compiler, package) in [("gcc", "gcc"), ("clang", "clang")] {
        if has(compiler, package) {
            for flags in [&["-gdwarf-4", "-c"], &["-gdwarf-5", "-c"]] {
                let folder = TempDir::new().unwrap();
                let program = compile(compiler, &folder, "shapes.c", flags).unwrap();
                programs.push(std::fs::read(program).unwrap());
            }
        }
    }
    // A sequence of numbers that is the same each time.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    for program in &programs {
        for _ in 0..60 {
            look_at_all(&program[..next(program.len())]);
            let mut changed = program.clone();
            for _ in 0..=next(8) {
                let at = next(changed.len());
                changed[at] = [0, 0xff, 0x7f, 0x80, changed[at] ^ 1, changed[at].wrapping_add(1)][next(6)];
            }
            look_at_all(&changed);
        }
    }
}

/// Makes every query on some bytes, only to check that all of them return.
fn look_at_all(bytes: &[u8]) {
    let Ok(info) = DebugInfo::parse(bytes) else { return };
    for id in info.type_ids().take(64) {
        let _ = info.read(id);
        let _ = info.flat(id, Limits { leaves: 64, elements: 4 });
    }
    let _ = info.find("struct.node.1");
    let first = info.objects().functions.first().map_or(0, |function| function.ranges[0].start);
    let _ = (info.line_of(first), info.inlined_at(first), info.variables());
    let _ = types_file(&info, Compat::Right);
    let _ = types_file(&info, Compat::Original);
}

/// The smallest program with a type: DWARF 4 with `struct A { A a; }`, which contains itself.
fn tiny() -> Vec<u8> {
    let abbreviations = &[
        1, 0x11, 1, 0, 0, // A unit with children,
        2, 0x13, 1, 0x03, 0x08, 0x0b, 0x0b, 0, 0, // a structure with name and size,
        3, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0b, 0, 0, // a member with name, type and offset.
        0,
    ];
    program(abbreviations, &[1, 2, b'A', 0, 4, 3, b'a', 0, 12, 0, 0, 0, 0, 0, 0])
}

/// A program with one unit of DWARF 4.
fn program(abbreviations: &[u8], entries: &[u8]) -> Vec<u8> {
    let mut info = u32::try_from(entries.len() + 7).unwrap().to_le_bytes().to_vec();
    info.extend([4, 0, 0, 0, 0, 0, 8]);
    info.extend(entries);
    let names = b"\0.debug_info\0.debug_abbrev\0.names\0";
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 62, 0, 1, 0, 0, 0];
    // The header, then those of sections, then the sections.
    file.resize(0x28, 0);
    file.extend(64_u64.to_le_bytes());
    file.extend([0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 64, 0, 4, 0, 3, 0]);
    file.resize(64 + 64, 0);
    let mut at = u64::try_from(64 + 4 * 64).unwrap();
    for (name, bytes) in [(1_u32, &info[..]), (13, abbreviations), (27, names)] {
        file.extend(name.to_le_bytes());
        file.extend(if name == 27 { 3_u32 } else { 1 }.to_le_bytes());
        file.extend([0; 16]);
        file.extend(at.to_le_bytes());
        file.extend(u64::try_from(bytes.len()).unwrap().to_le_bytes());
        file.extend([0; 24]);
        at += u64::try_from(bytes.len()).unwrap();
    }
    for bytes in [&info[..], abbreviations, names] {
        file.extend(bytes);
    }
    file
}

#[test]
fn a_type_that_holds_itself_comes_to_an_end() {
    let info = DebugInfo::parse(&tiny()).unwrap();
    let flat = info.flat(find(&info, "A").id, Limits::default()).unwrap();
    assert!(flat.is_cut && flat.leaves.len() == 1, "{flat:?}");
}

#[test]
fn code_that_ends_beyond_all_addresses_is_none() {
    let start = [0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let abbreviations = &[
        1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0, // A unit with a start, a length and children,
        2, 0x2e, 0, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0, // a function with name, start and length.
        0,
    ];
    for (len, is_code) in [(0x0f, true), (0x10, false)] {
        let len = [len, 0, 0, 0, 0, 0, 0, 0];
        let entries = [&[1][..], &start, &len, &[2, b'f', 0], &start, &len, &[0]].concat();
        let bytes = program(abbreviations, &entries);
        look_at_all(&bytes);
        let info = DebugInfo::parse(&bytes).unwrap();
        assert_eq!(info.objects().functions.len(), usize::from(is_code), "{len:?}");
    }
}

#[test]
fn a_class_that_is_its_own_base_twice_comes_to_an_end() {
    let abbreviations = &[
        1, 0x11, 1, 0, 0, // A unit with children,
        2, 0x13, 1, 0x03, 0x08, 0x0b, 0x0b, 0, 0, // a structure with name and size,
        3, 0x1c, 0, 0x49, 0x13, 0x38, 0x0b, 0, 0, // a base class with type and offset,
        4, 0x1c, 0, 0x49, 0x13, 0x38, 0x18, 0,
        0, // a virtual base class, whose place the program looks up.
        0,
    ];
    let own = [12, 0, 0, 0];
    let base = [&[3][..], &own, &[0]].concat();
    let entries = [&[1, 2, b'A', 0, 8][..], &base, &base, &[4], &own, &[1, 0x12, 0, 0]].concat();
    let info = DebugInfo::parse(&program(abbreviations, &entries)).unwrap();
    assert!(info.flat(find(&info, "A").id, Limits::default()).unwrap().is_cut);
}

#[test]
fn a_vector_larger_than_all_memory_has_an_alignment() {
    let abbreviations = &[
        1, 0x11, 1, 0, 0, // A unit with children,
        2, 0x24, 0, 0x03, 0x08, 0x0b, 0x0b, 0, 0, // a number with name and size,
        3, 0x01, 0, 0x87, 0x42, 0x0c, 0x49, 0x13, 0x0b, 0x07, 0, 0, // a vector of numbers, with a size,
        4, 0x13, 1, 0x03, 0x08, 0x0b, 0x0b, 0, 0, // a structure with name and size,
        5, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0b, 0, 0, // a member with name, type and offset.
        0,
    ];
    let size = [0xff; 8];
    let record = [4, b'A', 0, 8, 5, b'v', 0, 16, 0, 0, 0, 0, 0, 0];
    let entries = [&[1, 2, b'i', 0, 4, 3, 1, 12, 0, 0, 0][..], &size, &record].concat();
    let info = DebugInfo::parse(&program(abbreviations, &entries)).unwrap();
    let vector = find(&info, "A").members[0].ty.unwrap();
    assert_eq!(info.alignment_of(vector).bytes, 1);
}
