//! Layouts checked by hand, and properties that hold for all of them.

use super::arrange::{Arrangement, Form, Gap, Place, Room};
use super::declare::declaration;
use super::moved::{Moved, New, Old};
use super::source;
use super::text::Language;
use super::tool::list;
use super::units::Members;
use proptest::prelude::*;
use quipu_symbols::attribute::{ShapeId, Types};
use quipu_symbols::remap::Remap;
use quipu_symbols::types_file::TypesFile;
use std::collections::HashSet;

/// A type from a file of types: names, C types, offsets and sizes of its members.
fn members(list: &[(&str, &str, u64, u64)]) -> Members {
    let member = |(name, ty, offset, size): &(&str, &str, u64, u64)| {
        format!(r#"{{"id":1,"memberName":"{name}","name":"{ty}","offset":{offset},"size":{size}}}"#)
    };
    let list_text: Vec<String> = list.iter().map(member).collect();
    let text = format!(
        r#"{{"structs":[{{"id":1,"members":[{}],"name":"struct T"}}],"typedefs":[],"unions":[],"version":4}}"#,
        list_text.join(",")
    );
    let mut types = Types::of_file(&TypesFile::parse(text.as_bytes()).unwrap());
    let (shape, _): (ShapeId, u64) = types.find(b"struct.T").unwrap();
    let declaration = source::of_file(types.file_members("T").unwrap());
    Members::of(types.shape(shape), &declaration).unwrap()
}

/// `struct T { char a; double b; char c; int d; char name[6]; }`.
fn sample() -> Members {
    members(&[
        ("a", "char", 0, 1),
        ("b", "double", 8, 8),
        ("c", "char", 16, 1),
        ("d", "int", 20, 4),
        ("name", "char[]", 24, 6),
    ])
}

fn places(arrangement: &Arrangement) -> Vec<(usize, u64)> {
    arrangement.places.iter().map(|place| (place.part, place.offset)).collect()
}

#[test]
fn members_have_their_bytes_and_alignments() {
    let members = sample();
    assert_eq!((members.size, members.align), (32, 8));
    let units: Vec<_> =
        members.units.iter().map(|unit| (unit.name.as_str(), unit.start, unit.bytes, unit.align)).collect();
    assert_eq!(units, [("a", 0, 1, 1), ("b", 8, 8, 8), ("c", 16, 1, 1), ("d", 20, 4, 4), ("name", 24, 6, 1)]);
    assert_eq!(
        (members.at(3), members.at(8), members.at(29), members.at(31)),
        (Some((0, false)), Some((1, true)), Some((4, true)), Some((4, false)))
    );
    assert_eq!(members.at(32), None);
    assert!(members.named("e").is_err());
}

#[test]
fn an_array_of_one_is_declared_as_an_array() {
    let mut members = sample();
    members.units[0].dimensions = vec![1];
    let text = |language| declaration(&members, &Arrangement::same(&members), language, false);
    let (c, rust) = (text(Language::C), text(Language::Rust));
    assert!(c.contains("    char a[1]; /* 0 */\n") && c.contains("    double b; /* 8 */\n"), "{c}");
    assert!(rust.contains("    pub a: [i8; 1], // 0\n"), "{rust}");
}

#[test]
fn a_character_of_rust_stays_one() {
    let (members, mut declaration) = (sample(), source::Declaration::default());
    let whole = |text: &str, bit_start, bit_size, align| source::Declared {
        name: format!("at_{bit_start}"),
        text: text.to_owned(),
        dimensions: Vec::new(),
        bit_start,
        bit_size,
        align: Some(align),
        asked: None,
        what: source::What::Plain,
    };
    declaration.members = vec![whole("char", 0, 32, 4), whole("f64", 64, 64, 8)];
    let mut types = Types::of_file(&TypesFile::parse(
        br#"{"structs":[{"id":1,"members":[{"id":1,"memberName":"a","name":"int","offset":0,"size":4},{"id":1,"memberName":"b","name":"double","offset":8,"size":8}],"name":"struct T"}],"typedefs":[],"unions":[],"version":4}"#,
    ).unwrap());
    let (shape, _) = types.find(b"struct.T").unwrap();
    let of_rust = Members::of(types.shape(shape), &declaration).unwrap();
    assert_eq!((of_rust.language, of_rust.units[0].n()), (Language::Rust, 1));
    let text = super::declare::declaration(&of_rust, &Arrangement::same(&of_rust), Language::Rust, false);
    assert!(text.contains("    pub at_0: char, // 0\n"), "{text}");
    assert_eq!(members.units[4].n(), 6);
}

#[test]
fn bit_fields_that_share_bytes_may_both_be_named() {
    let mut members = sample();
    members.units[1].name = "m1|m2".to_owned();
    assert_eq!(list(&members, "m1, m2,a").unwrap(), [1, 0]);
    assert!(list(&members, "m1,a,m1").is_err());
}

#[test]
fn orders_honour_alignment_and_room() {
    let members = sample();
    let ordered =
        |order: &[usize], room: &Room| Arrangement::ordered(&members, order, room, 64, String::new());
    let none = Room::default();
    let packed = ordered(&[1, 3, 4, 0, 2], &none);
    assert_eq!((places(&packed), packed.size()), (vec![(0, 18), (0, 0), (0, 19), (0, 8), (0, 12)], 24));
    let room = Room { gaps: vec![(1, Gap::Bytes(3))], align: 32, ..Room::default() };
    let roomy = ordered(&[1, 3, 4, 0, 2], &room);
    assert_eq!((places(&roomy), roomy.size()), (vec![(0, 22), (0, 0), (0, 23), (0, 12), (0, 16)], 32));
    let lines = Room { gaps: vec![(0, Gap::Line)], whole_lines: true, ..Room::default() };
    let lined = ordered(&[0, 1, 2, 3, 4], &lines);
    assert_eq!(
        (places(&lined), lined.size(), lined.parts[0].align),
        (vec![(0, 0), (0, 64), (0, 72), (0, 76), (0, 80)], 128, 64)
    );
    let widened = Arrangement::widened(&members, &lines, 64, String::new());
    assert_eq!((places(&widened), widened.size()), (places(&lined), 128));
    assert_eq!(
        places(&Arrangement::widened(&members, &none, 64, String::new())),
        places(&Arrangement::same(&members))
    );
}

#[test]
fn room_is_told_in_words() {
    let members = sample();
    assert_eq!(Room::default().told(&members), "");
    let room = Room { gaps: vec![(1, Gap::Bytes(8)), (4, Gap::Line)], whole_lines: true, align: 32 };
    assert_eq!(
        room.told(&members),
        "8 bytes after b, a new line after name, lines of its own for each element, aligned to 32"
    );
    let room = Room { align: 1, ..Room::default() };
    assert_eq!(room.told(&members), "");
}

#[test]
fn a_remap_moves_what_it_names() {
    let members = sample();
    let file = Remap::parse("struct T=a,30;name,0x0\n").unwrap();
    // `name` moves to the place of `a`, and overlaps no other member.
    assert!(Arrangement::remapped(&members, &file.structs[0], &Room::default(), 64).is_ok());
    let file = Remap::parse("struct T=a,12\n").unwrap();
    let error = Arrangement::remapped(&members, &file.structs[0], &Room::default(), 64).unwrap_err();
    assert_eq!(error.message(), "the remap puts `b` and `a` over each other");
    let file = Remap::parse("struct T=e,12\n").unwrap();
    assert!(Arrangement::remapped(&members, &file.structs[0], &Room::default(), 64).is_err());
}

#[test]
fn arrays_become_structures_inside() {
    let members = members(&[("n", "int", 0, 4), ("keys", "int[]", 4, 16), ("sizes", "long[]", 24, 32)]);
    let inside = Arrangement::inside(&members).unwrap();
    assert_eq!(inside.form, Form::Inside);
    let place = |offset, step| Place { part: 0, offset, step };
    assert_eq!(inside.places, [place(64, 4), place(0, 16), place(8, 16)]);
    assert_eq!(inside.parts[0].stride, 72);
    assert!(Arrangement::inside(&sample()).is_err());
}

/// New addresses and sizes of some bytes of a region.
fn pieces(moved: &mut Moved, of: (&Old, &New), members: &Members, addr: u64, size: u32) -> Vec<(u64, u32)> {
    let mut pieces = Vec::new();
    moved.pieces(of, addr, size, members, &mut pieces);
    pieces
}

#[test]
fn accesses_go_where_members_are_now() {
    let members = sample();
    let old = Old { start: 0x1000, bytes: 320, n: 10, stride: 32 };
    let order = Arrangement::ordered(&members, &[1, 3, 4, 0, 2], &Room::default(), 64, String::new());
    let mut moved = Moved::new(order, 1 << 40);
    let new = moved.add(old, &members);
    // Smaller elements are closer together, at the same address.
    assert_eq!((new.bases.as_slice(), moved.n_moved), (&[0x1000][..], 0));
    let mut go = |addr, size| pieces(&mut moved, (&old, &new), &members, addr, size);
    assert_eq!(go(0x1000 + 3 * 32 + 8, 8), [(0x1000 + 3 * 24, 8)]);
    assert_eq!(go(0x1000 + 9 * 32 + 24, 6), [(0x1000 + 9 * 24 + 12, 6)]);
    // A copy of `b`, `c` and `d`, with the padding between: now `d` follows `b`, and `c` is elsewhere.
    assert_eq!(go(0x1008, 16), [(0x1000, 8), (0x1000 + 19, 1), (0x1008, 4)]);
    // Padding alone maps to the end of its member.
    assert_eq!(go(0x1001, 4), [(0x1000 + 18, 4)]);
    assert_eq!(moved.n_divided, 1);

    let mut arrays = Moved::new(Arrangement::arrays(&members), 1 << 40);
    let new = arrays.add(old, &members);
    assert_eq!(new.bases, [0x1000, 0x1010, 0x1060, 0x106c, 0x1094]);
    assert_eq!(pieces(&mut arrays, (&old, &new), &members, 0x1000 + 9 * 32 + 8, 8), [(0x1010 + 72, 8)]);
    // A single element is not split into arrays.
    let single = Old { start: 0x2000, bytes: 32, n: 1, stride: 32 };
    let new = arrays.add(single, &members);
    assert_eq!(pieces(&mut arrays, (&single, &new), &members, 0x2008, 8), [(0x2008, 8)]);
    assert_eq!(arrays.n_kept, 1);

    // A region that grows moves, and its place is reused.
    let room = Room { whole_lines: true, ..Room::default() };
    let mut lined = Moved::new(Arrangement::widened(&members, &room, 64, String::new()), 1 << 40);
    let new = lined.add(old, &members);
    let start = new.bases[0];
    assert!(start >= 1 << 40 && start.is_multiple_of(64), "{start:#x}");
    assert_eq!(
        pieces(&mut lined, (&old, &new), &members, 0x1000 + 3 * 32 + 20, 4),
        [(start + 3 * 64 + 20, 4)]
    );
    lined.remove(new);
    assert_eq!(lined.add(old, &members).bases[0], start);
    assert_eq!(lined.n_moved, 2);

    // Cold parts of single elements share an array.
    let mut split = Moved::new(Arrangement::split(&members, &[1], &Room::default(), 64), 1 << 40);
    let one = split.add(single, &members);
    let other = split.add(Old { start: 0x3000, ..single }, &members);
    assert_eq!(other.bases[0] - one.bases[0], 32);
    assert_eq!(pieces(&mut split, (&single, &one), &members, 0x2008, 8), [(one.bases[0], 8)]);
    assert_eq!(pieces(&mut split, (&single, &one), &members, 0x2014, 4), [(one.bases[1] + 4, 4)]);
}

#[test]
fn declarations_are_what_a_compiler_lays_out_so() {
    let members = sample();
    let ordered = Arrangement::ordered(&members, &[1, 3, 4, 0, 2], &Room::default(), 64, String::new());
    let c = declaration(&members, &ordered, Language::C, false);
    assert_eq!(
        c,
        "struct T {\n    double b; /* 0 */\n    int d; /* 8 */\n    char name[6]; /* 12 */\n    char a; /* 18 */\n    char c; /* 19 */\n};\n"
    );
    let rust = declaration(&members, &ordered, Language::Rust, false);
    assert!(rust.contains("pub b: f64, // 0\n    pub d: i32, // 8\n    pub name: [i8; 6]"), "{rust}");
    let arrays = declaration(&members, &Arrangement::arrays(&members), Language::C, false);
    assert!(arrays.contains("    double *b;\n") && arrays.contains("    char (*name)[6];\n"), "{arrays}");
    let room = Room { gaps: vec![(1, Gap::Bytes(8))], whole_lines: true, ..Room::default() };
    let widened = Arrangement::widened(&members, &room, 64, String::new());
    let cpp = declaration(&members, &widened, Language::Cpp, false);
    assert!(cpp.starts_with("struct alignas(64) T {\n") && cpp.contains("unsigned char room1[8];"), "{cpp}");
}

/// Members of random sizes, laid out as in C.
fn any_members() -> impl Strategy<Value = Members> {
    prop::collection::vec(
        prop::sample::select(vec![("char", 1), ("short", 2), ("int", 4), ("long", 8)]),
        2..12,
    )
    .prop_map(|kinds| {
        let mut at = 0u64;
        let names: Vec<String> = (0..kinds.len()).map(|i| format!("m{i}")).collect();
        let list: Vec<(&str, &str, u64, u64)> = kinds
            .iter()
            .zip(&names)
            .map(|((ty, size), name)| {
                let start = at.next_multiple_of(*size);
                at = start + size;
                (name.as_str(), *ty, start, *size)
            })
            .collect();
        members(&list)
    })
}

proptest! {
    /// For every layout: each byte of a member has exactly one place, regions do not overlap, and an access keeps its number
    /// of bytes, in one run if it touches one member.
    #[test]
    fn no_byte_is_lost_or_shared(
        members in any_members(),
        seed in any::<u64>(),
        form in 0..5u8,
        n in 1..6u64,
    ) {
        let mut order: Vec<usize> = (0..members.units.len()).collect();
        order.sort_by_key(|unit| (*unit as u64 + 1).wrapping_mul(seed | 1) >> 7);
        let room = Room {
            gaps: vec![(order[0], if seed % 2 == 0 { Gap::Line } else { Gap::Bytes(seed % 9) })],
            whole_lines: seed % 3 == 0,
            align: 0,
        };
        let arrangement = match form {
            0 => Arrangement::ordered(&members, &order, &Room::default(), 64, String::new()),
            1 => Arrangement::ordered(&members, &order, &room, 64, String::new()),
            2 => Arrangement::split(&members, &order[..1], &Room::default(), 64),
            3 => Arrangement::widened(&members, &room, 64, String::new()),
            _ => Arrangement::arrays(&members),
        };
        let mut moved = Moved::new(arrangement, 1 << 40);
        let mut taken = HashSet::new();
        for region in 0..3u64 {
            let old = Old { start: 0x1000 * (region + 1), bytes: n * members.size, n, stride: members.size };
            let new = moved.add(old, &members);
            for element in 0..n {
                for unit in &members.units {
                    let addr = old.start + element * members.size + unit.start;
                    let whole = pieces(&mut moved, (&old, &new), &members, addr, unit.bytes as u32);
                    prop_assert_eq!(whole.len(), 1);
                    prop_assert_eq!(u64::from(whole[0].1), unit.bytes);
                    prop_assert!(whole[0].0.is_multiple_of(unit.align));
                    for byte in 0..unit.bytes {
                        let one = pieces(&mut moved, (&old, &new), &members, addr + byte, 1);
                        prop_assert_eq!(&one, &[(whole[0].0 + byte, 1)]);
                        prop_assert!(taken.insert(one[0].0), "two bytes at {:#x}", one[0].0);
                    }
                }
            }
            // A copy of the whole region contains all bytes of members, plus at most those of padding.
            let copied: u64 = pieces(&mut moved, (&old, &new), &members, old.start, old.bytes as u32)
                .iter()
                .map(|(_, bytes)| u64::from(*bytes))
                .sum();
            let least: u64 = n * members.units.iter().map(|unit| unit.bytes).sum::<u64>();
            prop_assert!(least <= copied && copied <= old.bytes, "{} of {}", copied, old.bytes);
        }
    }
}
