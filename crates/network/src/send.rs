//! The sender: follows a file, a folder or a pipe, and ships its frames over one connection at a time.
//!
//! A pipe is read whenever it has data, whether or not the collector is reachable. After a connection broke, the source is
//! read from its beginning again, and frames that the collector has are skipped by their headers.

use crate::have;
use crate::link::{Link, Progress, READ_BYTES};
use crate::message::{Fault, Proof};
use crate::sender::{Event, Sender, Verdict};
use crate::ship::{Shipper, is_whole};
use crate::source::{Item, Source};
use crate::spool::Spool;
use quipu_stream::frame::{Header, LOST_MANY, kind};
use quipu_stream::ranges::Ranges;
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConfig;
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait of the loop before it checks whether the source has grown.
const GLANCE: Duration = Duration::from_millis(20);
/// Bytes that are passed to the connection at a time.
const FILL_BYTES: usize = 1 << 20;
/// Pause after a failed connection: the first one, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Time limit for connecting and the greeting.
const GREETING: Duration = Duration::from_secs(10);
/// Time without sending after which the collector is pinged.
const PING_AFTER: Duration = Duration::from_secs(10);
/// Default for the longest silence of a collector.
pub const SILENCE: Duration = Duration::from_secs(30);
/// Reads from a connection before more is sent.
const TURN_READS: usize = 4;

/// Destination of frames.
#[derive(Clone, Debug)]
pub struct Target {
    /// Addresses of the collector, tried in turn.
    pub addresses: Vec<SocketAddr>,
    /// TLS configuration; `None` for no TLS.
    pub tls: Option<Arc<ClientConfig>>,
    /// Proof that the sender may send.
    pub proof: Proof,
    /// Give up if nothing reached the collector for this long while there is something to send; `None` to try forever.
    pub give_up: Option<Duration>,
    /// Silence after which the collector counts as gone, for instance [`SILENCE`].
    pub silence: Duration,
}

/// What to send.
#[derive(Debug)]
pub enum Input {
    /// A file or folder; if true, it is followed until its producers have ended.
    Path(PathBuf, bool),
    /// The first path contains what was [cut](crate::since::cut) out of the stream at the second.
    Cut(PathBuf, PathBuf),
    /// Data from a pipe, and the spool that stores it until it is sent.
    Pipe(File, Box<Spool>),
}

/// Result of sending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames sent in this run that the collector has on disk.
    pub frames: u64,
    /// Data records in these frames.
    pub records: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Frames that the collector already had.
    pub already: u64,
    /// Number of connections after the first.
    pub reconnects: u64,
    /// Records dropped because the spool was full, and the number of frames they were in.
    pub dropped: (u64, u64),
    /// Frames not sent because they are damaged or larger than the collector allows.
    pub unsent: u64,
    /// Bytes that do not belong to frames.
    pub other_bytes: u64,
    /// Buffers not sent because a program is still writing them, or may be, since the sender was interrupted.
    pub left_open: u64,
    /// Whether the buffers were left although no program is writing them.
    pub is_left_alone: bool,
    /// Whether everything available was acknowledged.
    pub is_complete: bool,
    /// Whether the sender was interrupted while the stream could still grow.
    pub is_cut: bool,
    /// Whether the source has any frame.
    pub has_frames: bool,
}

impl Sent {
    /// Whether the collector has the whole source.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_complete
            && !self.is_cut
            && self.dropped.1 == 0
            && self.unsent == 0
            && self.other_bytes == 0
            && self.left_open == 0
    }
}

