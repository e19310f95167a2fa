//! Follows `execve`: starts the new program under the emulator again, with this plugin.
//!
//! The emulator would let the kernel start the new program natively, where the plugin could not observe it. So the plugin
//! acts first: it executes the emulator's own file, with the program as an argument. Programs that cannot be followed
//! (another architecture, other privileges, not a program) are left to the emulator, which also reports errors.

use crate::{Setup, emulator, guest};
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStringExt;

/// Maximum nesting of scripts whose interpreters are scripts, the same as in the kernel.
const MAX_SCRIPTS: usize = 4;
/// Maximum bytes of the arguments, and of the environment.
const MAX_STRINGS: usize = 2 << 20;
/// Bytes at the start of a file that are enough to identify it.
const HEAD_BYTES: usize = 256;

/// The program that the kernel would start for a path.
struct Started {
    path: CString,
    args: Vec<CString>,
}

/// Executes the program at this guest address, with these arguments and this environment. Returns only if that is not
/// possible.
#[cold]
pub(crate) fn follow(setup: &Setup, path: u64, args: u64, environment: u64) -> Option<()> {
    if !setup.shared.is_open() {
        return None;
    }
    let path = real_path(CString::new(guest::string(path, libc::PATH_MAX as usize)?).ok()?);
    let name = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
    let args = strings(args, setup.pointer_bytes)?;
    let started = resolve(setup, Started { path, args })?;
    let environment = strings(environment, setup.pointer_bytes)?;
    let emulator = std::fs::read_link("/proc/self/exe").ok()?;
    let mut all = vec![CString::new(emulator.into_os_string().into_vec()).ok()?, c"-plugin".to_owned()];
    all.push(CString::new(plugged(setup, &name)?).ok()?);
    if let Some(prefix) = &setup.prefix {
        all.extend([c"-L".to_owned(), prefix.clone()]);
    }
    let (first, rest) = started.args.split_first()?;
    all.extend([c"-0".to_owned(), first.clone(), started.path.clone()]);
    all.extend_from_slice(rest);
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, variables) = (pointers(&all), pointers(&environment));
    let emulator = all.first()?;
    // SAFETY: All strings are null-terminated, and both lists end with a null pointer; they live until the call returns, if
    // it does.
    #[allow(unsafe_code)]
    unsafe {
        libc::execve(emulator.as_ptr(), arguments.as_ptr(), variables.as_ptr());
    }
    None
}

/// The argument that makes the emulator load this library again.
fn plugged(setup: &Setup, name: &[u8]) -> Option<Vec<u8>> {
    // SAFETY: The structure consists of pointers, which may be null. The address belongs to this library, which stays loaded,
    // and so does its name.
    #[allow(unsafe_code)]
    let library = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let address = (&raw const crate::qemu_plugin_version).cast();
        if libc::dladdr(address, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(info.dli_fname).to_bytes()
    };
    let mut all = escaped(library);
    all.extend_from_slice(b",ring=");
    all.extend(escaped(setup.ring.to_bytes()));
    if setup.follows {
        all.extend_from_slice(b",follow=1");
    }
    if !setup.tells_accesses {
        all.extend_from_slice(b",accesses=0");
    }
    if setup.tells_clocks {
        all.extend_from_slice(b",clocks=1");
    }
    if setup.drops {
        all.extend_from_slice(b",drop=1");
    }
    if let Some(prefix) = &setup.prefix {
        all.extend_from_slice(b",prefix=");
        all.extend(escaped(prefix.to_bytes()));
    }
    all.extend_from_slice(b",name=");
    all.extend(escaped(name));
    Some(all)
}

/// Doubles commas, as the emulator expects.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b',' { 2 } else { 1 })).collect()
}

/// The running program if a path refers to it (`/proc/self/exe`); otherwise the path.
fn real_path(path: CString) -> CString {
    let own = format!("/proc/{}/exe", std::process::id());
    if path.as_bytes() != b"/proc/self/exe" && path.as_bytes() != own.as_bytes() {
        return path;
    }
    // SAFETY: On a program's thread, the emulator returns a new string or null; it is copied and freed once.
    #[allow(unsafe_code)]
    unsafe {
        let name = emulator::qemu_plugin_path_to_binary();
        if name.is_null() {
            return path;
        }
        let copy = CStr::from_ptr(name).to_owned();
        libc::free(name.cast_mut().cast());
        copy
    }
}

/// Resolves scripts to their interpreters; `None` if the final file is not a program for this emulator.
fn resolve(setup: &Setup, mut started: Started) -> Option<Started> {
    for _ in 0..=MAX_SCRIPTS {
        let head = head(&started.path)?;
        if head.starts_with(b"\x7fELF") {
            let machine = u16::from_le_bytes([*head.get(18)?, *head.get(19)?]);
            return (setup.machine == (*head.get(4)?, machine)).then_some(started);
        }
        let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
        let mut parts = line.splitn(2, |byte| *byte == b' ' || *byte == b'\t');
        let interpreter = CString::new(parts.next().filter(|name| !name.is_empty())?).ok()?;
        let mut args = vec![interpreter.clone()];
        if let Some(argument) = parts.next().map(<[u8]>::trim_ascii).filter(|argument| !argument.is_empty()) {
            args.push(CString::new(argument).ok()?);
        }
        args.push(started.path);
        args.extend(started.args.drain(..).skip(1));
        started = Started { path: interpreter, args };
    }
    None
}

/// The first bytes of a file, if it is a regular file that this user may execute and that grants no additional privileges.
fn head(path: &CStr) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEAD_BYTES];
    // SAFETY: The path is null-terminated; `stat` consists of numbers, which may be zero, and is filled by the call; the
    // buffer has as many bytes as requested; the descriptor is closed once.
    #[allow(unsafe_code)]
    let n = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        let is_fit = libc::access(path.as_ptr(), libc::X_OK) == 0
            && libc::stat(path.as_ptr(), &mut stat) == 0
            && stat.st_mode & libc::S_IFMT == libc::S_IFREG
            && stat.st_mode & (libc::S_ISUID | libc::S_ISGID) == 0;
        if !is_fit {
            return None;
        }
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let n = libc::read(file, bytes.as_mut_ptr().cast(), bytes.len());
        libc::close(file);
        n
    };
    bytes.truncate(usize::try_from(n).ok()?);
    Some(bytes)
}

/// Reads the strings of a null-terminated list of pointers in guest memory; an empty list if the list itself is null.
fn strings(list: u64, pointer_bytes: usize) -> Option<Vec<CString>> {
    let (mut all, mut n_bytes) = (Vec::new(), 0);
    if list == 0 {
        return Some(all);
    }
    for i in 0.. {
        let string = guest::read(list.wrapping_add(i * pointer_bytes as u64), pointer_bytes)?;
        if string == 0 {
            break;
        }
        let string = guest::string(string, MAX_STRINGS - n_bytes)?;
        n_bytes += string.len() + 1;
        if n_bytes >= MAX_STRINGS {
            return None;
        }
        all.push(CString::new(string).ok()?);
    }
    Some(all)
}
