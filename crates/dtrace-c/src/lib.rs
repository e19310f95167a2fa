//! Captures of DTrace written from C: what `include/quipu_dtrace.h` declares and describes.
//!
//! Each function turns C's arguments into those of [`quipu_dtrace::build::Builder`] and an error into a number. Panics are caught
//! at the border.

use quipu_dtrace::build::{Builder, Snapshot};
use quipu_dtrace::carry::Encoded;
use quipu_dtrace::locale::Locale;
use quipu_model::{Error, Result};
use quipu_wire::record::Producer;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

/// An argument cannot be.
const ERROR_ARGUMENT: c_int = -1;
/// The file could not be written.
const ERROR_WRITE: c_int = -2;

/// A capture, as C holds it.
#[derive(Debug)]
pub struct CCapture {
    builder: Builder,
    program: String,
    error: CString,
}

/// A snapshot, as C gives it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CSnapshot {
    cpu: u32,
    errors: u32,
    drops: u64,
    data: *const c_void,
    size: u64,
    oldest: u64,
    timestamp: u64,
}

/// The text that a pointer of C points at.
///
/// # Safety
/// The pointer is null or points at a text that ends with a zero byte and lives as long as the result is used.
unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(unsafe { CStr::from_ptr(pointer) })
}

/// The bytes that a pointer of C points at.
///
/// # Safety
/// The pointer points at that many bytes, which live as long as the result is used, or is null.
unsafe fn bytes<'a>(pointer: *const c_void, len: usize) -> Option<&'a [u8]> {
    if len == 0 {
        return Some(&[]);
    }
    // SAFETY: as the caller promises; no object of C is larger than this.
    (!pointer.is_null() && isize::try_from(len).is_ok())
        .then(|| unsafe { slice::from_raw_parts(pointer.cast(), len) })
}

/// An argument that is missing.
fn missing() -> Error {
    Error::usage("an argument is missing")
}

/// Runs what a function does with its capture, and keeps why it failed.
///
/// # Safety
/// The pointer is null or came from [`quipu_dtrace_open`], and nothing else uses the capture meanwhile.
unsafe fn with(
    capture: *mut CCapture,
    otherwise: c_int,
    body: impl FnOnce(&mut CCapture) -> Result<()>,
) -> c_int {
    // SAFETY: as the caller promises.
    let Some(capture) = (unsafe { capture.as_mut() }) else { return ERROR_ARGUMENT };
    let done = catch_unwind(AssertUnwindSafe(|| {
        capture.error = CString::default();
        if let Err(error) = body(capture) {
            capture.error = CString::new(error.to_string()).unwrap_or_default();
            return otherwise;
        }
        0
    }));
    done.unwrap_or(otherwise)
}

/// Begins an empty capture.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_open(program: *const c_char) -> *mut CCapture {
    // SAFETY: the header asks for a text.
    let program = unsafe { text(program) };
    let made = catch_unwind(|| {
        let program = program?.to_string_lossy().into_owned();
        Some(Box::new(CCapture { builder: Builder::new(), program, error: CString::default() }))
    });
    made.ok().flatten().map_or(std::ptr::null_mut(), Box::into_raw)
}

/// Sets options.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_options(capture: *mut CCapture, options: *const c_char) -> c_int {
    // SAFETY: the header asks for a capture and a text.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            let options = text(options).ok_or_else(missing)?;
            capture.builder.options(&options.to_string_lossy())
        })
    }
}

/// Describes a probe.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_probe(
    capture: *mut CCapture,
    probe: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: the header asks for a capture and that many bytes.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            capture.builder.probe(bytes(probe, size).ok_or_else(missing)?)
        })
    }
}

/// Describes an enabling.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_enabling(
    capture: *mut CCapture,
    eprobe: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: the header asks for a capture and that many bytes.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            capture.builder.enabling(bytes(eprobe, size).ok_or_else(missing)?)
        })
    }
}

