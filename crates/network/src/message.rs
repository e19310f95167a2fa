//! Messages: a head of 8 bytes, and a body of as many bytes as the head says.
//!
//! `docs/collect.md` describes it (messages).

use std::fmt;

/// Bytes of a message's head: kind, three zeros, length of the body.
pub const HEAD_BYTES: usize = 8;

/// What a HELLO begins with.
pub const MAGIC: [u8; 8] = *b"QUIPUNET";

/// The version of the protocol that is spoken here.
pub const VERSION: u16 = 1;

/// Bytes of the secret in a token.
pub const SECRET_BYTES: usize = 32;

/// The longest text of an ERROR.
pub const MAX_TEXT_BYTES: usize = 1024;

/// Ranges that a HAVE lists at most.
pub const MAX_RANGES: usize = 65_536;

/// Bytes of a range in a HAVE.
pub const RANGE_BYTES: usize = 32;

/// The longest frame: what readers of streams allow, with the longest header.
pub const MAX_FRAME_BYTES: u32 = (64 << 20) + 1024;

/// Kinds of messages. Odd ones go from the sender to the collector, even ones back.
pub mod kind {
    /// Who the sender is.
    pub const HELLO: u8 = 1;
    /// It is let in.
    pub const WELCOME: u8 = 2;
    /// Frames of a producer follow.
    pub const BEGIN: u8 = 3;
    /// Which frames of it are there.
    pub const HAVE: u8 = 4;
    /// A frame.
    pub const FRAME: u8 = 5;
    /// How many frames of this connection are on the disk.
    pub const ACK: u8 = 6;
    /// Nothing more comes.
    pub const DONE: u8 = 7;
    /// All of it is on the disk.
    pub const BYE: u8 = 8;
    /// Whether the other side is still there.
    pub const PING: u8 = 9;
    /// Why the connection ends.
    pub const ERROR: u8 = 10;
}

/// The code of an ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Code {
    /// No version is known to both.
    Version = 1,
    /// The token or certificate is not the collector's.
    Denied = 2,
    /// A message or frame that may not be.
    Malformed = 3,
    /// A limit of the collector.
    Limit = 4,
    /// Another connection sends this producer now.
    TakenOver = 5,
    /// The collector could not write.
    Storage = 6,
    /// The collector ends.
    Ending = 7,
    /// The connection was silent for too long.
    Silent = 8,
    /// A code of a later version.
    Unknown = 0xFFFF,
}

impl Code {
    /// The code with this number.
    #[must_use]
    pub fn of(number: u16) -> Code {
        use Code::{Denied, Ending, Limit, Malformed, Silent, Storage, TakenOver, Unknown, Version};
        let all = [Version, Denied, Malformed, Limit, TakenOver, Storage, Ending, Silent];
        all.into_iter().find(|code| *code as u16 == number).unwrap_or(Unknown)
    }

    /// Whether the sender may succeed if it tries again later.
    #[must_use]
    pub fn is_passing(self) -> bool {
        matches!(self, Code::Limit | Code::Storage | Code::Ending | Code::Silent)
    }
}

/// Why a connection cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// For the other side.
    pub code: Code,
    /// For people.
    pub text: String,
}

impl Fault {
    /// A fault with a text.
    pub fn new(code: Code, text: impl Into<String>) -> Fault {
        Fault { code, text: text.into() }
    }

    pub(crate) fn malformed(text: impl Into<String>) -> Fault {
        Fault::new(Code::Malformed, text)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

/// How a sender shows that it may send.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Proof {
    /// It does not: the connection stays on one machine, or TLS has seen a certificate.
    #[default]
    None,
    /// The secret of a token.
    Token([u8; SECRET_BYTES]),
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proof::None => "None",
            Proof::Token(_) => "Token",
        })
    }
}

/// What a HELLO says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The lowest version that the sender speaks.
    pub lowest: u16,
    /// The highest.
    pub highest: u16,
    /// Why it should be let in.
    pub proof: Proof,
}

/// Bytes of a HELLO's body.
pub const HELLO_BYTES: usize = 8 + 4 + 4 + SECRET_BYTES;

impl Hello {
    /// The body of the message.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HELLO_BYTES] {
        let mut body = [0; HELLO_BYTES];
        body[..8].copy_from_slice(&MAGIC);
        body[8..10].copy_from_slice(&self.lowest.to_le_bytes());
        body[10..12].copy_from_slice(&self.highest.to_le_bytes());
        if let Proof::Token(secret) = &self.proof {
            body[12] = 1;
            body[16..].copy_from_slice(secret);
        }
        body
    }

    /// Reads a body.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Hello> {
        let body: &[u8; HELLO_BYTES] = body.try_into().ok()?;
        if body[..8] != MAGIC {
            return None;
        }
        let proof = match body[12] {
            0 => Proof::None,
            1 => Proof::Token(body[16..].try_into().ok()?),
            _ => return None,
        };
        Some(Hello {
            lowest: u16::from_le_bytes([body[8], body[9]]),
            highest: u16::from_le_bytes([body[10], body[11]]),
            proof,
        })
    }
}

/// The head of a message.
#[must_use]
pub fn head(kind: u8, len: u32) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = len.to_le_bytes();
    [kind, 0, 0, 0, a, b, c, d]
}

