//! The collector's side of a connection, as a state machine without I/O.
//!
//! `docs/collect.md` describes it (section on the collector).

use crate::have::Have;
use crate::message::{self, Code, Fault, From, Hello, MAX_TEXT_BYTES, Parser, Part, Proof, VERSION, kind};
use quipu_stream::frame::{HEADER_BYTES, Header, SYNC, TRAILER, TRAILER_BYTES};
use quipu_stream::wire::crc32c_append;
use rustc_hash::FxHashSet;

/// Maximum number of producers per connection.
pub const MAX_PRODUCERS: usize = 1024;

/// An event from a sender.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The sender presents its proof; nothing else follows before [`Receiver::welcome`].
    Hello(Proof),
    /// The sender announces frames of a producer; none follow before [`Receiver::have`].
    Begin(u64),
    /// A frame begins.
    Frame(Header),
    /// Bytes of the frame, from its header to its trailer.
    Bytes(&'a [u8]),
    /// The frame is complete, and its checksums are correct.
    FrameEnd(Header),
    /// The sender asks for an acknowledgement.
    Ping,
    /// Nothing more follows; answer with [`Receiver::bye`].
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Hello,
    Judged,
    Open,
    Done,
}

/// A frame that is being received.
#[derive(Debug)]
struct Coming {
    len: u64,
    at: u64,
    header: Option<Header>,
    /// Whether the bytes of the header were returned.
    is_header_given: bool,
    crc: u32,
    /// Padding and trailer received so far.
    end: Vec<u8>,
}

/// The receiving state of a connection.
#[derive(Debug)]
pub struct Receiver {
    parser: Parser,
    phase: Phase,
    /// Bytes of an incomplete frame header.
    head: Vec<u8>,
    coming: Option<Coming>,
    /// Producers that the sender began, and those whose HAVE was sent.
    asked: FxHashSet<u64>,
    begun: FxHashSet<u64>,
    n_frames: u64,
    n_acked: u64,
    max_frame_bytes: u32,
    out: Vec<u8>,
}

impl Receiver {
    /// Creates the state of a new connection. Frames larger than `max_frame_bytes` are refused.
    #[must_use]
    pub fn new(max_frame_bytes: u32) -> Receiver {
        Receiver {
            parser: Parser::new(From::Sender),
            phase: Phase::Hello,
            head: Vec::new(),
            coming: None,
            asked: FxHashSet::default(),
            begun: FxHashSet::default(),
            n_frames: 0,
            n_acked: 0,
            max_frame_bytes,
            out: Vec::new(),
        }
    }

    /// Removes and returns the output for the sender.
    pub fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Whether there is output for the sender.
    #[must_use]
    pub fn has_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// Number of complete frames received.
    #[must_use]
    pub fn n_frames(&self) -> u64 {
        self.n_frames
    }

