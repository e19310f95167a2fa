//! Constants of the format: events, details, value tags, flags, and the limits that this reader sets.
//!
//! This file depends on nothing else. SPEC: apitrace.md.

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
/// The path of the executable or library.
pub const FRAME_MODULE: u8 = 1;
/// The function.
pub const FRAME_FUNCTION: u8 = 2;
/// The source file.
pub const FRAME_FILE: u8 = 3;
/// The line of the source file.
pub const FRAME_LINE: u8 = 4;
/// Offset in bytes from the start of the function or module.
pub const FRAME_OFFSET: u8 = 5;

/// A null pointer.
pub const TAG_NULL: u8 = 0;
/// False.
pub const TAG_FALSE: u8 = 1;
/// True.
pub const TAG_TRUE: u8 = 2;
/// A number below zero, by its magnitude.
pub const TAG_NEGATIVE: u8 = 3;
/// Any other integer.
pub const TAG_UNSIGNED: u8 = 4;
/// A 32-bit float.
pub const TAG_FLOAT: u8 = 5;
/// A 64-bit float.
pub const TAG_DOUBLE: u8 = 6;
/// A string.
pub const TAG_STRING: u8 = 7;
/// Raw memory.
pub const TAG_BLOB: u8 = 8;
/// A value of an enumeration.
pub const TAG_ENUM: u8 = 9;
/// A set of flags.
pub const TAG_BITMASK: u8 = 10;
/// A list, or a pointer to one element.
pub const TAG_ARRAY: u8 = 11;
/// A structure.
pub const TAG_STRUCT: u8 = 12;
/// An address or handle.
pub const TAG_POINTER: u8 = 13;
/// One value in two forms, for people and for machines.
pub const TAG_REPR: u8 = 14;
/// A string of wide characters.
pub const TAG_WIDE: u8 = 15;

/// The tracer made the call up.
pub const FAKE: u32 = 1;
/// The call changes nothing.
pub const NO_SIDE_EFFECTS: u32 = 4;
/// The call draws.
pub const RENDER: u32 = 8;
/// The call changes the render target.
pub const SWAP_RENDERTARGET: u32 = 16;
/// The call ends a frame.
pub const END_FRAME: u32 = 32;
/// The call never returned.
pub const INCOMPLETE: u32 = 64;
/// The call is of little interest.
pub const VERBOSE: u32 = 128;
/// The call sets a debug marker for people.
pub const MARKER: u32 = 256;
/// The call opens a group of calls.
pub const MARKER_PUSH: u32 = 512;
/// The call closes a group of calls.
pub const MARKER_POP: u32 = 1024;

/// Maximum nesting depth of values.
pub const MAX_DEPTH: u32 = 256;
/// Maximum number of bytes in the name of a function, argument, member or number.
pub const MAX_NAME_BYTES: u64 = 4096;
/// Maximum distance of an argument's index beyond the arguments that the function names.
pub const MAX_EXTRA_ARGS: u64 = 1024;
/// Maximum number of frames in one stack whose signatures are lost: bytes that are not a stack may read as any number of
/// them.
pub const MAX_LOST_FRAMES: u64 = 256;
/// Maximum number of bytes in one event.
pub const MAX_EVENT_BYTES: usize = 1 << 30;
/// Maximum number of bytes for the values of open calls.
pub const MAX_PENDING_BYTES: usize = 256 << 20;
/// Maximum number of types in a trace.
pub const MAX_TYPES: usize = 1 << 24;
