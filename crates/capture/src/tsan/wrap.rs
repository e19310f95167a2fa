//! Compilers with instrumentation: the implementation of `quipu cc` and `quipu c++`.
//!
//! The command line is that of the compiler. Compiled code gets calls of the runtime, and linked programs get the runtime
//! instead of the compiler's own race detector. clang has a flag for the latter. gcc has none, and links its detector
//! whenever instrumentation is requested; so a command that compiles and links is split into two steps.

use crate::library;
use crate::tsan::build_files::header_folder;
use crate::tsan::link::{link_flags, prepared};
use quipu_model::fresh::cannot;
use quipu_model::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Family of a compiler, as far as its flags differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// gcc and g++.
    Gcc,
    /// clang and clang++.
    Clang,
}

impl Family {
    /// Flags that instrument what is compiled.
    pub(super) fn flags(self) -> Vec<String> {
        let plain: &[&str] = match self {
            Family::Gcc => &["-fsanitize=thread", "--param", "tsan-distinguish-volatile=1"],
            // Otherwise clang omits a read that is followed by a write to the same address.
            Family::Clang => &[
                "-fsanitize=thread",
                "-mllvm",
                "-tsan-instrument-read-before-write=1",
                "-mllvm",
                "-tsan-distinguish-volatile=1",
            ],
        };
        let mut flags: Vec<String> = plain.iter().map(|flag| (*flag).to_owned()).collect();
        if self == Family::Gcc {
            flags.extend(NOT_INLINED.map(|name| format!("-fno-builtin-{name}")));
            // Some distributions set it, and then the C library's headers replace the functions before gcc could.
            flags.push("-U_FORTIFY_SOURCE".to_owned());
        }
        flags
    }
}

/// How to link the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Path of the shared library, loaded with the program.
    Shared(PathBuf),
    /// The static library, linked into the program.
    Static {
        /// Path of the library.
        library: PathBuf,
        /// Whether what it calls itself of the functions in [`COPYING`](crate::tsan::link::COPYING) has names of its own.
        /// Without these, it would record itself, so copies are not recorded.
        has_own_names: bool,
    },
}

/// The commands to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Arguments of each run of the compiler.
    pub commands: Vec<Vec<OsString>>,
}

/// Options whose argument may be a separate word.
const WITH_ARGUMENT: &[&str] = &[
    "-o",
    "-I",
    "-L",
    "-l",
    "-D",
    "-U",
    "-B",
    "-T",
    "-u",
    "-z",
    "-e",
    "-A",
    "-G",
    "-x",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-isysroot",
    "-imultilib",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xclang",
    "-mllvm",
    "-target",
    "--param",
    "-aux-info",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-wrapper",
    "-arch",
    "--sysroot",
    "-specs",
    "-rpath",
];

/// File name extensions of sources.
const SOURCES: &[&str] = &[
    "c", "C", "cc", "cp", "cxx", "cpp", "CPP", "c++", "i", "ii", "m", "mm", "M", "s", "S", "sx", "f90",
    "F90", "f", "F", "d", "go",
];

/// Functions that gcc must not replace by instructions, which it does not instrument. It may do so with those that only read,
/// because programs use constants that gcc computes of them.
const NOT_INLINED: [&str; 9] =
    ["memcpy", "memmove", "mempcpy", "memset", "strcpy", "stpcpy", "strncpy", "strcat", "strncat"];

/// Options with which nothing is linked.
pub(crate) const NO_LINK: &[&str] =
    &["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "--precompile", "-emit-ast", "--analyze"];
/// Options with which nothing is added to the linked files.
const BARE_LINK: &[&str] = &["-r", "-nostdlib", "-nodefaultlibs", "--relocatable"];

/// Role of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Option,
    /// Belongs to the option before it.
    Argument,
    Source,
    /// An object or library for the linker.
    Linked,
}