/// Describes an aggregation.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_aggregation(
    capture: *mut CCapture,
    agg: *const c_void,
    size: usize,
    variable: i64,
    name: *const c_char,
) -> c_int {
    // SAFETY: the header asks for a capture, that many bytes, and a text or null.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            let name = text(name).map(|name| name.to_string_lossy().into_owned());
            capture.builder.aggregation(bytes(agg, size).ok_or_else(missing)?, variable as u64, name)
        })
    }
}

/// Describes a format.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_format(
    capture: *mut CCapture,
    id: u32,
    format: *const c_char,
) -> c_int {
    // SAFETY: the header asks for a capture and a text.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            capture.builder.format(id, text(format).ok_or_else(missing)?.to_bytes())
        })
    }
}

/// Names addresses.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_symbol(
    capture: *mut CCapture,
    from: u64,
    to: u64,
    object: *const c_char,
    name: *const c_char,
    is_user: c_int,
) -> c_int {
    // SAFETY: the header asks for a capture and texts.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            let (object, name) = text(object).zip(text(name)).ok_or_else(missing)?;
            let (object, name) = (object.to_string_lossy(), name.to_string_lossy());
            capture.builder.symbol(from..to, &object, &name, is_user != 0);
            Ok(())
        })
    }
}

/// Says which CPUs began and ended.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_session(
    capture: *mut CCapture,
    began_on: i64,
    ended_on: i64,
    has_stopped: c_int,
) -> c_int {
    // SAFETY: the header asks for a capture.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            let cpu = |cpu: i64| u32::try_from(cpu).ok();
            capture.builder.session(cpu(began_on), cpu(ended_on), has_stopped != 0);
            Ok(())
        })
    }
}

/// Says where the consumer's own actions begin.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_library_base(capture: *mut CCapture, base: u64) -> c_int {
    // SAFETY: the header asks for a capture.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            capture.builder.library_base(base);
            Ok(())
        })
    }
}

/// Says the time zone.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_zone(
    capture: *mut CCapture,
    offset: i32,
    name: *const c_char,
) -> c_int {
    // SAFETY: the header asks for a capture and a text.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            let name = text(name).ok_or_else(missing)?;
            capture.builder.zone(offset, &name.to_string_lossy());
            Ok(())
        })
    }
}

/// The words of a locale, as C gives them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CWords {
    name: *const c_char,
    decimal_point: *const c_char,
    thousands_separator: *const c_char,
    grouping: *const c_char,
    days: [*const c_char; 7],
    months: [*const c_char; 12],
}

/// In `localeconv()`, groups of this many digits or more, and negative ones, mean that no more follow.
const NO_MORE_GROUPS: u8 = 127;

/// The locale that C gives.
///
/// # Safety
/// The pointer is null or points at words whose texts end with a zero byte or are null.
unsafe fn locale(of: *const CWords) -> Option<Locale> {
    // SAFETY: as the caller promises.
    let of = unsafe { of.as_ref() }?;
    // SAFETY: as the caller promises.
    let word = |pointer| unsafe { text(pointer) }.map(|text| text.to_string_lossy().into_owned());
    // SAFETY: as the caller promises.
    let groups = unsafe { text(of.grouping) }?.to_bytes();
    let size = |size: &u8| if *size < NO_MORE_GROUPS { *size } else { 0 };
    Some(Locale {
        name: word(of.name)?,
        decimal_point: word(of.decimal_point)?,
        thousands_separator: word(of.thousands_separator)?,
        grouping: groups.iter().map(size).collect(),
        days: of.days.iter().map(|day| word(*day)).collect::<Option<_>>()?,
        months: of.months.iter().map(|month| word(*month)).collect::<Option<_>>()?,
    })
}

/// Says the locale.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_locale(capture: *mut CCapture, words: *const CWords) -> c_int {
    // SAFETY: the header asks for a capture and words.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| capture.builder.locale(locale(words).ok_or_else(missing)?))
    }
}

/// Names a service.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_service(
    capture: *mut CCapture,
    port: u16,
    name: *const c_char,
) -> c_int {
    // SAFETY: the header asks for a capture and a text.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            capture.builder.service(port, &text(name).ok_or_else(missing)?.to_string_lossy())
        })
    }
}

