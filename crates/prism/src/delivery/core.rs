//! Prism's own delivery, the side of its core: eight buffers in a file, and two FIFOs for each channel.
//!
//! A front end of Prism fills the buffers strictly in turn, announces each through one FIFO, and gets the numbers of the
//! buffers that have been read back through the other. Buffers are read from the file, never through a mapping, so that a
//! front end that truncates it causes an error rather than a signal. The core does not wait for a front end that gave up,
//! and reports what it knows of one that crashed or was forked.
//!
//! SPEC: prism.md#delivery-of-prism

use super::fault::{Fault, Place, Wrong};
use super::folder::Folder;
use super::receiver::{Seen, Wish};
use crate::batch::Batch;
use crate::detail::Detail;
use crate::fault::{Error, Result};
use crate::hooks::Sink;
use crate::variable::Dialect;
use crate::{fixed, variable};
use quipu_ring::fifo::{self, Ready};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of buffers of a channel.
const N_BUFFERS: u64 = 8;
/// Sent by a front end after its last buffer.
const FINISHED: u32 = u32::MAX;
/// Size of the events of a fixed-encoding buffer with their count, in bytes.
const EVENT_BUFFER: u64 = 8 + (fixed::SLOTS * fixed::EVENT_BYTES) as u64;
/// Size of the names of a buffer with their count, in bytes.
const NAME_BUFFER: u64 = 8 + fixed::NAME_BYTES as u64;
/// Size of the clock readings of a buffer with their count, in bytes.
const CLOCK_BUFFER: u64 = 8 + 8 * fixed::SLOTS as u64;
/// Size of a buffer of the variable encoding in bytes.
const VARIABLE_BUFFER: u64 = 524_288;
/// The file is padded to pages of this size, the largest that systems use, because front ends map whole pages.
const PAGE: u64 = 65_536;
/// Interval at which the core checks whether a front end has opened its FIFOs.
const PATIENCE: Duration = Duration::from_millis(20);
/// The same interval once all FIFOs are open.
const LONG_PATIENCE: Duration = Duration::from_millis(500);
/// Time that a front end gets between closing its two FIFOs; one closed FIFO counts only after it.
const CLOSING: Duration = Duration::from_millis(200);

/// Contents of a channel's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Buffers of fixed-encoding events, then of names.
    Fixed,
    /// Like `Fixed`, with buffers of clock readings in between, as the front end for perf writes them.
    Clocked,
    /// Buffers of the variable encoding.
    Variable(Dialect),
}

impl Layout {
    fn n_bytes(self) -> u64 {
        N_BUFFERS
            * match self {
                Layout::Fixed => EVENT_BUFFER + NAME_BUFFER,
                Layout::Clocked => EVENT_BUFFER + CLOCK_BUFFER + NAME_BUFFER,
                Layout::Variable(_) => VARIABLE_BUFFER,
            }
    }
}

/// Options of a core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Folder in which the core makes its own folder.
    pub base: PathBuf,
    /// Prefix of the names of the folder and its files: `prism`, or `sgl2` for Sigil2.
    pub prefix: String,
    /// Number of channels.
    pub n_channels: usize,
    /// Contents of the channels' files.
    pub layout: Layout,
    /// Fields that the front end fills.
    pub detail: Detail,
    /// Time in which a front end has to open its FIFOs.
    pub patience: Duration,
}

impl Default for Options {
    /// One channel of the fixed encoding for Prism's front end for Valgrind.
    fn default() -> Options {
        Options {
            base: Folder::base(),
            prefix: "prism".to_owned(),
            n_channels: 1,
            layout: Layout::Fixed,
            detail: Detail::VALGRIND,
            patience: Duration::from_secs(60),
        }
    }
}

/// The folder, files and FIFOs of a run.
#[derive(Debug)]
pub struct Core {
    folder: Folder,
    channels: Vec<Channel>,
    patience: Duration,
}

/// The outcome of a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Number of buffers read.
    pub n_buffers: u64,
    /// Number of events delivered.
    pub n_events: u64,
    /// Number of events with an invalid name, which were not delivered.
    pub n_wrong: u64,
    /// The reason, if the channel ended before its front end announced the end.
    pub fault: Option<Fault>,
}