/// Plans the compiler runs for these arguments.
///
/// `folder` is for temporary objects that the user did not request; `include` contains `quipu.h`.
///
/// # Errors
/// `Unsupported` for fully static linking.
pub fn plan(
    family: Family,
    args: &[OsString],
    runtime: &Runtime,
    include: Option<&Path>,
    folder: &Path,
) -> Result<Plan> {
    let roles = roles(args);
    let has = |names: &[&str]| args.iter().any(|arg| names.iter().any(|name| arg == name));
    let n_sources = roles.iter().filter(|role| **role == Role::Source).count();
    let n_linked = roles.iter().filter(|role| **role == Role::Linked).count();
    if n_sources + n_linked == 0 {
        // A query about the compiler.
        return Ok(Plan { commands: vec![args.to_vec()] });
    }
    let links = !has(NO_LINK);
    if links && has(&["-static", "-static-pie", "--static"]) {
        return Err(Error::unsupported(
            "the runtime stands before functions of the C library, which has to be shared for that",
        )
        .hint("leave `-static` out"));
    }
    let linking = if links && !has(BARE_LINK) { link_flags(runtime) } else { Vec::new() };
    let compiling = compile_flags(family, include);
    if !links {
        return Ok(Plan { commands: vec![join(&compiling, args)] });
    }
    match family {
        _ if n_sources == 0 => Ok(Plan { commands: vec![join(&linking, args)] }),
        Family::Clang => {
            let mut all = linking;
            all.extend(compiling);
            all.push("-fno-sanitize-link-runtime".into());
            Ok(Plan { commands: vec![join(&all, args)] })
        }
        Family::Gcc => Ok(in_two_steps(args, &roles, &compiling, &linking, folder)),
    }
}

/// Compiles each source to an object of its own, then links the objects.
fn in_two_steps(
    args: &[OsString],
    roles: &[Role],
    compiling: &[OsString],
    linking: &[OsString],
    folder: &Path,
) -> Plan {
    let mut commands = Vec::new();
    let mut link: Vec<OsString> = linking.to_vec();
    let writes_rules = args.iter().any(|arg| arg == "-MD" || arg == "-MMD");
    let names_rules = args.iter().any(|arg| arg.as_bytes().starts_with(b"-MF"));
    for (nth, (arg, role)) in args.iter().zip(roles).enumerate() {
        if *role != Role::Source {
            // The language applies to sources; the linked files are objects.
            let is_for_compiling =
                is_language(args, nth) || is_rules(arg) || nth > 0 && args[nth - 1] == "-MF";
            if !is_for_compiling {
                link.push(arg.clone());
            }
            continue;
        }
        let object = folder.join(format!("{nth}.o"));
        let mut compile = compiling.to_vec();
        for (other, (arg, role)) in args.iter().zip(roles).enumerate() {
            // A language option applies to later arguments.
            if other > nth && is_language(args, other) {
                continue;
            }
            let is_output = arg == "-o" || other > 0 && args[other - 1] == "-o";
            let is_joined_output =
                *role == Role::Option && arg.as_bytes().starts_with(b"-o") && arg.len() > 2;
            if matches!(role, Role::Option | Role::Argument) && !is_output && !is_joined_output {
                compile.push(arg.clone());
            }
        }
        if writes_rules && !names_rules {
            compile.push("-MF".into());
            compile.push(Path::new(arg).with_extension("d").file_name().unwrap_or_default().into());
        }
        compile.extend(["-c".into(), "-o".into(), object.clone().into(), arg.clone()]);
        commands.push(compile);
        link.push(object.into());
    }
    commands.push(link);
    Plan { commands }
}

/// Whether the argument belongs to `-x LANGUAGE`.
fn is_language(args: &[OsString], nth: usize) -> bool {
    args[nth] == "-x" || nth > 0 && args[nth - 1] == "-x" || args[nth].as_bytes().starts_with(b"-x")
}

/// Whether the argument is an option for make rules.
fn is_rules(arg: &OsStr) -> bool {
    arg == "-MD" || arg == "-MMD" || arg == "-MP" || arg.as_bytes().starts_with(b"-MF")
}

/// Roles of all arguments.
fn roles(args: &[OsString]) -> Vec<Role> {
    let mut roles = Vec::with_capacity(args.len());
    let mut language = false;
    let mut nth = 0;
    while nth < args.len() {
        let arg = &args[nth];
        if WITH_ARGUMENT.iter().any(|name| arg == name) && nth + 1 < args.len() {
            if arg == "-x" {
                language = args[nth + 1] != "none";
            }
            roles.extend([Role::Option, Role::Argument]);
            nth += 2;
            continue;
        }
        let bytes = arg.as_bytes();
        roles.push(if bytes == b"-" {
            Role::Source
        } else if bytes.starts_with(b"-x") {
            language = bytes != b"-xnone";
            Role::Option
        } else if bytes.starts_with(b"-l") {
            Role::Linked
        } else if bytes.starts_with(b"-") || bytes.starts_with(b"@") {
            Role::Option
        } else if language
            || Path::new(arg).extension().is_some_and(|end| SOURCES.iter().any(|known| end == *known))
        {
            Role::Source
        } else {
            Role::Linked
        });
        nth += 1;
    }
    roles
}

