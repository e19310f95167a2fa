//! Debug information of the installed compilers, compared with the output of their programs and of `pahole`.

// A test that cannot set up its inputs has failed.
#![allow(clippy::unwrap_used)]

mod bases;
mod damage;
mod extract;
mod names;
mod places;
mod programs;

use programs::{COMPILERS, FLAGS, compile, each_program, find, has, members, run, source};
use quipu_symbols::attribute::{Spot, Types};
use quipu_symbols::dwarf::DebugInfo;
use quipu_symbols::dwarf::types::{Encoding, Kind, MemberKind};
use quipu_symbols::layout::{Cell, LeafKind, Limits};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn types_of_c_are_what_the_source_says() {
    each_program("shapes.c", |info, how| {
        let node = find(info, "struct.node.12");
        assert_eq!(
            members(&node)[..8],
            [
                "next: struct node* @ 0 + 64",
                "n: union num @ 64 + 64",
                "fl: struct flags @ 128 + 128",
                "tag: char[6] @ 256 + 48",
                "grid: short[2][3] @ 304 + 96"
                    .replace("short", node.members[4].text.split('[').next().unwrap())
                    .as_str(),
                "call: int (*)(int, const char*) @ 448 + 64",
                "places: vec3[2] @ 512 + 384",
                "-: <anonymous struct> @ 896 + 96",
            ],
            "{how}"
        );
        assert_eq!((node.size, node.path.as_str()), (Some(1096), "node"), "{how}");
        assert_eq!(node.members.last().unwrap().bit_size, Some(0), "{how}");
        let place = node.place.clone().unwrap();
        assert!(place.file.ends_with("tests/programs/shapes.c") && place.line == 24, "{how}: {place}");
        let flags = find(info, "flags");
        assert_eq!(
            flags.members.iter().map(|m| (m.bit_offset.unwrap(), m.bit_size.unwrap())).collect::<Vec<_>>(),
            [(0, 3), (3, 5), (10, 20), (64, 40)],
            "{how}"
        );
        let pad = find(info, "struct pad");
        assert_eq!(
            pad.holes().iter().map(|hole| (hole.bit_offset, hole.bit_size, hole.is_tail)).collect::<Vec<_>>(),
            [(8, 56, false), (136, 56, true)]
        );
        assert_eq!(find(info, "tight").size, Some(10), "{how}");
        assert_eq!(find(info, "nameless").size, Some(4), "{how}");
        let nameless = info.read(info.find("nameless").unwrap()).unwrap();
        assert_eq!((nameless.name.as_deref(), &*info.shown_name(&nameless)), (None, "nameless"), "{how}");
        assert_eq!(find(info, "vec3").path, "vec3");
        assert_eq!(find(info, "local").path, "work::local", "{how}");
        assert_eq!(find(info, "union.num").kind, Kind::Union);
        assert!(info.find("struct.num.x").is_none() && info.find("nothing").is_none());
        assert!(find(info, "secret").is_declaration, "{how}");
    });
}

#[test]
fn a_type_has_the_fields_that_somebody_wrote() {
    each_program("shapes.c", |info, how| {
        let mut types = Types::of_program(info.clone());
        let (id, n) = types.find(b"struct.node.12").unwrap();
        let shape = types.shape(id);
        assert_eq!((n, shape.size, shape.align, shape.is_open), (1, 1096, 8, true), "{how}");
        let fields =
            shape.fields.iter().map(|field| (field.path.as_str(), field.offset, field.size, field.count));
        assert_eq!(
            fields.collect::<Vec<_>>(),
            [
                ("next", 0, 8, 1),
                ("n.i|f", 8, 4, 1),
                ("n.d|raw", 8, 8, 1),
                ("fl.a|b", 16, 1, 1),
                ("fl.wide", 17, 3, 1),
                ("fl.c", 24, 5, 1),
                ("tag", 32, 6, 1),
                ("grid[][]", 38, 2, 6),
                ("call", 56, 8, 1),
                ("places[].x", 64, 8, 2),
                ("places[].y", 72, 8, 2),
                ("places[].z", 80, 8, 2),
                ("first", 112, 4, 1),
                ("inner", 116, 1, 1),
                ("second", 120, 4, 1),
                ("colour", 124, 4, 1),
                ("watch", 128, 8, 1),
                ("pads[].c", 136, 1, 40),
                ("pads[].l", 144, 8, 40),
                ("pads[].d", 152, 1, 40),
                ("rest[]", 1096, 1, 1),
            ],
            "{how}"
        );
        let at = |offset, size| match shape.spot(offset, size) {
            Spot::Field(found) => (shape.fields[found.field as usize].path.clone(), found.start),
            Spot::Gap(end) => ("-".to_owned(), end),
        };
        assert_eq!(at(136 + 24 * 39 + 8, 8), ("pads[].l".to_owned(), 1080), "{how}");
        assert_eq!(at(136 + 24 * 39 + 17, 1), ("-".to_owned(), 1096), "{how}");
        assert_eq!(at(2000, 1), ("rest[]".to_owned(), 2000), "{how}");
        assert_eq!(at(29, 1), ("-".to_owned(), 32), "{how}");
        let place = shape.fields[0].place.clone().unwrap();
        assert!(place.line == 25 && place.file.ends_with("shapes.c"), "{how}: {place}");
        // An array as a whole is a shape with a number of elements.
        let pads = types.program().unwrap().objects().globals.iter().find(|global| global.name == "pads");
        let ty = pads.unwrap().ty.unwrap();
        let (id, n) = types.of_type(ty).unwrap();
        assert_eq!((types.shape(id).name.as_str(), types.shape(id).size, n), ("pad", 24, 4), "{how}");
    });
}