/// Appends a message. Its body has at most a few megabytes.
pub fn put(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&head(kind, len));
    out.extend_from_slice(body);
}

/// The side of a connection that bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A sender.
    Sender,
    /// A collector.
    Collector,
}

impl From {
    /// How long the body of a message of this kind may be; `None` if this side sends none of that kind.
    fn bodies(self, kind: u8) -> Option<std::ops::RangeInclusive<u32>> {
        const HELLO_LEN: u32 = HELLO_BYTES as u32;
        Some(match (self, kind) {
            (From::Sender, kind::HELLO) => HELLO_LEN..=HELLO_LEN,
            (From::Sender, kind::BEGIN) => 8..=8,
            (From::Sender, kind::FRAME) => 104..=MAX_FRAME_BYTES,
            (From::Sender, kind::DONE | kind::PING) => 0..=0,
            (From::Collector, kind::WELCOME | kind::ACK | kind::BYE) => 8..=8,
            (From::Collector, kind::HAVE) => 8..=(8 + MAX_RANGES * RANGE_BYTES) as u32,
            (From::Collector, kind::ERROR) => 2..=(2 + MAX_TEXT_BYTES) as u32,
            _ => return None,
        })
    }
}

/// A part of what came.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A message that is whole.
    Message(u8, &'a [u8]),
    /// The head of a FRAME, with the length of its body.
    Frame(u32),
    /// Bytes of its body, at least one.
    Bytes(&'a [u8]),
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Head,
    Body {
        kind: u8,
        len: usize,
    },
    /// Bytes of a frame that are still to come.
    Frame(u32),
}

/// Takes bytes apart as they come.
#[derive(Debug)]
pub struct Parser {
    from: From,
    state: State,
    /// What was got of a head or body.
    buffer: Vec<u8>,
    /// The buffer has a message that was given out.
    is_given: bool,
}

impl Parser {
    /// A parser of what this side sends.
    #[must_use]
    pub fn new(from: From) -> Parser {
        Parser { from, state: State::Head, buffer: Vec::new(), is_given: false }
    }

    /// Moves bytes to the buffer until it has `len`; whether it has.
    fn gather(&mut self, len: usize, input: &mut &[u8]) -> bool {
        let n = (len - self.buffer.len()).min(input.len());
        let (taken, rest) = input.split_at(n);
        self.buffer.extend_from_slice(taken);
        *input = rest;
        self.buffer.len() == len
    }

    /// Takes what it can from the front of `input`; `None` if that was all of it and more is needed.
    ///
    /// # Errors
    /// If this side may not send that.
    pub fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Result<Option<Part<'s>>, Fault> {
        if std::mem::take(&mut self.is_given) {
            self.buffer.clear();
        }
        loop {
            match self.state {
                State::Head => {
                    let is_whole = self.gather(HEAD_BYTES, input);
                    let Some(kind) = self.buffer.first().copied() else { return Ok(None) };
                    // Another protocol is known by its first byte, and may send no more than a few.
                    if self.from.bodies(kind).is_none() {
                        return Err(Fault::malformed(format!("no message begins with kind {kind}")));
                    }
                    if !is_whole {
                        return Ok(None);
                    }
                    let len =
                        u32::from_le_bytes([self.buffer[4], self.buffer[5], self.buffer[6], self.buffer[7]]);
                    let is_odd = self.buffer[1..4] != [0; 3];
                    self.buffer.clear();
                    let bodies = self.from.bodies(kind).filter(|_| !is_odd);
                    let bodies = bodies
                        .ok_or_else(|| Fault::malformed(format!("no message begins with kind {kind}")))?;
                    if !bodies.contains(&len) {
                        let what = format!("a message of kind {kind} with a body of {len} bytes");
                        return Err(Fault::malformed(what));
                    }
                    if kind == kind::FRAME {
                        self.state = State::Frame(len);
                        return Ok(Some(Part::Frame(len)));
                    }
                    self.state = State::Body { kind, len: len as usize }; // 32 bits.
                }
                State::Body { kind, len } => {
                    if !self.gather(len, input) {
                        return Ok(None);
                    }
                    self.state = State::Head;
                    self.is_given = true;
                    return Ok(Some(Part::Message(kind, &self.buffer)));
                }
                State::Frame(0) => self.state = State::Head,
                State::Frame(left) => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let n = input.len().min(left as usize); // 32 bits.
                    let (bytes, rest) = input.split_at(n);
                    *input = rest;
                    self.state = State::Frame(left - n as u32); // At most `left`.
                    return Ok(Some(Part::Bytes(bytes)));
                }
            }
        }
    }
}

/// A text of the other side as it may be printed: what a terminal would obey, and what changes the direction of writing, is
/// escaped, and colours are no exception.
#[must_use]
pub fn harmless(text: &[u8]) -> String {
    let mut out = String::new();
    for c in String::from_utf8_lossy(text).chars() {
        match c {
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.extend(c.escape_unicode());
            }
            c if c.is_control() && u32::from(c) < 0x80 => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// The number in a body of 8 bytes.
pub(crate) fn number(body: &[u8]) -> u64 {
    body.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
