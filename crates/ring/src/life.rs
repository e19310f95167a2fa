//! Checks whether a process or thread is alive, by its id and start time, so that a later one with the same id is not taken
//! for it.
//!
//! Nothing here allocates, so it can be used in signal handlers and inside `malloc`. Both sides must share a PID namespace
//! and `/proc`.

use std::ffi::CStr;

/// Start time of a thread, in clock ticks since boot; `None` if there is no such thread, or it has ended.
pub fn started(pid: u32, tid: u32) -> Option<u64> {
    let mut buffer = [0; 1024];
    let stat = read_stat(pid, tid, &mut buffer)?;
    // The name may contain blanks and parentheses, so fields are counted after its last closing parenthesis.
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = stat[after..].split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    // Dead, or a zombie that its parent has not reaped yet.
    if matches!(fields.next()?, b"Z" | b"X" | b"x") {
        return None;
    }
    // The state was field 3; the start time is field 22.
    std::str::from_utf8(fields.nth(18)?).ok()?.parse().ok()
}

/// True if the process with this id and start time is alive; with a start of 0, any process with this id.
pub fn is_alive(pid: u32, start: u64) -> bool {
    is_thread_alive(pid, pid, start)
}

/// Does the same for a thread of a process.
pub fn is_thread_alive(pid: u32, tid: u32, start: u64) -> bool {
    started(pid, tid).is_some_and(|found| start == 0 || found == start)
}

/// Id of the calling thread.
pub fn thread_id() -> u32 {
    // SAFETY: The call takes no arguments and cannot fail.
    #[allow(unsafe_code)]
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    tid as u32
}

/// Reads the beginning of `/proc/PID/task/TID/stat`.
fn read_stat(pid: u32, tid: u32, buffer: &mut [u8; 1024]) -> Option<&[u8]> {
    let mut path = [0; 64];
    let mut rest = &mut path[..];
    std::io::Write::write_fmt(&mut rest, format_args!("/proc/{pid}/task/{tid}/stat\0")).ok()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    // SAFETY: `path` is null-terminated, the buffer has as many bytes as requested, and the descriptor is opened and closed
    // here.
    #[allow(unsafe_code)]
    let n = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let n = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(file);
        n
    };
    buffer.get(..usize::try_from(n).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_is_killed_even_if_nothing_asked_for_its_end() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let start = started(child.id(), child.id()).unwrap();
        assert!(is_alive(child.id(), start) && is_alive(child.id(), 0));
        assert!(!is_alive(child.id(), start + 1), "another process of the same number");
        child.kill().unwrap();
        while is_alive(child.id(), start) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_alive(child.id(), 0));
    }

    #[test]
    fn a_thread_lives_until_it_ends() {
        let pid = std::process::id();
        let (tid, start) = std::thread::spawn(move || {
            let tid = thread_id();
            let start = started(pid, tid).unwrap();
            assert!(is_thread_alive(pid, tid, start));
            (tid, start)
        })
        .join()
        .unwrap();
        while is_thread_alive(pid, tid, start) {
            std::thread::yield_now();
        }
    }
}
