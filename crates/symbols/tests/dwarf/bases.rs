//! Members at unusual offsets, compared with those in the running program.

use crate::programs::{COMPILERS, compile, has, run};
use quipu_symbols::attribute::{Spot, Types};
use quipu_symbols::dwarf::DebugInfo;
use quipu_symbols::layout::{LeafKind, Limits};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tempfile::TempDir;

#[test]
fn members_of_virtual_bases_and_without_addresses_of_their_own_are_where_the_program_has_them() {
    for (_, compiler, package) in COMPILERS {
        if !has(compiler, package) {
            continue;
        }
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let folder = TempDir::new().unwrap();
            let flags = [version, "-std=c++20"];
            let program = compile(compiler, &folder, "bases.cpp", &flags).unwrap();
            let info = Arc::new(DebugInfo::open(&program).unwrap());
            let mut types = Types::of_program(Arc::clone(&info));
            let printed = run(program.to_str().unwrap(), folder.path(), &[]);
            let mut classes: BTreeMap<&str, Vec<(&str, u64, u64)>> = BTreeMap::new();
            for line in printed.lines() {
                let words: Vec<&str> = line.split(' ').collect();
                let [class, path, offset, size] = words[..] else { panic!("{line}") };
                let member = (path, offset.parse().unwrap(), size.parse().unwrap());
                classes.entry(class).or_default().push(member);
            }
            assert_eq!(classes.len(), 6);
            for (class, members) in classes {
                let what = format!("{compiler} {version} {class}");
                let flat = info.flat(info.find(class).unwrap(), Limits::default()).unwrap();
                let (shape, _) = types.find(class.as_bytes()).unwrap();
                let shape = types.shape(shape);
                for (path, offset, size) in &members {
                    let leaf = flat.leaves.iter().find(|leaf| leaf.path == *path);
                    let leaf = leaf.unwrap_or_else(|| panic!("{what}: no {path} in {:?}", flat.leaves));
                    assert_eq!((leaf.offset, leaf.size), (*offset, *size), "{what} {path}");
                    let Spot::Field(found) = shape.spot(*offset, *size) else { panic!("{what} {path}") };
                    let field = &shape.fields[found.field as usize];
                    assert_eq!(field.path, path.replace("[1]", "[]"), "{what}");
                }
                if class == "Holder" {
                    continue;
                }
                // Only pointers to tables have further bytes; the rest is padding.
                let is_table = |leaf: &&quipu_symbols::layout::Leaf| leaf.path.contains("_vptr");
                let tables: Vec<_> = flat.leaves.iter().filter(is_table).collect();
                assert!(tables.iter().all(|leaf| leaf.kind == LeafKind::Pointer), "{what}");
                assert_eq!(flat.leaves.len(), tables.len() + members.len(), "{what} {:?}", flat.leaves);
                let tables = tables.iter().flat_map(|leaf| leaf.offset..leaf.offset + leaf.size);
                let taken: BTreeSet<u64> =
                    members.iter().flat_map(|(_, start, n)| *start..start + n).chain(tables).collect();
                assert_eq!(flat.unused(), flat.size - u64::try_from(taken.len()).unwrap(), "{what}");
            }
        }
    }
}
