//! Lines of declarations, and variables that only the symbol tables have.

use crate::programs::{COMPILERS, compile, each_program, find, has, source};
use quipu_symbols::dwarf::DebugInfo;
use quipu_symbols::dwarf::types::Place;
use quipu_symbols::symbol_table::data_symbols;
use std::process::Command;
use tempfile::TempDir;

/// The line of a source that contains a text; there must be exactly one.
fn line_of(name: &str, text: &str) -> u64 {
    let source = std::fs::read_to_string(source(name)).unwrap();
    let mut lines = (1..).zip(source.lines()).filter(|(_, line)| line.contains(text));
    let (line, None) = (lines.next().unwrap().0, lines.next()) else { panic!("{text}") };
    line
}

#[test]
fn declarations_have_the_file_and_line_of_the_source() {
    each_program("shapes.c", |info, how| {
        let check = |place: Option<&Place>, text: &str| {
            let place = place.unwrap_or_else(|| panic!("{how}: {text}"));
            assert!(place.file.ends_with("tests/programs/shapes.c"), "{how} {text}: {place}");
            assert_eq!(place.line, line_of("shapes.c", text), "{how} {text}");
        };
        let node = find(info, "node");
        check(node.place.as_ref(), "struct node {");
        let member = |name: &str| node.members.iter().find(|of| of.name.as_deref() == Some(name)).unwrap();
        check(member("tag").place.as_ref(), "char tag[6]");
        check(member("rest").place.as_ref(), "char rest[]");
        check(find(info, "union.num").place.as_ref(), "union num {");
        check(find(info, "local").place.as_ref(), "struct local {");
        if how.contains("\"-c\"") {
            return;
        }
        let objects = info.objects();
        let global = |name: &str| objects.globals.iter().find(|of| of.name == name).unwrap();
        check(global("global_node").place.as_ref(), "struct node global_node;");
        check(global("work::counter").place.as_ref(), "static long counter;");
        let work = objects.functions.iter().find(|of| of.name == "work").unwrap();
        check(work.place.as_ref(), "int work(int n)");
        let on_stack = work.variables.iter().find(|of| of.name == "on_stack").unwrap();
        check(on_stack.place.as_ref(), "volatile struct pad on_stack");
    });
    each_program("inside.cpp", |info, how| {
        let place = |place: &Option<Place>, text: &str| {
            let place = place.clone().unwrap_or_else(|| panic!("{how}: {text}"));
            assert!(place.file.ends_with("inside.cpp"), "{how} {text}: {place}");
            assert_eq!(place.line, line_of("inside.cpp", text), "{how} {text}");
        };
        place(&find(info, "outer::Counter::next::Local").place, "struct Local {");
        place(&find(info, "outer::Counter").place, "class Counter {");
        if how.contains("\"-c\"") {
            return;
        }
        // A variable that is defined outside of its class has one of two declaration lines, depending on the compiler.
        let total = info.objects().globals.iter().find(|of| of.name == "outer::Counter::total").unwrap();
        let lines = ["static long total;", "long outer::Counter::total = 7;"];
        let line = total.place.as_ref().unwrap().line;
        assert!(lines.map(|text| line_of("inside.cpp", text)).contains(&line), "{how} {line}");
    });
}

#[test]
fn variables_without_debug_information_are_in_the_tables_of_symbols() {
    for (compiler, _, package) in COMPILERS {
        if !has(compiler, package) {
            continue;
        }
        let folder = TempDir::new().unwrap();
        let program = compile(compiler, &folder, "shapes.c", &["-g0"]).unwrap();
        assert!(DebugInfo::open(&program).unwrap_err().is_absent());
        let symbols = data_symbols(&program).unwrap();
        let size = |name: &str| symbols.iter().find(|of| of.name.starts_with(name)).map(|of| of.size);
        // As in the source: 1096 bytes, four of 24, a long, a packed one of 10, a pointer.
        let names = ["global_node", "pads", "tight", "hidden"];
        assert_eq!(names.map(size), [Some(1096), Some(96), Some(10), Some(8)], "{compiler}");
        assert!(symbols.iter().any(|of| of.name.contains("counter") && of.size == 8), "{compiler}");
        assert!(symbols.is_sorted_by_key(|of| of.address));
        // With debug information, the addresses are the same.
        let program = compile(compiler, &folder, "shapes.c", &[]).unwrap();
        let symbols = data_symbols(&program).unwrap();
        for global in &DebugInfo::open(&program).unwrap().variables().globals {
            let same = symbols.iter().find(|of| of.address == global.address);
            assert_eq!(same.map(|of| of.size), Some(global.size), "{compiler} {}", global.name);
        }
        let Ok(status) = Command::new("strip").arg(&program).status() else { continue };
        assert!(status.success());
        assert!(!data_symbols(&program).unwrap().iter().any(|of| of.name == "pads"));
    }
}
