//! Definitions from C: schemas, types, clocks, stream descriptions, attachments and remarks.

use crate::{CWriter, ERROR_ARGUMENT, FIRST_TYPE, bytes, guarded, said, text};
use quipu_stream::spec::{FieldSpec, SchemaSpec, Ty};
use quipu_stream::wire::record::{Clock, Note, Stream};
use std::ffi::{c_char, c_int, c_void};
use std::slice;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// A field, with the layout of the C structure.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CField {
    name: *const c_char,
    ty: c_int,
    offset: u32,
    role: u32,
    unit: *const c_char,
    flags: u32,
}

/// A named value or bit, with the layout of the C structure.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CName {
    value: i64,
    name: *const c_char,
}

/// The scalar type with this number in the header.
fn scalar(number: c_int) -> Option<Ty> {
    Some(match number {
        1 => Ty::Uint(8),
        2 => Ty::Uint(16),
        3 => Ty::Uint(32),
        4 => Ty::Uint(64),
        5 => Ty::Sint(8),
        6 => Ty::Sint(16),
        7 => Ty::Sint(32),
        8 => Ty::Sint(64),
        9 => Ty::Float(32),
        10 => Ty::Float(64),
        11 => Ty::Bool,
        12 => Ty::Address,
        13 => Ty::Text,
        14 => Ty::Bytes,
        _ => return None,
    })
}

impl CWriter {
    /// The type with this number: a scalar of the header, or a type made earlier.
    fn type_of(&self, number: c_int) -> Option<Ty> {
        let made = usize::try_from(number.checked_sub(FIRST_TYPE)?);
        let Ok(made) = made else { return scalar(number) };
        self.types.lock().unwrap_or_else(PoisonError::into_inner).get(made).cloned()
    }

    /// Stores a type and returns its number. Equal types get the same number.
    fn keep(&self, ty: Ty) -> Option<c_int> {
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        let at = types.iter().position(|known| *known == ty).unwrap_or(types.len());
        if at == types.len() {
            types.push(ty);
        }
        FIRST_TYPE.checked_add(c_int::try_from(at).ok()?)
    }

    /// Makes an integer type with names for some of its values, or of its bits if `are_bits`.
    ///
    /// # Safety
    /// The name pointers are null, or strings that end with a zero byte.
    unsafe fn named(&self, name: &str, ty: c_int, names: &[CName], are_bits: bool) -> Option<c_int> {
        let base = scalar(ty).filter(|ty| matches!(ty, Ty::Uint(_) | Ty::Sint(_)))?;
        let (base, name) = (Box::new(base), name.to_owned());
        let named = |one: &CName| {
            // SAFETY: as the caller promises.
            let text = unsafe { text(one.name) };
            text.map(|text| (i128::from(one.value), text.to_owned()))
        };
        let names = names.iter().map(named).collect::<Option<Vec<_>>>()?;
        self.keep(if are_bits { Ty::Flags { name, base, names } } else { Ty::Enum { name, base, names } })
    }

    /// Defines a schema and returns its id.
    ///
    /// # Safety
    /// Names and units of fields are null, or strings that end with a zero byte.
    unsafe fn schema(
        &self,
        name: &str,
        fields: &[CField],
        size: u32,
        text_format: Option<&str>,
    ) -> Option<u32> {
        let mut spec = SchemaSpec { size: Some(size), ..SchemaSpec::new(name) };
        spec.text = text_format.map(str::to_owned);
        for field in fields {
            // SAFETY: as the caller promises.
            let (name, unit) = unsafe { (text(field.name)?, text(field.unit)) };
            spec.fields.push(FieldSpec {
                name: name.to_owned(),
                ty: self.type_of(field.ty)?,
                offset: Some(field.offset),
                role: (field.role != 0).then_some(field.role),
                unit: unit.map(str::to_owned),
                flags: field.flags.into(),
            });
        }
        let id = self.writer.schema(&spec).ok()?;
        // A schema that readers would refuse is refused here.
        self.writer.metadata().schema(id).map(|_| id)
    }
}

/// Defines a schema; returns its id, or 0 on failure.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_schema(
    writer: *mut CWriter,
    name: *const c_char,
    fields: *const CField,
    n_fields: usize,
    size: u32,
    text_format: *const c_char,
) -> u32 {
    guarded(0, || {
        // SAFETY: the header requires a writer, strings and this number of fields.
        let (writer, name, format) = unsafe { (writer.as_ref(), text(name), text(text_format)) };
        let (Some(writer), Some(name)) = (writer, name) else { return 0 };
        if fields.is_null() {
            return 0;
        }
        // SAFETY: `fields` has this number of fields, whose names and units are strings or null.
        unsafe { writer.schema(name, slice::from_raw_parts(fields, n_fields), size, format) }.unwrap_or(0)
    })
}

/// Makes an enumeration; returns the number of the type, or 0 on failure.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_enumeration(
    writer: *mut CWriter,
    name: *const c_char,
    ty: c_int,
    names: *const CName,
    n_names: usize,
) -> c_int {
    // SAFETY: both functions have the same requirements.
    unsafe { named(writer, name, ty, names, n_names, false) }
}

