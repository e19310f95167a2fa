//! Writes streams from C and C++: implements the functions that `include/quipu_stream.h` declares and describes.
//!
//! Each function converts C's arguments to those of `quipu_stream::write`, and an error to a number. Panics are caught at
//! the boundary, except in `quipu_try_row` and `quipu_lost`: signal handlers may call these, and they do nothing that can
//! panic.

pub mod define;
pub mod options;

use options::COptions;
use quipu_stream::record::Body;
use quipu_stream::spec::Ty;
use quipu_stream::write::{Options, StreamWriter, Writer};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::FromRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

/// An argument is invalid.
const ERROR_ARGUMENT: c_int = -1;
/// The file could not be written.
const ERROR_WRITE: c_int = -2;
/// The frame in memory has no room for the record.
const FULL: c_int = -3;

/// A handle for a writer.
#[derive(Debug)]
pub struct CWriter {
    writer: Writer<File>,
    /// The types made by C, numbered from [`FIRST_TYPE`].
    types: Mutex<Vec<Ty>>,
    n_clocks: AtomicU32,
}

/// The number of the first type made by C.
const FIRST_TYPE: c_int = 1000;

impl CWriter {
    fn new(file: File, options: Options) -> *mut CWriter {
        Box::into_raw(Box::new(CWriter {
            writer: Writer::new(file, options),
            types: Mutex::default(),
            n_clocks: AtomicU32::new(0),
        }))
    }
}

/// A handle for the buffer of one stream.
#[derive(Debug)]
pub struct CStream(StreamWriter<File>);

/// A variable part of a record, with the layout of the C structure.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CPart {
    at: u32,
    bytes: *const c_void,
    length: u32,
}

/// Runs `body`; returns `otherwise` if it panics.
fn guarded<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Converts a result to an error number.
fn said(result: std::io::Result<()>) -> c_int {
    if result.is_ok() { 0 } else { ERROR_WRITE }
}

/// The string at a C pointer; `None` if it is null or not UTF-8.
///
/// # Safety
/// The pointer is null, or points at a string that ends with a zero byte and lives as long as the result is used.
unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(pointer) }.to_str().ok()
}

/// The bytes at a C pointer; `None` if it is null and `len` is not 0.
///
/// # Safety
/// The pointer is null, or points at `len` bytes that live as long as the result is used.
unsafe fn bytes<'a>(pointer: *const c_void, len: usize) -> Option<&'a [u8]> {
    if len == 0 {
        return Some(&[]);
    }
    // SAFETY: as the caller promises.
    (!pointer.is_null()).then(|| unsafe { slice::from_raw_parts(pointer.cast(), len) })
}

/// Creates a file and a writer to it; null on failure.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_writer_open(path: *const c_char, program: *const c_char) -> *mut CWriter {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the header requires strings.
        let (Some(path), Some(program)) = (unsafe { text(path) }, unsafe { text(program) }) else {
            return std::ptr::null_mut();
        };
        let Ok(file) = File::create(path) else { return std::ptr::null_mut() };
        CWriter::new(file, Options::new(program))
    })
}

/// Creates a file and a writer to it, with options; null on failure.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_writer_open_with(
    path: *const c_char,
    options: *const COptions,
) -> *mut CWriter {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the header requires a string and options.
        let (Some(path), Some(options)) = (unsafe { text(path) }, unsafe { options::read(options) }) else {
            return std::ptr::null_mut();
        };
        let Ok(file) = File::create(path) else { return std::ptr::null_mut() };
        CWriter::new(file, options)
    })
}

/// Makes a writer to an open file, which the writer then owns; null on failure.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_writer_to(fd: c_int, options: *const COptions) -> *mut CWriter {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the header requires options.
        let Some(options) = (unsafe { options::read(options) }) else { return std::ptr::null_mut() };
        if fd < 0 {
            return std::ptr::null_mut();
        }
        // SAFETY: the header requires an open file, which belongs to the writer from now on.
        CWriter::new(unsafe { File::from_raw_fd(fd) }, options)
    })
}

