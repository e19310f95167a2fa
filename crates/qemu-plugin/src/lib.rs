//! A plugin for QEMU's user-mode emulators: records executed code and accesses of a program as words in shared memory.
//!
//! ```text
//! a block is translated   its number, address, and the bytes of its instructions: once, into a slot of the process
//! a block is executed     its number                                             ┐
//! an access               instruction in the block, direction, size, address     │ into the slot of the thread
//! system calls            number, arguments, result, clock and processor         ┘
//! ```
//!
//! The recorder works out executed instructions, related accesses, branches and signals. Callbacks run on the program's
//! threads and block them: those for blocks, accesses and calls do not allocate or lock anything after the first callback of
//! a thread.
//!
//! Arguments: `ring=PATH` of the shared memory; `follow=1` to also record forked children; `accesses=0` to report no accesses;
//! `clocks=1` to report the clock before each block that contains an atomic operation, so that these are in order; `drop=1`
//! to leave out whole blocks while the ring is full, and count their instructions, instead of waiting for room; `prefix=PATH`,
//! where libraries of programs are searched; and `name=NAME` of the program, for a program started by another one.

mod atomic;
mod emulator;
mod exec;
mod forks;
mod guest;
mod modules;
mod threads;

use emulator::{ALL_ACCESSES, Block, Info, NO_REGISTERS, OnAccess, OnBlock};
use quipu_ring::Shared;
use quipu_ring::qemu::{self, Kind, MAX_INSTRS};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use threads::{code_producer, producer};

/// Version of the emulator's plugin interface.
#[allow(non_upper_case_globals, unsafe_code)]
// SAFETY: The emulator looks for this name, and nothing else uses it.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// Settings of the process.
#[derive(Debug)]
struct Setup {
    shared: Shared,
    /// Whether to record forked children.
    follows: bool,
    /// Number of the system call that sets a signal handler.
    sigaction: i64,
    /// Number of the system call that unmaps memory.
    munmap: i64,
    /// Number of the system call that executes another program.
    execve: i64,
    /// Bytes of a guest address.
    pointer_bytes: usize,
    /// ELF class and machine of the guest's programs.
    machine: (u8, u16),
    /// Number of this program in the recording.
    image: u64,
    /// Name of this program; empty if it is the first.
    name: Vec<u8>,
    /// Whether the recorder wants accesses.
    tells_accesses: bool,
    /// Whether the recorder wants the clock before blocks with atomic operations.
    tells_clocks: bool,
    /// Whether blocks are left out where the ring has no room for them.
    drops: bool,
    /// Passed on to the next program.
    ring: CString,
    prefix: Option<CString>,
}

static SETUP: OnceLock<Setup> = OnceLock::new();

/// Room in the ring for a block, where blocks are left out: accesses of a usual block fit. If there are more, they wait.
const BLOCK_WORDS: u64 = 2048;

/// Maximum number of words in the description of a block.
const MAX_CODE_WORDS: usize = 3 + MAX_INSTRS.div_ceil(8) + (MAX_INSTRS * 16).div_ceil(8);

/// Called by the emulator when it loads the plugin; returns 0 on success.
///
/// # Safety
/// Must be called by the emulator only, with arguments according to its interface.
#[allow(unsafe_code)]
// SAFETY: The emulator looks for this name, and nothing else uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: The emulator passes a valid description, and as many strings as it says.
    let (target, is_system, arguments) = unsafe {
        let arguments: Vec<&CStr> =
            (0..usize::try_from(argc).unwrap_or(0)).map(|i| CStr::from_ptr(*argv.add(i))).collect();
        (CStr::from_ptr((*info).target_name).to_bytes(), (*info).system_emulation, arguments)
    };
    match setup(target, is_system, &arguments) {
        Ok(setup) => {
            if SETUP.set(setup).is_err() {
                return 1;
            }
        }
        Err(reason) => {
            eprintln!("quipu: the plugin cannot record: {reason}");
            return 1;
        }
    }
    // SAFETY: The callbacks have the signatures of the interface, and live as long as the process.
    unsafe {
        emulator::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
        emulator::qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
        emulator::qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_end);
        emulator::qemu_plugin_register_vcpu_exit_cb(id, on_exit);
        libc::pthread_atfork(None, None, Some(on_fork));
    }
    forks::mend();
    0
}