/// Makes a type of bit flags; returns the number of the type, or 0 on failure.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_bit_names(
    writer: *mut CWriter,
    name: *const c_char,
    ty: c_int,
    names: *const CName,
    n_names: usize,
) -> c_int {
    // SAFETY: both functions have the same requirements.
    unsafe { named(writer, name, ty, names, n_names, true) }
}

/// Makes an enumeration or a type of bit flags.
///
/// # Safety
/// See the header.
unsafe fn named(
    writer: *mut CWriter,
    name: *const c_char,
    ty: c_int,
    names: *const CName,
    n_names: usize,
    are_bits: bool,
) -> c_int {
    guarded(0, || {
        // SAFETY: the header requires a writer and a string.
        let (Some(writer), Some(name)) = (unsafe { writer.as_ref() }, unsafe { text(name) }) else {
            return 0;
        };
        if names.is_null() {
            return 0;
        }
        // SAFETY: the header requires this number of names, which are strings.
        unsafe { writer.named(name, ty, slice::from_raw_parts(names, n_names), are_bits) }.unwrap_or(0)
    })
}

/// Makes a type of arrays with `count` elements; returns its number, or 0 on failure.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_array(writer: *mut CWriter, ty: c_int, count: u32) -> c_int {
    guarded(0, || {
        // SAFETY: the header requires a writer.
        let Some(writer) = (unsafe { writer.as_ref() }) else { return 0 };
        let array = writer.type_of(ty).and_then(|ty| writer.keep(Ty::Array(Box::new(ty), count)));
        array.unwrap_or(0)
    })
}

/// Describes a clock; returns its id, or 0 on failure.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_clock(
    writer: *mut CWriter,
    name: *const c_char,
    ticks_per_s: u64,
    unix_ns: i64,
    uncertainty_ns: u64,
) -> u32 {
    guarded(0, || {
        // SAFETY: the header requires a writer and a string.
        let (Some(writer), name) = (unsafe { writer.as_ref() }, unsafe { text(name) }) else { return 0 };
        let id = writer.n_clocks.fetch_add(1, Ordering::Relaxed) + 1;
        let clock = Clock {
            id,
            name: name.map(str::to_owned),
            ticks_per_s,
            unix_ns: (unix_ns != i64::MIN).then_some(unix_ns),
            uncertainty_ns: Some(uncertainty_ns),
            ..Clock::default()
        };
        writer.writer.define(clock).map_or(0, |_| id)
    })
}

/// Writes a correlation of a clock with Unix time.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_clock_reading(
    writer: *mut CWriter,
    clock: u32,
    ticks: u64,
    unix_ns: i64,
    uncertainty_ns: u64,
) -> c_int {
    with(writer, |writer| said(writer.writer.clock(clock, ticks, unix_ns, uncertainty_ns)))
}

/// Describes a stream.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_stream_describe(
    writer: *mut CWriter,
    number: u32,
    name: *const c_char,
    clock: u32,
    cpu: i64,
    pid: i64,
    tid: i64,
) -> c_int {
    // SAFETY: the header requires a string.
    let name = unsafe { text(name) };
    with(writer, |writer| {
        let stream = Stream {
            number,
            name: name.map(str::to_owned),
            clock: (clock != 0).then_some(clock),
            cpu: cpu.try_into().ok(),
            pid: pid.try_into().ok(),
            tid: tid.try_into().ok(),
            ..Stream::default()
        };
        said(writer.writer.define(stream).map(drop))
    })
}

/// Writes an attachment.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_attach(
    writer: *mut CWriter,
    name: *const c_char,
    media: *const c_char,
    content: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the header requires strings, and bytes of this length.
    let (name, media, content) = unsafe { (text(name), text(media), bytes(content, length)) };
    with(writer, |writer| match (name, content) {
        (Some(name), Some(content)) => said(writer.writer.attach(name, media, content)),
        _ => ERROR_ARGUMENT,
    })
}

/// Writes a remark with a severity from 0 to 2.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_remark(writer: *mut CWriter, remark: *const c_char, severity: u32) -> c_int {
    // SAFETY: the header requires a string.
    let remark = unsafe { text(remark) };
    with(writer, |writer| match remark {
        Some(text) if severity <= 2 => {
            let note = Note { text: text.to_owned(), severity: Some(severity.into()) };
            said(writer.writer.define(note).map(drop))
        }
        _ => ERROR_ARGUMENT,
    })
}

/// Writes a snapshot: repeats all definitions.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quipu_snapshot(writer: *mut CWriter) -> c_int {
    with(writer, |writer| said(writer.writer.snapshot()))
}

/// Calls `body` with a writer; returns an error number if the pointer is null or `body` panics.
fn with(writer: *mut CWriter, body: impl FnOnce(&CWriter) -> c_int) -> c_int {
    // SAFETY: all callers pass a writer from C, as the header requires.
    guarded(crate::ERROR_WRITE, || unsafe { writer.as_ref() }.map_or(ERROR_ARGUMENT, body))
}
