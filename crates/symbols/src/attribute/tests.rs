//! Tests of fields, elements and regions on hand-made types.

use super::*;
use crate::types_file::TypesFile;

/// Types that the tests of two crates share.
const FILE: &str = include_str!("../../tests/programs/pairs.dwarf.json");

fn types() -> Types {
    Types::of_file(&TypesFile::parse(FILE.as_bytes()).unwrap())
}

fn shape(name: &str) -> Shape {
    let mut types = types();
    let (id, _) = types.find(name.as_bytes()).unwrap();
    types.shape(id).clone()
}

/// The path of the field that an access hits, and the start of the field.
fn field(shape: &Shape, offset: u64, size: u64) -> (String, u64) {
    match shape.spot(offset, size) {
        Spot::Field(found) => (shape.fields[found.field as usize].path.clone(), found.start),
        Spot::Gap(end) => ("-".to_owned(), end),
    }
}

#[test]
fn elements_of_arrays_are_one_field() {
    let shape = shape("table_t");
    let fields =
        shape.fields.iter().map(|field| (field.path.as_str(), field.offset, field.size, field.count));
    assert_eq!(
        fields.collect::<Vec<_>>(),
        [
            ("n", 0, 4, 1),
            ("slots[].key", 8, 1, 3),
            ("slots[].value", 16, 8, 3),
            ("marks[]", 56, 2, 3),
            ("u.i|f", 64, 4, 1),
            ("u.d", 64, 8, 1),
        ]
    );
    assert_eq!((shape.size, shape.align, shape.is_open, shape.unused()), (72, 8, false, 4 + 3 * 7 + 2));
    assert_eq!(field(&shape, 24, 1), ("slots[].key".to_owned(), 24));
    assert_eq!(field(&shape, 33, 8), ("slots[].value".to_owned(), 32));
    assert_eq!(field(&shape, 26, 1), ("-".to_owned(), 32));
    assert_eq!(field(&shape, 59, 1), ("marks[]".to_owned(), 58));
    assert_eq!(field(&shape, 62, 1), ("-".to_owned(), 64));
}

#[test]
fn of_members_in_one_place_the_one_that_fits_is_meant() {
    let shape = shape("struct.Table.17");
    assert_eq!(field(&shape, 64, 4).0, "u.i|f");
    assert_eq!(field(&shape, 64, 8).0, "u.d");
    assert_eq!(field(&shape, 68, 4).0, "u.d");
    assert_eq!(field(&shape, 65, 1).0, "u.i|f");
}

#[test]
fn a_character_of_a_text_is_the_texts() {
    let file = r#"{"structs": [], "typedefs": [], "unions": [{"id": 1, "name": "U", "members": [
        {"id": 2, "memberName": "i", "name": "int", "size": 4},
        {"id": 3, "memberName": "d", "name": "double", "size": 8},
        {"id": 4, "memberName": "raw", "name": "char[]", "size": 12}]}], "version": 4}"#;
    let mut types = Types::of_file(&TypesFile::parse(file.as_bytes()).unwrap());
    let (id, _) = types.find(b"union U").unwrap();
    let shape = types.shape(id).clone();
    let of = |offset, size| field(&shape, offset, size).0;
    assert_eq!([of(0, 1), of(5, 1), of(11, 1), of(0, 12)], ["raw"; 4]);
    assert_eq!([of(0, 4), of(0, 8), of(4, 4), of(8, 4)], ["i", "d", "d", "raw"]);
}

#[test]
fn what_the_table_says_at_once_is_what_the_search_says() {
    let shape = shape("struct Table");
    for offset in 0..shape.size {
        for size in 1..=16.min(shape.size - offset) {
            let mut spots = Vec::new();
            shape.touched(offset..offset + size, &mut |spot, _| {
                spots.push(match spot {
                    Spot::Field(found) => Some(found.field),
                    Spot::Gap(_) => None,
                });
            });
            spots.dedup();
            if let Some(field) = shape.whole(offset, size) {
                assert_eq!(spots, [Some(field)], "{offset} {size}");
            } else {
                let is_double = offset + size > 64;
                assert!(spots.len() > 1 || spots == [None] || is_double, "{offset} {size} {spots:?}");
            }
        }
    }
}

