//! Sending workload events from C: what `include/quipu_prism.h` declares and describes.
//!
//! Each function turns C's arguments into those of `quipu_ring::prism`. Once a producer is open, nothing here allocates, takes
//! a lock or can panic.

use quipu_ring::prism::{Compute, Connection, Control, ENVIRONMENT, Encoding, Options, Put, Writer};
use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::os::unix::ffi::OsStringExt;
use std::slice;

const OK: c_int = 0;
/// An argument cannot be.
const ERROR_ARGUMENT: c_int = -1;
/// Nothing reads events any more.
const DROPPED: c_int = -2;
/// The encoding has no room for the event.
const NO_ROOM: c_int = -3;

/// Whether control flow was taken is unknown.
const NO_OUTCOME: c_int = -1;
/// Where control flow leads is unknown.
const NO_TARGET: u64 = u64::MAX;

/// The memory, as C holds it.
#[derive(Debug)]
pub struct CPrism(Connection);

/// A producer, as C holds it. The header says that it is closed before the memory.
#[derive(Debug)]
pub struct CProducer(Writer<'static>);

/// What a producer is, as C says it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct COptions {
    encoding: c_int,
    thread: u64,
    has_clocks: c_int,
    memory: u8,
    compute: u8,
    control: u8,
}

fn encoding_of(number: c_int) -> Option<Encoding> {
    [Encoding::Fixed, Encoding::Variable].into_iter().find(|known| *known as c_int == number)
}

/// The bytes that a pointer of C points at.
///
/// # Safety
/// The pointer points at that many bytes, which live as long as the result is used, or is null.
unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> Option<&'a [u8]> {
    if len == 0 {
        return Some(&[]);
    }
    // SAFETY: as the caller promises.
    (!pointer.is_null()).then(|| unsafe { slice::from_raw_parts(pointer, len) })
}

/// Sends an event; every number of C that is no number of the event's is refused before.
///
/// # Safety
/// The pointer is null or a producer of the calling thread.
unsafe fn send(producer: *mut CProducer, event: impl FnOnce(&mut Writer<'static>) -> Option<Put>) -> c_int {
    // SAFETY: as the caller promises.
    let put = unsafe { producer.as_mut() }.and_then(|producer| event(&mut producer.0));
    match put {
        Some(Put::Taken | Put::Unasked) => OK,
        Some(Put::Dropped) => DROPPED,
        Some(Put::NoRoom) => NO_ROOM,
        None => ERROR_ARGUMENT,
    }
}

/// Maps the memory of an analysis.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_open(path: *const c_char) -> *mut CPrism {
    let opened = if path.is_null() {
        let named = std::env::var_os(ENVIRONMENT).and_then(|path| CString::new(path.into_vec()).ok());
        named.and_then(|path| Connection::open(&path).ok())
    } else {
        // SAFETY: the header asks for a text.
        Connection::open(unsafe { CStr::from_ptr(path) }).ok()
    };
    opened.map_or(std::ptr::null_mut(), |connection| Box::into_raw(Box::new(CPrism(connection))))
}

/// Unmaps the memory.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_close(prism: *mut CPrism) {
    if !prism.is_null() {
        // SAFETY: it came from `quipu_prism_open`, and the header says that no producer uses it.
        drop(unsafe { Box::from_raw(prism) });
    }
}

/// The fields of a kind that the analysis asks for.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_wants(prism: *const CPrism, kind: c_int) -> c_uint {
    // SAFETY: the header asks for memory.
    let Some(prism) = (unsafe { prism.as_ref() }) else { return 0 };
    let [memory, compute, control, sync, context] = prism.0.asked().fields;
    let fields = match kind {
        0 => memory,
        1 => compute,
        2 => sync,
        3 => context,
        4 => control,
        _ => 0,
    };
    fields.into()
}

/// Interns a name.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_intern(prism: *mut CPrism, name: *const c_char, length: usize) -> u32 {
    // SAFETY: the header asks for memory and a name of that length.
    let (prism, name) = unsafe { (prism.as_ref(), bytes(name.cast(), length)) };
    prism.zip(name).and_then(|(prism, name)| prism.0.intern(name)).unwrap_or(0)
}

/// Opens a producer.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_producer_open(
    prism: *mut CPrism,
    options: *const COptions,
) -> *mut CProducer {
    // SAFETY: the header asks for memory, which outlives its producers, and options.
    let (prism, options): (Option<&'static CPrism>, _) = unsafe { (prism.as_ref(), options.as_ref()) };
    let (Some(prism), Some(options)) = (prism, options) else { return std::ptr::null_mut() };
    let Some(encoding) = encoding_of(options.encoding) else { return std::ptr::null_mut() };
    let options = Options {
        encoding,
        can: [options.memory, options.compute, options.control, 0xff, 0xff],
        thread: (options.thread != 0).then_some(options.thread),
        clocks: options.has_clocks != 0,
    };
    let writer = prism.0.writer(options);
    writer.map_or(std::ptr::null_mut(), |writer| Box::into_raw(Box::new(CProducer(writer))))
}

/// Closes a producer.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_producer_close(producer: *mut CProducer) {
    if !producer.is_null() {
        // SAFETY: it came from `quipu_prism_producer_open`, and the header says that it is not used again.
        unsafe { Box::from_raw(producer) }.0.close();
    }
}