impl Core {
    /// Creates the folder with all files that front ends expect.
    ///
    /// # Errors
    /// Returns an error if a file, FIFO or folder cannot be made.
    pub fn create(options: &Options) -> Result<Core> {
        let mut folder = Folder::create(&options.base)?;
        let file = |folder: &Folder, what: &str, n: usize| {
            folder.path().join(format!("{}-{what}-{n}", options.prefix))
        };
        for n in 0..options.n_channels {
            let path = file(&folder, "shmem", n);
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let n_bytes = options.layout.n_bytes().next_multiple_of(PAGE);
            made.and_then(|made| made.set_len(n_bytes)).map_err(|error| Error::io(&path, error))?;
            for path in [file(&folder, "empty", n), file(&folder, "full", n)] {
                fifo::make(&path).map_err(|error| Error::io(&path, error))?;
            }
        }
        folder.rename(&options.prefix)?;
        let channels = (0..options.n_channels).map(|n| {
            let (memory, empty, full) =
                (file(&folder, "shmem", n), file(&folder, "empty", n), file(&folder, "full", n));
            Channel::open(options, memory, empty, full)
        });
        let channels = channels.collect::<Result<_>>()?;
        Ok(Core { folder, channels, patience: options.patience })
    }

    /// The folder to pass to front ends.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Gives each sink all events of its channel, from start to finish; there has to be one sink per channel. `wish` gets
    /// the number of channels opened so far and the number of these that have not ended. Unless it returns [`Wish::Wait`],
    /// the core does not wait for front ends that have not come. Buffers already in the channels are still read, except for
    /// [`Wish::End`].
    ///
    /// # Errors
    /// Returns an error if a sink ends the run, or the system fails. A fault of a front end ends only its channel: see
    /// [`Outcome`].
    pub fn run(
        &mut self,
        sinks: &mut [&mut dyn Sink],
        wish: &mut dyn FnMut(Seen) -> Wish,
    ) -> Result<Vec<Outcome>> {
        let begun = Instant::now();
        let mut ready = Vec::new();
        for sink in sinks.iter_mut() {
            sink.start()?;
        }
        loop {
            let n_producers = self.channels.iter().filter(|channel| channel.was_opened).count();
            let n_live =
                self.channels.iter().filter(|channel| channel.was_opened && channel.is_open()).count();
            let wished = wish(Seen { n_producers, n_live });
            if wished == Wish::End {
                self.channels.iter_mut().for_each(Channel::end);
            }
            let is_there = wished == Wish::Wait;
            // A front end that has opened some of its channels will open the others, too.
            let may_come = (is_there || n_live > 0) && begun.elapsed() < self.patience;
            for channel in &mut self.channels {
                channel.connect(may_come)?;
            }
            let open: Vec<_> = (0..self.channels.len()).filter(|n| self.channels[*n].is_open()).collect();
            if open.is_empty() {
                break;
            }
            // The system does not signal that a front end has come, so the core checks periodically.
            let are_connected =
                open.iter().all(|n| self.channels[*n].empty.is_some() || self.channels[*n].is_finished);
            let most = if are_connected { LONG_PATIENCE } else { PATIENCE };
            let fifos: Vec<_> = open.iter().flat_map(|n| self.channels[*n].fifos()).collect();
            fifo::wait(&fifos, most, &mut ready).map_err(|error| Error::io(self.folder.path(), error))?;
            drop(fifos);
            let mut states = ready.iter().copied();
            for n in open {
                let channel = &mut self.channels[n];
                let full = states.next().unwrap_or(Ready::No);
                let empty = if channel.empty.is_some() { states.next() } else { None };
                if channel.is_finished && full == Ready::No && !is_there {
                    channel.close();
                }
                if let Some(sink) = sinks.get_mut(n) {
                    channel.take(full, empty.unwrap_or(Ready::No), *sink)?;
                }
            }
        }
        for sink in sinks.iter_mut() {
            sink.finish()?;
        }
        Ok(self.channels.iter().map(Channel::outcome).collect())
    }
}

/// Reads buffers.
#[derive(Debug)]
enum Decoder {
    Fixed(fixed::Decoder),
    Variable(variable::Decoder),
}