/// Compiler flags, placed before the user's so that those take precedence.
fn compile_flags(family: Family, include: Option<&Path>) -> Vec<OsString> {
    let mut flags: Vec<OsString> = family.flags().into_iter().map(OsString::from).collect();
    // Types and lines come from debug information, which does not change code. Other options for it may follow, some of which
    // (`-gsplit-dwarf`) do not ask for it.
    flags.push("-g".into());
    if let Some(folder) = include {
        flags.extend(["-idirafter".into(), folder.into()]);
    }
    flags
}

fn join(flags: &[OsString], args: &[OsString]) -> Vec<OsString> {
    flags.iter().chain(args).cloned().collect()
}

/// A compiler command: its name, or several words, the first of which is executed, such as `ccache gcc`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Compiler {
    words: Vec<OsString>,
}

impl Compiler {
    fn named(name: &OsStr) -> Compiler {
        let text = name.to_string_lossy();
        let words = match Path::new(name).is_file() {
            // File names may contain blanks.
            true => vec![name.to_owned()],
            false => text.split_whitespace().map(OsString::from).collect(),
        };
        Compiler { words }
    }

    fn command(&self) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
        command.args(words);
        command
    }

    /// The compiler's family, from its name or from its version output.
    fn family(&self) -> Result<Family> {
        let is_name = |word: &&OsString| !word.as_bytes().starts_with(b"-");
        let last = self.words.iter().rfind(is_name).map_or(OsStr::new(""), OsString::as_os_str);
        let name = Path::new(last).file_name().unwrap_or(last).to_string_lossy().into_owned();
        if name.contains("clang") {
            return Ok(Family::Clang);
        }
        if name.starts_with("gcc") || name.starts_with("g++") {
            return Ok(Family::Gcc);
        }
        let said = self.command().arg("--version").output().map_err(|cause| self.missing(cause))?;
        let is_clang = String::from_utf8_lossy(&said.stdout).contains("clang");
        Ok(if is_clang { Family::Clang } else { Family::Gcc })
    }

    fn missing(&self, cause: std::io::Error) -> Error {
        let name = self.words.join(OsStr::new(" "));
        Error::missing(format!("the compiler `{}` cannot be run", name.to_string_lossy()))
            .hint("name another one in QUIPU_CC or QUIPU_CXX, or install gcc")
            .because(cause)
    }
}

/// Removes arguments that would prevent recording; also returns a warning for each.
///
/// gcc's link-time optimization instruments after all units have been combined, and that step runs without the flag. Its own
/// race detector, if linked, would precede the runtime. With `_FORTIFY_SOURCE`, it replaces copies by instructions. If sources
/// are compiled to temporary objects, types in files next to these are lost.
fn usable(family: Family, args: &[OsString]) -> (Vec<OsString>, Vec<&'static str>) {
    let (mut kept, mut said) = (Vec::with_capacity(args.len()), Vec::new());
    let roles = roles(args);
    let links = !args.iter().any(|arg| NO_LINK.iter().any(|name| arg == name));
    let compiles = roles.contains(&Role::Source);
    for (arg, role) in args.iter().zip(&roles) {
        let text = if *role == Role::Option { arg.to_string_lossy() } else { "".into() };
        let sanitized = [("-fsanitize=", &["thread"][..]), ("-fno-sanitize=", &["thread", "all"][..])];
        let found = sanitized.into_iter().find_map(|(option, own)| {
            let list = text.strip_prefix(option)?;
            Some((option, list.split(',').filter(|name| !own.contains(name)).collect::<Vec<_>>()))
        });
        if let Some((option, others)) = found {
            if !others.is_empty() {
                kept.push(format!("{option}{}", others.join(",")).into());
            }
            continue;
        }
        if family == Family::Gcc && (text == "-flto" || text.starts_with("-flto=")) {
            said.push(
                "`-flto` is left out: gcc would instrument nothing that it puts together when it links",
            );
            continue;
        }
        if family == Family::Gcc && is_fortified(&text) {
            continue;
        }
        if family == Family::Gcc && links && compiles && text == "-gsplit-dwarf" {
            // In two steps, the file next to the object would be removed with it.
            kept.push("-g".into());
            continue;
        }
        kept.push(arg.clone());
    }
    (kept, said)
}