    /// Whether the sender was admitted.
    #[must_use]
    pub fn is_welcome(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Done)
    }

    /// Parses the next event from the front of `input`; `None` if more is needed.
    ///
    /// # Errors
    /// If the sender violates the protocol. The connection must end.
    pub fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Result<Option<Event<'s>>, Fault> {
        if let Some(coming) = &mut self.coming {
            let Some(header) = coming.header else {
                // Only the header is copied: the payload is returned without a copy.
                let n = (HEADER_BYTES - self.head.len()).min(input.len());
                let (mut front, rest) = input.split_at(n);
                if let Some(Part::Bytes(bytes)) = self.parser.next(&mut front)? {
                    self.head.extend_from_slice(bytes);
                }
                *input = rest;
                let Some(header) = read_header(&self.head)? else { return Ok(None) };
                check(&header, coming.len, &self.begun)?;
                (coming.header, coming.at) = (Some(header), HEADER_BYTES as u64);
                return Ok(Some(Event::Frame(header)));
            };
            if !std::mem::replace(&mut coming.is_header_given, true) {
                return Ok(Some(Event::Bytes(&self.head)));
            }
            if coming.at == coming.len {
                check_end(&header, coming)?;
                self.coming = None;
                self.n_frames += 1;
                return Ok(Some(Event::FrameEnd(header)));
            }
            let Some(Part::Bytes(bytes)) = self.parser.next(input)? else { return Ok(None) };
            take_payload(coming, &header, bytes);
            return Ok(Some(Event::Bytes(bytes)));
        }
        let Some(part) = self.parser.next(input)? else { return Ok(None) };
        match (self.phase, part) {
            (Phase::Hello, Part::Message(kind::HELLO, body)) => {
                let hello = Hello::read(body).ok_or_else(|| Fault::malformed("no greeting"))?;
                if !(hello.lowest..=hello.highest).contains(&VERSION) {
                    let text = format!("this collector speaks version {VERSION} of the protocol");
                    return Err(Fault::new(Code::Version, text));
                }
                self.phase = Phase::Judged;
                Ok(Some(Event::Hello(hello.proof)))
            }
            (Phase::Open, Part::Message(kind::BEGIN, body)) => {
                let producer = message::number(body);
                if self.asked.len() >= MAX_PRODUCERS {
                    return Err(Fault::new(Code::Limit, "too many producers in one connection"));
                }
                if !self.asked.insert(producer) {
                    return Err(Fault::malformed("a producer that was begun before"));
                }
                Ok(Some(Event::Begin(producer)))
            }
            (Phase::Open, Part::Frame(len)) => {
                if len > self.max_frame_bytes {
                    let text = format!("a frame of {len} bytes; {} are allowed", self.max_frame_bytes);
                    return Err(Fault::new(Code::Limit, text));
                }
                self.head.clear();
                self.coming = Some(Coming {
                    len: len.into(),
                    at: 0,
                    header: None,
                    is_header_given: false,
                    crc: 0,
                    end: Vec::new(),
                });
                self.next(input)
            }
            (Phase::Open, Part::Message(kind::PING, _)) => Ok(Some(Event::Ping)),
            (Phase::Open, Part::Message(kind::DONE, _)) => {
                self.phase = Phase::Done;
                Ok(Some(Event::Done))
            }
            _ => Err(Fault::malformed("a message at a time when it means nothing")),
        }
    }

    /// Admits the sender.
    pub fn welcome(&mut self) {
        self.phase = Phase::Open;
        let [a, b] = VERSION.to_le_bytes();
        let [c, d, e, f] = self.max_frame_bytes.to_le_bytes();
        message::put(kind::WELCOME, &[a, b, 0, 0, c, d, e, f], &mut self.out);
    }

    /// Tells the sender which frames of a producer are present.
    pub fn have(&mut self, producer: u64, have: &Have) {
        self.begun.insert(producer);
        message::put(kind::HAVE, &have.to_bytes(producer), &mut self.out);
    }

    /// Acknowledges that the first `n` frames of the connection are on disk. A smaller `n` repeats the last acknowledgement.
    pub fn ack(&mut self, n: u64) {
        self.n_acked = self.n_acked.max(n);
        message::put(kind::ACK, &self.n_acked.to_le_bytes(), &mut self.out);
    }

    /// Number of acknowledged frames.
    #[must_use]
    pub fn n_acked(&self) -> u64 {
        self.n_acked
    }

    /// Sends the final message: all frames are on disk.
    pub fn bye(&mut self) {
        message::put(kind::BYE, &self.n_frames.to_le_bytes(), &mut self.out);
    }

    /// Sends the final message: the reason why the connection ends.
    pub fn refuse(&mut self, fault: &Fault) {
        let mut body = (fault.code as u16).to_le_bytes().to_vec();
        let mut end = fault.text.len().min(MAX_TEXT_BYTES);
        while !fault.text.is_char_boundary(end) {
            end -= 1;
        }
        body.extend_from_slice(&fault.text.as_bytes()[..end]);
        message::put(kind::ERROR, &body, &mut self.out);
    }
}

/// Parses the frame header once it is complete. All headers in transit have 96 bytes.
fn read_header(bytes: &[u8]) -> Result<Option<Header>, Fault> {
    if bytes.len() < HEADER_BYTES {
        return Ok(None);
    }
    if !bytes.starts_with(&SYNC) {
        return Err(Fault::malformed("a frame without its mark"));
    }
    Header::read(bytes).map(Some).map_err(|_| Fault::malformed("a frame with a damaged header"))
}

fn check(header: &Header, len: u64, begun: &FxHashSet<u64>) -> Result<(), Fault> {
    use quipu_stream::frame::kind::{INDEX, OPEN};
    let wrong = if header.frame_len() != len {
        "a frame of another length than its message"
    } else if usize::from(header.words) * 8 != HEADER_BYTES || header.meta_back != 0 {
        "a header that may not travel"
    } else if matches!(header.kind, INDEX | OPEN) {
        "a frame of a kind that may not travel"
    } else if !header.is_within_limits() {
        "a frame beyond the limits of streams"
    } else if !begun.contains(&header.producer) {
        "a frame of a producer that was not begun"
    } else {
        return Ok(());
    };
    Err(Fault::malformed(wrong))
}

/// Processes bytes after the header.
fn take_payload(coming: &mut Coming, header: &Header, bytes: &[u8]) {
    let payload_end = header.len_bytes() + u64::from(header.stored_len);
    let left = usize::try_from(payload_end.saturating_sub(coming.at)).unwrap_or(usize::MAX);
    let (payload, end) = bytes.split_at(left.min(bytes.len()));
    coming.crc = crc32c_append(coming.crc, payload);
    coming.end.extend_from_slice(end);
    coming.at += bytes.len() as u64;
}

fn check_end(header: &Header, coming: &Coming) -> Result<(), Fault> {
    if coming.crc != header.payload_crc {
        return Err(Fault::malformed("a frame whose payload is damaged"));
    }
    let (padding, trailer) = coming.end.split_at(coming.end.len().saturating_sub(TRAILER_BYTES));
    let len = (header.frame_len() as u32).to_le_bytes(); // Within the limits.
    if padding.iter().any(|byte| *byte != 0) || trailer != [len, TRAILER].concat() {
        return Err(Fault::malformed("a frame whose end is damaged"));
    }
    Ok(())
}