/// One channel.
#[derive(Debug)]
struct Channel {
    layout: Layout,
    memory: File,
    memory_path: PathBuf,
    empty_path: PathBuf,
    full_path: PathBuf,
    /// Open once a front end reads it.
    empty: Option<File>,
    /// `None` once the channel has ended.
    full: Option<File>,
    /// Whether a front end ever opened it.
    was_opened: bool,
    /// Whether the front end has sent its end. A process forked from it may still send buffers.
    is_finished: bool,
    /// Bytes of an incomplete buffer number.
    part: Vec<u8>,
    decoder: Decoder,
    n_buffers: u64,
    n_events: u64,
    n_wrong: u64,
    fault: Option<Fault>,
    /// Time at which the front end was seen to have closed `empty`.
    closed: Option<Instant>,
    batch: Batch,
    events: Vec<u8>,
    names: Vec<u8>,
    clocks: Vec<u8>,
}

impl Channel {
    fn open(
        options: &Options,
        memory_path: PathBuf,
        empty_path: PathBuf,
        full_path: PathBuf,
    ) -> Result<Channel> {
        let memory = File::open(&memory_path).map_err(|error| Error::io(&memory_path, error))?;
        let full = OpenOptions::new().read(true).custom_flags(fifo::NON_BLOCKING).open(&full_path);
        let decoder = match options.layout {
            Layout::Fixed | Layout::Clocked => Decoder::Fixed(fixed::Decoder::new(options.detail)),
            Layout::Variable(dialect) => Decoder::Variable(variable::Decoder::new(options.detail, dialect)),
        };
        Ok(Channel {
            layout: options.layout,
            memory,
            memory_path,
            full: Some(full.map_err(|error| Error::io(&full_path, error))?),
            is_finished: false,
            was_opened: false,
            empty_path,
            full_path,
            empty: None,
            part: Vec::new(),
            decoder,
            n_buffers: 0,
            n_events: 0,
            n_wrong: 0,
            fault: None,
            closed: None,
            batch: Batch::default(),
            events: Vec::new(),
            names: Vec::new(),
            clocks: Vec::new(),
        })
    }

    fn outcome(&self) -> Outcome {
        let (n_buffers, n_events, n_wrong) = (self.n_buffers, self.n_events, self.n_wrong);
        Outcome { n_buffers, n_events, n_wrong, fault: self.fault.clone() }
    }

    fn is_open(&self) -> bool {
        self.full.is_some()
    }

    fn fifos(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        self.full.iter().chain(&self.empty).map(File::as_fd)
    }

    /// Opens `empty` if a front end reads it. If none does, and none may still come, the channel ends.
    fn connect(&mut self, may_come: bool) -> Result<()> {
        if self.empty.is_some() || self.full.is_none() || self.is_finished {
            return Ok(());
        }
        match OpenOptions::new().write(true).custom_flags(fifo::NON_BLOCKING).open(&self.empty_path) {
            Ok(empty) => (self.empty, self.was_opened) = (Some(empty), true),
            // There is no reader yet; or the FIFO is gone, and no reader will come.
            Err(_) if may_come => {}
            Err(_) => self.fail(Place::File(self.empty_path.clone()), Wrong::NotOpened),
        }
        Ok(())
    }

    /// Ends the channel with a fault. The front end notices that `empty` is closed.
    fn fail(&mut self, place: Place, what: Wrong) {
        self.fault = Some(Fault { place, what });
        self.close();
    }

    /// Ends the channel because the run ends.
    fn end(&mut self) {
        let place = Place::File(self.full_path.clone());
        match (self.is_open(), self.was_opened, self.is_finished) {
            (false, ..) => {}
            (true, false, _) => self.fail(place, Wrong::NotOpened),
            (true, true, false) => self.fail(place, Wrong::StillOpen),
            (true, true, true) => self.close(),
        }
    }

    fn close(&mut self) {
        (self.full, self.empty) = (None, None);
    }