/// Whether an argument only sets `_FORTIFY_SOURCE`.
fn is_fortified(text: &str) -> bool {
    let is_it = |defined: &str| {
        let name = defined.strip_prefix("-D").or_else(|| defined.strip_prefix("-U"));
        name.is_some_and(|name| name.split('=').next() == Some("_FORTIFY_SOURCE"))
    };
    is_it(text) || text.strip_prefix("-Wp,").is_some_and(|all| all.split(',').all(is_it))
}

/// Runs a compiler with these arguments and returns its exit code. The command may begin with a wrapper program.
///
/// # Errors
/// Those of [`plan`]; `Missing` if the compiler cannot be run; `Io` if there is no place for objects.
pub fn run(compiler: &OsStr, args: &[OsString], runtime: &Runtime, warn: impl Fn(&str)) -> Result<i32> {
    let compiler = Compiler::named(compiler);
    let args = &expand(args, 0)?;
    let folder = Temporary::new()?;
    let include = header_folder();
    let family = compiler.family()?;
    let (args, said) = usable(family, args);
    for text in said {
        warn(text);
    }
    let runtime = prepared(runtime, &args, &folder.path, warn);
    let plan = plan(family, &args, &runtime, include.as_deref(), &folder.path)?;
    for args in &plan.commands {
        let status = compiler.command().args(args).status().map_err(|cause| compiler.missing(cause))?;
        if !status.success() {
            return Ok(status.code().unwrap_or(1));
        }
    }
    Ok(0)
}

/// Maximum nesting of argument files.
const MAX_NESTED_FILES: usize = 16;

/// Replaces argument files (`@FILE`) by their contents. As in compilers, the argument is kept if no such file exists.
fn expand(args: &[OsString], depth: usize) -> Result<Vec<OsString>> {
    let mut all = Vec::with_capacity(args.len());
    for arg in args {
        let file = arg.as_bytes().strip_prefix(b"@").map(OsStr::from_bytes);
        match file.map(std::fs::read) {
            Some(Ok(bytes)) if depth < MAX_NESTED_FILES => all.extend(expand(&words(&bytes), depth + 1)?),
            Some(Ok(_)) => {
                return Err(Error::usage(format!(
                    "`{}`: too many files of arguments within each other",
                    arg.display()
                )));
            }
            _ => all.push(arg.clone()),
        }
    }
    Ok(all)
}

/// Splits the text of an argument file as compilers do: at blanks that are neither quoted nor after a backslash.
fn words(bytes: &[u8]) -> Vec<OsString> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    let mut bytes = bytes.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => word.get_or_insert_default().extend(bytes.next()),
            (_, Some(end)) if byte == end => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(byte),
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            _ if byte.is_ascii_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from_vec).collect()
}

/// A temporary folder, removed on drop.
struct Temporary {
    path: PathBuf,
}

