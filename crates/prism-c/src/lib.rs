//! Sends workload events from C: implements the functions that `include/quipu_prism.h` declares and describes.
//!
//! Each function converts C's arguments to those of `quipu_ring::prism`. Once a producer is open, nothing here allocates,
//! takes a lock or can panic.

use quipu_ring::prism::{Compute, Connection, Control, ENVIRONMENT, Encoding, Options, Put, Writer};
use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::os::unix::ffi::OsStringExt;
use std::slice;

const OK: c_int = 0;
/// An argument is invalid.
const ERROR_ARGUMENT: c_int = -1;
/// The analysis has stopped reading events.
const DROPPED: c_int = -2;
/// The encoding cannot represent the event.
const NO_ROOM: c_int = -3;

/// Value of `is_taken`: the outcome is unknown.
const NO_OUTCOME: c_int = -1;
/// Value of `target`: the target is unknown.
const NO_TARGET: u64 = u64::MAX;

/// A handle for the memory shared with an analysis.
#[derive(Debug)]
pub struct CPrism(Connection);

/// A handle for a producer. The header requires that it is closed before the memory.
#[derive(Debug)]
pub struct CProducer(Writer<'static>);

/// The options of a producer, with the layout of the C structure.
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

/// The bytes at a C pointer; `None` if it is null and `len` is not 0.
///
/// # Safety
/// The pointer is null, or points at `len` bytes that live as long as the result is used.
unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> Option<&'a [u8]> {
    if len == 0 {
        return Some(&[]);
    }
    // SAFETY: as the caller promises.
    (!pointer.is_null()).then(|| unsafe { slice::from_raw_parts(pointer, len) })
}

/// Sends an event. `event` returns `None`, which becomes an error, if a number from C is out of range.
///
/// # Safety
/// The pointer is null, or a producer of the calling thread.
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

/// Maps the memory of an analysis; null `path` takes the path from the environment. Null on failure.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_open(path: *const c_char) -> *mut CPrism {
    let opened = if path.is_null() {
        let named = std::env::var_os(ENVIRONMENT).and_then(|path| CString::new(path.into_vec()).ok());
        named.and_then(|path| Connection::open(&path).ok())
    } else {
        // SAFETY: the header requires a string that ends with a zero byte.
        Connection::open(unsafe { CStr::from_ptr(path) }).ok()
    };
    opened.map_or(std::ptr::null_mut(), |connection| Box::into_raw(Box::new(CPrism(connection))))
}

/// Unmaps the memory. Does nothing for null.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_close(prism: *mut CPrism) {
    if !prism.is_null() {
        // SAFETY: the pointer came from `quipu_prism_open`, and the header requires that no producer uses it.
        drop(unsafe { Box::from_raw(prism) });
    }
}

/// The fields of an event kind that the analysis asks for, as bits; 0 for unknown kinds.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_wants(prism: *const CPrism, kind: c_int) -> c_uint {
    // SAFETY: the header requires null or a pointer from `quipu_prism_open`.
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

/// Interns a name; returns its number, or 0 on failure.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_intern(prism: *mut CPrism, name: *const c_char, length: usize) -> u32 {
    // SAFETY: the header requires a pointer from `quipu_prism_open` and a name of this length.
    let (prism, name) = unsafe { (prism.as_ref(), bytes(name.cast(), length)) };
    prism.zip(name).and_then(|(prism, name)| prism.0.intern(name)).unwrap_or(0)
}

/// Opens a producer; null if an option is invalid or there is no room for it.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_producer_open(
    prism: *mut CPrism,
    options: *const COptions,
) -> *mut CProducer {
    // SAFETY: the header requires a memory that outlives its producers, and options.
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

/// Closes a producer. Does nothing for null.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_producer_close(producer: *mut CProducer) {
    if !producer.is_null() {
        // SAFETY: the pointer came from `quipu_prism_producer_open`, and the header requires that it is not used again.
        unsafe { Box::from_raw(producer) }.0.close();
    }
}

