//! The synchronization that calls of thread libraries, system calls and marks stand for.

use super::{Args, SYSTEM_CALLS};
use crate::event::sync;
use quipu_isa::Arch;
use quipu_model::Trace;
use rustc_hash::FxHashMap;

/// Number of mark kinds whose names are looked up. In streams, marks are named as tables are, up to 4096, or follow these.
const MAX_KINDS: u32 = 1 << 13;

/// The synchronization kind of a call of this function, and whether it happens on entry. As in Prism, locks and creations
/// happen when their call returns, joins and barriers when it begins.
pub(super) fn sync_of_function(name: &[u8]) -> Option<(u8, bool)> {
    // The name may be preceded by the module, as in `libc.so.6!pthread_create`.
    let name = name.rsplit(|byte| *byte == b'!').next().unwrap_or_default();
    // The name may be followed by `@` or `*` and a symbol version.
    let name = name.split(|byte| *byte == b'@' || *byte == b'*').next().unwrap_or_default();
    Some(match name {
        b"pthread_create" | b"thrd_create" => (sync::CREATE, false),
        b"pthread_join" | b"thrd_join" => (sync::JOIN, true),
        b"pthread_barrier_wait" => (sync::BARRIER, true),
        b"pthread_mutex_lock" | b"mtx_lock" => (sync::LOCK, false),
        b"pthread_mutex_unlock" | b"mtx_unlock" => (sync::UNLOCK, false),
        b"pthread_cond_wait" | b"pthread_cond_timedwait" | b"cnd_wait" | b"cnd_timedwait" => {
            (sync::WAIT, false)
        }
        b"pthread_cond_signal" | b"cnd_signal" => (sync::SIGNAL, false),
        b"pthread_cond_broadcast" | b"cnd_broadcast" => (sync::BROADCAST, false),
        b"pthread_spin_lock" => (sync::SPIN_LOCK, false),
        b"pthread_spin_unlock" => (sync::SPIN_UNLOCK, false),
        _ => return None,
    })
}

/// The synchronization kind of a system call, and whether it happens on entry: the event for which `futex` waits has
/// happened when it returns, and a wake-up has when it begins.
pub(super) fn sync_of_system_call(arch: Option<Arch>, function: u64, args: Args) -> Option<(u8, bool)> {
    /// Masks the flags of operations.
    const OPERATION: u64 = 0x7f;
    let number = function.checked_sub(SYSTEM_CALLS)?;
    let futex = match arch? {
        Arch::X86_64 => 202,
        Arch::Aarch64 => 98,
        _ => return None,
    };
    if number != futex {
        return None;
    }
    args[0]?;
    Some(match args[1]? & OPERATION {
        // Wait, and wait with a set of bits.
        0 | 9 => (sync::WAIT, false),
        // Wake, and wake with a set of bits; the argument is the number of waiters.
        1 | 10 if args[2] == Some(1) => (sync::SIGNAL, true),
        1 | 10 => (sync::BROADCAST, true),
        // Lock and unlock of mutexes with priority inheritance.
        6 | 13 => (sync::LOCK, false),
        7 => (sync::UNLOCK, true),
        _ => return None,
    })
}

/// The meaning of a mark for threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Synchronization with the mark's value.
    Sync(u8),
    /// A thread begins; the value is its creation number.
    Begun,
    /// The handle of the thread that just began, by which it is joined.
    Handle,
    /// The mutex of the wait whose end follows.
    Mutex,
}

/// The meaning of the marks of a trace. If it marks the beginnings and the ends of waits, the ends count as waits.
pub(super) fn marks_of(trace: &dyn Trace) -> FxHashMap<u32, Mark> {
    let names: Vec<_> = (0..MAX_KINDS).map(|kind| (kind, trace.mark_name(kind))).collect();
    let tells_ends = names.iter().any(|(_, name)| name == "woken");
    let mark = |name: &str| match name {
        "wait" if tells_ends => None,
        "thread-start" => Some(Mark::Begun),
        "thread-handle" => Some(Mark::Handle),
        "wait-mutex" => Some(Mark::Mutex),
        _ => sync_of_mark(name).map(Mark::Sync),
    };
    names.iter().filter_map(|(kind, name)| Some((*kind, mark(name)?))).collect()
}

/// The synchronization kind of a mark with this name.
fn sync_of_mark(name: &str) -> Option<u8> {
    Some(match name {
        "create" | "thread-create" => sync::CREATE,
        "join" | "thread-join" => sync::JOIN,
        "barrier" | "barrier-arrive" => sync::BARRIER,
        "lock" => sync::LOCK,
        "unlock" => sync::UNLOCK,
        "wait" | "woken" => sync::WAIT,
        "signal" => sync::SIGNAL,
        "broadcast" => sync::BROADCAST,
        "spin-lock" => sync::SPIN_LOCK,
        "spin-unlock" => sync::SPIN_UNLOCK,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_thread_libraries_are_known_by_their_name_without_module_and_version() {
        for name in [
            "pthread_mutex_lock",
            "libc.so.6!pthread_mutex_lock",
            "libpthread.so.0!pthread_mutex_lock@@GLIBC_2.2.5",
        ] {
            assert_eq!(sync_of_function(name.as_bytes()), Some((sync::LOCK, false)), "{name}");
        }
        for name in ["tiny!fib", "my_pthread_mutex_lock", "tiny!operator!=", ""] {
            assert_eq!(sync_of_function(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn a_futex_with_arguments_is_a_wait_or_what_ends_it() {
        let call = |arch, number, operation, count| {
            let args = [Some(0x7000), Some(operation), Some(count), None, None];
            sync_of_system_call(Some(arch), SYSTEM_CALLS + number, args)
        };
        let private = 128;
        assert_eq!(call(Arch::X86_64, 202, private, 2), Some((sync::WAIT, false)));
        assert_eq!(call(Arch::X86_64, 202, 1, 1), Some((sync::SIGNAL, true)));
        assert_eq!(call(Arch::Aarch64, 98, 1 | private, 99), Some((sync::BROADCAST, true)));
        assert_eq!(call(Arch::X86_64, 1, 1, 1), None);
        assert_eq!(sync_of_system_call(Some(Arch::X86_64), 202, [Some(1); 5]), None, "a function");
        assert_eq!(sync_of_system_call(Some(Arch::X86_64), SYSTEM_CALLS + 202, [None; 5]), None);
    }
}
