//! What the environment asks for, and the path of the recording.
//!
//! The environment is read once, before the program can change it.

use crate::process::{give_up, own_pid};
use crate::thread::text_at;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use quipu_cells::layout::BUFFER_CELLS;

/// Maximum length of a path.
pub(crate) const PATH_BYTES: usize = 4096;
/// The default name of a file: the program and its process.
const DEFAULT_PATTERN: &[u8] = b"%n.%p.quipu";

/// Whether recordings begin paused.
pub(crate) static BEGINS_PAUSED: AtomicBool = AtomicBool::new(false);
/// Windows: the number of buffers that a thread fills, and the number of events that it leaves out after them; 0 for none.
static WINDOW: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// Whether forked processes are traced.
pub(crate) static FOLLOWS: AtomicBool = AtomicBool::new(true);
/// Limit on the bytes of the file; 0 for none.
pub(crate) static MAX_BYTES: AtomicU64 = AtomicU64::new(0);

/// The pattern from the environment, stored because programs change their environment and directory.
static mut PATTERN: [u8; PATH_BYTES] = [0; PATH_BYTES];
static PATTERN_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The number of buffers in a window, more than 0, and the number of events that a thread leaves out after it.
pub(crate) fn windows() -> Option<(u64, u64)> {
    let [taken, left_out] = &WINDOW;
    let left_out = left_out.load(Ordering::Relaxed);
    (left_out > 0).then(|| (taken.load(Ordering::Relaxed).max(1), left_out))
}

/// Reads the environment, unless that was done before; false if nothing is to be recorded.
pub(crate) fn read() -> bool {
    if PATTERN_BYTES.load(Ordering::Relaxed) > 0 {
        return true;
    }
    let pattern = match variable(c"QUIPU_OUT") {
        Some(pattern) => pattern,
        None if is_trial(program_name()) => return false,
        None => DEFAULT_PATTERN,
    };
    if pattern.is_empty() || pattern == b"off" {
        return false;
    }
    FOLLOWS.store(variable(c"QUIPU_FOLLOW_FORK") != Some(b"0"), Ordering::Relaxed);
    BEGINS_PAUSED.store(variable(c"QUIPU_PAUSED") == Some(b"1"), Ordering::Relaxed);
    read_windows();
    let number = variable(c"QUIPU_MAX_BYTES").unwrap_or(b"0");
    let number = core::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
    MAX_BYTES.store(number.unwrap_or(0), Ordering::Relaxed);
    let bytes = &raw mut PATTERN;
    // SAFETY: only the thread that opens the file is here, and readers come after it.
    let bytes = unsafe { &mut *bytes };
    let mut kept = Path { bytes, n_bytes: 0 };
    let mut folder = [0_u8; PATH_BYTES];
    // SAFETY: a buffer of that many bytes.
    let has_folder =
        pattern[0] != b'/' && unsafe { !libc::getcwd(folder.as_mut_ptr().cast(), PATH_BYTES).is_null() };
    if has_folder && let Ok(folder) = CStr::from_bytes_until_nul(&folder) {
        for &byte in folder.to_bytes() {
            // The folder's own name is not a pattern.
            kept.text(if byte == b'%' { b"%%" } else { core::slice::from_ref(&byte) });
        }
        kept.text(b"/");
    }
    kept.text(pattern);
    if kept.n_bytes > PATH_BYTES {
        give_up(b"the path in QUIPU_OUT is too long");
        return false;
    }
    PATTERN_BYTES.store(kept.n_bytes, Ordering::Relaxed);
    true
}

/// Reads windows: `N/M` for the first N of every M events of a thread, with N rounded up to whole buffers and M in proportion.
fn read_windows() {
    let text = variable(c"QUIPU_WINDOWS").and_then(|text| core::str::from_utf8(text).ok());
    let Some((of, every)) = text.and_then(|text| text.split_once('/')) else { return };
    let (Ok(of), Ok(every)) = (of.parse::<u64>(), every.parse::<u64>()) else { return };
    if of == 0 {
        return;
    }
    // What is left out keeps its share.
    let n_buffers = of.div_ceil(BUFFER_CELLS as u64);
    let (n_taken, rest) = (n_buffers.saturating_mul(BUFFER_CELLS as u64), every.saturating_sub(of));
    let n_left_out = n_taken.saturating_mul(rest / of).saturating_add(n_taken.saturating_mul(rest % of) / of);
    let [taken, left_out] = &WINDOW;
    taken.store(n_buffers, Ordering::Relaxed);
    left_out.store(n_left_out, Ordering::Relaxed);
}

