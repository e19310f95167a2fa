//! The table of functions for a tool written in Rust.
//!
//! No panic of the tool unwinds into the program: it ends the run with the panic's message.

use crate::abi::{MANY, Message, ONE, PER_THREAD, RawBatch, RawDetail, RawHost, Table, VERSION};
use crate::batch::Batch;
use crate::error::Result;
use crate::hooks::Sink;
use crate::tool::{Host, Instances, Tool};
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

/// Makes a library of a tool: write `quipu_hooks::export!(Mine);` once in a crate of type `cdylib`.
#[macro_export]
macro_rules! export {
    ($tool:ty) => {
        /// The tool's functions, for the program that loads it.
        #[unsafe(no_mangle)]
        pub extern "C" fn quipu_tool_table() -> &'static $crate::abi::Table {
            static TABLE: $crate::abi::Table = $crate::export::table::<$tool>();
            &TABLE
        }
    };
}

/// The table of a tool.
#[must_use]
pub const fn table<T: Tool>() -> Table {
    Table {
        size: size_of::<Table>() as u32, // It is small.
        version: VERSION,
        name: T::NAME.as_ptr(),
        instances: match T::INSTANCES {
            Instances::One => ONE,
            Instances::Many => MANY,
            Instances::PerThread => PER_THREAD,
        },
        unused: 0,
        create: Some(create::<T>),
        take: Some(take::<T>),
        destroy: Some(destroy::<T>),
        needs: Some(needs::<T>),
        start: Some(start::<T>),
        finish: Some(finish::<T>),
        finish_all: Some(finish_all::<T>),
    }
}

/// An instance, with a batch that its calls reuse.
struct Instance<T> {
    tool: T,
    batch: Batch,
}

thread_local! {
    /// The last message of this thread, which lives until the next one.
    static MESSAGE: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Runs a function for the program; returns its message if it fails or panics.
fn answer(done: impl FnOnce() -> Result<()>) -> Message {
    let text = match catch_unwind(AssertUnwindSafe(done)) {
        Ok(Ok(())) => return std::ptr::null(),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            format!("it panicked: {}", text.unwrap_or("without a message"))
        }
    };
    // A C string ends at its first zero byte.
    let bytes: Vec<u8> = text.into_bytes().into_iter().filter(|byte| *byte != 0).collect();
    MESSAGE.with_borrow_mut(|message| message.insert(CString::new(bytes).unwrap_or_default()).as_ptr())
}

/// The host that the program passes to a tool.
///
/// # Safety
/// The pointer was passed by the program, as the header requires.
unsafe fn host_of(raw: *const RawHost) -> Host {
    // SAFETY: by this function's contract; version 1 has all fields that are read here.
    let RawHost { context, print, folder, .. } = unsafe { *raw };
    let folder = (!folder.is_null()).then(|| {
        // SAFETY: the header says that it is a C string.
        let path = unsafe { CStr::from_ptr(folder) };
        OsStr::from_bytes(path.to_bytes()).into()
    });
    // Pointers cannot be sent to other threads, numbers can: the header permits any thread to print.
    let context = context as usize;
    let print = move |text: &str| {
        if let Some(print) = print {
            // SAFETY: the header permits this call until the process ends.
            unsafe { print(context as *mut c_void, text.as_ptr().cast(), text.len()) };
        }
    };
    Host::new(print, folder)
}

unsafe extern "C" fn create<T: Tool>(
    host: *const RawHost,
    options: *const c_char,
    made: *mut *mut c_void,
) -> Message {
    // SAFETY: the program passes its host and a C string.
    let (host, options) = unsafe { (host_of(host), CStr::from_ptr(options).to_string_lossy()) };
    answer(|| {
        let tool = T::create(host, &options)?;
        let instance = Box::new(Instance { tool, batch: Batch::default() });
        // SAFETY: the program passes a place for the pointer.
        unsafe { *made = Box::into_raw(instance).cast() };
        Ok(())
    })
}

/// The instance that a pointer from the program refers to.
///
/// # Safety
/// The pointer came from [`create`] of the same tool, and nothing else uses the instance.
unsafe fn instance<'a, T: Tool>(pointer: *mut c_void) -> &'a mut Instance<T> {
    // SAFETY: by this function's contract.
    unsafe { &mut *pointer.cast() }
}

/// A slice of the elements at a pointer; empty for null.
///
/// # Safety
/// The pointer is null, or points at this many elements.
unsafe fn elements<'a, T>(pointer: *const T, len: u64) -> &'a [T] {
    if pointer.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: by this function's contract; elements in memory can be counted with `usize`.
    unsafe { slice::from_raw_parts(pointer, len as usize) }
}

unsafe extern "C" fn take<T: Tool>(pointer: *mut c_void, raw: *const RawBatch) -> Message {
    // SAFETY: the program passes an instance that nothing else uses, and a batch.
    let (Instance { tool, batch }, raw) = unsafe { (instance::<T>(pointer), &*raw) };
    // SAFETY: the batch has these counts. In all versions that this tool supports, events have this size.
    let (events, clocks, names) = unsafe {
        let events = elements(raw.events, raw.n_events);
        (events, elements(raw.clocks, raw.n_events), elements(raw.names.cast(), raw.n_name_bytes))
    };
    answer(|| {
        batch.clear();
        batch.thread = (raw.has_thread != 0).then_some(raw.thread);
        batch.first = raw.first;
        batch.events.extend(events.iter().map(crate::abi::RawEvent::event));
        batch.clocks.extend_from_slice(clocks);
        batch.names.extend_from_slice(names);
        Sink::take(tool, batch)
    })
}

unsafe extern "C" fn destroy<T: Tool>(pointer: *mut c_void) {
    // SAFETY: it came from `create`, and the program does not use it again.
    let instance: Box<Instance<T>> = unsafe { Box::from_raw(pointer.cast()) };
    answer(|| {
        drop(instance);
        Ok(())
    });
}

unsafe extern "C" fn needs<T: Tool>(pointer: *const c_void, detail: *mut RawDetail) {
    // SAFETY: the program passes an instance that nothing else uses, and a place for the result.
    let (instance, detail) = unsafe { (instance::<T>(pointer.cast_mut()), &mut *detail) };
    answer(|| {
        *detail = instance.tool.needs().into();
        Ok(())
    });
}

unsafe extern "C" fn start<T: Tool>(pointer: *mut c_void) -> Message {
    // SAFETY: the program passes an instance that nothing else uses.
    let instance = unsafe { instance::<T>(pointer) };
    answer(|| instance.tool.on_start())
}

unsafe extern "C" fn finish<T: Tool>(pointer: *mut c_void) -> Message {
    // SAFETY: the program passes an instance that nothing else uses.
    let instance = unsafe { instance::<T>(pointer) };
    answer(|| instance.tool.on_finish())
}

unsafe extern "C" fn finish_all<T: Tool>(pointers: *const *mut c_void, n: usize) -> Message {
    // SAFETY: the program passes different instances that nothing else uses.
    let mut tools: Vec<&mut T> = unsafe {
        let pointers = elements(pointers, n as u64);
        pointers.iter().map(|pointer| &mut instance::<T>(*pointer).tool).collect()
    };
    answer(|| T::finish_all(&mut tools))
}
