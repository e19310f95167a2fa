//! The options of a writer from C: description of the program, compression and frames.

use crate::text;
use quipu_stream::codec::Codec;
use quipu_stream::write::Options;
use std::ffi::{c_char, c_int};

/// Options, with the layout of the C structure.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct COptions {
    size: u32,
    program: *const c_char,
    host: *const c_char,
    os: *const c_char,
    arch: *const c_char,
    zone: *const c_char,
    zone_seconds: i32,
    start_ns: i64,
    arguments: *const *const c_char,
    n_arguments: u32,
    codec: c_int,
    level: c_int,
    frame_bytes: u32,
    live: c_int,
}

/// Largest frame size in bytes: half the limit of a stored payload, so that one more row has room.
const MAX_FRAME_BYTES: u32 = 32 << 20;

/// Converts options; `None` if one is invalid.
///
/// # Safety
/// The pointer is null, or points at options whose strings are null or end with a zero byte.
pub(crate) unsafe fn read(options: *const COptions) -> Option<Options> {
    if options.is_null() {
        return None;
    }
    // SAFETY: as the caller promises; the size is the first field in all versions.
    let size = unsafe { options.cast::<u32>().read() } as usize;
    if size < size_of::<COptions>() {
        return None;
    }
    // SAFETY: the options have at least this many bytes.
    let given = unsafe { *options };
    // SAFETY: as the caller promises.
    let owned = |pointer| unsafe { text(pointer) }.map(str::to_owned);
    let program = owned(given.program)?;
    let mut options = if given.live != 0 { Options::live(&program) } else { Options::new(&program) };
    let producer = &mut options.producer;
    producer.host = owned(given.host);
    producer.os = owned(given.os).or(producer.os.take());
    producer.arch = owned(given.arch).or(producer.arch.take());
    producer.zone = owned(given.zone);
    producer.zone_s = producer.zone.is_some().then_some(given.zone_seconds.into());
    producer.start_ns = (given.start_ns != 0).then_some(given.start_ns);
    if given.n_arguments > 0 {
        if given.arguments.is_null() {
            return None;
        }
        // SAFETY: the header requires this number of strings.
        let arguments = unsafe { std::slice::from_raw_parts(given.arguments, given.n_arguments as usize) };
        producer.argv = Some(arguments.iter().map(|argument| owned(*argument)).collect::<Option<_>>()?);
    }
    options.codec = match (given.codec, given.level) {
        (0, 0) => Codec::Zstd(3),
        (0, level) if (-7..=22).contains(&level) => Codec::Zstd(level),
        (1, 0) => Codec::Lz4,
        (2, 0) => Codec::None,
        _ => return None,
    };
    match given.frame_bytes {
        0 => {}
        bytes if bytes <= MAX_FRAME_BYTES => options.frame_bytes = bytes as usize,
        _ => return None,
    }
    Some(options)
}
