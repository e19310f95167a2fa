//! The collector: one thread with `poll` for all sockets, and one that waits for the disk.
//!
//! A connection costs little until its sender is let in. There is a time limit for that. Where there are too many connections
//! whose senders are not let in yet, a new one replaces the oldest of them.

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

/// How long the loop waits at most before it looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(100);
/// What was taken is on the disk about this much later, or once there are this many bytes of a connection.
const SYNC_AFTER: Duration = Duration::from_millis(50);
const SYNC_BYTES: u64 = 16 << 20;
/// Bytes of files that are read in one turn to find out what they hold.
const RECOVER_BYTES: u64 = 16 << 20;
/// Connections beyond the limit; their senders get a message that there are too many.
const SPARE: usize = 8;
/// Reads of one connection in one turn, and connections that are accepted in one.
const TURN_READS: usize = 4;
const TURN_ACCEPTS: usize = 64;
/// Files without a connection whose state is kept, so that a sender that comes again need not wait.
const IDLE_FILES: usize = 64;
/// How long the end waits for acknowledgements to leave.
const GRACE: Duration = Duration::from_secs(3);

/// What a collector allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Senders that are let in at a time. There are a few connections more, to say so to others.
    pub connections: usize,
    /// Bytes of a frame.
    pub frame_bytes: u32,
    /// Bytes of a producer's file.
    pub file_bytes: u64,
    /// Bytes in a second of each connection.
    pub rate: Option<u64>,
    /// How long a sender may take until it is let in.
    pub greeting: Duration,
    /// How long a sender may be silent.
    pub silence: Duration,
    /// How long the collector is silent while bytes come that cannot be acknowledged yet: senders do not wait for ever.
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

/// Who is let in.
#[derive(Debug)]
pub enum Door {
    /// Everyone on this machine, without TLS.
    Loopback,
    /// Who has the token.
    Token(Guard, Arc<ServerConfig>),
    /// Whose certificate TLS has accepted.
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

/// Something that people may want to know.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Frames of a producer come; its file has this many bytes.
    Began(PathBuf, u64),
    /// A producer has ended, and all of it is on the disk.
    Ended(PathBuf, Totals),
    /// These bytes at the end of a producer's file were no whole frame, and were cut off.
    Cut(PathBuf, Range<u64>),
    /// A connection was ended.
    Refused(Option<SocketAddr>, Fault),
}

/// What a collector did.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The files that were written to, and what they hold.
    pub files: BTreeMap<PathBuf, Totals>,
    /// Senders that were let in.
    pub senders: u64,
    /// Connections that were ended because of a fault.
    pub refused: u64,
}

impl Summary {
    /// Producers that have ended.
    #[must_use]
    pub fn n_ended(&self) -> usize {
        self.files.values().filter(|totals| totals.is_ended).count()
    }
}

/// A connection.
#[derive(Debug)]
struct Peer {
    link: Link,
    receiver: Receiver,
    born: Instant,
    heard: Instant,
    /// When it was sent something.
    said: Instant,
    /// Producers that it sends.
    producers: Vec<u64>,
    /// Producers that it has asked about, whose files are being read.
    waiting: Vec<u64>,
    /// The one whose frame comes now.
    current: Option<u64>,
    dirty_since: Option<Instant>,
    dirty_bytes: u64,
    /// Frames that are on their way to the disk.
    syncing: Option<u64>,
    is_pinged: bool,
    is_done: bool,
    /// It ends when what is to be sent was.
    is_closing: Option<Instant>,
    /// Bytes that may be read now.
    budget: f64,
    /// Whether bytes came since it was sent something.
    has_news: bool,
}

impl Peer {
    fn refuse(&mut self, fault: &Fault) {
        if self.is_closing.is_none() {
            self.receiver.refuse(fault);
            self.is_closing = Some(Instant::now());
        }
    }

    /// Whether it may be read from: it keeps to the rate, and takes what it is sent.
    fn is_read(&self) -> bool {
        self.is_closing.is_none() && self.budget > 0.0 && !self.link.wants_write()
    }

