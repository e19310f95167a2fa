//! The program's side of the table: loads a library, whose tools are hooks.
//!
//! Only its code defines what a library does. A tool is trusted like the program itself, because it runs in its process. Only
//! honest mismatches are checked: the versions of both sides.

use crate::abi::{
    MANY, Message, ONE, PER_THREAD, RawBatch, RawDetail, RawEvent, RawHost, SYMBOL, Table, VERSION,
};
use crate::batch::Batch;
use crate::detail::Detail;
use crate::error::{Error, Result};
use crate::hooks::Sink;
use crate::tool::Instances;
use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::io::Write;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Size of the first tables in bytes: functions from this offset on may be missing.
const LEAST_BYTES: usize = offset_of!(Table, needs);
/// Tables are smaller than this; a larger size is invalid.
const MOST_BYTES: usize = 1 << 16;

/// A loaded library. It stays loaded until the process ends, so that no pointer into it dangles.
#[derive(Clone, Debug)]
pub struct Library {
    path: PathBuf,
    name: String,
    table: Table,
    instances: Instances,
}

/// The reason why a library is not a tool for this program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The system cannot load it.
    NotLoaded(String),
    /// It does not export a table.
    NoTable,
    /// Its table is newer than this program.
    TooNew(u32),
    /// Its table is invalid.
    Wrong(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NotLoaded(why) => write!(f, "the system does not load it: {why}"),
            Refused::NoTable => {
                write!(f, "it is no tool: it has no function `{}`", SYMBOL.to_string_lossy())
            }
            Refused::TooNew(version) => write!(
                f,
                "it was made for version {version} of the interface, and this program knows versions up to \
                 {VERSION}: use a newer program, or build the tool with this program's headers"
            ),
            Refused::Wrong(what) => write!(f, "its table of functions is wrong: {what}"),
        }
    }
}

impl std::error::Error for Refused {}

/// The address of the function that returns the table.
fn symbol(path: &Path) -> std::result::Result<*mut c_void, Refused> {
    let name = CString::new(path.as_os_str().as_bytes());
    let name = name.map_err(|_| Refused::NotLoaded("its path has a zero byte".to_owned()))?;
    // SAFETY: both are C strings. Code of the library runs here: the user named it as a tool.
    let found = unsafe {
        let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if handle.is_null() {
            let why = libc::dlerror();
            let why = if why.is_null() { c"no reason is given" } else { CStr::from_ptr(why) };
            return Err(Refused::NotLoaded(why.to_string_lossy().into_owned()));
        }
        libc::dlsym(handle, SYMBOL.as_ptr())
    };
    if found.is_null() { Err(Refused::NoTable) } else { Ok(found) }
}

/// Converts a table of any size to the one that this program knows; missing functions are `None`.
///
/// # Safety
/// The pointer is null, or points at as many bytes as its first word says.
unsafe fn table_at(pointer: *const Table) -> std::result::Result<Table, Refused> {
    if pointer.is_null() {
        return Err(Refused::Wrong("there is none"));
    }
    // SAFETY: all tables begin with their sizes, followed by their versions.
    let (size, version) = unsafe { (pointer.cast::<u32>().read(), pointer.cast::<u32>().add(1).read()) };
    let size = size as usize;
    if version > VERSION {
        return Err(Refused::TooNew(version));
    }
    if version == 0 || !(LEAST_BYTES..MOST_BYTES).contains(&size) {
        return Err(Refused::Wrong("its size or version cannot be"));
    }
    let mut table = Table {
        size: 0,
        version,
        name: std::ptr::null(),
        instances: ONE,
        unused: 0,
        create: None,
        take: None,
        destroy: None,
        needs: None,
        start: None,
        finish: None,
        finish_all: None,
    };
    let known = size.min(size_of::<Table>());
    // A function that lies only partly in the table is missing.
    let known = known / size_of::<usize>() * size_of::<usize>();
    // SAFETY: both have this many bytes, and the tool's bytes there are its own functions, or null.
    unsafe { std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut table).cast::<u8>(), known) };
    if table.name.is_null() {
        return Err(Refused::Wrong("it has no name"));
    }
    if table.create.is_none() || table.take.is_none() || table.destroy.is_none() {
        return Err(Refused::Wrong("`create`, `take` or `destroy` is missing"));
    }
    Ok(table)
}

// SAFETY: the table has only addresses of functions and of a name, all of which stay where they are until the process ends,
// and the header says that any thread may call the functions.
unsafe impl Send for Library {}

impl Library {
    /// Loads a library.
    ///
    /// # Errors
    /// The reason why it is not a tool for this program.
    pub fn open(path: &Path) -> std::result::Result<Library, Refused> {
        // The system searches its own folders for a name without a folder.
        let whole = path.canonicalize().map_err(|error| Refused::NotLoaded(error.to_string()))?;
        let found = symbol(&whole)?;
        // SAFETY: a library that exports this function promises to be as the header describes.
        let table = unsafe {
            let table: unsafe extern "C" fn() -> *const Table = std::mem::transmute(found);
            table_at(table())
        }?;
        // SAFETY: the header says that it is a C string that stays valid.
        let name = unsafe { CStr::from_ptr(table.name) }.to_string_lossy().into_owned();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(Refused::Wrong("its name has other signs than letters, digits, `-` and `_`"));
        }
        let instances = match table.instances {
            ONE => Instances::One,
            MANY => Instances::Many,
            PER_THREAD => Instances::PerThread,
            _ => return Err(Refused::Wrong("how many instances there may be is unknown")),
        };
        Ok(Library { path: whole, name, table, instances })
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of instances that a run may have.
    #[must_use]
    pub fn instances(&self) -> Instances {
        self.instances
    }