/// The thread of a producer.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_thread(producer: *const CProducer) -> u64 {
    // SAFETY: the header asks for a producer.
    unsafe { producer.as_ref() }.map_or(0, |producer| producer.0.thread())
}

/// Events that did not get through.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_dropped(producer: *const CProducer) -> u64 {
    // SAFETY: the header asks for a producer.
    unsafe { producer.as_ref() }.map_or(0, |producer| producer.0.n_dropped())
}

/// Publishes what was collected.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_flush(producer: *mut CProducer) -> c_int {
    // SAFETY: the header asks for a producer.
    match unsafe { producer.as_mut() } {
        Some(producer) => {
            if producer.0.flush() {
                OK
            } else {
                DROPPED
            }
        }
        None => ERROR_ARGUMENT,
    }
}

/// Sets the clock.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_clock(producer: *mut CProducer, clock: u64) {
    // SAFETY: the header asks for a producer.
    if let Some(producer) = unsafe { producer.as_mut() } {
        producer.0.set_clock(clock);
    }
}

/// An access.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_memory(
    producer: *mut CProducer,
    kind: c_int,
    size: c_uint,
    address: u64,
) -> c_int {
    // SAFETY: the header asks for the same.
    unsafe { quipu_prism_memory_id(producer, kind, size, address, 0) }
}

/// An access with an id.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_memory_id(
    producer: *mut CProducer,
    kind: c_int,
    size: c_uint,
    address: u64,
    id: u8,
) -> c_int {
    let event = |writer: &mut Writer<'_>| {
        Some(writer.memory(u8::try_from(kind).ok()?, u16::try_from(size).ok()?, address, id))
    };
    // SAFETY: the header asks for a producer.
    unsafe { send(producer, event) }
}

/// A computation.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_compute(
    producer: *mut CProducer,
    format: c_int,
    width: c_uint,
    operation: c_int,
    arguments: c_int,
) -> c_int {
    let count = usize::try_from(arguments).unwrap_or(0).min(4);
    // SAFETY: the header asks for a producer; there are as many ids as arguments, or more arguments than there can be.
    unsafe {
        quipu_prism_compute_ids(producer, format, width, operation, arguments, [0; 4][..count].as_ptr())
    }
}

/// A computation with the ids of its arguments.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_compute_ids(
    producer: *mut CProducer,
    format: c_int,
    width: c_uint,
    operation: c_int,
    arguments: c_int,
    ids: *const u8,
) -> c_int {
    let event = |writer: &mut Writer<'_>| {
        let n_arguments = u8::try_from(arguments).ok()?;
        // No encoding has more ids.
        // SAFETY: the header asks for as many ids as arguments.
        let ids = unsafe { bytes(ids, usize::from(n_arguments).min(4)) }?;
        let (format, operation) = (u8::try_from(format).ok()?, u8::try_from(operation).ok()?);
        Some(writer.compute(&Compute {
            format,
            width: u16::try_from(width).ok()?,
            operation,
            n_arguments,
            ids,
        }))
    };
    // SAFETY: the header asks for a producer.
    unsafe { send(producer, event) }
}

/// Control flow.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_control(
    producer: *mut CProducer,
    kind: c_int,
    is_taken: c_int,
    is_indirect: c_int,
    target: u64,
) -> c_int {
    let event = |writer: &mut Writer<'_>| {
        let taken = (is_taken != NO_OUTCOME).then_some(is_taken != 0);
        let target = (target != NO_TARGET).then_some(target);
        let indirect = is_indirect != 0;
        Some(writer.control(&Control { kind: u8::try_from(kind).ok()?, taken, indirect, target }))
    };
    // SAFETY: the header asks for a producer.
    unsafe { send(producer, event) }
}

/// A call of a thread library, or a swap.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_sync(
    producer: *mut CProducer,
    kind: c_int,
    data: u64,
    second: u64,
) -> c_int {
    // SAFETY: the header asks for a producer.
    unsafe { send(producer, |writer| Some(writer.sync(u8::try_from(kind).ok()?, data, second))) }
}

/// The border of an instruction, block or thread.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_context(producer: *mut CProducer, kind: c_int, address: u64) -> c_int {
    // SAFETY: the header asks for a producer.
    unsafe { send(producer, |writer| Some(writer.context(u8::try_from(kind).ok()?, address))) }
}

/// The border of a function, net or operator.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_context_name(
    producer: *mut CProducer,
    kind: c_int,
    name: *const c_char,
    length: usize,
) -> c_int {
    let event = |writer: &mut Writer<'_>| {
        // SAFETY: the header asks for a name of that length.
        let name = unsafe { bytes(name.cast(), length) }?;
        Some(writer.context_name(u8::try_from(kind).ok()?, name))
    };
    // SAFETY: the header asks for a producer.
    unsafe { send(producer, event) }
}

/// The same with a name of the heap.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_context_interned(
    producer: *mut CProducer,
    kind: c_int,
    number: u32,
) -> c_int {
    // SAFETY: the header asks for a producer.
    unsafe { send(producer, |writer| Some(writer.context_number(u8::try_from(kind).ok()?, number))) }
}

/// A change of the level of detail.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_configure(
    producer: *mut CProducer,
    kind: c_int,
    fields: c_uint,
) -> c_int {
    let event = |writer: &mut Writer<'_>| {
        Some(writer.configure(u8::try_from(kind).ok()?, u8::try_from(fields).ok()?))
    };
    // SAFETY: the header asks for a producer.
    unsafe { send(producer, event) }
}
