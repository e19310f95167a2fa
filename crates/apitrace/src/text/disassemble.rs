//! `disassemble`: turns a trace into text, with a folder for raw memory.
//!
//! The stream is read once, in blocks; memory holds one event, the types, and the open calls.

use super::put::{put_hex, put_string, put_type};
use super::walk::{Walked, Walker};
use super::{MAGIC, MAX_INLINE_BYTES};
use crate::check::rules;
use crate::cursor::{Fault, Stop};
use crate::decode;
use crate::encode;
use crate::record::{MAX_EVENT_BYTES, VERSION_PROPERTIES};
use crate::trace::{self, ApiTrace};
use crate::write::{EventCopy, n_good, so_far};
use quipu_model::damaged::{Intake, Reading};
use quipu_model::fresh::{Folder, Fresh, Replace, cannot};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, ErrorKind, Finding, Place, Result};
use quipu_source::OutputFile;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The edit.
#[derive(Debug)]
pub struct Disassemble;

static INFO: TransformInfo = TransformInfo {
    name: "disassemble",
    title: "the stream as text that can be edited, with a folder for raw memory",
    options: &[],
};

impl Transform for Disassemble {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn reads_again(&self, _: &quipu_model::Options) -> bool {
        true
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        if !job.opening.threads.is_empty() || job.container.is_some() || job.level.is_some() {
            return Err(Error::usage("a text holds the whole stream, and is not packed"));
        }
        let trace = trace::open(job.source, job.opening)?;
        let intake = Intake::new(job.damaged).strict(job.strict);
        let done = disassemble(&trace, job.output, job.replace, intake, progress)?;
        let facts = vec![
            Fact::new("calls", "calls", done.calls),
            Fact::new("stream_bytes", "bytes of the stream", done.stream_bytes),
            Fact::new("raw_events", "events kept as raw bytes", done.raw_events),
            Fact::new("files", "files of raw memory", done.files),
        ];
        Ok(Transformed { facts, reading: done.reading, ..Transformed::default() })
    }
}

/// Summary of the written text.
#[derive(Clone, Debug, Default)]
pub struct Disassembled {
    /// Number of calls.
    pub calls: u64,
    /// Bytes of the stream.
    pub stream_bytes: u64,
    /// Number of events that text cannot express, including the header; they are written as raw bytes.
    pub raw_events: u64,
    /// Number of files of raw memory.
    pub files: u64,
    /// Outcome of the reading.
    pub reading: Reading,
}

/// The folder for raw memory that belongs to a text.
pub fn blob_folder(text: &Path) -> PathBuf {
    let mut name = text.file_name().unwrap_or_default().to_os_string();
    name.push(".blobs");
    text.with_file_name(name)
}

/// Writes the text of a trace to a file at `path`, and raw memory to files in the folder [`blob_folder`], which is created
/// only if there are any. Both appear when they are complete.
///
/// # Errors
/// `Usage` if the file or folder exists and may not be replaced, or the folder contains other files than raw memory; errors
/// of reading and writing.
pub fn disassemble(
    trace: &ApiTrace,
    path: &Path,
    replace: bool,
    mut intake: Intake,
    progress: &dyn Progress,
) -> Result<Disassembled> {
    let replace = Replace::from(replace);
    let (fresh, file) = Fresh::file(path, replace)?;
    let mut writer = Disassembler {
        path,
        name: trace.container().name().to_owned(),
        out: BufWriter::with_capacity(256 << 10, file),
        walker: None,
        held: None,
        blobs: Blobs::new(path, replace)?,
        buffer: Vec::new(),
        at: 0,
        tail: None,
        done: Disassembled::default(),
        findings: Vec::new(),
        text: Vec::new(),
    };
    let mut findings = trace.met_at_opening();
    writer.put(format!("{MAGIC}\n").as_bytes())?;
    let mut copy = EventCopy::new(trace)?;
    let mut read = trace.check_version().and_then(|()| {
        copy.events(&mut |bytes| {
            progress.go_on()?;
            writer.block(bytes)
        })
    });
    let is_of_events = |error: &Error| matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Limit);
    let n_left = copy.n_left();
    if read.is_ok() || read.as_ref().is_err_and(is_of_events) && writer.walker.is_some() {
        findings.extend(copy.take_findings());
        // Bytes that are not an event are kept unchanged, if they can be read at all.
        copy.rest(&mut |bytes| {
            progress.go_on()?;
            writer.rest(bytes)
        })?;
        if let Err(error) = &read
            && !copy.is_failed()
        {
            let what = format!("{}; what follows is kept as raw bytes", error.message());
            findings.push(rules::DAMAGED.broken(error.place().clone(), what));
            read = Ok(());
        }
    }
    let good = n_good(&findings, n_left);
    intake.take_all(&mut findings, so_far(trace, good), read, so_far(trace, n_left))?;
    if writer.walker.is_none() && intake.is_damaged() {
        // Not even the header could be read, and a text needs one.
        return Err(intake.finish().nothing_left().unwrap_or_else(without_header));
    }
    let (done, mut findings, blobs) = writer.end()?;
    let good = n_good(&findings, n_left);
    intake.take(&mut findings, so_far(trace, good))?;
    let reading = intake.finish();
    if done.stream_bytes == 0
        && let Some(error) = reading.nothing_left()
    {
        return Err(error);
    }
    blobs.commit(done.files, fresh)?;
    Ok(Disassembled { reading, ..done })
}