#[test]
fn a_type_is_flattened_to_its_leaves() {
    each_program("shapes.c", |info, how| {
        let flat = info.flat(find(info, "node").id, Limits::default()).unwrap();
        let leaf = |path: &str| {
            let found = flat.leaves.iter().find(|leaf| leaf.path == path);
            found.unwrap_or_else(|| panic!("{how}: no `{path}` in {:?}", flat.leaves))
        };
        for (path, offset, size, kind) in [
            ("next", 0, 8, LeafKind::Pointer),
            ("fl.b", 16, 1, LeafKind::BitField),
            ("fl.wide", 17, 3, LeafKind::BitField),
            ("tag", 32, 6, LeafKind::Array),
            ("places[1].y", 96, 8, LeafKind::Base(Encoding::Float)),
            ("first", 112, 4, LeafKind::Base(Encoding::Signed)),
            ("second", 120, 4, LeafKind::Base(Encoding::Signed)),
            ("colour", 124, 4, LeafKind::Enum),
            ("pads", 136, 960, LeafKind::Array),
        ] {
            let found = leaf(path);
            assert_eq!((found.offset, found.size, found.kind), (offset, size, kind), "{how} {path}");
        }
        assert_eq!(leaf("grid[1][2]").offset, 48, "{how}");
        assert!(flat.is_cut);
        let pad = info.flat(find(info, "pad").id, Limits::default()).unwrap();
        let lines = pad.lines(16, 8);
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0][0], lines[0][8], lines[0][9]), (Cell::Outside, Cell::Leaf(0), Cell::Hole));
        assert_eq!((lines[1][0], lines[1][8], lines[1][9]), (Cell::Leaf(1), Cell::Leaf(2), Cell::Padding));
        assert_eq!(pad.unused(), 14);
        assert_eq!(pad.touched(4, 8).collect::<Vec<_>>(), [1]);
    });
}

#[test]
fn variables_and_functions_have_addresses_and_types() {
    each_program("shapes.c", |info, how| {
        if how.contains("\"-c\"") {
            return;
        }
        let objects = info.objects();
        let global = |name: &str| {
            let found = objects.globals.iter().find(|global| global.name == name);
            found.unwrap_or_else(|| panic!("{how}: no `{name}` in {:?}", objects.globals))
        };
        assert_eq!(
            (global("global_node").size, global("pads").size, global("work::counter").size),
            (1096, 96, 8)
        );
        let pads = global("pads");
        assert_eq!(
            objects.global_at(pads.address + 95).map(|(global, at)| (&*global.name, at)),
            Some(("pads", 95))
        );
        let work = objects.functions.iter().find(|function| function.name == "work").unwrap();
        let names: Vec<&str> = work.variables.iter().map(|variable| &*variable.name).collect();
        assert!(["n", "here", "on_stack"].iter().all(|name| names.contains(name)), "{how}: {names:?}");
        let line = info.line_of(work.ranges[0].start).unwrap();
        assert!(
            line.file.ends_with("shapes.c") && line.line == work.place.as_ref().unwrap().line,
            "{how}: {line}"
        );
    });
}