    /// Whether the next of its producers can be looked at.
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

/// Files that are to be on the disk before this many frames of a connection are acknowledged.
type Job = (u64, u64, Vec<Arc<File>>);

/// Waits for the disk, beside the thread with the sockets.
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
            // It ends with this.
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

/// A collector that listens.
pub struct Collector {
    listener: TcpListener,
    folder: PathBuf,
    door: Door,
    limits: Limits,
    peers: BTreeMap<u64, Peer>,
    n_peers: u64,
    files: FxHashMap<u64, ProducerFile>,
    /// Which connection sends a producer.
    owners: FxHashMap<u64, u64>,
    syncer: Syncer,
    scratch: Vec<u8>,
    summary: Summary,
    /// Connections could not be accepted, for want of descriptors.
    is_short: bool,
    /// When rates were last looked at.
    tended: Instant,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Collector {
    /// Listens at an address, and writes into a folder, which is made.
    ///
    /// # Errors
    /// If the address cannot be listened at, or the folder not be made.
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

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves senders until `is_over` says so, which is given what was done so far; then acknowledges what is on the disk, and
    /// ends all connections.
    ///
    /// # Errors
    /// If the sockets cannot be waited for.
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

    /// Lets connections end whose frames are acknowledged.
    fn end_peers(&mut self) {
        let fault = Fault::new(Code::Ending, "the collector ends");
        for peer in self.peers.values_mut() {
            // What came is still synced and acknowledged.
            peer.is_pinged = true;
            if peer.syncing.is_none() && peer.receiver.n_frames() == peer.receiver.n_acked() {
                peer.refuse(&fault);
            }
        }
    }

    /// Waits for something to do, and does it.
    fn turn(&mut self, is_ending: bool, notice: &mut dyn FnMut(Notice)) -> io::Result<()> {
        let mut timeout = GLANCE;
        let mut ids = Vec::with_capacity(self.peers.len());
        let mut polled = Vec::with_capacity(self.peers.len() + 2);
        let accepts = if is_ending || self.is_short { PollFlags::empty() } else { PollFlags::IN };
        polled.push(PollFd::new(&self.listener, accepts));
        polled.push(PollFd::new(&self.syncer.wake, PollFlags::IN));
        for (id, peer) in &self.peers {
            let mut wanted = PollFlags::empty();
            // What a sender still sends after the last word is read, too: the system would take that word back otherwise.
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
            // A signal may be why it is to end.
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
                // A sender may have hung up, which is no fault. If descriptors are short, the oldest connection is closed whose
                // sender is not let in yet.
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

    /// Ends the oldest connection whose sender was not let in; whether there is one.
    fn drop_stranger(&mut self, notice: &mut dyn FnMut(Notice)) -> bool {
        let stranger = self.peers.iter().find(|(_, peer)| !peer.receiver.is_welcome());
        let Some(id) = stranger.map(|(id, _)| *id) else { return false };
        self.forget(id, Some(Fault::new(Code::Limit, "too many connections")), notice);
        true
    }

    /// Reads what a sender has sent.
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
            // What it still sends is of no interest, but has to be read for the last word to arrive.
            match peer.link.read(&mut scratch, &mut |_| Ok(())) {
                Ok(Progress::Closed) | Err(_) => end = Some(None),
                Ok(_) => {}
            }
        } else {
            for _ in 0..TURN_READS {
                // Who was not let in yet has a limit of time, and not much to send.
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

    /// Takes away what came of a frame that will not be finished.
    fn cancel(&mut self, id: u64) {
        if let Some(producer) = self.peers.get_mut(&id).and_then(|peer| peer.current.take())
            && let Some(file) = self.files.get_mut(&producer)
            && file.cancel().is_err()
        {
            // What it holds is found out when it is opened again.
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

    /// Lets go of a file.
    fn release(&mut self, producer: u64) {
        if let Some(mut file) = self.files.remove(&producer) {
            let (path, is_known, totals) = (file.path().to_owned(), file.is_known(), file.totals());
            // What was not acknowledged is sent again if it does not get to the disk.
            let Ok(file) = file.to_sync() else { return };
            if file.sync_data().is_ok() && is_known {
                self.summary.files.insert(path, totals);
            }
            // The thread that syncs may still have it.
            let _ = file.unlock();
        }
    }

    /// Reads on in files whose producers were asked about, and answers.
    fn recover(&mut self, notice: &mut dyn FnMut(Notice)) {
        let waiting: Vec<(u64, u64)> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.is_asking())
            .filter_map(|(id, peer)| Some((*id, *peer.waiting.first()?)))
            .collect();
        let budget = RECOVER_BYTES / waiting.len().max(1) as u64;
        for (id, producer) in waiting {
            // The newest connection of a sender is the one that counts; the other may be dead and not know it.
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
        // What a HAVE lists has to be on the disk, as what is acknowledged.
        if !file.have().is_empty() {
            let synced = file.to_sync()?.sync_data();
            synced
                .map_err(|error| Fault::new(Code::Storage, format!("cannot write to the disk: {error}")))?;
        }
        Ok(true)
    }

    /// Acknowledges what has got to the disk.
    fn take_synced(&mut self, notice: &mut dyn FnMut(Notice)) {
        while let Ok((id, n_frames, synced)) = self.syncer.results.try_recv() {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            peer.syncing = None;
            if let Err(error) = synced {
                let fault = Fault::new(Code::Storage, format!("cannot write to the disk: {error}"));
                // Whether what was written is there is known when the files are opened again.
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

    /// Syncs, sends, and ends what has taken too long.
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
                    // So are the names of files.
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
                // A frame may take longer to come than a sender waits for an answer.
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
                // The other side closes once it has read the last word.
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

/// Why a connection broke, in words for people who set up both sides.
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

/// Takes what a sender has sent, to the end of `input`. Without a door, there is no room for another sender.
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
