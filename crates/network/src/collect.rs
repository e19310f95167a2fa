//! The collector: one thread that polls all sockets, and one that waits for the disk.
//!
//! A connection costs little until its sender is admitted, which must happen within a time limit. If too many senders are
//! waiting to be admitted, a new connection replaces the oldest of them.

use crate::identity::Guard;
use crate::link::{Link, Progress, READ_BYTES};
use crate::message::{Code, Fault};
use crate::receiver::{Event, Receiver};
use crate::store::{ProducerFile, Totals, make_folder};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConfig;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Results, Sender as Jobs, channel};
use std::time::{Duration, Instant};

/// Longest wait of the loop before it checks whether to end.
const GLANCE: Duration = Duration::from_millis(100);
/// Received frames are synced to disk after this time, or once a connection has this many unsynced bytes.
const SYNC_AFTER: Duration = Duration::from_millis(50);
const SYNC_BYTES: u64 = 16 << 20;
/// Bytes of existing files that are read per turn to find out which frames they contain.
const RECOVER_BYTES: u64 = 16 << 20;
/// Connections accepted beyond the limit, so that their senders get the message that there are too many.
const SPARE: usize = 8;
/// Reads per connection and turn, and accepted connections per turn.
const TURN_READS: usize = 4;
const TURN_ACCEPTS: usize = 64;
/// Number of files without a connection whose state is kept, so that a reconnecting sender need not wait.
const IDLE_FILES: usize = 64;
/// Longest time at the end for sending acknowledgements.
const GRACE: Duration = Duration::from_secs(3);

/// Limits of a collector.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of admitted senders. A few more connections are accepted, to tell further senders so.
    pub connections: usize,
    /// Maximum bytes of a frame.
    pub frame_bytes: u32,
    /// Maximum bytes of a producer's file.
    pub file_bytes: u64,
    /// Maximum bytes per second of each connection.
    pub rate: Option<u64>,
    /// Time within which a sender must be admitted.
    pub greeting: Duration,
    /// Longest silence of a sender.
    pub silence: Duration,
    /// Longest silence of the collector while it receives bytes that it cannot acknowledge yet. Senders give up on a silent
    /// collector.
    pub own_silence: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 256,
            frame_bytes: crate::message::MAX_FRAME_BYTES,
            file_bytes: u64::MAX,
            rate: None,
            greeting: Duration::from_secs(10),
            silence: Duration::from_secs(60),
            own_silence: Duration::from_secs(10),
        }
    }
}

/// Which senders are admitted.
#[derive(Debug)]
pub enum Door {
    /// All senders on this machine, without TLS.
    Loopback,
    /// Senders with the token.
    Token(Guard, Arc<ServerConfig>),
    /// Senders whose certificate TLS has accepted.
    Certificates(Arc<ServerConfig>),
}

impl Door {
    fn tls(&self) -> Option<&Arc<ServerConfig>> {
        match self {
            Door::Loopback => None,
            Door::Token(_, config) | Door::Certificates(config) => Some(config),
        }
    }
}

/// An event to show to the user.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A producer began to send frames; its file has this many bytes.
    Began(PathBuf, u64),
    /// A producer has ended, and all of its frames are on disk.
    Ended(PathBuf, Totals),
    /// These bytes at the end of a producer's file were not a whole frame and were cut off.
    Cut(PathBuf, Range<u64>),
    /// A connection was ended because of a fault.
    Refused(Option<SocketAddr>, Fault),
}

/// Results of running a collector.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The files that were written to, and their contents.
    pub files: BTreeMap<PathBuf, Totals>,
    /// Number of admitted senders.
    pub senders: u64,
    /// Number of connections ended because of a fault.
    pub refused: u64,
}

impl Summary {
    /// Number of producers that have ended.
    #[must_use]
    pub fn n_ended(&self) -> usize {
        self.files.values().filter(|totals| totals.is_ended).count()
    }
}