fn without_header() -> Error {
    Error::truncated("the trace ends within its header")
}

fn failed(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Error {
    let name = path.display().to_string();
    move |cause| Error::new(ErrorKind::Io, what).in_file(name).because(cause)
}

/// A call not written yet, because the event that leaves it may be written on the same line.
struct Held {
    number: u64,
    label: Vec<u8>,
    body: Vec<u8>,
}

struct Disassembler<'p> {
    path: &'p Path,
    /// Name of the trace.
    name: String,
    out: BufWriter<OutputFile>,
    /// `None` until the header was read.
    walker: Option<Walker>,
    held: Option<Held>,
    blobs: Blobs,
    /// Buffered bytes of the stream; those before `at` are done.
    buffer: Vec<u8>,
    at: usize,
    /// The file for bytes after a fault, which are not interpreted.
    tail: Option<BufWriter<OutputFile>>,
    done: Disassembled,
    findings: Vec<Finding>,
    /// The text of the current event.
    text: Vec<u8>,
}

impl Disassembler<'_> {
    fn put(&mut self, text: &[u8]) -> Result<()> {
        self.out.write_all(text).map_err(failed(self.path, "cannot write"))
    }

    /// Handles a block of the stream.
    fn block(&mut self, block: &[u8]) -> Result<()> {
        self.done.stream_bytes += block.len() as u64;
        if self.tail.is_some() {
            return self.tail_bytes(block);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.extend_from_slice(block);
        if self.buffer.len() > MAX_EVENT_BYTES {
            return Err(Error::limit("bytes in one event", self.buffer.len() as u64, MAX_EVENT_BYTES as u64));
        }
        match self.events() {
            Ok(()) => Ok(()),
            Err(Trouble::Error(error)) => Err(error),
            Err(Trouble::Bad(fault)) => {
                let offset = self.done.stream_bytes - self.buffer.len() as u64 + fault.at as u64;
                let place = Place { file: Some(self.name.clone()), offset: Some(offset), ..Place::default() };
                let what = format!("{}; what follows is kept as raw bytes", fault.message);
                self.findings.push(rules::DAMAGED.broken(place, what));
                self.begin_tail()
            }
        }
    }

    /// Handles bytes that do not form a complete event.
    fn rest(&mut self, bytes: &[u8]) -> Result<()> {
        self.done.stream_bytes += bytes.len() as u64;
        if self.tail.is_none() {
            self.buffer.extend_from_slice(bytes);
            return if self.buffer.len() - self.at > MAX_INLINE_BYTES { self.begin_tail() } else { Ok(()) };
        }
        self.tail_bytes(bytes)
    }

    fn tail_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(tail) = &mut self.tail else { return Ok(()) };
        tail.write_all(bytes).map_err(failed(self.path, "cannot write"))
    }

    /// Writes all complete events in the buffer.
    fn events(&mut self) -> Result<(), Trouble> {
        if self.walker.is_none() {
            match decode::header(&self.buffer) {
                Ok((header, end)) => {
                    self.header(&header, end)?;
                    self.walker = Some(Walker::new(header.version));
                    self.at = end;
                }
                Err(Stop::More(_)) => return Ok(()),
                Err(Stop::Bad(fault)) => return Err(Trouble::Error(Error::new(fault.kind, fault.message))),
            }
        }
        while self.at < self.buffer.len() {
            let Some(mut walker) = self.walker.take() else { break };
            let n_types = walker.table.len();
            let read = walker.event(&self.buffer, self.at);
            let done = match read {
                Ok((walked, end)) => self.event(&walker, walked, n_types, end).map(|()| {
                    self.at = end;
                    true
                }),
                Err(Stop::More(_)) => Ok(false),
                Err(Stop::Bad(fault)) => Err(Trouble::Bad(fault)),
            };
            self.walker = Some(walker);
            if !done? {
                break;
            }
        }
        Ok(())
    }

    /// Writes the header, which ends at `end` in the buffer.
    fn header(&mut self, header: &decode::Header, end: usize) -> Result<()> {
        let mut plain = Vec::new();
        encode::header_as_is(header, &mut plain);
        if plain != self.buffer[..end] {
            let mut text = Vec::new();
            self.raw(end, &mut text)?;
            text.push(b'\n');
            return self.put(&text);
        }
        let mut text = format!("version {}\n", header.version).into_bytes();
        if header.version >= VERSION_PROPERTIES {
            text.extend_from_slice(format!("semantic {}\n", header.semantic_version).as_bytes());
        }
        for (name, value) in &header.properties {
            text.extend_from_slice(b"property ");
            put_string(name, &mut text);
            text.extend_from_slice(b" = ");
            put_string(value, &mut text);
            text.push(b'\n');
        }
        text.push(b'\n');
        self.put(&text)
    }

    /// Writes an event that ends at `end` in the buffer.
    fn event(&mut self, walker: &Walker, walked: Walked, n_types: usize, end: usize) -> Result<(), Trouble> {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        if walker.is_faithful {
            for position in n_types..walker.table.len() {
                if let Some(ty) = walker.table.get(position as u32) {
                    put_type(ty, &mut text);
                }
            }
            self.blobs(walker)?;
        }
        match walked {
            Walked::Enter { number, .. } => {
                self.done.calls += 1;
                self.release(&mut text);
                if walker.is_faithful {
                    let (label, body) = (walker.label.clone(), walker.body.clone());
                    self.held = Some(Held { number, label, body });
                } else {
                    text.extend_from_slice(format!("{number}: ").as_bytes());
                    self.raw(end, &mut text)?;
                }
            }
            Walked::Leave { number, is_plain } => match self.held.take() {
                Some(held) if held.number == number && is_plain => {
                    text.extend_from_slice(&held.label);
                    text.extend_from_slice(&held.body);
                    match walker.body.strip_prefix(b"()") {
                        Some(rest) => text.extend_from_slice(rest),
                        None => {
                            text.extend_from_slice(b" -> ");
                            text.extend_from_slice(&walker.body);
                        }
                    }
                    text.push(b'\n');
                }
                held => {
                    self.held = held;
                    self.release(&mut text);
                    if walker.is_faithful {
                        text.extend_from_slice(&walker.label);
                        text.extend_from_slice(&walker.body);
                        text.push(b'\n');
                    } else {
                        self.raw(end, &mut text)?;
                    }
                }
            },
        }
        self.put(&text)?;
        self.text = text;
        Ok(())
    }

    /// Writes the held call, which is not left right after it was entered.
    fn release(&mut self, text: &mut Vec<u8>) {
        if let Some(held) = self.held.take() {
            text.extend_from_slice(&held.label);
            text.extend_from_slice(b"enter ");
            text.extend_from_slice(&held.body);
            text.push(b'\n');
        }
    }

    /// Writes an event or the header as raw bytes.
    fn raw(&mut self, end: usize, text: &mut Vec<u8>) -> Result<()> {
        self.done.raw_events += 1;
        text.extend_from_slice(b"raw ");
        let bytes = &self.buffer[self.at..end];
        if bytes.len() <= MAX_INLINE_BYTES {
            put_hex(bytes, text);
        } else {
            let name = format!("raw-{}.bin", self.done.raw_events);
            text.extend_from_slice(b"blob ");
            put_string(name.as_bytes(), text);
            let bytes = bytes.to_vec();
            self.file(&name, &bytes)?;
        }
        text.push(b'\n');
        Ok(())
    }

    fn blobs(&mut self, walker: &Walker) -> Result<()> {
        for (name, range) in &walker.blobs {
            let Some(bytes) = self.buffer.get(range.clone()) else { continue };
            self.blobs.write(name, bytes)?;
            self.done.files += 1;
        }
        Ok(())
    }

    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.blobs.write(name, bytes)?;
        self.done.files += 1;
        Ok(())
    }

    /// Begins the file for uninterpreted bytes.
    fn begin_tail(&mut self) -> Result<()> {
        let rest = self.buffer.split_off(self.at);
        self.buffer.clear();
        self.at = 0;
        self.tail = Some(BufWriter::new(self.blobs.write("tail.bin", &rest)?));
        self.done.files += 1;
        Ok(())
    }

    fn end(mut self) -> Result<(Disassembled, Vec<Finding>, Blobs)> {
        let mut text = Vec::new();
        self.release(&mut text);
        let rest = self.buffer.split_off(self.at);
        if self.walker.is_none() && (self.tail.is_some() || !rest.is_empty()) {
            return Err(without_header());
        }
        if let Some(tail) = &mut self.tail {
            tail.flush().map_err(failed(self.path, "cannot write"))?;
            text.extend_from_slice(b"tail blob \"tail.bin\"\n");
        } else if rest.len() > MAX_INLINE_BYTES {
            self.file("tail.bin", &rest)?;
            text.extend_from_slice(b"tail blob \"tail.bin\"\n");
        } else if !rest.is_empty() {
            text.extend_from_slice(b"tail ");
            put_hex(&rest, &mut text);
            text.push(b'\n');
        }
        if self.done.raw_events > 0 {
            let (n_events, are) = match self.done.raw_events {
                1 => ("1 event".to_owned(), "is"),
                n => (format!("{n} events"), "are"),
            };
            let place = Place { file: Some(self.name.clone()), ..Place::default() };
            let what = format!(
                "{n_events} that text cannot say {are} kept as raw bytes: no tracer writes such; `quipu check` tells what is damaged"
            );
            let finding = rules::NOT_UNDERSTOOD.broken(place, what);
            self.findings.push(Finding { count: self.done.raw_events, ..finding });
        }
        self.put(&text)?;
        self.out.flush().map_err(failed(self.path, "cannot write"))?;
        Ok((self.done, self.findings, self.blobs))
    }
}

