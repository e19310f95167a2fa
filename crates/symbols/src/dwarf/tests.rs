//! Many units in parallel, on the test program itself; and the walk compared with a plain one.

use super::index::Index;
use super::objects::{Objects, Wanted};
use super::units::Die;
use super::walk::is_type;
use super::{DebugInfo, TypeId};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn units_side_by_side_say_what_they_say_one_after_another() {
    // Compiled without debug information, it has nothing to test.
    let Ok(mut info) = DebugInfo::open(&std::env::current_exe().unwrap()) else { return };
    info.units.part_bytes = u64::MAX;
    let index = Index::new(&info.units);
    let objects = Objects::new(&info, Wanted::All);
    let variables = Objects::new(&info, Wanted::Variables);
    assert_eq!(variables.globals, objects.globals);
    assert!(variables.functions.is_empty());
    for part_bytes in [1, 10_000] {
        info.units.part_bytes = part_bytes;
        assert!(Index::new(&info.units) == index, "{part_bytes}");
        assert!(Objects::new(&info, Wanted::All) == objects, "{part_bytes}");
        assert!(Objects::new(&info, Wanted::Variables) == variables, "{part_bytes}");
    }
}

/// Compiles a program; `None`, with a message, if the compiler or a flag is not available.
fn compiled(compiler: &str, folder: &Path, source: &Path, flags: &[&str]) -> Option<PathBuf> {
    let program = folder.join("program");
    let mut command = Command::new(compiler);
    let output =
        command.current_dir(folder).arg("-g").arg(source).arg("-o").arg(&program).args(flags).output();
    let is_made = output.is_ok_and(|output| output.status.success());
    if !is_made {
        eprintln!("passed over: {compiler} {flags:?}");
    }
    is_made.then_some(program)
}

/// The data that a walk reports for a type: its id, its scope and its name.
type Told = (TypeId, Option<TypeId>, Option<String>);

/// All types, variables and functions, read by `gimli` entry by entry.
fn plain(info: &DebugInfo) -> (Vec<Told>, Vec<TypeId>, Vec<TypeId>) {
    let view = info.view();
    let (mut types, mut variables, mut functions) = (Vec::new(), Vec::new(), Vec::new());
    for unit in 0..u32::try_from(info.n_units()).unwrap() {
        let open = view.open(unit).unwrap();
        let mut raw = open.unit.entries_raw(None).unwrap();
        let mut die = Die::null();
        let mut around: Vec<(isize, TypeId)> = Vec::new();
        while !raw.is_empty() {
            if !raw.read_entry(&mut die).unwrap() {
                continue;
            }
            around.retain(|(depth, _)| *depth < die.depth());
            let id = TypeId { unit, offset: u32::try_from(die.offset().0).unwrap() };
            let tag = die.tag();
            if is_type(tag) {
                types.push((id, around.last().map(|(_, id)| *id), open.name(&die)));
            }
            if is_type(tag)
                || matches!(tag, gimli::DW_TAG_namespace | gimli::DW_TAG_module | gimli::DW_TAG_subprogram)
            {
                around.push((die.depth(), id));
            }
            let address = match die.attr_value(gimli::DW_AT_location) {
                Some(gimli::AttributeValue::Exprloc(of)) => {
                    match of.operations(open.unit.encoding()).next() {
                        Ok(Some(gimli::Operation::Address { address })) => Some(address),
                        Ok(Some(gimli::Operation::AddressIndex { .. })) => Some(1),
                        _ => None,
                    }
                }
                _ => None,
            };
            if address.is_some_and(|address| address != 0) && tag == gimli::DW_TAG_variable {
                variables.push(id);
            }
            let has = |name| die.attr(name).is_some();
            if tag == gimli::DW_TAG_subprogram && (has(gimli::DW_AT_low_pc) || has(gimli::DW_AT_ranges)) {
                functions.push(id);
            }
        }
    }
    (types, variables, functions)
}

#[test]
fn the_walk_tells_what_a_plain_walk_finds() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let all_flags: [&[&str]; 5] = [
        &["-gdwarf-4"],
        &["-gdwarf-5", "-O2"],
        &["-gdwarf-5", "-gdwarf64"],
        &["-gdwarf-5", "-gsplit-dwarf", "-fdebug-types-section"],
        &["-gdwarf-2"],
    ];
    for compiler in ["g++", "clang++"] {
        for source in ["classes.cpp", "inside.cpp"] {
            for flags in all_flags {
                let folder = tempfile::TempDir::new().unwrap();
                let source = programs.join(source);
                let Some(program) = compiled(compiler, folder.path(), &source, flags) else { continue };
                let info = DebugInfo::open(&program).unwrap();
                let (types, variables, functions) = plain(&info);
                let index = info.index();
                let what = format!("{compiler} {flags:?}");
                assert!(types.iter().map(|(id, ..)| *id).eq(info.type_ids()), "{what}");
                assert_eq!(index.variables, variables, "{what}");
                assert_eq!(index.functions, functions, "{what}");
                assert!(types.len() > 10 && !variables.is_empty() && !functions.is_empty(), "{what}");
                for (id, around, name) in types {
                    assert_eq!(index.scope_of(id), around, "{what} {id:?} {name:?}");
                    let Some(name) = name else { continue };
                    assert!(index.candidates(name.as_bytes()).any(|of| of.id == id), "{what} {name}");
                }
            }
        }
    }
}

#[test]
fn variables_and_functions_have_their_classes_around_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/inside.cpp");
    for compiler in ["g++", "clang++"] {
        for flags in [["-O0", "-gdwarf-5"], ["-O2", "-gdwarf-5"], ["-O0", "-gdwarf-4"], ["-O2", "-gdwarf-4"]]
        {
            let folder = tempfile::TempDir::new().unwrap();
            let Some(program) = compiled(compiler, folder.path(), &source, &flags) else { continue };
            let info = DebugInfo::open(&program).unwrap();
            let what = format!("{compiler} {flags:?}");
            let mut globals: Vec<&str> = info.variables().globals.iter().map(|of| &*of.name).collect();
            globals.sort_unstable();
            // Clang does not record the scope of this one.
            let times =
                if globals.contains(&"outer::times") { "outer::times" } else { "outer::inlined::times" };
            let expected =
                ["outer::Counter::next::calls", "outer::Counter::total", "outer::declared_inside", times];
            assert_eq!(globals, expected, "{what}");
            let functions: Vec<&str> = info.objects().functions.iter().map(|of| &*of.name).collect();
            assert!(functions.contains(&"outer::Counter::next"), "{what} {functions:?}");
            assert!(info.find("outer::Counter::next::Local").is_some(), "{what}");
            let function = info.objects().functions.iter().find(|of| of.name.ends_with("next")).unwrap();
            let start = function.ranges[0].start;
            assert_eq!(info.objects().function_at(start), Some(function), "{what}");
            let names = |address| info.inlined_at(address).into_iter().map(|of| of.name).collect::<Vec<_>>();
            let within: Vec<_> = function.ranges.iter().flat_map(Clone::clone).flat_map(names).collect();
            assert!(within.iter().any(|name| name == "outer::inlined"), "{what} {within:?}");
        }
    }
}
