//! The collector's side of a connection, without I/O.
//!
//! `docs/collect.md` describes it (the collector).

use crate::have::Have;
use crate::message::{self, Code, Fault, From, Hello, MAX_TEXT_BYTES, Parser, Part, Proof, VERSION, kind};
use quipu_stream::frame::{HEADER_BYTES, Header, SYNC, TRAILER, TRAILER_BYTES};
use quipu_stream::wire::crc32c_append;
use rustc_hash::FxHashSet;

/// Producers of one connection at most.
pub const MAX_PRODUCERS: usize = 1024;

/// What a sender did.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It shows why it should be let in; nothing else comes before [`Receiver::welcome`].
    Hello(Proof),
    /// Frames of a producer will come; none does before [`Receiver::have`].
    Begin(u64),
    /// A frame comes.
    Frame(Header),
    /// Bytes of it, from its header to its trailer.
    Bytes(&'a [u8]),
    /// It is whole, and its checksums are right.
    FrameEnd(Header),
    /// It asks for an acknowledgement.
    Ping,
    /// Nothing more comes; the answer is [`Receiver::bye`].
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Hello,
    Judged,
    Open,
    Done,
}

/// A frame that comes.
#[derive(Debug)]
struct Coming {
    len: u64,
    at: u64,
    header: Option<Header>,
    /// Whether the bytes of the header were given out.
    is_header_given: bool,
    crc: u32,
    /// Padding and trailer, as far as they came.
    end: Vec<u8>,
}

/// The state of a connection.
#[derive(Debug)]
pub struct Receiver {
    parser: Parser,
    phase: Phase,
    /// The header that comes.
    head: Vec<u8>,
    coming: Option<Coming>,
    /// Producers that were begun, and those whose HAVE was sent.
    asked: FxHashSet<u64>,
    begun: FxHashSet<u64>,
    n_frames: u64,
    n_acked: u64,
    max_frame_bytes: u32,
    out: Vec<u8>,
}

impl Receiver {
    /// A new connection. Larger frames are refused.
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

    /// Bytes for the sender; they are taken away.
    pub fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Whether there are some.
    #[must_use]
    pub fn has_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// Frames that came whole.
    #[must_use]
    pub fn n_frames(&self) -> u64 {
        self.n_frames
    }

    /// Whether the sender was let in.
    #[must_use]
    pub fn is_welcome(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Done)
    }

    /// Takes what it can from the front of `input`; `None` if more is needed.
    ///
    /// # Errors
    /// If the sender may not do that. The connection is to end.
    pub fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Result<Option<Event<'s>>, Fault> {
        if let Some(coming) = &mut self.coming {
            let Some(header) = coming.header else {
                // No more than the header is taken: the rest is given out without a copy.
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

    /// Lets the sender in.
    pub fn welcome(&mut self) {
        self.phase = Phase::Open;
        let [a, b] = VERSION.to_le_bytes();
        let [c, d, e, f] = self.max_frame_bytes.to_le_bytes();
        message::put(kind::WELCOME, &[a, b, 0, 0, c, d, e, f], &mut self.out);
    }

    /// Says which frames of a producer are there.
    pub fn have(&mut self, producer: u64, have: &Have) {
        self.begun.insert(producer);
        message::put(kind::HAVE, &have.to_bytes(producer), &mut self.out);
    }

    /// Says that the first `n` frames of the connection are on the disk, and which those are if that is asked for again.
    pub fn ack(&mut self, n: u64) {
        self.n_acked = self.n_acked.max(n);
        message::put(kind::ACK, &self.n_acked.to_le_bytes(), &mut self.out);
    }

    /// Frames that were acknowledged.
    #[must_use]
    pub fn n_acked(&self) -> u64 {
        self.n_acked
    }

    /// Says that all frames are on the disk, as the last word.
    pub fn bye(&mut self) {
        message::put(kind::BYE, &self.n_frames.to_le_bytes(), &mut self.out);
    }

    /// Says why the connection ends, as the last word.
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

/// The header, once it is whole. It has 96 bytes, as all that travel.
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

/// Takes bytes after the header.
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