/// Why nothing more can be sent.
#[derive(Debug)]
pub enum Failure {
    /// The collector refused.
    Refused(Fault),
    /// TLS refused: one side does not trust the other, or does not speak TLS.
    Distrust(io::Error),
    /// No connection could be made for too long, or all of them broke.
    Unreachable(io::Error),
    /// The source cannot be read, or the spool cannot be written.
    Source(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(fault) => write!(f, "the collector refuses: {fault}"),
            Failure::Distrust(error) => match distrust(error) {
                Some(why) => write!(f, "no trust between sender and collector: {why}"),
                None => write!(f, "no trust between sender and collector: {error}"),
            },
            Failure::Unreachable(error) => write!(f, "the collector cannot be reached: {error}"),
            Failure::Source(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Explains why TLS refused, for people who set up both sides.
fn distrust(error: &io::Error) -> Option<&'static str> {
    use rustls::{AlertDescription as Alert, CertificateError as Wrong, Error};
    Some(match error.get_ref()?.downcast_ref::<Error>()? {
        Error::InvalidCertificate(Wrong::UnknownIssuer) => {
            "the collector shows another certificate than the one whose fingerprint is known here"
        }
        Error::InvalidCertificate(Wrong::Expired) => "the collector's certificate has expired",
        Error::InvalidCertificate(Wrong::NotValidYet) => {
            "the collector's certificate is not valid yet; one of the clocks may be wrong"
        }
        Error::InvalidCertificate(_) => "the collector's certificate is none that can be checked",
        Error::AlertReceived(Alert::UnknownCA) => "the collector does not know the sender's certificate",
        Error::AlertReceived(Alert::CertificateExpired) => {
            "the sender's certificate has expired or is not valid yet"
        }
        Error::AlertReceived(Alert::CertificateRequired) => "the collector wants a certificate of the sender",
        Error::InvalidMessage(_) | Error::PeerIncompatible(_) => "what answers does not speak TLS 1.3",
        _ => return None,
    })
}

/// An event to show to the user.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A connection was made.
    Connected(SocketAddr),
    /// A connection could not be made, or broke; it will be tried again.
    Lost(SocketAddr, &'a str),
    /// Progress so far.
    Progress(&'a Sent),
}

/// A frame that was sent but not acknowledged.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    producer: u64,
    stream: u32,
    seq: u64,
    records: u32,
    bytes: u32,
}

/// A connection, and the state of sending over it.
struct Session {
    link: Link,
    sender: Sender,
    is_established: bool,
    began: Instant,
    heard: Instant,
    said: Instant,
    source: Source,
    shipper: Shipper,
    /// The next item, which cannot be judged before the collector has answered.
    pending: Option<Item>,
    /// The message that is being written, and the number of bytes written.
    staged: Vec<u8>,
    staged_at: usize,
    in_flight: VecDeque<InFlight>,
    /// By producer and stream, the records that frames sent over this connection contain or report as lost.
    told: FxHashMap<(u64, u32), u64>,
    /// By producer and stream, the number of the last frame with records that was read.
    newest: FxHashMap<(u64, u32), u64>,
    /// Files that were read to their end, each with the number of frames sent by then.
    finished: VecDeque<(u64, PathBuf)>,
    is_at_end: bool,
    unsent: u64,
    is_over: bool,
}

/// Why a connection ended.
enum End {
    /// Everything is acknowledged.
    Bye,
    /// The connection broke.
    Broken(String),
    /// The collector refused, but may accept later.
    Later(Fault),
    /// Another connection would fail, too.
    Failed(Failure),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Broken(error.to_string())
    }
}

fn of_source(error: io::Error) -> End {
    End::Failed(Failure::Source(error))
}

/// Records of a stream before a frame that the collector lacks: those that it has, knows to be lost, or is being sent.
fn told_before(sender: &Sender, told: &FxHashMap<(u64, u32), u64>, header: &Header) -> u64 {
    let own = told.get(&(header.producer, header.stream)).copied().unwrap_or(0);
    sender.told_before(header).saturating_add(own)
}

/// Corrects the losses in a frame header of a flight recorder. If its oldest segment was overwritten, the first remaining
/// frame of each stream reports how many records preceded it; those that were sent, in this run or an earlier one, are not
/// lost.
fn forget_what_was_sent(session: &mut Session, header: &mut Header) -> io::Result<()> {
    let who = (header.producer, header.stream);
    let Some(gone) = session.source.overwritten(header.producer, header.stream)? else { return Ok(()) };
    if session.newest.get(&who).is_some_and(|newest| *newest > gone.last) {
        // This is not the first remaining frame, so its losses are only those of the writer.
        return Ok(());
    }
    let is_counted = header.lost < LOST_MANY || header.seq <= gone.last;
    let lost = if is_counted { header.lost.into() } else { gone.records };
    let told = told_before(&session.sender, &session.told, header);
    if let Some(lost) = lost.checked_sub(told) {
        header.lost = u32::try_from(lost).unwrap_or(LOST_MANY);
    }
    Ok(())
}

struct Loop<'l> {
    target: &'l Target,
    path: PathBuf,
    /// The stream that `path` was cut out of.
    recorder: Option<PathBuf>,
    follows: bool,
    pipe: Option<(File, Box<Spool>)>,
    is_pipe_over: bool,
    session: Option<Session>,
    retry_at: Instant,
    pause: Duration,
    n_tries: usize,
    /// Since when nothing has reached the collector.
    alone_since: Instant,
    /// The reason for that.
    alone_because: Failure,
    /// Numbers of frames that the collector has, by producer and stream.
    delivered: FxHashMap<(u64, u32), Ranges>,
    /// Frames of broken connections that were not acknowledged: the collector may have them.
    unsure: Vec<InFlight>,
    sent: Sent,
    is_first: bool,
    scratch: Vec<u8>,
    stored: Vec<u8>,
}