impl Temporary {
    fn new() -> Result<Temporary> {
        let parent = std::env::temp_dir();
        let path = parent.join(format!("quipu-cc.{}", std::process::id()));
        // Left over from an earlier process with the same id.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).map_err(|cause| cannot("make", &path, cause))?;
        Ok(Temporary { path })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Flags for `rustc` that instrument loads and stores and link the runtime; they work with stable compilers.
///
/// The runtime is linked before the C library, whose `malloc` it replaces. It is linked once more for programs without loads
/// and stores of their own, so that the linker does not drop it.
pub fn rustc_flags(library: &Path) -> OsString {
    let folder = library.parent().unwrap_or(Path::new(".")).as_os_str();
    let mut flags = OsString::from(
        "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
         -Cllvm-args=-sanitizer-coverage-trace-loads -Cllvm-args=-sanitizer-coverage-trace-stores \
         -Cdebuginfo=2 -Lnative=",
    );
    flags.push(folder);
    flags.push(
        " -ldylib=quipu_rt -Clink-arg=-Wl,--no-as-needed,-lquipu_rt,--as-needed -Clink-arg=-Wl,-rpath,",
    );
    flags.push(folder);
    flags
}

/// Finds the runtime: in the folder named by QUIPU_LIB, next to the program, or where it was installed.
///
/// # Errors
/// `Missing`, with a hint; `Unsupported` if it is from another build, whose recordings may lack data that this program
/// expects.
pub fn find_runtime(name: &str) -> Result<PathBuf> {
    let path = library::find(name, PACKAGE)?;
    // Programs load it from any working directory.
    let path = path.canonicalize().map_err(|cause| cannot("find", &path, cause))?;
    match other_build(&path)? {
        None => Ok(path),
        Some(build) => {
            let what = format!("the runtime is of another build than this program: {build}, not {BUILD}");
            let hint = format!(
                "build both from the same sources (cargo build --release -p quipu-cli -p {PACKAGE}), or install both"
            );
            Err(Error::unsupported(what).in_file(path.display().to_string()).hint(hint))
        }
    }
}

/// Package that builds the runtime.
pub(crate) const PACKAGE: &str = "quipu-rt";
/// Id of the runtime sources that belong to this program.
const BUILD: &str = env!("QUIPU_RUNTIME_BUILD");
/// Byte sequence in a runtime before its build id.
const SAYS_BUILD: &[u8] = b"\0quipu runtime ";

/// The build id of a runtime, if it differs from this program's.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn other_build(path: &Path) -> Result<Option<String>> {
    let bytes = std::fs::read(path).map_err(|cause| cannot("read", path, cause))?;
    Ok(match build_of(&bytes) {
        Some(build) if build == BUILD => None,
        Some(build) => Some(build),
        None => Some("one of an earlier version".to_owned()),
    })
}

/// The build id of the runtime in a file, if it has one.
pub(crate) fn build_of(bytes: &[u8]) -> Option<String> {
    let rest = bytes.get(memchr::memmem::find(bytes, SAYS_BUILD)? + SAYS_BUILD.len()..)?;
    let end = rest.iter().take(MAX_BUILD_BYTES).position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

/// Longest build id in bytes.
const MAX_BUILD_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_says_which_build_it_is() {
        let says = |build: &str| [b"\x7fELF", SAYS_BUILD, build.as_bytes(), b"\0more"].concat();
        assert_eq!(build_of(&says(BUILD)).as_deref(), Some(BUILD));
        assert_eq!(build_of(&says("0.0.1-5")).as_deref(), Some("0.0.1-5"));
        assert_eq!(build_of(&says(&"7".repeat(99))), None);
        assert_eq!(build_of(b"\x7fELF and no word of it"), None);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rt.so");
        for (bytes, other) in [
            (says(BUILD), None),
            (says("0.0.1-5"), Some("0.0.1-5")),
            (b"\x7fELF".to_vec(), Some("one of an earlier version")),
        ] {
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(other_build(&file).unwrap().as_deref(), other);
        }
    }

    fn planned(family: Family, line: &str) -> Vec<String> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let runtime = Runtime::Shared("/lib/q/librt.so".into());
        let plan = plan(family, &args, &runtime, None, Path::new("/tmp/t")).unwrap();
        let text =
            |args: &Vec<OsString>| args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ");
        plan.commands.iter().map(text).collect()
    }

    const LINK: &str = "-Wl,--push-state,--no-as-needed /lib/q/librt.so -Wl,--pop-state -Wl,-rpath,/lib/q \
        -Wl,--wrap=memcpy,--wrap=memmove,--wrap=mempcpy,--wrap=memset,--wrap=memcmp,--wrap=bcmp,--wrap=strcpy,\
        --wrap=stpcpy,--wrap=strncpy,--wrap=strcat,--wrap=strncat,--wrap=strcmp,--wrap=strlen,\
        --wrap=__memcpy_chk,--wrap=__memmove_chk,--wrap=__mempcpy_chk,--wrap=__memset_chk,--wrap=__strcpy_chk,\
        --wrap=__stpcpy_chk,--wrap=__strncpy_chk,--wrap=__strcat_chk,--wrap=__strncat_chk";
    const GCC: &str = "-fsanitize=thread --param tsan-distinguish-volatile=1 -fno-builtin-memcpy \
        -fno-builtin-memmove -fno-builtin-mempcpy -fno-builtin-memset -fno-builtin-strcpy -fno-builtin-stpcpy \
        -fno-builtin-strncpy -fno-builtin-strcat -fno-builtin-strncat -U_FORTIFY_SOURCE -g";