/// The folder for raw memory. It is created for the first piece, because there may be no place for a folder beside a device.
struct Blobs {
    folder: PathBuf,
    replace: Replace,
    /// Path of the text if it is a device; no folder is created beside it.
    device: Option<PathBuf>,
    made: Option<(Fresh, Folder)>,
}

impl Blobs {
    /// # Errors
    /// Those of [`Fresh::folder`], if the folder exists already.
    fn new(text: &Path, replace: Replace) -> Result<Blobs> {
        let device = is_device(text).then(|| text.to_owned());
        let mut blobs = Blobs { folder: blob_folder(text), replace, device, made: None };
        if blobs.device.is_none() && blobs.folder.symlink_metadata().is_ok() {
            blobs.place()?;
        }
        Ok(blobs)
    }

    /// The folder for new files, created on first use.
    fn place(&mut self) -> Result<&Folder> {
        let made = match self.made.take() {
            Some(made) => made,
            None => {
                if let Some(device) = &self.device {
                    let message =
                        "raw memory goes to a folder beside the text, and a device has none beside it";
                    return Err(Error::usage(message)
                        .in_file(device.display().to_string())
                        .hint("name a file or a named pipe for the text"));
                }
                let is_blob = |file: &Path| file.extension().is_some_and(|extension| extension == "bin");
                Fresh::folder(&self.folder, self.replace, &is_blob)?
            }
        };
        Ok(&self.made.insert(made).1)
    }

