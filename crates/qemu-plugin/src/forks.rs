//! Works around a crash of the emulator when forked processes start threads.
//!
//! For plugins, QEMU keeps a table of its CPUs. A `fork` copies it with the CPUs of all threads, although the child has only
//! one, and then CPU numbers start anew: the next thread gets a number that is already in the table. QEMU (7.2 to 10) asserts
//! that the number is new, with or without a plugin. `g_hash_table_insert` returns whether a key is new. This wraps it, only
//! for calls from QEMU's own program, so that in a forked process it reports every CPU as new. The stale entry is then
//! replaced, and nothing else depends on it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// `g_hash_table_insert`: table, key, value; nonzero if the key is new.
type Insert = extern "C" fn(*mut c_void, *mut c_void, *mut c_void) -> c_int;

/// The function of GLib that the replacement calls.
static INSERT: OnceLock<Insert> = OnceLock::new();
/// True if this process is a forked child.
static IS_FORK: AtomicBool = AtomicBool::new(false);

/// Called in a forked child.
pub(crate) fn note() {
    IS_FORK.store(true, Ordering::Relaxed);
}

/// The table of CPUs is the only table whose values are their own keys.
extern "C" fn insert(table: *mut c_void, key: *mut c_void, value: *mut c_void) -> c_int {
    let Some(insert) = INSERT.get() else { return 0 };
    let is_new = insert(table, key, value);
    c_int::from(is_new != 0 || (key == value && IS_FORK.load(Ordering::Relaxed)))
}

/// Wraps the function if QEMU imports it; otherwise does nothing.
pub(crate) fn mend() {
    // SAFETY: The callback has the expected signature, and returns before the function does.
    #[allow(unsafe_code)]
    unsafe {
        libc::dl_iterate_phdr(Some(in_program), std::ptr::null_mut());
    }
}

/// An entry of a dynamic section.
#[repr(C)]
struct Dynamic {
    tag: u64,
    value: u64,
}

/// A relocation with an addend.
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// Relocation types for the address of a function, with and without a stub, on 64-bit Linux.
const FUNCTIONS: &[u64] = if cfg!(target_arch = "x86_64") {
    &[7, 6]
} else if cfg!(target_arch = "aarch64") {
    &[1026, 1025]
} else {
    &[]
};

/// Called for each loaded object. The first one is the program itself; iteration stops there.
extern "C" fn in_program(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    const END: c_int = 1;
    const STRTAB: u64 = 5;
    const SYMTAB: u64 = 6;
    const PLTRELSZ: u64 = 2;
    const JMPREL: u64 = 23;
    const RELA: u64 = 7;
    const RELASZ: u64 = 8;
    // SAFETY: The loader passes a valid description of an object that stays loaded: its segments, its dynamic section, which
    // ends with a zero tag, and the tables that it refers to, with their correct sizes.
    #[allow(unsafe_code)]
    unsafe {
        let base = (*info).dlpi_addr;
        let segments = std::slice::from_raw_parts((*info).dlpi_phdr, usize::from((*info).dlpi_phnum));
        let Some(dynamic) = segments.iter().find(|segment| segment.p_type == libc::PT_DYNAMIC) else {
            return END;
        };
        let (mut strings, mut symbols) = (0, 0);
        // Address and size of each table.
        let mut tables = [(0, 0); 2];
        let mut entry = (base + dynamic.p_vaddr) as *const Dynamic;
        while (*entry).tag != 0 {
            let value = (*entry).value;
            // Some C libraries relocate the addresses in this section, others do not.
            let address = if value < base { value + base } else { value };
            match (*entry).tag {
                STRTAB => strings = address,
                SYMTAB => symbols = address,
                JMPREL => tables[0].0 = address,
                PLTRELSZ => tables[0].1 = value,
                RELA => tables[1].0 = address,
                RELASZ => tables[1].1 = value,
                _ => {}
            }
            entry = entry.add(1);
        }
        let tables = tables.into_iter().filter(|(at, _)| ![*at, strings, symbols].contains(&0));
        for (at, n_bytes) in tables {
            let n = n_bytes as usize / size_of::<Relocation>();
            for relocation in std::slice::from_raw_parts(at as *const Relocation, n) {
                let symbol = &*(symbols as *const libc::Elf64_Sym).add((relocation.info >> 32) as usize);
                let name = (strings as *const c_char).add(symbol.st_name as usize);
                let is_function = FUNCTIONS.contains(&(relocation.info & 0xffff_ffff));
                if is_function && CStr::from_ptr(name) == c"g_hash_table_insert" {
                    replace((base + relocation.offset) as *mut *const c_void);
                }
            }
        }
    }
    END
}

/// Puts the wrapper where QEMU looks up the address of the function.
///
/// # Safety
/// `slot` must be that place, which may be write-protected, and no thread may call the function meanwhile.
#[allow(unsafe_code)]
// SAFETY: The caller's duty.
unsafe fn replace(slot: *mut *const c_void) {
    // SAFETY: The page exists, since the slot is in it. An unresolved slot leads to code that resolves it, so the loader is
    // asked for the function instead. The address is changed while QEMU starts, with a single thread.
    unsafe {
        let original = libc::dlsym(libc::RTLD_DEFAULT, c"g_hash_table_insert".as_ptr());
        let page_bytes = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
        let page = (slot as usize & !(page_bytes - 1)) as *mut c_void;
        if original.is_null() || libc::mprotect(page, page_bytes, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return;
        }
        let _ = INSERT.set(std::mem::transmute::<*mut c_void, Insert>(original));
        slot.write(insert as Insert as *const c_void);
    }
}
