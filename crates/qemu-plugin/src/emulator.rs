//! The parts of QEMU's plugin interface, version 1, that are used. No package provides a header for it.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A block that is being translated.
#[repr(C)]
pub(crate) struct Block {
    _opaque: [u8; 0],
}

/// An instruction of a block.
#[repr(C)]
pub(crate) struct Insn {
    _opaque: [u8; 0],
}

/// Properties of the emulator.
#[repr(C)]
pub struct Info {
    /// Name of the guest architecture.
    pub(crate) target_name: *const c_char,
    _min_version: c_int,
    _cur_version: c_int,
    /// True if it emulates a machine instead of a single program.
    pub(crate) system_emulation: bool,
    _smp_vcpus: c_int,
    _max_vcpus: c_int,
}

pub(crate) type OnTranslate = extern "C" fn(u64, *mut Block);
pub(crate) type OnBlock = extern "C" fn(c_uint, *mut c_void);
pub(crate) type OnAccess = extern "C" fn(c_uint, u32, u64, *mut c_void);
pub(crate) type OnVcpu = extern "C" fn(u64, c_uint);
pub(crate) type OnSyscall = extern "C" fn(u64, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub(crate) type OnSyscallEnd = extern "C" fn(u64, c_uint, i64, i64);

/// The callback reads no registers.
pub(crate) const NO_REGISTERS: c_int = 0;
/// Both reads and writes.
pub(crate) const ALL_ACCESSES: c_int = 3;

// SAFETY: The declarations match version 1 of the interface.
#[allow(unsafe_code)]
unsafe extern "C" {
    pub(crate) fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: OnTranslate);
    pub(crate) fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub(crate) fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Insn;
    pub(crate) fn qemu_plugin_tb_vaddr(block: *const Block) -> u64;
    pub(crate) fn qemu_plugin_insn_data(insn: *const Insn) -> *const u8;
    pub(crate) fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub(crate) fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub(crate) fn qemu_plugin_insn_haddr(insn: *const Insn) -> *const c_void;
    pub(crate) fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        callback: OnBlock,
        flags: c_int,
        user: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        callback: OnAccess,
        flags: c_int,
        which: c_int,
        user: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_syscall_cb(id: u64, callback: OnSyscall);
    pub(crate) fn qemu_plugin_register_vcpu_syscall_ret_cb(id: u64, callback: OnSyscallEnd);
    pub(crate) fn qemu_plugin_register_vcpu_exit_cb(id: u64, callback: OnVcpu);
    pub(crate) fn qemu_plugin_start_code() -> u64;
    pub(crate) fn qemu_plugin_path_to_binary() -> *const c_char;
}
