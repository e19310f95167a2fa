//! Linking of programs that record themselves.
//!
//! The runtime is linked before the C library, so that it stands before `malloc` and others. Functions that copy memory are
//! called by everyone, the runtime and the C++ library included, so only the program's own objects are linked with the
//! runtime's.

use crate::tsan::wrap::{NO_LINK, Runtime};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Functions of the C library that copy, fill and compare memory. Programs call the runtime's in place of them, which has
/// them as `__wrap_…`.
pub const COPYING: [&str; 22] = [
    "memcpy",
    "memmove",
    "mempcpy",
    "memset",
    "memcmp",
    "bcmp",
    "strcpy",
    "stpcpy",
    "strncpy",
    "strcat",
    "strncat",
    "strcmp",
    "strlen",
    "__memcpy_chk",
    "__memmove_chk",
    "__mempcpy_chk",
    "__memset_chk",
    "__strcpy_chk",
    "__stpcpy_chk",
    "__strncpy_chk",
    "__strcat_chk",
    "__strncat_chk",
];

/// The linker's option for each function in [`COPYING`], with commas between them.
pub(crate) fn wrapped() -> String {
    COPYING.map(|name| format!("--wrap={name}")).join(",")
}

/// Linker flags for the runtime, before all other libraries, so that it precedes the C and C++ libraries.
pub(crate) fn link_flags(runtime: &Runtime) -> Vec<OsString> {
    let (mut flags, records_copies): (Vec<OsString>, bool) = match runtime {
        Runtime::Shared(library) => {
            let mut search = OsString::from("-Wl,-rpath,");
            search.push(library.parent().unwrap_or(Path::new(".")));
            let flags: [OsString; 4] =
                ["-Wl,--push-state,--no-as-needed".into(), library.into(), "-Wl,--pop-state".into(), search];
            (flags.into(), true)
        }
        Runtime::Static { library, has_own_names } => {
            let flags: [OsString; 9] = [
                // These symbols pull in the whole library, which is a single object; libraries loaded later find it in
                // the program.
                "-Wl,-u,__tsan_read1".into(),
                "-Wl,-u,malloc".into(),
                "-Wl,--export-dynamic".into(),
                library.into(),
                "-Wl,--push-state,--as-needed".into(),
                "-lgcc_s".into(),
                "-lpthread".into(),
                "-ldl".into(),
                "-Wl,--pop-state".into(),
            ];
            (flags.into(), *has_own_names)
        }
    };
    if records_copies {
        flags.push(format!("-Wl,{}", wrapped()).into());
    }
    flags
}

/// Prepares a static runtime for programs whose copies are recorded: its own calls of the functions in [`COPYING`] get the
/// names by which linkers know the C library's functions beside `--wrap`. Without a program that can do that, such a runtime
/// records no copies, which is a warning.
pub(crate) fn prepared(runtime: &Runtime, args: &[OsString], folder: &Path, warn: impl Fn(&str)) -> Runtime {
    let Runtime::Static { library, has_own_names: false } = runtime else { return runtime.clone() };
    if args.iter().any(|arg| NO_LINK.iter().any(|name| arg == name)) {
        return runtime.clone();
    }
    let made = folder.join("libquipu_rt.a");
    let names = COPYING.iter().map(|name| format!("--redefine-sym={name}=__real_{name}"));
    let arguments: Vec<OsString> =
        names.map(OsString::from).chain([library.clone().into(), made.clone().into()]).collect();
    let is_made = ["objcopy", "llvm-objcopy"]
        .iter()
        .any(|program| Command::new(program).args(&arguments).status().is_ok_and(|status| status.success()));
    if !is_made {
        warn(
            "copies by `memcpy` and others are not recorded: `objcopy` prepares a static runtime for that, and is missing",
        );
        return runtime.clone();
    }
    Runtime::Static { library: made, has_own_names: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_recorded_by_a_static_runtime_that_has_its_own_names() {
        for has_own_names in [false, true] {
            let flags = link_flags(&Runtime::Static { library: "/lib/q/librt.a".into(), has_own_names });
            assert!(flags.contains(&"/lib/q/librt.a".into()), "{flags:?}");
            let wraps = flags.iter().any(|flag| flag.to_string_lossy().starts_with("-Wl,--wrap=memcpy,"));
            assert_eq!(wraps, has_own_names, "{flags:?}");
        }
    }
}