    /// Creates a file and writes its first bytes.
    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<OutputFile> {
        let folder = self.place()?;
        let path = folder.join(name);
        let failed = failed(&path, "cannot write raw memory");
        let written = File::create(&path).and_then(|file| {
            let mut file = folder.take(file, &path);
            file.write_all(bytes).map(|()| file)
        });
        written.map_err(failed)
    }

    /// Gives the folder its name if it has files; otherwise removes an earlier folder of that name. Then gives the text its
    /// name; if that fails, removes the folder if it is new.
    fn commit(self, n_files: u64, text: Fresh) -> Result<()> {
        let is_new = self.folder.symlink_metadata().is_err();
        let folder = self.folder.clone();
        self.settle(n_files)?;
        text.commit().inspect_err(|_| {
            if is_new {
                // The error of the text is reported, not one of the removal.
                let _ = std::fs::remove_dir_all(&folder);
            }
        })
    }

    fn settle(self, n_files: u64) -> Result<()> {
        match self.made {
            Some((fresh, _)) if n_files > 0 => fresh.commit(),
            Some(_) if self.folder.exists() => {
                std::fs::remove_dir_all(&self.folder).map_err(|cause| cannot("replace", &self.folder, cause))
            }
            _ => Ok(()),
        }
    }
}

/// True for a device, and for a link to a device, a pipe or a socket, such as `/dev/stdout`: the folder of such a path is not
/// the user's.
fn is_device(path: &Path) -> bool {
    let Ok(meta) = std::fs::metadata(path) else { return false };
    let is_link = path.symlink_metadata().is_ok_and(|own| own.is_symlink());
    let is_special = !meta.is_file() && !meta.is_dir();
    #[cfg(unix)]
    let is_named = {
        use std::os::unix::fs::FileTypeExt;
        meta.file_type().is_fifo() || meta.file_type().is_socket()
    };
    #[cfg(not(unix))]
    let is_named = false;
    is_special && (is_link || !is_named)
}

/// The reason why events end.
enum Trouble {
    /// An error that ends the writing.
    Error(Error),
    /// A malformed event; the rest is written as raw bytes.
    Bad(Box<Fault>),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Error(error)
    }
}