#[test]
fn an_access_touches_all_that_lies_in_its_bytes() {
    let mut touched = Vec::new();
    shape("table_t").touched(54..60, &mut |spot, bytes| touched.push((spot, bytes)));
    assert_eq!(
        touched,
        [
            (Spot::Field(Found { field: 2, start: 48, size: 8, element: 8 }), 54..56),
            (Spot::Field(Found { field: 3, start: 56, size: 2, element: 2 }), 56..58),
            (Spot::Field(Found { field: 3, start: 58, size: 2, element: 2 }), 58..60),
        ]
    );
}

#[test]
fn a_block_of_several_times_the_size_is_an_array() {
    let mut attribution = Attribution::new(types());
    attribution.add("struct.Pair", 0x1000, 160, 1, 7);
    let hit = attribution.at(0x1000 + 0x99).unwrap();
    assert_eq!((hit.element, hit.offset, hit.region.what.origin), (9, 9, 7));
    // With additional bytes at the end, it is one element.
    attribution.add("struct.Pair", 0x2000, 24, 1, 0);
    assert_eq!(attribution.at(0x2014).map(|hit| (hit.element, hit.offset)), Some((0, 20)));
    // Elements are as far apart as stated.
    attribution.add("struct.Pair", 0x3000, 24, 4, 0);
    assert_eq!(attribution.at(0x3000 + 50).map(|hit| (hit.element, hit.offset)), Some((2, 2)));
    attribution.add("i32*", 0x4000, 400, 1, 0);
    assert_eq!(attribution.at(0x4000 + 41).map(|hit| (hit.element, hit.offset)), Some((10, 1)));
}

#[test]
fn the_newest_region_has_the_address_and_unknown_names_hide_what_is_below() {
    let mut attribution = Attribution::new(types());
    attribution.add("struct.Table", 0x1000, 72, 2, 1);
    attribution.add("nobody knows", 0x1010, 16, 1, 2);
    let origin = |attribution: &mut Attribution, addr| {
        attribution.at(addr).map(|hit| (hit.region.what.origin, hit.shape.is_some()))
    };
    assert_eq!(origin(&mut attribution, 0x1010), Some((2, false)));
    assert_eq!(origin(&mut attribution, 0x1020), Some((1, true)));
    attribution.remove(0x1010);
    assert_eq!(origin(&mut attribution, 0x1010), Some((1, true)));
    attribution.remove(0x1000);
    assert_eq!(origin(&mut attribution, 0x1010), None);
}

#[test]
fn types_that_hold_themselves_end() {
    let file = FILE.replace("\"name\": \"char\", \"offset\": 0", "\"name\": \"struct Pair\", \"offset\": 0");
    let mut types = Types::of_file(&TypesFile::parse(file.as_bytes()).unwrap());
    assert!(types.find(b"struct.Pair").is_some());
}

#[test]
fn of_two_types_with_one_name_the_last_counts_but_a_declaration_hides_none() {
    let def = |name: &str, member: &str| {
        let members = match member {
            "" => String::new(),
            _ => format!(r#"{{"id": 2, "memberName": "{member}", "name": "int", "offset": 0, "size": 4}}"#),
        };
        format!(r#"{{"id": 1, "name": "struct {name}", "members": [{members}]}}"#)
    };
    let structs =
        [def("A", ""), def("A", "old"), def("A", "new"), def("A", ""), def("B", "b"), def("C", "c")];
    let text = format!(
        r#"{{"structs": [{}], "typedefs": [{{"type": "t", "def": "struct B"}}, {{"type": "t", "def": "struct C"}}],
            "unions": [], "version": 4}}"#,
        structs.join(",")
    );
    let mut types = Types::of_file(&TypesFile::parse(text.as_bytes()).unwrap());
    let mut first_of = |name: &str| {
        let (id, _) = types.find(name.as_bytes()).unwrap();
        types.shape(id).fields[0].path.clone()
    };
    assert_eq!((first_of("struct.A"), first_of("t")), ("new".to_owned(), "c".to_owned()));
}