/// Sends until all producers of the source have ended and everything is acknowledged, or until `is_interrupted` returns true.
/// After an interruption, what is available is still sent if the collector accepts it without delay.
///
/// # Errors
/// See [`Failure`]. The error also contains what was sent before it.
pub fn send(
    target: &Target,
    input: Input,
    is_interrupted: &dyn Fn() -> bool,
    notice: &mut dyn FnMut(Notice<'_>),
) -> Result<Sent, (Failure, Sent)> {
    let now = Instant::now();
    if target.addresses.is_empty() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it has no address");
        return Err((Failure::Unreachable(error), Sent::default()));
    }
    let mut recorder = None;
    let (path, follows, pipe) = match input {
        Input::Path(path, follows) => (path, follows, None),
        Input::Cut(path, of) => {
            recorder = Some(of);
            (path, false, None)
        }
        Input::Pipe(file, spool) => (spool.folder().to_owned(), true, Some((file, spool))),
    };
    let mut all = Loop {
        target,
        path,
        recorder,
        follows,
        pipe,
        is_pipe_over: false,
        session: None,
        retry_at: now,
        pause: FIRST_PAUSE,
        n_tries: 0,
        alone_since: now,
        alone_because: Failure::Unreachable(io::ErrorKind::TimedOut.into()),
        delivered: FxHashMap::default(),
        unsure: Vec::new(),
        sent: Sent::default(),
        is_first: true,
        scratch: vec![0; READ_BYTES],
        stored: Vec::new(),
    };
    let done = all.run(is_interrupted, notice);
    if let Some((_, spool)) = &all.pipe {
        all.sent.dropped = spool.n_dropped();
        all.sent.other_bytes += spool.other_bytes;
    }
    match done {
        Ok(()) => Ok(all.sent),
        Err(failure) => Err((failure, all.sent)),
    }
}

