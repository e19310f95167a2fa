//! Types files, compared with those that Cacheray wrote.

use crate::programs::{compile, has};
use quipu_symbols::dwarf::DebugInfo;
use quipu_symbols::extract::{Compat, types_file};
use quipu_symbols::types_file::TypesFile;
use std::path::Path;
use tempfile::TempDir;

/// The types file of a program, compiled by the compiler that Cacheray's tools were made for.
fn extracted(program: &Path, compat: Compat) -> Result<TypesFile, String> {
    types_file(&DebugInfo::open(program).unwrap(), compat).map_err(|error| error.to_string())
}

#[test]
fn the_types_file_is_the_originals_where_that_is_right() {
    // Cacheray's output for programs with these types, except for ids, which depend on the rest of the program.
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/cacheray/types");
    if !has("clang", "clang") {
        return;
    }
    for (sample, program) in [
        ("structs", "sample-structs.c"),
        ("grand", "sample-grand.c"),
        ("reorder", "sample-reorder.c"),
        ("shapes", "sample-shapes.c"),
    ] {
        let folder = TempDir::new().unwrap();
        let path = compile("clang", &folder, program, &["-gdwarf-4"]).unwrap();
        let golden = std::fs::read(samples.join(format!("{sample}.dwarf.json"))).unwrap();
        let golden = without_ids(TypesFile::parse(&golden).unwrap());
        for compat in [Compat::Right, Compat::Original] {
            assert_eq!(without_ids(extracted(&path, compat).unwrap()), golden, "{sample} {compat:?}");
        }
    }
}

fn without_ids(mut file: TypesFile) -> TypesFile {
    for one in &mut file.structs {
        one.id = 0;
        one.members.iter_mut().for_each(|member| member.id = 0);
    }
    for one in &mut file.unions {
        one.id = 0;
        one.members.iter_mut().for_each(|member| member.id = 0);
    }
    file
}

#[test]
fn the_originals_faults_are_behind_a_switch() {
    if !has("gcc", "gcc") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = compile("gcc", &folder, "shapes.c", &["-gdwarf-4"]).unwrap();
    let size_of = |file: &TypesFile, name: &str, member: &str| {
        let found = file.structs.iter().find(|one| one.name == name).unwrap();
        found.members.iter().find(|one| one.member == member).map(|one| one.size)
    };
    let right = extracted(&path, Compat::Right).unwrap();
    assert_eq!(size_of(&right, "struct node", "grid"), Some(12));
    assert!(right.structs.iter().all(|one| one.name != "struct secret"));
    assert!(right.structs.iter().any(|one| one.name == "struct work::local"));
    // Bit fields in gcc's default output have no offset in bytes.
    let path = compile("gcc", &folder, "shapes.c", &["-gdwarf-5"]).unwrap();
    let error = extracted(&path, Compat::Original).unwrap_err();
    assert!(
        error.contains("Cacheray's extractor gives up at an entry without `DW_AT_data_member_location`"),
        "{error}"
    );
    assert_eq!(without_ids(extracted(&path, Compat::Right).unwrap()), without_ids(right));
    let path = compile("gcc", &folder, "sample-shapes.c", &["-gdwarf-4", "-gstrict-dwarf"]).unwrap();
    let faulty = extracted(&path, Compat::Original).unwrap();
    assert_eq!(size_of(&faulty, "struct node", "tag"), Some(1));
}
