//! The sender's side of a connection, without I/O.
//!
//! `docs/collect.md` describes it (the sender).

use crate::have::Have;
use crate::message::{self, Code, Fault, From, HEAD_BYTES, Hello, Parser, Part, Proof, VERSION, kind};
use quipu_stream::frame::Header;
use rustc_hash::FxHashMap;

/// What a collector did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It lets the sender in; larger frames are refused.
    Welcome(u32),
    /// It says what it has of a producer; frames of that may be sent.
    Have(u64),
    /// It has the first frames of this connection on its disk, this many in all.
    Ack(u64),
    /// It has all, and ends the connection.
    Bye,
    /// It ends the connection for this reason.
    Refused(Fault),
}

/// What is to be done with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is to be sent.
    Send,
    /// The collector has it.
    Skip,
    /// What the collector has is not known yet.
    Wait,
}

/// The state of a connection.
#[derive(Debug)]
pub struct Sender {
    parser: Parser,
    max_frame_bytes: Option<u32>,
    /// What the collector has, once it said so.
    producers: FxHashMap<u64, Option<Have>>,
    n_sent: u64,
    n_acked: u64,
    is_done: bool,
    out: Vec<u8>,
}

impl Sender {
    /// A new connection, which begins with a greeting.
    #[must_use]
    pub fn new(proof: Proof) -> Sender {
        let mut out = Vec::new();
        message::put(kind::HELLO, &Hello { lowest: VERSION, highest: VERSION, proof }.to_bytes(), &mut out);
        Sender {
            parser: Parser::new(From::Collector),
            max_frame_bytes: None,
            producers: FxHashMap::default(),
            n_sent: 0,
            n_acked: 0,
            is_done: false,
            out,
        }
    }

    /// Bytes for the collector; they are taken away.
    pub fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The largest frame that the collector takes, once it has let the sender in.
    #[must_use]
    pub fn max_frame_bytes(&self) -> Option<u32> {
        self.max_frame_bytes
    }

    /// Frames that were sent and are not acknowledged.
    #[must_use]
    pub fn n_unacked(&self) -> u64 {
        self.n_sent - self.n_acked
    }

    /// Frames that were sent.
    #[must_use]
    pub fn n_sent(&self) -> u64 {
        self.n_sent
    }

    /// Takes what it can from the front of `input`; `None` if more is needed.
    ///
    /// # Errors
    /// If a collector may not do that. The connection is to end.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Fault> {
        let Some(part) = self.parser.next(input)? else { return Ok(None) };
        let Part::Message(kind, body) = part else {
            return Err(Fault::malformed("a frame from a collector"));
        };
        let event = match (kind, self.max_frame_bytes) {
            (kind::ERROR, _) => {
                let (code, text) = body.split_first_chunk().unwrap_or((&[0xFF; 2], &[]));
                let code = Code::of(u16::from_le_bytes(*code));
                Event::Refused(Fault::new(code, message::harmless(text)))
            }
            (kind::WELCOME, None) => {
                if body[..2] != VERSION.to_le_bytes() {
                    return Err(Fault::new(
                        Code::Version,
                        "the collector chose a version that it was not offered",
                    ));
                }
                let max = u32::from_le_bytes([body[4], body[5], body[6], body[7]]);
                self.max_frame_bytes = Some(max);
                Event::Welcome(max)
            }
            (kind::HAVE, Some(_)) => {
                let (producer, have) = Have::read(body)?;
                match self.producers.get_mut(&producer) {
                    Some(slot @ None) => *slot = Some(have),
                    _ => return Err(Fault::malformed("an answer that was not asked for")),
                }
                Event::Have(producer)
            }
            (kind::ACK, Some(_)) => {
                let n = message::number(body);
                if n < self.n_acked || n > self.n_sent {
                    return Err(Fault::malformed("an acknowledgement of frames that were not sent"));
                }
                self.n_acked = n;
                Event::Ack(n)
            }
            (kind::BYE, Some(_)) => {
                if !self.is_done || message::number(body) != self.n_sent {
                    return Err(Fault::malformed("an end that was not asked for"));
                }
                self.n_acked = self.n_sent;
                Event::Bye
            }
            _ => return Err(Fault::malformed("a message at a time when it means nothing")),
        };
        Ok(Some(event))
    }

    /// What is to be done with a frame. Asks the collector about producers that are new.
    pub fn judge(&mut self, header: &Header) -> Verdict {
        match self.producers.get(&header.producer) {
            Some(Some(have)) if have.contains(header.stream, header.seq) => Verdict::Skip,
            Some(Some(_)) => Verdict::Send,
            Some(None) => Verdict::Wait,
            None => {
                self.producers.insert(header.producer, None);
                message::put(kind::BEGIN, &header.producer.to_le_bytes(), &mut self.out);
                Verdict::Wait
            }
        }
    }

    /// Records that the collector has of the stream of a frame that it has not, before that frame, or knows to be lost, by what
    /// it said when the producer began in this connection.
    #[must_use]
    pub fn told_before(&self, header: &Header) -> u64 {
        let have = self.producers.get(&header.producer).and_then(Option::as_ref);
        have.map_or(0, |have| have.told_before(header.stream, header.seq))
    }

    /// The head of the message that a frame of this many bytes is the body of; the frame is to follow, after what
    /// [`Sender::take_out`] has.
    pub fn frame(&mut self, len: u32) -> [u8; HEAD_BYTES] {
        self.n_sent += 1;
        message::head(kind::FRAME, len)
    }

    /// Asks for an acknowledgement.
    pub fn ping(&mut self) {
        message::put(kind::PING, &[], &mut self.out);
    }

    /// Says that nothing more comes.
    pub fn done(&mut self) {
        if !std::mem::replace(&mut self.is_done, true) {
            message::put(kind::DONE, &[], &mut self.out);
        }
    }
}