impl Loop<'_> {
    fn run(
        &mut self,
        is_interrupted: &dyn Fn() -> bool,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), Failure> {
        let mut failed: Option<Failure> = None;
        let mut interrupted: Option<Instant> = None;
        loop {
            if interrupted.is_none() && is_interrupted() {
                interrupted = Some(Instant::now());
                self.end_pipe();
            }
            // After an interruption, available frames are sent, but only within a time limit.
            let is_late = interrupted.is_some_and(|since| {
                since.elapsed() > GREETING || self.session.is_none() || failed.is_some()
            });
            if is_late {
                return failed.map_or(Ok(()), Err);
            }
            if let Some(failure) = failed.take() {
                // The program that writes into the pipe must not be disturbed, so the pipe is drained first.
                if self.pipe.is_none() || self.is_pipe_over {
                    return Err(failure);
                }
                failed = Some(failure);
            }
            let now = Instant::now();
            if self.session.is_none() && failed.is_none() && now >= self.retry_at {
                self.connect(notice)?;
            }
            self.wait(failed.is_none())?;
            let is_over = interrupted.is_some() || self.is_pipe_over || !self.follows;
            let Some(mut session) = self.session.take() else {
                if let Some(limit) = self.target.give_up.filter(|_| failed.is_none())
                    && self.alone_since.elapsed() > limit
                {
                    let because = Failure::Unreachable(io::ErrorKind::TimedOut.into());
                    failed = Some(std::mem::replace(&mut self.alone_because, because));
                }
                continue;
            };
            session.is_over = is_over;
            session.source.is_spool = self.pipe.is_some();
            session.source.leaves_open = interrupted.is_some() && self.follows && self.pipe.is_none();
            match self.turn(&mut session, notice) {
                Ok(()) => self.session = Some(session),
                Err(End::Bye) => {
                    self.settle(&session);
                    self.sent.is_complete = interrupted.is_none() || session.is_at_end;
                    self.sent.is_cut = interrupted.is_some() && self.follows && !session.source.has_ended();
                    return Ok(());
                }
                Err(End::Broken(why)) => {
                    self.settle(&session);
                    let error = io::Error::other(why.clone());
                    self.lose(&why, Failure::Unreachable(error), notice);
                }
                Err(End::Later(fault)) => {
                    self.settle(&session);
                    self.lose(&fault.text.clone(), Failure::Refused(fault), notice);
                }
                Err(End::Failed(failure)) => {
                    self.settle(&session);
                    failed = Some(failure);
                }
            }
        }
    }

    fn address(&self) -> SocketAddr {
        self.target.addresses[self.n_tries.saturating_sub(1) % self.target.addresses.len()]
    }

    /// Schedules the next attempt to connect.
    fn lose(&mut self, why: &str, because: Failure, notice: &mut dyn FnMut(Notice<'_>)) {
        notice(Notice::Lost(self.address(), why));
        self.alone_because = because;
        self.retry_at = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Takes over what an ended connection has found out about the source.
    fn settle(&mut self, session: &Session) {
        self.unsure.extend(&session.in_flight);
        self.sent.unsent = session.unsent;
        self.sent.other_bytes = session.source.other_bytes;
        self.sent.left_open = session.source.left_open;
        self.sent.is_left_alone = session.source.is_left_alone;
        // A collector that admits a sender and then accepts nothing counts as unreachable.
        let n_acked = session.sender.n_sent() - session.sender.n_unacked();
        let is_welcome = session.sender.max_frame_bytes().is_some();
        if is_welcome && (n_acked > 0 || session.began.elapsed() > LONGEST_PAUSE) {
            (self.pause, self.alone_since) = (FIRST_PAUSE, Instant::now());
        }
    }

    fn connect(&mut self, notice: &mut dyn FnMut(Notice<'_>)) -> Result<(), Failure> {
        self.n_tries += 1;
        let address = self.address();
        let link = match Link::connect(address, self.target.tls.as_ref()) {
            Ok(link) => link,
            Err(error) => {
                self.lose(&error.to_string(), Failure::Unreachable(error), notice);
                return Ok(());
            }
        };
        let mut source = Source::open(&self.path).map_err(|error| {
            let what = format!("cannot read {}: {error}", self.path.display());
            Failure::Source(io::Error::new(error.kind(), what))
        })?;
        source.recorder = self.recorder.clone().or(source.recorder);
        let now = Instant::now();
        self.session = Some(Session {
            link,
            sender: Sender::new(self.target.proof),
            is_established: false,
            began: now,
            heard: now,
            said: now,
            source,
            shipper: Shipper::new(),
            pending: None,
            staged: Vec::new(),
            staged_at: 0,
            in_flight: VecDeque::new(),
            told: FxHashMap::default(),
            newest: FxHashMap::default(),
            finished: VecDeque::new(),
            is_at_end: false,
            unsent: 0,
            is_over: false,
        });
        Ok(())
    }

    /// Waits until something can be read or written, and reads the pipe.
    fn wait(&mut self, may_send: bool) -> Result<(), Failure> {
        let mut polled = Vec::with_capacity(2);
        let mut timeout = GLANCE;
        let has_pipe = !self.is_pipe_over;
        if let Some((pipe, _)) = self.pipe.as_ref().filter(|_| has_pipe) {
            polled.push(PollFd::new(pipe, PollFlags::IN));
        }
        if let Some(session) = self.session.as_ref().filter(|_| may_send) {
            let mut wanted = PollFlags::IN;
            if !session.is_established
                || session.link.wants_write()
                || session.staged_at < session.staged.len()
            {
                wanted |= PollFlags::OUT;
            }
            polled.push(PollFd::new(&session.link, wanted));
        } else if may_send {
            timeout = timeout.min(self.retry_at.saturating_duration_since(Instant::now()));
        }
        let wait = Timespec { tv_sec: 0, tv_nsec: timeout.as_nanos() as _ }; // Less than a second.
        match poll(&mut polled, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::Source(error.into())),
        }
        let can_read =
            self.pipe.is_some() && has_pipe && polled.first().is_some_and(|pipe| !pipe.revents().is_empty());
        drop(polled);
        if can_read {
            self.read_pipe()?;
        }
        Ok(())
    }

    fn read_pipe(&mut self) -> Result<(), Failure> {
        let Some((pipe, spool)) = &mut self.pipe else { return Ok(()) };
        match pipe.read(&mut self.scratch) {
            Ok(0) => self.end_pipe(),
            Ok(n) => spool.take(&self.scratch[..n]).map_err(|error| {
                let what = format!("cannot write to the spool {}: {error}", spool.folder().display());
                Failure::Source(io::Error::new(error.kind(), what))
            })?,
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => return Err(Failure::Source(error)),
        }
        Ok(())
    }

    fn end_pipe(&mut self) {
        if let Some((_, spool)) = &mut self.pipe
            && !std::mem::replace(&mut self.is_pipe_over, true)
        {
            spool.finish();
        }
    }

    /// Handles events of a connection.
    fn turn(&mut self, session: &mut Session, notice: &mut dyn FnMut(Notice<'_>)) -> Result<(), End> {
        let now = Instant::now();
        if !session.is_established {
            session.link.established()?;
            if session.link.peer().is_none() {
                if now.duration_since(session.began) > GREETING {
                    return Err(End::Broken("connecting took too long".to_owned()));
                }
                return Ok(());
            }
            session.is_established = true;
        }
        self.read(session, notice)?;
        self.fill(session, now)?;
        if session.sender.max_frame_bytes().is_none() && now.duration_since(session.began) > GREETING {
            return Err(End::Broken("the collector does not answer".to_owned()));
        }
        if now.duration_since(session.heard) > self.target.silence {
            return Err(End::Broken("the collector is silent".to_owned()));
        }
        if now.duration_since(session.said.max(session.heard)) > PING_AFTER
            && session.sender.max_frame_bytes().is_some()
        {
            session.said = now;
            session.sender.ping();
            session.link.write(&session.sender.take_out())?;
            session.link.flush()?;
        }
        notice(Notice::Progress(&self.sent));
        Ok(())
    }

    fn read(&mut self, session: &mut Session, notice: &mut dyn FnMut(Notice<'_>)) -> Result<(), End> {
        let mut events = Vec::new();
        let mut wrong = None;
        let (mut is_closed, mut is_heard) = (false, false);
        for _ in 0..TURN_READS {
            let sender = &mut session.sender;
            let mut take = |bytes: &[u8]| {
                let mut input = bytes;
                is_heard = true;
                loop {
                    match sender.next(&mut input) {
                        Ok(Some(event)) => events.push(event),
                        Ok(None) => return Ok(()),
                        Err(fault) => {
                            wrong = Some(fault);
                            return Err(io::ErrorKind::InvalidData.into());
                        }
                    }
                }
            };
            let read = session.link.read(&mut self.scratch, &mut take);
            match read {
                Ok(Progress::More) => {}
                Ok(Progress::Nothing) => break,
                Ok(Progress::Closed) => {
                    is_closed = true;
                    break;
                }
                Err(error) => {
                    let is_new = session.sender.max_frame_bytes().is_none();
                    if let Some(fault) = wrong {
                        let what = format!("what answers is no collector, or one that wants TLS: {fault}");
                        return Err(End::Failed(match is_new {
                            true => Failure::Distrust(io::Error::new(io::ErrorKind::InvalidData, what)),
                            false => Failure::Refused(fault),
                        }));
                    }
                    if error.kind() == io::ErrorKind::InvalidData && is_new {
                        return Err(End::Failed(Failure::Distrust(error)));
                    }
                    return Err(error.into());
                }
            }
        }
        if is_heard {
            session.heard = Instant::now();
        }
        for event in events {
            match event {
                Event::Welcome(_) => {
                    if !std::mem::take(&mut self.is_first) {
                        self.sent.reconnects += 1;
                    }
                    notice(Notice::Connected(self.address()));
                }
                Event::Have(producer) => {
                    let of_it = |frame: &mut InFlight| frame.producer == producer;
                    for frame in self.unsure.extract_if(.., of_it).collect::<Vec<_>>() {
                        let InFlight { producer, stream, seq, .. } = frame;
                        let header = Header { producer, stream, seq, ..Header::default() };
                        if session.sender.judge(&header) == Verdict::Skip {
                            self.deliver(&frame);
                        }
                    }
                }
                Event::Ack(n) => self.acknowledge(session, n)?,
                Event::Bye => {
                    let n = session.sender.n_sent();
                    self.acknowledge(session, n)?;
                    return Err(End::Bye);
                }
                Event::Refused(fault) if fault.code.is_passing() => return Err(End::Later(fault)),
                Event::Refused(fault) => return Err(End::Failed(Failure::Refused(fault))),
            }
        }
        if is_closed {
            return Err(End::Broken("the collector closed the connection".to_owned()));
        }
        Ok(())
    }

    /// Notes that the collector has the first `n` frames of this connection.
    fn acknowledge(&mut self, session: &mut Session, n: u64) -> Result<(), End> {
        let n_before = session.sender.n_sent() - session.in_flight.len() as u64;
        let n_new = usize::try_from(n.saturating_sub(n_before)).unwrap_or(usize::MAX);
        for frame in session.in_flight.drain(..n_new.min(session.in_flight.len())) {
            self.deliver(&frame);
        }
        while let Some((_, path)) = session.finished.front().filter(|(at, _)| *at <= n).cloned() {
            session.finished.pop_front();
            if let Some((_, spool)) = &mut self.pipe {
                spool.remove(&path).map_err(of_source)?;
            }
        }
        Ok(())
    }

    /// Counts a frame that the collector has.
    fn deliver(&mut self, frame: &InFlight) {
        let known = self.delivered.entry((frame.producer, frame.stream)).or_default();
        if !known.contains(frame.seq) {
            known.insert(frame.seq..frame.seq.saturating_add(1));
            self.sent.frames += 1;
            self.sent.records += u64::from(frame.records);
            self.sent.bytes += u64::from(frame.bytes);
        }
    }

    /// Passes frames to the connection as long as it accepts them.
    fn fill(&mut self, session: &mut Session, now: Instant) -> Result<(), End> {
        let out = session.sender.take_out();
        session.link.write(&out)?;
        session.link.flush()?;
        if session.sender.max_frame_bytes().is_none() {
            return Ok(());
        }
        for _ in 0..64 {
            if session.link.wants_write() {
                return Ok(());
            }
            let mut n = 0;
            while n < FILL_BYTES {
                if session.staged_at == session.staged.len() && !self.stage(session)? {
                    break;
                }
                let left = &session.staged[session.staged_at..];
                let part = &left[..left.len().min(FILL_BYTES)];
                session.link.write(part)?;
                n += part.len();
                session.staged_at += part.len();
            }
            let out = session.sender.take_out();
            session.link.write(&out)?;
            session.link.flush()?;
            if n == 0 && out.is_empty() {
                return Ok(());
            }
            session.said = now;
            // Returns, so that the pipe is emptied meanwhile.
            if self.pipe.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Prepares the next frame; false if there is none now.
    fn stage(&mut self, session: &mut Session) -> Result<bool, End> {
        loop {
            let item = match session.pending.take() {
                Some(item) => item,
                None if session.is_at_end => return Ok(false),
                None => session.source.next(session.is_over).map_err(of_source)?,
            };
            let mut header = match &item {
                Item::Frame(frame) => frame.header,
                Item::Closed(header, _) => *header,
                Item::FileEnd(path) => {
                    session.finished.push_back((session.sender.n_sent(), path.clone()));
                    // All of its frames may have been acknowledged already.
                    let n = session.sender.n_sent() - session.in_flight.len() as u64;
                    self.acknowledge(session, n)?;
                    continue;
                }
                Item::Nothing => return Ok(false),
                Item::End => {
                    session.is_at_end = true;
                    session.sender.done();
                    return Ok(false);
                }
            };
            self.sent.has_frames = true;
            let most = session.sender.max_frame_bytes().unwrap_or_default();
            // An index is sent as padding, so its size does not matter.
            let is_small =
                matches!(header.kind, kind::INDEX | kind::PAD) || header.frame_len() <= most.into();
            if !header.is_within_limits() || !is_small {
                session.unsent += 1;
                continue;
            }
            let verdict = session.sender.judge(&header);
            if verdict == Verdict::Wait {
                session.pending = Some(item);
                let out = session.sender.take_out();
                session.link.write(&out)?;
                return Ok(false);
            }
            if matches!(item, Item::Closed(..)) {
                session.shipper.note_closed(&header);
            }
            let who = (header.producer, header.stream);
            if matches!(header.kind, kind::DATA | kind::AGG) {
                if header.lost > 0 && verdict == Verdict::Send {
                    forget_what_was_sent(session, &mut header).map_err(of_source)?;
                }
                let newest = session.newest.entry(who).or_default();
                *newest = header.seq.max(*newest);
            }
            let mut in_flight = InFlight {
                producer: header.producer,
                stream: header.stream,
                seq: header.seq,
                records: if header.kind == kind::DATA { header.records } else { 0 },
                bytes: header.frame_len() as u32, // Within the limits.
            };
            if verdict == Verdict::Skip {
                if self.sent.reconnects > 0 {
                    self.deliver(&in_flight);
                } else {
                    self.sent.already += 1;
                }
                continue;
            }
            let mut stored = match item {
                Item::Closed(_, stored) => stored,
                Item::Frame(frame) => {
                    let mut stored = std::mem::take(&mut self.stored);
                    session.source.stored(&frame, &mut stored).map_err(of_source)?;
                    stored
                }
                Item::FileEnd(_) | Item::Nothing | Item::End => continue,
            };
            if !is_whole(&header, &stored) {
                session.unsent += 1;
                self.stored = stored;
                continue;
            }
            self.ship(session, &header, &mut stored)?;
            self.stored = stored;
            in_flight.bytes = (session.staged.len() - crate::message::HEAD_BYTES) as u32; // A frame.
            let told = session.told.entry(who).or_default();
            *told = told.saturating_add(have::told(&header));
            session.in_flight.push_back(in_flight);
            return Ok(true);
        }
    }

    fn ship(&mut self, session: &mut Session, header: &Header, stored: &mut [u8]) -> Result<(), End> {
        session.staged.clear();
        session.staged.extend_from_slice(&[0; crate::message::HEAD_BYTES]);
        let Session { shipper, sender, told, staged, source, .. } = session;
        let shipped = match header.kind == kind::LOSS && source.says_what_went() {
            true => {
                shipper.ship_overwritten(header, stored, |up_to| told_before(sender, told, up_to), staged)
            }
            false => shipper.ship(header, stored, staged),
        };
        shipped.map_err(of_source)?;
        let len = (session.staged.len() - crate::message::HEAD_BYTES) as u32; // A frame.
        let head = session.sender.frame(len);
        session.staged[..crate::message::HEAD_BYTES].copy_from_slice(&head);
        session.staged_at = 0;
        Ok(())
    }
}