    /// Reads the messages of the front end, and the buffers that it announces.
    fn take(&mut self, full: Ready, empty: Ready, sink: &mut dyn Sink) -> Result<()> {
        match full {
            Ready::Bytes => self.read(sink),
            Ready::Closed if self.is_finished => {
                self.close();
                Ok(())
            }
            Ready::Closed => {
                self.fail(Place::File(self.full_path.clone()), Wrong::NoEnd);
                Ok(())
            }
            Ready::No if empty == Ready::Closed => {
                // The front end may be about to close `full`, too; then that decides.
                if self.closed.get_or_insert_with(Instant::now).elapsed() > CLOSING {
                    self.fail(Place::File(self.full_path.clone()), Wrong::HalfOpened);
                } else {
                    std::thread::sleep(PATIENCE);
                }
                Ok(())
            }
            Ready::No => Ok(()),
        }
    }

    fn read(&mut self, sink: &mut dyn Sink) -> Result<()> {
        let mut bytes = [0; 256];
        let Some(full) = &mut self.full else { return Ok(()) };
        let n = match full.read(&mut bytes) {
            Ok(n) => n,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            Err(error) => return Err(Error::io(&self.full_path, error)),
        };
        self.part.extend_from_slice(&bytes[..n]);
        let mut part = std::mem::take(&mut self.part);
        let mut numbers = part.chunks_exact(4);
        for number in numbers.by_ref() {
            let number = u32::from_ne_bytes([number[0], number[1], number[2], number[3]]);
            if number == FINISHED {
                // The front end waits until `empty` is closed.
                (self.empty, self.is_finished) = (None, true);
            } else {
                self.filled(number, sink)?;
            }
            if self.full.is_none() {
                return Ok(());
            }
        }
        let n_used = part.len() - numbers.remainder().len();
        part.drain(..n_used);
        self.part = part;
        Ok(())
    }

    /// Reads a buffer and returns it to the front end.
    fn filled(&mut self, number: u32, sink: &mut dyn Sink) -> Result<()> {
        let place = Place::Buffer { file: self.memory_path.clone(), n_before: self.n_buffers };
        let expected = (self.n_buffers % N_BUFFERS) as u32;
        if u64::from(number) >= N_BUFFERS {
            self.fail(place, Wrong::BufferNumber(number));
            return Ok(());
        }
        if number != expected || self.is_finished {
            // Number of buffers since this one was filled.
            let back = u64::from(expected.wrapping_sub(number) % N_BUFFERS as u32);
            let what = if back <= self.n_buffers || self.is_finished {
                Wrong::FilledTwice { expected, found: number }
            } else {
                Wrong::OutOfTurn { expected, found: number }
            };
            self.fail(place, what);
            return Ok(());
        }
        let read = match self.layout {
            Layout::Variable(_) => self.variable(number.into(), sink),
            Layout::Fixed | Layout::Clocked => self.fixed(number.into(), sink),
        };
        match read {
            Ok(()) => {}
            Err(Stop::Run(error)) => return Err(error),
            Err(Stop::Wrong(what)) => {
                self.fail(place, what);
                return Ok(());
            }
        }
        self.n_buffers += 1;
        if let Some(empty) = &mut self.empty {
            // A front end that has ended does not need the buffer back; `full` will show that.
            let _ = empty.write_all(&number.to_ne_bytes());
        }
        Ok(())
    }