/// Writes the index and the END, and closes the file.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_writer_close(writer: *mut CWriter) -> c_int {
    if writer.is_null() {
        return ERROR_ARGUMENT;
    }
    // SAFETY: the pointer came from a function that opens a writer, and the header requires that it is not used again.
    let writer = unsafe { Box::from_raw(writer) };
    guarded(ERROR_WRITE, || said(writer.writer.finish()))
}

/// Opens the buffer of a stream; null on failure.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_stream_open(writer: *mut CWriter, number: u32) -> *mut CStream {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the header requires a writer.
        let stream = unsafe { writer.as_ref() }.and_then(|writer| writer.writer.stream(number).ok());
        stream.map_or(std::ptr::null_mut(), |stream| Box::into_raw(Box::new(CStream(stream))))
    })
}

/// Writes a record without variable parts.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_row(
    stream: *mut CStream,
    schema: u32,
    time: u64,
    record: *const c_void,
    size: u32,
) -> c_int {
    // SAFETY: both functions have the same requirements; no parts are passed.
    unsafe { quipu_row_with(stream, schema, time, record, size, std::ptr::null(), 0) }
}

/// Writes a record with variable parts.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_row_with(
    stream: *mut CStream,
    schema: u32,
    time: u64,
    record: *const c_void,
    size: u32,
    parts: *const CPart,
    n_parts: usize,
) -> c_int {
    guarded(ERROR_WRITE, || {
        // SAFETY: the header requires a stream and a record of this size.
        let (stream, record) = unsafe { (stream.as_mut(), bytes(record, size as usize)) };
        let (Some(stream), Some(record)) = (stream, record) else { return ERROR_ARGUMENT };
        let parts = if n_parts == 0 || parts.is_null() {
            &[]
        } else {
            // SAFETY: the header requires this number of parts.
            unsafe { slice::from_raw_parts(parts, n_parts) }
        };
        // SAFETY: the header requires bytes of this length.
        let of = |part: &CPart| unsafe { bytes(part.bytes, part.length as usize) };
        let fits = |part: &CPart| u64::from(part.at) + 8 <= u64::from(size);
        if !parts.iter().all(|part| fits(part) && of(part).is_some()) {
            return ERROR_ARGUMENT;
        }
        let put = |body: &mut Body<'_>| {
            body.put(0, record);
            for part in parts {
                let bytes = of(part).unwrap_or(&[]);
                body.append(part.at as usize, bytes, bytes.len());
            }
        };
        said(stream.0.row(schema, time, record.len(), put))
    })
}

/// Writes a record if the frame in memory has room; otherwise counts it as lost.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_try_row(
    stream: *mut CStream,
    schema: u32,
    time: u64,
    record: *const c_void,
    size: u32,
) -> c_int {
    // SAFETY: the header requires a stream and a record of this size.
    let (stream, record) = unsafe { (stream.as_mut(), bytes(record, size as usize)) };
    let (Some(stream), Some(record)) = (stream, record) else { return ERROR_ARGUMENT };
    if stream.0.try_row(schema, time, record) { 0 } else { FULL }
}

/// Counts records that the program has dropped.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_lost(stream: *mut CStream, n_records: u64) {
    // SAFETY: the header requires a stream.
    if let Some(stream) = unsafe { stream.as_mut() } {
        stream.0.lose(n_records);
    }
}

/// Writes the records that a stream has in memory.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_flush(stream: *mut CStream) -> c_int {
    guarded(ERROR_WRITE, || {
        // SAFETY: the header requires a stream.
        let Some(stream) = (unsafe { stream.as_mut() }) else { return ERROR_ARGUMENT };
        said(stream.0.flush())
    })
}

/// Writes the current frame if its first record is too old.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_flush_old(stream: *mut CStream) -> c_int {
    guarded(ERROR_WRITE, || {
        // SAFETY: the header requires a stream.
        let Some(stream) = (unsafe { stream.as_mut() }) else { return ERROR_ARGUMENT };
        said(stream.0.flush_old())
    })
}

/// Writes the remaining records and closes a stream.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_stream_close(stream: *mut CStream) -> c_int {
    if stream.is_null() {
        return ERROR_ARGUMENT;
    }
    // SAFETY: the pointer came from `quipu_stream_open`, and the header requires that it is not used again.
    let stream = unsafe { Box::from_raw(stream) };
    guarded(ERROR_WRITE, || said(stream.0.finish()))
}