#[test]
fn types_of_cpp_are_what_the_source_says() {
    each_program("classes.cpp", |info, how| {
        let derived = find(info, "class.ns::Derived");
        assert_eq!(derived.kind, Kind::Class, "{how}");
        assert_eq!(
            members(&derived),
            [
                "-: ns::Base @ 0 + 128",
                "nested: ns::Derived::Nested @ 96 + 64",
                "box: ns::Box<ns::Derived::Nested, 2> @ 192 + 256",
                "reference: int& @ 448 + 64",
                "colour: ns::Derived::Colour @ 512 + 8",
                "pointer: int ns::Base::* @ 576 + 64",
            ],
            "{how}"
        );
        assert_eq!(derived.members[0].kind, MemberKind::Base);
        let inner = find(info, "ns::Box<int, 3>::Inner");
        assert_eq!(members(&inner)[1], "owner: ns::Box<int, 3>* @ 64 + 64", "{how}");
        for (name, path) in [
            ("Hidden", "(anonymous namespace)::Hidden"),
            ("Derived::Nested", "ns::Derived::Nested"),
            ("struct.ns::Derived::Nested.3", "ns::Derived::Nested"),
        ] {
            assert_eq!(find(info, name).path, path, "{how}");
        }
        assert!(find(info, "class.ns::Box").path.starts_with("ns::Box<"), "{how}");
        if !how.contains("\"-c\"") {
            let names: Vec<&str> = info.objects().globals.iter().map(|global| &*global.name).collect();
            assert!(
                names.contains(&"ns::Base::shared") && names.contains(&"global_derived"),
                "{how}: {names:?}"
            );
        }
        let flat = info.flat(derived.id, Limits::default()).unwrap();
        assert!(flat.leaves.iter().any(|leaf| leaf.path == "ns::Base::number"), "{how}: {:?}", flat.leaves);
    });
}

#[test]
fn types_of_rust_are_what_the_source_says() {
    if !has("rustc", "rustc") {
        return;
    }
    for flags in [
        &["-Cdebuginfo=2"][..],
        &["-Cdebuginfo=2", "-Csplit-debuginfo=unpacked"],
        &["-Cdebuginfo=2", "-Csplit-debuginfo=packed"],
    ] {
        let folder = TempDir::new().unwrap();
        let source = source("values.rs");
        let mut args = vec!["--edition=2024", source.to_str().unwrap(), "-o", "program"];
        args.extend(flags);
        run("rustc", folder.path(), &args);
        let info = DebugInfo::open(&folder.path().join("program")).unwrap();
        let point = find(&info, "values::shapes::Point<u32>");
        let mut names = members(&point);
        names.sort();
        assert_eq!(names, ["flag: bool @ 64 + 8", "x: u32 @ 0 + 32", "y: u32 @ 32 + 32"], "{flags:?}");
        assert_eq!(find(&info, "Point<u32>").id, point.id);
        assert_eq!(find(&info, "shapes::Point").path, point.path);
        let shape = find(&info, "values::shapes::Shape");
        assert_eq!(shape.kind, Kind::Variants, "{flags:?}");
        let variants: Vec<&str> = shape.members.iter().filter_map(|member| member.name.as_deref()).collect();
        assert_eq!(variants, ["Circle", "Rect", "Nothing"], "{:?}", shape.members);
        assert!(matches!(&find(&info, "Plain").kind, Kind::Enum(names) if names[1] == ("B".to_owned(), 5)));
        let option = find(&info, "core::option::Option<&values::shapes::Point<u32>>");
        assert_eq!((option.size, option.kind), (Some(8), Kind::Variants));
        let flat = info.flat(shape.id, Limits::default()).unwrap();
        let paths: Vec<&str> = flat.leaves.iter().map(|leaf| &*leaf.path).collect();
        assert!(paths.contains(&"Rect.h") && paths.contains(&"<discriminant>"), "{paths:?}");
        let table = info.objects().globals.iter().find(|global| global.name == "values::TABLE").unwrap();
        assert_eq!((table.size, info.text_of(table.ty.unwrap())), (8, "[u16; 4]".to_owned()));
    }
}