/// A connection with a sender.
#[derive(Debug)]
struct Peer {
    link: Link,
    receiver: Receiver,
    born: Instant,
    heard: Instant,
    /// When the collector last sent something.
    said: Instant,
    /// Ids of the producers that it sends.
    producers: Vec<u64>,
    /// Ids of the producers that it has asked about and whose files are still being read.
    waiting: Vec<u64>,
    /// Id of the producer whose frame is being received.
    current: Option<u64>,
    dirty_since: Option<Instant>,
    dirty_bytes: u64,
    /// Number of frames that are being synced to disk.
    syncing: Option<u64>,
    is_pinged: bool,
    is_done: bool,
    /// When closing began. The connection ends once all output is sent.
    is_closing: Option<Instant>,
    /// Bytes that may be read now without exceeding the rate.
    budget: f64,
    /// Whether bytes arrived since something was last sent.
    has_news: bool,
}

impl Peer {
    fn refuse(&mut self, fault: &Fault) {
        if self.is_closing.is_none() {
            self.receiver.refuse(fault);
            self.is_closing = Some(Instant::now());
        }
    }

    /// Whether to read from it: it is within the rate, and accepts what it is sent.
    fn is_read(&self) -> bool {
        self.is_closing.is_none() && self.budget > 0.0 && !self.link.wants_write()
    }

    /// Whether to examine the file of the next producer that it asked about.
    fn is_asking(&self) -> bool {
        !self.waiting.is_empty() && self.is_closing.is_none() && !self.link.wants_write()
    }

    fn needs_sync(&self, now: Instant) -> bool {
        if self.syncing.is_some() || self.is_closing.is_some() {
            return false;
        }
        let has_new = self.receiver.n_frames() > self.receiver.n_acked();
        let is_time = self.dirty_since.is_some_and(|since| now.duration_since(since) >= SYNC_AFTER);
        has_new && (is_time || self.dirty_bytes >= SYNC_BYTES || self.is_pinged || self.is_done)
    }
}

/// Connection id, number of frames, and the files to sync before that many frames are acknowledged.
type Job = (u64, u64, Vec<Arc<File>>);

