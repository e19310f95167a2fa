//! The table of functions for a tool in Rust.
//!
//! Nothing of the tool unwinds into the program: a panic ends the run with its message.

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

/// Makes a library of a tool: `quipu_hooks::export!(Mine);`, once in a crate of type `cdylib`.
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

/// The functions of a tool.
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

/// An instance, and what its calls use again and again.
struct Instance<T> {
    tool: T,
    batch: Batch,
}

thread_local! {
    /// The last message of this thread, which lives until the next one.
    static MESSAGE: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Does something for the program, which gets its message if it fails or panics.
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
    // A text of C ends at its first zero.
    let bytes: Vec<u8> = text.into_bytes().into_iter().filter(|byte| *byte != 0).collect();
    MESSAGE.with_borrow_mut(|message| message.insert(CString::new(bytes).unwrap_or_default()).as_ptr())
}

/// What the program does for a tool.
///
/// # Safety
/// The pointer is one of the program's, as the header says.
unsafe fn host_of(raw: *const RawHost) -> Host {
    // SAFETY: as the caller promises; version 1 has all that is read here.
    let RawHost { context, print, folder, .. } = unsafe { *raw };
    let folder = (!folder.is_null()).then(|| {
        // SAFETY: the header says that it is a text.
        let path = unsafe { CStr::from_ptr(folder) };
        OsStr::from_bytes(path.to_bytes()).into()
    });
    // A pointer is not sent to threads, a number is: the header says that any thread may print.
    let context = context as usize;
    let print = move |text: &str| {
        if let Some(print) = print {
            // SAFETY: the header says that it may be called with this until the process ends.
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
    // SAFETY: the program gives its host and a text.
    let (host, options) = unsafe { (host_of(host), CStr::from_ptr(options).to_string_lossy()) };
    answer(|| {
        let tool = T::create(host, &options)?;
        let instance = Box::new(Instance { tool, batch: Batch::default() });
        // SAFETY: the program gives a place for the pointer.
        unsafe { *made = Box::into_raw(instance).cast() };
        Ok(())
    })
}

/// The instance that a pointer points at.
///
/// # Safety
/// The pointer came from [`create`] of the same tool, and nothing else uses the instance.
unsafe fn instance<'a, T: Tool>(pointer: *mut c_void) -> &'a mut Instance<T> {
    // SAFETY: as the caller promises.
    unsafe { &mut *pointer.cast() }
}

/// The elements that a pointer points at.
///
/// # Safety
/// The pointer points at this many, or is null.
unsafe fn elements<'a, T>(pointer: *const T, len: u64) -> &'a [T] {
    if pointer.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: as the caller promises; what is in memory can be counted.
    unsafe { slice::from_raw_parts(pointer, len as usize) }
}

unsafe extern "C" fn take<T: Tool>(pointer: *mut c_void, raw: *const RawBatch) -> Message {
    // SAFETY: the program gives an instance that nothing else uses, and a batch.
    let (Instance { tool, batch }, raw) = unsafe { (instance::<T>(pointer), &*raw) };
    // SAFETY: the batch says how many there are. Versions that this tool speaks have events of this size.
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
    // SAFETY: the program gives an instance that nothing else uses, and a place.
    let (instance, detail) = unsafe { (instance::<T>(pointer.cast_mut()), &mut *detail) };
    answer(|| {
        *detail = instance.tool.needs().into();
        Ok(())
    });
}

unsafe extern "C" fn start<T: Tool>(pointer: *mut c_void) -> Message {
    // SAFETY: the program gives an instance that nothing else uses.
    let instance = unsafe { instance::<T>(pointer) };
    answer(|| instance.tool.on_start())
}

unsafe extern "C" fn finish<T: Tool>(pointer: *mut c_void) -> Message {
    // SAFETY: the program gives an instance that nothing else uses.
    let instance = unsafe { instance::<T>(pointer) };
    answer(|| instance.tool.on_finish())
}

unsafe extern "C" fn finish_all<T: Tool>(pointers: *const *mut c_void, n: usize) -> Message {
    // SAFETY: the program gives different instances that nothing else uses.
    let mut tools: Vec<&mut T> = unsafe {
        let pointers = elements(pointers, n as u64);
        pointers.iter().map(|pointer| &mut instance::<T>(*pointer).tool).collect()
    };
    answer(|| T::finish_all(&mut tools))
}