fn setup(target: &[u8], is_system: bool, arguments: &[&CStr]) -> Result<Setup, String> {
    if is_system {
        return Err("it is for emulators of programs, not of machines".to_owned());
    }
    let value = |name: &str| {
        arguments
            .iter()
            .find_map(|argument| argument.to_bytes().strip_prefix(name.as_bytes()))
            .map(<[u8]>::to_vec)
    };
    let path = value("ring=").ok_or("the argument `ring=PATH` is missing")?;
    let path = CString::new(path).map_err(|_| "its path has a zero byte")?;
    let shared = Shared::open(&path).map_err(|cause| format!("{}: {cause}", path.to_string_lossy()))?;
    let (sigaction, munmap, execve, machine) = match target {
        b"x86_64" => (13, 11, 59, (2, 62)),
        b"i386" => (174, 91, 11, (1, 3)),
        b"arm" => (174, 91, 11, (1, 40)),
        b"aarch64" => (134, 215, 221, (2, 183)),
        _ => (134, 215, 221, (2, 243)),
    };
    Ok(Setup {
        image: shared.next_id(),
        shared,
        follows: value("follow=").as_deref() == Some(b"1"),
        sigaction,
        munmap,
        execve,
        pointer_bytes: if machine.0 == 1 { 4 } else { 8 },
        machine,
        name: value("name=").unwrap_or_default(),
        tells_accesses: value("accesses=").as_deref() != Some(b"0"),
        tells_clocks: value("clocks=").as_deref() == Some(b"1"),
        drops: value("drop=").as_deref() == Some(b"1"),
        ring: path,
        prefix: value("prefix=").and_then(|path| CString::new(path).ok()),
    })
}

/// Called when a block was translated. The emulator translates one block at a time.
extern "C" fn on_translate(_: u64, block: *mut Block) {
    let Some(setup) = SETUP.get() else { return };
    let Some(producer) = code_producer() else { return };
    let number = setup.shared.next_id() as u32; // 2^32 translations would take longer than any recording.
    let mut words = [0_u64; MAX_CODE_WORDS];
    // SAFETY: The block is valid during this call, and so are its instructions, which have as many bytes as they say.
    #[allow(unsafe_code)]
    let (n, n_bytes, bytes_at) = unsafe {
        let n = emulator::qemu_plugin_tb_n_insns(block).min(MAX_INSTRS);
        words[1] = emulator::qemu_plugin_tb_vaddr(block);
        let bytes_at = 3 + n.div_ceil(8);
        let (mut n_bytes, mut is_atomic) = (0_usize, false);
        for i in 0..n {
            let insn = emulator::qemu_plugin_tb_get_insn(block, i);
            let size = emulator::qemu_plugin_insn_size(insn).min(16);
            set_byte(&mut words[3..], i, size as u8);
            let data = emulator::qemu_plugin_insn_data(insn);
            if setup.tells_clocks && size > 0 {
                is_atomic |= atomic::is_atomic(setup.machine.1, std::slice::from_raw_parts(data, size));
            }
            for at in 0..size {
                set_byte(&mut words[bytes_at..], n_bytes, *data.add(at));
                n_bytes += 1;
            }
            if i == 0 {
                let host = emulator::qemu_plugin_insn_haddr(insn) as u64;
                let guest = emulator::qemu_plugin_insn_vaddr(insn);
                guest::note(host, guest);
                modules::tell(producer, guest, setup.image);
            }
            if setup.tells_accesses {
                let callback: OnAccess = if setup.drops { on_access_with_room } else { on_access };
                emulator::qemu_plugin_register_vcpu_mem_cb(
                    insn,
                    callback,
                    NO_REGISTERS,
                    ALL_ACCESSES,
                    i as *mut c_void,
                );
            }
        }
        let (callback, user): (OnBlock, usize) = match (setup.drops, is_atomic) {
            // The number of instructions is needed to count them.
            (true, _) => (on_block_with_room, number as usize | n << 32 | usize::from(is_atomic) << 48),
            (false, true) => (on_block_after_clock, number as usize),
            (false, false) => (on_block, number as usize),
        };
        emulator::qemu_plugin_register_vcpu_tb_exec_cb(block, callback, NO_REGISTERS, user as *mut c_void);
        (n, n_bytes, bytes_at)
    };
    words[2] = n as u64 | (n_bytes as u64) << 32;
    let end = bytes_at + n_bytes.div_ceil(8);
    words[0] = qemu::head(Kind::Code, end - 1, number);
    producer.push_group(&words[..end]);
}

