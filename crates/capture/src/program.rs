//! The program to record: its file, its architecture, and the command that starts it.

use quipu_model::fresh::cannot;
use quipu_model::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Depth to which interpreters that are scripts themselves are followed, as in the kernel.
const MAX_SCRIPTS: usize = 4;
/// Longest first line of a script that is parsed.
const LINE_BYTES: usize = 4096;

/// An instruction set for which programs can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// 64-bit x86.
    X86_64,
    /// 32-bit x86.
    I386,
    /// 64-bit Arm.
    Aarch64,
    /// 64-bit RISC-V.
    Riscv64,
    /// 32-bit Arm.
    Arm,
}

impl Machine {
    /// All machines.
    pub const ALL: [Machine; 5] =
        [Machine::X86_64, Machine::I386, Machine::Aarch64, Machine::Riscv64, Machine::Arm];

    /// QEMU's name for it, such as `x86_64`.
    pub fn qemu_name(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86_64",
            Machine::I386 => "i386",
            Machine::Aarch64 => "aarch64",
            Machine::Riscv64 => "riscv64",
            Machine::Arm => "arm",
        }
    }

    /// Architecture of the instruction decoder, if there is a decoder.
    pub fn arch(self) -> Option<quipu_isa::Arch> {
        match self {
            Machine::X86_64 => Some(quipu_isa::Arch::X86_64),
            Machine::I386 => Some(quipu_isa::Arch::X86_32),
            Machine::Aarch64 => Some(quipu_isa::Arch::Aarch64),
            Machine::Riscv64 | Machine::Arm => None,
        }
    }

    /// Whether it is the machine that this runs on.
    pub fn is_native(self) -> bool {
        self.qemu_name() == std::env::consts::ARCH
    }

    /// Debian's folder for the libraries of foreign programs; `None` for native ones.
    fn prefix(self) -> Option<&'static Path> {
        let path = match self {
            _ if self.is_native() => return None,
            Machine::X86_64 => "/usr/x86_64-linux-gnu",
            Machine::I386 => "/usr/i686-linux-gnu",
            Machine::Aarch64 => "/usr/aarch64-linux-gnu",
            Machine::Riscv64 => "/usr/riscv64-linux-gnu",
            Machine::Arm => "/usr/arm-linux-gnueabihf",
        };
        Some(Path::new(path)).filter(|path| path.is_dir())
    }
}

/// A program and the command that starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The executed file; for a script, its interpreter.
    pub path: PathBuf,
    /// All arguments; the first is the name under which the program is called.
    pub args: Vec<OsString>,
    /// Machine of the executed file.
    pub machine: Machine,
    /// Last component of the requested name.
    pub name: String,
}

impl Program {
    /// Finds the file to start for a command line.
    ///
    /// # Errors
    /// `Missing` if there is no such program, `Unsupported` if it cannot be recorded, `Io` if it cannot be read.
    pub fn find(command: &[OsString]) -> Result<Program> {
        let (name, rest) =
            command.split_first().ok_or_else(|| Error::usage("there is no program to record"))?;
        let mut path = look_up(name)?;
        let shown = Path::new(name).file_name().unwrap_or(name).to_string_lossy().into_owned();
        let mut args = vec![name.clone()];
        args.extend_from_slice(rest);
        for _ in 0..=MAX_SCRIPTS {
            let head = head(&path)?;
            if let Some(machine) = machine(&head) {
                let machine = machine.map_err(|error| error.in_file(path.display().to_string()))?;
                return Ok(Program { path, args, machine, name: shown });
            }
            let Some((interpreter, argument)) = interpreter(&head) else {
                return Err(Error::unsupported(
                    "this is neither a program for Linux nor a script that names one",
                )
                .in_file(path.display().to_string()));
            };
            // As in the kernel: the interpreter, its argument, the script, and the script's arguments.
            let script = std::mem::replace(&mut path, PathBuf::from(&interpreter));
            let mut all = vec![interpreter];
            all.extend(argument);
            all.push(script.into_os_string());
            all.extend(args.drain(1..));
            args = all;
        }
        Err(Error::unsupported("scripts whose interpreters are scripts are nested too deep")
            .in_file(path.display().to_string()))
    }

    /// Folder that is searched for its libraries instead of the system's; `None` for native programs.
    pub(crate) fn prefix(&self) -> Option<&'static Path> {
        self.machine.prefix()
    }
}