    #[test]
    fn flags_that_would_leave_nothing_to_record_are_left_out() {
        let kept = |family, line: &str| {
            let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let (kept, said) = usable(family, &args);
            let kept: Vec<_> = kept.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
            (kept.join(" "), said.len())
        };
        assert_eq!(kept(Family::Gcc, "-flto=auto a.c -o a"), ("a.c -o a".into(), 1));
        assert_eq!(kept(Family::Clang, "-flto a.c"), ("-flto a.c".into(), 0));
        let both = "-fsanitize=thread -fsanitize=undefined,thread a.o";
        assert_eq!(kept(Family::Clang, both), ("-fsanitize=undefined a.o".into(), 0));
        assert_eq!(
            kept(Family::Gcc, "-fno-sanitize=thread,vptr -fno-sanitize=all a.c").0,
            "-fno-sanitize=vptr a.c"
        );
        let fortified =
            "-D_FORTIFY_SOURCE=2 -Wp,-U_FORTIFY_SOURCE,-D_FORTIFY_SOURCE=3 -D_FORTIFY_SOURCES -Wp,-DA a.c";
        assert_eq!(kept(Family::Gcc, fortified), ("-D_FORTIFY_SOURCES -Wp,-DA a.c".into(), 0));
        assert_eq!(kept(Family::Clang, "-D_FORTIFY_SOURCE=2 a.c"), ("-D_FORTIFY_SOURCE=2 a.c".into(), 0));
        assert_eq!(kept(Family::Gcc, "-gsplit-dwarf a.c -o a"), ("-g a.c -o a".into(), 0));
        assert_eq!(kept(Family::Gcc, "-gsplit-dwarf -c a.c"), ("-gsplit-dwarf -c a.c".into(), 0));
    }

    #[test]
    fn what_is_only_compiled_is_not_linked() {
        for line in ["-O2 -c a.c -o a.o", "-gsplit-dwarf -c a.c"] {
            assert_eq!(planned(Family::Gcc, line), [format!("{GCC} {line}")]);
        }
    }

    #[test]
    fn what_is_only_linked_is_not_instrumented() {
        for family in [Family::Gcc, Family::Clang] {
            assert_eq!(planned(family, "a.o -o a -lm"), [format!("{LINK} a.o -o a -lm")]);
        }
    }

    #[test]
    fn gcc_compiles_and_links_in_two_steps() {
        assert_eq!(
            planned(Family::Gcc, "-O1 -MD a.c -x c++ b.h -x none c.o -o prog -lm"),
            [
                format!("{GCC} -O1 -MD -MF a.d -c -o /tmp/t/2.o a.c"),
                format!("{GCC} -O1 -MD -x c++ -MF b.d -c -o /tmp/t/5.o b.h"),
                format!("{LINK} -O1 /tmp/t/2.o /tmp/t/5.o c.o -o prog -lm"),
            ]
        );
    }

    #[test]
    fn clang_does_both_at_once() {
        let commands = planned(Family::Clang, "-g3 a.c -o a");
        assert_eq!(
            commands,
            [format!(
                "{LINK} -fsanitize=thread -mllvm -tsan-instrument-read-before-write=1 -mllvm \
                 -tsan-distinguish-volatile=1 -g -fno-sanitize-link-runtime -g3 a.c -o a"
            )]
        );
    }

    #[test]
    fn files_of_arguments_are_read_as_compilers_do() {
        let read = |text: &str| {
            words(text.as_bytes()).into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(read("-O2 a.c\n\t-DX='a b' \"c d\".o \\'e"), ["-O2", "a.c", "-DX=a b", "c d.o", "'e"]);
        assert_eq!(read("'' x"), ["", "x"]);
        assert_eq!(expand(&["@/no/such/file".into()], 0).unwrap(), ["@/no/such/file"]);
    }

    #[test]
    fn questions_go_to_the_compiler_as_they_are() {
        assert_eq!(planned(Family::Gcc, "--version"), ["--version"]);
        assert_eq!(planned(Family::Gcc, "-print-prog-name=ld"), ["-print-prog-name=ld"]);
    }
}