/// The thread number of a producer.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_thread(producer: *const CProducer) -> u64 {
    // SAFETY: the header requires a producer.
    unsafe { producer.as_ref() }.map_or(0, |producer| producer.0.thread())
}

/// Number of events that were dropped.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_dropped(producer: *const CProducer) -> u64 {
    // SAFETY: the header requires a producer.
    unsafe { producer.as_ref() }.map_or(0, |producer| producer.0.n_dropped())
}

/// Publishes the events collected so far.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_flush(producer: *mut CProducer) -> c_int {
    // SAFETY: the header requires a producer.
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

/// Sets the clock for the following events.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_clock(producer: *mut CProducer, clock: u64) {
    // SAFETY: the header requires a producer.
    if let Some(producer) = unsafe { producer.as_mut() } {
        producer.0.set_clock(clock);
    }
}

/// Sends a memory access.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_memory(
    producer: *mut CProducer,
    kind: c_int,
    size: c_uint,
    address: u64,
) -> c_int {
    // SAFETY: both functions have the same requirements.
    unsafe { quipu_prism_memory_id(producer, kind, size, address, 0) }
}

/// Sends a memory access with an id.
///
/// # Safety
/// See the header.
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
    // SAFETY: the header requires a producer.
    unsafe { send(producer, event) }
}

/// Sends a computation.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_compute(
    producer: *mut CProducer,
    format: c_int,
    width: c_uint,
    operation: c_int,
    arguments: c_int,
) -> c_int {
    let count = usize::try_from(arguments).unwrap_or(0).min(4);
    // SAFETY: the header requires a producer; the array has an id for each argument, up to the four that any encoding has.
    unsafe {
        quipu_prism_compute_ids(producer, format, width, operation, arguments, [0; 4][..count].as_ptr())
    }
}

/// Sends a computation with the ids of its arguments.
///
/// # Safety
/// See the header.
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
        // No encoding has more than four ids.
        // SAFETY: the header requires an id for each argument.
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
    // SAFETY: the header requires a producer.
    unsafe { send(producer, event) }
}

/// Sends a control-flow event.
///
/// # Safety
/// See the header.
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
    // SAFETY: the header requires a producer.
    unsafe { send(producer, event) }
}

/// Sends a call of a thread library, or a thread swap.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_sync(
    producer: *mut CProducer,
    kind: c_int,
    data: u64,
    second: u64,
) -> c_int {
    // SAFETY: the header requires a producer.
    unsafe { send(producer, |writer| Some(writer.sync(u8::try_from(kind).ok()?, data, second))) }
}

/// Sends the boundary of an instruction, block or thread.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_context(producer: *mut CProducer, kind: c_int, address: u64) -> c_int {
    // SAFETY: the header requires a producer.
    unsafe { send(producer, |writer| Some(writer.context(u8::try_from(kind).ok()?, address))) }
}

/// Sends the boundary of a function, net or operator.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_context_name(
    producer: *mut CProducer,
    kind: c_int,
    name: *const c_char,
    length: usize,
) -> c_int {
    let event = |writer: &mut Writer<'_>| {
        // SAFETY: the header requires a name of this length.
        let name = unsafe { bytes(name.cast(), length) }?;
        Some(writer.context_name(u8::try_from(kind).ok()?, name))
    };
    // SAFETY: the header requires a producer.
    unsafe { send(producer, event) }
}

/// Like [`quipu_prism_context_name`], with the number of an interned name.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_context_interned(
    producer: *mut CProducer,
    kind: c_int,
    number: u32,
) -> c_int {
    // SAFETY: the header requires a producer.
    unsafe { send(producer, |writer| Some(writer.context_number(u8::try_from(kind).ok()?, number))) }
}

/// Sends a change of the level of detail.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_prism_configure(
    producer: *mut CProducer,
    kind: c_int,
    fields: c_uint,
) -> c_int {
    let event = |writer: &mut Writer<'_>| {
        Some(writer.configure(u8::try_from(kind).ok()?, u8::try_from(fields).ok()?))
    };
    // SAFETY: the header requires a producer.
    unsafe { send(producer, event) }
}