    /// Creates an instance that writes its files into `folder`, if there is one.
    ///
    /// # Errors
    /// The tool's message.
    pub fn create(&self, options: &str, folder: Option<&Path>) -> Result<Instance> {
        let text = |bytes: &[u8]| {
            CString::new(bytes).map_err(|_| Error::stop(format!("{}: a zero byte in its options", self.name)))
        };
        let folder = folder.map(|folder| text(folder.as_os_str().as_bytes())).transpose()?;
        let options = text(options.as_bytes())?;
        let host = Box::new(RawHost {
            size: size_of::<RawHost>() as u32, // It is small.
            version: VERSION,
            context: std::ptr::null_mut(),
            print: Some(print),
            folder: folder.as_ref().map_or(std::ptr::null(), |folder| folder.as_ptr()),
        });
        let mut instance = Instance {
            name: self.name.clone(),
            table: self.table,
            pointer: std::ptr::null_mut(),
            host,
            _folder: folder,
            asked: Detail::ALL,
            events: Vec::new(),
        };
        if let Some(create) = self.table.create {
            // SAFETY: host and options are as the header requires; the host lives as long as the instance.
            let message =
                unsafe { create(&raw const *instance.host, options.as_ptr(), &raw mut instance.pointer) };
            instance.judge(message)?;
        }
        if let Some(needs) = self.table.needs {
            let mut asked = RawDetail::default();
            // SAFETY: the pointer came from `create`.
            unsafe { needs(instance.pointer, &raw mut asked) };
            instance.asked = asked.into();
        }
        Ok(instance)
    }

    /// Calls the library's function for all instances, if it has one.
    ///
    /// # Errors
    /// The tool's message.
    pub fn finish_all<'i>(&self, instances: impl Iterator<Item = &'i mut Instance>) -> Result<()> {
        let pointers: Vec<*mut c_void> = instances.map(|instance| instance.pointer).collect();
        let Some(finish_all) = self.table.finish_all else { return Ok(()) };
        // SAFETY: they came from `create` of this library, all are different, and nothing else uses them.
        judge(&self.name, unsafe { finish_all(pointers.as_ptr(), pointers.len()) })
    }
}

/// Whether the output of tools goes to standard error.
static IS_OUT_TAKEN: AtomicBool = AtomicBool::new(false);

/// Sends the output of tools to standard error from now on if `is_taken`, because standard output is reserved for an answer
/// that a program reads.
pub fn leave_standard_output(is_taken: bool) {
    IS_OUT_TAKEN.store(is_taken, Relaxed);
}

/// Prints the output of tools, on standard output unless that is reserved. Output that no one reads any more is dropped.
unsafe extern "C" fn print(_: *mut c_void, text: *const c_char, length: usize) {
    if text.is_null() || length == 0 {
        return;
    }
    // SAFETY: the header requires a text of this length.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    if IS_OUT_TAKEN.load(Relaxed) {
        let _ = std::io::stderr().lock().write_all(text);
        return;
    }
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text).and_then(|()| out.flush());
}

/// The error for a message; `Ok` if it is null.
fn judge(name: &str, message: Message) -> Result<()> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: the header says that it is a C string that lives until the next call.
    let text = unsafe { CStr::from_ptr(message) };
    Err(Error::Stop(format!("{name}: {}", text.to_string_lossy())))
}

/// An instance of a loaded tool.
#[derive(Debug)]
pub struct Instance {
    name: String,
    table: Table,
    /// Null for a tool without state.
    pointer: *mut c_void,
    host: Box<RawHost>,
    /// Kept alive because the host points into it.
    _folder: Option<CString>,
    asked: Detail,
    events: Vec<RawEvent>,
}

// SAFETY: the header says that an instance is called by one thread at a time, which may be any thread.
unsafe impl Send for Instance {}

impl Instance {
    fn judge(&self, message: Message) -> Result<()> {
        judge(&self.name, message)
    }
}

impl Sink for Instance {
    fn detail(&self) -> Detail {
        self.asked
    }

    fn start(&mut self) -> Result<()> {
        // SAFETY: the pointer came from `create`.
        self.table.start.map_or(Ok(()), |start| self.judge(unsafe { start(self.pointer) }))
    }

    fn take(&mut self, batch: &Batch) -> Result<()> {
        let Some(take) = self.table.take else { return Ok(()) };
        self.events.clear();
        let asked = self.asked;
        let n_name_bytes = batch.names.len() as u64;
        self.events.extend(batch.events.iter().map(|event| RawEvent::of(event, &asked, n_name_bytes)));
        let raw = RawBatch {
            size: size_of::<RawBatch>() as u32,       // It is small.
            event_size: size_of::<RawEvent>() as u32, // It is smaller.
            first: batch.first,
            thread: batch.thread.unwrap_or(0),
            has_thread: batch.thread.is_some().into(),
            unused: 0,
            n_events: self.events.len() as u64,
            events: self.events.as_ptr(),
            // Either each event has a reading, or none has.
            clocks: if batch.clocks.len() == batch.events.len() {
                batch.clocks.as_ptr()
            } else {
                std::ptr::null()
            },
            names: batch.names.as_ptr().cast(),
            n_name_bytes,
        };
        // SAFETY: the pointer came from `create`, and the batch's pointers are valid during the call.
        self.judge(unsafe { take(self.pointer, &raw const raw) })
    }

    fn finish(&mut self) -> Result<()> {
        // SAFETY: the pointer came from `create`.
        self.table.finish.map_or(Ok(()), |finish| self.judge(unsafe { finish(self.pointer) }))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.table.destroy.filter(|_| !self.pointer.is_null()) {
            // SAFETY: the pointer came from `create`, and is not used again.
            unsafe { destroy(self.pointer) };
        }
    }
}