/// Whether a program of this name is one by which a build tries what the compiler can do, or that a build makes for itself:
/// those of autoconf, CMake, meson and cargo. Their recordings are of no use.
fn is_trial(name: &[u8]) -> bool {
    const STARTS: [&[u8]; 5] =
        [b"conftest", b"cmTC_", b"sanity_check_for_", b"sanitycheck", b"build-script-"];
    STARTS.iter().any(|start| name.starts_with(start)) || name == b"output.exe" || name == b"rustc"
}

/// A variable of the environment; to be used at once, before the program changes it.
pub(crate) fn variable(name: &CStr) -> Option<&'static [u8]> {
    string(name).map(CStr::to_bytes)
}

/// The same with its end.
pub(crate) fn string(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: a C string.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: not null, so it is a C string. The program could remove it only while the file is being opened, which is before
    // its first instruction, except for its own constructors on other threads.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Expands the pattern to a path; false if that is too long. If the pattern lacks the process number and the plain name is taken,
/// or may be that of a parent, adds it.
pub(crate) fn expand(attempt: u64, is_child: bool, path: &mut [u8; PATH_BYTES]) -> bool {
    let pattern = &raw const PATTERN;
    // SAFETY: only the thread that opens the file is here, and it wrote the pattern before.
    let pattern = unsafe { &*pattern };
    let pattern = &pattern[..PATTERN_BYTES.load(Ordering::Relaxed)];
    let pid = own_pid();
    let name = program_name();
    let mut out = Path { bytes: path, n_bytes: 0 };
    let mut has_pid = false;
    let mut pattern = pattern.iter();
    while let Some(&byte) = pattern.next() {
        match (byte, pattern.as_slice().first()) {
            (b'%', Some(b'p')) => {
                out.number(pid);
                has_pid = true;
            }
            (b'%', Some(b'n')) => out.text(name),
            (b'%', Some(b'%')) => out.text(b"%"),
            _ => {
                out.text(&[byte]);
                continue;
            }
        }
        pattern.next();
    }
    let mut attempt = attempt;
    if !has_pid {
        if is_child {
            attempt += 1;
        }
        if attempt > 1 {
            out.text(b".");
            out.number(pid);
            attempt -= 1;
        }
    }
    if attempt > 1 {
        out.text(b".");
        out.number(attempt);
    }
    out.text(&[0]);
    out.n_bytes <= PATH_BYTES
}

// SAFETY: declared as in C.
unsafe extern "C" {
    static program_invocation_short_name: *const core::ffi::c_char;
}

/// The program's file name; empty if it is unknown.
pub(crate) fn program_name() -> &'static [u8] {
    // SAFETY: the C library's own string.
    unsafe { text_at(program_invocation_short_name) }.unwrap_or_default()
}

/// A text under construction.
struct Path<'a> {
    bytes: &'a mut [u8; PATH_BYTES],
    n_bytes: usize,
}

impl Path<'_> {
    fn text(&mut self, text: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.n_bytes..self.n_bytes + text.len()) {
            room.copy_from_slice(text);
        }
        self.n_bytes += text.len();
    }

    fn number(&mut self, number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.text(&digits[at..]);
    }
}

/// Whether the environment names an analysis, and no file.
pub(crate) fn names_analysis() -> bool {
    let is_new = PATTERN_BYTES.load(Ordering::Relaxed) == 0;
    let is_named = |path: &CStr| !path.is_empty();
    is_new && variable(c"QUIPU_OUT").is_none() && string(ANALYSIS).is_some_and(is_named)
}

/// The variable with the path of the analysis' memory: `quipu_ring::prism::ENVIRONMENT`.
pub(crate) const ANALYSIS: &CStr = c"QUIPU_PRISM";