/// Waits for the disk in a thread of its own.
struct Syncer {
    jobs: Option<Jobs<Job>>,
    results: Results<(u64, u64, io::Result<()>)>,
    wake: UnixStream,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Syncer {
    fn new() -> io::Result<Syncer> {
        let (jobs, todo) = channel::<Job>();
        let (done, results) = channel();
        let (wake, mut bell) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let work = move || {
            for (peer, n_frames, files) in todo {
                let synced = files.iter().try_for_each(|file| file.sync_data());
                if done.send((peer, n_frames, synced)).is_err() || bell.write_all(&[0]).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("sync".to_owned()).spawn(work)?;
        Ok(Syncer { jobs: Some(jobs), results, wake, thread: Some(thread) })
    }

    fn start(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The thread ends only with the `Syncer`, so sending succeeds.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A listening collector.
pub struct Collector {
    listener: TcpListener,
    folder: PathBuf,
    door: Door,
    limits: Limits,
    peers: BTreeMap<u64, Peer>,
    n_peers: u64,
    files: FxHashMap<u64, ProducerFile>,
    /// Connection id by producer id.
    owners: FxHashMap<u64, u64>,
    syncer: Syncer,
    scratch: Vec<u8>,
    summary: Summary,
    /// True if connections could not be accepted for lack of file descriptors.
    is_short: bool,
    /// When the budgets of connections were last updated.
    tended: Instant,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Collector {
    /// Listens at an address, and creates the folder for files.
    ///
    /// # Errors
    /// If it cannot listen at the address, or the folder cannot be created.
    pub fn new(address: SocketAddr, folder: &Path, door: Door, limits: Limits) -> io::Result<Collector> {
        make_folder(folder)?;
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Collector {
            listener,
            folder: folder.to_owned(),
            door,
            limits,
            peers: BTreeMap::new(),
            n_peers: 0,
            files: FxHashMap::default(),
            owners: FxHashMap::default(),
            syncer: Syncer::new()?,
            scratch: vec![0; READ_BYTES],
            summary: Summary::default(),
            is_short: false,
            tended: Instant::now(),
        })
    }

    /// Returns the address at which it listens.
    ///
    /// # Errors
    /// If the system does not provide it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves senders until `is_over` returns true, called with the summary so far and the number of connected senders. Then
    /// acknowledges what is on disk, and ends all connections.
    ///
    /// # Errors
    /// If polling the sockets fails.
    pub fn serve(
        mut self,
        is_over: &mut dyn FnMut(&Summary, usize) -> bool,
        notice: &mut dyn FnMut(Notice),
    ) -> io::Result<Summary> {
        let mut ending: Option<Instant> = None;
        loop {
            let n_senders = self.peers.values().filter(|peer| peer.receiver.is_welcome()).count();
            if ending.is_none() && is_over(&self.summary, n_senders) {
                ending = Some(Instant::now());
            }
            if let Some(since) = ending {
                self.end_peers();
                if self.peers.is_empty() || since.elapsed() > GRACE {
                    break;
                }
            }
            self.turn(ending.is_some(), notice)?;
        }
        let owned: Vec<u64> = self.files.keys().copied().collect();
        owned.into_iter().for_each(|id| self.release(id));
        Ok(self.summary)
    }

    /// Ends connections whose frames are all acknowledged.
    fn end_peers(&mut self) {
        let fault = Fault::new(Code::Ending, "the collector ends");
        for peer in self.peers.values_mut() {
            // Makes sure that received frames are synced and acknowledged.
            peer.is_pinged = true;
            if peer.syncing.is_none() && peer.receiver.n_frames() == peer.receiver.n_acked() {
                peer.refuse(&fault);
            }
        }
    }

    /// Waits for events and handles them.
    fn turn(&mut self, is_ending: bool, notice: &mut dyn FnMut(Notice)) -> io::Result<()> {
        let mut timeout = GLANCE;
        let mut ids = Vec::with_capacity(self.peers.len());
        let mut polled = Vec::with_capacity(self.peers.len() + 2);
        let accepts = if is_ending || self.is_short { PollFlags::empty() } else { PollFlags::IN };
        polled.push(PollFd::new(&self.listener, accepts));
        polled.push(PollFd::new(&self.syncer.wake, PollFlags::IN));
        for (id, peer) in &self.peers {
            let mut wanted = PollFlags::empty();
            // A closing connection is still read: with unread input, the system would reset it and discard the final message.
            if peer.is_closing.is_some() || peer.is_read() && !is_ending {
                wanted |= PollFlags::IN;
            }
            if peer.link.wants_write() || peer.receiver.has_out() {
                wanted |= PollFlags::OUT;
            }
            if peer.is_asking() {
                timeout = Duration::ZERO;
            } else if peer.budget <= 0.0 || peer.dirty_since.is_some() && peer.syncing.is_none() {
                timeout = timeout.min(Duration::from_millis(10));
            }
            ids.push(*id);
            polled.push(PollFd::new(&peer.link, wanted));
        }
        let wait = Timespec { tv_sec: 0, tv_nsec: timeout.as_nanos() as _ }; // Less than a second.
        match poll(&mut polled, Some(&wait)) {
            Ok(_) => {}
            // The signal may be the request to end.
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let events: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        drop(polled);
        self.is_short = false;
        if !events[0].is_empty() {
            self.accept(notice);
        }
        if !events[1].is_empty() {
            let mut rung = [0; 64];
            while matches!((&self.syncer.wake).read(&mut rung), Ok(n) if n == rung.len()) {}
        }
        self.take_synced(notice);
        for (id, events) in ids.iter().zip(&events[2..]) {
            if events.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                self.read(*id, notice);
            }
        }
        self.recover(notice);
        self.tend(notice);
        Ok(())
    }

    fn accept(&mut self, notice: &mut dyn FnMut(Notice)) {
        for _ in 0..TURN_ACCEPTS {
            let (socket, _) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A sender may have hung up, which is not a fault. If file descriptors are short, the oldest connection that
                // is not admitted yet is closed.
                Err(_) => {
                    self.is_short = !self.drop_stranger(notice);
                    return;
                }
            };
            let most = self.limits.connections.saturating_add(SPARE);
            if self.peers.len() >= most && !self.drop_stranger(notice) {
                self.summary.refused += 1;
                continue;
            }
            let Ok(link) = Link::accepted(socket, self.door.tls()) else { continue };
            let now = Instant::now();
            let peer = Peer {
                link,
                receiver: Receiver::new(self.limits.frame_bytes),
                born: now,
                heard: now,
                said: now,
                producers: Vec::new(),
                waiting: Vec::new(),
                current: None,
                dirty_since: None,
                dirty_bytes: 0,
                syncing: None,
                is_pinged: false,
                is_done: false,
                is_closing: None,
                budget: 1.0,
                has_news: false,
            };
            self.peers.insert(self.n_peers, peer);
            self.n_peers += 1;
        }
    }

    /// Ends the oldest connection that is not admitted yet; false if there is none.
    fn drop_stranger(&mut self, notice: &mut dyn FnMut(Notice)) -> bool {
        let stranger = self.peers.iter().find(|(_, peer)| !peer.receiver.is_welcome());
        let Some(id) = stranger.map(|(id, _)| *id) else { return false };
        self.forget(id, Some(Fault::new(Code::Limit, "too many connections")), notice);
        true
    }

    /// Reads and handles input from a sender.
    fn read(&mut self, id: u64, notice: &mut dyn FnMut(Notice)) {
        let is_stranger = |peer: &&Peer| !peer.receiver.is_welcome();
        let has_room = self.peers.get(&id).is_none_or(|peer| !is_stranger(&peer))
            || self.peers.values().filter(|peer| !is_stranger(peer)).count() < self.limits.connections;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut fault = None;
        let mut end = None;
        let was_welcome = peer.receiver.is_welcome();
        if peer.is_closing.is_some() {
            // The input is ignored, but must be read for the final message to arrive.
            match peer.link.read(&mut scratch, &mut |_| Ok(())) {
                Ok(Progress::Closed) | Err(_) => end = Some(None),
                Ok(_) => {}
            }
        } else {
            for _ in 0..TURN_READS {
                // Before admission, the time limit applies, and little input is expected, so there is no rate limit.
                let rate = self.limits.rate.filter(|_| peer.receiver.is_welcome());
                let most = rate.map_or(scratch.len(), |_| scratch.len().min(peer.budget.max(1.0) as usize));
                let Peer {
                    link, receiver, current, waiting, is_pinged, is_done, dirty_bytes, budget, ..
                } = &mut *peer;
                let (door, files) = (Some(&self.door), &mut self.files);
                let mut take = |bytes: &[u8]| {
                    if rate.is_some() {
                        *budget -= bytes.len() as f64;
                    }
                    *dirty_bytes += bytes.len() as u64;
                    let mut input = bytes;
                    let taken = take(
                        receiver,
                        &mut input,
                        door.filter(|_| has_room),
                        files,
                        (&mut *current, &mut *waiting, &mut *is_pinged, &mut *is_done),
                    );
                    taken.map_err(|error| {
                        fault = Some(error);
                        io::ErrorKind::InvalidData.into()
                    })
                };
                let read = link.read(&mut scratch[..most], &mut take);
                match read {
                    Ok(Progress::More) => {}
                    Ok(Progress::Nothing) => break,
                    Ok(Progress::Closed) => {
                        end = Some(None);
                        break;
                    }
                    Err(error) => {
                        if fault.is_none() {
                            end = Some(Some(Fault::new(Code::Malformed, broken(&error))));
                        }
                        break;
                    }
                }
                if peer.budget <= 0.0 {
                    break;
                }
            }
            (peer.heard, peer.has_news) = (Instant::now(), true);
            if peer.receiver.n_frames() > peer.receiver.n_acked() {
                peer.dirty_since.get_or_insert(peer.heard);
            }
        }
        self.scratch = scratch;
        if !was_welcome && peer.receiver.is_welcome() {
            self.summary.senders += 1;
        }
        if let Some(fault) = fault {
            peer.refuse(&fault);
            self.summary.refused += 1;
            notice(Notice::Refused(peer.link.peer(), fault));
            self.cancel(id);
        }
        if let Some(fault) = end {
            self.forget(id, fault, notice);
        }
    }

    /// Discards the unfinished frame of a connection.
    fn cancel(&mut self, id: u64) {
        if let Some(producer) = self.peers.get_mut(&id).and_then(|peer| peer.current.take())
            && let Some(file) = self.files.get_mut(&producer)
            && file.cancel().is_err()
        {
            // The contents are determined when the file is opened again.
            self.files.remove(&producer);
        }
    }

    /// Ends a connection at once.
    fn forget(&mut self, id: u64, fault: Option<Fault>, notice: &mut dyn FnMut(Notice)) {
        self.cancel(id);
        let Some(peer) = self.peers.remove(&id) else { return };
        if let Some(fault) = fault {
            self.summary.refused += 1;
            notice(Notice::Refused(peer.link.peer(), fault));
        }
        for producer in peer.producers.iter().chain(&peer.waiting) {
            if self.owners.get(producer) == Some(&id) {
                self.owners.remove(producer);
            }
        }
        let idle: Vec<u64> =
            self.files.keys().filter(|producer| !self.owners.contains_key(producer)).copied().collect();
        let n_idle = idle.len();
        idle.into_iter().take(n_idle.saturating_sub(IDLE_FILES)).for_each(|producer| self.release(producer));
    }

    /// Closes a file.
    fn release(&mut self, producer: u64) {
        if let Some(mut file) = self.files.remove(&producer) {
            let (path, is_known, totals) = (file.path().to_owned(), file.is_known(), file.totals());
            // If syncing fails, the sender sends the unacknowledged frames again.
            let Ok(file) = file.to_sync() else { return };
            if file.sync_data().is_ok() && is_known {
                self.summary.files.insert(path, totals);
            }
            // The syncing thread may still hold the file.
            let _ = file.unlock();
        }
    }

    /// Continues reading the files of producers that senders asked about, and answers those that are finished.
    fn recover(&mut self, notice: &mut dyn FnMut(Notice)) {
        let waiting: Vec<(u64, u64)> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.is_asking())
            .filter_map(|(id, peer)| Some((*id, *peer.waiting.first()?)))
            .collect();
        let budget = RECOVER_BYTES / waiting.len().max(1) as u64;
        for (id, producer) in waiting {
            // The newest connection of a sender takes over; the older one may be dead without having noticed.
            if let Some(other) = self.owners.insert(producer, id).filter(|other| *other != id) {
                self.cancel(other);
                if let Some(peer) = self.peers.get_mut(&other).filter(|peer| peer.is_closing.is_none()) {
                    let fault = Fault::new(Code::TakenOver, "another connection sends this producer now");
                    peer.refuse(&fault);
                    self.summary.refused += 1;
                    notice(Notice::Refused(peer.link.peer(), fault));
                }
            }
            match self.recover_one(producer, budget) {
                Ok(false) => {}
                Ok(true) => {
                    let (Some(peer), Some(file)) = (self.peers.get_mut(&id), self.files.get_mut(&producer))
                    else {
                        continue;
                    };
                    peer.waiting.remove(0);
                    peer.producers.push(producer);
                    peer.receiver.have(producer, file.have());
                    if let Some(cut) = file.take_cut() {
                        notice(Notice::Cut(file.path().to_owned(), cut));
                    }
                    self.summary.files.insert(file.path().to_owned(), file.totals());
                    notice(Notice::Began(file.path().to_owned(), file.totals().bytes));
                }
                Err(fault) => {
                    self.files.remove(&producer);
                    if let Some(peer) = self.peers.get_mut(&id) {
                        peer.refuse(&fault);
                        self.summary.refused += 1;
                        notice(Notice::Refused(peer.link.peer(), fault));
                    }
                }
            }
        }
    }

    fn recover_one(&mut self, producer: u64, budget: u64) -> Result<bool, Fault> {
        if !self.files.contains_key(&producer) {
            let file = ProducerFile::open(&self.folder, producer, self.limits.file_bytes)?;
            self.files.insert(producer, file);
        }
        let Some(file) = self.files.get_mut(&producer) else { return Ok(false) };
        if !file.recover(budget)? {
            return Ok(false);
        }
        // A HAVE promises that the listed frames are on disk, like an acknowledgement.
        if !file.have().is_empty() {
            let synced = file.to_sync()?.sync_data();
            synced
                .map_err(|error| Fault::new(Code::Storage, format!("cannot write to the disk: {error}")))?;
        }
        Ok(true)
    }

    /// Acknowledges frames that are now on disk.
    fn take_synced(&mut self, notice: &mut dyn FnMut(Notice)) {
        while let Ok((id, n_frames, synced)) = self.syncer.results.try_recv() {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            peer.syncing = None;
            if let Err(error) = synced {
                let fault = Fault::new(Code::Storage, format!("cannot write to the disk: {error}"));
                // Which frames were written is determined when the files are opened again.
                let producers = peer.producers.clone();
                peer.refuse(&fault);
                self.summary.refused += 1;
                notice(Notice::Refused(peer.link.peer(), fault));
                producers.iter().for_each(|producer| drop(self.files.remove(producer)));
                continue;
            }
            peer.receiver.ack(n_frames);
            for producer in &peer.producers {
                let Some(file) = self.files.get(producer) else { continue };
                let known = self.summary.files.entry(file.path().to_owned()).or_default();
                let has_ended = file.totals().is_ended && !known.is_ended && !file.is_dirty();
                *known = Totals { is_ended: known.is_ended && file.totals().is_ended, ..file.totals() };
                if has_ended {
                    known.is_ended = true;
                    notice(Notice::Ended(file.path().to_owned(), file.totals()));
                }
            }
        }
    }

    /// Starts syncs, sends output, and ends connections that exceed time limits.
    fn tend(&mut self, notice: &mut dyn FnMut(Notice)) {
        let now = Instant::now();
        let elapsed = now.duration_since(std::mem::replace(&mut self.tended, now)).as_secs_f64();
        let mut gone = Vec::new();
        for (id, peer) in &mut self.peers {
            match self.limits.rate {
                None => peer.budget = 1.0,
                Some(rate) => {
                    let rate = rate as f64;
                    peer.budget = (peer.budget + rate * elapsed).min((rate / 4.0).max(1.0));
                }
            }
            let silent = now.duration_since(peer.heard);
            let is_stranger = !peer.receiver.is_welcome();
            if is_stranger && now.duration_since(peer.born) > self.limits.greeting {
                gone.push((*id, Some(Fault::new(Code::Silent, "no greeting came in time"))));
                continue;
            }
            if peer.waiting.is_empty() && silent > self.limits.silence && peer.is_closing.is_none() {
                let fault = Fault::new(Code::Silent, "the sender was silent for too long");
                peer.refuse(&fault);
                self.summary.refused += 1;
                notice(Notice::Refused(peer.link.peer(), fault));
            }
            if peer.needs_sync(now) {
                let n_frames = peer.receiver.n_frames();
                let (mut files, mut has_new) = (Vec::new(), false);
                let mut failed = None;
                for producer in &peer.producers {
                    let Some(file) = self.files.get_mut(producer).filter(|file| file.is_dirty()) else {
                        continue;
                    };
                    has_new |= file.take_unnamed();
                    match file.to_sync() {
                        Ok(file) => files.push(file),
                        Err(fault) => failed = Some(fault),
                    }
                }
                if has_new {
                    // The names of new files must be on disk, too.
                    match File::open(&self.folder) {
                        Ok(folder) => files.push(Arc::new(folder)),
                        Err(error) => {
                            let text = format!("cannot open {}: {error}", self.folder.display());
                            failed = Some(Fault::new(Code::Storage, text));
                        }
                    }
                }
                (peer.dirty_since, peer.dirty_bytes, peer.is_pinged) = (None, 0, false);
                match failed {
                    Some(fault) => {
                        for producer in &peer.producers {
                            self.files.get_mut(producer).into_iter().for_each(ProducerFile::doubt_name);
                        }
                        peer.refuse(&fault);
                        self.summary.refused += 1;
                        notice(Notice::Refused(peer.link.peer(), fault));
                    }
                    None => {
                        peer.syncing = Some(n_frames);
                        self.syncer.start((*id, n_frames, files));
                    }
                }
            } else if peer.receiver.is_welcome() && peer.is_closing.is_none() {
                // Receiving a frame may take longer than the sender waits for an answer.
                let is_quiet = peer.has_news && now.duration_since(peer.said) >= self.limits.own_silence;
                if peer.is_pinged && peer.syncing.is_none() || is_quiet {
                    peer.is_pinged = false;
                    peer.receiver.ack(peer.receiver.n_acked());
                }
            }
            let is_acked = peer.receiver.n_frames() == peer.receiver.n_acked();
            if peer.is_done && is_acked && peer.syncing.is_none() && peer.is_closing.is_none() {
                peer.receiver.bye();
                peer.is_closing = Some(now);
            }
            let out = peer.receiver.take_out();
            if !out.is_empty() {
                (peer.said, peer.has_news) = (now, false);
            }
            let sent = peer.link.write(&out).and_then(|()| {
                if peer.is_closing.is_some() && !out.is_empty() {
                    peer.link.close();
                }
                peer.link.flush()
            });
            let is_over = match peer.is_closing {
                // The other side closes the connection once it has read the final message.
                Some(since) => now.duration_since(since) > GRACE || is_stranger && !peer.link.wants_write(),
                None => false,
            };
            if sent.is_err() || is_over {
                gone.push((*id, None));
            }
        }
        for (id, fault) in gone {
            self.forget(id, fault, notice);
        }
    }
}

/// Explains why a connection broke, for people who set up both sides.
fn broken(error: &io::Error) -> String {
    use rustls::{CertificateError as Wrong, Error};
    let why = match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::InvalidMessage(_)) => {
            "it does not speak TLS: a sender without a token or a certificate does not"
        }
        Some(Error::InvalidCertificate(Wrong::UnknownIssuer)) => "its certificate is none that is accepted",
        Some(Error::InvalidCertificate(Wrong::Expired)) => "its certificate has expired",
        Some(Error::InvalidCertificate(Wrong::NotValidYet)) => "its certificate is not valid yet",
        Some(Error::NoCertificatesPresented) => "it shows no certificate",
        _ => return error.to_string(),
    };
    why.to_owned()
}

/// Handles all of `input` from a sender. Without a door, no further sender is admitted.
fn take(
    receiver: &mut Receiver,
    input: &mut &[u8],
    door: Option<&Door>,
    files: &mut FxHashMap<u64, ProducerFile>,
    (current, waiting, is_pinged, is_done): (&mut Option<u64>, &mut Vec<u64>, &mut bool, &mut bool),
) -> Result<(), Fault> {
    let gone = || Fault::new(Code::Storage, "the file of this producer could not be written");
    loop {
        match receiver.next(input)? {
            None => return Ok(()),
            Some(Event::Hello(proof)) => match door {
                None => return Err(Fault::new(Code::Limit, "too many senders; try again later")),
                Some(Door::Token(guard, _)) if !guard.lets_in(&proof) => {
                    return Err(Fault::new(Code::Denied, "this is not the collector's token"));
                }
                Some(_) => receiver.welcome(),
            },
            Some(Event::Begin(producer)) => waiting.push(producer),
            Some(Event::Frame(header)) => {
                files.get_mut(&header.producer).ok_or_else(gone)?.begin_frame(&header)?;
                *current = Some(header.producer);
            }
            Some(Event::Bytes(bytes)) => {
                if let Some(file) = current.and_then(|producer| files.get_mut(&producer)) {
                    file.bytes(bytes)?;
                }
            }
            Some(Event::FrameEnd(header)) => {
                files.get_mut(&header.producer).ok_or_else(gone)?.end_frame(&header)?;
                *current = None;
            }
            Some(Event::Ping) => *is_pinged = true,
            Some(Event::Done) => *is_done = true,
        }
    }
}
