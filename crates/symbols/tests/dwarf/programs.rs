//! Test programs, compiled on the spot. Missing tools are reported, and their tests skipped.

use quipu_symbols::dwarf::{DebugInfo, Type};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// True if a program can be run; prints what to install if not.
pub(crate) fn has(program: &str, package: &str) -> bool {
    let is_there =
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("passed over: no `{program}` here; the Debian package is `{package}`");
    }
    is_there
}

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

pub(crate) fn run(program: &str, folder: &Path, args: &[&str]) -> String {
    let output = Command::new(program).current_dir(folder).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles a program and returns its path; `None`, with a message, if the compiler does not know a flag.
pub(crate) fn compile(compiler: &str, folder: &TempDir, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = folder.path().join("program");
    let source = source(name);
    let mut args = vec!["-g", "-O0", source.to_str().unwrap(), "-o", program.to_str().unwrap()];
    args.extend(flags);
    let output = Command::new(compiler).current_dir(folder.path()).args(&args).output().unwrap();
    if !output.status.success() {
        eprintln!("passed over: {compiler} {flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success().then_some(program)
}

pub(crate) const COMPILERS: [(&str, &str, &str); 2] =
    [("gcc", "g++", "gcc g++"), ("clang", "clang++", "clang")];
pub(crate) const FLAGS: [&[&str]; 9] = [
    &["-gdwarf-4"],
    &["-gdwarf-5"],
    &["-gdwarf-4", "-fdebug-types-section"],
    &["-gdwarf-5", "-fdebug-types-section"],
    &["-gdwarf-5", "-gz"],
    &["-gdwarf-4", "-gsplit-dwarf"],
    &["-gdwarf-5", "-gsplit-dwarf"],
    &["-gdwarf-5", "-gsplit-dwarf", "-fdebug-types-section"],
    &["-gdwarf-5", "-c"],
];

pub(crate) fn find(info: &DebugInfo, name: &str) -> Type {
    let id = info.find(name).unwrap_or_else(|| panic!("`{name}` is not found"));
    info.read(id).unwrap()
}

/// Members as `name: type @ bits + bits`.
pub(crate) fn members(ty: &Type) -> Vec<String> {
    let number = |n: Option<u64>| n.map_or("?".to_owned(), |n| n.to_string());
    let line = |member: &quipu_symbols::dwarf::types::Member| {
        let name = member.name.as_deref().unwrap_or("-");
        format!("{name}: {} @ {} + {}", member.text, number(member.bit_offset), number(member.bit_size))
    };
    ty.members.iter().map(line).collect()
}

#[track_caller]
pub(crate) fn each_program(name: &str, mut check: impl FnMut(&Arc<DebugInfo>, &str)) {
    for (c, cpp, package) in COMPILERS {
        let compiler = if name.ends_with(".c") { c } else { cpp };
        if !has(compiler, package) {
            continue;
        }
        for flags in FLAGS {
            let folder = TempDir::new().unwrap();
            let Some(program) = compile(compiler, &folder, name, flags) else { continue };
            let info = Arc::new(DebugInfo::open(&program).unwrap());
            assert_eq!(info.missing(), [""; 0], "{compiler} {flags:?}");
            eprintln!("{compiler} {flags:?}");
            check(&info, &format!("{compiler} {flags:?}"));
        }
    }
}