/// Sets byte `index` of some words, in little-endian order.
fn set_byte(words: &mut [u64], index: usize, byte: u8) {
    if let Some(word) = words.get_mut(index / 8) {
        *word |= u64::from(byte) << (index % 8 * 8);
    }
}

extern "C" fn on_block(vcpu: c_uint, number: *mut c_void) {
    if let Some(producer) = producer(vcpu) {
        if producer.is_at_stretch() {
            producer.push_group(&threads::clock());
        }
        producer.push(qemu::block(number as usize as u32)); // It was created from 32 bits.
    }
}

/// The same after the clock.
extern "C" fn on_block_after_clock(vcpu: c_uint, number: *mut c_void) {
    if let Some(producer) = producer(vcpu) {
        producer.push_group(&threads::clock());
        producer.push(qemu::block(number as usize as u32)); // It was created from 32 bits.
    }
}

/// The same if there is room for the block and its accesses; otherwise the block is left out.
extern "C" fn on_block_with_room(vcpu: c_uint, user: *mut c_void) {
    // Packed when the block was translated.
    let (number, n_instrs) = (user as usize as u32, u64::from((user as usize >> 32) as u16));
    let is_atomic = user as usize >> 48 != 0;
    if let Some(producer) = producer(vcpu) {
        let is_left_out = !producer.has_room(BLOCK_WORDS);
        let was_left_out = threads::leave_out(vcpu, is_left_out);
        if was_left_out && !is_left_out {
            producer.push_group(&[qemu::head(Kind::Lost, 0, 0)]);
        }
        if (was_left_out || is_atomic) && !is_left_out {
            producer.push_group(&threads::clock());
        }
        if is_left_out {
            producer.drop_some(n_instrs);
        } else {
            producer.push(qemu::block(number));
        }
    }
}

/// The same for an access of a block that may be left out.
extern "C" fn on_access_with_room(vcpu: c_uint, raw: u32, addr: u64, instr: *mut c_void) {
    if !threads::is_left_out(vcpu) {
        on_access(vcpu, raw, addr, instr);
    }
}

extern "C" fn on_access(vcpu: c_uint, raw: u32, addr: u64, instr: *mut c_void) {
    if let Some(producer) = producer(vcpu) {
        let (direction, shift, instr) = (raw >> 16 & 3, raw >> 4 & 7, instr as usize as u64);
        match qemu::access(direction, shift, instr, addr) {
            Some(word) => producer.push(word),
            None => {
                let access = qemu::wide_access(direction, shift, instr);
                producer.push_group(&[qemu::head(Kind::Wide, 2, 0), access, addr])
            }
        };
    }
}

#[allow(clippy::too_many_arguments)] // The number that the interface has.
extern "C" fn on_syscall(
    _: u64,
    vcpu: c_uint,
    number: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
    _: u64,
    _: u64,
) {
    let (Some(setup), Some(producer)) = (SETUP.get(), producer(vcpu)) else { return };
    if number == setup.sigaction
        && a2 != 0
        && let Some(handler) = guest::read(a2, setup.pointer_bytes)
    {
        producer.push_group(&[qemu::head(Kind::Handler, 1, a1 as u32), handler]);
    }
    let [_, micros, cpu] = threads::clock();
    let head = qemu::head(Kind::Syscall, 8, number as u32); // Numbers are small, or -1.
    producer.push_group(&[head, micros, cpu, a1, a2, a3, a4, a5, a6]);
    if number == setup.execve {
        // Returns if the program is left to the emulator.
        let _ = exec::follow(setup, a1, a2, a3);
    }
}

extern "C" fn on_syscall_end(_: u64, vcpu: c_uint, number: i64, result: i64) {
    if let Some(producer) = producer(vcpu) {
        let [_, micros, cpu] = threads::clock();
        let head = qemu::head(Kind::SyscallEnd, 3, number as u32);
        producer.push_group(&[head, micros, cpu, result.cast_unsigned()]);
    }
    if SETUP.get().is_some_and(|setup| setup.munmap == number) {
        modules::forget();
    }
}

extern "C" fn on_exit(_: u64, vcpu: c_uint) {
    threads::end(vcpu);
}

/// Called in a forked child, which has a single thread.
extern "C" fn on_fork() {
    forks::note();
    threads::forget();
}
