//! The numbers of the format: events, details, value tags, flags, and the limits that this reader sets.
//!
//! This file knows nothing else. SPEC: apitrace.md.

/// The newest version of the stream.
pub const NEWEST_VERSION: u64 = 6;
/// From this version on, an enter event has a thread number.
pub const VERSION_THREADS: u64 = 4;
/// From this version on, the signature of an enumeration lists all its names.
pub const VERSION_WHOLE_ENUMS: u64 = 3;
/// From this version on, the header has a semantic version and properties.
pub const VERSION_PROPERTIES: u64 = 6;

/// A call is entered.
pub const EVENT_ENTER: u8 = 0;
/// A call is left.
pub const EVENT_LEAVE: u8 = 1;

/// The end of the details of an event.
pub const DETAIL_END: u8 = 0;
/// An argument: its index and value.
pub const DETAIL_ARG: u8 = 1;
/// The value returned.
pub const DETAIL_RESULT: u8 = 2;
/// A thread number, documented for old versions.
pub const DETAIL_THREAD: u8 = 3;
/// The stack, innermost frame first.
pub const DETAIL_STACK: u8 = 4;
/// Flags of the call.
pub const DETAIL_FLAGS: u8 = 5;

/// Members of a stack frame.
pub const FRAME_END: u8 = 0;
/// The file of the program or library.
pub const FRAME_MODULE: u8 = 1;
/// The function.
pub const FRAME_FUNCTION: u8 = 2;
/// The source file.
pub const FRAME_FILE: u8 = 3;
/// The line of the source file.
pub const FRAME_LINE: u8 = 4;
/// Bytes from the start of function or module.
pub const FRAME_OFFSET: u8 = 5;

/// A null pointer.
pub const TAG_NULL: u8 = 0;
/// False.
pub const TAG_FALSE: u8 = 1;
/// True.
pub const TAG_TRUE: u8 = 2;
/// A number below zero, by its magnitude.
pub const TAG_NEGATIVE: u8 = 3;
/// Any other number.
pub const TAG_UNSIGNED: u8 = 4;
/// 32 bits of floating point.
pub const TAG_FLOAT: u8 = 5;
/// 64 bits of floating point.
pub const TAG_DOUBLE: u8 = 6;
/// A string.
pub const TAG_STRING: u8 = 7;
/// Raw memory.
pub const TAG_BLOB: u8 = 8;
/// A value of an enumeration.
pub const TAG_ENUM: u8 = 9;
/// A set of flags.
pub const TAG_BITMASK: u8 = 10;
/// A list, or a pointer to one thing.
pub const TAG_ARRAY: u8 = 11;
/// A structure.
pub const TAG_STRUCT: u8 = 12;
/// An address or handle.
pub const TAG_POINTER: u8 = 13;
/// One thing for people and for machines.
pub const TAG_REPR: u8 = 14;
/// A string of wide characters.
pub const TAG_WIDE: u8 = 15;

/// The tracer made the call up.
pub const FAKE: u32 = 1;
/// The call changes nothing.
pub const NO_SIDE_EFFECTS: u32 = 4;
/// The call draws.
pub const RENDER: u32 = 8;
/// The call changes what is drawn to.
pub const SWAP_RENDERTARGET: u32 = 16;
/// The call ends a frame.
pub const END_FRAME: u32 = 32;
/// The call never returned.
pub const INCOMPLETE: u32 = 64;
/// The call is of little interest.
pub const VERBOSE: u32 = 128;
/// The call marks a place for people.
pub const MARKER: u32 = 256;
/// The call opens a group.
pub const MARKER_PUSH: u32 = 512;
/// The call closes a group.
pub const MARKER_POP: u32 = 1024;

/// Values may be nested so deep.
pub const MAX_DEPTH: u32 = 256;
/// How many bytes a name of a function, argument, member or number may have.
pub const MAX_NAME_BYTES: u64 = 4096;
/// How far the index of an argument may lie past those that the function names.
pub const MAX_EXTRA_ARGS: u64 = 1024;
/// How many frames of one stack may be such that their signatures are lost: bytes that are no stack read as any number.
pub const MAX_LOST_FRAMES: u64 = 256;
/// How many bytes one event may take.
pub const MAX_EVENT_BYTES: usize = 1 << 30;
/// How many bytes the values of calls may take that were entered and not left.
pub const MAX_PENDING_BYTES: usize = 256 << 20;
/// How many types a trace may have.
pub const MAX_TYPES: usize = 1 << 24;