#[test]
fn separate_debug_files_and_packages_are_found() {
    if !has("gcc", "gcc") || !has("objcopy", "binutils") {
        return;
    }
    let folder = TempDir::new().unwrap();
    compile("gcc", &folder, "shapes.c", &[]).unwrap();
    run("objcopy", folder.path(), &["--only-keep-debug", "program", "program.debug"]);
    run("objcopy", folder.path(), &["--strip-debug", "--add-gnu-debuglink=program.debug", "program", "bare"]);
    let info = DebugInfo::open(&folder.path().join("bare")).unwrap();
    assert_eq!(find(&info, "node").size, Some(1096));
    std::fs::remove_file(folder.path().join("program.debug")).unwrap();
    let error = DebugInfo::open(&folder.path().join("bare")).unwrap_err();
    assert!(
        error.to_string().ends_with("the file has no debug information, and `program.debug` is not found"),
        "{error}"
    );
    if has("dwp", "binutils") {
        for flags in [&["-gdwarf-4", "-gsplit-dwarf"], &["-gdwarf-5", "-gsplit-dwarf"]] {
            let folder = TempDir::new().unwrap();
            compile("gcc", &folder, "shapes.c", flags).unwrap();
            let packed =
                Command::new("dwp").current_dir(folder.path()).args(["-e", "program"]).output().unwrap();
            if !packed.status.success() {
                eprintln!("passed over: dwp {flags:?}: {}", String::from_utf8_lossy(&packed.stderr));
                continue;
            }
            for entry in std::fs::read_dir(folder.path()).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "dwo") {
                    std::fs::remove_file(path).unwrap();
                }
            }
            let info = DebugInfo::open(&folder.path().join("program")).unwrap();
            assert_eq!((find(&info, "node").size, info.missing().len()), (Some(1096), 0), "{flags:?}");
        }
    }
}

/// Offset, size in bytes, and first bit of the members that `pahole` prints for a structure, and the structure's size.
fn pahole(folder: &Path, name: &str) -> (Vec<(u64, u64, u64)>, u64) {
    let text = run("pahole", folder, &["-C", name, "program"]);
    let mut members = Vec::new();
    let mut size = 0;
    for line in text.lines() {
        if let Some(rest) = line.trim().strip_prefix("/* size: ") {
            size = rest.split(',').next().unwrap().parse().unwrap();
        }
        let is_own = line.starts_with('\t') && !line.starts_with("\t\t");
        let Some((front, comment)) = line.rsplit_once("/*").filter(|_| is_own) else { continue };
        if front.trim().is_empty() || !front.contains(';') {
            continue;
        }
        let comment = comment.trim_end_matches("*/").replace(':', " : ");
        let numbers: Vec<&str> = comment.split_whitespace().collect();
        let number = |at: usize| numbers[at].parse::<u64>().unwrap();
        members.push(match numbers.len() {
            2 => (number(0), number(1), 0),
            _ => (number(0), number(3), number(2)),
        });
    }
    (members, size)
}

#[test]
fn pahole_agrees_field_by_field() {
    if !has("pahole", "dwarves") {
        return;
    }
    for (c, cpp, package) in COMPILERS {
        for (compiler, program, names) in [
            (c, "shapes.c", &["node", "flags", "pad", "tight"][..]),
            (cpp, "classes.cpp", &["Nested", "Hidden"]),
        ] {
            if !has(compiler, package) {
                continue;
            }
            for flags in &FLAGS[..2] {
                let folder = TempDir::new().unwrap();
                let Some(path) = compile(compiler, &folder, program, flags) else { continue };
                let info = DebugInfo::open(&path).unwrap();
                for name in names {
                    let ty = find(&info, name);
                    let ours: Vec<(u64, u64, u64)> = ty
                        .members
                        .iter()
                        .map(|member| {
                            let (offset, bits) = (member.bit_offset.unwrap(), member.bit_size.unwrap());
                            match member.kind {
                                MemberKind::BitField => {
                                    // `pahole` prints the storage unit, and the first bit in it.
                                    let unit = info.size_of(member.ty.unwrap()).unwrap();
                                    let start = offset / 8 / unit * unit;
                                    let start =
                                        if offset + bits > (start + unit) * 8 { offset / 8 } else { start };
                                    (start, unit, offset - start * 8)
                                }
                                _ => (offset / 8, bits / 8, 0),
                            }
                        })
                        .collect();
                    let (theirs, size) = pahole(folder.path(), name);
                    assert_eq!((ours, ty.size), (theirs, Some(size)), "{compiler} {flags:?} {name}");
                }
            }
        }
    }
}