    fn fixed(&mut self, number: u64, sink: &mut dyn Sink) -> std::result::Result<(), Stop> {
        let (events_at, after_events) = (number * EVENT_BUFFER, N_BUFFERS * EVENT_BUFFER);
        let clocks_at = after_events + number * CLOCK_BUFFER;
        let after_clocks = after_events + N_BUFFERS * CLOCK_BUFFER;
        let has_clocks = self.layout == Layout::Clocked;
        let names_at = if has_clocks { after_clocks } else { after_events } + number * NAME_BUFFER;
        let at = |offset, what| Wrong::Event(crate::fault::Fault { offset, what });
        let n_events = self.count(events_at)?;
        if n_events > fixed::SLOTS as u64 {
            return Err(at(events_at, crate::fault::Wrong::TooManyEvents(n_events)).into());
        }
        let n_names = self.count(names_at)?;
        if n_names > fixed::NAME_BYTES as u64 {
            return Err(at(names_at, crate::fault::Wrong::TooManyNames(n_names)).into());
        }
        let (mut events, mut names) = (std::mem::take(&mut self.events), std::mem::take(&mut self.names));
        self.copy(events_at + 8, n_events * fixed::EVENT_BYTES as u64, &mut events)?;
        self.copy(names_at + 8, n_names, &mut names)?;
        let mut clocks = std::mem::take(&mut self.clocks);
        clocks.clear();
        // If the counts differ, the buffer has no readings for its events.
        if has_clocks && self.count(clocks_at)? == n_events {
            self.copy(clocks_at + 8, n_events * 8, &mut clocks)?;
        }
        let mut rest = &events[..];
        let mut readings = clocks.chunks_exact(8).map(|bytes| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        });
        while !rest.is_empty() {
            let Decoder::Fixed(decoder) = &mut self.decoder else { break };
            let n = match decoder.decode(rest, &names, &mut self.batch) {
                Ok(n) => n,
                // As in a dump, an event with an invalid name is skipped alone.
                Err(_) if rest.len() >= fixed::EVENT_BYTES => {
                    decoder.pass_over();
                    readings.next();
                    rest = &rest[fixed::EVENT_BYTES..];
                    self.n_wrong += 1;
                    continue;
                }
                Err(fault) => return Err(fault.into()),
            };
            self.batch.clocks.extend(readings.by_ref().take(n));
            rest = &rest[n * fixed::EVENT_BYTES..];
            self.n_events += n as u64;
            sink.take(&self.batch).map_err(Stop::Run)?;
        }
        drop(readings);
        (self.events, self.names, self.clocks) = (events, names, clocks);
        Ok(())
    }

    fn variable(&mut self, number: u64, sink: &mut dyn Sink) -> std::result::Result<(), Stop> {
        let mut events = std::mem::take(&mut self.events);
        let at = number * VARIABLE_BUFFER;
        // The events may end before the buffer does, so a file that is slightly too short may still have them all.
        let found = self.memory.metadata().map_or(0, |found| found.len());
        let n_found = VARIABLE_BUFFER.min(found.saturating_sub(at));
        self.copy(at, n_found, &mut events)?;
        let mut rest = &events[..];
        let mut has_ended = n_found == VARIABLE_BUFFER;
        while !rest.is_empty() {
            let Decoder::Variable(decoder) = &mut self.decoder else { break };
            let progress = decoder.decode(rest, &mut self.batch)?;
            rest = &rest[progress.used..];
            self.n_events += self.batch.events.len() as u64;
            sink.take(&self.batch).map_err(Stop::Run)?;
            if progress.has_ended {
                decoder.skip(rest.len() as u64);
                has_ended = true;
                break;
            }
        }
        self.events = events;
        if has_ended { Ok(()) } else { Err(Wrong::Short { needed: at + VARIABLE_BUFFER, found }.into()) }
    }

    /// Reads a word of the file.
    fn count(&self, at: u64) -> std::result::Result<u64, Stop> {
        let mut word = [0; 8];
        self.exactly(at, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// Replaces `out` with bytes of the file.
    fn copy(&self, at: u64, n_bytes: u64, out: &mut Vec<u8>) -> std::result::Result<(), Stop> {
        out.resize(n_bytes as usize, 0); // At most a buffer.
        self.exactly(at, out)
    }

    fn exactly(&self, at: u64, out: &mut [u8]) -> std::result::Result<(), Stop> {
        match self.memory.read_exact_at(out, at) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let found = self.memory.metadata().map_or(0, |found| found.len());
                Err(Wrong::Short { needed: at + out.len() as u64, found }.into())
            }
            Err(error) => Err(Stop::Run(Error::io(&self.memory_path, error))),
        }
    }
}

/// Reason why a buffer was not delivered completely.
enum Stop {
    Wrong(Wrong),
    Run(Error),
}

impl From<Wrong> for Stop {
    fn from(wrong: Wrong) -> Stop {
        Stop::Wrong(wrong)
    }
}

impl From<crate::fault::Fault> for Stop {
    fn from(fault: crate::fault::Fault) -> Stop {
        Stop::Wrong(Wrong::Event(fault))
    }
}
