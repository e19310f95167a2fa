//! The sender's side of a connection, as a state machine without I/O.
//!
//! `docs/collect.md` describes it (section on the sender).

use crate::have::Have;
use crate::message::{self, Code, Fault, From, HEAD_BYTES, Hello, Parser, Part, Proof, VERSION, kind};
use quipu_stream::frame::Header;
use rustc_hash::FxHashMap;

/// An event from a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The collector admits the sender, and refuses frames larger than this.
    Welcome(u32),
    /// The collector has listed its frames of a producer, whose missing frames may now be sent.
    Have(u64),
    /// The collector has the first frames of this connection on disk, this many in all.
    Ack(u64),
    /// The collector has everything, and ends the connection.
    Bye,
    /// The collector ends the connection for this reason.
    Refused(Fault),
}

/// What to do with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it.
    Send,
    /// Skip it: the collector has it.
    Skip,
    /// Wait: which frames the collector has is not known yet.
    Wait,
}

/// The sending state of a connection.
#[derive(Debug)]
pub struct Sender {
    parser: Parser,
    max_frame_bytes: Option<u32>,
    /// The frames that the collector has, by producer; `None` until it has answered.
    producers: FxHashMap<u64, Option<Have>>,
    n_sent: u64,
    n_acked: u64,
    is_done: bool,
    out: Vec<u8>,
}

impl Sender {
    /// Creates the state of a new connection, which begins with a greeting.
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

    /// Removes and returns the output for the collector.
    pub fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Maximum bytes of a frame, once the collector has admitted the sender.
    #[must_use]
    pub fn max_frame_bytes(&self) -> Option<u32> {
        self.max_frame_bytes
    }

    /// Number of frames sent but not acknowledged.
    #[must_use]
    pub fn n_unacked(&self) -> u64 {
        self.n_sent - self.n_acked
    }

    /// Number of frames sent.
    #[must_use]
    pub fn n_sent(&self) -> u64 {
        self.n_sent
    }

    /// Parses the next event from the front of `input`; `None` if more is needed.
    ///
    /// # Errors
    /// If the collector violates the protocol. The connection must end.
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

    /// Decides what to do with a frame. For a new producer, asks the collector about it.
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

    /// Number of records before a frame that the collector lacks, in the frame's stream, that the collector has or knows to
    /// be lost, according to its answer when the producer began in this connection.
    #[must_use]
    pub fn told_before(&self, header: &Header) -> u64 {
        let have = self.producers.get(&header.producer).and_then(Option::as_ref);
        have.map_or(0, |have| have.told_before(header.stream, header.seq))
    }

    /// Returns the message head for a frame of this many bytes. The frame must follow, after the output of
    /// [`Sender::take_out`].
    pub fn frame(&mut self, len: u32) -> [u8; HEAD_BYTES] {
        self.n_sent += 1;
        message::head(kind::FRAME, len)
    }

    /// Asks for an acknowledgement.
    pub fn ping(&mut self) {
        message::put(kind::PING, &[], &mut self.out);
    }

    /// Announces that nothing more will be sent.
    pub fn done(&mut self) {
        if !std::mem::replace(&mut self.is_done, true) {
            message::put(kind::DONE, &[], &mut self.out);
        }
    }
}