/// Resolves a name to a file like a shell.
fn look_up(name: &OsStr) -> Result<PathBuf> {
    let shown = || name.to_string_lossy().into_owned();
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        let meta = std::fs::metadata(&path).map_err(|cause| cannot("read", &path, cause))?;
        if meta.is_dir() || meta.permissions().mode() & 0o111 == 0 {
            return Err(Error::usage("this cannot be executed").in_file(shown()));
        }
        return Ok(path);
    }
    find_in_path(name).ok_or_else(|| {
        let error = Error::missing(format!("no program `{}` is found in PATH", shown()));
        // The first word that is not a known option is taken for the program.
        match name.as_bytes().starts_with(b"-") {
            true => {
                error.hint("if this is meant as an option: there is none of this name, `--help` lists them")
            }
            false => error,
        }
    })
}

/// The first executable file of this name in the folders of `PATH`.
pub(crate) fn find_in_path(name: &OsStr) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

fn head(path: &Path) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    let file = File::open(path).map_err(|cause| cannot("read", path, cause))?;
    file.take(LINE_BYTES as u64).read_to_end(&mut head).map_err(|cause| cannot("read", path, cause))?;
    Ok(head)
}

/// The machine of an executable file; `None` if it is not an ELF file.
fn machine(head: &[u8]) -> Option<Result<Machine>> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let (class, order) = (head.get(4)?, head.get(5)?);
    let number = u16::from_le_bytes([*head.get(18)?, *head.get(19)?]);
    Some(match (class, order, number) {
        (2, 1, 62) => Ok(Machine::X86_64),
        (1, 1, 3) => Ok(Machine::I386),
        (2, 1, 183) => Ok(Machine::Aarch64),
        (2, 1, 243) => Ok(Machine::Riscv64),
        (1, 1, 40) => Ok(Machine::Arm),
        _ => Err(Error::unsupported(format!(
            "programs of this kind cannot be recorded (ELF machine `{number}`, class `{class}`, byte order `{order}`)"
        ))
        .hint("x86-64, i386, aarch64, riscv64 and little-endian arm can")),
    })
}

/// Parses a script's first line: the interpreter, and the rest of the line as a single argument.
fn interpreter(head: &[u8]) -> Option<(OsString, Option<OsString>)> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = line.trim_ascii();
    let mut parts = line.splitn(2, |byte| *byte == b' ' || *byte == b'\t');
    let name = parts.next().filter(|name| !name.is_empty())?;
    let owned = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let argument = parts.next().map(<[u8]>::trim_ascii).filter(|argument| !argument.is_empty());
    Some((owned(name), argument.map(owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_started_as_the_kernel_does_it() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("greet");
        std::fs::write(&script, "#! /bin/sh  -e x \necho hello\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program::find(&[script.clone().into(), "a".into()]).unwrap();
        assert_eq!(program.path, Path::new("/bin/sh"));
        let expected: [OsString; 4] = ["/bin/sh".into(), "-e x".into(), script.into(), "a".into()];
        assert_eq!(program.args, expected);
        assert_eq!(program.name, "greet");
    }

    #[test]
    fn names_without_a_slash_are_found_in_the_path() {
        let program = Program::find(&["sh".into()]).unwrap();
        assert!(program.path.is_absolute());
        assert_eq!(program.args, ["sh"]);
        let error = Program::find(&["no-such-program-at-all".into()]).unwrap_err();
        assert_eq!(error.to_string(), "no program `no-such-program-at-all` is found in PATH");
        assert_eq!(error.advice(), None);
        let error = Program::find(&["--no-such-option".into()]).unwrap_err();
        assert!(error.advice().is_some_and(|advice| advice.contains("--help")), "{error}");
    }

    #[test]
    fn what_is_no_program_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        std::fs::write(&text, "hello").unwrap();
        let refused = |mode| {
            std::fs::set_permissions(&text, std::fs::Permissions::from_mode(mode)).unwrap();
            Program::find(&[text.clone().into()]).unwrap_err().to_string()
        };
        assert!(refused(0o644).ends_with("this cannot be executed"));
        assert!(refused(0o755).ends_with("neither a program for Linux nor a script that names one"));
        let mut elf = [0_u8; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x02");
        std::fs::write(&text, elf).unwrap();
        assert!(refused(0o755).contains("ELF machine `0`, class `2`, byte order `2`"));
    }
}
