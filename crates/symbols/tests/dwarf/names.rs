//! Names of types in the spelling of people and of compilers.

use crate::programs::{COMPILERS, compile, has, run};
use quipu_symbols::dwarf::DebugInfo;
use tempfile::TempDir;

/// The types of the program's variables, in the order in which it prints them: names that people write, the type's own name,
/// and its size.
const TYPES: [(&[&str], &str, u64); 7] = [
    (&["lib::Plain", "lib::v1::Plain"], "lib::v1::Plain", 4),
    (&["lib::v2::Plain"], "lib::v2::Plain", 8),
    (&["lib::Box<lib::Plain>", "lib::Box<lib::v1::Plain, 3>"], "lib::v1::Box<lib::v1::Plain, 3>", 24),
    (&["lib::Box<lib::Plain>::Inner"], "lib::v1::Box<lib::v1::Plain, 3>::Inner", 8),
    (&["lib::Box<std::string, 4>"], "lib::v1::Box<std::__cxx11::basic_string<char, …>, 4>", 136),
    (&["std::vector<std::string>", "std::vector<std::__cxx11::basic_string<char> >"], "std::vector<…>", 24),
    (&["std::map<std::string, lib::Plain>"], "std::map<…>", 48),
];

#[test]
fn names_of_annotations_and_of_people_lead_to_types() {
    for (_, compiler, package) in COMPILERS {
        if !has(compiler, package) {
            continue;
        }
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let folder = TempDir::new().unwrap();
            let program = compile(compiler, &folder, "names.cpp", &[version]).unwrap();
            let info = DebugInfo::open(&program).unwrap();
            let printed = run(program.to_str().unwrap(), folder.path(), &[]);
            assert_eq!(printed.lines().count(), TYPES.len());
            for (line, (names, path, size)) in printed.lines().zip(TYPES) {
                // `const char* name_of(const T&) [with T = int]`; clang writes `[T = int]`.
                let of_compiler = line.rsplit_once("T = ").unwrap().1.strip_suffix(']').unwrap();
                for name in [of_compiler].iter().chain(names) {
                    let what = format!("{compiler} {version} {name}");
                    let id = info.find(name).unwrap_or_else(|| panic!("{what} is not found"));
                    let ty = info.read(id).unwrap();
                    let begins = path.split('…').next().unwrap();
                    assert!(ty.path.starts_with(begins), "{what}: {}", ty.path);
                    assert_eq!(ty.size, Some(size), "{what}");
                }
            }
            assert_eq!(info.find("lib::v3::Plain"), None);
            assert_eq!(info.find("std::vector<std::wstring>"), None);
        }
    }
}