/// Names a host.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_host(
    capture: *mut CCapture,
    address: *const c_char,
    name: *const c_char,
) -> c_int {
    // SAFETY: the header asks for a capture and texts.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            let (address, name) = text(address).zip(text(name)).ok_or_else(missing)?;
            capture.builder.host(&address.to_string_lossy(), &name.to_string_lossy())
        })
    }
}

/// Gives the counts that stand beside buffers.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_status(
    capture: *mut CCapture,
    status: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: the header asks for a capture and that many bytes.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            capture.builder.status(bytes(status, size).ok_or_else(missing)?)
        })
    }
}

/// The snapshot that C gives.
///
/// # Safety
/// The pointer is null or points at a snapshot whose data has that many bytes.
unsafe fn snapshot<'a>(of: *const CSnapshot) -> Option<Snapshot<'a>> {
    // SAFETY: as the caller promises.
    let of = unsafe { of.as_ref() }?;
    // SAFETY: as the caller promises.
    let data = unsafe { bytes(of.data, usize::try_from(of.size).ok()?) }?;
    let CSnapshot { cpu, drops, oldest, timestamp, .. } = *of;
    Some(Snapshot { cpu, drops, errors: of.errors.into(), bytes: data, oldest, timestamp })
}

/// Gives records of a CPU.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_buffer(capture: *mut CCapture, of: *const CSnapshot) -> c_int {
    // SAFETY: the header asks for a capture and a snapshot.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| capture.builder.buffer(&snapshot(of).ok_or_else(missing)?))
    }
}

/// Gives aggregations of a CPU.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_aggregations(capture: *mut CCapture, of: *const CSnapshot) -> c_int {
    // SAFETY: the header asks for a capture and a snapshot.
    unsafe {
        with(capture, ERROR_ARGUMENT, |capture| {
            capture.builder.aggregations(&snapshot(of).ok_or_else(missing)?)
        })
    }
}

impl CCapture {
    fn producer(&self) -> Producer {
        Producer { program: Some(self.program.clone()), ..Producer::default() }
    }
}

/// A file to write to.
fn create(path: &CStr) -> Result<BufWriter<File>> {
    let path = path.to_str().map_err(|_| Error::usage("the name of the file is no UTF-8"))?;
    let file = File::create(path);
    Ok(BufWriter::new(file.map_err(|cause| Error::usage(format!("`{path}` cannot be created: {cause}")))?))
}

/// What an error of a file means.
fn unwritten(cause: std::io::Error) -> Error {
    Error::usage(format!("the file cannot be written: {cause}"))
}

/// Writes a stream.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_write_stream(
    capture: *mut CCapture,
    path: *const c_char,
    dense: c_int,
) -> c_int {
    // SAFETY: the header asks for a capture and a text.
    unsafe {
        with(capture, ERROR_WRITE, |capture| {
            let out = create(text(path).ok_or_else(missing)?)?;
            let encoded = if dense == 0 { Encoded::Plain } else { Encoded::Dense };
            let mut out = capture.builder.write_stream(capture.producer(), encoded, out)?;
            out.flush().map_err(unwritten)
        })
    }
}

/// Writes a buffer with its descriptions.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_write_buffer(
    capture: *mut CCapture,
    path: *const c_char,
    cpu: u32,
) -> c_int {
    // SAFETY: the header asks for a capture and a text.
    unsafe {
        with(capture, ERROR_WRITE, |capture| {
            let bytes = capture.builder.write_buffer(capture.producer(), cpu)?;
            let mut out = create(text(path).ok_or_else(missing)?)?;
            out.write_all(&bytes).and_then(|()| out.flush()).map_err(unwritten)
        })
    }
}

/// Says why a function failed.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_error(capture: *const CCapture) -> *const c_char {
    // SAFETY: the header asks for a capture.
    unsafe { capture.as_ref() }.map_or(c"no capture".as_ptr(), |capture| capture.error.as_ptr())
}

/// Frees a capture.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_dtrace_close(capture: *mut CCapture) {
    if !capture.is_null() {
        // SAFETY: it came from `quipu_dtrace_open`, and the header says that it is not used again.
        drop(unsafe { Box::from_raw(capture) });
    }
}
